#!/usr/bin/env python3
"""Writes tests/golden/golden.txt: what NumPy and PyTorch say every public op returns.

The file is committed; run this only to add cases:
    python3 -m venv /tmp/gv && /tmp/gv/bin/pip install numpy torch && /tmp/gv/bin/python tools/golden.py

Floating results are computed in float64 and rounded once to the result's type: the value both libraries approximate. Integer and bool results,
result types and promotion are taken from PyTorch as they are, but for any and all of u8, which are bool as NumPy's. Where NumPy and PyTorch
disagree (sign of NaN) PyTorch is followed, as tc.h says; where neither defines a result (casting NaN to an integer, integer division by zero,
shifts by the width) there is no case.

Format, one record a line, words separated by a space:
    # group NAME                           the cases that follow belong to this group
    = N TYPE[DIMS] HEX                     value N: little-endian bytes, row-major; "-" if empty, *ELEMENT if all are alike
    OP ATTRS OPERANDS > N TOL              tc_OP; the result is value N
           of OP'K the gradient of the sum of the result times the last operand, with respect to operand K
ATTRS      "-" or words joined by ";", in the order of the C parameters that are not tensors: integers, floats, types, [dims], * (all axes),
           numbers of the _num forms as i3 or f0.5; of options the fields in their order
OPERANDS   words joined by ",": "-" for no tensor, else N and how it is presented to the op (the bytes are those of the result of this step):
           N as it is; NT made as its transpose, permuted back; NS made with a gap between columns, sliced; NR made backwards, flipped by a slice
TOL        "bits" (also the sign of zero), or ULP/ABS: within ULP units in the last place of the expected value or within ABS; NaN equals NaN
"""
import itertools
import math
import os
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
torch.set_num_threads(1)

TYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}
NAMES = {v: k for k, v in TYPES.items()}
FLOATS = ("f32", "f64", "f16", "bf16")
INTS = ("u8", "i8", "i16", "i32", "i64")
EPS = {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}
INF, NAN = math.inf, math.nan

lines = []
operands = {}
n_cases = 0
rng = np.random.default_rng(20240607)


def raw(t):
    t = t.contiguous().reshape(-1).clone(memory_format=torch.contiguous_format)
    return t.view(torch.uint8).numpy().tobytes() if t.numel() else b""


def spec(t):
    return "%s[%s]" % (NAMES[t.dtype], ",".join(map(str, t.shape)))


def hexed(t):
    b, n = raw(t), t.element_size()
    if t.numel() > 1 and b == b[:n] * t.numel():
        return "*" + b[:n].hex()
    return b.hex() or "-"


def operand(x):
    """Interns a value; x is a tensor, None, or (tensor, presentation)."""
    if x is None:
        return "-"
    t, how = x if isinstance(x, tuple) else (x, "")
    key = (spec(t), raw(t))
    if key not in operands:
        operands[key] = len(operands)
        lines.append("= %d %s %s" % (operands[key], spec(t), hexed(t)))
    return "%d%s" % (operands[key], how)


def attr(a):
    if isinstance(a, bool):
        return "1" if a else "0"
    if isinstance(a, int):
        return str(a)
    if isinstance(a, float):
        return "nan" if math.isnan(a) else "inf" if a == INF else "-inf" if a == -INF else repr(a)
    if isinstance(a, (list, tuple)):
        return "[%s]" % ",".join(map(str, a))
    return a  # a type's name, "*", "i3", "f0.5"


def num(v):
    return "i%d" % v if isinstance(v, int) else "f" + attr(v)


def group(name):
    lines.append("# group " + name)


def case(op, attrs, xs, want, tol):
    global n_cases
    n_cases += 1
    ops = ",".join(operand(x) for x in xs) or "none"
    at = ";".join(attr(a) for a in attrs) or "-"
    value = operand(want)
    lines.append("%s %s %s > %s %s" % (op.removeprefix("tc_"), at, ops, value, tol))


def ulps(n, absolute=0.0):
    return "%g/%.3g" % (n, absolute)


def tensor(values, ty):
    """Values rounded to the type (from float64 or int)."""
    if ty in FLOATS:
        return torch.tensor(values, dtype=torch.float64).to(TYPES[ty])
    return torch.tensor(values, dtype=TYPES[ty])


def randn(shape, ty, scale=1.0):
    if ty in FLOATS:
        return torch.from_numpy(np.asarray(rng.standard_normal(shape) * scale)).to(TYPES[ty])
    if ty == "bool":
        return torch.from_numpy(np.asarray(rng.integers(0, 2, shape))).to(torch.bool)
    low = 0 if ty == "u8" else -9
    return torch.from_numpy(np.asarray(rng.integers(low, 10, shape))).to(TYPES[ty])


def exact(fn, *xs):
    """fn in float64 of the floating operands, rounded to the type PyTorch gives fn of the operands themselves."""
    return fn(*[x.double() if isinstance(x, torch.Tensor) and x.dtype.is_floating_point else x for x in xs])


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 1e-3, -1e-3, 0.3, -0.7, 7.25, -7.75, 100.0, -100.0, INF, -INF, NAN, 1e-30, 2.0**-149, 1e-7,
         -20.5, 12.3, 3.14159265, -1.57079633, 60.0, -60.0, 0.9999]


def edge(ty, keep=lambda v: True):
    if ty in FLOATS:
        return tensor([v for v in EDGES if keep(v)], ty)
    if ty == "bool":
        return tensor([False, True, True, False], ty)
    info = torch.iinfo(TYPES[ty])
    return tensor([v for v in (0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1, -1, -2, -7) if info.min <= v <= info.max and keep(v)], ty)


# ---- Elementwise, one operand ----
FINITE = math.isfinite



def sqrt(x):
    """NumPy's, which rounds correctly: PyTorch's vectorized one is a unit off for some f64."""
    y = torch.from_numpy(np.asarray(np.sqrt(x.numpy())))
    return torch.where(torch.isnan(y), NAN, y)


FLOAT_UNARY = {  # name: (float64 function, domain, ulp in f32 and f64)
    "sqrt": (sqrt, None, 0), "rsqrt": (torch.rsqrt, None, 2), "reciprocal": (torch.reciprocal, None, 0), "exp": (torch.exp, None, 3),
    "exp2": (torch.exp2, None, 3), "expm1": (torch.expm1, None, 3), "log": (torch.log, None, 3), "log2": (torch.log2, None, 3), "log10": (torch.log10, None, 3),
    "log1p": (torch.log1p, None, 3), "sin": (torch.sin, None, 3), "cos": (torch.cos, None, 3), "tan": (torch.tan, None, 4), "asin": (torch.asin, None, 4),
    "acos": (torch.acos, None, 4), "atan": (torch.atan, None, 4), "sinh": (torch.sinh, None, 4), "cosh": (torch.cosh, None, 4), "tanh": (torch.tanh, None, 4),
    "asinh": (torch.asinh, None, 5), "acosh": (torch.acosh, None, 5), "atanh": (torch.atanh, None, 5), "erf": (torch.erf, None, 4),
    "erfinv": (torch.erfinv, None, 12), "lgamma": (torch.lgamma, lambda v: v > 0 or v != v, 8), "sigmoid": (torch.sigmoid, None, 4),
}
SAME_UNARY = {
    "neg": (torch.neg, INTS), "abs": (torch.abs, INTS), "sign": (torch.sign, INTS), "floor": (torch.floor, INTS), "ceil": (torch.ceil, INTS),
    "round": (torch.round, INTS), "trunc": (torch.trunc, INTS), "square": (torch.square, INTS), "relu": (torch.relu, INTS),
}
PREDICATES = {"isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite, "logical_not": torch.logical_not}


def unary():
    group("unary")
    for name, (fn, ints) in SAME_UNARY.items():
        for ty in FLOATS + ints:
            x = edge(ty)
            want = exact(fn, x).to(x.dtype)
            case("tc_" + name, [], [x], want, "bits" if ty in FLOATS and name not in ("sign", "relu", "square") else ulps(0))
    for name, fn in PREDICATES.items():
        for ty in FLOATS + ("i32", "u8", "bool"):
            case("tc_" + name, [], [edge(ty)], fn(edge(ty)), ulps(0))
    for ty in INTS + ("bool",):
        case("tc_bitwise_not", [], [edge(ty)], torch.bitwise_not(edge(ty)), ulps(0))
    group("unary_float")
    for name, (fn, keep, ulp) in FLOAT_UNARY.items():
        for ty in FLOATS:
            x = edge(ty, keep or (lambda v: True))
            # Half types are computed wider and rounded once: one unit at most. 2**-149 and 1e-30 are zero or subnormal there.
            tol = ulps(min(ulp, 1) if ty in ("f16", "bf16") else ulp, {"f64": 4e-16, "f32": 2e-7}.get(ty, 0) if name == "lgamma" else 0)
            case("tc_" + name, [], [x], exact(fn, x).to(x.dtype), tol)
    for name in ("sqrt", "exp", "tanh", "sigmoid", "sin"):  # integers and bools become f32
        for ty in ("i32", "u8", "i64", "bool"):
            x = tensor([0, 1, 1, 0] if ty == "bool" else [0, 1, 2, 9, 50], ty)
            case("tc_" + name, [], [x], FLOAT_UNARY[name][0](x.double()).float(), ulps(4))
    for v in ([1e4, -1e4, 1e6, 3.0e8, 710.0, 1e15],):  # arguments that need a real range reduction
        for name in ("sin", "cos", "tan"):
            x = tensor(v, "f32")
            case("tc_" + name, [], [x], FLOAT_UNARY[name][0](x.double()).float(), ulps(4, 2.0**-26))
    group("presented")
    for how, shape in itertools.product(("", "T", "S", "R"), ([3, 5], [2, 2, 17], [4], [1], [0, 3], [2, 0])):
        if how == "T" and len(shape) < 2:
            continue
        for ty in ("f32", "i64", "u8"):
            x = randn(shape, ty)
            case("tc_neg", [], [(x, how)], torch.neg(x), "bits")
            case("tc_square", [], [(x, how)], torch.square(x.double() if ty in FLOATS else x).to(x.dtype), ulps(0))
    for ty in FLOATS:
        x = randn([], ty)
        case("tc_neg", [], [x], -x, "bits")
    group("cast")
    for a, b in itertools.product(TYPES, TYPES):
        if a in FLOATS and b not in FLOATS and b != "bool":
            x = tensor([0.0, 1.0, 1.9, 2.5, 100.0, 3.999] + ([-1.9, -2.5, -100.0] if b != "u8" else []), a)
        elif a in FLOATS:
            x = edge(a)
        else:
            x = edge(a)
        case("tc_cast", [b], [x], x.to(TYPES[b]), "bits")
    x = tensor([65504.0, 65519.9, 65520.0, 1e6, 6e-8, 2.9e-8, 3.0e-8, -1e-9, 1.00048828125, 1.0004882813, 1.00146484375], "f64")
    for b in ("f16", "bf16", "f32"):
        # PyTorch goes through float32 for the half types, which rounds twice; NumPy rounds float64 to float16 once. f32 sources are unambiguous.
        y = x.float()
        case("tc_cast", [b], [y], y.to(TYPES[b]), "bits")


# ---- Elementwise, two operands ----
SHAPES = [([5], [5]), ([2, 3], [3]), ([2, 3], [2, 1]), ([4, 1], [1, 3]), ([], [3]), ([3], []), ([], []), ([2, 1, 3], [4, 1]), ([0, 3], [3]), ([0], [1]), ([1], [0, 1])]
ARITH = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}
FBIN = {"div": (torch.div, 0), "pow": (torch.pow, 4), "maximum": (torch.maximum, 0), "minimum": (torch.minimum, 0), "fmod": (torch.fmod, 0),
        "remainder": (torch.remainder, 0), "floor_divide": (torch.floor_divide, 0), "atan2": (torch.atan2, 4)}
