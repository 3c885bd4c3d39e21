#!/usr/bin/env python3
"""The kernel IR that many programs make, as a list of hashes to compare with another tree's: kernel_list.py [TREE] [options]; --help lists them.

In: TREE, the root of sources whose folder build is the release build with its tests (default: the tree of this file). The programs are those of TREE and
run in it; what they are given is said here, in tests/examples.py and in tools/gpu_check/examples.def of this file's tree.
Out, on standard output, sorted: a line for each program, then one for each kernel of each way to run them.

    program WAY NAME KERNELS DIGEST          DIGEST: of the program's kernels together
    kernel HASH INSTRUCTIONS WAY N NAME      N programs make it; NAME is the first of them

HASH is the low half of the hash of the bytes that a kernel is found by in the caches: its serialized kernel IR, without the version that the disk cache
adds. No identifier and no printed name is a part of it. A kernel of 0 instructions is source text for a GPU, of which every word counts.
On standard error: each program with its kernels and seconds. If one fails or makes no kernel, there is no list, and the exit status is 1.

Invariants: two runs on one machine give the same list, so `diff` compares two trees. Lists of different machines may differ, for kernels depend on caches.
How: TC_LOG=kernel writes a line for each kernel that a process makes, which ends in `, key HASH: N instructions`. No files of kernels are read or written, nothing
is timed to choose, and runs use two threads.
"""
import argparse
import concurrent.futures
import fnmatch
import glob
import hashlib
import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))

import examples  # noqa: E402

KERNEL = re.compile(r"^tc\[kernel\] .*(?:_|, key )([0-9a-f]{8}): (\d+) instructions$", re.M)

SETTINGS = {"TC_LOG": "kernel", "TC_CACHE_BYTES": "0", "TC_AUTOTUNE": "0", "TC_GPU_LIBRARIES": "never", "TC_NUM_THREADS": "2"}
LIBRARIES = {"TC_LLVM_PATH": "libtc-llvm", "TC_CUDA_LIBRARY": "libsim-cuda", "TC_NVRTC_LIBRARY": "libsim-nvrtc", "TC_HIP_LIBRARY": "libsim-hip"}
CUDA = {"TC_DEVICE": "tc:cuda", "TC_TEST_DEVICE": "tc:cuda"}
HIP = {"TC_DEVICE": "tc:hip", "TC_TEST_DEVICE": "tc:hip"}
# Ways to run golden cases, random graphs and examples. Random graphs on a GPU are compared with tc:cpu, whose kernels are in the GPU's list, too.
WAYS = {
    "cpu": {},
    "cpu-interpreted": {"TC_COMPILER": "interp"},
    "cpu-avx2": {"TC_ISA": "avx2"},
    "cpu-baseline": {"TC_ISA": "baseline"},
    "cpu-aarch64": {"TC_ISA": "aarch64"},
    "cpu-strict": {"TC_STRICT": "1"},
    "cpu-general": {"TC_GENERIC_KERNELS": "2"},
    "cuda": {**CUDA, "TC_SIM_ARCH": "sm_90"},
    "cuda-sm_75": {**CUDA, "TC_SIM_ARCH": "sm_75"},
    "hip": {**HIP, "TC_SIM_GFX": "gfx90a"},
}
N_GRAPHS, SEEDS = 100, [1, 1001, 2001, 3001]  # each seed's graphs are one program
TYPES = ["f32", "f64", "f16", "bf16"]  # of the models' parameters
# Test programs with kernels that the others do not make, as patterns of their files. They choose their devices.
TESTS = ["test-ops-attention", "test-ops-conv", "test-ops-cpu_vs_ref", "test-ops-draws", "test-ops-products", "test-lazy-optim", "test-lazy-vjp",
         "numerics-digits", "api-einsum", "api-empties", "planning-fusion", "numerics-half", "numerics-large_operands", "numerics-long_sums",
         "api-many_operands", "numerics-models", "planning-constant_cache", "gpu-amd", "gpu-amd_attention", "gpu-clusters", "gpu-convs", "gpu-decode",
         "gpu-model", "gpu-matmul", "gpu-tensors", "gpu-wgmma"]
# Rows of tc-bench whose sizes are those of real models, for --full.
BENCHES = ["linrelu", "chain", "softmax", "norm", "xent", "embedding", "optim", "gemm", "mlp", "conv", "attention", "resnet18_infer", "resnet18_train",
           "resnet50_infer", "bert_infer", "gpt2_train", "gpt2_decode"]


def is_gpu(way):
    return "TC_TEST_DEVICE" in WAYS[way]


def program(way, name, pattern, args=(), **settings):
    """What is run in a way: the one file of the build that is like the pattern."""
    return {"way": way, "name": name, "pattern": pattern, "args": list(args), "settings": {**WAYS.get(way, {}), **settings}}


