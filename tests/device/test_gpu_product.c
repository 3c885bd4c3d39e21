// Matrix products by a vendor's library (device/gpu.h), on the simulated drivers and their
// cuBLASLt, hipBLASLt and rocBLAS.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "runtime/arena.h"
#include "tests/device/numbers.h"
#include "tests/device/simulated.h"
#include "tests/sim/rocblas_api.h"

#define WORK(f) \
  &(tc_gpu_work) { \
    TC_GPU_MATMULS, .matmul = (f) \
  }
enum { MOST = 8, GUARD = 64 };  // algorithms; elements behind a result that nobody may touch

// A library on a simulated device: what it is called, and its words for what goes wrong.
typedef struct face {
  int row;
  const char *driver, *gfx, *variable, *library;
  const char *name;
  bool bias;  // it adds one
  int n, n_unaligned;  // algorithms that it finds; for addresses at multiples of 4
  const char *create, *run, *graph, *other_product, *no_algorithm, *misaligned;
  const char *no_find[2], *no_run[2];  // calls that fail, and how
  const char *not_found;  // there is none
  const char *making[5], *no_memory;
  const char *capturing[3];
} face;
#define CUDA .row = TC_DEVICE_CUDA, .driver = "libsim-cuda.so", .graph = "cuGraphInstantiateWithFlags"
#define HIP .row = TC_DEVICE_HIP, .driver = "libsim-hip.so", .graph = "hipGraphInstantiateWithFlags"
#define HIPBLASLT \
  HIP, .variable = "TC_HIPBLASLT_LIBRARY", .library = "libsim-hipblaslt.so", .name = "hipBLASLt 1.0.0", .bias = true, \
      .n = 4, .create = "hipblasLtCreate", .run = "hipblasLtMatmul", .other_product = "HIPBLAS_STATUS_NOT_SUPPORTED", \
      .no_algorithm = "HIPBLAS_STATUS_NOT_SUPPORTED", .misaligned = "HIPBLAS_STATUS_INVALID_VALUE", \
      .no_find = {"hipblasLtMatmulAlgoGetHeuristic:1=6", "HIPBLAS_STATUS_INTERNAL_ERROR"}, \
      .not_found = "hipblasLtMatmulAlgoGetHeuristic:1=7", \
      .making = {"hipblasLtMatmulDescCreate:1=2", "hipblasLtMatmulDescSetAttribute:2=2", \
                 "hipblasLtMatrixLayoutCreate:3=2", "hipblasLtMatmulPreferenceCreate:1=2", \
                 "hipblasLtMatmulPreferenceSetAttribute:1=2"}, \
      .no_memory = "HIPBLAS_STATUS_ALLOC_FAILED", \
      .no_run = {"hipblasLtMatmul:1=5", "HIPBLAS_STATUS_EXECUTION_FAILED"}, \
      .capturing = {"hipblasLtMatmul:1=6", "hipStreamBeginCapture:1=900", "hipGraphAddChildGraphNode:1=1"}
#define ROCBLAS \
  HIP, .variable = "TC_ROCBLAS_LIBRARY", .library = "libsim-rocblas.so", .name = "rocBLAS 4.2.1", .n = 5, \
      .n_unaligned = 5, .create = "rocblas_create_handle", .run = "rocblas_gemm_strided_batched_ex", \
      .other_product = "rocblas_status_invalid_value", .no_algorithm = "rocblas_status_invalid_value", \
      .misaligned = "rocblas_status_invalid_pointer", \
      .no_find = {"rocblas_gemm_strided_batched_ex_get_solutions:1=6", "rocblas_status_internal_error"}, \
      .making = {"rocblas_gemm_strided_batched_ex_get_solutions:2=5"}, .no_memory = "rocblas_status_memory_error", \
      .no_run = {"rocblas_set_workspace:1=6", "rocblas_status_internal_error"}, \
      .capturing = {"rocblas_gemm_strided_batched_ex:1=6", "hipStreamBeginCapture:1=900", \
                    "hipGraphAddChildGraphNode:1=1"}
// Waves of 64 and of 32.
static const face faces[] = {
    {CUDA, .variable = "TC_CUBLASLT_LIBRARY", .library = "libsim-cublaslt.so", .name = "cuBLASLt 13.1.0", .bias = true,
     .n = 4, .n_unaligned = 1, .create = "cublasLtCreate", .run = "cublasLtMatmul",
     .other_product = "CUBLAS_STATUS_NOT_SUPPORTED", .no_algorithm = "CUBLAS_STATUS_INVALID_VALUE",
     .misaligned = "CUBLAS_STATUS_INVALID_VALUE",
     .no_find = {"cublasLtMatmulAlgoGetHeuristic:1=14", "CUBLAS_STATUS_INTERNAL_ERROR"},
     .not_found = "cublasLtMatmulAlgoGetHeuristic:1=15",
     .making = {"cublasLtMatmulDescCreate:1=3", "cublasLtMatmulDescSetAttribute:2=3", "cublasLtMatrixLayoutCreate:3=3",
                "cublasLtMatmulPreferenceCreate:1=3", "cublasLtMatmulPreferenceSetAttribute:5=3"},
     .no_memory = "CUBLAS_STATUS_ALLOC_FAILED", .no_run = {"cublasLtMatmul:1=13", "CUBLAS_STATUS_EXECUTION_FAILED"},
     .capturing = {"cublasLtMatmul:1=14", "cuStreamBeginCapture:1=900", "cuGraphAddChildGraphNode:1=1"}},
    {HIPBLASLT, .gfx = "gfx90a"},
    {HIPBLASLT, .gfx = "gfx1100"},
    {ROCBLAS, .gfx = "gfx906"},
    {ROCBLAS, .gfx = "gfx1030"},
};
enum { N_FACES = sizeof faces / sizeof faces[0] };
static const face *on = faces;

// A test that runs on each.
#define EACH(name) \
  static void name(void); \
  ParameterizedTestParameters(gpu_product, name) { \
    static int index[N_FACES]; \
    for (int i = 0; i < N_FACES; i++) index[i] = i; \
    return cr_make_param_array(int, index, N_FACES); \
  } \
  ParameterizedTest(const int *index, gpu_product, name) { \
    on = &faces[*index]; \
    name(); \
  } \
  static void name(void)

#define SIM(type, name) ((type)symbol_of(on->driver, name))

