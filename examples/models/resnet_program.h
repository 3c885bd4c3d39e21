// The program that resnet18 and resnet50 are; the sizes are those of the file of weights, or
// `start` without one.
#pragma once

#include "examples/models/resnet.h"

int resnet_program(int argc, char **argv, const char *about, resnet_config start);
