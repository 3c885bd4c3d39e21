// Tensor memory in pools of size classes. See buffer.h.
#include "device/buffer.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/external.h"
#include "device/live_buffers.h"
#include "device/own_memory.h"
#include "device/size_class.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/profile_file.h"
#include "runtime/reentry.h"

#define HUGE_BYTES ((size_t)2 << 20)
// From this size on threads share the work on a tensor, and a core that reads to its end prefetches
// some lines more. No memory that other cores write may lie there.
// Measured: 2 threads, product of 64x64x64, with three reference counts there: 2.8 -> 2.95 us.
#define SHARED_BYTES ((size_t)16 << 10)
#define READ_AHEAD 2048
#define STAMPS 4096  // that a thread takes at a time

// "GPU" is here every device with memory of its own, a loaded back end's, too.
typedef struct gpu_buffer {
  tc_buffer buffer;
  tc_holder holder;
} gpu_buffer;

typedef struct gpu_pools {
  tc_own_memory own;
  tc_buffer *pool[TC_N_CLASSES];
  size_t live_bytes, pooled_bytes;
} gpu_pools;

static struct {
  pthread_mutex_t lock;
  tc_buffer *pool[TC_N_CLASSES];
  tc_buffer *shells;  // objects for wrapped memory, without memory of their own
  gpu_pools *gpu[256];  // by tc_device; NULL: nothing was made there
  tc_memory stats;
  tc_allocator allocator;
  bool cap_read;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 6)

static _Atomic uint64_t last_stamp;
static _Atomic(const tc_keeper *) keeper;
static _Atomic ptrdiff_t plan_bytes;

static _Thread_local struct {
  tc_peak peak;
  uint8_t memory;
  bool taken;  // true: this thread took some since tc_buffer_peak_begin
  uint64_t new_ticks;  // spent on getting memory that no pool had
  uint64_t to_device, from_device;  // bytes since tc_buffer_bus_take
  uint64_t next_stamp, end_stamp;  // of the stamps taken for this thread, those that are left
} seen;

// Notes that this thread took bytes of a memory, of which live_bytes are in use now.
static void note_use(uint8_t memory, size_t bytes, size_t live_bytes) {
  if (seen.memory != memory) return;
  if (!seen.taken) seen.peak = (tc_peak){live_bytes - bytes, 0}, seen.taken = true;
  seen.peak.most_bytes = TC_MAX_OF(seen.peak.most_bytes, live_bytes);
}

// A thread takes many at a time: an atomic add for each would cost as much as the rest of a pooled
// buffer's making.
static uint64_t new_stamp(void) {
  if (TC_UNLIKELY(seen.next_stamp == seen.end_stamp)) {
    seen.next_stamp = atomic_fetch_add_explicit(&last_stamp, STAMPS, memory_order_relaxed) + 1;
    seen.end_stamp = seen.next_stamp + STAMPS;
  }
  return seen.next_stamp++;
}

static void forget_made(tc_buffer *b) {
  atomic_store_explicit(&b->made, TC_GPU_ALL, memory_order_relaxed);
}

