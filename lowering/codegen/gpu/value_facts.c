// Derives facts of values before anything is printed:
// - what addresses are divisible by, so that wide accesses need no test;
// - how large whole numbers are, so that small ones use 32 bits;
// - which of them consist of counters alone and cannot overflow;
// - which buffers the kernel writes.
#include "lowering/codegen/gpu/text.h"
#include "runtime/status.h"

// More than any access is wide.
#define MOST 4096u
// More units than any memory has elements.
#define MOST_UNITS (INT64_C(1) << 48)

static uint32_t power_in(int64_t v) {
  const uint64_t low = (uint64_t)v & (UINT64_C(0) - (uint64_t)v);
  return low == 0 || low > MOST ? MOST : (uint32_t)low;
}

static uint32_t multiple_of(const tc_gpu_text *t, const tc_kir_inst *i) {
  const uint32_t *m = t->multiple, a = i->src[0], b = i->src[1];
  int64_t c;
  switch (i->op) {
    case TC_IR_CONST: return power_in(i->imm);
    case TC_IR_LOOP: return TC_MIN(m[a], power_in(i->imm));
    case TC_IR_SPLAT: return m[a];
    case TC_IR_ADD:
    case TC_IR_SUB:
    case TC_IR_MIN:
    case TC_IR_MAX: return TC_MIN(m[a], m[b]);
    case TC_IR_MUL: return TC_MIN(MOST, m[a] * m[b]);
    case TC_IR_SELECT: return TC_MIN(m[b], m[i->src[2]]);
    case TC_IR_SHL: return tc_gpu_constant(t, b, &c) && c >= 0 && c < 12 ? TC_MIN(MOST, m[a] << c) : m[a];
    case TC_IR_REM: return tc_gpu_constant(t, b, &c) ? TC_MIN(m[a], power_in(c)) : 1;
    case TC_IR_AND: return TC_MAX_OF(m[a], m[b]);
    case TC_IR_DIV:
      if (!tc_gpu_constant(t, b, &c) || c <= 0 || (c & (c - 1)) != 0 || c > m[a]) return 1;
      return m[a] / (uint32_t)c;
    default: return 1;
  }
}

// ---- how large ----

static const tc_gpu_range anything = {INT64_MIN, INT64_MAX};

static bool is_known(tc_gpu_range r) {
  return r.low > INT64_MIN && r.high < INT64_MAX;
}

static tc_gpu_range between(int64_t low, int64_t high) {
  return (tc_gpu_range){low, high};
}

static tc_gpu_range sum_of(unsigned op, tc_gpu_range a, tc_gpu_range b) {
  tc_gpu_range r;
  int64_t p[4];
  bool over = false;
  if (op == TC_IR_MUL) {
    over = __builtin_mul_overflow(a.low, b.low, &p[0]) || __builtin_mul_overflow(a.low, b.high, &p[1]) ||
           __builtin_mul_overflow(a.high, b.low, &p[2]) || __builtin_mul_overflow(a.high, b.high, &p[3]);
    if (over) return anything;
    return between(TC_MIN(TC_MIN(p[0], p[1]), TC_MIN(p[2], p[3])),
                   TC_MAX_OF(TC_MAX_OF(p[0], p[1]), TC_MAX_OF(p[2], p[3])));
  }
  if (op == TC_IR_ADD)
    over = __builtin_add_overflow(a.low, b.low, &r.low) || __builtin_add_overflow(a.high, b.high, &r.high);
  else
    over = __builtin_sub_overflow(a.low, b.high, &r.low) || __builtin_sub_overflow(a.high, b.low, &r.high);
  return over ? anything : r;
}

// All bits below the highest of v, v not negative.
static int64_t all_below(int64_t v) {
  int64_t all = 0;
  while (all < v) all = 2 * all + 1;
  return all;
}

