#!/usr/bin/env python3
"""What a profile's file holds, read by reader.py alone: syncs of twelve kinds in three threads and a forked child with the sizes of their graphs, bytes and
operations counted by hand, phases that add up to each sync's time, files of processes that were killed, that share a name, or whose disk is full.
  records.py PROGRAM TC-RUN [EXAMPLE..]"""
import collections
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reader

PROGRAM, TC_RUN, *EXAMPLES = [os.path.abspath(p) for p in sys.argv[1:]]
FAILED = []
HERE = pathlib.Path(tempfile.mkdtemp(prefix="tc-profile-"))


def expect(what, held):
    if not held:
        FAILED.append(what)
        print(f"failed: {what}")


def run(args, name="profile", folder=HERE, limit=None, **settings):
    environment = {**os.environ, "TC_CACHE_BYTES": "0", **settings}
    if name:
        environment["TC_PROFILE"] = name
    before = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
    done = subprocess.run(args, env=environment, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=before, timeout=300)
    done.stderr = "".join(x for x in done.stderr.splitlines(True) if "no compiler, kernels are interpreted" not in x)  # of a build without LLVM
    return done


def clear():
    for path in HERE.iterdir():
        path.unlink()


def line_of(site):
    return int(site.rsplit(":", 1)[1]) if ":" in site else 0


def expect_phases(profile, name):
    for s in profile.of("sync"):
        parts = sum(s[p] for p in reader.PHASES)
        expect(f"{name}: sync {s['sequence']}: phases are {parts} of {s['total_ns']} ns", abs(parts - s["total_ns"]) <= 0.02 * s["total_ns"] + 100)
        expect(f"{name}: sync {s['sequence']}: wait is part of run", s["wait_ns"] <= s["run_ns"])


def expect_whole(profile, name):
    """Sequences are 1, 2, .., each once; times lie in the process's; rows name kernels that are there."""
    end, syncs = profile.of("end"), profile.of("sync")
    expect(f"{name}: one process record, the first", [r["kind_"] for r in profile.records if r["kind_"] not in ("text",)][0] == "process")
    expect(f"{name}: sequences", sorted(s["sequence"] for s in syncs) == list(range(1, len(syncs) + 1)))
    expect(f"{name}: {len(end)} ends, {end and end[0]['n_syncs']} of {len(syncs)} syncs", len(end) == 1 and end[0]["n_syncs"] == len(syncs) and end[0]["n_lost"] == 0)
    expect(f"{name}: nothing lies behind the last record", profile.size == profile.end_at)
    start = profile.of("process")[0]["start_ns"]
    for s in syncs:
        expect(f"{name}: sync {s['sequence']} lies in the process's life", start - 10**9 <= s["begin_ns"] <= s["begin_ns"] + s["total_ns"] <= end[0]["end_ns"])
        expect(f"{name}: sync {s['sequence']} has plan {s['plan']}", s["plan"] in profile.plans)
    for p in profile.plans.values():
        expect(f"{name}: plan {p['id']} moves {p['bytes']} of at least {p['least_bytes']}", p["least_bytes"] <= p["bytes"])
        expect(f"{name}: plan {p['id']}: kernels' bytes", sum(k["bytes"] for k in p["kernel"]) == p["bytes"])
        expect(f"{name}: plan {p['id']}: boundaries", all(b["from_"] < p["n_kernels"] and b["to"] < p["n_kernels"] and b["reason"] for b in p["boundary"]))
        expect(f"{name}: plan {p['id']}: blocks", all(b["is_"] in (0, 1, 2) and b["first_stage"] <= b["last_stage"] for b in p["block"]))


