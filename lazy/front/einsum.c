// tc_einsum over the public ops: diagonals and lone sums first, then operands are contracted two at
// a time, in an order of least cost.
// The idea: every axis has a label, a letter or a place of the ellipsis counted from the right. A
// pair of operands becomes one batched matmul, [batch, free of a, shared] @ [batch, shared, free of
// b]. A product without shared labels stays elementwise, which fuses.
// The cost of a pair is its multiply-adds and what storing its result takes. Of orders that cost
// the same, the one that holds less at once is taken. Up to EXACT operands all orders are compared,
// by subsets; of more, the pair whose result saves the most elements is contracted first.
// Extents of one broadcast. Source: numpy.einsum, torch.einsum (an ellipsis the output does not
// name is summed, as PyTorch does); opt_einsum for orders.
// Threads: thread-compatible; records only.
#define TC_NO_SITES
#include "lazy/front/operand.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define MAX_OPERANDS 64
#define EXACT 6  // operands whose orders are all compared
#define COST_OF_ELEMENT \
  32  // of a result, in multiply-adds: 8 bytes written and read at some 10 GB/s, beside 40 multiply-adds a ns
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
  int n_ellipsis;  // axes of the longest ellipsis
  bool lone;  // there is one operand
  tc_type type;  // of the product
  bool bytes;  // of bytes and bools alone: i8 and u8 stay so up to their product, which is i32
} einsum;

static tc_status fail(const einsum *e, const char *what) {
  return tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\": %s", e->spec, what);
}

// A label as the user wrote it.
static const char *label_text(int label, char out[4]) {
  snprintf(out, 4, label >= ELLIPSIS ? "..." : "%c", label);
  return out;
}

static bool is_byte(tc_type type) {
  return type == TC_I8 || type == TC_U8;
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
      if (to - p < 3 || p[1] != '.' || p[2] != '.' || memchr(p + 3, '.', (size_t)(to - p - 3)))
        return fail(e, "a lone or second '.'");
      for (int i = n_ellipsis; i-- > 0;) out->label[out->n++] = (unsigned char)(ELLIPSIS + i);
      p += 2;
    } else if (isalpha((unsigned char)*p)) {
      out->label[out->n++] = (unsigned char)*p;
    } else {
      return *p == '-' && to - p > 1 && p[1] == '>'
                 ? fail(e, "a second \"->\"")
                 : tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\": '%c' is no letter, and so no label", e->spec, *p);
    }
  }
  return TC_OK;
}

