// Own declarations of hipBLASLt, the library's and the simulator's, against the vendor's header,
// which is C++: a compiler is given both. Where the real library is installed its functions are
// looked up, too. Skipped where hipBLASLt's header is not installed.
#include <dlfcn.h>
#include <stdio.h>

#include "tests/expect.h"
#include "tests/headers/header.h"

#define COMPILER "c++ -std=c++17 -D__HIP_PLATFORM_AMD__ -x c++"

static const char own_text[] =
    "#include <hipblaslt/hipblaslt.h>\n"
    "#include <cstddef>\n"
    "#include <type_traits>\n"
    "#define SAME(a, b) static_assert((long long)(a) == (long long)(b), #a)\n"
    "#define TC_HIPBLASLT_NUMBER(name, value) SAME(name, value);\n"
    "#include \"device/hip/hipblaslt_numbers.def\"\n"
    "SAME(sizeof(hipblasLtMatmulAlgo_t), 24);\n"
    "SAME(sizeof(hipblasLtMatmulHeuristicResult_t), 24 + 32);\n"
    "SAME(offsetof(hipblasLtMatmulHeuristicResult_t, algo), 0);\n"
    "SAME(offsetof(hipblasLtMatmulHeuristicResult_t, workspaceSize), 24);\n"
    "SAME(offsetof(hipblasLtMatmulHeuristicResult_t, state), 24 + 8);\n"
    "typedef hipblasStatus_t tc_lt_status;\n"
    "typedef hipblasComputeType_t tc_lt_compute;\n"
    "typedef hipDataType tc_lt_type;\n"
    "typedef hipblasLtMatmulDescAttributes_t tc_lt_matmul_attribute;\n"
    "typedef hipblasLtMatrixLayoutAttribute_t tc_lt_layout_attribute;\n"
    "typedef hipblasLtMatmulPreferenceAttributes_t tc_lt_preference_attribute;\n"
    "typedef hipblasLtHandle_t tc_lt_handle;\n"
    "typedef hipblasLtMatmulDesc_t tc_lt_matmul;\n"
    "typedef hipblasLtMatrixLayout_t tc_lt_layout;\n"
    "typedef hipblasLtMatmulPreference_t tc_lt_preference;\n"
    "typedef hipStream_t tc_lt_stream;\n"
    "typedef hipblasLtMatmulAlgo_t tc_lt_algorithm;\n"
    "typedef hipblasLtMatmulHeuristicResult_t tc_lt_found;\n"
    "#define FUNCTION(name, parameters) static_assert(std::is_same<decltype(&name), tc_lt_status(*) parameters>::value, #name);\n"
    "#define NEEDED(name, parameters) FUNCTION(hipblasLt##name, parameters)\n"
    "#define ABSENT(name, parameters)\n"
    "#define TC_LT_ROW(name, cuda, hip, parameters) hip(name, parameters)\n"
    "#include \"device/gpu/blas_lt.def\"\n"
    "FUNCTION(hipblasLtGetVersion, (tc_lt_handle handle, int *version))\n";
static const char sim_text[] =
    "#include <hipblaslt/hipblaslt.h>\n"
    "#define SIM_REAL_HIP_H\n"
    "#include \"tests/sim/hipblaslt_api.h\"\n"
    "#define X(name, value) static_assert((int)name == value, #name);\n"
    "SIM_HIPBLASLT_NUMBERS(X)\n";

static void look_up(void) {
  static const char *const names[] = {"libhipblaslt.so", "libhipblaslt.so.1", "libhipblaslt.so.0"};
  void *handle = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++)
    handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    printf("hipblaslt_header: the library is not installed\n");
    return;
  }
#define NEEDED(name) EXPECT(dlsym(handle, "hipblasLt" name), "there is no hipblasLt" name);
#define ABSENT(name)
#define TC_LT_ROW(name, cuda, hip, parameters) hip(#name)
#include "device/gpu/blas_lt.def"
#undef TC_LT_ROW
  NEEDED("GetVersion")
  printf("hipblaslt_header: its functions are there\n");
}

int main(void) {
  char include[256];
  if (!header_found_of_rocm("hipblaslt/hipblaslt.h", include, sizeof include)) return 77;
  EXPECT(header_compiles_by(COMPILER, own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles_by(COMPILER, sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles_by(COMPILER, own_text, "SAME(HIPBLASLT_EPILOGUE_RELU, 4);\n", include, true),
         "a wrong number is taken");
  EXPECT(!header_compiles_by(COMPILER, sim_text, "extern \"C\" int hipblasLtCreate(hipblasLtHandle_t *);\n", include,
                             true),
         "a wrong function is taken");
  look_up();
  return expect_done("headers-hipblaslt");
}
