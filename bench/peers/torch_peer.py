#!/usr/bin/env python3
"""PyTorch beside tc: torch_peer.py MODE BENCH CASE THREADS. Every call ends with its result computed.

MODE: eager; compiled: torch.compile of the function (of a model: with its weights frozen) or of the whole training step; for images, channels-last: eager
in that layout; for inference, frozen: traced, frozen and optimized by torch.jit; for training, fused: eager with the fused optimizer, functional: forward,
gradients and Adam as one compiled function of plain tensors, and sparse: eager with gradients of an embedding's looked-up rows alone.
`torch_peer.py expected BENCHES CASES THREADS` prints the rows of expected.def whose names match the patterns, with their values.
"""
import fnmatch
import os
import re
import sys
import time

mode, bench, case, threads = sys.argv[1:5]
IMAGES = ("conv", "resnet18_infer", "resnet18_train", "resnet50_infer", "resnet50_train")
MODELS = ("resnet18_infer", "resnet50_infer", "bert_infer")
FRESH = ("cold", "peak_memory", "size")
HAS = {
    "fused": ("mlp", "digits", "gpt2_train", "bert_train", "optim", "embedding"),
    "sparse": ("embedding",),
    "functional": ("mlp", "digits"),
    "channels-last": IMAGES,
    "frozen": MODELS,
}
if bench not in HAS.get(mode, (bench,)) or (mode == "frozen" and case.endswith("bf16")):
    sys.exit(3)
os.environ["OMP_NUM_THREADS"] = threads
if mode == "compiled" and bench in MODELS:
    os.environ["TORCHINDUCTOR_FREEZING"] = "1"

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


def gemm():
    size = case.removeprefix("bf16-")
    if not size.isdigit():
        return None
    a, b = (values(int(size), int(size)) for _ in range(2))
    return function(torch.matmul, a, b) if size == case else function(torch.matmul, a.bfloat16(), b.bfloat16())


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


def linrelu():
    layer, x = torch.nn.Linear(100, 10), values(cases.LINRELU[case], 100)
    return function(lambda x: torch.relu(layer(x)), x)


def layout(x):
    return x.to(memory_format=torch.channels_last) if mode == "channels-last" else x


