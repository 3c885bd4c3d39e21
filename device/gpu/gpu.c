// Opening devices, every device at once, and leaving them. See device/gpu.h.
//
// Invariants: devices are static, so that a handle outlives tc_gpu_shutdown and reports it instead
// of dangling.
#include "device/gpu.h"

#include <string.h>

#include "device/gpu/library.h"
#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of opening and shutting down
TC_FORK_SAFE(&lock, 7)
static tc_library_once opened[TC_N_DEVICES];  // by row, as the next
static const tc_gpu_driver *const drivers[TC_N_DEVICES] = {
    [TC_DEVICE_CUDA] = &tc_cuda_driver,
    [TC_DEVICE_HIP] = &tc_hip_driver,
};

const tc_gpu_driver *tc_gpu_driver_of(tc_device d) {
  return tc_device_row(d) < TC_N_DEVICES ? drivers[tc_device_row(d)] : NULL;
}

// ---- every device ----

tc_status tc_gpu_wait_all(void) {
  tc_status st = TC_OK;
  for (int row = 0; row < TC_N_DEVICES && !tc_gpu_forked(); row++)
    for (int i = 0; i < TC_MOST_ORDINALS && st == TC_OK; i++)
      if (atomic_load(&tc_gpus[row][i].open) && !atomic_load(&tc_gpus[row][i].lost)) st = tc_gpu_wait(&tc_gpus[row][i]);
  return st;
}

// Copies of other devices are waited for, even if one fails.
tc_status tc_gpu_read_end_all(const void *to) {
  tc_status st = TC_OK;
  for (int row = 0; row < TC_N_DEVICES; row++)
    for (int i = 0; i < TC_MOST_ORDINALS; i++) {
      tc_status one = atomic_load(&tc_gpus[row][i].open) ? tc_gpu_read_end(&tc_gpus[row][i], to) : TC_OK;
      if (st == TC_OK) st = one;
    }
  return st;
}

// ---- opening ----

static bool open_driver(int row, char *why, size_t bytes) {
  return tc_gpu_driver_of((tc_device)row)->open_library(why, bytes);
}

// pre: opening is locked. False with one sentence in why.
static bool open_device(tc_gpu *g, const tc_gpu_driver *driver, tc_device d, char *why, size_t bytes) {
  int n = 0, ordinal = tc_device_ordinal(d);
  const char *name, *what = "counting its devices";
  g->driver = driver, g->device = d;
  if (!tc_library_open_once(&opened[tc_device_row(d)], open_driver, tc_device_row(d), why, bytes)) return false;
  tc_gpu_touch();
  int result = driver->entry->device_count(&n);
  if (result == 0 && ordinal >= n) {
    snprintf(why, bytes, "%s has %d device%s, and none of number %d", driver->name, n, n == 1 ? "" : "s", ordinal);
    return false;
  }
  g->port = (tc_gpu_port){.driver = driver, .ordinal = ordinal};
  if (result == 0) result = driver->facts(ordinal, &g->facts, &what);
  if (result == 0 && !driver->choose_arch(&g->facts, why, bytes)) return false;
  if (result == 0) result = driver->open(&g->port, &what);
  if (result != 0) {
    tc_gpu_verdict verdict = driver->judge(result, &name);
    snprintf(why, bytes, "%s: %s: %s (%d)%s", driver->name, what, name, result,
             verdict == TC_GPU_OUT_OF_MEMORY ? ", others may hold its memory" : "");
    return false;
  }
  snprintf(why, bytes, "%s, %s, %zu MiB, %s, %s%s%s", g->facts.name, g->facts.arch, g->facts.memory_bytes >> 20,
           driver->entry->version, driver->compiler(), g->facts.cluster ? "; long rows by clusters of blocks" : "",
           g->facts.simulated ? "; simulated" : "");
  g->opened++;
  for (int i = 0; i < TC_GPU_N_LIBRARIES; i++) g->library[i].tried = false;
  return true;
}

