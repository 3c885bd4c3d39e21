// The interpreter as a row of backends.def: kernels run as they are (interp/interp.h).
// In: a kernel without threads. Out: a function whose ctx is its interpreter.
// Threads: thread-safe, without state. Owner: the interpreter belongs to whoever asked.
#include "lowering/codegen/codegen.h"
#include "lowering/codegen/interp/interp.h"

static bool supports_kernel(const tc_kir *kir) {
  return kir->threads == 0;
}

static tc_status load_kernel(const tc_kir *kir, const char *name, const void *code, size_t bytes, tc_gpu *gpu,
                             tc_codegen_code *out) {
  (void)name, (void)code, (void)bytes, (void)gpu;
  *out = (tc_codegen_code){.fn = tc_interp_run};
  tc_status st = tc_interp_create(kir, &out->interp);
  out->ctx = out->interp;
  return st;
}

const tc_codegen tc_codegen_interp = {.name = "interp", .supports = supports_kernel, .load = load_kernel};
