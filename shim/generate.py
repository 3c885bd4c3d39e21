#!/usr/bin/env python3
"""Makes the shim's entries and tables of routines.def and spellings.def.

generate.py PROCESSOR entries|tables OUTPUT
In: the two tables beside this file. Out: entries, assembly with a row an exported name; tables, C with a row a routine
(its types apart): where each argument lies, the sizes of its operands, what it computes.
Example: ROUTINE(?ger, ..) and SPELLING(cblas_*64_, ..) make the entry cblas_dger64_, whose m is the second integer.
"""
import pathlib
import re
import sys
from collections import namedtuple

HERE = pathlib.Path(__file__).resolve().parent
Row = namedtuple("Row", "name types level result arguments volume flops action")
Spelling = namedtuple("Spelling", "pattern calls integers levels")
Routine = namedtuple("Routine", "name row number type complex_scalars args")
# Arguments in registers: how many integers; where they are saved, in words from the frame's base (stubs.S).
INTEGERS = {"x86_64": 6, "aarch64": 8}
FLOATS_AT = {"x86_64": -8, "aarch64": -10}
FLAGS = ("side", "uplo", "transa", "transb", "diag")
SIZES = ("m", "n", "k", "kl", "ku")
WORD = re.compile(r"(mat|band|vec|packed)(\+?)\[([^\]]*)\]|(\w+)")


def rows(file, word, kind):
    """The rows of a table; a comma inside parentheses, brackets or quotes does not part columns."""
    for line in (HERE / file).read_text().splitlines():
        m = re.match(rf"{word}\((.*)\)\s*(?://.*)?$", line)
        if m:
            columns = re.findall(r'\s*("[^"]*"|[^,\s][^,]*)', m.group(1))
            yield kind(*(c.strip().strip('"') for c in columns))


def routines():
    """A routine for each type of each row."""
    for number, row in enumerate(rows("routines.def", "ROUTINE", Row)):
        for letters in row.types.split():
            kind = next((c for c in letters if c in "cz"), letters)
            name = row.name.replace("?", letters)
            yield Routine(name, row, number, kind, kind in "cz", list(WORD.finditer(row.arguments)))


def spelled():
    """(exported name, routine's number, spelling) of every entry."""
    for spelling in rows("spellings.def", "SPELLING", Spelling):
        for number, routine in enumerate(routines()):
            if int(routine.row.level) >= int(spelling.levels):
                sub = "_sub" if spelling.calls == "cblas" and routine.row.result == "complex" else ""
                yield spelling.pattern.replace("*", routine.name + sub), number, spelling


def layout(routine, cblas, processor):
    """Field -> place of its word; which scalars are values; how many words of the stack are arguments."""
    places, values, n_ints, n_floats, n_operands, n_steps = {}, [], 0, 0, 0, 0

    def integer():
        nonlocal n_ints
        n_ints += 1
        at = n_ints - 1
        return -1 - at if at < INTEGERS[processor] else 2 + at - INTEGERS[processor]

    if cblas and int(routine.row.level) > 1:
        places["order"] = integer()
    for m in routine.args:
        word = m.group(1) or m.group(4)
        real = word in ("ralpha", "rbeta", "real") or (word in ("alpha", "beta") and not routine.complex_scalars)
        if cblas and real:
            at = FLOATS_AT[processor] - 2 * n_floats
            n_floats += 1
        else:
            at = integer()
        if word in ("alpha", "ralpha", "beta", "rbeta"):
            field = word.lstrip("r")
            places[field] = at
            values += [field] if cblas and real else []
        elif word in FLAGS + SIZES:
            places[word] = at
        elif m.group(1):
            places[f"operand{n_operands}"] = at
            n_operands += 1
        elif word in ("ld", "inc"):
            n_steps = n_operands - 1
            places[f"step{n_steps}"] = at
    if cblas and routine.row.result == "complex":
        integer()
    if not cblas:
        n_ints += sum(m.group(4) in FLAGS for m in routine.args)
    return places, values, max(0, n_ints - INTEGERS[processor])


