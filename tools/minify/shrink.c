// Makes a failing trace small. See shrink.h.
#include "tools/minify/shrink.h"

#include <string.h>

#include "kernels/ref/ref.h"
#include "tools/minify/reference.h"

typedef struct shrinker {
  tc_judge *judge;
  uint64_t most_attempts;
  tc_text base;  // the smallest trace so far that fails
  tc_outcome outcome;  // its
  tc_arena values;
  void **value;  // per node of the base, by the reference; NULL: not known
} shrinker;

// ---- traces ----

static void *copy_bytes(tc_arena *arena, const void *from, size_t bytes) {
  void *to = tc_arena_alloc(arena, bytes + 1);
  if (to && bytes) memcpy(to, from, bytes);
  return to;
}

static size_t bytes_of(const tc_text_node *k) {
  return (size_t)tc_dims_count(&k->dims) * tc_type_bytes(k->type);
}

// A copy that shares nothing.
static bool copy_trace(const tc_text *from, tc_text *to) {
  *to = (tc_text){.n = from->n};
  to->title = copy_bytes(&to->arena, from->title, strlen(from->title));
  to->node = copy_bytes(&to->arena, from->node, from->n * sizeof *from->node);
  bool ok = to->title && to->node;
  for (uint32_t n = 0; n < from->n && ok; n++) {
    tc_text_node *k = &to->node[n];
    k->in = copy_bytes(&to->arena, k->in, (size_t)k->n_in * sizeof *k->in);
    k->attr = copy_bytes(&to->arena, k->attr, (size_t)k->n_attr * sizeof *k->attr);
    k->arg = copy_bytes(&to->arena, k->arg, (size_t)k->n_arg * sizeof *k->arg);
    if (k->site) k->site = copy_bytes(&to->arena, k->site, strlen(k->site));
    if (k->data) k->data = copy_bytes(&to->arena, k->data, bytes_of(k));
    ok = k->in && k->attr && k->arg;
  }
  return ok;
}

static bool adopt(shrinker *s, const tc_text *x, const tc_outcome *o) {
  tc_text copy;
  if (!copy_trace(x, &copy)) return tc_text_fini(&copy), false;
  tc_text_fini(&s->base);
  s->base = copy, s->outcome = *o;
  tc_arena_reset(&s->values);
  s->value = tc_arena_alloc(&s->values, (copy.n + 1) * sizeof *s->value);
  if (s->value) (void)tc_reference_trace(&s->base, &s->values, s->value);
  return s->value != NULL;
}

static bool is_over(const shrinker *s) {
  return s->judge->n_attempts >= s->most_attempts;
}

// Whether the candidate fails as the base does; it is the base then.
static bool try_trace(shrinker *s, const tc_text *x) {
  if (is_over(s) || x->n == 0) return false;
  tc_outcome o = tc_attempt(s->judge, x);
  return tc_outcome_is_same(&o, &s->outcome) && adopt(s, x, &o);
}

// ---- edits: what becomes of the base's nodes ----

typedef struct edit {
  tc_arena arena;
  uint8_t *flag;  // per node
  bool *to_leaf;  // per node: it becomes a leaf of its value
  uint32_t *alias;  // per node: the earlier node that is read in its place; itself
} edit;

static bool edit_begin(const shrinker *s, edit *e) {
  uint32_t n_node = s->base.n;
  *e = (edit){.flag = NULL};
  e->flag = tc_arena_alloc(&e->arena, n_node + 1);
  e->to_leaf = tc_arena_alloc(&e->arena, n_node + 1);
  e->alias = tc_arena_alloc(&e->arena, (n_node + 1) * sizeof *e->alias);
  if (!e->flag || !e->to_leaf || !e->alias) return tc_arena_fini(&e->arena), false;
  for (uint32_t n = 0; n < n_node; n++) e->flag[n] = s->base.node[n].flag, e->alias[n] = n;
  return true;
}

static bool is_root(uint8_t flag) {
  return flag & (TC_NODE_LIVE | TC_NODE_ASKED);
}

