// Sums of terms: adding, comparing, dividing. See index_expr.h.
#include "lowering/kir/index_expr.h"

tc_index tc_ix_const(int64_t v) {
  return (tc_index){.base = v};
}

static bool same_factor(const tc_term *a, const tc_term *b) {
  return a->kind == b->kind && a->range == b->range && a->id == b->id && a->div == b->div && a->mod == b->mod;
}

tc_index tc_ix_range(uint8_t range) {
  tc_index x = tc_ix_const(0);
  (void)tc_ix_add_term(&x, (tc_term){TC_TERM_RANGE, range, 0, 1, 0, 1});
  return x;
}

bool tc_ix_add_term(tc_index *x, tc_term t) {
  if (t.coef == 0) return true;
  for (int i = 0; i < x->n; i++)
    if (same_factor(&x->term[i], &t)) {
      x->term[i].coef += t.coef;
      if (x->term[i].coef == 0) x->term[i] = x->term[--x->n];
      return true;
    }
  if (x->n == TC_MAX_TERMS) return false;
  x->term[x->n++] = t;
  return true;
}

bool tc_ix_add(tc_index *x, const tc_index *y, int64_t coef) {
  x->base += coef * y->base;
  for (int i = 0; i < y->n; i++) {
    tc_term t = y->term[i];
    t.coef *= coef;
    if (!tc_ix_add_term(x, t)) return false;
  }
  return true;
}

// The number of values of the term without coef; 0 if unknown.
static int64_t size_of(const tc_term *t, const tc_extents *e) {
  if (t->kind != TC_TERM_RANGE) return 0;
  int64_t n = (e->of[t->range] + t->div - 1) / t->div;
  return t->mod && t->mod < n ? t->mod : n;
}

static bool term_less(const tc_term *a, const tc_term *b) {
  if (a->kind != b->kind) return a->kind < b->kind;
  if (a->range != b->range) return a->range < b->range;
  if (a->id != b->id) return a->id < b->id;
  return a->div > b->div;
}

void tc_ix_simplify(tc_index *x, const tc_extents *e) {
  for (int i = 0; i < x->n;) {
    tc_term *t = &x->term[i];
    if (t->kind == TC_TERM_RANGE && t->mod && t->mod >= (e->of[t->range] + t->div - 1) / t->div) t->mod = 0;
    if (t->kind == TC_TERM_RANGE && size_of(t, e) <= 1)
      x->term[i] = x->term[--x->n];
    else
      i++;
  }
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < x->n && !again; i++)
      for (int j = 0; j < x->n && !again; j++) {
        tc_term *lo = &x->term[i], *hi = &x->term[j];
        if (i == j || lo->kind != TC_TERM_RANGE || hi->kind != TC_TERM_RANGE || lo->range != hi->range || !lo->mod)
          continue;
        if (hi->div != lo->div * lo->mod || hi->coef != lo->coef * lo->mod) continue;
        lo->mod = hi->mod ? lo->mod * hi->mod : 0;
        if (lo->mod && lo->mod >= (e->of[lo->range] + lo->div - 1) / lo->div) lo->mod = 0;
        *hi = x->term[--x->n];
        again = true;
      }
  }
  for (int i = 1; i < x->n; i++)
    for (int j = i; j > 0 && term_less(&x->term[j], &x->term[j - 1]); j--) {
      tc_term t = x->term[j];
      x->term[j] = x->term[j - 1], x->term[j - 1] = t;
    }
}

bool tc_ix_equal(const tc_index *a, const tc_index *b) {
  if (a->n != b->n || a->base != b->base) return false;
  for (int i = 0; i < a->n; i++)
    if (!same_factor(&a->term[i], &b->term[i]) || a->term[i].coef != b->term[i].coef) return false;
  return true;
}

bool tc_ix_take_stride(tc_index *x, uint8_t range, int64_t *stride) {
  tc_index rest;
  tc_ix_set(&rest, x->base);
  *stride = 0;
  for (int i = 0; i < x->n; i++) {
    const tc_term *t = &x->term[i];
    if (t->kind != TC_TERM_RANGE || t->range != range) {
      if (!tc_ix_add_term(&rest, *t)) return false;
    } else if (t->div != 1 || t->mod != 0 || *stride != 0) {
      return false;
    } else {
      *stride = t->coef;
    }
  }
  tc_ix_copy(x, &rest);
  return true;
}

bool tc_ix_divmod(const tc_index *x, int64_t m, const tc_extents *e, tc_index *q, tc_index *r) {
  tc_ix_set(q, 0), tc_ix_set(r, 0);
  if (m == 1) return tc_ix_copy(q, x), true;
  int64_t most = 0;
  if (x->base < 0) return false;
  q->base = x->base / m, r->base = most = x->base % m;
  for (int i = 0; i < x->n; i++) {
    tc_term t = x->term[i];
    if (t.coef % m == 0) {
      t.coef /= m;
      if (!tc_ix_add_term(q, t)) return false;
      continue;
    }
    int64_t size = size_of(&t, e);
    if (size == 0 || t.coef < 0) return false;
    if (t.coef * (size - 1) >= m) {
      if (m % t.coef) return false;
      int64_t cut = m / t.coef;
      tc_term hi = t;
      hi.div = t.div * cut, hi.coef = 1;
      if (t.mod) {
        if (t.mod % cut) return false;
        hi.mod = t.mod / cut;
      }
      if (!tc_ix_add_term(q, hi)) return false;
      t.mod = cut;
      size = cut;
    }
    most += t.coef * (size - 1);
    if (!tc_ix_add_term(r, t)) return false;
  }
  return most < m;
}

bool tc_ix_flatten(const tc_index *idx, const tc_dims *d, const tc_extents *e, tc_index *out) {
  int64_t stride = 1;
  tc_ix_set(out, 0);
  for (int i = d->rank; i-- > 0;) {
    if (!tc_ix_add(out, &idx[i], stride)) return false;
    stride *= d->dim[i];
  }
  tc_ix_simplify(out, e);
  return true;
}

bool tc_ix_unflatten(const tc_index *flat, const tc_dims *d, const tc_extents *e, tc_index *out) {
  tc_index rest, q;
  tc_ix_copy(&rest, flat);
  for (int i = 0; i < d->rank; i++) tc_ix_set(&out[i], 0);
  int top = 0;
  while (top < d->rank && d->dim[top] == 1) top++;
  for (int i = d->rank; i-- > top;) {
    if (d->dim[i] == 1) continue;
    if (i == top) {
      tc_ix_copy(&out[i], &rest);
    } else if (!tc_ix_divmod(&rest, d->dim[i], e, &q, &out[i])) {
      return false;
    } else {
      tc_ix_copy(&rest, &q);
    }
    tc_ix_simplify(&out[i], e);
  }
  return true;
}
