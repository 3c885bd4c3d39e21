// Gradients of control flow: control flow of the bodies' gradients.
//
//   a body      (inputs) -> (results)
//   its own     (adjoints of results, inputs) -> (adjoints of inputs)
//
// The body is recorded again, of inputs without values, and walked. That becomes a body
// (record/outline.h), of a CONTROL of the same kind. So what is inside the forward's body is
// computed again, and a gradient of a gradient is one more such step.
//
// Invariants: sums have the order of the walk through the records written out. A captured value's
// adjoint is a carry that begins as what later records gave it, and the last step adds first. A
// carry that is also a result of its step begins with that result's adjoint. -0 begins a sum that
// nothing has: adding to it changes no bit.
#include <string.h>

#include "lazy/autograd/walk.h"
#include "lazy/ops/control.h"
#include "lazy/record/formula.h"
#include "runtime/arena.h"

typedef struct control_vjp {
  tc_vjp *v;
  tc_trace *t;
  tc_walk *w;
  tc_control_facts f;
  const tc_body *b;  // the first body, which all are like
  uint32_t n_in, n_result;  // inputs of bodies; results of a step
  tc_node given[3 * TC_CONTROL_MOST];  // adjoints of the CONTROL's results
  uint64_t arg[2 * TC_MAX_ARGS];  // of the bodies; SCAN: as in its last step
  bool wants[TC_CONTROL_OPERANDS];  // per input: it needs a gradient
  bool active[TC_CONTROL_MOST];  // SCAN, per carry: a gradient can go through it
  // per input of a body: its adjoint is a result. A carry's goes from step to step
  bool gives[TC_CONTROL_OPERANDS];
  bool begun[TC_CONTROL_OPERANDS];  // its adjoint begins as what later records gave
  int tied[TC_CONTROL_MOST];  // per carry: the stacked result that is the same value. -1: none
  // the inputs of the new body, and their places
  tc_outline c;
  uint32_t n_new;
  tc_type type[TC_CONTROL_OPERANDS];
  uint32_t shape[TC_CONTROL_OPERANDS];
  int at_sum[TC_CONTROL_OPERANDS], at_input[TC_CONTROL_OPERANDS];  // per input: what its adjoint begins as; itself
  int at_result[TC_CONTROL_MOST], at_first[TC_CONTROL_MOST];  // per result: its adjoint; per carry: see tied
  // nodes of one recording of the body: its inputs, its results, and the inputs' adjoints
  tc_node in[TC_CONTROL_OPERANDS], out[TC_CONTROL_MOST], adjoint[TC_CONTROL_OPERANDS];
} control_vjp;

enum { NOWHERE = -1 };

static bool is_scan(const control_vjp *x) {
  return x->f.kind == TC_CONTROL_SCAN;
}

static bool is_carry(const control_vjp *x, uint32_t i) {
  return i < x->f.n_carry;
}

static bool is_slice(const control_vjp *x, uint32_t i) {
  return i >= x->f.n_carry && i < x->f.n_carry + x->f.n_scanned;
}

static const tc_rec *input_of(const control_vjp *x, uint32_t i) {
  return tc_body_rec(x->b, i);
}

static bool is_float_input(const control_vjp *x, uint32_t i) {
  return tc_type_is_float((tc_type)input_of(x, i)->dtype);
}

// Operand i of the bodies, as a number among the CONTROL's.
static int operand_of(const control_vjp *x, uint32_t i) {
  return (int)(x->f.first_in + i);
}

// The place where the adjoint of operand i is summed; NULL after reporting.
static tc_node *place_of(const control_vjp *x, uint32_t i) {
  tc_walk *w = x->w;
  return tc_walk_adjoint(w, w->at, tc_rec_in(tc_walk_rec(w, w->at, w->node))[operand_of(x, i)]);
}

// ---- what is asked for ----

static bool has_adjoint(const control_vjp *x, uint32_t result) {
  return x->given[result] != TC_NODE_ERR;
}

