// Checks of a file's records, table by table, then plan by plan. See check.h.
#include "lowering/export/check.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lazy/trace/body.h"
#include "lazy/trace/dims.h"
#include "lazy/trace/op_table.h"
#include "lowering/emit/emitter.h"
#include "lowering/program/program_types.h"
#include "runtime/arena.h"
#include "runtime/status.h"

#define MOST_BYTES (UINT64_C(1) << 46)  // of one value, so that sums do not overflow
#define MOST_EXTENT (INT64_C(1) << 46)
#define MOST_SCRATCH (UINT64_C(1) << 32)
#define MOST_NAME 47  // of a kernel
#define MOST_RESULTS 512  // of control flow

static tc_status bad(const char *what, uint32_t i) {
  return TC_FAIL(TC_ERR_IO, "the file is damaged: %s %u", what, i);
}

// ---- tables ----

static bool is_text(const tc_tcx_image *x, uint32_t at) {
  return at < x->n_strings;
}

static bool is_text_or_none(const tc_tcx_image *x, uint32_t at) {
  return at == TC_TCX_NONE || is_text(x, at);
}

static bool is_inside(tc_tcx_range r, uint32_t n) {
  return r.first <= n && r.n <= n - r.first;
}

// The bytes of a value; UINT64_MAX: it is none.
static uint64_t bytes_of(uint32_t type, uint32_t rank, const int64_t *dim) {
  tc_dims d = {.rank = (int)rank};
  int64_t count;
  if (type >= TC_N_TYPES || rank > TC_MAX_RANK) return UINT64_MAX;
  for (uint32_t i = 0; i < rank; i++) d.dim[i] = dim[i];
  if (!tc_dims_product(&d, &count) || (uint64_t)count > MOST_BYTES / 8) return UINT64_MAX;
  return (uint64_t)count * tc_type_bytes((tc_type)type);
}

static bool is_value(const tc_tcx_image *x, const tc_tcx_value *v) {
  bool sound = is_text(x, v->name) && bytes_of(v->type, v->rank, v->dim) != UINT64_MAX;
  for (int i = 0; i < TC_MAX_RANK; i++) sound = sound && (v->size[i] == TC_TCX_NONE || v->size[i] < x->n_symbols);
  return sound;
}

static bool is_weight(const tc_tcx_image *x, const tc_tcx_weight *w) {
  return is_text(x, w->name) && bytes_of(w->type, w->rank, w->dim) == w->bytes && w->offset % TC_TCX_ALIGN == 0 &&
         w->offset <= x->head->weights_bytes && w->bytes <= x->head->weights_bytes - w->offset;
}

static bool is_kernel(const tc_tcx_image *x, const tc_tcx_kernel *k) {
  return is_text(x, k->name) && strlen(x->strings + k->name) <= MOST_NAME && k->offset <= x->n_code &&
         k->offset % TC_TCX_ALIGN == 0 && k->bytes <= x->n_code - k->offset && k->scratch_bytes <= MOST_SCRATCH &&
         k->n_buf <= TC_MAX_BUFS && k->interpreted <= 1;
}

static bool is_size(const tc_tcx_image *x, const tc_tcx_symbol *s) {
  return is_text(x, s->name) && s->size.n > 0 && is_inside(s->size, x->n_extents);
}

static tc_status check_tables(const tc_tcx_image *x) {
  if (x->n_strings == 0 || x->strings[x->n_strings - 1] != 0) return bad("string", x->n_strings);
  for (uint32_t i = 0; i < x->n_inputs; i++)
    if (!is_value(x, &x->inputs[i])) return bad("input", i);
  for (uint32_t i = 0; i < x->n_outputs; i++)
    if (!is_value(x, &x->outputs[i])) return bad("output", i);
  for (uint32_t i = 0; i < x->n_weights; i++)
    if (!is_weight(x, &x->weights[i])) return bad("weight", i);
  for (uint32_t i = 0; i < x->n_symbols; i++)
    if (!is_size(x, &x->symbols[i])) return bad("dynamic extent", i);
  for (uint32_t i = 0; i < x->n_kernels; i++)
    if (!is_kernel(x, &x->kernels[i])) return bad("kernel", i);
  for (uint32_t i = 0; i < x->n_targets; i++)
    if (!is_text(x, x->targets[i].isa) || !is_text_or_none(x, x->targets[i].facts) || x->targets[i].interpreted > 1)
      return bad("target", i);
  if (x->head->n_shown_weights > x->n_weights) return bad("weight", x->head->n_shown_weights);
  if (x->n_targets == 0 || x->n_combinations == 0 || x->n_combinations > TC_TCX_MOST_COMBINATIONS ||
      x->n_targets > 64 || x->n_plans != x->n_combinations * x->n_targets)
    return bad("number of plans", x->n_plans);
  return TC_OK;
}

