// Own declarations of cuDNN, the library's and the simulator's, against the vendor's header: a
// compiler is given both. Where the real library is installed it also takes what convolutions are
// described with, for which it needs no device. The header is looked for in TC_CUDNN_HOME, where
// pip put it ($VIRTUAL_ENV) and in CUDA_HOME; skipped where it is not.
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>

#include "device/cuda/cudnn.h"
#include "runtime/options.h"
#include "tests/expect.h"
#include "tests/headers/header.h"

static const char own_text[] =
    "#include <cudnn_graph.h>\n"
    "#include <cuda.h>\n"
    "#include \"tests/headers/same.h\"\n"
    "#include \"device/cuda/cudnn.h\"\n"
    "#undef TC_CUDNN_NUMBER\n"
    "#define TC_CUDNN_NUMBER(name, value) SAME((int)CUDNN_##name, value);\n"
    "#include \"device/cuda/cudnn_numbers.def\"\n"
    "SAME(sizeof(cudnnDataType_t), sizeof(unsigned));\n"
    "SAME(sizeof(cudnnBackendKnobType_t), sizeof(unsigned));\n"
    "SAME(sizeof(cudnnBackendNumericalNote_t), sizeof(unsigned));\n"
    "SAME(sizeof(cudnnBackendBehaviorNote_t), sizeof(unsigned));\n"
    "#define TC_CUDNN_ROW(symbol, result, parameters) SAME_FUNCTION(symbol, result, parameters)\n"
    "#include \"device/cuda/cudnn.def\"\n";
static const char sim_text[] =
    "#include <cudnn_graph.h>\n"
    "#define SIM_REAL_CUDA_H\n"
    "#include \"tests/sim/cudnn_api.h\"\n"
    "#define X(name, value) _Static_assert((int)name == value, #name);\n"
    "SIM_CUDNN_NUMBERS(X)\n";

// The compiler's options that find the header and CUDA's; false, with a line that says so: one is
// not installed.
static bool find_header(char *out, size_t bytes) {
  const char *home = getenv("TC_CUDNN_HOME"), *venv = getenv("VIRTUAL_ENV"), *cuda = getenv("CUDA_HOME");
  char pattern[3][256], with_cuda[256];
  snprintf(pattern[0], sizeof pattern[0], "%s/include/cudnn_graph.h", home ? home : "/nowhere");
  snprintf(pattern[1], sizeof pattern[1], "%s/lib/python3*/site-packages/nvidia/cudnn/include/cudnn_graph.h",
           venv ? venv : "/nowhere");
  snprintf(pattern[2], sizeof pattern[2], "%s/include/cudnn_graph.h", cuda ? cuda : "/usr/local/cuda");
  if (!header_found("cuda_runtime.h", with_cuda, sizeof with_cuda)) return false;
  for (int i = 0; i < 3; i++) {
    glob_t found;
    if (glob(pattern[i], 0, NULL, &found) != 0) continue;
    char *path = found.gl_pathv[0];
    snprintf(out, bytes, "-I%.*s %s", (int)(strrchr(path, '/') - path), path, with_cuda);
    globfree(&found);
    return true;
  }
  printf("skipped: no cudnn_graph.h in TC_CUDNN_HOME, $VIRTUAL_ENV or %s\n", cuda ? cuda : "/usr/local/cuda");
  return false;
}

// Convolutions of every kind, described to the real library by the functions of
// device/cuda/cudnn.c, to the graph of one operation.
static void describe(void) {
  char why[512];
  tc_gpu_port port = {0};
  const char *home = getenv("TC_CUDNN_HOME");
  char path[512];
  snprintf(path, sizeof path, "%s/lib/libcudnn.so.9", home ? home : "");
  if (home && access(path, R_OK) == 0) setenv("TC_CUDNN_LIBRARY", path, 1), tc_options_reload();
  if (!tc_cudnn_ready(13, why, sizeof why)) {
    printf("cudnn_header: not described to the real library: %s\n", why);
    return;
  }
  for (int kind = 0; kind < 54; kind++) {
    static const tc_type types[] = {TC_F32, TC_F16, TC_BF16};
    tc_gpu_conv_facts f = {.type = types[kind % 3],
                           .direction = (tc_gpu_direction)(kind / 3 % 3),
                           .axes = 1 + kind / 9 % 3,
                           .batch = 8,
                           .in = 64};
    f.out = 128, f.groups = kind < 27 ? 1 : 4;
    for (int i = 0; i < f.axes; i++) {
      f.image[i] = 28, f.taps[i] = 3, f.stride[i] = 1 + kind % 2, f.dilation[i] = 1, f.low[i] = f.high[i] = 1;
      f.result[i] = (28 + 2 - 3) / f.stride[i] + 1;
    }
    void *made = NULL;
    int result = tc_cudnn_make(&port, &(tc_gpu_work){TC_GPU_CONVOLUTIONS, .conv = f}, &made);
    const char *name = "";
    if (result) (void)tc_cudnn_judge(result, &name);
    if (kind == 0 && result && strstr(name, "SUBLIBRARY")) {  // some of its parts are linked to the driver
      printf("cudnn_header: not described to %s: its parts do not load without a driver\n", tc_cudnn_name());
      return;
    }
    EXPECT(result == 0 && made, "kind %d: %s", kind, name);
    if (made) tc_cudnn_drop(made);
  }
  printf("cudnn_header: described to %s\n", tc_cudnn_name());
}

int main(void) {
  char include[640];
  if (!find_header(include, sizeof include)) return 77;
  EXPECT(header_compiles(own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles(sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles(own_text, "SAME(TC_CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B);\n", include, true),
         "a wrong number is taken");
  EXPECT(!header_compiles(sim_text, "size_t cudnnGetVersion(int);\n", include, true), "a wrong function is taken");
  describe();
  return expect_done("headers-cudnn");
}
