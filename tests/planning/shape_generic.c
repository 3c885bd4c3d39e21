// The same work at many sizes: kernels that take as arguments what varies give the bits that those
// of one size give, and are few; sizes that are used often get kernels of their own, and nothing
// changes; caches that are small or cleared meanwhile do no harm; a later process finds them on
// disk.
#include <stdlib.h>

#include "lowering/jit/compiler.h"
#include "runtime/options.h"
#include "runtime/status.h"
#include "tests/child.h"
#include "tests/expect.h"
#include "tests/files/files.h"

enum { MOST = 1 << 20, N_SIZES = 9 };
#define MOST_NS UINT64_C(30000000000)  // until a size has its kernel, on a machine that does other things too

static const int64_t sizes[N_SIZES] = {40, 41, 37, 64, 50, 7, 33, 1, 61};

// ---- work at size n ----

// Numbers from -1 to 1.
static tc_tensor numbers(tc_dims d) {
  static float all[MOST];
  if (all[0] == 0)
    for (uint32_t i = 0, x = 1; i < MOST; i++)
      x = x * 1664525u + 1013904223u, all[i] = (float)(int32_t)x / 2147483648.0f;
  return tc_from_host(all, d, TC_F32);
}

static tc_tensor wanting(tc_tensor x) {
  EXPECT_OK(tc_set_requires_grad(x, true));
  return x;
}

static tc_tensor elementwise(int64_t n) {
  return tc_add(tc_mul(numbers(TC_SHAPE(n, 30)), numbers(TC_SHAPE(30))), tc_sin(numbers(TC_SHAPE(n, 1))));
}

static tc_tensor layers(int64_t n) {
  tc_tensor h = tc_relu(tc_linear(numbers(TC_SHAPE(n, 48)), numbers(TC_SHAPE(64, 48)), numbers(TC_SHAPE(64))));
  return tc_linear(h, numbers(TC_SHAPE(10, 64)), numbers(TC_SHAPE(10)));
}

static tc_tensor product_along(int64_t n) {
  return tc_matmul(numbers(TC_SHAPE(20, n)), numbers(TC_SHAPE(n, 36)));
}

// Sums that wait in memory between chunks.
static tc_tensor product_deep(int64_t n) {
  tc_tensor x = tc_matmul(numbers(TC_SHAPE(n, 2600)), numbers(TC_SHAPE(2600, 70)));
  return tc_add(tc_gelu(x), numbers(TC_SHAPE(70)));
}

static tc_tensor products(int64_t n) {
  tc_tensor turned = tc_permute(numbers(TC_SHAPE(3, 40, n)), (tc_dims){3, {0, 2, 1}});
  return tc_matmul(turned, tc_matmul(numbers(TC_SHAPE(3, 40, n)), numbers(TC_SHAPE(3, n, 21))));
}

static tc_tensor product_bf16(int64_t n) {
  tc_tensor x = tc_cast(numbers(TC_SHAPE(n, 96)), TC_BF16), w = tc_cast(numbers(TC_SHAPE(96, 40)), TC_BF16);
  return tc_cast(tc_matmul(x, w), TC_F32);
}

static tc_tensor rows(int64_t n) {
  return tc_layer_norm(tc_softmax(numbers(TC_SHAPE(n, 100)), 1), numbers(TC_SHAPE(100)), numbers(TC_SHAPE(100)), 1e-5);
}

static tc_tensor along_rows(int64_t n) {
  return tc_softmax(tc_sub(numbers(TC_SHAPE(9, n)), tc_mean(numbers(TC_SHAPE(9, n)), TC_SHAPE(1), true)), 1);
}

static tc_tensor columns(int64_t n) {
  return tc_add(tc_var(numbers(TC_SHAPE(n, 70)), TC_SHAPE(0), 0, false),
                tc_max(numbers(TC_SHAPE(n, 70)), TC_SHAPE(0), false));
}

