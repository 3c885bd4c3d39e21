// Expressions of sizes, and how they are fitted to samples. See size_expr.h.
#include "lazy/sync/size_expr.h"

#include <math.h>
#include <string.h>

#include "runtime/status.h"

#define MOST_DEGREE 3  // of a term: a tensor with more axes of varying extents has no expression
#define MOST_MONOMIALS 20  // of that degree in three sizes
#define SPARE_SAMPLES 2  // samples that a fit must predict beyond those that determine it
#define MOST_DIVISOR 4096
#define LEAST_STEPS 3  // of a rounded quantity, at least

typedef __int128 wide;

tc_size_expr tc_size_constant(int64_t value) {
  return (tc_size_expr){.term = {{.coef = value}}, .n_term = 1, .divisor = 1, .times = {.coef = 1}};
}

tc_size_expr tc_size_variable(uint32_t size) {
  tc_size_expr e = tc_size_constant(1);
  e.term[0].power[size] = 1;
  return e;
}

// False: the value is beyond an int64_t.
static bool find_term(const tc_size_term *t, const int64_t *size, int64_t *out) {
  *out = t->coef;
  for (uint32_t i = 0; i < TC_MAX_SIZES; i++)
    for (uint8_t k = 0; k < t->power[i]; k++)
      if (__builtin_mul_overflow(*out, size[i], out)) return false;
  return true;
}

// pre: the value is within, as it is in the box of sizes that a program is for.
static int64_t value_of_term(const tc_size_term *t, const int64_t *size) {
  int64_t v;
  (void)find_term(t, size, &v);
  return v;
}

static int64_t round_by(uint8_t rounding, int64_t value, int64_t divisor) {
  switch ((tc_size_rounding)rounding) {
    case TC_SIZE_CEIL: return (value + divisor - 1) / divisor;
    case TC_SIZE_REST: return value % divisor;
    default: return value / divisor;
  }
}

int64_t tc_size_value(const tc_size_expr *e, const int64_t *size) {
  int64_t v = 0;
  for (uint8_t i = 0; i < e->n_term; i++) v += value_of_term(&e->term[i], size);
  if (e->divisor != 1) v = round_by(e->rounding, v, e->divisor);
  return v * value_of_term(&e->times, size);
}

// ---- sums of terms ----

static bool is_sum(const tc_size_expr *e) {
  static const tc_size_term one = {.coef = 1};
  return e->rounding == TC_SIZE_EXACT && e->divisor == 1 && memcmp(&e->times, &one, sizeof one) == 0;
}

static bool add_term(tc_size_expr *e, const tc_size_term *t) {
  if (t->coef == 0) return true;
  for (uint8_t i = 0; i < e->n_term; i++)
    if (memcmp(e->term[i].power, t->power, sizeof t->power) == 0) {
      if (__builtin_add_overflow(e->term[i].coef, t->coef, &e->term[i].coef)) return false;
      if (e->term[i].coef == 0) e->term[i] = e->term[--e->n_term];
      return true;
    }
  if (e->n_term == TC_SIZE_TERMS) return false;
  e->term[e->n_term++] = *t;
  return true;
}

bool tc_size_multiply(const tc_size_expr *a, const tc_size_expr *b, tc_size_expr *out) {
  tc_size_expr e = tc_size_constant(0);
  e.n_term = 0;
  if (!is_sum(a) || !is_sum(b)) return false;
  for (uint8_t i = 0; i < a->n_term; i++)
    for (uint8_t k = 0; k < b->n_term; k++) {
      tc_size_term t = {0};
      if (__builtin_mul_overflow(a->term[i].coef, b->term[k].coef, &t.coef)) return false;
      for (uint32_t v = 0; v < TC_MAX_SIZES; v++) t.power[v] = (uint8_t)(a->term[i].power[v] + b->term[k].power[v]);
      if (!add_term(&e, &t)) return false;
    }
  return *out = e, true;
}

bool tc_size_add(const tc_size_expr *a, const tc_size_expr *b, int64_t times_b, tc_size_expr *out) {
  tc_size_expr e = *a;
  if (!is_sum(a) || !is_sum(b)) return false;
  for (uint8_t k = 0; k < b->n_term; k++) {
    tc_size_term t = b->term[k];
    if (__builtin_mul_overflow(t.coef, times_b, &t.coef) || !add_term(&e, &t)) return false;
  }
  return *out = e, true;
}

