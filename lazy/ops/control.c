// Control flow in the graph: cond, while, scan, checkpoint. See include/tc/control.h.
//
// The user's bodies record with public functions, so a call is several ops. First operands become
// nodes. Then each body is recorded, and taken out of the trace (record/outline.h). At last one
// CONTROL is recorded, and a TUPLE_ELEMENT with a handle for each result.
#include "lazy/ops/control.h"

#include <string.h>
#include <tc/control.h>

#include "lazy/record/record.h"
#include "lazy/sync/open_ends.h"
#include "lazy/sync/sync.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/options.h"

#define WHILE_STEPS_SHIFT 20  // steps of a loop whose draws no later draw repeats: a million

// ---- records ----

static uint32_t operands_flags(const tc_trace *t, const tc_node *in, uint32_t n) {
  uint32_t flags = 0;
  for (uint32_t i = 0; i < n; i++) flags |= t->flag[in[i]];
  return flags;
}

tc_node tc_control_record(tc_trace *t, tc_control_facts *f, tc_outline *c, tc_extract *extract, tc_node *in,
                          uint32_t n_known) {
  uint64_t attr[TC_CONTROL_ATTRS + 2], arg[2 * TC_MAX_ARGS], bytes;
  tc_control_result result[3 * TC_CONTROL_MOST];
  uint32_t n_in = n_known + c->n, n_arg = 0, shape;
  if (n_in > TC_CONTROL_OPERANDS - 16)
    return tc_rec_fail(t, TC_ERR_ARG, "the bodies use %u tensors; %d are possible", n_in, TC_CONTROL_OPERANDS - 16);
  if (!tc_outline_resolve(c, in + n_known)) return TC_NODE_ERR;
  for (uint32_t i = 0; i < f->n_body; i++) {
    if (!(f->body[i] = tc_outline_finish(c, &extract[i]))) return TC_NODE_ERR;
    if (extract[i].body.n_arg) memcpy(arg + n_arg, extract[i].arg, extract[i].body.n_arg * sizeof arg[0]);
    n_arg += extract[i].body.n_arg;
  }
  uint32_t flags = t->tape ? operands_flags(t, in, n_in) : 0;
  f->keeps = f->kind == TC_CONTROL_SCAN && (flags & TC_NODE_TAPE);
  if (!tc_control_layout(f, result, &bytes) ||
      (shape = tc_dims_intern(&(tc_dims){1, {(int64_t)bytes}})) == TC_SHAPE_NONE)
    return tc_rec_fail(t, TC_ERR_SHAPE, "the results of all %lld steps are too large, or have too many axes",
                       (long long)f->n_step);
  tc_node n = tc_trace_append(t, TC_OP_CONTROL, TC_U8, shape, (int)n_in, in, tc_control_attrs(f, attr), attr,
                              (int)n_arg, arg, c->device);
  if (n != TC_NODE_ERR && !(flags & TC_NODE_TAPE) && (flags & TC_NODE_NO_HISTORY)) t->flag[n] |= TC_NODE_FREED_IN;
  return n;
}

tc_node tc_control_result_of(tc_trace *t, const tc_control_facts *f, tc_node control, uint32_t i) {
  tc_control_result result[3 * TC_CONTROL_MOST];
  uint64_t bytes;
  if (control == TC_NODE_ERR || t->op_status != TC_OK) return TC_NODE_ERR;
  if (!tc_control_layout(f, result, &bytes)) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape");
  return tc_trace_append(t, TC_OP_TUPLE_ELEMENT, result[i].type, result[i].shape, 1, &control, 2,
                         (uint64_t[]){result[i].offset, i}, 0, NULL, (tc_device)t->dev[control]);
}

// ---- a call ----

