#!/usr/bin/env python3
"""Holds comments and the shape of the code to what a reader takes in: width of lines, length of sentences, functions
and files, and no ranges of enumerators.

In: the sources under the folders that are named, or all of the library and its documents. Out: a line for each breach;
exit status 1 if there is one.
  columns   a line that is a comment alone has at most 100 columns, any other 120; rows of .def files, code between
            `// clang-format off` and `on`, and a line that a string makes long may be longer
  sentence  a sentence of a comment has at most 25 words. Left out: lines indented by three columns or more after
            the //, which are code, tables and diagrams; lists; addresses of the web
  function  a function has at most 60 lines, unless a single switch or table takes 70 % of it
  file      a file has at most 600 lines, unless it is generated or the public header
  verb      a static function is not called by a verb alone, such as find or run: the name says what is found
  range     `op >= FIRST && op <= LAST` with enumerators: a column of the table says it
Options: --summary prints counts by folder; --only RULE[,RULE]; --functions prints every function of more than 60
lines, flat or not, longest first.
"""
import os
import re
import sys
from collections import Counter, defaultdict

import c_source
from c_source import ROOT

TOPS = ["runtime", "device", "kernels", "lazy", "lowering", "shim", "include", "docs", "README.md"]
COMMENT_COLUMNS, COLUMNS, WORDS, FUNCTION_LINES, FILE_LINES, FLAT = 100, 120, 25, 60, 600, 0.7
SHORTER = {"include/tc/tc.hpp": 400}
RULES = ["columns", "sentence", "function", "verb", "file", "range"]
SHAPE_TOPS, SHAPE_RULES = ("tools/", "bench/", "examples/"), {"function", "file", "range"}  # held to these alone, unless named
# By tools/make_sites.py.
GENERATED = {"include/tc/sites.h", "include/tc/nn_sites.h", "include/tc/train_sites.h", "include/tc/compile_sites.h", "include/tc/io_sites.h", "include/tc/amp_sites.h", "include/tc/program_sites.h", "include/tc/ops.hpp", "lazy/front/plain.c", "include/tc/control_sites.h", "include/tc/backend_sites.h"}
FOREIGN = {"include/tc/dlpack.h"}  # another project's text
PUBLIC = {"include/tc/tc.h"}  # one header is the interface
# Compiled as they stand, and part of the keys of kernels on the disk.
EMBEDDED = {"device/cuda/words.h", "device/hip/words.h", "device/gpu/polygamma.h"}
ABBREVIATIONS = ("e.g.", "i.e.", "cf.", "vs.", "etc.", "resp.", "approx.", "Fig.", "Sec.", " al.", "..", "...")


# ---- Comments ----

def check_columns(path, text):
    off, inside, fence = False, False, False
    for number, line in enumerate(text.split("\n"), 1):
        off = (off or "clang-format off" in line) and "clang-format on" not in line
        if path.endswith(".md"):
            if line.startswith("```"):
                inside = not inside
                fence = inside and line.strip() != "```text"  # what a program printed
            if not fence:
                continue
        alone = re.match(r"\s*//", line)
        row = path.endswith(".def") and re.match(r"//\s{4,}", line)  # the names of the columns of a table
        most = COMMENT_COLUMNS if alone and not row else COLUMNS
        line = line if alone else re.sub(r'"(\\.|[^"\\]){30,}"', '""', line)
        if len(line) > most and (alone or not (off or path.endswith(".def"))) and not row and "://" not in line:
            yield number, f"{len(line)} columns, {'a comment has' if alone else 'a line has'} at most {most}"


def texts_of(text):
    """(line, text) of each comment: lines that are comments alone make one, up to what is no prose."""
    begun, parts, listed = 0, [], False
    for number, line in enumerate([*text.split("\n"), ""], 1):
        alone = re.match(r"\s*//[/!]?( *)(.*)", line)
        indent, words = (len(alone.group(1)), alone.group(2)) if alone else (0, "")
        item = re.match(r"([-*]|\d+[.)]) ", words)
        prose = bool(alone and words and indent < 3 and not item and not words.startswith("====") and not (listed and indent > 1))
        listed = bool(alone and words and (item or (listed and indent > 1)))
        if prose:
            begun = begun if parts else number
            parts.append(words)
            continue
        if parts:
            yield begun, " ".join(parts)
            parts = []
        after = None if alone else re.search(r"(?<![:\"'\w])//[/!]?<? *(.*)", re.sub(r'"(\\.|[^"\\])*"', '""', line))
        if after:
            yield number, after.group(1)


def sentences(text):
    """Splits prose at . ! ? before a space, not after abbreviations."""
    words = []
    for word in text.split():
        words.append(word)
        bare = word.rstrip("\"')`]")
        if bare.endswith((".", "!", "?")) and not bare.endswith(ABBREVIATIONS):
            yield words
            words = []
    if words:
        yield words


def check_sentences(path, text):
    if not path.endswith((".c", ".h", ".def", ".hpp", ".k")):
        return
    for number, comment in texts_of(text):
        for sentence in sentences(comment):
            words = [w for w in sentence if re.search(r"\w", w) and "://" not in w]
            if len(words) > WORDS:
                yield number, f"a sentence of {len(words)} words: {' '.join(sentence[:8])} .."


# ---- Code ----

def lines_of_span(body, at):
    """How many lines the braces have that open at or after body[at]."""
    depth = 0
    for i in range(at, len(body)):
        depth += (body[i].text == "{") - (body[i].text == "}")
        if depth == 0 and body[i].text == "}":
            return body[i].line - body[at].line + 1
    return 0


