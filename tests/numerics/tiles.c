// Matmuls of bytes by tile registers are exact. Those of bf16 have the bits of the documented order, computed here by a
// model of the hardware (tests/amx/model.h): whatever the shape, the layouts, the batch, what reads the result,
// prepacked weights, long sums, one thread or more, in a forked child, and while signals interrupt the kernels. Without
// the permission to use tiles a process goes without them. Attention and its gradients have the same bits compiled and
// interpreted, and are near the reference. Run with tests/amx/emulator.c preloaded, or interpreted with TC_ISA=amx; 77
// without tiles.
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "lowering/target/cpu_target.h"
#include "lowering/target/host_tiles.h"
#include "tests/amx/model.h"
#include "tests/child.h"

enum { CHAIN_WHOLE = 8192, CHAIN = 1024, STEP = 32 };  // elements of k

typedef struct shape {
  int64_t batch, m, k, n;
  bool a_turned, b_turned, prepacked, relu;
} shape;

static uint64_t state = 0x9e3779b97f4a7c15u;
static uint32_t random_word(void) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)(state >> 16);
}
static int64_t random_size(int64_t least, int64_t most) {
  return least + random_word() % (uint64_t)(most - least + 1);
}

// bf16 of many sizes, so that sums cancel, with zeros, the smallest, and rarely infinity.
static uint16_t random_bf16(void) {
  const uint32_t w = random_word();
  switch (w % 64) {
    case 0: return 0;
    case 1: return (uint16_t)((w >> 8) & 0x807f);  // denormals
    case 2: return (uint16_t)(0x1f80 | ((w >> 8) & 0x807f));
    case 3: return w >> 20 == 7 ? 0x7f80 : 0;
    default: return (uint16_t)((0x3b80 + ((w >> 8) % 8 << 7)) | ((w >> 16) & 0x807f));
  }
}

