// The columns of the op table as arrays. See op_table.h.
#include "lazy/trace/op_table.h"

#define LOWER_fused TC_LOWER_FUSED
#define LOWER_libm(function) TC_LOWER_FUSED
#define LOWER_alias TC_LOWER_ALIAS
#define LOWER_extern TC_LOWER_EXTERN
#define LOWER_expand(word) TC_LOWER_EXPAND
#define EXPANSION_fused TC_EXPAND_NONE
#define EXPANSION_libm(function) TC_EXPAND_NONE
#define EXPANSION_alias TC_EXPAND_NONE
#define EXPANSION_extern TC_EXPAND_NONE
#define EXPANSION_expand(word) TC_EXPAND_##word

// Whether a word of the column vjp is `zero`.
#define FLAT_zero ~, 1
#define SECOND(first, second, ...) second
#define IS_SECOND(...) SECOND(__VA_ARGS__, 0, 0)
#define IS_FLAT(word) IS_SECOND(FLAT_##word)

// A row that no kernel computes by its kind must name what computes it.
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, ...) \
  _Static_assert(TC_KIND_##kind != TC_KIND_COMPOSED || LOWER_##lower == TC_LOWER_EXPAND, \
                 #name ": a composed row is lowered by expand(word)"); \
  _Static_assert(TC_KIND_##kind != TC_KIND_SCAN || LOWER_##lower == TC_LOWER_EXTERN, #name ": kernels make no scans");
#include <tc/ops.def>
#undef TC_OP

const tc_op_row tc_op_rows[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, ...) \
  [TC_OP_##NAME] = {TC_KIND_##kind, TC_RULE_##dtype, TC_SAVES_##saves, LOWER_##lower, EXPANSION_##lower, IS_FLAT(vjp)},
#include <tc/ops.def>
#undef TC_OP
};

const char *const tc_op_names[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, ...) [TC_OP_##NAME] = #name,
#include <tc/ops.def>
#undef TC_OP
};

const uint8_t tc_op_arity[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, ...) [TC_OP_##NAME] = arity,
#include <tc/ops.def>
#undef TC_OP
};
