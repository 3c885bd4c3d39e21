#!/usr/bin/env python3
"""Programs of others at TC_SHIM=eager with the library itself, over every BLAS that is here: netlib's testers of BLAS and LAPACK, HPL, and the own tests of
NumPy, SciPy, Octave, R, Armadillo, scikit-learn and of wheels from PyPI. Some minutes: `./dev soak` runs it.

soak.py BUILD [--only PATTERN] [--wheels DIR].. [--torch]
BUILD has tc-run, libtc-shim.so and libtc.so; a DIR is a virtual environment that holds wheels of NumPy and SciPy.

Out: a line for each program and library: passed, failed or absent, and why. The exit status is 1 if any failed; 77 if all are absent.
Always: each program runs in a process group with a time limit. What fails without the shim, too, is no failure. A program passes only if libtc did calls of it.
"""
import argparse
import collections
import fnmatch
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from common import PROVIDERS, ROOT
from testers import LIBRARIES, testers, without_digits

SCRIPTS = pathlib.Path(__file__).resolve().parent / "soak"
PYTHON = "/usr/bin/python3"
LEVEL_3 = ("gemm", "symm", "syrk", "syr2k", "trmm", "trsm")
HPL_N = 2000
# Netlib's, whose calls of BLAS the shim sees; OpenBLAS and ATLAS have a LAPACK of their own beside their BLAS.
LAPACK = sorted({os.path.dirname(path) for path in glob.glob("/usr/lib/*/lapack/liblapack.so.3")})
SCIPY = ("test_basic", "test_blas", "test_cython_blas", "test_decomp", "test_decomp_cholesky", "test_lapack", "test_matfuncs", "test_solvers")
Done = collections.namedtuple("Done", "code text err direct")


class Absent(Exception):
    """A program is not here: its package, or why it does not run."""


def bench_programs():
    """bench/programs.py, which knows how HPL and Armadillo's program are started."""
    spec = importlib.util.spec_from_file_location("bench_programs", ROOT / "bench/programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HPL_N = HPL_N
    return module


class Runner:
    """Runs programs in a folder of their own, with the shim or without."""

    def __init__(self, build, options):
        self.tc_run = str(pathlib.Path(build).resolve() / "tc-run")
        self.options = options
        self.folder = pathlib.Path(tempfile.mkdtemp())

    def run(self, command, shim, blas=None, stdin=os.devnull, limit=300, preload=()):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TC_", "LD_", "PYTHON"))}
        environment.update(OPENBLAS_NUM_THREADS="1", BLIS_NUM_THREADS="1", TC_SHIM_MIN="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if blas:
            environment["LD_LIBRARY_PATH"] = ":".join([LIBRARIES[blas], *LAPACK])
        if preload:
            environment["LD_PRELOAD"] = ":".join(map(str, preload))
        profile = self.folder / "profile.json"
        front = [self.tc_run, "--shim=eager", "--profile", str(profile), "--"] if shim else []
        with open(stdin, encoding="utf-8") as source, open(self.folder / "out", "w+b") as out, open(self.folder / "err", "w+b") as err:
            child = subprocess.Popen(front + list(map(str, command)), env=environment, cwd=self.folder, stdin=source, stdout=out, stderr=err, start_new_session=True)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                code = f"more than {limit} s"
            texts = [file.seek(0) or file.read().decode(errors="replace") for file in (out, err)]
        direct = collections.Counter()
        if shim and profile.exists():
            for line in map(json.loads, profile.read_text().splitlines()):
                if line["kind"] == "site":
                    direct[line["name"]] += line["direct"]
        return Done(code, *texts, +direct)

    def close(self):
        shutil.rmtree(self.folder)


def need(package, *commands):
    for command in commands:
        if not shutil.which(command):
            raise Absent(f"{package} is not installed: there is no {command}")


def need_modules(python, **packages):
    for module, package in packages.items():
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            raise Absent(f"{package} is not installed: {python} has no {module}")


def end_of(done):
    return f"ended with {done.code}: {' '.join((done.err.strip() or done.text.strip())[-300:].split())}"


def missing(done, names):
    """Why not, if libtc did no call of one of these."""
    lacking = [name for name in names if not done.direct[name]]
    return f"libtc did no {', '.join(lacking)}" if lacking else None


def routines(path):
    """The names that a tester of level 3 calls, as a profile has them; none of complex values."""
    name = os.path.basename(path)
    letter = name[1] if "cblat" in name else name[-1]
    spelling = "cblas_*" if "cblat" in name else "*_"
    return [spelling.replace("*", letter + r) for r in LEVEL_3] if letter in "sd" else []


def blas_testers(runner, blas):
    source = runner.folder / "data.c"
    source.write_text("int RowMajorStrg, CBLAS_CallFromC;\n")  # of the reference's CBLAS, which its testers want
    data = runner.folder / "libdata.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", data], check=True)
    folder = LIBRARIES[blas] if blas not in PROVIDERS else PROVIDERS["reference"]
    found = [t for t in testers(folder) if "3" in os.path.basename(t[0])]
    if not found:
        raise Absent(f"{'libblas-test' if blas in PROVIDERS else 'libblas64-test'} is not installed: there is no x?blat3 in {folder}")
    problems, n_run = [], 0
    for path, stdin, output in found:
        said = []
        for shim in (False, True):
            done = runner.run([path], shim, blas, stdin, preload=[] if blas.startswith("reference") else [data])
            text = done.text
            if output and (runner.folder / output).exists():
                text += (runner.folder / output).read_text(errors="replace")
                (runner.folder / output).unlink()
            said.append(without_digits(text))
            if not shim and done.code != 0:
                break
        if len(said) == 1:
            continue  # it does not start over this library
        n_run += 1
        why = end_of(done) if done.code != 0 else "other lines than without the shim" if said[0] != said[1] or not said[1] else missing(done, routines(path))
        problems += [f"{os.path.basename(path)} {why}"] if why else []
    if not n_run:
        raise Absent("no tester starts over this library without the shim")
    return "; ".join(problems)