// Settings of the simulator, and its library of products.
static void simulate_library(const char *const *setting) {
  if (on->gfx) setenv("TC_SIM_GFX", on->gfx, 1), built_kernels(on->gfx);
  simulate(setting);
  setenv(on->variable, built(on->library), 1);
  setenv("TC_GPU_LIBRARIES", "always", 1);
  tc_options_reload();
}

static tc_gpu *open_one(int ordinal) {
  tc_gpu *g;
  cr_assert_eq(tc_gpu_get(tc_device_of_row(on->row, ordinal), &g), TC_OK, "%s", tc_last_error()->message);
  return g;
}

static void finish(void) {
  tc_gpu_shutdown();
  cr_expect_eq(SIM(int (*)(void), "sim_faults")(), 0, "%s", SIM(const char *(*)(void), "sim_fault_text")());
  cr_expect_eq(SIM(int (*)(void), "sim_live_objects")(), 0);
}

// "what: how", until the next call.
static const char *said(const char *what, const char *how) {
  static char text[160];
  snprintf(text, sizeof text, "%s: %s", what, how);
  return text;
}

static bool fail_at(const char *spec) {
  return SIM(bool (*)(const char *), "sim_fail")(spec);
}

// ---- problems ----

typedef struct problem {
  tc_gpu_matmul_facts f;
  tc_gpu *g;
  size_t left_bytes, right_bytes, result_bytes;
  char *left, *right, *bias, *want;  // of the host
  void *at[5];  // on the device: left, right, result, bias, workspace
} problem;

static int64_t elements(const tc_gpu_operand *o, int64_t rows, int64_t columns, int64_t batch) {
  return (batch - 1) * o->batch + (o->transposed ? columns : rows) * o->row;
}

static int element(const tc_gpu_operand *o, int64_t batch, int64_t i, int64_t j) {
  return number(batch * o->batch + (o->transposed ? j * o->row + i : i * o->row + j));
}

static void *upload(tc_gpu *g, const void *from, size_t bytes) {
  void *at;
  OK(tc_gpu_alloc(g, bytes, &at));
  OK(tc_gpu_write(g, at, from, bytes));
  return at;
}

static char *numbers(tc_type type, int64_t n) {
  char *p = calloc((size_t)n, 4);
  for (int64_t i = 0; i < n; i++) put(type, p, i, number(i));
  return p;
}

static problem problem_make(tc_gpu *g, const tc_gpu_matmul_facts *f) {
  problem p = {.f = *f, .g = g};
  size_t size = tc_type_bytes(f->type);
  int64_t n_left = elements(&f->left, f->m, f->k, f->batch), n_right = elements(&f->right, f->k, f->n, f->batch),
          n = f->batch * f->m * f->n + GUARD;
  p.left_bytes = (size_t)n_left * size, p.right_bytes = (size_t)n_right * size, p.result_bytes = (size_t)n * size;
  p.left = numbers(f->type, n_left), p.right = numbers(f->type, n_right), p.bias = numbers(f->type, f->n),
  p.want = calloc((size_t)n, 4);
  for (int64_t b = 0; b < f->batch; b++)
    for (int64_t i = 0; i < f->m; i++)
      for (int64_t j = 0; j < f->n; j++) {
        int sum = f->epilogue == TC_GPU_BIAS ? number(j) : 0;
        for (int64_t k = 0; k < f->k; k++) sum += element(&f->left, b, i, k) * element(&f->right, b, k, j);
        put(f->type, p.want, (b * f->m + i) * f->n + j, sum);
      }
  p.at[0] = upload(g, p.left, p.left_bytes), p.at[1] = upload(g, p.right, p.right_bytes),
  p.at[3] = upload(g, p.bias, (size_t)f->n * size);
  OK(tc_gpu_alloc(g, p.result_bytes, &p.at[2]));
  return p;
}

static void problem_end(problem *p) {
  for (int i = 0; i < 5; i++) tc_gpu_free(p->g, p->at[i]);
  free(p->left), free(p->right), free(p->bias), free(p->want);
}

// Its words, as a launch reads them.
static void say(const problem *p, uint64_t *words) {
  for (int i = 0; i < 5; i++) words[i] = (uint64_t)(uintptr_t)p->at[i];
  if (p->f.epilogue != TC_GPU_BIAS) words[3] = 0;
  words[5] = 0;
}

// Runs the sequence of this product alone, on a result of zeros; whether the result is right.
static tc_status run(const problem *p, tc_gpu_sequence *s) {
  uint64_t words[TC_GPU_CALL_WORDS];
  char *got = calloc(1, p->result_bytes);
  say(p, words);
  OK(tc_gpu_write(p->g, p->at[2], got, p->result_bytes));
  tc_status st = tc_gpu_sequence_run(s, words);
  if (st == TC_OK) {
    OK(tc_gpu_read(p->g, got, p->at[2], p->result_bytes));
    cr_expect_eq(memcmp(got, p->want, p->result_bytes), 0, "%d x %d x %d of %s", (int)p->f.m, (int)p->f.n, (int)p->f.k,
                 tc_type_name(p->f.type));
  }
  free(got);
  return st;
}

static tc_gpu_call *product_of(problem *p, const tc_gpu_algorithm *a) {
  tc_gpu_call *x;
  OK(tc_gpu_call_create(p->g, WORK(p->f), a, &x));
  if (!p->at[4] && tc_gpu_call_workspace(x)) OK(tc_gpu_alloc(p->g, tc_gpu_call_workspace(x), &p->at[4]));
  return x;
}

// Rows of so many elements, others of memory between them.
static tc_gpu_matmul_facts facts(tc_type type, int64_t batch, int64_t m, int64_t k, int64_t n, bool left_transposed,
                                 bool right_transposed, int64_t gap) {
  tc_gpu_matmul_facts f = {.type = type, .batch = batch, .m = m, .n = n, .k = k, .alignment = 16};
  f.left = (tc_gpu_operand){left_transposed, (left_transposed ? m : k) + gap, 0};
  f.right = (tc_gpu_operand){right_transposed, (right_transposed ? k : n) + gap, 0};
  f.left.batch = batch > 1 ? m * k + 3 * gap * (m + k) : 0;
  return f;
}

static const tc_gpu_matmul_facts usual = {
    .type = TC_F32, .batch = 1, .m = 5, .n = 7, .k = 9, .left = {.row = 9}, .right = {.row = 7}, .alignment = 16};