static void *memory_alloc(size_t bytes) {
  if (self.allocator.alloc) {
    void *own = self.allocator.alloc(bytes, self.allocator.arg);
    if ((uintptr_t)own % 64 == 0) return own;
    self.allocator.free(own, bytes, self.allocator.arg);
    tc_log_line(TC_LOG_WARN, "the caller's allocator gave memory that is not aligned to 64 bytes; it was refused");
    return NULL;
  }
  void *p = tc_malloc(1);  // this allocation is counted, and fails in tests, as every other does
  if (!p) return NULL;
  tc_free(p);
  size_t align = bytes >= HUGE_BYTES ? HUGE_BYTES : 64,
         behind = bytes >= SHARED_BYTES && bytes < HUGE_BYTES ? READ_AHEAD : 0;
  if (posix_memalign(&p, align, bytes + behind) != 0) return NULL;
  if (bytes >= HUGE_BYTES) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

static void memory_free(void *p, size_t bytes) {
  if (self.allocator.alloc)
    self.allocator.free(p, bytes, self.allocator.arg);
  else
    free(p);
}

// pre: locked. Frees a pooled buffer of class c.
static void drop_locked(int c) {
  tc_buffer *b = self.pool[c];
  self.pool[c] = b->next;
  self.stats.pooled_bytes -= b->bytes;
  memory_free(b->ptr, b->bytes);
  tc_free(b);
}

// pre: the buffer is in a GPU's memory.
static tc_holder *holder_of(tc_buffer *b) {
  return &((gpu_buffer *)b)->holder;
}

// pre: locked. Frees a GPU's pooled memory; returns its bytes.
static size_t trim_gpu_locked(gpu_pools *g) {
  size_t bytes = g->pooled_bytes;
  for (int c = 0; c < TC_N_CLASSES; c++)
    while (g->pool[c]) {
      tc_buffer *b = g->pool[c];
      g->pool[c] = b->next;
      tc_holder_remove(holder_of(b));
      tc_own_memory_free(g->own, b->ptr, b->bytes);
      tc_free(b);
    }
  g->pooled_bytes = 0;
  self.stats.gpu_pooled_bytes -= bytes;
  return bytes;
}

// pre: locked. Frees all pooled memory; returns its bytes.
static size_t trim_locked(void) {
  size_t bytes = self.stats.pooled_bytes;
  for (int d = 0; d < 256; d++)
    if (self.gpu[d]) bytes += trim_gpu_locked(self.gpu[d]);
  for (int c = 0; c < TC_N_CLASSES; c++)
    while (self.pool[c]) drop_locked(c);
  while (self.shells) {
    tc_buffer *b = self.shells;
    self.shells = b->next;
    tc_free(b);
  }
  return bytes;
}

// pre: locked. Returns the cap, which the first call reads; 0: there is none.
static size_t cap_locked(void) {
  if (!self.cap_read) {
    self.cap_read = true;
    if (self.stats.cap_bytes == 0) self.stats.cap_bytes = (size_t)TC_MAX_OF(tc_options_get()->memory_cap, 0);
  }
  return self.stats.cap_bytes;
}

// pre: locked. Returns a new buffer; NULL: there is no memory.
static tc_buffer *make_locked(size_t bytes) {
  tc_buffer *b = tc_calloc(1, sizeof *b);
  if (b) b->ptr = memory_alloc(bytes);
  if (b && !b->ptr) {
    (void)trim_locked();
    b->ptr = memory_alloc(bytes);
  }
  if (!b || !b->ptr) return tc_free(b), NULL;
  self.stats.n_allocs++;
  return b;
}

// pre: locked. Returns a pooled or new buffer of class c; NULL: there is no memory, or the cap
// forbids it.
static tc_buffer *take_locked(int c) {
  tc_buffer *b = self.pool[c];
  size_t bytes = tc_class_bytes(c), cap = cap_locked();
  if (cap && self.stats.live_bytes + bytes > cap) return NULL;
  if (b) {
    self.pool[c] = b->next;
    self.stats.pooled_bytes -= bytes;
  } else {
    uint64_t start = tc_ticks();
    b = make_locked(bytes);
    seen.new_ticks += tc_ticks_between(start, tc_ticks());
    if (!b) return NULL;
  }
  self.stats.live_bytes += bytes;
  self.stats.peak_bytes = TC_MAX_OF(self.stats.peak_bytes, self.stats.live_bytes);
  note_use(0, bytes, self.stats.live_bytes);
  return b;
}

void tc_buffer_bus_take(uint64_t *to_device, uint64_t *from_device) {
  *to_device = seen.to_device, *from_device = seen.from_device, seen.to_device = seen.from_device = 0;
}

// Makes the keeper of derived values give them back to the pools.
static void reclaim_kept(void) {
  const tc_keeper *k = atomic_load_explicit(&keeper, memory_order_acquire);
  if (k) k->reclaim();
}

// pre: locked. The pools of a device, made at the first use.
static tc_status gpu_pools_locked(tc_device d, gpu_pools **out) {
  tc_own_memory own;
  if ((*out = self.gpu[d])) return TC_OK;
  TC_TRY(tc_own_memory_of(d, &own));
  if (!(*out = self.gpu[d] = tc_calloc(1, sizeof **out))) return TC_FAIL(TC_ERR_MEMORY, "no room for a device's pools");
  (*out)->own = own;
  if (own.gpu) tc_gpu_set_evict(tc_buffer_reclaim);
  return TC_OK;
}

// pre: locked. Takes a pooled or new buffer of class c in a GPU's memory. If a new one does not
// fit, pooled memory is freed first. TC_ERR_MEMORY, without a recorded error: that was not enough.
static tc_status take_gpu_locked(gpu_pools *g, tc_device d, int c, tc_buffer **out) {
  tc_buffer *b = g->pool[c];
  size_t bytes = tc_class_bytes(c);
  tc_status st = TC_OK;
  if (b) {
    g->pool[c] = b->next;
    g->pooled_bytes -= bytes, self.stats.gpu_pooled_bytes -= bytes;
  } else {
    gpu_buffer *made = tc_calloc(1, sizeof *made);
    if (!made) return TC_FAIL(TC_ERR_MEMORY, "no room for a buffer object");
    b = &made->buffer;
    uint64_t start = tc_ticks();
    st = tc_own_memory_take(g->own, bytes, &b->ptr);
    if (st == TC_ERR_MEMORY && trim_gpu_locked(g)) st = tc_own_memory_take(g->own, bytes, &b->ptr);
    seen.new_ticks += tc_ticks_between(start, tc_ticks());
    if (st != TC_OK) return tc_free(made), st;
    tc_holder_add(&made->holder, d, TC_HOLDS_TENSOR, bytes);
  }
  g->live_bytes += bytes, self.stats.gpu_live_bytes += bytes;
  self.stats.gpu_peak_bytes = TC_MAX_OF(self.stats.gpu_peak_bytes, self.stats.gpu_live_bytes);
  note_use((uint8_t)d, bytes, g->live_bytes);
  *out = b;
  return TC_OK;
}

static tc_status create_on_gpu(tc_device d, size_t bytes, tc_buffer **out) {
  int c = tc_class_of(TC_MAX_OF(bytes, (size_t)256));
  gpu_pools *g;
  tc_buffer *b = NULL;
  pthread_mutex_lock(&self.lock);
  tc_status st = gpu_pools_locked(d, &g);
  if (st == TC_OK) st = take_gpu_locked(g, d, c, &b);
  if (st == TC_ERR_MEMORY && g) {
    pthread_mutex_unlock(&self.lock);
    reclaim_kept();
    pthread_mutex_lock(&self.lock);
    st = take_gpu_locked(g, d, c, &b);
  }
  size_t live = self.stats.live_bytes + self.stats.gpu_live_bytes;
  pthread_mutex_unlock(&self.lock);
  if (st == TC_ERR_MEMORY && g) return tc_own_memory_refuse(g->own, tc_class_bytes(c));
  if (st != TC_OK) return st;
  *b = (tc_buffer){.origin = TC_ORIGIN_OWNED,
                   .memory = (uint8_t)d,
                   .size_class = (uint16_t)c,
                   .bytes = tc_class_bytes(c),
                   .ptr = b->ptr};
  atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
  atomic_store_explicit(&b->stamp, new_stamp(), memory_order_relaxed);
  forget_made(b);
  tc_holder_set(holder_of(b), TC_HOLDS_TENSOR, (tc_call){tc_call_op(NULL), tc_inside ? tc_inside_call.site : 0});
  if (tc_profile_is_on()) tc_live_add(b, live);
  *out = b;
  return TC_OK;
}

void tc_buffer_tell(tc_buffer *b, tc_holding holding, tc_call made) {
  if (b && b->memory) tc_holder_set(holder_of(b), holding, made);
  if (b && TC_UNLIKELY(b->is_live)) tc_live_tell(b, holding, made);
}

void tc_buffer_reclaim(tc_device d) {
  reclaim_kept();
  pthread_mutex_lock(&self.lock);
  if (self.gpu[d]) (void)trim_gpu_locked(self.gpu[d]);
  pthread_mutex_unlock(&self.lock);
}

tc_status tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out) {
  if (tc_device_memory(d) == TC_DEVICE_CPU) return tc_buffer_create(bytes, out);
  *out = NULL;
  if (bytes > tc_class_bytes(TC_N_CLASSES - 1))
    return TC_FAIL(TC_ERR_MEMORY, "%zu bytes are more than one buffer can hold", bytes);
  return create_on_gpu(d, bytes, out);
}