// ---- plans ----

// A plan at work.
typedef struct checker {
  const tc_tcx_image *x;
  const tc_tcx_plan *p;
  const tc_tcx_steps *s;  // the steps that are checked
  uint64_t *input_bytes, *output_bytes;  // of the plan's combination
  bool *made;  // per constant
  // control flow may name bodies below this number: in a body its own, else the number of bodies
  uint32_t body;
} checker;

// The bytes of a storage; UINT64_MAX: there is none of that number.
static uint64_t storage_bytes(const checker *c, uint32_t storage) {
  const tc_tcx_image *x = c->x;
  const tc_tcx_plan *p = c->p;
  if (storage & ARENA_BIT) {
    storage &= ~ARENA_BIT;
    return storage < c->s->allocation.n ? x->allocations[c->s->allocation.first + storage].bytes : UINT64_MAX;
  }
  if (storage < p->leaf.n) return x->leaves[p->leaf.first + storage].bytes;
  if ((storage -= p->leaf.n) < p->out.n) return x->byte_counts[p->out.first + storage];
  storage -= p->out.n;
  return storage < p->constant.n ? x->byte_counts[p->constant.first + storage] : UINT64_MAX;
}

static bool is_leaf(const checker *c, const tc_tcx_leaf *l) {
  const tc_tcx_image *x = c->x;
  if (c->body < x->n_bodies) return l->kind == TC_TCX_OPERAND && l->bytes <= MOST_BYTES;
  if (l->kind == TC_TCX_INPUT) return l->number < x->n_inputs && l->bytes == c->input_bytes[l->number];
  return (l->kind == TC_TCX_WEIGHT || l->kind == TC_TCX_STORED) && l->number < x->n_weights &&
         l->bytes <= x->weights[l->number].bytes;
}

static bool is_result(const checker *c, uint32_t i) {
  const tc_tcx_result *r = &c->x->results[c->p->result.first + i];
  const tc_tcx_plan *p = c->p;
  if (r->is_leaf) return r->number < p->leaf.n && c->x->leaves[p->leaf.first + r->number].bytes == c->output_bytes[i];
  return r->number < p->out.n && c->x->byte_counts[p->out.first + r->number] == c->output_bytes[i];
}

static bool is_allocation(const checker *c, const tc_tcx_allocation *a) {
  uint64_t room = a->in == TC_TCX_NONE  ? c->s->arena_bytes
                  : a->in < c->p->out.n ? c->x->byte_counts[c->p->out.first + a->in]
                                        : 0;
  return a->bytes <= room && a->offset <= room - a->bytes && a->offset % 64 == 0;
}

static bool are_lists_inside(const tc_tcx_image *x, const tc_tcx_steps *s) {
  return is_inside(s->step, x->n_steps) && is_inside(s->binding, x->n_bindings) && is_inside(s->num, x->n_nums) &&
         is_inside(s->allocation, x->n_allocations) && is_inside(s->row_value, x->n_row_values) &&
         is_inside(s->row_attr, x->n_words) && s->arena_bytes <= MOST_BYTES && s->arena_bytes % 64 == 0;
}

// A reference kernel: its op has one, and its operands are as large as their shapes say.
static bool is_row(const checker *c, const tc_tcx_step *s) {
  const tc_tcx_image *x = c->x;
  uint32_t op, n = s->n_binding;
  if (!is_text(x, s->op) || !tc_tcx_op(x->strings + s->op, &op)) return false;
  if (n == 0 || n > TC_REF_MAX_IN + 1 || s->value > c->s->row_value.n || n > c->s->row_value.n - s->value ||
      s->attr > c->s->row_attr.n || s->n_attr > c->s->row_attr.n - s->attr)
    return false;
  if (s->kind == TC_TCX_STEP_ROW && tc_op_arity[op] <= 2 && n != tc_op_arity[op] + 1u) return false;
  for (uint32_t i = 0; i < n; i++) {  // of values the result's entry comes first, of bindings last
    const tc_tcx_row_value *v = &x->row_values[c->s->row_value.first + s->value + (i + 1) % n];
    uint64_t bytes = bytes_of(v->type, v->rank, v->dim);
    uint32_t storage = x->bindings[c->s->binding.first + s->first_binding + i];
    uint32_t result = x->bindings[c->s->binding.first + s->first_binding + n - 1];
    // operand 0 in the place of the result is one repeated value (program/execute.c)
    bool filled = i == 0 && n > 1 && storage == result;
    if (bytes == UINT64_MAX || (filled ? s->n_num == 0 : bytes > storage_bytes(c, storage))) return false;
  }
  return true;
}

