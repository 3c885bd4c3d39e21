#!/usr/bin/env python3
"""What the lint holds the tree to is found where it is broken: each checker is given small files with a breach, and the same without one. lint.py, from the root of
the sources."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import c_source  # noqa: E402
import check_comments  # noqa: E402
import check_docs  # noqa: E402
import check_layers  # noqa: E402
import check_tables  # noqa: E402
import check_words  # noqa: E402
import reflow_comments  # noqa: E402
import same_code  # noqa: E402


def says(found, *parts):
    """That one of the findings has all these parts."""
    found = [str(f) for f in found]
    assert any(all(part in f for part in parts) for f in found), (parts, found)


# ---- c_source ----

def test_definitions():
    text = """
#define ROW(name) tc_status tc_row_##name(void) { return tc_done_##name(); }
#define N 4
static inline int low(int x) { return x; }
ROW(first)
extern const int tc_one, tc_two;
static const struct { int a; } table[] = {{.a = 1}, {low(2)}};
tc_tensor (tc_plain)(int x) {
  return tc_made(x, s.tc_field, "tc_text(");  // tc_comment()
}
int (*tc_pointer)(int);
"""
    found = {d.name: d for d in c_source.definitions(text)}
    kinds = {name: d.kind for name, d in found.items()}
    assert kinds["low"] == kinds["tc_row_first"] == kinds["tc_plain"] == "function", kinds
    assert kinds["ROW"] == "macro" and kinds["N"] == "constant" and kinds["table"] == "variable", kinds
    assert kinds["tc_one"] == kinds["tc_two"] == "declaration", kinds
    assert "tc_done_first" in found["tc_row_first"].uses and "low" in found["table"].uses
    assert found["tc_plain"].uses & {"tc_made", "tc_field", "tc_text", "tc_comment"} == {"tc_made"}, found["tc_plain"].uses
    rows = c_source.definitions('#define X(op) [1] = tc_vjp_##op,\nconst fn tc_table[] = {\n#include "x.def"\n};\n', lambda name: "X(add)\nX(mul)\n")
    assert {"tc_vjp_add", "tc_vjp_mul"} <= rows[-1].uses, rows


# ---- check_layers ----

def layers(**bodies):
    """Breaches of calls and circles among files made of these: a path with _ for / and a last _ for the dot -> its text."""
    texts = {}
    for name, text in bodies.items():
        *folders, suffix = name.split("_")
        texts["/".join(folders) + "." + suffix] = text
    edges, public = check_layers.calls(texts)
    return list(check_layers.check_calls(edges, public)), list(check_layers.check_circles(edges)), texts


def test_layers():
    low = '#include "lowering/emit/b.h"\nvoid tc_a(void) { tc_b(); }\n'
    calls, rings, texts = layers(lowering_kir_a_c=low, lowering_emit_b_h="void tc_b(void);\n", lowering_emit_b_c="void tc_b(void) {}\n")
    says(calls, "lowering/kir/a.c", "tc_a calls tc_b of lowering/emit/b.c")
    says(check_layers.check_lines("lowering/kir/a.c", low), "lowering/kir/ may not include lowering/emit/b.h")
    # Down, and a call of a static inline function in a header.
    calls, rings, _ = layers(lowering_emit_a_c='#include "lowering/kir/b.h"\nvoid tc_a(void) { b(); }\n', lowering_kir_b_h="static inline void b(void) {}\n")
    assert not calls and not rings, (calls, rings)
    # codegen sees kir and target alone, and a table in a low folder names a function of a high one.
    calls, _, _ = layers(lowering_codegen_a_c='#include "lowering/graph/b.h"\nconst fn tc_a[] = {tc_b};\n', lowering_graph_b_h="void tc_b(void);\n", lowering_graph_b_c="void tc_b(void) {}\n")
    says(calls, "tc_a calls tc_b")
    # Only pipeline is above the folders.
    says(check_layers.check_place("lowering/stray.c"), "in none of the folders of lowering/")
    assert not list(check_layers.check_place("lowering/pipeline.c"))
    calls, _, _ = layers(lowering_program_a_c='#include "lowering/pipeline.h"\nvoid tc_a(void) { b(); }\n', lowering_pipeline_h="static inline void b(void) {}\n")
    says(calls, "a.c", "lowering/pipeline.h")
    # lowering's own tie: lazy may use it, a pass may not.
    tie = {"lazy_sync_p_h": "extern const tc_lowering_ops tc_lowering;\n", "lowering_pipeline_c": "const tc_lowering_ops tc_lowering = {1};\n"}
    calls, _, _ = layers(**tie, lazy_sync_p_c='#include "lazy/sync/p.h"\nvoid tc_p(void) { tc_lowering.run(); }\n')
    assert not calls, calls
    calls, _, _ = layers(**tie, lowering_autotune_p_c='#include "lazy/sync/p.h"\nvoid tc_p(void) { tc_lowering.run(); }\n')
    says(calls, "lowering/autotune/p.c", "tc_lowering")


def test_passes_call_no_pass():
    two = {"lowering_graph_b_c": "int tc_pass_b(void) { return 0; }\n"}
    calls, _, _ = layers(**two, lowering_graph_a_c="int tc_pass_b(void);\nint tc_pass_a(void) { return tc_pass_b(); }\n")
    says(calls, "lowering/graph/a.c", "tc_pass_a calls tc_pass_b", "the table in lowering/pipeline.c alone")
    calls, _, _ = layers(**two, lowering_pipeline_c="int tc_pass_b(void);\nconst fn passes[] = {tc_pass_b};\n")
    assert not calls, calls


def test_circles():
    three = {f"lowering_emit_{a}_c": f'#include "lowering/emit/all.h"\nvoid tc_{a}(void) {{ tc_{b}(); }}\n' for a, b in ("xy", "yz", "zx")}
    _, rings, _ = layers(**three, lowering_emit_all_h="void tc_x(void), tc_y(void), tc_z(void);\n")
    says(rings, "3 files call each other in a circle", "lowering/emit/x", "lowering/emit/z")
    three["lowering_emit_z_c"] = "void tc_z(void) {}\n"
    _, rings, _ = layers(**three, lowering_emit_all_h="void tc_x(void), tc_y(void), tc_z(void);\n")
    assert not rings, rings
    # A source and its header are one file; by way of a macro with parentheses there is a circle too.
    _, rings, _ = layers(runtime_a_h="void tc_a(void);\n#define TC_A(x) tc_b(x)\n", runtime_a_c='#include "runtime/a.h"\n#include "runtime/b.h"\nvoid tc_a(void) { tc_b(); }\n',
                         runtime_b_h="void tc_b(void);\n", runtime_b_c='#include "runtime/a.h"\n#include "runtime/b.h"\nvoid tc_b(void) { TC_A(1); }\n')
    says(rings, "2 files call each other in a circle: runtime/a runtime/b")


# ---- check_words ----

def test_words():
    rules, known = list(check_words.rules_of_list()), {}
    assert len(rules) > 50
    text = "lowering/x.c\n// Tells it to the nest that remakes.\ntc_again_fit(homes, TC_LASTS_LEAF);\n#include \"lowering/again.h\"\nint nesting, homespun, grouped;\n"
    found = {word for _, word, _ in check_words.spots(text, rules, known)}
    assert {"the nest", "remakes", "tc_again_fit", "homes", "TC_LASTS_LEAF", "lowering/again.h"} <= found, found
    assert not {"nesting", "homespun", "grouped"} & found, found
    # Parts of identifiers count, and nest in any case, but for the verb.
    text = "enum { N_NESTS };\nTest(x, takes_nests_of_its_kind)\nbool n_homes, Nests with threads;\nbool loops_nested; // calls nest\n"
    found = {word for _, word, _ in check_words.spots(text, rules, {})}
    assert found == {"N_NESTS", "takes_nests_of_its_kind", "n_homes", "Nests with"}, found
    assert check_words.is_under("lowering/kir/a.c", ("lowering/kir",)) and not check_words.is_under("lowering/kirs/a.c", ("lowering/kir",))


# ---- check_comments ----

def findings(check, text, path="lowering/kir/a.c", **more):
    return list(check(path, text, **more))


def test_comments():
    says(findings(check_comments.check_columns, "// " + "x" * 98 + "\n"), "101 columns")
    assert not findings(check_comments.check_columns, "// " + "x" * 97 + "\n")
    says(findings(check_comments.check_columns, "int a;  // " + "x" * 110 + "\n"), "121 columns")
    assert not findings(check_comments.check_columns, "// clang-format off\n" + "int a, " * 20 + "\n// clang-format on\n")
    says(findings(check_comments.check_columns, "```c\n// " + "x" * 98 + "\n```\n", "docs/a.md"), "101 columns")
    long = " ".join(["word"] * 26)
    says(findings(check_comments.check_sentences, f"// One.\n// {long[:60]}\n// {long[61:]}.\n"), "a sentence of 26 words")
    says(findings(check_comments.check_sentences, f"int a;  // {long}\n"), "a sentence of 26 words")
    says(findings(check_comments.check_sentences, f"// ==== piece ====\n// {long}.\n", "kernels/gpu/a.k"), "a sentence of 26 words")
    assert not findings(check_comments.check_sentences, f"// ==== piece ====\n// {long[5:]}.\n", "kernels/gpu/a.k")
    half = " ".join(["word"] * 13)
    for good in f"// {half}. {half}.\n", f"//   {long}\n", f"// - {long}\n", f"// {half}:\n//   {long}\n// {half}\n", f'char *s = "// {long}";\n', f"// {half}, e.g. {' '.join(['w'] * 10)}.\n":
        assert not findings(check_comments.check_sentences, good), (good, findings(check_comments.check_sentences, good))


def test_shape():
    body = "".join(f"  a += {i};\n" for i in range(59))
    says(findings(check_comments.check_functions, f"int f(int a) {{\n{body}}}\n"), "f has 61 lines")
    assert not findings(check_comments.check_functions, f"int f(int a) {{\n{body[:body.rindex('  a')]}}}\n")
    cases = "".join(f"    case {i}: return {i};\n" for i in range(70))
    assert not findings(check_comments.check_functions, f"int f(int a) {{\n  switch (a) {{\n{cases}  }}\n  return 0;\n}}\n")
    says(findings(check_comments.check_functions, f"int f(int a) {{\n  switch (a) {{\n{cases}  }}\n{body}}}\n"), "f has")
    says(findings(check_comments.check_verbs, "\nstatic const tc_x *find(int a) {\n"), "find_what?")
    assert not findings(check_comments.check_verbs, "static int find_place(int a) {\nvoid find(int a);\nstatic int runs(void) {\n")
    assert not findings(check_comments.check_verbs, "static inline int add(int a) {\n", "lazy/a/b_shorthand.h")
    says(findings(check_comments.check_file, "\n" * 601), "601 lines")
    assert not findings(check_comments.check_file, "\n" * 600)
    texts = {"a.h": "enum op {\n#define X(NAME) OP_##NAME,\n#include \"x.def\"\n};\n", "x.def": "X(LOAD)\nX(STORE)\n"}
    names = check_comments.enumerators(texts)
    assert names == {"OP_LOAD", "OP_STORE"}, names
    says(findings(check_comments.check_ranges, "  if (i->op >= OP_LOAD && i->op <= OP_STORE) f();\n", names=names), "a range of enumerators")
    says(findings(check_comments.check_ranges, "  if (op < OP_LOAD || op > OP_STORE) f();\n", names=names), "a range of enumerators")
    for other in "OP_LOAD <= op && op <= OP_STORE", "op >= OP_LOAD && OP_STORE >= op", "i->op > OP_LOAD && i->op < OP_STORE":
        says(findings(check_comments.check_ranges, f"  if ({other}) f();\n", names=names), "a range of enumerators")
    assert not findings(check_comments.check_ranges, "  if (LEAST <= n && n <= OP_STORE) f();\n", names=names)
    assert not findings(check_comments.check_ranges, "  if (n >= LEAST && n <= MOST && op == OP_LOAD) f();\n", names=names)


# ---- check_docs ----

def test_docs():
    text = "`take_spares` and `x->n_left / 2`, `tc_take`, `TC_LOG`, `io_uring`, plain_word.\n```\n`printed_text`\n```\n`a/b_c.md`, `row_*`, `<some_name>`, `one`\n"
    assert set(check_docs.identifiers(text)) == {"take_spares", "n_left", "tc_take", "TC_LOG", "io_uring"}, set(check_docs.identifiers(text))
    assert list(check_docs.stale_identifiers("docs/a.md", text, {"n_left"})) == ["docs/a.md: no identifier take_spares"]
    assert not list(check_docs.stale_identifiers("docs/a.md", text, {"n_left", "take_spares"}))
    assert not list(check_docs.stale_identifiers("docs/from-pytorch.md", text, set()))


# ---- check_tables ----

def test_tables():
    table = {"a/x.def": "// Rows.\nROW(A, 1, (2, 3))\nROW(B, 2, 4)\n", "a/a.c": "#define ROW(NAME, n, rest) [NAME] = n,\n#include \"a/x.def\"\n"}
    n, bad = check_tables.check(table)
    assert n == 1 and bad == ["a/x.def: ROW: column 3 (rest) is read by nobody"], bad
    says(check_tables.check({"a/x.def": "ROW(A)\n"})[1], "nobody expands its rows")
    for breach in "op >= TC_OP_ADD", "TC_OP_ADD <= op && op <= TC_OP_MUL", "op >= TC_IR_ADD", "TC_IR_ADD <= op", "op < TC_KIND_FOLD":
        says(check_tables.check({"a.c": f"  if ({breach}) f();\n"})[1], "a range over enumerators")
    assert not check_tables.check({"a.c": "  if (x->TC_IR_ADD == 1 << TC_IR_ADD) f();\n"})[1]
    table["a/b.c"] = "#define ROW(NAME, n, \\\n  ...) {__VA_ARGS__},\n"
    assert check_tables.check(table) == (1, [])
    lists = {"a.h": "#define LIST(X) X(A, 1) X(B, 2) X(C)\n",
             "a.c": "#define NAME_OF(NAME, n) #NAME, n\nconst char *s[] = {LIST(NAME_OF)};\n"}
    says(check_tables.check(lists)[1], "a.h: LIST: 1 rows have fewer than 2 columns")


# ---- same_code and reflow_comments ----

def test_same_code():
    old = '#define A(x) \\\n  (x + 1)\nint f(void) {\n  return A(2);  // Why.\n}\nchar *s = "one two";\n'
    for same in old.replace("// Why.", "// Another reason."), old.replace("  return", "\n\n/* a */ return"), old.replace("\\\n  (x", "(x"), old.replace('"one two"', '"one "\n  "two"'):
        assert same_code.first_difference(old, same) is None, same
    says([same_code.first_difference(old, old.replace("A(2)", "A(3)"))], "line 4 had 2, line 4 has 3")
    says([same_code.first_difference(old, old.replace("one two", "one  two"))], '"one  two"')
    for other in old.replace("(x + 1)\n", "(x + 1) "), old.replace("// Why.", "+ 1"), old + "int g;":
        assert same_code.first_difference(old, other), other
    assert same_code.first_difference(r'"\x1" "2"', r'"\x12"')
    if not shutil.which("git"):
        return
    # Through git, with a rename.
    with tempfile.TemporaryDirectory() as folder:
        def git(*words):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True)
        (pathlib.Path(folder) / "tools").mkdir()
        for name in "c_source.py", "same_code.py":
            (pathlib.Path(folder) / "tools" / name).write_text((ROOT / "tools" / name).read_text())
        (pathlib.Path(folder) / "runtime").mkdir()
        first = pathlib.Path(folder) / "runtime/first.c"
        first.write_text("// Old words.\n" + "int a;\n" * 20)
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "one")
        git("mv", "runtime/first.c", "runtime/second.c")
        second = first.with_name("second.c")
        second.write_text("// New words.\n" + "int a;\n" * 20)
        run = [sys.executable, "tools/same_code.py", "HEAD"]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and "1 changed files have the same code, 0 do not" in done.stdout, done
        second.write_text("int a;\n" * 19 + "int b;\n")
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 1 and "line 21 had a, line 20 has b" in done.stdout, done


def test_reflow():
    words = " ".join(["word"] * 30)
    text = f"// {words}\n// Threads: any.\n//   a   table {words}\nint a;  // {words}\nchar *s = \"http://a\";\n"
    left = []
    new = reflow_comments.reflow(text, lambda number, what: left.append(number))
    assert same_code.first_difference(text, new) is None and not left
    assert re.sub(r"[\s/]+", " ", new.split("// Threads")[0]) == " " + words + " ", new
    assert "// Threads: any.\n" in new and f"//   a   table {words}\n" in new and new.index("word word", 400) < new.index("int a;\n"), new
    assert all(len(line) <= 100 for line in new.splitlines() if "table" not in line), new


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
