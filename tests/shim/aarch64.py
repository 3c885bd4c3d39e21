#!/usr/bin/env python3
"""The shim on another machine: compiled for AArch64 and run under emulation. Every name passes every register, and calls with 64-bit integers are read, counted
and handed to a libtc of plain loops.

aarch64.py GENERATE   77: no cross compiler or no qemu
"""
import glob
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True

from calls import CALLS_EVERY, EVERY, MODULE
from common import HERE, ROOT, Shim, exported

CC, QEMU, SYSTEM = "aarch64-linux-gnu-gcc", "qemu-aarch64-static", "/usr/aarch64-linux-gnu"
FLAGS = ["-I", str(ROOT), "-I", str(ROOT / "include"), "-O1", "-fPIC", "-fwrapv", "-fno-math-errno", "-fvisibility=hidden", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
NARROW = "double ddot_(const int *n, const double *x, const int *i, const double *y, const int *j) {\n  double s = 0;\n  for (int k = 0; k < *n; k++) s += x[k] * y[k] * *i * *j;\n  return s;\n}\n"
problems = []


def compile_all(output, sources, *flags):
    subprocess.run([CC, *map(str, flags), "-o", str(output), *map(str, sources)], check=True)
    return output


def run(place, command, level, **env):
    words = [QEMU, "-L", SYSTEM]
    settings = {"LD_PRELOAD": place / "libtc-shim.so", "TC_SHIM": level, **env} if level else env
    for name, value in settings.items():
        words += ["-E", f"{name}={value}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TC_", "LD_"))}
    return subprocess.run([*words, *map(str, command)], capture_output=True, text=True, timeout=100, env=env)


def expect(what, fact):
    if not fact:
        problems.append(what)


def main():
    if not all(map(shutil.which, (CC, QEMU))):
        print("no compiler and emulator of AArch64")
        return 77
    shim = Shim("libtc-shim.so")  # a directory of its own
    place = shim.place
    (place / "libtc-shim.so").unlink()
    for part, name in ("entries", "entries.S"), ("tables", "tables.c"):
        subprocess.run([sys.executable, sys.argv[1], "aarch64", part, str(place / name)], check=True)
    sources = [*sorted(glob.glob(f"{ROOT}/shim/*.c")), place / "tables.c", place / "entries.S"]
    library = compile_all(place / "libtc-shim.so", sources, *FLAGS, "-shared", "-Wl,-Bsymbolic,-z,defs")
    compile_all(place / "libtc.so.0", [HERE / "standin.c"], *FLAGS, "-shared")
    names = sorted(exported(library) - {"dlclose", "pthread_exit"})
    expect(f"{len(names)} names", len(names) > 1400)
    (place / "names.inc").write_text("".join(f"ROW({i}, {name})\n" for i, name in enumerate(names, 1)))
    (place / "every.c").write_text(EVERY)
    (place / "caller.c").write_text(CALLS_EVERY)
    compile_all(place / "libblas.so.3", [place / "every.c"], "-I", place, "-fPIC", "-shared", "-Wl,-soname,libblas.so.3")
    compile_all(place / "caller", [place / "caller.c", place / "libblas.so.3"], "-I", place, f"-Wl,-rpath,{place}")
    for level in (None, "off"):
        done = run(place, [place / "caller"], level)
        expect(f"every name at {level}: {done}", done.returncode == 0 and done.stdout == f"0 wrong, {2 * len(names)} calls\n")
    compile_all(place / "libblas64.so.3", [HERE / "provider.c"], "-fPIC", "-shared", "-Wl,-soname,libblas64.so.3")
    compile_all(place / "modules", [HERE / "modules.c", place / "libblas64.so.3"], "-I", ROOT, "-Wl,--no-as-needed", f"-Wl,-rpath,{place}")
    for level in ("off", "trace", "eager"):
        profile = place / f"{level}.json"
        done = run(place, [place / "modules", "huge"], level, TC_SHIM_PROFILE=profile, TC_SHIM_MIN=0)
        lines = [json.loads(line) for line in profile.read_text().splitlines()] if profile.exists() else []
        n_calls, n_direct = ([line[what] for line in lines if line["kind"] == "process"] for what in ("calls", "direct"))
        expect(f"huge at {level}: {done} {lines}", done.returncode == 0 and n_calls == ([] if level == "off" else [14]) and n_direct == {"off": [], "trace": [0], "eager": [7]}[level])
    # Two modules by turns, with a BLAS each: tc_shim_route chooses.
    (place / "narrow").mkdir()
    (place / "narrow.c").write_text(NARROW)
    compile_all(place / "narrow/libblas.so.3", [place / "narrow.c"], "-fPIC", "-shared", "-Wl,-soname,libblas.so.3")
    for name, n, blas in ("first", "2", place / "narrow/libblas.so.3"), ("second", "4294967296", place / "libblas64.so.3"):
        (place / f"{name}.c").write_text(MODULE.replace("N", n))
        compile_all(place / f"{name}.so", [place / f"{name}.c", blas], "-fPIC", "-shared", f"-Wl,-rpath,{blas.parent}")
    compile_all(place / "alone", [HERE / "modules.c"], "-I", ROOT)
    for level in ("off", "trace"):
        done = run(place, [place / "alone", "dlclose", place / "first.so", place / "second.so"], level, TC_SHIM_PROFILE=place / "unread.json")
        expect(f"dlclose at {level}: {done}", done.returncode == 0 and not done.stderr)
    shim.close()
    print("\n".join(problems) or "every name, and 64-bit integers, on AArch64")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
