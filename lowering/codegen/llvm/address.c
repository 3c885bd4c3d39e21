// Addresses as sums. See address.h.
#include "lowering/codegen/llvm/address.h"

#include <string.h>

#include "lowering/codegen/llvm/values.h"
#include "runtime/arena.h"

#define MAX_TERMS 10
#define MAX_APART (INT64_C(1) << 28)  // bytes between accesses that share a pointer

// times * the value of instruction `at`. If is_iteration is 1, `at` is a LOOP, and its value is the
// number of iterations before this one.
typedef struct term {
  uint32_t at, is_iteration;
  int64_t times;
} term;

// A number: rest + the terms, in order of their instructions, none of them 0 times; in a vector, +
// lane times the lane's number. known: whether it is one.
typedef struct sum {
  bool known;
  uint32_t n;
  int64_t rest, lane;
  term term[MAX_TERMS];
} sum;

// Accesses of one buffer in one loop whose bytes differ by constants, and by terms from within the
// loop.
typedef enum way {
  FIXED,
  COUNTER,  // base + 1, 2, 4 or 8 times the loop's counter, which an address has room for
  POINTER,  // a pointer of its own
  OFFSET,  // base + the leader's offset
} way;
typedef struct group {
  uint32_t loop, leader;
  int64_t buffer, stride;  // bytes an iteration
  way way;
  bool needed;  // by an access that is
  sum sum;  // of base
  LLVMValueRef base, moving;  // i8 *, in front of the loop; the pointer that each iteration advances
} group;

typedef struct access {
  uint32_t group;  // + 1; 0: by its index, as it is
  uint32_t first_inner, n_inner;  // terms from within the loop, in bytes
  int64_t apart, lane;  // bytes from the group's; from each lane to the next
} access;

struct tc_llvm_addresses {
  sum *sum;  // of each instruction
  access *access;  // of each instruction
  // Of each instruction, the innermost loop in which its value may change, + 1; 0: it never does.
  uint32_t *within;
  bool *needed;
  group *group;
  term *inner;
  uint32_t n_group, cap_group, n_inner, cap_inner;
  bool shares;  // an address may be the sum of two registers and a constant
};

// ---- sums ----

static int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

// *to += times * from; false, and *to is as it was, if that has too many terms.
static bool add_to(sum *to, const sum *from, int64_t times) {
  sum out = {.known = true,
             .rest = wrap_add(to->rest, wrap_mul(from->rest, times)),
             .lane = wrap_add(to->lane, wrap_mul(from->lane, times))};
  if (!to->known || !from->known) return false;
  for (uint32_t i = 0, k = 0; i < to->n || k < from->n;) {
    term t;
    if (k == from->n || (i < to->n && to->term[i].at < from->term[k].at)) {
      t = to->term[i++];
    } else {
      t = (term){from->term[k].at, from->term[k].is_iteration, wrap_mul(from->term[k].times, times)};
      if (i < to->n && to->term[i].at == t.at) {
        if (to->term[i].is_iteration != t.is_iteration) return false;
        t.times = wrap_add(t.times, to->term[i++].times);
      }
      k++;
    }
    if (t.times == 0) continue;
    if (out.n == MAX_TERMS) return false;
    out.term[out.n++] = t;
  }
  *to = out;
  return true;
}

static sum sum_of_value(uint32_t at) {
  return (sum){.known = true, .n = 1, .term = {{at, 0, 1}}};
}

// Whether the sum is a constant; then it is *value.
static bool is_constant(const sum *s, int64_t *value) {
  *value = s->rest;
  return s->known && s->n == 0 && s->lane == 0;
}

// Divides a sum exactly. True only if all terms count iterations, so that nothing wraps, and are
// multiples of the divisor.
static bool divide(sum *s, int64_t divisor) {
  if (divisor <= 0 || s->rest % divisor != 0 || s->lane % divisor != 0) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (!s->term[i].is_iteration || s->term[i].times % divisor != 0) return false;
  for (uint32_t i = 0; i < s->n; i++) s->term[i].times /= divisor;
  s->rest /= divisor, s->lane /= divisor;
  return true;
}

// s, or, where it is of no use, the instruction itself, if that is one number.
static sum sum_or_value(const tc_kir *kir, bool ok, sum s, uint32_t at) {
  return ok ? s : kir->inst[at].lanes == 1 ? sum_of_value(at) : (sum){0};
}

