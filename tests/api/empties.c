// Tensors without elements have a history like others: what is made of one can be differentiated,
// and so can its gradient. Right values are zeros.
#include "tests/expect.h"

#define NONE ((tc_tensor){0, 0})
#define EMPTY TC_SHAPE(0)

typedef tc_tensor function(tc_tensor x);

static tc_tensor ids(int64_t n) {
  return tc_arange(0, (double)n, 1, TC_I64);
}

static tc_tensor no_ids(void) {
  return tc_zeros(EMPTY, TC_I64);
}

static tc_tensor ones(tc_dims shape) {
  return tc_ones(shape, TC_F32);
}

static tc_tensor pad(tc_tensor x) {
  return tc_pad(x, TC_SHAPE(1, 2), TC_SHAPE(0, 1), 3);
}
static tc_tensor pad_behind(tc_tensor x) {
  return tc_pad(x, TC_SHAPE(5, 0), TC_SHAPE(0, 0), 3);
}
static tc_tensor slice(tc_tensor x) {
  return tc_slice(x, 1, 1, 3, 1);
}
static tc_tensor slice_none(tc_tensor x) {
  return tc_slice(x, 0, 3, 3, 1);
}
static tc_tensor select_column(tc_tensor x) {
  return tc_select(x, 1, 1);
}
static tc_tensor stack(tc_tensor x) {
  return tc_stack(2, (tc_tensor[]){x, x}, 0);
}
static tc_tensor cat(tc_tensor x) {
  return tc_cat(3, (tc_tensor[]){ones(TC_SHAPE(2, 3)), x, ones(TC_SHAPE(1, 3))}, 0);
}
static tc_tensor split(tc_tensor x) {
  tc_tensor part[3] = {NONE, NONE, NONE};
  EXPECT_OK(tc_split(x, 1, 1, 3, part));
  return part[2];
}
static tc_tensor unfold(tc_tensor x) {
  return tc_unfold(x, 1, 2, 1);
}
static tc_tensor unfold_tiles(tc_tensor x) {
  return tc_unfold(x, 1, 2, 2);
}
static tc_tensor diagonal(tc_tensor x) {
  return tc_diagonal(x, 1);
}
static tc_tensor roll(tc_tensor x) {
  return tc_roll(x, 1, 1);
}
static tc_tensor flip(tc_tensor x) {
  return tc_flip(x, TC_AXES(1));
}
static tc_tensor tile(tc_tensor x) {
  return tc_tile(x, TC_SHAPE(2, 2));
}
static tc_tensor repeat(tc_tensor x) {
  return tc_repeat_interleave(x, 2, 1);
}
static tc_tensor repeat_none(tc_tensor x) {
  return tc_repeat_interleave(x, 0, 1);
}
static tc_tensor sum(tc_tensor x) {
  return tc_sum(x, TC_AXES(0), false);
}
static tc_tensor mean(tc_tensor x) {
  return tc_mean(x, TC_AXES(1), false);
}
static tc_tensor prod_rows(tc_tensor x) {
  return tc_prod(x, TC_AXES(1), false);
}
static tc_tensor prod_all(tc_tensor x) {
  return tc_prod(x, TC_ALL, true);
}
static tc_tensor max(tc_tensor x) {
  return tc_max(x, TC_AXES(1), false);
}
static tc_tensor logsumexp(tc_tensor x) {
  return tc_logsumexp(x, TC_AXES(1), false);
}
static tc_tensor cumsum(tc_tensor x) {
  return tc_cumsum(x, 0);
}
static tc_tensor cumprod(tc_tensor x) {
  return tc_cumprod(x, 0);
}
static tc_tensor cummax(tc_tensor x) {
  return tc_cummax(x, 0);
}
static tc_tensor logcumsumexp(tc_tensor x) {
  return tc_logcumsumexp(x, 0);
}
static tc_tensor sort(tc_tensor x) {
  return tc_sort(x, 1, false);
}
static tc_tensor topk_none(tc_tensor x) {
  return tc_topk(x, 0, 1, true);
}
static tc_tensor softmax(tc_tensor x) {
  return tc_softmax(x, 1);
}
static tc_tensor log_softmax(tc_tensor x) {
  return tc_log_softmax(x, 0);
}
static tc_tensor gather(tc_tensor x) {
  return tc_gather(x, 0, tc_zeros(TC_SHAPE(0, 2), TC_I64));
}
static tc_tensor select_none(tc_tensor x) {
  return tc_index_select(x, 0, no_ids());
}
static tc_tensor embed_none(tc_tensor x) {
  return tc_embedding(x, no_ids());
}
static tc_tensor scatter_none(tc_tensor x) {
  return tc_scatter(ones(TC_SHAPE(4, 3)), 0, tc_zeros(TC_SHAPE(0, 3), TC_I64), x);
}
static tc_tensor scatter_few(tc_tensor x) {
  return tc_scatter_add(ones(TC_SHAPE(4, 3)), 0, tc_zeros(TC_SHAPE(0, 2), TC_I64), x);
}
static tc_tensor index_add(tc_tensor x) {
  return tc_index_add(ones(TC_SHAPE(4, 3)), 0, no_ids(), x);
}
static tc_tensor into_index_add(tc_tensor x) {
  return tc_index_add(x, 1, ids(2), ones(TC_SHAPE(0, 2)));
}
static tc_tensor matmul(tc_tensor x) {
  return tc_matmul(tc_transpose(x, 0, 1), x);
}
static tc_tensor linear(tc_tensor x) {
  return tc_linear(x, ones(TC_SHAPE(2, 3)), ones(TC_SHAPE(2)));
}
static tc_tensor of_no_columns(tc_tensor x) {
  return tc_linear(x, ones(TC_SHAPE(2, 0)), ones(TC_SHAPE(2)));
}
static tc_tensor einsum_of_no_columns(tc_tensor x) {
  return tc_einsum("ij,kj,lk->il", 3, (tc_tensor[]){x, x, ones(TC_SHAPE(2, 3))});
}
static tc_tensor conv_of_no_channels(tc_tensor x) {
  return tc_conv2d(x, ones(TC_SHAPE(2, 0, 2, 2)), NONE, (tc_conv_options){0});
}
static tc_tensor conv_transposed(tc_tensor x) {
  return tc_conv_transpose2d(x, ones(TC_SHAPE(3, 2, 2, 2)), NONE, (tc_conv_options){0});
}
static tc_tensor group_norm(tc_tensor x) {
  return tc_group_norm(x, 1, NONE, NONE, 1e-5);
}
static tc_tensor batch_norm(tc_tensor x) {
  return tc_batch_norm(x, NONE, NONE, NONE, NONE, (tc_batch_norm_options){.training = true, TC_BATCH_NORM_DEFAULTS});
}
static tc_tensor attention_of_no_heads(tc_tensor x) {
  return tc_scaled_dot_product_attention(x, x, x, NONE, (tc_attention_options){0});
}
static tc_tensor rotary(tc_tensor x) {
  tc_tensor angles = tc_rotary_angles(4, 2, 10000);
  return tc_rotary_embedding(x, tc_cos(angles), tc_sin(angles), (tc_rotary_options){0});
}
static tc_tensor clamp(tc_tensor x) {
  return tc_clamp(x, -1, 1);
}
static tc_tensor where(tc_tensor x) {
  return tc_where(tc_gt(x, 0), x, tc_neg(x));
}
static tc_tensor take_none(tc_tensor x) {
  return tc_take_along_dim(x, tc_zeros(TC_SHAPE(0, 1), TC_I64), 0);
}
static tc_tensor expand(tc_tensor x) {
  return tc_expand(x, TC_SHAPE(4, -1, -1));
}
static tc_tensor einsum(tc_tensor x) {
  return tc_einsum("ij,ik->jk", 2, (tc_tensor[]){x, x});
}
static tc_tensor layer_norm(tc_tensor x) {
  return tc_layer_norm(x, NONE, NONE, 1e-5);
}
static tc_tensor mse(tc_tensor x) {
  return tc_mse_loss(x, tc_zeros_like(x));
}
static tc_tensor conv(tc_tensor x) {
  return tc_conv2d(x, ones(TC_SHAPE(2, 3, 2, 2)), NONE, (tc_conv_options){0});
}
static tc_tensor max_pool(tc_tensor x) {
  return tc_max_pool2d(x, TC_SHAPE(2), (tc_pool_options){.stride = TC_SHAPE(1), .padding = TC_SHAPE(1)});
}
static tc_tensor max_pool_wide(tc_tensor x) {
  return tc_max_pool2d(x, TC_SHAPE(5), (tc_pool_options){.stride = TC_SHAPE(1)});
}
static tc_tensor avg_pool(tc_tensor x) {
  return tc_avg_pool2d(x, TC_SHAPE(2), (tc_pool_options){.stride = TC_SHAPE(1), .padding = TC_SHAPE(1)});
}
static tc_tensor avg_pool_tiles(tc_tensor x) {
  return tc_avg_pool2d(x, TC_SHAPE(2), (tc_pool_options){0});
}
static tc_tensor avg_pool_wide(tc_tensor x) {
  return tc_avg_pool2d(x, TC_SHAPE(5), (tc_pool_options){.stride = TC_SHAPE(1)});
}
static tc_tensor adaptive(tc_tensor x) {
  return tc_adaptive_avg_pool2d(x, TC_SHAPE(4));
}
static tc_tensor interpolate(tc_tensor x) {
  return tc_interpolate(x, TC_SHAPE(4, 4), (tc_interpolate_options){.mode = TC_LINEAR});
}
static tc_tensor attention(tc_tensor x) {
  tc_tensor q = ones(TC_SHAPE(2, 5, 3));
  return tc_scaled_dot_product_attention(q, x, x, NONE, (tc_attention_options){0});
}
static tc_tensor written(tc_tensor x) {
  tc_tensor y = ones(TC_SHAPE(0, 1));
  EXPECT_OK(tc_assign_slice(y, NULL, NULL, NULL, tc_slice(x, 1, 0, 1, 1)));
  return y;
}
static tc_tensor written_nowhere(tc_tensor x) {
  tc_tensor y = ones(TC_SHAPE(2, 3));
  EXPECT_OK(tc_assign_slice(y, (int64_t[]){1, 0}, (int64_t[]){1, 3}, NULL, x));
  return y;
}
static tc_tensor written_into(tc_tensor x) {
  tc_tensor y = tc_mul(x, 2);
  EXPECT_OK(tc_assign_slice(y, NULL, NULL, NULL, tc_mul(x, 3)));
  return y;
}

