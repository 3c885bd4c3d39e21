// Traces, slots and handles. See trace.h.
#include "lazy/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/reentry.h"
#include "runtime/team.h"

#define N_CHUNKS 16384

const uint8_t tc_op_arity[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = arity,
#include <tc/ops.def>
#undef TC_OP
};
const char *const tc_op_names[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = #name,
#include <tc/ops.def>
#undef TC_OP
};

static struct {
  pthread_mutex_t lock;
  _Atomic(tc_chunk *) chunk[N_CHUNKS];
  uint32_t n_chunks;
  uint64_t n_streams;
  tc_trace *orphans;  // of ended threads, without tensors, free for new ones
  uint32_t n_traces;  // of threads
  _Atomic uint32_t forks;
  pthread_key_t key;
  bool has_key;
  pthread_once_t once;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 1)

static _Thread_local tc_trace *mine __attribute__((tls_model("initial-exec")));
// What an op gets that cannot be recorded at all; nothing is written to them.
static tc_trace refused = {.op_status = TC_ERR_STATE}, roomless = {.op_status = TC_ERR_MEMORY};

void tc_trace_lock(tc_trace *t) {
  if (TC_LIKELY(t == mine))
    tc_biased_lock_own(&t->lock);
  else
    tc_biased_lock_other(&t->lock);
}

void tc_trace_unlock(tc_trace *t) {
  if (TC_LIKELY(t == mine))
    tc_biased_unlock_own(&t->lock);
  else
    tc_biased_unlock_other(&t->lock);
}

void tc_trace_reset(tc_trace *t) {
  for (uint32_t i = 0; i < t->n_leaf; i++) tc_buffer_release(t->leaf[i].buf);
  for (uint32_t i = 0; i < t->n_past; i++) tc_run_release(t->past[i].run);
  for (uint32_t i = 0; i < t->n_user; i++) {
    tc_buffer_release(t->user[i].buf);
    tc_slot_release(t, t->user[i].handle);
  }
  t->n_user = t->n_leaf = t->n_past = t->n_node = t->n_word = t->n_arg = t->n_want = 0;
  t->n_old_mark = t->n_mark, t->passed = false;
  t->leaf_bytes = t->assigned_bytes = 0, t->byte_check = (uint64_t)tc_options_get()->max_bytes;
  t->most_nodes = 4 * (uint64_t)tc_options_get()->max_nodes;
  t->epoch++;
}

static void trace_free(tc_trace *t) {
  tc_trace_reset(t);
  tc_buffer_release(t->value);
  for (uint32_t i = 0; i < t->n_map; i++) tc_buffer_release(t->map[i].buf);
  void *const owned[] = {t->word, t->at,   t->arg_at, t->slot_of, t->call, t->flag, t->dev,  t->arg,
                         t->leaf, t->past, t->want,   t->pool,    t->todo, t->out,  t->user, t->map};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_arena_fini(&t->walk);
  tc_biased_lock_fini(&t->lock);
  tc_free(t);
}

// pre: t is locked. An ended thread's trace without tensors is free for a new thread. Unlocks.
static void unlock_or_retire(tc_trace *t) {
  bool free = t->orphan && t->n_slots == 0;
  if (free) {
    tc_trace_reset(t);
    t->orphan = false;
    pthread_mutex_lock(&self.lock);
    t->next = self.orphans;
    self.orphans = t;
    self.n_traces--;
    pthread_mutex_unlock(&self.lock);
  }
  tc_trace_unlock(t);
}

// The thread ends: its scopes close; the trace lives on while handles of it do.
static void thread_end(void *arg) {
  tc_trace *t = arg;
  mine = NULL;
  tc_biased_lock_other(&t->lock);
  while (t->n_pool) {
    tc_tensor h = t->pool[--t->n_pool];
    tc_slot_release(t, h);
  }
  t->n_mark = t->n_old_mark = 0;
  t->orphan = true;
  unlock_or_retire(t);
}

// At exit, or when the library is unloaded: what no thread uses is freed.
static void at_exit_of_process(void) __attribute__((destructor));
static void at_exit_of_process(void) {
  if (mine) thread_end(mine);
  if (self.has_key) pthread_key_delete(self.key);
  pthread_mutex_lock(&self.lock);
  bool alone = self.n_traces == 0;
  while (alone && self.orphans) {
    tc_trace *t = self.orphans;
    self.orphans = t->next;
    trace_free(t);
  }
  for (uint32_t c = 0; alone && c < self.n_chunks; c++) tc_free(atomic_exchange(&self.chunk[c], NULL));
  if (alone) tc_dims_free_all();
  pthread_mutex_unlock(&self.lock);
}

