// Part a: random programs against tc:ref, the same bits again, plans run a thousand times ahead of
// their results, and memory that returns.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/options.h"
#include "tests/random/random_graph.h"
#include "tools/gpu_check/check.h"

// ---- Random programs: fused, op by op, and on tc:ref (tests/random/random_graph.h) ----

enum { GRAPHS_A_ROW = 5, GRAPHS = 300, SMALL_GRAPHS = 20, SIMULATED_GRAPHS = 5 };

static void run_graphs(check_row *row, const void *arg) {
  uint64_t first = *(const uint64_t *)arg;
  for (uint64_t seed = first; seed < first + GRAPHS_A_ROW && !row->wrong; seed++) {
    rg_program p;
    rg_make(&p, seed);
    const char *bad = rg_check(&p);
    if (bad) check_wrong(row, "seed %llu: %s", (unsigned long long)seed, bad);
  }
  row->value = GRAPHS_A_ROW, row->unit = "programs";
}

void check_graphs(void) {
  char name[64];
  setenv("TC_TEST_DEVICE", check.device, 1);  // tests/near.h: the device that programs run on
  uint64_t n = !check.timed ? SIMULATED_GRAPHS : check.small ? SMALL_GRAPHS : GRAPHS;
  for (uint64_t seed = 1; seed <= n; seed += GRAPHS_A_ROW) {
    snprintf(name, sizeof name, "random programs %llu to %llu", (unsigned long long)seed,
             (unsigned long long)seed + GRAPHS_A_ROW - 1);
    check_do(name, run_graphs, &seed);
  }
}

// ---- The same bits: again, and from a plan made anew ----

typedef struct bits_case {
  const char *name;
  tc_tensor (*make)(int64_t size);
  int64_t size, small_size;
  const char *maker;  // of products and convolutions by every tile, as check_set_maker wants it
  const char *const *tile;  // these, NULL behind the last
  int n_simulated;  // the first ones, which a simulated device tries; 0: all
} bits_case;

static tc_tensor long_sum(int64_t size) {
  return tc_sum(check_random(TC_SHAPE(size), TC_F32, 1), TC_ALL, false);
}
static tc_tensor columns(int64_t size) {
  return tc_sum(check_random(TC_SHAPE(size, 300), TC_F32, 1), TC_AXES(0), false);
}
static tc_tensor rows(int64_t size) {
  return tc_softmax(check_random(TC_SHAPE(33, size), TC_F32, 1), 1);
}
static tc_tensor product(int64_t size) {
  return tc_matmul(check_random(TC_SHAPE(size, size), TC_BF16, 1), check_random(TC_SHAPE(size, size), TC_BF16, 2));
}
static tc_tensor product_f32(int64_t size) {
  return tc_matmul(check_random(TC_SHAPE(size, size), TC_F32, 1), check_random(TC_SHAPE(size, size), TC_F32, 2));
}
// The result; with gradients of its squares' sum by all operands, where asked for, behind it.
static tc_tensor attend(tc_type type, int64_t heads, int64_t key_heads, int64_t rows, int64_t keys, int64_t head,
                        bool gradients) {
  tc_tensor x[3], y[4];
  for (int i = 0; i < 3; i++)
    x[i] = check_random(TC_SHAPE(1, i ? key_heads : heads, i ? keys : rows, head), type, (uint64_t)i + 1);
  for (int i = 0; i < 3 && gradients; i++)
    if (tc_set_requires_grad(x[i], true) != TC_OK) return (tc_tensor){0, 0};
  tc_tensor out = tc_scaled_dot_product_attention(x[0], x[1], x[2], (tc_tensor){0, 0},
                                                  (tc_attention_options){.causal = rows == keys});
  if (!gradients) return out;
  if (tc_grads_of(tc_sum(tc_square(tc_cast(out, TC_F32)), TC_ALL, false), x, 3, y, 0) != TC_OK)
    return (tc_tensor){0, 0};
  y[3] = out;
  for (int i = 0; i < 4; i++) y[i] = tc_reshape(y[i], TC_SHAPE(-1));
  return tc_cat(4, y, 0);
}
static tc_tensor attention(int64_t size) {
  return attend(TC_BF16, 4, 4, size, size, 64, false);
}
static tc_tensor scattered(int64_t size) {
  tc_tensor at = tc_randint(0, 100, TC_SHAPE(size), TC_I64);
  return tc_index_add(tc_zeros(TC_SHAPE(100), TC_F32), 0, at, check_random(TC_SHAPE(size), TC_F32, 1));
}
static tc_tensor norm_gradient(int64_t size) {
  tc_tensor x = check_random(TC_SHAPE(65, size), TC_F32, 1), w = check_random(TC_SHAPE(size), TC_F32, 2),
            b = check_random(TC_SHAPE(size), TC_F32, 3), out;
  if (tc_set_requires_grad(w, true) != TC_OK) return (tc_tensor){0, 0};
  tc_tensor loss = tc_sum(tc_square(tc_layer_norm(x, w, b, 1e-5)), TC_ALL, false);
  return tc_grads_of(loss, &w, 1, &out, 0) == TC_OK ? out : (tc_tensor){0, 0};
}

