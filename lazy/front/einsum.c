// tc_einsum over the public ops: diagonals and lone sums first, then operands are contracted from left to right.
// The idea: every axis has a label (a letter, or a place of the ellipsis counted from the right); a pair of operands becomes one batched
// matmul [batch, free of a, shared] @ [batch, shared, free of b], and a product without shared labels stays elementwise, which fuses.
// Extents of one broadcast. Source: numpy.einsum, torch.einsum (an ellipsis the output does not name is summed, as PyTorch does).
// Threads: thread-compatible; records only.
#define TC_NO_SITES
#include "lazy/front/operand.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPERANDS 64
#define MAX_LABELS 64
#define ELLIPSIS 'z' + 1  // labels from here on are places of the ellipsis, the last axis first

// Labels of the axes of one operand, in order.
typedef struct term {
  int n;
  unsigned char label[MAX_LABELS];
} term;

typedef struct operand {
  tc_tensor value;
  term axes;  // at most TC_MAX_RANK
} operand;

typedef struct einsum {
  const char *spec;
  tc_site site;
  int64_t extent[256];  // by label; 0: label not seen
  bool seen[256];
  int n_ellipsis;       // axes of the longest ellipsis
} einsum;

static tc_status fail(const einsum *e, const char *what) {
  return tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\": %s", e->spec, what);
}

static bool has(const term *s, int label) {
  return memchr(s->label, label, (size_t)s->n) != NULL;
}

// The labels of [from, to); an ellipsis becomes n_ellipsis labels.
static tc_status parse_term(const einsum *e, const char *from, const char *to, int n_ellipsis, term *out) {
  out->n = 0;
  for (const char *p = from; p < to; p++) {
    if (*p == ' ') continue;
    if (out->n + TC_MAX_RANK >= MAX_LABELS) return fail(e, "too many labels");
    if (*p == '.') {
      if (to - p < 3 || p[1] != '.' || p[2] != '.' || memchr(p + 3, '.', (size_t)(to - p - 3))) return fail(e, "a lone or second '.'");
      for (int i = n_ellipsis; i-- > 0;) out->label[out->n++] = (unsigned char)(ELLIPSIS + i);
      p += 2;
    } else if (isalpha((unsigned char)*p)) {
      out->label[out->n++] = (unsigned char)*p;
    } else {
      return fail(e, "a label is not a letter");
    }
  }
  return TC_OK;
}

// Reads one operand's term and agrees on the extents.
static tc_status read_operand(einsum *e, const char *from, const char *to, tc_tensor x, operand *out) {
  tc_dims d = tc_shape_at(x, e->site);
  term plain;
  TC_TRY(parse_term(e, from, to, 0, &plain));
  bool dots = memchr(from, '.', (size_t)(to - from)) != NULL;
  int n_ellipsis = dots ? d.rank - plain.n : 0;
  if (n_ellipsis < 0 || plain.n + n_ellipsis != d.rank)
    return tc_fail(TC_ERR_SHAPE, "einsum", e->site, "\"%s\": an operand of rank %d has %d labels", e->spec, d.rank, plain.n);
  e->n_ellipsis = TC_MAX_OF(e->n_ellipsis, n_ellipsis);
  out->value = x;
  TC_TRY(parse_term(e, from, to, n_ellipsis, &out->axes));
  for (int i = 0; i < d.rank; i++) {
    int l = out->axes.label[i];
    if (!e->seen[l] || e->extent[l] == 1)
      e->extent[l] = d.dim[i];
    else if (d.dim[i] != 1 && d.dim[i] != e->extent[l])
      return tc_fail(TC_ERR_SHAPE, "einsum", e->site, "\"%s\": extents %lld and %lld share a label", e->spec, (long long)e->extent[l],
                     (long long)d.dim[i]);
    e->seen[l] = true;
  }
  return TC_OK;
}

// Without "->": the ellipsis, then the labels that occur once, in alphabetical order.
static void implicit_output(const einsum *e, const operand *xs, int n, term *out) {
  int count[256] = {0};
  out->n = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < xs[k].axes.n; i++) count[xs[k].axes.label[i]]++;
  for (int i = e->n_ellipsis; i-- > 0;) out->label[out->n++] = (unsigned char)(ELLIPSIS + i);
  for (int l = 'A'; l <= 'z'; l++)
    if (count[l] == 1) out->label[out->n++] = (unsigned char)l;
}

static tc_status read_output(const einsum *e, const char *arrow, const operand *xs, int n, term *out) {
  if (arrow == NULL) {
    implicit_output(e, xs, n, out);
  } else {
    TC_TRY(parse_term(e, arrow + 2, arrow + strlen(arrow), e->n_ellipsis, out));
    for (int i = 0; i < out->n; i++) {
      if (!e->seen[out->label[i]]) return fail(e, "the output has a label that no operand has");
      if (memchr(out->label, out->label[i], (size_t)i)) return fail(e, "the output repeats a label");
    }
  }
  return out->n <= TC_MAX_RANK ? TC_OK : fail(e, "the output has too many axes");
}

