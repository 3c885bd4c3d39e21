// Copies to the host that are begun now and waited for later.
//
// The device copies into pinned memory of tc's own, behind what it was asked for before, so nothing
// waits. Whoever waits for the copy moves it from there to the caller's memory. A large source is
// first copied on the device, at that memory's speed, and read from there beside the kernels that
// follow. Those may write the tensor's memory meanwhile. Memory is kept for the next copy.
// Invariants: at most TC_GPU_MOST_READ_BYTES are in use on either side; beyond that the oldest copy
// is waited for.
// Threads: under the lock of reading. A thread whose copy was taken by another waiting thread finds
// it whole.
#include <string.h>

#include "device/gpu/state.h"
#include "runtime/arena.h"

#define LEAST_BYTES ((size_t)64 << 10)

// pre: reading is locked. reached true: begun. reached false: the device is out of reach, and the
// driver's objects are not touched.
static void destroy_copy(tc_gpu *g, tc_gpu_async_read *l, bool reached) {
  if (reached) tc_gpu_event_destroy(g, l->event);
  if (reached && l->there) tc_gpu_note(g, tc_gpu_port_give(&g->port, l->there), "giving back memory");
  if (reached) tc_gpu_pinned_free(g, l->pinned);
  g->read_bytes -= l->room;
  tc_free(l);
}

static void destroy_all(tc_gpu *g, tc_gpu_async_read **list, bool reached) {
  while (*list) {
    tc_gpu_async_read *l = *list;
    *list = l->next;
    destroy_copy(g, l, reached);
  }
}

// pre: reading is locked. Waits for the oldest copy, without the device's lock.
static tc_status finish_first_copy(tc_gpu *g) {
  tc_gpu_async_read *l = g->reads;
  TC_TRY(tc_gpu_check(g, g->driver->enter(&g->port), "copying from the device"));
  tc_status st = tc_gpu_await(g, l->event, "waiting for what was asked for before");
  g->driver->leave(&g->port);
  if (st != TC_OK) return st;
  memcpy(l->to, l->pinned, l->bytes);
  g->reads = l->next;
  l->next = g->free_reads, g->free_reads = l;
  return TC_OK;
}

// pre: reading is locked, and begun.
static tc_status make_copy(tc_gpu *g, size_t room, tc_gpu_async_read **out) {
  tc_gpu_async_read *l = tc_calloc(1, sizeof *l);
  if (!l) return TC_FAIL(TC_ERR_MEMORY, "no memory for a copy to the host");
  tc_status st = tc_gpu_event(g, false, &l->event);
  if (st == TC_OK) st = tc_gpu_pinned(g, room, &l->pinned);
  l->room = room, g->read_bytes += room;
  if (st != TC_OK) return destroy_copy(g, l, true), st;
  *out = l;
  return TC_OK;
}

// pre: reading is locked, and begun. Returns a copy with room for `bytes`, kept or new.
static tc_status take_copy(tc_gpu *g, size_t bytes, tc_gpu_async_read **out) {
  size_t room = LEAST_BYTES;
  while (room < bytes) room *= 2;
  for (tc_gpu_async_read **at = &g->free_reads; *at; at = &(*at)->next) {
    if ((*at)->room != room) continue;
    *out = *at;
    *at = (*at)->next;
    return TC_OK;
  }
  if (g->read_bytes + room > TC_GPU_MOST_READ_BYTES) destroy_all(g, &g->free_reads, true);
  return make_copy(g, room, out);
}

// pre: reading is locked, and begun. Copies `from` to memory of its own on the device, from where
// another line reads it. If there is no such memory, nothing changes.
static tc_status put_aside(tc_gpu *g, tc_gpu_async_read *l, size_t bytes, const void **from, tc_gpu_line *line) {
  const tc_gpu_driver *d = g->driver;
  const char *name;
  if (!l->there) {
    int result = tc_gpu_port_take(&g->port, TC_GPU_WORK, l->room, &l->there);
    if (d->judge(result, &name) == TC_GPU_OUT_OF_MEMORY) return TC_OK;
    TC_TRY(tc_gpu_check(g, result, "taking memory for copies"));
  }
  TC_TRY(tc_gpu_check(g, d->copy(&g->port, l->there, *from, bytes), "copying on the device"));
  TC_TRY(tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, l->event), "recording an event"));
  TC_TRY(tc_gpu_check(g, tc_gpu_port_follow(&g->port, TC_GPU_DOWN, l->event), "waiting for an event"));
  *from = l->there, *line = TC_GPU_DOWN;
  return TC_OK;
}

// pre: reading is locked.
static tc_status begin_copy(tc_gpu *g, void *to, const void *from, size_t bytes) {
  tc_gpu_line line = TC_GPU_WORK;
  tc_gpu_async_read *l = NULL, **end = &g->reads;
  TC_TRY(tc_gpu_begin(g, "copying from the device"));
  tc_status st = take_copy(g, bytes, &l);
  if (st == TC_OK && tc_gpu_is_beside(bytes)) st = put_aside(g, l, bytes, &from, &line);
  if (st == TC_OK)
    st = tc_gpu_check(g, g->driver->read(&g->port, line, l->pinned, from, bytes), "copying from the device");
  if (st == TC_OK) st = tc_gpu_check(g, tc_gpu_port_record(&g->port, line, l->event), "recording an event");
  if (st == TC_OK) {
    while (*end) end = &(*end)->next;
    l->to = to, l->bytes = bytes, l->next = NULL;
    *end = l;
  } else if (l) {
    l->next = g->free_reads, g->free_reads = l;
  }
  tc_gpu_end(g);
  return st;
}

tc_status tc_gpu_async_read_begin(tc_gpu *g, void *to, const void *from, size_t bytes) {
  tc_status st = TC_OK;
  pthread_mutex_lock(&g->reading);
  while (g->reads && g->read_bytes + 2 * bytes > TC_GPU_MOST_READ_BYTES && st == TC_OK) st = finish_first_copy(g);
  if (st == TC_OK) st = begin_copy(g, to, from, bytes);
  pthread_mutex_unlock(&g->reading);
  return st;
}

static bool is_awaited(const tc_gpu *g, const void *to) {
  const tc_gpu_async_read *l = g->reads;
  while (l && to && l->to != to) l = l->next;
  return l != NULL;
}

tc_status tc_gpu_read_end(tc_gpu *g, const void *to) {
  tc_status st = TC_OK;
  if (tc_gpu_forked()) return g->reads ? tc_gpu_refuse_forked() : TC_OK;  // the parent's copies do not come here
  pthread_mutex_lock(&g->reading);
  while (st == TC_OK && is_awaited(g, to)) st = finish_first_copy(g);
  if (st != TC_OK && atomic_load(&g->lost)) destroy_all(g, &g->reads, false);  // they will never come
  pthread_mutex_unlock(&g->reading);
  return st;
}

tc_status tc_gpu_wait(tc_gpu *g) {
  tc_status st = tc_gpu_wait_for_runs(g), copied = tc_gpu_read_end(g, NULL);
  return st != TC_OK ? st : copied;
}

void tc_gpu_async_read_fini(tc_gpu *g, bool reached) {
  destroy_all(g, &g->reads, reached);
  destroy_all(g, &g->free_reads, reached);
}
