// See graph_backend.h.
#define TC_NO_SITES
#include "lazy/sync/graph_backend.h"

#include <stdatomic.h>
#include <string.h>

#include "device/loaded_backend.h"
#include "runtime/arena.h"
#include "runtime/edits.h"
#include "runtime/fork.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/reentry.h"

#define MOST_REGISTERED 64
#define NAME_BYTES 64

// tc's own.
static const struct {
  const char *name, *meaning;
} rows[] = {
    {"default", "tc's: fused kernels, compiled for the device"},
    {"eager", "tc's, op by op: each runs when it is recorded"},
    {"interp", "tc's fused kernels, interpreted and never compiled, on a CPU"},
    {"ref", "op by op from reference kernels, plain loops in double that are never compiled, on a CPU"},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct registered {
  char name[NAME_BYTES];
  tc_backend_fn fn;
  void *user;
} registered;

static struct {
  pthread_mutex_t lock;
  registered row[MOST_REGISTERED];
  _Atomic int n;  // release: what is below it is written
  _Atomic uint64_t n_suppressed;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 3)

// ---- names ----

static const registered *find_registered(const char *name) {
  int n = atomic_load_explicit(&self.n, memory_order_acquire);
  for (int i = 0; i < n; i++)
    if (strcmp(self.row[i].name, name) == 0) return &self.row[i];
  return NULL;
}

const char *tc_list_backends(int i, const char **out_meaning) {
  int n = atomic_load_explicit(&self.n, memory_order_acquire);
  if (i < 0 || i >= N_ROWS + n) return NULL;
  if (out_meaning) *out_meaning = i < N_ROWS ? rows[i].meaning : "the program's";
  return i < N_ROWS ? rows[i].name : self.row[i - N_ROWS].name;
}

tc_status tc_backend_check(const char *name, const char *op, tc_site site) {
  const char *near = NULL, *known;
  size_t n = strlen(name), best = (n / 2 < 3 ? n / 2 : 3) + 1;
  for (int i = 0; (known = tc_list_backends(i, NULL)) != NULL; i++) {
    size_t d = n <= TC_EDITS_BYTES ? tc_edits(name, n, known, strlen(known)) : n;
    if (d == 0) return TC_OK;
    if (d < best) best = d, near = known;
  }
  char device[80];
  snprintf(device, sizeof device, "tc:%.64s", name);
  if (tc_loaded_find(device) >= 0)
    return tc_fail(TC_ERR_ARG, op, site, "'%s' is a device: tensors go there by tc_set_default_device or tc_to",
                   device);
  return tc_fail(TC_ERR_ARG, op, site,
                 "there is no backend '%.64s'%s%s; tc_list_backends lists them, tc_register_backend adds one", name,
                 near ? ", the nearest is " : "", near ? near : "");
}

// pre: locked.
static tc_status add_registered(const char *name, tc_backend_fn fn, void *user, const char *op, tc_site site) {
  int n = atomic_load_explicit(&self.n, memory_order_relaxed);
  const registered *old = find_registered(name);
  bool is_row = false;
  for (int i = 0; i < N_ROWS; i++) is_row |= strcmp(rows[i].name, name) == 0;
  if (old && old->fn == fn && old->user == user) return TC_OK;
  if (old || is_row) return tc_fail(TC_ERR_STATE, op, site, "'%s' is the name of another backend already", name);
  if (n == MOST_REGISTERED) return tc_fail(TC_ERR_STATE, op, site, "%d backends are registered already", n);
  snprintf(self.row[n].name, NAME_BYTES, "%s", name);
  self.row[n].fn = fn, self.row[n].user = user;
  atomic_store_explicit(&self.n, n + 1, memory_order_release);
  return TC_OK;
}

tc_status tc_register_backend_at(const char *name, tc_backend_fn fn, void *user, tc_site site) {
  const char *op = "register_backend";
  if (!name || !*name || !fn) return tc_fail(TC_ERR_ARG, op, site, "%s is missing", fn ? "the name" : "the function");
  if (strlen(name) >= NAME_BYTES || strpbrk(name, ",= "))
    return tc_fail(TC_ERR_ARG, op, site, "'%.80s' has a comma, '=' or blank, or more than %d bytes", name,
                   NAME_BYTES - 1);
  if (strncmp(name, "tc:", 3) == 0) name += 3;  // as in the options
  if (!tc_enter(op, site)) return TC_ERR_STATE;
  pthread_mutex_lock(&self.lock);
  tc_status st = add_registered(name, fn, user, op, site);
  pthread_mutex_unlock(&self.lock);
  tc_leave();
  return st;
}

const char *tc_backend_name_of(tc_backend_fn fn, void *user, const char *op, tc_site site) {
  const char *name = NULL;
  char made[NAME_BYTES];
  pthread_mutex_lock(&self.lock);
  int n = atomic_load_explicit(&self.n, memory_order_relaxed);
  for (int i = 0; i < n && !name; i++)
    if (self.row[i].fn == fn && self.row[i].user == user) name = self.row[i].name;
  snprintf(made, sizeof made, "function-%d", n);
  if (!name && add_registered(made, fn, user, op, site) == TC_OK) name = self.row[n].name;
  pthread_mutex_unlock(&self.lock);
  return name;
}

uint64_t tc_backend_n_suppressed(void) {
  return atomic_load_explicit(&self.n_suppressed, memory_order_relaxed);
}

// ---- the view of a graph ----

typedef struct view {
  tc_graph_view graph;
  tc_graph_node *node;
  uint32_t *number;  // inputs, then outputs
  char (*site)[160];
} view;

static void view_fini(view *v) {
  tc_free(v->node);
  tc_free(v->number);
  tc_free(v->site);
}

static tc_status view_init(view *v, const tc_plan *p, const tc_trace *t) {
  v->node = tc_malloc((p->n_node + 1) * sizeof *v->node);
  v->number = tc_malloc(((size_t)p->n_leaf + p->n_out + 1) * sizeof *v->number);
  v->site = tc_calloc(p->n_node + 1, sizeof *v->site);
  if (!v->node || !v->number || !v->site) return TC_FAIL(TC_ERR_MEMORY, "no room to show a graph");
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    tc_site_text(t->call[n].site, v->site[n], sizeof v->site[n]);
    v->node[n] = (tc_graph_node){.op = tc_op_names[tc_rec_op(r)],
                                 .type = (tc_type)r->dtype,
                                 .shape = tc_dims_at(r->shape)->d,
                                 .n_operands = tc_rec_arity(r),
                                 .operand = tc_rec_in(r),
                                 .n_attributes = tc_rec_attrs(r),
                                 .attribute = tc_rec_attr(r),
                                 .n_scalars = (int)tc_rec_args(r),
                                 .first_scalar = (int)p->arg_at[n],
                                 .site = v->site[n]};
    if (p->leaf_of[n] != TC_LEAF_NONE) v->number[p->leaf_of[n]] = n;
  }
  for (uint32_t i = 0; i < p->n_out; i++) v->number[p->n_leaf + i] = p->out[i].node;
  v->graph = (tc_graph_view){.device = tc_device_name(p->n_node ? (tc_device)p->dev[0] : TC_DEVICE_CPU),
                             .n_nodes = (int)p->n_node,
                             .n_inputs = (int)p->n_leaf,
                             .n_outputs = (int)p->n_out,
                             .n_scalars = (int)p->n_arg,
                             .node = v->node,
                             .input = v->number,
                             .output = v->number + p->n_leaf};
  return TC_OK;
}

