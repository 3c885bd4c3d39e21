// Lowers for a target, compiles the kernels on the team, and writes steps as records. See lower.h.
#include "lowering/export/lower.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/export/constants.h"
#include "lazy/sync/plan_cache.h"
#include "lowering/jit/compiler.h"
#include "lowering/kir/serialize.h"
#include "lowering/pipeline.h"
#include "lowering/program/control.h"
#include "lowering/program/program.h"
#include "lowering/target/cpu_target.h"
#include "runtime/arena.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/status.h"
#include "runtime/team.h"

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
}

static uint32_t count_of(const tc_tcx_writer *w, int table, size_t bytes) {
  return (uint32_t)(w->table[table].n / bytes);
}

// ---- kernels ----

// A kernel of the program: its first step has the kernel IR.
typedef struct unique {
  const tc_kir *kir;
  uint64_t *key;
  size_t key_bytes;
  tc_hash hash;
  char name[48];
  void *object;  // NULL: it is kept as kernel IR
  size_t bytes;
  tc_status status;
  uint32_t number;  // in the file
} unique;

typedef struct kernels {
  unique *at;
  uint32_t n;
  // Of the program's steps, then of those that make its constants. The kernel's place in `at`; once
  // they are added, its number in the file, or that of control flow.
  uint32_t *of_step;
  const tc_lowering_for *how;
} kernels;

static void fini_kernels(kernels *k) {
  for (uint32_t i = 0; i < k->n; i++) tc_free(k->at[i].key), free(k->at[i].object);
  tc_free(k->at), tc_free(k->of_step);
}

static tc_status add_unique(kernels *k, const tc_pending_kernel *pending, uint32_t *out) {
  unique u = {.kir = &pending->kir, .key_bytes = tc_kir_key_bytes(&pending->kir)};
  if (!(u.key = tc_calloc(1, u.key_bytes))) return no_room();
  tc_kir_write_key(u.kir, u.key);
  u.hash = tc_hash_bytes(u.key, u.key_bytes);
  for (uint32_t i = 0; i < k->n; i++) {
    const unique *x = &k->at[i];
    if (x->hash.lo == u.hash.lo && x->key_bytes == u.key_bytes && memcmp(x->key, u.key, u.key_bytes) == 0 &&
        x->kir->n_num == u.kir->n_num)
      return tc_free(u.key), *out = i, TC_OK;
  }
  snprintf(u.name, sizeof u.name, "tc_%.39s_%04x", pending->stem, (unsigned)(u.hash.lo & 0xffff));
  k->at[ *out = k->n++] = u;
  return TC_OK;
}

static tc_status find_unique(kernels *k, const tc_program *p) {
  uint32_t n = p->n_step + p->prepare->n_step, at = 0;
  k->at = tc_calloc(n + 1, sizeof *k->at), k->of_step = tc_calloc(n + 1, sizeof *k->of_step);
  if (!k->at || !k->of_step) return no_room();
  for (const tc_program *q = p; q; q = q->prepare)
    for (uint32_t i = 0; i < q->n_step; i++, at++)
      if (q->step[i].pending) TC_TRY(add_unique(k, q->step[i].pending, &k->of_step[at]));
  return TC_OK;
}

static void compile_unique(const kernels *k, unique *u) {
  const tc_export_target *t = &k->how->target;
  u->status = tc_compiler_object_for(t->isa, t->native, u->kir, u->name, &u->object, &u->bytes);
}

static void compile_task(void *arg, int stage, int64_t index, tc_worker *worker) {
  const kernels *k = arg;
  tc_error_mark before = tc_error_now();
  (void)stage, (void)worker;
  compile_unique(k, &k->at[index]);
  if (k->at[index].status != TC_OK) (void)tc_error_tell(before);
}

// The team compiles; what fails there fails again here, with an error of this thread. A kernel that
// the generator refuses is kept as kernel IR.
static tc_status compile_kernels(kernels *k) {
  int64_t n = k->n;
  if (k->how->interpreted || n == 0) return TC_OK;
  (void)tc_team_run(&(tc_job){.task = compile_task, .arg = k, .n_stages = 1, .n_tasks = &n});
  for (uint32_t i = 0; i < k->n; i++) {
    unique *u = &k->at[i];
    if (u->object) continue;
    tc_error_mark before = tc_error_now();
    compile_unique(k, u);
    if (u->status == TC_ERR_COMPILE) {
      tc_log_line(TC_LOG_WARN, "%s is exported as kernel IR, and interpreted: %s", u->name, tc_last_error()->message);
      (void)tc_error_tell(before);
    } else {
      TC_TRY(u->status);
    }
  }
  return TC_OK;
}

