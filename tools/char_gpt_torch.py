#!/usr/bin/env python3
"""examples/char_gpt.c in PyTorch: the same weights at the start, batches, model and optimizer; prints the losses that should come out there
without dropout (example-char_gpt STEPS 0 FILE).

    python3 tools/char_gpt_torch.py STEPS FILE      losses of steps 0, 20, 40 .., one "step N  loss X" a line

The figures in tests/examples.py come from here (PyTorch 2.15, LICENSE as the text).
"""
import math
import sys

import torch
import torch.nn.functional as F

BATCH, T, DIM, HEADS, LAYERS = 16, 32, 64, 4, 2
state = 1


def random_below(n):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return (state >> 32) * n >> 32


def uniform(rows, columns, bound):
    data = [bound * (random_below(1 << 24) * 2**-23 - 1) for _ in range(rows * columns)]
    return torch.tensor(data).reshape(rows, columns).requires_grad_()


def ones(n=DIM):
    return torch.ones(n, requires_grad=True)


def zeros(n=DIM):
    return torch.zeros(n, requires_grad=True)


def make_params(n_chars):
    model = {"token": uniform(n_chars, DIM, 0.035), "position": uniform(T, DIM, 0.035), "head": uniform(n_chars, DIM, 0.035),
             "ln": ones(), "ln_bias": zeros()}
    layers = []
    for _ in range(LAYERS):
        layers.append({"qkv": uniform(3 * DIM, DIM, 0.14), "project": uniform(DIM, DIM, 0.07), "up": uniform(4 * DIM, DIM, 0.14),
                       "down": uniform(DIM, 4 * DIM, 0.035), "ln1": ones(), "ln1_bias": zeros(), "ln2": ones(), "ln2_bias": zeros(),
                       "up_bias": zeros(4 * DIM), "down_bias": zeros()})
    return model, layers


def attention(q, x):
    qkv = F.linear(x, q["qkv"]).reshape(-1, T, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
    scores = qkv[0] @ qkv[1].transpose(-2, -1) / math.sqrt(DIM // HEADS)
    scores = scores.masked_fill(torch.ones(T, T).tril() == 0, -math.inf)
    mixed = (scores.softmax(-1) @ qkv[2]).permute(0, 2, 1, 3)
    return F.linear(mixed.reshape(-1, T, DIM), q["project"])


def forward(model, layers, ids):
    x = model["token"][ids] + model["position"]
    for q in layers:
        x = x + attention(q, F.layer_norm(x, (DIM,), q["ln1"], q["ln1_bias"]))
        up = F.gelu(F.linear(F.layer_norm(x, (DIM,), q["ln2"], q["ln2_bias"]), q["up"], q["up_bias"]))
        x = x + F.linear(up, q["down"], q["down_bias"])
    return F.linear(F.layer_norm(x, (DIM,), model["ln"], model["ln_bias"]), model["head"])


def main():
    n_steps, text = int(sys.argv[1]), open(sys.argv[2], "rb").read()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([number[c] for c in text])
    model, layers = make_params(len(number))
    params = [*model.values(), *(p for q in layers for p in q.values())]
    optimizer = torch.optim.AdamW(params, lr=2e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01)
    for i in range(n_steps):
        at = [random_below(len(text) - T) for _ in range(BATCH)]
        logits = forward(model, layers, torch.stack([ids[k : k + T] for k in at]))
        loss = F.cross_entropy(logits.flatten(0, 1), torch.cat([ids[k + 1 : k + 1 + T] for k in at]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 20 == 0 or i == n_steps - 1:
            print(f"step {i:4d}  loss {loss.item():.4f}", flush=True)


main()
