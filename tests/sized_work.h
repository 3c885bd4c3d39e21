// Work whose tensors have a size n, for tests of plans and kernels that serve many sizes.
// Threads: as tc.h. Owns nothing.
#pragma once

#include <tc/tc.h>

#include "tests/expect.h"

enum { SIZED_NUMBERS = 1 << 20 };

// Numbers from -1 to 1.
static tc_tensor numbers(tc_dims d) {
  static float all[SIZED_NUMBERS];
  if (all[0] == 0)
    for (uint32_t i = 0, x = 1; i < SIZED_NUMBERS; i++)
      x = x * 1664525u + 1013904223u, all[i] = (float)(int32_t)x / 2147483648.0f;
  return tc_from_host(all, d, TC_F32);
}

static tc_tensor wanting(tc_tensor x) {
  EXPECT_OK(tc_set_requires_grad(x, true));
  return x;
}

static tc_tensor elementwise(int64_t n) {
  return tc_add(tc_mul(numbers(TC_SHAPE(n, 30)), numbers(TC_SHAPE(30))), tc_sin(numbers(TC_SHAPE(n, 1))));
}

static tc_tensor layers(int64_t n) {
  tc_tensor h = tc_relu(tc_linear(numbers(TC_SHAPE(n, 48)), numbers(TC_SHAPE(64, 48)), numbers(TC_SHAPE(64))));
  return tc_linear(h, numbers(TC_SHAPE(10, 64)), numbers(TC_SHAPE(10)));
}

static tc_tensor product_along(int64_t n) {
  return tc_matmul(numbers(TC_SHAPE(20, n)), numbers(TC_SHAPE(n, 36)));
}

// Sums that wait in memory between chunks.
static tc_tensor product_deep(int64_t n) {
  tc_tensor x = tc_matmul(numbers(TC_SHAPE(n, 2600)), numbers(TC_SHAPE(2600, 70)));
  return tc_add(tc_gelu(x), numbers(TC_SHAPE(70)));
}

static tc_tensor products(int64_t n) {
  tc_tensor turned = tc_permute(numbers(TC_SHAPE(3, 40, n)), (tc_dims){3, {0, 2, 1}});
  return tc_matmul(turned, tc_matmul(numbers(TC_SHAPE(3, 40, n)), numbers(TC_SHAPE(3, n, 21))));
}

static tc_tensor product_bf16(int64_t n) {
  tc_tensor x = tc_cast(numbers(TC_SHAPE(n, 96)), TC_BF16), w = tc_cast(numbers(TC_SHAPE(96, 40)), TC_BF16);
  return tc_cast(tc_matmul(x, w), TC_F32);
}

static tc_tensor rows(int64_t n) {
  return tc_layer_norm(tc_softmax(numbers(TC_SHAPE(n, 100)), 1), numbers(TC_SHAPE(100)), numbers(TC_SHAPE(100)), 1e-5);
}

static tc_tensor along_rows(int64_t n) {
  return tc_softmax(tc_sub(numbers(TC_SHAPE(9, n)), tc_mean(numbers(TC_SHAPE(9, n)), TC_SHAPE(1), true)), 1);
}

static tc_tensor columns(int64_t n) {
  return tc_add(tc_var(numbers(TC_SHAPE(n, 70)), TC_SHAPE(0), 0, false),
                tc_max(numbers(TC_SHAPE(n, 70)), TC_SHAPE(0), false));
}

static tc_tensor parts(int64_t n) {
  tc_tensor x = numbers(TC_SHAPE(n, 17)), y = tc_pad(tc_flip(x, TC_SHAPE(0)), TC_SHAPE(2, 1), TC_SHAPE(1, 0), 1);
  return tc_cat(2, (tc_tensor[]){tc_permute(y, (tc_dims){2, {1, 0}}), tc_exp(numbers(TC_SHAPE(18, n)))}, 1);
}

static tc_tensor image(int64_t n) {
  tc_conv_options same = {.padding = TC_SHAPE(1, 1)};
  tc_tensor x = numbers(TC_SHAPE(2, 3, n + 4, 12)),
            y = tc_relu(tc_conv2d(x, numbers(TC_SHAPE(8, 3, 3, 3)), numbers(TC_SHAPE(8)), same));
  return tc_max_pool2d(y, TC_SHAPE(2, 2), (tc_pool_options){.stride = TC_SHAPE(2, 2)});
}

static tc_tensor attention(int64_t n) {
  tc_tensor q = numbers(TC_SHAPE(1, 2, n, 16)), none = {0, 0};
  return tc_scaled_dot_product_attention(q, tc_neg(q), tc_cos(q), none, (tc_attention_options){.causal = true});
}

static tc_tensor by_index(int64_t n) {
  tc_tensor at = tc_remainder(tc_arange(0, (double)n, 1, TC_I64), tc_full(TC_SHAPE(1), 5, TC_I64));
  return tc_scatter_add(numbers(TC_SHAPE(5, 6)), 0, tc_tile(tc_reshape(at, TC_SHAPE(n, 1)), TC_SHAPE(1, 6)),
                        numbers(TC_SHAPE(n, 6)));
}

static tc_tensor gradients(int64_t n) {
  tc_tensor w = wanting(numbers(TC_SHAPE(24, 32))), x = numbers(TC_SHAPE(n, 32)), dw = {0, 0};
  EXPECT_OK(
      tc_grads_of(tc_mean(tc_square(tc_tanh(tc_linear(x, w, numbers(TC_SHAPE(24))))), TC_ALL, false), &w, 1, &dw, 0));
  return dw;
}