// Per node whether a root needs it. Aliases lead to the last in their row, which gets their flags.
static bool *find_needed(const shrinker *s, edit *e) {
  const tc_text *x = &s->base;
  bool *needed = tc_arena_alloc(&e->arena, x->n + 1);
  for (uint32_t n = 0; n < x->n; n++) e->alias[n] = e->alias[e->alias[n]];
  for (uint32_t n = 0; n < x->n && needed; n++)
    if (e->alias[n] != n) e->flag[e->alias[n]] |= e->flag[n], e->flag[n] = 0;
  for (uint32_t n = x->n; n-- > 0 && needed;) {
    const tc_text_node *k = &x->node[n];
    if (is_root(e->flag[n]) && k->op != TC_OP_LEAF) needed[n] = true;
    for (int i = 0; needed[n] && !e->to_leaf[n] && i < k->n_in; i++) needed[e->alias[k->in[i]]] = true;
  }
  return needed;
}

static bool edit_build(const shrinker *s, edit *e, tc_text *out) {
  const tc_text *x = &s->base;
  const bool *needed = find_needed(s, e);
  uint32_t *number = tc_arena_alloc(&e->arena, (x->n + 1) * sizeof *number);
  *out = (tc_text){.title = x->title};
  out->node = tc_arena_alloc(&out->arena, (x->n + 1) * sizeof *out->node);
  if (!needed || !number || !out->node) return false;
  for (uint32_t n = 0; n < x->n; n++) {
    if (!needed[n]) continue;
    number[n] = out->n;
    tc_text_node *k = &out->node[out->n++];
    *k = x->node[n], k->flag = e->flag[n];
    if (e->to_leaf[n])
      *k = (tc_text_node){.op = TC_OP_LEAF,
                          .type = k->type,
                          .dev = k->dev,
                          .dims = k->dims,
                          .flag = TC_NODE_LIVE,
                          .site = k->site,
                          .data = s->value[n]};
    if (k->op == TC_OP_LEAF) k->flag &= (uint8_t)~TC_NODE_ASKED;
    uint32_t *in = tc_arena_alloc(&out->arena, ((size_t)k->n_in + 1) * sizeof *in);
    if (!in) return false;
    for (int i = 0; i < k->n_in; i++) in[i] = number[e->alias[k->in[i]]];
    k->in = in;
  }
  return true;
}

// Tries the edited base, and ends the edit.
static bool edit_try(shrinker *s, edit *e) {
  tc_text x;
  bool fails = edit_build(s, e, &x) && try_trace(s, &x);
  tc_text_fini(&x);
  tc_arena_fini(&e->arena);
  return fails;
}

// ---- nodes ----

// A way to edit a node. False: there is nothing to do at this one.
typedef bool edit_fn(const shrinker *s, edit *e, uint32_t n);

static bool drop_root(const shrinker *s, edit *e, uint32_t n) {
  if (!is_root(e->flag[n]) || s->base.node[n].op == TC_OP_LEAF) return false;
  e->flag[n] = 0;
  return true;
}

static bool drop_flags(const shrinker *s, edit *e, uint32_t n) {
  const uint8_t least = TC_NODE_LIVE | (s->base.node[n].op == TC_OP_LEAF ? 0 : TC_NODE_ASKED);
  uint8_t flag = e->flag[n] & TC_NODE_ASKED || s->base.node[n].op == TC_OP_LEAF ? least : e->flag[n] & least;
  if (flag == e->flag[n]) return false;
  e->flag[n] = flag;
  return true;
}

static bool replace_by_leaf(const shrinker *s, edit *e, uint32_t n) {
  const tc_text_node *k = &s->base.node[n];
  // A length in a leaf could be any.
  if (k->op == TC_OP_LEAF || k->op == TC_OP_FULL || is_root(e->flag[n]) || !s->value[n]) return false;
  return e->to_leaf[n] = true;
}

// Operand i is read in the node's place.
static bool bypass(const shrinker *s, edit *e, uint32_t n, int i) {
  const tc_text_node *k = &s->base.node[n];
  const tc_text_node *from = i < k->n_in ? &s->base.node[k->in[i]] : NULL;
  if (!from || from->type != k->type || !tc_dims_equal(&from->dims, &k->dims) || from->dev != k->dev) return false;
  e->alias[n] = k->in[i];
  return true;
}

static bool bypass_first(const shrinker *s, edit *e, uint32_t n) {
  return bypass(s, e, n, 0);
}

static bool bypass_second(const shrinker *s, edit *e, uint32_t n) {
  return bypass(s, e, n, 1);
}

