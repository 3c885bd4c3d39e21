// A back end of plain loops: the device "tc:toy". Read it from the end, where its table is.
//
// It has memory of its own, which here is malloc's, and takes some sixty ops of floats, integers
// and bools. The CPU runs what it does not take. docs/add-a-back-end.md tells what each function
// must do; tc-conform checks them.
// Build: cc -shared -fPIC -O2 toy.c -o toy.so -lm
// Threads: tc calls one function at a time. Owns nothing but the memory that it hands out.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/backend.h>

// ---- elements ----

static const size_t type_bytes[TC_N_TYPES] = {[TC_BOOL] = 1, [TC_U8] = 1,  [TC_I8] = 1,   [TC_I16] = 2, [TC_I32] = 4,
                                              [TC_I64] = 8,  [TC_F16] = 2, [TC_BF16] = 2, [TC_F32] = 4, [TC_F64] = 8};

static bool is_float(tc_type type) {
  return type == TC_F32 || type == TC_F64;
}

// Of the types that the device takes: all but the 16-bit floats.
static bool is_known(tc_type type) {
  return (unsigned)type < TC_N_TYPES && type != TC_F16 && type != TC_BF16;
}

static double load_float(tc_type type, const void *p, int64_t i) {
  return type == TC_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static int64_t load_int(tc_type type, const void *p, int64_t i) {
  switch (type) {
    case TC_I8: return ((const int8_t *)p)[i];
    case TC_I16: return ((const int16_t *)p)[i];
    case TC_I32: return ((const int32_t *)p)[i];
    case TC_I64: return ((const int64_t *)p)[i];
    default: return ((const uint8_t *)p)[i];
  }
}

// An integer wraps; a bool is whether it is not 0.
static void store_int(tc_type type, void *p, int64_t i, int64_t v) {
  switch (type) {
    case TC_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case TC_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case TC_I8: ((int8_t *)p)[i] = (int8_t)v; break;
    case TC_I16: ((int16_t *)p)[i] = (int16_t)v; break;
    case TC_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case TC_I64: ((int64_t *)p)[i] = v; break;
    case TC_F32: ((float *)p)[i] = (float)v; break;
    default: ((double *)p)[i] = (double)v; break;
  }
}

// A float is rounded once; as an integer it is cut, and as a bool it is whether it is not 0.
static void store_float(tc_type type, void *p, int64_t i, double v) {
  if (type == TC_F32)
    ((float *)p)[i] = (float)v;
  else if (type == TC_F64)
    ((double *)p)[i] = v;
  else if (type == TC_BOOL)
    ((uint8_t *)p)[i] = v != 0;
  else
    store_int(type, p, i, isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v);
}

// ---- indices ----

static int64_t count(const tc_backend_tensor *t) {
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= t->dim[d];
  return n;
}

// Goes on to the next index in row-major order; false after the last one.
static bool next_index(int64_t *index, int rank, const int64_t *dim) {
  for (int d = rank - 1; d >= 0; d--) {
    if (++index[d] < dim[d]) return true;
    index[d] = 0;
  }
  return false;
}

static int64_t offset(const int64_t *index, int rank, const int64_t *stride) {
  int64_t at = 0;
  for (int d = 0; d < rank; d++) at += index[d] * stride[d];
  return at;
}

// ---- what the ops compute ----

typedef struct call {
  const tc_backend_op *op;
  const void *const *in;
  void *out;
  const tc_backend_number *arg;
  const struct row *row;
} call;

typedef double float_fn(double a, double b, double c);
typedef int64_t int_fn(int64_t a, int64_t b, int64_t c);

// A row of the ops below: a loop, and the functions that it calls. NULL: not of floats, or integers.
typedef struct row {
  const char *name;
  tc_backend_result (*run)(const call *c);
  float_fn *of_floats;
  int_fn *of_ints;
} row;

#define FLOATS(name, expression) \
  static double name##_f(double a, double b, double c) { \
    (void)a, (void)b, (void)c; \
    return expression; \
  }
