// The generated code that this process has loaded, for the system's tools: gdb always knows it
// (gdb_jit.h), perf where TC_PERF asks for it (perf_files.h).
// In: a function in memory and the object that it came from. Out: nothing that the library reads.
// Invariants: code is told before it runs first, and taken back before its memory is given up.
// Threads: thread-safe. Owner: the caller owns the struct, the code and the object.
#pragma once

#include <stddef.h>

#include "lowering/codegen/gdb_jit.h"
#include "lowering/kir/kir.h"

typedef struct tc_loaded_code {
  tc_gdb_entry gdb;
  struct tc_loaded_code *next, *prev;
  char name[64];
  uint8_t *at;  // the function
  size_t bytes;
  uint8_t *object;  // the object, whose sections have the addresses they were loaded at
  size_t object_bytes;
  const uint8_t *lines;  // .debug_line in it; NULL: it has none
  size_t lines_bytes;
  char *source;  // path of its kernel IR as text; NULL: none was written
} tc_loaded_code;

// Tells gdb and perf. kir: what the function was made of, borrowed; NULL: not known.
void tc_loaded_code_add(tc_loaded_code *c, const tc_kir *kir);
void tc_loaded_code_remove(tc_loaded_code *c);
