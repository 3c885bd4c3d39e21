// Giving up a borrow: its pending assign never lands, and nothing reads the memory any more.
//
// What pending work and recipes read of the old content goes to memory of the library's own.
#include <string.h>

#include "lazy/trace/thread_trace.h"
#include "runtime/arena.h"

// The buffer of the tensor's memory: where a pending assign is to land, or what the slot has.
static tc_buffer *memory_of(const tc_trace *t, const tc_slot *s, uint32_t slot) {
  for (uint32_t i = 0; i < t->n_user; i++)
    if (t->user[i].slot == slot) return t->user[i].buf;
  return s->buf;
}

// Who else refers to a buffer than the slot whose memory it is.
typedef struct users {
  uint32_t n_leaf;   // leaves of the pending trace
  bool read;         // somebody will read what it holds
  bool others_live;  // some value of the trace is not the slot's
} users;

// own: the slot's node. Its old value is no reader: an assign does not read what it replaces.
static bool find_users(const tc_trace *t, const tc_buffer *buf, tc_node own, users *u) {
  uint8_t *need = tc_calloc(t->n_node + 1, 1);
  if (!need) return false;
  for (uint32_t n = t->n_node; n-- > 0;) {
    bool live = (t->flag[n] & TC_NODE_LIVE) && n != own;
    u->others_live |= live;
    if (!live && !need[n]) continue;
    const tc_rec *r = tc_rec_of(t, n);
    int n_in = tc_rec_op(r) == TC_OP_ASSIGN ? 1 : tc_rec_arity(r);
    need[n] = 1;
    for (int i = 0; i < n_in; i++) need[tc_rec_in(r)[i]] = 1;
  }
  for (uint32_t i = 0; i < t->n_leaf; i++) {
    if (t->leaf[i].buf != buf) continue;
    u->n_leaf++;
    u->read |= need[t->leaf[i].node] && t->leaf[i].node != own;
  }
  tc_free(need);
  return true;
}

// Ends the slot whatever references it has, and what its memory was borrowed for.
static tc_status forget(tc_trace *t, tc_slot *s, tc_tensor h) {
  tc_buffer *buf = memory_of(t, s, h.slot), *spare = NULL;
  bool pending = s->flags & TC_SLOT_HAS_DEFERRED;
  users u = {0};
  tc_node own = s->epoch == t->epoch && t->slot_of[s->node] == h.slot ? s->node : TC_NODE_ERR;
  if (!find_users(t, buf, own, &u)) return TC_FAIL(TC_ERR_MEMORY, "no room to look for readers");
  bool external = buf && buf->origin != TC_ORIGIN_OWNED;
  uint32_t held = external ? tc_buffer_refs(buf) - u.n_leaf - (pending || s->buf == buf) : 0;
  bool drop_all = !u.others_live && t->n_user == (uint32_t)pending && !t->dropped;
  if (external && (held || (u.n_leaf && !drop_all))) TC_TRY(tc_buffer_create(buf->bytes, &spare));
  if (external) (void)tc_buffer_retain(buf);
  if (pending) tc_slot_drop_assign(t, h.slot);
  bool is_index = !tc_type_is_float((tc_type)s->dtype);
  s->refs = 1;
  tc_slot_release(t, s, h);
  if (drop_all) tc_trace_reset(t);
  if (spare && (held || u.read)) {
    tc_buffer_move(buf, spare);
  } else if (spare) {
    if (is_index) memset(spare->ptr, 0, buf->bytes);  // dead work may still look at it
    tc_buffer_swap(buf, spare);
  }
  tc_buffer_release(spare);
  if (external) tc_buffer_release(buf);
  return TC_OK;
}

tc_status tc_forget_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  if (h.gen == 0 || h.slot >= TC_POISON) return TC_OK;
  tc_slot *s = tc_slot_lock(h, "forget", site, &t);
  if (!s) return tc_last_error()->status;
  bool own = t == tc_trace_mine;
  tc_status st = own ? forget(t, s, h) : TC_OK;
  tc_slot_unlock(t);
  return own ? st : tc_fail(TC_ERR_STATE, "forget", site, "a tensor is forgotten by the thread that made it");
}
