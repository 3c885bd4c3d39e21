// Runs records one by one, and reports where results differ, and by how much. See verify.h.
#include "lowering/program/verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/tiling/summation.h"
#include "lowering/target/cpu_target.h"
#include "lowering/graph/graph.h"
#include "lowering/program/records.h"
#include "lowering/tiling/winograd.h"
#include "runtime/arena.h"
#include "runtime/log.h"

#define MOST_ULP \
  16  // no operation is further from the reference, in units in the last place of its result, but for long sums
#define MOST_HALF_ULP 1  // likewise for f16 and bf16, which are computed in f32 and rounded once

struct tc_verified {
  tc_records records;
  tc_hash *leaf;  // per leaf node that must keep its content: hash of the content before the run
  uint32_t n_wrong;
};

static void destroy_verified(tc_verified *v) {
  tc_records_fini(&v->records);
  tc_free(v->leaf);
  tc_free(v);
}

// Whether the plan is of devices that are compared: kernels are generated for them, or a loaded
// back end computes there.
static bool is_compared(const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    tc_device d = (tc_device)p->dev[n];
    if (!tc_device_generates(d) && tc_device_kind_of(d) != TC_DEVICE_LOADED) return false;
  }
  return true;
}

// ---- How far a result may be from the reference's ----

typedef struct format {
  double epsilon, smallest, largest;  // smallest: the least normal number
} format;

static format format_of(tc_type type) {
  switch (type) {
    case TC_F16: return (format){0x1p-10, 0x1p-14, 65504};
    case TC_BF16: return (format){0x1p-7, 0x1p-126, 0x1.FEp127};
    case TC_F32: return (format){0x1p-23, 0x1p-126, FLT_MAX};
    default: return (format){0x1p-52, 0x1p-1022, DBL_MAX};
  }
}

// Tolerance: |got - want| <= relative * |want| + per_size * size + absolute. An infinite size
// bounds nothing. Half types accumulate in f32.
typedef struct bound {
  double relative, per_size, absolute;
  // true: size is the reference's result for the absolute values of the operands (size_of)
  bool sized;
  bool by_log;  // true: the exponent of e is rounded, which adds |log want| units
  // relative to the greatest element of the result: Winograd rounds relative to a tile
  double of_greatest;
} bound;

// Additions per element of a sum over the mask's axes, one run of axes at a time, as the graph is
// built (split_reduction.c).
static double additions_of_sum(const tc_dims *d, uint32_t mask) {
  double sum = 0;
  int64_t run = 1, inner = 1;
  for (int i = d->rank - 1; i >= -1; i--) {
    bool folded = i >= 0 && mask >> i & 1;
    if (folded) run *= d->dim[i];
    if (i >= 0 && (folded || d->dim[i] == 1)) continue;
    sum += (double)tc_fold_additions(run, inner);
    if (i >= 0) inner *= run * d->dim[i], run = 1;
  }
  return sum;
}

// Additions of a sum over rows or keys in attention. On a GPU it is one chain. Elsewhere it is
// blocks of dozens to hundreds, added one after another.
static double additions_in_attention(const tc_plan *p, uint32_t node, int64_t n) {
  const int64_t block = 512, least_block = 96;
  return tc_device_kind_of((tc_device)p->dev[node]) == TC_DEVICE_GPU ? (double)n
                                                                     : (double)(TC_MIN(n, block) + n / least_block);
}

// The most terms of one element of a convolution.
static int64_t terms_of_conv(const tc_plan *p, uint32_t node) {
  const tc_rec *r = tc_plan_rec(p, node);
  const tc_shape_info *b = tc_record_shape(p, tc_rec_in(r)[1]);
  int axis = tc_rec_op(r) == TC_OP_CONV ? 0 : tc_rec_op(r) == TC_OP_CONV_INPUT ? 1 : b->d.rank - 1;
  return b->count / TC_MAX_OF(b->d.dim[axis], 1);
}

