// Questions of a program: what a function's sync points are, and how much was done so far.
// In: the sync points of runtime/sync_watch.h, the sums of runtime/profile.h. Out: tc_explanation;
// metrics, a row of metrics.def each.
// Threads: thread-safe; tc_explain sees its own thread. Owner: the caller.
#include <string.h>
#include <tc/tc.h>

#include "lazy/sync/graph_backend.h"
#include "runtime/profile.h"
#include "runtime/sync_watch.h"

tc_status tc_explain_at(tc_status (*fn)(void *user), void *user, tc_explanation *out, tc_site site) {
  if (!fn || !out) return tc_fail(TC_ERR_ARG, "explain", site, "%s is NULL", fn ? "out" : "fn");
  *out = (tc_explanation){0};
  TC_TRY(tc_sync_at(NULL, site));  // what waits is not fn's
  tc_sync_watcher w;
  tc_sync_watch_begin(&w, out);
  tc_status st = fn(user), rest = tc_sync_at(NULL, site);
  tc_sync_watch_end(&w);
  out->ns = (uint64_t)((double)out->ns * tc_tick_ns());
  for (int i = 0; i < out->n_kept; i++) out->sync[i] = tc_sync_point_in_ns(&out->sync[i]);
  return st != TC_OK ? st : rest;
}

static const struct {
  const char *name, *meaning;
} metrics[] = {
#define TC_METRIC(name, value, meaning) {#name, meaning},
#include <tc/metrics.def>
#undef TC_METRIC
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

const char *tc_metrics_name(int i, const char **out_meaning) {
  if (i < 0 || i >= N_METRICS) return NULL;
  if (out_meaning) *out_meaning = metrics[i].meaning;
  return metrics[i].name;
}

tc_status tc_metrics_get_at(const char *name, uint64_t *out, tc_site site) {
  const tc_sync_sums sums = tc_profile_sums();
  const tc_cache_info cache = tc_cache_stats();
  const tc_memory memory = tc_memory_stats();
  const uint64_t value[] = {
#define TC_METRIC(name, value, meaning) value,
#include <tc/metrics.def>
#undef TC_METRIC
  };
  if (!name || !out) return tc_fail(TC_ERR_ARG, "metrics_get", site, "%s is NULL", name ? "out" : "name");
  for (int i = 0; i < N_METRICS; i++)
    if (strcmp(name, metrics[i].name) == 0) return *out = value[i], TC_OK;
  return tc_fail(TC_ERR_ARG, "metrics_get", site, "there is no metric '%s'; tc_metrics_name lists them", name);
}
