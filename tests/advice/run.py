#!/usr/bin/env python3
"""Each advice of tc-prof speaks of a program with the fault, at its line, and is silent about the mended twin, which does less.

run.py TC_PROF FOLDER PROGRAM ..    FOLDER has the sources; PROGRAM ends in -NAME, and `PROGRAM mended` is the twin

The name of a source is the rule's, or the rule's and a word: changing_shape.c is of changing. Its lines with FAULT are what the advice may name, those
with VALUE OP what its evidence must. What the twin does less of is counted (WORK), so that a busy machine changes nothing; by how much it is faster
(tc-prof's wall_ns) is printed. Both are of the shortest of RUNS runs, which are taken in turns; where the machine is busy, and advice that looks at times
is not as it should be, of more.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RUNS = 4
MOST_RUNS = 12  # where the machine is busy
LEFT = 0.75  # of what the fault makes the program do, the twin does at most this share
# What a fault of each rule makes a program do more of, as in report --json.
WORK = {"growing": "nodes_sum", "changing": "new graphs", "recompute": "nodes_sum", "unused": "bytes", "scalar-read": "syncs", "early-sync": "syncs", "tiny": "syncs",
        "held": "held_bytes", "reference": "kernels_sum", "cut": "bytes", "cold-start": "new graphs", "outside": "bytes"}


def run(tc_prof, program, words, folder):
    """The report of one run."""
    profile, env = os.path.join(folder, "run.prof"), {k: v for k, v in os.environ.items() if k not in ("TC_PROFILE", "TC_DEVICE")}
    subprocess.run([program, *words], env={**env, "TC_PROFILE": profile, "TC_CACHE_DIR": os.path.join(folder, "cache")}, check=True, timeout=60)
    done = subprocess.run([tc_prof, "report", "--json", profile], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def faults(source):
    return [i for i, line in enumerate(source.read_text().split("\n"), 1) if "FAULT" in line]


def values(source):
    """What the advice calls the value of a line with VALUE and its op."""
    return [(f"the {line.split('VALUE ')[1].strip()} of ", f"{source.name}:{i}") for i, line in enumerate(source.read_text().split("\n"), 1) if "VALUE " in line]


def work(rule, report):
    everything = report["all"]
    return everything["misses"]["new"] if WORK[rule] == "new graphs" else everything[WORK[rule]]


def judge(name, rule, places, named, best):
    """What is wrong with the least disturbed runs of a program and of its twin."""
    wrong = []
    found = {kind: [a for a in report["advice"] if a["rule"] == rule] for kind, report in best.items()}
    sites = [os.path.basename(a["site"]) for a in found["fault"]]
    if not sites or any(s not in places for s in sites):
        wrong.append(f"{name}: {rule} speaks of {sites}, expected {places}; said: {best['fault']['advice']}")
    if not all(s in a["evidence"] and a["fix"].endswith(".") for s, a in zip(sites, found["fault"])):
        wrong.append(f"{name}: the evidence does not name its place, or the fix is no sentence: {found['fault']}")
    if any(part not in a["evidence"] for a in found["fault"] for value in named for part in value):
        wrong.append(f"{name}: the evidence does not name {named}: {found['fault']}")
    if found["mended"]:
        wrong.append(f"{name} mended: {found['mended']}")
    done = {kind: work(rule, report) for kind, report in best.items()}
    if not 0 <= done["mended"] <= done["fault"] * LEFT or done["fault"] <= 0:
        wrong.append(f"{name}: {WORK[rule]} of the mended twin and of the other: {done}")
    return wrong


def check(tc_prof, program, sources, folder):
    """The rule of a program, what is wrong with its advice, and a line about its times."""
    name = os.path.basename(program).split("-", 1)[1]
    rule = next(r for r in WORK if name.startswith(r.replace("-", "_")))
    places = [f"{name}.c:{line}" for line in faults(sources / f"{name}.c")]
    wrong, best = [], {}
    for turn in range(MOST_RUNS):
        for kind, words in (("fault", []), ("mended", ["mended"])):
            report = run(tc_prof, program, words, folder)
            if kind not in best or report["wall_ns"] < best[kind]["wall_ns"]:
                best[kind] = report
        wrong = judge(name, rule, places, values(sources / f"{name}.c"), best)
        if turn + 1 >= RUNS and not wrong:
            break
    fault, mended = (best[kind]["wall_ns"] / 1e6 for kind in ("fault", "mended"))
    counts = f"{WORK[rule]} {work(rule, best['fault']):.0f}, mended {work(rule, best['mended']):.0f}"
    return rule, wrong, f"{name:20} {counts}; {fault:.2f} ms, mended {mended:.2f} ms: {fault / mended:.2f} times as fast"


def main():
    tc_prof, sources, programs = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    wrong, seen = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            rule, more, line = check(tc_prof, program, sources, folder)
            seen.add(rule)
            wrong += more
            print(line, flush=True)
    wrong += [f"no program shows {rule}" for rule in WORK if rule not in seen]
    print("\n".join(wrong) or f"{len(seen)} advices speak and fall silent as they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
