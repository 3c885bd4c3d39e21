// The interpreter as a row of backends.def: nests run as they are (interp/interp.h).
// In: a nest without threads. Out: a function whose ctx is its interpreter.
// Threads: thread-safe, without state. Owner: the interpreter belongs to whoever asked.
#include "lowering/codegen/codegen.h"
#include "lowering/codegen/interp/interp.h"

static bool supports(const tc_nest *nest) {
  return nest->threads == 0;
}

static tc_status load(const tc_nest *nest, const char *name, const void *code, size_t bytes, tc_gpu *gpu, tc_codegen_code *out) {
  (void)name, (void)code, (void)bytes, (void)gpu;
  *out = (tc_codegen_code){.fn = tc_interp_run};
  tc_status st = tc_interp_create(nest, &out->interp);
  out->ctx = out->interp;
  return st;
}

const tc_codegen tc_codegen_interp = {.name = "interp", .supports = supports, .load = load};
