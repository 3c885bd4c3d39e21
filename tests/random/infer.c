// What is known of each value of a random program before it runs: a rule an op. See parts.h.
// Random programs are drawn until their instructions are accepted here: another answer makes other
// programs of the same seeds.
#include "tests/random/parts.h"

// One instruction: its operands' facts, and its own, which begins as the first operand's.
typedef struct inference {
  const rg_program *p;
  rg_plan *pl;
  const rg_instr *s;
  const rg_fact *a, *b, *c;
  rg_fact r;
  bool fl, rounds;  // the first operand is of floats; the result is rounded
} inference;

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

static int axis_of(const rg_fact *x, int p) {
  return p % x->dims.rank;
}

// The result is one of two values, of each element.
static void choose_between(rg_fact *r, const rg_fact *x, const rg_fact *y) {
  r->grad = x->grad || y->grad, r->exact = x->exact && y->exact;
  r->big = fmax(x->big, y->big), r->err = fmax(x->err, y->err);
}

// ---- elementwise ----

static bool infer_leaf(inference *t) {
  t->r.grad = t->s->op == RG_PARAM;
  return !t->r.grad || t->s->type == TC_F32 || t->s->type == TC_F64;
}

static bool infer_unary(inference *t) {
  const rg_unary_fn *u = rg_unary(t->s->p);
  const rg_fact *a = t->a;
  rg_fact *r = &t->r;
  if (a->type == TC_BOOL || (u->floats_only && !t->fl)) return false;
  if (u->flat && (!a->exact || t->p->smooth)) return false;
  t->pl->kink |= u->kink && a->grad && !a->exact;
  r->exact = a->exact && u->exact, r->grad = a->grad && !u->flat;
  r->err = u->grows ? 2 * a->big * a->err : u->slope * a->err;
  r->big = u->grows ? a->big * a->big : u->bound > 0 ? u->bound : a->big + 1;
  t->rounds = u->grows || !u->exact;
  return true;
}

static bool infer_binary(inference *t) {
  const rg_fact *a = t->a, *b = t->b;
  rg_fact *r = &t->r;
  int k = t->s->p % RG_N_BINARY;
  r->type = promoted(a->type, b->type);
  if (r->type == TC_N_TYPES || r->type == TC_BOOL || (k == RG_DIV && !t->fl) ||
      !broadcast(&a->dims, &b->dims, &r->dims))
    return false;
  t->pl->kink |= (k == RG_MAXIMUM || k == RG_MINIMUM) && (a->grad || b->grad) && !(a->exact && b->exact);
  r->exact = a->exact && b->exact, r->grad = a->grad || b->grad;
  r->err = k == RG_MUL ? a->big * b->err + b->big * a->err : k == RG_DIV ? a->err + a->big * b->err : a->err + b->err;
  r->big = k == RG_MUL ? a->big * b->big : k == RG_DIV ? a->big : a->big + b->big;
  if (k == RG_DIV && b->big * b->big > 1e4) return false;
  t->rounds = k != RG_MAXIMUM && k != RG_MINIMUM;
  return true;
}

static bool infer_num(inference *t) {
  if (t->a->type == TC_BOOL) return false;
  t->r.big = t->a->big * 2 + 2, t->r.err = t->a->err * 2, t->rounds = true;
  return true;
}

static bool infer_compare(inference *t) {
  const rg_fact *a = t->a, *b = t->b;
  rg_fact *r = &t->r;
  if (!a->exact || !b->exact || a->type != b->type || t->p->smooth || !broadcast(&a->dims, &b->dims, &r->dims))
    return false;
  r->type = TC_BOOL, r->grad = false, r->big = 1, r->err = 0;
  return true;
}

static bool infer_where(inference *t) {
  const rg_fact *a = t->a, *b = t->b, *c = t->c;
  rg_fact *r = &t->r;
  if (a->type != TC_BOOL || b->type != c->type || !broadcast(&a->dims, &b->dims, &r->dims) ||
      !broadcast(&r->dims, &c->dims, &r->dims))
    return false;
  r->type = b->type;
  choose_between(r, b, c);
  return true;
}

static bool infer_cast(inference *t) {
  const rg_fact *a = t->a;
  rg_fact *r = &t->r;
  tc_type to = t->s->type;
  if (t->p->smooth && to != TC_F64 && to != TC_BOOL) return false;
  if (to == TC_BOOL && !a->exact) return false;
  if (t->p->smooth && t->fl && to == TC_BOOL) return false;
  if (t->fl && !near_is_float(to) && to != TC_BOOL && (!a->exact || a->big > 100 || to == TC_U8)) return false;
  r->grad = a->grad && near_is_float(to);
  if (!near_is_float(to)) r->big = to == TC_BOOL ? 1 : fmax(a->big, 255), r->err = 0;
  t->rounds = true;
  return true;
}

