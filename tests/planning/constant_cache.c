// Prepared values: what a run makes of parameters alone is kept for the next one, has the same
// bits, goes when a parameter is written or released, is shared by plans, counted, given back when
// memory is short, and left out where it has no room.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tc/io.h>
#include <tc/nn.h>
#include <unistd.h>

#include "lowering/target/cpu_target.h"
#include "runtime/options.h"
#include "tests/expect.h"

enum { C = 16, SIDE = 8, N_OUT = 10 };

typedef struct net {
  tc_tensor filter[2], gain, bias, fc;
  tc_optimizer *opt;
} net;

static tc_tensor numbers(tc_dims d, double scale) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  return tc_reshape(tc_mul(tc_sin(tc_mul(tc_arange(0, (double)n, 1, TC_F32), 0.7)), scale), d);
}

static net net_make(void) {
  tc_scope s = tc_scope_begin();
  net m = {.filter = {tc_param(numbers(TC_SHAPE(C, C, 3, 3), 0.1)), tc_param(numbers(TC_SHAPE(C, C, 3, 3), 0.2))},
           .gain = tc_param(numbers(TC_SHAPE(C, 1, 1), 1)),
           .bias = tc_param(numbers(TC_SHAPE(N_OUT), 1)),
           .fc = tc_param(numbers(TC_SHAPE(N_OUT, C), 0.3))};
  tc_tensor all[] = {m.filter[0], m.filter[1], m.gain, m.bias, m.fc};
  EXPECT_OK(tc_eval(5, all));
  m.opt = tc_sgd(all, 5, (tc_sgd_options){.lr = 0.01});
  tc_scope_end(s);
  return m;
}

static void net_drop(net *m) {
  tc_optimizer_destroy(m->opt);
  tc_tensor all[] = {m->filter[0], m->filter[1], m->gain, m->bias, m->fc};
  for (int i = 0; i < 5; i++) tc_release(all[i]);
}

static tc_tensor forward(const net *m, int batch) {
  tc_conv_options same = {.padding = TC_SHAPE(1)};
  tc_tensor h = numbers(TC_SHAPE(batch, C, SIDE, SIDE), 1);
  for (int i = 0; i < 2; i++)
    h = tc_relu(
        tc_mul(tc_conv2d(h, m->filter[i], (tc_tensor){0, 0}, same), tc_rsqrt(tc_add(tc_square(m->gain), 1e-5))));
  return tc_linear(tc_mean(h, TC_AXES(2, 3), false), m->fc, m->bias);
}

// The results of a run, and its kernels.
static tc_sync_point run(const net *m, int batch, float *out) {
  tc_sync_point p = {0};
  tc_scope s = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor y = forward(m, batch);
  tc_no_grad_end();
  EXPECT_OK(tc_to_host(y, out, (size_t)batch * N_OUT * sizeof *out));
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  tc_scope_end(s);
  return p;
}

static size_t kept(void) {
  return tc_memory_stats().prepared_bytes;
}

static void set_option(const char *value) {
  setenv("TC_PREPARE", value, 1);
  tc_options_reload();
}

// What runs without cached constants give now.
static void expect_like_unprepared(const net *m, const float *got, const char *when) {
  float want[N_OUT];
  set_option("0");
  run(m, 1, want);
  set_option("1");
  EXPECT(memcmp(got, want, sizeof want) == 0, "%s: %g, should be %g", when, (double)got[0], (double)want[0]);
}

static void second_run_skips(void) {
  net m = net_make();
  float first[N_OUT], second[N_OUT], off[N_OUT];
  EXPECT(kept() == 0, "%zu bytes kept before anything ran", kept());
  tc_sync_point a = run(&m, 1, first), b = run(&m, 1, second);
  EXPECT(kept() >= 2 * C * C * 9 * sizeof(float), "%zu bytes kept", kept());
  EXPECT(a.n_kernels > b.n_kernels && a.bytes > b.bytes, "%u kernels, then %u; %llu bytes, then %llu", a.n_kernels,
         b.n_kernels, (unsigned long long)a.bytes, (unsigned long long)b.bytes);
  set_option("0");
  tc_sync_point c = run(&m, 1, off), d = run(&m, 1, off);
  set_option("1");
  EXPECT(c.n_kernels == a.n_kernels && d.n_kernels == a.n_kernels && d.bytes == a.bytes,
         "%u and %u kernels when nothing is prepared, %u when all is", c.n_kernels, d.n_kernels, a.n_kernels);
  EXPECT(!memcmp(first, second, sizeof first) && !memcmp(first, off, sizeof first), "bits differ");
  net_drop(&m);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(kept() == 0, "%zu bytes kept of parameters that are gone", kept());
}

