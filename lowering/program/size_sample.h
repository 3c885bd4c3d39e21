// Samples of a graph's lowering at sizes around those that are wanted. Internal to program/.
// In: a graph that can be had at any sizes. Out: programs that are alike, and the box they span.
// Threads: thread-compatible. Owner: the list owns its programs.
#pragma once

#include "lowering/program/size_piece.h"

typedef struct tc_size_sample {
  tc_plan plan;  // its word and out are the sample's, the rest is the source's
  tc_program *p;
} tc_size_sample;

// A size along which long folds are cut in parts of one length counts as two. It is the length of a
// part; the number of parts comes behind the other sizes.
typedef struct tc_size_split {
  bool is_split;
  uint32_t size;  // the size that is split
  uint32_t n_size;  // of the graph
  int64_t inner;  // of the fold, as in tc_fold_part
} tc_size_split;

// The sizes of the samples for sizes of the graph. False: folds are not cut so.
bool tc_size_split_of(const tc_size_split *s, const int64_t *size, int64_t *out);

typedef struct tc_size_list {
  const tc_size_source *from;
  const tc_size_builder *by;
  tc_size_split split;
  int64_t want[TC_MAX_SIZES];  // the wanted sizes, split
  tc_size_samples at;
  tc_size_sample of[TC_MAX_SAMPLES];  // by at; the first one is nearest to the wanted sizes
  tc_size_sample probe;  // at other sizes than all samples: what differs there varies
  const char *why;  // why the last sample is not like the first one; static
} tc_size_list;

// Finds a box around the wanted sizes, split, and enough alike samples in it for fits. False: there
// is none; *box has the sizes of which that is known, and x->why says why.
bool tc_size_list_fill(tc_size_list *x, tc_size_box *box);
void tc_size_list_fini(tc_size_list *x);

// The kernel IR of a step in a program for many sizes: for any number of rows where there is one.
static inline const tc_kir *tc_size_kir(const tc_step *s) {
  return s->pending->generic.kir.n_inst ? &s->pending->generic.kir : &s->pending->kir;
}
// Whether the instruction is a number that an argument can pass.
bool tc_size_may_vary(const tc_kir_inst *i);
