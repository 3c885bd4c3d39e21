#!/usr/bin/env python3
"""Prints tests/numerics/autocast_golden.h: which type each op's result has under autocast for CUDA, and the losses of three networks over 50 steps under autocast on the CPU.

Needs torch (CPU is enough: the types of CUDA are those of fake tensors); run as  tools/golden_autocast.py > tests/numerics/autocast_golden.h
"""
import math
import warnings

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

warnings.filterwarnings("ignore")
STEPS, SEEDS = 50, 3

# ---- types ----


def calls(t):
    """PyTorch's call for each function of api.def that rounds and has a counterpart, over operands as in tests/numerics/half.c. tc_bce_loss has
    none: PyTorch refuses binary_cross_entropy under autocast for CUDA."""
    x, y, p, u, w, b, c, d, i = t["x"], t["y"], t["p"], t["u"], t["w"], t["b"], t["c"], t["d"], t["i"]
    image, kernel, line, tap, block, cube = t["image"], t["kernel"], t["line"], t["tap"], t["block"], t["cube"]
    unary = "square sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfinv lgamma digamma sigmoid"
    out = {f"tc_{name}": lambda name=name: getattr(torch, name)(p) for name in unary.split()}
    out |= {f"tc_{name}": lambda name=name: getattr(torch, name)(x, w) for name in "add sub mul div pow fmod remainder floor_divide atan2".split()}
    out |= {f"tc_{name}_num": lambda name=name: getattr(torch, name)(x, 3.0) for name in "add sub mul div pow fmod remainder floor_divide".split()}
    out |= {
        "tc_polygamma": lambda: torch.polygamma(2, p),
        "tc_rsub": lambda: torch.rsub(x, w),
        "tc_rsub_num": lambda: 1 - x,
        "tc_rdiv": lambda: p.__rdiv__(x),
        "tc_rdiv_num": lambda: 3 / p,
        "tc_rpow": lambda: p.__rpow__(x),
        "tc_rpow_num": lambda: 3**p,
        "tc_sum": lambda: x.sum(0),
        "tc_prod": lambda: x.prod(0),
        "tc_mean": lambda: x.mean(),
        "tc_var": lambda: x.var(1),
        "tc_std": lambda: x.std(1),
        "tc_logsumexp": lambda: x.logsumexp(1),
        "tc_norm": lambda: torch.linalg.vector_norm(x, 3, 1),
        "tc_cumsum": lambda: x.cumsum(1),
        "tc_cumprod": lambda: x.cumprod(1),
        "tc_logcumsumexp": lambda: x.logcumsumexp(1),
        "tc_softmax": lambda: x.softmax(1),
        "tc_log_softmax": lambda: x.log_softmax(1),
        "tc_layer_norm": lambda: F.layer_norm(x, (70,), w, b),
        "tc_rms_norm": lambda: F.rms_norm(x, (70,), w, 1e-6),
        "tc_batch_norm": lambda: F.batch_norm(image, None, None, c, d, True),
        "tc_group_norm": lambda: F.group_norm(image, 3, c, d),
        "tc_instance_norm": lambda: F.instance_norm(image, weight=c, bias=d),
        "tc_conv1d": lambda: F.conv1d(line, tap, c),
        "tc_conv2d": lambda: F.conv2d(image, kernel, c, padding=1),
        "tc_conv3d": lambda: F.conv3d(block, cube, stride=2),
        "tc_conv_transpose1d": lambda: F.conv_transpose1d(line, tap, c, stride=2),
        "tc_conv_transpose2d": lambda: F.conv_transpose2d(image, kernel, c, stride=2),
        "tc_conv_transpose3d": lambda: F.conv_transpose3d(block, cube),
        "tc_avg_pool1d": lambda: F.avg_pool1d(line, 3),
        "tc_avg_pool2d": lambda: F.avg_pool2d(image, 3),
        "tc_avg_pool3d": lambda: F.avg_pool3d(block, 2),
        "tc_adaptive_avg_pool1d": lambda: F.adaptive_avg_pool1d(line, 7),
        "tc_adaptive_avg_pool2d": lambda: F.adaptive_avg_pool2d(image, (4, 3)),
        "tc_adaptive_avg_pool3d": lambda: F.adaptive_avg_pool3d(block, (5, 3, 2)),
        "tc_interpolate": lambda: F.interpolate(image, (5, 13), mode="bilinear"),
        "tc_gather": lambda: x.gather(1, i),
        "tc_take_along_dim": lambda: x.take_along_dim(i, 1),
        "tc_scatter_add": lambda: x.scatter_add(1, i, y),
        "tc_index_select": lambda: x.index_select(1, i[0]),
        "tc_index_add": lambda: x.index_add(1, i[0], y),
        "tc_embedding": lambda: F.embedding(i[0], x.T),
        "tc_matmul": lambda: t["deep"] @ t["narrow"],
        "tc_bmm": lambda: torch.bmm(t["deep"], t["narrow"]),
        "tc_linear": lambda: F.linear(x, y, c),
        "tc_dot": lambda: torch.dot(w, b),
        "tc_outer": lambda: torch.outer(w, c),
        "tc_scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(t["query"], t["query"], t["query"], is_causal=True),
        "tc_gelu": lambda: F.gelu(x),
        "tc_gelu_tanh": lambda: F.gelu(x, approximate="tanh"),
        "tc_silu": lambda: F.silu(x),
        "tc_softplus": lambda: F.softplus(x),
        "tc_leaky_relu": lambda: F.leaky_relu(x),
        "tc_elu": lambda: F.elu(x),
        "tc_hardsigmoid": lambda: F.hardsigmoid(x),
        "tc_hardswish": lambda: F.hardswish(x),
        "tc_mish": lambda: F.mish(x),
        "tc_log_sigmoid": lambda: F.logsigmoid(x),
        "tc_softsign": lambda: F.softsign(x),
        "tc_dropout": lambda: F.dropout(x, 0.3),
        "tc_mse_loss": lambda: F.mse_loss(x, y),
        "tc_l1_loss": lambda: F.l1_loss(x, y),
        "tc_huber_loss": lambda: F.huber_loss(x, y, delta=0.7),
        "tc_cross_entropy": lambda: F.cross_entropy(x, i[:, 0]),
        "tc_cross_entropy_with": lambda: F.cross_entropy(x, i[:, 0], label_smoothing=0.1),
        "tc_nll_loss": lambda: F.nll_loss(x, i[:, 0]),
        "tc_bce_with_logits": lambda: F.binary_cross_entropy_with_logits(x, u),
        "tc_mse_loss_with": lambda: F.mse_loss(x, y, reduction="none"),
        "tc_l1_loss_with": lambda: F.l1_loss(x, y, reduction="sum"),
        "tc_huber_loss_with": lambda: F.huber_loss(x, y, reduction="none"),
        "tc_smooth_l1_loss": lambda: F.smooth_l1_loss(x, y, reduction="none", beta=0.7),
        "tc_cross_entropy_loss": lambda: F.cross_entropy(x, i[:, 0], reduction="none"),
        "tc_nll_loss_with": lambda: F.nll_loss(x, i[:, 0], reduction="none"),
        "tc_bce_with_logits_loss": lambda: F.binary_cross_entropy_with_logits(x, u, reduction="sum"),
        "tc_kl_div_loss": lambda: F.kl_div(x, u, reduction="sum"),
        "tc_cosine_similarity": lambda: F.cosine_similarity(x, y),
        "tc_cosine_embedding_loss": lambda: F.cosine_embedding_loss(x, y, torch.ones(6, device=x.device, dtype=x.dtype)),
        "tc_triplet_margin_loss": lambda: F.triplet_margin_loss(x, y, p),
    }
    return out


