// Implements the state of one emission: buffers, arguments, tiles, loops, and the values remembered
// in them. See context.h.
#include "lowering/emit/context.h"

#include <string.h>

#include "lowering/target/cpu_target.h"
#include "runtime/passes.h"

tc_status tc_emit_init(tc_emit_ctx *s, tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *group,
                       tc_arena *arena) {
  const tc_graph *g = gr->graph;
  bool lookups = !tc_target_is_gpu(&g->target) && tc_compiler_isa()->lookups;
  *s = (tc_emit_ctx){.e = {.kir = &out->kir, .lookups = lookups},
                     .x = out,
                     .gr = gr,
                     .g = g,
                     .gp = group,
                     .target = &g->target,
                     .arena = arena};
  s->ext = tc_view_extents(group->a, group->f, group->k);
  if (!gr->notes) {
    tc_emit_notes *notes = tc_arena_alloc(gr->arena, sizeof *notes + (g->n + 1) * sizeof notes->note[0]);
    if (notes) notes->touched = tc_arena_alloc(gr->arena, (g->n + 1) * sizeof *notes->touched);
    if (!notes || !notes->touched) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
    ((tc_fusion_plan *)(uintptr_t)gr)->notes = notes;  // scratch memory of the one thread that emits
  }
  s->notes = gr->notes;
  return TC_OK;
}

void tc_emit_reset(tc_emit_ctx *s) {
  s->x->kir.n_inst = s->x->kir.n_tile = 0;
  s->x->kir.scratch_bytes = 0;
  s->x->kir.threads = s->x->kir.groups = s->x->kir.cluster = s->x->kir.n_map = s->x->kir.stages = 0;
  s->x->n_buf = s->x->n_num = s->x->n_extra_args = 0;
  s->x->not_affine = TC_NONE;
  s->x->writes = s->x->words = 0, s->x->same = ~UINT64_C(0);
  s->threads.run = 0;
  memset(s->threads.off, 0xFF, sizeof s->threads.off);
  s->held = NULL, s->strips = 1;
  s->divisors.n = 0, s->memos.n = 0, s->memos.depth = 0, s->path.n = 0, s->given.node = TC_NONE;
  s->mask = s->cond = TC_NONE;
  memset(s->bound, 0, sizeof s->bound);
  tc_count(TC_PASS_EMIT, s->gp->n_member);
  s->notes->stamp++, s->notes->n_touched = 0;
}

tc_val tc_emit_fail(tc_emit_ctx *s, tc_status st, const char *what) {
  if (s->st == TC_OK) s->st = st, s->what = what;
  return 0;
}

bool tc_emit_store_first(tc_emit_ctx *s, uint32_t n, const char *what) {
  s->x->not_affine = n;
  return tc_emit_fail(s, TC_ERR_STATE, what), false;
}

tc_val tc_emit_not_affine(tc_emit_ctx *s, uint32_t n, const char *what) {
  bool made_here = n != TC_NONE && !s->gr->stored[tc_fusion_root(s->gr, n)];
  if (s->st == TC_OK) s->x->not_affine = made_here || s->path.n == 0 ? n : s->path.node[s->path.n - 1];
  return tc_emit_fail(s, TC_ERR_STATE, what);
}

tc_type tc_emit_compute_type(tc_type type) {
  return type == TC_F16 || type == TC_BF16 ? TC_F32 : type;
}

tc_val tc_emit_rounded(tc_emit_ctx *s, tc_val v, tc_type type) {
  if (type != TC_F16 && type != TC_BF16) return v;
  return tc_build_cast(&s->e, tc_build_cast(&s->e, v, type), TC_F32);
}

tc_val tc_emit_bin_i64(tc_emit_ctx *s, tc_kir_op op, tc_val a, int64_t b) {
  return tc_build_bin(&s->e, op, a, tc_build_const_i(&s->e, TC_I64, b));
}

tc_val tc_emit_times(tc_emit_ctx *s, tc_val a, int64_t b) {
  if (b == 0) return tc_build_const_i(&s->e, TC_I64, 0);
  return b == 1 ? a : tc_emit_bin_i64(s, TC_IR_MUL, a, b);
}

// ---- buffers, arguments and tiles ----

int tc_emit_buffer(tc_emit_ctx *s, uint32_t n) {
  n = tc_fusion_root(s->gr, n);
  tc_count(TC_PASS_EMIT, 1 + s->x->n_buf);
  for (uint32_t i = 0; i < s->x->n_buf; i++)
    if (s->x->buf[i] == n) return (int)i;
  if (s->x->n_buf == TC_MAX_BUFS)
    return s->x->full = true, tc_emit_fail(s, TC_ERR_STATE, "a kernel reads and writes too many tensors"), 0;
  s->x->buf[s->x->n_buf] = n;
  return (int)s->x->n_buf++;
}