void tc_buffer_peak_begin(tc_device d) {
  seen.memory = (uint8_t)tc_device_memory(d), seen.taken = false, seen.new_ticks = 0;
}

uint64_t tc_buffer_new_ticks(void) {
  return seen.new_ticks;
}

tc_peak tc_buffer_peak_end(void) {
  if (seen.taken) return seen.peak;
  pthread_mutex_lock(&self.lock);
  const gpu_pools *g = self.gpu[seen.memory];
  size_t live = !seen.memory ? self.stats.live_bytes : g ? g->live_bytes : 0;
  pthread_mutex_unlock(&self.lock);
  return (tc_peak){live, live};
}

tc_status tc_buffer_read(const tc_buffer *b, void *to, size_t bytes) {
  if (TC_UNLIKELY(b->strided != NULL)) return tc_strided_gather(b->strided, to, b->ptr), TC_OK;
  if (!b->memory) return memcpy(to, b->ptr, bytes), TC_OK;
  uint64_t made = atomic_load_explicit(&b->made, memory_order_relaxed);
  seen.from_device += bytes;
  return tc_own_memory_read(self.gpu[b->memory]->own, to, b->ptr, bytes, made);
}

tc_status tc_buffer_read_begin(const tc_buffer *b, void *to, size_t bytes) {
  if (!b->memory || !self.gpu[b->memory]->own.gpu) return tc_buffer_read(b, to, bytes);
  seen.from_device += bytes;
  return tc_gpu_read_begin(self.gpu[b->memory]->own.gpu, to, b->ptr, bytes);
}

