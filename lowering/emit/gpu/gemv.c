// Matmuls of few rows or few columns. The wide operand's elements are used only a few times, so
// reading it takes most of the time. It is loaded straight to registers, in place.
//   along k: a warp for some lines of the wide operand; its threads are the parts of k
//   else: blocks of neighbouring lines; adjacent threads take adjacent lines, and
//     parts of the block the parts of k
// Order: the same in both ways, and for every type and layout. Part p of 32 adds the steps k with k
// / 8 % 32 = p in order. More than 512 of them are chains of 512, as in summation.h. Parts are
// added by halves.
#include "lowering/emit/gpu/matmul_common.h"
#include "lowering/graph/split_k.h"

#define WARP 32
#define PARTS WARP  // of k
#define STEPS 8  // adjacent steps of a part: 16 bytes of a 16-bit type
#define GROUPS 8  // warps of a block
#define MOST_SUMS 32  // most sums of a thread
#define THREADS 256  // of a block whose lines lie side by side
#define ACROSS (THREADS / PARTS)  // threads on adjacent lines
#define MANY_WARPS 1024  // enough to keep memory busy

typedef struct narrow {
  tc_gemm *p;
  tc_gemm_side *few, *wide;
  int n;  // lines of the narrow operand
  int run;  // adjacent lines of a thread, where lines are adjacent in memory
  int lines;  // lines of a unit: of a warp, or of a block
  int64_t chain;  // steps of k, of all parts, in a chain; of.k: one chain
} narrow;

static int64_t few_of(const tc_gemm *p) {
  return TC_MIN(p->of.m, p->of.n);
}

bool tc_gemv_fits(const tc_gemm *p) {
  return few_of(p) <= TC_GPU_FEW && p->of.k > 0;
}

// The operand at the bound lines and steps, in the accumulators' type; zero where k has ended.
static tc_val line_value(narrow *w, const tc_gemm_side *x, int lanes) {
  tc_emit_ctx *s = w->p->s;
  tc_val v = splat(s, cast(s, tc_emit_value(s, x->node, x->position), w->p->acc), lanes);
  return s->mask == TC_NONE ? v : select_val(s, s->mask, v, zeros(s, w->p->acc, lanes));
}

// The first of the unit's lines.
static tc_val first_line(narrow *w, tc_val unit) {
  tc_gemm *p = w->p;
  int64_t units = tc_ceil_div(w->wide->extent, w->lines);
  p->s->at[TC_RANGE_A] = units == 1 ? unit : div_by(p->s, unit, units);
  p->s->x->extent = p->of.batch * units;
  return units == 1 ? i64(p->s, 0) : times(p->s, rem_by(p->s, unit, units), w->lines);
}

static void finish(narrow *w, tc_val sum) {
  tc_emit_ctx *s = w->p->s;
  tc_emit_stores_of(s, w->p->node, tc_emit_rounded(s, sum, s->g->node[w->p->node].type));
}

// ---- chains ----

// Makes variables for n sums and for their chains' totals; with one chain, totals are the sums.
static void begin_sums(narrow *w, int lanes, int n, tc_val *sum, tc_val *total) {
  for (int i = 0; i < n; i++) {
    sum[i] = var(w->p->s, zeros(w->p->s, w->p->acc, lanes));
    total[i] = w->chain < w->p->of.k ? var(w->p->s, zeros(w->p->s, w->p->acc, lanes)) : sum[i];
  }
}

// Begins a loop over k up to step `to`. With several chains, two loops: over chains, and over a
// chain's steps.
static tc_val begin_steps(narrow *w, int64_t to, int step) {
  tc_emit_ctx *s = w->p->s;
  tc_val from = i64(s, 0), last = i64(s, to);
  if (w->chain < w->p->of.k) {
    from = loop(s, from, last, w->chain);
    last = least(s, add_i64(s, from, w->chain), last);
  }
  return loop(s, from, last, step);
}

static void end_steps(narrow *w, int n, const tc_val *sum, const tc_val *total) {
  end(w->p->s);
  if (w->chain == w->p->of.k) return;
  tc_gemm_add_to_totals(w->p, sum, total, n);
  end(w->p->s);
}

// ---- lanes along k ----