static bool is_check(const checker *c, const tc_tcx_step *s) {
  uint32_t op;
  if (!is_text(c->x, s->op) || !tc_tcx_op(c->x->strings + s->op, &op) || s->n_binding != 1 || s->n_num != 1)
    return false;
  uint64_t bytes = storage_bytes(c, c->x->bindings[c->s->binding.first + s->first_binding]);
  return (uint64_t)s->extent <= bytes / sizeof(int64_t);
}

// Of a step that makes constants: it writes constants that no other step writes, and reads leaves
// and constants that are made.
static bool is_preparing(const checker *c, const tc_tcx_step *s) {
  uint32_t first = c->p->leaf.n + c->p->out.n;
  if (s->kind != TC_TCX_STEP_KERNEL) return false;
  for (int writes = 0; writes < 2; writes++)
    for (uint32_t i = 0; i < s->n_binding; i++) {
      uint32_t storage = c->x->bindings[c->s->binding.first + s->first_binding + i];
      if ((int)(s->writes >> i & 1) != writes) continue;
      if (!writes && storage < c->p->leaf.n) continue;
      if (storage < first || storage - first >= c->p->constant.n || c->made[storage - first] == writes) return false;
      if (writes) c->made[storage - first] = true;
    }
  return true;
}

// ---- control flow ----

// Operand i of the step has so many bytes at least; the last one is the result.
static bool has_bytes(const checker *c, const tc_tcx_step *s, uint32_t i, uint64_t bytes) {
  uint64_t there = storage_bytes(c, c->x->bindings[c->s->binding.first + s->first_binding + i]);
  return bytes <= MOST_BYTES && bytes <= there;
}

// The body's operands are the step's, of which those that are scanned have n_step times as many
// bytes.
static bool takes_operands(const checker *c, const tc_tcx_step *s, const tc_tcx_control *f, const tc_tcx_body *b) {
  const tc_tcx_image *x = c->x;
  uint32_t first = f->kind == TC_CONTROL_COND;
  for (uint32_t i = 0; i < b->plan.leaf.n; i++) {
    uint64_t bytes = x->leaves[b->plan.leaf.first + i].bytes;
    bool scanned = i >= f->n_carry && i < f->n_carry + f->n_scanned;
    if (scanned && f->n_step && bytes > MOST_BYTES / (uint64_t)f->n_step) return false;
    if (!has_bytes(c, s, first + i, scanned ? bytes * (uint64_t)f->n_step : bytes)) return false;
    // a carry is what the step before gave, and a final one may be what entered
    if (i < f->n_carry && bytes != x->control_results[f->result.first + i].step_bytes) return false;
  }
  return true;
}

// Where a body writes lies inside the value, and is as large as what it writes.
static bool gives_results(const checker *c, const tc_tcx_step *s, const tc_tcx_control *f, const tc_tcx_body *b) {
  const tc_tcx_image *x = c->x;
  uint32_t n_body = f->n_carry + f->n_stacked;
  for (uint32_t i = 0; i < f->result.n; i++) {
    const tc_tcx_control_result *r = &x->control_results[f->result.first + i];
    bool many = f->kind == TC_CONTROL_SCAN && i >= f->n_carry;
    uint64_t made = x->byte_counts[b->plan.out.first + (i < n_body ? i : i - n_body)];
    uint64_t times = many ? (uint64_t)f->n_step : 1;
    if (r->step_bytes != made || made > MOST_BYTES || (times && made > MOST_BYTES / times) ||
        r->bytes != made * times || r->offset > MOST_BYTES || r->offset % TC_CONTROL_ALIGNED != 0 ||
        !has_bytes(c, s, s->n_binding - 1, r->offset + r->bytes))
      return false;
  }
  return true;
}