def conv():
    n, c_in, side, c_out, window, stride = cases.convs()[case]
    x, w = layout(values(n, c_in, side, side)), layout(values(c_out, c_in, window, window))
    return function(lambda x, w: F.conv2d(x, w, None, stride, window // 2), x, w)


def attention():
    b, heads, t, d = cases.ATTENTION
    q, k, v, g = (values(b, heads, t, d) for _ in range(4))
    attend = prepare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    if case == "forward":
        return function(attend, q, k, v)
    for x in (q, k, v):
        x.requires_grad_(True)

    def call():
        y = attend(q, k, v)
        y.backward(g)
        grads = [x.grad for x in (q, k, v)]
        q.grad = k.grad = v.grad = None
        return y, grads

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
    ids, g = torch.arange(n) * 97 % words, values(n, width)
    if case == "50257x768":
        return None if mode in ("sparse", "fused") else gradients(lambda w: F.embedding(ids, w), values(words, width), g=g)
    table = torch.nn.Parameter(values(words, width))
    fused = {"fused": True} if mode == "fused" else {}
    if case.startswith("sgd"):
        optimizer = torch.optim.SGD([table], lr=1e-3, **fused)
    elif mode == "sparse":
        return None  # SparseAdam is another rule
    else:
        optimizer = torch.optim.AdamW([table], lr=1e-3, weight_decay=0, **fused)
    look_up = prepare(lambda: F.embedding(ids, table, sparse=mode == "sparse"))

    def step():
        look_up().backward(g)
        optimizer.step()
        optimizer.zero_grad()

    return step


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


def dyn():
    if case == "compiles" or mode == "compiled" and case == "first" and os.environ.get("GLIBC_TUNABLES"):
        return None
    model, x = network([64, 256, 10]), values(128, 64)

    def once():
        fn = prepare(model)
        start = time.perf_counter()
        with torch.no_grad():
            for n in cases.DYN:
                fn(x[:n])
        return time.perf_counter() - start

    def first():
        torch._dynamo.reset()
        return once()

    return first if case == "first" else once


# ---- Long programs: a whole step, in seconds ----


def timed(step):
    def call():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    return call


def many_parameters(n):
    params = [torch.nn.Parameter(torch.full((8, 16), 0.5)) for _ in range(n)]
    optimizer, x = torch.optim.AdamW(params, lr=1e-2, weight_decay=0.01), torch.ones(4, 8)

    def step():
        loss = torch.zeros(())
        for p in params:
            loss = loss + (x @ p).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def chain(n, swings):
    def step():
        x = torch.full((100,), 0.5, dtype=torch.float64, requires_grad=True)
        y, v = x, torch.zeros(100, dtype=torch.float64)
        for _ in range(n):
            if swings:
                v = v - torch.sin(y) * 0.001
            y = y + v * 0.001 if swings else torch.sin(y)
        y.sum().backward()
        return x.grad[7].item()

    return step


def gru(n, units, batch):
    w, u = ((values(units, 3 * units) * units**-0.5).requires_grad_() for _ in range(2))
    xs = values(n, batch, units)

    def step():
        h = torch.zeros(batch, units)
        for i in range(n):
            (a0, a1, a2), (b0, b1, b2) = (xs[i] @ w).chunk(3, 1), (h @ u).chunk(3, 1)
            r, z = torch.sigmoid(a0 + b0), torch.sigmoid(a1 + b1)
            c = torch.tanh(a2 + r * b2)
            h = c + z * (h - c)
        h.square().mean().backward()
        w.grad = u.grad = None

    return step


def recurrence(n):
    w, x = (values(16, 16) * 0.25).requires_grad_(), values(8, n, 16)

    def step():
        h = torch.full((8, 16), 0.5)
        for i in range(n):
            z = torch.sigmoid(h @ w + x[:, i])
            h = z * h + (1 - z) * torch.tanh(h @ w)
        h.mean().backward()
        w.grad = None

    return step


def table(n):
    def step():
        y = torch.zeros(n)
        for i in range(1, n):
            y[i] = y[i - 1] + 1

    return step


def plan():
    name, n = re.match(r"([a-z]+)(\d+)$", case).groups() if re.match(r"[a-z]+\d+$", case) else (None, 0)
    n = int(n)
    if mode != "eager" or name is None:
        return None
    steps = {
        "adamw": lambda: many_parameters(n),
        "sines": lambda: chain(n, False),
        "pendulum": lambda: chain(n, True),
        "gru": lambda: gru(n, 64, 4),
        "recurrence": lambda: recurrence(n),
        "table": lambda: table(n),
    }
    return timed(steps[name]())


# ---- Models: with the numbers of cases.py ----


def model_of(numbers=True):
    """The case's model, with the parameters of bench/zoo.c, or those it draws itself."""
    import torch_models

    model = torch_models.of_case(bench, case)
    with torch.no_grad():
        for name, p in model.state_dict().items():
            if numbers and p.dtype == torch.float32:
                p.copy_(torch.from_numpy(cases.parameter(name, tuple(p.shape))))
    return layout((model.bfloat16() if case.endswith("bf16") else model).train(bench.endswith("_train")))


def images():
    n, side = cases.shape_of(case)
    x = torch.from_numpy(cases.floats((n, 3, side, side), 1))
    return layout(x.bfloat16() if case.endswith("bf16") else x)


def ids(model, n, length):
    import torch_models

    return torch.from_numpy(cases.ids(n, length, torch_models.n_words(model)))


def evaluator(model, *inputs):
    with torch.no_grad():
        if mode == "frozen":
            model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, inputs)))
        return function(under_autocast(model), *inputs)


def resnet_infer():
    return evaluator(model_of(), images())


def bert_infer():
    model = model_of()
    if case.endswith("_int8"):
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    return evaluator(model, ids(model, *cases.shape_of(case)))


def under_autocast(fn):
    """fn as it is, or in a case that ends so under autocast to bf16, which begins anew in each call."""
    if not case.endswith("_amp"):
        return fn

    def call(*args):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return fn(*args)

    return call


def stepper(loss_of, optimizer):
    loss_of = prepare(under_autocast(loss_of))

    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def resnet_train(numbers=True):
    model, x = model_of(numbers), images()
    y = torch.from_numpy(cases.classes(len(x), 1000))
    return stepper(lambda: F.cross_entropy(model(x), y), torch.optim.SGD(model.parameters(), **cases.TRAIN))


def adamw(model):
    return torch.optim.AdamW(model.parameters(), **cases.ADAMW, fused=mode == "fused")


