#!/usr/bin/env python3
"""The levels that defer, over libtc itself: programs that do to deferred results what may break them (defer.c, memory.c), NumPy, programs without BLAS, options.

defer.py SHIM MEMORY LIBTC LLVM TC_RUN SIM_CUDA SIM_NVRTC   77: no reference BLAS
"""
import os
import shutil
import subprocess
import sys

from common import HERE, ROOT, Shim, need_reference
from programs import COREUTILS, check_bare, expect, problems

# What each case records at least, by name.
CASES = {
    "chain": {"dgemm_": 1, "daxpy_": 2, "dscal_": 2, "dcopy_": 1}, "layouts": {"cblas_dgemm": 4, "cblas_sgemm": 1}, "ger": {"dger_": 1},
    "scalars": {"dscal_": 2, "ddot_": 2, "dasum_": 1, "dnrm2_": 1}, "cg": {"daxpy_": 27, "dscal_": 9, "ddot_": 9}, "resident": {"daxpy_": 7, "dgemm_": 1},
    "unsure": {"dscal_": 2}, "twice": {"daxpy_": 48}, "touch": {"dscal_": 1, "daxpy_": 1}, "free": {"daxpy_": 2}, "realloc": {"dscal_": 3}, "memory": {}, "write": {"dscal_": 4}, "stdio": {"dscal_": 2},
    "threads": {"dscal_": 11, "daxpy_": 9}, "before": {"dscal_": 2}, "after": {"dscal_": 3}, "stack": {"dscal_": 2}, "dies": {"dscal_": 1}, "handler": {"dscal_": 5},
    "fork": {"dscal_": 1}, "exit": {"dscal_": 1}, "exec": {}, "forks": {"dscal_": 1}, "atfork": {"dscal_": 11},
}
# The same of memory.c.
MEMORY = {
    "border": {}, "frees": {"dscal_": 1, "daxpy_": 2}, "protected": {"dscal_": 1}, "raw": {"dscal_": 4}, "owner": {"dscal_": 40}, "overflow": {"dscal_": 3}, "storm": {"dscal_": 50},
    "beside": {"dscal_": 1}, "module": {"dscal_": 2}, "early": {"dscal_": 1}, "nan": {"dgemm_": 2, "daxpy_": 1, "dscal_": 1}, "overlap": {}, "leave": {"dgemm_": 1}, "waits": {"dscal_": 10}, "contexts": {"dscal_": 3},
    "brief": {"dscal_": 400}, "cancelled": {}, "many": {"dscal_": 1}, "operands": {"dger_": 1, "dscal_": 3}, "unwritten": {},
}
# The same of pages.c.
PAGES = {
    "sizes": {}, "mapped": {"dscal_": 1}, "changed": {"dscal_": 3}, "calls": {"dscal_": 36}, "waits": {"dscal_": 36}, "children": {"dscal_": 12},
    "last": {"dscal_": 3}, "limit": {"dscal_": 2},
}
# An allocator of a program's own, which knows its memory, and has another name for it.
ALLOCATOR = """
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
enum { MAGIC = 0x7469646e };
static char heap[512 << 20] __attribute__((aligned(64)));
static size_t used;
void *memalign(size_t align, size_t bytes) {
  if (bytes > sizeof heap / 2) return NULL;
  size_t extra = (align < 16 ? 16 : align) + 16;
  size_t at = __atomic_fetch_add(&used, (bytes + extra + 15) & ~(size_t)15, __ATOMIC_RELAXED);
  assert(at + bytes + extra < sizeof heap);
  uintptr_t p = ((uintptr_t)heap + at + extra) & -(uintptr_t)(align < 16 ? 16 : align);
  ((uint64_t *)p)[-1] = MAGIC;
  ((uint64_t *)p)[-2] = bytes;
  return (void *)p;
}
void *malloc(size_t bytes) { return memalign(16, bytes); }
void *allocate_otherwise(size_t bytes) { return memalign(16, bytes); }
void *calloc(size_t n, size_t each) { return memalign(16, n * each); }
void free(void *p) { assert(!p || ((uint64_t *)p)[-1] == MAGIC); }
size_t malloc_usable_size(void *p) { return p ? ((uint64_t *)p)[-2] : 0; }
void *realloc(void *p, size_t bytes) {
  void *fresh = malloc(bytes);
  size_t old = malloc_usable_size(p);
  assert(!p || ((uint64_t *)p)[-1] == MAGIC);
  return fresh ? memcpy(fresh, p, old < bytes ? old : bytes) : NULL;
}
int posix_memalign(void **out, size_t align, size_t bytes) { return (*out = memalign(align, bytes)) ? 0 : ENOMEM; }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
"""
ALLOCATES = """
#include <malloc.h>
#include "tests/shim/defer.h"
void *allocate_otherwise(size_t);
int main(void) {
  char *text = strdup("text"), *other = allocate_otherwise(100), *grown = realloc(memset(malloc(1000), 5, 1000), 4 << 20);
  assert(grown[999] == 5 && malloc_usable_size(grown) == 4 << 20 && malloc_usable_size(text) >= 5);
  free(other);
  free(text);
  double *p = pending(1), *q = realloc(pending(2), 2 * BYTES);
  check_doubled(p, 1);
  check_doubled(q, 2);
  free(p);
  free(grown);
  return 0;
}
"""
# What least.c measures.
SIZES = ("8\n", "12\n", "16\n", "24\n", "32\n", "48\n")
# A module that needs another, which is loaded with it.
MODULE = """
void dscal_(const int *, const double *, double *, const int *);
int inner(void);
void module_scale(double *p, int n) {
  const double two = 2;
  const int one = inner();
  dscal_(&n, &two, p, &one);
}
void (*module_at_end)(void);
__attribute__((destructor)) static void end(void) {
  if (module_at_end) module_at_end();
}
"""
# On the simulated driver, whose large products take seconds.
ON_DEVICE = ["resident", "ger", "touch", "free", "realloc", "write", "threads", "after", "handler", "fork", "exit", "forks", "atfork"]

