// Slots, and the pending trace of a thread.
//
// The records of a trace are one array of words with four uses. These are the plan's key, the tape,
// the recipe of every value that is not stored, and the dump.
//
// In: handles. Out: their slots, and the nodes of the pending trace.
//
//   handle {slot, gen} --> tc_slot --> node of the pending trace
//                                    | tc_buffer (stored)
//                                    | tc_run + run_node (a recipe or history)
//
// Invariants: a node has at most one slot, and a slot at most one node. A slot's node counts only
// while its epoch is the trace's. What a slot refers to is retained.
// Threads: the trace's lock guards the trace and its slots. Two trace locks are never held at once.
// Owner: the thread whose trace it is; after its end, the handles.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "lazy/trace/dims.h"
#include "lazy/trace/node.h"
#include "lazy/trace/run.h"
#include "runtime/arena.h"
#include "runtime/biased_lock.h"

#define TC_SLOT_NONE UINT32_MAX
#define TC_CHUNK_SLOTS 1024
#define TC_N_CHUNKS 16384

// GRAD: the slot is a parameter's (requires_grad). KEEP: it survives the end of its scope.
// HAS_DEFERRED: an assign has yet to reach the caller's memory. FREED: a backward freed the history
// of its stored value, which has no run. RECIPE: it has no stored value, but a run that can make it
// again. REBORROWED: scopes may have more than one reference to it.
enum {
  TC_SLOT_GRAD = 1,
  TC_SLOT_KEEP = 2,
  TC_SLOT_HAS_DEFERRED = 4,
  TC_SLOT_FREED = 8,
  TC_SLOT_RECIPE = 16,
  TC_SLOT_REBORROWED = 32
};

typedef struct tc_slot {
  uint32_t gen, refs;  // gen: odd while in use. Even and not in the free list: released, but HAS_DEFERRED
  uint64_t epoch;  // of the trace: node counts in this one alone
  // Number in the pending trace, and in the run. The node of a strided buffer's value is shared: it
  // is not in slot_of
  uint32_t node, run_node;
  tc_run *run;  // retained; has its recipe or history. NULL: neither
  tc_buffer *buf;  // retained; the stored value, dense. NULL: not stored
  uint32_t shape;  // interned
  uint8_t dtype, device, flags;
  bool of_body;  // true: err is set since a body of control flow made it, which keeps no values
  tc_tensor grad;  // an owned reference. {0, 0}: no gradient
  uint32_t next;  // in the free list
  tc_status err;  // why the value was lost. TC_OK: it was not
} tc_slot;

typedef struct tc_chunk {
  tc_trace *owner;
  tc_slot slot[TC_CHUNK_SLOTS];
} tc_chunk;

// A cast of a value that is in memory or a parameter's, by its node. from: the node + 1; 0: none.
typedef struct tc_param_cast {
  uint32_t from, to;
} tc_param_cast;
typedef struct tc_param_casts {
  tc_param_cast *cast;  // a hash table, at most half full
  uint32_t n, cap;
  uint64_t epoch;  // memo_epoch of the trace: casts count in this one alone. 0: all are forgotten
} tc_param_casts;

#define TC_MAX_AUTOCASTS 64  // open at once in a thread
#define TC_MAX_SCOPES 256  // open at once in a thread
#define TC_LATEST_PLANS 4  // plans that a trace finds without the cache: a loop has few

