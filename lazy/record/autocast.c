// Autocast: rules by name, and casts of operands. See autocast.h.
#include "lazy/record/autocast.h"

#include <stdatomic.h>
#include <string.h>

#include "lazy/record/record.h"
#include "runtime/arena.h"

// ---- Rules by name ----

typedef struct named_rule {
  const char *name;
  uint8_t rule;
} named_rule;

static const named_rule rules[] = {
#define TC_OP(NAME, name, kind, arity, dtype, vjp, saves, autocast, ...) {#name, TC_AUTOCAST_##autocast},
#include <tc/ops.def>
#undef TC_OP
#define TC_AUTOCAST(name, autocast) {#name, TC_AUTOCAST_##autocast},
#include <tc/autocast.def>
#undef TC_AUTOCAST
};

static tc_autocast_rule search_rule(const char *name) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (strcmp(rules[i].name, name) == 0) return (tc_autocast_rule)rules[i].rule;
  return TC_AUTOCAST_none;
}

// Names are static strings, so an address stands for its text. The last name at each place is
// remembered, with its rule in the low byte.
tc_autocast_rule tc_autocast_rule_of(const char *name) {
  enum { PLACES = 256 };
  static _Atomic uint64_t known[PLACES];
  _Atomic uint64_t *at = &known[((uintptr_t)name >> 2 ^ (uintptr_t)name >> 10) % PLACES];
  uint64_t word = atomic_load_explicit(at, memory_order_relaxed);
  if (word >> 8 != (uintptr_t)name) {
    word = (uint64_t)(uintptr_t)name << 8 | search_rule(name);
    atomic_store_explicit(at, word, memory_order_relaxed);
  }
  return (tc_autocast_rule)(word & 0xFF);
}

// ---- Types by device ----

int tc_autocast_place(tc_device d) {
  tc_device row = tc_device_row(d);
  return row == TC_DEVICE_CUDA ? 1 : row == TC_DEVICE_HIP ? 2 : 0;
}

// Whether autocast casts values of the type at all. PyTorch leaves f64 alone, too.
static bool is_eligible(tc_type type) {
  return type == TC_F32 || tc_type_is_half(type);
}

// ---- Casts of parameters ----

// The place of a cast from a node to a type, or the free one where it goes.
static tc_param_cast *find_cast(const tc_trace *t, tc_param_cast *table, uint32_t cap, tc_node from, tc_type type) {
  uint32_t at = from * UINT32_C(0x9E3779B1) >> 8;
  for (;; at++) {
    tc_param_cast *c = &table[at & (cap - 1)];
    if (c->from == 0 || (c->from == from + 1 && tc_node_type(t, c->to) == type)) return c;
  }
}

// Makes room for one more; false out of memory.
static bool room_for_cast(tc_trace *t) {
  tc_param_casts *c = &t->autocast.casts;
  if (c->epoch != t->memo_epoch) {
    if (c->cap) memset(c->cast, 0, c->cap * sizeof *c->cast);
    c->n = 0, c->epoch = t->memo_epoch;
  }
  if (2 * (c->n + 1) <= c->cap) return true;
  uint32_t cap = c->cap ? 2 * c->cap : 64;
  tc_param_cast *cast = tc_calloc(cap, sizeof *cast);
  if (!cast) return false;
  for (uint32_t i = 0; i < c->cap; i++)
    if (c->cast[i].from) *find_cast(t, cast, cap, c->cast[i].from - 1, tc_node_type(t, c->cast[i].to)) = c->cast[i];
  tc_free(c->cast);
  c->cast = cast, c->cap = cap;
  return true;
}

// Whether a cast that was recorded before has the history that one recorded now would have. It has
// not if it was recorded under tc_no_grad_begin, or if a backward has freed its history since.
static bool has_history_of(const tc_trace *t, tc_node to, tc_node from) {
  bool wanted = t->tape && (t->flag[from] & TC_NODE_TAPE);
  return ((t->flag[to] & TC_NODE_TAPE) != 0) == wanted && !(t->flag[to] & TC_NODE_NO_HISTORY);
}

// A node of a value in memory, or of a parameter, stands for it all through the trace. The next
// value is another node's.
static tc_node cast_once(tc_trace *t, tc_node n, tc_type type) {
  bool kept = tc_rec_op(tc_rec_of(t, n)) == TC_OP_LEAF || (t->flag[n] & TC_NODE_REQUIRES_GRAD);
  if (!kept || !room_for_cast(t)) return tc_rec_cast(t, n, type);
  tc_param_cast *c = find_cast(t, t->autocast.casts.cast, t->autocast.casts.cap, n, type);
  if (c->from && has_history_of(t, c->to, n)) return c->to;
  tc_node to = tc_rec_cast(t, n, type);
  if (to == TC_NODE_ERR) return to;
  t->autocast.casts.n += c->from == 0;
  *c = (tc_param_cast){n + 1, to};
  return to;
}

// ---- Operands ----

static tc_node cast_operand(tc_trace *t, tc_node n, tc_type type) {
  if (tc_node_type(t, n) == type) return n;
  return tc_type_is_half(type) ? cast_once(t, n, type) : tc_rec_cast(t, n, type);
}

tc_node tc_autocast_operand(tc_trace *t, tc_node n) {
  if (n == TC_NODE_ERR || t->cast_rule == TC_AUTOCAST_promote || !is_eligible(tc_node_type(t, n))) return n;
  tc_type low = tc_autocast_type_on(t, (tc_device)t->dev[n]);
  return low == TC_N_TYPES ? n : cast_operand(t, n, t->cast_rule == TC_AUTOCAST_lower ? low : TC_F32);
}

void tc_autocast_widen(tc_trace *t, tc_node *a, tc_node *b) {
  if (*a == TC_NODE_ERR || *b == TC_NODE_ERR) return;
  tc_type ta = tc_node_type(t, *a), tb = tc_node_type(t, *b);
  if (ta == tb || !is_eligible(ta) || !is_eligible(tb)) return;
  if (tc_autocast_type_on(t, (tc_device)t->dev[*a]) == TC_N_TYPES) return;
  *a = tc_rec_cast(t, *a, TC_F32), *b = tc_rec_cast(t, *b, TC_F32);
}
