#!/usr/bin/env python3
"""./dev tells a wrong word and the nearest right one, and prints its help where it is asked; meson.build builds no tests by itself: dev.py, from the root of the
sources."""
import json
import re
import subprocess


def dev(*words):
    done = subprocess.run(["./dev", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def main():
    helps = {dev(*words) for words in ([], ["help"], ["--help"], ["-h"], ["soak", "--help"])}
    assert len(helps) == 1, helps
    rc, out, err = helps.pop()
    commands = list(dict.fromkeys(re.findall(r"^ +\./dev (\w+)", out, re.M)))
    assert rc == 0 and not err and {"build", "test", "lint", "bench"} <= set(commands), (rc, out, err)
    for word, near in ("tset", "test"), ("biuld", "build"), ("--format", "format"), ("xyzzy", None):
        rc, out, err = dev(word)
        assert rc == 2 and not out and f"'{word}'" in err and all(command in err for command in commands), (rc, out, err)
        assert (f"nearest is '{near}'" in err) if near else "nearest" not in err, err
    rc, out, err = dev("test", "gppu")
    assert rc == 2 and not out and "'gppu'" in err, (rc, out, err)
    one_too_many = ["demo extra words", "docs extra", "setup extra", "lint extra", "soak 1 extra", "compile build extra", "test gpu extra"]
    for words in one_too_many:
        rc, out, err = dev(*words.split())
        assert rc == 2 and not out and "takes no 'extra'" in err, (words, rc, out, err)
    # What nobody asked for is not built: tests and the benchmark take four times as long as the rest.
    said = subprocess.run(["meson", "introspect", "--buildoptions", "meson.build"], check=True, capture_output=True, text=True).stdout
    options = {option["name"]: option["value"] for option in json.loads(said)}
    assert options["tests"] == "none" and options["bench"] is False, options


main()
