#!/usr/bin/env python3
"""Holds the tree to its layers: who may include and call whom, that files do not call each other in circles, where
third-party headers and getenv may stand, and that no layer ends the process.

In: the sources, read as text (c_source.py); no build is needed. Out: a line for each breach; exit status 1 if there is
one.
A call is the use of a function, table or macro of another file in a body or an initializer. Calls through a struct of
functions do not count: they are how a lower layer runs a higher one. A .c and a .h of one name are one file.
`--edges FOLDER` prints the calls between the files of a folder and what is above or below, to look for a cut.
"""
import pathlib
import re
import sys
from collections import defaultdict

import c_source
from c_source import ROOT

# ---- Tables ----

# Folder (longest match counts) -> folders of this project it may include and call besides itself and what is in it.
# tests/ may use anything.
MAY_USE = {
    "include/tc": [],
    "runtime": ["tc"],
    "device": ["tc", "runtime"],
    "kernels": ["tc", "runtime"],
    "lazy": ["tc", "runtime", "device"],
    "lazy/front": ["tc"],
    "lowering": ["tc", "runtime", "device", "kernels", "lazy"],
    "shim": ["tc"],  # types alone: it links libc, and opens libtc when a program calls BLAS
    "bench": ["tc", "examples", "kernels"],  # the models that it times, and the loops of the roof
    "examples": ["tc"],
    "tools": ["tc", "runtime", "device", "kernels", "lazy", "lowering"],
    # The models and what talks to peers; comparing and random programs.
    "tools/gpu_check": ["tc", "device", "lowering", "bench", "tests"],
    "tools/conform": ["tc", "tests"],  # the ops' cases
}
# Inside a layer: folder -> folders of the layer that it may use, besides what MAY_USE gives the layer. Lowest first.
# Files of the layer that are in none of these folders are its top, named in TOPS.
INSIDE = {
    "lowering": {
        "target": [],
        "kir": ["target"],
        "tiling": ["target", "kir"],
        "graph": ["target", "kir", "tiling"],
        "fusion": ["target", "kir", "tiling", "graph"],
        "emit": ["target", "kir", "tiling", "graph", "fusion"],
        "codegen": ["target", "kir"],
        "jit": ["target", "kir", "codegen"],
        "autotune": ["target", "kir", "tiling", "graph", "fusion", "emit", "codegen", "jit"],
        "program": ["target", "kir", "tiling", "graph", "fusion", "emit", "codegen", "jit", "autotune"],
        # Above lowering/pipeline, which is "".
        "export": ["", "target", "kir", "tiling", "graph", "fusion", "emit", "codegen", "jit", "autotune", "program"],
    },
    # lazy/front is in MAY_USE, since it stands on the public header alone. "" is lazy/lowering.h, the evaluator.
    "lazy": {
        "trace": [""],
        "sync": ["", "trace"],
        "record": ["trace", "sync"],
        "ops": ["trace", "sync", "record"],
        "autograd": ["trace", "sync", "record", "ops"],
        "text": ["trace", "sync", "record"],
        "compile": ["trace", "sync", "record", "ops", "autograd"],
    },
}
# Files of a layer that may use all of it; a layer that is not named here may have any.
TOPS = {"lowering": {"lowering/pipeline"}, "lazy": {"lazy/lowering"}}
# Single headers beyond that, each with its reason.
EXCEPTIONS = {
    ("lazy/front", "runtime/status.h"),  # functions over the public header report errors with their own name and site
    ("lazy/front", "runtime/given.h"),  # what is left out among options; inline
    ("lazy/front", "runtime/hash.h"),  # checksums of checkpoints
    ("lazy/front", "lazy/trace/capture_break.h"),  # what counts in C has no graph in a compiled function
    ("lazy/front", "lazy/trace/watched.h"),  # a model's training mode is a guard of compiled functions
    ("lazy/front", "lazy/record/known_value.h"),  # wrong lengths are told where they are given
    ("lazy/front", "runtime/edits.h"),  # the nearest of an archive's names
    ("shim", "runtime/write_whole.h"),  # of libc alone, and inline
    ("tools/gpu_check", "runtime/options.h"),  # the same product by one tile after the other
}
# Names that a lower layer declares and uses and a higher one defines -> that lower layer, each with its reason.
TIES = {
    "tc_lowering": "lazy",  # lazy/ does not know how it is evaluated: tests of lazy/ alone link a fake one
}
# Layers whose files call each other without circles.
NO_CIRCLES = ("runtime", "device", "kernels", "lazy", "lowering", "shim")
OURS = {"tc", "runtime", "device", "kernels", "lazy", "lowering", "shim", "bench", "examples", "tools", "tests"}

