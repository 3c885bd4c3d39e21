// Numbers as bytes: tc_quantize, tc_dequantize and linear layers of bytes, against what PyTorch
// 2.15 computes.
#include <math.h>
#include <stdlib.h>
#include <tc/nn.h>
#include <unistd.h>

#include "tests/expect.h"

static const tc_tensor none;

// ---- What torch.quantize_per_tensor and quantize_per_channel give ----

enum { ROWS = 3, COLUMNS = 8, N = ROWS * COLUMNS };
static const float given[N] = {-1.5f, -0.5f, 0.5f,   1.5f,   2.5f,   127.4f,  127.5f, -128.5f,
                               0.1f,  -0.1f, 3.3f,   -7.7f,  200.0f, -200.0f, 0.25f,  0.35f,
                               0.05f, 0.15f, -0.15f, 1e-30f, 12.7f,  -12.85f, 1e9f,   -1e9f};
// q_: the bytes; d_: these made numbers again. _one: scale 1; _tenth: scale 0.1, zero point 3 as i8
// and 100 as u8; _seven: scale 0.7, zero point -5; _channels: scales 0.05, 0.3, 1.7 and zero points
// 1, -2, 10 of the rows
static const int q_i8_one[] = {-2,  0,    0, 2, 2, 127, 127, -128, 0,  0,   3,   -8,
                               127, -128, 0, 0, 0, 0,   0,   0,    13, -13, 127, -128};
static const float d_i8_one[] = {-2.0f, 0.0f, 0.0f, 2.0f,  2.0f,   127.0f,  127.0f, -128.0f,
                                 0.0f,  0.0f, 3.0f, -8.0f, 127.0f, -128.0f, 0.0f,   0.0f,
                                 0.0f,  0.0f, 0.0f, 0.0f,  13.0f,  -13.0f,  127.0f, -128.0f};
static const int q_i8_tenth[] = {-12, -2,   8, 18, 28, 127, 127, -128, 4,   2,    36,  -74,
                                 127, -128, 5, 7,  3,  5,   1,   3,    127, -125, 127, -128};
static const float d_i8_tenth[] = {-1.5f,         -0.5f,        0.5f,         1.5f,          2.5f,        12.4000006f,
                                   12.4000006f,   -13.1000004f, 0.100000001f, -0.100000001f, 3.29999995f, -7.70000029f,
                                   12.4000006f,   -13.1000004f, 0.200000003f, 0.400000006f,  0.0f,        0.200000003f,
                                   -0.200000003f, 0.0f,         12.4000006f,  -12.8000002f,  12.4000006f, -13.1000004f};
static const int q_u8_tenth[] = {85,  95, 105, 115, 125, 255, 255, 0,   101, 99, 133, 23,
                                 255, 0,  102, 104, 100, 102, 98,  100, 227, 0,  255, 0};
static const float d_u8_tenth[] = {-1.5f,         -0.5f,  0.5f,         1.5f,          2.5f,        15.5f,
                                   15.5f,         -10.0f, 0.100000001f, -0.100000001f, 3.29999995f, -7.70000029f,
                                   15.5f,         -10.0f, 0.200000003f, 0.400000006f,  0.0f,        0.200000003f,
                                   -0.200000003f, 0.0f,   12.6999998f,  -10.0f,        15.5f,       -10.0f};
static const int q_i8_seven[] = {-7,  -6,   -4, -3, -1, 127, 127, -128, -5, -5,  0,   -16,
                                 127, -128, -5, -5, -5, -5,  -5,  -5,   13, -23, 127, -128};
static const float d_i8_seven[] = {-1.39999998f, -0.699999988f, 0.699999988f, 1.39999998f,  2.79999995f, 92.4000015f,
                                   92.4000015f,  -86.0999985f,  0.0f,         0.0f,         3.5f,        -7.69999981f,
                                   92.4000015f,  -86.0999985f,  0.0f,         0.0f,         0.0f,        0.0f,
                                   0.0f,         0.0f,          12.5999994f,  -12.5999994f, 92.4000015f, -86.0999985f};
static const int q_channels[] = {-29, -9,   11, 31, 51, 127, 127, -128, -2, -2, 9,   -28,
                                 127, -128, -1, -1, 10, 10,  10,  10,   17, 2,  127, -128};
static const float d_channels[] = {-1.5f,       -0.5f,        0.5f,         1.5f,         2.5f,        6.30000019f,
                                   6.30000019f, -6.45000029f, 0.0f,         0.0f,         3.30000019f, -7.80000019f,
                                   38.7000008f, -37.8000031f, 0.300000012f, 0.300000012f, 0.0f,        0.0f,
                                   0.0f,        0.0f,         11.9000006f,  -13.6000004f, 198.900009f, -234.600006f};

