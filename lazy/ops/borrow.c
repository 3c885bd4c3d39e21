// Memory of the caller as tensors, dense or strided.
#include <string.h>

#include "device/external.h"
#include "lazy/ops/host_copy.h"
#include "lazy/record/append.h"
#include "lazy/sync/sync.h"
#include "lazy/trace/capture.h"
#include "runtime/arena.h"

tc_tensor tc_borrow_as_at(tc_ctype c, void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg),
                          void *arg, tc_site site) {
  return tc_host_data_fits(c, type) ? tc_borrow_at(data, shape, type, flags, release, arg, site)
                                    : tc_host_data_refuse("borrow", c, type, site);
}

tc_tensor tc_borrow_strided_as_at(tc_ctype c, void *data, tc_dims shape, const int64_t *strides, tc_type type,
                                  int flags, void (*release)(void *arg), void *arg, tc_site site) {
  return tc_host_data_fits(c, type) ? tc_borrow_strided_at(data, shape, strides, type, flags, release, arg, site)
                                    : tc_host_data_refuse("borrow_strided", c, type, site);
}

// The caller's memory and what it is to become. strided NULL: dense.
typedef struct loan {
  void *data;
  tc_dims shape;
  const tc_strided *strided;
  tc_type type;
  int flags;
  void (*release)(void *arg);
  void *arg;
} loan;

// Its lowest address.
static void *lowest(const loan *l) {
  return l->strided ? (char *)l->data - l->strided->first * (int64_t)l->strided->item_bytes : l->data;
}

// A copy on the default device, which has memory of its own: the caller's is not read again.
static tc_tensor copy_to_device(tc_trace *t, const loan *l, int64_t n) {
  void *dense = l->strided ? tc_malloc((size_t)n * tc_type_bytes(l->type)) : l->data;
  if (!dense && n) return tc_op_end(t, tc_rec_fail(t, TC_ERR_MEMORY, "no room for a copy"));
  if (l->strided) tc_strided_gather(l->strided, dense, lowest(l));
  tc_tensor copy = tc_op_end(t, tc_rec_data(t, dense, &l->shape, l->type));
  if (l->strided) tc_free(dense);
  if (copy.slot < TC_POISON && l->release) l->release(l->arg);
  return copy;
}