static uint16_t rounded(uint32_t bits) {
  if (model_is_nan(bits)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static uint16_t at(const uint16_t *x, int64_t i, int64_t j, int64_t rows, int64_t columns, bool turned) {
  return turned ? x[j * rows + i] : x[i * columns + j];
}

// Element [i, j] of one matrix of the batch, by the model.
static uint32_t want_at(const shape *s, const uint16_t *a, const uint16_t *b, int64_t i, int64_t j) {
  const bool chains = s->k > CHAIN_WHOLE;
  uint32_t total = 0, sum = 0;
  for (int64_t k = 0; k < s->k; k += STEP) {
    uint32_t chain[2] = {0, 0};
    for (int64_t l = k; l < k + STEP; l++) {  // zeros behind the last
      const uint32_t x = l < s->k ? (uint32_t)at(a, i, l, s->m, s->k, s->a_turned) << 16 : 0;
      const uint32_t y = l < s->k ? (uint32_t)at(b, l, j, s->k, s->n, s->b_turned) << 16 : 0;
      chain[l % 2] = model_fma(x, y, chain[l % 2]);
    }
    sum = model_add(sum, model_add(chain[0], chain[1]));
    if (!chains || ((k + STEP) % CHAIN != 0 && k + STEP < s->k)) continue;
    total = k < CHAIN ? sum : model_bits(model_float(total) + model_float(sum));
    sum = 0;
  }
  return chains ? total : sum;
}

static tc_tensor on_device(const uint16_t *v, tc_dims d) {
  return tc_from_host(v, d, TC_BF16);
}

// Computes the matmul; true: all elements have the model's bits.
static bool has_bits(const shape *s) {
  const int64_t n_a = s->batch * s->m * s->k, n_b = s->k * s->n, n = s->batch * s->m * s->n;
  uint16_t *a = malloc((size_t)n_a * 2), *b = malloc((size_t)n_b * 2), *got = malloc((size_t)n * 2);
  bool same = a && b && got;
  for (int64_t i = 0; i < n_a && same; i++) a[i] = random_bf16();
  for (int64_t i = 0; i < n_b && same; i++) b[i] = random_bf16();
  tc_scope scope = tc_scope_begin();
  tc_dims of_a = s->a_turned ? TC_SHAPE(s->batch, s->k, s->m) : TC_SHAPE(s->batch, s->m, s->k);
  tc_dims of_b = s->b_turned ? TC_SHAPE(s->n, s->k) : TC_SHAPE(s->k, s->n);
  tc_tensor x = on_device(a, of_a), w = on_device(b, of_b);
  if (s->prepacked) w = tc_param(w);
  same = same && tc_eval(2, (tc_tensor[]){x, w}) == TC_OK;
  if (s->batch == 1) x = tc_reshape(x, s->a_turned ? TC_SHAPE(s->k, s->m) : TC_SHAPE(s->m, s->k));
  tc_no_grad_begin();  // weights that are differentiated would not be prepacked
  tc_tensor r = tc_matmul(s->a_turned ? tc_transpose(x, -2, -1) : x, s->b_turned ? tc_transpose(w, 0, 1) : w);
  if (s->relu) r = tc_relu(r);
  same = same && tc_to_host(r, got, (size_t)n * 2) == TC_OK;
  tc_no_grad_end();
  for (int64_t i = 0; i < n && same; i++) {
    const int64_t in = i % (s->m * s->n);
    uint16_t want = rounded(want_at(s, a + i / (s->m * s->n) * s->m * s->k, b, in / s->n, in % s->n));
    if (s->relu && (want & 0x8000)) want = 0;
    const bool is_nan = model_is_nan((uint32_t)got[i] << 16);
    same = is_nan ? want == 0x7fc0 : got[i] == want || (s->relu && (got[i] & 0x7fff) == 0 && want == 0);
    if (!same)
      printf("%lldx%lldx%lldx%lld%s%s%s%s [%lld]: %04x, not %04x\n", (long long)s->batch, (long long)s->m,
             (long long)s->k, (long long)s->n, s->a_turned ? ", a turned" : "", s->b_turned ? ", b turned" : "",
             s->prepacked ? ", prepacked" : "", s->relu ? ", relu" : "", (long long)i, got[i], want);
  }
  tc_scope_end(scope);
  free(a), free(b), free(got);
  return same;
}

static void check_shapes(int n_random) {
  static const shape of[] = {
      {1, 16, 32, 16, false, false, false, false},   {1, 33, 64, 100, false, true, false, true},
      {1, 40, 70, 67, true, true, false, false},     {3, 17, 2, 33, false, false, false, false},
      {2, 50, 98, 16, true, false, false, true},     {1, 64, 512, 192, false, false, true, false},
      {1, 20, 512, 64, false, true, true, true},     {1, 49, 300, 128, false, false, true, false},
      {1, 18, 8192, 17, false, false, false, false}, {1, 18, 8200, 17, true, false, false, false},
      {1, 33, 9248, 40, false, true, false, true},   {1, 16, 10240, 64, false, false, true, false},
      {1, 8, 64, 8, false, false, false, false},     {1, 9, 34, 200, true, true, false, true},
      {3, 31, 96, 9, false, true, false, false},     {1, 15, 8230, 20, true, false, false, false},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) EXPECT(has_bits(&of[i]), "shape %zu", i);
  for (int i = 0; i < n_random; i++) {
    const uint32_t w = random_word();
    shape s = {.batch = w % 5 == 0 ? random_size(2, 3) : 1,
               .m = random_size(8, w & 4 ? 40 : 150),
               .k = 2 * random_size(1, 160),
               .n = random_size(8, 200),
               .a_turned = w >> 8 & 1,
               .b_turned = w >> 9 & 1,
               .prepacked = w >> 10 & 1,
               .relu = w >> 11 & 1};
    EXPECT(has_bits(&s), "random shape %d", i);
  }
}

// Matmuls of one place with ever other rows. With TC_GENERIC_KERNELS=2 units are done by turns in
// kernels for any number of rows.
static void any_rows_have_the_same_bits(bool turned) {
  for (int64_t m = 17; m <= 90; m += 3) {
    const shape s = {1, m, 96, 80, turned, false, false, true};
    EXPECT(has_bits(&s), "%lld rows", (long long)m);
  }
}

// Weights that are prepacked are read in place from the second run on, also where k ends within a
// register or a chain, and rows are few.
static void prepacked_weights_have_the_same_bits(void) {
  static const shape of[] = {
      {1, 48, 512, 256, false, false, true, false}, {1, 8, 512, 64, false, true, true, false},
      {1, 13, 330, 64, false, false, true, true},   {1, 40, 258, 128, true, false, true, false},
      {1, 90, 528, 32, false, true, true, false},   {1, 15, 8226, 16, false, false, true, false},
      {1, 8, 2048, 8, false, false, true, false},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int run = 0; run < 2; run++) EXPECT(has_bits(&of[i]), "prepacked %zu, run %d", i, run);
}

// ---- bytes ----

static int byte_at(const uint8_t *x, int64_t i, int64_t j, int64_t rows, int64_t columns, bool turned, tc_type type) {
  const uint8_t v = turned ? x[j * rows + i] : x[i * columns + j];
  return type == TC_I8 ? (int8_t)v : v;
}

// Matmuls of bytes have exact sums.
static bool bytes_are_exact(const shape *s, tc_type left, tc_type right) {
  const int64_t n_a = s->m * s->k, n_b = s->k * s->n, n = s->m * s->n;
  uint8_t *a = malloc((size_t)n_a), *b = malloc((size_t)n_b);
  int32_t *got = malloc((size_t)n * 4);
  bool same = a && b && got;
  for (int64_t i = 0; i < n_a && same; i++) a[i] = (uint8_t)random_word();
  for (int64_t i = 0; i < n_b && same; i++) b[i] = (uint8_t)random_word();
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_from_host(a, s->a_turned ? TC_SHAPE(s->k, s->m) : TC_SHAPE(s->m, s->k), left);
  tc_tensor w = tc_from_host(b, s->b_turned ? TC_SHAPE(s->n, s->k) : TC_SHAPE(s->k, s->n), right);
  same = same && tc_eval(2, (tc_tensor[]){x, w}) == TC_OK;
  tc_tensor r = tc_matmul(s->a_turned ? tc_transpose(x, 0, 1) : x, s->b_turned ? tc_transpose(w, 0, 1) : w);
  same = same && tc_dtype(r) == TC_I32 && tc_to_host(r, got, (size_t)n * 4) == TC_OK;
  for (int64_t i = 0; i < n && same; i++) {
    int32_t want = 0;
    for (int64_t k = 0; k < s->k; k++)
      want += byte_at(a, i / s->n, k, s->m, s->k, s->a_turned, left) *
              byte_at(b, k, i % s->n, s->k, s->n, s->b_turned, right);
    same = got[i] == want;
  }
  tc_scope_end(scope);
  free(a), free(b), free(got);
  return same;
}

static void check_bytes(void) {
  static const tc_type types[] = {TC_I8, TC_U8};
  for (int i = 0; i < 48; i++) {
    shape s = {.m = random_size(8, 80),
               .k = 4 * random_size(1, 60),
               .n = random_size(8, 90),
               .a_turned = i >> 2 & 1,
               .b_turned = i >> 3 & 1};
    if (i == 5) s.k = 17000;
    EXPECT(bytes_are_exact(&s, types[i & 1], types[i >> 1 & 1]), "%d: %lldx%lldx%lld", i, (long long)s.m,
           (long long)s.k, (long long)s.n);
  }
}

// f16 takes no tiles: it is widened, and rounded once.
static void f16_is_that_of_f32(void) {
  enum { M = 40, K = 70, N = 33 };
  uint16_t got[M * N], want[M * N];
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(M, K), TC_F16), w = tc_randn(TC_SHAPE(K, N), TC_F16);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, w}));
  EXPECT_OK(tc_to_host(tc_matmul(x, w), got, sizeof got));
  EXPECT_OK(tc_to_host(tc_cast(tc_matmul(tc_cast(x, TC_F32), tc_cast(w, TC_F32)), TC_F16), want, sizeof want));
  EXPECT(memcmp(got, want, sizeof got) == 0, "f16 has other bits than f32 rounded");
  tc_scope_end(scope);
}

