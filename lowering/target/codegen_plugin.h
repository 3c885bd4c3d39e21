// The code generator's plug-in: finds its file, reads its build id, opens it.
//
// Opening takes milliseconds and megabytes. A process opens the plug-in for the first kernel that
// no cache holds. The linker's build id in the file distinguishes any two builds that may generate
// different code. It is part of the key of the disk cache.
// Threads: thread-safe. Owner: the process; an open plug-in is never closed.
#pragma once

#include <stdint.h>
#include <tc/tc.h>

#include "lowering/target/isa.h"

struct tc_kir;

#define TC_BUILD_BYTES 80
#define TC_WHY_BYTES 192

#define TC_LLVM_ABI 5

// Whether the object has DWARF line tables: which instruction of the kernel its code is of. Their
// file is NAME.kir, with the lines that tc_kir_print writes.
typedef enum tc_debug_lines { TC_NO_DEBUG_LINES, TC_DEBUG_LINES } tc_debug_lines;

typedef struct tc_llvm_plugin {
  uint32_t abi;  // TC_LLVM_ABI
  const char *version;  // "LLVM 19.1.7"
  // true: it may compile while the process exits, since nothing of it is destroyed then
  bool no_atexit;
  // Compiles a kernel to an object whose function is called `name`. cpu, features: as LLVM names
  // them. vector_bits: 128, 256 or 512. On success *out_object is malloc'ed. On TC_ERR_COMPILE or
  // TC_ERR_MEMORY text has the reason. Never aborts the process for a kernel that verifies.
  tc_status (*compile)(const struct tc_kir *kir, const char *name, const char *cpu, const char *features,
                       int vector_bits, tc_debug_lines lines, void **out_object, size_t *out_bytes, char *text,
                       size_t text_bytes);
  // Compiles a kernel to assembly text, for dumps.
  tc_status (*assembly)(const struct tc_kir *kir, const char *name, const char *cpu, const char *features,
                        int vector_bits, char **out_text, char *text, size_t text_bytes);
  // Writes the host's cpu name and feature string. Only the plug-in for the host understands them.
  void (*host)(char *cpu, size_t cpu_bytes, char *features, size_t features_bytes);
  // Nanoseconds that LLVM's IR took in this thread's last compile, with its verification.
  uint64_t (*emit_ns)(void);
  // For tests: tc_alloc_fail_at for the plug-in's own allocations, which are separate from the
  // library's. LLVM's allocations are not counted.
  long (*fail_at)(long n, int sticky);
} tc_llvm_plugin;

// Writes the build id, in hexadecimal digits, of the file that would be opened. "": there is no
// file, it has no build id, or only opening it can tell. foreign: the instruction set of another
// machine, whose plug-in is searched; NULL: this machine's. Called once, before the plug-in is
// opened.
void tc_plugin_find(const tc_isa *foreign, char build[TC_BUILD_BYTES]);
// Opens the plug-in that tc_plugin_find searched, at the first call. build: its build id, "" if the
// file has none.
// NULL: there is none, and `why` has the reason.
const tc_llvm_plugin *tc_plugin_open(char build[TC_BUILD_BYTES], char why[TC_WHY_BYTES]);
