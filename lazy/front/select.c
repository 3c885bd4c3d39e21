// Functions whose result's shape depends on values, and those with several results: nonzero,
// masked_select, unique, allclose, split, meshgrid.
// The idea: what decides the shape is read to the host, which is a sync point. The values
// themselves move by recorded ops where they can, so masked_select is differentiable. Results are
// on their operand's device.
// Threads: thread-compatible.
#define TC_NO_SITES
#include "lazy/front/operand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The dense value of t, the caller's to free; NULL after reporting.
static void *fetch(const char *op, tc_tensor t, tc_site site) {
  size_t bytes = (size_t)tc_numel_at(t, site) * tc_type_bytes(tc_dtype_at(t, site));
  void *data = malloc(bytes ? bytes : 1);
  tc_status st =
      data ? tc_to_host_at(t, data, bytes, site) : tc_fail(TC_ERR_MEMORY, op, site, "no memory for %zu bytes", bytes);
  if (st == TC_OK) return data;
  free(data);
  return NULL;
}

// The handle of a failure that has been reported: the first one stays.
static tc_tensor failed(void) {
  return tc_poison(tc_last_error()->status);
}

// Host data as a tensor where x is.
static tc_tensor beside(tc_tensor x, const void *data, tc_dims shape, tc_type type, tc_site site) {
  tc_tensor out = tc_from_host_at(data, shape, type, site);
  const char *device = tc_device_of_at(x, site);
  return device && tc_is_valid(out) && strcmp(device, tc_device_of_at(out, site)) != 0 ? tc_to_at(out, device, site)
                                                                                       : out;
}

// The flat positions where the bool tensor is true, the caller's to free; NULL after reporting.
static int64_t *positions(const char *op, tc_tensor mask, int64_t *out_n, tc_site site) {
  int64_t n = tc_numel_at(mask, site), k = 0;
  uint8_t *on = fetch(op, mask, site);
  if (on == NULL) return NULL;
  for (int64_t i = 0; i < n; i++) k += on[i] != 0;
  int64_t *at = malloc((size_t)(k ? k : 1) * sizeof *at);
  *out_n = k;
  k = 0;
  for (int64_t i = 0; at && i < n; i++)
    if (on[i]) at[k++] = i;
  free(on);
  if (at == NULL) {
    tc_fail(TC_ERR_MEMORY, op, site, "no memory for %lld positions", (long long)*out_n);
  }
  return at;
}

tc_tensor tc_nonzero_at(tc_tensor x, tc_site site) {
  TC_CALLED_AS("nonzero");
  if (tc_operand_check("nonzero", x, site) != TC_OK) return failed();
  tc_dims d = tc_shape_at(x, site);
  int64_t n, *at = positions("nonzero", tc_cast_at(x, TC_BOOL, site), &n, site);
  int64_t *out = at ? malloc((size_t)TC_MAX_OF(n * d.rank, 1) * sizeof *out) : NULL;
  tc_tensor result = {0, 0};
  if (out) {
    for (int64_t i = 0; i < n; i++) {
      int64_t flat = at[i];
      for (int k = d.rank; k-- > 0; flat /= d.dim[k]) out[i * d.rank + k] = flat % d.dim[k];
    }
    result = beside(x, out, TC_SHAPE(n, d.rank), TC_I64, site);
  } else if (at) {
    tc_fail(TC_ERR_MEMORY, "nonzero", site, "no memory for %lld positions", (long long)n);
  }
  free(out);
  free(at);
  return result.gen ? result : failed();
}

// x and mask broadcast against each other, as in PyTorch.
tc_tensor tc_masked_select_at(tc_tensor x, tc_tensor mask, tc_site site) {
  TC_CALLED_AS("masked_select");
  if (tc_operand_check("masked_select", x, site) != TC_OK || tc_operand_check("masked_select", mask, site) != TC_OK)
    return failed();
  if (tc_dtype_at(mask, site) != TC_BOOL)
    return tc_poison(
        tc_fail(TC_ERR_DTYPE, "masked_select", site, "mask is %s, not bool", tc_type_name(tc_dtype_at(mask, site))));
  // Broadcasting is the ops' own: a select whose branches are both x has the common shape.
  tc_tensor wide = tc_where_at(mask, x, x, site);
  if (!tc_is_valid(wide)) return wide;
  tc_tensor wide_mask = tc_expand_at(mask, tc_shape_at(wide, site), site);
  int64_t n, *at = positions("masked_select", wide_mask, &n, site);
  if (at == NULL) return failed();
  tc_tensor index = beside(x, at, TC_SHAPE(n), TC_I64, site);
  free(at);
  return tc_index_select_at(tc_flatten_at(wide, 0, -1, site), 0, index, site);
}

