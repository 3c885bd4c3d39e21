// See backends.h.
#include "device/backends.h"

// The names of a backend's devices, one after the other; only GPUs have more than one.
#define NAMES(text) \
  {text,      text ":1", text ":2",  text ":3",  text ":4",  text ":5",  text ":6",  text ":7", \
   text ":8", text ":9", text ":10", text ":11", text ":12", text ":13", text ":14", text ":15"}

static const struct {
  const char *name[TC_MOST_ORDINALS];
  tc_device_kind kind;
} backends[TC_N_DEVICES] = {
#define TC_BACKEND(NAME, text, kind_) [TC_DEVICE_##NAME] = {NAMES(text), TC_DEVICE_##kind_},
#include "device/backends.def"
#undef TC_BACKEND
};
_Static_assert(TC_N_DEVICES <= 16, "a device's row is four bits");

const char *tc_device_name(tc_device d) {
  return backends[tc_device_row(d)].name[tc_device_ordinal(d)];
}

tc_device_kind tc_device_kind_of(tc_device d) {
  return backends[tc_device_row(d)].kind;
}
