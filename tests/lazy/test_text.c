// The text form of traces: what is written is read back and written the same, runs by the same plan
// and gives the same bits; what is malformed is refused with its line.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tc/control.h>

#include "lazy/text/text.h"
#include "runtime/options.h"
#include "tests/random/random_graph.h"

static char *captured;  // the last trace that was logged

static void keep_line(const char *line, void *arg) {
  (void)arg;
  if (strncmp(line, "tc[trace] ", 10) != 0) return;
  free(captured);
  captured = strdup(line);
}

static void start(void) {
  setenv("TC_LOG", "trace", 1);
  tc_options_reload();
  tc_set_log(keep_line, NULL);
}

TestSuite(text, .init = start);

static uint64_t last_hash(void) {
  tc_sync_point p;
  return tc_sync_points(1, &p) == 1 ? p.hash : 0;
}

static char *written(const tc_text *x) {
  char *text = NULL;
  size_t bytes;
  FILE *f = open_memstream(&text, &bytes);
  tc_text_write(f, x);
  fclose(f);
  return text;
}

// Reads a logged trace and writes it again: nothing may differ but the log's topic and the last
// newline.
static void expect_same_text(const tc_text *x, const char *logged) {
  static const char topic[] = "tc[trace] ";
  cr_assert_eq(strncmp(logged, topic, strlen(topic)), 0);
  char *again = written(x);
  size_t n = strlen(logged) - strlen(topic);
  cr_assert_eq(strlen(again), n + 1);
  cr_assert_eq(memcmp(again, logged + strlen(topic), n), 0, "%s\nwritten again as\n%s", logged, again);
  free(again);
}

// Runs t, then its trace's text, and compares plan and bits.
static void expect_replay(tc_tensor t) {
  size_t bytes = (size_t)tc_numel(t) * tc_type_bytes(tc_dtype(t));
  char *want = calloc(bytes + 1, 1), *got = calloc(bytes + 1, 1);
  free(captured), captured = NULL;
  cr_assert_eq(tc_to_host(t, want, bytes), TC_OK, "%s", tc_last_error()->message);
  cr_assert_not_null(captured);
  uint64_t hash = last_hash();
  char *logged = strdup(captured);
  const char *at = logged;
  tc_text x;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK, "%s", tc_last_error()->message);
  expect_same_text(&x, logged);
  tc_tensor *out = calloc(x.n + 1, sizeof *out);
  cr_assert_eq(tc_text_run(&x, out), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(last_hash(), hash, "the replay has another plan");
  int n_asked = 0;
  for (uint32_t n = 0; n < x.n; n++) {
    if (x.node[n].flag & TC_NODE_ASKED) {
      n_asked++;
      cr_assert_eq(tc_to_host(out[n], got, bytes), TC_OK, "%s", tc_last_error()->message);
      cr_assert_eq(memcmp(got, want, bytes), 0, "the replay of %%%u has other bits", n);
    }
    tc_release(out[n]);
  }
  cr_assert_eq(n_asked, 1);
  free(out), free(want), free(got), free(logged);
  tc_text_fini(&x);
}

static tc_tensor data(tc_type type, int64_t rows, int64_t cols) {
  tc_seed(3);
  tc_tensor x = tc_cast(tc_mul(tc_randn(TC_SHAPE(rows, cols), TC_F32), 3), type);
  cr_assert_eq(tc_eval(1, &x), TC_OK);
  return x;
}

Test(text, elementwise_work_of_every_type_replays) {
  for (int t = TC_U8; t < TC_N_TYPES; t++) {
    tc_tensor x = data((tc_type)t, 5, 7);
    expect_replay(tc_where(tc_gt(x, 1), tc_add(x, 2), tc_mul(x, x)));
  }
  expect_replay(tc_logical_not(data(TC_BOOL, 3, 3)));
}

