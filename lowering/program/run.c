// Launches a run: its memory, its cached constants, and its steps. See program.h.
//
// Cached constants are values derived from parameters alone. The first run computes them, and later
// runs reuse them (constant_cache.h).
//
//   a weight packed for a matmul: a step of p->prepare; its result is a storage behind the
//   outputs, and is found again while the weight's stamp is unchanged
#include <pthread.h>

#include "lowering/emit/emitter.h"
#include "lowering/jit/tier_up.h"
#include "lowering/program/constant_cache.h"
#include "lowering/program/execute.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/program/loaded.h"
#include "lowering/program/program.h"
#include "lowering/program/stages.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/mem_available.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/profile_file.h"

// ---- cached constants ----

// Packing for a matmul of few rows reads and writes each weight once, as the matmul itself does. So
// it pays only if at least this many runs use it.
#define LEAST_USES 4
// Runs that do not retry after an allocation failed: a try evicts other caches, and takes GPU time.
#define UNASKED_RUNS 63

// Operands and results of one step of p->prepare.
typedef struct preparing {
  tc_constant_key key;
  uint64_t stamp[TC_MAX_BUFS];
  tc_buffer *in[TC_MAX_BUFS], *out[TC_MAX_BUFS];
  uint32_t n_in, n_out, cached[TC_MAX_BUFS];  // cached: per result, its number among the cached constants
  bool is_constant;  // true if all operands have stamps, so the results may be cached
} preparing;

static void describe_step(const tc_program *q, const tc_plan *plan, const tc_step *s, const uint64_t *num,
                          const tc_leaf *held, tc_buffer *const *cached, preparing *x) {
  uint32_t first_cached = plan->n_leaf + plan->n_out;
  x->n_in = x->n_out = 0, x->is_constant = held != NULL;
  for (uint32_t j = 0; j < s->n_binding; j++) {
    uint32_t storage = q->binding[s->first_binding + j];
    if (s->writes >> j & 1) {
      x->cached[x->n_out++] = storage - first_cached;
      continue;
    }
    tc_buffer *b = storage >= first_cached ? cached[storage - first_cached] : held ? held[storage].buf : NULL;
    x->stamp[x->n_in] = b ? tc_buffer_stamp(b) : 0;
    x->is_constant &= x->stamp[x->n_in] != 0;
    x->in[x->n_in++] = b;
  }
  x->key = (tc_constant_key){s->kernel, s->extent, num + s->first_num, s->n_num, x->stamp, x->n_in};
}

// Allocates the results of one step in this run.
static tc_status take_results(const tc_program *p, const tc_plan *plan, preparing *x) {
  for (uint32_t i = 0; i < x->n_out; i++) {
    tc_status st = tc_buffer_create_on((tc_device)plan->dev[0], p->cached_bytes[x->cached[i]], &x->out[i]);
    if (st != TC_OK) {
      while (i-- > 0) tc_buffer_release(x->out[i]);
      return st;
    }
    tc_buffer_tell(x->out[i], TC_HOLDS_CONSTANT_CACHE, (tc_call){NULL, 0});
    if (!x->is_constant) tc_buffer_unstamp(x->out[i]);
  }
  return TC_OK;
}

// Makes the step's results those of the run.
static void put_results(const tc_execution *whole, const tc_plan *plan, const preparing *x, tc_buffer **cached) {
  for (uint32_t k = 0; k < x->n_out; k++) {
    cached[x->cached[k]] = x->out[k];
    whole->at.storage[plan->n_leaf + plan->n_out + x->cached[k]] = x->out[k]->ptr;
  }
}

// Held while a run allocates all its missing constants. Two runs that each got a part would both
// fail.
static pthread_mutex_t asks_for_memory = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&asks_for_memory, 2)

// Whether enough memory for the missing constants may be available, before others are evicted for
// it.
static bool may_have_room(tc_program *p, tc_device d, size_t missing_bytes) {
  uint32_t unasked = atomic_load_explicit(&p->n_skip_alloc, memory_order_relaxed);
  // of threads that race, one counts
  if (unasked) atomic_store_explicit(&p->n_skip_alloc, unasked - 1, memory_order_relaxed);
  size_t room = tc_buffer_room(d);
  if (unasked || missing_bytes > room) return false;
  // without a cap it queries the system, which takes longer
  bool fits = p->gpu || room < SIZE_MAX || missing_bytes <= tc_mem_available("") / 2;
  if (!fits) atomic_store_explicit(&p->n_skip_alloc, UNASKED_RUNS, memory_order_relaxed);
  return fits;
}