COMPARE = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
LOGIC = {"logical_and": torch.logical_and, "logical_or": torch.logical_or, "logical_xor": torch.logical_xor}
BITS = {"bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor}


def crossed(ty):
    v = [0.0, -0.0, 1.0, -2.5, 3.0, INF, -INF, NAN] if ty in FLOATS else [0, 1, 7, 100] + ([] if ty == "u8" else [-1, -3, torch.iinfo(TYPES[ty]).min])
    p = list(itertools.product(v, v))
    return tensor([a for a, _ in p], ty), tensor([b for _, b in p], ty)


def binary():
    group("binary")
    for ty in FLOATS:
        a, b = crossed(ty)
        for name, fn in ARITH.items():
            case("tc_" + name, [], [a, b], exact(fn, a, b).to(a.dtype), "bits")
        for name, (fn, ulp) in FBIN.items():
            # What 0 divides by floor and the two remainders is inf or NaN in both libraries; the sign of a zero quotient is nobody's promise.
            ok = torch.ones_like(a, dtype=torch.bool)
            if name in ("floor_divide", "remainder", "fmod"):
                ok = (b != 0) & torch.isfinite(a) & torch.isfinite(b)
            tol = "bits" if name in ("div",) else ulps(min(1, ulp) if ty in ("f16", "bf16") else ulp)
            case("tc_" + name, [], [a[ok], b[ok]], exact(fn, a[ok], b[ok]).to(a.dtype), tol)
        x, y = randn([40], ty, 3.0).abs() + tensor(0.1, ty), randn([40], ty, 2.0)
        case("tc_pow", [], [x, y], exact(torch.pow, x, y).to(x.dtype), ulps(1 if ty in ("f16", "bf16") else 4))
        case("tc_atan2", [], [y, x], exact(torch.atan2, y, x).to(x.dtype), ulps(1 if ty in ("f16", "bf16") else 4))
        for name, fn in {**COMPARE, **LOGIC}.items():
            case("tc_" + name, [], [a, b], fn(a, b), ulps(0))
    for ty in INTS:
        a, b = crossed(ty)
        for name, fn in {**ARITH, **COMPARE, **LOGIC, **BITS, "maximum": torch.maximum, "minimum": torch.minimum}.items():
            case("tc_" + name, [], [a, b], fn(a, b), ulps(0))
        ok = (b != 0) & ~((b == -1) & (a == torch.iinfo(a.dtype).min))
        for name in ("fmod", "remainder", "floor_divide"):
            case("tc_" + name, [], [a[ok], b[ok]], FBIN[name][0](a[ok], b[ok]), ulps(0))
        case("tc_div", [], [a[ok], b[ok]], (a[ok].double() / b[ok].double()).float(), ulps(0 if ty != "i64" else 2))
        s = tensor([i % 7 for i in range(a.numel())], ty)
        case("tc_shift_left", [], [a, s], torch.bitwise_left_shift(a, s), ulps(0))
        case("tc_shift_right", [], [a, s], torch.bitwise_right_shift(a, s), ulps(0))
        e = tensor([i % 5 for i in range(a.numel())], ty)
        case("tc_pow", [], [a, e], torch.pow(a, e), ulps(0))
    a, b = tensor([False, False, True, True], "bool"), tensor([False, True, False, True], "bool")
    for name, fn in {**COMPARE, **LOGIC, **BITS, "add": torch.add, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}.items():
        case("tc_" + name, [], [a, b], fn(a, b), ulps(0))
    group("broadcast")
    for sa, sb in SHAPES:
        for ty in ("f32", "i32"):
            a, b = randn(sa, ty), randn(sb, ty)
            for name, fn in (("add", torch.add), ("mul", torch.mul), ("lt", torch.lt), ("maximum", torch.maximum)):
                case("tc_" + name, [], [a, b], fn(a, b), ulps(0))
    a, b = randn([3, 4], "f32"), randn([3, 4], "f32")
    for ha, hb in itertools.product(("", "T", "S", "R"), repeat=2):
        case("tc_sub", [], [(a, ha), (b, hb)], a - b, ulps(0))
        case("tc_sub", [], [(a, ha), (b[0], hb if hb != "T" else "")], a - b[0], ulps(0))
    group("promotion")
    for ta, tb in itertools.product(TYPES, TYPES):
        a, b = tensor([0, 1, 1], ta), tensor([1, 0, 1], tb)
        case("tc_add", [], [a, b], torch.add(a, b), ulps(0))
        case("tc_eq", [], [a, b], torch.eq(a, b), ulps(0))
    for ta, tb in itertools.product(TYPES, TYPES):  # a tensor of rank 0 counts only when its kind is higher
        a, b = tensor([0, 1, 1], ta), tensor(1, tb)
        case("tc_mul", [], [a, b], torch.mul(a, b), ulps(0))
    group("numbers")
    names = {**ARITH, **COMPARE, "div": torch.div, "maximum": None, "minimum": None, "fmod": torch.fmod, "remainder": torch.remainder, "floor_divide": torch.floor_divide}
    for name, fn in names.items():
        for ty in ("f32", "f64", "f16", "bf16", "i32", "u8", "i64", "bool"):
            for v in (2, 2.5):
                if ty == "bool" and (name in ("fmod", "remainder", "floor_divide") or name == "sub"):
                    continue
                x = tensor([0, 1, 1], "bool") if ty == "bool" else tensor([0, 1, 3, 5, 8, 100], ty)
                f = fn or (lambda a, b, g=name: getattr(torch, g)(a, torch.tensor(b)))
                want = f(x, v)
                if want.dtype.is_floating_point:
                    want = f(x.double() if x.dtype.is_floating_point else x.double(), v).to(want.dtype)
                case("tc_%s_num" % name, [num(v)], [x], want, ulps(1 if ty in ("f16", "bf16") else 0))
    for ty in FLOATS:
        x = randn([9], ty).abs()
        for v in (2, 0, 1, -1, 3, 0.5, -0.5, 2.5):
            case("tc_pow_num", [num(v)], [x], torch.pow(x.double(), v).to(x.dtype), ulps(1 if ty in ("f16", "bf16") else 4))
    for ty in ("i32", "i64", "u8"):
        x = tensor([0, 1, 2, 5], ty)
        for v in (0, 1, 2, 3):
            case("tc_pow_num", [num(v)], [x], torch.pow(x, v), ulps(0))
    turned = {"rsub": lambda a, b: b - a, "rdiv": lambda a, b: b / a, "rpow": lambda a, b: b**a}
    for name, fn in turned.items():
        for ty in ("f32", "f64", "f16", "bf16", "i32", "u8", "i64"):
            x = tensor([1, 3, 5, 8], ty)
            for b in (tensor([2, 4, 1, 3], ty), 2, 2.5):
                want = fn(x, b)
                if want.dtype.is_floating_point:
                    want = fn(x.double(), b if isinstance(b, (int, float)) else b.double()).to(want.dtype)
                attrs, xs = ([num(b)], [x]) if isinstance(b, (int, float)) else ([], [x, b])
                case("tc_%s%s" % (name, "_num" if attrs else ""), attrs, xs, want, ulps(4 if name == "rpow" else 0))
    group("select")
    c = tensor([True, False, True], "bool")
    for ty in ("f32", "f64", "f16", "bf16", "i32", "u8", "i64", "bool"):
        x = tensor([0, 1, 1], "bool") if ty == "bool" else tensor([5, 3, 8], ty)
        for v in (2, 2.5):
            case("tc_where_tensor_num", [num(v)], [c, x], torch.where(c, x, v), "bits")
            case("tc_where_num_tensor", [num(v)], [c, x], torch.where(c, v, x), "bits")
    for a, b in ((1, 0), (1.5, 0), (-1, 0.25)):
        case("tc_where_num_num", [num(a), num(b)], [c], torch.where(c, a, b), "bits")
    for (sc, sa, sb) in (([5], [5], [5]), ([2, 3], [3], [2, 1]), ([], [3], [3]), ([3], [], [2, 1]), ([0], [1], [1])):
        for ty in ("f32", "i64", "bool"):
            c, a, b = randn(sc, "bool"), randn(sa, ty), randn(sb, ty)
            case("tc_where", [], [c, a, b], torch.where(c, a, b), "bits")
    c = tensor([True, False, True], "bool")
    for ta, tb in (("f32", "f64"), ("i32", "f32"), ("u8", "i8"), ("f16", "bf16"), ("bool", "i32")):
        a, b = tensor([1, 0, 1], ta), tensor([0, 1, 1], tb)
        case("tc_where", [], [c, a, b], torch.where(c, a, b), "bits")
    a, b = tensor([NAN, 1.0, -0.0], "f32"), tensor([1.0, NAN, 0.0], "f32")
    case("tc_where", [], [c, a, b], torch.where(c, a, b), "bits")
    for ty in FLOATS:
        x = edge(ty)
        case("tc_clamp", [-1.0, 2.0], [x], torch.clamp(x, -1, 2), ulps(0))
        case("tc_clamp", [-INF, 0.5], [x], torch.clamp(x, -INF, 0.5), ulps(0))
    for ty in ("f32", "f16", "i32", "u8"):
        x, m = randn([2, 3], ty), randn([2, 3], "bool")
        case("tc_masked_fill", [7.0], [x, m], x.masked_fill(m, 7), "bits")
        case("tc_masked_fill", [3.0], [(x, "T"), m[0]], x.masked_fill(m[0], 3), "bits")
    x = randn([3], "f32")
    case("tc_masked_fill", [-INF], [x, c], x.masked_fill(c, -INF), "bits")


# ---- Factories ----
def factories():
    group("factories")
    for ty in TYPES:
        for shape in ([2, 3], [], [0], [1, 0, 2], [17]):
            d = TYPES[ty]
            case("tc_zeros", [shape, ty], [], torch.zeros(shape, dtype=d), "bits")
            case("tc_ones", [shape, ty], [], torch.ones(shape, dtype=d), "bits")
            case("tc_full", [shape, 1.0, ty], [], torch.full(shape, 1.0, dtype=d), "bits")
            case("tc_full_int", [shape, 1, ty], [], torch.full(shape, 1, dtype=d), "bits")
    for ty in FLOATS:
        for v in (2.5, -0.0, INF, -INF, NAN, 1e-3, 3.3):
            case("tc_full", [[2], v, ty], [], torch.full([2], v, dtype=TYPES[ty]), ulps(0))
    for v in (2**62 + 1, -(2**63), 2**63 - 1, -5):
        case("tc_full_int", [[2], v, "i64"], [], torch.full([2], v, dtype=torch.int64), "bits")
    case("tc_scalar", [2.5], [], torch.tensor(2.5), "bits")
    for ty in TYPES:
        x = tensor([[1, 0], [1, 1]], ty)
        case("tc_zeros_like", [], [x], torch.zeros_like(x), "bits")
        case("tc_ones_like", [], [x], torch.ones_like(x), "bits")
        if ty != "bool":
            case("tc_full_like", [3.0], [x], torch.full_like(x, 3), "bits")
    for start, stop, step in ((0.0, 5.0, 1.0), (2.0, 9.0, 3.0), (5.0, -1.0, -2.0), (3.0, 3.0, 1.0), (0.0, 1000.0, 7.0)):
        for ty in ("i32", "i64", "f32", "f64"):
            case("tc_arange", [start, stop, step, ty], [], torch.arange(start, stop, step, dtype=TYPES[ty]), ulps(0))
    for start, stop, step in ((0.0, 1.0, 0.1), (-1.5, 2.0, 0.25), (1.0, 0.0, -0.3)):
        for ty in ("f32", "f64"):
            want = torch.arange(start, stop, step, dtype=torch.float64).to(TYPES[ty])
            case("tc_arange", [start, stop, step, ty], [], want, ulps(1, EPS[ty]))
    for start, stop, n in ((0.0, 1.0, 5), (-2.0, 3.0, 11), (1.0, 1.0, 3), (4.0, -4.0, 9), (2.0, 7.0, 1), (0.0, 1.0, 0), (0.0, 1.0, 2)):
        for ty in ("f32", "f64"):
            want = torch.linspace(start, stop, n, dtype=torch.float64).to(TYPES[ty])
            case("tc_linspace", [start, stop, n, ty], [], want, ulps(1, 4 * EPS[ty]))
    for n, m in ((3, 3), (2, 4), (4, 2), (0, 3), (1, 1)):
        for ty in ("f32", "i64", "bool", "bf16"):
            case("tc_eye", [n, m, ty], [], torch.eye(n, m).to(TYPES[ty]), "bits")
            for k in (-1, 0, 2):
                case("tc_tri", [n, m, k, ty], [], torch.from_numpy(np.tri(n, m, k)).to(TYPES[ty]), "bits")


# ---- Movement ----
def movement():
    group("movement")
    x = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    pres = ("", "T", "S", "R")
    for how in pres:
        p = (x, how)
        for s in ([6, 4], [24], [2, -1], [4, 3, 2], [2, 3, 2, 2], [1, 24, 1], [-1]):
            case("tc_reshape", [s], [p], x.reshape(s), "bits")
        for axes in itertools.permutations(range(3)):
            case("tc_permute", [axes], [p], x.permute(axes), "bits")
        case("tc_permute", [[-1, 0, 1]], [p], x.permute(-1, 0, 1), "bits")
        for a, b in ((0, 2), (-1, -2), (1, 1)):
            case("tc_transpose", [a, b], [p], x.transpose(a, b), "bits")
        for a, b in ((0, 1), (1, 2), (0, -1), (1, 1)):
            case("tc_flatten", [a, b], [p], x.flatten(a, b), "bits")
        for axis, start, stop, step in ((0, 0, 1, 1), (1, 1, 3, 1), (2, 0, 4, 2), (2, -3, -1, 1), (1, 0, 100, 2), (2, 3, 0, -1), (2, -1, -5, -1), (-1, 3, -100, -2), (1, 2, 1, 1), (0, -100, 1, 1)):
            i = [slice(None)] * 3
            i[axis] = slice(start, stop, step)
            case("tc_slice", [axis, start, stop, step], [p], torch.from_numpy(x.numpy()[tuple(i)].copy()), "bits")
        for axis, i in ((0, 1), (1, -1), (-1, 2)):
            case("tc_select", [axis, i], [p], x.select(axis, i), "bits")
        for axes in ([0], [1, 2], [-1], [0, 1, 2]):
            case("tc_flip", [axes], [p], x.flip(axes), "bits")
        case("tc_flip", ["*"], [p], x.flip([0, 1, 2]), "bits")
        for shift, axis in ((1, 0), (-1, 1), (5, 2), (0, 2), (-7, -1)):
            case("tc_roll", [shift, axis], [p], x.roll(shift, axis), "bits")
        for low, high in (([0, 0, 1], [0, 0, 2]), ([1, 2, 0], [0, 1, 0]), ([0, 0, 0], [0, 0, 0])):
            want = torch.from_numpy(np.pad(x.numpy(), list(zip(low, high)), constant_values=-1.5))
            case("tc_pad", [low, high, -1.5], [p], want, "bits")
        for c in ([2, 1, 3], [1, 1, 1], [2, 2, 1, 1], [3]):
            case("tc_tile", [c], [p], torch.from_numpy(np.tile(x.numpy(), c)), "bits")
        for c, axis in ((2, 0), (3, 1), (1, 2), (2, -1), (0, 0)):
            case("tc_repeat_interleave", [c, axis], [p], x.repeat_interleave(c, axis), "bits")
        for k in (-2, -1, 0, 1, 3):
            case("tc_diagonal", [k], [p], x.diagonal(k, -2, -1), "bits")
            case("tc_tril", [k], [p], x.tril(k), "bits")
            case("tc_triu", [k], [p], x.triu(k), "bits")
        case("tc_detach", [], [p], x, "bits")
        for axis in (0, 1, 2, 3, -1, -4):
            case("tc_unsqueeze", [axis], [p], x.unsqueeze(axis), "bits")
    for shape, to in (([3], [2, 3]), ([1, 3], [4, 3]), ([2, 1], [2, 5]), ([1], [0]), ([], [2, 2]), ([2, 1, 3], [-1, 4, -1]), ([1, 3], [2, 1, 3])):
        y = randn(shape, "i32")
        case("tc_expand", [to], [y], y.expand(to), "bits")
    y = randn([1, 3, 1, 2, 1], "f32")
    case("tc_squeeze", ["*"], [y], y.squeeze(), "bits")
    for axes in ([0], [2, 4], [-1], [1], [0, 1, 2]):
        case("tc_squeeze", [axes], [y], y.squeeze(axes), "bits")
    for n, axis in itertools.product((1, 2, 4), (0, 1, -1)):
        for ty in ("f32", "u8", "f64"):
            xs = [randn([2, 3], ty) for _ in range(n)]
            case("tc_cat", [axis], xs, torch.cat(xs, axis), "bits")
            case("tc_stack", [axis], xs, torch.stack(xs, axis), "bits")
    xs = [randn([2, 3], "f32"), randn([0, 3], "f32"), (randn([4, 3], "f32"), "T"), (randn([1, 3], "f32"), "R")]
    case("tc_cat", [0], xs, torch.cat([t[0] if isinstance(t, tuple) else t for t in xs], 0), "bits")
    xs = [randn([2, 3], "i32"), randn([2, 1], "f32"), randn([2, 2], "i64")]
    case("tc_cat", [1], xs, torch.cat(xs, 1), "bits")
    z = torch.zeros([0, 3])
    for op, at, want in (("reshape", [[3, 0]], z.reshape(3, 0)), ("permute", [[1, 0]], z.t()), ("flip", ["*"], z), ("pad", [[1, 0], [1, 0], 2.0], torch.full([2, 3], 2.0)),
                         ("tile", [[2, 2]], torch.zeros([0, 6])), ("slice", [1, 0, 2, 1], z[:, :2]), ("unsqueeze", [0], z[None]), ("tril", [0], z)):
        case("tc_" + op, at, [z], want, "bits")


# ---- Reductions and scans ----
def reduced_tol(ty, x, n):
    """Round-off of a sum of n values in any order, in f32 for the half types (then one rounding)."""
    scale = float(torch.nan_to_num(x.double(), 0, 0, 0).abs().sum()) if x.numel() else 0.0
    e = EPS[ty] if ty in ("f32", "f64") else EPS["f32"]
    return ulps(2, 2 * e * scale)


def loose(ty, want, k=8):
    """For compositions, whose parts round to the type: k units, and k units of the largest finite result (at least of one)."""
    w = want.double()
    w = w[torch.isfinite(w)]
    big = max(1.0, float(w.abs().max()) if w.numel() else 1.0)
    return ulps(k, k * EPS[ty] * big)


def fold(fn, x, axes, keep):
    return fn(x, dim=tuple(axes) if axes is not None else tuple(range(x.dim())), keepdim=keep)


def prod_over(x, axes, keep):
    y = x
    for a in sorted((a % x.dim() for a in (axes if axes is not None else range(x.dim()))), reverse=True):
        y = y.prod(a, keepdim=True)
    if not keep:
        y = y.squeeze([a % x.dim() for a in (axes if axes is not None else range(x.dim()))])
    return y


def reductions():
    group("reduce")
    shape_axes = [([2, 3, 4], "*"), ([2, 3, 4], [0]), ([2, 3, 4], [1]), ([2, 3, 4], [-1]), ([2, 3, 4], [0, 2]), ([2, 3, 4], [-2, -1]), ([7], "*"), ([17], [0]), ([65], "*"), ([3, 33], [1]), ([33, 3], [0]), ([1], "*"),
                  ([0], "*"), ([0, 3], [0]), ([0, 3], [1]), ([3, 0, 2], [1])]
    for k, (shape, axes) in enumerate(shape_axes):
        real = list(range(len(shape))) if axes == "*" else axes
        count = int(np.prod([shape[a] for a in real]))
        for ty in ("f32", "f64", "f16", "bf16", "i32", "u8", "i64", "bool") if k < 4 else ("f32", "i32"):
            x, keep, how = randn(shape, ty), bool(k % 2), ("", "T", "S", "R")[k % 4] if len(shape) > 1 else ""
            p, fl = (x, how), ty in FLOATS
            xd = x.double() if fl else x
            want = fold(torch.sum, xd, real, keep)
            case("tc_sum", [axes, keep], [p], want.to(x.dtype) if fl else want, reduced_tol(ty, x, count) if fl else ulps(0))
            small = x if not fl else (x.abs() + tensor(0.5, ty)).clamp(0.5, 1.5)
            want = prod_over(small.double() if fl else small, real, keep)
            case("tc_prod", [axes, keep], [(small, how)], want.to(x.dtype) if fl else want, ulps(4 if ty in ("f16", "bf16") else 2 * count + 1) if fl else ulps(0))
            case("tc_any", [axes, keep], [p], fold(torch.any, x, real, keep).bool(), ulps(0))
            case("tc_all", [axes, keep], [p], fold(torch.all, x, real, keep).bool(), ulps(0))
            if count:
                case("tc_max", [axes, keep], [p], fold(torch.amax, x, real, keep), ulps(0))
                case("tc_min", [axes, keep], [p], fold(torch.amin, x, real, keep), ulps(0))
            if fl:
                want = fold(torch.mean, xd, real, keep).to(x.dtype)
                case("tc_mean", [axes, keep], [p], want, reduced_tol(ty, x, count) if ty in ("f32", "f64") else loose(ty, want, 4))
                for corr in (1.0, 0.0)[: 2 if k < 3 else 1]:
                    want = torch.var(xd, dim=real, correction=corr, keepdim=keep).to(x.dtype)
                    case("tc_var", [axes, corr, keep], [p], want, loose(ty, want))
                    want = torch.std(xd, dim=real, correction=corr, keepdim=keep).to(x.dtype)
                    case("tc_std", [axes, corr, keep], [p], want, loose(ty, want))
                for q in (2.0, 1.0, 3.0)[: 3 if k < 3 else 1]:
                    want = torch.linalg.vector_norm(xd, q, dim=real, keepdim=keep).to(x.dtype)
                    case("tc_norm", [q, axes, keep], [p], want, loose(ty, want))
                if count:
                    want = torch.linalg.vector_norm(xd, INF, dim=real, keepdim=keep).to(x.dtype)
                    case("tc_norm", [INF, axes, keep], [p], want, ulps(0))
                    want = torch.logsumexp(xd, dim=real, keepdim=keep).to(x.dtype)
                    case("tc_logsumexp", [axes, keep], [p], want, loose(ty, want))
    for axis, keep in ((0, False), (1, True), (-1, False)):
        for ty in ("f32", "f64", "f16", "i32", "u8"):
            for how in ("", "T", "S"):
                x = randn([4, 6], ty)
                # PyTorch does not promise which of equal values it names; NumPy does: the first.
                for name, fn in (("argmax", np.argmax), ("argmin", np.argmin)):
                    want = torch.from_numpy(np.asarray(fn(x.numpy(), axis=axis, keepdims=keep)))
                    case("tc_" + name, [axis, keep], [(x, how)], want, ulps(0))
    group("reduce_edges")
    for ty in FLOATS:
        for v in ([1.0, NAN, 3.0], [INF, 1.0], [INF, -INF], [-INF, -INF], [NAN], [-0.0], [3.0, 3.0, 3.0], [-INF, 0.0, 1.0]):
            x = tensor(v, ty)
            for name in ("sum", "prod", "max", "min", "mean"):
                fn = {"max": torch.amax, "min": torch.amin}.get(name) or getattr(torch, name)
                case("tc_" + name, ["*", False], [x], fn(x.double()).to(x.dtype), ulps(0))
            for name, fn in (("argmax", np.argmax), ("argmin", np.argmin)):
                want = torch.from_numpy(np.asarray(fn(x.double().numpy(), axis=0)))
                case("tc_" + name, [0, False], [x], want, ulps(0))
            case("tc_any", ["*", False], [x], torch.any(x).bool(), ulps(0))
            case("tc_all", ["*", False], [x], torch.all(x).bool(), ulps(0))
            want = torch.logsumexp(x.double(), 0).to(x.dtype)
            case("tc_logsumexp", ["*", False], [x], want, ulps(4))
            want = torch.softmax(x.double(), 0).to(x.dtype)
            case("tc_softmax", [0], [x], want, loose(ty, want, 2))
            case("tc_cumsum", [0], [x], torch.cumsum(x.double(), 0).to(x.dtype), ulps(0))
            case("tc_cummax", [0], [x], torch.cummax(x.double(), 0).values.to(x.dtype), ulps(0))
    for ty in INTS:
        x = edge(ty)
        for name in ("sum", "prod"):
            case("tc_" + name, ["*", False], [x], getattr(torch, name)(x), ulps(0))
        case("tc_max", ["*", False], [x], x.max(), ulps(0))
        case("tc_min", ["*", False], [x], x.min(), ulps(0))
    for n in (2048, 4096):  # what f32 accumulation buys: a running f16 sum of ones stops at 2048, a bf16 one at 256
        for ty in ("f16", "bf16"):
            x = torch.ones([n], dtype=TYPES[ty])
            case("tc_sum", ["*", False], [x], torch.tensor(float(n)).to(x.dtype), ulps(0))
    x = tensor([60000.0, 60000.0, -60000.0], "f16")
    case("tc_sum", ["*", False], [x], tensor(60000.0, "f16"), ulps(0))
    x = tensor([1000.0, 1001.0, 999.0], "f32")
    for name, fn in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        case("tc_" + name, [0], [x], fn(x.double(), 0).float(), ulps(8, 1e-6))
    case("tc_logsumexp", ["*", False], [x], torch.logsumexp(x.double(), 0).float(), ulps(4))
    for axes, keep in (("*", True), ([], False)):
        x = randn([], "f32")
        if axes == "*":
            case("tc_sum", [axes, keep], [x], x, ulps(0))
            case("tc_max", [axes, keep], [x], x, ulps(0))
    group("scan")
    for shape, axis in (([7], 0), ([3, 5], 0), ([3, 5], 1), ([2, 3, 4], 1), ([2, 3, 4], -1), ([0], 0), ([0, 3], 1), ([1], 0), ([67], 0)):
        for ty in ("f32", "f64", "f16", "bf16", "i32", "u8", "bool"):
            if ty not in ("f32", "i32") and (len(shape) == 3 or shape[0] > 7):
                continue
            x, fl, how = randn(shape, ty), ty in FLOATS, "T" if len(shape) > 1 else ""
            xd = x.double() if fl else x
            w = torch.cumsum(xd, axis)
            case("tc_cumsum", [axis], [(x, how)], w.to(x.dtype) if fl else w, reduced_tol(ty, x, 1) if ty in ("f32", "f64") else loose(ty, w) if fl else ulps(0))
            y = (x.abs() + tensor(0.5, ty)).clamp(0.5, 1.5) if fl else x
            w = torch.cumprod(y.double() if fl else y, axis)
            case("tc_cumprod", [axis], [(y, how)], w.to(x.dtype) if fl else w, ulps(140 if ty in ("f32", "f64") else 2 * max(shape + [1]), 0) if fl else ulps(0))
            if ty != "bool":
                case("tc_cummax", [axis], [x], torch.cummax(x, axis).values if x.numel() else x, ulps(0))
    group("softmax")
    for shape, axis in (([5], 0), ([3, 17], 1), ([3, 17], 0), ([2, 3, 4], -2), ([0, 3], 1), ([3, 0], 1), ([1], 0), ([1, 65], -1)):
        for ty in FLOATS:
            x, how = randn(shape, ty, 3.0), "T" if len(shape) > 1 else ""
            for name, fn in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
                want = fn(x.double(), axis).to(x.dtype)
                case("tc_" + name, [axis], [(x, how)], want, ulps(2, 2 * EPS[ty]) if ty in ("f16", "bf16") and name == "softmax" else loose(ty, want, 8))
    for ty in FLOATS:
        for shape in ([4], [3, 8], [1, 2, 17]):
            x, w, b = randn(shape, ty, 2.0), randn(shape[-1:], ty), randn(shape[-1:], ty)
            for ww, bb in ((w, b), (None, None), (w, None)):
                want = F.layer_norm(x.double(), shape[-1:], None if ww is None else ww.double(), None if bb is None else bb.double(), 1e-5).to(x.dtype)
                case("tc_layer_norm", [1e-5], [x, ww, bb], want, loose(ty, want, 16))


# ---- By index ----
def wrap(i, n):
    return torch.where(i < 0, i + n, i).long()


def indexing():
    group("index")
    for ity, ty in itertools.product(("i64", "i32"), ("f32", "u8", "i64", "bf16")):
        it = TYPES[ity]
        x = randn([4, 5], ty)
        for how in ("", "T", "R"):
            for axis, i in ((0, [[0, 3, 1, 1, 2], [2, 2, -1, 0, -4]]), (1, [[4, 0], [1, 1], [-1, -5], [2, 3]])):
                i = torch.tensor(i, dtype=it)
                want = torch.gather(x, axis, wrap(i, x.shape[axis]))
                case("tc_gather", [axis], [(x, how), i], want, "bits")
                case("tc_gather", [axis - 2], [(x, how), (i, "T")], want, "bits")
                case("tc_take_along_dim", [axis], [x, i], want, "bits")
                src = randn(list(i.shape), ty)
                case("tc_scatter_add", [axis], [(x, how), i, src], x.scatter_add(axis, wrap(i, x.shape[axis]), src) if ty != "bf16" else
                     x.float().scatter_add(axis, wrap(i, x.shape[axis]), src.float()).bfloat16(), ulps(2, 1e-6 if ty == "f32" else 1e-14 if ty == "f64" else 0.05 if ty == "bf16" else 0))
            i = torch.tensor([[0, 3, 1, 2, -1]], dtype=it)  # no two alike in a column: the order of writes does not matter
            src = randn([1, 5], ty)
            case("tc_scatter", [0], [(x, how), i, src], x.scatter(0, wrap(i, 4), src), "bits")
            for i in ([2, 0, 2, -1], [], [[0, 1], [3, -2]]):
                i = torch.tensor(i, dtype=it)
                for axis in (0, 1, -1):
                    want = torch.from_numpy(np.take(x.float().numpy() if ty == "bf16" else x.numpy(), wrap(i, x.shape[axis]).numpy(), axis)).to(x.dtype)
                    case("tc_index_select", [axis], [(x, how), i], want, "bits")
                case("tc_embedding", [], [(x, how), i], torch.from_numpy(np.take(x.float().numpy() if ty == "bf16" else x.numpy(), wrap(i, 4).numpy(), 0)).to(x.dtype), "bits")
        i = torch.tensor([1, 1, 3, -4], dtype=it)
        src = randn([4, 5], ty)
        want = x.double().index_add(0, wrap(i, 4), src.double()).to(x.dtype) if ty in FLOATS else x.index_add(0, wrap(i, 4), src)
        case("tc_index_add", [0], [x, i, src], want, ulps(3, 1e-6 if ty == "f32" else 1e-14 if ty == "f64" else 0.05 if ty == "bf16" else 0))
    x, i = randn([3, 4], "f32"), torch.tensor([[2], [0], [3]])
    case("tc_take_along_dim", [1], [x, i], torch.take_along_dim(x, i, 1), "bits")
    for ids in ([0, 2, 1], [[1, 1], [0, 2]], []):
        i = torch.tensor(ids, dtype=torch.int64)
        case("tc_one_hot", [4], [i], F.one_hot(i, 4) if i.numel() else torch.zeros([0, 4], dtype=torch.int64), ulps(0))
        case("tc_one_hot", [4], [i.int()], F.one_hot(i, 4) if i.numel() else torch.zeros([0, 4], dtype=torch.int64), ulps(0))


# ---- Products ----
def products():
    group("matmul")
    shapes = [([3, 4], [4, 5]), ([4], [4]), ([3, 4], [4]), ([4], [4, 5]), ([2, 3, 4], [4, 5]), ([2, 3, 4], [2, 4, 5]), ([2, 1, 3, 4], [5, 4, 2]), ([1, 1], [1, 1]), ([9, 33], [33, 5]), ([3, 0], [0, 2]),
              ([0, 4], [4, 2]), ([2, 0, 4], [2, 4, 3]), ([1, 65], [65, 1]), ([5, 1], [1, 7]), ([2, 3, 4], [4]), ([4], [2, 4, 5])]
    for sa, sb in shapes:
        for ty in FLOATS + ("i32", "i64", "u8"):
            big = max(sa + sb) > 10
            if (big and ty not in ("f32", "bf16")) or (ty in ("f16", "i64", "u8") and len(sa) + len(sb) > 3) or (ty in ("f64", "bf16") and len(sa) + len(sb) == 8):
                continue
            a, b = randn(sa, ty), randn(sb, ty)
            fl = ty in FLOATS
            want = torch.from_numpy(np.asarray(np.matmul(a.double().numpy(), b.double().numpy()))).to(a.dtype) if fl else torch.from_numpy(np.asarray(np.matmul(a.numpy(), b.numpy())))
            sums = torch.from_numpy(np.asarray(np.matmul(a.int().numpy(), b.int().numpy()))) if ty == "u8" else want  # i32 of bytes
            size = float((a.double().abs().sum() * (b.double().abs().max() if b.numel() else 0))) if fl else 0
            tol = ulps(1, 4 * (EPS["f64"] if ty == "f64" else EPS["f32"]) * size) if fl else ulps(0)
            hows = (("", ""), ("T", ""), ("", "T"), ("T", "T"), ("S", "R")) if len(sa) > 1 and len(sb) > 1 and not big else (("", ""),)
            for ha, hb in hows if ty in ("f32", "i32") else hows[:1]:
                case("tc_matmul", [], [(a, ha), (b, hb)], sums, tol)
            if len(sa) == 3 and len(sb) == 3:
                case("tc_bmm", [], [a, b], sums, tol)
            if len(sa) == 1 and len(sb) == 1:
                case("tc_dot", [], [a, b], want, tol)
    for ty in FLOATS + ("i32",):
        a, b = randn([3], ty), randn([5], ty)
        case("tc_outer", [], [a, b], torch.outer(a, b), ulps(0))
    for ty in FLOATS:
        for shape in ([4], [3, 4], [2, 3, 4]):
            x, w, b = randn(shape, ty), randn([5, 4], ty), randn([5], ty)
            for bias in (b, None):
                want = F.linear(x.double(), w.double(), None if bias is None else bias.double()).to(x.dtype)
                case("tc_linear", [], [x, w, bias], want, loose(ty, want, 4))
    x = tensor([[1.0, INF], [NAN, 0.0]], "f32")
    y = tensor([[0.0, 1.0], [1.0, 0.0]], "f32")
    case("tc_matmul", [], [x, y], torch.from_numpy(np.matmul(x.numpy(), y.numpy())), ulps(0))
    x, y = torch.full([1, 4096], 1.0, dtype=torch.float16), torch.full([4096, 1], 1.0, dtype=torch.float16)
    case("tc_matmul", [], [x, y], torch.full([1, 1], 4096.0, dtype=torch.float16), ulps(0))


# ---- Activations and losses ----
def activations():
    group("activation")
    table = {
        "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "softplus": F.softplus, "relu6": F.relu6, "hardtanh": F.hardtanh,
        "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "mish": F.mish, "log_sigmoid": F.logsigmoid, "softsign": F.softsign,
    }
    for ty in FLOATS:
        x = tensor([v for v in EDGES if FINITE(v)] + [NAN, -3.0, 3.0, -8.0, 19.0, 6.0, 0.1, -0.2], ty)
        for name, fn in table.items():
            want = fn(x.double()).to(x.dtype)
            # The smallest results are differences of numbers near one: units of one, not of the result.
            tol = ulps(8, 8 * EPS[ty])
            case("tc_" + name, [], [x], want, tol)
        for slope in (0.01, 0.2):
            want = F.leaky_relu(x.double(), slope).to(x.dtype)
            case("tc_leaky_relu", [slope], [x], want, ulps(4, EPS[ty]))
        for alpha in (1.0, 0.5):
            want = F.elu(x.double(), alpha).to(x.dtype)
            case("tc_elu", [alpha], [x], want, ulps(4, 4 * EPS[ty]))
        y = randn([3, 4], ty)
        case("tc_gelu", [], [(y, "T")], F.gelu(y.double()).to(y.dtype), ulps(8, 8 * EPS[ty]))
        case("tc_dropout", [0.0], [y], y, ulps(1))
    group("loss")
    for ty in FLOATS:
        for shape in ([4], [3, 5], [1]):
            x, y = randn(shape, ty), randn(shape, ty)
            for name, fn in (("mse_loss", F.mse_loss), ("l1_loss", F.l1_loss)):
                want = fn(x.double(), y.double()).to(x.dtype)
                case("tc_" + name, [], [x, y], want, loose(ty, want))
            for delta in (1.0, 0.3):
                want = F.huber_loss(x.double(), y.double(), delta=delta).to(x.dtype)
                case("tc_huber_loss", [delta], [x, y], want, loose(ty, want))
            t = torch.rand(shape, generator=torch.Generator().manual_seed(7)).to(x.dtype)
            want = F.binary_cross_entropy_with_logits(x.double(), t.double()).to(x.dtype)
            case("tc_bce_with_logits", [], [x, t], want, loose(ty, want))
        for n, c in ((4, 3), (1, 5), (7, 10)):
            x = randn([n, c], ty, 2.0)
            for it in (torch.int64, torch.int32):
                t = torch.from_numpy(rng.integers(0, c, [n])).to(it)
                want = F.cross_entropy(x.double(), t.long()).to(x.dtype)
                case("tc_cross_entropy", [], [x, t], want, loose(ty, want))
                lp = torch.log_softmax(x.double(), 1).to(x.dtype)
                want = F.nll_loss(lp.double(), t.long()).to(x.dtype)
                case("tc_nll_loss", [], [lp, t], want, loose(ty, want))
            for smooth, ignore in ((0.0, -100), (0.1, -100), (0.0, int(t[0])), (0.2, int(t[0]))):
                if n == 1 and ignore >= 0:
                    continue
                want = F.cross_entropy(x.double(), t.long(), label_smoothing=smooth, ignore_index=ignore).to(x.dtype)
                case("tc_cross_entropy_with", [smooth, ignore], [x, t], want, loose(ty, want))
            t2 = t.clone()
            t2[0] = -100
            if n > 1:
                want = F.cross_entropy(x.double(), t2.long(), ignore_index=-100).to(x.dtype)
                case("tc_cross_entropy_with", [0.0, -100], [x, t2], want, loose(ty, want))


# ---- Several results, or shapes that depend on data ----
def several():
    group("several")
    x = tensor([[0.0, 1.5, 0.0], [-2.0, 0.0, NAN]], "f32")
    for y in (x, randn([7], "bool"), torch.zeros([3]), torch.zeros([0, 2]), randn([2, 3, 2], "i32")):
        case("tc_nonzero", [], [y], torch.nonzero(y), ulps(0))
    for shape, mshape in (([6], [6]), ([2, 3], [2, 3]), ([2, 3], [3]), ([0], [0])):
        for ty in ("f32", "i64", "u8"):
            y, m = randn(shape, ty), randn(mshape, "bool")
            case("tc_masked_select", [], [y, m], torch.masked_select(y, m), "bits")
    for y in (tensor([3, 1, 2, 3, 1], "i32"), tensor([2.5, -1.0, 2.5, 0.0], "f32"), tensor([[1, 1], [0, 1]], "u8"), tensor([True, True, False], "bool"), torch.zeros([0])):
        case("tc_unique", [], [y], torch.unique(y), ulps(0))
    x = randn([7, 3], "f32")
    for size, axis, k in ((3, 0, 0), (3, 0, 2), (2, 1, 1), (7, 0, 0), (1, -1, 2)):
        pieces = torch.split(x, size, axis)
        case("tc_split", [size, axis, len(pieces), k], [x], pieces[k], "bits")
    xs = [randn([2], "f32"), randn([3], "f32"), randn([4], "f32")]
    for k in range(3):
        case("tc_meshgrid", [k], xs, torch.meshgrid(*xs, indexing="ij")[k], "bits")
    for spec_, shapes in (("ij,jk->ik", [[3, 4], [4, 5]]), ("ij,jk", [[3, 4], [4, 5]]), ("ii->i", [[4, 4]]), ("ii", [[4, 4]]), ("ij->ji", [[2, 3]]), ("ij->", [[2, 3]]), ("i,j->ij", [[2], [3]]),
                          ("bij,bjk->bik", [[2, 3, 4], [2, 4, 5]]), ("ijk,jl->ikl", [[2, 3, 4], [3, 5]]), ("ij,ij->i", [[3, 4], [3, 4]]), ("...ij,...jk->...ik", [[2, 3, 4], [4, 5]]),
                          ("ij,jk,kl->il", [[2, 3], [3, 4], [4, 5]]), ("bhqd,bhkd->bhqk", [[2, 2, 3, 4], [2, 2, 5, 4]])):
        for ty in ("f32", "f64"):
            xs = [randn(s, ty) for s in shapes]
            want = torch.from_numpy(np.asarray(np.einsum(spec_, *[t.double().numpy() for t in xs]))).to(TYPES[ty])
            case("tc_einsum", [spec_], xs, want, ulps(4, 64 * EPS[ty]))


# ---- Windows: convolution, pooling, norms, resizing ----
def summed(ty, want, size):
    """Sums of `size` in all, in f32 at least, then one rounding or two."""
    e = EPS["f64"] if ty == "f64" else EPS["f32"]
    w = want.double().abs()
    return ulps(1 if ty in ("f16", "bf16") else 2, 4 * e * size + (EPS[ty] * float(w.max()) if w.numel() and ty in ("f16", "bf16") else 0))


def with_grads(op, attrs, fn, xs, ty, tol, grads=None):
    """A case of fn over xs (None: left out), and of its gradients with respect to those numbered in grads (all that are floating)."""
    ks = [k for k, x in enumerate(xs) if x is not None] if grads is None else grads
    d = [None if x is None else x.double().requires_grad_(k in ks) for k, x in enumerate(xs)]
    y = fn(*d)
    want = y.detach().to(TYPES[ty])
    case(op, attrs, xs, want, tol(want))
    if not ks:
        return
    w = randn(list(y.shape), ty)
    for k, g in zip(ks, torch.autograd.grad(y, [d[k] for k in ks], w.double())):
        case("%s'%d" % (op, k), attrs, xs + [w], g.to(TYPES[ty]), tol(g))


def lists(o, n, names):
    return [list(o[k]) if isinstance(o.get(k), tuple) else [o[k]] if k in o else [] for k in names]


def windows():
    group("window")
    x = torch.arange(42, dtype=torch.float32).reshape(2, 7, 3)
    for axis, size, step in ((1, 3, 2), (-2, 2, 1), (1, 7, 1), (1, 1, 3), (2, 3, 3), (0, 1, 1), (1, 2, 2), (1, 3, 5), (1, 2, 4)):
        for how in ("", "T", "R"):
            case("tc_unfold", [axis, size, step], [(x, how)], x.unfold(axis, size, step), "bits")
        with_grads("tc_unfold", [axis, size, step], lambda v: v.unfold(axis, size, step), [x], "f32", lambda g: ulps(2, 1e-5))
    for ty in ("i32", "u8", "bool", "f16", "f64"):
        y = randn([9], ty)
        case("tc_unfold", [0, 4, 3], [y], y.unfold(0, 4, 3), "bits")
        if ty in FLOATS:
            with_grads("tc_unfold", [0, 4, 1], lambda v: v.unfold(0, 4, 1), [y], ty, lambda g: ulps(1, 1e-12))
    case("tc_unfold", [0, 2, 1], [torch.zeros([4, 0])], torch.zeros([3, 0, 2]), "bits")


def convolutions():
    group("conv")
    plain = [
        (1, [2, 3, 11], [4, 3, 3], {}), (1, [2, 4, 10], [6, 2, 4], dict(stride=3, padding=2, groups=2)), (1, [3, 9], [2, 3, 2], dict(dilation=3)),
        (2, [2, 3, 7, 6], [4, 3, 3, 3], dict(padding=1)), (2, [1, 3, 9, 8], [5, 3, 3, 2], dict(stride=(2, 3), padding=(1, 0), dilation=(2, 1))),
        (2, [2, 4, 5, 5], [4, 1, 3, 3], dict(padding=1, groups=4)), (2, [1, 4, 6, 5], [8, 1, 2, 2], dict(stride=2, groups=4)), (2, [2, 6, 5, 4], [4, 3, 2, 3], dict(groups=2, padding=(0, 2))),
        (2, [2, 3, 4, 4], [5, 3, 1, 1], {}), (2, [2, 3, 5, 5], [2, 3, 1, 1], dict(stride=2)), (2, [1, 2, 8, 8], [3, 2, 4, 4], dict(stride=4)), (2, [3, 6, 5], [2, 3, 3, 3], {}),
        (2, [0, 3, 5, 5], [2, 3, 3, 3], {}), (2, [1, 1, 1, 1], [1, 1, 1, 1], {}), (2, [1, 16, 9, 33], [17, 16, 3, 3], dict(padding=1)),
        (3, [2, 2, 4, 5, 3], [3, 2, 2, 3, 2], dict(stride=(1, 2, 1), padding=1)), (3, [1, 4, 3, 3, 3], [4, 2, 2, 2, 2], dict(groups=2, dilation=(2, 1, 1))),
    ]
    back = [
        (1, [2, 3, 5], [3, 4, 3], dict(stride=2)), (1, [2, 4, 4], [4, 3, 3], dict(stride=3, padding=1, output_padding=2, groups=2)), (1, [3, 4], [3, 2, 2], dict(dilation=2)),
        (2, [2, 3, 4, 3], [3, 4, 3, 3], dict(stride=2, padding=1, output_padding=1)), (2, [1, 3, 3, 4], [3, 2, 2, 3], dict(stride=(1, 2), dilation=(2, 1))),
        (2, [2, 4, 3, 3], [4, 1, 2, 2], dict(groups=4, stride=2)), (2, [1, 2, 3, 3], [2, 2, 1, 1], {}), (2, [0, 2, 3, 3], [2, 3, 3, 3], {}),
        (2, [1, 2, 3, 3], [2, 3, 3, 3], dict(dilation=2, output_padding=1, padding=2)),
    ]
    names = ("stride", "padding", "dilation", "output_padding")
    for table, op in ((plain, "conv%dd"), (back, "conv_transpose%dd")):
        for k, (n, xs, ws, o) in enumerate(table):
            fn = getattr(F, op % n)
            for ty in FLOATS if k < 5 else ("f32",):
                x, w, b = randn(xs, ty), randn(ws, ty), randn([ws[0] if table is plain else ws[1] * o.get("groups", 1)], ty)
                size = float(w.double().abs().sum() * (x.double().abs().max() if x.numel() else 0)) + 4 * math.prod(xs)
                at = lists(o, n, names) + [o.get("groups", 0)]
                for bias in (b, None) if k < 2 else (b,):
                    with_grads("tc_" + op % n, at, lambda x, w, b: fn(x, w, b, **o), [x, w, bias], ty, lambda g: summed(ty, g, size), None if ty in ("f32", "f64") else [])
        x, w = randn([1, 2, 5, 5][: 4], "f32"), randn([2, 2, 3, 3], "f32")
        case("tc_" + op % 2, [[], [], [], [], 0], [(x, "T"), (w, "R"), None], getattr(F, op % 2)(x.double(), w.double()).float(), ulps(2, 1e-4))


def pooling():
    group("pool")
    names = ("stride", "padding", "dilation")
    table = [
        (1, [2, 3, 9], 2, {}), (1, [2, 10], 3, dict(stride=2, padding=1)), (2, [2, 3, 6, 8], 2, {}), (2, [1, 2, 7, 7], 3, dict(stride=2, padding=1)), (2, [1, 2, 7, 6], (3, 2), dict(stride=(1, 2), padding=(1, 0))),
        (2, [2, 5, 5], 3, dict(stride=1)), (2, [0, 2, 4, 4], 2, {}), (2, [1, 1, 33, 17], 3, dict(stride=2, padding=1)),
    ]
    for k, (n, xs, size, o) in enumerate(table):
        sizes = list(size) if isinstance(size, tuple) else [size]
        for ty in FLOATS if k < 4 else ("f32",):
            grads = None if ty in ("f32", "f64") else []
            x = randn(xs, ty)
            for dilated in ({}, dict(dilation=2)) if k in (1, 3) else ({},):
                om = {**o, **dilated}
                with_grads("tc_max_pool%dd" % n, [sizes] + lists(om, n, names) + [0, 0, 0], lambda v: getattr(F, "max_pool%dd" % n)(v, size, **om), [x], ty, lambda g: ulps(0, 0) if g.numel() and g.shape != x.shape else ulps(1, 4 * EPS[ty]), grads)
            for include in (True, False):
                with_grads("tc_avg_pool%dd" % n, [sizes] + lists(o, n, names) + [int(not include), 0, 0],
                           lambda v: getattr(F, "avg_pool%dd" % n)(v, size, o.get("stride"), o.get("padding", 0), count_include_pad=include), [x], ty, lambda g: loose(ty, g, 4), grads)
    x = tensor([[[1.0, 1.0, 1.0, 0.0, 2.0, 2.0, -1.0]]], "f32")  # equals: the first has the gradient
    with_grads("tc_max_pool1d", [[3], [2], [], [], 0, 0, 0], lambda v: F.max_pool1d(v, 3, 2), [x], "f32", lambda g: ulps(0))
    x = torch.zeros([1, 1, 5, 5])
    with_grads("tc_max_pool2d", [[3], [1], [1], [], 0, 0, 0], lambda v: F.max_pool2d(v, 3, 1, 1), [x], "f32", lambda g: ulps(0, 1e-5))
    x = tensor([[[-INF, -INF, -INF, 1.0, NAN, 0.0, INF, 3.0]]], "f32")
    case("tc_max_pool1d", [[3], [1], [1], [], 0, 0, 0], [x], F.max_pool1d(x, 3, 1, 1), ulps(0))
    x = torch.full([1, 1, 4], -INF)  # nothing is greater than the padding: still the first inside
    with_grads("tc_max_pool1d", [[2], [1], [1], [], 0, 0, 0], lambda v: F.max_pool1d(v, 2, 1, 1), [x], "f32", lambda g: ulps(0, 1e-5))
    for ty in ("i32", "i64", "u8"):
        x = randn([1, 2, 5, 6], ty)
        want = F.max_pool2d(x.double(), 3, 2, 1).to(x.dtype)
        case("tc_max_pool2d", [[3], [2], [1], [], 0, 0, 0], [x], want, ulps(0))
    for xs, size in (([2, 3, 6, 8], (3, 2)), ([2, 3, 7, 5], (3, 2)), ([3, 5, 5], (1, 1)), ([1, 2, 3, 4], (5, 7)), ([1, 2, 10, 4], (4, 4)), ([0, 2, 5, 4], (2, 2))):
        for ty in FLOATS if len(xs) == 4 and xs[0] == 2 else ("f32",):
            with_grads("tc_adaptive_avg_pool2d", [list(size)], lambda v: F.adaptive_avg_pool2d(v, size), [randn(xs, ty)], ty, lambda g: loose(ty, g, 4), None if ty in ("f32", "f64") and xs[0] else [])
    x = randn([2, 3, 4, 6], "f32")
    case("tc_adaptive_avg_pool2d", [[2]], [(x, "T")], F.adaptive_avg_pool2d(x.double(), 2).float(), loose("f32", x))


def norms():
    group("norm")
    for xs in ([5, 4], [3, 4, 7], [2, 4, 3, 5], [2, 4, 2, 3, 2]):
        for ty in FLOATS if len(xs) == 4 else ("f32",):
            grads = None if ty in ("f32", "f64") else []
            x, w, b, m, v = randn(xs, ty, 2.0), randn([4], ty), randn([4], ty), randn([4], ty), randn([4], ty).abs() + tensor(0.5, ty)
            tol = lambda g: loose(ty, g, 16)
            for ww, bb in ((w, b), (None, None)):
                picked = lambda *at: [k for k in at if (ww is not None or k not in (1, 2)) and grads is None]
                with_grads("tc_batch_norm", [0, 0.1, 1e-5], lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, False, 0.1, 1e-5), [x, m, v, ww, bb], ty, tol, [k for k in (0, 3, 4) if grads is None and (k == 0 or ww is not None)])
                with_grads("tc_batch_norm", [1, 0.1, 1e-5], lambda x, m, v, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5), [x, None, None, ww, bb], ty, tol, [k for k in (0, 3, 4) if grads is None and (k == 0 or ww is not None)])
                for groups in (1, 2, 4) if len(xs) > 2 else (2,):
                    with_grads("tc_group_norm", [groups, 1e-5], lambda x, w, b: F.group_norm(x, groups, w, b, 1e-5), [x, ww, bb], ty, tol, picked(0, 1, 2))
                if len(xs) > 2:
                    with_grads("tc_instance_norm", [1e-3], lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=1e-3), [x, ww, bb], ty, tol, picked(0, 1, 2))
            w = randn(xs[-1:], ty)
            for ww in (w, None):
                with_grads("tc_rms_norm", [1e-6], lambda x, w: F.rms_norm(x, xs[-1:], w, 1e-6), [x, ww], ty, tol, [0] if grads is None else [])
    x = torch.zeros([0, 4, 3])
    case("tc_batch_norm", [0, 0.1, 1e-5], [x, torch.zeros([4]), torch.ones([4]), None, None], x, "bits")
    case("tc_group_norm", [2, 1e-5], [x, None, None], x, "bits")


