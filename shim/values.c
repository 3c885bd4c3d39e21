// Blocks' future contents: nodes that are recorded, run by libtc when asked for, and landed in the
// block.
// In: records over blocks. Out: blocks that hold what the calls would have written, before anybody
// sees them.
// Invariants: a block with a value is guarded: READ if the value is its own contents, HIDDEN else.
// A leaf's memory does not change while a node that has not run needs it. A value that nobody holds
// is never computed.
// Threads: under the lock of memory/memory.h. Owner: a block and each node that reads it hold a
// reference.
#include "shim/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/direct.h"
#include "shim/library.h"
#include "shim/options.h"
#include "shim/plain.h"

enum { MAX_NODES = 512, MAX_BLOCKS = 256, MAX_WAITING = 64, LEAST_BYTES = 2 << 20 };

struct tc_shim_value {
  tc_shim_value_record r;
  int refs;  // 0: free
  int64_t n;  // elements; of a leaf bytes
  bool has_tensor;
  tc_tensor tensor;  // retained: the value, computed; of a leaf its copy on the device
  const void *data;  // where the tensor lies on the CPU
  uint64_t built_in;  // the run that made built
  tc_tensor built;
  bool is_taken;  // this run assigns to the tensor
  tc_shim_value *updates;  // whose tensor this run assigns to; NULL: none
  // A leaf's: where its contents are.
  tc_shim_block *block;  // NULL: the block is gone, or never was
  void *pages;  // apart from the block; NULL: in it
  size_t pages_bytes;
  void *copy;  // malloc's, of small memory
};

static struct {
  const tc_shim_functions *tc;
  const char *device;
  tc_shim_value node[MAX_NODES];
  tc_shim_block *block[MAX_BLOCKS];  // that have a value
  int n_block, n_waiting;
  uint64_t run;
} self;

tc_shim_value_counts tc_shim_values_counts;

static size_t size_of(char type) {
  return type == 's' ? sizeof(float) : sizeof(double);
}

// ---- References ----

static tc_shim_value *take_node(void) {
  for (int i = 0; i < MAX_NODES; i++)
    if (!self.node[i].refs) {
      self.node[i] = (tc_shim_value){.refs = 1};
      return &self.node[i];
    }
  return NULL;
}

static void drop_tensor(tc_shim_value *v) {
  if (v->has_tensor) self.tc->release(v->tensor);
  v->has_tensor = false;
  v->data = NULL;
}

static void unref(tc_shim_value *v);

static void drop_operands(tc_shim_value *v) {
  for (int i = 0; i < TC_SHIM_VALUE_OPERANDS; i++) {
    unref(v->r.in[i].value);
    v->r.in[i].value = NULL;
  }
}

static void unref(tc_shim_value *v) {
  if (!v || --v->refs) return;
  drop_tensor(v);
  if (v->pages) tc_shim_pages_release(v->pages, v->pages_bytes, v->block);
  free(v->copy);
  drop_operands(v);
}

static bool is_own_leaf(const tc_shim_block *b) {
  const tc_shim_value *v = b->value;
  return v && v->r.op == TC_SHIM_VALUE_LEAF && v->block == b && !v->pages;
}

// The contents of a hidden block, as a leaf's own pages.
static bool detach_pages(tc_shim_value *v, tc_shim_block *b) {
  v->pages = tc_shim_block_detach(b);
  v->pages_bytes = b->bytes;
  return v->pages != NULL;
}

static void list_block(tc_shim_block *b) {
  self.block[self.n_block++] = b;
}

static void unlist_block(const tc_shim_block *b) {
  for (int i = 0; i < self.n_block; i++)
    if (self.block[i] == b) self.block[i] = self.block[--self.n_block];
}

// The block holds plain memory from now on.
static void release_block(tc_shim_block *b) {
  tc_shim_value *v = b->value;
  (void)tc_shim_block_guard(b, TC_GUARD_NONE);
  b->value = NULL;
  unlist_block(b);
  unref(v);
}

// ---- Runs ----

