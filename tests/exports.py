#!/usr/bin/env python3
"""The symbols of the libraries: libtc.so exports tc_ names alone, but for those of GDB's JIT interface, and calls none of them through a table that another library could fill; neither it nor
libtc.a has a name that a library of Debian exports (other_names.txt); a program runs with libraries preloaded that do export those.

exports.py LIBTC_SO LIBTC_A PROGRAM CC..   PROGRAM is linked to LIBTC_SO
"""
import os
import pathlib
import subprocess
import sys
import tempfile

TCMALLOC = ["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]
OF_GDB = {"__jit_debug_descriptor", "__jit_debug_register_code"}  # gdb fixes the names
problems = []


def names(*command):
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[2].split("@")[0] for words in map(str.split, lines) if len(words) == 3}


def runs(program, library):
    done = subprocess.run([program], env={**os.environ, "LD_PRELOAD": str(library)}, capture_output=True, text=True)
    if done.returncode != 0:
        problems.append(f"with {library} preloaded the program ends with {done.returncode}: {done.stderr}")
    return "cannot be preloaded" not in done.stderr


def main():
    shared, static, program, *cc = sys.argv[1:]
    listed = pathlib.Path(__file__).with_name("other_names.txt").read_text().splitlines()
    others = {line for line in listed if line and not line.startswith("#")}
    exported = names("nm", "-D", "--defined-only", shared)
    if not OF_GDB <= exported:
        problems.append(f"{shared} lacks {sorted(OF_GDB - exported)}, by which gdb finds generated code")
    problems.extend(f"{shared} exports {name}" for name in sorted(exported - OF_GDB) if not name.startswith("tc_"))
    problems.extend(f"{shared} exports {name}, which another library has" for name in sorted(exported & others))
    problems.extend(f"{static} has {name}, which another library has" for name in sorted(names("nm", "-g", "--defined-only", static) & others))
    relocations = subprocess.run(["readelf", "-rW", shared], capture_output=True, text=True, check=True).stdout
    for line in relocations.splitlines():
        words = line.split()
        if len(words) >= 5 and words[4].split("@")[0] in exported and words[2].endswith(("JUMP_SLOT", "JUMP_SLO", "GLOB_DAT")):
            problems.append(f"{shared} calls its own {words[4]} through a table")
    with tempfile.TemporaryDirectory() as place:
        library = pathlib.Path(place) / "libothers.so"
        text = "#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in sorted(others))
        subprocess.run([*cc, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", library], input=text, text=True, check=True)
        runs(program, library)
    there = [name for name in TCMALLOC if runs(program, name)]
    print("\n".join(problems) or f"{len(exported)} names, none of {len(others)} others'; run beside {', '.join(there) or 'no tcmalloc, which is not installed'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
