// Values in and out of the library: copies of the host's memory, and sync points. See host_copy.h.
#include "lazy/ops/host_copy.h"

#include <string.h>

#include "lazy/trace/thread_trace.h"
#include "device/gpu.h"
#include "device/loaded_backend.h"
#include "lazy/record/append.h"
#include "lazy/record/known_value.h"
#include "lazy/record/record.h"
#include "lazy/record/value.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "runtime/arena.h"
#include "runtime/reentry.h"
#include "runtime/team.h"
#include "runtime/watch.h"

// ---- in ----

static const struct {
  const char *name;
  uint32_t types;
} ctypes[] = {
#define TC_CTYPE(NAME, c, types) {#c, types},
#include <tc/ctypes.def>
#undef TC_CTYPE
};

static const char *ctype_name(tc_ctype c) {
  return ctypes[c].name;
}

bool tc_host_data_fits(tc_ctype c, tc_type type) {
  return (unsigned)c >= TC_C_ANY || (unsigned)type >= TC_N_TYPES || (ctypes[c].types >> type & 1);
}
#define TC_MISFIT "the pointer is to %s, the tensor is %s (a void * is not checked)"

tc_tensor tc_host_data_refuse(const char *op, tc_ctype c, tc_type type, tc_site site) {
  return tc_poison(tc_fail(TC_ERR_DTYPE, op, site, TC_MISFIT, ctype_name(c), tc_type_name(type)));
}

tc_tensor tc_from_host_as_at(tc_ctype c, const void *data, tc_dims shape, tc_type type, tc_site site) {
  return tc_host_data_fits(c, type) ? tc_from_host_at(data, shape, type, site)
                                    : tc_host_data_refuse("from_host", c, type, site);
}

tc_tensor tc_from_host_strided_as_at(tc_ctype c, const void *data, tc_dims shape, const int64_t *strides, tc_type type,
                                     tc_site site) {
  return tc_host_data_fits(c, type) ? tc_from_host_strided_at(data, shape, strides, type, site)
                                    : tc_host_data_refuse("from_host_strided", c, type, site);
}

tc_tensor tc_from_host_at(const void *data, tc_dims shape, tc_type type, tc_site site) {
  tc_trace *t = tc_op_begin("from_host", site);
  if (!data && shape.rank >= 0 && shape.rank <= TC_MAX_RANK && tc_dims_count(&shape) != 0)
    return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG, "the data pointer is NULL"));
  tc_capture_break_op(t, "memory of the host, whose content may change");
  return tc_op_end(t, tc_rec_data(t, data, &shape, type));
}

// Copies rank-k strided data densely; returns the end of what was written.
static char *copy_strided(char *to, const char *from, const tc_dims *d, const int64_t *stride, int axis, size_t bytes) {
  if (axis == d->rank) return memcpy(to, from, bytes), to + bytes;
  for (int64_t i = 0; i < d->dim[axis]; i++)
    to = copy_strided(to, from + i * stride[axis] * (int64_t)bytes, d, stride, axis + 1, bytes);
  return to;
}

bool tc_host_data_check(tc_trace *t, const void *data, const tc_dims *shape, tc_type type, int64_t *n) {
  if (!tc_dims_product(shape, n)) return tc_rec_full(t, shape, type, 0), false;  // reports the shape
  if ((unsigned)type >= TC_N_TYPES) return tc_rec_fail(t, TC_ERR_DTYPE, "%d is no element type", (int)type), false;
  return data || !*n || (tc_rec_fail(t, TC_ERR_ARG, "the data pointer is NULL"), false);
}

tc_tensor tc_from_host_strided_at(const void *data, tc_dims shape, const int64_t *strides, tc_type type, tc_site site) {
  if (!strides) return tc_from_host_at(data, shape, type, site);
  tc_trace *t = tc_op_begin("from_host_strided", site);
  int64_t n;
  if (!tc_host_data_check(t, data, &shape, type, &n)) return tc_op_end(t, TC_NODE_ERR);
  char *dense = tc_malloc((size_t)n * tc_type_bytes(type) + 1);
  if (!dense) return tc_op_end(t, tc_rec_fail(t, TC_ERR_MEMORY, "no room for a copy"));
  if (n) copy_strided(dense, data, &shape, strides, 0, tc_type_bytes(type));
  tc_capture_break_op(t, "memory of the host, whose content may change");
  tc_node a = tc_rec_data(t, dense, &shape, type);
  tc_free(dense);
  return tc_op_end(t, a);
}

// ---- out ----

