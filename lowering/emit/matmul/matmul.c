// Emits matmuls: c[A, M, N] = sum over K of a[A, M, K] * b[A, K, N], with an elementwise epilogue
// on the finished values.
//
// In: a fusion with a MATMUL, and perhaps tile sizes. Out: kernel IR; [begin, end) counts units. A
// unit is some tiles of rows by some panels of columns of one batch (tiling/gemm.c chooses them):
//   for each chunk of K (one unless K is long):
//     pack the unit's columns of b into a tile of the worker, `lanes` columns a panel,
//       unless b is read well where it lies (pack.c)
//     for each tile of rows, for each panel:
//       rows x lanes accumulators in registers, over k (micro_kernel.c)
//   epilogue: from the registers where it is one store, else from memory, row by row
// Rows of a that are strided in k, or of a narrower type, are packed too, some tiles of rows at a
// time. In large matmuls all rows are packed, and each panel serves several tiles before the next
// one.
// Few rows leave b unpacked (gemv.c). This file finds the operands, chooses the step of k and the
// tiling, and loops over units.
//
// f16 and bf16 are widened, once where they are packed, and multiplied as f32. Where a dot product
// of bf16 pairs is worth it (isa.def), a step of k is a pair. Both operands are then 32-bit words
// of two neighbours along k, packed or read where they lie. That instruction flushes denormals, so
// TC_STRICT does without it. Why it is not always worth it: docs/measurements.md.
// Where the processor has tile registers (isa.def), the same matmuls are multiplied by these
// (tmm_kernel.c). Sums are then chains of their own order.
//
// Bytes, whose sums are i32, are multiplied in fours where k is a multiple of four. A step is then
// a word of four neighbours along k (DOT4). Such sums are exact, whatever the step.
//
// Invariants: an element is one chain over k from zero, or several where k is long (summation.h).
// Of a pair, the second product is added before the first. Its bits do not depend on the tiling. Of
// the instruction set, only a fused multiply-add and the dot product change them.
#include "lowering/emit/matmul/matmul_types.h"

#include "runtime/options.h"

#define E (&p->s->e)

static void unit_of(tc_matmul_emitter *p, tc_matmul_unit *u) {
  tc_emit_ctx *s = p->s;
  u->k0 = i64(s, 0), u->k1 = i64(s, p->of.k);
  if (p->by.transpose || p->by.stream || (p->by.once && p->chunks)) {
    tc_matmul_multiply_few(p, u);
    return;
  }
  bool chains = p->chains && p->chunks;
  u->chain = u->k0, u->chain_end = u->k1;
  if (chains) u->chain = loop(s, u->k0, u->k1, p->chain), u->chain_end = end_of_chain(p, u->chain, u->k1);
  if (p->chunks) {
    u->k0 = loop(s, u->chain, u->chain_end, p->by.chunk);
    u->k1 = least(s, add_i64(s, u->k0, p->by.chunk), u->chain_end);
  }
  if (p->by.pack) {
    if (u->packs != TC_NONE) begin_if(s, u->packs);
    tc_matmul_pack(p, u);
    if (u->packs != TC_NONE) end_if(s);
  }
  if (p->tmm)
    tc_matmul_multiply_tmm(p, u);
  else
    tc_matmul_multiply_unit(p, u);
  if (p->chunks) end(s);
  if (chains) end(s);
}

static bool find_operands(tc_matmul_emitter *p) {
  tc_emit_ctx *s = p->s;
  int n_stored = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) n_stored += tc_emit_must_store(s, s->gp->member[i]);
  const tc_gnode *x = &s->g->node[p->node], *a = &s->g->node[x->in[0]];
  p->of = (tc_extent3){s->gp->a, s->gp->f, s->gp->k, a->shape->d.dim[a->shape->d.rank - 1]};
  p->acc = tc_emit_compute_type(x->type);
  p->direct = n_stored == 1 && tc_emit_must_store(s, p->node);
  s->ext.of[TC_RANGE_K0] = p->of.k;
  return tc_strided_operand_find(s, p->node, 0, TC_RANGE_F, TC_RANGE_K0, &p->a) &&
         tc_strided_operand_find(s, p->node, 1, TC_RANGE_K0, TC_RANGE_K, &p->b);
}

