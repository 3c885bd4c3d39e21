// Traces a body for its graph alone. See trace_body.h.
#define TC_NO_SITES
#include "lazy/compile/trace_body.h"

#include <string.h>

#include "lazy/compile/make_fragment.h"
#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/sync/open_ends.h"
#include "lazy/trace/context.h"
#include "runtime/arena.h"

typedef struct tracing {
  const char *name;
  tc_site site;
  tc_capture capture;
  const tc_tensor *in;
  tc_tensor *stand_in, *out;
  tc_body_result *result;
  bool *is_held;  // per result: it has a reference, of the body's own tensor
  int n_in, n_out;
  bool has_begun;
  uint64_t context, seed, stream;  // before the body
  int no_grad;
} tracing;

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

static tc_status allocate(tracing *b) {
  b->stand_in = tc_calloc((size_t)b->n_in + 1, sizeof *b->stand_in);
  b->result = tc_calloc((size_t)b->n_out + 1, sizeof *b->result);
  b->is_held = tc_calloc((size_t)b->n_out + 1, sizeof *b->is_held);
  if (b->stand_in && b->result && b->is_held) return TC_OK;
  return tc_fail(TC_ERR_MEMORY, b->name, b->site, "no room for %d arguments and %d results", b->n_in, b->n_out);
}

// What the body sees of argument i: itself if it is a parameter, else another tensor with its
// value. A tensor that the body finds elsewhere, too, is thereby told from the argument.
static tc_tensor make_stand_in(tc_trace *t, const tracing *b, int i) {
  for (int k = 0; k < i; k++)
    if (is_same(b->in[k], b->in[i])) return b->stand_in[k];
  tc_node a = tc_op_in(t, b->in[i]);
  if (a == TC_NODE_ERR) return (tc_tensor){0, 0};
  if (t->flag[a] & TC_NODE_REQUIRES_GRAD) return b->in[i];
  tc_node n = tc_trace_copy(t, a);
  if (n == TC_NODE_ERR) return (tc_tensor){0, 0};
  t->call[n] = t->call[a];
  tc_capture_see(t, n, TC_SEEN_ARG, (tc_tensor){(uint32_t)i, 0});
  return tc_trace_handle(t, n, false);
}

static tc_status begin_tracing(tracing *b) {
  tc_trace *t = tc_op_begin(b->name, b->site);
  if (t->op_status != TC_OK) return tc_op_done(t);
  tc_capture_begin(t, &b->capture);
  b->has_begun = true, b->context = tc_record_context(t);
  b->seed = t->seed, b->stream = t->stream, b->no_grad = t->no_grad;
  for (int i = 0; i < b->n_in && t->op_status == TC_OK; i++) b->stand_in[i] = make_stand_in(t, b, i);
  b->capture.first_node = t->n_node;
  return tc_op_done(t);
}

static tc_slot *find_own(const tc_trace *t, tc_tensor h) {
  tc_trace *owner;
  tc_slot *s = tc_slot_find(h, &owner);
  return s && owner == t && h.gen && s->gen == h.gen ? s : NULL;
}

static bool is_noted(const tc_trace *t, const tc_capture *c, tc_tensor h, tc_node n) {
  for (uint32_t i = 0; i < c->n_assigned; i++)
    if (is_same(c->assigned[i].handle, h) && tc_was_before(t, c, &c->assigned[i])) return true;
  for (uint32_t i = 0; i < c->n_seen; i++)
    if (c->seen[i].node == n) return true;
  return t->slot_of[n] != h.slot;
}