// From here on of_step has numbers of the file.
static void add_kernels(kernels *k, const tc_program *p, tc_tcx_writer *w) {
  for (uint32_t i = 0; i < k->n; i++) {
    unique *u = &k->at[i];
    const tc_tcx_kernel kernel = {.n_num = u->kir->n_num,
                                  .n_buf = u->kir->n_buf,
                                  .interpreted = !u->object,
                                  .scratch_bytes = u->object ? (uint64_t)u->kir->scratch_bytes : 0};
    u->number = u->object ? tc_tcx_add_kernel(w, u->name, kernel, u->object, u->bytes)
                          : tc_tcx_add_kernel(w, u->name, kernel, u->key, u->key_bytes);
  }
  uint32_t at = 0;
  for (const tc_program *q = p; q; q = q->prepare)
    for (uint32_t i = 0; i < q->n_step; i++, at++)
      if (q->step[i].kind == TC_STEP_KERNEL) k->of_step[at] = k->at[k->of_step[at]].number;
}

// ---- steps ----

// Storage numbers in the file: where constants are stored, they are leaves.
static uint32_t renumber(const tc_plan *plan, const tc_program *p, bool stored, uint32_t storage) {
  uint32_t first_constant = plan->n_leaf + plan->n_out;
  if (!stored || (storage & ARENA_BIT) || storage < plan->n_leaf) return storage;
  return storage < first_constant ? storage + p->n_cached : storage - plan->n_out;
}

// Those that are left out are of other devices than tc:cpu.
static const uint8_t kinds[TC_STEP_LOADED + 1] = {[TC_STEP_KERNEL] = TC_TCX_STEP_KERNEL,
                                                  [TC_STEP_ROW] = TC_TCX_STEP_ROW,
                                                  [TC_STEP_ZERO] = TC_TCX_STEP_ZERO,
                                                  [TC_STEP_CHECK] = TC_TCX_STEP_CHECK,
                                                  [TC_STEP_CONTROL] = TC_TCX_STEP_CONTROL};

// What steps are added with.
typedef struct adder {
  const tc_lowering_for *how;
  tc_tcx_writer *w;
  const tc_plan *plan;  // whose steps they are
  const tc_call *call;  // per node of it
  const kernels *k;
} adder;

static bool is_row(const tc_step *s) {
  return s->kind == TC_STEP_ROW || s->kind == TC_STEP_ZERO || s->kind == TC_STEP_CONTROL;
}

// How many attributes step i has: those up to the next step's.
static uint32_t attrs_of(const tc_program *p, uint32_t i) {
  uint32_t first = p->step[i].row.attr, next = p->n_row_attr;
  for (uint32_t k = 0; k < p->n_step; k++)
    if (is_row(&p->step[k]) && p->step[k].row.value > p->step[i].row.value) next = TC_MIN(next, p->step[k].row.attr);
  return next - first;
}

// number: of the kernel, or of control flow, in the file.
static void add_step(const adder *a, const tc_program *p, uint32_t i, uint32_t number) {
  tc_tcx_writer *w = a->w;
  const tc_step *s = &p->step[i];
  bool row = is_row(s), is_kernel = s->kind == TC_STEP_KERNEL;
  uint32_t n_attr = row ? attrs_of(p, i) : 0;
  char place[160] = "";
  const tc_call *call = !is_kernel && a->call && s->node < a->plan->n_node ? &a->call[s->node] : NULL;
  if (call) tc_site_text(call->site, place, sizeof place);
  const tc_tcx_step x = {.kind = kinds[s->kind],
                         .is_matmul = s->is_matmul,
                         .op = is_kernel ? TC_TCX_NONE : tc_tcx_add_text(w, tc_op_names[s->op]),
                         .kernel = is_kernel || s->kind == TC_STEP_CONTROL ? number : TC_TCX_NONE,
                         .first_binding = s->first_binding,
                         .n_binding = s->n_binding,
                         .first_num = s->first_num,
                         .n_num = s->n_num,
                         .stage = s->stage,
                         .value = row ? s->row.value : 0,
                         .attr = row ? s->row.attr : 0,
                         .site = tc_tcx_add_text(w, *place ? place : NULL),
                         .n_attr = n_attr,
                         .extent = s->extent,
                         .work = s->work,
                         .writes = s->writes,
                         .bytes = s->bytes,
                         .same = s->same};
  (void)TC_TCX_ADD(w, steps, &x, 1);
}