static tc_gpu_range range_of_two(unsigned op, tc_gpu_range a, tc_gpu_range b) {
  const bool whole = a.low >= 0 && b.low >= 0, one = b.low == b.high;
  switch (op) {
    case TC_IR_ADD:
    case TC_IR_SUB:
    case TC_IR_MUL: return is_known(a) && is_known(b) ? sum_of(op, a, b) : anything;
    case TC_IR_DIV: return whole && b.low > 0 && is_known(a) ? between(a.low / b.high, a.high / b.low) : anything;
    case TC_IR_REM:
      if (b.low <= 0 || !is_known(b)) return anything;
      return a.low >= 0 ? between(0, TC_MIN(a.high, b.high - 1)) : between(1 - b.high, b.high - 1);
    case TC_IR_MIN: return between(TC_MIN(a.low, b.low), TC_MIN(a.high, b.high));
    case TC_IR_MAX: return between(TC_MAX_OF(a.low, b.low), TC_MAX_OF(a.high, b.high));
    case TC_IR_AND:
      return a.low >= 0 && b.low >= 0 ? between(0, TC_MIN(a.high, b.high))
             : b.low >= 0             ? between(0, b.high)
             : a.low >= 0             ? between(0, a.high)
                                      : anything;
    case TC_IR_OR:
    case TC_IR_XOR:
      return whole && is_known(a) && is_known(b) && a.high < INT64_MAX / 4 && b.high < INT64_MAX / 4
                 ? between(0, all_below(TC_MAX_OF(a.high, b.high)))
                 : anything;
    case TC_IR_SHL:
      return one && b.low >= 0 && b.low < 40 && is_known(a)
                 ? sum_of(TC_IR_MUL, a, between(INT64_C(1) << b.low, INT64_C(1) << b.low))
                 : anything;
    case TC_IR_SHR:
    case TC_IR_USHR: return whole && one && b.low < 63 ? between(a.low >> b.low, a.high >> b.low) : anything;
    default: return anything;
  }
}

static tc_gpu_range range_of(const tc_gpu_text *t, const tc_kir_inst *i) {
  const tc_gpu_range *r = t->range;
  switch (i->op) {
    case TC_IR_CONST: return between(i->imm, i->imm);
    case TC_IR_BEGIN:
    case TC_IR_FINISH: return between(0, MOST_UNITS);
    case TC_IR_LANES: return between(0, i->lanes - 1);
    case TC_IR_LOOP:
      if (!is_known(r[i->src[0]]) || !is_known(r[i->src[1]]) || i->imm > INT32_MAX) return anything;
      // And what ends it.
      return between(r[i->src[0]].low, TC_MAX_OF(r[i->src[0]].low, r[i->src[1]].high - 1) + i->imm);
    case TC_IR_SPLAT: return r[i->src[0]];
    case TC_IR_EXTRACT: return r[i->src[0]];
    case TC_IR_SELECT:
      return between(TC_MIN(r[i->src[1]].low, r[i->src[2]].low), TC_MAX_OF(r[i->src[1]].high, r[i->src[2]].high));
    default:
      return i->src[0] != TC_NONE && i->src[1] != TC_NONE ? range_of_two(i->op, r[i->src[0]], r[i->src[1]]) : anything;
  }
}

// ---- all ----

static bool is_plain(const tc_gpu_text *t, const tc_kir_inst *i) {
  switch (i->op) {
    case TC_IR_BEGIN:
    case TC_IR_FINISH:
    case TC_IR_CONST:
    case TC_IR_LANES:
    case TC_IR_LOOP: return true;
    case TC_IR_SPLAT: return t->plain[i->src[0]] != 0;
    case TC_IR_ADD:
    case TC_IR_SUB:
    case TC_IR_MUL:
    case TC_IR_DIV:
    case TC_IR_REM:
    case TC_IR_MIN:
    case TC_IR_MAX: return t->plain[i->src[0]] && t->plain[i->src[1]];
    default: return false;
  }
}

void tc_gpu_find_facts(tc_gpu_text *t) {
  for (uint32_t k = 0; k < t->kir->n_inst; k++) {
    const tc_kir_inst *i = &t->kir->inst[k];
    if (tc_kir_is(i, TC_KIR_STORES) && i->imm < t->kir->n_buf) t->stored[i->imm] = 1;
    if (i->dtype != TC_I64) continue;
    t->multiple[k] = multiple_of(t, i);
    t->range[k] = range_of(t, i);
    t->plain[k] = is_known(t->range[k]) || is_plain(t, i);
  }
}
