#!/usr/bin/env python3
"""Programs that call BLAS, as they are and with tc's shim preloaded: programs.py [--case PATTERN] [--rounds N] [--json FILE]

The chains (lazy_*) are run with `--shim=lazy` instead, and not over the reference.

In: bench/programs/, the programs whose interpreters or libraries are installed (python3-numpy, r-base-core, octave, libarmadillo-dev, hpcc), and Debian's
BLAS libraries. build/tc-run and build/libtc-shim.so. Out: a row for each program and BLAS library, as bench/README.md describes; the value is the
program's own seconds with `tc-run --shim=eager`, the peer the same program without. A row of bench/floors.def that is missed makes the exit status 1.

Invariants: both ways alternate, and figures are medians. Each program prints `seconds S check C`; if the two ways' checks differ by more than rounding, the
row fails. hpcc prints the residual's verdict instead.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "bench/programs"
LIBRARIES = pathlib.Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
BLAS = {"reference": "blas", "openblas": "openblas-pthread", "blis": "blis-pthread"}
# The problem that hpcc's HPL solves: N, the width of its blocks.
HPL_N, HPL_NB = 2500, 128


def interpreter(word, file):
    return [shutil.which(word), str(PROGRAMS / file)] if shutil.which(word) else None


def compiled(folder, words, *arguments):
    """The command of a program that is compiled; None: its library or a compiler is missing. BLAS is found when it starts."""
    out = folder / "program"
    done = shutil.which(words[0]) and subprocess.run([*words, "-O2", "-o", str(out), "-lblas", "-llapack"], capture_output=True, check=False)
    return [str(out), *arguments] if done and done.returncode == 0 else None


def armadillo(folder):
    return compiled(folder, ["g++", "-DARMA_DONT_USE_WRAPPER", str(PROGRAMS / "solve.cpp")])


def chains(which):
    return lambda folder: compiled(folder, ["gcc", str(PROGRAMS / "chains.c")], which)


def hpl(folder):
    """hpcc in a folder with its input; None: it is not installed."""
    example = next(iter(pathlib.Path("/usr/share/doc/hpcc").glob("**/*hpccinf.txt*")), None)
    if not shutil.which("hpcc") or not example:
        return None
    text = subprocess.run(["zcat", "-f", example], capture_output=True, text=True, check=True).stdout
    for what, value in (("Ns", HPL_N), ("NBs", HPL_NB), ("Ps", 1), ("Qs", 1)):
        text = re.sub(rf"^\S+( .*)?(\s){what}( .*)?$", f"{value} {what}", text, flags=re.M)
    text = re.sub(r"^\d+( +# of problems sizes.*)$", r"1\1", text, flags=re.M)
    (folder / "hpccinf.txt").write_text(text)
    return ["hpcc"]


CASES = {
    "numpy_mlp": lambda folder: interpreter("/usr/bin/python3", "mlp.py"),
    "r_statistics": lambda folder: interpreter("Rscript", "statistics.R"),
    "octave_decompositions": lambda folder: interpreter("octave-cli", "decompositions.m"),
    "armadillo_solve": armadillo,
    "hpl_2500": hpl,
    "lazy_gemm_chain": chains("gemm"),
    "lazy_cg_vectors": chains("vectors"),
}


def floors():
    """(case, peer) -> (floor, goal) of bench/floors.def."""
    row = re.compile(r'^FLOOR\(programs,\s*"(\w+)",\s*0,\s*RATIO,\s*"(\w+)",\s*([\d.]+),\s*([\d.]+)\)', re.M)
    return {(m[1], m[2]): (float(m[3]), float(m[4])) for m in row.finditer((ROOT / "bench/floors.def").read_text())}


def run(command, folder, blas, threads, level):
    """(seconds, check) that the program reports; level: the shim's, None: without it."""
    found = str(LIBRARIES / BLAS[blas])
    environment = dict(os.environ, LD_LIBRARY_PATH=found, R_LD_LIBRARY_PATH=found + ":/usr/lib/R/lib", OPENBLAS_NUM_THREADS=str(threads), BLIS_NUM_THREADS=str(threads),
                       TC_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    front = [str(ROOT / "build/tc-run"), f"--shim={level}", "--"] if level else []
    results = folder / "hpccoutf.txt"
    results.unlink(missing_ok=True)
    done = subprocess.run(front + command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if results.exists():
        line = re.search(r"^HPL_Tflops=([\d.e+-]+)", results.read_text(), re.M)
        passed = "PASSED" in results.read_text() and "FAILED" not in results.read_text().split("Begin of PTRANS")[0]
        if line and passed:
            return (2 / 3 * HPL_N**3) / (float(line[1]) * 1e12), 0.0
    line = re.search(r"seconds ([\d.]+) check ([-\d.e+]+)", done.stdout)
    if done.returncode != 0 or not line:
        raise RuntimeError(f"{' '.join(front + command)} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return float(line[1]), float(line[2])


def measure(command, folder, blas, threads, rounds, level):
    """Medians of seconds without and with the shim, and whether the checks agree."""
    times, checks = ([], []), []
    for i in range(rounds):
        for shim in (False, True) if i % 2 == 0 else (True, False):
            seconds, check = run(command, folder, blas, threads, level if shim else None)
            times[shim].append(seconds)
            checks.append(check)
    return statistics.median(times[0]), statistics.median(times[1]), max(checks) - min(checks) <= 1e-3 * max(1, abs(checks[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="*", help="programs whose name is like this pattern")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each way")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of BLAS and of tc")
    parser.add_argument("--blas", default="reference,openblas", help="BLAS libraries, of " + ", ".join(BLAS))
    parser.add_argument("--json", help="appends a line a row")
    options = parser.parse_args()
    must, rows, bad = floors(), 0, 0
    for case, prepare in CASES.items():
        if not fnmatch.fnmatch(case, options.case):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            command = prepare(folder)
            if not command:
                print(f"programs       {case:22} not installed")
                continue
            for blas in options.blas.split(","):
                if not (LIBRARIES / BLAS[blas]).exists() or (case.startswith("lazy_") and blas == "reference"):
                    continue
                before, after, same = measure(command, folder, blas, options.threads, options.rounds, "lazy" if case.startswith("lazy_") else "eager")
                floor, goal = must.get((case, blas), (None, None))
                missed = not same or (floor is not None and before / after < floor)
                rows, bad = rows + 1, bad + missed
                print(f"programs       {case:22} {options.threads}  {after:8.3f} s  {blas:9} {before:8.3f} s  {before / after:6.2f}x"
                      f"  {'' if same else 'OTHER RESULTS '}{'' if floor is None else f'>= {floor:g} (goal {goal:g})'}{' MISSED' if missed else ''}",
                      flush=True)
                if options.json:
                    row = {"bench": "programs", "case": case, "threads": options.threads, "value": after, "unit": "s", "roof": None, "of_roof": None,
                           "peers": {blas: before}, "best_peer": blas, "ratio": round(before / after, 4),
                           "floor": {} if floor is None else {"ratio": floor}, "goal": {} if floor is None else {"ratio": goal}}
                    with open(options.json, "a", encoding="utf-8") as out:
                        out.write(json.dumps(row) + "\n")
    print(f"{rows} rows, {bad} below a floor or with other results")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