// Adds steps k to k + WARP * STEPS of every line.
static void step_along(narrow *w, tc_val line, tc_val k, const tc_val *sum) {
  tc_emit_ctx *s = w->p->s;
  tc_val few[TC_GPU_FEW];
  s->at[TC_RANGE_K0] = k;
  for (int i = 0; i < w->n && s->st == TC_OK; i++) {
    s->at[w->few->range] = i64(s, i);
    few[i] = line_value(w, w->few, s->lanes);
  }
  for (int j = 0; j < w->lines && s->st == TC_OK; j++) {
    tc_val at = add_i64(s, line, j);
    if (w->wide->extent % w->lines) at = least(s, at, i64(s, w->wide->extent - 1));
    s->at[w->wide->range] = at;
    tc_val v = line_value(w, w->wide, s->lanes);
    for (int i = 0; i < w->n; i++)
      for (int k1 = 0; k1 < STEPS; k1++)
        set(s, sum[j * w->n + i],
            tc_multiply_add(s, w->p->multiply, extract(s, WARP, few[i], k1), extract(s, WARP, v, k1),
                            sum[j * w->n + i]));
  }
}

static void finish_along(narrow *w, tc_val line, const tc_val *sum) {
  tc_emit_ctx *s = w->p->s;
  s->lanes = 1, s->vector = -1;
  for (int j = 0; j < w->lines && s->st == TC_OK; j++) {
    tc_val at = add_i64(s, line, j);
    bool some = w->wide->extent % w->lines && j > 0;
    if (some) begin_if(s, bin(s, TC_IR_LT, at, i64(s, w->wide->extent)));
    for (int i = 0; i < w->n; i++) {
      s->at[w->wide->range] = at, s->at[w->few->range] = i64(s, i);
      finish(w, reduce(s, sum[j * w->n + i], TC_IR_ADD));
    }
    if (some) end_if(s);
  }
}

static void along_k(narrow *w) {
  tc_gemm *p = w->p;
  tc_emit_ctx *s = p->s;
  tc_val sum[MOST_SUMS], total[MOST_SUMS];
  s->x->kir.threads = WARP, s->x->kir.groups = GROUPS;
  tc_val line = first_line(w, tc_emit_begin_units(s));
  s->lanes = WARP * STEPS, s->vector = TC_RANGE_K0, s->bound[TC_RANGE_K0] = true;
  begin_sums(w, WARP, w->n * w->lines, sum, total);
  int64_t whole = p->of.k / s->lanes * s->lanes, pairs = whole / (2 * s->lanes) * (2 * s->lanes);
  if (pairs > 0) {  // two at once, to have more loads in flight
    tc_val k = begin_steps(w, pairs, 2 * s->lanes);
    step_along(w, line, k, sum);
    step_along(w, line, add_i64(s, k, s->lanes), sum);
    end_steps(w, w->n * w->lines, sum, total);
  }
  if (pairs < whole) step_along(w, line, i64(s, pairs), sum);
  if (whole < p->of.k) {
    tc_emit_set_mask(s, i64(s, whole), i64(s, p->of.k));
    step_along(w, line, i64(s, whole), sum);
    s->mask = TC_NONE;
  }
  if (w->chain < p->of.k) tc_gemm_add_to_totals(p, sum, total, w->n * w->lines);
  s->bound[TC_RANGE_K0] = false;
  tc_gemm_operands_read(p);
  finish_along(w, line, total);
  end(s);
}

// ---- adjacent lines ----

// Adds step k + off of every part.
static void step_beside(narrow *w, tc_val k, tc_val off, tc_val here, const tc_val *sum) {
  tc_emit_ctx *s = w->p->s;
  s->at[TC_RANGE_K0] = k, s->threads.off[TC_RANGE_K0] = off;
  tc_val inside = w->p->of.k % (PARTS * STEPS) ? bin(s, TC_IR_LT, off, sub(s, i64(s, w->p->of.k), k)) : TC_NONE;
  s->mask = tc_emit_both(s, here, inside);
  tc_val v = line_value(w, w->wide, s->lanes);
  s->mask = inside;
  for (int i = 0; i < w->n && s->st == TC_OK; i++) {
    s->at[w->few->range] = i64(s, i);
    tc_val few = line_value(w, w->few, THREADS);
    set(s, sum[i], tc_multiply_add(s, w->p->multiply, few, v, sum[i]));
  }
  s->mask = TC_NONE;
}

// Adds parts first, first + step, .. by halves, at element `at` of each. A part's sums lie `all`
// elements after the previous part's.
static tc_val halves(narrow *w, tc_val at, tc_val here, int all, int first, int step, int tile) {
  tc_emit_ctx *s = w->p->s;
  if (step == PARTS) return gather(s, tile, w->p->acc, THREADS, add_i64(s, at, (int64_t)first * all), here);
  tc_val low = halves(w, at, here, all, first, 2 * step, tile);
  return add(s, low, halves(w, at, here, all, first + step, 2 * step, tile));
}

