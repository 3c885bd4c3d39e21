// Runs a loaded program: finds inputs by name, the plan of their sizes, memory for outputs, and
// launches. See tc/program.h.
//
// Invariants: the program is only read, so threads run it side by side. What a run needs is its
// own.
// Threads: thread-safe. Owner: the run owns its lists; outputs become the caller's.
#include <string.h>

#include "lazy/record/value.h"
#include "lazy/trace/thread_trace.h"
#include "lowering/export/loaded.h"
#include "lowering/program/program.h"
#include "runtime/arena.h"
#include "runtime/edits.h"
#include "runtime/reentry.h"

// One run.
typedef struct run {
  const tc_program_file *p;
  tc_loaded_plan *l;
  uint32_t *given;  // per input of the program: its number among those given
  tc_dims *shape;  // per input
  void **input;  // per input
  tc_buffer **input_buf;  // per input; retained, or NULL
  tc_buffer **out_buf;  // per output of the plan; retained, or NULL: the caller's memory
  void **ptr;  // leaves, then outputs, of the plan
  uint64_t *arg;
  char *memory;  // of all lists
} run;

// ---- lists ----

static tc_status begin_run(run *r, const tc_program_file *p) {
  uint32_t n_in = p->x->n_inputs, n_leaf = 0, n_out = 0, n_arg = 0;
  for (uint32_t c = 0; c < p->x->n_combinations; c++) {
    const tc_plan *plan = &p->plan[c].plan;
    n_leaf = TC_MAX_OF(n_leaf, plan->n_leaf), n_out = TC_MAX_OF(n_out, plan->n_out);
    n_arg = TC_MAX_OF(n_arg, plan->n_arg);
  }
  size_t bytes = n_in * (sizeof *r->shape + sizeof(void *) * 2 + sizeof(uint64_t)) +
                 ((size_t)n_leaf + 2 * (size_t)n_out + n_arg) * sizeof(uint64_t);
  *r = (run){.p = p, .memory = tc_calloc(1, bytes + 8)};
  if (!r->memory) return TC_FAIL(TC_ERR_MEMORY, "no room for a run");
  r->shape = (tc_dims *)(void *)r->memory;
  r->input = (void **)(r->shape + n_in);
  r->input_buf = (tc_buffer **)(r->input + n_in);
  r->out_buf = r->input_buf + n_in;
  r->ptr = (void **)(r->out_buf + n_out);
  r->arg = (uint64_t *)(r->ptr + n_leaf + n_out);
  r->given = (uint32_t *)(r->arg + n_arg);
  return TC_OK;
}

static void end_run(run *r) {
  for (uint32_t i = 0; r->memory && i < r->p->x->n_inputs; i++) tc_buffer_release(r->input_buf[i]);
  for (uint32_t i = 0; r->l && i < r->l->plan.n_out; i++) tc_buffer_release(r->out_buf[i]);
  tc_free(r->memory);
}

// ---- names ----

static tc_status refuse_name(const tc_program_value *v, uint32_t n, const char *what, const char *name) {
  size_t best = SIZE_MAX, length = name ? strlen(name) : 0;
  const char *nearest = NULL;
  if (!name) return TC_FAIL(TC_ERR_ARG, "an %s has no name", what);
  for (uint32_t i = 0; i < n && length <= TC_EDITS_BYTES; i++) {
    size_t of = strlen(v[i].name), d = of <= TC_EDITS_BYTES ? tc_edits(name, length, v[i].name, of) : SIZE_MAX;
    if (d < best) best = d, nearest = v[i].name;
  }
  if (!nearest) return TC_FAIL(TC_ERR_ARG, "the program has no %s '%.64s'", what, name);
  return TC_FAIL(TC_ERR_ARG, "the program has no %s '%.64s'; the nearest is '%s'", what, name, nearest);
}

// The number of the value of that name; it is likely to be `guess`. TC_TCX_NONE: there is none.
static uint32_t find_name(const tc_program_value *v, uint32_t n, const char *name, uint32_t guess) {
  if (name && guess < n && strcmp(v[guess].name, name) == 0) return guess;
  for (uint32_t i = 0; name && i < n; i++)
    if (strcmp(v[i].name, name) == 0) return i;
  return TC_TCX_NONE;
}

