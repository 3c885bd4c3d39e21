// Programs for many sizes: expressions of their numbers, and copies bound to some sizes. See
// size_piece.h.
#include "lowering/program/size_piece.h"

#include <string.h>

#include "lowering/program/memory_plan.h"
#include "lowering/program/program.h"
#include "lowering/program/size_sample.h"
#include "lowering/program/stages.h"
#include "lowering/tiling/summation.h"
#include "runtime/arena.h"

#define MOST_QUANTITIES 192
#define MOST_NUMBERS TC_MAX_EXTRA_SCALARS  // of one kernel

typedef enum patch_kind {
  PATCH_NUM,
  PATCH_EXTENT,  // of a step
  PATCH_ALLOCATION,
  PATCH_ATTR,
  PATCH_DIM,  // of a shape of `shapes`
} patch_kind;

// A number of the program that an expression gives.
typedef struct patch {
  uint8_t kind, axis;
  uint32_t at, expr;
} patch;

// How a step's estimated time, or its bytes, which profiles alone tell, follow the sizes: as the
// expression does, or nearly.
typedef struct estimate {
  double times;
  uint32_t expr;  // UINT32_MAX: it does not vary
} estimate;

struct tc_size_piece {
  tc_program *p;  // a complete program at one sample of the sizes
  tc_size_expr *expr;
  uint32_t n_expr, cap_expr;
  patch *patch;
  uint32_t n_patch, cap_patch;
  // shapes of reference kernels' values; per row_value: one more than its shape, 0: a fixed one
  tc_dims *shape;
  uint32_t n_shape, cap_shape, *shape_of;
  estimate *work, *bytes;  // per step
  uint32_t *donor, n_out;
  struct guard {
    tc_fold_guard is;
    uint32_t run, part;  // expressions. part: UINT32_MAX: it does not vary
  } *guard;  // folds that are cut alike at all sizes that may be bound
  uint32_t n_guard;
  tc_size_split split;
  tc_size_box box;  // of the sizes, split
  uint32_t n_kernels, n_left;
};

// ---- fits ----

typedef struct maker {
  const tc_size_list *x;
  tc_size_piece *piece;
  tc_size_quantity *q;
  uint32_t n_q;
  int64_t (*seen)[TC_MAX_SAMPLES];  // per expression: its values
  uint32_t cap_seen;
  const char *why;
} maker;

static bool fail(maker *m, const char *why) {
  m->why = why;
  return false;
}

static bool varies(const maker *m, const int64_t *value) {
  for (uint32_t i = 1; i < m->x->at.n; i++)
    if (value[i] != value[0]) return true;
  return false;
}

static void add_quantity(maker *m, const int64_t *value) {
  if (!varies(m, value) || m->n_q == MOST_QUANTITIES) return;
  for (uint32_t i = 0; i < m->n_q; i++)
    if (memcmp(m->q[i].value, value, m->x->at.n * sizeof *value) == 0) return;
  tc_size_quantity *q = &m->q[m->n_q];
  memcpy(q->value, value, m->x->at.n * sizeof *value);
  m->n_q += tc_size_fit_terms(&m->x->at, value, &q->expr);
}

// Extents, and products of a node's last extents, in elements and bytes.
static void list_quantities(maker *m) {
  const tc_graph *g = &m->x->of[0].p->graph;
  for (uint32_t k = 0; k < g->n_order; k++) {
    uint32_t n = g->order[k];
    int rank = g->node[n].shape->d.rank;
    int64_t extent[TC_MAX_SAMPLES], product[TC_MAX_SAMPLES];
    for (uint32_t i = 0; i < m->x->at.n; i++) product[i] = 1;
    for (int a = rank; a-- > 0;) {
      for (uint32_t i = 0; i < m->x->at.n; i++) product[i] *= extent[i] = m->x->of[i].p->graph.node[n].shape->d.dim[a];
      add_quantity(m, extent);
      add_quantity(m, product);
    }
    for (uint32_t i = 0; i < m->x->at.n; i++) product[i] *= (int64_t)tc_type_bytes(g->node[n].type);
    add_quantity(m, product);
  }
}

