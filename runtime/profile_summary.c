// Sums of sync points by site, and the summary of them. See profile_summary.h.
#include "runtime/profile_summary.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "runtime/autotune_log.h"

#define N_SITES 256
#define N_SIZES 256  // classes of graph sizes: eight a power of two
#define COLUMNS 100
#define WARM 4  // syncs of a site after which a new graph counts
#define LONGEST_PLACE 36
#define TINY 8  // nodes of a tiny graph
#define TINY_NS 100000  // a longer sync is busy with more than its own cost, whatever its nodes

typedef struct site_sum {
  tc_site site;
  const char *cause;
  uint64_t n, n_hit, n_bound, n_warm_miss, n_nodes, first_nodes, last_nodes, most_nodes, n_wrong;
  uint64_t n_grown;  // syncs with more nodes than each one before
  uint64_t ticks, making;  // in tc; of it planning and compiling
  uint64_t before;
} site_sum;

static struct {
  site_sum site[N_SITES];
  int n_sites, last_site;
  uint64_t n, n_hit, n_bound, n_nodes, most_nodes, n_kernels, bytes, n_wrong, peak_bytes, planned_bytes;
  uint64_t size[N_SIZES];
  uint64_t before, lookup, making, allocate, run, publish, total;
  uint64_t n_gpu, n_replayed, copied_bytes, n_fallbacks, fallback_bytes;
  const char *gpu_note;  // static, the latest one
  double tick_ns;  // nanoseconds per clock tick
} self;

static uint32_t class_of(uint64_t n) {
  if (n < 16) return (uint32_t)n;
  int e = 63 - __builtin_clzll((unsigned long long)n);
  return TC_MIN((uint32_t)(8 * (e - 2) + (int)(n >> (e - 3) & 7)), N_SIZES - 1u);
}

// The largest size of a class.
static uint64_t size_of(uint32_t c) {
  if (c < 16) return c;
  return ((uint64_t)(8 + c % 8 + 1) << (c / 8 - 1)) - 1;
}

static bool is_of(const site_sum *s, const tc_sync_point *r) {
  return s->site == r->site && s->cause == r->cause;
}

// The last row takes sites that find no free row.
static site_sum *sum_of(const tc_sync_point *r) {
  if (self.last_site < self.n_sites && is_of(&self.site[self.last_site], r)) return &self.site[self.last_site];
  for (int i = 0; i < self.n_sites; i++)
    if (is_of(&self.site[i], r)) return &self.site[self.last_site = i];
  if (self.n_sites == N_SITES) return &self.site[N_SITES - 1];
  self.site[self.n_sites] =
      (site_sum){.site = r->site, .cause = r->cause, .first_nodes = r->n_nodes, .most_nodes = r->n_nodes};
  return &self.site[self.n_sites++];
}

void tc_profile_summary_add(const tc_sync_point *r) {
  site_sum *s = sum_of(r);
  s->n_warm_miss += s->n >= WARM && !r->hit, s->n++, s->n_hit += r->hit, s->n_bound += r->bound;
  s->n_grown += r->n_nodes > s->most_nodes, s->most_nodes = TC_MAX_OF(s->most_nodes, (uint64_t)r->n_nodes);
  s->n_nodes += r->n_nodes, s->last_nodes = r->n_nodes, s->n_wrong += r->n_wrong;
  s->ticks += r->total_ns, s->making += r->compile_ns, s->before += r->before_ns;
  self.n++, self.n_hit += r->hit, self.n_bound += r->bound, self.n_nodes += r->n_nodes, self.n_kernels += r->n_kernels;
  self.most_nodes = TC_MAX_OF(self.most_nodes, (uint64_t)r->n_nodes);
  self.bytes += r->bytes, self.n_wrong += r->n_wrong, self.size[class_of(r->n_nodes)]++;
  self.peak_bytes = TC_MAX_OF(self.peak_bytes, r->peak_bytes);
  self.planned_bytes = TC_MAX_OF(self.planned_bytes, r->planned_bytes);
  self.before += r->before_ns, self.lookup += r->lookup_ns, self.making += r->compile_ns;
  self.allocate += r->allocate_ns, self.run += r->run_ns, self.publish += r->publish_ns, self.total += r->total_ns;
  self.n_fallbacks += r->n_fallbacks, self.fallback_bytes += r->fallback_bytes;
  if (!r->replayed && !r->gpu_note) return;
  self.n_gpu++, self.n_replayed += r->replayed, self.copied_bytes += r->copied_bytes;
  if (r->gpu_note) self.gpu_note = r->gpu_note;
}