static void plans_share(void) {
  net m = net_make();
  float out[3 * N_OUT];
  run(&m, 1, out);
  size_t of_one = kept();
  tc_sync_point p = run(&m, 3, out), q = run(&m, 3, out);
  EXPECT(!p.hit && kept() == of_one, "another batch: %zu bytes kept, %zu before", kept(), of_one);
  EXPECT(p.n_kernels == q.n_kernels, "another batch prepares again: %u kernels, then %u", p.n_kernels, q.n_kernels);
  net_drop(&m);
}

static void writes_are_seen(void) {
  net m = net_make();
  float before[N_OUT], after[N_OUT];
  int64_t at[] = {0, 0, 0, 0};
  run(&m, 1, before);
  for (int way = 0; way < 4; way++) {
    static const char *const said[] = {"assign", "assign_slice", "copy from host", "optimizer step"};
    static float host[C * C * 9];
    size_t had = kept();
    tc_scope s = tc_scope_begin();
    if (way == 0) EXPECT_OK(tc_assign(m.filter[0], tc_mul(m.filter[0], 1.5)));
    if (way == 1) EXPECT_OK(tc_assign_slice(m.filter[1], at, NULL, NULL, tc_ones(TC_SHAPE(C, C, 1, 1), TC_F32)));
    for (int i = 0; i < C * C * 9; i++) host[i] = (float)(i % 7) * 0.1f;
    if (way == 2) EXPECT_OK(tc_assign(m.filter[0], tc_from_host(host, TC_SHAPE(C, C, 3, 3), TC_F32)));
    if (way == 3) {
      EXPECT_OK(tc_backward(tc_mean(forward(&m, 1), TC_ALL, false)));
      EXPECT_OK(tc_optimizer_step(m.opt));
      EXPECT_OK(tc_zero_grad(m.opt));
    }
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
    EXPECT(kept() < had, "%s: %zu bytes kept as before", said[way], kept());
    run(&m, 1, after);
    EXPECT(memcmp(before, after, sizeof before) != 0, "%s: not seen", said[way]);
    expect_like_unprepared(&m, after, said[way]);
    EXPECT(kept() == had, "%s: %zu bytes kept, %zu before", said[way], kept(), had);
    memcpy(before, after, sizeof before);
  }
  net_drop(&m);
}

// In the trace of the run, where nothing may be kept of what is written.
static void writes_in_the_same_trace(void) {
  net m = net_make();
  float out[N_OUT];
  run(&m, 1, out);
  for (int i = 0; i < 3; i++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_assign(m.filter[0], tc_mul(m.filter[0], 0.9)));
    tc_scope_end(s);
    run(&m, 1, out);
    expect_like_unprepared(&m, out, "assigned before the run");
  }
  net_drop(&m);
}

static void eval_and_train_do_not_grow(void) {
  net m = net_make();
  float out[N_OUT];
  size_t of_first = 0, live = 0;
  for (int i = 0; i < 12; i++) {
    run(&m, 1, out);
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_backward(tc_mean(forward(&m, 2), TC_ALL, false)));
    EXPECT_OK(tc_optimizer_step(m.opt));
    EXPECT_OK(tc_zero_grad(m.opt));
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
    if (i == 1) of_first = kept(), live = tc_memory_stats().live_bytes;
    if (i > 1)
      EXPECT(kept() == of_first && tc_memory_stats().live_bytes == live, "round %d: %zu bytes kept of %zu", i, kept(),
             of_first);
  }
  net_drop(&m);
}

static void memory_is_given_back(void) {
  net m = net_make();
  float out[N_OUT], again[N_OUT];
  run(&m, 1, out);
  tc_trim();
  EXPECT(kept() == 0, "%zu bytes kept after trim", kept());
  run(&m, 1, again);
  EXPECT(kept() > 0 && !memcmp(out, again, sizeof out), "after trim");
  tc_cache_clear();
  EXPECT(kept() == 0, "%zu bytes kept after the caches were emptied", kept());
  run(&m, 1, out);
  // Where the cap leaves room for all but what is kept, that goes first.
  size_t had = kept();
  tc_tensor big = tc_ones(TC_SHAPE(1 << 18), TC_F32);
  EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + ((size_t)1 << 20) - had / 2));
  EXPECT_OK(tc_eval(1, &big));
  EXPECT(kept() == 0, "%zu bytes kept where memory is short", kept());
  EXPECT_OK(tc_set_memory_cap(0));
  run(&m, 1, again);
  EXPECT(!memcmp(out, again, sizeof out), "after memory was short");
  net_drop(&m);
}

