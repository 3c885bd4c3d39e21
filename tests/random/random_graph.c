// Making, running, comparing, shrinking and printing random programs; see random_graph.h.
#include "tests/random/random_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/compile.h>

#include "runtime/options.h"
#include "tests/near.h"

// ---- The functions that p chooses, as code and as source text; all are smooth or bounded so that
// round-off stays bounded ----

typedef struct unary_fn {
  const char *text;  // %s is the operand
  tc_tensor (*fn)(tc_tensor x);
  double slope, bound;  // of the error; of the result (0: that of the operand)
  bool exact, kink, floats_only, flat, grows;
} unary_fn;

static tc_tensor fn_neg(tc_tensor x) {
  return tc_neg(x);
}
static tc_tensor fn_abs(tc_tensor x) {
  return tc_abs(x);
}
static tc_tensor fn_relu(tc_tensor x) {
  return tc_relu(x);
}
static tc_tensor fn_square(tc_tensor x) {
  return tc_square(x);
}
static tc_tensor fn_floor(tc_tensor x) {
  return tc_floor(x);
}
static tc_tensor fn_tanh(tc_tensor x) {
  return tc_tanh(x);
}
static tc_tensor fn_sin(tc_tensor x) {
  return tc_sin(x);
}
static tc_tensor fn_sigmoid(tc_tensor x) {
  return tc_sigmoid(x);
}
static tc_tensor fn_exp(tc_tensor x) {
  return tc_exp(tc_sin(x));
}
static tc_tensor fn_sqrt(tc_tensor x) {
  return tc_sqrt(tc_add(tc_square(x), 1));
}
static tc_tensor fn_log1p(tc_tensor x) {
  return tc_log1p(tc_square(x));
}
static tc_tensor fn_dropout(tc_tensor x) {
  return tc_mul(tc_dropout(x, 0.5), 0.5);
}
static const unary_fn unary_fns[] = {
    {"tc_neg(%s)", fn_neg, 1, 0, true, false, false, false, false},
    {"tc_abs(%s)", fn_abs, 1, 0, true, true, false, false, false},
    {"tc_relu(%s)", fn_relu, 1, 0, true, true, false, false, false},
    {"tc_square(%s)", fn_square, 0, 0, true, false, false, false, true},
    {"tc_floor(%s)", fn_floor, 1, 0, true, true, false, true, false},
    {"tc_tanh(%s)", fn_tanh, 1, 1, false, false, true, false, false},
    {"tc_sin(%s)", fn_sin, 1, 1, false, false, true, false, false},
    {"tc_sigmoid(%s)", fn_sigmoid, 1, 1, false, false, true, false, false},
    {"tc_exp(tc_sin(%s))", fn_exp, 3, 3, false, false, true, false, false},
    {"tc_sqrt(tc_add(tc_square(%s), 1))", fn_sqrt, 1, 0, false, false, true, false, false},
    {"tc_log1p(tc_square(%s))", fn_log1p, 1, 0, false, false, true, false, false},
    {"tc_mul(tc_dropout(%s, 0.5), 0.5)", fn_dropout, 1, 0, true, false, true, false, false},
};
enum { N_UNARY = sizeof unary_fns / sizeof *unary_fns };

enum { ADD, SUB, MUL, MAXIMUM, MINIMUM, DIV, N_BINARY };
static const char *const binary_texts[] = {"tc_add(%s, %s)",     "tc_sub(%s, %s)",
                                           "tc_mul(%s, %s)",     "tc_maximum(%s, %s)",
                                           "tc_minimum(%s, %s)", "tc_div(%s, tc_add(tc_square(%s), 1))"};
static tc_tensor binary(int k, tc_tensor a, tc_tensor b) {
  switch (k) {
    case ADD: return tc_add(a, b);
    case SUB: return tc_sub(a, b);
    case MUL: return tc_mul(a, b);
    case MAXIMUM: return tc_maximum(a, b);
    case MINIMUM: return tc_minimum(a, b);
    default: return tc_div(a, tc_add(tc_square(b), 1));
  }
}

// Ways to multiply, by q: as it is, or as bytes, made of exact f32: i8 or u8 by either, or a linear layer of bytes.
// All of these give the same bits on every backend.
enum { AS_NUMBERS, LINEAR_OF_BYTES, BYTES_FIRST, N_MULTIPLY = 8 };
static tc_tensor bytes_of(tc_tensor x, int is_unsigned) {
  return tc_quantize(x, tc_full(TC_SHAPE(), 0.25, TC_F32), tc_full(TC_SHAPE(), is_unsigned ? 100 : 0, TC_I32),
                     is_unsigned ? TC_U8 : TC_I8, (tc_quantize_options){0});
}
static tc_tensor matmul(int k, tc_tensor a, tc_tensor b) {
  int way = k % N_MULTIPLY - BYTES_FIRST;
  if (k % N_MULTIPLY == LINEAR_OF_BYTES)
    return tc_linear_int8(a, tc_transpose(bytes_of(b, 0), 0, 1), tc_full(TC_SHAPE(), 0.25, TC_F32), (tc_tensor){0, 0});
  if (way < 0 || way > 3) return tc_matmul(a, b);
  return tc_mul(tc_cast(tc_matmul(bytes_of(a, way & 1), bytes_of(b, way >> 1)), TC_F32), 1.0 / 1024);
}
static bool multiplies_bytes(int k) {
  return k % N_MULTIPLY != AS_NUMBERS && k % N_MULTIPLY < BYTES_FIRST + 4;
}
static void print_bytes_of(FILE *out, const char *x, int is_unsigned) {
  fprintf(out,
          "tc_quantize(%s, tc_full(TC_SHAPE(), 0.25, TC_F32), tc_full(TC_SHAPE(), %d, TC_I32), TC_%s, "
          "(tc_quantize_options){0})",
          x, is_unsigned ? 100 : 0, is_unsigned ? "U8" : "I8");
}
static void print_matmul(FILE *out, int k, const char *a, const char *b) {
  int way = k % N_MULTIPLY - BYTES_FIRST;
  if (k % N_MULTIPLY == LINEAR_OF_BYTES) {
    fprintf(out, "tc_linear_int8(%s, tc_transpose(", a), print_bytes_of(out, b, 0);
    fprintf(out, ", 0, 1), tc_full(TC_SHAPE(), 0.25, TC_F32), (tc_tensor){0, 0})");
  } else if (way < 0 || way > 3) {
    fprintf(out, "tc_matmul(%s, %s)", a, b);
  } else {
    fprintf(out, "tc_mul(tc_cast(tc_matmul("), print_bytes_of(out, a, way & 1), fprintf(out, ", ");
    print_bytes_of(out, b, way >> 1), fprintf(out, "), TC_F32), 1.0 / 1024)");
  }
}

enum { LT, LE, EQ, N_COMPARE };
static const char *const compare_texts[] = {"tc_lt(%s, %s)", "tc_le(%s, %s)", "tc_eq(%s, %s)"};
enum { SUM, MEAN, MAX, MIN, ANY, N_FOLD };
static const char *const fold_texts[] = {"sum", "mean", "max", "min", "any"};

// ---- What is known of each value before running ----

typedef struct fact {
  // has a result; its handle is alive; the same bits on every backend; depends on a parameter
  bool value, alive, exact, grad;
  int handle;                      // the instruction whose handle it is (assigning gives no new one)
  tc_type type;
  tc_dims dims;
  double big, err;                 // |value| <= big; backends differ by at most err
} fact;

typedef struct plan {
  fact f[RG_MAX_INSTRS];
  bool kink;       // a gradient jumps at a rounded value: backends may differ
  bool half;       // a gradient passes through a half type
  bool backward;
} plan;

static double epsilon(tc_type t) {
  return near_is_float(t) ? near_ulp(t, 1.0) : 0;
}

static tc_type promoted(tc_type a, tc_type b) {
  if (a == b) return a;
  return TC_N_TYPES;  // programs cast explicitly; promotion has its golden cases
}

static bool broadcast(const tc_dims *left, const tc_dims *right, tc_dims *out) {
  const tc_dims copy_a = *left, copy_b = *right, *a = &copy_a, *b = &copy_b;  // out may be one of them
  int rank = a->rank > b->rank ? a->rank : b->rank;
  *out = tc_dims_of(0, NULL);
  out->rank = rank;
  for (int k = 1; k <= rank; k++) {
    int64_t x = k <= a->rank ? a->dim[a->rank - k] : 1, y = k <= b->rank ? b->dim[b->rank - k] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out->dim[rank - k] = x == 1 ? y : x;
  }
  return true;
}