// The expression with these values, which vary. False: none is known.
static bool express(maker *m, const int64_t *value, uint32_t *out) {
  tc_size_piece *p = m->piece;
  for (*out = 0; *out < p->n_expr; ++*out)
    if (memcmp(m->seen[*out], value, m->x->at.n * sizeof *value) == 0) return true;
  if (!TC_GROW(p->expr, p->cap_expr, p->n_expr + 1) || !TC_GROW(m->seen, m->cap_seen, p->n_expr + 1))
    return fail(m, "there is no memory");
  if (!tc_size_fit(&m->x->at, value, m->q, m->n_q, &p->expr[p->n_expr])) return false;
  memcpy(m->seen[p->n_expr++], value, m->x->at.n * sizeof *value);
  return true;
}

static bool add_patch(maker *m, patch_kind kind, uint32_t at, uint8_t axis, const int64_t *value) {
  tc_size_piece *p = m->piece;
  uint32_t expr;
  if (!varies(m, value)) return true;
  if (!express(m, value, &expr)) return fail(m, m->why ? m->why : "a number follows sizes in no simple way");
  if (!TC_GROW(p->patch, p->cap_patch, p->n_patch + 1)) return fail(m, "there is no memory");
  p->patch[p->n_patch++] = (patch){(uint8_t)kind, axis, at, expr};
  return true;
}

// ---- kernels ----

static const tc_step *step_of(const maker *m, uint32_t sample, uint32_t i) {
  return &m->x->of[sample].p->step[i];
}

// Whether the instruction's value goes to prefetches alone, which may name any address.
static bool is_for_prefetch(const tc_kir *k, uint32_t at, int depth) {
  for (uint32_t i = at + 1; i < k->n_inst; i++) {
    const tc_kir_inst *x = &k->inst[i];
    bool uses = false;
    for (int s = 0; s < 4; s++) uses |= x->src[s] == at;
    if (!uses || x->op == TC_IR_PREFETCH) continue;
    if (x->op != TC_IR_ADD || depth == 0 || !is_for_prefetch(k, i, depth - 1)) return false;
  }
  return true;
}

// Makes tiles as large as the largest sample's, one behind the other.
static bool widen_tiles(maker *m, uint32_t step, tc_kir *kir) {
  kir->scratch_bytes = 0;
  for (uint32_t t = 0; t < kir->n_tile; t++) {
    int64_t n[TC_MAX_SAMPLES];
    uint32_t expr;
    for (uint32_t i = 0; i < m->x->at.n; i++) {
      n[i] = tc_size_kir(step_of(m, i, step))->tile[t].n;
      kir->tile[t].n = TC_MAX_OF(kir->tile[t].n, n[i]);
    }
    if (varies(m, n) && !express(m, n, &expr)) return fail(m, "scratch memory follows sizes in no simple way");
    kir->tile[t].offset = kir->scratch_bytes;
    kir->scratch_bytes += (kir->tile[t].n * (int64_t)tc_type_bytes((tc_type)kir->tile[t].dtype) + 63) / 64 * 64;
  }
  return true;
}

// Makes constants that vary arguments behind those that the kernel has. value: per argument, its
// number in each sample; returns how many there are, UINT32_MAX on failure.
static uint32_t widen_constants(maker *m, uint32_t step, tc_kir *kir, int64_t (*value)[TC_MAX_SAMPLES]) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < kir->n_inst; k++) {
    tc_kir_inst *inst = &kir->inst[k];
    int64_t v[TC_MAX_SAMPLES];
    if (!tc_size_may_vary(inst)) continue;
    for (uint32_t i = 0; i < m->x->at.n; i++) v[i] = tc_size_kir(step_of(m, i, step))->inst[k].imm;
    if (!varies(m, v) || is_for_prefetch(kir, k, 2)) continue;
    uint32_t at = 0;
    while (at < n && memcmp(value[at], v, m->x->at.n * sizeof v[0]) != 0) at++;
    if (at == MOST_NUMBERS) return fail(m, "a kernel has too many numbers that vary"), UINT32_MAX;
    if (at == n) memcpy(value[n++], v, m->x->at.n * sizeof v[0]);
    inst->op = TC_IR_NUM, inst->imm = kir->n_num + at;
  }
  kir->n_num += n;
  return n;
}

