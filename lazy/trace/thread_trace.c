// Traces of threads: made with a thread's first op, kept while handles of it live, free for a new
// thread then. See thread_trace.h.
//
// Threads: `self` under its lock; it is never held while a trace's lock is taken.
#include "lazy/trace/thread_trace.h"

#include <inttypes.h>

#include "lazy/trace/capture_break.h"
#include "lazy/trace/latest_plans.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/option_sets.h"
#include "runtime/options.h"
#include "runtime/reentry.h"

static struct {
  pthread_mutex_t lock;
  uint64_t n_streams;
  tc_trace *orphans;  // of ended threads, without tensors, free for new ones
  uint32_t n_traces;  // of threads
  _Atomic uint32_t forks;
  pthread_key_t key;
  bool has_key;
  pthread_once_t once;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};
TC_FORK_SAFE(&self.lock, 1)

void tc_trace_set_bounds(tc_trace *t) {
  const tc_options *o = tc_options_get();
  t->byte_check = (uint64_t)o->max_bytes;
  if (t->most_nodes) t->most_nodes = 4 * (uint64_t)o->max_nodes;
}

void tc_trace_reset(tc_trace *t) {
  for (uint32_t i = 0; i < t->n_leaf; i++) tc_buffer_release(t->leaf[i].buf);
  for (uint32_t i = 0; i < t->n_past; i++) tc_run_release(t->past[i].run);
  for (uint32_t i = 0; i < t->n_user; i++) {
    tc_buffer_release(t->user[i].buf);
    tc_slot_settle(t, t->user[i].slot);
  }
  t->outline = NULL;  // a body that is being recorded is lost
  t->n_of = t->n_user = t->n_leaf = t->n_past = t->n_node = t->n_word = t->n_arg = t->n_param_node = 0;
  t->n_old_mark = t->n_mark, t->passed = t->cut_at_bound = false;
  t->leaf_bytes = t->assigned_bytes = 0, t->most_nodes = 1;
  tc_trace_set_bounds(t);
  t->epoch++, t->memo_epoch++;
}

static void trace_free(tc_trace *t) {
  tc_trace_reset(t);
  for (uint32_t i = 0; i < t->n_map; i++) tc_buffer_release(t->map[i].buf);
  void *const owned[] = {t->word,
                         t->at,
                         t->arg_at,
                         t->slot_of,
                         t->call,
                         t->flag,
                         t->dev,
                         t->arg,
                         t->leaf,
                         t->past,
                         t->param_node,
                         t->pool,
                         t->todo,
                         t->out,
                         t->user,
                         t->map,
                         t->of,
                         t->operand,
                         t->autocast.casts.cast};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_arena_fini(&t->walk);
  tc_biased_lock_fini(&t->lock);
  tc_biased_lock_fini(&t->latest_lock);
  tc_free(t);
}

// pre: t is locked. An ended thread's trace without tensors is free for a new thread. Unlocks.
void tc_trace_unlock_or_retire(tc_trace *t) {
  bool free = t->orphan && t->n_slots == 0;
  if (free) {
    tc_trace_reset(t);
    tc_plan_forget_latest(t);
    t->orphan = false, t->deferred = TC_OK;
    pthread_mutex_lock(&self.lock);
    t->next = self.orphans;
    self.orphans = t;
    self.n_traces--;
    pthread_mutex_unlock(&self.lock);
  }
  tc_trace_unlock(t);
}

// Runs when the thread ends: closes its scopes. The trace lives on while handles of it do.
static void thread_end(void *arg) {
  tc_trace *t = arg;
  tc_inside = 1;  // callbacks may ask for tensors
  tc_trace_mine = NULL;
  tc_biased_lock_other(&t->lock);
  if (t->outline) tc_trace_reset(t);  // it ends inside a body of control flow, whose records have no values
  while (t->n_pool) {
    tc_tensor h = t->pool[--t->n_pool];
    tc_slot_release_handle(t, h);
  }
  t->n_mark = t->n_old_mark = 0;
  t->orphan = true;
  tc_trace_unlock_or_retire(t);
  tc_inside = 0;
}

// At exit, or when the library is unloaded: frees what no thread uses.
static void at_exit_of_process(void) __attribute__((destructor));
static void at_exit_of_process(void) {
  if (!tc_frees_at_exit()) return;
  if (tc_trace_mine) thread_end(tc_trace_mine);
  if (self.has_key) pthread_key_delete(self.key);
  pthread_mutex_lock(&self.lock);
  bool alone = self.n_traces == 0;
  while (alone && self.orphans) {
    tc_trace *t = self.orphans;
    self.orphans = t->next;
    trace_free(t);
  }
  if (alone) {
    tc_slot_free_all();
    tc_dims_free_all();
    tc_option_sets_end();
  }
  pthread_mutex_unlock(&self.lock);
}