// x with its axes in the order of the labels, each of which it has; the others follow in order.
static void permute_to(const einsum *e, operand *x, const term *order) {
  tc_dims axes = tc_dims_of(0, NULL);
  term labels = {0};
  for (int pass = 0; pass < 2; pass++) {
    int n = pass ? x->axes.n : order->n;
    for (int i = 0; i < n; i++) {
      unsigned char l = pass ? x->axes.label[i] : order->label[i];
      if (has(&labels, l) || !has(&x->axes, l)) continue;
      axes.dim[axes.rank++] = (unsigned char *)memchr(x->axes.label, l, (size_t)x->axes.n) - x->axes.label;
      labels.label[labels.n++] = l;
    }
  }
  if (memcmp(labels.label, x->axes.label, (size_t)labels.n) == 0) return;
  x->value = tc_permute_at(x->value, axes, e->site);
  x->axes = labels;
}

// Repeated labels of one operand become one axis: the pair moves to the end and its diagonal stays.
static void take_diagonals(const einsum *e, operand *x) {
  for (int i = 0; i < x->axes.n; i++)
    for (int j = i + 1; j < x->axes.n; j++) {
      if (x->axes.label[i] != x->axes.label[j]) continue;
      tc_dims axes = tc_dims_of(0, NULL);
      term labels = {0};
      for (int k = 0; k < x->axes.n; k++)
        if (k != i && k != j) axes.dim[axes.rank++] = k, labels.label[labels.n++] = x->axes.label[k];
      axes.dim[axes.rank++] = i, axes.dim[axes.rank++] = j;
      labels.label[labels.n++] = x->axes.label[i];
      x->value = tc_diagonal_at(tc_permute_at(x->value, axes, e->site), 0, e->site);
      x->axes = labels;
      i = -1;  // the axes have moved
      break;
    }
}

static tc_tensor sum_as(const einsum *e, tc_tensor x, tc_dims axes) {
  tc_type type = tc_dtype_at(x, e->site);
  tc_tensor y = tc_sum_at(x, axes, false, e->site);
  return tc_dtype_at(y, e->site) == type ? y : tc_cast_at(y, type, e->site);  // integers keep their type, as in NumPy
}

// Sums over the axes whose label nobody needs any more.
static void sum_lone(const einsum *e, operand *x, const bool *needed) {
  tc_dims axes = tc_dims_of(0, NULL);
  term kept = {0};
  for (int i = 0; i < x->axes.n; i++) {
    if (needed[x->axes.label[i]])
      kept.label[kept.n++] = x->axes.label[i];
    else
      axes.dim[axes.rank++] = i;
  }
  if (axes.rank == 0) return;
  x->value = sum_as(e, x->value, axes);
  x->axes = kept;
}

// x as a tensor with one axis per label of order, extents of one where it lacks the label; full: those it has repeat to the label's extent.
static void spread(const einsum *e, operand *x, const term *order, bool full) {
  permute_to(e, x, order);
  tc_dims have = tc_shape_at(x->value, e->site), shape = tc_dims_of(0, NULL), wide;
  for (int i = 0, k = 0; i < order->n; i++) shape.dim[shape.rank++] = has(&x->axes, order->label[i]) ? have.dim[k++] : 1;
  wide = shape;
  for (int i = 0; i < order->n; i++)
    if (has(&x->axes, order->label[i])) wide.dim[i] = e->extent[order->label[i]];
  x->value = tc_reshape_at(x->value, shape, e->site);
  if (full) x->value = tc_expand_at(x->value, wide, e->site);
}

static int64_t extents_of(const einsum *e, const term *s) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++) n *= e->extent[s->label[i]];
  return n;
}

static void append(term *s, const term *more) {
  for (int i = 0; i < more->n; i++) s->label[s->n++] = more->label[i];
}

