// Runs a kernel without compiling it: the portable tier, and the oracle for generated code.
//
// At creation each instruction becomes a step: a function chosen by (op, type, lanes), and its
// operands' offsets in a frame.
// Instructions that depend only on constants and the run's scalars go to a prologue, run once per
// call. Constants are copied in at the start.
// A slot is reused after the last reader of its value, so a frame stays in L1.
// A step spends a third to a half of its time on reading and writing slots, so instructions are
// joined:
// - "op; SET var" is one step that writes the variable.
// - "LOAD; SPLAT; FMA", a matmul's innermost loop, is one step that reads an element.
// - A loaded value that arithmetic reads before any store is read in place: its slot holds the
//   address. A result that is stored at once is written in place.
// - A value with one reader is computed in the reader's step where there is a function for both.
// Threads: a tc_interp is immutable; the frame is the worker's. Owner: it owns its steps and
// constants, nothing of the kernel.
#include "lowering/codegen/interp/interp.h"

#include <string.h>

#include "lowering/codegen/interp/steps.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/verify.h"
#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/team.h"

struct tc_interp {
  tc_interp_step *steps;  // prologue, then body; each part ends with a step without function
  char *pool;  // constants, copied to pool_at in the frame
  void *tiles;  // int64_t offsets of the tiles
  uint32_t n_prologue, n_buf, n_tile;
  size_t tile_bytes, pool_at, pool_bytes, frame_bytes;
  size_t tmm_at;  // in the frame, the tile registers; 0: the kernel has none
  size_t held_bytes;  // of all that it points to
};

static const uint8_t log_bytes[TC_N_TYPES] = {[TC_BOOL] = 0, [TC_U8] = 0,  [TC_I8] = 0,   [TC_I16] = 1, [TC_I32] = 2,
                                              [TC_I64] = 3,  [TC_F16] = 1, [TC_BF16] = 1, [TC_F32] = 2, [TC_F64] = 3};
// A type of the same size that moves and SELECT have functions for.
static const uint8_t carrier[4] = {TC_U8, TC_I16, TC_I32, TC_I64};

enum { SLOT_SIZES = 6 };  // 64 bytes to 2048, which are TC_KIR_LANES of the widest type

typedef struct value {
  uint32_t at;  // offset in the frame
  // Instruction after which the slot is free; 0: never (constants and the prologue's).
  uint32_t last;
  uint32_t n_uses;
  uint32_t next;  // in the list of values that end together, or of free slots
  bool early;  // known before the body runs
  // A LOAD that its readers do, or what is computed for the STORE behind it and writes itself; the
  // slot holds the address.
  bool in_place;
  bool placed;  // which is there already
  bool late;  // left to its only reader
} value;

typedef struct translation {
  const tc_kir *kir;
  const tc_interp_set *set;
  tc_interp *out;
  value *value;
  uint32_t *ending;  // per instruction: first value that ends there
  uint32_t *step_of;  // per LOOP or IF: its step
  uint32_t *match, *parent;  // per LOOP or IF: its end, and what it is in
  uint32_t *free_slot[SLOT_SIZES], n_free[SLOT_SIZES];
  size_t top;  // end of the frame so far
  uint32_t n_steps;
} translation;

static unsigned size_class(const translation *t, uint32_t v) {
  const tc_kir_inst *i = &t->kir->inst[v];
  const unsigned bytes = t->value[v].in_place ? (unsigned)sizeof(char *) : (unsigned)i->lanes << log_bytes[i->dtype];
  return bytes <= 64 ? 0 : (unsigned)__builtin_ctz(bytes) - 6;
}

static bool is_const(const tc_kir_inst *i) {
  return i->op == TC_IR_CONST || i->op == TC_IR_LANES;
}

