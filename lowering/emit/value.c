// Where the value of a node at an iteration comes from: it is remembered, waits in a tile, lies in memory, or is made in place of its operands
// (scalar_op.c), whose values are found the same way.
#include "lowering/emit/context.h"

tc_index *tc_ex_position(tc_ex *s, bool of_operand) {
  tc_index **at = &s->position[s->n_path][of_operand];
  if (!*at) *at = tc_arena_alloc(s->arena, TC_MAX_RANK * sizeof **at);
  if (!*at) (void)tc_ex_fail(s, TC_ERR_MEMORY, "no room for a kernel");
  return *at;
}

tc_val tc_ex_member(tc_ex *s, uint32_t n) {
  if (tc_ex_note_of(s, n)->memo != TC_NONE) return tc_ex_note_of(s, n)->memo;
  if (tc_ex_note_of(s, n)->stashed) {
    tc_val row = tc_emit_raw(&s->e, TC_N_LOAD, tc_ex_compute_type(s->g->node[n].type), s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE,
                             tc_ex_note_of(s, n)->stash);
    tc_ex_remember(s, n, row);
    return row;
  }
  const tc_gnode *x = &s->g->node[n];
  tc_index *idx = tc_ex_position(s, false);
  if (!idx) return 0;
  if (tc_op_kind_of(x->op) == TC_KIND_FOLD) return tc_ex_fail(s, TC_ERR_STATE, "a fold is read before it is done");
  if (!tc_view_position(s->gp, &s->ext, (tc_level)s->gr->level[n], &x->shape->d, idx)) return tc_ex_unsaid(s, n, "a position cannot be said");
  tc_val v = tc_ex_make(s, n, idx);
  if (tc_ex_note_of(s, n)->stash >= 0 && s->st == TC_OK)
    (void)tc_emit_raw(&s->e, TC_N_STORE, tc_ex_compute_type(x->type), s->lanes, s->at[TC_RANGE_F], tc_emit_splat(&s->e, v, s->lanes), TC_NONE,
                      tc_ex_note_of(s, n)->stash);
  tc_ex_remember(s, n, v);
  return v;
}

// Whether the index is that of the iteration's own element of a level.
static bool is_own(tc_ex *s, const tc_index *flat, tc_level level) {
  tc_index own = tc_view_flat(s->gp, level);
  tc_ix_simplify(&own, &s->ext);
  return tc_ix_equal(flat, &own);
}

// Member m read as element idx of n, which must be its own.
static __attribute__((noinline)) bool is_own_member(tc_ex *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat)) return (void)tc_ex_unsaid(s, m, "an index has too many terms"), false;
  if (is_own(s, &flat, (tc_level)s->gr->level[m])) return true;
  if (s->st == TC_OK) s->x->unsaid = m;
  return (void)tc_ex_fail(s, TC_ERR_STATE, "a member is read away from its place"), false;
}

// Whether a value made in place is made once an iteration: it is read at the iteration's own position.
static __attribute__((noinline)) bool is_made_once(tc_ex *s, uint32_t n, const tc_index *idx) {
  tc_index flat;
  return tc_op_kind_of(s->g->node[n].op) == TC_KIND_ELEM && s->cond == TC_NONE && tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat) &&
         is_own(s, &flat, TC_LEVEL_FULL);
}

static tc_val made_again(tc_ex *s, uint32_t n, const tc_index *idx) {
  bool once = is_made_once(s, n, idx);
  if (once && tc_ex_note_of(s, n)->memo != TC_NONE) return tc_ex_note_of(s, n)->memo;
  tc_val v = tc_ex_make(s, n, idx);
  if (once && s->st == TC_OK) tc_ex_remember(s, n, v);
  return v;
}

static tc_held *held_of(tc_ex *s, uint32_t n) {
  for (int i = 0; i < s->n_held; i++)
    if (s->held[i].node == n) return &s->held[i];
  return NULL;
}

static tc_val held_value(tc_ex *s, tc_held *held, tc_index flat) {
  tc_type type = tc_ex_compute_type(s->g->node[held->node].type);
  if (held->there) return tc_emit_raw(&s->e, TC_N_LOAD, type, s->lanes, s->at[TC_RANGE_F], TC_NONE, TC_NONE, held->tile);
  tc_val v = tc_ex_load(s, held->node, flat);
  (void)tc_emit_raw(&s->e, TC_N_STORE, type, s->lanes, s->at[TC_RANGE_F], v, TC_NONE, held->tile);
  held->filled = true;
  return v;
}

// Element idx of n from memory, where it is m. One load an iteration: a later one could meet what the kernel itself has written in place.
static __attribute__((noinline)) tc_val loaded(tc_ex *s, uint32_t m, uint32_t n, const tc_index *idx) {
  tc_index flat;
  if (!tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat)) return tc_ex_unsaid(s, m, "an index has too many terms");
  tc_held *held = held_of(s, m);
  bool plain = (held || s->gp->kind == TC_GROUP_FLAT) && s->cond == TC_NONE && is_own(s, &flat, TC_LEVEL_FULL);
  if (plain && tc_ex_note_of(s, m)->memo != TC_NONE) return tc_ex_note_of(s, m)->memo;
  tc_val v = plain && held ? held_value(s, held, flat) : tc_ex_load(s, m, flat);
  if (plain) tc_ex_remember(s, m, v);
  return v;
}

// Whether element idx of n is the one that is given, not another of the same node.
static __attribute__((noinline)) bool is_given(const tc_ex *s, uint32_t n, const tc_index *idx) {
  tc_index flat;
  return tc_ix_flatten(idx, &s->g->node[n].shape->d, &s->ext, &flat) && tc_ix_equal(&flat, s->given_at);
}

// This and tc_ex_make call one another for each operand made in place: no index is on their stack, of which a thread may have little.
tc_val tc_ex_value_kept(tc_ex *s, uint32_t n, const tc_index *idx) {
  if (s->st != TC_OK) return 0;
  uint32_t m = n;  // below reshapes, where the flat position is the same
  while (!tc_ex_in_group(s, m) && !s->gr->stored[m] && tc_op_is_alias(s->g->node[m].op)) m = s->g->node[m].in[0];
  if (m == s->given_node && is_given(s, n, idx)) return s->given;
  m = tc_group_root(s->gr, m);
  bool ours = tc_ex_in_group(s, m);
  if (!ours && !s->gr->stored[m]) return made_again(s, n, idx);
  if (!ours) return loaded(s, m, n, idx);
  return is_own_member(s, m, n, idx) ? tc_ex_member(s, m) : 0;
}

tc_val tc_ex_value(tc_ex *s, uint32_t n, const tc_index *idx) {
  tc_ex_enter(s);
  tc_val v = tc_ex_value_kept(s, n, idx);
  tc_ex_leave(s);
  return v;
}

tc_val tc_ex_made_from(tc_ex *s, uint32_t n, const tc_index *idx, uint32_t from, const tc_index *at, tc_val given) {
  s->given_node = from, s->given_at = at, s->given = given;
  tc_ex_enter(s);
  tc_val v = tc_ex_value_kept(s, n, idx);
  tc_ex_leave(s);
  s->given_node = TC_NONE;
  return s->st == TC_OK ? v : given;
}