static int compare_int(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// NaN after everything else.
static int compare_float(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return (x > y) - (x < y);
}

// Sorted as f64 or i64, which hold every element type exactly; NaN counts once, as in NumPy.
tc_tensor tc_unique_at(tc_tensor x, tc_site site) {
  TC_CALLED_AS("unique");
  if (tc_operand_check("unique", x, site) != TC_OK) return failed();
  tc_type type = tc_dtype_at(x, site);
  bool is_float = tc_is_floating(type);
  tc_type wide = is_float ? TC_F64 : TC_I64;
  int (*compare)(const void *, const void *) = is_float ? compare_float : compare_int;
  int64_t n = tc_numel_at(x, site), k = 0;
  char *data = fetch("unique", tc_cast_at(x, wide, site), site);  // 8 bytes an element
  if (data == NULL) return failed();
  qsort(data, (size_t)n, 8, compare);
  for (int64_t i = 0; i < n; i++) {
    if (k > 0 && compare(data + 8 * (k - 1), data + 8 * i) == 0) continue;
    memmove(data + 8 * k++, data + 8 * i, 8);
  }
  tc_tensor out = beside(x, data, TC_SHAPE(k), wide, site);
  free(data);
  return wide == type ? out : tc_cast_at(out, type, site);
}

// |a - b| <= atol + rtol |b| everywhere, or equal (infinities); NaN is close to nothing. Integers
// are compared in f64.
tc_status tc_allclose_at(tc_tensor a, tc_tensor b, double rtol, double atol, bool *out, tc_site site) {
  TC_CALLED_AS("allclose");
  if (out == NULL) return tc_fail(TC_ERR_ARG, "allclose", site, "out is NULL");
  *out = false;
  TC_TRY(tc_operand_check("allclose", a, site));
  TC_TRY(tc_operand_check("allclose", b, site));
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor same = tc_eq_at(a, b, site), x = tc_cast_at(a, TC_F64, site), y = tc_cast_at(b, TC_F64, site);
  tc_tensor apart = tc_abs_at(tc_sub_at(x, y, site), site);
  tc_tensor allowed =
      tc_add_num_at(tc_mul_num_at(tc_abs_at(y, site), tc_num_float(rtol), site), tc_num_float(atol), site);
  tc_tensor near = tc_logical_and_at(tc_le_at(apart, allowed, site), tc_isfinite_at(apart, site), site);
  tc_tensor all = tc_all_at(tc_logical_or_at(same, near, site), TC_ALL, false, site);
  tc_status st = tc_item_at(all, TC_BOOL, out, site);
  tc_scope_end_at(scope, 0);
  return st;
}

tc_status tc_split_at(tc_tensor x, int64_t size, int axis, int n, tc_tensor *out, tc_site site) {
  TC_CALLED_AS("split");
  if (out == NULL) return tc_fail(TC_ERR_ARG, "split", site, "out is NULL");
  for (int i = 0; i < n; i++) out[i] = tc_poison(TC_ERR_STATE);
  TC_TRY(tc_operand_check("split", x, site));
  tc_dims d = tc_shape_at(x, site);
  if (d.rank == 0) d = TC_SHAPE(1), x = tc_reshape_at(x, d, site);  // a scalar has axis 0
  if (axis < -d.rank || axis >= d.rank)
    return tc_fail(TC_ERR_ARG, "split", site, "axis %d is out of range for rank %d", axis, d.rank);
  int64_t extent = d.dim[axis < 0 ? axis + d.rank : axis];
  if (size < 1) return tc_fail(TC_ERR_ARG, "split", site, "size is %lld; at least 1 is needed", (long long)size);
  int64_t pieces = extent ? (extent - 1) / size + 1 : 1;
  if (pieces != n)
    return tc_fail(TC_ERR_ARG, "split", site, "%lld elements in pieces of %lld are %lld pieces, not %d",
                   (long long)extent, (long long)size, (long long)pieces, n);
  for (int i = 0; i < n; i++) {
    int64_t start = i * size, stop = TC_MIN(extent, start + TC_MIN(size, extent));
    out[i] = tc_slice_at(x, axis, start, stop, 1, site);
    if (!tc_is_valid(out[i])) return tc_poison_told(out[i]);
  }
  return TC_OK;
}

tc_status tc_meshgrid_at(int n, const tc_tensor *xs, tc_tensor *out, tc_site site) {
  TC_CALLED_AS("meshgrid");
  if (n < 1 || n > TC_MAX_RANK)
    return tc_fail(TC_ERR_ARG, "meshgrid", site, "%d operands; 1 to %d are needed", n, TC_MAX_RANK);
  if (xs == NULL || out == NULL) return tc_fail(TC_ERR_ARG, "meshgrid", site, "%s is NULL", xs ? "out" : "xs");
  tc_tensor grids[TC_MAX_RANK];  // out may be xs
  tc_dims full = tc_dims_of(0, NULL);
  for (int i = 0; i < n; i++) {
    TC_TRY(tc_operand_check("meshgrid", xs[i], site));
    tc_dims d = tc_shape_at(xs[i], site);
    char text[128];
    if (d.rank > 1)
      return tc_fail(TC_ERR_SHAPE, "meshgrid", site, "operand %d is %s; rank 1 is needed", i,
                     tc_dims_text(&d, text, sizeof text));
    full.dim[full.rank++] = d.rank ? d.dim[0] : 1;
  }
  for (int i = 0; i < n; i++) {
    tc_dims shape = full;
    for (int k = 0; k < n; k++)
      if (k != i) shape.dim[k] = 1;
    grids[i] = tc_expand_at(tc_reshape_at(xs[i], shape, site), full, site);
    if (!tc_is_valid(grids[i])) return tc_poison_told(grids[i]);
  }
  memcpy(out, grids, (size_t)n * sizeof *out);
  return TC_OK;
}