// In the child of a fork only the forking thread goes on: with its handles and what it has pending. Other traces may be half written. Its own is
// locked around the fork, since another thread may be reading a tensor of it; registered after the other locks, so taken before them.
static void before_fork(void) {
  if (mine && !tc_inside) tc_biased_lock_fork(&mine->lock);
}

static void after_fork(void) {
  if (mine && !tc_inside) tc_biased_unlock_fork(&mine->lock);
}

static void forked(void) {
  uint32_t forks = atomic_fetch_add(&self.forks, 1) + 1;
  if (mine) mine->forks = forks;
  after_fork();
}

static void make_key(void) {
  pthread_atfork(before_fork, after_fork, forked);
  self.has_key = pthread_key_create(&self.key, thread_end) == 0;
  if (!self.has_key) tc_log_line(TC_LOG_WARN, "no thread key: traces of ended threads are not closed");
}

tc_trace *tc_trace_self(void) {
  if (TC_LIKELY(mine != NULL)) return mine;
  pthread_once(&self.once, make_key);
  pthread_mutex_lock(&self.lock);
  uint64_t stream = self.n_streams++;
  tc_trace *t = self.orphans;
  if (t) self.orphans = t->next;
  self.n_traces++;
  pthread_mutex_unlock(&self.lock);
  if (!t) {
    if (!(t = tc_calloc(1, sizeof *t))) {
      pthread_mutex_lock(&self.lock);
      self.n_traces--;
      pthread_mutex_unlock(&self.lock);
      return NULL;
    }
    tc_biased_lock_init(&t->lock);
    t->free_slot = TC_SLOT_NONE;
    tc_trace_reset(t);  // epoch 1
  }
  t->stream = stream, t->seed = 0, t->counter = 0, t->no_grad = 0, t->cut_site = 0, t->synced = 0;
  t->forks = atomic_load(&self.forks);
  if (self.has_key) pthread_setspecific(self.key, t);
  tc_biased_lock_begin(&t->lock);
  return mine = t;
}

tc_status tc_trace_here(const tc_trace *t, const char *op, tc_site site) {
  if (TC_LIKELY(t->forks == atomic_load_explicit(&self.forks, memory_order_relaxed))) return TC_OK;
  return tc_fail(TC_ERR_HANDLE, op, site, "the tensor belongs to a thread of the process that forked this one");
}

// ---- slots ----

tc_slot *tc_slot_find(tc_tensor h, tc_trace **owner) {
  uint32_t c = h.slot / TC_CHUNK_SLOTS;
  if (TC_UNLIKELY(c >= N_CHUNKS)) return NULL;
  tc_chunk *chunk = atomic_load_explicit(&self.chunk[c], memory_order_acquire);
  if (TC_UNLIKELY(!chunk)) return NULL;
  *owner = chunk->owner;
  return &chunk->slot[h.slot % TC_CHUNK_SLOTS];
}

static bool chunk_add(tc_trace *t) {
  tc_chunk *chunk = tc_calloc(1, sizeof *chunk);
  if (!chunk) return false;
  chunk->owner = t;
  pthread_mutex_lock(&self.lock);
  uint32_t c = self.n_chunks;
  if (c < N_CHUNKS) self.n_chunks++;
  pthread_mutex_unlock(&self.lock);
  if (c == N_CHUNKS) return tc_free(chunk), false;
  for (uint32_t i = TC_CHUNK_SLOTS; i-- > 0;) {
    if (c == 0 && i == 0) continue;  // handle {0, 0} is no tensor
    chunk->slot[i].next = t->free_slot;
    t->free_slot = c * TC_CHUNK_SLOTS + i;
  }
  atomic_store_explicit(&self.chunk[c], chunk, memory_order_release);
  return true;
}