struct tc_trace {
  tc_biased_lock lock;  // biased towards the thread whose trace it is
  // what the body of control flow that is recorded did and may not do: "seeds the random numbers".
  // NULL: nothing
  const char *body_fault;
  struct tc_outline *outline;  // the body of control flow that is recorded (record/outline.h). NULL: none is
  bool dropped;  // true: the owner is inside an op and has dropped the lock; nodes keep their numbers
  uint64_t epoch;  // how often the trace began anew
  uint64_t memo_epoch;  // how often it began anew, or records were taken out of it
  uint64_t *word;  // the records
  uint32_t n_word, cap_word;
  uint32_t n_node, cap_node;
  uint32_t *at, *arg_at, *slot_of;  // per node: first word, first arg, slot
  tc_call *call;  // per node: the user's call
  uint8_t *flag, *dev;  // per node: TC_NODE_ bits, device
  uint64_t *arg;  // scalars, in the order of the records
  uint32_t n_arg, cap_arg;
  tc_leaf *leaf;  // in the order of their nodes
  uint32_t n_leaf, cap_leaf;
  tc_past *past;  // where the history of leaves lies
  uint32_t n_past, cap_past;
  tc_param_node *param_node;  // the nodes that are parameters' values
  uint32_t n_param_node, cap_param_node;
  tc_tensor *pool;  // handles of open scopes, innermost last
  uint32_t n_pool, cap_pool;
  uint32_t n_tidy;  // handles of the innermost scope when it was last tidied
  uint32_t mark[TC_MAX_SCOPES], n_mark;  // per open scope: where its handles begin
  tc_site scope_site[TC_MAX_SCOPES];  // where the open scopes were begun
  struct tc_pile {  // whether the runs of one line leave more and more temporaries: tc_pool_watch
    tc_site site;  // that is watched. 0: none yet
    uint32_t n_runs, n_others, n_pool;  // runs there, runs elsewhere since, handles at the first run
    uint32_t low;  // the fewest handles of open scopes since the last run
  } watch;
  uint32_t n_old_mark;  // open scopes that are older than this trace
  uint32_t live_tape;  // a node on the tape that was alive when last looked for
  bool passed;  // true: the trace was not cut at an optimizer's step, since its scope will end
  bool cut_at_bound;  // true: a bound cut the step before this trace; its rest ends with the optimizer's step
  uint64_t most_nodes;  // hard bound: a trace of so many runs. 0: it runs before the next op, for an aliased assign
  struct tc_capture *capture;  // of the body being traced for its graph, the innermost. NULL: none is
  uint32_t free_slot;  // the first free slot. TC_SLOT_NONE: none
  uint32_t n_slots;  // slots in use; a trace outlives its thread until it is 0
  bool orphan;  // true: its thread has ended
  struct tc_trace *next;  // among traces free for new threads
  // the open op
  const char *op;  // its name
  tc_site op_site;
  tc_status op_status;  // TC_OK: it has not failed
  uint32_t n_taken;  // operands taken; 0: none, or no op is open
  tc_device op_device;  // the operands' device; in a backward, the device of the record being differentiated
  bool tape;  // true: records go on the tape
  int no_grad;  // open tc_no_grad_begin
  // Autocast: the types that are cast to, a byte for each kind of device: the type + 1, or 0. 24
  // bits. 0: none
  uint64_t context;
  tc_autocast_rule cast_rule;  // of the open op; `none` outside of autocast
  struct tc_autocast {
    uint64_t outer[TC_MAX_AUTOCASTS];  // t->context before each open tc_autocast_begin
    uint32_t n;  // open tc_autocast_begin
    tc_param_casts casts;
  } autocast;
  int record_only;  // open tc_record_only_begin: nothing runs unasked
  const struct tc_options *options;  // its thread's tc_options_mine. NULL: the process's
  uint64_t seed, counter, stream;
  uint64_t synced;  // when the last sync point ended, in ticks. 0: there was none
  uint64_t first;  // with a profile: when an op found the trace empty, in ticks. 0: not known
  char graph_note[256];  // with a profile: of a compiled function traced since the last sync. "": none was
  uint64_t cut_site;  // the landmark at which the trace was cut last. 0: never
  tc_site freed_by;  // the latest backward that freed history
  uint32_t forks;  // forks before this process; another number: the trace's thread is not in this process
  uint64_t leaf_bytes, byte_check;  // bytes of leaves; beyond byte_check holds_much looks again
  uint64_t assigned_bytes;  // by the assigns of this trace
  tc_status deferred;  // deferred error, which the next sync point reports. TC_OK: none
  tc_site deferred_site;
  tc_error_mark deferred_error;
  uint64_t deferred_clears;  // tc_error_clears when it was deferred. 0: clearing the error does not settle it
  tc_arena walk;  // scratch of a backward
  uint32_t *operand;  // scratch of taking a fragment: nodes of its arguments and operands
  uint32_t cap_operand;
  uint32_t *todo;  // scratch of a replay: nodes of a run, the next one last
  uint32_t cap_todo;
  tc_buffer **out;  // scratch of a sync
  uint32_t cap_out;
  // Guards latest alone, from which other threads take what they evict. Nothing is locked
  // meanwhile.
  tc_biased_lock latest_lock;
  struct tc_plan *latest[TC_LATEST_PLANS];  // plans of the latest syncs, retained. NULL: none
  uint32_t next_latest;  // the one that is replaced next
  struct tc_user {  // writable memory of the caller, which an assign reaches at the sync
    uint32_t slot;  // whose value it is; it HAS_DEFERRED until then
    uint32_t leaf_node;  // the leaf that reads what it holds before
    tc_buffer *buf;  // retained
    tc_buffer *spare;  // during a sync: memory for old content that somebody holds. NULL: nobody does
  } *user;
  uint32_t n_user, cap_user;
  // With TC_ANOMALY=1 alone. Per node, of the first n_of: the call whose gradient it is a part of.
  // {NULL, 0}: it is no part of one.
  tc_call *of;
  uint32_t n_of, cap_of;
  struct tc_mapping {  // a tc_map whose tc_unmap is to come; the buffer is retained
    tc_tensor handle;
    tc_buffer *buf;
    pthread_t thread;  // the one that mapped it
  } *map;
  uint32_t n_map, cap_map;
};