// An assign of nothing leaves memory as it is, the caller's too, and the handle has the value's
// history.
static void nothing_is_written(void) {
  float mine[6] = {1, 2, 3, 4, 5, 6}, own[6] = {0};
  tc_tensor p = tc_param(tc_zeros(TC_SHAPE(0, 3), TC_F32)),
            lent = tc_borrow(mine, TC_SHAPE(2, 3), TC_F32, TC_WRITABLE, NULL, NULL);
  tc_tensor stored = tc_from_host(mine, TC_SHAPE(2, 3), TC_F32), made[2] = {lent, stored},
            plain = tc_from_host(mine, TC_SHAPE(2, 3), TC_F32);
  for (int i = 0; i < 2; i++) {
    EXPECT_OK(tc_assign_slice(made[i], (int64_t[]){2, 0}, (int64_t[]){2, 3}, NULL, tc_mul(p, 2)));
    EXPECT(tc_requires_grad(made[i]), "tensor %d", i);
  }
  EXPECT_OK(tc_assign_slice(plain, (int64_t[]){2, 0}, (int64_t[]){2, 3}, NULL, tc_zeros(TC_SHAPE(0, 3), TC_F32)));
  EXPECT(!tc_requires_grad(plain), "a value without history gives none");
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_to_host(stored, own, sizeof own));
  for (int i = 0; i < 6; i++)
    EXPECT(mine[i] == (float)(i + 1) && own[i] == (float)(i + 1), "element %d is %g and %g", i, (double)mine[i],
           (double)own[i]);
  EXPECT_OK(tc_backward(tc_sum(tc_add(lent, stored), TC_ALL, false)));
  EXPECT(tc_numel(tc_grad(p)) == 0 && tc_shape(tc_grad(p)).rank == 2, "gradient");
  tc_release(p);
}

