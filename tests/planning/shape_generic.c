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
#include "tests/sized_work.h"

enum { N_SIZES = 9 };
#define MOST_NS UINT64_C(30000000000)  // until a size has its kernel, on a machine that does other things too

static const int64_t sizes[N_SIZES] = {40, 41, 37, 64, 50, 7, 33, 1, 61};

// ---- work at size n ----

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