static sum find_sum(const tc_kir *kir, const sum *of, uint32_t at) {
  const tc_kir_inst *inst = &kir->inst[at];
  sum s = {.known = true};
  int64_t value;
  bool ok;
  // A variable's value is its present one.
  if (inst->dtype != TC_I64 || inst->op == TC_IR_VAR) return (sum){0};
  if (inst->op == TC_IR_CONST) return s.rest = inst->imm, s;
  if (inst->op == TC_IR_LANES) return s.lane = inst->lanes > 1, s;
  if (inst->op == TC_IR_SPLAT) return of[inst->src[0]];
  if (inst->op == TC_IR_LOOP) {
    s = (sum){.known = true, .n = 1, .term = {{at, 1, inst->imm}}};
    ok = add_to(&s, &of[inst->src[0]], 1);
    return sum_or_value(kir, ok, s, at);
  }
  if (inst->op != TC_IR_ADD && inst->op != TC_IR_SUB && inst->op != TC_IR_MUL && inst->op != TC_IR_DIV)
    return sum_or_value(kir, false, s, at);
  const sum *x = &of[inst->src[0]], *y = &of[inst->src[1]];
  ok = x->known && y->known;
  if (ok && inst->op == TC_IR_MUL) {
    ok = is_constant(y, &value) ? add_to(&s, x, value) : is_constant(x, &value) && add_to(&s, y, value);
  } else if (ok) {
    s = *x;
    ok = inst->op == TC_IR_DIV ? is_constant(y, &value) && divide(&s, value)
                               : add_to(&s, y, inst->op == TC_IR_ADD ? 1 : -1);
  }
  return sum_or_value(kir, ok, s, at);
}

// ---- what changes where ----

static bool is_hoisted(const tc_kir_inst *inst) {
  return inst->lanes == 1 && tc_kir_is(inst, TC_KIR_HOIST);
}

static uint32_t find_within(const tc_kir *kir, const uint32_t *of, uint32_t at, uint32_t loop) {
  const tc_kir_inst *inst = &kir->inst[at];
  uint32_t within = 0;
  bool set = false;
  if (inst->op == TC_IR_LOOP) return at + 1;
  if (tc_kir_is(inst, TC_KIR_LEAF)) return 0;
  for (int k = 0; k < (int)(sizeof inst->src / sizeof inst->src[0]); k++) {
    if (inst->src[k] == TC_NONE) continue;
    set |= kir->inst[inst->src[k]].op == TC_IR_VAR;  // anywhere before it
    if (of[inst->src[k]] > within) within = of[inst->src[k]];
  }
  if (set || !is_hoisted(inst)) return loop == TC_NONE ? 0 : loop + 1;
  return within;
}

bool tc_llvm_is_of_outside(const tc_llvm_build *b, uint32_t at, uint32_t loop) {
  const tc_kir_inst *inst = &b->kir->inst[at];
  return b->address->needed[at] && (tc_kir_is(inst, TC_KIR_LEAF) || is_hoisted(inst)) && b->address->within[at] <= loop;
}

// ---- groups ----

static unsigned element_bytes(const tc_kir *kir, const tc_kir_inst *inst) {
  if (inst->op != TC_IR_PREFETCH) return tc_kir_type_bytes(inst->dtype);
  return tc_kir_type_bytes(inst->imm < kir->n_buf ? kir->buf_type[inst->imm] : kir->tile[inst->imm - kir->n_buf].dtype);
}

static bool same_terms(const sum *a, const sum *b) {
  return a->n == b->n && memcmp(a->term, b->term, a->n * sizeof(term)) == 0;
}

// Replaces a loop's iteration count by its counter, which exists anyway, if the step divides. Goes
// from the innermost loop outwards: a counter's start consists of outer values.
static void count_by_counters(const tc_kir *kir, const sum *of, sum *s) {
  for (uint32_t i = s->n; i > 0;) {
    const term *t = &s->term[--i];
    const tc_kir_inst *loop = &kir->inst[t->at];
    if (!t->is_iteration || t->times % loop->imm != 0) continue;
    sum with = *s;
    with.term[i] = (term){t->at, 0, t->times / loop->imm};
    if (!add_to(&with, &of[loop->src[0]], wrap_mul(-1, t->times / loop->imm))) continue;
    *s = with;
    i = s->n;
  }
}

