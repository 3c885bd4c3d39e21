// Autocast's public calls: what this thread's ops are cast to, begin and end. Casts are made by
// lazy/record/autocast.c.
// Invariants: a begin that fails is open like any other, so that its end closes no other.
// Threads: each thread has its own. Owner: the thread's trace.
#define TC_NO_SITES
#include "lazy/record/autocast.h"

#include <string.h>

#include "lazy/trace/deferred_error.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/reentry.h"

enum { N_PLACES = 3 };
static const char *const place_name[N_PLACES] = {"tc:cpu", "tc:cuda", "tc:hip"};

// The place of a kind of device, or -1.
static int place_of(const char *device) {
  for (int k = 0; k < N_PLACES; k++)
    if (strcmp(device, place_name[k]) == 0) return k;
  return -1;
}

// The types from now on, by place; those of before where the options are wrong. given: a type is.
static tc_status change_types(const char *op, tc_autocast_options o, bool given, tc_site site, uint64_t *now) {
  bool all = o.device == NULL || o.device[0] == 0;
  int only = all ? 0 : place_of(o.device);
  if (only < 0)
    return tc_fail(TC_ERR_ARG, op, site, "device is '%.40s'; tc:cpu, tc:cuda, tc:hip or NULL for all was expected",
                   o.device);
  if (given && o.type != TC_BF16 && o.type != TC_F16)
    return tc_fail(TC_ERR_DTYPE, op, site, "autocast to %s; bf16 or f16 was expected",
                   (unsigned)o.type < TC_N_TYPES ? tc_type_name(o.type) : "no element type");
  for (int k = 0; k < N_PLACES; k++) {
    if (!all && k != only) continue;
    tc_type type = given ? o.type : k == 0 ? TC_BF16 : TC_F16;
    *now &= ~(UINT64_C(0xff) << (8 * k));
    if (!o.disabled) *now |= (uint64_t)(type + 1) << (8 * k);
  }
  return TC_OK;
}

static tc_status begin_region(const char *op, tc_autocast_options options, bool given, tc_site site) {
  if (!tc_enter(op, site)) return TC_ERR_STATE;
  tc_status st = TC_OK;
  tc_trace *t = tc_trace_self();
  if (!t) {
    st = tc_fail(TC_ERR_MEMORY, op, site, "no room for a trace");
  } else if (t->autocast.n >= TC_MAX_AUTOCASTS) {
    t->autocast.n++;
    st = tc_fail(TC_ERR_STATE, op, site, "%d autocasts are open: a tc_autocast_end is missing", TC_MAX_AUTOCASTS);
  } else {
    t->autocast.outer[t->autocast.n++] = t->context;
    st = change_types(op, options, given, site, &t->context);
  }
  tc_leave();
  return tc_defer_error(st, site);
}

tc_status tc_autocast_begin_at(tc_type type, tc_site site) {
  return begin_region("autocast_begin", (tc_autocast_options){.type = type}, true, site);
}

tc_status tc_autocast_begin_with_at(tc_autocast_options options, tc_site site) {
  return begin_region("autocast_begin_with", options, options.type != (tc_type)0, site);
}

tc_status tc_autocast_end_at(tc_site site) {
  if (!tc_enter("autocast_end", site)) return TC_ERR_STATE;
  tc_status st = TC_OK;
  tc_trace *t = tc_trace_self();
  if (!t || t->autocast.n == 0) {
    st = tc_fail(TC_ERR_STATE, "autocast_end", site, "no autocast is open: a tc_autocast_begin is missing");
  } else if (--t->autocast.n < TC_MAX_AUTOCASTS) {
    t->context = t->autocast.outer[t->autocast.n];
    if (t->autocast.n == 0) tc_autocast_forget(t);
  }
  tc_leave();
  return tc_defer_error(st, site);
}

tc_type tc_autocast_type(const char *device) {
  int place = device && device[0] ? place_of(device) : 0;
  tc_trace *t = tc_trace_mine;
  unsigned at = t && place >= 0 ? (unsigned)(t->context >> (8 * place) & 0xff) : 0;
  return at ? (tc_type)(at - 1) : TC_N_TYPES;
}