static void expect_bytes(tc_tensor q, const int *want, const char *what) {
  int32_t got[N];
  EXPECT_OK(tc_to_host(tc_cast(q, TC_I32), got, sizeof got));
  for (int i = 0; i < N; i++)
    EXPECT(got[i] == want[i], "%s: %g is %d, not %d", what, (double)given[i], got[i], want[i]);
}

static void expect_numbers(tc_tensor x, const float *want, const char *what) {
  float got[N];
  EXPECT(expect_floats(x, got, N) == N, "%s", what);
  for (int i = 0; i < N; i++)
    EXPECT(got[i] == want[i], "%s: [%d] is %.9g, not %.9g", what, i, (double)got[i], (double)want[i]);
}

static void as_pytorch(void) {
  static const struct {
    float scale;
    int zero;
    tc_type type;
    const int *q;
    const float *d;
  } cases[] = {{1, 0, TC_I8, q_i8_one, d_i8_one},
               {0.1f, 3, TC_I8, q_i8_tenth, d_i8_tenth},
               {0.1f, 100, TC_U8, q_u8_tenth, d_u8_tenth},
               {0.7f, -5, TC_I8, q_i8_seven, d_i8_seven}};
  tc_tensor x = tc_from_host(given, TC_SHAPE(ROWS, COLUMNS), TC_F32);
  tc_quantize_options o = {0};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tc_tensor scale = tc_full(TC_SHAPE(), cases[i].scale, TC_F32), zero = tc_full(TC_SHAPE(), cases[i].zero, TC_I32);
    tc_tensor q = tc_quantize(x, scale, zero, cases[i].type, o);
    EXPECT(tc_dtype(q) == cases[i].type, "case %zu", i);
    expect_bytes(q, cases[i].q, "per tensor");
    expect_numbers(tc_dequantize(q, scale, zero, o), cases[i].d, "per tensor");
    if (cases[i].zero == 0) expect_bytes(tc_quantize(x, scale, none, cases[i].type, o), cases[i].q, "symmetric");
  }
  tc_tensor scale = tc_from_host((float[]){0.05f, 0.3f, 1.7f}, TC_SHAPE(ROWS), TC_F32),
            zero = tc_cast(tc_from_host((int32_t[]){1, -2, 10}, TC_SHAPE(ROWS), TC_I32), TC_I8);
  tc_tensor q = tc_quantize(x, scale, zero, TC_I8, o);
  expect_bytes(q, q_channels, "per channel");
  expect_numbers(tc_dequantize(q, scale, zero, o), d_channels, "per channel");
  // the same along the last axis, and as a scale that broadcasts
  q = tc_quantize(tc_transpose(x, 0, 1), scale, zero, TC_I8, (tc_quantize_options){.axis = -1});
  expect_bytes(tc_transpose(q, 0, 1), q_channels, "per channel of the last axis");
  q = tc_quantize(x, tc_reshape(scale, TC_SHAPE(ROWS, 1)), tc_reshape(zero, TC_SHAPE(ROWS, 1)), TC_I8, o);
  expect_bytes(q, q_channels, "a scale a row");
}

// A scale for every two columns: as if each pair were a channel.
static void by_groups(void) {
  float scale[ROWS * 4];
  int32_t zero[ROWS * 4];
  for (int i = 0; i < ROWS * 4; i++) scale[i] = 0.25f * (float)(1 + i % 5), zero[i] = i % 7 - 3;
  tc_tensor x = tc_from_host(given, TC_SHAPE(ROWS, COLUMNS), TC_F32), pairs = tc_reshape(x, TC_SHAPE(ROWS * 4, 2)),
            s = tc_from_host(scale, TC_SHAPE(ROWS, 4), TC_F32), z = tc_from_host(zero, TC_SHAPE(ROWS, 4), TC_I32),
            s1 = tc_reshape(s, TC_SHAPE(ROWS * 4)), z1 = tc_reshape(z, TC_SHAPE(ROWS * 4));
  tc_quantize_options o = {.axis = 1, .group = 2};
  int want[N];
  float back[N];
  tc_tensor q = tc_quantize(pairs, s1, z1, TC_I8, (tc_quantize_options){0});
  EXPECT_OK(tc_to_host(tc_cast(q, TC_I32), want, sizeof want));
  EXPECT(expect_floats(tc_dequantize(q, s1, z1, (tc_quantize_options){0}), back, N) == N, "channels");
  expect_bytes(tc_quantize(x, s, z, TC_I8, o), want, "per group");
  expect_numbers(tc_dequantize(tc_quantize(x, s, z, TC_I8, o), s, z, o), back, "per group");
}

