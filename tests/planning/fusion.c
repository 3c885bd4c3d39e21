// What fusion must reach and must not cost: kernels and bytes of expressions people write,
// identities that leave less to do, slices written alone, and peak memory against the same program
// op by op; NaN in a softmax, whose fused fold passes over it.
// Bytes are in matrices of N x N floats, counted by the plan: each tensor once a kernel, indexed
// ones whole.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/child.h"

enum { N = 256 };
#define MATRIX ((double)N * N * sizeof(float))

static tc_tensor x, y, w[6], row, target, few, w_i8, w_u8, w_bf16, groups, few_rows;

static tc_tensor matrix(double scale) {
  return tc_mul(tc_sin(tc_reshape(tc_arange(0, (double)N * N, 1, TC_F32), TC_SHAPE(N, N))), scale);
}

static void make_operands(void) {
  x = tc_param(matrix(1)), y = tc_param(matrix(0.5)), row = tc_param(tc_ones(TC_SHAPE(N), TC_F32));
  target = tc_remainder(tc_arange(0, N, 1, TC_I64), 10);
  few = tc_arange(3, 11, 1, TC_I64);
  for (int i = 0; i < 6; i++) w[i] = tc_param(matrix(0.1 + 0.01 * i));
  w_i8 = tc_cast(matrix(100), TC_I8), w_u8 = tc_cast(tc_add(matrix(100), 110), TC_U8),
  w_bf16 = tc_param(tc_cast(matrix(1), TC_BF16));
  groups = tc_rand(TC_SHAPE(N / 32, N), TC_F32), few_rows = tc_slice(matrix(1), 0, 0, 2, 1);
  tc_tensor all[] = {x, y, row, target, few, w[0], w[1], w[2], w[3], w[4], w[5], w_i8, w_u8, w_bf16, groups, few_rows};
  EXPECT_OK(tc_eval(sizeof all / sizeof all[0], all));
}

// ---- kernels and bytes ----

static tc_tensor moved_sum(void) {
  return tc_transpose(tc_add(x, y), 0, 1);
}
static tc_tensor flipped(void) {
  return tc_add(tc_flip(tc_sin(x), TC_AXES(0)), y);
}
static tc_tensor joined(void) {
  return tc_cat(2, (tc_tensor[]){tc_neg(x), tc_add(y, 1)}, 0);
}
static tc_tensor padded(void) {
  return tc_pad(tc_sin(x), TC_SHAPE(1, 1), TC_SHAPE(1, 1), 0);
}
static tc_tensor stepped(void) {
  return tc_add(tc_slice(tc_sin(x), 0, 0, N, 2), 1);
}
static tc_tensor folded_moved(void) {
  return tc_sum(tc_flip(tc_sin(x), TC_AXES(1)), TC_AXES(1), false);
}
static tc_tensor folded_turned(void) {
  return tc_sum(tc_transpose(tc_mul(x, y), 0, 1), TC_AXES(1), false);
}
static tc_tensor selected(void) {
  return tc_index_select(tc_exp(x), 0, few);
}
static tc_tensor softmax(void) {
  return tc_softmax(tc_mul(x, 0.1), 1);
}
static tc_tensor normed(void) {
  return tc_layer_norm(x, row, row, 1e-5);
}
static tc_tensor siblings(void) {
  return tc_sub(tc_max(x, TC_AXES(1), false), tc_mean(x, TC_AXES(1), false));
}
static tc_tensor product(void) {
  return tc_gelu(tc_add(tc_matmul(x, w[0]), row));
}
// Made wide in the norm: what the product leaves it is bf16.
static tc_tensor normed_product(void) {
  tc_tensor z = tc_add(w_bf16, tc_add(tc_matmul(w_bf16, w_bf16), tc_cast(row, TC_BF16)));
  return tc_layer_norm(z, tc_cast(row, TC_BF16), tc_cast(row, TC_BF16), 1e-5);
}
// Products as convolutions make them: rows and channels moved apart, work in between, moved back.
static tc_tensor spread(tc_tensor t) {
  return tc_permute(tc_reshape(t, TC_SHAPE(4, 8, 8, N)), TC_SHAPE(0, 3, 1, 2));
}
static tc_tensor between_products(void) {
  tc_tensor t = tc_relu(tc_add(spread(tc_matmul(x, w[0])), tc_reshape(row, TC_SHAPE(N, 1, 1))));
  return tc_matmul(tc_reshape(tc_permute(t, TC_SHAPE(0, 2, 3, 1)), TC_SHAPE(N, N)), w[1]);
}
static tc_tensor residual_products(void) {
  tc_tensor t = tc_relu(tc_add(spread(tc_matmul(x, w[0])), spread(tc_matmul(y, w[1]))));
  return tc_matmul(tc_reshape(tc_permute(t, TC_SHAPE(0, 2, 3, 1)), TC_SHAPE(N, N)), w[2]);
}
static tc_tensor in_pieces(void) {
  tc_tensor t = tc_permute(tc_reshape(x, TC_SHAPE(8, 4, 32, 64)), TC_SHAPE(2, 0, 1, 3));
  return tc_matmul(tc_reshape(t, TC_SHAPE(N, N)), w[0]);
}

