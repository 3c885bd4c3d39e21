#!/usr/bin/env python3
"""The tests of GPUs, for `./dev test gpu`.

gpu_tests.py --names BUILD [soak] prints the names of those that the build has, without those of the suite soak, or with them.
gpu_tests.py LOG BUILD [ROWS..] prints, from what `meson test` logged of them, what was simulated, what was compiled only, and what was run on hardware: rows of
gpu-check, or why there was none.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

from count_tests import count_tap

# What the vendors' compilers took, and what was compared with their headers: no device, real or simulated, ran it. Schedules that are run in step on the host are
# not text yet. All others ran on the simulated drivers.
COMPILED = ["device-nvrtc", "device-hiprtc", "lowering-gpu_amd_code", "lowering-gpu_attention_code", "lowering-gpu_product_code", "lowering-gpu_row_texts",
            "gpu-compiled", "gpu-compiled-amd",
            "headers-blaslt", "headers-cuda", "headers-cudnn", "headers-hip", "headers-hipblaslt", "headers-miopen",
            "headers-rocblas"]
IN_STEP = ["lowering-gpu_attention", "lowering-gpu_clusters", "lowering-gpu_product"]
SIMULATED = ["device-*", "lowering-gpu_*", "gpu-*", "simulator-*", "race-gpu*"]  # and the suite gpu


def is_any(name, patterns):
    return any(fnmatch.fnmatch(name, p) for p in patterns)


def print_names(build, soak):
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True, capture_output=True, text=True).stdout)
    for t in tests:
        suites = {s.split(":")[-1] for s in t["suite"]}
        if (soak or "soak" not in suites) and ("gpu" in suites or is_any(t["name"], COMPILED + SIMULATED)):
            print(t["name"])


def outcome(run):
    """Of one program: its line in the list."""
    out = run.get("stdout") or ""
    passed, failed, skipped, _, plan = count_tap(out)
    if plan is None:
        last = (out.strip().splitlines() or [""])[-1]
        said = "".join("\n    " + line for line in out.splitlines() if line.startswith("compiled for"))
        return {"OK": "ok" + said, "SKIP": last if last.startswith("skipped") else "skipped"}.get(run["result"], "FAILED" + said)
    text = f"{passed} ok" + (f", {failed} FAILED" if failed else "") + (f", {skipped} skipped" if skipped else "")
    why = re.search(r"# *skip\S*\s+(.*)", out, re.I)
    return text + (f": {why.group(1).strip()}" if why else "") + ("" if run["result"] in ("OK", "SKIP") or failed else ", FAILED")


def print_kind(title, runs):
    print(f"{title}: {len(runs)} programs")
    for name, run in sorted(runs.items()):
        print(f"  {name}: {outcome(run)}")


def print_hardware(build, files):
    rows = [json.loads(line) for path in files if os.path.exists(path) for line in open(path, encoding="utf-8")]
    if rows:
        print(f"run on hardware: {len(rows)} rows of gpu-check, the first part in small sizes")
        for r in rows:
            print(f"  {r['name']}: {r['device']}, {'WRONG: ' + str(r.get('note', '')) if r.get('wrong') else 'right'}")
        return
    info = subprocess.run([os.path.join(build, "tc-info")], capture_output=True, text=True).stdout
    print("run on hardware: nothing")
    for line in re.findall(r"^ *(tc:(?:cuda|hip) .*)$", info, re.M):
        print(f"  {' '.join(line.split())}")


def main():
    if sys.argv[1] == "--names":
        print_names(sys.argv[2], sys.argv[3:] == ["soak"])
        return
    simulated, in_step, compiled = {}, {}, {}
    for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
        run = json.loads(line)
        name = run["name"].split(" / ")[-1]
        (compiled if name in COMPILED else in_step if name in IN_STEP else simulated)[name] = run
    print_kind("simulated", simulated)
    print_kind("schedules run in step on the host", in_step)
    print_kind("compiled only, or compared with the vendors' headers", compiled)
    print_hardware(sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    main()
