// Slots, the pending trace of a thread, and the runs that syncs leave behind.
//
// One run of words, four uses: the recorded trace is the plan's key, the tape, the recipe of every
// value not stored, and the dump. A record is 16 bytes plus extra words (operands beyond two,
// attributes). Scalars are not in it: they are args, by position.
//
//   handle {slot, gen} --> tc_slot --> node of the pending trace | tc_buffer (stored) | tc_run + home (a recipe or history)
//
// Always: a node has at most one slot and a slot at most one node; operands of a record are smaller
// numbers than the record; a slot's node counts only while its epoch is the trace's; what a slot or
// run refers to is retained.
// Threads: everything in a trace and its slots is guarded by the trace's lock. Two trace locks are
// never held at once.
#ifndef TC_LAZY_TRACE_TRACE_H
#define TC_LAZY_TRACE_TRACE_H

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

// OWES: an assign must reach the caller's memory yet. FREED: a stored value, without a run, whose
// history was freed. RECIPE: no stored value, its run has a recipe.
enum { TC_SLOT_GRAD = 1, TC_SLOT_KEEP = 2, TC_SLOT_OWES = 4, TC_SLOT_FREED = 8, TC_SLOT_RECIPE = 16 };

typedef struct tc_slot {
  uint32_t gen, refs;  // gen is odd in use; even, and not in the free list, what was released and owes
  uint64_t epoch;  // node counts only in this epoch of the owner's trace
  uint32_t node, home;  // number in the pending trace; number in run
  tc_run *run;  // retained; recipe or history
  tc_buffer *buf;  // retained; stored value, dense
  uint32_t shape;
  uint8_t dtype, device, flags, unused;
  tc_tensor grad;  // owned reference
  uint32_t next;  // free list
  tc_status err;  // why there is no value
} tc_slot;

typedef struct tc_chunk {
  tc_trace *owner;
  tc_slot slot[TC_CHUNK_SLOTS];
} tc_chunk;

#define TC_MAX_SCOPES 256  // that are open at once
#define TC_LATEST_PLANS 4  // that a trace finds without the cache: a loop has few

