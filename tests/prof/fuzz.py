#!/usr/bin/env python3
"""Damaged profiles: tc-prof reads what it can of each, or says why not, and never crashes.

fuzz.py PROGRAM [SECONDS] [--seed N]     best with a program built with -fsanitize=address,undefined
In: the fixtures, with bits flipped, words replaced, parts cut, doubled or moved. Wrong are an end by a signal, a status
other than 0 and 1, words of a sanitizer, JSON that is none, and 20 seconds. The file that showed it is kept in the
directory of temporary files, and named.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import fixtures  # noqa: E402
from golden import BLAS  # noqa: E402

WORDS = [0, 1, 7, 8, 16, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 16, (64 << 20), (64 << 20) + 8]
COMMANDS = [["report"], ["steps"], ["misses", "--all"], ["fusion", "--all"], ["memory", "--all"], ["compile"], ["sync", "1"], ["sync", "8"], ["sync", "--dot", "2"]]


def mutate(r, data):
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 4, 16, 64])):
        if len(data) < 24:
            break
        at, kind = r.randrange(len(data) - 8), r.randrange(8)
        at -= at % r.choice([1, 2, 4, 8])
        if kind == 0:
            data[at] ^= 1 << r.randrange(8)
        elif kind in (1, 2, 3):
            width = r.choice([2, 4, 4, 4, 8])
            value = r.choice(WORDS) if r.random() < 0.7 else r.getrandbits(64)
            data[at:at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        elif kind == 4:
            data[at:at + r.randrange(1, 64)] = r.randbytes(r.randrange(1, 64))
        elif kind == 5:
            length = 8 * r.randrange(1, 64)
            data[at:at] = data[at:at + length]
        elif kind == 6:
            del data[at:at + 8 * r.randrange(1, 32)]
        elif r.random() < 0.2:
            del data[at:]
    return bytes(data)


def check(program, path, command):
    done = subprocess.run([program, *command[:-1], command[-1], path] if command[0] == "sync" else [program, *command, path], capture_output=True, timeout=20,
                          stdin=subprocess.DEVNULL, env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "allocator_may_return_null=1"})
    err = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 1) or "Sanitizer" in err or "runtime error" in err:
        return f"status {done.returncode}: {err[-3000:]}"
    if done.returncode == 1 and not err:
        return "status 1 without a word why"
    if "--json" in command and done.stdout:
        try:
            json.loads(done.stdout.decode())
        except ValueError as e:
            return f"no JSON: {e}"
    return None


def main():
    program, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2][0] != "-" else 5
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    r, end, n = random.Random(seed), time.monotonic() + seconds, 0
    wholes = [made if isinstance(made, bytes) else made.data for made in (getattr(fixtures, f)() for f in ("training", "changing", "killed", "bound", "stacks", "empty"))]
    wholes.append(BLAS.encode())
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "fuzzed.prof")
    while time.monotonic() < end:
        data = mutate(r, r.choice(wholes))
        with open(path, "wb") as f:
            f.write(data)
        command = list(r.choice(COMMANDS))
        if r.random() < 0.4 and "--dot" not in command:
            command.insert(1, "--json")
        try:
            wrong = check(program, path, command)
        except subprocess.TimeoutExpired:
            wrong = "it takes more than 20 seconds"
        if wrong:
            print(f"{' '.join(command)} {path} (seed {seed}, file {n}): {wrong}")
            return 1
        n += 1
    os.unlink(path)
    os.rmdir(folder)
    print(f"{n} damaged files, from seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