static bound bound_of(const tc_plan *p, uint32_t node) {
  const tc_rec *r = tc_plan_rec(p, node);
  tc_type type = (tc_type)r->dtype;
  format f = format_of(type);
  double sum_epsilon = type == TC_F64 ? 0x1p-52 : 0x1p-23, terms = 1,
         most = tc_type_is_half(type) ? MOST_HALF_ULP : MOST_ULP;
  bound b = {.relative = most * f.epsilon, .absolute = most * f.epsilon * f.smallest};
  const tc_shape_info *x = tc_rec_arity(r) ? tc_record_shape(p, tc_rec_in(r)[0]) : NULL;
  switch (tc_rec_op(r)) {
    case TC_OP_SUM:
      terms = additions_of_sum(&x->d, (uint32_t)(tc_rec_attr(r)[0] & 255));
      b.sized = true, b.per_size = terms * sum_epsilon;
      break;
    case TC_OP_MATMUL:
      terms = (double)x->d.dim[x->d.rank - 1];
      b.sized = true, b.per_size = ((double)tc_chain_additions((int64_t)terms) + 1) * sum_epsilon;
      // dot products take denormals for zeros
      if (tc_record_type(p, tc_rec_in(r)[0]) == TC_BF16) b.absolute += 2 * terms * f.smallest;
      break;
    case TC_OP_CONV:
    case TC_OP_CONV_INPUT:
    case TC_OP_CONV_WEIGHT:
      terms = (double)terms_of_conv(p, node);
      if (type == TC_F32 && tc_winograd_allowed()) b.of_greatest = 0x1p-17;
      b.sized = true, b.per_size = ((double)tc_chain_additions((int64_t)terms) + 1) * sum_epsilon;
      break;
    case TC_OP_PROD:
      terms = (double)x->count / (double)TC_MAX_OF(tc_record_shape(p, node)->count, 1);
      b.sized = true, b.relative += terms * sum_epsilon;
      break;
    case TC_OP_SOFTMAX:
    case TC_OP_LOG_SOFTMAX:
      terms = x->d.rank ? additions_of_sum(&x->d, UINT32_C(1) << tc_rec_attr(r)[0]) : 1;
      b.by_log = tc_rec_op(r) == TC_OP_SOFTMAX;
      *(b.by_log ? &b.relative : &b.absolute) += (MOST_ULP + terms) * sum_epsilon;
      if (tc_compiler_isa()->lookups) b.absolute += 0x1p-126;  // its smallest powers are zeros
      break;
    case TC_OP_ATTENTION:
    case TC_OP_ATTENTION_LSE:
    case TC_OP_ATTENTION_DQ:
    case TC_OP_ATTENTION_DK:
    // scores are sums over a head, rounded before they are exponents; what is summed may cancel
    case TC_OP_ATTENTION_DV:
      terms = (double)x->d.dim[3] + additions_in_attention(p, node, x->d.dim[2]) +
              additions_in_attention(p, node, tc_record_shape(p, tc_rec_in(r)[1])->d.dim[2]);
      b.of_greatest = f.epsilon + 4 * terms * sum_epsilon;
      if (type == TC_F32 && tc_winograd_allowed() && tc_compiler_isa()->pairs)
        b.of_greatest = fmax(b.of_greatest, 0x1p-15);
      break;
    case TC_OP_SIN:
    case TC_OP_COS:  // errors near their zeros are absolute
    case TC_OP_GELU:
    case TC_OP_GELU_TANH: b.absolute += sum_epsilon; break;  // below 0
    case TC_OP_RANDN: b.absolute += 6 * sum_epsilon; break;  // a cosine near its zeros, times a radius below 6
    default: break;
  }
  return b;
}

static double greatest_of(tc_type type, const void *at, int64_t count) {
  double greatest = 0;
  for (int64_t i = 0; i < count; i++) greatest = fmax(greatest, fabs(tc_get_f64(type, at, i)));
  return isfinite(greatest) ? greatest : 0;
}

// dq and dk are sums of scale (dout v - delta) times keys or queries. Where the difference cancels
// everywhere, as with one key, delta tells its former size.
static double cancelled(const tc_plan *p, uint32_t node, void *const *operand) {
  enum { Q, K, DELTA = 5, SCALE = 6 };
  const tc_rec *r = tc_plan_rec(p, node);
  if (tc_rec_op(r) != TC_OP_ATTENTION_DQ && tc_rec_op(r) != TC_OP_ATTENTION_DK) return 0;
  const int factors[] = {tc_rec_op(r) == TC_OP_ATTENTION_DQ ? K : Q, DELTA, SCALE};
  double matmul = 1;
  for (int i = 0; i < 3; i++) {
    uint32_t in = tc_rec_in(r)[factors[i]];
    matmul *= greatest_of(tc_record_type(p, in), operand[factors[i]], tc_record_shape(p, in)->count);
  }
  return matmul;
}

static double within(double v, const format *f) {
  return isinf(v) ? copysign(f->largest, v) : v;
}

