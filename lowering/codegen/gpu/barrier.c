// Finds where the threads of a group need a barrier: where one writes memory that another reads, or
// the other way round.
//
// Idea: walk the instructions and track, for each piece of memory, what was read and written since
// the last barrier. That is nothing, accesses of one kind, or many. Accesses of one kind do not
// meet in another thread's elements. An access that conflicts puts a barrier before itself, or,
// where that is enough, before a loop it is in. Loops are walked until nothing changes, and again
// after each new barrier. All control flow is the same for a whole group.
// Accesses are of one kind in three cases. Vectors have as many lanes, at addresses equal but for
// multiples of those lanes: then a thread meets its own elements only. Or the first thread alone
// accesses. Or each thread has the same addresses. Two SCATTERs never write one element in
// different lanes (lowering/kir/kir.h). Owns nothing; scratch is an arena's.
#include <string.h>

#include "lowering/codegen/gpu/text.h"
#include "runtime/arena.h"

#define MAX_TERMS 8

// Kinds of access; from FIRST_FORM on an entry of `form`.
enum { NOTHING, MANY, FIRST_THREAD, SCATTERED, FIRST_FORM };

// An address modulo `lanes`, as a linear form: a constant and a sum of values, each times a number.
// by_index: the address is one value alone.
typedef struct form {
  uint32_t lanes, n, value[MAX_TERMS];
  uint32_t times[MAX_TERMS], rest;  // below lanes
  uint32_t loop;  // innermost that makes any of its values; TC_NONE: all are the same throughout
  bool by_index, lost;  // lost: nothing is known
} form;

typedef struct state {
  uint16_t read, written;
} state;

typedef struct walk {
  tc_gpu_text *t;
  tc_arena arena;
  form *forms;
  uint16_t *kind;  // per instruction: of its access
  uint32_t *loop_of;  // per instruction: innermost LOOP around it
  uint32_t *memory;  // per buffer, tile and space: the first that it overlaps
  uint8_t *met;  // per instruction: needs a barrier before it
  state **inside;  // per LOOP and IF: the state in it, made when it is first met
  uint32_t n_forms, n_memory;
  bool no_memory;
} walk;

// ---- kinds of access ----

static void add_term(form *f, uint32_t v, uint32_t times) {
  if (times == 0) return;
  for (uint32_t k = 0; k < f->n; k++) {
    if (f->value[k] != v) continue;
    f->times[k] = (f->times[k] + times) & (f->lanes - 1);
    return;
  }
  if (f->n == MAX_TERMS) {
    f->lost = true;
    return;
  }
  f->value[f->n] = v;
  f->times[f->n++] = times;
}

static bool is_constant(const tc_gpu_text *t, uint32_t v) {
  return t->kir->inst[v].op == TC_IR_CONST;
}

// Adds value v times `times`; both are taken modulo lanes, a power of two.
static void add_value(const walk *w, form *f, uint32_t v, uint32_t times) {
  const tc_kir_inst *i = &w->t->kir->inst[v];
  const uint32_t below = f->lanes - 1, a = i->src[0], b = i->src[1];
  times &= below;
  if (times == 0 || f->lost) return;
  switch (i->op) {
    case TC_IR_CONST: f->rest = (f->rest + times * (uint32_t)i->imm) & below; return;
    case TC_IR_ADD:
    case TC_IR_SUB:
      add_value(w, f, a, times);
      add_value(w, f, b, i->op == TC_IR_ADD ? times : 0 - times);
      return;
    case TC_IR_MUL:
      if (is_constant(w->t, b))
        add_value(w, f, a, times * (uint32_t)w->t->kir->inst[b].imm);
      else if (is_constant(w->t, a))
        add_value(w, f, b, times * (uint32_t)w->t->kir->inst[a].imm);
      else
        add_term(f, v, times);
      return;
    case TC_IR_LOOP:
      if ((times * (uint32_t)i->imm & below) == 0)
        add_value(w, f, a, times);
      else
        add_term(f, v, times);
      return;
    case TC_IR_VAR: f->lost = true; return;
    default: add_term(f, v, times);
  }
}

