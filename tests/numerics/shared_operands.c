// Programs whose operands are made of one narrow tensor, by casts and elementwise ops: fused they
// give what they give op by op.
// Each has several readers of one value on the way, of which one may have it stored while another
// makes it again.
#include <tc/tc.h>

#include "tests/expect.h"

#define MOST_ERROR 1e-4  // of the largest element: the order of sums, and Winograd's transforms

typedef struct inputs {
  tc_tensor p;        // narrow [n, n], of 1 to 5
  tc_tensor x, y, q;  // f32 [3, n], [n, 5], [n, 1]
  int64_t n;
  bool op_by_op;
} inputs;

typedef void program(const inputs *in, tc_tensor out[2]);

static const tc_tensor none;

// A value on the way.
static tc_tensor step(const inputs *in, tc_tensor t) {
  if (in->op_by_op) EXPECT_OK(tc_eval(1, &t));
  return t;
}

static tc_tensor wide(const inputs *in, tc_type type) {
  return step(in, tc_cast(in->p, type));
}

// ---- one op of the tensor by the tensor ----

enum { HALVED, RAISED, SQUARED, CENTRED, CLAMPED, REVERSED, CHOSEN, SCALED, SOFTMAX, ITSELF, N_FUNCTIONS };
static const char *const function_names[] = {"halved",   "raised", "squared", "centred", "clamped",
                                             "reversed", "chosen", "scaled",  "softmax", "itself"};
static int function_drawn, side_drawn;

static tc_tensor made(const inputs *in, tc_tensor f) {
  switch (function_drawn) {
    case HALVED: return step(in, tc_mul(f, 0.5));
    case RAISED: return step(in, tc_add(f, 3));
    case SQUARED: return step(in, tc_square(f));
    case CENTRED: return step(in, tc_sub(f, step(in, tc_mean(f, TC_AXES(0), true))));
    case CLAMPED: return step(in, tc_maximum(f, 2));
    case REVERSED: return step(in, tc_rsub(f, 20));
    case CHOSEN: return step(in, tc_where(step(in, tc_gt(f, 2)), f, 0.5));
    case SCALED: return step(in, tc_mul(f, in->q));
    case SOFTMAX: return step(in, tc_softmax(f, 1));
    default: return f;
  }
}

static tc_tensor turned(const inputs *in, tc_tensor t) {
  return step(in, tc_transpose(t, 0, 1));
}

enum { RIGHT, LEFT, LEFT_TURNED, RIGHT_TURNED, LINEAR, N_SIDES };
static const char *const side_names[] = {"right", "left", "left turned", "right turned", "linear"};

static void one_product(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = wide(in, TC_F32);
  switch (side_drawn) {
    case RIGHT: out[0] = tc_matmul(f, made(in, f)); break;
    case LEFT: out[0] = tc_matmul(made(in, f), f); break;
    case LEFT_TURNED: out[0] = tc_matmul(turned(in, f), made(in, f)); break;
    case RIGHT_TURNED: out[0] = tc_matmul(f, turned(in, made(in, f))); break;
    default: out[0] = tc_linear(f, made(in, f), none);
  }
}

// ---- another reader of the cast, or of what is made of it ----

static void two_products(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = wide(in, TC_F32);
  out[0] = tc_matmul(in->x, step(in, tc_mul(f, 0.5))), out[1] = tc_matmul(f, in->y);
}

static void cast_sorted(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = wide(in, TC_F32);
  out[0] = tc_matmul(in->x, step(in, tc_mul(f, 0.5))), out[1] = tc_sort(f, 1, false);
}

static void middle_sorted(const inputs *in, tc_tensor out[2]) {
  tc_tensor half = step(in, tc_mul(wide(in, TC_F32), 0.5));
  out[0] = tc_matmul(in->x, step(in, tc_add(half, 3))), out[1] = tc_sort(half, 1, false);
}

static void middle_turned(const inputs *in, tc_tensor out[2]) {
  tc_tensor half = step(in, tc_mul(wide(in, TC_F32), 0.5));
  out[0] = tc_matmul(in->x, step(in, tc_add(turned(in, half), 3))), out[1] = tc_sort(half, 1, false);
}