// ---- views, and what moves elements ----

static bool infer_transpose(inference *t) {
  const tc_dims *d = &t->a->dims;
  if (d->rank < 2) return false;
  t->r.dims.dim[t->s->p % d->rank] = d->dim[t->s->q % d->rank];
  t->r.dims.dim[t->s->q % d->rank] = d->dim[t->s->p % d->rank];
  return true;
}

static bool infer_slice(inference *t) {
  int64_t start, stop, step;
  if (t->a->dims.rank < 1) return false;
  int axis = axis_of(t->a, t->s->p);
  rg_slice_of(t->a->dims.dim[axis], t->s->p / 8, t->s->q, &start, &stop, &step);
  t->r.dims.dim[axis] = (stop - start + step - 1) / step;
  return true;
}

static bool infer_flip(inference *t) {
  return t->a->dims.rank >= 1;
}

static bool infer_flatten(inference *t) {
  t->r.dims = tc_dims_of(1, (const int64_t[]){near_count(t->a->dims)});
  return true;
}

static bool infer_expand(inference *t) {
  if (t->a->dims.rank > 2) return false;
  memmove(&t->r.dims.dim[1], &t->a->dims.dim[0], 3 * sizeof(int64_t));
  t->r.dims.dim[0] = 1 + t->s->p % 3, t->r.dims.rank++;
  return true;
}

static bool infer_unfold(inference *t) {
  tc_dims *d = &t->r.dims;
  int64_t extent;
  if (t->a->dims.rank < 1 || (extent = t->a->dims.dim[axis_of(t->a, t->s->p)]) < 1) return false;
  int64_t size = rg_window_of(extent, t->s->p);
  d->dim[axis_of(t->a, t->s->p)] = (extent - size) / (1 + t->s->q % 3) + 1, d->dim[d->rank++] = size;
  return true;
}

static bool infer_pad(inference *t) {
  if (t->a->dims.rank < 1) return false;
  t->r.dims.dim[axis_of(t->a, t->s->p)] += 3, t->r.big = fmax(t->a->big, 2);
  return true;
}

static bool infer_cat(inference *t) {
  const rg_fact *a = t->a, *b = t->b;
  if (a->type != b->type || a->dims.rank != b->dims.rank || a->dims.rank < 1) return false;
  int axis = axis_of(a, t->s->p);
  for (int k = 0; k < a->dims.rank; k++)
    if (k != axis && a->dims.dim[k] != b->dims.dim[k]) return false;
  t->r.dims.dim[axis] += b->dims.dim[axis];
  choose_between(&t->r, a, b);
  return true;
}

static bool infer_index(inference *t) {
  if (t->a->dims.rank < 1 || t->a->dims.dim[axis_of(t->a, t->s->p)] < 1) return false;
  t->r.dims.dim[axis_of(t->a, t->s->p)] = 3;
  return true;
}

// a[.., start:stop:step, ..] = b, broadcast
static bool infer_assign_slice(inference *t) {
  const rg_fact *a = t->a, *b = t->b;
  int64_t start, stop, step;
  if (a->dims.rank < 1 || a->type != b->type || a->dims.dim[axis_of(a, t->s->p)] < 1 ||
      t->p->instr[a->handle].op == RG_PARAM)
    return false;
  tc_dims part = a->dims, both;
  int axis = axis_of(a, t->s->p);
  rg_slice_of(a->dims.dim[axis], t->s->p / 8, t->s->q, &start, &stop, &step);
  part.dim[axis] = (stop - start + step - 1) / step;
  if (!broadcast(&part, &b->dims, &both) || !near_dims_equal(both, part)) return false;
  t->r.handle = a->handle;
  choose_between(&t->r, a, b);
  return true;
}

static bool infer_sort(inference *t) {
  if (t->a->dims.rank < 1) return false;
  t->pl->kink |= t->a->grad && !t->a->exact;
  return true;
}

static bool infer_max_pool(inference *t) {
  const tc_dims *d = &t->a->dims;
  int64_t size, n, extent;
  if (d->rank < 2 || d->rank > 3 || t->a->type == TC_BOOL || (extent = d->dim[d->rank - 1]) < 1) return false;
  (void)rg_pool_of(extent, t->s->p, t->s->q, &size, &n);
  t->r.dims.dim[d->rank - 1] = n;
  t->pl->kink |= t->a->grad && !t->a->exact;
  return true;
}

