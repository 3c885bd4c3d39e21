// The simulated driver's entry: options, devices, handles, the lock, contexts of threads.
#include "tests/sim/core.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sim_options sim_option;
sim_device sim_devices[SIM_MAX_DEVICES];
static pid_t started;  // the process that called the face's init; 0: none yet

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sim_object *objects;
static uint64_t random_state, numbers;

enum { MAX_CONTEXTS = 16 };
static __thread struct {
  sim_object *at[MAX_CONTEXTS];
  int n;
} contexts;

// ---- options ----

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtol(text, NULL, 0) : otherwise;
}

// "sm_90" or "90".
static int arch_number(const char *text, int otherwise) {
  if (!text || !*text) return otherwise;
  while (*text && (*text < '0' || *text > '9')) text++;
  return *text ? atoi(text) : otherwise;
}

static void read_options(void) {
  sim_options *o = &sim_option;
  o->n_devices = (int)number("TC_SIM_DEVICES", 1);
  if (o->n_devices < 0 || o->n_devices > SIM_MAX_DEVICES) o->n_devices = 1;
  o->arch = arch_number(getenv("TC_SIM_ARCH"), 90);
  const char *gfx = getenv("TC_SIM_GFX");
  snprintf(o->gfx, sizeof o->gfx, "%s", gfx && *gfx ? gfx : "gfx90a");
  o->warp = sim_is_hip && strncmp(o->gfx, "gfx9", 4) == 0 ? 64 : 32;
  o->processors = (int)number("TC_SIM_PROCESSORS", sim_is_hip ? 104 : o->arch >= 90 ? 132 : 108);
  o->memory_bytes = (size_t)number("TC_SIM_MEMORY_MIB", 8192) << 20;
  o->shared_optin = o->arch == 90 || o->arch == 100  ? 232448
                    : o->arch == 80 || o->arch == 87 ? 166912
                    : o->arch >= 86                  ? 101376
                                                     : 65536;
  if (sim_is_hip) o->shared_optin = 64 << 10;
  o->seed = (uint64_t)number("TC_SIM_SEED", 1);
  o->eager = (int)number("TC_SIM_EAGER", 30);
  const char *mma = getenv("TC_SIM_MMA");
  o->truncating = mma && strcmp(mma, "truncating") == 0;
  o->slow_copies = number("TC_SIM_SLOW_COPIES", 0) != 0;
  o->slow_capture_us = (unsigned)number("TC_SIM_SLOW_CAPTURE", 0);
  o->leaks = number("TC_SIM_LEAKS", 0) != 0;
  o->idle = number("TC_SIM_IDLE", 0) != 0;
  o->driver_version = (int)number("TC_SIM_DRIVER_VERSION", 13000);
  random_state = o->seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t sim_random(uint32_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)((random_state >> 16) % below);
}

uint64_t sim_next_number(void) {
  return ++numbers;
}

// ---- handles ----

void *sim_object_new(sim_kind kind, sim_device *device, size_t bytes) {
  sim_object *o = calloc(1, bytes);
  if (!o) return NULL;
  *o = (sim_object){.kind = kind, .device = device, .next = objects};
  objects = o;
  return o;
}

void sim_object_end(void *object) {
  ((sim_object *)object)->dead = true;
}

bool sim_alive(const void *object, sim_kind kind) {
  const sim_object *o = object;
  return o && o->kind == kind && !o->dead;
}

int sim_live_objects(void) {
  int n = 0;
  sim_lock();
  for (const sim_object *o = objects; o; o = o->next) {
    bool standing = o->kind == SIM_CONTEXT || o->kind == SIM_KERNEL || o->kind == SIM_NODE;
    if (o->kind == SIM_STREAM && ((const sim_stream *)o)->per_device) standing = true;
    if (o->kind == SIM_POOL && o->device->pool == (const sim_pool *)o) standing = true;
    n += !o->dead && !standing;
  }
  sim_unlock();
  return n;
}

size_t sim_live_bytes(int d) {
  return d >= 0 && d < SIM_MAX_DEVICES ? sim_devices[d].used_bytes : 0;
}