typedef struct control_call {
  tc_outline c;
  tc_trace *t;
  const char *op;
  tc_site site;
  tc_control_facts f;
  tc_extract extract[2];
  uint32_t n_fixed;  // the bodies' inputs, without what they capture
  tc_type type[TC_CONTROL_MOST];
  uint32_t shape[TC_CONTROL_MOST];
  tc_node in[TC_CONTROL_OPERANDS];  // operands; COND: its bool before the inputs
  uint32_t n_out;  // results of the body that gives the op's
  tc_type out_type[TC_CONTROL_MOST];
  uint32_t out_shape[TC_CONTROL_MOST];
  uint64_t counter;  // of random draws, where the op begins
  uint64_t epoch;  // of the trace, likewise
} control_call;

static tc_status check_counts(const control_call *x, int n_in, int n_out, const void *in, const void *out) {
  if (n_in < 0 || n_out < 0 || n_in > TC_CONTROL_MOST || n_out > TC_CONTROL_MOST)
    return tc_fail(TC_ERR_ARG, x->op, x->site, "%d tensors and %d results: each may be from 0 to %d", n_in, n_out,
                   TC_CONTROL_MOST);
  if ((n_in && !in) || (n_out && !out))
    return tc_fail(TC_ERR_ARG, x->op, x->site, "%s is a null pointer", n_in && !in ? "the tensors" : "out");
  return n_out ? TC_OK : tc_fail(TC_ERR_ARG, x->op, x->site, "there is no result, so nothing would run");
}

// Takes an operand, as input i of the bodies; drop_axis: a slice of it.
static bool take_input(control_call *x, tc_tensor h, bool drop_axis) {
  tc_trace *t = x->t;
  uint32_t i = x->n_fixed;
  tc_node n = x->in[x->f.first_in + i] = tc_op_in(t, h);
  if (n == TC_NODE_ERR) return false;
  if (i + x->f.first_in && t->dev[n] != t->dev[x->in[0]])
    return tc_rec_fail(t, TC_ERR_DEVICE, "operands are on %s and %s", tc_device_name((tc_device)t->dev[x->in[0]]),
                       tc_device_name((tc_device)t->dev[n])),
           false;
  x->type[i] = tc_node_type(t, n), x->shape[i] = tc_rec_of(t, n)->shape;
  x->n_fixed++;
  if (!drop_axis) return true;
  tc_dims d = *tc_node_dims(t, n);
  if (d.rank == 0) return tc_rec_fail(t, TC_ERR_SHAPE, "a scalar has no axis to go along"), false;
  if (x->f.n_step >= 0 && d.dim[0] != x->f.n_step)
    return tc_rec_fail(t, TC_ERR_SHAPE, "slices of scanned tensor %u are %lld, of others, or by the length given, %lld",
                       i - x->f.n_carry, (long long)d.dim[0], (long long)x->f.n_step),
           false;
  x->f.n_step = d.dim[0];
  memmove(d.dim, d.dim + 1, (size_t)--d.rank * sizeof d.dim[0]);
  if ((x->shape[i] = tc_dims_intern(&d)) != TC_SHAPE_NONE) return true;
  return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"), false;
}

// From here to the end of the call nothing of the trace runs: its operands are held as nodes.
static void begin_call(control_call *x) {
  tc_device d = x->n_fixed + x->f.first_in ? (tc_device)x->t->dev[x->in[0]] : tc_device_default();
  tc_outline_init(&x->c, x->t, d, x->n_fixed, x->type, x->shape);
  x->counter = x->t->counter, x->epoch = x->t->epoch;
}

static tc_tensor handle_of_input(tc_trace *t, tc_node n) {
  tc_tensor h = tc_trace_handle(t, TC_NODE_ERR, true);
  if (h.slot >= TC_POISON) return h;
  const tc_rec *r = tc_rec_of(t, n);
  tc_slot *s = tc_slot_of(h.slot);
  s->epoch = t->epoch, s->node = n, s->shape = r->shape, s->dtype = r->dtype, s->device = t->dev[n];
  t->slot_of[n] = h.slot;
  t->flag[n] |= TC_NODE_LIVE;
  return h;
}

