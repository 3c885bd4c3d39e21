// Values by the reference kernels. See reference.h.
#include "tools/minify/reference.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "runtime/hash.h"

static tc_ref_fn *const rows[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  [TC_OP_##NAME] = tc_ref_##reference,
#include <tc/ops.def>
#undef TC_OP
};

// ---- one record ----

typedef struct operand {
  tc_type type;
  const tc_dims *dims;
  void *data;
} operand;

typedef struct record {
  tc_op op;
  operand out;
  int n_in;
  operand in[TC_REF_MAX_IN];
  const uint64_t *attr, *arg;
} record;

static size_t bytes_of(tc_type type, const tc_dims *d) {
  return (size_t)tc_dims_count(d) * tc_type_bytes(type);
}

// x broadcast to shape d.
static tc_view view_of(const operand *x, const tc_dims *d) {
  tc_view v = {.ptr = x->data, .type = x->type, .rank = d->rank};
  int64_t stride = 1;
  for (int i = d->rank, k = x->dims->rank; i-- > 0;) {
    k--;
    v.dim[i] = d->dim[i];
    v.stride[i] = k < 0 || (x->dims->dim[k] == 1 && d->dim[i] != 1) ? 0 : stride;
    if (k >= 0) stride *= x->dims->dim[k];
  }
  return v;
}

static tc_status run_record(const record *r) {
  tc_view in[TC_REF_MAX_IN];
  bool elementwise = tc_op_is_elementwise(r->op);
  // An assigned or pooled value is its first operand; the others are for others than the value.
  int n_in = r->op == TC_OP_ASSIGN || r->op == TC_OP_POOL ? 1 : r->n_in;
  for (int i = 0; i < n_in; i++) in[i] = view_of(&r->in[i], elementwise ? r->out.dims : r->in[i].dims);
  tc_ref_call call = {.n_in = n_in, .in = in, .out = view_of(&r->out, r->out.dims), .attr = r->attr, .arg = r->arg};
  return rows[r->op](&call);
}

// ---- disturbing ----

enum { N_DISTURBED = 3, UNITS = 4 };

// Whether the kernels of this op may round otherwise than its reference, and whether a result may
// be small beside what it was made of.
typedef enum rounding { ROUNDS_ALIKE, ROUNDS_RESULT, ROUNDS_OPERANDS } rounding;

static rounding rounding_of(tc_op op) {
  switch (tc_op_kind_of(op)) {
    case TC_KIND_CONTRACT:
    case TC_KIND_ATTENTION:
    case TC_KIND_COMPOSED:
    case TC_KIND_SCAN: return ROUNDS_OPERANDS;
    case TC_KIND_FOLD: return op == TC_OP_SUM || op == TC_OP_PROD ? ROUNDS_OPERANDS : ROUNDS_ALIKE;
    case TC_KIND_INDEX: return op == TC_OP_INDEX_ADD || op == TC_OP_SCATTER_ADD ? ROUNDS_OPERANDS : ROUNDS_ALIKE;
    case TC_KIND_RNG: return op == TC_OP_RANDN ? ROUNDS_RESULT : ROUNDS_ALIKE;
    case TC_KIND_ELEM: break;
    default: return ROUNDS_ALIKE;
  }
  switch (op) {
    case TC_OP_NEG:
    case TC_OP_ABS:
    case TC_OP_SIGN:
    case TC_OP_FLOOR:
    case TC_OP_CEIL:
    case TC_OP_ROUND:
    case TC_OP_TRUNC:
    case TC_OP_SQUARE:
    case TC_OP_SQRT:
    case TC_OP_RELU:
    case TC_OP_CAST:
    case TC_OP_ADD:
    case TC_OP_SUB:
    case TC_OP_MUL:
    case TC_OP_DIV:
    case TC_OP_MAXIMUM:
    case TC_OP_MINIMUM:
    case TC_OP_FMOD:
    case TC_OP_WHERE: return ROUNDS_ALIKE;
    default: return ROUNDS_RESULT;
  }
}

static double epsilon_of(tc_type type) {
  switch (type) {
    case TC_F16: return 0x1p-10;
    case TC_BF16: return 0x1p-7;
    case TC_F32: return 0x1p-23;
    default: return 0x1p-52;
  }
}

static void disturb(tc_type type, void *data, int64_t count, double units, uint64_t seed) {
  if (!tc_type_is_float(type)) return;
  double step = units * epsilon_of(type);
  for (int64_t i = 0; i < count; i++) {
    uint64_t key[2] = {seed, (uint64_t)i};
    double v = tc_get_f64(type, data, i), toward = (double)(tc_hash_bytes(key, sizeof key).lo >> 11) * 0x1p-52 - 1;
    if (isfinite(v)) tc_set_f64(type, data, i, v + v * step * toward);
  }
}

// Half types accumulate in f32: their sums' operands are as exact as they are stored.
static double units_of(tc_type type) {
  return tc_type_is_half(type) ? 1 : UNITS;
}

static tc_status run_disturbed(record *r, uint64_t seed) {
  tc_arena copies = {0};
  rounding how = rounding_of(r->op);
  for (int i = 0; i < r->n_in && how == ROUNDS_OPERANDS; i++) {
    operand *x = &r->in[i];
    if (!tc_type_is_float(x->type) || tc_type_is_half(x->type)) continue;
    size_t bytes = bytes_of(x->type, x->dims);
    void *copy = tc_arena_alloc(&copies, bytes + 1);
    if (!copy) return tc_arena_fini(&copies), TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
    memcpy(copy, x->data, bytes);
    disturb(x->type, copy, tc_dims_count(x->dims), UNITS, seed + (uint64_t)i + 1);
    x->data = copy;
  }
  tc_status st = run_record(r);
  if (how != ROUNDS_ALIKE) disturb(r->out.type, r->out.data, tc_dims_count(r->out.dims), units_of(r->out.type), seed);
  tc_arena_fini(&copies);
  return st;
}

// ---- traces ----

// seed 0: undisturbed.
static tc_status run_trace(const tc_text *x, tc_arena *arena, void **value, uint64_t seed) {
  record r;
  for (uint32_t n = 0; n < x->n; n++) {
    const tc_text_node *k = &x->node[n];
    if (k->op == TC_OP_LEAF) {
      value[n] = (void *)(uintptr_t)k->data;
      continue;
    }
    if (!(value[n] = tc_arena_alloc(arena, bytes_of(k->type, &k->dims) + 16)))
      return TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
    r.op = k->op, r.n_in = k->n_in, r.attr = k->attr, r.arg = k->arg;
    r.out = (operand){k->type, &k->dims, value[n]};
    for (int i = 0; i < k->n_in; i++)
      r.in[i] = (operand){x->node[k->in[i]].type, &x->node[k->in[i]].dims, value[k->in[i]]};
    tc_status st = seed ? run_disturbed(&r, seed * 1000003 + n) : run_record(&r);
    if (st != TC_OK) return TC_FAIL(st, "%%%u = %s: %s", n, tc_op_names[k->op], tc_status_text(st));
  }
  return TC_OK;
}

tc_status tc_reference_trace(const tc_text *x, tc_arena *arena, void **value) {
  return run_trace(x, arena, value, 0);
}

// ---- graphs ----

static const uint64_t zeros[2 * TC_MAX_RANK];  // the arguments of what passes add without

// What a slice of a pass's starts at stands behind its steps.
static const uint64_t *arguments_of(const tc_gnode *x, const uint64_t *arg) {
  if (x->n_arg) return arg + x->arg;
  return x->op == TC_OP_SLICE && x->n_attr == 2 * x->shape->d.rank ? x->attr + x->shape->d.rank : zeros;
}

tc_status tc_reference_graph(const tc_graph *g, const uint64_t *arg, void *const *leaf, tc_arena *arena, void ***out) {
  uint32_t n_order = 0, *order = tc_graph_order(g, arena, &n_order);
  void **value = *out = tc_arena_alloc(arena, (g->n + 1) * sizeof *value);
  record r;
  if (!order && n_order == UINT32_MAX) return TC_FAIL(TC_ERR_STATE, "nodes are operands of each other in a circle");
  if (!order || !value) return TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
  for (uint32_t i = 0; i < n_order; i++) {
    uint32_t n = order[i];
    const tc_gnode *x = &g->node[n];
    if (x->leaf != TC_LEAF_NONE) {
      value[n] = leaf[x->leaf];
      continue;
    }
    if (rows[x->op] == tc_ref_none)
      return TC_FAIL(TC_ERR_STATE, "%%%u = %s has no reference kernel", n, tc_op_names[x->op]);
    if (!(value[n] = tc_arena_alloc(arena, bytes_of(x->type, &x->shape->d) + 16)))
      return TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
    r.op = x->op, r.n_in = x->n_in, r.attr = x->attr, r.arg = arguments_of(x, arg);
    r.out = (operand){x->type, &x->shape->d, value[n]};
    for (int k = 0; k < x->n_in; k++)
      r.in[k] = (operand){g->node[x->in[k]].type, &g->node[x->in[k]].shape->d, value[x->in[k]]};
    tc_status st = run_record(&r);
    if (st != TC_OK) return TC_FAIL(st, "%%%u = %s: %s", n, tc_op_names[x->op], tc_status_text(st));
  }
  return TC_OK;
}

// ---- how far a right result may be ----

// Relative to the greatest element: a unit or two of a half type, dozens of the others.
static double tolerance_of(tc_type type) {
  switch (type) {
    case TC_F16: return 0x1p-8;
    case TC_BF16: return 0x1p-5;
    case TC_F32: return 0x1p-16;
    default: return 0x1p-40;
  }
}

// NaN and infinities that come and go by rounding allow anything.
static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b))) return 0;
  return isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
}