// ---- traces of threads ----
extern _Thread_local tc_trace *tc_trace_mine;  // this thread's; NULL: none yet
static inline void tc_trace_lock(tc_trace *t) {
  if (TC_LIKELY(t == tc_trace_mine))
    tc_biased_lock_own(&t->lock);
  else
    tc_biased_lock_other(&t->lock);
}
static inline void tc_trace_unlock(tc_trace *t) {
  if (TC_LIKELY(t == tc_trace_mine))
    tc_biased_unlock_own(&t->lock);
  else
    tc_biased_unlock_other(&t->lock);
}
// ---- slots ----
extern _Atomic(tc_chunk *) tc_slot_chunk[TC_N_CHUNKS];
extern _Atomic uint32_t tc_slot_n_chunks;  // of these, from the first on, that are taken
// The slot of a handle and its trace, without locking; both NULL for null, poison and garbage.
static inline tc_slot *tc_slot_find(tc_tensor h, tc_trace **owner) {
  uint32_t c = h.slot / TC_CHUNK_SLOTS;
  if (TC_UNLIKELY(c >= TC_N_CHUNKS)) return *owner = NULL, NULL;
  tc_chunk *chunk = atomic_load_explicit(&tc_slot_chunk[c], memory_order_acquire);
  if (TC_UNLIKELY(!chunk)) return *owner = NULL, NULL;
  *owner = chunk->owner;
  return &chunk->slot[h.slot % TC_CHUNK_SLOTS];
}
// The slot of a number that a handle has, alive or released.
static inline tc_slot *tc_slot_of(uint32_t slot) {
  tc_chunk *chunk = atomic_load_explicit(&tc_slot_chunk[slot / TC_CHUNK_SLOTS], memory_order_acquire);
  return &chunk->slot[slot % TC_CHUNK_SLOTS];
}
// What became of the value of a slot with an err, after "the value ".
static inline const char *tc_slot_lost(const tc_slot *s) {
  return s->of_body ? "is one of a body of control flow, which keeps none: make it a result of the body"
                    : "was lost by a run that failed";
}
// pre: the slot's trace is locked. Whether its value is still to be computed or assigned: its
// node in the pending trace is more than what its memory holds.
static inline bool tc_slot_is_pending(const tc_trace *t, const tc_slot *s) {
  return s->epoch == t->epoch && tc_rec_op((const tc_rec *)(const void *)(t->word + t->at[s->node])) != TC_OP_LEAF &&
         !(s->buf && s->buf->strided);
}
// A new slot and handle in the current scope (pooled) or owned by the caller; poison when out of
// memory. With node TC_NODE_ERR: no node.
tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled);
// pre: the slot's trace is locked; a run's slots are all of the trace that made it. Gives the slot
// a stored value, which is consumed, and a run, which it retains. Releases those it had; any may be
// NULL. A slot without a stored value takes the run for its recipe. freed: a backward freed the
// value's history.
static inline void tc_slot_give_value(tc_slot *s, tc_buffer *buf, tc_run *run, bool freed) {
  tc_buffer *old = s->buf;
  tc_run *was = s->run;
  bool had_recipe = s->flags & TC_SLOT_RECIPE, has_recipe = run && !buf;
  if (run && run->n_slots++ == 0) (void)tc_run_retain(run);
  if (has_recipe) run->n_recipes++;
  s->buf = buf;
  s->run = run;
  s->flags = (uint8_t)((s->flags & ~(TC_SLOT_RECIPE | TC_SLOT_FREED)) | (has_recipe ? TC_SLOT_RECIPE : 0) |
                       (freed ? TC_SLOT_FREED : 0));
  if (old) tc_buffer_release(old);
  if (was) tc_run_leave(was, had_recipe);
}
// The same, but the stored value is retained.
static inline void tc_slot_set_value(tc_slot *s, tc_buffer *buf, tc_run *run, bool freed) {
  tc_slot_give_value(s, buf ? tc_buffer_retain(buf) : NULL, run, freed);
}
// The same for a slot that has neither a stored value nor a run: the run is its recipe.
static inline void tc_slot_take_recipe(tc_slot *s, tc_run *run) {
  if (run->n_slots++ == 0) (void)tc_run_retain(run);
  run->n_recipes++;
  s->run = run;
  s->flags = (uint8_t)((s->flags & ~TC_SLOT_FREED) | TC_SLOT_RECIPE);
}
// pre: t is locked. A new reference to a slot of t that is alive, or released and HAS_DEFERRED, in
// the current scope; poison when out of memory.
tc_tensor tc_slot_refer(tc_trace *t, uint32_t slot);
// A handle as a buffer of the caller's memory has it.
static inline uint64_t tc_handle_word(tc_tensor h) {
  return (uint64_t)h.gen << 32 | h.slot;
}
// pre: t is locked, and s is a slot of t's that is alive. It stands for no node from here on.
void tc_slot_leave_node(tc_trace *t, tc_slot *s, tc_tensor h);
// pre: as tc_slot_leave_node. The slot stands for node n, and no other slot does, from here on.
void tc_slot_stand_for(tc_trace *t, tc_slot *s, tc_tensor h, tc_node n);
void tc_slot_release(tc_trace *t, tc_slot *s, tc_tensor h);
// Releases the slot of a handle that may be stale.
void tc_slot_release_handle(tc_trace *t, tc_tensor h);
// Clears the slot's HAS_DEFERRED; frees it if it was released meanwhile.
void tc_slot_settle(tc_trace *t, uint32_t slot);
// pre: t is locked. The slot's assign never reaches the caller's memory.
void tc_slot_drop_assign(tc_trace *t, uint32_t slot);
// At the end of the process, when no trace is left.
void tc_slot_free_all(void);
// pre: t is locked. Looks whether temporaries outlive the runs at this place, and warns once in a
// process.
void tc_pool_watch(tc_trace *t, tc_site site);
// Takes handles that were released before their scope's end out of the innermost scope: a loop may
// keep and release for ever. Looks only once there are twice as many handles as after the last
// look.
void tc_pool_tidy(tc_trace *t);

