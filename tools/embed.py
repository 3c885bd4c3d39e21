#!/usr/bin/env python3
"""embed.py OUT NAME FILE..: writes a C file whose `const char NAME[]` is the text of the files, one after the other.
embed.py --pieces OUT PREFIX FILE..: cuts files at lines `// ==== name ====`; `const char PREFIXname[]` is the text behind such a line, up to the next one.
What stands before a file's first such line is for its readers alone."""
import pathlib
import re
import sys


def array(name, data):
    data += b"\0"
    lines = [",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]
    return f"extern const char {name}[];\nconst char {name}[] = {{\n" + ",\n".join(lines) + "\n};\n"


def main():
    pieces = sys.argv[1] == "--pieces"
    out, name, *files = sys.argv[1 + pieces :]
    texts = [pathlib.Path(f).read_bytes() for f in files]
    if pieces:
        cut = [re.split(rb"^// ==== (\w+) ====\n", text, flags=re.MULTILINE) for text in texts]
        named = [(name + c[i].decode(), c[i + 1]) for c in cut for i in range(1, len(c), 2)]
    else:
        named = [(name, b"".join(texts))]
    pathlib.Path(out).write_text("".join(array(*n) for n in named))


if __name__ == "__main__":
    main()
