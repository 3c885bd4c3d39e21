// Records of sync points in a ring, their sums, and printing them. See profile.h.
#include "runtime/profile.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/autotune_log.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/reentry.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define N_SITES 256
#define N_LATEST 256
#define N_BINS 8
#define N_KERNELS 512
#define N_PLANS 256
#define GAUGE_NS 200000  // how long ticks are counted to learn the length of one

typedef struct site_sum {
  tc_sync_point sum;  // site, cause and tier are the latest; numbers are sums, memory is the maximum
  uint64_t n, n_hit, n_compiled, n_nodes, n_left, n_kernels, n_wrong;
  uint64_t bin[N_BINS];  // counts graphs of at most 10, 30, 100, ... nodes
} site_sum;

// Sums of a plan on a GPU.
typedef struct plan_sum {
  uint64_t hash, n, n_replayed;
  const char *note;  // of the latest run that had one; NULL: none had
  const char *latest;  // of the latest run; NULL: it had none
  uint64_t copied_bytes;  // by the latest run
} plan_sum;

typedef struct kernel_sum {
  char name[64];
  uint64_t n, ns;
} kernel_sum;

static struct {
  pthread_mutex_t lock;
  kernel_sum kernel[N_KERNELS];
  int n_kernels;
  plan_sum plan[N_PLANS + 1];  // by hash, open addressing; the last row takes plans that find no free row
  site_sum site[N_SITES];
  tc_sync_point latest[N_LATEST];  // record number n is at n modulo N_LATEST
  int n_sites;
  uint64_t n;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 7)

static _Thread_local int last_site;  // tried first, because a loop syncs at one place

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

static tc_sync_point in_ns(const tc_sync_point *r) {
  tc_sync_point out = *r;
  uint64_t *const times[] = {&out.before_ns, &out.lookup_ns,  &out.compile_ns, &out.allocate_ns,
                             &out.run_ns,    &out.publish_ns, &out.total_ns};
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) *times[i] = (uint64_t)((double)*times[i] * tc_tick_ns());
  return out;
}

static int bin_of(uint32_t n_nodes) {
  static const uint32_t top[N_BINS - 1] = {10, 30, 100, 300, 1000, 3000, 10000};
  int b = 0;
  while (b < N_BINS - 1 && n_nodes > top[b]) b++;
  return b;
}

static bool is_of(const site_sum *s, const tc_sync_point *r) {
  return s->sum.site == r->site && s->sum.cause == r->cause;
}

// pre: locked. Returns the site's sums; the last row takes sites that find no free row.
static site_sum *sum_of(const tc_sync_point *r) {
  if (last_site < self.n_sites && is_of(&self.site[last_site], r)) return &self.site[last_site];
  for (int i = 0; i < self.n_sites; i++)
    if (is_of(&self.site[i], r)) return &self.site[last_site = i];
  if (self.n_sites == N_SITES) return &self.site[N_SITES - 1];
  self.site[self.n_sites] = (site_sum){.sum = {.site = r->site, .cause = r->cause}};
  return &self.site[self.n_sites++];
}

// pre: locked.
static void add_plan(const tc_sync_point *r) {
  int at = (int)(r->hash % N_PLANS), n = 0;
  while (n < N_PLANS && self.plan[at].n && self.plan[at].hash != r->hash) at = (at + 1) % N_PLANS, n++;
  plan_sum *p = &self.plan[n < N_PLANS ? at : N_PLANS];
  p->hash = n < N_PLANS ? r->hash : 0, p->n++, p->n_replayed += r->replayed, p->latest = r->gpu_note,
  p->copied_bytes = r->copied_bytes;
  if (r->gpu_note) p->note = r->gpu_note;
}

static void log_line(const tc_sync_point *ticks) {
  tc_sync_point ns = in_ns(ticks), *r = &ns;
  char text[128];
  tc_site_text(r->site, text, sizeof text);
  tc_log_line(TC_LOG_SYNC,
              "%s at %s: %s, graph %016" PRIx64 " of %u nodes, %u left, %u kernels (%s), %s, %u compiled, %" PRIu64
              " bytes, in use %" PRIu64 " planned, %" PRIu64 " at most; ns: before %" PRIu64 ", lookup %" PRIu64
              ", compile %" PRIu64 ", allocate %" PRIu64 ", run %" PRIu64 ", publish %" PRIu64,
              r->cause, text[0] ? text : "an unknown place", tc_status_text(r->status), r->hash, r->n_nodes, r->n_left,
              r->n_kernels, r->tier, r->hit ? "hit" : "new", r->n_compiled, r->bytes, r->planned_bytes, r->peak_bytes,
              r->before_ns, r->lookup_ns, r->compile_ns, r->allocate_ns, r->run_ns, r->publish_ns);
}

void tc_profile_add(const tc_sync_point *r) {
  pthread_mutex_lock(&self.lock);
  site_sum *s = sum_of(r);
  s->n++, s->n_hit += r->hit, s->n_compiled += r->n_compiled, s->n_nodes += r->n_nodes, s->n_left += r->n_left,
      s->n_kernels += r->n_kernels;
  s->n_wrong += r->n_wrong, s->bin[bin_of(r->n_nodes)]++;
  tc_sync_point *sum = &s->sum;
  sum->tier = r->tier, sum->bytes += r->bytes, sum->before_ns += r->before_ns, sum->lookup_ns += r->lookup_ns,
  sum->compile_ns += r->compile_ns;
  sum->planned_bytes = TC_MAX_OF(sum->planned_bytes, r->planned_bytes),
  sum->peak_bytes = TC_MAX_OF(sum->peak_bytes, r->peak_bytes);
  sum->allocate_ns += r->allocate_ns, sum->run_ns += r->run_ns, sum->publish_ns += r->publish_ns,
      sum->total_ns += r->total_ns;
  if (r->replayed || r->gpu_note) add_plan(r);
  self.latest[self.n++ % N_LATEST] = *r;
  pthread_mutex_unlock(&self.lock);
  if (tc_log_on(TC_LOG_SYNC)) log_line(r);
}

