// Values, stores and folds of a group as instructions, and the shapes of kernels that are no product. See expand.h.
#include "lowering/expand.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "lowering/draw.h"
#include "lowering/expand_state.h"
#include "lowering/kernel.h"
#include "runtime/topology.h"

#define DEAR_COST 8        // work that costs more than a store and a load
#define MAX_FAR 16       // operands counted
// Of one row kept between passes: half of the first cache. Further away keeping it costs more than exp again with vectors of 64 bytes: cross entropy over
// rows of 200 KB takes 1.5 times as long with it, softmax over rows of 128 KB 1.4 times, but over rows of 4 KB it takes 0.8 times as long.
#define STASH_BYTES 16384
#define STASH_THREAD_BYTES 128  // the same of a GPU's thread, in registers
#define NEAR_BYTES 262144  // of one row that is still near in its second pass
#define STREAM_BYTES (UINT64_C(16) << 20)  // of a result; smaller ones are written faster through the caches
#define FAR_BYTES (INT64_C(1) << 20)  // of an operand; smaller ones are in a core's cache
#define ROW_TURNS 8
#define CLUSTER_THREADS 512  // of a block: 128 registers each, of which what is held takes up to a half
#define CLUSTER_TURNS 8
#define GPU_FLAT_LANES 1024
#define GPU_COLUMN_LANES 128
#define AHEAD 1024  // elements from a load to the line asked for: a page of floats, where the processor's own prefetching ends

tc_val tc_ex_fail(tc_ex *s, tc_status st, const char *what) {
  if (s->st == TC_OK) s->st = st, s->what = what;
  return 0;
}

tc_val tc_ex_unsaid(tc_ex *s, uint32_t n, const char *what) {
  bool made_here = n != TC_NONE && !s->gr->stored[tc_group_root(s->gr, n)];
  if (s->st == TC_OK) s->x->unsaid = made_here || s->n_path == 0 ? n : s->path[s->n_path - 1];
  return tc_ex_fail(s, TC_ERR_STATE, what);
}

tc_type tc_ex_compute_type(tc_type type) {
  return type == TC_F16 || type == TC_BF16 ? TC_F32 : type;
}

// A result rounded to its type, in the compute type.
tc_val tc_ex_rounded(tc_ex *s, tc_val v, tc_type type) {
  if (type != TC_F16 && type != TC_BF16) return v;
  return tc_emit_cast(&s->e, tc_emit_cast(&s->e, v, type), TC_F32);
}

// ---- buffers and arguments ----

int tc_ex_buffer(tc_ex *s, uint32_t n) {
  n = tc_group_root(s->gr, n);
  for (uint32_t i = 0; i < s->x->n_buf; i++)
    if (s->x->buf[i] == n) return (int)i;
  if (s->x->n_buf == TC_MAX_BUFS) return s->x->full = true, tc_ex_fail(s, TC_ERR_STATE, "a kernel reads and writes too many tensors"), 0;
  s->x->buf[s->x->n_buf] = n;
  return (int)s->x->n_buf++;
}

static int num_of(tc_ex *s, bool is_arg, uint64_t value) {
  for (uint32_t i = 0; i < s->x->n_num; i++)
    if (s->x->num[i].is_arg == is_arg && s->x->num[i].value == value) return (int)i;
  if (s->x->n_num == TC_MAX_NUMS) return s->x->full = true, tc_ex_fail(s, TC_ERR_STATE, "a kernel has too many arguments"), 0;
  s->x->num[s->x->n_num].is_arg = is_arg;
  s->x->num[s->x->n_num].value = value;
  return (int)s->x->n_num++;
}

tc_val tc_ex_argument(tc_ex *s, uint32_t arg, tc_type type) {
  return tc_emit_raw(&s->e, TC_N_NUM, type, 1, TC_NONE, TC_NONE, TC_NONE, num_of(s, true, arg));
}

// ---- indices to values ----

tc_val tc_ex_i64(tc_ex *s, int64_t v) {
  return tc_emit_const_i(&s->e, TC_I64, v);
}

tc_val tc_ex_scaled(tc_ex *s, tc_val v, int64_t coef) {
  return coef == 1 ? v : tc_emit_bin(&s->e, TC_N_MUL, v, tc_ex_i64(s, coef));
}

tc_val tc_ex_lane_numbers(tc_ex *s) {
  return tc_emit_raw(&s->e, TC_N_LANES, TC_I64, s->lanes, TC_NONE, TC_NONE, TC_NONE, 0);
}

static void note_point(tc_ex *s, int64_t p) {
  for (int i = 0; i < s->n_points; i++)
    if (s->points[i] == p) return;
  if (s->n_points < 32) s->points[s->n_points++] = p;
}

// Where a range takes part in an index by pieces, remember the cuts: K may be split there.
static void note_cuts(tc_ex *s, const tc_index *x) {
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != TC_RANGE_K) continue;
    if (t->div > 1) note_point(s, t->div);
    if (t->mod) note_point(s, t->div * t->mod);
  }
}

bool tc_ex_split_terms(const tc_ex *s, tc_index *x) {
  if (!s->split) return true;
  tc_index y = tc_ix_const(x->base);
  for (int i = 0; i < x->n; i++) {
    tc_term t = x->term[i];
    if (t.kind != TC_TERM_RANGE || t.range != TC_RANGE_K) {
      if (!tc_ix_add_term(&y, t)) return false;
      continue;
    }
    if (t.div < s->split) {  // a part below the cut, and perhaps one above
      tc_term low = t, high = t;
      int64_t below = s->split / t.div;
      bool crosses = !t.mod || t.mod > below;
      low.mod = crosses ? below : t.mod;
      if (low.div == 1 && low.mod >= s->split) low.mod = 0;
      if (!tc_ix_add_term(&y, low)) return false;
      high.range = TC_RANGE_K0, high.div = 1, high.mod = t.mod ? t.mod / below : 0, high.coef = t.coef * below;
      if (crosses && !tc_ix_add_term(&y, high)) return false;
    } else {
      t.range = TC_RANGE_K0, t.div /= s->split;
      if (!tc_ix_add_term(&y, t)) return false;
    }
  }
  *x = y;
  return true;
}

// Numbers of a thread's elements in its run.
static tc_val run_numbers(tc_ex *s) {
  return tc_emit_bin(&s->e, TC_N_AND, tc_ex_lane_numbers(s), tc_ex_i64(s, s->run - 1));
}

static void add_to(tc_ex *s, tc_val *sum, tc_val v) {
  *sum = *sum == TC_NONE ? v : tc_emit_bin(&s->e, TC_N_ADD, *sum, v);
}

static tc_val div_mod(tc_ex *s, tc_val v, const tc_term *t) {
  if (t->div > 1) v = tc_emit_bin(&s->e, TC_N_DIV, v, tc_ex_i64(s, t->div));
  return t->mod ? tc_emit_bin(&s->e, TC_N_REM, v, tc_ex_i64(s, t->mod)) : v;
}

// A term of a range in which each thread has a place of its own: what is the same for all threads goes to *sum, so that it is computed once.
static void thread_term(tc_ex *s, const tc_term *t, tc_val *sum, int64_t *stride, tc_val *vec) {
  tc_val at = s->at[t->range], off = s->off[t->range];
  int64_t within = s->within[t->range];
  bool runs = t->range == s->vector && s->run > 1;
  if (t->div % within == 0) {
    add_to(s, sum, tc_ex_scaled(s, div_mod(s, at, t), t->coef));
    return;
  }
  if (t->div == 1 && t->mod % within == 0) {
    add_to(s, sum, tc_ex_scaled(s, div_mod(s, at, t), t->coef));
    add_to(s, vec, tc_ex_scaled(s, off, t->coef));
    if (runs) *stride += t->coef;
    return;
  }
  tc_val v = tc_emit_bin(&s->e, TC_N_ADD, off, at);
  bool straight = t->div == 1 && t->mod % s->run == 0;
  if (runs && !straight && t->div % s->run) v = tc_emit_bin(&s->e, TC_N_ADD, v, run_numbers(s));
  add_to(s, vec, tc_ex_scaled(s, div_mod(s, v, t), t->coef));
  if (runs && straight) *stride += t->coef;
}

// The value of the index: base plus, for the vector range, either a stride per lane (*stride, *vec TC_NONE) or a vector of offsets (*vec). With runs a vector
// of threads' places, and a stride along the runs; or a vector of all lanes.
tc_val tc_ex_index_value(tc_ex *s, tc_index x, int64_t *stride, tc_val *vec) {
  note_cuts(s, &x);
  *stride = 0, *vec = TC_NONE;
  if (!tc_ex_split_terms(s, &x)) return tc_ex_unsaid(s, TC_NONE, "an index has too many terms");
  tc_val sum = tc_ex_i64(s, x.base);
  for (int i = 0; i < x.n; i++) {
    const tc_term *t = &x.term[i];
    if (t->kind == TC_TERM_ARG) {
      sum = tc_emit_bin(&s->e, TC_N_ADD, sum, tc_ex_scaled(s, tc_ex_argument(s, t->id, TC_I64), t->coef));
      continue;
    }
    if (t->kind == TC_TERM_VALUE) {
      tc_val v = tc_ex_scaled(s, t->id, t->coef);
      if (tc_emit_lanes(&s->e, v) == 1)
        sum = tc_emit_bin(&s->e, TC_N_ADD, sum, v);
      else
        *vec = *vec == TC_NONE ? v : tc_emit_bin(&s->e, TC_N_ADD, *vec, v);
      continue;
    }
    if (!s->bound[t->range]) return tc_ex_fail(s, TC_ERR_STATE, "an index uses a range outside its loop");
    if (s->run && s->off[t->range] != TC_NONE) {
      thread_term(s, t, &sum, stride, vec);
      continue;
    }
    bool vector = t->range == s->vector && !s->run;
    if (vector && t->div == 1 && !t->mod && *stride == 0) {
      *stride = t->coef;
      sum = tc_emit_bin(&s->e, TC_N_ADD, sum, tc_ex_scaled(s, s->at[t->range], t->coef));
      continue;
    }
    tc_val v = s->at[t->range];
    if (vector) v = tc_emit_bin(&s->e, TC_N_ADD, v, tc_ex_lane_numbers(s));
    if (t->div > 1) v = tc_emit_bin(&s->e, TC_N_DIV, v, tc_ex_i64(s, t->div));
    if (t->mod) v = tc_emit_bin(&s->e, TC_N_REM, v, tc_ex_i64(s, t->mod));
    v = tc_ex_scaled(s, v, t->coef);
    if (vector)
      *vec = *vec == TC_NONE ? v : tc_emit_bin(&s->e, TC_N_ADD, *vec, v);
    else
      sum = tc_emit_bin(&s->e, TC_N_ADD, sum, v);
  }
  if (*vec != TC_NONE && *stride && !s->run) {
    *vec = tc_emit_bin(&s->e, TC_N_ADD, *vec, tc_ex_scaled(s, tc_ex_lane_numbers(s), *stride));
    *stride = 0;
  }
  return sum;
}

