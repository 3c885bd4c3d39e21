// Compares two fragments of one body. See same_graph.h.
#include "lazy/compile/same_graph.h"

#include <stdlib.h>
#include <string.h>

static void tell_call(char *out, size_t bytes, tc_call by) {
  char place[160];
  tc_site_text(by.site, place, sizeof place);
  tc_text_append(out, bytes, "%s%s%s", by.op ? by.op : "an op", place[0] ? " at " : "", place);
}

// Whether argument i of the fragment changes from call to call by itself.
static bool varies(const tc_fragment *f, uint32_t arg) {
  for (uint32_t i = 0; i < f->n_draw; i++)
    if (arg == f->draw[i].arg || arg == f->draw[i].arg + 1) return true;
  for (uint32_t i = 0; i < f->n_step; i++)
    for (uint32_t k = 0; k < f->step[i].n_arg; k++)
      if (f->step[i].arg[k] == arg) return true;
  return false;
}

static void tell_number(char *out, size_t bytes, const tc_rec *r, uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  bool is_float = r->dtype == TC_F64 || r->dtype == TC_F32 || r->dtype == TC_F16 || r->dtype == TC_BF16;
  if (is_float)
    tc_text_append(out, bytes, "%.9g", d);
  else
    tc_text_append(out, bytes, "%lld", (long long)bits);
}

static bool same_record(const tc_fragment *a, const tc_fragment *b, uint32_t n, char *out, size_t bytes) {
  const tc_rec *x = tc_fragment_rec(a, n), *y = tc_fragment_rec(b, n);
  if (tc_rec_op(x) != tc_rec_op(y) || x->n_extra != y->n_extra ||
      memcmp(x, y, (2 + (size_t)x->n_extra) * sizeof(uint64_t)) != 0 || a->dev[n] != b->dev[n]) {
    tell_call(out, bytes, b->call[n]);
    tc_text_append(out, bytes, " is recorded as %s, ", tc_op_names[tc_rec_op(y)]);
    tell_call(out, bytes, a->call[n]);
    tc_text_append(out, bytes, " was as %s%s", tc_op_names[tc_rec_op(x)],
                   tc_rec_op(x) == tc_rec_op(y) ? ", of other operands or attributes" : "");
    return false;
  }
  for (uint32_t i = 0; i < tc_rec_args(x); i++) {
    uint64_t was = a->arg[a->arg_at[n] + i], now = b->arg[b->arg_at[n] + i];
    if (was == now || varies(a, a->arg_at[n] + i)) continue;
    tell_call(out, bytes, b->call[n]);
    tc_text_append(out, bytes, " has the number ");
    tell_number(out, bytes, y, now);
    tc_text_append(out, bytes, ", had ");
    tell_number(out, bytes, x, was);
    return false;
  }
  if (a->flag[n] == b->flag[n]) return true;
  tell_call(out, bytes, b->call[n]);
  tc_text_append(out, bytes, " has another history than it had");
  return false;
}

static bool same_operand(const tc_operand *a, const tc_operand *b) {
  return a->kind == b->kind && a->arg == b->arg && a->handle.slot == b->handle.slot && a->handle.gen == b->handle.gen &&
         a->shape == b->shape && a->type == b->type && a->device == b->device;
}

static bool same_effects(const tc_fragment *a, const tc_fragment *b) {
  if (a->n_assign != b->n_assign || a->n_grad != b->n_grad || a->n_result != b->n_result || a->n_drawn != b->n_drawn)
    return false;
  for (uint32_t i = 0; i < a->n_assign; i++)
    if (a->assign[i].arg != b->assign[i].arg || a->assign[i].handle.slot != b->assign[i].handle.slot ||
        a->assign[i].node != b->assign[i].node)
      return false;
  for (uint32_t i = 0; i < a->n_grad; i++)
    if (a->grad[i].param.slot != b->grad[i].param.slot || a->grad[i].node != b->grad[i].node) return false;
  for (uint32_t i = 0; i < a->n_result; i++)
    if (a->result[i].kind != b->result[i].kind || a->result[i].number != b->result[i].number ||
        a->result[i].handle.slot != b->result[i].handle.slot)
      return false;
  return true;
}

bool tc_fragment_same(const tc_fragment *was, const tc_fragment *now, char *out, size_t bytes) {
  uint32_t most = TC_MIN(was->n_node, now->n_node);
  out[0] = '\0';
  for (uint32_t n = 0; n < most && was->n_operand == now->n_operand; n++)
    if (!same_record(was, now, n, out, bytes)) return false;
  if (was->n_operand != now->n_operand || was->n_node != now->n_node) {
    const tc_fragment *more = now->n_node > was->n_node ? now : was;
    tc_text_append(out, bytes, "it has %u records of %u tensors, had %u of %u", now->n_node, now->n_operand,
                   was->n_node, was->n_operand);
    if (more->n_node > most) {
      tc_text_append(out, bytes, "; ");
      tell_call(out, bytes, more->call[most]);
      tc_text_append(out, bytes, " is in one alone");
    }
    return false;
  }
  for (uint32_t i = 0; i < was->n_operand; i++) {
    if (same_operand(&was->operand[i], &now->operand[i])) continue;
    tc_text_append(out, bytes, "it reads another tensor that it found than it did");
    return false;
  }
  if (same_effects(was, now)) return true;
  tc_text_append(out, bytes, "it assigns, returns or gives gradients to others than it did");
  return false;
}
