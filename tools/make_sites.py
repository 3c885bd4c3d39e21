#!/usr/bin/env python3
"""Gives every public function that records, can fail or syncs a form with a call site: name_at(.., tc_site site).

From include/tc/api.def (the ops), tc.h, io.h and nn.h makes sites.h, io_sites.h and nn_sites.h beside them, which declare the forms and map the plain
names to them, and lazy/plain.c, the plain symbols for who does without macros. A form that is not written does not link.
With --check: exits 1 if a file is not what would be made, if WITHOUT names what is not there, or if the library calls a plain name itself (errors
would give a place inside the library)."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/tc"
HEADERS = {"tc.h": "sites.h", "io.h": "io_sites.h", "nn.h": "nn_sites.h"}
PLAIN = ROOT / "lazy/plain.c"
SOURCES = ["runtime", "device", "kernels", "lazy", "lowering"]

# Functions that take a pointer to elements: which argument it is, and how many there are. In C their macros say what it points to.
POINTERS = {"tc_from_host": (0, 3), "tc_from_host_strided": (0, 4), "tc_borrow": (0, 6), "tc_to_host": (1, 3), "tc_to_host_async": (1, 3)}

# Public functions without a form of their own, and why.
NEVER_FAILS = "reports nothing"
INSIDE_ONLY = "refused only inside another call of the thread (a callback, a signal handler); the error then gives that call's site"
WITHOUT = {
    "tc_item_at": "is a form itself, with the type as an argument",
    **{f"{name}_as_at": "is a form itself, with the pointer's type" for name in POINTERS},
    "tc_version_text": NEVER_FAILS,
    "tc_status_text": NEVER_FAILS,
    "tc_type_name": NEVER_FAILS,
    "tc_type_bytes": NEVER_FAILS,
    "tc_last_error": NEVER_FAILS,
    "tc_clear_error": NEVER_FAILS,
    "tc_num_threads": NEVER_FAILS,
    "tc_set_log": NEVER_FAILS,
    "tc_sync_points": NEVER_FAILS,
    "tc_site_text": NEVER_FAILS,
    "tc_get_default_device": NEVER_FAILS,
    "tc_is_valid": NEVER_FAILS,
    "tc_is_assignable": NEVER_FAILS,
    "tc_requires_grad": NEVER_FAILS,
    "tc_grad": NEVER_FAILS,
    "tc_optimizer_state_name": NEVER_FAILS,
    "tc_optimizer_kind": NEVER_FAILS,
    "tc_optimizer_param": NEVER_FAILS,
    "tc_optimizer_destroy": NEVER_FAILS,
    "tc_optimizer_n_groups": NEVER_FAILS,
    "tc_optimizer_group": NEVER_FAILS,
    "tc_unmap_shared": NEVER_FAILS,
    "tc_archive_count": NEVER_FAILS,
    "tc_archive_has": NEVER_FAILS,
    "tc_archive_name": NEVER_FAILS,
    "tc_archive_metadata": NEVER_FAILS,
    "tc_archive_close": NEVER_FAILS,
    "tc_nn_params_destroy": NEVER_FAILS,
    "tc_nn_count": NEVER_FAILS,
    "tc_nn_count_all": NEVER_FAILS,
    "tc_nn_has": NEVER_FAILS,
    "tc_nn_tensors": NEVER_FAILS,
    "tc_nn_names": NEVER_FAILS,
    "tc_nn_set_training": NEVER_FAILS,
    "tc_nn_training": NEVER_FAILS,
    "tc_nn_path": NEVER_FAILS,
    "tc_memory_stats": INSIDE_ONLY,
    "tc_trim": INSIDE_ONLY,
    "tc_shutdown": INSIDE_ONLY,
    "tc_cache_stats": INSIDE_ONLY,
    "tc_cache_clear": INSIDE_ONLY,
    "tc_no_grad_begin": INSIDE_ONLY,
    "tc_no_grad_end": INSIDE_ONLY,
    "tc_seed": INSIDE_ONLY,
    "tc_get_rng_state": INSIDE_ONLY,
}

SITES_HEAD = """\
// Gives every call its site: declares name_at for each function of HEADER that records, can fail or syncs, and makes the plain names macros that pass
// one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before HEADER to leave the names alone.NUMBERS
#ifndef GUARD
#define GUARD

