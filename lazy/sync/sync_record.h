// What a profile's file gets of a sync point. That is its record, and its plan's if the file has it
// not yet. Beside them are stacks, kernels' times and memory.
//
// In: a sync that has run. Out: records (runtime/profile_format.h).
// Invariants: nothing here fails a sync. Without a profile a sync costs one branch.
// Threads: under the trace's lock. Owner: nobody.
#pragma once

#include "lazy/lowering.h"
#include "lazy/trace/trace.h"
#include "runtime/profile.h"
#include "runtime/profile_file.h"

// Moments in ticks, and spans.
typedef struct tc_sync_times {
  uint64_t first;  // an op found the trace empty. 0: not known
  uint64_t synced, began;  // the thread's last sync ended, 0: there was none; this one began
  uint64_t launched, ran, published;
  uint64_t making;  // span: making the plan
  uint64_t allocated_first, allocated;  // spans: getting new memory before the launch; in all
  uint64_t waited_first, waited;  // spans of this thread's life: waited before this sync; until it had run
  const char *note;  // of a compiled function that was traced for this sync; borrowed. NULL: none was
  uint64_t noting;  // span: writing records meanwhile, which is no part of the sync
} tc_sync_times;

// Opens the profile that is due. Returns whether this sync is recorded.
bool tc_sync_record_wakes(void);
static inline bool tc_sync_is_recorded(void) {
  return TC_UNLIKELY(atomic_load_explicit(&tc_profile_now, memory_order_relaxed) != TC_PROFILE_OFF) &&
         tc_sync_record_wakes();
}
// pre: the sync is recorded, and the trace is as it ran. Writes the plan's record unless the file
// has it, and marks what the run read.
void tc_sync_record_plan(const tc_trace *t, tc_plan *p, const tc_sync_point *rec);
// p: NULL: there was none. miss: as in tc_prof_sync.
void tc_sync_record(const tc_sync_point *rec, const tc_plan *p, const tc_work_done *done, const tc_sync_times *x,
                    uint32_t miss);
