// Keys that differ in sizes alone. See size_map.h.
//
// Numbers that vary are explained in the records' order. An extent that was met before comes first,
// then what the op makes of its operands' extents. Else it is a new size, where the op allows any.
#include "lazy/sync/size_map.h"

#include <string.h>

#include "device/backends.h"
#include "runtime/arena.h"

#define NONE UINT32_MAX
#define MOST_NEAR 2  // an input's extent so little above another's follows from it

// The extents of a shape that varies. at: the first node with it.
typedef struct sized {
  uint32_t id[TC_MOST_KEYS], at;
  int rank;
  uint32_t expr[TC_MAX_RANK];
} sized;

struct tc_size_map {
  const tc_plan *base;
  tc_size_expr *expr;
  int64_t (*value)[TC_MOST_KEYS];  // per expression: its value in each key
  uint32_t n_expr, cap_expr, cap_value;
  uint32_t size[TC_MAX_SIZES], n_size;  // the expressions that are a size times a factor, which gives it
  struct {
    uint32_t node;
    int axis;  // of its shape; of a padding's amounts: -1 - word
  } from[TC_MAX_SIZES];
  sized *shape;
  uint32_t n_shape, cap_shape;
  uint32_t *shape_of;  // per node: a number of shape. NONE: it does not vary
  struct amount {
    uint32_t word, expr;
  } *amount;  // of paddings, that vary
  uint32_t n_amount, cap_amount;
};

// ---- patterns ----

// Whether shapes of such a record follow from others by rules that this file and tc_graph_verify
// know.
static bool is_known(tc_op op) {
  switch (tc_op_kind_of(op)) {
    case TC_KIND_ELEM:
    case TC_KIND_GEN:
    case TC_KIND_FOLD:
    case TC_KIND_SCAN:
    case TC_KIND_COMPOSED:
    case TC_KIND_EFFECT: return true;
    case TC_KIND_RNG: return op != TC_OP_RANDPERM;
    case TC_KIND_MOVE: return op != TC_OP_WINDOW && op != TC_OP_UNWINDOW && op != TC_OP_TO && op != TC_OP_POOL;
    case TC_KIND_INDEX: return true;
    case TC_KIND_CONTRACT: return op == TC_OP_MATMUL;
    default: return false;
  }
}

static uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

static const tc_rec *record_at(const uint64_t *word, uint32_t at) {
  return (const tc_rec *)(const void *)(word + at);
}

// The rank, and two bits an extent: 0, 1 or more.
static uint64_t class_of(uint32_t shape) {
  const tc_dims *d = &tc_dims_at(shape)->d;
  uint64_t c = (uint64_t)d->rank;
  for (int i = 0; i < d->rank; i++) c = c << 2 | (uint64_t)TC_MIN(d->dim[i], INT64_C(2));
  return c;
}

uint64_t tc_size_pattern(const uint64_t *word, uint32_t n_rec_words, uint32_t n_word, const uint32_t *at,
                         uint32_t n_node) {
  uint64_t h = n_rec_words, class = 0;
  uint32_t last = TC_SHAPE_NONE;
  for (uint32_t n = 0; n < n_node; n++) {
    const tc_rec *r = record_at(word, at[n]);
    tc_op op = tc_rec_op(r);
    if (!is_known(op) || (tc_op_arity[op] == 0 && tc_device_kind_of((tc_device)r->in[0]) != TC_DEVICE_KERNELS))
      return 0;
    if (r->shape != last) last = r->shape, class = class_of(last);
    h = mix(h, (uint64_t)r->op_args | (uint64_t)r->dtype << 16 | (uint64_t)r->n_extra << 24 | class << 32);
    h = mix(h, word[at[n] + 1]);
    for (uint32_t i = 0; i < r->n_extra && tc_rec_op(r) != TC_OP_PAD; i++) h = mix(h, word[at[n] + 2 + i]);
  }
  for (uint32_t i = n_rec_words; i < n_word; i++) h = mix(h, word[i]);
  return h ? h : 1;
}

// ---- finding a map ----

typedef struct finder {
  tc_size_map *m;
  const uint64_t *const *key;
  uint32_t n_key;
} finder;

static const tc_rec *record_of(const finder *f, uint32_t key, uint32_t n) {
  return record_at(f->key[key], f->m->base->at[n]);
}

