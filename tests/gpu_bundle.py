#!/usr/bin/env python3
"""Makes the folder of tools/gpu-bundle, in build-bundle/, and runs its programs from another place: gpu_bundle.py DEVICE, from the root of the sources, with the
simulated driver in the environment.

It has what docs/gpu-checks.md says and no more, is small enough, and needs nothing of the tree: tc-info finds its compiler, and gpu-check runs the examples and a part.
"""
import json
import os
import subprocess
import sys
import tempfile

MOST_BYTES = 40 << 20
FILES = {"LICENSE", "README", "gpu-check", "tc-info", "libtc-llvm.so", "tools/gpu-check", "tools/gpu_peers.py", "bench/peers/cases.py", "bench/peers/torch_models.py",
         "examples/data/digits.csv", "examples/data/README.md", *(f"tests/golden/model_{name}.safetensors" for name in ("resnet18", "resnet50", "bert", "gpt2"))}


def run(directory, *words):
    environment = {name: value for name, value in os.environ.items() if name != "TC_LLVM_PATH"}  # of the build that the test is of
    done = subprocess.run(words, cwd=directory, env=environment, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, f"{words}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def main():
    with tempfile.TemporaryDirectory(prefix="tc-bundle-") as directory:
        made, bundle = os.path.join(directory, "made"), os.path.join(directory, "copied")
        run(".", "tools/gpu-bundle", made)
        os.rename(made, bundle)
        files = {os.path.relpath(os.path.join(at, name), bundle) for at, _, names in os.walk(bundle) for name in names}
        assert files == FILES, files ^ FILES
        n_bytes = sum(os.path.getsize(os.path.join(bundle, name)) for name in files)
        assert n_bytes <= MOST_BYTES, n_bytes
        info = run(directory, os.path.join(bundle, "tc-info"), "--all")
        assert "  LLVM " in info and "simulated" in info, info
        rows = []
        for words, fewest in (["a", "--only", "example"], 10), (["b"], 6):
            file = os.path.join(directory, f"rows_{words[0]}.json")
            run(directory, os.path.join(bundle, "tools/gpu-check"), *words, "--device", sys.argv[1], "--small", "--json", file)
            of_part = [json.loads(line) for line in open(file, encoding="utf-8")]
            assert len(of_part) >= fewest and not any(row["wrong"] for row in of_part), of_part
            rows += of_part
        print(f"{n_bytes >> 20} MiB, {len(rows)} rows right")


main()
