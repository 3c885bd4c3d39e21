// Recording products of matrices, and convolutions. See record.h.
#include <string.h>

#include "lazy/record/record_shorthand.h"

static tc_node with_batch(tc_trace *t, tc_node a, const tc_dims *batch, int64_t rows, int64_t cols) {
  tc_dims d = *batch;
  d.dim[d.rank++] = rows;
  d.dim[d.rank++] = cols;
  return tc_rec_expand(t, a, &d);
}

// The type of a product's sums: i32 of bytes.
static tc_type type_of_sums(tc_type type) {
  return tc_type_is_byte(type) ? TC_I32 : type;
}

// a [.., m, k] @ b [k, n], of one type or of bytes, with sums of `type`. It is one product of all
// rows, and so is b's gradient.
static tc_node matmul_rows(tc_trace *t, tc_node a, tc_node b, tc_type type, bool vec_b) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  tc_dims out = *tc_node_dims(t, a), d = {2, {1, tc_node_dims(t, b)->dim[1]}};
  int64_t k = out.dim[out.rank - 1];
  for (int i = 0; i < out.rank - 1; i++) d.dim[0] *= out.dim[i];
  a = tc_rec_reshape(t, a, &(tc_dims){2, {d.dim[0], k}});
  if (!ok(t, a)) return TC_NODE_ERR;
  tc_node y = tc_rec_append(t, TC_OP_MATMUL, type, tc_rec_intern(t, &d), 2, (tc_node[]){a, b}, 0, NULL, 0, NULL);
  if (!ok(t, y)) return TC_NODE_ERR;
  out.dim[out.rank - 1] = d.dim[1];
  out.rank -= vec_b;
  return tc_rec_reshape(t, y, &out);
}

// Whether they are matrices as the product takes them.
static bool are_factors(const tc_trace *t, tc_node a, tc_node b) {
  const tc_dims *da = tc_node_dims(t, a), *db = tc_node_dims(t, b);
  return da->rank == 2 && db->rank == 2 && da->dim[1] == db->dim[0] && type_of(t, a) == type_of(t, b) &&
         type_of(t, a) != TC_BOOL;
}

// NumPy's rule: rank 1 gains an axis that the result loses; leading axes broadcast.
tc_node tc_rec_matmul(tc_trace *t, tc_node a, tc_node b) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  if (TC_LIKELY(are_factors(t, a, b))) {
    tc_dims d = {2, {tc_node_dims(t, a)->dim[0], tc_node_dims(t, b)->dim[1]}};
    return tc_rec_append(t, TC_OP_MATMUL, type_of_sums(type_of(t, a)), tc_rec_intern(t, &d), 2, (tc_node[]){a, b}, 0,
                         NULL, 0, NULL);
  }
  tc_dims da = *tc_node_dims(t, a), db = *tc_node_dims(t, b);
  char ta[128], tb[128];
  if (da.rank == 0 || db.rank == 0)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s @ %s: an operand has rank 0, at least 1 is needed",
                       tc_dims_text(&da, ta, sizeof ta), tc_dims_text(&db, tb, sizeof tb));
  bool vec_a = da.rank == 1, vec_b = db.rank == 1;
  int64_t m = vec_a ? 1 : da.dim[da.rank - 2], k = da.dim[da.rank - 1], kb = vec_b ? db.dim[0] : db.dim[db.rank - 2],
          n = vec_b ? 1 : db.dim[db.rank - 1];
  if (k != kb)
    return tc_rec_fail(t, TC_ERR_SHAPE, "%s @ %s: k is %lld and %lld", tc_dims_text(&da, ta, sizeof ta),
                       tc_dims_text(&db, tb, sizeof tb), (long long)k, (long long)kb);
  if (vec_a) a = tc_rec_reshape(t, a, &(tc_dims){2, {1, k}});
  if (vec_b) b = tc_rec_reshape(t, b, &(tc_dims){2, {k, 1}});
  tc_type type = ok(t, a) && ok(t, b) ? tc_type_promote(type_of(t, a), type_of(t, b)) : TC_F32;
  bool bytes = ok(t, a) && ok(t, b) && tc_type_is_byte(type_of(t, a)) && tc_type_is_byte(type_of(t, b));
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no matmul; cast it first");
  if (!bytes) a = tc_rec_cast(t, a, type), b = tc_rec_cast(t, b, type);
  type = bytes ? TC_I32 : type_of_sums(type);
  if (da.rank > 2 && db.rank <= 2) return matmul_rows(t, a, b, type, vec_b);
  tc_dims ba = {.rank = vec_a ? 0 : da.rank - 2}, bb = {.rank = vec_b ? 0 : db.rank - 2};
  memcpy(ba.dim, da.dim, (size_t)ba.rank * sizeof ba.dim[0]);
  memcpy(bb.dim, db.dim, (size_t)bb.rank * sizeof bb.dim[0]);
  uint32_t ia = tc_rec_intern(t, &ba), ib = tc_rec_intern(t, &bb);
  if (ia == TC_SHAPE_NONE || ib == TC_SHAPE_NONE) return TC_NODE_ERR;
  uint32_t batch_id = tc_rec_broadcast(t, ia, ib);
  if (batch_id == TC_SHAPE_NONE) return TC_NODE_ERR;
  tc_dims batch = tc_dims_at(batch_id)->d, out = batch;
  a = with_batch(t, a, &batch, m, k), b = with_batch(t, b, &batch, k, n);
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  out.dim[out.rank++] = m, out.dim[out.rank++] = n;
  tc_node y = tc_rec_append(t, TC_OP_MATMUL, type, tc_rec_intern(t, &out), 2, (tc_node[]){a, b}, 0, NULL, 0, NULL);
  if (!vec_a && !vec_b) return y;
  tc_dims shown = batch;
  if (!vec_a) shown.dim[shown.rank++] = m;
  if (!vec_b) shown.dim[shown.rank++] = n;
  return tc_rec_reshape(t, y, &shown);
}

