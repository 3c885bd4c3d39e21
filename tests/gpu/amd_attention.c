// Attention of halves on AMD's GPUs, simulated: by matrix instructions of gfx908, gfx90a and gfx942
// it has the reference's results and gradients, for every way that heads, rows, masks and lengths
// are given; other architectures go without, waves of 32 and of 64.
#include <tc/tc.h>

#include "tests/gpu/attend.h"
#include "tests/child.h"
#include "tests/gpu/on_amd.h"

static const shape shapes[] = {
    {"f16, causal, grouped", TC_F16, 1, 4, 2, 40, 40, 32, 48, true, 0, NO_MASK, true},
    {"bf16, odd", TC_BF16, 1, 2, 1, 37, 70, 19, 23, false, 0, NO_MASK, false},
    {"bf16, whole blocks", TC_BF16, 1, 1, 1, 64, 64, 64, 64, false, 0, NO_MASK, false},
    {"bf16, heads of 256 and 200", TC_BF16, 1, 1, 1, 10, 34, 256, 200, true, 0, NO_MASK, false},
    {"f16, a cache, heads of 80", TC_F16, 1, 4, 2, 5, 90, 80, 80, true, 71, NO_MASK, false},
    {"bf16, bools", TC_BF16, 2, 4, 1, 20, 33, 16, 16, true, 0, BOOLS, false},
    {"f16, floats", TC_F16, 1, 2, 2, 20, 33, 40, 16, false, 0, FLOATS, true},
    {"bf16, heads are rows", TC_BF16, 2, 8, 2, 1, 100, 64, 64, true, 77, NO_MASK, false},
    {"f16, keys in parts", TC_F16, 1, 8, 2, 1, 640, 64, 64, true, 600, NO_MASK, true},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

typedef struct device {
  const char *gfx, *arithmetic;
  int shapes;  // the first ones
} device;

static bool begin(const device *d) {
  if (!on_amd(d->gfx, d->arithmetic)) return false;
  draw();
  return true;
}

static int check(const void *arg) {
  const device *d = arg;
  if (!begin(d)) return 77;
  for (int i = 0; i < d->shapes; i++) {
    expect_as_the_reference(&shapes[i], "tc:hip", 0);
    if (shapes[i].l > 1) expect_as_the_reference(&shapes[i], "tc:hip", 3);
  }
  tc_shutdown();
  return child_failed();
}

// Of results and gradients that another arithmetic inside of matrix instructions changes here and
// there: then they were used.
static double sum_of_results(const void *arg) {
  static double got[MOST_RESULT];
  double sum = 0;
  size_t count[3];
  if (!begin(arg)) return NAN;
  for (int n_gradients = 0; n_gradients <= 3; n_gradients += 3) {
    attend(&shapes[0], "tc:hip", n_gradients, got, count);
    for (size_t k = 0; k < count[0] + count[1] + count[2]; k++) sum += got[k];
  }
  tc_shutdown();
  return sum;
}

int main(void) {
  static const device devices[] = {{"gfx90a", "", N_SHAPES}, {"gfx908", "", 2},  {"gfx942", "", 2},
                                   {"gfx906", "", 2},        {"gfx1100", "", 2}, {"gfx90a", "truncating", 2}};
  static const struct {
    const char *gfx;
    bool has;
  } matrix[] = {{"gfx908", true}, {"gfx90a", true}, {"gfx942", true}, {"gfx906", false}, {"gfx1100", false}};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    int status = child_status(check, &devices[i]);
    if (status == 77) {
      printf("skipped: the simulated driver is not built\n");
      return 77;
    }
    EXPECT(status == 0, "%s %s: status %d", devices[i].gfx, devices[i].arithmetic, status);
  }
  for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++) {
    double plain = in_child(sum_of_results, &(device){matrix[i].gfx, "", 1}),
           other = in_child(sum_of_results, &(device){matrix[i].gfx, "truncating", 1});
    EXPECT((plain != other) == matrix[i].has, "%s: %.17g and %.17g", matrix[i].gfx, plain, other);
  }
  return expect_done("gpu-amd_attention");
}