// The size that so many of the graphs do not exceed.
static uint64_t size_at(double share) {
  uint64_t below = 0, want = (uint64_t)(share * (double)self.n + 0.999999);
  for (uint32_t c = 0; c < N_SIZES; c++)
    if ((below += self.size[c]) >= want) return TC_MIN(size_of(c), self.most_nodes);
  return self.most_nodes;
}

static double share(uint64_t part, uint64_t of) {
  return of ? 100.0 * (double)part / (double)of : 0;
}

// A child sums its own syncs alone.
static void forget_in_child(void) {
  if (self.n) memset(&self, 0, sizeof self);
}

static void watch_forks(void) __attribute__((constructor));
static void watch_forks(void) {
  pthread_atfork(NULL, NULL, forget_in_child);
}

// ---- texts ----

// One line, cut to the columns.
__attribute__((format(printf, 2, 3))) static void put_line(FILE *out, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (n > COLUMNS) memcpy(text + COLUMNS - 2, "..", 3);
  fprintf(out, "%s\n", text);
}

static const char *bytes_text(double bytes, char *out, size_t room) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int u = 0;
  while (bytes >= 999.5 && u < 4) bytes /= 1000, u++;
  snprintf(out, room, u && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[u]);
  return out;
}

static const char *time_text(double ns, char *out, size_t room) {
  if (ns < 1e5)
    snprintf(out, room, "%.1f us", ns * 1e-3);
  else if (ns < 1e8)
    snprintf(out, room, "%.1f ms", ns * 1e-6);
  else
    snprintf(out, room, "%.2f s", ns * 1e-9);
  return out;
}

// What stands behind "99 % found": how many of these were bound to new sizes. Empty: none.
static const char *bound_text(uint64_t n_bound, uint64_t n_hit, char *out, size_t room) {
  out[0] = '\0';
  if (n_bound) snprintf(out, room, " (%.0f %% bound)", share(n_bound, n_hit));
  return out;
}

static bool reads_value(const site_sum *s) {
  return strcmp(s->cause, "item") == 0 || strcmp(s->cause, "to_host") == 0 || strcmp(s->cause, "print") == 0;
}

// Whether the syncs themselves are most of what a site costs, plans that were made once aside.
static bool is_tiny(const site_sum *s) {
  double n = (double)s->n, ns = (double)(s->ticks - TC_MIN(s->making, s->ticks)) * self.tick_ns;
  return s->n > WARM && (double)s->n_nodes <= n * TINY && ns < n * TINY_NS;
}

// What is wrong with a site, and what to change. NULL: nothing. The first of several that applies.
static const char *advice_of(const site_sum *s) {
  if (s->n_wrong) return "results are wrong (TC_VERIFY=1): please report it";
  bool grows = s->last_nodes > 2 * s->first_nodes + TINY && s->n_grown * 2 > s->n;
  if (s->n > 2 * WARM && grows && s->n_warm_miss * 2 > s->n)
    return "its graph grows: end the scope each step, or tc_detach what is kept";
  if (s->n > 2 * WARM && s->n_warm_miss * 2 > s->n)
    return "its graph is new each time: keep shapes and attributes equal";
  if (s->n > 2 * WARM && s->n_bound * 2 > s->n && s->making * 2 > s->ticks)
    return "its sizes are new each time, and bound to a plan: pad them to a few, so that graphs repeat";
  if (is_tiny(s) && reads_value(s)) return "a small value is read each time: read it less often, or at the step's end";
  if (is_tiny(s)) return "tiny graphs: let more be recorded before a value is needed";
  return NULL;
}

// ---- lines ----

// The heaviest site that has advice, or any has; of those below `after`. NULL: there is none.
static const site_sum *find_worst(const site_sum *after, bool advised) {
  const site_sum *worst = NULL;
  for (int i = 0; i < self.n_sites; i++) {
    const site_sum *s = &self.site[i];
    bool later = !after || s->ticks < after->ticks || (s->ticks == after->ticks && s > after);
    if (s != after && later && (!advised || advice_of(s)) && (!worst || s->ticks > worst->ticks)) worst = s;
  }
  return worst;
}

