// tc_export: checks what is declared, records the function for each combination of sizes, lowers it
// for each target, and writes the file. See tc/program.h.
//
// Invariants: all is recorded before anything is lowered, so the weights of the function come
// first in the file.
// Threads: of the calling thread. Owns nothing afterwards.
#include <tc/program.h>

#include <string.h>

#include "lazy/record/value.h"
#include "lowering/export/lower.h"
#include "lowering/jit/compiler.h"
#include "lowering/target/host_cpu.h"
#include "runtime/arena.h"
#include "runtime/edits.h"
#include "runtime/reentry.h"

#define OP "export"
#define MOST_WEIGHTS_NAMED (1 << 20)

typedef struct exporter {
  tc_recording what;
  const tc_export_options *options;
  tc_export_target target[TC_MOST_TARGETS];
  int n_targets, n_combinations;
  char (*made_name)[16];  // of outputs that the caller names not
  const char **output_name;
  tc_buffer **named;  // per named weight; retained
  tc_recorded *recorded;  // per combination
  uint32_t **weight;  // per combination and leaf: its number in the file
  tc_buffer **of_weight;  // per weight of the file; borrowed from recorded
  uint32_t n_weights, cap_weights;
  tc_tcx_writer w;
  tc_stored_constants *kept;
} exporter;

static tc_site site_of(const exporter *e) {
  return e->what.site;
}

static tc_status no_room(const exporter *e) {
  return tc_fail(TC_ERR_MEMORY, OP, site_of(e), "no room");
}

// ---- what is declared ----

static tc_status check_name(const exporter *e, const char *kind, const char *name) {
  if (!name || !*name) return tc_fail(TC_ERR_ARG, OP, site_of(e), "%s has no name", kind);
  if (strlen(name) >= TC_EDITS_BYTES)
    return tc_fail(TC_ERR_ARG, OP, site_of(e), "%s '%.20s..' has a name of more than %d bytes", kind, name,
                   TC_EDITS_BYTES - 1);
  return TC_OK;
}

static const tc_export_size *size_named(const exporter *e, const char *name) {
  for (int i = 0; i < e->options->n_sizes; i++)
    if (strcmp(e->options->sizes[i].name, name) == 0) return &e->options->sizes[i];
  return NULL;
}

static tc_status check_input(const exporter *e, int i) {
  const tc_export_input *x = &e->what.input[i];
  TC_TRY(check_name(e, "an input", x->name));
  for (int k = 0; k < i; k++)
    if (strcmp(e->what.input[k].name, x->name) == 0)
      return tc_fail(TC_ERR_ARG, OP, site_of(e), "two inputs are called '%s'", x->name);
  tc_dims d = tc_shape_at(x->example, site_of(e));
  if (d.rank < 0) return tc_invalid(x->example, OP, site_of(e), "the example of input '%s' is no live tensor", x->name);
  if (strncmp(tc_device_of_at(x->example, site_of(e)), "tc:cpu", 6) != 0)
    return tc_fail(TC_ERR_DEVICE, OP, site_of(e), "the example of input '%s' is on %s; a program is of tc:cpu", x->name,
                   tc_device_of_at(x->example, site_of(e)));
  for (int k = 0; k < TC_MAX_RANK; k++) {
    if (!x->dims[k]) continue;
    if (k >= d.rank)
      return tc_fail(TC_ERR_ARG, OP, site_of(e), "input '%s' names extent %d; its example has %d", x->name, k, d.rank);
    if (!size_named(e, x->dims[k]))
      return tc_fail(TC_ERR_ARG, OP, site_of(e), "input '%s': the options have no sizes of '%s'", x->name, x->dims[k]);
  }
  return TC_OK;
}

static tc_status check_size(exporter *e, int i) {
  const tc_export_size *s = &e->options->sizes[i];
  TC_TRY(check_name(e, "a dynamic extent", s->name));
  if (size_named(e, s->name) != s) return tc_fail(TC_ERR_ARG, OP, site_of(e), "'%s' has two lists of sizes", s->name);
  if (s->n < 1 || !s->values) return tc_fail(TC_ERR_ARG, OP, site_of(e), "'%s' has no sizes", s->name);
  for (int k = 0; k < s->n; k++) {
    if (s->values[k] < 0) return tc_fail(TC_ERR_ARG, OP, site_of(e), "'%s' has a size below 0", s->name);
    for (int j = 0; j < k; j++)
      if (s->values[j] == s->values[k])
        return tc_fail(TC_ERR_ARG, OP, site_of(e), "'%s' has the size %lld twice", s->name, (long long)s->values[k]);
  }
  e->n_combinations = s->n > TC_TCX_MOST_COMBINATIONS ? TC_TCX_MOST_COMBINATIONS + 1 : e->n_combinations * s->n;
  if (e->n_combinations > TC_TCX_MOST_COMBINATIONS)
    return tc_fail(TC_ERR_ARG, OP, site_of(e), "the sizes have more than %d combinations", TC_TCX_MOST_COMBINATIONS);
  return TC_OK;
}