def bert_train():
    import torch_models

    model = model_of()
    x = ids(model, *cases.shape_of(case))
    y = torch.from_numpy(cases.words(x.numel(), torch_models.n_words(model)))
    return stepper(lambda: torch_models.words_loss(model, x, y), adamw(model))


def gpt2_train():
    import torch_models

    model = model_of()
    n, length = cases.shape_of(case)
    words = ids(model, n, length + 1)
    x, y = words[:, :-1], words[:, 1:].reshape(-1)
    return stepper(lambda: torch_models.next_words_loss(model, x, y), adamw(model))


def decoder():
    """The logits of the token after a context of 256, its last token computed alone, and the most likely token."""
    import torch_models

    model, n = model_of(), cases.DECODE_CONTEXT
    if case.endswith("int8"):
        model = torch_models.of_bytes(model)
    words, dim = ids(model, 1, n), model.wte.embedding_dim
    heads = model.h[0].heads
    cache = [tuple(torch.zeros(1, heads, n, dim // heads, dtype=model.wte.weight.dtype) for _ in range(2)) for _ in model.h]
    with torch.no_grad():
        for at in range(n - 1):
            model(words[:, at : at + 1], cache, at)
    return function(lambda x: model(x, cache, n - 1), words[:, n - 1 :])


def gpt2_decode():
    logits = decoder()
    return lambda: logits().argmax().item()


# ---- Fresh processes ----


def first(what):
    if what == "sincos10":
        a, b = torch.arange(100.0).view(10, 10), -torch.arange(100.0).view(10, 10)
        return function(lambda a, b: torch.sin(a) + torch.cos(b), a, b)
    if what == "mlptrain_small":
        step, x, y = trainer([10, 128, 1], False), values(32, 10), values(32, 1)
        return lambda: step(x, y).item()
    return training(what, False)


def training(what, numbers=True):
    global bench, case
    bench, amp = what.removesuffix("_amp"), "_amp" if what.endswith("_amp") else ""
    case = {"resnet18_train": "16x3x128x128", "gpt2_train": "2x256"}[bench] + amp
    return resnet_train(numbers) if bench == "resnet18_train" else gpt2_train()


def fresh():
    if bench == "size" and case != "rss_sincos10":
        return None
    what = "cold" if bench == "cold" else "mib"
    return cases.fresh(what, [__file__, mode, "fresh_" + bench, case, threads])


def print_fresh():
    if bench == "fresh_peak_memory":
        print("done", cases.peak_over_now(training(case)), flush=True)
        return
    first(case.removeprefix("rss_"))()
    print("done", cases.status_mib("VmHWM"), flush=True)


def print_expected(pattern):
    """The rows of expected.def that are called so, as its first lines say."""
    global bench, case

    def row(numbers):
        print(f'EXPECTED({bench}, "{case}", ' + ", ".join(f"{v:.7g}" for v in numbers) + ")", flush=True)

    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "expected.def"), encoding="utf-8").read()
    for bench, case in re.findall(r'^EXPECTED\((\w+), "(\w+)"', text, re.M):
        if not fnmatch.fnmatch(f"{bench} {case}", pattern):
            continue
        if bench.endswith("_train"):
            step = make[bench]()
            row([step() for _ in range(4)])
            continue
        y = (decoder if bench == "gpt2_decode" else make[bench])()().float().flatten()
        n = len(y)
        row(y[[0, n // 3, n // 2, n - 1]].tolist())


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


    "gemm": gemm,
    "mlp": mlp,
    "digits": digits,
    "linrelu": linrelu,
    "dyn": dyn,
    "plan": plan,
    "conv": conv,
    "attention": attention,
    "resnet18_infer": resnet_infer,
    "resnet50_infer": resnet_infer,
    "resnet18_train": resnet_train,
    "resnet50_train": resnet_train,
    "bert_infer": bert_infer,
    "bert_train": bert_train,
    "gpt2_train": gpt2_train,
    "gpt2_decode": gpt2_decode,
    "cold": fresh,
    "peak_memory": fresh,
    "size": fresh,
}
if mode == "expected":
    print_expected(f"{bench} {case}")
elif bench.startswith("fresh_"):
    print_fresh()
else:
    cases.report(make[bench]() if bench in make else None, once=bench in FRESH or bench == "plan" or (bench == "dyn" and case == "first"))