// No more than a few bytes for a byte of parameters: data that is a parameter is no reason to keep
// all that is made of it.
static void data_is_not_kept(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor data = tc_param(numbers(TC_SHAPE(64, 64), 1)), sum = tc_zeros(TC_SHAPE(64, 64), TC_F32);
  EXPECT_OK(tc_eval(1, &data));
  for (int i = 0; i < 20; i++) sum = tc_add(sum, tc_cumsum(tc_mul(data, i), 1));
  EXPECT_OK(tc_eval(1, &sum));
  EXPECT(kept() == 0, "%zu bytes kept of %d", kept(), 64 * 64 * 4);
  tc_release(data);
  tc_scope_end(s);
}

// The scalar is no part of the plan, but of what is kept: one form at a time.
static void scalars_count(void) {
  float got[4], want[4] = {0};
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(tc_ones(TC_SHAPE(4, 4), TC_F32)), x = tc_ones(TC_SHAPE(1, 4), TC_F32);
  tc_tensor all[] = {w, x};
  EXPECT_OK(tc_eval(2, all));
  size_t of_one = 0;
  for (int i = 1; i < 6; i++) {
    tc_tensor y = tc_matmul(x, tc_mul(w, i / 2));
    for (int k = 0; k < 4; k++) want[k] = (float)(4 * (i / 2));
    EXPECT_OK(tc_to_host(y, got, sizeof got));
    EXPECT(!memcmp(got, want, sizeof got), "times %d: %g", i / 2, (double)got[0]);
    if (i == 1) of_one = kept();
    EXPECT(of_one > 0 && kept() == of_one, "times %d: %zu bytes kept of %zu", i / 2, kept(), of_one);
  }
  // What is lent may be written by others, and so is not kept until it is given back.
  const void *seen;
  void *share;
  EXPECT_OK(tc_map_shared(w, &seen, &share));
  EXPECT(kept() == 0, "%zu bytes kept of what is lent", kept());
  EXPECT_OK(tc_to_host(tc_matmul(x, tc_mul(w, 2)), got, sizeof got));
  EXPECT(kept() == 0 && got[0] == 8, "%zu bytes kept of what is lent", kept());
  const void *again;
  void *second;
  EXPECT_OK(tc_map_shared(w, &again, &second));
  tc_unmap_shared(share);
  EXPECT_OK(tc_to_host(tc_matmul(x, tc_mul(w, 2)), got, sizeof got));
  EXPECT(kept() == 0, "%zu bytes kept of what is lent once more", kept());
  tc_unmap_shared(second);
  EXPECT_OK(tc_to_host(tc_matmul(x, tc_mul(w, 3)), got, sizeof got));
  EXPECT(kept() == of_one && got[0] == 12, "%zu bytes kept of what was given back, of %zu", kept(), of_one);
  tc_release(w);
  tc_scope_end(s);
}

enum { SQUARE = 256 };

// Of memory of the caller forms are kept if nobody writes there; weights from a file are such
// memory.
static void constants_are_kept(void) {
  static float mine[SQUARE * SQUARE];
  static const int flags[] = {TC_READ_ONLY, TC_CONSTANT};
  float want[8 * SQUARE], got[8 * SQUARE];
  for (int i = 0; i < SQUARE * SQUARE; i++) mine[i] = (float)(i % 13) - 6;
  for (int f = 0; f < 2; f++) {
    tc_scope s = tc_scope_begin();
    tc_tensor x = numbers(TC_SHAPE(8, SQUARE), 1),
              w = tc_param(tc_borrow(mine, TC_SHAPE(SQUARE, SQUARE), TC_F32, flags[f], NULL, NULL));
    tc_no_grad_begin();
    for (int i = 0; i < 3; i++) EXPECT_OK(tc_to_host(tc_matmul(x, tc_transpose(w, 0, 1)), f ? got : want, sizeof got));
    tc_no_grad_end();
    EXPECT(f == 0 || !memcmp(got, want, sizeof got), "borrowed with %d", flags[f]);
    EXPECT((kept() > 0) == (flags[f] == TC_CONSTANT), "%zu bytes kept of memory borrowed with %d", kept(), flags[f]);
    tc_release(w);
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
    EXPECT(kept() == 0, "%zu bytes kept of what was released", kept());
  }
  EXPECT_FAILS(tc_borrow(mine, TC_SHAPE(4), TC_F32, TC_WRITABLE | TC_CONSTANT, NULL, NULL), TC_ERR_ARG,
               "the flags are 3");
}

