// Gradients of pooling. The greatest of a window gives its gradient to the first of its greatest
// elements, a sum to all of them.
//
// Nothing is scattered. An element looks at the few windows that reach it, in their order, and adds
// the gradient of those that are its own. That is elementwise work, which reads windows by index.
// Small tables say for each axis which window is meant, and an element's place in it.
// Where many windows reach an element (wide windows, small strides), sums go axis by axis, or
// gradients are scattered.
// Threads: under the trace's lock. Owner: nobody.
#include "lazy/ops/pool.h"
#include "lazy/autograd/vjp_shorthand.h"
#include "runtime/arena.h"

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

// For the elements of axis i: the last window that reaches them, or the one `back` before it, in
// steps of `step`. Also the element's place in it along this axis, in steps of `pitch`; NOWHERE if
// it is in none.
typedef struct looks {
  tc_node window, place;
} looks;

static looks look_at_windows(tc_vjp *v, const tc_pool *p, int i, int64_t back, int64_t step, int64_t pitch) {
  int64_t l = p->d.dim[p->first + i];
  looks at = {TC_NODE_ERR, TC_NODE_ERR};
  int64_t *window = tc_malloc((size_t)l * sizeof *window);
  int32_t *place = tc_malloc((size_t)l * sizeof *place);
  for (int64_t h = 0; h < l && window && place; h++) {
    int64_t w = (h + p->padding[i]) / p->stride[i] - back, within = h + p->padding[i] - w * p->stride[i],
            r = within / p->dilation[i];
    bool there = w >= 0 && w < p->out[i] && r < p->size[i] && r * p->dilation[i] == within;
    window[h] = there ? w * step : 0, place[h] = there ? (int32_t)(r * pitch) : NOWHERE;
  }
  tc_dims line = TC_SHAPE(l);
  if (window && place)
    at = (looks){tc_rec_data(v->t, window, &line, TC_I64), tc_rec_data(v->t, place, &line, TC_I32)};
  else
    tc_rec_fail(v->t, TC_ERR_MEMORY, "no room for %lld windows", (long long)l);
  tc_free(window), tc_free(place);
  return at;
}

static tc_node plus(tc_vjp *v, tc_node sum, tc_node a) {
  return sum == TC_NODE_ERR ? a : add(v, sum, a);
}

// ---- Few windows ----

typedef looks table[TC_POOL_AXES][MOST_REACH];

// The tables of several axes added up, over the image: that of axis i varies along it.
static tc_node over_image(tc_vjp *v, const tc_pool *p, const tc_node *part) {
  tc_node sum = TC_NODE_ERR;
  for (int i = 0; i < p->n; i++) sum = plus(v, sum, tc_pool_on_axis(v->t, part[i], p->n, i));
  return sum;
}

// place: where in each window its greatest is; TC_NODE_ERR: each element is given the gradient.
static tc_node gathered(tc_vjp *v, const tc_pool *p, tc_node place) {
  table at;
  int64_t pitch = 1, step = 1, n_windows = 1, count = 1;
  bool some = place != TC_NODE_ERR;
  for (int i = p->n; i-- > 0; pitch *= p->size[i], step *= p->out[i]) {
    n_windows *= reach(p, i), count *= p->d.dim[p->first + i];
    for (int64_t back = 0; back < reach(p, i); back++) at[i][back] = look_at_windows(v, p, i, back, step, pitch);
  }
  tc_dims rows = tc_pool_image_as_row(p, tc_vjp_out_dims(v)), image = tc_pool_image_as_row(p, &p->d),
          line = TC_SHAPE(count);
  tc_node g = tc_rec_reshape(v->t, v->g, &rows), sum = TC_NODE_ERR;
  // less to read again
  if (some) place = tc_rec_reshape(v->t, tc_rec_cast(v->t, place, pitch <= UINT8_MAX ? TC_U8 : TC_I32), &rows);
  for (int64_t k = n_windows; k-- > 0;) {
    tc_node window[TC_POOL_AXES], want[TC_POOL_AXES];
    int64_t rest = k;
    for (int i = p->n; i-- > 0; rest /= reach(p, i))
      window[i] = at[i][rest % reach(p, i)].window, want[i] = at[i][rest % reach(p, i)].place;
    tc_node from = tc_rec_reshape(v->t, over_image(v, p, window), &line);
    tc_node mine = tc_pool_on_axis(v->t, tc_rec_reshape(v->t, over_image(v, p, want), &line), image.rank, p->first);
    if (some)
      mine = bin(v, TC_OP_EQ, tc_rec_cast(v->t, tc_rec_index_select(v->t, place, p->first, from), TC_I32), mine);
    else
      mine = num(v, TC_OP_GE, mine, 0);
    sum = plus(v, sum, only_where(v, mine, f_widen(v->t, tc_rec_index_select(v->t, g, p->first, from))));
  }
  return tc_rec_reshape(v->t, sum, &p->d);
}