// Weights of narrower types, made where the product reads them.
static tc_tensor scaled(tc_tensor narrow) {
  return tc_mul(tc_cast(narrow, TC_F32), row);
}
static tc_tensor scaled_product(void) {
  return tc_matmul(x, scaled(w_i8));
}
static tc_tensor scaled_linear(void) {
  return tc_matmul(few_rows, tc_transpose(tc_mul(tc_cast(w_i8, TC_F32), tc_reshape(row, TC_SHAPE(N, 1))), 0, 1));
}
static tc_tensor zeroed_product(void) {
  return tc_matmul(few_rows, tc_mul(tc_sub(tc_cast(w_u8, TC_F32), 7), row));
}
static tc_tensor grouped_product(void) {
  tc_tensor t =
      tc_mul(tc_reshape(tc_cast(w_i8, TC_F32), TC_SHAPE(N / 32, 32, N)), tc_reshape(groups, TC_SHAPE(N / 32, 1, N)));
  return tc_matmul(few_rows, tc_reshape(t, TC_SHAPE(N, N)));
}
static tc_tensor bf16_product(void) {
  return tc_matmul(few_rows, tc_cast(w_bf16, TC_F32));
}
// of as many rows as would have panels kept, were they not as wide as what narrow weights avoid
static tc_tensor rows_by_bf16(void) {
  return tc_matmul(x, tc_cast(w_bf16, TC_F32));
}
static tc_tensor expensive_product(void) {
  return tc_matmul(few_rows, tc_exp(scaled(w_i8)));
}

static tc_tensor cross_entropy(void) {
  return tc_cross_entropy(tc_detach(x), target);
}

static tc_tensor chain(void) {
  tc_tensor t = x;
  for (int i = 0; i < 200; i++) t = tc_neg(t);
  return t;
}

static tc_tensor backward(tc_tensor loss) {
  EXPECT_OK(tc_backward(loss));
  return loss;
}
static tc_tensor cross_entropy_backward(void) {
  return backward(tc_cross_entropy(x, target));
}
static tc_tensor softmax_backward(void) {
  return backward(tc_sum(tc_mul(tc_softmax(x, 1), tc_detach(y)), TC_ALL, false));
}
static tc_tensor norm_backward(void) {
  return backward(tc_sum(tc_mul(tc_layer_norm(x, row, row, 1e-5), tc_detach(y)), TC_ALL, false));
}
static tc_tensor scaled_backward(void) {
  return backward(tc_sum(tc_mul(scaled_product(), tc_detach(y)), TC_ALL, false));
}
static tc_tensor product_backward(void) {
  return backward(tc_sum(product(), TC_ALL, false));
}