static int axis_of(const fact *x, int p) {
  return p % x->dims.rank;
}

// Slices: start, stop and step of axis k, all within the extent.
static void slice_of(int64_t extent, int p, int q, int64_t *start, int64_t *stop, int64_t *step) {
  *step = 1 + q % 3;
  *start = extent ? p % extent : 0;
  *stop = extent;
}

static int64_t window_of(int64_t extent, int p) {
  return 1 + p / 8 % (extent < 4 ? extent : 4);
}

// Pooling of the last axis; `out` counts windows.
static tc_pool_options pool_of(int64_t extent, int p, int q, int64_t *size, int64_t *out) {
  tc_pool_options o = {.ceil_mode = q / 8 % 2};
  *size = window_of(extent, p);
  int64_t stride = 1 + q % 3, padding = q / 16 % (*size / 2 + 1), room = extent + 2 * padding - *size;
  o.stride = tc_dims_of(1, &stride), o.padding = tc_dims_of(1, &padding);
  *out = (room + (o.ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (o.ceil_mode && (*out - 1) * stride >= extent + padding) --*out;
  return o;
}

static bool usable(const plan *pl, int i, int at) {
  return i >= 0 && i < at && pl->f[i].value && pl->f[i].alive;
}

// Whether instruction i is one the API accepts and every right backend answers alike; its fact into
// pl.
static bool infer(const rg_program *p, plan *pl, int i) {
  const rg_instr *s = &p->instr[i];
  const fact *a = &pl->f[s->a < 0 ? 0 : s->a], *b = &pl->f[s->b < 0 ? 0 : s->b], *c = &pl->f[s->c < 0 ? 0 : s->c];
  fact r = {true, true, true, false, i, s->type, s->dims, 4, 0};
  static const int n_operands[RG_N_OPS] = {
      [RG_UNARY] = 1,     [RG_BINARY] = 2,   [RG_NUM] = 1,    [RG_COMPARE] = 2, [RG_WHERE] = 3,        [RG_CAST] = 1,
      [RG_TRANSPOSE] = 1, [RG_SLICE] = 1,    [RG_FLIP] = 1,   [RG_FLATTEN] = 1, [RG_EXPAND] = 1,       [RG_PAD] = 1,
      [RG_SORT] = 1,      [RG_MAX_POOL] = 1, [RG_UNFOLD] = 1, [RG_CAT] = 2,     [RG_FOLD] = 1,         [RG_ARGMAX] = 1,
      [RG_CUMSUM] = 1,    [RG_SOFTMAX] = 1,  [RG_MATMUL] = 2, [RG_INDEX] = 1,   [RG_ASSIGN_SLICE] = 2, [RG_READ] = 1,
      [RG_SCOPE_END] = 1, [RG_BACKWARD] = 1};
  int n = n_operands[s->op];
  if ((n > 0 && !usable(pl, s->a, i)) || (n > 1 && !usable(pl, s->b, i)) || (n > 2 && !usable(pl, s->c, i)))
    return false;
  if (n > 0 && s->op != RG_CAST) r.type = a->type;
  if (n > 0) r.dims = a->dims, r.big = a->big, r.err = a->err, r.exact = a->exact, r.grad = a->grad;
  bool fl = n > 0 && near_is_float(a->type), rounds = false;
  int64_t start, stop, step, extent;
  switch (s->op) {
    case RG_LEAF:
    case RG_PARAM:
      r.grad = s->op == RG_PARAM;
      if (r.grad && s->type != TC_F32 && s->type != TC_F64) return false;
      break;
    case RG_UNARY: {
      const unary_fn *u = &unary_fns[s->p % N_UNARY];
      if (a->type == TC_BOOL || (u->floats_only && !fl)) return false;
      if (u->flat && (!a->exact || p->smooth)) return false;
      pl->kink |= u->kink && a->grad && !a->exact;
      r.exact = a->exact && u->exact, r.grad = a->grad && !u->flat;
      r.err = u->grows ? 2 * a->big * a->err : u->slope * a->err;
      r.big = u->grows ? a->big * a->big : u->bound > 0 ? u->bound : a->big + 1;
      rounds = u->grows || !u->exact;
      break;
    }
    case RG_BINARY: {
      int k = s->p % N_BINARY;
      r.type = promoted(a->type, b->type);
      if (r.type == TC_N_TYPES || r.type == TC_BOOL || (k == DIV && !fl) || !broadcast(&a->dims, &b->dims, &r.dims))
        return false;
      pl->kink |= (k == MAXIMUM || k == MINIMUM) && (a->grad || b->grad) && !(a->exact && b->exact);
      r.exact = a->exact && b->exact, r.grad = a->grad || b->grad;
      r.err = k == MUL ? a->big * b->err + b->big * a->err : k == DIV ? a->err + a->big * b->err : a->err + b->err;
      r.big = k == MUL ? a->big * b->big : k == DIV ? a->big : a->big + b->big;
      if (k == DIV && b->big * b->big > 1e4) return false;
      rounds = k != MAXIMUM && k != MINIMUM;
      break;
    }
    case RG_NUM:
      if (a->type == TC_BOOL) return false;
      r.big = a->big * 2 + 2, r.err = a->err * 2, rounds = true;
      break;
    case RG_COMPARE:
      if (!a->exact || !b->exact || a->type != b->type || p->smooth || !broadcast(&a->dims, &b->dims, &r.dims))
        return false;
      r.type = TC_BOOL, r.grad = false, r.big = 1, r.err = 0;
      break;
    case RG_WHERE:
      if (a->type != TC_BOOL || b->type != c->type || !broadcast(&a->dims, &b->dims, &r.dims) ||
          !broadcast(&r.dims, &c->dims, &r.dims))
        return false;
      r.type = b->type, r.grad = b->grad || c->grad, r.exact = b->exact && c->exact, r.big = fmax(b->big, c->big),
      r.err = fmax(b->err, c->err);
      break;
    case RG_CAST:
      if (p->smooth && s->type != TC_F64 && s->type != TC_BOOL) return false;
      if (s->type == TC_BOOL && !a->exact) return false;
      if (p->smooth && fl && s->type == TC_BOOL) return false;
      if (fl && !near_is_float(s->type) && s->type != TC_BOOL && (!a->exact || a->big > 100 || s->type == TC_U8))
        return false;
      r.grad = a->grad && near_is_float(s->type);
      if (!near_is_float(s->type)) r.big = s->type == TC_BOOL ? 1 : fmax(a->big, 255), r.err = 0;
      rounds = true;
      break;
    case RG_TRANSPOSE:
      if (a->dims.rank < 2) return false;
      r.dims.dim[s->p % a->dims.rank] = a->dims.dim[s->q % a->dims.rank],
                        r.dims.dim[s->q % a->dims.rank] = a->dims.dim[s->p % a->dims.rank];
      break;
    case RG_SLICE:
      if (a->dims.rank < 1) return false;
      extent = a->dims.dim[axis_of(a, s->p)];
      slice_of(extent, s->p / 8, s->q, &start, &stop, &step);
      r.dims.dim[axis_of(a, s->p)] = (stop - start + step - 1) / step;
      break;
    case RG_FLIP:
      if (a->dims.rank < 1) return false;
      break;
    case RG_FLATTEN: r.dims = tc_dims_of(1, (const int64_t[]){near_count(a->dims)}); break;
    case RG_EXPAND:
      if (a->dims.rank > 2) return false;
      memmove(&r.dims.dim[1], &a->dims.dim[0], 3 * sizeof(int64_t));
      r.dims.dim[0] = 1 + s->p % 3, r.dims.rank++;
      break;
    case RG_UNFOLD: {
      if (a->dims.rank < 1 || (extent = a->dims.dim[axis_of(a, s->p)]) < 1) return false;
      int64_t size = window_of(extent, s->p);
      r.dims.dim[axis_of(a, s->p)] = (extent - size) / (1 + s->q % 3) + 1, r.dims.dim[r.dims.rank++] = size;
      break;
    }
    case RG_PAD:
      if (a->dims.rank < 1) return false;
      r.dims.dim[axis_of(a, s->p)] += 3, r.big = fmax(a->big, 2);
      break;
    case RG_CAT: {
      if (a->type != b->type || a->dims.rank != b->dims.rank || a->dims.rank < 1) return false;
      int axis = axis_of(a, s->p);
      for (int k = 0; k < a->dims.rank; k++)
        if (k != axis && a->dims.dim[k] != b->dims.dim[k]) return false;
      r.dims.dim[axis] += b->dims.dim[axis];
      r.grad = a->grad || b->grad, r.exact = a->exact && b->exact, r.big = fmax(a->big, b->big),
      r.err = fmax(a->err, b->err);
      break;
    }
    case RG_FOLD: {
      if (a->dims.rank < 1) return false;
      int k = s->p % N_FOLD, axis = axis_of(a, s->q);
      double count = (double)a->dims.dim[axis];
      if (((k == MAX || k == MIN || k == MEAN) && count < 1) || ((k == MAX || k == MIN) && a->type == TC_BOOL) ||
          (k == MEAN && !fl) || (k == ANY && (!a->exact || p->smooth)))
        return false;
      pl->kink |= (k == MAX || k == MIN) && a->grad && !a->exact;
      if (k == SUM || k == MEAN) {
        if (!fl) r.type = TC_I64;
        r.exact = !fl, r.err = count * a->err + (fl ? 4 * count * count * a->big * fmin(epsilon(a->type), 1.2e-7) : 0),
        r.big = count * a->big, rounds = true;
      }
      if (k == ANY) r.type = TC_BOOL, r.grad = false, r.big = 1, r.err = 0;
      bool keep = s->q & 8;
      if (keep)
        r.dims.dim[axis] = 1;
      else
        memmove(&r.dims.dim[axis], &r.dims.dim[axis + 1], (size_t)(r.dims.rank - axis - 1) * sizeof(int64_t)),
            r.dims.rank--;
      break;
    }
    case RG_ARGMAX: {
      if (a->dims.rank < 1 || a->type == TC_BOOL || !a->exact || p->smooth || a->dims.dim[axis_of(a, s->q)] < 1)
        return false;
      int axis = axis_of(a, s->q);
      r.type = TC_I64, r.grad = false, r.big = (double)a->dims.dim[axis];
      r.dims.dim[axis] = 1;
      break;
    }
    case RG_CUMSUM: {
      if (a->dims.rank < 1) return false;
      double count = (double)a->dims.dim[axis_of(a, s->q)] + 1;
      if (!fl)
        r.type = TC_I64;
      else
        r.exact = false, r.err = count * a->err + 4 * count * count * a->big * epsilon(a->type);
      r.big = count * a->big;
      break;
    }
    case RG_SORT:
      if (a->dims.rank < 1) return false;
      pl->kink |= a->grad && !a->exact;
      break;
    case RG_MAX_POOL: {
      int64_t size, n;
      if (a->dims.rank < 2 || a->dims.rank > 3 || a->type == TC_BOOL || (extent = a->dims.dim[a->dims.rank - 1]) < 1)
        return false;
      (void)pool_of(extent, s->p, s->q, &size, &n);
      r.dims.dim[a->dims.rank - 1] = n;
      pl->kink |= a->grad && !a->exact;
      break;
    }
    case RG_SOFTMAX:
      if (a->dims.rank < 1 || !fl) return false;
      r.exact = false, r.err = 2 * a->err + 8 * epsilon(a->type) * (1 + a->big), r.big = 1;
      break;
    case RG_MATMUL: {
      if (!fl || a->type != b->type || a->dims.rank != 2 || b->dims.rank != 2 || a->dims.dim[1] != b->dims.dim[0])
        return false;
      double k = (double)a->dims.dim[1] + 1;
      if (multiplies_bytes(s->q)) {
        if (a->type != TC_F32 || !a->exact || !b->exact || p->smooth || k > 250) return false;
        r.dims.dim[1] = b->dims.dim[1], r.grad = false, r.exact = true, r.err = 0;
        r.big = s->q % N_MULTIPLY == LINEAR_OF_BYTES ? 32 * k * (a->big + 1) : 64 * k;
        break;
      }
      r.dims.dim[1] = b->dims.dim[1], r.grad = a->grad || b->grad, r.exact = false;
      r.big = k * a->big * b->big,
      r.err = k * (a->big * b->err + b->big * a->err) + 4 * k * r.big * fmin(epsilon(a->type), 1.2e-7), rounds = true;
      break;
    }
    case RG_INDEX:
      if (a->dims.rank < 1 || a->dims.dim[axis_of(a, s->p)] < 1) return false;
      r.dims.dim[axis_of(a, s->p)] = 3;
      break;
    case RG_ASSIGN_SLICE: {  // a[.., start:stop:step, ..] = b, broadcast
      if (a->dims.rank < 1 || a->type != b->type || a->dims.dim[axis_of(a, s->p)] < 1 ||
          p->instr[a->handle].op == RG_PARAM)
        return false;
      tc_dims part = a->dims, both;
      extent = a->dims.dim[axis_of(a, s->p)];
      slice_of(extent, s->p / 8, s->q, &start, &stop, &step);
      part.dim[axis_of(a, s->p)] = (stop - start + step - 1) / step;
      if (!broadcast(&part, &b->dims, &both) || !near_dims_equal(both, part)) return false;
      r.handle = a->handle;
      r.grad = a->grad || b->grad, r.exact = a->exact && b->exact, r.big = fmax(a->big, b->big),
      r.err = fmax(a->err, b->err);
      break;
    }
    case RG_BACKWARD:
      if (!a->grad || pl->backward || !fl) return false;
      pl->backward = true;
      r.value = false;
      break;
    default:  // NOP, READ, scopes
      r.value = false;
  }
  bool whole = !near_is_float(r.type);
  if (rounds && !whole && !r.exact) r.err += 4 * epsilon(r.type) * r.big;
  if (r.value && !whole && (!(r.big <= 1e4) || r.err > 0.05 * (1 + r.big))) return false;
  if (whole && r.big > 1e15) r.big = 1e15;
  if (r.value && (near_count(r.dims) > 6000 || r.dims.rank > 4)) return false;
  if (r.value && whole && r.big > 100 && r.type != TC_I64 && r.type != TC_I32) r.big = 4e4;
  pl->half |= r.grad && (r.type == TC_F16 || r.type == TC_BF16);
  pl->f[i] = r;
  // Every name of an assigned handle now stands for the new value.
  for (int k = 0; k < i && s->op == RG_ASSIGN_SLICE && r.value; k++)
    if (pl->f[k].value && pl->f[k].handle == r.handle) {
      bool alive = pl->f[k].alive;
      pl->f[k] = r, pl->f[k].alive = alive;
    }
  return true;
}

// Facts of the whole program; false if some instruction is refused or scopes do not nest.
static bool plan_program(const rg_program *p, plan *pl) {
  int open[RG_MAX_INSTRS], depth = 0;
  memset(pl, 0, sizeof *pl);
  for (int i = 0; i < p->n; i++) {
    const rg_instr *s = &p->instr[i];
    if (!infer(p, pl, i)) return false;
    if (s->op == RG_SCOPE_BEGIN) open[depth++] = i;
    if (s->op == RG_SCOPE_END) {
      if (!depth) return false;
      int first = open[--depth], kept = pl->f[s->a].handle;
      for (int k = first; k < i; k++)
        if (pl->f[k].value && pl->f[k].handle >= first && pl->f[k].handle != kept &&
            p->instr[pl->f[k].handle].op != RG_PARAM)
          pl->f[k].alive = false;
    }
  }
  return depth == 0;
}

// ---- Making ----

typedef struct dice {
  uint64_t state;
} dice;

static uint32_t roll(dice *d, uint32_t n) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = d->state ^ d->state >> 29;
  return (uint32_t)((x * 0x9e3779b97f4a7c15u) >> 33) % n;
}

static tc_dims random_dims(dice *d) {
  static const int64_t extents[] = {1, 2, 3, 3, 4, 4, 5, 8, 16, 17, 33};
  tc_dims s = tc_dims_of(0, NULL);
  s.rank = (int[]){0, 1, 1, 2, 2, 2, 2, 3}[roll(d, 8)];
  for (int k = 0; k < s.rank; k++) s.dim[k] = extents[roll(d, s.rank == 3 ? 6 : s.rank == 2 ? 9 : 11)];
  if (roll(d, 40) == 0 && s.rank) s.dim[0] = 0;
  return s;
}

static rg_instr random_instr(dice *d, const rg_program *p, const plan *pl) {
  static const tc_type types[] = {TC_F32, TC_F32, TC_F32, TC_F32,  TC_F32, TC_F64,
                                  TC_I32, TC_I64, TC_F16, TC_BF16, TC_U8,  TC_BOOL};
  rg_instr s = {RG_NOP, TC_F32, 0, 0, 0, (int)roll(d, 1 << 20), (int)roll(d, 1 << 20), tc_dims_of(0, NULL)};
  static const rg_op common[] = {RG_UNARY, RG_UNARY,  RG_UNARY,  RG_BINARY, RG_BINARY, RG_BINARY,    RG_BINARY,
                                 RG_NUM,   RG_MATMUL, RG_MATMUL, RG_FOLD,   RG_FOLD,   RG_TRANSPOSE, RG_SLICE};
  s.op = roll(d, 3) ? common[roll(d, sizeof common / sizeof *common)] : (rg_op)(1 + (int)roll(d, RG_UNFOLD - 1));
  if (s.op == RG_FLIP && s.q % 4) s.op = RG_UNFOLD;
  if (s.op == RG_CUMSUM && s.q / 4 % 3) s.op = s.q / 4 % 3 == 1 ? RG_SORT : RG_MAX_POOL;
  s.type = p->smooth ? TC_F64 : types[roll(d, 12)];
  if (s.op == RG_PARAM && s.type != TC_F64) s.type = TC_F32;
  s.dims = random_dims(d);
  // Half of the leaves look like one that is there, so that operands fit.
  if ((s.op == RG_LEAF || s.op == RG_PARAM) && p->n && roll(d, 2)) {
    const fact *f = &pl->f[roll(d, (uint32_t)p->n)];
    if (f->value) s.dims = f->dims, s.type = s.op == RG_LEAF || near_is_float(f->type) ? f->type : s.type;
    if (f->value && f->dims.rank == 2 && roll(d, 2)) s.dims.dim[0] = f->dims.dim[1];
  }
  if (p->n) {
    uint32_t n = (uint32_t)p->n, recent = n < 6 ? n : 6;
    s.a = (int)(roll(d, 2) ? n - 1 - roll(d, recent) : roll(d, n));
    s.b = (int)roll(d, n), s.c = (int)roll(d, n);
  }
  return s;
}

// A product of two operands made of one narrow leaf: seldom drawn by chance, and what kernels make
// where they load it. Nothing where it does not fit.
static void add_product_of_one(rg_program *p, plan *pl, dice *d) {
  static const tc_type narrow[] = {TC_F16, TC_BF16, TC_I8}, wide[] = {TC_F32, TC_F32, TC_F32, TC_F64};
  static const rg_op ops[] = {RG_NUM, RG_NUM, RG_UNARY, RG_BINARY, RG_SOFTMAX};
  static const int64_t extents[] = {2, 4, 5, 8, 16, 17};
  int leaf = p->n, cast = leaf + 1, n_ops = 1 + (int)roll(d, 2), at = leaf;
  tc_dims dims = tc_dims_of(2, (const int64_t[]){extents[roll(d, 6)], extents[roll(d, 6)]});
  p->instr[at++] = (rg_instr){RG_LEAF, narrow[roll(d, 3)], 0, 0, 0, (int)roll(d, 1 << 20), 0, dims};
  p->instr[at++] = (rg_instr){RG_CAST, wide[roll(d, 4)], leaf, 0, 0, 0, 0, tc_dims_of(0, NULL)};
  for (int k = 0; k < n_ops; k++, at++)
    p->instr[at] = (rg_instr){ops[roll(d, 5)],    TC_F32, at - 1, cast, 0, (int)roll(d, 1 << 20), (int)roll(d, 1 << 20),
                              tc_dims_of(0, NULL)};
  int made = at - 1, turned = roll(d, 2) ? made : cast;
  p->instr[at++] = (rg_instr){RG_TRANSPOSE, TC_F32, turned, 0, 0, 0, 1, tc_dims_of(0, NULL)};
  p->instr[at] = (rg_instr){RG_MATMUL, TC_F32, turned == made ? cast : made, at - 1, 0, 0, 0, tc_dims_of(0, NULL)};
  bool first = roll(d, 2);
  if (first) p->instr[at].a = at - 1, p->instr[at].b = turned == made ? cast : made;
  bool fits = true;
  for (int i = leaf; i <= at && fits; i++) fits = infer(p, pl, i);
  if (fits) p->n = at + 1;
}

void rg_make(rg_program *p, uint64_t seed) {
  dice d = {seed * 0x9e3779b97f4a7c15u + 12345}, shared = {seed * 0x9e3779b97f4a7c15u + 54321};
  plan pl;
  memset(p, 0, sizeof *p);
  roll(&d, 2);
  p->smooth = roll(&d, 4) == 0;
  bool shares = seed % 4 == 0 && !p->smooth;
  int want = 6 + (int)roll(&d, RG_MAX_INSTRS - 16), depth = 0;
  p->instr[p->n++] =
      (rg_instr){RG_PARAM, p->smooth ? TC_F64 : TC_F32, 0, 0, 0, (int)roll(&d, 1000), 0, random_dims(&d)};
  for (int tries = 0; p->n < want && tries < 4000; tries++) {
    if (!plan_program(p, &pl) && !depth) break;
    if (shares && p->n + 6 < want && roll(&shared, 5) == 0) add_product_of_one(p, &pl, &shared);
    rg_instr s = random_instr(&d, p, &pl);
    // An open scope is not yet a valid program: close it with what was made last when the budget
    // runs out.
    if (s.op == RG_SCOPE_BEGIN && (depth || p->n + 8 > want)) continue;
    if (s.op == RG_SCOPE_END && !depth) continue;
    if (s.op == RG_BACKWARD && depth) continue;
    // Operands of several seldom fit by chance: draw them again a few times.
    bool fits = false, several = s.op == RG_WHERE || s.op == RG_MATMUL || s.op == RG_ASSIGN_SLICE ||
                                 s.op == RG_COMPARE || s.op == RG_CAT;
    for (int draw = 0; draw < (several ? 60 : 1) && !fits; draw++) {
      p->instr[p->n] = s;
      fits = infer(p, &pl, p->n);
      if (p->n)
        s.a = (int)roll(&d, (uint32_t)p->n), s.b = (int)roll(&d, (uint32_t)p->n), s.c = (int)roll(&d, (uint32_t)p->n);
    }
    if (!fits) continue;
    depth += s.op == RG_SCOPE_BEGIN, depth -= s.op == RG_SCOPE_END;
    p->n++;
    tries = 0;
  }
  for (int k = p->n - 1; depth && k >= 0; k--) {
    plan_program(p, &pl);
    p->instr[p->n] = (rg_instr){RG_SCOPE_END, TC_F32, k, 0, 0, 0, 0, tc_dims_of(0, NULL)};
    if (infer(p, &pl, p->n) && p->n < RG_MAX_INSTRS - 1) p->n++, depth--;
  }
  plan_program(p, &pl);
  for (int k = p->n - 1; k > 0 && !pl.backward && p->n < RG_MAX_INSTRS; k--) {
    p->instr[p->n] = (rg_instr){RG_BACKWARD, TC_F32, k, 0, 0, 0, 0, tc_dims_of(0, NULL)};
    if (infer(p, &pl, p->n)) p->n++;
  }
}

// ---- Running ----

typedef enum mode { FUSED, OP_BY_OP, REFERENCE } mode;

typedef struct seen {
  int instr;
  char kind;  // v value at the end, r read on the way, g gradient
  tc_type type;
  tc_dims dims;
  void *data;
} seen;

typedef struct run {
  seen seen[3 * RG_MAX_INSTRS];
  int n;
  tc_status status;
  char message[300];
  double loss;
  bool no_backward;  // stop at the loss
  const double *nudge;  // added to parameter elements, in order, times `by`; or NULL
  double by;
  int64_t n_nudged;
} run;

static void run_fini(run *r) {
  for (int k = 0; k < r->n; k++) free(r->seen[k].data);
}

// Leaves hold small multiples of a quarter (exact in every type), or in smooth programs anything in
// [-2, 2].
static double leaf_value(const rg_program *p, const rg_instr *s, int64_t i) {
  dice d = {(uint64_t)s->p * 7919 + (uint64_t)i * 104729};
  roll(&d, 2);
  if (p->smooth && near_is_float(s->type)) return (double)roll(&d, 1 << 24) * 0x1p-22 - 2;
  int32_t q = (int32_t)roll(&d, 25) - 12;
  if (near_is_float(s->type)) return q * 0.25;
  return s->type == TC_U8 ? q & 3 : s->type == TC_BOOL ? q > 0 : q / 4;
}

static void *leaf_data(const rg_program *p, const rg_instr *s, run *r) {
  int64_t n = near_count(s->dims);
  void *data = calloc((size_t)n + 1, tc_type_bytes(s->type));
  for (int64_t i = 0; i < n; i++) {
    double v = leaf_value(p, s, i);
    if (s->op == RG_PARAM && r->nudge) v += r->by * r->nudge[r->n_nudged++ % 64];
    near_set(s->type, data, i, v);
  }
  return data;
}

static void note(run *r, int instr, char kind, tc_tensor t) {
  if (r->status != TC_OK) return;
  seen *s = &r->seen[r->n++];
  s->instr = instr, s->kind = kind, s->type = tc_dtype(t), s->dims = tc_shape(t);
  size_t bytes = tc_is_valid(t) ? (size_t)near_count(s->dims) * tc_type_bytes(s->type) : 0;
  s->data = calloc(bytes + 1, 1);
  r->status = tc_to_host(t, s->data, bytes);
}

static tc_tensor fold(int k, tc_tensor x, int axis, bool keep) {
  tc_dims axes = tc_dims_of(1, (const int64_t[]){axis});
  switch (k) {
    case SUM: return tc_sum(x, axes, keep);
    case MEAN: return tc_mean(x, axes, keep);
    case MAX: return tc_max(x, axes, keep);
    case MIN: return tc_min(x, axes, keep);
    default: return tc_any(x, axes, keep);
  }
}

static void dims_fill(int64_t *dim, int rank, int64_t v) {
  for (int k = 0; k < rank; k++) dim[k] = v;
}

static void step(const rg_program *p, const plan *pl, int i, tc_tensor *h, tc_scope *scopes, int *depth, run *r) {
  const rg_instr *s = &p->instr[i];
  tc_tensor a = h[s->a], b = h[s->b];
  const fact *fa = &pl->f[s->a];
  tc_dims low = tc_dims_of(0, NULL), high, axes;
  int axis = fa->dims.rank > 0 ? s->p % fa->dims.rank : 0;
  int64_t start[TC_MAX_RANK], stop[TC_MAX_RANK], step_of[TC_MAX_RANK];
  switch (s->op) {
    case RG_LEAF:
    case RG_PARAM: {
      void *data = leaf_data(p, s, r);
      h[i] = tc_from_host(data, s->dims, s->type);
      free(data);
      if (s->op == RG_PARAM) h[i] = tc_param(h[i]);
      break;
    }
    case RG_UNARY: h[i] = unary_fns[s->p % N_UNARY].fn(a); break;
    case RG_BINARY: h[i] = binary(s->p % N_BINARY, a, b); break;
    case RG_NUM: h[i] = s->q % 2 ? tc_mul(a, 2) : tc_add(a, s->p % 3); break;
    case RG_COMPARE:
      h[i] = s->p % N_COMPARE == LT ? tc_lt(a, b) : s->p % N_COMPARE == LE ? tc_le(a, b) : tc_eq(a, b);
      break;
    case RG_WHERE: h[i] = tc_where(a, b, h[s->c]); break;
    case RG_CAST: h[i] = tc_cast(a, s->type); break;
    case RG_TRANSPOSE: h[i] = tc_transpose(a, axis, s->q % fa->dims.rank); break;
    case RG_SLICE:
      slice_of(fa->dims.dim[axis], s->p / 8, s->q, start, stop, step_of);
      h[i] = tc_slice(a, axis, start[0], stop[0], step_of[0]);
      break;
    case RG_FLIP:
      axes = tc_dims_of(1, (const int64_t[]){axis});
      h[i] = tc_flip(a, axes);
      break;
    case RG_UNFOLD: h[i] = tc_unfold(a, axis, window_of(fa->dims.dim[axis], s->p), 1 + s->q % 3); break;
    case RG_FLATTEN: h[i] = tc_reshape(a, TC_SHAPE(-1)); break;
    case RG_EXPAND: h[i] = tc_expand(a, pl->f[i].dims); break;
    case RG_PAD:
      low.rank = fa->dims.rank, high = low;
      low.dim[axis] = 1, high.dim[axis] = 2;
      h[i] = tc_pad(a, low, high, fa->type == TC_BOOL ? 1 : 2);
      break;
    case RG_CAT: h[i] = tc_cat(2, (const tc_tensor[]){a, b}, axis); break;
    case RG_FOLD: h[i] = fold(s->p % N_FOLD, a, s->q % fa->dims.rank, s->q & 8); break;
    case RG_ARGMAX: h[i] = tc_argmax(a, s->q % fa->dims.rank, true); break;
    case RG_CUMSUM: h[i] = tc_cumsum(a, s->q % fa->dims.rank); break;
    case RG_SORT: h[i] = tc_sort(a, s->q % fa->dims.rank, s->p % 2); break;
    case RG_MAX_POOL: {
      int64_t size, n;
      tc_pool_options o = pool_of(fa->dims.dim[fa->dims.rank - 1], s->p, s->q, &size, &n);
      h[i] = tc_max_pool1d(a, tc_dims_of(1, &size), o);
      break;
    }
    case RG_SOFTMAX: h[i] = tc_softmax(a, s->q % fa->dims.rank); break;
    case RG_MATMUL: h[i] = matmul(s->q, a, b); break;
    case RG_INDEX: {
      int64_t n = fa->dims.dim[axis], index[3] = {s->q % n, n - 1, -1 - s->q / 64 % n};
      h[i] = tc_index_select(a, axis, tc_from_host(index, TC_SHAPE(3), TC_I64));
      break;
    }
    case RG_ASSIGN_SLICE: {
      tc_status st;
      dims_fill(start, fa->dims.rank, 0), dims_fill(step_of, fa->dims.rank, 1);
      memcpy(stop, fa->dims.dim, sizeof stop);
      slice_of(fa->dims.dim[axis], s->p / 8, s->q, &start[axis], &stop[axis], &step_of[axis]);
      st = tc_assign_slice(a, start, stop, step_of, b);
      if (r->status == TC_OK) r->status = st;
      h[i] = a;
      break;
    }
    case RG_READ: note(r, i, 'r', a); break;
    case RG_SCOPE_BEGIN: scopes[(*depth)++] = tc_scope_begin(); break;
    case RG_SCOPE_END:
      // A handle of an outer scope is kept by that scope already.
      for (int k = i; k >= 0; k--)
        if (p->instr[k].op == RG_SCOPE_BEGIN) {
          if (fa->handle > k) tc_keep(a);
          break;
        }
      tc_scope_end(scopes[--*depth]);
      break;
    case RG_BACKWARD: {
      tc_tensor loss = tc_sum(a, TC_ALL, false);
      if (r->no_backward && r->status == TC_OK)
        r->status = tc_item_at(tc_cast(loss, TC_F64), TC_F64, &r->loss, TC_HERE);
      else if (r->status == TC_OK)
        r->status = tc_backward(loss);
      break;
    }
    default: break;
  }
}

static void run_program(const rg_program *p, const plan *pl, mode m, run *r) {
  tc_tensor h[RG_MAX_INSTRS] = {{0, 0}};
  tc_scope scopes[RG_MAX_INSTRS];
  int depth = 0;
  r->status = tc_set_default_device(m == REFERENCE ? "tc:ref" : near_device());
  tc_clear_error();
  tc_seed(1);
  tc_scope outer = tc_scope_begin();
  for (int i = 0; i < p->n; i++) {
    step(p, pl, i, h, scopes, &depth, r);
    if (m == OP_BY_OP && pl->f[i].value && r->status == TC_OK) r->status = tc_eval(1, &h[i]);
    if (p->instr[i].op == RG_BACKWARD && r->no_backward) break;
  }
  for (int i = 0; i < p->n && !r->no_backward; i++) {
    const fact *f = &pl->f[i];
    bool last = i >= p->n - 3;
    if (f->value && f->alive && f->handle == i && (last || (p->instr[i].p + i) % 5 < 2)) note(r, i, 'v', h[i]);
    if (p->instr[i].op == RG_PARAM && pl->backward) {
      tc_tensor g = tc_grad(h[i]);
      if (tc_is_valid(g)) note(r, i, 'g', g);
    }
  }
  snprintf(r->message, sizeof r->message, "%s: %s", tc_status_text(r->status), tc_last_error()->message);
  while (depth) tc_scope_end(scopes[--depth]);
  tc_scope_end(outer);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM) tc_release(h[i]);
}