static void take_given(control_vjp *x) {
  tc_walk *w = x->w;
  for (uint32_t i = 0; i < 3 * TC_CONTROL_MOST; i++) x->given[i] = TC_NODE_ERR;
  for (tc_element *e = w->elements; e; e = e->next) {
    if (e->s != w->at || e->control != w->node || e->adjoint == TC_NODE_ERR) continue;
    tc_node g = tc_walk_take(w, &e->adjoint);
    e->adjoint = TC_NODE_ERR;
    x->given[e->number] = has_adjoint(x, e->number) ? tc_rec_binary(x->t, TC_OP_ADD, x->given[e->number], g) : g;
  }
}

// The stacked result that a carry is, too: the body's result is a copy of it.
static int find_tied(const control_vjp *x, uint32_t carry) {
  for (uint32_t i = x->f.n_carry; i < x->n_result; i++) {
    const tc_rec *r = tc_body_rec(x->b, x->b->out[i]), *c = tc_body_rec(x->b, x->b->out[carry]);
    bool copies = tc_rec_op(r) == TC_OP_RESHAPE && r->in[0] == x->b->out[carry] && r->shape == c->shape;
    if (copies && has_adjoint(x, i)) return (int)i;
  }
  return NOWHERE;
}

static bool init_vjp(control_vjp *x, tc_vjp *v) {
  *x = (control_vjp){.v = v, .t = v->t, .w = v->walk};
  uint32_t n_body = (v->attr[0] & 255) == TC_CONTROL_COND || (v->attr[0] & 255) == TC_CONTROL_WHILE ? 2 : 1;
  if (!tc_control_facts_of(v->attr, TC_CONTROL_ATTRS + (int)n_body, &x->f))
    return tc_rec_fail(v->t, TC_ERR_STATE, "the body is not known"), false;
  if (x->f.kind == TC_CONTROL_WHILE)
    return tc_rec_fail(v->t, TC_ERR_GRAD,
                       "tc_while has no gradient, since nothing says how many steps there are: use tc_scan, or "
                       "detach what it gives"),
           false;
  if (x->f.kind == TC_CONTROL_SCAN && !x->f.keeps)
    return tc_rec_fail(v->t, TC_ERR_GRAD, "the scan was recorded without gradients, so its carries are gone"), false;
  x->b = x->f.body[0];
  x->n_in = x->b->n_in, x->n_result = x->f.n_carry + x->f.n_stacked;
  take_given(x);
  uint32_t first = 0;
  for (uint32_t i = 0; i < x->f.n_body; i++) {
    const tc_body *b = x->f.body[i];
    if (b->n_arg) memcpy(x->arg + first, v->arg + first, b->n_arg * sizeof x->arg[0]);
    for (uint32_t k = 0; k < b->n_counter && is_scan(x); k++)
      x->arg[first + b->counter[k]] += b->n_draw * (uint64_t)(x->f.n_step - 1);
    first += b->n_arg;
  }
  for (uint32_t i = 0; i < x->n_in; i++)
    x->wants[i] = is_float_input(x, i) && tc_vjp_requires_grad(v, operand_of(x, i));
  for (uint32_t i = 0; i < x->f.n_carry; i++) x->active[i] = x->wants[i];
  return v->t->op_status == TC_OK;
}

// ---- a body's records and their adjoints, inside a capture ----

// Enters an input of the new body. Returns its place.
static int add_new(control_vjp *x, tc_type type, uint32_t shape) {
  x->type[x->n_new] = type, x->shape[x->n_new] = shape;
  return (int)x->n_new++;
}

static int add_like_input(control_vjp *x, uint32_t i) {
  return add_new(x, (tc_type)input_of(x, i)->dtype, input_of(x, i)->shape);
}

// Whether a step is given the adjoint of its result. A carry's comes from the next step. That of a
// result that is the same value as a carry is what the carry's begins with.
static bool is_given_to_step(const control_vjp *x, uint32_t result) {
  if (!has_adjoint(x, result) || is_carry(x, result)) return false;
  for (uint32_t i = 0; i < x->f.n_carry; i++)
    if (x->gives[i] && x->tied[i] == (int)result) return false;
  return true;
}