static void add_row_value(const tc_row_value *v, tc_tcx_writer *w) {
  tc_tcx_row_value x = {.type = (uint8_t)v->type, .rank = (uint8_t)v->shape->d.rank};
  for (int i = 0; i < v->shape->d.rank; i++) x.dim[i] = v->shape->d.dim[i];
  (void)TC_TCX_ADD(w, row_values, &x, 1);
}

// number: of each step's kernel or control flow. whole: the program whose storages these are.
static tc_tcx_steps add_steps(const adder *a, const tc_program *p, const uint32_t *number, bool stored,
                              const tc_program *whole) {
  tc_tcx_writer *w = a->w;
  tc_tcx_steps out = {.arena_bytes = p->arena_bytes};
  out.step = (tc_tcx_range){count_of(w, TC_TCX_TABLE_steps, sizeof(tc_tcx_step)), p->n_step};
  for (uint32_t i = 0; i < p->n_step; i++) add_step(a, p, i, number[i]);
  out.binding = (tc_tcx_range){count_of(w, TC_TCX_TABLE_bindings, sizeof(uint32_t)), p->n_binding};
  for (uint32_t i = 0; i < p->n_binding; i++) {
    uint32_t storage = renumber(a->plan, whole, stored, p->binding[i]);
    (void)TC_TCX_ADD(w, bindings, &storage, 1);
  }
  out.num = (tc_tcx_range){count_of(w, TC_TCX_TABLE_nums, sizeof(tc_tcx_num)), p->n_num};
  for (uint32_t i = 0; i < p->n_num; i++)
    (void)TC_TCX_ADD(w, nums, (&(tc_tcx_num){.value = p->num[i].value, .is_arg = p->num[i].is_arg}), 1);
  out.allocation = (tc_tcx_range){count_of(w, TC_TCX_TABLE_allocations, sizeof(tc_tcx_allocation)), p->n_allocation};
  for (uint32_t i = 0; i < p->n_allocation; i++) {
    const tc_allocation *t = &p->allocation[i];
    const tc_tcx_allocation x = {t->bytes, t->offset, t->in, t->first, t->last, 0};
    (void)TC_TCX_ADD(w, allocations, &x, 1);
  }
  out.row_value = (tc_tcx_range){count_of(w, TC_TCX_TABLE_row_values, sizeof(tc_tcx_row_value)), p->n_row_value};
  for (uint32_t i = 0; i < p->n_row_value; i++) add_row_value(&p->row_value[i], w);
  out.row_attr = TC_TCX_ADD_LIST(w, words, p->row_attr, p->n_row_attr);
  return out;
}

// ---- control flow ----

static tc_status lower_program(tc_plan *plan, kernels *k, tc_program **p) {
  tc_compiler_plan_for(k->how->target.isa);
  tc_status st = tc_pipeline_lower_steps(plan, p);
  tc_compiler_plan_for(NULL);
  for (uint32_t i = 0; i < plan->n_out && st == TC_OK; i++)
    if (plan->out[i].donor != TC_LEAF_NONE) st = TC_FAIL(TC_ERR_STATE, "output %u is written over an input", i);
  if (st == TC_OK) st = find_unique(k, *p);
  return st == TC_OK ? compile_kernels(k) : st;
}

static tc_status add_controls(const adder *a, const tc_program *p, uint32_t *number);

static void add_counts(tc_tcx_writer *w, const tc_plan *plan, tc_tcx_plan *out) {
  out->out = (tc_tcx_range){count_of(w, TC_TCX_TABLE_byte_counts, sizeof(uint64_t)), plan->n_out};
  for (uint32_t i = 0; i < plan->n_out; i++) (void)TC_TCX_ADD(w, byte_counts, (&(uint64_t){plan->out[i].bytes}), 1);
}

