// Opens a program's file: chooses the target, wraps weights, loads kernels, and builds programs of
// checked records. See loaded.h.
#include "lowering/export/loaded.h"

#include <string.h>

#include "lowering/export/check.h"
#include "lowering/export/kernels.h"
#include "lowering/export/targets.h"
#include "lowering/program/control.h"
#include "lowering/program/program.h"
#include "lowering/program/stages.h"
#include "lowering/program/steps.h"
#include "lowering/target/host_cpu.h"
#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/reentry.h"
#include "runtime/team.h"

// Words behind a program's attributes, which reference kernels do not count.
#define MORE_ATTRS 64

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
}

// ---- the target ----

// Why this processor, or TC_ISA, does not take the target; "": it does.
static void refuse_target(const tc_tcx_image *x, const tc_tcx_target *t, char *why, size_t bytes) {
  char facts[TC_HOST_FACTS_BYTES];
  const char *name = x->strings + t->isa, *asked = tc_options_get()->isa;
  const tc_isa *isa = tc_isa_named(name), *most = asked ? tc_isa_named(asked) : NULL;
  *why = 0;
  if (t->interpreted) return;
  if (!isa) {
    snprintf(why, bytes, "is not known here");
  } else if (tc_isa_runs_here(isa, why, bytes)) {
    if (t->facts != TC_TCX_NONE) tc_host_facts(facts);
    if (t->facts != TC_TCX_NONE && strcmp(facts, x->strings + t->facts) != 0)
      snprintf(why, bytes, "is code for exactly the processor that exported it");
    else if (most && tc_isa_is_of_host(most) && isa < most)
      snprintf(why, bytes, "exceeds TC_ISA=%s", asked);
  }
}

// Whether target a is better than b. Code is better than kernel IR, that of one processor better
// than that of any. A set is better that this processor would be planned for without a file. Of
// those that are left wide vectors are better than narrow ones: the order of isa.def.
static bool is_better(const tc_tcx_image *x, const tc_tcx_target *a, const tc_tcx_target *b) {
  char features[TC_HOST_FEATURES_BYTES];
  const tc_isa *of_a = tc_isa_named(x->strings + a->isa), *of_b = tc_isa_named(x->strings + b->isa), *planned;
  if (a->interpreted != b->interpreted) return b->interpreted;
  if ((a->facts != TC_TCX_NONE) != (b->facts != TC_TCX_NONE)) return a->facts != TC_TCX_NONE;
  tc_host_features(features);
  planned = tc_isa_of_host(features, NULL);
  if ((of_a < planned) != (of_b < planned)) return of_b < planned;
  return of_a < of_b;
}

static tc_status choose_target(tc_program_file *p) {
  const tc_tcx_image *x = p->x;
  char why[200], all[600] = "";
  p->target = TC_TCX_NONE;
  for (uint32_t i = 0; i < x->n_targets; i++) {
    const tc_tcx_target *t = &x->targets[i];
    refuse_target(x, t, why, sizeof why);
    if (*why) tc_text_append(all, sizeof all, "%s%.32s %s", *all ? "; " : "", x->strings + t->isa, why);
    if (!*why && (p->target == TC_TCX_NONE || is_better(x, t, &x->targets[p->target]))) p->target = i;
  }
  if (p->target == TC_TCX_NONE)
    return TC_FAIL(TC_ERR_DEVICE, "none of the file's targets runs on this processor: %s", all);
  const tc_tcx_target *t = &x->targets[p->target];
  snprintf(p->target_name, sizeof p->target_name, "%s%.30s",
           t->interpreted            ? "interpreted "
           : t->facts != TC_TCX_NONE ? "native "
                                     : "",
           x->strings + t->isa);
  return TC_OK;
}

// ---- values and weights ----

static tc_program_value *describe_values(const tc_tcx_image *x, const tc_tcx_value *v, uint32_t n) {
  tc_program_value *out = tc_calloc(n + 1, sizeof *out);
  for (uint32_t i = 0; out && i < n; i++) {
    out[i] = (tc_program_value){.name = x->strings + v[i].name, .type = (tc_type)v[i].type, .shape.rank = v[i].rank};
    for (int k = 0; k < v[i].rank; k++) {
      out[i].shape.dim[k] = v[i].dim[k];
      if (v[i].size[k] != TC_TCX_NONE) out[i].dims[k] = x->strings + x->symbols[v[i].size[k]].name;
    }
  }
  return out;
}

