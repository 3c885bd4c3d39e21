"""ResNet, BERT and GPT-2 in plain PyTorch, as functions of a state dict, with random weights of any size; and safetensors files of them.

For tests/models.py and tools/golden_models.py. Names are torchvision's and Hugging Face's; formulas are those of their sources (resnet.py,
modeling_bert.py, modeling_gpt2.py).
"""
import json
import math
import struct

import torch
import torch.nn.functional as F

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}


def save_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        n_bytes = t.numel() * t.element_size()
        header[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + n_bytes]}
        at += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            if t.numel():
                f.write(t.detach().contiguous().view(-1).view(torch.uint8).numpy())


def load_safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header, types = json.loads(raw[8:8 + n]), {name: t for t, name in TYPES.items()}
    header.pop("__metadata__", None)
    out = {}
    for name, x in header.items():
        first, last = x["data_offsets"]
        out[name] = torch.frombuffer(bytearray(raw[8 + n + first:8 + n + last]) or bytearray(8), dtype=types[x["dtype"]])[:math.prod(x["shape"])].reshape(x["shape"])
    return out


# ---- ResNet ----

RESNET18 = dict(bottleneck=False, blocks=(2, 2, 2, 2), inner=(64, 128, 256, 512), outer=(64, 128, 256, 512), stem=64, classes=1000)
RESNET50 = dict(bottleneck=True, blocks=(3, 4, 6, 3), inner=(64, 128, 256, 512), outer=(256, 512, 1024, 2048), stem=64, classes=1000)


def resnet_weights(bottleneck, blocks, inner, outer, stem, classes):
    w = {}

    def conv(name, i, o, size):
        w[name + ".weight"] = torch.randn(o, i, size, size) * math.sqrt(2 / (i * size * size))

    def norm(name, n):
        w[name + ".weight"] = 1 + 0.2 * torch.randn(n)
        w[name + ".bias"] = 0.2 * torch.randn(n)
        w[name + ".running_mean"] = 0.2 * torch.randn(n)
        w[name + ".running_var"] = 0.5 + torch.rand(n)
        w[name + ".num_batches_tracked"] = torch.tensor(7)

    conv("conv1", 3, stem, 7)
    norm("bn1", stem)
    last = stem
    for s in range(4):
        for b in range(blocks[s]):
            p = f"layer{s + 1}.{b}."
            sizes = [(last, inner[s], 1), (inner[s], inner[s], 3), (inner[s], outer[s], 1)] if bottleneck else [(last, inner[s], 3), (inner[s], outer[s], 3)]
            for k, size in enumerate(sizes, 1):
                conv(f"{p}conv{k}", *size)
                norm(f"{p}bn{k}", size[1])
            if last != outer[s] or (b == 0 and s > 0):
                conv(p + "downsample.0", last, outer[s], 1)
                norm(p + "downsample.1", outer[s])
            last = outer[s]
    w["fc.weight"] = torch.randn(classes, last) / math.sqrt(last)
    w["fc.bias"] = 0.1 * torch.randn(classes)
    return w


def calm(w):
    """Deep networks of random weights are chaotic, in PyTorch's f32 against its f64 too; here their blocks add little, as those of trained ones do."""
    last = "bn3.weight" if "layer1.0.bn3.weight" in w else "bn2.weight"
    return {k: 0.1 * v if k.endswith(last) else v for k, v in w.items()}