static void fill_body(const adder *a, const tc_body *b, const tc_program *p, tc_tcx_body *x) {
  tc_tcx_writer *w = a->w;
  x->plan.leaf = (tc_tcx_range){count_of(w, TC_TCX_TABLE_leaves, sizeof(tc_tcx_leaf)), b->n_in};
  for (uint32_t i = 0; i < b->n_in; i++) {
    const tc_rec *r = tc_body_rec(b, i);
    const uint64_t bytes = (uint64_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
    (void)TC_TCX_ADD(w, leaves, (&(tc_tcx_leaf){TC_TCX_OPERAND, i, bytes}), 1);
  }
  add_counts(w, a->plan, &x->plan);
  x->plan.arg = (tc_tcx_range){count_of(w, TC_TCX_TABLE_words, sizeof(uint64_t)), b->n_arg};
  for (uint32_t i = 0; i < b->n_arg; i++) (void)TC_TCX_ADD(w, words, (&(uint64_t){0}), 1);
  x->plan.run = add_steps(a, p, a->k->of_step, false, p);
  x->counter = TC_TCX_ADD_LIST(w, places, b->counter, b->n_counter);
  x->n_draw = b->n_draw;
}

static tc_status add_body(const adder *outer, const tc_body *b, uint32_t *out) {
  tc_program *p = NULL;
  kernels k = {.how = outer->how};
  tc_tcx_body x = {.n_draw = 0};
  tc_plan *plan = tc_plan_allocate_of_body(b, TC_DEVICE_CPU, outer->plan);
  if (!plan) return no_room();
  const adder a = {outer->how, outer->w, plan, b->call, &k};
  tc_status st = lower_program(plan, &k, &p);
  if (st == TC_OK) add_kernels(&k, p, a.w), st = add_controls(&a, p, k.of_step);
  if (st == TC_OK) fill_body(&a, b, p, &x), *out = TC_TCX_ADD(a.w, bodies, &x, 1);
  fini_kernels(&k);
  if (p) tc_program_destroy(p);
  tc_plan_release(plan);
  return st;
}

static tc_status add_control(const adder *a, const tc_program *p, uint32_t i, uint32_t *number) {
  tc_control_facts f;
  uint64_t bytes;
  if (!tc_control_facts_of(p->row_attr + p->step[i].row.attr, (int)attrs_of(p, i), &f))
    return TC_FAIL(TC_ERR_STATE, "the body of control flow is not known");
  uint32_t n = tc_control_n_results(&f);
  tc_control_result *result = tc_malloc((n + 1) * sizeof *result);
  if (!result || !tc_control_layout(&f, result, &bytes)) return tc_free(result), no_room();
  tc_tcx_control x = {.kind = f.kind,
                      .reverse = f.reverse,
                      .keeps = f.keeps,
                      .n_carry = f.n_carry,
                      .n_scanned = f.n_scanned,
                      .n_stacked = f.n_stacked,
                      .n_step = f.n_step,
                      .n_body = f.n_body};
  tc_status st = TC_OK;
  for (uint32_t k = 0; k < f.n_body && st == TC_OK; k++) st = add_body(a, f.body[k], &x.body[k]);
  x.result = (tc_tcx_range){count_of(a->w, TC_TCX_TABLE_control_results, sizeof(tc_tcx_control_result)), n};
  for (uint32_t k = 0; k < n && st == TC_OK; k++) {
    const tc_tcx_control_result r = {result[k].offset, result[k].bytes, result[k].step_bytes};
    (void)TC_TCX_ADD(a->w, control_results, &r, 1);
  }
  tc_free(result);
  if (st == TC_OK) *number = TC_TCX_ADD(a->w, controls, &x, 1);
  return st;
}

// Bodies come before the steps of who runs them, whose records stay together.
static tc_status add_controls(const adder *a, const tc_program *p, uint32_t *number) {
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kind == TC_STEP_CONTROL) TC_TRY(add_control(a, p, i, &number[i]));
  return TC_OK;
}

// ---- the plan ----