Test(text, arguments_keep_their_bits) {
  tc_tensor x = data(TC_F64, 2, 3);
  expect_replay(tc_add(tc_mul(x, 0.1), -0.0));
  expect_replay(tc_add(x, INFINITY));
  expect_replay(tc_mul(x, 1e-300));
  expect_replay(tc_sub(tc_add(data(TC_I64, 2, 2), 4503599627370497), -9223372036854775807));
  expect_replay(tc_pad(x, TC_SHAPE(1, 0), TC_SHAPE(0, 2), 0.5));
  expect_replay(tc_slice(x, 1, 1, 3, 1));
}

Test(text, movement_folds_products_and_random_draws_replay) {
  tc_tensor x = data(TC_F32, 6, 4), y = data(TC_F32, 4, 6);
  expect_replay(tc_softmax(tc_matmul(x, y), 1));
  expect_replay(tc_cat(3, (const tc_tensor[]){x, tc_flip(x, TC_AXES(0)), tc_transpose(y, 0, 1)}, 0));
  expect_replay(tc_sum(tc_cumsum(x, 0), TC_AXES(1), true));
  expect_replay(tc_index_select(x, 0, tc_from_host((const int64_t[]){5, 0, -1}, TC_SHAPE(3), TC_I64)));
  expect_replay(tc_add(tc_rand(TC_SHAPE(6, 4), TC_F32), x));
  expect_replay(tc_sum(tc_reshape(tc_scalar(2), TC_SHAPE(1, 1)), TC_ALL, false));
}

// The sum of the gradients of y by n parameters.
static tc_tensor gradients(tc_tensor y, const tc_tensor *p, int n) {
  tc_tensor g[4], sum = tc_scalar(0);
  cr_assert_eq(tc_grads_of(tc_sum(tc_square(y), TC_ALL, false), p, n, g, 0), TC_OK, "%s", tc_last_error()->message);
  for (int i = 0; i < n; i++) sum = tc_add(sum, tc_sum(g[i], TC_ALL, false));
  return sum;
}

static tc_tensor parameter(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  tc_dims dims = tc_dims_of((size_t)rank, (const int64_t[]){a, b, c, d});
  return tc_param(tc_reshape(data(TC_F32, 1, a * b * c * d), dims));
}

Test(text, layers_and_their_gradients_replay) {
  tc_tensor none = {0, 0}, x = parameter(4, 2, 4, 9, 8), w = parameter(4, 6, 2, 3, 2),
            turned = parameter(4, 4, 3, 3, 2), both[] = {x, w};
  tc_conv_options o = {.stride = TC_SHAPE(2, 1), .padding = TC_SHAPE(1, 0), .dilation = TC_SHAPE(1, 2), .groups = 2};
  expect_replay(gradients(tc_conv2d(x, w, none, o), both, 2));
  tc_conv_options back = {
      .stride = TC_SHAPE(3, 2), .padding = TC_SHAPE(1), .output_padding = TC_SHAPE(2, 1), .groups = 2};
  expect_replay(gradients(tc_conv_transpose2d(x, turned, none, back), (tc_tensor[]){x, turned}, 2));
  tc_pool_options pool = {.stride = TC_SHAPE(2), .padding = TC_SHAPE(1), .ceil_mode = true};
  expect_replay(gradients(tc_max_pool2d(x, TC_SHAPE(3), pool), &x, 1));
  expect_replay(gradients(tc_avg_pool2d(x, TC_SHAPE(2), (tc_pool_options){0}), &x, 1));
  expect_replay(gradients(tc_unfold(tc_reshape(x, TC_SHAPE(8, 72)), 1, 5, 3), &x, 1));
  expect_replay(gradients(tc_layer_norm(x, none, none, 1e-5), &x, 1));
  tc_tensor q = parameter(4, 2, 4, 5, 8), k = parameter(4, 2, 2, 7, 8), v = parameter(4, 2, 2, 7, 3), qkv[] = {q, k, v};
  tc_tensor mask = tc_gt(tc_reshape(data(TC_F32, 5, 7), TC_SHAPE(1, 1, 5, 7)), -2);
  expect_replay(
      gradients(tc_scaled_dot_product_attention(q, k, v, none, (tc_attention_options){.causal = true}), qkv, 3));
  expect_replay(
      gradients(tc_scaled_dot_product_attention(q, k, v, mask, (tc_attention_options){.key_length = 6}), qkv, 3));
}