static tc_program_value *describe_weights(const tc_tcx_image *x) {
  tc_program_value *out = tc_calloc(x->head->n_shown_weights + 1, sizeof *out);
  for (uint32_t i = 0; out && i < x->head->n_shown_weights; i++) {
    const tc_tcx_weight *w = &x->weights[i];
    out[i] = (tc_program_value){.name = x->strings + w->name, .type = (tc_type)w->type, .shape.rank = w->rank};
    for (int k = 0; k < w->rank; k++) out[i].shape.dim[k] = w->dim[k];
  }
  return out;
}

static void drop_image(void *arg) {
  tc_tcx_release(arg);
}

// Each weight's buffer retains the image: a tensor may outlive the program.
static tc_status wrap_weights(tc_program_file *p) {
  tc_tcx_image *x = p->x;
  if (!(p->weight_buf = tc_calloc(x->n_weights + 1, sizeof(tc_buffer *)))) return no_room();
  for (uint32_t i = 0; i < x->n_weights; i++) {
    void *at = (void *)(uintptr_t)(x->weight_data + x->weights[i].offset);
    TC_TRY(tc_buffer_wrap(at, x->weights[i].bytes, TC_ORIGIN_BORROWED, drop_image, x, &p->weight_buf[i]));
    (void)tc_tcx_retain(x);
    tc_buffer_settle(p->weight_buf[i]);  // nobody writes a file's pages: constants made of it are kept
  }
  return TC_OK;
}

// ---- programs ----

static tc_status find_kernel(tc_program_file *p, uint32_t number, tc_kernel **out) {
  const tc_tcx_image *x = p->x;
  const tc_tcx_kernel *k = &x->kernels[number];
  const char *name = x->strings + k->name;
  tc_status st = TC_OK;
  if (!p->kernel[number])
    st = k->interpreted
             ? tc_kernel_of_key(name, x->code + k->offset, k->bytes, k->n_num, k->n_buf, &p->kernel[number])
             : tc_kernel_of_object(name, x->code + k->offset, k->bytes, k->scratch_bytes, &p->kernel[number]);
  if (st == TC_ERR_COMPILE) {
    char text[256];
    snprintf(text, sizeof text, "%s", tc_last_error()->message);
    return TC_FAIL(TC_ERR_IO, "kernel %s: %s", name, text);
  }
  if (st != TC_OK) return st;
  atomic_fetch_add_explicit(&p->kernel[number]->refs, 1, memory_order_relaxed);
  return *out = p->kernel[number], TC_OK;
}

static tc_status build_control(tc_program_file *p, uint32_t number, tc_control **out);

static const uint8_t kinds[TC_TCX_N_STEP_KINDS] = {[TC_TCX_STEP_KERNEL] = TC_STEP_KERNEL,
                                                   [TC_TCX_STEP_ROW] = TC_STEP_ROW,
                                                   [TC_TCX_STEP_ZERO] = TC_STEP_ZERO,
                                                   [TC_TCX_STEP_CHECK] = TC_STEP_CHECK,
                                                   [TC_TCX_STEP_CONTROL] = TC_STEP_CONTROL};

static tc_status build_step(tc_program_file *p, const tc_tcx_step *from, uint32_t i, tc_program *q) {
  tc_step *s = &q->step[i];
  uint32_t op = 0;
  if (from->op != TC_TCX_NONE) (void)tc_tcx_op(p->x->strings + from->op, &op);
  *s = (tc_step){.kind = kinds[from->kind],
                 .op = (tc_op)op,
                 .first_binding = from->first_binding,
                 .n_binding = from->n_binding,
                 .first_num = from->first_num,
                 .n_num = from->n_num,
                 .extent = from->extent,
                 .grain = 1,
                 .stage = from->stage,
                 .node = i,
                 .work = from->work,
                 .is_matmul = from->is_matmul,
                 .writes = from->writes,
                 .bytes = from->bytes,
                 .same = from->same};
  if (from->kind == TC_TCX_STEP_KERNEL) {
    TC_TRY(find_kernel(p, from->kernel, &s->kernel));
    q->scratch_bytes = TC_MAX_OF(q->scratch_bytes, s->kernel->scratch_bytes);
  } else if (from->kind == TC_TCX_STEP_CONTROL) {
    q->n_control++;
    TC_TRY(build_control(p, from->kernel, &s->control));
  } else if (from->kind != TC_TCX_STEP_CHECK) {
    s->row.value = from->value, s->row.attr = from->attr;
  }
  return TC_OK;
}