#define INTS(name, expression) \
  static int64_t name##_i(int64_t a, int64_t b, int64_t c) { \
    (void)a, (void)b, (void)c; \
    return (int64_t)(expression); \
  }
#define BOTH(name, expression) FLOATS(name, expression) INTS(name, expression)
#define U(x) ((uint64_t)(x))

// clang-format off
FLOATS(neg, -a) INTS(neg, 0 - U(a))
FLOATS(abs, fabs(a)) INTS(abs, a < 0 ? 0 - U(a) : U(a))
BOTH(sign, (a > 0) - (a < 0))
FLOATS(floor, floor(a))
FLOATS(ceil, ceil(a))
FLOATS(round, rint(a))
FLOATS(trunc, trunc(a))
FLOATS(square, a * a) INTS(square, U(a) * U(a))
FLOATS(sqrt, sqrt(a))
FLOATS(rsqrt, 1 / sqrt(a))
FLOATS(reciprocal, 1 / a)
FLOATS(exp, exp(a))
FLOATS(expm1, expm1(a))
FLOATS(log, log(a))
FLOATS(log1p, log1p(a))
FLOATS(sin, sin(a))
FLOATS(cos, cos(a))
FLOATS(tanh, tanh(a))
FLOATS(sigmoid, a >= 0 ? 1 / (1 + exp(-a)) : exp(a) / (1 + exp(a)))
FLOATS(relu, a > 0 || isnan(a) ? a : 0) INTS(relu, a > 0 ? a : 0)
FLOATS(isnan, isnan(a) != 0) INTS(isnan, 0)
BOTH(logical_not, a == 0)
BOTH(cast, a)
FLOATS(add, a + b) INTS(add, U(a) + U(b))
FLOATS(sub, a - b) INTS(sub, U(a) - U(b))
FLOATS(mul, a * b) INTS(mul, U(a) * U(b))
FLOATS(div, a / b)
FLOATS(pow, pow(a, b))
FLOATS(maximum, a > b || isnan(a) ? a : b) INTS(maximum, a > b ? a : b)
FLOATS(minimum, a < b || isnan(a) ? a : b) INTS(minimum, a < b ? a : b)
BOTH(eq, a == b)
BOTH(ne, a != b)
BOTH(lt, a < b)
BOTH(le, a <= b)
BOTH(gt, a > b)
BOTH(ge, a >= b)
BOTH(logical_and, a != 0 && b != 0)
BOTH(logical_or, a != 0 || b != 0)
BOTH(where, a != 0 ? b : c)
INTS(bitwise_and, a & b)
INTS(bitwise_or, a | b)
// Of reductions: a is the value so far.
FLOATS(sum, a + b) INTS(sum, U(a) + U(b))
FLOATS(prod, a * b) INTS(prod, U(a) * U(b))
FLOATS(max, b > a || isnan(b) ? b : a) INTS(max, b > a ? b : a)
FLOATS(min, b < a || isnan(b) ? b : a) INTS(min, b < a ? b : a)
// clang-format on

// The result of an elementwise op is computed in the last operand's type: double, or int64_t.
    static tc_backend_result elementwise(const call *c) {
  const tc_backend_op *op = c->op;
  const tc_backend_tensor *in = op->in;
  bool floats = is_float(in[op->n_in - 1].type);
  int64_t index[TC_MAX_RANK] = {0}, i = 0;
  do {
    double f[3] = {0};
    int64_t n[3] = {0};
    for (int k = 0; k < op->n_in; k++) {
      int64_t at = offset(index, op->out.rank, in[k].stride);
      if (is_float(in[k].type))
        f[k] = load_float(in[k].type, c->in[k], at);
      else
        f[k] = (double)(n[k] = load_int(in[k].type, c->in[k], at));
    }
    if (floats)
      store_float(op->out.type, c->out, i++, c->row->of_floats(f[0], f[1], f[2]));
    else
      store_int(op->out.type, c->out, i++, c->row->of_ints(n[0], n[1], n[2]));
  } while (next_index(index, op->out.rank, op->out.dim));
  return TC_BACKEND_OK;
}

// ---- values from arguments ----

