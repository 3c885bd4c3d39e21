#!/usr/bin/env python3
"""What tc-prof prints for each fixture (fixtures.py): the text against golden/, the JSON against the schema.

golden.py PROGRAM [--update]     --update writes golden/ anew, to be looked at with git diff
"""
import difflib
import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios

sys.dont_write_bytecode = True

import fixtures  # noqa: E402
from schema import problems  # noqa: E402
from writer import MEMORY, Writer  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
BLAS = """{"kind": "process", "pid": 15343, "program": "/usr/bin/python3", "wall_s": 0.48, "blas_s": 0.2596, "calls": 1632, "direct": 11, "peak_gflops": 275.0, \
"bus_gb_s": 25, "device_gflops": 20000, "device_s": 0.0248, "device_staying_s": 0.0199}
{"kind": "site", "pid": 15343, "module": "_multiarray_umath.cpython-311.so", "offset": 2718723, "symbol": "", "name": "cblas_dsyrk", "routine": "dsyrk", "calls": 1, \
"direct": 0, "size": 512, "seconds": 0.212, "gflops": 6.93, "of_peak": 0.0252, "flops": 1469000000, "shapes": 1, "strided": 0, "bytes": 10000000, "new_bytes": 5235602, \
"moved_bytes": 10000000, "largest": [1000, 1000, 734], "device_s": 0.00236, "device_staying_s": 0.000885}
{"kind": "site", "pid": 15343, "module": "libblas.so.3", "offset": 1, "symbol": "solve", "name": "zgemm_", "routine": "zgemm", "calls": 1611, "direct": 0}
{"kind": "site", "pid": 15343, "module": "libR.so", "offset": 6551, "symbol": "", "name": "dnrm2_", "routine": "dnrm2", "calls": 2, "direct": 0, "size": 524288, \
"seconds": 0.00064, "gflops": 3.984, "of_peak": 0.0145, "flops": 2097152, "shapes": 1, "strided": 0, "bytes": 4294967296, "new_bytes": 8192, "moved_bytes": 8388608, \
"largest": [524288, 0, 0], "device_s": 0.00043, "device_staying_s": 0.000225}
{"kind": "site", "pid": 15343, "module": "liboctave.so.10", "offset": 9, "symbol": "_Z5xgemmRK6MatrixS1_15blas_trans_typeS2_", "name": "dgemm_", "routine": "dgemm", \
"calls": 6, "direct": 6, "size": 512, "seconds": 0.03, "gflops": 205.5, "of_peak": 0.747, "flops": 6144000000, "shapes": 1, "strided": 0, "bytes": 92160000, \
"new_bytes": 40960000, "moved_bytes": 122880000, "largest": [800, 800, 800], "device_s": 0.00528, "device_staying_s": 0.00201}
{"kind": "site", "pid": 15343, "module": "liblapack.so.3", "offset": 7, "symbol": "dgetrf_", "name": "dgemm_", "routine": "dgemm", "calls": 12, "direct": 5, "size": 16, \
"seconds": 0.00001, "gflops": 4.0, "of_peak": 0.0145, "flops": 40000, "shapes": 2, "strided": 12, "bytes": 60000, "new_bytes": 0, "moved_bytes": 70000, \
"largest": [20, 20, 20], "device_s": 0.00012, "device_staying_s": 0.00012}
"""
COMMANDS = [["report"], ["steps"], ["misses"], ["fusion"], ["memory"], ["compile"]]
# Fixture, words before its file, more options; a golden file each.
RUNS = [(fixture, words, []) for fixture in ("training", "changing") for words in COMMANDS]
RUNS += [("training", ["sync", "8"], []), ("training", ["sync", "8"], ["--dot"]), ("training", ["sync", "2"], []), ("stacks", ["sync", "1"], []), ("stacks", ["sync", "2"], []), ("stacks", ["report"], []), ("bound", ["report"], []), ("bound", ["misses"], []), ("changing", ["sync", "51"], []),
         ("changing", ["misses"], ["--all"]), ("changing", ["report"], ["--top=1"]), ("killed", ["report"], []), ("blas", ["report"], []), ("empty", ["report"], []),
         ("long", ["memory"], []), ("long", ["sync", "1000001"], []), ("empty", ["steps"], []), ("empty", ["misses"], []), ("empty", ["fusion"], []), ("empty", ["memory"], []), ("empty", ["compile"], [])]