// In the child of a fork only the forking thread goes on: with its handles and what it has pending.
// Other traces may be half written. The thread's own trace is locked around the fork, since another
// thread may be reading a tensor of it. These handlers are registered last, so they run first.
static void before_fork(void) {
  if (!tc_trace_mine || tc_inside) return;
  tc_biased_lock_fork(&tc_trace_mine->lock);
  tc_biased_lock_fork(&tc_trace_mine->latest_lock);
}

static void after_fork(void) {
  if (!tc_trace_mine || tc_inside) return;
  tc_biased_unlock_fork(&tc_trace_mine->latest_lock, false);
  tc_biased_unlock_fork(&tc_trace_mine->lock, false);
}

static void forked(void) {
  uint32_t forks = atomic_fetch_add(&self.forks, 1) + 1;
  if (tc_trace_mine) tc_trace_mine->forks = forks;
  if (!tc_trace_mine || tc_inside) return;
  tc_biased_unlock_fork(&tc_trace_mine->latest_lock, true);
  tc_biased_unlock_fork(&tc_trace_mine->lock, true);
}

static void make_key(void) {
  pthread_atfork(before_fork, after_fork, forked);
  self.has_key = pthread_key_create(&self.key, thread_end) == 0;
  if (!self.has_key) tc_log_line(TC_LOG_WARN, "no thread key: traces of ended threads are not closed");
}

tc_trace *tc_trace_begin(void) {
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
    tc_biased_lock_init(&t->latest_lock);
    t->free_slot = TC_SLOT_NONE;
    tc_trace_reset(t);  // epoch 1
  }
  t->stream = stream, t->seed = 0, t->counter = 0, t->no_grad = 0, t->record_only = 0, t->context = 0;
  t->cut_site = 0, t->synced = 0;
  t->watch = (struct tc_pile){0}, t->options = tc_options_mine;
  t->autocast.n = 0;
  t->forks = atomic_load(&self.forks);
  if (self.has_key) pthread_setspecific(self.key, t);
  tc_biased_lock_begin(&t->lock);
  tc_biased_lock_begin(&t->latest_lock);
  return tc_trace_mine = t;
}

bool tc_trace_is_here(const tc_trace *t) {
  return TC_LIKELY(t->forks == atomic_load_explicit(&self.forks, memory_order_relaxed));
}

tc_status tc_trace_here(const tc_trace *t, const char *op, tc_site site) {
  if (tc_trace_is_here(t)) return TC_OK;
  return tc_fail(TC_ERR_HANDLE, op, site, "the tensor belongs to a thread of the process that forked this one");
}

// ---- what a thread has set ----

// While a body of control flow is recorded: it fails when it ends.
static void refuse_in_body(tc_trace *t, const char *fault) {
  if (TC_UNLIKELY(t->outline != NULL)) t->body_fault = fault;
}

void tc_no_grad_begin(void) {
  if (!tc_enter("no_grad_begin", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t) {
    t->no_grad++;
    refuse_in_body(t, "calls tc_no_grad_begin, which gradients of its records would not see; use tc_detach");
  }
  tc_leave();
}

void tc_no_grad_end(void) {
  if (!tc_enter("no_grad_end", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t && t->no_grad > 0) t->no_grad--;
  tc_leave();
}

void tc_record_only_begin(void) {
  if (!tc_enter("record_only_begin", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t) t->record_only++;
  tc_leave();
}

void tc_record_only_end(void) {
  if (!tc_enter("record_only_end", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t && t->record_only > 0) t->record_only--;
  tc_leave();
}

void tc_seed(uint64_t seed) {
  if (!tc_enter("seed", 0)) return;
  tc_trace *t = tc_trace_self();
  if (t) {
    t->seed = seed, t->counter = 0, t->stream = 0;
    refuse_in_body(t, "seeds the random numbers; seed them before");
  }
  tc_leave();
}

tc_rng_state tc_get_rng_state(void) {
  if (!tc_enter("get_rng_state", 0)) return (tc_rng_state){0};
  const tc_trace *t = tc_trace_self();
  tc_capture_break_mine("a random state that it reads", "get_rng_state", 0);
  tc_leave();
  return t ? (tc_rng_state){t->seed, t->counter, t->stream} : (tc_rng_state){0};
}

tc_status tc_set_rng_state_at(tc_rng_state state, tc_site site) {
  // Counter and stream share a word of the generator's input: tc_rec_rng.
  if (state.counter >> 40 || state.stream >> 24)
    return tc_fail(TC_ERR_ARG, "set_rng_state", site,
                   "counter %" PRIu64 " of stream %" PRIu64 " is beyond the generator's", state.counter, state.stream);
  if (!tc_enter("set_rng_state", site)) return TC_ERR_STATE;
  tc_trace *t = tc_trace_self();
  if (t) {
    t->seed = state.seed, t->counter = state.counter, t->stream = state.stream;
    refuse_in_body(t, "seeds the random numbers; seed them before");
  }
  tc_leave();
  return t ? TC_OK : tc_fail(TC_ERR_MEMORY, "set_rng_state", site, "no room for a trace");
}