static const struct fused {
  const char *name;
  tc_tensor (*make)(void);
  uint32_t kernels;
  double matrices;
} fused[] = {
    {"transpose(x + y)", moved_sum, 1, 3},
    {"flip(sin x) + y", flipped, 1, 3},
    {"cat(-x, y + 1)", joined, 1, 4},
    {"pad(sin x)", padded, 1, 2.1},
    {"sin(x)[::2] + 1", stepped, 1, 1.5},
    {"sum(flip(sin x))", folded_moved, 1, 1.1},
    {"sum(transpose(x * y))", folded_turned, 1, 2.1},
    {"exp(x)[index]", selected, 1, 1.1},
    {"200 negations", chain, 1, 2},
    {"softmax", softmax, 1, 2},
    {"layer_norm", normed, 1, 2.1},
    {"max - mean", siblings, 1, 1.1},
    {"gelu(x @ w + b)", product, 1, 3.1},
    {"layer_norm(w + w @ w + b) of bf16", normed_product, 3, 3.7},
    {"a product, moved, relu, moved back, a product", between_products, 2, 6.1},
    {"two products' sum between products", residual_products, 3, 10.1},
    {"a product of rows in pieces", in_pieces, 1, 3},
    {"x @ (i8 * scale)", scaled_product, 1, 2.3},
    {"x @ (i8 * scale), a layer's weight", scaled_linear, 1, 0.3},
    {"x @ ((u8 - zero) * scale)", zeroed_product, 1, 0.3},
    {"x @ (i8 * scales of groups)", grouped_product, 1, 0.4},
    {"x @ bf16 as f32", bf16_product, 1, 0.6},
    {"many rows @ bf16 as f32", rows_by_bf16, 1, 2.6},
    {"x @ exp(i8 * scale)", expensive_product, 2, 2.4},
    {"sum(x @ (i8 * scale) * y), backward", scaled_backward, 5, 10.8},
    {"cross_entropy", cross_entropy, 3, 2.1},
    {"cross_entropy, backward", cross_entropy_backward, 4, 3.2},
    {"softmax, backward", softmax_backward, 4, 6.1},
    {"layer_norm, backward", norm_backward, 5, 9.1},
    {"gelu(x @ w + b), backward", product_backward, 5, 16.2},
};

static void run(const struct fused *f) {
  tc_scope s = tc_scope_begin();
  tc_tensor t = f->make();
  tc_keep(t);
  tc_scope_end(s);
  EXPECT_OK(tc_eval(1, &t));
  tc_release(t);
  EXPECT_OK(tc_zero_grad_of(4, (tc_tensor[]){x, y, row, w[0]}));
}

// Of a run that finds forms of parameters kept by the one before.
static void kernels_and_bytes(void) {
  for (size_t i = 0; i < sizeof fused / sizeof fused[0]; i++) {
    tc_sync_point p;
    run(&fused[i]);
    run(&fused[i]);
    EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
    EXPECT(p.n_kernels <= fused[i].kernels, "%s: %u kernels, at most %u", fused[i].name, p.n_kernels, fused[i].kernels);
    EXPECT((double)p.bytes <= fused[i].matrices * MATRIX, "%s: %.2f matrices moved, at most %.2f", fused[i].name,
           (double)p.bytes / MATRIX, fused[i].matrices);
  }
}

// ---- identities ----

static tc_tensor twice_negated(void) {
  return tc_add(tc_neg(tc_neg(x)), y);
}
static tc_tensor added_negated(void) {
  return tc_add(x, tc_neg(y));
}
static tc_tensor negated_product(void) {
  return tc_mul(tc_neg(x), tc_neg(y));
}
static tc_tensor absolute_square(void) {
  return tc_square(tc_abs(tc_neg(x)));
}
static tc_tensor turned_back(void) {
  return tc_add(tc_transpose(tc_transpose(x, 0, 1), 0, 1), y);
}
static tc_tensor shaped_back(void) {
  return tc_add(tc_reshape(tc_reshape(x, TC_SHAPE(N * N)), TC_SHAPE(N, N)), y);
}
static tc_tensor cast_back(void) {
  return tc_add(tc_cast(tc_cast(x, TC_F64), TC_F32), y);
}
static tc_tensor rounded_twice(void) {
  return tc_floor(tc_ceil(x));
}
static tc_tensor chosen_from_equals(void) {
  return tc_where(tc_gt(x, y), tc_maximum(x, x), x);
}

