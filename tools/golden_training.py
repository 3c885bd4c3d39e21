#!/usr/bin/env python3
"""Writes what PyTorch gives for schedules, losses, recurrent modules, transformer layers and averages: tests/golden/schedules.safetensors,
losses.safetensors, modules.safetensors and averages.safetensors.

Needs torch (CPU is enough); run from the root. Weights and inputs are f32 numbers; results are computed from them in f64. Names: <case>.<what>.
"""
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler as S
from torch_models import save_safetensors

GOLDEN = ROOT / "tests/golden"
N_STEPS = 70


def save(name, tensors):
    save_safetensors(GOLDEN / name, {k: v.detach().clone() for k, v in tensors.items()})


# ---- Schedules: the rates of two groups after creation and after each step ----

def metric(i):
    return 1 / (1 + 0.3 * min(i, 20)) + 0.05 * math.sin(i)


SCHEDULES = {
    "step": lambda o: S.StepLR(o, 7, 0.5),
    "multi_step": lambda o: S.MultiStepLR(o, [3, 10, 10, 40], 0.3),
    "exponential": lambda o: S.ExponentialLR(o, 0.97),
    "cosine": lambda o: S.CosineAnnealingLR(o, 13, 0.001),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 5, 2, 0.002),
    "restarts_even": lambda o: S.CosineAnnealingWarmRestarts(o, 7),
    "constant": lambda o: S.ConstantLR(o, 0.25, 9),
    "constant_default": lambda o: S.ConstantLR(o),
    "linear": lambda o: S.LinearLR(o, 0.1, 0.8, 12),
    "linear_default": lambda o: S.LinearLR(o),
    "polynomial": lambda o: S.PolynomialLR(o, 50, 2.0),
    "polynomial_default": lambda o: S.PolynomialLR(o),
    "lambda": lambda o: S.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
    "one_cycle": lambda o: S.OneCycleLR(o, 0.5, total_steps=80),
    "one_cycle_three_phase": lambda o: S.OneCycleLR(o, 0.5, total_steps=75, pct_start=0.25, anneal_strategy="linear", three_phase=True, div_factor=10.0,
                                                    final_div_factor=100.0, base_momentum=0.7, max_momentum=0.9),
    "one_cycle_fixed": lambda o: S.OneCycleLR(o, 0.3, total_steps=71, cycle_momentum=False),
    "plateau": lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2, min_lr=0.001),
    "plateau_max": lambda o: S.ReduceLROnPlateau(o, mode="max", threshold=0.01, threshold_mode="abs", patience=5),
    "sequential": lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=10), S.CosineAnnealingLR(o, 40)], [10]),
    "sequential_three": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.2, 5), S.ExponentialLR(o, 0.9), S.MultiStepLR(o, [4, 8], 0.5)], [6, 20]),
    "sequential_restarts": lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.5, total_iters=8), S.CosineAnnealingWarmRestarts(o, 10)], [8]),
    "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 5), S.ExponentialLR(o, 0.9)]),
    "chained_sequence": lambda o: S.ChainedScheduler([S.SequentialLR(o, [S.LinearLR(o, 0.2, total_iters=5), S.ExponentialLR(o, 0.98)], [7]), S.StepLR(o, 20, 0.5)]),
}


def schedules():
    out = {"metric": torch.tensor([metric(i) for i in range(N_STEPS)], dtype=torch.float64)}
    for name, make in SCHEDULES.items():
        a, b = (torch.zeros(1, requires_grad=True) for _ in range(2))
        opt = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.02}], lr=0.1, momentum=0.9)
        s = make(opt)
        rows = []
        for i in range(N_STEPS + 1):
            rows.append([g["lr"] for g in opt.param_groups] + [opt.param_groups[0]["momentum"]])
            opt.step()
            if i < N_STEPS:
                s.step(metric(i)) if name.startswith("plateau") else s.step()
        out[name] = torch.tensor(rows, dtype=torch.float64)
    save("schedules.safetensors", out)


# ---- Losses: value and gradients ----

