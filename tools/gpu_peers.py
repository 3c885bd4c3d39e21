#!/usr/bin/env python3
"""PyTorch on a GPU beside gpu-check: gpu_peers.py [--cpu] MODE BENCH CASE THREADS, by the protocol of bench/peers/cases.py. Loads nothing of tc.

MODE: eager; compiled, torch.compile; max-autotune. For inference both have their weights frozen, which is their best setting. f32 is f32: TF32 is off for
products and convolutions. bf16 is so throughout, parameters and the optimizer's state too. Images are channels-last, optimizers fused.
BENCH: a model of bench/zoo.c; cold_MODEL, seconds from the start of a process to the first loss, nothing compiled; peak_MODEL, MiB that are allocated at most
in steps that follow others; product (CASE bf16-4096, f32-8192, bf16-4096-gelu); attention (CASE 4096, 4096-gradients), for which MODE is a backend: flash,
cudnn, efficient.
--cpu tries the script where there is no GPU: what it says then is no measurement. first_MODEL is the process that cold_MODEL starts.
"""
import ctypes
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "peers"))
cpu = sys.argv[1] == "--cpu"
mode, bench, case = sys.argv[1 + cpu : 4 + cpu]
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # dies with gpu-check, or its compiling would go on beside the next call's rows
if bench.endswith("_infer") or bench == "gpt2_decode":
    os.environ["TORCHINDUCTOR_FREEZING"] = "1"

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import cases  # noqa: E402
import torch_models  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
torch.manual_seed(1)
DEVICE = "cpu" if cpu else "cuda"
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
    if mode not in backends or (cpu and mode != "flash"):
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


def model_of(numbers=True):
    """The case's model on the device, with the parameters of bench/zoo.c, or those it draws itself."""
    model = torch_models.of_case(bench, case)
    with torch.no_grad():
        for name, p in model.state_dict().items():
            if numbers and p.dtype == torch.float32:
                p.copy_(torch.from_numpy(cases.parameter(name, tuple(p.shape))))
    model = model.bfloat16() if case.endswith("bf16") else model
    return model.to(DEVICE).train(bench.endswith("_train"))


def images():
    n, side = cases.shape_of(case)
    x = torch.from_numpy(cases.floats((n, 3, side, side), 1)).to(DEVICE)
    return (x.bfloat16() if case.endswith("bf16") else x).to(memory_format=torch.channels_last)


def words_of(model, n, length):
    return torch.from_numpy(cases.ids(n, length, torch_models.n_words(model))).to(DEVICE)


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
    return function(model_of().to(memory_format=torch.channels_last), images())


def resnet_train(numbers=True):
    model, x = model_of(numbers).to(memory_format=torch.channels_last), images()
    y = torch.from_numpy(cases.classes(len(x), 1000)).to(DEVICE)
    return stepper(lambda: F.cross_entropy(model(x), y), torch.optim.SGD(model.parameters(), **cases.TRAIN, fused=True))


def bert_infer():
    model = model_of()
    return function(model, words_of(model, *cases.shape_of(case)))


def bert_train(numbers=True):
    model = model_of(numbers)
    x = words_of(model, *cases.shape_of(case))
    y = torch.from_numpy(cases.words(x.numel(), torch_models.n_words(model))).to(DEVICE)
    return stepper(lambda: torch_models.words_loss(model, x, y), torch.optim.AdamW(model.parameters(), **cases.ADAMW, fused=True))


def gpt2_train(numbers=True):
    model = model_of(numbers)
    n, length = cases.shape_of(case)
    ids = words_of(model, n, length + 1)
    x, y = ids[:, :-1], ids[:, 1:].reshape(-1)
    return stepper(lambda: torch_models.next_words_loss(model, x, y), torch.optim.AdamW(model.parameters(), **cases.ADAMW, fused=True))


def gpt2_decode():
    model, n = model_of(), cases.DECODE_CONTEXT
    ids, heads = words_of(model, 1, n), model.h[0].heads
    shape = 1, heads, n, model.wte.embedding_dim // heads
    cache = [tuple(torch.zeros(shape, dtype=model.wte.weight.dtype, device=DEVICE) for _ in range(2)) for _ in model.h]
    with torch.no_grad():
        for at in range(n - 1):
            model(ids[:, at : at + 1], cache, at)
    logits = function(lambda x: model(x, cache, n - 1), ids[:, n - 1 :])
    return lambda: logits().argmax().item()


# ---- What begins with nothing ----


def cold():
    """Starts this script again, without what an earlier process compiled."""
    start = cases.fresh("cold", [__file__, *["--cpu"] * cpu, mode, bench.replace("cold_", "first_"), case, "1"])

    def call():
        directory = tempfile.mkdtemp()
        os.environ.update(TORCHINDUCTOR_CACHE_DIR=directory, TRITON_CACHE_DIR=os.path.join(directory, "triton"), CUDA_CACHE_DISABLE="1")
        try:
            return start()
        finally:
            shutil.rmtree(directory)

    return call


def peak():
    """The most that tensors and libraries' workspaces take; without a GPU, resident memory of this process, for want of another count."""
    step = training()
    if cpu:
        return lambda: cases.peak_over_now(step)
    for _ in range(3):
        step()
    torch.cuda.reset_peak_memory_stats()

    def call():
        for _ in range(3):
            step()
        return torch.cuda.max_memory_allocated() / 2**20

    return call


def training(numbers=True):
    global bench
    bench = bench.split("_", 1)[1]
    return make[bench](numbers)


make = {
    "product": product,
    "attention": attention,
    "resnet18_infer": resnet_infer,
    "resnet50_infer": resnet_infer,
    "resnet18_train": resnet_train,
    "resnet50_train": resnet_train,
    "bert_infer": bert_infer,
    "bert_train": bert_train,
    "gpt2_train": gpt2_train,
    "gpt2_decode": gpt2_decode,
    "cold_resnet18_train": cold,
    "peak_resnet50_train": peak,
}
if bench.startswith("first_"):
    print("done", training(False)(), flush=True)
else:
    once = bench.startswith(("cold_", "peak_"))
    cases.report(make[bench]() if bench in make else None, once=once, finish=lambda: cpu or torch.cuda.synchronize())
