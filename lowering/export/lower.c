// Lowers for a target, compiles the kernels on the team, and writes steps as records. See lower.h.
#include "lowering/export/lower.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/export/constants.h"
#include "lowering/jit/compiler.h"
#include "lowering/kir/serialize.h"
#include "lowering/pipeline.h"
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
  uint32_t *of_step;  // of the program's steps, then of those that make its constants
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
  k->at = tc_calloc(n + 1, sizeof *k->at), k->of_step = tc_malloc((n + 1) * sizeof *k->of_step);
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

static void add_kernels(const kernels *k, tc_tcx_writer *w) {
  for (uint32_t i = 0; i < k->n; i++) {
    unique *u = &k->at[i];
    const tc_tcx_kernel kernel = {.n_num = u->kir->n_num,
                                  .n_buf = u->kir->n_buf,
                                  .interpreted = !u->object,
                                  .scratch_bytes = u->object ? (uint64_t)u->kir->scratch_bytes : 0};
    u->number = u->object ? tc_tcx_add_kernel(w, u->name, kernel, u->object, u->bytes)
                          : tc_tcx_add_kernel(w, u->name, kernel, u->key, u->key_bytes);
  }
}

// ---- steps ----

// Storage numbers in the file: where constants are stored, they are leaves.
static uint32_t renumber(const tc_plan *plan, const tc_program *p, bool stored, uint32_t storage) {
  uint32_t first_constant = plan->n_leaf + plan->n_out;
  if (!stored || (storage & ARENA_BIT) || storage < plan->n_leaf) return storage;
  return storage < first_constant ? storage + p->n_cached : storage - plan->n_out;
}

static bool is_row(const tc_step *s) {
  return s->kind == TC_STEP_ROW || s->kind == TC_STEP_ZERO;
}

// How many attributes step i has: those up to the next step's.
static uint32_t attrs_of(const tc_program *p, uint32_t i) {
  uint32_t first = p->step[i].row.attr, next = p->n_row_attr;
  for (uint32_t k = 0; k < p->n_step; k++)
    if (is_row(&p->step[k]) && p->step[k].row.value > p->step[i].row.value) next = TC_MIN(next, p->step[k].row.attr);
  return next - first;
}