static void middle_reshaped(const inputs *in, tc_tensor out[2]) {
  tc_tensor rows = step(in, tc_reshape(step(in, tc_mul(wide(in, TC_F32), 0.5)), TC_SHAPE(in->n / 2, 2 * in->n)));
  out[0] = tc_matmul(in->x, step(in, tc_reshape(step(in, tc_add(rows, 3)), TC_SHAPE(in->n, in->n)))),
  out[1] = tc_sort(rows, 1, false);
}

// A row of the cast is an operand of a product, and a term of another's whose other term is the
// cast.
static void row_of_it(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = wide(in, TC_F32), row = step(in, tc_mul(step(in, tc_slice(f, 0, 0, 1, 1)), 2));
  out[0] = tc_matmul(in->x, step(in, tc_add(f, row))), out[1] = tc_matmul(in->q, row);
}

static void condition_summed(const inputs *in, tc_tensor out[2]) {
  tc_tensor c = step(in, tc_gt(wide(in, TC_F32), 2));
  out[0] = tc_matmul(in->x, step(in, tc_where(c, 1, 0.5))), out[1] = tc_cumsum(c, 1);
}

// In the tensor's type, or f32 where that is whole numbers.
static void einsum(const inputs *in, tc_tensor out[2]) {
  tc_type type = tc_dtype(in->p) == TC_I8 ? TC_F32 : tc_dtype(in->p);
  tc_tensor p = step(in, tc_cast(in->p, type)),
            w = step(in, tc_cast(step(in, tc_reshape(in->q, TC_SHAPE(in->n))), type));
  if (!in->op_by_op) {
    out[0] = tc_cast(tc_einsum("ab,ab,b->a", 3, (tc_tensor[]){p, p, w}), TC_F32);
    return;
  }
  tc_tensor square = step(in, tc_square(wide(in, TC_F32)));
  tc_tensor sum = step(in, tc_sum(step(in, tc_mul(square, step(in, tc_cast(w, TC_F32)))), TC_AXES(1), false));
  out[0] = step(in, tc_cast(step(in, tc_cast(sum, type)), TC_F32));
}

// ---- through f64 ----

static void by_f64(const inputs *in, tc_tensor out[2]) {
  out[0] = tc_matmul(wide(in, TC_F64), step(in, tc_cast(step(in, tc_mul(in->p, 2)), TC_F64)));
}

static void f32_by_f64(const inputs *in, tc_tensor out[2]) {
  tc_tensor half = step(in, tc_cast(step(in, tc_mul(wide(in, TC_F32), 0.5)), TC_F64));
  out[0] = tc_matmul(step(in, tc_cast(in->x, TC_F64)), step(in, tc_add(half, 3))), out[1] = tc_sort(half, 1, false);
}

static void through_f64(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = wide(in, TC_F32), half = step(in, tc_cast(step(in, tc_mul(f, 0.5)), TC_F64));
  out[0] = tc_matmul(in->x, step(in, tc_cast(step(in, tc_mul(half, 2)), TC_F32))), out[1] = tc_matmul(f, in->y);
}

// ---- other contractions ----

static void attention(const inputs *in, tc_tensor out[2]) {
  tc_tensor f = step(in, tc_reshape(wide(in, TC_F32), TC_SHAPE(1, 1, in->n, in->n)));
  tc_attention_options plain = {0};
  out[0] = tc_scaled_dot_product_attention(step(in, tc_mul(f, 0.1)), step(in, tc_mul(f, 0.5)), step(in, tc_add(f, 3)),
                                           none, plain);
  out[1] = tc_matmul(in->x, step(in, tc_mul(wide(in, TC_F32), 0.5)));
}

// The tensor as an image of so many channels. The weight is made of its first elements.
static void convolution(const inputs *in, tc_tensor out[2], int64_t channels) {
  tc_tensor f = wide(in, TC_F32), flat = step(in, tc_reshape(f, TC_SHAPE(in->n * in->n)));
  tc_tensor image = step(in, tc_reshape(f, TC_SHAPE(1, channels, in->n / channels, in->n)));
  tc_tensor part = step(in, tc_slice(flat, 0, 0, channels * channels * 9, 1));
  tc_tensor weight = step(in, tc_mul(step(in, tc_reshape(part, TC_SHAPE(channels, channels, 3, 3))), 0.5));
  out[0] = tc_conv2d(image, weight, none, (tc_conv_options){.padding = TC_SHAPE(1, 1)});
  out[1] = tc_matmul(in->x, step(in, tc_mul(f, 0.5)));
}