static tc_status name_outputs(exporter *e) {
  const tc_export_options *o = e->options;
  int n = e->what.n_outputs;
  e->output_name = tc_calloc((size_t)n, sizeof(char *)), e->made_name = tc_calloc((size_t)n, sizeof *e->made_name);
  if (!e->output_name || !e->made_name) return no_room(e);
  for (int i = 0; i < n; i++) {
    snprintf(e->made_name[i], sizeof e->made_name[i], n == 1 ? "output" : "output%d", i);
    e->output_name[i] = o->output_names ? o->output_names[i] : e->made_name[i];
    TC_TRY(check_name(e, "an output", e->output_name[i]));
    for (int k = 0; k < i; k++)
      if (strcmp(e->output_name[k], e->output_name[i]) == 0)
        return tc_fail(TC_ERR_ARG, OP, site_of(e), "two outputs are called '%s'", e->output_name[i]);
  }
  e->what.output_name = e->output_name;
  return TC_OK;
}

static tc_status check_declared(exporter *e, const char *path) {
  const tc_export_options *o = e->options;
  bool whole = e->what.fn && path && (e->what.input || e->what.n_inputs == 0) && (o->sizes || o->n_sizes == 0) &&
               ((o->weights && o->weight_names) || o->n_weights == 0);
  if (!whole) return tc_fail(TC_ERR_ARG, OP, site_of(e), "fn, path or a list of names or sizes is NULL");
  if (e->what.n_inputs < 0 || e->what.n_outputs < 0 || o->n_sizes < 0 || o->n_weights < 0 ||
      o->n_weights > MOST_WEIGHTS_NAMED)
    return tc_fail(TC_ERR_ARG, OP, site_of(e), "a number of inputs, outputs, sizes or weights is out of range");
  for (int i = 0; i < o->n_sizes; i++) TC_TRY(check_size(e, i));
  for (int i = 0; i < e->what.n_inputs; i++) TC_TRY(check_input(e, i));
  for (int i = 0; i < o->n_weights; i++) TC_TRY(check_name(e, "a weight", o->weight_names[i]));
  TC_TRY(name_outputs(e));
  TC_TRY(tc_export_targets(o->targets, OP, site_of(e), e->target, &e->n_targets));
  if (tc_compiler_compiles()) return TC_OK;
  return tc_fail(TC_ERR_STATE, OP, site_of(e), "there is nothing to compile with: %s", tc_compiler_sentence());
}

// ---- recording ----

// The extents of inputs in combination c, of which the last dynamic extent varies fastest.
static void fill_shapes(const exporter *e, int c, tc_dims *shape) {
  int at[TC_TCX_MOST_COMBINATIONS] = {0};
  for (int i = e->options->n_sizes; i-- > 0 && i < TC_TCX_MOST_COMBINATIONS;)
    at[i] = c % e->options->sizes[i].n, c /= e->options->sizes[i].n;
  for (int i = 0; i < e->what.n_inputs; i++) {
    const tc_export_input *x = &e->what.input[i];
    shape[i] = tc_shape_at(x->example, site_of(e));
    for (int k = 0; k < shape[i].rank; k++)
      for (int s = 0; s < e->options->n_sizes && x->dims[k]; s++)
        if (strcmp(e->options->sizes[s].name, x->dims[k]) == 0) shape[i].dim[k] = e->options->sizes[s].values[at[s]];
  }
}

static tc_status find_named(exporter *e) {
  int n = e->options->n_weights;
  if (!(e->named = tc_calloc((size_t)n + 1, sizeof(tc_buffer *)))) return no_room(e);
  for (int i = 0; i < n; i++) {
    tc_stored v;
    if (!tc_enter(OP, site_of(e))) return TC_ERR_STATE;
    tc_status st = tc_value(e->options->weights[i], TC_CAUSE_SAVE, site_of(e), &v);
    if (st == TC_OK) e->named[i] = tc_buffer_retain(v.buf), tc_value_end(&v);
    tc_leave();
    TC_TRY(st);
  }
  return TC_OK;
}