# Third-party header -> where it may be included.
THIRD_PARTY = {
    r"hwloc": ["runtime/topology.c"],
    r"xxhash": ["runtime/hash.c"],
    r"jansson": ["lazy/front/safetensors.c"],
    r"zip\.h": ["lazy/front/npz.c"],
    r"llvm-c/|llvm/": ["lowering/codegen/llvm/"],
    r"cuda|nvrtc|cupti|cublas|cudnn": ["device/cuda/", "tests/headers/cuda.c"],
    r"hip/|hiprtc": ["device/hip/", "tests/headers/hip.c"],
    r"criterion/": ["tests/"],
}
READS_ENVIRONMENT = ("runtime/options.c", "shim/options.c")  # the shim links nothing of the library
# The shim: where a program calls a name that nobody defines, as the dynamic linker would without it.
ENDS_PROCESS = ("runtime/assert.c", "shim/find.c")
LIBRARY = ("runtime/", "device/", "kernels/", "lazy/", "lowering/", "shim/")
# Text that a GPU's compiler reads: it is no part of the library's own code.
GPU_TEXTS = re.compile(r"kernels/gpu/|device/(cuda|hip)/words\.h|device/gpu/polygamma\.h")


# ---- Layers ----

def layer_of(path):
    """The longest folder of the tables that holds a file; a folder of INSIDE is one."""
    top = path.split("/")[0]
    inside = [f"{top}/{folder}" for folder in INSIDE.get(top, ())]
    return max((layer for layer in [*MAY_USE, *inside] if path.startswith(layer + "/")), key=len, default="")


def stem_of(path):
    return re.sub(r"\.(c|h|def)$", "", path)


def may_use(path, other):
    """Whether a file may include another, or call what it defines: a path from the root of the project."""
    layer, target = layer_of(path), layer_of(other) or other.split("/")[0]
    if not layer or target == layer:
        return True
    top, other_top = layer.split("/")[0], target.split("/")[0]
    if top != other_top or layer in ("lazy/front", "include/tc"):
        return ("tc" if other_top == "include" else other_top) in MAY_USE.get(layer, MAY_USE.get(top))
    if layer in MAY_USE and layer not in INSIDE:  # a folder such as tools/gpu_check
        return True
    if layer == top:
        return target not in MAY_USE and stem_of(path) in TOPS.get(top, {stem_of(path)})
    return target.partition("/")[2] in INSIDE[top][layer.partition("/")[2]]


def check_place(path):
    top = path.split("/")[0]
    if layer_of(path) == top and top in TOPS and stem_of(path) not in TOPS[top]:
        yield 1, f"in none of the folders of {top}/ ({', '.join(INSIDE[top])}), and not {', '.join(sorted(TOPS[top]))}"


def check_lines(path, text):
    layer = layer_of(path)
    here = str(pathlib.PurePosixPath(path).parent)
    for number, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if m:
            quoted, name = m.group(1) == '"', m.group(2)
            top = name.split("/")[0]
            if top in OURS and "/" in name:
                if not may_use(path, "include/" + name if top == "tc" else name) and (layer, name) not in EXCEPTIONS:
                    yield number, f"{layer}/ may not include {name}"
            elif quoted and not path.startswith("tests/"):
                if (ROOT / here / name).exists():
                    yield number, f'name "{name}" from the root of the project: "{here}/{name}"'
            for pattern, places in THIRD_PARTY.items():
                if top not in OURS and re.match(pattern, name) and not any(path.startswith(p) for p in places):
                    yield number, f"<{name}> belongs in {', '.join(places)}"
        elif path.startswith(LIBRARY) and ("env" in line or "exit" in line or "abort" in line):
            code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]
            if re.search(r"\b(secure_)?getenv\s*\(", code) and path not in READS_ENVIRONMENT:
                yield number, f"the environment is read in {' and '.join(READS_ENVIRONMENT)} alone"
            if re.search(r"(?<![\w.>])(exit|_exit|abort|quick_exit)\s*\(", code) and path not in ENDS_PROCESS:
                yield number, "the library never ends the process (tc_assert_fail in runtime/assert.c may)"


# ---- Calls ----

def reader(texts):
    """read(name) for c_source: the text of a file as an #include names it."""
    return lambda name: texts.get(name) or texts.get("include/" + name)


def includes_of(path, texts, seen):
    """The files that a file includes, itself and what they include with it."""
    if path not in seen and path in texts:
        seen.add(path)
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', texts[path], re.M):
            includes_of("include/" + name if name.startswith("tc/") else name, texts, seen)
    return seen