// Whether a carry has an adjoint when its step is walked. It comes from the result that it is, too,
// from a gradient that read it as it was kept, or from later records.
static bool begins(const control_vjp *x, uint32_t carry) {
  return x->tied[carry] != NOWHERE || x->begun[carry] || has_adjoint(x, x->n_result + carry);
}

// The order of the new body's inputs: adjoints that are carries, slices, then the rest.
static void place_inputs(control_vjp *x) {
  x->n_new = 0;
  bool scan = is_scan(x);
  for (uint32_t i = 0; i < x->n_in; i++) {
    bool is_sum = scan ? x->gives[i] && !is_slice(x, i) : x->gives[i] && x->begun[i];
    x->at_sum[i] = is_sum ? add_like_input(x, i) : NOWHERE;
  }
  for (uint32_t i = 0; i < x->n_in && scan; i++)
    if (is_carry(x, i) || is_slice(x, i)) x->at_input[i] = add_like_input(x, i);
  for (uint32_t i = 0; i < x->n_result; i++) {
    const tc_rec *r = tc_body_rec(x->b, x->b->out[i]);
    x->at_result[i] = is_given_to_step(x, i) ? add_new(x, (tc_type)r->dtype, r->shape) : NOWHERE;
  }
  for (uint32_t i = 0; i < x->f.n_carry; i++)
    x->at_first[i] = x->gives[i] && begins(x, i) ? add_like_input(x, i) : NOWHERE;
  for (uint32_t i = 0; i < x->n_in; i++)
    if (!scan || !(is_carry(x, i) || is_slice(x, i))) x->at_input[i] = add_like_input(x, i);
}

static tc_node new_input(const control_vjp *x, int place) {
  return place == NOWHERE ? TC_NODE_ERR : x->c.first + (uint32_t)place;
}

// Records body i again, on the tape.
static bool append_forward(control_vjp *x, uint32_t body) {
  tc_trace *t = x->t;
  const tc_body *b = x->f.body[body];
  bool tape = tc_rec_tape(t, true);
  for (uint32_t i = 0; i < x->n_in; i++) {
    x->in[i] = new_input(x, x->at_input[i]);
    if (is_carry(x, i) ? x->active[i] : x->wants[i]) t->flag[x->in[i]] |= TC_NODE_TAPE;
  }
  bool ok = tc_body_append(t, b, x->c.device, x->in, x->arg + (body ? x->f.body[0]->n_arg : 0), x->out);
  tc_rec_tape(t, tape);
  return ok;
}

static void seed(tc_walk *w, tc_segment *s, tc_node n, tc_node g, tc_device d) {
  if (n != TC_NODE_ERR && g != TC_NODE_ERR && (w->t->flag[n] & TC_NODE_TAPE)) tc_walk_add_to(w, &s->adjoint[n], g, d);
}

// Walks through what was recorded, from adjoints that are inputs of the new body to those of the
// body's inputs.
static bool walk_body(control_vjp *x) {
  tc_trace *t = x->t;
  tc_walk w = {.t = t, .visit = x->w->visit, .create_graph = x->w->create_graph, .retain = true};
  tc_device d = x->c.device;
  tc_segment *s = tc_walk_add_segment(&w, &w.segments, NULL, t->n_node);
  if (!s) return false;
  bool tape = tc_rec_tape(t, w.create_graph);
  for (uint32_t i = 0; i < x->n_in; i++)
    seed(&w, s, x->in[i], new_input(x, is_carry(x, i) ? x->at_first[i] : x->at_sum[i]), d);
  for (uint32_t i = x->n_result; i-- > 0;) {
    seed(&w, s, x->out[i], new_input(x, x->at_result[i]), d);
    if (is_carry(x, i)) seed(&w, s, x->out[i], new_input(x, x->at_sum[i]), d);
  }
  for (uint32_t n = s->n; n-- > x->c.first + x->n_new && t->op_status == TC_OK;) w.visit(&w, s, n);
  for (uint32_t i = 0; i < x->n_in; i++) x->adjoint[i] = s->adjoint[x->in[i]];
  tc_rec_tape(t, tape);
  return t->op_status == TC_OK;
}

static bool begin_trial(control_vjp *x) {
  place_inputs(x);
  tc_outline_init(&x->c, x->t, (tc_device)x->t->op_device, x->n_new, x->type, x->shape);
  return tc_outline_begin(&x->c, false);
}

