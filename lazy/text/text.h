// The text form of recorded work: a line a record, for people, for TC_LOG=trace and TC_LOG=plan,
// and for tc-run, which reads it back.
//
//   trace item at prog:12
//   %0 = leaf f32[64,4] tc:cpu sole
//   %1 = full f32[] tc:cpu arg 1.5
//   %2 = mul f32[64,4] tc:cpu in %0 %1 tape
//   %3 = sum f32[64] tc:cpu in %2 attr 2 live asked @ prog:9
//   data %0 3f800000 40000000
//   end
//
// Bodies of control flow come first. Records of one are numbered anew, its inputs first:
//
//   body 7fc01c2b3a495867 draws 0
//   %0 = leaf f32[4] tc:cpu
//   %1 = tanh f32[4] tc:cpu in %0
//   gives %1
//
// After the device come operands (in), attributes (attr), arguments (arg), the flags of
// lazy/trace/trace.h, and the site to the end of the line. A word (attribute or argument) is a
// whole number, a double with a point or exponent, or hexadecimal bits, whichever names its 64 bits
// exactly; ? is an argument that a plan does not know. Data are a leaf's elements in row-major
// order, each as the hexadecimal of its bits. A line may begin with the log's "tc[trace] "; lines
// that begin with # are skipped. No op has a form of its own: the op table says what a record
// holds.
//
// Invariants: reading what was written and writing it again gives the same text. Threads:
// thread-compatible; tc_text_run records in the calling thread.
#pragma once

#include "lazy/trace/trace_text.h"
#include "runtime/arena.h"

typedef struct tc_text {
  const char *title;
  tc_text_node *node;  // by number
  uint32_t n;
  tc_text_body *body, **last_body;  // in their order; inner ones before those that run them
  tc_arena arena;  // of everything here
} tc_text;

void tc_text_write(FILE *out, const tc_text *x);

// Reads the next trace of a text and moves *text past it. TC_ERR_ARG with the line's number if it
// is malformed; with x->n 0 and TC_OK: no trace is left. Checks numbers, types, shapes and the
// count of operands; whether its devices are there is asked when it runs. fini after either.
tc_status tc_text_read(tc_text *x, const char **text);
void tc_text_fini(tc_text *x);

// Records one line, whose shape's number this is, as the trace's next node; TC_NODE_ERR after
// reporting: it does not fit its operands (text_record.c).
tc_node tc_text_record(tc_trace *t, const tc_text_node *x, uint32_t shape);

// Records the body, and takes it out again (text_body.c). False after reporting, also where the
// body is not the one that its id names.
bool tc_text_record_body(tc_trace *t, const tc_text_body *b);
// Whether a CONTROL or TUPLE_ELEMENT fits its operands.
bool tc_text_control_fits(const tc_trace *t, const tc_text_node *x);
// Names the call of what is recorded next: record n of the text.
void tc_text_name_call(tc_trace *t, const tc_text_node *x, uint32_t n);

// The site of a line that a text names, for errors and logs of what is recorded from it. The same
// text has the same site, which lives as long as the process. 0 without memory. Thread-safe.
tc_site tc_text_site(const char *text);

// Records x in this thread as it was (same key, hence the same plan, within one process) and runs
// it. Each record's call is its op, at its site or else at its number, such as "%3". Every leaf
// must have data.
// out: per node a handle of the caller's, to release, where it was live or asked, else {0, 0}.
tc_status tc_text_run(const tc_text *x, tc_tensor *out);
// The plan of that run, not lowered; a new reference. Nothing of it runs.
tc_status tc_text_plan(const tc_text *x, tc_plan **out);
