// Guards: what a call must have in common with the one that a graph was traced for. See guards.h.
#include "lazy/compile/guards.h"

#include <string.h>

#include "lazy/trace/context.h"
#include "lazy/trace/watched.h"
#include "runtime/arena.h"

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

// The first argument that is the same tensor as the i-th.
static int first_same(const tc_tensor *in, int i) {
  int k = 0;
  while (k < i && !is_same(in[k], in[i])) k++;
  return k;
}

static tc_guard_arg facts_of(const tc_trace *t, const tc_call_facts *call, int i) {
  tc_node n = call->node[i];
  const tc_rec *r = tc_rec_of(t, n);
  tc_guard_arg a = {.shape = r->shape, .type = r->dtype, .device = t->dev[n], .history = tc_history_of(t, n)};
  a.same = first_same(call->in, i);
  if (t->flag[n] & TC_NODE_REQUIRES_GRAD) a.param = call->in[i];
  return a;
}

bool tc_guards_make(const tc_trace *t, const tc_call_facts *call, tc_guards *g) {
  size_t n_bytes = 0;
  for (int i = 0; i < call->n_statics; i++) n_bytes += call->statics[i].bytes;
  *g = (tc_guards){.context = tc_record_context(t), .n_in = call->n_in, .n_num = call->n_num, .n_out = call->n_out};
  g->arg = tc_malloc(((size_t)call->n_in + 1) * sizeof *g->arg);
  g->bytes = tc_malloc(n_bytes + 1);
  if (!g->arg || !g->bytes) return tc_guards_free(g), false;
  for (int i = 0; i < call->n_in; i++) g->arg[i] = facts_of(t, call, i);
  uint8_t *to = g->bytes;
  for (int i = 0; i < call->n_statics; to += call->statics[i++].bytes)
    if (call->statics[i].bytes) memcpy(to, call->statics[i].data, call->statics[i].bytes);
  return true;
}

void tc_guards_free(tc_guards *g) {
  tc_free(g->arg), tc_free(g->bytes);
  g->arg = NULL, g->bytes = NULL;
}

static bool fail(tc_guard_failure *failed, tc_guard_kind kind, uint32_t index) {
  *failed = (tc_guard_failure){.kind = kind, .index = index};
  return false;
}

static bool is_arg_same(const tc_trace *t, const tc_guard_arg *a, const tc_call_facts *call, int i) {
  tc_node n = call->node[i];
  const tc_rec *r = tc_rec_of(t, n);
  return r->shape == a->shape && r->dtype == a->type && t->dev[n] == a->device && tc_history_of(t, n) == a->history &&
         (!a->param.gen || is_same(a->param, call->in[i])) && first_same(call->in, i) == a->same;
}

// Whether a tensor that the function finds or assigns is an argument, too, which the graph takes
// for another one. A parameter as an argument is one tensor to both.
static bool is_found(const tc_fragment *f, tc_tensor arg) {
  for (uint32_t i = 0; i < f->n_operand; i++)
    if (f->operand[i].kind == TC_OPERAND_HANDLE && is_same(f->operand[i].handle, arg)) return true;
  for (uint32_t i = 0; i < f->n_assign; i++)
    if (f->assign[i].arg < 0 && is_same(f->assign[i].handle, arg)) return true;
  return false;
}

bool tc_guards_hold(const tc_trace *t, const tc_guards *g, const tc_fragment *f, const tc_call_facts *call,
                    tc_guard_failure *failed) {
  if (call->n_in != g->n_in || call->n_num != g->n_num || call->n_out != g->n_out)
    return fail(failed, TC_GUARD_COUNT, 0);
  if (tc_record_context(t) != g->context) return fail(failed, TC_GUARD_CONTEXT, 0);
  for (int i = 0; i < g->n_in; i++)
    if (!is_arg_same(t, &g->arg[i], call, i)) return fail(failed, TC_GUARD_ARG, (uint32_t)i);
  for (int i = 0; i < g->n_in; i++)
    if (!g->arg[i].param.gen && is_found(f, call->in[i])) return fail(failed, TC_GUARD_FOUND, (uint32_t)i);
  const uint8_t *was = g->bytes;
  for (int i = 0; i < call->n_statics; was += call->statics[i++].bytes)
    if (call->statics[i].bytes && memcmp(was, call->statics[i].data, call->statics[i].bytes) != 0)
      return fail(failed, TC_GUARD_STATIC, (uint32_t)i);
  for (uint32_t i = 0; i < f->n_watch; i++)
    if (tc_watched_value(f->watch[i].of) != f->watch[i].value) return fail(failed, TC_GUARD_WATCH, i);
  if (!tc_fragment_steps_fit(f)) return fail(failed, TC_GUARD_OWNER, 0);
  for (uint32_t i = 0; i < f->n_grad; i++) {
    tc_trace *owner;
    const tc_slot *s = tc_slot_find(f->grad[i].param, &owner);
    if (owner == t && (s->grad.gen != 0) != f->grad[i].had) return fail(failed, TC_GUARD_GRAD, i);
  }
  return true;
}

