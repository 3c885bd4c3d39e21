#!/usr/bin/env python3
"""tc-run --minify and --bisect on planted bugs: minify.py TC-RUN PLANTED-TC-RUN PLANTED-LIBTC CC.., from the root of the sources.

A program (program.c) is run with a bug planted (plants.c) and logs its traces, of more than 100 nodes. Of each bug the trace is made small, at most 5 nodes; the
C program that is printed compiles, fails with the bug, and does not without it; and the pass or part that has the bug is named. A trace that does not fail, and
files that are no traces, have the statuses that the manual says.
"""
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

tc_run, planted, library, *cc = sys.argv[1:]
folder = tempfile.mkdtemp(prefix="tc-minify-")
cpu = {"TC_CACHE_BYTES": "0"}


def run(args, seconds=100, **env):
    return subprocess.run(args, env={**os.environ, **cpu, **env}, capture_output=True, text=True, errors="replace", timeout=seconds)


def check(condition, *what):
    if not condition:
        sys.exit("\n".join(str(x) for x in what))


def path(name):
    return os.path.join(folder, name)


def write(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def read(name):
    with open(path(name)) as f:
        return f.read()


def compile_program(source, program):
    done = run([*cc, "-Wall", "-Wextra", "-Werror", "-Iinclude", source, "-o", program, library, "-lm", "-Wl,-rpath," + os.path.dirname(library)])
    check(done.returncode == 0, source, done.stderr)
    return program


def log_of(plant, seconds=20, name="log"):
    """What the program logs; where it does not end, what it logged until then."""
    with open(path(name), "w") as f:
        try:
            subprocess.run([program], env={**os.environ, **cpu, "PLANT": plant, "TC_LOG": "trace"}, stderr=f, stdout=subprocess.DEVNULL, timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
    return path(name)


def count_nodes(text):
    return len(re.findall(r"^(?:tc\[trace\] )?%\d+ = ", text, re.M))


# ---- planted bugs ----

program = compile_program("tests/minify/program.c", path("program"))
WHAT = {  # the bug: what bisect says, of which the small program is to exit
    "maximum": (r"^pass fold_transpose: ", 1),
    "softmax": (r"^pass expand_softmax: ", 1),
    "crash": (r"^pass mark_prologue: crashes: Aborted$", -6),
    "hang": (r"^pass store_at_producer: does not end$", None),
    "error": (r"^pass sink_permute: fails: .*no code for tanh", 1),
    "circle": (r"^pass commute_matmul: fails: .*in a circle", None),
    "tanh": (r"^so it is in the emitter of that record", 1),
    "fused": (r"^so it is in fusion, emitters of fused kernels, or memory", 1),
    "nan": (r"^so it is in the emitter of that record", 1),
}


def exit_status(binary, plant):
    try:
        return run([binary], 2, PLANT=plant).returncode
    except subprocess.TimeoutExpired:
        return None


def shrink_planted(plant):
    words, status = WHAT[plant]
    log = log_of(plant, 1, f"log-{plant}")
    small_path = f"small-{plant}"
    check(count_nodes(read(f"log-{plant}")) > 100, plant, "the trace is small", read(f"log-{plant}")[:2000])
    short = ["--timeout", "0.4"] if status is None else []
    done = run([planted, "--minify", *short, "-o", path(small_path), log], PLANT=plant)
    check(done.returncode == 0, plant, done.stdout, done.stderr)
    nodes = count_nodes(read(f"{small_path}.trace"))
    check(nodes <= 5, plant, f"{nodes} nodes are left", read(f"{small_path}.trace"), done.stderr)
    attempts = int(re.search(r"nodes are left after (\d+) attempts", done.stderr).group(1))
    small = compile_program(path(f"{small_path}.c"), path(small_path))
    check(exit_status(small, plant) == status or (plant == "circle" and exit_status(small, plant) != 0), plant, exit_status(small, plant), read(f"{small_path}.c"))
    check(exit_status(small, "") == 0, plant, "fails without the bug", read(f"{small_path}.c"))
    named = run([planted, "--bisect", *short, path(f"{small_path}.trace")], PLANT=plant)
    check(named.returncode == 0 and re.search(words, named.stdout, re.M), plant, named.stdout, named.stderr)
    whole = run([planted, "--bisect", *short, log], PLANT=plant)
    check(whole.returncode == 0 and re.search(words, whole.stdout, re.M), plant, whole.stdout, whole.stderr)
    if words.startswith("^pass "):
        check(re.search("^before ", named.stdout, re.M), plant, "there is no graph", named.stdout)
    print(f"{plant}: {count_nodes(read(f'log-{plant}'))} nodes, {nodes} are left after {attempts} attempts; {re.search(words, named.stdout, re.M).group(0)}")


# What does not end only waits: beside the others.
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for done in [pool.submit(shrink_planted, plant) for plant in sorted(WHAT, key=lambda plant: plant != "hang")]:
        done.result()

# The pass is named behind a convolution by Winograd's algorithm, too, for whose nodes there is no reference kernel.
one = str(1 << 32 | 1)
conv = write("conv.trace", f"""trace conv
%0 = leaf f32[2,16,16,16] tc:cpu live
%1 = leaf f32[16,16,3,3] tc:cpu live
%2 = conv f32[2,16,16,16] tc:cpu in %0 %1 attr {one} {one} {one} {one} 1
%3 = reshape f32[2,4096] tc:cpu in %2
%4 = softmax f32[2,4096] tc:cpu in %3 attr 1 live asked
end
""")
named = run([planted, "--bisect", conv], PLANT="softmax")
check(named.returncode == 0 and re.search(r"^pass expand_softmax: ", named.stdout, re.M), named.stdout, named.stderr)

# ---- nothing is wrong ----

log = log_of("")
for args in (["--minify", log], ["--bisect", log], ["--minify", conv], ["--minify", "--verify", log], ["--minify", "tests/traces/mixed.trace"],
             ["--minify", "--check", "false", log]):
    done = run([planted, *args], PLANT="")
    check(done.returncode == 2 and "no trace fails" in done.stderr, args, done.returncode, done.stdout, done.stderr)

# The same again: shrinking is deterministic.
log = log_of("softmax")
first, second = (run([planted, "--minify", log], PLANT="softmax").stdout for _ in range(2))
check(first and first == second, "two runs give two programs", first, second)

# ---- a command says what fails ----

done = run([planted, "--minify", "--check", "grep -q softmax", "-o", path("small"), log], PLANT="")
check(done.returncode == 0 and "softmax" in read("small.trace") and count_nodes(read("small.trace")) == 2, done.stderr, read("small.trace"))

# ---- TC_VERIFY ----

done = run([planted, "--minify", "-v", "-o", path("small"), log_of("tanh")], PLANT="tanh")
check(done.returncode == 0 and count_nodes(read("small.trace")) <= 5, done.stderr)
small = compile_program(path("small.c"), path("small"))
check(exit_status(small, "tanh") == 1 and exit_status(small, "") == 0, read("small.c"))

# ---- TC_ANOMALY on a replay: op, value, and the line of the program; without a line the number of the node ----

with open("tests/minify/program.c") as f:
    line = [n for n, text in enumerate(f, 1) if "tc_tanh(" in text][0]
log = log_of("nan")
done = run([planted, log], PLANT="nan", TC_ANOMALY="1")
check(done.returncode == 1, done.stdout, done.stderr)
check(re.search(rf"TC_ANOMALY: tanh at tests/minify/program.c:{line}: tanh f32\[6, 12\] made nan at element \d+, of f32\[6, 12\] ", done.stderr), done.stderr)
check(re.search(rf"^tc-run: .*tanh.*made nan.*program.c:{line}", done.stderr, re.M), done.stderr)
bare = write("bare.trace", re.sub(r" @ .*", "", read("log")))
done = run([planted, bare], PLANT="nan", TC_ANOMALY="1")
check(re.search(r"TC_ANOMALY: tanh at %\d+: tanh f32\[6, 12\] made nan", done.stderr), done.stderr)
done = run([planted, "--minify", "-o", path("small"), log], PLANT="nan", TC_ANOMALY="1")
check(done.returncode == 0 and count_nodes(read("small.trace")) <= 3 and "made nan" in done.stderr, done.stderr, read("small.trace"))

# ---- every kind of record as a call: the program has the values of the reference kernels ----


def trace_of_rows():
    """A trace with each elementwise row of the op table, and of the others those that layers.c has not."""
    lines = ["trace rows", "%0 = leaf f32[2,3] tc:cpu live", "%1 = leaf i32[2,3] tc:cpu live", "%2 = leaf bool[2,3] tc:cpu live", "%3 = leaf i64[2,3] tc:cpu live",
             "%4 = leaf f32[3] tc:cpu live"]
    types = {"boolean": "bool", "compare": "bool", "logical": "bool", "integral": "i32", "integer": "i32"}

    def add(name, shape, operands, rest=""):
        lines.append(f"%{len(lines) - 1} = {name} {shape} tc:cpu in {operands} {rest} live asked")

    with open("include/tc/ops.def") as f:
        rows = re.findall(r"^TC_OP\(\w+, +(\w+), +ELEM, +(\d), +(\w+),", f.read(), re.M)
    for name, arity, rule in rows:
        operand = {"logical": "%2", "integral": "%1", "integer": "%1"}.get(rule, "%0")
        if name == "logical_not":
            operand = "%2"
        if name == "where":
            add(name, "f32[2,3]", "%2 %0 %0")
        elif name == "cast":
            add(name, "i64[2,3]", "%0")
        elif name == "polygamma":
            add(name, "f32[2,3]", "%0", "attr 2")
        else:
            add(name, types.get(rule, "f32") + "[2,3]", " ".join([operand] * int(arity)))
    for name in ("prod", "max", "min"):
        add(name, "f32[2]", "%0", "attr 2")
    for name in ("any", "all"):
        add(name, "bool[1,3]", "%2", "attr 257")
    for name in ("argmax", "argmin"):
        add(name, "i64[2]", "%0", "attr 2")
    for name in ("cumprod", "cummax", "cummin", "logcumsumexp"):
        add(name, "f32[2,3]", "%0", "attr 1")
    for name in ("softmax", "log_softmax"):
        add(name, "f32[2,3]", "%0", "attr 0")
    for name in ("scatter", "scatter_add"):
        add(name, "f32[2,3]", "%0 %3 %0", "attr 0")
    add("argtopk", "i64[2,2]", "%0", "attr 1 1")
    add("searchsorted", "i64[2,3]", "%4 %0", "attr 1")
    lines += ["data %0 3e800000 3f000000 3f400000 3f800000 3fc00000 bf000000", "data %1 00000001 00000002 00000003 00000004 00000005 00000006",
              "data %2 00 01 01 00 01 00", "data %3 " + " ".join(f"{v:016x}" for v in (0, 1, 1, 1, 0, 0)), "data %4 3e800000 3f000000 3f800000", "end"]
    return "\n".join(lines) + "\n"


layers = compile_program("tests/minify/layers.c", path("layers"))
with open(path("layers.log"), "w") as f:
    done = subprocess.run([layers], env={**os.environ, **cpu, "TC_LOG": "trace", "TC_TRACE_BYTES": "100000"}, stderr=f)
check(done.returncode == 0, read("layers.log")[-2000:])
n_calls = 0
for log, number in [(path("layers.log"), k) for k in (1, 2, 3)] + [(write("rows.trace", trace_of_rows()), 1), ("tests/traces/mixed.trace", 2)]:
    done = run([tc_run, "--minify", "--check", "true", "--attempts", "1", "-t", str(number), "-o", path("whole"), log])
    check(done.returncode == 0, log, number, done.stderr)
    done = run([compile_program(path("whole.c"), path("whole"))])
    check(done.returncode == 0 and "no value is wrong" in done.stdout, log, number, done.stdout, done.stderr)
    n_calls += read("whole.c").count(" made(")
print(f"programs of {n_calls} calls have the right values")

# ---- files that are no traces ----

for args, words in ((["--minify", path("absent")], "cannot be read"), (["--minify", write("empty", "")], "has 0 traces"),
                    (["--minify", write("cut", "trace x\n%0 = leaf f32[2] tc:cpu live\n")], "the trace has no end"),
                    (["--minify", write("op", "trace x\n%0 = frobnicate f32[2] tc:cpu live\nend\n")], "line 2: frobnicate is no op"),
                    (["--bisect", write("fit", "trace x\n%0 = leaf f32[2] tc:cpu live\n%1 = exp f32[3] tc:cpu in %0 live asked\nend\n")], "does not fit"),
                    (["--minify", write("large", "trace x\n%0 = leaf f32[4000000,4000000] tc:cpu live\n%1 = exp f32[4000000,4000000] tc:cpu in %0 live asked\nend\n")],
                     "bytes, and"),
                    (["--minify"], "one file is wanted"), (["--minify", "--bisect", log], "at a time"), (["--minify", "--frobnicate", log], "no option"),
                    (["--minify", "--timeout", "x", log], "no value"), (["--minify", "-t", "9", log], "traces")):
    done = run([tc_run, *args])
    check(done.returncode == 1 and words in done.stderr and not done.stdout, args, words, done.returncode, done.stdout, done.stderr)

random.seed(5)
with open("tests/traces/mixed.trace", "rb") as f:
    whole = f.read()
for k in range(40):
    broken = bytearray(whole[:random.randrange(len(whole))] if k % 2 else whole)
    for _ in range(k % 5):
        broken[random.randrange(len(broken))] = random.choice(b"0123456789[], %-\n\xffx")
    with open(path("broken"), "wb") as f:
        f.write(broken)
    done = run([tc_run, "--minify", "--timeout", "5", "--attempts", "60", path("broken")])
    check(done.returncode in (0, 1, 2) and done.stderr, k, broken, done.returncode, done.stdout, done.stderr)
print("files that are no traces are errors")