static const void *leaf_data(const tc_shim_value *v) {
  return v->copy ? v->copy : v->pages ? v->pages : v->block->base;
}

static tc_type type_of(char type) {
  return type == 's' ? TC_F32 : TC_F64;
}

static tc_tensor build(tc_shim_value *v);

// A leaf on a device stays there, as it is used whole.
static tc_tensor leaf_on_device(tc_shim_value *v, char type) {
  if (v->has_tensor) {
    tc_shim_values_counts.reused++;
    return v->tensor;
  }
  tc_tensor host = self.tc->borrow((void *)leaf_data(v), TC_SHAPE(v->n / (int64_t)size_of(type)), type_of(type),
                                   TC_READ_ONLY, NULL, NULL);
  v->tensor = self.tc->retain(self.tc->to(host, self.device));
  v->has_tensor = true;
  tc_shim_values_counts.uploaded++;
  return v->tensor;
}

static tc_tensor operand(const tc_shim_value_use *u, char type) {
  tc_shim_value *v = u->value;
  if (v->r.op != TC_SHIM_VALUE_LEAF) return build(v);
  bool whole = u->offset == 0 && u->n * (int64_t)size_of(type) == v->n;
  if (self.device && whole && (!v->has_tensor || v->r.type == type)) {
    v->r.type = type;
    return leaf_on_device(v, type);
  }
  const char *data = (const char *)leaf_data(v) + (size_t)u->offset * size_of(type);
  tc_tensor t = self.tc->borrow((void *)data, TC_SHAPE(u->n), type_of(type), TC_READ_ONLY, NULL, NULL);
  return self.device ? self.tc->to(t, self.device) : t;
}

static tc_tensor scale(tc_tensor t, double by) {
  return by == 1 ? t : self.tc->mul_num(t, tc_num_float(by));
}

static tc_tensor build_gemm(const tc_shim_value_record *r) {
  const tc_shim_functions *tc = self.tc;
  tc_tensor a = operand(&r->in[1], r->type), b = operand(&r->in[2], r->type);
  a = tc->reshape(a, r->left_transposed ? TC_SHAPE(r->k, r->m) : TC_SHAPE(r->m, r->k));
  b = tc->reshape(b, r->right_transposed ? TC_SHAPE(r->n, r->k) : TC_SHAPE(r->k, r->n));
  if (r->left_transposed) a = tc->transpose(a, 0, 1);
  if (r->right_transposed) b = tc->transpose(b, 0, 1);
  tc_tensor t = scale(tc->reshape(tc->matmul(a, b), TC_SHAPE(r->m * r->n)), r->alpha);
  return r->in[0].value ? tc->add(t, scale(operand(&r->in[0], r->type), r->beta)) : t;
}

static tc_tensor build(tc_shim_value *v) {
  const tc_shim_functions *tc = self.tc;
  const tc_shim_value_record *r = &v->r;
  if (v->has_tensor) return v->tensor;
  if (v->built_in == self.run) return v->built;
  tc_tensor old = {0}, x = {0}, y = {0};
  if (r->op != TC_SHIM_VALUE_GEMM) old = operand(&r->in[0], r->type);
  if (r->op == TC_SHIM_VALUE_AXPY || r->op == TC_SHIM_VALUE_GER) x = operand(&r->in[1], r->type);
  if (r->op == TC_SHIM_VALUE_GER) y = operand(&r->in[2], r->type);
  switch (r->op) {
    case TC_SHIM_VALUE_GEMM: v->built = build_gemm(r); break;
    case TC_SHIM_VALUE_AXPY: v->built = tc->add(old, scale(x, r->alpha)); break;
    case TC_SHIM_VALUE_SCAL: v->built = scale(old, r->alpha); break;
    case TC_SHIM_VALUE_GER:
      x = scale(tc->reshape(x, TC_SHAPE(r->m, 1)), r->alpha);
      y = tc->reshape(y, TC_SHAPE(1, r->n));
      v->built = tc->add(old, tc->reshape(tc->mul(x, y), TC_SHAPE(r->m * r->n)));
      break;
    case TC_SHIM_VALUE_LEAF: break;
  }
  v->built_in = self.run;
  return v->built;
}

