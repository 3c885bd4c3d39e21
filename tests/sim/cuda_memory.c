// CUDA's face of the simulated driver: memory, pools, copies.
#include "tests/sim/cuda_face.h"

// ---- memory ----

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  SIM_ENTER(SIM_USUAL);
  *total = sim_option.memory_bytes;
  *free_bytes = *total - sim_here()->used_bytes;
  return SIM_OK;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
  SIM_ENTER(SIM_UNCAPTURED);
  uintptr_t p;
  SIM_TRY(sim_alloc(sim_here(), bytes, NULL, NULL, &p));
  *at = p;
  return SIM_OK;
}

CUresult cuMemFree_v2(CUdeviceptr at) {
  SIM_ENTER(SIM_UNCAPTURED);
  if (!at) return SIM_OK;
  SIM_TRY(sim_wait_device(sim_here()));
  return sim_free(sim_here(), at, NULL);
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
  SIM_ENTER(SIM_UNCAPTURED);
  return flags > 7 ? SIM_INVALID : sim_host_alloc(bytes, at);
}

CUresult cuMemFreeHost(void *at) {
  SIM_ENTER(SIM_UNCAPTURED);
  return sim_host_free(at);
}

CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
  SIM_ENTER(SIM_UNCAPTURED);
  if (flags > 15) return SIM_INVALID;
  return sim_pin(at, bytes, false);
}

CUresult cuMemHostUnregister(void *at) {
  SIM_ENTER(SIM_UNCAPTURED);
  SIM_TRY(sim_wait_device(sim_here()));
  return sim_unpin(at, false);
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at) {
  SIM_ENTER(SIM_USUAL);
  sim_device *d = sim_segment_of(at) ? sim_memory_device(at) : NULL;
  bool host = !d && sim_pinned(at, 1);
  if (!d && !host) return SIM_INVALID;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value = (CUcontext)(d ? d : sim_here())->context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)value = d ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value = (d ? d : sim_here())->index; break;
    default:
      sim_fault(attribute + 6000u, "pointer attribute %u was asked for, which the simulated driver does not have",
                attribute);
      return SIM_INVALID;
  }
  return SIM_OK;
}

// ---- copies ----

