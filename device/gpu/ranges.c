// Opens a vendor's library of ranges when the first one is wanted. See ranges.h.
#include "device/gpu/ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "device/gpu/state.h"
#include "runtime/log.h"
#include "runtime/options.h"

typedef struct vendor {
  atomic_bool tried;  // true: the fields below are set, and stay as they are
  bool there;
  tc_gpu_ranges ranges;
  char sentence[400];
} vendor;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vendor vendors[TC_N_DEVICES];

static vendor *open_once(tc_device d, const tc_gpu_driver *driver) {
  vendor *v = &vendors[tc_device_row(d)];
  char why[320];
  if (TC_LIKELY(atomic_load_explicit(&v->tried, memory_order_acquire))) return v;
  pthread_mutex_lock(&lock);
  if (!atomic_load(&v->tried)) {
    v->there = driver->ranges_open(&v->ranges, why, sizeof why);
    if (v->there)
      snprintf(v->sentence, sizeof v->sentence,
               "ranges for profilers by %s, where one started the program or TC_PROFILE asks", v->ranges.name);
    else
      snprintf(v->sentence, sizeof v->sentence, "no ranges for profilers: %s", why);
    if (!v->there && driver->profiler_attached()) tc_log_line(TC_LOG_WARN, "%s: %s", tc_device_name(d), v->sentence);
    atomic_store_explicit(&v->tried, true, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return v;
}

const tc_gpu_ranges *tc_gpu_ranges_of(tc_device d) {
  const tc_gpu_driver *driver = tc_gpu_driver_of(d);
  if (!driver || TC_LIKELY(!tc_options_get()->profile && !driver->profiler_attached())) return NULL;
  const vendor *v = open_once(d, driver);
  return v->there ? &v->ranges : NULL;
}

const char *tc_gpu_ranges_sentence(tc_device d) {
  return open_once(d, tc_gpu_driver_of(d))->sentence;
}
