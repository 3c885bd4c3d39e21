// Runs plans of a loaded back end. See loaded.h.
//
//   relu  on tc:toy    the leaf is on the device
//   erf   on the CPU   relu's result is read into the host's memory, and waits for the device
//   exp   on tc:toy    erf's result is written to the device
//
// A storage's state says on which sides its value is. A step that writes it leaves one.
#include "lowering/program/loaded.h"

#include <stdio.h>
#include <string.h>

#include "device/loaded_backend.h"
#include "lowering/program/control.h"
#include "runtime/arena.h"
#include "runtime/profile.h"

struct tc_loaded_steps {
  tc_loaded *device;
  uint32_t opened, n;  // times the device was opened; LOADED steps
  tc_backend_op *op;  // per LOADED step, as the next; name NULL: a copy
  void **kernel;
  bool *prepared;
  tc_backend_tensor *tensor;  // operands of all
  uint64_t *attr;
  uint32_t n_tensor, n_attr, n_fixed;  // n_fixed: leaves and outputs
  size_t *bytes;  // per leaf and output
};

// ---- building ----

static uint32_t count_steps(const tc_program *p, tc_loaded_steps *l) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (p->step[i].kind != TC_STEP_LOADED) continue;
    l->n++;
    l->n_tensor += (uint32_t)p->graph.node[p->step[i].node].n_in;
    l->n_attr += (uint32_t)p->graph.node[p->step[i].node].n_attr;
  }
  return l->n;
}

// Prepares step number k of the device, node n.
static tc_status prepare_step(tc_loaded_steps *l, const tc_graph *g, uint32_t n, uint32_t k, tc_backend_tensor *in,
                              uint64_t *attr) {
  tc_backend_op *op = &l->op[k];
  char why[TC_LOADED_WHY];
  tc_graph_describe_op(g, n, op, in);
  if (op->n_attr) memcpy(attr, op->attr, (size_t)op->n_attr * sizeof *attr);
  op->attr = attr;
  if (tc_op_is_alias(g->node[n].op)) return op->name = NULL, TC_OK;
  tc_status st = tc_loaded_prepare(l->device, op, &l->kernel[k], why);
  l->prepared[k] = st == TC_OK;
  return st == TC_OK ? TC_OK : TC_FAIL(st, "%s: %s", op->name, why);
}

static void fill_bytes(tc_loaded_steps *l, const tc_plan *plan) {
  for (uint32_t n = 0; n < plan->n_node; n++) {
    const tc_rec *r = tc_plan_rec(plan, n);
    if (plan->leaf_of[n] != TC_LEAF_NONE)
      l->bytes[plan->leaf_of[n]] = (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
  }
  for (uint32_t o = 0; o < plan->n_out; o++) l->bytes[plan->n_leaf + o] = plan->out[o].bytes;
}

tc_status tc_loaded_steps_create(tc_program *p, const tc_plan *plan, tc_loaded_steps **out) {
  tc_loaded_steps *l = tc_calloc(1, sizeof *l);
  *out = l;
  if (!l) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  TC_TRY(tc_loaded_get((tc_device)plan->dev[0], &l->device));
  l->opened = tc_loaded_opened(l->device), l->n_fixed = plan->n_leaf + plan->n_out;
  uint32_t n = count_steps(p, l), tensor = 0, attr = 0, k = 0;
  l->op = tc_calloc(n + 1, sizeof *l->op), l->kernel = tc_calloc(n + 1, sizeof *l->kernel);
  l->prepared = tc_calloc(n + 1, sizeof *l->prepared), l->bytes = tc_calloc(l->n_fixed + 1, sizeof *l->bytes);
  l->tensor = tc_calloc(l->n_tensor + 1, sizeof *l->tensor), l->attr = tc_calloc(l->n_attr + 1, sizeof *l->attr);
  if (!l->op || !l->kernel || !l->prepared || !l->bytes || !l->tensor || !l->attr)
    return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  fill_bytes(l, plan);
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (s->kind != TC_STEP_LOADED) continue;
    TC_TRY(prepare_step(l, &p->graph, s->node, k, l->tensor + tensor, l->attr + attr));
    tensor += (uint32_t)l->op[k].n_in, attr += (uint32_t)l->op[k].n_attr;
    s->row.value = k++;
  }
  return TC_OK;
}

void tc_loaded_steps_destroy(tc_loaded_steps *l) {
  if (!l) return;
  for (uint32_t i = 0; l->prepared && i < l->n; i++)
    if (l->prepared[i]) tc_loaded_release(l->device, l->opened, l->kernel[i]);
  void *const owned[] = {l->op, l->kernel, l->prepared, l->tensor, l->attr, l->bytes, l};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
}

size_t tc_loaded_steps_bytes(const tc_loaded_steps *l) {
  return sizeof *l + l->n * (sizeof *l->op + sizeof *l->kernel + sizeof *l->prepared) +
         l->n_tensor * sizeof *l->tensor + l->n_attr * sizeof *l->attr + l->n_fixed * sizeof *l->bytes;
}

