// Builds a row's launches: joins a kernel's source from pieces of text, and copies its words. See
// rows.h.
// Invariants: after a failure the builder keeps its status, and further calls do nothing.
// Threads: a builder belongs to one thread. Owner: results live in the arena.
#pragma once

#include "kernels/gpu/texts.h"
#include "lowering/program/gpu/rows.h"
#include "runtime/arena.h"
#include "runtime/status.h"

#define TC_ROW_THREADS 256

typedef struct tc_row_builder {
  tc_arena *arena;
  const tc_gpu_row_call *call;  // NULL: an index check
  tc_gpu_row *row;
  uint64_t count;  // elements of the result
  tc_status status;
} tc_row_builder;

typedef struct tc_row_words {
  const tc_gpu_word *word;
  uint32_t n;
} tc_row_words;

// A kernel's source: definitions, then pieces of text.
typedef struct tc_row_text {
  char name[48];
  const char *type, *define;  // type: defines ELEM_<type> for the element piece; define: more lines; either NULL: none
  const char *piece[8];
  uint32_t shared_bytes;
  tc_row_words last;  // the last words of its launch
} tc_row_text;

#define TC_ROW_WORDS(...) \
  ((tc_row_words){(const tc_gpu_word[]){__VA_ARGS__}, \
                  (uint32_t)(sizeof((const tc_gpu_word[]){__VA_ARGS__}) / sizeof(tc_gpu_word))})
#define TC_ROW_CONST(v) {TC_ROW_WORD_CONST, (uint64_t)(v)}
#define TC_ROW_OPERAND(v) {TC_ROW_WORD_OPERAND, (uint64_t)(v)}
#define TC_ROW_RESULT {TC_ROW_WORD_RESULT, 0}
#define TC_ROW_SCRATCH(v) {TC_ROW_WORD_SCRATCH, (uint64_t)(v)}
#define TC_ROW_ARG(v) {TC_ROW_WORD_ARG, (uint64_t)(v)}

// Adds a launch of `blocks` thread blocks. Its words are the fault word, which all kernels test
// first, then `words`, then the text's.
void tc_row_launch(tc_row_builder *b, const tc_row_text *text, uint64_t blocks, tc_row_words words);
// Adds a launch of one thread per item.
void tc_row_launch_items(tc_row_builder *b, const tc_row_text *text, uint64_t items, tc_row_words words);
// Reserves scratch memory of the row; returns the offset of its first byte.
uint64_t tc_row_scratch(tc_row_builder *b, uint64_t bytes);

static inline uint64_t tc_row_ceil_div(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

// Fills count elements with the value: the bits of a double for floats, else an int64.
void tc_row_fill(tc_row_builder *b, tc_type type, uint64_t count, tc_gpu_word to, tc_gpu_word value);
// Copies or fills operand 0 into the result, unless it is there already.
void tc_row_keep(tc_row_builder *b);
// A tensor seen as [outer, n, inner] around an axis; one of rank 0 is one element.
typedef struct tc_row_lanes {
  uint64_t outer, n, inner;
} tc_row_lanes;
tc_row_lanes tc_row_lanes_of(const tc_dims *d, uint64_t axis);
uint64_t tc_row_count(const tc_dims *d);

// Scans (row_scan.c), order and random order (row_sort.c), writing and adding by index (row_put.c).
void tc_row_scan(tc_row_builder *b);
void tc_row_order(tc_row_builder *b);
void tc_row_randperm(tc_row_builder *b);
void tc_row_scatter(tc_row_builder *b);
void tc_row_add(tc_row_builder *b);

// A sort of segments of n entries each, of which the first k are kept.
typedef struct tc_row_sort {
  const char *name;  // distinguishes the first kernel from those with other keys
  const char *type;  // element type; NULL: the key reads no elements
  const char *box, *key;  // pieces: the key's helper, NULL: none; the key
  tc_row_words words;  // words of the key
  int key_bits;
  uint64_t segments, n, k;
  uint64_t inner;  // inner extent of the result, if to_result
  bool to_result;  // true: positions go to the result; false: sorted entries stay in scratch memory
} tc_row_sort;
// Adds the launches of a sort; returns the scratch offset of its entries, if they stay there. n and
// segments are at least 1.
uint64_t tc_row_sort_launch(tc_row_builder *b, const tc_row_sort *s);
