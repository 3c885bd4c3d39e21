// Reads a profile file (runtime/profile_format.h) for the subcommands of tc-prof.
// In: a path. Out: compact arrays in the order of the file; long texts and rows when asked for.
// Invariants: no field of a file is believed. A row or text that is not in the file reads as empty.
// An index that is out of range is never followed. 1,000,000 sync points take some 130 MB, and
// 100,000 graphs 10 MB: their texts and rows stay in the file.
// Threads: one. Owner: the caller of tc_profile_open, who calls tc_profile_close.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/profile_format.h"

// The times of a sync. Those up to the total are in the order of tc_prof_sync.
typedef enum tc_phase {
  TC_PHASE_OUTSIDE,
  TC_PHASE_RECORD,
  TC_PHASE_LOOKUP,
  TC_PHASE_LOWER,
  TC_PHASE_COMPILE,
  TC_PHASE_ALLOCATE,
  TC_PHASE_LAUNCH,
  TC_PHASE_RUN,
  TC_PHASE_WAIT,
  TC_PHASE_PUBLISH,
  TC_PHASE_TOTAL,
  TC_PHASE_AWAITED,  // in outside
  TC_N_PHASES,
} tc_phase;
// "outside", "record", ...
extern const char *const tc_phase_names[TC_N_PHASES];

// A sync without what only `tc-prof sync` shows. Times in nanoseconds, to some 7 digits.
typedef struct tc_point {
  uint64_t begin_ns;
  uint32_t at;  // of its record in the file, in units of 8 bytes
  uint32_t sequence, thread;  // thread: place in tc_profile.thread
  uint32_t plan;  // 0: none
  uint32_t site, cause, tier, region;  // texts; equal texts have one number
  uint16_t flags, miss;
  uint32_t n_launches, n_compiled;
  float ns[TC_N_PHASES];
  float planned_bytes, peak_bytes, bus_bytes, copied_bytes, cached_bytes;  // bus_bytes: both ways
} tc_point;

// Where a record of a kind with rows lies.
typedef struct tc_record_at {
  uint64_t offset;
  uint32_t sequence, n;
} tc_record_at;

// What is summed up of a plan; its record is in the file.
typedef struct tc_plan {
  uint64_t hash, shape_hash, bytes, least_bytes;
  double flops;
  tc_prof_plan *record;  // NULL: not read yet
  uint32_t id, at;  // at: of its record in the file, in units of 8 bytes. 0: it is not there
  uint32_t n_nodes, n_left, n_kernels, n_outputs, n_again;
  float held_bytes, output_bytes;
} tc_plan;

// A text that was asked for.
typedef struct tc_text {
  char *text;  // NULL: a long one that is not in memory
  uint32_t id, length, same;  // id 0: the slot is free. same: the first text with these bytes
} tc_text;

typedef struct tc_profile {
  const char *path;  // borrowed
  int file;
  uint64_t size, at;  // bytes of the file, and of it read
  tc_prof_process process;
  tc_prof_end end;  // head.bytes 0: none was written
  tc_point *point;
  tc_plan *plan;  // by id
  uint32_t *text_at;  // by id: of the record in the file, in units of 8 bytes. 0: it is not there
  uint32_t *thread;  // the system's numbers
  uint64_t *stack;  // offsets by id; 0: none
  tc_prof_module *module;
  uint32_t *compile_at;  // of the records in the file, in units of 8 bytes
  tc_prof_unused *unused;
  tc_record_at *times, *memory;  // TC_PROF_KERNEL_TIMES, TC_PROF_MEMORY
  uint64_t *memory_bytes, *memory_ns;  // of each of memory
  size_t n_points, n_plans, n_texts, n_threads, n_stacks, n_modules, n_compiles, n_unused, n_times, n_memory;
  bool damaged;  // reading stopped at bytes that are no record
  bool torn;  // the file ends in mid-record
  bool is_long;  // what lies beyond 32 GiB was not read
  char note[160];  // in words, where damaged, torn or without an end; else empty
  // The reader's own.
  uint32_t *order;  // points by sequence; NULL: they lie so
  tc_text *text;  // hash table of those that were asked for, by id
  uint32_t *seen;  // hash table of the short ones, by content
  uint32_t *thread_slot;  // hash table of places in thread, plus 1
  size_t text_mask, n_asked, seen_mask, n_seen, thread_mask;
  bool no_memory;  // for a text
  char *room;  // short texts
  size_t room_left;
  void *rows;  // the latest rows that were asked for
  void **rooms;
  size_t n_rooms;
} tc_profile;

// Whether it could be opened and begins as a profile does; else says why on stderr, in a line.
// Either way tc_profile_close is due.
bool tc_profile_open(tc_profile *p, const char *path);
// Reads what was added since the last call; the first call reads all. False: there was no memory.
bool tc_profile_read(tc_profile *p);
void tc_profile_close(tc_profile *p);

// A text by its number; "" if there is none. Control characters but newlines are '?'. Borrowed.
const char *tc_profile_text(tc_profile *p, uint32_t id);
// The first text that has the same bytes, if it is a short one; 0: there is no such text.
uint32_t tc_profile_same(tc_profile *p, uint32_t id);
// Gives the memory of a long text back; it is read again when asked for.
void tc_profile_forget(tc_profile *p, uint32_t id);
// A plan by its id, or NULL.
const tc_plan *tc_profile_plan(const tc_profile *p, uint32_t id);
// Its whole record, until the profile is closed. NULL: there is none, or no memory.
const tc_prof_plan *tc_profile_plan_record(tc_profile *p, uint32_t id);
// Gives the memory of that record back.
void tc_profile_forget_plan(tc_profile *p, uint32_t id);
// The i-th record of a kernel that was made; zeros if the file has changed.
tc_prof_compile tc_profile_compile(const tc_profile *p, size_t i);
// The sync of this sequence number, or NULL.
const tc_point *tc_profile_point(const tc_profile *p, uint32_t sequence);
// The whole record of a sync; false if the file has changed.
bool tc_profile_sync(const tc_profile *p, const tc_point *point, tc_prof_sync *out);
// Rows of a plan, borrowed until the next of these calls with this profile; NULL if there are none.
const tc_prof_kernel *tc_profile_kernels(tc_profile *p, const tc_prof_plan *plan);
const tc_prof_boundary *tc_profile_boundaries(tc_profile *p, const tc_prof_plan *plan);
const tc_prof_block *tc_profile_blocks(tc_profile *p, const tc_prof_plan *plan);
const tc_prof_kernel_time *tc_profile_times(tc_profile *p, const tc_record_at *at);
const tc_prof_live *tc_profile_live(tc_profile *p, const tc_record_at *at);
// Addresses of a stack; n of them.
const uint64_t *tc_profile_stack(tc_profile *p, uint32_t id, uint32_t *n);

// ---- For profile_rows.c ----

// Bytes of the file; false: it has them not.
bool tc_profile_bytes(const tc_profile *p, uint64_t offset, void *out, size_t bytes);
// A number of the file as sums and ratios may be made of: else 0.
double tc_profile_number(double x);
