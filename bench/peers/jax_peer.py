#!/usr/bin/env python3
"""JAX beside tc: jax_peer.py BENCH CASE THREADS. Every call ends with its result computed; training is one compiled function a step."""
import functools
import os
import sys
import time

bench, case, threads = sys.argv[1:4]
os.environ["OMP_NUM_THREADS"] = threads
os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'false' if threads == '1' else 'true'} intra_op_parallelism_threads={threads}"
if threads == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # what it offers else does not hold it to one thread
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax, nn  # noqa: E402

import cases  # noqa: E402

rng = np.random.default_rng(1)


def values(*shape):
    return jnp.asarray(rng.uniform(-1, 1, shape).astype(np.float32))


def function(fn, *inputs):
    compiled = jax.jit(fn)
    return lambda: jax.block_until_ready(compiled(*inputs))


def step():
    def mixed(a, b):
        t = a
        for _ in range(10):
            t = nn.relu((t + b) * a)
            t = jnp.maximum(jnp.abs(t - b), a)
            t = jnp.minimum(-(t * 0.5) + 1.0, b)
        return t

    return function(mixed, values(10, 10), values(10, 10))


def sincos():
    n = 10 if case == "10x10" else 4096
    return function(lambda a, b: jnp.sin(a) + jnp.cos(b), values(n, n), values(n, n))


def sums():
    axis = {"sum4096_axis0": 0, "sum4096_axis1": 1, "sum4096_all": None}[case]
    return function(lambda a: a.sum(axis), values(4096, 4096))


def linrelu():
    return function(lambda x, w, b: nn.relu(x @ w.T + b), values(cases.LINRELU[case], 100), values(10, 100), values(10))