static const bits_case bits_cases[] = {
    {"a long sum", long_sum, 10000019, 100003},  {"sums of columns", columns, 100003, 1009},
    {"softmax of rows", rows, 40009, 2003},      {"bf16 product", product, 1024, 128},
    {"f32 product", product_f32, 1024, 96},      {"attention", attention, 2048, 128},
    {"scattered sums", scattered, 1000003, 501}, {"a norm's gradient", norm_gradient, 5003, 503},
};

// Rows that no wide access fits.
static tc_tensor odd_product(int64_t size) {
  return tc_matmul(check_random(TC_SHAPE(size, size + 5), TC_BF16, 1),
                   check_random(TC_SHAPE(size + 5, size - 3), TC_BF16, 2));
}

// Of 3 x 3, with the gradients by image and weight of the sum of its squares behind it.
static tc_tensor convolve(tc_type type, int64_t size) {
  int64_t channels = check.small ? 24 : 72;
  tc_tensor x[2] = {check_random(TC_SHAPE(2, channels, size, size + 1), type, 1),
                    check_random(TC_SHAPE(channels + 8, channels, 3, 3), type, 2)},
            y[3];
  for (int i = 0; i < 2; i++)
    if (tc_set_requires_grad(x[i], true) != TC_OK) return (tc_tensor){0, 0};
  y[2] = tc_conv2d(x[0], x[1], (tc_tensor){0, 0}, (tc_conv_options){.padding = TC_SHAPE(1, 1)});
  if (tc_grads_of(tc_sum(tc_square(tc_cast(y[2], TC_F32)), TC_ALL, false), x, 2, y, 0) != TC_OK)
    return (tc_tensor){0, 0};
  for (int i = 0; i < 3; i++) y[i] = tc_reshape(y[i], TC_SHAPE(-1));
  return tc_cat(3, y, 0);
}
static tc_tensor convolution(int64_t size) {
  return convolve(TC_BF16, size);
}
static tc_tensor convolution_f32(int64_t size) {
  return convolve(TC_F32, size);
}
static tc_tensor attention_gradients(int64_t size) {
  return attend(TC_BF16, 2, 1, size, size, 64, true);
}
static tc_tensor wide_attention_gradients(int64_t size) {
  return attend(TC_BF16, 1, 1, size, size, 256, true);
}
static tc_tensor attention_gradients_f32(int64_t size) {
  return attend(TC_F32, 2, 1, size, size, 64, true);
}
// Three rows, so that keys are in parts.
static tc_tensor attention_in_parts(int64_t size) {
  return attend(TC_BF16, 2, 2, 3, size, 64, false);
}