static void add_step(const tc_recorded *r, const tc_program *p, uint32_t i, uint32_t kernel, tc_tcx_writer *w) {
  const tc_step *s = &p->step[i];
  bool row = is_row(s), is_kernel = s->kind == TC_STEP_KERNEL;
  uint32_t n_attr = row ? attrs_of(p, i) : 0;
  char place[160] = "";
  const tc_call *call = !is_kernel && s->node < r->plan->n_node ? &r->call[s->node] : NULL;
  if (call) tc_site_text(call->site, place, sizeof place);
  const tc_tcx_step x = {.kind = s->kind,
                         .is_matmul = s->is_matmul,
                         .op = is_kernel ? TC_TCX_NONE : tc_tcx_add_text(w, tc_op_names[s->op]),
                         .kernel = is_kernel ? kernel : TC_TCX_NONE,
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

static uint32_t count_of(const tc_tcx_writer *w, int table, size_t bytes) {
  return (uint32_t)(w->table[table].n / bytes);
}

// number: of each step's kernel among the unique ones.
static tc_tcx_steps add_steps(const tc_recorded *r, const tc_program *p, const kernels *k, const uint32_t *number,
                              bool stored, const tc_program *whole, tc_tcx_writer *w) {
  tc_tcx_steps out = {.arena_bytes = p->arena_bytes};
  out.step = (tc_tcx_range){count_of(w, TC_TCX_TABLE_steps, sizeof(tc_tcx_step)), p->n_step};
  for (uint32_t i = 0; i < p->n_step; i++)
    add_step(r, p, i, p->step[i].kind == TC_STEP_KERNEL ? k->at[number[i]].number : 0, w);
  out.binding = (tc_tcx_range){count_of(w, TC_TCX_TABLE_bindings, sizeof(uint32_t)), p->n_binding};
  for (uint32_t i = 0; i < p->n_binding; i++) {
    uint32_t storage = renumber(r->plan, whole, stored, p->binding[i]);
    (void)TC_TCX_ADD(w, bindings, &storage, 1);
  }
  out.num = (tc_tcx_range){count_of(w, TC_TCX_TABLE_nums, sizeof(tc_tcx_num)), p->n_num};
  for (uint32_t i = 0; i < p->n_num; i++)
    (void)TC_TCX_ADD(w, nums, (&(tc_tcx_num){.value = p->num[i].value, .is_arg = p->num[i].is_arg}), 1);
  out.allocation = (tc_tcx_range){count_of(w, TC_TCX_TABLE_allocations, sizeof(tc_tcx_allocation)), p->n_allocation};
  for (uint32_t i = 0; i < p->n_allocation; i++) {
    const tc_allocation *a = &p->allocation[i];
    const tc_tcx_allocation x = {a->bytes, a->offset, a->in, a->first, a->last, 0};
    (void)TC_TCX_ADD(w, allocations, &x, 1);
  }
  out.row_value = (tc_tcx_range){count_of(w, TC_TCX_TABLE_row_values, sizeof(tc_tcx_row_value)), p->n_row_value};
  for (uint32_t i = 0; i < p->n_row_value; i++) add_row_value(&p->row_value[i], w);
  out.row_attr = TC_TCX_ADD_LIST(w, words, p->row_attr, p->n_row_attr);
  return out;
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
  out->out = (tc_tcx_range){count_of(w, TC_TCX_TABLE_byte_counts, sizeof(uint64_t)), plan->n_out};
  for (uint32_t i = 0; i < plan->n_out; i++) (void)TC_TCX_ADD(w, byte_counts, (&(uint64_t){plan->out[i].bytes}), 1);
  uint32_t n_made = stored ? 0 : p->n_cached;
  out->constant = (tc_tcx_range){count_of(w, TC_TCX_TABLE_byte_counts, sizeof(uint64_t)), n_made};
  for (uint32_t i = 0; i < n_made; i++) (void)TC_TCX_ADD(w, byte_counts, (&(uint64_t){p->cached_bytes[i]}), 1);
  out->result = (tc_tcx_range){count_of(w, TC_TCX_TABLE_results, sizeof(tc_tcx_result)), (uint32_t)n_results};
  for (int i = 0; i < n_results; i++)
    (void)TC_TCX_ADD(w, results, (&(tc_tcx_result){r->result[i].is_leaf, r->result[i].number}), 1);
  out->arg = TC_TCX_ADD_LIST(w, words, r->arg, plan->n_arg);
  out->draw = TC_TCX_ADD_LIST(w, places, r->draw, r->n_draw);
}

static tc_status add_plan(const tc_recorded *r, const tc_lowering_for *how, const tc_program *p, const kernels *k,
                          int n_results, tc_tcx_writer *w, tc_tcx_plan *out, tc_stored_constants **kept) {
  bool stored = how->store_constants && p->n_cached > 0;
  uint32_t *weight = stored ? tc_malloc(p->n_cached * sizeof *weight) : NULL;
  if (stored && !weight) return no_room();
  tc_status st = stored ? tc_stored_constants_make(r, p, w, weight, kept) : TC_OK;
  if (st != TC_OK) return tc_free(weight), st;
  add_kernels(k, w);
  add_leaves(r, how, weight, stored ? p->n_cached : 0, w, out);
  add_rest(r, p, stored, n_results, w, out);
  out->run = add_steps(r, p, k, k->of_step, stored, p, w);
  if (!stored) out->prepare = add_steps(r, p->prepare, k, k->of_step + p->n_step, stored, p, w);
  tc_free(weight);
  return w->no_memory ? no_room() : TC_OK;
}

tc_status tc_export_lower(const tc_recorded *r, const tc_lowering_for *how, int n_results, tc_tcx_writer *w,
                          tc_tcx_plan *out, tc_stored_constants **kept) {
  tc_program *p = NULL;
  kernels k = {.how = how};
  *out = (tc_tcx_plan){.leaf = {0, 0}};
  tc_compiler_plan_for(how->target.isa);
  tc_status st = tc_pipeline_lower_steps(r->plan, &p);
  tc_compiler_plan_for(NULL);
  for (uint32_t i = 0; i < r->plan->n_out && st == TC_OK; i++)
    if (r->plan->out[i].donor != TC_LEAF_NONE) st = TC_FAIL(TC_ERR_STATE, "output %u is written over an input", i);
  if (st == TC_OK) st = find_unique(&k, p);
  if (st == TC_OK) st = compile_kernels(&k);
  if (st == TC_OK) st = add_plan(r, how, p, &k, n_results, w, out, kept);
  fini_kernels(&k);
  if (p) tc_program_destroy(p);
  return st;
}