// A file's weights keep their forms when they are loaded, and after they were saved.
static void weights_of_files_are_kept(void) {
  char path[] = "/tmp/tc-prepared-XXXXXX";
  float want[8 * SQUARE], got[8 * SQUARE];
  int fd = mkstemp(path);
  tc_scope s = tc_scope_begin();
  tc_nn_params *p = tc_nn_params_create();
  EXPECT_OK(tc_nn_add_linear(p, "l", SQUARE, SQUARE, true));
  tc_tensor x = numbers(TC_SHAPE(8, SQUARE), 1);
  if (tc_nn_save(p, path) == TC_OK) {  // else there is no safetensors in this build
    tc_archive *file = tc_safetensors_open(path);
    EXPECT_OK(tc_nn_load(p, file, NULL));
    tc_archive_close(file);
    for (int saved = 0; saved < 2; saved++) {
      tc_no_grad_begin();
      // the first one loads, too
      for (int i = 0; i < 2; i++) EXPECT_OK(tc_to_host(tc_nn_linear(p, "l", x), saved ? got : want, sizeof got));
      tc_no_grad_end();
      EXPECT(kept() > 0, "nothing is kept of weights of a file%s", saved ? " that were saved again" : "");
      EXPECT_OK(tc_nn_save(p, path));
    }
    EXPECT(!memcmp(got, want, sizeof got), "after saving");
  }
  tc_clear_error();
  tc_nn_params_destroy(p);
  tc_scope_end(s);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(kept() == 0, "%zu bytes kept of what was released", kept());
  close(fd);
  unlink(path);
}

enum { MOST = 1025 * 512 };

// gelu(x @ w + b), or x @ w alone, of a parameter that lies as w or as its transpose.
static void product(tc_tensor x, tc_tensor w, tc_tensor b, bool turned, bool alone, float *out, size_t bytes) {
  tc_scope s = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor y = tc_matmul(x, turned ? tc_transpose(w, 0, 1) : w);
  if (!alone) y = tc_gelu(tc_add(y, b));
  tc_no_grad_end();
  EXPECT_OK(tc_to_host(tc_cast(y, TC_F32), out, bytes));
  tc_scope_end(s);
}

// A factor in panels is the same numbers in another order in memory.
static void panels_keep_the_bits(void) {
  static const struct {
    int64_t m, k, n;
    tc_type type;
    bool panels;  // whether it is kept in them; of bf16 and 16 rows or more, where pairs are multiplied
  } of[] = {{7, 129, 128, TC_F32, true},     {6, 129, 128, TC_F32, true},    {49, 64, 512, TC_F32, true},
            {128, 256, 192, TC_F32, true},   {100, 4100, 64, TC_F32, true},  {1000, 70, 320, TC_F32, true},
            {1025, 32, 512, TC_F32, false},  {13, 500, 33, TC_F32, false},   {64, 192, 96, TC_F64, true},
            {256, 1024, 1024, TC_F32, true}, {9, 2176, 48, TC_F64, true},    {16, 256, 128, TC_BF16, true},
            {15, 256, 128, TC_BF16, true},   {49, 64, 512, TC_BF16, true},   {1000, 70, 320, TC_BF16, true},
            {33, 4100, 96, TC_BF16, true},   {64, 129, 128, TC_BF16, false}, {1025, 32, 512, TC_BF16, false},
            {1, 300, 128, TC_F32, true},     {1, 5000, 64, TC_F32, true},    {1, 400, 80, TC_F64, true},
            {1, 256, 192, TC_BF16, true},    {3, 130, 192, TC_BF16, true},   {5, 5000, 64, TC_BF16, true},
            {2, 129, 128, TC_BF16, false},   {1, 200, 4113, TC_F32, true},   {6, 40, 4200, TC_BF16, true},
            {7, 40, 4113, TC_F32, false}};
  float *got = malloc(MOST * sizeof *got), *want = malloc(MOST * sizeof *want);
  EXPECT(got && want, "no memory");
  for (size_t i = 0; i < sizeof of / sizeof of[0] && got && want; i++)
    for (int way = 0; way < 8; way++) {
      int64_t m = of[i].m, k = of[i].k, n = of[i].n;
      bool turned = way & 1, alone = way & 2, down = way & 4;
      const tc_isa *isa = tc_compiler_isa();
      bool pairs = (isa->dots || isa->tiles) && !tc_options_get()->strict,
           panels = of[i].panels && (of[i].type != TC_BF16 || m < 16 || pairs);
      size_t bytes = (size_t)(m * n) * sizeof *got;
      tc_scope s = tc_scope_begin();
      tc_tensor rows = tc_cast(numbers(down ? TC_SHAPE(k, m) : TC_SHAPE(m, k), 1), of[i].type),
                b = tc_cast(numbers(TC_SHAPE(n), 1), of[i].type);
      tc_tensor w = tc_param(tc_cast(numbers(turned ? TC_SHAPE(n, k) : TC_SHAPE(k, n), 1), of[i].type)),
                all[] = {rows, b, w};
      EXPECT_OK(tc_eval(3, all));
      tc_tensor x = down ? tc_transpose(rows, 0, 1) : rows;
      product(x, w, b, turned, alone, got, bytes);
      int64_t columns = m <= 6 && n > 4096 ? n - n % 64 : n;  // of few rows a result of many columns is joined of two
      size_t matrix = (size_t)(k * columns) * tc_type_bytes(of[i].type);
      EXPECT(kept() >= (panels ? matrix : 0) && (panels || kept() == 0), "[%d %d] @ [%d %d]: %zu bytes kept", (int)m,
             (int)k, (int)k, (int)n, kept());
      product(x, w, b, turned, alone, got, bytes);
      set_option("0");
      product(x, w, b, turned, alone, want, bytes);
      set_option("1");
      EXPECT(!memcmp(got, want, bytes), "[%d %d] @ [%d %d]%s: other bits", (int)m, (int)k, (int)k, (int)n,
             turned ? " turned" : "");
      EXPECT_OK(tc_assign(w, tc_mul(w, 2)));
      product(x, w, b, turned, true, got, bytes);
      product(x, tc_detach(w), b, turned, true, want, bytes);
      EXPECT(!memcmp(got, want, bytes), "[%d %d] @ [%d %d]%s: what was written is not seen", (int)m, (int)k, (int)k,
             (int)n, turned ? " turned" : "");
      tc_release(w);
      tc_scope_end(s);
    }
  free(got), free(want);
}

