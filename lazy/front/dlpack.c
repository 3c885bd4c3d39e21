// DLPack: tensors of other libraries in the same process, without a copy.
// Source: dlpack/dlpack.h of github.com/dmlc/dlpack; the array API's __dlpack__.
// Threads: deleters run on any thread, and call nothing that takes a lock of a trace.
// Owner: what is lent holds the value by tc_map_shared until its deleter is called. What is
// borrowed is deleted with the last reference to its buffer.
#define TC_NO_SITES
#include <stdlib.h>
#include <tc/dlpack.h>
#include <tc/io.h>

#include "lazy/front/foreign.h"
#include "lazy/front/operand.h"

static const DLDataType type_of[TC_N_TYPES] = {
    [TC_BOOL] = {kDLBool, 8, 1},  [TC_U8] = {kDLUInt, 8, 1},      [TC_I8] = {kDLInt, 8, 1},
    [TC_I16] = {kDLInt, 16, 1},   [TC_I32] = {kDLInt, 32, 1},     [TC_I64] = {kDLInt, 64, 1},
    [TC_F16] = {kDLFloat, 16, 1}, [TC_BF16] = {kDLBfloat, 16, 1}, [TC_F32] = {kDLFloat, 32, 1},
    [TC_F64] = {kDLFloat, 64, 1},
};

// ---- Lending ----

typedef struct lent {
  void *share;
  int64_t shape[TC_MAX_RANK], strides[TC_MAX_RANK];
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
} lent;

static void lent_free(lent *l) {
  tc_unmap_shared(l->share);
  free(l);
}

static void delete_versioned(DLManagedTensorVersioned *m) {
  lent_free(m->manager_ctx);
}

static void delete_legacy(DLManagedTensor *m) {
  lent_free(m->manager_ctx);
}

