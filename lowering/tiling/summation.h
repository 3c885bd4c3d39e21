// The order in which matmuls and reductions add their terms.
// Invariants: it follows from the number of steps alone, and every kernel for an op keeps to it.
//
// A matmul of up to TC_CHAIN_WHOLE steps is one chain from zero, in k order. Longer ones are chains
// of TC_CHAIN steps, each from zero. Their results are added one after another in groups of
// TC_CHAIN_GROUP steps, and so are the groups' results. One chain would lose digits in proportion
// to its length. Equal terms, whose roundings share a direction, lose up to 2^-26 a step. Attention
// adds blocks of keys or rows, each from zero, in the same way: in groups of TC_CHAIN_BLOCKS. A
// reduction along a row has a chain for each lane, of up to TC_FOLD_WHOLE steps. Longer ones are
// chains of TC_FOLD_CHAIN, whose results are added one after another. Still longer rows, and
// columns, are split by graph/split_reduction.c.
// Measured: FMA in f32, 100 pairs of constants, 2^16 to 2^25 steps, greatest relative error. Chains
// of 512 1.1e-5, of 1024 2.2e-5, of 4096 5.7e-5, of 16384 2.4e-4.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TC_CHAIN_WHOLE 4096
#define TC_CHAIN 512
#define TC_CHAIN_GROUP 131072
#define TC_CHAIN_BLOCKS (TC_CHAIN_GROUP / TC_CHAIN)
#define LANES 64  // virtual lanes of a reduction along the last axis, and of elementwise blocks
#define TC_FOLD_WHOLE 64
#define TC_FOLD_CHAIN 32
// elements of a row, about, that one reduction adds; rows of more than four times as many are split
#define TC_FOLD_ROW 16384
// the same over outer axes: those of more than twice as many are split into parts no longer than
// this
#define TC_FOLD_COLUMN 512

// A divisor of n between lo and hi nearest to want, or 0.
static inline int64_t tc_divisor_near(int64_t n, int64_t want, int64_t lo, int64_t hi) {
  for (int64_t k = 0; want - k >= lo || want + k <= hi; k++) {
    if (want - k >= lo && n % (want - k) == 0) return want - k;
    if (want + k <= hi && n % (want + k) == 0) return want + k;
  }
  return 0;
}

// The length of the parts in which a reduction adds `run` elements of axes with `inner` elements
// inside them. 0: it has no parts of one length.
static inline int64_t tc_fold_part(int64_t run, int64_t inner) {
  int64_t want = inner == 1 ? TC_FOLD_ROW : TC_FOLD_COLUMN, limit = inner == 1 ? 4 * TC_FOLD_ROW : 2 * TC_FOLD_COLUMN;
  return run > limit ? tc_divisor_near(run, want, want / 4, inner == 1 ? want * 4 : want) : 0;
}

// Steps of each chain but the last; k: there is one chain.
static inline int64_t tc_chain_of(int64_t k) {
  return k > TC_CHAIN_WHOLE ? TC_CHAIN : k;
}

// Whether the chains' results are added in more than one group.
static inline bool tc_chain_groups(int64_t k) {
  return k > TC_CHAIN_GROUP;
}

// Most additions that a term of a matmul goes through; error bounds are proportional to it.
static inline int64_t tc_chain_additions(int64_t k) {
  if (k <= TC_CHAIN_WHOLE) return k;
  return TC_CHAIN + (tc_chain_groups(k) ? TC_CHAIN_GROUP : k) / TC_CHAIN + k / TC_CHAIN_GROUP + 2;
}

// Most additions that a term goes through in a sum over `run` elements of axes with `inner`
// elements inside them. inner == 1: a chain a lane, then the lanes by halves. Else: a chain an
// element. Parts have at least a quarter of the usual length.
static inline int64_t tc_fold_additions(int64_t run, int64_t inner) {
  const int64_t lanes = 16, most = inner == 1 ? TC_FOLD_WHOLE + lanes : 2 * TC_FOLD_COLUMN;
  int64_t sum = 0, whole = inner == 1 ? 4 * TC_FOLD_ROW : most, least = (inner == 1 ? TC_FOLD_ROW : TC_FOLD_COLUMN) / 4;
  for (; run > whole; run = run / least + 1) sum += most;
  return sum + (run < most ? run : most);
}