static bool is_same(const finder *f, const int64_t *v) {
  for (uint32_t k = 1; k < f->n_key; k++)
    if (v[k] != v[0]) return false;
  return true;
}

static bool is_equal(const finder *f, const int64_t *a, const int64_t *b) {
  return memcmp(a, b, f->n_key * sizeof *a) == 0;
}

static uint32_t find_expr(const finder *f, const int64_t *v) {
  uint32_t e = 0;
  while (e < f->m->n_expr && !is_equal(f, f->m->value[e], v)) e++;
  return e < f->m->n_expr ? e : NONE;
}

static uint32_t add_expr(finder *f, const tc_size_expr *e, const int64_t *v) {
  tc_size_map *m = f->m;
  if (!TC_GROW(m->expr, m->cap_expr, m->n_expr + 1) || !TC_GROW(m->value, m->cap_value, m->n_expr + 1)) return NONE;
  m->expr[m->n_expr] = *e;
  memcpy(m->value[m->n_expr], v, f->n_key * sizeof *v);
  return m->n_expr++;
}

static uint32_t add_constant(finder *f, int64_t value) {
  int64_t v[TC_MOST_KEYS];
  for (uint32_t k = 0; k < f->n_key; k++) v[k] = value;
  uint32_t at = find_expr(f, v);
  tc_size_expr e = tc_size_constant(value);
  return at != NONE ? at : add_expr(f, &e, v);
}

static uint32_t add_size(finder *f, const int64_t *v, uint32_t node, int axis) {
  tc_size_map *m = f->m;
  if (m->n_size == TC_MAX_SIZES) return NONE;
  tc_size_expr e = tc_size_variable(m->n_size);
  uint32_t at = add_expr(f, &e, v);
  if (at == NONE) return NONE;
  m->from[m->n_size].node = node, m->from[m->n_size].axis = axis;
  return m->size[m->n_size++] = at;
}

// An expression plus a constant, where that gives these values.
static uint32_t find_offset(finder *f, uint32_t of, const int64_t *v, int64_t most) {
  tc_size_expr e, offset;
  int64_t by = v[0] - f->m->value[of][0];
  for (uint32_t k = 1; k < f->n_key; k++)
    if (v[k] - f->m->value[of][k] != by) return NONE;
  offset = tc_size_constant(by);
  if ((most && (by > most || -by > most)) || !tc_size_add(&f->m->expr[of], &offset, 1, &e)) return NONE;
  return add_expr(f, &e, v);
}

// A whole number of times an expression, where that gives these values.
static uint32_t find_multiple(finder *f, uint32_t of, const int64_t *v) {
  const int64_t *x = f->m->value[of];
  tc_size_expr e, by;
  if (x[0] == 0 || v[0] % x[0]) return NONE;
  for (uint32_t k = 1; k < f->n_key; k++)
    if (v[k] != x[k] * (v[0] / x[0])) return NONE;
  by = tc_size_constant(v[0] / x[0]);
  return tc_size_multiply(&f->m->expr[of], &by, &e) ? add_expr(f, &e, v) : NONE;
}

// Every size that the expression is of becomes so many times finer.
static bool refine_sizes(finder *f, uint32_t of, int64_t by) {
  tc_size_map *m = f->m;
  tc_size_expr was = m->expr[of];
  if (was.n_term != 1) return false;
  for (uint32_t s = 0; s < m->n_size; s++) {
    if (!was.term[0].power[s]) continue;
    for (uint32_t e = 0; e < m->n_expr; e++)
      for (uint8_t t = 0; t < m->expr[e].n_term; t++)
        for (uint8_t p = 0; p < m->expr[e].term[t].power[s]; p++)
          if (__builtin_mul_overflow(m->expr[e].term[t].coef, by, &m->expr[e].term[t].coef)) return false;
    break;
  }
  return true;
}

// An expression divided by a constant, where that gives these values.
static uint32_t find_quotient(finder *f, uint32_t of, const int64_t *v) {
  const int64_t *x = f->m->value[of];
  if (v[0] == 0 || x[0] % v[0] || x[0] == v[0]) return NONE;
  int64_t by = x[0] / v[0];
  for (uint32_t k = 1; k < f->n_key; k++)
    if (x[k] != v[k] * by) return NONE;
  tc_size_expr e = f->m->expr[of];
  if (!tc_size_divide(&e, by)) {
    if (!refine_sizes(f, of, by)) return NONE;
    e = f->m->expr[of];
    if (!tc_size_divide(&e, by)) return NONE;
  }
  return add_expr(f, &e, v);
}