// ---- As a compiled function: leaves are its arguments, parameters and indices are found by it,
// and what is read on the way is a result ----

typedef struct body {
  const rg_program *p;
  const plan *pl;
  tc_tensor h[RG_MAX_INSTRS];  // parameters, and the index of each RG_INDEX
  int n_in, n_out;
  run *r;
} body;

static bool is_shown(const body *b, int i) {
  const fact *f = &b->pl->f[i];
  return f->value && f->alive && f->handle == i && (i >= b->p->n - 3 || (b->p->instr[i].p + i) % 5 < 2);
}

static tc_status run_body(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const body *b = user;
  tc_tensor h[RG_MAX_INSTRS] = {{0, 0}};
  tc_scope scopes[RG_MAX_INSTRS];
  int depth = 0, n = 0;
  for (int i = 0; i < b->p->n; i++) {
    const rg_instr *s = &b->p->instr[i];
    const tc_dims d = b->pl->f[s->a].dims;
    switch (s->op) {
      case RG_LEAF: h[i] = *in++; break;
      case RG_PARAM: h[i] = b->h[i]; break;
      case RG_INDEX: h[i] = tc_index_select(h[s->a], d.rank > 0 ? s->p % d.rank : 0, b->h[i]); break;
      case RG_READ: out[n++] = tc_reshape(h[s->a], tc_shape(h[s->a])); break;
      case RG_SCOPE_END:
        for (int k = 0; k < n; k++) tc_keep(out[k]);
        step(b->p, b->pl, i, h, scopes, &depth, b->r);
        break;
      default: step(b->p, b->pl, i, h, scopes, &depth, b->r);
    }
  }
  for (int i = 0; i < b->p->n; i++)
    if (is_shown(b, i)) out[n++] = h[i];
  (void)n_in, (void)n_out;
  return b->r->status;
}

