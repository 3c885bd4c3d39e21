// This machine's compiler of kernels: the row of backends.def that TC_COMPILER names, opened for
// the first kernel that needs it, and one sentence about it.
// Threads: thread-safe; what a fork must not cut is between tc_compiler_begin and tc_compiler_end.
#ifndef TC_LOWERING_JIT_COMPILER_H
#define TC_LOWERING_JIT_COMPILER_H

#include "lowering/codegen/codegen.h"
#include "lowering/kir/kir.h"
#include "lowering/target/cpu_target.h"

// One sentence for tc-info: which compiler and target, or why there is none.
const char *tc_compiler_sentence(void);
// The object file of function `name` for that instruction set, malloc'ed; TC_ERR_COMPILE without a
// compiler for it. kernel is borrowed.
tc_status tc_compiler_object(const tc_kir *kir, const char *name, void **out, size_t *bytes);
// Opens it; false: there is none. *lasting: see codegen.h.
bool tc_compiler_open(bool *lasting);

// ---- for kernel_cache.c ----

// Around what may open a compiler or runs one: locks of its own, which no fork can take. A fork
// that waits is let through before new compiles.
void tc_compiler_begin(void);
void tc_compiler_end(void);
// What a kernel's key on disk begins with: who makes objects, and for what; "": nothing is kept.
const char *tc_compiler_head(void);
// The following begin in between. Opened, if it was not: whether there is one, and whether it is
// what the head says.
bool tc_compiler_is_there(void);
bool tc_compiler_is_of_head(void);
tc_status tc_compiler_make(const tc_kir *kir, const char *name, void **out, size_t *bytes);
// Such an object, made now or kept on disk, as code.
tc_status tc_compiler_load(const tc_kir *kir, const char *name, const void *object, size_t bytes, tc_codegen_code *out);
// Tells once that kernels are interpreted that were to be compiled.
void tc_compiler_tell(void);
// TC_LOG=asm.
void tc_compiler_log(const tc_kir *kir, const char *name);

#endif