tc_val tc_ex_whole_index(tc_ex *s, const tc_index *x) {
  int64_t stride;
  tc_val vec, base = tc_ex_index_value(s, *x, &stride, &vec);
  if (stride) add_to(s, &vec, tc_ex_scaled(s, s->run ? run_numbers(s) : tc_ex_lane_numbers(s), stride));
  return vec == TC_NONE ? base : tc_emit_bin(&s->e, TC_N_ADD, vec, base);
}

int tc_ex_run_of(const tc_index *x, uint8_t range, int most) {
  int run = most;
  bool along = false;
  for (; run > 1 && x->base % run; run /= 2) {
  }
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    bool ours = t->kind == TC_TERM_RANGE && t->range == range, step = ours && t->div == 1 && t->coef == 1;
    if (step && along) return 1;
    along |= step;
    while (run > 1 && (step ? t->mod % run : t->coef % run || (ours && t->div % run))) run /= 2;
  }
  return along ? run : 1;
}

static tc_val both_masks(tc_ex *s, int lanes) {
  tc_val m = s->mask == TC_NONE || lanes == 1 ? TC_NONE : s->mask;
  if (s->cond == TC_NONE) return m;
  tc_val c = tc_emit_splat(&s->e, s->cond, lanes);
  return m == TC_NONE ? c : tc_emit_bin(&s->e, TC_N_AND, m, c);
}

static bool is_far(const tc_gnode *x) {
  return x->shape->count * (int64_t)tc_type_bytes(x->type) >= FAR_BYTES;
}

// Asks for the lines of node n that a later iteration will load from this place.
static void ask_ahead(tc_ex *s, uint32_t n, tc_val base, int buf) {
  const tc_gnode *x = &s->g->node[n];
  int64_t line = 64 / (int64_t)tc_type_bytes(x->type);
  if (!s->ahead || !is_far(x) || s->asks == 0 || s->asked[n]) return;
  s->asks--;
  s->asked[n] = s->vector == TC_RANGE_F;
  s->x->asks_next |= s->gp->kind == TC_GROUP_ROW && s->ahead >= s->gp->f;
  for (int64_t i = 0; i < s->lanes; i += line) {
    tc_val at = tc_emit_bin(&s->e, TC_N_ADD, base, tc_ex_i64(s, s->ahead + i));
    (void)tc_emit_raw(&s->e, TC_N_PREFETCH, TC_I64, 1, at, TC_NONE, TC_NONE, buf);
  }
}

// Where a thread's run of elements lies: one address a thread where they are side by side and aligned, else one an element.
static tc_val run_at(tc_ex *s, const tc_index *flat, tc_val mask, int *lanes) {
  int64_t stride;
  tc_val vec, at = tc_ex_index_value(s, *flat, &stride, &vec);
  if (vec != TC_NONE) at = tc_emit_bin(&s->e, TC_N_ADD, vec, at);
  int addresses = TC_MAX_OF(tc_emit_lanes(&s->e, at), mask == TC_NONE ? 1 : tc_emit_lanes(&s->e, mask)), threads = s->lanes / s->run;
  bool one = addresses <= threads && stride == 1 && tc_ex_run_of(flat, (uint8_t)s->vector, s->run) == s->run;
  if (stride && !one) at = tc_emit_bin(&s->e, TC_N_ADD, at, tc_ex_scaled(s, run_numbers(s), stride));
  *lanes = stride ? s->lanes : addresses;
  return tc_emit_splat(&s->e, at, one ? threads : *lanes);
}

// Element `flat` of stored node n, of every thread's run.
static tc_val load_runs(tc_ex *s, uint32_t n, const tc_index *flat) {
  tc_type type = s->g->node[n].type;
  tc_val mask = s->mask, v;
  int lanes;
  if (s->cond != TC_NONE) mask = mask == TC_NONE ? s->cond : tc_emit_bin(&s->e, TC_N_AND, mask, s->cond);
  tc_val at = run_at(s, flat, s->mask != TC_NONE && s->cond == TC_NONE ? TC_NONE : mask, &lanes);
  if (lanes > 1 && mask != TC_NONE) mask = tc_emit_splat(&s->e, mask, tc_emit_lanes(&s->e, at));
  if (lanes == 1 && s->cond != TC_NONE) at = tc_emit_select(&s->e, s->cond, at, tc_ex_i64(s, 0));
  if (lanes == 1)
    v = tc_emit_raw(&s->e, TC_N_LOAD, type, 1, at, TC_NONE, TC_NONE, tc_ex_buffer(s, n));
  else
    v = tc_emit_raw(&s->e, TC_N_GATHER, type, lanes, at, mask, TC_NONE, tc_ex_buffer(s, n));
  return tc_emit_cast(&s->e, v, tc_ex_compute_type(type));
}

// Element `flat` of stored node n.
static tc_val load(tc_ex *s, uint32_t n, tc_index flat) {
  const tc_gnode *x = &s->g->node[n];
  int64_t stride;
  tc_val vec;
  int buf = tc_ex_buffer(s, n);
  tc_index want = tc_view_flat(s->gp, TC_LEVEL_FULL);
  tc_ix_simplify(&want, &s->ext);
  if (!tc_ix_equal(&flat, &want) || s->given_node != TC_NONE) s->x->same &= ~(UINT64_C(1) << buf);
  if (s->run) return load_runs(s, n, &flat);
  tc_val base = tc_ex_index_value(s, flat, &stride, &vec);
  tc_val v, mask;
  if (vec == TC_NONE && stride == 0) {
    if (s->cond != TC_NONE) {  // one element that may not be there: read the first instead, the caller discards it
      if (tc_emit_lanes(&s->e, s->cond) == 1) {
        base = tc_emit_select(&s->e, s->cond, base, tc_ex_i64(s, 0));
      } else {
        vec = tc_emit_splat(&s->e, base, s->lanes);
        return tc_emit_cast(&s->e, tc_emit_raw(&s->e, TC_N_GATHER, x->type, s->lanes, vec, both_masks(s, s->lanes), TC_NONE, buf),
                            tc_ex_compute_type(x->type));
      }
    }
    v = tc_emit_raw(&s->e, TC_N_LOAD, x->type, 1, base, TC_NONE, TC_NONE, buf);
  } else if (vec == TC_NONE && stride == 1) {
    mask = both_masks(s, s->lanes);
    ask_ahead(s, n, base, buf);
    v = tc_emit_raw(&s->e, TC_N_LOAD, x->type, s->lanes, base, mask, TC_NONE, buf);
  } else {
    int tile = vec == TC_NONE ? tc_ex_turned_tile(s, n, &flat) : -1;
    if (tile >= 0) {
      tc_val at = tc_emit_bin(&s->e, TC_N_MUL, s->turned_row, tc_ex_i64(s, s->lanes));
      return tc_emit_cast(&s->e, tc_emit_raw(&s->e, TC_N_LOAD, x->type, s->lanes, at, TC_NONE, TC_NONE, tile), tc_ex_compute_type(x->type));
    }
    if (vec == TC_NONE) vec = tc_ex_scaled(s, tc_ex_lane_numbers(s), stride);
    int lanes = tc_emit_lanes(&s->e, vec);
    mask = both_masks(s, lanes);
    v = tc_emit_raw(&s->e, TC_N_GATHER, x->type, lanes, tc_emit_bin(&s->e, TC_N_ADD, vec, base), mask, TC_NONE, buf);
  }
  return tc_emit_cast(&s->e, v, tc_ex_compute_type(x->type));
}

// ---- values of nodes ----

static tc_val value_at(tc_ex *s, uint32_t n, const tc_index *idx);
static tc_val compute(tc_ex *s, uint32_t n, const tc_index *idx);

static bool in_group(const tc_ex *s, uint32_t n) {
  return s->gr->of[n] != TC_GROUP_NONE && &s->gr->group[s->gr->of[n]] == s->gp;
}

void tc_ex_remember(tc_ex *s, uint32_t n, tc_val v) {
  s->memo[n] = v;
  s->memo_depth[n] = (uint8_t)s->depth;
  s->listed[s->n_listed++] = n;
}

tc_val tc_ex_loop(tc_ex *s, tc_val from, tc_val to, int64_t step) {
  tc_ex_enter(s);
  return tc_emit_loop(&s->e, from, to, step);
}

void tc_ex_end_loop(tc_ex *s) {
  tc_ex_leave(s);
  tc_emit_end(&s->e, TC_N_ENDLOOP);
}

void tc_ex_enter(tc_ex *s) {
  s->depth++;
}

void tc_ex_leave(tc_ex *s) {
  s->depth--;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->n_listed; i++) {
    uint32_t n = s->listed[i];
    if (s->memo_depth[n] > s->depth)
      s->memo[n] = TC_NONE;
    else
      s->listed[kept++] = n;
  }
  s->n_listed = kept;
}

int tc_ex_tile(tc_ex *s, tc_type type, int64_t n) {
  tc_nest *nest = &s->x->nest;
  tc_ntile *tile = tc_realloc(nest->tile, (nest->n_tile + 1) * sizeof *tile);
  if (!tile) return (void)tc_ex_fail(s, TC_ERR_MEMORY, "no room for a kernel"), 0;
  nest->tile = tile;
  tile[nest->n_tile] = (tc_ntile){.dtype = (uint8_t)type, .n = n, .offset = nest->scratch_bytes};
  nest->scratch_bytes += (n * (int64_t)tc_type_bytes(type) + 63) / 64 * 64;
  return TC_MAX_BUFS + (int)nest->n_tile++;
}

int tc_ex_tile_of_lanes(tc_ex *s, tc_type type, int64_t n) {
  int tile = tc_ex_tile(s, type, n);
  if (s->st == TC_OK) s->x->nest.tile[tile - TC_MAX_BUFS].of_lanes = tc_target_is_gpu(s->target);
  return tile;
}

// Room for a position of the present level of the recursion: of the member being made, or of an operand.
static tc_index *position(tc_ex *s, bool of_operand) {
  tc_index **at = &s->position[s->n_path][of_operand];
  if (!*at) *at = tc_arena_alloc(s->arena, TC_MAX_RANK * sizeof **at);
  if (!*at) (void)tc_ex_fail(s, TC_ERR_MEMORY, "no room for a kernel");
  return *at;
}