static void make_operands(body *b, tc_tensor *in) {
  b->n_in = b->n_out = 0;
  for (int i = 0; i < b->p->n; i++) {
    const rg_instr *s = &b->p->instr[i];
    const tc_dims d = b->pl->f[s->a].dims;
    void *data = s->op == RG_LEAF || s->op == RG_PARAM ? leaf_data(b->p, s, b->r) : NULL;
    if (s->op == RG_LEAF) in[b->n_in++] = tc_from_host(data, s->dims, s->type);
    if (s->op == RG_PARAM && !tc_is_valid(b->h[i])) b->h[i] = tc_param(tc_from_host(data, s->dims, s->type));
    if (s->op == RG_INDEX && !tc_is_valid(b->h[i])) {
      int64_t n = d.dim[d.rank > 0 ? s->p % d.rank : 0], index[3] = {s->q % n, n - 1, -1 - s->q / 64 % n};
      b->h[i] = tc_from_host(index, TC_SHAPE(3), TC_I64);
    }
    free(data);
    b->n_out += (s->op == RG_READ) + is_shown(b, i);
  }
}

// One call; what it shows is in r.
static void run_call(body *b, tc_compiled *c, run *r) {
  tc_tensor in[RG_MAX_INSTRS], out[2 * RG_MAX_INSTRS];
  int n = 0;
  b->r = r;
  make_operands(b, in);
  tc_seed(1);
  if (r->status == TC_OK) r->status = tc_compiled_call(c, in, b->n_in, out, b->n_out);
  for (int i = 0; i < b->p->n; i++)
    if (b->p->instr[i].op == RG_READ) note(r, i, 'r', out[n++]);
  for (int i = 0; i < b->p->n; i++) {
    if (is_shown(b, i)) note(r, i, 'v', out[n++]);
    tc_tensor g = b->p->instr[i].op == RG_PARAM && b->pl->backward ? tc_grad(b->h[i]) : (tc_tensor){0, 0};
    if (tc_is_valid(g)) note(r, i, 'g', g);
  }
  snprintf(r->message, sizeof r->message, "%s: %s", tc_status_text(r->status), tc_last_error()->message);
}