// What a body gave, as nodes.
static bool take_results(const control_call *x, uint32_t n_out, const tc_tensor *given, tc_node *out) {
  tc_trace *t = x->t;
  for (uint32_t i = 0; i < n_out; i++) {
    if (given[i].gen == 0 && given[i].slot == 0)
      return tc_rec_fail(t, TC_ERR_ARG, "the body did not set result %u of %u", i, n_out), false;
    if ((out[i] = tc_op_in(t, given[i])) == TC_NODE_ERR) return false;
    if (t->dev[out[i]] != x->c.device)
      return tc_rec_fail(t, TC_ERR_DEVICE, "result %u of the body is on %s, the operands on %s", i,
                         tc_device_name((tc_device)t->dev[out[i]]), tc_device_name(x->c.device)),
             false;
  }
  return true;
}

static bool fail_differs(tc_trace *t, const char *what, uint32_t i, tc_type type, uint32_t shape, tc_node got) {
  char a[128], b[128];
  tc_rec_fail(t, tc_node_type(t, got) == type ? TC_ERR_SHAPE : TC_ERR_DTYPE, "%s %u is %s %s, and the body gives %s %s",
              what, i, tc_type_name(type), tc_dims_text(&tc_dims_at(shape)->d, a, sizeof a),
              tc_type_name(tc_node_type(t, got)), tc_dims_text(tc_node_dims(t, got), b, sizeof b));
  return false;
}

static bool is_test(const control_call *x, int body) {
  return x->f.kind == TC_CONTROL_WHILE && body == 0;
}

// Whether results have the shapes and types that they must have; notes those of the op's.
static bool check_results(control_call *x, int body, uint32_t n_out, const tc_node *out) {
  tc_trace *t = x->t;
  char text[128];
  if (is_test(x, body)) {
    if (tc_node_type(t, out[0]) == TC_BOOL && tc_dims_count(tc_node_dims(t, out[0])) == 1) return true;
    return tc_rec_fail(t, tc_node_type(t, out[0]) == TC_BOOL ? TC_ERR_SHAPE : TC_ERR_DTYPE,
                       "the test gives %s %s; one bool was expected", tc_type_name(tc_node_type(t, out[0])),
                       tc_dims_text(tc_node_dims(t, out[0]), text, sizeof text)),
           false;
  }
  for (uint32_t i = 0; i < n_out; i++) {
    tc_type type = tc_node_type(t, out[i]);
    uint32_t shape = tc_rec_of(t, out[i])->shape;
    if (i < x->f.n_carry && (type != x->type[i] || shape != x->shape[i]))
      return fail_differs(t, "carry", i, x->type[i], x->shape[i], out[i]);
    if (x->f.kind == TC_CONTROL_COND && body == 1 && (type != x->out_type[i] || shape != x->out_shape[i]))
      return fail_differs(t, "of the first body, result", i, x->out_type[i], x->out_shape[i], out[i]);
    x->out_type[i] = type, x->out_shape[i] = shape;
  }
  return true;
}

static tc_status begin_body(control_call *x, tc_tensor *in) {
  tc_trace *t = tc_op_begin_sync(x->op, x->site);
  bool begun = t->op_status == TC_OK && tc_outline_begin(&x->c, true);
  for (uint32_t i = 0; i < x->n_fixed && begun && t->op_status == TC_OK; i++)
    in[i] = handle_of_input(t, x->c.first + i);
  if (begun && t->op_status != TC_OK) (void)tc_outline_end(&x->c, 0, NULL, NULL);
  return tc_op_done(t);
}

static tc_status end_body(control_call *x, int body, uint32_t n_out, const tc_tensor *given, tc_status st) {
  tc_node out[TC_CONTROL_MOST];
  tc_trace *t = tc_op_begin_sync(x->op, x->site);
  bool ok =
      st == TC_OK && t->op_status == TC_OK && take_results(x, n_out, given, out) && check_results(x, body, n_out, out);
  (void)tc_outline_end(&x->c, n_out, ok ? out : NULL, &x->extract[body]);
  tc_status ended = tc_op_done(t);
  return st != TC_OK ? st : ended;
}

