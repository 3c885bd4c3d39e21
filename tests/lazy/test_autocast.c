// Autocast: which values are cast, once a step; nesting, devices, gradients; what it refuses. Types
// op by op and losses are against PyTorch in tests/numerics/autocast.c.
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <tc/compile.h>
#include <tc/control.h>

#include "lazy/record/autocast.h"
#include "lazy/trace/context.h"

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
#define FAILS(call, code, words) \
  do { \
    tc_clear_error(); \
    cr_expect_eq((call), (code)); \
    cr_expect(strstr(tc_last_error()->message, words), "%s", tc_last_error()->message); \
    cr_expect(strstr(tc_last_error()->message, __FILE__ ":"), "%s", tc_last_error()->message); \
    tc_clear_error(); \
  } while (0)
#define TYPE(x, type) cr_expect_eq(tc_dtype(x), (type), "is %s", tc_type_name(tc_dtype(x)))

static const tc_tensor none = {0, 0};

static tc_tensor ones(int64_t n, int64_t m) {
  return tc_ones(TC_SHAPE(n, m), TC_F32);
}

// Records of an op in what is pending.
static int count(tc_op op) {
  int n = 0;
  for (uint32_t i = 0; i < tc_trace_mine->n_node; i++) n += tc_rec_op(tc_rec_of(tc_trace_mine, i)) == op;
  return n;
}

Test(autocast, products_run_in_the_type_and_sums_in_f32) {
  tc_tensor x = ones(4, 4), i = tc_ones(TC_SHAPE(4, 4), TC_I32), d = tc_cast(x, TC_F64);
  TYPE(tc_matmul(x, x), TC_F32);
  OK(tc_autocast_begin(TC_BF16));
  tc_tensor y = tc_matmul(x, x);
  TYPE(y, TC_BF16);
  TYPE(tc_add(y, y), TC_BF16);
  TYPE(tc_add(y, x), TC_F32);
  TYPE(tc_sum(y, TC_ALL, false), TC_F32);
  TYPE(tc_softmax(y, 1), TC_F32);
  TYPE(tc_matmul(i, i), TC_I32);
  TYPE(tc_matmul(d, d), TC_F64);
  TYPE(tc_exp(d), TC_F64);
  TYPE(tc_einsum("ij,jk->ik", 2, (tc_tensor[]){x, x}), TC_BF16);
  OK(tc_autocast_end());
  TYPE(tc_matmul(x, x), TC_F32);
}

Test(autocast, nested_calls_count_from_the_inside) {
  tc_tensor x = ones(4, 4);
  cr_expect_eq(tc_autocast_type(NULL), TC_N_TYPES);
  OK(tc_autocast_begin(TC_BF16));
  OK(tc_autocast_begin(TC_F16));
  TYPE(tc_matmul(x, x), TC_F16);
  cr_expect_eq(tc_autocast_type(NULL), TC_F16);
  TYPE(tc_matmul(tc_cast(x, TC_BF16), x), TC_F16);
  OK(tc_autocast_begin_with((tc_autocast_options){.disabled = true}));
  TYPE(tc_matmul(x, x), TC_F32);
  OK(tc_autocast_end());
  TYPE(tc_matmul(x, x), TC_F16);
  OK(tc_autocast_end());
  TYPE(tc_matmul(x, x), TC_BF16);
  cr_expect_eq(tc_autocast_type("tc:cuda"), TC_BF16);
  OK(tc_autocast_end());
  cr_expect_eq(tc_autocast_type("tc:cuda"), TC_N_TYPES);
}

Test(autocast, is_for_the_kinds_of_device_that_it_names) {
  OK(tc_set_default_device("tc:cpu"));
  tc_tensor x = ones(4, 4);
  OK(tc_autocast_begin_with((tc_autocast_options){.type = TC_F16, .device = "tc:cuda"}));
  TYPE(tc_matmul(x, x), TC_F32);
  cr_expect_eq(tc_autocast_type("tc:cuda"), TC_F16);
  cr_expect_eq(tc_autocast_type("tc:cpu"), TC_N_TYPES);
  OK(tc_autocast_begin_with((tc_autocast_options){0}));
  cr_expect_eq(tc_autocast_type("tc:cpu"), TC_BF16);
  cr_expect_eq(tc_autocast_type("tc:hip"), TC_F16);
  TYPE(tc_matmul(x, x), TC_BF16);
  OK(tc_autocast_end());
  OK(tc_autocast_end());
}

