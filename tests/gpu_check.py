#!/usr/bin/env python3
"""Runs gpu-check on the simulated drivers, so that its first minute on a device is not its first: gpu_check.py PART GPU_CHECK DEVICE, with the libraries in the
place of the drivers' and vendors' in the environment.

Every row is right and called simulated, and has no time; part a has one of each example program. What is in the file is not run again, unless it was wrong, for which the exit status is 1.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

part, program, device = sys.argv[1:4]
KEYS = {"part", "name", "value", "unit", "roof", "of_roof", "device", "driver", "date", "small", "wrong", "note"}
FEWEST = {"a": 90, "b": 6, "c": 40, "d": 10, "e": 5, "f": 4}
TIMES = {"s", "GB/s", "GFLOP/s", "us", "ms", "times as fast"}  # units of what takes a clock


def run(directory, *options):
    file = os.path.join(directory, "rows.json")
    done = subprocess.run([program, part, "--device", device, "--small", "--json", file, *options], capture_output=True, text=True, errors="replace",
                          env={**os.environ, "TC_CACHE_DIR": directory, "TC_CACHE_BYTES": str(1 << 28), "TC_SIM_CACHE": directory})
    rows = [json.loads(line) for line in open(file, encoding="utf-8")] if os.path.exists(file) else []
    return done, file, rows


def check_rows(done, rows):
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    names = [row["name"] for row in rows]
    assert len(rows) >= FEWEST[part] and len(set(names)) == len(names), names
    for row in rows:
        assert set(row) == KEYS and row["part"] == part and row["small"] and not row["wrong"], row
        assert row["device"].startswith("simulated") and "simulated" in row["driver"], row
        assert row["unit"] not in TIMES and row["roof"] is None and row["of_roof"] is None, f"a time of a simulated device: {row}"
    table = done.stdout.splitlines()
    for name in names:
        line = next(line for line in table if line.startswith(name + " "))
        assert "simulated" in line, line


def check_examples(names):
    """All of them; without libjansson those of models are skipped."""
    with open("tools/gpu_check/examples.def", encoding="utf-8") as f:
        text = f.read()
    programs, models = (set(re.findall(rf"^{word}\((\w+),", text, re.M)) for word in ("TC_EXAMPLE", "TC_MODEL_EXAMPLE"))
    ran = {name.split()[1] for name in names if name.startswith("example ")}
    assert len(programs) == 9 and len(models) == 4 and ran in (programs, programs | models), ran


def check_again(directory, file, rows):
    """Another call runs nothing; a row that was wrong is run again, and the later line counts; where there is no time for it, the exit status is 1."""
    done, _, again = run(directory)
    assert done.returncode == 0 and again == rows, done.stdout
    wrong = {**rows[0], "wrong": True, "date": "2000-01-01T00:00:00Z"}
    with open(file, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in [wrong, *rows[1:]])
    done, _, late = run(directory, "--seconds", "0.001")
    assert done.returncode == 1 and "WRONG" in done.stdout and len(late) >= len(rows), done.stdout
    done, _, last = run(directory)
    assert done.returncode == 0 and last[-1]["name"] == rows[0]["name"] and not last[-1]["wrong"], done.stdout


def main():
    directory = tempfile.mkdtemp()
    try:
        done, file, rows = run(directory)
        check_rows(done, rows)
        if part == "a":
            check_examples([row["name"] for row in rows])
        check_again(directory, file, rows)
        print(f"gpu-check {part}: {len(rows)} rows right on a simulated device, {rows[0]['device']}")
    finally:
        shutil.rmtree(directory)


main()