int tc_sync_points(int n, tc_sync_point *out) {
  if (!tc_enter("sync_points", 0)) return 0;
  pthread_mutex_lock(&self.lock);
  uint64_t count = TC_MIN((uint64_t)TC_MAX_OF(out ? n : 0, 0), TC_MIN(self.n, (uint64_t)N_LATEST));
  for (uint64_t i = 0; i < count; i++) out[i] = in_ns(&self.latest[(self.n - count + i) % N_LATEST]);
  pthread_mutex_unlock(&self.lock);
  tc_leave();
  return (int)count;
}

static void print_row(const site_sum *s, FILE *out) {
  const tc_sync_point ns_sum = in_ns(&s->sum), *sum = &ns_sum;
  char text[128];
  double n = (double)s->n, us = 1e-3 / n;
  tc_site_text(sum->site, text, sizeof text);
  fprintf(out, "%-32s %-12s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %6s %8.0f %8.0f %8.1f %9.3f %9.3f %9.3f", text,
          sum->cause, s->n, s->n_hit, s->n_compiled, sum->tier, (double)s->n_nodes / n, (double)s->n_left / n,
          (double)s->n_kernels / n, (double)sum->bytes / n * 1e-6, (double)sum->planned_bytes * 1e-6,
          (double)sum->peak_bytes * 1e-6);
  const uint64_t ns[] = {sum->before_ns,   sum->lookup_ns, sum->compile_ns,
                         sum->allocate_ns, sum->run_ns,    sum->publish_ns};
  for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++) fprintf(out, " %9.2f", (double)ns[i] * us);
  fprintf(out, " ");
  for (int b = 0; b < N_BINS; b++) fprintf(out, " %" PRIu64, s->bin[b]);
  if (s->n_wrong) fprintf(out, "  (%" PRIu64 " results wrong)", s->n_wrong);
  fputc('\n', out);
}

static int by_time(const void *a, const void *b) {
  const kernel_sum *x = a, *y = b;
  return x->ns < y->ns ? 1 : x->ns > y->ns ? -1 : 0;
}

// pre: locked.
static void print_kernels(FILE *out) {
  uint64_t sum = 0;
  for (int i = 0; i < self.n_kernels; i++) sum += self.kernel[i].ns;
  qsort(self.kernel, (size_t)self.n_kernels, sizeof self.kernel[0], by_time);
  fprintf(out, "%-64s %10s %12s %10s %6s\n", "kernel (of all threads; a GPU's own)", "calls", "ms", "us a call",
          "share");
  for (int i = 0; i < self.n_kernels; i++) {
    const kernel_sum *k = &self.kernel[i];
    fprintf(out, "%-64s %10" PRIu64 " %12.3f %10.2f %5.1f%%\n", k->name, k->n, (double)k->ns * 1e-6,
            (double)k->ns * 1e-3 / (double)k->n, 100.0 * (double)k->ns / (double)TC_MAX_OF(sum, UINT64_C(1)));
  }
}

// pre: locked. A note that the latest run no longer has is printed as an earlier run's, usually the
// first one's.
static void print_plans(FILE *out) {
  bool any = false;
  for (int i = 0; i <= N_PLANS; i++) {
    const plan_sum *p = &self.plan[i];
    if (!p->n) continue;
    if (!any)
      fprintf(out, "%-24s %10s %10s  %s\n", "plan on a GPU", "runs", "replayed",
              "why not, why one waits for it, or why it copies");
    any = true;
    char name[24] = "others";
    if (i < N_PLANS) snprintf(name, sizeof name, "%016" PRIx64, p->hash);
    fprintf(out, "%-24s %10" PRIu64 " %10" PRIu64 "  %s%s", name, p->n, p->n_replayed,
            p->latest || !p->note ? "" : "earlier: ", p->note ? p->note : "");
    if (p->copied_bytes) fprintf(out, ": %" PRIu64 " bytes", p->copied_bytes);
    fputc('\n', out);
  }
}

void tc_profile_print(FILE *out) {
  static const char *const phases[] = {"before us", "lookup", "compile", "allocate", "run", "publish"};
  pthread_mutex_lock(&self.lock);
  fprintf(out, "%-32s %-12s %8s %8s %8s %6s %8s %8s %8s %9s %9s %9s", "sync at (means, but MB in use)", "cause",
          "count", "hits", "compiled", "tier", "nodes", "left", "kernels", "MB moved", "planned", "peak MB");
  for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) fprintf(out, " %9s", phases[i]);
  fprintf(out, "  graphs of <=10 30 100 300 1k 3k 10k more nodes\n");
  for (int i = 0; i < self.n_sites; i++) print_row(&self.site[i], out);
  print_plans(out);
  tc_autotune_log_print(out);
  if (self.n_kernels) print_kernels(out);
  pthread_mutex_unlock(&self.lock);
}

static void at_exit(void) __attribute__((destructor));
static void at_exit(void) {
  if (!tc_inside && self.n && tc_options_profile_summary()) tc_profile_print(stderr);
}