// What result i is. The body's own tensors are held over the end of its scope.
static void classify(tc_trace *t, tracing *b, int i) {
  tc_body_result *r = &b->result[i];
  tc_tensor h = b->out[i];
  *r = (tc_body_result){.handle = h, .kind = TC_RESULT_HANDLE};
  if (h.slot == 0 && h.gen == 0) {
    r->kind = TC_RESULT_NONE;
    return;
  }
  for (int k = 0; k < b->n_in; k++)
    if (is_same(b->stand_in[k], h)) {
      r->kind = TC_RESULT_ARG, r->number = (uint32_t)k;
      return;
    }
  for (int k = 0; k < i; k++)
    if (b->result[k].kind == TC_RESULT_NODE && is_same(b->out[k], h)) {
      r->kind = TC_RESULT_SAME, r->number = (uint32_t)k;
      return;
    }
  tc_slot *s = find_own(t, h);
  if (!s) {
    tc_trace *owner;
    bool foreign = h.gen && tc_slot_find(h, &owner) && owner != t;
    if (h.slot >= TC_POISON)
      t->op_status = tc_poison_told(h);
    else if (!foreign)
      tc_rec_fail(t, TC_ERR_HANDLE, "result %d: %s", i, tc_handle_fault(h));
    return;
  }
  if (b->capture.why ||
      (s->epoch == t->epoch && s->node >= b->capture.first_node && !is_noted(t, &b->capture, h, s->node))) {
    s->refs++;
    b->is_held[i] = true;
    r->kind = TC_RESULT_NODE, r->number = s->node;
  }
}

// Without a graph, arguments get what the body assigned to their stand-ins.
static void assign_args(tc_trace *t, const tracing *b) {
  const tc_capture *c = &b->capture;
  for (int i = 0; i < b->n_in && t->op_status == TC_OK; i++)
    for (uint32_t k = 0; k < c->n_assigned && !is_same(b->stand_in[i], b->in[i]); k++)
      if (is_same(c->assigned[k].handle, b->stand_in[i])) {
        (void)tc_rec_assign(t, b->in[i], tc_op_in(t, b->stand_in[i]));
        break;
      }
}

// The body has returned.
static tc_status collect(tracing *b, tc_status st) {
  tc_trace *t = tc_op_begin_sync(b->name, b->site);
  if (tc_record_context(t) != b->context || t->no_grad != b->no_grad)
    tc_capture_break(t, "a tc_no_grad_begin, a default device or the like that it leaves set", b->name, b->site);
  if (t->seed != b->seed || t->stream != b->stream)
    tc_capture_break(t, "a random state that it sets", b->name, b->site);
  tc_capture_end(t, &b->capture);
  for (int i = 0; i < b->n_out && st == TC_OK && t->op_status == TC_OK; i++) classify(t, b, i);
  tc_status done = tc_op_done(t);
  if (st == TC_OK) st = done;
  if (st != TC_OK && !b->capture.why) b->capture.why = "an error", b->capture.by = b->name, b->capture.where = b->site;
  return st;
}

static void release_stand_ins(tc_trace *t, tracing *b) {
  for (int i = 0; i < b->n_in; i++) {
    bool once = b->stand_in[i].gen && !is_same(b->stand_in[i], b->in[i]);
    for (int k = 0; k < i && once; k++) once = !is_same(b->stand_in[k], b->stand_in[i]);
    if (once) tc_slot_release_handle(t, b->stand_in[i]);
  }
}

// Whether somebody beside the results and the scope around the body has a reference to a result.
static bool is_retained(const tc_trace *t, const tracing *b, int i) {
  const tc_slot *s = b->is_held[i] ? find_own(t, b->out[i]) : NULL;
  uint32_t n = 1, from = t->n_mark ? t->mark[t->n_mark - 1] : 0;
  for (uint32_t k = from; k < t->n_pool && s; k++) n += is_same(t->pool[k], b->out[i]);
  return s && s->refs > n;
}

// Whether the body has a reference to an argument, which is a stand-in.
static bool retains_argument(const tc_trace *t, const tracing *b) {
  for (int i = 0; i < b->n_in; i++) {
    const tc_slot *s = is_same(b->stand_in[i], b->in[i]) ? NULL : find_own(t, b->stand_in[i]);
    uint32_t n = 1;
    for (int k = 0; k < b->n_out; k++) n += b->is_held[k] && is_same(b->out[k], b->stand_in[i]);
    if (s && s->refs > n) return true;
  }
  return false;
}