// The expression of an operand's extent.
static uint32_t extent_of(finder *f, uint32_t n, int axis) {
  uint32_t shape = f->m->shape_of[n];
  if (shape != NONE) return f->m->shape[shape].expr[axis];
  return add_constant(f, tc_dims_at(tc_plan_rec(f->m->base, n)->shape)->d.dim[axis]);
}

// Products of neighbouring extents of an operand, and their quotients by a constant or a size.
static uint32_t find_product(finder *f, uint32_t in, const int64_t *v) {
  int rank = tc_dims_at(record_of(f, 0, in)->shape)->d.rank;
  for (int first = 0; first < rank; first++) {
    tc_size_expr e = tc_size_constant(1);
    int64_t x[TC_MOST_KEYS] = {1, 1, 1, 1};
    for (int a = first; a < rank; a++) {
      uint32_t of = extent_of(f, in, a);
      if (of == NONE || !tc_size_multiply(&e, &f->m->expr[of], &e)) break;
      for (uint32_t k = 0; k < f->n_key; k++) x[k] *= f->m->value[of][k];
      if (is_equal(f, x, v)) return add_expr(f, &e, v);
      if (is_same(f, x)) continue;
      uint32_t whole = find_expr(f, x);
      if (whole == NONE && (whole = add_expr(f, &e, x)) == NONE) return NONE;
      uint32_t part = find_quotient(f, whole, v);
      if (part != NONE) return part;
    }
  }
  return NONE;
}

static uint32_t find_sum(finder *f, const tc_rec *r, int axis, const int64_t *v) {
  tc_size_expr sum = tc_size_constant(0);
  sum.n_term = 0;
  int64_t x[TC_MOST_KEYS] = {0};
  for (int i = 0; i < tc_rec_arity(r); i++) {
    uint32_t of = extent_of(f, tc_rec_in(r)[i], axis);
    if (of == NONE || !tc_size_add(&sum, &f->m->expr[of], 1, &sum)) return NONE;
    for (uint32_t k = 0; k < f->n_key; k++) x[k] += f->m->value[of][k];
  }
  return is_equal(f, x, v) ? add_expr(f, &sum, v) : NONE;
}

static uint32_t amount_at(const tc_size_map *m, uint32_t word) {
  for (uint32_t i = 0; i < m->n_amount; i++)
    if (m->amount[i].word == word) return m->amount[i].expr;
  return NONE;
}

static uint32_t find_padded(finder *f, uint32_t n, int axis, const int64_t *v) {
  const tc_rec *r = record_of(f, 0, n);
  int rank = tc_dims_at(r->shape)->d.rank;
  uint32_t of = extent_of(f, tc_rec_in(r)[0], axis);
  if (of == NONE) return NONE;
  tc_size_expr e = f->m->expr[of];
  for (int end = 0; end < 2; end++) {
    uint32_t index = (uint32_t)(axis + end * rank), amount = amount_at(f->m, f->m->base->at[n] + 2 + index);
    tc_size_expr fixed = tc_size_constant((int64_t)tc_rec_attr(r)[index]);
    if (!tc_size_add(&e, amount == NONE ? &fixed : &f->m->expr[amount], 1, &e)) return NONE;
  }
  return add_expr(f, &e, v);  // its values are looked at when keys are
}

// A value that any size may explain: an offset of one, or a multiple.
static uint32_t find_simple(finder *f, const int64_t *v, int64_t most) {
  for (uint32_t s = 0; s < f->m->n_size; s++) {
    uint32_t e = find_offset(f, f->m->size[s], v, most);
    if (e == NONE && !most) e = find_multiple(f, f->m->size[s], v);
    if (e != NONE) return e;
  }
  return NONE;
}

