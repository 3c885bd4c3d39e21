// A program's file while it is made: its tables grow in memory, weights stay where they are until
// they are written.
//
// In: records, bytes and names. Out: the file.
// Invariants: equal names, lists of bytes and weights are stored once.
// Threads: thread-compatible. Owner: the caller owns the writer and what weights point to.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lowering/export/format.h"

typedef struct tc_tcx_list {
  char *at;
  uint32_t n, cap;  // bytes
} tc_tcx_list;

typedef struct tc_tcx_writer {
  tc_tcx_list table[TC_TCX_N_TABLES];
  const void **data;  // per weight
  uint32_t n_data, cap_data;
  uint64_t weights_bytes;
  uint32_t n_shown;
  bool no_memory;  // true: something was not added
} tc_tcx_writer;

void tc_tcx_writer_fini(tc_tcx_writer *w);
// Appends n records of the table; returns the number of the first. TC_TCX_NONE without memory,
// which the writer remembers.
#define TC_TCX_ADD(w, name, record, count) \
  tc_tcx_add(w, TC_TCX_TABLE_##name, record, sizeof *(record), (uint32_t)(count))
uint32_t tc_tcx_add(tc_tcx_writer *w, int table, const void *record, size_t bytes, uint32_t n);
// Appends n records, and gives their range.
#define TC_TCX_ADD_LIST(w, name, record, count) ((tc_tcx_range){TC_TCX_ADD(w, name, record, count), (uint32_t)(count)})
// The offset of a text in `strings`. text NULL: TC_TCX_NONE.
uint32_t tc_tcx_add_text(tc_tcx_writer *w, const char *text);
// The number of a kernel with this code; one that is there already if all of it is equal.
uint32_t tc_tcx_add_kernel(tc_tcx_writer *w, const char *name, tc_tcx_kernel kernel, const void *code, size_t bytes);
// Adds a weight; data is read when the file is written. Its offset is filled in.
uint32_t tc_tcx_add_weight(tc_tcx_writer *w, tc_tcx_weight weight, const void *data);
// Writes the file whole or not at all. op: the caller's, for errors.
tc_status tc_tcx_write(tc_tcx_writer *w, const char *op, const char *path, tc_site site);
