// A device's lock, its errors, and what is destroyed once runs under way are over. See state.h.
//
// Invariants: an error that the driver reports as sticky marks the device lost for the process. Its
// context is the caller's, too, and is never reset. After fork the child touches nothing of a
// driver that its parent opened.
#include "device/gpu/state.h"

#include "runtime/arena.h"
#include "runtime/log.h"
#include "runtime/profile_file.h"

#define MOST_RETIRED 256

tc_gpu tc_gpus[TC_N_DEVICES][TC_MOST_ORDINALS];
static atomic_bool touched, forked;

static void in_child(void) {
  if (atomic_load(&touched)) atomic_store(&forked, true);
}

void tc_gpu_touch(void) {
  static bool watching;
  if (!watching) watching = pthread_atfork(NULL, NULL, in_child) == 0;
  atomic_store(&touched, true);
}

bool tc_gpu_forked(void) {
  return atomic_load_explicit(&forked, memory_order_relaxed);
}

// ---- errors ----

tc_status tc_gpu_refuse_forked(void) {
  return TC_FAIL(TC_ERR_DEVICE, "%s", TC_GPU_FORKED);
}

tc_status tc_gpu_refuse_lost(const tc_gpu *g) {
  return TC_FAIL(TC_ERR_DEVICE, "%s is lost: %s", tc_device_name(g->device), g->why);
}

// Other devices of the driver may be gone with it, so they are asked before they are used again.
static void lose_device(tc_gpu *g, const char *why) {
  static pthread_mutex_t losing = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&losing);
  bool first = !atomic_load(&g->lost);
  if (first) snprintf(g->why, sizeof g->why, "%s", why);
  atomic_store(&g->lost, true);
  pthread_mutex_unlock(&losing);
  if (!first) return;
  tc_log_line(TC_LOG_WARN, "%s is lost: %s; what it holds cannot be read any more", tc_device_name(g->device), why);
  for (int i = 0; i < TC_MOST_ORDINALS; i++) {
    tc_gpu *other = &tc_gpus[tc_device_row(g->device)][i];
    if (other != g) atomic_store(&other->doubtful, true);
  }
}

tc_status tc_gpu_fail_out_of_memory(tc_gpu *g, const char *what) {
  char holders[800];
  size_t room = 0, all = g->facts.memory_bytes;
  (void)tc_gpu_port_free_bytes(&g->port, &room);
  return TC_FAIL(TC_ERR_MEMORY, "%s: %s; %zu of %zu bytes are free: %s", tc_device_name(g->device), what, room, all,
                 tc_holders_tell(g->device, all - TC_MIN(all, room), holders, sizeof holders));
}

static tc_gpu_verdict judge_result(tc_gpu *g, int result, const char *what, char *text, size_t bytes) {
  const char *name;
  tc_gpu_verdict verdict = g->driver->judge(result, &name);
  if (TC_LIKELY(verdict == TC_GPU_FINE)) return verdict;
  snprintf(text, bytes, "%s: %s (%d)", what, name, result);
  if (verdict == TC_GPU_GONE) lose_device(g, text);
  return verdict;
}

tc_status tc_gpu_check(tc_gpu *g, int result, const char *what) {
  char text[256];
  tc_gpu_verdict verdict = judge_result(g, result, what, text, sizeof text);
  if (TC_LIKELY(verdict == TC_GPU_FINE)) return TC_OK;
  if (atomic_load(&g->lost)) return tc_gpu_refuse_lost(g);
  if (verdict == TC_GPU_OUT_OF_MEMORY) return tc_gpu_fail_out_of_memory(g, text);
  return TC_FAIL(TC_ERR_DEVICE, "%s: %s", tc_device_name(g->device), text);
}

tc_status tc_gpu_await(tc_gpu *g, void *event, const char *what) {
  uint64_t from = tc_profile_wait_begin();
  int result = event ? g->driver->entry->event_wait(event) : tc_gpu_port_wait(&g->port);
  tc_profile_wait_end(from);
  return tc_gpu_check(g, result, what);
}