SHAPES = {
    "x": (6, 70), "y": (6, 70), "p": (6, 70), "u": (6, 70), "w": (70,), "b": (70,), "c": (6,), "d": (6,), "image": (2, 6, 9, 8), "kernel": (6, 6, 3, 3),
    "line": (2, 6, 19), "tap": (6, 6, 3), "block": (1, 2, 5, 6, 4), "cube": (2, 2, 2, 3, 2), "query": (2, 4, 24, 16), "deep": (3, 70, 9), "narrow": (3, 9, 5),
}
NAMES = {torch.float32: "F32", torch.bfloat16: "BF16"}


def types():
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    found = {}
    with FakeTensorMode():
        for dtype in (torch.float32, torch.bfloat16):
            t = {name: torch.empty(shape, device="cuda", dtype=dtype) for name, shape in SHAPES.items()}
            t["i"] = torch.empty((6, 70), device="cuda", dtype=torch.int64)
            for name, call in calls(t).items():
                found.setdefault(name, []).append(NAMES[call().dtype])
    torch.set_autocast_enabled("cuda", False)
    for name, (of_f32, of_bf16) in found.items():
        print(f"AUTOCAST_TYPES({name}, {of_f32}, {of_bf16})")


# ---- losses ----

state = 0


def uniform():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 11) * 2.0**-53


def values(*shape, bound=1.0):
    n = math.prod(shape)
    return torch.tensor([bound * (2 * uniform() - 1) for _ in range(n)], dtype=torch.float64).to(torch.float32).reshape(shape)


def weight(*shape):
    return values(*shape, bound=1 / math.sqrt(math.prod(shape[1:]))).requires_grad_()