# What is no profile, and other wrong lines: words and the exit status. stderr is part of the golden file.
WRONG = [("no_file", ["report", "nothing.prof"], 1), ("no_words", [], 2), ("rows_minus", ["report", "-n", "-5", "training.prof"], 2), ("rows_many", ["report", "-n", "99999999999", "training.prof"], 2), ("no_number", ["sync", "training.prof"], 2), ("no_sync", ["sync", "999", "training.prof"], 1),
         ("bad_number", ["sync", "x", "training.prof"], 1), ("bad_option", ["--wrong", "training.prof"], 2), ("foreign", ["foreign.prof"], 1), ("zero", ["zero.prof"], 1),
         ("short", ["short.prof"], 1), ("version", ["version.prof"], 1), ("folder", ["."], 1), ("damaged", ["damaged.prof"], 1), ("torn", ["torn.prof"], 0),
         ("blas_steps", ["steps", "blas.prof"], 1), ("help", ["--help"], 0), ("help_sync", ["sync", "--help"], 0), ("many", ["report", "training.prof", "blas.prof"], 2), ("no_command", ["nonsense", "training.prof"], 2), ("near_command", ["mises", "training.prof"], 2),
         ("onto_itself", ["html", "-o", "training.prof", "training.prof"], 1), ("onto_link", ["trace", "-o", "link.prof", "training.prof"], 1),
         ("onto_blas", ["report", "-o", "blas.prof", "blas.prof"], 1), ("full_disk", ["html", "-o", "/dev/full", "training.prof"], 1)]
# What stands before these is 80 columns wide at most; tables of kernels and graphs are as wide as they are.
FREE = {"sync": "\nkernels", "--dot": "digraph"}


def long_texts():
    """A profile whose texts and numbers are longer than a line has room for."""
    place, op = "/home/somebody/with/a/long/path/" * 6 + "model_of_the_thing.c:123456", "scaled_dot_product_attention_backward"
    w = Writer()
    w.process(program="/opt/" + "program_of_a_long_name_" * 6)
    w.n_syncs = 10**6
    plan = w.plan(hash=1, arena_bytes=123456789, kernels=[{"name": "tc_f32_add_3", "kind": "generated", "site": place, "op": op}],
                  blocks=[{"site": place, "op": op, "bytes": 123456, "is": 0}] * 30000)
    w.sync(plan, place, "tc_scalar_of_a_long_cause", new=True, region="region/of/" * 20)
    w.add(MEMORY, [("live", {"site": place, "op": op, "bytes": 99999})] * 30000, sequence=w.n_syncs, n_live=30001, at_ns=w.clock, bytes=30001 * 99999)
    w.end()
    return w.data


def write_fixtures(folder):
    for name in ("training", "changing", "killed", "bound", "stacks", "empty"):
        made = getattr(fixtures, name)()
        (folder / f"{name}.prof").write_bytes(made if isinstance(made, bytes) else made.data)
    (folder / "long.prof").write_bytes(long_texts())
    whole = (folder / "training.prof").read_bytes()
    (folder / "link.prof").hardlink_to(folder / "training.prof")
    (folder / "training.prof.77").write_bytes(whole)  # a child's
    (folder / "training.prof.x7").write_bytes(b"no child's")
    (folder / "blas.prof").write_text(BLAS)
    (folder / "foreign.prof").write_bytes(b"\x7fELF" + bytes(100))
    (folder / "zero.prof").write_bytes(b"")
    (folder / "short.prof").write_bytes(whole[:9])
    (folder / "version.prof").write_bytes(b"tc-profile 2\n\0\0\0" + whole[16:])
    (folder / "damaged.prof").write_bytes(whole[:-100] + b"\x07" * 92)
    (folder / "torn.prof").write_bytes(whole[:9000])