NUMPY = r"""
import numpy as np, os, tempfile
rng = np.random.default_rng(1)
a, b = rng.standard_normal((520, 520)), rng.standard_normal((520, 520))
c = a @ b
d = (c @ a.T + c) @ b
w = rng.standard_normal((730, 730)).astype('f4')
for _ in range(3):
    w = w @ w / np.float32(30)
with tempfile.TemporaryFile() as f:
    (a @ b).tofile(f)
    f.seek(0)
    e = np.fromfile(f).reshape(520, 520)
with tempfile.TemporaryFile() as f:
    os.write(f.fileno(), a @ b)
    f.seek(0)
    assert np.array_equal(np.fromfile(f).reshape(520, 520), e)
if os.fork() == 0:
    assert np.array_equal(a @ b, e)
    os._exit(0)
assert os.wait()[1] == 0
x = np.linalg.solve(a + 100 * np.eye(520), d)
np.savez(OUT, c=c, d=d, w=w, e=e, x=x)
"""


class Deferring(Shim):
    def __init__(self, shim, memory, libtc, llvm, cuda, nvrtc):
        super().__init__(shim, libtc)
        self.memory = self.place / "libtc-shim-memory.so"
        self.memory.symlink_to(os.path.abspath(memory))
        self.more = {"TC_LLVM_PATH": os.path.abspath(llvm), "TC_SHIM_MIN": "1e6", "TC_CUDA_LIBRARY": os.path.abspath(cuda), "TC_NVRTC_LIBRARY": os.path.abspath(nvrtc)}
        self.more.update((name, os.environ[name]) for name in ("TC_SIM_CACHE", "TC_CACHE_DIR") if name in os.environ)

    def environment(self, level, preload=(), **more):
        loaded = [*preload, *([self.memory] if level in ("lazy", "writeback") else [])]
        return super().environment(level, preload=loaded, **{**self.more, **more})


