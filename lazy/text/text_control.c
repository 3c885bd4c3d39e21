// Control flow in a text: its bodies, and records that run them. See text.h.
//
// A body is recorded into the trace and taken out again, as tc_scan does with the user's
// (lazy/record/outline.h). So each of its lines is held against its operands.
#include "lazy/record/outline.h"
#include "lazy/text/text.h"

#define MOST_INPUTS 512

// How many inputs there are: leaves, at the beginning.
static uint32_t count_inputs(const tc_text_body *b) {
  uint32_t n = 0;
  while (n < b->n && b->node[n].op == TC_OP_LEAF) n++;
  return n;
}

// Records a body's lines behind its inputs. Numbers of the text are the trace's less `first`.
static bool record_lines(tc_trace *t, const tc_text_body *b, uint32_t n_in, tc_node first) {
  for (uint32_t n = n_in; n < b->n; n++) {
    tc_text_node k = b->node[n];
    uint32_t in[MOST_INPUTS], shape = tc_dims_intern(&k.dims);
    tc_text_name_call(t, &k, n);
    if (k.op == TC_OP_LEAF) return tc_rec_fail(t, TC_ERR_ARG, "%%%u: the inputs of a body stand first", n), false;
    if (shape == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"), false;
    for (int i = 0; i < k.n_in; i++) in[i] = k.in[i] + first;
    k.in = in;
    if (tc_text_record(t, &k, shape) == TC_NODE_ERR) return false;
  }
  return true;
}

bool tc_text_record_body(tc_trace *t, const tc_text_body *b) {
  tc_type type[MOST_INPUTS];
  uint32_t shape[MOST_INPUTS], n_in = count_inputs(b);
  tc_node out[MOST_INPUTS];
  tc_outline o;
  tc_extract extract = {.arg = NULL};
  if (n_in > MOST_INPUTS || b->n == 0)
    return tc_rec_fail(t, TC_ERR_ARG, "body %016llx has %u inputs", (unsigned long long)b->id, n_in), false;
  for (uint32_t i = 0; i < n_in; i++) {
    type[i] = b->node[i].type, shape[i] = tc_dims_intern(&b->node[i].dims);
    if (shape[i] == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"), false;
  }
  tc_outline_init(&o, t, b->node[0].dev, n_in, type, shape);
  bool ok = tc_outline_begin(&o, false) && record_lines(t, b, n_in, o.first);
  for (uint32_t i = 0; i < b->n_out; i++) out[i] = b->out[i] + o.first;
  ok = tc_outline_end(&o, b->n_out, ok ? out : NULL, &extract);
  tc_outline_close(&o);
  extract.body.n_draw = (uint64_t)b->n_draw;
  const tc_body *made = ok ? tc_outline_finish(&o, &extract) : NULL;
  tc_extract_fini(&extract);
  tc_outline_fini(&o);
  if (made && made->id != b->id)
    tc_rec_fail(t, TC_ERR_ARG, "body %016llx is another, %016llx: it was changed", (unsigned long long)b->id,
                (unsigned long long)made->id);
  return made && made->id == b->id;
}

// ---- records that run bodies ----

static bool is_one_bool(tc_type type, const tc_dims *d) {
  return type == TC_BOOL && tc_dims_count(d) == 1;
}

// Whether operand k is input i of the body, or of a scan all slices of it.
static bool is_input(const tc_trace *t, const tc_text_node *x, const tc_control_facts *f, uint32_t i) {
  tc_node n = x->in[f->first_in + i];
  const tc_rec *r = tc_body_rec(f->body[0], i), *own = tc_rec_of(t, n);
  bool slices = i >= f->n_carry && i < f->n_carry + f->n_scanned;
  if (own->dtype != r->dtype) return false;
  if (!slices) return own->shape == r->shape;
  const tc_dims *d = &tc_dims_at(r->shape)->d, *all = tc_node_dims(t, n);
  bool same = all->rank == d->rank + 1 && all->dim[0] == f->n_step;
  for (int k = 0; k < d->rank && same; k++) same = all->dim[k + 1] == d->dim[k];
  return same;
}

static bool is_same_value(const tc_rec *a, const tc_rec *b) {
  return a->dtype == b->dtype && a->shape == b->shape;
}

// Whether bodies give what they are given, and each other.
static bool bodies_fit(const tc_control_facts *f) {
  const tc_body *last = f->body[f->n_body - 1], *first = f->body[0];
  for (uint32_t i = 0; i < f->n_carry; i++)
    if (!is_same_value(tc_body_rec(last, last->out[i]), tc_body_rec(last, i))) return false;
  for (uint32_t i = 0; i < last->n_out && f->kind == TC_CONTROL_COND; i++)
    if (!is_same_value(tc_body_rec(last, last->out[i]), tc_body_rec(first, first->out[i]))) return false;
  if (f->kind != TC_CONTROL_WHILE) return true;
  const tc_rec *test = tc_body_rec(first, first->out[0]);
  return is_one_bool((tc_type)test->dtype, &tc_dims_at(test->shape)->d);
}

static bool control_fits(const tc_trace *t, const tc_text_node *x) {
  tc_control_facts f;
  tc_control_result result[MOST_INPUTS];
  uint64_t bytes, n_arg = 0;
  if (!tc_control_facts_of(x->attr, x->n_attr, &f) || tc_control_n_results(&f) > MOST_INPUTS) return false;
  if (x->n_in != (int)(f.first_in + f.body[0]->n_in) || !bodies_fit(&f)) return false;
  for (uint32_t i = 0; i < f.n_body; i++) {
    n_arg += f.body[i]->n_arg;
    for (uint32_t k = 0; k < f.body[i]->n_in; k++)
      if (!is_same_value(tc_body_rec(f.body[i], k), tc_body_rec(f.body[0], k))) return false;
  }
  if (f.first_in && !is_one_bool(tc_node_type(t, x->in[0]), tc_node_dims(t, x->in[0]))) return false;
  for (uint32_t i = 0; i < f.body[0]->n_in; i++)
    if (!is_input(t, x, &f, i)) return false;
  return tc_control_layout(&f, result, &bytes) && x->type == TC_U8 && x->dims.rank == 1 &&
         x->dims.dim[0] == (int64_t)bytes && x->n_arg == (int)n_arg;
}

bool tc_text_control_fits(const tc_trace *t, const tc_text_node *x) {
  if (x->op == TC_OP_CONTROL) return control_fits(t, x);
  uint64_t bytes = (uint64_t)tc_dims_count(&x->dims) * tc_type_bytes(x->type), whole;
  if (x->n_attr != 2 || x->n_arg || tc_node_type(t, x->in[0]) != TC_U8) return false;
  whole = (uint64_t)tc_dims_count(tc_node_dims(t, x->in[0]));
  return x->attr[1] < 3 * 256 && x->attr[0] <= whole && bytes <= whole - x->attr[0] &&
         x->attr[0] % TC_CONTROL_ALIGNED == 0;
}
