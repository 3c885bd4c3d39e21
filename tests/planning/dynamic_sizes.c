// The same work at many sizes, bound to plans for many sizes: the bits are those of plans lowered
// for each size, whatever varies; few plans are lowered; memory does not grow; threads may bind one
// graph at once.
#include <pthread.h>
#include <stdlib.h>

#include "lowering/jit/compiler.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "tests/expect.h"
#include "tests/sized_work.h"

enum { MOST_SIZES = 200 };

// ---- work at size n ----

static tc_tensor wide_layer(int64_t n) {
  return tc_gelu(tc_linear(numbers(TC_SHAPE(n, 32)), numbers(TC_SHAPE(1100, 32)), numbers(TC_SHAPE(1100))));
}

static tc_tensor product_across(int64_t n) {
  return tc_matmul(numbers(TC_SHAPE(20, 30)), numbers(TC_SHAPE(30, n)));
}

static tc_tensor slices(int64_t n) {
  tc_tensor x = tc_slice(numbers(TC_SHAPE(4000, 12)), 0, 3, n + 3, 1);
  return tc_mul(x, tc_slice(numbers(TC_SHAPE(12, 12)), 0, 2, 3, 1));
}

static tc_tensor reshapes(int64_t n) {
  tc_tensor x = tc_reshape(tc_exp(numbers(TC_SHAPE(n, 6, 4))), TC_SHAPE(n * 6, 4));
  return tc_reshape(tc_softmax(x, 1), TC_SHAPE(n, 24));
}

static tc_tensor padded_to(int64_t n) {
  return tc_sum(tc_square(tc_pad(numbers(TC_SHAPE(n, 8)), TC_SHAPE(0, 0), TC_SHAPE(4000 - n, 0), 0)), TC_SHAPE(1),
                false);
}

static tc_tensor scores(int64_t n) {
  tc_tensor q = numbers(TC_SHAPE(2, n, 16)), k = tc_permute(tc_cos(q), (tc_dims){3, {0, 2, 1}});
  return tc_matmul(tc_softmax(tc_matmul(q, k), 2), tc_sin(q));
}

static tc_tensor looked_up(int64_t n) {
  tc_tensor at = tc_cast(tc_abs(tc_mul(numbers(TC_SHAPE(n)), tc_full(TC_SHAPE(1), 20, TC_F32))), TC_I64);
  return tc_tanh(tc_index_select(numbers(TC_SHAPE(21, 33)), 0, at));
}

static tc_tensor classes(int64_t n) {
  tc_tensor w = wanting(numbers(TC_SHAPE(12, 32))), x = numbers(TC_SHAPE(n, 32)), dw = {0, 0};
  tc_tensor at = tc_cast(tc_abs(tc_mul(numbers(TC_SHAPE(n)), tc_full(TC_SHAPE(1), 11, TC_F32))), TC_I64);
  tc_tensor loss = tc_cross_entropy(tc_linear(x, w, (tc_tensor){0, 0}), at);
  EXPECT_OK(tc_grads_of(loss, &w, 1, &dw, 0));
  return tc_add(dw, loss);
}

static tc_tensor running_sum(int64_t n) {
  return tc_mul(tc_cumsum(numbers(TC_SHAPE(3, n)), 1), numbers(TC_SHAPE(3, 1)));
}

static tc_tensor mean_of_rows(int64_t n) {
  return tc_mean(tc_softmax(numbers(TC_SHAPE(n, 16)), 1), TC_SHAPE(0), false);
}