// Takes handles released before their scope's end out of the innermost scope (or of what belongs to none): a loop may keep and release for ever. Looks
// only once they may have become twice as many.
static void pool_tidy(tc_trace *t) {
  uint32_t from = t->n_mark ? t->mark[t->n_mark - 1] : 0, to = from;
  if (t->n_pool - from < 2 * t->n_tidy + 64) return;
  for (uint32_t i = from; i < t->n_pool; i++) {
    tc_trace *owner;
    if (tc_slot_find(t->pool[i], &owner)->gen == t->pool[i].gen) t->pool[to++] = t->pool[i];
  }
  t->n_pool = to;
  t->n_tidy = to - from;
}

tc_buffer *tc_trace_leaf_of(const tc_trace *t, tc_node n) {
  uint32_t i = t->n_leaf - 1;
  while (t->leaf[i].node != n) i--;
  return t->leaf[i].buf;
}

tc_tensor tc_trace_handle(tc_trace *t, tc_node n, bool pooled) {
  tc_trace *owner;
  if (t->free_slot == TC_SLOT_NONE && !chunk_add(t)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
  if (pooled && t->n_pool == t->cap_pool) pool_tidy(t);
  if (pooled && t->n_pool == t->cap_pool) {
    uint32_t cap = t->cap_pool ? t->cap_pool * 2 : 256;
    tc_tensor *pool = tc_realloc(t->pool, cap * sizeof *pool);
    if (!pool) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a handle"), tc_poison(TC_ERR_MEMORY);
    t->pool = pool, t->cap_pool = cap;
  }
  tc_tensor h = {t->free_slot, 0};
  tc_slot *s = tc_slot_find(h, &owner);
  t->free_slot = s->next;
  h.gen = s->gen + 1;
  s->gen = h.gen, s->refs = 1, s->epoch = 0, s->flags = pooled ? TC_SLOT_POOLED : 0, s->grad = (tc_tensor){0, 0}, s->err = TC_OK;  // no buf, no run
  if (n != TC_NODE_ERR) {
    const tc_rec *r = tc_rec_of(t, n);
    s->epoch = t->epoch, s->node = n, s->shape = r->shape, s->dtype = r->dtype, s->device = t->dev[n];
    t->slot_of[n] = h.slot;
    t->flag[n] |= TC_NODE_LIVE;
    if (TC_UNLIKELY(tc_rec_op(r) == TC_OP_LEAF)) s->buf = tc_buffer_retain(tc_trace_leaf_of(t, n));  // data: the slot has its value already
  }
  t->n_slots++;
  if (pooled) t->pool[t->n_pool++] = h;
  return h;
}

tc_tensor tc_trace_handle_stored(tc_trace *t, const tc_stored *v, tc_run *run, uint32_t home, bool pooled) {
  tc_tensor h = tc_trace_handle(t, TC_NODE_ERR, pooled);
  if (h.slot >= TC_POISON) return h;
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  s->shape = v->shape, s->dtype = (uint8_t)v->type, s->device = (uint8_t)v->device, s->home = home;
  s->buf = tc_buffer_retain(v->buf);
  tc_slot_set_run(s, run);
  return h;
}

static void slot_release(tc_trace *t, tc_slot *s, tc_tensor h) {
  if (--s->refs > 0) return;
  if (s->epoch == t->epoch && t->slot_of[s->node] == h.slot) {
    t->slot_of[s->node] = TC_SLOT_NONE;
    t->flag[s->node] &= (uint8_t)~(TC_NODE_LIVE | TC_NODE_KEEP);
  }
  if (s->buf) tc_buffer_release(s->buf);
  tc_slot_set_run(s, NULL);
  tc_tensor grad = s->grad;
  s->gen++;
  s->buf = NULL;
  if (s->gen != UINT32_MAX) {  // a slot whose generation wraps is retired
    s->next = t->free_slot;
    t->free_slot = h.slot;
  }
  t->n_slots--;
  if (grad.gen) tc_slot_release(t, grad);
}

void tc_slot_release(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  if (s->gen == h.gen) slot_release(t, s, h);
}

// ---- records ----

bool tc_trace_grow(tc_trace *t, uint32_t words, uint32_t args) {
  if (t->n_word + words > t->cap_word) {
    uint32_t cap = TC_MAX_OF(t->cap_word * 2, t->n_word + words + 1024);
    uint64_t *p = tc_realloc(t->word, cap * sizeof *p);
    if (!p) return false;
    t->word = p, t->cap_word = cap;
  }
  if (t->n_arg + args > t->cap_arg) {
    uint32_t cap = TC_MAX_OF(t->cap_arg * 2, t->n_arg + args + 256);
    uint64_t *p = tc_realloc(t->arg, cap * sizeof *p);
    if (!p) return false;
    t->arg = p, t->cap_arg = cap;
  }
  if (t->n_node < t->cap_node) return true;
  uint32_t cap = t->cap_node ? t->cap_node * 2 : 512;
  bool ok = true;
#define GROW(field) \
  do { \
    void *p = tc_realloc(t->field, cap * sizeof t->field[0]); \
    if (p) \
      t->field = p; \
    else \
      ok = false; \
  } while (0)
  GROW(at);
  GROW(arg_at);
  GROW(slot_of);
  GROW(call);
  GROW(flag);
  GROW(dev);
#undef GROW
  if (ok) t->cap_node = cap;
  return ok;
}

// Nodes of a trace are all in one memory. Before the first of another one is recorded what is pending runs; in the middle of an op that holds nodes
// already it cannot.
static bool enter_memory(tc_trace *t, tc_device d) {
  if (TC_LIKELY(t->n_node == 0 || t->dev[0] == d || tc_device_memory((tc_device)t->dev[0]) == tc_device_memory(d))) return true;
  if (t->n_taken || t->dropped)
    return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[0]), tc_device_name(d)), false;
  t->op_status = tc_trace_sync(t, TC_CAUSE_MEMORY, t->op_site, 0, NULL);
  return t->op_status == TC_OK;
}