bool tc_gpu_is_out_of_memory(const tc_gpu *g, int result) {
  const char *name;
  return TC_UNLIKELY(result != 0) && g->driver->judge(result, &name) == TC_GPU_OUT_OF_MEMORY;
}

void tc_gpu_note(tc_gpu *g, int result, const char *what) {
  char text[256];
  if (judge_result(g, result, what, text, sizeof text) == TC_GPU_REFUSED)
    tc_log_line(TC_LOG_WARN, "%s: %s", tc_device_name(g->device), text);
}

tc_status tc_gpu_begin(tc_gpu *g, const char *what) {
  if (TC_UNLIKELY(tc_gpu_forked())) return tc_gpu_refuse_forked();
  pthread_mutex_lock(&g->lock);
  tc_status st = TC_OK;
  if (atomic_load(&g->lost))
    st = tc_gpu_refuse_lost(g);
  else if (!atomic_load(&g->open))
    st = TC_FAIL(TC_ERR_DEVICE, "%s was shut down", tc_device_name(g->device));
  else
    st = tc_gpu_check(g, g->driver->enter(&g->port), what);
  if (st == TC_OK && TC_UNLIKELY(atomic_load(&g->doubtful))) {
    atomic_store(&g->doubtful, false);
    st = tc_gpu_check(g, tc_gpu_port_wait(&g->port), "asked whether it answers, after another device was lost");
    if (st != TC_OK) atomic_store(&g->doubtful, true), g->driver->leave(&g->port);  // asked again before it is used
  }
  if (st != TC_OK) pthread_mutex_unlock(&g->lock);
  return st;
}

bool tc_gpu_reach(tc_gpu *g) {
  if (tc_gpu_forked()) return false;
  pthread_mutex_lock(&g->lock);
  if (atomic_load(&g->open) && !atomic_load(&g->lost) && g->driver->enter(&g->port) == 0) return true;
  pthread_mutex_unlock(&g->lock);
  return false;
}

void tc_gpu_end(tc_gpu *g) {
  if (TC_LIKELY(!g->outside)) g->driver->leave(&g->port);
  g->outside = false;
  pthread_mutex_unlock(&g->lock);
}

// ---- what is destroyed when nothing uses it any more ----

// pre: locked, and entered unless the device is lost; nothing uses the list's entries.
static void destroy_list(tc_gpu *g, tc_gpu_retired *list) {
  bool lost = atomic_load(&g->lost);
  while (list) {
    tc_gpu_retired *r = list;
    list = r->next;
    if (r->replay) tc_gpu_replay_destroy(&g->port, r->replay, lost);
    if (r->made) g->driver->library[r->library]->drop(r->made);
    if (r->loaded.module && !lost)
      tc_gpu_note(g, g->driver->entry->module_unload(r->loaded.module), "unloading a kernel");
    tc_free(r);
  }
}

// Returns the list in the order of retiring: graphs before what they were captured from.
static tc_gpu_retired *take_retired(tc_gpu *g) {
  tc_gpu_retired *list = NULL;
  for (tc_gpu_retired *r = g->retired, *next; r; r = next) {
    next = r->next;
    r->next = list, list = r;
  }
  g->retired = NULL, g->n_retired = 0;
  return list;
}

void tc_gpu_retire(tc_gpu *g, tc_gpu_retired *r) {
  if (g->n_retired == MOST_RETIRED) {
    tc_gpu_note(g, tc_gpu_port_wait(&g->port), "waiting to unload kernels");
    destroy_list(g, take_retired(g));
  }
  r->next = g->retired;
  g->retired = r, g->n_retired++;
}

void tc_gpu_retired_fini(tc_gpu *g) {
  destroy_list(g, take_retired(g));
}

tc_status tc_gpu_wait_for_runs(tc_gpu *g) {
  TC_TRY(tc_gpu_begin(g, "waiting"));
  tc_gpu_retired *list = take_retired(g);
  pthread_mutex_unlock(&g->lock);
  tc_status st = tc_gpu_await(g, NULL, "waiting for what was asked for before");
  pthread_mutex_lock(&g->lock);
  destroy_list(g, list);
  tc_gpu_end(g);
  return st;
}
