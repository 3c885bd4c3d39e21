// Convolution of images with channels last and its two transposes, by plain loops over the result
// and over the terms of each element.
//
// x [n, h.., c], w [o, c / groups, r..], y [n, p.., o]; up to three spatial axes. Terms are added
// in the order of taps, then channels; for the weight's gradient in the order of pixels. Floats
// accumulate in double and are rounded once; integers use int64, wrapping.
// Threads: thread-safe, pure.
// Owner: nothing.
#include "kernels/ref/convert.h"
#include "kernels/ref/walk.h"

#define AXES 3

// Spatial axes are numbered from the back; missing ones have an extent of one.
typedef struct geometry {
  int64_t stride[AXES], dilation[AXES], low[AXES], groups;
  int64_t h[AXES], p[AXES], r[AXES];  // extents of image, result and window
  int64_t sh[AXES], sp[AXES], sr[AXES];  // strides in memory
  int64_t n, c, o;  // images; channels and outputs of one group
  int64_t xn, xc, yn, yo, wo, wc;  // strides of the other axes
  const tc_view *x, *y, *w;
} geometry;

static void describe(geometry *g, const tc_ref_call *call, const tc_view *x, const tc_view *w, const tc_view *y) {
  int n = x->rank - 2;
  *g = (geometry){.x = x, .y = y, .w = w, .groups = (int64_t)call->attr[2 * n]};
  for (int i = 0; i < AXES; i++) {
    int axis = n - 1 - i;
    g->stride[i] = g->dilation[i] = g->h[i] = g->p[i] = g->r[i] = 1;
    if (axis < 0) continue;
    g->stride[i] = (int64_t)(call->attr[axis] & UINT32_MAX), g->dilation[i] = (int64_t)(call->attr[axis] >> 32);
    g->low[i] = (int64_t)(call->attr[n + axis] & UINT32_MAX);
    g->h[i] = x->dim[1 + axis], g->p[i] = y->dim[1 + axis], g->r[i] = w->dim[2 + axis];
    g->sh[i] = x->stride[1 + axis], g->sp[i] = y->stride[1 + axis], g->sr[i] = w->stride[2 + axis];
  }
  g->n = x->dim[0], g->c = w->dim[1], g->o = w->dim[0] / g->groups;
  g->xn = x->stride[0], g->xc = x->stride[n + 1], g->yn = y->stride[0], g->yo = y->stride[n + 1];
  g->wo = w->stride[0], g->wc = w->stride[1];
}

static int64_t count(const int64_t *d) {
  return d[0] * d[1] * d[2];
}

// Writes the i-th position of a box of extents d.
static void place_index(const int64_t *d, int64_t i, int64_t *at) {
  at[0] = i % d[0], at[1] = i / d[0] % d[1], at[2] = i / (d[0] * d[1]);
}

static int64_t offset(const int64_t *at, const int64_t *stride) {
  return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
}

// Writes where tap r of the window at p reads the image; false: outside.
static bool read_at(const geometry *g, const int64_t *p, const int64_t *r, int64_t *out) {
  *out = 0;
  for (int i = 0; i < AXES; i++) {
    int64_t h = p[i] * g->stride[i] + r[i] * g->dilation[i] - g->low[i];
    if (h < 0 || h >= g->h[i]) return false;
    *out += h * g->sh[i];
  }
  return true;
}

// Writes which window reads position h by tap r; false: none does.
static bool window_at(const geometry *g, const int64_t *h, const int64_t *r, int64_t *out) {
  *out = 0;
  for (int i = 0; i < AXES; i++) {
    int64_t p = h[i] + g->low[i] - r[i] * g->dilation[i];
    if (p < 0 || p % g->stride[i] || p / g->stride[i] >= g->p[i]) return false;
    *out += p / g->stride[i] * g->sp[i];
  }
  return true;
}