tc_node tc_trace_append(tc_trace *t, tc_op op, tc_type type, uint32_t shape, int n_in, const tc_node *in, int n_attr, const uint64_t *attr, int n_arg,
                        const uint64_t *arg, tc_device device) {
  bool wide = tc_op_arity[op] > 2;
  uint32_t extra = (uint32_t)(wide ? (n_in + 1) / 2 : 0) + (uint32_t)n_attr;
  if (extra > 255 || n_arg > 63) return tc_rec_fail(t, TC_ERR_ARG, "%d operands are more than one record can hold", n_in);
  if (n_in == 0 && !enter_memory(t, device)) return TC_NODE_ERR;
  if (TC_UNLIKELY(!tc_trace_room(t, 2 + extra, (uint32_t)n_arg))) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
  tc_rec *r = (tc_rec *)(void *)(t->word + t->n_word);
  r->op_args = (uint16_t)(op | (uint32_t)n_arg << 10);
  r->dtype = (uint8_t)type, r->n_extra = (uint8_t)extra, r->shape = shape;
  r->in[0] = wide ? (uint32_t)n_in : n_in > 0 ? in[0] : (uint32_t)device;
  r->in[1] = !wide && n_in > 1 ? in[1] : 0;
  uint64_t *w = t->word + t->n_word + 2;
  if (wide) {
    if (n_in & 1) w[n_in / 2] = 0;
    memcpy(w, in, (size_t)n_in * sizeof in[0]);
    w += (n_in + 1) / 2;
  }
  for (int i = 0; i < n_attr; i++) w[i] = attr[i];
  for (int i = 0; i < n_arg; i++) t->arg[t->n_arg + (uint32_t)i] = arg[i];
  uint8_t tape = 0;
  if (t->tape)
    for (int i = 0; i < n_in; i++) tape |= t->flag[in[i]] & TC_NODE_TAPE;
  return tc_trace_take(t, 2 + extra, (uint32_t)n_arg, tape, device);
}

tc_node tc_trace_leaf(tc_trace *t, tc_buffer *buf, tc_type type, uint32_t shape, tc_device device, uint8_t flags) {
  if (t->n_leaf == t->cap_leaf) {
    uint32_t cap = t->cap_leaf ? t->cap_leaf * 2 : 64;
    tc_leaf *leaf = tc_realloc(t->leaf, cap * sizeof *leaf);
    if (!leaf) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
    t->leaf = leaf, t->cap_leaf = cap;
  }
  tc_node n = tc_trace_append(t, TC_OP_LEAF, type, shape, 0, NULL, 0, NULL, 0, NULL, device);
  if (n == TC_NODE_ERR) return n;
  t->flag[n] = flags;
  t->leaf[t->n_leaf++] = (tc_leaf){n, tc_buffer_retain(buf)};
  t->leaf_bytes += buf->bytes;
  return n;
}

