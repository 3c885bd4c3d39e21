// GDB's JIT interface: a list of symbol files in memory that gdb reads when it stops, attaches, or
// opens a core file.
// In: ELF objects whose sections have the addresses they were loaded at. Out: names, unwinding and
// lines in gdb, with no option and no debug build. Without a debugger a call costs some
// nanoseconds.
// Threads: the caller's lock. Owner: the caller, until the entry is removed.
// Source: "JIT Compilation Interface" in gdb's manual.
#pragma once

#include <stdint.h>

// As gdb reads it.
typedef struct tc_gdb_entry {
  struct tc_gdb_entry *next, *prev;
  const void *object;
  uint64_t bytes;
} tc_gdb_entry;

void tc_gdb_add(tc_gdb_entry *e);
void tc_gdb_remove(tc_gdb_entry *e);