static void add_leaves(const tc_recorded *r, const tc_lowering_for *how, const uint32_t *stored, uint32_t n_stored,
                       tc_tcx_writer *w, tc_tcx_plan *out) {
  const tc_plan *p = r->plan;
  out->leaf = (tc_tcx_range){count_of(w, TC_TCX_TABLE_leaves, sizeof(tc_tcx_leaf)), p->n_leaf + n_stored};
  for (uint32_t n = 0, i = 0; n < p->n_node; n++) {
    if (!tc_plan_is_leaf(p, n)) continue;
    const tc_rec *rec = tc_plan_rec(p, n);
    bool is_input = r->leaf[i].input >= 0;
    const tc_tcx_leaf x = {.kind = is_input ? TC_TCX_INPUT : TC_TCX_WEIGHT,
                           .number = is_input ? (uint32_t)r->leaf[i].input : how->weight[i],
                           .bytes = (uint64_t)tc_dims_at(rec->shape)->count * tc_type_bytes((tc_type)rec->dtype)};
    (void)TC_TCX_ADD(w, leaves, &x, 1);
    i++;
  }
  for (uint32_t i = 0; i < n_stored; i++) {
    const tc_tcx_weight *weight = (const tc_tcx_weight *)(const void *)w->table[TC_TCX_TABLE_weights].at + stored[i];
    (void)TC_TCX_ADD(w, leaves, (&(tc_tcx_leaf){TC_TCX_STORED, stored[i], weight->bytes}), 1);
  }
}

static void add_rest(const tc_recorded *r, const tc_program *p, bool stored, int n_results, tc_tcx_writer *w,
                     tc_tcx_plan *out) {
  const tc_plan *plan = r->plan;
  add_counts(w, plan, out);
  uint32_t n_made = stored ? 0 : p->n_cached;
  out->constant = (tc_tcx_range){count_of(w, TC_TCX_TABLE_byte_counts, sizeof(uint64_t)), n_made};
  for (uint32_t i = 0; i < n_made; i++) (void)TC_TCX_ADD(w, byte_counts, (&(uint64_t){p->cached_bytes[i]}), 1);
  out->result = (tc_tcx_range){count_of(w, TC_TCX_TABLE_results, sizeof(tc_tcx_result)), (uint32_t)n_results};
  for (int i = 0; i < n_results; i++)
    (void)TC_TCX_ADD(w, results, (&(tc_tcx_result){r->result[i].is_leaf, r->result[i].number}), 1);
  out->arg = TC_TCX_ADD_LIST(w, words, r->arg, plan->n_arg);
  out->n_draw = r->n_draw;
  out->draw = (tc_tcx_range){count_of(w, TC_TCX_TABLE_draws, sizeof(tc_tcx_draw)), r->n_draw_args};
  for (uint32_t i = 0; i < r->n_draw_args; i++)
    (void)TC_TCX_ADD(w, draws, (&(tc_tcx_draw){.arg = r->draw[i].arg, .more = r->draw[i].more}), 1);
}

static tc_status add_plan(const tc_recorded *r, const tc_lowering_for *how, const tc_program *p, kernels *k,
                          int n_results, tc_tcx_writer *w, tc_tcx_plan *out, tc_stored_constants **kept) {
  bool stored = how->store_constants && p->n_cached > 0;
  uint32_t *weight = stored ? tc_malloc(p->n_cached * sizeof *weight) : NULL;
  if (stored && !weight) return no_room();
  tc_status st = stored ? tc_stored_constants_make(r, p, w, weight, kept) : TC_OK;
  if (st != TC_OK) return tc_free(weight), st;
  const adder a = {how, w, r->plan, r->call, k};
  add_kernels(k, p, w);
  if ((st = add_controls(&a, p, k->of_step)) != TC_OK) return tc_free(weight), st;
  add_leaves(r, how, weight, stored ? p->n_cached : 0, w, out);
  add_rest(r, p, stored, n_results, w, out);
  out->run = add_steps(&a, p, k->of_step, stored, p);
  if (!stored) out->prepare = add_steps(&a, p->prepare, k->of_step + p->n_step, stored, p);
  tc_free(weight);
  return w->no_memory ? no_room() : TC_OK;
}

tc_status tc_export_lower(const tc_recorded *r, const tc_lowering_for *how, int n_results, tc_tcx_writer *w,
                          tc_tcx_plan *out, tc_stored_constants **kept) {
  tc_program *p = NULL;
  kernels k = {.how = how};
  *out = (tc_tcx_plan){.leaf = {0, 0}};
  tc_status st = lower_program(r->plan, &k, &p);
  if (st == TC_OK) st = add_plan(r, how, p, &k, n_results, w, out, kept);
  fini_kernels(&k);
  if (p) tc_program_destroy(p);
  return st;
}
