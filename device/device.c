// Parsing names of devices, and the default device. See device.h.
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "device/gpu.h"
#include "device/loaded_backend.h"
#include "runtime/log.h"
#include "runtime/options.h"

#define MAX_PUSHED 64
#define NAME_BYTES 32  // of a device, with what stands before it in a list

static _Thread_local struct {
  bool known;
  uint8_t n_pushed, now, pushed[MAX_PUSHED];  // tc_device as bytes, because thread-local memory is scarce
} self;

const char *tc_device_absent(tc_device d) {
  tc_device_kind kind = tc_device_kind_of(d);
  return kind == TC_DEVICE_GPU ? tc_gpu_absent(d) : kind == TC_DEVICE_LOADED ? tc_loaded_absent(d) : NULL;
}

// Returns which of the back end's devices text names: 0 for its name, n for its name with ":n". -1:
// none of them, as of ":n" where there is one device alone.
static int ordinal_of(const char *text, int row) {
  const char *name = tc_device_name((tc_device)row);
  size_t n = strlen(name);
  if (strncmp(text, name, n) != 0) return -1;
  if (text[n] == 0) return 0;
  bool number = tc_device_memory((tc_device)row) != TC_DEVICE_CPU && text[n] == ':' && text[n + 1] &&
                strspn(text + n + 1, "0123456789") == strlen(text + n + 1);
  return !number ? -1 : strlen(text + n + 1) > 2 ? TC_MOST_ORDINALS : atoi(text + n + 1);
}

// Returns whether the GPU opens, is no simulation and has a working compiler. A compiler that does
// not work is logged.
static bool is_good_gpu(tc_device d) {
  tc_gpu *g;
  tc_error_mark before = tc_error_now();
  if (tc_gpu_absent(d) != NULL || tc_gpu_get(d, &g) != TC_OK || tc_gpu_facts_of(g)->simulated) return false;
  if (tc_gpu_try(g) == TC_OK) return true;
  tc_log_line(TC_LOG_WARN, "\"tc\" is not %s, which makes no kernels: %s", tc_device_name(d), tc_last_error()->message);
  (void)tc_error_tell(before);
  return false;
}

// Returns the first good GPU, else the CPU.
static tc_device best_device(void) {
  for (int row = 0; row < TC_N_DEVICES; row++)
    if (tc_device_kind_of((tc_device)row) == TC_DEVICE_GPU && is_good_gpu((tc_device)row)) return (tc_device)row;
  return TC_DEVICE_CPU;
}

// Whether text names a device of the row; then *st is the status, and *out the device.
static bool is_of_row(const char *text, int row, const char *op, tc_site site, tc_device *out, tc_status *st) {
  int ordinal = ordinal_of(text, row);
  if (ordinal < 0) return false;
  *st = TC_OK;
  if (ordinal < TC_MOST_ORDINALS)
    *out = tc_device_of_row((tc_device)row, ordinal);
  else
    *st = tc_fail(TC_ERR_DEVICE, op, site, "\"%.40s\": devices are numbered from 0 to %d", text, TC_MOST_ORDINALS - 1);
  return true;
}

static tc_status refuse_name(const char *name, const char *op, tc_site site) {
  char loaded[NAME_BYTES * TC_MOST_LOADED + 1] = "";
  for (int i = 0; i < tc_loaded_count(); i++)
    tc_text_append(loaded, sizeof loaded, ", %s", tc_device_name((tc_device)(TC_N_DEVICES + i)));
  const char *hint = strncmp(name, "tc:", 3) == 0 && !tc_options_get()->backend_path
                         ? "; other back ends are found by TC_BACKEND_PATH, which is not set"
                         : "";
  return tc_fail(TC_ERR_DEVICE, op, site,
                 "\"%.40s\" is not one of tc, tc:cpu, tc:ref, tc:null, tc:cuda[:n], tc:hip[:n]%s%s%s", name, loaded,
                 tc_loaded_misses(), hint);
}

tc_status tc_device_of_name(const char *name, const char *op, tc_site site, tc_device *out) {
  tc_status st;
  *out = TC_DEVICE_CPU;
  if (!name) return tc_fail(TC_ERR_ARG, op, site, "the device's name is NULL");
  if (strcmp(name, "tc") == 0) return *out = best_device(), TC_OK;
  for (int row = 0; row < TC_N_DEVICES; row++)
    if (is_of_row(name, row, op, site, out, &st)) return st;
  if (tc_loaded_find(name) < 0) tc_loaded_search();
  int row = tc_loaded_find(name);
  return row >= 0 && is_of_row(name, row, op, site, out, &st) ? st : refuse_name(name, op, site);
}

tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out) {
  TC_TRY(tc_device_of_name(name, op, site, out));
  const char *absent = tc_device_absent(*out);
  if (!absent) return TC_OK;
  *out = TC_DEVICE_CPU;
  return tc_fail(TC_ERR_DEVICE, op, site, "\"%s\": %s", name, absent);
}

tc_device tc_device_default(void) {
  if (TC_LIKELY(self.known)) return self.now;
  self.known = true;
  tc_device d = TC_DEVICE_CPU;
  const char *name = tc_options_get()->device;
  tc_error_mark before = tc_error_now();
  if (name && tc_device_parse(name, "TC_DEVICE", 0, &d) != TC_OK) {
    tc_log_line(TC_LOG_WARN, "TC_DEVICE is ignored: %s", tc_last_error()->message);
    (void)tc_error_tell(before);  // it was logged and is no call's failure
  }
  return self.now = (uint8_t)d, d;
}

tc_status tc_set_default_device_at(const char *name, tc_site site) {
  tc_device d;
  TC_TRY(tc_device_parse(name, "set_default_device", site, &d));
  tc_device_default();
  self.now = (uint8_t)d;
  return TC_OK;
}

const char *tc_get_default_device(void) {
  return tc_device_name(tc_device_default());
}

uint32_t tc_device_depth(void) {
  return self.n_pushed;
}

tc_status tc_push_device_at(const char *name, tc_site site) {
  tc_device d;
  TC_TRY(tc_device_parse(name, "push_device", site, &d));
  if (self.n_pushed == MAX_PUSHED)
    return tc_fail(TC_ERR_STATE, "push_device", site, "more than %d devices are pushed", MAX_PUSHED);
  self.pushed[self.n_pushed++] = (uint8_t)tc_device_default();
  self.now = (uint8_t)d;
  return TC_OK;
}

tc_status tc_pop_device_at(tc_site site) {
  if (self.n_pushed == 0) return tc_fail(TC_ERR_STATE, "pop_device", site, "no device is pushed");
  self.now = self.pushed[--self.n_pushed];
  return TC_OK;
}