// Chooses a step of k: four bytes, or a pair of bf16 where the processor has an instruction and the
// matmul is large enough. Shape and type alone decide, not how operands are produced.
// Returns false if an operand must be stored first; the context's result then names it.
static bool choose_step(tc_matmul_emitter *p) {
  const uint32_t *in = p->s->g->node[p->node].in;
  tc_type type = p->s->g->node[in[0]].type, right = p->s->g->node[in[1]].type;
  bool bytes = p->acc == TC_I32 && tc_tiling_bytes(&p->of, type, right);
  p->step = bytes ? 4 : tc_tiling_pairs(&p->of, type, right) ? 2 : 1;
  bool words = p->step > 1, transposed = !p->a.scattered && p->a.row == 1 && p->a.segment == p->of.k,
       left = transposed || (p->a.col == 1 && p->a.segment % p->step == 0);
  p->packed_type = words ? TC_I32 : p->acc;
  p->tmm = tc_tiling_tmm(&p->of, p->acc, type, right);
  p->of.k /= p->step, p->a.segment /= p->step;
  p->halves = p->b.words && !words;
  if (p->halves) p->b.row /= 2;
  bool left_fits = words ? left : !p->halves || p->a.segment % 2 == 0, right_fits = !p->b.panel || p->b.words || !words;
  // Tile registers read panels of whole registers in place.
  if (p->tmm && p->b.panel) right_fits &= p->b.panel % TC_TMM_SIDE == 0;
  if (bytes) p->way = tc_multiply_bytes(type, right);
  if (left_fits && right_fits) return true;
  return tc_emit_store_first(p->s, in[left_fits], "words do not lie side by side");
}

static tc_operand operand_of(const tc_matmul_emitter *p, const tc_strided_operand *f) {
  tc_type type = p->step > 1 ? TC_I32 : f->words ? TC_BF16 : f->type;
  return (tc_operand){type, f->row, f->col, f->scattered, f->segment, f->panel, p->step > 1};
}

// Returns a distance in steps instead of elements. A distance above 1 never becomes 1, which would
// mean contiguous.
static int64_t in_steps(const tc_matmul_emitter *p, int64_t distance) {
  int64_t steps = tc_ceil_div(distance, p->step);
  return distance > 1 ? TC_MAX_OF(steps, 2) : steps;
}

// Returns what tilings depend on. Of pairs, distances count words, except along k, where two
// elements are a step.
static tc_matmul_facts facts_of(const tc_matmul_emitter *p) {
  tc_matmul_facts f = {p->of, p->acc, operand_of(p, &p->a), operand_of(p, &p->b), p->tmm};
  f.left.row = in_steps(p, f.left.row);
  if (!p->b.words) f.right.col = in_steps(p, f.right.col);
  return f;
}

static void make_tiles(tc_matmul_emitter *p) {
  const tc_tiling_params *by = &p->by;
  int64_t tile = (int64_t)by->rows * by->lanes;
  if (by->pack) p->packed = tc_emit_tile(p->s, p->packed_type, by->unit_panels * by->chunk * by->lanes);
  p->a_pitch = by->chunk + 16;
  if (by->transpose) p->transposed = tc_emit_tile(p->s, transposed_type(p), vector_lanes(p) * by->lanes);
  if (by->tmm && !by->pack) p->last_b = tc_emit_tile(p->s, TC_I32, TC_TMM_SIDE * by->lanes);
  if (by->tmm) p->packed_a = tc_emit_tile(p->s, TC_I32, by->a_tiles * by->rows * by->chunk);
  if (by->pack_a || by->widen_a)
    p->packed_a = tc_emit_tile(p->s, p->packed_type, by->a_tiles * by->rows * p->a_pitch + 64);
  int64_t sums = p->chunks ? by->unit_tiles * by->unit_panels * tile : TC_MAX_OF(by->stream, 1) * tile;
  bool waits = p->chains ? by->transpose || by->chunk < p->chain : !p->direct || by->transpose || by->stream;
  if (by->tmm)
    p->sums = tc_emit_tile(p->s, p->acc, tile);
  else if (waits)
    p->sums = tc_emit_tile(p->s, p->acc, sums);
  if (p->chains) p->totals = tc_emit_tile(p->s, p->acc, sums);
  if (p->chains && tc_chain_groups(p->of.k)) p->groups = tc_emit_tile(p->s, p->acc, sums);
}

