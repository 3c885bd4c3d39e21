#!/usr/bin/env python3
"""Gives every public function that records, can fail or syncs a form with a call site: name_at(.., tc_site site).

From include/tc/api.def (the ops), tc.h and the HEADERS below makes sites.h, io_sites.h and the like beside them, which declare the forms and map the plain
names to them, lazy/front/plain.c, the plain symbols for who does without macros, and ops.hpp, the ops in C++. A form that is not written does not link.
With --check: exits 1 if a file is not what would be made, if WITHOUT names what is not there, or if the library calls a plain name itself (errors
would give a place inside the library)."""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include/tc"
HEADERS = {"tc.h": "sites.h", "io.h": "io_sites.h", "nn.h": "nn_sites.h", "train.h": "train_sites.h", "compile.h": "compile_sites.h", "amp.h": "amp_sites.h", "program.h": "program_sites.h", "control.h": "control_sites.h", "backend.h": "backend_sites.h"}
PLAIN = ROOT / "lazy/front/plain.c"
SOURCES = ["runtime", "device", "kernels", "lazy", "lowering"]

# Functions that take a pointer to elements: which argument it is, and how many there are. In C their macros say what it points to.
POINTERS = {"tc_from_host": (0, 3), "tc_from_host_strided": (0, 4), "tc_borrow": (0, 6), "tc_borrow_strided": (0, 7), "tc_to_host": (1, 3), "tc_to_host_async": (1, 3)}

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
    "tc_promote_types": NEVER_FAILS,
    "tc_last_error": NEVER_FAILS,
    "tc_clear_error": NEVER_FAILS,
    "tc_num_threads": NEVER_FAILS,
    "tc_set_log": NEVER_FAILS,
    "tc_sync_points": NEVER_FAILS,
    "tc_metrics_name": NEVER_FAILS,
    "tc_list_options": NEVER_FAILS,
    "tc_list_modes": NEVER_FAILS,
    "tc_list_backends": NEVER_FAILS,
    "tc_site_text": NEVER_FAILS,
    "tc_get_default_device": NEVER_FAILS,
    "tc_is_valid": NEVER_FAILS,
    "tc_is_assignable": NEVER_FAILS,
    "tc_requires_grad": NEVER_FAILS,
    "tc_grad": NEVER_FAILS,
    "tc_autocast_type": NEVER_FAILS,
    "tc_grad_scaler_destroy": NEVER_FAILS,
    "tc_grad_scaler_state_name": NEVER_FAILS,
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
    "tc_program_close": NEVER_FAILS,
    "tc_program_inputs": NEVER_FAILS,
    "tc_program_outputs": NEVER_FAILS,
    "tc_program_weights": NEVER_FAILS,
    "tc_program_sizes": NEVER_FAILS,
    "tc_program_target": NEVER_FAILS,
    "tc_nn_params_destroy": NEVER_FAILS,
    "tc_nn_count": NEVER_FAILS,
    "tc_nn_count_all": NEVER_FAILS,
    "tc_compiled_destroy": NEVER_FAILS,
    "tc_compiled_stats": NEVER_FAILS,
    "tc_compiled_guards": NEVER_FAILS,
    "tc_nn_has": NEVER_FAILS,
    "tc_nn_tensors": NEVER_FAILS,
    "tc_nn_names": NEVER_FAILS,
    "tc_nn_set_training": NEVER_FAILS,
    "tc_nn_training": NEVER_FAILS,
    "tc_nn_path": NEVER_FAILS,
    "tc_schedule_destroy": NEVER_FAILS,
    "tc_schedule_name": NEVER_FAILS,
    "tc_schedule_n_steps": NEVER_FAILS,
    "tc_ema_destroy": NEVER_FAILS,
    "tc_ema_model": NEVER_FAILS,
    "tc_ema_n_averaged": NEVER_FAILS,
    "tc_backend_device": INSIDE_ONLY,
    "tc_memory_stats": INSIDE_ONLY,
    "tc_trim": INSIDE_ONLY,
    "tc_shutdown": INSIDE_ONLY,
    "tc_cache_stats": INSIDE_ONLY,
    "tc_cache_clear": INSIDE_ONLY,
    "tc_no_grad_begin": INSIDE_ONLY,
    "tc_no_grad_end": INSIDE_ONLY,
    "tc_record_only_begin": INSIDE_ONLY,
    "tc_record_only_end": INSIDE_ONLY,
    "tc_seed": INSIDE_ONLY,
    "tc_get_rng_state": INSIDE_ONLY,
}

