// Indexed reference kernels. All are one of two loops over a box, with a position from an index
// tensor. Take reads x there, put writes or adds to out. Each op only chooses the strides with
// which its operands lie in the box.
//
// Invariants: spans ascend in row-major order. Of several writes to one place the last wins, and
// adds happen in index order. Every add is rounded to the type, as in PyTorch. f16 and bf16 are
// summed in double and rounded once, because their sums would stop growing early. An index in
// [-extent, extent) is valid; the first other one ends the kernel with TC_ERR_INDEX. A put can be
// shared, and then each call makes a slice of the result. Along the indexed axis it walks every
// index and keeps those that point into its slice.
// Threads: thread-safe, pure.
// Owner: nothing but its scratch.

#include "kernels/ref/convert.h"
#include "kernels/ref/share.h"
#include "kernels/ref/walk.h"
#include "runtime/arena.h"

// A box over index, data (a take's out or a put's src) and target (the indexed tensor). The
// target's stride along axis is applied to the index instead.
typedef struct indexing {
  const char *name;
  const tc_view *index;
  tc_walk walk;  // operand 0 index, 1 data, 2 target
  int64_t extent, axis_stride;
  int64_t first, count;  // of a put: target is elements [first, first + count) of the axis
} indexing;

static tc_status resolve(const indexing *x, int64_t n, int64_t *index) {
  for (int64_t i = 0; i < n; i++) {
    if (TC_UNLIKELY(index[i] < -x->extent || index[i] >= x->extent)) {
      return tc_fail(TC_ERR_INDEX, x->name, 0, "index %lld is out of range for extent %lld",
                     (long long)tc_index_text(index[i], x->extent), (long long)x->extent);
    }
    if (index[i] < 0) index[i] += x->extent;
  }
  return TC_OK;
}

// Writes the present span's target offsets into at. If the index is the same over the span (rows of
// index_select), only at[0] is valid.
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

// Expands X for every size of element.
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

static tc_status take_elements(indexing *x, const tc_view *target, const tc_view *out) {
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

// Writes the present span's target offsets into at, and for each its number in the span into of.
// Those outside the slice are left out. As in locate, rows have one.
static tc_status locate_kept(const indexing *x, int64_t *at, int64_t *of, int64_t *n_kept) {
  const tc_walk *w = &x->walk;
  int64_t n = is_row(x) ? 1 : w->n, kept = 0;
  tc_load_i64(x->index->type, x->index->ptr, w->offset[0], w->step[0], n, at);
  TC_TRY(resolve(x, n, at));
  for (int64_t i = 0; i < n; i++) {  // without a branch: indices are often random
    int64_t row = at[i] - x->first;
    at[kept] = w->offset[2] + row * x->axis_stride + i * w->step[2], of[kept] = i;
    kept += (uint64_t)row < (uint64_t)x->count;
  }
  *n_kept = kept;
  return TC_OK;
}

static void write_span(int64_t elem_bytes, const tc_walk *w, void *target, const void *src, const int64_t *at,
                       const int64_t *of, int64_t n) {
  switch (elem_bytes) {
#define X(size, ctype) \
  case size: \
    for (int64_t i = 0; i < n; i++) \
      ((ctype *)target)[at[i]] = ((const ctype *)src)[w->offset[1] + of[i] * w->step[1]]; \
    break;
    EACH_SIZE(X)
#undef X
    default: break;
  }
}

// Unsigned types wrap as integers should. f64 also takes the narrow floats of add_wide.
static void add_span(const tc_walk *w, const tc_view *target, const tc_view *src, const int64_t *at, const int64_t *of,
                     int64_t n) {
#define ADD(ctype, operator) \
  { \
    ctype *to = target->ptr; \
    const ctype *from = (const ctype *)src->ptr + w->offset[1]; \
    for (int64_t i = 0; i < n; i++) to[at[i]] = (ctype)(to[at[i]] operator from[of[i] * w->step[1]]); \
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
      for (int64_t i = 0; i < n; i++) to[at[i]] += x[of[i]];
      break;
    }
    default: TC_ASSERT(!"f16 and bf16 are added up in f64");
  }
#undef ADD
}

