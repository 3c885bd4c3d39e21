#!/usr/bin/env python3
"""Runs a model program against PyTorch: models.py MODEL PROGRAM [--full], from the root of the sources. MODEL is resnet18, resnet50, bert or gpt2.

Random weights of reduced size go through the program and through tests/torch_models.py: results, losses of training and weights after it, tokens; in
several sizes, types, on one thread and on older instruction sets. Wrong command lines and files must end with status 1 and a sentence. --full: once
more at the published size (minutes, gigabytes). Without PyTorch (here or in build/venv) it exits 77.
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("numpy") is None:
    python = os.path.abspath("build/venv/bin/python")
    if not os.path.exists(python) or sys.prefix != sys.base_prefix:
        print("PyTorch is not installed")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

import numpy as np
import torch

import torch_models as m

MODEL, PROGRAM, FULL = sys.argv[1], sys.argv[2], "--full" in sys.argv[3:]
DIR = tempfile.mkdtemp(prefix="tc-models-")
WAYS = [{"TC_NUM_THREADS": "1"}, {"TC_ISA": "avx2"}]


def path(name):
    return os.path.join(DIR, name)


def command(options):
    """Options by name; arrays go to .npy files."""
    words = [PROGRAM]
    for name, value in options.items():
        if isinstance(value, torch.Tensor):
            np.save(path(name + ".npy"), value.detach().numpy())
            value = path(name + ".npy")
        words += [f"--amp={value}"] if name == "amp" else ["--" + name.replace("_", "-"), str(value)]
    return words


def run(environment=None, **options):
    done = subprocess.run(command(options), env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.args}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


def output(environment=None, **options):
    run(environment, output=path("output.npy"), **options)
    return torch.from_numpy(np.load(path("output.npy")))


def near(got, want, tolerance=1e-4):
    assert got.shape == want.shape, (got.shape, want.shape)
    worst, largest = (got.double() - want.double()).abs().max().item(), want.abs().max().item()
    assert worst <= tolerance * largest, f"off by {worst}, the largest value is {largest}"
    return worst / largest


def weights_file(w, name="weights.safetensors", prefix="", **more):
    m.save_safetensors(path(name), {**{prefix + k: v for k, v in w.items()}, **more})
    return path(name)


def near_losses(text, want, tolerance=1e-3):
    got = [float(x) for x in text.split()]
    assert len(got) == len(want) and max(abs(a - b) for a, b in zip(got, want)) <= tolerance, (got, want)


AMP = {"bf16": torch.bfloat16, "f16": torch.float16}


def autocast_training(w, losses_of, **options):
    """Losses as PyTorch's with autocast; weights stay f32."""
    for amp, dtype in AMP.items():
        want = losses_of(copy(w), dtype)
        done = run(weights=weights_file(w), amp=amp, save=path("saved.safetensors"), **options)
        near_losses(done.stdout, want, 3e-2)
        assert all(v.dtype == w[k].dtype for k, v in m.load_safetensors(path("saved.safetensors")).items())


def autocast_output(want, **options):
    near(output(amp="f16", **options), want, 2e-2)
    near(output(amp="bf16", **options), want, 1e-1)
    fails(["--amp=f32: bf16 or f16"], amp="f32", **{k: v for k, v in options.items()}, output=path("y.npy"))


def copy(w):
    return {k: v.detach().clone() for k, v in w.items()}


