// Slots, the pending trace of a thread, and the runs that syncs leave behind.
//
// One run of words, four uses: the recorded trace is the plan's key, the tape, the recipe of every value not stored, and the dump. A record is
// 16 bytes plus extra words (operands beyond two, attributes). Scalars are not in it: they are args, by position.
//
//   handle {slot, gen} --> tc_slot --> node of the pending trace | tc_buffer (stored) | tc_run + home (a recipe or history)
//
// Always: a node has at most one slot and a slot at most one node; operands of a record are smaller numbers than the record; a slot's node counts
// only while its epoch is the trace's; what a slot or run refers to is retained.
// Threads: everything in a trace and its slots is guarded by the trace's lock. Two trace locks are never held at once.
#ifndef TC_LAZY_TRACE_TRACE_H
#define TC_LAZY_TRACE_TRACE_H

#include "device/buffer.h"
#include "device/device.h"
#include "lazy/trace/dims.h"
#include "lazy/record/record.h"
#include "runtime/arena.h"
#include "runtime/biased_lock.h"

#define TC_SLOT_NONE UINT32_MAX
#define TC_CHUNK_SLOTS 1024
#define TC_N_CHUNKS 16384

typedef struct tc_rec {
  uint16_t op_args;  // op in the low 10 bits, number of args above
  uint8_t dtype, n_extra;
  uint32_t shape;    // interned
  uint32_t in[2];    // operands; of rows with more: in[0] is the count and operands lie in the extra words, two a word
                     // of rows with none: in[0] is the device
} tc_rec;            // then n_extra 8-byte words

// Per node, in the key. Bit 16 says SOLE in a key, and FREED_IN in the flags of a trace or run, which plans do not see: recording with such a value needs no
// plan of its own.
enum {
  TC_NODE_LIVE = 1,  // a handle stands for it
  TC_NODE_KEEP = 2,  // stored whatever the cost: parameters, gradients, kept out of a scope still open
  TC_NODE_TAPE = 4,  // may be differentiated through
  TC_NODE_ASKED = 8,  // wanted by the sync
  TC_NODE_SOLE = 16,  // leaf: nobody but the trace holds the buffer
  TC_NODE_FREED_IN = 16,  // made of a value whose history was freed: no constant, but nothing to differentiate through either
  TC_NODE_FREED = 32,  // its history was freed by a backward
  TC_NODE_WANT = 64,  // a leaf of differentiation: a parameter's value
  TC_NODE_USER = 128,  // leaf: memory of the caller that assigns must reach
  TC_NODE_AGAIN = 128,  // not a leaf: a recipe used again, stored this time
};

#define TC_NODE_NO_HISTORY (TC_NODE_FREED | TC_NODE_FREED_IN)  // a backward that meets it fails

// OWES: an assign must reach the caller's memory yet. FREED: a stored value, without a run, whose history was freed. RECIPE: no stored value, its run has a recipe.
enum { TC_SLOT_GRAD = 1, TC_SLOT_KEEP = 2, TC_SLOT_OWES = 4, TC_SLOT_FREED = 8, TC_SLOT_RECIPE = 16 };

typedef struct tc_run tc_run;
struct tc_plan;

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

typedef struct tc_leaf {
  uint32_t node;
  tc_buffer *buf;  // retained
} tc_leaf;

// The history of a value that was made before: a stored one that is a leaf here, or a recipe recorded again. Its gradient goes to that record of
// that run, so that a sum over several uses has one order however syncs cut the program.
typedef struct tc_past {
  uint32_t node, home;  // home: number in run
  tc_run *run;  // retained
} tc_past;

typedef struct tc_want {
  uint32_t node;
  tc_tensor param;
} tc_want;