def resizing():
    group("resize")
    table = [([2, 3, 4], (8,)), ([1, 2, 5], (3,)), ([1, 2, 4, 3], (8, 9)), ([1, 2, 5, 7], (7, 4)), ([2, 1, 3, 3], (3, 5)), ([1, 1, 6, 6], (1, 1)), ([0, 2, 4, 4], (3, 3)), ([1, 2, 3, 2, 4], (4, 4, 2))]
    for k, (xs, size) in enumerate(table):
        mode = ("linear", "bilinear", "trilinear")[len(size) - 1]
        for ty in FLOATS if k in (2, 3) else ("f32",):
            x, grads = randn(xs, ty), None if ty in ("f32", "f64") and xs[0] else []
            with_grads("tc_interpolate", [list(size), 0, 0], lambda v: F.interpolate(v, size, mode="nearest"), [x], ty, lambda g: loose(ty, g, 2), grads)
            for corners in (False, True):
                with_grads("tc_interpolate", [list(size), 1, int(corners)], lambda v: F.interpolate(v, size, mode=mode, align_corners=corners), [x], ty, lambda g: loose(ty, g, 4), grads)
    x = randn([1, 1, 3, 4], "u8")
    case("tc_interpolate", [[5], 0, 0], [x], F.interpolate(x, (5, 5), mode="nearest"), "bits")