def is_flat(definition):
    body = definition.body
    spans = [lines_of_span(body, i) for i, t in enumerate(body)
             if t.text == "switch" or (t.text == "=" and i + 1 < len(body) and body[i + 1].text == "{")]
    return max(spans, default=0) > FLAT * (definition.end - definition.line + 1)


def functions(text):
    """(definition, lines) of the functions of a file as they are written."""
    for d in c_source.definitions(text, expanded=False):
        if d.kind == "function":
            yield d, d.end - d.line + 1


def check_functions(path, text):
    if path.endswith((".c", ".h")):
        for d, lines in functions(text):
            if lines > FUNCTION_LINES and not is_flat(d):
                yield d.line, f"{d.name} has {lines} lines, a function has at most {FUNCTION_LINES}"


BARE = re.compile(r"^static (?:inline )?[\w ]+[ *](find|add|join|take|run|load|compile|apply|tell|emit|store|open|look|check|copy|visit|walk|ask"
                  r"|call|destroy|fill|init)\(", re.M)


def check_verbs(path, text):
    if path.endswith((".c", ".h")) and not path.endswith("shorthand.h"):
        for m in BARE.finditer(text):
            yield text.count("\n", 0, m.start()) + 1, f"a static function called {m.group(1)}: {m.group(1)}_what?"


def check_file(path, text):
    n = text.count("\n")
    most = SHORTER.get(path, FILE_LINES)
    if n > most and path not in GENERATED | PUBLIC and not path.endswith(".md"):
        yield 1, f"{n} lines, this file has at most {most}"


def enumerators(texts):
    """The names in the bodies of enums, rows of tables that make them included."""
    found = set()
    for path, text in texts.items():
        if "enum" not in text or not path.endswith((".c", ".h")):
            continue
        code, _ = c_source.stream(text, lambda name: texts.get(name) or texts.get("include/" + name))
        inside = 0
        for i, t in enumerate(code):
            if t.text == "enum":
                inside = 1 if "{" in [n.text for n in code[i + 1:i + 3]] else 0
            elif inside and t.text == "{":
                inside = 2
            elif t.text == "}":
                inside = 0
            elif inside == 2 and t.kind == "word" and code[i - 1].text in ("{", ","):
                found.add(t.text)
    return found


# `op >= A && op <= B`, `A <= op && op <= B`, `op >= A && B >= op`, and `case A ... B:`.
BETWEEN = re.compile(r"(?P<op>[\w.>()\[\]-]+) (?:>=?|<=?) (?P<a>\w+) (?:&&|\|\|) (?P=op) (?:>=?|<=?) (?P<b>\w+)"
                     r"|(?P<a2>\w+) (?:>=?|<=?) (?P<op2>[\w.>()\[\]-]+) (?:&&|\|\|) (?P=op2) (?:>=?|<=?) (?P<b2>\w+)"
                     r"|(?P<op3>[\w.>()\[\]-]+) (?:>=?|<=?) (?P<a3>\w+) (?:&&|\|\|) (?P<b3>\w+) (?:>=?|<=?) (?P=op3)"
                     r"|case (?P<a4>\w+) \.\.\. (?P<b4>\w+):")


def check_ranges(path, text, names):
    for number, line in enumerate(text.split("\n"), 1):
        for m in BETWEEN.finditer(line.split("//")[0]):
            first, last = next((m.group("a" + k), m.group("b" + k)) for k in ("", "2", "3", "4") if m.group("a" + k))
            if first in names and last in names:
                yield number, f"a range of enumerators: {m.group()}"


def breaches(texts, rules, named):
    names = enumerators(texts) if "range" in rules else set()
    checks = {"columns": check_columns, "sentence": check_sentences, "function": check_functions, "verb": check_verbs, "file": check_file,
              "range": lambda path, text: check_ranges(path, text, names)}
    for path, text in texts.items():
        shape_alone = not named and path.startswith(SHAPE_TOPS)
        for rule in rules if path not in GENERATED else []:
            if shape_alone and rule not in SHAPE_RULES:
                continue
            for number, message in checks[rule](path, text):
                yield path, number, rule, message


def print_summary(counts):
    print(f"{'':32}" + "".join(f"{rule:>10}" for rule in RULES))
    for folder in sorted(counts):
        print(f"{folder:32}" + "".join(f"{counts[folder][rule]:10}" for rule in RULES))
    print(f"{'all':32}" + "".join(f"{sum(c[rule] for c in counts.values()):10}" for rule in RULES))


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    rules, tops = RULES, [a.rstrip("/") for a in sys.argv[1:] if not a.startswith("--")]
    if "--only" in options:
        rules = tops.pop(0).split(",")
    suffixes = (".c", ".h", ".hpp", ".def", ".k", ".md")
    texts = {path: (ROOT / path).read_text() for path in c_source.sources(tops or [*TOPS, *(top.rstrip("/") for top in SHAPE_TOPS)], suffixes)
             if path not in FOREIGN | EMBEDDED}
    if "--functions" in options:
        found = [(lines, path, d) for path, text in texts.items() if path.endswith((".c", ".h")) for d, lines in functions(text)]
        for lines, path, d in sorted((row for row in found if row[0] > FUNCTION_LINES), key=lambda row: row[:2], reverse=True):
            print(f"{lines:5} {path}:{d.line} {d.name}{' (flat)' if is_flat(d) else ''}")
        return 0
    counts, n = defaultdict(Counter), 0
    for path, number, rule, message in breaches(texts, rules, tops):
        n += 1
        counts[os.path.dirname(path) or path][rule] += 1
        if "--summary" not in options:
            print(f"{path}:{number}: {rule}: {message}")
    if "--summary" in options:
        print_summary(counts)
    print(f"comments: {len(texts)} files, {n} breaches")
    return 1 if n else 0


if __name__ == "__main__":
    sys.exit(main())
