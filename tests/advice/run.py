#!/usr/bin/env python3
"""Each advice of tc-prof speaks of a program with the fault, at its line, and is silent about the mended twin, which is faster.

run.py TC_PROF FOLDER PROGRAM ..    FOLDER has the sources; PROGRAM ends in -NAME, and `PROGRAM mended` is the twin

The name of a source is the rule's, or the rule's and a word: changing_shape.c is of changing. Its lines with FAULT are what the advice may name. Advice
and time (tc-prof's wall_ns) are those of the shortest of RUNS runs, which are taken in turns, and of more where the machine is busy; a twin fails only if
it is slower beyond noise.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

RUNS = 4
MOST_RUNS = 12  # where the machine is busy
NOISE = 1.2  # the least of so many runs varies so much
RULES = ["growing", "changing", "recompute", "unused", "scalar-read", "early-sync", "tiny", "held", "reference", "cut", "cold-start", "outside"]


def run(tc_prof, program, words, folder):
    """The report of one run."""
    profile, env = os.path.join(folder, "run.prof"), {k: v for k, v in os.environ.items() if k not in ("TC_PROFILE", "TC_DEVICE")}
    subprocess.run([program, *words], env={**env, "TC_PROFILE": profile, "TC_CACHE_DIR": os.path.join(folder, "cache")}, check=True, timeout=60)
    done = subprocess.run([tc_prof, "report", "--json", profile], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def faults(source):
    return [i for i, line in enumerate(source.read_text().split("\n"), 1) if "FAULT" in line]


def judge(name, rule, places, best):
    """What is wrong with the least disturbed runs of a program and of its twin."""
    wrong = []
    found = {kind: [a for a in report["advice"] if a["rule"] == rule] for kind, report in best.items()}
    sites = [os.path.basename(a["site"]) for a in found["fault"]]
    if not sites or any(s not in places for s in sites):
        wrong.append(f"{name}: {rule} speaks of {sites}, expected {places}; said: {best['fault']['advice']}")
    if not all(s in a["evidence"] and a["fix"].endswith(".") for s, a in zip(sites, found["fault"])):
        wrong.append(f"{name}: the evidence does not name its place, or the fix is no sentence: {found['fault']}")
    if found["mended"]:
        wrong.append(f"{name} mended: {found['mended']}")
    if best["mended"]["wall_ns"] > best["fault"]["wall_ns"] * NOISE:
        wrong.append(f"{name}: the mended twin takes {best['mended']['wall_ns']} ns, the other {best['fault']['wall_ns']}")
    return wrong


def check(tc_prof, program, sources, folder):
    """The rule of a program, what is wrong with its advice, and a line about its times."""
    name = os.path.basename(program).split("-", 1)[1]
    rule = next(r for r in RULES if name.startswith(r.replace("-", "_")))
    places = [f"{name}.c:{line}" for line in faults(sources / f"{name}.c")]
    wrong, best = [], {}
    for turn in range(MOST_RUNS):
        for kind, words in (("fault", []), ("mended", ["mended"])):
            report = run(tc_prof, program, words, folder)
            if kind not in best or report["wall_ns"] < best[kind]["wall_ns"]:
                best[kind] = report
        wrong = judge(name, rule, places, best)
        if turn + 1 >= RUNS and not wrong:
            break
    fault, mended = (best[kind]["wall_ns"] / 1e6 for kind in ("fault", "mended"))
    return rule, wrong, f"{name:20} {fault:8.2f} ms, mended {mended:8.2f} ms: {fault / mended:.2f} times as fast"


def main():
    tc_prof, sources, programs = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    wrong, seen = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            rule, more, line = check(tc_prof, program, sources, folder)
            seen.add(rule)
            wrong += more
            print(line, flush=True)
    wrong += [f"no program shows {rule}" for rule in RULES if rule not in seen]
    print("\n".join(wrong) or f"{len(seen)} advices speak and fall silent as they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
