#!/usr/bin/env python3
"""PyTorch on a GPU beside gpu-check: gpu_peers.py MODE BENCH CASE THREADS, by the protocol of bench/peers/cases.py. Loads nothing of tc.

MODE: eager; compiled, torch.compile; max-autotune. f32 is f32: TF32 is off for products and convolutions. Images are channels-last, optimizers fused.
BENCH: a model of bench/zoo.c; product (CASE bf16-4096, f32-8192, bf16-4096-gelu); attention (CASE 4096, 4096-gradients), for which MODE is a backend: flash,
cudnn, efficient.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "peers"))
mode, bench, case = sys.argv[1:4]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import cases  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
torch.manual_seed(1)
DEVICE = "cuda"
HEADS, HEAD = 16, 128


def prepare(fn):
    if mode == "compiled":
        return torch.compile(fn)
    return torch.compile(fn, mode="max-autotune") if mode == "max-autotune" else fn


def values(*shape, dtype=torch.float32):
    return (torch.rand(*shape, device=DEVICE) * 2 - 1).to(dtype)


def function(fn, *inputs):
    fn = prepare(fn)

    def call():
        with torch.no_grad():
            return fn(*inputs)

    return call


def product():
    words = case.split("-")
    n, dtype = int(words[1]), torch.bfloat16 if words[0] == "bf16" else torch.float32
    a, b, bias = values(n, n, dtype=dtype), values(n, n, dtype=dtype), values(n, dtype=dtype)
    if words[-1] == "gelu":
        return function(lambda a, b, bias: F.gelu(a @ b + bias), a, b, bias)
    return function(torch.matmul, a, b)


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    if mode not in backends:
        return None
    words = case.split("-")
    q, k, v, g = (values(1, HEADS, int(words[0]), HEAD, dtype=torch.bfloat16) for _ in range(4))
    gradients = words[-1] == "gradients"
    for x in (q, k, v):
        x.requires_grad_(gradients)

    def call():
        with sdpa_kernel(backends[mode]):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if gradients:
            torch.autograd.grad(y, (q, k, v), g)

    return call


def fill(model):
    """The parameters of bench/zoo.c, on the device."""
    with torch.no_grad():
        for name, p in model.state_dict().items():
            if p.dtype == torch.float32:
                p.copy_(torch.from_numpy(cases.parameter(name, tuple(p.shape))))
    model = model.bfloat16() if case.endswith("bf16") else model
    return model.to(DEVICE)


def images(n, side):
    x = torch.from_numpy(cases.floats((n, 3, side, side), 1)).to(DEVICE)
    return (x.bfloat16() if case.endswith("bf16") else x).to(memory_format=torch.channels_last)


def words_of(n, length, vocab):
    return torch.from_numpy(cases.ids(n, length, vocab)).to(DEVICE)


def stepper(loss_of, optimizer):
    loss_of = prepare(loss_of)

    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def resnet_infer():
    import torch_models

    model = torch_models.resnet18() if bench == "resnet18_infer" else torch_models.resnet50()
    return function(fill(model).eval().to(memory_format=torch.channels_last), images(*cases.shape_of(case)))


def resnet18_train():
    import torch_models

    model = fill(torch_models.resnet18()).train().to(memory_format=torch.channels_last)
    n, side = cases.shape_of(case)
    x, y = images(n, side), torch.from_numpy(cases.classes(n, 1000)).to(DEVICE)
    return stepper(lambda: F.cross_entropy(model(x), y), torch.optim.SGD(model.parameters(), **cases.TRAIN, fused=True))


def bert_infer():
    import torch_models

    return function(fill(torch_models.Bert()).eval(), words_of(*cases.shape_of(case), 30522))


def gpt2_train():
    import torch_models

    model = fill(torch_models.GPT2()).train()
    ids = words_of(2, 257, 50257)
    x, y = ids[:, :-1], ids[:, 1:].reshape(-1)
    return stepper(lambda: F.cross_entropy(model(x).view(-1, 50257), y), torch.optim.AdamW(model.parameters(), **cases.ADAMW, fused=True))


def gpt2_decode():
    import torch_models

    model = fill(torch_models.GPT2()).eval()
    n = cases.DECODE_CONTEXT
    ids = words_of(1, n, 50257)
    cache = [tuple(torch.zeros(1, 12, n, 64, dtype=model.wte.weight.dtype, device=DEVICE) for _ in range(2)) for _ in model.h]
    with torch.no_grad():
        for at in range(n - 1):
            model(ids[:, at : at + 1], cache, at)
    logits = function(lambda x: model(x, cache, n - 1), ids[:, n - 1 :])
    return lambda: logits().argmax().item()


make = {
    "product": product,
    "attention": attention,
    "resnet18_infer": resnet_infer,
    "resnet50_infer": resnet_infer,
    "resnet18_train": resnet18_train,
    "bert_infer": bert_infer,
    "gpt2_train": gpt2_train,
    "gpt2_decode": gpt2_decode,
}
cases.report(make[bench]() if bench in make else None, finish=torch.cuda.synchronize)
