#!/usr/bin/env python3
"""PyTorch beside tc: torch_peer.py eager|compiled BENCH CASE THREADS. Every call ends with its result computed."""
import os
import sys

mode, bench, case, threads = sys.argv[1:5]
os.environ["OMP_NUM_THREADS"] = threads

import torch  # noqa: E402  (reads the number of threads when it is imported)
import torch.nn.functional as F  # noqa: E402

import cases  # noqa: E402

torch.set_num_threads(int(threads))
torch.manual_seed(1)


def values(*shape):
    return torch.rand(*shape) * 2 - 1


def prepare(fn):
    return torch.compile(fn) if mode == "compiled" else fn


def function(fn, *inputs):
    fn = prepare(fn)

    def call():
        with torch.no_grad():
            return fn(*inputs)

    return call


def hundred_adds(a, b):
    for _ in range(100):
        a = a + b
    return a


def mixed_ops(a, b):
    t = a
    for _ in range(10):
        t = torch.relu((t + b) * a)
        t = torch.maximum(torch.abs(t - b), a)
        t = torch.minimum(-(t * 0.5) + 1.0, b)
    return t


def network(widths):
    layers = []
    for i, (n_in, n_out) in enumerate(zip(widths, widths[1:])):
        layers += [torch.nn.Linear(n_in, n_out)] + ([torch.nn.ReLU()] if i + 2 < len(widths) else [])
    return torch.nn.Sequential(*layers)


def trainer(widths, classes):
    model = network(widths)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loss_of = prepare(lambda x, y: F.cross_entropy(model(x), y) if classes else F.mse_loss(model(x), y))

    def step(x, y):
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def mlp():
    batch, widths, classes = cases.MLP[case]
    x = values(batch, widths[0])
    y = torch.arange(batch) * 7 % widths[-1] if classes else values(batch, widths[-1])
    step = trainer(widths, classes)
    return lambda: step(x, y).item()


def digits():
    rows, batch, widths = cases.DIGITS
    x, y = values(rows, widths[0]), torch.arange(rows) * 7 % widths[-1]
    step = trainer(widths, True)

    def call():
        for k in range(0, rows // batch * batch, batch):
            loss = step(x[k : k + batch], y[k : k + batch])
        return loss.item()

    return call


def sums():
    a = values(4096, 4096)
    axis = {"sum4096_axis0": 0, "sum4096_axis1": 1, "sum4096_all": None}[case]
    return function(lambda a: a.sum() if axis is None else a.sum(axis), a)


def sincos():
    n = 10 if case == "10x10" else 4096
    return function(lambda a, b: torch.sin(a) + torch.cos(b), values(n, n), values(n, n))


make = {
    "record": lambda: function(hundred_adds, values(16), values(16)),
    "step": lambda: function(mixed_ops, values(10, 10), values(10, 10)),
    "sincos": sincos,
    "chain": lambda: function(lambda a, b, c: torch.relu(a * b + c), *(values(16 << 20) for _ in range(3))),
    "reduce": sums,
    "softmax": lambda: function(lambda a: torch.softmax(a, -1), values(*cases.SOFTMAX[case])),
    "gemm": lambda: function(torch.matmul, values(int(case), int(case)), values(int(case), int(case))),
    "mlp": mlp,
    "digits": digits,
}.get(bench)
cases.report(make() if make else None)
