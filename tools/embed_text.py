#!/usr/bin/env python3
"""Makes C strings of text files that are cut into pieces by lines `// ==== name ====`: embed_text.py PREFIX OUT FILE.. writes PREFIX<name>[] for each."""
import re
import sys


def pieces(path):
    """(name, lines) of a file; what stands before the first piece is for its readers alone."""
    name, lines = None, []
    for line in open(path, encoding="utf-8").read().splitlines():
        m = re.fullmatch(r"// ==== (\w+) ====", line)
        if not m:
            lines.append(line)
            continue
        if name:
            yield name, lines
        name, lines = m.group(1), []
    if name:
        yield name, lines


def quoted(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def main():
    prefix, out, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(out, "w", encoding="utf-8") as f:
        f.write("// Made by tools/embed_text.py.\n")
        for path in files:
            for name, lines in pieces(path):
                text = "\n".join("    " + quoted(line) for line in lines if line) or '    ""'
                f.write(f"extern const char {prefix}{name}[];\nconst char {prefix}{name}[] =\n{text};\n")


if __name__ == "__main__":
    main()
