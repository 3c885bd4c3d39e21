// Writing recorded work as text: a line a record. lazy/text/text.h says what the lines hold, and
// reads them.
//
// In: records of a trace or plan. Out: text.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include <stdio.h>

#include "lazy/trace/plan.h"

typedef struct tc_text_node {
  tc_op op;
  tc_type type;
  tc_device dev;
  tc_dims dims;
  int n_in, n_attr, n_arg;
  const uint32_t *in;
  const uint64_t *attr;
  const uint64_t *arg;  // NULL: not known
  uint8_t flag;
  const char *site;  // or NULL
  const void *data;  // of a leaf, dense, or NULL
} tc_text_node;

// A body of control flow (lazy/trace/body.h), whose first records are its inputs.
typedef struct tc_text_body {
  uint64_t id;
  int64_t n_draw;
  tc_text_node *node;  // by number
  uint32_t n, n_out;
  const uint32_t *out;  // nodes
  struct tc_text_body *next;
} tc_text_body;

// The flags of nodes by name. USER and AGAIN share a bit: user is said of a leaf, again of others.
typedef struct tc_flag_name {
  const char *name;
  uint8_t flag;
} tc_flag_name;
#define TC_N_FLAG_NAMES 9
extern const tc_flag_name tc_flag_names[TC_N_FLAG_NAMES];

// One record's line.
void tc_text_write_node(FILE *out, uint32_t number, const tc_text_node *x);
void tc_text_write_body(FILE *out, const tc_text_body *b);
// A pending trace, behind the bodies that it runs. flag: of its nodes at the sync. Data of leaves
// of at most max_bytes are written.
void tc_text_write_trace(FILE *out, const tc_trace *t, const uint8_t *flag, size_t max_bytes, const char *title);
// One record of a plan.
void tc_text_write_plan_node(FILE *out, const tc_plan *p, uint32_t number);
// The records of a plan, without title and end.
void tc_text_write_plan(FILE *out, const tc_plan *p);
// Data of node number, a leaf of so many elements.
void tc_text_write_data(FILE *out, uint32_t number, tc_type type, int64_t count, const void *data);
