// Indexed reference kernels. All are one of two loops over a box with a position taken from an index tensor: take reads x there, put writes or
// adds to out there. Each op only says with which strides its operands lie in the box.
//
// Always: spans ascend in row-major order, so of several writes to one place the last wins, and adds happen in index order. Every add is rounded
// to the type, as in PyTorch, but f16 and bf16 are added up in double and rounded once, since their sums stop growing early.
// An index in [-extent, extent) counts; the first other one ends the kernel with TC_ERR_INDEX.
// Threads: thread-safe, pure. Own nothing but their scratch.

#include "kernels/ref/convert.h"
#include "kernels/ref/walk.h"
#include "runtime/arena.h"

// A box over index, data (a take's out or a put's src) and target (what is indexed), whose stride along axis is applied to the index instead.
typedef struct indexing {
  const char *name;
  const tc_view *index;
  tc_walk walk;  // operand 0 index, 1 data, 2 target
  int64_t extent, axis_stride;
} indexing;

static tc_status resolve(const indexing *x, int64_t n, int64_t *index) {
  for (int64_t i = 0; i < n; i++) {
    if (TC_UNLIKELY(index[i] < -x->extent || index[i] >= x->extent)) {
      return tc_fail(TC_ERR_INDEX, x->name, 0, "index %lld is out of range for extent %lld", (long long)index[i], (long long)x->extent);
    }
    if (index[i] < 0) index[i] += x->extent;
  }
  return TC_OK;
}

// The present span's target offsets into at. Where the index is the same over the span (rows of index_select), only at[0] is valid.
static tc_status locate(const indexing *x, int64_t *at) {
  const tc_walk *w = &x->walk;
  int64_t n = w->step[0] == 0 ? 1 : w->n;
  tc_load_i64(x->index->type, x->index->ptr, w->offset[0], w->step[0], n, at);
  TC_TRY(resolve(x, n, at));
  for (int64_t i = 0; i < n; i++) at[i] = w->offset[2] + at[i] * x->axis_stride + i * w->step[2];
  return TC_OK;
}

static bool is_row(const indexing *x) {
  return x->walk.step[0] == 0;
}

// For every size of element.
#define EACH_SIZE(X) \
  X(1, uint8_t) \
  X(2, uint16_t) \
  X(4, uint32_t) \
  X(8, uint64_t)

static void take_span(int64_t elem_bytes, const tc_walk *w, void *out, const void *target, const int64_t *at) {
  switch (elem_bytes) {
#define X(size, ctype) \
  case size: \
    for (int64_t i = 0; i < w->n; i++) ((ctype *)out)[w->offset[1] + i * w->step[1]] = ((const ctype *)target)[at[i]]; \
    break;
    EACH_SIZE(X)
#undef X
    default: break;
  }
}

static tc_status take(indexing *x, const tc_view *target, const tc_view *out) {
  int64_t elem_bytes = tc_ref_type_bytes(out->type), at[TC_SPAN];
  tc_walk *w = &x->walk;
  while (tc_walk_next(w)) {
    TC_TRY(locate(x, at));
    if (is_row(x))
      tc_copy_span(elem_bytes, out->ptr, w->offset[1], w->step[1], target->ptr, at[0], w->step[2], w->n);
    else
      take_span(elem_bytes, w, out->ptr, target->ptr, at);
  }
  return TC_OK;
}

static void write_span(int64_t elem_bytes, const tc_walk *w, void *target, const void *src, const int64_t *at) {
  switch (elem_bytes) {
#define X(size, ctype) \
  case size: \
    for (int64_t i = 0; i < w->n; i++) ((ctype *)target)[at[i]] = ((const ctype *)src)[w->offset[1] + i * w->step[1]]; \
    break;
    EACH_SIZE(X)
#undef X
    default: break;
  }
}

// Unsigned types wrap as integers should. f64 also takes the narrow floats of add_wide.
static void add_span(const tc_walk *w, const tc_view *target, const tc_view *src, const int64_t *at) {
#define ADD(ctype, operator) \
  { \
    ctype *to = target->ptr; \
    const ctype *from = (const ctype *)src->ptr + w->offset[1]; \
    for (int64_t i = 0; i < w->n; i++) to[at[i]] = (ctype)(to[at[i]] operator from[i * w->step[1]]); \
    break; \
  }
  switch (target->type) {
    case TC_BOOL: ADD(uint8_t, |)
    case TC_U8:
    case TC_I8: ADD(uint8_t, +)
    case TC_I16: ADD(uint16_t, +)
    case TC_I32: ADD(uint32_t, +)
    case TC_I64: ADD(uint64_t, +)
    case TC_F32: ADD(float, +)
    case TC_F64: {
      double *to = target->ptr, x[TC_SPAN];
      tc_load_f64(src->type, src->ptr, w->offset[1], w->step[1], w->n, x);
      for (int64_t i = 0; i < w->n; i++) to[at[i]] += x[i];
      break;
    }
    default: TC_ASSERT(!"f16 and bf16 are added up in f64");
  }
#undef ADD
}

// Rows of index_add in f32, dense on both sides: the gradient of an embedding.
static bool add_row(const tc_walk *w, const tc_view *target, const tc_view *src, int64_t at) {
  if (target->type != TC_F32 || w->step[1] != 1 || w->step[2] != 1) return false;
  float *to = (float *)target->ptr + at;
  const float *from = (const float *)src->ptr + w->offset[1];
  for (int64_t i = 0; i < w->n; i++) to[i] += from[i];
  return true;
}

