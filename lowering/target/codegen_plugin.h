// The code generator's plug-in: where it is, which build it is, and opening it.
//
// Idea: opening takes milliseconds and megabytes, so a process opens it for the first kernel that
// nobody compiled before. Which build it is stands in its file, as the linker's build id, which
// tells apart any two that may generate different code; what is kept on disk is kept under it.
// Threads: thread-safe. A plug-in that was opened stays.
#ifndef TC_LOWERING_TARGET_CODEGEN_PLUGIN_H
#define TC_LOWERING_TARGET_CODEGEN_PLUGIN_H

#include <stdint.h>
#include <tc/tc.h>

#include "lowering/target/isa.h"

struct tc_kir;

#define TC_BUILD_BYTES 80
#define TC_WHY_BYTES 192

#define TC_LLVM_ABI 3

typedef struct tc_llvm_plugin {
  uint32_t abi;  // TC_LLVM_ABI
  const char *version;  // "LLVM 19.1.7"
  bool lasting;  // it may compile while the process exits: nothing of it is destroyed then
  // cpu and features as LLVM names them; vector_bits: 128, 256 or 512. The function in the object
  // is called `name`.
  // On success *out_object is malloc'ed. TC_ERR_COMPILE or TC_ERR_MEMORY with the reason in text;
  // never aborts the process for a kernel that verifies.
  tc_status (*compile)(const struct tc_kir *kir, const char *name, const char *cpu, const char *features,
                       int vector_bits, void **out_object, size_t *out_bytes, char *text, size_t text_bytes);
  // The same, as assembly text for dumps.
  tc_status (*assembly)(const struct tc_kir *kir, const char *name, const char *cpu, const char *features,
                        int vector_bits, char **out_text, char *text, size_t text_bytes);
  // Writes the host's cpu name and feature string, which mean something only to the plug-in for the
  // host.
  void (*host)(char *cpu, size_t cpu_bytes, char *features, size_t features_bytes);
  // Tests: tc_alloc_fail_at of the plug-in's own allocations, which are not the library's. LLVM's
  // are neither.
  long (*fail_at)(long n, int sticky);
} tc_llvm_plugin;

// The build id, in hexadecimal digits, of the file that would be opened; "" if only opening tells
// which it is, there is none, or it has no build id. foreign: the plug-in for another machine's
// instruction set; NULL: for this one. Called once, before the plug-in is opened.
void tc_plugin_find(const tc_isa *foreign, char build[TC_BUILD_BYTES]);
// The plug-in that was looked for, opened by the first call, and which build it is as far as its
// file says; NULL: there is none, and why.
const tc_llvm_plugin *tc_plugin_open(char build[TC_BUILD_BYTES], char why[TC_WHY_BYTES]);

#endif
