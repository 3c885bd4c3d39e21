// Gradients of pooling. The greatest of a window gives its gradient to the first of its greatest elements, a sum to all of them.
//
// Idea: nothing is scattered. An element looks at the few windows that reach it, in their order, and adds the gradient of those that are its own:
// elementwise work, in which windows are read by index and small tables say for each axis which window is meant and what an element's place in it is.
// Sums do so an axis after the other. Where many windows reach an element (wide windows, small strides) gradients are scattered after all.
// Threads: under the trace's lock. Owns nothing.
#include <stdlib.h>

#include "lazy/pool.h"
#include "lazy/vjp_short.h"

enum { MOST_REACH = 16, NOWHERE = -(1 << 28) };

static tc_pool pool_of(const tc_vjp *v) {
  tc_pool p = {.n = (int)v->attr[1], .first = (int)v->attr[2], .d = *tc_vjp_in_dims(v, 1)};
  for (int i = 0; i < p.n && i < TC_POOL_AXES; i++) {
    const uint64_t *a = v->attr + 3 + 4 * i;
    p.size[i] = (int64_t)a[0], p.stride[i] = (int64_t)a[1], p.padding[i] = (int64_t)a[2], p.dilation[i] = (int64_t)a[3];
    p.out[i] = tc_vjp_out_dims(v)->dim[p.first + i];
  }
  return p;
}

// How many windows reach an element along axis i.
static int64_t reach(const tc_pool *p, int i) {
  return (p->dilation[i] * (p->size[i] - 1) + p->stride[i]) / p->stride[i];
}

// For the elements of axis i, the last window that reaches them, or the one `back` before it, and the element's place in it along this axis, in steps of
// `pitch`; NOWHERE if it is in none.
typedef struct looks {
  tc_node window, place;
} looks;

static looks look(tc_vjp *v, const tc_pool *p, int i, int64_t back, int64_t pitch) {
  int64_t l = p->d.dim[p->first + i];
  looks at = {TC_NODE_ERR, TC_NODE_ERR};
  int64_t *window = malloc((size_t)l * sizeof *window);
  int32_t *place = malloc((size_t)l * sizeof *place);
  for (int64_t h = 0; h < l && window && place; h++) {
    int64_t w = (h + p->padding[i]) / p->stride[i] - back, within = h + p->padding[i] - w * p->stride[i], r = within / p->dilation[i];
    bool there = w >= 0 && w < p->out[i] && r < p->size[i] && r * p->dilation[i] == within;
    window[h] = there ? w : 0, place[h] = there ? (int32_t)(r * pitch) : NOWHERE;
  }
  tc_dims line = TC_SHAPE(l);
  if (window && place) {
    at.window = tc_rec_data(v->t, window, &line, TC_I64);
    at.place = tc_pool_on_axis(v->t, tc_rec_data(v->t, place, &line, TC_I32), p->d.rank, p->first + i);
  } else {
    tc_rec_fail(v->t, TC_ERR_MEMORY, "no room for %lld windows", (long long)l);
  }
  free(window), free(place);
  return at;
}

static tc_node plus(tc_vjp *v, tc_node sum, tc_node a) {
  return sum == TC_NODE_ERR ? a : add(v, sum, a);
}

// ---- Of the greatest ----

typedef looks table[TC_POOL_AXES][MOST_REACH];

// Adds to sum what the windows give that axes from i on reach. want: the place an element must have in them.
static tc_node add_windows(tc_vjp *v, const tc_pool *p, const table at, int i, tc_node g, tc_node place, tc_node want, tc_node sum) {
  if (i == p->n || i == TC_POOL_AXES)
    return plus(v, sum, only_where(v, bin(v, TC_OP_EQ, tc_rec_cast(v->t, place, TC_I32), want), f_widen(v->t, g)));
  for (int64_t back = reach(p, i); back-- > 0;) {
    looks here = at[i][back];
    if (here.window == TC_NODE_ERR || here.place == TC_NODE_ERR) return TC_NODE_ERR;
    tc_node there = tc_rec_index_select(v->t, g, p->first + i, here.window), placed = tc_rec_index_select(v->t, place, p->first + i, here.window);
    sum = add_windows(v, p, at, i + 1, there, placed, plus(v, want, here.place), sum);
  }
  return sum;
}

static tc_node gathered(tc_vjp *v, const tc_pool *p, tc_node place, int64_t taps) {
  table at;
  int64_t pitch = 1;
  for (int i = p->n; i-- > 0; pitch *= p->size[i])
    for (int64_t back = 0; back < reach(p, i); back++) at[i][back] = look(v, p, i, back, pitch);
  place = tc_rec_cast(v->t, place, taps <= UINT8_MAX ? TC_U8 : TC_I32);  // less to read again
  return add_windows(v, p, (const looks(*)[MOST_REACH])at, 0, v->g, place, TC_NODE_ERR, TC_NODE_ERR);
}