// NaN becomes the zero point, infinities the ends of the type.
static void of_no_numbers(void) {
  float x[] = {NAN, INFINITY, -INFINITY, -0.0f}, s = 0.5f;
  int32_t got[4];
  tc_tensor a = tc_from_host(x, TC_SHAPE(4), TC_F32), scale = tc_from_host(&s, TC_SHAPE(), TC_F32);
  for (int type = 0; type < 2; type++)
    for (int zero = 0; zero < 12; zero += 11) {
      tc_tensor q = tc_quantize(a, scale, zero ? tc_full(TC_SHAPE(), zero, TC_I64) : none, type ? TC_U8 : TC_I8,
                                (tc_quantize_options){0});
      EXPECT_OK(tc_to_host(tc_cast(q, TC_I32), got, sizeof got));
      EXPECT(got[0] == zero && got[1] == (type ? 255 : 127) && got[2] == (type ? 0 : -128) && got[3] == zero,
             "%d %d %d %d", got[0], got[1], got[2], got[3]);
    }
}

// Zero points that are not known to be beyond the type, and integers of 32 bits: the formulas hold.
static void far_zero_points(void) {
  static const float x[] = {NAN, INFINITY, -INFINITY, 2, -250, 1e9f, -1e9f, -33554400};
  static const int64_t zeros[] = {200, -3, 256, 16777217, 33554435, 2147483647, 4294967301, -4294967291};
  float s = 1, y;
  int32_t got[8];
  tc_quantize_options o = {0};
  tc_tensor a = tc_from_host(x, TC_SHAPE(8), TC_F32), scale = tc_from_host(&s, TC_SHAPE(), TC_F32);
  for (int k = 0; k < 8; k++)
    for (int type = 0; type < 2; type++) {
      tc_tensor zero = tc_neg(tc_full(TC_SHAPE(), -zeros[k], TC_I64));
      EXPECT_OK(tc_to_host(tc_cast(tc_quantize(a, scale, zero, type ? TC_U8 : TC_I8, o), TC_I32), got, sizeof got));
      double low = type ? 0 : -128, high = type ? 255 : 127;
      for (int i = 0; i < 8; i++) {
        double cut = fmin(fmax((double)zeros[k], -0x1p29), 0x1p29), r = isnan(x[i]) ? cut : (double)x[i] + cut;
        double want = fmin(fmax(r, low), high);
        EXPECT(got[i] == want, "%g, zero point %lld: %d, not %g", (double)x[i], (long long)zeros[k], got[i], want);
      }
    }
  tc_tensor least = tc_full(TC_SHAPE(), INT32_MIN, TC_I32), most = tc_full(TC_SHAPE(), INT32_MAX, TC_I32);
  EXPECT_OK(tc_item(tc_dequantize(least, scale, tc_full(TC_SHAPE(), 1, TC_I32), o), &y));
  EXPECT(y == -2147483648.0f, "%.9g", (double)y);
  EXPECT_OK(tc_item(tc_dequantize(most, scale, tc_full(TC_SHAPE(), 2147483640, TC_I64), o), &y));
  EXPECT(y == 7, "%.9g", (double)y);
  EXPECT_OK(tc_item(tc_dequantize(tc_full(TC_SHAPE(), -100, TC_I8), scale, most, o), &y));
  EXPECT(y == -2147483648.0f, "%.9g", (double)y);
}

static void in_other_types(void) {
  static const tc_type types[] = {TC_F16, TC_BF16, TC_F64};
  static const float x[] = {-1.5f, 0.5f, 1.5f, 100.0f};
  static const int want[] = {-6, 2, 6, 127};
  int32_t got[4];
  for (int t = 0; t < 3; t++) {
    tc_tensor a = tc_cast(tc_from_host(x, TC_SHAPE(4), TC_F32), types[t]), s = tc_full(TC_SHAPE(), 0.25, types[t]);
    tc_tensor q = tc_quantize(a, s, none, TC_I8, (tc_quantize_options){0}),
              y = tc_dequantize(q, s, none, (tc_quantize_options){0});
    EXPECT(tc_dtype(y) == types[t], "%s", tc_type_name(tc_dtype(y)));
    EXPECT_OK(tc_to_host(tc_cast(q, TC_I32), got, sizeof got));
    for (int i = 0; i < 4; i++) EXPECT(got[i] == want[i], "%s: %d", tc_type_name(types[t]), got[i]);
  }
}

// No gradient goes through bytes; that of dequantize goes to the scale.
static void gradients(void) {
  float g;
  tc_tensor x = tc_param(tc_full(TC_SHAPE(2, 4), 0.6, TC_F32)), s = tc_param(tc_full(TC_SHAPE(), 0.5, TC_F32)), dx, ds;
  tc_tensor q = tc_quantize(x, s, none, TC_I8, (tc_quantize_options){0});
  tc_tensor y = tc_sum(tc_cast(q, TC_F32), TC_ALL, false);
  EXPECT(tc_backward(y) == TC_ERR_GRAD, "a gradient through bytes");
  tc_clear_error();
  y = tc_sum(tc_add(tc_mul(x, 3), tc_dequantize(q, s, none, (tc_quantize_options){0})), TC_ALL, false);
  EXPECT_OK(tc_backward(y));
  dx = tc_grad(x), ds = tc_grad(s);
  EXPECT_OK(tc_item(ds, &g));
  EXPECT(g == 8, "of the scale: %g, the sum of the bytes is 8", (double)g);
  EXPECT_OK(tc_item(tc_max(dx, TC_ALL, false), &g));
  EXPECT(g == 3, "of x: %g", (double)g);
}

