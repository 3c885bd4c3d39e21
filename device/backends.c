// See backends.h.
#include "device/backends.h"

#include <stdatomic.h>

// The names of a back end's devices, one after the other. Of this table only GPUs have several.
#define NAMES(text) \
  {text,      text ":1", text ":2",  text ":3",  text ":4",  text ":5",  text ":6",  text ":7", \
   text ":8", text ":9", text ":10", text ":11", text ":12", text ":13", text ":14", text ":15"}

static const char *const names[TC_N_DEVICES][TC_MOST_ORDINALS] = {
#define TC_BACKEND(NAME, text, kind) [TC_DEVICE_##NAME] = NAMES(text),
#include "device/backends.def"
#undef TC_BACKEND
};
_Static_assert(TC_N_DEVICES < 16, "a device's row is four bits");

// The names of each loaded back end's devices; NULL: there is none.
static _Atomic(const char *const *) loaded[TC_MOST_LOADED];

void tc_device_set_names(tc_device row, const char *const *texts) {
  atomic_store_explicit(&loaded[row - TC_N_DEVICES], texts, memory_order_release);
}

const char *tc_device_name(tc_device d) {
  tc_device row = tc_device_row(d);
  if (row < TC_N_DEVICES) return names[row][tc_device_ordinal(d)];
  return atomic_load_explicit(&loaded[row - TC_N_DEVICES], memory_order_acquire)[tc_device_ordinal(d)];
}