def f32(t):
    return t.float().double()


def loss_cases():
    g = torch.Generator().manual_seed(3)

    def randn(*shape):
        return f32(torch.randn(*shape, generator=g, dtype=torch.float64))

    def rand(*shape):
        return f32(torch.rand(*shape, generator=g, dtype=torch.float64))

    cases = {}

    def case(name, f, **operands):
        cases[name] = (f, operands)

    x, y = randn(4, 5), randn(4, 5)
    for r in ("mean", "sum", "none"):
        case(f"mse_{r}", lambda o, r=r: F.mse_loss(o["x"], o["y"], reduction=r), x=x, y=y)
        case(f"l1_{r}", lambda o, r=r: F.l1_loss(o["x"], o["y"], reduction=r), x=x, y=y)
        case(f"huber_{r}", lambda o, r=r: F.huber_loss(o["x"], o["y"], reduction=r, delta=0.7), x=x, y=y)
        case(f"smooth_l1_{r}", lambda o, r=r: F.smooth_l1_loss(o["x"], o["y"], reduction=r, beta=0.6), x=x, y=y)
    case("huber_default", lambda o: F.huber_loss(o["x"], o["y"]), x=x, y=y)
    case("smooth_l1_default", lambda o: F.smooth_l1_loss(o["x"], o["y"]), x=x, y=y)
    case("smooth_l1_sharp", lambda o: F.smooth_l1_loss(o["x"], o["y"], beta=0.0), x=x, y=y)

    logits, image = randn(6, 5), randn(2, 4, 3, 2)
    target, pixels = torch.tensor([0, 3, 4, -100, 2, 0]), torch.tensor([[[0, 3], [1, 2], [-100, 1]], [[2, 2], [3, 0], [1, -100]]])
    w, w4 = rand(5) + 0.5, rand(4) + 0.5
    soft, soft_image = torch.softmax(randn(6, 5), 1).float().double(), torch.softmax(randn(2, 4, 3, 2), 1).float().double()
    for r in ("mean", "sum", "none"):
        ce = lambda o, r=r, **k: F.cross_entropy(o["x"], o["y"], o.get("w"), reduction=r, **k)
        case(f"ce_{r}", ce, x=logits, y=target)
        case(f"ce_weight_{r}", ce, x=logits, y=target, w=w)
        case(f"ce_smooth_{r}", lambda o, ce=ce: ce(o, label_smoothing=0.2), x=logits, y=target)
        case(f"ce_smooth_weight_{r}", lambda o, ce=ce: ce(o, label_smoothing=0.2), x=logits, y=target, w=w)
        case(f"ce_ignore0_{r}", lambda o, ce=ce: ce(o, ignore_index=0), x=logits, y=target.clamp(min=0), w=w)
        case(f"ce_image_{r}", lambda o, ce=ce: ce(o, label_smoothing=0.1), x=image, y=pixels, w=w4)
        case(f"ce_soft_{r}", ce, x=logits, y=soft)
        case(f"ce_soft_weight_{r}", lambda o, ce=ce: ce(o, label_smoothing=0.3), x=logits, y=soft, w=w)
        case(f"ce_soft_image_{r}", ce, x=image, y=soft_image, w=w4)
        case(f"nll_{r}", lambda o, r=r: F.nll_loss(o["x"], o["y"], o["w"], reduction=r), x=logits, y=target, w=w)
        case(f"nll_image_{r}", lambda o, r=r: F.nll_loss(o["x"], o["y"], reduction=r, ignore_index=1), x=image, y=pixels.clamp(min=0))
    case("ce_row", lambda o: F.cross_entropy(o["x"], o["y"], o["w"]), x=logits[0], y=torch.tensor(3), w=w)
    case("ce_soft_row", lambda o: F.cross_entropy(o["x"], o["y"]), x=logits[0], y=soft[0])
    case("ce_all_ignored", lambda o: F.cross_entropy(o["x"], o["y"]), x=logits, y=torch.full([6], -100))
    case("ce_all_ignored_sum", lambda o: F.cross_entropy(o["x"], o["y"], reduction="sum"), x=logits, y=torch.full([6], -100))
    case("nll_all_ignored", lambda o: F.nll_loss(o["x"], o["y"], o["w"]), x=logits, y=torch.full([6], -100), w=w)

    p, t = rand(4, 5), rand(4, 5)
    ends, ends_t = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0, 1.0, 0.25, 0.25], dtype=torch.float64)
    ew, pos = rand(5), rand(5) * 2
    for r in ("mean", "sum", "none"):
        case(f"bce_{r}", lambda o, r=r: F.binary_cross_entropy(o["x"], o["y"], reduction=r), x=p, y=t)
        case(f"bce_weight_{r}", lambda o, r=r: F.binary_cross_entropy(o["x"], o["y"], o["w"], reduction=r), x=p, y=t, w=ew)
        case(f"bcel_{r}", lambda o, r=r: F.binary_cross_entropy_with_logits(o["x"], o["y"], reduction=r), x=x, y=t)
        case(f"bcel_weights_{r}", lambda o, r=r: F.binary_cross_entropy_with_logits(o["x"], o["y"], o["w"], reduction=r, pos_weight=o["pos"]), x=x, y=t, w=ew, pos=pos)
    case("bce_ends", lambda o: F.binary_cross_entropy(o["x"], o["y"], reduction="none"), x=ends, y=ends_t)
    lp, lq = torch.log_softmax(randn(4, 5), 1).float().double(), torch.log_softmax(randn(4, 5), 1).float().double()
    q = soft[:4].clone()
    q[1, 2] = 0
    for r in ("mean", "sum", "none", "batchmean"):
        case(f"kl_{r}", lambda o, r=r: F.kl_div(o["x"], o["y"], reduction=r), x=lp, y=q)
        case(f"kl_log_{r}", lambda o, r=r: F.kl_div(o["x"], o["y"], reduction=r, log_target=True), x=lp, y=lq)
    a, b, c = randn(6, 5), randn(6, 5), randn(6, 5)
    sign = torch.tensor([1, -1, 1, -1, -1, 1])
    zeros = a.clone()
    zeros[2] = 0
    case("cosine", lambda o: F.cosine_similarity(o["x"], o["y"]), x=a, y=b)
    case("cosine_axis0", lambda o: F.cosine_similarity(o["x"], o["y"], 0), x=a, y=b)
    case("cosine_broadcast", lambda o: F.cosine_similarity(o["x"], o["y"], -1), x=a, y=b[:1])
    case("cosine_zeros", lambda o: F.cosine_similarity(o["x"], o["y"]), x=zeros, y=b)
    for r in ("mean", "sum", "none"):
        case(f"cosine_embedding_{r}", lambda o, r=r: F.cosine_embedding_loss(o["x"], o["y"], o["t"], margin=0.1, reduction=r), x=a, y=b, t=sign)
        case(f"triplet_{r}", lambda o, r=r: F.triplet_margin_loss(o["x"], o["y"], o["z"], reduction=r), x=a, y=b, z=c)
    case("cosine_embedding_row", lambda o: F.cosine_embedding_loss(o["x"], o["y"], o["t"]), x=a[0], y=b[0], t=torch.tensor(-1))
    case("triplet_swap", lambda o: F.triplet_margin_loss(o["x"], o["y"], o["z"], margin=2.0, swap=True), x=a, y=b, z=c)
    case("triplet_p1", lambda o: F.triplet_margin_loss(o["x"], o["y"], o["z"], p=1.0), x=a, y=b, z=c)
    case("triplet_p3", lambda o: F.triplet_margin_loss(o["x"], o["y"], o["z"], p=3.0, margin=0.5), x=a, y=b, z=c)
    return cases