void tc_buffer_set_made(tc_buffer *b) {
  if (b->memory && self.gpu[b->memory]->own.gpu)
    atomic_store_explicit(&b->made, tc_gpu_runs(self.gpu[b->memory]->own.gpu), memory_order_relaxed);
}

tc_status tc_buffer_write(tc_buffer *b, const void *from, size_t bytes) {
  forget_made(b);
  if (TC_UNLIKELY(b->strided != NULL)) return tc_strided_scatter(b->strided, b->ptr, from), TC_OK;
  if (!b->memory) return memcpy(b->ptr, from, bytes), TC_OK;
  seen.to_device += bytes;
  return tc_own_memory_write(self.gpu[b->memory]->own, b->ptr, from, bytes);
}

tc_status tc_buffer_clear(tc_buffer *b, size_t bytes) {
  if (!b->memory) return memset(b->ptr, 0, bytes), TC_OK;
  void *zeros = tc_calloc(1, bytes);
  if (!zeros) return TC_FAIL(TC_ERR_MEMORY, "no room for %zu bytes of zeros", bytes);
  tc_status st = tc_buffer_write(b, zeros, bytes);
  tc_free(zeros);
  return st;
}

tc_status tc_buffer_copy(tc_buffer *to, const tc_buffer *from, size_t bytes) {
  if (!from->memory && !from->strided) return tc_buffer_write(to, from->ptr, bytes);
  if (!to->memory && !to->strided) return tc_buffer_read(from, to->ptr, bytes);
  forget_made(to);
  if (to->memory && to->memory == from->memory)
    return tc_own_memory_copy(self.gpu[to->memory]->own, to->ptr, from->ptr, bytes);
  void *host = tc_malloc(bytes);
  if (!host) return TC_FAIL(TC_ERR_MEMORY, "no room to carry %zu bytes from one device to another", bytes);
  tc_status st = tc_buffer_read(from, host, bytes);
  if (st == TC_OK) st = tc_buffer_write(to, host, bytes);
  tc_free(host);
  return st;
}

