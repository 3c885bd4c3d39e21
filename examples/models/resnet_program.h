// The program that resnet18 and resnet50 are; the sizes are those of the file of weights, or
// `start` without one.
#ifndef EXAMPLES_MODELS_RESNET_PROGRAM_H
#define EXAMPLES_MODELS_RESNET_PROGRAM_H

#include "examples/models/resnet.h"

int resnet_program(int argc, char **argv, const char *about, resnet_config start);

#endif