// In u8 the size of -x is 256 - x.
static tc_tensor unsigned_size(void) {
  return tc_add(tc_cast(tc_abs(tc_neg(tc_cast(tc_full(TC_SHAPE(N, N), 3, TC_F32), TC_U8))), TC_F32), tc_mul(x, 0));
}

static float of_sum(float a, float b) {
  return a + b;
}
static float of_difference(float a, float b) {
  return a - b;
}
static float of_product(float a, float b) {
  return a * b;
}
static float of_square(float a, float b) {
  (void)b;
  return a * a;
}
static float ceil_of(float a, float b) {
  (void)b;
  return ceilf(a);
}
static float first_of(float a, float b) {
  (void)b;
  return a;
}

static float minus_three_in_u8(float a, float b) {
  (void)a, (void)b;
  return 253;
}

static const struct identity {
  const char *name;
  tc_tensor (*make)(void);
  uint32_t nodes;  // that are left, operands included
  float (*value)(float x, float y);
} identities[] = {
    {"-(-x) + y", twice_negated, 3, of_sum},
    {"x + -y", added_negated, 3, of_difference},
    {"-x * -y", negated_product, 3, of_product},
    {"square(abs(-x))", absolute_square, 2, of_square},
    {"transposed twice", turned_back, 3, of_sum},
    {"reshaped twice", shaped_back, 3, of_sum},
    {"cast there and back", cast_back, 3, of_sum},
    {"floor(ceil x)", rounded_twice, 3, ceil_of},
    {"where(c, max(x, x), x)", chosen_from_equals, 2, first_of},
    {"abs(-u8)", unsigned_size, 16, minus_three_in_u8},
};

static void identities_hold(void) {
  static float a[N * N], b[N * N], out[N * N];
  EXPECT_OK(tc_to_host(x, a, sizeof a));
  EXPECT_OK(tc_to_host(y, b, sizeof b));
  for (size_t i = 0; i < sizeof identities / sizeof identities[0]; i++) {
    const struct identity *id = &identities[i];
    tc_sync_point p;
    tc_no_grad_begin();
    EXPECT_OK(tc_to_host(id->make(), out, sizeof out));
    tc_no_grad_end();
    EXPECT(tc_sync_points(1, &p) == 1 && p.n_left <= id->nodes, "%s: %u nodes are left, at most %u", id->name, p.n_left,
           id->nodes);
    for (int k = 0; k < N * N; k++)
      if (out[k] != id->value(a[k], b[k])) {
        EXPECT(false, "%s: [%d] is %g", id->name, k, (double)out[k]);
        break;
      }
  }
}

// ---- peak memory ----

// Adds `times` terms, each made in a scope of its own.
static tc_tensor sum_of(int times, tc_tensor first, tc_tensor (*term)(int i)) {
  tc_tensor sum = first;
  for (int i = 0; i < times; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor next = tc_add(sum, term(i));
    tc_keep(next);
    tc_scope_end(s);
    tc_release(sum);
    sum = next;
  }
  return sum;
}

static tc_tensor narrow(void) {
  return tc_slice(w[0], 1, 0, 8, 1);
}
static tc_tensor times_narrow(int i) {
  return tc_matmul(tc_mul(x, i), narrow());
}
static tc_tensor softmax_times_narrow(int i) {
  return tc_matmul(tc_softmax(tc_mul(x, i), 1), narrow());
}
static tc_tensor scanned_sum(int i) {
  return tc_sum(tc_cumsum(tc_mul(x, i), 1), TC_AXES(1), true);
}
static tc_tensor scanned(int i) {
  return tc_cumsum(tc_mul(x, i), 1);
}
static tc_tensor rows_of(int i) {
  return tc_index_select(tc_mul(x, i), 0, few);
}
static tc_tensor with_transpose(int i) {
  tc_tensor u = tc_exp(tc_mul(x, i * 0.01));
  return tc_sum(tc_mul(u, tc_transpose(u, 0, 1)), TC_AXES(1), false);
}

