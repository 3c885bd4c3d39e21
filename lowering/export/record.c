// Runs the function over placeholders, closes the pending trace without running it, and takes a
// plan of it. See record.h.
#include "lowering/export/record.h"

#include <string.h>

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/record/value.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/publish.h"
#include "lazy/sync/open_ends.h"
#include "lazy/trace/body.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "lazy/trace/thread_trace.h"
#include "runtime/arena.h"
#include "runtime/reentry.h"
#include "runtime/sync_watch.h"

#define OP "export"
// Of a random counter's word; the stream's number is above.
#define TC_COUNTER_MASK ((UINT64_C(1) << 40) - 1)

// One recording at work.
typedef struct recorder {
  const tc_recording *what;
  tc_tensor *in, *out;
  tc_buffer **placeholder;  // per input; retained
  uint64_t seed, counter, stream;
  uint64_t epoch;  // of the trace when fn began
  tc_capture capture;  // what fn assigns
} recorder;

void tc_recorded_fini(tc_recorded *r) {
  for (uint32_t i = 0; r->leaf && i < r->plan->n_leaf; i++) tc_buffer_release(r->leaf[i].buf);
  tc_plan_release(r->plan);
  void *const owned[] = {r->leaf, r->result, r->arg, r->draw, r->call};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  *r = (tc_recorded){.plan = NULL};
}

static tc_status no_room(const recorder *r) {
  return tc_fail(TC_ERR_MEMORY, OP, r->what->site, "no room for a recording");
}

// ---- before ----

// A stored value of zeros, which the function sees as input i.
static tc_status make_placeholder(recorder *r, int i) {
  const tc_dims *shape = &r->what->shape[i];
  tc_type type = tc_dtype_at(r->what->input[i].example, r->what->site);
  tc_trace *t = tc_op_begin_sync(OP, r->what->site);
  if (t->op_status != TC_OK) return tc_op_done(t);
  int64_t n = 1;
  for (int k = 0; k < shape->rank; k++) n *= shape->dim[k];
  size_t bytes = (size_t)n * tc_type_bytes(type);
  uint32_t id = tc_dims_intern(shape);
  tc_status st =
      id == TC_SHAPE_NONE ? TC_FAIL(TC_ERR_MEMORY, "no room for a shape") : tc_buffer_create(bytes, &r->placeholder[i]);
  if (st == TC_OK) st = tc_buffer_clear(r->placeholder[i], bytes);
  if (st == TC_OK) {
    const tc_stored v = {r->placeholder[i], id, type, TC_DEVICE_CPU, false, NULL};
    r->in[i] = tc_trace_handle_stored(t, &v, NULL, 0, true);
    st = tc_poison_status(r->in[i]);
  }
  if (st != TC_OK) t->op_status = st;
  return tc_op_done(t);
}

// ---- after ----

static tc_status fail_assign(const recorder *r, tc_call by) {
  char place[160];
  tc_site_text(by.site, place, sizeof place);
  return tc_fail(TC_ERR_STATE, OP, r->what->site,
                 "fn leaves a value behind (%s at %s): return the new value as an output instead of assigning it. A "
                 "program's results are its outputs",
                 by.op, place[0] ? place : "an unknown place");
}

static bool is_same(tc_tensor a, tc_tensor b) {
  return a.slot == b.slot && a.gen == b.gen;
}

// Whether fn made the tensor. Gradients are told apart from it.
static bool is_made(const recorder *r, const tc_trace *t, tc_scope scope, tc_tensor h) {
  bool made = tc_slot_of(h.slot)->gen != h.gen;  // and ended
  for (uint32_t i = t->mark[scope.depth - 1]; i < t->n_pool && !made; i++) made = is_same(t->pool[i], h);
  for (int i = 0; i < r->what->n_inputs && made; i++) made = !is_same(r->in[i], h);
  for (uint32_t i = 0; i < r->capture.n_graded && !made; i++) made = is_same(r->capture.graded[i].was, h);
  return made;
}