static void put_verdict(FILE *out) {
  uint64_t all = self.before + self.total;
  const site_sum *worst = find_worst(NULL, true);
  if (self.n_wrong)
    put_line(out, "tc profile: WRONG: %" PRIu64 " results differ from the reference's", self.n_wrong);
  else if (worst && worst->ticks * 5 > self.total && worst->ticks * 20 > all)
    put_line(out, "tc profile: one place takes %.0f %% of tc's time and could take less: see below",
             share(worst->ticks, self.total));
  else if (self.total * 2 < all)
    put_line(out, "tc profile: %.0f %% of the time is the program's own, outside of tc's syncs",
             share(self.before, all));
  else if ((self.making + self.lookup) * 2 > self.total)
    put_line(out, "tc profile: cold: start, planning and compiling took %.0f %% of tc's time; a longer run has less",
             share(self.making + self.lookup, self.total));
  else
    put_line(out, "tc profile: good: %.0f %% of tc's time ran kernels", share(self.run, self.total));
}

static void put_site(FILE *out, const site_sum *s) {
  char place[PATH_MAX], bound[48];
  tc_site_text(s->site, place, sizeof place);
  const char *name = place[0] ? place : "an unknown place", *advice = advice_of(s);
  size_t n = strlen(name);
  if (n > LONGEST_PLACE) {  // the end of a path says more
    name += n - LONGEST_PLACE;
    const char *slash = strchr(name, '/');
    if (slash && slash[1]) name = slash + 1;
  }
  put_line(out, "  %s at %s: %" PRIu64 " times, %.0f %% of tc's time, %.0f nodes, %.0f %% found%s", s->cause, name,
           s->n, share(s->ticks, self.total), (double)s->n_nodes / (double)s->n, share(s->n_hit, s->n),
           bound_text(s->n_bound, s->n_hit, bound, sizeof bound));
  if (advice) put_line(out, "    %s", advice);
}

void tc_profile_summary_print(FILE *out, double tick_ns) {
  char a[32], b[32], bound[48];
  uint64_t all = self.before + self.total, n = TC_MAX_OF(self.n, UINT64_C(1));
  if (self.n == 0) return;
  self.tick_ns = tick_ns;
  put_verdict(out);
  put_line(out,
           "  syncs   %" PRIu64 " at %d place%s; graphs of %" PRIu64 " nodes (median), %" PRIu64 " (99 %%), %" PRIu64
           " (largest)",
           self.n, self.n_sites, self.n_sites == 1 ? "" : "s", size_at(0.5), size_at(0.99), self.most_nodes);
  put_line(out, "  work    %.1f nodes -> %.1f kernels a sync, %.0f %% %sfound%s, %s moved; memory %s",
           (double)self.n_nodes / (double)n, (double)self.n_kernels / (double)n, share(self.n_hit, self.n),
           self.n_bound ? "" : "of plans ", bound_text(self.n_bound, self.n_hit, bound, sizeof bound),
           bytes_text((double)self.bytes / (double)n, a, sizeof a), bytes_text((double)self.peak_bytes, b, sizeof b));
  put_line(
      out, "  time    %s: program %.0f %%, lookup and start %.0f %%, planning %.0f %%, memory %.0f %%, run %.0f %%",
      time_text((double)all * tick_ns, a, sizeof a), share(self.before, all), share(self.lookup + self.publish, all),
      share(self.making, all), share(self.allocate, all), share(self.run, all));
  if (self.n_gpu)
    put_line(out, "  GPU     %" PRIu64 " of %" PRIu64 " runs replayed%s%s", self.n_replayed, self.n_gpu,
             self.gpu_note ? "; latest reason why not: " : "", self.gpu_note ? self.gpu_note : "");
  if (self.n_fallbacks && !self.n_gpu)
    put_line(out,
             "  device  the CPU ran %" PRIu64
             " kernels that a back end does not take, %s copied; TC_LOG=backend has the ops",
             self.n_fallbacks, bytes_text((double)self.fallback_bytes, a, sizeof a));
  if (tc_autotune_log_count())
    put_line(out, "  tuned   %d products and convolutions; TC_LOG=tune has each", tc_autotune_log_count());
  const site_sum *first = find_worst(NULL, true), *second = first ? find_worst(first, true) : NULL;
  if (!first) first = find_worst(NULL, false);
  if (first) put_site(out, first);
  if (second && second->ticks * 20 > self.total) put_site(out, second);
  put_line(out, "  more    TC_PROFILE=FILE writes each sync; tc-prof FILE explains them");
}
