#!/usr/bin/env python3
"""Writes the archives of tests/golden/: files as Python's safetensors and NumPy make them, and a small model with PyTorch's results.

    /tmp/gv/bin/pip install safetensors && /tmp/gv/bin/python tools/golden_io.py        after the environment of tools/golden.py is made

types.safetensors             every type as NAME [2, 3] and NAME.scalar; f32.empty [0, 3]; metadata "made by"
unaligned.safetensors         a u8 [3] before an f32 [2], and a header of odd length: valid, and nothing is aligned
types.npz, types_deflated.npz every type that NumPy has; f32.fortran [2, 3]; a member that is no array
attention.safetensors         an embedding, multi-head attention, a layer norm and a linear layer as a state dict; ids, masks, and what comes out

Element i of an array is e = 7 i mod 5; floating types (e - 2) / 4, bool e odd.
"""
import json
import os
import struct
import zipfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "golden")
TORCH = {"bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16,
         "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}


def values(dtype, n):
    e = torch.arange(n) * 7 % 5
    if dtype == torch.bool:
        return e % 2 == 1
    return ((e - 2) / 4).to(dtype) if dtype.is_floating_point else e.to(dtype)


def path(name):
    return os.path.join(DIR, name)


def types():
    tensors = {"f32.empty": torch.zeros(0, 3)}
    for name, dtype in TORCH.items():
        tensors[name] = values(dtype, 6).reshape(2, 3)
        tensors[name + ".scalar"] = values(dtype, 1).reshape(())
    save_file(tensors, path("types.safetensors"), {"made by": "tools/golden_io.py"})
    arrays = {name: t.numpy() for name, t in tensors.items() if t.dtype != torch.bfloat16}
    arrays["f32.fortran"] = np.asfortranarray(arrays["f32"])
    for file, save in (("types.npz", np.savez), ("types_deflated.npz", np.savez_compressed)):
        save(path(file), **arrays)
        with zipfile.ZipFile(path(file), "a") as z:
            z.writestr(zipfile.ZipInfo("readme.txt"), "no array")


def unaligned():
    header = json.dumps({"bytes": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}, "f32": {"dtype": "F32", "shape": [2], "data_offsets": [3, 11]}})
    header += " " * (1 - len(header) % 2)
    with open(path("unaligned.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header.encode() + bytes(x * 7 % 5 for x in range(3)) + values(torch.float32, 2).numpy().tobytes())
    with safe_open(path("unaligned.safetensors"), "pt") as f:
        assert f.get_tensor("f32").tolist() == [-0.5, 0]


def attention():
    torch.manual_seed(3)
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(11, 8), "attn": torch.nn.MultiheadAttention(8, 2, batch_first=True),
                                 "norm": torch.nn.LayerNorm(8), "fc": torch.nn.Linear(8, 5)})
    for p in model.parameters():
        torch.nn.init.normal_(p)
    ids = torch.randint(0, 11, (2, 5))
    other = torch.randint(0, 11, (2, 7))
    seen = torch.rand(5, 5) > 0.4
    seen.fill_diagonal_(True)
    added = torch.randn(5, 5)
    out = {"ids": ids, "other": other, "seen": seen, "added": added}

    def run(**mask):
        x, keys = model["embed"](ids), model["embed"](other if mask.pop("cross", False) else ids)
        return model["fc"](model["norm"](x + model["attn"](x, keys, keys, need_weights=False, **mask)[0]))

    future = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    with torch.no_grad():
        out["out.plain"] = run()
        out["out.cross"] = run(cross=True)
        out["out.seen"] = run(attn_mask=~seen)  # PyTorch's module says what is hidden
        out["out.added"] = run(attn_mask=added)
        out["out.causal"] = run(attn_mask=future)
    save_file({**model.state_dict(), **out}, path("attention.safetensors"), {"format": "pt"})


types()
unaligned()
attention()
