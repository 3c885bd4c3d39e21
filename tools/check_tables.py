#!/usr/bin/env python3
"""Holds tables to what their columns say: each is read by somebody, each row has all of them, and no code takes
the order of the ops for a meaning.

A table is a .def file of rows such as TC_OP(ADD, add, ..), or a macro that calls its parameter row by row, such as
LIST(X) X(ADD, add) X(SUB, sub). A column is read where a macro that the rows are given to uses the parameter in its
place. Exit status 1 if one is read by nobody.
"""
import re
import sys
from collections import defaultdict

import c_source
from c_source import ROOT

# Enumerators made from a table: `op >= TC_OP_A && op <= TC_OP_B` is a column that is missing.
RANGE = re.compile(r"(?:(?<![<>-])[<>]=?|\.\.\.) *TC_(?:OP|KIND|IR)_[A-Z]\w*|TC_(?:OP|KIND|IR)_[A-Z]\w* *(?:[<>]=?(?![<>=])|\.\.\.)")
TOPS = ["runtime", "device", "kernels", "lazy", "lowering", "include", "tests", "tools", "bench", "examples"]


def rows_of(line):
    """(name, arguments) of each row in tokens of code."""
    i = 0
    while i < len(line):
        if line[i].kind == "word" and i + 1 < len(line) and line[i + 1].text == "(":
            given, after = c_source.arguments(line, i + 1)
            if given is not None:
                yield line[i].text, given
                i = after
                continue
        i += 1


def macros_of(texts):
    """(path, macro) of every macro with parentheses."""
    for path, text in texts.items():
        for m in re.finditer(r"^[ \t]*#[ \t]*(define[ \t]+\w+\((?:\\\n|.)*)", text, re.M):
            yield path, c_source.macro_of([t for t in c_source.tokens(m.group(1)) if t.kind != "newline"])


def tables_of(texts, macros):
    """(where, the macro of a row or a list, readers, rows): readers are the macros that rows are given to."""
    for path, text in texts.items():
        if path.endswith(".def"):
            rows = defaultdict(list)
            for kind, line in c_source.statements(text):
                for name, given in rows_of(line) if kind == "code" else ():
                    rows[name].append(given)
            for name, found in rows.items():
                yield path, name, {name}, found
    given_to = defaultdict(set)  # name of a list -> macros that it is called with
    for text in texts.values():
        for name, reader in re.findall(r"\b([A-Z][A-Z0-9_]*)\((\w+)\)", text):
            given_to[name].add(reader)
    for path, macro in macros:
        if len(macro.params) == 1:
            found = [given for name, given in rows_of(macro.body) if name == macro.params[0]]
            if len(found) > 2:
                yield path, macro.name, given_to[macro.name], found


def check_table(readers, rows, macros, is_file):
    width = max(len(row) for row in rows)
    used, named = set(), {}
    for _, macro in macros:
        if macro.name in readers:
            words = {t.text for t in macro.body}
            for i, param in enumerate(macro.params):
                last = param == "..."
                for column in range(i, width) if last else [i]:
                    named.setdefault(column, param)
                    if ("__VA_ARGS__" if last else param) in words:
                        used.add(column)
    if not named and is_file:
        yield "nobody expands its rows"
    if named:
        for column in range(width):
            if column not in used:
                yield f"column {column + 1} ({named.get(column, 'of no name')}) is read by nobody"
        variadic = any(macro.params[-1:] == ["..."] for _, macro in macros if macro.name in readers)
        short = [row for row in rows if len(row) < width]
        if short and not variadic:
            yield f"{len(short)} rows have fewer than {width} columns: {''.join(t.text for t in short[0][0])}"


def check(texts):
    macros = list(macros_of(texts))
    n, bad = 0, []
    for path, name, readers, rows in tables_of(texts, macros):
        n += 1
        bad += [f"{path}: {name}: {what}" for what in check_table(readers, rows, macros, path.endswith(".def"))]
    for path, text in texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            if "TC_" in line and RANGE.search(line.split("//")[0]):
                bad.append(f"{path}:{number}: a range over enumerators; give the table a column: {line.strip()}")
    return n, bad


def main():
    n, bad = check({path: (ROOT / path).read_text() for path in c_source.sources(TOPS)})
    print("\n".join(bad), end="\n" if bad else "")
    print(f"tables: {n} tables, {len(bad)} breaches")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
