#!/usr/bin/env python3
"""embed.py OUT NAME FILE..: writes a C file whose `const char NAME[]` is the text of the files, one after the other."""
import pathlib
import sys


def main():
    out, name, *files = sys.argv[1:]
    data = b"".join(pathlib.Path(f).read_bytes() for f in files) + b"\0"
    lines = [",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]
    text = f"extern const char {name}[];\nconst char {name}[] = {{\n" + ",\n".join(lines) + "\n};\n"
    pathlib.Path(out).write_text(text)


if __name__ == "__main__":
    main()
