// The null code generator: kernels that do nothing, for TC_COMPILER=null. Copy this file to begin a
// generator; docs/add-a-code-generator.md says what else.
// In: any kernel of a CPU. Out: its text as "object", and a function that leaves all memory as it
// is.
// Use: with TC_INTERPRET_FIRST=0, a program takes what it takes beside its kernels: recording,
// planning and launching. Without it small kernels are interpreted first, and compute.
// Threads: thread-safe, without state. Owner: none.
#include <stdio.h>

#include "lowering/codegen/codegen.h"
#include "lowering/kir/print.h"
#include "runtime/status.h"

// A generator for CPUs takes kernels without threads, one for GPUs those with them.
static bool supports_kernel(const tc_kir *kir) {
  return kir->threads == 0;
}

// A real generator fails with TC_ERR_COMPILE for kernels that it makes no code of; they are
// interpreted. It walks kernel->inst once, from the first to the last. Values are numbered by
// their instruction.
static tc_status compile_kernel(const tc_kir *kir, const char *name, void **out, size_t *bytes, tc_gpu_shape *shape) {
  char *text = NULL;
  (void)shape;
  FILE *to = open_memstream(&text, bytes);
  if (to) tc_kir_print(kir, to);
  if (!to || fclose(to) != 0) return TC_FAIL(TC_ERR_MEMORY, "no room for the text of kernel %s", name);
  return *out = text, TC_OK;
}

// buf: the buffers' addresses. num: the scalars. A kernel does units [begin, end) of its outermost
// loop.
static void do_nothing(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                       struct tc_worker *worker) {
  (void)ctx, (void)buf, (void)num, (void)begin, (void)end, (void)worker;
}

// A real generator maps `code` into executable memory; elf_loader.h does that for object files.
static tc_status load_kernel(const tc_kir *kir, const char *name, const void *code, size_t bytes, tc_gpu *gpu,
                             tc_codegen_code *out) {
  (void)kir, (void)name, (void)code, (void)bytes, (void)gpu;
  *out = (tc_codegen_code){.fn = do_nothing};
  return TC_OK;
}

static bool open_nothing(tc_codegen_opened *out) {
  *out = (tc_codegen_opened){.sentence = "TC_COMPILER asks for kernels that do nothing"};
  return true;
}

const tc_codegen tc_codegen_null = {
    .name = "null", .supports = supports_kernel, .open = open_nothing, .compile = compile_kernel, .load = load_kernel};