// Puts the access into the group that it is like but for a constant, a new one if there is none.
static bool join_group(tc_llvm_build *b, const group *like, access *out) {
  tc_llvm_addresses *a = b->address;
  for (uint32_t i = 0; i < a->n_group; i++) {
    const group *g = &a->group[i];
    int64_t apart = wrap_add(like->sum.rest, -g->sum.rest);
    if (g->loop != like->loop || g->buffer != like->buffer || g->way != like->way || g->stride != like->stride)
      continue;
    if (!same_terms(&g->sum, &like->sum) || apart > MAX_APART || apart < -MAX_APART) continue;
    out->group = i + 1, out->apart = apart;
    return true;
  }
  if (!TC_GROW(a->group, a->cap_group, a->n_group + 1)) return tc_llvm_no_memory(b);
  a->group[a->n_group] = *like;
  a->group[a->n_group].leader = a->n_group;
  out->group = ++a->n_group;
  return true;
}

// Takes the bytes of an access apart: what does not change within the loop, what each of its
// iterations adds, and the rest.
static bool find_access(tc_llvm_build *b, uint32_t at, uint32_t loop) {
  tc_llvm_addresses *a = b->address;
  const tc_kir *kir = b->kir;
  const tc_kir_inst *inst = &kir->inst[at];
  group g = {.loop = loop, .buffer = inst->imm, .sum.known = true};
  sum s = {.known = true};
  access *out = &a->access[at];
  if (loop == TC_NONE || !add_to(&s, &a->sum[inst->src[0]], element_bytes(kir, inst))) return true;
  g.sum.rest = s.rest, out->lane = s.lane;
  out->first_inner = a->n_inner;
  for (uint32_t i = 0; i < s.n; i++) {
    if (a->within[s.term[i].at] <= loop) {
      g.sum.term[g.sum.n++] = s.term[i];
    } else if (s.term[i].is_iteration && s.term[i].at == loop) {
      g.stride = s.term[i].times;
    } else {
      if (!TC_GROW(a->inner, a->cap_inner, a->n_inner + 1)) return tc_llvm_no_memory(b);
      a->inner[a->n_inner++] = s.term[i];
    }
  }
  out->n_inner = a->n_inner - out->first_inner;
  g.way = g.stride == 0 ? FIXED : POINTER;
  int64_t times = g.stride / kir->inst[loop].imm;
  if (a->shares && times * kir->inst[loop].imm == g.stride && (times == 1 || times == 2 || times == 4 || times == 8) &&
      add_to(&g.sum, &a->sum[kir->inst[loop].src[0]], -times)) {
    g.way = COUNTER;
  }
  count_by_counters(kir, a->sum, &g.sum);
  return join_group(b, &g, out);
}

static bool names_buffer(const tc_kir_inst *inst) {
  return tc_kir_op_of(inst)->imm == TC_KIR_IMM_BUFFER;
}

static bool is_access(const tc_llvm_build *b, const tc_kir_inst *inst) {
  if (tc_kir_is(inst, TC_KIR_INDEXED)) return !tc_llvm_can_gather(b, inst);
  return names_buffer(inst);
}

// Where an address has room for it, pointers that step alike become one offset from where they
// start.
static void share_offsets(tc_llvm_addresses *a) {
  for (uint32_t i = 0; a->shares && i < a->n_group; i++) {
    group *g = &a->group[i];
    for (uint32_t k = 0; k < i && g->needed && g->way == POINTER; k++) {
      group *other = &a->group[k];
      if (!other->needed || other->loop != g->loop || other->stride != g->stride || other->leader != k ||
          other->way == COUNTER)
        continue;
      other->way = g->way = OFFSET, g->leader = k;
    }
  }
}

// ---- what is needed ----

static void need(tc_llvm_addresses *a, uint32_t at) {
  if (at != TC_NONE) a->needed[at] = true;
}

static void need_terms(tc_llvm_addresses *a, const term *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) need(a, t[i].at);
}

static bool has_effect(const tc_kir_inst *inst) {
  return inst->op == TC_IR_LOOP || inst->op == TC_IR_VAR || !tc_kir_has_value(inst);
}

static void find_needed(tc_llvm_build *b) {
  tc_llvm_addresses *a = b->address;
  for (uint32_t at = b->kir->n_inst; at-- > 0;) {
    const tc_kir_inst *inst = &b->kir->inst[at];
    const access *x = &a->access[at];
    if (has_effect(inst)) a->needed[at] = true;
    if (!a->needed[at]) continue;
    for (int k = x->group > 0; k < (int)(sizeof inst->src / sizeof inst->src[0]); k++) need(a, inst->src[k]);
    if (x->group == 0) continue;
    group *g = &a->group[x->group - 1];
    need_terms(a, a->inner + x->first_inner, x->n_inner);
    need_terms(a, g->sum.term, g->sum.n);
    g->needed = true;
  }
}