// Reads operand k's term and agrees on the extents.
static tc_status read_operand(einsum *e, int k, const char *from, const char *to, tc_tensor x, operand *out) {
  tc_dims d = tc_shape_at(x, e->site);
  term plain;
  char text[128], label[4];
  TC_TRY(parse_term(e, from, to, 0, &plain));
  bool dots = memchr(from, '.', (size_t)(to - from)) != NULL;
  int n_ellipsis = dots ? d.rank - plain.n : 0;
  if (n_ellipsis < 0 || plain.n + n_ellipsis != d.rank)
    return tc_fail(TC_ERR_SHAPE, "einsum", e->site, "\"%s\": operand %d is %s, of rank %d, and has %d labels", e->spec,
                   k, tc_dims_text(&d, text, sizeof text), d.rank, plain.n);
  e->n_ellipsis = TC_MAX_OF(e->n_ellipsis, n_ellipsis);
  out->value = x;
  TC_TRY(parse_term(e, from, to, n_ellipsis, &out->axes));
  for (int i = 0; i < d.rank; i++) {
    int l = out->axes.label[i];
    if (!e->seen[l] || e->extent[l] == 1)
      e->extent[l] = d.dim[i];
    else if (d.dim[i] != 1 && d.dim[i] != e->extent[l])
      return tc_fail(TC_ERR_SHAPE, "einsum", e->site, "\"%s\": label %s is %lld and, in operand %d, which is %s, %lld",
                     e->spec, label_text(l, label), (long long)e->extent[l], k, tc_dims_text(&d, text, sizeof text),
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
      char label[4];
      const char *what = !e->seen[out->label[i]]                        ? "which no operand has"
                         : memchr(out->label, out->label[i], (size_t)i) ? "twice"
                                                                        : NULL;
      if (what)
        return tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\": the output has label %s, %s", e->spec,
                       label_text(out->label[i], label), what);
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

// The sum of one operand is tc_sum's, of bools whether any is true; in a product integers keep its
// type, as in tc_matmul.
static tc_tensor sum_over(const einsum *e, tc_tensor x, tc_dims axes) {
  tc_type type = tc_dtype_at(x, e->site);
  if (e->lone) return type == TC_BOOL ? tc_any_at(x, axes, false, e->site) : tc_sum_at(x, axes, false, e->site);
  tc_tensor y = tc_sum_at(x, axes, false, e->site);
  if (e->bytes) type = e->type;
  return tc_dtype_at(y, e->site) == type ? y : tc_cast_at(y, type, e->site);
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
  x->value = sum_over(e, x->value, axes);
  x->axes = kept;
}

// x as a tensor with one axis per label of order, of extent one where it lacks the label. full:
// true:
// the axes it has repeat to the label's extent.
static void spread(const einsum *e, operand *x, const term *order, bool full) {
  permute_to(e, x, order);
  tc_dims have = tc_shape_at(x->value, e->site), shape = tc_dims_of(0, NULL), wide;
  for (int i = 0, k = 0; i < order->n; i++)
    shape.dim[shape.rank++] = has(&x->axes, order->label[i]) ? have.dim[k++] : 1;
  wide = shape;
  for (int i = 0; i < order->n; i++)
    if (has(&x->axes, order->label[i])) wide.dim[i] = e->extent[order->label[i]];
  x->value = tc_reshape_at(x->value, shape, e->site);
  if (full) x->value = tc_expand_at(x->value, wide, e->site);
}

// INT64_MAX where that is too little: operands of such extents were refused before.
static int64_t extents_of(const einsum *e, const term *s) {
  int64_t n = 1;
  for (int i = 0; i < s->n; i++)
    if (__builtin_mul_overflow(n, e->extent[s->label[i]], &n)) return INT64_MAX;
  return n;
}

static void append(term *s, const term *more) {
  for (int i = 0; i < more->n; i++) s->label[s->n++] = more->label[i];
}

// The contraction of a and b; needed: labels of the output and of operands still to come.
static void contract(const einsum *e, const operand *a, const operand *b, const bool *needed, operand *out) {
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
  if (shared.n == 0) {
    spread(e, &x, &out->axes, true);
    spread(e, &y, &out->axes, true);
    if (e->bytes) x.value = tc_cast_at(x.value, e->type, e->site), y.value = tc_cast_at(y.value, e->type, e->site);
    out->value = tc_mul_at(x.value, y.value, e->site);
    return;
  }
  term order_a = batch, order_b = batch;
  append(&order_a, &free_a);
  append(&order_a, &shared);
  append(&order_b, &shared);
  append(&order_b, &free_b);
  spread(e, &x, &order_a, true);
  spread(e, &y, &order_b, true);
  int64_t n = extents_of(e, &batch), m = extents_of(e, &free_a), k = extents_of(e, &shared), p = extents_of(e, &free_b);
  tc_tensor left = tc_reshape_at(x.value, TC_SHAPE(n, m, k), e->site),
            right = tc_reshape_at(y.value, TC_SHAPE(n, k, p), e->site);
  tc_dims shape = tc_dims_of(0, NULL);
  for (int i = 0; i < out->axes.n; i++) shape.dim[shape.rank++] = e->extent[out->axes.label[i]];
  out->value = tc_reshape_at(tc_matmul_at(left, right, e->site), shape, e->site);
}

// ---- The order of contractions ----

// Labels as bits of a set.
static uint64_t bit_of(int label) {
  return UINT64_C(1) << (label >= ELLIPSIS ? 52 + label - (ELLIPSIS) : label >= 'a' ? 26 + label - 'a' : label - 'A');
}

static uint64_t bits_of(const term *s) {
  uint64_t bits = 0;
  for (int i = 0; i < s->n; i++) bits |= bit_of(s->label[i]);
  return bits;
}

typedef struct order {
  double extent[64];  // by bit
} order;

static double elements(const order *o, uint64_t labels) {
  double n = 1;
  for (; labels; labels &= labels - 1) n *= o->extent[__builtin_ctzll(labels)];
  return n;
}

// The estimated cost of contracting a with b to result; infinite if result has more axes than
// TC_MAX_RANK.
static double cost_of(const order *o, uint64_t a, uint64_t b, uint64_t result) {
  if (__builtin_popcountll(result) > TC_MAX_RANK) return INFINITY;
  return elements(o, a | b) + COST_OF_ELEMENT * elements(o, result);
}

typedef struct best {
  uint64_t labels;  // of the result
  double cost, peak;  // peak: elements of results that are held at once
  unsigned first;  // the part that is made first
} best;

// Finds the pair that the best order of n operands contracts first. n is at most EXACT. False:
// every order has tensors of too many axes.
static bool first_of_best(const order *o, int n, const uint64_t *xs, uint64_t output, int pair[2]) {
  best all[1 << EXACT];
  unsigned whole = (1u << n) - 1;
  for (unsigned s = 1; s <= whole; s++) {
    uint64_t in = 0, out = output;
    for (int i = 0; i < n; i++) *(s >> i & 1 ? &in : &out) |= xs[i];
    best *b = &all[s];
    *b = (best){.labels = in & out};
    if ((s & (s - 1)) == 0) {
      b->labels = in;
      continue;
    }
    b->cost = b->peak = INFINITY;
    double made = elements(o, b->labels);
    for (unsigned part = (s - 1) & s; part; part = (part - 1) & s) {
      const best *p = &all[part], *q = &all[s & ~part];
      double hold_p = part & (part - 1) ? elements(o, p->labels) : 0,
             hold_q = (s & ~part) & ((s & ~part) - 1) ? elements(o, q->labels) : 0;
      double cost = p->cost + q->cost + cost_of(o, p->labels, q->labels, b->labels);
      double peak = fmax(p->peak, fmax(hold_p + q->peak, hold_p + hold_q + made));
      if (cost < b->cost || (cost == b->cost && peak <= b->peak)) b->cost = cost, b->peak = peak, b->first = part;
    }
  }
  if (!isfinite(all[whole].cost)) return false;
  unsigned s = whole;
  while (__builtin_popcount(s) > 2) s = all[s].first & (all[s].first - 1) ? all[s].first : s & ~all[s].first;
  pair[0] = __builtin_ctz(s), pair[1] = __builtin_ctz(s & (s - 1));
  return true;
}

// The pair whose result saves the most elements; of equals the one of least cost.
static bool first_by_size(const order *o, int n, const uint64_t *xs, uint64_t output, int pair[2]) {
  double least = INFINITY, least_cost = INFINITY;
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      uint64_t needed = output;
      for (int k = 0; k < n; k++) needed |= k == i || k == j ? 0 : xs[k];
      uint64_t result = (xs[i] | xs[j]) & needed;
      double cost = cost_of(o, xs[i], xs[j], result),
             more = elements(o, result) - elements(o, xs[i]) - elements(o, xs[j]);
      if (!isfinite(cost) || more > least || (more == least && cost >= least_cost)) continue;
      least = more, least_cost = cost, pair[0] = i, pair[1] = j;
    }
  return isfinite(least_cost);
}

// ---- The whole ----

// Labels of the output and of xs, but for two of them.
static void mark_needed(const term *output, const operand *xs, int n, int but, int and_but, bool needed[256]) {
  memset(needed, 0, 256 * sizeof *needed);
  for (int i = 0; i < output->n; i++) needed[output->label[i]] = true;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < xs[k].axes.n && k != but && k != and_but; i++) needed[xs[k].axes.label[i]] = true;
}