static void store_number(tc_type type, void *p, int64_t i, tc_backend_number v) {
  if (is_float(type))
    store_float(type, p, i, v.f);
  else
    store_int(type, p, i, v.i);
}

static tc_backend_result full(const call *c) {
  int64_t n = count(&c->op->out);
  for (int64_t i = 0; i < n; i++) store_number(c->op->out.type, c->out, i, c->arg[0]);
  return TC_BACKEND_OK;
}

static tc_backend_result iota(const call *c) {
  int64_t n = count(&c->op->out);
  for (int64_t i = 0; i < n; i++) {
    tc_backend_number v = {.f = c->arg[0].f + c->arg[1].f * (double)i};
    if (!is_float(c->op->out.type)) v.i = (int64_t)(U(c->arg[0].i) + U(c->arg[1].i) * U(i));
    store_number(c->op->out.type, c->out, i, v);
  }
  return TC_BACKEND_OK;
}

// ---- moves: each is a copy between boxes, of which only strides and first elements differ ----

typedef struct box {
  int64_t first, stride[TC_MAX_RANK];
} box;

static box box_of(const tc_backend_tensor *t) {
  box b = {0};
  memcpy(b.stride, t->stride, sizeof b.stride);
  return b;
}

static void copy_box(tc_type type, int rank, const int64_t *dim, void *to, const box *t, const void *from,
                     const box *f) {
  int64_t index[TC_MAX_RANK] = {0};
  size_t bytes = type_bytes[type];
  for (int d = 0; d < rank; d++)
    if (dim[d] <= 0) return;
  do {
    memcpy((char *)to + (size_t)(t->first + offset(index, rank, t->stride)) * bytes,
           (const char *)from + (size_t)(f->first + offset(index, rank, f->stride)) * bytes, bytes);
  } while (next_index(index, rank, dim));
}

static tc_backend_result move(const call *c, const box *from) {
  const tc_backend_tensor *out = &c->op->out;
  box to = box_of(out);
  copy_box(out->type, out->rank, out->dim, c->out, &to, c->in[0], from);
  return TC_BACKEND_OK;
}

static tc_backend_result permute(const call *c) {
  box from = {0};
  for (int d = 0; d < c->op->out.rank; d++) from.stride[d] = c->op->in[0].stride[c->op->attr[0] >> (8 * d) & 255];
  return move(c, &from);
}

static tc_backend_result expand(const call *c) {
  const tc_backend_tensor *in = &c->op->in[0], *out = &c->op->out;
  box from = {0};
  for (int d = 0; d < out->rank; d++) {
    int k = d - (out->rank - in->rank);
    from.stride[d] = k >= 0 && in->dim[k] == out->dim[d] ? in->stride[k] : 0;
  }
  return move(c, &from);
}

// v[start::step] of a tensor.
static box sliced(const tc_backend_tensor *t, const tc_backend_number *start, const uint64_t *step) {
  box b = {0};
  for (int d = 0; d < t->rank; d++) b.first += start[d].i * t->stride[d], b.stride[d] = (int64_t)step[d] * t->stride[d];
  return b;
}

static tc_backend_result slice(const call *c) {
  box from = sliced(&c->op->in[0], c->arg, c->op->attr);
  return move(c, &from);
}

static tc_backend_result write_slice(const call *c) {
  const tc_backend_tensor *part = &c->op->in[1];
  box to = sliced(&c->op->out, c->arg, c->op->attr), from = box_of(part);
  memcpy(c->out, c->in[0], (size_t)count(&c->op->out) * type_bytes[c->op->out.type]);
  copy_box(part->type, part->rank, part->dim, c->out, &to, c->in[1], &from);
  return TC_BACKEND_OK;
}

static tc_backend_result flip(const call *c) {
  const tc_backend_tensor *in = &c->op->in[0];
  box from = box_of(in);
  for (int d = 0; d < in->rank; d++)
    if (c->op->attr[0] >> d & 1) from.first += (in->dim[d] - 1) * in->stride[d], from.stride[d] = -in->stride[d];
  return move(c, &from);
}

