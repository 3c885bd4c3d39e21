// Matrix products of tensors by a GPU vendor's library, simulated (cuBLASLt, or what
// TC_TEST_LIBRARY names): the same values as generated ones, whatever lies where and follows;
// replayed; who makes them by rule and by measurement, which other processes find again; what is
// absent or fails. The program runs itself for what another process must see.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "lowering/autotune/library_gemm.h"
#include "runtime/autotune_log.h"
#include "runtime/profile.h"
#include "tests/gpu/library.h"

// A library, by TC_TEST_LIBRARY: its name, and the device that is simulated for it.
static const struct face {
  const char *name, *device, *gfx, *driver;
  const char *variable, *library, *version;  // version: another one of the simulator's
  const char *product;  // the call that makes one
  bool bias;  // it adds one
  int n;  // algorithms
  const char *making[4], *running, *refused;  // calls that fail
} faces[] = {
#define HIPBLASLT \
  "TC_HIPBLASLT_LIBRARY", "libsim-hipblaslt.so", "TC_SIM_HIPBLASLT=1.1.0", "hipblasLtMatmul", true, 4, \
      {"hipblasLtMatmulAlgoGetHeuristic:*=6", "hipblasLtMatmulAlgoGetHeuristic:*=7", \
       "hipblasLtMatmulPreferenceCreate:*=2", "hipblasLtMatmulDescCreate:*=2"}, \
      "hipblasLtMatmul:*=5", "HIPBLAS_STATUS_EXECUTION_FAILED"
#define ROCBLAS \
  "TC_ROCBLAS_LIBRARY", "libsim-rocblas.so", "TC_SIM_ROCBLAS=4.3.0", "rocblas_gemm_strided_batched_ex", false, 5, \
      {"rocblas_gemm_strided_batched_ex_get_solutions:*=6", "rocblas_gemm_strided_batched_ex_get_solutions:*=5"}, \
      "rocblas_gemm_strided_batched_ex:*=6", "rocblas_status_internal_error"
    {"cublaslt",
     "tc:cuda",
     "",
     "libsim-cuda.so",
     "TC_CUBLASLT_LIBRARY",
     "libsim-cublaslt.so",
     "TC_SIM_CUBLASLT=13.2.0",
     "cublasLtMatmul",
     true,
     4,
     {"cublasLtMatmulAlgoGetHeuristic:*=14", "cublasLtMatmulAlgoGetHeuristic:*=15", "cublasLtMatmulAlgoCheck:*=15",
      "cublasLtMatmulDescCreate:*=3"},
     "cublasLtMatmul:*=13",
     "CUBLAS_STATUS_EXECUTION_FAILED"},
    {"hipblaslt64", "tc:hip", "gfx90a", "libsim-hip.so", HIPBLASLT},
    {"hipblaslt32", "tc:hip", "gfx1100", "libsim-hip.so", HIPBLASLT},
    {"rocblas64", "tc:hip", "gfx906", "libsim-hip.so", ROCBLAS},
    {"rocblas32", "tc:hip", "gfx1030", "libsim-hip.so", ROCBLAS},
};
static const struct face *on = faces;

// ---- products: of small whole numbers, whose sums are exact. What numbers() makes runs at once,
// with all that is pending ----

static tc_tensor numbers(tc_dims d, tc_type type) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  float *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = (float)((int)(i * 2654435761u >> 7 & 3) - 1);
  tc_tensor t = tc_cast(tc_from_host(v, d, TC_F32), type);
  EXPECT_OK(tc_eval(1, &t));
  free(v);
  return t;
}

#define N(type, ...) numbers(TC_SHAPE(__VA_ARGS__), type)

// What follows a product that nobody asks for any more.
static tc_tensor then(tc_tensor product, tc_tensor result) {
  tc_release(product);
  return result;
}