static tc_status build_row_values(const tc_tcx_image *x, const tc_tcx_steps *f, tc_program *q) {
  q->row_value = tc_calloc(f->row_value.n + 1, sizeof *q->row_value);
  q->row_attr = tc_calloc(f->row_attr.n + MORE_ATTRS, sizeof *q->row_attr);
  if (!q->row_value || !q->row_attr) return no_room();
  if (f->row_attr.n) memcpy(q->row_attr, x->words + f->row_attr.first, f->row_attr.n * sizeof *q->row_attr);
  for (uint32_t i = 0; i < f->row_value.n; i++) {
    const tc_tcx_row_value *v = &x->row_values[f->row_value.first + i];
    tc_dims d = {.rank = v->rank};
    int64_t count;
    for (int k = 0; k < v->rank && k < TC_MAX_RANK; k++) d.dim[k] = v->dim[k];
    // A value that no step has was not checked.
    uint32_t shape = v->rank <= TC_MAX_RANK && tc_dims_product(&d, &count) ? tc_dims_intern(&d) : TC_SHAPE_NONE;
    if (shape == TC_SHAPE_NONE) return no_room();
    q->row_value[i] = (tc_row_value){tc_dims_at(shape), (tc_type)v->type};
  }
  q->n_row_value = f->row_value.n, q->n_row_attr = f->row_attr.n;
  return TC_OK;
}

static tc_status build_steps(tc_program_file *p, const tc_tcx_steps *f, tc_program *q) {
  const tc_tcx_image *x = p->x;
  q->step = tc_calloc(f->step.n + 1, sizeof *q->step);
  q->binding = tc_malloc((f->binding.n + 1) * sizeof *q->binding);
  q->num = tc_malloc((f->num.n + 1) * sizeof *q->num);
  q->allocation = tc_malloc((f->allocation.n + 1) * sizeof *q->allocation);
  if (!q->step || !q->binding || !q->num || !q->allocation) return no_room();
  TC_TRY(build_row_values(x, f, q));
  if (f->binding.n) memcpy(q->binding, x->bindings + f->binding.first, f->binding.n * sizeof *q->binding);
  q->n_binding = q->cap_binding = f->binding.n;
  for (uint32_t i = 0; i < f->num.n; i++) {
    const tc_tcx_num *num = &x->nums[f->num.first + i];
    q->num[i] = (tc_num_source){num->is_arg, num->value};
  }
  q->n_num = q->cap_num = f->num.n;
  for (uint32_t i = 0; i < f->allocation.n; i++) {
    const tc_tcx_allocation *a = &x->allocations[f->allocation.first + i];
    q->allocation[i] = (tc_allocation){a->bytes, a->offset, a->in, a->first, a->last, false};
  }
  q->n_allocation = q->cap_allocation = f->allocation.n;
  q->arena_bytes = f->arena_bytes;
  for (uint32_t i = 0; i < f->step.n; i++) {
    q->n_step = q->cap_step = i + 1;
    TC_TRY(build_step(p, &x->steps[f->step.first + i], i, q));
  }
  return TC_OK;
}

static tc_status build_program(tc_program_file *p, const tc_tcx_plan *f, tc_plan *plan) {
  tc_program *q = plan->program = tc_calloc(1, sizeof *q);
  if (!q || !(q->prepare = tc_calloc(1, sizeof *q->prepare))) return no_room();
  q->graph.plan = q->prepare->graph.plan = plan;
  if (!(q->cached_bytes = tc_calloc(f->constant.n + 1, sizeof *q->cached_bytes))) return no_room();
  for (uint32_t i = 0; i < f->constant.n; i++) q->cached_bytes[i] = p->x->byte_counts[f->constant.first + i];
  q->n_cached = q->cap_cached = f->constant.n;
  TC_TRY(build_steps(p, &f->run, q));
  TC_TRY(build_steps(p, &f->prepare, q->prepare));
  atomic_store_explicit(&q->n_used, UINT32_MAX, memory_order_relaxed);
  return TC_OK;
}