// What is open in this thread.
typedef struct open_ends {
  tc_open_ends ends;
  uint32_t autocasts;
  int no_grads;
} open_ends;

static open_ends ends_now(const control_call *x) {
  return (open_ends){tc_open_ends_now(), x->t->autocast.n, x->t->no_grad};
}

// The body has returned st. What it left open is ended, and an error if there was none before.
static tc_status check_ends(const control_call *x, open_ends before, tc_status st) {
  char what[64];
  snprintf(what, sizeof what, "the body of %s", x->op);
  if (x->epoch != x->t->epoch) before.ends.scopes = 0;  // tc_shutdown has ended them, which end_body tells
  tc_status open = tc_open_ends_check(&before.ends, x->op, what, x->site);
  // To begin one is a fault of its own, which the end of the body tells.
  if (x->t->no_grad < before.no_grads)
    open = tc_fail(TC_ERR_STATE, x->op, x->site,
                   "%s has ended a tc_no_grad_begin of its caller's: remove that tc_no_grad_end", what);
  x->t->no_grad = before.no_grads;
  if (x->t->autocast.n > before.autocasts)
    open = tc_fail(TC_ERR_STATE, x->op, x->site, "%s has not ended its autocast: call tc_autocast_end", what);
  while (x->t->autocast.n > before.autocasts) (void)tc_autocast_end_at(x->site);
  return st != TC_OK ? st : open;
}

// Calls a body, and takes what it records.
static tc_status record_body(control_call *x, int body, tc_body_fn *fn, void *user) {
  tc_tensor in[TC_CONTROL_MOST], given[TC_CONTROL_MOST];
  uint32_t n_out = is_test(x, body) ? 1 : x->n_out;
  memset(given, 0, n_out * sizeof given[0]);
  tc_scope scope = tc_scope_begin_at(x->site);
  if (scope.depth == 0) return tc_last_error()->status;
  tc_status st = begin_body(x, in);
  if (st == TC_OK) {
    tc_error_mark before = tc_error_now();
    open_ends open = ends_now(x);
    st = fn(user, in, given);
    tc_error_mark now = tc_error_now();
    if (st != TC_OK && (now.id == before.id || now.status != st))
      (void)tc_fail(st, x->op, x->site, "the body returned \"%s\"", tc_status_text(st));
    st = check_ends(x, open, st);
    tc_error_mark failed = tc_error_now();
    st = end_body(x, body, n_out, given, st);
    if (st == failed.status && failed.id != before.id) (void)tc_error_tell(failed);
  }
  if (tc_own_scope_is_open(scope)) tc_scope_end_at(scope, 0);
  return st;
}

// The op's records, and handles of its results.
static tc_status end_call(control_call *x, tc_status st, tc_tensor *out) {
  tc_trace *t = x->t;
  tc_node node[TC_CONTROL_MOST];
  t = tc_op_begin_sync(x->op, x->site);
  if (t == x->t) tc_outline_close(&x->c);
  if (st == TC_OK && t->op_status == TC_OK && x->epoch != t->epoch)
    st = tc_fail(TC_ERR_STATE, x->op, x->site, "the body ended all tensors (tc_shutdown)");
  if (st == TC_OK && t->op_status == TC_OK) {
    t->op_device = x->c.device, t->n_taken = 1;
    tc_node n = tc_control_record(t, &x->f, &x->c, x->extract, x->in, x->f.first_in + x->n_fixed);
    for (uint32_t i = 0; i < x->n_out && n != TC_NODE_ERR; i++) node[i] = tc_control_result_of(t, &x->f, n, i);
    for (uint32_t i = 0; i < x->n_out && t->op_status == TC_OK; i++) out[i] = tc_trace_handle(t, node[i], true);
    if (t->op_status == TC_OK && tc_options_get()->eager && !t->outline)
      (void)tc_trace_sync(t, TC_CAUSE_EAGER, x->site, (int)x->n_out, node);
  }
  for (int i = 0; i < 2; i++) tc_extract_fini(&x->extract[i]);
  if (t == x->t) tc_outline_fini(&x->c);
  tc_status done = tc_op_done(t);
  st = st != TC_OK ? st : done;
  for (uint32_t i = 0; i < x->n_out && st != TC_OK; i++) out[i] = tc_poison(st);
  return st;
}

