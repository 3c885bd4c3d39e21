// Runs bodies: a call, a branch, a loop or a scan. See control.h.
#include "lowering/program/control.h"

#include <string.h>

#include "kernels/ref/ref.h"
#include "lazy/sync/plan_cache.h"
#include "lazy/trace/body.h"
#include "runtime/arena.h"

#define MOST_RESULTS 512
#define GPU_ALIGNED 16  // what generated code of GPUs takes for granted of buffers

struct tc_control {
  tc_control_facts facts;
  tc_plan *plan[2];  // of the bodies, retained
  tc_control_result *result;
  uint32_t n_result;
  uint64_t first, bytes;  // TUPLE_ELEMENT: where its bytes lie in the operand
  bool is_element;
};

void tc_control_destroy(tc_control *c) {
  if (!c) return;
  for (int i = 0; i < 2; i++) tc_plan_release(c->plan[i]);
  tc_free(c->result);
  tc_free(c);
}

static tc_status create_bodies(tc_control *c, const tc_graph *g, const tc_gnode *x) {
  if (!tc_control_facts_of(x->attr, x->n_attr, &c->facts))
    return TC_FAIL(TC_ERR_STATE, "the body of %s is not known", tc_op_names[x->op]);
  c->n_result = tc_control_n_results(&c->facts);
  c->result = tc_malloc((c->n_result + 1) * sizeof *c->result);
  if (!c->result || c->n_result > MOST_RESULTS) return TC_FAIL(TC_ERR_MEMORY, "no room for %u results", c->n_result);
  if (!tc_control_layout(&c->facts, c->result, &c->bytes)) return TC_FAIL(TC_ERR_MEMORY, "no room for the results");
  for (uint32_t i = 0; i < c->facts.n_body; i++)
    TC_TRY(tc_plan_of_body(c->facts.body[i], x->dev, g->plan, &c->plan[i]));
  return TC_OK;
}

tc_status tc_control_create(const tc_graph *g, uint32_t n, tc_control **out) {
  const tc_gnode *x = &g->node[n];
  *out = NULL;
  tc_control *c = tc_calloc(1, sizeof *c);
  if (!c) return TC_FAIL(TC_ERR_MEMORY, "no room for control flow");
  c->is_element = x->op == TC_OP_TUPLE_ELEMENT;
  if (c->is_element) c->first = x->attr[0], c->bytes = (uint64_t)x->shape->count * tc_type_bytes(x->type);
  tc_status st = c->is_element ? TC_OK : create_bodies(c, g, x);
  if (st != TC_OK) return tc_control_destroy(c), st;
  *out = c;
  return TC_OK;
}

tc_status tc_control_of(const tc_control_facts *facts, const tc_control_result *result, tc_plan *const *plan,
                        tc_control **out) {
  tc_control *c = *out = tc_calloc(1, sizeof *c);
  if (!c) return TC_FAIL(TC_ERR_MEMORY, "no room for control flow");
  c->facts = *facts, c->n_result = tc_control_n_results(facts);
  c->result = c->n_result <= MOST_RESULTS ? tc_malloc((c->n_result + 1) * sizeof *c->result) : NULL;
  if (!c->result) return tc_control_destroy(c), *out = NULL, TC_FAIL(TC_ERR_MEMORY, "no room for results");
  memcpy(c->result, result, c->n_result * sizeof *result);
  for (uint32_t i = 0; i < facts->n_body; i++) c->plan[i] = tc_plan_retain(plan[i]);
  return TC_OK;
}

// ---- one run ----

typedef struct control_run {
  const tc_control *c;
  tc_launch_fn *launch;
  tc_gpu *gpu;  // the GPU that has the memory. NULL: another device
  tc_loaded *loaded;  // the loaded back end's device that has it. NULL: another
  const void *in[TC_REF_MAX_IN];  // the bodies' inputs; carries and slices change from step to step
  void *out[MOST_RESULTS];  // the body's results of this step
  uint64_t arg[TC_MAX_ARGS];  // of all bodies
  char *value;  // the CONTROL's
  char *temporary;
  tc_buffer *memory;  // of the temporaries
} control_run;