typedef struct row {
  const char *name;
  function *f;
  tc_dims shape;
} row;

// 1 if a gradient that is all zeros, of x's shape.
static void expect_zeros(const char *name, const char *which, tc_tensor g, tc_dims shape) {
  float v[256];
  tc_dims d = tc_shape(g);
  bool same = d.rank == shape.rank;
  for (int i = 0; same && i < d.rank; i++) same = d.dim[i] == shape.dim[i];
  EXPECT(same, "%s, %s gradient", name, which);
  int64_t n = expect_floats(g, v, 256);
  for (int64_t i = 0; i < n; i++)
    EXPECT(v[i] == 0, "%s, %s gradient %lld: %g", name, which, (long long)i, (double)v[i]);
}

// run: what was recorded runs before it is differentiated.
static void check(const row *r, bool run) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_param(tc_zeros(r->shape, TC_F32)), y = r->f(x), gx = NONE, second[2] = {NONE, NONE};
  tc_tensor w = tc_param(tc_full_like(y, 0.5));
  EXPECT(tc_requires_grad(y), "%s", r->name);
  if (run) EXPECT_OK(tc_eval(1, &y));
  tc_tensor total = tc_sum(tc_mul(y, w), TC_ALL, false);
  EXPECT(tc_grads_of(total, &x, 1, &gx, TC_CREATE_GRAPH) == TC_OK, "%s", r->name);
  expect_zeros(r->name, "first", gx, r->shape);
  if (run) EXPECT_OK(tc_eval(1, &gx));
  EXPECT(tc_grads_of(tc_sum(gx, TC_ALL, false), (tc_tensor[]){w, x}, 2, second, 0) == TC_OK, "%s, second gradient",
         r->name);
  expect_zeros(r->name, "second", second[0], tc_shape(y));
  expect_zeros(r->name, "second", second[1], r->shape);
  EXPECT_OK(tc_backward(tc_sum(r->f(x), TC_ALL, false)));
  expect_zeros(r->name, "accumulated", tc_grad(x), r->shape);
  tc_clear_error();
  tc_release(x), tc_release(w);
  tc_scope_end(s);
}