// to_device, from_device: which sides have to be a device's; the others may not be.
static sim_error copy(uintptr_t to, uintptr_t from, size_t bytes, bool to_device, bool from_device, CUstream stream) {
  sim_device *d = sim_here();
  SIM_STREAM_OR_RETURN(s, stream);
  if (bytes == 0) return SIM_OK;
  if (!to || !from) return SIM_INVALID;
  if (to_device && !sim_reachable(d, to, bytes) && sim_memory_device(to) == d) return SIM_INVALID;
  if (from_device && !sim_reachable(d, from, bytes) && sim_memory_device(from) == d) return SIM_INVALID;
  if ((to_device && !sim_memory_device(to)) || (from_device && !sim_memory_device(from))) return SIM_INVALID;
  if ((!to_device && sim_memory_device(to)) || (!from_device && sim_memory_device(from))) return SIM_INVALID;
  // a copy to memory that can be paged returns when it is done
  bool waits = !to_device && !sim_pinned(to, bytes) && !s->capture;
  SIM_TRY(sim_enqueue(s, &(sim_op){.kind = SIM_OP_COPY, .to = to, .from = from, .bytes = bytes}));
  return waits ? sim_wait_stream(s) : SIM_OK;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return copy(to, (uintptr_t)from, bytes, true, false, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return copy((uintptr_t)to, from, bytes, false, true, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return copy(to, from, bytes, true, true, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(to_context, SIM_CONTEXT) || !sim_alive(from_context, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  if (sim_memory_device(to) != ((sim_object *)to_context)->device ||
      sim_memory_device(from) != ((sim_object *)from_context)->device)
    return SIM_INVALID;
  if (!sim_reachable(sim_memory_device(to), to, bytes) || !sim_reachable(sim_memory_device(from), from, bytes))
    return SIM_INVALID;
  SIM_STREAM_OR_RETURN(s, stream);
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_COPY, .to = to, .from = from, .bytes = bytes});
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  SIM_ENTER(SIM_UNCAPTURED);
  SIM_TRY(copy(to, (uintptr_t)from, bytes, true, false, NULL));
  return sim_wait_stream(sim_here()->legacy);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  SIM_ENTER(SIM_UNCAPTURED);
  SIM_TRY(copy((uintptr_t)to, from, bytes, false, true, NULL));
  return sim_wait_stream(sim_here()->legacy);
}

static sim_error fill(CUdeviceptr to, uint32_t value, int width, size_t n, CUstream stream) {
  SIM_STREAM_OR_RETURN(s, stream);
  if (n == 0) return SIM_OK;
  if (to % (unsigned)width || !sim_reachable(sim_here(), to, n * (size_t)width)) return SIM_INVALID;
  return sim_enqueue(
      s, &(sim_op){.kind = SIM_OP_SET, .to = to, .value = value, .width = width, .bytes = n * (size_t)width});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return fill(to, value, 1, n, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return fill(to, value, 4, n, stream);
}

// ---- pools ----

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *p) {
  SIM_ENTER(SIM_NEEDS_INIT | SIM_NOT_IN_CAPTURE);
  sim_device *d = sim_cu_device(p->location.id);
  if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !d)
    return SIM_INVALID;
  sim_pool *n = sim_object_new(SIM_POOL, d, sizeof *n);
  if (!n) return SIM_MEMORY;
  *pool = (CUmemoryPool)n;
  return SIM_OK;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  SIM_ENTER(SIM_NEEDS_INIT | SIM_NOT_IN_CAPTURE);
  if (!sim_alive(pool, SIM_POOL)) return SIM_INVALID;
  sim_pool *p = (sim_pool *)pool;
  if (p == p->object.device->pool) return SIM_INVALID;
  sim_pool_end(p);
  return SIM_OK;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_alive(pool, SIM_POOL)) return SIM_INVALID;
  sim_pool *p = (sim_pool *)pool;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return *(int *)value == 0 || *(int *)value == 1 ? SIM_OK : SIM_INVALID;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: p->release_threshold = *(cuuint64_t *)value; return SIM_OK;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*(cuuint64_t *)value) return SIM_INVALID;
      p->used_high = p->used;
      return SIM_OK;
    default: return SIM_INVALID;
  }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_alive(pool, SIM_POOL)) return SIM_INVALID;
  const sim_pool *p = (sim_pool *)pool;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->release_threshold; return SIM_OK;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = p->used; return SIM_OK;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = p->used_high; return SIM_OK;
    default: return SIM_INVALID;
  }
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_kept) {
  SIM_ENTER(SIM_NEEDS_INIT);
  (void)bytes_kept;  // nothing is kept but what is in use
  return sim_alive(pool, SIM_POOL) ? SIM_OK : SIM_INVALID;
}

static sim_error alloc_in_order(CUdeviceptr *at, size_t bytes, sim_pool *pool, CUstream stream) {
  SIM_STREAM_OR_RETURN(s, stream);
  if (!sim_alive(pool, SIM_POOL) || pool->object.device != sim_here()) return SIM_INVALID;
  if (s->capture) return SIM_CAPTURE_UNSUPPORTED;
  uintptr_t p;
  SIM_TRY(sim_alloc(sim_here(), bytes, s, pool, &p));
  *at = p;
  return SIM_OK;
}

CUresult cuMemAllocAsync(CUdeviceptr *at, size_t bytes, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return alloc_in_order(at, bytes, sim_here()->pool, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  return alloc_in_order(at, bytes, (sim_pool *)pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr at, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  if (s->capture) return SIM_CAPTURE_UNSUPPORTED;
  return at ? sim_free(sim_here(), at, s) : SIM_OK;
}
