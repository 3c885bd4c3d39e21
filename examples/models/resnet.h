// ResNet (He et al. 2015) as torchvision has it: its names, and the stride of a bottleneck in the
// 3x3 convolution.
#pragma once

#include <tc/nn.h>

enum { RESNET_STAGES = 4 };

typedef struct resnet_config {
  bool bottleneck;  // blocks of 1x1, 3x3, 1x1 convolutions; else of two 3x3
  int64_t channels, stem, n_classes;  // of the image, after the first convolution, of the result
  int64_t n_blocks[RESNET_STAGES], inner[RESNET_STAGES], outer[RESNET_STAGES];  // channels within blocks and after them
} resnet_config;

#define RESNET18 ((resnet_config){false, 3, 64, 1000, {2, 2, 2, 2}, {64, 128, 256, 512}, {64, 128, 256, 512}})
#define RESNET50 ((resnet_config){true, 3, 64, 1000, {3, 4, 6, 3}, {64, 128, 256, 512}, {256, 512, 1024, 2048}})

// What the shapes in a file say; false after saying on standard error which is not
// there, or of another rank.
bool resnet_config_of(const tc_archive *a, resnet_config *out);
// Adds the parameters (f32) with torchvision's initial values, drawn from the thread's random
// numbers, in the current scope. To load a file: tc_nn_load afterwards; before the scope ends that
// saves making values that nobody sees.
tc_status resnet_add(tc_nn_params *p, const resnet_config *c) TC_MUST_USE;
// x [n, channels, h, w] -> logits [n, n_classes]. Batch norm by the batch in training mode, which
// moves the running statistics.
tc_tensor resnet_forward(const tc_nn_params *p, tc_tensor x);
