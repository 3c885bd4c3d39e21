// Selects the emitter of a fusion's kernel, runs it, and describes the kernel to its program. See
// emitter.h.
#include "lowering/emit/emitter.h"

#include <stdio.h>
#include <string.h>

#include "lowering/emit/emitters.h"
#include "lowering/kir/rng.h"
#include "lowering/kir/verify.h"
#include "runtime/passes.h"

#define CPU 1
#define GPU 2
#define ANY_OP (-1)

static bool transposes(const tc_emit_ctx *s) {
  return s->transposed && s->transposed->rows;
}

static bool splits(const tc_emit_ctx *s) {
  return s->split != 0;
}

static bool is_in_parts(const tc_emit_ctx *s) {
  return s->gp->part != 0;
}

// The first matching row emits a fusion.
static const struct {
  tc_fusion_kind kind;
  int op;  // op of the fusion's contraction; ANY_OP: any or none
  unsigned targets;
  bool (*when)(const tc_emit_ctx *s);  // NULL: always
  tc_emitter *emit;
} emitters[] = {
    {TC_FUSION_ELEMENTWISE, ANY_OP, CPU, transposes, tc_emitter_transpose},
    {TC_FUSION_ELEMENTWISE, ANY_OP, CPU, splits, tc_emitter_elementwise_rows},
    {TC_FUSION_ELEMENTWISE, ANY_OP, CPU | GPU, NULL, tc_emitter_elementwise},
    {TC_FUSION_ROW, ANY_OP, CPU | GPU, is_in_parts, tc_emitter_reduction_parts},
    {TC_FUSION_ROW, ANY_OP, CPU | GPU, NULL, tc_emitter_reduction},
    {TC_FUSION_COLUMN, ANY_OP, CPU | GPU, NULL, tc_emitter_reduction},
    {TC_FUSION_ATTENTION, ANY_OP, CPU, NULL, tc_emitter_attention},
    {TC_FUSION_ATTENTION, ANY_OP, GPU, NULL, tc_emitter_gpu_attention},
    {TC_FUSION_MATMUL, TC_OP_MATMUL, CPU, NULL, tc_emitter_matmul},
    {TC_FUSION_MATMUL, TC_OP_MATMUL, GPU, NULL, tc_emitter_gpu_matmul},
    {TC_FUSION_MATMUL, TC_OP_CONV_DIRECT, CPU, NULL, tc_emitter_conv_direct},
    {TC_FUSION_MATMUL, TC_OP_WINOGRAD, CPU, NULL, tc_emitter_winograd},
    {TC_FUSION_MATMUL, TC_OP_WINOGRAD_WEIGHT, CPU, NULL, tc_emitter_winograd_weight},
    {TC_FUSION_MATMUL, TC_OP_WINOGRAD_WGRAD, CPU, NULL, tc_emitter_winograd_wgrad},
};

static uint32_t find_contraction(const tc_emit_ctx *s) {
  for (uint32_t i = 0; i < s->gp->n_member; i++)
    if (tc_op_kind_of(s->g->node[s->gp->member[i]].op) == TC_KIND_CONTRACT) return s->gp->member[i];
  return TC_NONE;
}

// Emits once, with the emitter that matches the fusion's kind, its contraction and the target.
static void emit_once(tc_emit_ctx *s) {
  unsigned target = tc_target_is_gpu(s->target) ? GPU : CPU;
  tc_emit_reset(s);
  for (size_t i = 0; i < sizeof emitters / sizeof emitters[0]; i++) {
    bool fits = emitters[i].kind == s->gp->kind && emitters[i].targets & target;
    if (fits && emitters[i].op != ANY_OP)
      fits = s->contraction != TC_NONE && (int)s->g->node[s->contraction].op == emitters[i].op;
    if (!fits || (emitters[i].when && !emitters[i].when(s))) continue;
    emitters[i].emit(s);
    return;
  }
  (void)tc_emit_fail(s, TC_ERR_STATE, "no emitter for this kind of fusion");
}

