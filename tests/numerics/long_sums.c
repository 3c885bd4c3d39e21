// Long sums against the reference: convolutions over so many channels that their sums are made in
// chunks, where a chunk ends where a piece of the window does; folds over so many and so long rows
// that columns are summed beside each other, row by row; and attention over many keys and of many
// rows.
#include <math.h>
#include <tc/tc.h>

#include "tests/expect.h"

static tc_tensor convolved(tc_tensor x, tc_tensor weight, int64_t stride, const char *device) {
  tc_conv_options o = {.stride = TC_SHAPE(stride), .padding = TC_SHAPE(tc_shape(weight).dim[3] / 2)};
  return tc_to(tc_relu(tc_conv2d(tc_to(x, device), tc_to(weight, device), (tc_tensor){0, 0}, o)), "tc:cpu");
}

// window x window over channels, on images of side x side.
static void a_convolution_is_the_references(tc_type type, int64_t channels, int64_t side, int64_t window,
                                            int64_t stride) {
  double off = NAN, most = NAN;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(2, channels, side, side), type),
            weight = tc_randn(TC_SHAPE(24, channels, window, window), type);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, weight}));
  tc_tensor want = convolved(x, weight, stride, "tc:ref");
  tc_tensor diff = tc_max(tc_abs(tc_sub(convolved(x, weight, stride, "tc:cpu"), want)), TC_ALL, false);
  EXPECT_OK(tc_item_f64(tc_cast(diff, TC_F64), &off));
  EXPECT_OK(tc_item_f64(tc_cast(tc_max(want, TC_ALL, false), TC_F64), &most));
  EXPECT(off <= 1e-5 * most && most > 0, "%d channels, %dx%d over %d: off by %g of %g", (int)channels, (int)window,
         (int)window, (int)side, off, most);
  tc_scope_end(scope);
}

static double greatest(tc_tensor t) {
  double v = NAN;
  EXPECT_OK(tc_item_f64(tc_cast(tc_max(t, TC_ALL, false), TC_F64), &v));
  return v;
}

// What is made of one tensor's columns in one kernel: with something before the folds, and after.
static tc_tensor folded(tc_tensor x, const char *device) {
  tc_tensor y = tc_relu(tc_to(x, device)), sum = tc_sum(y, TC_SHAPE(1), false),
            squares = tc_sum(tc_mul(y, y), TC_SHAPE(1), false);
  return tc_to(tc_sub(tc_add(squares, squares), sum), "tc:cpu");
}

static void columns_are_the_references(tc_type type, int64_t n, int64_t rows, int64_t columns) {
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(n, rows, columns), type);
  EXPECT_OK(tc_eval(1, &x));
  tc_tensor want = folded(x, "tc:ref");
  double off = greatest(tc_abs(tc_sub(folded(x, "tc:cpu"), want))), most = greatest(tc_abs(want));
  EXPECT(off <= 1e-5 * most && most > 0, "%dx%dx%d: off by %g of %g", (int)n, (int)rows, (int)columns, off, most);
  // Which NaN a column has, and which value is its greatest, does not depend on an order.
  tc_tensor with_nan = tc_where(tc_gt(x, tc_full(TC_SHAPE(1), 3.5, type)), tc_full(TC_SHAPE(1), NAN, type), x);
  tc_tensor most_of = tc_max(with_nan, TC_SHAPE(1), false),
            same = tc_max(tc_to(with_nan, "tc:ref"), TC_SHAPE(1), false);
  tc_tensor here = tc_to(same, "tc:cpu"),
            differ =
                tc_logical_and(tc_ne(most_of, here), tc_logical_not(tc_logical_and(tc_isnan(most_of), tc_isnan(here))));
  EXPECT(greatest(tc_cast(differ, TC_F32)) == 0 && greatest(tc_cast(tc_isnan(here), TC_F32)) == 1,
         "%dx%dx%d: other greatest values", (int)n, (int)rows, (int)columns);
  tc_scope_end(scope);
}

// ---- attention over so many keys, or of so many rows, that their blocks are added in groups ----

enum { OUT, DQ, DK, DV, N_RESULTS };

// Two query heads to a key head. Later keys are larger, so that the greatest score grows from group
// to group.
static void attend(const tc_tensor in[3], tc_attention_options o, const char *device, tc_tensor out[N_RESULTS]) {
  tc_tensor p[3];
  for (int i = 0; i < 3; i++) p[i] = tc_param(tc_to(in[i], device));
  tc_tensor y = tc_scaled_dot_product_attention(p[0], p[1], p[2], (tc_tensor){0, 0}, o);
  EXPECT_OK(tc_backward(tc_sum(tc_square(y), TC_ALL, false)));
  out[OUT] = tc_to(tc_detach(y), "tc:cpu");
  for (int i = 0; i < 3; i++) out[DQ + i] = tc_to(tc_grad(p[i]), "tc:cpu");
}

