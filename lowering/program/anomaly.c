// Finds the record that created the first NaN or infinity. See anomaly.h.
#include "lowering/program/anomaly.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/graph/graph.h"
#include "lowering/program/verify.h"
#include "runtime/arena.h"
#include "runtime/log.h"

// bits of a node's state; LEADS: values that are not finite lead from it to a stored result
enum { HAS_INFINITY = 1, HAS_NAN = 2, MADE = 4, STORED = 8, LEADS = 16 };

typedef struct search {
  const tc_plan *p;
  void *const *leaf;
  const uint64_t *arg;
  tc_gpu *gpu;  // the GPU that holds the values; NULL: the host
  tc_buffer **value;  // per node: its record's value; NULL for leaves and after its last reader
  uint32_t *n_readers;  // per node: readers still to come
  uint8_t *state;       // per node
  int64_t *at;  // per MADE node: the index of the element
  // per MADE node: that element's value, then those of the operands of an elementwise op
  double *told;
} search;

enum { N_TOLD = 4 };

static tc_type type_of(const search *s, uint32_t node) {
  return (tc_type)tc_plan_rec(s->p, node)->dtype;
}

static const tc_shape_info *shape_of(const search *s, uint32_t node) {
  return tc_dims_at(tc_plan_rec(s->p, node)->shape);
}

static size_t bytes_of(const search *s, uint32_t node) {
  return (size_t)shape_of(s, node)->count * tc_type_bytes(type_of(s, node));
}

// The address of a node's value on the plan's device.
static void *where(const search *s, uint32_t node) {
  uint32_t leaf = s->p->leaf_of[node];
  return leaf != TC_LEAF_NONE ? s->leaf[leaf] : s->value[node] ? s->value[node]->ptr : NULL;
}

// The index of the operand's element that element i of a value of shape `to` reads by broadcasting.
static int64_t read_by(const tc_dims *from, const tc_dims *to, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int d = to->rank, k = from->rank; k-- > 0;) {
    d--;
    if (from->dim[k] != 1) at += i % to->dim[d] * stride;
    i /= to->dim[d];
    stride *= from->dim[k];
  }
  return at;
}

// ---- one value ----

// Which of HAS_NAN and HAS_INFINITY hold for the elements.
static uint8_t look_through(tc_type type, const void *at, int64_t count) {
  uint8_t has = 0;
  for (int64_t i = 0; i < count; i++) {
    double v = type == TC_F32 ? (double)((const float *)at)[i] : tc_get_f64(type, at, i);
    if (v - v == 0) continue;
    has |= isnan(v) ? HAS_NAN : HAS_INFINITY;
  }
  return has;
}

// Whether v was created here: a NaN without a NaN operand, or an infinity of finite operands.
static bool is_made(double v, uint8_t operands) {
  return isnan(v) ? !(operands & HAS_NAN) : isinf(v) && operands == 0;
}

// The state of the operand's element that element i reads; if seen is NULL, of the whole operand.
static uint8_t operand_state(const search *s, uint32_t in, const void *seen, const tc_dims *to, int64_t i) {
  if (!seen) return s->state[in] & (HAS_NAN | HAS_INFINITY);
  double v = tc_get_f64(type_of(s, in), seen, read_by(&shape_of(s, in)->d, to, i));
  return isnan(v) ? HAS_NAN : isinf(v) ? HAS_INFINITY : 0;
}

// Looks for an element that the record created. seen: operand values of an elementwise op; NULL for
// operands that are not floats.
static void find_made(search *s, uint32_t node, const void *got, const void *const *seen) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  const tc_dims *d = &shape_of(s, node)->d;
  for (int64_t i = 0; i < shape_of(s, node)->count; i++) {
    double v = tc_get_f64(type_of(s, node), got, i);
    uint8_t operands = 0;
    if (isfinite(v)) continue;
    for (int k = 0; k < tc_rec_arity(r); k++) operands |= operand_state(s, tc_rec_in(r)[k], seen[k], d, i);
    if (!is_made(v, operands)) continue;
    double *told = s->told + (size_t)node * N_TOLD;
    told[0] = v;
    for (int k = 0; k < tc_rec_arity(r) && k + 1 < N_TOLD; k++)
      if (seen[k])
        told[k + 1] = tc_get_f64(type_of(s, tc_rec_in(r)[k]), seen[k], read_by(&shape_of(s, tc_rec_in(r)[k])->d, d, i));
    s->state[node] |= MADE, s->at[node] = i;
    return;
  }
}

// Whether the op can create a NaN or infinity. Generators pass on what the program gave them.
static bool makes(const tc_rec *r) {
  tc_op_kind kind = tc_op_kind_of(tc_rec_op(r));
  return kind != TC_KIND_GEN && kind != TC_KIND_RNG && kind != TC_KIND_MOVE && kind != TC_KIND_EFFECT;
}

// Records what a value in memory holds, and whether its record created it. False if it cannot be
// read.
static bool look_at(search *s, uint32_t node) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  tc_buffer *copy = NULL, *copies[TC_REF_MAX_IN] = {NULL};
  const void *seen[TC_REF_MAX_IN] = {NULL};
  if (!tc_type_is_float(type_of(s, node))) return true;
  const void *got = tc_verify_look(s->gpu, where(s, node), bytes_of(s, node), &copy);
  bool ok = got != NULL || bytes_of(s, node) == 0;
  if (ok) s->state[node] |= look_through(type_of(s, node), got, shape_of(s, node)->count);
  if (ok && (s->state[node] & (HAS_NAN | HAS_INFINITY)) && s->p->leaf_of[node] == TC_LEAF_NONE && makes(r)) {
    bool one_by_one = tc_op_kind_of(tc_rec_op(r)) == TC_KIND_ELEM;
    for (int k = 0; k < tc_rec_arity(r) && ok && one_by_one; k++) {
      uint32_t in = tc_rec_in(r)[k];
      if (tc_type_is_float(type_of(s, in)))
        ok = (seen[k] = tc_verify_look(s->gpu, where(s, in), bytes_of(s, in), &copies[k])) != NULL;
    }
    if (ok) find_made(s, node, got, seen);
    for (int k = 0; k < tc_rec_arity(r) && one_by_one; k++) tc_buffer_release(copies[k]);
  }
  tc_buffer_release(copy);
  return ok;
}

