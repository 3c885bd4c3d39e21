#!/usr/bin/env python3
"""Does what docs/tutorial.md says: tutorial.py BUILD_DIR [--write], from the root of the sources.

The library is installed into an empty directory; the page's listings are files there, its commands are run in order, and what they print is compared: words as
they are, numbers up to what another order of adding changes, and what TC_LOG and TC_PROFILE tell without its numbers. --write puts what they print into the page where it differs.
"""
import os
import re
import subprocess
import sys
import tempfile

from installed import Installed, run

PAGE = "docs/tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
# What a build without jansson cannot do, and what goes on from there.
NEEDS_FILES = re.compile(r"\./(cnn|predict)|run\.safetensors")


def same(want, got, loosely):
    """Whether two lines say the same."""
    want, got = (re.sub(r"\b[0-9a-f]{16}\b", "HASH", line) if loosely else line for line in (want, got))
    want, got = (re.sub(r"\b(interp|llvm)\b", "TIER", line) for line in (want, got))
    a, b = NUMBER.findall(want), NUMBER.findall(got)
    if [w.split() for w in NUMBER.split(want)] != [w.split() for w in NUMBER.split(got)]:
        return False
    return loosely or all(abs(float(x) - float(y)) <= 0.02 * abs(float(x)) + 2e-3 for x, y in zip(a, b))


class Page:
    def __init__(self, lib, home):
        self.folder = os.path.join(home, "work")
        os.mkdir(self.folder)
        os.symlink(os.getcwd(), os.path.join(home, "tc"))
        strict = os.path.join(home, "bin")
        os.mkdir(strict)
        with open(os.path.join(strict, "cc"), "w") as f:
            f.write('#!/bin/sh\nexec /usr/bin/env PATH="$CC_PATH" cc -Wall -Wextra -Werror -Wpedantic -std=c11 "$@"\n')
        os.chmod(f.name, 0o755)
        told = {k: v for k, v in os.environ.items() if not k.startswith("TC_")}
        self.environment = {**told, **lib.pkg, "HOME": home, "LD_LIBRARY_PATH": lib.libdir, "TC_CACHE_DIR": os.path.join(home, "cache"), "CC_PATH": os.environ["PATH"],
                            "PATH": strict + ":" + os.environ["PATH"]}
        self.has_files = "libjansson" in run("readelf", "-d", os.path.join(lib.libdir, "libtc.so"))
        self.plugin = lib.plugin
        self.n_listings = self.n_commands = 0

    def listing(self, text):
        name = re.match(r"// (\w+\.[ch]): ", text)
        assert name, f"a listing does not begin with its file's name: {text[:80]}"
        with open(os.path.join(self.folder, name.group(1)), "w") as f:
            f.write(text)
        self.n_listings += 1

    def command(self, line, want):
        """What it prints, which should be want; that where this build cannot."""
        if NEEDS_FILES.search(line) and not self.has_files:
            return want
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"$ {line}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        # Where no compiler was built, the library says so.
        got = [text for text in done.stdout.splitlines() if os.path.exists(self.plugin) or not text.startswith("tc[warn] no compiler")]
        loosely = "TC_LOG" in line or "TC_PROFILE" in line
        self.n_commands += 1
        if len(want) == len(got) and all(same(w, g, loosely) for w, g in zip(want, got)):
            return want
        assert "--write" in sys.argv, f"$ {line}\n" + "\n".join(got) + "\nin place of\n" + "\n".join(want)
        return got

    def transcript(self, text):
        out = []
        for part in re.split(r"^(?=\$ )", text, flags=re.M)[1:]:
            line, *want = part.splitlines()
            out += [line] + self.command(line[2:], want)
        return "\n".join(out) + "\n"

    def block(self, found):
        kind, text = found.groups()
        if kind == "c":
            self.listing(text)
            return found.group()
        return f"```{kind}\n{self.transcript(text)}```"


def main():
    with tempfile.TemporaryDirectory() as home:
        lib = Installed(sys.argv[1], os.path.join(home, "root"))
        page = Page(lib, home)
        text = open(PAGE).read()
        written = BLOCK.sub(page.block, text)
        assert page.n_listings > 8 and page.n_commands > 8, (page.n_listings, page.n_commands)
        if "--write" in sys.argv:
            with open(PAGE, "w") as f:
                f.write(written)


main()