// Tiles that the device has no kernel of are made by another; the first one is the model's choice.
// Of attention a block's rows and a thread's.
static const char *const tiles[] = {"",       "128x64", "32x32", "64x128", "64x64",  "128x256", "256x128", "128x128",
                                    "32x128", "128x32", "32x64", "64x32",  "16x128", "16x64",   NULL};
static const char *const blocks[] = {"",     "64x4", "64x2", "32x2", "64x1", "32x1", "128x4", "128x2",
                                     "64x8", "32x4", "16x2", "16x1", "8x1",  "4x1",  NULL};

static const bits_case tile_cases[] = {
    {"bf16 product", product, 2048, 128, ", generated", tiles},
    {"bf16 product, odd", odd_product, 1023, 71, ", generated", tiles},
    {"f32 product", product_f32, 1024, 96, ", generated", tiles},
    {"bf16 product, by wgmma", product, 2048, 128, CHECK_WGMMA, tiles},
    {"bf16 convolution with gradients", convolution, 47, 8, ", generated", tiles, 4},
    {"f32 convolution with gradients", convolution_f32, 47, 8, ", generated", tiles, 4},
    {"bf16 attention with gradients", attention_gradients, 1100, 66, "", blocks, 6},
    {"bf16 attention with gradients, heads of 256", wide_attention_gradients, 520, 34, "", blocks, 6},
    {"f32 attention with gradients", attention_gradients_f32, 520, 66, "", blocks, 4},
    {"bf16 attention, keys in parts", attention_in_parts, 4100, 1030, "", blocks, 6},
};

static void *bytes_of(check_row *row, const bits_case *c, size_t *bytes) {
  tc_seed(1);
  tc_scope scope = tc_scope_begin();
  tc_tensor y = c->make(check.small ? c->small_size : c->size);
  *bytes = (size_t)tc_numel(y) * tc_type_bytes(tc_dtype(y));
  void *data = tc_is_valid(y) ? calloc(*bytes + 1, 1) : NULL;
  if (!data || !check_ok(row, tc_to_host(y, data, *bytes))) check_wrong(row, "%s", tc_last_error()->message);
  tc_scope_end(scope);
  return data;
}

static void run_bits(check_row *row, const void *arg) {
  enum { RUNS = 6 };
  const bits_case *c = arg;
  size_t bytes, other_bytes;
  void *first = bytes_of(row, c, &bytes);
  for (int i = 1; i < RUNS && !row->wrong; i++) {
    if (i == RUNS / 2) tc_cache_clear();
    void *other = bytes_of(row, c, &other_bytes);
    if (!row->wrong && (other_bytes != bytes || memcmp(first, other, bytes) != 0))
      check_wrong(row, "run %d gave other bits than the first", i + 1);
    free(other);
  }
  free(first);
  row->value = RUNS, row->unit = "runs";
}

// ---- Products, convolutions and attention by every tile ----

static void run_tiles(check_row *row, const void *arg) {
  const bits_case *c = arg;
  size_t bytes, other_bytes;
  void *first = NULL;
  int i = 0;
  check_set_maker(c->maker);
  for (; c->tile[i] && (i < c->n_simulated || !c->n_simulated || check.timed) && !row->wrong; i++) {
    setenv("TC_GPU_TILE", c->tile[i], 1);
    tc_options_reload();
    tc_cache_clear();
    void *other = bytes_of(row, c, i ? &other_bytes : &bytes);
    if (i && !row->wrong && (other_bytes != bytes || memcmp(first, other, bytes) != 0))
      check_wrong(row, "tiles of %s give other bits", c->tile[i]);
    if (i)
      free(other);
    else
      first = other;
  }
  unsetenv("TC_GPU_TILE");
  check_set_maker("");
  free(first);
  row->value = i, row->unit = "tiles";
}

// ---- A plan run ahead of its results, with another scalar each time ----

enum { MOST_RUNS = 1000, N = 257 };

