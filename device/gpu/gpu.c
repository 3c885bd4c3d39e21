// Opening devices, their errors, and leaving them.
//
// Devices are static, so that a handle outlives tc_gpu_shutdown and says so instead of dangling. What the driver reports as sticky marks the device lost for
// the process: its context is the caller's, too, and is never reset. After fork the child may touch nothing of a driver that its parent opened.
#include "device/gpu.h"

#include <string.h>

#include "device/gpu/library.h"
#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"

#define MOST_RETIRED 256
#define FORKED "the process was forked after a GPU was opened, and a child cannot use it: fork first, or start another program in the child"

const tc_gpu_driver *tc_gpu_driver_of(tc_device d) {
  switch (tc_device_row(d)) {
    case TC_DEVICE_CUDA: return &tc_cuda_driver;
    case TC_DEVICE_HIP: return &tc_hip_driver;
    default: return NULL;
  }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of opening and shutting down
TC_FORK_SAFE(&lock, 7)
static tc_gpu gpus[TC_N_DEVICES][TC_MOST_ORDINALS];
static tc_library_once drivers[TC_N_DEVICES];
static bool watching;  // forks
static atomic_bool touched, forked;

static void in_child(void) {
  if (atomic_load(&touched)) atomic_store(&forked, true);
}

bool tc_gpu_forked(void) {
  return atomic_load_explicit(&forked, memory_order_relaxed);
}

// ---- errors ----

tc_status tc_gpu_refuse_forked(void) {
  return TC_FAIL(TC_ERR_DEVICE, "%s", FORKED);
}

static tc_status refuse_lost(const tc_gpu *g) {
  return TC_FAIL(TC_ERR_DEVICE, "%s is lost: %s", tc_device_name(g->device), g->why);
}

// Others of the driver may be gone with it.
static void lose(tc_gpu *g, const char *why) {
  static pthread_mutex_t losing = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&losing);
  bool first = !atomic_load(&g->lost);
  if (first) snprintf(g->why, sizeof g->why, "%s", why);
  atomic_store(&g->lost, true);
  pthread_mutex_unlock(&losing);
  if (!first) return;
  tc_log_line(TC_LOG_WARN, "%s is lost: %s; what it holds cannot be read any more", tc_device_name(g->device), why);
  for (int i = 0; i < TC_MOST_ORDINALS; i++) {
    tc_gpu *other = &gpus[tc_device_row(g->device)][i];
    if (other != g) atomic_store(&other->doubtful, true);
  }
}

static tc_gpu_verdict judge(tc_gpu *g, int result, const char *what, char *text, size_t bytes) {
  const char *name;
  tc_gpu_verdict verdict = g->driver->judge(result, &name);
  if (TC_LIKELY(verdict == TC_GPU_FINE)) return verdict;
  snprintf(text, bytes, "%s: %s (%d)", what, name, result);
  if (verdict == TC_GPU_GONE) lose(g, text);
  return verdict;
}

tc_status tc_gpu_check(tc_gpu *g, int result, const char *what) {
  char text[256];
  tc_gpu_verdict verdict = judge(g, result, what, text, sizeof text);
  if (TC_LIKELY(verdict == TC_GPU_FINE)) return TC_OK;
  if (atomic_load(&g->lost)) return refuse_lost(g);
  if (verdict == TC_GPU_SHORT) return tc_gpu_tell_short(g, text);
  return TC_FAIL(TC_ERR_DEVICE, "%s: %s", tc_device_name(g->device), text);
}

void tc_gpu_note(tc_gpu *g, int result, const char *what) {
  char text[256];
  if (judge(g, result, what, text, sizeof text) == TC_GPU_REFUSED) tc_log_line(TC_LOG_WARN, "%s: %s", tc_device_name(g->device), text);
}

tc_status tc_gpu_begin(tc_gpu *g, const char *what) {
  if (TC_UNLIKELY(tc_gpu_forked())) return tc_gpu_refuse_forked();
  pthread_mutex_lock(&g->lock);
  tc_status st = TC_OK;
  if (atomic_load(&g->lost))
    st = refuse_lost(g);
  else if (!atomic_load(&g->open))
    st = TC_FAIL(TC_ERR_DEVICE, "%s was shut down", tc_device_name(g->device));
  else
    st = tc_gpu_check(g, g->driver->enter(&g->port), what);
  if (st == TC_OK && TC_UNLIKELY(atomic_load(&g->doubtful))) {
    atomic_store(&g->doubtful, false);
    st = tc_gpu_check(g, g->driver->wait(&g->port), "asked whether it answers, after another device was lost");
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

// ---- what goes when nothing uses it any more ----

// pre: locked, and entered unless the device is lost; nothing of the list is in use.
static void destroy_list(tc_gpu *g, tc_gpu_retired *list) {
  bool lost = atomic_load(&g->lost);
  while (list) {
    tc_gpu_retired *r = list;
    list = r->next;
    if (r->replay) g->driver->replay_destroy(&g->port, r->replay, lost);
    if (r->made) g->driver->library[r->library]->drop(r->made);
    if (r->loaded.module && !lost) tc_gpu_note(g, g->driver->unload(&g->port, &r->loaded), "unloading a kernel");
    tc_free(r);
  }
}

// In their order: graphs before what they were captured from.
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
    tc_gpu_note(g, g->driver->wait(&g->port), "waiting to unload kernels");
    destroy_list(g, take_retired(g));
  }
  r->next = g->retired;
  g->retired = r, g->n_retired++;
}

void tc_gpu_retired_fini(tc_gpu *g) {
  destroy_list(g, take_retired(g));
}