def run(program, folder, words, **env):
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8", **env})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def on_terminal(program, folder, **env):
    """What the report is on a terminal of 100 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    child = subprocess.Popen([program, "report", "changing.prof"], cwd=folder, stdin=follower, stdout=follower, stderr=follower,
                             env={"LC_ALL": "C.UTF-8", "TERM": "xterm", **env})
    os.close(follower)
    out = b""
    while True:
        try:
            got = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not got:
            break
        out += got
    child.wait()
    os.close(leader)
    return out.decode()


def check_terminal(program, folder):
    """Colours and width are the terminal's, unless the environment says otherwise."""
    try:
        os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
    except OSError as why:
        print(f"not checked, colours and width on a terminal: the system makes none ({why.strerror})")
        return
    coloured = on_terminal(program, folder)
    if "\033[1m" not in coloured or "\033[31mgrowing\033[0m" not in coloured:
        yield "no colours on a terminal"
    if not any(80 < len(line) <= 100 for line in coloured.replace("\r", "").split("\n") if "\033" not in line):
        yield "a terminal of 100 columns is not used"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        if "\033" in on_terminal(program, folder, **{name: value}):
            yield f"colours with {name}={value}"


def main():
    program, update = os.path.abspath(sys.argv[1]), "--update" in sys.argv
    wrong, made = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_fixtures(folder)
        for fixture, words, more in RUNS:
            command = [words[0], *more, *words[1:], fixture + ".prof"]
            status, out, err = run(program, folder, command)
            made["-".join([fixture, *words, *(m.lstrip("-").replace("=", "") for m in more)])] = out
            if status or err:
                wrong.append(f"{command}: status {status}: {err}")
            end = FREE.get(more[0] if more else words[0])
            wide = [line for line in (out.partition(end)[0] if end else out).split("\n") if len(line) > 80]
            if wide:
                wrong.append(f"{command}: a line of {len(wide[0])} columns: {wide[0]}")
            if more:
                continue
            status, out, err = run(program, folder, [words[0], "--json", *words[1:], fixture + ".prof"])
            if status or err:
                wrong.append(f"{command} --json: status {status}: {err}")
            wrong += [f"{command} --json: {p}" for p in problems(json.loads(out))]
        for name, words, expected in WRONG:
            status, out, err = run(program, folder, words)
            made[f"wrong-{name}"] = err if name in ("damaged", "torn") else out + err
            if status != expected:
                wrong.append(f"{words}: status {status}, expected {expected}: {err}")
            if name.startswith("help") and max(map(len, out.split("\n"))) > 80:
                wrong.append(f"{words}: a line of more than 80 columns")
        wrong += check_terminal(program, folder)
        plain = run(program, folder, ["report", "training.prof"], LC_ALL="C")[1]
        made["training-report-ascii"] = plain
        if not plain.isascii():
            wrong.append("in the C locale there are other characters than ASCII's")
        wide = run(program, folder, ["steps", "training.prof"], COLUMNS="120")[1]
        if not any(80 < len(line) <= 120 for line in wide.split("\n")):
            wrong.append("COLUMNS=120 makes no line wider than 80")
    for name, text in made.items():
        path = GOLDEN / f"{name}.txt"
        if update:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        old = path.read_text() if path.exists() else ""
        wrong += difflib.unified_diff(old.split("\n"), text.split("\n"), path.name, "now", lineterm="")
    if update:
        for path in GOLDEN.glob("*.txt"):
            if path.stem not in made:
                path.unlink()
    print("\n".join(wrong) or f"{len(made)} texts are as they were")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