def test_kinds():
    clear()
    done = run([PROGRAM, "kinds"], TC_MAX_NODES="64")
    expect(f"kinds: {done}", done.returncode == 0)
    wanted = collections.Counter(tuple(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("expect"))
    files = sorted(HERE.iterdir())
    expect(f"a file each of parent and child: {files}", len(files) == 2 and files[1].name.startswith("profile."))
    got = collections.Counter()
    for path in files:
        p = reader.Profile(path)
        expect_whole(p, path.name)
        expect_phases(p, path.name)
        process = p.of("process")[0]
        child = path.name != "profile"
        expect(f"{path.name}: {process}", process["parent_file"].endswith("/profile") == child and path.name == ("profile" + (f".{process['pid']}" if child else "")))
        for s in p.of("sync"):
            region = s["region"].split("/")[0]
            expect(f"region {s['region']} of {s['cause']}", (s["region"] == "reads/inner") == (s["cause"] == "map" and region == "reads"))
            expect(f"{path.name} has {region}", (region == "child") == child)
            got[(region, str(line_of(s["site"])), s["cause"], str(p.plans[s["plan"]]["n_nodes"]))] += 1
            # the graph's text is one more count: a node a line
            text = p.plans[s["plan"]]["graph"].splitlines()
            expect(f"text of {s['site']}", len([x for x in text if x.startswith("%")]) == p.plans[s["plan"]]["n_nodes"])
        expect(f"{path.name}: to interpret takes time, too", all(c["load_ns"] for c in p.of("compile") if c["tier"] == "interpreted"))
        threads = {s["region"].split("/")[0]: s["thread"] for s in p.of("sync")}
        expect(f"{path.name}: threads {threads}", child or len({threads[r] for r in ("reads", "writes", "bounds", "main")}) == 4)
        failed = [s for s in p.of("sync") if s["flags"] & reader.FAILED]
        expect(f"{path.name}: {len(failed)} failed", len(failed) == (0 if child else 1))
        expect(f"{path.name}: reference kernels", child or any(k["kind"] == "reference" and k["op"] == "cumsum" for x in p.plans.values() for k in x["kernel"]))
    expect(f"syncs: wanted and not there {wanted - got}, there and not wanted {got - wanted}", wanted == got)
    print(f"kinds: {sum(got.values())} syncs of {len({(k[1], k[2]) for k in got})} kinds")


def test_bytes():
    clear()
    done = run([PROGRAM, "bytes"])
    wanted = {int(w[1]): (int(w[2]), float(w[3])) for w in map(str.split, done.stdout.splitlines()) if w[0] == "bytes"}
    p = reader.Profile(HERE / "profile")
    expect_whole(p, "bytes")
    plans = {line_of(s["site"]): p.plans[s["plan"]] for s in p.of("sync")}
    for line, (moved, flops) in wanted.items():
        x = plans[line]
        expect(f"bytes of line {line}: {x['bytes']}, by hand {moved}", x["bytes"] == moved)
        expect(f"operations of line {line}: {x['flops']}, by hand {flops}", x["flops"] == flops)
    cut = [x for x in plans.values() if x["n_boundaries"]]
    expect(f"one boundary, of the product's operand: {cut}", len(cut) == 1 and cut[0]["boundary"][0]["bytes"] == 2 * 64 * 128 * 4 and "matmul" in cut[0]["boundary"][0]["reason"])
    expect("what the boundary costs is what is beyond the least", cut and cut[0]["bytes"] - cut[0]["least_bytes"] == cut[0]["boundary"][0]["bytes"])
    unused = p.of("unused")
    expect(f"results that nobody read: {unused}", sum(u["n_values"] for u in unused) >= len(wanted))
    expect(f"each names its largest: {unused}", all(line_of(u["site"]) in (*wanted, *(x - 1 for x in wanted)) and u["op"] and u["largest_bytes"] <= u["bytes"] for u in unused))
    expect("memory has rows", p.of("memory") and all(m["live"] and m["bytes"] >= m["live"][0]["bytes"] for m in p.of("memory")))


def test_again():
    clear()
    done = run([PROGRAM, "again"])
    p = reader.Profile(HERE / "profile")
    expect(f"again: {done}", done.returncode == 0)
    for s in p.of("sync"):
        x = p.plans[s["plan"]]
        expect(f"{s['region']}: {x['n_held']} held", (x["n_held"], x["held_bytes"]) == ((1, 32) if s["region"] == "held" else (0, 0)))
        expect(f"{s['region']}: {x['n_again']} made again", (x["n_again"] > 0) == (s["region"] == "again"))


def test_on_gpu():
    clear()
    done = run([PROGRAM, "steps", "20"], TC_DEVICE="tc:cuda")
    p = reader.Profile(HERE / "profile")
    if "TC_DEVICE is ignored" in done.stderr:  # there is none
        return
    expect_phases(p, "tc:cuda")
    moved = [(s["to_device_bytes"], s["from_device_bytes"]) for s in p.of("sync")]
    # a step's operand goes there before its sync; its result comes back after it, and counts with the next
    expect(f"tc:cuda: {moved[:4]}", moved[0] == (32, 0) and set(moved[1:]) == {(32, 32)})
    waited = [s["awaited_ns"] for s in p.of("sync")]
    expect(f"tc:cuda: reads wait for the device: {waited[:4]}", all(waited[1:]) and all(s["awaited_ns"] <= s["outside_ns"] for s in p.of("sync")))
    made = [c for c in p.of("compile") if c["tier"] == "compiled"]
    expect(f"tc:cuda: stages of {made}", made and all(c["emit_ns"] and c["generate_ns"] for c in made))
    expect("tc:cuda: replays", any(s["flags"] & reader.REPLAYED for s in p.of("sync")))


def test_waiting():
    """A team's caller waits for the others at the end of each stage, and alone never."""
    for threads in ("1", "2"):
        clear()
        run([PROGRAM, "heavy"], TC_NUM_THREADS=threads)
        p = reader.Profile(HERE / "profile")
        expect_phases(p, f"{threads} threads")
        waited = [s["wait_ns"] for s in p.of("sync")]
        expect(f"{threads} threads: waited {waited}", any(waited) == (threads == "2" and p.of("process")[0]["threads"] == 2))


def test_compiling():
    """Stages of a compile: each takes time, and all lie within their sync's compiling."""
    clear()
    done = run([PROGRAM, "bytes"], TC_INTERPRET_FIRST="0", TC_NUM_THREADS="1")
    p = reader.Profile(HERE / "profile")
    made = [c for c in p.of("compile") if c["tier"] == "compiled"]
    for c in made:
        expect(f"{c}", c["emit_ns"] > 0 and c["generate_ns"] > 0 and c["load_ns"] > 0 and c["optimize_ns"] == 0)
    for s in p.of("sync"):
        stages = sum(c["emit_ns"] + c["generate_ns"] + c["load_ns"] for c in made if c["sequence"] == s["sequence"])
        expect(f"sync {s['sequence']}: stages take {stages} of {s['compile_ns']} ns", stages <= 1.02 * s["compile_ns"] + 10000)
    tiers = [c["tier"] for c in p.of("compile") if c["tier"] != "memory"]  # all are interpreted without a compiler
    expect(f"{len(made)} compiles: {tiers}", len(made) >= 5 or (tiers and set(tiers) == {"interpreted"}))


def test_kernels_and_stacks():
    clear()
    run([PROGRAM, "bytes"], TC_PROFILE_KERNELS="1", TC_PROFILE_STACKS="1")
    p = reader.Profile(HERE / "profile")
    syncs, times = {s["sequence"]: s for s in p.of("sync")}, p.of("kernel_times")
    expect(f"{len(times)} of {len(syncs)} syncs have times", len(times) == len(syncs))
    for t in times:
        s = syncs[t["sequence"]]
        expect(f"sync {t['sequence']}: times of {t['n']} kernels", t["n"] == p.plans[t["plan"]]["n_kernels"] and t["plan"] == s["plan"])
        span = max(k["begin_ns"] + k["ns"] for k in t["kernel_time"]) - min(k["begin_ns"] for k in t["kernel_time"])
        expect(f"sync {t['sequence']}: kernels take {span} of {s['run_ns']} ns", span <= 1.02 * s["run_ns"] + 20000)
        expect(f"sync {t['sequence']}: kernels lie in it", all(s["begin_ns"] - 10**6 <= k["begin_ns"] <= s["begin_ns"] + s["total_ns"] + 10**6 for k in t["kernel_time"]))
    modules = p.of("module")
    for s in syncs.values():
        stack = p.stacks[s["stack"]]
        expect(f"stack of sync {s['sequence']}", len(stack) > 3 and any(m["begin"] <= a < m["end"] and m["path"] == PROGRAM for a in stack for m in modules))


def test_restart():
    clear()
    done = run([PROGRAM, "restart"], name=None)
    expect(f"restart: {done}", done.returncode == 0)
    files = {path.name: reader.Profile(path) for path in HERE.iterdir()}
    expect(f"{len(files)} files", len(files) == 20)
    for name, p in files.items():
        process = p.of("process")[0]
        expect(f"{name}: {process}", process["threads"] > 0 and process["device"] and process["isa"])
        # plans of before this file are described anew
        expect(f"{name}: syncs", len(p.of("sync")) == 10 and len(p.plans) == 3 and p.of("end")[0]["n_syncs"] == 10)
        expect(f"{name}: plans", all(x["n_kernels"] == 1 and x["bytes"] == 64 and x["fusion"] and x["program"] and x["graph"] for x in p.plans.values()))


def test_kill():
    clear()
    environment = {**os.environ, "TC_PROFILE": str(HERE / "profile"), "TC_CACHE_BYTES": "0"}
    with subprocess.Popen([PROGRAM, "forever"], env=environment, stdout=subprocess.PIPE, text=True, cwd=HERE) as child:
        said = 0
        while said < 20000:
            said = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.wait()
    p = reader.Profile(HERE / "profile")
    n = len(p.of("sync"))
    expect(f"killed: {n} syncs of at least {said}, the file has {p.size} bytes", n >= said and not p.of("end") and p.size > 1 << 20)
    expect("killed: each sync is there", [s["sequence"] for s in p.of("sync")] == list(range(1, n + 1)))
    # the next process finds the lock of the dead one gone
    run([PROGRAM, "steps", "4"])
    expect("the next process empties it", len(reader.Profile(HERE / "profile").of("sync")) == 4)


def test_faults():
    clear()
    long = [PROGRAM, "steps", "30000"]
    done = run(long, limit=1 << 21)
    expect(f"a limit of file sizes: {done}", done.returncode == 0 and "done" in done.stdout and done.stderr.count("tc[warn]") == 1 and str(HERE / "profile") in done.stderr)
    p = reader.Profile(HERE / "profile")
    expect(f"a limit of file sizes: {len(p.of('sync'))} syncs in {p.size} bytes", 1000 < len(p.of("sync")) < 30000 and p.size <= 1 << 21)
    for name in ("/nowhere/profile", str(HERE), "/dev/full", "/dev/null"):
        done = run([PROGRAM, "steps", "3"], name=name)
        expect(f"{name}: {done}", done.returncode == 0 and "done" in done.stdout and done.stderr.count("tc[warn]") == 1 and name in done.stderr)
        expect(f"{name} is told for what it is: {done.stderr}", ("no regular file" in done.stderr) == name.startswith("/dev/"))
    mount = HERE / "small"
    mount.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1536k", "tmpfs", mount], capture_output=True, check=False).returncode == 0
    if mounted:
        try:
            done = run(long, name=str(mount / "profile"))
            expect(f"a full disk: {done}", done.returncode == 0 and "done" in done.stdout and done.stderr.count("tc[warn]") == 1 and "No space" in done.stderr)
            expect("a full disk: what was written is whole", len(reader.Profile(mount / "profile").of("sync")) > 1000)
        finally:
            subprocess.run(["umount", mount], check=True)
    mount.rmdir()
    for value in ("2", "77"):
        done = run([PROGRAM, "steps", "3"], name=value)
        expect(f"TC_PROFILE={value}: {done}", "neither 1 nor the name of a file" in done.stderr and not (HERE / value).exists())


def test_names():
    clear()
    done = run([PROGRAM, "exec"])
    files = {path.name: len(reader.Profile(path).of("sync")) for path in HERE.iterdir()}
    expect(f"a child that was executed: {files} {done}", done.returncode == 0 and files.pop("profile", 0) == 2 and list(files.values()) == [3])
    for name in ("profile", "of_%p"):
        clear()
        for turn in range(2):  # another process empties the first name, and has a number of its own
            done = run([PROGRAM, "chain", "4"], name=name)
            files = {path.name: reader.Profile(path) for path in HERE.iterdir()}
            pid = str(max((p for p in files.values()), key=lambda p: p.of("process")[0]["start_ns"]).of("process")[0]["pid"])
            first = name.replace("%p", pid)
            got = [len(files[f].of("sync")) for f in (first, f"{first}.{pid}", f"{first}.{pid}.2", f"{first}.{pid}.3") if f in files]
            expect(f"{name}, turn {turn}: programs of one process: {got} {sorted(files)} {done}", done.returncode == 0 and got == [4, 3, 2, 1])
            expect(f"{name}, turn {turn}: {sorted(files)}", len(files) == (4 if turn == 0 else 7 if name == "profile" else 8))
    clear()
    run([PROGRAM, "exec"], name="of_%p.profile")
    files = sorted(path.name for path in HERE.iterdir())
    expect(f"%p: {files}", len(files) == 2 and all(reader.Profile(HERE / f).of("process")[0]["pid"] == int(f[3:-8]) for f in files))
    clear()
    done = run([TC_RUN, "--profile", "asked", "--", PROGRAM, "steps", "5"], name=None)
    expect(f"tc-run --profile: {done}", done.returncode == 0 and len(reader.Profile(HERE / "asked").of("sync")) == 5)
    for line in (["--profile"], ["--profile", "x"], ["--profile", "x", "--"]):
        expect(f"tc-run {line}", run([TC_RUN, *line], name=None).returncode == 2)


def test_summary():
    for args in (["kinds"], ["bytes"], ["steps", "50"]):
        clear()
        done = run([PROGRAM, *args], name="1", TC_MAX_NODES="64")
        lines = [x for x in done.stderr.splitlines() if not x.startswith(("tc[", "=="))]
        starts = [i for i, x in enumerate(lines) if x.startswith("tc profile: ")]
        parts = [lines[a:b] for a, b in zip(starts, starts[1:] + [len(lines)])]
        expect(f"summary of {args}: {done.stderr}", len(parts) == (2 if args == ["kinds"] else 1))
        wanted = [x.split()[1] == "child" for x in done.stdout.splitlines() if x.startswith("expect")]
        counts = sorted(int(x.split()[1]) for x in lines if x.startswith("  syncs "))
        expect(f"syncs of {args}: {counts}", not wanted or counts == sorted((sum(wanted), len(wanted) - sum(wanted))))
        for part in parts:
            expect(f"summary of {args}: {len(part)} lines", 4 < len(part) <= 12 and max(map(len, part)) <= 100 and "tc-prof" in part[-1])
        expect("a summary is no file", not list(HERE.iterdir()))


def test_summary_of_a_long_path():
    said = run([PROGRAM, "far"], name="1", TC_LOG="sync").stderr
    expect(f"a long path: {said}", "item at far.c:7: 1 times" in said and "/far.c:7: ok" in said)


def test_summary_of_heavy_syncs():
    """A graph of few nodes is tiny where its sync is short, too."""
    for what, tiny in ((["steps", "5000"], True), (["heavy"], False)):
        said = run([PROGRAM, *what], name="1").stderr
        expect(f"{what}: {said}", ("small value is read" in said or "tiny graphs" in said or "could take less" in said) == tiny)


def test_examples():
    # the first's arguments keep the long ones short
    small = {"digits": ["--small", "1"], "char_gpt": ["--small"], "mlp_regression": []}
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    for example in EXAMPLES:
        clear()
        name = pathlib.Path(example).name.replace("example-", "")
        done = run([example, *small.get(name, [])], name=str(HERE / "profile"), folder=root)
        expect(f"{name}: {done.returncode} {done.stderr[-300:]}", done.returncode == 0)
        p = reader.Profile(HERE / "profile")
        expect_whole(p, name)
        expect_phases(p, name)
        print(f"{name}: {len(p.of('sync'))} syncs")


start = time.monotonic()
for test in [t for n, t in list(globals().items()) if n.startswith("test_")]:
    test()
    print(f"{test.__name__}: {time.monotonic() - start:.1f} s since the beginning")
clear()
HERE.rmdir()
sys.exit(bool(FAILED))