// How many references are those of nodes that have not run: after this run they are gone.
static int uses_of(const tc_shim_value *v) {
  int n = 0;
  for (int i = 0; i < MAX_NODES; i++)
    for (int k = 0; k < TC_SHIM_VALUE_OPERANDS && self.node[i].refs && !self.node[i].has_tensor; k++)
      n += self.node[i].r.in[k].value == v;
  return n;
}

// The computed value that a chain of updates begins with, if its tensor may be written over; else
// NULL.
static tc_shim_value *updated(const tc_shim_value *v) {
  tc_shim_value *old = v->r.in[0].value;
  while (old && !old->has_tensor && old->r.op != TC_SHIM_VALUE_LEAF) old = old->r.in[0].value;
  bool may = old && old->r.op != TC_SHIM_VALUE_LEAF && !old->is_taken && old->n == v->n && old->r.type == v->r.type &&
             old->refs == uses_of(old) && self.tc->is_assignable(old->tensor);
  return may ? old : NULL;
}

// After the scope, whose end would run what was assigned in it.
static tc_tensor assign_update(tc_shim_value *v, tc_tensor t) {
  tc_shim_value *old = updated(v);
  if (!old || self.tc->assign(old->tensor, t) != TC_OK) return t;
  self.tc->release(t);
  v->updates = old;
  old->is_taken = true;
  return old->tensor;
}

static void hold(tc_shim_value *v, tc_tensor t) {
  if (v->updates) v->updates->has_tensor = false;
  v->updates = NULL;
  v->tensor = t;
  v->has_tensor = true;
  if (!self.device) {
    v->data = self.tc->map(t);
    if (v->data) (void)self.tc->unmap(t);
  }
}

// What libtc could not run is computed by plain loops, once: the node becomes a leaf of malloc's
// memory. False: there is no memory.
static bool make_plain(tc_shim_value *v) {
  const void *in[TC_SHIM_VALUE_OPERANDS] = {0};
  size_t bytes = (size_t)v->n * size_of(v->r.type);
  if (v->r.op == TC_SHIM_VALUE_LEAF) return true;
  void *out = v->has_tensor ? malloc(bytes) : NULL;
  bool ok = !out || self.tc->to_host(v->tensor, out, bytes) == TC_OK;
  for (int i = 0; i < TC_SHIM_VALUE_OPERANDS && !v->has_tensor && ok; i++) {
    const tc_shim_value_use *u = &v->r.in[i];
    if (!u->value) continue;
    ok = make_plain(u->value);
    if (ok) in[i] = (const char *)leaf_data(u->value) + (size_t)u->offset * size_of(v->r.type);
  }
  if (ok && !v->has_tensor) out = tc_shim_plain(&v->r, in);
  if (!ok || !out) return free(out), false;
  drop_tensor(v);
  drop_operands(v);
  v->r.op = TC_SHIM_VALUE_LEAF;
  v->n = (int64_t)bytes;
  v->copy = out;
  return true;
}

// The run failed, so that an updated tensor has its old value.
static void undo(tc_shim_value *v, tc_tensor t) {
  if (!v->updates) self.tc->release(t);
  if (v->updates) v->updates->is_taken = false;
  v->updates = NULL;
}

// Nodes of blocks that are computed now. out_scalar: an extra scalar; NULL: none.
static bool run_nodes(tc_shim_value **node, int n, const tc_shim_value_use *x, const tc_shim_value_use *y,
                      tc_shim_scalar_op op, char type, double *out) {
  const tc_shim_functions *tc = self.tc;
  tc_tensor kept[MAX_BLOCKS + 1];
  self.run++;
  tc_scope scope = tc->scope_begin();
  for (int i = 0; i < n; i++) kept[i] = tc->retain(build(node[i]));
  if (out) {
    tc_tensor a = operand(x, type);
    tc_tensor t = op == TC_SHIM_DOT ? tc->mul(a, operand(y, type)) : tc->abs(a);  // a sum, since it is fused
    t = tc->sum(t, TC_ALL, false);
    kept[n] = tc->retain(t);
  }
  tc->scope_end(scope);
  for (int i = 0; i < n; i++) kept[i] = assign_update(node[i], kept[i]);
  bool ok = tc->eval(n + !!out, kept) == TC_OK && (!out || tc->item_f64(kept[n], out) == TC_OK);
  tc_shim_values_counts.runs++;
  if (out) tc->release(kept[n]);
  for (int i = 0; i < n; i++)
    if (ok)
      hold(node[i], kept[i]);
    else
      undo(node[i], kept[i]);
  if (!ok) tc->clear_error();
  return ok;
}

