// Running random programs: fused, op by op, on the reference, and as a compiled function. See
// parts.h.
#include <tc/compile.h>

#include "tests/random/parts.h"

void rg_run_fini(rg_run *r) {
  for (int k = 0; k < r->n; k++) free(r->seen[k].data);
}

double rg_leaf_value(const rg_program *p, const rg_instr *s, int64_t i) {
  rg_dice d = {(uint64_t)s->p * 7919 + (uint64_t)i * 104729};
  rg_roll(&d, 2);
  if (p->smooth && near_is_float(s->type)) return (double)rg_roll(&d, 1 << 24) * 0x1p-22 - 2;
  int32_t q = (int32_t)rg_roll(&d, 25) - 12;
  if (near_is_float(s->type)) return q * 0.25;
  return s->type == TC_U8 ? q & 3 : s->type == TC_BOOL ? q > 0 : q / 4;
}

static void *leaf_data(const rg_program *p, const rg_instr *s, rg_run *r) {
  int64_t n = near_count(s->dims);
  void *data = calloc((size_t)n + 1, tc_type_bytes(s->type));
  for (int64_t i = 0; i < n; i++) {
    double v = rg_leaf_value(p, s, i);
    if (s->op == RG_PARAM && r->nudge) v += r->by * r->nudge[r->n_nudged++ % 64];
    near_set(s->type, data, i, v);
  }
  return data;
}

static void note(rg_run *r, int instr, char kind, tc_tensor t) {
  if (r->status != TC_OK) return;
  rg_seen *s = &r->seen[r->n++];
  s->instr = instr, s->kind = kind, s->type = tc_dtype(t), s->dims = tc_shape(t);
  size_t bytes = tc_is_valid(t) ? (size_t)near_count(s->dims) * tc_type_bytes(s->type) : 0;
  s->data = calloc(bytes + 1, 1);
  r->status = tc_to_host(t, s->data, bytes);
}

static void dims_fill(int64_t *dim, int rank, int64_t v) {
  for (int k = 0; k < rank; k++) dim[k] = v;
}

// Handles of a program as it runs, and its open scopes.
typedef struct handles {
  tc_tensor h[RG_MAX_INSTRS];
  tc_scope scopes[RG_MAX_INSTRS];
  int depth;
} handles;

static void step_leaf(const rg_program *p, int i, handles *x, rg_run *r) {
  const rg_instr *s = &p->instr[i];
  void *data = leaf_data(p, s, r);
  x->h[i] = tc_from_host(data, s->dims, s->type);
  free(data);
  if (s->op == RG_PARAM) x->h[i] = tc_param(x->h[i]);
}

static tc_status assign_slice(const rg_instr *s, const tc_dims *d, int axis, tc_tensor a, tc_tensor b) {
  int64_t start[TC_MAX_RANK], stop[TC_MAX_RANK], step_of[TC_MAX_RANK];
  dims_fill(start, d->rank, 0), dims_fill(step_of, d->rank, 1);
  memcpy(stop, d->dim, sizeof stop);
  rg_slice_of(d->dim[axis], s->p / 8, s->q, &start[axis], &stop[axis], &step_of[axis]);
  return tc_assign_slice(a, start, stop, step_of, b);
}

// A handle of an outer scope is kept by that scope already.
static void end_scope(const rg_program *p, int handle, int i, handles *x) {
  for (int k = i; k >= 0; k--)
    if (p->instr[k].op == RG_SCOPE_BEGIN) {
      if (handle > k) tc_keep(x->h[p->instr[i].a]);
      break;
    }
  tc_scope_end(x->scopes[--x->depth]);
}

static void go_backward(tc_tensor a, rg_run *r) {
  tc_tensor loss = tc_sum(a, TC_ALL, false);
  if (r->status != TC_OK) return;
  r->status = r->no_backward ? tc_item_at(tc_cast(loss, TC_F64), TC_F64, &r->loss, TC_HERE) : tc_backward(loss);
}

static tc_tensor pad_axis(tc_tensor a, const rg_fact *fa, int axis) {
  tc_dims low = tc_dims_of(0, NULL), high;
  low.rank = fa->dims.rank, high = low;
  low.dim[axis] = 1, high.dim[axis] = 2;
  return tc_pad(a, low, high, fa->type == TC_BOOL ? 1 : 2);
}