// Marks early values, matches ends, counts uses, and finds where each value's life ends.
// That is its last use, or the end of the outermost loop that holds that use and not the value.
static void find_lives(translation *t) {
  const tc_kir *n = t->kir;
  uint32_t open = TC_NONE;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    if (tc_kir_is(&n->inst[i], TC_KIR_OPENS)) t->parent[i] = open, open = i;
    if (tc_kir_is(&n->inst[i], TC_KIR_CLOSES)) t->match[open] = i, t->match[i] = open, open = t->parent[open];
  }
  open = TC_NONE;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *inst = &n->inst[i];
    bool early = tc_kir_is(inst, TC_KIR_LEAF | TC_KIR_PURE);
    for (int k = 0; k < 4; k++) {
      const uint32_t v = inst->src[k];
      if (v == TC_NONE) continue;
      if (tc_kir_is(inst, TC_KIR_PURE) && !t->value[v].early) early = false;
      uint32_t end = i;
      for (uint32_t o = open; o != TC_NONE && o > v; o = t->parent[o])
        if (n->inst[o].op == TC_IR_LOOP) end = t->match[o];
      t->value[v].n_uses++;
      t->value[v].last = TC_MAX_OF(t->value[v].last, end);
    }
    t->value[i].early = early;
    t->value[i].last = TC_MAX_OF(t->value[i].last, i);
    if (inst->op == TC_IR_LOOP) t->value[i].last = t->match[i];
    if (tc_kir_is(inst, TC_KIR_OPENS)) open = i;
    if (tc_kir_is(inst, TC_KIR_CLOSES)) open = t->parent[t->match[i]];
  }
}

static unsigned copy_class(const tc_kir_inst *i) {
  const unsigned bytes = (unsigned)i->lanes << log_bytes[i->dtype];
  return bytes >= 64 ? 6 : (unsigned)__builtin_ctz(bytes);
}

// Whether an instruction's function takes operands where they lie.
static bool takes_in_place(const tc_kir_inst *i, const tc_kir_inst *first) {
  switch (i->op) {
    case TC_IR_SPLAT:
    case TC_IR_BITCAST:
    case TC_IR_CALL:
    case TC_IR_UNPACK:
    case TC_IR_INTERLEAVE:
    case TC_IR_REDUCE: return false;
    case TC_IR_CAST: return i->dtype != TC_F16 && first->dtype != TC_F16;
    default: return i->lanes > 1 && tc_kir_is(i, TC_KIR_PURE);
  }
}

// LOADs whose readers all do so before anything is stored, and in the same iteration of a loop.
static void find_in_place(translation *t) {
  const tc_kir *n = t->kir;
  uint32_t changed = 0;  // instruction after which memory, or what is looked at, may be another
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *inst = &n->inst[i];
    for (int k = 0; k < 4; k++)
      if (inst->src[k] != TC_NONE && (inst->src[k] < changed || !takes_in_place(inst, &n->inst[inst->src[0]])))
        t->value[inst->src[k]].in_place = false;
    t->value[i].in_place =
        inst->op == TC_IR_LOAD && inst->lanes > 1 && inst->src[1] == TC_NONE && copy_class(inst) == 6;
    if (!tc_kir_has_value(inst) || inst->op == TC_IR_LOOP)
      changed = inst->op == TC_IR_SET || inst->op == TC_IR_PREFETCH ? changed : i;
  }
}

static void take_slot(translation *t, uint32_t v) {
  const unsigned c = size_class(t, v);
  if (!t->value[v].early && t->n_free[c] > 0) {
    t->value[v].at = t->free_slot[c][--t->n_free[c]];
  } else {
    t->value[v].at = (uint32_t)t->top;
    t->top += (size_t)64 << c;
  }
  if (t->value[v].early) return;
  t->value[v].next = t->ending[t->value[v].last];
  t->ending[t->value[v].last] = v;
}

static void free_slots(translation *t, uint32_t i) {
  for (uint32_t v = t->ending[i]; v != TC_NONE; v = t->value[v].next) {
    const unsigned c = size_class(t, v);
    t->free_slot[c][t->n_free[c]++] = t->value[v].at;
  }
}

static tc_interp_fn *cast_fn(const translation *t, const tc_kir_inst *i, unsigned from) {
  const unsigned to = i->dtype;
  if (i->imm != 0) return t->set->cast_settled;
  if (to == TC_F16 && from == TC_F32 && t->set->pack_f16 != NULL) return t->set->pack_f16;
  if (to == TC_F32 && from == TC_F16 && t->set->unpack_f16 != NULL) return t->set->unpack_f16;
  return t->set->cast[to][from];
}

// Instruction i is SPLAT of the first operand of the FMA behind it, and of nothing else.
static bool is_folded_splat(const translation *t, uint32_t i) {
  const tc_kir *n = t->kir;
  if (n->inst[i].op != TC_IR_SPLAT || i + 1 >= n->n_inst || t->value[i].early || t->value[i].n_uses != 1) return false;
  const tc_kir_inst *next = &n->inst[i + 1];
  return next->op == TC_IR_FMA && next->src[0] == i && t->set->scaled[next->dtype] != NULL;
}