// The innermost loop that makes one of f's values anew.
static void find_loop(const walk *w, form *f) {
  f->loop = TC_NONE;
  for (uint32_t k = 0; k < f->n; k++) {
    const uint32_t v = f->value[k], loop = w->t->kir->inst[v].op == TC_IR_LOOP ? v : w->loop_of[v];
    if (f->times[k] != 0 && loop != TC_NONE && (f->loop == TC_NONE || loop > f->loop)) f->loop = loop;
  }
}

static bool same_form(const form *a, const form *b) {
  uint32_t n_a = 0, n_b = 0;
  if (a->lanes != b->lanes || a->rest != b->rest || a->by_index != b->by_index) return false;
  for (uint32_t k = 0; k < b->n; k++) n_b += b->times[k] != 0;
  for (uint32_t k = 0; k < a->n; k++) {
    if (a->times[k] == 0) continue;
    bool found = false;
    for (uint32_t j = 0; j < b->n; j++) found = found || (a->value[k] == b->value[j] && a->times[k] == b->times[j]);
    if (!found) return false;
    n_a++;
  }
  return n_a == n_b;
}

static uint16_t kind_of_form(walk *w, const form *f) {
  for (uint32_t k = 0; k < w->n_forms; k++)
    if (same_form(&w->forms[k], f)) return (uint16_t)(FIRST_FORM + k);
  if (f->lost || w->n_forms == UINT16_MAX - FIRST_FORM) return MANY;
  w->forms[w->n_forms] = *f;
  return (uint16_t)(FIRST_FORM + w->n_forms++);
}

static bool is_scatter(const walk *w, uint16_t kind) {
  return kind == SCATTERED || (kind >= FIRST_FORM && w->forms[kind - FIRST_FORM].by_index);
}

static uint16_t kind_of(walk *w, uint32_t at) {
  const tc_kir_inst *i = &w->t->kir->inst[at];
  const bool stores = tc_kir_is(i, TC_KIR_STORES);
  form f = {.lanes = i->lanes};
  if (w->t->kir->threads == 1) return FIRST_THREAD;
  if (i->lanes == 1) return stores ? FIRST_THREAD : MANY;
  if (tc_kir_is(i, TC_KIR_INDEXED)) {
    f.by_index = true;
    if (w->t->kir->inst[i->src[0]].op == TC_IR_VAR) return stores ? SCATTERED : MANY;
    add_term(&f, i->src[0], 1);
  } else {
    add_value(w, &f, i->src[0], 1);
  }
  find_loop(w, &f);
  return kind_of_form(w, &f);
}

// ---- the walk ----

// Whether an access may meet elements that others of the same memory touched before it.
static bool meets(const walk *w, uint16_t before, uint16_t now, bool both_write) {
  if (before == NOTHING || (before == now && now != MANY)) return false;
  return !(both_write && is_scatter(w, before) && is_scatter(w, now));
}

static uint16_t joined(const walk *w, uint16_t a, uint16_t b, bool written) {
  if (a == b || b == NOTHING) return a;
  if (a == NOTHING) return b;
  return written && is_scatter(w, a) && is_scatter(w, b) ? SCATTERED : MANY;
}

static void clear_state(const walk *w, state *s) {
  memset(s, 0, w->n_memory * sizeof *s);
}

static void touch(walk *w, state *s, uint32_t at, uint32_t memory, uint16_t kind, bool reads, bool writes) {
  state *m = &s[w->memory[memory]];
  if (meets(w, m->written, kind, writes) || (writes && meets(w, m->read, kind, false))) w->met[at] = 1;
  if (reads) m->read = joined(w, m->read, kind, false);
  if (writes) m->written = joined(w, m->written, kind, true);
}

// Handles a buffer that may be memory which the kernel writes under another number. A read of it
// conflicts with every store, and the other way round.
static void touch_over(walk *w, const state *s, uint32_t at, bool writes) {
  const tc_kir *n = w->t->kir;
  const int64_t buffer = n->inst[at].imm;
  if (buffer >= n->n_buf || n->over == 0 || (!writes && !(n->over >> buffer & 1))) return;
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const bool over = n->over >> k & 1;
    if (writes ? over && meets(w, s[k].read, w->kind[at], false)
               : w->t->stored[k] && meets(w, s[k].written, w->kind[at], false))
      w->met[at] = 1;
  }
}