static bool divide_steps(tc_program *q) {
  for (uint32_t i = 0; i < q->n_step; i++) {
    tc_step *s = &q->step[i];
    if (s->kind != TC_STEP_ROW) continue;
    s->extent = tc_step_splits(s->op, q->row_value[s->row.value].shape->count) ? tc_team_threads() : 1;
  }
  return tc_stages_schedule(q);
}

// Held while steps are divided, which happens once a plan.
static pthread_mutex_t divides = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&divides, 3)

// pre: locked.
static tc_status divide_plan(tc_loaded_plan *l) {
  tc_program *q = l->plan.program;
  if (!q || atomic_load_explicit(&l->divided, memory_order_relaxed)) return TC_OK;
  // After a failure the lists of the first try are in the way.
  tc_free(q->stage_first), tc_free(q->stage_tasks);
  tc_free(q->prepare->stage_first), tc_free(q->prepare->stage_tasks);
  q->stage_first = q->prepare->stage_first = NULL, q->stage_tasks = q->prepare->stage_tasks = NULL;
  if (!divide_steps(q) || !divide_steps(q->prepare)) return no_room();
  atomic_store_explicit(&l->divided, true, memory_order_release);
  return TC_OK;
}

tc_status tc_loaded_plan_divide(const tc_program_file *p, tc_loaded_plan *l) {
  tc_status st = TC_OK;
  pthread_mutex_lock(&divides);
  for (uint32_t i = 0; i < p->x->n_bodies && st == TC_OK; i++) st = divide_plan(&p->body[i]);
  if (st == TC_OK) st = divide_plan(l);
  pthread_mutex_unlock(&divides);
  return st;
}

// ---- plans ----

static tc_status describe_plan(const tc_program_file *p, const tc_tcx_plan *f, tc_loaded_plan *l) {
  const tc_tcx_image *x = p->x;
  tc_plan *plan = &l->plan;
  atomic_store_explicit(&plan->refs, 1, memory_order_relaxed);
  plan->n_leaf = f->leaf.n, plan->n_out = f->out.n, plan->n_arg = f->arg.n, plan->n_node = f->run.step.n;
  plan->dev = tc_calloc(f->run.step.n + 1, 1);  // TC_DEVICE_CPU
  plan->out = tc_calloc(f->out.n + 1, sizeof *plan->out);
  l->held = tc_calloc(f->leaf.n + 1, sizeof *l->held);
  l->call = tc_calloc(f->run.step.n + 1, sizeof *l->call);
  l->arg = tc_calloc(f->arg.n + 1, sizeof *l->arg);
  if (!plan->dev || !plan->out || !l->held || !l->call || !l->arg) return no_room();
  for (uint32_t i = 0; i < f->out.n; i++)
    plan->out[i] = (tc_out){.donor = TC_LEAF_NONE, .bytes = x->byte_counts[f->out.first + i]};
  for (uint32_t i = 0; i < f->leaf.n; i++) {
    const tc_tcx_leaf *leaf = &x->leaves[f->leaf.first + i];
    if (leaf->kind == TC_TCX_WEIGHT || leaf->kind == TC_TCX_STORED) l->held[i].buf = p->weight_buf[leaf->number];
  }
  if (f->arg.n) memcpy(l->arg, x->words + f->arg.first, f->arg.n * sizeof *l->arg);
  for (uint32_t i = 0; i < f->run.step.n; i++) {
    const tc_tcx_step *s = &x->steps[f->run.step.first + i];
    uint32_t op;
    if (s->op != TC_TCX_NONE && tc_tcx_op(x->strings + s->op, &op))
      l->call[i] = (tc_call){tc_op_names[op], (tc_site)(uintptr_t)tc_tcx_text(x, s->site)};
  }
  return TC_OK;
}