def layout_text(routine, cblas, processor):
    places, values, n_stack = layout(routine, cblas, processor)
    at = ", ".join(f"[TC_AT_{field.upper()}] = {place}" for field, place in places.items())
    has = " | ".join(f"1u << TC_AT_{field.upper()}" for field in places) or "0"
    by_value = " | ".join(f"1u << TC_AT_{field.upper()}" for field in values) or "0"
    return f"{{.at = {{{at}}}, .has = {has}, .by_value = {by_value}, .n_stack = {n_stack}}}"


def operand_text(m):
    return f"{{TC_SHAPE_{m.group(1).upper()}, {'true' if m.group(2) else 'false'}}}"


def measure_case(number, row):
    """What a row's operands measure, of the sizes and flags that were read."""
    lines = [f"    case {number}:  // {row.name}"]
    operands = [m for m in WORD.finditer(row.arguments) if m.group(1)]
    for at, m in enumerate(operands):
        extents = [e.strip() for e in m.group(3).split(",")] + ["1"]
        lines += [f"      c->rows[{at}] = {extents[0]};", f"      c->columns[{at}] = {extents[1]};"]
    as_double = lambda text: re.sub(r"\b(m|n|k|kl|ku|q)\b", r"(double)\1", text)
    return lines + [f"      c->volume = {as_double(row.volume)};", f"      c->flops = {as_double(row.flops)};", "      break;"]


def tables(processor):
    out = ["// Made by shim/generate.py.", '#include "shim/shim.h"', "", "const tc_shim_routine tc_shim_routines[] = {"]
    for r in routines():
        operands = ", ".join(operand_text(m) for m in r.args if m.group(1))
        action = "TC_SHIM_FORWARD"
        if r.row.action == "direct" and r.type in "sd":
            action = "TC_SHIM_" + r.row.name.lstrip("?").upper()
        out.append(f'  {{.name = "{r.name}", .type = \'{r.type}\', .row = {r.number}, .level = {r.row.level}, .action = {action}, '
                   f".is_complex_value = {'true' if r.row.result == 'complex' else 'false'}, "
                   f".n_operands = {sum(bool(m.group(1)) for m in r.args)}, .operand = {{{operands or '{0}'}}},\n"
                   f"   .fortran = {layout_text(r, False, processor)},\n   .cblas = {layout_text(r, True, processor)}}},")
    out += ["};", "", "const tc_shim_entry tc_shim_entries[] = {"]
    names, at = [], 0
    for name, number, spelling in spelled():
        bits = {"32": 32, "64": 64, "provider": 0}[spelling.integers]
        out.append(f"  {{.name = {at}, .routine = {number}, .bits = {bits}, .is_cblas = {'true' if spelling.calls == 'cblas' else 'false'}}},")
        names.append(name)
        at += len(name) + 1
    out += ["};", f"const uint32_t tc_shim_n_entries = {len(names)};", "", "const char tc_shim_names[] ="]
    out += [f'    "{name}\\0"' for name in names]
    out[-1] += ";"
    out += ["", "// Bytes: a slot an entry, all zero until its first call.", f"tc_shim_slot tc_shim_slots[{len(names)}];", "",
            "void tc_shim_measure(uint32_t row, tc_shim_call *c) {",
            "  const int64_t m = c->m, n = c->n, k = c->k, kl = c->kl, ku = c->ku, q = c->right ? n : m;",
            "  const bool ta = c->transa, tb = c->transb;", "  (void)m, (void)k, (void)kl, (void)ku, (void)q, (void)ta, (void)tb;", "  switch (row) {"]
    for number, row in enumerate(rows("routines.def", "ROUTINE", Row)):
        out += measure_case(number, row)
    return out + ["    default: break;", "  }", "}"]


def entries():
    out = ["// Made by shim/generate.py: an entry an exported name.", '#include "shim/stubs.S"']
    out += ["FUNCTION tc_shim_entries_begin", *(f"ENTRY {number}, {name}" for number, (name, _, _) in enumerate(spelled()))]
    return out + ["FUNCTION tc_shim_entries_end"]


def main():
    processor, what, output = sys.argv[1:]
    text = entries() if what == "entries" else tables(processor)
    pathlib.Path(output).write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
