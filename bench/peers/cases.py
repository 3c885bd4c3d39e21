"""What the peers of tc-bench share: shapes of the cases, and measuring a call by its own process.

A peer is run as `peer.py .. BENCH CASE THREADS` and prints "seconds X", the median seconds of a call after a warm-up; it prints nothing and
exits 3 for a case it does not have.
"""
import statistics
import sys
import time

SOFTMAX = {"4096x1024": (4096, 1024), "64x32000": (64, 32000)}
MLP = {"mlptrain_small": (32, [10, 128, 1], False), "mlptrain_mid": (128, [784, 512, 512, 10], True)}
DIGITS = (1797, 64, [64, 128, 10])  # rows, batch, widths


def measure(call, warm_seconds=0.5, seconds=0.5):
    end = time.perf_counter() + warm_seconds
    n_warm = 0
    while n_warm < 3 or time.perf_counter() < end:
        call()
        n_warm += 1
    each = warm_seconds / n_warm
    n = max(1, int(0.01 / max(each, 1e-9)))
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(n):
            call()
        times.append((time.perf_counter() - start) / n)
    return statistics.median(times)


def report(call):
    if call is None:
        sys.exit(3)
    print(f"seconds {measure(call):.9g}")
