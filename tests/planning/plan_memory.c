// Plans are bounded in bytes: what they hold is counted, is little a node, goes by what was used
// least recently, and is given back.
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/options.h"
#include "tests/expect.h"

#define MOST_A_NODE 400

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);  // of the sanitizer, whose header not every gcc brings
static size_t allocated(void) {
  return __sanitizer_get_current_allocated_bytes();
}
static size_t resident(void) {  // freed memory stays resident for a while
  return allocated();
}
#else
static size_t allocated(void) {
  struct mallinfo2 m = mallinfo2();
  return m.uordblks + m.hblkhd;
}
static size_t resident(void) {
  size_t pages = 0, skip;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f) return 0;
  if (fscanf(f, "%zu %zu", &skip, &pages) != 2) pages = 0;
  fclose(f);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

static tc_tensor w;

// A recurrence of so many steps and its gradient: a plan a length. Returns its nodes.
static uint32_t unrolled(int length) {
  tc_sync_point p = {0};
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(2, length, 4), TC_F32), h = tc_zeros(TC_SHAPE(2, 4), TC_F32), g;
  for (int i = 0; i < length; i++) {
    tc_tensor z = tc_sigmoid(tc_add(tc_matmul(h, w), tc_select(x, 1, i)));
    h = tc_add(tc_mul(z, h), tc_mul(tc_add(tc_neg(z), 1), tc_tanh(tc_matmul(h, w))));
  }
  EXPECT_OK(tc_grads_of(tc_mean(h, TC_ALL, false), &w, 1, &g, 0));
  EXPECT_OK(tc_eval(1, &g));
  tc_scope_end(s);
  tc_sync_points(1, &p);
  return p.n_nodes;
}

static size_t plan_bytes(void) {
  return tc_memory_stats().plan_bytes;
}

static void bound(const char *bytes) {
  bytes ? setenv("TC_PLAN_CACHE_BYTES", bytes, 1) : unsetenv("TC_PLAN_CACHE_BYTES");
  tc_options_reload();
}

static void little_a_node(void) {
  for (int length = 15; length <= 45; length += 15) {
    size_t before = plan_bytes();
    uint32_t n = unrolled(length);
    size_t held = plan_bytes() - before;
    EXPECT(held > 20 * (size_t)n, "%zu bytes of %u nodes are too few to be true", held, n);
    EXPECT(held <= MOST_A_NODE * (size_t)n, "%zu bytes of %u nodes", held, n);
    before = plan_bytes();
    (void)unrolled(length);
    EXPECT(plan_bytes() == before, "a known plan took %zu bytes", plan_bytes() - before);
  }
}

// All but the newest go when there is no room, and with them what was said; kernels stay. Whether
// as much was freed as was told.
static void what_is_told_is_what_is_freed(void) {
  for (int length = 30; length < 40; length++) (void)unrolled(length);
  size_t told = plan_bytes(), was = allocated(), n_kernels = tc_cache_stats().n_kernels;
  bound("1");
  (void)unrolled(1);
  EXPECT(tc_cache_stats().n_plans == 1, "%zu plans", tc_cache_stats().n_plans);
  EXPECT(tc_cache_stats().n_kernels >= n_kernels, "kernels went");
  double freed = (double)was - (double)allocated(), less = (double)told - (double)plan_bytes();
  bound(NULL);
  EXPECT(less > 0 && freed > 0.9 * less - 65536 && freed < 1.2 * less + 65536, "%.0f bytes freed, %.0f told", freed,
         less);
}

static void least_recently_used_go(void) {
  char text[32];
  tc_cache_clear();
  size_t most = 0, beside = plan_bytes();
  uint64_t misses = 0;
  (void)unrolled(29);
  size_t room = 6 * (plan_bytes() - beside);
  snprintf(text, sizeof text, "%zu", room);
  bound(text);
  for (int length = 10; length < 30; length++) {
    (void)unrolled(length);
    most = plan_bytes() > most ? plan_bytes() : most;
    misses = tc_cache_stats().plan_misses;
    (void)unrolled(10);  // stays, for it is used
    EXPECT(tc_cache_stats().plan_misses == misses, "length %d put away what was used just now", length);
  }
  EXPECT(most > room / 2 && most <= room + beside, "%zu bytes held, room for %zu", most, room);
  EXPECT(tc_cache_stats().n_plans > 5 && tc_cache_stats().n_plans < 10, "%zu plans", tc_cache_stats().n_plans);
  // One that is larger than the bound is kept while it is the latest: a loop does not plan each
  // step.
  bound("1000");
  (void)unrolled(35);
  misses = tc_cache_stats().plan_misses;
  (void)unrolled(35);
  EXPECT(tc_cache_stats().plan_misses == misses, "a plan larger than the bound is made again");
  bound(NULL);
}

