// What functions of the program leave open. See open_ends.h.
#define TC_NO_SITES
#include "lazy/sync/open_ends.h"

#include "lazy/sync/region.h"
#include "lazy/trace/thread_trace.h"

tc_open_ends tc_open_ends_now(void) {
  const tc_trace *t = tc_trace_mine;
  return (tc_open_ends){tc_region_depth(), tc_device_depth(), t ? t->n_mark : 0, t ? t->record_only : 0};
}

bool tc_own_scope_is_open(tc_scope scope) {
  const tc_trace *t = tc_trace_mine;
  return t && scope.depth <= t->n_mark;
}

static tc_status fail_open(bool more, const char *what, const char *begin, const char *end, const char *op,
                           tc_site site) {
  if (more) return tc_fail(TC_ERR_STATE, op, site, "%s has not ended its %s: call %s", what, begin, end);
  return tc_fail(TC_ERR_STATE, op, site, "%s has ended a %s of its caller's: remove that %s", what, begin, end);
}

tc_status tc_open_ends_check(const tc_open_ends *before, const char *op, const char *what, tc_site site) {
  tc_trace *t = tc_trace_mine;
  tc_open_ends now = tc_open_ends_now();
  tc_status st = TC_OK;
  if (TC_UNLIKELY(now.scopes < before->scopes)) st = fail_open(false, what, "tc_scope_begin", "tc_scope_end", op, site);
  if (TC_UNLIKELY(now.devices != before->devices))
    st = fail_open(now.devices > before->devices, what, "tc_push_device", "tc_pop_device", op, site);
  while (tc_device_depth() > before->devices) (void)tc_pop_device_at(site);
  if (TC_UNLIKELY(now.record_onlys != before->record_onlys) && t) {
    st = fail_open(now.record_onlys > before->record_onlys, what, "tc_record_only_begin", "tc_record_only_end", op,
                   site);
    t->record_only = before->record_onlys;
  }
  tc_status regions = tc_region_check(before->regions, op, what, site);
  return regions != TC_OK ? regions : st;
}