// ---- folds ----

static bool infer_fold(inference *t) {
  const rg_fact *a = t->a;
  rg_fact *r = &t->r;
  if (a->dims.rank < 1) return false;
  int k = t->s->p % RG_N_FOLD, axis = axis_of(a, t->s->q);
  bool extreme = k == RG_MAX || k == RG_MIN;
  double count = (double)a->dims.dim[axis];
  if (((extreme || k == RG_MEAN) && count < 1) || (extreme && a->type == TC_BOOL) || (k == RG_MEAN && !t->fl) ||
      (k == RG_ANY && (!a->exact || t->p->smooth)))
    return false;
  t->pl->kink |= extreme && a->grad && !a->exact;
  if (k == RG_SUM || k == RG_MEAN) {
    if (!t->fl) r->type = TC_I64;
    r->exact = !t->fl;
    r->err = count * a->err + (t->fl ? 4 * count * count * a->big * fmin(epsilon(a->type), 1.2e-7) : 0);
    r->big = count * a->big, t->rounds = true;
  }
  if (k == RG_ANY) r->type = TC_BOOL, r->grad = false, r->big = 1, r->err = 0;
  bool keep = t->s->q & 8;
  if (keep)
    r->dims.dim[axis] = 1;
  else
    memmove(&r->dims.dim[axis], &r->dims.dim[axis + 1], (size_t)(r->dims.rank - axis - 1) * sizeof(int64_t)),
        r->dims.rank--;
  return true;
}

static bool infer_argmax(inference *t) {
  const rg_fact *a = t->a;
  rg_fact *r = &t->r;
  if (a->dims.rank < 1 || a->type == TC_BOOL || !a->exact || t->p->smooth || a->dims.dim[axis_of(a, t->s->q)] < 1)
    return false;
  int axis = axis_of(a, t->s->q);
  r->type = TC_I64, r->grad = false, r->big = (double)a->dims.dim[axis];
  r->dims.dim[axis] = 1;
  return true;
}

static bool infer_cumsum(inference *t) {
  const rg_fact *a = t->a;
  rg_fact *r = &t->r;
  if (a->dims.rank < 1) return false;
  double count = (double)a->dims.dim[axis_of(a, t->s->q)] + 1;
  if (!t->fl)
    r->type = TC_I64;
  else
    r->exact = false, r->err = count * a->err + 4 * count * count * a->big * epsilon(a->type);
  r->big = count * a->big;
  return true;
}

static bool infer_softmax(inference *t) {
  const rg_fact *a = t->a;
  if (a->dims.rank < 1 || !t->fl) return false;
  t->r.exact = false, t->r.err = 2 * a->err + 8 * epsilon(a->type) * (1 + a->big), t->r.big = 1;
  return true;
}

static bool infer_matmul(inference *t) {
  const rg_fact *a = t->a, *b = t->b;
  rg_fact *r = &t->r;
  if (!t->fl || a->type != b->type || a->dims.rank != 2 || b->dims.rank != 2 || a->dims.dim[1] != b->dims.dim[0])
    return false;
  double k = (double)a->dims.dim[1] + 1;
  r->dims.dim[1] = b->dims.dim[1];
  if (rg_multiplies_bytes(t->s->q)) {
    if (a->type != TC_F32 || !a->exact || !b->exact || t->p->smooth || k > 250) return false;
    r->grad = false, r->exact = true, r->err = 0;
    r->big = t->s->q % RG_N_MULTIPLY == RG_LINEAR_OF_BYTES ? 32 * k * (a->big + 1) : 64 * k;
    return true;
  }
  r->grad = a->grad || b->grad, r->exact = false;
  r->big = k * a->big * b->big;
  r->err = k * (a->big * b->err + b->big * a->err) + 4 * k * r->big * fmin(epsilon(a->type), 1.2e-7);
  t->rounds = true;
  return true;
}

// ---- what gives no value ----

static bool infer_backward(inference *t) {
  if (!t->a->grad || t->pl->backward || !t->fl) return false;
  t->pl->backward = true;
  t->r.value = false;
  return true;
}

static bool infer_nothing(inference *t) {
  t->r.value = false;
  return true;
}

