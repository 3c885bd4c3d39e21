#!/usr/bin/env python3
"""Holds the tree to its layers: who may include whom, where third-party headers and getenv may stand, and that no layer ends the process."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Directory (longest match counts) -> directories of this project it may include besides itself. tests/ may include anything.
MAY_INCLUDE = {
    "include/tc": [],
    "runtime": ["tc"],
    "device": ["tc", "runtime"],
    "kernels": ["tc", "runtime"],
    "lazy": ["tc", "runtime", "device"],
    "lazy/front": ["tc"],
    "lowering": ["tc", "runtime", "device", "kernels", "lazy"],
    "shim": ["tc"],
    "bench": ["tc", "examples"],  # the models that it times
    "examples": ["tc"],
    "tools": ["tc", "runtime", "device", "kernels", "lazy", "lowering"],
    "tools/gpu_check": ["tc", "device", "lowering", "bench", "tests"],  # the models and what talks to peers; comparing and random programs
}
# Single headers beyond that, each with its reason.
EXCEPTIONS = {
    ("lazy/front", "runtime/status.h"),  # functions written over the public header report errors with their own name and site
    ("lazy/front", "runtime/hash.h"),  # checksums of checkpoints
    ("lazy/front", "runtime/edits.h"),  # the nearest of an archive's names
    ("tools/gpu_check", "runtime/options.h"),  # the same product by one tile after the other
}
OURS = {"tc", "runtime", "device", "kernels", "lazy", "lowering", "shim", "bench", "examples", "tools", "tests"}

# Third-party header -> where it may be included.
THIRD_PARTY = {
    r"hwloc": ["runtime/topology.c"],
    r"xxhash": ["runtime/hash.c"],
    r"jansson": ["lazy/front/safetensors.c"],
    r"zip\.h": ["lazy/front/npz.c"],
    r"llvm-c/|llvm/": ["lowering/codegen/llvm/"],
    r"cuda|nvrtc|cupti|cublas|cudnn": ["device/cuda/", "lowering/codegen/gpu/", "tests/headers/cuda.c"],
    r"hip/|hiprtc": ["device/hip/", "lowering/codegen/gpu/", "tests/headers/hip.c"],
    r"criterion/": ["tests/"],
}

LIBRARY = ("runtime/", "device/", "kernels/", "lazy/", "lowering/", "shim/")


def layer_of(path):
    best = ""
    for layer in MAY_INCLUDE:
        if path.startswith(layer + "/") and len(layer) > len(best):
            best = layer
    return best


def check_file(path, text):
    layer = layer_of(path)
    here = str(pathlib.PurePosixPath(path).parent)
    for number, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if m:
            quoted, name = m.group(1) == '"', m.group(2)
            top = name.split("/")[0]
            if top in OURS and "/" in name:
                directory = "include/" + name if top == "tc" else name
                target = layer_of(directory) or top
                # A layer's own directories may include each other, except that front/ stands on the public header alone.
                own = target == layer or (target.split("/")[0] == layer.split("/")[0] and layer != "lazy/front" and layer != "include/tc")
                if layer and not own and top not in MAY_INCLUDE[layer] and (layer, name) not in EXCEPTIONS:
                    yield number, f"{layer}/ may not include {name}"
            elif quoted and not path.startswith("tests/"):
                if (ROOT / here / name).exists():
                    yield number, f'name "{name}" from the root of the project: "{here}/{name}"'
            for pattern, places in THIRD_PARTY.items():
                if top not in OURS and re.match(pattern, name) and not any(path.startswith(p) for p in places):
                    yield number, f"<{name}> belongs in {', '.join(places)}"
        if path.startswith(LIBRARY):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]
            if re.search(r"\b(secure_)?getenv\s*\(", code) and path != "runtime/options.c":
                yield number, "the environment is read in runtime/options.c alone"
            if re.search(r"(?<![\w.>])(exit|_exit|abort|quick_exit)\s*\(", code) and path != "runtime/status.c":
                yield number, "the library never ends the process (tc_assert_fail in runtime/status.c may)"


def main():
    n_files, n_bad = 0, 0
    for top in sorted({layer.split("/")[0] for layer in MAY_INCLUDE} | {"tests"}):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".def"):
                continue
            n_files += 1
            relative = path.relative_to(ROOT).as_posix()
            for number, message in check_file(relative, path.read_text()):
                print(f"{relative}:{number}: {message}")
                n_bad += 1
    print(f"layers: {n_files} files, {n_bad} breaches")
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