// A sequence of the usual product by the library's first choice.
typedef struct one {
  tc_gpu *g;
  problem p;
  tc_gpu_call *x;
  tc_gpu_sequence *s;
} one;

static one one_make(void) {
  one o = {.g = open_one(0)};
  tc_gpu_algorithm a[MOST];
  int n;
  o.p = problem_make(o.g, &usual);
  OK(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n));
  cr_assert(n > 0);
  o.x = product_of(&o.p, &a[0]);
  o.s = sequence_of(o.g, o.x);
  return o;
}

static void one_end(one *o) {
  tc_gpu_sequence_destroy(o->s);
  tc_gpu_call_release(o->x);
  problem_end(&o->p);
}

// ---- results ----

EACH(every_type_and_layout_by_every_algorithm_launched_and_replayed) {
  simulate_library(NULL);
  tc_gpu *g = open_one(0);
  cr_assert_null(tc_gpu_library_absent(g, TC_GPU_MATMULS), "%s", tc_gpu_library_absent(g, TC_GPU_MATMULS));
  cr_expect_str_eq(tc_gpu_library_name(g, TC_GPU_MATMULS), on->name);
  static const tc_type types[] = {TC_F32, TC_F16, TC_BF16};
  for (int i = 0; i < 24; i++) {
    tc_gpu_matmul_facts f = facts(types[i % 3], i % 5 == 4 ? 3 : 1, 5 + i, 9, 7, i & 1, i & 2, i & 4);
    f.epilogue = i % 4 == 3 ? TC_GPU_BIAS : TC_GPU_NO_EPILOGUE;
    f.alignment = i & 8 ? 4 : 16;
    tc_gpu_algorithm a[MOST];
    int n;
    OK(tc_gpu_call_find(g, WORK(f), a, MOST, &n));
    int known = f.epilogue == TC_GPU_BIAS && !on->bias ? 0 : i & 8 ? on->n_unaligned : on->n;
    cr_expect_eq(n, known, "algorithms of problem %d: %d", i, n);
    for (int k = 0; k < n; k++) {
      problem p = problem_make(g, &f);
      tc_gpu_call *x = product_of(&p, &a[k]);
      tc_gpu_sequence *s = sequence_of(g, x);
      tc_gpu_call_release(x);  // the sequence has its own
      for (int time = 0; time < 3; time++) {
        OK(run(&p, s));
        cr_expect_eq(tc_gpu_sequence_plain(s) == NULL, time > 0, "%s", tc_gpu_sequence_plain(s));
      }
      tc_gpu_sequence_destroy(s);
      problem_end(&p);
    }
  }
  finish();
}

// Kernels before and behind it in one graph, words patched, addresses guarded.
EACH(it_is_a_link_of_a_chain_and_runs_ahead_with_other_words) {
  static const char source[] =
      "#include \"tc_words.h\"\n"
      "TC_KERNEL(fill, 64) {\n"
      "  f32 *to = (f32 *)tc_global(tc_table[0]);\n"
      "  for (i32 i = TC_THREAD; i < (i32)tc_table[1]; i += 64) to[i] = (f32)tc_table[2];\n"
      "}\n";
  simulate_library((const char *[]){"TC_SIM_EAGER=0", NULL});
  one o = one_make();
  tc_gpu_code *c;
  tc_gpu_sequence *s;
  float got[8][35];
  void *kept[8];
  OK(tc_gpu_compile(o.g, "fill", source, &c));
  tc_gpu_launch launch[2] = {{c, 1, 64, 0, TC_GPU_CALL_WORDS, NULL}, {.call = o.x, .first_word = 0}};
  OK(tc_gpu_sequence_create(o.g, launch, 2, 9, &s));
  for (int i = 0; i < 8; i++) {
    uint64_t words[9] = {[TC_GPU_CALL_WORDS] = (uint64_t)(uintptr_t)o.p.at[0], 45, (uint64_t)i};
    say(&o.p, words);
    OK(tc_gpu_sequence_run(s, words));
    OK(tc_gpu_alloc(o.g, sizeof got[i], &kept[i]));
    OK(tc_gpu_copy(o.g, kept[i], o.p.at[2], sizeof got[i]));
  }
  cr_expect_null(tc_gpu_sequence_plain(s));
  for (int i = 0; i < 8; i++) {
    int sum = 0;
    OK(tc_gpu_read(o.g, got[i], kept[i], sizeof got[i]));
    for (int k = 0; k < 9; k++) sum += element(&usual.right, 0, k, 3);
    cr_expect_eq(got[i][3], (float)(i * sum));
    tc_gpu_free(o.g, kept[i]);
  }
  tc_gpu_code_release(c);
  tc_gpu_sequence_destroy(s);
  one_end(&o);
  finish();
}

static uint64_t calls_of(const char *name) {
  return SIM(uint64_t (*)(const char *), "sim_calls")(name);
}

EACH(addresses_that_take_turns_have_a_graph_each_and_more_of_them_one_that_copies) {
  enum { SETS = 6 };
  simulate_library(NULL);
  one o = one_make();
  void *result[SETS], *own = o.p.at[2];
  for (int i = 0; i < SETS; i++) OK(tc_gpu_alloc(o.g, o.p.result_bytes, &result[i]));
  for (int i = 0; i < 12; i++) {  // two that take turns
    o.p.at[2] = result[i % 2];
    OK(run(&o.p, o.s));
    cr_expect_eq(tc_gpu_sequence_plain(o.s) == NULL, i > 1, "run %d: %s", i, tc_gpu_sequence_plain(o.s));
  }
  cr_expect_eq(calls_of(on->graph), 2);
  // more than there are graphs for: the first two keep theirs, the fifth one is copied
  for (int i = 0; i < 2 * SETS; i++) {
    o.p.at[2] = result[i % SETS];
    OK(run(&o.p, o.s));
    bool is_new = i == 2 || i == 3;
    const char *plain = tc_gpu_sequence_plain(o.s);
    cr_expect_eq(plain && strstr(plain, "new addresses"), is_new, "run %d: %s", i, plain);
    cr_expect_eq(tc_gpu_sequence_copied(o.s), i % SETS < 2 || is_new ? 0 : 35 * sizeof(float), "run %d: %zu", i,
                 tc_gpu_sequence_copied(o.s));
  }
  cr_expect_eq(calls_of(on->graph), 3);
  for (int i = 0; i < 110; i++) {  // the first two are met no more, and make room for what comes often
    o.p.at[2] = result[2 + i % 4];
    OK(run(&o.p, o.s));
    cr_expect_null(tc_gpu_sequence_plain(o.s));
  }
  cr_expect_eq(tc_gpu_sequence_copied(o.s), 0);
  size_t held = SIM(size_t (*)(int), "sim_live_bytes")(0);
  for (int i = 0; i < 70; i++) {  // the one that copies is needed no more, and goes with its place
    o.p.at[2] = result[2 + i % 4];
    OK(run(&o.p, o.s));
  }
  cr_expect_eq(held - SIM(size_t (*)(int), "sim_live_bytes")(0), 256);
  for (int i = 0; i < SETS; i++) {  // and is made anew
    o.p.at[2] = result[i];
    OK(run(&o.p, o.s));
    cr_expect_null(tc_gpu_sequence_plain(o.s));
  }
  o.p.at[2] = own;
  for (int i = 0; i < SETS; i++) tc_gpu_free(o.g, result[i]);
  one_end(&o);
  finish();
}

