#!/usr/bin/env python3
"""Writes tests/golden/model_*.safetensors: small models with inputs and what PyTorch makes of them, for tests/numerics/models.c.

    build/venv/bin/python tools/golden_models.py        after `./dev bench NAME --peers` has made the environment

The weights have the names of a checkpoint; beside them are golden.input, golden.output (in evaluation) and, where the model is trained,
golden.losses of some steps from those weights. Each model has a seed of its own, so that another can be changed alone. ResNets have all the blocks that they
are published with. model_resnet50 lacks num_batches_tracked; model_bert has a prefix, a pooler and the names gamma and beta; model_gpt2 has a prefix and its masks.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))

import torch

import torch_models as m

STEPS, LR, MOMENTUM = 4, 0.02, 0.9


def save(name, weights, **golden):
    path = os.path.join(ROOT, "tests", "golden", f"model_{name}.safetensors")
    m.save_safetensors(path, {**weights, **{f"golden.{k}": v for k, v in golden.items()}})
    print(path, os.path.getsize(path), "bytes")


def copy(w):
    return {k: v.clone() for k, v in w.items()}


def resnet(name, size, counts, **config):
    torch.manual_seed(5)
    w = m.calm(m.resnet_weights(**config)) if config["bottleneck"] else m.resnet_weights(**config)
    x, labels = torch.randn(3, 3, *size), torch.randint(0, config["classes"], (3,))
    out = m.resnet(w, x)
    kept = {k: v for k, v in copy(w).items() if counts or not k.endswith("num_batches_tracked")}
    save(name, kept, input=x, labels=labels, output=out, losses=torch.tensor(m.resnet_losses(w, x, labels, STEPS, LR, MOMENTUM)))


def bert():
    torch.manual_seed(6)
    config = dict(words=23, positions=11, types=2, dim=16, inner=24, layers=2)
    w = m.bert_weights(**config)
    ids, types = torch.randint(0, 23, (3, 9)), torch.randint(0, 2, (3, 9))
    mask = (torch.arange(9) < torch.tensor([[9], [5], [1]])).long()
    older = {"bert." + k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in w.items()}
    save("bert", older, input=ids, types=types, mask=mask, output=m.bert(w, ids, 4, mask, types), plain=m.bert(w, ids, 4))


def gpt2():
    torch.manual_seed(7)
    config = dict(words=29, positions=24, dim=16, inner=24, layers=2)
    w = m.gpt2_weights(**config)
    ids = torch.randint(0, 29, (2, 7))
    out, greedy = m.gpt2(w, ids, 4), m.gpt2_greedy(w, ids, 4, 12)
    file = {"transformer." + k: v for k, v in copy(m.gpt2_buffers(w, 24, 2)).items()}
    save("gpt2", file, input=ids, output=out, greedy=greedy, losses=torch.tensor(m.gpt2_losses(w, ids, 4, STEPS, LR / 10)))


torch.set_num_threads(1)
resnet("resnet18", (33, 38), True, bottleneck=False, blocks=(2, 2, 2, 2), inner=(4, 4, 6, 6), outer=(4, 4, 6, 6), stem=4, classes=5)
resnet("resnet50", (40, 35), False, bottleneck=True, blocks=(3, 4, 6, 3), inner=(2, 3, 4, 4), outer=(6, 8, 8, 10), stem=4, classes=5)
bert()
gpt2()
