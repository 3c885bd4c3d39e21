// Records lines of a trace's text, each held against its operands. So an edited trace is an error,
// not a kernel that reads beyond them. What has a function in record.h is made by it, and what
// comes out must be what the line says. Records that such functions do not make whole (products,
// convolutions, attention, values from arguments) are checked here. Threads: under the trace's
// lock. Owner: nobody.
#include <string.h>

#include "lazy/record/record_shorthand.h"
#include "lazy/text/text.h"

static uint64_t attr_of(const tc_text_node *x, int i) {
  return i < x->n_attr ? x->attr[i] : UINT64_MAX;
}

// An axis of no rank where the word is none.
static int axis_of(const tc_text_node *x, int i) {
  uint64_t axis = attr_of(x, i);
  return axis < TC_MAX_RANK ? (int)axis : TC_MAX_RANK;
}

static const tc_dims *dims_of(const tc_trace *t, const tc_text_node *x, int k) {
  return tc_node_dims(t, x->in[k]);
}

static tc_type type_in(const tc_trace *t, const tc_text_node *x, int k) {
  return type_of(t, x->in[k]);
}

static bool is_same(const tc_trace *t, const tc_text_node *x, int k) {
  return tc_dims_equal(dims_of(t, x, k), &x->dims) && type_in(t, x, k) == x->type;
}

// ---- records that are checked here ----

static bool values_fit(const tc_text_node *x) {
  bool floats = tc_type_is_float(x->type);
  switch (x->op) {
    case TC_OP_FULL: return x->n_arg == 1;
    case TC_OP_IOTA: return x->n_arg == 2 && x->type != TC_BOOL;
    case TC_OP_RAND:
    case TC_OP_RANDN: return x->n_arg == 2 && floats;
    case TC_OP_RANDPERM: return x->n_arg == 2 && x->type == TC_I64 && x->dims.rank == 1;
    default: return x->n_arg == 4 && !floats && tc_can_draw(x->type, (int64_t)x->arg[2], (int64_t)x->arg[3]);
  }
}

// a [.., m, k] and b [.., k, n] of one type, or bytes, whose sums are i32.
static bool product_fits(const tc_trace *t, const tc_text_node *x) {
  const tc_dims *a = dims_of(t, x, 0), *b = dims_of(t, x, 1), *y = &x->dims;
  int r = y->rank;
  tc_type type = type_in(t, x, 0), right = type_in(t, x, 1);
  bool bytes = tc_type_is_byte(type) && tc_type_is_byte(right);
  if (r < 2 || a->rank != r || b->rank != r || (type != right && !bytes) || type == TC_BOOL) return false;
  for (int i = 0; i < r - 2; i++)
    if (a->dim[i] != y->dim[i] || b->dim[i] != y->dim[i]) return false;
  bool narrow = tc_type_is_half(type);
  return a->dim[r - 1] == b->dim[r - 2] && a->dim[r - 2] == y->dim[r - 2] && b->dim[r - 1] == y->dim[r - 1] &&
         (bytes ? x->type == TC_I32 : x->type == type || (narrow && x->type == TC_F32));
}

// x [n, .., c], w [o, c / groups, ..] and y [n, .., o], of which the record makes one.
static bool conv_fits(const tc_trace *t, const tc_text_node *n) {
  const tc_dims *x = n->op == TC_OP_CONV_INPUT ? &n->dims : dims_of(t, n, 0),
                *w = n->op == TC_OP_CONV_WEIGHT ? &n->dims : dims_of(t, n, 1),
                *y = n->op == TC_OP_CONV ? &n->dims : dims_of(t, n, n->op == TC_OP_CONV_WEIGHT);
  int axes = x->rank - 2;
  if (axes < 1 || axes > 3 || w->rank != x->rank || y->rank != x->rank || n->n_attr != 2 * axes + 1) return false;
  tc_type type = type_in(t, n, 0);
  if (type == TC_BOOL || type_in(t, n, 1) != type) return false;
  if (n->type != type && !(tc_type_is_half(type) && n->type == TC_F32 && n->op != TC_OP_CONV_WEIGHT)) return false;
  int64_t groups = (int64_t)n->attr[2 * axes], channels, last = axes + 1;
  if (groups < 1 || __builtin_mul_overflow(w->dim[1], groups, &channels) || channels != x->dim[last] ||
      w->dim[0] % groups)
    return false;
  if (w->dim[0] != y->dim[last] || x->dim[0] != y->dim[0]) return false;
  for (int i = 0; i < axes; i++) {
    int64_t stride = n->attr[i] & UINT32_MAX, dilation = (int64_t)(n->attr[i] >> 32), reach;
    int64_t padded = x->dim[1 + i] + (int64_t)(n->attr[axes + i] & UINT32_MAX) + (int64_t)(n->attr[axes + i] >> 32);
    if (stride < 1 || dilation < 1 || w->dim[2 + i] < 1 || x->dim[1 + i] > INT32_MAX || w->dim[2 + i] > INT32_MAX)
      return false;
    if (__builtin_mul_overflow(dilation, w->dim[2 + i] - 1, &reach) || reach >= padded) return false;
    if (y->dim[1 + i] < 1 || y->dim[1 + i] > (padded - reach - 1) / stride + 1) return false;
  }
  return true;
}