// ---- operands that move ----

// Values of the left operand that are more by `more`, elsewhere than before, and a result of zeros.
static void move(problem *p, int more) {
  int64_t n = elements(&p->f.left, p->f.m, p->f.k, p->f.batch);
  char *zeros = calloc(1, p->result_bytes);
  for (int64_t i = 0; i < n; i++) put(p->f.type, p->left, i, number(i) + more);
  p->at[0] = upload(p->g, p->left, p->left_bytes), p->at[2] = upload(p->g, zeros, p->result_bytes);
  free(zeros);
}

// The result of such a left operand: right, and nothing is written behind it.
static void expect_moved(const problem *p, void *result, int more, int run) {
  size_t size = tc_type_bytes(p->f.type);
  char *got = calloc(1, p->result_bytes), *want = calloc(1, p->result_bytes);
  OK(tc_gpu_read(p->g, got, result, p->result_bytes));
  for (int64_t i = 0; i < p->f.m * p->f.n; i++) {
    int sum = 0;
    for (int64_t k = 0; k < p->f.k; k++)
      sum += (element(&p->f.left, 0, i / p->f.n, k) + more) * element(&p->f.right, 0, k, i % p->f.n);
    put(p->f.type, want, i, sum);
  }
  cr_expect_eq(memcmp(got, want, p->f.m * p->f.n * (int64_t)size), 0, "run %d", run);
  cr_expect_eq(memcmp(got, want, p->result_bytes), 0, "run %d wrote behind its result", run);
  free(got), free(want);
}

// Of every type, at addresses at which nothing wider than two or four bytes can be read at once,
// with a bias.
EACH(copies_go_from_and_to_any_address_that_a_library_takes) {
  static const tc_type types[] = {TC_F32, TC_F16};
  simulate_library(NULL);
  tc_gpu *g = open_one(0);
  for (int i = 0; i < 2 && on->n_unaligned; i++) {
    tc_gpu_matmul_facts f = facts(types[i], 1, 37, 50, 41, i, !i, 3);
    tc_gpu_algorithm a;
    int n;
    f.alignment = (uint32_t)tc_type_bytes(f.type), f.epilogue = on->bias ? TC_GPU_BIAS : TC_GPU_NO_EPILOGUE;
    OK(tc_gpu_call_find(g, WORK(f), &a, 1, &n));
    if (n == 0) f.epilogue = TC_GPU_NO_EPILOGUE, f.alignment = 4;
    OK(tc_gpu_call_find(g, WORK(f), &a, 1, &n));
    if (n == 0) continue;
    problem p = problem_make(g, &f);
    tc_gpu_call *x = product_of(&p, &a);
    tc_gpu_sequence *s = sequence_of(g, x);
    void *at[4], *moved[8][4];
    memcpy(at, p.at, sizeof at);
    for (int time = 0; time < 8; time++) {
      const char *const host[] = {p.left, p.right, NULL, p.bias};
      const size_t bytes[] = {p.left_bytes, p.right_bytes, p.result_bytes, (size_t)f.n * tc_type_bytes(f.type)},
                   shift = (size_t)time * f.alignment;
      for (int k = 0; k < 4; k++) {
        OK(tc_gpu_alloc(g, bytes[k] + shift, &moved[time][k]));
        p.at[k] = (char *)moved[time][k] + shift;
        if (host[k]) OK(tc_gpu_write(g, p.at[k], host[k], bytes[k]));
      }
      OK(run(&p, s));
    }
    for (int k = 0; k < 32; k++) tc_gpu_free(g, moved[k / 4][k % 4]);
    cr_expect(!tc_gpu_sequence_plain(s) && tc_gpu_sequence_copied(s) > 0, "%s", tc_gpu_sequence_plain(s));
    memcpy(p.at, at, sizeof at);
    tc_gpu_sequence_destroy(s);
    tc_gpu_call_release(x);
    problem_end(&p);
  }
  finish();
}

// A run of one product after the other, each elsewhere; what was elsewhere is given back at the
// end.
typedef struct elsewhere {
  one o;
  void *own[2], *at[16][2];
  int n;
} elsewhere;

static elsewhere elsewhere_make(void) {
  elsewhere e = {.o = one_make()};
  e.own[0] = e.o.p.at[0], e.own[1] = e.o.p.at[2];
  return e;
}

static void elsewhere_next(elsewhere *e, uint64_t *words) {
  move(&e->o.p, e->n);
  e->at[e->n][0] = e->o.p.at[0], e->at[e->n++][1] = e->o.p.at[2];
  say(&e->o.p, words);
}

static void elsewhere_end(elsewhere *e) {
  for (int i = 0; i < e->n; i++) tc_gpu_free(e->o.g, e->at[i][0]), tc_gpu_free(e->o.g, e->at[i][1]);
  e->o.p.at[0] = e->own[0], e->o.p.at[2] = e->own[1];
  one_end(&e->o);
}

