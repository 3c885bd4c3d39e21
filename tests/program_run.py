#!/usr/bin/env python3
"""tc-run on programs in files: program_run.py TC_RUN EXPORT LIBTC CC.., from the root of the sources.

EXPORT is example-export, which writes a file. tc-run shows what is in it, runs it on .npy files without a compiler, refuses wrong command lines and wrong
files with a sentence, and --embed makes it a part of a C program that is compiled and run.
"""
import os
import struct
import subprocess
import sys
import tempfile

TC_RUN, EXPORT, LIBTC, CC = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
BARE = {**os.environ, "TC_LLVM_PATH": "/nonexistent", "TC_CACHE_BYTES": "0"}

USER = """#include <stdio.h>
#include "embedded.h"

int main(void) {
  tc_program_file *p = embedded_load();
  float point[2] = {0.5f, -1}, chance[3];
  if (!p || tc_program_run_arrays(p, 1, (tc_program_array[]){{"points", point, TC_F32, TC_SHAPE(1, 2)}}, 1,
                                  (tc_program_array[]){{"output", chance, TC_F32, TC_SHAPE(1, 3)}}) != TC_OK)
    return fprintf(stderr, "%s\\n", tc_last_error()->message), 1;
  printf("one point: %.3f %.3f %.3f\\n", chance[0], chance[1], chance[2]);
  tc_program_close(p);
  return 0;
}
"""


def save(path, rows):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode())
        f.write(b"".join(struct.pack("<f", v) for row in rows for v in row))


def load(path):
    with open(path, "rb") as f:
        f.read(struct.unpack("<8xH", f.read(10))[0])
        return [x for x, in struct.iter_unpack("<f", f.read())]


def run(*words, status=0, say=()):
    done = subprocess.run([TC_RUN, *words], env=BARE, capture_output=True, text=True)
    assert done.returncode == status, f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    for word in say:
        assert word in (done.stderr if status else done.stdout), f"{words}: no '{word}' in: {done.stdout}{done.stderr}"
    return done.stdout


def main(folder):
    model, x, y = (f"{folder}/{name}" for name in ("model.tcx", "x.npy", "y.npy"))
    exported = subprocess.run([EXPORT, model], capture_output=True, text=True)
    if "nothing to compile with" in exported.stderr:
        return 77
    assert exported.returncode == 0, exported.stderr
    want = exported.stdout.splitlines()[0]

    run(model, say=["input points: f32[batch, 2]", "batch: 1 4", "output output: f32[1, 3]", "2 weights, 0.0 MB", "runs as "])
    save(x, [[0.5, -1]])
    run(model, "--input", x, "--output", y, "-n", "3", say=["first run", "the fastest of 3"])
    assert "one point: %.3f %.3f %.3f" % tuple(load(y)) == want, (load(y), want)
    run(model, "-i", "points=" + x, "-o", "output=" + y, "--verify")
    assert "one point: %.3f %.3f %.3f" % tuple(load(y)) == want, (load(y), want)
    run(model, "--input", x, say=["output = [["])

    run(model, "--input", "point=" + x, status=1, say=["has no input 'point'; the nearest is 'points'"])
    run(model, "--input", x, "--output", "z=" + y, status=2, say=["has no output 'z'; it has output"])
    run(model, "--output", y, status=1, say=["input 'points' is missing"])
    run(model, "--input", f"{folder}/none.npy", status=1, say=["none.npy"])
    run(model, "--nonsense", status=2, say=["there is no option --nonsense"])
    run(model, "--input", status=2, say=["a value is missing behind --input"])
    run(model, "-n", "0", status=2, say=["at least 1"])
    run(f"{folder}/none.tcx", status=1, say=["No such file"])
    save(x, [[1, 2, 3]])
    run(model, "--input", x, status=1, say=["input 'points' is [1, 3]; the program takes [batch, 2]"])
    with open(model, "rb") as f:
        text = f.read()
    with open(f"{folder}/cut.tcx", "wb") as f:
        f.write(text[:-1])
    run(f"{folder}/cut.tcx", status=1, say=["it was cut off or appended to"])
    run("--embed", model, status=2, say=["-o FILE.c"])

    run("--embed", model, "-o", f"{folder}/embedded.c", say=["embedded_load() gives the program"])
    with open(f"{folder}/user.c", "w") as f:
        f.write(USER)
    program = f"{folder}/user"
    subprocess.run([*CC, "-Wall", "-Werror", "-Iinclude", f"{folder}/user.c", f"{folder}/embedded.c", "-o", program, LIBTC,
                    "-Wl,-rpath," + os.path.dirname(os.path.abspath(LIBTC))], check=True)
    os.remove(model)
    done = subprocess.run([program], env=BARE, capture_output=True, text=True)
    assert done.stdout.strip() == want, done
    return 0


with tempfile.TemporaryDirectory(prefix="tc-program-run-") as folder:
    sys.exit(main(folder))
