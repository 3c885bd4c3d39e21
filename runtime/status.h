// Statuses and errors of one thread.
//
// tc_last_error shows the error that belongs to the status returned last. For a call that fails,
// that is the first error of its status within the call. For a call that is given a poisoned
// handle, it is the error that poisoned the handle. Text names the op and the values.
// Threads: thread-local; any thread may show a recent error of another.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <tc/tc.h>
#include <time.h>

#include "runtime/assert.h"

#define TC_TRY(call) \
  do { \
    tc_status try_status_ = (call); \
    if (try_status_ != TC_OK) return try_status_; \
  } while (0)

#define TC_LIKELY(x) __builtin_expect(!!(x), 1)
#define TC_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TC_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TC_MAX_OF(a, b) ((a) > (b) ? (a) : (b))

// Records an error of this thread and returns its status. op is a static string. site 0 means the
// site of the call this thread is inside, if any. The message becomes "<op>: <formatted text> (at
// <site>)".
tc_status tc_fail(tc_status status, const char *op, tc_site site, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));
#define TC_FAIL(status, ...) tc_fail((status), tc_call_op(__func__), 0, __VA_ARGS__)
static inline tc_status tc_refuse_inside(const char *op, tc_site site) {
  return tc_fail(TC_ERR_STATE, op, site,
                 "called inside another call of this thread, by a signal handler or a callback");
}

// An error, by its number in the process.
typedef struct tc_error_mark {
  uint32_t id;
  tc_status status;
  bool in_call;  // true: it belongs to the call that is running
} tc_error_mark;
tc_error_mark tc_error_now(void);
// Makes tc_last_error show this error again. It hides errors that the library handled itself, or
// belongs to the status that a call returns. False: the text is lost, because many errors came
// since; the status's text is shown.
bool tc_error_tell(tc_error_mark error);
// Writes ": " and the latest error's message if its op is one of these words, else "". For pointers
// that are NULL because making them failed. Returns out.
const char *tc_error_of(const char *ops, char *out, size_t bytes);
// True: the call that is running has failed by now.
extern _Thread_local bool tc_call_failed;
// Returns how often the program has cleared this thread's error, plus 1.
uint64_t tc_error_clears(void);

// A call of the user: the op by its public name (a static string), and the site.
typedef struct tc_call {
  const char *op;
  tc_site site;
} tc_call;
// The call that is inside. An error names it when nothing nearer is known, such as for memory that
// a sync did not get.
extern _Thread_local tc_call tc_inside_call;
// Returns the op of the call this thread is inside (runtime/reentry.h); `outside` if it is inside
// none.
const char *tc_call_op(const char *outside);

// Returns the index to name in an error. A caller that refuses to count from the end subtracts
// TC_INDEX_AWAY from negative indices, which puts them out of every range.
#define TC_INDEX_AWAY (INT64_C(1) << 62)
static inline int64_t tc_index_text(int64_t index, int64_t extent) {
  return index >= -TC_INDEX_AWAY - extent && index < -TC_INDEX_AWAY ? index + TC_INDEX_AWAY : index;
}

// The name for calls that a public function makes, because the user wrote that function's name.
// NULL: no such function is running.
extern _Thread_local const char *tc_outer_op;

static inline const char *tc_outer_begin(const char *op) {
  const char *was = tc_outer_op;
  if (!was) tc_outer_op = op, tc_call_failed = false;
  return was;
}

static inline void tc_outer_end(const char **was) {
  tc_outer_op = *was;
}

// Names calls `op`, a static string, to the end of the block.
#define TC_CALLED_AS(op) const char *tc_outer_was_ __attribute__((cleanup(tc_outer_end))) = tc_outer_begin(op)

// Handles whose slot is at least this are poison, which a failed call returns. The slot holds the
// status, gen the error.
#define TC_POISON 0xFFFFFF00u
// pre: the error of that status was reported or shown last.
tc_tensor tc_poison(tc_status st);
// Returns the status of a poisoned handle; TC_OK for any other handle.
static inline tc_status tc_poison_status(tc_tensor h) {
  return h.slot >= TC_POISON && h.slot - TC_POISON < TC_N_STATUSES ? (tc_status)(h.slot - TC_POISON) : TC_OK;
}
// Returns a poisoned handle's status and shows its error. For any other handle it fails with an
// error that says so.
tc_status tc_poison_told(tc_tensor h);
// Reports why h is not valid: this call is inside another, h is poison, or what the text says.
tc_status tc_invalid(tc_tensor h, const char *op, tc_site site, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

// Appends to a string in room for bytes; what does not fit is cut.
void tc_text_append(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Returns what is wrong with a handle that is neither poison nor a live tensor.
static inline const char *tc_handle_fault(tc_tensor t) {
  return t.gen ? "the tensor was released, or its scope has ended"
               : "a null tensor was given; tc_grad gives one where no backward has reached the parameter yet";
}

// Returns the time of the monotonic clock.
static inline uint64_t tc_now_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
// Returns a code address as a site.
static inline tc_site tc_site_return(void *address) {
  return (tc_site)(uintptr_t)address | (UINT64_C(1) << 63);
}
// Writes "[3, 4]" and the like; returns out.
const char *tc_dims_text(const tc_dims *d, char *out, size_t bytes);