// Adds rows of index_add in f32, dense on both sides: the gradient of an embedding.
static bool add_row(const tc_walk *w, const tc_view *target, const tc_view *src, int64_t at) {
  if (target->type != TC_F32 || w->step[1] != 1 || w->step[2] != 1) return false;
  float *to = (float *)target->ptr + at;
  const float *from = (const float *)src->ptr + w->offset[1];
  for (int64_t i = 0; i < w->n; i++) to[i] += from[i];
  return true;
}

static tc_status put_elements(indexing *x, const tc_view *target, const tc_view *src, bool adds) {
  int64_t elem_bytes = tc_ref_type_bytes(src->type), at[TC_SPAN], of[TC_SPAN], n;
  tc_walk *w = &x->walk;
  while (tc_walk_next(w)) {
    TC_TRY(locate_kept(x, at, of, &n));
    if (is_row(x) && n == 1) {
      if (adds && add_row(w, target, src, at[0])) continue;
      for (; n < w->n; n++) at[n] = at[0] + n * w->step[2], of[n] = n;
    }
    if (adds)
      add_span(w, target, src, at, of, n);
    else
      write_span(elem_bytes, w, target->ptr, src->ptr, at, of, n);
  }
  return TC_OK;
}

// ---- Where the operands lie ----

// The box is the index's. Data and target lie along its axes, target except for the indexed one.
// Rank 0 acts as one axis of extent 1.
static void along_index(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target,
                        uint64_t axis) {
  *x = (indexing){.name = name, .index = index, .extent = 1, .count = 1};
  int64_t stride[TC_MAX_RANK];
  for (int d = 0; d < index->rank; d++) stride[d] = target->stride[d];
  if (index->rank > 0) {
    x->extent = x->count = target->dim[axis], x->axis_stride = target->stride[axis];
    stride[axis] = 0;
  }
  tc_walk_init(&x->walk, index->rank, index->dim, TC_SPAN);
  tc_walk_add(&x->walk, index->stride);
  tc_walk_add(&x->walk, data->stride);
  tc_walk_add(&x->walk, stride);
  tc_walk_begin(&x->walk);
}