// One kernel after the other, each larger than the last: many instructions.
static void kernels_are_bounded(void) {
  const size_t room = 1 << 20;
  tc_cache_clear();
  setenv("TC_PLAN_CACHE", "1", 1), setenv("TC_KERNEL_CACHE_BYTES", "1048576", 1);
  tc_options_reload();
  for (int n = 20; n < 60; n++) {
    tc_scope s = tc_scope_begin();
    tc_tensor y = tc_ones(TC_SHAPE(8, 8), TC_F32);
    for (int i = 0; i < n; i++) y = tc_sin(y);
    EXPECT_OK(tc_eval(1, &y));
    tc_scope_end(s);
    tc_cache_info c = tc_cache_stats();
    EXPECT(c.kernel_bytes <= room || c.n_kernels == 1, "%zu kernels of %zu bytes", c.n_kernels, c.kernel_bytes);
  }
  unsetenv("TC_PLAN_CACHE"), unsetenv("TC_KERNEL_CACHE_BYTES");
  tc_options_reload();
  tc_cache_clear();
  EXPECT(tc_cache_stats().kernel_bytes == 0, "%zu bytes are left", tc_cache_stats().kernel_bytes);
}

static sem_t made, seen;

static void *idle_thread(void *arg) {
  (void)arg;
  tc_tensor own = tc_ones(TC_SHAPE(3), TC_F32), y;
  for (int i = 1; i < 6; i++) {
    tc_scope s = tc_scope_begin();
    y = own;
    for (int k = 0; k < i; k++) y = tc_exp(tc_mul(y, 0.1));
    EXPECT_OK(tc_eval(1, &y));
    tc_scope_end(s);
  }
  sem_post(&made);
  sem_wait(&seen);
  return NULL;
}

static void cleared_is_gone(void) {
  tc_cache_clear(), tc_trim();
  (void)unrolled(20);  // what the library takes once for all
  tc_cache_clear(), tc_trim();
  size_t before = resident(), held = plan_bytes();
  for (int length = 40; length < 76; length += 4) (void)unrolled(length);
  size_t at_most = resident();
  EXPECT(tc_cache_stats().n_plans == 9, "%zu plans", tc_cache_stats().n_plans);
  tc_cache_clear(), tc_trim();
  EXPECT(plan_bytes() == held, "%zu bytes of plans, %zu before", plan_bytes(), held);
  EXPECT(resident() <= before + (4 << 20), "%zu bytes are resident, %zu before, %zu with plans", resident(), before,
         at_most);
  // Of another thread, which lives and does nothing.
  pthread_t other;
  sem_init(&made, 0, 0), sem_init(&seen, 0, 0);
  EXPECT(pthread_create(&other, NULL, idle_thread, NULL) == 0, "no thread");
  sem_wait(&made);
  EXPECT(plan_bytes() > held, "the thread has no plans");
  tc_cache_clear();
  EXPECT(plan_bytes() == held, "an idle thread holds %zu bytes", plan_bytes() - held);
  sem_post(&seen);
  pthread_join(other, NULL);
  // A value that is yet to be made holds its plan, and nothing else does.
  tc_release(w);
  tc_shutdown();
  EXPECT(plan_bytes() == 0, "%zu bytes are left", plan_bytes());
}

int main(void) {
  const char *device = getenv("TC_TEST_DEVICE");
  setenv("TC_COMPILER", "interp", 1);  // no thread compiles meanwhile, which would take memory, too
  if (device) EXPECT_OK(tc_set_default_device(device));
  tc_tensor data = tc_from_host((const float[16]){0.1f, 0.2f, -0.3f, 0.4f}, TC_SHAPE(4, 4), TC_F32);
  w = tc_param(data);
  (void)unrolled(3);
  little_a_node();
  what_is_told_is_what_is_freed();
  least_recently_used_go();
  kernels_are_bounded();
  cleared_is_gone();
  return expect_done("planning-plan_memory");
}