// What control flow reads of a body: the bytes of operands, which stand for their types and shapes.
static tc_status fill_body(const tc_tcx_image *x, const tc_tcx_body *f, tc_loaded_plan *l) {
  tc_body *b = &l->body;
  uint32_t n = f->plan.leaf.n;
  *b = (tc_body){
      .n_in = n, .n_out = f->plan.out.n, .n_arg = f->plan.arg.n, .n_counter = f->counter.n, .n_draw = f->n_draw};
  b->word = tc_calloc(2 * (size_t)n + 2, sizeof *b->word), b->at = tc_calloc(n + 1, sizeof *b->at);
  b->counter = tc_calloc(f->counter.n + 1, sizeof *b->counter), b->call = l->call;
  if (!b->word || !b->at || !b->counter) return no_room();
  for (uint32_t i = 0; i < n; i++) {
    const tc_dims d = {.rank = 1, .dim = {(int64_t)x->leaves[f->plan.leaf.first + i].bytes}};
    uint32_t shape = tc_dims_intern(&d);
    if (shape == TC_SHAPE_NONE) return no_room();
    b->at[i] = 2 * i;
    *(tc_rec *)(void *)(b->word + b->at[i]) = (tc_rec){.op_args = TC_OP_LEAF, .dtype = TC_U8, .shape = shape};
  }
  if (f->counter.n) memcpy(b->counter, x->places + f->counter.first, f->counter.n * sizeof *b->counter);
  return TC_OK;
}

static tc_status load_body(tc_program_file *p, uint32_t number) {
  tc_loaded_plan *l = &p->body[number];
  if (l->file) return TC_OK;
  l->file = &p->x->bodies[number].plan;
  TC_TRY(describe_plan(p, l->file, l));
  TC_TRY(fill_body(p->x, &p->x->bodies[number], l));
  return build_program(p, l->file, &l->plan);
}

static tc_status build_control(tc_program_file *p, uint32_t number, tc_control **out) {
  const tc_tcx_control *f = &p->x->controls[number];
  tc_control_facts facts = {.kind = (tc_control_kind)f->kind,
                            .reverse = f->reverse,
                            .keeps = f->keeps,
                            .n_carry = f->n_carry,
                            .n_scanned = f->n_scanned,
                            .n_stacked = f->n_stacked,
                            .n_step = f->n_step,
                            .n_body = f->n_body,
                            .first_in = f->kind == TC_CONTROL_COND};
  tc_plan *plan[2];
  for (uint32_t i = 0; i < f->n_body; i++) {
    TC_TRY(load_body(p, f->body[i]));
    plan[i] = &p->body[f->body[i]].plan, facts.body[i] = &p->body[f->body[i]].body;
  }
  tc_control_result *result = tc_calloc(f->result.n + 1, sizeof *result);
  if (!result) return no_room();
  for (uint32_t i = 0; i < f->result.n; i++) {
    const tc_tcx_control_result *r = &p->x->control_results[f->result.first + i];
    result[i] = (tc_control_result){.offset = r->offset, .bytes = r->bytes, .step_bytes = r->step_bytes};
  }
  tc_status st = tc_control_of(&facts, result, plan, out);
  tc_free(result);
  return st;
}

static tc_status load_plans(tc_program_file *p) {
  const tc_tcx_image *x = p->x;
  p->plan = tc_calloc(x->n_combinations, sizeof *p->plan);
  p->body = tc_calloc(x->n_bodies + 1, sizeof *p->body);
  p->kernel = tc_calloc(x->n_kernels + 1, sizeof(tc_kernel *));
  if (!p->plan || !p->body || !p->kernel) return no_room();
  for (uint32_t c = 0; c < x->n_combinations; c++) {
    tc_loaded_plan *l = &p->plan[c];
    l->file = &x->plans[c * x->n_targets + p->target];
    l->dim = x->extents + x->combinations[c].dims.first;
    TC_TRY(describe_plan(p, l->file, l));
    TC_TRY(build_program(p, l->file, &l->plan));
  }
  return TC_OK;
}

// ---- the whole ----

static void destroy_plans(tc_loaded_plan *list, uint32_t n) {
  for (uint32_t i = 0; list && i < n; i++) {
    tc_loaded_plan *l = &list[i];
    if (l->plan.program) tc_program_destroy(l->plan.program);
    void *const owned[] = {l->plan.dev, l->plan.out,  l->held,    l->call,
                           l->arg,      l->body.word, l->body.at, l->body.counter};
    for (size_t k = 0; k < sizeof owned / sizeof owned[0]; k++) tc_free(owned[k]);
  }
}