// Two calls: the first traces, the second takes its graph. Where tensors are assigned there is no
// second, since they would be others then.
static void run_compiled(const rg_program *p, const plan *pl, run *first, run *second, bool *twice) {
  body b = {.p = p, .pl = pl};
  *twice = true;
  for (int i = 0; i < p->n; i++) *twice &= p->instr[i].op != RG_ASSIGN_SLICE;
  first->status = tc_set_default_device(near_device());
  tc_clear_error();
  tc_scope outer = tc_scope_begin();
  tc_compiled *c = tc_compile(run_body, &b, &(tc_compile_options){.name = "random", .fullgraph = true});
  run_call(&b, c, first);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM && first->status == TC_OK) first->status = tc_zero_grad_of(1, &b.h[i]);
  if (*twice) run_call(&b, c, second);
  if (*twice && second->status == TC_OK && tc_compiled_stats(c).n_taken != 1)
    second->status = TC_ERR_STATE, snprintf(second->message, sizeof second->message, "the second call took no graph");
  tc_compiled_destroy(c);
  tc_scope_end(outer);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM) tc_release(b.h[i]);
}

// ---- Comparing ----

static char text[700];

static const char *compare(const plan *pl, const run *x, const run *y, const char *x_name, const char *y_name,
                           bool bits) {
  if (x->status != TC_OK || y->status != TC_OK) {
    if (x->status == y->status && bits) return NULL;  // refused alike: the first comparison reports it
    snprintf(text, sizeof text, "%s: %s; %s: %s", x_name, x->message, y_name, y->message);
    return text;
  }
  if (x->n != y->n) return snprintf(text, sizeof text, "%s shows %d values, %s %d", x_name, x->n, y_name, y->n), text;
  for (int k = 0; k < x->n; k++) {
    const seen *a = &x->seen[k], *b = &y->seen[k];
    const fact *f = &pl->f[a->instr];
    int64_t n = near_count(a->dims), at = -1;
    char da[100], db[100];
    if (a->type != b->type || !near_dims_equal(a->dims, b->dims)) {
      snprintf(text, sizeof text, "%c%d is %s%s in %s, %s%s in %s", a->kind, a->instr, tc_type_name(a->type),
               near_dims_text(a->dims, da, sizeof da), x_name, tc_type_name(b->type),
               near_dims_text(b->dims, db, sizeof db), y_name);
      return text;
    }
    if (a->kind == 'v' && (a->type != f->type || !near_dims_equal(a->dims, f->dims))) {
      snprintf(text, sizeof text, "v%d is %s%s, should be %s%s", a->instr, tc_type_name(a->type),
               near_dims_text(a->dims, da, sizeof da), tc_type_name(f->type), near_dims_text(f->dims, db, sizeof db));
      return text;
    }
    if (bits) {
      at = near_find(a->type, a->data, b->data, n, (near_tol){0, 0, true});
    } else if (a->kind == 'g') {
      double big = 0;
      for (int64_t i = 0; i < n; i++) big = fmax(big, fabs(near_get(b->type, b->data, i)));
      if (!pl->kink)
        at = near_find(a->type, a->data, b->data, n, (near_tol){0, (pl->half ? 0.1 : 0.01) * (1 + big), false});
    } else if (a->kind == 'v') {
      at = near_find(a->type, a->data, b->data, n, (near_tol){0, f->exact ? 0 : f->err, false});
    } else {
      // a read's value may be assigned later: its bound is not the final one, and the same node is
      // seen elsewhere
      continue;
    }
    if (at >= 0) {
      snprintf(text, sizeof text, "%c%d[%lld] of %s%s is %.9g in %s, %.9g in %s", a->kind, a->instr, (long long)at,
               tc_type_name(a->type), near_dims_text(a->dims, da, sizeof da), near_get(a->type, a->data, at), x_name,
               near_get(b->type, b->data, at), y_name);
      return text;
    }
  }
  return NULL;
}

