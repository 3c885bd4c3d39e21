// Runs programs: binds the places of a run, finds or makes prepared values, and does the steps, wave by wave on the team or as one sequence on a GPU.
//
// Always: a run that fails leaves old values, and says which step failed; several threads may run one program.
#include <pthread.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/emit/emitter.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/kir/libm.h"
#include "lowering/program/constant_cache.h"
#include "lowering/jit/tier_up.h"
#include "lowering/program/stages.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/room.h"

// Runs that use what was packed for products of few rows, without which packing, which reads and writes what they read once, is not worth it.
#define LEAST_USES 4
#define UNASKED_RUNS 63  // after memory for prepared values was asked for in vain, which takes what others keep, and a GPU's time

static tc_ref_fn *const rows[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, lower, reference, sample) [TC_OP_##NAME] = tc_ref_##reference,
#include <tc/ops.def>
#undef TC_OP
};

// What stopped a run: a step that failed. Told by the thread that launched, since a worker's errors are nobody's. No worker begins a task after it; a
// wave's barrier orders it before the next wave.
typedef struct fault {
  _Atomic bool taken;
  const tc_step *step;
  tc_status status;
  int64_t position;  // of a bad index that a GPU found, else -1
} fault;

typedef struct run {
  _Alignas(128) const tc_program *p;
  tc_places at;
  const uint64_t *num;  // all steps' scalars
  const uint64_t *skip;  // steps that need not run; NULL: none
  fault *fault;
  uint64_t *words;  // of a GPU's launches
  bool timed;  // TC_PROFILE=2
} run;

static void *pointer_of(const run *r, uint32_t place) {
  return tc_place_pointer(r->p, &r->at, place);
}

static tc_status stop(const run *r, const tc_step *s, tc_status st) {
  fault *f = r->fault;
  if (!atomic_exchange_explicit(&f->taken, true, memory_order_relaxed)) f->step = s, f->status = st;
  return st;
}

// The first bad index in the share, or -1.
static int64_t find_bad_index(const run *r, const tc_step *s, int64_t begin, int64_t end) {
  const int64_t *index = pointer_of(r, r->p->bind[s->first_bind]);
  int64_t extent = (int64_t)r->num[s->first_num];
  for (int64_t i = begin; i < end; i++)
    if (index[i] < -extent || index[i] >= extent) return i;
  return -1;
}

// Of several bad indices the first, whichever thread met it. Names the user's call where it is known, not the row.
static void report(const tc_plan *plan, const run *r, const tc_call *call) {
  const fault *f = r->fault;
  const tc_step *s = f->step;
  bool known = call && s->node < plan->n_node && call[s->node].op;
  tc_call by = known ? call[s->node] : (tc_call){tc_op_names[s->op], 0};
  if (s->kind == TC_STEP_CHECK) {
    const int64_t *index = pointer_of(r, r->p->bind[s->first_bind]);
    int64_t at = r->p->gpu ? f->position : find_bad_index(r, s, 0, s->extent), bad = 0;
    if (!r->p->gpu)
      bad = index[at];
    else if (tc_gpu_read(r->p->graph.target.gpu, &bad, index + at, sizeof bad) != TC_OK)
      return;  // the device is lost, and has said so
    int64_t extent = (int64_t)r->num[s->first_num];
    tc_fail(f->status, by.op, by.site, "index %lld at position %lld is out of range for extent %lld", (long long)tc_index_said(bad, extent),
            (long long)at, (long long)extent);
  } else {
    tc_fail(f->status, by.op, by.site, "%s while it ran", tc_status_text(f->status));
  }
}

// ---- steps ----

static void fill_view(tc_view *v, const tc_row_value *x) {
  *v = (tc_view){.type = x->type, .rank = x->shape->d.rank};
  int64_t stride = 1;
  for (int i = v->rank; i-- > 0;) {
    v->dim[i] = x->shape->d.dim[i], v->stride[i] = stride;
    stride *= v->dim[i];
  }
}

// A view of x repeated to d's shape.
static void fill_broadcast(tc_view *v, const tc_row_value *x, const tc_dims *d) {
  tc_view dense;
  fill_view(&dense, x);
  *v = (tc_view){.type = x->type, .rank = d->rank};
  for (int i = 0; i < d->rank; i++) {
    int k = i - (d->rank - dense.rank);
    v->dim[i] = d->dim[i];
    v->stride[i] = k < 0 || (dense.dim[k] == 1 && d->dim[i] != 1) ? 0 : dense.stride[k];
  }
}