bool tc_guards_hold_operands(const tc_trace *t, const tc_fragment *f, const tc_node *operand,
                             tc_guard_failure *failed) {
  for (uint32_t i = 0; i < f->n_operand; i++) {
    const tc_operand *o = &f->operand[i];
    tc_node n = operand[i];
    if (o->kind == TC_OPERAND_ARG) continue;  // a guard of its own
    const tc_rec *r = n == TC_NODE_ERR ? NULL : tc_rec_of(t, n);
    if (r && r->shape == o->shape && r->dtype == o->type && t->dev[n] == o->device && tc_history_of(t, n) == o->history)
      continue;
    (void)fail(failed, TC_GUARD_OPERAND, i);
    if (r)
      failed->now =
          (tc_operand){.shape = r->shape, .type = r->dtype, .device = t->dev[n], .history = tc_history_of(t, n)};
    else
      failed->now = (tc_operand){.shape = TC_SHAPE_NONE};
    return false;
  }
  return true;
}

// ---- texts ----

static void tell_type(char *out, size_t bytes, uint8_t type, uint32_t shape, uint8_t device, uint8_t history) {
  char dims[128];
  tc_text_append(out, bytes, "%s%s", tc_type_name((tc_type)type),
                 tc_dims_text(&tc_dims_at(shape)->d, dims, sizeof dims));
  if (device != TC_DEVICE_CPU) tc_text_append(out, bytes, " on %s", tc_device_name((tc_device)device));
  const char *wants = (history & TC_NODE_REQUIRES_GRAD) ? ", a parameter"
                      : (history & TC_NODE_TAPE)        ? ", with history"
                      : (history & TC_NODE_FREED_IN)    ? ", with freed history"
                                                        : "";
  tc_text_append(out, bytes, "%s", wants);
}

static void tell_arg(char *out, size_t bytes, const tc_guard_arg *a, int i) {
  tell_type(out, bytes, a->type, a->shape, a->device, a->history);
  if (a->same != i) tc_text_append(out, bytes, ", the same tensor as argument %d", a->same);
}

// The call that reads operand i first.
static tc_call reader_of(const tc_fragment *f, uint32_t i) {
  for (uint32_t n = 0; n < f->n_node; n++) {
    const tc_rec *r = tc_fragment_rec(f, n);
    for (int k = 0; k < tc_rec_arity(r); k++)
      if (tc_rec_in(r)[k] == i) return f->call[n];
  }
  return (tc_call){"a result", 0};
}

static void tell_reader(char *out, size_t bytes, const tc_fragment *f, uint32_t i) {
  char place[160];
  tc_call by = reader_of(f, i);
  tc_site_text(by.site, place, sizeof place);
  tc_text_append(out, bytes, "%s that %s%s%s reads",
                 f->operand[i].kind == TC_OPERAND_GRAD ? "the gradient" : "the tensor", by.op ? by.op : "an op",
                 place[0] ? " at " : "", place);
}

static void tell_context(char *out, size_t bytes, uint64_t now, uint64_t was) {
  const char *grads[] = {"on", "off"};
  uint64_t other = now ^ was, low = (UINT64_C(1) << TC_CONTEXT_BITS) - 1;
  if (other & TC_CONTEXT_NO_GRAD)
    tc_text_append(out, bytes, "gradients are %s, were %s", grads[now & 1], grads[was & 1]);
  else if (other & low)
    tc_text_append(out, bytes, "the default device is %s, was %s", tc_device_name((tc_device)((now & low) >> 1)),
                   tc_device_name((tc_device)((was & low) >> 1)));
  else if (other >> TC_CONTEXT_OPTIONS)
    tc_text_append(out, bytes, "the options of a region are others than they were");
  else
    tc_text_append(out, bytes, "autocast is another than it was");
}

static void tell_failed_operand(const tc_fragment *f, const tc_guard_failure *failed, char *out, size_t bytes) {
  const tc_operand *o = &f->operand[failed->index], *now = &failed->now;
  tell_reader(out, bytes, f, failed->index);
  if (now->shape == TC_SHAPE_NONE) {
    tc_text_append(out, bytes, " is gone");
    return;
  }
  tc_text_append(out, bytes, " is ");
  tell_type(out, bytes, now->type, now->shape, now->device, now->history);
  tc_text_append(out, bytes, ", was ");
  tell_type(out, bytes, o->type, o->shape, o->device, o->history);
}