// What a sync leaves behind where values or history may still be asked for.
struct tc_run {
  _Atomic uint32_t refs;
  uint32_t n_slots;  // that name it and share one reference; under their trace's lock
  uint32_t n_recipes;  // of these, how many have no stored value; with none left the run drops what only recipes need
  uint64_t serial;  // later runs have greater ones
  struct tc_plan *plan;  // retained
  tc_buffer *memory;  // this run's own, from the pool: training steps allocate nothing
  tc_leaf *leaf;  // as recorded; buf NULL where no recipe or history needs it
  tc_past *past;
  tc_buffer **out;  // the plan's outputs, NULL where not needed
  uint64_t *arg;
  uint8_t *flag;  // node flags at the sync; TAPE is cleared and FREED set by backward
  tc_want *want;
  tc_call *call;  // per node: the user's, for errors of recipes
  uint32_t n_leaf, n_past, n_out, n_want, n_arg;
  bool freed;  // history is gone
  tc_site freed_by;  // the latest backward that freed history here
  bool failed;  // its plan did not run: every value is a recipe
  tc_run *next_dead;  // while it is freed
  uint64_t memo_epoch;  // memo[node]: number in the trace memo_trace of this epoch
  tc_trace *memo_trace;
  uint32_t *memo;
};

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
  tc_biased_lock latest_lock;  // of latest alone, from which others take what they evict; nothing is locked while it is held
  struct tc_plan *latest[TC_LATEST_PLANS];  // of the latest syncs, retained; NULL: none
  uint32_t next_latest;  // which is given up for another
  struct tc_user {  // writable borrowed memory that an assign must reach by the sync
    uint32_t slot;  // whose value; it owes until then
    tc_buffer *buf;  // retained
    tc_buffer *spare;  // while a sync runs: memory for the old content, which somebody may want yet; NULL: none
  } *user;
  uint32_t n_user, cap_user;
  tc_call *of;  // per node, the first n_of: whose gradient its record is a part of, or {NULL, 0}. With TC_ANOMALY=1 alone
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
// Makes it; NULL out of memory.
tc_trace *tc_trace_begin(void);
// This thread's trace; NULL out of memory.
static inline tc_trace *tc_trace_self(void) {
  return TC_LIKELY(tc_trace_mine != NULL) ? tc_trace_mine : tc_trace_begin();
}
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
// pre: t is locked. Unlocks; an ended thread's trace without tensors is free for a new thread from then on.
void tc_trace_unlock_or_retire(tc_trace *t);
// Forgets what is pending: leaves, origins and records.
void tc_trace_reset(tc_trace *t);
// Whether the trace's thread is in this process, or was left behind by a fork.
bool tc_trace_is_here(const tc_trace *t);
// The same, or an error that says so.
tc_status tc_trace_here(const tc_trace *t, const char *op, tc_site site);

// ---- slots ----
extern _Atomic(tc_chunk *) tc_slot_chunk[TC_N_CHUNKS];
// The slot of a handle and its trace, without locking; both NULL for null, poison and garbage.
static inline tc_slot *tc_slot_find(tc_tensor h, tc_trace **owner) {
  uint32_t c = h.slot / TC_CHUNK_SLOTS;
  if (TC_UNLIKELY(c >= TC_N_CHUNKS)) return *owner = NULL, NULL;
  tc_chunk *chunk = atomic_load_explicit(&tc_slot_chunk[c], memory_order_acquire);
  if (TC_UNLIKELY(!chunk)) return *owner = NULL, NULL;
  *owner = chunk->owner;
  return &chunk->slot[h.slot % TC_CHUNK_SLOTS];
}
// The slot of a live handle with its owner locked and this thread inside the library (runtime/reentry.h); NULL after reporting. what: the caller's
// name; NULL: a stale handle is no error. tc_slot_unlock gives it back.
tc_slot *tc_slot_lock(tc_tensor h, const char *what, tc_site site, tc_trace **owner);
void tc_slot_unlock(tc_trace *owner);
// A new slot and handle in the current scope (pooled) or owned by the caller; poison when out of memory. With node TC_NODE_ERR: no node.
tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled);
void tc_slot_release(tc_trace *t, tc_tensor h);
// It owes no more; frees it if it was released meanwhile.
void tc_slot_settle(tc_trace *t, uint32_t slot);
// At the end of the process, when no trace is left.
void tc_slot_free_all(void);
// pre: t is locked. Looks whether temporaries outlive the runs at this place, and warns once in a process.
void tc_pool_watch(tc_trace *t, tc_site site);
// Ends every tensor of every thread.
void tc_trace_close_all(void);
// No trace finds the plan, which is no longer in the cache, among its latest.
void tc_trace_forget_plan(struct tc_plan *gone);
// A program may look at its sync points alone. So what failed without a value to tell of it is owed to the next one: a run that nobody waited for and
// that undid assigns, and a call that is all effect (tc_owe).
// pre: t is locked. The error that is owed, told once; TC_OK: none, or the program has cleared the error of such a call.
tc_status tc_trace_owed(tc_trace *t, const char *op, tc_site site);
// Calls the library when it must be flushed: see lazy/sync/sync.c.
void tc_trace_landmark(tc_trace *t, tc_site site, bool is_scope);