static void touch_by(walk *w, state *s, uint32_t at) {
  const tc_kir_inst *i = &w->t->kir->inst[at];
  const uint32_t tiles = w->t->kir->n_buf, spaces = tiles + w->t->kir->n_tile;
  switch (i->op) {
    case TC_IR_LOAD:
    case TC_IR_GATHER:
      touch(w, s, at, (uint32_t)i->imm, w->kind[at], true, false);
      touch_over(w, s, at, false);
      break;
    case TC_IR_STORE:
    case TC_IR_SCATTER:
      touch(w, s, at, (uint32_t)i->imm, w->kind[at], false, true);
      touch_over(w, s, at, true);
      break;
    case TC_IR_LDMATRIX: touch(w, s, at, tiles + (uint32_t)i->imm, MANY, true, false); break;
    case TC_IR_COPY: {  // what it writes is there after a WAIT, which is a barrier
      state *m = &s[w->memory[tiles + i->flags]];
      if (m->read != NOTHING || m->written != NOTHING) w->met[at] = 1;
      touch(w, s, at, (uint32_t)i->imm, MANY, true, false);
      break;
    }
    // What it writes is there after a TMA_WAIT, of which each thread has its own.
    case TC_IR_TMA_LOAD: {
      const tc_tensor_map *map = &w->t->kir->map[i->imm];
      state *m = &s[w->memory[tiles + map->tile]];
      if (m->read != NOTHING || m->written != NOTHING) w->met[at] = 1;
      touch(w, s, at, map->buffer, MANY, true, false);
      break;
    }
    case TC_IR_WGMMA:
      for (int k = 0; k < 2; k++)
        touch(w, s, at, tiles + w->t->kir->map[k ? i->imm >> 8 : i->imm & 255].tile, MANY, true, false);
      break;
    case TC_IR_WAIT: clear_state(w, s); break;
    case TC_IR_REDUCE:
      if (w->t->warp_only || w->t->kir->inst[i->src[0]].lanes == 1) break;
      touch(w, s, at, spaces + w->t->space[at], FIRST_THREAD, false, true);
      clear_state(w, s);
      touch(w, s, at, spaces + w->t->space[at], MANY, true, false);
      break;
    default: break;
  }
}

// What a loop's values were is not known after its iteration.
static void forget(const walk *w, state *s, uint32_t loop) {
  for (uint32_t k = 0; k < w->n_memory; k++) {
    state *m = &s[k];
    if (m->read >= FIRST_FORM && w->forms[m->read - FIRST_FORM].loop == loop) m->read = MANY;
    if (m->written >= FIRST_FORM && w->forms[m->written - FIRST_FORM].loop == loop)
      m->written = is_scatter(w, m->written) ? SCATTERED : MANY;
  }
}

// Joins b to a; true where that changed a.
static bool join_state(const walk *w, state *a, const state *b) {
  bool changed = false;
  for (uint32_t k = 0; k < w->n_memory; k++) {
    const state was = a[k];
    a[k].read = joined(w, was.read, b[k].read, false);
    a[k].written = joined(w, was.written, b[k].written, true);
    changed = changed || a[k].read != was.read || a[k].written != was.written;
  }
  return changed;
}

static void walk_over(walk *w, uint32_t from, uint32_t to, state *s) {
  const tc_kir *n = w->t->kir;
  for (uint32_t at = from; at < to && !w->no_memory; at++) {
    if (w->t->barrier[at]) clear_state(w, s);
    const unsigned op = n->inst[at].op;
    if (!tc_kir_is(&n->inst[at], TC_KIR_OPENS)) {
      touch_by(w, s, at);
      continue;
    }
    const uint32_t end = w->t->end_of[at];
    if (w->inside[at] == NULL) w->inside[at] = tc_arena_alloc(&w->arena, w->n_memory * sizeof *s);
    state *inside = w->inside[at];
    if (inside == NULL) {
      w->no_memory = true;
      return;
    }
    do {
      memcpy(inside, s, w->n_memory * sizeof *s);
      walk_over(w, at + 1, end, inside);
      if (op == TC_IR_LOOP) forget(w, inside, at);
    } while (join_state(w, s, inside) && op == TC_IR_LOOP && !w->no_memory);
    at = end;
  }
}

