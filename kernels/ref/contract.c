// Matrix products [batch..., m, k] @ [batch..., k, n] by plain loops: TC_SPAN columns of one row at
// a time, terms added in order of k.
//
// Floats multiply and accumulate in double and are rounded once (f64: a plain chain); integers and
// bools use int64, wrapping. The file is built without contraction into fused multiply-adds, so
// that the chain is the same everywhere.
// Threads: thread-safe, pure.
// Owner: nothing.
#include "kernels/ref/convert.h"
#include "kernels/ref/walk.h"

// One matrix of each batch: offsets of their first elements.
typedef struct place {
  int64_t a, b, out;
} place;

// Computes columns [j, j + n) of row i. a's row is converted in pieces, b's rows as they are met.
#define ROW_PIECE(suffix, ctype, accumulate) \
  static void row_piece_##suffix(const tc_ref_call *call, place at, int64_t i, int64_t j, int64_t n) { \
    const tc_view *a = &call->in[0], *b = &call->in[1], *out = &call->out; \
    int row = a->rank - 2, col = a->rank - 1; \
    int64_t k = a->dim[col]; \
    ctype sum[TC_SPAN] = {0}, x[TC_SPAN], y[TC_SPAN]; \
    for (int64_t p = 0; p < k; p++) { \
      if (p % TC_SPAN == 0) { \
        int64_t a_at = at.a + i * a->stride[row] + p * a->stride[col]; \
        tc_load_##suffix(a->type, a->ptr, a_at, a->stride[col], TC_MIN(TC_SPAN, k - p), x); \
      } \
      tc_load_##suffix(b->type, b->ptr, at.b + p * b->stride[row] + j * b->stride[col], b->stride[col], n, y); \
      ctype v = x[p % TC_SPAN]; \
      for (int64_t q = 0; q < n; q++) accumulate; \
    } \
    tc_store_##suffix(out->type, out->ptr, at.out + i * out->stride[row] + j * out->stride[col], out->stride[col], n, \
                      sum); \
  }
ROW_PIECE(f64, double, sum[q] += v * y[q])
ROW_PIECE(i64, int64_t, sum[q] = (int64_t)((uint64_t)sum[q] + (uint64_t)v * (uint64_t)y[q]))

static void multiply(const tc_ref_call *call, place at) {
  int rank = call->out.rank;
  int64_t m = call->out.dim[rank - 2], n = call->out.dim[rank - 1];
  bool is_float = tc_ref_is_float(call->in[0].type);
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j += TC_SPAN) {
      int64_t piece = TC_MIN(TC_SPAN, n - j);
      if (is_float)
        row_piece_f64(call, at, i, j, piece);
      else
        row_piece_i64(call, at, i, j, piece);
    }
  }
}

tc_status tc_ref_matmul(const tc_ref_call *call) {
  const tc_view *a = &call->in[0], *b = &call->in[1], *out = &call->out;
  TC_ASSERT(out->rank >= 2 && a->rank == out->rank && b->rank == out->rank);
  tc_walk batch;
  tc_walk_init(&batch, out->rank - 2, out->dim, 1);
  tc_walk_add(&batch, a->stride);
  tc_walk_add(&batch, b->stride);
  tc_walk_add(&batch, out->stride);
  tc_walk_begin(&batch);
  while (tc_walk_next(&batch)) multiply(call, (place){batch.offset[0], batch.offset[1], batch.offset[2]});
  return TC_OK;
}