Test(autocast, scatter_add_promotes) {
  tc_tensor x = tc_zeros(TC_SHAPE(3), TC_F32), src = tc_ones(TC_SHAPE(3), TC_BF16), at = tc_zeros(TC_SHAPE(3), TC_I64);
  OK(tc_autocast_begin(TC_BF16));
  tc_tensor y = tc_scatter_add(x, 0, at, src);
  TYPE(y, TC_F32);
  TYPE(tc_atan2(src, tc_scalar(1)), TC_F32);
  OK(tc_autocast_end());
  float got[3];
  OK(tc_to_host(y, got, sizeof got));
  cr_expect_eq(got[0], 3);
}

Test(autocast, casts_a_parameter_once_a_step) {
  tc_tensor w = tc_param(ones(4, 4)), x = ones(2, 4);
  OK(tc_eval(2, (tc_tensor[]){w, x}));
  OK(tc_autocast_begin(TC_BF16));
  tc_tensor y = tc_linear(tc_relu(tc_linear(x, w, none)), w, none);
  cr_expect_eq(count(TC_OP_CAST), 2, "%d casts, of x and of w", count(TC_OP_CAST));
  OK(tc_assign(w, ones(4, 4)));
  y = tc_linear(y, w, none);
  cr_expect_eq(count(TC_OP_CAST), 3, "%d casts: the next value has its own", count(TC_OP_CAST));
  OK(tc_autocast_end());
  OK(tc_eval(1, &y));
  tc_release(w);
}

Test(autocast, gives_parameters_gradients_of_their_type) {
  tc_tensor w = tc_param(tc_full(TC_SHAPE(4, 4), 0.3, TC_F32)), x = ones(2, 4);
  OK(tc_autocast_begin(TC_BF16));
  tc_tensor loss = tc_sum(tc_linear(x, w, none), TC_ALL, false);
  OK(tc_autocast_end());
  TYPE(loss, TC_F32);
  OK(tc_backward(loss));
  TYPE(tc_grad(w), TC_F32);
  float got[16];
  OK(tc_to_host(tc_grad(w), got, sizeof got));
  for (int i = 0; i < 16; i++) cr_expect_eq(got[i], 2);
  tc_release(w);
}

// PyTorch's cache once lost gradients so: what was cast without history was used with one.
Test(autocast, a_cast_without_history_is_not_used_with_one) {
  tc_tensor w = tc_param(ones(4, 4)), x = ones(2, 4);
  OK(tc_autocast_begin(TC_BF16));
  tc_no_grad_begin();
  tc_tensor first = tc_linear(x, w, none);
  tc_no_grad_end();
  tc_tensor loss = tc_sum(tc_mul(tc_linear(x, w, none), first), TC_ALL, false);
  OK(tc_backward(loss));
  cr_assert(tc_grad(w).gen);
  loss = tc_sum(tc_linear(x, w, none), TC_ALL, false);  // whose cast is another: a backward has freed the first
  OK(tc_backward(loss));
  float got[16];
  OK(tc_to_host(tc_grad(w), got, sizeof got));
  for (int i = 0; i < 16; i++) cr_expect_eq(got[i], 10);
  OK(tc_autocast_end());
  tc_release(w);
}

Test(autocast, casts_nothing_in_a_backward_and_a_step) {
  tc_tensor w = tc_param(ones(4, 4)), x = ones(2, 4);
  tc_optimizer *opt = tc_adam(&w, 1, (tc_adam_options){0});
  OK(tc_autocast_begin(TC_BF16));
  tc_tensor loss = tc_sum(tc_mul(w, w), TC_ALL, false);  // f32 throughout
  tc_tensor y = tc_linear(x, w, none);
  int before = count(TC_OP_CAST);
  OK(tc_backward(loss));
  OK(tc_optimizer_step(opt));
  cr_expect_eq(count(TC_OP_CAST), before);
  OK(tc_autocast_end());
  OK(tc_eval(1, &y));
  tc_optimizer_destroy(opt);
  tc_release(w);
}

