"""The models of bench/zoo.c as PyTorch modules, with the parameters' names of torchvision and of Hugging Face's state dicts."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Two 3x3 convolutions (ResNet18), or 1x1, 3x3, 1x1 with the stride in the middle (ResNet50)."""

    def __init__(self, c_in, c, stride, bottleneck):
        super().__init__()
        c_out = 4 * c if bottleneck else c
        shapes = [(c_in, c, 1, 1), (c, c, 3, stride), (c, c_out, 1, 1)] if bottleneck else [(c_in, c, 3, stride), (c, c, 3, 1)]
        self.n = len(shapes)
        for i, (a, b, window, step) in enumerate(shapes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a, b, window, step, window // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = x
        for i in range(1, self.n + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.n:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths, bottleneck, width=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        c_in = width
        for stage, depth in enumerate(depths):
            blocks = []
            for i in range(depth):
                blocks.append(Block(c_in, width << stage, 2 if stage and i == 0 else 1, bottleneck))
                c_in = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(c_in, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet18():
    return ResNet([2, 2, 2, 2], False)


def resnet50():
    return ResNet([3, 4, 6, 3], True)


def tree(**modules):
    """A module that only holds others, for names with dots."""
    m = nn.Module()
    for name, child in modules.items():
        setattr(m, name, child)
    return m


class BertLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.attention = tree(
            self=tree(query=nn.Linear(dim, dim), key=nn.Linear(dim, dim), value=nn.Linear(dim, dim)),
            output=tree(dense=nn.Linear(dim, dim), LayerNorm=nn.LayerNorm(dim, 1e-12)),
        )
        self.intermediate = tree(dense=nn.Linear(dim, 4 * dim))
        self.output = tree(dense=nn.Linear(4 * dim, dim), LayerNorm=nn.LayerNorm(dim, 1e-12))

    def forward(self, x):
        b, t, dim = x.shape
        parts = self.attention.self
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (parts.query, parts.key, parts.value))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, dim)
        x = self.attention.output.LayerNorm(self.attention.output.dense(y) + x)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(x))) + x)


class Bert(nn.Module):
    """BERT base; the last hidden states."""

    def __init__(self, dim=768, heads=12, layers=12, vocab=30522):
        super().__init__()
        self.embeddings = tree(
            word_embeddings=nn.Embedding(vocab, dim),
            position_embeddings=nn.Embedding(512, dim),
            token_type_embeddings=nn.Embedding(2, dim),
            LayerNorm=nn.LayerNorm(dim, 1e-12),
        )
        self.encoder = tree(layer=nn.ModuleList(BertLayer(dim, heads) for _ in range(layers)))

    def forward(self, ids):
        e = self.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings.weight[: ids.shape[1]] + e.token_type_embeddings.weight[0]
        x = e.LayerNorm(x)
        for layer in self.encoder.layer:
            x = layer(x)
        return x


class Conv1D(nn.Module):
    """GPT-2's linear layer: weight [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(n_in, n_out)), nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class GPT2Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = tree(c_attn=Conv1D(dim, 3 * dim), c_proj=Conv1D(dim, dim))
        self.mlp = tree(c_fc=Conv1D(dim, 4 * dim), c_proj=Conv1D(4 * dim, dim))

    def forward(self, x, cache=None, at=None):
        b, t, dim = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.attn.c_attn(self.ln_1(x)).split(dim, -1))
        if cache is not None:  # one token: its key and value go to place `at` of the cache, which it attends to whole
            keys, values = cache
            keys[:, :, at : at + 1] = k
            values[:, :, at : at + 1] = v
            k, v = keys[:, :, : at + 1], values[:, :, : at + 1]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.attn.c_proj(y.transpose(1, 2).reshape(b, t, dim))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2 small; the head is the token embedding."""

    def __init__(self, dim=768, heads=12, layers=12, vocab=50257, context=1024):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(GPT2Block(dim, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(dim), None

    def forward(self, ids, cache=None, at=0):
        x = self.wte(ids) + self.wpe.weight[at : at + ids.shape[1]]
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i], at)
        x = self.ln_f(x)
        return x @ self.wte.weight.t() if self.lm_head is None else self.lm_head(x)


def of_bytes(model):
    """GPT-2 whose layers and head have weights of bytes."""

    def linear(weight, bias=None):  # weight [out, in]
        layer = nn.Linear(*reversed(weight.shape), bias=bias is not None)
        layer.weight = nn.Parameter(weight.detach().contiguous())
        layer.bias = bias
        return layer

    for block in model.h:
        for part, name in ((block.attn, "c_attn"), (block.attn, "c_proj"), (block.mlp, "c_fc"), (block.mlp, "c_proj")):
            layer = getattr(part, name)
            setattr(part, name, linear(layer.weight.t(), layer.bias))
    model.lm_head = linear(model.wte.weight)
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})


def of_case(bench, case):
    """The model of a benchmark; a case that is called narrow has a small one, with few layers."""
    narrow = "narrow" in case
    if bench.startswith("resnet"):
        bottleneck = bench.startswith("resnet50")
        return ResNet([1, 1, 1, 1], bottleneck, 8) if narrow else resnet50() if bottleneck else resnet18()
    if bench.startswith("bert"):
        return Bert(64, 4, 2, 1000) if narrow else Bert()
    return GPT2(64, 4, 2, 1000, 256) if narrow else GPT2()


def n_words(model):
    return (model.wte if isinstance(model, GPT2) else model.embeddings.word_embeddings).num_embeddings


def words_loss(model, ids, y):
    """Of BERT: a word for every place, predicted by the words' own embedding."""
    return F.cross_entropy((model(ids) @ model.embeddings.word_embeddings.weight.t()).flatten(0, 1), y)


def next_words_loss(model, ids, y):
    """Of GPT-2."""
    return F.cross_entropy(model(ids).flatten(0, 1), y)