// The numbers of one step: those that it has, those of a kernel for any number of rows, and its
// constants that vary.
static bool widen_step(maker *m, uint32_t i, tc_num_source **num, uint32_t *n_num, uint32_t *cap_num) {
  tc_program *p = m->x->of[0].p;
  tc_step *s = &p->step[i];
  tc_pending_kernel *d = s->pending;
  int64_t v[TC_MAX_SAMPLES], value[MOST_NUMBERS][TC_MAX_SAMPLES];
  uint32_t n_rows = d ? d->generic.n_value : 0, n_const = 0, first = *n_num;
  bool any_rows = d && d->generic.kir.n_inst;
  for (uint32_t k = 0; k < m->x->at.n && s->is_matmul; k++) {  // whether pairs are added depends on k being even
    const tc_matmul_facts *f = &step_of(m, k, i)->pending->matmul;
    if (f->of.k != d->matmul.of.k && (f->left.type == TC_BF16 || f->left.type == TC_I32))
      return fail(m, "a matmul of bf16 adds along a size that varies");
  }
  for (uint32_t k = 0; k < m->x->at.n; k++) {
    const tc_step *t = step_of(m, k, i);
    v[k] = any_rows ? t->pending->generic_extent : t->extent;
  }
  s->extent = v[0];
  if (!add_patch(m, PATCH_EXTENT, i, 0, v)) return false;
  if (d) {
    tc_kir *kir = any_rows ? &d->generic.kir : &d->kir;
    n_const = widen_constants(m, i, kir, value);
    if (n_const == UINT32_MAX || !widen_tiles(m, i, kir)) return false;
  }
  if (!TC_GROW(*num, *cap_num, first + s->n_num + n_rows + n_const)) return fail(m, "there is no memory");
  for (uint32_t k = 0; k < s->n_num + n_rows + n_const; k++) {
    for (uint32_t j = 0; j < m->x->at.n; j++) {
      const tc_program *q = m->x->of[j].p;
      const tc_step *t = &q->step[i];
      v[j] = k < s->n_num            ? (int64_t)q->num[t->first_num + k].value
             : k < s->n_num + n_rows ? (int64_t)t->pending->generic.value[k - s->n_num]
                                     : value[k - s->n_num - n_rows][j];
    }
    bool is_arg = k < s->n_num && p->num[s->first_num + k].is_arg;
    (*num)[(*n_num)++] = (tc_num_source){is_arg, (uint64_t)v[0]};
    if (!is_arg && !add_patch(m, PATCH_NUM, first + k, 0, v)) return false;
  }
  return true;
}

// Puts the kernel for any number of rows in the place of the other.
static void take_any_rows(tc_step *s) {
  tc_pending_kernel *d = s->pending;
  if (!d || !d->generic.kir.n_inst) return;
  tc_kir_destroy(&d->kir);
  d->kir = d->generic.kir;
  d->generic.kir = (tc_kir){0};
  tc_shape_generic_drop(&d->generic);
}

static bool widen_steps(maker *m) {
  tc_program *p = m->x->of[0].p;
  tc_num_source *num = NULL;
  uint32_t n_num = 0, cap_num = 0, *first = tc_malloc((p->n_step + 1) * sizeof *first);
  bool ok = first != NULL;
  for (uint32_t i = 0; i < p->n_step && ok; i++) first[i] = n_num, ok = widen_step(m, i, &num, &n_num, &cap_num);
  for (uint32_t i = 0; i < p->n_step && ok; i++) {
    p->step[i].first_num = first[i];
    p->step[i].n_num = (i + 1 < p->n_step ? first[i + 1] : n_num) - first[i];
    take_any_rows(&p->step[i]);
  }
  tc_free(first);
  if (!ok) return tc_free(num), false;
  tc_free(p->num);
  p->num = num, p->n_num = n_num, p->cap_num = cap_num;
  for (uint32_t i = 0; i < p->prepare->n_step; i++) tc_shape_generic_drop(&p->prepare->step[i].pending->generic);
  return true;
}

