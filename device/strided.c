// Strided memory of a caller. See strided.h.
#include "device/strided.h"

#include <string.h>

#include "runtime/arena.h"

static int64_t absolute(int64_t v) {
  return v < 0 ? -v : v;
}

// Puts the axes of more than one element in order, greatest stride first.
static void sort_axes(tc_strided *s) {
  s->n_nested = 0;
  for (int i = 0; i < s->shape.rank; i++) {
    if (s->shape.dim[i] == 1) continue;
    int at = s->n_nested++;
    for (; at > 0 && absolute(s->stride[s->nested[at - 1]]) < absolute(s->stride[i]); at--)
      s->nested[at] = s->nested[at - 1];
    s->nested[at] = i;
  }
}

int tc_strided_fill(tc_strided *s, const tc_dims *shape, const int64_t *strides, size_t item_bytes, int64_t *out_span) {
  *s = (tc_strided){.shape = *shape, .item_bytes = item_bytes};
  int64_t span = 1, reach;
  for (int i = 0; i < shape->rank; i++) {
    s->stride[i] = shape->dim[i] == 1 ? 0 : strides[i];
    if (s->stride[i] == INT64_MIN) return TC_MAX_RANK;
  }
  sort_axes(s);
  for (int i = s->n_nested; i-- > 0;) {
    int axis = s->nested[i];
    *out_span = span;
    if (absolute(s->stride[axis]) < span) return axis;
    if (__builtin_mul_overflow(absolute(s->stride[axis]), shape->dim[axis] - 1, &reach) ||
        __builtin_add_overflow(span, reach, &span))
      return TC_MAX_RANK;
    if (s->stride[axis] < 0) s->first += reach;
  }
  int64_t bytes;
  if (__builtin_mul_overflow(span, (int64_t)item_bytes, &bytes)) return TC_MAX_RANK;
  s->span_bytes = (size_t)bytes;
  return -1;
}

bool tc_strided_is_dense(const tc_strided *s) {
  int64_t dense = 1;
  for (int i = s->shape.rank; i-- > 0; dense *= s->shape.dim[i])
    if (s->shape.dim[i] != 1 && s->stride[i] != dense) return false;
  return true;
}

tc_strided *tc_strided_create(const tc_strided *of) {
  tc_strided *s = tc_malloc(sizeof *s);
  if (!s) return NULL;
  *s = *of;
  atomic_store_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void tc_strided_release(tc_strided *s) {
  if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) tc_free(s);
}

// Strides of the two sides of a copy, in bytes, by axis.
typedef struct sides {
  const tc_strided *s;
  int n_axis, axis[TC_MAX_RANK];
  int64_t to[TC_MAX_RANK], from[TC_MAX_RANK];
} sides;

#define COPY_LOOP(type) \
  for (int64_t i = 0; i < n; i++) memcpy(to + i * dt, from + i * df, sizeof(type))

static void copy_line(char *to, const char *from, int64_t n, int64_t dt, int64_t df, size_t item) {
  if (dt == (int64_t)item && df == dt) {
    memcpy(to, from, (size_t)n * item);
    return;
  }
  switch (item) {
    case 1: COPY_LOOP(uint8_t); break;
    case 2: COPY_LOOP(uint16_t); break;
    case 4: COPY_LOOP(uint32_t); break;
    default: COPY_LOOP(uint64_t); break;
  }
}

static void copy_axes(const sides *x, int i, char *to, const char *from) {
  if (i >= x->n_axis) {
    memcpy(to, from, x->s->item_bytes);
    return;
  }
  int a = x->axis[i];
  int64_t n = x->s->shape.dim[a];
  if (i + 1 == x->n_axis) {
    copy_line(to, from, n, x->to[a], x->from[a], x->s->item_bytes);
    return;
  }
  for (int64_t k = 0; k < n; k++) copy_axes(x, i + 1, to + k * x->to[a], from + k * x->from[a]);
}

// Axes are walked in the order of the span, so that its lines are copied one after the other.
static sides sides_of(const tc_strided *s, bool to_dense, bool from_dense) {
  sides x = {.s = s, .n_axis = s->n_nested};
  int64_t dense = (int64_t)s->item_bytes;
  memcpy(x.axis, s->nested, sizeof x.axis);
  for (int i = s->shape.rank; i-- > 0; dense *= s->shape.dim[i]) {
    x.to[i] = to_dense ? dense : s->stride[i] * (int64_t)s->item_bytes;
    x.from[i] = from_dense ? dense : s->stride[i] * (int64_t)s->item_bytes;
  }
  return x;
}

void tc_strided_gather(const tc_strided *s, void *dense, const void *span) {
  sides x = sides_of(s, true, false);
  copy_axes(&x, 0, dense, (const char *)span + s->first * (int64_t)s->item_bytes);
}

void tc_strided_scatter(const tc_strided *s, void *span, const void *dense) {
  sides x = sides_of(s, false, true);
  copy_axes(&x, 0, (char *)span + s->first * (int64_t)s->item_bytes, dense);
}

void tc_strided_move(const tc_strided *s, void *to_span, const void *from_span) {
  sides x = sides_of(s, false, false);
  int64_t first = s->first * (int64_t)s->item_bytes;
  copy_axes(&x, 0, (char *)to_span + first, (const char *)from_span + first);
}