// As of a BERT's layers at inference: after the first run no run casts the weights.
Test(autocast, weights_are_cast_in_the_first_run_alone) {
  tc_tensor w[2] = {tc_param(tc_full(TC_SHAPE(256, 256), 0.01, TC_F32)), tc_param(ones(256, 256))}, x = ones(64, 256);
  OK(tc_eval(2, w));
  OK(tc_eval(1, &x));
  uint64_t bytes[3];
  tc_no_grad_begin();
  for (int run = 0; run < 3; run++) {
    tc_scope scope = tc_scope_begin();
    OK(tc_autocast_begin(TC_BF16));
    tc_tensor y = tc_linear(tc_relu(tc_linear(x, w[0], none)), w[1], none);
    OK(tc_autocast_end());
    OK(tc_eval(1, &y));
    tc_sync_point last;
    cr_assert_eq(tc_sync_points(1, &last), 1);
    bytes[run] = last.bytes;
    cr_expect(tc_memory_stats().prepared_bytes >= 2 * 256 * 256 * 2, "%zu", tc_memory_stats().prepared_bytes);
    tc_scope_end(scope);
  }
  tc_no_grad_end();
  // x in f32, two layers of 64 x 256 in bf16, and the weights as they were prepared
  cr_expect(bytes[2] <= 2 * 256 * 256 * 2 + 64 * 256 * (4 + 6 * 2), "%llu", (unsigned long long)bytes[2]);
  for (int i = 0; i < 2; i++) tc_release(w[i]);
}

Test(autocast, context_tells_what_casts_would_be_recorded) {
  (void)tc_scalar(0);
  const tc_trace *t = tc_trace_mine;
  uint64_t plain = tc_record_context(t);
  OK(tc_autocast_begin(TC_BF16));
  uint64_t bf16 = tc_record_context(t);
  OK(tc_autocast_begin(TC_F16));
  cr_expect(tc_record_context(t) != bf16 && bf16 != plain);
  OK(tc_autocast_end());
  cr_expect_eq(tc_record_context(t), bf16);
  OK(tc_autocast_end());
  cr_expect_eq(tc_record_context(t), plain);
}

static tc_status linear_twice(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const tc_tensor *w = user;
  (void)n_in, (void)n_out;
  out[0] = tc_linear(tc_linear(in[0], *w, none), *w, none);
  return TC_OK;
}

static tc_status linear_in_bf16(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  tc_status st = tc_autocast_begin(TC_BF16);
  if (st == TC_OK) st = linear_twice(user, in, n_in, out, n_out);
  return tc_autocast_end() == TC_OK ? st : TC_ERR_STATE;
}

static tc_status linear_that_begins(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)tc_autocast_begin(TC_BF16);
  return linear_twice(user, in, n_in, out, n_out);
}

// A weight that was cast before a body is cast again in it: its graph takes the weight, not the cast.
Test(autocast, compiled_functions_have_a_graph_for_each_context) {
  tc_tensor w = tc_param(ones(4, 4)), x = ones(2, 4), y;
  tc_compiled *plain = tc_compile(linear_twice, &w, &(tc_compile_options){.fullgraph = true});
  tc_compiled *own = tc_compile(linear_in_bf16, &w, &(tc_compile_options){.fullgraph = true});
  tc_compiled *begins = tc_compile(linear_that_begins, &w, NULL);
  for (int i = 0; i < 3; i++) {
    OK(tc_compiled_call(plain, &x, 1, &y, 1));
    TYPE(y, TC_F32);
    OK(tc_compiled_call(own, &x, 1, &y, 1));
    TYPE(y, TC_BF16);
    OK(tc_autocast_begin(TC_F16));
    (void)tc_linear(x, w, none);
    OK(tc_compiled_call(plain, &x, 1, &y, 1));
    TYPE(y, TC_F16);
    OK(tc_autocast_end());
    OK(tc_backward(tc_sum(y, TC_ALL, false)));
    TYPE(tc_grad(w), TC_F32);
    OK(tc_zero_grad_of(1, &w));
    OK(tc_compiled_call(begins, &x, 1, &y, 1));
    OK(tc_autocast_end());
  }
  cr_expect_eq(tc_compiled_stats(plain).n_graphs, 2, "%d", tc_compiled_stats(plain).n_graphs);
  cr_expect_eq(tc_compiled_stats(own).n_graphs, 1);
  cr_expect_eq(tc_compiled_stats(begins).n_graphs, 0);
  cr_expect(strstr(tc_compiled_stats(begins).why_recorded, "that it leaves set"), "%s",
            tc_compiled_stats(begins).why_recorded);
  tc_compiled_destroy(plain);
  tc_compiled_destroy(own);
  tc_compiled_destroy(begins);
  tc_release(w);
}

static tc_status residual(void *user, const tc_tensor *in, tc_tensor *out) {
  const tc_tensor *w = user;
  out[0] = tc_add(in[0], tc_linear(in[0], *w, none));
  return TC_OK;
}