static tc_tensor products(void) {
  return sum_of(30, tc_zeros(TC_SHAPE(N, 8), TC_F32), times_narrow);
}
static tc_tensor softmaxes(void) {
  return sum_of(30, tc_zeros(TC_SHAPE(N, 8), TC_F32), softmax_times_narrow);
}
static tc_tensor scan_sums(void) {
  return sum_of(30, tc_zeros(TC_SHAPE(N, 1), TC_F32), scanned_sum);
}
static tc_tensor scans(void) {
  return sum_of(30, tc_zeros(TC_SHAPE(N, N), TC_F32), scanned);
}
static tc_tensor gathers(void) {
  return sum_of(30, tc_zeros(TC_SHAPE(8, N), TC_F32), rows_of);
}
static tc_tensor turned(void) {
  return sum_of(20, tc_zeros(TC_SHAPE(N), TC_F32), with_transpose);
}

static tc_tensor network(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor h = x;
  for (int i = 0; i < 6; i++) h = tc_gelu(tc_matmul(h, w[i]));
  tc_tensor loss = backward(tc_mse_loss(h, y));
  tc_keep(loss);
  tc_scope_end(s);
  return loss;
}

static tc_tensor residual(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor h = x;
  for (int i = 0; i < 6; i++) h = tc_add(h, tc_relu(tc_matmul(tc_tanh(h), w[i])));
  tc_tensor loss = backward(tc_mean(h, TC_ALL, false));
  tc_keep(loss);
  tc_scope_end(s);
  return loss;
}

static tc_tensor attention(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor a = tc_softmax(tc_mul(tc_matmul(w[0], tc_transpose(w[1], 0, 1)), 0.1), 1);
  tc_tensor loss = backward(tc_mean(tc_matmul(a, w[2]), TC_ALL, false));
  tc_keep(loss);
  tc_scope_end(s);
  return loss;
}

// Steps of training, whose loss is read at the end of all.
static tc_tensor train(tc_tensor (*loss_of)(void), tc_tensor *params, int n) {
  tc_optimizer *opt = tc_adam(params, n, (tc_adam_options){.lr = 1e-3, TC_ADAM_DEFAULTS});
  tc_tensor loss = {0, 0};
  for (int i = 0; i < 4; i++) {
    tc_scope s = tc_scope_begin();
    if (i) tc_release(loss);
    loss = loss_of();
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    tc_keep(loss);
    tc_scope_end(s);
  }
  EXPECT_OK(tc_sync(NULL));
  tc_optimizer_destroy(opt);
  return loss;
}

static tc_tensor network_loss(void) {
  tc_tensor h = tc_detach(x);
  for (int i = 0; i < 6; i++) h = tc_gelu(tc_matmul(h, w[i]));
  return tc_mse_loss(h, tc_detach(y));
}
static tc_tensor norm_loss(void) {
  return tc_mean(tc_square(tc_layer_norm(tc_layer_norm(tc_detach(x), row, row, 1e-5), row, row, 1e-5)), TC_ALL, false);
}
static tc_tensor network_steps(void) {
  return train(network_loss, w, 6);
}
static tc_tensor norm_steps(void) {
  return train(norm_loss, &row, 1);
}

static const struct held {
  const char *name;
  tc_tensor (*make)(void);
} held[] = {
    {"products in scopes", products},
    {"softmaxes in scopes", softmaxes},
    {"sums of scans in scopes", scan_sums},
    {"scans in scopes", scans},
    {"gathers in scopes", gathers},
    {"transposes in scopes", turned},
    {"a network's gradients", network},
    {"residual blocks' gradients", residual},
    {"attention's gradients", attention},
    {"layer_norm's gradients", norm_backward},
    {"cross_entropy's gradients", cross_entropy_backward},
    {"softmax's gradients", softmax_backward},
    {"steps of a network", network_steps},
    {"steps of norms", norm_steps},
};

