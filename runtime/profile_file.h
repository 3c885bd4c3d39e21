// The file of a profile: opened, filled record by record, closed. profile_format.h has the records.
//
// In: records. Out: FILE, which is whole up to its last record, after kill -9 too. A piece of the
// file is reserved and mapped; a record is copied there, its head's first word last.
// Invariants: a forked child never writes into its parent's file; it opens FILE.pid as it wakes.
// A living process owns its file by flock. Another one that is given the same name takes FILE.pid.
// So does a program that was executed by another one in the same process.
// What the file cannot take ends the profile with one warning, never the program.
// Threads: thread-safe; the functions between tc_profile_begin and _end are called with its lock.
// Owner: the process.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/profile.h"
#include "runtime/profile_format.h"
#include "runtime/status.h"

typedef enum tc_profile_state {
  TC_PROFILE_OFF,
  TC_PROFILE_ON,
  TC_PROFILE_UNREAD,  // the options were not read yet
  TC_PROFILE_FORKED,  // the parent has a profile, and this child no file yet
} tc_profile_state;
// relaxed: a thread that sees a change late starts or stops one sync later
extern _Atomic int tc_profile_now;

static inline bool tc_profile_is_on(void) {
  return TC_UNLIKELY(atomic_load_explicit(&tc_profile_now, memory_order_relaxed) == TC_PROFILE_ON);
}

// What the library's other layers know of the machine. NULL and 0: not known.
typedef struct tc_profile_machine {
  const char *isa, *device;
  uint32_t threads;
  double peak_flops, peak_bytes;
} tc_profile_machine;
// Whether a file is to be opened: TC_PROFILE names one, or the parent of this child has one.
bool tc_profile_is_due(void);
// Opens what is due. Returns whether there is a profile now.
bool tc_profile_wake(const tc_profile_machine *machine);

// For tc_profile_start and _stop, as they say.
tc_status tc_profile_start_with(const char *file, const tc_profile_machine *machine);
tc_status tc_profile_stop_now(void);

// Locks the file. False: there is none, and nothing is locked.
bool tc_profile_begin(void);
void tc_profile_end(void);

// ---- between the two ----

// The number of a text, which is written before its first use. NULL and "": 0.
uint32_t tc_profile_text(const char *text, size_t bytes);
// The number of a string that never changes, which is known by its address.
uint32_t tc_profile_word(const char *word);
uint32_t tc_profile_site(tc_site site);
// The number of a stack, innermost address first.
uint32_t tc_profile_stack(void *const *address, int n);

typedef struct tc_profile_part {
  const void *at;
  size_t bytes;
} tc_profile_part;
// Writes a record of several parts, of which the first begins with a tc_prof_head; the head is
// filled in here. n: its count of rows. False: the file could not take it.
bool tc_profile_write(tc_prof_kind kind, size_t n, int n_parts, const tc_profile_part *part);

// ---- facts of the open file ----

// How many files were opened before and with this one: what was written into an earlier one is not
// in this one.
uint32_t tc_profile_generation(void);
// Numbers the file's plans, from 1.
uint32_t tc_profile_new_plan(void);
// Counts a sync whose record was written, or lost.
void tc_profile_count(bool written);

// A value that this sync stored was released, and nothing had read it. made: by which call; op
// NULL: not known.
void tc_profile_unused(uint32_t sequence, uint64_t bytes, tc_call made);

// The sequence of the sync that this thread is in. 0: it is in none.
extern _Thread_local uint32_t tc_profile_sequence;
uint32_t tc_profile_next_sequence(void);
// Ticks that this thread has waited for workers and for devices while there was a profile.
extern _Thread_local uint64_t tc_profile_waited;
// Bracket a wait. Begin returns 0 without a profile, and end does nothing then.
static inline uint64_t tc_profile_wait_begin(void) {
  return tc_profile_is_on() ? tc_ticks() : 0;
}
static inline void tc_profile_wait_end(uint64_t begin) {
  if (TC_UNLIKELY(begin != 0)) tc_profile_waited += tc_ticks_between(begin, tc_ticks());
}
// The system's number of this thread.
uint32_t tc_profile_thread(void);