// Whether the body has the step's operands, the results that f says, and counters that are args.
static bool is_body(const checker *c, const tc_tcx_step *s, const tc_tcx_control *f, uint32_t i) {
  const tc_tcx_image *x = c->x;
  if (f->body[i] >= c->body) return false;
  const tc_tcx_body *b = &x->bodies[f->body[i]];
  bool tests = f->kind == TC_CONTROL_WHILE && i == 0;
  uint64_t first = f->kind == TC_CONTROL_COND, n = (uint64_t)f->n_carry + f->n_stacked;
  for (uint32_t k = 0; k < b->counter.n; k++)
    if (x->places[b->counter.first + k] >= b->plan.arg.n) return false;
  if (b->plan.leaf.n + first + 1 != s->n_binding || b->plan.leaf.n > TC_REF_MAX_IN || b->plan.arg.n > TC_MAX_ARGS ||
      (uint64_t)f->n_carry + f->n_scanned > b->plan.leaf.n || b->plan.out.n != (tests ? 1 : n))
    return false;
  return takes_operands(c, s, f, b) &&
         (tests ? x->byte_counts[b->plan.out.first] <= TC_CONTROL_ALIGNED : gives_results(c, s, f, b));
}

static bool is_control(const checker *c, const tc_tcx_step *s) {
  const tc_tcx_image *x = c->x;
  if (s->kernel >= x->n_controls || !is_text(x, s->op)) return false;
  const tc_tcx_control *f = &x->controls[s->kernel];
  bool two = f->kind == TC_CONTROL_COND || f->kind == TC_CONTROL_WHILE;
  uint32_t n_arg = 0;
  uint64_t n = (uint64_t)f->n_carry + f->n_stacked;
  if (f->kind > TC_CONTROL_SCAN || f->n_body != 1u + two || f->reverse > 1 || f->keeps > 1 || f->n_step < 0 ||
      f->n_step > MOST_EXTENT || n > MOST_RESULTS / 2 || f->result.n != n + (f->keeps ? f->n_carry : 0) ||
      !is_inside(f->result, x->n_control_results))
    return false;
  for (uint32_t i = 0; i < f->n_body; i++) {
    if (!is_body(c, s, f, i)) return false;
    n_arg += x->bodies[f->body[i]].plan.arg.n;
  }
  return s->n_num == n_arg && n_arg <= TC_MAX_ARGS && (f->kind != TC_CONTROL_COND || has_bytes(c, s, 0, 1));
}

// ---- steps ----

static bool is_step(const checker *c, const tc_tcx_step *s) {
  const tc_tcx_image *x = c->x;
  const tc_tcx_range binding = {s->first_binding, s->n_binding}, num = {s->first_num, s->n_num};
  if (!is_inside(binding, c->s->binding.n) || !is_inside(num, c->s->num.n) || s->stage >= c->s->step.n ||
      s->extent < 0 || s->extent > MOST_EXTENT || !(s->work >= 0 && s->work < 1e18) || !is_text_or_none(x, s->site) ||
      !is_text_or_none(x, s->op))
    return false;
  switch (s->kind) {
    case TC_TCX_STEP_KERNEL:
      return s->kernel < x->n_kernels && s->n_binding == x->kernels[s->kernel].n_buf &&
             s->n_num >= x->kernels[s->kernel].n_num;
    case TC_TCX_STEP_ROW:
    case TC_TCX_STEP_ZERO: return is_row(c, s);
    case TC_TCX_STEP_CHECK: return is_check(c, s);
    case TC_TCX_STEP_CONTROL: return is_control(c, s);
    default: return false;
  }
}

static tc_status check_steps(const checker *c, bool prepares) {
  const tc_tcx_image *x = c->x;
  const tc_tcx_steps *s = c->s;
  for (uint32_t i = 0; i < s->allocation.n; i++)
    if (!is_allocation(c, &x->allocations[s->allocation.first + i])) return bad("temporary", i);
  for (uint32_t i = 0; i < s->binding.n; i++)
    if (storage_bytes(c, x->bindings[s->binding.first + i]) == UINT64_MAX) return bad("operand", i);
  for (uint32_t i = 0; i < s->num.n; i++) {
    const tc_tcx_num *num = &x->nums[s->num.first + i];
    if (num->is_arg > 1 || (num->is_arg && num->value >= c->p->arg.n)) return bad("scalar", i);
  }
  for (uint32_t i = 0; i < s->step.n; i++) {
    const tc_tcx_step *step = &x->steps[s->step.first + i];
    if (!is_step(c, step) || (prepares && !is_preparing(c, step))) return bad("step", i);
  }
  return TC_OK;
}