static tc_tensor straight(void) {
  return tc_matmul(N(TC_F32, 5, 9), N(TC_F32, 9, 7));
}
static tc_tensor left_transposed(void) {
  return tc_matmul(tc_transpose(N(TC_F16, 9, 5), 0, 1), N(TC_F16, 9, 7));
}
static tc_tensor right_transposed(void) {
  return tc_matmul(N(TC_BF16, 5, 9), tc_transpose(N(TC_BF16, 7, 9), 0, 1));
}
static tc_tensor batches(void) {
  return tc_matmul(N(TC_F32, 3, 5, 9), tc_transpose(N(TC_F32, 3, 7, 9), 1, 2));
}
static tc_tensor one_for_all(void) {
  return tc_matmul(N(TC_BF16, 3, 2, 5, 9), N(TC_BF16, 9, 7));
}
static tc_tensor heads(void) {  // [n, l, h, e] as [n, h, l, e]: no one stride over both of the outer axes
  tc_tensor q = tc_permute(N(TC_F16, 2, 5, 3, 8), TC_SHAPE(0, 2, 1, 3)),
            k = tc_permute(N(TC_F16, 2, 6, 3, 8), TC_SHAPE(0, 2, 3, 1));
  return tc_matmul(q, k);
}
static tc_tensor columns_of_more(void) {
  return tc_matmul(tc_slice(N(TC_F32, 5, 12), 1, 2, 11, 1), tc_slice(N(TC_F32, 11, 7), 0, 2, 11, 1));
}
static tc_tensor a_row(void) {
  return tc_matmul(N(TC_F32, 1, 40), N(TC_F32, 40, 24));
}
static tc_tensor a_column(void) {
  return tc_matmul(N(TC_F32, 24, 40), N(TC_F32, 40, 1));
}
static tc_tensor bias(void) {
  tc_tensor a = N(TC_F32, 5, 9), b = N(TC_F32, 9, 7), c = N(TC_F32, 7), p = tc_matmul(a, b);
  return then(p, tc_add(p, c));
}
static tc_tensor half_bias(void) {
  tc_tensor a = N(TC_F16, 5, 9), b = N(TC_F16, 9, 7), c = N(TC_F16, 7), p = tc_matmul(a, b);
  return then(p, tc_add(p, c));
}
static tc_tensor bias_of_rows(void) {
  tc_tensor a = N(TC_F32, 5, 9), b = N(TC_F32, 9, 7), c = N(TC_F32, 5, 1);
  return tc_add(tc_matmul(a, b), c);
}
static tc_tensor layer(void) {
  tc_tensor a = N(TC_F32, 5, 9), b = N(TC_F32, 9, 7), c = N(TC_F32, 7), p = tc_matmul(a, b), q = tc_add(p, c);
  return then(p, then(q, tc_relu(q)));
}
static tc_tensor layers(void) {
  tc_tensor a = N(TC_F32, 5, 9), b = N(TC_F32, 9, 8), c = N(TC_F32, 8, 6);
  return tc_matmul(tc_relu(tc_matmul(a, b)), c);
}
static tc_tensor cast_operand(void) {
  return tc_matmul(tc_cast(N(TC_BF16, 5, 9), TC_F32), N(TC_F32, 9, 7));
}
static tc_tensor whole_numbers(void) {
  return tc_matmul(N(TC_I32, 5, 9), N(TC_I32, 9, 7));
}
static tc_tensor windows(void) {
  return tc_conv2d(N(TC_F32, 1, 2, 6, 6), N(TC_F32, 4, 2, 3, 3), (tc_tensor){0, 0},
                   (tc_conv_options){.padding = TC_SHAPE(1, 1)});
}

static const struct row {
  const char *name;
  tc_tensor (*make)(void);
  int products, kernels;  // of the library; with what is generated beside them. kernels -1: not looked at
} rows[] = {
    {"straight", straight, 1, 1},
    {"left transposed, f16", left_transposed, 1, 1},
    {"right transposed, bf16", right_transposed, 1, 1},
    {"batches", batches, 1, 1},
    {"one right operand for all, bf16", one_for_all, 1, 1},
    {"heads, f16", heads, 0, 1},
    {"columns from a place that an argument says", columns_of_more, 0, 1},
    {"a row", a_row, 1, 1},
    {"a column", a_column, 1, 1},
    {"bias", bias, 1, 1},
    {"bias, f16", half_bias, 1, 2},
    {"a bias of rows", bias_of_rows, 1, 2},
    {"bias and relu", layer, 1, 2},
    {"two layers", layers, 2, 3},
    {"a cast operand", cast_operand, 1, 2},
    {"whole numbers", whole_numbers, 0, 1},
    {"windows", windows, 0, -1},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], MOST = 4096 };