// Instruction i loads what such a SPLAT behind it spreads, and nothing else reads.
static bool is_folded_load(const translation *t, uint32_t i) {
  const tc_kir *n = t->kir;
  const tc_kir_inst *x = &n->inst[i];
  if (x->op != TC_IR_LOAD || x->lanes != 1 || x->src[1] != TC_NONE || t->value[i].n_uses != 1 || i + 1 >= n->n_inst)
    return false;
  return n->inst[i + 1].src[0] == i && is_folded_splat(t, i + 1);
}

// What the next instruction stores, and nothing else reads; a store past the caches has a step of
// its own.
static void find_stored(translation *t) {
  const tc_kir *n = t->kir;
  for (uint32_t i = 1; i < n->n_inst; i++) {
    const tc_kir_inst *store = &n->inst[i], *v = store - 1;
    if (store->op != TC_IR_STORE || store->src[1] != i - 1 || store->src[2] != TC_NONE || t->value[i - 1].early ||
        t->value[i - 1].n_uses != 1)
      continue;
    if (copy_class(v) != 6 || (store->flags & 1 && t->set->store_streaming != NULL) || v->op == TC_IR_LOAD) continue;
    t->value[i - 1].in_place = takes_in_place(v, &n->inst[v->src[0]]);
  }
}

// Instruction i is the STORE of such a value.
static bool is_folded_store(const translation *t, uint32_t i) {
  return t->kir->inst[i].op == TC_IR_STORE && t->value[t->kir->inst[i].src[1]].in_place;
}

static int pair_op(const tc_kir_inst *i) {
  if (i->dtype != TC_F32 || i->lanes % 16 != 0) return -1;
  switch (i->op) {
    case TC_IR_ADD: return PAIR_ADD;
    case TC_IR_SUB: return PAIR_SUB;
    case TC_IR_MUL: return PAIR_MUL;
    case TC_IR_MIN: return PAIR_MIN;
    case TC_IR_MAX: return PAIR_MAX;
    default: return -1;
  }
}

// The function of an instruction whose operand k is left to it, or NULL.
static tc_interp_fn *joined_fn(const translation *t, const tc_kir_inst *i, int k) {
  const tc_kir_inst *first = &t->kir->inst[i->src[k]];
  if (i->lanes % 16 != 0 || first->lanes != i->lanes) return NULL;
  if (i->op == TC_IR_FMA && first->op == TC_IR_FMA && i->dtype == TC_F32) return k == 0 ? t->set->fma_fma : NULL;
  if (i->op == TC_IR_SELECT && k == 0 && tc_kir_is(first, TC_KIR_COMPARE))
    return t->kir->inst[first->src[0]].dtype == TC_F32 && log_bytes[i->dtype] == 2 ? t->set->pick[first->op] : NULL;
  const int op = pair_op(i), before = pair_op(first);
  return op >= 0 && before >= 0 ? t->set->pair[op][before][k] : NULL;
}

static bool is_folded(const translation *t, uint32_t i) {
  return is_folded_splat(t, i) || is_folded_load(t, i) || is_folded_store(t, i);
}

// Which operand of instruction i is left to it, or -1.
static int late_operand(const translation *t, const tc_kir_inst *i) {
  for (int k = 0; k < 3; k++)
    if (i->src[k] != TC_NONE && t->value[i->src[k]].late) return k;
  return -1;
}

// Values that are left to their readers: nothing may be stored or set between, and what they read
// lives as long.
static void find_late(translation *t) {
  const tc_kir *n = t->kir;
  uint32_t changed = 0;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *inst = &n->inst[i];
    for (int k = 0; k < 3 && !t->value[i].early && late_operand(t, inst) < 0; k++) {
      const uint32_t v = inst->src[k];
      if (v == TC_NONE || v < changed || t->value[v].early || t->value[v].n_uses != 1 ||
          late_operand(t, &n->inst[v]) >= 0)
        continue;
      if (!tc_kir_is(&n->inst[v], TC_KIR_PURE) || is_folded_splat(t, inst->src[0]) ||
          is_folded_splat(t, n->inst[v].src[0]))
        continue;
      if (joined_fn(t, inst, k) == NULL) continue;
      t->value[v].late = true;
      for (int s = 0; s < 3; s++)
        if (n->inst[v].src[s] != TC_NONE)
          t->value[n->inst[v].src[s]].last = TC_MAX_OF(t->value[n->inst[v].src[s]].last, t->value[v].last);
    }
    if (!tc_kir_has_value(inst) || inst->op == TC_IR_LOOP) changed = i;
  }
}