// The records of a trial leave the trace.
static void drop_trial(control_vjp *x) {
  (void)tc_outline_end(&x->c, 0, NULL, NULL);
  tc_outline_close(&x->c);
  tc_outline_fini(&x->c);
}

// Whether an adjoint came to input i beyond what it began with.
static bool was_given(const control_vjp *x, uint32_t i) {
  tc_node began = new_input(x, is_carry(x, i) ? x->at_first[i] : x->at_sum[i]);
  return x->adjoint[i] != TC_NODE_ERR && x->adjoint[i] != began;
}

// Which carries a gradient can go through: what reaches them from step to step.
static bool find_active(control_vjp *x) {
  for (bool changed = true; changed;) {
    changed = false;
    bool ok = begin_trial(x) && append_forward(x, 0);
    for (uint32_t i = 0; i < x->f.n_carry && ok; i++) {
      bool now = x->active[i] || (is_float_input(x, i) && (x->t->flag[x->out[i]] & TC_NODE_TAPE));
      changed |= now != x->active[i];
      x->active[i] = now;
    }
    drop_trial(x);
    if (!ok) return false;
  }
  return true;
}

// Which inputs get an adjoint, by trial: an adjoint of a carry may lead to others.
static bool find_gives(control_vjp *x) {
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t body = 0; body < x->f.n_body; body++) {
      bool ok = begin_trial(x) && append_forward(x, body) && walk_body(x);
      for (uint32_t i = 0; i < x->n_in && ok; i++) {
        bool now = x->gives[i] || (was_given(x, i) && (is_carry(x, i) ? x->active[i] : x->wants[i]));
        changed |= now != x->gives[i];
        x->gives[i] = now;
      }
      drop_trial(x);
      if (!ok) return false;
    }
  }
  return true;
}

// ---- the new CONTROL ----

static tc_node negative_zeros(control_vjp *x, uint32_t i) {
  const tc_rec *r = input_of(x, i);
  return tc_rec_full(x->t, &tc_dims_at(r->shape)->d, (tc_type)r->dtype, -0.0);
}

// What later records gave operand i, taken from its place. TC_NODE_ERR: nothing.
static tc_node take_begun(control_vjp *x, uint32_t i) {
  tc_node *at = x->begun[i] ? place_of(x, i) : NULL;
  if (!at || *at == TC_NODE_ERR) return TC_NODE_ERR;
  tc_node g = tc_walk_take(x->w, at);
  *at = TC_NODE_ERR;
  return g;
}

// Operands of which two are one value are begun once.
static void find_begun(control_vjp *x) {
  for (uint32_t i = 0; i < x->n_in && x->t->op_status == TC_OK; i++) {
    if (!x->wants[i] || is_slice(x, i)) continue;
    tc_node *at = place_of(x, i);
    bool twice = false;
    for (uint32_t k = 0; k < i; k++) twice |= x->begun[k] && place_of(x, k) == at;
    x->begun[i] = at && *at != TC_NODE_ERR && !twice;
  }
}

// Step `at` of a stacked value.
static tc_node step_of(control_vjp *x, tc_node stacked, int64_t at) {
  return tc_rec_drop_axis(x->t, tc_rec_slice_axis(x->t, stacked, 0, at, 1, 1), 0);
}

static tc_node with_axis(control_vjp *x, tc_node a) {
  if (a == TC_NODE_ERR) return a;
  tc_dims d = *tc_node_dims(x->t, a);
  memmove(d.dim + 1, d.dim, (size_t)d.rank * sizeof d.dim[0]);
  d.dim[0] = 1, d.rank++;
  return tc_rec_reshape(x->t, a, &d);
}