// Negative amounts cut.
static tc_backend_result pad(const call *c) {
  const tc_backend_tensor *in = &c->op->in[0];
  box to = box_of(&c->op->out), from = box_of(in);
  int64_t dim[TC_MAX_RANK];
  (void)full(c);
  for (int d = 0; d < in->rank; d++) {
    int64_t low = (int64_t)c->op->attr[d], high = (int64_t)c->op->attr[in->rank + d];
    dim[d] = in->dim[d] + (low < 0 ? low : 0) + (high < 0 ? high : 0);
    *(low < 0 ? &from.first : &to.first) += (low < 0 ? -low : low) * (low < 0 ? in : &c->op->out)->stride[d];
  }
  copy_box(in->type, in->rank, dim, c->out, &to, c->in[0], &from);
  return TC_BACKEND_OK;
}

static tc_backend_result cat(const call *c) {
  box to = box_of(&c->op->out);
  for (int k = 0; k < c->op->n_in; k++) {
    const tc_backend_tensor *in = &c->op->in[k];
    box from = box_of(in);
    copy_box(in->type, in->rank, in->dim, c->out, &to, c->in[k], &from);
    to.first += in->dim[c->op->attr[0]] * to.stride[c->op->attr[0]];
  }
  return TC_BACKEND_OK;
}

// ---- reductions and products ----

// Folds element i into value `to`, which is new if `first`.
static void fold_element(const call *c, int64_t i, tc_backend_number *to, bool first) {
  tc_type type = c->op->in[0].type;
  if (is_float(type)) {
    double v = load_float(type, c->in[0], i);
    to->f = first ? v : isnan(to->f) ? to->f : c->row->of_floats(to->f, v, 0);
  } else {
    int64_t v = load_int(type, c->in[0], i);
    to->i = first ? v : c->row->of_ints(to->i, v, 0);
  }
}

// Folds all elements into those of the result, which are kept wide until the end. Sums of nothing
// are 0, products 1; tc asks for no maximum of nothing.
static tc_backend_result fold(const call *c) {
  const tc_backend_tensor *in = &c->op->in[0], *out = &c->op->out;
  int64_t stride[TC_MAX_RANK] = {0}, index[TC_MAX_RANK] = {0}, n = count(out), wide = 1,
          unit = c->row->of_ints == prod_i;
  tc_backend_number *value = malloc((size_t)n * sizeof *value);
  bool *begun = calloc((size_t)n, sizeof *begun), room = value && begun;
  for (int d = in->rank - 1; d >= 0; d--)
    if (!(c->op->attr[0] >> d & 1)) stride[d] = wide, wide *= in->dim[d];
  for (int64_t i = 0, all = room ? count(in) : 0; i < all; i++, (void)next_index(index, in->rank, in->dim)) {
    int64_t at = offset(index, in->rank, stride);
    fold_element(c, i, &value[at], !begun[at]);
    begun[at] = true;
  }
  for (int64_t k = 0; room && k < n; k++) {
    if (!begun[k])
      store_int(out->type, c->out, k, unit);
    else if (is_float(in->type))
      store_float(out->type, c->out, k, value[k].f);
    else
      store_int(out->type, c->out, k, value[k].i);
  }
  free(value);
  free(begun);
  return room ? TC_BACKEND_OK : TC_BACKEND_NO_MEMORY;
}

// [batch.., m, k] by [batch.., k, n].
static tc_backend_result matmul(const call *c) {
  const tc_backend_tensor *a = &c->op->in[0], *b = &c->op->in[1], *out = &c->op->out;
  int r = out->rank;
  int64_t m = out->dim[r - 2], n = out->dim[r - 1], k = a->dim[r - 1], rows = count(out) / n;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < n; j++) {
      int64_t left = i * k, right = i / m * k * n + j, total = 0;
      double sum = 0;
      for (int64_t p = 0; p < k; p++, left++, right += n) {
        if (is_float(a->type))
          sum += load_float(a->type, c->in[0], left) * load_float(b->type, c->in[1], right);
        else
          total = (int64_t)(U(total) + U(load_int(a->type, c->in[0], left)) * U(load_int(b->type, c->in[1], right)));
      }
      if (is_float(a->type))
        store_float(out->type, c->out, i * n + j, sum);
      else
        store_int(out->type, c->out, i * n + j, total);
    }
  return TC_BACKEND_OK;
}