static bool is_away(const control_run *x) {
  return x->gpu || x->loaded;
}

static tc_status copy_bytes(const control_run *x, void *to, const void *from, uint64_t bytes) {
  if (bytes == 0 || to == from) return TC_OK;
  if (x->gpu) return tc_gpu_copy(x->gpu, to, from, bytes);
  if (x->loaded) return tc_loaded_copy(x->loaded, to, from, bytes);
  memcpy(to, from, bytes);
  return TC_OK;
}

static bool is_aligned(const control_run *x, const void *at) {
  return (uintptr_t)at % (x->gpu ? GPU_ALIGNED : TC_CONTROL_ALIGNED) == 0;
}

static uint64_t input_bytes(const tc_body *b, uint32_t i) {
  const tc_rec *r = tc_body_rec(b, i);
  return (uint64_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
}

static uint64_t padded(uint64_t bytes) {
  return (bytes + TC_CONTROL_ALIGNED - 1) & ~(uint64_t)(TC_CONTROL_ALIGNED - 1);
}

static tc_status take_temporaries(control_run *x, tc_device d, uint64_t bytes) {
  if (bytes == 0) return TC_OK;
  TC_TRY(tc_buffer_create_on(d, bytes, &x->memory));
  x->temporary = x->memory->ptr;
  return TC_OK;
}

// The next part of the temporaries.
static char *take_part(control_run *x, uint64_t bytes) {
  char *part = x->temporary;
  x->temporary += padded(bytes);
  return part;
}

// Runs a body once, on the inputs and with the scalars of this step.
static tc_status run_body(const control_run *x, int i, void *const *out) {
  const tc_body *b = x->c->facts.body[i];
  const uint64_t *arg = x->arg + (i ? x->c->facts.body[0]->n_arg : 0);
  return x->launch(x->c->plan[i], (void *const *)x->in, out, arg, b->call, NULL, NULL);
}

// The random counters of the next step.
static void advance_counters(control_run *x) {
  uint32_t first = 0;
  uint64_t n_draw = 0;
  for (uint32_t i = 0; i < x->c->facts.n_body; i++) n_draw += x->c->facts.body[i]->n_draw;
  for (uint32_t i = 0; i < x->c->facts.n_body; i++) {
    const tc_body *b = x->c->facts.body[i];
    for (uint32_t k = 0; k < b->n_counter; k++) x->arg[first + b->counter[k]] += n_draw;
    first += b->n_arg;
  }
}

// The results in the value, for a body that runs once.
static void bind_results(control_run *x) {
  for (uint32_t i = 0; i < x->c->n_result; i++) x->out[i] = x->value + x->c->result[i].offset;
}

static tc_status read_bool(const control_run *x, const void *at, bool *out) {
  uint8_t byte = 0;
  if (x->gpu)
    TC_TRY(tc_gpu_read(x->gpu, &byte, at, 1));
  else if (x->loaded)
    TC_TRY(tc_loaded_read(x->loaded, &byte, at, 1));
  else
    byte = *(const uint8_t *)at;
  *out = byte;
  return TC_OK;
}

static tc_status run_cond(control_run *x, const void *test) {
  bool taken;
  TC_TRY(read_bool(x, test, &taken));
  bind_results(x);
  return run_body(x, taken ? 0 : 1, x->out);
}

// Carries alternate between the value and a temporary.
static tc_status run_while(control_run *x, tc_device d) {
  const tc_control *c = x->c;
  void *pair[MOST_RESULTS][2], *test;
  uint64_t bytes = TC_CONTROL_ALIGNED;
  for (uint32_t i = 0; i < c->facts.n_carry; i++) bytes += padded(c->result[i].bytes);
  TC_TRY(take_temporaries(x, d, bytes));
  test = take_part(x, 1);
  for (uint32_t i = 0; i < c->facts.n_carry; i++)
    pair[i][0] = x->value + c->result[i].offset, pair[i][1] = take_part(x, c->result[i].bytes);
  for (int step = 0;; step ^= 1) {
    bool on;
    TC_TRY(run_body(x, 0, &test));
    TC_TRY(read_bool(x, test, &on));
    if (!on) break;
    for (uint32_t i = 0; i < c->facts.n_carry; i++) x->out[i] = pair[i][step];
    TC_TRY(run_body(x, 1, x->out));
    for (uint32_t i = 0; i < c->facts.n_carry; i++) x->in[i] = x->out[i];
    advance_counters(x);
  }
  for (uint32_t i = 0; i < c->facts.n_carry; i++) TC_TRY(copy_bytes(x, pair[i][0], x->in[i], c->result[i].bytes));
  return TC_OK;
}

// ---- scan ----

// What a scan reads and writes, by number of the body's input and result.
typedef struct scan_places {
  const char *slices[TC_REF_MAX_IN];  // where the slices of an input begin. NULL: a carry, or captured
  char *staged[TC_REF_MAX_IN];  // a slice that is not aligned is copied here
  char *pair[MOST_RESULTS][2];  // temporaries of a carry, or of a stacked result that is not aligned
} scan_places;

static uint64_t scan_temporaries(const control_run *x) {
  const tc_control *c = x->c;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < c->facts.n_carry; i++) bytes += 2 * padded(c->result[i].step_bytes);
  for (uint32_t i = c->facts.n_carry; i < c->facts.n_carry + c->facts.n_stacked; i++)
    bytes += padded(c->result[i].step_bytes);
  for (uint32_t i = 0; i < c->facts.n_scanned && is_away(x); i++)
    bytes += padded(input_bytes(c->facts.body[0], c->facts.n_carry + i));
  return bytes;
}

