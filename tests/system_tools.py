#!/usr/bin/env python3
"""gdb and perf see generated code by its names: system_tools.py gdb|perf PROGRAM, an example program that trains. Exits 77 with a sentence where the tool
is not installed or may not look into processes.

gdb: a breakpoint at a kernel's name, which another run has logged, stops in it; the stack reaches main from its first instruction and from further on;
lines are those of the kernel IR where TC_PERF=jitdump asks for them.
perf: `perf report` has the kernels' names, by the map alone and by jitdump, whose lines are those of the kernel IR.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NAME = re.compile(r"\btc_[a-z0-9]+_\w+_[0-9a-f]{4}\b")
SETTINGS = {"TC_INTERPRET_FIRST": "0", "TC_CACHE_BYTES": "0", "TC_NUM_THREADS": "1", "TC_GENERIC_KERNELS": "0"}
problems = []


def skip(sentence):
    print(sentence)
    sys.exit(77)


def run(command, place, seconds=120, **settings):
    done = subprocess.run([str(word) for word in command], cwd=place, env={**os.environ, **SETTINGS, **settings}, capture_output=True, text=True,
                          errors="replace", timeout=seconds, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def expect(condition, what, text):
    if not condition:
        problems.append(f"{what}:\n{text[-4000:]}")


def compiled_names(program, place):
    status, text = run([program], place, TC_LOG="kernel")
    found = [match.group() for line in text.splitlines() if line.startswith("tc[kernel] compiled ") for match in [NAME.search(line)] if match]
    if status != 0:
        problems.append(f"{program} ends with {status}: {text[-2000:]}")
    elif not found:
        skip("kernels are not compiled here")
    return found


def debug(program, place, name, *commands, **settings):
    words = ["set confirm off", "set pagination off", "set breakpoint pending on", "set debuginfod enabled off", f"break {name}", "run", *commands, "kill"]
    return run(["gdb", "-nx", "-batch", *[word for command in words for word in ("-ex", command)], "--args", program], place, **settings)[1]


def frames(text):
    return re.findall(r"^#(\d+) .*?(?:in )?(\w+) \(", text, re.M)


def check_gdb(program, place):
    if not shutil.which("gdb"):
        skip("gdb is not installed")
    status, text = run(["gdb", "-nx", "-batch", "-ex", "break main", "-ex", "run", "-ex", "kill", "--args", program], place)
    if "Breakpoint 1, " not in text:
        skip("gdb may not debug processes here")
    names = compiled_names(program, place)
    name = names[0]
    text = debug(program, place, name, "bt", "stepi 12", "bt", "info symbol $pc", "print $pc")
    stops = text.split("Breakpoint 1, ", 1)
    expect(len(stops) == 2 and name in stops[1].splitlines()[0], f"gdb does not stop in {name}", text)
    seen = [function for _, function in frames(text)]
    expect(seen.count(name) >= 2 and seen.count("main") >= 2, f"the stack does not go from {name} to main, at its begin and later", text)
    expect(re.search(rf"^{name}\b.* in section \.text", text, re.M), f"gdb does not know the symbol of an address in {name}", text)
    text = debug(program, place, name, "stepi 40", "bt 1", "info source", TC_PERF="jitdump")
    expect(re.search(rf"{name}\.kir:\d+", text), f"gdb has no line of the kernel IR of {name}", text)
    return f"gdb stops in {name}, and sees {len(names)} kernels' names"


def read_report(place, data, *options):
    return run(["perf", "report", "--stdio", "-i", data, *options], place)[1]


def check_perf(program, place):
    if not shutil.which("perf"):
        skip("perf is not installed")
    record = ["perf", "record", "-e", "cpu-clock", "-F", "5000", "-k", "1", "-o"]
    status, text = run([*record, place / "try.data", "true"], place)
    if status != 0:
        skip("perf may not record here: " + " ".join(text.split())[:200])
    names = compiled_names(program, place)
    status, text = run([*record, "map.data", "--", program], place, TC_PERF="map")
    expect(status == 0, "perf record", text)
    report = read_report(place, "map.data", "--sort", "symbol")
    found = set(NAME.findall(report))
    expect(found & set(names), f"the report has none of {names}, by the map", report)
    expect(found <= set(names), f"the report has other names than {names}", report)
    for path in re.findall(r"/tmp/perf-\d+\.map", read_report(place, "map.data", "--sort", "dso")):
        pathlib.Path(path).unlink(missing_ok=True)
    status, text = run([*record, "dump.data", "--", program], place, TC_PERF="jitdump")
    expect(status == 0, "perf record", text)
    status, text = run(["perf", "inject", "--jit", "-i", "dump.data", "-o", "injected.data"], place)
    expect(status == 0, "perf inject", text)
    report = read_report(place, "injected.data", "--sort", "symbol")
    dumped = set(NAME.findall(report))
    expect(dumped & set(names) and dumped <= set(names), f"the report has not the names of {names}, by jitdump", report)
    if shutil.which("objdump") and dumped:
        text = run(["perf", "annotate", "--stdio", "-i", "injected.data", "-s", sorted(dumped)[0]], place)[1]
        expect(re.search(r": *\d+ +.*%\d+ = i64 ", text) and re.search(r"[0-9a-f]+: +\w+ .*%", text), "the annotated code has no kernel IR", text)
    return f"perf names {len(found)} kernels by the map, {len(dumped)} by jitdump"


def main():
    tool, program = sys.argv[1], os.path.abspath(sys.argv[2])
    with tempfile.TemporaryDirectory() as place:
        sentence = {"gdb": check_gdb, "perf": check_perf}[tool](program, pathlib.Path(place))
    print("\n".join(problems) or sentence)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