// The value and its description; NULL after reporting.
static lent *lend(const char *op, tc_tensor t, DLTensor *out, tc_site site) {
  TC_CALLED_AS(op);
  const void *data;
  if (tc_operand_check(op, t, site) != TC_OK) return NULL;
  lent *l = calloc(1, sizeof *l);
  if (l == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory"), NULL;
  if (tc_map_shared_at(t, &data, &l->share, site) != TC_OK) return free(l), NULL;
  tc_dims shape = tc_shape_at(t, site);
  int64_t stride = 1;
  for (int i = shape.rank - 1; i >= 0; i--) {
    l->shape[i] = shape.dim[i], l->strides[i] = stride;
    stride *= TC_MAX_OF(shape.dim[i], 1);
  }
  *out = (DLTensor){(void *)data, {kDLCPU, 0}, shape.rank, type_of[tc_dtype_at(t, site)], l->shape, l->strides, 0};
  return l;
}

DLManagedTensorVersioned *tc_to_dlpack_at(tc_tensor t, tc_site site) {
  DLTensor described;
  lent *l = lend("to_dlpack", t, &described, site);
  if (l == NULL) return NULL;
  l->managed.versioned = (DLManagedTensorVersioned){
      {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, l, delete_versioned, DLPACK_FLAG_BITMASK_READ_ONLY, described};
  return &l->managed.versioned;
}

DLManagedTensor *tc_to_dlpack_legacy_at(tc_tensor t, tc_site site) {
  DLTensor described;
  lent *l = lend("to_dlpack_legacy", t, &described, site);
  if (l == NULL) return NULL;
  l->managed.legacy = (DLManagedTensor){described, l, delete_legacy};
  return &l->managed.legacy;
}

// ---- Borrowing ----

static tc_type find_type(DLDataType d) {
  for (int i = 0; i < TC_N_TYPES; i++)
    if (type_of[i].code == d.code && type_of[i].bits == d.bits && d.lanes == 1) return (tc_type)i;
  return TC_N_TYPES;
}

// Bytes of an unsigned integer that tc lacks and reads as a wider signed one; 0: it is none.
static size_t unsigned_bytes(DLDataType d) {
  bool is_unsigned = d.code == kDLUInt && d.lanes == 1 && d.bits % 8 == 0;
  return is_unsigned && tc_foreign_unsigned(d.bits / 8) != TC_N_TYPES ? d.bits / 8 : 0;
}

static tc_status check_tensor(const char *op, const DLTensor *d, tc_site site) {
  int device = (int)d->device.device_type;
  if (device != kDLCPU && device != kDLCUDAHost && device != kDLROCMHost)
    return tc_fail(TC_ERR_DEVICE, op, site, "the tensor is on DLPack's device %d, not in the host's memory", device);
  tc_type type = unsigned_bytes(d->dtype) ? tc_foreign_unsigned(unsigned_bytes(d->dtype)) : find_type(d->dtype);
  if (type == TC_N_TYPES)
    return tc_fail(TC_ERR_DTYPE, op, site, "tc has no type of DLPack's code %d with %d bits and %d lanes",
                   d->dtype.code, d->dtype.bits, d->dtype.lanes);
  if (d->ndim < 0 || d->ndim > TC_MAX_RANK)
    return tc_fail(TC_ERR_SHAPE, op, site, "rank %d; tc has 0 to %d", d->ndim, TC_MAX_RANK);
  if (d->ndim > 0 && d->shape == NULL) return tc_fail(TC_ERR_ARG, op, site, "shape is NULL");
  tc_dims shape = tc_dims_of((size_t)d->ndim, d->shape);
  char text[96];
  bool ok = true;
  for (int i = 0; i < d->ndim; i++) ok = ok && d->shape[i] >= 0;
  size_t n = ok ? tc_foreign_count(&shape, type) : SIZE_MAX;
  if (n == SIZE_MAX) return tc_fail(TC_ERR_SHAPE, op, site, "%s is no shape", tc_dims_text(&shape, text, sizeof text));
  return n > 0 && d->data == NULL ? tc_fail(TC_ERR_ARG, op, site, "data is NULL") : TC_OK;
}

static tc_tensor borrow(const char *op, const DLTensor *d, void (*release)(void *), void *m, tc_site site) {
  TC_CALLED_AS(op);
  tc_status st = check_tensor(op, d, site);
  if (st != TC_OK) return release(m), tc_poison(st);
  tc_dims shape = tc_dims_of((size_t)d->ndim, d->shape);
  if (unsigned_bytes(d->dtype)) {
    char why[160];
    tc_tensor t = tc_foreign_copy_unsigned((char *)d->data + d->byte_offset, &shape, d->strides,
                                           unsigned_bytes(d->dtype), why, sizeof why, site);
    if (why[0]) t = tc_poison(tc_fail(tc_poison_status(t), op, site, "%s", why));
    release(m);
    return t;
  }
  return tc_foreign_tensor((char *)d->data + d->byte_offset, &shape, d->strides, find_type(d->dtype), TC_READ_ONLY,
                           release, m, site);
}

static void release_versioned(void *arg) {
  DLManagedTensorVersioned *m = arg;
  if (m->deleter) m->deleter(m);
}

static void release_legacy(void *arg) {
  DLManagedTensor *m = arg;
  if (m->deleter) m->deleter(m);
}

tc_tensor tc_from_dlpack_at(DLManagedTensorVersioned *m, tc_site site) {
  const char *op = "from_dlpack";
  if (m == NULL) return tc_poison(tc_fail(TC_ERR_ARG, op, site, "there is no tensor"));
  if (m->version.major != DLPACK_MAJOR_VERSION) {
    tc_fail(TC_ERR_ARG, op, site, "DLPack version %u.%u; tc reads %d.x", m->version.major, m->version.minor,
            DLPACK_MAJOR_VERSION);
    release_versioned(m);
    return tc_poison(TC_ERR_ARG);
  }
  return borrow(op, &m->dl_tensor, release_versioned, m, site);
}

tc_tensor tc_from_dlpack_legacy_at(DLManagedTensor *m, tc_site site) {
  if (m == NULL) return tc_poison(tc_fail(TC_ERR_ARG, "from_dlpack_legacy", site, "there is no tensor"));
  return borrow("from_dlpack_legacy", &m->dl_tensor, release_legacy, m, site);
}