tc_status tc_buffer_create(size_t bytes, tc_buffer **out) {
  *out = NULL;
  if (bytes > tc_class_bytes(TC_N_CLASSES - 1))
    return TC_FAIL(TC_ERR_MEMORY, "%zu bytes are more than one buffer can hold", bytes);
  int c = tc_class_of(TC_MAX_OF(bytes, (size_t)64));
  pthread_mutex_lock(&self.lock);
  uint64_t n_allocs = self.stats.n_allocs;
  tc_buffer *b = take_locked(c);
  const tc_keeper *k = atomic_load_explicit(&keeper, memory_order_acquire);
  if (!b && k) {
    pthread_mutex_unlock(&self.lock);
    k->reclaim();
    pthread_mutex_lock(&self.lock);
    b = take_locked(c);
  }
  const char *how = self.stats.n_allocs != n_allocs ? "create" : "reuse";
  size_t live = self.stats.live_bytes, all_live = live + self.stats.gpu_live_bytes;
  size_t pooled = self.stats.pooled_bytes, cap = self.stats.cap_bytes;
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_MEMORY))
    tc_log_line(TC_LOG_MEMORY, "%s %zu bytes: %zu in use, %zu pooled, cap %zu", b ? how : "refuse", bytes, live, pooled,
                cap);
  if (!b) return TC_FAIL(TC_ERR_MEMORY, "no room for %zu bytes: %zu in use, cap %zu (0: none)", bytes, live, cap);
  *b = (tc_buffer){.origin = TC_ORIGIN_OWNED, .size_class = (uint16_t)c, .bytes = tc_class_bytes(c), .ptr = b->ptr};
  atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
  atomic_store_explicit(&b->stamp, new_stamp(), memory_order_relaxed);
  if (tc_profile_is_on()) tc_live_add(b, all_live);
  *out = b;
  return TC_OK;
}

size_t tc_buffer_fit(size_t bytes) {
  if (bytes <= tc_class_bytes(TC_N_SMALL_CLASSES) || bytes > tc_class_bytes(TC_N_CLASSES - 1)) return bytes;
  int least = tc_class_of(bytes), c = least;
  pthread_mutex_lock(&self.lock);
  while (c < TC_N_CLASSES && !self.pool[c]) c++;
  size_t cap = cap_locked(), given = 0;
  if (c < TC_N_CLASSES && (cap == 0 || self.stats.live_bytes + tc_class_bytes(c) <= cap)) {
    bytes = tc_class_bytes(c);
  } else {
    for (c = least; c-- > TC_N_SMALL_CLASSES && tc_class_bytes(c) >= bytes / 8;)
      while (self.pool[c] && given < bytes) given += tc_class_bytes(c), drop_locked(c);
  }
  pthread_mutex_unlock(&self.lock);
  return bytes;
}

size_t tc_buffer_rounded(size_t bytes) {
  return bytes > tc_class_bytes(TC_N_CLASSES - 1) ? bytes : tc_class_bytes(tc_class_of(bytes));
}

size_t tc_buffer_room(tc_device d) {
  const tc_keeper *k = atomic_load_explicit(&keeper, memory_order_acquire);
  if (tc_device_memory(d) != TC_DEVICE_CPU) return SIZE_MAX;
  size_t idle = k ? k->idle_bytes() : 0;
  pthread_mutex_lock(&self.lock);
  size_t cap = cap_locked(), live = self.stats.live_bytes - TC_MIN(idle, self.stats.live_bytes);
  pthread_mutex_unlock(&self.lock);
  return cap == 0 ? SIZE_MAX : cap - TC_MIN(live, cap);
}