static void refusals(void) {
  tc_tensor x = tc_ones(TC_SHAPE(3, 8), TC_F32), i = tc_ones(TC_SHAPE(3, 8), TC_I8), s = tc_ones(TC_SHAPE(), TC_F32),
            s4 = tc_ones(TC_SHAPE(4), TC_F32), w = tc_ones(TC_SHAPE(5, 8), TC_I8), s5 = tc_ones(TC_SHAPE(5), TC_F32);
  tc_quantize_options o = {0}, axis = {.axis = 2}, group = {.axis = 1, .group = 3}, below = {.group = -1};
  EXPECT_FAILS(tc_quantize(x, s, none, TC_I16, o), TC_ERR_DTYPE, "to i16: i8 and u8 are possible");
  EXPECT_FAILS(tc_quantize(i, s, none, TC_I8, o), TC_ERR_DTYPE, "x is i8, not floating");
  EXPECT_FAILS(tc_quantize(x, i, none, TC_I8, o), TC_ERR_DTYPE, "scale is i8, not floating");
  EXPECT_FAILS(tc_quantize(x, s, s, TC_I8, o), TC_ERR_DTYPE, "zero_point is f32, not an integer");
  EXPECT_FAILS(tc_quantize(x, s, i, TC_I8, o), TC_ERR_SHAPE, "zero_point is [3, 8], scale is []");
  EXPECT_FAILS(tc_quantize(x, s4, none, TC_I8, o), TC_ERR_SHAPE, "scale [4] has not an element a channel of x [3, 8]");
  EXPECT_FAILS(tc_quantize(x, s4, none, TC_I8, axis), TC_ERR_ARG, "axis is 2, x has rank 2");
  EXPECT_FAILS(tc_quantize(x, x, none, TC_I8, group), TC_ERR_SHAPE, "scale [3, 8] has not an element a group");
  EXPECT_FAILS(tc_quantize(x, x, none, TC_I8, below), TC_ERR_ARG, "group is -1");
  EXPECT_FAILS(tc_quantize(x, tc_ones(TC_SHAPE(2, 8), TC_F32), none, TC_I8, o), TC_ERR_SHAPE, "does not broadcast");
  EXPECT_FAILS(tc_dequantize(x, s, none, o), TC_ERR_DTYPE, "q is f32, not an integer");
  EXPECT_FAILS(tc_dequantize(tc_full(TC_SHAPE(), 3000000000, TC_I64), s, none, o), TC_ERR_DTYPE,
               "q is i64, not an integer of at most 32 bits");
  EXPECT_FAILS(tc_quantize(x, s, tc_full(TC_SHAPE(), 200, TC_I32), TC_I8, o), TC_ERR_ARG,
               "zero_point 0 is 200: i8 holds -128 to 127");
  EXPECT_FAILS(tc_quantize(x, s, tc_full(TC_SHAPE(), -1, TC_I64), TC_U8, o), TC_ERR_ARG, "u8 holds 0 to 255");
  tc_dims ones = TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 4), halves = TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 2);
  EXPECT_FAILS(tc_quantize(tc_ones(ones, TC_F32), tc_ones(halves, TC_F32), none, TC_I8,
                           (tc_quantize_options){.axis = 7, .group = 2}),
               TC_ERR_SHAPE, "x has rank 8: with groups it would need one axis more");
  EXPECT_FAILS(tc_linear_int8(x, x, s, none), TC_ERR_DTYPE, "x is f32 and weight f32: floating and i8 are needed");
  EXPECT_FAILS(tc_linear_int8(tc_ones(TC_SHAPE(7), TC_F32), w, s5, none), TC_ERR_SHAPE,
               "x [7] does not fit weight [5, 8] [out, in]");
  EXPECT_FAILS(tc_linear_int8(x, w, s4, none), TC_ERR_SHAPE, "scale is [4], weight has 5 rows");
  EXPECT_FAILS(tc_linear_int8(x, w, s5, s4), TC_ERR_SHAPE, "bias is [4], weight has 5 rows");
  EXPECT_FAILS(tc_linear_int8(x, w, i, none), TC_ERR_DTYPE, "scale is i8, not floating");
  EXPECT_FAILS(tc_linear_int8(tc_ones(TC_SHAPE(1, 131073), TC_F32), tc_zeros(TC_SHAPE(1, 131073), TC_I8), s, none),
               TC_ERR_SHAPE, "has more than 131072 columns");
}