static void place_scan(control_run *x, scan_places *p) {
  const tc_control *c = x->c;
  uint32_t n_carry = c->facts.n_carry;
  for (uint32_t i = 0; i < n_carry + c->facts.n_stacked; i++)
    for (int k = 0; k < (i < n_carry ? 2 : 1); k++) p->pair[i][k] = take_part(x, c->result[i].step_bytes);
  for (uint32_t i = n_carry; i < n_carry + c->facts.n_scanned; i++) {
    p->slices[i] = x->in[i];
    if (is_away(x)) p->staged[i] = take_part(x, input_bytes(c->facts.body[0], i));
  }
}

// Where step `at` of a stacked result lies.
static char *place_of(const control_run *x, uint32_t result, int64_t at) {
  const tc_control_result *r = &x->c->result[result];
  return x->value + r->offset + (uint64_t)at * r->step_bytes;
}

// The place of a carry that enters a step, where carries are kept.
static char *kept_place(const control_run *x, uint32_t carry, int64_t at) {
  return place_of(x, x->c->facts.n_carry + x->c->facts.n_stacked + carry, at);
}

// at: the slice; step: how many steps were before.
static tc_status bind_step(control_run *x, const scan_places *p, int64_t at, int64_t step, int64_t next) {
  const tc_control *c = x->c;
  uint32_t n_carry = c->facts.n_carry;
  for (uint32_t i = n_carry; i < n_carry + c->facts.n_scanned; i++) {
    uint64_t bytes = input_bytes(c->facts.body[0], i);
    x->in[i] = p->slices[i] + (uint64_t)at * bytes;
    if (!is_away(x) || is_aligned(x, x->in[i])) continue;
    TC_TRY(copy_bytes(x, p->staged[i], x->in[i], bytes));
    x->in[i] = p->staged[i];
  }
  for (uint32_t i = 0; i < n_carry; i++) {
    char *kept = c->facts.keeps && step + 1 < c->facts.n_step ? kept_place(x, i, next) : NULL;
    x->out[i] = step + 1 == c->facts.n_step   ? x->value + c->result[i].offset
                : kept && is_aligned(x, kept) ? kept
                                              : p->pair[i][step & 1];
  }
  for (uint32_t i = n_carry; i < n_carry + c->facts.n_stacked; i++) {
    char *place = place_of(x, i, at);
    x->out[i] = is_aligned(x, place) ? place : p->pair[i][0];
  }
  return TC_OK;
}

