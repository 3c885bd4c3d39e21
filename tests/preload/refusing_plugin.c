// A plug-in that opens as the compiler and refuses every kernel, for tests/planning/refused_kernels.c.
#include <stdio.h>

#include "lowering/target/codegen_plugin.h"

static tc_status refuse(const struct tc_kir *kir, const char *name, const char *cpu, const char *features,
                        int vector_bits, tc_debug_lines lines, void **out_object, size_t *out_bytes, char *text,
                        size_t text_bytes) {
  (void)kir, (void)name, (void)cpu, (void)features, (void)vector_bits, (void)lines, (void)out_bytes;
  *out_object = NULL;
  snprintf(text, text_bytes, "this generator refuses it");
  return TC_ERR_COMPILE;
}

static void host(char *cpu, size_t cpu_bytes, char *features, size_t features_bytes) {
  snprintf(cpu, cpu_bytes, "any");
  snprintf(features, features_bytes, " ");
}

TC_API const tc_llvm_plugin *tc_llvm_plugin_get(void);
TC_API const tc_llvm_plugin *tc_llvm_plugin_get(void) {
  static const tc_llvm_plugin plugin = {.abi = TC_LLVM_ABI, .version = "none", .compile = refuse, .host = host};
  return &plugin;
}
