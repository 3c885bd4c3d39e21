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

STANDARDS = {"c": ["c11", "gnu11", "c17", "c2x", "gnu2x"], "c++": ["c++11", "gnu++11", "c++14", "c++17", "c++20", "c++23", "gnu++23"]}
COMPILERS = {"c": ["gcc", "clang-14", "clang-19", "clang"], "c++": ["g++", "clang++-14", "clang++-19", "clang++"]}
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", "-Wconversion"]
HEADERS = ["tc/tc.h", "tc/io.h", "tc/nn.h", "tc/dlpack.h"]

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
    "tc_where(x, x, \"s\")": "the third operand of tc_where is neither a tensor nor a number",
    "tc_where(x, shape, 0)": "the second operand of tc_where is neither a tensor nor a number",
}


def compile_text(compiler, standard, text, *more):
    suffix = ".cc" if standard.startswith(("c++", "gnu++")) else ".c"
    path = os.path.join(FOLDER, "program" + suffix)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([compiler, "-std=" + standard, "-Iinclude", *more, path], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})
    return done.returncode, done.stderr


def knows(compiler, standard):
    return compile_text(compiler, standard, "int main(void) {\n  return 0;\n}\n", "-fsyntax-only")[0] == 0


def check_clean(language, compiler, standard, cpp):
    texts = [f"#include <{header}>\n" for header in HEADERS] + ["".join(f"#include <{header}>\n" for header in reversed(HEADERS))]
    texts += ["#define TC_NO_SITES\n" + texts[2], CALLS_OF_C if language == "c" else CALLS]
    for text in texts + (cpp if language == "c++" else []):
        rc, said = compile_text(compiler, standard, text, "-fsyntax-only", *WARNINGS)
        assert rc == 0 and not said, f"{compiler} -std={standard}\n{text}\n{said}"
    return len(texts)


def check_errors(language, compiler, standard):
    """The first error is at the line of the call, and the function is named beside it."""
    for call, words in {**WRONG, **(WRONG_OF_C if language == "c" else {})}.items():
        text = "#include <tc/nn.h>\ntc_tensor f(tc_tensor x, tc_dims shape);\ntc_tensor f(tc_tensor x, tc_dims shape) {\n  (void)shape, (void)x;\n"
        line = text.count("\n") + 1
        rc, said = compile_text(compiler, standard, text + f"  return {call};\n}}\n", "-fsyntax-only")
        errors = re.findall(r"^(\S+?):(\d+):\d+: error: (.*)$", said, re.M)
        assert rc != 0 and errors, f"{compiler} -std={standard}: {call} is no error\n{said}"
        wrong = [place for place in errors if not place[0].startswith(FOLDER) or int(place[1]) != line]
        assert not wrong and words in said, f"{compiler} -std={standard}: {call}\n{said}"


def check_must_use(language, compiler, standard):
    for call in ("tc_item_f32(x, &v)", "tc_sync(NULL)", "tc_nn_save(0, \"path\")"):
        _, said = compile_text(compiler, standard, f"#include <tc/nn.h>\nvoid f(tc_tensor x);\nvoid f(tc_tensor x) {{\n  float v;\n  (void)x, (void)v;\n  {call};\n}}\n",
                               "-c", "-o", os.devnull)
        assert "-Wunused-result" in said, f"{compiler} -std={standard}: {call} may be ignored\n{said}"


def check_arguments(language, compiler, standard):
    """What is doubtful in an argument is told as in any other call."""
    text = "#include <tc/nn.h>\ntc_tensor f(tc_tensor x, double d);\ntc_tensor f(tc_tensor x, double d) {\n  return tc_slice(x, 0, d, 2, 1);\n}\n"
    _, said = compile_text(compiler, standard, text, "-Wconversion", "-fsyntax-only")
    assert re.search(r":4:\d+: warning: .*conver", said), f"{compiler} -std={standard}\n{said}"


def check(language):
    seen = set()
    for compiler in COMPILERS[language]:
        path = os.path.realpath(shutil.which(compiler) or "")
        if not os.access(path, os.X_OK) or os.path.isdir(path) or path in seen:
            continue
        seen.add(path)
        standards = [s for s in STANDARDS[language] if knows(compiler, s)]
        for standard in standards:
            check_clean(language, compiler, standard, CPP if standard in (standards[0], standards[-1]) else CPP[:1])
        check_errors(language, compiler, standards[0])
        check_must_use(language, compiler, standards[0])
        check_arguments(language, compiler, standards[0])
        print(f"{compiler}: {' '.join(standards)}")


# tc.hpp: each function once, beside C's headers and with exceptions.
CPP = ["#include <tc/tc.hpp>\n#include <tc/nn.h>\n", "#include <tc/nn.h>\n#define TC_EXCEPTIONS\n#include <tc/tc.hpp>\n", "#define TC_NO_SITES\n#include <tc/tc.hpp>\n"]
with tempfile.TemporaryDirectory(prefix="tc-headers-") as FOLDER:
    check("c")
    check("c++")