// Emits the fusion; again with K split, where indices divide K; again with strided loads
// transposed.
static void emit_fusion(tc_emit_ctx *s) {
  tc_transposed_loads transposed = {.n = 0};
  emit_once(s);
  s->split = tc_emit_choose_split(s);
  if (!s->split || s->st != TC_OK) return;
  if (s->gp->kind == TC_FUSION_ELEMENTWISE) s->transposed = &transposed;
  emit_once(s);
  if (s->st != TC_OK) {  // the parts of K gave an index too many terms: without the split it is affine
    s->st = TC_OK, s->split = 0, s->transposed = NULL;
    emit_once(s);
  } else if (transposed.n) {
    transposed.rows = 1;
    emit_once(s);
  }
  s->transposed = NULL;
}

// Numbers tiles after the buffers, and arguments of tc_emit_extra_arg after the scalars: only now
// are both counted.
static void number_operands(tc_emit_result *x) {
  for (uint32_t i = 0; i < x->kir.n_inst; i++) {
    tc_kir_inst *inst = &x->kir.inst[i];
    if (tc_kir_op_of(inst)->imm == TC_KIR_IMM_BUFFER && inst->imm >= TC_MAX_BUFS)
      inst->imm += (int64_t)x->n_buf - TC_MAX_BUFS;
    if (inst->op == TC_IR_NUM && inst->imm >= TC_MAX_NUMS) inst->imm += (int64_t)x->n_num - TC_MAX_NUMS;
  }
}

static tc_status list_tensors(tc_emit_ctx *s) {
  tc_emit_result *x = s->x;
  x->kir.buf_type = tc_calloc(x->n_buf + 1, 1);
  x->read = tc_arena_alloc(s->arena, (x->n_buf + 1) * sizeof x->read[0]);
  x->written = tc_arena_alloc(s->arena, (x->n_buf + 1) * sizeof x->written[0]);
  if (!x->kir.buf_type || !x->read || !x->written || s->e.failed) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
  for (uint32_t i = 0; i < x->n_buf; i++) {
    const tc_gnode *n = &s->g->node[x->buf[i]];
    x->kir.buf_type[i] = (uint8_t)(x->words >> i & 1 ? TC_I32 : n->type);
    x->bytes += (uint64_t)n->shape->count * tc_type_bytes(n->type);
    if (x->writes >> i & 1)
      x->written[x->n_written++] = x->buf[i];
    else
      x->read[x->n_read++] = x->buf[i];
  }
  return TC_OK;
}

// Returns whether node n is the new value of an assignment, which may overwrite the old value.
static bool is_assigned(const tc_emit_ctx *s, uint32_t n) {
  uint32_t out = s->g->node[n].out;
  return out != TC_LEAF_NONE && s->g->plan &&
         tc_rec_op(tc_plan_rec(s->g->plan, s->g->plan->out[out].node)) == TC_OP_ASSIGN;
}

// Records which operands may share memory with a result. Of reductions their emitter says it.
static void note_same(tc_emit_ctx *s) {
  tc_emit_result *x = s->x;
  if (s->gp->kind == TC_FUSION_ATTENTION) x->same = 0;
  bool assigns = false;
  for (uint32_t i = 0; i < x->n_written; i++) assigns |= is_assigned(s, x->written[i]);
  x->kir.over =
      assigns && tc_target_is_gpu(s->target) ? x->same & ~x->writes & ((UINT64_C(2) << (x->n_buf - 1)) - 1) : 0;
}

static void estimate_work(tc_emit_ctx *s) {
  tc_emit_result *x = s->x;
  uint64_t elements = (uint64_t)(s->gp->a * s->gp->f * s->gp->k);
  for (uint32_t i = 0; i < s->gp->n_member; i++)
    if (tc_op_kind_of(s->g->node[s->gp->member[i]].op) == TC_KIND_RNG) x->work += (double)elements * TC_DRAW_NS;
  for (uint32_t i = 0; i < x->n_buf; i++) elements = TC_MAX_OF(elements, (uint64_t)s->g->node[x->buf[i]].shape->count);
  x->work += (double)elements * (0.02 * s->gp->n_member + 0.05) + (double)x->bytes * 0.02 + 50;
}

// How much an op says of its kernel: a matmul more than what surrounds it.
typedef enum said { SAYS_MOST, SAYS_MUCH, SAYS_SOME, SAYS_LITTLE, N_SAID } said;

