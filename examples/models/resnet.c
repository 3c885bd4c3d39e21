// ResNet: its sizes and weights by torchvision's names, and the forward pass. See resnet.h.
#include "examples/models/resnet.h"

#include <math.h>
#include <string.h>

#include "examples/models/weights.h"

static const double momentum = 0.1, eps = 1e-5;

// ---- Sizes ----

static bool is_bottleneck(const tc_archive *a) {
  for (int i = 0; i < tc_archive_count(a); i++)
    if (strstr(tc_archive_name(a, i), ".conv3.")) return true;
  return false;
}

static bool stage_of(const tc_archive *a, int stage, resnet_config *c) {
  int64_t inner[4], outer[4];
  const char *path = TC_NN_PATH("layer%d.", stage + 1);
  const char *form = c->bottleneck ? "[channels out, channels in, 1, 1]" : "[channels out, channels in, 3, 3]",
             *last = c->bottleneck ? "0.conv3.weight" : "0.conv2.weight";
  if (!weights_shape(a, path, "0.conv1.weight", 4, form, inner) || !weights_shape(a, path, last, 4, form, outer))
    return false;
  c->n_blocks[stage] = weights_count(a, path, ""), c->inner[stage] = inner[0], c->outer[stage] = outer[0];
  return true;
}

bool resnet_config_of(const tc_archive *a, resnet_config *out) {
  int64_t stem[4], fc[2];
  resnet_config c = {.bottleneck = is_bottleneck(a)};
  if (!weights_shape(a, "", "conv1.weight", 4, "[channels out, channels in, 7, 7]", stem) ||
      !weights_shape(a, "", "fc.weight", 2, "[classes, channels]", fc))
    return false;
  c.stem = stem[0], c.channels = stem[1], c.n_classes = fc[0];
  for (int s = 0; s < RESNET_STAGES; s++)
    if (!stage_of(a, s, &c)) return false;
  *out = c;
  return true;
}

// ---- Parameters ----

// Normal with variance 2 / (out * window), "fan out".
static tc_status add_conv(tc_nn_params *p, const char *path, int64_t in, int64_t out, int64_t size) {
  tc_tensor init = tc_nn_normal(TC_SHAPE(out, in, size, size), 0, sqrt(2.0 / (double)(out * size * size)));
  return tc_is_valid(tc_nn_add(p, TC_NN_PATH("%s.weight", path), init)) ? TC_OK : tc_last_error()->status;
}

// A convolution and the norm after it: prefix.conv<i> and prefix.bn<i>.
static tc_status add_conv_bn(tc_nn_params *p, const char *prefix, int i, int64_t in, int64_t out, int64_t size) {
  tc_status st = add_conv(p, TC_NN_PATH("%sconv%d", prefix, i), in, out, size);
  return st == TC_OK ? tc_nn_add_batch_norm(p, TC_NN_PATH("%sbn%d", prefix, i), out) : st;
}

// Only the first block of a stage changes size or channels, and then its shortcut has a
// convolution.
static tc_status add_block(tc_nn_params *p, const resnet_config *c, int stage, int block, int64_t in) {
  const char *prefix = TC_NN_PATH("layer%d.%d.", stage + 1, block);
  int64_t inner = c->inner[stage], outer = c->outer[stage];
  tc_status st;
  if (c->bottleneck) {
    st = add_conv_bn(p, prefix, 1, in, inner, 1);
    if (st == TC_OK) st = add_conv_bn(p, prefix, 2, inner, inner, 3);
    if (st == TC_OK) st = add_conv_bn(p, prefix, 3, inner, outer, 1);
  } else {
    st = add_conv_bn(p, prefix, 1, in, inner, 3);
    if (st == TC_OK) st = add_conv_bn(p, prefix, 2, inner, outer, 3);
  }
  if (st != TC_OK || (in == outer && (block > 0 || stage == 0))) return st;
  st = add_conv(p, TC_NN_PATH("%sdownsample.0", prefix), in, outer, 1);
  return st == TC_OK ? tc_nn_add_batch_norm(p, TC_NN_PATH("%sdownsample.1", prefix), outer) : st;
}

tc_status resnet_add(tc_nn_params *p, const resnet_config *c) {
  tc_status st = add_conv_bn(p, "", 1, c->channels, c->stem, 7);
  int64_t in = c->stem;
  for (int s = 0; s < RESNET_STAGES; s++)
    for (int b = 0; b < c->n_blocks[s] && st == TC_OK; b++) {
      st = add_block(p, c, s, b, in);
      in = c->outer[s];
    }
  if (st == TC_OK) st = tc_nn_add_linear(p, "fc", in, c->n_classes, true);
  return st;
}

// ---- Forward ----

static tc_tensor conv(const tc_nn_params *p, const char *path, tc_tensor x, int64_t stride) {
  int64_t size = tc_shape(tc_nn_get(p, TC_NN_PATH("%s.weight", path))).dim[3];
  return tc_nn_conv2d(p, path, x, (tc_conv_options){.stride = TC_SHAPE(stride), .padding = TC_SHAPE(size / 2)});
}

static tc_tensor conv_bn(const tc_nn_params *p, const char *prefix, int i, tc_tensor x, int64_t stride) {
  x = conv(p, TC_NN_PATH("%sconv%d", prefix, i), x, stride);
  return tc_nn_batch_norm(p, TC_NN_PATH("%sbn%d", prefix, i), x, momentum, eps);
}

static tc_tensor block_forward(const tc_nn_params *p, const char *prefix, tc_tensor x, int64_t stride) {
  tc_tensor y, shortcut = x;
  if (tc_nn_has(p, TC_NN_PATH("%sconv3.weight", prefix))) {
    y = tc_relu(conv_bn(p, prefix, 1, x, 1));
    y = tc_relu(conv_bn(p, prefix, 2, y, stride));
    y = conv_bn(p, prefix, 3, y, 1);
  } else {
    y = tc_relu(conv_bn(p, prefix, 1, x, stride));
    y = conv_bn(p, prefix, 2, y, 1);
  }
  if (tc_nn_has(p, TC_NN_PATH("%sdownsample.0.weight", prefix))) {
    shortcut = conv(p, TC_NN_PATH("%sdownsample.0", prefix), x, stride);
    shortcut = tc_nn_batch_norm(p, TC_NN_PATH("%sdownsample.1", prefix), shortcut, momentum, eps);
  }
  return tc_relu(tc_add(y, shortcut));
}

tc_tensor resnet_forward(const tc_nn_params *p, tc_tensor x) {
  x = tc_relu(conv_bn(p, "", 1, x, 2));
  x = tc_max_pool2d(x, TC_SHAPE(3), (tc_pool_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1)});
  for (int s = 1; s <= RESNET_STAGES; s++)
    for (int b = 0; tc_nn_has(p, TC_NN_PATH("layer%d.%d.conv1.weight", s, b)); b++)
      x = block_forward(p, TC_NN_PATH("layer%d.%d.", s, b), x, s > 1 && b == 0 ? 2 : 1);
  return tc_nn_linear(p, "fc", tc_mean(x, TC_AXES(2, 3), false));
}