typedef struct peak_case {
  const struct held *held;
  bool op_by_op;
} peak_case;

// Bytes beyond the operands that the program holds at most. Kept forms of parameters, which go when
// memory is short, do not count.
static double measure(const void *arg) {
  const peak_case *c = arg;
  setenv("TC_EAGER", c->op_by_op ? "1" : "0", 1);
  make_operands();
  double before = (double)tc_memory_stats().live_bytes;
  tc_tensor t = c->held->make();
  EXPECT_OK(tc_eval(1, &t));
  return (double)(tc_memory_stats().peak_bytes - tc_memory_stats().prepared_bytes) - before;
}

static double peak_of(const struct held *h, bool op_by_op) {
  return in_child(measure, &(peak_case){h, op_by_op});
}

// Buffers below a mebibyte come in classes, four a power of two, so one arena may be a quarter
// larger than what it holds.
static void peaks(void) {
  for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
    double fused_peak = peak_of(&held[i], false), eager_peak = peak_of(&held[i], true);
    EXPECT(fused_peak >= 0 && eager_peak >= 0, "%s: no peak", held[i].name);
    EXPECT(fused_peak <= 1.25 * eager_peak + 65536, "%s: %.2f matrices held, %.2f op by op", held[i].name,
           fused_peak / MATRIX, eager_peak / MATRIX);
  }
}

