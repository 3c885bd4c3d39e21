// An open program's file: its bytes, and its tables once they are checked.
//
// In: a path, or bytes in memory. Out: tables whose every number, name and range is in bounds.
// Invariants: nothing of a file is used that was not checked here, but for code and weights. The
// checks do not trust the checksum: who writes a file can write that, too.
// Threads: immutable once open; counted. Owner: programs, and tensors over its weights.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "lowering/export/format.h"

typedef struct tc_tcx_image {
  _Atomic uint32_t refs;
  const char *data;
  size_t bytes;
  bool mapped;  // by tc_tcx_open; else the caller's
  const tc_tcx_head *head;
#define TC_TCX_ROW(name, type) \
  const type *name; \
  uint32_t n_##name;
  TC_TCX_TABLES(TC_TCX_ROW)
#undef TC_TCX_ROW
  const char *weight_data;
} tc_tcx_image;

// path: of the file. TC_ERR_IO with what is wrong with it. TC_ERR_DEVICE: it is of another version
// of the library.
tc_status tc_tcx_open(const char *path, tc_tcx_image **out);
// Opens a file's bytes, at a multiple of TC_TCX_ALIGN, which are borrowed.
tc_status tc_tcx_open_memory(const void *data, size_t bytes, tc_tcx_image **out);
tc_tcx_image *tc_tcx_retain(tc_tcx_image *x);
void tc_tcx_release(tc_tcx_image *x);  // NULL: does nothing
// A text of the file; NULL for TC_TCX_NONE.
static inline const char *tc_tcx_text(const tc_tcx_image *x, uint32_t at) {
  return at == TC_TCX_NONE ? NULL : x->strings + at;
}
