#!/usr/bin/env python3
"""Prints tests/lazy/optim_golden.h: parameters after steps of PyTorch's optimizers in float64 on a fixed regression: five, or twenty of those in LONG.

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


class Lion(torch.optim.Optimizer):
    """Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1. PyTorch has none."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0, foreach=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.sub_(lr * (torch.sign(beta1 * m + (1 - beta1) * p.grad) + decay * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


LONG = [
    ("adagrad", torch.optim.Adagrad, dict(lr=0.1)),
    ("adagrad_options", torch.optim.Adagrad, dict(lr=0.2, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.3, eps=1e-6)),
    ("nadam", torch.optim.NAdam, dict(lr=0.05)),
    ("nadam_options", torch.optim.NAdam, dict(lr=0.05, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1, momentum_decay=0.02)),
    ("nadam_decoupled", torch.optim.NAdam, dict(lr=0.05, weight_decay=0.1, decoupled_weight_decay=True)),
    ("radam", torch.optim.RAdam, dict(lr=0.05)),
    ("radam_options", torch.optim.RAdam, dict(lr=0.05, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)),
    ("radam_decoupled", torch.optim.RAdam, dict(lr=0.05, betas=(0.8, 0.99), weight_decay=0.1, decoupled_weight_decay=True)),
    ("adamax", torch.optim.Adamax, dict(lr=0.05)),
    ("adamax_options", torch.optim.Adamax, dict(lr=0.05, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.1)),
    ("lion", Lion, dict(lr=0.02)),
    ("lion_options", Lion, dict(lr=0.02, betas=(0.8, 0.9), weight_decay=0.2)),
]


def run(make, options, clip=None, n_steps=5):
    w = torch.tensor([0.5, -0.25, 0.125], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.1], dtype=torch.float64, requires_grad=True)
    x, y = torch.tensor(X, dtype=torch.float64), torch.tensor(Y, dtype=torch.float64)
    opt = make([w, b], foreach=False, **options)
    rows, norm = [], None
    for _ in range(n_steps):
        opt.zero_grad()
        ((x @ w + b - y) ** 2).mean().backward()
        if clip is not None:
            norm = torch.nn.utils.clip_grad_norm_([w, b], clip, foreach=False)
        opt.step()
        rows.append(w.tolist() + b.tolist())
    return rows, norm


def main():
    torch.set_default_dtype(torch.float64)  # NAdam keeps its product of momenta in it
    print(f"// Made by tools/golden_optim.py with torch {torch.__version__}: w[0], w[1], w[2], b after each step,\n// float64.")
    for name, make, options in CASES:
        print(f"static const double golden_{name}[5][4] = {{")
        for row in run(make, options)[0]:
            print("    {" + ", ".join(repr(v) for v in row) + "},")
        print("};")
    for name, make, options in LONG:
        print(f"static const double golden_{name}[20][4] = {{")
        for row in run(make, options, n_steps=20)[0]:
            print("    {" + ", ".join(repr(v) for v in row) + "},")
        print("};")
    rows, norm = run(torch.optim.SGD, dict(lr=0.05), clip=0.5)
    print("static const double golden_clipped[4] = {" + ", ".join(repr(v) for v in rows[-1]) + "};")
    print(f"static const double golden_clipped_norm = {norm.item()!r};")


main()