static tc_status run_row(const run *r, const tc_step *s, int64_t begin, int64_t end) {
  const tc_row_value *x = r->p->row_value + s->row.value;
  const uint32_t *bind = r->p->bind + s->first_bind, n_in = s->n_bind - 1;
  tc_view in[TC_REF_MAX_IN];
  bool elementwise = tc_op_kind_of(s->op) == TC_KIND_ELEM;
  for (uint32_t i = 0; i < n_in; i++) {
    if (elementwise)
      fill_broadcast(&in[i], &x[1 + i], &x->shape->d);
    else
      fill_view(&in[i], &x[1 + i]);
    in[i].ptr = pointer_of(r, bind[i]);
  }
  const uint64_t *attr = r->p->row_attr + s->row.attr, *arg = r->num + s->first_num;
  tc_ref_call call = {.n_in = (int)n_in, .in = in, .attr = attr, .arg = arg, .begin = begin, .end = end, .extent = s->extent};
  fill_view(&call.out, x);
  call.out.ptr = pointer_of(r, bind[n_in]);
  uint64_t value = 0;
  if (n_in > 0 && bind[0] == bind[n_in]) {  // filled: one element, repeated, whose value is the last scalar
    tc_ref_call one = {.out = {.ptr = &value, .type = in[0].type}, .arg = arg + s->n_num - 1};
    TC_TRY(tc_ref_full(&one));
    in[0].ptr = &value;
    memset(in[0].stride, 0, sizeof in[0].stride);
  }
  return rows[s->op](&call);
}

static void run_quietly(const run *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (s->kind == TC_STEP_KERNEL) {
    void *buf[TC_MAX_BUFS];
    for (uint32_t i = 0; i < s->n_bind; i++) buf[i] = pointer_of(r, r->p->bind[s->first_bind + i]);
    tc_kernel_fn *fn = atomic_load_explicit(&s->kernel->fn, memory_order_acquire);
    fn(s->kernel->ctx, buf, r->num + s->first_num, begin, end, w);
    return;
  }
  if (s->kind == TC_STEP_ZERO) {
    const tc_row_value *x = r->p->row_value + s->row.value;
    memset(pointer_of(r, r->p->bind[s->first_bind]), 0, (size_t)x->shape->count * tc_type_bytes(x->type));
    return;
  }
  tc_status st = s->kind != TC_STEP_CHECK ? run_row(r, s, begin, end) : find_bad_index(r, s, begin, end) < 0 ? TC_OK : TC_ERR_INDEX;
  if (st != TC_OK && w->status == TC_OK) w->status = stop(r, s, st);
}

static void run_step(const run *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (r->skip && r->skip[s - r->p->step]) return;
  if (TC_LIKELY(!r->timed)) {
    run_quietly(r, s, begin, end, w);
    return;
  }
  uint64_t start = tc_now_ns();
  run_quietly(r, s, begin, end, w);
  tc_profile_kernel(s->kernel ? s->kernel->name : s->kind == TC_STEP_CHECK ? "check" : tc_op_names[s->op], tc_now_ns() - start);
}

static void task(void *arg, int wave, int64_t index, tc_worker *w) {
  const run *r = arg;
  const tc_program *p = r->p;
  const tc_step *s = p->step + p->wave_first[wave], *end = p->step + p->wave_first[wave + 1];
  w->math = tc_nest_math_table();
  if (p->wave_tasks[wave] == 1) {
    for (; s < end && !atomic_load_explicit(&r->fault->taken, memory_order_relaxed); s++) run_step(r, s, 0, s->extent, w);
    return;
  }
  if (atomic_load_explicit(&r->fault->taken, memory_order_relaxed)) return;
  for (int64_t n = end - s; n > 1;) {  // the last step whose first task is not past it
    int64_t half = n / 2;
    bool later = s[half].first_task <= index;
    s += later ? half : 0, n = later ? n - half : half;
  }
  index -= s->first_task;
  run_step(r, s, tc_step_task_begin(s, index), tc_step_task_begin(s, index + 1), w);
}

