#!/usr/bin/env python3
"""Installs the library into an empty directory and uses it as README.md and docs/guide.md say: installed.py BUILD_DIR, from the root of the sources.

Their programs are compiled against the installed headers with pkg-config and CMake, shared and static, as C and as C++; what they print is checked. The
installed examples compile where they are, the tools tell wrong options, and manual pages name the right ones. The shared library has its soname and exports only tc_ names.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

CPP = r"""
#include <cstdio>
#include <tc/dlpack.h>
#include <tc/nn.h>

int main() {
  tc_tensor a = tc_reshape(tc_arange(0, 6, 1, TC_F32), TC_SHAPE(2, 3));
  tc_tensor b = tc_add_num(tc_sum(a, TC_AXES(1), false), tc_num_float(0.5));
  float out[2];
  if (tc_to_host(b, out, sizeof out) != TC_OK) return 1;
  tc_sgd_options options = {};
  options.lr = 0.1;
  tc_tensor p = tc_param(tc_zeros(TC_SHAPE(2), TC_F32));
  tc_optimizer *opt = tc_sgd(&p, 1, options);
  tc_optimizer_destroy(opt);
  DLManagedTensorVersioned *m = tc_to_dlpack(b);
  if (m == nullptr || m->dl_tensor.device.device_type != kDLCPU) return 1;
  m->deleter(m);
  tc_nn_params *model = tc_nn_params_create();
  char path[TC_NN_PATH_BYTES];
  if (tc_nn_add_linear(model, tc_nn_path(path, sizeof path, "fc%d", 1), 4, 2, true) != TC_OK || tc_nn_count(model) != 2) return 1;
  tc_nn_params_destroy(model);
  std::printf("%g %g %s\n", out[0], out[1], tc_status_text(tc_backward(tc_mean(a, TC_ALL, false))));
  return tc_last_error()->status == TC_ERR_GRAD ? 0 : 1;
}
"""


def run(*words, env=None):
    done = subprocess.run(words, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def blocks(language):
    text = open("README.md").read() + open("docs/guide.md").read()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


class Installed:
    def __init__(self, build, root):
        run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
        pc = run("find", root, "-name", "tc.pc").strip()
        self.root, self.libdir = root, os.path.dirname(os.path.dirname(pc))
        self.plugin = os.path.join(self.libdir, "libtc-llvm.so")
        self.pkg = {"PKG_CONFIG_PATH": os.path.dirname(pc), "PKG_CONFIG_SYSROOT_DIR": root}

    def flags(self, *what):
        return run("pkg-config", *what, "tc", env=self.pkg).split()

    def program(self, compiler, name, text, static=False, more=()):
        """Compiles, runs, and returns what it prints."""
        path = os.path.join(self.root, name)
        with open(path, "w") as f:
            f.write(text)
        libs = self.flags("--libs", "--static") if static else self.flags("--libs")
        if static:
            libs = ["-l:libtc.a" if flag == "-ltc" else flag for flag in libs]
        run(*compiler, "-Wall", "-Wextra", "-Werror", *self.flags("--cflags"), path, *libs, *more, "-o", path + ".out")
        return self.again(name, static)

    def again(self, name, static=False):
        """Runs it, and returns what it prints."""
        path = os.path.join(self.root, name)
        # The plug-in stands beside the library; the test of that must not be told where it is.
        told = {k: "" for k in ("TC_LLVM_PATH",)} if not static else {}
        log = run(path + ".out", env={"LD_LIBRARY_PATH": self.libdir, "TC_LOG": "kernel", "TC_INTERPRET_FIRST": "0", **told})
        # Where no compiler was built, the library says so; where one was, that would be a failure.
        quiet = ["compiled tc_"] if os.path.exists(self.plugin) else ["interpreted tc_", "tc[warn] no compiler"]
        return "\n".join(line for line in log.splitlines() if not any(words in line for words in quiet)) + "\n"


TRACE = sorted(glob.glob("tests/traces/*.trace"))[0]
CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(use C)
find_package(tc VERSION REQUIRED)
add_executable(use program.c)
target_link_libraries(use PRIVATE tc::tc)
add_executable(use-static program.c)
target_link_libraries(use-static PRIVATE tc::static)
"""


