// Executes steps of every kind, stage by stage. See execute.h.
#include "lowering/program/execute.h"
#include "lowering/program/control.h"

#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/emit/emitter.h"
#include "lowering/kir/libm.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/program/stages.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/team.h"

static tc_ref_fn *const rows[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, lower, reference, sample) \
  [TC_OP_##NAME] = tc_ref_##reference,
#include <tc/ops.def>
#undef TC_OP
};

static void *pointer_of(const tc_execution *r, uint32_t storage) {
  return tc_storage_pointer(r->p, &r->at, storage);
}

static tc_status stop_run(const tc_execution *r, const tc_step *s, tc_status st) {
  tc_execution_fault *f = r->fault;
  if (!atomic_exchange_explicit(&f->taken, true, memory_order_relaxed)) f->step = s, f->status = st;
  return st;
}

// The first out-of-range index in [begin, end), or -1.
static int64_t find_bad_index(const tc_execution *r, const tc_step *s, int64_t begin, int64_t end) {
  const int64_t *index = pointer_of(r, r->p->binding[s->first_binding]);
  int64_t extent = (int64_t)r->num[s->first_num];
  for (int64_t i = begin; i < end; i++)
    if (index[i] < -extent || index[i] >= extent) return i;
  return -1;
}

void tc_execution_report(const tc_plan *plan, const tc_execution *r, const tc_call *call) {
  const tc_execution_fault *f = r->fault;
  const tc_step *s = f->step;
  bool known = call && s->node < plan->n_node && call[s->node].op;
  tc_call by = known ? call[s->node] : (tc_call){tc_op_names[s->op], 0};
  if (s->kind == TC_STEP_CHECK) {
    const int64_t *index = pointer_of(r, r->p->binding[s->first_binding]);
    int64_t at = r->p->gpu ? f->position : find_bad_index(r, s, 0, s->extent), bad = 0;
    if (!r->p->gpu)
      bad = index[at];
    else if (tc_gpu_read(r->p->graph.target.gpu, &bad, index + at, sizeof bad) != TC_OK)
      return;  // the device is lost, and has reported it
    int64_t extent = (int64_t)r->num[s->first_num];
    tc_fail(f->status, by.op, by.site, "index %lld at position %lld is out of range for extent %lld",
            (long long)tc_index_text(bad, extent), (long long)at, (long long)extent);
  } else {
    tc_fail(f->status, by.op, by.site, "%s while it ran", tc_status_text(f->status));
  }
}

// ---- steps ----

// A view of x broadcast to shape d.
static void fill_view(tc_view *v, const tc_row_value *x, const tc_dims *d) {
  *v = (tc_view){.type = x->type, .rank = d->rank};
  tc_dims_broadcast(&x->shape->d, d, v->dim, v->stride);
}

static tc_status run_row(const tc_execution *r, const tc_step *s, int64_t begin, int64_t end) {
  const tc_row_value *x = r->p->row_value + s->row.value;
  const uint32_t *binding = r->p->binding + s->first_binding, n_in = s->n_binding - 1;
  tc_view in[TC_REF_MAX_IN];
  bool elementwise = tc_op_kind_of(s->op) == TC_KIND_ELEM;
  for (uint32_t i = 0; i < n_in; i++) {
    fill_view(&in[i], &x[1 + i], elementwise ? &x->shape->d : &x[1 + i].shape->d);
    in[i].ptr = pointer_of(r, binding[i]);
  }
  const uint64_t *attr = r->p->row_attr + s->row.attr, *arg = r->num + s->first_num;
  tc_ref_call call = {
      .n_in = (int)n_in, .in = in, .attr = attr, .arg = arg, .begin = begin, .end = end, .extent = s->extent};
  fill_view(&call.out, x, &x->shape->d);
  call.out.ptr = pointer_of(r, binding[n_in]);
  uint64_t value = 0;
  if (n_in > 0 && binding[0] == binding[n_in]) {  // operand 0 is one repeated value, the last scalar
    tc_ref_call one = {.out = {.ptr = &value, .type = in[0].type}, .arg = arg + s->n_num - 1};
    TC_TRY(tc_ref_full(&one));
    in[0].ptr = &value;
    memset(in[0].stride, 0, sizeof in[0].stride);
  }
  return rows[s->op](&call);
}