// ---- estimates, memory, reference kernels ----

// The quantity, or 1, in proportion to which the values are most nearly.
static estimate estimate_of(maker *m, const double *value) {
  double best = 1e300;
  estimate out = {value[0], UINT32_MAX};
  for (uint32_t k = 0; k <= m->n_q; k++) {
    double least = 1e300, most = 0;
    for (uint32_t i = 0; i < m->x->at.n; i++) {
      double r = value[i] / (k < m->n_q ? TC_MAX_OF((double)m->q[k].value[i], 1.0) : 1.0);
      least = TC_MIN(least, r), most = TC_MAX_OF(most, r);
    }
    if (most - least >= best * TC_MAX_OF(least, 1e-9)) continue;
    uint32_t expr = UINT32_MAX;
    if (k < m->n_q && !express(m, m->q[k].value, &expr)) continue;
    best = (most - least) / TC_MAX_OF(least, 1e-9);
    out = (estimate){(least + most) / 2, expr};
  }
  return out;
}

// An allocation has the bytes of a value, in whole lines of 64. Where the value's own extents are
// rounded, it is a number like others.
static bool express_bytes(maker *m, const int64_t *value) {
  tc_size_piece *p = m->piece;
  tc_size_expr e;
  if (!varies(m, value)) return true;
  for (uint32_t i = 0; i < p->n_expr; i++)
    if (memcmp(m->seen[i], value, m->x->at.n * sizeof *value) == 0) return true;
  if (!tc_size_fit_rounded(&m->x->at, value, m->q, m->n_q, TC_SIZE_CEIL, 64, &e)) return true;
  if (!TC_GROW(p->expr, p->cap_expr, p->n_expr + 1) || !TC_GROW(m->seen, m->cap_seen, p->n_expr + 1))
    return fail(m, "there is no memory");
  memcpy(m->seen[p->n_expr], value, m->x->at.n * sizeof *value);
  p->expr[p->n_expr++] = e;
  return true;
}

static bool express_sizes(maker *m) {
  const tc_program *p = m->x->of[0].p;
  int64_t v[TC_MAX_SAMPLES];
  double w[TC_MAX_SAMPLES];
  m->piece->work = tc_malloc((p->n_step + 1) * sizeof *m->piece->work);
  m->piece->bytes = tc_malloc((p->n_step + 1) * sizeof *m->piece->bytes);
  if (!m->piece->work || !m->piece->bytes) return fail(m, "there is no memory");
  for (uint32_t i = 0; i < p->n_step; i++) {
    for (uint32_t k = 0; k < m->x->at.n; k++) w[k] = step_of(m, k, i)->work;
    m->piece->work[i] = estimate_of(m, w);
    for (uint32_t k = 0; k < m->x->at.n; k++) w[k] = (double)step_of(m, k, i)->bytes;
    m->piece->bytes[i] = estimate_of(m, w);
  }
  for (uint32_t i = 0; i < p->n_allocation; i++) {
    for (uint32_t k = 0; k < m->x->at.n; k++) v[k] = (int64_t)m->x->of[k].p->allocation[i].bytes;
    if (!express_bytes(m, v) || !add_patch(m, PATCH_ALLOCATION, i, 0, v)) return false;
  }
  return true;
}

// The shape of graph node n, as a number of `shape`, whose varying extents have patches. 0: it does
// not vary. UINT32_MAX on failure.
static uint32_t express_shape(maker *m, uint32_t n) {
  tc_size_piece *p = m->piece;
  const tc_dims *d = &m->x->of[0].p->graph.node[n].shape->d;
  bool any = false;
  for (int a = 0; a < d->rank; a++) {
    int64_t v[TC_MAX_SAMPLES];
    for (uint32_t k = 0; k < m->x->at.n; k++) v[k] = m->x->of[k].p->graph.node[n].shape->d.dim[a];
    any |= varies(m, v);
    if (!add_patch(m, PATCH_DIM, p->n_shape, (uint8_t)a, v)) return UINT32_MAX;
  }
  if (!any) return 0;
  if (!TC_GROW(p->shape, p->cap_shape, p->n_shape + 1)) return fail(m, "there is no memory"), UINT32_MAX;
  p->shape[p->n_shape++] = *d;
  return p->n_shape;
}