// What the adjoint of a carry begins with in each step: that of the result that it is, of the step
// before. In the first step it is what later records gave it.
static tc_node earlier_adjoints(control_vjp *x, uint32_t i) {
  int64_t n = x->f.n_step;
  tc_trace *t = x->t;
  tc_node begun = take_begun(x, i), first = with_axis(x, begun != TC_NODE_ERR ? begun : negative_zeros(x, i)), rest;
  if (n == 1) return first;
  if (x->tied[i] != NOWHERE) {
    rest = tc_rec_slice_axis(t, x->given[x->tied[i]], 0, x->f.reverse ? 1 : 0, 1, n - 1);
  } else {
    tc_dims d = *tc_node_dims(t, first);
    d.dim[0] = n - 1;
    rest = tc_rec_full(t, &d, (tc_type)input_of(x, i)->dtype, -0.0);
  }
  return tc_rec_cat(t, 2, x->f.reverse ? (tc_node[]){rest, first} : (tc_node[]){first, rest}, 0);
}

// earlier_adjoints, and what a gradient gave the carry that was kept.
static tc_node first_adjoints(control_vjp *x, uint32_t i) {
  tc_node kept = x->given[x->n_result + i];
  if (kept != TC_NODE_ERR && x->tied[i] == NOWHERE && !x->begun[i]) return kept;
  tc_node others = earlier_adjoints(x, i);
  return kept == TC_NODE_ERR ? others : tc_rec_binary(x->t, TC_OP_ADD, kept, others);
}

// The adjoint with which a carry leaves the last step.
static tc_node last_adjoint(control_vjp *x, uint32_t i) {
  tc_node g = x->given[i];
  if (x->tied[i] == NOWHERE) return g != TC_NODE_ERR ? g : negative_zeros(x, i);
  tc_node y = step_of(x, x->given[x->tied[i]], x->f.reverse ? 0 : x->f.n_step - 1);
  return g != TC_NODE_ERR ? tc_rec_binary(x->t, TC_OP_ADD, y, g) : y;
}

// The new CONTROL's operands, which stand behind `at` of them.
static void make_operands(control_vjp *x, tc_node *in) {
  bool scan = is_scan(x);
  tc_node value = scan ? tc_vjp_out(x->v) : TC_NODE_ERR;
  for (uint32_t i = 0; i < x->n_in; i++) {
    if (x->at_sum[i] != NOWHERE) {
      tc_node begun = is_carry(x, i) ? last_adjoint(x, i) : take_begun(x, i);
      in[x->at_sum[i]] = begun != TC_NODE_ERR ? begun : negative_zeros(x, i);
    }
    bool kept = scan && is_carry(x, i);
    in[x->at_input[i]] =
        kept ? tc_control_result_of(x->t, &x->f, value, x->n_result + i) : tc_vjp_in(x->v, operand_of(x, i));
  }
  for (uint32_t i = 0; i < x->n_result; i++)
    if (x->at_result[i] != NOWHERE) in[x->at_result[i]] = x->given[i];
  for (uint32_t i = 0; i < x->f.n_carry; i++)
    if (x->at_first[i] != NOWHERE) in[x->at_first[i]] = first_adjoints(x, i);
}

static tc_control_facts new_facts(const control_vjp *x) {
  tc_control_facts f = {.kind = x->f.kind, .n_body = x->f.n_body, .first_in = x->f.first_in, .n_step = x->f.n_step};
  for (uint32_t i = 0; i < x->n_in; i++) {
    bool slice = is_scan(x) ? is_slice(x, i) : true;
    f.n_stacked += x->gives[i] && slice;
    f.n_carry += x->gives[i] && !slice;
    f.n_scanned += is_scan(x) && (is_carry(x, i) || is_slice(x, i));
  }
  if (!is_scan(x)) return f;
  f.reverse = !x->f.reverse;
  for (uint32_t i = 0; i < x->n_result; i++) f.n_scanned += x->at_result[i] != NOWHERE;
  for (uint32_t i = 0; i < x->f.n_carry; i++) f.n_scanned += x->at_first[i] != NOWHERE;
  return f;
}

// The results of the new body: adjoints of its carries, then of its slices.
static uint32_t list_results(control_vjp *x, tc_node *out) {
  uint32_t n = 0;
  for (int slices = 0; slices < 2; slices++) {
    for (uint32_t i = 0; i < x->n_in; i++) {
      if (!x->gives[i] || (is_scan(x) ? is_slice(x, i) : true) != slices) continue;
      tc_node a = x->adjoint[i];
      if (a == TC_NODE_ERR && !is_carry(x, i)) a = new_input(x, x->at_sum[i]);
      out[n++] = a != TC_NODE_ERR ? a : negative_zeros(x, i);
    }
  }
  return n;
}