// The box is data's: target's axes with the index's own in place of axis.
static void along_axis(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target,
                       uint64_t axis) {
  *x = (indexing){.name = name, .index = index, .extent = 1, .count = 1};
  int64_t index_stride[TC_MAX_RANK] = {0}, target_stride[TC_MAX_RANK] = {0};
  int first = (int)axis, d = 0;
  if (target->rank > 0) x->extent = x->count = target->dim[axis], x->axis_stride = target->stride[axis];
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

typedef void place_fn(indexing *x, const char *name, const tc_view *index, const tc_view *data, const tc_view *target,
                      uint64_t axis);

// ---- The kernels ----

tc_status tc_ref_gather(const tc_ref_call *call) {
  indexing x;
  along_index(&x, "gather", &call->in[1], &call->out, &call->in[0], call->attr[0]);
  return take_elements(&x, &call->in[0], &call->out);
}

tc_status tc_ref_index_select(const tc_ref_call *call) {
  indexing x;
  along_axis(&x, "index_select", &call->in[1], &call->out, &call->in[0], call->attr[0]);
  return take_elements(&x, &call->in[0], &call->out);
}

// The operands of a put, cut to one share of its result.
typedef struct put_operands {
  const char *name;
  place_fn *place;
  uint64_t axis;
  tc_view x, index, src, out;
  int64_t extent, first;  // of the whole axis; out's first element there
} put_operands;

// Returns the axis of src that lies along axis d of the result, which is not the indexed one.
static int axis_of_src(const put_operands *p, int d) {
  return p->place == along_index || d < (int)p->axis ? d : d - 1 + p->index.rank;
}

#define LONG_ROW 64  // elements; a share that walks every index loses little beside rows of this length

// Returns whether a share is whole rows of the result, which lie together in memory, or a part of
// every row.
static bool cuts_rows(const put_operands *p) {
  int64_t n = 1;
  for (int d = (int)p->axis + 1; d < p->out.rank; d++) n *= p->out.dim[d];
  return p->place == along_axis && n >= LONG_ROW;
}

// Cuts the operands to the share; false: there is nothing to do. An index tensor may be smaller
// than the result, and src larger than the index.
static bool take_share(put_operands *p, const tc_ref_call *call, const char *name, place_fn *place) {
  tc_share share;
  *p = (put_operands){name, place, call->attr[0], call->in[0], call->in[1], call->in[2], call->out, 1, 0};
  if (p->out.rank > 0) p->extent = p->out.dim[p->axis];
  if (!tc_share_find(call, cuts_rows(p) ? -1 : (int)p->axis, true, &share)) return false;
  if (share.axis < 0) return true;
  p->x = tc_share_slice(&p->x, share.axis, share.lo, share.hi),
  p->out = tc_share_slice(&p->out, share.axis, share.lo, share.hi);
  if (share.axis == (int)p->axis) {
    p->first = share.lo;
    return true;
  }
  int d = axis_of_src(p, share.axis);
  const tc_view *box = place == along_index ? &p->index : &p->src;
  int64_t lo = TC_MIN(share.lo, box->dim[d]), hi = TC_MIN(share.hi, box->dim[d]);
  p->src = tc_share_slice(&p->src, d, lo, hi);
  if (place == along_index) p->index = tc_share_slice(&p->index, d, lo, hi);
  return true;
}

static tc_status put_into(const put_operands *p, const tc_view *target, bool adds) {
  indexing x;
  p->place(&x, p->name, &p->index, &p->src, target, p->axis);
  x.extent = p->extent, x.first = p->first;
  return put_elements(&x, target, &p->src, adds);
}

// Copies x to out (already there if the caller gave x's buffer away), then puts src into it.
static tc_status put_into_copy(const put_operands *p, bool adds) {
  if (p->out.ptr != p->x.ptr) tc_copy_view(&p->out, &p->x);
  return put_into(p, &p->out, adds);
}

// Adds src to a copy of x, for f16 and bf16 in double, rounded at the end. A wrong index leaves the
// result unwritten.
static tc_status add_wide(const put_operands *p) {
  int64_t n = 1;
  tc_view wide = p->out;
  wide.type = TC_F64;
  for (int d = wide.rank; d-- > 0; n *= wide.dim[d]) wide.stride[d] = n;
  wide.ptr = tc_malloc((size_t)TC_MAX_OF(n, 1) * sizeof(double));
  if (!wide.ptr) return tc_fail(TC_ERR_MEMORY, p->name, 0, "no memory for %lld sums", (long long)n);
  tc_ref_call widen = {.n_in = 1, .in = &p->x, .out = wide};
  tc_ref_call narrow = {.n_in = 1, .in = &wide, .out = p->out};
  tc_status st = TC_OK;
  if ((st = tc_ref_cast(&widen)) != TC_OK) goto done;
  if ((st = put_into(p, &wide, true)) != TC_OK) goto done;
  st = tc_ref_cast(&narrow);
done:
  tc_free(wide.ptr);
  return st;
}

static tc_status add_elements(const tc_ref_call *call, const char *name, place_fn *place) {
  put_operands p;
  if (!take_share(&p, call, name, place)) return TC_OK;
  return p.out.type == TC_F16 || p.out.type == TC_BF16 ? add_wide(&p) : put_into_copy(&p, true);
}

tc_status tc_ref_scatter(const tc_ref_call *call) {
  put_operands p;
  return take_share(&p, call, "scatter", along_index) ? put_into_copy(&p, false) : TC_OK;
}

tc_status tc_ref_scatter_add(const tc_ref_call *call) {
  return add_elements(call, "scatter_add", along_index);
}

tc_status tc_ref_index_add(const tc_ref_call *call) {
  return add_elements(call, "index_add", along_axis);
}