# New groups come last, so that the numbers of the values before them stay.
def polygammas():
    group("polygamma")
    for ty in FLOATS:
        x = tensor([0.0, -0.0, NAN, INF, 1e-3, 0.1, 0.5, 1.0, 1.25, 1.75, 2.0, 3.7, 9.5, 10.0, 33.3, 99.0, -0.25, -0.75, -1.5, -2.3, -10.75, -63.75, -1.0, -3.0], ty)
        for n in range(4):
            # At poles below 0 PyTorch has inf for n > 1 and, where its sine of pi misses 0, 1e32 for n = 1. At inf its even n have NaN, here 0.
            keep = torch.ones_like(x, dtype=torch.bool)
            keep[3] = n < 2
            keep[-2:] = n != 1
            tol = ulps(1 if ty in ("f16", "bf16") else 4, {"f64": 1e-14, "f32": 1e-6}.get(ty, 0) if n == 0 else 0)
            if ty == "f64" and n > 0:
                tol = ulps(5e6 if n == 1 else 200)  # PyTorch's trigamma has 9 digits; tests/kernels/test_math.c asks for more
            want = torch.polygamma(n, x[keep].double()).to(x.dtype)
            case("tc_polygamma", [n], [x[keep]], want, tol)
            if n == 0:
                case("tc_digamma", [], [x], want, tol)
    case("tc_digamma", [], [tensor([1, 2, 9], "i32")], torch.digamma(tensor([1.0, 2.0, 9.0], "f64")).float(), ulps(4))