// Assigns that reach a tensor from outside, which a later run would not do.
static tc_status refuse_assigns(const recorder *r, const tc_trace *t, tc_scope scope) {
  for (uint32_t i = 0; i < r->capture.n_assigned; i++) {
    const tc_assigned *a = &r->capture.assigned[i];
    if (!is_made(r, t, scope, a->handle)) return fail_assign(r, a->by);
  }
  return TC_OK;
}

// A value of the recording that would be left behind: an assigned tensor, a gradient, a handle that
// outlives the function.
static tc_status refuse_rest(const recorder *r, const tc_trace *t, int n_asked, const tc_node *asked) {
  for (uint32_t n = 0; n < t->n_node; n++) {
    const tc_rec *rec = tc_rec_of(t, n);
    bool is_output = tc_rec_op(rec) == TC_OP_LEAF || t->slot_of[n] == TC_SLOT_NONE;
    for (int i = 0; i < n_asked && !is_output; i++) is_output = asked[i] == n;
    if (is_output) continue;
    char place[160];
    tc_site_text(t->call[n].site, place, sizeof place);
    if (tc_rec_op(rec) == TC_OP_ASSIGN) return fail_assign(r, t->call[n]);
    return tc_fail(
        TC_ERR_STATE, OP, r->what->site,
        "fn leaves a value behind (%s at %s): a gradient of tc_backward (tc_grads_of returns them), or a handle "
        "kept beyond fn. A program's results are its outputs",
        t->call[n].op ? t->call[n].op : tc_op_names[tc_rec_op(rec)], place[0] ? place : "an unknown place");
  }
  return TC_OK;
}

static tc_status refuse_devices(const recorder *r, const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++)
    if (p->dev[n] != TC_DEVICE_CPU)
      return tc_fail(TC_ERR_DEVICE, OP, r->what->site,
                     "fn uses a tensor on %s; a program is of tc:cpu: move the model there (tc_to), and make it the "
                     "default device",
                     tc_device_name((tc_device)p->dev[n]));
  return TC_OK;
}

static tc_status describe_leaves(const recorder *r, const tc_trace *t, tc_recorded *out) {
  tc_plan *p = out->plan;
  if (!(out->leaf = tc_calloc(p->n_leaf + 1, sizeof *out->leaf))) return no_room(r);
  uint8_t *flag = (uint8_t *)(p->word + p->n_rec_words);
  for (uint32_t i = 0; i < p->n_leaf; i++) {
    tc_buffer *b = t->leaf[i].buf;
    out->leaf[i].input = -1;
    for (int k = 0; k < r->what->n_inputs; k++)
      if (r->placeholder[k] == b) out->leaf[i].input = k;
    if (out->leaf[i].input >= 0) continue;
    out->leaf[i].buf = tc_buffer_retain(b);
    // It never changes, as a parameter between steps: what kernels make of it alone is a constant.
    flag[t->leaf[i].node] |= TC_NODE_REQUIRES_GRAD;
  }
  return TC_OK;
}

static tc_status describe_results(const recorder *r, const tc_node *asked, tc_recorded *out) {
  const tc_plan *p = out->plan;
  if (!(out->result = tc_calloc((size_t)r->what->n_outputs + 1, sizeof *out->result))) return no_room(r);
  for (int i = 0; i < r->what->n_outputs; i++) {
    uint32_t n = asked[i];
    const tc_rec *rec = tc_plan_rec(p, n);
    bool is_leaf = p->out_of[n] == TC_LEAF_NONE;
    out->result[i] = (tc_recorded_result){
        .is_leaf = is_leaf, .number = p->out_of[n], .type = (tc_type)rec->dtype, .shape = tc_dims_at(rec->shape)->d};
    if (is_leaf) out->result[i].number = tc_plan_is_leaf(p, n) ? p->leaf_of[n] : tc_plan_alias(p, n);
  }
  return TC_OK;
}

