#!/usr/bin/env python3
"""Calls as testers do not make them, with the shim: the cases of calls.c and modules.c at each level, what the profile says of them, and which library each call reached.

calls.py SHIM STANDIN   77: no reference BLAS
"""
import os
import sys

sys.dont_write_bytecode = True

from common import HERE, ROOT, Shim, exported, need_reference
from testers import UNTESTED

problems = []

MODULE = r"""
#include <stdint.h>
double ddot_(const void *, const double *, const void *, const double *, const void *);
double module_call(void) {
  const int64_t n = N, one = 1;
  const double x[1] = {8}, y[1] = {8}, z[2] = {4, 4};
  return N == 2 ? ddot_(&n, z, &one, z, &one) : ddot_(&n, x, &one, y, &one);
}
"""
# A function for each exported name, which keeps what it is given and returns in both kinds of registers.
EVERY = r"""
#include <stdint.h>
typedef struct words { uint64_t word[15]; double number[8]; } words;
typedef struct pair { uint64_t i; double d; } pair;
words every_last;
uint64_t every_calls;
#define ROW(number, name) pair name(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, double p, double q, double r, double s, double t, double u, double v, \
                                    double w, uint64_t g, uint64_t h, uint64_t i, uint64_t j, uint64_t k, uint64_t l, uint64_t m, uint64_t n, uint64_t o) { \
  every_last = (words){{a, b, c, d, e, f, g, h, i, j, k, l, m, n, o}, {p, q, r, s, t, u, v, w}}; \
  every_calls++; \
  return (pair){number, number + 0.5}; \
}
#include "names.inc"
"""
CALLS_EVERY = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct words { uint64_t word[15]; double number[8]; } words;
typedef struct pair { uint64_t i; double d; } pair;
extern words every_last;
extern uint64_t every_calls;
#define ROW(number, name) pair name(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double, double, double, double, double, double, double, \
                                    uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
