#!/usr/bin/env python3
"""tc-prof steps finds the step of made-up sequences of syncs: a letter is a place.

steps.py PROGRAM
"""
import json
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from fixtures import small_plan  # noqa: E402
from writer import Writer  # noqa: E402


def find(program, sequences, heavy=""):
    """The threads of a profile in which each sequence is a thread's; their syncs are interleaved."""
    w = Writer()
    w.process()
    plan, at = small_plan(w, 9, 1), [0] * len(sequences)
    while any(i < len(s) for i, s in zip(at, sequences)):
        for t, s in enumerate(sequences):
            if at[t] < len(s):
                w.sync(plan, f"program.c:{ord(s[at[t]])}", "eval", thread=100 + t, run=900_000 if s[at[t]] in heavy else 50_000)
                at[t] += 1
    w.end()
    with tempfile.NamedTemporaryFile(suffix=".prof") as f:
        f.write(w.data)
        f.flush()
        out = json.loads(subprocess.run([program, "steps", "--json", f.name], capture_output=True, check=True, timeout=60).stdout)
    threads = {}
    for t in out["threads"]:
        t["letters"] = "".join(chr(int(e["site"].split(":")[1])) for e in t["expected"])
        threads[t["thread"] - 100] = t
    return threads


def main():
    program, wrong = sys.argv[1], []
    r = random.Random(5)

    def expect(name, sequence, letters, n=None, heavy="", **counts):
        t = find(program, [sequence], heavy)[0]
        said = {k: t[k] for k in counts}
        if t["letters"] != letters or (n is not None and len(t["steps"]) != n) or said != counts:
            wrong.append(f"{name}: {t['letters']!r} seen {len(t['steps'])} times, {said}; expected {letters!r} {n} {counts}")

    expect("one sync a step", "A" * 50, "A", 50, regular=50)
    expect("three syncs a step", "ABC" * 20, "ABC", 20, regular=20, before=0, after=0)
    expect("a warm-up before", "XYZXXW" + "ABC" * 20, "ABC", 20, before=6)
    expect("a long warm-up of other syncs", "".join(r.choice("QRSTUVW") for _ in range(40)) + "ABCD" * 30, "ABCD", 30, before=40, regular=30)
    expect("a warm-up with a part of the step", "BCB" + "ABC" * 20, "ABC", 20, before=3)
    expect("validation each ten steps", ("AB" * 10 + "VVVVV") * 6, "AB", 60, regular=60, between=25, after=5)
    expect("validation that is long", ("AB" * 10 + "V") * 6, "AB", 60, heavy="V")
    expect("gradient accumulation", "AAAAB" * 25, "AAAAB", 25, regular=25)
    expect("a loop within the step", ("A" * 12 + "BC") * 20, "A" * 12 + "BC", 20, regular=20)
    expect("two syncs of one place", "AAB" * 30, "AAB", 30, regular=30)
    expect("one place three times, between others", "ABACAD" * 20, "ABACAD", 20, regular=20)
    expect("no step", "".join(chr(65 + i) for i in range(50)), "", 0)
    expect("two syncs", "AB", "", 0)
    expect("three steps", "ABABAB", "AB", 3)
    irregular = "".join("A" + ("X" if r.random() < 0.15 else "") + "B" for _ in range(100))
    expect("irregular syncs within", irregular, "AB", 100, with_extra=irregular.count("X"), with_missing=0)
    often = "".join("A" + ("X" if r.random() < 0.5 else "") + "BC" for _ in range(100))
    expect("irregular syncs in half of the steps", often, "ABC", 100, with_extra=often.count("X"))
    left_out = "".join("A" + ("" if i % 17 == 5 else "B") + "C" for i in range(100))
    expect("a sync left out now and then", left_out, "ABC", 100, with_missing=6, with_extra=0)
    expect("the last step cut short", "ABC" * 20 + "AB", "ABC", 21, regular=20, with_missing=1)
    long = "".join(chr(0x400 + i) for i in range(300))
    expect("a step of 300 syncs", long * 10, long, 10, regular=10)
    threads = find(program, ["AB" * 30, "XYZ" * 25, "Q"])
    if [threads[i]["letters"] for i in range(3)] != ["AB", "XYZ", ""]:
        wrong.append(f"three threads: {[t['letters'] for t in threads.values()]}")
    print("\n".join(wrong) or "every step is found")
    return 1 if wrong else 0


sys.exit(main())
