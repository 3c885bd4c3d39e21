#!/usr/bin/env python3
"""tc-prof reads what the library writes: a program that runs to its end, and one that is killed.

real.py PROGRAM EXAMPLE      EXAMPLE: examples/mlp_regression
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from schema import problems  # noqa: E402

PARTS = ["lookup", "lower", "compile", "allocate", "launch", "run", "wait", "publish", "unaccounted"]
STEPS = 500


def ask(program, *words):
    done = subprocess.run([program, words[0], "--json", *words[1:]], capture_output=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, (words, done.returncode, done.stderr)
    out = json.loads(done.stdout)
    wrong = list(problems(out))
    assert not wrong, (words, wrong)
    return out


def look_at(program, path, n):
    for command in ("steps", "misses", "fusion", "memory", "compile"):
        ask(program, command, path)
    for i in (1, n // 2, n):
        s = ask(program, "sync", str(i), path)
        assert s["sequence"] == i and s["plan"]["graph"], i
        assert len(s["plan"]["kernels"]) > 0
    report = ask(program, "report", path)
    for place in [report["all"], *report["sites"]]:
        told, total = sum(place["ns"][p] for p in PARTS), place["ns"]["total"]
        assert abs(told - total) <= 0.02 * total + 1000, (place.get("site"), told, total)
        assert sum(place["sizes"]) == place["planned"]
    assert sum(place["syncs"] for place in report["sites"]) == report["all"]["syncs"]
    return report


def main():
    program, example = os.path.abspath(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "whole.prof")
        env = {**os.environ, "TC_PROFILE": path, "TC_PROFILE_KERNELS": "1"}
        subprocess.run([example], env=env, check=True, stdout=subprocess.DEVNULL, timeout=100)
        report = look_at(program, path, STEPS + 1)
        assert report["note"] == "" and report["all"]["syncs"] == STEPS + 1, report["all"]
        loop = ask(program, "steps", path)["threads"][0]
        assert len(loop["steps"]) == STEPS and len(loop["expected"]) == 1, loop["expected"]
        assert any("mlp_regression.c:" in place["site"] for place in report["sites"])
        timed = ask(program, "sync", str(STEPS), path)["plan"]["kernels"]
        assert all(k["ns"] > 0 for k in timed), timed
        path = os.path.join(folder, "killed.prof")
        child = subprocess.Popen([example], env={**env, "TC_PROFILE": path}, stdout=subprocess.DEVNULL)
        seen, end = 0, time.monotonic() + 60
        while seen < 20 and time.monotonic() < end and child.poll() is None:
            done = subprocess.run([program, "report", "--json", path], capture_output=True)
            seen = json.loads(done.stdout)["all"]["syncs"] if done.returncode == 0 else 0
        child.send_signal(signal.SIGKILL)
        if child.wait() == -signal.SIGKILL:
            report = ask(program, "report", path)
            assert seen <= report["all"]["syncs"] <= STEPS + 1 and "killed" in report["note"], report["note"]
            look_at(program, path, report["all"]["syncs"])
    print(f"{STEPS + 1} syncs, and {report['all']['syncs']} before the kill")
    return 0


sys.exit(main())