static tc_status describe_args(const recorder *r, const tc_trace *t, tc_recorded *out) {
  const tc_plan *p = out->plan;
  out->arg = tc_malloc((p->n_arg + 1) * sizeof *out->arg);
  out->draw = tc_malloc((p->n_arg + 1) * sizeof *out->draw);
  out->call = tc_malloc((p->n_node + 1) * sizeof *out->call);
  if (!out->arg || !out->draw || !out->call) return no_room(r);
  if (p->n_arg) memcpy(out->arg, t->arg, p->n_arg * sizeof *out->arg);
  if (p->n_node) memcpy(out->call, t->call, p->n_node * sizeof *out->call);
  bool same = t->seed == r->seed && t->stream == r->stream && t->counter >= r->counter;  // fn called no tc_seed
  out->n_draw = same ? t->counter - r->counter : 0;
  for (uint32_t n = 0; n < p->n_node; n++) {
    uint32_t at[TC_MAX_ARGS], n_at = tc_rec_counters(tc_plan_rec(p, n), at);
    for (uint32_t i = 0; i < n_at && same; i++) {
      uint32_t arg = p->arg_at[n] + at[i];
      out->draw[out->n_draw_args++] = (tc_recorded_draw){arg, (t->arg[arg] - r->counter) & TC_COUNTER_MASK};
    }
  }
  return TC_OK;
}

static tc_status take_plan(const recorder *r, tc_trace *t, tc_node *asked, tc_recorded *out) {
  int n = r->what->n_outputs;
  for (int i = 0; i < n; i++) {
    asked[i] = tc_op_in(t, r->out[i]);
    if (asked[i] == TC_NODE_ERR) return t->op_status;
  }
  TC_TRY(refuse_rest(r, t, n, asked));
  uint32_t n_rec_words = t->n_word, n_word = tc_trace_close_key(t, n, asked, true);
  if (!n_word) return no_room(r);
  tc_hash hash = tc_hash_bytes(t->word, n_word * sizeof t->word[0]);
  TC_TRY(tc_plan_create(t, n_rec_words, n_word, hash, &out->plan));
  TC_TRY(refuse_devices(r, out->plan));
  TC_TRY(describe_results(r, asked, out));  // before leaves are marked as parameters
  TC_TRY(describe_leaves(r, t, out));
  return describe_args(r, t, out);
}

// Takes the plan, and forgets the trace: assigned tensors have their values of before.
static tc_status close_trace(const recorder *r, tc_status st, tc_recorded *out) {
  tc_node *asked = tc_malloc(((size_t)r->what->n_outputs + 1) * sizeof *asked);
  tc_trace *t = tc_op_begin_sync(OP, r->what->site);
  if (t->op_status != TC_OK) return tc_free(asked), tc_op_done(t);
  if (st == TC_OK && t->epoch != r->epoch)
    st = TC_FAIL(TC_ERR_STATE,
                 "what fn recorded was lost before it returned: another thread asked for a value of it, or fn called "
                 "tc_shutdown");
  if (st == TC_OK) st = asked ? take_plan(r, t, asked, out) : no_room(r);
  tc_values_restore(t, NULL, TC_ERR_STATE);
  tc_trace_reset(t);
  t->seed = r->seed, t->counter = r->counter, t->stream = r->stream;
  tc_free(asked);
  t->op_status = st;
  return tc_op_done(t);
}

// ---- the function ----

static tc_status refuse_sync(const recorder *r, const tc_explanation *seen) {
  const tc_sync_point *s = &seen->sync[0];
  char place[160] = "";
  if (seen->n_kept > 0) tc_site_text(s->site, place, sizeof place);
  return tc_fail(TC_ERR_STATE, OP, r->what->site,
                 "fn needs a value while it is recorded: %s at %s. What depends on values stays outside, or becomes "
                 "ops (tc_where)",
                 seen->n_kept > 0 ? s->cause : "a sync point", place[0] ? place : "an unknown place");
}

static tc_status check_outputs(const recorder *r) {
  for (int i = 0; i < r->what->n_outputs; i++) {
    const char *name = r->what->output_name[i];
    tc_tensor h = r->out[i];
    if (tc_poison_status(h) != TC_OK) return tc_poison_told(h);
    if (!h.gen) return tc_fail(TC_ERR_ARG, OP, r->what->site, "fn gave no output %d, '%s'", i, name);
    if (!tc_is_valid(h))
      return tc_fail(TC_ERR_HANDLE, OP, r->what->site, "output %d, '%s': its scope ended inside fn", i, name);
  }
  return TC_OK;
}