bool tc_llvm_is_needed(const tc_llvm_build *b, uint32_t at) {
  return b->address->needed[at];
}

// What is looked at here is there: of a kernel that obeys kir.h it always is.
static bool is_sound(tc_llvm_build *b, uint32_t at) {
  const tc_kir *kir = b->kir;
  const tc_kir_inst *inst = &kir->inst[at];
  bool by_index = names_buffer(inst);
  bool of_two = inst->op == TC_IR_ADD || inst->op == TC_IR_SUB || inst->op == TC_IR_MUL || inst->op == TC_IR_DIV;
  unsigned n = of_two ? 2 : by_index || inst->op == TC_IR_SPLAT || inst->op == TC_IR_LOOP;
  for (unsigned k = 0; k < sizeof inst->src / sizeof inst->src[0]; k++)
    if (inst->src[k] >= at && (inst->src[k] != TC_NONE || k < n))
      return tc_llvm_fail(b, "%%%u %s: operand %u has no value", at, tc_kir_op_name((tc_kir_op)inst->op), k) != NULL;
  if (inst->lanes > 64 || inst->dtype >= TC_N_TYPES) return tc_llvm_fail(b, "%%%u: bad type", at) != NULL;
  if (inst->op == TC_IR_LOOP && inst->imm <= 0) return tc_llvm_fail(b, "%%%u loop: bad step", at) != NULL;
  if (by_index && (inst->imm < 0 || inst->imm >= (int64_t)kir->n_buf + kir->n_tile))
    return tc_llvm_fail(b, "no buffer %lld", (long long)inst->imm) != NULL;
  return true;
}

bool tc_llvm_find_addresses(tc_llvm_build *b) {
  const tc_kir *kir = b->kir;
  size_t n = kir->n_inst + (size_t)1;
  // The loops that are open, innermost last.
  uint32_t *around = tc_calloc(n, sizeof *around), depth = 0;
  tc_llvm_addresses *a = b->address = tc_calloc(1, sizeof *a);
  bool ok = around != NULL && a != NULL;
  if (ok) {
    a->shares = b->can.two_registers;
    a->sum = tc_calloc(n, sizeof *a->sum);
    a->access = tc_calloc(n, sizeof *a->access);
    a->needed = tc_calloc(n, sizeof *a->needed);
    a->within = tc_calloc(n, sizeof *a->within);
    ok = a->sum != NULL && a->access != NULL && a->needed != NULL && a->within != NULL;
  }
  if (!ok) (void)tc_llvm_no_memory(b);
  for (uint32_t at = 0; ok && at < kir->n_inst && (ok = is_sound(b, at)); at++) {
    const tc_kir_inst *inst = &kir->inst[at];
    uint32_t loop = depth > 0 ? around[depth - 1] : TC_NONE;
    a->sum[at] = find_sum(kir, a->sum, at);
    a->within[at] = find_within(kir, a->within, at, loop);
    if (inst->op == TC_IR_LOOP) around[depth++] = at;
    if (inst->op == TC_IR_ENDLOOP && depth > 0) depth--;
    if (is_access(b, inst)) ok = find_access(b, at, loop);
  }
  tc_free(around);
  if (!ok) return false;
  find_needed(b);
  share_offsets(a);
  return true;
}

void tc_llvm_free_addresses(tc_llvm_build *b) {
  if (b->address == NULL) return;
  tc_free(b->address->sum);
  tc_free(b->address->access);
  tc_free(b->address->needed);
  tc_free(b->address->within);
  tc_free(b->address->group);
  tc_free(b->address->inner);
  tc_free(b->address);
}

// ---- printing ----

// p + `bytes` times v.
static LLVMValueRef step_by(tc_llvm_build *b, LLVMValueRef p, LLVMValueRef v, int64_t bytes) {
  LLVMTypeRef unit = b->i8;
  if (bytes == 2 || bytes == 4 || bytes == 8)
    unit = LLVMIntTypeInContext(b->ctx, (unsigned)bytes * 8);
  else if (bytes != 1)
    v = LLVMBuildMul(b->b, v, LLVMConstInt(b->i64, (uint64_t)bytes, 1), "");
  p = LLVMBuildBitCast(b->b, p, LLVMPointerType(unit, 0), "");
  return LLVMBuildBitCast(b->b, LLVMBuildGEP2(b->b, unit, p, &v, 1, ""), b->ptr, "");
}