static tc_val member(tc_ex *s, uint32_t n) {
  if (s->memo[n] != TC_NONE) return s->memo[n];
  if (s->stashed[n]) {
    tc_val row = tc_emit_raw(&s->e, TC_N_LOAD, tc_ex_compute_type(s->g->node[n].type), s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE, s->stash[n]);
    tc_ex_remember(s, n, row);
    return row;
  }
  const tc_gnode *x = &s->g->node[n];
  tc_index *idx = position(s, false);
  if (!idx) return 0;
  if (tc_op_kind_of(x->op) == TC_KIND_FOLD) return tc_ex_fail(s, TC_ERR_STATE, "a fold is read before it is done");
  if (!tc_view_position(s->gp, &s->ext, (tc_level)s->gr->level[n], &x->shape->d, idx)) return tc_ex_unsaid(s, n, "a position cannot be said");
  tc_val v = compute(s, n, idx);
  if (s->stash[n] >= 0 && s->st == TC_OK)
    (void)tc_emit_raw(&s->e, TC_N_STORE, tc_ex_compute_type(x->type), s->lanes, s->at[TC_RANGE_F], tc_emit_splat(&s->e, v, s->lanes), TC_NONE,
                      s->stash[n]);
  tc_ex_remember(s, n, v);
  return v;
}

static tc_val operand(tc_ex *s, uint32_t n, int k, const tc_index *idx) {
  tc_index *at = position(s, true);
  if (!at) return 0;
  if (tc_view_operand(s->g, n, k, idx, &s->ext, at)) return value_at(s, s->g->node[n].in[k], at);
  return tc_ex_unsaid(s, s->g->node[n].in[k], "a view cannot be said in terms of its operand");
}

// Whether the index is that of the iteration's own element of a level.
static bool is_own(tc_ex *s, const tc_index *flat, tc_level level) {
  tc_index own = tc_view_flat(s->gp, level);
  tc_ix_simplify(&own, &s->ext);
  return tc_ix_equal(flat, &own);
}

// Member m read as element idx of n, which must be its own.
static __attribute__((noinline)) bool is_own_member(tc_ex *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat)) return (void)tc_ex_unsaid(s, m, "an index has too many terms"), false;
  if (is_own(s, &flat, (tc_level)s->gr->level[m])) return true;
  if (s->st == TC_OK) s->x->unsaid = m;
  return (void)tc_ex_fail(s, TC_ERR_STATE, "a member is read away from its place"), false;
}

// Whether a value made in place is made once an iteration: it is read at the iteration's own position.
static __attribute__((noinline)) bool is_made_once(tc_ex *s, uint32_t n, const tc_index *idx) {
  tc_index flat;
  return tc_op_kind_of(s->g->node[n].op) == TC_KIND_ELEM && s->cond == TC_NONE && tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat) &&
         is_own(s, &flat, TC_LEVEL_FULL);
}

static tc_val made_again(tc_ex *s, uint32_t n, const tc_index *idx) {
  bool once = is_made_once(s, n, idx);
  if (once && s->memo[n] != TC_NONE) return s->memo[n];
  tc_val v = compute(s, n, idx);
  if (once && s->st == TC_OK) tc_ex_remember(s, n, v);
  return v;
}

static tc_held *held_of(tc_ex *s, uint32_t n) {
  for (int i = 0; i < s->n_held; i++)
    if (s->held[i].node == n) return &s->held[i];
  return NULL;
}

static tc_val held_value(tc_ex *s, tc_held *held, tc_index flat) {
  tc_type type = tc_ex_compute_type(s->g->node[held->node].type);
  if (held->there) return tc_emit_raw(&s->e, TC_N_LOAD, type, s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE, held->tile);
  tc_val v = load(s, held->node, flat);
  (void)tc_emit_raw(&s->e, TC_N_STORE, type, s->lanes, s->at[TC_RANGE_F], v, TC_NONE, held->tile);
  held->filled = true;
  return v;
}

// Element idx of n from memory, where it is m. One load an iteration: a later one could meet what the kernel itself has written in place.
static __attribute__((noinline)) tc_val loaded(tc_ex *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat)) return tc_ex_unsaid(s, m, "an index has too many terms");
  tc_held *held = held_of(s, m);
  bool plain = (held || s->gp->kind == TC_GROUP_FLAT) && s->cond == TC_NONE && is_own(s, &flat, TC_LEVEL_FULL);
  if (plain && s->memo[m] != TC_NONE) return s->memo[m];
  tc_val v = plain && held ? held_value(s, held, flat) : load(s, m, flat);
  if (plain) tc_ex_remember(s, m, v);
  return v;
}

// value_at and compute call one another for each operand made in place: no index is on their stack, of which a thread may have little.
static tc_val value_at(tc_ex *s, uint32_t n, const tc_index *idx) {
  if (s->st != TC_OK) return 0;
  uint32_t m = n;  // below reshapes, where the flat position is the same
  while (!in_group(s, m) && !s->gr->stored[m] && tc_view_is_same_order(s->g->node[m].op)) m = s->g->node[m].in[0];
  if (m == s->given_node) return s->given;
  m = tc_group_root(s->gr, m);
  bool ours = in_group(s, m);
  if (!ours && !s->gr->stored[m]) return made_again(s, n, idx);
  if (!ours) return loaded(s, m, n, idx);
  return is_own_member(s, m, n, idx) ? member(s, m) : 0;
}

tc_val tc_ex_value(tc_ex *s, uint32_t n, const tc_index *idx) {
  tc_ex_enter(s);
  tc_val v = value_at(s, n, idx);
  tc_ex_leave(s);
  return v;
}

tc_val tc_ex_made_from(tc_ex *s, uint32_t n, const tc_index *idx, uint32_t from, tc_val given) {
  s->given_node = from, s->given = given;
  tc_ex_enter(s);
  tc_val v = value_at(s, n, idx);
  tc_ex_leave(s);
  s->given_node = TC_NONE;
  return s->st == TC_OK ? v : given;
}

// idx[axis] within [lo, hi) for every axis given; the operand's value there, else `other`.
static tc_val in_range(tc_ex *s, const tc_index *x, int64_t lo, int64_t hi, bool has_lo, bool has_hi, tc_val start, tc_val c) {
  tc_val v = tc_ex_whole_index(s, x);
  if (start != TC_NONE) v = tc_emit_bin(&s->e, TC_N_SUB, v, start);
  if (has_lo) {
    tc_val t = tc_emit_bin(&s->e, TC_N_GE, v, tc_ex_i64(s, lo));
    c = c == TC_NONE ? t : tc_emit_bin(&s->e, TC_N_AND, c, t);
  }
  if (has_hi) {
    tc_val t = tc_emit_bin(&s->e, TC_N_LT, v, tc_ex_i64(s, hi));
    c = c == TC_NONE ? t : tc_emit_bin(&s->e, TC_N_AND, c, t);
  }
  return c;
}

// The value of operand s_in at idx where cond holds; masked loads elsewhere.
static tc_val guarded(tc_ex *s, uint32_t n, const tc_index *idx, tc_val cond) {
  tc_val outer = s->cond;
  if (cond != TC_NONE) s->cond = outer == TC_NONE ? cond : tc_emit_bin(&s->e, TC_N_AND, outer, cond);
  tc_val v = value_at(s, n, idx);
  s->cond = outer;
  return v;
}

static tc_val zero(tc_ex *s, tc_type type) {
  return tc_type_is_float(type) ? tc_emit_const_f(&s->e, type, 0) : tc_emit_const_i(&s->e, type, 0);
}

static tc_val pad(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  tc_index *at = position(s, true);
  tc_val c = TC_NONE;
  if (!at) return 0;
  const tc_dims *from = &s->g->node[x->in[0]].shape->d;
  for (int i = 0; i < from->rank; i++) {
    int64_t lo = (int64_t)x->attr[i], hi = (int64_t)x->attr[from->rank + i];
    at[i] = idx[i];
    at[i].base -= lo;
    c = in_range(s, &at[i], 0, from->dim[i], lo > 0, hi > 0, TC_NONE, c);
  }
  tc_val v = guarded(s, x->in[0], at, c);
  if (c == TC_NONE) return v;
  tc_type type = tc_ex_compute_type(x->type);  // zeros without an argument: a pad that lowering made
  return tc_emit_select(&s->e, c, v, x->n_arg ? tc_ex_argument(s, x->arg, type) : zero(s, type));
}

static tc_val cat(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  int axis = (int)x->attr[0];
  int64_t end = x->shape->d.dim[axis];
  tc_val v = TC_NONE;
  tc_index *at = position(s, true);
  if (!at) return 0;
  for (int k = x->n_in; k-- > 0;) {  // the last piece is what the others fall through to
    memcpy(at, idx, sizeof at[0] * (size_t)x->shape->d.rank);
    int64_t n = s->g->node[x->in[k]].shape->d.dim[axis];
    end -= n;
    if (n == 0) continue;
    at[axis].base -= end;
    tc_val c = in_range(s, &at[axis], 0, n, end > 0, end + n < x->shape->d.dim[axis], TC_NONE, TC_NONE);
    tc_val piece = guarded(s, x->in[k], at, c);
    v = v == TC_NONE || c == TC_NONE ? piece : tc_emit_select(&s->e, c, piece, v);
  }
  return v;
}

// Unit steps only: others are external.
static tc_val write_slice(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  tc_index *at = position(s, true);
  const tc_dims *d = &s->g->node[x->in[1]].shape->d;
  tc_val c = TC_NONE;
  if (!at) return 0;
  for (int i = 0; i < d->rank; i++) {
    at[i] = idx[i];
    if (d->dim[i] == x->shape->d.dim[i]) continue;  // a slice of a whole axis starts at 0
    tc_term start = {TC_TERM_ARG, 0, x->arg + (uint32_t)i, 1, 0, -1};
    if (!tc_ix_add_term(&at[i], start)) return tc_ex_unsaid(s, TC_NONE, "an index has too many terms");
    c = in_range(s, &at[i], 0, d->dim[i], true, true, TC_NONE, c);
  }
  tc_val old = value_at(s, x->in[0], idx), v = guarded(s, x->in[1], at, c);
  return c == TC_NONE ? v : tc_emit_select(&s->e, c, v, old);
}

// The index operand's value, wrapped once where negative; a check before this step has seen that it is in range.
static tc_val wrapped_index(tc_ex *s, uint32_t index, const tc_index *at, int64_t extent) {
  tc_val v = value_at(s, index, at);
  return tc_emit_select(&s->e, tc_emit_bin(&s->e, TC_N_LT, v, tc_ex_i64(s, 0)), tc_emit_bin(&s->e, TC_N_ADD, v, tc_ex_i64(s, extent)), v);
}