def bools():
    group("bools")
    x = tensor([False, True, True], "bool")
    case("tc_square", [], [x], torch.square(x), "bits")
    case("tc_sign", [], [x], torch.sign(x), "bits")


def scalar_indexing():
    group("scalar_index")
    x = torch.tensor(5.0)
    for axis, ity in ((0, torch.int64), (-1, torch.int32)):
        for i in (torch.tensor(0), torch.tensor([0]), torch.tensor([0, 0]), torch.zeros([0], dtype=torch.int64)):
            src, at = torch.full(i.shape, 7.0), i.to(ity)
            case("tc_gather", [axis], [x, at], torch.gather(x, axis, i), "bits")
            case("tc_scatter", [axis], [x, at, src], torch.scatter(x, axis, i, src), "bits")
            case("tc_scatter_add", [axis], [x, at, src], torch.scatter_add(x, axis, i, src), "bits")
            if i.numel() == 1:
                case("tc_index_select", [axis], [x, at], torch.index_select(x, axis, i), "bits")
                case("tc_index_add", [axis], [x, at, torch.tensor(7.0)], torch.index_add(x, axis, i, torch.tensor(7.0)), "bits")


# ---- Attention ----
def attend(q, k, v, mask, causal, scale, length):
    """PyTorch's own, but for a count of valid keys: it has none, so they are cut off, and causality is said by a mask."""
    n, rows = length or k.shape[-2], q.shape[-2]
    k, v = k[..., :n, :], v[..., :n, :]
    heads = q.shape[-3] if q.dim() > 2 else 1
    if k.dim() > 2 and k.shape[-3] != heads:
        k, v = k.repeat_interleave(heads // k.shape[-3], -3), v.repeat_interleave(heads // v.shape[-3], -3)
    seen = torch.ones(rows, n, dtype=torch.bool).tril(n - rows if length else 0) if causal else torch.ones(rows, n, dtype=torch.bool)
    if mask is not None:
        mask = mask[..., :n] if mask.shape[-1] != 1 else mask
        seen = seen & mask if mask.dtype == torch.bool else torch.where(seen, mask.double(), -INF)
    return F.scaled_dot_product_attention(q, k, v, seen, scale=scale or None)


def attention():
    group("attention")
    table = [
        ([2, 3, 5, 8], [2, 3, 7, 8], 8, None, {}), ([2, 3, 5, 8], [2, 3, 7, 8], 6, None, dict(causal=True)), ([1, 4, 9, 16], [1, 2, 9, 16], 16, None, dict(causal=True, scale=0.3)),
        ([7, 8], [11, 8], 5, [7, 11], {}), ([3, 1, 10], [3, 70, 10], 3, None, dict(causal=True, length=65)), ([2, 2, 6, 4], [2, 1, 5, 4], 4, [2, 1, 1, 5], {}),
        ([2, 1, 2, 3, 4], [3, 1, 6, 4], 4, [2, 1, 1, 3, 6], dict(causal=True, length=4)), ([1, 2, 13, 64], [1, 2, 130, 64], 64, [1, 130], {}), ([2, 4, 1, 8], [2, 1, 9, 8], 8, None, dict(length=6)),
        ([1, 1, 3, 260], [1, 1, 4, 260], 260, None, dict(causal=True)), ([1, 2, 3, 4], [1, 2, 5, 4], 300, [3, 1], {}),
    ]
    for n, (qs, ks, ev, ms, o) in enumerate(table):
        o = dict(causal=False, scale=0.0, length=0) | o
        at = [o["causal"], o["scale"], o["length"], 0.0]
        for ty in FLOATS if n < 4 else ("f32",):
            q, k, v = randn(qs, ty), randn(ks, ty), randn(ks[:-1] + [ev], ty)
            masks = [None] if ms is None else [randn(ms, ty), torch.from_numpy(np.asarray(rng.integers(0, 3, ms) > 0))]
            for m in masks:
                if m is not None and m.dtype == torch.bool and m.dim() > 1 and m.shape[-2] > 2:
                    m[..., 1, :] = False  # a row that sees nothing
                grads = [0, 1, 2] + ([3] if m is not None and m.dtype != torch.bool else []) if ty in ("f32", "f64") else []
                with_grads("tc_scaled_dot_product_attention", at, lambda q, k, v, d: attend(q, k, v, m if m is not None and m.dtype == torch.bool else d, **o), [q, k, v, m], ty,
                           lambda g: ulps(2, 64 * EPS[ty] * (1 + float(g.double().abs().max()))), grads)
        for how in ("T", "S", "R") if n < 2 else ():
            q, k, v = randn(qs, "f32"), randn(ks, "f32"), randn(ks[:-1] + [ev], "f32")
            case("tc_scaled_dot_product_attention", at, [(q, how), (k, how), (v, how), None], attend(q.double(), k.double(), v.double(), None, **o).float(), ulps(2, 1e-5))
    q, k = randn([1, 2, 3, 4], "f32"), torch.zeros([1, 2, 0, 4])
    case("tc_scaled_dot_product_attention", [False, 0.0, 0, 0.0], [q, k, k, None], torch.zeros([1, 2, 3, 4]), ulps(0))
    case("tc_scaled_dot_product_attention", [False, 0.0, 0, 0.0], [k, q, q, None], torch.zeros([1, 2, 0, 4]), ulps(0))



def by_order():
    group("order")
    for ty in list(TYPES):
        for shape, axis in (([7], 0), ([3, 17], 1), ([17, 3], 0), ([2, 5, 4], -2), ([0, 3], 0), ([300], 0)):
            if len(shape) == 1 and shape[0] > 17 and ty not in ("f32", "f64", "i64", "bf16"):
                continue
            x, how = randn(shape, ty), "T" if len(shape) > 1 else ""
            if ty in FLOATS and x.numel() > 5:
                x.view(-1)[::5] = NAN
                x.view(-1)[1::7] = 0.0
                x.view(-1)[2::7] = -0.0
                x.view(-1)[3::11] = INF
            n = shape[axis]
            for descending in (False, True):
                y, i = torch.sort(x, dim=axis, descending=descending, stable=True)
                case("tc_sort", [axis, descending], [(x, how)], y, ulps(0))
                case("tc_argsort", [axis, descending], [(x, how)], i, ulps(0))
                for k in {0, n // 3, n}:
                    case("tc_topk", [k, axis, descending], [(x, how)], y.narrow(axis, 0, k), ulps(0))
                    case("tc_argtopk", [k, axis, descending], [(x, how)], i.narrow(axis, 0, k), ulps(0))
            if n and ty != "bool":
                case("tc_kthvalue", [1 + n // 3, axis, True], [(x, how)], x.kthvalue(1 + n // 3, axis, keepdim=True).values, ulps(0))
                case("tc_median", [axis, False], [(x, how)], x.median(axis).values, ulps(0))
                case("tc_median", [axis, True], [x.nan_to_num(1.0)], x.nan_to_num(1.0).median(axis, keepdim=True).values, ulps(0))
        if ty != "bool":
            for right in (False, True):
                for n in (0, 1, 5, 17):
                    seq, v = randn([2, n], ty).sort(1).values, randn([2, 9], ty)
                    v[:, : min(n, 4)] = seq[:, : min(n, 4)]
                    case("tc_searchsorted", [right], [seq, v], torch.searchsorted(seq, v, right=right), ulps(0))
                    one = seq[0].contiguous()
                    case("tc_searchsorted", [right], [one, (v, "T")], torch.searchsorted(one, v, right=right), ulps(0))
                    case("tc_bucketize", [right], [v.reshape(2, 3, 3), one], torch.bucketize(v.reshape(2, 3, 3), one, right=right), ulps(0))
        if ty in FLOATS:
            v = tensor([0.5, NAN, INF, -INF], ty)
            case("tc_searchsorted", [False], [tensor([0.0, 0.5, 1.0], ty), v], torch.searchsorted(tensor([0.0, 0.5, 1.0], ty), v), ulps(0))
            for shape, axis in (([6], 0), ([2, 3, 4], 1), ([0, 2], 0)):
                x = randn(shape, ty)
                w = torch.logcumsumexp(x.double(), axis).to(x.dtype)
                case("tc_logcumsumexp", [axis], [x], w, loose(ty, w, 2))
                with_grads("tc_logcumsumexp", [axis], lambda v: torch.logcumsumexp(v, axis), [x], ty, lambda g: loose(ty, g, 16), None if ty in ("f32", "f64") and x.numel() else [])
                case("tc_cummin", [axis], [x], torch.cummin(x, axis).values if x.numel() else x, ulps(0))
                for name in ("cummax", "cummin", "cumsum", "cumprod"):
                    if x.numel() and ty in ("f32", "f64"):
                        y = x.clone()
                        y.view(-1)[1::3] = 0.0  # products with zeros have gradients
                        with_grads("tc_" + name, [axis], lambda v: getattr(torch, name)(v, axis).values if name in ("cummax", "cummin") else getattr(torch, name)(v, axis), [y], ty, lambda g: loose(ty, g, 16))
            x = tensor([1.0, -INF, NAN, 3.0], ty)
            case("tc_cummin", [0], [x], torch.cummin(x, 0).values, ulps(0))
            case("tc_logcumsumexp", [0], [tensor([-INF, -INF, 1.0, INF, 2.0], ty)], tensor([-INF, -INF, 1.0, INF, INF], ty), ulps(0))
    case("tc_sort", [0, False], [torch.tensor(2.5)], torch.tensor(2.5), ulps(0))
    case("tc_argsort", [-1, True], [torch.tensor(2.5)], torch.tensor(0), ulps(0))
    case("tc_topk", [1, 0, True], [torch.tensor(2.5)], torch.topk(torch.tensor(2.5), 1, 0).values, ulps(0))
    case("tc_median", [0, False], [torch.tensor(2.5)], torch.tensor(2.5), ulps(0))
    case("tc_logcumsumexp", [0], [tensor([1, 2, 3], "i32")], torch.logcumsumexp(tensor([1.0, 2.0, 3.0], "f64"), 0).float(), ulps(4))
    for ty in ("i32", "i64", "u8"):
        x = randn([3, 5], ty)
        case("tc_cummin", [1], [x], torch.cummin(x, 1).values, ulps(0))


def turned(x, c, s, interleaved):
    w = 2 * c.shape[-1]
    z, rest = x[..., :w], x[..., w:]
    if interleaved:
        a, b = z[..., ::2], z[..., 1::2]
        y = torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)
    else:
        a, b = z.chunk(2, -1)
        y = torch.cat((a * c - b * s, b * c + a * s), -1)
    return torch.cat((y, rest), -1)


def rotary():
    group("rotary")
    for n, d, base in ((6, 8, 10000.0), (3, 2, 500000.0), (0, 4, 10000.0)):
        step = (1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)).float()
        case("tc_rotary_angles", [n, d, base], [], torch.arange(n).float()[:, None] * step, ulps(2))
    for ty in FLOATS:
        for shape, half in (([2, 3, 4, 8], 4), ([5, 6], 2), ([3, 1, 16], 8), ([2, 0, 4], 2)):
            angle = randn([9, half], "f32", 3.0)
            c, s = angle.cos(), angle.sin()
            n = shape[-2]
            for interleaved in (False, True):
                for offset in (0, 4):
                    with_grads("tc_rotary_embedding", [interleaved, offset], lambda x, c, s: turned(x, c[offset : offset + n], s[offset : offset + n], interleaved),
                               [(randn(shape, ty)), c, s], ty, lambda g: loose(ty, g, 4), [0] if ty in ("f32", "f64") and offset and n else [])
    x, c, s = randn([2, 3, 2, 4], "f32"), randn([2, 1, 3, 2], "f32"), randn([2, 1, 3, 2], "f32")
    case("tc_rotary_embedding", [False, 1], [(x, "T"), c, s], turned(x.double(), c[..., 1:3, :].double(), s[..., 1:3, :].double(), False).float(), loose("f32", x, 4))


def pool_options():
    group("pool_options")
    names = ("stride", "padding", "dilation")
    table = [
        (1, [2, 3, 10], 3, dict(stride=2)), (2, [2, 3, 6, 7], 3, dict(stride=2, padding=1)), (2, [1, 2, 5, 4], (2, 3), dict(stride=(3, 2), padding=(0, 1))), (3, [1, 2, 5, 4, 6], 2, {}),
        (3, [2, 3, 4, 5], (2, 3, 1), dict(stride=(1, 2, 2), padding=(1, 1, 0))), (3, [1, 1, 7, 6, 5], 3, dict(stride=2, padding=1)), (2, [1, 2, 9, 9], 7, dict(stride=1)), (1, [1, 2, 40], 33, dict(stride=1)),
        (2, [1, 3, 2, 2], 3, dict(stride=2)),
    ]
    for k, (n, xs, size, o) in enumerate(table):
        sizes = list(size) if isinstance(size, tuple) else [size]
        for ty in FLOATS if k in (1, 3) else ("f32",):
            grads = None if ty in ("f32", "f64") else []
            x = randn(xs, ty)
            for ceil in (False, True):
                if k == 8 and not ceil:
                    continue
                for dilated in ({}, dict(dilation=2)) if k in (1, 3, 5) else ({},):
                    om = {**o, **dilated}
                    at = [sizes] + lists(om, n, names) + [0, int(ceil), 0]
                    with_grads("tc_max_pool%dd" % n, at, lambda v: getattr(F, "max_pool%dd" % n)(v, size, **om, ceil_mode=ceil), [x], ty, lambda g: ulps(1, 16 * EPS[ty]), grads)
                    case("tc_max_pool%dd_indices" % n, at, [x], getattr(F, "max_pool%dd" % n)(x.double(), size, **om, ceil_mode=ceil, return_indices=True)[1], ulps(0))
                for include, divisor in ((True, 0), (False, 0), (True, 5)):
                    if n == 1 and divisor:
                        continue
                    more = dict(divisor_override=divisor or None) if n > 1 else {}
                    with_grads("tc_avg_pool%dd" % n, [sizes] + lists(o, n, names) + [int(not include), int(ceil), divisor],
                               lambda v: getattr(F, "avg_pool%dd" % n)(v, size, o.get("stride"), o.get("padding", 0), ceil_mode=ceil, count_include_pad=include, **more), [x], ty, lambda g: loose(ty, g, 8), grads)
    x = randn([2, 3, 7, 6], "f32").round()  # equals
    at = [[3], [2], [1], [], 0, 0, 0]
    with_grads("tc_max_pool2d", at, lambda v: F.max_pool2d(v, 3, 2, 1), [x], "f32", lambda g: ulps(1, 1e-6))
    case("tc_max_pool2d_indices", at, [(x, "T")], F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], ulps(0))
    x = torch.full([1, 1, 3, 4], -INF)
    with_grads("tc_max_pool2d", at, lambda v: F.max_pool2d(v, 3, 2, 1), [x], "f32", lambda g: ulps(1, 1e-6))
    case("tc_max_pool2d_indices", at, [x], F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], ulps(0))
    for n, xs, size in ((1, [2, 3, 7], [3]), (1, [2, 8], [4]), (2, [2, 3, 7, 5], [3, 2]), (2, [1, 2, 6, 4], [3, 2]), (3, [1, 2, 4, 5, 3], [2, 3, 2]), (3, [1, 4, 4, 2], [2, 2, 1]), (3, [1, 1, 2, 3, 3], [3, 4, 1])):
        for kind in ("avg", "max"):
            for ty in FLOATS if n == 2 or kind == "max" else ("f32",):
                x = randn(xs, ty)
                with_grads("tc_adaptive_%s_pool%dd" % (kind, n), [size], lambda v: getattr(F, "adaptive_%s_pool%dd" % (kind, n))(v, size), [x], ty, lambda g: loose(ty, g, 4), None if ty in ("f32", "f64") else [])
    for xs, ws, o in (([1, 2, 2, 3, 2], [2, 3, 2, 2, 3], dict(stride=(1, 2, 2), padding=(0, 1, 1), output_padding=(0, 1, 0))), ([2, 4, 2, 2, 2], [4, 1, 2, 3, 2], dict(groups=2, dilation=(2, 1, 1)))):
        for ty in FLOATS:
            x, w, b = randn(xs, ty), randn(ws, ty), randn([ws[1] * o.get("groups", 1)], ty)
            size = float(w.double().abs().sum() * x.double().abs().max()) + 4 * math.prod(xs)
            at = lists(o, 3, names + ("output_padding",)) + [o.get("groups", 0)]
            with_grads("tc_conv_transpose3d", at, lambda x, w, b: F.conv_transpose3d(x, w, b, **o), [x, w, b], ty, lambda g: summed(ty, g, size), None if ty in ("f32", "f64") else [])