def check_case(shim, command, counts, level):
    done, calls, direct, lines = shim.profiled(command, level)
    case = command[1]
    what = f"{case} at {level}"
    expect(f"{what}: {done.returncode} {done.stderr[-500:]}", done.returncode == 0 and not done.stderr)
    for name, count in counts.items() if level == "lazy" or case in ("resident", "touch") else ():
        expect(f"{what}: {direct[name]} of {calls[name]} {name} were recorded, not {count}", direct[name] >= count)
    return next((line for line in lines if line["kind"] == "process"), {})


def check_cases(shim, program):
    for case in CASES:
        done = shim.run([program, case], None)
        expect(f"{case} without the shim: {done.returncode} {done.stderr}", done.returncode == 0)
        process = check_case(shim, [program, case], CASES[case], "lazy")
        if case == "chain":
            expect(f"chain: {process}", process.get("runs") == 1 and process["exchanged"] >= 3)
        if case == "free":
            expect(f"free: {process}", process.get("dropped", 0) >= 2)
        if case == "cg":  # a run a scalar, and one a touch
            expect(f"cg: {process}", process.get("runs", 99) <= 9 + 5)
    for case in ON_DEVICE:
        process = check_case(shim, [program, case], CASES[case], "writeback")
        if case == "resident":
            expect(f"resident: {process}", process.get("reused", 0) >= 5 and process["uploaded"] <= 12)


def check_memory(shim, program, module, cases=MEMORY):
    for case, counts in cases.items():
        command = [program, case, module]
        done = shim.run(command, None)
        expect(f"{case} without the shim: {done.returncode} {done.stderr}", done.returncode == 0)
        check_case(shim, command, counts, "lazy")
        if case in ("nan", "overlap", "operands", "unwritten", "last", "limit"):
            done = shim.run(command, "eager", TC_SHIM_MIN="0")
            expect(f"{case} at eager: {done.returncode} {done.stderr}", done.returncode == 0)


def check_allocator(shim, *flags):
    """A program that is linked to an allocator keeps it; nothing is deferred, and a line says so."""
    (shim.place / "allocator.c").write_text(ALLOCATOR)
    (shim.place / "allocates.c").write_text(ALLOCATES)
    allocator = shim.compile("liballocator.so", shim.place / "allocator.c", "-shared", "-fPIC", "-fno-builtin")
    program = shim.compile("allocates", shim.place / "allocates.c", str(allocator), f"-Wl,-rpath,{shim.place}", *flags)
    for level in (None, "eager", "lazy"):
        done = shim.run([program], level, TC_SHIM_MIN="0")
        lines = 1 if level == "lazy" else 0
        expect(f"allocates at {level}: {done}", done.returncode == 0 and done.stderr.count("\n") == lines and done.stderr.count("an allocator of its own") == lines)


def check_beside(shim, *flags):
    """libtc's own borrows, assigns and errors in a program that the shim is in: nothing is deferred there, and a line says so."""
    program = shim.compile("beside", HERE / "beside.c", "-I", ROOT / "include", shim.place / "libtc.so.0", f"-Wl,-rpath,{shim.place}", *flags)
    for level in (None, "eager", "lazy"):
        for when in ("early", "late"):
            done = shim.run([program, when], level, TC_SHIM_MIN="0")
            lines = 1 if level == "lazy" else 0
            expect(f"beside {when} at {level}: {done}", done.returncode == 0 and done.stderr.count("\n") == lines and done.stderr.count("uses libtc itself") == lines)


def check_leaks(shim, *flags):
    """100,000 calls: no more memory at the end than after the first tenth."""
    program = shim.compile("leaks", HERE / "leaks.c", *flags)
    for level in ("eager", "lazy"):
        done = shim.run([program], level, TC_SHIM_MIN="0")
        expect(f"leaks at {level}: {done}", done.returncode == 0 and not done.stderr)


