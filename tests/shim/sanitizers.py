#!/usr/bin/env python3
"""The shim built with sanitizers, since the build itself cannot: a sanitizer's library must be loaded before all others. Six threads and more under
ThreadSanitizer; the cases of calls.c and netlib's testers under AddressSanitizer and UndefinedBehaviorSanitizer. Not libtc-shim-memory.so: it replaces malloc, and so do they.

sanitizers.py   77: no reference BLAS, or gcc has no sanitizers
"""
import glob
import os
import subprocess
import sys

sys.dont_write_bytecode = True

from common import HERE, ROOT, Shim, need_reference
from testers import testers

problems = []
CASES = ("untested", "upper", "constructor", "fork", "threads", "handler", "longjmp", "product", "jump")
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-fPIC", "-fwrapv", "-fno-math-errno", "-fno-omit-frame-pointer", "-I", str(ROOT), "-I", str(ROOT / "include")]


def build(place, sanitizer, reference):
    """The shim, the libtc of plain loops and the program in a directory of their own; (shim, what is preloaded before it, program)."""
    shim = Shim.__new__(Shim)
    shim.place, shim.path = place / sanitizer.split(",")[0], place / sanitizer.split(",")[0] / "libtc-shim.so"
    shim.place.mkdir()
    flags = [*FLAGS, f"-fsanitize={sanitizer}"]
    made = [str(place / "entries.S"), str(place / "tables.c")]
    for what in ([*glob.glob(str(ROOT / "shim/*.c")), *made, "-fvisibility=hidden", "-shared", "-Wl,-Bsymbolic", "-o", str(shim.path)],
                 [str(HERE / "standin.c"), "-shared", "-o", str(shim.place / "libtc.so.0")],
                 [str(HERE / "calls.c"), "-o", str(shim.place / "calls"), f"{reference}/libblas.so.3", f"-Wl,-rpath,{reference}", "-rdynamic", "-lpthread"]):
        subprocess.run(["gcc", *flags, *what, "-ldl"], check=True)
    library = subprocess.run(["gcc", f"-print-file-name=lib{'tsan' if sanitizer == 'thread' else 'asan'}.so"], capture_output=True, text=True, check=True).stdout.strip()
    return shim, [library], shim.place / "calls"


def check(what, done):
    if done.returncode != 0 or "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        problems.append(f"{what}: {done.returncode} {done.stderr[-3000:]}")


def main():
    reference = need_reference()
    outer = Shim("nothing")
    for part, file in ("entries", "entries.S"), ("tables", "tables.c"):
        subprocess.run([sys.executable, ROOT / "shim/generate.py", os.uname().machine, part, outer.place / file], check=True)
    (outer.place / "try.c").write_text("int main(void) {\n  return 0;\n}\n")
    if any(subprocess.run(["gcc", f"-fsanitize={s}", "try.c", "-o", "try"], cwd=outer.place, capture_output=True, check=False).returncode for s in ("thread", "address")):
        print("gcc has no sanitizers here")
        return 77
    options = {"TC_SHIM_MIN": "0", "STANDIN_JUMPS": "1", "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0", "TSAN_OPTIONS": "halt_on_error=0:exitcode=66"}
    shim, preload, program = build(outer.place, "thread", reference)
    for level in ("trace", "eager"):
        check(f"threads at {level}", shim.run([program, "threads"], level, preload=preload, **options))
    shim, preload, program = build(outer.place, "address,undefined", reference)
    for case in CASES:
        for level in ("trace", "eager"):
            check(f"{case} at {level}", shim.run([program, case], level, preload=preload, TC_SHIM_PROFILE=str(shim.place / "profile.json"), **options))
    n = 0
    for path, stdin, _ in testers(reference):
        n += 1
        check(os.path.basename(path), shim.run([path], "eager", library=reference, stdin=stdin, preload=preload, TC_SHIM_PROFILE=str(shim.place / "profile.json"), **options))
    outer.close()
    print("\n".join(problems) or f"threads, {len(CASES)} cases and {n} testers: nothing was found")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