// What reads the value: the function written over this one, if its name says so.
static tc_cause cause_of(tc_cause own) {
  const char *op = tc_outer_op;
  if (TC_LIKELY(!op)) return own;
  if (strcmp(op, "print") == 0 || strcmp(op, "format") == 0) return TC_CAUSE_PRINT;
  return strstr(op, "save") ? TC_CAUSE_SAVE : own;
}

static void convert(tc_type from, const void *src, tc_type to, void *out);

tc_status tc_item_at(tc_tensor h, tc_type as, void *out, tc_site site) {
  tc_stored v;
  char text[128];
  _Alignas(8) char element[8];
  if (!tc_enter("item", site)) return TC_ERR_STATE;
  tc_status st = tc_value(h, TC_CAUSE_ITEM, site, &v);
  if (st == TC_OK && tc_dims_at(v.shape)->count != 1)
    st = tc_fail(TC_ERR_SHAPE, "item", site, "the tensor is %s, of %lld elements; one element was expected",
                 tc_dims_text(&tc_dims_at(v.shape)->d, text, sizeof text), (long long)tc_dims_at(v.shape)->count);
  else if (st == TC_OK && !out)
    st = tc_fail(TC_ERR_ARG, "item", site, "out is NULL");
  else if (st == TC_OK && as != TC_BOOL && as != TC_I32 && as != TC_I64 && as != TC_F32 && as != TC_F64)
    st = tc_fail(TC_ERR_DTYPE, "item", site, "a number is read as bool, i32, i64, f32 or f64");
  else if (st == TC_OK && (st = tc_buffer_read(v.buf, element, tc_type_bytes(v.type))) == TC_OK)
    convert(v.type, element, as, out);
  tc_value_end(&v);
  tc_leave();
  return st;
}

#define ITEM(name, NAME, type) \
  tc_status tc_item_##name##_at(tc_tensor t, type *out, tc_site site) { \
    return tc_item_at(t, TC_##NAME, out, site); \
  }
ITEM(f32, F32, float)
ITEM(f64, F64, double)
ITEM(i32, I32, int32_t)
ITEM(i64, I64, int64_t)
ITEM(bool, BOOL, bool)

static tc_status to_host(tc_ctype c, tc_tensor h, void *out, size_t bytes, const char *op,
                         tc_status (*read)(const tc_buffer *, void *, size_t), tc_site site) {
  tc_stored v;
  char text[128];
  if (!tc_enter(op, site)) return TC_ERR_STATE;
  tc_status st = tc_value(h, cause_of(TC_CAUSE_TO_HOST), site, &v);
  size_t have = st == TC_OK ? (size_t)tc_dims_at(v.shape)->count * tc_type_bytes(v.type) : 0;
  if (st == TC_OK && !tc_host_data_fits(c, v.type))
    st = tc_fail(TC_ERR_DTYPE, op, site, TC_MISFIT, ctype_name(c), tc_type_name(v.type));
  else if (st == TC_OK && have != bytes)
    st = tc_fail(TC_ERR_ARG, op, site, "the tensor is %s %s, of %zu bytes, the buffer has %zu", tc_type_name(v.type),
                 tc_dims_text(&tc_dims_at(v.shape)->d, text, sizeof text), have, bytes);
  else if (st == TC_OK && !out && bytes)
    st = tc_fail(TC_ERR_ARG, op, site, "out is NULL");
  else if (st == TC_OK && bytes)
    st = read(v.buf, out, bytes);
  tc_value_end(&v);
  tc_leave();
  return st;
}

tc_status tc_to_host_as_at(tc_ctype c, tc_tensor h, void *out, size_t bytes, tc_site site) {
  return to_host(c, h, out, bytes, "to_host", tc_buffer_read, site);
}

tc_status tc_to_host_at(tc_tensor h, void *out, size_t bytes, tc_site site) {
  return tc_to_host_as_at(TC_C_ANY, h, out, bytes, site);
}

tc_status tc_to_host_async_as_at(tc_ctype c, tc_tensor h, void *out, size_t bytes, tc_site site) {
  return to_host(c, h, out, bytes, "to_host_async", tc_buffer_read_begin, site);
}

tc_status tc_to_host_async_at(tc_tensor h, void *out, size_t bytes, tc_site site) {
  return tc_to_host_async_as_at(TC_C_ANY, h, out, bytes, site);
}

tc_status tc_to_host_wait_at(const void *out, tc_site site) {
  if (!tc_enter("to_host_wait", site)) return TC_ERR_STATE;
  tc_status st = tc_gpu_read_end_all(out);
  tc_leave();
  return st;
}

