// ResNet-50 with torchvision's weights: the logits of images, or some steps of training. The model
// is examples/models/resnet.c.
//   example-resnet50 --weights w.safetensors --input x.npy --output logits.npy                            x [n, 3, h, w], normalised
//   example-resnet50 --weights w.safetensors --input x.npy --labels l.npy --train 10 --save new.safetensors    l [n], a loss a line
#include "examples/models/resnet_program.h"

int main(int argc, char **argv) {
  return resnet_program(argc, argv, "ResNet-50: logits of images [n, 3, h, w], or training by SGD.", RESNET50);
}