// What an FMA does whose first operand is spread from one element.
static void fold_splat(translation *t, tc_interp_step *s, const tc_kir_inst *fma) {
  const uint32_t from = t->kir->inst[fma->src[0]].src[0];
  const tc_kir_inst *load = &t->kir->inst[from];
  s->fn = t->set->scaled[fma->dtype], s->src[0] = t->value[from].at;
  if (!is_folded_load(t, from)) return;
  s->fn = t->set->scaled_from[fma->dtype], s->src[0] = t->value[load->src[0]].at;
  s->imm = load->imm, s->shift = log_bytes[load->dtype];
}

static tc_interp_fn *pick_fn(const translation *t, const tc_kir_inst *i) {
  const tc_interp_set *set = t->set;
  const unsigned log = i->dtype < TC_N_TYPES ? log_bytes[i->dtype] : 0;
  const unsigned scalar = i->lanes == 1;
  const tc_kir_inst *first = i->src[0] != TC_NONE ? &t->kir->inst[i->src[0]] : NULL;
  switch (i->op) {
    case TC_IR_BEGIN: return tc_interp_plain.begin;
    case TC_IR_FINISH: return tc_interp_plain.finish;
    case TC_IR_NUM: return tc_interp_plain.num[i->dtype];
    case TC_IR_LOOP: return tc_interp_plain.loop;
    case TC_IR_ENDLOOP: return tc_interp_plain.endloop;
    case TC_IR_IF: return tc_interp_plain.branch;
    case TC_IR_VAR:
    case TC_IR_BITCAST: return set->copy[copy_class(i)];
    case TC_IR_SET: return set->copy[copy_class(first)];
    case TC_IR_SPLAT: return set->splat[log];
    case TC_IR_LOAD: return i->src[1] != TC_NONE ? set->load_masked[log] : set->load[copy_class(i)];
    case TC_IR_STORE:
      if (i->src[2] != TC_NONE) return set->store_masked[log];
      return i->flags & 1 && copy_class(i) == 6 && set->store_streaming != NULL ? set->store_streaming
                                                                                : set->store[copy_class(i)];
    case TC_IR_GATHER: return set->gather[log];
    case TC_IR_SCATTER: return set->scatter[log];
    case TC_IR_PREFETCH: return tc_interp_plain.prefetch;
    case TC_IR_LOOKUP: return !scalar && set->look_up != NULL ? set->look_up : set->map[TC_IR_LOOKUP][TC_I32][scalar];
    case TC_IR_SELECT: return set->map[TC_IR_SELECT][carrier[log]][scalar];
    case TC_IR_CAST: return cast_fn(t, i, first->dtype);
    case TC_IR_CALL: return tc_interp_plain.call[tc_kir_math_operands(i->imm) - 1];
    case TC_IR_UNPACK: return set->unpack[log];
    case TC_IR_INTERLEAVE: return set->interleave[log];
    case TC_IR_REDUCE: return set->halve[i->imm][i->dtype];
    case TC_IR_TMM_ZERO: return tc_interp_plain.tmm_zero;
    case TC_IR_TMM_LOAD: return tc_interp_plain.tmm_load;
    case TC_IR_TMM_STORE: return tc_interp_plain.tmm_store;
    case TC_IR_TMM_DOT: return set->tmm_dot;
    case TC_IR_TMM_DOT_SS:
    case TC_IR_TMM_DOT_SU:
    case TC_IR_TMM_DOT_US:
    case TC_IR_TMM_DOT_UU: return tc_interp_plain.tmm_bytes[i->op - TC_IR_TMM_DOT_SS];
    default: return set->map[i->op][first->dtype][scalar];
  }
}

static unsigned address_type(const tc_kir *n, int64_t buffer) {
  return buffer < n->n_buf ? n->buf_type[buffer] : n->tile[buffer - n->n_buf].dtype;
}