def lapack_failures(text):
    return sum(int(n) for n in re.findall(r"(\d+) out of +\d+ tests failed", text)) + len(re.findall(r"\*\*\*.*(?:[Ee]rror|[Ff]ail)", text))


def lapack_testers(runner, blas):
    folder = next(pathlib.Path("/usr/lib").glob("*/lapack/xlintstd"), None)
    if not folder:
        raise Absent("liblapack-test is not installed: there is no xlintstd")
    problems = []
    for letter in "sd":
        command, stdin = [folder.parent / f"xlintst{letter}"], folder.parent / f"{letter}test.in"
        done = runner.run(command, True, blas, stdin)
        passed = len(re.findall("passed the threshold", done.text))
        why = end_of(done) if done.code != 0 else "tested nothing" if not passed else missing(done, [letter + r + "_" for r in ("gemm", "trsm", "trmm", "syrk")])
        if not why and lapack_failures(done.text):
            plain = runner.run(command, False, blas, stdin)
            if lapack_failures(done.text) > lapack_failures(plain.text):
                why = f"{lapack_failures(done.text)} failures instead of {lapack_failures(plain.text)}"
        problems += [f"xlintst{letter} {why}"] if why else []
    return "; ".join(problems)


def hpl(runner, blas):
    command = bench_programs().hpl(runner.folder)
    if not command:
        raise Absent("hpcc is not installed: there is no hpcc, or no example of its input")
    results = runner.folder / "hpccoutf.txt"
    done = runner.run(command, True, blas)
    text = results.read_text() if results.exists() else ""
    if done.code != 0 or "End of HPC Challenge" not in text:
        return end_of(done)
    failed = re.findall(r".*FAILED.*", text)
    return failed[0] if failed or "PASSED" not in text else missing(done, ["cblas_dgemm", "cblas_dtrsm"])


def failing_tests(done):
    return set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.text, re.M))