// Contracts pairs until one operand is left, the first.
static tc_status contract_all(const einsum *e, int n, operand *xs, const term *output) {
  order o;
  uint64_t labels[MAX_OPERANDS];
  bool needed[256];
  for (int l = 'A'; l < 256; l++)
    if (e->seen[l]) o.extent[__builtin_ctzll(bit_of(l))] = (double)e->extent[l];
  for (; n > 1; n--) {
    int pair[2];
    for (int i = 0; i < n; i++) labels[i] = bits_of(&xs[i].axes);
    if (!(n <= EXACT ? first_of_best : first_by_size)(&o, n, labels, bits_of(output), pair))
      return fail(e, "in every order of contraction an intermediate result has more than 8 axes");
    operand both = {0};
    mark_needed(output, xs, n, pair[0], pair[1], needed);
    contract(e, &xs[pair[0]], &xs[pair[1]], needed, &both);
    xs[pair[0]] = both;
    memmove(&xs[pair[1]], &xs[pair[1] + 1], (size_t)(n - pair[1] - 1) * sizeof *xs);
  }
  return TC_OK;
}

// Finds the type that a product of all has: that of scalars only where it is of a higher kind, as
// in other ops. Of several operands, a byte or more and no wider number, it is i32, whatever the
// labels: matmul's type.
static void find_type(einsum *e, int n, const operand *xs) {
  tc_type type[2] = {TC_BOOL, TC_BOOL};  // of tensors, of scalars
  bool narrow[2] = {true, true};         // they are bytes and bools
  int n_tensors = 0;
  for (int k = 0; k < n; k++) {
    tc_type t = tc_dtype_at(xs[k].value, e->site);
    bool scalar = xs[k].axes.n == 0;
    type[scalar] = tc_promote_types(type[scalar], t), n_tensors += !scalar;
    narrow[scalar] = narrow[scalar] && (t == TC_BOOL || is_byte(t));
  }
  bool higher = type[0] == TC_BOOL || (tc_is_floating(type[1]) && !tc_is_floating(type[0]));
  bool of_scalars = n_tensors == 0 || (higher && type[1] != TC_BOOL);
  e->type = type[of_scalars], e->lone = n == 1;
  e->bytes = !e->lone && narrow[of_scalars] && e->type != TC_BOOL;
  if (e->bytes) e->type = TC_I32;
}

