// A device's streams, pool, events and launches, by functions that both drivers have. See driver.h.
// Threads: under the device's lock, but for tc_gpu_port_wait.
#include "device/gpu/driver.h"

// Makes a pool of our own, which keeps freed memory. It reuses memory by the stream's order alone,
// so that runs of one program take the same steps.
static int make_pool(tc_gpu_port *p) {
  static const unsigned off_attributes[] = {TC_GPU_POOL_REUSE_OPPORTUNISTIC, TC_GPU_POOL_REUSE_INTERNAL_DEPENDENCIES};
  const tc_gpu_entry_points *e = p->driver->entry;
  tc_gpu_pool_properties properties = {.allocType = TC_GPU_ALLOCATION_PINNED,
                                       .location = {TC_GPU_LOCATION_DEVICE, p->ordinal}};
  unsigned long long all = UINT64_MAX;
  int off = 0, result = e->pool_create(&p->pool, &properties);
  if (result == 0) result = e->pool_set(p->pool, TC_GPU_POOL_RELEASE_THRESHOLD, &all);
  for (int i = 0; i < 2 && result == 0; i++) result = e->pool_set(p->pool, off_attributes[i], &off);
  return result;
}

int tc_gpu_port_open(tc_gpu_port *p, const char **what) {
  const tc_gpu_driver *d = p->driver;
  int result = d->enter(p);
  if (result == 0) {
    *what = "making a stream";
    for (int i = 0; i < TC_GPU_N_LINES && result == 0; i++)
      result = d->entry->stream_create(&p->stream[i], TC_GPU_STREAM_NON_BLOCKING);
    if (result == 0) *what = "making a memory pool", result = make_pool(p);
    d->leave(p);
  }
  if (result != 0) d->close(p, false);
  return result;
}

void tc_gpu_port_fini(tc_gpu_port *p) {
  const tc_gpu_entry_points *e = p->driver->entry;
  if (p->pool) (void)e->pool_destroy(p->pool);
  for (int i = 0; i < TC_GPU_N_LINES; i++)
    if (p->stream[i]) (void)e->stream_destroy(p->stream[i]);
}

int tc_gpu_port_wait(tc_gpu_port *p) {
  static const tc_gpu_line lines[] = {TC_GPU_UP, TC_GPU_WORK, TC_GPU_DOWN};
  int result = 0;
  for (size_t i = 0; i < sizeof lines / sizeof *lines && result == 0; i++)
    result = p->driver->entry->stream_wait(p->stream[lines[i]]);
  return result;
}

int tc_gpu_port_take(tc_gpu_port *p, tc_gpu_line line, size_t bytes, void **out) {
  int result = p->driver->entry->pool_alloc(out, bytes, p->pool, p->stream[line]);
  if (result != 0) *out = NULL;
  return result;
}

int tc_gpu_port_give(tc_gpu_port *p, void *at) {
  return p->driver->entry->pool_free(at, p->stream[TC_GPU_WORK]);
}

int tc_gpu_port_free_bytes(const tc_gpu_port *p, size_t *out) {
  size_t all;
  return p->driver->entry->memory_info(out, &all);
}

int tc_gpu_port_record(tc_gpu_port *p, tc_gpu_line line, void *event) {
  return p->driver->entry->event_record(event, p->stream[line]);
}

int tc_gpu_port_follow(tc_gpu_port *p, tc_gpu_line line, void *event) {
  return p->driver->entry->stream_follow(p->stream[line], event, 0);
}

int tc_gpu_port_load(tc_gpu_port *p, const tc_gpu_image *image, const char *name, tc_gpu_loaded *out) {
  const tc_gpu_entry_points *e = p->driver->entry;
  tc_gpu_loaded loaded = {0};
  int result = e->module_load(&loaded.module, image->data);
  if (result != 0) return result;
  result = e->module_function(&loaded.function, loaded.module, name);
  if (result == 0)
    *out = loaded;
  else
    (void)e->module_unload(loaded.module);
  return result;
}

int tc_gpu_port_set_line(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_node *node) {
  if (!node->request) return 0;
  tc_gpu_library which = node->request->library;
  const tc_gpu_library_driver *library = p->driver->library[which];
  if (p->library_line[which] == line) return 0;
  int result = library->set_stream ? library->set_stream(p, p->stream[line]) : 0;
  if (result == 0) p->library_line[which] = line;
  return result;
}

int tc_gpu_port_launch(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_node *n) {
  void *parameters[] = {n->parameter};
  int result = tc_gpu_port_set_line(p, line, n);
  if (result != 0) return result;
  if (n->request) return p->driver->library[n->request->library]->run(p, n->request);
  return p->driver->entry->launch(n->function, n->blocks, 1, 1, n->threads, 1, 1, n->shared_bytes, p->stream[line],
                                  parameters, NULL);
}