// Begins the loop over units: enters the batch, and returns the unit's column and block. columns,
// blocks: their numbers; TC_NONE: one.
static void begin_units(tc_matmul_emitter *p, tc_val columns, tc_val blocks, tc_val *column, tc_val *block) {
  tc_emit_ctx *s = p->s;
  tc_val o = p->unit = tc_emit_begin_units(s), zero = i64(s, 0),
         upper = blocks == TC_NONE ? o : bin(s, TC_IR_DIV, o, blocks);
  *block = blocks == TC_NONE ? zero : bin(s, TC_IR_REM, o, blocks);
  *column = columns == TC_NONE ? zero : bin(s, TC_IR_REM, upper, columns);
  s->at[TC_RANGE_A] = columns == TC_NONE ? upper : bin(s, TC_IR_DIV, upper, columns);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_F] = s->bound[TC_RANGE_K] = true;
  p->a.at = tc_emit_base(s, &p->a.base), p->b.at = tc_emit_base(s, &p->b.base);
}

static tc_val until(tc_matmul_emitter *p, tc_val from, tc_val many, tc_val most) {
  return least(p->s, add(p->s, from, many), most);
}

static void units_of_tiles(tc_matmul_emitter *p) {
  tc_emit_ctx *s = p->s;
  const tc_tiling_params *by = &p->by;
  tc_val block, column;
  const tc_units *n = &s->x->units;
  tc_val blocks = n->blocks == 1 ? TC_NONE : i64(s, n->blocks);
  begin_units(p, n->columns == 1 ? TC_NONE : i64(s, n->columns), blocks, &column, &block);
  tc_matmul_unit u = {
      .t0 = times(s, block, by->unit_tiles), .p0 = times(s, column, by->unit_panels), .end = TC_NONE, .packs = TC_NONE};
  u.t1 = until(p, u.t0, i64(s, by->unit_tiles), i64(s, by->tiles)),
  u.p1 = until(p, u.p0, i64(s, by->unit_panels), i64(s, by->n_panels));
  u.row = add(s, times(s, u.t0, by->rows - 1), least(s, u.t0, i64(s, by->tall)));
  unit_of(p, &u);
  s->mask = TC_NONE;
  end(s);
}

// Finds the tensors that the epilogue reads and caches do not hold, as an optimizer after a weight
// gradient reads. They are prefetched a line at a time while the tile before is multiplied. A burst
// at that tile's end would delay the next tile's first rows.
// Measured: Zen 4, GPT-2's weight gradients: 1.04 times as fast as with the burst.
static void find_read(tc_matmul_emitter *p) {
  tc_emit_ctx *s = p->s;
  const tc_gnode *x = &s->g->node[p->node];
  p->n_read = 0;
  if (p->chunks || p->chains || p->units || p->tmm || p->by.transpose || p->by.stream || p->a.segment < p->of.k) return;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *y = &s->g->node[s->gp->member[i]];
    for (int k = 0; k < y->n_in && y != x; k++) {
      uint32_t n = tc_fusion_root(s->gr, y->in[k]);
      const tc_gnode *z = &s->g->node[n];
      if (tc_emit_in_fusion(s, n) || !s->gr->stored[n] || z->shape->count != x->shape->count || z->type != p->acc ||
          !tc_emit_is_strided(z))
        continue;
      int buf = tc_emit_buffer(s, n), have = 0;
      while (have < p->n_read && p->read[have] != buf) have++;
      if (have == p->n_read && have < TC_MATMUL_READ) p->read[p->n_read++] = buf;
    }
  }
}

// Returns the first row of a tile, where the first `tall` tiles have one row more than `shorter`.
static tc_val row_of_tile(tc_matmul_emitter *p, tc_val tile, tc_val shorter, tc_val tall) {
  return add(p->s, mul(p->s, tile, shorter), least(p->s, tile, tall));
}

// Returns whether a unit packs its columns: it is a task's first, or the first at these columns.
// Others find them packed, unless units go over several chunks or over columns piece by piece.
static tc_val packs_columns(tc_matmul_emitter *p, tc_val block) {
  tc_emit_ctx *s = p->s;
  if (!p->by.pack || p->chunks || tc_ceil_div(p->units->width, p->by.lanes) > p->by.unit_panels) return TC_NONE;
  return bin(s, TC_IR_OR, bin(s, TC_IR_EQ, block, i64(s, 0)), bin(s, TC_IR_EQ, p->unit, nullary(s, TC_IR_BEGIN)));
}

