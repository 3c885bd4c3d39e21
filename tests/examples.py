#!/usr/bin/env python3
"""Runs an example and checks what it prints: examples.py NAME PROGRAM WAY, from the root of the sources.

WAY is llvm, interp or ref (the reference device); gpu: on the device that the environment names the example prints what it prints on tc:cpu, with the same sync
points of the same graphs, node by node, in its small sizes where it has them, and the programs of models with the small ones of tests/golden; verify: TC_VERIFY=1 finds nothing wrong; or steady: after the second step of a long training nothing
allocates and memory does not grow (COUNT_ALLOCS is the library of tests/preload/count_allocs.c). Expected values come from Python and PyTorch, never from
the library.
"""
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

WAYS = {"llvm": {}, "interp": {"TC_COMPILER": "interp"}, "ref": {"TC_DEVICE": "tc:ref"}}
# tools/char_gpt_torch.py 41 LICENSE, PyTorch 2.15.
GPT_LOSSES = {0: 4.3338, 20: 3.0019, 40: 2.9307}


def run(program, way, *args):
    return run_in({**WAYS[way], "TC_LOG": "plan,sync"}, program, *args)


def run_in(environment, program, *args):
    environment = {**os.environ, **environment}
    done = subprocess.run([program, *args], env=environment, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "\r" not in done.stdout + done.stderr, "lines that are written over are for terminals"
    return done.stdout, done.stderr


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", text)]


def last_plan_steps(log):
    """Kernels of the last plan that was made."""
    return int(re.findall(r"\w+: \d+ nodes, (\d+) steps", log)[-1])


def training_settles(log, cause="landmark"):
    """From the third step on no plan is made and nothing compiled."""
    steps = re.findall(rf"\[sync\] {cause} at .*?, (hit|new), (\d+) compiled", log)
    late = [step for step in steps[4:] if step != ("hit", "0")]
    assert len(steps) > 10 and not late, (len(steps), late)


def sin_cos(program, way):
    out, log = run(program, way)
    got = numbers(out)
    x = [3 * i / 9 for i in range(10)]
    want = [math.sin(b) + math.cos(a) for a in x for b in x]
    assert len(got) == 100 and all(abs(g - w) < 5e-7 for g, w in zip(got, want)), out
    assert got[0] == 1, out
    assert way == "ref" or last_plan_steps(log) == 1, log


def linear_relu(program, way):
    out, log = run(program, way)
    got = numbers(out)
    assert len(got) == 40 and min(got) == 0 and 0.2 < max(got) < 3, out
    assert way == "ref" or last_plan_steps(log) <= 2, log


def dynamic_sizes(program, way):
    out, _ = run(program, way)
    w, b = ([low + (high - low) * i / 7 for i in range(8)] for low, high in ((-2, 2), (0, 1)))

    def score(x):
        e = [math.exp(math.tanh(x * u + v)) for u, v in zip(w, b)]
        return sum(p * u for p, u in zip(e, w)) / sum(e)

    lines = out.splitlines()
    for line, n in zip(lines, (100, 200, 300), strict=False):
        got = numbers(line)
        assert got[0] == n and abs(got[1] - score(0)) < 2e-5 and abs(got[2] - score(1)) < 2e-5, line
    assert lines[3:] == ["plans lowered: 300, bound: 0" if way == "ref" else "plans lowered: 1, bound: 299"], out


TOUR = """\
sin(x) + cos(y)
  as it is               sum 149.5784, 1 run
  in a region            sum 149.5784, 1 run
  as a compiled function sum 149.5784, 1 run
relu(Linear(100, 10)) of 10 rows: 10 x 10, least 0
an MLP, by a backend that refuses matmul
  without suppress_errors: a kernel did not compile
  with it: 1 suppressed, the same bits as without the backend
ResNet-18 of 2 x 3 x 32 x 32, medians of 3 calls
  eager TIME ms
  reduce-overhead TIME ms, TIME times as fast
  logits agree
"""


def torch_compile_tour(program, way):
    out, _ = run(program, way, "--small")
    assert re.sub(r" +\d+\.\d\d (ms|times)", r" TIME \1", out) == TOUR, out


def line_fit(program, way):
    out, log = run(program, way)
    training_settles(log, "item")
    losses = [float(x) for x in re.findall(r"^step \d+: loss (\S+)$", out, re.M)]
    assert len(losses) == 5 and losses[0] > 20 and losses[-1] < 1e-9, out
    weights, offset = numbers(re.search(r"^weights (.*)$", out, re.M)[1]), numbers(re.search(r"^offset (.*)$", out, re.M)[1])
    assert len(weights) == 4 and all(abs(w - k - 1) < 1e-4 for k, w in enumerate(weights)) and abs(offset[0] + 0.5) < 1e-4, out
    assert re.search(r"\[sync\] item at \S*examples/line_fit\.cpp:\d+: ok", log), log[-4000:]


def compile(program, way):
    out, log = run_in({**WAYS[way], "TC_LOG": "guards,sync"}, program)
    # SGD with momentum, again in plain Python.
    w, velocity, lr, losses = [0.0] * 4, None, 0.05, {}
    for i in range(201):
        rows = [[((i + r) * 7 + k * (i + 3)) % 11 / 5 - 1 for k in range(3)] + [1] for r in range(5 if i == 200 else 8)]
        errors = [sum(a * b for a, b in zip(w, x)) - (0.5 + sum((k + 1) * x[k] for k in range(3))) for x in rows]
        scale, n = 0.5 if i % 2 else 1, len(rows)
        losses[i] = scale * sum(e * e for e in errors) / n
        grad = [scale * 2 / n * sum(e * x[k] for e, x in zip(errors, rows)) for k in range(4)]
        velocity = [0.9 * v + g for v, g in zip(velocity, grad)] if velocity else grad
        lr = 0.01 if i == 100 else lr
        w = [a - lr * v for a, v in zip(w, velocity)]
    got = {int(i): float(loss) for i, loss in re.findall(r"^step +(\d+)  loss (\S+)$", out, re.M)}
    assert got.keys() == {0, 50, 100, 150, 200} and all(abs(loss - losses[i]) < 2e-5 * max(1, losses[i]) for i, loss in got.items()), (got, losses)
    assert re.findall(r"runs in C, for (\d) rows", out) == ["8", "5"], out
    assert "\n2 graphs, 201 calls, of which 199 took a graph\n" in out and "\nargument 0 is f32[5, 3]" in out, out
    assert re.search(r"\[guards\] step: traced for graph 1, \d+ records: argument 0 is f32\[5, 3\].*, was f32\[8, 3\]", log), log
    assert [h for h in re.findall(r"\[sync\] item at .*?, (hit|new), ", log)].count("new") <= 4, log  # another plan for the first steps' zeros


def mlp_regression(program, way):
    out, log = run(program, way)
    training_settles(log)
    losses = numbers("\n".join(line.split("loss")[1] for line in out.splitlines()))
    assert len(losses) == 11 and losses[-1] < losses[0] / 100, out


def amp(program, way):
    out, _ = run(program, way)
    got = dict(re.findall(r"^(\w+) +loss (\S+),", out, re.M))
    assert re.findall(r"scale (\S+)", out) == ["1", "1", str(2**24 // 2**5)], out  # five steps left out
    assert 0.02 < float(got["f32"]) < 0.3 and abs(float(got["bf16"]) - float(got["f32"])) < 0.03, out


def existing_code(program, way):
    out, _ = run(program, way)
    # The entropy, again in plain Python.
    entropy = 0
    for row in range(1000):
        e = [math.exp(5 * math.sin((64 * row + i) * 0.37)) for i in range(64)]
        entropy -= sum(v / sum(e) * math.log(v / sum(e)) for v in e) / 1000
    assert abs(numbers(out)[-1] - entropy) < 2e-3, (out, entropy)
    # docs/guide.md shows the lines that were added.
    source = open("examples/existing_code.c").read()
    diff = re.search(r"^## Existing code$.*?^```diff$(.*?)^```$", open("docs/guide.md").read(), re.M | re.S).group(1)
    added = [line[1:].strip() for line in diff.splitlines() if line.startswith("+")]
    assert len(added) == 3 and all(line in source for line in added), added
    assert source.count("// added") == 3, source


def export(program, way):
    with tempfile.TemporaryDirectory(prefix="tc-examples-") as folder:
        path = f"{folder}/model.tcx"
        if way != "llvm":  # there is no compiler, or tensors are elsewhere: that is said
            done = subprocess.run([program, path], env={**os.environ, **WAYS[way]}, capture_output=True, text=True)
            assert done.returncode == 1 and ("nothing to compile with" if way == "interp" else "is on tc:ref") in done.stderr, done.stderr
            assert not os.path.exists(path)
            return
        out, _ = run(program, way, path)
    w1 = [[math.sin(16 * i + j) for j in range(16)] for i in range(2)]
    w2 = [[math.cos(3 * i + j) for j in range(3)] for i in range(16)]

    def chances(x):
        hidden = [math.tanh(sum(a * w[j] for a, w in zip(x, w1))) for j in range(16)]
        e = [math.exp(sum(h * w[k] for h, w in zip(hidden, w2))) for k in range(3)]
        return [v / sum(e) for v in e]

    one, four, error = out.splitlines()
    assert all(abs(g - w) < 6e-4 for g, w in zip(numbers(one), chances([0.5, -1]))), out
    assert numbers(four) == [max(range(3), key=chances([2 * i, 2 * i + 1]).__getitem__) for i in range(4)], out
    assert "batch is 3; the file was made for 1, 4" in error, out


def digits(program, way):
    seeds = 5 if way == "llvm" and "TC_TEST_QUICK" not in os.environ else 1
    out, log = run(program, way, str(seeds))  # fails below 97 %
    assert f"over {seeds} seeds" in out and "compiled after the second epoch: 0\n" in out, out
    assert re.search(r"^tc profile: ", log, re.M) and re.search(r"^  syncs   \d+ at \d+ places", log, re.M), log


def train_loop(program, way):
    steps = 400 if way == "llvm" else 40  # others take ten times as long
    out, log = run(program, way, str(steps))
    training_settles(log)
    lines = re.findall(r"^step +(\d+): loss ([\d.]+), next rate ([\d.]+)$", out, re.M)
    assert [int(step) for step, _, _ in lines] == list(range(0, steps, steps // 8)), out
    for step, _, rate in lines:  # PyTorch's formulas: ten steps of a line, then half a cosine
        k = int(step) + 1
        want = 0.001 + 0.0009 * k if k <= 10 else 0.005 * (1 + math.cos(math.pi * (k - 10) / (steps - 10)))
        assert abs(float(rate) - want) < 6e-6, (step, rate, want)
    assert f"from step {steps // 2} on again: the same bits\n" in out, out
    assert float(lines[-1][1]) < float(lines[0][1]) * (0.1 if steps == 400 else 0.9), out
    if steps == 400:
        assert min(map(float, re.findall(r"([\d.]+) %", out))) > 97, out


def char_gpt(program, way):
    steps = "41" if way == "llvm" else "21"  # others take ten times as long
    out, log = run(program, way, steps, "0", "LICENSE")
    training_settles(log)
    losses = {int(step): float(loss) for step, loss in re.findall(r"^step +(\d+)  loss ([\d.]+)$", out, re.M)}
    wanted = {step: loss for step, loss in GPT_LOSSES.items() if step < int(steps)}
    assert losses.keys() == wanted.keys(), out
    for step, want in wanted.items():
        assert abs(losses[step] - want) < 2e-3, (losses, wanted)
    assert len(out.split("---- sample ----\n")[1]) >= 200, out
    if way != "llvm":
        return
    dropped, log = run(program, way, "21", "0.1", "LICENSE")  # exits 1 if the loss does not fall
    training_settles(log)
    assert not set(dropped.splitlines()[1:3]) & set(out.splitlines()), dropped
    assert len(dropped.split("---- sample ----\n")[1]) >= 200, dropped


# What gpu-check runs, too. Of programs arguments, lines to compare, and by how much f32's rounding and other orders of adding may move a number in them.
with open(os.path.join(os.path.dirname(__file__), "../tools/gpu_check/examples.def")) as f:
    DEFINED = f.read()
SMALL = {name: (words.split(), re.escape(begin) + f"(.*?)(?={re.escape(end) or '$'})", float(tolerance))
         for name, words, begin, end, tolerance in re.findall(r'^TC_EXAMPLE\((\w+), *"(.*?)", *"(.*?)", *"(.*?)", *([\d.e-]+)\)', DEFINED, re.M)}


def sync_points(log):
    """Why and where each was, and of its graph the name, how many nodes it had and how many of these were left."""
    return re.findall(r"\[sync\] (\w+ at \S+): ok, graph (\w+) of (\d+) nodes, (\d+) left", log)


def recorded_graphs(log):
    """By name the lines of each graph, as recorded."""
    found, name = {}, None
    for line in log.splitlines():
        if named := re.fullmatch(r"tc\[plan\] (\w+): recorded", line):
            name = named[1]
        elif name and line.startswith("%"):
            found.setdefault(name, []).append(line)
        else:
            name = None
    return found


def placeless(graph):
    """Without what a device has its own of: its name, its number in a copy, and whether a leaf's memory is the library's."""
    return [re.sub(r"(= to .*) attr \d+|(= leaf .*?) sole", r"\1\2", re.sub(r" tc:\w+", "", line)) for line in graph]


def check_graphs(log, cpu_log):
    """The same sync points, of graphs that were recorded and left alike: where weights were loaded, too, since nothing is left of what replaces values that nobody read."""
    points, cpu_points = sync_points(log), sync_points(cpu_log)
    recorded, cpu_recorded = recorded_graphs(log), recorded_graphs(cpu_log)
    assert len(points) == len(cpu_points) > 0, (points, cpu_points)
    for (cause, graph, n, left), (cpu_cause, cpu_graph, cpu_n, cpu_left) in zip(points, cpu_points):
        assert (cause, n, left) == (cpu_cause, cpu_n, cpu_left), (points, cpu_points)
        assert placeless(recorded[graph]) == placeless(cpu_recorded[cpu_graph]), (cause, recorded[graph], cpu_recorded[cpu_graph])
    assert re.search(r"kernels \(gpu\)", log) and not re.search(r"kernels \(gpu\)", cpu_log), log[-4000:]


def gpu(name, program):
    if name in MODELS:
        model_gpu(name, program)
        return
    args, lines, tolerance = SMALL[name]
    got, want = (run_in({**device, "TC_LOG": "plan,sync"}, program, *args) for device in ({}, {"TC_DEVICE": "tc:cpu"}))
    a, b = (numbers("\n".join(re.findall(lines, out, re.M))) for out, _ in (got, want))
    assert len(a) == len(b) > 0 and all(abs(x - y) <= tolerance * max(1, abs(y)) for x, y in zip(a, b)), (got[0], want[0])
    check_graphs(got[1], want[1])


# The programs of models: what each run is given besides weights and input, and the tolerance. "golden.x" is that tensor of the archive, OUT a file that is written.
OUT = "OUT"
MODELS = {}
for model, words, tolerance in re.findall(r'^TC_MODEL_EXAMPLE\((\w+), *"(.*?)", *([\d.e-]+)\)', DEFINED, re.M):
    MODELS.setdefault(model, []).append((words.split(), float(tolerance)))


def early_exit(program, way):
    out, _ = run(program, way)
    lines = out.splitlines()
    assert len(lines) == 8, out
    for i, line in enumerate(lines):
        x, y = 0.25 * (i - 4), 0.125 * (i * 5 % 8) - 0.5
        score, by = 2 * x + 0.5 * y, "cheap classifier"
        if abs(score) <= 1:
            hidden = [math.tanh(0.5 * (k % 5 - 2) * x + 0.25 * (k % 7 - 3) * y) for k in range(16)]
            score, by = sum(h * (0.5 if k % 2 else -0.25) for k, h in enumerate(hidden)), "network"
        got = numbers(line)
        assert line.endswith("by the " + by) and abs(got[2] - score) < 6e-4, (line, score)
    assert {"cheap classifier", "network"} == {line.split(" by the ")[1] for line in lines}


def beam_search(program, way):
    """The search written out: beams of (score, name), the best 5 of all continuations in the order of their scores."""
    source = open("examples/beam_search.c").read()
    names = re.findall(r'"([a-z]+)"', source.split("names[] = {")[1].split("};")[0])
    count = [[0.01] * 27 for _ in range(27)]
    for name in names:
        last = 0
        for letter in [ord(c) - 96 for c in name] + [0]:
            count[last][letter] += 1
            last = letter
    log_p = [[math.log(n / sum(row)) for n in row] for row in count]
    beam, steps = [(0.0, ())], 0
    while steps < 12 and (steps == 0 or any(name[-1] for _, name in beam)):
        longer = []
        for score, name in beam:
            if steps and not name[-1]:
                longer.append((score, name + (0,)))
            else:
                longer += [(score + log_p[name[-1] if name else 0][b], name + (b,)) for b in range(27)]
        beam, steps = sorted(longer, key=lambda x: -x[0])[:5], steps + 1
    out, _ = run(program, way)
    lines = out.splitlines()
    assert lines[0] == f"{steps} steps", (lines, steps)
    want = [(score, "".join(chr(96 + b) for b in name if b)) for score, name in beam]
    got = [(float(line.split()[0]), line.split()[1]) for line in lines[1:]]
    assert len(got) == 5 and all(abs(a - c) < 2e-3 and b == d for (a, b), (c, d) in zip(got, want)), (got, want)


def save_golden(archive, folder):
    """The archive's tensors whose names begin with golden. as .npy files."""
    with open(archive, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start = f.tell()
        for name, facts in header.items():
            if not name.startswith("golden."):
                continue
            f.seek(start + facts["data_offsets"][0])
            data = f.read(facts["data_offsets"][1] - facts["data_offsets"][0])
            text = repr({"descr": {"F32": "<f4", "I64": "<i8"}[facts["dtype"]], "fortran_order": False, "shape": tuple(facts["shape"])})
            text += " " * ((-len(text) - 11) % 64) + "\n"
            with open(f"{folder}/{name}.npy", "wb") as out:
                out.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data)


def floats_of(path):
    with open(path, "rb") as f:
        text = f.read(struct.unpack("<8xH", f.read(10))[0])
        assert b"'<f4'" in text, text
        return [x for x, in struct.iter_unpack("<f", f.read())]


def run_model(program, device, name, folder, words):
    """What it prints and writes, as numbers, and its log."""
    args = ["--weights", f"tests/golden/model_{name}.safetensors", "--input", f"{folder}/golden.input.npy"]
    args += [f"{folder}/{word}.npy" if word.startswith("golden.") else f"{folder}/{word}" if word == OUT else word for word in words]
    out, log = run_in({**device, "TC_LOG": "plan,sync"}, program, *args)
    return numbers(out) + (floats_of(f"{folder}/{OUT}") if OUT in words else []), log


def model_gpu(name, program):
    with tempfile.TemporaryDirectory(prefix="tc-examples-") as folder:
        save_golden(f"tests/golden/model_{name}.safetensors", folder)
        for words, tolerance in MODELS[name]:
            (got, log), (want, cpu_log) = (run_model(program, device, name, folder, words) for device in ({}, {"TC_DEVICE": "tc:cpu"}))
            worst, largest = max(abs(a - b) for a, b in zip(got, want)), max(map(abs, want))
            assert len(got) == len(want) > 0 and worst <= tolerance * max(1, largest), (words, worst, got[:8], want[:8])
            check_graphs(log, cpu_log)


VERIFY_ARGS = {"amp": ["3"], "export": ["{folder}/model.tcx"], "mlp_regression": ["200"], "train_loop": ["16"], "digits": ["--small", "1"], "char_gpt": ["2", "0.1", "LICENSE"], "torch_compile_tour": ["--small"]}


def verify(name, program):
    with tempfile.TemporaryDirectory(prefix="tc-examples-") as folder:
        _, log = run_in({"TC_VERIFY": "1"}, program, *(word.format(folder=folder) for word in VERIFY_ARGS.get(name, [])))
    assert "TC_VERIFY" not in log, log[-4000:]


# Arguments, steps that they make, and steps after the second that may allocate, having met something for the first time: of digits the end of the first
# epoch, where its loss is read, the first look at the held-out rows, and each new model (a seed's 12 epochs of 112 steps).
STEADY = {
    "mlp_regression": (["10000"], 10000, set()),
    "digits": (["8"], 8 * 1344, {112, 113} | {1344 * seed + k for seed in range(8) for k in (1, 2)}),
    "char_gpt": (["1000", "0.1", "LICENSE"], 1000, set()),
}


def steady(name, program):
    args, steps, first_times = STEADY[name]
    # A kernel that is compiled while steps go on allocates then.
    environment = {"LD_PRELOAD": os.environ["COUNT_ALLOCS"], "COUNT_BASE": str(steps // 10), "TC_INTERPRET_FIRST": "0"}
    _, log = run_in(environment, program, *args)
    n, allocating, grown = re.search(r"^steps: (\d+), allocating:([ \d]*), grown: (-?\d+) KiB$", log, re.M).groups()
    # The last step ends with the next scope, which some programs do not begin.
    assert steps - 1 <= int(n) <= steps, n
    assert 1 in set(map(int, allocating.split())), "the count counts nothing"
    assert set(map(int, allocating.split())) <= {1, 2} | first_times, allocating
    assert int(grown) <= 512, f"{grown} KiB"


if __name__ == "__main__":
    if sys.argv[3] in ("verify", "steady", "gpu"):
        globals()[sys.argv[3]](*sys.argv[1:3])
    else:
        globals()[sys.argv[1]](*sys.argv[2:4])