// Explains extent `axis` of node n, with these values.
static uint32_t explain_extent(finder *f, uint32_t n, int axis, const int64_t *v) {
  const tc_rec *r = record_of(f, 0, n);
  uint32_t e = is_same(f, v) ? add_constant(f, v[0]) : find_expr(f, v);
  if (e != NONE || is_same(f, v)) return e;
  switch (tc_rec_op(r)) {
    case TC_OP_LEAF: e = find_simple(f, v, MOST_NEAR); break;
    case TC_OP_RESHAPE: return find_product(f, tc_rec_in(r)[0], v);
    case TC_OP_CAT: return find_sum(f, r, axis, v);
    case TC_OP_PAD: return find_padded(f, n, axis, v);
    case TC_OP_SLICE: {
      uint32_t of = extent_of(f, tc_rec_in(r)[0], axis);
      if (of != NONE && !is_same(f, f->m->value[of])) {
        e = find_offset(f, of, v, 0);
        if (e == NONE) e = find_quotient(f, of, v);
      }
      break;
    }
    case TC_OP_FULL:
    case TC_OP_IOTA:
    case TC_OP_RAND:
    case TC_OP_RANDN:
    case TC_OP_RANDINT:
    case TC_OP_EXPAND: e = find_simple(f, v, 0); break;
    default: return NONE;
  }
  return e != NONE ? e : add_size(f, v, n, axis);
}

// An amount that a padding adds: a size, or what is left of a constant.
static uint32_t explain_amount(finder *f, uint32_t n, uint32_t word, const int64_t *v) {
  uint32_t e = find_expr(f, v);
  for (uint32_t s = 0; s < f->m->n_size && e == NONE; s++) {
    tc_size_expr rest = tc_size_constant(0);
    int64_t sum[TC_MOST_KEYS];
    for (uint32_t k = 0; k < f->n_key; k++) sum[k] = v[k] + f->m->value[f->m->size[s]][k];
    rest.term[0].coef = sum[0];
    if (is_same(f, sum) && tc_size_add(&rest, &f->m->expr[f->m->size[s]], -1, &rest)) e = add_expr(f, &rest, v);
  }
  return e != NONE ? e : add_size(f, v, n, -1 - (int)word);
}

static bool explain_amounts(finder *f, uint32_t n) {
  tc_size_map *m = f->m;
  const tc_rec *r = record_of(f, 0, n);
  for (uint32_t i = 0; i < r->n_extra && tc_rec_op(r) == TC_OP_PAD; i++) {
    int64_t v[TC_MOST_KEYS];
    uint32_t word = m->base->at[n] + 2 + i;
    for (uint32_t k = 0; k < f->n_key; k++) v[k] = (int64_t)f->key[k][word];
    if (is_same(f, v)) continue;
    uint32_t e = explain_amount(f, n, word, v);
    if (e == NONE || !TC_GROW(m->amount, m->cap_amount, m->n_amount + 1)) return false;
    m->amount[m->n_amount++] = (struct amount){word, e};
  }
  return true;
}

// Explains the shape of node n, if it varies and no node before has it.
static bool explain_shape(finder *f, uint32_t n) {
  tc_size_map *m = f->m;
  sized s = {.at = n};
  bool any = false;
  m->shape_of[n] = NONE;
  for (uint32_t k = 0; k < f->n_key; k++) s.id[k] = record_of(f, k, n)->shape, any |= s.id[k] != s.id[0];
  if (!any) return true;
  for (uint32_t i = 0; i < m->n_shape; i++)
    if (memcmp(m->shape[i].id, s.id, f->n_key * sizeof s.id[0]) == 0) return m->shape_of[n] = i, true;
  s.rank = tc_dims_at(s.id[0])->d.rank;
  for (int a = 0; a < s.rank; a++) {
    int64_t v[TC_MOST_KEYS];
    for (uint32_t k = 0; k < f->n_key; k++) v[k] = tc_dims_at(s.id[k])->d.dim[a];
    if ((s.expr[a] = explain_extent(f, n, a, v)) == NONE) return false;
  }
  if (!TC_GROW(m->shape, m->cap_shape, m->n_shape + 1)) return false;
  m->shape[m->n_shape] = s;
  m->shape_of[n] = m->n_shape++;
  return true;
}

