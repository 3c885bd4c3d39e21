// The plain symbols of the ops, for callers without the macros of sites.h: bindings, C++ and function pointers.
// The site is the caller's code address; the message resolves it to symbol and module when it is printed.
// Threads: as the functions they call.
#define TC_NO_SITES
#include <tc/io.h>
#include <tc/nn.h>

#include "runtime/status.h"

#define CALLER tc_site_return(__builtin_return_address(0))

#define TC_FN(name, params, args) \
  tc_tensor(name) params { \
    return name##_at(TC_P args, CALLER); \
  }
#include <tc/api.def>
#undef TC_FN

#define TC_CALL(type, name, params, args) \
  type(name) params { \
    return name##_at(TC_P args, CALLER); \
  }
#include <tc/io.def>
#include <tc/nn.def>
#undef TC_CALL

tc_status tc_item_f32(tc_tensor t, float *out) {
  return tc_item_at(t, TC_F32, out, CALLER);
}

tc_status tc_item_f64(tc_tensor t, double *out) {
  return tc_item_at(t, TC_F64, out, CALLER);
}

tc_status tc_item_i32(tc_tensor t, int32_t *out) {
  return tc_item_at(t, TC_I32, out, CALLER);
}

tc_status tc_item_i64(tc_tensor t, int64_t *out) {
  return tc_item_at(t, TC_I64, out, CALLER);
}

tc_status tc_item_bool(tc_tensor t, bool *out) {
  return tc_item_at(t, TC_BOOL, out, CALLER);
}

tc_status tc_to_host(tc_tensor t, void *out, size_t bytes) {
  return tc_to_host_at(t, out, bytes, CALLER);
}

tc_status tc_eval(int n, const tc_tensor *tensors) {
  return tc_eval_at(n, tensors, CALLER);
}

tc_status tc_sync(const char *device) {
  return tc_sync_at(device, CALLER);
}

const void *tc_map(tc_tensor t) {
  return tc_map_at(t, CALLER);
}

tc_status tc_map_shared(tc_tensor t, const void **out_data, void **out_share) {
  return tc_map_shared_at(t, out_data, out_share, CALLER);
}

tc_status tc_print(tc_tensor t) {
  return tc_print_at(t, CALLER);
}

tc_status tc_assign(tc_tensor t, tc_tensor value) {
  return tc_assign_at(t, value, CALLER);
}

tc_status tc_backward(tc_tensor y) {
  return tc_backward_at(y, CALLER);
}
