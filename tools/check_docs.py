#!/usr/bin/env python3
"""Holds texts to the tree: every file and every tc_ or TC_ name that a README, docs/ or a comment mentions exists, and every identifier with an underscore that a
document has between backticks. A page of docs/ is read in ten minutes: it has at most PAGE_LINES.
The README of the graph passes has a row for each of the table in lowering/pipeline.c.

A file is a word such as lazy/record/record.c, or record.c in a document beside it, or what a listing of the document begins with; `*` stands for several. Names are looked for in the
sources, without their comments.
"""
import glob
import os
import re
import sys

EXTENSIONS = r"(?:c|h|def|py|md|map|csv|json|txt)"
WORD = re.compile(r"(?<![\w./<-])((?:[\w*-]+/)*[\w*-]+\." + EXTENSIONS + r")(?![\w(])")
NAME = re.compile(r"\b(?:tc|TC)_\w*\w\b(?![*<])")
# Made by a command that the text shows, the caller's own, or of another project.
ELSEWHERE = re.compile(r"(numpy|c10|dlpack)/.*|vocab\.json|src/encoder\.py|(resnet|modeling_\w+)\.py|(out|testlog|name|gpu-check|calls)\.json|(program|peer|script|model)\.\w+|(cuda|nvrtc|hiprtc|hip_runtime_api|tc_words|cublasLt|cudnn_graph|miopen)\.h")
KERNEL = re.compile(r"tc_(?:bool|bf16|[fiu]\d+)_\w+_[0-9a-f]{4}")  # made of its ops and a hash
# Identifiers: `tier_up`, also as part of `x->tier_up` or `n_in / 2`; not of a path, a pattern or a placeholder.
QUOTED = re.compile(r"`([^`\n]+)`")
IDENTIFIER = re.compile(r"(?<![\w/.*<-])[A-Za-z]\w*_\w*\w(?![\w*<>/.-])|(?<=->)[A-Za-z]\w*_\w*\w(?![\w*<>/.-])")
# Of other projects: a system's, an assembler's, PyTorch's (of these documents every one), or pasted by a macro.
FOREIGN = {"io_uring", "v_mfma", "recompile_limit", "proj_size", "block_size", "packed_3_f64_avx512"}
OF_PYTORCH = ("docs/from-pytorch.md", "docs/training.md", "docs/autocast.md")
SOURCES = (".c", ".h", ".hpp", ".cpp", ".def", ".py", ".S", ".map", ".k", ".txt", ".in", ".options", ".sh")
PROSE = (".md", ".1", ".3")
PAGE_LINES = 200
LENGTHS = {"docs/architecture.md": 150, "docs/tutorial.md": 600, "docs/measurements.md": 400}  # a course, a record
LISTING = re.compile(r"^```c\n// ([\w.]+): ", re.M)


def comments(path, text):
    if path.endswith(".py"):
        return "\n".join(re.findall(r"(?s)\"\"\".*?\"\"\"", text) + re.findall(r"#.*", text))
    return "\n".join(re.findall(r"(?:(?<!:)//|(?m:^\s*#)).*", text))


def identifiers(text):
    """Identifiers with an underscore between the backticks of a document, outside of what is printed."""
    for quoted in QUOTED.findall(re.sub(r"(?ms)^```.*?^```", "", text)):
        yield from IDENTIFIER.findall(quoted)


def stale_identifiers(path, text, words):
    """Those that are in none of the sources, whose words are given."""
    for name in identifiers(text) if path not in OF_PYTORCH else ():
        if name not in words and name not in FOREIGN and not NAME.fullmatch(name):
            yield f"{path}: no identifier {name}"


def long_pages(texts):
    for f, text in texts.items():
        most = LENGTHS.get(f, PAGE_LINES)
        if re.fullmatch(r"docs/[\w-]+\.md", f) and text.count("\n") > most:
            yield f"{f}: {text.count(chr(10))} lines, this page has at most {most}"


def missing_passes(texts):
    """Passes of the table that the README of their folder does not name."""
    readme = "lowering/graph/README.md"
    for name in re.findall(r'(?m)^ +\{"(\w+)", tc_pass_', texts["lowering/pipeline.c"]):
        if not re.search(rf"(?m)^\| [^|]*`{name}`", texts[readme]):
            yield f"{readme}: no row of the pass {name}"


def main():
    files = []
    for folder, folders, found in os.walk("."):
        folders[:] = [d for d in folders if not d.startswith((".", "build", "__pycache__"))]
        files += [os.path.relpath(os.path.join(folder, f)) for f in found]
    dirs = ["", "include/"] + sorted({os.path.dirname(f) + "/" for f in files})
    texts = {f: open(f, encoding="utf-8").read() for f in files if f.endswith((".c", ".h", ".hpp", ".cpp", ".def", ".py", ".md", ".1", ".3", ".S")) or f in ("dev", "meson.build")}
    code = "\n".join(re.sub(r"//.*", "", t) for f, t in texts.items() if not f.endswith(PROSE))
    names = set(NAME.findall(code))
    words = {word for f, t in texts.items() if not f.endswith(PROSE) for word in re.findall(r"\w+", re.sub(r"//.*", "", t)) if "_" in word}
    words |= {os.path.basename(f).split(".")[0] for f in files}
    for f in files:
        if f.endswith(SOURCES) and f not in texts:
            words |= {word for word in re.findall(r"\w+", open(f, encoding="utf-8", errors="replace").read()) if "_" in word}
    wrong = [*long_pages(texts), *missing_passes(texts)]
    for f, text in texts.items():
        doc = text if f.endswith(PROSE) else comments(f, text)
        wrong += stale_identifiers(f, text, words) if f.endswith(".md") else []
        listings = LISTING.findall(text)
        for line in doc.splitlines():
            if "#include" in line:
                continue
            for word in WORD.findall(line):
                places = [os.path.dirname(f) + "/" if "/" in f else ""] + dirs
                if not ELSEWHERE.fullmatch(word) and word not in listings and not any(glob.glob(d + word) for d in places):
                    wrong.append(f"{f}: no file {word}")
        for name in NAME.findall(doc):
            if name not in names and not name.endswith("_") and not KERNEL.fullmatch(name):
                wrong.append(f"{f}: no name {name}")
    for line in sorted(set(wrong)):
        print(line)
    print(f"docs: {len(texts)} texts, {len(set(wrong))} stale words")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
