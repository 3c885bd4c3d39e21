"""What the peers of tc-bench share: shapes of the cases, the numbers that inputs and parameters are made of, and the protocol (bench/bench.h).

A peer is run as `peer.py .. BENCH CASE THREADS`. It warms up and prints "ready"; for each line it reads it runs about 10 ms of calls and prints
"seconds X", the time of one; it exits with status 3 for a case it does not have.
"""
import os
import re
import subprocess
import sys
import time

SOFTMAX = {"4096x1024": (4096, 1024), "64x32000": (64, 32000)}
NORM = {"layernorm": (4096, 1024), "rmsnorm": (4096, 1024), "layernorm_grad": (4096, 1024), "batchnorm_grad": (16, 64, 32, 32)}
XENT = (512, 50257)  # rows, classes
EMBEDDING = (50257, 768, 512)  # words, width, how many are looked up
OPTIM = (100, 256, 1024)  # parameters, each of this shape
MLP = {"mlptrain_small": (32, [10, 128, 1], False), "mlptrain_mid": (128, [784, 512, 512, 10], True)}
DIGITS = (1437 * 5, 64, [64, 256, 10], 0.2)  # rows, batch, widths, label smoothing
LINRELU = {"batch1": 1, "batch64": 64, "batch1024": 1024}
DYN = [1 + (i * 37 + i * i * 11) % 128 for i in range(64)]  # batches of a network of 64, 256, 10
ATTENTION = (4, 12, 512, 64)  # sequences, heads, positions, size of a head
DECODE_CONTEXT = 256
TRAIN = {"momentum": 0.9, "lr": 0.01}
ADAMW = {"lr": 1e-4, "weight_decay": 0.01}


def convs():
    """name -> images, in, side, out, window, stride: the rows of convs.def."""
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convs.def"), encoding="utf-8").read()
    rows = re.findall(r'^CONV\("(\S+)",([\s\d,]+)\)', text, re.M)
    return {name: [int(v) for v in values.split(",")] for name, values in rows}


def shape_of(case):
    """(images or sequences, side or length) of a model's case such as "16x3x128x128" or "8x128_bf16"."""
    sizes = [int(v) for v in case.split("_")[0].split("x")]
    return sizes[0], sizes[-1]


# ---- Numbers: those of bench_floats, to the bit ----

def floats(shape, seed):
    import numpy as np

    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        # The generator state -> a state + c, n steps at once: a^n and the sum of the powers before it.
        powers = np.cumprod(np.full(n, 6364136223846793005, np.uint64))
        sums = np.cumsum(powers) - powers + np.uint64(1)
        state = powers * np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64) + sums * np.uint64(1442695040888963407)
    return ((state >> np.uint64(32)).astype(np.uint32).view(np.int32).astype(np.float32) * np.float32(2**-31)).reshape(shape)


def parameter(name, shape):
    """The value of the parameter of that name: see `parameter` in zoo.c."""
    import numpy as np

    seed = 2166136261
    for byte in name.encode():  # FNV-1a
        seed = (seed ^ byte) * 16777619 % 2**32
    x, f32 = floats(shape, seed), np.float32
    if name.endswith("running_var"):
        return f32(0.5) * x + f32(1)
    if len(shape) == 1:
        return f32(0.1) * x + f32(1 if name.endswith("weight") else 0)
    if len(shape) == 4:
        return x * f32((6.0 / (shape[1] * shape[2] * shape[3])) ** 0.5)
    return x * f32(0.035)


def ids(n, length, vocab):
    import numpy as np

    return (np.arange(n * length, dtype=np.int64) * 7919 % vocab).reshape(n, length)


def words(n, vocab):
    """What BERT is to predict, place by place."""
    import numpy as np

    return np.arange(n, dtype=np.int64) * 7907 % vocab


def classes(n, n_classes):
    import numpy as np

    return np.arange(n, dtype=np.int64) * 7 % n_classes


# ---- Protocol ----

def report(call, once=False, finish=lambda: None):
    """once: a sampled row, whose call gives its own figure. finish: returns when what the calls began is done."""
    if call is None:
        sys.exit(3)
    n = 0
    start = time.perf_counter()
    while not once and (n < 3 or time.perf_counter() < start + 0.5):
        call()
        finish()
        n += 1
        if n == 2:  # what came before was compiling
            start = time.perf_counter()
        if n >= 2 and time.perf_counter() > start + 2:
            break
    n = 1 if once else max(1, round(0.01 * (n - 2) / (time.perf_counter() - start)))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(n):
            result = call()
        finish()
        print(f"seconds {result if once else (time.perf_counter() - start) / n:.9g}", flush=True)


def status_mib(field):
    """VmRSS or VmHWM of this process."""
    for line in open("/proc/self/status", encoding="utf-8"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def peak_over_now(call, n=3):
    """MiB that n calls need at most over what is held before them."""
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as f:
        f.write("5")
    held = status_mib("VmRSS")
    for _ in range(n):
        call()
    return status_mib("VmHWM") - held


def fresh(what, arguments):
    """A call that runs this program again as `.. --fresh WHAT` and gives what it prints, or the seconds until it prints for `cold`."""

    def call():
        start = time.perf_counter()
        with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as p:
            line = p.stdout.readline()
            seconds = time.perf_counter() - start
            p.stdout.read()
        if not line.startswith("done"):
            raise RuntimeError(f"{arguments} failed")
        return seconds if what == "cold" else float(line.split()[1])

    return call