static tc_status run_on_gpu(run *r) {
  const tc_program *p = r->p;
  uint64_t found, which;
  TC_TRY(tc_gpu_launches_run(p->gpu, p, &r->at, r->num, r->skip, r->words, &found));
  if (found == TC_GPU_NO_FAULT) return TC_OK;
  which = found >> TC_GPU_FAULT_SHIFT;
  r->fault->position = (int64_t)(found & ((UINT64_C(1) << TC_GPU_FAULT_SHIFT) - 1));
  const tc_step *s = p->step;
  while (s->kind != TC_STEP_CHECK || which-- > 0) s++;
  return stop(r, s, TC_ERR_INDEX);
}

static tc_status run_steps(run *r) {
  const tc_program *p = r->p;
  if (p->gpu) return run_on_gpu(r);
  tc_job job = {
      .task = task,
      .arg = r,
      .n_waves = (int)p->n_wave,
      .n_tasks = p->wave_tasks,
      .scratch_bytes = p->scratch_bytes,
      .brief = p->brief,
      .spread = true,
  };
  return p->n_step ? (tc_status)tc_team_run(&job) : TC_OK;
}

static void fill_nums(const tc_program *p, const uint64_t *arg, uint64_t *num) {
  for (uint32_t i = 0; i < p->n_num; i++) num[i] = p->num[i].is_arg ? arg[p->num[i].value] : p->num[i].value;
}

// ---- prepared values ----

// What a step of preparing reads and gives.
typedef struct preparing {
  tc_prepared_key key;
  uint64_t stamp[TC_MAX_BUFS];
  tc_buffer *in[TC_MAX_BUFS], *out[TC_MAX_BUFS];
  uint32_t n_in, n_out, kept[TC_MAX_BUFS];  // kept: which prepared value a result is
  bool lasting;  // all it reads has a stamp
} preparing;

static void describe(const tc_program *q, const tc_plan *plan, const tc_step *s, const uint64_t *num, const tc_leaf *held, tc_buffer *const *kept,
                     preparing *x) {
  uint32_t first_kept = plan->n_leaf + plan->n_out;
  x->n_in = x->n_out = 0, x->lasting = held != NULL;
  for (uint32_t j = 0; j < s->n_bind; j++) {
    uint32_t place = q->bind[s->first_bind + j];
    if (s->writes >> j & 1) {
      x->kept[x->n_out++] = place - first_kept;
      continue;
    }
    tc_buffer *b = place >= first_kept ? kept[place - first_kept] : held ? held[place].buf : NULL;
    x->stamp[x->n_in] = b ? tc_buffer_stamp(b) : 0;
    x->lasting &= x->stamp[x->n_in] != 0;
    x->in[x->n_in++] = b;
  }
  x->key = (tc_prepared_key){s->kernel, s->extent, num + s->first_num, s->n_num, x->stamp, x->n_in};
}

// Memory for what a step makes in this run.
static tc_status take_results(const tc_program *p, const tc_plan *plan, preparing *x) {
  for (uint32_t i = 0; i < x->n_out; i++) {
    tc_status st = tc_buffer_create_on((tc_device)plan->dev[0], p->kept_bytes[x->kept[i]], &x->out[i]);
    if (st != TC_OK) {
      while (i-- > 0) tc_buffer_release(x->out[i]);
      return st;
    }
    tc_buffer_tell(x->out[i], TC_HOLDS_PREPARED, (tc_call){NULL, 0});
    if (!x->lasting) tc_buffer_unstamp(x->out[i]);
  }
  return TC_OK;
}

// The step's results are the run's from now on.
static void put(const run *whole, const tc_plan *plan, const preparing *x, tc_buffer **kept) {
  for (uint32_t k = 0; k < x->n_out; k++) {
    kept[x->kept[k]] = x->out[k];
    whole->at.place[plan->n_leaf + plan->n_out + x->kept[k]] = x->out[k]->ptr;
  }
}

// Held while a run asks for the memory of all it will prepare: two that each got a part would both fail.
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&asking, 2)

// Whether there may be room for what is missing, told before any is taken from others.
static bool may_have_room(tc_program *p, tc_device d, size_t missing_bytes) {
  uint32_t unasked = atomic_load_explicit(&p->n_unasked, memory_order_relaxed);
  if (unasked) atomic_store_explicit(&p->n_unasked, unasked - 1, memory_order_relaxed);  // of threads that race one counts
  size_t room = tc_buffer_room(d);
  if (unasked || missing_bytes > room) return false;
  bool fits = p->gpu || room < SIZE_MAX || missing_bytes <= tc_room("") / 2;  // without a cap the system is asked, which takes longer
  if (!fits) atomic_store_explicit(&p->n_unasked, UNASKED_RUNS, memory_order_relaxed);
  return fits;
}

