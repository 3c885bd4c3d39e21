#!/usr/bin/env python3
"""Makes include/tc/sites.h from include/tc/api.def, io.def and nn.def. With --check: exits 1 if the file is not what would be made."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "include/tc/sites.h"
# Functions that are not in api.def, and have a form with a call site.
OTHERS = ["to_host", "eval", "sync", "map", "map_shared", "print", "assign", "backward"]
ITEMS = ["f32", "f64", "i32", "i64", "bool"]

HEAD = """\
// Gives every op the call site: the plain names become macros that pass one constant string. Made by tools/make_sites.py from api.def, io.def and nn.def.
// Define TC_NO_SITES before tc.h to leave the names alone. In C a number as second operand chooses the _num form.
#ifndef TC_SITES_H
#define TC_SITES_H

#ifndef __cplusplus
static inline tc_tensor tc_operand_tensor_(tc_tensor t) {
  return t;
}
#define TC_OPERAND_(b) _Generic((b), tc_tensor: tc_operand_tensor_, float: tc_num_float, double: tc_num_float, default: tc_num_int)(b)
// Each operand is written once: nested calls stay linear in size, and a mistake is reported once. id makes the names new at every depth.
#define TC_BINARY_(tensors, number, a, b, id) TC_BINARY_AT_(tensors, number, a, b, id)
#define TC_BINARY_AT_(tensors, number, a, b, id) \\
  __extension__({ \\
    tc_tensor tc_a_##id = (a); \\
    __auto_type tc_b_##id = (b); \\
    _Generic(tc_b_##id, tc_tensor: tensors, default: number)(tc_a_##id, TC_OPERAND_(tc_b_##id), TC_HERE); \\
  })
"""


def text():
    ops = re.findall(r"^TC_FN\((tc_\w+),", (ROOT / "include/tc/api.def").read_text(), re.M)
    calls = [name for file in ("io", "nn") for name in re.findall(r"^TC_CALL\([\w* ]+, (tc_\w+),", (ROOT / f"include/tc/{file}.def").read_text(), re.M)]
    with_number = [op for op in ops if op + "_num" in ops]
    lines = [HEAD]
    for op in with_number:
        lines.append(f"#define {op}(a, b) TC_BINARY_({op}_at, {op}_num_at, a, b, __COUNTER__)\n")
    lines.append("#endif\n\n")
    for op in ops:
        if op not in with_number:
            lines.append(f"#define {op}(...) {op}_at(__VA_ARGS__, TC_HERE)\n")
    for name in calls:
        lines.append(f"#define {name}(...) {name}_at(__VA_ARGS__, TC_HERE)\n")
    for name in OTHERS:
        lines.append(f"#define tc_{name}(...) tc_{name}_at(__VA_ARGS__, TC_HERE)\n")
    for name in ITEMS:
        lines.append(f"#define tc_item_{name}(t, out) tc_item_at((t), TC_{name.upper()}, (out), TC_HERE)\n")
    lines.append("\n#endif\n")
    return "".join(lines)


def main():
    if sys.argv[1:] == ["--check"]:
        if OUT.read_text() != text():
            print("include/tc/sites.h is stale: run tools/make_sites.py")
            return 1
        return 0
    OUT.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