# Operands whose gradients are no part of the case: weights, and where PyTorch has none or NaN.
def wants_gradient(case, name, t):
    return t.is_floating_point() and name not in ("w", "pos") and not (name == "y" and case.startswith(("kl_", "bce_ends")) and not case.startswith("kl_log"))


def losses():
    out, g = {}, torch.Generator().manual_seed(5)
    for name, (f, operands) in loss_cases().items():
        o = {k: v.clone().requires_grad_(wants_gradient(name, k, v)) for k, v in operands.items()}
        value = f(o)
        cotangent = f32(torch.randn(value.shape, generator=g, dtype=torch.float64))
        value.backward(cotangent)
        for k, v in o.items():
            out[f"{name}.{k}"] = v
            if v.requires_grad:
                out[f"{name}.d{k}"] = v.grad
        out[f"{name}.g"], out[f"{name}.out"] = cotangent, value
    save("losses.safetensors", out)


# ---- Modules ----

def module_case(out, name, module, run, inputs):
    """Weights f32, what it gives in f64, and gradients of sum(out * g) with respect to inputs and weights."""
    weights = {k: v.detach().clone().float() for k, v in module.state_dict().items()}
    module.double()
    module.load_state_dict({k: v.double() for k, v in weights.items()})
    module.train()
    module.zero_grad(set_to_none=True)
    x = {k: (f32(v).requires_grad_() if v.is_floating_point() and not k.endswith("mask") else v) for k, v in inputs.items()}
    results = run(module, x)
    g, total = torch.Generator().manual_seed(11), 0
    for k, v in results.items():
        cotangent = f32(torch.randn(v.shape, generator=g, dtype=torch.float64))
        total = total + (v * cotangent).sum()
        out[f"{name}.out.{k}"], out[f"{name}.g.{k}"] = v, cotangent
    total.backward()
    for k, v in weights.items():
        out[f"{name}.w.{k}"] = v
    for k, v in x.items():
        out[f"{name}.in.{k}"] = v
        if v.requires_grad:
            out[f"{name}.din.{k}"] = v.grad
    for k, v in module.named_parameters():
        out[f"{name}.dw.{k}"] = v.grad