static const struct work {
  const char *name;
  tc_tensor (*at)(int64_t n);
  int least, most;  // sizes
  int bound;  // least part of the sizes, in percent, that are bound
} works[] = {{"elementwise", elementwise, 0, 2100, 80},
             {"layers", layers, 0, 2100, 80},
             {"wide_layer", wide_layer, 1, 300, 80},
             {"product_along", product_along, 1, 2100, 0},
             {"product_across", product_across, 1, 2100, 0},
             {"product_deep", product_deep, 1, 150, 0},
             {"products", products, 1, 150, 0},
             {"product_bf16", product_bf16, 1, 300, 0},
             {"rows", rows, 0, 2100, 80},
             {"along_rows", along_rows, 1, 2100, 30},
             {"columns", columns, 1, 2100, 0},
             {"parts", parts, 0, 2100, 0},
             {"slices", slices, 1, 2100, 80},
             {"reshapes", reshapes, 0, 2100, 0},
             {"padded_to", padded_to, 1, 2100, 0},
             {"image", image, 1, 40, 0},
             {"attention", attention, 1, 150, 0},
             {"scores", scores, 1, 300, 0},
             {"by_index", by_index, 1, 300, 0},
             {"looked_up", looked_up, 1, 2100, 0},
             {"gradients", gradients, 1, 2100, 0},
             {"classes", classes, 1, 2100, 0},
             {"mean_of_rows", mean_of_rows, 1, 2100, 50},
             {"running_sum", running_sum, 1, 300, 0}};
enum { N_WORKS = sizeof works / sizeof *works };

// ---- bound, and lowered for each size ----

typedef struct bytes {
  float *at;
  size_t n;
} bytes;

static bytes value_of(const struct work *w, int64_t n) {
  bytes b = {NULL, 1};
  tc_scope scope = tc_scope_begin();
  tc_tensor y = w->at(n);
  tc_dims d = tc_shape(y);
  for (int i = 0; i < d.rank; i++) b.n *= (size_t)d.dim[i];
  b.at = malloc(b.n * sizeof *b.at + 1);
  EXPECT(tc_to_host(y, b.at, b.n * sizeof *b.at) == TC_OK, "%s at %d", w->name, (int)n);
  tc_scope_end(scope);
  return b;
}

static void choose(const char *dynamic) {
  setenv("TC_DYNAMIC", dynamic, 1);
  tc_options_reload();
  tc_cache_clear();
}

static int sizes_of(const struct work *w, int64_t *size) {
  static const int64_t all[] = {40, 41,  7,   1,   64,  65,  63,  128, 3,    2,    100,  257,  33,   32,   31,   5,
                                8,  9,   17,  16,  48,  66,  96,  127, 129,  150,  37,   36,   12,   13,   24,   29,
                                0,  192, 255, 256, 300, 511, 512, 513, 1000, 1023, 1024, 1025, 1537, 2047, 2048, 2049};
  int n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] <= w->most && all[i] >= w->least) size[n++] = all[i];
  for (int64_t s = 1026; strcmp(w->name, "mean_of_rows") == 0 && s < 2000; s += 7) size[n++] = s;  // cut in parts
  return n;
}

// given: sizes to run at instead of all; n_given 0: all.
static void bits_are_the_same(const struct work *w, char **given, int n_given) {
  int64_t size[MOST_SIZES];
  int n = n_given ? TC_MIN(n_given, MOST_SIZES) : sizes_of(w, size);
  for (int i = 0; i < n && n_given; i++) size[i] = atoi(given[i]);
  bytes want[MOST_SIZES];
  choose("0");
  for (int i = 0; i < n; i++) want[i] = value_of(w, size[i]);
  choose("auto");
  uint64_t bound = tc_cache_stats().plan_bound, compiled = tc_cache_stats().compiles;
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < n; i++) {
      bytes b = value_of(w, size[i]);
      EXPECT(b.n == want[i].n && memcmp(b.at, want[i].at, b.n * sizeof *b.at) == 0, "%s at %d has other bits", w->name,
             (int)size[i]);
      free(b.at);
      if (round == 0 && i == n - 1) {
        bound = tc_cache_stats().plan_bound - bound, compiled = tc_cache_stats().compiles - compiled;
        printf("%s: %d of %d sizes bound, %d kernels\n", w->name, (int)bound, n, (int)compiled);
        EXPECT(n_given || (int)bound * 100 >= w->bound * n, "%s", w->name);
      }
    }
  for (int i = 0; i < n; i++) free(want[i].at);
}