// A device that runs nothing before it is waited for, with each run's own operand and result: none
// disturbs another, and none is launched call by call.
EACH(operands_at_ever_new_addresses_are_copied_by_a_graph_that_is_replayed) {
  enum { RUNS = 14, PLAIN = 4 };  // fewer than may be on their way
  simulate_library((const char *[]){"TC_SIM_EAGER=0", NULL});
  elsewhere e = elsewhere_make();
  one *o = &e.o;
  uint64_t words[TC_GPU_CALL_WORDS], asked = 0;
  for (int i = 0; i < RUNS; i++) {
    elsewhere_next(&e, words);
    OK(tc_gpu_sequence_run(o->s, words));
    cr_expect_eq(tc_gpu_sequence_plain(o->s) == NULL, i >= PLAIN, "run %d: %s", i, tc_gpu_sequence_plain(o->s));
    cr_expect_eq(tc_gpu_sequence_copied(o->s), i >= PLAIN ? o->p.left_bytes + 35 * sizeof(float) : 0, "run %d: %zu", i,
                 tc_gpu_sequence_copied(o->s));
    if (i == PLAIN) asked = calls_of(on->run);
  }
  cr_expect_eq(calls_of(on->run), asked, "the library is asked for each run");
  cr_expect_eq(calls_of(on->graph), 1);
  for (int i = 0; i < RUNS; i++) expect_moved(&o->p, e.at[i][1], i, i);
  void *right = o->p.at[1];  // what stayed until now
  o->p.at[1] = upload(o->g, o->p.right, o->p.right_bytes);
  say(&o->p, words);
  OK(tc_gpu_sequence_run(o->s, words));
  cr_expect(!tc_gpu_sequence_plain(o->s) &&
            tc_gpu_sequence_copied(o->s) == o->p.left_bytes + o->p.right_bytes + 35 * sizeof(float));
  cr_expect_eq(calls_of(on->graph), 2);
  expect_moved(&o->p, o->p.at[2], RUNS - 1, RUNS);
  tc_gpu_free(o->g, right);
  elsewhere_end(&e);
  finish();
}

// What a run made until it failed may be nothing.
EACH(copies_do_nothing_in_a_run_that_has_failed) {
  simulate_library(NULL);
  elsewhere e = elsewhere_make();
  uint64_t words[TC_GPU_CALL_WORDS], fault = UINT64_MAX;
  void *word = upload(e.o.g, &fault, sizeof fault), *unwritten;
  float got[35];
  for (int i = 0; i < 8; i++) {
    elsewhere_next(&e, words);
    words[5] = (uint64_t)(uintptr_t)word;
    OK(tc_gpu_sequence_run(e.o.s, words));
    expect_moved(&e.o.p, e.o.p.at[2], i, i);
  }
  fault = 3;
  OK(tc_gpu_write(e.o.g, word, &fault, sizeof fault));
  OK(tc_gpu_alloc(e.o.g, e.o.p.left_bytes, &unwritten));
  elsewhere_next(&e, words);
  words[0] = (uint64_t)(uintptr_t)unwritten, words[5] = (uint64_t)(uintptr_t)word;
  OK(tc_gpu_sequence_run(e.o.s, words));
  cr_expect(!tc_gpu_sequence_plain(e.o.s) && tc_gpu_sequence_copied(e.o.s) > 0);
  OK(tc_gpu_read(e.o.g, got, e.o.p.at[2], sizeof got));
  for (int k = 0; k < 35; k++) cr_expect_eq(got[k], 0);
  tc_gpu_free(e.o.g, word), tc_gpu_free(e.o.g, unwritten);
  elsewhere_end(&e);
  finish();
}

EACH(what_has_no_room_for_copies_is_launched) {
  simulate_library(NULL);
  elsewhere e = elsewhere_make();
  for (int i = 0; i < 8; i++) {
    uint64_t words[TC_GPU_CALL_WORDS];
    elsewhere_next(&e, words);
    if (i == 4)
      cr_assert(fail_at(on->row == TC_DEVICE_CUDA ? "cuMemAllocFromPoolAsync:1=2" : "hipMallocFromPoolAsync:1=2"));
    OK(tc_gpu_sequence_run(e.o.s, words));
    const char *plain = tc_gpu_sequence_plain(e.o.s);
    cr_expect(plain && (i < 4 || strstr(plain, "memory was short to copy them to")), "run %d: %s", i, plain);
    expect_moved(&e.o.p, e.o.p.at[2], i, i);
  }
  elsewhere_end(&e);
  finish();
}

EACH(each_device_has_a_library_of_its_own) {
  simulate_library((const char *[]){"TC_SIM_DEVICES=2", NULL});
  tc_gpu_algorithm a[MOST];
  int n;
  for (int i = 0; i < 2; i++) {
    tc_gpu *g = open_one(i);
    problem p = problem_make(g, &usual);
    OK(tc_gpu_call_find(g, WORK(usual), a, MOST, &n));
    tc_gpu_call *x = product_of(&p, &a[0]);
    tc_gpu_sequence *s = sequence_of(g, x), *other;
    for (int time = 0; time < 3; time++) OK(run(&p, s));
    tc_gpu_launch launch = {.call = x};
    FAILS(tc_gpu_sequence_create(open_one(1 - i), &launch, 1, TC_GPU_CALL_WORDS, &other), TC_ERR_DEVICE,
          "library_f32_5x7x9 was loaded on");
    tc_gpu_sequence_destroy(s);
    tc_gpu_call_release(x);
    problem_end(&p);
  }
  cr_expect_eq(SIM(uint64_t (*)(const char *), "sim_calls")(on->create), 2);
  finish();
}

EACH(after_shutdown_the_library_opens_again) {
  simulate_library(NULL);
  for (int i = 0; i < 2; i++) {
    one o = one_make();
    for (int time = 0; time < 2; time++) OK(run(&o.p, o.s));
    tc_gpu_call *x = o.x;
    tc_gpu_call_retain(x);
    one_end(&o);
    tc_gpu_shutdown();
    tc_gpu_call_release(x);  // what the library was told is of the host
    finish();
  }
}

// ---- algorithms ----