static const char *name_of(const exporter *e, const tc_buffer *b, char made[16], uint32_t number) {
  for (int i = 0; i < e->options->n_weights; i++)
    if (e->named[i] == b) return e->options->weight_names[i];
  snprintf(made, 16, "weight%u", number);
  return made;
}

static tc_status add_weight(exporter *e, const tc_rec *rec, tc_buffer *b, uint32_t *out) {
  char made[16];
  const tc_dims *d = &tc_dims_at(rec->shape)->d;
  uint64_t bytes = (uint64_t)tc_dims_at(rec->shape)->count * tc_type_bytes((tc_type)rec->dtype);
  for (*out = 0; *out < e->n_weights; ++*out) {
    const tc_tcx_weight *w = (const tc_tcx_weight *)(const void *)e->w.table[TC_TCX_TABLE_weights].at + *out;
    if (e->of_weight[*out] == b && w->bytes >= bytes) return TC_OK;
  }
  if (!TC_GROW(e->of_weight, e->cap_weights, e->n_weights + 1)) return no_room(e);
  tc_tcx_weight w = {.name = tc_tcx_add_text(&e->w, name_of(e, b, made, e->n_weights)),
                     .type = rec->dtype,
                     .rank = (uint8_t)d->rank,
                     .bytes = bytes};
  for (int i = 0; i < d->rank; i++) w.dim[i] = d->dim[i];
  e->of_weight[e->n_weights++] = b;
  return tc_tcx_add_weight(&e->w, w, b->ptr) == TC_TCX_NONE ? no_room(e) : TC_OK;
}

static tc_status add_weights(exporter *e, int c) {
  const tc_recorded *r = &e->recorded[c];
  uint32_t i = 0;
  if (!(e->weight[c] = tc_calloc(r->plan->n_leaf + 1, sizeof(uint32_t)))) return no_room(e);
  for (uint32_t n = 0; n < r->plan->n_node; n++) {
    if (!tc_plan_is_leaf(r->plan, n)) continue;
    if (r->leaf[i].buf) TC_TRY(add_weight(e, tc_plan_rec(r->plan, n), r->leaf[i].buf, &e->weight[c][i]));
    i++;
  }
  return TC_OK;
}

static tc_status check_results(const exporter *e, int c) {
  for (int i = 0; i < e->what.n_outputs; i++) {
    const tc_recorded_result *a = &e->recorded[0].result[i], *b = &e->recorded[c].result[i];
    if (a->type != b->type || a->shape.rank != b->shape.rank)
      return tc_fail(TC_ERR_ARG, OP, site_of(e),
                     "output '%s' has another type or rank at other sizes: its type and rank must not depend on them",
                     e->output_name[i]);
  }
  return TC_OK;
}

static tc_status record_all(exporter *e) {
  size_t n = (size_t)e->n_combinations;
  tc_dims *shape = tc_malloc(((size_t)e->what.n_inputs + 1) * sizeof *shape);
  e->recorded = tc_calloc(n, sizeof *e->recorded), e->weight = tc_calloc(n, sizeof(uint32_t *));
  tc_status st = shape && e->recorded && e->weight ? TC_OK : no_room(e);
  e->what.shape = shape;
  for (int c = 0; c < e->n_combinations && st == TC_OK; c++) {
    fill_shapes(e, c, shape);
    st = tc_recorded_make(&e->what, &e->recorded[c]);
    if (st == TC_OK) st = check_results(e, c);
    if (st == TC_OK) st = add_weights(e, c);
    tc_tcx_combination dims = {{e->w.table[TC_TCX_TABLE_extents].n / (uint32_t)sizeof(int64_t), 0}};
    for (int i = 0; i < e->what.n_inputs && st == TC_OK; i++)
      (void)TC_TCX_ADD(&e->w, extents, shape[i].dim, shape[i].rank), dims.dims.n += (uint32_t)shape[i].rank;
    for (int i = 0; i < e->what.n_outputs && st == TC_OK; i++) {
      const tc_dims *d = &e->recorded[c].result[i].shape;
      (void)TC_TCX_ADD(&e->w, extents, d->dim, d->rank), dims.dims.n += (uint32_t)d->rank;
    }
    (void)TC_TCX_ADD(&e->w, combinations, &dims, 1);
  }
  tc_free(shape);
  e->w.n_shown = e->n_weights;
  return st;
}

// ---- tables ----

static void add_value(exporter *e, int table, const char *name, tc_type type, const tc_dims *d,
                      const char *const *dims) {
  tc_tcx_value v = {.name = tc_tcx_add_text(&e->w, name), .type = (uint8_t)type, .rank = (uint8_t)d->rank};
  for (int k = 0; k < TC_MAX_RANK; k++) {
    v.size[k] = TC_TCX_NONE;
    if (k < d->rank) v.dim[k] = d->dim[k];
    if (dims && dims[k]) v.size[k] = (uint32_t)(size_named(e, dims[k]) - e->options->sizes);
  }
  (void)tc_tcx_add(&e->w, table, &v, sizeof v, 1);
}

