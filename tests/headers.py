#!/usr/bin/env python3
"""Compiles the public headers by themselves: headers.py, from the root of the sources.

With each C and C++ compiler that is there and each standard that it knows, from C11 and C++11 on, they give no warning under -Wall -Wextra -pedantic, and no
more do calls of each kind. A wrong call is an error at the caller's line that names the function, and a result that must be used, and is not, is a warning.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Of "" the compiler chooses.
STANDARDS = {"c": ["c11", "gnu11", "c17", "c2x", "gnu2x", ""], "c++": ["c++11", "gnu++11", "c++14", "c++17", "c++20", "c++23", "gnu++23", ""]}
COMPILERS = {"c": ["gcc", "clang-14", "clang-19", "clang"], "c++": ["g++", "clang++-14", "clang++-19", "clang++"]}
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", "-Wconversion"]
HEADERS = ["tc/tc.h", "tc/io.h", "tc/nn.h", "tc/train.h", "tc/amp.h", "tc/compile.h", "tc/blas.h", "tc/dlpack.h"]

# Of each kind of call one: literals with commas as each operand, numbers of all kinds, calls within calls, and a loop's name that a macro might shadow.
CALLS = """
#include <tc/nn.h>
tc_tensor use(tc_tensor x, tc_tensor w, float *out);
tc_tensor use(tc_tensor x, tc_tensor w, float *out) {
  tc_scope scope = tc_scope_begin();
  tc_tensor y = tc_matmul(tc_exp(x), tc_transpose(w, 0, 1)), z = tc_sum(y, TC_AXES(0, 1), true);
  if (tc_item_f32(z, out) != TC_OK || tc_sync(NULL) != TC_OK) return z;
  tc_nn_params *p = tc_nn_params_create();
  (void)tc_nn_add_linear(p, "fc", 4, 2, true);
  tc_nn_params_destroy(p);
  tc_dims shape = TC_SHAPE(2, 3), all = TC_ALL, none = TC_SCALAR;
  (void)shape, (void)all, (void)none;
  tc_scope_end(scope);
  return tc_reshape(z, TC_SHAPE(-1));
}
"""
CALLS_OF_C = CALLS + """
tc_tensor more(tc_tensor x, int i, const double d);
tc_tensor more(tc_tensor x, int i, const double d) {
  const tc_tensor held = x;
  tc_tensor y = tc_add(tc_mul(held, 2), tc_sub(tc_div(x, 2.5), tc_add(tc_add(x, i), tc_pow(tc_maximum(x, d), 2u))));
  y = tc_where(tc_gt(y, 0), tc_rsub(y, 1), tc_where(tc_lt(y, 1.5f), 0, y));
  y = tc_cat(2, (tc_tensor[]){y, x}, 0);
  y = tc_linear(y, x, (tc_tensor){0, 0});
  y = tc_conv2d(y, x, (tc_tensor){0, 0}, (tc_conv_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1, 2)});
  y = tc_batch_norm(y, (tc_tensor){0, 0}, (tc_tensor){0, 0}, x, x, (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
  tc_optimizer *opt = tc_adam((tc_tensor[]){x, y}, 2, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  tc_optimizer_destroy(opt);
  if (tc_eval(2, (tc_tensor[]){x, y}) != TC_OK) return x;
  double block[2][1][2], number;
  if (tc_item(x, &number) != TC_OK || tc_to_host(x, block, sizeof block) != TC_OK) return x;
  y = tc_from_host(tc_map(x), TC_SHAPE(2), TC_F32), y = tc_from_host((float[1][2]){{1, 2}}, TC_SHAPE(1, 2), TC_F32);
  return tc_sum(tc_zeros((tc_dims){2, {3, 4}}, TC_F32), (tc_dims){.rank = 1, .dim = {0}}, false);
}
"""

# A wrong call, and what the error says of it.
WRONG = {
    "tc_matmul(x)": "tc_matmul",
    "tc_matmul(x, x, x)": "tc_matmul",
    "tc_matmul(x, 3)": "tc_matmul",
    "tc_exp()": "tc_exp",
    "tc_exp(x, 2)": "tc_exp",
    "tc_exp(\"s\")": "tc_exp",
    "tc_sum(x)": "tc_sum",
    "tc_sum(x, TC_ALL)": "tc_sum",
    "tc_sum(x, 0, false)": "tc_sum",
    "tc_conv2d(x, x, x)": "tc_conv2d",
    "tc_nn_linear(0, \"fc\")": "tc_nn_linear",
}
# In C alone: C++ has no number forms.
WRONG_OF_C = {
    "tc_add(x, \"s\")": "the second operand of tc_add is neither a tensor nor a number",
    "tc_add(\"s\", x)": "the first operand of tc_add is not a tensor",
    "tc_add(1, x)": "the first operand of tc_add is not a tensor; numbers come second, as in tc_rsub(x, 1)",
    "tc_add(x)": "tc_add",
    "(tc_item(x, (unsigned char *)0), x)": "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double",
    "(tc_item(x, 3), x)": "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double",
    "(tc_item(x, \"s\"), x)": "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double",
    "(tc_item(x, (const float *)0), x)": "out of tc_item is no pointer to a bool, int32_t, int64_t, float or double",
    "tc_from_host((float **)0, shape, TC_F32)": "the pointer is to pointers",
    "tc_from_host((float *[2]){0}, shape, TC_F32)": "the pointer is to pointers",
    "tc_from_host((float *(*)[2])0, shape, TC_F32)": "the pointer is to pointers",
    "tc_from_host_strided((void **)0, shape, 0, TC_F32)": "the pointer is to pointers",
    "tc_borrow((double *const *)0, shape, TC_F64, TC_READ_ONLY, 0, 0)": "the pointer is to pointers",
    "(tc_to_host(x, (float **)0, 4), x)": "the pointer is to pointers",
    "(tc_to_host_async(x, (char **)0, 4), x)": "the pointer is to pointers",
    "tc_where(x, x, \"s\")": "the third operand of tc_where is neither a tensor nor a number",
    "tc_where(x, shape, 0)": "the second operand of tc_where is neither a tensor nor a number",
}


def compile_text(compiler, standard, text, *more):
    suffix = ".cc" if "++" in compiler else ".c"
    path = os.path.join(FOLDER, "program" + suffix)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([compiler, *(["-std=" + standard] if standard else []), "-Iinclude", *more, path], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stderr


def knows(compiler, standard):
    return compile_text(compiler, standard, "int main(void) {\n  return 0;\n}\n", "-fsyntax-only")[0] == 0


def check_clean(language, compiler, standard, is_first):
    """All headers at each standard; each alone, and without the macros, at the first."""
    texts = [CALLS_OF_C if language == "c" else CALLS]
    if language == "c++" and standard.startswith("c++"):
        texts.append(CPP)
    if is_first:
        texts += [f"#include <{header}>\n" for header in HEADERS] + ["#define TC_NO_SITES\n#include <tc/nn.h>\n"]
        texts += ["#define TC_EXCEPTIONS\n#define TC_NO_SITES\n" + CPP] if language == "c++" else []
    for text in texts:
        rc, said = compile_text(compiler, standard, text, "-fsyntax-only", *WARNINGS)
        assert rc == 0 and not said, f"{compiler} -std={standard}\n{text}\n{said}"


def check_errors(language, compiler, standard):
    """Every error is at the line of a call, or gives it, every call has one, and the function is named beside it."""
    calls = {**WRONG, **(WRONG_OF_C if language == "c" else {})}
    lines = ["#include <tc/nn.h>"]
    called_at = {}
    for k, call in enumerate(calls):
        lines += [f"tc_tensor f{k}(tc_tensor x, tc_dims shape);", f"tc_tensor f{k}(tc_tensor x, tc_dims shape) {{", "  (void)shape, (void)x;", f"  return {call};", "}"]
        called_at[len(lines) - 1] = call
    rc, said = compile_text(compiler, standard, "\n".join(lines) + "\n", "-fsyntax-only", *(["-ferror-limit=0"] if "clang" in compiler else []))
    told = {}
    for place, line, text in re.findall(r"^(\S+?):(\d+):\d+: error: (.*?)(?=^\S+?:\d+:\d+: error: |\Z)", said, re.M | re.S):
        # Of gcc, where the macro must let the warning of an unused result through.
        expanded = re.search(rf"^({re.escape(FOLDER)}\S+?):(\d+):\d+: note: in expansion of macro", text, re.M)
        if expanded and not place.startswith(FOLDER):
            place, line = expanded.groups()
        assert place.startswith(FOLDER) and int(line) in called_at, f"{compiler} -std={standard}: {place}:{line}: {text}"
        told[called_at[int(line)]] = told.get(called_at[int(line)], "") + text
    for call, words in calls.items():
        assert words in told.get(call, ""), f"{compiler} -std={standard}: of {call}: {told.get(call)}\n{said}"


def check_warnings(language, compiler, standard):
    """Of a result that must be used, and of what is doubtful in an argument."""
    calls = ["(void)tc_slice(x, 0, d, 2, 1)", "tc_item_f32(x, &v)", "tc_sync(NULL)", "tc_nn_save(0, \"path\")"]
    text = "#include <tc/nn.h>\nvoid f(tc_tensor x, double d);\nvoid f(tc_tensor x, double d) {\n  float v;\n" + "".join(f"  {call};\n" for call in calls) + "}\n"
    _, said = compile_text(compiler, standard, text, "-Wconversion", "-c", "-o", os.devnull)
    assert re.search(r"program\.cc?:5:\d+: warning: .*conver", said), f"{compiler} -std={standard}\n{said}"
    for call in calls[1:]:
        assert re.search(rf"Wunused-result.*(\n.*){{0,8}}{re.escape(call)}", said), f"{compiler} -std={standard}: {call} may be ignored\n{said}"


def check(language):
    seen = set()
    for compiler in COMPILERS[language]:
        path = os.path.realpath(shutil.which(compiler) or "")
        if not os.access(path, os.X_OK) or os.path.isdir(path) or path in seen:
            continue
        seen.add(path)
        standards = [s for s in STANDARDS[language] if knows(compiler, s)]
        for standard in standards:
            check_clean(language, compiler, standard, standard == standards[0])
        check_errors(language, compiler, standards[0])
        check_warnings(language, compiler, standards[0])
        print(f"{compiler}: {' '.join(s or 'default' for s in standards)}")


CPP = "#include <tc/tc.hpp>\n#include <tc/nn.h>\n"
with tempfile.TemporaryDirectory(prefix="tc-headers-") as FOLDER:
    check("c")
    check("c++")