// sum[q] += (element of a) * (n elements of b). The three kernels differ in what their loops go
// over.
#define CONV_FNS(suffix, ctype, product_type) \
  static void add_##suffix(const tc_view *a, int64_t at, const tc_view *b, int64_t from, int64_t step, int64_t n, \
                           ctype *sum) { \
    ctype v, x[TC_SPAN]; \
    tc_load_##suffix(a->type, a->ptr, at, 1, 1, &v); \
    tc_load_##suffix(b->type, b->ptr, from, step, n, x); \
    for (int64_t q = 0; q < n; q++) sum[q] = (ctype)((product_type)sum[q] + (product_type)v * (product_type)x[q]); \
  } \
  static void forward_##suffix(const geometry *g, int64_t image, int64_t group, const int64_t *p, int64_t o, \
                               int64_t n) { \
    ctype sum[TC_SPAN] = {0}; \
    int64_t r[AXES], h, w0 = (group * g->o + o) * g->wo; \
    for (int64_t tap = 0; tap < count(g->r); tap++) { \
      place_index(g->r, tap, r); \
      if (!read_at(g, p, r, &h)) continue; \
      for (int64_t c = 0; c < g->c; c++) \
        add_##suffix(g->x, image * g->xn + h + (group * g->c + c) * g->xc, g->w, w0 + c * g->wc + offset(r, g->sr), \
                     g->wo, n, sum); \
    } \
    tc_store_##suffix(g->y->type, g->y->ptr, image * g->yn + offset(p, g->sp) + (group * g->o + o) * g->yo, g->yo, n, \
                      sum); \
  } \
  static void input_##suffix(const geometry *g, int64_t image, int64_t group, const int64_t *h, int64_t c, \
                             int64_t n) { \
    ctype sum[TC_SPAN] = {0}; \
    int64_t r[AXES], p; \
    for (int64_t tap = 0; tap < count(g->r); tap++) { \
      place_index(g->r, tap, r); \
      if (!window_at(g, h, r, &p)) continue; \
      for (int64_t o = group * g->o; o < (group + 1) * g->o; o++) \
        add_##suffix(g->y, image * g->yn + p + o * g->yo, g->w, o * g->wo + c * g->wc + offset(r, g->sr), g->wc, n, \
                     sum); \
    } \
    tc_store_##suffix(g->x->type, g->x->ptr, image * g->xn + offset(h, g->sh) + (group * g->c + c) * g->xc, g->xc, n, \
                      sum); \
  } \
  static void weight_##suffix(const geometry *g, int64_t group, int64_t o, const int64_t *r, int64_t c, int64_t n) { \
    ctype sum[TC_SPAN] = {0}; \
    int64_t p[AXES], h; \
    for (int64_t image = 0; image < g->n; image++) { \
      for (int64_t i = 0; i < count(g->p); i++) { \
        place_index(g->p, i, p); \
        if (!read_at(g, p, r, &h)) continue; \
        int64_t from = image * g->xn + h + (group * g->c + c) * g->xc; \
        add_##suffix(g->y, image * g->yn + offset(p, g->sp) + (group * g->o + o) * g->yo, g->x, from, g->xc, n, sum); \
      } \
    } \
    tc_store_##suffix(g->w->type, g->w->ptr, (group * g->o + o) * g->wo + c * g->wc + offset(r, g->sr), g->wc, n, \
                      sum); \
  }
CONV_FNS(f64, double, double)
CONV_FNS(i64, int64_t, uint64_t)

tc_status tc_ref_conv(const tc_ref_call *call) {
  geometry g;
  describe(&g, call, &call->in[0], &call->in[1], &call->out);
  for (int64_t i = 0; i < g.n * g.groups * count(g.p); i++) {
    int64_t p[AXES], outer = i / count(g.p);
    place_index(g.p, i % count(g.p), p);
    for (int64_t o = 0; o < g.o; o += TC_SPAN)
      (tc_ref_is_float(g.y->type) ? forward_f64 : forward_i64)(&g, outer / g.groups, outer % g.groups, p, o,
                                                               TC_MIN(TC_SPAN, g.o - o));
  }
  return TC_OK;
}

tc_status tc_ref_conv_input(const tc_ref_call *call) {
  geometry g;
  describe(&g, call, &call->out, &call->in[1], &call->in[0]);
  for (int64_t i = 0; i < g.n * g.groups * count(g.h); i++) {
    int64_t h[AXES], outer = i / count(g.h);
    place_index(g.h, i % count(g.h), h);
    for (int64_t c = 0; c < g.c; c += TC_SPAN)
      (tc_ref_is_float(g.x->type) ? input_f64 : input_i64)(&g, outer / g.groups, outer % g.groups, h, c,
                                                           TC_MIN(TC_SPAN, g.c - c));
  }
  return TC_OK;
}

tc_status tc_ref_conv_weight(const tc_ref_call *call) {
  geometry g;
  describe(&g, call, &call->in[0], &call->out, &call->in[1]);
  for (int64_t i = 0; i < g.groups * g.o * count(g.r); i++) {
    int64_t r[AXES], outer = i / count(g.r);
    place_index(g.r, i % count(g.r), r);
    for (int64_t c = 0; c < g.c; c += TC_SPAN)
      (tc_ref_is_float(g.w->type) ? weight_f64 : weight_i64)(&g, outer / g.o, outer % g.o, r, c,
                                                             TC_MIN(TC_SPAN, g.c - c));
  }
  return TC_OK;
}
