#!/usr/bin/env python3
"""A report of a profile with 1,000,000 sync points takes less than 2 seconds and 200 MiB, where they share 200 graphs and where they have 250,000.

budget.py PROGRAM [plain]     plain: the time and memory of a program without a sanitizer are held to the limits
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from million import write  # noqa: E402

N, SECONDS, MIB = 1_000_000, 2.0, 200


def measure(program, path):
    """The report, and the seconds and MiB of the fastest of three; of a busy machine that one tells."""
    best, out = float("inf"), ""
    for _ in range(3):
        begin = time.monotonic()
        out = subprocess.run([program, "report", path], capture_output=True, check=True, text=True, timeout=300).stdout
        best = min(best, time.monotonic() - begin)
    return out, best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main():
    program, plain = os.path.abspath(sys.argv[1]), "plain" in sys.argv
    n, failed = N if plain else N // 50, False
    for n_plans in (0, n // 4):
        with tempfile.TemporaryDirectory() as folder:
            out, seconds, mib = measure(program, write(os.path.join(folder, "million.prof"), n, n_plans))
        print(f"{n_plans or 200} graphs: {seconds:.2f} s, {mib:.0f} MiB")
        for said in (f"{'1.00M' if plain else '20000'} syncs", f"{'250k' if plain else '5000'} graphs" if n_plans else "200 graphs"):
            if said not in " ".join(out.split()):
                print(f"the report does not say that there were {said}:", out[:300])
                failed = True
        failed |= plain and (seconds > SECONDS or mib > MIB)
    return failed


sys.exit(main())
