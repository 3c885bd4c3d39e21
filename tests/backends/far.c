// Back end "far": the example's loops, in memory whose addresses the host cannot use, on two
// devices. It counts what it is asked for, and fails when a test says so (control.h).
#define tc_backend_query toy_query
#include "examples/backend/toy.c"
#undef tc_backend_query

#include "tests/backends/control.h"

#define FAR (UINT64_C(1) << 60)  // added to addresses: no process has memory there

TC_BACKEND_EXPORT far_control far_control_now;
static far_control *const now = &far_control_now;
static const char *failed;

// Whether this call of the function is to fail.
static bool fails(far_function f, const char *name) {
  now->n_calls[f]++;
  if (now->fails_in[f] == 0 || --now->fails_in[f] > 0) return false;
  failed = name;
  return true;
}

// Before each piece of memory, so that all are found from here: what tc has in its pools at the
// process's end is no leak.
typedef struct piece {
  struct piece *next;
  struct piece *before;
} piece;
static piece *pieces;

static void *to_far(void *p) {
  return (void *)((uintptr_t)p + FAR);
}
static void *from_far(const void *p) {
  return (void *)((uintptr_t)p - FAR);
}

static int32_t far_count(void) {
  return 2;
}

static tc_backend_result far_open(int32_t ordinal, void **out_device) {
  static int device[2];
  if (fails(FAR_OPEN, "far_open")) return now->result;
  *out_device = &device[ordinal];
  now->n_devices++;
  return TC_BACKEND_OK;
}

static void far_close(void *device) {
  (void)device;
  now->n_devices--;
}

static const char *far_error(void *device) {
  (void)device;
  return failed;
}

static tc_backend_result far_alloc(void *device, size_t bytes, void **out) {
  if (fails(FAR_ALLOC, "far_alloc")) return now->result;
  if (now->most_live && now->n_live >= now->most_live) return TC_BACKEND_NO_MEMORY;
  piece *p;
  tc_backend_result r = get_memory(device, sizeof *p + bytes, (void **)&p);
  if (r != TC_BACKEND_OK) return r;
  p->next = pieces, p->before = NULL, pieces = p;
  if (p->next) p->next->before = p;
  *out = to_far(p + 1);
  now->n_live++;
  return TC_BACKEND_OK;
}

static void far_free(void *device, void *memory, size_t bytes) {
  piece *p = (piece *)from_far(memory) - 1;
  *(p->before ? &p->before->next : &pieces) = p->next;
  if (p->next) p->next->before = p->before;
  free_memory(device, p, bytes);
  now->n_live--;
}

static tc_backend_result far_write(void *device, void *to, const void *from, size_t bytes) {
  return fails(FAR_WRITE, "far_write") ? (tc_backend_result)now->result : copy(device, from_far(to), from, bytes);
}
static tc_backend_result far_read(void *device, void *to, const void *from, size_t bytes) {
  return fails(FAR_READ, "far_read") ? (tc_backend_result)now->result : copy(device, to, from_far(from), bytes);
}
static tc_backend_result far_copy(void *device, void *to, const void *from, size_t bytes) {
  return fails(FAR_COPY, "far_copy") ? (tc_backend_result)now->result
                                     : copy(device, from_far(to), from_far(from), bytes);
}

// A kernel is memory, so that one that is not released is a leak.
static tc_backend_result far_prepare(void *device, const tc_backend_op *op, void **out_kernel) {
  void **kernel = malloc(sizeof *kernel);
  (void)device;
  if (!kernel || fails(FAR_PREPARE, "far_prepare")) return free(kernel), now->result;
  *kernel = (void *)(uintptr_t)find_row(op->name);
  *out_kernel = kernel;
  now->n_kernels++;
  return TC_BACKEND_OK;
}

static void far_release(void *device, void *kernel) {
  (void)device;
  free(kernel);
  now->n_kernels--;
}

static tc_backend_result far_run(void *device, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                                 const tc_backend_number *arg) {
  const void *near[64];
  if (fails(FAR_RUN, "far_run")) return now->result;
  for (int i = 0; i < op->n_in; i++) near[i] = from_far(in[i]);
  return run(device, *(void **)kernel, op, near, from_far(out), arg);
}

TC_BACKEND_EXPORT const tc_backend *tc_backend_query(uint32_t version) {
  static tc_backend table;
  table = *toy_query(TC_BACKEND_VERSION);
  table.flags = 0, table.name = "far", table.description = NULL;
  table.device_count = far_count, table.open = far_open, table.close = far_close, table.last_error = far_error;
  table.alloc = far_alloc, table.free = far_free;
  table.write = far_write, table.read = far_read, table.copy = far_copy;
  table.prepare = far_prepare, table.release = far_release, table.run = far_run;
  return version == TC_BACKEND_VERSION ? &table : NULL;
}
