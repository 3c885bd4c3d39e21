// The GPU source generator as a row of backends.def: print.h's texts, compiled by the device
// (NVRTC, hiprtc).
// In: a kernel with threads. Out: a GPU's code, and the shape of its launch.
// Threads: thread-safe, without state. Owner: the code belongs to whoever asked.
#include <string.h>

#include "lowering/codegen/codegen.h"
#include "lowering/codegen/gpu/print.h"
#include "runtime/status.h"

static bool supports_kernel(const tc_kir *kir) {
  return kir->threads > 0;
}

static tc_status compile_kernel(const tc_kir *kir, const char *name, void **out, size_t *bytes, tc_gpu_shape *shape) {
  char *source;
  *out = NULL;
  TC_TRY(tc_gpu_print(kir, name, &source, shape));
  *out = source, *bytes = strlen(source) + 1;
  return TC_OK;
}

static tc_status load_kernel(const tc_kir *kir, const char *name, const void *code, size_t bytes, tc_gpu *gpu,
                             tc_codegen_code *out) {
  (void)kir, (void)bytes;
  *out = (tc_codegen_code){.fn = NULL};
  return tc_gpu_compile(gpu, name, code, &out->gpu);
}

const tc_codegen tc_codegen_gpu_source = {
    .name = "gpu_source", .supports = supports_kernel, .compile = compile_kernel, .load = load_kernel};