SITES_HEAD = """\
// Gives every call its site: declares name_at for each function of HEADER that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before HEADER to leave the names alone.NUMBERS
// clang-format off
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

# Of a macro of a system header gcc tells what is wrong at the line that uses it, and nothing that is a warning: so the macros of functions whose result must be
# used stand before. Both compilers take __VA_OPT__ and named variable arguments there, whatever the standard. For clang it is none: it would leave out warnings of
# arguments, too.
SYSTEM_HEADER = """
#endif

// What is wrong in a call is told at the caller's line: by clang always, by gcc where the macro is a system header's.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpedantic"
#pragma clang diagnostic ignored "-Wvariadic-macros"
#else
#pragma GCC system_header
#endif
HERE
#ifndef TC_NO_SITES
"""
HERE = """
// The site of a call.
#define TC_HERE ((tc_site)(uintptr_t)(__FILE__ ":" TC_STR(__LINE__)))

"""

# EACH stands for a row for every C type of ctypes.def.
OPERANDS_HEAD = """
#ifndef __cplusplus
#define TC_ITEM_OF_(out) _Generic((out), bool *: TC_BOOL, int32_t *: TC_I32, int64_t *: TC_I64, float *: TC_F32, double *: TC_F64, default: TC_N_TYPES)
#define TC_ITEM_TYPE_(out) \\
  __extension__({ \\
    _Static_assert(TC_ITEM_OF_(out) != TC_N_TYPES, "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double"); \\
    TC_ITEM_OF_(out); \\
  })

// The tc_ctype of a pointer to elements, or to arrays of them of any rank. Nothing here is evaluated: variables carry types, so that p is written once.
#define TC_C_EACH_(c, NAME) c *: TC_C_##NAME, const c *: TC_C_##NAME,
#ifdef __FLT16_MAX__
__extension__ typedef _Float16 tc_c_float16_;
#define TC_C_HALF_ TC_C_EACH_(tc_c_float16_, FLOAT16)
#else
#define TC_C_HALF_
#endif
#if !defined(__clang__) && __GNUC__ >= 13 && __STDC_VERSION__ > 201710L
#define TC_C_NULLPTR_ __typeof__(nullptr): (char *)0,
#else
#define TC_C_NULLPTR_
#endif
#define TC_C_IS_POINTER_(v) (__builtin_classify_type(v) == __builtin_classify_type((char *)0))
// Of what cannot be looked behind, void and what is no pointer: a pointer to char.
#define TC_C_SOUND_(p) \\
  __builtin_choose_expr(TC_C_IS_POINTER_(p), _Generic(p, TC_C_NULLPTR_ void *: (char *)0, const void *: (char *)0, default: p), (char *)0)
// Of a pointer to an array that to its first element; any other as it is. An array alone is of another type as a value.
#define TC_C_INTO_(p) \\
  __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(*p), __typeof__(((void)0, *p))), p, ((void)0, *p))
#define TC_C_OF_(p) _Generic(TC_C_ELEMENTS_(p), EACH TC_C_HALF_ default: TC_C_ANY)
#define TC_C_ELEMENTS_(p) \\
  __extension__({ \\
    __typeof__(((void)0, (p))) tc_c_; \\
    __typeof__(TC_C_SOUND_(tc_c_)) tc_c_0_; \\
STEPS    _Static_assert(!TC_C_IS_POINTER_(*tc_c_8_), "the pointer is to pointers; one to the elements was expected (a void * is not checked)"); \\
    tc_c_8_; \\
  })
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
#define TC_C_AFTER7_(a, b, c, d, e, f, g, h, ...) h
#define TC_C_KIND7_(...) TC_C_2ND_OF_(TC_C_AFTER7_(__VA_ARGS__, TC_C_END_, 0, 0, 0)(), STRIDES)
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

