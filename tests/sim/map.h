// A map as the simulated driver encodes it, in the 128 bytes that are not for programs to look
// into: matrices of elements of two bytes, of which kernels fetch boxes of 64 rows by 64 elements,
// their rows swizzled by 128 bytes.
#pragma once

#include <stdint.h>

enum { SIM_BOX = 64, SIM_BOX_BYTES = SIM_BOX * SIM_BOX * 2, SIM_BOX_ALIGNED = 1024, SIM_MAP_ALIGNED = 128 };
#define SIM_MAP_MAGIC UINT64_C(0x70616d2d6d6973)

typedef struct sim_map {
  uint64_t magic, address, extent[3], stride[2];  // elements of a row, rows, matrices; bytes from one to the next
  uint64_t unused[9];
} sim_map;
_Static_assert(sizeof(sim_map) == 128, "a map has 128 bytes");