// Begins, or ends, the notes of what fn assigns.
static tc_status note_assigns(recorder *r, bool begins) {
  tc_trace *t = tc_op_begin_sync(OP, r->what->site);
  if (t->op_status == TC_OK && begins) tc_capture_begin(t, &r->capture);
  if (!begins) tc_capture_end(t, &r->capture), tc_capture_fini(t, &r->capture);
  return tc_op_done(t);
}

// fn has returned. What it leaves open, and what it assigns, a run would not do.
static tc_status check_effects(const recorder *r, const tc_open_ends *before, tc_scope scope) {
  TC_TRY(tc_open_ends_check(before, OP, "fn", r->what->site));
  tc_trace *t = tc_op_begin_sync(OP, r->what->site);
  if (t->op_status == TC_OK) t->op_status = tc_trace_deferred_error(t, OP, r->what->site);
  if (t->op_status == TC_OK) t->op_status = refuse_assigns(r, t, scope);
  return tc_op_done(t);
}

// Calls the function; its outputs are retained.
static tc_status call_function(recorder *r, tc_scope scope) {
  tc_explanation *seen = tc_calloc(1, sizeof *seen);
  tc_sync_watcher watcher;
  if (!seen) return no_room(r);
  tc_open_ends before = tc_open_ends_now();
  tc_sync_watch_begin(&watcher, seen);
  tc_status st = r->what->fn(r->what->user, r->in, r->what->n_inputs, r->out, r->what->n_outputs);
  tc_sync_watch_end(&watcher);
  if (seen->n_syncs > 0) st = refuse_sync(r, seen);
  tc_free(seen);
  tc_status effects = check_effects(r, &before, scope);
  if (st == TC_OK) st = effects;
  TC_TRY(st);
  TC_TRY(check_outputs(r));
  for (int i = 0; i < r->what->n_outputs; i++) r->out[i] = tc_retain_at(r->out[i], r->what->site);
  return TC_OK;
}

static tc_status record(recorder *r, tc_recorded *out) {
  tc_site site = r->what->site;
  TC_TRY(tc_sync_at(NULL, site));
  tc_trace *mine = tc_op_begin_sync(OP, site);
  if (mine->op_status != TC_OK) return tc_op_done(mine);
  r->seed = mine->seed, r->counter = mine->counter, r->stream = mine->stream, r->epoch = mine->epoch;
  (void)tc_op_done(mine);
  tc_scope scope = tc_scope_begin_at(site);
  if (scope.depth == 0) return tc_last_error()->status;
  tc_status st = TC_OK;
  for (int i = 0; i < r->what->n_inputs && st == TC_OK; i++) st = make_placeholder(r, i);
  tc_record_only_begin();
  if (st == TC_OK) st = note_assigns(r, true);
  if (st == TC_OK) {
    st = call_function(r, scope);
    tc_status ended = note_assigns(r, false);
    if (st == TC_OK) st = ended;
  }
  bool retained = st == TC_OK;
  if (tc_own_scope_is_open(scope)) tc_scope_end_at(scope, 0);
  st = close_trace(r, st, out);
  tc_record_only_end();
  for (int i = 0; i < r->what->n_outputs && retained; i++) tc_release_at(r->out[i], site);
  return st;
}

tc_status tc_recorded_make(const tc_recording *what, tc_recorded *out) {
  recorder r = {.what = what};
  *out = (tc_recorded){.plan = NULL};
  r.in = tc_calloc((size_t)what->n_inputs + 1, sizeof *r.in);
  r.out = tc_calloc((size_t)what->n_outputs + 1, sizeof *r.out);
  r.placeholder = tc_calloc((size_t)what->n_inputs + 1, sizeof(tc_buffer *));
  tc_status st = r.in && r.out && r.placeholder ? record(&r, out) : no_room(&r);
  for (int i = 0; i < what->n_inputs && r.placeholder; i++) tc_buffer_release(r.placeholder[i]);
  tc_free(r.in), tc_free(r.out), tc_free(r.placeholder);
  if (st != TC_OK) tc_recorded_fini(out);
  return st;
}