// The result of what moves elements.
static tc_tensor move_elements(const rg_instr *s, const rg_fact *fa, const tc_dims *to, tc_tensor a, tc_tensor b) {
  const tc_dims *d = &fa->dims;
  int axis = d->rank > 0 ? s->p % d->rank : 0;
  int64_t size, start, stop, step_of, n = d->rank > 0 ? d->dim[axis] : 1;
  switch (s->op) {
    case RG_TRANSPOSE: return tc_transpose(a, axis, s->q % d->rank);
    case RG_SLICE:
      rg_slice_of(n, s->p / 8, s->q, &start, &stop, &step_of);
      return tc_slice(a, axis, start, stop, step_of);
    case RG_FLIP: return tc_flip(a, tc_dims_of(1, (const int64_t[]){axis}));
    case RG_UNFOLD: return tc_unfold(a, axis, rg_window_of(n, s->p), 1 + s->q % 3);
    case RG_FLATTEN: return tc_reshape(a, TC_SHAPE(-1));
    case RG_EXPAND: return tc_expand(a, *to);
    case RG_PAD: return pad_axis(a, fa, axis);
    case RG_CAT: return tc_cat(2, (const tc_tensor[]){a, b}, axis);
    case RG_SORT: return tc_sort(a, s->q % d->rank, s->p % 2);
    case RG_MAX_POOL: {
      tc_pool_options o = rg_pool_of(d->dim[d->rank - 1], s->p, s->q, &size, &stop);
      return tc_max_pool1d(a, tc_dims_of(1, &size), o);
    }
    default: {  // RG_INDEX
      int64_t index[3] = {s->q % n, n - 1, -1 - s->q / 64 % n};
      return tc_index_select(a, axis, tc_from_host(index, TC_SHAPE(3), TC_I64));
    }
  }
}

static void step(const rg_program *p, const rg_plan *pl, int i, handles *x, rg_run *r) {
  const rg_instr *s = &p->instr[i];
  const rg_fact *fa = &pl->f[s->a];
  tc_tensor *h = x->h, a = h[s->a], b = h[s->b];
  tc_status st;
  switch (s->op) {
    case RG_LEAF:
    case RG_PARAM: step_leaf(p, i, x, r); break;
    case RG_UNARY: h[i] = rg_unary(s->p)->fn(a); break;
    case RG_BINARY: h[i] = rg_binary(s->p % RG_N_BINARY, a, b); break;
    case RG_NUM: h[i] = s->q % 2 ? tc_mul(a, 2) : tc_add(a, s->p % 3); break;
    case RG_COMPARE: h[i] = rg_compare(s->p % RG_N_COMPARE, a, b); break;
    case RG_WHERE: h[i] = tc_where(a, b, h[s->c]); break;
    case RG_CAST: h[i] = tc_cast(a, s->type); break;
    case RG_TRANSPOSE:
    case RG_SLICE:
    case RG_FLIP:
    case RG_UNFOLD:
    case RG_FLATTEN:
    case RG_EXPAND:
    case RG_PAD:
    case RG_CAT:
    case RG_SORT:
    case RG_MAX_POOL:
    case RG_INDEX: h[i] = move_elements(s, fa, &pl->f[i].dims, a, b); break;
    case RG_FOLD: h[i] = rg_fold(s->p % RG_N_FOLD, a, s->q % fa->dims.rank, s->q & 8); break;
    case RG_ARGMAX: h[i] = tc_argmax(a, s->q % fa->dims.rank, true); break;
    case RG_CUMSUM: h[i] = tc_cumsum(a, s->q % fa->dims.rank); break;
    case RG_SOFTMAX: h[i] = tc_softmax(a, s->q % fa->dims.rank); break;
    case RG_MATMUL: h[i] = rg_matmul(s->q, a, b); break;
    case RG_ASSIGN_SLICE:
      st = assign_slice(s, &fa->dims, s->p % fa->dims.rank, a, b);
      if (r->status == TC_OK) r->status = st;
      h[i] = a;
      break;
    case RG_READ: note(r, i, 'r', a); break;
    case RG_SCOPE_BEGIN: x->scopes[x->depth++] = tc_scope_begin(); break;
    case RG_SCOPE_END: end_scope(p, fa->handle, i, x); break;
    case RG_BACKWARD: go_backward(a, r); break;
    default: break;
  }
}

void rg_run_program(const rg_program *p, const rg_plan *pl, rg_mode m, rg_run *r) {
  handles x = {.depth = 0};
  tc_tensor *h = x.h;
  r->status = tc_set_default_device(m == RG_REFERENCE ? "tc:ref" : near_device());
  tc_clear_error();
  tc_seed(1);
  tc_scope outer = tc_scope_begin();
  for (int i = 0; i < p->n; i++) {
    step(p, pl, i, &x, r);
    if (m == RG_OP_BY_OP && pl->f[i].value && r->status == TC_OK) r->status = tc_eval(1, &h[i]);
    if (p->instr[i].op == RG_BACKWARD && r->no_backward) break;
  }
  for (int i = 0; i < p->n && !r->no_backward; i++) {
    const rg_fact *f = &pl->f[i];
    bool last = i >= p->n - 3;
    if (f->value && f->alive && f->handle == i && (last || (p->instr[i].p + i) % 5 < 2)) note(r, i, 'v', h[i]);
    if (p->instr[i].op == RG_PARAM && pl->backward) {
      tc_tensor g = tc_grad(h[i]);
      if (tc_is_valid(g)) note(r, i, 'g', g);
    }
  }
  snprintf(r->message, sizeof r->message, "%s: %s", tc_status_text(r->status), tc_last_error()->message);
  while (x.depth) tc_scope_end(x.scopes[--x.depth]);
  tc_scope_end(outer);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM) tc_release(h[i]);
}

