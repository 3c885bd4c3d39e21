#include "runtime/profile.h"

#include <pthread.h>
#include <string.h>

#include "runtime/fork.h"
#include "runtime/options.h"

#define N_SITES 256
#define N_BINS 8

typedef struct site_sum {
  tc_site site;
  const char *cause;
  uint64_t n, n_hit, n_compiled, n_nodes, n_kernels, bytes, plan_ns, run_ns, total_ns;
  uint64_t bin[N_BINS];  // graphs of at most 10, 30, 100, ... nodes
} site_sum;

static struct {
  pthread_mutex_t lock;
  site_sum site[N_SITES];
  int n_sites;
  uint64_t n;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 7)

static int bin_of(uint32_t n_nodes) {
  static const uint32_t top[N_BINS - 1] = {10, 30, 100, 300, 1000, 3000, 10000};
  int b = 0;
  while (b < N_BINS - 1 && n_nodes > top[b]) b++;
  return b;
}

// The site's sums; the last row takes what finds no room.
static site_sum *sum_of(tc_site site, const char *cause) {
  for (int i = 0; i < self.n_sites; i++)
    if (self.site[i].site == site && self.site[i].cause == cause) return &self.site[i];
  if (self.n_sites == N_SITES) return &self.site[N_SITES - 1];
  self.site[self.n_sites] = (site_sum){.site = site, .cause = cause};
  return &self.site[self.n_sites++];
}

void tc_profile_add(const tc_profile_record *r) {
  pthread_mutex_lock(&self.lock);
  site_sum *s = sum_of(r->site, r->cause);
  s->n++, s->n_hit += r->hit, s->n_compiled += r->n_compiled, s->n_nodes += r->n_nodes, s->n_kernels += r->n_kernels;
  s->bytes += r->bytes, s->plan_ns += r->plan_ns, s->run_ns += r->run_ns, s->total_ns += r->total_ns;
  s->bin[bin_of(r->n_nodes)]++;
  self.n++;
  pthread_mutex_unlock(&self.lock);
}

uint64_t tc_profile_count(void) {
  pthread_mutex_lock(&self.lock);
  uint64_t n = self.n;
  pthread_mutex_unlock(&self.lock);
  return n;
}

void tc_profile_print(FILE *out) {
  pthread_mutex_lock(&self.lock);
  fprintf(out, "%-32s %-12s %8s %8s %8s %8s %8s %10s %10s %10s %10s  graphs <=10 30 100 300 1k 3k 10k more\n", "sync at", "cause", "count", "hits",
          "compiled", "nodes", "kernels", "MB moved", "plan us", "run us", "rest us");
  for (int i = 0; i < self.n_sites; i++) {
    const site_sum *s = &self.site[i];
    char text[128];
    double n = (double)s->n;
    tc_site_text(s->site, text, sizeof text);
    fprintf(out, "%-32s %-12s %8llu %8llu %8llu %8.0f %8.1f %10.2f %10.2f %10.2f %10.2f ", text, s->cause, (unsigned long long)s->n,
            (unsigned long long)s->n_hit, (unsigned long long)s->n_compiled, (double)s->n_nodes / n, (double)s->n_kernels / n,
            (double)s->bytes / n * 1e-6, (double)s->plan_ns / n * 1e-3, (double)s->run_ns / n * 1e-3,
            (double)(s->total_ns - s->plan_ns - s->run_ns) / n * 1e-3);
    for (int b = 0; b < N_BINS; b++) fprintf(out, " %llu", (unsigned long long)s->bin[b]);
    fputc('\n', out);
  }
  pthread_mutex_unlock(&self.lock);
}

static void at_exit(void) __attribute__((destructor));
static void at_exit(void) {
  if (self.n && tc_options_get()->profile) tc_profile_print(stderr);
}
