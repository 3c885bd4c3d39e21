// Questions that a program asks of itself: what a function's sync points are (tc_explain), and how
// much was done so far (tc_metrics_get, one row of metrics.def each).
// In: the counts of runtime/sync_watch.h. Threads: thread-safe; tc_explain sees its own thread.
#include <string.h>
#include <tc/tc.h>

#include "runtime/profile.h"
#include "runtime/sync_watch.h"

tc_status tc_explain_at(tc_status (*fn)(void *user), void *user, tc_explanation *out, tc_site site) {
  if (!fn || !out) return tc_fail(TC_ERR_ARG, "explain", site, "%s is NULL", fn ? "out" : "fn");
  *out = (tc_explanation){0};
  TC_TRY(tc_sync_at(NULL, site));  // what waits is not fn's
  tc_explanation *before = tc_sync_watch_explain(out);
  tc_status st = fn(user), rest = tc_sync_at(NULL, site);
  (void)tc_sync_watch_explain(before);
  return st != TC_OK ? st : rest;
}

static const char *const metric_names[] = {
#define TC_METRIC(name, value, meaning) #name,
#include <tc/metrics.def>
#undef TC_METRIC
};
enum { N_METRICS = sizeof metric_names / sizeof *metric_names };

const char *tc_metrics_name(int i) {
  return i >= 0 && i < N_METRICS ? metric_names[i] : NULL;
}

tc_status tc_metrics_get_at(const char *name, uint64_t *out, tc_site site) {
  const tc_sync_sums sums = tc_sync_watch_sums();
  const tc_cache_info cache = tc_cache_stats();
  const tc_memory memory = tc_memory_stats();
  const uint64_t value[] = {
#define TC_METRIC(name, value, meaning) value,
#include <tc/metrics.def>
#undef TC_METRIC
  };
  if (!name || !out) return tc_fail(TC_ERR_ARG, "metrics_get", site, "%s is NULL", name ? "out" : "name");
  for (int i = 0; i < N_METRICS; i++)
    if (strcmp(name, metric_names[i]) == 0) return *out = value[i], TC_OK;
  return tc_fail(TC_ERR_ARG, "metrics_get", site, "there is no metric '%s'; tc_metrics_name lists them", name);
}