static void run_quietly(const tc_execution *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (s->kind == TC_STEP_KERNEL) {
    void *buf[TC_MAX_BUFS];
    for (uint32_t i = 0; i < s->n_binding; i++) buf[i] = pointer_of(r, r->p->binding[s->first_binding + i]);
    tc_kernel_fn *fn = atomic_load_explicit(&s->kernel->fn, memory_order_acquire);
    fn(s->kernel->ctx, buf, r->num + s->first_num, begin, end, w);
    return;
  }
  if (s->kind == TC_STEP_ZERO) {
    const tc_row_value *x = r->p->row_value + s->row.value;
    memset(pointer_of(r, r->p->binding[s->first_binding]), 0, (size_t)x->shape->count * tc_type_bytes(x->type));
    return;
  }
  tc_status st = s->kind != TC_STEP_CHECK               ? run_row(r, s, begin, end)
                 : find_bad_index(r, s, begin, end) < 0 ? TC_OK
                                                        : TC_ERR_INDEX;
  if (st != TC_OK && w->status == TC_OK) w->status = stop_run(r, s, st);
}

// Threads race for the earliest begin and the latest end. relaxed: the job's end orders them before
// they are read.
static void note_time(tc_step_time *t, uint64_t begin, uint64_t end, uint32_t worker) {
  uint64_t was = atomic_load_explicit(&t->begin, memory_order_relaxed);
  while ((was == 0 || begin < was) && !atomic_compare_exchange_weak(&t->begin, &was, begin)) continue;
  was = atomic_load_explicit(&t->end, memory_order_relaxed);
  while (end > was && !atomic_compare_exchange_weak(&t->end, &was, end)) continue;
  atomic_fetch_or_explicit(&t->workers, UINT64_C(1) << (worker & 63), memory_order_relaxed);
}

static void run_step(const tc_execution *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (s->kind == TC_STEP_CONTROL) return;  // run behind its stage
  if (r->skip && r->skip[s - r->p->step]) return;
  if (TC_LIKELY(!r->times)) {
    run_quietly(r, s, begin, end, w);
    return;
  }
  uint64_t start = tc_ticks();
  run_quietly(r, s, begin, end, w);
  note_time(&r->times[s - r->p->step], start, tc_ticks(), w->id);
}

static void run_task(void *arg, int stage, int64_t index, tc_worker *w) {
  const tc_execution *r = arg;
  const tc_program *p = r->p;
  stage += (int)r->first_stage;
  const tc_step *s = p->step + p->stage_first[stage], *end = p->step + p->stage_first[stage + 1];
  w->math = tc_kir_math_table();
  if (p->stage_tasks[stage] == 1) {
    for (; s < end && !atomic_load_explicit(&r->fault->taken, memory_order_relaxed); s++)
      run_step(r, s, 0, s->extent, w);
    return;
  }
  if (atomic_load_explicit(&r->fault->taken, memory_order_relaxed)) return;
  for (int64_t n = end - s; n > 1;) {  // binary search: the last step whose first task is at or before index
    int64_t half = n / 2;
    bool later = s[half].first_task <= index;
    s += later ? half : 0, n = later ? n - half : half;
  }
  index -= s->first_task;
  run_step(r, s, tc_step_task_begin(s, index), tc_step_task_begin(s, index + 1), w);
}

static tc_status run_on_host(void *arg, const tc_step *s) {
  return tc_control_run(arg, s);
}

static tc_status run_on_gpu(tc_execution *r) {
  const tc_program *p = r->p;
  uint64_t found, which;
  if (TC_UNLIKELY(r->times != NULL)) tc_gpu_launches_time(p, r->times);
  const tc_gpu_between between = {run_on_host, r};
  tc_status st = tc_gpu_launches_run(p->gpu, p, &r->at, r->num, r->skip, r->words, &between, &found);
  if (TC_UNLIKELY(r->times != NULL)) tc_gpu_launches_time(p, NULL);
  TC_TRY(st);
  if (found == TC_GPU_NO_FAULT) return TC_OK;
  which = found >> TC_GPU_FAULT_SHIFT;
  r->fault->position = (int64_t)(found & ((UINT64_C(1) << TC_GPU_FAULT_SHIFT) - 1));
  const tc_step *s = p->step;
  while (s->kind != TC_STEP_CHECK || which-- > 0) s++;
  return stop_run(r, s, TC_ERR_INDEX);
}