static bool bypass_third(const shrinker *s, edit *e, uint32_t n) {
  return bypass(s, e, n, 2);
}

// The node's operands are roots in its place.
static bool move_root(const shrinker *s, edit *e, uint32_t n) {
  const tc_text_node *k = &s->base.node[n];
  bool moved = false;
  if (!is_root(e->flag[n])) return false;
  for (int i = 0; i < k->n_in; i++) {
    if (s->base.node[k->in[i]].op == TC_OP_LEAF) continue;
    e->flag[k->in[i]] |= TC_NODE_LIVE | TC_NODE_ASKED;
    moved = true;
  }
  if (moved) e->flag[n] = 0;
  return moved;
}

// Edits up to `chunk` nodes from *at on, which ends behind them. False: there was none left.
static bool edit_chunk(const shrinker *s, edit *e, edit_fn *fn, uint32_t chunk, uint32_t *at) {
  uint32_t n_edited = 0;
  for (; *at < s->base.n && n_edited < chunk; ++*at) n_edited += fn(s, e, *at);
  return n_edited > 0;
}

// The edit at as many nodes as it may be at, in chunks that become smaller. Returns whether the
// base changed.
static bool reduce(shrinker *s, edit_fn *fn) {
  bool changed = false;
  for (uint32_t chunk = s->base.n; chunk > 0; chunk /= 2) {
    uint32_t at = 0;
    edit e;
    while (!is_over(s) && edit_begin(s, &e)) {
      uint32_t begin = at, before = s->base.n;
      if (!edit_chunk(s, &e, fn, chunk, &at)) {
        tc_arena_fini(&e.arena);
        break;
      }
      if (!edit_try(s, &e)) continue;
      changed = true;
      at = s->base.n < before ? begin - TC_MIN(begin, before - s->base.n) : at;  // numbers have moved
    }
  }
  return changed;
}

// ---- extents and types ----

// What is written over the base's nodes, with data that fit.
typedef struct rewrite {
  int64_t from, to;  // extents; 0: none
  bool multiples;  // of `from`, too
  tc_type type;  // becomes f32; TC_N_TYPES: none
} rewrite;

static int64_t extent_of(const rewrite *w, int64_t d) {
  return w->from == 0 || d == 0 ? d : w->multiples && d % w->from == 0 ? d / w->from * w->to : d == w->from ? w->to : d;
}

// The elements of x at the front of each axis that are left. Whole numbers stay below the extent.
static const void *rewrite_data(tc_arena *arena, const rewrite *w, const tc_text_node *x, const tc_text_node *y) {
  char *data = tc_arena_alloc(arena, bytes_of(y) + 1);
  int64_t count = tc_dims_count(&y->dims);
  for (int64_t i = 0; i < count && data; i++) {
    int64_t at = 0, stride = 1, rest = i;
    for (int d = x->dims.rank; d-- > 0;) {
      at += rest % y->dims.dim[d] * stride;
      rest /= y->dims.dim[d], stride *= x->dims.dim[d];
    }
    if (tc_type_is_float(x->type)) {
      tc_set_f64(y->type, data, i, tc_get_f64(x->type, x->data, at));
    } else {
      int64_t v = tc_get_i64(x->type, x->data, at);
      tc_set_i64(y->type, data, i, w->from && v >= w->to ? v % w->to : v);
    }
  }
  return data;
}

static bool try_rewrite(shrinker *s, const rewrite *w) {
  tc_text x;
  edit e;
  if (is_over(s) || !edit_begin(s, &e)) return false;
  for (uint32_t n = 0; n < s->base.n && w->type != TC_N_TYPES; n++) {  // casts that are none any more
    const tc_text_node *k = &s->base.node[n], *from = k->n_in ? &s->base.node[k->in[0]] : NULL;
    bool to = k->type == w->type || k->type == TC_F32, of = from && (from->type == w->type || from->type == TC_F32);
    if (k->op == TC_OP_CAST && to && of) e.alias[n] = k->in[0];
  }
  bool ok = edit_build(s, &e, &x);
  for (uint32_t n = 0; n < x.n && ok; n++) {
    tc_text_node *k = &x.node[n], old = *k;
    for (int i = 0; i < k->dims.rank; i++) k->dims.dim[i] = extent_of(w, k->dims.dim[i]);
    if (k->type == w->type) k->type = TC_F32;
    bool same = k->type == old.type && tc_dims_equal(&k->dims, &old.dims);
    if (k->op == TC_OP_LEAF && !same) ok = (k->data = rewrite_data(&x.arena, w, &old, k)) != NULL;
  }
  ok = ok && try_trace(s, &x);
  tc_text_fini(&x);
  tc_arena_fini(&e.arena);
  return ok;
}

