#!/usr/bin/env python3
"""NumPy beside tc: numpy_peer.py BENCH CASE THREADS."""
import os
import sys

bench, case, threads = sys.argv[1:4]
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = threads

import numpy as np  # noqa: E402  (reads the number of threads when it is imported)

import cases  # noqa: E402

rng = np.random.default_rng(1)


def values(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def record():
    a, b = values(16), values(16)

    def call():
        t = a
        for _ in range(100):
            t = t + b

    return call


def step():
    a, b = values(10, 10), values(10, 10)

    def call():
        t = a
        for _ in range(10):
            t = np.maximum((t + b) * a, np.float32(0))
            t = np.maximum(np.abs(t - b), a)
            t = np.minimum(-(t * np.float32(0.5)) + np.float32(1), b)

    return call


def sincos():
    n = 10 if case == "10x10" else 4096
    a, b = values(n, n), values(n, n)
    return lambda: np.sin(a) + np.cos(b)


def chain():
    a, b, c = (values(16 << 20) for _ in range(3))
    return lambda: np.maximum(a * b + c, np.float32(0))


def reduce():
    a = values(4096, 4096)
    axis = {"sum4096_axis0": 0, "sum4096_axis1": 1, "sum4096_all": None}[case]
    return lambda: a.sum(axis)


def softmax():
    a = values(*cases.SOFTMAX[case])

    def call():
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return call


def gemm():
    if not case.isdigit():
        return None
    a, b = values(int(case), int(case)), values(int(case), int(case))
    return lambda: a @ b


def linrelu():
    x, w, b = values(cases.LINRELU[case], 100), values(10, 100), values(10)
    return lambda: np.maximum(x @ w.T + b, np.float32(0))


def fresh():
    if case not in ("sincos10", "rss_sincos10"):
        return None
    return cases.fresh("cold" if bench == "cold" else "mib", [__file__, "fresh", case, threads])


def print_fresh():
    a = np.arange(100, dtype=np.float32).reshape(10, 10)
    np.sin(a) + np.cos(-a)
    print("done", cases.status_mib("VmHWM"), flush=True)


make = {
    "record": record,
    "step": step,
    "sincos": sincos,
    "linrelu": linrelu,
    "chain": chain,
    "reduce": reduce,
    "softmax": softmax,
    "gemm": gemm,
    "cold": fresh,
    "size": fresh,
}
if bench == "fresh":
    print_fresh()
else:
    cases.report(make[bench]() if bench in make else None, once=bench in ("cold", "size"))