static void put_operands(const translation *t, tc_interp_step *s, const tc_kir_inst *i) {
  for (int k = 0; k < 3; k++) {
    const value *v = i->src[k] != TC_NONE ? &t->value[i->src[k]] : NULL;
    s->src[k] = v == NULL ? 0 : v->at | (v->in_place ? IN_PLACE : 0);
  }
}

// The function and operands of two instructions: those of the first, then what the second has
// besides.
static void put_joined(const translation *t, tc_interp_step *s, const tc_kir_inst *i, int late) {
  const tc_kir_inst *first = &t->kir->inst[i->src[late]];
  tc_interp_step own = {0};
  put_operands(t, &own, i);
  put_operands(t, s, first);
  s->fn = joined_fn(t, i, late);
  int n = first->op == TC_IR_FMA ? 3 : 2;
  for (int k = 0; k < 3; k++)
    if (k != late && i->src[k] != TC_NONE) s->src[n++] = own.src[k];
}

// The LOAD or STORE that a value in place stands for.
static const tc_kir_inst *access_of(const translation *t, uint32_t v) {
  const tc_kir_inst *i = &t->kir->inst[v];
  return i->op == TC_IR_LOAD ? i : i + 1;
}

// Emits the step that computes the address of a value read or written in place. It also does others
// up to the next branch at the same offset in their buffers.
static void emit_places(translation *t, uint32_t at) {
  const tc_kir *n = t->kir;
  const tc_kir_inst *first = access_of(t, at);
  const bool alone = n->inst[first->src[0]].op == TC_IR_VAR;  // which may be set between
  tc_interp_step *s = &t->out->steps[t->n_steps++];
  uint32_t k = 0;
  s->src[0] = t->value[first->src[0]].at, s->shift = log_bytes[first->dtype];
  for (uint32_t v = at; v < n->n_inst && k < (alone ? 1 : TC_INTERP_PLACES); v++) {
    if (tc_kir_is(&n->inst[v], TC_KIR_OPENS | TC_KIR_CLOSES)) break;
    const tc_kir_inst *access = t->value[v].in_place ? access_of(t, v) : NULL;
    if (access == NULL || t->value[v].placed || access->src[0] != first->src[0] || log_bytes[access->dtype] != s->shift)
      continue;
    if (v != at) take_slot(t, v);
    t->value[v].placed = true;
    s->src[1 + k] = t->value[v].at, s->imm |= access->imm << (16 * k++);
  }
  s->fn = tc_interp_plain.place[k - 1];
}

static void emit_inst(translation *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  if (t->value[at].in_place && !t->value[at].placed) emit_places(t, at);
  if (t->value[at].in_place && i->op == TC_IR_LOAD) return;
  tc_interp_step *s = &t->out->steps[t->n_steps++];
  const int late = late_operand(t, i);
  if (late >= 0) {
    put_joined(t, s, i, late);
  } else {
    s->fn = pick_fn(t, i);
    put_operands(t, s, i);
  }
  s->dst = tc_kir_has_value(i) ? t->value[at].at | (t->value[at].in_place ? IN_PLACE : 0) : 0;
  s->lanes = i->lanes;
  s->imm = i->imm;
  const tc_kir_inst *copied = i;
  if (i->op == TC_IR_SET) {
    s->dst = s->src[0], s->src[0] = s->src[1];
    copied = &t->kir->inst[i->src[0]];
  }
  if (tc_kir_has_value(copied) || copied->op == TC_IR_STORE)
    s->pieces = ((uint32_t)copied->lanes << log_bytes[copied->dtype]) / 64;
  if (tc_kir_is(i, TC_KIR_LOADS | TC_KIR_STORES)) {
    s->masked = tc_kir_mask_of(i) != TC_NONE;
    s->shift = log_bytes[i->dtype];
  }
  if (tc_kir_is(i, TC_KIR_TMM)) s->dst = (uint32_t)t->out->tmm_at, s->pieces = i->flags;
  switch (i->op) {
    case TC_IR_PREFETCH: s->masked = i->flags & 1, s->shift = log_bytes[address_type(t->kir, i->imm)]; break;
    case TC_IR_REDUCE: s->lanes = t->kir->inst[i->src[0]].lanes; break;
    case TC_IR_FMA:
      if (is_folded_splat(t, i->src[0])) fold_splat(t, s, i);
      break;
    default: break;
  }
}

