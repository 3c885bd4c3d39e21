// Bodies of control flow in a text. See text.h.
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
