// Finds the record that created the first NaN or infinity. See verify.h.
#include "lowering/program/verify.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/graph/graph.h"
#include "lowering/program/records.h"
#include "runtime/arena.h"
#include "runtime/log.h"

// bits of a node's state; LEADS: values that are not finite lead from it to a stored result
enum { HAS_INFINITY = 1, HAS_NAN = 2, MADE = 4, STORED = 8, LEADS = 16 };

typedef struct search {
  tc_records records;
  const tc_plan *p;  // the records' plan
  uint8_t *state;       // per node
  int64_t *at;  // per MADE node: the index of the element
  // per MADE node: that element's value, then those of the operands of an elementwise op
  double *told;
} search;

enum { N_TOLD = 4 };

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
  double v = tc_get_f64(tc_record_type(s->p, in), seen, read_by(&tc_record_shape(s->p, in)->d, to, i));
  return isnan(v) ? HAS_NAN : isinf(v) ? HAS_INFINITY : 0;
}

// Looks for an element that the record created. seen: operand values of an elementwise op; NULL for
// operands that are not floats.
static void find_made(search *s, uint32_t node, const void *got, const void *const *seen) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  const tc_dims *d = &tc_record_shape(s->p, node)->d;
  for (int64_t i = 0; i < tc_record_shape(s->p, node)->count; i++) {
    double v = tc_get_f64(tc_record_type(s->p, node), got, i);
    uint8_t operands = 0;
    if (isfinite(v)) continue;
    for (int k = 0; k < tc_rec_arity(r); k++) operands |= operand_state(s, tc_rec_in(r)[k], seen[k], d, i);
    if (!is_made(v, operands)) continue;
    double *told = s->told + (size_t)node * N_TOLD;
    told[0] = v;
    for (int k = 0; k < tc_rec_arity(r) && k + 1 < N_TOLD; k++)
      if (seen[k])
        told[k + 1] = tc_get_f64(tc_record_type(s->p, tc_rec_in(r)[k]), seen[k],
                                 read_by(&tc_record_shape(s->p, tc_rec_in(r)[k])->d, d, i));
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
  const void *seen[TC_REF_MAX_IN] = {NULL};
  if (!tc_type_is_float(tc_record_type(s->p, node))) return true;
  const void *got = tc_records_look(&s->records, node);
  if (!got) return tc_record_bytes(s->p, node) == 0;
  s->state[node] |= look_through(tc_record_type(s->p, node), got, tc_record_shape(s->p, node)->count);
  if (!(s->state[node] & (HAS_NAN | HAS_INFINITY)) || s->p->leaf_of[node] != TC_LEAF_NONE || !makes(r)) return true;
  for (int k = 0; k < tc_rec_arity(r) && tc_op_kind_of(tc_rec_op(r)) == TC_KIND_ELEM; k++)
    if (tc_type_is_float(tc_record_type(s->p, tc_rec_in(r)[k])) &&
        !(seen[k] = tc_records_look(&s->records, tc_rec_in(r)[k])))
      return false;
  find_made(s, node, got, seen);
  return true;
}

// ---- all records ----

static bool run_node(search *s, uint32_t node) {
  const tc_rec *r = tc_plan_rec(s->p, node);
  void *operand[TC_REF_MAX_IN];
  for (int i = 0; i < tc_rec_arity(r); i++) operand[i] = tc_records_at(&s->records, tc_rec_in(r)[i]);
  if (!tc_records_run(&s->records, node, (tc_device)s->p->dev[node], operand, &s->records.value[node]) ||
      !look_at(s, node))
    return false;
  tc_records_pass(&s->records, node);
  return true;
}

// Runs the records that outputs need.
static bool run_records(search *s) {
  for (uint32_t n = 0; n < s->p->n_node; n++) {
    if (s->p->out_of[n] != TC_LEAF_NONE) s->state[n] = STORED;
    if (!s->records.n_readers[n]) continue;
    if (!(s->p->leaf_of[n] != TC_LEAF_NONE ? look_at(s, n) : run_node(s, n))) return false;
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
                              tc_type_name(tc_record_type(s->p, node)),
                              tc_dims_text(&tc_record_shape(s->p, node)->d, dims, sizeof dims),
                              isnan(told[0]) ? (double)NAN : told[0], (long long)s->at[node]);
  for (int i = 0; i < tc_rec_arity(r) && i < N_TOLD - 1 && n < sizeof out->text - 1; i++) {
    uint32_t in = tc_rec_in(r)[i];
    n += (size_t)snprintf(out->text + n, sizeof out->text - n, "%s%s%s", i ? ", " : ", of ",
                          tc_type_name(tc_record_type(s->p, in)),
                          tc_dims_text(&tc_record_shape(s->p, in)->d, dims, sizeof dims));
    bool is_one = tc_op_kind_of(tc_rec_op(r)) == TC_KIND_ELEM && tc_type_is_float(tc_record_type(s->p, in));
    if (is_one && n < sizeof out->text) n += (size_t)snprintf(out->text + n, sizeof out->text - n, " %g", told[i + 1]);
  }
}

bool tc_anomaly_find(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out) {
  tc_error_mark before = tc_error_now();
  size_t n = (size_t)plan->n_node + 1;
  search s = {.p = plan, .state = tc_calloc(n, 1)};
  s.at = tc_calloc(n, sizeof *s.at), s.told = tc_calloc(n, N_TOLD * sizeof *s.told);
  bool ok = tc_records_init(&s.records, plan, leaf, arg) && s.state && s.at && s.told && run_records(&s);
  uint32_t first = ok ? first_made(&s) : TC_LEAF_NONE;
  if (first != TC_LEAF_NONE) describe_anomaly(&s, first, out);
  tc_records_fini(&s.records);
  tc_free(s.state);
  tc_free(s.at);
  tc_free(s.told);
  if (ok) return first != TC_LEAF_NONE;
  tc_log_line(TC_LOG_WARN, "TC_ANOMALY: a plan of %u nodes was not looked at: %s", plan->n_node,
              tc_error_now().id != before.id ? tc_last_error()->message : "a record could not be run alone");
  (void)tc_error_tell(before);
  return false;
}