// A convolution is a matmul over windows, 1 x 1 and 3 x 3; against the reference.
static void convolutions_are_the_references(int64_t window) {
  double off = NAN, most = NAN;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(1, 32, 9, 9), TC_BF16), w = tc_randn(TC_SHAPE(48, 32, window, window), TC_BF16);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, w}));
  tc_conv_options o = {.padding = TC_SHAPE(window / 2)};
  tc_tensor got = tc_cast(tc_conv2d(x, w, (tc_tensor){0, 0}, o), TC_F32),
            want = tc_to(tc_conv2d(tc_to(tc_cast(x, TC_F32), "tc:ref"), tc_to(tc_cast(w, TC_F32), "tc:ref"),
                                   (tc_tensor){0, 0}, o),
                         "tc:cpu");
  EXPECT_OK(tc_item_f64(tc_cast(tc_max(tc_abs(tc_sub(got, want)), TC_ALL, false), TC_F64), &off));
  EXPECT_OK(tc_item_f64(tc_cast(tc_max(tc_abs(want), TC_ALL, false), TC_F64), &most));
  EXPECT(off <= 0x1p-8 * most && most > 1, "%dx%d: off by %g of %g", (int)window, (int)window, off, most);
  tc_scope_end(scope);
}

// ---- attention ----

