// Loads a relocatable x86-64 or AArch64 ELF object of one function into executable memory: the part
// of a linker that generated kernels need. Memory is written, then made executable; never both.
// Threads: thread-safe.
#pragma once

#include <stddef.h>
#include <tc/tc.h>

struct tc_kir;
typedef struct tc_elf_code tc_elf_code;
// Maps the object and finds global function `name`. TC_ERR_COMPILE with a message if the object is
// malformed, or uses an unknown relocation or undefined symbol. memcpy, memset and memmove are
// provided. object is borrowed.
tc_status tc_elf_load(const void *object, size_t bytes, const char *name, tc_elf_code **out, void **out_fn);
// Tells debuggers and profilers of the code, until it is unloaded. kir: what it was made of,
// borrowed; NULL: not known.
void tc_elf_announce(tc_elf_code *code, const struct tc_kir *kir);
void tc_elf_unload(tc_elf_code *code);
size_t tc_elf_bytes(const tc_elf_code *code);  // of memory that it holds
