// Runs records one by one, and reports where results differ, and by how much. See verify.h.
#include "lowering/program/verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "device/gpu.h"
#include "kernels/ref/ref.h"
#include "lazy/sync/plan_build.h"
#include "lowering/tiling/summation.h"
#include "lowering/target/cpu_target.h"
#include "lowering/graph/graph.h"
#include "lowering/program/run.h"
#include "lowering/tiling/winograd.h"
#include "runtime/arena.h"
#include "runtime/log.h"

#define MOST_ULP \
  16  // no operation is further from the reference, in units in the last place of its result, but for long sums
#define MOST_HALF_ULP 1  // likewise for f16 and bf16, which are computed in f32 and rounded once

struct tc_verified {
  tc_gpu *gpu;  // the GPU that holds values and leaves; NULL: the host
  tc_buffer **value;  // per node: its record's value; NULL for leaves, and after its last reader
  // per node, leaves too: a host copy of a GPU's value; NULL until used, and after its last reader
  tc_buffer **seen;
  uint32_t *n_readers;  // per node: records and outputs still to come
  tc_hash *leaf;  // per leaf node that must keep its content: hash of the content before the run
  uint32_t n_wrong;
};

static void destroy_verified(const tc_plan *p, tc_verified *v) {
  for (uint32_t n = 0; v->value && n < p->n_node; n++) tc_buffer_release(v->value[n]);
  for (uint32_t n = 0; v->seen && n < p->n_node; n++) tc_buffer_release(v->seen[n]);
  tc_free(v->value);
  tc_free(v->seen);
  tc_free(v->n_readers);
  tc_free(v->leaf);
  tc_free(v);
}

static bool is_fused(const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++)
    if (!tc_device_generates((tc_device)p->dev[n])) return false;
  return true;
}

static tc_type type_of(const tc_plan *p, uint32_t node) {
  return (tc_type)tc_plan_rec(p, node)->dtype;
}

static const tc_shape_info *shape_of(const tc_plan *p, uint32_t node) {
  return tc_dims_at(tc_plan_rec(p, node)->shape);
}

static size_t bytes_of(const tc_plan *p, uint32_t node) {
  return (size_t)shape_of(p, node)->count * tc_type_bytes(type_of(p, node));
}

const void *tc_verify_look(tc_gpu *gpu, const void *at, size_t bytes, tc_buffer **out) {
  *out = NULL;
  if (!gpu) return at;
  if (tc_buffer_create(bytes, out) != TC_OK) return NULL;
  if (tc_gpu_read(gpu, (*out)->ptr, at, bytes) == TC_OK) return (*out)->ptr;
  tc_buffer_release(*out);
  *out = NULL;
  return NULL;
}

// The host's view of a node's value, kept until its last reader.
static void *look_at(const tc_plan *p, uint32_t node, tc_verified *v, void *const *leaf) {
  void *at = p->leaf_of[node] != TC_LEAF_NONE ? leaf[p->leaf_of[node]] : v->value[node]->ptr;
  if (!v->gpu) return at;
  if (!v->seen[node] && !tc_verify_look(v->gpu, at, bytes_of(p, node), &v->seen[node])) return NULL;
  return v->seen[node]->ptr;
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
  const int64_t allocation = 512, least_allocation = 96;
  return tc_device_kind_of((tc_device)p->dev[node]) == TC_DEVICE_GPU
             ? (double)n
             : (double)(TC_MIN(n, allocation) + n / least_allocation);
}