def resnet(w, x, training=False):
    def norm(name, x):
        if training:
            w[name + ".num_batches_tracked"] += 1
        return F.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], w[name + ".weight"], w[name + ".bias"], training, 0.1, 1e-5)

    def conv(name, x, stride=1):
        weight = w[name + ".weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    x = F.max_pool2d(F.relu(norm("bn1", conv("conv1", x, 2))), 3, 2, 1)
    for s in range(1, 5):
        b = 0
        while f"layer{s}.{b}.conv1.weight" in w:
            p, stride, shortcut = f"layer{s}.{b}.", 2 if s > 1 and b == 0 else 1, x
            if p + "conv3.weight" in w:
                y = F.relu(norm(p + "bn1", conv(p + "conv1", x)))
                y = F.relu(norm(p + "bn2", conv(p + "conv2", y, stride)))
                y = norm(p + "bn3", conv(p + "conv3", y))
            else:
                y = F.relu(norm(p + "bn1", conv(p + "conv1", x, stride)))
                y = norm(p + "bn2", conv(p + "conv2", y))
            if p + "downsample.0.weight" in w:
                shortcut = norm(p + "downsample.1", conv(p + "downsample.0", x, stride))
            x, b = F.relu(y + shortcut), b + 1
    return F.linear(x.mean((2, 3)), w["fc.weight"], w["fc.bias"])


def resnet_losses(w, x, labels, steps, lr, momentum, amp=None):
    """Trains w in place."""
    params = [t.requires_grad_() for name, t in w.items() if name.endswith((".weight", ".bias"))]
    opt = torch.optim.SGD(params, lr=lr, momentum=momentum)
    return descend(opt, lambda: F.cross_entropy(resnet(w, x, True), labels), steps, amp)


def descend(opt, loss_of, steps, amp=None):
    """amp: the type that autocast casts to; its cache of weights lasts as long as autocast does, so that ends in each step."""
    losses = []
    for _ in range(steps):
        with torch.autocast("cpu", dtype=amp or torch.bfloat16, enabled=amp is not None):
            loss = loss_of()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


# ---- BERT ----

BERT_BASE = dict(words=30522, positions=512, types=2, dim=768, inner=3072, layers=12)


def bert_weights(words, positions, types, dim, inner, layers):
    w = {}

    def linear(name, i, o):
        w[name + ".weight"] = torch.randn(o, i) / math.sqrt(i)
        w[name + ".bias"] = 0.1 * torch.randn(o)

    def norm(name):
        w[name + ".weight"] = 1 + 0.2 * torch.randn(dim)
        w[name + ".bias"] = 0.2 * torch.randn(dim)

    for name, n in (("word", words), ("position", positions), ("token_type", types)):
        w[f"embeddings.{name}_embeddings.weight"] = torch.randn(n, dim)
    norm("embeddings.LayerNorm")
    for i in range(layers):
        p = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            linear(f"{p}attention.self.{part}", dim, dim)
        linear(p + "attention.output.dense", dim, dim)
        norm(p + "attention.output.LayerNorm")
        linear(p + "intermediate.dense", dim, inner)
        linear(p + "output.dense", inner, dim)
        norm(p + "output.LayerNorm")
    linear("pooler.dense", dim, dim)
    return w


def split_heads(x, heads):
    b, t, d = x.shape
    return x.view(b, t, heads, d // heads).transpose(1, 2)


def merge_heads(x):
    b, h, t, d = x.shape
    return x.transpose(1, 2).reshape(b, t, h * d)


def bert(w, ids, heads, mask=None, types=None):
    def linear(name, x):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-12)

    e = "embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][:ids.shape[1]]
    x = norm(e + "LayerNorm", x + w[e + "token_type_embeddings.weight"][torch.zeros_like(ids) if types is None else types])
    i = 0
    while f"encoder.layer.{i}.attention.self.query.weight" in w:
        p = f"encoder.layer.{i}."
        q, k, v = (split_heads(linear(f"{p}attention.self.{part}", x), heads) for part in ("query", "key", "value"))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        y = linear(p + "attention.output.dense", merge_heads(scores.softmax(-1) @ v))
        x = norm(p + "attention.output.LayerNorm", x + y)
        y = linear(p + "output.dense", F.gelu(linear(p + "intermediate.dense", x)))
        x, i = norm(p + "output.LayerNorm", x + y), i + 1
    return x


# ---- GPT-2 ----

GPT2_SMALL = dict(words=50257, positions=1024, dim=768, inner=3072, layers=12)


def gpt2_weights(words, positions, dim, inner, layers):
    w = {"wte.weight": 0.5 * torch.randn(words, dim), "wpe.weight": 0.5 * torch.randn(positions, dim)}

    def dense(name, i, o):
        w[name + ".weight"] = torch.randn(i, o) / math.sqrt(i)
        w[name + ".bias"] = 0.1 * torch.randn(o)

    def norm(name):
        w[name + ".weight"] = 1 + 0.2 * torch.randn(dim)
        w[name + ".bias"] = 0.2 * torch.randn(dim)

    for i in range(layers):
        p = f"h.{i}."
        norm(p + "ln_1")
        dense(p + "attn.c_attn", dim, 3 * dim)
        dense(p + "attn.c_proj", dim, dim)
        norm(p + "ln_2")
        dense(p + "mlp.c_fc", dim, inner)
        dense(p + "mlp.c_proj", inner, dim)
    norm("ln_f")
    w["wte.weight"] /= math.sqrt(dim) / 2  # logits of a few units
    return w


def gpt2_buffers(w, positions, layers):
    """What files of older versions hold besides weights."""
    w = dict(w)
    for i in range(layers):
        w[f"h.{i}.attn.bias"] = torch.ones(positions, positions, dtype=torch.bool).tril().view(1, 1, positions, positions)
        w[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    return w


def gpt2(w, ids, heads):
    def dense(name, x):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-5)

    t = ids.shape[1]
    x, i = w["wte.weight"][ids] + w["wpe.weight"][:t], 0
    seen = torch.ones(t, t, dtype=torch.bool).tril()
    while f"h.{i}.attn.c_attn.weight" in w:
        p = f"h.{i}."
        q, k, v = (split_heads(y, heads) for y in dense(p + "attn.c_attn", norm(p + "ln_1", x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~seen, float("-inf"))
        x = x + dense(p + "attn.c_proj", merge_heads(scores.softmax(-1) @ v))
        x = x + dense(p + "mlp.c_proj", F.gelu(dense(p + "mlp.c_fc", norm(p + "ln_2", x)), approximate="tanh"))
        i += 1
    return norm("ln_f", x) @ w["wte.weight"].T


def gpt2_losses(w, ids, heads, steps, lr, amp=None):
    """Trains w in place."""
    opt = torch.optim.AdamW([t.requires_grad_() for t in w.values()], lr=lr, weight_decay=0.01)
    return descend(opt, lambda: F.cross_entropy(gpt2(w, ids[:, :-1], heads).flatten(0, 1), ids[:, 1:].flatten()), steps, amp)


def gpt2_greedy(w, ids, heads, n):
    with torch.no_grad():
        for _ in range(n):
            ids = torch.cat([ids, gpt2(w, ids, heads)[:, -1].argmax(-1, keepdim=True)], 1)
    return ids[:, -n:]