def recurrent(out):
    torch.manual_seed(1)
    IN, HIDDEN, T, B = 3, 4, 5, 3
    kinds = {"rnn": (nn.RNN, {}), "relu": (nn.RNN, dict(nonlinearity="relu")), "gru": (nn.GRU, {}), "lstm": (nn.LSTM, {})}
    shapes = {"": dict(), "_two": dict(num_layers=2), "_both": dict(bidirectional=True), "_deep": dict(num_layers=2, bidirectional=True, batch_first=True),
              "_plain": dict(bias=False)}
    for kind, (make, extra) in kinds.items():
        for shape, options in shapes.items():
            module = make(IN, HIDDEN, **options, **extra)
            n = module.num_layers * (2 if module.bidirectional else 1)
            inputs = {"x": torch.randn(B, T, IN) if module.batch_first else torch.randn(T, B, IN)}
            if shape in ("_two", "_deep"):
                inputs["h"] = torch.randn(n, B, HIDDEN)
                if kind == "lstm":
                    inputs["c"] = torch.randn(n, B, HIDDEN)
            packed = shape in ("_both", "_deep")
            if packed:
                inputs["lengths"] = torch.tensor([3, 5, 1])

            def run(m, x):
                first = None if "h" not in x else (x["h"], x["c"]) if "c" in x else x["h"]
                seq = x["x"]
                if packed:
                    seq = nn.utils.rnn.pack_padded_sequence(seq, x["lengths"], m.batch_first, enforce_sorted=False)
                y, last = m(seq, first)
                if packed:
                    y, _ = nn.utils.rnn.pad_packed_sequence(y, m.batch_first, total_length=T)
                return {"y": y, "h": last[0], "c": last[1]} if isinstance(last, tuple) else {"y": y, "h": last}

            module_case(out, kind + shape, module, run, inputs)
    for kind, make in (("rnn", nn.RNNCell), ("gru", nn.GRUCell), ("lstm", nn.LSTMCell)):
        def step(m, x, kind=kind):
            y = m(x["x"], (x["h"], x["c"]) if kind == "lstm" else x["h"])
            return {"h": y[0], "c": y[1]} if kind == "lstm" else {"h": y}

        inputs = {"x": torch.randn(B, IN), "h": torch.randn(B, HIDDEN)}
        if kind == "lstm":
            inputs["c"] = torch.randn(B, HIDDEN)
        module_case(out, kind + "_cell", make(IN, HIDDEN), step, inputs)


