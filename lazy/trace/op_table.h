// The op table (tc/ops.def) as the layers read it: an enumerator a row, and what the columns say.
//
// In: include/tc/ops.def. Out: arrays by tc_op.
// Invariants: nothing else lists the ops; no code depends on the order of the rows.
// Threads: constant. Owner: nobody.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum tc_op {
#define TC_OP(NAME, ...) TC_OP_##NAME,
#include <tc/ops.def>
#undef TC_OP
  TC_N_OP_ROWS
} tc_op;

typedef enum tc_op_kind {
  TC_KIND_ELEM,
  TC_KIND_GEN,
  TC_KIND_RNG,
  TC_KIND_MOVE,
  TC_KIND_FOLD,
  TC_KIND_SCAN,
  TC_KIND_CONTRACT,
  TC_KIND_ATTENTION,
  TC_KIND_INDEX,
  TC_KIND_COMPOSED,
  TC_KIND_CONTROL,
  TC_KIND_EFFECT
} tc_op_kind;

// The words of the columns dtype, saves, autocast and lower, as the head of ops.def explains them.
typedef enum tc_dtype_rule {
  TC_RULE_same,
  TC_RULE_given,
  TC_RULE_floating,
  TC_RULE_boolean,
  TC_RULE_promote,
  TC_RULE_select,
  TC_RULE_arithmetic,
  TC_RULE_number,
  TC_RULE_real,
  TC_RULE_integral,
  TC_RULE_integer,
  TC_RULE_compare,
  TC_RULE_logical,
  TC_RULE_sum,
  TC_RULE_index,
  TC_RULE_first
} tc_dtype_rule;
enum { TC_SAVES_none, TC_SAVES_in = 1, TC_SAVES_out = 2, TC_SAVES_both = TC_SAVES_in | TC_SAVES_out };
typedef enum tc_autocast_rule {
  TC_AUTOCAST_none,
  TC_AUTOCAST_lower,
  TC_AUTOCAST_f32,
  TC_AUTOCAST_promote
} tc_autocast_rule;
typedef enum tc_op_lowering { TC_LOWER_FUSED, TC_LOWER_ALIAS, TC_LOWER_EXTERN, TC_LOWER_EXPAND } tc_op_lowering;
// The words of expand(word): which pass of lowering/graph takes the op apart.
typedef enum tc_op_expansion { TC_EXPAND_NONE, TC_EXPAND_softmax, TC_EXPAND_conv, TC_EXPAND_roll } tc_op_expansion;

typedef struct tc_op_row {
  uint8_t kind;   // tc_op_kind
  uint8_t dtype;  // tc_dtype_rule
  uint8_t saves;  // bits: TC_SAVES_in, TC_SAVES_out
  uint8_t lower;  // tc_op_lowering
  uint8_t expansion;  // tc_op_expansion
  bool is_flat;  // its gradient is zero: a value with history gives none through it
} tc_op_row;

extern const tc_op_row tc_op_rows[TC_N_OP_ROWS];
extern const char *const tc_op_names[TC_N_OP_ROWS];
extern const uint8_t tc_op_arity[TC_N_OP_ROWS];  // 9: the record says how many operands it has

static inline tc_op_kind tc_op_kind_of(tc_op op) {
  return (tc_op_kind)tc_op_rows[op].kind;
}
static inline tc_dtype_rule tc_op_rule(tc_op op) {
  return (tc_dtype_rule)tc_op_rows[op].dtype;
}
static inline tc_op_lowering tc_op_lowering_of(tc_op op) {
  return (tc_op_lowering)tc_op_rows[op].lower;
}
static inline bool tc_op_is_elementwise(tc_op op) {
  return tc_op_kind_of(op) == TC_KIND_ELEM;
}
static inline tc_op_expansion tc_op_expansion_of(tc_op op) {
  return (tc_op_expansion)tc_op_rows[op].expansion;
}
// Whether the value has the bytes of its first operand.
static inline bool tc_op_is_alias(tc_op op) {
  return tc_op_lowering_of(op) == TC_LOWER_ALIAS;
}
