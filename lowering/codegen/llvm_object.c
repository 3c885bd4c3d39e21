// The LLVM code generator as a row of backends.def: objects by the plug-in (llvm/codegen.h), loaded
// by elf_loader.h.
// In: a kernel without threads. Out: a function of this processor, or an object for the instruction
// set that TC_ISA names.
// Threads: as codegen.h says. Owner: the plug-in stays open.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/codegen.h"
#include "lowering/codegen/elf_loader.h"
#include "lowering/codegen/perf_files.h"
#include "lowering/target/cpu_target.h"
#include "runtime/status.h"

// What LLVM makes code for.
typedef struct machine {
  int vector_bits;
  char cpu[64], features[4096];
} machine;

static struct {
  const tc_llvm_plugin *plugin;  // NULL: there is none
  machine of;
} self;

static bool supports_kernel(const tc_kir *kir) {
  return kir->threads == 0;
}

// Of the host's own processor: its features, less what the chosen set is without.
static void describe_machine(const tc_isa *isa, bool native, machine *out) {
  out->vector_bits = isa->vector_bytes * 8;
  if (!native) {
    snprintf(out->cpu, sizeof out->cpu, "%s", isa->cpu);
    snprintf(out->features, sizeof out->features, "%s", isa->features);
    return;
  }
  self.plugin->host(out->cpu, sizeof out->cpu, out->features, sizeof out->features);
  size_t n = strlen(out->features);
  snprintf(out->features + n, sizeof out->features - n, "%s", isa->without);
}

static bool open_plugin(tc_codegen_opened *out) {
  char why[TC_WHY_BYTES] = "";
  const tc_isa *isa = tc_compiler_isa();
  bool foreign = !tc_isa_is_of_host(isa);
  self.plugin = tc_plugin_open(out->build, why);
  if (!self.plugin) {
    snprintf(out->sentence, sizeof out->sentence, "no compiler, kernels are interpreted: %.180s", why);
    return false;
  }
  describe_machine(isa, !foreign, &self.of);
  out->no_atexit = self.plugin->no_atexit;
  snprintf(out->sentence, sizeof out->sentence, "%s for %s, %d-bit vectors%s%s", self.plugin->version, self.of.cpu,
           self.of.vector_bits, foreign ? ": not this machine, kernels are interpreted as they are for " : "",
           foreign ? isa->name : "");
  return true;
}

static tc_status compile_on(const machine *m, tc_debug_lines lines, const tc_kir *kir, const char *name, void **out,
                            size_t *bytes) {
  char why[512] = "";
  *out = NULL;
  tc_status st =
      self.plugin->compile(kir, name, m->cpu, m->features, m->vector_bits, lines, out, bytes, why, sizeof why);
  return st == TC_OK ? TC_OK : TC_FAIL(st, "%s: %s", name, why);
}

static tc_status compile_kernel(const tc_kir *kir, const char *name, void **out, size_t *bytes, tc_gpu_shape *shape) {
  (void)shape;
  return compile_on(&self.of, tc_perf_wants_lines() ? TC_DEBUG_LINES : TC_NO_DEBUG_LINES, kir, name, out, bytes);
}

static tc_status compile_for(const tc_isa *isa, bool native, const tc_kir *kir, const char *name, void **out,
                             size_t *bytes) {
  machine m;
  describe_machine(isa, native, &m);
  return compile_on(&m, TC_NO_DEBUG_LINES, kir, name, out, bytes);
}

static uint64_t emit_ns(void) {
  return self.plugin->emit_ns();
}

static tc_status load_kernel(const tc_kir *kir, const char *name, const void *code, size_t bytes, tc_gpu *gpu,
                             tc_codegen_code *out) {
  void *fn = NULL;
  (void)gpu;
  *out = (tc_codegen_code){.fn = NULL};
  TC_TRY(tc_elf_load(code, bytes, name, &out->elf, &fn));
  tc_elf_announce(out->elf, kir);
  *(void **)&out->fn = fn;
  return TC_OK;
}

static char *assembly(const tc_kir *kir, const char *name) {
  char *text = NULL, why[256];
  bool made = self.plugin->assembly(kir, name, self.of.cpu, self.of.features, self.of.vector_bits, &text, why,
                                    sizeof why) == TC_OK;
  return made ? text : (free(text), NULL);
}

const tc_codegen tc_codegen_llvm = {.name = "llvm",
                                    .supports = supports_kernel,
                                    .open = open_plugin,
                                    .compile = compile_kernel,
                                    .compile_for = compile_for,
                                    .emit_ns = emit_ns,
                                    .load = load_kernel,
                                    .assembly = assembly};
