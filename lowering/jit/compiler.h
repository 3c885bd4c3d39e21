// Facade of the code generator that TC_COMPILER names (a row of backends.def). It is opened for the
// first kernel that needs it.
// Threads: thread-safe. Work that a fork must not interrupt lies between tc_compiler_begin and
// tc_compiler_end.
#pragma once

#include "lowering/codegen/codegen.h"
#include "lowering/kir/kir.h"
#include "lowering/target/cpu_target.h"

// One sentence for tc-info: the compiler and its target, or why there is none.
const char *tc_compiler_sentence(void);
// The object file of function `name` for this machine's target, malloc'ed. TC_ERR_COMPILE where
// there is no compiler for it. kir is borrowed.
tc_status tc_compiler_object(const tc_kir *kir, const char *name, void **out, size_t *bytes);
// The object file for another instruction set of this machine, or natively for exactly this
// processor.
tc_status tc_compiler_object_for(const tc_isa *isa, bool native, const tc_kir *kir, const char *name, void **out,
                                 size_t *bytes);
// Opens the compiler. False: there is none. *no_atexit: as in tc_codegen_opened (codegen.h).
bool tc_compiler_open(bool *no_atexit);

// ---- for kernel_cache.c ----

// Bracket every call that may open or run a compiler, since its internal locks do not survive a
// fork. A waiting fork goes before new compiles.
void tc_compiler_begin(void);
void tc_compiler_end(void);
// The head of a kernel's disk key: the compiler's build and the target. "": the disk cache is off.
const char *tc_compiler_head(void);
// The functions below must be called between begin and end.
// Both open the compiler if needed. First: whether there is one. Second: whether it is also the
// build that the disk key's head names.
bool tc_compiler_is_there(void);
bool tc_compiler_is_of_head(void);
tc_status tc_compiler_make(const tc_kir *kir, const char *name, void **out, size_t *bytes);
// As emit_ns of codegen.h, of this thread's last tc_compiler_make.
uint64_t tc_compiler_emit_ns(void);
// Loads an object, compiled now or read from disk, as code.
tc_status tc_compiler_load(const tc_kir *kir, const char *name, const void *object, size_t bytes, tc_codegen_code *out);
// Warns once if kernels that should be compiled are interpreted.
void tc_compiler_tell(void);
// Logs the kernel's assembly if TC_LOG=asm.
void tc_compiler_log(const tc_kir *kir, const char *name);