// size: NULL where the bound needs none.
static bool is_near(tc_type type, const bound *b, const void *got, const void *want, const void *size, int64_t i) {
  if (!tc_type_is_float(type)) return tc_get_i64(type, got, i) == tc_get_i64(type, want, i);
  double x = tc_get_f64(type, got, i), y = tc_get_f64(type, want, i), s = size ? tc_get_f64(type, size, i) : 0;
  if (x == y || isinf(s)) return true;
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  format f = format_of(type);
  double allowed = b->relative * fabs(within(y, &f)) + b->per_size * s + b->absolute;
  if (b->by_log && y > 0) allowed += fabs(log(y)) * (type == TC_F64 ? 0x1p-52 : 0x1p-23) * y;
  return fabs(within(x, &f) - within(y, &f)) <= allowed;
}

static bool is_same(tc_type type, const void *got, const void *want, int64_t i) {
  if (!tc_type_is_float(type)) return tc_get_i64(type, got, i) == tc_get_i64(type, want, i);
  double x = tc_get_f64(type, got, i), y = tc_get_f64(type, want, i);
  return x == y || (isnan(x) && isnan(y));
}

// Compares a record's value and writes a line if it differs. b: NULL for the same bits.
static bool differs(const tc_plan *p, uint32_t node, const void *got, const void *want, const bound *b,
                    const void *size, FILE *to) {
  tc_type type = tc_record_type(p, node);
  int64_t count = tc_record_shape(p, node)->count, n_wrong = 0, first = 0;
  char dims[128];
  bound here = b ? *b : (bound){0};
  if (here.of_greatest > 0) here.absolute += here.of_greatest * greatest_of(type, want, count);
  for (int64_t i = 0; i < count; i++)
    if (!(b ? is_near(type, &here, got, want, size, i) : is_same(type, got, want, i)) && n_wrong++ == 0) first = i;
  if (!n_wrong) return false;
  fprintf(to, "%%%u = %s %s%s: %lld of %lld elements differ; element %lld is %.9g, %s %.9g\n", node,
          tc_op_names[tc_rec_op(tc_plan_rec(p, node))], tc_type_name(type),
          tc_dims_text(&tc_record_shape(p, node)->d, dims, sizeof dims), (long long)n_wrong, (long long)count,
          (long long)first, tc_get_f64(type, got, first), b ? "by the reference" : "op by op",
          tc_get_f64(type, want, first));
  return true;
}

// ---- Running records one by one ----

// Size of an operand's element. Sums round in proportion to the sum of absolute values. A partial
// product cannot reach zero or infinity in any order if the product of max(|v|, 1/|v|) is finite.
static double size_of(tc_op op, double v) {
  return op == TC_OP_PROD ? fmax(fabs(v), 1 / fabs(v)) : fabs(v);
}

static bool run_size(const tc_records *v, uint32_t node, void *const *operand, tc_buffer **out) {
  const tc_plan *p = v->plan;
  const tc_rec *r = tc_plan_rec(p, node);
  tc_buffer *sizes[2] = {NULL};
  void *ptr[2];
  bool ok = true;
  for (int i = 0; i < tc_rec_arity(r) && ok; i++) {
    uint32_t in = tc_rec_in(r)[i];
    ok = tc_buffer_create(tc_record_bytes(p, in), &sizes[i]) == TC_OK;
    for (int64_t k = 0; ok && k < tc_record_shape(p, in)->count; k++)
      tc_set_f64(tc_record_type(p, in), sizes[i]->ptr, k,
                 size_of(tc_rec_op(r), tc_get_f64(tc_record_type(p, in), operand[i], k)));
    if (ok) ptr[i] = sizes[i]->ptr;
  }
  ok = ok && tc_records_run(v, node, TC_DEVICE_REF, ptr, out);
  for (int i = 0; i < 2; i++) tc_buffer_release(sizes[i]);
  return ok;
}

