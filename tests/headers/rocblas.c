// Own declarations of rocBLAS, the library's and the simulator's, against the vendor's header: a
// compiler is given both. Where the real library is installed its functions are looked up, too, and
// it says its version, for which it needs no device. Skipped where rocBLAS's header is not
// installed.
#include <dlfcn.h>
#include <stdio.h>

#include "device/hip/rocblas.h"
#include "tests/expect.h"
#include "tests/headers/header.h"

static const char own_text[] =
    "#define ROCBLAS_BETA_FEATURES_API\n"
    "#define ROCBLAS_NO_DEPRECATED_WARNINGS\n"
    "#include <rocblas/rocblas.h>\n"
    "#include \"device/hip/rocblas.h\"\n"
    "#include \"tests/headers/same.h\"\n"
    "#define TC_ROCBLAS_NUMBER(name, value) SAME((int)name, value);\n"
    "#include \"device/hip/rocblas_numbers.def\"\n"
    "#define TC_ROCBLAS_ROW(symbol, needed, result, parameters) SAME_FUNCTION(symbol, result, parameters)\n"
    "#include \"device/hip/rocblas.def\"\n";
static const char sim_text[] =
    "#define ROCBLAS_BETA_FEATURES_API\n"
    "#define ROCBLAS_NO_DEPRECATED_WARNINGS\n"
    "#include <rocblas/rocblas.h>\n"
    "#undef rocblas_gemm_strided_batched_ex\n"
    "#define SIM_REAL_HIP_H\n"
    "#include \"tests/sim/rocblas_api.h\"\n"
    "#define X(name, value) _Static_assert((int)name == value, #name);\n"
    "SIM_ROCBLAS_NUMBERS(X)\n";

static void look_up(void) {
  static const char *const names[] = {"librocblas.so", "librocblas.so.5", "librocblas.so.4", "librocblas.so.3",
                                      "librocblas.so.0"};
  void *handle = NULL;
  char version[64] = "";
  for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++)
    handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    printf("rocblas_header: the library is not installed\n");
    return;
  }
#define TC_ROCBLAS_ROW(symbol, needed, result, parameters) EXPECT(dlsym(handle, #symbol), "there is no " #symbol);
#include "device/hip/rocblas.def"
#undef TC_ROCBLAS_ROW
  tc_rocblas_status (*say)(char *, size_t) =
      (tc_rocblas_status(*)(char *, size_t))dlsym(handle, "rocblas_get_version_string");
  EXPECT(say && say(version, sizeof version) == TC_rocblas_status_success, "it does not say its version");
  printf("rocblas_header: functions of rocBLAS %s\n", version);
}

int main(void) {
  char include[256];
  if (!header_found_of_rocm("rocblas/rocblas.h", include, sizeof include)) return 77;
  EXPECT(header_compiles(own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles(sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles(own_text, "SAME(TC_rocblas_datatype_f32_r, rocblas_datatype_f16_r);\n", include, true),
         "a wrong number is taken");
  EXPECT(!header_compiles(sim_text, "rocblas_status rocblas_set_workspace(rocblas_handle handle);\n", include, true),
         "a wrong function is taken");
  look_up();
  return expect_done("headers-rocblas");
}