static tc_val gather(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  const tc_dims *d = &s->g->node[x->in[0]].shape->d, *di = &s->g->node[x->in[1]].shape->d;
  int axis = (int)x->attr[0];
  tc_index *at = position(s, true);
  tc_val v;
  if (!at) return 0;
  if (x->op == TC_OP_GATHER) {
    v = wrapped_index(s, x->in[1], idx, d->dim[axis]);
    memcpy(at, idx, sizeof at[0] * (size_t)d->rank);
  } else {
    v = wrapped_index(s, x->in[1], idx + axis, d->dim[axis]);
    for (int i = 0; i < axis; i++) at[i] = idx[i];
    for (int i = axis + 1; i < d->rank; i++) at[i] = idx[i + di->rank - 1];
  }
  at[axis] = tc_ix_const(0);
  (void)tc_ix_add_term(&at[axis], (tc_term){TC_TERM_VALUE, 0, v, 1, 0, 1});
  return value_at(s, x->in[0], at);
}

static __attribute__((noinline)) tc_val iota(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &x->shape->d, &s->ext, &flat)) return tc_ex_unsaid(s, TC_NONE, "an index has too many terms");
  if (tc_type_is_float(x->type)) {
    tc_val i = tc_emit_cast(&s->e, tc_ex_whole_index(s, &flat), TC_F64);
    tc_val v =
        tc_emit_bin(&s->e, TC_N_ADD, tc_ex_argument(s, x->arg, TC_F64), tc_emit_bin(&s->e, TC_N_MUL, tc_ex_argument(s, x->arg + 1, TC_F64), i));
    return tc_ex_rounded(s, tc_emit_cast(&s->e, v, tc_ex_compute_type(x->type)), x->type);
  }
  // Integers wrap, so the first lane's number is made once, and the others' differ from it by what no iteration changes, in the type of the result.
  int64_t stride;
  if (s->run) {
    tc_val v = tc_emit_bin(&s->e, TC_N_MUL, tc_ex_whole_index(s, &flat), tc_ex_argument(s, x->arg + 1, TC_I64));
    return tc_emit_cast(&s->e, tc_emit_bin(&s->e, TC_N_ADD, v, tc_ex_argument(s, x->arg, TC_I64)), x->type);
  }
  tc_val vec, at = tc_ex_index_value(s, flat, &stride, &vec), step = tc_ex_argument(s, x->arg + 1, TC_I64);
  tc_val first = tc_emit_bin(&s->e, TC_N_ADD, tc_ex_argument(s, x->arg, TC_I64), tc_emit_bin(&s->e, TC_N_MUL, step, at));
  if (vec == TC_NONE && stride == 0) return tc_emit_cast(&s->e, first, x->type);
  if (vec != TC_NONE) return tc_emit_cast(&s->e, tc_emit_bin(&s->e, TC_N_ADD, first, tc_emit_bin(&s->e, TC_N_MUL, step, vec)), x->type);
  tc_val lanes = tc_emit_raw(&s->e, TC_N_LANES, x->type, s->lanes, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val others = tc_emit_bin(&s->e, TC_N_MUL, lanes, tc_emit_cast(&s->e, tc_ex_scaled(s, step, stride), x->type));
  return tc_emit_bin(&s->e, TC_N_ADD, others, tc_emit_cast(&s->e, first, x->type));
}

// Whether the lanes are at neighbouring positions, the first a multiple of 4.
static bool is_run(const tc_ex *s, const tc_index *flat) {
  bool along = false;
  if (s->run || s->lanes < 4 || flat->base % 4 || s->split % 4) return false;
  for (int i = 0; i < flat->n; i++) {
    const tc_term *t = &flat->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != s->vector ? t->coef % 4 != 0 : t->coef != 1 || t->div != 1 || t->mod != 0) return false;
    along |= t->kind == TC_TERM_RANGE && t->range == s->vector;
  }
  return along;
}

static __attribute__((noinline)) tc_val random_value(tc_ex *s, const tc_gnode *x, const tc_index *idx) {
  tc_index flat;
  int64_t stride;
  tc_val vec;
  if (!tc_ix_flatten(idx, &x->shape->d, &s->ext, &flat)) return tc_ex_unsaid(s, TC_NONE, "an index has too many terms");
  bool run = is_run(s, &flat);
  tc_draw draw = {.op = x->op, .type = tc_ex_compute_type(x->type), .lanes = run ? s->lanes : 0};
  draw.at = run ? tc_ex_index_value(s, flat, &stride, &vec) : tc_ex_whole_index(s, &flat);
  draw.seed = tc_ex_argument(s, x->arg, TC_I64), draw.counter = tc_ex_argument(s, x->arg + 1, TC_I64);
  if (x->op == TC_OP_RANDINT) draw.low = tc_ex_argument(s, x->arg + 2, TC_I64), draw.high = tc_ex_argument(s, x->arg + 3, TC_I64);
  return s->st == TC_OK ? tc_ex_rounded(s, tc_draw_emit(&s->e, &draw), x->type) : 0;
}

static tc_val compute_op(tc_ex *s, uint32_t n, const tc_index *idx);

// The way here is noted, and bounded: what is too deep is stored half-way.
static tc_val compute(tc_ex *s, uint32_t n, const tc_index *idx) {
  if (s->st != TC_OK) return 0;
  if (s->n_path == MAX_PATH) {
    s->x->unsaid = s->path[MAX_PATH / 2];
    return tc_ex_fail(s, TC_ERR_STATE, "values are made in place too deeply");
  }
  s->path[s->n_path++] = n;
  tc_val v = compute_op(s, n, idx);
  s->n_path--;
  return v;
}

static tc_val compute_op(tc_ex *s, uint32_t n, const tc_index *idx) {
  const tc_gnode *x = &s->g->node[n];
  switch (x->op) {
    case TC_OP_FULL: return tc_ex_rounded(s, tc_ex_argument(s, x->arg, tc_ex_compute_type(x->type)), x->type);
    case TC_OP_IOTA: return iota(s, x, idx);
    case TC_OP_RAND:
    case TC_OP_RANDN:
    case TC_OP_RANDINT: return random_value(s, x, idx);
    case TC_OP_PAD: return pad(s, x, idx);
    case TC_OP_CAT: return cat(s, x, idx);
    case TC_OP_WRITE_SLICE: return write_slice(s, x, idx);
    case TC_OP_GATHER:
    case TC_OP_INDEX_SELECT: return gather(s, x, idx);
    case TC_OP_CAST: {
      tc_val v = operand(s, n, 0, idx);
      if (x->type == TC_F16 || x->type == TC_BF16) {
        if (s->st == TC_OK && tc_emit_type(&s->e, v) == TC_BOOL) v = tc_emit_cast(&s->e, v, TC_I32);
        return tc_emit_cast(&s->e, tc_emit_cast(&s->e, v, x->type), TC_F32);
      }
      return tc_emit_cast(&s->e, v, x->type);
    }
    default: break;
  }
  if (tc_op_kind_of(x->op) == TC_KIND_MOVE || tc_op_kind_of(x->op) == TC_KIND_EFFECT) return operand(s, n, 0, idx);
  tc_val v[3] = {0, 0, 0};
  for (int k = 0; k < x->n_in && k < 3; k++) v[k] = operand(s, n, k, idx);
  if (s->st != TC_OK) return 0;
  if (x->op == TC_OP_POLYGAMMA) v[1] = tc_emit_const_f(&s->e, TC_F64, (double)x->attr[0]);
  tc_type type = tc_ex_compute_type(s->g->node[x->in[x->n_in - 1]].type);
  if (x->op == TC_OP_EXP && x->n_attr && x->attr[0] == TC_EXP_OF_NEGATIVE)
    return tc_ex_rounded(s, tc_emit_exp_of_negative(&s->e, type, v[0]), x->type);
  return tc_ex_rounded(s, tc_emit_scalar_op(&s->e, x->op, type, v[0], v[1], v[2]), x->type);
}

// ---- stores ----

bool tc_ex_streams(const tc_ex *s, uint32_t n, uint64_t least) {
  const tc_gnode *x = &s->g->node[n];
  if (x->out == TC_LEAF_NONE || x->op == TC_OP_ASSIGN || (size_t)x->shape->count * tc_type_bytes(x->type) < least) return false;
  for (uint32_t i = 0; i < s->g->n_order; i++) {
    uint32_t m = s->g->order[i];
    for (int k = 0; k < s->g->node[m].n_in; k++)
      if (s->g->node[m].in[k] == n && !in_group(s, m)) return false;
  }
  return true;
}

static bool streams(const tc_ex *s, uint32_t n) {
  return s->stream && (size_t)s->lanes * tc_type_bytes(s->g->node[n].type) % 64 == 0 && tc_ex_streams(s, n, STREAM_BYTES);
}

// v to every thread's run of node n.
static void store_runs(tc_ex *s, uint32_t n, const tc_index *flat, tc_val v) {
  int lanes, buf = tc_ex_buffer(s, n);
  tc_type type = s->g->node[n].type;
  tc_val at = run_at(s, flat, TC_NONE, &lanes), mask = s->mask;
  int wanted = TC_MAX_OF(tc_emit_lanes(&s->e, v), mask == TC_NONE ? 1 : tc_emit_lanes(&s->e, mask));
  if (lanes < wanted) lanes = wanted, at = tc_emit_splat(&s->e, at, lanes);  // one place, perhaps of one value: the mask leaves one thread
  if (mask != TC_NONE) mask = tc_emit_splat(&s->e, mask, tc_emit_lanes(&s->e, at));
  s->x->writes |= UINT64_C(1) << buf;
  (void)tc_emit_raw(&s->e, TC_N_SCATTER, type, lanes, at, tc_emit_cast(&s->e, tc_emit_splat(&s->e, v, lanes), type), mask, buf);
}

static void store(tc_ex *s, uint32_t n) {
  const tc_gnode *x = &s->g->node[n];
  tc_index flat = tc_view_flat(s->gp, (tc_level)s->gr->level[n]);
  int64_t stride;
  tc_val vec, v = member(s, n);
  if (s->st != TC_OK) return;
  tc_ix_simplify(&flat, &s->ext);
  if (s->run) {
    store_runs(s, n, &flat, v);
    return;
  }
  int buf = tc_ex_buffer(s, n);
  tc_val base = tc_ex_index_value(s, flat, &stride, &vec);
  s->x->writes |= UINT64_C(1) << buf;
  if (stride != 0 || vec != TC_NONE) v = tc_emit_splat(&s->e, v, s->lanes);
  v = tc_emit_cast(&s->e, v, x->type);
  if (stride == 0 && vec == TC_NONE) {
    (void)tc_emit_raw(&s->e, TC_N_STORE, x->type, 1, base, v, TC_NONE, buf);
  } else if (stride == 1) {
    tc_val at = tc_emit_raw(&s->e, TC_N_STORE, x->type, s->lanes, base, v, s->mask, buf);
    if (s->mask == TC_NONE && !s->e.failed) s->x->nest.inst[at].flags = streams(s, n);
  } else {
    if (vec == TC_NONE) vec = tc_ex_scaled(s, tc_ex_lane_numbers(s), stride);
    vec = tc_emit_bin(&s->e, TC_N_ADD, vec, base);
    (void)tc_emit_raw(&s->e, TC_N_SCATTER, x->type, s->lanes, vec, v, s->mask, buf);
  }
}

