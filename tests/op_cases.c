// See op_cases.h. The table is made from ops.def, so a row cannot be missing.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TC_NO_SITES
#include "tests/op_cases.h"

#include "lowering/tiling/summation.h"
#include "runtime/status.h"

enum shapes { SHAPES_elements, SHAPES_pairs, SHAPES_axes, SHAPES_products, SHAPES_lookups };
enum types { TYPES_all, TYPES_ints, TYPES_whole, TYPES_numbers };

static const struct sample {
  enum shapes shapes;
  enum types types;
  double low, high;
  bool edges;
  double ulp_f32, ulp_f64, ulp_half, abs_eps;
} samples[] = {
#define TC_SAMPLE(NAME, shapes, types, low, high, edges, f32, f64, half, abs_eps) \
  {SHAPES_##shapes, TYPES_##types, low, high, edges, f32, f64, half, abs_eps},
#include "tests/samples.def"
#undef TC_SAMPLE
};
enum sample_id {
#define TC_SAMPLE(NAME, ...) SAMPLE_##NAME,
#include "tests/samples.def"
#undef TC_SAMPLE
};

// ---- The table: public function and C type of every row ----

// clang-format off
#define SIGNATURES(ROW)                                                                                                                    \
  ROW(X, (tc_tensor)) ROW(X_TYPE, (tc_tensor, tc_type)) ROW(XY, (tc_tensor, tc_tensor)) ROW(XYZ, (tc_tensor, tc_tensor, tc_tensor))           \
  ROW(X_DIMS_KEEP, (tc_tensor, tc_dims, bool)) ROW(X_AXIS_KEEP, (tc_tensor, int, bool)) ROW(X_AXIS, (tc_tensor, int))                         \
  ROW(X_AXIS_I, (tc_tensor, int, tc_tensor)) ROW(X_AXIS_I_Y, (tc_tensor, int, tc_tensor, tc_tensor)) ROW(N_X, (int64_t, tc_tensor))
// clang-format on
enum signature {
#define ROW(tag, params) SIG_##tag,
  SIGNATURES(ROW)
#undef ROW
};
#define ROW(tag, params) typedef tc_tensor fn_##tag params;
SIGNATURES(ROW)
#undef ROW
#define SIGNATURE_CASE(tag, params) fn_##tag * : SIG_##tag,
#define SIGNATURE_OF(f) _Generic(&f, SIGNATURES(SIGNATURE_CASE) int: 0)

typedef void any_fn(void);
struct op_row {
  const char *name;
  enum sample_id sample;
  enum signature signature;
  any_fn *fn;
};

static const op_row rows[] = {
#define SAMPLED_none(name)
#define SAMPLED_any(name) {#name, SAMPLE_any, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_tail(name) {#name, SAMPLE_tail, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_unit(name) {#name, SAMPLE_unit, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_positive(name) {#name, SAMPLE_positive, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_nonzero(name) {#name, SAMPLE_nonzero, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_above_one(name) {#name, SAMPLE_above_one, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_integer(name) {#name, SAMPLE_integer, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair(name) {#name, SAMPLE_pair, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair_near(name) {#name, SAMPLE_pair_near, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair_nonzero(name) {#name, SAMPLE_pair_nonzero, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair_positive(name) {#name, SAMPLE_pair_positive, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair_integer(name) {#name, SAMPLE_pair_integer, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_pair_shift(name) {#name, SAMPLE_pair_shift, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_select(name) {#name, SAMPLE_select, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_reduce(name) {#name, SAMPLE_reduce, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_scan(name) {#name, SAMPLE_scan, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_order(name) {#name, SAMPLE_order, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_contract(name) {#name, SAMPLE_contract, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define SAMPLED_index(name) {#name, SAMPLE_index, SIGNATURE_OF(tc_##name), (any_fn *)tc_##name},
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) SAMPLED_##sample(name)
#include <tc/ops.def>
#undef TC_OP
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const op_row *op_row_at(int i) {
  return i < N_ROWS ? &rows[i] : NULL;
}

const op_row *op_row_of(const char *name) {
  for (int i = 0; i < N_ROWS; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

const char *op_row_name(const op_row *op) {
  return op->name;
}

tc_tensor op_row_call(const op_row *op, const op_call *c, const tc_tensor *x) {
  tc_dims axes = c->axis == INT32_MAX ? tc_dims_all() : tc_dims_of(1, (const int64_t[]){c->axis});
  switch (op->signature) {
    case SIG_X: return ((fn_X *)op->fn)(x[0]);
    case SIG_X_TYPE: return ((fn_X_TYPE *)op->fn)(x[0], c->type);
    case SIG_XY: return ((fn_XY *)op->fn)(x[0], x[1]);
    case SIG_XYZ: return ((fn_XYZ *)op->fn)(x[0], x[1], x[2]);
    case SIG_X_DIMS_KEEP: return ((fn_X_DIMS_KEEP *)op->fn)(x[0], axes, c->keepdim);
    case SIG_X_AXIS_KEEP: return ((fn_X_AXIS_KEEP *)op->fn)(x[0], c->axis, c->keepdim);
    case SIG_X_AXIS: return ((fn_X_AXIS *)op->fn)(x[0], c->axis);
    case SIG_X_AXIS_I: return ((fn_X_AXIS_I *)op->fn)(x[0], c->axis, x[1]);
    case SIG_N_X: return ((fn_N_X *)op->fn)(c->n_th, x[0]);
    case SIG_X_AXIS_I_Y: return ((fn_X_AXIS_I_Y *)op->fn)(x[0], c->axis, x[1], x[2]);
  }
  return (tc_tensor){0, 0};
}

// ---- Data ----

static uint64_t seed = 1;

static double next_unit(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(seed >> 11) * 0x1p-53;
}

static bool is_unsigned(tc_type type) {
  return type == TC_U8 || type == TC_BOOL;
}

static op_operand make(tc_type type, tc_dims dims, double low, double high, bool edges, char how) {
  op_operand o = {type, dims, dims.rank ? how : 0, NULL};
  int64_t n = near_count(dims);
  o.data = calloc((size_t)n + 1, tc_type_bytes(type));
  bool whole = !near_is_float(type);
  if (whole) low = is_unsigned(type) && low < 0 ? 0 : ceil(low), high = floor(high) < low ? low + 2 : floor(high);
  for (int64_t i = 0; i < n; i++) {
    double v = low + next_unit() * (high - low + (whole ? 1 : 0));
    near_set(type, o.data, i, type == TC_BOOL ? (double)(next_unit() < 0.5) : whole ? floor(v) : v);
  }
  static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-149, 1.0, -1.0, 2.5, -2.5};
  for (int64_t i = 0; edges && n >= 15 && i < 10; i++) {
    int64_t at = (i * 7 + 3) % n;  // spread over lanes and tails
    if (!whole) near_set(type, o.data, at, special[i]);
  }
  if (edges && n >= 15 && whole && type != TC_BOOL && high > 50) {
    size_t bytes = tc_type_bytes(type);
    memset((char *)o.data + bytes, 0xff, bytes);  // -1, or the largest unsigned
    ((unsigned char *)o.data)[3 * bytes - 1] = 0x80;  // the smallest, if the other bytes are zero
    memset((char *)o.data + 2 * bytes, 0, bytes - 1);
  }
  return o;
}

// ---- Comparing ----

near_tol op_row_tolerance(const op_row *op, tc_type type, int64_t folded) {
  const struct sample *s = &samples[op->sample];
  bool half = type == TC_F16 || type == TC_BF16;
  double eps = near_is_float(type) ? near_ulp(half ? TC_F32 : type, 1.0) : 0;
  // Another order of n additions or products differs by at most n units; the half types accumulate
  // in f32, which hides it but where terms cancel. Long sums are cut (summation.h).
  folded = TC_MIN(folded, tc_fold_additions(folded, 2));
  double ulp = type == TC_F64 ? s->ulp_f64 : half ? s->ulp_half : s->ulp_f32;
  return (near_tol){ulp + (half ? 0 : (double)folded), s->abs_eps * eps * (double)(folded ? folded : 1), false};
}

const char *op_call_text(const op_row *op, const op_call *c, char *out, size_t bytes) {
  char text[100];
  int n = snprintf(out, bytes, "%s of %s", op->name, tc_type_name(c->x[0].type));
  for (int k = 0; k < c->n; k++) {
    char how[3] = {c->x[k].how ? ' ' : 0, c->x[k].how};
    n += snprintf(out + n, bytes - (size_t)n, " %s%s", near_dims_text(c->x[k].dims, text, sizeof text), how);
  }
  if (op->signature == SIG_X_TYPE)
    snprintf(out + n, bytes - (size_t)n, " to %s", tc_type_name(c->type));
  else if (op->signature != SIG_X && op->signature != SIG_XY && op->signature != SIG_XYZ)
    snprintf(out + n, bytes - (size_t)n, " axis %d keepdim %d", c->axis, c->keepdim);
  return out;
}

// ---- Shapes ----

// Of a row's cases.
typedef struct walk {
  const op_row *op;
  const struct sample *s;
  bool all;
  int next;  // the next case's number
  op_visit *visit;
  void *arg;
} walk;

static void compare(walk *w, op_call *c, int64_t folded) {
  c->folded = folded;
  w->visit(w->op, c, w->arg);
  for (int k = 0; k < c->n; k++) free(c->x[k].data), c->x[k].data = NULL;
}

static const int64_t sizes[] = {0, 1, 15, 16, 17, 63, 64, 65, 1000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };
static const char hows[] = {0, 'T', 'S', 'R'};

static bool has_type(enum types types, tc_type type) {
  if (types == TYPES_all) return true;
  if (types == TYPES_ints) return !near_is_float(type);
  return type != TC_BOOL && (types == TYPES_numbers || !near_is_float(type));
}

// Whether to compare case i as it lies in way h: plain, and in one of the other ways by turns.
static bool is_taken(const walk *w, int i, int h) {
  return w->all || h == 0 || h == 1 + i % 3;
}

// Whether to compare the next case: one of so many, others for another type and row.
static bool is_turn(walk *w, int n) {
  return w->all || w->next++ % n == 0;
}

static void run_elements(walk *w, tc_type type) {
  const op_row *op = w->op;
  const struct sample *s = w->s;
  int n_targets = op->signature == SIG_X_TYPE ? TC_N_TYPES : 1;
  for (int target = 0; target < n_targets; target++)
    for (int i = 0; i < N_SIZES; i++)
      for (int h = 0; h < 4; h++) {
        // casts: a diagonal of sizes and strides
        if ((n_targets > 1 ? i % 4 != h % 4 : !is_taken(w, i, h)) || !is_turn(w, 27)) continue;
        tc_dims d = h ? tc_dims_of(2, (const int64_t[]){3, sizes[i]}) : tc_dims_of(1, &sizes[i]);
        op_call c = {.n = 1, .type = (tc_type)target, .n_th = i % 4};
        // What an integer makes of NaN, infinity or a negative number as unsigned is nobody's
        // promise.
        bool to_int = n_targets > 1 && near_is_float(type) && !near_is_float(c.type) && c.type != TC_BOOL;
        c.x[0] = make(type, d, to_int && is_unsigned(c.type) ? 0 : s->low, s->high, s->edges && !to_int, hows[h]);
        compare(w, &c, 0);
      }
}

static void run_pairs(walk *w, tc_type type) {
  const op_row *op = w->op;
  const struct sample *s = w->s;
  for (int i = 0; i < N_SIZES; i++) {
    int64_t n = sizes[i];
    const tc_dims row = tc_dims_of(1, &n), table = tc_dims_of(2, (const int64_t[]){3, n}),
                  column = tc_dims_of(2, (const int64_t[]){3, 1}), none = tc_dims_of(0, NULL);
    const tc_dims left[] = {row, table, table, row, none, column}, right[] = {row, row, table, column, row, row};
    for (int k = 0; k < 6; k++)
      for (int h = 0; h < 4; h++) {
        if ((h && left[k].rank < 2) || !is_taken(w, i + k, h) || !is_turn(w, 90)) continue;
        bool select = op->signature == SIG_XYZ, shift = op->sample == SAMPLE_pair_shift;
        op_call c = {.n = select ? 3 : 2};
        int at = 0;
        if (select) c.x[at++] = make(TC_BOOL, left[k], 0, 1, false, hows[h]);
        c.x[at++] = make(type, left[k], shift ? 0 : s->low, shift ? 100 : s->high, s->edges, hows[h]);
        c.x[at++] = make(type, right[k], s->low, s->high, s->edges, right[k].rank == 2 ? hows[(h + 1) % 4] : 0);
        compare(w, &c, 0);
      }
  }
}

static void run_axes(walk *w, tc_type type) {
  const op_row *op = w->op;
  const struct sample *s = w->s;
  static const int64_t shapes[][3] = {{1, 1, 1},  {5, 15, 1}, {2, 16, 3},   {3, 17, 4},   {1, 63, 2},
                                      {2, 3, 64}, {65, 2, 3}, {1, 1, 1000}, {1000, 1, 2}, {0, 3, 2}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int axis = -1; axis < 3; axis++)
      for (int h = 0; h < 4; h++) {
        if ((axis < 0 && op->signature != SIG_X_DIMS_KEEP) || !is_taken(w, (int)i + axis + 1, h) || !is_turn(w, 27))
          continue;
        tc_dims d = tc_dims_of(3, shapes[i]);
        int64_t folded = axis < 0 ? near_count(d) : d.dim[axis];
        bool needs_one = !strcmp(op->name, "max") || !strcmp(op->name, "min") || !strcmp(op->name, "argmax") ||
                         !strcmp(op->name, "argmin");
        if (needs_one && folded == 0) continue;
        op_call c = {.n = 1, .axis = axis < 0 ? INT32_MAX : axis, .keepdim = (i + (size_t)h) % 2 == 1};
        c.x[0] = make(type, d, s->low, s->high, s->edges, hows[h]);
        compare(w, &c, folded);
      }
}

static void run_products(walk *w, tc_type type) {
  const struct sample *s = w->s;
  static const int64_t mkn[][3] = {{1, 1, 1}, {15, 16, 17}, {17, 33, 65}, {64, 64, 64}, {1, 1000, 1}, {3, 65, 2},
                                   {0, 3, 2}, {2, 0, 3},    {1, 16, 63},  {63, 15, 1},  {7, 257, 9}};
  for (size_t i = 0; i < sizeof mkn / sizeof *mkn; i++)
    for (int h = 0; h < 16; h++)
      for (int batch = 0; batch < 3; batch++) {
        if ((batch && (h % 5 || mkn[i][1] > 100)) || !is_turn(w, 48)) continue;
        int64_t m = mkn[i][0], k = mkn[i][1], n = mkn[i][2];
        tc_dims a = batch ? tc_dims_of(3, (const int64_t[]){2, m, k}) : tc_dims_of(2, (const int64_t[]){m, k});
        tc_dims b = batch > 1 ? tc_dims_of(3, (const int64_t[]){2, k, n}) : tc_dims_of(2, (const int64_t[]){k, n});
        op_call c = {.n = 2};
        c.x[0] = make(type, a, s->low, s->high, false, hows[h % 4]);
        c.x[1] = make(type, b, s->low, s->high, false, hows[h / 4]);
        compare(w, &c, k);
      }
}

// Indices into an axis of extent n, a few of them negative.
static op_operand make_index(tc_type type, tc_dims d, int64_t n) {
  op_operand o = make(type, d, 0, (double)(n - 1), false, 0);
  for (int64_t i = 0; i < near_count(d); i += 3) near_set(type, o.data, i, near_get(type, o.data, i) - (double)n);
  return o;
}

static void run_lookups(walk *w, tc_type type) {
  const op_row *op = w->op;
  const struct sample *s = w->s;
  static const int64_t shapes[][2] = {{1, 1}, {5, 16}, {17, 3}, {65, 15}, {4, 64}};
  bool list = !strcmp(op->name, "index_select") || !strcmp(op->name, "index_add");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int axis = 0; axis < 2; axis++)
      for (int h = 0; h < 4; h++) {
        if (!is_turn(w, 8)) continue;
        tc_dims d = tc_dims_of(2, shapes[i]), at = d;
        at.dim[axis] = 1 + (int64_t)i * 3;
        op_call c = {.n = op->signature == SIG_X_AXIS_I_Y ? 3 : 2, .axis = axis};
        c.x[0] = make(type, d, s->low, s->high, false, hows[h]);
        c.x[1] = make_index(h % 2 ? TC_I32 : TC_I64, list ? tc_dims_of(1, &at.dim[axis]) : at, d.dim[axis]);
        if (c.n == 3) c.x[2] = make(type, at, s->low, s->high, false, hows[(h + 2) % 4]);
        compare(w, &c, at.dim[axis]);
      }
}

void op_row_each(const op_row *op, bool all, op_visit *visit, void *arg) {
  walk w = {op, &samples[op->sample], all, 0, visit, arg};
  for (int t = 0; t < TC_N_TYPES; t++) {
    seed = 0x9e3779b97f4a7c15u + (uint64_t)t;
    w.next = 5 * t + (int)strlen(op->name);
    if (!has_type(w.s->types, (tc_type)t)) continue;
    switch (w.s->shapes) {
      case SHAPES_elements: run_elements(&w, (tc_type)t); break;
      case SHAPES_pairs: run_pairs(&w, (tc_type)t); break;
      case SHAPES_axes: run_axes(&w, (tc_type)t); break;
      case SHAPES_products: run_products(&w, (tc_type)t); break;
      case SHAPES_lookups: run_lookups(&w, (tc_type)t); break;
    }
  }
}