// Opens the call. False: it has failed for *st, and is closed.
static bool open_call(control_call *x, const char *op, tc_site site, tc_control_kind kind, tc_status *st) {
  *x = (control_call){.op = op, .site = site, .f = {.kind = kind, .n_step = -1}};
  x->f.first_in = kind == TC_CONTROL_COND;
  x->f.n_body = kind == TC_CONTROL_COND || kind == TC_CONTROL_WHILE ? 2 : 1;
  x->t = tc_op_begin(op, site);
  return (*st = x->t->op_status) == TC_OK;
}

static tc_status give_poison(tc_status st, tc_tensor *out, int n) {
  for (int i = 0; i < n && out && n <= TC_CONTROL_MOST; i++) out[i] = tc_poison(st);
  return st;
}

// Takes the operands and ends the first part of the call.
static tc_status take_inputs(control_call *x, const tc_tensor *carry, int n_carry, const tc_tensor *xs, int n_xs) {
  for (int i = 0; i < n_carry && x->t->op_status == TC_OK; i++) (void)take_input(x, carry[i], false);
  for (int i = 0; i < n_xs && x->t->op_status == TC_OK; i++) (void)take_input(x, xs[i], true);
  if (x->t->op_status == TC_OK) begin_call(x);
  return tc_op_done(x->t);
}

// ---- the public functions ----

static bool take_predicate(control_call *x, tc_tensor pred) {
  tc_trace *t = x->t;
  char text[128];
  tc_node n = x->in[0] = tc_op_in(t, pred);
  if (n == TC_NODE_ERR) return false;
  bool is_bool = tc_node_type(t, n) == TC_BOOL;
  if (is_bool && tc_dims_count(tc_node_dims(t, n)) == 1) return true;
  return tc_rec_fail(t, is_bool ? TC_ERR_SHAPE : TC_ERR_DTYPE, "the predicate is %s %s; one bool was expected",
                     tc_type_name(tc_node_type(t, n)), tc_dims_text(tc_node_dims(t, n), text, sizeof text)),
         false;
}

tc_status tc_cond_at(tc_tensor pred, tc_body_fn *then, tc_body_fn *otherwise, void *user, const tc_tensor *in, int n_in,
                     tc_tensor *out, int n_out, tc_site site) {
  control_call x = {.op = "cond", .site = site};
  tc_status st = check_counts(&x, n_in, n_out, in, out);
  if (st == TC_OK && (!then || !otherwise)) st = tc_fail(TC_ERR_ARG, "cond", site, "a body is a null pointer");
  if (st != TC_OK) return give_poison(st, out, n_out);
  if (!open_call(&x, "cond", site, TC_CONTROL_COND, &st)) return give_poison(tc_op_done(x.t), out, n_out);
  x.n_out = x.f.n_stacked = (uint32_t)n_out;
  (void)take_predicate(&x, pred);
  if ((st = take_inputs(&x, in, n_in, NULL, 0)) != TC_OK) return give_poison(st, out, n_out);
  x.f.n_step = 0;
  st = record_body(&x, 0, then, user);
  uint64_t after = x.t->counter;
  x.t->counter = x.counter;
  if (st == TC_OK) st = record_body(&x, 1, otherwise, user);
  x.t->counter = TC_MAX_OF(after, x.t->counter);
  return end_call(&x, st, out);
}