bool tc_ex_must_store(const tc_ex *s, uint32_t n) {
  return s->gr->stored[n] && s->gr->alias[n] == n;
}

// ---- folds ----

typedef struct fold {
  uint32_t node;
  tc_val acc, index;  // variables; index for argmax and argmin
  int tile;  // of a COLUMN member: where its sums are while rows go by, or -1
  tc_type type;
} fold;

static double lowest(tc_type type) {
  switch (type) {
    case TC_F32:
    case TC_F64: return -INFINITY;
    case TC_I8: return INT8_MIN;
    case TC_I16: return INT16_MIN;
    case TC_I32: return INT32_MIN;
    case TC_I64: return (double)INT64_MIN;
    default: return 0;
  }
}

static tc_val extreme(tc_ex *s, tc_type type, bool most) {
  if (type == TC_F32 || type == TC_F64) return tc_emit_const_f(&s->e, type, most ? INFINITY : -INFINITY);
  if (!most) return tc_emit_const_i(&s->e, type, type == TC_I64 ? INT64_MIN : (int64_t)lowest(type));
  int bits = (int)tc_type_bytes(type) * 8;
  return tc_emit_const_i(&s->e, type, type == TC_U8 ? 255 : type == TC_BOOL ? 1 : (int64_t)((UINT64_C(1) << (bits - 1)) - 1));
}

static bool is_column(const tc_ex *s, uint32_t n) {
  return s->gr->level[n] == TC_LEVEL_COLUMN;
}

static bool is_arg(tc_op op) {
  return op == TC_OP_ARGMAX || op == TC_OP_ARGMIN;
}

// What leaves the fold unchanged. Bools fold as I32.
static tc_val identity(tc_ex *s, tc_op op, tc_type type) {
  switch (op) {
    case TC_OP_SUM:
    case TC_OP_ANY: return tc_emit_const_f(&s->e, type, 0);
    case TC_OP_PROD:
    case TC_OP_ALL: return tc_emit_const_f(&s->e, type, 1);
    case TC_OP_MIN:
    case TC_OP_ARGMIN: return extreme(s, type, true);
    default: return extreme(s, type, false);
  }
}

static tc_nest_op combine(tc_op op) {
  switch (op) {
    case TC_OP_SUM: return TC_N_ADD;
    case TC_OP_PROD: return TC_N_MUL;
    case TC_OP_MIN:
    case TC_OP_ALL:
    case TC_OP_ARGMIN: return TC_N_MIN;
    default: return TC_N_MAX;
  }
}

static void fold_begin(tc_ex *s, fold *f, uint32_t n) {
  const tc_gnode *x = &s->g->node[n];
  tc_type type = tc_ex_compute_type(s->g->node[x->in[0]].type);
  *f = (fold){.node = n, .type = type == TC_BOOL ? TC_I32 : type, .tile = is_column(s, n) ? s->stash[n] : -1};
  if (f->tile >= 0) return;
  f->acc = tc_emit_var(&s->e, tc_emit_splat(&s->e, identity(s, x->op, f->type), s->lanes));
  if (is_arg(x->op)) f->index = tc_emit_var(&s->e, tc_emit_splat(&s->e, tc_ex_i64(s, INT64_MAX), s->lanes));
}

// The position along F of every lane.
static tc_val fold_position(tc_ex *s) {
  tc_val at = s->at[TC_RANGE_F];
  return s->vector == TC_RANGE_F ? tc_emit_bin(&s->e, TC_N_ADD, tc_ex_lane_numbers(s), at) : tc_emit_splat(&s->e, at, s->lanes);
}

static void fold_step(tc_ex *s, fold *f) {
  const tc_gnode *x = &s->g->node[f->node];
  tc_index idx[TC_MAX_RANK];
  if (!tc_view_position(s->gp, &s->ext, TC_LEVEL_FULL, &s->g->node[x->in[0]].shape->d, idx)) {
    tc_ex_unsaid(s, x->in[0], "a position cannot be said");
    return;
  }
  tc_val v = value_at(s, x->in[0], idx);
  if (s->st != TC_OK) return;
  v = tc_emit_splat(&s->e, tc_emit_cast(&s->e, v, f->type), s->lanes);
  if (f->tile >= 0) {
    tc_val at = s->at[TC_RANGE_F], sum = tc_emit_raw(&s->e, TC_N_LOAD, f->type, s->lanes, at, TC_NONE, TC_NONE, f->tile);
    (void)tc_emit_raw(&s->e, TC_N_STORE, f->type, s->lanes, at, tc_emit_bin(&s->e, combine(x->op), sum, v), TC_NONE, f->tile);
    return;
  }
  bool masked = s->mask != TC_NONE && s->vector == TC_RANGE_F;
  if (!is_arg(x->op)) {
    if (masked) v = tc_emit_select(&s->e, s->mask, v, identity(s, x->op, f->type));
    bool plain = x->op == TC_OP_MAX && (x->attr[0] & TC_MAX_OVER_NAN);  // one instruction where MAX is three
    tc_val next = plain ? tc_emit_select(&s->e, tc_emit_bin(&s->e, TC_N_GT, v, f->acc), v, f->acc) : tc_emit_bin(&s->e, combine(x->op), f->acc, v);
    tc_emit_set(&s->e, f->acc, next);
    return;
  }
  // The first element of a lane, a better one, or the first NaN.
  tc_val better = tc_emit_bin(&s->e, x->op == TC_OP_ARGMAX ? TC_N_GT : TC_N_LT, v, f->acc);
  tc_val none = tc_emit_bin(&s->e, TC_N_EQ, f->index, tc_ex_i64(s, INT64_MAX));
  tc_val take = tc_emit_bin(&s->e, TC_N_OR, better, none);
  if (tc_type_is_float(f->type)) {
    tc_val was_nan = tc_emit_bin(&s->e, TC_N_NE, f->acc, f->acc), is_nan = tc_emit_bin(&s->e, TC_N_NE, v, v);
    tc_val first_nan = tc_emit_bin(&s->e, TC_N_AND, is_nan, tc_emit_un(&s->e, TC_N_NOT, was_nan));
    take = tc_emit_bin(&s->e, TC_N_OR, take, first_nan);
  }
  if (masked) take = tc_emit_bin(&s->e, TC_N_AND, take, s->mask);
  tc_val where = tc_emit_select(&s->e, take, fold_position(s), f->index);
  tc_val best = tc_emit_select(&s->e, take, v, f->acc);
  tc_emit_set(&s->e, f->index, where);
  tc_emit_set(&s->e, f->acc, best);
}

static tc_val reduce_lanes(tc_ex *s, tc_val v, tc_nest_op op) {
  return tc_emit_lanes(&s->e, v) == 1 ? v : tc_emit_raw(&s->e, TC_N_HREDUCE, tc_emit_type(&s->e, v), 1, v, TC_NONE, TC_NONE, op);
}

// The fold's value at its row: lanes combined where they ran along F.
static void fold_end(tc_ex *s, fold *f) {
  const tc_gnode *x = &s->g->node[f->node];
  if (f->tile >= 0) return;
  bool along = s->vector == TC_RANGE_F;
  tc_val v = f->acc;
  if (is_arg(x->op)) {
    v = f->index;
    if (along) {
      tc_val best = reduce_lanes(s, f->acc, combine(x->op));
      tc_val hit = tc_emit_bin(&s->e, TC_N_EQ, f->acc, best);
      if (tc_type_is_float(f->type)) {
        tc_val nan = tc_emit_bin(&s->e, TC_N_NE, f->acc, f->acc);
        tc_val best_nan = tc_emit_bin(&s->e, TC_N_NE, best, best);
        hit = tc_emit_bin(&s->e, TC_N_OR, hit, tc_emit_bin(&s->e, TC_N_AND, nan, tc_emit_splat(&s->e, best_nan, s->lanes)));
      }
      v = reduce_lanes(s, tc_emit_select(&s->e, hit, f->index, tc_ex_i64(s, INT64_MAX)), TC_N_MIN);
    }
  } else if (along) {
    v = reduce_lanes(s, f->acc, combine(x->op));
  }
  v = tc_emit_cast(&s->e, v, x->type == TC_BOOL ? TC_BOOL : tc_ex_compute_type(x->type));
  tc_ex_remember(s, f->node, tc_ex_rounded(s, v, x->type));
}

// ---- the shapes of kernels ----

void tc_ex_set_mask(tc_ex *s, tc_val start, tc_val end) {
  tc_val left = tc_emit_bin(&s->e, TC_N_MIN, tc_emit_bin(&s->e, TC_N_SUB, end, start), tc_ex_i64(s, s->lanes));
  tc_val lanes = tc_emit_raw(&s->e, TC_N_LANES, TC_I32, s->lanes, TC_NONE, TC_NONE, TC_NONE, 0);  // narrow: fewer compares
  s->mask = tc_emit_bin(&s->e, TC_N_LT, lanes, tc_emit_cast(&s->e, left, TC_I32));
}

// Nodes of depth d: folds are done when their depth is reached; a FULL value of depth d needs the folds of depth d.
static uint8_t depth_under(tc_ex *s, uint32_t n, bool *seen) {
  n = tc_group_root(s->gr, n);
  if (in_group(s, n) || s->gr->stored[n] || seen[n]) return s->fold_depth[n];
  const tc_gnode *x = &s->g->node[n];
  uint8_t d = 0;
  for (int k = 0; k < x->n_in; k++) d = TC_MAX_OF(d, depth_under(s, x->in[k], seen));
  seen[n] = true;
  return s->fold_depth[n] = d;
}