// Without the lock while it waits, so that other threads may ask for more.
static tc_status wait_for_runs(tc_gpu *g) {
  TC_TRY(tc_gpu_begin(g, "waiting"));
  tc_gpu_retired *list = take_retired(g);
  pthread_mutex_unlock(&g->lock);
  tc_status st = tc_gpu_check(g, g->driver->wait(&g->port), "waiting for what was asked for before");
  pthread_mutex_lock(&g->lock);
  destroy_list(g, list);
  tc_gpu_end(g);
  return st;
}

tc_status tc_gpu_wait(tc_gpu *g) {
  tc_status st = wait_for_runs(g), copied = tc_gpu_read_end(g, NULL);
  return st != TC_OK ? st : copied;
}

// ---- every device ----

tc_status tc_gpu_wait_all(void) {
  tc_status st = TC_OK;
  for (int row = 0; row < TC_N_DEVICES && !tc_gpu_forked(); row++)
    for (int i = 0; i < TC_MOST_ORDINALS && st == TC_OK; i++)
      if (atomic_load(&gpus[row][i].open) && !atomic_load(&gpus[row][i].lost)) st = tc_gpu_wait(&gpus[row][i]);
  return st;
}

// Those of other devices come, whatever becomes of one.
tc_status tc_gpu_read_end_all(const void *to) {
  tc_status st = TC_OK;
  for (int row = 0; row < TC_N_DEVICES; row++)
    for (int i = 0; i < TC_MOST_ORDINALS; i++) {
      tc_status one = atomic_load(&gpus[row][i].open) ? tc_gpu_read_end(&gpus[row][i], to) : TC_OK;
      if (st == TC_OK) st = one;
    }
  return st;
}

// ---- opening ----

static bool open_driver(int row, char *why, size_t bytes) {
  return tc_gpu_driver_of((tc_device)row)->open_library(why, bytes);
}

// pre: opening is locked. False with why not, in one sentence.
static bool open_device(tc_gpu *g, const tc_gpu_driver *driver, tc_device d, char *why, size_t bytes) {
  int n = 0, ordinal = tc_device_ordinal(d);
  const char *name, *what = "counting its devices";
  g->driver = driver, g->device = d;
  if (!tc_library_open_once(&drivers[tc_device_row(d)], open_driver, tc_device_row(d), why, bytes)) return false;
  atomic_store(&touched, true);
  int result = driver->count(&n);
  if (result == 0 && ordinal >= n) {
    snprintf(why, bytes, "%s has %d device%s, and none of number %d", driver->name, n, n == 1 ? "" : "s", ordinal);
    return false;
  }
  g->port = (tc_gpu_port){.ordinal = ordinal};
  if (result == 0) result = driver->facts(ordinal, &g->facts, &what);
  if (result == 0 && !driver->choose_arch(&g->facts, why, bytes)) return false;
  if (result == 0) result = driver->open(&g->port, &what);
  if (result != 0) {
    tc_gpu_verdict verdict = driver->judge(result, &name);
    snprintf(why, bytes, "%s: %s: %s (%d)%s", driver->name, what, name, result, verdict == TC_GPU_SHORT ? ", others may hold its memory" : "");
    return false;
  }
  snprintf(why, bytes, "%s, %s, %zu MiB, %s, %s%s%s", g->facts.name, g->facts.arch, g->facts.memory_bytes >> 20, driver->version(),
           driver->compiler(), g->facts.cluster ? "; long rows by clusters of blocks" : "", g->facts.simulated ? "; simulated" : "");
  g->opened++;
  for (int i = 0; i < TC_GPU_N_LIBRARIES; i++) g->library[i].tried = false;
  return true;
}

// Opens d if it is not; its state, or NULL with why not in *sentence.
static tc_gpu *get(tc_device d, const char **sentence) {
  const tc_gpu_driver *driver = tc_gpu_driver_of(d);
  tc_gpu *g = &gpus[tc_device_row(d)][tc_device_ordinal(d)];
  char text[sizeof g->sentence] = "";
  *sentence = FORKED;
  if (tc_gpu_forked()) return NULL;
  *sentence = g->sentence;
  if (TC_LIKELY(atomic_load_explicit(&g->open, memory_order_acquire))) return g;
  pthread_mutex_lock(&lock);
  if (!watching) watching = pthread_atfork(NULL, NULL, in_child) == 0;
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
  tc_gpu *g = get(d, &sentence);
  return !g ? sentence : atomic_load(&g->lost) ? g->why : NULL;
}

const char *tc_gpu_sentence(tc_device d) {
  const char *sentence;
  tc_gpu *g = get(d, &sentence);
  return g && atomic_load(&g->lost) ? g->why : sentence;
}

tc_status tc_gpu_get(tc_device d, tc_gpu **out) {
  const char *sentence;
  *out = NULL;
  tc_gpu *g = get(d, &sentence);
  if (!g) return TC_FAIL(TC_ERR_DEVICE, "%s: %s", tc_device_name(d), sentence);
  if (atomic_load(&g->lost)) return refuse_lost(g);
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
    tc_gpu_note(g, g->driver->wait(&g->port), "waiting for the end");
    tc_gpu_upload_trim(g);  // before anything that may find the device lost
    tc_gpu_later_trim(g);
    destroy_list(g, take_retired(g));
    tc_gpu_staging_fini(g);
    tc_gpu_upload_fini(g);
    tc_gpu_ahead_fini(g, true);
    tc_gpu_later_fini(g, true);
    g->driver->leave(&g->port);
  } else {
    destroy_list(g, take_retired(g));
    tc_gpu_ahead_fini(g, false);
    tc_gpu_later_fini(g, false);
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
      if (atomic_load(&gpus[row][i].open)) close_device(&gpus[row][i]);
  pthread_mutex_unlock(&lock);
}