// ---- records ----
static inline tc_rec *tc_rec_of(const tc_trace *t, tc_node n) {
  return (tc_rec *)(void *)(t->word + t->at[n]);
}
static inline tc_op tc_rec_op(const tc_rec *r) {
  return (tc_op)(r->op_args & 1023);
}
static inline uint32_t tc_rec_args(const tc_rec *r) {
  return r->op_args >> 10;
}
static inline int tc_rec_arity(const tc_rec *r) {
  int arity = tc_op_arity[tc_rec_op(r)];
  return arity > 2 ? (int)r->in[0] : arity;
}
static inline const uint32_t *tc_rec_in(const tc_rec *r) {
  return tc_op_arity[tc_rec_op(r)] > 2 ? (const uint32_t *)(const void *)(r + 1) : r->in;
}
static inline const uint64_t *tc_rec_attr(const tc_rec *r) {
  const uint64_t *extra = (const uint64_t *)(const void *)(r + 1);
  return tc_op_arity[tc_rec_op(r)] > 2 ? extra + (r->in[0] + 1) / 2 : extra;
}
// How many attributes the record has.
static inline int tc_rec_attrs(const tc_rec *r) {
  return tc_op_arity[tc_rec_op(r)] > 2 ? r->n_extra - (int)(r->in[0] + 1) / 2 : r->n_extra;
}

// Room for a record of so many words and args, slow part: false out of memory.
bool tc_trace_grow(tc_trace *t, uint32_t words, uint32_t args);
static inline bool tc_trace_room(tc_trace *t, uint32_t words, uint32_t args) {
  return (TC_LIKELY(t->n_word + words <= t->cap_word && t->n_arg + args <= t->cap_arg && t->n_node < t->cap_node)) || tc_trace_grow(t, words, args);
}
// The node of the record whose words and args lie behind the others.
static inline tc_node tc_trace_take(tc_trace *t, uint32_t words, uint32_t args, uint8_t flag, tc_device device) {
  tc_node n = t->n_node++;
  t->at[n] = t->n_word, t->arg_at[n] = t->n_arg, t->slot_of[n] = TC_SLOT_NONE, t->call[n] = (tc_call){t->op, t->op_site};
  t->flag[n] = flag, t->dev[n] = (uint8_t)device;
  t->n_word += words, t->n_arg += args;
  return n;
}
// What a record of operands with these flags, all together, has of their history: TAPE, FREED_IN or neither. Where no gradient goes through, it has none.
static inline uint8_t tc_trace_history(const tc_trace *t, tc_op op, tc_type type, uint8_t operands) {
  if (!t->tape) return 0;
  if (TC_LIKELY((operands & TC_NODE_TAPE) || !(operands & TC_NODE_NO_HISTORY))) return operands & TC_NODE_TAPE;
  return !tc_op_rows[op].is_flat && tc_type_is_float(type) ? TC_NODE_FREED_IN : 0;
}
// What most records are: an op of one operand, a, or of two, with nothing else; of one, b is 0. Checks nothing. TC_NODE_ERR after reporting when out of memory.
static inline tc_node tc_trace_append_plain(tc_trace *t, tc_op op, tc_type type, uint32_t shape, bool two, tc_node a, tc_node b) {
  if (TC_UNLIKELY(!tc_trace_room(t, 2, 0))) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  *(tc_rec *)(void *)(t->word + t->n_word) = (tc_rec){.op_args = (uint16_t)op, .dtype = (uint8_t)type, .shape = shape, .in = {a, b}};
  uint8_t operands = two ? t->flag[a] | t->flag[b] : t->flag[a];
  return tc_trace_take(t, 2, 0, tc_trace_history(t, op, type, operands), (tc_device)t->dev[a]);
}
// Appends a record; checks nothing. TC_NODE_ERR after reporting when out of memory.
tc_node tc_trace_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr, const uint64_t *attr, int n_arg,
                        const uint64_t *arg, tc_device device);
// A leaf for a buffer (retained).
tc_node tc_trace_leaf(tc_trace *t, tc_buffer *buf, tc_type type, uint32_t shape, tc_device device);
// The buffer of a leaf; borrowed.
tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n);
// Gives node n of the trace the history of a run's node, if it has one. TC_NODE_ERR after reporting.
tc_node tc_trace_past(tc_trace *t, tc_node n, tc_run *run, uint32_t home);
// Makes node n the value of a parameter: differentiation ends there. False after reporting.
bool tc_trace_want(tc_trace *t, tc_node n, tc_tensor param);
// Where the open op makes what it is given no value of: beside its operands, or on the thread's default device.
static inline tc_device tc_trace_device(const tc_trace *t) {
  return t->n_taken ? t->op_device : tc_device_default();
}
// The node of a slot of this trace.
tc_node tc_trace_node(tc_trace *t, tc_slot *s, tc_tensor handle);