static void fill_constant(const tc_kir_inst *i, char *d) {
  const size_t bytes = (size_t)1 << log_bytes[i->dtype];
  for (int64_t k = 0; k < i->lanes; k++) {
    const int64_t x = i->op == TC_IR_LANES ? k : i->imm;  // little-endian: the low bytes come first
    memcpy(d + (size_t)k * bytes, &x, bytes);
  }
}

// Constants get the first slots, then the prologue's values, with its steps.
static void translate_early(translation *t) {
  const tc_kir *n = t->kir;
  t->out->pool_at = t->top;
  for (uint32_t i = 0; i < n->n_inst; i++)
    if (is_const(&n->inst[i])) take_slot(t, i);
  t->out->pool_bytes = t->top - t->out->pool_at;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    if (!t->value[i].early || is_const(&n->inst[i])) continue;
    take_slot(t, i);
    emit_inst(t, i);
  }
  t->out->n_prologue = t->n_steps++;
}

// Instruction i is SET of what the instruction before computed for it alone.
static bool is_folded_set(const translation *t, uint32_t i) {
  const tc_kir *n = t->kir;
  if (i == 0 || i >= n->n_inst || n->inst[i].op != TC_IR_SET || n->inst[i].src[1] != i - 1) return false;
  const tc_kir_inst *from = &n->inst[i - 1];
  return tc_kir_is(from, TC_KIR_PURE | TC_KIR_LOADS) && !t->value[i - 1].early && t->value[i - 1].n_uses == 1;
}

static void translate_body(translation *t) {
  const tc_kir *n = t->kir;
  tc_interp_step *steps = t->out->steps;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *inst = &n->inst[i];
    if (!t->value[i].early && !t->value[i].late && !is_folded_set(t, i) && !is_folded(t, i) &&
        inst->op != TC_IR_ENDIF) {
      if (is_folded_set(t, i + 1))
        t->value[i].at = t->value[n->inst[i + 1].src[0]].at;
      else if (tc_kir_has_value(inst) && !t->value[i].placed)
        take_slot(t, i);
      emit_inst(t, i);
    }
    if (tc_kir_is(inst, TC_KIR_OPENS)) t->step_of[i] = t->n_steps - 1;
    if (tc_kir_is(inst, TC_KIR_CLOSES)) {
      const uint32_t start = t->match[i], from = t->step_of[start];
      steps[from].jump = (int32_t)(t->n_steps - from);
      if (inst->op == TC_IR_ENDLOOP) {
        tc_interp_step *end = &steps[t->n_steps - 1];
        end->dst = t->value[start].at;
        end->imm = n->inst[start].imm;
        end->jump = (int32_t)(from + 1) - (int32_t)(t->n_steps - 1);
      }
    }
    free_slots(t, i);
  }
}

static void *take_bytes(void **at, size_t bytes) {
  char *p = *at;
  *at = p + (bytes + 7) / 8 * 8;
  return p;
}

// One block for all the translation's arrays.
static void *layout(translation *t, void *block) {
  const size_t n = (size_t)t->kir->n_inst + 1;
  void *at = block;
  t->value = take_bytes(&at, n * sizeof *t->value);
  t->ending = take_bytes(&at, n * sizeof(uint32_t));
  t->step_of = take_bytes(&at, n * sizeof(uint32_t));
  t->match = take_bytes(&at, n * sizeof(uint32_t));
  t->parent = take_bytes(&at, n * sizeof(uint32_t));
  for (int c = 0; c < SLOT_SIZES; c++) t->free_slot[c] = take_bytes(&at, n * sizeof(uint32_t));
  return at;
}

static void fill_pool(const translation *t) {
  for (uint32_t i = 0; i < t->kir->n_inst; i++)
    if (is_const(&t->kir->inst[i])) fill_constant(&t->kir->inst[i], t->out->pool + (t->value[i].at - t->out->pool_at));
}

