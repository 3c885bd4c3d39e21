// Long sums, and means and variances of values far from zero, keep their digits on the device under
// test (TC_DEVICE): products whatever makes them, folds over rows and columns whether or not their
// length divides, norms with their gradients and running statistics. Data are ones, one number,
// uniform numbers of one sign, what comes again, and small numbers beside a large one: of such a
// sum roundings add up. Right values are sums in double.
#include <math.h>
#include <stdlib.h>

#include "tests/expect.h"

static bool slow;  // a simulated GPU, or the reference: shorter, and fewer

// ---- values ----

static tc_tensor given(const double *v, tc_dims d, tc_type type) {
  tc_tensor t = tc_cast(tc_to(tc_from_host(v, d, TC_F64), tc_get_default_device()), type);
  EXPECT_OK(tc_eval(1, &t));
  return t;
}

static void read(tc_tensor t, int64_t n, double *out) {
  EXPECT_OK(tc_to_host(tc_to(tc_cast(t, TC_F64), "tc:cpu"), out, (size_t)n * sizeof *out));
}

static double number(tc_tensor t) {
  double v = NAN;
  read(t, 1, &v);
  return v;
}

static tc_tensor full(tc_dims d, double v) {
  return tc_full(d, v, TC_F32);
}

static void is_near(const char *what, double got, double want, double relative) {
  EXPECT(fabs(got - want) <= relative * fabs(want), "%s: %.10g, not %.10g, off by %.2g", what, got, want,
         fabs(got - want) / fabs(want));
}

// ---- products ----

static tc_tensor product(int64_t m, int64_t k, int64_t n, double a, double b, bool a_turned, bool b_turned) {
  tc_tensor x = a_turned ? tc_transpose(full(TC_SHAPE(k, m), a), 0, 1) : full(TC_SHAPE(m, k), a);
  tc_tensor y = b_turned ? tc_transpose(full(TC_SHAPE(n, k), b), 0, 1) : full(TC_SHAPE(k, n), b);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, y}));
  return tc_matmul(x, y);
}

static void products_of_one_number(void) {
  static const int64_t shapes[][3] = {{1, 200003, 1},  {1, 30000, 40}, {3, 20011, 70},
                                      {17, 20000, 19}, {40, 5003, 33}, {64, 9000, 8}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int way = 0; way < (slow ? 1 : 4); way++) {
      const int64_t *s = shapes[i];
      char what[80];
      if (slow && s[0] * s[1] * s[2] > 2000000) continue;
      tc_scope scope = tc_scope_begin();
      tc_tensor y = product(s[0], s[1], s[2], 0.1, 0.7, way & 1, way >> 1);
      snprintf(what, sizeof what, "%dx%dx%d, way %d", (int)s[0], (int)s[1], (int)s[2], way);
      is_near(what, number(tc_max(y, TC_ALL, false)), (double)0.1F * (double)0.7F * (double)s[1], 2e-5);
      is_near(what, number(tc_min(y, TC_ALL, false)), (double)0.1F * (double)0.7F * (double)s[1], 2e-5);
      tc_scope_end(scope);
    }
}

static void ones_are_counted(void) {
  int64_t n = slow ? (int64_t)1 << 18 : (int64_t)1 << 25, side = slow ? 600 : 5000;
  tc_scope scope = tc_scope_begin();
  EXPECT(number(tc_dot(full(TC_SHAPE(n), 1), full(TC_SHAPE(n), 1))) == (double)n, "a dot product of ones");
  tc_tensor all[] = {full(TC_SHAPE(side), 1), full(TC_SHAPE(side), 1), full(TC_SHAPE(side, side), 1)};
  EXPECT(number(tc_einsum("i,j,ij->", 3, all)) == (double)(side * side), "einsum of ones");
  n = slow ? 40000 : 1000003;
  EXPECT(number(tc_sum(tc_cast(full(TC_SHAPE(n), 1), TC_BF16), TC_ALL, false)) == (slow ? 39936 : 999424),
         "bf16 is rounded once");
  tc_scope_end(scope);
}