EACH(an_algorithm_holds_for_its_product_and_for_no_other) {
  simulate_library(NULL);
  one o = one_make();
  tc_gpu_algorithm a[MOST];
  tc_gpu_call *x;
  tc_gpu_matmul_facts f = usual;
  int n;
  OK(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n));
  OK(tc_gpu_call_create(o.g, WORK(usual), &a[1], &x));
  cr_expect(tc_gpu_call_workspace(x) > 0);
  tc_gpu_call_release(x);
  f.k = 8;
  FAILS(tc_gpu_call_create(o.g, WORK(f), &a[1], &x), TC_ERR_DEVICE,
        said("asking a library for an algorithm", on->other_product));
  cr_expect_null(x);
  memset(&a[0], 0, sizeof a[0]);
  FAILS(tc_gpu_call_create(o.g, WORK(usual), &a[0], &x), TC_ERR_DEVICE, on->no_algorithm);
  f = usual, f.type = TC_F64;
  FAILS(tc_gpu_call_find(o.g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is malformed");
  f = usual, f.left.row = 3;
  FAILS(tc_gpu_call_find(o.g, WORK(f), a, MOST, &n), TC_ERR_ARG, "is malformed");
  one_end(&o);
  finish();
}

EACH(memory_that_is_not_as_it_was_said_is_found) {
  simulate_library(NULL);
  one o = one_make();
  uint64_t words[TC_GPU_CALL_WORDS];
  say(&o.p, words);
  words[0] += 2;
  FAILS(tc_gpu_sequence_run(o.s, words), TC_ERR_DEVICE, said("asking a library for library_f32_5x7x9", on->misaligned));
  tc_gpu_launch launch = {.call = o.x, .first_word = 1};
  tc_gpu_sequence *s;
  FAILS(tc_gpu_sequence_create(o.g, &launch, 1, TC_GPU_CALL_WORDS, &s), TC_ERR_ARG,
        "library_f32_5x7x9: its words begin at 1 of 6");
  OK(run(&o.p, o.s));
  unsetenv("TC_SIM_ABORT");
  say(&o.p, words);
  words[2] = words[0];  // over its own operand
  OK(tc_gpu_sequence_run(o.s, words));
  OK(tc_gpu_wait(o.g));
  cr_expect(strstr(SIM(const char *(*)(void), "sim_fault_text")(), "its first operand and its result overlap") ||
            strstr(SIM(const char *(*)(void), "sim_fault_text")(), "its second operand and its result overlap"));
  SIM(void (*)(void), "sim_forget")();
  say(&o.p, words);
  tc_gpu_free(o.g, o.p.at[1]);
  o.p.at[1] = NULL;
  OK(tc_gpu_sequence_run(o.s, words));
  FAILS(tc_gpu_wait(o.g), TC_ERR_DEVICE, "700");  // a bad address: the device is lost
  cr_expect(strstr(SIM(const char *(*)(void), "sim_fault_text")(), "freed memory"));
  SIM(void (*)(void), "sim_forget")();
  cr_expect(strstr(tc_gpu_library_absent(o.g, TC_GPU_MATMULS), "lost"));
  one_end(&o);
  tc_gpu_shutdown();
}

// ---- what may be absent, and fail ----

static const char *absent(const char *path, const char *const *setting) {
  if (path) setenv("TC_CUBLASLT_LIBRARY", path, 1);
  simulate(setting);
  const char *why = tc_gpu_library_absent(open_one(0), TC_GPU_MATMULS);
  cr_assert(why);
  tc_gpu_algorithm a[MOST];
  int n;
  FAILS(tc_gpu_call_find(open_one(0), WORK(usual), a, MOST, &n), TC_ERR_DEVICE, why);
  cr_expect_eq(n, 0);
  return why;
}

Test(gpu_product, without_a_library_one_sentence_says_so) {
  SAYS(absent(NULL, NULL), "a simulated device has no library of products but one that TC_CUBLASLT_LIBRARY names");
  finish();
}

Test(gpu_product, a_library_that_does_not_open_is_told) {
  SAYS(absent("/nowhere/libcublasLt.so.13", NULL),
       "cuBLASLt, NVIDIA's library of products, cannot be opened: /nowhere/libcublasLt.so.13");
  finish();
}

Test(gpu_product, a_library_of_something_else_is_told) {
  SAYS(absent(built("libsim-nvrtc.so"), NULL), "has no cublasLtGetVersion: cuBLASLt of CUDA 11 or newer is needed");
  finish();
}

Test(gpu_product, a_library_too_new_for_the_driver_is_told) {
  SAYS(absent(built("libsim-cublaslt.so"), (const char *[]){"TC_SIM_CUBLASLT=14.0.0", NULL}),
       "is cuBLASLt 14.0.0, and for the driver of CUDA 13");
  finish();
}

Test(gpu_product, a_library_that_does_not_start_is_told) {
  SAYS(absent(built("libsim-cublaslt.so"), (const char *[]){"TC_SIM_FAIL=cublasLtCreate:*=1", NULL}),
       "cuBLASLt 13.1.0 does not start on tc:cuda: CUBLAS_STATUS_NOT_INITIALIZED");
  finish();
}

// Of HIP's libraries each says why it is not used.
static const char *absent_on_hip(const char *hipblaslt, const char *rocblas, const char *const *setting) {
  static const face hip = {HIP};
  on = &hip;
  if (hipblaslt) setenv("TC_HIPBLASLT_LIBRARY", hipblaslt, 1);
  if (rocblas) setenv("TC_ROCBLAS_LIBRARY", rocblas, 1);
  built_kernels("gfx90a");
  setenv("TC_GPU_LIBRARIES", "always", 1);
  return absent(NULL, setting);
}

Test(gpu_product, without_a_library_of_amds_one_sentence_says_so) {
  SAYS(absent_on_hip(NULL, NULL, NULL),
       "a simulated device has no library of products but one that TC_HIPBLASLT_LIBRARY or TC_ROCBLAS_LIBRARY names");
  finish();
}

Test(gpu_product, libraries_of_amds_that_do_not_open_are_told) {
  const char *why = absent_on_hip("/nowhere/libhipblaslt.so", "/nowhere/librocblas.so", NULL);
  SAYS(why, "hipBLASLt cannot be opened: /nowhere/libhipblaslt.so");
  SAYS(why, "; rocBLAS cannot be opened: /nowhere/librocblas.so");
  finish();
}

Test(gpu_product, libraries_of_something_else_are_told_on_hip) {
  const char *why = absent_on_hip(built("libsim-hip.so"), NULL, NULL);
  SAYS(why, "libsim-hip.so has no hipblasLtCreate: hipBLASLt 0.6 or newer is needed");
  finish();
}

Test(gpu_product, a_rocblas_without_its_functions_is_told) {
  SAYS(absent_on_hip(NULL, built("libsim-hip.so"), NULL),
       "rocBLAS has no rocblas_get_version_string: it is older than 2.40, or another library");
  finish();
}

// They would end the process where they find no kernels.
Test(gpu_product, a_device_without_kernels_is_not_asked_for) {
  const char *why = absent_on_hip(built("libsim-hipblaslt.so"), NULL, (const char *[]){"TC_SIM_GFX=gfx1012", NULL});
  SAYS(why, "hipBLASLt has no kernels for gfx1012");
  cr_expect_eq(SIM(uint64_t (*)(const char *), "sim_calls")("hipblasLtCreate"), 0);
  finish();
}

Test(gpu_product, a_rocblas_without_kernels_is_not_asked_for) {
  SAYS(absent_on_hip(NULL, built("libsim-rocblas.so"), (const char *[]){"TC_SIM_GFX=gfx1012", NULL}),
       "rocBLAS has no kernels for gfx1012");
  finish();
}

Test(gpu_product, a_hipblaslt_that_is_too_old_is_told) {
  SAYS(absent_on_hip(built("libsim-hipblaslt.so"), NULL, (const char *[]){"TC_SIM_HIPBLASLT=0.5.2", NULL}),
       "hipBLASLt 0.5.2 does not start on tc:hip: it is older than 0.6");
  finish();
}

// It ends the process where it gets no memory for itself.
Test(gpu_product, hipblaslt_is_not_opened_where_memory_is_short) {
  SAYS(absent_on_hip(built("libsim-hipblaslt.so"), NULL, (const char *[]){"TC_SIM_MEMORY_MIB=32", NULL}),
       "hipBLASLt does not start on tc:hip: HIPBLAS_STATUS_ALLOC_FAILED");
  cr_expect_eq(SIM(uint64_t (*)(const char *), "sim_calls")("hipblasLtCreate"), 0);
  finish();
}

Test(gpu_product, a_rocblas_that_does_not_start_is_told) {
  SAYS(absent_on_hip(NULL, built("libsim-rocblas.so"),
                     (const char *[]){"TC_SIM_FAIL=rocblas_set_atomics_mode:*=6", NULL}),
       "rocBLAS 4.2.1 does not start on tc:hip: rocblas_status_internal_error");
  finish();
}

// Both are there. settings: NULL or "NAME=VALUE".
static const char *taken(const char *gfx, const char *const *setting) {
  static const face both = {ROCBLAS};
  on = &both;
  setenv("TC_HIPBLASLT_LIBRARY", built("libsim-hipblaslt.so"), 1);
  setenv("TC_ROCBLAS_LIBRARY", built("libsim-rocblas.so"), 1);
  setenv("TC_SIM_GFX", gfx, 1);
  built_kernels(gfx);
  simulate(setting);
  tc_gpu *g = open_one(0);
  cr_assert_null(tc_gpu_library_absent(g, TC_GPU_MATMULS), "%s", tc_gpu_library_absent(g, TC_GPU_MATMULS));
  return tc_gpu_library_name(g, TC_GPU_MATMULS);
}

Test(gpu_product, of_both_libraries_hipblaslt_is_taken_where_products_are_measured) {
  cr_expect_str_eq(taken("gfx90a", (const char *[]){"TC_AUTOTUNE=1", NULL}), "hipBLASLt 1.0.0");
  finish();
}

Test(gpu_product, of_both_libraries_rocblas_is_taken_by_rule) {
  cr_expect_str_eq(taken("gfx90a", NULL), "rocBLAS 4.2.1");
  finish();
}

Test(gpu_product, of_both_libraries_rocblas_is_taken_where_it_alone_has_kernels) {
  cr_expect_str_eq(taken("gfx1030", (const char *[]){"TC_AUTOTUNE=1", "HIPBLASLT_TENSILE_LIBPATH=/nowhere", NULL}),
                   "rocBLAS 4.2.1");
  finish();
}

Test(gpu_product, of_both_libraries_rocblas_is_taken_where_results_must_be_the_same) {
  cr_expect_str_eq(taken("gfx90a", (const char *[]){"TC_AUTOTUNE=1", "TC_DETERMINISTIC=1", NULL}), "rocBLAS 4.2.1");
  finish();
}

Test(gpu_product, hipblaslt_alone_is_not_used_by_rule) {
  static const face hip = {HIP};
  on = &hip;
  setenv("TC_HIPBLASLT_LIBRARY", built("libsim-hipblaslt.so"), 1);
  built_kernels("gfx90a");
  SAYS(absent(NULL, NULL), "hipBLASLt may add in any order, so it is used only where it is measured");
  finish();
}

// The simulated library looks at how it is asked.
Test(gpu_product, a_rocblas_that_may_add_with_atomics_is_a_mistake) {
  on = &faces[N_FACES - 1];
  simulate_library(NULL);
  unsetenv("TC_SIM_ABORT");
  problem p = problem_make(open_one(0), &usual);
  rocblas_handle handle;
  const float one = 1, zero = 0;
#define ROCBLAS_CALL(name) ((__typeof__(&name))symbol_of("libsim-rocblas.so", #name))
  cr_assert_eq(ROCBLAS_CALL(rocblas_create_handle)(&handle), rocblas_status_success);
  cr_expect_eq(
      ROCBLAS_CALL(rocblas_gemm_strided_batched_ex)(
          handle, rocblas_operation_none, rocblas_operation_none, 7, 5, 9, &one, p.at[1], rocblas_datatype_f32_r, 7, 0,
          p.at[0], rocblas_datatype_f32_r, 9, 0, &zero, p.at[2], rocblas_datatype_f32_r, 7, 35, p.at[2],
          rocblas_datatype_f32_r, 7, 35, 1, rocblas_datatype_f32_r, rocblas_gemm_algo_standard, 0, 0),
      rocblas_status_success);
  cr_expect_eq(SIM(int (*)(void), "sim_faults")(), 2);
  SAYS(SIM(const char *(*)(void), "sim_fault_text")(), "rocblas_gemm_strided_batched_ex: ");
  SIM(void (*)(void), "sim_forget")();
  cr_expect_eq(ROCBLAS_CALL(rocblas_destroy_handle)(handle), rocblas_status_success);
  problem_end(&p);
  finish();
}

EACH(calls_that_fail_are_errors_and_the_next_ones_work) {
  simulate_library(NULL);
  one o = one_make();
  tc_gpu_algorithm a[MOST];
  int n;
  cr_assert(fail_at(on->no_find[0]));
  FAILS(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n), TC_ERR_DEVICE,
        said("asking for a library's algorithms", on->no_find[1]));
  if (on->not_found) {
    cr_assert(fail_at(on->not_found));
    OK(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n));
    cr_expect_eq(n, 0);
  }
  for (size_t i = 0; i < 5 && on->making[i]; i++) {
    cr_assert(fail_at(on->making[i]));
    FAILS(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n), TC_ERR_MEMORY, on->no_memory);
  }
  cr_assert(fail_at(on->no_run[0]));
  FAILS(run(&o.p, o.s), TC_ERR_DEVICE, said("asking a library for library_f32_5x7x9", on->no_run[1]));
  cr_assert(fail_at(NULL));
  for (int i = 0; i < 3; i++) OK(run(&o.p, o.s));
  one_end(&o);
  finish();
}

