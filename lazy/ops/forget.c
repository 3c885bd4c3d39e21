// Giving up a borrow: its pending assign never lands, and nothing reads the memory any more.
//
// What pending work and recipes read of the old content goes to memory of the library's own.
#include "device/external.h"
#include "lazy/record/outline.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/arena.h"
#include "runtime/options.h"

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
    u->read |= need[t->leaf[i].node];
  }
  tc_free(need);
  return true;
}

// Whether runs there compute what nobody needs, too.
static bool runs_dead_work(tc_device d) {
  return tc_device_kind_of(d) == TC_DEVICE_ROWS || tc_options_get()->verify || tc_options_get()->anomaly;
}

// Why others, who have the memory to read without the trace's lock, forbid that it is given up.
// NULL: they do not. held: whether anybody beside the trace and the slot holds it.
static const char *why_not(const tc_buffer *buf, bool held) {
  if (held && tc_buffer_is_lent(buf)) return "the memory is lent (tc_map_shared, DLPack)";
  return held && buf->foreign ? "another thread's work may read the memory; sync there, and release what it made"
                              : NULL;
}

// Ends the slot whatever references it has, and what its memory was borrowed for. buf: over that
// memory. NULL: it is not the caller's.
static tc_status forget(tc_trace *t, tc_slot *s, tc_tensor h, tc_buffer *buf, tc_site site) {
  tc_buffer *spare = NULL;
  bool pending = s->flags & TC_SLOT_HAS_DEFERRED;
  users u = {0};
  tc_node own = s->epoch == t->epoch && t->slot_of[s->node] == h.slot ? s->node : TC_NODE_ERR;
  if (!find_users(t, buf, own, &u)) return tc_fail(TC_ERR_MEMORY, "forget", site, "no room to look for readers");
  // beside the leaves, the slot, its assign and the caller
  uint32_t held = buf ? tc_buffer_refs(buf) - u.n_leaf - pending - (s->buf == buf) - 1 : 0;
  bool drop_all = !u.others_live && t->n_user == (uint32_t)pending && !t->dropped;
  const char *why = buf ? why_not(buf, held) : NULL;
  if (why) return tc_fail(TC_ERR_STATE, "forget", site, "%s", why);
  if (held || (u.n_leaf && !drop_all)) TC_TRY(tc_buffer_create(buf->bytes, &spare));
  bool moves = held || u.read || runs_dead_work((tc_device)s->device);
  if (pending) tc_slot_drop_assign(t, h.slot);
  s->refs = 1;
  tc_slot_release(t, s, h);
  if (drop_all) tc_trace_reset(t);
  if (spare) (moves ? tc_buffer_move : tc_buffer_swap)(buf, spare);
  tc_buffer_release(spare);
  return TC_OK;
}

// Why the function that this thread calls may not forget: what it does is done again without it.
// NULL: it may.
static const char *refuse_in_graph(const tc_trace *t) {
  if (t->outline) return "a body of control flow, which is recorded once, gives a tensor up";
  return t->capture && !t->capture->why ? "a compiled function, which later calls do not run, gives a tensor up" : NULL;
}

tc_status tc_forget_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  if (h.gen == 0 || h.slot >= TC_POISON) return TC_OK;
  tc_slot *s = tc_slot_lock(h, "forget", site, &t);
  if (!s) return tc_last_error()->status;
  bool own = t == tc_trace_mine;
  tc_buffer *buf = own ? tc_external_of(tc_handle_word(h)) : NULL;
  const char *why = own ? refuse_in_graph(t) : NULL;
  tc_status st = why   ? tc_fail(TC_ERR_STATE, "forget", site, "%s: call tc_forget after it", why)
                 : own ? forget(t, s, h, buf, site)
                       : tc_fail(TC_ERR_STATE, "forget", site, "a tensor is forgotten by the thread that made it");
  tc_buffer_release(buf);
  tc_slot_unlock(t);
  return st;
}