tc_node tc_trace_past(tc_trace *t, tc_node n, tc_run *run, uint32_t home) {
  uint8_t kept = run->flag[home] & (TC_NODE_TAPE | TC_NODE_FREED);
  if (!(kept & TC_NODE_TAPE) || (t->flag[n] & TC_NODE_TAPE)) return t->flag[n] |= kept, n;
  if (t->n_past == t->cap_past) {
    uint32_t cap = t->cap_past ? t->cap_past * 2 : 64;
    tc_past *past = tc_realloc(t->past, cap * sizeof *past);
    if (!past) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record");
    t->past = past, t->cap_past = cap;
  }
  t->past[t->n_past++] = (tc_past){n, home, tc_run_retain(run)};
  t->flag[n] |= kept;
  return n;
}

bool tc_trace_want(tc_trace *t, tc_node n, tc_tensor param) {
  if (t->n_want == t->cap_want) {
    uint32_t cap = t->cap_want ? t->cap_want * 2 : 64;
    tc_want *want = tc_realloc(t->want, cap * sizeof *want);
    if (!want) return tc_rec_fail(t, TC_ERR_MEMORY, "no room to record"), false;
    t->want = want, t->cap_want = cap;
  }
  t->want[t->n_want++] = (tc_want){n, param};
  t->flag[n] |= TC_NODE_WANT | TC_NODE_TAPE;
  return true;
}

static tc_node mark_param(tc_trace *t, tc_node n, tc_tensor h) {
  return n == TC_NODE_ERR || !tc_trace_want(t, n, h) ? TC_NODE_ERR : n;
}

static tc_node node_of_stored(tc_trace *t, tc_slot *s, tc_tensor h) {
  tc_node n;
  if (!enter_memory(t, (tc_device)s->device)) return TC_NODE_ERR;
  if (s->err) return tc_rec_fail(t, s->err, "the operand's value was lost by a run that failed");
  if (s->buf) {
    n = tc_trace_leaf(t, s->buf, (tc_type)s->dtype, s->shape, (tc_device)s->device, s->buf->origin == TC_ORIGIN_USER ? TC_NODE_USER : 0);
    if (n != TC_NODE_ERR && s->run) n = tc_trace_past(t, n, s->run, s->home);
  } else if (s->run) {
    n = tc_run_replay(t, s->run, s->home);
    if (n != TC_NODE_ERR && tc_rec_op(tc_rec_of(t, n)) != TC_OP_LEAF) t->flag[n] |= TC_NODE_AGAIN;
  } else {
    return tc_rec_fail(t, TC_ERR_STATE, "the operand has no value");
  }
  if (s->flags & TC_SLOT_GRAD) n = mark_param(t, n, h);
  if (n == TC_NODE_ERR) return n;
  if (t->slot_of[n] == TC_SLOT_NONE) {  // a replayed recipe may be another slot's node already
    s->epoch = t->epoch, s->node = n;
    t->slot_of[n] = h.slot;
    t->flag[n] |= TC_NODE_LIVE;
    if (s->flags & (TC_SLOT_KEEP | TC_SLOT_GRAD)) t->flag[n] |= TC_NODE_KEEP;
  }
  return n;
}

tc_node tc_trace_node(tc_trace *t, tc_slot *s, tc_tensor h) {
  return s->epoch == t->epoch ? s->node : node_of_stored(t, s, h);
}

// ---- ops ----

// Whether memory that only the trace holds is over its bound. What is assigned does not count: a sync would write over it, not free it. Looked at again
// when leaves have grown by another such amount.
static bool holds_much(tc_trace *t) {
  uint64_t held = 0, bound = (uint64_t)tc_options_get()->max_bytes;
  for (uint32_t i = 0; i < t->n_leaf; i++)
    if (tc_buffer_refs(t->leaf[i].buf) == 1) held += t->leaf[i].buf->bytes;
  for (uint32_t n = 0; n < t->n_node && held > bound; n++) {
    const tc_rec *r = tc_rec_of(t, n);
    if (tc_rec_op(r) != TC_OP_ASSIGN || tc_rec_op(tc_rec_of(t, r->in[1])) != TC_OP_LEAF) continue;
    const tc_buffer *old = tc_trace_leaf_of(t, r->in[1]);
    if (tc_buffer_refs(old) == 1) held -= old->bytes;
  }
  t->byte_check = t->leaf_bytes + bound - TC_MIN(held, bound);
  return held > bound;
}