static tc_tensor parts(int64_t n) {
  tc_tensor x = numbers(TC_SHAPE(n, 17)), y = tc_pad(tc_flip(x, TC_SHAPE(0)), TC_SHAPE(2, 1), TC_SHAPE(1, 0), 1);
  return tc_cat(2, (tc_tensor[]){tc_permute(y, (tc_dims){2, {1, 0}}), tc_exp(numbers(TC_SHAPE(18, n)))}, 1);
}

static tc_tensor image(int64_t n) {
  tc_conv_options same = {.padding = TC_SHAPE(1, 1)};
  tc_tensor x = numbers(TC_SHAPE(2, 3, n + 4, 12)),
            y = tc_relu(tc_conv2d(x, numbers(TC_SHAPE(8, 3, 3, 3)), numbers(TC_SHAPE(8)), same));
  return tc_max_pool2d(y, TC_SHAPE(2, 2), (tc_pool_options){.stride = TC_SHAPE(2, 2)});
}

static tc_tensor attention(int64_t n) {
  tc_tensor q = numbers(TC_SHAPE(1, 2, n, 16)), none = {0, 0};
  return tc_scaled_dot_product_attention(q, tc_neg(q), tc_cos(q), none, (tc_attention_options){.causal = true});
}

static tc_tensor by_index(int64_t n) {
  tc_tensor at = tc_remainder(tc_arange(0, (double)n, 1, TC_I64), tc_full(TC_SHAPE(1), 5, TC_I64));
  return tc_scatter_add(numbers(TC_SHAPE(5, 6)), 0, tc_tile(tc_reshape(at, TC_SHAPE(n, 1)), TC_SHAPE(1, 6)),
                        numbers(TC_SHAPE(n, 6)));
}

static tc_tensor gradients(int64_t n) {
  tc_tensor w = wanting(numbers(TC_SHAPE(24, 32))), x = numbers(TC_SHAPE(n, 32)), dw = {0, 0};
  EXPECT_OK(
      tc_grads_of(tc_mean(tc_square(tc_tanh(tc_linear(x, w, numbers(TC_SHAPE(24))))), TC_ALL, false), &w, 1, &dw, 0));
  return dw;
}

static const struct work {
  const char *name;
  tc_tensor (*at)(int64_t n);
} works[] = {{"elementwise", elementwise},
             {"layers", layers},
             {"product_along", product_along},
             {"product_deep", product_deep},
             {"products", products},
             {"product_bf16", product_bf16},
             {"rows", rows},
             {"along_rows", along_rows},
             {"columns", columns},
             {"parts", parts},
             {"image", image},
             {"attention", attention},
             {"by_index", by_index},
             {"gradients", gradients}};
enum { N_WORKS = sizeof works / sizeof *works };

// ---- with shape-generic kernels and without ----

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
  EXPECT_OK(tc_to_host(y, b.at, b.n * sizeof *b.at));
  tc_scope_end(scope);
  return b;
}

static void expect_bytes(const struct work *w, int64_t n, const bytes *want) {
  bytes b = value_of(w, n);
  EXPECT(b.n == want->n && memcmp(b.at, want->at, b.n * sizeof *b.at) == 0, "%s at %d has other bits", w->name, (int)n);
  free(b.at);
}

static void choose(const char *generic, const char *kernels_kept) {
  setenv("TC_GENERIC_KERNELS", generic, 1);
  setenv("TC_KERNEL_CACHE", kernels_kept, 1);
  tc_options_reload();
  tc_cache_clear();
}

static uint64_t compiles(void) {
  return tc_cache_stats().compiles;
}

// How many kernels were compiled for all sizes.
static uint64_t at_all_sizes(const struct work *w, const bytes *want) {
  uint64_t before = compiles();
  for (int i = 0; i < N_SIZES; i++) expect_bytes(w, sizes[i], &want[i]);
  return compiles() - before;
}