static bool is_same_layout(const tc_strided *a, const tc_strided *b) {
  if (!a || !b) return a == b;
  return a->first == b->first && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

// The tensor of this thread that has exactly this memory, with a new reference in the current
// scope. One whose handle is dead, but whose assign is pending, lives again. {0, 0}: there is none.
static tc_tensor find_same(tc_trace *t, const loan *l, uint32_t shape_id, tc_device d, size_t bytes) {
  bool may = l->flags == TC_WRITABLE && !l->release && bytes;
  uint64_t word;
  for (uint32_t nth = 0; may && tc_external_find(lowest(l), bytes, nth, &word); nth++) {
    tc_trace *owner;
    tc_tensor h = {(uint32_t)word, (uint32_t)(word >> 32)};
    tc_slot *s = tc_slot_find(h, &owner);
    if (!s || owner != t) continue;
    tc_buffer *buf = s->flags & TC_SLOT_HAS_DEFERRED ? NULL : s->buf;
    for (uint32_t i = 0; i < t->n_user && !buf; i++)
      if (t->user[i].slot == h.slot) buf = t->user[i].buf;
    if (!buf || buf->origin != TC_ORIGIN_USER || buf->ptr != lowest(l) || buf->bytes != bytes || s->shape != shape_id ||
        s->dtype != (uint8_t)l->type || s->device != (uint8_t)d || !is_same_layout(buf->strided, l->strided))
      continue;
    h = tc_slot_refer(t, h.slot);
    if (h.slot < TC_POISON) buf->handle = tc_handle_word(h);  // that of before may be dead
    return h;
  }
  return (tc_tensor){0, 0};
}

// Before memory is borrowed that a pending assign of this thread reaches, that runs.
static void land_pending(tc_trace *t, const loan *l, size_t bytes) {
  for (uint32_t i = 0; i < t->n_user && t->op_status == TC_OK; i++) {
    if (!tc_ranges_overlap(t->user[i].buf->ptr, t->user[i].buf->bytes, lowest(l), bytes)) continue;
    t->op_status = tc_trace_make_way(t, TC_CAUSE_ALIAS, t->op_site);
    return;
  }
}

// Ends the op that t has begun.
static tc_tensor borrow(tc_trace *t, const loan *l, int64_t n) {
  tc_buffer *buf;
  uint32_t shape_id = tc_dims_intern(&l->shape);
  if (shape_id == TC_SHAPE_NONE) return tc_op_end(t, tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"));
  tc_origin origin = l->flags == TC_WRITABLE ? TC_ORIGIN_USER : TC_ORIGIN_BORROWED;
  tc_device d = tc_device_default();
  size_t bytes = l->strided ? l->strided->span_bytes : (size_t)n * tc_type_bytes(l->type);
  tc_tensor same = t->op_status == TC_OK ? find_same(t, l, shape_id, d, bytes) : (tc_tensor){0, 0};
  if (same.gen) return (void)tc_op_done(t), same;
  tc_capture_break_op(t, "memory of the host, whose content may change");
  land_pending(t, l, bytes);
  if (t->op_status != TC_OK) return tc_op_end(t, TC_NODE_ERR);
  if (origin == TC_ORIGIN_BORROWED && tc_device_memory(d) != TC_DEVICE_CPU) return copy_to_device(t, l, n);
  tc_status st = l->strided ? tc_buffer_wrap_strided(lowest(l), origin, l->strided, l->release, l->arg, &buf)
                            : tc_buffer_wrap(l->data, bytes, origin, l->release, l->arg, &buf);
  if (st != TC_OK) return tc_op_end(t, tc_rec_fail(t, TC_ERR_MEMORY, "no room for a buffer object"));
  if (l->flags == TC_CONSTANT) tc_buffer_settle(buf);
  tc_tensor h;
  if (l->strided) {
    const tc_stored v = {buf, shape_id, l->type, d, false, NULL};
    h = t->op_status == TC_OK ? tc_trace_handle_stored(t, &v, NULL, 0, true) : tc_poison(t->op_status);
    (void)tc_op_done(t);
  } else {
    h = tc_op_end(t, tc_trace_leaf(t, buf, l->type, shape_id, d));
  }
  if (h.slot < TC_POISON) buf->handle = tc_handle_word(h);
  if (h.slot >= TC_POISON) buf->drop = NULL;  // still the caller's; a leaf that the trace may have is dead
  tc_buffer_release(buf);
  return h;
}

// Whether the flags and the memory may be borrowed; false after reporting.
static bool check_loan(tc_trace *t, const loan *l, int64_t *n) {
  if (!tc_host_data_check(t, l->data, &l->shape, l->type, n)) return false;
  if (l->flags == TC_READ_ONLY || l->flags == TC_WRITABLE || l->flags == TC_CONSTANT) return true;
  tc_rec_fail(t, TC_ERR_ARG, "the flags are %d; TC_READ_ONLY, TC_WRITABLE or TC_CONSTANT was expected", l->flags);
  return false;
}

tc_tensor tc_borrow_at(void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg,
                       tc_site site) {
  tc_trace *t = tc_op_begin("borrow", site);
  loan l = {data, shape, NULL, type, flags, release, arg};
  int64_t n;
  return check_loan(t, &l, &n) ? borrow(t, &l, n) : tc_op_end(t, TC_NODE_ERR);
}

tc_tensor tc_borrow_strided_at(void *data, tc_dims shape, const int64_t *strides, tc_type type, int flags,
                               void (*release)(void *arg), void *arg, tc_site site) {
  tc_trace *t = tc_op_begin("borrow_strided", site);
  loan l = {data, shape, NULL, type, flags, release, arg};
  tc_strided s;
  int64_t n, span = 0;
  if (!check_loan(t, &l, &n)) return tc_op_end(t, TC_NODE_ERR);
  if (strides && n) {
    int axis = tc_strided_fill(&s, &shape, strides, tc_type_bytes(type), &span);
    if (axis == TC_MAX_RANK)
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_SHAPE, "the strides span more bytes than an int64_t counts"));
    if (axis >= 0)
      return tc_op_end(t, tc_rec_fail(t, TC_ERR_ARG,
                                      "the stride of axis %d is %lld, and %lld elements lie within the axes of smaller "
                                      "strides: elements would overlap; a stride of at least that is needed",
                                      axis, (long long)strides[axis], (long long)span));
    if (!tc_strided_is_dense(&s)) l.strided = &s;
  }
  return borrow(t, &l, n);
}
