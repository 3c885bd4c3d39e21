// What is known of values before anything is printed: by what addresses are divisible, so that wide accesses need no test, which integers are made of
// counters alone and cannot overflow, and which buffers the kernel writes.
#include "lowering/gpu/text.h"

// More than any access is wide.
#define MOST 4096u

static uint32_t lesser(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static uint32_t power_in(int64_t v) {
  const uint64_t low = (uint64_t)v & (UINT64_C(0) - (uint64_t)v);
  return low == 0 || low > MOST ? MOST : (uint32_t)low;
}

static bool constant(const tc_gpu_text *t, uint32_t v, int64_t *out) {
  const tc_ninst *i = &t->nest->inst[v];
  if (i->op == TC_N_SPLAT) i = &t->nest->inst[i->src[0]];
  *out = i->imm;
  return i->op == TC_N_CONST;
}

static uint32_t multiple_of(const tc_gpu_text *t, const tc_ninst *i) {
  const uint32_t *m = t->multiple, a = i->src[0], b = i->src[1];
  int64_t c;
  switch (i->op) {
    case TC_N_CONST: return power_in(i->imm);
    case TC_N_LOOP: return lesser(m[a], power_in(i->imm));
    case TC_N_SPLAT: return m[a];
    case TC_N_ADD:
    case TC_N_SUB:
    case TC_N_MIN:
    case TC_N_MAX: return lesser(m[a], m[b]);
    case TC_N_MUL: return lesser(MOST, m[a] * m[b]);
    case TC_N_SELECT: return lesser(m[b], m[i->src[2]]);
    case TC_N_SHL: return constant(t, b, &c) && c >= 0 && c < 12 ? lesser(MOST, m[a] << c) : m[a];
    case TC_N_REM: return constant(t, b, &c) ? lesser(m[a], power_in(c)) : 1;
    case TC_N_AND: return m[a] > m[b] ? m[a] : m[b];
    case TC_N_DIV:
      if (!constant(t, b, &c) || c <= 0 || (c & (c - 1)) != 0 || c > m[a]) return 1;
      return m[a] / (uint32_t)c;
    default: return 1;
  }
}

static bool is_plain(const tc_gpu_text *t, const tc_ninst *i) {
  switch (i->op) {
    case TC_N_BEGIN:
    case TC_N_FINISH:
    case TC_N_CONST:
    case TC_N_LANES:
    case TC_N_LOOP: return true;
    case TC_N_SPLAT: return t->plain[i->src[0]] != 0;
    case TC_N_ADD:
    case TC_N_SUB:
    case TC_N_MUL:
    case TC_N_DIV:
    case TC_N_REM:
    case TC_N_MIN:
    case TC_N_MAX: return t->plain[i->src[0]] && t->plain[i->src[1]];
    default: return false;
  }
}

void tc_gpu_find_facts(tc_gpu_text *t) {
  for (uint32_t k = 0; k < t->nest->n_inst; k++) {
    const tc_ninst *i = &t->nest->inst[k];
    if ((i->op == TC_N_STORE || i->op == TC_N_SCATTER) && i->imm < t->nest->n_buf) t->stored[i->imm] = 1;
    if (i->dtype != TC_I64) continue;
    t->multiple[k] = multiple_of(t, i);
    t->plain[k] = is_plain(t, i);
  }
}