// A loop and a recomputed region under autocast: values and gradients of the steps written out.
Test(autocast, bodies_of_control_flow_are_cast_as_if_written_out) {
  float got[3][16], grad[3][16];
  for (int way = 0; way < 3; way++) {
    tc_tensor w = tc_param(tc_full(TC_SHAPE(4, 4), 0.3, TC_F32)), x = tc_full(TC_SHAPE(4, 4), 0.7, TC_F32);
    OK(tc_autocast_begin(TC_BF16));
    tc_tensor y = tc_linear(x, w, none);  // whose cast of w no body may refer to
    x = tc_add(x, tc_mul(y, 0));
    if (way == 1) {
      OK(tc_scan(residual, &w, &x, 1, NULL, 0, &x, 0, &(tc_scan_options){.length = 3}));
    } else {
      for (int i = 0; i < 3; i++) {
        tc_tensor before = x;
        if (way == 0)
          OK(residual(&w, &before, &x));
        else
          OK(tc_checkpoint(residual, &w, &before, 1, &x, 1));
      }
    }
    OK(tc_autocast_end());
    TYPE(x, TC_F32);
    OK(tc_backward(tc_sum(x, TC_ALL, false)));
    OK(tc_to_host(x, got[way], sizeof got[way]));
    OK(tc_to_host(tc_grad(w), grad[way], sizeof grad[way]));
    tc_release(w);
  }
  for (int way = 1; way < 3; way++)
    for (int i = 0; i < 16; i++) {
      cr_expect_eq(got[way][i], got[0][i], "%d: %g, %g", way, got[way][i], got[0][i]);
      cr_expect(grad[way][i] > 0.99f * grad[0][i] && grad[way][i] < 1.01f * grad[0][i], "%d: %g, %g", way, grad[way][i],
                grad[0][i]);
    }
}

static void *begin_and_leave(void *arg) {
  tc_tensor x = ones(4, 4);
  *(tc_type *)arg = tc_dtype(tc_matmul(x, x));
  (void)tc_autocast_begin(TC_F16);
  return NULL;
}

// A thread that ends with autocast open leaves nothing of it to the next.
Test(autocast, each_thread_has_its_own) {
  OK(tc_autocast_begin(TC_BF16));
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    tc_type type = TC_N_TYPES;
    cr_assert_eq(pthread_create(&thread, NULL, begin_and_leave, &type), 0);
    pthread_join(thread, NULL);
    cr_expect_eq(type, TC_F32, "%d: %s", i, tc_type_name(type));
  }
  cr_expect_eq(tc_autocast_type(NULL), TC_BF16);
  OK(tc_autocast_end());
}

Test(autocast, wrong_calls_say_what_to_do) {
  tc_tensor x = ones(4, 4);
  FAILS(tc_autocast_end(), TC_ERR_STATE, "a tc_autocast_begin is missing");
  OK(tc_autocast_begin(TC_F16));
  FAILS(tc_autocast_begin(TC_I32), TC_ERR_DTYPE, "autocast to i32; bf16 or f16 was expected");
  TYPE(tc_matmul(x, x), TC_F16);
  OK(tc_autocast_end());  // of the one that failed
  TYPE(tc_matmul(x, x), TC_F16);
  FAILS(tc_autocast_begin(TC_BOOL), TC_ERR_DTYPE, "autocast to bool");
  OK(tc_autocast_end());
  FAILS(tc_autocast_begin_with((tc_autocast_options){.device = "cuda:7"}), TC_ERR_ARG, "device is 'cuda:7'");
  OK(tc_autocast_end());
  OK(tc_autocast_end());
  for (int i = 0; i < TC_MAX_AUTOCASTS; i++) OK(tc_autocast_begin(TC_BF16));
  FAILS(tc_autocast_begin(TC_BF16), TC_ERR_STATE, "a tc_autocast_end is missing");
  for (int i = 0; i <= TC_MAX_AUTOCASTS; i++) OK(tc_autocast_end());
  FAILS(tc_autocast_end(), TC_ERR_STATE, "no autocast is open");
}

Test(autocast, an_error_that_nobody_looks_at_is_told_by_the_sync) {
  (void)tc_autocast_begin(TC_I64);
  (void)tc_autocast_end();
  tc_tensor x = ones(2, 2);
  cr_expect_eq(tc_eval(1, &x), TC_ERR_DTYPE);
  tc_clear_error();
  OK(tc_eval(1, &x));
}