// Without memory of the host at any place: a status, or no graph, and nothing is lost.
EACH(every_allocation_may_fail) {
  simulate_library(NULL);
  one o = one_make();
  tc_gpu_algorithm a[MOST];
  int n, failed = 0;
  void *own = o.p.at[2], *elsewhere[5];
  OK(tc_gpu_call_find(o.g, WORK(usual), a, MOST, &n));
  for (int i = 0; i < 5; i++) OK(tc_gpu_alloc(o.g, o.p.result_bytes, &elsewhere[i]));
  bool done = false;
  for (int k = 1; !done; k++) {
    cr_assert(k < 1000);
    tc_gpu_call *x;
    tc_gpu_sequence *s = NULL;
    tc_gpu_launch launch = {.code = NULL};
    tc_alloc_fail_at(k, 0);
    tc_status st = tc_gpu_call_create(o.g, WORK(usual), &a[0], &x);
    launch.call = x;
    if (st == TC_OK) st = tc_gpu_sequence_create(o.g, &launch, 1, TC_GPU_CALL_WORDS, &s);
    for (int time = 0; time < 3 && st == TC_OK; time++) st = run(&o.p, s);
    for (int time = 0; time < 5 && st == TC_OK; time++) {
      o.p.at[2] = elsewhere[time];
      st = run(&o.p, s);
    }
    o.p.at[2] = own;
    done = tc_alloc_fail_at(0, 0) < k;
    cr_expect(st == TC_OK || st == TC_ERR_MEMORY, "allocation %d: %s", k, tc_last_error()->message);
    failed += st != TC_OK;
    tc_gpu_sequence_destroy(s);
    tc_gpu_call_release(x);
    tc_clear_error();
  }
  cr_expect(failed > 3, "%d", failed);
  for (int i = 0; i < 5; i++) tc_gpu_free(o.g, elsewhere[i]);
  one_end(&o);
  finish();
}