// Memory for all that is missing, or the run is left without: nothing was done yet, so that another plan may run instead.
static tc_status take_missing(const run *whole, const tc_plan *plan, const uint64_t *num, const tc_leaf *held, const uint64_t *skip, tc_buffer **kept,
                              tc_work_done *done) {
  tc_program *p = plan->program;
  const tc_program *q = p->prepare;
  tc_device d = (tc_device)plan->dev[0];
  tc_status st = TC_OK;
  size_t bytes = 0;
  for (uint32_t i = 0; i < p->n_kept; i++) bytes += kept[i] ? 0 : tc_buffer_rounded(p->kept_bytes[i]);
  pthread_mutex_lock(&asking);
  bool asked = may_have_room(p, d, bytes);
  if (!asked) st = TC_FAIL(TC_ERR_MEMORY, "no room for %zu bytes of prepared values", bytes);
  for (uint32_t i = 0; i < q->n_step && st == TC_OK; i++) {
    preparing x;
    if (skip[i]) continue;
    describe(q, plan, &q->step[i], num, held, kept, &x);
    if ((st = take_results(p, plan, &x)) != TC_OK) break;
    for (uint32_t k = 0; k < x.n_out; k++) done->taken_bytes += p->kept_bytes[x.kept[k]];
    put(whole, plan, &x, kept);
  }
  pthread_mutex_unlock(&asking);
  if (st != TC_ERR_MEMORY) return st;
  if (asked) atomic_store_explicit(&p->n_unasked, UNASKED_RUNS, memory_order_relaxed);
  done->lacks_forms = true;
  if (tc_log_on(TC_LOG_MEMORY))
    tc_log_line(TC_LOG_MEMORY, "plan %016llx: no room for %zu bytes of prepared values; this run makes what it needs, and keeps nothing",
                (unsigned long long)plan->hash.lo, bytes);
  return st;
}

// Whether what is missing should be made now: not where parameters have changed again before the last forms were of use, as between a step of training and the
// next one, until a run finds the same contents that the last one found.
static bool is_worth_making(tc_program *p, uint64_t contents) {
  if (!p->graph.packs_few || atomic_load_explicit(&p->n_used, memory_order_relaxed) >= LEAST_USES) return true;
  return atomic_exchange_explicit(&p->refused, contents, memory_order_relaxed) == contents;
}

// Finds prepared values, or makes and keeps them. kept: their buffers, retained where not NULL on return, whatever the status.
// done: added to, if not NULL; then the run may be left without.
static tc_status prepare(const run *whole, const tc_plan *plan, const uint64_t *arg, const tc_leaf *held, uint64_t *list, tc_buffer **kept,
                         tc_work_done *done) {
  tc_work_done ignored = {0};
  tc_program *p = plan->program;
  const tc_program *q = p->prepare;
  uint64_t *skip = list, *num = list + q->n_step, contents = 0;
  uint32_t n_made = 0;
  preparing x;
  fill_nums(q, arg, num);
  for (uint32_t i = 0; i < q->n_step; i++) {
    describe(q, plan, &q->step[i], num, held, kept, &x);
    skip[i] = x.lasting && tc_prepared_find(&x.key, x.n_out, x.out);
    n_made += !skip[i];
    if (skip[i]) put(whole, plan, &x, kept);
    for (uint32_t k = 0; k < x.n_in && !skip[i]; k++) contents = (contents ^ x.stamp[k]) * UINT64_C(0x9E3779B97F4A7C15);
  }
  if (n_made == 0) {
    uint32_t used = atomic_load_explicit(&p->n_used, memory_order_relaxed);
    if (used < LEAST_USES) atomic_store_explicit(&p->n_used, used + 1, memory_order_relaxed);
    return TC_OK;
  }
  if (done && held && !is_worth_making(p, contents)) {
    done->lacks_forms = true;
    return TC_FAIL(TC_ERR_STATE, "%u prepared values would not be used for long", n_made);
  }
  atomic_store_explicit(&p->n_used, 0, memory_order_relaxed);
  if (!done) done = &ignored;
  TC_TRY(take_missing(whole, plan, num, held, skip, kept, done));
  run r = *whole;
  r.p = q, r.num = num, r.skip = skip;
  TC_TRY(run_steps(&r));
  done->n_kernels += tc_waves_count_kernels(q, skip);
  for (uint32_t i = 0; i < q->n_step; i++) {
    if (skip[i]) continue;
    done->bytes += q->step[i].bytes;
    describe(q, plan, &q->step[i], num, held, kept, &x);
    for (uint32_t k = 0; k < x.n_out; k++) x.out[k] = kept[x.kept[k]];
    if (x.lasting) tc_prepared_keep(&x.key, x.n_out, x.out, x.in);
  }
  return TC_OK;
}