struct tc_trace {
  tc_biased_lock lock;  // towards the thread whose trace it is
  bool dropped;  // the owner is inside an op with the lock dropped: nodes must keep their numbers
  uint64_t epoch;
  uint64_t *word;  // records
  uint32_t n_word, cap_word;
  uint32_t n_node, cap_node;
  uint32_t *at, *arg_at, *slot_of;  // per node: first word, first arg, slot
  tc_call *call;  // which the user made
  uint8_t *flag, *dev;
  uint64_t *arg;
  uint32_t n_arg, cap_arg;
  tc_leaf *leaf;
  uint32_t n_leaf, cap_leaf;
  tc_past *past;
  uint32_t n_past, cap_past;
  tc_want *want;
  uint32_t n_want, cap_want;
  tc_tensor *pool;  // handles of open scopes, innermost last
  uint32_t n_pool, cap_pool;
  uint32_t n_tidy;  // of the innermost scope when it was last tidied
  uint32_t mark[TC_MAX_SCOPES], n_mark;
  tc_site scope_site[TC_MAX_SCOPES];  // where the open scopes were begun
  struct tc_pile {  // whether a line's runs leave more and more temporaries: tc_pool_watch
    tc_site site;  // 0: none yet
    uint32_t n_runs, n_others, n_pool;  // there, elsewhere since, and the handles that stayed when counting began
    uint32_t low;  // the fewest handles of open scopes since the last run
  } watch;
  uint32_t n_old_mark;  // of the open scopes, how many were opened before this trace began
  uint32_t live_tape;  // a node on the tape that was alive when last looked for
  bool passed;  // an optimizer's step was not cut at: its scope will end
  bool cut_at_bound;  // the trace began where a bound cut one: the rest of that step runs at the end of the optimizer's
  uint64_t most_nodes;  // beyond so many the trace is cut
  uint32_t free_slot;  // first free slot, TC_SLOT_NONE: none
  uint32_t n_slots;  // in use; a trace outlives its thread until it is 0
  bool orphan;  // its thread has ended
  struct tc_trace *next;  // among traces free for new threads
  // the open op
  const char *op;
  tc_site op_site;
  tc_status op_status;
  uint32_t n_taken;  // operands of the open op; 0 where none is open
  tc_device op_device;  // where they are; of a backward, where the record is that is being differentiated
  bool tape;  // records go on the tape
  int no_grad;
  uint64_t seed, counter, stream;
  uint64_t synced;  // when the last sync point ended, in ticks
  uint64_t cut_site;  // landmark at which the trace was cut
  tc_site freed_by;  // the latest backward that freed history
  uint32_t forks;  // forks before this process; a trace of another number is of a thread that is not here
  uint64_t leaf_bytes, byte_check;  // of leaves; where to look next whether the trace holds too much
  uint64_t assigned_bytes;
  tc_status owed;  // what the next sync point fails with (tc_trace_owed); TC_OK: nothing
  tc_site owed_site;
  tc_error_mark owed_error;
  uint64_t owed_clears;  // tc_error_clears by then, if clearing the error settles it; 0: it does not
  tc_buffer *value;  // what tc_rec_value lent last
  tc_arena walk;  // scratch of a backward
  uint32_t *todo;  // scratch of a replay: nodes of a run, the next one last
  uint32_t cap_todo;
  tc_buffer **out;  // scratch of a sync
  uint32_t cap_out;
  // of latest alone, from which others take what they evict; nothing is locked while it is held
  tc_biased_lock latest_lock;
  struct tc_plan *latest[TC_LATEST_PLANS];  // of the latest syncs, retained; NULL: none
  uint32_t next_latest;  // which is given up for another
  struct tc_user {  // writable borrowed memory that an assign must reach by the sync
    uint32_t slot;  // whose value; it owes until then
    tc_buffer *buf;  // retained
    tc_buffer *spare;  // while a sync runs: memory for the old content, which somebody may want yet; NULL: none
  } *user;
  uint32_t n_user, cap_user;
  // per node, the first n_of: whose gradient its record is a part of, or {NULL, 0}. With
  // TC_ANOMALY=1 alone
  tc_call *of;
  uint32_t n_of, cap_of;
  struct tc_mapping {  // tc_map without its tc_unmap; the buffer is retained
    tc_tensor handle;
    tc_buffer *buf;
    pthread_t thread;  // that mapped it
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
// A new slot and handle in the current scope (pooled) or owned by the caller; poison when out of
// memory. With node TC_NODE_ERR: no node.
tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled);
// pre: the slot's trace is locked; a run's slots are all of the trace that made it. A slot without
// a stored value takes the run for its recipe.
void tc_slot_set_run(tc_slot *s, tc_run *run);
void tc_slot_release(tc_trace *t, tc_tensor h);
// It owes no more; frees it if it was released meanwhile.
void tc_slot_settle(tc_trace *t, uint32_t slot);
// At the end of the process, when no trace is left.
void tc_slot_free_all(void);
// pre: t is locked. Looks whether temporaries outlive the runs at this place, and warns once in a
// process.
void tc_pool_watch(tc_trace *t, tc_site site);
// Takes handles released before their scope's end out of the innermost scope (or of what belongs to
// none): a loop may keep and release for ever. Looks only once they may have become twice as many.
void tc_pool_tidy(tc_trace *t);

// ---- records ----
static inline tc_rec *tc_rec_of(const tc_trace *t, tc_node n) {
  return (tc_rec *)(void *)(t->word + t->at[n]);
}
// The buffer of a leaf; borrowed.
tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n);

// ---- stored values ----
typedef struct tc_stored {
  tc_buffer *buf;  // retained
  uint32_t shape;
  tc_type type;
  tc_device device;
  bool is_param;
  tc_trace *locked;  // until tc_value_end, or NULL
} tc_stored;
// A new handle of a stored value (its buffer is retained), with the history of node home of a run
// (NULL: none); poison when out of memory.
tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t home, bool pooled);

#endif