static tc_node scattered(tc_vjp *v, const tc_pool *p, tc_node place) {
  tc_dims rows = tc_pool_image_as_row(p, tc_vjp_out_dims(v)), image = tc_pool_image_as_row(p, &p->d);
  tc_node index = tc_rec_reshape(v->t, tc_pool_flat_index(v->t, p, place), &rows), zeros = tc_rec_reshape(v->t, zeros_in(v, 1), &image);
  tc_node sum = tc_rec_scatter(v->t, TC_OP_SCATTER_ADD, zeros, p->first, index, tc_rec_reshape(v->t, v->g, &rows));
  return tc_rec_reshape(v->t, sum, &p->d);
}

static tc_node of_greatest(tc_vjp *v, const tc_pool *p) {
  int64_t all = 1, taps = 1;
  for (int i = 0; i < p->n && all <= MOST_REACH; i++) all *= reach(p, i);
  for (int i = 0; i < p->n; i++) taps *= p->size[i];
  tc_node place = tc_pool_place(v->t, p, tc_rec_detach(v->t, tc_vjp_in(v, 1)), tc_rec_detach(v->t, tc_vjp_in(v, 0)));
  return all > MOST_REACH || taps >= -(int64_t)NOWHERE ? scattered(v, p, place) : gathered(v, p, place, taps);
}

// ---- Of sums ----

// To the elements of axis i from its windows.
static tc_node spread(tc_vjp *v, const tc_pool *p, int i, tc_node g) {
  tc_node sum = TC_NODE_ERR;
  for (int64_t back = reach(p, i); back-- > 0 && g != TC_NODE_ERR;) {
    looks at = look(v, p, i, back, 1);
    if (at.window == TC_NODE_ERR || at.place == TC_NODE_ERR) return TC_NODE_ERR;
    sum = plus(v, sum, only_where(v, num(v, TC_OP_GE, at.place, 0), tc_rec_index_select(v->t, g, p->first + i, at.window)));
  }
  return sum;
}

// The same by adding each element of each window to its place; what lies outside goes to the first place, as zero.
static tc_node spread_wide(tc_vjp *v, const tc_pool *p, int i, tc_node g) {
  int axis = p->first + i;
  int64_t k = p->size[i], n = p->out[i] * k, l = p->d.dim[axis];
  int64_t *to = malloc((size_t)n * sizeof *to);
  if (!to) return tc_rec_fail(v->t, TC_ERR_MEMORY, "no room for %lld windows", (long long)n);
  for (int64_t w = 0; w < n; w++) to[w] = w / k * p->stride[i] - p->padding[i] + w % k;
  tc_dims line = TC_SHAPE(n), d = *tc_node_dims(v->t, g), one = d, many, flat = d, out = d;
  tc_node at = tc_rec_data(v->t, to, &line, TC_I64);
  free(to);
  one.rank++;
  for (int j = d.rank; j > axis + 1; j--) one.dim[j] = d.dim[j - 1];
  one.dim[axis + 1] = 1, many = one, many.dim[axis + 1] = k, flat.dim[axis] = n, out.dim[axis] = l;
  tc_node inside = bin(v, TC_OP_LOGICAL_AND, num(v, TC_OP_GE, at, 0), tc_rec_num(v->t, TC_OP_LT, at, tc_num_int(l)));
  tc_node each = tc_rec_reshape(v->t, tc_rec_expand(v->t, tc_rec_reshape(v->t, g, &one), &many), &flat);
  each = only_where(v, tc_pool_on_axis(v->t, inside, d.rank, axis), each);
  tc_node zeros = tc_rec_full(v->t, &out, tc_node_type(v->t, g), 0);
  return tc_rec_scatter(v->t, TC_OP_INDEX_ADD, zeros, axis, only_where(v, inside, at), each);
}

static tc_node of_sum(tc_vjp *v, const tc_pool *p) {
  tc_node g = v->g;
  for (int i = 0; i < p->n && g != TC_NODE_ERR; i++) g = (reach(p, i) <= MOST_REACH ? spread : spread_wide)(v, p, i, g);
  return g;
}

// Operands (pooled, image).
void tc_vjp_pool(tc_vjp *v) {
  if (!tc_vjp_wants(v, 1)) return;
  tc_pool p = pool_of(v);
  if (tc_dims_count(&p.d) == 0)
    tc_vjp_give(v, 1, zeros_in(v, 1));
  else
    tc_vjp_give(v, 1, v->attr[0] ? of_greatest(v, &p) : of_sum(v, &p));
}