static bool is_float(const einsum *e, tc_tensor x) {
  tc_type type = tc_dtype_at(x, e->site);
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

// The contraction of a and b; needed: labels of the output and of operands still to come.
static tc_status contract(const einsum *e, const operand *a, const operand *b, const bool *needed, operand *out) {
  term batch = {0}, shared = {0}, free_a = {0}, free_b = {0};
  for (int i = 0; i < a->axes.n; i++) {
    unsigned char l = a->axes.label[i];
    term *to = !has(&b->axes, l) ? &free_a : needed[l] ? &batch : &shared;
    to->label[to->n++] = l;
  }
  for (int i = 0; i < b->axes.n; i++)
    if (!has(&a->axes, b->axes.label[i])) free_b.label[free_b.n++] = b->axes.label[i];
  operand x = *a, y = *b;
  out->axes = batch;
  append(&out->axes, &free_a);
  append(&out->axes, &free_b);
  bool product = shared.n == 0 || !(is_float(e, a->value) || is_float(e, b->value));
  int rank = out->axes.n + (product ? shared.n : 0);
  if (rank > TC_MAX_RANK) return fail(e, "an intermediate result has too many axes");
  if (product) {
    term all = out->axes;
    append(&all, &shared);
    spread(e, &x, &all, true);
    spread(e, &y, &all, true);
    out->value = tc_mul_at(x.value, y.value, e->site);
    tc_dims axes = tc_dims_of(0, NULL);
    for (int i = out->axes.n; i < all.n; i++) axes.dim[axes.rank++] = i;
    if (axes.rank) out->value = sum_as(e, out->value, axes);
    return TC_OK;
  }
  term order_a = batch, order_b = batch;
  append(&order_a, &free_a);
  append(&order_a, &shared);
  append(&order_b, &shared);
  append(&order_b, &free_b);
  spread(e, &x, &order_a, true);
  spread(e, &y, &order_b, true);
  int64_t n = extents_of(e, &batch), m = extents_of(e, &free_a), k = extents_of(e, &shared), p = extents_of(e, &free_b);
  tc_tensor left = tc_reshape_at(x.value, TC_SHAPE(n, m, k), e->site), right = tc_reshape_at(y.value, TC_SHAPE(n, k, p), e->site);
  tc_dims shape = tc_dims_of(0, NULL);
  for (int i = 0; i < out->axes.n; i++) shape.dim[shape.rank++] = e->extent[out->axes.label[i]];
  out->value = tc_reshape_at(tc_matmul_at(left, right, e->site), shape, e->site);
  return TC_OK;
}

// Labels of the output and of xs[from..n).
static void mark_needed(const term *output, const operand *xs, int from, int n, bool needed[256]) {
  memset(needed, 0, 256 * sizeof *needed);
  for (int i = 0; i < output->n; i++) needed[output->label[i]] = true;
  for (int k = from; k < n; k++)
    for (int i = 0; i < xs[k].axes.n; i++) needed[xs[k].axes.label[i]] = true;
}

// Whether f16 or bf16 operands meet in more than one sum: what is between them is then f32, and the result rounded once.
static bool rounds_between(const einsum *e, const operand *xs, int n, const term *output) {
  tc_type type = tc_dtype_at(xs[0].value, e->site);
  bool several = n > 2;
  if (type != TC_F16 && type != TC_BF16) return false;
  for (int k = 0; k < n; k++) {
    if (tc_dtype_at(xs[k].value, e->site) != type) return false;
    for (int i = 0; n == 2 && i < xs[k].axes.n; i++)
      several = several || !(has(output, xs[k].axes.label[i]) || has(&xs[1 - k].axes, xs[k].axes.label[i]));
  }
  return several;
}

static tc_status run(einsum *e, int n, const tc_tensor *tensors, operand *xs, tc_tensor *out) {
  const char *arrow = strstr(e->spec, "->"), *end = arrow ? arrow : e->spec + strlen(e->spec), *p = e->spec;
  for (int k = 0; k < n; k++) {
    const char *stop = memchr(p, ',', (size_t)(end - p));
    if ((stop == NULL) != (k == n - 1)) return tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\" does not name %d operands", e->spec, n);
    TC_TRY(tc_operand_check("einsum", tensors[k], e->site));
    TC_TRY(read_operand(e, p, stop ? stop : end, tensors[k], &xs[k]));
    p = stop ? stop + 1 : end;
  }
  term output;
  bool needed[256];
  TC_TRY(read_output(e, arrow, xs, n, &output));
  tc_type type = tc_dtype_at(xs[0].value, e->site);
  bool wide = rounds_between(e, xs, n, &output);
  operand acc = xs[0];
  for (int k = 0; k < n; k++) {
    operand x = xs[k];
    take_diagonals(e, &x);
    if (wide) x.value = tc_cast_at(x.value, TC_F32, e->site);
    mark_needed(&output, xs, k + 1, n, needed);
    if (k > 0)
      for (int i = 0; i < acc.axes.n; i++) needed[acc.axes.label[i]] = true;
    sum_lone(e, &x, needed);
    if (k == 0) {
      acc = x;
      continue;
    }
    mark_needed(&output, xs, k + 1, n, needed);
    operand both = {0};
    TC_TRY(contract(e, &acc, &x, needed, &both));
    acc = both;
    sum_lone(e, &acc, needed);
  }
  spread(e, &acc, &output, true);
  *out = wide ? tc_cast_at(acc.value, type, e->site) : acc.value;
  return TC_OK;
}

// Records operands' Einstein sum, "ij,jk->ik". Poison with the spec and what is wrong with it in tc_last_error.
tc_tensor tc_einsum_at(const char *spec, int n, const tc_tensor *operands, tc_site site) {
  TC_CALLED_AS("einsum");
  einsum e = {.spec = spec ? spec : "", .site = site};
  if (spec == NULL || operands == NULL || n < 1 || n > MAX_OPERANDS)
    return tc_poison(tc_fail(TC_ERR_ARG, "einsum", e.site, "%d operands; a spec and 1 to %d operands are needed", n, MAX_OPERANDS));
  operand xs[MAX_OPERANDS];
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor result = {0, 0};
  tc_status st = run(&e, n, operands, xs, &result);
  // An operand returned as it came belongs to the caller's scope already; a reshape to its own shape makes a handle of this one.
  tc_tensor out = st == TC_OK ? tc_keep_at(tc_reshape_at(result, tc_shape_at(result, site), e.site), site) : tc_poison(st);
  tc_scope_end_at(scope, 0);
  return out;
}
