#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"
#include "runtime/options.h"

#define MAX_PUSHED 64

static const struct {
  const char *name, *sentence;
  tc_device_kind kind;
} backends[TC_N_DEVICES] = {
#define TC_BACKEND(NAME, text, kind_, sentence_) [TC_DEVICE_##NAME] = {text, sentence_, TC_DEVICE_##kind_},
#include "device/backends.def"
#undef TC_BACKEND
};

static _Thread_local struct {
  bool known;
  uint8_t n_pushed, now, pushed[MAX_PUSHED];  // of tc_device; bytes, for thread-local memory is scarce
} self;

const char *tc_device_name(tc_device d) {
  return backends[d].name;
}

tc_device_kind tc_device_kind_of(tc_device d) {
  return backends[d].kind;
}

// Whether text is the backend's name, or for absent (numbered) ones its name and ":" digits.
static bool names(const char *text, tc_device d) {
  size_t n = strlen(backends[d].name);
  if (strncmp(text, backends[d].name, n) != 0) return false;
  if (text[n] == 0) return true;
  return backends[d].kind == TC_DEVICE_ABSENT && text[n] == ':' && text[n + 1] && strspn(text + n + 1, "0123456789") == strlen(text + n + 1);
}

tc_status tc_device_parse(const char *name, const char *op, tc_site site, tc_device *out) {
  *out = TC_DEVICE_CPU;
  if (!name) return tc_fail(TC_ERR_ARG, op, site, "the device's name is NULL");
  if (strcmp(name, "tc") == 0) return TC_OK;
  for (int d = 0; d < TC_N_DEVICES; d++) {
    if (!names(name, (tc_device)d)) continue;
    if (backends[d].kind == TC_DEVICE_ABSENT) return tc_fail(TC_ERR_DEVICE, op, site, "\"%s\": %s", name, backends[d].sentence);
    *out = (tc_device)d;
    return TC_OK;
  }
  return tc_fail(TC_ERR_DEVICE, op, site, "\"%.40s\" is not one of tc, tc:cpu, tc:ref, tc:null, tc:cuda[:n], tc:hip[:n]", name);
}

tc_device tc_device_default(void) {
  if (TC_LIKELY(self.known)) return self.now;
  self.known = true;
  tc_device d = TC_DEVICE_CPU;
  const char *name = tc_options_get()->device;
  if (name && tc_device_parse(name, "TC_DEVICE", 0, &d) != TC_OK) tc_log_line(TC_LOG_WARN, "TC_DEVICE is ignored: %s", tc_last_error()->message);
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

tc_status tc_push_device_at(const char *name, tc_site site) {
  tc_device d;
  TC_TRY(tc_device_parse(name, "push_device", site, &d));
  if (self.n_pushed == MAX_PUSHED) return tc_fail(TC_ERR_STATE, "push_device", site, "more than %d devices are pushed", MAX_PUSHED);
  self.pushed[self.n_pushed++] = (uint8_t)tc_device_default();
  self.now = (uint8_t)d;
  return TC_OK;
}

tc_status tc_pop_device_at(tc_site site) {
  if (self.n_pushed == 0) return tc_fail(TC_ERR_STATE, "pop_device", site, "no device is pushed");
  self.now = self.pushed[--self.n_pushed];
  return TC_OK;
}
