// Attention and its gradients by plain loops, one query row and one key at a time, in double.
//
// q [n, hq, l, e], k [n, hkv, s, e], v [n, hkv, s, ev]; head h reads key head h / (hq / hkv). Keys
// that a row does not see are not read. A row that sees nothing gives zeros, also as its lse.
// Gradients compute a row's maximum and sum again: the operand lse is rounded to its type, and
// weights of large scores would be off.
// Threads: thread-safe, pure.
// Owner: nothing; gradients of keys and values allocate memory for the call.
#include <math.h>

#include "kernels/ref/convert.h"
#include "runtime/arena.h"
#include "runtime/status.h"

#define MAX_HEAD 256  // elements; recording builds longer heads from other rows

typedef struct attention {
  const tc_view *q, *k, *v, *dout, *delta, *mask;
  double scale;
  bool causal;
  int64_t n_keys, first_seen;  // of row 0 if causal: keys up to first_seen are seen
} attention;

// A row of queries: its batch, head and number, and its elements.
typedef struct query {
  int64_t n, h, i;
  double x[MAX_HEAD];
} query;

// tail is the index of the operand with the scale; a length and a mask may follow it.
static attention attention_of(const tc_ref_call *call, int tail) {
  attention a = {.q = &call->in[0], .k = &call->in[1], .v = tail > 2 ? &call->in[2] : NULL, .causal = call->attr[0]};
  if (tail > 3) a.dout = &call->in[3], a.delta = &call->in[5];
  a.scale = tc_get_f64(call->in[tail].type, call->in[tail].ptr, 0);
  a.n_keys = a.k->dim[2];
  if (call->attr[1]) {
    int64_t length = tc_get_i64(TC_I64, call->in[++tail].ptr, 0);
    a.n_keys = TC_MIN(TC_MAX_OF(length, INT64_C(0)), a.n_keys);
    a.first_seen = a.n_keys - a.q->dim[2];
  }
  if (call->attr[2]) a.mask = &call->in[tail + 1];
  return a;
}

static void load_row(const tc_view *x, int64_t n, int64_t h, int64_t i, double *out) {
  tc_load_f64(x->type, x->ptr, n * x->stride[0] + h * x->stride[1] + i * x->stride[2], x->stride[3], x->dim[3], out);
}

static void at_row(const tc_view *x, const query *q, int64_t count, double *out) {
  tc_load_f64(x->type, x->ptr, q->n * x->stride[0] + q->h * x->stride[1] + q->i * x->stride[2], x->stride[3], count,
              out);
}

static int64_t key_head(const attention *a, int64_t h) {
  return h / (a->q->dim[1] / a->k->dim[1]);
}

static query query_at(const attention *a, int64_t n, int64_t h, int64_t i) {
  query q = {.n = n, .h = h, .i = i};
  load_row(a->q, n, h, i, q.x);
  return q;
}

