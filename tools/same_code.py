#!/usr/bin/env python3
"""Tells whether two revisions have the same code, comments aside: token for token, in each source file that a commit
of comments or layout may touch.

Usage: same_code.py OLD-REV [NEW-REV] [-- PATHS]   NEW-REV: the working tree; PATHS: the library's folders
Literals count, and so does where a line of the preprocessor ends. White space and line breaks do not, nor how a string
is parted into pieces that lie side by side. Files are followed where they were renamed (git diff -M). Exit status 1 if
a file differs, was added or is gone: of one that differs, its first different token is printed.
"""
import re
import subprocess
import sys

from c_source import ROOT, TOKEN

TOPS = ["runtime", "device", "kernels", "lazy", "lowering", "include"]
SUFFIXES = (".c", ".h", ".hpp", ".cpp", ".def")


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True, text=True).stdout


def text_at(revision, path):
    return (ROOT / path).read_text() if revision is None else git("show", f"{revision}:{path}")


def joins(left, right):
    """Whether two string literals side by side are one: not where an escape at the end of the left one would go on."""
    return left[0] == right[0] == '"' and not re.search(r"\\(x[0-9a-fA-F]*|[0-7]{1,2})\"$", left)


def code_of(text):
    """[(token, line)]: without comments and white space; a line of the preprocessor ends with a token of its own."""
    found, line, directive, fresh = [], 1, False, True
    for m in TOKEN.finditer(text):
        kind, word = m.lastgroup, m.group()
        if kind == "newline":
            if directive:
                found.append(("end of the line", line))
            directive, fresh = False, True
        elif kind not in ("space", "comment"):
            directive = directive or (fresh and word == "#")
            fresh = False
            if kind == "string" and found and found[-1][0][0] == '"' and joins(found[-1][0], word):
                found[-1] = (found[-1][0][:-1] + word[1:], found[-1][1])
            else:
                found.append((word, line))
        line += word.count("\n") if kind in ("space", "newline", "comment") else 0
    return found


def first_difference(old, new):
    """None, or what the first tokens are that differ, with their lines."""
    a, b = code_of(old), code_of(new)
    end = ("the end of the file", max(old.count("\n"), new.count("\n")))
    for i in range(max(len(a), len(b))):
        x, y = a[i] if i < len(a) else end, b[i] if i < len(b) else end
        if x[0] != y[0]:
            return f"line {x[1]} had {x[0]}, line {y[1]} has {y[0]}"
    return None


def pairs(old, new, paths):
    """(path in old, path in new) of the files that changed; None for one that is not there."""
    rows = git("diff", "-M", "--name-status", old, *([new] if new else []), "--", *paths).splitlines()
    for row in rows:
        status, *names = row.split("\t")
        if status[0] in "RM" or status == "T":
            yield names[0], names[-1]
        elif status[0] == "A":
            yield None, names[0]
        elif status[0] == "D":
            yield names[0], None
    if new is None:
        for path in git("ls-files", "--others", "--exclude-standard", "--", *paths).splitlines():
            yield None, path


def main():
    arguments = sys.argv[1:]
    paths = arguments[arguments.index("--") + 1:] if "--" in arguments else TOPS
    revisions = arguments[:arguments.index("--")] if "--" in arguments else arguments
    if not 1 <= len(revisions) <= 2:
        sys.exit(__doc__)
    old, new = revisions[0], revisions[1] if len(revisions) == 2 else None
    n_same, n_other = 0, 0
    for before, after in pairs(old, new, paths):
        if not (after or before).endswith(SUFFIXES):
            continue
        if not before or not after:
            said = "is new" if after else "is gone"
        else:
            said = first_difference(text_at(old, before), text_at(new, after))
        n_same, n_other = n_same + (said is None), n_other + (said is not None)
        if said:
            print(f"{after or before}: {said}")
    print(f"same code: {n_same} changed files have the same code, {n_other} do not")
    return 1 if n_other else 0


if __name__ == "__main__":
    sys.exit(main())