// The gradient along one direction against central differences at two distances, which must agree
// with each other to count.
static const char *check_slope(const rg_program *p, const plan *pl, const run *ref) {
  double direction[64], slope = 0, size = 0, numeric[2];
  int64_t at = 0;
  for (int k = 0; k < 64; k++) direction[k] = cos(1.0 + 0.7 * k);
  for (int i = 0; i < p->n; i++) {
    if (p->instr[i].op != RG_PARAM) continue;
    int64_t n = near_count(p->instr[i].dims);
    for (int k = 0; k < ref->n; k++)
      for (int64_t e = 0; e < n && ref->seen[k].kind == 'g' && ref->seen[k].instr == i; e++) {
        double g = near_get(ref->seen[k].type, ref->seen[k].data, e);
        slope += g * direction[(at + e) % 64], size += fabs(g * direction[(at + e) % 64]);
      }
    at += n;
  }
  for (int k = 0; k < 2; k++) {
    double by = k ? 1e-5 : 2e-5, loss[2];
    for (int sign = 0; sign < 2; sign++) {
      static run r;
      memset(&r, 0, sizeof r);
      r.no_backward = true, r.nudge = direction, r.by = sign ? by : -by;
      run_program(p, pl, REFERENCE, &r);
      loss[sign] = r.loss;
      run_fini(&r);
      if (r.status != TC_OK) return snprintf(text, sizeof text, "central differences: %.500s", r.message), text;
    }
    numeric[k] = (loss[1] - loss[0]) / (2 * by);
  }
  if (fabs(numeric[0] - numeric[1]) > 1e-3 * (1 + fabs(numeric[1]))) return NULL;
  if (fabs(slope - numeric[1]) <= 1e-2 * (1 + fabs(numeric[1])) + 1e-6 * size) return NULL;
  return snprintf(text, sizeof text, "backward says the slope is %.9g, central differences %.9g", slope, numeric[1]),
         text;
}