// Whether result i is the gradient of a parameter, whose handle the next call may not find again.
static bool is_grad(const tc_trace *t, const tracing *b, int i) {
  const tc_capture *c = &b->capture;
  for (uint32_t k = 0; k < c->n_graded; k++) {
    const tc_slot *s = find_own(t, c->graded[k].param);
    if (b->out[i].gen && s && is_same(s->grad, b->out[i])) return true;
  }
  return false;
}

// Makes the fragment and takes the records out, or leaves them and hands the results over.
static tc_status finish(tracing *b, tc_status st, tc_fragment **f) {
  tc_trace *t = tc_op_begin_sync(b->name, b->site);
  tc_capture *c = &b->capture;
  for (int i = 0; i < b->n_out && !c->why; i++)
    if (is_grad(t, b, i)) c->why = "a parameter's gradient as a result, which tc_grad gives after the call";
  if (!c->why && retains_argument(t, b)) c->why = "an argument that it retains";
  if (c->why && !c->by) c->by = b->name, c->where = b->site;
  for (int i = 0; i < b->n_out && !c->why; i++)
    if (is_retained(t, b, i)) c->why = "a result that it retains", c->by = t->call[b->result[i].number].op;
  if (!c->why) tc_fragment_make(t, c, b->n_in, b->stand_in, b->n_out, b->result, f);
  if (c->why && t->capture) tc_capture_break(t, c->why, c->by, c->where);
  if (c->why) assign_args(t, b);
  for (int i = 0; i < b->n_out; i++) {
    tc_slot *s = b->is_held[i] ? find_own(t, b->out[i]) : NULL;
    if (c->why && s) (void)tc_slot_refer(t, b->out[i].slot);
    if (c->why && b->result[i].kind == TC_RESULT_ARG) b->out[i] = b->in[b->result[i].number];
  }
  if (!c->why) tc_capture_undo(t, c);
  for (int i = 0; i < b->n_out; i++) {
    if (!b->is_held[i]) continue;
    tc_slot_release_handle(t, b->result[i].handle);
    // tc_keep in the body: the reference that its scope moved outward ends, too
    if (!c->why && find_own(t, b->result[i].handle)) tc_slot_release_handle(t, b->result[i].handle);
  }
  release_stand_ins(t, b);
  tc_capture_fini(t, c);
  tc_status done = tc_op_done(t);
  return st != TC_OK ? st : done;
}

tc_status tc_body_trace(const char *name, tc_compile_fn fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out,
                        int n_out, tc_site site, tc_fragment **f, tc_no_fragment *why) {
  tracing b = {.name = name, .site = site, .in = in, .n_in = n_in, .out = out, .n_out = n_out};
  *f = NULL, *why = (tc_no_fragment){.may_pass = false};
  for (int i = 0; i < n_out; i++) out[i] = (tc_tensor){0, 0};
  tc_status st = allocate(&b);
  if (st == TC_OK) st = begin_tracing(&b);
  if (st == TC_OK) {
    tc_scope scope = tc_scope_begin_at(site);
    tc_open_ends before = tc_open_ends_now();
    st = fn(user, b.stand_in, n_in, out, n_out);
    tc_status open = tc_open_ends_check(&before, name, "the function", site);
    if (st == TC_OK) st = open;
    st = collect(&b, st);
    if (tc_own_scope_is_open(scope)) tc_scope_end_at(scope, 0);
    st = finish(&b, st, f);
  } else if (b.has_begun) {
    st = finish(&b, collect(&b, st), f);
  }
  if (*f) tc_fragment_hold(*f, site);
  if (b.capture.why) {
    char place[160];
    why->may_pass = b.capture.may_pass;
    tc_site_text(b.capture.where, place, sizeof place);
    snprintf(why->text, sizeof why->text, "%s (%s at %s)", b.capture.why, b.capture.by,
             place[0] ? place : "an unknown place");
  }
  tc_free(b.stand_in), tc_free(b.result), tc_free(b.is_held);
  for (int i = 0; i < n_out && st != TC_OK; i++) out[i] = tc_poison(st);
  return st;
}
