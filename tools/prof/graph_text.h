// The text of a graph (TC_LOG=trace or TC_LOG=pass) as nodes, and how two of them differ.
// In: text, borrowed while the nodes are used. Invariants: a line that is no node is skipped.
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TC_MOST_DIMS = 8 };

typedef struct tc_span {
  const char *at;
  int n;  // bytes
} tc_span;

typedef struct tc_node_text {
  uint32_t number;  // of %number
  tc_span line, op, type, operands, words, site;  // words: attributes, arguments and flags; type: with the extents
  tc_span element;  // type without the extents
  int64_t dim[TC_MOST_DIMS];
  int n_dims;
} tc_node_text;

typedef struct tc_graph_text {
  tc_node_text *node;
  size_t n;
  bool cut;  // the text ends in "..."
} tc_graph_text;

// False: there was no memory.
bool tc_graph_text_parse(const char *text, tc_graph_text *out);
void tc_graph_text_free(tc_graph_text *g);
// The operand that begins at or behind *at; moves *at behind it. False: there is none.
bool tc_operand_next(const tc_node_text *node, int *at, uint32_t *out_number);

typedef enum tc_difference_kind {
  TC_SAME,
  TC_DIFFERENT_OP,
  TC_DIFFERENT_TYPE,
  TC_DIFFERENT_RANK,
  TC_DIFFERENT_EXTENT,
  TC_DIFFERENT_OPERAND,
  TC_DIFFERENT_WORD,  // an attribute or a flag
  TC_LONGER,  // the new graph has more nodes behind the old one's
  TC_SHORTER,
} tc_difference_kind;
extern const char *const tc_difference_names[];

typedef struct tc_difference {
  tc_difference_kind kind;
  const tc_node_text *old, *now;  // the first nodes that differ; NULL: the graph has no such node
  int dim;  // of TC_DIFFERENT_EXTENT
  tc_span old_word, new_word;  // what differs
  // Whether extents alone differ, and values of attributes that follow them. leaf: the first node
  // without operands of which one does, with its dimension. n_leaves: how many such nodes there
  // are, if all differ in that dimension alone; else 0.
  bool only_extents;
  const tc_node_text *leaf;
  int leaf_dim, n_leaves;
} tc_difference;

// The first difference of two graphs. Arguments are not looked at: a plan does not depend on them.
tc_difference tc_graph_compare(const tc_graph_text *old, const tc_graph_text *now);
