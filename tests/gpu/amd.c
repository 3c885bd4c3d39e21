// Matrix products of halves on AMD's GPUs, simulated: by matrix instructions of gfx908, gfx90a and
// gfx942 they have the processor's values, whatever lies where and comes before and after, and the
// same bits by every tile.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "lowering/emit/gpu/matmul_common.h"
#include "runtime/options.h"
#include "tests/child.h"
#include "tests/gpu/on_amd.h"

enum { MOST = 1 << 16 };

// Of many sizes, so that sums depend on their order.
static tc_tensor values(tc_dims d, tc_type type) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  float *v = malloc((size_t)n * sizeof *v);
  uint32_t seed = (uint32_t)n;
  for (int64_t i = 0; i < n; i++)
    seed = seed * 1664525 + 1013904223, v[i] = ldexpf((float)(int)(seed >> 16 & 1023) / 512 - 1, -(int)(seed >> 29));
  tc_tensor t = tc_cast(tc_from_host(v, d, TC_F32), type);
  EXPECT_OK(tc_eval(1, &t));
  free(v);
  return t;
}

#define V(type, ...) values(TC_SHAPE(__VA_ARGS__), type)

static tc_tensor straight(void) {
  return tc_matmul(V(TC_F16, 136, 104), V(TC_F16, 104, 144));
}
static tc_tensor layer(void) {
  tc_tensor a = V(TC_BF16, 69, 131), b = V(TC_BF16, 77, 69), bias = V(TC_BF16, 77);
  return tc_relu(tc_add(tc_matmul(tc_transpose(a, 0, 1), tc_transpose(b, 0, 1)), bias));
}
static tc_tensor batches(void) {
  return tc_matmul(V(TC_BF16, 3, 33, 48), tc_transpose(V(TC_BF16, 3, 40, 48), 1, 2));
}
static tc_tensor made(void) {  // an operand that is made where it is staged
  tc_tensor a = V(TC_F32, 40, 64), b = V(TC_F16, 64, 72);
  return tc_matmul(tc_cast(tc_mul(a, 0.5), TC_F16), b);
}
static tc_tensor windows(void) {
  return tc_conv2d(V(TC_BF16, 2, 16, 9, 9), V(TC_BF16, 24, 16, 3, 3), (tc_tensor){0, 0},
                   (tc_conv_options){.padding = TC_SHAPE(1, 1)});
}
static tc_tensor one_step(void) {
  return tc_matmul(V(TC_F16, 20, 1), V(TC_F16, 1, 17));
}

static const struct row {
  const char *name;
  tc_tensor (*make)(void);
} rows[] = {{"straight", straight},
            {"both transposed, with a bias and relu", layer},
            {"batches, right transposed", batches},
            {"a made operand", made},
            {"windows", windows},
            {"one step of k", one_step}};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int64_t results(const struct row *r, float *out) {
  return expect_floats(r->make(), out, MOST);
}

// Sums of up to 144 products of numbers up to 1, each rounded to f32, and the last to a half.
static int64_t far_from(const float *got, const float *want, int64_t n, double rounding) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i++)
    far += !(fabs((double)got[i] - (double)want[i]) <= rounding * fabs((double)want[i]) + 1e-4);
  return far;
}

static void check_tiles(const struct row *r, const float *want, int64_t n) {
  static float got[MOST];
  char tile[32];
  int n_cuts;
  const tc_gpu_gemm_tiling *cut = tc_gemm_mfma_tilings(&n_cuts);
  for (int i = 0; i < n_cuts; i++) {
    snprintf(tile, sizeof tile, "%dx%d", cut[i].rows, cut[i].columns);
    setenv("TC_GPU_TILE", tile, 1);
    tc_options_reload();
    tc_cache_clear();
    (void)results(r, got);
    EXPECT(memcmp(got, want, (size_t)n * sizeof *got) == 0, "%s: other bits by a tile of %s", r->name, tile);
  }
  unsetenv("TC_GPU_TILE");
  tc_options_reload();
}

typedef struct device {
  const char *gfx, *arithmetic;
  int rows;  // the first ones
  bool tiles;  // of the first two every one
} device;

static bool begin(const device *d) {
  if (!on_amd(d->gfx, d->arithmetic)) return false;
  EXPECT_OK(tc_set_default_device("tc:hip"));
  return true;
}

static int check(const void *arg) {
  static float want[MOST], got[MOST];
  const device *d = arg;
  if (!begin(d)) return 77;
  for (int i = 0; i < d->rows; i++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_push_device("tc:cpu"));
    int64_t n = results(&rows[i], want);
    EXPECT_OK(tc_pop_device());
    EXPECT(results(&rows[i], got) == n, "as many");
    int64_t far = far_from(got, want, n, 1.0 / 128);
    EXPECT(far == 0, "%s on %s: %lld of %lld are wrong", rows[i].name, d->gfx, (long long)far, (long long)n);
    if (d->tiles && i < 2) check_tiles(&rows[i], got, n);
    tc_scope_end(s);
  }
  tc_shutdown();
  return child_failed();
}

// Results that another arithmetic inside of matrix instructions changes here and there: then they
// were used.
static double sum_of_results(const void *arg) {
  float v[64 * 64];
  double sum = 0;
  if (!begin(arg)) return NAN;
  tc_scope s = tc_scope_begin();
  tc_tensor a = V(TC_F16, 64, 200), b = V(TC_F16, 200, 64);
  EXPECT_OK(tc_to_host(tc_cast(tc_matmul(a, b), TC_F32), v, sizeof v));
  for (int i = 0; i < 64 * 64; i++) sum += (double)v[i];
  tc_scope_end(s);
  tc_shutdown();
  return sum;
}

int main(void) {
  static const device devices[] = {{"gfx90a", "", N_ROWS, true},
                                   {"gfx908", "", 2, false},
                                   {"gfx942", "", 2, false},
                                   {"gfx90a", "truncating", N_ROWS, false}};
  for (int i = 0; i < 4; i++) {
    int status = child_status(check, &devices[i]);
    if (status == 77) {
      printf("skipped: the simulated driver is not built\n");
      return 77;
    }
    EXPECT(status == 0, "%s: status %d", devices[i].gfx, status);
  }
  static const device none = {.gfx = "gfx906", .arithmetic = ""},
                      none_truncating = {.gfx = "gfx906", .arithmetic = "truncating"};
  EXPECT(in_child(sum_of_results, &devices[0]) != in_child(sum_of_results, &devices[3]),
         "gfx90a has matrix instructions");
  EXPECT(in_child(sum_of_results, &none) == in_child(sum_of_results, &none_truncating), "gfx906 has none");
  return expect_done("gpu-amd");
}