def check_least(shim, *flags):
    """From which size libtc makes a product is measured once for a library, kept, and read."""
    program, kept = shim.compile("products", HERE / "leaks.c", *flags), shim.place / "least"
    done, _, direct, _ = shim.profiled([program], "eager", TC_SHIM_MIN="", TC_CACHE_DIR=str(kept))
    files = list(kept.glob("shim-gemm-*"))
    expect(f"least: {done} {files}", done.returncode == 0 and not done.stderr and len(files) == 1 and files[0].read_text() in SIZES)
    for size, least, most in (8, 90000, 100000), (48, 20000, 80000):
        for file in files:
            file.write_text(f"{size}\n")
        done, calls, direct, _ = shim.profiled([program], "eager", TC_SHIM_MIN="", TC_CACHE_DIR=str(kept))
        expect(f"least by {size}: {direct} of {calls}", done.returncode == 0 and least < direct["dgemm_"] < most)
    for file in files:  # a file of another kind, and a text that is no size, count as none
        file.unlink()
        os.mkfifo(file)
        for text in ("", "8xyz\n"):
            if text:
                file.write_text(text)
            done = shim.run(["timeout", "-k", "1", "20", program], "eager", TC_SHIM_MIN="", TC_CACHE_DIR=str(kept))
            expect(f"least from a file of {text!r}: {done}", done.returncode == 0 and not done.stderr and file.is_file() and file.read_text() in SIZES)
    done, _, direct, _ = shim.profiled([program], "eager", TC_SHIM_MIN="", TC_CACHE_DIR="/proc/nowhere")
    expect(f"least without a place: {done} {direct}", done.returncode == 0 and not done.stderr and direct["dgemm_"] > 20000)


def check_numpy(shim):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
        print("numpy of the system (python3-numpy) is not installed: it was not tested")
        return
    script, compare = shim.place / "script.py", shim.place / "compare.py"
    compare.write_text("import numpy as np, sys\np, q = map(np.load, sys.argv[1:])\nfor k in p: assert np.allclose(p[k], q[k], 1e-4 if k == 'w' else 1e-9, 1e-4 if k == 'w' else 1e-8), k\n")
    for level in ("eager", "lazy"):
        script.write_text(NUMPY.replace("OUT", repr(str(shim.place / f"{level}.npz"))))
        done, _, direct, lines = shim.profiled([python, script], level, library=need_reference())
        expect(f"numpy at {level}: {done.returncode} {done.stderr[-800:]}", done.returncode == 0)
        deferred = sum(line.get("deferred", 0) for line in lines)
        expect(f"numpy at {level}: {deferred} deferred, {direct}", level == "eager" or (deferred >= 6 and direct["cblas_dgemm"] >= 4 and direct["cblas_sgemm"] >= 2))
    done = shim.run([python, compare, shim.place / "eager.npz", shim.place / "lazy.npz"], None)
    expect(f"numpy: {done.stderr}", done.returncode == 0)


def check_scripts(shim):
    """R and Octave print the same digits with the shim and without. R's vectors begin behind a header, so that none is a whole block."""
    for command, script in (["Rscript"], "plain.R"), (["octave-cli", "--no-gui", "--norc"], "plain.m"):
        if not shutil.which(command[0]):
            print(f"{command[0]} is not installed: it was not tested")
            continue
        command = [*command, HERE / "soak" / script]
        want = shim.run(command, None, library=need_reference())
        expect(f"{script}: {want}", want.returncode == 0 and want.stdout.count("\n") > 10)
        for level in ("eager", "lazy"):
            done, calls, direct, lines = shim.profiled(command, level, library=need_reference(), TC_SHIM_MIN="")
            deferred = sum(line.get("deferred", 0) for line in lines)
            expect(f"{script} at {level}: {done.returncode} {done.stderr}", done.returncode == 0 and done.stdout == want.stdout and done.stderr == want.stderr)
            expect(f"{script} at {level}: {deferred} deferred, {direct} of {calls}", direct["dgemm_"] > 5 and (level == "eager" or script == "plain.R" or deferred >= 5))