typedef struct runner {
  const problem *p;
  tc_gpu_sequence *s;
  void *result;
  int n_wrong;
} runner;

static void *run_often(void *arg) {
  runner *r = arg;
  char *got = calloc(1, r->p->result_bytes);
  uint64_t words[TC_GPU_CALL_WORDS];
  size_t bytes = r->p->result_bytes - GUARD * 4;
  say(r->p, words);
  words[2] = (uint64_t)(uintptr_t)r->result;
  for (int i = 0; i < 30; i++) {
    r->n_wrong += tc_gpu_sequence_run(r->s, words) != TC_OK || tc_gpu_read(r->p->g, got, r->result, bytes) != TC_OK ||
                  memcmp(got, r->p->want, bytes) != 0;
  }
  free(got);
  return NULL;
}

EACH(threads_in_one_sequence_have_their_own_addresses) {
  simulate_library(NULL);
  one o = one_make();
  pthread_t thread[3];
  runner r[3];
  for (int i = 0; i < 3; i++) {
    r[i] = (runner){&o.p, o.s, NULL, 0};
    OK(tc_gpu_alloc(o.g, o.p.result_bytes, &r[i].result));
    cr_assert_eq(pthread_create(&thread[i], NULL, run_often, &r[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(thread[i], NULL);
    cr_expect_eq(r[i].n_wrong, 0, "thread %d: %d", i, r[i].n_wrong);
    tc_gpu_free(o.g, r[i].result);
  }
  one_end(&o);
  finish();
}

// A capture that fails is ended, and the sequence goes on launching.
EACH(what_cannot_be_captured_is_launched) {
  simulate_library(NULL);
  for (int i = 0; i < 3; i++) {
    one o = one_make();
    OK(run(&o.p, o.s));
    cr_assert(fail_at(on->capturing[i]));
    for (int k = 0; k < 2; k++) {
      OK(run(&o.p, o.s));
      cr_expect(tc_gpu_sequence_plain(o.s) && strstr(tc_gpu_sequence_plain(o.s), "refused"), "%s", on->capturing[i]);
    }
    cr_assert(fail_at(NULL));
    one_end(&o);
  }
  finish();
}

typedef struct waiter {
  tc_gpu *g;
  atomic_bool stop;
  atomic_int n_waits;
  int n_failed;
} waiter;

static void *wait_often(void *arg) {
  waiter *w = arg;
  while (!atomic_load(&w->stop)) {
    w->n_failed += tc_gpu_wait(w->g) != TC_OK;
    atomic_fetch_add(&w->n_waits, 1);
  }
  return NULL;
}

// The driver refuses to wait for a stream that captures, and the capture is lost.
EACH(another_thread_waits_while_a_call_is_captured) {
  simulate_library((const char *[]){"TC_SIM_SLOW_CAPTURE=20000", NULL});
  one o = one_make();
  waiter w = {.g = o.g};
  pthread_t thread;
  OK(run(&o.p, o.s));
  cr_assert_eq(pthread_create(&thread, NULL, wait_often, &w), 0);
  while (atomic_load(&w.n_waits) == 0) sched_yield();
  OK(run(&o.p, o.s));
  cr_expect(!tc_gpu_sequence_plain(o.s), "%s", tc_gpu_sequence_plain(o.s));
  atomic_store(&w.stop, true);
  pthread_join(thread, NULL);
  cr_expect_eq(w.n_failed, 0, "%d of %d waits failed", w.n_failed, atomic_load(&w.n_waits));
  OK(run(&o.p, o.s));
  one_end(&o);
  finish();
}
