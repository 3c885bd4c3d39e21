// A code generator: kernel IR in, code that runs out. backends.def lists them all.
// In: a kernel that verifies. Out: a function (tc_kernel_fn), or a GPU's code.
// Invariants: every generator gives the bits that kir.h fixes, so that a kernel may change from one
// to the other between runs.
// Threads: the functions of a row are thread-safe, but for open, which is called once, before
// compile. Owner: each row owns what it opened.
#pragma once

#include "device/gpu.h"
#include "lowering/codegen/gpu/kernel_abi.h"
#include "lowering/target/codegen_plugin.h"

struct tc_elf_code;
struct tc_interp;

// What open found out.
typedef struct tc_codegen_opened {
  // Which build of the generator it is, for keys on disk. "": not known, so nothing is kept.
  char build[TC_BUILD_BYTES];
  // For tc-info: who compiles for what, or why nobody does.
  char sentence[256];
  // True: it may compile while the process exits. False: it must be done by then.
  bool no_atexit;
} tc_codegen_opened;

// Code that was loaded: fn with its ctx, or gpu. The pointers below say who owns it; NULL where
// that is not so.
typedef struct tc_codegen_code {
  tc_kernel_fn *fn;
  const void *ctx;
  struct tc_elf_code *elf;
  struct tc_interp *interp;
  tc_gpu_code *gpu;
} tc_codegen_code;

typedef struct tc_codegen {
  const char *name;  // as TC_COMPILER names it
  // Whether it makes code of this kind of kernel.
  bool (*supports)(const tc_kir *kir);
  // Finds what it needs; false: it cannot compile here, and `sentence` says why. Optional: NULL
  // means that nothing is needed.
  bool (*open)(tc_codegen_opened *out);
  // The bytes of the code of function `name`, malloc'ed: an object file, or a text. shape: of a
  // GPU's kernel, else left alone. TC_ERR_COMPILE: it makes no code of this kernel, which is then
  // interpreted. Optional: NULL means that the row is the interpreter, whose load takes the kernel.
  tc_status (*compile)(const tc_kir *kir, const char *name, void **out, size_t *bytes, tc_gpu_shape *shape);
  // Compiles for another instruction set of this machine. native: for exactly this processor.
  // Optional: NULL means that it makes code for one target alone.
  tc_status (*compile_for)(const tc_isa *isa, bool native, const tc_kir *kir, const char *name, void **out,
                           size_t *bytes);
  // Nanoseconds of this thread's last compile that went before the generator proper: LLVM's IR.
  // Optional: NULL means that nothing did.
  uint64_t (*emit_ns)(void);
  // Those bytes, or bytes kept on disk, as code; of a generator without compile the kernel's. gpu:
  // whose kernel it is, or NULL. On failure *out is zeros.
  tc_status (*load)(const tc_kir *kir, const char *name, const void *code, size_t bytes, tc_gpu *gpu,
                    tc_codegen_code *out);
  // The code as assembly for TC_LOG=asm, malloc'ed; NULL: there is none. Optional: NULL means that
  // it has no such text.
  char *(*assembly)(const tc_kir *kir, const char *name);
} tc_codegen;

#define TC_CODEGEN(name) extern const tc_codegen tc_codegen_##name;
#include "lowering/codegen/backends.def"
#undef TC_CODEGEN

// The row of that name; NULL: there is none.
const tc_codegen *tc_codegen_named(const char *name);
