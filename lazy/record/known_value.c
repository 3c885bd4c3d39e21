// Values that are known while the program records. See known_value.h.
#include "lazy/record/known_value.h"

#include "lazy/record/record.h"
#include "lazy/trace/thread_trace.h"

int64_t tc_integer_at(tc_type type, const void *data, int64_t i) {
  switch (type) {
    case TC_BOOL:
    case TC_U8: return ((const uint8_t *)data)[i];
    case TC_I8: return ((const int8_t *)data)[i];
    case TC_I16: return ((const int16_t *)data)[i];
    case TC_I32: return ((const int32_t *)data)[i];
    default: return ((const int64_t *)data)[i];
  }
}

// Dense integers that the slot's value is; all are the first where *n is 1. NULL: they are not
// known.
static const void *known_data(const tc_trace *t, const tc_slot *s, int64_t *n) {
  *n = tc_dims_at(s->shape)->count;
  bool pending = tc_slot_is_pending(t, s);
  if (!pending) return s->buf && !s->buf->memory && !s->buf->strided ? s->buf->ptr : NULL;
  if (tc_rec_op(tc_rec_of(t, s->node)) != TC_OP_FULL) return NULL;
  *n = TC_MIN(*n, 1);
  return t->arg + t->arg_at[s->node];
}

int64_t tc_find_outside(tc_tensor h, int64_t least, int64_t most, int64_t *out_value) {
  tc_trace *t;
  const tc_slot *s = tc_slot_lock(h, NULL, 0, &t);
  if (!s) return -1;
  tc_type type = (tc_type)s->dtype;
  int64_t n = 0, found = -1;
  const void *data = tc_type_is_float(type) ? NULL : known_data(t, s, &n);
  for (int64_t i = 0; i < n && data && found < 0; i++) {
    *out_value = tc_integer_at(type, data, i);
    if (*out_value < least || *out_value > most) found = i;
  }
  tc_slot_unlock(t);
  return found;
}
