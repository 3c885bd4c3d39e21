"""What the tests of the shim share: BLAS's libraries on this machine, running a program with the shim, reading its profile."""
import collections
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Debian's: each directory has a libblas.so.3 of its own.
PROVIDERS = {name: found[0] for name, pattern in (("reference", "blas"), ("openblas", "openblas-pthread"), ("blis", "blis-openmp"), ("atlas", "atlas"))
             if (found := [os.path.dirname(p) for p in glob.glob(f"/usr/lib/*/{pattern}/libblas.so.3")])}


def need_reference():
    if "reference" not in PROVIDERS:
        print("no reference BLAS is installed (libblas3)")
        sys.exit(77)
    return PROVIDERS["reference"]


class Shim:
    """The shim beside a libtc of plain loops, in a directory of their own."""

    def __init__(self, shim, standin=None):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.path = self.place / "libtc-shim.so"
        self.path.symlink_to(os.path.abspath(shim))
        if standin:
            (self.place / "libtc.so.0").symlink_to(os.path.abspath(standin))

    def close(self):
        shutil.rmtree(self.place)

    def environment(self, level, library=None, preload=(), **more):
        """Of a program at a level; None: without the shim. The library is a directory."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TC_", "LD_"))}
        env.update(OPENBLAS_NUM_THREADS="1", BLIS_NUM_THREADS="1")
        if library:
            env["LD_LIBRARY_PATH"] = library
        loaded = [*map(str, preload), *([str(self.path)] if level else [])]
        if loaded:
            env["LD_PRELOAD"] = ":".join(loaded)
        if level:
            env["TC_SHIM"] = level
        return {**env, **more}

    def run(self, command, level, stdin=None, cwd=None, **more):
        with open(stdin or os.devnull) as source:
            return subprocess.run(list(map(str, command)), env=self.environment(level, **more), stdin=source, cwd=cwd or self.place,
                                  capture_output=True, text=True, timeout=120, errors="replace")

    def profiled(self, command, level, **more):
        """Runs it; (what came of it, name -> calls, name -> calls that libtc did, all lines)."""
        profile = self.place / "profile.json"
        profile.unlink(missing_ok=True)
        done = self.run(command, level, TC_SHIM_PROFILE=str(profile), **more)
        lines = [json.loads(line) for line in profile.read_text().splitlines()] if profile.exists() else []
        calls, direct = collections.Counter(), collections.Counter()
        for line in lines:
            if line["kind"] == "site":
                calls[line["name"]] += line["calls"]
                direct[line["name"]] += line["direct"]
        return done, calls, direct, lines

    def compile(self, name, text_or_path, *flags):
        """A program of C against the reference's names."""
        output = self.place / name
        path = pathlib.Path(text_or_path)
        subprocess.run([os.environ.get("CC", "cc").split()[-1], "-O1", "-g", "-Wall", "-I", str(ROOT), "-o", str(output), str(path), *flags], check=True)
        return output


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout.splitlines()
    return {words[2].split("@")[0] for words in map(str.split, lines) if len(words) == 3}
