#!/usr/bin/env python3
"""Keeps out words that the project has retired: tools/retired_words.txt lists them and what stands in their place.

Looks at every line, and the name, of the sources, tests, tools and texts. Exit status 1 if a retired word is there.
`--summary` prints how often each word is left instead of where; PATHS look at these files or folders alone.
"""
import os
import re
import sys
from collections import Counter, namedtuple

from c_source import ROOT

TOPS = ["runtime", "device", "kernels", "lazy", "lowering", "shim", "include", "examples", "tests", "tools", "docs", "bench",
        "README.md", "dev", "meson.build", "meson_options.txt"]
TEXTS = (".c", ".h", ".def", ".hpp", ".cpp", ".k", ".py", ".md", ".txt", ".trace", ".map", ".1", ".3", ".cases", "meson.build", "dev")
WORD = re.compile(r"(?:\w+/)*\w+\.(?:c|h|def)\b|\w+")  # a name of a file, or a word
LIST = "tools/retired_words.txt"
# The list itself, its test, and history, which tells of what was.
LEFT_OUT = (LIST, "tests/lint.py", "bench/history.md", "tests/golden", "include/tc/dlpack.h")


class Rule(namedtuple("Rule", "pattern replacement inside outside")):
    """A line of the list, with the paths under which it holds (none: all) and does not."""


def rules_of_list():
    for number, line in enumerate((ROOT / LIST).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        m = re.fullmatch(r"(.+?) -> (.+?)(?: in ([\w./-]+(?: (?!but )[\w./-]+)*))?(?: but ([\w./ -]+))?", line)
        if not m:
            sys.exit(f"{LIST}:{number}: no line of the form `PATTERN -> REPLACEMENT [in PATH..] [but PATH..]`")
        inside, outside = ((m.group(i) or "").split() for i in (3, 4))
        yield Rule(re.compile(m.group(1)), m.group(2), tuple(inside), tuple(outside))


def files(tops):
    for top in tops:
        one = [(str((ROOT / top).parent), [], [os.path.basename(top)])]
        for folder, _, names in os.walk(ROOT / top) if (ROOT / top).is_dir() else one:
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if path.endswith(TEXTS) and not path.startswith(LEFT_OUT):
                    yield path


def is_under(path, places):
    return any(path == place or path.startswith(place + "/") for place in places)


def spots(text, rules, known):
    """(place in the text, what stands there, rule) of each retired word.

    Words and names of files are looked up once (known), phrases are searched for. An identifier counts as retired if
    one of its parts between underscores does.
    """
    single = [r for r in rules if " " not in r.pattern.pattern]
    for m in WORD.finditer(text):
        word = m.group()
        if word not in known:
            parts = {word, *(word.split("_") if word.isidentifier() else ())}
            known[word] = [r for r in single if any(r.pattern.fullmatch(part) for part in parts)]
        for rule in known[word]:
            yield m.start(), word, rule
    for rule in rules:
        if " " in rule.pattern.pattern:
            for m in rule.pattern.finditer(text):
                if not re.search(r"\w", text[max(m.start() - 1, 0):m.start()] + text[m.end():m.end() + 1]):
                    yield m.start(), m.group(), rule


def main():
    arguments = [a for a in sys.argv[1:] if a != "--summary"]
    rules = list(rules_of_list())
    left, n_files, known = Counter(), 0, {}
    for path in files(arguments or TOPS):
        n_files += 1
        text = f"{path}\n" + (ROOT / path).read_text(encoding="utf-8", errors="replace")
        for at, word, rule in sorted(spots(text, rules, known), key=lambda spot: spot[0]):
            if (rule.inside and not is_under(path, rule.inside)) or is_under(path, rule.outside):
                continue
            left[rule] += 1
            if "--summary" not in sys.argv:
                print(f"{path}:{max(text.count(chr(10), 0, at), 1)}: {word} -> {rule.replacement}")
    if "--summary" in sys.argv:
        for rule, n in left.most_common():
            print(f"{n:6} {rule.pattern.pattern} -> {rule.replacement}")
    print(f"words: {n_files} files, {len(rules)} retired words, {sum(left.values())} left")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
