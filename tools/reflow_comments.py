#!/usr/bin/env python3
"""Rewraps comments at 100 columns, where clang-format knows one limit for code and comments alike.

Usage: reflow_comments.py FILE..   rewrites them in place and names what it leaves to a person
A paragraph is rewrapped if one of its lines is too long. A paragraph begins at a label such as `Threads:` and where the
author began a line with a sentence although there was room before. Lines indented by three columns or more, lists, and
what `// clang-format off` protects stay as they are. A comment behind code that makes the line longer than 120 columns
goes above it.
"""
import re
import sys
import textwrap

COMMENT_COLUMNS, COLUMNS, OLD_COLUMNS = 100, 120, 150
LABEL = re.compile(r"[A-Z][\w ]{0,20}: ")
KEPT = re.compile(r"//($| ====|[^ ]| {3,}| [-*] | \d+[.)] |.*clang-format|.*://)")


def wrap(indent, words):
    begin = indent + "// "
    return textwrap.wrap(" ".join(words), COMMENT_COLUMNS, initial_indent=begin, subsequent_indent=begin,
                         break_long_words=False, break_on_hyphens=False)


def indent_of(line):
    return re.match(r"\s*", line).group()


def begins_paragraph(before, line):
    """Whether a line of comment was not meant to go on from the one before."""
    words = line.strip()[3:]
    if LABEL.match(words):
        return True
    room = len(before) + 1 + len(words.split(" ")[0]) <= OLD_COLUMNS - 8
    return bool(re.search(r"[.:!?)]$", before)) and room


def paragraphs(block):
    parts = []
    for line in block:
        before = parts[-1][-1] if parts else line
        kept = KEPT.match(line.strip()) or KEPT.match(before.strip())
        if parts and not kept and not begins_paragraph(before, line):
            parts[-1].append(line)
        else:
            parts.append([line])
    return parts


def reflowed(block):
    for part in paragraphs(block):
        if KEPT.match(part[0].strip()) or all(len(line) <= COMMENT_COLUMNS for line in part):
            yield from part
        else:
            yield from wrap(indent_of(part[0]), [line.strip()[2:].strip() for line in part])


def behind_code(line):
    """(code, comment) of a line with both; (line, None) of another."""
    m = re.match(r'((?:[^"/\']|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/(?!/))*?\S)\s*//[/!<]* ?(.*)$', line)
    return (m.group(1), m.group(2)) if m and not line.lstrip().startswith("//") else (line, None)


def reflow(text, tell):
    out, block, off = [], [], False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        off = (off or "clang-format off" in line) and "clang-format on" not in line
        if re.match(r"\s*//", line) and not off and (not block or indent_of(block[0]) == indent_of(line)):
            block.append(line)
            continue
        out += reflowed(block)
        block = []
        if re.match(r"\s*//", line) and not off:
            block = [line]
            continue
        code, comment = behind_code(line)
        if comment and len(line) > COLUMNS and not off and len(code) <= COLUMNS:
            after = lines[number] if number < len(lines) else ""
            goes_on = re.match(r"\s+//", after) and len(indent_of(after)) > len(indent_of(line))
            if code.lstrip().startswith("}") or code.startswith("#") or goes_on:
                tell(number, "a comment behind code that only a person can place")
            else:
                out += wrap(indent_of(line), [comment])
                line = code
        out.append(line)
    return "\n".join(out + list(reflowed(block)))


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            old = f.read()
        new = reflow(old, lambda number, what: print(f"{path}:{number}: {what}"))
        if new != old:
            with open(path, "w", encoding="utf-8") as f:
                f.write(new)


if __name__ == "__main__":
    main()
