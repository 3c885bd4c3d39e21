// Which convolutions use Winograd's algorithm, and the sizes of their tiles, panels and parts. See
// winograd.h.
#include "lowering/tiling/winograd.h"

#include "lowering/tiling/summation.h"
#include "runtime/options.h"

#define LEAST_OF_PART 128  // least tiles of a part
#define MOST_OF_PART 1024
// units, of TC_WINOGRAD_MOST_SIDE by TC_WINOGRAD_MOST_SIDE, that keep all threads busy
#define ENOUGH 16
// most operations relative to direct sums; the estimates are no more precise than that
#define WORTH_IT 0.8

tc_wtiles tc_wtiles_of(int m, int64_t images, int64_t p, int64_t q) {
  int64_t across = tc_ceil_div(q, m);
  return (tc_wtiles){m, m + 2, images, p, q, across, images * tc_ceil_div(p, m) * across};
}

// ---- the convolution ----

int64_t tc_winograd_panel(int64_t outputs) {
  int64_t best = 64;
  for (int64_t panel = 64; panel >= 16; panel /= 2)
    if (tc_ceil_div(outputs, panel) * panel * 11 < tc_ceil_div(outputs, best) * best * 10) best = panel;
  return best;
}

static double conv_flops(int m, const tc_dims *image, int64_t p, int64_t q, int64_t o) {
  double places = m == 0 ? 9 : (m + 2) * (m + 2), c = (double)image->dim[3];
  double tiles =
      m == 0 ? (double)(image->dim[0] * p * q) : (double)(image->dim[0] * tc_ceil_div(p, m) * tc_ceil_div(q, m));
  double transforms = m == 0 ? 0 : 16 * places * tiles * (c + (double)o);
  // a transformed weight is written and read
  return 2 * places * tiles * c * (double)o + transforms + 96 * places * c * (double)o;
}

bool tc_winograd_allowed(void) {
  return tc_options_get()->winograd && !tc_options_get()->strict;
}

int tc_winograd_size(const tc_dims *image, int64_t p, int64_t q, int64_t o) {
  // sums over channels are one chain
  if (image->dim[3] % TC_WLANES || o % TC_WLANES || image->dim[3] > TC_CHAIN_WHOLE) return 0;
  double least = 0.9 * conv_flops(0, image, p, q, o);
  int best = 0;
  for (int m = 2; m <= 4; m += 2)
    if (conv_flops(m, image, p, q, o) < least) least = conv_flops(m, image, p, q, o), best = m;
  return best;
}

// ---- gradient of the weight ----

int64_t tc_wside_of(int64_t n, int64_t most) {
  int64_t side = most;
  while (n % side) side -= TC_WLANES;
  return side;
}

double tc_winograd_wgrad_flops(const tc_wtiles *by, int64_t parts, int64_t c, int64_t o) {
  return (double)wplaces(by) * ((double)(by->n * (2 * c * o + 16 * (c + o))) + (double)(32 * c * o * parts));
}

int64_t tc_winograd_wgrad_parts(int m, const tc_dims *image, const tc_dims *result) {
  int64_t n = tc_wtiles_of(m, image->dim[0], result->dim[1], result->dim[2]).n;
  int64_t units =
      tc_ceil_div(image->dim[3], TC_WINOGRAD_MOST_SIDE) * tc_ceil_div(result->dim[3], TC_WINOGRAD_MOST_SIDE);
  int64_t wanted = TC_MAX_OF(TC_MIN(ENOUGH / units, n / LEAST_OF_PART), 1);
  wanted = TC_MAX_OF(wanted, tc_ceil_div(n, MOST_OF_PART));
  return tc_ceil_div(n, tc_ceil_div(n, wanted));
}

// Operations of one unit; all units take the same.
static double unit_flops(int m, const tc_dims *image, const tc_dims *result) {
  int64_t c = tc_wside_of(image->dim[3], TC_WINOGRAD_MOST_SIDE), o = tc_wside_of(result->dim[3], TC_WINOGRAD_MOST_SIDE);
  if (m == 0) return (double)(2 * TC_WTAPS * image->dim[0] * result->dim[1] * result->dim[2]) * (double)(c * o);
  tc_wtiles by = tc_wtiles_of(m, image->dim[0], result->dim[1], result->dim[2]);
  return tc_winograd_wgrad_flops(&by, tc_winograd_wgrad_parts(m, image, result), c, o);
}

int tc_winograd_wgrad_size(const tc_dims *image, const tc_dims *result) {
  if (image->dim[3] % TC_WLANES || result->dim[3] % TC_WLANES) return 0;
  double least = WORTH_IT * unit_flops(0, image, result);
  int best = 0;
  for (int m = 2; m <= 4; m += 2)
    if (unit_flops(m, image, result) < least) least = unit_flops(m, image, result), best = m;
  return best;
}