static bool are(const tc_dims *d, int rank, int64_t a, int64_t b, int64_t c, int64_t e) {
  const int64_t want[] = {a, b, c, e};
  return d->rank == rank && memcmp(d->dim, want, (size_t)rank * sizeof want[0]) == 0;
}

// Whether the node is a number that an argument gives, from 1 to most: a length in a leaf could be
// any.
static bool is_length(const tc_trace *t, tc_node n, int64_t most) {
  const tc_rec *r = tc_rec_of(t, n);
  if (tc_rec_op(r) != TC_OP_FULL || r->dtype != TC_I64 || tc_node_dims(t, n)->rank != 0) return false;
  int64_t v = (int64_t)t->arg[t->arg_at[n]];
  return v >= 1 && v <= most;
}

static bool mask_fits(const tc_trace *t, const tc_text_node *x, int at, const tc_dims *q, int64_t keys) {
  const tc_dims *d = dims_of(t, x, at);
  const int64_t want[] = {q->dim[0], q->dim[1], q->dim[2], keys};
  bool fits = d->rank == 4 && (type_in(t, x, at) == TC_BOOL || tc_type_is_float(type_in(t, x, at)));
  for (int i = 0; fits && i < 4; i++) fits = d->dim[i] == 1 || d->dim[i] == want[i];
  return fits;
}

// Operands as ops.def has them.
static bool attention_fits(const tc_trace *t, const tc_text_node *x) {
  bool forward = x->op == TC_OP_ATTENTION, sums = x->op == TC_OP_ATTENTION_LSE;
  int n = forward ? 3 : sums ? 2 : 6;
  if (x->n_attr != 3 || (x->attr[0] | x->attr[1] | x->attr[2]) > 1 ||
      x->n_in != n + 1 + (int)x->attr[1] + (int)x->attr[2])
    return false;
  const tc_dims *q = dims_of(t, x, 0), *k = dims_of(t, x, 1), *v = sums ? k : dims_of(t, x, 2), *y = &x->dims;
  tc_type type = type_in(t, x, 0), wide = type == TC_F64 ? TC_F64 : TC_F32;
  if (!tc_type_is_float(type) || type_in(t, x, 1) != type || type_in(t, x, sums ? 1 : 2) != type ||
      x->type != (sums ? wide : type))
    return false;
  if (q->rank != 4 || k->rank != 4 || v->rank != 4) return false;
  int64_t b = q->dim[0], heads = q->dim[1], rows = q->dim[2], e = q->dim[3], key_heads = k->dim[1], keys = k->dim[2],
          ev = v->dim[3];
  if (e < 1 || e > TC_MAX_HEAD || ev < 1 || ev > TC_MAX_HEAD || keys < 1 || (key_heads ? heads % key_heads : heads))
    return false;
  if (!are(k, 4, b, key_heads, keys, e) || !are(v, 4, b, key_heads, keys, ev)) return false;
  if (n == 6) {
    bool fit = are(dims_of(t, x, 3), 4, b, heads, rows, ev) && are(dims_of(t, x, 4), 4, b, heads, rows, 2) &&
               are(dims_of(t, x, 5), 3, b, heads, rows, 0);
    if (!fit || type_in(t, x, 3) != type || type_in(t, x, 4) != wide || type_in(t, x, 5) != wide) return false;
  }
  if (type_in(t, x, n) != TC_F64 || dims_of(t, x, n)->rank != 0) return false;
  if (x->attr[1] && !is_length(t, x->in[n + 1], keys)) return false;
  if (x->attr[2] && !mask_fits(t, x, x->n_in - 1, q, keys)) return false;
  switch (x->op) {
    case TC_OP_ATTENTION: return are(y, 4, b, rows, heads, ev);
    case TC_OP_ATTENTION_LSE: return are(y, 4, b, heads, rows, 2);
    case TC_OP_ATTENTION_DQ: return are(y, 4, b, rows, heads, e);
    default: return are(y, 4, b, keys, key_heads, x->op == TC_OP_ATTENTION_DK ? e : ev);
  }
}

// ---- records that a function makes ----