typedef struct attended {
  int64_t heads, rows, keys, e;
  bool causal, short_keys;  // short_keys: the last ones do not count
  bool masked;  // every third key is not seen
  int64_t shared, ev;  // query heads that share a key head; length of a value, that of a key if 0
} attended;

static const attended attentions[] = {
    {2, 16, 16, 8, false, false},
    {3, 33, 47, 64, false, false},
    {2, 40, 40, 72, true, false},
    {1, 50, 600, 32, false, false},
    {1, 70, 700, 136, true, false},
    {2, 20, 90, 64, false, true},
    {4, 35, 61, 24, false, false, true, 2, 40},
    {2, 18, 301, 40, true, false, true, 1, 10},
};

static tc_tensor attend(const attended *a, tc_tensor q, tc_tensor k, tc_tensor v) {
  tc_attention_options o = {.causal = a->causal};
  if (a->short_keys) k = tc_slice(k, 2, 0, a->keys - 5, 1), v = tc_slice(v, 2, 0, a->keys - 5, 1);
  bool seen[1024];
  for (int64_t i = 0; i < a->keys; i++) seen[i] = i % 3 != 2;
  tc_tensor mask = {0, 0};
  if (a->masked) mask = tc_to(tc_from_host(seen, TC_SHAPE(a->keys), TC_BOOL), tc_device_of(q));
  return tc_scaled_dot_product_attention(q, k, v, mask, o);
}

// The result, and the gradients of its sum weighted by w.
static void attend_and_differentiate(const attended *a, const tc_tensor x[4], tc_tensor out[4]) {
  for (int j = 0; j < 3; j++) EXPECT_OK(tc_set_requires_grad(x[j], true));
  out[0] = attend(a, x[0], x[1], x[2]);
  EXPECT_OK(tc_grads_of(tc_sum(tc_cast(tc_mul(out[0], x[3]), TC_F32), TC_ALL, false), x, 3, out + 1, 0));
}

// The hash of a tensor's bits. All are near those wanted.
static uint32_t hash_of(uint32_t hash, tc_tensor of, tc_tensor wanted, int64_t n, const char *name, size_t i) {
  uint16_t *got = malloc((size_t)n * 2);
  float *want = malloc((size_t)n * 4), off = 0, most = 0;
  EXPECT_OK(tc_to_host(of, got, (size_t)n * 2));
  EXPECT_OK(tc_to_host(tc_to(wanted, "tc:cpu"), want, (size_t)n * 4));
  for (int64_t j = 0; j < n; j++) {
    hash = hash * 31 + got[j];
    most = fmaxf(most, fabsf(want[j]));
    const float here = fabsf(model_float((uint32_t)got[j] << 16) - want[j]);
    off = here <= off ? off : here;  // NaN stays
  }
  EXPECT(off < 0.008f * (1 + most), "attention %zu, %s: off by %g of %g", i, name, (double)off, (double)most);
  free(got), free(want);
  return hash;
}

// The hash of all results' bits. Each is near the reference's.
static double hash_of_attention(const void *arg) {
  uint32_t hash = 0;
  const char *const *env = arg;
  for (; env && *env; env += 2) setenv(env[0], env[1], 1);
  for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
    const attended *a = &attentions[i];
    tc_scope scope = tc_scope_begin();
    tc_seed(7 + i);
    tc_tensor x[4], wide[4], got[4], want[4];
    const int64_t key_heads = a->heads / (a->shared ? a->shared : 1), ev = a->ev ? a->ev : a->e;
    const tc_dims of[4] = {TC_SHAPE(1, a->heads, a->rows, a->e), TC_SHAPE(1, key_heads, a->keys, a->e),
                           TC_SHAPE(1, key_heads, a->keys, ev), TC_SHAPE(1, a->heads, a->rows, ev)};
    for (int j = 0; j < 4; j++) x[j] = tc_randn(of[j], TC_BF16);  // the last: the result's weights
    EXPECT_OK(tc_eval(4, x));
    for (int j = 0; j < 4; j++) wide[j] = tc_to(tc_cast(x[j], TC_F32), "tc:ref");
    EXPECT_OK(tc_eval(4, wide));
    attend_and_differentiate(a, x, got);
    attend_and_differentiate(a, wide, want);
    static const char *const names[] = {"out", "dq", "dk", "dv"};
    for (int j = 0; j < 4; j++) hash = hash_of(hash, got[j], want[j], tc_numel(got[j]), names[j], i);
    tc_scope_end(scope);
  }
  EXPECT(tc_compiler_isa()->tiles, "no tiles");
  return hash;
}