static bool is_row(const tc_step *s) {
  return s->kind == TC_STEP_ROW || s->kind == TC_STEP_ZERO;
}

// Shapes and attributes of reference kernels, in the order in which a whole program has them.
static bool express_rows(maker *m) {
  tc_program *p = m->x->of[0].p;
  uint32_t n_value = 0, n_attr = 0, at = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n_value += is_row(&p->step[i]) ? p->step[i].n_binding : 0;
  m->piece->shape_of = tc_calloc(n_value + 1, sizeof *m->piece->shape_of);
  if (!m->piece->shape_of) return fail(m, "there is no memory");
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (!is_row(&p->step[i])) continue;
    const tc_gnode *x = &p->graph.node[p->step[i].node];
    for (int k = -1; k < x->n_in; k++) {
      uint32_t shape = express_shape(m, k < 0 ? p->step[i].node : x->in[k]);
      if (shape == UINT32_MAX) return false;
      if (at < n_value) m->piece->shape_of[at++] = shape;
    }
    for (int a = 0; a < x->n_attr; a++) {
      int64_t v[TC_MAX_SAMPLES];
      for (uint32_t k = 0; k < m->x->at.n; k++) v[k] = (int64_t)m->x->of[k].p->graph.node[p->step[i].node].attr[a];
      if (!add_patch(m, PATCH_ATTR, n_attr++, 0, v)) return false;
    }
  }
  return true;
}

// Long folds whose length varies.
static bool express_guards(maker *m) {
  const tc_graph *g = &m->x->of[0].p->graph;
  m->piece->guard = tc_malloc((g->n_guard + 1) * sizeof *m->piece->guard);
  if (!m->piece->guard) return fail(m, "there is no memory");
  for (uint32_t i = 0; i < g->n_guard; i++) {
    int64_t run[TC_MAX_SAMPLES], part[TC_MAX_SAMPLES];
    struct guard x = {.is = g->guard[i], .part = UINT32_MAX};
    for (uint32_t k = 0; k < m->x->at.n; k++)
      run[k] = m->x->of[k].p->graph.guard[i].run, part[k] = m->x->of[k].p->graph.guard[i].part;
    if (!varies(m, run)) continue;
    if (!express(m, run, &x.run) || (varies(m, part) && !express(m, part, &x.part)))
      return fail(m, "the length of a fold follows sizes in no simple way");
    m->piece->guard[m->piece->n_guard++] = x;
  }
  return true;
}

// ---- pieces ----

static bool make_piece(maker *m, tc_size_list *x) {
  tc_size_piece *piece = m->piece;
  tc_plan *plan = &x->of[0].plan;
  m->q = tc_malloc(MOST_QUANTITIES * sizeof *m->q);
  if (!m->q) return fail(m, "there is no memory");
  list_quantities(m);
  piece->n_out = plan->n_out;
  piece->donor = tc_malloc((plan->n_out + 1) * sizeof *piece->donor);
  if (!piece->donor) return fail(m, "there is no memory");
  for (uint32_t o = 0; o < plan->n_out; o++) piece->donor[o] = plan->out[o].donor;
  if (!express_guards(m) || !express_sizes(m) || !express_rows(m) || !widen_steps(m)) return false;
  tc_error_mark before = tc_error_now();
  tc_program *p = x->of[0].p;
  uint32_t n_left = p->graph.n_order;
  if (x->by->complete(p, plan) != TC_OK) {
    (void)tc_error_tell(before);
    return fail(m, "a kernel for many sizes is not compiled");
  }
  piece->n_left = n_left, piece->n_kernels = tc_stages_count_kernels(p, NULL);
  piece->p = p, x->of[0].p = NULL;
  return true;
}