#include "names.inc"
#undef ROW
static int n_wrong;
static void check(uint64_t number, const char *name, pair (*call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double, double, double, double, double,
                  double, double, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t)) {
  for (int round = 0; round < 2; round++) {
    words w;
    for (int i = 0; i < 15; i++) w.word[i] = number * 0x9e3779b97f4a7c15u + i * 0x123456789abcdefu + round;
    for (int i = 0; i < 8; i++) w.number[i] = (double)number + i / 8.0;
    memset(&every_last, 0, sizeof every_last);
    pair p = call(w.word[0], w.word[1], w.word[2], w.word[3], w.word[4], w.word[5], w.number[0], w.number[1], w.number[2], w.number[3], w.number[4], w.number[5], w.number[6],
                  w.number[7], w.word[6], w.word[7], w.word[8], w.word[9], w.word[10], w.word[11], w.word[12], w.word[13], w.word[14]);
    if (memcmp(&w, &every_last, sizeof w) != 0 || p.i != number || p.d != (double)number + 0.5) n_wrong++, printf("%s\n", name);
  }
}
int main(void) {
#define ROW(number, name) check(number, #name, name);
#include "names.inc"
  printf("%d wrong, %llu calls\n", n_wrong, (unsigned long long)every_calls);
  return n_wrong != 0;
}
"""


def expect(what, fact):
    if not fact:
        problems.append(what)


def compile_text(shim, name, text, *flags):
    source = shim.place / f"{name}.c"
    source.write_text(text)
    return shim.compile(name, source, "-I", str(shim.place), *flags)


def check_device(case, lines):
    """The estimate of a process leaves on the processor what gains nothing by a device."""
    for process in (line for line in lines if line["kind"] == "process"):
        sites = [line for line in lines if line["kind"] == "site" and line["pid"] == process["pid"] and "seconds" in line]
        for key in ("device_s", "device_staying_s"):
            least = sum(min(line["seconds"], line[key]) for line in sites)
            expect(f"{case}: {key} of {process}, by rows {least}", least - 1e-4 <= process[key] <= process["blas_s"] + 1e-5)


def check_levels(shim, program, reference):
    """The cases over the reference: right at each level, and counted to the call."""
    cases = {"untested": None, "upper": ("cblas_dgemm", 2), "constructor": ("ddot_", 1), "fork": ("dgemm_", 14), "threads": ("ddot_", 165001), "handler": None,
             "longjmp": ("dgemm_", 101), "product": ("dgemm_", 5), "jump": None, "opening": ("dgemm_", 11)}
    more = {"jump": {"STANDIN_JUMPS": "1"}, "opening": {"STANDIN_SLOW": "1"}}
    for case, count in cases.items():
        for level in ("off", "trace", "eager"):
            done, calls, direct, lines = shim.profiled([program, case], level, library=reference, TC_SHIM_MIN="0", **more.get(case, {}))
            expect(f"{case} at {level}: {done.returncode} {done.stderr}", done.returncode == 0 and not done.stderr)
            check_device(f"{case} at {level}", lines)
            if level == "off":
                expect(f"{case}: off writes a profile", not lines)
            elif count:
                expect(f"{case} at {level}: {calls} instead of {count}", calls[count[0]] == count[1])
            if case == "upper":  # the reference's CBLAS calls its Fortran, which is the same call
                expect(f"upper at {level}: the inner call is counted, {calls}", calls["dgemm_"] == 0)
            if case in ("upper", "product", "fork") and level == "eager":
                expect(f"{case}: libtc did {direct}, not {calls}", direct[count[0]] == count[1])
            if case == "longjmp" and level == "eager":
                expect(f"longjmp: libtc did {direct}", direct["dgemm_"] == 100)
            if case == "jump" and level != "off":
                expect(f"jump at {level}: {calls}, libtc did {direct}", calls["dgemm_"] >= 1000 and direct["dgemm_"] == (calls["dgemm_"] if level == "eager" else 0))
            if case == "opening" and level == "eager":
                expect(f"opening: libtc did {direct}", direct["dgemm_"] == 11)
            if case == "untested" and level == "trace":
                expect(f"not counted: {UNTESTED - set(calls)}", UNTESTED <= set(calls))
            if case == "fork" and level == "trace":
                by_process = sorted(line["calls"] for line in lines if line["kind"] == "process")
                expect(f"fork: calls of processes are {by_process}", by_process == [4, 12] or by_process == [3, 12])


def check_integers(shim):
    """64-bit integers by suffix, and by the name of the library."""
    provider = shim.compile("libblas64.so.3", HERE / "provider.c", "-shared", "-fPIC", "-Wl,-soname,libblas64.so.3")
    linked = shim.compile("modules64", HERE / "modules.c", "-Wl,--no-as-needed", str(provider), f"-Wl,-rpath,{shim.place}")
    for level in ("off", "trace", "eager"):
        done, calls, direct, _ = shim.profiled([linked, "huge"], level, TC_SHIM_MIN="0")
        expect(f"huge at {level}: {done.returncode} {done.stderr}", done.returncode == 0)
        if level != "off":
            expect(f"huge at {level}: {calls}", len(calls) == 7 and all(n == 2 for n in calls.values()))
        if level == "eager":
            expect(f"huge: libtc did {direct}", sum(direct.values()) == 7)
    return provider


def check_modules(shim, provider, reference):
    """Modules with libraries of their own, which come and go; one without any."""
    flags = ["-shared", "-fPIC", "-Wl,-z,lazy"]
    first = compile_text(shim, "first.so", MODULE.replace("N", "2"), *flags, f"{reference}/libblas.so.3", f"-Wl,-rpath,{reference}")
    second = compile_text(shim, "second.so", MODULE.replace("N", "4294967296"), *flags, str(provider), f"-Wl,-rpath,{shim.place}")
    lonely = compile_text(shim, "lonely.so", MODULE.replace("N", "2"), *flags)
    program = shim.compile("modules", HERE / "modules.c")
    for level in (None, "off", "trace", "eager"):
        done = shim.run([program, "dlclose", first, second], level, TC_SHIM_PROFILE=str(shim.place / "unread.json"))
        expect(f"dlclose at {level}: {done.returncode} {done.stderr}", done.returncode == 0 and not done.stderr and int(done.stdout) > 0)
        done = shim.run([program, "stays", first, second], level, TC_SHIM_PROFILE=str(shim.place / "unread.json"))
        expect(f"stays at {level}: {done.returncode} {done.stderr}", done.returncode == 0 and not done.stderr)
        done = shim.run([program, "undefined", lonely], level)
        expect(f"undefined at {level}: {done.returncode} {done.stderr}",
               done.returncode == 127 and f"symbol lookup error: {lonely}: undefined symbol: ddot_" in done.stderr)


def check_every_name(shim):
    """Registers and words of the stack reach the function of each name as they were, of a library that nobody knows and of one that is known."""
    names = sorted(exported(shim.path) - {"dlclose", "pthread_exit"})
    (shim.place / "names.inc").write_text("".join(f"ROW({i}, {name})\n" for i, name in enumerate(names, 1)))
    sys.path.insert(0, str(ROOT / "shim"))
    import generate
    expect(f"{len(names)} names, beside the tables': {set(names) ^ {n for n, _, _ in generate.spelled()}}", len(names) > 1400 and set(names) == {n for n, _, _ in generate.spelled()})
    for soname, levels in ("libstranger.so.1", ("off",)), ("libblas.so.3", ("off",)), ("libother.so.1", ("trace", "eager")):
        if levels != ("off",):  # names that say nothing of integers: their library is nobody's
            names = [name for name in names if "64" not in name and "scipy" not in name]
            (shim.place / "names.inc").write_text("".join(f"ROW({i}, {name})\n" for i, name in enumerate(names, 1)))
        library = compile_text(shim, soname, EVERY, "-shared", "-fPIC", "-O0", f"-Wl,-soname,{soname}")
        caller = compile_text(shim, "caller", CALLS_EVERY, "-O0", str(library), f"-Wl,-rpath,{shim.place}")
        for level in levels:
            done = shim.run([caller], level)
            expect(f"every name of {soname} at {level}: {done.stdout[-500:]} {done.stderr}", done.returncode == 0 and done.stdout == f"0 wrong, {2 * len(names)} calls\n")
    # A function with variable arguments, some in vector registers.
    other = compile_text(shim, "libother.so", "#include <stdarg.h>\n#include <stdio.h>\nint dgemv(char *t, size_t n, const char *f, ...) {\n  va_list l;\n  va_start(l, f);\n"
                         "  int r = vsnprintf(t, n, f, l);\n  va_end(l);\n  return r;\n}\n", "-shared", "-fPIC")
    linked = shim.compile("collides", HERE / "modules.c", "-Wl,--no-as-needed", str(other), f"-Wl,-rpath,{shim.place}")
    for level in ("off", "trace", "eager"):
        done = shim.run([linked, "collision"], level)
        expect(f"collision at {level}: {done.returncode} {done.stderr}", done.returncode == 0 and not done.stderr)


def check_options(shim, program, reference):
    """Modules that are asked for and not, wrong values, a library that is forced, libtc that is not there."""
    for setting, counted in ({"TC_SHIM_NOT": "calls"}, False), ({"TC_SHIM_NOT": "other,liblapack"}, True), ({"TC_SHIM_ONLY": "calls"}, True), ({"TC_SHIM_ONLY": "liblapack"}, False):
        for level in ("trace", "eager"):
            done, calls, direct, _ = shim.profiled([program, "product"], level, library=reference, TC_SHIM_MIN="0", **setting)
            expect(f"{setting} at {level}: {calls} {direct} {done.stderr}", done.returncode == 0 and calls["dgemm_"] == (5 if counted else 0))
    for setting, says in ({"TC_SHIM": "fast"}, "none of off, trace, eager, writeback and lazy"), ({"TC_SHIM_MIN": "many"}, "TC_SHIM_MIN is 'many'"), \
            ({"TC_SHIM_ESTIMATE": "3"}, "TC_SHIM_ESTIMATE is '3'"), ({"TC_BLAS_LIB": "/nowhere.so"}, "TC_BLAS_LIB cannot be opened"):
        done = shim.run([program, "product"], "eager", library=reference, **setting)
        expect(f"{setting}: {done.returncode} {done.stderr}", done.returncode == 0 and done.stderr.count("\n") == 1 and says in done.stderr)
        done = shim.run(["/bin/true"], "eager", **setting)
        expect(f"{setting} in a program without BLAS: {done.stderr}", done.returncode == 0 and not done.stderr)
    forced = compile_text(shim, "libblas.so.forced", "void dgemm_(void) {}\n", "-shared", "-fPIC")
    done = shim.run([program, "product"], "off", library=reference, TC_BLAS_LIB=str(forced))
    expect(f"TC_BLAS_LIB does not reach: {done.returncode}", done.returncode != 0 and "check_product" in done.stderr)
    lonely = Shim(sys.argv[1])
    done = lonely.run([program, "product"], "eager", library=reference, TC_SHIM_MIN="0", cwd=lonely.place)
    expect(f"no libtc: {done.returncode} {done.stderr}", done.returncode == 0 and (done.stderr.count("\n") == 1 and "libtc" in done.stderr or not done.stderr))
    lonely.close()


def main():
    reference = need_reference()
    shim = Shim(*sys.argv[1:])
    program = shim.compile("calls", HERE / "calls.c", f"{reference}/libblas.so.3", "-rdynamic", "-lpthread", "-ldl")
    check_levels(shim, program, reference)
    provider = check_integers(shim)
    check_modules(shim, provider, reference)
    check_every_name(shim)
    check_options(shim, program, reference)
    shim.close()
    print("\n".join(problems) or "all cases are right at all levels")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