static void attention_is_the_references(int64_t rows, int64_t keys, int64_t e, tc_attention_options o) {
  static const char *const names[] = {"result", "dq", "dk", "dv"};
  tc_scope scope = tc_scope_begin();
  tc_tensor in[3] = {tc_randn(TC_SHAPE(1, 2, rows, e), TC_F32), tc_randn(TC_SHAPE(1, 1, keys, e), TC_F32),
                     tc_randn(TC_SHAPE(1, 1, keys, e), TC_F32)};
  in[1] = tc_mul(in[1], tc_reshape(tc_arange(0, (double)keys, 1, TC_F32), TC_SHAPE(1, 1, keys, 1)));
  in[1] = tc_mul(in[1], 3.0 / (double)keys);
  EXPECT_OK(tc_eval(3, in));
  tc_tensor got[N_RESULTS], again[N_RESULTS], want[N_RESULTS];
  attend(in, o, "tc:cpu", got), attend(in, o, "tc:ref", want);
  EXPECT_OK(tc_eval(N_RESULTS, got));
  tc_set_num_threads(1);
  attend(in, o, "tc:cpu", again);
  EXPECT_OK(tc_eval(N_RESULTS, again));
  tc_set_num_threads(0);
  for (int i = 0; i < N_RESULTS; i++) {
    double off = greatest(tc_abs(tc_sub(got[i], want[i]))), most = greatest(tc_abs(want[i]));
    EXPECT(off <= 2e-5 * most && most > 0, "%lld rows, %lld keys of %d, %s: off by %g of %g", (long long)rows,
           (long long)keys, (int)e, names[i], off, most);
    EXPECT(greatest(tc_cast(tc_ne(got[i], again[i]), TC_F32)) == 0,
           "%lld rows, %lld keys, %s: other bits by one thread", (long long)rows, (long long)keys, names[i]);
  }
  tc_scope_end(scope);
}

// Of equal scores and equal values, whose roundings all go the same way.
static void attention_keeps_digits(int64_t rows, int64_t keys) {
  tc_scope scope = tc_scope_begin();
  tc_tensor q = tc_param(tc_zeros(TC_SHAPE(1, 1, rows, 4), TC_F32)),
            k = tc_param(tc_full(TC_SHAPE(1, 1, keys, 4), 0.1, TC_F32));
  tc_tensor v = tc_param(tc_full(TC_SHAPE(1, 1, keys, 4), 0.1, TC_F32));
  tc_tensor y = tc_scaled_dot_product_attention(q, k, v, (tc_tensor){0, 0}, (tc_attention_options){0});
  EXPECT_OK(tc_backward(tc_sum(tc_mul(y, 0.1), TC_ALL, false)));
  double want_dv = (double)0.1F * (double)rows / (double)keys;
  double off = greatest(tc_abs(tc_sub(tc_div(tc_detach(y), 0.1), 1))),
         off_dv = greatest(tc_abs(tc_sub(tc_div(tc_grad(v), want_dv), 1)));
  EXPECT(off <= 5e-6, "%lld rows, %lld keys: off by a part of %g", (long long)rows, (long long)keys, off);
  EXPECT(off_dv <= 5e-6, "%lld rows, %lld keys: dv off by a part of %g", (long long)rows, (long long)keys, off_dv);
  tc_scope_end(scope);
}

static void attention_in_groups(void) {
  attention_is_the_references(3, 140000, 8, (tc_attention_options){0});
  attention_is_the_references(1, 270000, 4, (tc_attention_options){.key_length = 135000});
  attention_is_the_references(3, 70000, 132, (tc_attention_options){.causal = true, .key_length = 66000});
  attention_is_the_references(50000, 5, 8, (tc_attention_options){0});
  attention_is_the_references(25000, 300, 4, (tc_attention_options){.causal = true, .key_length = 200});
  attention_keeps_digits(2, 1 << 20);
  attention_keeps_digits(1 << 19, 2);
}

int main(void) {
  tc_seed(3);
  for (int64_t side = 2; side <= 5; side++) a_convolution_is_the_references(TC_F32, 512, side, 3, 1);
  a_convolution_is_the_references(TC_F32, 512, 4, 3, 2);
  a_convolution_is_the_references(TC_F32, 360, 4, 3, 1);  // pieces of 1080
  a_convolution_is_the_references(TC_F32, 130, 6, 5, 1);  // of 650
  a_convolution_is_the_references(TC_F32, 8, 20, 17, 1);  // of 136
  a_convolution_is_the_references(TC_F64, 512, 4, 3, 1);
  columns_are_the_references(TC_F32, 16, 640, 1024);  // on machines of up to 16 cores
  columns_are_the_references(TC_F32, 4, 641, 1088);  // rows one by one
  columns_are_the_references(TC_F32, 4, 648, 2048);
  columns_are_the_references(TC_F64, 4, 644, 1024);
  attention_in_groups();
  return expect_done("numerics-long_sums");
}