bool tc_size_divide(tc_size_expr *e, int64_t by) {
  if (!is_sum(e) || by < 1) return false;
  for (uint8_t i = 0; i < e->n_term; i++)
    if (e->term[i].coef % by) return false;
  for (uint8_t i = 0; i < e->n_term; i++) e->term[i].coef /= by;
  return true;
}

// ---- fits ----

typedef struct monomials {
  tc_size_term term[MOST_MONOMIALS];
  int64_t value[MOST_MONOMIALS][TC_MAX_SAMPLES];
  uint32_t n;
} monomials;

// The products of sizes that have values at all samples, by degree; the first one is 1.
static void list_monomials(const tc_size_samples *s, monomials *m) {
  m->n = 0;
  for (uint8_t degree = 0; degree <= MOST_DEGREE; degree++)
    for (uint8_t a = 0; a <= degree; a++)
      for (uint8_t b = 0; a + b <= degree; b++) {
        uint8_t c = (uint8_t)(degree - a - b);
        tc_size_term t = {.coef = 1, .power = {c, b, a}};
        if ((a && s->n_size < 3) || (b && s->n_size < 2) || (c && s->n_size < 1)) continue;
        uint32_t i = 0;
        while (i < s->n && find_term(&t, s->at[i], &m->value[m->n][i])) i++;
        if (i == s->n) m->term[m->n++] = t;
      }
}

static bool has_values(const monomials *m, const uint32_t *of, const int64_t *coef, uint32_t n, uint32_t n_sample,
                       const int64_t *value) {
  for (uint32_t i = 0; i < n_sample; i++) {
    wide sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += (wide)coef[k] * m->value[of[k]][i];
    if (sum != value[i]) return false;
  }
  return true;
}

// Solves for the coefficients of up to three monomials, by elimination over the first samples that
// tell them apart. The caller confirms them.
static bool solve(const monomials *m, const uint32_t *of, uint32_t n, uint32_t n_sample, const int64_t *value,
                  int64_t *coef) {
  long double row[TC_SIZE_TERMS][TC_SIZE_TERMS + 1];
  uint32_t got = 0;
  for (uint32_t i = n_sample; i-- > 0 && got < n;) {  // the last samples are the largest
    long double *r = row[got];
    for (uint32_t k = 0; k < n; k++) r[k] = (long double)m->value[of[k]][i];
    r[n] = (long double)value[i];
    for (uint32_t j = 0; j < got; j++) {
      long double by = r[j] / row[j][j];
      for (uint32_t k = 0; k <= n; k++) r[k] -= by * row[j][k];
    }
    if (fabsl(r[got]) > 1e-9L * fabsl((long double)m->value[of[got]][i])) got++;
  }
  if (got < n) return false;
  for (uint32_t j = n; j-- > 0;) {
    for (uint32_t k = j + 1; k < n; k++) row[j][n] -= row[j][k] * (long double)coef[k];
    long double c = roundl(row[j][n] / row[j][j]);
    if (fabsl(c) > 4e18L) return false;
    coef[j] = (int64_t)c;
  }
  return true;
}

static bool fit_monomials(const monomials *m, const uint32_t *of, uint32_t n, uint32_t n_sample, const int64_t *value,
                          tc_size_expr *out) {
  int64_t coef[TC_SIZE_TERMS];
  if (!solve(m, of, n, n_sample, value, coef) || !has_values(m, of, coef, n, n_sample, value)) return false;
  *out = tc_size_constant(0);
  out->n_term = 0;
  for (uint32_t k = 0; k < n; k++) {
    tc_size_term t = m->term[of[k]];
    t.coef = coef[k];
    if (coef[k] == 0 || !add_term(out, &t)) return false;  // with fewer terms it was tried before
  }
  return true;
}

static bool is_same(const int64_t *value, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (value[i] != value[0]) return false;
  return true;
}