// Allocates all missing constants, or the run goes without. Nothing has run yet, so another plan
// may run instead.
static tc_status take_missing(const tc_execution *whole, const tc_plan *plan, const uint64_t *num, const tc_leaf *held,
                              const uint64_t *skip, tc_buffer **cached, tc_work_done *done) {
  tc_program *p = plan->program;
  const tc_program *q = p->prepare;
  tc_device d = (tc_device)plan->dev[0];
  tc_status st = TC_OK;
  size_t bytes = 0;
  for (uint32_t i = 0; i < p->n_cached; i++) bytes += cached[i] ? 0 : tc_buffer_rounded(p->cached_bytes[i]);
  pthread_mutex_lock(&asks_for_memory);
  bool asked = may_have_room(p, d, bytes);
  if (!asked) st = TC_FAIL(TC_ERR_MEMORY, "no room for %zu bytes of cached constants", bytes);
  for (uint32_t i = 0; i < q->n_step && st == TC_OK; i++) {
    preparing x;
    if (skip[i]) continue;
    describe_step(q, plan, &q->step[i], num, held, cached, &x);
    if ((st = take_results(p, plan, &x)) != TC_OK) break;
    for (uint32_t k = 0; k < x.n_out; k++) done->taken_bytes += p->cached_bytes[x.cached[k]];
    put_results(whole, plan, &x, cached);
  }
  pthread_mutex_unlock(&asks_for_memory);
  if (st != TC_ERR_MEMORY) return st;
  if (asked) atomic_store_explicit(&p->n_skip_alloc, UNASKED_RUNS, memory_order_relaxed);
  done->lacks_constants = true;
  if (tc_log_on(TC_LOG_MEMORY))
    tc_log_line(
        TC_LOG_MEMORY,
        "plan %016llx: no room for %zu bytes of cached constants; this run computes those it needs, and keeps none",
        (unsigned long long)plan->hash.lo, bytes);
  return st;
}

// Whether the missing constants should be computed now. They should not if parameters changed
// before the last ones were used enough, as between training steps. They should once a run finds
// the same contents as the run before.
static bool is_worth_making(tc_program *p, uint64_t contents) {
  if (!p->graph.packs_few || atomic_load_explicit(&p->n_used, memory_order_relaxed) >= LEAST_USES) return true;
  return atomic_exchange_explicit(&p->refused, contents, memory_order_relaxed) == contents;
}

// Finds cached constants, or computes and caches them. list: scratch for the steps' flags and
// scalars. cached: their buffers; those not NULL on return are retained, whatever the status. done:
// if not NULL, counts are added to it, and the run may be refused constants (lacks_constants).
static tc_status prepare_constants(const tc_execution *whole, const tc_plan *plan, const uint64_t *arg,
                                   const tc_leaf *held, uint64_t *list, tc_buffer **cached, tc_work_done *done) {
  tc_work_done ignored = {0};
  tc_program *p = plan->program;
  const tc_program *q = p->prepare;
  uint64_t *skip = list, *num = list + q->n_step, contents = 0;
  uint32_t n_made = 0;
  preparing x;
  tc_execution_fill_nums(q, arg, num);
  for (uint32_t i = 0; i < q->n_step; i++) {
    describe_step(q, plan, &q->step[i], num, held, cached, &x);
    skip[i] = x.is_constant && tc_constant_cache_find(&x.key, x.n_out, x.out);
    n_made += !skip[i];
    if (skip[i]) put_results(whole, plan, &x, cached);
    for (uint32_t k = 0; k < x.n_in && !skip[i]; k++) contents = (contents ^ x.stamp[k]) * UINT64_C(0x9E3779B97F4A7C15);
  }
  if (n_made == 0) {
    uint32_t used = atomic_load_explicit(&p->n_used, memory_order_relaxed);
    if (used < LEAST_USES) atomic_store_explicit(&p->n_used, used + 1, memory_order_relaxed);
    return TC_OK;
  }
  if (done && held && !is_worth_making(p, contents)) {
    done->lacks_constants = true;
    return TC_FAIL(TC_ERR_STATE, "%u cached constants would not be used for long", n_made);
  }
  atomic_store_explicit(&p->n_used, 0, memory_order_relaxed);
  if (!done) done = &ignored;
  TC_TRY(take_missing(whole, plan, num, held, skip, cached, done));
  tc_execution r = *whole;
  r.p = q, r.num = num, r.skip = skip;
  TC_TRY(tc_execution_run(&r));
  done->n_kernels += tc_stages_count_kernels(q, skip);
  for (uint32_t i = 0; i < q->n_step; i++) {
    if (skip[i]) continue;
    done->bytes += q->step[i].bytes;
    describe_step(q, plan, &q->step[i], num, held, cached, &x);
    for (uint32_t k = 0; k < x.n_out; k++) x.out[k] = cached[x.cached[k]];
    if (x.is_constant) tc_constant_cache_keep(&x.key, x.n_out, x.out, x.in);
  }
  return TC_OK;
}

// ---- the run ----