def every_type():
    """What moves or reads elements, in each floating type; the rest has such cases in its own group."""
    group("types")
    for ty in FLOATS:
        x, y = randn([3, 4], ty), randn([3, 4], ty)
        i, m, src = torch.tensor([[2, 0, -1, 1]]), randn([3, 4], "bool"), randn([1, 4], ty)
        moved = {
            "detach": ([], x), "diagonal": ([1], x.diagonal(1)), "flatten": ([0, 1], x.flatten()), "flip": ([[1]], x.flip(1)), "pad": ([[1, 0], [0, 2], 1.5], F.pad(x, (0, 2, 1, 0), value=1.5)),
            "permute": ([[1, 0]], x.t()), "repeat_interleave": ([2, 1], x.repeat_interleave(2, 1)), "reshape": ([[2, 6]], x.reshape(2, 6)), "roll": ([1, 0], x.roll(1, 0)), "select": ([1, 2], x[:, 2]),
            "slice": ([1, 3, 0, -2], x[:, [3, 1]]), "squeeze": (["*"], x), "tile": ([[2, 1]], x.tile(2, 1)), "transpose": ([0, 1], x.t()), "tril": ([0], x.tril()), "triu": ([1], x.triu(1)),
            "unfold": ([1, 2, 1], x.unfold(1, 2, 1)), "unsqueeze": ([0], x[None]),
        }
        for name, (at, want) in moved.items():
            case("tc_" + name, at, [x], want, "bits")
        case("tc_cat", [0], [x, y], torch.cat([x, y]), "bits")
        case("tc_stack", [1], [x, y], torch.stack([x, y], 1), "bits")
        case("tc_gather", [0], [x, i], torch.gather(x, 0, wrap(i, 3)), "bits")
        case("tc_take_along_dim", [0], [x, i], torch.gather(x, 0, wrap(i, 3)), "bits")
        case("tc_index_select", [0], [x, i[0]], x[wrap(i[0], 3)], "bits")
        case("tc_embedding", [], [x, i], x[wrap(i, 3)], "bits")
        case("tc_scatter", [0], [x, i, src], x.scatter(0, wrap(i, 3), src), "bits")
        case("tc_scatter_add", [0], [x, i, src], x.double().scatter_add(0, wrap(i, 3), src.double()).to(x.dtype), ulps(1))
        case("tc_index_add", [1], [x, i[0, :2], y[:, :2]], x.double().index_add(1, wrap(i[0, :2], 4), y[:, :2].double()).to(x.dtype), ulps(1))
        case("tc_masked_fill", [2.0], [x, m], x.masked_fill(m, 2), "bits")
        case("tc_masked_select", [], [x, m], x[m], "bits")
        case("tc_nonzero", [], [x * m], torch.nonzero(x * m), ulps(0))
        case("tc_unique", [], [tensor([2.5, -1.0, 2.5, 0.0], ty)], tensor([-1.0, 0.0, 2.5], ty), ulps(0))
        case("tc_split", [2, 1, 2, 1], [x], x[:, 2:], "bits")
        case("tc_meshgrid", [0], [x[0], y[0]], torch.meshgrid(x[0], y[0], indexing="ij")[0], "bits")
        case("tc_bmm", [], [x[None], y.t()[None]], (x.double() @ y.t().double())[None].to(x.dtype), loose(ty, x.double() @ y.t().double(), 4))
        case("tc_einsum", ["ij,kj->ik"], [x, y], (x.double() @ y.t().double()).to(x.dtype), loose(ty, x.double() @ y.t().double(), 4))
        z = randn([2, 2, 5], ty)
        at = [[2], [], [], [], 0, 0, 0]
        case("tc_max_pool1d_indices", at, [z], F.max_pool1d(z.double(), 2, return_indices=True)[1], ulps(0))
        want = F.adaptive_avg_pool1d(z.double(), 3).to(z.dtype)
        case("tc_adaptive_avg_pool1d", [[3]], [z], want, loose(ty, want, 2))
        z, w = randn([1, 2, 3, 4, 3], ty), randn([2, 2, 2, 2, 2], ty)
        want = F.adaptive_avg_pool3d(z.double(), 2).to(z.dtype)
        case("tc_adaptive_avg_pool3d", [[2]], [z], want, loose(ty, want, 2))
        want = F.conv3d(z.double(), w.double()).to(z.dtype)
        case("tc_conv3d", [[], [], [], [], 0], [z, w, None], want, loose(ty, want, 4))