// names: an array's or an input's first field, so many bytes apart.
static tc_status find_inputs(run *r, int n, const char *const *names, size_t apart) {
  const tc_program_value *v = r->p->input;
  uint32_t n_in = r->p->x->n_inputs;
  for (uint32_t i = 0; i < n_in; i++) r->given[i] = TC_TCX_NONE;
  if (n < 0 || (n > 0 && !names)) return TC_FAIL(TC_ERR_ARG, "the list of inputs is NULL");
  for (int k = 0; k < n; k++) {
    const char *name = *(const char *const *)(const void *)((const char *)names + (size_t)k * apart);
    uint32_t i = find_name(v, n_in, name, (uint32_t)k);
    if (i == TC_TCX_NONE) return refuse_name(v, n_in, "input", name);
    if (r->given[i] != TC_TCX_NONE) return TC_FAIL(TC_ERR_ARG, "input '%s' is given twice", name);
    r->given[i] = (uint32_t)k;
  }
  for (uint32_t i = 0; i < n_in; i++)
    if (r->given[i] == TC_TCX_NONE) return TC_FAIL(TC_ERR_ARG, "input '%s' is missing", v[i].name);
  return TC_OK;
}

// ---- sizes ----

static tc_status refuse_shape(const tc_program_value *v, const tc_dims *given) {
  char want[160], got[128];
  size_t at = (size_t)snprintf(want, sizeof want, "[");
  for (int k = 0; k < v->shape.rank && at < sizeof want; k++) {
    const char *comma = k ? ", " : "";
    at += (size_t)(v->dims[k] ? snprintf(want + at, sizeof want - at, "%s%.16s", comma, v->dims[k])
                              : snprintf(want + at, sizeof want - at, "%s%lld", comma, (long long)v->shape.dim[k]));
  }
  return TC_FAIL(TC_ERR_SHAPE, "input '%s' is %s; the program takes %s]", v->name, tc_dims_text(given, got, sizeof got),
                 want);
}

static tc_status refuse_size(const tc_tcx_image *x, const tc_tcx_symbol *s, const char *input, int64_t size) {
  char all[160] = "";
  for (uint32_t i = 0; i < s->size.n; i++)
    tc_text_append(all, sizeof all, "%s%lld", i ? ", " : "", (long long)x->extents[s->size.first + i]);
  return TC_FAIL(TC_ERR_SHAPE, "input '%s': %s is %lld; the file was made for %s", input, x->strings + s->name,
                 (long long)size, all);
}

// The number of the size in the extent's list, of which other inputs may have said another.
static tc_status find_size(const run *r, uint32_t symbol, const char *input, int64_t size, uint32_t *at) {
  const tc_tcx_image *x = r->p->x;
  const tc_tcx_symbol *s = &x->symbols[symbol];
  uint32_t i = 0;
  while (i < s->size.n && x->extents[s->size.first + i] != size) i++;
  if (i == s->size.n) return refuse_size(x, s, input, size);
  if (*at != TC_TCX_NONE && *at != i)
    return TC_FAIL(TC_ERR_SHAPE, "input '%s': %s is %lld, and %lld in another input", input, x->strings + s->name,
                   (long long)size, (long long)x->extents[s->size.first + *at]);
  return *at = i, TC_OK;
}