// The row's values on the processor and on the device: how many differ.
static int compare(const struct row *r, int *kernels) {
  static float want[MOST], got[MOST];
  tc_scope s = tc_scope_begin();
  tc_sync_point point;
  int wrong = 0;
  EXPECT_OK(tc_push_device("tc:cpu"));
  int64_t n = expect_floats(r->make(), want, MOST);
  EXPECT_OK(tc_pop_device());
  tc_tensor t = r->make();
  EXPECT_OK(tc_eval(1, &t));
  *kernels = tc_sync_points(1, &point) == 1 ? (int)point.n_kernels : -1;
  (void)expect_floats(t, got, MOST);
  for (int64_t i = 0; i < n; i++) wrong += !(fabsf(got[i] - want[i]) <= 1e-5f * fabsf(want[i]));
  tc_scope_end(s);
  return wrong;
}

static void test_values(const char *algorithm, int times) {
  setenv("TC_SIM_ALGORITHM", algorithm, 1);
  set("TC_GPU_LIBRARIES", "always");
  for (int i = 0; i < N_ROWS; i++) {
    const struct row *r = &rows[i];
    for (int time = 0; time < times; time++) {
      uint64_t before = calls(on->product);
      int kernels, wrong = compare(r, &kernels), products = (int)(calls(on->product) - before);
      EXPECT(wrong == 0, "%s, algorithm %s, time %d: %d values", r->name, algorithm, time, wrong);
      if (time == 0) EXPECT(products == r->products, "%s: %d products by the library", r->name, products);
      int expected = r->kernels + (r->make == bias && !on->bias);
      if (time == 0 && r->kernels >= 0) EXPECT(kernels == expected, "%s: %d kernels", r->name, kernels);
    }
  }
}

// Ten steps of one plan, whose operands stay: the library is asked as long as addresses are new,
// then the graph is launched.
static void test_replay(void) {
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_retain(N(TC_F32, 16, 32)), w = tc_retain(N(TC_F32, 32, 16)), b = tc_retain(N(TC_F32, 16));
  uint64_t asked = calls(on->product), last = 0;
  float first = 0;
  for (int i = 0; i < 10; i++) {
    tc_scope step = tc_scope_begin();
    float v = 0;
    EXPECT_OK(tc_item_f32(tc_sum(tc_gelu(tc_add(tc_matmul(x, w), b)), TC_ALL, false), &v));
    if (i == 0) first = v;
    EXPECT(v == first, "step %d: %g, %g", i, v, first);
    if (i == 5) last = calls(on->product);
    tc_scope_end(step);
  }
  EXPECT(last > asked && calls(on->product) == last, "asked %d times, then %d", (int)(last - asked),
         (int)(calls(on->product) - last));
  tc_release(x), tc_release(w), tc_release(b);
  tc_scope_end(s);
}

// Steps whose operand and result are elsewhere each time, all kept: a graph copies them, and says
// so. The weight stays.
static void test_ever_new_addresses(void) {
  enum { STEPS = 12, PLAIN = 4 };
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_retain(N(TC_F32, 9, 7)), x[STEPS], y[STEPS];
  float data[5 * 9], weight[9 * 7], got[5 * 7];
  const uint64_t moved = (5 * 9 + 5 * 7) * sizeof(float);
  uint64_t asked = 0;
  for (int i = 0; i < STEPS; i++) {
    tc_scope step = tc_scope_begin();
    for (int k = 0; k < 5 * 9; k++) data[k] = (float)(k % 7 + i);
    x[i] = tc_retain(tc_from_host(data, TC_SHAPE(5, 9), TC_F32));
    y[i] = tc_retain(tc_matmul(x[i], w));
    EXPECT_OK(tc_eval(1, &y[i]));
    tc_sync_point point = {0};
    EXPECT(tc_sync_points(1, &point) == 1 && point.replayed == (i >= PLAIN), "step %d: %s", i,
           point.gpu_note ? point.gpu_note : "");
    EXPECT(point.copied_bytes == (i < PLAIN ? 0 : moved), "step %d: %d bytes", i, (int)point.copied_bytes);
    EXPECT(i < PLAIN || (point.gpu_note && strstr(point.gpu_note, "ever other addresses, and are copied")),
           "step %d: %s", i, point.gpu_note);
    if (i == PLAIN) asked = calls(on->product);
    tc_scope_end(step);
  }
  EXPECT(calls(on->product) == asked, "%d products are asked for plainly", (int)(calls(on->product) - asked));
  EXPECT_OK(tc_to_host(w, weight, sizeof weight));
  for (int i = 0; i < STEPS; i++) {
    EXPECT_OK(tc_to_host(y[i], got, sizeof got));
    for (int k = 0; k < 5 * 7; k++) {
      float sum = 0;
      for (int j = 0; j < 9; j++) sum += (float)((k / 7 * 9 + j) % 7 + i) * weight[j * 7 + k % 7];
      EXPECT(got[k] == sum, "step %d: %g, not %g", i, got[k], sum);
    }
    tc_release(x[i]), tc_release(y[i]);
  }
  tc_release(w);
  tc_scope_end(s);
}

