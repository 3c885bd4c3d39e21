// Recording a body of control flow: its records are taken out of the trace again, and become a
// tc_body (lazy/trace/body.h). Compilers call it outlining.
//
//   begin      inputs as leaves without values; what is recorded from here on is the body's
//   end        records that the results need go into an extract; all leave the trace
//   resolve    what the body used from outside becomes nodes of the trace, as further inputs
//   finish     the extract, with all inputs, becomes a body
//
// A value from outside is an input: a pending node, a handle whose value is stored or a recipe, or
// a buffer. Several bodies of one op share their inputs; each is begun, ended, and finished last.
// Invariants: while a body is recorded nothing of the trace runs. Captures nest.
// Threads: under the trace's lock, but for the user's calls between begin and end. Owner: the op.
#pragma once

#include "lazy/record/append.h"
#include "lazy/trace/body.h"
#include "lazy/trace/capture.h"

// Something from outside that bodies use.
typedef struct tc_outlined {
  tc_node node;  // pending outside. TC_NODE_ERR: handle or buf
  tc_tensor handle;  // retained. {0, 0}: buf
  tc_buffer *buf;  // retained; a leaf that is no slot's. NULL: none
  tc_tensor param;  // of buf: the parameter whose value it is. {0, 0}: of none
  uint32_t shape;
  tc_type type;
} tc_outlined;

typedef struct tc_outline {
  tc_trace *t;
  const char *op;  // the op whose body it is
  tc_device device;
  uint32_t n_fixed;  // inputs that every body has, before what is captured
  const tc_type *type;  // of these
  const uint32_t *shape;
  tc_outlined *list;
  uint32_t n, cap;
  struct tc_outline *outer;  // that this one is inside of. NULL: none
  // of the body that is being recorded
  tc_node first;  // its first input; the others follow
  tc_trace_mark was;  // before its inputs
  const char *outer_fault;  // the trace's body_fault before
} tc_outline;

// Records that were taken out. An operand is an input (below TC_EXTRACT_CAPTURED), what was
// captured, or an earlier record of the extract.
#define TC_EXTRACT_CAPTURED (UINT32_C(1) << 30)
#define TC_EXTRACT_RECORD (UINT32_C(1) << 31)
typedef struct tc_extract {
  tc_body body;  // without inputs: word, at, arg_at, call of records; out coded as operands are
  uint64_t *arg;  // the scalars
} tc_extract;

// From init to close nothing of the trace runs.
void tc_outline_init(tc_outline *c, tc_trace *t, tc_device device, uint32_t n_fixed, const tc_type *type,
                     const uint32_t *shape);
void tc_outline_close(tc_outline *c);
void tc_outline_fini(tc_outline *c);
// Begins a body. tape: whether gradients go to its inputs. False after reporting.
bool tc_outline_begin(tc_outline *c, bool tape);
// Ends it. out: its results' nodes, which may be inputs. False after reporting. The records leave
// the trace in any case. out NULL: they only leave it.
bool tc_outline_end(tc_outline *c, uint32_t n_out, const tc_node *out, tc_extract *extract);
void tc_extract_fini(tc_extract *d);
// pre: closed. in: filled with the nodes of what was captured. False after reporting.
bool tc_outline_resolve(tc_outline *c, tc_node *in);
// The body of the extract. NULL after reporting.
const tc_body *tc_outline_finish(tc_outline *c, tc_extract *d);
// The node of a slot whose value is not pending, while a body is recorded.
tc_node tc_outline_slot(tc_trace *t, tc_slot *s, tc_tensor handle);
// Whether the slot's value was made by the body that is recorded.
bool tc_outline_made(const tc_outline *c, const tc_slot *s);
// Records the body here on this device, of these inputs and scalars; out: the nodes of its results.
// False after reporting.
bool tc_body_append(tc_trace *t, const tc_body *b, tc_device device, const tc_node *in, const uint64_t *arg,
                    tc_node *out);
