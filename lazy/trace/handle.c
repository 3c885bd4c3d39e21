// What a program does with a handle beside recording: keeps, retains or releases it, and asks for
// its facts. Computes nothing.
#include "lazy/trace/thread_trace.h"
#include "runtime/reentry.h"

void tc_slot_unlock(tc_trace *owner) {
  tc_trace_unlock(owner);
  tc_leave();
}

tc_slot *tc_slot_lock(tc_tensor h, const char *what, tc_site site, tc_trace **owner) {
  if (h.slot >= TC_POISON || !tc_enter(what ? what : "is_valid", site)) return NULL;
  (void)tc_trace_self();  // with one, nothing is freed at an exit beside this thread
  tc_slot *s = tc_slot_find(h, owner);
  bool here = s && (what ? tc_trace_here(*owner, what, site) == TC_OK : tc_trace_is_here(*owner));
  if (here) {
    tc_trace_lock(*owner);
    if (s->gen == h.gen && h.gen) return s;
    tc_trace_unlock(*owner);
  }
  tc_leave();
  if (what && (!s || here)) tc_fail(TC_ERR_HANDLE, what, site, "%s", tc_handle_fault(h));
  return NULL;
}

tc_tensor tc_keep_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_slot *s = tc_slot_lock(h, "keep", site, &t);
  if (!s) return h;
  s->flags |= TC_SLOT_KEEP;
  if (s->epoch == t->epoch && t->slot_of[s->node] == h.slot) t->flag[s->node] |= TC_NODE_KEEP;
  tc_slot_unlock(t);
  return h;
}

tc_tensor tc_retain_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_slot *s = tc_slot_lock(h, "retain", site, &t);
  if (!s) return h;
  s->refs++;
  tc_slot_unlock(t);
  return h;
}

// One of several borrows is given back before its scope ends: then the scope has one reference
// less. Not so if some references are of tc_retain.
static void leave_scope(tc_trace *t, const tc_slot *s, tc_tensor h) {
  uint32_t n = 0, latest = 0;
  for (uint32_t i = 0; i < t->n_pool; i++)
    if (t->pool[i].slot == h.slot && t->pool[i].gen == h.gen) n++, latest = i;
  if (n > 1 && n == s->refs) t->pool[latest].gen--;  // no handle: that is even
}

void tc_release_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  if (h.gen == 0 || h.slot >= TC_POISON) return;
  tc_slot *s = tc_slot_lock(h, "release", site, &t);
  if (!s) return;
  if (TC_UNLIKELY(s->flags & TC_SLOT_REBORROWED)) leave_scope(t, s, h);
  tc_slot_release(t, s, h);
  tc_trace_unlock_or_retire(t);
  tc_leave();
}

bool tc_is_valid(tc_tensor h) {
  tc_trace *t;
  if (!h.gen || !tc_slot_lock(h, NULL, 0, &t)) return false;
  tc_slot_unlock(t);
  return true;
}

bool tc_is_assignable(tc_tensor h) {
  tc_trace *owner;
  return tc_is_valid(h) && tc_slot_find(h, &owner) && owner == tc_trace_mine;
}

static tc_dims dims_of(tc_tensor h, const char *what, tc_site site) {
  tc_trace *t;
  tc_dims none = {-1, {0}};
  tc_slot *s = tc_slot_lock(h, what, site, &t);
  if (!s) return none;
  tc_dims d = tc_dims_at(s->shape)->d;
  tc_slot_unlock(t);
  return d;
}

tc_dims tc_shape_at(tc_tensor h, tc_site site) {
  return dims_of(h, "shape", site);
}

int64_t tc_numel_at(tc_tensor h, tc_site site) {
  tc_dims d = dims_of(h, "numel", site);
  return d.rank < 0 ? -1 : tc_dims_count(&d);
}

tc_type tc_dtype_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_slot *s = tc_slot_lock(h, "dtype", site, &t);
  if (!s) return TC_N_TYPES;
  tc_type type = (tc_type)s->dtype;
  tc_slot_unlock(t);
  return type;
}

const char *tc_device_of_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_slot *s = tc_slot_lock(h, "device_of", site, &t);
  if (!s) return "";
  tc_device d = (tc_device)s->device;
  tc_slot_unlock(t);
  return tc_device_name(d);
}