// An operand as it goes into the first product. Bytes stay, for their matmul.
static tc_tensor to_multiply(const einsum *e, tc_tensor x, bool wide) {
  if (e->lone || (e->bytes && is_byte(tc_dtype_at(x, e->site)))) return x;
  return tc_cast_at(x, wide ? TC_F32 : e->type, e->site);
}

// Whether a label of the operands is not the output's.
static bool sums(const einsum *e, const term *output) {
  for (int l = 0; l < 256; l++)
    if (e->seen[l] && !has(output, l)) return true;
  return false;
}

// Whether operands of a product of f16 or bf16 meet in more than one sum. What is between the sums
// is then f32, and the result is rounded once.
static bool rounds_between(const einsum *e, const operand *xs, int n, const term *output) {
  bool several = n > 2;
  if (e->type != TC_F16 && e->type != TC_BF16) return false;
  for (int k = 0; n == 2 && k < n; k++)
    for (int i = 0; i < xs[k].axes.n; i++)
      several = several || !(has(output, xs[k].axes.label[i]) || has(&xs[1 - k].axes, xs[k].axes.label[i]));
  return several;
}

static tc_status run_contractions(einsum *e, int n, const tc_tensor *tensors, operand *xs, tc_tensor *out) {
  const char *arrow = strstr(e->spec, "->"), *end = arrow ? arrow : e->spec + strlen(e->spec), *p = e->spec;
  for (int k = 0; k < n; k++) {
    const char *stop = memchr(p, ',', (size_t)(end - p));
    if ((stop == NULL) != (k == n - 1))
      return tc_fail(TC_ERR_ARG, "einsum", e->site, "\"%s\" does not name %d operands", e->spec, n);
    TC_TRY(tc_operand_check("einsum", tensors[k], e->site));
    TC_TRY(read_operand(e, k, p, stop ? stop : end, tensors[k], &xs[k]));
    p = stop ? stop + 1 : end;
  }
  term output;
  bool needed[256];
  TC_TRY(read_output(e, arrow, xs, n, &output));
  find_type(e, n, xs);
  if (!e->lone && e->type == TC_BOOL && sums(e, &output))
    return tc_fail(TC_ERR_DTYPE, "einsum", e->site,
                   "\"%s\": bool has no sums of products, as it has no matmul; cast it first", e->spec);
  bool wide = rounds_between(e, xs, n, &output);
  for (int k = 0; k < n; k++) {
    xs[k].value = to_multiply(e, xs[k].value, wide);
    take_diagonals(e, &xs[k]);
    mark_needed(&output, xs, n, k, k, needed);
    sum_lone(e, &xs[k], needed);
  }
  TC_TRY(contract_all(e, n, xs, &output));
  spread(e, &xs[0], &output, true);
  *out = wide ? tc_cast_at(xs[0].value, e->type, e->site) : xs[0].value;
  return TC_OK;
}

// Records operands' Einstein sum, "ij,jk->ik". Poison with the spec and what is wrong with it in
// tc_last_error.
tc_tensor tc_einsum_at(const char *spec, int n, const tc_tensor *operands, tc_site site) {
  TC_CALLED_AS("einsum");
  einsum e = {.spec = spec ? spec : "", .site = site};
  if (spec == NULL || operands == NULL)
    return tc_poison(tc_fail(TC_ERR_ARG, "einsum", e.site, "%s NULL", spec ? "operands are" : "the spec is"));
  if (n < 1 || n > MAX_OPERANDS)
    return tc_poison(tc_fail(TC_ERR_ARG, "einsum", e.site, "%d operands; 1 to %d are needed", n, MAX_OPERANDS));
  operand xs[MAX_OPERANDS];
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor result = {0, 0};
  tc_status st = run_contractions(&e, n, operands, xs, &result);
  // An operand returned as it came belongs to the caller's scope already; a reshape to its own
  // shape makes a handle of this one.
  tc_tensor out =
      st == TC_OK ? tc_keep_at(tc_reshape_at(result, tc_shape_at(result, site), e.site), site) : tc_poison(st);
  tc_scope_end_at(scope, 0);
  return out;
}