static tc_status end_step(control_run *x, int64_t at, int64_t step, int64_t next) {
  const tc_control *c = x->c;
  uint32_t n_carry = c->facts.n_carry;
  for (uint32_t i = n_carry; i < n_carry + c->facts.n_stacked; i++)
    TC_TRY(copy_bytes(x, place_of(x, i, at), x->out[i], c->result[i].step_bytes));
  for (uint32_t i = 0; i < n_carry; i++) {
    if (c->facts.keeps && step + 1 < c->facts.n_step)
      TC_TRY(copy_bytes(x, kept_place(x, i, next), x->out[i], c->result[i].bytes));
    x->in[i] = x->out[i];
  }
  return TC_OK;
}

static tc_status run_scan(control_run *x, tc_device d) {
  const tc_control *c = x->c;
  int64_t n = c->facts.n_step;
  scan_places p;
  memset(p.slices, 0, sizeof p.slices);
  TC_TRY(take_temporaries(x, d, scan_temporaries(x)));
  place_scan(x, &p);
  for (uint32_t i = 0; i < c->facts.n_carry && n == 0; i++)
    TC_TRY(copy_bytes(x, x->value + c->result[i].offset, x->in[i], c->result[i].bytes));
  for (uint32_t i = 0; i < c->facts.n_carry && n && c->facts.keeps; i++)
    TC_TRY(copy_bytes(x, kept_place(x, i, c->facts.reverse ? n - 1 : 0), x->in[i], c->result[i].bytes));
  for (int64_t step = 0; step < n; step++) {
    int64_t at = c->facts.reverse ? n - 1 - step : step, next = c->facts.reverse ? at - 1 : at + 1;
    TC_TRY(bind_step(x, &p, at, step, next));
    TC_TRY(run_body(x, 0, x->out));
    TC_TRY(end_step(x, at, step, next));
    advance_counters(x);
  }
  return TC_OK;
}

// ---- the step ----

static tc_status run_kind(control_run *x, const void *first, tc_device d) {
  switch (x->c->facts.kind) {
    case TC_CONTROL_CALL: bind_results(x); return run_body(x, 0, x->out);
    case TC_CONTROL_COND: return run_cond(x, first);
    case TC_CONTROL_WHILE: return run_while(x, d);
    case TC_CONTROL_SCAN: return run_scan(x, d);
  }
  return TC_FAIL(TC_ERR_STATE, "control flow of an unknown kind");
}

tc_status tc_control_run(const tc_execution *r, const tc_step *s) {
  const tc_control *c = s->control;
  const uint32_t *binding = r->p->binding + s->first_binding;
  tc_device d = (tc_device)r->p->graph.plan->dev[0];
  control_run x = {.c = c, .launch = r->launch, .gpu = r->p->graph.target.gpu};
  if (tc_device_kind_of(d) == TC_DEVICE_LOADED) TC_TRY(tc_loaded_get(d, &x.loaded));
  x.value = tc_storage_pointer(r->p, &r->at, binding[s->n_binding - 1]);
  const char *first = tc_storage_pointer(r->p, &r->at, binding[0]);
  if (c->is_element) return copy_bytes(&x, x.value, first + c->first, c->bytes);
  for (uint32_t i = c->facts.first_in; i + 1 < s->n_binding; i++)
    x.in[i - c->facts.first_in] = tc_storage_pointer(r->p, &r->at, binding[i]);
  memcpy(x.arg, r->num + s->first_num, s->n_num * sizeof x.arg[0]);
  tc_status st = run_kind(&x, first, d);
  tc_buffer_release(x.memory);
  return st;
}