tc_trace *tc_op_begin(const char *name, tc_site site) {
  if (TC_UNLIKELY(!tc_enter(name, site))) return &refused;
  tc_trace *t = tc_trace_self();
  if (TC_UNLIKELY(!t)) {
    tc_fail(TC_ERR_MEMORY, name, site, "no room for a trace");
    tc_leave();
    return &roomless;
  }
  tc_biased_lock_own(&t->lock);
  t->op = tc_inside_call.op;  // name, or of the function written over this one
  t->op_site = site;
  t->op_status = TC_OK;
  t->n_taken = 0;
  t->tape = t->no_grad == 0;
  if (TC_UNLIKELY(t->n_node == 0)) tc_team_warm();  // waking takes as long as recording: a futex wake of an idle core is 28 to 38 us
  if (TC_UNLIKELY(t->n_node >= t->most_nodes || (t->leaf_bytes > t->byte_check && holds_much(t))))
    if (tc_trace_sync(t, TC_CAUSE_BOUND, site, 0, NULL) != TC_OK) t->op_status = tc_last_error()->status;
  return t;
}

tc_status tc_op_done(tc_trace *t) {
  tc_status st = t->op_status;
  if (TC_UNLIKELY(t == &refused || t == &roomless)) return st;
  t->n_taken = 0;
  tc_biased_unlock_own(&t->lock);
  tc_leave();
  return st;
}

tc_tensor tc_op_end(tc_trace *t, tc_node n) {
  if (TC_UNLIKELY(n == TC_NODE_ERR || t->op_status != TC_OK)) {
    tc_status st = tc_op_done(t);
    return tc_poison(st);
  }
  // An op that returns its operand's node (a cast to the same type) still makes a new value.
  if (t->slot_of[n] != TC_SLOT_NONE) {
    const tc_rec *r = tc_rec_of(t, n);
    n = tc_trace_append(t, TC_OP_RESHAPE, (tc_type)r->dtype, r->shape, 1, &n, 0, NULL, 0, NULL, (tc_device)t->dev[n]);
    if (n == TC_NODE_ERR) return tc_poison(tc_op_done(t));
  }
  tc_tensor h = tc_trace_handle(t, n, true);
  if (TC_UNLIKELY(tc_options_get()->eager)) (void)tc_trace_sync(t, TC_CAUSE_EAGER, t->op_site, 1, &n);
  tc_op_done(t);
  return h;
}

// Brings the value of another thread's tensor here as a leaf. The lock is dropped meanwhile, and `dropped` keeps our numbers in place.
static tc_node foreign(tc_trace *t, tc_trace *from, tc_tensor h) {
  if (tc_trace_here(from, t->op, t->op_site) != TC_OK) return t->op_status = TC_ERR_HANDLE, TC_NODE_ERR;
  tc_stored v;
  t->dropped = true;
  tc_biased_unlock_own(&t->lock);
  tc_status st = tc_value(h, TC_CAUSE_CROSS_THREAD, t->op_site, &v);
  tc_biased_lock_own(&t->lock);
  t->dropped = false;
  if (st != TC_OK) return t->op_status = st, TC_NODE_ERR;
  tc_node n = TC_NODE_ERR;
  for (uint32_t i = t->n_leaf; i-- > 0 && n == TC_NODE_ERR;)
    if (t->leaf[i].buf == v.buf) n = t->leaf[i].node;
  if (n == TC_NODE_ERR) n = tc_trace_leaf(t, v.buf, v.type, v.shape, v.device, 0);
  tc_buffer_release(v.buf);
  if (n != TC_NODE_ERR && v.is_param && !(t->flag[n] & TC_NODE_WANT)) n = mark_param(t, n, h);
  return n;
}

// Of what is not in the trace, or no good.
static __attribute__((noinline)) tc_node op_in_slow(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  if (TC_UNLIKELY(t->op_status != TC_OK)) return TC_NODE_ERR;
  tc_slot *s = tc_slot_find(h, &owner);
  if (TC_UNLIKELY(s && owner != t && h.gen)) return foreign(t, owner, h);  // checks gen under the owner's lock
  if (TC_UNLIKELY(!s || h.gen == 0 || s->gen != h.gen)) {
    if (h.slot >= TC_POISON) return t->op_status = (tc_status)h.gen, TC_NODE_ERR;
    return tc_rec_fail(t, TC_ERR_HANDLE, h.gen ? "the operand was released, or its scope has ended" : "an operand is the null tensor");
  }
  return tc_trace_node(t, s, h);
}