def calls(texts):
    """(caller's file, callee's file) -> {(caller, callee): line} over all files with a text."""
    defined = {path: c_source.definitions(text, reader(texts)) for path, text in texts.items()
               if not GPU_TEXTS.match(path) and not path.endswith(".def")}
    shared = {}  # name -> where it is defined
    visible = defaultdict(dict)  # header -> names that it offers -> where they are; None: see shared
    for path, found in defined.items():
        for d in found:
            if d.kind in ("function", "variable") and not d.static and path.endswith(".c"):
                shared[d.name] = path
            elif d.kind != "constant":
                visible[path][d.name] = None if d.kind in ("declaration", "variable") and not d.static else path
    public = {name for path, text in texts.items() if path.startswith("include/tc/") and path.endswith(".h")
              for name in re.findall(r"\btc_\w+(?=\()", text)}
    edges = defaultdict(dict)
    for path, found in defined.items():
        own = {d.name for d in found if d.kind != "declaration"}
        seen = {}
        for header in includes_of(path, texts, set()):
            seen.update(visible[header])
        for d in found:
            for word in d.uses & seen.keys() - own:
                target = seen[word] or shared.get(word)
                if target and target != path and not layer_of(path).startswith(TIES.get(word, "-")):
                    edges[path, target].setdefault((d.name, word), d.line)
    return edges, public


def check_calls(edges, public):
    for (path, target), uses in sorted(edges.items()):
        for (caller, callee), line in sorted(uses.items()):
            if callee.startswith("tc_pass_") and target.startswith("lowering/graph/") and path != "lowering/pipeline.c":
                yield path, line, f"{caller} calls {callee}: passes are called by the table in lowering/pipeline.c alone"
        if may_use(path, target):
            continue
        over_public = MAY_USE.get(layer_of(path)) in ([], ["tc"])
        for (caller, callee), line in sorted(uses.items()):
            if over_public and (callee in public or re.sub(r"_at$", "", callee) in public):
                continue
            if any((layer_of(path), stem_of(target) + ".h") == e for e in EXCEPTIONS):
                continue
            yield path, line, f"{caller} calls {callee} of {target}, which {layer_of(path) or path}/ may not use"


def circles(graph):
    """The strongly connected components of more than one node (Tarjan's algorithm), each sorted."""
    order, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        order[v] = low[v] = len(order)
        stack.append(v)
        on.add(v)
        for w in sorted(graph[v]):
            if w not in order:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], order[w])
        if low[v] == order[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
                on.discard(part[-1])
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10000)
    for v in sorted(graph):
        if v not in order:
            visit(v)
    return found


def check_circles(edges):
    """Circles of files inside a layer, the calls in each from the rarest, where it may be cut.

    Calls that go up are breaches already, and left out.
    """
    for top in NO_CIRCLES:
        graph, names = defaultdict(set), defaultdict(list)
        for (path, target), uses in edges.items():
            a, b = stem_of(path), stem_of(target)
            if a != b and a.split("/")[0] == b.split("/")[0] == top and may_use(path, target):
                graph[a].add(b)
                graph[b] |= set()
                names[a, b] += [f"{caller} -> {callee}" for caller, callee in sorted(uses)]
        for part in circles(graph):
            yield f"{top}: {len(part)} files call each other in a circle: {' '.join(part)}"
            pairs = [(a, b) for a in part for b in graph[a] & set(part)]
            for a, b in sorted(pairs, key=lambda pair: (len(names[pair]), pair)):
                more = f" and {len(names[a, b]) - 4} more" if len(names[a, b]) > 4 else ""
                yield f"    {a} -> {b}: {', '.join(names[a, b][:4])}{more}"


def main():
    tops = sorted({layer.split("/")[0] for layer in MAY_USE} | {"tests"})
    texts = {path: (ROOT / path).read_text() for path in c_source.sources(tops)}
    bad = [(path, number, message) for path, text in texts.items()
           for number, message in [*check_place(path), *check_lines(path, text)]]
    edges, public = calls({path: text for path, text in texts.items() if path.startswith((*LIBRARY, "include/"))})
    bad += check_calls(edges, public)
    for path, number, message in bad:
        print(f"{path}:{number}: {message}")
    rings = list(check_circles(edges))
    print("\n".join(rings), end="\n" if rings else "")
    if len(sys.argv) == 3 and sys.argv[1] == "--edges":
        for (path, target), uses in sorted(edges.items()):
            if path.startswith(sys.argv[2]) or target.startswith(sys.argv[2]):
                print(f"{path} -> {target}: {' '.join(sorted({callee for _, callee in uses}))}")
    n_rings = sum(not r.startswith(" ") for r in rings)
    print(f"layers: {len(texts)} files, {len(edges)} pairs of files that call, {len(bad)} breaches, {n_rings} circles")
    return 1 if bad or rings else 0


if __name__ == "__main__":
    sys.exit(main())