#ifdef __cplusplus
extern "C" {
#endif

"""

MACROS_HEAD = """
#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES
"""

BINARY_HEAD = """
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

POINTER_HEAD = """
// The one element of t, converted to what out points to.
#define tc_item(t, out) tc_item_at(t, TC_ITEM_TYPE_(out), out, TC_HERE)
#ifdef __cplusplus
extern "C++" {
inline tc_type tc_item_type_(const bool *) {
  return TC_BOOL;
}
inline tc_type tc_item_type_(const int32_t *) {
  return TC_I32;
}
inline tc_type tc_item_type_(const int64_t *) {
  return TC_I64;
}
inline tc_type tc_item_type_(const float *) {
  return TC_F32;
}
inline tc_type tc_item_type_(const double *) {
  return TC_F64;
}
}
#define TC_ITEM_TYPE_(out) tc_item_type_(out)
#else
#define TC_ITEM_TYPE_(out) _Generic((out), bool *: TC_BOOL, int32_t *: TC_I32, int64_t *: TC_I64, float *: TC_F32, double *: TC_F64)

// The tc_ctype of a pointer to elements, or to rows of them.
// clang-format off
#define TC_C_EACH_(c, NAME) c *: TC_C_##NAME, const c *: TC_C_##NAME, c(*)[]: TC_C_##NAME, const c(*)[]: TC_C_##NAME,
#if defined(__FLT16_MAX__) && !defined(__STRICT_ANSI__)
#define TC_C_HALF_ TC_C_EACH_(_Float16, FLOAT16)
#else
#define TC_C_HALF_
#endif
#define TC_C_OF_(p) _Generic((p), EACH TC_C_HALF_ default: TC_C_ANY)
// clang-format on
// The pointer among a call's arguments. One that is a compound literal, (float[]){1, 2}, is several arguments to the preprocessor: then there are more than
// parameters, and the first begins with the literal's type in parentheses. What comes after the last parameter is else TC_C_END_, which () expands.
#define TC_C_1ST_(a, ...) a
#define TC_C_2ND_(a, b, ...) b
#define TC_C_1ST_OF_(...) TC_C_1ST_(__VA_ARGS__, 0)
#define TC_C_2ND_OF_(...) TC_C_2ND_(__VA_ARGS__, 0, 0)
#define TC_C_PASTE_(a, b) a##b
#define TC_C_PASTE2_(a, b) a##b
#define TC_C_END_() 0, WHOLE,
#define TC_C_AFTER3_(a, b, c, d, ...) d
#define TC_C_KIND3_(...) TC_C_2ND_OF_(TC_C_AFTER3_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), SPLIT)
#define TC_C_AFTER4_(a, b, c, d, e, ...) e
#define TC_C_KIND4_(...) TC_C_2ND_OF_(TC_C_AFTER4_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), STRIDES)
#define TC_C_AFTER6_(a, b, c, d, e, f, g, ...) g
#define TC_C_KIND6_(...) TC_C_2ND_OF_(TC_C_AFTER6_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), SPLIT)
#define TC_C_0_(kind, ...) TC_C_PASTE_(TC_C_0_, kind)(__VA_ARGS__)
#define TC_C_0_WHOLE(...) TC_C_OF_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_0_SPLIT(...) TC_C_BEGIN_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_BEGIN_(...) TC_C_BEGIN_AS_(TC_C_2ND_OF_(TC_C_PARENTHESES_ __VA_ARGS__, OTHER), __VA_ARGS__)
// Where strides may be the literal, what does not begin so is whole.
#define TC_C_0_STRIDES(...) TC_C_STRIDED_(TC_C_1ST_OF_(__VA_ARGS__))
#define TC_C_STRIDED_(...) TC_C_BEGIN_AS_(TC_C_2ND_OF_(TC_C_PARENTHESES_ __VA_ARGS__, SIMPLE), __VA_ARGS__)
#define TC_C_PARENTHESES_(...) 0, LITERAL,
#define TC_C_BEGIN_AS_(kind, ...) TC_C_PASTE2_(TC_C_BEGIN_, kind)(__VA_ARGS__)
#define TC_C_BEGIN_LITERAL(...) TC_C_OF_(*(__typeof__(TC_C_1ST_OF_(TC_C_TYPE_ __VA_ARGS__)) *)0)
#define TC_C_BEGIN_OTHER(...) TC_C_ANY
#define TC_C_BEGIN_SIMPLE(...) TC_C_OF_((__VA_ARGS__))
#define TC_C_TYPE_(...) __VA_ARGS__,
#define TC_C_1_(kind, ...) TC_C_PASTE_(TC_C_1_, kind)(__VA_ARGS__)
#define TC_C_1_WHOLE(...) TC_C_OF_(TC_C_2ND_OF_(__VA_ARGS__))
#define TC_C_1_SPLIT(...) TC_C_ANY
#endif
"""

PLAIN_HEAD = """\
// The plain symbols, for callers without the macros of sites.h: bindings, C++ and function pointers. Made by tools/make_sites.py.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
#include <tc/nn.h>

#include "runtime/status.h"

#define CALLER tc_site_return(__builtin_return_address(0))

#define TC_FN(name, params, args) \\
  tc_tensor(name) params { \\
    return name##_at(TC_P args, CALLER); \\
  }
#include <tc/api.def>
#undef TC_FN
"""


def param_name(param):
    """The name in "const int64_t *start" or "void (*release)(void *arg)"."""
    found = re.search(r"\(\*(\w+)\)|(\w+)$", param)
    return found.group(1) or found.group(2)


def split_params(text):
    """Parameters between commas that are in no parentheses; none for (void)."""
    out, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return [] if text == "void" else [p.strip() for p in out]


def functions(header):
    """Of a header: (result, name, parameters, " TC_MUST_USE" or nothing)."""
    text = re.sub(r"//.*", "", (INCLUDE / header).read_text())
    for declaration in re.findall(r"^TC_API\b([^;]*);", text, re.M):
        result, name, params, must = re.fullmatch(r"(.+?)(\w+)\((.*)\)( TC_MUST_USE| __attribute__.*)?", " ".join(declaration.split())).groups()
        yield result, name, split_params(params), must or ""


def declare(result, name, params, end):
    """A declaration or the head of a definition, wrapped as clang-format wraps it."""
    start = f"{result}{name}("
    text = start + ", ".join(params or ["void"]) + ")" + end
    stays = re.sub("(?<!,) ", "\0", text)  # lines break after commas
    return "\n".join(textwrap.wrap(stays, 150, subsequent_indent=" " * len(start), break_on_hyphens=False)).replace("\0", " ") + "\n"


def make_pointers(names):
    """Macros of the functions that take a pointer to elements."""
    ctypes = re.findall(r"^TC_CTYPE\((\w+), +([^,]+),", (INCLUDE / "ctypes.def").read_text(), re.M)
    each = " \\\n  ".join(f"TC_C_EACH_({c}, {name})" for name, c in ctypes if c != "_Float16")
    out = [POINTER_HEAD.replace("EACH TC_C_HALF_", f"\\\n  {each} \\\n  TC_C_HALF_")]
    for as_at in False, True:
        out.append("#else\n" if as_at else "\n#ifdef __cplusplus\n")
        for name in names:
            at, n = POINTERS[name]
            tag = f"_as_at(TC_C_{at}_(TC_C_KIND{n}_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)"
            out.append(f"#define {name}(...) {name}{tag if as_at else '_at(__VA_ARGS__, TC_HERE)'}\n")
    return "".join(out) + "#endif\n"


def make_sites(header, ops, calls):
    guard = "TC_" + HEADERS[header].upper().replace(".", "_")
    numbers = " In C a number as second operand chooses the _num form." if ops else ""
    out = [SITES_HEAD.replace("HEADER", header).replace("GUARD", guard).replace("NUMBERS", numbers)]
    for result, name, params, must in calls:
        out.append(declare(f"TC_API {result}", f"{name}_at", params + ["tc_site site"], must + ";"))
    out.append(MACROS_HEAD)
    with_number = [op for op in ops if op + "_num" in ops]
    if with_number:
        out += [BINARY_HEAD] + [f"#define {op}(a, b) TC_BINARY_({op}_at, {op}_num_at, a, b, __COUNTER__)\n" for op in with_number] + ["#endif\n"]
    checked = [name for _, name, _, _ in calls if name in POINTERS]
    if checked:
        out.append(make_pointers(checked))
    out.append("\n")
    for name in [op for op in ops if op not in with_number] + [name for _, name, params, _ in calls if params and name not in POINTERS]:
        out.append(f"#define {name}(...) {name}_at(__VA_ARGS__, TC_HERE)\n")
    for _, name, params, _ in calls:
        if not params:
            out.append(f"#define {name}() {name}_at(TC_HERE)\n")
    out.append("\n#endif\n\n#endif\n")
    return "".join(out)


def make_plain(calls):
    out = [PLAIN_HEAD]
    for result, name, params, _ in calls:
        args = ", ".join([param_name(p) for p in params] + ["CALLER"])
        call = f"{name}_at({args});" if result == "void " else f"return {name}_at({args});"
        out.append("\n" + declare(result, name, params, " {") + f"  {call}\n}}\n")
    return "".join(out)


def plain_calls(names):
    """Lines of the library that call a plain name."""
    call = re.compile(r"\b(" + "|".join(names) + r")\(")
    for directory in SOURCES:
        for path in sorted((ROOT / directory).rglob("*.[ch]")):
            if path == PLAIN:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                found = call.search(line.split("//")[0])
                if found:
                    yield f"{path.relative_to(ROOT)}:{number}: {found.group(1)} without the caller's site: call {found.group(1)}_at"


def main():
    ops = re.findall(r"^TC_FN\((tc_\w+),", (INCLUDE / "api.def").read_text(), re.M)
    public = {header: list(functions(header)) for header in HEADERS}
    calls = {header: [f for f in found if f[1] not in WITHOUT] for header, found in public.items()}
    all_calls = sum(calls.values(), [])
    made = {INCLUDE / HEADERS[header]: make_sites(header, ops if header == "tc.h" else [], calls[header]) for header in HEADERS}
    made[PLAIN] = make_plain(all_calls)
    if sys.argv[1:] != ["--check"]:
        for path, text in made.items():
            path.write_text(text)
        return 0
    wrong = [f"{path.relative_to(ROOT)} is stale: run tools/make_sites.py" for path, text in made.items() if not path.exists() or path.read_text() != text]
    wrong += [f"tools/make_sites.py: WITHOUT names {name}, which no header has" for name in sorted(set(WITHOUT) - {f[1] for found in public.values() for f in found})]
    wrong += plain_calls(ops + [f[1] for f in all_calls])
    print("".join(line + "\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