def ones(n):
    return torch.ones(n, requires_grad=True)


def zeros(n):
    return torch.zeros(n, requires_grad=True)


def mlp():
    x, teacher = values(256, 16), values(16, 8)
    p = [weight(64, 16), zeros(64), ones(64), zeros(64), weight(64, 64), zeros(64), weight(8, 64), zeros(8)]

    def loss(rows):
        h = F.layer_norm(F.relu(F.linear(x[rows], p[0], p[1])), (64,), p[2], p[3])
        h = F.relu(F.linear(h, p[4], p[5]))
        return F.cross_entropy(F.linear(h, p[6], p[7]), (x @ teacher).argmax(1)[rows])

    return 256, 32, torch.optim.Adam(p, lr=3e-3), loss


def conv():
    x, teacher = values(128, 3, 8, 8), values(192, 8)
    p = [weight(8, 3, 3, 3), ones(8), zeros(8), weight(16, 8, 3, 3), ones(16), zeros(16), weight(8, 16 * 4), zeros(8)]

    def loss(rows):
        h = F.relu(F.batch_norm(F.conv2d(x[rows], p[0], padding=1), None, None, p[1], p[2], True))
        h = F.relu(F.batch_norm(F.conv2d(F.max_pool2d(h, 2), p[3], padding=1), None, None, p[4], p[5], True))
        h = F.max_pool2d(h, 2).flatten(1)
        return F.cross_entropy(F.linear(h, p[6], p[7]), (x.flatten(1) @ teacher).argmax(1)[rows])

    return 128, 16, torch.optim.SGD(p, lr=0.05, momentum=0.9), loss


def transformer():
    ids = torch.tensor([[(int(16 * uniform()) if t == 0 else 0) for t in range(13)] for _ in range(64)])
    for t in range(1, 13):
        ids[:, t] = (3 * ids[:, t - 1] + torch.arange(64) % 4) % 16
    p = [values(16, 32).requires_grad_(), values(12, 32).requires_grad_(), ones(32), zeros(32), weight(96, 32), zeros(96), weight(32, 32), zeros(32),
         ones(32), zeros(32), weight(64, 32), zeros(64), weight(32, 64), zeros(32), ones(32), zeros(32), weight(16, 32)]

    def loss(rows):
        x = F.embedding(ids[rows, :12], p[0]) + p[1]
        q, k, v = F.linear(F.layer_norm(x, (32,), p[2], p[3]), p[4], p[5]).split(32, 2)
        q, k, v = (a.reshape(-1, 12, 2, 16).transpose(1, 2) for a in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, 12, 32)
        x = x + F.linear(a, p[6], p[7])
        h = F.gelu(F.linear(F.layer_norm(x, (32,), p[8], p[9]), p[10], p[11]))
        x = x + F.linear(h, p[12], p[13])
        logits = F.linear(F.layer_norm(x, (32,), p[14], p[15]), p[16])
        return F.cross_entropy(logits.reshape(-1, 16), ids[rows, 1:].reshape(-1))

    return 64, 16, torch.optim.AdamW(p, lr=3e-3), loss


def train(net, seed, dtype):
    global state
    state = 1
    n, batch, opt, loss = net()
    state = seed
    scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16, growth_interval=20)
    losses = []
    for _ in range(STEPS):
        rows = torch.tensor([int(n * uniform()) for _ in range(batch)])
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            now = loss(rows)
        opt.zero_grad()
        scaler.scale(now).backward()
        scaler.step(opt)
        scaler.update()
        losses.append(now.item())
    return losses


def losses():
    for net in (mlp, conv, transformer):
        for name, dtype in (("F32", torch.float32), ("BF16", torch.bfloat16), ("F16", torch.float16)):
            rows = [train(net, seed, dtype) for seed in range(1, SEEDS + 1)]
            print(f"static const float golden_{net.__name__}_{name.lower()}[{SEEDS}][{STEPS}] = {{")
            for row in rows:
                text = [f"{v:.6g}" for v in row]
                print("    {" + ",\n     ".join(", ".join(text[i:i + 12]) for i in range(0, STEPS, 12)) + "},")
            print("};")


def main():
    torch.manual_seed(0)
    print(f"// Made by tools/golden_autocast.py with torch {torch.__version__}. AUTOCAST_TYPES(function, type of the\n"
          "// result of f32 operands, of bf16 operands), both under autocast to bf16 for CUDA; and the losses of\n"
          "// three networks under autocast for CPUs, by the order of their data.")
    print("#ifdef AUTOCAST_TYPES")
    types()
    print("#undef AUTOCAST_TYPES\n#else")
    losses()
    print("#endif")


if __name__ == "__main__":
    main()
