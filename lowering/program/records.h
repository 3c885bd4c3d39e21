// Runs a plan's records one by one, each as a kernel of its own, as under TC_EAGER=1. Internal to
// program/.
// In: a plan, its leaves and arguments. Out: each record's value, until its last reader has run.
// Threads: thread-compatible. Owner: owns the values.
#pragma once

#include "device/gpu.h"
#include "device/loaded_backend.h"
#include "lazy/lowering.h"

typedef struct tc_records {
  const tc_plan *plan;
  void *const *leaf;  // addresses of the plan's leaves, on its device
  const uint64_t *arg;
  tc_gpu *gpu;  // the GPU that holds values and leaves; NULL: another device
  tc_loaded *loaded;  // the loaded back end's device that holds them; NULL: another
  tc_buffer **value;  // per node: its record's value; NULL for leaves, and after its last reader
  // per node, leaves too: a host copy of a GPU's value; NULL until used, and after its last reader
  tc_buffer **seen;
  uint32_t *n_readers;  // per node: records and outputs still to come
} tc_records;

static inline tc_type tc_record_type(const tc_plan *p, uint32_t node) {
  return (tc_type)tc_plan_rec(p, node)->dtype;
}

static inline const tc_shape_info *tc_record_shape(const tc_plan *p, uint32_t node) {
  return tc_dims_at(tc_plan_rec(p, node)->shape);
}

static inline size_t tc_record_bytes(const tc_plan *p, uint32_t node) {
  return (size_t)tc_record_shape(p, node)->count * tc_type_bytes(tc_record_type(p, node));
}

// Counts the readers that outputs need. False: no memory, or no device; tc_records_fini is due
// either way.
bool tc_records_init(tc_records *r, const tc_plan *plan, void *const *leaf, const uint64_t *arg);
void tc_records_fini(tc_records *r);
// The address of a node's value on the plan's device; NULL: it has none.
void *tc_records_at(const tc_records *r, uint32_t node);
// The host's view of it, kept until its last reader. NULL: out of memory, or the device is lost.
void *tc_records_look(tc_records *r, uint32_t node);
// Computes a record on a device, from operands by position. The caller owns *out.
bool tc_records_run(const tc_records *r, uint32_t node, tc_device device, void *const *operand, tc_buffer **out);
// Counts the node's record as having run, and releases what it was the last to read.
void tc_records_pass(tc_records *r, uint32_t node);
// The contents of `at`, readable by the host: `at` itself, or a copy in *out, which the caller
// owns. NULL: out of memory, or the device is lost.
const void *tc_records_copy(const tc_records *r, const void *at, size_t bytes, tc_buffer **out);