static void find_depths(tc_ex *s) {
  bool *seen = tc_arena_alloc(s->arena, s->g->n + 1);
  if (!seen) {
    tc_ex_fail(s, TC_ERR_MEMORY, "no room for a kernel");
    return;
  }
  memset(s->fold_depth, 0, s->g->n);
  memset(seen, 0, s->g->n);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    const tc_gnode *x = &s->g->node[n];
    uint8_t d = 0;
    for (int k = 0; k < x->n_in; k++) d = TC_MAX_OF(d, depth_under(s, x->in[k], seen));
    s->fold_depth[n] = (uint8_t)(d + (tc_op_kind_of(x->op) == TC_KIND_FOLD));
  }
}

static uint8_t deepest(const tc_ex *s) {
  uint8_t d = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) d = TC_MAX_OF(d, s->fold_depth[s->gp->member[i]]);
  return d;
}

static bool is_full(const tc_ex *s, uint32_t n) {
  return s->gr->level[n] == TC_LEVEL_FULL;
}

// Notes that pass p computes node n and what it is made of.
static void note_pass(tc_ex *s, uint32_t n, uint8_t p, uint64_t *passes) {
  n = tc_group_root(s->gr, n);
  const tc_gnode *x = &s->g->node[n];
  bool ours = in_group(s, n);
  if (p > 63 || (passes[n] >> p & 1) || (ours && (!is_full(s, n) || tc_op_kind_of(x->op) == TC_KIND_FOLD))) return;
  passes[n] |= UINT64_C(1) << p;
  if (!ours && s->gr->stored[n]) return;
  for (int k = 0; k < x->n_in; k++)
    if (!(x->op == TC_OP_ASSIGN && k == 1)) note_pass(s, x->in[k], p, passes);
}

// With narrower vectors exp costs more, and a row may take half of the second cache. On a Zen 3 cross entropy over rows of 200 KB takes 0.75 times as long
// with it, softmax over rows of 32 KB and of 128 KB 0.82 times.
static int64_t stash_bytes(const tc_ex *s) {
  if (tc_target_is_gpu(s->target)) return (int64_t)s->x->nest.threads * STASH_THREAD_BYTES;
  return tc_kernel_vector_bytes() < 64 ? TC_MAX_OF((int64_t)tc_topology_get()->l2_bytes / 2, STASH_BYTES) : STASH_BYTES;
}

// What a cluster holds of its row: operands as large as the rows that several passes read, beside the dear values that it keeps.
static void choose_held(tc_ex *s) {
  int n_kept = 0;
  int64_t row = (s->gp->f + s->lanes - 1) / s->lanes * s->lanes;
  for (uint32_t i = 0; i < s->gp->n_member; i++) n_kept += s->stash[s->gp->member[i]] >= 0;
  for (uint32_t n = 0; n < s->g->n && s->n_held + n_kept < MAX_HELD; n++) {
    const tc_gnode *x = &s->g->node[n];
    tc_type type = tc_ex_compute_type(x->type);
    bool several = (s->passes[n] & (s->passes[n] - 1)) != 0, fits = row * (int64_t)tc_type_bytes(type) <= stash_bytes(s);
    if (!several || !fits || in_group(s, n) || !s->gr->stored[n] || !tc_type_is_float(type) || x->shape->count != s->gp->a * s->gp->f) continue;
    s->held[s->n_held++] = (tc_held){.node = n, .tile = tc_ex_tile_of_lanes(s, type, row)};
  }
}

// Which pass needs which value. Dear values that several passes over a row read are kept in tiles, as long as a row fits a core's cache.
static void choose_stashes(tc_ex *s) {
  uint64_t *passes = s->passes;
  int64_t row = (s->gp->f + s->lanes - 1) / s->lanes * s->lanes;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    bool is_fold = tc_op_kind_of(s->g->node[n].op) == TC_KIND_FOLD;
    if (is_fold) note_pass(s, s->g->node[n].in[0], (uint8_t)(s->fold_depth[n] - 1), passes);
    if (!is_fold && is_full(s, n) && tc_ex_must_store(s, n)) note_pass(s, n, s->fold_depth[n], passes);
  }
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    tc_type type = tc_ex_compute_type(s->g->node[n].type);
    bool several = (passes[n] & (passes[n] - 1)) != 0;
    if (several && s->gp->kind == TC_GROUP_ROW && tc_emit_cost(s->g->node[n].op, type) >= DEAR_COST &&
        row * (int64_t)tc_type_bytes(type) <= stash_bytes(s))
      s->stash[n] = tc_ex_tile_of_lanes(s, type, row), s->stash_pass[n] = (uint8_t)__builtin_ctzll(passes[n]);
  }
  if (s->x->nest.cluster) choose_held(s);
}

// One pass over F at the present row: folds whose operands have depth d, stores of FULL values of depth d.
static void pass_body(tc_ex *s, uint8_t d, fold *folds, int n_folds) {
  for (uint32_t i = 0; i < s->gp->n_member && s->gp->n_member > MAX_PATH / 2 && s->st == TC_OK; i++) {  // operands first: no deep recursion
    uint32_t n = s->gp->member[i];
    if (s->passes[n] >> d & 1) (void)member(s, n);
  }
  for (int i = 0; i < n_folds; i++) fold_step(s, &folds[i]);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_full(s, n) && s->fold_depth[n] == d && tc_ex_must_store(s, n)) store(s, n);
  }
}

static bool pass_has_work(const tc_ex *s, uint8_t d) {
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    bool is_fold = tc_op_kind_of(s->g->node[n].op) == TC_KIND_FOLD;
    if (is_fold ? s->fold_depth[n] == d + 1 : is_full(s, n) && s->fold_depth[n] == d && tc_ex_must_store(s, n)) return true;
  }
  return false;
}

static bool is_last_pass(const tc_ex *s, uint8_t d) {
  for (uint8_t p = (uint8_t)(d + 1); p <= deepest(s); p++)
    if (pass_has_work(s, p)) return false;
  return true;
}

// While the second pass works on a row that the first one brought into the cache, memory would wait: it asks for the next row. With it and with stores past
// the caches softmax over 4096x1024 reaches 88 % of the bandwidth of a + b instead of 45, layer norm 101 instead of 58. Later passes ask for what the second
// did not, a tensor each: where the second asks for both that layer norm's gradient reads, that takes 1.1 times as long.
static int64_t row_ahead(const tc_ex *s, uint8_t d) {
  if (tc_target_is_gpu(s->target) || s->gp->kind != TC_GROUP_ROW || d < 1) return 0;
  return s->gp->f * (int64_t)sizeof(float) <= NEAR_BYTES ? TC_MAX_OF(s->gp->f, AHEAD) : AHEAD;
}

// Runs body over F with lanes along it (ROW) or one element at a time (COL).
static void over_f(tc_ex *s, uint8_t d, fold *folds, int n_folds) {
  int64_t f = s->gp->f, whole = s->gp->kind == TC_GROUP_ROW ? f / s->lanes * s->lanes : f;
  int64_t step = s->gp->kind == TC_GROUP_ROW ? s->lanes : 1;
  s->bound[TC_RANGE_F] = true;
  if (whole > 0) {
    s->at[TC_RANGE_F] = tc_ex_loop(s, tc_ex_i64(s, 0), tc_ex_i64(s, whole), step);
    s->stream = s->gp->kind == TC_GROUP_ROW && whole == f, s->ahead = row_ahead(s, d), s->asks = is_last_pass(s, d) ? INT_MAX : 1;
    pass_body(s, d, folds, n_folds);
    s->stream = false, s->ahead = 0;
    tc_ex_end_loop(s);
  }
  if (whole < f) {
    // A loop of one round, so that what it computes stays inside.
    s->at[TC_RANGE_F] = tc_ex_loop(s, tc_ex_i64(s, whole), tc_ex_i64(s, f), step);
    tc_ex_set_mask(s, s->at[TC_RANGE_F], tc_ex_i64(s, f));
    pass_body(s, d, folds, n_folds);
    s->mask = TC_NONE;
    tc_ex_end_loop(s);
  }
  s->bound[TC_RANGE_F] = false;
}

// The passes of one row (ROW) or one block of columns (COL), then what is left of the folds.
static void row(tc_ex *s) {
  int row_lanes = s->gp->kind == TC_GROUP_ROW ? 1 : s->lanes;
  int lanes = s->lanes, vector = s->vector;
  for (uint8_t d = 0; d <= deepest(s) && s->st == TC_OK; d++) {
    fold folds[64];
    int n_folds = 0;
    // REDUCED values of this depth are there before the pass that may read them.
    s->lanes = row_lanes, s->vector = s->gp->kind == TC_GROUP_ROW ? -1 : vector;
    for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) {
      uint32_t n = s->gp->member[i];
      if (is_full(s, n) || s->fold_depth[n] != d || tc_op_kind_of(s->g->node[n].op) == TC_KIND_FOLD) continue;
      (void)member(s, n);
    }
    for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++)
      if (!is_full(s, s->gp->member[i]) && !is_column(s, s->gp->member[i]) && s->fold_depth[s->gp->member[i]] == d &&
          tc_ex_must_store(s, s->gp->member[i]))
        store(s, s->gp->member[i]);
    s->lanes = lanes, s->vector = vector;
    if (!pass_has_work(s, d)) continue;
    for (uint32_t i = 0; i < s->gp->n_member; i++) {
      uint32_t n = s->gp->member[i];
      if (tc_op_kind_of(s->g->node[n].op) != TC_KIND_FOLD || s->fold_depth[n] != d + 1) continue;
      if (n_folds == 64) {
        tc_ex_fail(s, TC_ERR_STATE, "too many folds in one pass");
        return;
      }
      fold_begin(s, &folds[n_folds++], n);
    }
    over_f(s, d, folds, n_folds);
    for (uint32_t i = 0; i < s->gp->n_member; i++) {
      uint32_t n = s->gp->member[i];
      if (s->stash[n] >= 0 && s->stash_pass[n] == d) s->stashed[n] = true;
    }
    for (int i = 0; i < s->n_held; i++) s->held[i].there |= s->held[i].filled;
    for (int i = 0; i < n_folds; i++) fold_end(s, &folds[i]);
  }
}

// Over F, for every COLUMN member: its tile before the rows of a part, or its result after them, at their first row.
static void over_columns(tc_ex *s, bool end) {
  s->bound[TC_RANGE_F] = true;
  s->at[TC_RANGE_F] = tc_ex_loop(s, tc_ex_i64(s, 0), tc_ex_i64(s, s->gp->f), s->lanes);
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) {
    uint32_t n = s->gp->member[i];
    const tc_gnode *x = &s->g->node[n];
    if (!is_column(s, n)) continue;
    tc_type type = tc_ex_compute_type(s->g->node[x->in[0]].type);
    if (!end) {
      tc_val none = tc_emit_splat(&s->e, identity(s, x->op, type), s->lanes);
      (void)tc_emit_raw(&s->e, TC_N_STORE, type, s->lanes, s->at[TC_RANGE_F], none, TC_NONE, s->stash[n]);
      continue;
    }
    tc_val sum = tc_emit_raw(&s->e, TC_N_LOAD, type, s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE, s->stash[n]);
    tc_ex_remember(s, n, tc_ex_rounded(s, tc_emit_cast(&s->e, sum, tc_ex_compute_type(x->type)), x->type));
    store(s, n);
  }
  tc_ex_end_loop(s);
  s->bound[TC_RANGE_F] = false;
}

