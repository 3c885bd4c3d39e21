#!/usr/bin/env python3
"""Builds the example back end outside the tree, as its README says, against an installed tc: outside.py BUILD_DIR.

The library is installed into an empty directory, and examples/backend copied to another. There the README's commands are run as they stand; what they print is
held to what the page shows, where N is any number. The object must need nothing of tc's, and the example stay within 500 lines.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run(command, cwd, env):
    done = subprocess.run(["sh", "-ec", command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def matches(shown, printed):
    """Whether lines are as shown: `...` stands for any, and N for a number."""
    pattern = re.escape(shown.strip("\n")).replace(r"\.\.\.", r"(?:.*\n)*?.*").replace("N", r"\d+")
    return re.fullmatch(pattern, printed.strip("\n")) is not None


def main():
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as root:
        prefix, work = os.path.join(root, "installed"), os.path.join(root, "work")
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", prefix], check=True, stdout=subprocess.DEVNULL)
        pc = subprocess.run(["find", prefix, "-name", "tc.pc"], capture_output=True, text=True, check=True).stdout.strip()
        libdir = os.path.dirname(os.path.dirname(pc))
        bindir = os.path.dirname(subprocess.run(["find", prefix, "-name", "tc-conform"], capture_output=True, text=True, check=True).stdout.strip())
        example = subprocess.run(["find", prefix, "-path", "*/examples/backend"], capture_output=True, text=True, check=True).stdout.strip()
        shutil.copytree(example, work)
        assert len(open(os.path.join(work, "toy.c")).readlines()) <= 500, "toy.c is longer than 500 lines"
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": prefix, "LD_LIBRARY_PATH": libdir,
               "PATH": bindir + ":" + os.environ["PATH"], "TC_LLVM_PATH": ""}
        env.pop("TC_BACKEND_PATH", None)
        page = open(os.path.join(work, "README.md")).read()
        blocks = re.findall(r"((?:^    .*\n)+)", page, re.M)
        blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in blocks]
        build_it, conformed, use_it, used, by_name = blocks[1:6]
        assert build_it.split("\n")[:2] == ["make", "tc-conform ./toy.so"], build_it
        said = subprocess.run(["make"], cwd=work, env=env, capture_output=True, text=True)
        assert said.returncode == 0 and "warning" not in said.stderr, said.stdout + said.stderr
        printed = run("tc-conform ./toy.so", work, env)
        first = printed.split("\n", 1)
        assert first[0].startswith("tc:toy is "), first[0]
        assert matches(conformed, first[1]), printed
        assert "FAILED" not in printed, printed
        printed = run(use_it, work, env)
        assert matches(used, printed), printed
        # Any program, by the name of the device.
        printed = run(by_name.replace("./program", "./use ./toy.so"), work, {**env, "TC_LOG": "backend"})
        assert matches(used, printed), printed
        needs = run("readelf -d toy.so", work, env)
        assert "libtc" not in needs, needs
    print("examples/backend is built and used outside the tree as its README says")


main()