// [k, 3] by [k, 2] of uniform numbers of one sign, as a weight's gradient is; and of small ones
// beside a large one.
static void gradients_of_weights(tc_type type, double offset) {
  int64_t k = slow ? 30001 : 500009;
  double *a = malloc((size_t)k * 3 * sizeof *a), *b = malloc((size_t)k * 2 * sizeof *b), want[6] = {0}, got[6];
  uint32_t seed = 1;
  for (int64_t i = 0; i < 3 * k; i++)
    a[i] = (double)(float)((double)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24 + offset);
  for (int64_t i = 0; i < 2 * k; i++) b[i] = (double)(i % 16 + 1);
  for (int64_t i = 0; i < k; i++)
    for (int m = 0; m < 6; m++) want[m] += a[i * 3 + m / 2] * b[i * 2 + m % 2];
  tc_scope scope = tc_scope_begin();
  read(tc_matmul(tc_transpose(given(a, TC_SHAPE(k, 3), type), 0, 1), given(b, TC_SHAPE(k, 2), type)), 6, got);
  for (int m = 0; m < 6; m++) is_near("a weight's gradient", got[m], want[m], type == TC_F64 ? 1e-13 : 1e-5);
  tc_scope_end(scope);
  free(a), free(b);
}

static void gradients_of_convolutions(int64_t channels, int64_t side, int64_t groups, int64_t stride) {
  tc_scope scope = tc_scope_begin();
  tc_tensor x = full(TC_SHAPE(2, channels, side, side), 0.1), w = full(TC_SHAPE(channels, channels / groups, 3, 3), 1),
            grad = {0, 0};
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, w}));
  EXPECT_OK(tc_set_requires_grad(w, true));
  tc_conv_options o = {.stride = TC_SHAPE(stride), .groups = groups};
  tc_tensor y = tc_conv2d(x, w, (tc_tensor){0, 0}, o);
  int64_t out = tc_shape(y).dim[2];
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(y, 0.7), TC_ALL, false), &w, 1, &grad, 0));
  double want = 0.1F * (double)0.7F * (double)(2 * out * out);
  is_near("a convolution's gradient", number(tc_max(grad, TC_ALL, false)), want, 2e-5);
  is_near("a convolution's gradient", number(tc_min(grad, TC_ALL, false)), want, 2e-5);
  tc_scope_end(scope);
}

static void attention_of_long_rows(void) {
  int64_t l = slow ? 300 : 6000;
  tc_scope scope = tc_scope_begin();
  tc_tensor x[3], grad[3], none = {0, 0};
  for (int i = 0; i < 3; i++) x[i] = full(TC_SHAPE(1, 1, l, 8), 0.1);
  EXPECT_OK(tc_eval(3, x));
  for (int i = 0; i < 3; i++) EXPECT_OK(tc_set_requires_grad(x[i], true));
  tc_tensor y = tc_scaled_dot_product_attention(x[0], x[1], x[2], none, (tc_attention_options){0});
  is_near("attention", number(tc_max(y, TC_ALL, false)), (double)0.1F, 2e-5);
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(y, 0.7), TC_ALL, false), x, 3, grad, 0));
  is_near("gradient of values", number(tc_max(grad[2], TC_ALL, false)), (double)0.7F, 2e-5);
  tc_scope_end(scope);
}

// ---- folds ----

