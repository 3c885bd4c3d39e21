#!/usr/bin/env python3
"""Writes tests/golden/text.txt: what NumPy prints of tensors, and the bytes of its .npy files.

    /tmp/gv/bin/python tools/golden_text.py        after the environment of tools/golden.py is made (NumPy 2.3 or later)

    print TYPE[DIMS] HEX N      then N lines: str(array)
    save TYPE[DIMS] HEX FILE    numpy.save's bytes; tc_save_npy writes the same
    load TYPE[DIMS] HEX FILE    a file that means the same: Fortran order, versions 2.0 and 3.0, unsigned integers that tc lacks
    refuse - WHY FILE           tc_load_npy refuses it: it is damaged (io), or of a type that tc lacks (dtype)
"""
import io
import math
import os
import warnings

import numpy as np
from numpy.lib import format as npy

warnings.filterwarnings("ignore")
TYPES = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32,
         "f64": np.float64}
EDGES = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e8, 1e16, 1e-4, 9.9999e-5, 1e-5, 0.1, 123456789.0, 1.5, -2.5, 1e300, 5e-324, 65504, 6e-8, 3.4e38,
         1e-45, 99999.99, 999999.9, 1e6, 999.5, 1e3, 0.3, 1234.5678, 1e15, 1e17]
SHAPES = [(0,), (1,), (3,), (20,), (100,), (1001,), (2, 3), (0, 3), (3, 0), (1, 1), (10, 10), (40, 30), (1001, 2), (2, 1001), (3, 4, 5), (11, 11, 11),
          (2, 3, 2, 3), (1, 2, 1, 2, 1, 2)]
rng = np.random.default_rng(7)
lines = []


def spec(a):
    name = next(n for n, t in TYPES.items() if a.dtype == t)
    return "%s[%s] %s" % (name, ",".join(map(str, a.shape)), np.ascontiguousarray(a).tobytes().hex() or "-")


def show(a):
    text = str(a)
    lines.append("print %s %d" % (spec(a), text.count("\n") + 1))
    lines.append(text)


def values(name, n, kind):
    if name[0] == "f":
        choices = [rng.normal(size=n), rng.integers(-100, 100, size=n) / 8, rng.normal(size=n) * 10.0 ** rng.integers(-6, 6, size=n), rng.choice(EDGES, size=n)]
        return choices[kind % 4].astype(TYPES[name])
    if name == "bool":
        return rng.integers(0, 2, size=n).astype(bool)
    info = np.iinfo(TYPES[name])
    low, high = (max(info.min, -5), 10) if kind % 2 else (info.min, info.max)
    return rng.integers(low, high, size=n, endpoint=True, dtype=np.int64).astype(TYPES[name])


def files():
    for name, dtype in TYPES.items():
        for shape in ((), (3,), (2, 3), (2, 0, 3), (2, 3, 2)):
            a = values(name, math.prod(shape), 1).reshape(shape)
            f = io.BytesIO()
            np.save(f, a)
            lines.append("save %s %s" % (spec(a), f.getvalue().hex()))
            if a.itemsize > 1:
                f = io.BytesIO()
                npy.write_array(f, np.array(a, dtype=a.dtype.newbyteorder(">"), order="F"), version=(1, 0))
                lines.append("load %s %s" % (spec(a), f.getvalue().hex()))
            for order, version in (("F", (1, 0)), ("C", (2, 0)), ("F", (3, 0))):
                f = io.BytesIO()
                npy.write_array(f, np.array(a, order=order), version=version)
                lines.append("load %s %s" % (spec(a), f.getvalue().hex()))
    good = f.getvalue()
    for wide, bits in (("i32", 16), ("i64", 32), ("i64", 64)):
        a = np.array([[0, 1, 2 ** (bits - 1) - 1], [2 ** min(bits, 63) - 1, 258, 3]], TYPES[wide])
        for order in "<>":
            f = io.BytesIO()
            npy.write_array(f, np.array(a, dtype="%su%d" % (order, bits // 8), order="F" if order == ">" else "C"), version=(1, 0))
            lines.append("load %s %s" % (spec(a), f.getvalue().hex()))
    damaged = [b"", b"\x93NUMPX" + good[6:], good[:-1], good[:20], good[:6] + b"\x09" + good[7:]]
    foreign = []
    for a in (np.zeros(2, ">M8[s]"), np.zeros(2, [("a", "i4")]), np.zeros(2, complex), np.array([1, 2**63], np.uint64), np.array(["ab"])):
        f = io.BytesIO()
        np.save(f, a)
        foreign.append(f.getvalue())
    lines.extend("refuse - %s %s" % (why, b.hex() or "-") for why, some in (("io", damaged), ("dtype", foreign)) for b in some)


def main():
    for name, dtype in TYPES.items():
        for v in EDGES if name[0] == "f" else (0, 1, 100):
            show(np.array(v).astype(dtype))
        for kind in range(4):
            for shape in SHAPES:
                n = math.prod(shape)
                if n < 1000 or kind == (2 if name in ("f32", "i16") else -1):
                    show(values(name, n, kind).reshape(shape))
    for edge in EDGES:  # what decides between the two notations
        for dtype in (np.float16, np.float32, np.float64):
            show(np.array([edge, 1.0], dtype))
    files()
    path = os.path.join(os.path.dirname(__file__), "../tests/golden/text.txt")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    print(sum(line.split(" ")[0] in ("print", "save", "load", "refuse") for line in lines), "cases,", os.path.getsize(path), "bytes")


main()