// Every sum is a whole number below 2^24, so exact: of i x + i, and of what went before in place.
static void run_ahead(check_row *row, const void *arg) {
  static tc_tensor result[MOST_RUNS];
  int runs = check.timed ? MOST_RUNS : 100, n = 0;
  float data[N], base = 0, got, total = 0;
  (void)arg;
  for (int i = 0; i < N; i++) data[i] = (float)(i % 4), base += data[i];
  tc_tensor x = tc_from_host(data, TC_SHAPE(N), TC_F32), count = tc_zeros(TC_SHAPE(N), TC_F32);
  for (; n < runs && !row->wrong; n++) {
    tc_scope scope = tc_scope_begin();
    result[n] = tc_keep(tc_sum(tc_add(tc_mul(x, n), n), TC_ALL, false));
    if (check_ok(row, tc_assign(count, tc_add(count, tc_mul(x, n % 3)))))
      check_ok(row, tc_eval(2, (const tc_tensor[]){result[n], count}));
    total += (float)(n % 3);
    tc_scope_end(scope);
  }
  for (int i = 0; i < n && !row->wrong; i++)
    if (check_ok(row, tc_item_f32(result[i], &got)) && got != (float)i * base + (float)i * N)
      check_wrong(row, "result %d of %d is %.9g, not %.9g: another run wrote over it, or it had another's scalars", i,
                  n, (double)got, (double)((float)i * base + (float)i * N));
  if (!row->wrong && check_ok(row, tc_item_f32(tc_sum(count, TC_ALL, false), &got)) && got != total * base)
    check_wrong(row, "what was updated in place sums to %.9g, not %.9g", (double)got, (double)(total * base));
  row->value = n, row->unit = "runs";
}

// ---- Memory returns ----

static tc_status work_of_all_kinds(int64_t size) {
  tc_scope scope = tc_scope_begin();
  tc_tensor a = check_random(TC_SHAPE(size, size), TC_F32, 1), b = check_random(TC_SHAPE(size, size), TC_F32, 2);
  tc_tensor y = tc_softmax(tc_matmul(tc_relu(tc_add(a, b)), b), 1), z = tc_cumsum(tc_sort(a, 1, false), 1);
  tc_status st = tc_eval(2, (const tc_tensor[]){y, z});
  if (st == TC_OK) st = tc_eval(1, (const tc_tensor[]){tc_mean(tc_mul(y, z), TC_ALL, false)});
  tc_scope_end(scope);
  return st;
}

static void run_memory(check_row *row, const void *arg) {
  size_t live[2];
  (void)arg;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 20 && !row->wrong; i++) check_ok(row, work_of_all_kinds(check.small ? 64 : 512 + 37 * i));
    if (!check_drain()) check_wrong(row, "%s", tc_last_error()->message);
    tc_trim();
    tc_memory m = tc_memory_stats();
    live[k] = check.gpu ? m.gpu_live_bytes : m.live_bytes;
    size_t pooled = check.gpu ? m.gpu_pooled_bytes : m.pooled_bytes;
    if (pooled) check_wrong(row, "%zu bytes are pooled after a trim", pooled);
  }
  if (live[1] > live[0]) check_wrong(row, "%zu bytes are live after the same work again, %zu before", live[1], live[0]);
  row->value = (double)live[1], row->unit = "B";
}

void check_bits(void) {
  char name[64];
  for (size_t i = 0; i < sizeof bits_cases / sizeof *bits_cases; i++) {
    snprintf(name, sizeof name, "same bits: %s", bits_cases[i].name);
    check_do(name, run_bits, &bits_cases[i]);
  }
  for (size_t i = 0; i < sizeof tile_cases / sizeof *tile_cases; i++) {
    if (strcmp(tile_cases[i].maker, CHECK_WGMMA) == 0 && !check_has_wgmma()) continue;
    snprintf(name, sizeof name, "by every tile: %s", tile_cases[i].name);
    check_do(name, run_tiles, &tile_cases[i]);
  }
  check_do("a plan run ahead of its results", run_ahead, NULL);
  check_do("memory returns", run_memory, NULL);
}