// The box of the graph's sizes.
static void join_box(const tc_size_split *s, tc_size_box *box) {
  if (!s->is_split || box->low[s->n_size] == 0) return;
  box->low[s->size] *= box->low[s->n_size], box->high[s->size] *= box->high[s->n_size];
  box->low[s->n_size] = box->high[s->n_size] = 0;
}

tc_size_piece *tc_size_piece_create(const tc_size_source *from, const tc_size_builder *by, tc_size_box *box,
                                    const char **why) {
  tc_size_list *x = tc_calloc(1, sizeof *x);
  tc_size_piece *piece = tc_calloc(1, sizeof *piece);
  bool made = false;
  *why = "there is no memory";
  if (x && piece) {
    x->from = from, x->by = by;
    maker m = {.x = x, .piece = piece};
    made = tc_size_list_fill(x, box) && make_piece(&m, x);
    *why = made ? NULL : m.why ? m.why : x->why;
    tc_free(m.q);
    tc_free(m.seen);
    if (made) piece->split = x->split, piece->box = *box;
    join_box(&x->split, box);
    tc_size_list_fini(x);
  }
  tc_free(x);
  if (!made && piece) tc_size_piece_destroy(piece);
  return made ? piece : NULL;
}

void tc_size_piece_destroy(tc_size_piece *piece) {
  void *const owned[] = {piece->expr, piece->patch, piece->shape, piece->shape_of,
                         piece->work, piece->bytes, piece->donor, piece->guard};
  if (piece->p) tc_program_destroy(piece->p);
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(piece);
}

size_t tc_size_piece_bytes(const tc_size_piece *piece) {
  return sizeof *piece + piece->cap_expr * sizeof *piece->expr + piece->cap_patch * sizeof *piece->patch +
         piece->cap_shape * sizeof *piece->shape + tc_program_bytes(piece->p);
}

// ---- binding ----

static void *copy_of(const void *list, size_t n, size_t bytes) {
  void *copy = tc_malloc((n + 1) * bytes);
  if (copy && n) memcpy(copy, list, n * bytes);
  return copy;
}

// A copy that retains kernels and shares cached constants.
static tc_program *copy_program(const tc_program *from) {
  tc_program *p = tc_malloc(sizeof *p);
  if (!p) return NULL;
  memcpy(p, from, sizeof *p);
  p->step = copy_of(from->step, from->n_step, sizeof *p->step);
  p->binding = copy_of(from->binding, from->n_binding, sizeof *p->binding);
  p->num = copy_of(from->num, from->n_num, sizeof *p->num);
  p->allocation = copy_of(from->allocation, from->n_allocation, sizeof *p->allocation);
  p->stage_first = copy_of(from->stage_first, from->n_stage + 1, sizeof *p->stage_first);
  p->stage_tasks = copy_of(from->stage_tasks, from->n_stage, sizeof *p->stage_tasks);
  p->cached_bytes = copy_of(from->cached_bytes, from->n_cached, sizeof *p->cached_bytes);
  p->row_value = copy_of(from->row_value, from->n_row_value, sizeof *p->row_value);
  p->row_attr = copy_of(from->row_attr, from->n_row_attr, sizeof *p->row_attr);
  p->cap_step = p->n_step, p->cap_binding = p->n_binding, p->cap_num = p->n_num;
  p->cap_allocation = p->n_allocation, p->cap_cached = p->n_cached;
  for (uint32_t i = 0; i < p->n_step && p->step; i++)
    if (p->step[i].kernel) (void)tc_kernel_retain(p->step[i].kernel);
  if (!p->step) p->n_step = 0;
  atomic_fetch_add_explicit(&p->prepare->n_shares, 1, memory_order_relaxed);
  bool room = p->step && p->binding && p->num && p->allocation && p->stage_first && p->stage_tasks && p->cached_bytes &&
              p->row_value && p->row_attr;
  return room ? p : (tc_program_destroy(p), NULL);
}

