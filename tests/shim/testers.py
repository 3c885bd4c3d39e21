#!/usr/bin/env python3
"""netlib's testers of BLAS (Debian's libblas-test) with the shim, over every BLAS that is here: they print what they print without it, at each level;
every routine was counted, by both names; and eager hands what it should to libtc, in whose place plain loops stand.

testers.py SHIM STANDIN   77: no testers
"""
import glob
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
from concurrent.futures import ThreadPoolExecutor

from common import PROVIDERS, Shim, exported, need_reference

# Names that no tester calls; calls.c does.
UNTESTED = {"cblas_crotg", "cblas_zrotg", "cblas_csrot", "cblas_zdrot", "cblas_sdsdot", "cblas_dsdot", "cblas_srotm", "cblas_drotm", "cblas_srotmg", "cblas_drotmg",
            "crotg_", "zrotg_", "csrot_", "zdrot_", "cblas_cscal"}
# Testers of 64-bit integers are programs of their own (libblas64-test).
WIDE = {"reference64": found[0] for found in [glob.glob("/usr/lib/*/blas64")] if found and os.path.exists(f"{found[0]}/libblas64.so.3")}
LIBRARIES = {**PROVIDERS, **WIDE}
problems = []


def testers(folder):
    """(program, its input, the file it writes) of each."""
    for path in sorted(glob.glob(f"{folder}/x?blat??") + glob.glob(f"{folder}/xblat??") + glob.glob(f"{folder}/x?cblat?")):
        name = os.path.basename(path)
        fortran, cblas = re.fullmatch(r"xblat(\d)(\w)", name), re.fullmatch(r"x(\w)cblat(\d)", name)
        if fortran:
            level, letter = fortran.groups()
            yield path, f"{folder}/{letter}blat{level}.in" if level > "1" else None, f"{letter}blat{level}.out"
        elif cblas:
            letter, level = cblas.groups()
            yield path, f"{folder}/{letter}in{level}" if level > "1" else None, None


def said(done, place, output):
    text = done.stdout
    if output and os.path.exists(place / output):
        text += open(place / output, errors="replace").read()
        os.unlink(place / output)
    return done.returncode, text, done.stderr


def without_digits(text):
    """What is passed, without ratios that rounding changes."""
    return [line for line in text.splitlines() if re.search("PASS|FAIL|FATAL|ERROR", line)]


def check(shim, provider, tester, data):
    """A tester over one library at each level; the routines that it made the shim count, and those that libtc did."""
    path, stdin, output = tester
    place = shim.place / f"{provider}-{os.path.basename(path)}"
    place.mkdir()
    local = Shim.__new__(Shim)
    local.place, local.path = place, shim.path
    common = {"library": LIBRARIES[provider], "stdin": stdin, "preload": [] if provider.startswith("reference") else [data]}
    plain = said(local.run([path], None, **common), place, output)
    name = f"{os.path.basename(path)} over {provider}"
    if plain[0] != 0:
        return set(), set(), f"{name} does not run without the shim"
    for level in ("off", "trace"):
        if not provider.startswith("reference") and level == "off":
            continue
        done, calls, _, _ = local.profiled([path], level, **common)
        if said(done, place, output) != plain:
            problems.append(f"{name} differs with TC_SHIM={level}: {done.stderr[-500:]}")
        if level == "off" and calls:
            problems.append(f"{name}: off writes a profile")
    done, counted, direct, _ = local.profiled([path], "eager", TC_SHIM_MIN="0", **common)
    eager = said(done, place, output)
    kept = lambda what: (what[0], without_digits(what[1]), what[2])
    # ATLAS's results change from run to run on a busy machine, and fail some of the tests
    if kept(eager) != kept(plain) and all(kept(said(local.run([path], None, **common), place, output)) == kept(plain) for _ in range(5)):
        problems.append(f"{name} differs with TC_SHIM=eager: {done.stderr[-500:]}")
    return {n for n in calls if calls[n]} & {n for n in counted if counted[n]}, {n for n in direct if direct[n]}, None


def main():
    reference = need_reference()
    found = list(testers(reference))
    if len(found) < 24:
        print("no testers of BLAS are installed (libblas-test)")
        return 77
    shim = Shim(*sys.argv[1:])
    source = shim.place / "data.c"
    source.write_text("int RowMajorStrg, CBLAS_CallFromC;\n")  # of the reference's CBLAS, which its testers want
    data = shim.compile("libdata.so", source, "-shared", "-fPIC")
    counted, direct, skipped = set(), set(), []
    jobs = [(p, t) for p in PROVIDERS for t in found] + [(p, t) for p, folder in WIDE.items() for t in testers(folder)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for calls, done, why in pool.map(lambda job: check(shim, *job, data), jobs):
            counted |= calls
            direct |= done
            skipped += [why] if why else []
    here = {n for n in exported(f"{reference}/libblas.so.3") & exported(shim.path)}
    problems.extend(f"no tester made the shim count {n}" for n in sorted(here - counted - UNTESTED))
    problems.extend(f"{n} was counted, though it is said that no tester calls it" for n in sorted(UNTESTED & counted))
    wanted = {s.replace("*", t + r) for s in ("*_", "cblas_*") for t in "sd" for r in ("gemm", "symm", "syrk", "syr2k", "trmm", "trsm")}
    problems.extend(f"libtc did no {n}" for n in sorted(wanted - direct))
    problems.extend(f"libtc did {n}" for n in sorted(direct - wanted))
    shim.close()
    print("\n".join(problems + skipped))
    print(f"{len(found)} testers over {', '.join(LIBRARIES)}: {len(counted)} names counted, {len(direct)} done by libtc")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