// ---- runs ----
static inline tc_run *tc_run_retain(tc_run *r) {
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
  return r;
}
void tc_run_release(tc_run *r);
// pre: the slot's trace is locked; a run's slots are all of the trace that made it. A slot without a stored value takes the run for its recipe.
void tc_slot_set_run(tc_slot *s, tc_run *run);
// The history of a value that was carried to another memory: a run of two records, the leaf that was carried and TO, which never ran. The leaf's own
// history is node home of run `of`, or it is the value of a parameter (of NULL). NULL out of memory.
tc_run *tc_run_create_carried(struct tc_plan *p, tc_run *of, uint32_t home, tc_tensor param, tc_call call);
// The value of a run's node in trace t, with its history: a leaf if stored, else its recipe recorded again.
tc_node tc_run_replay(tc_trace *t, tc_run *r, uint32_t node);
// Drops what only differentiation needed.
void tc_run_free_history(tc_run *r, tc_site by);

// ---- syncs ----
typedef enum tc_cause {
  TC_CAUSE_ITEM,
  TC_CAUSE_TO_HOST,
  TC_CAUSE_MAP,
  TC_CAUSE_PRINT,
  TC_CAUSE_SAVE,
  TC_CAUSE_EVAL,
  TC_CAUSE_SYNC,
  TC_CAUSE_BOUND,
  TC_CAUSE_LANDMARK,
  TC_CAUSE_CROSS_THREAD,
  TC_CAUSE_DATA_SHAPE,
  TC_CAUSE_EAGER,
  TC_CAUSE_REPLAY,  // of a trace's text
  TC_CAUSE_RETAKE,  // a dear recipe was asked for
  TC_CAUSE_TO,  // a value goes to another memory
  TC_CAUSE_MEMORY,  // what follows is in another memory
  TC_CAUSE_BACKWARD,  // a gradient goes to another memory
  TC_N_CAUSES
} tc_cause;
// pre: locked. Runs what is pending and closes the trace; asked nodes are stored.
tc_status tc_trace_sync(tc_trace *t, tc_cause cause, tc_site site, int n_asked, const tc_node *asked);
// pre: locked. Runs what is pending for an op that may need none of it: where that fails because its device is gone the op goes on, without an error, for
// those values say so when they are asked for. Not where memory of the caller's was to be written.
tc_status tc_trace_make_way(tc_trace *t, tc_cause cause, tc_site site);
// pre: locked. The stored value of a slot, running what is pending if need be; retained.
tc_status tc_trace_store(tc_trace *t, tc_slot *s, tc_tensor handle, tc_cause cause, tc_site site, tc_buffer **out);
typedef struct tc_stored {
  tc_buffer *buf;  // retained
  uint32_t shape;
  tc_type type;
  tc_device device;
  bool is_param;
  tc_trace *locked;  // until tc_value_end, or NULL
} tc_stored;
// A new handle of a stored value (its buffer is retained), with the history of node home of a run (NULL: none); poison when out of memory.
tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t home, bool pooled);
// The same value on another device of the same memory.
tc_node tc_trace_to(tc_trace *t, tc_node a, tc_device to);
// A new handle of a slot's stored value in another memory, with its history if the tape is on. param: whose value it is; {0, 0}: no parameter's. Poison
// after reporting.
tc_tensor tc_trace_carry(tc_trace *t, const tc_slot *s, tc_tensor param, tc_device to, bool pooled);
// A slot's stored value becomes the parameter's gradient, in place of the one it had.
tc_status tc_trace_set_grad(tc_trace *t, tc_tensor param, const tc_slot *grad);
// The value of any handle, of any thread. pre: inside the library, no trace locked. buf is NULL on failure. Of the caller's memory it is a copy, unless it is
// for TC_CAUSE_ITEM or TC_CAUSE_TO_HOST, which call tc_value_end once they have read it.
tc_status tc_value(tc_tensor h, tc_cause cause, tc_site site, tc_stored *out);
void tc_value_end(const tc_stored *v);
// A copy in the host's memory takes the place of its buffer, which is released; NULL on failure.
tc_status tc_value_copy(tc_stored *v);

#endif