// Whether a kernel of the program is interpreted because it is not compiled yet.
static bool interprets(tc_program *p) {
  if (!atomic_load_explicit(&p->interprets, memory_order_relaxed)) return false;
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kind == TC_STEP_KERNEL && tc_kernel_tier(p->step[i].kernel) == TC_INTERPRETED_FIRST) return true;
  atomic_store_explicit(&p->interprets, false, memory_order_relaxed);
  return false;
}

// State that workers read of a launch, kept together: its cache lines arrive at once
// (runtime/team.h).
typedef struct launch {
  tc_execution r;
  tc_execution_fault stopped_by;
  uint64_t fixed[512];
} launch;

// Allocates a run's arena and its lists. On the CPU the lists lie behind the arena. For a device
// with memory of its own they are in the host's (*beside).
static tc_status take_memory(const tc_plan *plan, size_t lists, tc_buffer **arena, tc_buffer **beside) {
  const tc_program *p = plan->program;
  bool away = p->gpu || p->loaded;
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : away ? 0 : lists);
  TC_TRY(!bytes ? TC_OK
         : away ? tc_buffer_create_on((tc_device)plan->dev[0], bytes, arena)
                : tc_buffer_create(tc_buffer_fit(bytes), arena));
  tc_buffer_tell(*arena, TC_HOLDS_ARENA, (tc_call){NULL, 0});
  if (!away) return TC_OK;
  tc_status st = lists ? tc_buffer_create(lists, beside) : TC_OK;
  if (st != TC_OK) tc_buffer_release(*arena);
  return st;
}

// What a profile wants of the run.
static void begin_profile(const tc_program *p, tc_work_done *done) {
  if (tc_options_get()->profile_kernels && (done->times = tc_calloc(p->n_step + 1, sizeof *done->times)))
    done->n_times = p->n_step;
  done->allocated = tc_buffer_new_ticks(), done->started = tc_ticks();
  done->waited = tc_profile_waited;
}

tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                            const tc_call *call, const tc_leaf *held, tc_work_done *prepared) {
  const tc_program *p = plan->program, *q = p->prepare;
  launch l;
  uint64_t *num = l.fixed;
  uint32_t n_storage = plan->n_leaf + plan->n_out + p->n_cached,
           n_lists = p->n_num + n_storage + p->n_cached + q->n_step + q->n_num;
  uint32_t n_words = p->gpu ? TC_MAX_OF(tc_gpu_launches_words(p->gpu), tc_gpu_launches_words(q->gpu)) : 0;
  size_t lists = (n_lists + n_words) * sizeof *num;
  tc_buffer *arena = NULL, *beside = NULL;
  if (lists <= sizeof l.fixed) lists = 0;
  TC_TRY(take_memory(plan, lists, &arena, &beside));
  // aligned: arena_bytes is a multiple of 64
  if (lists) num = beside ? beside->ptr : (uint64_t *)(void *)((char *)arena->ptr + p->arena_bytes);
  void **storage = (void **)(num + p->n_num);
  tc_buffer **cached = (tc_buffer **)(storage + n_storage);
  tc_execution_fill_nums(p, arg, num);
  for (uint32_t i = 0; i < plan->n_leaf; i++) storage[i] = leaf[i];
  for (uint32_t i = 0; i < plan->n_out; i++) storage[plan->n_leaf + i] = out[i];
  for (uint32_t i = 0; i < p->n_cached; i++) cached[i] = NULL;
  l.stopped_by = (tc_execution_fault){.step = NULL};
  l.r = (tc_execution){.p = p,
                       .at = {storage, (char *const *)(void *)(storage + plan->n_leaf), arena ? arena->ptr : NULL},
                       .num = num,
                       .fault = &l.stopped_by,
                       .launch = tc_program_launch,
                       .words = num + n_lists};
  if (prepared && tc_profile_is_on()) begin_profile(p, prepared);
  tc_status st = q->n_step
                     ? prepare_constants(&l.r, plan, arg, held, (uint64_t *)(cached + p->n_cached), cached, prepared)
                     : TC_OK;
  if (prepared) prepared->interpreted = interprets(plan->program), l.r.times = prepared->times;
  if (st == TC_OK) st = p->loaded ? tc_loaded_steps_run(&l.r, plan, call, prepared) : tc_execution_run(&l.r);
  tc_tier_up_look();
  if (st == TC_OK && p->gpu && prepared) {
    tc_gpu_how how = tc_gpu_launches_how(p->gpu);
    prepared->replayed = how.replayed, prepared->gpu_note = how.note, prepared->copied_bytes = how.copied_bytes;
  }
  if (l.stopped_by.step) tc_execution_report(plan, &l.r, call);
  for (uint32_t i = 0; i < p->n_cached; i++) tc_buffer_release(cached[i]);
  tc_buffer_release(arena);
  tc_buffer_release(beside);
  return st;
}
