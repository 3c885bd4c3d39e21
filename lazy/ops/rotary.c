// Rotary position embedding: pairs of elements turned by an angle that grows with the position.
//
// The two of a pair are an axis of extent two, so the other one is that axis flipped. For both
// orders of pairs x * cos + other * sin * (-1, 1) is one elementwise expression over views. The
// first position is a slice's start, which is no part of a plan: decoding a position further runs
// the same plan.
// Source: RoFormer (Su et al.); the orders and the rounding of angles as in Hugging Face's LLaMA
// (halves) and GPT-J (neighbours).
// Threads: thread-compatible, each thread records its own trace.
#define TC_NO_SITES
#include "lazy/record/formula.h"

static const int64_t zeros[TC_MAX_RANK], ones[TC_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};

// Rows [first, first + n) of a table [.., rows, half], shaped to broadcast against pairs.
static tc_node rows_of(tc_trace *t, tc_node table, int64_t first, int64_t n, bool interleaved) {
  tc_dims d = *tc_node_dims(t, table);
  int r = d.rank;
  int64_t half = d.dim[r - 1];
  table = tc_rec_slice_axis(t, table, r - 2, first, 1, n);
  d.dim[r - 2] = n;
  d.rank = r + 1, d.dim[r - 1] = interleaved ? half : 1, d.dim[r] = interleaved ? 1 : half;
  return f_widen(t, tc_rec_reshape(t, table, &d));
}

// x [.., n, 2 half] turned, in f32 at least; so is its gradient, which is a sum of two.
static tc_node turned(tc_trace *t, tc_node x, tc_node cos, tc_node sin, bool interleaved) {
  if (x == TC_NODE_ERR) return x;
  tc_dims d = *tc_node_dims(t, x), pairs = d, signs = interleaved ? TC_SHAPE(2) : TC_SHAPE(2, 1);
  int r = d.rank;
  int64_t half = d.dim[r - 1] / 2;
  pairs.rank = r + 1, pairs.dim[r - 1] = interleaved ? half : 2, pairs.dim[r] = interleaved ? 2 : half;
  x = f_widen(t, tc_rec_reshape(t, x, &pairs));
  tc_node other = tc_rec_flip(t, x, UINT32_C(1) << (interleaved ? r : r - 1)),
          sign = tc_rec_iota(t, &signs, TC_F32, -1, 2);
  return tc_rec_reshape(t, f_add(t, f_mul(t, x, cos), f_mul(t, other, f_mul(t, sin, sign))), &d);
}

static bool fits(tc_trace *t, tc_node x, tc_node cos, tc_node sin, int64_t offset) {
  if (x == TC_NODE_ERR || cos == TC_NODE_ERR || sin == TC_NODE_ERR) return false;
  const tc_dims *d = tc_node_dims(t, x), *dc = tc_node_dims(t, cos), *ds = tc_node_dims(t, sin);
  char tx[128], tc[128], ts[128];
  bool good = d->rank >= 2 && d->rank < TC_MAX_RANK && dc->rank >= 2 && dc->rank <= d->rank && ds->rank == dc->rank;
  for (int i = 0; good && i < dc->rank; i++) good = dc->dim[i] == ds->dim[i];
  good = good && 2 * dc->dim[dc->rank - 1] <= d->dim[d->rank - 1];
  if (!good)
    return tc_rec_fail(
               t, TC_ERR_SHAPE, "x %s, cos %s and sin %s are not [.., n, d], [.., positions, half] and the same",
               tc_dims_text(d, tx, sizeof tx), tc_dims_text(dc, tc, sizeof tc), tc_dims_text(ds, ts, sizeof ts)),
           false;
  int64_t n = d->dim[d->rank - 2], rows = dc->dim[dc->rank - 2];
  if (offset >= 0 && offset <= rows - n) return true;
  return tc_rec_fail(t, TC_ERR_ARG, "%lld positions from %lld on are not within the %lld of cos", (long long)n,
                     (long long)offset, (long long)rows),
         false;
}

tc_tensor tc_rotary_embedding_at(tc_tensor x, tc_tensor cos, tc_tensor sin, tc_rotary_options options, tc_site site) {
  tc_trace *t = tc_op_begin("rotary_embedding", site);
  tc_node a = tc_op_in(t, x), c = tc_op_in(t, cos), s = tc_op_in(t, sin);
  if (!fits(t, a, c, s, options.offset)) return tc_op_end(t, TC_NODE_ERR);
  const tc_dims *d = tc_node_dims(t, a), *dc = tc_node_dims(t, c);
  tc_type type = f_type(t, a);
  int last = d->rank - 1;
  int64_t n = d->dim[last - 1], width = 2 * dc->dim[dc->rank - 1];
  bool whole = width == d->dim[last];
  c = rows_of(t, c, options.offset, n, options.interleaved), s = rows_of(t, s, options.offset, n, options.interleaved);
  tc_node part = turned(t, whole ? a : tc_rec_slice_axis(t, a, last, 0, 1, width), c, s, options.interleaved),
          y = f_narrow(t, part, type);
  return tc_op_end(t, whole ? y : tc_rec_write_slice(t, tc_rec_cast(t, a, type), y, zeros, ones));
}

tc_tensor tc_rotary_angles_at(int64_t n, int64_t dim, double base, tc_site site) {
  tc_trace *t = tc_op_begin("rotary_angles", site);
  if (n < 0 || dim < 2 || dim % 2 || !(base > 0))
    return tc_op_end(
        t, tc_rec_fail(t, TC_ERR_ARG,
                       "%lld positions, dim %lld and base %g; n is at least 0, dim even and at least 2, base above 0",
                       (long long)n, (long long)dim, base));
  tc_dims rows = TC_SHAPE(n, 1), columns = TC_SHAPE(dim / 2), one = TC_SCALAR;
  tc_node power = tc_rec_iota(t, &columns, TC_F64, 0, -2.0 / (double)dim);
  tc_node step = tc_rec_cast(t, tc_rec_binary(t, TC_OP_POW, tc_rec_full(t, &one, TC_F64, base), power), TC_F32);
  return tc_op_end(t, f_mul(t, tc_rec_iota(t, &rows, TC_F32, 0, 1), step));
}