// ---- two sizes ----

static tc_tensor tokens(int64_t b, int64_t t) {
  tc_tensor x = tc_reshape(numbers(TC_SHAPE(b, t, 24)), TC_SHAPE(b * t, 24)),
            y = tc_gelu(tc_linear(x, numbers(TC_SHAPE(40, 24)), numbers(TC_SHAPE(40))));
  return tc_softmax(tc_mean(tc_reshape(y, TC_SHAPE(b, t, 40)), TC_SHAPE(2), false), 1);
}

static bytes tokens_at(int64_t b, int64_t t) {
  bytes out = {malloc((size_t)(b * t) * sizeof *out.at), (size_t)(b * t)};
  tc_scope scope = tc_scope_begin();
  EXPECT_OK(tc_to_host(tokens(b, t), out.at, out.n * sizeof *out.at));
  tc_scope_end(scope);
  return out;
}

static uint64_t metric(const char *name) {
  uint64_t value = 0;
  EXPECT_OK(tc_metrics_get(name, &value));
  return value;
}

static void two_sizes_vary(void) {
  enum { N = 60 };
  bytes want[N];
  int64_t b[N], t[N];
  for (int i = 0; i < N; i++) b[i] = 2 + i * 7 % 11, t[i] = 70 + i * 37 % 200;
  b[1] = b[0], t[3] = t[2] = t[1];  // one of them alone at first
  choose("0");
  for (int i = 0; i < N; i++) want[i] = tokens_at(b[i], t[i]);
  choose("auto");
  uint64_t bound = tc_cache_stats().plan_bound;
  for (int i = 0; i < N; i++) {
    tc_sync_point sync;
    uint64_t before = tc_cache_stats().plan_bound, hits = metric("plan_hits");
    bytes got = tokens_at(b[i], t[i]);
    bool is_bound = tc_cache_stats().plan_bound > before;
    EXPECT(memcmp(got.at, want[i].at, got.n * sizeof *got.at) == 0, "%d x %d", (int)b[i], (int)t[i]);
    EXPECT(tc_sync_points(1, &sync) == 1 && sync.bound == is_bound && (!is_bound || sync.hit), "%d: %d %d", i,
           sync.bound, sync.hit);
    EXPECT(metric("plan_hits") == hits + sync.hit, "%d: %d", i, (int)(metric("plan_hits") - hits));
    free(got.at);
  }
  bound = tc_cache_stats().plan_bound - bound;
  printf("two sizes: %d of %d bound\n", (int)bound, N);
  EXPECT(bound > N / 2, "%d", (int)bound);
  for (int i = 0; i < N; i++) free(want[i].at);
}

// With TC_DYNAMIC=1 the second size is bound already, and what was guessed wrongly does no harm.
static void first_sizes_are_guessed(void) {
  for (int k = 0; k < N_WORKS; k++) {
    bytes want[4];
    const int64_t size[] = {71, 96, 83, 300};
    int n = works[k].most >= 300 ? 4 : works[k].most >= 96 ? 3 : 0;
    choose("0");
    for (int i = 0; i < n; i++) want[i] = value_of(&works[k], size[i]);
    choose("1");
    for (int i = 0; i < n; i++) {
      bytes b = value_of(&works[k], size[i]);
      EXPECT(b.n == want[i].n && memcmp(b.at, want[i].at, b.n * sizeof *b.at) == 0, "%s at %d", works[k].name,
             (int)size[i]);
      free(b.at), free(want[i].at);
    }
  }
  choose("1");
  tc_tensor w = tc_param(numbers(TC_SHAPE(16, 24))), b = tc_param(numbers(TC_SHAPE(16)));
  uint64_t bound = 0;
  EXPECT_OK(tc_eval(2, (tc_tensor[]){w, b}));
  for (int64_t n = 40; n < 43; n++) {
    tc_scope scope = tc_scope_begin();
    float out[43 * 16];
    if (n == 41) bound = tc_cache_stats().plan_bound;
    tc_no_grad_begin();
    EXPECT_OK(tc_to_host(tc_relu(tc_linear(numbers(TC_SHAPE(n, 24)), w, b)), out, (size_t)n * 16 * sizeof *out));
    tc_no_grad_end();
    tc_scope_end(scope);
  }
  EXPECT(tc_cache_stats().plan_bound == bound + 2, "%d", (int)(tc_cache_stats().plan_bound - bound));
  tc_release(w), tc_release(b);
}