Test(text, orders_indices_and_windows_replay) {
  tc_tensor x = data(TC_F32, 6, 10), i = tc_from_host((const int64_t[]){5, 0, 3, 3}, TC_SHAPE(4), TC_I64);
  expect_replay(tc_argsort(x, 1, true));
  expect_replay(tc_topk(x, 3, 0, false));
  expect_replay(tc_searchsorted(tc_sort(x, 1, false), x, true));
  expect_replay(tc_gather(x, 0, tc_argsort(x, 0, false)));
  expect_replay(tc_scatter_add(x, 1, tc_argsort(x, 1, false), x));
  expect_replay(tc_index_add(x, 0, i, tc_slice(x, 0, 0, 4, 1)));
  expect_replay(tc_unfold(x, 1, 4, 3));
  expect_replay(tc_add(tc_argmax(x, 1, false), tc_cast(tc_any(tc_gt(x, 2), TC_AXES(1), false), TC_I64)));
  expect_replay(tc_logsumexp(tc_cummax(tc_polygamma(1, tc_add(tc_abs(x), 1)), 0), TC_AXES(1), false));
  expect_replay(tc_matmul(tc_cast(x, TC_BF16), tc_cast(tc_transpose(x, 0, 1), TC_BF16)));
  expect_replay(tc_linear(tc_cast(x, TC_F16), tc_cast(x, TC_F16), tc_cast(tc_select(x, 1, 0), TC_F16)));
  expect_replay(tc_matmul(tc_reshape(x, TC_SHAPE(2, 3, 10)), tc_reshape(x, TC_SHAPE(2, 10, 3))));
  expect_replay(tc_cast(tc_randperm(9), TC_F32));
  expect_replay(tc_add(tc_randint(-3, 9, TC_SHAPE(5), TC_I32), tc_arange(0, 5, 1, TC_I32)));
}

Test(text, training_step_replays_in_place) {
  tc_tensor w = tc_param(data(TC_F32, 4, 3)), x = data(TC_F32, 8, 4);
  tc_optimizer *opt = tc_adam(&w, 1, (tc_adam_options){.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8});
  for (int step = 0; step < 3; step++) {
    tc_scope outer = tc_scope_begin(), inner = tc_scope_begin();
    tc_tensor loss = tc_mean(tc_square(tc_matmul(x, w)), TC_ALL, false);
    cr_assert_eq(tc_backward(loss), TC_OK);
    cr_assert_eq(tc_optimizer_step(opt), TC_OK);
    cr_assert_eq(tc_zero_grad(opt), TC_OK);
    tc_keep(loss);
    tc_scope_end(inner);
    expect_replay(loss);
    tc_scope_end(outer);
  }
  tc_optimizer_destroy(opt);
  tc_release(w);
}

Test(text, random_programs_are_written_the_same_again) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    rg_program p;
    rg_make(&p, seed);
    cr_assert_null(rg_check(&p));
    const char *at = captured;
    tc_text x;
    cr_assert_eq(tc_text_read(&x, &at), TC_OK, "%s", tc_last_error()->message);
    expect_same_text(&x, captured);
    tc_text_fini(&x);
  }
}

Test(text, traces_of_one_log_are_read_in_turn) {
  const char *at =
      "a line of the program's own\ntc[trace] trace one\n%0 = full f32[2] tc:cpu arg 1.5 live asked\nend\ntc[warn] something\n"
      "trace two\n# a remark\n%0 = leaf u8[2] tc:cpu\n%1 = neg u8[2] tc:ref in %0 live @ a file.c:3\ndata %0 01 fe\nend\n";
  tc_text x;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  cr_assert_str_eq(x.title, "one");
  cr_assert_eq(x.n, 1u);
  tc_text_fini(&x);
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  cr_assert_str_eq(x.title, "two");
  cr_assert_str_eq(x.node[1].site, "a file.c:3");
  cr_assert_eq(((const uint8_t *)x.node[0].data)[1], 0xfe);
  tc_text_fini(&x);
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  cr_assert_null(x.title);
  tc_text_fini(&x);
}