static LLVMValueRef step_by_constant(tc_llvm_build *b, LLVMValueRef p, int64_t bytes) {
  return bytes == 0 ? p : step_by(b, p, LLVMConstInt(b->i64, (uint64_t)bytes, 1), 1);
}

static bool add_terms(tc_llvm_build *b, LLVMValueRef *p, const term *t, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const tc_kir_inst *inst = &b->kir->inst[t[i].at];
    LLVMValueRef v = b->val[t[i].at];
    if (v == NULL) return tc_llvm_fail(b, "%%%u has no value for an address", t[i].at) != NULL;
    if (t[i].is_iteration)
      v = LLVMBuildExactSDiv(b->b, LLVMBuildSub(b->b, v, b->val[inst->src[0]], ""),
                             LLVMConstInt(b->i64, (uint64_t)inst->imm, 1), "");
    *p = step_by(b, *p, v, t[i].times);
  }
  return true;
}

bool tc_llvm_open_addresses(tc_llvm_build *b, const tc_llvm_frame *f) {
  tc_llvm_addresses *a = b->address;
  for (uint32_t i = 0; i < a->n_group; i++) {
    group *g = &a->group[i];
    if (g->loop != f->at || !g->needed) continue;
    if ((g->base = tc_llvm_buffer_base(b, g->buffer)) == NULL || !add_terms(b, &g->base, g->sum.term, g->sum.n))
      return false;
    g->base = step_by_constant(b, g->base, g->sum.rest);
  }
  return true;
}

void tc_llvm_head_addresses(tc_llvm_build *b, const tc_llvm_frame *f) {
  tc_llvm_addresses *a = b->address;
  for (uint32_t i = 0; i < a->n_group; i++) {
    group *g = &a->group[i];
    if (g->loop != f->at || !g->needed || g->way == FIXED || g->way == COUNTER || g->leader != i) continue;
    LLVMValueRef start = g->way == POINTER ? g->base : LLVMConstInt(b->i64, 0, 0);
    LLVMBasicBlockRef from = f->from;
    g->moving = LLVMBuildPhi(b->b, LLVMTypeOf(start), "");
    LLVMAddIncoming(g->moving, &start, &from, 1);
  }
}

void tc_llvm_step_addresses(tc_llvm_build *b, const tc_llvm_frame *f, LLVMBasicBlockRef last) {
  tc_llvm_addresses *a = b->address;
  for (uint32_t i = 0; i < a->n_group; i++) {
    group *g = &a->group[i];
    if (g->loop != f->at || !g->needed || g->way == FIXED || g->way == COUNTER || g->leader != i) continue;
    LLVMValueRef next = g->way == POINTER
                            ? step_by_constant(b, g->moving, g->stride)
                            : LLVMBuildAdd(b->b, g->moving, LLVMConstInt(b->i64, (uint64_t)g->stride, 1), "");
    LLVMAddIncoming(g->moving, &next, &last, 1);
  }
}

LLVMValueRef tc_llvm_address(tc_llvm_build *b, const tc_kir_inst *inst, int64_t *lane, bool *indexed) {
  tc_llvm_addresses *a = b->address;
  const access *x = &a->access[inst - b->kir->inst];
  LLVMValueRef p = tc_llvm_buffer_base(b, inst->imm), index;
  bool by_vector = inst->op == TC_IR_GATHER || inst->op == TC_IR_SCATTER;
  *lane = by_vector ? x->lane : element_bytes(b->kir, inst);
  *indexed = by_vector && x->group == 0;
  if (p == NULL || *indexed) return p;
  if (x->group == 0) return (index = tc_llvm_operand(b, inst, 0)) ? step_by(b, p, index, *lane) : NULL;
  const group *g = &a->group[x->group - 1];
  switch (g->way) {
    case FIXED: p = g->base; break;
    case COUNTER: p = step_by(b, g->base, b->val[g->loop], g->stride / b->kir->inst[g->loop].imm); break;
    case POINTER: p = g->moving; break;
    case OFFSET: p = step_by(b, g->base, a->group[g->leader].moving, 1); break;
  }
  return add_terms(b, &p, a->inner + x->first_inner, x->n_inner) ? step_by_constant(b, p, x->apart) : NULL;
}