tc_size_map *tc_size_map_create(const tc_plan *base, const uint64_t *const *key, uint32_t n_key) {
  tc_size_map *m = tc_calloc(1, sizeof *m);
  finder f = {m, key, n_key};
  int64_t size[TC_MAX_SIZES];
  bool ok = m && (m->shape_of = tc_malloc((base->n_node + 1) * sizeof *m->shape_of)) != NULL;
  if (m) m->base = base;
  for (uint32_t n = 0; n < base->n_node && ok; n++) ok = explain_amounts(&f, n) && explain_shape(&f, n);
  ok = ok && m->n_size > 0;
  for (uint32_t k = 0; k < n_key && ok; k++) ok = tc_size_map_find(m, key[k], size);
  if (!ok && m) tc_size_map_destroy(m);
  return ok ? m : NULL;
}

void tc_size_map_destroy(tc_size_map *m) {
  void *const owned[] = {m->expr, m->value, m->shape, m->shape_of, m->amount};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(m);
}

uint32_t tc_size_map_count(const tc_size_map *m) {
  return m->n_size;
}

// ---- keys and sizes ----

enum { FIXED = 128 };

static bool read_sizes(const tc_size_map *m, const uint64_t *word, int64_t *size) {
  memset(size, 0, TC_MAX_SIZES * sizeof *size);
  for (uint32_t s = 0; s < m->n_size; s++) {
    int axis = m->from[s].axis;
    int64_t v = axis < 0 ? (int64_t)word[-1 - axis]
                         : tc_dims_at(record_at(word, m->base->at[m->from[s].node])->shape)->d.dim[axis];
    int64_t times = m->expr[m->size[s]].term[0].coef;
    if (v < 1 || v % times) return false;
    size[s] = v / times;
  }
  return true;
}

// The values of all expressions, in `fixed` where it is large enough.
static int64_t *evaluate(const tc_size_map *m, const int64_t *size, int64_t *fixed) {
  int64_t *value = m->n_expr <= FIXED ? fixed : tc_malloc(m->n_expr * sizeof *value);
  for (uint32_t e = 0; e < m->n_expr && value; e++) value[e] = tc_size_value(&m->expr[e], size);
  return value;
}

// Whether a key's varying shape is what the map says.
static bool has_extents(const tc_size_map *m, const sized *s, const uint64_t *word, const int64_t *value) {
  const tc_dims *d = &tc_dims_at(record_at(word, m->base->at[s->at])->shape)->d;
  bool has = d->rank == s->rank;
  for (int a = 0; a < s->rank && has; a++) has = d->dim[a] == value[s->expr[a]];
  return has;
}

// Whether record n is the base's but for its shape and the amounts of a padding.
static bool is_like_base(const tc_size_map *m, const uint64_t *word, uint32_t n) {
  uint32_t at = m->base->at[n];
  const tc_rec *r = record_at(word, at), *b = record_at(m->base->word, at);
  bool like = r->op_args == b->op_args && r->dtype == b->dtype && r->n_extra == b->n_extra &&
              memcmp(r->in, b->in, sizeof r->in) == 0;
  return like && (tc_rec_op(r) == TC_OP_PAD || r->n_extra == 0 || memcmp(r + 1, b + 1, r->n_extra * sizeof *word) == 0);
}

static bool has_amounts(const tc_size_map *m, const uint64_t *word, uint32_t n, const int64_t *value) {
  const tc_rec *r = record_at(word, m->base->at[n]);
  for (uint32_t i = 0; i < r->n_extra && tc_rec_op(r) == TC_OP_PAD; i++) {
    uint32_t at = m->base->at[n] + 2 + i, e = amount_at(m, at);
    if (word[at] != (e == NONE ? m->base->word[at] : (uint64_t)value[e])) return false;
  }
  return true;
}

bool tc_size_map_find(const tc_size_map *m, const uint64_t *word, int64_t *size) {
  const tc_plan *b = m->base;
  int64_t fixed[FIXED];
  if (!read_sizes(m, word, size)) return false;
  int64_t *value = evaluate(m, size, fixed);
  bool found = value != NULL;
  for (uint32_t i = 0; i < m->n_shape && found; i++) found = has_extents(m, &m->shape[i], word, value);
  for (uint32_t n = 0; n < b->n_node && found; n++) {
    uint32_t shape = m->shape_of[n], id = record_at(word, b->at[n])->shape;
    found = is_like_base(m, word, n) && has_amounts(m, word, n, value) &&
            id == (shape == NONE ? tc_plan_rec(b, n)->shape : record_at(word, b->at[m->shape[shape].at])->shape);
  }
  size_t rest = (b->n_word - b->n_rec_words) * sizeof *word;
  found = found && memcmp(word + b->n_rec_words, b->word + b->n_rec_words, rest) == 0;
  if (value != fixed) tc_free(value);
  return found;
}

