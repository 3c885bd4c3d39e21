#!/usr/bin/env python3
"""Writes the figures of docs/ that are made from the tree or from a run, between their markers.

    make_figures.py              writes the figures that are made from sources
    make_figures.py --run BUILD  writes the figures that are a program's output, too: those of BUILD/tc-run
    make_figures.py --check [BUILD]  says which of these are stale, and which reasons of TC_LOG=fusion docs/fusion.md leaves out; exits 1

A figure stands in a text between the lines `<!-- figure NAME: begin -->` and `<!-- figure NAME: end -->`.
  passes   the passes of lowering/pipeline.c, in their order
  emitters the table of lowering/emit/emitter.c: the first row that fits a fusion emits it
  softmax  one softmax from trace to assembly: what TC_LOG prints
  kernels  why a plan has several kernels: what TC_LOG=fusion prints
  in_place an update in place: what TC_LOG=plan prints
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURE = re.compile(r"<!-- figure (\w+): begin -->\n.*?<!-- figure \1: end -->\n", re.S)


def fenced(lines):
    return "```\n" + "".join(line.rstrip() + "\n" for line in lines) + "```\n"


# ---- From sources ----

def passes():
    text = (ROOT / "lowering/pipeline.c").read_text()
    table = re.search(r"graph_pass passes\[\] = \{\n(.*?)\n\};", text, re.S).group(1)
    rows = re.findall(r'\{"(\w+)", \w+, (\w+)\},(?:  // (.*))?', table)
    when = {"NULL": "", "is_for_gpu": "GPU", "is_for_cpu": "CPU", "is_for_loaded": "B.E."}
    return fenced(f"{name:18}{when[w]:4} {note}" for name, w, note in rows)


def emitters():
    text = (ROOT / "lowering/emit/emitter.c").read_text()
    rows = re.findall(r"\{TC_\w+?_([A-Z]+), (\w+), ([A-Z| ]+), (\w+), tc_emitter_(\w+)\}", text)
    lines = []
    for kind, op, targets, when, name in rows:
        of = "" if op == "ANY_OP" else op.removeprefix("TC_OP_").lower()
        lines.append(f"{kind:10} {of:18} {targets.replace(' | ', ' '):8} {'' if when == 'NULL' else when:12} {name}")
    return fenced(lines)


def unexplained():
    """Reasons that TC_LOG=fusion gives and docs/fusion.md does not explain: the texts that functions named why_.. return."""
    page, n, missing = (ROOT / "docs/fusion.md").read_text(), 0, []
    for path in sorted((ROOT / "lowering/fusion").glob("*.c")):
        text = path.read_text()
        defines = dict(re.findall(r"^#define (\w+) (\d+)\b", text, re.M))
        text = re.sub(r'" TEXT_OF\((\w+)\) "', lambda m: defines[m.group(1)], text)
        for body in re.findall(r"^(?:static )?const char \*(?:tc_fuser_)?why_\w+\(.*?^\}", text, re.M | re.S):
            for reason in re.findall(r'"([a-z][^"]*)"', body):
                n += 1
                if reason not in page and reason not in missing:
                    missing.append(reason)
    return missing if n else ["no reasons are found"]


# ---- From a run ----

SOFTMAX = """trace softmax
%0 = leaf f32[64,128] tc:cpu live
%1 = softmax f32[64,128] tc:cpu in %0 attr 1 live asked
end
"""
KERNELS = """trace kernels
%0 = leaf f32[64,128] tc:cpu live
%1 = leaf f32[128,32] tc:cpu live
%2 = relu f32[64,128] tc:cpu in %0
%3 = matmul f32[64,32] tc:cpu in %2 %1
%4 = exp f32[64,32] tc:cpu in %3
%5 = softmax f32[64,32] tc:cpu in %4 attr 1 live asked
end
"""
IN_PLACE = """trace in place
%0 = leaf f32[1000,1000] tc:cpu sole
%1 = leaf f32[1000,1000] tc:cpu live
%2 = sub f32[1000,1000] tc:cpu in %0 %1
%3 = assign f32[1000,1000] tc:cpu in %2 %0 live asked
%4 = sum f32[1000] tc:cpu in %0 attr 1 live asked
end
"""


def run(build, text, topics):
    """What tc-run writes to stderr for the trace: kernels compiled at once, nothing from the disk, for AVX2."""
    env = {**os.environ, "TC_LOG": topics, "TC_ISA": "avx2", "TC_CACHE_BYTES": "0", "TC_INTERPRET_FIRST": "0",
           "TC_LLVM_PATH": os.path.join(os.path.abspath(build), "libtc-llvm.so")}
    with tempfile.NamedTemporaryFile("w", suffix=".trace") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([os.path.join(build, "tc-run"), f.name], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "[warn]" not in done.stderr, done.stderr
    return done.stderr.splitlines()


def body(text):
    return text.splitlines()[1:-1]


def after(lines, name):
    """The graph after a pass."""
    begin = next(i for i, line in enumerate(lines) if line.endswith(f"after {name}"))
    end = next((i for i in range(begin + 1, len(lines)) if not lines[i].startswith("%")), len(lines))
    return lines[begin + 1:end]


def fusion_of(lines):
    begin = next(i for i, line in enumerate(lines) if line.startswith("k0 "))
    return [line for line in lines[begin:] if re.match(r"k\d| ", line)]


def program_of(lines):
    begin = next(i for i, line in enumerate(lines) if re.search(r"\d+ steps", line))
    steps = [line for line in lines[begin + 1:] if line.startswith("  ")]
    return [re.sub(r"^tc\[plan\] \w+: ", "", lines[begin])] + [re.sub(r"(tc_\w+_)[0-9a-f]{4}\b", r"\1..", line) for line in steps]


def last_loop(lines, begin, end):
    """The last innermost loop of the kernel IR."""
    starts = [i for i, line in enumerate(lines) if re.search(begin, line)]
    return lines[starts[-1]:next(i for i in range(starts[-1], len(lines)) if lines[i].strip() == end) + 1]


def last_asm_loop(lines):
    """From the label of the last loop to the jump back."""
    end = [i for i, line in enumerate(lines) if re.match(r"\tj\w+\t\.LBB", line)][-2]
    label = lines[end].split()[-1] + ":"
    loop = lines[next(i for i, line in enumerate(lines) if line == label):end + 1]
    return loop[:3] + ["        ..."] + loop[-4:] if len(loop) > 8 else loop


def softmax(build):
    graph = after(run(build, SOFTMAX, "pass"), "expand_softmax")
    kernel_ir = last_loop(run(build, SOFTMAX, "kir"), r"^  %\d+ = i64 loop", "endloop")
    asm = [line.expandtabs(8) for line in last_asm_loop(run(build, SOFTMAX, "asm"))]
    return fenced(["recorded (TC_LOG=trace)", *("  " + x for x in body(SOFTMAX)),
                   "after expand_softmax (TC_LOG=pass)", *("  " + x for x in graph),
                   "after split_reduction, which makes %8 and %10 of %2 and %5: one fusion (TC_LOG=fusion)", *("  " + x for x in fusion_of(run(build, SOFTMAX, "fusion"))),
                   "its kernel IR, the last of three loops over a row (TC_LOG=kir)", *kernel_ir,
                   "the same loop for AVX2 (TC_LOG=asm)", *asm,
                   "the program (TC_LOG=plan)", *("  " + x for x in program_of(run(build, SOFTMAX, "plan")))])


def kernels(build):
    return fenced([*body(KERNELS), "", *fusion_of(run(build, KERNELS, "fusion"))])


def in_place(build):
    return fenced([*body(IN_PLACE), "", *program_of(run(build, IN_PLACE, "plan"))])


# ---- Texts ----

def figure(name, made):
    return f"<!-- figure {name}: begin -->\n{made[name]}<!-- figure {name}: end -->\n" if name in made else None


def main():
    words = sys.argv[1:]
    check = words[:1] == ["--check"]
    if len(words) > 2 or (words and not check and (words[0] != "--run" or len(words) != 2)):
        sys.exit(__doc__)
    made = {"passes": passes(), "emitters": emitters()}
    if len(words) == 2:
        made.update(softmax=softmax(words[1]), kernels=kernels(words[1]), in_place=in_place(words[1]))
    stale = 0
    for path in [*ROOT.glob("docs/*.md"), ROOT / "lowering/README.md"]:
        text = path.read_text()
        new = FIGURE.sub(lambda m: figure(m.group(1), made) or m.group(0), text)
        if new == text:
            continue
        stale += 1
        if check:
            print(f"{path.relative_to(ROOT)}: a figure is stale; python3 tools/make_figures.py writes it")
        else:
            path.write_text(new)
    for reason in unexplained() if check else []:
        stale += 1
        print(f"docs/fusion.md: no word of \"{reason}\", a reason that TC_LOG=fusion gives")
    return 1 if check and stale else 0


sys.exit(main())