// A factor that the caller laid out in panels is read as it lies, of whatever width.
static void panels_of_the_caller(void) {
  for (int64_t lanes = 2; lanes <= 128; lanes *= 2) {
    enum { M = 9, K = 40, N = 256 };
    float got[M * N], want[M * N], plain[K * N];
    tc_scope s = tc_scope_begin();
    tc_tensor x = numbers(TC_SHAPE(M, K), 1), w = numbers(TC_SHAPE(N / lanes, K, lanes), 1), all[] = {x, w};
    EXPECT_OK(tc_eval(2, all));
    tc_tensor b = tc_reshape(tc_permute(w, TC_AXES(1, 0, 2)), TC_SHAPE(K, N));
    EXPECT_OK(tc_to_host(tc_matmul(x, b), got, sizeof got));
    EXPECT_OK(tc_to_host(b, plain, sizeof plain));
    EXPECT_OK(tc_to_host(tc_matmul(x, tc_from_host(plain, TC_SHAPE(K, N), TC_F32)), want, sizeof want));
    EXPECT(!memcmp(got, want, sizeof got), "panels of %d columns: other bits", (int)lanes);
    tc_scope_end(s);
  }
}

// A pass that is to be differentiated uses its parameters once: they change next.
static void history_keeps_no_panels(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(numbers(TC_SHAPE(256, 256), 1)), x = numbers(TC_SHAPE(32, 256), 1), all[] = {w, x};
  EXPECT_OK(tc_eval(2, all));
  tc_tensor loss = tc_sum(tc_square(tc_matmul(x, w)), TC_ALL, false);
  EXPECT_OK(tc_backward(loss));
  EXPECT_OK(tc_eval(1, &loss));
  EXPECT(kept() == 0, "%zu bytes kept", kept());
  tc_release(w);
  tc_scope_end(s);
}

// A factor that a training step reads more than once is packed once in each, of numbers that the
// step before assigned. The bits are those of steps that pack it at each use.
static void a_step_packs_a_factor_once(void) {
  enum { M = 16, N = 64, STEPS = 3 };
  float got[2][N * N];
  for (int round = 0; round < 2; round++) {
    set_option(round ? "0" : "1");
    tc_scope s = tc_scope_begin();
    tc_tensor w = tc_param(numbers(TC_SHAPE(4 * N, N), 1)), x = numbers(TC_SHAPE(M, N), 1), all[] = {w, x};
    EXPECT_OK(tc_eval(2, all));
    tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 1e-3});
    for (int i = 0; i < STEPS; i++) {
      tc_scope step = tc_scope_begin();
      tc_tensor y = tc_linear(x, w, (tc_tensor){0, 0}),
                z = tc_linear(tc_tanh(tc_slice(y, 1, 0, N, 1)), w, (tc_tensor){0, 0});
      EXPECT_OK(tc_backward(tc_add(tc_mean(tc_square(y), TC_ALL, false), tc_mean(tc_square(z), TC_ALL, false))));
      EXPECT_OK(tc_optimizer_step(opt));
      EXPECT_OK(tc_zero_grad(opt));
      tc_scope_end(step);
      EXPECT_OK(tc_eval(1, &w));
      EXPECT(kept() == 0, "%zu bytes kept after step %d", kept(), i);
    }
    EXPECT_OK(tc_to_host(tc_slice(w, 0, 0, N, 1), got[round], sizeof got[round]));
    tc_optimizer_destroy(opt);
    tc_release(w);
    tc_scope_end(s);
  }
  set_option("1");
  EXPECT(!memcmp(got[0], got[1], sizeof got[0]), "a factor packed once a step: other bits");
}