// The same behind a check of indices that fails in one step: told, and the next steps are right.
static void test_bad_index_and_copies(void) {
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  tc_tensor table = tc_retain(N(TC_F32, 4, 9)), w[12], y[12];
  float first[5 * 7], got[5 * 7];
  for (int i = 0; i < 12; i++) {
    const int64_t at[] = {0, i == 8 ? 7 : 3, 1, 2, 0};
    tc_scope step = tc_scope_begin();
    w[i] = tc_retain(N(TC_F32, 9, 7));
    y[i] = tc_retain(tc_matmul(tc_index_select(table, 0, tc_from_host(at, TC_SHAPE(5), TC_I64)), w[i]));
    tc_status st = tc_eval(1, &y[i]);
    EXPECT(st == (i == 8 ? TC_ERR_INDEX : TC_OK), "step %d: %s", i, tc_last_error()->message);
    tc_clear_error();
    if (i == 11) {
      tc_sync_point point = {0};
      EXPECT(tc_sync_points(1, &point) == 1 && point.replayed && point.copied_bytes > 0, "%s",
             point.gpu_note ? point.gpu_note : "");
    }
    tc_scope_end(step);
  }
  EXPECT_OK(tc_to_host(y[0], first, sizeof first));
  for (int i = 0; i < 12; i++) {
    if (i != 8) EXPECT(tc_to_host(y[i], got, sizeof got) == TC_OK && memcmp(got, first, sizeof got) == 0, "step %d", i);
    tc_release(y[i]), tc_release(w[i]);
  }
  tc_release(table);
  tc_scope_end(s);
}

// ---- what fails ----

// A library does not look whether the run has failed: what it gives then goes nowhere.
static void test_bad_index(void) {
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  const int64_t at[] = {0, 7, 1};
  float first[9], after[9];
  tc_tensor table = N(TC_F32, 4, 3), w = tc_retain(N(TC_F32, 3, 3)), index = tc_from_host(at, TC_SHAPE(3), TC_I64);
  EXPECT_OK(tc_to_host(w, first, sizeof first));
  EXPECT_OK(tc_assign(w, tc_matmul(tc_index_select(table, 0, index), w)));
  tc_status st = tc_to_host(w, after, sizeof after);
  EXPECT(st == TC_ERR_INDEX && strstr(tc_last_error()->message, "index 7 at position 1 is out of range for extent 4"),
         "told");
  tc_clear_error();
  EXPECT(tc_to_host(w, after, sizeof after) == TC_OK && memcmp(first, after, sizeof first) == 0, "the old value");
  tc_release(w);
  tc_scope_end(s);
}

static void test_failures(void) {
  int kernels;
  set("TC_GPU_LIBRARIES", "always");
  for (size_t i = 0; i < 4 && on->making[i]; i++) {  // then they are generated
    tc_cache_clear();
    fail(on->making[i]);
    uint64_t before = calls(on->product);
    EXPECT(compare(&rows[0], &kernels) == 0 && calls(on->product) == before, "%s", on->making[i]);
    EXPECT(tc_last_error()->status == TC_OK, "%s", on->making[i]);
  }
  fail(NULL);
  tc_cache_clear();
  fail(on->running);
  tc_scope s = tc_scope_begin();
  tc_tensor t = straight();
  EXPECT(tc_eval(1, &t) == TC_ERR_DEVICE &&
             strstr(tc_last_error()->message, "asking a library for library_f32_5x7x9: ") &&
             strstr(tc_last_error()->message, on->refused),
         "told");
  tc_clear_error();
  tc_scope_end(s);
  fail(NULL);
  EXPECT(compare(&rows[0], &kernels) == 0, "works again");
  set("TC_GPU_LIBRARIES", "never");
  uint64_t before = calls(on->product);
  EXPECT(compare(&rows[0], &kernels) == 0 && calls(on->product) == before, "never");
}