// ---- the ops that the device takes ----

// clang-format off
#define F(name) {#name, elementwise, name##_f, NULL}
#define I(name) {#name, elementwise, NULL, name##_i}
#define B(name) {#name, elementwise, name##_f, name##_i}
#define FOLD(name) {#name, fold, name##_f, name##_i}
#define OTHER(name) {#name, name, NULL, NULL}
static const row rows[] = {
    OTHER(full), OTHER(iota),
    B(neg), B(abs), B(sign), F(floor), F(ceil), F(round), F(trunc), B(square), F(sqrt), F(rsqrt), F(reciprocal),
    F(exp), F(expm1), F(log), F(log1p), F(sin), F(cos), F(tanh), F(sigmoid), B(relu), B(isnan), B(logical_not), B(cast),
    B(add), B(sub), B(mul), F(div), F(pow), B(maximum), B(minimum), B(eq), B(ne), B(lt), B(le), B(gt), B(ge),
    B(logical_and), B(logical_or), I(bitwise_and), I(bitwise_or), B(where),
    OTHER(permute), OTHER(expand), OTHER(slice), OTHER(flip), OTHER(write_slice), OTHER(pad), OTHER(cat),
    FOLD(sum), FOLD(prod), FOLD(max), FOLD(min), OTHER(matmul),
};
// clang-format on

static const row *find_row(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

// Whether the device runs the op at these types.
static bool supports(void *device, const tc_backend_op *op) {
  const row *r = find_row(op->name);
  (void)device;
  if (!r || !is_known(op->out.type)) return false;
  for (int k = 0; k < op->n_in; k++)
    if (!is_known(op->in[k].type)) return false;
  if (r->run != elementwise) return true;
  return is_float(op->in[op->n_in - 1].type) ? r->of_floats != NULL : r->of_ints != NULL;
}

// ---- the device ----

static char last_text[120];

static tc_backend_result get_memory(void *device, size_t bytes, void **out) {
  (void)device;
  *out = malloc(bytes);
  return *out ? TC_BACKEND_OK : TC_BACKEND_NO_MEMORY;
}

static void free_memory(void *device, void *memory, size_t bytes) {
  (void)device, (void)bytes;
  free(memory);
}

// To, from and within the device.
static tc_backend_result copy(void *device, void *to, const void *from, size_t bytes) {
  (void)device;
  memcpy(to, from, bytes);
  return TC_BACKEND_OK;
}

// What a compiler would be asked for; here the op's row.
static tc_backend_result prepare(void *device, const tc_backend_op *op, void **out_kernel) {
  (void)device;
  *out_kernel = (void *)(uintptr_t)find_row(op->name);
  return TC_BACKEND_OK;
}

static tc_backend_result run(void *device, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                             const tc_backend_number *arg) {
  const call c = {op, in, out, arg, kernel};
  (void)device;
  tc_backend_result r = c.row->run(&c);
  if (r != TC_BACKEND_OK) snprintf(last_text, sizeof last_text, "no memory for the sums of %s", op->name);
  return r;
}

static const char *last_error(void *device) {
  (void)device;
  return last_text;
}

TC_BACKEND_EXPORT const tc_backend *tc_backend_query(uint32_t version) {
  static const tc_backend table = {
      .struct_size = sizeof table,
      .version = TC_BACKEND_VERSION,
      .flags = TC_BACKEND_FORK_SAFE,
      .name = "toy",
      .description = "plain C loops",
      .last_error = last_error,
      .alloc = get_memory,
      .free = free_memory,
      .write = copy,
      .read = copy,
      .copy = copy,
      .supports = supports,
      .prepare = prepare,
      .run = run,
  };
  return version == TC_BACKEND_VERSION ? &table : NULL;
}