// Products of few and of more rows in one run read the same form of a factor, or each what suits
// it.
static void shared_factors_keep_the_bits(void) {
  enum { K = 40, M = 10 };
  static const int64_t columns[] = {4112, 4113, 4160};
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
    for (int few_first = 0; few_first < 2; few_first++) {
      int64_t n = columns[i];
      tc_scope s = tc_scope_begin();
      tc_tensor w = tc_param(numbers(TC_SHAPE(K, n), 1)), x[2], y[2], all[3];
      for (int k = 0; k < 2; k++) x[k] = numbers(TC_SHAPE((k == 0) == (few_first == 1) ? 3 : M, K), 1), all[k] = x[k];
      all[2] = w;
      EXPECT_OK(tc_eval(3, all));
      float *got[2][2] = {{NULL}};
      for (int round = 0; round < 2; round++) {
        set_option(round ? "0" : "1");
        tc_no_grad_begin();
        for (int k = 0; k < 2; k++) y[k] = tc_matmul(x[k], w);
        tc_no_grad_end();
        EXPECT_OK(tc_eval(2, y));
        for (int k = 0; k < 2; k++) {
          size_t bytes = (size_t)tc_numel(y[k]) * sizeof(float);
          got[round][k] = malloc(bytes);
          EXPECT_OK(tc_to_host(y[k], got[round][k], bytes));
          if (round) EXPECT(!memcmp(got[0][k], got[1][k], bytes), "two products with %d columns: other bits", (int)n);
        }
      }
      set_option("1");
      for (int k = 0; k < 4; k++) free(got[k / 2][k % 2]);
      tc_release(w);
      tc_scope_end(s);
    }
}

// What is packed for one row is not packed again for every run where parameters change in between,
// and again once they stay.
static void few_rows_keep_what_stays(void) {
  enum { K = 256, N = 192, RUNS = 24 };
  float got[N], want[N];
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(numbers(TC_SHAPE(K, N), 1)), x = numbers(TC_SHAPE(1, K), 1), all[] = {w, x};
  EXPECT_OK(tc_eval(2, all));
  int n_kept = 0;
  for (int i = 0; i < RUNS; i++) {
    tc_scope step = tc_scope_begin();
    bool writes = i < RUNS / 2 || i == RUNS - 1;
    tc_no_grad_begin();
    if (writes) EXPECT_OK(tc_assign(w, tc_mul(w, 1.125)));
    EXPECT_OK(tc_eval(1, &w));
    size_t before = kept();
    EXPECT_OK(tc_to_host(tc_matmul(x, w), got, sizeof got));
    n_kept += i < RUNS / 2 && kept() > before;
    if (i == RUNS / 2 + 2 || i == RUNS - 1)
      EXPECT(kept() >= sizeof(float) * K * N, "nothing is kept of what stays: %zu bytes", kept());
    tc_no_grad_end();
    set_option("0");
    product(x, w, x, false, true, want, sizeof want);
    set_option("1");
    EXPECT(!memcmp(got, want, sizeof got), "run %d: other bits", i);
    tc_scope_end(step);
  }
  EXPECT(n_kept <= 2, "packed in %d of %d runs between which the parameter changed", n_kept, RUNS / 2);
  tc_release(w);
  tc_scope_end(s);
}

// ---- where memory is short ----

enum { N_LAYERS = 8, WIDTH = 512, N_ROWS = 8, STACK_OUT = N_ROWS * WIDTH };
static const size_t stack_forms = (size_t)N_LAYERS * WIDTH * WIDTH * sizeof(float);  // panels of all its factors
static tc_tensor stack[N_LAYERS];
static float stack_wants[STACK_OUT];

static tc_status stack_run(float *out, tc_sync_point *p) {
  tc_scope s = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor x = numbers(TC_SHAPE(N_ROWS, WIDTH), 1);
  for (int i = 0; i < N_LAYERS; i++) x = tc_relu(tc_matmul(x, stack[i]));
  tc_no_grad_end();
  tc_status st = tc_to_host(x, out, STACK_OUT * sizeof *out);
  EXPECT(tc_sync_points(1, p) == 1, "no sync point");
  tc_scope_end(s);
  return st;
}