tc_status tc_buffer_wrap(void *ptr, size_t bytes, tc_origin origin, void (*drop)(void *), void *arg, tc_buffer **out) {
  *out = NULL;
  pthread_mutex_lock(&self.lock);
  tc_buffer *b = self.shells;
  if (b) self.shells = b->next;
  pthread_mutex_unlock(&self.lock);
  if (!b && !(b = tc_malloc(sizeof *b))) return TC_FAIL(TC_ERR_MEMORY, "no room for a buffer object");
  *b = (tc_buffer){.origin = (uint8_t)origin, .bytes = bytes, .ptr = ptr, .drop = drop, .drop_arg = arg};
  atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
  tc_external_add(b);
  *out = b;
  return TC_OK;
}

static void replace_stamp(tc_buffer *b, uint64_t stamp) {
  uint64_t old = atomic_exchange(&b->stamp, stamp);
  if (atomic_exchange(&b->watched, false)) atomic_load_explicit(&keeper, memory_order_acquire)->changed(old);
}

void tc_buffer_restamp(tc_buffer *b) {
  forget_made(b);
  if (tc_buffer_stamp(b)) replace_stamp(b, new_stamp());
}

void tc_buffer_unstamp(tc_buffer *b) {
  replace_stamp(b, 0);
}

void tc_buffer_lend(tc_buffer *b) {
  pthread_mutex_lock(&self.lock);
  if (b->n_lent++ == 0) b->stamped = tc_buffer_stamp(b) != 0;
  pthread_mutex_unlock(&self.lock);
  replace_stamp(b, 0);  // n_lent is counted, so nobody sets another stamp meanwhile
}

void tc_buffer_lend_end(tc_buffer *b) {
  pthread_mutex_lock(&self.lock);
  if (--b->n_lent == 0 && b->stamped) atomic_store(&b->stamp, new_stamp());
  pthread_mutex_unlock(&self.lock);
}

bool tc_buffer_is_lent(const tc_buffer *b) {
  pthread_mutex_lock(&self.lock);
  bool is_lent = b->n_lent > 0;
  pthread_mutex_unlock(&self.lock);
  return is_lent;
}

void tc_buffer_settle(tc_buffer *b) {
  atomic_store(&b->stamp, new_stamp());
}

void tc_buffer_set_keeper(const tc_keeper *k) {
  atomic_store_explicit(&keeper, k, memory_order_release);
}

// Gives a reference back. True: it was the last. Whoever has one alone need not write it: only a
// listed buffer gets references from elsewhere.
static bool drop_reference(tc_buffer *b) {
  return (tc_buffer_refs(b) == 1 && !b->listed) || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1;
}

void tc_buffer_release(tc_buffer *b) {
  if (!b || !drop_reference(b)) return;
  if (TC_UNLIKELY(atomic_load_explicit(&b->watched, memory_order_relaxed))) replace_stamp(b, 0);
  if (b->listed) tc_external_remove(b);  // before the caller may hand its memory out again
  if (b->origin != TC_ORIGIN_OWNED && b->drop) b->drop(b->drop_arg);
  if (TC_UNLIKELY(b->strided != NULL)) tc_strided_release(b->strided), b->strided = NULL;
  if (TC_UNLIKELY(b->stored_by)) tc_profile_unused(b->stored_by, b->bytes, b->is_live ? b->maker : (tc_call){NULL, 0});
  pthread_mutex_lock(&self.lock);
  if (TC_UNLIKELY(b->is_live)) tc_live_remove(b);
  if (b->memory) {
    gpu_pools *g = self.gpu[b->memory];
    tc_holder_set(holder_of(b), TC_HOLDS_POOLED, (tc_call){NULL, 0});
    b->next = g->pool[b->size_class];
    g->pool[b->size_class] = b;
    g->live_bytes -= b->bytes, g->pooled_bytes += b->bytes;
    self.stats.gpu_live_bytes -= b->bytes, self.stats.gpu_pooled_bytes += b->bytes;
  } else if (b->origin == TC_ORIGIN_OWNED) {
    b->next = self.pool[b->size_class];
    self.pool[b->size_class] = b;
    self.stats.live_bytes -= b->bytes;
    self.stats.pooled_bytes += b->bytes;
  } else {
    b->next = self.shells;
    self.shells = b;
  }
  pthread_mutex_unlock(&self.lock);
}

