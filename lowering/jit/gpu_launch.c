// Derives launches from kernels. See gpu_launch.h.
#include "lowering/jit/gpu_launch.h"

#include "lowering/kir/index_expr.h"
#include "runtime/status.h"

// Each thread group does one unit. If the grid would be too large, each does a chunk of units.
int64_t tc_gpu_launch_kernel(const tc_kernel *kernel, int64_t extent, tc_gpu_launch *out) {
  const tc_gpu_shape *shape = &kernel->gpu_shape;
  int64_t most = INT32_MAX / shape->cluster, chunk = TC_MAX_OF(tc_ceil_div(extent, most * shape->groups), 1),
          groups = tc_ceil_div(extent, chunk);
  out->code = kernel->gpu_code;
  out->blocks = (uint32_t)TC_MAX_OF(tc_ceil_div(groups, shape->groups), 1) * shape->cluster;
  out->threads = shape->threads, out->shared_bytes = shape->shared_bytes;
  return chunk;
}

tc_status tc_gpu_launch_tensor_map(tc_gpu *g, const tc_tensor_map *m, const uint64_t *words, uint64_t *out) {
  const tc_gpu_tensor_map facts = {{m->extent[0], m->extent[1], m->extent[2]}, {m->stride[0], m->stride[1]}};
  return tc_gpu_tensor_map_make(g, &facts, (const char *)(uintptr_t)words[m->buffer] + m->first * 2, out);
}