// The fused run against two calls of the compiled function.
static const char *check_compiled(const rg_program *p, const plan *pl, const run *fused) {
  static run first, second;
  bool twice;
  memset(&first, 0, sizeof first), memset(&second, 0, sizeof second);
  run_compiled(p, pl, &first, &second, &twice);
  const char *bad = compare(pl, fused, &first, "fused", "compiled", true);
  if (!bad && twice) bad = compare(pl, fused, &second, "fused", "the compiled function's second call", true);
  run_fini(&first), run_fini(&second);
  return bad;
}

const char *rg_check(const rg_program *p) {
  static run fused, eager, ref;
  plan pl;
  if (!plan_program(p, &pl)) return NULL;  // a shrinking step went too far
  memset(&fused, 0, sizeof fused), memset(&eager, 0, sizeof eager), memset(&ref, 0, sizeof ref);
  bool both = !near_is_slow() || p->n % 4 == 0;  // op by op most kernels are made
  run_program(p, &pl, FUSED, &fused), run_program(p, &pl, REFERENCE, &ref);
  if (both) run_program(p, &pl, OP_BY_OP, &eager);
  const char *bad = compare(&pl, &fused, &ref, "fused", "tc:ref", false);
  if (!bad && both) bad = compare(&pl, &fused, &eager, "fused", "op by op", true);
  if (!bad && fused.status == TC_OK) bad = check_compiled(p, &pl, &fused);
  if (!bad && p->smooth && pl.backward && ref.status == TC_OK) bad = check_slope(p, &pl, &ref);
  run_fini(&fused), run_fini(&eager), run_fini(&ref);
  return bad;
}

// ---- Other sizes ----

// The extent of more than one that most leaves have; 0: none has.
static int64_t usual_extent(const rg_program *p) {
  int count[64] = {0}, best = 0;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->instr[i].dims.rank && (p->instr[i].op == RG_LEAF || p->instr[i].op == RG_PARAM); k++)
      if (p->instr[i].dims.dim[k] > 1 && p->instr[i].dims.dim[k] < 64) count[p->instr[i].dims.dim[k]]++;
  for (int v = 2; v < 64; v++)
    if (count[v] > count[best]) best = v;
  return count[best] ? best : 0;
}

// The program where that extent is another. False: its ops do not allow it.
static bool at_size(const rg_program *p, int64_t was, int64_t now, rg_program *q, plan *pl) {
  *q = *p;
  for (int i = 0; i < q->n; i++)
    for (int e = 0; e < q->instr[i].dims.rank; e++)
      if (q->instr[i].dims.dim[e] == was) q->instr[i].dims.dim[e] = now;
  return plan_program(q, pl);
}

static void run_all(const char *dynamic, const rg_program *p, int64_t was, const int64_t *size, int n, run *all) {
  rg_program q;
  plan pl;
  setenv("TC_DYNAMIC", dynamic, 1);
  tc_options_reload();
  memset(all, 0, (size_t)n * sizeof *all);
  for (int k = 0; k < n; k++)
    if (at_size(p, was, size[k], &q, &pl)) run_program(&q, &pl, FUSED, &all[k]);
}

const char *rg_check_sizes(const rg_program *p, const int64_t *size, int n) {
  static run bound[RG_MAX_SIZES], lowered[RG_MAX_SIZES];
  static char where[900];
  int64_t was = usual_extent(p);
  const char *bad = NULL;
  if (!was) return NULL;
  n = n < RG_MAX_SIZES ? n : RG_MAX_SIZES;
  run_all("auto", p, was, size, n, bound);
  run_all("0", p, was, size, n, lowered);
  for (int k = 0; k < n; k++) {
    rg_program q;
    plan pl;
    if (at_size(p, was, size[k], &q, &pl) && !bad) bad = compare(&pl, &bound[k], &lowered[k], "bound", "lowered", true);
    if (bad && bad != where)
      snprintf(where, sizeof where, "%.700s, where %d is %d", bad, (int)was, (int)size[k]), bad = where;
    run_fini(&bound[k]), run_fini(&lowered[k]);
  }
  return bad;
}

// ---- Shrinking ----

int rg_size(const rg_program *p) {
  int n = 0;
  for (int i = 0; i < p->n; i++) n += p->instr[i].op != RG_NOP;
  return n;
}

static bool still_fails(rg_program *p, const rg_program *smaller) {
  plan pl;
  if (!plan_program(smaller, &pl) || !rg_check(smaller)) return false;
  *p = *smaller;
  return true;
}

// Leaves out instruction i (or makes it a leaf if others need it); the smaller program still fails.
static bool drop(rg_program *p, const plan *pl, int i) {
  rg_program q = *p;
  rg_instr *s = &q.instr[i];
  if (s->op == RG_NOP) return false;
  if (s->op == RG_SCOPE_BEGIN)
    for (int k = i; k < q.n; k++)
      if (q.instr[k].op == RG_SCOPE_END) {
        q.instr[k].op = RG_NOP;
        break;
      }
  s->op = RG_NOP;
  if (still_fails(p, &q)) return true;
  if (!pl->f[i].value || p->instr[i].op == RG_LEAF) return false;
  q = *p;
  s->op = RG_LEAF, s->type = pl->f[i].type, s->dims = pl->f[i].dims;
  return still_fails(p, &q);
}

static bool shrink_dims(rg_program *p, int i, int k) {
  static const int64_t to[] = {1, 2, 3, 5, 17};
  if (p->instr[i].op != RG_LEAF && p->instr[i].op != RG_PARAM) return false;
  for (size_t t = 0; t < sizeof to / sizeof *to && to[t] < p->instr[i].dims.dim[k]; t++) {
    rg_program q = *p;
    int64_t was = p->instr[i].dims.dim[k];
    // All leaves' extents of this size together, else operands stop fitting; then this one alone.
    for (int j = 0; j < q.n; j++)
      for (int e = 0; e < q.instr[j].dims.rank; e++)
        if (q.instr[j].dims.dim[e] == was) q.instr[j].dims.dim[e] = to[t];
    if (still_fails(p, &q)) return true;
    q = *p;
    q.instr[i].dims.dim[k] = to[t];
    if (still_fails(p, &q)) return true;
  }
  return false;
}

const char *rg_shrink(rg_program *p) {
  plan pl;
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = p->n - 1; i >= 0; i--) {
      plan_program(p, &pl);
      progress |= drop(p, &pl, i);
      for (int k = 0; k < p->instr[i].dims.rank; k++) progress |= shrink_dims(p, i, k);
    }
  }
  return rg_check(p);
}

// ---- Printing ----

static void print_leaf(const rg_program *p, int i, FILE *out) {
  const rg_instr *s = &p->instr[i];
  static const char *const c_types[TC_N_TYPES] = {"uint8_t", "uint8_t", "int8_t", "int16_t", "int32_t",
                                                  "int64_t", "double",  "double", "double",  "double"};
  int64_t n = near_count(s->dims);
  fprintf(out, "  const %s d%d[] = {", c_types[s->type], i);
  for (int64_t e = 0; e < n; e++) fprintf(out, "%s%.17g", e ? ", " : "", leaf_value(p, s, e));
  fprintf(out, "%s};\n  tc_tensor v%d = ", n ? "" : "0", i);
  fprintf(out, near_is_float(s->type) ? "tc_cast(" : "(");
  fprintf(out, "tc_from_host(d%d, tc_dims_of(%d, (const int64_t[]){", i, s->dims.rank);
  for (int k = 0; k < s->dims.rank || k == 0; k++) fprintf(out, "%s%lld", k ? ", " : "", (long long)s->dims.dim[k]);
  bool fl = near_is_float(s->type);
  const char *name = fl ? "f64" : tc_type_name(s->type);
  fprintf(out, "}), TC_");
  for (const char *c = name; *c; c++) fputc(*c >= 'a' ? *c - 32 : *c, out);
  fprintf(out, ")");
  if (fl) {
    fprintf(out, ", TC_");
    for (const char *c = tc_type_name(s->type); *c; c++) fputc(*c >= 'a' ? *c - 32 : *c, out);
  }
  fprintf(out, ");\n");
  if (s->op == RG_PARAM) fprintf(out, "  v%d = tc_param(v%d);\n", i, i);
}