// ---- making plans ----

static bool is_on_host(const tc_plan *p) {
  return !p->n_node || tc_device_memory((tc_device)p->dev[0]) == TC_DEVICE_CPU;
}

// Asks the program's function. *made: it runs the plan itself.
static tc_status ask_program(const registered *b, tc_plan *p, const tc_trace *t, bool *made) {
  view v = {.node = NULL};
  tc_graph_runner runner = {.run = NULL};
  tc_status st = view_init(&v, p, t);
  *made = false;
  if (st == TC_OK && (st = b->fn(&v.graph, &runner, b->user)) != TC_OK)
    st = TC_FAIL(st < TC_N_STATUSES ? st : TC_ERR_STATE, "backend '%s' refuses the graph of %u nodes: %s", b->name,
                 p->n_node, tc_status_text(st));
  else if (st == TC_OK && runner.run && !is_on_host(p))
    st = TC_FAIL(TC_ERR_DEVICE,
                 "backend '%s' gave a function to run, which takes memory of the host; the graph is on %s", b->name,
                 v.graph.device);
  *made = st == TC_OK && runner.run;
  if (*made)
    p->runner = runner, p->tier = "own", p->n_kernels = 1, p->n_left = p->n_node;
  else if (runner.release)
    runner.release(runner.state);
  for (uint32_t i = 0; i < p->n_out && *made; i++) p->taken_bytes += p->out[i].bytes;
  view_fini(&v);
  return st;
}

static tc_status lower_by_rows(tc_plan *p) {
  if (!is_on_host(p))
    return TC_FAIL(TC_ERR_DEVICE, "backend 'ref' runs in the host's memory; the graph is on %s",
                   tc_device_name((tc_device)p->dev[0]));
  for (uint32_t i = 0; i < p->n_out; i++) p->out[i].donor = TC_LEAF_NONE;  // as before lowering failed
  p->by_rows = true;
  return tc_lowering.lower(p);
}

// Goes on after an error, which shows in the log alone.
static void suppress(tc_error_mark before, const char *how) {
  tc_log_line(TC_LOG_WARN, "suppressed, %s: %s", how, tc_last_error()->message);
  atomic_fetch_add_explicit(&self.n_suppressed, 1, memory_order_relaxed);
  (void)tc_error_tell(before);
}

tc_status tc_backend_make(tc_plan *p, const tc_trace *t) {
  const tc_options *o = p->options = tc_options_get();
  const registered *b = find_registered(o->backend);
  tc_error_mark before = tc_error_now();
  if (!b) TC_TRY(tc_backend_check(o->backend, tc_inside_call.op, tc_inside_call.site));
  bool made = false;
  tc_status st = b ? ask_program(b, p, t, &made) : TC_OK;
  if (made) return TC_OK;
  if (st != TC_OK && (!o->suppress_errors || st == TC_ERR_MEMORY)) return st;
  if (st != TC_OK) suppress(before, "tc makes the plan");
  if (strcmp(o->backend, "ref") == 0) return lower_by_rows(p);
  st = tc_lowering.lower(p);
  if (st == TC_OK || st == TC_ERR_MEMORY || !o->suppress_errors || !is_on_host(p)) return st;
  suppress(before, "the graph runs op by op from reference kernels");
  return lower_by_rows(p);
}

tc_status tc_backend_run(const tc_plan *p, void *const *leaf, void *const *out, const uint64_t *arg) {
  tc_status st = p->runner.run((const void *const *)leaf, out, arg, p->runner.state);
  if (st == TC_OK) return TC_OK;
  return TC_FAIL(st < TC_N_STATUSES ? st : TC_ERR_STATE, "backend '%s' ran its graph of %u nodes: %s",
                 p->options->backend, p->n_node, tc_status_text(st));
}
