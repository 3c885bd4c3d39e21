#!/usr/bin/env python3
"""Prints tests/lazy/optim_golden.h: parameters after five steps of PyTorch's optimizers in float64 on a fixed regression.

Needs torch (CPU is enough); run as  tools/golden_optim.py > tests/lazy/optim_golden.h
"""
import torch

X = [[1.0, 2.0, -1.0], [0.5, -1.5, 2.0], [-2.0, 0.25, 1.0], [1.5, 1.0, 0.5]]
Y = [1.0, -2.0, 0.5, 3.0]
CASES = [
    ("sgd", torch.optim.SGD, dict(lr=0.05)),
    ("sgd_decay", torch.optim.SGD, dict(lr=0.05, weight_decay=0.1)),
    ("sgd_momentum", torch.optim.SGD, dict(lr=0.02, momentum=0.9, dampening=0.3)),
    ("sgd_nesterov", torch.optim.SGD, dict(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)),
    ("adam", torch.optim.Adam, dict(lr=0.1, betas=(0.9, 0.99), eps=1e-8)),
    ("adam_decay", torch.optim.Adam, dict(lr=0.1, betas=(0.4, 0.99), eps=1e-6, weight_decay=0.1)),
    ("adamw", torch.optim.AdamW, dict(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.2)),
    ("rmsprop", torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, eps=1e-8)),
    ("rmsprop_momentum", torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, eps=1e-8, weight_decay=0.1, momentum=0.8)),
]


def run(make, options, clip=None):
    w = torch.tensor([0.5, -0.25, 0.125], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.1], dtype=torch.float64, requires_grad=True)
    x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)
    opt = make([w, b], foreach=False, **options)
    rows, norm = [], None
    for _ in range(5):
        opt.zero_grad()
        ((x @ w + b - y) ** 2).mean().backward()
        if clip is not None:
            norm = torch.nn.utils.clip_grad_norm_([w, b], clip, foreach=False)
        opt.step()
        rows.append(w.tolist() + b.tolist())
    return rows, norm


def main():
    print(f"// Made by tools/golden_optim.py with torch {torch.__version__}: w[0], w[1], w[2], b after each of five steps, float64.")
    for name, make, options in CASES:
        print(f"static const double golden_{name}[5][4] = {{")
        for row in run(make, options)[0]:
            print("    {" + ", ".join(repr(v) for v in row) + "},")
        print("};")
    rows, norm = run(torch.optim.SGD, dict(lr=0.05), clip=0.5)
    print("static const double golden_clipped[4] = {" + ", ".join(repr(v) for v in rows[-1]) + "};")
    print(f"static const double golden_clipped_norm = {norm.item()!r};")


main()