def transformers(out):
    torch.manual_seed(2)
    DIM, HEADS, INNER, B, T, L = 8, 2, 12, 2, 5, 4
    seen = torch.tensor([[True] * 5, [True, True, True, False, False]])
    seen_memory = torch.tensor([[True, True, True, False], [True] * 4])
    added, causal = torch.randn(T, T), torch.ones(T, T, dtype=torch.bool).tril()
    ways = {"": dict(), "_first": dict(norm_first=True, activation="gelu"), "_plain": dict(bias=False)}

    def randomize(module):  # norms that start as 1 and 0 hide what is not applied
        for p in module.parameters():
            nn.init.normal_(p, std=0.5)
        return module

    for way, options in ways.items():
        options = dict(dropout=0.0, batch_first=True, **options)
        layer = randomize(nn.TransformerEncoderLayer(DIM, HEADS, INNER, **options))
        x = torch.randn(B, T, DIM)
        module_case(out, "encoder" + way, layer, lambda m, i: {"y": m(i["x"])}, {"x": x})
        module_case(out, "encoder_masked" + way, layer, lambda m, i: {"y": m(i["x"], src_mask=i["added_mask"].double(), src_key_padding_mask=torch.zeros(B, T).double().masked_fill(~i["seen"], -math.inf))},
                    {"x": x, "added_mask": added, "seen": seen})
        module_case(out, "encoder_causal" + way, layer, lambda m, i: {"y": m(i["x"], src_mask=~causal)}, {"x": x})
        layer = randomize(nn.TransformerDecoderLayer(DIM, HEADS, INNER, **options))
        module_case(out, "decoder" + way, layer, lambda m, i: {"y": m(i["x"], i["memory"], tgt_mask=~causal, tgt_key_padding_mask=~i["seen"], memory_key_padding_mask=~i["seen_memory"])},
                    {"x": x, "memory": torch.randn(B, L, DIM), "seen": seen, "seen_memory": seen_memory})
    options = dict(dropout=0.0, batch_first=True)
    stack = randomize(nn.TransformerEncoder(nn.TransformerEncoderLayer(DIM, HEADS, INNER, **options), 2, nn.LayerNorm(DIM), enable_nested_tensor=False))
    module_case(out, "encoder_stack", stack, lambda m, i: {"y": m(i["x"])}, {"x": x})
    stack = randomize(nn.TransformerDecoder(nn.TransformerDecoderLayer(DIM, HEADS, INNER, **options), 2))
    module_case(out, "decoder_stack", stack, lambda m, i: {"y": m(i["x"], i["memory"])}, {"x": x, "memory": torch.randn(B, L, DIM)})


def modules():
    out = {}
    recurrent(out)
    transformers(out)
    save("modules.safetensors", out)


# ---- Averages: of a weight and a bias over ten updates ----

def averages():
    from torch.optim import swa_utils
    out, g = {}, torch.Generator().manual_seed(9)
    values = torch.randn(10, 2, 3, generator=g, dtype=torch.float64)
    out["values"] = values
    for name, avg in (("ema", swa_utils.get_ema_multi_avg_fn(0.9)), ("default", swa_utils.get_ema_multi_avg_fn()), ("low", swa_utils.get_ema_multi_avg_fn(0.3)), ("equal", None)):
        model = nn.Linear(3, 2, bias=False).double()
        average = swa_utils.AveragedModel(model, multi_avg_fn=avg)
        rows = []
        for v in values:
            with torch.no_grad():
                model.weight.copy_(v)
            average.update_parameters(model)
            rows.append(average.module.weight.detach().clone())
        out[name] = torch.stack(rows)
    save("averages.safetensors", out)


schedules()
losses()
modules()
averages()