def check_cmake(lib, text):
    """Returns what the program prints, linked both ways; another version than the installed one is refused."""
    if not shutil.which("cmake"):
        return
    source, build = os.path.join(lib.root, "cmake"), os.path.join(lib.root, "cmake-build")
    os.mkdir(source)
    with open(os.path.join(source, "program.c"), "w") as f:
        f.write(text)
    prefix = os.path.dirname(os.path.dirname(run("find", lib.root, "-path", "*/include/tc").strip()))
    for version, fits in ("0.2", False), ("1", False), ("0.1", True), ("", True):
        with open(os.path.join(source, "CMakeLists.txt"), "w") as f:
            f.write(CMAKE.replace("VERSION REQ", version + " REQ"))
        words = ["cmake", "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + prefix, f"-DCMAKE_LIBRARY_ARCHITECTURE={os.path.basename(lib.libdir)}"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode == 0) == fits, (version, done.stdout, done.stderr)
    run("cmake", "--build", build)
    for name in "use", "use-static":
        out = run(os.path.join(build, name))  # linked statically it looks for the plug-in where it would have been installed, and says so
        check_first_program("\n".join(line for line in out.splitlines() if not line.startswith("tc[warn]")))


def check_examples(lib):
    """Each installed example compiles where it was installed, with the installed headers; one in C and one in C++ run."""
    home = os.path.dirname(run("find", lib.root, "-path", "*/doc/tc/examples").strip())
    models = sorted(glob.glob(home + "/examples/models/*.c"))
    for path in sorted(glob.glob(home + "/examples/*.c") + glob.glob(home + "/examples/*.cpp")):
        compiler = ["cc", "-std=gnu11"] if path.endswith(".c") else ["g++", "-std=c++11"]
        with open(path) as f:
            text = f.read()
        more = models if "examples/models/" in text else []
        run(*compiler, "-I" + home, *lib.flags("--cflags"), path, *more, *lib.flags("--libs"), "-lm", "-o", path + ".out")
    for name, words in ("sin_cos.c", "[[ 1.          1.327"), ("line_fit.cpp", "weights ["):
        assert words in run(f"{home}/examples/{name}.out", env={"LD_LIBRARY_PATH": lib.libdir})
    for name in "README.md", "LICENSE", "docs/architecture.md", "docs/gpu.md", "examples/data/digits.csv":
        assert os.path.exists(os.path.join(home, name)), name


def check_tools(lib):
    """Manual pages are there, and name every option that the tools know; a wrong word is told, with exit status 2."""
    env = {"LD_LIBRARY_PATH": lib.libdir, "TC_LLVM_PATH": "", "TC_BACKEND_PATH": ""}
    for name in "tc-run", "tc-prof", "tc-conform", "tc-info":
        program = run("find", lib.root, "-path", "*/bin/" + name).strip()
        with open(run("find", lib.root, "-path", f"*/man1/{name}.1").strip()) as f:
            page = f.read()
        said = run(program, "--help", env=env)
        options = re.findall(r"--(\w+)", said)
        assert options and all(f"-{option}" in page for option in options), (options, page)
        for words in ["--nothing"], ["-x"], ["more", "words"]:
            done = subprocess.run([program, *words], env={**os.environ, **env}, capture_output=True, text=True)
            assert done.returncode == 2 and any(word in done.stderr for word in words) and not done.stdout, (words, done)
    tool = run("find", lib.root, "-path", "*/bin/tc-run").strip()
    for words, rc, says in (["-t", "99"], 1, "there is no trace 99; the file has"), (["-n", "many"], 2, "'many'"), (["--trace=1", "--times=2"], 0, ""):
        done = subprocess.run([tool, *words, TRACE], env={**os.environ, **env}, capture_output=True, text=True)
        assert done.returncode == rc and says in done.stderr, (words, done)
    assert run("find", lib.root, "-path", "*/man3/tc.3")
    short, full = run(program, env=env).splitlines(), run(program, "--all", env=env).splitlines()
    assert len(short) <= 18 and short[0].startswith("tc 0.") and any(line.split()[0] == "tc:cpu" for line in short), short
    assert len(full) > len(short) + 30 and any(line.startswith("TC_NUM_THREADS ") for line in full), full


def check_library(lib):
    so = os.path.join(lib.libdir, "libtc.so")
    assert re.search(r"SONAME.*\[libtc\.so\.0\]", run("readelf", "-d", so))
    names = [line.split()[2] for line in run("nm", "-D", "--defined-only", so).splitlines()]
    names = [name for name in names if not name.startswith("__jit_debug_")]  # of GDB's JIT interface
    assert len(names) > 400 and all(name.startswith("tc_") for name in names), [n for n in names if not n.startswith("tc_")]
    if os.path.exists(lib.plugin):
        names = [line.split()[2] for line in run("nm", "-D", "--defined-only", lib.plugin).splitlines()]
        assert names == ["tc_llvm_plugin_get"], names


def table_program():
    """A function that contains every tc expression of docs/from-pytorch.md, and those for memory of one's own of docs/guide.md; it is compiled, not run."""
    table, own = open("docs/from-pytorch.md").read(), open("docs/guide.md").read().split("| memory of your own |")[1]
    cells = [line.split("|")[2] for line in table.splitlines() if line.startswith("| `")] + [line.split("|")[2] for line in own.splitlines() if line.count("|") == 3]
    expressions = [e for cell in cells for e in re.findall(r"`([^`]*)`", cell) if "..." not in e]
    assert len(cells) > 20 and len(expressions) > 45, expressions
    names = """tc_tensor a, tc_tensor b, tc_tensor x, tc_tensor v, tc_tensor y, tc_tensor w, tc_tensor p, tc_tensor mean, tc_tensor var, tc_tensor loss, tc_tensor *xs, tc_tensor *out, tc_tensor *params, tc_tensor q, tc_tensor k, tc_tensor s, tc_tensor mask, tc_tensor cos, tc_tensor sin, tc_pool_options o,
      void *data, int64_t m, int64_t ld, tc_tensor t, tc_dims shape, tc_type type, const int64_t *start, const int64_t *stop, size_t bytes, int n, int i, bool training, float f,
      tc_optimizer *opt, tc_schedule *schedule, tc_nn_params *model, const tc_archive *file, const char *path, const char *const *names,
      struct DLManagedTensorVersioned *lent"""
    lines = ["  (void)(%s);" % e.replace("&v", "&f") for e in expressions]
    return "#include <tc/train.h>\nvoid table(%s);\nvoid table(%s) {\n%s\n}\nint main(void) {\n  return 0;\n}\n" % (names, names, "\n".join(lines))


def check_first_program(out):
    losses = [float(x) for x in re.findall(r"^step \d+: loss (\S+)$", out, re.M)]
    assert len(losses) == 4 and losses[0] > 10 and losses[-1] < 1e-3, out
    got = [float(x) for x in re.findall(r"[\d.]+", out.splitlines()[-1])]
    assert len(got) == 4 and all(abs(g - w) < 1e-2 for g, w in zip(got, (1, 2, 3, 4))), out


def check_resuming(lib, text):
    """It goes on where it stopped; a build without jansson says so instead."""
    if not re.search(r"\[libjansson", run("readelf", "-d", os.path.join(lib.libdir, "libtc.so"))):
        return
    sources = os.getcwd()
    os.chdir(lib.root)
    out = lib.program(["cc", "-Wpedantic", "-std=c11"], "resumes.c", text) + lib.again("resumes.c")
    os.chdir(sources)
    got = re.findall(r"^step (\d+): loss (\S+)$", out, re.M)
    assert [step for step, _ in got] == ["100", "200"] and float(got[1][1]) < float(got[0][1]), out


# Wrong calls, with t a tensor, n an int and v a float.
WRONG = ["tc_add(5, t)", "tc_add(t)", "tc_sub(1, 2)", "tc_relu()", "tc_relu(t, t)", "tc_sum(t)", "tc_sum(t, 1, false)", "tc_matmul(t, 3)", "tc_conv2d(t, t, t)",
         "tc_where(t, 1)", "tc_assign(t)", "tc_assign(t, 1)", "tc_item_f32(t, &v, 1)", "tc_eval(1, t)"]


def check_wrong_calls(lib):
    """A compiler's errors are at the caller's line, an unread status is told of, and macros show the names of parameters."""
    path = os.path.join(lib.root, "wrong.c")

    def compile_call(compiler, call, *flags):
        with open(path, "w") as f:
            f.write(f"#include <tc/nn.h>\nvoid wrong(tc_tensor t, int n, float v);\nvoid wrong(tc_tensor t, int n, float v) {{\n  (void)t, (void)n, (void)v;\n  {call};\n}}\n")
        return subprocess.run([compiler, "-std=c11", "-Wall", *(flags or ("-c", "-o", os.devnull)), *lib.flags("--cflags"), path], capture_output=True, text=True)

    for compiler in filter(shutil.which, ("cc", "clang-19")):
        for call in WRONG:
            done = compile_call(compiler, call)
            places = re.findall(r"^(.*?):(\d+):\d+: error", done.stderr, re.M)
            assert done.returncode != 0 and places and (compiler == "cc" and call == "tc_item_f32(t, &v, 1)" or set(places) == {(path, "5")}), done.stderr
        assert compile_call(compiler, "tc_assign(t, tc_conv2d(t, t, (tc_tensor){0, 0}, (tc_conv_options){.groups = 1, .stride = TC_SHAPE(1, 1)}))").stderr == ""
        assert "unused-result" in compile_call(compiler, "tc_item_f32(t, &v)").stderr
    macros = compile_call("cc", "n = 0", "-E", "-dD").stdout
    assert "#define tc_conv2d(x,weight,bias,options...)" in macros and "#define tc_assign(t,value...)" in macros, re.findall("#define tc_conv2d.*", macros)


def main():
    root = tempfile.mkdtemp()
    try:
        lib = Installed(sys.argv[1], root)
        check_library(lib)
        first, values, resumes, model = blocks("c")
        for static in (False, True):
            check_first_program(lib.program(["cc", "-Wpedantic", "-std=c11"], "first.c", first, static))
        check_cmake(lib, first)
        check_tools(lib)
        check_examples(lib)
        body = "#include <tc/tc.h>\nint main(void) {\n" + values + "}\n"
        assert lib.program(["cc"], "values.c", body) == "[0. 1.]\n[ 0. 10. 20. 30.]\n"
        check_resuming(lib, resumes)
        check_wrong_calls(lib)
        models = os.path.abspath("examples/models")
        body = '#include <stdio.h>\n#include "resnet.h"\nint use(void);\nint use(void) {\n' + model + "return 0;\n}\nint main(void) {\n  return 0;\n}\n"
        lib.program(["cc", "-I" + os.getcwd(), "-I" + models] + [os.path.join(models, f) for f in ("resnet.c", "weights.c")], "model.c", body, more=["-lm"])
        lib.program(["cc", "-Wno-unused-parameter", "-Wno-unused-result"], "table.c", table_program())
        (fit,) = blocks("cpp")
        assert re.fullmatch(r"loss \S+e-\d+\n\[2\. +3\.\]\n", lib.program(["g++", "-std=c++11", "-Wpedantic"], "readme.cc", fit))
        for standard in ("c++11", "c++20"):
            assert lib.program(["g++", "-Wpedantic", "-std=" + standard], "use.cc", CPP).startswith("3.5 12.5 gradient"), standard
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
