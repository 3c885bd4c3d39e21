// The simulated driver's declarations are those of a real cuda.h and nvrtc.h: a compiler is given both, and takes them. Skipped where CUDA is not installed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// quiet: it should not.
static int compiles(const char *source, const char *include, int quiet) {
  char path[] = "/tmp/tc-sim-header-XXXXXX", command[512];
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, source, strlen(source)) < 0) return 0;
  close(fd);
  snprintf(command, sizeof command, "cc -std=gnu11 -fsyntax-only -w -I. %s -x c %s%s", include, path, quiet ? " 2>/dev/null" : "");
  int status = system(command);
  unlink(path);
  return status == 0;
}

int main(void) {
  const char *home = getenv("CUDA_HOME");
  char file[288], include[256];
  snprintf(include, sizeof include, "-I%s/include", home ? home : "/usr/local/cuda");
  snprintf(file, sizeof file, "%s/cuda.h", include + 2);
  if (access(file, R_OK) != 0) {
    printf("skipped: no %s\n", file);
    return 77;
  }
  if (!compiles(own_text, "", 0) || !compiles(text, include, 0)) {
    printf("sim_header: the declarations differ\n");
    return 1;
  }
  // The comparison can fail: another number, another parameter.
  char wrong[4096];
  snprintf(wrong, sizeof wrong, "%sCUresult cuInit(int flags);\n", text);
  if (compiles(wrong, include, 1) || compiles("#include <cuda.h>\n_Static_assert(CUDA_ERROR_ILLEGAL_ADDRESS == 701, \"\");\n", include, 1)) {
    printf("sim_header: a wrong declaration is taken\n");
    return 1;
  }
  printf("sim_header: the same\n");
  return 0;
}