def fails(words, to=subprocess.PIPE, **options):
    """The program refuses, by these words. to: its standard output."""
    done = subprocess.run(command(options), stdout=to, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1, f"{done.args}: exit status {done.returncode}\n{done.stderr}"
    for word in words:
        assert word in done.stderr, f"{done.args}: no '{word}' in: {done.stderr}"
    assert "ERROR: AddressSanitizer" not in done.stderr, done.stderr


def misnamed(w, name, shape, near_name, **options):
    """A weight missing, misnamed, of another shape or type."""
    fails([f"has no '{name}'", shape, f"the nearest is '{near_name}'"],
          weights=weights_file({near_name if k == name else k: v for k, v in w.items()}, "wrong.safetensors"), **options)
    fails([f"'{name}' should be {shape}"], weights=weights_file({**w, name: torch.zeros(2, 2, 2)}, "wrong.safetensors"), **options)
    fails([f"'{name}' should be {shape}"], weights=weights_file({**w, name: torch.zeros_like(w[name], dtype=torch.int64)}, "wrong.safetensors"), **options)


def without_size(w, name, form, **options):
    """A weight missing or of another rank from which sizes are read."""
    fails([f"has no '{name}'", f"the nearest is '{name}s'", f"should be {form}"],
          weights=weights_file({name + "s" if k == name else k: v for k, v in w.items()}, "wrong.safetensors"), **options)
    fails([f"'{name}' should be {form}"], weights=weights_file({**w, name: torch.zeros(2, 2, 2)}, "wrong.safetensors"), **options)


def wrong_files(w, ids_or_image, other_type):
    """What all programs refuse."""
    given = dict(weights=weights_file(w), input=ids_or_image)
    fails(["--input"], weights=given["weights"])
    fails(["unrecognized option", "--help"], nonsense="x", **given)
    fails(["--batch -1"], batch=-1, **given)
    fails(["--threads none"], threads="none", **given)
    fails(["--dtype i32", "bf16"], dtype="i32", **given)
    fails(["nowhere"], device="nowhere", output=path("y.npy"), **given)
    fails(["missing.npy"], **{**given, "input": path("missing.npy"), "output": path("y.npy")})
    fails(["missing.safetensors"], output=path("y.npy"), **{**given, "weights": path("missing.safetensors")})
    open(path("broken.safetensors"), "wb").write(b"\x08\0\0\0\0\0\0\0not json")
    fails(["broken.safetensors"], output=path("y.npy"), **{**given, "weights": path("broken.safetensors")})
    fails(["--seed -1: not a whole number from 0 to 2147483647"], seed=-1, **given)
    open(path("bytes.npy"), "wb").write(b"\x93NUMPY\1\0\x0f\0{'descr': '<\xff4'")
    fails([r"element type '<\xff4' is not supported"], **{**given, "input": path("bytes.npy"), "output": path("y.npy")})
    open(path("broken.npy"), "wb").write(b"no array")
    fails(["broken.npy"], **{**given, "input": path("broken.npy"), "output": path("y.npy")})
    fails(["rank 1", "rank"], output=path("y.npy"), **{**given, "input": ids_or_image.flatten()})
    fails(["numbers are asked for"], output=path("y.npy"), **{**given, "input": other_type})
    fails(["is empty"], output=path("y.npy"), **{**given, "input": ids_or_image[:0]})
    fails(["/missing/y.npy"], output="/missing/y.npy", **given)
    absent = {**given, "weights": path("missing.safetensors")}  # which is not come to
    fails([f"--output {DIR}: Is a directory"], output=DIR, **absent)
    fails(["--output : not the name of a file"], output="", **absent)
    fails(["broken.npy/y.npy: Not a directory"], output=path("broken.npy/y.npy"), **absent)
    fails(["has no", "nor anything like it"], output=path("y.npy"),
          **{**given, "weights": weights_file({"something": torch.zeros(3)}, "wrong.safetensors")})
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--weights FILE" in done.stdout and "--dtype" in done.stdout, done
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output: No space left on device" in done.stderr, done
    done = subprocess.run(["sh", "-c", '"$0" --help >&-', PROGRAM], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output: Bad file descriptor" in done.stderr, done


def many_layers(w, layer, part, form, **options):
    """A layer's number says nothing of how many there are: each of them must be there, before any is made."""
    far, missing, other = layer.format(9999) + part, layer.format(3) + part, layer.format(2) + part
    fails([f"has no '{missing}'", f"should be {form}"], weights=weights_file({**w, far: w[other].clone()}, "wrong.safetensors"), **options)
    fails([f"'{other}' should be {form}, of the first layer's shape"],
          weights=weights_file({**w, other: w[other][:, 1:].clone()}, "wrong.safetensors"), **options)


# ---- ResNet ----


def resnet_sizes(bottleneck):
    if bottleneck:
        return dict(bottleneck=True, blocks=(3, 4, 6, 3), inner=(4, 8, 12, 16), outer=(16, 24, 32, 40), stem=8, classes=11)
    return dict(bottleneck=False, blocks=(2, 2, 2, 2), inner=(8, 16, 24, 32), outer=(8, 16, 24, 32), stem=8, classes=11)


def resnet(w, shapes):
    given = dict(weights=weights_file(w))
    for shape in shapes:
        x = torch.randn(shape)
        near(output(input=x, **given), m.resnet(w, x))
    resnet_training(w, torch.randn(4, 3, 64, 47), 0.01)


def resnet_options(w):
    given, x = dict(weights=weights_file(w)), torch.randn(5, 3, 37, 40)
    near(output(input=x, batch=2, **given), m.resnet(w, x))  # 2, 2 and 1
    for way in WAYS:
        near(output(way, input=x, **given), m.resnet(w, x))
    double = {k: v.double() if v.is_floating_point() else v for k, v in w.items()}
    near(output(input=x, dtype="f64", **given), m.resnet(double, x.double()), 1e-9)
    near(output(input=x, dtype="f16", **given), m.resnet(w, x), 2e-2)
    near(output(input=x, dtype="bf16", **given), m.resnet(w, x), 1e-1)
    fails(["--dtype int8", "no such layers"], input=x, output=path("y.npy"), dtype="int8", weights=given["weights"])
    resnet_training_in_double(w, torch.randn(4, 3, 40, 33), 0.001)
    autocast_output(m.resnet(w, x), input=x, **given)
    calm, labels = m.calm(w), torch.randint(0, w["fc.bias"].numel(), (4,))
    x4 = torch.randn(4, 3, 64, 47)
    autocast_training(calm, lambda w, amp: m.resnet_losses(w, x4, labels, 10, 0.01, 0.9, amp), input=x4, labels=labels, train=10, lr=0.01)
    del double["bn1.num_batches_tracked"]
    near(output(input=x, weights=weights_file({k: v.half() if v.is_floating_point() else v for k, v in double.items()}, "half.safetensors")),
         m.resnet(w, x), 2e-2)


def resnet_training(w, x, lr):
    w = m.calm(w)
    labels, trained = torch.randint(0, w["fc.bias"].numel(), (len(x),)), copy(w)
    given = dict(weights=weights_file(w), input=x, labels=labels, train=10, lr=lr, momentum=0.9, save=path("saved.safetensors"))
    want = m.resnet_losses(trained, x, labels, 10, lr, 0.9)
    near_losses(run(**given).stdout, want)
    saved = m.load_safetensors(path("saved.safetensors"))
    assert saved.keys() == w.keys(), saved.keys() ^ w.keys()
    for name in w:
        near(saved[name], trained[name], 0 if saved[name].dtype == torch.int64 else 5e-3)
    near(output(input=x, weights=path("saved.safetensors")), m.resnet(trained, x).detach(), 5e-3)


def resnet_training_in_double(w, x, lr):
    labels = torch.randint(0, w["fc.bias"].numel(), (len(x),))
    done = run(weights=weights_file(w), input=x, labels=labels, train=6, lr=lr, dtype="f64")
    near_losses(done.stdout, m.resnet_losses({k: v.double() if v.is_floating_point() else v.clone() for k, v in w.items()}, x.double(), labels, 6, lr, 0.9))


def resnet_errors(w):
    x = torch.randn(2, 3, 32, 32)
    wrong_files(w, x, torch.zeros(2, 3, 32, 32, dtype=torch.int64))
    name = "layer2.1.bn2.running_var"
    misnamed(w, name, f"f32 [{w[name].numel()}]", "layer2.1.bn2.running_varr", input=x, output=path("y.npy"))
    without_size(w, "conv1.weight", "[channels out, channels in, 7, 7]", input=x, output=path("y.npy"))
    without_size(w, "layer3.0.conv1.weight", "[channels out, channels in, ", input=x, output=path("y.npy"))
    given = dict(weights=weights_file(w), input=x)
    part = {k: v for k, v in w.items() if not k.startswith("layer4.1.")}
    fails(["layer4 has 1 blocks, not 2"], input=x, output=path("y.npy"), weights=weights_file(part, "part.safetensors"))
    other = m.resnet_weights(**resnet_sizes(True))
    fails(["its blocks have 3 convolutions, not 2"], input=x, output=path("y.npy"), weights=weights_file(other, "part.safetensors"))
    fails(["nothing to do"], **given)
    fails(["--lr says nothing without --train"], output=path("y.npy"), lr=0.1, **given)
    fails(["--output and --save are one file"], output=path("y.npy"), save=path("y.npy"), **given)
    fails(["--output and --save are one file"], output=path("y.npy"), save=path("./y.npy"), **given)
    os.path.lexists(path("link")) or os.symlink("y.npy", path("link"))
    fails(["--output and --save are one file"], output=path("y.npy"), save=path("link"), **given)
    fails(["the file of --weights, which would be lost"], output=given["weights"], **given)
    fails(["the file of --input, which would be lost"], train=1, labels=torch.zeros(2, dtype=torch.int64), save=path("input.npy"), **given)
    fails(["--labels"], train=1, **given)
    fails(["3 classes for 2 images"], train=1, labels=torch.zeros(3, dtype=torch.int64), **given)
    fails(["11"], train=1, labels=torch.full((2,), 11), **given)  # out of range
    fails(["--batch 3: there are 2 rows"], train=1, labels=torch.zeros(2, dtype=torch.int64), batch=3, **given)
    labels = torch.zeros(2, dtype=torch.int64)
    fails(["--save", "No such file or directory"], train=1000000, labels=labels, save="/nonexistent/w.safetensors", **given)
    os.path.lexists(path("astray")) or os.symlink("/nonexistent/w.safetensors", path("astray"))
    fails(["--save", "No such file or directory"], train=1000000, labels=labels, save=path("astray"), **given)
    fails(["--save", "File name too long"], train=1000000, labels=labels, save=path("x" * 256), **given)
    fails([f"--save {DIR}: Is a directory"], train=1000000, labels=labels, save=DIR, **given)
    with open("/dev/full", "w") as full:
        fails(["standard output: No space left on device"], to=full, train=1, labels=labels, **given)
    fails(["conv2d", "[2, 5, 32, 32]"], output=path("y.npy"), **{**given, "input": torch.randn(2, 5, 32, 32)})


def test_resnet18():
    w = m.resnet_weights(**resnet_sizes(False))
    resnet(w, [(2, 3, 64, 64), (1, 3, 33, 47), (5, 3, 38, 35)])
    resnet_options(w)
    resnet_errors(w)


def test_resnet50():
    resnet(m.resnet_weights(**resnet_sizes(True)), [(1, 3, 33, 47), (2, 3, 64, 64)])


def full_resnet18():
    w, x = m.resnet_weights(**m.RESNET18), torch.randn(2, 3, 224, 224)
    near(output(input=x, weights=weights_file(w)), m.resnet(w, x))
    resnet_training(w, torch.randn(8, 3, 97, 96), 1e-3)


def full_resnet50():
    w, x = m.resnet_weights(**m.RESNET50), torch.randn(2, 3, 224, 224)
    near(output(input=x, weights=weights_file(w)), m.resnet(w, x))
    resnet_training(w, torch.randn(8, 3, 97, 96), 1e-3)


# ---- BERT ----


def padding(b, t):
    """Rows of words and padding; the last one is all padding."""
    mask = (torch.arange(t) < torch.randint(1, t + 1, (b, 1))).long()
    mask[-1] = 0
    return mask


def bert_cases(w, sizes, heads, shapes, file, **options):
    for b, t in shapes:
        ids, types, mask = torch.randint(0, sizes["words"], (b, t)), torch.randint(0, sizes["types"], (b, t)), padding(b, t)
        near(output(input=ids, weights=file, **options), m.bert(w, ids, heads))
        near(output(input=ids, weights=file, mask=mask, types=types, **options), m.bert(w, ids, heads, mask, types))
    return ids, types, mask


def test_bert():
    sizes = dict(words=101, positions=40, types=2, dim=128, inner=96, layers=3)
    w = m.bert_weights(**sizes)
    file = weights_file(w)
    ids, types, mask = bert_cases(w, sizes, 2, [(1, 1), (2, 40), (5, 13)], file)
    want = m.bert(w, ids, 8, mask, types)
    given = dict(input=ids, mask=mask, types=types, heads=8)
    near(output(weights=file, batch=2, **given), want)
    for way in WAYS:
        near(output(way, weights=file, **given), want)
    older = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in w.items()}
    near(output(weights=weights_file(older, prefix="bert.", **{"cls.predictions.bias": torch.zeros(3)}), **given), want)
    near(output(weights=file, dtype="f64", **given), m.bert({k: v.double() for k, v in w.items()}, ids, 8, mask, types), 1e-6)
    near(output(weights=file, dtype="f16", **given), want, 2e-2)
    near(output(weights=file, dtype="bf16", **given), want, 1e-1)
    near(output(weights=file, dtype="int8", **given), want, 5e-2)
    autocast_output(want, weights=file, **given)
    wrong_files(w, ids, torch.zeros(5, 13))
    given = dict(weights=file, input=ids, output=path("y.npy"))
    name = "encoder.layer.1.attention.self.key.bias"
    misnamed(w, name, "f32 [128]", "encoder.layer.1.attention.self.keys.bias", input=ids, output=path("y.npy"))
    without_size(w, "embeddings.word_embeddings.weight", "[words, width]", input=ids, output=path("y.npy"))
    many_layers(w, "encoder.layer.{}.", "intermediate.dense.weight", "[inner width, width]", input=ids, output=path("y.npy"))
    fails(["--mask", "[5, 12]", "[5, 13]"], mask=mask[:, :12], **given)
    fails(["128 cannot be cut into 3 heads"], heads=3, **given)
    fails(["41 tokens a row, the model 40 positions"], **{**given, "input": torch.zeros(1, 41, dtype=torch.int64)})
    fails(["101"], **{**given, "input": ids + 101})  # out of range
    fails(["has -1; numbers of rows begin at 0"], **{**given, "input": torch.full((1, 3), -1)})


def full_bert():
    w = m.bert_weights(**m.BERT_BASE)
    bert_cases(w, m.BERT_BASE, 12, [(1, 128), (3, 77)], weights_file(w, prefix="bert."))


# ---- GPT-2 ----


def tokens(text):
    return torch.tensor([[int(x) for x in line.split()] for line in text.splitlines()])


def generation(w, ids, heads, n, **options):
    """Tokens as recomputed by PyTorch; after the second no plan is made and nothing compiled."""
    done = run({"TC_LOG": "sync"}, input=ids, generate=n, heads=heads, **options)
    want = m.gpt2_greedy(w, ids, heads, n)
    assert torch.equal(tokens(done.stdout), want), (done.stdout, want)
    steps = re.findall(r"\[sync\] (?:to_host|landmark) at \S*/gpt2\.c:.*?, (hit|new), (\d+) compiled", done.stderr)
    assert len(steps) >= n and all(step == ("hit", "0") for step in steps[-n + 3:]), steps


def byte_characters():
    """Of bytes in vocab.json."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(other)}}


def vocabulary(n):
    """Ids to text, with every byte and every kind of escape in the file."""
    chars = byte_characters()
    words = [bytes([i % 256, 0]) * (1 + i // 256) for i in range(n)]  # a byte 0 ends no token
    names = ["".join(chars[b] for b in word) for word in words]
    for ascii_only in (True, False):
        with open(path(f"vocab{ascii_only:d}.json"), "w", encoding="utf-8") as f:
            json.dump({name: i for i, name in reversed(list(enumerate(names)))}, f, ensure_ascii=ascii_only)
    return words


def gpt2_text(w, file, ids, heads):
    n = len(w["wte.weight"])
    words = vocabulary(n)
    want = b"".join(words[i] for i in m.gpt2_greedy(w, ids[:1], heads, 9)[0].tolist())
    for ascii_only in (0, 1):
        words_of = command(dict(weights=file, input=ids[:1], generate=9, heads=heads, vocab=path(f"vocab{ascii_only}.json")))
        got = subprocess.run(words_of, capture_output=True).stdout
        assert got == want + b"\n", (got, want)
    for text, why in [('{"a": 1, "b"}', "byte 12: not JSON"), ('{"a": 1, "b c": 2}', "byte 11: no byte has such a character"),
                      ('{"a": -1}', "byte 6: no number of a token"), (f'{{"{"a" * 1025}": 1}}', "byte 1026: too long a token")]:
        open(path("bad.json"), "w").write(text)
        fails(["bad.json: " + why], weights=file, input=ids, generate=2, heads=heads, vocab=path("bad.json"))


def gpt2_draws(w, file, ids, heads):
    """Drawn tokens are among the k likeliest, the same for a seed, and others for another."""
    given = dict(weights=file, input=ids, generate=8, heads=heads, top_k=3)
    first, again, other = (tokens(run(seed=seed, **given).stdout) for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other), (first, other)
    logits = m.gpt2(w, torch.cat([ids, first], 1), heads)
    for i in range(8):
        best = logits[:, ids.shape[1] + i - 1].topk(3).indices
        assert all(first[r, i] in best[r] for r in range(len(ids))), (i, first, best)
    assert torch.equal(tokens(run(**{**given, "top_k": 1}).stdout), m.gpt2_greedy(w, ids, heads, 8))


def gpt2_batches(w, file, ids, heads):
    """Generating a few rows at a time, the last of them fewer, is generating them all."""
    want = m.gpt2_greedy(w, ids, heads, 5)
    for batch in range(1, len(ids) + 2):
        assert torch.equal(tokens(run(weights=file, input=ids, generate=5, heads=heads, batch=batch).stdout), want), batch


def gpt2_training(w, ids, heads, lr, tolerance=5e-3):
    trained = copy(w)
    want = m.gpt2_losses(trained, ids, heads, 10, lr)
    done = run(weights=weights_file(w), input=ids, train=10, lr=lr, heads=heads, save=path("saved.safetensors"))
    near_losses(done.stdout, want)
    saved = m.load_safetensors(path("saved.safetensors"))
    assert saved.keys() == w.keys(), saved.keys() ^ w.keys()
    near(output(weights=path("saved.safetensors"), input=ids, heads=heads), m.gpt2(trained, ids, heads).detach(), tolerance)


def test_gpt2():
    sizes = dict(words=300, positions=48, dim=128, inner=160, layers=3)
    w = m.gpt2_weights(**sizes)
    file = weights_file(m.gpt2_buffers(w, 48, 3), prefix="transformer.", **{"lm_head.weight": w["wte.weight"]})
    for b, t in [(1, 1), (2, 48), (3, 17)]:
        ids = torch.randint(0, 300, (b, t))
        near(output(weights=file, input=ids), m.gpt2(w, ids, 2))
    want = m.gpt2(w, ids, 4)
    given = dict(input=ids, heads=4)
    near(output(weights=weights_file(w), batch=2, **given), want)
    for way in WAYS:
        near(output(way, weights=file, **given), want)
    near(output(weights=file, dtype="f64", **given), m.gpt2({k: v.double() for k, v in w.items()}, ids, 4), 1e-6)
    near(output(weights=file, dtype="f16", **given), want, 2e-2)
    near(output(weights=file, dtype="bf16", **given), want, 1e-1)
    near(output(weights=file, dtype="int8", **given), want, 5e-2)
    run(weights=file, dtype="int8", generate=4, **given)
    fails(["--dtype int8", "not trained"], weights=file, dtype="int8", train=1, **given)
    autocast_output(want, weights=file, **given)
    gpt2_training(w, ids, 4, 1e-3)
    autocast_training(w, lambda w, amp: m.gpt2_losses(w, ids, 4, 10, 1e-3, amp), train=10, lr=1e-3, **given)
    run(weights=file, amp="bf16", generate=4, **given)
    generation(w, ids[:1], 4, 32, weights=file)  # to the last position
    generation(w, ids, 2, 12, weights=file, threads=1)
    gpt2_text(w, file, ids, 4)
    gpt2_draws(w, file, ids, 4)
    gpt2_batches(w, file, ids, 4)
    wrong_files(w, ids, torch.zeros(3, 17))
    misnamed(w, "h.1.mlp.c_proj.weight", "f32 [160, 128]", "h.1.mlp.c_projj.weight", input=ids, output=path("y.npy"))
    without_size(w, "wpe.weight", "[positions, width]", input=ids, output=path("y.npy"))
    many_layers(w, "h.{}.", "mlp.c_fc.weight", "[width, inner width]", input=ids, output=path("y.npy"))
    fails(["--top-k", "--generate"], weights=file, input=ids, output=path("y.npy"), top_k=3)
    fails(["49 tokens", "48 positions"], weights=file, input=ids, generate=33)
    fails(["nothing follows"], weights=file, input=ids[:, :1], train=1)
    fails(["300"], weights=file, input=ids + 300, output=path("y.npy"))  # out of range
    fails(["has -1; numbers of rows begin at 0"], weights=file, input=torch.full((1, 3), -1), output=path("y.npy"))
    fails(["a width of 96 does not tell how many heads"], input=ids, output=path("y.npy"), weights=weights_file(m.gpt2_weights(**{**sizes, "dim": 96})))
    own = weights_file(w, prefix="transformer.", **{"lm_head.weight": w["wte.weight"] + 1})
    fails(["'lm_head.weight' is another than the table of words"], weights=own, input=ids, output=path("y.npy"))


def full_gpt2():
    w, ids = m.gpt2_weights(**m.GPT2_SMALL), torch.randint(0, 50257, (2, 65))
    file = weights_file(w)
    with torch.no_grad():
        near(output(weights=file, input=ids), m.gpt2(w, ids, 12))
    generation(w, ids[:1, :9], 12, 16, weights=file)
    gpt2_training(w, ids, 12, 1e-4, 2e-2)


torch.manual_seed(3)
if not FULL:
    torch.set_num_threads(1)
try:
    globals()[("full_" if FULL else "test_") + MODEL]()
finally:
    shutil.rmtree(DIR)
print(f"{MODEL}: as PyTorch {torch.__version__}")