// Finds the plan of the inputs' extents.
static tc_status find_plan(run *r) {
  const tc_tcx_image *x = r->p->x;
  uint32_t at[TC_TCX_MOST_COMBINATIONS], c = 0;
  if (x->n_symbols > TC_TCX_MOST_COMBINATIONS) return TC_FAIL(TC_ERR_IO, "the file has too many dynamic extents");
  for (uint32_t s = 0; s < x->n_symbols; s++) at[s] = TC_TCX_NONE;
  for (uint32_t i = 0; i < x->n_inputs; i++) {
    const tc_program_value *v = &r->p->input[i];
    const tc_dims *d = &r->shape[i];
    if (d->rank != v->shape.rank) return refuse_shape(v, d);
    for (int k = 0; k < d->rank; k++) {
      uint32_t symbol = x->inputs[i].size[k];
      if (symbol != TC_TCX_NONE)
        TC_TRY(find_size(r, symbol, v->name, d->dim[k], &at[symbol]));
      else if (d->dim[k] != v->shape.dim[k])
        return refuse_shape(v, d);
    }
  }
  for (uint32_t s = 0; s < x->n_symbols; s++) c = c * x->symbols[s].size.n + (at[s] == TC_TCX_NONE ? 0 : at[s]);
  if (c >= x->n_combinations) return TC_FAIL(TC_ERR_IO, "the file has no plan of these sizes");
  // What the file says of its combinations is compared, since memory is taken by it.
  const int64_t *dim = r->p->plan[c].dim;
  for (uint32_t i = 0; i < x->n_inputs; i++)
    for (int k = 0; k < r->shape[i].rank; k++)
      if (*dim++ != r->shape[i].dim[k]) return TC_FAIL(TC_ERR_IO, "the file's plans are of other sizes than it says");
  r->l = &r->p->plan[c];
  return TC_OK;
}

// The extents of output i in this run.
static tc_dims output_shape(const run *r, uint32_t i) {
  const tc_tcx_image *x = r->p->x;
  const int64_t *dim = r->l->dim;
  tc_dims d = {.rank = r->p->output[i].shape.rank};
  for (uint32_t k = 0; k < x->n_inputs; k++) dim += x->inputs[k].rank;
  for (uint32_t k = 0; k < i; k++) dim += x->outputs[k].rank;
  for (int k = 0; k < d.rank; k++) d.dim[k] = dim[k];
  return d;
}

// ---- the launch ----

// Random ops draw what the function would draw in this thread.
static tc_status draw(run *r) {
  const tc_tcx_plan *f = r->l->file;
  if (f->arg.n) memcpy(r->arg, r->l->arg, f->arg.n * sizeof *r->arg);
  if (f->draw.n == 0 && f->n_draw == 0) return TC_OK;
  tc_trace *t = tc_trace_self();
  if (!t) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  tc_biased_lock_own(&t->lock);
  for (uint32_t i = 0; i < f->draw.n; i++) {
    const tc_tcx_draw *d = &r->p->x->draws[f->draw.first + i];
    r->arg[d->arg - 1] = t->seed, r->arg[d->arg] = (t->counter + d->more) | t->stream << 40;
  }
  t->counter += f->n_draw;
  tc_biased_unlock_own(&t->lock);
  return TC_OK;
}

// Takes memory for the outputs that have none yet, and runs.
static tc_status launch_run(run *r) {
  const tc_plan *plan = &r->l->plan;
  const tc_tcx_plan *f = r->l->file;
  if (TC_UNLIKELY(!atomic_load_explicit(&r->l->divided, memory_order_acquire)))
    TC_TRY(tc_loaded_plan_divide(r->p, r->l));
  for (uint32_t i = 0; i < plan->n_leaf; i++) {
    const tc_tcx_leaf *leaf = &r->p->x->leaves[f->leaf.first + i];
    r->ptr[i] = leaf->kind == TC_TCX_INPUT ? r->input[leaf->number] : r->p->weight_buf[leaf->number]->ptr;
  }
  void **out = r->ptr + plan->n_leaf;
  for (uint32_t i = 0; i < plan->n_out; i++) {
    if (out[i]) continue;
    TC_TRY(tc_buffer_create(plan->out[i].bytes, &r->out_buf[i]));
    out[i] = r->out_buf[i]->ptr;
  }
  TC_TRY(draw(r));
  return tc_program_launch(plan, r->ptr, out, r->arg, r->l->call, r->l->held, NULL);
}

// ---- tensors ----

static tc_status take_tensor(run *r, uint32_t i, tc_tensor h, tc_site site) {
  tc_stored v;
  const tc_program_value *want = &r->p->input[i];
  TC_TRY(tc_value(h, TC_CAUSE_EVAL, site, &v));
  r->input_buf[i] = v.buf, r->input[i] = v.buf->ptr;
  r->shape[i] = tc_dims_at(v.shape)->d;
  if (v.device != TC_DEVICE_CPU)
    return TC_FAIL(TC_ERR_DEVICE, "input '%s' is on %s; programs of files run on tc:cpu", want->name,
                   tc_device_name(v.device));
  if (v.type == want->type) return TC_OK;
  return TC_FAIL(TC_ERR_DTYPE, "input '%s' is %s; the program takes %s", want->name, tc_type_name(v.type),
                 tc_type_name(want->type));
}