// Runs and checks one record. Operands are released after their last reader.
static bool check_record(tc_verified *v, uint32_t node, FILE *to) {
  tc_records *x = &v->records;
  const tc_plan *p = x->plan;
  const tc_rec *r = tc_plan_rec(p, node);
  void *operand[TC_REF_MAX_IN], *seen[TC_REF_MAX_IN];  // on the plan's device; where the host can read them
  tc_buffer *want = NULL, *size = NULL;
  for (int i = 0; i < tc_rec_arity(r); i++) {
    operand[i] = tc_records_at(x, tc_rec_in(r)[i]);
    if (!(seen[i] = tc_records_look(x, tc_rec_in(r)[i]))) return false;
  }
  bound b = bound_of(p, node);
  bool ok = tc_records_run(x, node, (tc_device)p->dev[node], operand, &x->value[node]);
  // how far apart results of a loop may be is not known; its runs alone are compared
  if (ok && tc_rec_op(r) == TC_OP_CONTROL) return tc_records_pass(x, node), true;
  ok = ok && tc_records_run(x, node, TC_DEVICE_REF, seen, &want);
  const void *got = ok ? tc_records_look(x, node) : NULL;
  ok = got != NULL;
  if (ok && memcmp(got, want->ptr, tc_record_bytes(p, node)) != 0) {
    b.absolute += b.of_greatest * cancelled(p, node, seen);
    if (b.sized && tc_type_is_float(tc_record_type(p, node))) ok = run_size(x, node, seen, &size);
    v->n_wrong += ok && differs(p, node, got, want->ptr, &b, size ? size->ptr : NULL, to);
  }
  tc_buffer_release(want);
  tc_buffer_release(size);
  if (ok) tc_records_pass(x, node);
  return ok;
}

// Whether the node is a leaf that others hold, or that recipes and history of this run will read.
static bool must_stay(const tc_plan *p, uint32_t node) {
  return p->leaf_of[node] != TC_LEAF_NONE && (p->hold_leaf[p->leaf_of[node]] || !(p->flag[node] & TC_NODE_SOLE));
}

// Hashes a leaf's present content. False if it cannot be read.
static bool hash_of(const tc_records *x, uint32_t node, tc_hash *out) {
  tc_buffer *copy;
  size_t bytes = tc_record_bytes(x->plan, node);
  const void *at = tc_records_copy(x, x->leaf[x->plan->leaf_of[node]], bytes, &copy);
  if (at) *out = tc_hash_bytes(at, bytes);
  tc_buffer_release(copy);
  return at != NULL;
}

static bool run_records(tc_verified *v, const tc_plan *p, void *const *leaf, const uint64_t *arg, FILE *to) {
  v->leaf = tc_calloc(p->n_node + 1, sizeof *v->leaf);
  if (!tc_records_init(&v->records, p, leaf, arg) || !v->leaf) return false;
  for (uint32_t n = 0; n < p->n_node; n++)
    if (v->records.n_readers[n] && p->leaf_of[n] == TC_LEAF_NONE && !check_record(v, n, to)) return false;
  for (uint32_t n = 0; n < p->n_node; n++)
    if (must_stay(p, n) && !hash_of(&v->records, n, &v->leaf[n])) return false;
  return true;
}

tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to) {
  if (!is_compared(plan)) return NULL;
  tc_error_mark before = tc_error_now();
  tc_verified *v = tc_calloc(1, sizeof *v);
  if (v && run_records(v, plan, leaf, arg, to)) return v;
  if (v) destroy_verified(v);
  tc_log_line(TC_LOG_WARN, "TC_VERIFY: a plan of %u nodes was not compared: %s", plan->n_node,
              tc_error_now().id != before.id ? tc_last_error()->message : "a record could not be run alone");
  (void)tc_error_tell(before);
  return NULL;
}

uint32_t tc_verify_end(const tc_plan *plan, void *const *leaf, void *const *out, tc_verified *v, bool ran, FILE *to) {
  uint32_t n_wrong = v->n_wrong;
  v->records.leaf = leaf;
  for (uint32_t i = 0; ran && i < plan->n_out; i++) {
    uint32_t node = plan->out[i].node;
    tc_buffer *copy;
    const void *got = tc_records_copy(&v->records, out[i], tc_record_bytes(plan, node), &copy),
               *want = tc_records_look(&v->records, node);
    if (got && want && memcmp(got, want, tc_record_bytes(plan, node)) != 0)
      n_wrong += differs(plan, node, got, want, NULL, NULL, to);
    tc_buffer_release(copy);
  }
  for (uint32_t n = 0; ran && n < plan->n_node; n++) {
    if (!must_stay(plan, n)) continue;
    tc_hash now;
    if (!hash_of(&v->records, n, &now) || (now.lo == v->leaf[n].lo && now.hi == v->leaf[n].hi)) continue;
    fprintf(to, "%%%u = leaf: written over, though its old content is still needed\n", n);
    n_wrong++;
  }
  destroy_verified(v);
  return ran ? n_wrong : 0;
}
