// Layers, draws and indices whose traces have most kinds of records, with their gradients.
#include <stdio.h>

#include <tc/tc.h>

static tc_tensor none = {0, 0};

// A parameter of small numbers.
static tc_tensor parameter(tc_dims shape) {
  return tc_param(tc_mul(tc_randn(shape, TC_F32), 0.5));
}

static tc_tensor images(tc_tensor x, const tc_tensor *w) {
  tc_conv_options o = {.stride = TC_SHAPE(2, 1), .padding = TC_SHAPE(1, 1), .groups = 2};
  tc_tensor y = tc_conv2d(x, w[0], none, o);
  y = tc_max_pool2d(tc_relu(y), TC_SHAPE(2), (tc_pool_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1)});
  y = tc_conv_transpose2d(y, w[1], none, (tc_conv_options){.stride = TC_SHAPE(2, 2)});
  return tc_add(tc_sum(tc_avg_pool2d(y, TC_SHAPE(2), (tc_pool_options){0}), TC_AXES(2, 3), false),
                tc_sum(tc_unfold(tc_reshape(y, TC_SHAPE(2, -1)), 1, 5, 3), TC_AXES(1), false));
}

static tc_tensor words(tc_tensor q, tc_tensor k, tc_tensor v) {
  tc_tensor y = tc_scaled_dot_product_attention(q, k, v, none, (tc_attention_options){.causal = true});
  tc_tensor mask = tc_gt(tc_rand(TC_SHAPE(5, 5), TC_F32), 0.3);
  y = tc_add(y, tc_scaled_dot_product_attention(k, q, v, mask, (tc_attention_options){.scale = 0.2}));
  return tc_layer_norm(tc_reshape(y, TC_SHAPE(2, 40)), none, none, 1e-5);
}

static tc_tensor places(tc_tensor x) {
  tc_tensor rows = tc_randint(0, 6, TC_SHAPE(4), TC_I64), order = tc_argsort(x, 1, true);
  tc_tensor y = tc_gather(x, 1, tc_slice(order, 1, 0, 3, 1));
  y = tc_cat(2, (tc_tensor[]){tc_index_select(y, 0, rows), tc_roll(tc_flip(tc_slice(x, 0, 0, 6, 2), TC_AXES(0)), 2, 1)},
             0);
  y = tc_index_add(y, 0, rows, tc_pad(tc_slice(x, 0, 1, 4, 1), TC_SHAPE(1, 0), TC_SHAPE(0, 0), 0.5));
  return y;
}

int main(void) {
  tc_seed(3);
  tc_tensor w[] = {parameter(TC_SHAPE(6, 2, 3, 3)), parameter(TC_SHAPE(6, 5, 2, 2)), parameter(TC_SHAPE(2, 2, 5, 4)),
                   parameter(TC_SHAPE(2, 2, 5, 4)), parameter(TC_SHAPE(2, 2, 5, 4))};
  tc_tensor x = tc_randn(TC_SHAPE(2, 4, 7, 5), TC_F32), table = tc_randn(TC_SHAPE(6, 3), TC_F32);
  tc_tensor all[] = {x, table, w[0], w[1], w[2], w[3], w[4]};
  if (tc_eval(7, all) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  tc_tensor y = tc_sum(tc_square(words(w[2], w[3], w[4])), TC_ALL, false);
  y = tc_add(y, tc_sum(tc_cumsum(images(x, w), 1), TC_ALL, false));
  y = tc_add(y, tc_sum(tc_square(places(table)), TC_ALL, false));
  y = tc_add(y, tc_sum(tc_cast(tc_cast(tc_mul(x, tc_arange(0, 5, 1, TC_F32)), TC_BF16), TC_F32), TC_ALL, false));
  tc_tensor sum[6];
  if (tc_grads_of(y, w, 5, sum, 0) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  sum[5] = y;
  if (tc_eval(6, sum) != TC_OK) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  tc_tensor t = tc_assign(x, tc_full(TC_SHAPE(5), 2, TC_F32)) == TC_OK ? x : none;
  if (tc_assign_slice(t, (int64_t[]){0, 1, 2, 0}, (int64_t[]){2, 3, 6, 5}, (int64_t[]){1, 1, 2, 1}, tc_scalar(7)) !=
          TC_OK ||
      tc_eval(1, &t) != TC_OK)
    return fprintf(stderr, "%s\n", tc_last_error()->message), 1;
  return 0;
}