static void sums_of_any_length(void) {
  static const int64_t lengths[] = {65536, 65537, 131071, 300007, 1000003};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths - 2 * slow; i++)
    for (int columns = 1; columns <= 3; columns += 2) {
      tc_scope scope = tc_scope_begin();
      tc_tensor x = full(TC_SHAPE(lengths[i], columns), 0.1);
      EXPECT_OK(tc_eval(1, &x));
      is_near("a sum", number(tc_max(tc_sum(x, TC_SHAPE(0), false), TC_ALL, false)), 0.1F * (double)lengths[i], 1e-5);
      is_near("a mean", number(tc_max(tc_mean(x, TC_SHAPE(0), false), TC_ALL, false)), (double)0.1F, 1e-5);
      tc_scope_end(scope);
    }
}

// ---- means and variances ----

typedef struct far_values {
  int64_t n;
  double *x, mean, var;
} far_values;

// offset + step * (i % 16), which the type has exactly; the largest number of values of which the
// pattern is whole.
static far_values values_beside(double offset, double step, int64_t n) {
  far_values v = {n, malloc((size_t)n * sizeof *v.x), 0, 0};
  for (int64_t i = 0; i < n; i++)
    v.x[i] = offset + step * (double)(i % 16), v.mean += step * (double)(i % 16) / (double)n;
  for (int64_t i = 0; i < n; i++) v.var += (v.x[i] - offset - v.mean) * (v.x[i] - offset - v.mean) / (double)n;
  v.mean += offset;
  return v;
}

static void are_normalised(const char *what, tc_tensor y, const far_values *v, double most) {
  double *got = malloc((size_t)v->n * sizeof *got), off = 0;
  read(y, v->n, got);
  for (int64_t i = 0; i < v->n; i++) off = fmax(off, fabs(got[i] - (v->x[i] - v->mean) / sqrt(v->var)));
  EXPECT(off <= most, "%s of %d values beside %g: off by %g", what, (int)v->n, v->x[0], off);
  free(got);
}

// Of sum(y * g), y being x's layer norm: (g - mean(g) - y mean(g y)) / std.
static void has_its_gradient(tc_tensor x, const far_values *v, tc_type type, double most) {
  double *g = malloc((size_t)v->n * sizeof *g), *got = malloc((size_t)v->n * sizeof *got), mean = 0, slope = 0, off = 0,
         std = sqrt(v->var);
  for (int64_t i = 0; i < v->n; i++) {
    g[i] = (double)(i % 7) - 2, mean += g[i] / (double)v->n;
    slope += g[i] * (v->x[i] - v->mean) / std / (double)v->n;
  }
  tc_tensor none = {0, 0}, grad = none, row = tc_reshape(x, TC_SHAPE(1, v->n));
  EXPECT_OK(tc_eval(1, &row));
  EXPECT_OK(tc_set_requires_grad(row, true));
  tc_tensor y = tc_mul(tc_layer_norm(row, none, none, 0), given(g, TC_SHAPE(1, v->n), type));
  EXPECT_OK(tc_grads_of(tc_sum(y, TC_ALL, false), &row, 1, &grad, 0));
  read(grad, v->n, got);
  for (int64_t i = 0; i < v->n; i++)
    off = fmax(off, fabs(got[i] - (g[i] - mean - (v->x[i] - v->mean) / std * slope) / std));
  EXPECT(off <= most / std, "layer_norm's gradient, %d values beside %g: off by %g", (int)v->n, v->x[0], off);
  free(g), free(got);
}

static void keeps_running_statistics(tc_tensor x, const far_values *v, double relative) {
  double zero[2] = {0, 0};
  tc_tensor none = {0, 0}, mean = given(zero, TC_SHAPE(2), TC_F32), var = given(zero, TC_SHAPE(2), TC_F32);
  tc_tensor two = tc_cat(2, (tc_tensor[]){tc_reshape(x, TC_SHAPE(v->n, 1)), tc_reshape(x, TC_SHAPE(v->n, 1))}, 1);
  tc_tensor y = tc_batch_norm(two, mean, var, none, none,
                              (tc_batch_norm_options){.training = true, .momentum = 1, .eps = TC_ZERO});
  EXPECT_OK(tc_eval(1, &y));
  are_normalised("batch_norm", tc_slice(y, 1, 0, 1, 1), v, 4 * relative);
  is_near("a running mean", number(tc_max(mean, TC_ALL, false)), v->mean, 1e-6);
  is_near("a running variance", number(tc_min(var, TC_ALL, false)), v->var * (double)v->n / (double)(v->n - 1),
          relative);
}