static double dot(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

// Computes the score of key j and loads the key's elements; false: the row does not see it.
static bool score_key(const attention *a, const query *q, int64_t j, double *key, double *out) {
  double bias = 0;
  if (j >= a->n_keys || (a->causal && j > a->first_seen + q->i)) return false;
  if (a->mask) {
    const tc_view *m = a->mask;
    const int64_t at[4] = {q->n, q->h, q->i, j};
    int64_t flat = 0;
    for (int d = 0; d < 4; d++) flat += m->dim[d] == 1 ? 0 : at[d] * m->stride[d];
    bias = tc_get_f64(m->type, m->ptr, flat);
    if (m->type == TC_BOOL) {
      if (bias == 0) return false;
      bias = 0;
    }
  }
  load_row(a->k, q->n, key_head(a, q->h), j, key);
  *out = dot(a->q->dim[3], q->x, key) * a->scale + bias;
  return true;
}

// Computes the row's maximum score, and the sum of exponentials relative to it; with v, their
// weighted mean of values, too. *max is -inf if nothing is seen.
static void mix_values(const attention *a, const query *q, double *max, double *sum, double *out) {
  double key[MAX_HEAD], value[MAX_HEAD], s;
  int64_t ev = a->v ? a->v->dim[3] : 0;
  *max = -INFINITY, *sum = 0;
  for (int64_t c = 0; c < ev; c++) out[c] = 0;
  for (int64_t j = 0; j < a->n_keys; j++) {
    if (!score_key(a, q, j, key, &s) || s == -INFINITY) continue;
    if (s > *max || isnan(s)) {
      double shrink = exp(*max - s);
      *sum *= shrink, *max = s;
      for (int64_t c = 0; c < ev; c++) out[c] *= shrink;
    }
    double p = exp(s - *max);
    *sum += p;
    if (!ev) continue;
    load_row(a->v, q->n, key_head(a, q->h), j, value);
    for (int64_t c = 0; c < ev; c++) out[c] += p * value[c];
  }
  for (int64_t c = 0; c < ev; c++) out[c] = *sum == 0 ? 0 : out[c] / *sum;
}

#define EACH_ROW(a, n_, h_, i_) \
  for (int64_t n_ = 0; n_ < (a).q->dim[0]; n_++) \
    for (int64_t h_ = 0; h_ < (a).q->dim[1]; h_++) \
      for (int64_t i_ = 0; i_ < (a).q->dim[2]; i_++)

tc_status tc_ref_attention(const tc_ref_call *call) {
  attention a = attention_of(call, 3);
  const tc_view *o = &call->out;
  double out[MAX_HEAD], max, sum;
  EACH_ROW(a, n, h, i) {
    query q = query_at(&a, n, h, i);
    mix_values(&a, &q, &max, &sum, out);
    tc_store_f64(o->type, o->ptr, n * o->stride[0] + i * o->stride[1] + h * o->stride[2], o->stride[3], o->dim[3], out);
  }
  return TC_OK;
}

// Writes a row's maximum score and the logarithm of its sum; zeros if nothing is seen.
static void lse_of(const attention *a, const query *q, double pair[2]) {
  attention keys = *a;
  keys.v = NULL;
  mix_values(&keys, q, &pair[0], &pair[1], NULL);
  bool none = pair[0] == -INFINITY;
  pair[0] = none ? 0 : pair[0], pair[1] = none ? 0 : log(pair[1]);
}

tc_status tc_ref_attention_lse(const tc_ref_call *call) {
  attention a = attention_of(call, 2);
  const tc_view *o = &call->out;
  double pair[2];
  EACH_ROW(a, n, h, i) {
    query q = query_at(&a, n, h, i);
    lse_of(&a, &q, pair);
    tc_store_f64(o->type, o->ptr, n * o->stride[0] + h * o->stride[1] + i * o->stride[2], o->stride[3], 2, pair);
  }
  return TC_OK;
}

// Computes the weight of key j for row q with its lse, and the gradient of its score. False: the
// row does not see the key.
static bool weigh_key(const attention *a, const query *q, const double *lse, int64_t j, double *key, double *dout,
                      double *p, double *ds) {
  double value[MAX_HEAD], s, delta;
  if (!score_key(a, q, j, key, &s)) return false;
  load_row(a->v, q->n, key_head(a, q->h), j, value);
  load_row(a->dout, q->n, q->h, q->i, dout);
  at_row(a->delta, q, 1, &delta);
  *p = exp(s - lse[0] - lse[1]);
  *ds = *p * (dot(a->v->dim[3], dout, value) - delta) * a->scale;
  return true;
}

tc_status tc_ref_attention_dq(const tc_ref_call *call) {
  attention a = attention_of(call, 6);
  const tc_view *o = &call->out;
  double key[MAX_HEAD], dout[MAX_HEAD], lse[2], p, ds;
  EACH_ROW(a, n, h, i) {
    double sum[MAX_HEAD] = {0};
    query q = query_at(&a, n, h, i);
    lse_of(&a, &q, lse);
    for (int64_t j = 0; j < a.n_keys; j++) {
      if (!weigh_key(&a, &q, lse, j, key, dout, &p, &ds)) continue;
      for (int64_t c = 0; c < o->dim[3]; c++) sum[c] += ds * key[c];
    }
    tc_store_f64(o->type, o->ptr, n * o->stride[0] + i * o->stride[1] + h * o->stride[2], o->stride[3], o->dim[3], sum);
  }
  return TC_OK;
}

// Returns row r of those that read key head h.
static query query_of_keys(const attention *a, int64_t n, int64_t h, int64_t r) {
  int64_t group = a->q->dim[1] / a->k->dim[1];
  return query_at(a, n, h * group + r / a->q->dim[2], r % a->q->dim[2]);
}

// Computes gradients of keys, or of values. Each sums over the rows of the query heads that read
// its head.
static tc_status of_keys(const tc_ref_call *call, bool values) {
  attention a = attention_of(call, 6);
  const tc_view *o = &call->out;
  int64_t rows = a.q->dim[1] / TC_MAX_OF(a.k->dim[1], INT64_C(1)) * a.q->dim[2];
  double key[MAX_HEAD], dout[MAX_HEAD], p, ds, (*lse)[2] = tc_malloc(((size_t)rows + 1) * sizeof *lse);
  if (!lse) return TC_FAIL(TC_ERR_MEMORY, "no memory for %lld rows of attention", (long long)rows);
  for (int64_t n = 0; n < o->dim[0]; n++)
    for (int64_t h = 0; h < o->dim[2]; h++) {
      for (int64_t r = 0; r < rows; r++) {
        query q = query_of_keys(&a, n, h, r);
        lse_of(&a, &q, lse[r]);
      }
      for (int64_t j = 0; j < o->dim[1]; j++) {
        double sum[MAX_HEAD] = {0};
        for (int64_t r = 0; r < rows; r++) {
          query q = query_of_keys(&a, n, h, r);
          if (!weigh_key(&a, &q, lse[r], j, key, dout, &p, &ds)) continue;
          for (int64_t c = 0; c < o->dim[3]; c++) sum[c] += values ? p * dout[c] : ds * q.x[c];
        }
        tc_store_f64(o->type, o->ptr, n * o->stride[0] + j * o->stride[1] + h * o->stride[2], o->stride[3], o->dim[3],
                     sum);
      }
    }
  tc_free(lse);
  return TC_OK;
}

tc_status tc_ref_attention_dk(const tc_ref_call *call) {
  return of_keys(call, false);
}

tc_status tc_ref_attention_dv(const tc_ref_call *call) {
  return of_keys(call, true);
}