// The shape of an indexing record follows from its operands', as recording has it.
static bool has_indexed_shape(const tc_plan *p, const tc_rec *r) {
  const tc_dims *d = &tc_dims_at(r->shape)->d, *x = &tc_dims_at(tc_plan_rec(p, tc_rec_in(r)[0])->shape)->d,
                *index = &tc_dims_at(tc_plan_rec(p, tc_rec_in(r)[1])->shape)->d;
  if (tc_op_kind_of(tc_rec_op(r)) != TC_KIND_INDEX) return true;
  if (tc_rec_op(r) == TC_OP_GATHER) return tc_dims_equal(d, index);
  tc_dims want = *x, part = {0};
  int axis = (int)tc_rec_attr(r)[0];
  for (int i = 0; i < axis; i++) part.dim[part.rank++] = x->dim[i];
  for (int i = 0; i < index->rank && part.rank < TC_MAX_RANK; i++) part.dim[part.rank++] = index->dim[i];
  for (int i = axis + 1; i < x->rank && part.rank < TC_MAX_RANK; i++) part.dim[part.rank++] = x->dim[i];
  if (tc_rec_op(r) == TC_OP_INDEX_SELECT) want = part;
  if (tc_rec_op(r) == TC_OP_INDEX_ADD && !tc_dims_equal(&part, &tc_dims_at(tc_plan_rec(p, tc_rec_in(r)[2])->shape)->d))
    return false;
  if ((tc_rec_op(r) == TC_OP_SCATTER || tc_rec_op(r) == TC_OP_SCATTER_ADD) &&
      !tc_dims_equal(index, &tc_dims_at(tc_plan_rec(p, tc_rec_in(r)[2])->shape)->d))
    return false;
  return tc_dims_equal(d, &want);
}

static bool write_words(const tc_size_map *m, const int64_t *value, uint64_t *word) {
  for (uint32_t i = 0; i < m->n_amount; i++) {
    if (value[m->amount[i].expr] < 0) return false;
    word[m->amount[i].word] = (uint64_t)value[m->amount[i].expr];
  }
  for (uint32_t i = 0; i < m->n_shape; i++) {
    tc_dims d = {.rank = m->shape[i].rank};
    int64_t count;
    for (int a = 0; a < d.rank; a++) d.dim[a] = value[m->shape[i].expr[a]];
    if (!tc_dims_product(&d, &count)) return false;
    uint32_t id = tc_dims_intern(&d);
    if (id == TC_SHAPE_NONE) return false;
    for (uint32_t n = 0; n < m->base->n_node; n++)
      if (m->shape_of[n] == i) ((tc_rec *)(void *)(word + m->base->at[n]))->shape = id;
  }
  return true;
}

bool tc_size_map_plan_at(const tc_size_map *m, const int64_t *size, tc_plan *out) {
  const tc_plan *b = m->base;
  int64_t fixed[FIXED], *value = evaluate(m, size, fixed);
  memcpy(out, b, sizeof *out);
  out->program = NULL, out->n_compiled = 0;
  out->word = tc_malloc(b->n_word * sizeof *out->word);
  out->out = tc_malloc((b->n_out + 1) * sizeof *out->out);
  bool ok = value && out->word && out->out;
  if (ok) {
    memcpy(out->word, b->word, b->n_word * sizeof *out->word);
    out->flag = (const uint8_t *)(out->word + b->n_rec_words);
    ok = write_words(m, value, out->word);
  }
  for (uint32_t n = 0; n < b->n_node && ok; n++)
    ok = tc_rec_arity(tc_plan_rec(out, n)) < 2 || has_indexed_shape(out, tc_plan_rec(out, n));
  for (uint32_t o = 0; o < b->n_out && ok; o++) {
    const tc_rec *r = tc_plan_rec(out, b->out[o].node);
    out->out[o] =
        (tc_out){b->out[o].node, TC_LEAF_NONE, (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype)};
  }
  if (value != fixed) tc_free(value);
  if (ok) return true;
  tc_free(out->word);
  tc_free(out->out);
  return false;
}