static inline tc_tensor tc_operand_tensor_(tc_tensor t) {
  return t;
}
static inline tc_num tc_operand_unsigned_(unsigned long long v) {
  tc_num n = tc_num_int((int64_t)v);
  n.f = (double)v;
  return n;
}
#define TC_INTEGERS_(r) \\
  _Bool: r, char: r, signed char: r, unsigned char: r, short: r, unsigned short: r, int: r, unsigned: r, long: r, long long: r
#define TC_WIDE_(r) unsigned long: r, unsigned long long: r
#define TC_FLOATS_(r) float: r, double: r, long double: r
#define TC_IS_TENSOR_(a) _Generic((a), tc_tensor: 1, default: 0)
#define TC_IS_OPERAND_(b) _Generic((b), tc_tensor: 1, TC_INTEGERS_(1), TC_WIDE_(1), TC_FLOATS_(1), default: 0)
#define TC_OPERAND_(b) \\
  _Generic((b), tc_tensor: tc_operand_tensor_, TC_FLOATS_(tc_num_float), TC_WIDE_(tc_operand_unsigned_), default: tc_num_int)(b)
// Each operand is written once: nested calls stay linear in size, and a mistake is reported once. id makes the names new at every depth.
#define TC_BINARY_(name, a, b, id) TC_BINARY_AT_(name, a, b, id)
#define TC_BINARY_AT_(name, a, b, id) \\
  __extension__({ \\
    __auto_type tc_a_##id = (a); \\
    __auto_type tc_b_##id = (b); \\
    _Static_assert(TC_IS_TENSOR_(tc_a_##id), "the first operand of " #name " is not a tensor; numbers come second, as in tc_rsub(x, 1)"); \\
    _Static_assert(TC_IS_OPERAND_(tc_b_##id), "the second operand of " #name " is neither a tensor nor a number"); \\
    _Generic(tc_b_##id, tc_tensor: name##_at, default: name##_num_at)(tc_a_##id, TC_OPERAND_(tc_b_##id), TC_HERE); \\
  })
#define TC_SELECT_(name, cond, a, b, id) TC_SELECT_AT_(name, cond, a, b, id)
#define TC_SELECT_AT_(name, cond, a, b, id) \\
  __extension__({ \\
    __auto_type tc_a_##id = (a); \\
    __auto_type tc_b_##id = (b); \\
    _Static_assert(TC_IS_OPERAND_(tc_a_##id), "the second operand of " #name " is neither a tensor nor a number"); \\
    _Static_assert(TC_IS_OPERAND_(tc_b_##id), "the third operand of " #name " is neither a tensor nor a number"); \\
    _Generic(tc_a_##id, tc_tensor: _Generic(tc_b_##id, tc_tensor: name##_at, default: name##_tensor_num_at), \\
             default: _Generic(tc_b_##id, tc_tensor: name##_num_tensor_at, default: name##_num_num_at)) \\
        (cond, TC_OPERAND_(tc_a_##id), TC_OPERAND_(tc_b_##id), TC_HERE); \\
  })
"""

SITES_FOOT = """
#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
"""

CPP_HEAD = """\
// The ops of api.def, and what else of tc.h gives a tensor, as functions of tc.hpp, which
// includes this in its namespace. Made by tools/make_sites.py.
// clang-format off
"""
# Functions of tc.h beside api.def's rows that have one; what arguments are where a call leaves them out.
CPP_OF_TC_H = {"tc_nonzero", "tc_masked_select", "tc_unique", "tc_einsum", "tc_load_npy", "tc_clip_grad_norm"}
CPP_WITHOUT_DEFAULTS = {"tc_cast", "tc_arange", "tc_randint", "tc_full_int"}
CPP_DEFAULTS = {
    "tc_dims axes": "TC_ALL",
    "bool keepdim": "false",
    "bool descending": "false",
    "bool right": "false",
    "double correction": "1",
    "tc_type type": "TC_F32",
    "tc_tensor bias": "tensor()",
    "tc_tensor mask": "tensor()",
    "tc_conv_options options": "tc_conv_options()",
    "tc_pool_options options": "tc_pool_options()",
    "tc_attention_options options": "tc_attention_options()",
    "tc_interpolate_options options": "tc_interpolate_options()",
    "tc_loss_options options": "tc_loss_options()",
    "tc_cross_entropy_options options": "tc_cross_entropy_options()",
    "tc_bce_options options": "tc_bce_options()",
    "tc_kl_div_options options": "tc_kl_div_options()",
    "tc_margin_options options": "tc_margin_options()",
    "tc_rotary_options options": "tc_rotary_options()",
    "tc_quantize_options options": "tc_quantize_options()",
}
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
#endif
"""

PLAIN_HEAD = """\
// The plain symbols, for callers without the macros of sites.h: bindings, C++ and function
// pointers. Made by tools/make_sites.py.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
// clang-format off
#include <tc/amp.h>
#include <tc/backend.h>
#include <tc/compile.h>
#include <tc/control.h>
#include <tc/program.h>
#include <tc/train.h>

#include "runtime/status.h"

#define CALLER tc_site_return(__builtin_return_address(0))

#define TC_FN(name, params, args) \\
  tc_tensor(name) params { \\
    return name##_at(TC_P args, CALLER); \\
  }
#include <tc/api.def>
#undef TC_FN

// A function that hands its form the caller's address.
#define PLAIN(result, name, params, ...) \\
  result name params { \\
    return name##_at(__VA_ARGS__); \\
  }
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


def macro(name, params, is_system):
    """Names the parameters, for editors. The last one takes all that is left, so that commas of a compound literal, wherever it stands, are passed on as they
    are. Where it is left out the compiler says that name_at has too few arguments."""
    names = [param_name(p) for p in params]
    if is_system:
        first = "".join(n + ", " for n in names[:-1])
        return f"#define {name}({first}{names[-1]}...) {name}_at({first}__VA_OPT__({names[-1]},) TC_HERE)\n"
    return f"#define {name}({', '.join(names[:-1] + ['...'])}) {name}_at({', '.join(names[:-1] + ['__VA_ARGS__', 'TC_HERE'])})\n"


def make_pointers(names):
    """Macros of the functions that take a pointer to elements."""
    out = []
    for as_at in False, True:
        out.append("#else\n" if as_at else "\n#ifdef __cplusplus\n")
        for name in names:
            at, n = POINTERS[name]
            tag = f"_as_at(TC_C_{at}_(TC_C_KIND{n}_(__VA_ARGS__), __VA_ARGS__), __VA_ARGS__, TC_HERE)"
            out.append(f"#define {name}(...) {name}{tag if as_at else '_at(__VA_ARGS__, TC_HERE)'}\n")
    return "".join(out) + "#endif\n"


def make_operands():
    ctypes = re.findall(r"^TC_CTYPE\((\w+), +([^,]+),", (INCLUDE / "ctypes.def").read_text(), re.M)
    each = " \\\n  ".join(f"TC_C_EACH_({c}, {name})" for name, c in ctypes if c != "_Float16")
    steps = "".join(f"    __typeof__(TC_C_INTO_(tc_c_{k}_)) tc_c_{k + 1}_; \\\n" for k in range(8))
    return OPERANDS_HEAD.replace("EACH TC_C_HALF_", f"\\\n  {each} \\\n  TC_C_HALF_").replace("STEPS", steps)


def make_sites(header, ops, calls):
    guard = "TC_" + HEADERS[header].upper().replace(".", "_")
    numbers = " In C a number as an operand chooses the _num form." if ops else ""
    out = [SITES_HEAD.replace("HEADER", header).replace("GUARD", guard).replace("NUMBERS", numbers)]
    for result, name, params, must in calls:
        out.append(declare(f"TC_API {result}", f"{name}_at", params + ["tc_site site"], must + ";"))
    out.append(MACROS_HEAD + "\n")
    if ops:
        out.append(POINTER_HEAD + make_pointers([name for _, name, _, must in calls if must and name in POINTERS]))
    out += [macro(name, params, False) for _, name, params, must in calls if must and name not in POINTERS]
    out.append(SYSTEM_HEADER.replace("HERE\n", HERE if ops else "\n"))
    with_number = [op for op in ops if op + "_num" in ops]
    selects = [op for op in ops if op + "_num_num" in ops]
    if ops:
        out.append(make_operands())
        out += [f"#define {op}(a, b) TC_BINARY_({op}, a, b, __COUNTER__)\n" for op in with_number]
        out += [f"#define {op}(cond, a, b) TC_SELECT_({op}, cond, a, b, __COUNTER__)\n" for op in selects]
        out.append("#endif\n" + make_pointers([name for _, name, _, must in calls if not must and name in POINTERS]))
    out.append("\n")
    out += [macro(op, params, True) for op, params in ops.items() if op not in with_number + selects]
    out += [macro(name, params, True) for _, name, params, must in calls if not must and params and name not in POINTERS]
    out += [f"#define {name}() {name}_at(TC_HERE)\n" for _, name, params, _ in calls if not params]
    out.append("\n#endif\n" + SITES_FOOT)
    return "".join(out)


def cpp_param(param, has_default):
    """A parameter of tc.h in tc.hpp's types, and its default where all behind it have one."""
    kind, name = param[: -len(param_name(param))].strip(), param_name(param)
    kinds = {"tc_tensor": "const tensor &", "tc_dims": "const dims &", "tc_num": "const number &", "list": "const tensors &"}
    default = CPP_DEFAULTS.get(param) if has_default else None
    return kinds.get(kind, kind + ("" if kind.endswith("*") else " ")) + name + (f" = {default}" if default else ""), default is not None


def make_cpp(name, params):
    """The function of tc.hpp for one of tc.h: a list of tensors and its length are one parameter."""
    joined = re.sub(r"int n, const tc_tensor \*(\w+)|const tc_tensor \*(\w+), int n", lambda m: "list " + (m[1] or m[2]), ", ".join(params))
    shown, has_default = [], True
    for param in reversed(split_params(joined)):
        text, has_default = cpp_param(param, has_default and name not in CPP_WITHOUT_DEFAULTS)
        shown.insert(0, text)
    lists = re.findall(r"list (\w+)", joined)
    args = []
    for p in params:
        passed = param_name(p)
        if lists and p == "int n":
            passed = f"{lists[0]}.n()"
        elif passed in lists:
            passed += ".data()"
        args.append(passed)
    plain = re.sub(r"_(tensor_num|num_tensor|num_num|num)$", "", name)[3:]
    return f"inline tensor {plain}({', '.join(shown + ['location at = location()'])}) {{\n  recording r(at);\n  return r.take({name}_at({', '.join(args + ['r.site'])}));\n}}\n"


def make_ops_hpp(ops, calls):
    of_tc_h = {name: params for _, name, params, _ in calls if name in CPP_OF_TC_H}
    return CPP_HEAD + "\n" + "".join(make_cpp(name, params) for name, params in {**ops, **of_tc_h}.items()) 


def make_plain(calls):
    out = [PLAIN_HEAD]
    for result, name, params, _ in calls:
        args = ", ".join([param_name(p) for p in params] + ["CALLER"])
        if result == "void ":
            out.append("\n" + declare(result, name, params, " {") + f"  {name}_at({args});\n}}\n\n")
        else:
            row = f"PLAIN({result.strip()}, {name}, ({', '.join(params) or 'void'}), {args})"
            out.append("\n".join(textwrap.wrap(row, 118, subsequent_indent="      ")) + "\n")
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
    ops = {name: split_params(" ".join(params.split())) for name, params in re.findall(r"^TC_FN\((tc_\w+),\s*\((.*?)\),\s*\(", (INCLUDE / "api.def").read_text(), re.M | re.S)}
    public = {header: list(functions(header)) for header in HEADERS}
    calls = {header: [f for f in found if f[1] not in WITHOUT] for header, found in public.items()}
    all_calls = sum(calls.values(), [])
    made = {INCLUDE / HEADERS[header]: make_sites(header, ops if header == "tc.h" else {}, calls[header]) for header in HEADERS}
    made[PLAIN] = make_plain(all_calls)
    made[INCLUDE / "ops.hpp"] = make_ops_hpp(ops, calls["tc.h"])
    if sys.argv[1:] != ["--check"]:
        for path, text in made.items():
            path.write_text(text)
        return 0
    wrong = [f"{path.relative_to(ROOT)} is stale: run tools/make_sites.py" for path, text in made.items() if not path.exists() or path.read_text() != text]
    wrong += [f"tools/make_sites.py: WITHOUT names {name}, which no header has" for name in sorted(set(WITHOUT) - {f[1] for found in public.values() for f in found})]
    wrong += plain_calls(list(ops) + [f[1] for f in all_calls])
    print("".join(line + "\n" for line in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