static tc_status translate(const tc_kir *kir, tc_interp *out) {
  translation t = {.kir = kir, .set = tc_interp_host_set(), .out = out};
  const size_t n = (size_t)kir->n_inst + 1,
               block_bytes = n * (sizeof(value) + (4 + SLOT_SIZES) * sizeof(uint32_t)) + 128;
  void *block = tc_calloc(1, block_bytes);
  out->steps = tc_calloc(n + 1, sizeof *out->steps);
  out->tiles = tc_calloc((size_t)kir->n_tile + 1, sizeof(int64_t));
  tc_status st = block != NULL && out->steps != NULL && out->tiles != NULL ? TC_OK : TC_ERR_MEMORY;
  if (st != TC_OK) goto done;
  (void)layout(&t, block);
  memset(t.ending, 0xff, n * sizeof *t.ending);
  out->n_buf = kir->n_buf, out->n_tile = kir->n_tile;
  for (uint32_t k = 0; k < kir->n_tile; k++) ((int64_t *)out->tiles)[k] = kir->tile[k].offset;
  out->tile_bytes = ((size_t)kir->scratch_bytes + 63) / 64 * 64;
  t.top = (sizeof(tc_interp_head) + ((size_t)kir->n_buf + kir->n_tile) * sizeof(void *) + 63) / 64 * 64;
  tc_kir_tmm shape[TC_KIR_TMMS];
  if (tc_kir_tmm_shapes(kir, shape)) out->tmm_at = t.top, t.top += TC_KIR_TMMS * TC_INTERP_TMM_BYTES;
  find_lives(&t);
  find_in_place(&t);
  find_stored(&t);
  find_late(&t);
  translate_early(&t);
  translate_body(&t);
  // A step may read a whole slot where its operand is missing (offset 0) or smaller.
  out->frame_bytes = t.top + TC_KIR_LANES * sizeof(double);
  if (t.top > UINT32_MAX) st = TC_ERR_ARG;
  out->pool = tc_malloc(out->pool_bytes + 1);
  if (out->pool == NULL) st = TC_ERR_MEMORY;
  if (st == TC_OK) {
    memset(out->pool, 0, out->pool_bytes);
    fill_pool(&t);
  }
  out->held_bytes = (n + 1) * sizeof *out->steps + out->pool_bytes + ((size_t)kir->n_tile + 1) * sizeof(int64_t);
done:
  tc_free(block);
  return st;
}

tc_status tc_interp_create(const tc_kir *kir, tc_interp **out) {
  char text[256];
  *out = NULL;
  tc_status st = tc_kir_verify(kir, text, sizeof text);
  if (st != TC_OK) return TC_FAIL(st == TC_ERR_MEMORY ? st : TC_ERR_ARG, "%s", text);
  if (kir->threads > 0) return TC_FAIL(TC_ERR_ARG, "a kernel with threads is printed for a GPU, not interpreted");
  tc_interp *p = tc_calloc(1, sizeof *p);
  st = p != NULL ? translate(kir, p) : TC_ERR_MEMORY;
  if (st == TC_OK) return *out = p, TC_OK;
  tc_interp_destroy(p);
  return TC_FAIL(st, "interpreter of %u instructions", kir->n_inst);
}

void tc_interp_destroy(tc_interp *interp) {
  if (interp == NULL) return;
  tc_free(interp->steps);
  tc_free(interp->pool);
  tc_free(interp->tiles);
  tc_free(interp);
}

size_t tc_interp_scratch(const tc_interp *interp) {
  return interp->tile_bytes + interp->frame_bytes;
}

size_t tc_interp_bytes(const tc_interp *interp) {
  return sizeof *interp + interp->held_bytes;
}

void tc_interp_run(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                   struct tc_worker *worker) {
  const tc_interp *p = ctx;
  char *frame = (char *)worker->scratch + p->tile_bytes;
  tc_interp_head *h = head_of(frame);
  h->num = num;
  h->math = worker->math != NULL ? worker->math : tc_kir_math_table();
  h->begin = begin, h->end = end;
  for (uint32_t k = 0; k < p->n_buf; k++) h->buf[k] = buf[k];
  for (uint32_t k = 0; k < p->n_tile; k++)
    h->buf[p->n_buf + k] = (char *)worker->scratch + ((const int64_t *)p->tiles)[k];
  memcpy(frame + p->pool_at, p->pool, p->pool_bytes);
  if (p->tmm_at != 0) memset(frame + p->tmm_at, 0, TC_KIR_TMMS * TC_INTERP_TMM_BYTES);
  for (const tc_interp_step *s = p->steps; s->fn != NULL;) s = s->fn(s, frame);
  for (const tc_interp_step *s = p->steps + p->n_prologue + 1; s->fn != NULL;) s = s->fn(s, frame);
}
