// What attention and its gradient share: operands, rows, and the weights composed of other rows.
//
// In: operands of rank 4, [n, heads, rows, elements]. Out: records.
// Threads: under the trace's lock. Owner: nobody.
#pragma once

#include "lazy/record/record.h"

typedef struct tc_attention {
  tc_node q, k, v;  // rank 4
  tc_node scale, length, mask;
  bool causal, has_length, has_mask;
} tc_attention;

// One of the rows: its operands are the first n of in, then the scale, and the length and the mask
// if there are any.
tc_node tc_attention_row(tc_trace *t, const tc_attention *a, tc_op op, tc_type type, const tc_dims *shape, int n,
                         const tc_node *first);
// [n, rows, heads, ..] as [n, heads, rows, ..] and back.
tc_node tc_attention_swapped(tc_trace *t, tc_node a);
// Key heads repeated for the query heads they serve.
tc_node tc_attention_repeated(tc_trace *t, tc_node x, int64_t heads);
// The last two axes change places.
tc_node tc_attention_transposed(tc_trace *t, tc_node x);
// softmax of the scores, [n, hq, l, s]; rows that see nothing are zeros.
tc_node tc_attention_weights(tc_trace *t, const tc_attention *a);
