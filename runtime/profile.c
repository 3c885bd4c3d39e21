// Records of sync points in a ring. See profile.h.
#include "runtime/profile.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/autotune_log.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile_summary.h"
#include "runtime/reentry.h"
#include "runtime/sync_watch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define N_LATEST 256
#define GAUGE_NS 200000  // how long ticks are counted to learn the length of one

static struct {
  pthread_mutex_t lock;
  tc_sync_point latest[N_LATEST];  // record number n is at n modulo N_LATEST
  uint64_t n;
  tc_sync_sums sums;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 7)

bool tc_ticks_count;

static void find_ticks(void) __attribute__((constructor));
static void find_ticks(void) {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  // The counter's rate does not depend on the processor's state.
  tc_ticks_count = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#endif
}

typedef struct moment {
  uint64_t ns, ticks;
} moment;

// Reads both clocks at one moment. Of several readings the quickest counts, because a thread may be
// stopped between the two.
static moment moment_now(void) {
  moment best = {0, 0};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 8; i++) {
    uint64_t ticks = tc_ticks(), ns = tc_now_ns(), took = tc_ticks_between(ticks, tc_ticks());
    if (took < least) least = took, best = (moment){ns, ticks};
  }
  return best;
}

// Returns the nanoseconds of a tick.
double tc_tick_ns(void) {
  static _Atomic double known;
  double ns = atomic_load_explicit(&known, memory_order_relaxed);
  if (!tc_ticks_count) return 1;
  if (ns != 0) return ns;
  moment start = moment_now(), now = start;
  while (now.ns - start.ns < GAUGE_NS) now = moment_now();
  ns = (double)(now.ns - start.ns) / (double)TC_MAX_OF(tc_ticks_between(start.ticks, now.ticks), 1);
  atomic_store_explicit(&known, ns, memory_order_relaxed);
  return ns;
}

tc_sync_point tc_sync_point_in_ns(const tc_sync_point *r) {
  tc_sync_point out = *r;
  uint64_t *const times[] = {&out.before_ns, &out.lookup_ns,  &out.compile_ns, &out.allocate_ns,
                             &out.run_ns,    &out.publish_ns, &out.total_ns};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) *times[i] = (uint64_t)((double)*times[i] * tc_tick_ns());
  return out;
}

static void log_line(const tc_sync_point *ticks) {
  tc_sync_point ns = tc_sync_point_in_ns(ticks), *r = &ns;
  char text[PATH_MAX];
  tc_site_text(r->site, text, sizeof text);
  char fallbacks[80] = "";
  if (r->n_fallbacks || r->fallback_bytes)
    snprintf(fallbacks, sizeof fallbacks, ", %u fallbacks, %" PRIu64 " bytes copied", r->n_fallbacks,
             r->fallback_bytes);
  tc_log_line(TC_LOG_SYNC,
              "%s at %s: %s, graph %016" PRIx64 " of %u nodes, %u left, %u kernels (%s), %s, %u compiled, %" PRIu64
              " bytes%s, in use %" PRIu64 " planned, %" PRIu64 " at most; ns: before %" PRIu64 ", lookup %" PRIu64
              ", compile %" PRIu64 ", allocate %" PRIu64 ", run %" PRIu64 ", publish %" PRIu64,
              r->cause, text[0] ? text : "an unknown place", tc_status_text(r->status), r->hash, r->n_nodes, r->n_left,
              r->n_kernels, r->tier,
              r->bound ? "bound"
              : r->hit ? "hit"
                       : "new",
              r->n_compiled, r->bytes, fallbacks, r->planned_bytes, r->peak_bytes, r->before_ns, r->lookup_ns,
              r->compile_ns, r->allocate_ns, r->run_ns, r->publish_ns);
}

static void add_to_sums(tc_sync_sums *s, const tc_sync_point *r) {
  s->n_syncs++, s->n_failed += r->status != TC_OK, s->n_hits += r->hit, s->n_nodes += r->n_nodes;
  s->n_kernels += r->n_kernels, s->n_compiled += r->n_compiled, s->bytes += r->bytes, s->ticks += r->total_ns;
  s->n_fallbacks += r->n_fallbacks, s->fallback_bytes += r->fallback_bytes;
}

void tc_profile_add(const tc_sync_point *r) {
  pthread_mutex_lock(&self.lock);
  self.latest[self.n++ % N_LATEST] = *r;
  add_to_sums(&self.sums, r);
  if (TC_UNLIKELY(tc_options_profile_summary())) tc_profile_summary_add(r);
  pthread_mutex_unlock(&self.lock);
  tc_sync_watch_add(r);
  if (tc_log_on(TC_LOG_SYNC)) log_line(r);
}

tc_sync_sums tc_profile_sums(void) {
  pthread_mutex_lock(&self.lock);
  tc_sync_sums sums = self.sums;
  pthread_mutex_unlock(&self.lock);
  return sums;
}

int tc_sync_points(int n, tc_sync_point *out) {
  if (!tc_enter("sync_points", 0)) return 0;
  pthread_mutex_lock(&self.lock);
  uint64_t count = TC_MIN((uint64_t)TC_MAX_OF(out ? n : 0, 0), TC_MIN(self.n, (uint64_t)N_LATEST));
  for (uint64_t i = 0; i < count; i++) out[i] = tc_sync_point_in_ns(&self.latest[(self.n - count + i) % N_LATEST]);
  pthread_mutex_unlock(&self.lock);
  tc_leave();
  return (int)count;
}

void tc_profile_print(FILE *out) {
  pthread_mutex_lock(&self.lock);
  tc_profile_summary_print(out, tc_tick_ns());
  pthread_mutex_unlock(&self.lock);
}

static void log_tuned(void) {
  tc_log_message m;
  if (tc_log_begin(&m)) tc_autotune_log_print(m.to);
  tc_log_end(&m, TC_LOG_TUNE);
}

static void at_exit(void) __attribute__((destructor));
static void at_exit(void) {
  if (tc_inside || !self.n) return;
  if (tc_options_profile_summary()) tc_profile_print(stderr);
  if (tc_log_on(TC_LOG_TUNE) && tc_autotune_log_count()) log_tuned();
}
