// Other sizes of a graph, guessed from one key. See size_guess.h.
//
// Equal extents are taken for one size, so extents of inputs get other values, by value. Records
// get what their operands' new extents make of them.
#include "lazy/sync/size_guess.h"

#include <string.h>

#include "lazy/sync/size_expr.h"
#include "runtime/arena.h"

#define MOST_KNOWN 64

// Values of extents, and the values that replace them.
typedef struct known {
  int64_t was[MOST_KNOWN], now[MOST_KNOWN];
  uint32_t n;
} known;

static const tc_dims *dims_of(const tc_plan *p, const uint64_t *word, uint32_t n) {
  return &tc_dims_at(((const tc_rec *)(const void *)(word + p->at[n]))->shape)->d;
}

static int64_t look_up(const known *k, int64_t was) {
  for (uint32_t i = 0; i < k->n; i++)
    if (k->was[i] == was) return k->now[i];
  return was;
}

static void learn(known *k, int64_t was, int64_t now) {
  if (was == now || k->n == MOST_KNOWN || look_up(k, was) != was) return;
  k->was[k->n] = was, k->now[k->n++] = now;
}

static bool is_parameters_extent(const tc_plan *p, int64_t extent) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    if (!tc_plan_is_leaf(p, n) || !(p->flag[n] & TC_NODE_REQUIRES_GRAD)) continue;
    const tc_dims *d = dims_of(p, p->word, n);
    for (int a = 0; a < d->rank; a++)
      if (d->dim[a] == extent) return true;
  }
  return false;
}

// The sizes of inputs. More than a map may have are left as they are.
static void learn_inputs(const tc_plan *p, known *k) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    if (!tc_plan_is_leaf(p, n) || (p->flag[n] & TC_NODE_REQUIRES_GRAD)) continue;
    const tc_dims *d = dims_of(p, p->word, n);
    for (int a = 0; a < d->rank && k->n < TC_MAX_SIZES; a++)
      if (d->dim[a] > 1 && !is_parameters_extent(p, d->dim[a])) learn(k, d->dim[a], 2 * d->dim[a] + 1 + 2 * k->n);
  }
}

// The new product of neighbouring extents of an operand whose product this was.
static int64_t product_of(const tc_dims *was, const tc_dims *now, int64_t extent) {
  for (int first = 0; first < was->rank; first++)
    for (int64_t a = first, old = 1, new = 1; a < was->rank; a++) {
      old *= was->dim[a], new *= now->dim[a];
      if (old == extent && new != old) return new;
    }
  return extent;
}

static int64_t sum_of(const tc_plan *p, const uint64_t *word, const tc_rec *r, int axis) {
  int64_t sum = 0;
  for (int i = 0; i < tc_rec_arity(r); i++) sum += dims_of(p, word, tc_rec_in(r)[i])->dim[axis];
  return sum;
}

static int64_t new_extent(const tc_plan *p, const uint64_t *word, const known *k, uint32_t n, int axis) {
  const tc_rec *r = tc_plan_rec(p, n);
  int64_t extent = dims_of(p, p->word, n)->dim[axis];
  if (extent < 2 || tc_rec_arity(r) == 0) return look_up(k, extent);
  const tc_dims *was = dims_of(p, p->word, tc_rec_in(r)[0]), *now = dims_of(p, word, tc_rec_in(r)[0]);
  switch (tc_rec_op(r)) {
    case TC_OP_RESHAPE: {
      int64_t same = look_up(k, extent);
      return same != extent ? same : product_of(was, now, extent);
    }
    case TC_OP_CAT: return axis == (int)tc_rec_attr(r)[0] ? sum_of(p, word, r, axis) : look_up(k, extent);
    case TC_OP_PAD: return now->dim[axis] + extent - was->dim[axis];
    case TC_OP_SLICE: return extent == was->dim[axis] ? now->dim[axis] : extent;
    default: return look_up(k, extent);
  }
}

bool tc_size_guess_key(const tc_plan *p, uint64_t *word) {
  known k = {.n = 0};
  memcpy(word, p->word, p->n_word * sizeof *word);
  learn_inputs(p, &k);
  for (uint32_t n = 0; n < p->n_node && k.n; n++) {
    bool is_parameter = tc_plan_is_leaf(p, n) && (p->flag[n] & TC_NODE_REQUIRES_GRAD);
    tc_dims d = *dims_of(p, p->word, n);
    int64_t count;
    for (int a = 0; a < d.rank && !is_parameter; a++) {
      int64_t was = d.dim[a];
      d.dim[a] = new_extent(p, word, &k, n, a);
      learn(&k, was, d.dim[a]);
    }
    if (!tc_dims_product(&d, &count)) return false;
    uint32_t id = tc_dims_intern(&d);
    if (id == TC_SHAPE_NONE) return false;
    ((tc_rec *)(void *)(word + p->at[n]))->shape = id;
  }
  return k.n > 0;
}