void tc_memory_of_plans(ptrdiff_t bytes) {
  atomic_fetch_add_explicit(&plan_bytes, bytes, memory_order_relaxed);
}

tc_memory tc_memory_stats(void) {
  if (!tc_enter("memory_stats", 0)) return (tc_memory){0};
  pthread_mutex_lock(&self.lock);
  tc_memory m = self.stats;
  m.cap_bytes = cap_locked();
  pthread_mutex_unlock(&self.lock);
  const tc_keeper *k = atomic_load_explicit(&keeper, memory_order_acquire);
  m.prepared_bytes = k ? k->bytes() : 0;
  m.plan_bytes = (size_t)atomic_load_explicit(&plan_bytes, memory_order_relaxed);
  tc_leave();
  return m;
}

tc_status tc_set_memory_cap_at(size_t bytes, tc_site site) {
  if (!tc_enter("set_memory_cap", site)) return TC_ERR_STATE;
  pthread_mutex_lock(&self.lock);
  self.stats.cap_bytes = bytes;
  self.cap_read = true;
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_MEMORY)) tc_log_line(TC_LOG_MEMORY, "cap %zu bytes (0: none)", bytes);
  tc_leave();
  return TC_OK;
}

void tc_trim(void) {
  if (!tc_enter("trim", 0)) return;
  reclaim_kept();
  pthread_mutex_lock(&self.lock);
  size_t bytes = trim_locked();
  pthread_mutex_unlock(&self.lock);
#ifdef __GLIBC__
  (void)malloc_trim(0);  // memory of plans lies between memory still in use
#endif
  if (tc_log_on(TC_LOG_MEMORY)) tc_log_line(TC_LOG_MEMORY, "trim: %zu bytes given back", bytes);
  tc_leave();
}

void tc_buffer_leave_gpus(void) {
  bool quiet = true;
  pthread_mutex_lock(&self.lock);
  for (int d = 0; d < 256; d++) quiet &= !self.gpu[d] || self.gpu[d]->live_bytes == 0;
  for (int d = 0; d < 256 && quiet; d++) {
    if (self.gpu[d]) (void)trim_gpu_locked(self.gpu[d]);
    tc_free(self.gpu[d]);
    self.gpu[d] = NULL;
  }
  pthread_mutex_unlock(&self.lock);
  if (quiet) tc_gpu_shutdown(), tc_loaded_shutdown();
}

// The caller's allocator may be gone by then.
static void trim_at_exit(void) __attribute__((destructor));
static void trim_at_exit(void) {
  if (!tc_frees_at_exit()) return;
  tc_own_memory_leave();
  reclaim_kept();
  pthread_mutex_lock(&self.lock);
  if (!self.allocator.free) trim_locked();
  pthread_mutex_unlock(&self.lock);
}

tc_status tc_set_allocator_at(tc_allocator allocator, tc_site site) {
  if (!allocator.alloc != !allocator.free)
    return tc_fail(TC_ERR_ARG, "set_allocator", site, "alloc and free go together");
  if (!tc_enter("set_allocator", site)) return TC_ERR_STATE;
  pthread_mutex_lock(&self.lock);
  bool used = self.stats.live_bytes != 0;
  if (!used) {
    (void)trim_locked();
    self.allocator = allocator;
  }
  pthread_mutex_unlock(&self.lock);
  tc_leave();
  return used ? tc_fail(TC_ERR_STATE, "set_allocator", site, "tensors exist already") : TC_OK;
}