static bool is_waiting(const tc_shim_block *b) {
  const tc_shim_value *v = b->value;
  return v->r.op != TC_SHIM_VALUE_LEAF && !v->has_tensor;
}

static void land(tc_shim_block *b);

// After a run: operands are given up; what is not libtc's own memory is landed before it can
// change.
static void finish_run(tc_shim_value **node, int n) {
  for (int i = 0; i < n; i++) {
    for (int k = self.n_block - 1; k >= 0 && !self.device; k--) {
      tc_shim_block *in = tc_shim_block_find(node[i]->data);
      if (self.block[k]->value == node[i] && !(in && in->is_library)) land(self.block[k]);
    }
    if (node[i]->refs) drop_operands(node[i]);
  }
  for (int k = self.n_block - 1; k >= 0 && !self.device; k--)
    if (is_own_leaf(self.block[k]) && ((tc_shim_value *)self.block[k]->value)->refs == 1) release_block(self.block[k]);
}

// Computes what blocks wait for, and a scalar with it: one pass over the memory serves both.
static bool run_waiting(const tc_shim_value_use *x, const tc_shim_value_use *y, tc_shim_scalar_op op, char type,
                        double *out) {
  tc_shim_value *node[MAX_BLOCKS];
  int n = 0;
  for (int i = 0; i < self.n_block; i++) {
    tc_shim_value *v = self.block[i]->value;
    bool seen = !is_waiting(self.block[i]);
    for (int k = 0; k < n; k++) seen |= node[k] == v;
    if (!seen) node[n++] = v;
  }
  if (!n && !out) return true;
  for (int i = 0; i < n; i++) node[i]->refs++;
  bool ok = run_nodes(node, n, x, y, op, type, out);
  if (ok) finish_run(node, n);
  for (int i = 0; i < n; i++) unref(node[i]);
  self.n_waiting = 0;
  return ok;
}

// Whether no other value lies where this one does.
static bool is_sole(const tc_shim_value *v) {
  for (int i = 0; i < MAX_NODES; i++)
    if (self.node[i].refs && &self.node[i] != v && self.node[i].data == v->data) return false;
  return v->refs == 1;
}

// pre: the block's value is computed, or another block's contents.
static void land(tc_shim_block *b) {
  tc_shim_value *v = b->value;
  bool is_leaf = v->r.op == TC_SHIM_VALUE_LEAF, exchanged = false, ok = true;
  const void *from = is_leaf ? leaf_data(v) : v->data;
  void *made = NULL;
  if (!from) {
    from = made = malloc(b->asked);
    ok = made && self.tc->to_host(v->tensor, made, b->asked) == TC_OK;
  } else {
    exchanged = !is_leaf && is_sole(v);
  }
  tc_shim_values_counts.landed++;
  tc_shim_values_counts.exchanged += exchanged;
  if (!ok || !tc_shim_block_land(b, (void *)from, exchanged))
    tc_shim_say("a deferred result cannot be stored (%s); the program cannot go on with it",
                ok ? "no memory" : self.tc->last_error()->message);
  else
    release_block(b);
  free(made);
}

