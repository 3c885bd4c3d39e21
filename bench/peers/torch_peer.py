#!/usr/bin/env python3
"""PyTorch beside tc: torch_peer.py MODE BENCH CASE THREADS. Every call ends with its result computed.

MODE: eager; compiled: torch.compile of the function or of the whole training step; and, for training only, fused: eager with the fused optimizer;
functional: forward, gradients and Adam as one compiled function of plain tensors.
"""
import os
import sys

mode, bench, case, threads = sys.argv[1:5]
if bench not in {"fused": ("mlp", "digits", "optim"), "functional": ("mlp", "digits")}.get(mode, (bench,)):
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


def gradients(fn, *inputs, g=None):
    """The result and the gradients of the inputs; a compiled function's backward pass is compiled too."""
    fn, inputs = prepare(fn), [x.requires_grad_() for x in inputs]

    def call():
        for x in inputs:
            x.grad = None
        y = fn(*inputs)
        y.backward(g)
        return y

    return call


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def norm():
    images = case == "batchnorm_grad"
    shape = cases.NORM[case]
    channels = shape[1 if images else -1]
    x, w, b, g = values(*shape), values(channels), values(channels), values(*shape)
    if images:
        x, g = (t.to(memory_format=torch.channels_last) for t in (x, g))
        return gradients(batch_norm, x, w, b, g=g)
    if case == "rmsnorm":
        return function(lambda x, w: F.rms_norm(x, (channels,), w, 1e-6), x, w)

    def layer_norm(x, w, b):
        return F.layer_norm(x, (channels,), w, b)

    return gradients(layer_norm, x, w, b, g=g) if case == "layernorm_grad" else function(layer_norm, x, w, b)


def xent():
    rows, classes = cases.XENT
    y = torch.arange(rows) * 97 % classes
    return gradients(lambda x: F.cross_entropy(x, y), values(rows, classes))


def embedding():
    words, width, n = cases.EMBEDDING
    ids = torch.arange(n) * 97 % words
    return gradients(lambda w: F.embedding(ids, w), values(words, width), g=values(n, width))


def optim():
    n, *shape = cases.OPTIM
    params = [torch.nn.Parameter(values(*shape)) for _ in range(n)]
    for p in params:
        p.grad = values(*shape)
    fused = {"fused": True} if mode == "fused" else {}
    lr = torch.tensor(1e-3) if mode == "compiled" else 1e-3
    if case == "sgd100":
        optimizer = torch.optim.SGD(params, lr=lr, momentum=0.9, **fused)
    else:
        kind, decay = (torch.optim.Adam, 0) if case == "adam100" else (torch.optim.AdamW, 1e-2)
        optimizer = kind(params, lr=lr, weight_decay=decay, **fused)
    return prepare(lambda: optimizer.step())


make = {
    "record": lambda: function(hundred_adds, values(16), values(16)),
    "step": lambda: function(mixed_ops, values(10, 10), values(10, 10)),
    "sincos": sincos,
    "chain": lambda: function(lambda a, b, c: torch.relu(a * b + c), *(values(16 << 20) for _ in range(3))),
    "reduce": sums,
    "softmax": lambda: function(lambda a: torch.softmax(a, -1), values(*cases.SOFTMAX[case])),
    "gelu": lambda: function(lambda a: F.gelu(a, approximate="tanh" if case == "gelu16m_tanh" else "none"), values(16 << 20)),
    "norm": norm,
    "xent": xent,
    "embedding": embedding,
    "optim": optim,
    "gemm": lambda: function(torch.matmul, values(int(case), int(case)), values(int(case), int(case))),
    "mlp": mlp,
    "digits": digits,
}.get(bench)
cases.report(make() if make else None)