// ---- the rule ----

static bool by_rule(tc_type type, int64_t size, tc_library_gemm_after after, bool moves) {
  tc_graph graph = {.n = 0};
  tc_fusion_plan gr = {.graph = &graph};
  tc_gpu_call *product;
  EXPECT_OK(tc_gpu_get(tc_device_default(), &graph.target.gpu));
  tc_library_gemm v = {
      .work = {TC_GPU_MATMULS, .matmul = {.type = type, .batch = 1, .m = size, .n = size, .k = size, .alignment = 16}},
      .after = after};
  v.work.matmul.left.row = v.work.matmul.right.row = size;
  for (int i = 0; i < 3; i++) v.moves[i] = moves;
  bool library = tc_library_gemm_choose(&v, &gr, NULL, NULL, &product);
  EXPECT(library == (product != NULL), "a product where it is chosen");
  tc_gpu_call_release(product);
  return library;
}

static void test_rule(void) {
  set("TC_GPU_LIBRARIES", "rule");
  EXPECT(!by_rule(TC_BF16, 512, TC_AFTER_NOTHING, false) && by_rule(TC_BF16, 4096, TC_AFTER_NOTHING, false),
         "large products of halves");
  EXPECT(by_rule(TC_F32, 4096, TC_AFTER_BIAS, false) && !by_rule(TC_F32, 256, TC_AFTER_BIAS, false),
         "large products of f32");
  EXPECT(!by_rule(TC_F32, 8192, TC_AFTER_BIAS, false) && by_rule(TC_BF16, 8192, TC_AFTER_NOTHING, false),
         "but no long sums of f32");
  int64_t least = 512, least_before_more = 512, least_copied = 512;
  while (least < 4096 && !by_rule(TC_BF16, least, TC_AFTER_NOTHING, false)) least += 8;
  while (least_before_more < 4096 && !by_rule(TC_BF16, least_before_more, TC_AFTER_MORE, false)) least_before_more += 8;
  while (least_copied < 4096 && !by_rule(TC_BF16, least_copied, TC_AFTER_NOTHING, true)) least_copied += 8;
  EXPECT(least_before_more > least, "what follows in another kernel has a price: %lld, %lld", (long long)least,
         (long long)least_before_more);
  EXPECT(least_copied > least_before_more && least_copied < 4096, "so have copies, of three operands: %lld",
         (long long)least_copied);
  set("TC_GPU_LIBRARIES", "never");
  EXPECT(!by_rule(TC_BF16, 4096, TC_AFTER_NOTHING, false), "never");
}

// ---- measurement ----

// In a process of its own, whose place for choices is given: who made a product of 1 M
// multiply-adds, and whether that was measured. What the file said, or must.
static int run_child(const char *expected) {
  static float got[128 * 128];
  tc_scope s = tc_scope_begin();
  tc_tensor a = N(TC_F32, 128, 64), b = N(TC_F32, 64, 128), c = tc_matmul(a, b);
  EXPECT_OK(tc_to_host(c, got, sizeof got));
  float sum = 0;
  for (int k = 0; k < 64; k++)
    sum +=
        (float)(((int)((128 * 0 + k) * 2654435761u >> 7 & 3) - 1) * ((int)((k * 128 + 5) * 2654435761u >> 7 & 3) - 1));
  EXPECT(got[5] == sum, "%g, %g", got[5], sum);
  tc_scope_end(s);
  char made[64], *text = NULL;
  size_t bytes;
  bool library = calls(on->product) > 0 && tc_cache_stats().n_choices == 1;
  snprintf(made, sizeof made, "%s, %d timed", library ? "chosen" : "by rule", (int)tc_cache_stats().cuts_timed);
  EXPECT(strcmp(made, expected) == 0, "%s instead of %s", made, expected);
  FILE *to = open_memstream(&text, &bytes);
  tc_autotune_log_print(to);
  fclose(to);
  EXPECT(!library || (strstr(text, "won by") && strstr(text, "f32 1x128x128x64")), "the profile says: %s", text);
  free(text);
  tc_shutdown();
  return expect_done("gpu-matmul, another process");
}