// Everything that waits is computed, by plain loops where libtc cannot.
static void compute(void) {
  static bool told;
  if (run_waiting(NULL, NULL, TC_SHIM_DOT, 'd', NULL)) return;
  if (!told || self.device)
    tc_shim_say("libtc cannot run what was deferred%s",
                self.device ? " on the device; the processor does" : "; plain loops do");
  told = true;
  if (self.device) {
    for (int i = 0; i < MAX_NODES; i++)
      if (self.node[i].refs && self.node[i].r.op == TC_SHIM_VALUE_LEAF) drop_tensor(&self.node[i]);
    self.device = NULL;
    if (run_waiting(NULL, NULL, TC_SHIM_DOT, 'd', NULL)) return;
  }
  for (int i = 0; i < self.n_block; i++)
    if (is_waiting(self.block[i]) && !make_plain(self.block[i]->value))
      tc_shim_say("there is no memory for a deferred result; the program cannot go on with it");
}

static void settle_block(tc_shim_block *b) {
  tc_shim_value *v = b->value;
  if (!v) {
    (void)tc_shim_block_guard(b, TC_GUARD_NONE);
    return;
  }
  if (!is_own_leaf(b)) {
    land(b);
    return;
  }
  for (int i = self.n_block - 1; i >= 0; i--)
    if (self.block[i] != b && self.block[i]->value == v) land(self.block[i]);
  release_block(b);
}

// False inside a call of libtc's own, such as the end of a thread. What it does there, system calls
// among it, touches nothing of ours.
static bool is_usable(void) {
  return self.tc->eval(0, NULL) != TC_ERR_STATE;
}

void tc_shim_values_settle(void) {
  if (!is_usable()) return;
  compute();
  for (int i = self.n_block - 1; i >= 0; i--)
    if (!is_own_leaf(self.block[i])) land(self.block[i]);
  while (self.n_block && is_own_leaf(self.block[self.n_block - 1])) release_block(self.block[self.n_block - 1]);
}

// ---- The keeper ----

static void on_touch(tc_shim_block *b, bool is_write) {
  compute();
  tc_shim_value *v = b->value;
  bool stays = self.device && !is_write && v && v->has_tensor && v->r.op != TC_SHIM_VALUE_LEAF && v->refs == 1;
  if (!stays) {
    if (b->guard != TC_GUARD_NONE) settle_block(b);
    return;
  }
  // The result is read: it stays on the device, too, as long as nobody writes the memory.
  v->refs++;
  land(b);
  if (b->value || !tc_shim_block_guard(b, TC_GUARD_READ)) {
    unref(v);
    return;
  }
  v->r = (tc_shim_value_record){.op = TC_SHIM_VALUE_LEAF, .type = v->r.type};
  v->n = (int64_t)b->asked;
  v->block = b;
  b->value = v;
  list_block(b);
}

// Freed: what it waited for is not wanted; what others need of its contents is moved away.
static void on_drop(tc_shim_block *b) {
  tc_shim_value *v = b->value;
  tc_shim_values_counts.dropped += v && is_waiting(b);
  if (v && is_own_leaf(b) && v->refs > 1) {
    (void)tc_shim_block_guard(b, TC_GUARD_HIDDEN);
    if (!detach_pages(v, b)) {
      (void)tc_shim_block_guard(b, TC_GUARD_READ);
      compute();
    }
  }
  if (b->value) release_block(b);
  for (int i = 0; i < MAX_NODES; i++)
    if (self.node[i].refs && self.node[i].block == b) self.node[i].block = NULL;
}

static bool is_device_there(const char **out_why) {
  static char why[256];
  static const double one[1] = {1};
  tc_scope scope = self.tc->scope_begin();
  tc_tensor t =
      self.tc->retain(self.tc->to(self.tc->borrow((void *)one, TC_SHAPE(1), TC_F64, 0, NULL, NULL), self.device));
  double back = 0;
  self.tc->scope_end(scope);
  bool ok = self.tc->item_f64(t, &back) == TC_OK && back == 1;
  if (!ok) snprintf(why, sizeof why, "%s", self.tc->last_error()->message);
  *out_why = why;
  self.tc->release(t);
  self.tc->clear_error();
  return ok;
}