// ---- records ----
static inline tc_rec *tc_rec_of(const tc_trace *t, tc_node n) {
  return (tc_rec *)(void *)(t->word + t->at[n]);
}
// The buffer of a leaf; borrowed.
tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n);

// ---- making handles: what tc_trace_handle is made of ----
// Whether a slot is free, and the innermost scope has room for its handle.
static inline bool tc_slot_has_room(const tc_trace *t) {
  return t->free_slot != TC_SLOT_NONE && t->n_pool < t->cap_pool;
}
// pre: a slot is free, which is taken. Its handle; the slot has no node and no value.
static inline tc_tensor tc_slot_take(tc_trace *t, tc_slot **out) {
  uint32_t slot = t->free_slot;
  tc_slot *s = *out = tc_slot_of(slot);
  t->free_slot = s->next;
  t->n_slots++;
  s->gen++, s->refs = 1, s->epoch = 0, s->flags = 0, s->of_body = false, s->grad = (tc_tensor){0, 0}, s->err = TC_OK;
  return (tc_tensor){slot, s->gen};
}
// pre: no slot stands for n. The slot that was taken does from here on.
static inline void tc_slot_name(tc_trace *t, tc_slot *s, uint32_t slot, tc_node n) {
  const tc_rec *r = tc_rec_of(t, n);
  s->epoch = t->epoch, s->node = n, s->shape = r->shape, s->dtype = r->dtype, s->device = t->dev[n];
  t->slot_of[n] = slot;
  t->flag[n] |= TC_NODE_LIVE;
}

// ---- stored values ----
typedef struct tc_stored {
  tc_buffer *buf;  // retained
  uint32_t shape;
  tc_type type;
  tc_device device;
  bool is_param;  // true: it requires_grad
  tc_trace *locked;  // stays locked until tc_value_end. NULL: none is
} tc_stored;
// A new handle of a stored value, whose buffer it retains. run, run_node: its history; run NULL:
// none.
// Poison when out of memory.
tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t run_node, bool pooled);