tc_status tc_while_at(tc_body_fn *test, tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry,
                      tc_tensor *out, tc_site site) {
  control_call x = {.op = "while", .site = site};
  tc_status st = check_counts(&x, n_carry, n_carry, carry, out);
  if (st == TC_OK && (!test || !body)) st = tc_fail(TC_ERR_ARG, "while", site, "a body is a null pointer");
  if (st != TC_OK) return give_poison(st, out, n_carry);
  if (!open_call(&x, "while", site, TC_CONTROL_WHILE, &st)) return give_poison(tc_op_done(x.t), out, n_carry);
  x.n_out = x.f.n_carry = (uint32_t)n_carry;
  if ((st = take_inputs(&x, carry, n_carry, NULL, 0)) != TC_OK) return give_poison(st, out, n_carry);
  x.f.n_step = 0;
  st = record_body(&x, 0, test, user);
  if (st == TC_OK) st = record_body(&x, 1, body, user);
  x.t->counter = x.counter + ((x.t->counter - x.counter) << WHILE_STEPS_SHIFT);
  return end_call(&x, st, out);
}

tc_status tc_scan_at(tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, const tc_tensor *xs, int n_xs,
                     tc_tensor *out, int n_ys, const tc_scan_options *options, tc_site site) {
  control_call x = {.op = "scan", .site = site};
  const tc_scan_options o = options ? *options : (tc_scan_options){.length = 0};
  int n_out = n_carry + n_ys;
  tc_status st =
      n_carry < 0 || n_ys < 0 || n_xs < 0 || n_xs > TC_CONTROL_MOST || n_carry > TC_CONTROL_MOST ||
              n_ys > TC_CONTROL_MOST
          ? tc_fail(TC_ERR_ARG, "scan", site, "%d carries, %d scanned tensors and %d results: each may be from 0 to %d",
                    n_carry, n_xs, n_ys, TC_CONTROL_MOST)
          : check_counts(&x, n_carry + n_xs, n_out, carry ? (const void *)carry : xs, out);
  if (st == TC_OK && ((n_carry && !carry) || (n_xs && !xs)))
    st = tc_fail(TC_ERR_ARG, "scan", site, "%s is a null pointer", n_xs && !xs ? "xs" : "carry");
  if (st == TC_OK && !body) st = tc_fail(TC_ERR_ARG, "scan", site, "the body is a null pointer");
  if (st == TC_OK && (o.length < 0 || (n_xs == 0 && o.length == 0 && !options)))
    st = tc_fail(TC_ERR_ARG, "scan", site, "nothing says how many steps there are: give xs or a length from 0 on");
  if (st != TC_OK) return give_poison(st, out, n_out);
  if (!open_call(&x, "scan", site, TC_CONTROL_SCAN, &st)) return give_poison(tc_op_done(x.t), out, n_out);
  x.f.n_carry = (uint32_t)n_carry, x.f.n_scanned = (uint32_t)n_xs, x.f.n_stacked = (uint32_t)n_ys;
  x.f.reverse = o.reverse, x.n_out = (uint32_t)n_out;
  if (o.length || n_xs == 0) x.f.n_step = o.length;
  if ((st = take_inputs(&x, carry, n_carry, xs, n_xs)) != TC_OK) return give_poison(st, out, n_out);
  st = record_body(&x, 0, body, user);
  x.t->counter = x.counter + (x.t->counter - x.counter) * (uint64_t)x.f.n_step;
  return end_call(&x, st, out);
}

tc_status tc_checkpoint_at(tc_body_fn *fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out,
                           tc_site site) {
  control_call x = {.op = "checkpoint", .site = site};
  tc_status st = check_counts(&x, n_in, n_out, in, out);
  if (st == TC_OK && !fn) st = tc_fail(TC_ERR_ARG, "checkpoint", site, "the function is a null pointer");
  if (st != TC_OK) return give_poison(st, out, n_out);
  if (!open_call(&x, "checkpoint", site, TC_CONTROL_CALL, &st)) return give_poison(tc_op_done(x.t), out, n_out);
  x.n_out = x.f.n_stacked = (uint32_t)n_out;
  if ((st = take_inputs(&x, in, n_in, NULL, 0)) != TC_OK) return give_poison(st, out, n_out);
  x.f.n_step = 0;
  st = record_body(&x, 0, fn, user);
  return end_call(&x, st, out);
}