static bool extract_bodies(control_vjp *x, tc_extract *extract) {
  bool ok = true;
  place_inputs(x);
  tc_outline_init(&x->c, x->t, (tc_device)x->t->op_device, x->n_new, x->type, x->shape);
  for (uint32_t body = 0; body < x->f.n_body && ok; body++) {
    tc_node out[TC_CONTROL_OPERANDS];
    ok = tc_outline_begin(&x->c, false) && append_forward(x, body) && walk_body(x);
    uint32_t n = ok ? list_results(x, out) : 0;
    ok = tc_outline_end(&x->c, n, ok ? out : NULL, &extract[body]);
    if (ok && is_scan(x)) extract[body].body.n_draw = -x->b->n_draw;  // from the last step to the first
  }
  tc_outline_close(&x->c);
  return ok;
}

// Gives the results to the operands. Adjoints that began as what later records gave stand for it.
static void give_results(control_vjp *x, const tc_control_facts *f, tc_node control) {
  uint32_t n = 0;
  for (int slices = 0; slices < 2; slices++) {
    for (uint32_t i = 0; i < x->n_in && x->t->op_status == TC_OK; i++) {
      if (!x->gives[i] || (is_scan(x) ? is_slice(x, i) : true) != slices) continue;
      tc_node g = tc_control_result_of(x->t, f, control, n++);
      // written out, each slice's adjoint is added to zeros
      if (is_scan(x) && is_slice(x, i) && x->f.n_step > 1) g = f_add(x->t, g, tc_rec_const(x->t, g, 0));
      if (x->wants[i]) tc_vjp_give(x->v, operand_of(x, i), g);
    }
  }
}

static void differentiate(control_vjp *x) {
  tc_extract extract[2] = {{.arg = NULL}, {.arg = NULL}};
  tc_node in[TC_CONTROL_OPERANDS];
  if (is_scan(x) && !find_active(x)) return;
  for (uint32_t i = 0; i < x->f.n_carry; i++) {
    x->tied[i] = x->active[i] ? find_tied(x, i) : NOWHERE;
    x->gives[i] = x->active[i] && (has_adjoint(x, i) || begins(x, i));
  }
  if (!find_gives(x)) return;
  find_begun(x);
  tc_control_facts f = new_facts(x);
  bool any = false;
  for (uint32_t i = 0; i < x->n_in; i++) any |= x->gives[i];
  if (any && extract_bodies(x, extract)) {
    f = new_facts(x);
    if (f.first_in) in[0] = tc_vjp_in(x->v, 0);
    make_operands(x, in + f.first_in);
    bool ok = x->t->op_status == TC_OK;
    tc_node n = ok ? tc_control_record(x->t, &f, &x->c, extract, in, f.first_in + x->n_new) : TC_NODE_ERR;
    if (n != TC_NODE_ERR) give_results(x, &f, n);
  }
  for (int i = 0; i < 2; i++) tc_extract_fini(&extract[i]);
  if (any) tc_outline_fini(&x->c);
}

// Adjoints of results are with their TUPLE_ELEMENTs.
void tc_vjp_control(tc_vjp *v) {
  control_vjp *x = tc_arena_alloc(&v->t->walk, sizeof *x);
  if (!x) {
    tc_rec_fail(v->t, TC_ERR_MEMORY, "no room to differentiate");
    return;
  }
  if (!init_vjp(x, v)) return;
  if (!is_scan(x) || x->f.n_step > 0) {
    differentiate(x);
    return;
  }
  for (uint32_t i = 0; i < x->f.n_carry; i++)
    if (has_adjoint(x, i)) tc_vjp_give(v, (int)i, x->given[i]);
}

// Never called: the walk leaves the adjoint for the CONTROL's rule.
void tc_vjp_tuple_element(tc_vjp *v) {
  tc_rec_fail(v->t, TC_ERR_STATE, "a result of control flow was differentiated alone");
}
