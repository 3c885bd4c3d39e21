#!/usr/bin/env python3
"""others.py TC_PROF: trace, diff and live on profiles that are made here.
trace: JSON whose slices nest on each track, with an arrow from recording to running for each sync that ran. diff: 0 for the same run and for noise, 3 for
syncs that take 20 % longer, for a sync more in each step and for a graph of more nodes, whose places it names; lines that moved are the same place. live: the
report, until the profile has its end."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import fixtures
from writer import FAILED, Writer

TOOL = pathlib.Path(sys.argv[1]).resolve()


def tool(*words):
    done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def run_of(path, seed, slower=1.0, extra=False, nodes=40, line=60, outside=2000, threads=1):
    """Steps of an update and a read, with noise of 3 %."""
    w, noise = Writer(), random.Random(seed)
    w.process()
    step, read = fixtures.small_plan(w, nodes, 1), fixtures.small_plan(w, 3, 2)
    for i in range(200):
        w.sync(step, f"model.c:{line}", "eval", outside=int(outside * noise.uniform(1, 1.03)), new=i == 0, thread=4242 + i % threads, run=int(100_000 * slower * noise.uniform(1, 1.03)))
        w.sync(read, f"model.c:{line + 5}", "item", new=i == 0, run=int(20_000 * noise.uniform(1, 1.03)))
        if extra:
            w.sync(read, "model.c:99", "item", run=5000)
    w.end()
    return w.save(path)


def check_diff(folder):
    base = run_of(folder / "base", 1)
    cases = [("noise", dict(seed=2), 0, None), ("slower", dict(seed=3, slower=1.2), 3, "model.c:60"), ("sync", dict(seed=4, extra=True), 3, "model.c:99"),
             ("nodes", dict(seed=5, nodes=44), 3, "model.c:60"), ("moved", dict(seed=6, line=61), 0, None), ("outside", dict(seed=8, outside=60_000), 3, "model.c:60"), ("faster", dict(seed=7, slower=0.7), 0, None)]
    for name, change, status, place in cases:
        other = run_of(folder / name, **change)
        got, text = tool("diff", base, other)
        assert got == status, (name, got, text)
        assert place is None or f"worse  {place}" in text.replace("\n", " "), (name, text)
        assert ("better" in text) == (name == "faster"), (name, text)
        got, text = tool("diff", "--json", base, other)
        found = json.loads(text)
        assert got == status and found["worse"] == sum(c["worse"] for c in found["changes"]), (name, text)
    assert tool("diff", base, base)[0] == 0
    several = [run_of(folder / f"wait{outside}", 9, outside=outside, threads=4) for outside in (2000, 60_000)]  # threads wait for each other
    assert tool("diff", *several)[0] == 0


def once_of(path, lower, threads=1):
    """Places with a cold sync each, 12 that hit, and a graph that each thread lowers, since none waits for another."""
    w = Writer()
    w.process()
    for i in range(12):
        w.sync(fixtures.small_plan(w, 9 + i, 0x10 + i), f"setup.c:{i}", "eval", new=True, lower=lower)
    plans = [fixtures.small_plan(w, 40, 1) for _ in range(threads)]
    for i in range(16):
        w.sync(plans[min(i, threads - 1)], "model.c:60", "eval", new=i < threads, lower=lower if i < threads else 0, thread=100 + i % threads)
    w.end()
    return w.save(path)


def check_same_program(folder):
    """Cold syncs vary with the machine, and threads that race make plans of one graph: neither is worse."""
    base = once_of(folder / "once", 100_000)
    for name, change in (("cold", {"lower": 900_000}), ("race", {"lower": 100_000, "threads": 2})):
        got, text = tool("diff", base, once_of(folder / name, **change))
        assert got == 0, (name, got, text)
    assert "another thread was making the same graph" in tool("misses", folder / "race")[1]


def check_threads(folder):
    """As many threads as there are, however often each comes back."""
    w = Writer()
    w.process()
    plan = fixtures.small_plan(w, 40, 1)
    for i in range(2000):
        w.sync(plan, "model.c:60", "eval", thread=1000 + i % 300)
    w.end()
    text = tool("report", w.save(folder / "threads"))[1]
    assert "and 300 threads" in " ".join(text.split()), text


def check_failed(folder):
    """A sync that failed moved nothing."""
    w = Writer()
    w.process()
    plan = fixtures.small_plan(w, 40, 1)
    for i in range(10):
        w.sync(plan, "model.c:60", "eval", new=i == 0, flags=FAILED if i >= 4 else 0)
    w.end()
    site = json.loads(tool("report", "--json", w.save(folder / "failed"))[1])["sites"][0]
    assert (site["failed"], site["kernels_sum"], site["least_bytes"], site["planned"]) == (6, 4, 32, 4), site


def verdict_of(folder, sizes):
    """Of a place whose syncs have graphs of these sizes, each new at its first."""
    w = Writer()
    w.process()
    plans = {}
    for n in sizes:
        new = n not in plans
        if new:
            plans[n] = fixtures.small_plan(w, n, n)
        w.sync(plans[n], "model.c:60", "eval", new=new, thread=n)
    w.end()
    return json.loads(tool("report", "--json", w.save(folder / "grows"))[1])["sites"][0]["verdict"]


def check_growing(folder):
    """Threads in turn, each with a graph of its own, do not grow; a graph that is larger each time or now and then does."""
    assert verdict_of(folder, [10 * (1 + i // 100) for i in range(400)]) == "good"
    assert verdict_of(folder, [10 + i for i in range(40)]) == "growing"
    assert verdict_of(folder, [10 + i // 20 for i in range(400)]) == "growing"


def check_pipe(folder):
    """A pipe that nobody writes to is refused at once."""
    path = folder / "pipe"
    os.mkfifo(path)
    done = subprocess.run([TOOL, "report", path], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1 and "is no regular file" in done.stderr, done
    done = subprocess.run([TOOL, "diff", path, path], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1 and "is no regular file" in done.stderr, done


def check_trace(folder, fixture):
    path = folder / "trace.prof"
    w = getattr(fixtures, fixture)()
    path.write_bytes(w if isinstance(w, bytes) else w.data)
    out = folder / "trace.json"
    status, _ = tool("trace", "-o", out, path)
    events = json.loads(out.read_text())["traceEvents"]
    tracks, flows = {}, {"s": set(), "f": set()}
    for e in events:
        if e["ph"] == "X":
            tracks.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
        if e["ph"] in flows:
            flows[e["ph"]].add(e["id"])
    for track in tracks.values():
        open_slices = []
        for begin, end in sorted(track, key=lambda s: (s[0], -s[1])):
            while open_slices and open_slices[-1] <= begin + 1e-3:
                open_slices.pop()
            assert not open_slices or end <= open_slices[-1] + 1e-2, (fixture, begin, end)
            open_slices.append(end)
    assert flows["f"] and flows["f"] <= flows["s"], fixture
    return status


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_diff(folder)
        check_same_program(folder)
        check_threads(folder)
        check_failed(folder)
        check_growing(folder)
        check_pipe(folder)
        for fixture in ("training", "changing", "killed"):
            check_trace(folder, fixture)
        path = folder / "live.prof"
        path.write_bytes(fixtures.training().data)
        status, text = tool("live", path)
        assert status == 0 and text == tool("report", path)[1]
    print("ok")


if __name__ == "__main__":
    main()