static void print_step(const rg_program *p, const plan *pl, int i, FILE *out) {
  const rg_instr *s = &p->instr[i];
  const fact *fa = &pl->f[s->a];
  int a = fa->handle, b = pl->f[s->b].handle, rank = fa->dims.rank, axis = rank > 0 ? s->p % rank : 0,
      axis_q = rank > 0 ? s->q % rank : 0;
  char x[16], y[16], type[16];
  int64_t start = 0, stop = 0, step_of = 1, extent = rank > 0 ? fa->dims.dim[axis] : 1;
  snprintf(x, sizeof x, "v%d", a), snprintf(y, sizeof y, "v%d", b);
  snprintf(type, sizeof type, "%s", tc_type_name(s->type));
  for (char *c = type; *c; c++) *c = (char)(*c >= 'a' ? *c - 32 : *c);
  slice_of(extent, s->p / 8, s->q, &start, &stop, &step_of);
  if (s->op == RG_LEAF || s->op == RG_PARAM) {
    print_leaf(p, i, out);
    return;
  }
  if (pl->f[i].value && s->op != RG_ASSIGN_SLICE)
    fprintf(out, "  tc_tensor v%d = ", i);
  else if (s->op != RG_NOP)
    fprintf(out, "  ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  switch (s->op) {
    case RG_UNARY: fprintf(out, unary_fns[s->p % N_UNARY].text, x); break;
    case RG_BINARY: fprintf(out, binary_texts[s->p % N_BINARY], x, y); break;
    case RG_COMPARE: fprintf(out, compare_texts[s->p % N_COMPARE], x, y); break;
#pragma GCC diagnostic pop
    case RG_NUM: s->q % 2 ? fprintf(out, "tc_mul(%s, 2)", x) : fprintf(out, "tc_add(%s, %d)", x, s->p % 3); break;
    case RG_WHERE: fprintf(out, "tc_where(%s, %s, v%d)", x, y, pl->f[s->c].handle); break;
    case RG_CAST: fprintf(out, "tc_cast(%s, TC_%s)", x, type); break;
    case RG_TRANSPOSE: fprintf(out, "tc_transpose(%s, %d, %d)", x, axis, axis_q); break;
    case RG_SLICE:
      fprintf(out, "tc_slice(%s, %d, %lld, %lld, %lld)", x, axis, (long long)start, (long long)stop,
              (long long)step_of);
      break;
    case RG_FLIP: fprintf(out, "tc_flip(%s, TC_AXES(%d))", x, axis); break;
    case RG_UNFOLD:
      fprintf(out, "tc_unfold(%s, %d, %lld, %d)", x, axis, (long long)window_of(fa->dims.dim[axis], s->p),
              1 + s->q % 3);
      break;
    case RG_FLATTEN: fprintf(out, "tc_reshape(%s, TC_SHAPE(-1))", x); break;
    case RG_EXPAND:
      fprintf(out, "tc_expand(%s, TC_SHAPE(", x);
      for (int k = 0; k < pl->f[i].dims.rank; k++)
        fprintf(out, "%s%lld", k ? ", " : "", (long long)pl->f[i].dims.dim[k]);
      fprintf(out, "))");
      break;
    case RG_PAD:
      fprintf(out, "tc_pad(%s, TC_SHAPE(", x);
      for (int k = 0; k < rank; k++) fprintf(out, "%s%d", k ? ", " : "", k == axis);
      fprintf(out, "), TC_SHAPE(");
      for (int k = 0; k < rank; k++) fprintf(out, "%s%d", k ? ", " : "", 2 * (k == axis));
      fprintf(out, "), %d)", fa->type == TC_BOOL ? 1 : 2);
      break;
    case RG_CAT: fprintf(out, "tc_cat(2, (const tc_tensor[]){%s, %s}, %d)", x, y, axis); break;
    case RG_FOLD:
      fprintf(out, "tc_%s(%s, TC_AXES(%d), %s)", fold_texts[s->p % N_FOLD], x, axis_q, s->q & 8 ? "true" : "false");
      break;
    case RG_ARGMAX: fprintf(out, "tc_argmax(%s, %d, true)", x, axis_q); break;
    case RG_CUMSUM: fprintf(out, "tc_cumsum(%s, %d)", x, axis_q); break;
    case RG_SORT: fprintf(out, "tc_sort(%s, %d, %s)", x, axis_q, s->p % 2 ? "true" : "false"); break;
    case RG_MAX_POOL: {
      int64_t size, n;
      tc_pool_options o = pool_of(rank > 0 ? fa->dims.dim[rank - 1] : 1, s->p, s->q, &size, &n);
      fprintf(
          out,
          "tc_max_pool1d(%s, TC_SHAPE(%lld), (tc_pool_options){.stride = TC_SHAPE(%lld), .padding = TC_SHAPE(%lld), .ceil_mode = %s})",
          x, (long long)size, (long long)o.stride.dim[0], (long long)o.padding.dim[0], o.ceil_mode ? "true" : "false");
      break;
    }
    case RG_SOFTMAX: fprintf(out, "tc_softmax(%s, %d)", x, axis_q); break;
    case RG_MATMUL: print_matmul(out, s->q, x, y); break;
    case RG_INDEX:
      fprintf(out, "tc_index_select(%s, %d, tc_from_host((const int64_t[]){%lld, %lld, %lld}, TC_SHAPE(3), TC_I64))", x,
              axis, (long long)(s->q % extent), (long long)extent - 1, (long long)(-1 - s->q / 64 % extent));
      break;
    case RG_ASSIGN_SLICE:
      fprintf(out, "tc_assign_slice(%s, (const int64_t[]){", x);
      for (int k = 0; k < rank; k++) fprintf(out, "%s%lld", k ? ", " : "", k == axis ? (long long)start : 0LL);
      fprintf(out, "}, (const int64_t[]){");
      for (int k = 0; k < rank; k++) fprintf(out, "%s%lld", k ? ", " : "", (long long)fa->dims.dim[k]);
      fprintf(out, "}, (const int64_t[]){");
      for (int k = 0; k < rank; k++) fprintf(out, "%s%lld", k ? ", " : "", k == axis ? (long long)step_of : 1LL);
      fprintf(out, "}, %s)", y);
      break;
    case RG_READ: fprintf(out, "tc_print(%s)", x); break;
    case RG_SCOPE_BEGIN: fprintf(out, "tc_scope s%d = tc_scope_begin()", i); break;
    case RG_SCOPE_END:
      for (int k = i; k >= 0; k--)
        if (p->instr[k].op == RG_SCOPE_BEGIN) {
          if (a > k) fprintf(out, "tc_keep(%s), ", x);
          fprintf(out, "tc_scope_end(s%d)", k);
          break;
        }
      break;
    case RG_BACKWARD: fprintf(out, "tc_backward(tc_sum(%s, TC_ALL, false))", x); break;
    default: return;
  }
  fprintf(out, ";\n");
}

void rg_print(const rg_program *p, FILE *out) {
  plan pl;
  if (!plan_program(p, &pl)) return;
  fprintf(
      out,
      "// cc -std=gnu11 -Iinclude repro.c -ltc && ./a.out tc:cpu && TC_EAGER=1 ./a.out tc:cpu && ./a.out tc:ref\n#include <stdio.h>\n#include "
      "<tc/tc.h>\n\n"
      "int main(int n, char **words) {\n  if (n > 1 && tc_set_default_device(words[1]) != TC_OK) return 1;\n  tc_seed(1);\n");
  for (int i = 0; i < p->n; i++) print_step(p, &pl, i, out);
  for (int i = 0; i < p->n; i++) {
    if (pl.f[i].value && pl.f[i].alive && pl.f[i].handle == i)
      fprintf(out, "  printf(\"v%d = \"), tc_print(v%d);\n", i, i);
    if (p->instr[i].op == RG_PARAM && pl.backward)
      fprintf(out, "  if (tc_is_valid(tc_grad(v%d))) printf(\"grad v%d = \"), tc_print(tc_grad(v%d));\n", i, i, i);
  }
  fprintf(out, "  printf(\"%%s\\n\", tc_last_error()->message);\n}\n");
}

static void write_line(const char *line, void *arg) {
  fprintf(arg, "%s\n", line);
}

void rg_trace(const rg_program *p, FILE *out) {
  static run r;
  plan pl;
  if (!plan_program(p, &pl)) return;
  setenv("TC_LOG", "trace", 1);
  tc_options_reload();
  tc_set_log(write_line, out);
  memset(&r, 0, sizeof r);
  run_program(p, &pl, FUSED, &r);
  run_fini(&r);
  tc_set_log(NULL, NULL);
  unsetenv("TC_LOG");
  tc_options_reload();
}