def pytest(runner, blas, words, names):
    """The tests fail that fail without the shim, and no others."""
    command = [PYTHON, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-W", "ignore", "-m", "not slow", "--pyargs", *words]
    done = runner.run(command, True, blas, limit=600)
    if not re.search(r"^\d+ failed|\d+ passed", done.text, re.M) or done.code not in (0, 1):
        return end_of(done)
    fresh = failing_tests(done)
    if done.code:
        fresh -= failing_tests(runner.run(command, False, blas, limit=600))
    return f"{len(fresh)} tests fail that pass without the shim: {' '.join(sorted(fresh)[:3])}" if fresh else missing(done, names)


def numpy(runner, blas):
    need_modules(PYTHON, numpy="python3-numpy", pytest="python3-pytest", hypothesis="python3-hypothesis")
    why = pytest(runner, blas, ["numpy.linalg.tests"], ["cblas_dgemm"])
    return why or pytest(runner, blas, ["numpy.core.tests.test_multiarray", "-k", "dot or matmul or Dot or MatMul"], ["cblas_dgemm", "cblas_dsyrk"])


def scipy(runner, blas):
    need_modules(PYTHON, scipy="python3-scipy", pytest="python3-pytest")
    return pytest(runner, blas, [f"scipy.linalg.tests.{name}" for name in SCIPY], ["dgemm_", "dtrsm_"])


def counted_tests(text):
    """name -> (passed, all) of the lines that octave.m prints."""
    return {name: (int(passed), int(n)) for name, passed, n in re.findall(r"^(\S+) (\d+) of (\d+)$", text, re.M)}


def octave(runner, blas):
    need("octave", "octave-cli")
    command = ["octave-cli", "--no-history", "--norc", SCRIPTS / "octave.m"]
    done = runner.run(command, True, blas)
    counts = counted_tests(done.text)
    if done.code != 0 or sum(n for _, n in counts.values()) < 100:
        return end_of(done)
    failed = {name for name, (passed, n) in counts.items() if passed < n}
    if failed:
        plain = counted_tests(runner.run(command, False, blas).text)
        failed = {name for name in failed if counts[name][0] < plain.get(name, (0, 0))[0]}
    return f"fewer tests pass of {' '.join(sorted(failed))}" if failed else missing(done, ["dgemm_", "dtrsm_"])


def r(runner, blas):
    need("r-base-core", "Rscript")
    done = runner.run(["Rscript", "--vanilla", SCRIPTS / "products.R"], True, blas)
    return missing(done, ["dgemm_", "dsyrk_", "dtrsm_"]) if done.code == 0 and "all as documented" in done.text else end_of(done)


def numbers(done):
    return [float(word) for word in re.findall(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", re.sub(r"seconds \S+", "", done.text))]


def same_numbers(runner, command, blas, names):
    plain, done = (runner.run(command, shim, blas) for shim in (False, True))
    if plain.code != 0:
        raise Absent(f"does not run without the shim: {end_of(plain)}")
    before, after = numbers(plain), numbers(done)
    if done.code != 0 or len(before) != len(after) or not before:
        return end_of(done)
    off = [f"{b:g} instead of {a:g}" for a, b in zip(before, after) if not abs(a - b) <= 1e-6 * max(1, abs(a))]
    return "; ".join(off) or missing(done, names)


def armadillo(runner, blas):
    command = bench_programs().armadillo(runner.folder)
    if not command:
        raise Absent("libarmadillo-dev or g++ is not installed: bench/programs/solve.cpp does not compile")
    return same_numbers(runner, command, blas, ["dgemm_", "dsyrk_"])


def sklearn(runner, blas):
    need_modules(PYTHON, sklearn="python3-sklearn")
    return same_numbers(runner, [PYTHON, SCRIPTS / "learn.py"], blas, ["dgemm_"])


def wheels(runner, folder):
    """NumPy with integers of 64 bits and SciPy with those of 32 in one process."""
    python = pathlib.Path(folder) / "bin/python"
    need_modules(str(python), numpy="the wheel of numpy", scipy="the wheel of scipy")
    done = runner.run([python, SCRIPTS / "wheels.py", *(["torch"] if runner.options.torch else [])], True)
    if done.code != 0 or "right" not in done.text:
        return end_of(done)
    of_64 = [name for name in done.direct if "gemm" in name and "64_" in name]
    of_32 = [name for name in done.direct if "gemm" in name and "64_" not in name]
    return None if of_64 and of_32 else f"libtc did {dict(done.direct)}"


CASES = {"blas": blas_testers, "lapack": lapack_testers, "hpl": hpl, "numpy": numpy, "scipy": scipy, "octave": octave, "r": r, "armadillo": armadillo, "sklearn": sklearn}


def jobs(options):
    for name, case in CASES.items():
        for blas in LIBRARIES if name == "blas" else PROVIDERS:
            yield name, blas, case
    for folder in options.wheels or ["none"]:
        yield "wheels", folder, wheels


def row(name, over, case, options):
    runner = Runner(options.build, options)
    try:
        why = case(runner, over)
        verdict = "failed" if why else "passed"
    except Absent as absent:
        why, verdict = str(absent), "absent"
    finally:
        runner.close()
    what = pathlib.Path(over).name
    print(f"{name:10} {what:16} {verdict:7} {why or ''}".rstrip(), flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="the directory that has tc-run")
    parser.add_argument("--only", default="*", help="programs whose name, or name:library, is like this pattern")
    parser.add_argument("--wheels", action="append", metavar="DIR", help="a virtual environment with NumPy and SciPy of PyPI")
    parser.add_argument("--torch", action="store_true", help="PyTorch, too, in the environments of wheels")
    options = parser.parse_args()
    if "reference" not in PROVIDERS:
        print("libblas3 is not installed: there is no BLAS to compare with")
        return 77
    counts = collections.Counter(row(name, over, case, options) for name, over, case in jobs(options)
                                 if fnmatch.fnmatch(name, options.only) or fnmatch.fnmatch(f"{name}:{over}", options.only))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['absent']} absent")
    return 1 if counts["failed"] else 0 if counts["passed"] else 77


if __name__ == "__main__":
    sys.exit(main())