// The memory of an output of the program; borrowed.
static tc_buffer *result_of(const run *r, uint32_t i) {
  const tc_tcx_result *f = &r->p->x->results[r->l->file->result.first + i];
  const tc_tcx_leaf *leaf = &r->p->x->leaves[r->l->file->leaf.first + f->number];
  if (!f->is_leaf) return r->out_buf[f->number];
  return leaf->kind == TC_TCX_INPUT ? r->input_buf[leaf->number] : r->p->weight_buf[leaf->number];
}

static tc_status publish(run *r, tc_tensor *outputs) {
  tc_trace *t = tc_trace_self();
  tc_status st = TC_OK;
  if (!t) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  tc_biased_lock_own(&t->lock);
  for (uint32_t i = 0; i < r->p->x->n_outputs && st == TC_OK; i++) {
    tc_dims d = output_shape(r, i);
    const tc_stored v = {result_of(r, i), tc_dims_intern(&d), r->p->output[i].type, TC_DEVICE_CPU, false, NULL};
    outputs[i] = v.shape == TC_SHAPE_NONE ? tc_poison(TC_FAIL(TC_ERR_MEMORY, "no room for a shape"))
                                          : tc_trace_handle_stored(t, &v, NULL, 0, true);
    st = tc_poison_status(outputs[i]);
  }
  tc_biased_unlock_own(&t->lock);
  return st;
}

static tc_status run_tensors(const tc_program_file *p, int n, const tc_program_input *inputs, tc_tensor *outputs,
                             tc_site site) {
  run r;
  TC_TRY(begin_run(&r, p));
  tc_status st = find_inputs(&r, n, inputs ? &inputs->name : NULL, sizeof *inputs);
  for (uint32_t i = 0; i < p->x->n_inputs && st == TC_OK; i++) st = take_tensor(&r, i, inputs[r.given[i]].value, site);
  if (st == TC_OK) st = find_plan(&r);
  if (st == TC_OK) st = launch_run(&r);
  if (st == TC_OK) st = publish(&r, outputs);
  end_run(&r);
  return st;
}

tc_status tc_program_run_at(const tc_program_file *p, int n, const tc_program_input *inputs, tc_tensor *outputs,
                            tc_site site) {
  if (!p || !outputs) return tc_fail(TC_ERR_ARG, "program_run", site, "%s is NULL", p ? "outputs" : "the program");
  if (!tc_enter("program_run", site)) return TC_ERR_STATE;
  tc_status st = run_tensors(p, n, inputs, outputs, site);
  for (uint32_t i = 0; i < p->x->n_outputs && st != TC_OK; i++) outputs[i] = tc_poison(st);
  tc_leave();
  return st;
}

// ---- memory of the caller ----

static tc_status check_array(const tc_program_array *a, tc_type type, const char *what) {
  if (a->type != type)
    return TC_FAIL(TC_ERR_DTYPE, "%s '%s' is %s; the program has %s", what, a->name, tc_type_name(a->type),
                   tc_type_name(type));
  int64_t count;
  if (a->shape.rank < 0 || a->shape.rank > TC_MAX_RANK || !tc_dims_product(&a->shape, &count))
    return TC_FAIL(TC_ERR_SHAPE, "%s '%s' has no shape", what, a->name);
  if (!a->data && count) return TC_FAIL(TC_ERR_ARG, "the data of %s '%s' is NULL", what, a->name);
  if ((uintptr_t)a->data % tc_type_bytes(type) != 0)
    return TC_FAIL(TC_ERR_ARG, "the data of %s '%s' is not aligned for its type", what, a->name);
  return TC_OK;
}

static size_t array_bytes(const tc_program_array *a) {
  int64_t count = 0;
  (void)tc_dims_product(&a->shape, &count);
  return (size_t)count * tc_type_bytes(a->type);
}

static bool overlap(const tc_program_array *a, const tc_program_array *b) {
  const char *x = a->data, *y = b->data;
  return x < y + array_bytes(b) && y < x + array_bytes(a);
}