static int power_for(int64_t n, int most) {
  int lanes = 1;
  while (lanes < most && lanes < n) lanes *= 2;
  return lanes;
}

int tc_ex_lanes_for(int64_t n) {
  return power_for(n, LANES);
}

void tc_ex_set_threads(tc_ex *s, int lanes) {
  if (tc_target_is_gpu(s->target)) tc_target_threads(s->target, lanes, &s->x->nest.threads, &s->x->nest.groups);
}

// Lanes along a row that is folded. On a GPU a row of more than a few vectors of 64 takes eight turns of longer ones, so that long rows have many threads and
// what a thread holds of a row fits its registers. By the extent alone: it is an order of summation.
static int lanes_of_row(const tc_ex *s, int64_t n) {
  int lanes = tc_ex_lanes_for(n), most = s->target->threads_most * TC_LANES_OF_THREAD;
  while (lanes < most && lanes * (int64_t)ROW_TURNS < n) lanes *= 2;
  return lanes;
}

// Blocks that a row is spread over, so that each thread holds its share in registers; 0: one.
static int cluster_of_row(const tc_ex *s) {
  int least = 2;
  if (s->gp->kind != TC_GROUP_ROW || !tc_target_clusters(s->target, s->gp->a, s->gp->f)) return 0;
  while (least < s->target->cluster && least * (int64_t)(CLUSTER_THREADS * TC_LANES_OF_THREAD * CLUSTER_TURNS) < s->gp->f) least *= 2;
  return least;
}

// Every value first, then the stores: an output may be the memory of an operand.
void tc_ex_stores(tc_ex *s) {
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++) (void)member(s, s->gp->member[i]);  // operands first: no deep recursion
  for (uint32_t i = 0; i < s->gp->n_member && s->st == TC_OK; i++)
    if (tc_ex_must_store(s, s->gp->member[i])) store(s, s->gp->member[i]);
}

bool tc_ex_follow(const tc_ex *s, uint32_t *n, const tc_index *idx, const tc_extents *e, tc_index *flat) {
  tc_index here[TC_MAX_RANK], next[TC_MAX_RANK];
  memcpy(here, idx, sizeof here);
  while (!s->gr->stored[tc_group_root(s->gr, *n)]) {
    if (!tc_view_operand(s->g, *n, 0, here, e, next)) return false;
    *n = s->g->node[*n].in[0];
    memcpy(here, next, sizeof here);
  }
  return tc_ix_flatten(here, &s->g->node[*n].shape->d, e, flat);
}

// Constants of the whole kernel are loaded before its loops.
void tc_ex_preload(tc_ex *s) {
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    const tc_gnode *x = &s->g->node[n];
    for (int k = 0; k < x->n_in; k++) {
      uint32_t m = x->in[k];
      const tc_gnode *y = &s->g->node[m];
      if (y->op == TC_OP_FULL && !s->gr->stored[m] && !in_group(s, m)) (void)tc_ex_argument(s, y->arg, tc_ex_compute_type(y->type));
    }
  }
}

typedef struct far_sources {
  const tc_ex *s;
  uint32_t node[MAX_FAR], n;
} far_sources;

static void note_far(void *arg, uint32_t source, bool moved) {
  far_sources *f = arg;
  if (moved || in_group(f->s, source) || !is_far(&f->s->g->node[source]) || f->n == MAX_FAR) return;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->node[i] == source) return;
  f->node[f->n++] = source;
}

// How far ahead an elementwise kernel asks for what it loads: where arithmetic keeps the processor from looking ahead, so that computing and loading take
// turns. On two cores of Sapphire Rapids, of the bandwidth of a + b: sin(a) + cos(b) 71 % without and 91 % with it, gelu 59 and 83 %, silu 70 and 96 %; but
// Adam, which has less arithmetic an operand, 84 and 71 %.
static int64_t flat_ahead(const tc_ex *s) {
  far_sources f = {.s = s};
  double cost = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *x = &s->g->node[s->gp->member[i]];
    cost += tc_emit_cost(x->op, tc_ex_compute_type(x->type));
    tc_group_each_source(s->gr, s->gp->member[i], note_far, &f);
  }
  return f.n > 0 && cost >= DEAR_COST * (double)f.n ? AHEAD : 0;
}

// Lanes of an elementwise kernel: a whole block where there is little arithmetic. A dear function has a dozen values and constants at once, so it is done on
// a quarter as many vectors as there are registers, two such functions on an eighth: more are kept in memory, fewer wait for each other. With 16
// registers, on a Zen 3 in its second cache, times as fast as by blocks of 64: tanh gelu 0.78 by 8 lanes, 0.90 by 16, 1.10 by 32; sin(a) + cos(b) 1.01,
// 1.15, 1.05. With 32 registers of 16 lanes a block is what this allows.
static int flat_lanes(const tc_ex *s) {
  const tc_isa *isa = tc_kernel_isa();
  int n_dear = 0, vector = isa->vector_bytes / (int)sizeof(float);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *x = &s->g->node[s->gp->member[i]];
    n_dear += tc_emit_cost(x->op, tc_ex_compute_type(x->type)) >= DEAR_COST;
  }
  return n_dear == 0 ? LANES : isa->registers / (n_dear == 1 ? 4 : 8) * vector;
}