bool tc_size_fit_terms(const tc_size_samples *s, const int64_t *value, tc_size_expr *out) {
  monomials m;
  if (is_same(value, s->n)) return *out = tc_size_constant(value[0]), true;
  list_monomials(s, &m);
  uint32_t of[TC_SIZE_TERMS];
  if (s->n >= 1 + SPARE_SAMPLES)
    for (of[0] = 1; of[0] < m.n; of[0]++)
      if (fit_monomials(&m, of, 1, s->n, value, out)) return true;
  if (s->n >= 2 + SPARE_SAMPLES)
    for (of[0] = 1; of[0] < m.n; of[0]++)
      for (of[1] = 0; of[1] < of[0]; of[1]++)
        if (fit_monomials(&m, of, 2, s->n, value, out)) return true;
  if (s->n >= 3 + SPARE_SAMPLES)
    for (of[0] = 2; of[0] < m.n; of[0]++)
      for (of[1] = 1; of[1] < of[0]; of[1]++)
        for (of[2] = 0; of[2] < of[1]; of[2]++)
          if (fit_monomials(&m, of, 3, s->n, value, out)) return true;
  return false;
}

// Whether the samples tell this divisor from half of it and from twice it: some quantity's rest is
// in the upper half.
static bool tells_divisor(const tc_size_samples *s, const tc_size_quantity *q, uint8_t rounding, int64_t divisor) {
  bool from_half = false, from_twice = false;
  for (uint32_t i = 0; i < s->n; i++) {
    int64_t x = q->value[i] - (rounding == TC_SIZE_CEIL);
    from_half |= x % divisor >= divisor / 2;
    from_twice |= x % (2 * divisor) >= divisor;
  }
  return from_half && from_twice;
}

// A quantity rounded by a divisor, times a term that makes it the value. Where both are 0, the term
// may be any. certain: the samples must tell the divisor from others.
static bool fit_rounded(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint8_t rounding,
                        int64_t divisor, bool certain, tc_size_expr *out) {
  int64_t times[TC_MAX_SAMPLES], most = 0, some = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    int64_t x = round_by(rounding, q->value[i], divisor);
    most = TC_MAX_OF(most, x);
    if (x == 0 ? value[i] != 0 : value[i] == 0 || value[i] % x) return false;
    times[i] = x ? value[i] / x : 0;
    if (x) some = times[i];
  }
  bool constant = true;
  for (uint32_t i = 0; i < s->n; i++) {
    if (times[i] == 0) times[i] = some;  // right if the term is a constant, else it will not fit
    constant &= times[i] == some;
  }
  tc_size_expr by;
  if (rounding == TC_SIZE_REST ? !constant || some != 1 : certain && most < LEAST_STEPS) return false;
  if ((certain && !tells_divisor(s, q, rounding, divisor)) || !tc_size_fit_terms(s, times, &by) || by.n_term != 1)
    return false;
  *out = q->expr;
  out->rounding = rounding, out->divisor = divisor, out->times = by.term[0];
  return true;
}

static bool fit_any_rounded(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint32_t n_q,
                            bool certain, tc_size_expr *out) {
  for (int64_t divisor = 2; divisor <= MOST_DIVISOR; divisor *= 2)
    for (uint32_t i = 0; i < n_q; i++)
      for (uint8_t r = TC_SIZE_FLOOR; r <= TC_SIZE_REST; r++)
        if (fit_rounded(s, value, &q[i], r, divisor, certain, out)) return true;
  return false;
}

// 64 ceil(32 s / 64) is 32 s + 32 at all odd sizes. So a sum with several terms is believed only if
// no rounded quantity has these values.
bool tc_size_fit(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint32_t n_q,
                 tc_size_expr *out) {
  tc_size_expr other;
  if (!tc_size_fit_terms(s, value, out)) return fit_any_rounded(s, value, q, n_q, true, out);
  return out->n_term < 2 || !fit_any_rounded(s, value, q, n_q, false, &other);
}

bool tc_size_fit_rounded(const tc_size_samples *s, const int64_t *value, const tc_size_quantity *q, uint32_t n_q,
                         tc_size_rounding rounding, int64_t divisor, tc_size_expr *out) {
  for (uint32_t i = 0; i < n_q; i++)
    if (fit_rounded(s, value, &q[i], (uint8_t)rounding, divisor, false, out) && out->times.coef == divisor) return true;
  return false;
}