Test(text, what_is_malformed_is_refused_with_its_line) {
  static const struct {
    const char *text, *has;
  } bad[] = {
      {"trace t\n%0 = nothing f32[2] tc:cpu\nend\n", "line 2: nothing is no op"},
      {"trace t\n%1 = full f32[2] tc:cpu arg 1.0\nend\n", "line 2"},
      {"trace t\n%0 = full q32[2] tc:cpu arg 1.0\nend\n", "q32[2]"},
      {"trace t\n%0 = full f32[2,-1] tc:cpu arg 1.0\nend\n", "f32[2,-1]"},
      {"trace t\n%0 = full f32[1,1,1,1,1,1,1,1,1] tc:cpu arg 1.0\nend\n", "no type and shape"},
      {"trace t\n%0 = full f32[2] tc:cpu arg 1.0x\nend\n", "1.0x is no number"},
      {"trace t\n%0 = full f32[2] tc:cpu arg ?\nend\n", "not known"},
      {"trace t\n%0 = full f32[2] tc:moon arg 1.0\nend\n", "tc:moon"},
      {"trace t\n%0 = full f32[2] tc:cpu arg 1.0 shiny\nend\n", "shiny"},
      {"trace t\n%0 = neg f32[2] tc:cpu in %0\nend\n", "%0 is no earlier record"},
      {"trace t\n%0 = leaf f32[2] tc:cpu\n%1 = add f32[2] tc:cpu in %0\nend\n", "add has 1 operands"},
      {"trace t\n%0 = leaf f32[2] tc:cpu\ndata %0 00000000\nend\n", "line 3: element 1"},
      {"trace t\n%0 = leaf f32[2] tc:cpu\ndata %1 00000000\nend\n", "no leaf"},
      {"trace t\n%0 = leaf f32[1] tc:cpu\ndata %0 0 0\nend\n", "1 elements only"},
      {"trace t\n%0 = leaf f32[1] tc:cpu\n", "no end"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *at = bad[i].text;
    tc_text x;
    tc_clear_error();
    cr_expect_neq(tc_text_read(&x, &at), TC_OK, "%s", bad[i].text);
    cr_expect(strstr(tc_last_error()->message, bad[i].has) != NULL, "%s says: %s", bad[i].text,
              tc_last_error()->message);
    tc_text_fini(&x);
  }
}

// What an edit may leave: each line is held against its operands before anything runs.
Test(text, a_line_that_does_not_fit_its_operands_is_refused) {
  static const char *const lines[] = {
      "%2 = neg f32[2,4] tc:cpu in %0",
      "%2 = neg i32[2,3] tc:cpu in %0",
      "%2 = add f32[3,2] tc:cpu in %0 %1",
      "%2 = eq f32[2,3] tc:cpu in %0 %0",
      "%2 = where f32[2,3] tc:cpu in %0 %0 %0",
      "%2 = reshape f32[7] tc:cpu in %0",
      "%2 = permute f32[3,2] tc:cpu in %0 attr 99999999999",
      "%2 = permute f32[3,2] tc:cpu in %0",
      "%2 = expand f32[4,3] tc:cpu in %0",
      "%2 = slice f32[2,2] tc:cpu in %0 attr 1 1 arg 0 2",
      "%2 = slice f32[2,2] tc:cpu in %0 attr 1 arg 0 1",
      "%2 = flip f32[2,3] tc:cpu in %0 attr 4",
      "%2 = pad f32[2,9] tc:cpu in %0 attr 0 0 0 1 arg 0",
      "%2 = cat f32[4,4] tc:cpu in %0 %0 attr 0",
      "%2 = window f32[2,3,2] tc:cpu in %0 attr 1 2 1 1",
      "%2 = unwindow f32[5] tc:cpu in %0 attr 0 3 1 1",
      "%2 = sum f32[2] tc:cpu in %0 attr 4",
      "%2 = sum f32[3] tc:cpu in %0 attr 2",
      "%2 = cumsum f32[2,3] tc:cpu in %0 attr 2",
      "%2 = argsort f32[2,3] tc:cpu in %0 attr 1 0",
      "%2 = argtopk i64[2,4] tc:cpu in %0 attr 1 0",
      "%2 = searchsorted i64[3,2] tc:cpu in %0 %1 attr 0",
      "%2 = softmax f32[2,4294967295] tc:cpu in %0 attr 1",
      "%2 = gather f32[2,3] tc:cpu in %0 %1 attr 0",
      "%2 = index_select f32[3,2] tc:cpu in %0 %1 attr 0",
      "%2 = scatter f32[2,3] tc:cpu in %0 %1 %0 attr 5",
      "%2 = matmul f32[90,2] tc:cpu in %0 %1",
      "%2 = matmul f32[2,3] tc:cpu in %0 %0",
      "%2 = conv f32[1,2,3] tc:cpu in %0 %1 attr 1 0 1",
      "%2 = pool f32[2,2] tc:cpu in %0 %1 attr 1 1 0 2 1 0 1",
      "%2 = attention f32[1,1,1,1] tc:cpu in %0 %0 %0 %1 attr 0 0 0",
      "%2 = assign f32[2,3] tc:cpu in %0 %1",
      "%2 = to f32[2,3] tc:cpu in %0 attr 1",
      "%2 = full f32[2] tc:cpu arg 1 2",
      "%2 = randint i64[2] tc:cpu arg 0 0 3 3",
      "%2 = randint u8[2] tc:cpu arg 0 0 3 300",
      "%2 = winograd f32[2,3] tc:cpu in %0 %1 attr 4 1 1 2 2",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char text[400];
    tc_tensor out[3];
    tc_text x;
    snprintf(text, sizeof text,
             "trace t\n%%0 = leaf f32[2,3] tc:cpu\n%%1 = leaf f32[3,2] tc:cpu\n%s live asked\n"
             "data %%0 0 0 0 0 0 0\ndata %%1 0 0 0 0 0 0\nend\n",
             lines[i]);
    const char *at = text;
    tc_clear_error();
    cr_expect_eq(tc_text_read(&x, &at), TC_OK, "%s: %s", lines[i], tc_last_error()->message);
    cr_expect_neq(tc_text_run(&x, out), TC_OK, "%s was run", lines[i]);
    cr_expect_neq(tc_last_error()->status, TC_OK, "%s: no reason", lines[i]);
    tc_text_fini(&x);
    tc_clear_error();
  }
}

Test(text, a_leaf_without_data_is_refused_and_nothing_stays_pending) {
  const char *at = "trace t\n%0 = full f32[2] tc:cpu arg 1.5 live\n%1 = leaf f32[2] tc:cpu live\nend\n";
  tc_tensor out[2];
  tc_text x;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  cr_assert_eq(tc_text_run(&x, out), TC_ERR_ARG);
  cr_assert_eq(out[0].gen, 0u);
  tc_clear_error();
  float v;
  cr_assert_eq(tc_item_f32(tc_add(tc_scalar(1), 2), &v), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(v, 3.0f);
  tc_text_fini(&x);
}

// A gather beyond its operand, recorded at that line.
static void expect_failing_at(const char *site, const char *where) {
  char text[400];
  snprintf(text, sizeof text,
           "trace t\n%%0 = leaf f32[3] tc:cpu live\n%%1 = leaf i64[1] tc:cpu live\n"
           "%%2 = gather f32[1] tc:cpu in %%0 %%1 attr 0 live asked%s\n"
           "data %%0 3f800000 3f800000 3f800000\ndata %%1 0000000000000009\nend\n",
           site);
  const char *at = text;
  tc_tensor out[3];
  tc_text x;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_text_run(&x, out), TC_ERR_INDEX);
  tc_text_fini(&x);  // the site outlives the text
  cr_expect_str_eq(tc_last_error()->op, "gather");
  cr_expect_str_eq(tc_last_error()->site, where);
  tc_clear_error();
}

Test(text, an_error_of_a_replay_names_the_op_and_its_line_or_number) {
  expect_failing_at(" @ lost.c:7", "lost.c:7");
  expect_failing_at("", "%2");
  cr_expect_eq(tc_text_site("lost.c:7"), tc_text_site("lost.c:7"));
  cr_expect_neq(tc_text_site("lost.c:7"), tc_text_site("lost.c:8"));
}

Test(text, the_plan_of_a_text_is_that_of_its_run_and_nothing_runs) {
  const char *at =
      "trace t\n%0 = leaf f32[2] tc:cpu sole\n%1 = exp f32[2] tc:cpu in %0 live asked\ndata %0 0 3f800000\nend\n";
  tc_tensor out[2];
  tc_text x;
  tc_plan *plan;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  cr_assert_eq(tc_text_plan(&x, &plan), TC_OK, "%s", tc_last_error()->message);
  tc_sync_point p;
  cr_expect_eq(tc_sync_points(1, &p), 0, "something ran");
  cr_assert_eq(tc_text_run(&x, out), TC_OK);
  cr_expect_eq(plan->hash.lo, last_hash());
  cr_expect(plan->n_node == 2 && plan->n_out == 1 && !plan->program);
  tc_plan_release(plan);
  tc_release(out[1]);
  tc_text_fini(&x);
}

// ---- control flow ----

static tc_status halves(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_mul(in[0], *(const tc_tensor *)user);
  return TC_OK;
}

static tc_status draws(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_add(in[0], tc_rand_like(in[0]));
  return TC_OK;
}

static tc_status branches(void *user, const tc_tensor *in, tc_tensor *out) {
  tc_status st = tc_cond(tc_gt(tc_sum(in[0], TC_ALL, false), 1), halves, draws, user, in, 1, out, 1);
  out[1] = tc_add(out[0], in[1]);
  return st;
}

Test(text, bodies_of_control_flow_are_written_and_replayed) {
  tc_tensor half = tc_full(TC_SHAPE(3), 0.5, TC_F32), xs = tc_arange(0, 15, 1, TC_F32),
            h = tc_zeros(TC_SHAPE(3), TC_F32), out[2];
  tc_tensor rows = tc_reshape(xs, TC_SHAPE(5, 3));
  cr_assert_eq(tc_scan(branches, &half, &h, 1, &rows, 1, out, 1, NULL), TC_OK, "%s", tc_last_error()->message);
  expect_replay(out[1]);
}

Test(text, a_body_that_was_changed_or_does_not_fit_is_refused) {
  static const struct {
    const char *text, *has;
  } bad[] = {
      {"trace t\nbody 12 draws 0\n%0 = leaf f32[2] tc:cpu\n%1 = neg f32[2] tc:cpu in %0\ngives %1\nend\n",
       "was changed"},
      {"trace t\nbody 12 draws 0\n%0 = leaf f32[2] tc:cpu\n%1 = neg f32[3] tc:cpu in %0\ngives %1\nend\n",
       "does not fit"},
      {"trace t\n%0 = leaf u8[64] tc:cpu\ndata %0 0\n%1 = tuple_element f32[2] tc:cpu in %0 attr 64 0\nend\n", ""},
      {"trace t\n%0 = full f32[2] tc:cpu arg 1.0\n%1 = control u8[64] tc:cpu in %0 attr 0 0 1 0 77 asked\nend\n",
       "does not fit"},
      {"trace t\n%0 = full u8[64] tc:cpu arg 1\n%1 = tuple_element f32[2] tc:cpu in %0 attr 64 0 asked\nend\n",
       "does not fit"},
      {"trace t\ngives %1\nend\n", "no body"},
      {"trace t\nbody 12\nend\n", "draws N"},
      {"trace t\nbody 12 draws 0\n%0 = leaf f32[2] tc:cpu\nend\n", "end is not understood"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *at = bad[i].text;
    tc_text x;
    tc_tensor out[8];
    tc_clear_error();
    tc_status st = tc_text_read(&x, &at);
    if (st == TC_OK) st = tc_text_run(&x, out);
    cr_expect_neq(st, TC_OK, "%s", bad[i].text);
    cr_expect(strstr(tc_last_error()->message, bad[i].has) != NULL, "%s says: %s", bad[i].text,
              tc_last_error()->message);
    tc_text_fini(&x);
  }
}
