#!/usr/bin/env python3
"""What the shim costs on this machine: nanoseconds a call at each level over each BLAS, and microseconds that a program without BLAS starts later.

costs.py SHIM   prints a table; it is no test
"""
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True

from common import HERE, PROVIDERS, Shim, need_reference


def start_microseconds(env):
    begin = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
    return (time.perf_counter() - begin) * 1e6


def main():
    shim = Shim(sys.argv[1])
    program = shim.compile("costs", HERE / "costs.c", f"{need_reference()}/libblas.so.3")
    for provider, folder in PROVIDERS.items():
        for n in 0, 4:
            best = {}
            for level in (None, "off", "trace", "eager") * 3:  # by turns
                done = shim.run([program, n], level, library=folder)
                for line in done.stdout.splitlines():
                    name, ns = line.split()
                    best[level, name] = min(float(ns), best.get((level, name), 1e9))
            for name in "daxpy", "dgemm", "cblas_dgemm":
                print(f"{provider:10} n={n} {name:12} {best[None, name]:7.2f} ns" + "".join(f"  {level} {best[level, name] - best[None, name]:+.2f}" for level in ("off", "trace", "eager")))
    plain, loaded = {"PATH": "/bin"}, {"PATH": "/bin", "LD_PRELOAD": str(shim.path)}
    times = [(start_microseconds(plain), start_microseconds(loaded)) for _ in range(2000)]
    a, b = (statistics.median(t[i] for t in times) for i in (0, 1))
    print(f"a program without BLAS starts in {a:.0f} us, with the shim {b - a:.1f} us later")
    shim.close()


if __name__ == "__main__":
    sys.exit(main())