static void bits_are_the_same(bool compiled) {
  uint64_t exact = 0, generic = 0;
  for (int k = 0; k < N_WORKS; k++) {
    bytes want[N_SIZES];
    choose("0", "4096");
    uint64_t before = compiles();
    for (int i = 0; i < N_SIZES; i++) want[i] = value_of(&works[k], sizes[i]);
    uint64_t each = compiles() - before;
    choose("1", "4096");
    uint64_t few = at_all_sizes(&works[k], want);
    printf("%s: %d kernels for %d sizes, %d of one size each\n", works[k].name, (int)few, N_SIZES, (int)each);
    EXPECT(few <= each, "%s", works[k].name);
    EXPECT(at_all_sizes(&works[k], want) == 0, "%s is compiled again", works[k].name);
    choose("1", "2");
    (void)at_all_sizes(&works[k], want);
    choose("2", "4096");
    (void)at_all_sizes(&works[k], want);
    for (int i = 0; i < N_SIZES; i++) free(want[i].at);
    exact += each, generic += few;
  }
  EXPECT(!compiled || generic * 4 < exact * 3, "%d kernels, where each size has its own %d", (int)generic, (int)exact);
}

static const struct work *work_called(const char *name) {
  for (int k = 0; k < N_WORKS; k++)
    if (strcmp(works[k].name, name) == 0) return &works[k];
  EXPECT(false, "%s is not there", name);
  return NULL;
}

// Where sizes change nothing else, two kernels do for all: that of the first size, and that of the
// others.
static void third_sizes_compile_nothing(bool compiled) {
  const struct work *all[] = {work_called("elementwise"), work_called("rows"), work_called("layers"),
                              work_called("product_deep")};
  choose("1", "4096");
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    free(value_of(all[k], 40).at), free(value_of(all[k], 41).at);
    uint64_t before = compiles();
    for (int64_t n = 42; n < 60; n++) free(value_of(all[k], n).at);
    EXPECT(!compiled || compiles() == before, "%s: %d kernels for third sizes", all[k]->name,
           (int)(compiles() - before));
  }
}

static void sizes_used_often_get_their_own(bool compiled) {
  const struct work w = {"columns", columns};
  const int64_t n = 9001, like = 8999;  // primes: folds that can be divided are made in parts
  choose("0", "4096");
  bytes want = value_of(&w, n);
  choose("1", "4096");
  free(value_of(&w, like).at);
  expect_bytes(&w, n, &want);
  uint64_t before = compiles();
  for (uint64_t start = tc_now_ns(); compiled && compiles() == before && tc_now_ns() - start < MOST_NS;)
    expect_bytes(&w, n, &want);
  EXPECT(!compiled || compiles() == before + 1, "%d kernels more", (int)(compiles() - before));
  expect_bytes(&w, n, &want);
  free(want.at);
}

// ---- processes ----

static int compile_two_sizes(const void *unused) {
  (void)unused;
  tc_options_reload();
  uint64_t before = compiles();
  free(value_of(&works[0], 40).at), free(value_of(&works[0], 41).at);
  EXPECT(compiles() > before + 1, "%d kernels", (int)(compiles() - before));
  return child_failed();
}

static int compile_nothing_for_a_third(const void *unused) {
  (void)unused;
  tc_options_reload();
  uint64_t before = compiles();
  free(value_of(&works[0], 45).at);
  EXPECT(compiles() == before, "%d kernels", (int)(compiles() - before));
  return child_failed();
}

// A process whose first size is new to the cache's directory takes the shape-generic kernel that is
// there.
static void kernels_are_for_later_processes(void) {
  setenv("TC_CACHE_DIR", files_path("kept"), 1);
  unsetenv("TC_CACHE_BYTES");
  EXPECT(child_status(compile_two_sizes, NULL) == 0, "the first process");
  EXPECT(child_status(compile_nothing_for_a_third, NULL) == 0, "the second process");
}

int main(void) {
  setenv("TC_CACHE_BYTES", "0", 1);
  setenv("TC_DYNAMIC", "0", 1);  // each size is lowered
  bool compiled = strncmp(tc_compiler_sentence(), "LLVM", 4) == 0;
  bits_are_the_same(compiled);
  third_sizes_compile_nothing(compiled);
  sizes_used_often_get_their_own(compiled);
  tc_cache_clear();
  if (compiled) kernels_are_for_later_processes();
  (void)files_fini();
  tc_shutdown();
  return expect_done("planning-shape_generic");
}