// ---- a run ----

enum { ON_HOST = 1, ON_DEVICE = 2 };

typedef struct run {
  const tc_loaded_steps *l;
  const tc_program *p;
  const tc_execution *device;  // addresses there
  tc_execution host;  // and here
  bool one_memory;  // true: they are the same
  bool waits;  // true, with one memory: the device may be at work, for an earlier run, too
  uint8_t *state;  // per storage, those of the arena behind the others: ON_ bits
  tc_buffer **mirror;  // per leaf and output, then of the arena. NULL: not used yet
  uint64_t copied_bytes;
  uint32_t n_kernels;  // that the CPU ran
} run;

// What runs of bodies left to the CPU since the run that they are part of began.
static _Thread_local struct {
  uint32_t n_kernels;
  uint64_t copied_bytes;
} inner;

static uint32_t index_of(const run *x, uint32_t storage) {
  return storage & ARENA_BIT ? x->l->n_fixed + (storage & ~ARENA_BIT) : storage;
}

static size_t bytes_of(const run *x, uint32_t storage) {
  return storage & ARENA_BIT ? x->p->allocation[storage & ~ARENA_BIT].bytes : x->l->bytes[storage];
}

// Makes the storage's memory on the host.
static tc_status make_mirror(run *x, uint32_t storage) {
  uint32_t at = storage;
  size_t bytes = 0;
  if (storage & ARENA_BIT) {
    const tc_allocation *k = &x->p->allocation[storage & ~ARENA_BIT];
    at = k->in == IN_ARENA ? x->l->n_fixed : k->in + (uint32_t)((void *const *)x->host.at.output - x->host.at.storage);
  }
  bytes = at == x->l->n_fixed ? x->p->arena_bytes : x->l->bytes[at];
  if (x->mirror[at]) return TC_OK;
  TC_TRY(tc_buffer_create(TC_MAX_OF(bytes, (size_t)64), &x->mirror[at]));
  if (at == x->l->n_fixed)
    x->host.at.arena = x->mirror[at]->ptr;
  else
    x->host.at.storage[at] = x->mirror[at]->ptr;
  return TC_OK;
}

static tc_status bring_to_host(run *x, uint32_t storage) {
  uint8_t *state = &x->state[index_of(x, storage)];
  if (*state != ON_DEVICE) return TC_OK;
  size_t bytes = bytes_of(x, storage);
  TC_TRY(tc_loaded_read(x->l->device, tc_storage_pointer(x->p, &x->host.at, storage),
                        tc_storage_pointer(x->p, &x->device->at, storage), bytes));
  *state |= ON_HOST, x->copied_bytes += bytes;
  return TC_OK;
}

static tc_status bring_to_device(run *x, uint32_t storage) {
  uint8_t *state = &x->state[index_of(x, storage)];
  if (*state != ON_HOST) return TC_OK;
  size_t bytes = bytes_of(x, storage);
  TC_TRY(tc_loaded_write(x->l->device, tc_storage_pointer(x->p, &x->device->at, storage),
                         tc_storage_pointer(x->p, &x->host.at, storage), bytes));
  *state |= ON_DEVICE, x->copied_bytes += bytes;
  return TC_OK;
}

static tc_status run_on_host(run *x, const tc_step *s) {
  const uint32_t *binding = x->p->binding + s->first_binding;
  if (x->one_memory) {
    if (x->waits) TC_TRY(tc_loaded_wait(x->l->device));
    x->waits = false;
  }
  for (uint32_t j = 0; j < s->n_binding && !x->one_memory; j++) TC_TRY(make_mirror(x, binding[j]));
  for (uint32_t j = 0; j < s->n_binding && !x->one_memory; j++)
    if (!tc_step_writes(s, j)) TC_TRY(bring_to_host(x, binding[j]));
  TC_TRY(tc_execution_run_step(&x->host, s));
  for (uint32_t j = 0; j < s->n_binding && !x->one_memory; j++)
    if (tc_step_writes(s, j)) x->state[index_of(x, binding[j])] = ON_HOST;
  x->n_kernels += s->kind != TC_STEP_CHECK;
  return TC_OK;
}

// Runs control flow, whose bodies are plans of the device: their runs count what they leave to the
// CPU themselves.
static tc_status run_control(run *x, const tc_step *s) {
  const uint32_t *binding = x->p->binding + s->first_binding;
  for (uint32_t j = 0; j + 1 < s->n_binding && !x->one_memory; j++) TC_TRY(bring_to_device(x, binding[j]));
  TC_TRY(tc_control_run(x->device, s));
  x->state[index_of(x, binding[s->n_binding - 1])] = ON_DEVICE;
  x->waits = true;
  return TC_OK;
}