static tc_status check_plan(checker *c) {
  const tc_tcx_image *x = c->x;
  const tc_tcx_plan *p = c->p;
  bool inside = is_inside(p->leaf, x->n_leaves) && is_inside(p->result, x->n_results) &&
                is_inside(p->out, x->n_byte_counts) && is_inside(p->constant, x->n_byte_counts) &&
                is_inside(p->arg, x->n_words) && is_inside(p->draw, x->n_draws) && are_lists_inside(x, &p->run) &&
                are_lists_inside(x, &p->prepare) && p->result.n == (c->body < x->n_bodies ? 0 : x->n_outputs) &&
                (uint64_t)p->leaf.n + p->out.n + p->constant.n < ARENA_BIT && p->prepare.allocation.n == 0;
  if (!inside) return c->body < x->n_bodies ? bad("body", c->body) : bad("plan", (uint32_t)(p - x->plans));
  for (uint32_t i = 0; i < p->leaf.n; i++)
    if (!is_leaf(c, &x->leaves[p->leaf.first + i])) return bad("leaf", i);
  for (uint32_t i = 0; i < p->out.n + p->constant.n; i++) {
    uint64_t bytes = x->byte_counts[i < p->out.n ? p->out.first + i : p->constant.first + i - p->out.n];
    if (bytes > MOST_BYTES) return bad("size of output", i);
  }
  for (uint32_t i = 0; i < p->result.n; i++)
    if (!is_result(c, i)) return bad("result", i);
  for (uint32_t i = 0; i < p->draw.n; i++)
    if (x->draws[p->draw.first + i].arg == 0 || x->draws[p->draw.first + i].arg >= p->arg.n) return bad("random op", i);
  if (!(c->made = tc_calloc(p->constant.n + 1, sizeof *c->made))) return TC_FAIL(TC_ERR_MEMORY, "no room for a check");
  c->s = &p->prepare;
  tc_status st = check_steps(c, true);
  for (uint32_t i = 0; i < p->constant.n && st == TC_OK; i++)
    if (!c->made[i]) st = bad("constant", i);
  c->s = &p->run;
  if (st == TC_OK) st = check_steps(c, false);
  tc_free(c->made);
  return st;
}

// The bytes of inputs and outputs in a combination of sizes; what is of no symbol has the declared
// extent.
static bool measure_values(const tc_tcx_image *x, uint32_t combination, uint64_t *bytes) {
  tc_tcx_range r = x->combinations[combination].dims;
  if (!is_inside(r, x->n_extents)) return false;
  const int64_t *at = x->extents + r.first, *end = at + r.n;
  for (uint32_t i = 0; i < x->n_inputs + x->n_outputs; i++) {
    const tc_tcx_value *v = i < x->n_inputs ? &x->inputs[i] : &x->outputs[i - x->n_inputs];
    if (v->rank > end - at) return false;
    bytes[i] = bytes_of(v->type, v->rank, at);
    if (bytes[i] == UINT64_MAX) return false;
    at += v->rank;
  }
  return at == end;
}

// In the order of their numbers: control flow in a body names bodies before it, which are sound.
static tc_status check_bodies(const tc_tcx_image *x) {
  for (uint32_t i = 0; i < x->n_bodies; i++) {
    checker c = {.x = x, .p = &x->bodies[i].plan, .body = i};
    if (!is_inside(x->bodies[i].counter, x->n_places) || c.p->constant.n || c.p->draw.n || c.p->prepare.step.n)
      return bad("body", i);
    TC_TRY(check_plan(&c));
  }
  return TC_OK;
}

tc_status tc_tcx_check(const tc_tcx_image *x) {
  TC_TRY(check_tables(x));
  TC_TRY(check_bodies(x));
  uint64_t *bytes = tc_malloc((x->n_inputs + x->n_outputs + 1) * sizeof *bytes);
  if (!bytes) return TC_FAIL(TC_ERR_MEMORY, "no room for a check");
  tc_status st = TC_OK;
  for (uint32_t i = 0; i < x->n_combinations && st == TC_OK; i++) {
    if (!measure_values(x, i, bytes)) st = bad("combination", i);
    for (uint32_t t = 0; t < x->n_targets && st == TC_OK; t++) {
      checker c = {.x = x,
                   .body = x->n_bodies,
                   .p = &x->plans[i * x->n_targets + t],
                   .input_bytes = bytes,
                   .output_bytes = bytes + x->n_inputs};
      st = check_plan(&c);
    }
  }
  tc_free(bytes);
  return st;
}

bool tc_tcx_op(const char *name, uint32_t *op) {
  for (*op = 0; *op < TC_N_OP_ROWS; ++*op)
    if (strcmp(tc_op_names[*op], name) == 0) return true;
  return false;
}