static tc_status eval(int n, const tc_tensor *tensors, bool tells, tc_site site) {
  tc_node small[64], *asked = small;
  if (n > 64 && !(asked = tc_malloc((size_t)n * sizeof *asked)))
    return tc_fail(TC_ERR_MEMORY, "eval", site, "no room for %d tensors", n);
  tc_trace *t = tc_op_begin_sync("eval", site);
  tc_status st = tells ? tc_trace_deferred_error(t, "eval", site) : TC_OK;
  int n_asked = 0;
  for (int i = 0; i < n && st == TC_OK; i++) {
    tc_trace *owner;
    tc_slot *s = tc_slot_find(tensors[i], &owner);
    tc_node a = tc_op_in(t, tensors[i]);
    bool computed = a != TC_NODE_ERR && s && owner == t && tc_rec_op(tc_rec_of(t, a)) != TC_OP_LEAF;
    if (computed && !(s->buf && s->buf->strided)) asked[n_asked++] = a;
  }
  if (st == TC_OK) st = t->op_status;
  if (st == TC_OK) st = tc_trace_sync(t, TC_CAUSE_EVAL, site, n_asked, asked);
  if (asked != small) tc_free(asked);
  (void)tc_op_done(t);
  return st;
}

tc_status tc_eval_at(int n, const tc_tensor *tensors, tc_site site) {
  if (n < 0 || (n > 0 && !tensors))
    return tc_fail(TC_ERR_ARG, "eval", site, "%d tensors%s", n, n < 0 ? "" : " at a null pointer");
  return eval(n, tensors, true, site);
}

tc_status tc_compute(int n, const tc_tensor *tensors, tc_site site) {
  return eval(n, tensors, false, site);
}

// Waits until a device has done what it was asked for.
static tc_status wait_for(tc_device d) {
  tc_gpu *gpu;
  tc_loaded *loaded;
  if (tc_device_kind_of(d) == TC_DEVICE_LOADED) {
    TC_TRY(tc_loaded_get(d, &loaded));
    return tc_loaded_wait(loaded);
  }
  if (tc_device_kind_of(d) != TC_DEVICE_GPU) return TC_OK;
  TC_TRY(tc_gpu_get(d, &gpu));
  return tc_gpu_wait(gpu);
}

tc_status tc_sync_at(const char *device, tc_site site) {
  tc_device d;
  if (device) TC_TRY(tc_device_parse(device, "sync", site, &d));
  tc_trace *t = tc_op_begin_sync("sync", site);
  tc_status st = tc_trace_deferred_error(t, "sync", site);
  tc_gpu *gpu;
  if (st == TC_OK) st = t->op_status;
  if (st == TC_OK) st = tc_trace_sync(t, TC_CAUSE_SYNC, site, 0, NULL);
  if (st == TC_OK && device) st = wait_for(d);
  if (st == TC_OK && !device && tc_device_kind_of(tc_device_default()) == TC_DEVICE_GPU)
    st = tc_gpu_get(tc_device_default(), &gpu);  // one that is lost is an error
  if (st == TC_OK && !device) st = tc_gpu_wait_all();
  if (st == TC_OK && !device) st = tc_loaded_wait_all();
  (void)tc_op_done(t);
  return st;
}

tc_status tc_sync_of_at(tc_tensor h, tc_site site) {
  tc_device d = TC_DEVICE_CPU;
  if (!tc_enter("sync_of", site)) return TC_ERR_STATE;
  tc_status st = tc_value_sync(h, site, &d);
  if (st == TC_OK) st = wait_for(d);
  tc_leave();
  return st;
}

// A value's memory for the host to read: its own, or from a GPU a copy, which takes its place in v.
static tc_status bring(tc_stored *v) {
  return v->buf->memory ? tc_value_copy(v) : TC_OK;
}

const void *tc_map_at(tc_tensor h, tc_site site) {
  tc_stored v;
  if (!tc_enter("map", site)) return NULL;
  if (tc_value(h, TC_CAUSE_MAP, site, &v) != TC_OK || bring(&v) != TC_OK) return tc_leave(), NULL;
  tc_trace *t;
  (void)tc_slot_find(h, &t);
  tc_trace_lock(t);
  bool room = TC_GROW(t->map, t->cap_map, t->n_map + 1);
  const void *at = room ? v.buf->ptr : NULL;
  if (room) t->map[t->n_map++] = (struct tc_mapping){h, v.buf, pthread_self()};  // with our reference
  tc_trace_unlock(t);
  if (!room) {
    tc_buffer_release(v.buf);
    tc_fail(TC_ERR_MEMORY, "map", site, "no room to remember the mapping");
  }
  tc_leave();
  return at;
}

// The latest mapping of h, of the caller or of any thread; n_map: there is none.
static uint32_t find_mapping(const tc_trace *t, tc_tensor h, bool own) {
  for (uint32_t i = t->n_map; i-- > 0;) {
    const struct tc_mapping *m = &t->map[i];
    if (m->handle.slot == h.slot && m->handle.gen == h.gen && (!own || pthread_equal(m->thread, pthread_self())))
      return i;
  }
  return t->n_map;
}