__attribute__((destructor)) static void tell_leaks(void) {
  if (!sim_option.leaks || started != getpid()) return;
  for (int i = 0; i < sim_option.n_devices; i++) {
    if (sim_devices[i].sticky) return;  // nothing can be given back to such a device
    if (sim_devices[i].used_bytes) sim_fault(0, "device %d: %zu bytes were never freed", i, sim_devices[i].used_bytes);
  }
  int n = sim_live_objects();
  if (n) sim_fault(0, "%d streams, events, modules, graphs or pools were never destroyed", n);
}

// ---- devices ----

bool sim_setup(void) {
  static bool done, good;
  if (done) return good;
  done = true;
  read_options();
  if (!sim_fail(getenv("TC_SIM_FAIL"))) sim_fault(0, "TC_SIM_FAIL=%s is not understood", getenv("TC_SIM_FAIL"));
  for (int i = 0; i < sim_option.n_devices; i++) {
    sim_device *d = &sim_devices[i];
    d->index = i;
    d->context = sim_object_new(SIM_CONTEXT, d, sizeof *d->context);
    d->legacy = sim_stream_new(d, true);
    d->pool = sim_object_new(SIM_POOL, d, sizeof *d->pool);
    if (!d->context || !d->legacy || !d->pool) return false;
    d->legacy->per_device = true;
  }
  good = sim_memory_setup();
  return good;
}

// ---- entering ----

void sim_lock(void) {
  pthread_mutex_lock(&lock);
}

void sim_unlock(void) {
  pthread_mutex_unlock(&lock);
}

static bool capturing_here(void) {
  for (int i = 0; i < sim_option.n_devices; i++) {
    for (const sim_stream *s = sim_devices[i].streams; s; s = s->sibling) {
      if (s->capture && s->capture_origin && !s->capture_relaxed && s->capture_thread == (uintptr_t)pthread_self())
        return true;
    }
  }
  return false;
}

static sim_error may_enter(const char *name, int needs) {
  if (!sim_setup()) return SIM_MEMORY;
  if ((needs & SIM_NEEDS_INIT) && !started) return SIM_NOT_INITIALIZED;
  sim_device *d = sim_here();
  if (needs & SIM_NEEDS_CONTEXT) {
    if (!d || d->refs == 0) return SIM_INVALID_CONTEXT;
    if (d->sticky && !(needs & SIM_AFTER_FAULT)) return d->sticky;
  }
  bool sticky = false;
  sim_error injected = sim_injected(name, &sticky);
  if (injected && sticky && d) d->sticky = injected;
  if (injected) return injected;
  if ((needs & SIM_NOT_IN_CAPTURE) && capturing_here()) {
    for (sim_stream *s = d ? d->streams : NULL; s; s = s->sibling) {
      if (s->capture && s->capture_thread == (uintptr_t)pthread_self()) s->capture_broken = true;
    }
    return SIM_CAPTURE_UNSUPPORTED;
  }
  return SIM_OK;
}

sim_guard sim_enter(const char *name, int needs) {
  // the lock may be one that nobody will give up
  if (started && started != getpid()) return (sim_guard){SIM_NOT_INITIALIZED, false};
  sim_lock();
  return (sim_guard){may_enter(name, needs), true};
}

void sim_leave(sim_guard *g) {
  if (g->locked) sim_unlock();
}

void sim_start(void) {
  started = getpid();
}

sim_object *sim_current(void) {
  return contexts.n ? contexts.at[contexts.n - 1] : NULL;
}

bool sim_push(sim_object *context) {
  if (contexts.n == MAX_CONTEXTS) return false;
  contexts.at[contexts.n++] = context;
  return true;
}

sim_object *sim_pop(void) {
  return contexts.n ? contexts.at[--contexts.n] : NULL;
}

void sim_set_current(sim_object *context) {
  if (contexts.n) contexts.n--;
  if (context) contexts.at[contexts.n++] = context;
}

sim_device *sim_here(void) {
  sim_object *c = sim_current();
  return c ? c->device : NULL;
}
