#include "lowering/verify.h"

#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/program.h"
#include "runtime/arena.h"
#include "runtime/log.h"

#define SMALLEST_SIZE 1e-4  // results that are all smaller may be what cancelling left of greater numbers

struct tc_verified {
  tc_plan *plan;    // the same records on tc:ref
  tc_buffer **out;  // what they give
};

static void destroy(tc_verified *v) {
  for (uint32_t i = 0; v->plan && v->out && i < v->plan->n_out; i++) tc_buffer_release(v->out[i]);
  tc_plan_release(v->plan);
  tc_free(v->out);
  tc_free(v);
}

static bool is_fused(const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++)
    if (tc_device_kind_of((tc_device)p->dev[n]) != TC_DEVICE_KERNELS) return false;
  return true;
}

static bool run(tc_verified *v, void *const *leaf, const uint64_t *arg) {
  uint32_t n_out = v->plan->n_out;
  void **ptr = tc_calloc(n_out + 1, sizeof *ptr);
  v->out = tc_calloc(n_out + 1, sizeof *v->out);
  bool ok = ptr && v->out;
  for (uint32_t i = 0; ok && i < n_out; i++) {
    ok = tc_buffer_create(v->plan->out[i].bytes, &v->out[i]) == TC_OK;
    if (ok) ptr[i] = v->out[i]->ptr;
  }
  ok = ok && tc_program_launch(v->plan, leaf, ptr, arg, NULL) == TC_OK;
  tc_free(ptr);
  return ok;
}

tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg) {
  if (!is_fused(plan)) return NULL;
  bool clean = tc_last_error()->status == TC_OK;
  tc_verified *v = tc_calloc(1, sizeof *v);
  if (v && tc_plan_reference(plan, &v->plan) == TC_OK && run(v, leaf, arg)) return v;
  if (v) destroy(v);
  tc_log_line(TC_LOG_WARN, "TC_VERIFY: a plan of %u nodes was not compared: %s", plan->n_node,
              clean ? tc_last_error()->message : "the reference failed");
  if (clean) tc_clear_error();
  return NULL;
}

static double tolerance(tc_type type) {
  return type == TC_F64 ? 1e-9 : type == TC_F32 ? 1e-3 : type == TC_F16 ? 2e-2 : 1e-1;
}

static bool is_float(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

// Per node: whether a float that was computed went into it.
static bool *mark_rounded(const tc_plan *p) {
  bool *rounded = tc_calloc(p->n_node + 1, sizeof *rounded);
  for (uint32_t n = 0; rounded && n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    tc_op_kind kind = tc_op_kind_of(tc_rec_op(r));
    rounded[n] = is_float((tc_type)r->dtype) && kind != TC_KIND_MOVE && kind != TC_KIND_GEN;
    for (int i = 0; i < tc_rec_arity(r); i++) rounded[n] |= rounded[tc_rec_in(r)[i]];
  }
  return rounded;
}

static bool differs(tc_type type, const void *got, const void *want, int64_t i, double size) {
  if (!is_float(type)) return tc_get_i64(type, got, i) != tc_get_i64(type, want, i);
  double a = tc_get_f64(type, got, i), b = tc_get_f64(type, want, i);
  if (isnan(a) || isnan(b)) return isnan(a) != isnan(b);
  // One side may round to an infinity where the other stays just below it.
  if (isinf(a) || isinf(b)) return a != b && !(fabs(isinf(a) ? b : a) > 0.9 * size && size > 1e4);
  return fabs(a - b) > tolerance(type) * size;
}

// Compares an output; writes one line if it is wrong.
static bool is_wrong(const tc_plan *p, const tc_out *o, const void *got, const void *want, FILE *to) {
  const tc_rec *r = tc_plan_rec(p, o->node);
  tc_type type = (tc_type)r->dtype;
  int64_t count = tc_dims_at(r->shape)->count, n_wrong = 0, first = 0;
  double size = SMALLEST_SIZE;
  char dims[128];
  for (int64_t i = 0; i < count && is_float(type); i++) {
    double v = fabs(tc_get_f64(type, want, i));
    if (isfinite(v) && v > size) size = v;
  }
  for (int64_t i = 0; i < count; i++)
    if (differs(type, got, want, i, size) && n_wrong++ == 0) first = i;
  if (!n_wrong) return false;
  fprintf(to, "%%%u = %s %s%s: %lld of %lld elements differ; element %lld is %.9g, by the reference %.9g\n", o->node, tc_op_names[tc_rec_op(r)],
          tc_type_name(type), tc_dims_text(&tc_dims_at(r->shape)->d, dims, sizeof dims), (long long)n_wrong, (long long)count, (long long)first,
          tc_get_f64(type, got, first), tc_get_f64(type, want, first));
  return true;
}

uint32_t tc_verify_end(const tc_plan *plan, void *const *out, tc_verified *v, bool ran, FILE *to) {
  uint32_t n_wrong = 0;
  bool *rounded = ran ? mark_rounded(plan) : NULL;
  for (uint32_t i = 0; rounded && i < plan->n_out; i++) {
    const tc_out *o = &plan->out[i];
    if (is_float((tc_type)tc_plan_rec(plan, o->node)->dtype) || !rounded[o->node]) n_wrong += is_wrong(plan, o, out[i], v->out[i]->ptr, to);
  }
  tc_free(rounded);
  destroy(v);
  return n_wrong;
}