static void walk_all(walk *w, state *start) {
  memset(w->met, 0, w->t->kir->n_inst);
  clear_state(w, start);
  walk_over(w, 0, w->t->kir->n_inst, start);
}

// Before the outermost loop around `at` where a barrier is enough, else before it.
static void place_barriers(walk *w, uint32_t at, state *start) {
  uint32_t around[32], n = 0;
  for (uint32_t loop = w->loop_of[at]; loop != TC_NONE && n < 32; loop = w->loop_of[loop]) around[n++] = loop;
  while (n-- > 0) {
    if (w->t->barrier[around[n]]) continue;
    w->t->barrier[around[n]] = 1;
    walk_all(w, start);
    if (!w->met[at]) return;
    w->t->barrier[around[n]] = 0;
  }
  w->t->barrier[at] = 1;
}

// ---- set up ----

static bool overlap(const tc_kir *n, uint32_t a, uint32_t b) {
  const tc_kir_tile *x = &n->tile[a], *y = &n->tile[b];
  if (x->of_lanes || y->of_lanes) return false;
  return x->offset < y->offset + y->n * (int64_t)tc_kir_type_bytes(y->dtype) &&
         y->offset < x->offset + x->n * (int64_t)tc_kir_type_bytes(x->dtype);
}

static void find_memory(const walk *w) {
  const tc_kir *n = w->t->kir;
  for (uint32_t k = 0; k < w->n_memory; k++) w->memory[k] = k;
  for (uint32_t k = 0; k < n->n_tile; k++)
    for (uint32_t j = 0; j < k; j++) {
      const uint32_t into = w->memory[n->n_buf + j], from = w->memory[n->n_buf + k];
      if (!overlap(n, j, k) || into == from) continue;
      for (uint32_t m = 0; m < w->n_memory; m++)
        if (w->memory[m] == from) w->memory[m] = into;
    }
}

static void find_kinds(walk *w) {
  const tc_kir *n = w->t->kir;
  uint32_t loop = TC_NONE;
  for (uint32_t k = 0; k < n->n_inst; k++) {
    const unsigned op = n->inst[k].op;
    if (op == TC_IR_ENDLOOP) loop = w->loop_of[loop];
    w->loop_of[k] = loop;
    if (op == TC_IR_LOOP) loop = k;
    if (!tc_kir_is(&n->inst[k], TC_KIR_LOADS | TC_KIR_STORES)) continue;
    w->kind[k] = tc_gpu_is_of_lanes(n, n->inst[k].imm) ? (uint16_t)FIRST_THREAD : kind_of(w, k);
  }
}

tc_status tc_gpu_find_barriers(tc_gpu_text *t) {
  const tc_kir *n = t->kir;
  walk w = {.t = t, .n_memory = n->n_buf + n->n_tile + 2};
  w.forms = tc_arena_alloc(&w.arena, ((size_t)n->n_inst + 1) * sizeof *w.forms);
  w.kind = tc_arena_alloc(&w.arena, ((size_t)n->n_inst + 1) * sizeof *w.kind);
  w.loop_of = tc_arena_alloc(&w.arena, ((size_t)n->n_inst + 1) * sizeof *w.loop_of);
  w.met = tc_arena_alloc(&w.arena, (size_t)n->n_inst + 1);
  w.inside = tc_arena_alloc(&w.arena, ((size_t)n->n_inst + 1) * sizeof(state *));
  w.memory = tc_arena_alloc(&w.arena, w.n_memory * sizeof *w.memory);
  state *start = tc_arena_alloc(&w.arena, w.n_memory * sizeof *start);
  w.no_memory = w.forms == NULL || w.kind == NULL || w.loop_of == NULL || w.met == NULL || w.inside == NULL ||
                w.memory == NULL || start == NULL;
  if (!w.no_memory) {
    find_memory(&w);
    find_kinds(&w);
    walk_all(&w, start);
  }
  for (uint32_t at = 0; at < n->n_inst && !w.no_memory;) {
    if (!w.met[at]) {
      at++;
      continue;
    }
    place_barriers(&w, at, start);
    walk_all(&w, start);
    at = 0;
  }
  tc_arena_fini(&w.arena);
  return w.no_memory ? TC_ERR_MEMORY : TC_OK;
}