// The most terms of one element of a convolution.
static int64_t terms_of_conv(const tc_plan *p, uint32_t node) {
  const tc_rec *r = tc_plan_rec(p, node);
  const tc_shape_info *b = shape_of(p, tc_rec_in(r)[1]);
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
  const tc_shape_info *x = tc_rec_arity(r) ? shape_of(p, tc_rec_in(r)[0]) : NULL;
  switch (tc_rec_op(r)) {
    case TC_OP_SUM:
      terms = additions_of_sum(&x->d, (uint32_t)(tc_rec_attr(r)[0] & 255));
      b.sized = true, b.per_size = terms * sum_epsilon;
      break;
    case TC_OP_MATMUL:
      terms = (double)x->d.dim[x->d.rank - 1];
      b.sized = true, b.per_size = ((double)tc_chain_additions((int64_t)terms) + 1) * sum_epsilon;
      // dot products take denormals for zeros
      if (type_of(p, tc_rec_in(r)[0]) == TC_BF16) b.absolute += 2 * terms * f.smallest;
      break;
    case TC_OP_CONV:
    case TC_OP_CONV_INPUT:
    case TC_OP_CONV_WEIGHT:
      terms = (double)terms_of_conv(p, node);
      if (type == TC_F32 && tc_winograd_allowed()) b.of_greatest = 0x1p-17;
      b.sized = true, b.per_size = ((double)tc_chain_additions((int64_t)terms) + 1) * sum_epsilon;
      break;
    case TC_OP_PROD:
      terms = (double)x->count / (double)TC_MAX_OF(shape_of(p, node)->count, 1);
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
              additions_in_attention(p, node, shape_of(p, tc_rec_in(r)[1])->d.dim[2]);
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
    matmul *= greatest_of(type_of(p, in), operand[factors[i]], shape_of(p, in)->count);
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
  tc_type type = type_of(p, node);
  int64_t count = shape_of(p, node)->count, n_wrong = 0, first = 0;
  char dims[128];
  bound here = b ? *b : (bound){0};
  if (here.of_greatest > 0) here.absolute += here.of_greatest * greatest_of(type, want, count);
  for (int64_t i = 0; i < count; i++)
    if (!(b ? is_near(type, &here, got, want, size, i) : is_same(type, got, want, i)) && n_wrong++ == 0) first = i;
  if (!n_wrong) return false;
  fprintf(to, "%%%u = %s %s%s: %lld of %lld elements differ; element %lld is %.9g, %s %.9g\n", node,
          tc_op_names[tc_rec_op(tc_plan_rec(p, node))], tc_type_name(type),
          tc_dims_text(&shape_of(p, node)->d, dims, sizeof dims), (long long)n_wrong, (long long)count,
          (long long)first, tc_get_f64(type, got, first), b ? "by the reference" : "op by op",
          tc_get_f64(type, want, first));
  return true;
}

// ---- Running records one by one ----

bool tc_verify_run_record(const tc_plan *p, uint32_t node, tc_device device, void *const *operand, const uint64_t *arg,
                          tc_buffer **out) {
  tc_plan *q = NULL;
  *out = NULL;
  bool ok = tc_plan_of_record(p, node, device, &q) == TC_OK &&
            tc_buffer_create_on(device, bytes_of(p, node), out) == TC_OK &&
            tc_program_launch(q, operand, &(*out)->ptr, arg + p->arg_at[node], NULL, NULL, NULL) == TC_OK;
  tc_plan_release(q);
  return ok;
}

// Size of an operand's element. Sums round in proportion to the sum of absolute values. A partial
// product cannot reach zero or infinity in any order if the product of max(|v|, 1/|v|) is finite.
static double size_of(tc_op op, double v) {
  return op == TC_OP_PROD ? fmax(fabs(v), 1 / fabs(v)) : fabs(v);
}

static bool run_size(const tc_plan *p, uint32_t node, void *const *operand, const uint64_t *arg, tc_buffer **out) {
  const tc_rec *r = tc_plan_rec(p, node);
  tc_buffer *sizes[2] = {NULL};
  void *ptr[2];
  bool ok = true;
  for (int i = 0; i < tc_rec_arity(r) && ok; i++) {
    uint32_t in = tc_rec_in(r)[i];
    ok = tc_buffer_create(bytes_of(p, in), &sizes[i]) == TC_OK;
    for (int64_t k = 0; ok && k < shape_of(p, in)->count; k++)
      tc_set_f64(type_of(p, in), sizes[i]->ptr, k, size_of(tc_rec_op(r), tc_get_f64(type_of(p, in), operand[i], k)));
    if (ok) ptr[i] = sizes[i]->ptr;
  }
  ok = ok && tc_verify_run_record(p, node, TC_DEVICE_REF, ptr, arg, out);
  for (int i = 0; i < 2; i++) tc_buffer_release(sizes[i]);
  return ok;
}

// operand: where the plan's device has them; seen: where the host can read them.
static bool check_record(const tc_plan *p, uint32_t node, tc_verified *v, void *const *operand, void *const *seen,
                         const uint64_t *arg, FILE *to) {
  tc_buffer *want = NULL, *size = NULL;
  bound b = bound_of(p, node);
  bool ok = tc_verify_run_record(p, node, (tc_device)p->dev[node], operand, arg, &v->value[node]) &&
            tc_verify_run_record(p, node, TC_DEVICE_REF, seen, arg, &want);
  const void *got = ok ? look_at(p, node, v, NULL) : NULL;
  if (ok) ok = got != NULL;
  if (ok && memcmp(got, want->ptr, bytes_of(p, node)) != 0) {
    b.absolute += b.of_greatest * cancelled(p, node, seen);
    if (b.sized && tc_type_is_float(type_of(p, node))) ok = run_size(p, node, seen, arg, &size);
    v->n_wrong += ok && differs(p, node, got, want->ptr, &b, size ? size->ptr : NULL, to);
  }
  tc_buffer_release(want);
  tc_buffer_release(size);
  return ok;
}

// Runs and checks one record. Operands are released after their last reader.
static bool run_node(const tc_plan *p, uint32_t node, tc_verified *v, void *const *leaf, const uint64_t *arg,
                     FILE *to) {
  const tc_rec *r = tc_plan_rec(p, node);
  void *operand[TC_REF_MAX_IN], *seen[TC_REF_MAX_IN];
  for (int i = 0; i < tc_rec_arity(r); i++) {
    uint32_t in = tc_rec_in(r)[i];
    operand[i] = p->leaf_of[in] != TC_LEAF_NONE ? leaf[p->leaf_of[in]] : v->value[in]->ptr;
    if (!(seen[i] = look_at(p, in, v, leaf))) return false;
  }
  if (!check_record(p, node, v, operand, seen, arg, to)) return false;
  for (int i = 0; i < tc_rec_arity(r); i++) {
    uint32_t in = tc_rec_in(r)[i];
    if (--v->n_readers[in]) continue;
    tc_buffer_release(v->value[in]);
    if (v->seen) tc_buffer_release(v->seen[in]);
    v->value[in] = NULL;
    if (v->seen) v->seen[in] = NULL;
  }
  return true;
}

// Whether the node is a leaf that others hold, or that recipes and history of this run will read.
static bool must_stay(const tc_plan *p, uint32_t node) {
  return p->leaf_of[node] != TC_LEAF_NONE && (p->hold_leaf[p->leaf_of[node]] || !(p->flag[node] & TC_NODE_SOLE));
}

// Hashes a leaf's present content. False if it cannot be read.
static bool hash_of(const tc_plan *p, uint32_t node, const tc_verified *v, void *const *leaf, tc_hash *out) {
  tc_buffer *copy;
  const void *at = tc_verify_look(v->gpu, leaf[p->leaf_of[node]], bytes_of(p, node), &copy);
  if (at) *out = tc_hash_bytes(at, bytes_of(p, node));
  tc_buffer_release(copy);
  return at != NULL;
}

static bool run_records(const tc_plan *p, tc_verified *v, void *const *leaf, const uint64_t *arg, FILE *to) {
  v->value = tc_calloc(p->n_node + 1, sizeof *v->value);
  v->n_readers = tc_calloc(p->n_node + 1, sizeof *v->n_readers);
  v->leaf = tc_calloc(p->n_node + 1, sizeof *v->leaf);
  tc_device d = p->n_node ? (tc_device)p->dev[0] : TC_DEVICE_CPU;
  if (tc_device_memory(d) != TC_DEVICE_CPU) {
    v->seen = tc_calloc(p->n_node + 1, sizeof *v->seen);
    if (!v->seen || tc_gpu_get(d, &v->gpu) != TC_OK) return false;
  }
  if (!v->value || !v->n_readers || !v->leaf) return false;
  for (uint32_t n = p->n_node; n-- > 0;) {
    if (p->out_of[n] != TC_LEAF_NONE) v->n_readers[n]++;
    const tc_rec *r = tc_plan_rec(p, n);
    for (int i = 0; v->n_readers[n] && i < tc_rec_arity(r); i++) v->n_readers[tc_rec_in(r)[i]]++;
  }
  for (uint32_t n = 0; n < p->n_node; n++)
    if (v->n_readers[n] && p->leaf_of[n] == TC_LEAF_NONE && !run_node(p, n, v, leaf, arg, to)) return false;
  for (uint32_t n = 0; n < p->n_node; n++)
    if (must_stay(p, n) && !hash_of(p, n, v, leaf, &v->leaf[n])) return false;
  return true;
}

tc_verified *tc_verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to) {
  if (!is_fused(plan)) return NULL;
  tc_error_mark before = tc_error_now();
  tc_verified *v = tc_calloc(1, sizeof *v);
  if (v && run_records(plan, v, leaf, arg, to)) return v;
  if (v) destroy_verified(plan, v);
  tc_log_line(TC_LOG_WARN, "TC_VERIFY: a plan of %u nodes was not compared: %s", plan->n_node,
              tc_error_now().id != before.id ? tc_last_error()->message : "a record could not be run alone");
  (void)tc_error_tell(before);
  return NULL;
}

uint32_t tc_verify_end(const tc_plan *plan, void *const *leaf, void *const *out, tc_verified *v, bool ran, FILE *to) {
  uint32_t n_wrong = v->n_wrong;
  for (uint32_t i = 0; ran && i < plan->n_out; i++) {
    uint32_t node = plan->out[i].node;
    tc_buffer *copy;
    const void *got = tc_verify_look(v->gpu, out[i], bytes_of(plan, node), &copy), *want = look_at(plan, node, v, leaf);
    if (got && want && memcmp(got, want, bytes_of(plan, node)) != 0)
      n_wrong += differs(plan, node, got, want, NULL, NULL, to);
    tc_buffer_release(copy);
  }
  for (uint32_t n = 0; ran && n < plan->n_node; n++) {
    if (!must_stay(plan, n)) continue;
    tc_hash now;
    if (!hash_of(plan, n, v, leaf, &now) || (now.lo == v->leaf[n].lo && now.hi == v->leaf[n].hi)) continue;
    fprintf(to, "%%%u = leaf: written over, though its old content is still needed\n", n);
    n_wrong++;
  }
  destroy_verified(plan, v);
  return ran ? n_wrong : 0;
}
