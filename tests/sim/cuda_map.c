// Maps of tensors: the one kind that kernels of the dialect fetch boxes of, with the limits that
// cuda.h names.
#include <string.h>

#include "tests/sim/cuda_face.h"
#include "tests/sim/map.h"

// What cuda.h allows of any map.
static bool is_allowed(unsigned rank, const void *at, const cuuint64_t *extents, const cuuint64_t *strides,
                       const cuuint32_t *box, const cuuint32_t *steps) {
  if (rank < 1 || rank > 5 || (uintptr_t)at % 16) return false;
  for (unsigned i = 0; i < rank; i++) {
    if (extents[i] < 1 || extents[i] > 1ull << 32 || box[i] < 1 || box[i] > 256 || steps[i] < 1 || steps[i] > 8)
      return false;
  }
  for (unsigned i = 0; i + 1 < rank; i++) {
    if (strides[i] % 16 || strides[i] >= 1ull << 40) return false;
  }
  return true;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *at,
                                const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  SIM_ENTER(SIM_USUAL);
  if (!map || (uintptr_t)map % SIM_MAP_ALIGNED || !is_allowed(rank, at, extents, strides, box, steps) ||
      promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
    return SIM_INVALID;
  bool known = type == CU_TENSOR_MAP_DATA_TYPE_UINT16 && rank == 3 && box[0] == SIM_BOX && box[1] == SIM_BOX &&
               box[2] == 1 && steps[0] == 1 && steps[1] == 1 && steps[2] == 1 &&
               interleave == CU_TENSOR_MAP_INTERLEAVE_NONE && swizzle == CU_TENSOR_MAP_SWIZZLE_128B &&
               fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  if (!known) return SIM_NOT_SUPPORTED;
  sim_map made = {.magic = SIM_MAP_MAGIC, .address = (uintptr_t)at};
  memcpy(made.extent, extents, sizeof made.extent);
  memcpy(made.stride, strides, sizeof made.stride);
  memcpy(map, &made, sizeof made);
  return SIM_OK;
}
