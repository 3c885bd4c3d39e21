#!/usr/bin/env python3
"""PyTorch beside tc: torch_peer.py MODE BENCH CASE THREADS. Every call ends with its result computed.

MODE: eager; compiled: torch.compile of the function or of the whole training step; and, for training only, fused: eager with the fused optimizer;
functional: forward, gradients and Adam as one compiled function of plain tensors.
"""
import os
import sys

mode, bench, case, threads = sys.argv[1:5]
if mode in ("fused", "functional") and bench not in ("mlp", "digits"):
    sys.exit(3)
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


def functional_trainer(model, loss_of):
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    m, v = ({name: torch.zeros_like(p) for name, p in params.items()} for _ in range(2))
    loss_and_grads = torch.func.grad_and_value(lambda params, x, y: loss_of(torch.func.functional_call(model, params, (x,)), y))

    @torch.compile
    def update(params, m, v, scale, x, y):
        grads, loss = loss_and_grads(params, x, y)
        for name, g in grads.items():
            m[name].lerp_(g, 0.1)
            v[name].mul_(0.999).addcmul_(g, g, value=0.001)
            params[name].sub_(scale[0] * m[name] / (v[name].sqrt() / scale[1] + 1e-8))
        return loss

    scale, powers = torch.zeros(2), [1.0, 1.0]

    def step(x, y):
        powers[0], powers[1] = powers[0] * 0.9, powers[1] * 0.999
        scale[0], scale[1] = 1e-3 / (1 - powers[0]), (1 - powers[1]) ** 0.5
        with torch.no_grad():
            return update(params, m, v, scale, x, y)

    return step


def trainer(widths, classes, smoothing=0.0):
    model = network(widths)

    def loss_of(out, y):
        return F.cross_entropy(out, y, label_smoothing=smoothing) if classes else F.mse_loss(out, y)

    if mode == "functional":
        return functional_trainer(model, loss_of)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(1e-3) if mode == "compiled" else 1e-3, fused=mode == "fused")

    def step(x, y):
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return prepare(step)


def mlp():
    batch, widths, classes = cases.MLP[case]
    x = values(batch, widths[0])
    y = torch.arange(batch) * 7 % widths[-1] if classes else values(batch, widths[-1])
    step = trainer(widths, classes)
    return lambda: step(x, y).item()


def digits():
    rows, batch, widths, smoothing = cases.DIGITS
    x, y, order = values(rows, widths[0]), torch.arange(rows) * 7 % widths[-1], torch.arange(rows) * 1009 % rows
    step = trainer(widths, True, smoothing)

    def call():
        total = torch.zeros(())
        for k in range(0, rows // batch * batch, batch):
            at = order[k : k + batch]
            total = total + step(x[at], y[at]).detach()
        return total.item()

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