// ---- Many windows ----

static tc_node scattered(tc_vjp *v, const tc_pool *p, tc_node place) {
  tc_dims rows = tc_pool_image_as_row(p, tc_vjp_out_dims(v)), image = tc_pool_image_as_row(p, &p->d);
  tc_node index = tc_rec_reshape(v->t, tc_pool_flat_index(v->t, p, place), &rows),
          zeros = tc_rec_reshape(v->t, zeros_in(v, 1), &image);
  tc_node sum = tc_rec_scatter(v->t, TC_OP_SCATTER_ADD, zeros, p->first, index, tc_rec_reshape(v->t, v->g, &rows));
  return tc_rec_reshape(v->t, sum, &p->d);
}

// To the elements of axis i from its windows.
static tc_node spread(tc_vjp *v, const tc_pool *p, int i, tc_node g) {
  tc_node sum = TC_NODE_ERR;
  for (int64_t back = reach(p, i); back-- > 0 && g != TC_NODE_ERR;) {
    looks at = look_at_windows(v, p, i, back, 1, 1);
    if (at.window == TC_NODE_ERR || at.place == TC_NODE_ERR) return TC_NODE_ERR;
    tc_node mine = tc_pool_on_axis(v->t, num(v, TC_OP_GE, at.place, 0), p->d.rank, p->first + i);
    sum = plus(v, sum, only_where(v, mine, tc_rec_index_select(v->t, g, p->first + i, at.window)));
  }
  return sum;
}

// As spread, by adding each element of each window to its place. What lies outside goes to the
// first place, as zero.
static tc_node spread_wide(tc_vjp *v, const tc_pool *p, int i, tc_node g) {
  int axis = p->first + i;
  int64_t k = p->size[i], n = p->out[i] * k, l = p->d.dim[axis];
  int64_t *to = tc_malloc((size_t)n * sizeof *to);
  if (!to) return tc_rec_fail(v->t, TC_ERR_MEMORY, "no room for %lld windows", (long long)n);
  for (int64_t w = 0; w < n; w++) to[w] = w / k * p->stride[i] - p->padding[i] + w % k;
  tc_dims line = TC_SHAPE(n), d = *tc_node_dims(v->t, g), one = d, many, flat = d, out = d;
  tc_node at = tc_rec_data(v->t, to, &line, TC_I64);
  tc_free(to);
  one.rank++;
  for (int j = d.rank; j > axis + 1; j--) one.dim[j] = d.dim[j - 1];
  one.dim[axis + 1] = 1, many = one, many.dim[axis + 1] = k, flat.dim[axis] = n, out.dim[axis] = l;
  tc_node inside = bin(v, TC_OP_LOGICAL_AND, num(v, TC_OP_GE, at, 0), tc_rec_num(v->t, TC_OP_LT, at, tc_num_int(l)));
  tc_node each = tc_rec_reshape(v->t, tc_rec_expand(v->t, tc_rec_reshape(v->t, g, &one), &many), &flat);
  each = only_where(v, tc_pool_on_axis(v->t, inside, d.rank, axis), each);
  tc_node zeros = tc_rec_full(v->t, &out, tc_node_type(v->t, g), 0);
  return tc_rec_scatter(v->t, TC_OP_INDEX_ADD, zeros, axis, only_where(v, inside, at), each);
}

static tc_node image_grad(tc_vjp *v, const tc_pool *p) {
  int64_t all = 1, taps = 1;
  for (int i = 0; i < p->n && all <= MOST_REACH; i++) all *= reach(p, i);
  for (int i = 0; i < p->n; i++) taps *= p->size[i];
  bool few = all <= MOST_REACH && taps < -(int64_t)NOWHERE;
  if (v->attr[0]) {
    tc_node place = tc_pool_place(v->t, p, tc_rec_detach(v->t, tc_vjp_in(v, 1)), tc_rec_detach(v->t, tc_vjp_in(v, 0)));
    return place == TC_NODE_ERR ? place : few ? gathered(v, p, place) : scattered(v, p, place);
  }
  if (few) return gathered(v, p, TC_NODE_ERR);
  tc_node g = v->g;
  for (int i = 0; i < p->n && g != TC_NODE_ERR; i++) g = (reach(p, i) <= MOST_REACH ? spread : spread_wide)(v, p, i, g);
  return g;
}

// Operands (pooled, image).
void tc_vjp_pool(tc_vjp *v) {
  if (!tc_vjp_requires_grad(v, 1)) return;
  tc_pool p = pool_of(v);
  tc_vjp_give(v, 1, image_grad(v, &p));
}