// The tensor's pages are read-only but for those of the row that is assigned: whoever wrote more
// would be stopped.
static void a_slice_is_written_alone(void) {
  enum { ROWS = 64, ROW = 5 };
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  int64_t columns = (int64_t)(2 * page / sizeof(float));
  float first = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor cache =
      tc_keep(tc_expand(tc_reshape(tc_arange(0, ROWS, 1, TC_F32), TC_SHAPE(ROWS, 1)), TC_SHAPE(ROWS, columns)));
  EXPECT_OK(tc_eval(1, &cache));
  const void *map = tc_map(cache);
  EXPECT_OK(tc_unmap(cache));
  uintptr_t from = ((uintptr_t)map + (ROW + 1) * 2 * page + page - 1) / page * page,
            bytes = ((uintptr_t)map + ROWS * 2 * page) / page * page - from;
  EXPECT(mprotect((void *)from, bytes, PROT_READ) == 0, "mprotect");
  for (int turn = 1; turn <= 3; turn++) {
    tc_tensor value = tc_full(TC_SHAPE(columns), 100.0 * turn, TC_F32);
    EXPECT_OK(tc_assign_slice(cache, (int64_t[]){ROW, 0}, (int64_t[]){ROW + 1, columns}, NULL, value));
    EXPECT_OK(tc_item_f32(tc_sum(tc_select(cache, 1, columns - 1), TC_ALL, false), &first));
    EXPECT(first == (float)(ROWS * (ROWS - 1) / 2 - ROW + 100 * turn), "%g", (double)first);
  }
  EXPECT(mprotect((void *)from, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect");
  tc_release(cache);
  tc_scope_end(scope);
}

// The greatest of a row is taken over NaN there; the sum is not.
static void a_row_with_nan_is_nan(tc_tensor (*make)(tc_tensor, int), int axis, int64_t length) {
  enum { ROWS = 4 };  // NaN first, in the last lane of a block, nowhere, everywhere
  float *value = calloc((size_t)(ROWS * length), sizeof *value);
  int64_t row = axis ? length : 1, step = axis ? 1 : ROWS, n_wrong = 0;
  tc_scope scope = tc_scope_begin();
  for (int64_t i = 0; i < length; i++) value[3 * row + i * step] = NAN;
  value[0] = value[row + (length > 63 ? 63 : length - 1) * step] = NAN;
  value[(length - 1) * step] = value[row] = 1e30F;
  tc_tensor y = make(tc_from_host(value, axis ? TC_SHAPE(ROWS, length) : TC_SHAPE(length, ROWS), TC_F32), axis);
  EXPECT_OK(tc_to_host(y, value, (size_t)(ROWS * length) * sizeof *value));
  for (int r = 0; r < ROWS; r++)
    for (int64_t i = 0; i < length; i++) n_wrong += (isnan(value[r * row + i * step]) != 0) != (r != 2);
  EXPECT(n_wrong == 0, "axis %d of %d: %d elements", axis, (int)length, (int)n_wrong);
  tc_scope_end(scope);
  free(value);
}

static tc_tensor softmax_along(tc_tensor of, int axis) {
  return tc_softmax(of, axis);
}

static tc_tensor log_softmax_along(tc_tensor of, int axis) {
  return tc_log_softmax(of, axis);
}

static void softmax_shows_nan(void) {
  for (int axis = 0; axis < 2; axis++)
    for (int64_t length = 3; length <= 300000; length *= 10) {
      a_row_with_nan_is_nan(softmax_along, axis, length);
      a_row_with_nan_is_nan(log_softmax_along, axis, length);
    }
}

// ---- rows and the sums of their columns ----

enum { PARTS = 4, PART_ROWS = 512, COLUMNS = 192 };  // what is folded over the rows is made in PARTS parts

// A norm's gradients: 0 the bits of them all, as a number, 1 kernels, 2 bytes moved over those of
// x.
static double norm_gradients(const void *arg) {
  const int *what = arg;
  setenv("TC_EAGER", *what ? "0" : "1", 1);
  EXPECT_OK(tc_set_num_threads(2));
  tc_dims d = TC_SHAPE(PARTS * PART_ROWS, COLUMNS);
  double bits = 0, size = (double)(PARTS * PART_ROWS * COLUMNS) * sizeof(float);
  tc_tensor in = tc_param(tc_randn(d, TC_F32)), scale = tc_param(tc_randn(TC_SHAPE(COLUMNS), TC_F32)),
            shift = tc_param(tc_zeros(TC_SHAPE(COLUMNS), TC_F32));
  tc_tensor above = tc_randn(d, TC_F32);
  EXPECT_OK(tc_eval(4, (tc_tensor[]){in, scale, shift, above}));
  EXPECT_OK(tc_backward_with(tc_layer_norm(in, scale, shift, 1e-5), above, 0));
  tc_tensor all[] = {tc_grad(in), tc_grad(scale), tc_grad(shift)};
  EXPECT_OK(tc_eval(3, all));
  tc_sync_point p;
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  if (*what == 1) return p.n_kernels;
  if (*what == 2) return (double)p.bytes / size;
  for (int i = 0; i < 3; i++) {
    const uint32_t *word = tc_map(all[i]);
    int64_t n = i ? COLUMNS : PARTS * PART_ROWS * COLUMNS;
    uint32_t hash = 1;
    for (int64_t k = 0; k < n && word; k++) hash = hash * 31 + word[k];
    EXPECT(word, "not mapped");
    EXPECT_OK(tc_unmap(all[i]));
    bits = bits * 3 + hash;
  }
  return bits;
}

// x and the gradient above are read once, the norm and x's gradient are written: one kernel, and
// two that add up what the parts left.
static void columns_are_summed_with_their_rows(void) {
  double kernels = in_child(norm_gradients, &(int){1}), moved = in_child(norm_gradients, &(int){2});
  EXPECT(kernels > 0 && kernels <= 3, "%g kernels", kernels);
  EXPECT(moved > 0 && moved < 4.1, "%g times x moved", moved);
  double eager = in_child(norm_gradients, &(int){0}), fused = in_child(norm_gradients, &(int){3});
  EXPECT(eager > 0 && eager == fused, "op by op and in one kernel: %.0f and %.0f", eager, fused);
}

int main(void) {
  peaks();  // first: its processes are forked before this one uses tc
  columns_are_summed_with_their_rows();
  make_operands();
  kernels_and_bytes();
  identities_hold();
  a_slice_is_written_alone();
  softmax_shows_nan();
  return expect_done("planning-fusion");
}
