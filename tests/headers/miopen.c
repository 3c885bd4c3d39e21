// Own declarations of MIOpen, the library's and the simulator's, against the vendor's header: a
// compiler is given both. Where the real library is installed its functions are looked up, too, and
// it says its version, for which it needs no device. Skipped where MIOpen's header is not
// installed.
#include <dlfcn.h>
#include <stdio.h>

#include "device/hip/miopen.h"
#include "tests/expect.h"
#include "tests/headers/header.h"

#define COMPILER "cc -std=gnu11 -D_GNU_SOURCE -D__HIP_PLATFORM_AMD__ -x c"

static const char own_text[] =
    "#include <stdint.h>\n"
    "#include <miopen/miopen.h>\n"
    "#include \"tests/headers/same.h\"\n"
    "#define TC_MIOPEN_SOLUTION\n"
    "typedef miopenConvSolution_t tc_miopen_solution;\n"
    "#include \"device/hip/miopen.h\"\n"
    "#define TC_MIOPEN_NUMBER(name, value) SAME((int)name, value);\n"
    "#include \"device/hip/miopen_numbers.def\"\n"
    "#define TC_MIOPEN_ROW(symbol, result, parameters) SAME_FUNCTION(symbol, result, parameters);\n"
    "#include \"device/hip/miopen.def\"\n";
static const char solution_text[] =
    "#include <stdint.h>\n"
    "#include <miopen/miopen.h>\n"
    "#include \"tests/headers/same.h\"\n"
    "#include \"device/hip/miopen.h\"\n"
    "SAME(sizeof(tc_miopen_solution), sizeof(miopenConvSolution_t));\n"
    "SAME_FIELD(tc_miopen_solution, miopenConvSolution_t, time);\n"
    "SAME_FIELD(tc_miopen_solution, miopenConvSolution_t, workspace_size);\n"
    "SAME_FIELD(tc_miopen_solution, miopenConvSolution_t, solution_id);\n"
    "SAME_FIELD(tc_miopen_solution, miopenConvSolution_t, algorithm);\n";
static const char sim_text[] =
    "#include <stdint.h>\n"
    "#include <miopen/miopen.h>\n"
    "#define SIM_REAL_HIP_H\n"
    "#include \"tests/sim/miopen_api.h\"\n"
    "#define X(name, value) _Static_assert((int)name == value, #name);\n"
    "SIM_MIOPEN_NUMBERS(X)\n";

static void look_up(void) {
  static const char *const names[] = {"libMIOpen.so.1", "libMIOpen.so"};
  void *handle = NULL;
  size_t v[3] = {0};
  for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++)
    handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
  if (!handle) {
    printf("miopen_header: the library is not installed\n");
    return;
  }
#define TC_MIOPEN_ROW(symbol, result, parameters) EXPECT(dlsym(handle, #symbol), "there is no " #symbol);
#include "device/hip/miopen.def"
#undef TC_MIOPEN_ROW
  tc_miopen_status (*say)(size_t *, size_t *, size_t *) =
      (tc_miopen_status(*)(size_t *, size_t *, size_t *))dlsym(handle, "miopenGetVersion");
  EXPECT(say && say(&v[0], &v[1], &v[2]) == TC_miopenStatusSuccess, "it does not say its version");
  printf("miopen_header: functions of MIOpen %zu.%zu.%zu\n", v[0], v[1], v[2]);
}

int main(void) {
  char include[256];
  if (!header_found_of_rocm("miopen/miopen.h", include, sizeof include)) return 77;
  EXPECT(header_compiles_by(COMPILER, own_text, "", include, false), "the library's declarations differ");
  EXPECT(header_compiles_by(COMPILER, solution_text, "", include, false), "a solution differs");
  EXPECT(header_compiles_by(COMPILER, sim_text, "", include, false), "the simulator's declarations differ");
  EXPECT(!header_compiles_by(COMPILER, own_text, "SAME(TC_miopenHalf, miopenFloat);\n", include, true),
         "a wrong number is taken");
  EXPECT(!header_compiles_by(COMPILER, sim_text, "miopenStatus_t miopenGetVersion(size_t *major);\n", include, true),
         "a wrong function is taken");
  look_up();
  return expect_done("headers-miopen");
}