static void destroy_file(tc_program_file *p) {
  const tc_tcx_image *x = p->x;
  if (x) destroy_plans(p->plan, x->n_combinations);
  // Control flow in a body retains bodies before it.
  for (uint32_t i = x && p->body ? x->n_bodies : 0; i-- > 0;) destroy_plans(&p->body[i], 1);
  for (uint32_t i = 0; x && p->kernel && i < x->n_kernels; i++) tc_kernel_release(p->kernel[i]);
  for (uint32_t i = 0; x && p->weight_buf && i < x->n_weights; i++) tc_buffer_release(p->weight_buf[i]);
  void *const owned[] = {p->plan, p->body, p->kernel, p->weight_buf, p->input, p->output, p->weight};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_tcx_release(p->x);
  tc_free(p);
}

static tc_status load_image(tc_program_file *p) {
  TC_TRY(choose_target(p));
  p->input = describe_values(p->x, p->x->inputs, p->x->n_inputs);
  p->output = describe_values(p->x, p->x->outputs, p->x->n_outputs);
  p->weight = describe_weights(p->x);
  if (!p->input || !p->output || !p->weight) return no_room();
  TC_TRY(wrap_weights(p));
  TC_TRY(load_plans(p));
  tc_log_line(TC_LOG_KERNEL, "program of %u plans for %s", p->x->n_combinations, p->target_name);
  return TC_OK;
}

static tc_program_file *load_file(const char *path, const void *data, size_t bytes) {
  tc_program_file *p = tc_calloc(1, sizeof *p);
  tc_status st = !p ? no_room() : path ? tc_tcx_open(path, &p->x) : tc_tcx_open_memory(data, bytes, &p->x);
  if (st == TC_OK) st = load_image(p);
  if (st != TC_OK && p) destroy_file(p), p = NULL;
  return p;
}

tc_program_file *tc_program_load_at(const char *path, tc_site site) {
  if (!path) return tc_fail(TC_ERR_ARG, "program_load", site, "path is NULL"), NULL;
  if (!tc_enter("program_load", site)) return NULL;
  tc_program_file *p = load_file(path, NULL, 0);
  tc_leave();
  return p;
}

tc_program_file *tc_program_load_memory_at(const void *data, size_t bytes, tc_site site) {
  if (!tc_enter("program_load_memory", site)) return NULL;
  tc_program_file *p = load_file(NULL, data, bytes);
  tc_leave();
  return p;
}

void tc_program_close(tc_program_file *p) {
  if (!p || !tc_enter("program_close", 0)) return;
  destroy_file(p);
  tc_leave();
}

const tc_program_value *tc_program_inputs(const tc_program_file *p, int *n) {
  *n = p ? (int)p->x->n_inputs : 0;
  return p ? p->input : NULL;
}

const tc_program_value *tc_program_outputs(const tc_program_file *p, int *n) {
  *n = p ? (int)p->x->n_outputs : 0;
  return p ? p->output : NULL;
}

const tc_program_value *tc_program_weights(const tc_program_file *p, int *n) {
  *n = p ? (int)p->x->head->n_shown_weights : 0;
  return p ? p->weight : NULL;
}

const int64_t *tc_program_sizes(const tc_program_file *p, const char *name, int *n) {
  *n = 0;
  for (uint32_t i = 0; p && name && i < p->x->n_symbols; i++) {
    const tc_tcx_symbol *s = &p->x->symbols[i];
    if (strcmp(p->x->strings + s->name, name) != 0) continue;
    *n = (int)s->size.n;
    return p->x->extents + s->size.first;
  }
  return NULL;
}

const char *tc_program_target(const tc_program_file *p) {
  return p ? p->target_name : "";
}

tc_status tc_program_verify_at(const tc_program_file *p, tc_site site) {
  if (!p) return tc_fail(TC_ERR_ARG, "program_verify", site, "the program is NULL");
  for (uint32_t i = 0; i < p->x->n_weights; i++) {
    const tc_tcx_weight *w = &p->x->weights[i];
    tc_hash sum = tc_hash_bytes(p->x->weight_data + w->offset, w->bytes);
    if (sum.lo != w->sum[0] || sum.hi != w->sum[1])
      return tc_fail(TC_ERR_IO, "program_verify", site, "the file is damaged: weight %u, '%s', has another checksum", i,
                     p->x->strings + w->name);
  }
  return TC_OK;
}