static said what_says(tc_op op) {
  switch (tc_op_kind_of(op)) {
    case TC_KIND_CONTRACT:
    case TC_KIND_ATTENTION: return SAYS_MOST;
    case TC_KIND_FOLD:
    case TC_KIND_SCAN: return SAYS_MUCH;
    case TC_KIND_MOVE:
    case TC_KIND_GEN:
    case TC_KIND_EFFECT: return SAYS_LITTLE;
    default: return SAYS_SOME;
  }
}

// Names the kernel by its result's dtype and at most NAMED_OPS of its ops. Those that say most are
// taken, each once, in the order in which they are computed.
// Example: nodes cast, matmul, add, mul, relu of f32 are f32_cast_matmul_add_mul.
#define NAMED_OPS 4
static void write_stem(tc_emit_ctx *s) {
  tc_emit_result *x = s->x;
  const uint32_t *member = s->gp->member, n = s->gp->n_member;
  bool named[TC_N_OP_ROWS] = {false};
  int left = NAMED_OPS;
  for (int say = SAYS_MOST; say < N_SAID && left > 0; say++) {
    if (say == SAYS_LITTLE && left < NAMED_OPS) break;
    for (uint32_t i = 0; i < n && left > 0; i++) {
      tc_op op = s->g->node[member[i]].op;
      if (named[op] || (int)what_says(op) != say) continue;
      named[op] = true;
      left--;
    }
  }
  size_t at = (size_t)snprintf(x->stem, sizeof x->stem, "%s", tc_type_name(s->g->node[member[n - 1]].type));
  for (uint32_t i = 0; i < n; i++) {
    tc_op op = s->g->node[member[i]].op;
    size_t length = strlen(tc_op_names[op]) + 1;
    if (!named[op] || at + length >= sizeof x->stem) continue;
    snprintf(x->stem + at, sizeof x->stem - at, "_%s", tc_op_names[op]);
    at += length;
    named[op] = false;
  }
}

static tc_status finish(tc_emit_ctx *s) {
  tc_emit_result *x = s->x;
  write_stem(s);
  if (s->e.uneven)
    return TC_FAIL(TC_ERR_COMPILE,
                   "the emitted kernel IR of %s is malformed: a vector is spread over lanes that it does not divide",
                   x->stem);
  tc_count(TC_PASS_EMIT, x->kir.n_inst);
  x->kir.n_buf = x->n_buf, x->kir.n_num = x->n_num + x->n_extra_args;
  number_operands(x);
  TC_TRY(list_tensors(s));
  note_same(s);
  estimate_work(s);
#ifndef NDEBUG
  char why[256];
  tc_status st = tc_kir_verify(&x->kir, why, sizeof why);
  if (st != TC_OK)
    return TC_FAIL(st == TC_ERR_MEMORY ? st : TC_ERR_COMPILE, "the emitted kernel IR of %s is malformed: %s", x->stem,
                   why);
#endif
  return TC_OK;
}

// Emits a fusion in a new context. *what: why an emitter failed, not reported yet; NULL: none
// failed.
static tc_status expand(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                        const tc_gemm_tiling *tiling, const tc_units *units, tc_arena *arena, const char **what) {
  tc_emit_ctx s;
  *out = (tc_emit_result){.not_affine = TC_NONE};
  *what = NULL;
  tc_status st = tc_emit_init(&s, out, gr, fusion, arena);
  if (st == TC_OK) {
    s.contraction = find_contraction(&s), s.tiling = tiling, s.units = units;
    emit_fusion(&s);
    *what = s.what;
    st = s.st == TC_OK ? finish(&s) : s.st;
  }
  if (st != TC_OK) tc_kir_destroy(&out->kir);
  return st;
}

tc_status tc_emit_fusion(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion,
                         const tc_gemm_tiling *tiling, tc_arena *arena) {
  const char *what;
  tc_status st = expand(out, gr, fusion, tiling, NULL, arena, &what);
  // With a node stored, or smaller fusions, the caller tries again, so nothing is reported yet.
  return st == TC_OK || !what || out->not_affine != TC_NONE || out->full ? st : TC_FAIL(st, "%s", what);
}

tc_status tc_emit_any_rows(tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *fusion, tc_units units,
                           tc_arena *arena) {
  const char *what;
  tc_error_mark before = tc_error_now();
  if (expand(out, gr, fusion, NULL, &units, arena, &what) == TC_OK) return TC_OK;
  (void)tc_error_tell(before);
  return TC_ERR_STATE;
}