// ---- Linear layers ----

// By its definition: rows and sums as integers, the rest in f32 in the order that is documented.
static void linear_is_its_definition(int rows, int in, int out, bool with_bias) {
  float *x = malloc((size_t)(rows * in) * sizeof *x), *y = malloc((size_t)(rows * out) * sizeof *y),
        *s = malloc((size_t)out * sizeof *s), *b = malloc((size_t)out * sizeof *b);
  int8_t *w = malloc((size_t)(in * out));
  uint32_t state = 3;
  for (int i = 0; i < rows * in; i++)
    state = state * 1664525u + 1013904223u,
    x[i] = ((int)(state >> 16) % 2001 - 1000) * (i / in % 3 == 2 ? 1e-3f : 3.0f);
  for (int i = 0; i < in * out; i++) state = state * 1664525u + 1013904223u, w[i] = (int8_t)(state >> 20);
  for (int i = 0; i < out; i++) s[i] = 0.001f * (float)(i + 1), b[i] = (float)i - 3;
  if (rows > 1) memset(x, 0, (size_t)in * sizeof *x);
  tc_tensor ws = tc_from_host(w, TC_SHAPE(out, in), TC_I8), bias = tc_from_host(b, TC_SHAPE(out), TC_F32);
  tc_tensor got = tc_linear_int8(tc_from_host(x, TC_SHAPE(rows, in), TC_F32), ws,
                                 tc_from_host(s, TC_SHAPE(out), TC_F32), with_bias ? bias : none);
  EXPECT_OK(tc_to_host(got, y, (size_t)(rows * out) * sizeof *y));
  for (int r = 0; r < rows; r++) {
    float greatest = 0x1p-100f;
    for (int k = 0; k < in; k++) greatest = fmaxf(greatest, fabsf(x[r * in + k]));
    float row = greatest * (float)(1.0 / 127), by = 1 / row;
    for (int j = 0; j < out; j++) {
      int64_t sum = 0;
      for (int k = 0; k < in; k++) sum += (int)rintf(x[r * in + k] * by) * w[j * in + k];
      float want = (float)sum * row * s[j];
      if (with_bias) want += b[j];
      EXPECT(y[r * out + j] == want, "%dx%dx%d [%d, %d]: %.9g, not %.9g", rows, in, out, r, j, (double)y[r * out + j],
             (double)want);
    }
  }
  free(x), free(y), free(s), free(b), free(w);
}

// A row with an infinity or NaN gives no finite number, and no other row knows of it.
static void rows_without_numbers(void) {
  float x[3 * 8], y[3 * 5];
  for (int i = 0; i < 24; i++) x[i] = (float)(i % 8) - 3;
  x[3] = NAN, x[8 + 5] = INFINITY;
  tc_tensor got = tc_linear_int8(tc_from_host(x, TC_SHAPE(3, 8), TC_F32), tc_ones(TC_SHAPE(5, 8), TC_I8),
                                 tc_ones(TC_SHAPE(5), TC_F32), none);
  EXPECT_OK(tc_to_host(got, y, sizeof y));
  for (int i = 0; i < 10; i++) EXPECT(!isfinite(y[i]), "[%d] is %g", i, (double)y[i]);
  for (int i = 10; i < 15; i++) EXPECT(isfinite(y[i]), "[%d] is %g", i, (double)y[i]);
  got = tc_linear_int8(tc_ones(TC_SHAPE(2, 0), TC_F32), tc_ones(TC_SHAPE(3, 0), TC_I8), tc_ones(TC_SHAPE(3), TC_F32),
                       tc_ones(TC_SHAPE(3), TC_F32));
  EXPECT(expect_floats(got, y, 6) == 6 && y[0] == 1 && y[5] == 1, "of empty rows: %g", (double)y[0]);
  EXPECT(tc_dtype(tc_linear_int8(tc_ones(TC_SHAPE(2, 8), TC_BF16), tc_ones(TC_SHAPE(5, 8), TC_I8),
                                 tc_ones(TC_SHAPE(), TC_F32), none)) == TC_BF16,
         "the type of x");
}

// ---- A model beside PyTorch's quantize_dynamic ----