// Returns d's state, and opens d first if needed; NULL with why not in *sentence.
static tc_gpu *find_device(tc_device d, const char **sentence) {
  const tc_gpu_driver *driver = tc_gpu_driver_of(d);
  tc_gpu *g = &tc_gpus[tc_device_row(d)][tc_device_ordinal(d)];
  char text[sizeof g->sentence] = "";
  *sentence = TC_GPU_FORKED;
  if (tc_gpu_forked()) return NULL;
  *sentence = g->sentence;
  if (TC_LIKELY(atomic_load_explicit(&g->open, memory_order_acquire))) return g;
  pthread_mutex_lock(&lock);
  if (!g->driver) pthread_mutex_init(&g->lock, NULL), pthread_mutex_init(&g->reading, NULL);
  bool open = atomic_load(&g->open);
  if (!open && !atomic_load(&g->lost)) {
    open = open_device(g, driver, d, text, sizeof text);
    if (strcmp(text, g->sentence) != 0) snprintf(g->sentence, sizeof g->sentence, "%s", text);
    atomic_store_explicit(&g->open, open, memory_order_release);
  }
  if (atomic_load(&g->lost)) *sentence = g->why;
  pthread_mutex_unlock(&lock);
  return open ? g : NULL;
}

const char *tc_gpu_absent(tc_device d) {
  const char *sentence;
  tc_gpu *g = find_device(d, &sentence);
  return !g ? sentence : atomic_load(&g->lost) ? g->why : NULL;
}

const char *tc_gpu_sentence(tc_device d) {
  const char *sentence;
  tc_gpu *g = find_device(d, &sentence);
  return g && atomic_load(&g->lost) ? g->why : sentence;
}

tc_status tc_gpu_get(tc_device d, tc_gpu **out) {
  const char *sentence;
  *out = NULL;
  tc_gpu *g = find_device(d, &sentence);
  if (!g) return TC_FAIL(TC_ERR_DEVICE, "%s: %s", tc_device_name(d), sentence);
  if (atomic_load(&g->lost)) return tc_gpu_refuse_lost(g);
  *out = g;
  return TC_OK;
}

const tc_gpu_facts *tc_gpu_facts_of(const tc_gpu *g) {
  return &g->facts;
}

// ---- leaving ----

// pre: opening is locked.
static void close_device(tc_gpu *g) {
  for (size_t i = 0; i < TC_GPU_FILLS; i++) {
    tc_gpu_code_release(g->fill[i]);
    g->fill[i] = NULL;
  }
  tc_gpu_code_release(g->copier);
  g->copier = NULL;
  pthread_mutex_lock(&g->lock);
  bool lost = atomic_load(&g->lost);
  if (!lost && g->driver->enter(&g->port) == 0) {
    tc_gpu_note(g, tc_gpu_port_wait(&g->port), "waiting for the end");
    tc_gpu_upload_trim(g);  // before anything that may find the device lost
    tc_gpu_async_read_trim(g);
    tc_gpu_retired_fini(g);
    tc_gpu_staging_fini(g);
    tc_gpu_upload_fini(g);
    tc_gpu_in_flight_fini(g, true);
    tc_gpu_async_read_fini(g, true);
    g->driver->leave(&g->port);
  } else {
    tc_gpu_retired_fini(g);
    tc_gpu_in_flight_fini(g, false);
    tc_gpu_async_read_fini(g, false);
    g->upload = (tc_gpu_upload){0};
    g->behind = NULL;
  }
  g->driver->close(&g->port, lost);
  atomic_store(&g->open, false);
  pthread_mutex_unlock(&g->lock);
}

void tc_gpu_shutdown(void) {
  if (tc_gpu_forked()) return;
  pthread_mutex_lock(&lock);
  for (int row = 0; row < TC_N_DEVICES; row++)
    for (int i = 0; i < TC_MOST_ORDINALS; i++)
      if (atomic_load(&tc_gpus[row][i].open)) close_device(&tc_gpus[row][i]);
  pthread_mutex_unlock(&lock);
}
