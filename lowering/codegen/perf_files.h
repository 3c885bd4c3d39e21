// The files in which Linux's perf finds the names of generated code (TC_PERF).
//
// map: /tmp/perf-PID.map, a line a function. It has no times, so an address keeps its name as long
// as the process lives: tc_perf_keeps_addresses.
// jitdump: tc-perf-PID/jit-PID.dump (jitdump.h), and the kernel IR of each function as text beside
// it. Each function has a time, so a later one may have an earlier one's address.
// Invariants: a process writes files of its own; a forked child's begin with what it inherited. A
// file that cannot be written is one warning, and nothing more is written.
// Threads: the caller's lock, but for the first three.
#pragma once

#include "lowering/codegen/loaded_code.h"

typedef enum tc_perf_kind { TC_PERF_NOTHING, TC_PERF_MAP, TC_PERF_JITDUMP } tc_perf_kind;
tc_perf_kind tc_perf_wanted(void);
bool tc_perf_wants_lines(void);  // whether objects shall have debug lines
bool tc_perf_keeps_addresses(void);  // whether no other code may come where code was

// The warning to log once the lock is free; "": none.
typedef struct tc_perf_why {
  char text[512];
} tc_perf_why;

// Makes this process's files if it has none. True: it did, and they are without functions.
bool tc_perf_open(tc_perf_why *why);
// Writes the kernel IR as a file and sets c->source, if perf's files have sources.
void tc_perf_write_source(tc_loaded_code *c, const tc_kir *kir, tc_perf_why *why);
void tc_perf_write(const tc_loaded_code *c, tc_perf_why *why);
void tc_perf_close(void);  // nothing more is written by this process