static int number(tc_emit_ctx *s, bool is_arg, uint64_t value) {
  for (uint32_t i = 0; i < s->x->n_num; i++)
    if (s->x->num[i].is_arg == is_arg && s->x->num[i].value == value) return (int)i;
  if (s->x->n_num == TC_MAX_NUMS)
    return s->x->full = true, tc_emit_fail(s, TC_ERR_STATE, "a kernel has too many arguments"), 0;
  s->x->num[s->x->n_num].is_arg = is_arg;
  s->x->num[s->x->n_num].value = value;
  return (int)s->x->n_num++;
}

tc_val tc_emit_argument(tc_emit_ctx *s, uint32_t arg, tc_type type) {
  return tc_build_raw(&s->e, TC_IR_NUM, type, 1, TC_NONE, TC_NONE, TC_NONE, number(s, true, arg));
}

tc_val tc_emit_extra_arg(tc_emit_ctx *s, int64_t value) {
  uint32_t i = s->x->n_extra_args++;
  s->x->extra[i] = (uint64_t)value;
  return tc_build_raw(&s->e, TC_IR_NUM, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, TC_MAX_NUMS + (int64_t)i);
}

tc_val tc_emit_plan_number(tc_emit_ctx *s, uint64_t value) {
  return tc_build_raw(&s->e, TC_IR_NUM, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, number(s, false, value));
}

void tc_emit_preload(tc_emit_ctx *s) {
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    const tc_gnode *x = &s->g->node[n];
    for (int k = 0; k < x->n_in; k++) {
      uint32_t m = x->in[k];
      const tc_gnode *y = &s->g->node[m];
      if (y->op == TC_OP_FULL && !s->gr->stored[m] && !tc_emit_in_fusion(s, m))
        (void)tc_emit_argument(s, y->arg, tc_emit_compute_type(y->type));
    }
  }
}

int tc_emit_tile(tc_emit_ctx *s, tc_type type, int64_t n) {
  tc_kir *kir = &s->x->kir;
  tc_kir_tile *tile = tc_realloc(kir->tile, (kir->n_tile + 1) * sizeof *tile);
  if (!tile) return (void)tc_emit_fail(s, TC_ERR_MEMORY, "no room for a kernel"), 0;
  kir->tile = tile;
  tile[kir->n_tile] = (tc_kir_tile){.dtype = (uint8_t)type, .n = n, .offset = kir->scratch_bytes};
  kir->scratch_bytes += (n * (int64_t)tc_type_bytes(type) + 63) / 64 * 64;
  return TC_MAX_BUFS + (int)kir->n_tile++;
}

int tc_emit_tile_of_lanes(tc_emit_ctx *s, tc_type type, int64_t n) {
  int tile = tc_emit_tile(s, type, n);
  if (s->st == TC_OK) s->x->kir.tile[tile - TC_MAX_BUFS].of_lanes = tc_target_is_gpu(s->target);
  return tile;
}

// ---- loops, and what is remembered ----

tc_val tc_emit_loop(tc_emit_ctx *s, tc_val from, tc_val to, int64_t step) {
  tc_emit_enter(s);
  return tc_build_loop(&s->e, from, to, step);
}

tc_val tc_emit_begin_units(tc_emit_ctx *s) {
  tc_val begin = tc_build_raw(&s->e, TC_IR_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val finish = tc_build_raw(&s->e, TC_IR_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  return tc_emit_loop(s, begin, finish, 1);
}

void tc_emit_end_block(tc_emit_ctx *s, tc_kir_op op) {
  tc_emit_leave(s);
  tc_build_end(&s->e, op);
}

void tc_emit_enter(tc_emit_ctx *s) {
  s->memos.depth++;
}

void tc_emit_leave(tc_emit_ctx *s) {
  s->memos.depth--;
  uint32_t kept = 0;
  tc_count(TC_PASS_EMIT, 1 + s->memos.n);
  for (uint32_t i = 0; i < s->memos.n; i++) {
    uint32_t n = s->memos.node[i];
    if (tc_emit_note_of(s, n)->memo_depth > s->memos.depth)
      tc_emit_note_of(s, n)->memo = TC_NONE;
    else
      s->memos.node[kept++] = n;
  }
  s->memos.n = kept;
}

void tc_emit_remember(tc_emit_ctx *s, uint32_t n, tc_val v) {
  if (!TC_ARENA_GROW(s->arena, s->memos.node, s->memos.cap, s->memos.n)) {
    (void)tc_emit_fail(s, TC_ERR_MEMORY, "no room for a kernel");
    return;
  }
  tc_emit_note_of(s, n)->memo = v, tc_emit_note_of(s, n)->memo_depth = (uint8_t)s->memos.depth;
  s->memos.node[s->memos.n++] = n;
}