// In a process of its own: what is copied is timed and told, and no parameter, nothing that the
// plan assigns, and no value between its kernels.
static int run_priced(void) {
  static const char *const keys[] = {"f32 1x128x128x64 copying 131072 ", "f32 1x128x160x64 copying 32768 ",
                                     "f32 1x160x128x64 left "};
  tc_scope s = tc_scope_begin();
  float v;
  tc_tensor a = N(TC_F32, 128, 64), w = tc_param(N(TC_F32, 64, 160)), state = tc_retain(N(TC_F32, 160, 64)),
            p = tc_param(N(TC_F32, 64, 128));
  tc_tensor all = tc_matmul(a, N(TC_F32, 64, 128));
  EXPECT_OK(tc_eval(1, &all));
  tc_no_grad_begin();
  EXPECT_OK(tc_item_f32(tc_sum(tc_cumsum(tc_matmul(a, w), 0), TC_ALL, false), &v));
  tc_tensor sum = tc_sum(tc_cumsum(tc_matmul(state, p), 0), TC_ALL, false);
  EXPECT_OK(tc_assign(state, tc_mul(state, 0.5f)));
  EXPECT_OK(tc_eval(1, &sum));
  tc_no_grad_end();
  tc_release(w), tc_release(p), tc_release(state);
  tc_scope_end(s);
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  tc_autotune_log_print(to);
  fclose(to);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) EXPECT(strstr(text, keys[i]), "\"%s\" in: %s", keys[i], text);
  free(text);
  tc_shutdown();
  return expect_done("gpu-matmul, what copies cost");
}

static void test_measurement(void) {
  char timed[32], missing[96];
  snprintf(timed, sizeof timed, "chosen, %d timed", on->n);
  snprintf(missing, sizeof missing, "%s=/nowhere.so", on->variable);
  child("", timed);
  child("", "chosen, 0 timed");  // by the file
  EXPECT(edit_choice("products", "2s/= [a-z]+ ([0-9]+) ([0-9]+).*/= generated 1 2 3/"), "the file is there");
  child("", timed);  // no choice
  EXPECT(
      edit_choice(
          "products",
          "2s/= .*/= library 5 4 0 "
          "00000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001/"),
      "the file is there");
  child("", timed);  // no algorithm of the library's
  child(on->version, timed);  // another version, another file
  // one does not repeat its results
  if (strstr(on->name, "hipblaslt")) child("TC_SIM_HIPBLASLT=1.2.0 TC_SIM_ATOMICS=1", "chosen, 3 timed");
  child("TC_DETERMINISTIC=1", "by rule, 0 timed");
  child("TC_AUTOTUNE=0", "by rule, 0 timed");
  child(missing, "by rule, 0 timed");
  child("", "priced");
  (void)files_fini();
}

// The library that the environment names, simulated.
static bool simulate_library(void) {
  const char *name = getenv("TC_TEST_LIBRARY");
  for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
    if (name && strcmp(faces[i].name, name) == 0) on = &faces[i], simulated_driver = on->driver;
  if (!built_simulators() || !built_kernels(on->gfx)) return false;
  setenv("TC_SIM_GFX", on->gfx, 1);
  setenv(on->variable, built(on->library), 0);
  return true;
}

int main(int argc, char **argv) {
  if (!simulate_library()) return puts("skipped: the simulated driver was not built"), 77;
  EXPECT_OK(tc_set_default_device(on->device));
  if (argc > 1) return strcmp(argv[1], "priced") == 0 ? run_priced() : run_child(argv[1]);
  test_values("0", 3);
  test_values("1", 1);  // with a workspace
  test_replay();
  test_ever_new_addresses();
  test_bad_index_and_copies();
  test_bad_index();
  test_failures();
  test_rule();
  test_measurement();
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(((int (*)(void))simulated("sim_live_objects"))() == 0, "objects of the driver are left");
  return expect_done("gpu-matmul");
}