// Runs an op on the device. why: gets the text of a failure, "" if that was recorded.
static tc_status run_on_device(run *x, const tc_step *s, char why[TC_LOADED_WHY]) {
  const tc_loaded_steps *l = x->l;
  const tc_backend_op *op = &l->op[s->row.value];
  const uint32_t *binding = x->p->binding + s->first_binding, n_in = s->n_binding - 1;
  const void *in[TC_BACKEND_MOST_IN];
  *why = 0;
  for (uint32_t j = 0; j < n_in; j++) {
    if (!x->one_memory) TC_TRY(bring_to_device(x, binding[j]));
    in[j] = tc_storage_pointer(x->p, &x->device->at, binding[j]);
  }
  void *out = tc_storage_pointer(x->p, &x->device->at, binding[n_in]);
  size_t bytes = tc_type_bytes(op->out.type);
  for (int i = 0; i < op->out.rank; i++) bytes *= (size_t)op->out.dim[i];
  if (bytes && !op->name)
    TC_TRY(tc_loaded_copy(l->device, out, in[0], bytes));
  else if (bytes)
    TC_TRY(tc_loaded_run(l->device, l->kernel[s->row.value], op, in, out,
                         (const tc_backend_number *)(const void *)(x->device->num + s->first_num), why));
  x->state[index_of(x, binding[n_in])] = ON_DEVICE;
  x->waits = true;
  return TC_OK;
}

// Reports the failure of a step on the device as the user's call.
static tc_status report(const tc_plan *plan, const tc_step *s, const tc_call *call, tc_status st, const char *why) {
  bool known = call && s->node < plan->n_node && call[s->node].op;
  if (!*why) return st;
  return tc_fail(st, known ? call[s->node].op : tc_op_names[s->op], known ? call[s->node].site : 0, "%s", why);
}

// What the host spent: the device may still be at work.
static void note_time(tc_step_time *t, uint64_t start) {
  atomic_store_explicit(&t->begin, start, memory_order_relaxed);
  atomic_store_explicit(&t->end, tc_ticks(), memory_order_relaxed);
  atomic_store_explicit(&t->workers, 1, memory_order_relaxed);
}

static tc_status run_steps(run *x, const tc_plan *plan, const tc_call *call) {
  for (uint32_t i = 0; i < x->p->n_step; i++) {
    const tc_step *s = &x->p->step[i];
    char why[TC_LOADED_WHY];
    if (s->kind == TC_STEP_LOADED) {
      uint64_t start = x->device->times ? tc_ticks() : 0;
      tc_status st = run_on_device(x, s, why);
      if (start) note_time(&x->device->times[i], start);
      if (st != TC_OK) return report(plan, s, call, st, why);
      continue;
    }
    if (s->kind == TC_STEP_CONTROL) {
      TC_TRY(run_control(x, s));
      continue;
    }
    tc_status st = run_on_host(x, s);
    if (x->host.fault->step) tc_execution_report(plan, &x->host, call);
    TC_TRY(st);
  }
  for (uint32_t o = 0; o < plan->n_out && !x->one_memory; o++) TC_TRY(bring_to_device(x, plan->n_leaf + o));
  return TC_OK;
}

tc_status tc_loaded_steps_run(const tc_execution *r, const tc_plan *plan, const tc_call *call, tc_work_done *done) {
  const tc_program *p = r->p;
  const tc_loaded_steps *l = p->loaded;
  tc_execution_fault fault = {.step = NULL, .position = -1};
  size_t n_state = l->n_fixed + p->n_allocation, n_mirror = l->n_fixed + 1;
  // pointers on the host, mirrors, states
  void **list = tc_calloc(l->n_fixed + n_mirror + (n_state + 7) / 8 + 1, sizeof *list);
  if (!list) return TC_FAIL(TC_ERR_MEMORY, "no room for a run");
  run x = {.l = l, .p = p, .device = r, .host = *r, .one_memory = tc_loaded_is_host(l->device), .waits = true};
  x.mirror = (tc_buffer **)(list + l->n_fixed), x.state = (uint8_t *)(list + l->n_fixed + n_mirror);
  x.host.fault = &fault;
  if (!x.one_memory) x.host.at = (tc_storages){list, (char *const *)(void *)(list + plan->n_leaf), NULL};
  memset(x.state, ON_DEVICE, plan->n_leaf);
  tc_status st = TC_OK;
  if (done) inner.n_kernels = 0, inner.copied_bytes = 0;
  if (l->opened != tc_loaded_opened(l->device))
    st = TC_FAIL(TC_ERR_DEVICE, "%s was closed by tc_shutdown after this was planned",
                 tc_device_name((tc_device)plan->dev[0]));
  if (st == TC_OK) st = run_steps(&x, plan, call);
  for (size_t i = 0; i < n_mirror; i++) tc_buffer_release(x.mirror[i]);
  tc_free(list);
  inner.n_kernels += x.n_kernels, inner.copied_bytes += x.copied_bytes;
  if (done) done->n_fallbacks = inner.n_kernels, done->fallback_bytes = inner.copied_bytes;
  return st;
}
