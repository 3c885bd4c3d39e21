"""What the peers of tc-bench share: shapes of the cases, and the protocol (bench/bench.h).

A peer is run as `peer.py .. BENCH CASE THREADS`. It warms up and prints "ready"; for each line it reads it runs about 10 ms of calls and prints
"seconds X", the time of one; it exits with status 3 for a case it does not have.
"""
import sys
import time

SOFTMAX = {"4096x1024": (4096, 1024), "64x32000": (64, 32000)}
NORM = {"layernorm": (4096, 1024), "rmsnorm": (4096, 1024), "layernorm_grad": (4096, 1024), "batchnorm_grad": (16, 64, 32, 32)}
XENT = (512, 50257)  # rows, classes
EMBEDDING = (50257, 768, 512)  # words, width, how many are looked up
OPTIM = (100, 256, 1024)  # parameters, each of this shape
MLP = {"mlptrain_small": (32, [10, 128, 1], False), "mlptrain_mid": (128, [784, 512, 512, 10], True)}
DIGITS = (1437 * 5, 64, [64, 256, 10], 0.2)  # rows, batch, widths, label smoothing


def report(call):
    if call is None:
        sys.exit(3)
    n = 0
    start = time.perf_counter()
    while n < 3 or time.perf_counter() < start + 0.5:
        call()
        n += 1
        if n == 2:  # what came before was compiling
            start = time.perf_counter()
    n = max(1, round(0.01 * (n - 2) / (time.perf_counter() - start)))
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(n):
            call()
        print(f"seconds {(time.perf_counter() - start) / n:.9g}", flush=True)