// ---- a launch ----

// Whether one of its kernels is yet to be compiled.
static bool interprets(tc_program *p) {
  if (!atomic_load_explicit(&p->interprets, memory_order_relaxed)) return false;
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kind == TC_STEP_KERNEL && tc_kernel_tier(p->step[i].kernel) == TC_INTERPRETED_FIRST) return true;
  atomic_store_explicit(&p->interprets, false, memory_order_relaxed);
  return false;
}

// Side by side what another thread reads of a launch: its lines come at once (runtime/team.h).
typedef struct launch {
  run r;
  fault stopped_by;
  uint64_t fixed[512];
} launch;

// A run's arena, and its lists of so many bytes: in one on the CPU, on a GPU in memory of the host.
static tc_status take_memory(const tc_plan *plan, size_t lists, tc_buffer **arena, tc_buffer **beside) {
  const tc_program *p = plan->program;
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : lists);
  if (!p->gpu) return bytes ? tc_buffer_create(tc_buffer_fit(bytes), arena) : TC_OK;
  TC_TRY(bytes ? tc_buffer_create_on((tc_device)plan->dev[0], bytes, arena) : TC_OK);
  tc_buffer_tell(*arena, TC_HOLDS_ARENA, (tc_call){NULL, 0});
  tc_status st = lists ? tc_buffer_create(lists, beside) : TC_OK;
  if (st != TC_OK) tc_buffer_release(*arena);
  return st;
}

tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg, const tc_call *call, const tc_leaf *held,
                            tc_work_done *prepared) {
  const tc_program *p = plan->program, *q = p->prepare;
  launch l;
  uint64_t *num = l.fixed;
  uint32_t n_place = plan->n_leaf + plan->n_out + p->n_kept, n_lists = p->n_num + n_place + p->n_kept + q->n_step + q->n_num;
  uint32_t n_words = p->gpu ? TC_MAX_OF(tc_gpu_launches_words(p->gpu), tc_gpu_launches_words(q->gpu)) : 0;
  size_t lists = (n_lists + n_words) * sizeof *num;
  tc_buffer *arena = NULL, *beside = NULL;
  if (lists <= sizeof l.fixed) lists = 0;
  TC_TRY(take_memory(plan, lists, &arena, &beside));
  if (lists) num = p->gpu ? beside->ptr : (uint64_t *)(void *)((char *)arena->ptr + p->arena_bytes);  // whole blocks of 64 bytes lie before it
  void **place = (void **)(num + p->n_num);
  tc_buffer **kept = (tc_buffer **)(place + n_place);
  fill_nums(p, arg, num);
  for (uint32_t i = 0; i < plan->n_leaf; i++) place[i] = leaf[i];
  for (uint32_t i = 0; i < plan->n_out; i++) place[plan->n_leaf + i] = out[i];
  for (uint32_t i = 0; i < p->n_kept; i++) kept[i] = NULL;
  l.stopped_by = (fault){.step = NULL};
  l.r = (run){.p = p,
              .at = {place, (char *const *)(void *)(place + plan->n_leaf), arena ? arena->ptr : NULL},
              .num = num,
              .fault = &l.stopped_by,
              .words = num + n_lists,
              .timed = tc_options_get()->profile > 1};
  tc_status st = q->n_step ? prepare(&l.r, plan, arg, held, (uint64_t *)(kept + p->n_kept), kept, prepared) : TC_OK;
  if (prepared) prepared->interpreted = interprets(plan->program);
  if (st == TC_OK) st = run_steps(&l.r);
  tc_promote_look();
  if (st == TC_OK && p->gpu && prepared) {
    tc_gpu_how how = tc_gpu_launches_how(p->gpu);
    prepared->replayed = how.replayed, prepared->gpu_note = how.note, prepared->copied_bytes = how.copied_bytes;
  }
  if (l.stopped_by.step) report(plan, &l.r, call);
  for (uint32_t i = 0; i < p->n_kept; i++) tc_buffer_release(kept[i]);
  tc_buffer_release(arena);
  tc_buffer_release(beside);
  return st;
}