// ---- training ----

static void train(const char *dynamic, float *out, size_t n) {
  choose(dynamic);
  tc_tensor p[2] = {tc_param(tc_mul(numbers(TC_SHAPE(16, 12)), numbers(TC_SHAPE(1)))), tc_param(numbers(TC_SHAPE(16)))};
  tc_optimizer *adam = tc_adam(p, 2, (tc_adam_options){.lr = 0.01});
  for (int64_t i = 0; i < 40; i++) {
    tc_scope scope = tc_scope_begin();
    int64_t rows = 3 + i * 29 % 90;
    tc_tensor loss = tc_mean(tc_square(tc_tanh(tc_linear(numbers(TC_SHAPE(rows, 12)), p[0], p[1]))), TC_ALL, false);
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(adam));
    EXPECT_OK(tc_zero_grad(adam));
    tc_scope_end(scope);
  }
  EXPECT_OK(tc_to_host(p[0], out, n * sizeof *out));
  tc_optimizer_destroy(adam);
  tc_release(p[0]), tc_release(p[1]);
}

static void training_has_the_same_bits(void) {
  enum { N = 16 * 12 };
  float want[N], got[N];
  train("0", want, N);
  train("auto", got, N);
  EXPECT(memcmp(want, got, sizeof want) == 0, "after 40 steps of other batches");
}

// Two layers, cross entropy and Adam: a batch of any size beyond 64, and of most from 33 on, is bound.
static int train_classifier(const char *dynamic, float *out, size_t n) {
  enum { STEPS = 90, MOST_ROWS = 900 };
  static int64_t label[MOST_ROWS];
  float value;
  for (int i = 0; i < MOST_ROWS; i++) label[i] = i % 10;
  choose(dynamic);
  tc_tensor p[4] = {tc_param(numbers(TC_SHAPE(32, 20))), tc_param(numbers(TC_SHAPE(32))),
                    tc_param(numbers(TC_SHAPE(10, 32))), tc_param(numbers(TC_SHAPE(10)))};
  tc_optimizer *adam = tc_adam(p, 4, (tc_adam_options){.lr = 0.01});
  uint64_t bound = tc_cache_stats().plan_bound;
  for (int64_t i = 0; i < STEPS; i++) {
    tc_scope scope = tc_scope_begin();
    int64_t rows = 40 + i * 211 % 600;
    tc_tensor h = tc_relu(tc_linear(numbers(TC_SHAPE(rows, 20)), p[0], p[1]));
    tc_tensor at = tc_from_host(label, TC_SHAPE(rows), TC_I64);
    tc_tensor loss = tc_cross_entropy(tc_linear(h, p[2], p[3]), at);
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(adam));
    EXPECT_OK(tc_zero_grad(adam));
    EXPECT_OK(tc_item_f32(loss, &value));
    tc_scope_end(scope);
  }
  EXPECT_OK(tc_to_host(p[0], out, n * sizeof *out));
  bound = tc_cache_stats().plan_bound - bound;
  tc_optimizer_destroy(adam);
  for (int i = 0; i < 4; i++) tc_release(p[i]);
  return (int)bound;
}

