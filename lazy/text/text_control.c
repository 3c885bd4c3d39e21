// Records of control flow, held against their operands and bodies. See text.h.
#include "lazy/record/outline.h"
#include "lazy/text/text.h"

#define MOST_RESULTS 512

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
  tc_control_result result[MOST_RESULTS];
  uint64_t bytes, n_arg = 0;
  if (!tc_control_facts_of(x->attr, x->n_attr, &f) || tc_control_n_results(&f) > MOST_RESULTS) return false;
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
