// One run of a trace in a child process, and what came of it: a crash or an endless loop ends the
// child alone.
//
//   trace --record--> --run--> what was asked for  <--compare-->  values by the reference kernels
//
// In: a trace's text whose leaves have data. Out: how it fails, if it does.
// Invariants: this process never runs the library's plans, so each attempt begins anew.
// Threads: from the one thread of the process. Owner: nobody.
#pragma once

#include "lazy/text/text.h"

typedef enum tc_failure {
  TC_FAILS_NOT,
  TC_FAILS_WRONG,  // a result differs from the reference's
  TC_FAILS_VERIFY,  // TC_VERIFY reports something
  TC_FAILS_ERROR,  // a status other than TC_OK
  TC_FAILS_CRASH,  // a signal
  TC_FAILS_HANG,  // no end within the time
  TC_FAILS_CHECK,  // the command says so
  TC_FAILS_UNFIT,  // no trace that a program could record
  TC_FAILS_UNKNOWN  // the reference could not tell
} tc_failure;

// Variables that a run is given besides the environment: pairs of a name and a value, up to NULL.
typedef struct tc_way {
  const char *text;
  const char *set[8];
} tc_way;

typedef struct tc_judge {
  const char *check;  // a command that is given a trace's file; exit status 0: it fails. NULL: none
  const tc_way *way;
  double tolerance;  // of results, relative to the greatest element; 0: of the type
  double seconds;  // an attempt may take
  bool verify;  // TC_VERIFY's reports are the failure
  uint64_t n_attempts;  // so far
} tc_judge;

typedef struct tc_outcome {
  tc_failure failure;
  int signal;
  tc_status status;
  uint32_t node;  // whose value is wrong
  int64_t element;
  double got, want, allowed;
  char text[400];  // of an error
} tc_outcome;

// True, as the text of TC_ANOMALY has it, where the one is the other on a smaller trace.
bool tc_outcome_is_same(const tc_outcome *a, const tc_outcome *b);
// "%12 = exp f32[3] is 0.5 at element 3, not 1.5", and the like.
void tc_outcome_print(FILE *out, const tc_text *x, const tc_outcome *o);

// Runs the trace so.
tc_outcome tc_attempt(tc_judge *j, const tc_text *x);
// Record n on leaves of its operands' values, which it borrows; fini after either. False without
// memory.
bool tc_attempt_cut(const tc_text *x, uint32_t n, void *const *value, tc_text *out);
// Runs each record that is no leaf alone, on its operands by the reference; the first that fails.
tc_outcome tc_attempt_each(tc_judge *j, const tc_text *x);

// What a child does in shared memory: fills *out, which says TC_FAILS_UNKNOWN before.
typedef void tc_child_fn(void *arg, tc_outcome *out);
// Runs fn in a child with the way's variables, and says how that ended.
tc_outcome tc_in_child(const tc_judge *j, tc_child_fn *fn, void *arg);