static bool bind_shapes(const tc_size_piece *piece, const tc_dims *shape, tc_program *p) {
  for (uint32_t i = 0; i < p->n_row_value; i++) {
    if (!piece->shape_of[i]) continue;
    uint32_t id = tc_dims_intern(&shape[piece->shape_of[i] - 1]);
    if (id == TC_SHAPE_NONE) return false;
    p->row_value[i].shape = tc_dims_at(id);
  }
  return true;
}

static double estimated(const estimate *e, const int64_t *value) {
  return e->expr == UINT32_MAX ? e->times : e->times * (double)value[e->expr];
}

// Fills in all numbers at these values of the expressions.
static bool bind_numbers(const tc_size_piece *piece, const int64_t *value, tc_dims *shape, tc_program *p) {
  for (uint32_t i = 0; i < piece->n_patch; i++) {
    const patch *x = &piece->patch[i];
    int64_t v = value[x->expr];
    switch ((patch_kind)x->kind) {
      case PATCH_NUM: p->num[x->at].value = (uint64_t)v; break;
      case PATCH_EXTENT: p->step[x->at].extent = v; break;
      case PATCH_ALLOCATION: p->allocation[x->at].bytes = (size_t)v; break;
      case PATCH_ATTR: p->row_attr[x->at] = (uint64_t)v; break;
      case PATCH_DIM: shape[x->at].dim[x->axis] = v; break;
    }
  }
  for (uint32_t i = 0; i < p->n_step; i++) {
    p->step[i].work = estimated(&piece->work[i], value);
    p->step[i].bytes = (uint64_t)estimated(&piece->bytes[i], value);
  }
  return bind_shapes(piece, shape, p);
}

// Whether all long folds are cut at these sizes as they are in the piece.
static bool cuts_alike(const tc_size_piece *piece, const int64_t *size) {
  for (uint32_t i = 0; i < piece->n_guard; i++) {
    const struct guard *x = &piece->guard[i];
    int64_t part = x->part == UINT32_MAX ? x->is.part : tc_size_value(&piece->expr[x->part], size);
    if (tc_fold_part(tc_size_value(&piece->expr[x->run], size), x->is.inner) != part) return false;
  }
  return true;
}

static tc_program *bind_program(const tc_size_piece *piece, const int64_t *size, tc_plan *plan) {
  enum { FIXED = 256 };
  int64_t fixed[FIXED], *value = piece->n_expr <= FIXED ? fixed : tc_malloc(piece->n_expr * sizeof *value);
  tc_dims *shape = piece->n_shape ? copy_of(piece->shape, piece->n_shape, sizeof *shape) : NULL;
  tc_program *p = copy_program(piece->p);
  bool ok = value && p && (shape || !piece->n_shape);
  for (uint32_t i = 0; i < piece->n_expr && ok; i++) value[i] = tc_size_value(&piece->expr[i], size);
  for (uint32_t o = 0; o < piece->n_out; o++) plan->out[o].donor = piece->donor[o];
  ok = ok && bind_numbers(piece, value, shape, p) && tc_memory_plan_place(p, plan);
  tc_free(shape);
  if (value != fixed) tc_free(value);
  if (ok) return p;
  if (p) tc_program_destroy(p);
  return NULL;
}

tc_status tc_size_piece_bind(const tc_size_piece *piece, const int64_t *size, tc_plan *plan) {
  int64_t at[TC_MAX_SIZES];
  bool within = tc_size_split_of(&piece->split, size, at);
  for (uint32_t i = 0; i < piece->split.n_size + piece->split.is_split && within; i++)
    within = at[i] >= piece->box.low[i] && at[i] <= piece->box.high[i];
  if (!within || !cuts_alike(piece, at)) return TC_ERR_STATE;
  tc_program *p = bind_program(piece, at, plan);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  tc_stages_divide(p);
  p->is_bound = true, p->graph.plan = plan;
  plan->n_kernels = piece->n_kernels, plan->n_left = piece->n_left, plan->n_compiled = 0;
  plan->bytes_moved = 0;
  for (uint32_t i = 0; i < p->n_step; i++) plan->bytes_moved += p->step[i].bytes;
  plan->program = p;
  return TC_OK;
}