static tc_status put(indexing *x, const tc_view *target, const tc_view *src, bool adds) {
  int64_t elem_bytes = tc_ref_type_bytes(src->type), at[TC_SPAN];
  tc_walk *w = &x->walk;
  while (tc_walk_next(w)) {
    TC_TRY(locate(x, at));
    if (is_row(x)) {
      if (adds && add_row(w, target, src, at[0])) continue;
      for (int64_t i = 1; i < w->n; i++) at[i] = at[0] + i * w->step[2];
    }
    if (adds)
      add_span(w, target, src, at);
    else
      write_span(elem_bytes, w, target->ptr, src->ptr, at);
  }
  return TC_OK;
}

// ---- Where the operands lie ----

// The box is the index's; data and target lie along its axes, target but for the axis that is indexed. Rank 0 acts as one axis of extent 1.
static void along_index(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target, uint64_t axis) {
  *x = (indexing){.name = name, .index = index, .extent = 1};
  int64_t stride[TC_MAX_RANK];
  for (int d = 0; d < index->rank; d++) stride[d] = target->stride[d];
  if (index->rank > 0) {
    x->extent = target->dim[axis], x->axis_stride = target->stride[axis];
    stride[axis] = 0;
  }
  tc_walk_init(&x->walk, index->rank, index->dim, TC_SPAN);
  tc_walk_add(&x->walk, index->stride);
  tc_walk_add(&x->walk, data->stride);
  tc_walk_add(&x->walk, stride);
  tc_walk_begin(&x->walk);
}

// The box is data's: target's axes with the index's own in the place of axis.
static void along_axis(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target, uint64_t axis) {
  *x = (indexing){.name = name, .index = index, .extent = 1};
  int64_t index_stride[TC_MAX_RANK] = {0}, target_stride[TC_MAX_RANK] = {0};
  int first = (int)axis, d = 0;
  if (target->rank > 0) x->extent = target->dim[axis], x->axis_stride = target->stride[axis];
  for (; d < first; d++) target_stride[d] = target->stride[d];
  for (int k = 0; k < index->rank; k++, d++) index_stride[d] = index->stride[k];
  for (int k = first + 1; k < target->rank; k++, d++) target_stride[d] = target->stride[k];
  TC_ASSERT(d == data->rank || target->rank == 0);
  tc_walk_init(&x->walk, data->rank, data->dim, TC_SPAN);
  tc_walk_add(&x->walk, index_stride);
  tc_walk_add(&x->walk, data->stride);
  tc_walk_add(&x->walk, target_stride);
  tc_walk_begin(&x->walk);
}

typedef void place_fn(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target, uint64_t axis);

// ---- The kernels ----

tc_status tc_ref_gather(const tc_ref_call *call) {
  indexing x;
  along_index(&x, "gather", &call->in[1], &call->out, &call->in[0], call->attr[0]);
  return take(&x, &call->in[0], &call->out);
}

tc_status tc_ref_index_select(const tc_ref_call *call) {
  indexing x;
  along_axis(&x, "index_select", &call->in[1], &call->out, &call->in[0], call->attr[0]);
  return take(&x, &call->in[0], &call->out);
}

// out = x (already there if the caller gave x's buffer away), then src is put into it.
static tc_status put_into_copy(const tc_ref_call *call, const char *name, place_fn *place, bool adds) {
  const tc_view *out = &call->out;
  if (out->ptr != call->in[0].ptr) {
    tc_ref_call copy = {.n_in = 1, .in = call->in, .out = *out};
    TC_TRY(tc_ref_reshape(&copy));
  }
  indexing x;
  place(&x, name, &call->in[1], &call->in[2], out, call->attr[0]);
  return put(&x, out, &call->in[2], adds);
}

// The same in double for f16 and bf16, rounded at the end. A wrong index leaves the result unwritten.
static tc_status add_wide(const tc_ref_call *call, const char *name, place_fn *place) {
  int64_t n = 1;
  for (int d = 0; d < call->out.rank; d++) n *= call->out.dim[d];
  tc_view wide = call->out;
  wide.type = TC_F64;
  wide.ptr = tc_malloc((size_t)TC_MAX_OF(n, 1) * sizeof(double));
  if (!wide.ptr) return tc_fail(TC_ERR_MEMORY, name, 0, "no memory for %lld sums", (long long)n);
  tc_ref_call widen = {.n_in = 1, .in = call->in, .out = wide};
  tc_ref_call narrow = {.n_in = 1, .in = &wide, .out = call->out};
  tc_status st = TC_OK;
  indexing x;
  place(&x, name, &call->in[1], &call->in[2], &wide, call->attr[0]);
  if ((st = tc_ref_cast(&widen)) != TC_OK) goto done;
  if ((st = put(&x, &wide, &call->in[2], true)) != TC_OK) goto done;
  st = tc_ref_cast(&narrow);
done:
  tc_free(wide.ptr);
  return st;
}

static tc_status add(const tc_ref_call *call, const char *name, place_fn *place) {
  if (call->out.type == TC_F16 || call->out.type == TC_BF16) return add_wide(call, name, place);
  return put_into_copy(call, name, place, true);
}

tc_status tc_ref_scatter(const tc_ref_call *call) {
  return put_into_copy(call, "scatter", along_index, false);
}

tc_status tc_ref_scatter_add(const tc_ref_call *call) {
  return add(call, "scatter_add", along_index);
}

tc_status tc_ref_index_add(const tc_ref_call *call) {
  return add(call, "index_add", along_axis);
}