static const struct rule {
  int n_operands;
  bool (*infer)(inference *t);
} rules[RG_N_OPS] = {
    [RG_NOP] = {0, infer_nothing},
    [RG_LEAF] = {0, infer_leaf},
    [RG_PARAM] = {0, infer_leaf},
    [RG_UNARY] = {1, infer_unary},
    [RG_BINARY] = {2, infer_binary},
    [RG_NUM] = {1, infer_num},
    [RG_COMPARE] = {2, infer_compare},
    [RG_WHERE] = {3, infer_where},
    [RG_CAST] = {1, infer_cast},
    [RG_TRANSPOSE] = {1, infer_transpose},
    [RG_SLICE] = {1, infer_slice},
    [RG_FLIP] = {1, infer_flip},
    [RG_FLATTEN] = {1, infer_flatten},
    [RG_EXPAND] = {1, infer_expand},
    [RG_PAD] = {1, infer_pad},
    [RG_CAT] = {2, infer_cat},
    [RG_FOLD] = {1, infer_fold},
    [RG_ARGMAX] = {1, infer_argmax},
    [RG_CUMSUM] = {1, infer_cumsum},
    [RG_SOFTMAX] = {1, infer_softmax},
    [RG_MATMUL] = {2, infer_matmul},
    [RG_INDEX] = {1, infer_index},
    [RG_ASSIGN_SLICE] = {2, infer_assign_slice},
    [RG_READ] = {1, infer_nothing},
    [RG_SCOPE_BEGIN] = {0, infer_nothing},
    [RG_SCOPE_END] = {1, infer_nothing},
    [RG_BACKWARD] = {1, infer_backward},
    [RG_UNFOLD] = {1, infer_unfold},
    [RG_SORT] = {1, infer_sort},
    [RG_MAX_POOL] = {1, infer_max_pool},
};

static bool usable(const rg_plan *pl, int i, int at) {
  return i >= 0 && i < at && pl->f[i].value && pl->f[i].alive;
}

// Bounds what backends may answer differently: large values, much round-off, large tensors.
static bool bound_result(const inference *t, rg_fact *r) {
  bool whole = !near_is_float(r->type);
  if (t->rounds && !whole && !r->exact) r->err += 4 * epsilon(r->type) * r->big;
  if (r->value && !whole && (!(r->big <= 1e4) || r->err > 0.05 * (1 + r->big))) return false;
  if (whole && r->big > 1e15) r->big = 1e15;
  if (r->value && (near_count(r->dims) > 6000 || r->dims.rank > 4)) return false;
  if (r->value && whole && r->big > 100 && r->type != TC_I64 && r->type != TC_I32) r->big = 4e4;
  return true;
}

bool rg_infer(const rg_program *p, rg_plan *pl, int i) {
  const rg_instr *s = &p->instr[i];
  inference t = {.p = p, .pl = pl, .s = s};
  t.a = &pl->f[s->a < 0 ? 0 : s->a], t.b = &pl->f[s->b < 0 ? 0 : s->b], t.c = &pl->f[s->c < 0 ? 0 : s->c];
  t.r = (rg_fact){true, true, true, false, i, s->type, s->dims, 4, 0};
  const int n = rules[s->op].n_operands;
  if ((n > 0 && !usable(pl, s->a, i)) || (n > 1 && !usable(pl, s->b, i)) || (n > 2 && !usable(pl, s->c, i)))
    return false;
  if (n > 0) {
    if (s->op != RG_CAST) t.r.type = t.a->type;
    t.r.dims = t.a->dims, t.r.big = t.a->big, t.r.err = t.a->err, t.r.exact = t.a->exact, t.r.grad = t.a->grad;
    t.fl = near_is_float(t.a->type);
  }
  if (!rules[s->op].infer(&t) || !bound_result(&t, &t.r)) return false;
  pl->half |= t.r.grad && (t.r.type == TC_F16 || t.r.type == TC_BF16);
  pl->f[i] = t.r;
  // Every name of an assigned handle now stands for the new value.
  for (int k = 0; k < i && s->op == RG_ASSIGN_SLICE && t.r.value; k++)
    if (pl->f[k].value && pl->f[k].handle == t.r.handle) {
      bool alive = pl->f[k].alive;
      pl->f[k] = t.r, pl->f[k].alive = alive;
    }
  return true;
}

bool rg_plan_program(const rg_program *p, rg_plan *pl) {
  int open[RG_MAX_INSTRS], depth = 0;
  memset(pl, 0, sizeof *pl);
  for (int i = 0; i < p->n; i++) {
    const rg_instr *s = &p->instr[i];
    if (!rg_infer(p, pl, i)) return false;
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