int main(void) {
#define ROW(f, ...) {#f, f, TC_SHAPE(__VA_ARGS__)}
  const row rows[] = {
      ROW(pad, 0, 3),
      ROW(pad_behind, 0, 3),
      ROW(slice, 0, 3),
      ROW(slice_none, 0, 3),
      ROW(select_column, 0, 3),
      ROW(stack, 0, 3),
      ROW(cat, 0, 3),
      ROW(split, 0, 3),
      ROW(unfold, 0, 4),
      ROW(unfold_tiles, 0, 4),
      ROW(unfold_tiles, 0, 5),
      ROW(diagonal, 0, 3),
      ROW(diagonal, 0, 3, 3),
      ROW(roll, 0, 3),
      ROW(flip, 0, 3),
      ROW(tile, 0, 3),
      ROW(repeat, 0, 3),
      ROW(sum, 0, 3),
      ROW(mean, 0, 3),
      ROW(prod_rows, 3, 0),
      ROW(prod_rows, 0, 3),
      ROW(prod_all, 3, 0),
      ROW(max, 0, 3),
      ROW(logsumexp, 0, 3),
      ROW(cumsum, 0, 3),
      ROW(cumprod, 0, 3),
      ROW(cummax, 0, 3),
      ROW(logcumsumexp, 0, 3),
      ROW(sort, 0, 3),
      ROW(softmax, 0, 3),
      ROW(log_softmax, 0, 3),
      ROW(gather, 0, 3),
      ROW(select_none, 0, 3),
      ROW(scatter_none, 0, 3),
      ROW(scatter_few, 0, 3),
      ROW(index_add, 0, 3),
      ROW(into_index_add, 0, 3),
      ROW(matmul, 0, 3),
      ROW(linear, 0, 3),
      ROW(einsum, 0, 3),
      ROW(of_no_columns, 3, 0),
      ROW(einsum_of_no_columns, 3, 0),
      ROW(conv_of_no_channels, 2, 0, 4, 4),
      ROW(conv_transposed, 0, 3, 4, 4),
      ROW(group_norm, 0, 3, 4),
      ROW(batch_norm, 0, 3, 4),
      ROW(attention_of_no_heads, 2, 0, 5, 3),
      ROW(rotary, 0, 4, 3),
      ROW(clamp, 0, 3),
      ROW(where, 0, 3),
      ROW(expand, 0, 3),
      ROW(layer_norm, 0, 3),
      ROW(conv, 0, 3, 4, 4),
      ROW(max_pool, 0, 3, 6, 6),
      ROW(max_pool, 2, 0, 6, 6),
      ROW(max_pool_wide, 0, 3, 6, 6),
      ROW(avg_pool, 0, 3, 6, 6),
      ROW(avg_pool, 2, 0, 6, 6),
      ROW(avg_pool_tiles, 2, 0, 6, 6),
      ROW(avg_pool_wide, 0, 3, 6, 6),
      ROW(adaptive, 0, 3, 6, 6),
      ROW(adaptive, 2, 0, 7, 7),
      ROW(interpolate, 0, 3, 6, 6),
      ROW(attention, 2, 0, 3),
      ROW(written, 0, 3),
      ROW(written_nowhere, 0, 3),
      ROW(written_into, 0, 3),
      // Here it is the result that is empty.
      ROW(slice_none, 3, 3),
      ROW(repeat_none, 3, 3),
      ROW(topk_none, 3, 3),
      ROW(gather, 3, 3),
      ROW(select_none, 3, 3),
      ROW(embed_none, 3, 3),
      ROW(take_none, 3, 3),
      ROW(scatter_none, 3, 3),
      ROW(scatter_few, 3, 3),
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int run = 0; run < 2; run++) check(&rows[i], run);
  nothing_is_written();
  // The mean of nothing is NaN, and its gradient has no elements.
  tc_tensor x = tc_param(tc_zeros(TC_SHAPE(0, 3), TC_F32));
  EXPECT_OK(tc_backward(mse(x)));
  expect_zeros("mse", "accumulated", tc_grad(x), TC_SHAPE(0, 3));
  tc_release(x);
  return expect_done("api-empties");
}
