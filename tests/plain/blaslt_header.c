// Own declarations of cuBLASLt, the library's and the simulator's, against the vendor's header: a compiler is given both. Where the real library is installed
// it also takes what products are described with, for which it needs no device. Skipped where CUDA is not installed.
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/blaslt.h"
#include "tests/plain/expect.h"
#include "tests/plain/header.h"

static const char own_text[] =
    "#include <cublasLt.h>\n"
    "#include <cuda.h>\n"
    "#include \"tests/plain/same.h\"\n"
    "#define TC_BLASLT_OPAQUE\n"
    "typedef cublasLtMatmulDesc_t tc_blaslt_product;\n"
    "typedef cublasLtMatrixLayout_t tc_blaslt_layout;\n"
    "typedef cublasLtMatmulPreference_t tc_blaslt_preference;\n"
    "#include \"device/cuda/blaslt.h\"\n"
    "#define TC_BLASLT_NUMBER(name, value) SAME((int)name, value);\n"
    "#include \"device/cuda/blaslt_numbers.def\"\n"
    "SAME(sizeof(tc_blaslt_algorithm), sizeof(cublasLtMatmulAlgo_t));\n"
    "SAME(sizeof(tc_gpu_algorithm), sizeof(cublasLtMatmulAlgo_t) + 8);\n"
    "SAME(sizeof(tc_blaslt_found), sizeof(cublasLtMatmulHeuristicResult_t));\n"
    "#define FIELD(f) SAME_FIELD(tc_blaslt_found, cublasLtMatmulHeuristicResult_t, f)\n"
    "FIELD(algo); FIELD(workspaceSize); FIELD(state); FIELD(wavesCount); FIELD(reserved);\n"
    "#define tc_blaslt_algorithm cublasLtMatmulAlgo_t\n"
    "#define tc_blaslt_found cublasLtMatmulHeuristicResult_t\n"
    "#define TC_BLASLT_ROW(symbol, needed, result, parameters) SAME_FUNCTION(symbol, result, parameters)\n"
    "#include \"device/cuda/blaslt.def\"\n";
static const char sim_text[] =
    "#include <cublasLt.h>\n"
    "#define SIM_REAL_CUDA_H\n"
    "#include \"tests/sim/cublaslt_api.h\"\n"
    "#define X(name, value) _Static_assert((int)name == value, #name);\n"
    "SIM_CUBLASLT_NUMBERS(X)\n";

// A product of every kind, described to the real library by the functions of device/cuda/blaslt.c.
static void describe(void) {
  char why[512];
  tc_gpu_port port = {0};
  if (!tc_blaslt_ready(13, why, sizeof why)) {
    printf("blaslt_header: not described to the real library: %s\n", why);
    return;
  }
  for (int kind = 0; kind < 32; kind++) {
    tc_gpu_product_facts f = {.type = kind & 1   ? TC_F32
                                      : kind & 2 ? TC_BF16
                                                 : TC_F16,
                              .batch = kind & 4 ? 3 : 1,
                              .m = 64,
                              .n = 128,
                              .k = 256,
                              .alignment = 16};
    f.left = (tc_gpu_operand){kind >> 3 & 1, kind & 8 ? 64 : 256, 64 * 256}, f.right = (tc_gpu_operand){kind >> 4 & 1, kind & 16 ? 256 : 128, 0};
    f.epilogue = kind & 1 ? TC_GPU_BIAS : TC_GPU_NO_EPILOGUE;
    void *made = NULL;
    int result = tc_blaslt_make(&port, &(tc_gpu_work){TC_GPU_PRODUCTS, .product = f}, &made);
    const char *name = "";
    if (result) (void)tc_blaslt_judge(result, &name);
    EXPECT(result == 0 && made, "kind %d: %s", kind, name);
    if (made) tc_blaslt_drop(made);
  }
  printf("blaslt_header: described to %s\n", tc_blaslt_name());
}

int main(void) {
  char include[256];
  if (!header_found("cublasLt.h", include, sizeof include)) return 77;
  EXPECT(header_compiles(own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles(sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles(own_text, "SAME(TC_CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU);\n", include, true), "a wrong number is taken");
  EXPECT(!header_compiles(sim_text, "size_t cublasLtGetVersion(int);\n", include, true), "a wrong function is taken");
  describe();
  return expect_done("blaslt_header");
}