// Rounds a unit's first tile up to a multiple.
static tc_val rounded_up(tc_matmul_emitter *p, tc_val tile, tc_val multiple) {
  tc_emit_ctx *s = p->s;
  tc_val most = sub(s, add(s, tile, multiple), i64(s, 1));
  return mul(s, bin(s, TC_IR_DIV, most, multiple), multiple);
}

// Emits the same units for any number of rows, with the same bounds of rows and columns. While a
// plan runs, this kernel may replace the other between two units. Each unit is processed in pieces
// whose tiles fit the memory of the worker.
static void units_of_rows(tc_matmul_emitter *p) {
  tc_emit_ctx *s = p->s;
  const tc_tiling_params *by = &p->by;
  const tc_units *u0 = p->units;
  if (u0->columns > 1 && u0->width % by->lanes) {
    tc_emit_fail(s, TC_ERR_STATE, "a unit begins within a panel");
    return;
  }
  tc_val block, column, columns = tc_emit_extra_arg(s, u0->columns), blocks = tc_emit_extra_arg(s, u0->blocks),
                        panels = tc_emit_extra_arg(s, tc_ceil_div(u0->width, by->lanes));
  tc_val unit_tiles = tc_emit_extra_arg(s, u0->unit_tiles), all = tc_emit_extra_arg(s, u0->tiles),
         shorter = tc_emit_extra_arg(s, u0->rows - 1), tall = tc_emit_extra_arg(s, u0->tall);
  begin_units(p, columns, blocks, &column, &block);
  // An argument, so that both kinds of units have one kernel.
  tc_val multiple = tc_emit_extra_arg(s, u0->whole_tiles ? by->rows : 1), packs = packs_columns(p, block);
  tc_val tile = mul(s, block, unit_tiles), next = add(s, tile, unit_tiles);
  tc_val row = row_of_tile(p, rounded_up(p, tile, multiple), shorter, tall),
         last = row_of_tile(p, least(s, rounded_up(p, next, multiple), all), shorter, tall);
  tc_val panel = mul(s, column, panels), last_panel = until(p, panel, panels, i64(s, by->n_panels));
  tc_matmul_unit u = {.t0 = TC_NONE, .t1 = TC_NONE, .packs = packs, .row = row, .end = last};
  if (p->chunks)
    u.row = loop(s, row, last, by->unit_tiles * by->rows),
    u.end = until(p, u.row, i64(s, by->unit_tiles * by->rows), last);
  u.p0 = loop(s, panel, last_panel, by->unit_panels), u.p1 = until(p, u.p0, i64(s, by->unit_panels), last_panel);
  unit_of(p, &u);
  s->mask = TC_NONE;
  end(s);
  if (p->chunks) end(s);
  end(s);
}

void tc_emitter_matmul(tc_emit_ctx *s) {
  tc_matmul_emitter whole = {.s = s, .node = s->contraction, .units = s->units}, *p = &whole;
  if (!find_operands(p)) return;
  s->x->is_matmul = true;
  if (!choose_step(p)) return;
  s->x->matmul = facts_of(p), s->x->matmul_node = p->node;
  if (s->units ? !tc_tiling_of_any_rows(&p->by, &s->x->matmul, s->units->any_columns)
               : !tc_tiling_choose(&p->by, &s->x->matmul, s->tiling)) {
    tc_emit_fail(s, TC_ERR_STATE, "no tiling fits this matmul");
    return;
  }
  bool fused = tc_compiler_isa()->fma && tc_type_is_float(p->acc);
  if (!steps_by_bytes(p)) p->way = p->step > 1 ? TC_MULTIPLY_PAIRS : fused ? TC_MULTIPLY_FUSED : TC_MULTIPLY_ROUNDED;
  p->chunks = p->by.chunk < p->of.k;
  p->chain = tc_planted("chain") ? p->of.k : tc_chain_of(p->of.k);
  p->chains = p->chain < p->of.k;
  p->direct &= !p->chunks && !p->chains && !p->tmm;
  make_tiles(p);
  find_read(p);
  s->lanes = p->by.lanes, s->vector = TC_RANGE_K;
  tc_emit_preload(s);
  s->x->units = s->units ? *s->units : tc_tiling_units(&p->by);
  if (s->units)
    units_of_rows(p);
  else
    units_of_tiles(p);
  s->x->extent = s->gp->a * s->x->units.columns * s->x->units.blocks;
  s->x->work = tc_register_block_work(2.0 * (double)(s->gp->a * p->of.m * p->of.n) * (double)p->of.k);
}