static void add_declared(exporter *e) {
  const tc_export_options *o = e->options;
  for (int i = 0; i < o->n_sizes; i++) {
    const tc_tcx_symbol s = {.name = tc_tcx_add_text(&e->w, o->sizes[i].name),
                             .size = TC_TCX_ADD_LIST(&e->w, extents, o->sizes[i].values, o->sizes[i].n)};
    (void)TC_TCX_ADD(&e->w, symbols, &s, 1);
  }
  for (int i = 0; i < e->what.n_inputs; i++) {
    const tc_export_input *x = &e->what.input[i];
    tc_dims d = tc_shape_at(x->example, site_of(e));
    for (int k = 0; k < d.rank; k++)
      if (x->dims[k]) d.dim[k] = size_named(e, x->dims[k])->values[0];
    add_value(e, TC_TCX_TABLE_inputs, x->name, tc_dtype_at(x->example, site_of(e)), &d, x->dims);
  }
  for (int i = 0; i < e->what.n_outputs; i++) {
    const tc_recorded_result *r = &e->recorded[0].result[i];
    add_value(e, TC_TCX_TABLE_outputs, e->output_name[i], r->type, &r->shape, NULL);
  }
}

static void add_target(exporter *e, const tc_export_target *t, bool interpreted) {
  char facts[TC_HOST_FACTS_BYTES];
  if (t->native) tc_host_facts(facts);
  const tc_tcx_target x = {.isa = tc_tcx_add_text(&e->w, t->isa->name),
                           .facts = tc_tcx_add_text(&e->w, t->native && !interpreted ? facts : NULL),
                           .interpreted = interpreted};
  (void)TC_TCX_ADD(&e->w, targets, &x, 1);
}

static tc_status lower_all(exporter *e) {
  const tc_export_options *o = e->options;
  int n = e->n_targets + o->keep_ir;
  if (!tc_enter(OP, site_of(e))) return TC_ERR_STATE;
  tc_status st = TC_OK;
  for (int t = 0; t < n; t++) add_target(e, &e->target[t % e->n_targets], t == e->n_targets);
  for (int c = 0; c < e->n_combinations && st == TC_OK; c++)
    for (int t = 0; t < n && st == TC_OK; t++) {
      tc_tcx_plan plan;
      const tc_lowering_for how = {.target = e->target[t % e->n_targets],
                                   .interpreted = t == e->n_targets,
                                   .store_constants = o->store_constants,
                                   .weight = e->weight[c]};
      st = tc_export_lower(&e->recorded[c], &how, e->what.n_outputs, &e->w, &plan, &e->kept);
      if (st == TC_OK) (void)TC_TCX_ADD(&e->w, plans, &plan, 1);
    }
  tc_leave();
  return st;
}

// ---- the whole ----

static void fini(exporter *e) {
  for (int c = 0; c < e->n_combinations; c++) {
    if (e->recorded && e->recorded[c].plan) tc_recorded_fini(&e->recorded[c]);
    if (e->weight) tc_free(e->weight[c]);
  }
  for (int i = 0; i < e->options->n_weights && e->named; i++) tc_buffer_release(e->named[i]);
  tc_free(e->recorded), tc_free(e->weight), tc_free(e->named);
  tc_free(e->of_weight), tc_free(e->output_name), tc_free(e->made_name);
  tc_stored_constants_free(e->kept);
  tc_tcx_writer_fini(&e->w);
}

tc_status tc_export_at(tc_compile_fn fn, void *user, int n_inputs, const tc_export_input *inputs,
                       const tc_export_options *options, const char *path, tc_site site) {
  static const tc_export_options none = {.n_outputs = 0};
  const tc_export_options *o = options ? options : &none;
  exporter e = {.what = {fn, user, n_inputs, o->n_outputs ? o->n_outputs : 1, inputs, NULL, NULL, site},
                .options = o,
                .n_combinations = 1};
  tc_status st = check_declared(&e, path);
  if (st == TC_OK) st = find_named(&e);
  if (st == TC_OK) st = record_all(&e);
  if (st == TC_OK) add_declared(&e);
  if (st == TC_OK) st = lower_all(&e);
  if (st == TC_OK) st = tc_tcx_write(&e.w, OP, path, site);
  fini(&e);
  return st;
}