// The last row's gradient is infinite: so are those of all values, since zeros fill the last step.
static void an_infinite_row_ends_the_last_step(void) {
  enum { ROWS = 49, KEYS = 24, E = 16 };
  float w[ROWS * E] = {0}, got[KEYS * E];
  for (int i = 0; i < E; i++) w[(ROWS - 1) * E + i] = INFINITY;
  tc_scope scope = tc_scope_begin();
  const tc_dims rows = TC_SHAPE(1, 1, ROWS, E), keys = TC_SHAPE(1, 1, KEYS, E);
  const tc_tensor x[4] = {tc_zeros(rows, TC_BF16), tc_zeros(keys, TC_BF16), tc_zeros(keys, TC_BF16),
                          tc_cast(tc_from_host(w, rows, TC_F32), TC_BF16)};
  tc_tensor out[4];
  EXPECT_OK(tc_eval(4, x));
  attend_and_differentiate(&(attended){1, ROWS, KEYS, E, false, false}, x, out);
  EXPECT_OK(tc_to_host(tc_cast(out[3], TC_F32), got, sizeof got));
  int n = 0;
  for (int i = 0; i < KEYS * E; i++) n += got[i] == INFINITY;
  EXPECT(n == KEYS * E, "%d of %d gradients are infinite", n, KEYS * E);
  tc_scope_end(scope);
}

static double in_forked_child(const void *arg) {
  (void)arg;
  check_shapes(10);
  return 1;
}

static volatile sig_atomic_t n_signals;
static volatile double clobbered;

static void on_signal(int number) {
  (void)number;
  double v[32];
  for (int i = 0; i < 32; i++) v[i] = (double)n_signals * i;
  for (int i = 0; i < 32; i++) clobbered += v[i];
  n_signals++;
}

static void signals_change_no_bit(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  EXPECT(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0, "no timer");
  for (int i = 0; i < 10; i++) {
    const shape s = {1, 96, 256, 128, i & 1, i & 2, false, false};
    EXPECT(has_bits(&s), "with signals");
  }
  EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0 && n_signals > 0, "no signal came");
}

static double without_permission(const void *arg) {
  (void)arg;
  setenv("TC_TEST_TILES", "refuse", 1);
  const bool refused = !tc_host_tiles() && strstr(tc_host_tiles_sentence(false), "refuses") != NULL;
  tc_tensor x = tc_full(TC_SHAPE(32, 64), 0.5, TC_BF16);
  double sum = 0;
  EXPECT_OK(tc_item_f64(tc_cast(tc_sum(tc_matmul(x, tc_transpose(x, 0, 1)), TC_ALL, false), TC_F64), &sum));
  EXPECT(sum == 32 * 32 * 16, "%g", sum);
  return refused && !tc_compiler_isa()->tiles;
}

int main(void) {
  const bool emulated = getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), "test-tiles") != NULL;
  if (emulated) EXPECT(in_child(without_permission, NULL) == 1, "a process without permission");
  if (emulated) {
    static const char *const interpreted[] = {"TC_COMPILER", "interp", "TC_ISA", "amx", NULL};
    const double compiled = in_child(hash_of_attention, NULL);
    EXPECT(compiled >= 0 && in_child(hash_of_attention, interpreted) == compiled, "attention has other bits");
  }
  if (!tc_compiler_isa()->tiles) return printf("no instruction set with tiles\n"), 77;
  if (!emulated) (void)hash_of_attention(NULL);
  check_shapes(48);
  check_bytes();
  f16_is_that_of_f32();
  prepacked_weights_have_the_same_bits();
  any_rows_have_the_same_bits(false);
  any_rows_have_the_same_bits(true);
  for (int64_t window = 1; window <= 3; window += 2) convolutions_are_the_references(window);
  an_infinite_row_ends_the_last_step();
  signals_change_no_bit();
  EXPECT(in_child(in_forked_child, NULL) == 1, "a forked child");
  return expect_done("numerics-tiles");
}