// What the model gives with numbers, in f64, and what PyTorch's gives, by channels
static const float plain[] = {
    -2.453166f, -0.3666888f,  0.5211297f,  -0.8625309f,  -0.1928354f, 0.2972662f,  1.800487f,   -0.3609112f,
    -1.01348f,  -0.483486f,   0.796036f,   0.3986795f,   0.8557371f,  1.570053f,   0.2753028f,  0.8048558f,
    1.44095f,   -0.9529613f,  -0.7876729f, -1.817145f,   -0.8970768f, 0.5363541f,  0.9283949f,  0.8872901f,
    0.2321764f, -1.366997f,   1.202268f,   -0.01551908f, 1.967588f,   -1.042128f,  2.380045f,   0.4897657f,
    -1.555929f, -0.08836925f, -0.4364037f, -0.04011393f, 0.2399874f,  -1.081913f,  2.353343f,   -0.7231917f,
    0.5146565f, -0.2052594f,  0.5125795f,  0.4515674f,   0.07594379f, 0.4655108f,  1.100482f,   -1.262437f,
    0.3826185f, -0.5414016f,  0.5889899f,  -0.9606186f,  -0.2556872f, -0.683458f,  -0.2522012f, 0.7684133f,
    0.3192327f, -1.425975f,   0.6220715f,  -0.3642736f,  0.00373224f, -0.2976798f, 1.397874f,   -0.7938413f,
    -1.63919f,  -1.152246f,   0.6779215f,  -1.125903f,   -0.95876f,   0.4635331f,  2.200462f,   0.03953964f,
    0.6160897f, -0.3339567f,  0.7463028f,  0.3422249f,   -1.227228f,  2.309842f,   1.168375f,   0.1011924f,
    0.1500683f, -2.373222f,   -1.204534f,  -0.888971f,   0.8085212f,  -1.586654f,  0.3010706f,  3.724515f,
    0.1263186f, -0.2061364f,  1.515235f,   -0.2725089f,  0.1264413f,  0.8895449f,  1.587617f,   -2.063306f};
static const float quantized[] = {
    -2.438146f, -0.3612245f,  0.5173397f,  -0.8531893f,  -0.187116f,   0.3123065f,  1.772131f,   -0.3507178f,
    -1.012051f, -0.501624f,   0.806056f,   0.3769338f,   0.846973f,    1.570887f,   0.2950167f,  0.7984764f,
    1.424417f,  -0.9360597f,  -0.7711756f, -1.825929f,   -0.9004699f,  0.5304431f,  0.9371213f,  0.863036f,
    0.2136839f, -1.329712f,   1.21698f,    0.003535622f, 1.979245f,    -1.034188f,  2.405815f,   0.498089f,
    -1.560772f, -0.09724938f, -0.4372144f, -0.06588878f, 0.241837f,    -1.089981f,  2.359247f,   -0.7377746f,
    0.5117013f, -0.1933192f,  0.5071976f,  0.4481172f,   0.07539245f,  0.4640794f,  1.101653f,   -1.257713f,
    0.3730865f, -0.5416644f,  0.5854044f,  -0.9672089f,  -0.2414162f,  -0.6789308f, -0.2410026f, 0.7844406f,
    0.3297868f, -1.434191f,   0.6275614f,  -0.3692099f,  -0.01565267f, -0.2786613f, 1.393708f,   -0.7763813f,
    -1.642902f, -1.157991f,   0.6822147f,  -1.14751f,    -0.9750279f,  0.4756988f,  2.184748f,   0.04524272f,
    0.6121457f, -0.3440419f,  0.747086f,   0.3384752f,   -1.242319f,   2.307655f,   1.165186f,   0.1003494f,
    0.1598687f, -2.343574f,   -1.226848f,  -0.8991988f,  0.7928491f,   -1.572731f,  0.302419f,   3.724403f,
    0.1226346f, -0.1661612f,  1.504045f,   -0.2826897f,  0.1268467f,   0.867484f,   1.584306f,   -2.050664f};

enum { IN = 48, MID = 96, OUT = 16, BATCH = 6 };
static uint32_t drawn = 1;
static float draw(float size) {
  drawn = drawn * 1664525u + 1013904223u;
  return (float)((double)((int)((drawn >> 16) % 2001) - 1000) / 1000 * (double)size);
}

static tc_tensor draw_all(tc_dims d, float size) {
  static float v[MID * IN];
  int64_t n = d.rank == 2 ? d.dim[0] * d.dim[1] : d.dim[0];
  for (int64_t i = 0; i < n; i++) v[i] = draw(size);
  return tc_from_host(v, d, TC_F32);
}

static tc_nn_params *model_of(void) {
  tc_nn_params *p = tc_nn_params_create();
  EXPECT(tc_is_valid(tc_nn_add(p, "0.weight", draw_all(TC_SHAPE(MID, IN), 0.25f))), "0.weight");
  EXPECT(tc_is_valid(tc_nn_add(p, "0.bias", draw_all(TC_SHAPE(MID), 0.5f))), "0.bias");
  EXPECT(tc_is_valid(tc_nn_add(p, "2.weight", draw_all(TC_SHAPE(OUT, MID), 0.25f))), "2.weight");
  EXPECT(tc_is_valid(tc_nn_add(p, "2.bias", draw_all(TC_SHAPE(OUT), 0.5f))), "2.bias");
  EXPECT(tc_is_valid(tc_nn_add(p, "norm.weight", tc_ones(TC_SHAPE(3), TC_F32))), "norm.weight");
  return p;
}