// ---- As a compiled function: leaves are its arguments, parameters and indices are found by it,
// and what is read on the way is a result ----

typedef struct body {
  const rg_program *p;
  const rg_plan *pl;
  tc_tensor h[RG_MAX_INSTRS];  // parameters, and the index of each RG_INDEX
  int n_in, n_out;
  rg_run *r;
} body;

static bool is_shown(const body *b, int i) {
  const rg_fact *f = &b->pl->f[i];
  return f->value && f->alive && f->handle == i && (i >= b->p->n - 3 || (b->p->instr[i].p + i) % 5 < 2);
}

static tc_status run_body(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const body *b = user;
  handles x = {.depth = 0};
  tc_tensor *h = x.h;
  int n = 0;
  for (int i = 0; i < b->p->n; i++) {
    const rg_instr *s = &b->p->instr[i];
    const tc_dims d = b->pl->f[s->a].dims;
    switch (s->op) {
      case RG_LEAF: h[i] = *in++; break;
      case RG_PARAM: h[i] = b->h[i]; break;
      case RG_INDEX: h[i] = tc_index_select(h[s->a], d.rank > 0 ? s->p % d.rank : 0, b->h[i]); break;
      case RG_READ: out[n++] = tc_reshape(h[s->a], tc_shape(h[s->a])); break;
      case RG_SCOPE_END:
        for (int k = 0; k < n; k++) tc_keep(out[k]);
        step(b->p, b->pl, i, &x, b->r);
        break;
      default: step(b->p, b->pl, i, &x, b->r);
    }
  }
  for (int i = 0; i < b->p->n; i++)
    if (is_shown(b, i)) out[n++] = h[i];
  (void)n_in, (void)n_out;
  return b->r->status;
}

static void make_operands(body *b, tc_tensor *in) {
  b->n_in = b->n_out = 0;
  for (int i = 0; i < b->p->n; i++) {
    const rg_instr *s = &b->p->instr[i];
    const tc_dims d = b->pl->f[s->a].dims;
    void *data = s->op == RG_LEAF || s->op == RG_PARAM ? leaf_data(b->p, s, b->r) : NULL;
    if (s->op == RG_LEAF) in[b->n_in++] = tc_from_host(data, s->dims, s->type);
    if (s->op == RG_PARAM && !tc_is_valid(b->h[i])) b->h[i] = tc_param(tc_from_host(data, s->dims, s->type));
    if (s->op == RG_INDEX && !tc_is_valid(b->h[i])) {
      int64_t n = d.dim[d.rank > 0 ? s->p % d.rank : 0], index[3] = {s->q % n, n - 1, -1 - s->q / 64 % n};
      b->h[i] = tc_from_host(index, TC_SHAPE(3), TC_I64);
    }
    free(data);
    b->n_out += (s->op == RG_READ) + is_shown(b, i);
  }
}

// One call; what it shows is in r.
static void run_call(body *b, tc_compiled *c, rg_run *r) {
  tc_tensor in[RG_MAX_INSTRS], out[2 * RG_MAX_INSTRS];
  int n = 0;
  b->r = r;
  make_operands(b, in);
  tc_seed(1);
  if (r->status == TC_OK) r->status = tc_compiled_call(c, in, b->n_in, out, b->n_out);
  for (int i = 0; i < b->p->n; i++)
    if (b->p->instr[i].op == RG_READ) note(r, i, 'r', out[n++]);
  for (int i = 0; i < b->p->n; i++) {
    if (is_shown(b, i)) note(r, i, 'v', out[n++]);
    tc_tensor g = b->p->instr[i].op == RG_PARAM && b->pl->backward ? tc_grad(b->h[i]) : (tc_tensor){0, 0};
    if (tc_is_valid(g)) note(r, i, 'g', g);
  }
  snprintf(r->message, sizeof r->message, "%s: %s", tc_status_text(r->status), tc_last_error()->message);
}

void rg_run_compiled(const rg_program *p, const rg_plan *pl, rg_run *first, rg_run *second, bool *twice) {
  body b = {.p = p, .pl = pl};
  *twice = true;
  for (int i = 0; i < p->n; i++) *twice &= p->instr[i].op != RG_ASSIGN_SLICE;
  first->status = tc_set_default_device(near_device());
  tc_clear_error();
  tc_scope outer = tc_scope_begin();
  tc_compiled *c = tc_compile(run_body, &b, &(tc_compile_options){.name = "random", .fullgraph = true});
  run_call(&b, c, first);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM && first->status == TC_OK) first->status = tc_zero_grad_of(1, &b.h[i]);
  if (*twice) run_call(&b, c, second);
  if (*twice && second->status == TC_OK && tc_compiled_stats(c).n_taken != 1)
    second->status = TC_ERR_STATE, snprintf(second->message, sizeof second->message, "the second call took no graph");
  tc_compiled_destroy(c);
  tc_scope_end(outer);
  for (int i = 0; i < p->n; i++)
    if (p->instr[i].op == RG_PARAM) tc_release(b.h[i]);
}
