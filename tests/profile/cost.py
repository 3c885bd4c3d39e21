#!/usr/bin/env python3
"""What a profile costs in instructions, counted by callgrind: under 3 % of a step of 100 small ops (step100), under 1 % of a training step (mlptrain_mid).

Kernels are left out (TC_COMPILER=null), since compiling takes minutes under valgrind. So step100 is compared without its arithmetic, and mlptrain_mid with
the least that its products take: a multiply-add of eight lanes each.
  cost.py PROGRAM"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MOST = {"step100": 3.0, "mlptrain_mid": 1.0}  # percent
STEPS = {"step100": 50, "mlptrain_mid": 3}  # as cost.c measures
PRODUCTS = {"step100": 0, "mlptrain_mid": 128 * (784 * 512 * 2 + 512 * 512 * 3 + 512 * 10 * 3) // 8}  # instructions of a step


def count(program, case, folder, profile):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TC_")}
    environment.update(TC_COMPILER="null", TC_INTERPRET_FIRST="0", TC_CACHE_BYTES="0", TC_NUM_THREADS="1")
    if profile:
        environment["TC_PROFILE"] = str(folder / "profile")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--toggle-collect=measured_steps", program, case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert done.returncode == 0 and found, f"{case}: {done.returncode}\n{done.stderr}"
    return int(found[1])


def main():
    program = sys.argv[1]
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not there to count instructions")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case, most in MOST.items():
            without, with_it = (count(program, case, folder, profile) for profile in (False, True))
            assert (folder / "profile").stat().st_size > 1000, "no profile was written"
            step, more = without // STEPS[case] + PRODUCTS[case], (with_it - without) // STEPS[case]
            percent = 100 * more / step
            print(f"{case}: a step is {step} instructions, with a profile {more} more: {percent:.2f} %, at most {most}")
            failed += percent > most
    return failed > 0


sys.exit(main())