// One job of the stages from first on to before end.
static tc_status run_stages(tc_execution *r, uint32_t first, uint32_t end) {
  const tc_program *p = r->p;
  tc_job job = {
      .task = run_task,
      .arg = r,
      .n_stages = (int)(end - first),
      .n_tasks = p->stage_tasks + first,
      .scratch_bytes = p->scratch_bytes,
      .brief = p->brief,
      .spread = true,
  };
  r->first_stage = first;
  return first < end ? (tc_status)tc_team_run(&job) : TC_OK;
}

static tc_status run_control(tc_execution *r, const tc_step *s) {
  uint64_t start = r->times ? tc_ticks() : 0;
  tc_status st = tc_control_run(r, s);
  if (TC_UNLIKELY(r->times != NULL)) note_time(&r->times[s - r->p->step], start, tc_ticks(), 0);
  return st;
}

// The control flow of a stage runs behind the stage's other steps, which it does not depend on.
static tc_status run_controls(tc_execution *r, uint32_t stage) {
  const tc_program *p = r->p;
  for (uint32_t i = p->stage_first[stage]; i < p->stage_first[stage + 1]; i++)
    if (p->step[i].kind == TC_STEP_CONTROL) TC_TRY(run_control(r, &p->step[i]));
  return TC_OK;
}

static bool has_control(const tc_program *p, uint32_t stage) {
  for (uint32_t i = p->stage_first[stage]; i < p->stage_first[stage + 1]; i++)
    if (p->step[i].kind == TC_STEP_CONTROL) return true;
  return false;
}

static bool has_others(const tc_program *p, uint32_t first, uint32_t end) {
  for (uint32_t i = p->stage_first[first]; i < p->stage_first[end]; i++)
    if (p->step[i].kind != TC_STEP_CONTROL) return true;
  return false;
}

tc_status tc_execution_run(tc_execution *r) {
  const tc_program *p = r->p;
  if (p->gpu) return run_on_gpu(r);
  if (TC_LIKELY(p->n_control == 0)) return p->n_step ? run_stages(r, 0, p->n_stage) : TC_OK;
  uint32_t first = 0;
  for (uint32_t stage = 0; stage < p->n_stage; stage++) {
    if (!has_control(p, stage)) continue;
    if (has_others(p, first, stage + 1)) TC_TRY(run_stages(r, first, stage + 1));
    TC_TRY(run_controls(r, stage));
    first = stage + 1;
  }
  return run_stages(r, first, p->n_stage);
}

typedef struct one_step {
  const tc_execution *r;
  const tc_step *s;
  bool whole;  // true: as one task
} one_step;

static void run_share(void *arg, int stage, int64_t index, tc_worker *w) {
  const one_step *x = arg;
  (void)stage;
  w->math = tc_kir_math_table();
  if (x->whole)
    run_step(x->r, x->s, 0, x->s->extent, w);
  else
    run_step(x->r, x->s, tc_step_task_begin(x->s, index), tc_step_task_begin(x->s, index + 1), w);
}

tc_status tc_execution_run_step(tc_execution *r, const tc_step *s) {
  one_step x = {r, s, r->p->stage_tasks[s->stage] == 1};
  int64_t n_tasks = x.whole ? 1 : tc_step_tasks(s);
  tc_job job = {.task = run_share,
                .arg = &x,
                .n_stages = 1,
                .n_tasks = &n_tasks,
                .scratch_bytes = r->p->scratch_bytes,
                .spread = true};
  return (tc_status)tc_team_run(&job);
}

void tc_execution_fill_nums(const tc_program *p, const uint64_t *arg, uint64_t *num) {
  for (uint32_t i = 0; i < p->n_num; i++) num[i] = p->num[i].is_arg ? arg[p->num[i].value] : p->num[i].value;
}
