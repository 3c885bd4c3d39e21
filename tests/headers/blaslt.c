// Own declarations of cuBLASLt, the library's and the simulator's, against the vendor's header: a
// compiler is given both. Where the real library is installed it also takes what products are
// described with, for which it needs no device. Skipped where CUDA is not installed.
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/blaslt.h"
#include "tests/expect.h"
#include "tests/headers/header.h"

static const char own_text[] =
    "#include <cublasLt.h>\n"
    "#include <cuda.h>\n"
    "#include \"tests/headers/same.h\"\n"
    "#define TC_LT_OPAQUE\n"
    "typedef unsigned tc_lt_status, tc_lt_compute, tc_lt_type, tc_lt_matmul_attribute, tc_lt_layout_attribute, tc_lt_preference_attribute;\n"
    "typedef cublasLtHandle_t tc_lt_handle;\n"
    "typedef cublasLtMatmulDesc_t tc_lt_matmul;\n"
    "typedef cublasLtMatrixLayout_t tc_lt_layout;\n"
    "typedef cublasLtMatmulPreference_t tc_lt_preference;\n"
    "typedef cudaStream_t tc_lt_stream;\n"
    "typedef cublasLtMatmulAlgo_t tc_lt_algorithm;\n"
    "typedef cublasLtMatmulHeuristicResult_t tc_lt_found;\n"
    "#include \"device/cuda/blaslt.h\"\n"
    "#define TC_BLASLT_NUMBER(name, value) SAME((int)name, value);\n"
    "#include \"device/cuda/blaslt_numbers.def\"\n"
    "SAME(sizeof(cublasLtMatmulAlgo_t), 64);\n"
    "SAME(sizeof(tc_gpu_algorithm), sizeof(cublasLtMatmulAlgo_t) + 8);\n"
    "SAME(sizeof(tc_lt_answer) + 64, sizeof(cublasLtMatmulHeuristicResult_t));\n"
    "#define FIELD(f) SAME(offsetof(tc_lt_answer, f) + 64, offsetof(cublasLtMatmulHeuristicResult_t, f))\n"
    "SAME(offsetof(cublasLtMatmulHeuristicResult_t, algo), 0);\n"
    "FIELD(workspaceSize); FIELD(state); FIELD(wavesCount); FIELD(reserved);\n"
    "#define TC_LT_ROW(name, cuda, hip, parameters) SAME_FUNCTION(cublasLt##name, tc_lt_status, parameters)\n"
    "#include \"device/gpu/blas_lt.def\"\n"
    "SAME_FUNCTION(cublasLtGetVersion, size_t, (void))\n"
    "SAME_FUNCTION(cublasLtGetStatusName, const char *, (tc_lt_status status))\n";
static const char sim_text[] =
    "#include <cublasLt.h>\n"
    "#define SIM_REAL_CUDA_H\n"
    "#include \"tests/sim/cublaslt_api.h\"\n"
    "#define X(name, value) _Static_assert((int)name == value, #name);\n"
    "SIM_CUBLASLT_NUMBERS(X)\n";

// A product of every kind, described to the real library by the functions of device/gpu/blas_lt.c.
static void describe(void) {
  char why[512];
  const tc_lt_library *lt = tc_blaslt_ready(13, why, sizeof why);
  if (!lt) {
    printf("blaslt_header: not described to the real library: %s\n", why);
    return;
  }
  for (int kind = 0; kind < 32; kind++) {
    tc_gpu_matmul_facts f = {.type = kind & 1   ? TC_F32
                                     : kind & 2 ? TC_BF16
                                                : TC_F16,
                             .batch = kind & 4 ? 3 : 1,
                             .m = 64,
                             .n = 128,
                             .k = 256,
                             .alignment = 16};
    f.left = (tc_gpu_operand){kind >> 3 & 1, kind & 8 ? 64 : 256, 64 * 256},
    f.right = (tc_gpu_operand){kind >> 4 & 1, kind & 16 ? 256 : 128, 0};
    f.epilogue = kind & 1 ? TC_GPU_BIAS : TC_GPU_NO_EPILOGUE;
    void *made = NULL;
    int result = tc_lt_make(lt, &(tc_gpu_work){TC_GPU_MATMULS, .matmul = f}, &made);
    const char *name = "";
    if (result) (void)tc_lt_judge(lt, result, &name);
    EXPECT(result == 0 && made, "kind %d: %s", kind, name);
    if (made) tc_lt_drop(made);
  }
  printf("blaslt_header: described to %s\n", tc_blaslt_name());
}

int main(void) {
  char include[256];
  if (!header_found("cublasLt.h", include, sizeof include)) return 77;
  EXPECT(header_compiles(own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles(sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles(own_text, "SAME(TC_CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU);\n", include, true),
         "a wrong number is taken");
  EXPECT(!header_compiles(sim_text, "size_t cublasLtGetVersion(int);\n", include, true), "a wrong function is taken");
  describe();
  return expect_done("headers-blaslt");
}