def conv():
    n, c_in, side, c_out, window, stride = cases.convs()[case]
    x, w = values(n, side, side, c_in), values(window, window, c_in, c_out)
    pads = [(window // 2, window // 2)] * 2
    return function(lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC")), x, w)


def attend(q, k, v, causal):
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    if causal:
        t = q.shape[2]
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return jnp.einsum("bhts,bhsd->bhtd", nn.softmax(scores), v)


def attention():
    q, k, v, g = (values(*cases.ATTENTION) for _ in range(4))
    fn = functools.partial(attend, causal=True)
    if case == "forward":
        return function(fn, q, k, v)

    def both(q, k, v, g):
        y, back = jax.vjp(fn, q, k, v)
        return y, back(g)

    return function(both, q, k, v, g)


# ---- Training of small networks ----


def network(params, x):
    for i, (w, b) in enumerate(params):
        x = x @ w.T + b
        x = nn.relu(x) if i + 1 < len(params) else x
    return x


def cross_entropy(logits, y, smoothing=0.0):
    log = nn.log_softmax(logits)
    picked = jnp.take_along_axis(log, y[:, None], 1)[:, 0]
    return -((1 - smoothing) * picked + smoothing * log.mean(-1)).mean()


def adam_state(params):
    return params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.int32)


def adam(state, grads):
    params, m, v, t = state
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    a, b = 1e-3 / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
    return jax.tree.map(lambda p, m, v: p - a * m / (jnp.sqrt(v) / b + 1e-8), params, m, v), m, v, t


def trainer(widths, loss_of):
    @functools.partial(jax.jit, donate_argnums=0)
    def train(state, x, y):
        loss, grads = jax.value_and_grad(lambda params: loss_of(network(params, x), y))(state[0])
        return adam(state, grads), loss

    bound = [n**-0.5 for n in widths]
    params = [(values(b, a) * k, values(b) * k) for a, b, k in zip(widths, widths[1:], bound)]
    return train, adam_state(params)


def mlp():
    batch, widths, of_classes = cases.MLP[case]
    x = values(batch, widths[0])
    y = jnp.arange(batch) * 7 % widths[-1] if of_classes else values(batch, widths[-1])
    train, state = trainer(widths, cross_entropy if of_classes else lambda out, y: ((out - y) ** 2).mean())

    def call():
        nonlocal state
        state, loss = train(state, x, y)
        return float(loss)

    return call


def digits():
    rows, batch, widths, smoothing = cases.DIGITS
    x, y, order = values(rows, widths[0]), jnp.arange(rows) * 7 % widths[-1], np.arange(rows) * 1009 % rows
    train, state = trainer(widths, functools.partial(cross_entropy, smoothing=smoothing))
    picked = jax.jit(lambda state, at: train(state, x[at], y[at]))

    def call():
        nonlocal state
        total = 0
        for k in range(0, rows // batch * batch, batch):
            state, loss = picked(state, order[k : k + batch])
            total = total + loss
        return float(total)

    return call


def dyn():
    if case == "compiles":
        return None
    bound = [64**-0.5, 256**-0.5]
    params = [(values(b, a) * k, values(b) * k) for (a, b), k in zip(((64, 256), (256, 10)), bound)]
    x, fn = values(128, 64), jax.jit(network)

    def once():
        start = time.perf_counter()
        for n in cases.DYN:
            fn(params, x[:n]).block_until_ready()
        return time.perf_counter() - start

    def first():
        jax.clear_caches()
        return once()

    return first if case == "first" else once


# ---- Models: with the numbers of cases.py ----


def parameters(shapes, dtype=jnp.float32):
    return {name: jnp.asarray(cases.parameter(name, shape)).astype(dtype) for name, shape in shapes.items()}


def layer_norm(p, path, x, eps):
    mean = x.mean(-1, keepdims=True, dtype=jnp.float32)
    var = jnp.square(x - mean).mean(-1, keepdims=True, dtype=jnp.float32)
    return ((x - mean) * lax.rsqrt(var + eps)).astype(x.dtype) * p[path + ".weight"] + p[path + ".bias"]


def heads_of(x):
    return x.reshape(*x.shape[:2], 12, -1).transpose(0, 2, 1, 3)


def joined(x):
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def norm_shapes(path, dim=768):
    return {path + ".weight": (dim,), path + ".bias": (dim,)}


def linear_shapes(path, n_in, n_out):
    return {path + ".weight": (n_out, n_in), path + ".bias": (n_out,)}


def bert_shapes(dim=768):
    shapes = {f"embeddings.{n}_embeddings.weight": (rows, dim) for n, rows in (("word", 30522), ("position", 512), ("token_type", 2))}
    shapes |= norm_shapes("embeddings.LayerNorm")
    for i in range(12):
        path = f"encoder.layer.{i}"
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= linear_shapes(f"{path}.{part}", dim, dim)
        shapes |= linear_shapes(f"{path}.intermediate.dense", dim, 4 * dim) | linear_shapes(f"{path}.output.dense", 4 * dim, dim)
        shapes |= norm_shapes(f"{path}.attention.output.LayerNorm") | norm_shapes(f"{path}.output.LayerNorm")
    return shapes


def bert(p, ids):
    def dense(path, x):
        return x @ p[path + ".weight"].T + p[path + ".bias"]

    e = "embeddings."
    x = p[e + "word_embeddings.weight"][ids] + p[e + "position_embeddings.weight"][: ids.shape[1]] + p[e + "token_type_embeddings.weight"][0]
    x = layer_norm(p, e + "LayerNorm", x, 1e-12)
    for i in range(12):
        path = f"encoder.layer.{i}"
        q, k, v = (heads_of(dense(f"{path}.attention.self.{n}", x)) for n in ("query", "key", "value"))
        y = dense(path + ".attention.output.dense", joined(attend(q, k, v, False)))
        x = layer_norm(p, path + ".attention.output.LayerNorm", x + y, 1e-12)
        y = dense(path + ".output.dense", nn.gelu(dense(path + ".intermediate.dense", x), approximate=False))
        x = layer_norm(p, path + ".output.LayerNorm", x + y, 1e-12)
    return x


def bert_infer():
    if case.endswith("_int8"):
        return None
    p = parameters(bert_shapes(), jnp.bfloat16 if case.endswith("bf16") else jnp.float32)
    return function(bert, p, jnp.asarray(cases.ids(*cases.shape_of(case), 30522)))


def gpt2_shapes(dim=768):
    shapes = {"wte.weight": (50257, dim), "wpe.weight": (1024, dim)} | norm_shapes("ln_f")
    for i in range(12):
        path = f"h.{i}"
        shapes |= norm_shapes(path + ".ln_1") | norm_shapes(path + ".ln_2")
        for part, n_in, n_out in (("attn.c_attn", dim, 3 * dim), ("attn.c_proj", dim, dim), ("mlp.c_fc", dim, 4 * dim), ("mlp.c_proj", 4 * dim, dim)):
            shapes |= {f"{path}.{part}.weight": (n_in, n_out), f"{path}.{part}.bias": (n_out,)}
    return shapes


def gpt2_token(p, cache, token, at):
    """The most likely next token and the cache with this one's keys and values: [layer, 2, heads, places, size]."""

    def dense(path, x):
        return x @ p[path + ".weight"] + p[path + ".bias"]

    x = (p["wte.weight"][token] + p["wpe.weight"][at])[None, None]
    seen = jnp.arange(cache.shape[3]) <= at
    for i in range(12):
        path = f"h.{i}"
        q, k, v = (heads_of(y) for y in jnp.split(dense(path + ".attn.c_attn", layer_norm(p, path + ".ln_1", x, 1e-5)), 3, -1))
        cache = lax.dynamic_update_slice(cache, jnp.stack([k[0], v[0]])[None], (i, 0, 0, at, 0))
        scores = jnp.einsum("htd,hsd->hts", q[0], cache[i, 0]) / 8.0
        y = jnp.einsum("hts,hsd->htd", nn.softmax(jnp.where(seen, scores, -jnp.inf)).astype(x.dtype), cache[i, 1])
        x = x + dense(path + ".attn.c_proj", joined(y[None]))
        x = x + dense(path + ".mlp.c_proj", nn.gelu(dense(path + ".mlp.c_fc", layer_norm(p, path + ".ln_2", x, 1e-5)), approximate=True))
    return jnp.argmax(p["wte.weight"] @ layer_norm(p, "ln_f", x, 1e-5)[0, 0]), cache


def gpt2_decode():
    if case == "int8":
        return None
    dtype = jnp.bfloat16 if case == "bf16" else jnp.float32
    p, n = parameters(gpt2_shapes(), dtype), cases.DECODE_CONTEXT
    ids = cases.ids(1, n, 50257)[0]
    cache = jnp.zeros((12, 2, 12, n, 64), dtype)
    token = jax.jit(gpt2_token, donate_argnums=1)
    for at in range(n - 1):
        _, cache = token(p, cache, int(ids[at]), at)

    def call():
        nonlocal cache
        best, cache = token(p, cache, int(ids[n - 1]), n - 1)
        return int(best)

    return call


# ---- Fresh processes ----


def fresh():
    if case not in ("sincos10", "mlptrain_small", "rss_sincos10"):
        return None
    return cases.fresh("cold" if bench == "cold" else "mib", [__file__, "fresh_" + bench, case, threads])


def print_fresh():
    global case
    if case == "mlptrain_small":
        mlp()()
    else:
        case = "10x10"
        sincos()()
    print("done", cases.status_mib("VmHWM"), flush=True)


make = {
    "step": step,
    "sincos": sincos,
    "chain": lambda: function(lambda a, b, c: nn.relu(a * b + c), *(values(16 << 20) for _ in range(3))),
    "reduce": sums,
    "softmax": lambda: function(nn.softmax, values(*cases.SOFTMAX[case])),
    "linrelu": linrelu,
    "gemm": lambda: function(jnp.matmul, values(int(case), int(case)), values(int(case), int(case))) if case.isdigit() else None,
    "conv": conv,
    "attention": attention,
    "mlp": mlp,
    "digits": digits,
    "dyn": dyn,
    "bert_infer": bert_infer,
    "gpt2_decode": gpt2_decode,
    "cold": fresh,
    "size": fresh,
}
if bench.startswith("fresh_"):
    print_fresh()
else:
    cases.report(make[bench]() if bench in make else None, once=bench in ("cold", "size") or (bench, case) == ("dyn", "first"))