def check_programs(shim):
    for name in ("one", "two"):
        (shim.place / name).write_text("a 1\nb 2\nc 3\n")
    for line in COREUTILS:
        done = [shim.run(["sh", "-c", line], level) for level in (None, "lazy")]
        expect(f"{line}: {done}", (done[0].returncode, done[0].stdout, done[0].stderr) == (done[1].returncode, done[1].stdout, done[1].stderr))


def check_options(shim, program, tc_run):
    """Without the memory, a device or libtc a line says so, and the program runs as at level eager."""
    for more, says in ({"LD_PRELOAD": str(shim.path)}, "libtc-shim-memory.so is not preloaded"), ({"TC_SHIM": "writeback", "TC_SHIM_DEVICE": "tc:hip", "TC_HIP_LIBRARY": "/nowhere"}, "writeback is eager"):
        done = shim.run([program, "touch"], "lazy", **more)
        expect(f"{more}: {done}", done.returncode == 0 and done.stderr.count("\n") == 1 and says in done.stderr)
    for case in ("twice", "chain", "free"):  # what libtc has no memory for, plain loops do
        done = shim.run([program, case], "lazy", TC_MEMORY_CAP="1000")
        expect(f"{case} without memory for tensors: {done}", done.returncode == 0 and done.stderr.count("\n") == 1 and "cannot run" in done.stderr)
    files = shim.place / "kernels"
    limited = ["sh", "-c", f"ulimit -f 0; exec {program} chain"]
    done, *_ = shim.profiled(limited, "lazy", TC_CACHE_DIR=str(files))  # the profile cannot be written, nor a kernel
    expect(f"chain with ulimit -f 0: {done}", done.returncode == 0 and "File too large" in done.stderr)
    done = shim.run([tc_run, "--shim=lazy", "--profile", shim.place / "by-run.json", "--", program, "touch"], None)
    text = (shim.place / "by-run.json").read_text()
    expect(f"tc-run: {done} {text[:300]}", done.returncode == 0 and not done.stderr and '"deferred": 2' in text)
    for level, given, wanted in ("off", {}, None), ("lazy", {}, "20"), ("eager", {"OPENBLAS_THREAD_TIMEOUT": "7"}, "7"):
        done = shim.run([tc_run, f"--shim={level}", "--", "env"], None, **given)
        found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line).get("OPENBLAS_THREAD_TIMEOUT")
        expect(f"tc-run {level} {given}: OPENBLAS_THREAD_TIMEOUT is {found}, not {wanted}", found == wanted)


def main():
    reference = need_reference()
    shim_path, memory, libtc, llvm, tc_run, cuda, nvrtc = sys.argv[1:]
    shim = Deferring(shim_path, memory, libtc, llvm, cuda, nvrtc)
    flags = [f"{reference}/libblas.so.3", f"-Wl,-rpath,{reference}", "-lpthread", "-ldl", "-lm"]
    program, memory_program = shim.compile("defer", HERE / "defer.c", *flags), shim.compile("memory", HERE / "memory.c", *flags)
    (shim.place / "inner.c").write_text("int inner(void) {\n  return 1;\n}\n")
    (shim.place / "module.c").write_text(MODULE)
    inner = shim.compile("libinner.so", shim.place / "inner.c", "-shared", "-fPIC")
    module = shim.compile("module.so", shim.place / "module.c", "-shared", "-fPIC", str(inner), f"-Wl,-rpath,{shim.place}")
    check_cases(shim, program)
    check_memory(shim, memory_program, module)
    check_memory(shim, shim.compile("pages", HERE / "pages.c", *flags), "", PAGES)
    check_allocator(shim, *flags)
    check_beside(shim, *flags)
    check_leaks(shim, *flags)
    check_least(shim, *flags)
    check_numpy(shim)
    check_scripts(shim)
    check_programs(shim)
    check_bare(shim, [program, "chain"], ("eager", "lazy"), reference)
    check_options(shim, program, os.path.abspath(tc_run))
    shim.close()
    print("\n".join(problems) or "what is deferred is never seen")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