// ---- all records ----

static bool run_node(search *s, uint32_t node) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  void *operand[TC_REF_MAX_IN];
  for (int i = 0; i < tc_rec_arity(r); i++) operand[i] = where(s, tc_rec_in(r)[i]);
  if (!tc_verify_run_record(s->p, node, (tc_device)s->p->dev[node], operand, s->arg, &s->value[node]) ||
      !look_at(s, node))
    return false;
  for (int i = 0; i < tc_rec_arity(r); i++) {
    uint32_t in = tc_rec_in(r)[i];
    if (--s->n_readers[in]) continue;
    tc_buffer_release(s->value[in]);
    s->value[in] = NULL;
  }
  return true;
}

// Runs the records that outputs need.
static bool run_records(search *s) {
  const tc_plan *p = s->p;
  tc_device d = p->n_node ? (tc_device)p->dev[0] : TC_DEVICE_CPU;
  if (tc_device_memory(d) != TC_DEVICE_CPU && tc_gpu_get(d, &s->gpu) != TC_OK) return false;
  for (uint32_t n = p->n_node; n-- > 0;) {
    if (p->out_of[n] != TC_LEAF_NONE) s->n_readers[n]++, s->state[n] = STORED;
    const tc_rec *r = tc_plan_rec(p, n);
    for (int i = 0; s->n_readers[n] && i < tc_rec_arity(r); i++) s->n_readers[tc_rec_in(r)[i]]++;
  }
  for (uint32_t n = 0; n < p->n_node; n++) {
    if (!s->n_readers[n]) continue;
    if (!(p->leaf_of[n] != TC_LEAF_NONE ? look_at(s, n) : run_node(s, n))) return false;
  }
  return true;
}

// The first node that created a non-finite value which reaches a stored result; TC_LEAF_NONE: none.
static uint32_t first_made(search *s) {
  uint32_t first = TC_LEAF_NONE;
  for (uint32_t n = s->p->n_node; n-- > 0;) {
    uint8_t x = s->state[n];
    if (!(x & (HAS_NAN | HAS_INFINITY)) || !(x & (STORED | LEADS))) continue;
    if (x & MADE) first = n;
    const tc_rec *r = tc_plan_rec(s->p, n);
    for (int i = 0; i < tc_rec_arity(r); i++) s->state[tc_rec_in(r)[i]] |= LEADS;
  }
  return first;
}

static void describe_anomaly(const search *s, uint32_t node, tc_anomaly *out) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  const double *told = s->told + (size_t)node * N_TOLD;
  char dims[128];
  out->node = node;
  size_t n = (size_t)snprintf(out->text, sizeof out->text, "%s %s%s made %g at element %lld", tc_op_names[tc_rec_op(r)],
                              tc_type_name(type_of(s, node)), tc_dims_text(&shape_of(s, node)->d, dims, sizeof dims),
                              isnan(told[0]) ? (double)NAN : told[0], (long long)s->at[node]);
  for (int i = 0; i < tc_rec_arity(r) && i < N_TOLD - 1 && n < sizeof out->text - 1; i++) {
    uint32_t in = tc_rec_in(r)[i];
    n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%s%s", i ? ", " : ", of ",
                          tc_type_name(type_of(s, in)), tc_dims_text(&shape_of(s, in)->d, dims, sizeof dims));
    bool is_one = tc_op_kind_of(tc_rec_op(r)) == TC_KIND_ELEM && tc_type_is_float(type_of(s, in));
    if (is_one && n < sizeof out->text) n += (size_t)snprintf(out->text + n, sizeof out->text - n, " %g", told[i + 1]);
  }
}

bool tc_anomaly_find(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out) {
  tc_error_mark before = tc_error_now();
  size_t n = (size_t)plan->n_node + 1;
  search s = {.p = plan, .leaf = leaf, .arg = arg};
  s.value = tc_calloc(n, sizeof *s.value), s.n_readers = tc_calloc(n, sizeof *s.n_readers), s.state = tc_calloc(n, 1);
  s.at = tc_calloc(n, sizeof *s.at), s.told = tc_calloc(n, N_TOLD * sizeof *s.told);
  bool ok = s.value && s.n_readers && s.state && s.at && s.told && run_records(&s);
  uint32_t first = ok ? first_made(&s) : TC_LEAF_NONE;
  if (first != TC_LEAF_NONE) describe_anomaly(&s, first, out);
  for (uint32_t i = 0; s.value && i < plan->n_node; i++) tc_buffer_release(s.value[i]);
  void *const owned[] = {s.value, s.n_readers, s.state, s.at, s.told};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  if (ok) return first != TC_LEAF_NONE;
  tc_log_line(TC_LOG_WARN, "TC_ANOMALY: a plan of %u nodes was not looked at: %s", plan->n_node,
              tc_error_now().id != before.id ? tc_last_error()->message : "a record could not be run alone");
  (void)tc_error_tell(before);
  return false;
}