// The same bits as ever under this cap, 0: none. Returns the last run.
static tc_sync_point stack_under(size_t cap, int n_runs) {
  static float got[STACK_OUT];
  tc_sync_point p = {0};
  EXPECT_OK(tc_set_memory_cap(cap));
  for (int i = 0; i < n_runs; i++) {
    memset(got, 0, sizeof got);
    EXPECT(stack_run(got, &p) == TC_OK && !memcmp(got, stack_wants, sizeof got), "run %d under a cap of %zu bytes", i,
           cap);
    EXPECT(tc_last_error()->status == TC_OK, "an error is left");
    tc_clear_error();
  }
  EXPECT_OK(tc_set_memory_cap(0));
  return p;
}

static void count_left_out(const char *line, void *n) {
  *(int *)n += strstr(line, "of cached constants") != NULL;
}

// Where a cap leaves no room for what a run would prepare, it makes what it needs, keeps nothing,
// and says so in the log. With room there are cached constants again.
static void caps_leave_forms_out(void) {
  static const size_t short_mb[] = {1, 2, 4, 8};
  size_t live = tc_memory_stats().live_bytes;
  int n_said = 0;
  for (int kept_before = 0; kept_before < 2; kept_before++)
    for (size_t i = 0; i < sizeof short_mb / sizeof short_mb[0]; i++) {
      if (kept_before) stack_under(0, 1);
      EXPECT(kept() == (kept_before ? stack_forms : 0), "%zu bytes kept", kept());
      tc_sync_point p = stack_under(live + short_mb[i] * 1000000, 3);
      EXPECT(kept() == 0 && p.hit, "%zu bytes kept with %zu MB", kept(), short_mb[i]);
    }
  setenv("TC_LOG", "memory", 1);
  tc_options_reload();
  tc_set_log(count_left_out, &n_said);
  stack_under(live + 4000000, 1);
  tc_set_log(NULL, NULL);
  unsetenv("TC_LOG");
  tc_options_reload();
  EXPECT(n_said == 1, "said %d times", n_said);
  tc_sync_point made = stack_under(live + 10000000, 1), found = stack_under(live + 10000000, 1);
  EXPECT(kept() == stack_forms && found.n_kernels < made.n_kernels, "%zu bytes kept, %u kernels and %u", kept(),
         made.n_kernels, found.n_kernels);
}

static void *stack_thread(void *arg) {
  float *got = malloc(STACK_OUT * sizeof *got);
  tc_sync_point p;
  for (int i = 0; got && i < 16; i++) {
    memset(got, 0, STACK_OUT * sizeof *got);
    EXPECT(stack_run(got, &p) == TC_OK && !memcmp(got, stack_wants, STACK_OUT * sizeof *got), "run %d beside others",
           i);
    tc_clear_error();
    if (i % 4 == *(int *)arg) tc_trim();
  }
  free(got);
  return NULL;
}

