#!/usr/bin/env python3
"""Programs of others with the library itself, at TC_SHIM=eager unless another level is named, over every BLAS that is here: netlib's testers of BLAS and LAPACK, HPL, and the own tests of
NumPy, SciPy, Octave, R, Armadillo, scikit-learn and of wheels from PyPI. Some minutes: `./dev soak` runs it.

soak.py BUILD [--only PATTERN] [--wheels DIR].. [--known] [--level LEVEL]
BUILD has tc-run, libtc-shim.so and libtc.so; a DIR is a virtual environment that holds wheels of NumPy and SciPy, perhaps of PyTorch.

Out: a line for each program and library: passed, failed or absent; tests, those that fail without the shim and with it; calls of BLAS, those that libtc did;
and why. The exit status is 1 if any failed; 77 if all are absent.
Invariants: each program runs with and without the shim, in a process group with a time limit. What fails without the shim, too, is no failure. A program passes
only if it has tests, the profile has calls, and libtc did those that are named: at trace none, at off nothing is counted.
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
PRODUCTS = "dot or matmul or Dot or MatMul"
SKLEARN = ("cross_decomposition", "decomposition", "gaussian_process", "linear_model")
# Of liblapack-test: the inputs of the testers of eigenvalues and singular values, X for the type's letter.
EIGEN = ("nep", "sep", "se2", "svd", "Xec", "Xed", "Xgg", "Xgd", "Xsb", "Xsg", "Xbb", "glm", "gqr", "gsv", "csd", "lse")
# What fails with the shim alone, and is no fault of tc's: a pattern of the test's name, and why.
KNOWN = {
    r"Failure in STFSM.*M= 50, N = 50, test= +[34]\d\.": "a forward error of an ill-conditioned matrix, by two orders of sums: without the shim 28 in BLIS, "
                                                        "39 in OpenBLAS, with it 30 to 43. The backward error is no larger than the reference's",
    r"^lscov 0$": "a product by one column is BLIS's gemv, by two tc's gemm: sums of 6 in two orders, 5.0e-16 apart, where Octave allows 4.4e-16",
}
# Debian's pytest in environments that have none: behind their own modules.
PYTEST = "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
BY_LIBTC = ("eager", "writeback", "lazy")  # levels at which it does calls
Done = collections.namedtuple("Done", "code text err direct")


class Absent(Exception):
    """A program is not here: its package, or why it does not run."""


def bench_programs():
    """bench/programs.py, which knows how HPL is started."""
    spec = importlib.util.spec_from_file_location("bench_programs", ROOT / "bench/programs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HPL_N = HPL_N
    return module


def shortened(name):
    """Without what tells like tests apart: numbers, and characters in quotes."""
    return " ".join(re.sub(r"[\d., =]+|'\w'", " ", name).split()) if " " in name else name


class Runner:
    """Runs programs in a folder of their own, with the shim or without, and adds up what they tested and what the profiles have."""

    def __init__(self, build, options):
        self.build = pathlib.Path(build).resolve()
        self.tc_run = str(self.build / "tc-run")
        self.options = options
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.tests = self.failed_without = self.failed_with = self.calls = self.direct = 0
        self.versions = []
        self.known = collections.Counter()  # what fails, and is no fault of tc's

    def run(self, command, shim, blas=None, stdin=os.devnull, limit=900, preload=(), lapack=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("TC_", "LD_", "PYTHON"))}
        environment.update(OPENBLAS_NUM_THREADS="1", BLIS_NUM_THREADS="1", TC_SHIM_MIN="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if self.options.level == "writeback":
            sims = {name: str(self.build / f"libsim-{name.lower()}.so") for name in ("CUDA", "NVRTC")}
            environment.update((f"TC_{name}_LIBRARY", path) for name, path in sims.items() if os.path.exists(path))
        if blas:
            found = ":".join(folder for folder in (lapack, LIBRARIES[blas], *LAPACK) if folder)
            environment.update(LD_LIBRARY_PATH=found, R_LD_LIBRARY_PATH=found + ":/usr/lib/R/lib")
        if preload:
            environment["LD_PRELOAD"] = ":".join(map(str, preload))
        profile = self.folder / "profile.json"
        profile.unlink(missing_ok=True)
        profiled = ["--profile", str(profile)] if self.options.level != "off" else []
        front = [self.tc_run, f"--shim={self.options.level}", *profiled, "--"] if shim else []
        with open(stdin, encoding="utf-8") as source, open(self.folder / "out", "w+b") as out, open(self.folder / "err", "w+b") as err:
            child = subprocess.Popen([*front, *map(str, command)], env=environment, cwd=self.folder, stdin=source, stdout=out, stderr=err,
                                     start_new_session=True)
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
                    self.calls += line["calls"]
                    self.direct += line["direct"]
        return Done(code, *texts, +direct if self.options.level in BY_LIBTC else None)

    def both(self, command, blas, **more):
        """Without the shim, and with it."""
        return self.run(command, False, blas, **more), self.run(command, True, blas, **more)

    def tested(self, n, failed_without, failed_with):
        """Adds tests and the names of what failed, or name -> what is said of it. What fails with the shim alone, sorted, but for what is known."""
        said = failed_with if isinstance(failed_with, dict) else {}
        fresh = {said.get(name, name) for name in collections.Counter(list(failed_with)) - collections.Counter(list(failed_without))}
        reasons = {name: why for name in fresh for pattern, why in KNOWN.items() if re.search(pattern, name)}
        self.tests += n
        self.failed_without += len(failed_without)
        self.failed_with += len(failed_with)
        self.known.update(f"{shortened(name)} without the shim, too" for name in failed_without)
        self.known.update(f"{shortened(name)}: {why}" for name, why in reasons.items())
        return sorted(fresh - reasons.keys())

    def close(self):
        shutil.rmtree(self.folder)


def need(package, *commands):
    for command in commands:
        if not shutil.which(command):
            raise Absent(f"{package} is not installed: there is no {command}")


def need_modules(python, prelude="", **packages):
    for module, package in packages.items():
        if subprocess.run([python, "-c", f"{prelude}import {module}"], capture_output=True, check=False).returncode != 0:
            raise Absent(f"{package} is not installed: {python} has no {module}")


def end_of(done):
    return f"ended with {done.code}: {' '.join((done.err.strip() or done.text.strip())[-300:].split())}"


def need_plain(done):
    if done.code != 0:
        raise Absent(f"does not run without the shim: {end_of(done)}")


def missing(done, names):
    """Why not, if libtc did no call of a routine that has one of these in its name, at a level where it does some."""
    if done.direct is None:
        return ""
    lacking = [name for name in names if not any(name in of_profile for of_profile in done.direct)]
    return f"libtc did no {', '.join(lacking)}" if lacking else ""


def only_with(names):
    return f"{len(names)} fail that pass without the shim: {'; '.join(names[:5])}" if names else ""


def routines(path):
    """The names that a tester of level 3 calls, as a profile has them; none of complex values."""
    name = os.path.basename(path)
    letter, level = (name[1], name[-1]) if "cblat" in name else (name[-1], name[-2])
    spelling = "cblas_*" if "cblat" in name else "*_"
    return [spelling.replace("*", letter + r) for r in LEVEL_3] if letter in "sd" and level == "3" else []


def blas_testers(runner, blas):
    source = runner.folder / "data.c"
    source.write_text("int RowMajorStrg, CBLAS_CallFromC;\n")  # of the reference's CBLAS, which its testers want
    data = runner.folder / "libdata.so"
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", data], check=True)
    folder = LIBRARIES[blas] if blas not in PROVIDERS else PROVIDERS["reference"]
    found = list(testers(folder))
    if not found:
        raise Absent(f"{'libblas-test' if blas in PROVIDERS else 'libblas64-test'} is not installed: there is no x?blat3 in {folder}")
    problems = []
    for path, stdin, output in found:
        lines = []
        for shim in (False, True):
            done = runner.run([path], shim, blas, stdin or os.devnull, preload=[] if blas.startswith("reference") else [data])
            text = done.text
            if output and (runner.folder / output).exists():
                text += (runner.folder / output).read_text(errors="replace")
                (runner.folder / output).unlink()
            lines.append(without_digits(text))
            if not shim and done.code != 0:
                break
        if len(lines) == 1:
            continue  # it does not start over this library
        failed = [[line for line in said if "PASS" not in line] for said in lines]
        fresh = runner.tested(len(lines[1]), *failed)
        why = end_of(done) if done.code != 0 else only_with(fresh) or missing(done, routines(path))
        if not why and (len(lines[0]) != len(lines[1]) or not lines[1]):
            why = f"{len(lines[1])} verdicts instead of {len(lines[0])}"
        problems += [f"{os.path.basename(path)} {why}"] if why else []
    if not runner.tests:
        raise Absent("no tester starts over this library without the shim")
    return "; ".join(problems)


def lapack_failures(text):
    """What did not pass a threshold -> the line with its ratio; and what is said of errors."""
    ratios = re.findall(r"^.*(?:test|result)[ (\d)]*(?:=|is) *\S+ *$", text, re.M)
    errors = re.findall(r"^(?!.*Error\(s\) or Failure\(s\)).*(?:\*\*\*|Error in|[Ii]llegal).*$", text, re.M)
    return {re.sub(r"(=|is) *\S+ *$", "", line): line.strip() for line in ratios + errors}


def lapack_runs(place):
    """(tester, input) of each."""
    for letter in "sdcz":
        yield place / f"xlintst{letter}", place / f"{letter}test.in"
        yield place / f"xlintstrf{letter}", place / f"{letter}test_rfp.in"
        for name in EIGEN:
            yield place / f"xeigtst{letter}", place / f"{name.replace('X', letter)}.in"
    yield from ((place / f"xlintst{two}", place / f"{two}test.in") for two in ("ds", "zc"))


def lapack_testers(runner, blas):
    place = next(pathlib.Path("/usr/lib").glob("*/lapack/xlintstd"), None)
    if not place:
        raise Absent("liblapack-test is not installed: there is no xlintstd")
    problems = []
    for tester, stdin in lapack_runs(place.parent):
        plain, done = runner.both([tester], blas, stdin=stdin, lapack=LAPACK[0])
        before, after = (sum(map(int, re.findall(r"(\d+) tests", each.text))) for each in (plain, done))
        fresh = runner.tested(after, lapack_failures(plain.text), lapack_failures(done.text))
        why = end_of(done) if done.code != plain.code else only_with(fresh) or (f"{after} tests instead of {before}" if after != before else "")
        problems += [f"{tester.name} {stdin.name} {why}"] if why else []
    return "; ".join(problems)


def hpl(runner, blas):
    command = bench_programs().hpl(runner.folder)
    if not command:
        raise Absent("hpcc is not installed: there is no hpcc, or no example of its input")
    results = runner.folder / "hpccoutf.txt"
    failed = []
    for shim in (False, True):
        done = runner.run(command, shim, blas)
        text = results.read_text() if results.exists() else ""
        results.unlink(missing_ok=True)
        if done.code != 0 or "End of HPC Challenge" not in text or "PASSED" not in text:
            return end_of(done)
        failed.append(re.findall(r".*FAILED.*", text))
    return only_with(runner.tested(len(re.findall("PASSED|FAILED|^.*Verified", text)), *failed)) or missing(done, ["cblas_dgemm", "cblas_dtrsm"])


def failing_tests(done):
    return set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.text, re.M))


def pytest(runner, blas, words, names, python=PYTHON):
    """The tests fail that fail without the shim, and no others."""
    command = [python, "-c", PYTEST, "-q", "-rfE", "-p", "no:cacheprovider", "-W", "ignore", "-m", "not slow", "--pyargs", *words]
    plain, done = runner.both(command, blas)
    if plain.code not in (0, 1):
        raise Absent(f"does not run without the shim: {end_of(plain)}")
    if done.code not in (0, 1):
        return end_of(done)
    ends = [{what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|error)", each.text.strip().splitlines()[-1])} for each in (plain, done)]
    fresh = runner.tested(sum(ends[1].values()), failing_tests(plain), failing_tests(done))
    if fresh or not ends[1].get("passed") or sum(ends[0].values()) != sum(ends[1].values()):
        return only_with(fresh) or f"other tests: {ends[0]}, with the shim {ends[1]}"
    return missing(done, names)


def numpy(runner, blas):
    need_modules(PYTHON, numpy="python3-numpy", pytest="python3-pytest", hypothesis="python3-hypothesis")
    why = pytest(runner, blas, ["numpy.linalg.tests"], ["cblas_dgemm"])
    return why or pytest(runner, blas, ["numpy.core.tests.test_multiarray", "-k", PRODUCTS], ["cblas_dgemm", "cblas_dsyrk"])


def scipy(runner, blas):
    need_modules(PYTHON, scipy="python3-scipy", pytest="python3-pytest")
    return pytest(runner, blas, ["scipy.linalg.tests"], ["dgemm_", "dtrsm_"])


def sklearn(runner, blas):
    need_modules(PYTHON, sklearn="python3-sklearn", pytest="python3-pytest")
    why = same_numbers(runner, [PYTHON, SCRIPTS / "learn.py"], blas, ["dgemm_"])
    return why or pytest(runner, blas, [f"sklearn.{name}.tests" for name in SKLEARN], ["dgemm_"])


def counted_tests(text):
    """name -> (passed, all) of the lines that octave.m prints."""
    return {name: (int(passed), int(n)) for name, passed, n in re.findall(r"^(\S+) (\d+) of (\d+)$", text, re.M)}


def octave(runner, blas):
    need("octave", "octave-cli")
    plain, done = runner.both(["octave-cli", "--no-history", "--norc", SCRIPTS / "octave.m"], blas)
    need_plain(plain)
    before, after = counted_tests(plain.text), counted_tests(done.text)
    if done.code != 0 or before.keys() != after.keys():
        return end_of(done)
    failed = [[f"{name} {i}" for name, (passed, n) in counts.items() for i in range(n - passed)] for counts in (before, after)]
    return only_with(runner.tested(sum(n for _, n in after.values()), *failed)) or missing(done, ["dgemm_", "dtrsm_"])


def facts(runner, command, blas, names):
    """A program that prints what does not hold, and how many facts there are."""
    plain, done = runner.both(command, blas)
    need_plain(plain)
    n = re.search(r"^(\d+) facts$", done.text, re.M)
    if done.code != 0 or not n:
        return end_of(done)
    failed = [re.findall(r"^failed: (.*)$", each.text, re.M) for each in (plain, done)]
    return only_with(runner.tested(int(n[1]), *failed)) or missing(done, names)


def r(runner, blas):
    need("r-base-core", "Rscript")
    return facts(runner, ["Rscript", "--vanilla", SCRIPTS / "products.R"], blas, ["dgemm_", "dsyrk_", "dtrsm_"])


def armadillo(runner, blas):
    need("g++", "g++")
    program = runner.folder / "program"
    command = ["g++", "-O1", "-DARMA_DONT_USE_WRAPPER", SCRIPTS / "armadillo.cpp", "-o", program, "-lblas", "-llapack"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Absent(f"libarmadillo-dev is not installed: armadillo.cpp does not compile: {done.stderr.strip()[-200:]}")
    return facts(runner, [program], blas, ["sgemm_", "dgemm_", "ssyrk_", "dsyrk_"])


def numbers(done):
    return [float(word) for word in re.findall(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", re.sub(r"seconds \S+", "", done.text))]


def same_numbers(runner, command, blas, names):
    plain, done = runner.both(command, blas)
    need_plain(plain)
    before, after = numbers(plain), numbers(done)
    if done.code != 0 or len(before) != len(after) or not before:
        return end_of(done)
    off = [f"{b:g} instead of {a:g}" for a, b in zip(before, after) if not abs(a - b) <= 1e-6 * max(1, abs(a))]
    return only_with(runner.tested(len(after), [], off)) or missing(done, names)


def wheels(runner, folder):
    """NumPy with integers of 64 bits and SciPy with those of 32 in one process; then the tests that they bring."""
    python = str(pathlib.Path(folder) / "bin/python")
    need_modules(python, numpy="the wheel of numpy", scipy="the wheel of scipy")
    plain, done = runner.both([python, SCRIPTS / "wheels.py"], None)
    need_plain(plain)
    if done.code != 0 or "right" not in done.text:
        return end_of(done)
    runner.tested(int(done.text.split()[1]), [], [])
    runner.versions = done.text.split()[2:]
    widths = {name.endswith("64_") for name in done.direct or () if "gemm" in name}
    if done.direct is not None and len(widths) != 2:
        return f"not both widths of integers: libtc did {dict(done.direct)}"
    need_modules(python, "import sys; sys.path.append('/usr/lib/python3/dist-packages'); ", pytest="python3-pytest", hypothesis="python3-hypothesis")
    core = "_core" if any((pathlib.Path(folder) / "lib").glob("python3*/site-packages/numpy/_core/tests")) else "core"
    why = pytest(runner, None, ["numpy.linalg.tests"], ["cblas_dgemm"], python)
    why = why or pytest(runner, None, [f"numpy.{core}.tests.test_multiarray", "-k", PRODUCTS], ["cblas_dgemm"], python)
    return why or pytest(runner, None, ["scipy.linalg.tests"], ["gemm"], python)


CASES = {"blas": blas_testers, "lapack": lapack_testers, "hpl": hpl, "numpy": numpy, "scipy": scipy, "sklearn": sklearn, "octave": octave, "r": r,
         "armadillo": armadillo}


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
        wanted = {"tests": True, "calls": options.level != "off", "direct": options.level in BY_LIBTC}
        why = why or "; ".join(f"{what}: {getattr(runner, what)}" for what, some in wanted.items() if bool(getattr(runner, what)) != some)
        verdict = "failed" if why else "passed"
    except Absent as absent:
        why, verdict = str(absent), "absent"
    finally:
        runner.close()
    what = " ".join(runner.versions) or pathlib.Path(over).name
    counts = f"{runner.tests:8} {runner.failed_without:5} {runner.failed_with:5} {runner.calls:10} {runner.direct:10}" if verdict != "absent" else ""
    print(f"{name:9} {what:28} {verdict} {counts} {why}".rstrip(), flush=True)
    if options.known:
        print(*[f"    {n} {known}\n" for known, n in sorted(runner.known.items())], sep="", end="", flush=True)
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="the directory that has tc-run")
    parser.add_argument("--only", default="*", help="programs whose name, or name:library, is like this pattern")
    parser.add_argument("--level", default="eager", choices=("off", "trace", *BY_LIBTC), help="TC_SHIM; writeback is on the simulated driver")
    parser.add_argument("--wheels", action="append", metavar="DIR", help="a virtual environment with NumPy and SciPy of PyPI")
    parser.add_argument("--known", action="store_true", help="a line for each test that fails and is no fault of tc's")
    options = parser.parse_args()
    if "reference" not in PROVIDERS:
        print("libblas3 is not installed: there is no BLAS to compare with")
        return 77
    print(f"{'program':9} {'library':28} {'verdict'} {'tests':>7} {'fail':>5} {'with':>5} {'calls':>10} {'by libtc':>10}")
    counts = collections.Counter(row(name, over, case, options) for name, over, case in jobs(options)
                                 if fnmatch.fnmatch(name, options.only) or fnmatch.fnmatch(f"{name}:{over}", options.only))
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['absent']} absent")
    return 1 if counts["failed"] else 0 if counts["passed"] else 77


if __name__ == "__main__":
    sys.exit(main())
