// Expressions of sizes: a number of a plan as a function of the few sizes that vary.
//
//   f32[s, 64] has 64 s elements; a kernel over it has ceil(64 s / 64) units
//
// In: samples, the values of a number at some sizes. Out: an expression that has them all.
// Invariants: exact; a fit has at least two samples more than it has coefficients.
// Threads: pure. Owns nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TC_MAX_SIZES 3  // sizes that vary in one graph
#define TC_SIZE_TERMS 3
#define TC_MAX_SAMPLES 48

typedef struct tc_size_term {
  int64_t coef;
  uint8_t power[TC_MAX_SIZES];
} tc_size_term;

typedef enum tc_size_rounding { TC_SIZE_EXACT, TC_SIZE_FLOOR, TC_SIZE_CEIL, TC_SIZE_REST } tc_size_rounding;

// round(sum of terms / divisor) * times.
typedef struct tc_size_expr {
  tc_size_term term[TC_SIZE_TERMS];
  uint8_t n_term;
  uint8_t rounding;  // tc_size_rounding. EXACT: the divisor divides the sum. REST: the sum modulo the divisor
  int64_t divisor;
  tc_size_term times;
} tc_size_expr;

// Values of the sizes, a row a sample.
typedef struct tc_size_samples {
  uint32_t n_size, n;
  int64_t at[TC_MAX_SAMPLES][TC_MAX_SIZES];
} tc_size_samples;

// A number that occurs in a graph, which others are rounded from.
typedef struct tc_size_quantity {
  int64_t value[TC_MAX_SAMPLES];
  tc_size_expr expr;
} tc_size_quantity;

tc_size_expr tc_size_constant(int64_t value);
tc_size_expr tc_size_variable(uint32_t size);
// pre: the sizes lie within those of the samples that the expression was fitted to.
int64_t tc_size_value(const tc_size_expr *e, const int64_t *size);
// These take and give sums of terms alone. False: the result has too many terms, or a coefficient
// overflows.
bool tc_size_multiply(const tc_size_expr *a, const tc_size_expr *b, tc_size_expr *out);
bool tc_size_add(const tc_size_expr *a, const tc_size_expr *b, int64_t times_b, tc_size_expr *out);
// Divides every coefficient. False: some coefficient is not divisible.
bool tc_size_divide(tc_size_expr *e, int64_t by);
// Finds the sum of terms that has these values. False: no simple one has them.
bool tc_size_fit_terms(const tc_size_samples *s, const int64_t *value, tc_size_expr *out);
// Finds the quantity that has these values when it is rounded so and multiplied by the divisor.
// False: none of the n_q has them.
bool tc_size_fit_rounded(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint32_t n_q,
                         tc_size_rounding rounding, int64_t divisor, tc_size_expr *out);
// Finds the sum of terms, or the rounded quantity times a term, that has these values. False: there
// is none, or the samples do not tell which.
bool tc_size_fit(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint32_t n_q,
                 tc_size_expr *out);