// Threads of which one can prepare, or none.
static void caps_of_threads(void) {
  for (size_t mb = 4; mb <= 12; mb += 8) {
    pthread_t thread[2];
    int id[2] = {0, 1};
    tc_trim();
    EXPECT_OK(tc_set_memory_cap(tc_memory_stats().live_bytes + mb * 1000000));
    for (int i = 0; i < 2; i++) EXPECT(pthread_create(&thread[i], NULL, stack_thread, &id[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    EXPECT_OK(tc_set_memory_cap(0));
  }
}

static void make_stack(void) {
  for (int i = 0; i < N_LAYERS; i++) stack[i] = tc_param(numbers(TC_SHAPE(WIDTH, WIDTH), 0.08 + 0.01 * i));
  EXPECT_OK(tc_eval(N_LAYERS, stack));
}

static void drop_stack(void) {
  for (int i = 0; i < N_LAYERS; i++) tc_release(stack[i]);
}

static void memory_is_short(void) {
  tc_sync_point p;
  int n_zero = 0;
  make_stack();
  set_option("0");
  EXPECT_OK(stack_run(stack_wants, &p));
  set_option("1");
  for (int i = 0; i < STACK_OUT; i++) n_zero += stack_wants[i] == 0;
  EXPECT(n_zero < STACK_OUT - 1000 && kept() == 0, "%d zeros", n_zero);
  caps_leave_forms_out();
  caps_of_threads();
  drop_stack();
}

static size_t system_bytes, system_most = SIZE_MAX;

static void *system_alloc(size_t bytes, void *arg) {
  void *p = NULL;
  (void)arg;
  if (bytes > system_most - system_bytes || posix_memalign(&p, 64, bytes) != 0) return NULL;
  system_bytes += bytes;
  return p;
}

static void system_free(void *p, size_t bytes, void *arg) {
  (void)arg;
  system_bytes -= bytes;
  free(p);
}

// Without a cap the library learns only by asking that there is no memory. It asks again every 64
// runs. pre: nothing is live.
static void the_system_has_no_more(void) {
  enum { AT_MOST = 65 };
  int n_runs = 0;
  EXPECT_OK(tc_set_allocator((tc_allocator){system_alloc, system_free, NULL}));
  make_stack();
  tc_trim();
  system_most = system_bytes + 4000000;
  stack_under(0, 3);
  EXPECT(kept() == 0, "%zu bytes kept", kept());
  system_most = SIZE_MAX;
  while (n_runs < AT_MOST && kept() == 0) stack_under(0, 1), n_runs++;
  EXPECT(n_runs > 50 && kept() == stack_forms, "after %d runs %zu bytes are kept", n_runs, kept());
  drop_stack();
  tc_shutdown();
  EXPECT_OK(tc_set_allocator((tc_allocator){NULL, NULL, NULL}));
}

enum { N_STEPS = 4 };

// The losses of steps that train what follows frozen filters, of which forms are kept, with so much
// room for all they take; 0: as much as they like.
static tc_status frozen_steps(size_t room, float *loss) {
  net m = net_make();
  tc_tensor trained[] = {m.fc, m.bias};
  tc_optimizer *head = tc_sgd(trained, 2, (tc_sgd_options){.lr = 0.01});
  tc_status st = TC_OK;
  EXPECT_OK(tc_set_memory_cap(room ? tc_memory_stats().live_bytes + room : 0));
  for (int i = 0; i < N_STEPS && st == TC_OK; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor l = tc_mean(forward(&m, 2), TC_ALL, false);
    st = tc_backward(l);
    if (st == TC_OK) st = tc_optimizer_step(head);
    if (st == TC_OK) st = tc_zero_grad(m.opt);
    if (st == TC_OK) st = tc_item_f32(l, &loss[i]);
    tc_scope_end(s);
  }
  tc_clear_error();
  EXPECT_OK(tc_set_memory_cap(0));
  EXPECT(st != TC_OK || (kept() > 0) == (room == 0), "%zu bytes kept with room for %zu", kept(), room);
  tc_optimizer_destroy(head);
  net_drop(&m);
  return st;
}

// Steps of training run under the least cap under which they do if nothing is prepared.
static void caps_of_training(void) {
  float want[N_STEPS], got[N_STEPS] = {0};
  size_t least = 4096;
  EXPECT_OK(frozen_steps(0, want));
  set_option("0");
  while (least < 1 << 20 && frozen_steps(least, got) != TC_OK) least += 4096;
  set_option("1");
  EXPECT(!memcmp(got, want, sizeof got), "without cached constants: %g, not %g", (double)got[3], (double)want[3]);
  memset(got, 0, sizeof got);
  EXPECT(frozen_steps(least, got) == TC_OK && !memcmp(got, want, sizeof got), "room for %zu bytes: %g, not %g", least,
         (double)got[3], (double)want[3]);
}

static void children_go_on(void) {
  net m = net_make();
  float before[N_OUT], after[N_OUT];
  run(&m, 1, before);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    tc_sync_point p = run(&m, 1, after);
    bool same = memcmp(before, after, sizeof before) == 0 && kept() > 0 && p.hit;
    EXPECT_OK(tc_assign(m.filter[0], tc_mul(m.filter[0], 2)));
    run(&m, 1, after);
    _exit(same && memcmp(before, after, sizeof before) != 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends with %d",
         status);
  run(&m, 1, after);
  EXPECT(!memcmp(before, after, sizeof before), "the parent is as it was");
  net_drop(&m);
}

int main(void) {
  set_option("1");
  second_run_skips();
  plans_share();
  writes_are_seen();
  writes_in_the_same_trace();
  eval_and_train_do_not_grow();
  memory_is_given_back();
  data_is_not_kept();
  scalars_count();
  constants_are_kept();
  weights_of_files_are_kept();
  panels_keep_the_bits();
  panels_of_the_caller();
  history_keeps_no_panels();
  a_step_packs_a_factor_once();
  few_rows_keep_what_stays();
  shared_factors_keep_the_bits();
  memory_is_short();
  caps_of_training();
  children_go_on();
  EXPECT(kept() == 0, "%zu bytes kept at the end", kept());
  tc_shutdown();
  the_system_has_no_more();
  net m = net_make();
  float out[N_OUT];
  run(&m, 1, out);
  EXPECT(kept() > 0, "nothing is kept after a shutdown");
  tc_optimizer_destroy(m.opt);
  tc_shutdown();
  EXPECT(kept() == 0 && tc_memory_stats().live_bytes == 0, "%zu bytes kept, %zu in use", kept(),
         tc_memory_stats().live_bytes);
  return expect_done("planning-constant_cache");
}
