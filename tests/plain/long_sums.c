// Convolutions over so many channels that their sums are made in chunks, against the reference: a chunk ends where a piece of the window does.
#include <math.h>
#include <tc/tc.h>

#include "tests/plain/expect.h"

static tc_tensor convolved(tc_tensor x, tc_tensor weight, int64_t stride, const char *device) {
  tc_conv_options o = {.stride = TC_SHAPE(stride), .padding = TC_SHAPE(tc_shape(weight).dim[3] / 2)};
  return tc_to(tc_relu(tc_conv2d(tc_to(x, device), tc_to(weight, device), (tc_tensor){0, 0}, o)), "tc:cpu");
}

// window x window over channels, on images of side x side.
static void a_convolution_is_the_references(tc_type type, int64_t channels, int64_t side, int64_t window, int64_t stride) {
  double off = NAN, most = NAN;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(2, channels, side, side), type), weight = tc_randn(TC_SHAPE(24, channels, window, window), type);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, weight}));
  tc_tensor want = convolved(x, weight, stride, "tc:ref");
  tc_tensor diff = tc_max(tc_abs(tc_sub(convolved(x, weight, stride, "tc:cpu"), want)), TC_ALL, false);
  EXPECT_OK(tc_item_f64(tc_cast(diff, TC_F64), &off));
  EXPECT_OK(tc_item_f64(tc_cast(tc_max(want, TC_ALL, false), TC_F64), &most));
  EXPECT(off <= 1e-5 * most && most > 0, "%d channels, %dx%d over %d: off by %g of %g", (int)channels, (int)window, (int)window, (int)side, off,
         most);
  tc_scope_end(scope);
}

int main(void) {
  tc_seed(3);
  for (int64_t side = 2; side <= 5; side++) a_convolution_is_the_references(TC_F32, 512, side, 3, 1);
  a_convolution_is_the_references(TC_F32, 512, 4, 3, 2);
  a_convolution_is_the_references(TC_F32, 360, 4, 3, 1);  // pieces of 1080
  a_convolution_is_the_references(TC_F32, 130, 6, 5, 1);  // of 650
  a_convolution_is_the_references(TC_F32, 8, 20, 17, 1);  // of 136
  a_convolution_is_the_references(TC_F64, 512, 4, 3, 1);
  return expect_done("long sums");
}
