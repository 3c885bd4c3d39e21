#!/usr/bin/env python3
"""The API reference is complete: reference.py LIBRARY, from the root of the sources.

Every function that the library exports has a comment with its shapes, types and errors; where comments are taken away, each declaration is told of; and
Doxygen, where it is installed, has nothing to warn of.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run(*words, code=0, **how):
    done = subprocess.run(words, capture_output=True, text=True, **how)
    assert done.returncode == code, f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def without_comments(root):
    """What is told of headers whose comments are gone, those of one declaration or all."""
    for folder in ("include", "tools"):
        shutil.copytree(folder, f"{root}/{folder}")
    for name in os.listdir(f"{root}/include/tc"):
        path = f"{root}/include/tc/{name}"
        text = open(path).read()
        with open(path, "w") as f:
            f.write(re.sub(r"(?m)^ *//(?! ----).*\n|  // .*$", "", text))
    return run("python3", f"{root}/tools/make_reference.py", "--check", code=1)


def main():
    run("python3", "tools/make_reference.py", "--check")
    names = set(run("python3", "tools/make_reference.py", "--names").split())
    exported = {line.split()[2] for line in run("nm", "-D", "--defined-only", sys.argv[1]).splitlines()}
    exported = {e for e in exported if not e.startswith(("__jit_debug_", "tc_gdb_"))}  # of GDB's JIT interface
    missing = sorted(e for e in exported if e not in names and e.removesuffix("_at") not in names)
    assert len(exported) > 400 and not missing, missing
    with tempfile.TemporaryDirectory() as root:
        told = set(re.findall(r": (\w+) has no comment", without_comments(root)))
        assert names == told, names ^ told
        if not shutil.which("doxygen"):
            print("Doxygen is not installed: whether it warns is not seen")
            return
        run("python3", "tools/make_reference.py", f"{root}/build/docs/input")
        run("doxygen", os.path.abspath("docs/Doxyfile"), cwd=root, env={**os.environ, "TC_VERSION": "0"})
        assert os.path.exists(f"{root}/build/docs/html/index.html")


main()