static tc_status check_overlap(int n_in, const tc_program_array *in, int n_out, const tc_program_array *out) {
  for (int i = 0; i < n_out; i++) {
    for (int k = 0; k < n_in; k++)
      if (overlap(&out[i], &in[k]))
        return TC_FAIL(TC_ERR_ARG, "output '%s' overlaps input '%s'", out[i].name, in[k].name);
    for (int k = 0; k < i; k++)
      if (overlap(&out[i], &out[k]))
        return TC_FAIL(TC_ERR_ARG, "outputs '%s' and '%s' overlap", out[k].name, out[i].name);
  }
  return TC_OK;
}

// The outputs' numbers in the program; one of the plan's memory is the array's where it is the
// first to have it.
static tc_status bind_outputs(run *r, int n, const tc_program_array *out, uint32_t *number) {
  const tc_tcx_image *x = r->p->x;
  char want[128], got[128];
  for (int k = 0; k < n; k++) {
    uint32_t i = number[k] = find_name(r->p->output, x->n_outputs, out[k].name, (uint32_t)k);
    if (i == TC_TCX_NONE) return refuse_name(r->p->output, x->n_outputs, "output", out[k].name);
    TC_TRY(check_array(&out[k], r->p->output[i].type, "output"));
    tc_dims d = output_shape(r, i);
    if (!tc_dims_equal(&d, &out[k].shape))
      return TC_FAIL(TC_ERR_SHAPE, "output '%s' is %s; the program gives %s", out[k].name,
                     tc_dims_text(&out[k].shape, got, sizeof got), tc_dims_text(&d, want, sizeof want));
    const tc_tcx_result *f = &x->results[r->l->file->result.first + i];
    void **at = r->ptr + r->l->plan.n_leaf + f->number;
    if (!f->is_leaf && !*at) *at = out[k].data;
  }
  return TC_OK;
}

static void copy_outputs(const run *r, int n, const tc_program_array *out, const uint32_t *number) {
  for (int k = 0; k < n; k++) {
    const tc_tcx_result *f = &r->p->x->results[r->l->file->result.first + number[k]];
    const void *at = r->ptr[(f->is_leaf ? 0 : r->l->plan.n_leaf) + f->number];
    if (at != out[k].data && array_bytes(&out[k])) memcpy(out[k].data, at, array_bytes(&out[k]));
  }
}

static tc_status run_arrays(const tc_program_file *p, int n_in, const tc_program_array *in, int n_out,
                            const tc_program_array *out) {
  run r;
  if (n_out < 0 || (n_out > 0 && !out)) return TC_FAIL(TC_ERR_ARG, "the list of outputs is NULL");
  uint32_t *number = tc_malloc(((size_t)n_out + 1) * sizeof *number);
  tc_status st = number ? begin_run(&r, p) : TC_FAIL(TC_ERR_MEMORY, "no room for a run");
  if (st != TC_OK) return tc_free(number), st;
  st = find_inputs(&r, n_in, in ? &in->name : NULL, sizeof *in);
  for (uint32_t i = 0; i < p->x->n_inputs && st == TC_OK; i++) {
    const tc_program_array *a = &in[r.given[i]];
    st = check_array(a, p->input[i].type, "input");
    r.shape[i] = a->shape, r.input[i] = a->data;
  }
  if (st == TC_OK) st = find_plan(&r);
  if (st == TC_OK) st = bind_outputs(&r, n_out, out, number);
  if (st == TC_OK) st = check_overlap(n_in, in, n_out, out);
  if (st == TC_OK) st = launch_run(&r);
  if (st == TC_OK) copy_outputs(&r, n_out, out, number);
  end_run(&r);
  tc_free(number);
  return st;
}

tc_status tc_program_run_arrays_at(const tc_program_file *p, int n_inputs, const tc_program_array *inputs,
                                   int n_outputs, const tc_program_array *outputs, tc_site site) {
  if (!p) return tc_fail(TC_ERR_ARG, "program_run_arrays", site, "the program is NULL");
  if (!tc_enter("program_run_arrays", site)) return TC_ERR_STATE;
  tc_status st = run_arrays(p, n_inputs, inputs, n_outputs, outputs);
  tc_leave();
  return st;
}