static tc_tensor forward(const tc_nn_params *p, tc_tensor x) {
  return tc_nn_linear(p, "2", tc_gelu(tc_nn_linear(p, "0", x)));
}

static double rms_of(const float *a, const float *b) {
  double sum = 0;
  for (int i = 0; i < BATCH * OUT; i++) sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
  return sqrt(sum / (BATCH * OUT));
}

// A saved model of bytes gives y again.
static void saved_and_loaded(const tc_nn_params *p, tc_tensor x, const float *y) {
  float again[BATCH * OUT];
  char path[300];
  snprintf(path, sizeof path, "%s/tc-int8-%d.safetensors", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
  const tc_status st = tc_nn_save(p, path);
  if (st == TC_ERR_STATE) return;  // built without libjansson
  EXPECT_OK(st);
  drawn = 77;
  tc_nn_params *q = model_of();
  EXPECT_OK(tc_nn_quantize_dynamic(q, "[02]", 0));
  tc_archive *a = tc_safetensors_open(path);
  EXPECT_OK(tc_nn_load(q, a, NULL));
  tc_archive_close(a);
  EXPECT_OK(tc_to_host(forward(q, x), again, sizeof again));
  EXPECT(memcmp(y, again, sizeof again) == 0, "what was saved gives another result");
  remove(path);
  tc_nn_params_destroy(q);
}

// Nearer to the model of numbers than PyTorch's is, and as near to PyTorch's as both errors allow.
static void model_of_bytes(void) {
  float y[BATCH * OUT];
  drawn = 1;
  tc_nn_params *p = model_of();
  tc_tensor x = draw_all(TC_SHAPE(BATCH, IN), 2);
  EXPECT_OK(tc_to_host(forward(p, x), y, sizeof y));
  EXPECT(rms_of(y, plain) < 1e-6, "of numbers: off by %g", rms_of(y, plain));
  EXPECT(tc_nn_quantize_dynamic(p, "none", 0) == TC_ERR_ARG, "nothing matches");
  EXPECT(tc_nn_quantize_dynamic(p, "*", 2) == TC_ERR_ARG, "axis 2");
  EXPECT(tc_nn_quantize_dynamic(NULL, "*", 0) == TC_ERR_ARG, "no list");
  EXPECT(tc_nn_count(p) == 5 && tc_nn_count_all(p) == 5, "nothing has changed");
  tc_clear_error();
  EXPECT_OK(tc_nn_quantize_dynamic(p, "*", 0));
  EXPECT(tc_nn_count(p) == 3 && tc_nn_count_all(p) == 7, "%d of %d", tc_nn_count(p), tc_nn_count_all(p));
  EXPECT(tc_nn_has(p, "norm.weight") && !tc_nn_has(p, "0.weight") && tc_dtype(tc_nn_get(p, "2.weight_int8")) == TC_I8,
         "names");
  for (int run = 0; run < 3; run++) {
    EXPECT_OK(tc_to_host(forward(p, x), y, sizeof y));
    EXPECT(rms_of(y, plain) <= rms_of(quantized, plain), "off by %g, PyTorch by %g", rms_of(y, plain),
           rms_of(quantized, plain));
    EXPECT(rms_of(y, quantized) <= rms_of(y, plain) + rms_of(quantized, plain), "off PyTorch's by %g",
           rms_of(y, quantized));
  }
  saved_and_loaded(p, x, y);
  EXPECT_FAILS(tc_nn_embedding(p, "0", tc_zeros(TC_SHAPE(1), TC_I64)), TC_ERR_ARG,
               "there is no parameter '0.weight': as bytes, '0.weight_int8', it serves linear layers alone");
  tc_nn_params_destroy(p);
}

static float farthest(tc_tensor a, tc_tensor b) {
  float v = NAN;
  EXPECT_OK(tc_item(tc_max(tc_abs(tc_sub(tc_cast(a, TC_F32), tc_cast(b, TC_F32))), TC_ALL, false), &v));
  return v;
}

// All linear layers of a model are turned, those of attention too; embeddings stay, and so does the
// type of a scale.
static void whole_model(void) {
  tc_nn_params *p = tc_nn_params_create();
  tc_nn_transformer_options o = {.n_heads = 2, .dim_feedforward = 64, .dropout = TC_ZERO};
  EXPECT_OK(tc_nn_add_transformer_encoder_layer(p, "layer", 32, o));
  EXPECT_OK(tc_nn_add_embedding(p, "emb", 10, 32));
  tc_tensor ids = tc_reshape(tc_arange(0, 8, 1, TC_I64), TC_SHAPE(2, 4));
  tc_tensor before = tc_nn_transformer_encoder_layer(p, "layer", tc_nn_embedding(p, "emb", ids), o);
  EXPECT_OK(tc_eval(1, &before));
  EXPECT(tc_nn_quantize_dynamic(p, "emb", 0) == TC_ERR_ARG, "an embedding");
  tc_clear_error();
  EXPECT_OK(tc_nn_quantize_dynamic(p, "*", 0));
  EXPECT(tc_nn_has(p, "layer.self_attn.out_proj.weight_int8") && tc_nn_has(p, "layer.linear1.weight_int8") &&
             tc_nn_has(p, "emb.weight"),
         "names");
  tc_tensor after = tc_nn_transformer_encoder_layer(p, "layer", tc_nn_embedding(p, "emb", ids), o);
  float off = farthest(before, after);
  EXPECT(off > 0 && off < 0.1f, "off by %g", (double)off);
  EXPECT_OK(tc_nn_cast(p, TC_BF16));
  EXPECT(tc_dtype(tc_nn_get(p, "layer.linear1.weight_scale")) == TC_F32 &&
             tc_dtype(tc_nn_get(p, "layer.linear1.bias")) == TC_BF16,
         "types");
  after = tc_nn_transformer_encoder_layer(p, "layer", tc_nn_embedding(p, "emb", ids), o);
  EXPECT(tc_dtype(after) == TC_BF16 && farthest(before, after) < 0.2f, "in bf16");
  tc_nn_params_destroy(p);
}

// What could not be applied is refused, and then nothing has changed; empty rows are none of it.
static void extreme_layers(void) {
  tc_nn_params *p = tc_nn_params_create();
  float y[3];
  EXPECT(tc_is_valid(tc_nn_add(p, "empty.weight", tc_ones(TC_SHAPE(3, 0), TC_F32))), "empty");
  EXPECT(tc_is_valid(tc_nn_add(p, "wide.weight", tc_ones(TC_SHAPE(1, 131073), TC_F32))), "wide");
  EXPECT(tc_nn_quantize_dynamic(p, "*", 0) == TC_ERR_SHAPE, "more inputs than there may be");
  EXPECT(strstr(tc_last_error()->message, "'wide.weight' [1, 131073] has more than 131072 inputs"), "%s",
         tc_last_error()->message);
  EXPECT(tc_nn_count(p) == 2 && tc_nn_count_all(p) == 2, "nothing has changed");
  tc_clear_error();
  EXPECT_OK(tc_nn_quantize_dynamic(p, "empty", 0));
  EXPECT(expect_floats(tc_nn_linear(p, "empty", tc_ones(TC_SHAPE(1, 0), TC_F32)), y, 3) == 3 && y[2] == 0, "%g",
         (double)y[2]);
  tc_nn_params_destroy(p);
}

// A weight [in, out] is turned to the same bytes.
static void the_other_way_round(void) {
  float y[2][4 * 6];
  tc_tensor w = tc_reshape(tc_arange(0, 60, 1, TC_F32), TC_SHAPE(6, 10)),
            x = tc_reshape(tc_arange(0, 40, 1, TC_F32), TC_SHAPE(4, 10));
  for (int i = 0; i < 2; i++) {
    tc_nn_params *p = tc_nn_params_create();
    EXPECT(tc_is_valid(tc_nn_add(p, "h.weight", i ? tc_transpose(w, 0, 1) : w)), "h");
    EXPECT_OK(tc_nn_quantize_dynamic(p, "h", i));
    EXPECT(tc_shape(tc_nn_get(p, "h.weight_int8")).dim[0] == 6, "outputs first");
    EXPECT(expect_floats(tc_nn_linear(p, "h", x), y[i], 24) == 24, "forward");
    tc_nn_params_destroy(p);
  }
  EXPECT(memcmp(y[0], y[1], sizeof y[0]) == 0, "%g %g", (double)y[0][1], (double)y[1][1]);
}

int main(void) {
  static void (*const tests[])(void) = {as_pytorch,          by_groups,       of_no_numbers,        in_other_types,
                                        gradients,           refusals,        rows_without_numbers, model_of_bytes,
                                        the_other_way_round, far_zero_points, whole_model,          extreme_layers};
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    tc_scope scope = tc_scope_begin();
    tests[i]();
    tc_scope_end(scope);
  }
  static const int shapes[][3] = {{1, 4, 1},     {1, 300, 70},  {3, 64, 17}, {5, 37, 64},
                                  {33, 256, 96}, {40, 130, 33}, {2, 1, 3}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
    for (int bias = 0; bias < 2; bias++) {
      tc_scope scope = tc_scope_begin();
      linear_is_its_definition(shapes[i][0], shapes[i][1], shapes[i][2], bias);
      tc_scope_end(scope);
    }
  return expect_done("int8");
}