bool tc_shim_values_start(const char *device, const char **out_why) {
  static const tc_shim_keeper keeper = {on_touch, tc_shim_values_settle, on_drop, is_usable};
  self.device = device;
  self.tc = tc_shim_library();
  *out_why = "libtc is not there";
  if (self.tc && tc_shim_library_is_shared()) {  // its kernels would meet what waits, inside libtc
    *out_why = "the program uses libtc itself";
    return false;
  }
  if (!self.tc || (device && !is_device_there(out_why))) return false;
  return tc_shim_memory_start(&keeper, out_why);
}

// ---- Records ----

bool tc_shim_values_use(const void *p, int64_t n, char type, void **copy, tc_shim_value_use *out) {
  size_t bytes = (size_t)n * size_of(type);
  tc_shim_block *b = tc_shim_block_find(p);
  size_t offset = b ? (size_t)((const char *)p - b->base) : 0;
  *out = (tc_shim_value_use){0};
  if (b &&
      (b->is_library || b->is_foreign || offset % size_of(type) != 0 || offset > b->asked || bytes > b->asked - offset))
    return false;
  tc_shim_value *v = b ? b->value : NULL;
  if (v && v->r.op != TC_SHIM_VALUE_LEAF && (offset || v->n != n || v->r.type != type)) return false;
  if (v) {
    v->refs++;
  } else if (b) {
    if (self.n_block >= MAX_BLOCKS - 2 || !(v = take_node())) return false;
    if (!tc_shim_block_guard(b, TC_GUARD_READ)) return v->refs = 0, false;
    v->n = (int64_t)b->asked;
    v->block = b;
    v->refs = 2;
    b->value = v;
    list_block(b);
  } else {
    if (!*copy || !(v = take_node())) return false;
    v->n = (int64_t)bytes;
    v->copy = *copy;
    *copy = NULL;
  }
  *out = (tc_shim_value_use){v, (int64_t)(offset / size_of(type)), n};
  return true;
}

void tc_shim_values_forget(tc_shim_value_use *use) {
  tc_shim_value *v = use->value;
  use->value = NULL;
  unref(v);
}

tc_shim_block *tc_shim_values_output(const void *p, int64_t n, char type) {
  tc_shim_block *b = tc_shim_block_find(p);
  bool whole = b && b->base == (const char *)p && (size_t)n * size_of(type) == b->asked;
  return whole && !b->is_library && !b->is_foreign && b->asked >= LEAST_BYTES && self.n_block < MAX_BLOCKS - 2 ? b
                                                                                                               : NULL;
}

// The block has the value; what it held goes, or moves away if somebody needs it.
static bool set_value(tc_shim_block *b, tc_shim_value *v) {
  tc_shim_value *old = b->value;
  bool moves = old && is_own_leaf(b) && old->refs > 1;
  if (!tc_shim_block_guard(b, TC_GUARD_HIDDEN)) return false;
  if (moves && !detach_pages(old, b)) {
    (void)tc_shim_block_guard(b, TC_GUARD_READ);
    return false;
  }
  if (!old) list_block(b);
  b->value = v;
  unref(old);
  tc_shim_values_counts.recorded++;
  if (self.device || ++self.n_waiting > MAX_WAITING) compute();
  return true;
}

bool tc_shim_values_record(tc_shim_block *b, const tc_shim_value_record *r) {
  tc_shim_value *v = take_node();
  if (!v) {
    for (int i = 0; i < TC_SHIM_VALUE_OPERANDS; i++) unref(r->in[i].value);
    return false;
  }
  v->r = *r;
  v->n = (int64_t)(b->asked / size_of(r->type));
  if (set_value(b, v)) return true;
  unref(v);
  return false;
}

bool tc_shim_values_share(tc_shim_block *b, tc_shim_value_use u) {
  if (b->value != u.value && set_value(b, u.value)) return true;
  unref(u.value);
  return false;
}

bool tc_shim_values_is_pending(const tc_shim_value_use *u) {
  return u->value && u->value->r.op != TC_SHIM_VALUE_LEAF;
}

bool tc_shim_values_scalar(tc_shim_scalar_op op, char type, const tc_shim_value_use *x, const tc_shim_value_use *y,
                           double *out) {
  return run_waiting(x, y, op, type, out);
}
