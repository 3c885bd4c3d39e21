// The simulated driver's declarations are those of a real cuda.h and nvrtc.h: a compiler is given
// both, and takes them. Skipped where CUDA is not installed.
#include "tests/headers/header.h"

static const char text[] =
    "#include <cuda.h>\n"
    "#include <nvrtc.h>\n"
    "#define SIM_REAL_CUDA_H\n"
    "#include \"tests/sim/cuda_api.h\"\n"
    "#include \"tests/sim/nvrtc_api.h\"\n"
    "#define X(name, value) _Static_assert(name == value, #name);\n"
    "SIM_CUDA_ERRORS(X) SIM_CUDA_NUMBERS(X) SIM_NVRTC_RESULTS(X)\n"
    "#define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type);\n"
    "#define AT(type, member, bytes) _Static_assert(offsetof(type, member) == bytes, #type \".\" #member);\n"
    "SIM_CUDA_STRUCTS(SIZE, AT)\n";
// The same sizes and places of the own ones.
static const char own_text[] =
    "#include \"tests/sim/cuda_api.h\"\n"
    "#define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type);\n"
    "#define AT(type, member, bytes) _Static_assert(offsetof(type, member) == bytes, #type \".\" #member);\n"
    "SIM_CUDA_STRUCTS(SIZE, AT)\n";

int main(void) {
  char include[256];
  if (!header_found("cuda.h", include, sizeof include)) return 77;
  if (!header_compiles(own_text, "", "", false) || !header_compiles(text, "", include, false)) {
    printf("sim_header: the declarations differ\n");
    return 1;
  }
  // The comparison can fail: another number, another parameter.
  if (header_compiles(text, "CUresult cuInit(int flags);\n", include, true) ||
      header_compiles("#include <cuda.h>\n_Static_assert(CUDA_ERROR_ILLEGAL_ADDRESS == 701, \"\");\n", "", include,
                      true)) {
    printf("sim_header: a wrong declaration is taken\n");
    return 1;
  }
  printf("sim_header: the same\n");
  return 0;
}
