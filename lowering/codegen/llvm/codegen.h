// The LLVM code generator: a pure function from bytes to bytes, in a plug-in (libtc-llvm.so) opened with dlopen so that the library itself does
// not load LLVM. The object is relocatable ELF for the machine the plug-in is built for: the host, whose objects lowering/codegen/elf_loader.h loads, or AArch64 with
// TC_LLVM_AARCH64 (libtc-llvm-aarch64.so). Threads: thread-safe; each call has its own context.
#ifndef TC_LOWERING_CODEGEN_LLVM_CODEGEN_H
#define TC_LOWERING_CODEGEN_LLVM_CODEGEN_H

#include "lowering/kir/kir.h"

#define TC_LLVM_ABI 3

typedef struct tc_llvm_plugin {
  uint32_t abi;  // TC_LLVM_ABI
  const char *version;  // "LLVM 19.1.7"
  bool lasting;  // it may compile while the process exits: nothing of it is destroyed then
  // cpu and features as LLVM names them; vector_bits: 128, 256 or 512. The function in the object is called `name`.
  // On success *out_object is malloc'ed. TC_ERR_COMPILE or TC_ERR_MEMORY with the reason in text; never aborts the process for a nest that verifies.
  tc_status (*compile)(const tc_nest *nest, const char *name, const char *cpu, const char *features, int vector_bits, void **out_object,
                       size_t *out_bytes, char *text, size_t text_bytes);
  // The same, as assembly text for dumps.
  tc_status (*assembly)(const tc_nest *nest, const char *name, const char *cpu, const char *features, int vector_bits, char **out_text, char *text,
                        size_t text_bytes);
  // Writes the host's cpu name and feature string, which mean something only to the plug-in for the host.
  void (*host)(char *cpu, size_t cpu_bytes, char *features, size_t features_bytes);
  // Tests: tc_alloc_fail_at of the plug-in's own allocations, which are not the library's. LLVM's are neither.
  long (*fail_at)(long n, int sticky);
} tc_llvm_plugin;

// The plug-in's only exported symbol.
const tc_llvm_plugin *tc_llvm_plugin_get(void);

#endif