void tc_guards_tell(const tc_trace *t, const tc_guards *g, const tc_fragment *f, const tc_call_facts *call,
                    const tc_guard_failure *failed, char *out, size_t bytes) {
  out[0] = '\0';
  uint32_t i = failed->index;
  switch (failed->kind) {
    case TC_GUARD_HOLDS: break;
    case TC_GUARD_COUNT:
      tc_text_append(out, bytes, "there are %d arguments, %d numbers and %d results, were %d, %d and %d", call->n_in,
                     call->n_num, call->n_out, g->n_in, g->n_num, g->n_out);
      break;
    case TC_GUARD_CONTEXT: tell_context(out, bytes, tc_record_context(t), g->context); break;
    case TC_GUARD_ARG: {
      tc_guard_arg now = facts_of(t, call, (int)i);
      tc_text_append(out, bytes, "argument %u is ", i);
      tell_arg(out, bytes, &now, (int)i);
      tc_text_append(out, bytes, ", was ");
      if (now.param.gen && g->arg[i].param.gen) tc_text_append(out, bytes, "another one: ");
      tell_arg(out, bytes, &g->arg[i], (int)i);
      break;
    }
    case TC_GUARD_FOUND:
      tc_text_append(out, bytes, "argument %u is a tensor that the function finds besides", i);
      break;
    case TC_GUARD_STATIC: {
      const char *name = call->statics[i].name;
      tc_text_append(out, bytes, "static %u%s%s holds other bytes than it did", i, name ? ", " : "", name ? name : "");
      break;
    }
    case TC_GUARD_WATCH:
      tc_text_append(out, bytes, "%s is %llu, was %llu", tc_watched_name(f->watch[i].of),
                     (unsigned long long)tc_watched_value(f->watch[i].of), (unsigned long long)f->watch[i].value);
      break;
    case TC_GUARD_GRAD:
      tc_text_append(out, bytes, "a parameter %s",
                     f->grad[i].had ? "has no gradient, had one" : "has a gradient, had none");
      break;
    case TC_GUARD_OPERAND: tell_failed_operand(f, failed, out, bytes); break;
    case TC_GUARD_OWNER:
      tc_text_append(out, bytes, "an optimizer that it steps has ended, or is another than it was");
      break;
  }
}

void tc_guards_text(const tc_guards *g, const tc_fragment *f, const tc_static *statics, int n_statics, char *out,
                    size_t bytes) {
  uint64_t low = (UINT64_C(1) << TC_CONTEXT_BITS) - 1;
  tc_text_append(out, bytes, "arguments: %d, numbers: %d, results: %d\n", g->n_in, g->n_num, g->n_out);
  tc_text_append(out, bytes, "gradients are %s, the default device is %s\n",
                 (g->context & TC_CONTEXT_NO_GRAD) ? "off" : "on",
                 tc_device_name((tc_device)((g->context & low) >> 1)));
  if (g->context >> TC_CONTEXT_BITS)
    tc_text_append(out, bytes, "autocast and options of a region: %012llx\n",
                   (unsigned long long)(g->context >> TC_CONTEXT_BITS));
  for (int i = 0; i < g->n_in; i++) {
    tc_text_append(out, bytes, "argument %d is ", i);
    tell_arg(out, bytes, &g->arg[i], i);
    tc_text_append(out, bytes, "%s\n", g->arg[i].param.gen ? ", this one" : "");
  }
  for (uint32_t i = 0; i < f->n_operand; i++) {
    const tc_operand *o = &f->operand[i];
    if (o->kind != TC_OPERAND_HANDLE && o->kind != TC_OPERAND_GRAD) continue;
    tell_reader(out, bytes, f, i);
    tc_text_append(out, bytes, " is ");
    tell_type(out, bytes, o->type, o->shape, o->device, o->history);
    tc_text_append(out, bytes, "\n");
  }
  for (uint32_t i = 0; i < f->n_watch; i++)
    tc_text_append(out, bytes, "%s is %llu\n", tc_watched_name(f->watch[i].of), (unsigned long long)f->watch[i].value);
  uint32_t n_had = 0;
  for (uint32_t i = 0; i < f->n_grad; i++) n_had += f->grad[i].had;
  if (f->n_grad) tc_text_append(out, bytes, "of %u parameters %u have gradients\n", f->n_grad, n_had);
  for (int i = 0; i < n_statics; i++)
    tc_text_append(out, bytes, "static %d%s%s: %zu bytes\n", i, statics[i].name ? ", " : "",
                   statics[i].name ? statics[i].name : "", statics[i].bytes);
}