// FLAT with K in one range: [begin, end) counts blocks; the number of elements is an argument, so that one kernel serves every size.
static void flat_kernel(tc_ex *s) {
  int64_t n = s->gp->k;
  int block = tc_target_is_gpu(s->target) ? power_for(n, GPU_FLAT_LANES) : tc_ex_lanes_for(n);
  s->lanes = tc_target_is_gpu(s->target) ? block : TC_MIN(block, flat_lanes(s));
  tc_ex_set_threads(s, s->lanes);
  s->vector = TC_RANGE_K;
  tc_val count = tc_emit_raw(&s->e, TC_N_NUM, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, num_of(s, false, (uint64_t)n));
  tc_val size = tc_ex_i64(s, block);
  tc_val begin = tc_emit_raw(&s->e, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val end = tc_emit_raw(&s->e, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val whole = tc_emit_bin(&s->e, TC_N_DIV, count, size);
  tc_val stop = tc_emit_bin(&s->e, TC_N_MUL, tc_emit_bin(&s->e, TC_N_MIN, end, whole), size);
  tc_val start = tc_emit_bin(&s->e, TC_N_MUL, begin, size);
  tc_ex_preload(s);
  s->bound[TC_RANGE_K] = true;
  s->at[TC_RANGE_K] = tc_ex_loop(s, start, stop, s->lanes);
  s->stream = true, s->ahead = tc_target_is_gpu(s->target) ? 0 : flat_ahead(s), s->asks = INT_MAX;
  tc_ex_stores(s);
  s->stream = false, s->ahead = 0;
  tc_ex_end_loop(s);
  // The last, partial block belongs to whoever has the end.
  tc_val tail = tc_emit_select(&s->e, tc_emit_bin(&s->e, TC_N_GT, end, whole), tc_emit_bin(&s->e, TC_N_MUL, whole, size), count);
  s->at[TC_RANGE_K] = tc_ex_loop(s, tail, count, s->lanes);
  tc_ex_set_mask(s, s->at[TC_RANGE_K], count);
  tc_ex_stores(s);
  tc_ex_end_loop(s);
  s->x->extent = tc_ceil_div(n, block);
}

// Rows of lanes along K's lower part (FLAT with a split K, COL) or rows of F (ROW): [begin, end) counts A * K0 * blocks.
static void row_kernel(tc_ex *s) {
  bool along_f = s->gp->kind == TC_GROUP_ROW;
  int64_t inner = along_f ? 1 : s->split ? s->split : s->gp->k, k0 = s->split ? s->gp->k / s->split : 1;
  s->lanes = along_f ? lanes_of_row(s, s->gp->f) : tc_target_is_gpu(s->target) ? power_for(inner, GPU_COLUMN_LANES) : tc_ex_lanes_for(inner);
  int cluster = cluster_of_row(s);
  if (cluster) s->lanes = cluster * CLUSTER_THREADS * TC_LANES_OF_THREAD;
  tc_ex_set_threads(s, s->lanes);
  s->x->nest.cluster = (uint16_t)cluster;
  s->vector = along_f ? TC_RANGE_F : TC_RANGE_K;
  int64_t blocks = along_f ? 1 : (inner + s->lanes - 1) / s->lanes;
  if (s->gp->kind != TC_GROUP_FLAT) choose_stashes(s);
  s->n_turned = 0;
  tc_ex_preload(s);
  tc_val begin = tc_emit_raw(&s->e, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val end = tc_emit_raw(&s->e, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = tc_ex_loop(s, begin, end, 1);
  tc_val upper = blocks == 1 ? o : tc_emit_bin(&s->e, TC_N_DIV, o, tc_ex_i64(s, blocks));
  if (!along_f) {
    tc_val block = blocks == 1 ? tc_ex_i64(s, 0) : tc_emit_bin(&s->e, TC_N_REM, o, tc_ex_i64(s, blocks));
    s->at[TC_RANGE_K] = tc_emit_bin(&s->e, TC_N_MUL, block, tc_ex_i64(s, s->lanes));
    if (inner % s->lanes) tc_ex_set_mask(s, s->at[TC_RANGE_K], tc_ex_i64(s, inner));
  } else {
    s->at[TC_RANGE_K] = tc_ex_i64(s, 0);
  }
  s->at[TC_RANGE_K0] = k0 == 1 ? tc_ex_i64(s, 0) : tc_emit_bin(&s->e, TC_N_REM, upper, tc_ex_i64(s, k0));
  s->at[TC_RANGE_A] = k0 == 1 ? upper : tc_emit_bin(&s->e, TC_N_DIV, upper, tc_ex_i64(s, k0));
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  if (s->gp->kind == TC_GROUP_FLAT)
    tc_ex_stores(s);
  else
    row(s);
  tc_ex_end_loop(s);
  s->x->extent = s->gp->a * k0 * blocks;
}

// ROW with sums of columns: [begin, end) counts parts of rows.
static void part_kernel(tc_ex *s) {
  int64_t part = s->gp->part;
  s->lanes = tc_ex_lanes_for(s->gp->f), s->vector = TC_RANGE_F;
  choose_stashes(s);
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    if (is_column(s, n)) s->stash[n] = tc_ex_tile_of_lanes(s, tc_ex_compute_type(s->g->node[s->g->node[n].in[0]].type), s->gp->f);
  }
  tc_ex_preload(s);
  tc_val begin = tc_emit_raw(&s->e, TC_N_BEGIN, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val end = tc_emit_raw(&s->e, TC_N_FINISH, TC_I64, 1, TC_NONE, TC_NONE, TC_NONE, 0);
  tc_val o = tc_ex_loop(s, begin, end, 1), first = tc_emit_bin(&s->e, TC_N_MUL, o, tc_ex_i64(s, part));
  s->at[TC_RANGE_K] = s->at[TC_RANGE_K0] = tc_ex_i64(s, 0);
  s->bound[TC_RANGE_A] = s->bound[TC_RANGE_K] = s->bound[TC_RANGE_K0] = true;
  over_columns(s, false);
  s->at[TC_RANGE_A] = tc_ex_loop(s, first, tc_emit_bin(&s->e, TC_N_ADD, first, tc_ex_i64(s, part)), 1);
  row(s);
  tc_ex_end_loop(s);
  s->at[TC_RANGE_A] = first;
  over_columns(s, true);
  tc_ex_end_loop(s);
  s->x->extent = s->gp->a / part;
}

static void contraction(tc_ex *s) {
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    uint32_t n = s->gp->member[i];
    tc_op op = s->g->node[n].op;
    if (tc_op_kind_of(op) != TC_KIND_CONTRACT) continue;
    if (op == TC_OP_CONV_DIRECT) tc_ex_direct(s, n);
    if (op == TC_OP_WINOGRAD) tc_ex_winograd(s, n);
    if (op == TC_OP_WINOGRAD_WEIGHT) tc_ex_winograd_weight(s, n);
    if (op == TC_OP_MATMUL && tc_target_is_gpu(s->target)) tc_ex_gpu_product(s);
    if (op == TC_OP_MATMUL && !tc_target_is_gpu(s->target)) tc_ex_product(s);
    return;
  }
}

static void generate(tc_ex *s) {
  find_depths(s);
  if (s->gp->kind == TC_GROUP_GEMM)
    contraction(s);
  else if (s->gp->kind == TC_GROUP_ATTENTION && tc_target_is_gpu(s->target))
    tc_ex_gpu_attention(s);
  else if (s->gp->kind == TC_GROUP_ATTENTION)
    tc_ex_attention(s);
  else if (s->gp->kind == TC_GROUP_FLAT && !s->split)
    flat_kernel(s);
  else if (s->gp->kind == TC_GROUP_FLAT && s->turning)
    tc_ex_turning_kernel(s);
  else if (s->gp->part)
    part_kernel(s);
  else
    row_kernel(s);
}

// The extent of K's lower part: the smallest cut, if every other cut and K are multiples of it; 0: none.
static int64_t choose_split(const tc_ex *s) {
  int64_t k = s->gp->k, least = k;
  if (tc_target_is_gpu(s->target) || s->gp->kind == TC_GROUP_ROW || s->gp->kind == TC_GROUP_GEMM || s->gp->kind == TC_GROUP_ATTENTION) return 0;
  for (int i = 0; i < s->n_points; i++)
    if (s->points[i] > 1) least = TC_MIN(least, s->points[i]);
  if (least == k || k % least) return 0;
  for (int i = 0; i < s->n_points; i++)
    if (s->points[i] % least && s->points[i] != 1) return 0;
  return least;
}

static void reset_state(tc_ex *s) {
  s->x->nest.n_inst = s->x->nest.n_tile = 0;
  s->x->nest.scratch_bytes = 0;
  s->x->nest.threads = s->x->nest.groups = s->x->nest.cluster = 0;
  s->x->n_buf = s->x->n_num = 0;
  s->x->unsaid = TC_NONE;
  s->x->asks_next = false;
  s->x->writes = 0, s->x->same = ~UINT64_C(0);
  s->run = 0;
  memset(s->off, 0xFF, sizeof s->off);
  s->n_held = 0;
  s->n_points = 0, s->n_listed = 0, s->depth = 0, s->n_path = 0, s->given_node = TC_NONE;
  s->mask = s->cond = TC_NONE;
  memset(s->bound, 0, sizeof s->bound);
  memset(s->memo, 0xFF, s->g->n * sizeof s->memo[0]);
  memset(s->stash, 0xFF, s->g->n * sizeof s->stash[0]);
  memset(s->stashed, 0, s->g->n);
  memset(s->asked, 0, s->g->n);
  memset(s->passes, 0, s->g->n * sizeof s->passes[0]);
}

// Whether node n is stored as what is assigned, which may be written over the old value.
static bool is_assigned(const tc_ex *s, uint32_t n) {
  uint32_t out = s->g->node[n].out;
  return out != TC_LEAF_NONE && s->g->plan && tc_rec_op(tc_plan_rec(s->g->plan, s->g->plan->out[out].node)) == TC_OP_ASSIGN;
}

static tc_status finish(tc_ex *s) {
  tc_expansion *x = s->x;
  const tc_gnode *last = &s->g->node[s->gp->member[s->gp->n_member - 1]];
  snprintf(x->stem, sizeof x->stem, "%s_%s_%u", tc_type_name(last->type), tc_op_names[last->op], s->gp->n_member);
  if (s->e.uneven) return TC_FAIL(TC_ERR_COMPILE, "the expansion of %s is malformed: a vector is spread over lanes that it does not divide", x->stem);
  x->nest.n_buf = x->n_buf, x->nest.n_num = x->n_num;
  for (uint32_t i = 0; i < x->nest.n_inst; i++) {  // tiles are numbered behind the buffers
    tc_ninst *inst = &x->nest.inst[i];
    bool memory = inst->op >= TC_N_LOAD && inst->op <= TC_N_PREFETCH;
    if (memory && inst->imm >= TC_MAX_BUFS) inst->imm += (int64_t)x->n_buf - TC_MAX_BUFS;
  }
  x->nest.buf_type = tc_calloc(x->n_buf + 1, 1);
  x->read = tc_arena_alloc(s->arena, (x->n_buf + 1) * sizeof x->read[0]);
  x->written = tc_arena_alloc(s->arena, (x->n_buf + 1) * sizeof x->written[0]);
  if (!x->nest.buf_type || !x->read || !x->written || s->e.failed) return TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
  uint64_t elements = 0;
  for (uint32_t i = 0; i < x->n_buf; i++) {
    const tc_gnode *n = &s->g->node[x->buf[i]];
    x->nest.buf_type[i] = (uint8_t)n->type;
    x->bytes += (uint64_t)n->shape->count * tc_type_bytes(n->type);
    if (x->writes >> i & 1)
      x->written[x->n_written++] = x->buf[i];
    else
      x->read[x->n_read++] = x->buf[i];
    elements = TC_MAX_OF(elements, (uint64_t)n->shape->count);
  }
  if (s->gp->kind != TC_GROUP_FLAT && s->gp->kind != TC_GROUP_GEMM) x->same = 0;
  bool assigns = false;
  for (uint32_t i = 0; i < x->n_written; i++) assigns |= is_assigned(s, x->written[i]);
  x->nest.over = assigns && tc_target_is_gpu(s->target) ? x->same & ~x->writes & ((UINT64_C(2) << (x->n_buf - 1)) - 1) : 0;
  uint64_t domain = (uint64_t)(s->gp->a * s->gp->f * s->gp->k);
  for (uint32_t i = 0; i < s->gp->n_member; i++)
    if (tc_op_kind_of(s->g->node[s->gp->member[i]].op) == TC_KIND_RNG) x->work += (double)domain * TC_DRAW_NS;
  x->work += (double)TC_MAX_OF(elements, domain) * (0.02 * s->gp->n_member + 0.05) + (double)x->bytes * 0.02 + 50;
  char why[256];
#ifndef NDEBUG
  tc_status st = tc_nest_verify(&x->nest, why, sizeof why);
  if (st != TC_OK) return TC_FAIL(st == TC_ERR_MEMORY ? st : TC_ERR_COMPILE, "the expansion of %s is malformed: %s", x->stem, why);
#endif
  (void)why;
  return TC_OK;
}

tc_status tc_expand_group(tc_expansion *out, const tc_grouping *gr, const tc_group *group, const tc_cut *cut, tc_arena *arena) {
  *out = (tc_expansion){.unsaid = TC_NONE};
  tc_ex s = {.e = {.nest = &out->nest}, .x = out, .gr = gr, .g = gr->graph, .gp = group, .cut = cut, .target = &gr->graph->target, .arena = arena};
  s.ext = tc_view_extents(group->a, group->f, group->k);
  s.memo = tc_arena_alloc(arena, (s.g->n + 1) * sizeof s.memo[0]);
  s.memo_depth = tc_arena_alloc(arena, s.g->n + 1);
  s.fold_depth = tc_arena_alloc(arena, s.g->n + 1);
  s.listed = tc_arena_alloc(arena, (s.g->n * 2 + 1) * sizeof s.listed[0]);
  s.stash = tc_arena_alloc(arena, (s.g->n + 1) * sizeof s.stash[0]);
  s.stash_pass = tc_arena_alloc(arena, s.g->n + 1);
  s.stashed = tc_arena_alloc(arena, s.g->n + 1);
  s.asked = tc_arena_alloc(arena, s.g->n + 1);
  s.passes = tc_arena_alloc(arena, (s.g->n + 1) * sizeof s.passes[0]);
  bool room = s.memo && s.memo_depth && s.fold_depth && s.listed && s.stash && s.stash_pass && s.stashed && s.asked && s.passes;
  tc_status st = room ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a kernel");
  if (st == TC_OK) {
    reset_state(&s);
    generate(&s);
    s.split = choose_split(&s);
    if (s.split && s.st == TC_OK) {
      reset_state(&s);
      generate(&s);
      if (s.st != TC_OK) {  // the parts of K made an index too long: without them it can be said
        s.st = TC_OK, s.split = 0;
        reset_state(&s);
        generate(&s);
      }
    }
    if (s.split && s.n_turned && s.st == TC_OK) {
      reset_state(&s);
      s.turning = 1;
      generate(&s);
    }
    // With a node to store, or smaller groups, the caller tries again, so nothing is reported yet.
    st = s.st == TC_OK || out->unsaid != TC_NONE || out->full ? s.st : TC_FAIL(s.st, "%s", s.what);
  }
  if (st == TC_OK) st = finish(&s);
  if (st != TC_OK) tc_nest_destroy(&out->nest);
  return st;
}