static tc_node sliced(tc_trace *t, const tc_text_node *x) {
  int rank = dims_of(t, x, 0)->rank;
  const int64_t *start = (const int64_t *)x->arg, *step = (const int64_t *)x->attr;
  if (x->n_attr != rank || x->n_arg != rank) return TC_NODE_ERR;
  return x->op == TC_OP_SLICE ? tc_rec_slice(t, x->in[0], start, step, &x->dims)
                              : tc_rec_write_slice(t, x->in[0], x->in[1], start, step);
}

// What an argument says along one axis.
static tc_node started(tc_trace *t, const tc_text_node *x) {
  int axis = axis_of(x, 0);
  if (axis >= x->n_arg || x->arg[axis] >= INT64_MAX) return TC_NODE_ERR;
  int64_t start = (int64_t)x->arg[axis];
  return x->op == TC_OP_ROLL ? tc_rec_roll(t, x->in[0], start, axis)
                             : tc_rec_argkth(t, x->in[0], start + 1, axis, attr_of(x, 1) == 1);
}

static tc_node permuted(tc_trace *t, const tc_text_node *x) {
  tc_dims axes = {.rank = dims_of(t, x, 0)->rank};
  for (int i = 0; i < axes.rank; i++) axes.dim[i] = (int64_t)(attr_of(x, 0) >> (8 * i) & 255);
  return tc_rec_permute(t, x->in[0], &axes);
}

static tc_node folded(tc_trace *t, const tc_text_node *x) {
  uint64_t attr = attr_of(x, 0);
  bool fits = attr < 512 && (attr & 255) >> dims_of(t, x, 0)->rank == 0;
  return fits ? tc_rec_fold(t, x->op, x->in[0], (uint32_t)attr & 255, attr >> 8) : TC_NODE_ERR;
}

static tc_node padded(tc_trace *t, const tc_text_node *x) {
  int rank = dims_of(t, x, 0)->rank;
  return x->n_attr == 2 * rank ? tc_rec_pad(t, x->in[0], (const int64_t *)x->attr, (const int64_t *)x->attr + rank, 0)
                               : TC_NODE_ERR;
}

static tc_node windowed(tc_trace *t, const tc_text_node *x) {
  int axis = axis_of(x, 0);
  int64_t size = (int64_t)attr_of(x, 1), step = (int64_t)attr_of(x, 2), dilation = (int64_t)attr_of(x, 3);
  if (x->op == TC_OP_WINDOW) return tc_rec_window(t, x->in[0], axis, size, step, dilation);
  return axis < x->dims.rank ? tc_rec_unwindow(t, x->in[0], axis, x->dims.dim[axis], step, dilation) : TC_NODE_ERR;
}

static tc_node made(tc_trace *t, const tc_text_node *x) {
  tc_node a = x->in[0], b = x->n_in > 1 ? x->in[1] : TC_NODE_ERR;
  switch (x->op) {
    case TC_OP_CAST: return tc_rec_cast(t, a, x->type);
    case TC_OP_POLYGAMMA: return tc_rec_polygamma(t, (int64_t)attr_of(x, 0), a);
    case TC_OP_WHERE: return tc_rec_where(t, a, b, x->in[2]);
    case TC_OP_PERMUTE: return permuted(t, x);
    case TC_OP_EXPAND: return tc_rec_expand(t, a, &x->dims);
    case TC_OP_SLICE:
    case TC_OP_WRITE_SLICE: return sliced(t, x);
    case TC_OP_ROLL:
    case TC_OP_ARGKTH: return started(t, x);
    case TC_OP_FLIP:
      return attr_of(x, 0) >> dims_of(t, x, 0)->rank == 0 ? tc_rec_flip(t, a, (uint32_t)x->attr[0]) : TC_NODE_ERR;
    case TC_OP_PAD: return padded(t, x);
    case TC_OP_CAT: return tc_rec_cat(t, x->n_in, x->in, axis_of(x, 0));
    case TC_OP_WINDOW:
    case TC_OP_UNWINDOW: return windowed(t, x);
    case TC_OP_CUMSUM:
    case TC_OP_CUMPROD:
    case TC_OP_CUMMAX:
    case TC_OP_CUMMIN:
    case TC_OP_LOGCUMSUMEXP: return tc_rec_scan(t, x->op, a, axis_of(x, 0));
    case TC_OP_ARGSORT: return tc_rec_argsort(t, a, axis_of(x, 0), attr_of(x, 1) == 1);
    case TC_OP_ARGTOPK: {
      int axis = axis_of(x, 0);
      return axis < x->dims.rank ? tc_rec_argtopk(t, a, x->dims.dim[axis], axis, attr_of(x, 1) == 1) : TC_NODE_ERR;
    }
    case TC_OP_SEARCHSORTED: return tc_rec_searchsorted(t, a, b, attr_of(x, 0) == 1);
    case TC_OP_SOFTMAX:
    case TC_OP_LOG_SOFTMAX: return tc_rec_softmax(t, x->op, a, axis_of(x, 0));
    case TC_OP_GATHER: return tc_rec_gather(t, a, axis_of(x, 0), b);
    case TC_OP_INDEX_SELECT: return tc_rec_index_select(t, a, axis_of(x, 0), b);
    case TC_OP_SCATTER:
    case TC_OP_SCATTER_ADD:
    case TC_OP_INDEX_ADD: return tc_rec_scatter(t, x->op, a, axis_of(x, 0), b, x->in[2]);
    default: break;
  }
  if (tc_op_is_elementwise(x->op)) return x->n_in == 1 ? tc_rec_unary(t, x->op, a) : tc_rec_binary(t, x->op, a, b);
  return folded(t, x);
}