// The greatest extent below `below` that the base has; 1: there is none.
static int64_t next_extent(const shrinker *s, int64_t below) {
  int64_t most = 1;
  for (uint32_t n = 0; n < s->base.n; n++)
    for (int i = 0; i < s->base.node[n].dims.rank; i++) {
      int64_t d = s->base.node[n].dims.dim[i];
      if (d < below && d > most) most = d;
    }
  return most;
}

static bool shrink_extents(shrinker *s) {
  bool changed = false;
  for (int64_t d = next_extent(s, INT64_MAX); d > 1; d = next_extent(s, d)) {
    const int64_t smaller[] = {1, 2, 3, 4, d / 8, d / 4, d / 2, d - 1};
    bool fails = false;
    for (size_t k = 0; k < sizeof smaller / sizeof *smaller && !fails; k++)
      for (int multiples = 0; multiples < 2 && !fails; multiples++)
        if (smaller[k] > 0 && smaller[k] < d && (k < 4 || smaller[k] > 4))
          fails = try_rewrite(s, &(rewrite){.from = d, .to = smaller[k], .multiples = multiples, .type = TC_N_TYPES});
    changed |= fails;
  }
  return changed;
}

static bool simplify_types(shrinker *s) {
  static const tc_type others[] = {TC_F64, TC_F16, TC_BF16};
  bool changed = false;
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    bool used = false;
    for (uint32_t n = 0; n < s->base.n; n++) used |= s->base.node[n].type == others[k];
    if (used) changed |= try_rewrite(s, &(rewrite){.type = others[k]});
  }
  return changed;
}

// ---- data ----

static bool is_of(const tc_text_node *k, double v) {
  for (int64_t i = 0; i < tc_dims_count(&k->dims); i++)
    if (tc_get_f64(k->type, k->data, i) != v) return false;
  return true;
}

// Leaves of ones, or of data rounded to eighths, are easier to read.
static bool simplify_data(shrinker *s, bool ones) {
  bool changed = false;
  for (uint32_t n = 0; n < s->base.n && !is_over(s); n++) {
    tc_text x;
    const tc_text_node *k = &s->base.node[n];
    if (k->op != TC_OP_LEAF || !tc_type_is_float(k->type) || is_of(k, 1)) continue;
    if (!copy_trace(&s->base, &x)) return tc_text_fini(&x), changed;
    void *data = (void *)(uintptr_t)x.node[n].data;
    for (int64_t i = 0; i < tc_dims_count(&k->dims); i++) {
      double v = tc_get_f64(k->type, data, i) * 8, r = v < 0 ? -0.5 : 0.5;
      bool small = v > -1e6 && v < 1e6;
      tc_set_f64(k->type, data, i, ones ? 1 : small ? (double)(int64_t)(v + r) / 8 : v / 8);
    }
    if (memcmp(data, k->data, bytes_of(k)) != 0) changed |= try_trace(s, &x);
    tc_text_fini(&x);
  }
  return changed;
}

tc_status tc_shrink(tc_judge *j, const tc_text *x, uint64_t most_attempts, tc_outcome *outcome, tc_text *out) {
  shrinker s = {.judge = j, .most_attempts = most_attempts};
  bool ok = adopt(&s, x, outcome);
  for (bool changed = ok; changed && !is_over(&s);) {
    changed = reduce(&s, drop_root);
    changed |= reduce(&s, drop_flags);
    changed |= reduce(&s, replace_by_leaf);
    changed |= reduce(&s, move_root);
    changed |= reduce(&s, bypass_first);
    changed |= reduce(&s, bypass_second);
    changed |= reduce(&s, bypass_third);
    changed |= shrink_extents(&s);
    changed |= simplify_types(&s);
  }
  if (ok && !simplify_data(&s, true)) (void)simplify_data(&s, false);
  *outcome = s.outcome;
  *out = s.base;
  tc_arena_fini(&s.values);
  return ok ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a smaller trace");
}