static void far_from_zero(tc_type type, double offset, double step, int64_t n, double relative) {
  far_values v = values_beside(offset, step, n);
  tc_scope scope = tc_scope_begin();
  tc_tensor x = given(v.x, TC_SHAPE(n), type), none = {0, 0}, wide = tc_cast(x, type == TC_F64 ? TC_F64 : TC_F32);
  EXPECT_OK(tc_eval(1, &wide));
  tc_tensor columns =
      tc_mul(tc_reshape(wide, TC_SHAPE(n, 1)), tc_cast(tc_ones(TC_SHAPE(1, 3), TC_F32), tc_dtype(wide)));
  EXPECT_OK(tc_eval(1, &columns));
  is_near("a mean", number(tc_mean(wide, TC_ALL, false)), v.mean, 3e-6);
  is_near("a mean of columns", number(tc_max(tc_mean(columns, TC_SHAPE(0), false), TC_ALL, false)), v.mean, 2e-5);
  is_near("a variance", number(tc_var(wide, TC_ALL, 0, false)), v.var, relative);
  is_near("a variance of columns", number(tc_max(tc_var(columns, TC_SHAPE(0), 0, false), TC_ALL, false)), v.var,
          4 * relative);
  is_near("a deviation", number(tc_std(wide, TC_ALL, 0, true)), sqrt(v.var), relative);
  double most = type == TC_F64 || type == TC_F32 ? relative : type == TC_F16 ? 2e-3 : 1e-2;
  are_normalised("layer_norm", tc_layer_norm(tc_reshape(x, TC_SHAPE(1, n)), none, none, 0), &v, most);
  if (n % 4 == 0)
    are_normalised("group_norm", tc_group_norm(tc_reshape(x, TC_SHAPE(1, 4, n / 4)), 1, none, none, 0), &v, most);
  are_normalised("instance_norm", tc_instance_norm(tc_reshape(x, TC_SHAPE(1, 1, n)), none, none, 0), &v, most);
  if (type == TC_F32 || type == TC_F64)
    has_its_gradient(x, &v, type, 10 * most), keeps_running_statistics(wide, &v, relative);
  tc_scope_end(scope);
  free(v.x);
}

int main(void) {
  slow = strcmp(tc_get_default_device(), "tc:cpu") != 0;
  products_of_one_number();
  ones_are_counted();
  gradients_of_weights(TC_F32, 0);
  gradients_of_weights(TC_F32, 1000);
  if (!slow) gradients_of_weights(TC_F64, 1000);
  gradients_of_convolutions(3, slow ? 50 : 160, 1, 1);
  gradients_of_convolutions(16, slow ? 30 : 112, 1, 1);
  gradients_of_convolutions(4, slow ? 50 : 160, 4, 1);
  gradients_of_convolutions(8, slow ? 40 : 200, 1, 2);
  attention_of_long_rows();
  sums_of_any_length();
  for (int64_t n = 768; n <= 65536; n = n == 768 ? 4096 : 16 * n) {
    far_from_zero(TC_F32, 1e6, 1, n, 1e-5);
    far_from_zero(TC_F32, 1e6, 0x1p-4, n, 2e-5);
  }
  far_from_zero(TC_F32, -3e5, 0.5, 5008, 1e-5);
  far_from_zero(TC_F16, 2048, 2, 4096, 1e-5);
  far_from_zero(TC_BF16, 512, 4, 4096, 1e-5);
  far_from_zero(TC_F64, 1e14, 1, 4096, 1e-5);
  return expect_done("numerics-digits");
}