// Whether the record is what the line says, but for its arguments, which it then takes over.
static bool is_as_said(tc_trace *t, tc_node n, const tc_text_node *x, uint32_t shape) {
  const tc_rec *r = tc_rec_of(t, n);
  bool same = tc_rec_op(r) == x->op && r->dtype == (uint8_t)x->type && r->shape == shape &&
              tc_rec_arity(r) == x->n_in && memcmp(tc_rec_in(r), x->in, (size_t)x->n_in * sizeof x->in[0]) == 0 &&
              t->dev[n] == (uint8_t)x->dev;
  same = same && tc_rec_attrs(r) == x->n_attr &&
         memcmp(tc_rec_attr(r), x->attr, (size_t)x->n_attr * sizeof x->attr[0]) == 0;
  if (!same || (int)tc_rec_args(r) != x->n_arg) return false;
  if (x->n_arg) memcpy(t->arg + t->arg_at[n], x->arg, (size_t)x->n_arg * sizeof x->arg[0]);
  return true;
}

typedef enum way { REFUSED, MADE, CHECKED, UNFIT } way;

static way checked(bool fits) {
  return fits ? CHECKED : UNFIT;
}

// How it is recorded; of what is checked here, whether it fits but for its operands' devices.
static way way_of(const tc_trace *t, const tc_text_node *x) {
  tc_op_kind kind = tc_op_kind_of(x->op);
  if (kind == TC_KIND_GEN || kind == TC_KIND_RNG) return checked(values_fit(x) && x->n_attr == 0);
  if (kind == TC_KIND_ATTENTION) return checked(attention_fits(t, x));
  if (kind == TC_KIND_CONTROL) return checked(tc_text_control_fits(t, x));
  switch (x->op) {
    case TC_OP_RESHAPE:
      return checked(tc_dims_count(dims_of(t, x, 0)) == tc_dims_count(&x->dims) && type_in(t, x, 0) == x->type &&
                     x->n_attr == 0 && x->n_arg == 0);
    case TC_OP_POOL:
    case TC_OP_DETACH: return checked(is_same(t, x, 0));
    case TC_OP_TO: return checked(is_same(t, x, 0) && x->n_attr == 1 && x->attr[0] == (uint64_t)x->dev);
    case TC_OP_ASSIGN: return checked(is_same(t, x, 0) && is_same(t, x, 1));
    case TC_OP_MATMUL: return checked(product_fits(t, x) && x->n_attr == 0);
    case TC_OP_CONV:
    case TC_OP_CONV_INPUT:
    case TC_OP_CONV_WEIGHT: return checked(conv_fits(t, x));
    case TC_OP_CONV_DIRECT:
    case TC_OP_CONV_CALL:
    case TC_OP_WINOGRAD:
    case TC_OP_WINOGRAD_WEIGHT:
    case TC_OP_WINOGRAD_WGRAD: return REFUSED;
    default: return MADE;
  }
}

tc_node tc_text_record(tc_trace *t, const tc_text_node *x, uint32_t shape) {
  tc_node before = t->n_node, n = TC_NODE_ERR;
  bool here = true;
  switch (way_of(t, x)) {
    case REFUSED: return tc_rec_fail(t, TC_ERR_ARG, "%%%u: no program records %s", before, tc_op_names[x->op]);
    case CHECKED:
      for (int i = 0; i < x->n_in && x->op != TC_OP_TO; i++) here = here && t->dev[x->in[i]] == (uint8_t)x->dev;
      if (here)
        return tc_trace_append(t, x->op, x->type, shape, x->n_in, x->in, x->n_attr, x->attr, x->n_arg, x->arg, x->dev);
      break;
    case MADE:
      n = made(t, x);
      if (t->op_status != TC_OK) return TC_NODE_ERR;
      if (n == before && t->n_node == before + 1 && is_as_said(t, n, x, shape)) return n;
      break;
    case UNFIT: break;
  }
  return tc_rec_fail(t, TC_ERR_ARG, "%%%u = %s does not fit its operands", before, tc_op_names[x->op]);
}