// The tensor may have been assigned or released since: what was mapped is in the list. What another
// thread mapped may be of another value, and in use: it is ended only where the caller has no
// mapping of its own.
tc_status tc_unmap_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_buffer *buf = NULL;
  if (!tc_enter("unmap", site)) return TC_ERR_STATE;
  (void)tc_trace_self();
  const tc_slot *s = tc_slot_find(h, &t);
  tc_status st = s ? tc_trace_here(t, "unmap", site) : tc_fail(TC_ERR_HANDLE, "unmap", site, "%s", tc_handle_fault(h));
  if (st != TC_OK) return tc_leave(), st;
  tc_trace_lock(t);
  uint32_t i = find_mapping(t, h, true);
  if (i == t->n_map) i = find_mapping(t, h, false);
  if (i < t->n_map) {
    buf = t->map[i].buf;
    memmove(&t->map[i], &t->map[i + 1], (--t->n_map - i) * sizeof *t->map);
  }
  bool alive = h.gen && s->gen == h.gen;
  tc_trace_unlock(t);
  tc_buffer_release(buf);
  tc_leave();
  if (buf) return TC_OK;
  return alive ? tc_fail(TC_ERR_STATE, "unmap", site, "the tensor is not mapped")
               : tc_fail(TC_ERR_HANDLE, "unmap", site, "%s", tc_handle_fault(h));
}

tc_status tc_map_shared_at(tc_tensor h, const void **out_data, void **out_share, tc_site site) {
  tc_stored v;
  if (out_data) *out_data = NULL;
  if (out_share) *out_share = NULL;
  if (!out_data || !out_share)
    return tc_fail(TC_ERR_ARG, "map_shared", site, "%s is NULL", out_data ? "out_share" : "out_data");
  if (!tc_enter("map_shared", site)) return TC_ERR_STATE;
  tc_status st = tc_value(h, cause_of(TC_CAUSE_MAP), site, &v);
  if (st == TC_OK) st = bring(&v);
  if (st == TC_OK) tc_buffer_lend(v.buf), *out_data = v.buf->ptr, *out_share = v.buf;  // with our reference
  tc_leave();
  return st;
}

void tc_unmap_shared(void *share) {
  sig_atomic_t was_inside = tc_inside;  // callbacks may call it
  tc_inside = 1;
  if (share) tc_buffer_lend_end(share);
  tc_buffer_release(share);
  tc_inside = was_inside;
}

// ---- conversions of one element ----

static double half_to_double(uint16_t v) {
  uint32_t sign = (uint32_t)(v & 0x8000) << 16, e = v >> 10 & 31, m = v & 1023, bits;
  float f;
  if (e == 31)
    bits = sign | 0x7F800000 | m << 13;
  else if (e)
    bits = sign | (e + 112) << 23 | m << 13;
  else
    return (double)m * 0x1p-24 * (sign ? -1 : 1);
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

// The value of one element, as double and as int64.
static void read_element(tc_type type, const void *p, double *f, int64_t *i) {
  uint32_t bits;
  float v;
  switch (type) {
    case TC_F16: *f = half_to_double(*(const uint16_t *)p); break;
    case TC_BF16: bits = (uint32_t)*(const uint16_t *)p << 16, memcpy(&v, &bits, sizeof v), *f = (double)v; break;
    case TC_F32: *f = (double)*(const float *)p; break;
    case TC_F64: *f = *(const double *)p; break;
    default: *i = tc_integer_at(type, p, 0), *f = (double)*i; return;
  }
  *i = *f != *f ? 0 : *f >= 0x1p63 ? INT64_MAX : *f <= -0x1p63 ? INT64_MIN : (int64_t)*f;
}

static void convert(tc_type from, const void *src, tc_type to, void *out) {
  double f;
  int64_t i;
  read_element(from, src, &f, &i);
  switch (to) {
    case TC_BOOL: *(bool *)out = f != 0; break;
    case TC_I32: *(int32_t *)out = (int32_t)TC_MAX_OF(TC_MIN(i, (int64_t)INT32_MAX), (int64_t)INT32_MIN); break;
    case TC_I64: *(int64_t *)out = i; break;
    case TC_F32: *(float *)out = (float)f; break;
    default: *(double *)out = f; break;
  }
}

void tc_shutdown(void) {
  if (!tc_enter("shutdown", 0)) return;
  tc_leave();
  tc_trace_close_all();
  tc_cache_clear();
  tc_team_stop();
  tc_watch_stop();
  tc_trim();
  tc_buffer_leave_gpus();
}