// Whether a product of f16 or bf16 with a bias is rounded once, as PyTorch's is. On a GPU it is a
// library's, which takes one type.
static bool sums_wide(const tc_trace *t, tc_node a, tc_node b, tc_node bias) {
  tc_type type = type_of(t, a);
  bool narrow = tc_type_is_half(type), one = type == type_of(t, b) && type == type_of(t, bias);
  return narrow && one && tc_device_kind_of((tc_device)t->dev[a]) != TC_DEVICE_GPU;
}

tc_node tc_rec_biased_product(tc_trace *t, tc_node a, tc_node b, tc_node bias) {
  if (!ok(t, a) || !ok(t, b) || !ok(t, bias)) return TC_NODE_ERR;
  if (!sums_wide(t, a, b, bias)) return tc_rec_binary(t, TC_OP_ADD, tc_rec_matmul(t, a, b), bias);
  return tc_rec_cast(t, tc_rec_binary(t, TC_OP_ADD, matmul_rows(t, a, b, TC_F32, false), tc_rec_cast(t, bias, TC_F32)),
                     type_of(t, a));
}

tc_node tc_rec_conv(tc_trace *t, tc_op op, tc_node a, tc_node b, int n_attr, const uint64_t *attr, const tc_dims *out) {
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  tc_type type = tc_type_promote(type_of(t, a), type_of(t, b));
  if (type == TC_BOOL) return tc_rec_fail(t, TC_ERR_DTYPE, "bool has no convolution; cast it first");
  a = tc_rec_cast(t, a, type), b = tc_rec_cast(t, b, type);
  if (!ok(t, a) || !ok(t, b)) return TC_NODE_ERR;
  return tc_rec_append(t, op, type, tc_rec_intern(t, out), 2, (tc_node[]){a, b}, n_attr, attr, 0, NULL);
}

tc_node tc_rec_biased_conv(tc_trace *t, tc_op op, tc_node a, tc_node b, tc_node bias, int n_attr, const uint64_t *attr,
                           const tc_dims *out) {
  if (!ok(t, a) || !ok(t, b) || !ok(t, bias)) return TC_NODE_ERR;
  if (!sums_wide(t, a, b, bias)) return tc_rec_binary(t, TC_OP_ADD, tc_rec_conv(t, op, a, b, n_attr, attr, out), bias);
  uint32_t shape = tc_rec_intern(t, out);
  if (shape == TC_SHAPE_NONE) return TC_NODE_ERR;
  tc_node y = tc_rec_append(t, op, TC_F32, shape, 2, (tc_node[]){a, b}, n_attr, attr, 0, NULL);
  return tc_rec_cast(t, tc_rec_binary(t, TC_OP_ADD, y, tc_rec_cast(t, bias, TC_F32)), type_of(t, a));
}