// Adds what one disturbed run shows.
static void widen(tc_type type, int64_t count, const void *want, const void *disturbed, double *reach) {
  for (int64_t i = 0; i < count; i++)
    reach[i] = fmax(reach[i], distance(tc_get_f64(type, disturbed, i), tc_get_f64(type, want, i)));
}

// Makes what is allowed of how far disturbed runs reached.
static void finish_allowance(tc_type type, int64_t count, const void *want, double tolerance, double *reach) {
  double greatest = 0, sum = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = fabs(tc_get_f64(type, want, i));
    if (isfinite(v)) greatest = fmax(greatest, v);
    if (isfinite(reach[i])) sum += reach[i];
  }
  for (int64_t i = 0; i < count; i++) reach[i] = tolerance * greatest + 8 * (reach[i] + sum / (double)count);
}

tc_status tc_reference_allow(const tc_text *x, void *const *value, double tolerance, tc_arena *arena,
                             tc_allowance *out) {
  tc_arena scratch = {0};
  tc_status st = TC_OK;
  if (!(out->of = tc_arena_alloc(arena, (x->n + 1) * sizeof *out->of)))
    return TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
  for (uint32_t n = 0; n < x->n; n++) {
    const tc_text_node *k = &x->node[n];
    if (!tc_type_is_float(k->type) || k->op == TC_OP_LEAF) continue;
    if (!(out->of[n] = tc_arena_alloc(arena, ((size_t)tc_dims_count(&k->dims) + 1) * sizeof **out->of)))
      return TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
  }
  for (uint64_t seed = 1; seed <= N_DISTURBED && st == TC_OK; seed++) {
    tc_arena_reset(&scratch);
    void **disturbed = tc_arena_alloc(&scratch, (x->n + 1) * sizeof *disturbed);
    st = disturbed ? run_trace(x, &scratch, disturbed, seed) : TC_FAIL(TC_ERR_MEMORY, "no room for a reference");
    for (uint32_t n = 0; n < x->n && st == TC_OK; n++)
      if (out->of[n]) widen(x->node[n].type, tc_dims_count(&x->node[n].dims), value[n], disturbed[n], out->of[n]);
  }
  for (uint32_t n = 0; n < x->n && st == TC_OK; n++)
    if (out->of[n])
      finish_allowance(x->node[n].type, tc_dims_count(&x->node[n].dims), value[n],
                       tolerance > 0 ? tolerance : tolerance_of(x->node[n].type), out->of[n]);
  tc_arena_fini(&scratch);
  return st;
}

tc_difference tc_reference_compare(tc_type type, int64_t count, const void *got, const void *want,
                                   const double *allowed) {
  tc_difference worst = {.at = -1};
  double by = 0;
  for (int64_t i = 0; i < count; i++) {
    double g, w, most = allowed ? allowed[i] : 0;
    if (type == TC_I64 && tc_get_i64(type, got, i) == tc_get_i64(type, want, i)) continue;
    g = tc_get_f64(type, got, i), w = tc_get_f64(type, want, i);
    double d = type == TC_I64 && g == w ? 1 : distance(g, w);
    if (d > most && (worst.at < 0 || d - most > by)) worst = (tc_difference){i, g, w, most}, by = d - most;
  }
  return worst;
}
