// The records of perf's jitdump format, in memory: perf_files.h writes them.
// In: a loaded function. Out: its lines, if it has any, then its name and code.
// Threads: thread-safe, pure but for the clock. Owner: the caller owns the records.
// Source: "JITDUMP specification", version 2, of Linux's perf.
#pragma once

#include "lowering/codegen/loaded_code.h"

typedef struct tc_jitdump_head {
  uint32_t magic, version, bytes, machine, pad, pid;
  uint64_t time_ns, flags;
} tc_jitdump_head;

void tc_jitdump_write_head(tc_jitdump_head *out);
// All records of one function, to be freed with tc_free. NULL: no memory. index: its number in this
// file.
void *tc_jitdump_make_records(const tc_loaded_code *c, uint64_t index, size_t *bytes);