# ---- Bytes by a scale and a zero point ----
def quantization():
    group("quantize")
    kinds = {"i8": torch.qint8, "u8": torch.quint8}

    def both(x, scale, zero, ty, q, options, symmetric):
        back = q.dequantize()
        given = [None] if symmetric else []
        for z in given + [zero]:
            case("tc_quantize", [ty, *options], [x, scale, z], q.int_repr(), ulps(0))
            case("tc_dequantize", [*options], [q.int_repr(), scale, z], back, ulps(0))

    x = torch.cat([randn([5, 16], "f32", 40.0).flatten(), tensor([0.5, 1.5, 2.5, -0.5, -1.5, 1e6, -1e6, 0.0, 0.05, 0.15, -0.15, 0.35, 1e-30, 127.5, -128.5, 12.7], "f32")]).reshape(6, 16)
    for ty, zero in (("i8", 0), ("i8", -7), ("u8", 0), ("u8", 128)):
        for scale in (1.0, 0.1, 0.37):
            q = torch.quantize_per_tensor(x, scale, zero, kinds[ty])
            both(x, tensor(scale, "f32"), tensor(zero, "i32"), ty, q, [0, 0], zero == 0)
    for ty in ("i8", "u8"):
        for axis in (0, 1):
            n = x.shape[axis]
            scale, zero = torch.arange(1, n + 1).float() * 0.11, (torch.arange(n) * 5 % 9).int()
            q = torch.quantize_per_channel(x, scale, zero, axis, kinds[ty])
            both(x, scale, zero, ty, q, [axis, 0], False)
    scale = torch.arange(1, 25).float() * 0.07  # of groups: as if each were a channel
    q = torch.quantize_per_channel(x.reshape(24, 4), scale, torch.zeros(24).int(), 0, torch.qint8)
    case("tc_quantize", ["i8", 1, 4], [x, scale.reshape(6, 4), None], q.int_repr().reshape(6, 16), ulps(0))
    case("tc_dequantize", [1, 4], [q.int_repr().reshape(6, 16), scale.reshape(6, 4), None], q.dequantize().reshape(6, 16), ulps(0))


def main():
    for make in (factories, unary, binary, movement, reductions, indexing, products, activations, several, windows, convolutions, pooling, norms, resizing, polygammas, bools, scalar_indexing, by_order, rotary, pool_options, every_type, attention, quantization):
        make()
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(here, "tests", "golden", "golden.txt")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("# Golden values, made by tools/golden.py with NumPy %s and PyTorch %s; the format is described there.\n" % (np.__version__, torch.__version__))
        f.write("\n".join(lines) + "\n")
    print("%d cases, %d values, %d bytes" % (n_cases, len(operands), os.path.getsize(path)))


sys.exit(main())