static void direct_conv(const inputs *in, tc_tensor out[2]) {
  convolution(in, out, 1);
}

static void winograd(const inputs *in, tc_tensor out[2]) {
  convolution(in, out, 4);
}

// ---- running ----

static void run(program *make, const char *name, const char *of, tc_type type, int64_t n) {
  tc_scope scope = tc_scope_begin();
  inputs in = {.n = n};
  tc_tensor counted = tc_reshape(tc_arange(0, (double)(n * n), 1, TC_F32), TC_SHAPE(n, n));
  in.p = tc_cast(tc_add(tc_remainder(counted, 5), 1), type);
  in.x = tc_add(tc_remainder(tc_reshape(tc_arange(0, (double)(3 * n), 1, TC_F32), TC_SHAPE(3, n)), 3), 1);
  in.y = tc_add(tc_remainder(tc_reshape(tc_arange(0, (double)(5 * n), 1, TC_F32), TC_SHAPE(n, 5)), 4), 1);
  in.q = tc_mul(tc_reshape(tc_arange(0, (double)n, 1, TC_F32), TC_SHAPE(n, 1)), 0.25);
  EXPECT_OK(tc_eval(4, (tc_tensor[]){in.p, in.x, in.y, in.q}));
  tc_tensor got[2] = {none, none}, want[2] = {none, none};
  make(&in, got);
  int n_out = tc_is_valid(got[1]) ? 2 : 1;
  EXPECT_OK(tc_eval(n_out, got));
  in.op_by_op = true;
  make(&in, want);
  EXPECT_OK(tc_eval(n_out, want));
  for (int k = 0; k < n_out; k++) {
    tc_tensor b = tc_cast(want[k], TC_F64), off = tc_max(tc_abs(tc_sub(tc_cast(got[k], TC_F64), b)), TC_ALL, false);
    double error = 1, most = 0;
    EXPECT_OK(tc_item_f64(off, &error));
    EXPECT_OK(tc_item_f64(tc_max(tc_abs(b), TC_ALL, false), &most));
    EXPECT(error <= MOST_ERROR * most, "%s%s of %s, n %d, result %d: off by %g of %g", name, of, tc_type_name(type),
           (int)n, k, error, most);
  }
  tc_scope_end(scope);
}

static const struct {
  program *make;
  const char *name;
} programs[] = {
    {two_products, "two products"},
    {cast_sorted, "cast, sorted too"},
    {middle_sorted, "half, sorted too"},
    {middle_turned, "half, turned"},
    {middle_reshaped, "half, reshaped"},
    {row_of_it, "row of it"},
    {condition_summed, "condition, summed too"},
    {einsum, "einsum"},
    {by_f64, "f64"},
    {f32_by_f64, "f32 by f64"},
    {through_f64, "through f64"},
    {attention, "attention"},
    {direct_conv, "direct convolution"},
    {winograd, "Winograd"},
};

int main(void) {
  static const tc_type types[] = {TC_F16, TC_BF16, TC_I8, TC_F32};
  bool slow = strcmp(tc_get_default_device(), "tc:cuda") == 0;  // simulated: the least and the largest
  for (int t = 0; t < 4; t++)
    for (int64_t n = 16; n <= 64; n += slow ? 48 : 24) {
      for (function_drawn = 0; function_drawn < N_FUNCTIONS; function_drawn++)
        for (side_drawn = 0; side_drawn < N_SIDES; side_drawn++) {
          char of[64];
          snprintf(of, sizeof of, "%s, %s", function_names[function_drawn], side_names[side_drawn]);
          run(one_product, "", of, types[t], n);
        }
      for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        run(programs[i].make, programs[i].name, "", types[t], n);
    }
  return expect_done("numerics-shared_operands");
}
