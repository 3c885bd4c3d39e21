#!/usr/bin/env python3
"""Holds the tables (*.def) to what their columns say: each is read by somebody, and no code takes the order of the ops for a meaning."""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFINE = re.compile(r"^ *#define (TC_[A-Z_]+)\(([^()]*)\)((?:.*\\\n)*.*)", re.M)
ROW = re.compile(r"^(TC_[A-Z_]+)\(", re.M)
# Enumerators made from a table: `op >= TC_OP_A && op <= TC_OP_B` is a column that is missing.
RANGE = re.compile(r"(?:[<>]=?|\.\.\.) *TC_(?:OP|KIND)_[A-Z]\w*|TC_(?:OP|KIND)_[A-Z]\w* *(?:[<>]=?(?![<>=])|\.\.\.)")


def read_columns(macro, sources):
    """The columns of a table's rows by the longest list of their names; which of them an expansion reads; whether there is one."""
    names, read, expanded = [], collections.defaultdict(bool), False
    for text in sources:
        for found, params, body in DEFINE.findall(text):
            params = [p.strip() for p in params.split(",")]
            if found != macro:
                continue
            expanded = True
            for at, name in enumerate(params):
                read[at] |= name != "..." and re.search(rf"\b{re.escape(name)}\b", body.replace("##", " ")) is not None
            if len(params) > len(names) and params[-1] != "...":
                names = params
    return names, read, expanded


def main():
    files = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.hpp", "*.def"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    texts = {name: (ROOT / name).read_text(errors="replace") for name in files}
    faults, n_tables = [], 0
    for table in (name for name in files if name.endswith(".def")):
        for macro in sorted(set(ROW.findall(texts[table]))):
            n_tables += 1
            names, read, expanded = read_columns(macro, texts.values())
            faults += [f"{table}: nobody reads the column {name} of {macro}" for at, name in enumerate(names) if not read[at]]
            if not expanded:
                faults.append(f"{table}: nobody expands {macro}")
    for name, text in texts.items():
        for at, line in enumerate(text.split("\n"), 1):
            if RANGE.search(line.split("//")[0]):
                faults.append(f"{name}:{at}: a range over enumerators; give the table a column: {line.strip()}")
    print("\n".join(faults + [f"tables: {n_tables}, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