static void most_steps_of_a_classifier_are_bound(void) {
  enum { N = 32 * 20 };
  float want[N], got[N];
  (void)train_classifier("0", want, N);
  int bound = train_classifier("auto", got, N);
  printf("classifier: %d of 90 steps bound\n", bound);
  EXPECT(bound >= 80, "%d of 90 steps", bound);
  EXPECT(memcmp(want, got, sizeof want) == 0, "after 90 steps of other batches");
}

// ---- memory, and threads ----

// The table of shapes grows by each new shape, and nothing else does.
static void memory_does_not_grow(void) {
  enum { WARM = 500, LAST = 4000 };
  choose("auto");
  size_t held = 0;
  uint64_t compiled = 0;
  for (int64_t n = 40; n < LAST; n++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor y = tc_softmax(tc_linear(numbers(TC_SHAPE(n, 24)), numbers(TC_SHAPE(16, 24)), numbers(TC_SHAPE(16))), 1);
    float one;
    EXPECT_OK(tc_to_host(tc_reshape(tc_slice(y, 0, n - 1, n, 1), TC_SHAPE(16)), (float[16]){0}, sizeof one * 16));
    tc_scope_end(scope);
    if (n == WARM) held = tc_memory_stats().plan_bytes, compiled = tc_cache_stats().compiles;
  }
  EXPECT(tc_memory_stats().plan_bytes <= held + ((size_t)64 << 10), "%zu bytes of plans, before %zu",
         tc_memory_stats().plan_bytes, held);
  EXPECT(tc_cache_stats().compiles <= compiled + 2, "%d kernels", (int)(tc_cache_stats().compiles - compiled));
}

static void *run_many(void *seed) {
  for (int64_t i = 0, x = (int64_t)(intptr_t)seed; i < 120; i++) {
    x = (x * 1103515245 + 12345) & 0x7fffffff;
    int64_t n = 2 + x / 7 % 298;
    float got[300];
    tc_scope scope = tc_scope_begin();
    EXPECT_OK(tc_to_host(tc_sum(tc_exp(numbers(TC_SHAPE(n, 40))), TC_SHAPE(1), false), got, (size_t)n * sizeof *got));
    tc_scope_end(scope);
    float whole[1] = {0};
    scope = tc_scope_begin();
    EXPECT_OK(tc_to_host(tc_sum(tc_exp(tc_slice(numbers(TC_SHAPE(300, 40)), 0, n - 1, n, 1)), TC_SHAPE(1), false),
                         whole, sizeof whole));
    tc_scope_end(scope);
    EXPECT(memcmp(&got[n - 1], whole, sizeof whole) == 0, "%d", (int)n);
  }
  return NULL;
}

static void threads_bind_one_graph(void) {
  enum { N = 4 };
  pthread_t of[N];
  choose("auto");
  for (intptr_t i = 0; i < N; i++) (void)pthread_create(&of[i], NULL, run_many, (void *)(i + 1));
  for (int i = 0; i < N; i++) (void)pthread_join(of[i], NULL);
}

// Arguments, for debugging: the name of one work, and sizes; or "threads".
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("TC_CACHE_BYTES", "0", 1);
  for (int k = 0; k < N_WORKS; k++)
    if (argc < 2 || strcmp(argv[1], works[k].name) == 0) bits_are_the_same(&works[k], argv + 2, TC_MAX_OF(argc - 2, 0));
  (void)numbers(TC_SHAPE(1));
  if (argc == 2 && strcmp(argv[1], "threads") == 0) threads_bind_one_graph();
  if (argc < 2) {
    two_sizes_vary();
    first_sizes_are_guessed();
    training_has_the_same_bits();
    most_steps_of_a_classifier_are_bound();
    memory_does_not_grow();
    threads_bind_one_graph();
  }
  tc_cache_clear();
  tc_shutdown();
  return expect_done("planning-dynamic_sizes");
}
