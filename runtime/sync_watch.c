// Counts of sync points. See sync_watch.h.
#include "runtime/sync_watch.h"

#include <stdio.h>
#include <string.h>

enum { N_LATEST = 8 };

static _Thread_local struct {
  uint64_t n, n_expected_from;  // sync points; of these, until the last tc_expect_syncs
  struct {
    const char *cause;
    tc_site site;
  } latest[N_LATEST];  // sync point number n is at n modulo N_LATEST
  tc_sync_watcher *open;  // the innermost
} mine;

// Adds a sync point whose times are in ticks.
static void explain(tc_explanation *e, const tc_sync_point *r) {
  bool is_new = true;
  for (int i = 0; i < e->n_kept; i++) is_new &= e->sync[i].hash != r->hash;
  e->n_syncs++, e->n_graphs += is_new, e->n_new += !r->hit, e->n_nodes += r->n_nodes, e->n_kernels += r->n_kernels;
  e->bytes += r->bytes, e->ns += r->total_ns;
  if (e->n_kept < TC_EXPLAIN_SYNCS) e->sync[e->n_kept++] = *r;
}

void tc_sync_watch_add(const tc_sync_point *r) {
  mine.latest[mine.n % N_LATEST].cause = r->cause;
  mine.latest[mine.n++ % N_LATEST].site = r->site;
  for (const tc_sync_watcher *w = mine.open; TC_UNLIKELY(w != NULL); w = w->outer) explain(w->into, r);
}

void tc_sync_watch_begin(tc_sync_watcher *w, tc_explanation *into) {
  *w = (tc_sync_watcher){into, mine.open};
  mine.open = w;
}

void tc_sync_watch_end(const tc_sync_watcher *w) {
  mine.open = w->outer;
}

// The latest of n sync points, each with its cause and place. "..": there were more.
static void list_latest(uint64_t n, char *out, size_t bytes) {
  uint64_t first = n > N_LATEST ? mine.n - N_LATEST : mine.n - n;
  size_t at = (size_t)snprintf(out, bytes, "%s", n > N_LATEST ? ".., " : "");
  for (uint64_t i = first; i < mine.n && at < bytes; i++) {
    char place[160];
    tc_site_text(mine.latest[i % N_LATEST].site, place, sizeof place);
    at += (size_t)snprintf(out + at, bytes - at, "%s%s at %s", i > first ? ", " : "", mine.latest[i % N_LATEST].cause,
                           place[0] ? place : "an unknown place");
  }
}

tc_status tc_expect_syncs_at(int n, tc_site site) {
  uint64_t made = mine.n - mine.n_expected_from;
  char list[900] = "none";
  mine.n_expected_from = mine.n;
  if (n < 0 || made == (uint64_t)n) return TC_OK;
  if (made) list_latest(made, list, sizeof list);
  return tc_fail(TC_ERR_STATE, "expect_syncs", site, "%d sync points were expected, there were %llu: %s", n,
                 (unsigned long long)made, list);
}