def model_programs(way, folder):
    """folder has the inputs. A simulated GPU takes long to run the networks of images, whose kernels do not depend on values: there none is run."""
    for name, rows in examples.MODELS.items():
        idle = {"TC_SIM_IDLE": "1"} if is_gpu(way) and name.startswith("resnet") else {}
        for (row, (words, _)), dtype in itertools.product(enumerate(rows), TYPES):
            files = {word: f"{folder}/{name}/{word}.npy" for word in words if word.startswith("golden.")}
            files[examples.OUT] = f"{folder}/{name}/{way}-{row}-{dtype}"
            args = ["--weights", archive_of(name), "--input", f"{folder}/{name}/golden.input.npy", "--dtype", dtype]
            yield program(way, f"{name}-{row}-{dtype}", f"example-{name}", args + [files.get(word, word) for word in words], **idle)


def programs_of(way, folder):
    yield program(way, "golden", "test-*golden", ["-j1"], TC_TEST_ALL="1")
    for seed in SEEDS:
        yield program(way, f"random-{seed}", "*-random_graphs", [str(N_GRAPHS), "--seed", str(seed)])
    for name, (words, _, _) in examples.SMALL.items():
        yield program(way, f"{name}-small", f"example-{name}", words)
        if not is_gpu(way):
            yield program(way, name, f"example-{name}", examples.VERIFY_ARGS.get(name, []))
    yield program(way, "line_fit", "example-line_fit")
    yield from model_programs(way, folder)


def all_programs(full, folder):
    for way in WAYS:
        yield from programs_of(way, folder)
    for pattern in TESTS:
        yield program("own", pattern.removeprefix("test-"), pattern, ["-j1"] if pattern.startswith("test-") else [])
    for bench in BENCHES if full else []:
        yield program("bench", bench, "tc-bench", [bench, "--seconds", "0.001", "--threads", "2"])


def archive_of(model):
    return f"{ROOT}/tests/golden/model_{model}.safetensors"


def environment_of(settings, build, folder):
    """Of this process's own no variable of the library's is left."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TC_")}
    env.update({variable: f"{build}/{name}.so" for variable, name in LIBRARIES.items()})
    return {**env, **SETTINGS, "TMPDIR": folder, "TC_SIM_CACHE": f"{folder}/sim", "TC_CACHE_DIR": f"{folder}/cache", **settings}


def file_of(build, pattern):
    found = [f for f in glob.glob(f"{build}/{pattern}") if os.path.isfile(f) and os.access(f, os.X_OK)]
    if len(found) != 1:
        sys.exit(f"kernel_list: {build} has {len(found)} programs {pattern}")
    return found[0]


def failed(way, done):
    """A benchmark that misses a floor has run all the same."""
    return done.returncode != 0 and not (way == "bench" and re.search(r"^\d+ rows, 0 failed", done.stdout, re.M))


def run(work):
    """The kernels of one program, as pairs of hash and instructions, or what went wrong."""
    start = time.monotonic()
    done = subprocess.run(work["command"], env=work["env"], cwd=work["tree"], capture_output=True, text=True, errors="replace")
    kernels = sorted(set(KERNEL.findall(done.stderr)))
    print(f"{work['way']:16} {work['name']:24} {len(kernels):6} kernels {time.monotonic() - start:7.1f} s", file=sys.stderr, flush=True)
    if failed(work["way"], done) or not kernels:
        said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("tc[kernel]"))
        return None, f"{work['way']} {work['name']}: exit status {done.returncode}, {len(kernels)} kernels: {shlex.join(work['command'])}\n{said[-3000:]}"
    return kernels, None


def all_work(options, folder):
    for name in examples.MODELS:
        os.mkdir(f"{folder}/{name}")
        examples.save_golden(archive_of(name), f"{folder}/{name}")
    build = f"{options.tree}/build"
    work = [p for p in all_programs(options.full, folder) if fnmatch.fnmatch(f"{p['way']} {p['name']}", options.only)]
    for p in work:
        p.update(tree=options.tree, env=environment_of(p["settings"], build, folder), command=[file_of(build, p["pattern"]), *p["args"]])
    return work


def print_list(work, results):
    makers = {}
    for w, kernels in sorted(zip(work, results), key=lambda pair: (pair[0]["way"], pair[0]["name"])):
        digest = hashlib.sha256(repr(kernels).encode()).hexdigest()[:16]
        print(f"program {w['way']} {w['name']} {len(kernels)} {digest}")
        for key in kernels:
            makers.setdefault((*key, w["way"]), []).append(w["name"])
    for (name, instructions, way), names in sorted(makers.items()):
        print(f"kernel {name} {instructions} {way} {len(names)} {names[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", default=ROOT, type=os.path.abspath, help="root of the sources, with build/")
    parser.add_argument("--only", default="*", help="programs whose 'WAY NAME' is like this pattern, such as 'cuda* bert*'")
    parser.add_argument("--full", action="store_true", help="benchmarks, too: kernels of the sizes of real models, in minutes and gigabytes")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int, help="programs that run beside each other")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tc-kernel-list-") as folder:
        work = all_work(options, folder)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(run, work))
    wrong = [text for _, text in results if text]
    if wrong or not work:
        sys.exit("\n".join(wrong) or f"kernel_list: no program is like {options.only}")
    print_list(work, [kernels for kernels, _ in results])


if __name__ == "__main__":
    main()