tc_node tc_op_in(tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  const tc_slot *s = tc_slot_find(h, &owner);
  if (TC_LIKELY(s && owner == t && s->gen == h.gen && s->epoch == t->epoch && t->op_status == TC_OK))
    return t->n_taken++, t->op_device = (tc_device)t->dev[s->node], s->node;
  tc_node n = op_in_slow(t, h);
  t->n_taken++;
  if (n != TC_NODE_ERR) t->op_device = (tc_device)t->dev[n];
  return n;
}

tc_node tc_rec_fail(tc_trace *t, tc_status status, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  tc_fail(status, t->op ? t->op : "tc", t->op_site, "%s", text);
  if (t->op_status == TC_OK) t->op_status = status;
  return TC_NODE_ERR;
}

const tc_dims *tc_node_dims(const tc_trace *t, tc_node n) {
  return &tc_dims_at(tc_rec_of(t, n)->shape)->d;
}

tc_type tc_node_type(const tc_trace *t, tc_node n) {
  return (tc_type)tc_rec_of(t, n)->dtype;
}

bool tc_rec_tape(tc_trace *t, bool on) {
  bool was = t->tape;
  if (TC_LIKELY(t != &refused && t != &roomless)) t->tape = on;
  return was;
}

void tc_no_grad_begin(void) {
  if (!tc_enter("no_grad_begin", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t) t->no_grad++;
  tc_leave();
}

void tc_no_grad_end(void) {
  if (!tc_enter("no_grad_end", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t && t->no_grad > 0) t->no_grad--;
  tc_leave();
}

// ---- scopes and lifetime ----

tc_scope tc_scope_begin_at(tc_site site) {
  tc_scope scope = {0, 0};
  if (!tc_enter("scope_begin", site)) return scope;
  tc_trace *t = tc_trace_self();
  if (t) tc_biased_lock_own(&t->lock);
  if (t && t->n_mark < sizeof t->mark / sizeof t->mark[0]) {
    t->mark[t->n_mark++] = t->n_pool;
    scope = (tc_scope){t->n_mark, t->n_pool};
  } else {
    (void)TC_FAIL(t ? TC_ERR_STATE : TC_ERR_MEMORY, t ? "scopes nest too deeply" : "no room for a trace");
  }
  if (t) tc_biased_unlock_own(&t->lock);
  tc_leave();
  return scope;
}

// Ends the scope and those left open inside it. Kept handles stay in the pool below the parent's mark.
static void scope_end(tc_trace *t, uint32_t depth) {
  uint32_t from = t->mark[depth - 1], to = from;
  for (uint32_t i = from; i < t->n_pool; i++) {
    tc_tensor h = t->pool[i];
    tc_trace *owner;
    tc_slot *s = tc_slot_find(h, &owner);
    if (s->gen != h.gen) continue;
    if (s->flags & TC_SLOT_KEEP) {
      s->flags &= (uint8_t)~TC_SLOT_KEEP;
      if (s->epoch == t->epoch && !(s->flags & TC_SLOT_GRAD)) t->flag[s->node] &= (uint8_t)~TC_NODE_KEEP;
      t->pool[to++] = h;
    } else {
      slot_release(t, s, h);
    }
  }
  t->n_pool = to;
  t->n_mark = depth - 1;
  t->n_old_mark = TC_MIN(t->n_old_mark, t->n_mark);
  pool_tidy(t);
}

// site 0: a scope of the library's own; the program does not repeat there.
void tc_scope_end_at(tc_scope scope, tc_site site) {
  if (scope.depth == 0 || !tc_enter("scope_end", site)) return;
  tc_trace *t = tc_trace_self();
  if (t) tc_biased_lock_own(&t->lock);
  if (t && scope.depth <= t->n_mark && t->mark[scope.depth - 1] == scope.mark) {
    scope_end(t, scope.depth);
    if (site) tc_trace_landmark(t, site, true);
  } else {
    (void)TC_FAIL(TC_ERR_STATE, "the scope has ended already, or belongs to another thread");
  }
  if (t) tc_biased_unlock_own(&t->lock);
  tc_leave();
}

void tc_slot_unlock(tc_trace *owner) {
  tc_trace_unlock(owner);
  tc_leave();
}

tc_slot *tc_slot_lock(tc_tensor h, const char *what, tc_site site, tc_trace **owner) {
  tc_slot *s = tc_slot_find(h, owner);
  if (!s) {
    if (h.slot < TC_POISON && what) tc_fail(TC_ERR_HANDLE, what, site, "the handle is no tensor");
    return NULL;
  }
  if (!what && (*owner)->forks != atomic_load(&self.forks)) return NULL;
  if (tc_trace_here(*owner, what, site) != TC_OK || !tc_enter(what ? what : "is_valid", site)) return NULL;
  tc_trace_lock(*owner);
  if (s->gen == h.gen && h.gen) return s;
  tc_slot_unlock(*owner);
  if (what) tc_fail(TC_ERR_HANDLE, what, site, "the tensor was released, or its scope has ended");
  return NULL;
}

tc_tensor tc_keep_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  tc_slot *s = tc_slot_lock(h, "keep", site, &t);
  if (!s) return h;
  s->flags |= TC_SLOT_KEEP;
  if (s->epoch == t->epoch) t->flag[s->node] |= TC_NODE_KEEP;
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

void tc_release_at(tc_tensor h, tc_site site) {
  tc_trace *t;
  if (h.gen == 0 || h.slot >= TC_POISON) return;
  tc_slot *s = tc_slot_lock(h, "release", site, &t);
  if (!s) return;
  tc_slot_release(t, h);
  unlock_or_retire(t);
  tc_leave();
}

// Forgets every slot of a chunk of this trace. Handles to them are stale from now on.
static void chunk_close(tc_trace *t, tc_chunk *chunk, uint32_t first) {
  for (uint32_t i = 0; i < TC_CHUNK_SLOTS; i++) {
    tc_slot *s = &chunk->slot[i];
    if (!(s->gen & 1)) continue;
    s->refs = 1, s->grad = (tc_tensor){0, 0};
    tc_slot_release(t, (tc_tensor){first + i, s->gen});
  }
}

void tc_trace_close_all(void) {
  if (!tc_enter("shutdown", 0)) return;
  for (uint32_t c = 0; c < N_CHUNKS; c++) {
    tc_chunk *chunk = atomic_load_explicit(&self.chunk[c], memory_order_acquire);
    tc_trace *t = chunk ? chunk->owner : NULL;
    if (!t || t->forks != atomic_load(&self.forks)) continue;
    tc_trace_lock(t);
    tc_trace_reset(t);
    t->n_pool = t->n_mark = t->n_old_mark = 0;
    while (t->n_map) tc_buffer_release(t->map[--t->n_map].buf);
    chunk_close(t, chunk, c * TC_CHUNK_SLOTS);
    unlock_or_retire(t);
  }
  tc_leave();
}

bool tc_is_valid(tc_tensor h) {
  tc_trace *t;
  if (!h.gen || !tc_slot_lock(h, NULL, 0, &t)) return false;
  tc_slot_unlock(t);
  return true;
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

void tc_seed(uint64_t seed) {
  if (!tc_enter("seed", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t) t->seed = seed, t->counter = 0, t->stream = 0;
  tc_leave();
}

tc_rng_state tc_get_rng_state(void) {
  if (!tc_enter("get_rng_state", 0)) return (tc_rng_state){0};
  const tc_trace *t = tc_trace_self();
  tc_leave();
  return t ? (tc_rng_state){t->seed, t->counter, t->stream} : (tc_rng_state){0};
}

tc_status tc_set_rng_state_at(tc_rng_state state, tc_site site) {
  // Counter and stream share a word of the generator's input: tc_rec_rng.
  if (state.counter >> 40 || state.stream >> 24)
    return tc_fail(TC_ERR_ARG, "set_rng_state", site, "counter %" PRIu64 " of stream %" PRIu64 " is beyond the generator's", state.counter,
                   state.stream);
  if (!tc_enter("set_rng_state", site)) return TC_ERR_STATE;
  tc_trace *t = tc_trace_self();
  if (t) t->seed = state.seed, t->counter = state.counter, t->stream = state.stream;
  tc_leave();
  return t ? TC_OK : tc_fail(TC_ERR_MEMORY, "set_rng_state", site, "no room for a trace");
}