// Adds all parts' sums from the tile, then emits the epilogue: an element a thread.
static void finish_beside(narrow *w, tc_val line, int tile) {
  tc_gemm *p = w->p;
  tc_emit_ctx *s = p->s;
  int all = w->n * w->lines;
  s->threads.run = 1, s->lanes = THREADS, s->vector = w->wide->range;
  for (int first = 0; first < all && s->st == TC_OK; first += THREADS) {
    tc_val at = add_i64(s, p->thread, first);
    tc_val here = all - first < THREADS ? bin(s, TC_IR_LT, p->thread, i64(s, all - first)) : TC_NONE;
    tc_val sum = halves(w, at, here, all, 0, 1, tile);
    tc_val in = tc_gemm_low(s, at, w->lines);
    s->threads.off[w->wide->range] = in, s->threads.off[w->few->range] = tc_gemm_high(s, at, w->lines);
    s->at[w->few->range] = i64(s, 0), s->threads.within[w->few->range] = TC_GPU_FEW;
    s->mask = here;
    if (w->wide->extent % w->lines)
      s->mask = tc_emit_both(s, here, bin(s, TC_IR_LT, in, sub(s, i64(s, w->wide->extent), line)));
    finish(w, sum);
    s->mask = TC_NONE, s->threads.off[w->wide->range] = s->threads.off[w->few->range] = TC_NONE;
  }
  s->threads.run = 0, s->lanes = 1, s->vector = -1;
}

static void beside(narrow *w) {
  tc_gemm *p = w->p;
  tc_emit_ctx *s = p->s;
  int tile = tc_emit_tile(s, p->acc, (int64_t)PARTS * w->n * w->lines);
  tc_val sum[TC_GPU_FEW], total[TC_GPU_FEW];
  p->threads = THREADS;
  s->x->kir.threads = THREADS, s->x->kir.groups = 1;
  p->thread = tc_emit_numbers(s, TC_I64, THREADS);
  tc_val line = first_line(w, tc_emit_begin_units(s)), in = times(s, tc_gemm_low(s, p->thread, ACROSS), w->run),
         part = tc_gemm_high(s, p->thread, ACROSS);
  s->threads.run = w->run, s->lanes = THREADS * w->run, s->vector = w->wide->range;
  s->at[w->wide->range] = line, s->threads.off[w->wide->range] = in, s->threads.within[w->wide->range] = w->lines;
  s->threads.within[TC_RANGE_K0] = PARTS * STEPS, s->bound[TC_RANGE_K0] = true;
  begin_sums(w, s->lanes, w->n, sum, total);
  tc_val here = w->wide->extent % w->lines ? bin(s, TC_IR_LT, in, sub(s, i64(s, w->wide->extent), line)) : TC_NONE;
  tc_val k = begin_steps(w, p->of.k, PARTS * STEPS);
  for (int i = 0; i < STEPS && s->st == TC_OK; i++)
    step_beside(w, k, add(s, times(s, part, STEPS), i64(s, i)), here, sum);
  end_steps(w, w->n, sum, total);
  s->bound[TC_RANGE_K0] = false, s->threads.off[TC_RANGE_K0] = s->threads.off[w->wide->range] = TC_NONE;
  for (int i = 0; i < w->n; i++) {
    tc_val at = add(s, times(s, add(s, times(s, part, w->n), i64(s, i)), w->lines), in);
    scatter(s, tile, at, total[i], TC_NONE);
  }
  tc_gemm_operands_read(p);
  finish_beside(w, line, tile);
  end(s);
}

void tc_gemv(tc_gemm *p) {
  bool rows = p->of.m <= p->of.n;
  narrow w = {.p = p, .few = rows ? &p->a : &p->b, .wide = rows ? &p->b : &p->a, .n = (int)few_of(p)};
  w.chain = TC_MIN(p->of.k, PARTS * TC_CHAIN);
  const tc_gemm_side *x = w.wide;
  if (x->leans && tc_gemm_stride_of(&x->lean, TC_RANGE_K0) == 1) {
    w.lines = 1;
    while (w.lines < 4 && 2 * w.lines * w.n <= MOST_SUMS && p->of.batch * x->extent / (2 * w.lines) >= MANY_WARPS)
      w.lines *= 2;
    along_k(&w);
    return;
  }
  w.run = x->leans ? tc_emit_run_of(&x->lean, x->range, TC_MIN(TC_GEMM_COPIED / x->bytes, 8)) : 1;
  while (w.run > 1 && (x->extent % w.run || w.run * w.n > MOST_SUMS)) w.run /= 2;
  w.lines = ACROSS * w.run;
  beside(&w);
}
