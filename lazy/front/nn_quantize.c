// Turns the linear layers of a model into layers of bytes. See tc/nn.h and docs/int8.md.
// Invariants: a layer is turned whole: weight goes, weight_int8 and weight_scale come, or nothing
// changes. Threads: thread-compatible, as the list.
#define TC_NO_SITES
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/front/nn.h"
#include "lazy/front/operand.h"

static const char *const op = "nn_quantize_dynamic";

// The path of a name that ends in ".weight", if it matches; false: it is none, or does not.
static bool path_of(const char *name, const char *pattern, char out[TC_NN_PATH_BYTES]) {
  static const char end[] = ".weight";
  size_t n = strlen(name), n_end = sizeof end - 1;
  if (n <= n_end || n - n_end >= TC_NN_PATH_BYTES || strcmp(name + n - n_end, end) != 0) return false;
  memcpy(out, name, n - n_end);
  out[n - n_end] = 0;
  return fnmatch(pattern, out, 0) == 0;
}

// Adds the buffers of one layer.
static tc_status add_bytes(tc_nn_params *p, const char *path, tc_tensor weight, int out_axis, tc_site site) {
  static const tc_quantize_options rows = {.axis = 0};
  tc_scope scope = tc_scope_begin_at(site);  // of each layer, whose copy in f32 is large
  tc_tensor none = {0, 0}, w = tc_cast_at(tc_detach_at(weight, site), TC_F32, site);
  if (out_axis == 1) w = tc_transpose_at(w, 0, 1, site);
  tc_dims d = tc_shape_at(w, site);
  tc_tensor greatest = d.dim[1] ? tc_max_at(tc_abs_at(w, site), TC_AXES(1), false, site)
                                : tc_zeros_at(TC_SHAPE(d.dim[0]), TC_F32, site);  // an empty row has none
  // a row of zeros has a scale all the same
  tc_tensor scale =
      tc_mul_num_at(tc_maximum_num_at(greatest, tc_num_float(0x1p-100), site), tc_num_float(1.0 / 127), site);
  tc_tensor made[] = {tc_quantize_at(w, scale, none, TC_I8, rows, site), scale};
  tc_status st = tc_eval_at(2, made, site);
  if (st == TC_OK) st = tc_nn_add_buffer_leaf(op, p, path, "weight_int8", made[0], site);
  if (st == TC_OK) st = tc_nn_add_buffer_leaf(op, p, path, "weight_scale", made[1], site);
  tc_scope_end_at(scope, 0);
  return st;
}

// Refuses a layer that tc_linear_int8 would refuse at every call.
static tc_status check_layer(const char *path, tc_tensor weight, int out_axis, tc_site site) {
  tc_dims d = tc_shape_at(weight, site);
  int64_t out = d.dim[out_axis], in = d.dim[1 - out_axis];
  if (in <= TC_MAX_INT8_COLUMNS) return TC_OK;
  return tc_fail(TC_ERR_SHAPE, op, site,
                 "'%.100s.weight' [%lld, %lld] has more than %d inputs: sums of bytes would leave i32", path,
                 (long long)out, (long long)in, TC_MAX_INT8_COLUMNS);
}

// Adds the buffers of all layers that match, and marks their weights.
static tc_status add_layers(tc_nn_params *p, const char *pattern, int out_axis, bool *turned, int *n, tc_site site) {
  int n_params = tc_nn_count(p);
  for (int i = 0; i < n_params; i++) {
    char path[TC_NN_PATH_BYTES];
    tc_tensor weight = tc_nn_tensors(p)[i];
    if (!path_of(tc_nn_names(p)[i], pattern, path)) continue;
    if (tc_shape_at(weight, site).rank != 2 || !tc_is_floating(tc_dtype_at(weight, site))) continue;
    if (tc_nn_is_table(p, tc_nn_names(p)[i])) continue;
    TC_TRY(check_layer(path, weight, out_axis, site));
    TC_TRY(add_bytes(p, path, weight, out_axis, site));
    turned[i] = true, ++*n;
  }
  if (*n) return TC_OK;
  return tc_fail(TC_ERR_ARG, op, site, "no path of a linear layer matches '%.100s'", pattern);
}

tc_status tc_nn_quantize_dynamic_at(tc_nn_params *p, const char *pattern, int out_axis, tc_site site) {
  TC_CALLED_AS("nn_quantize_dynamic");
  if (p == NULL || pattern == NULL) return tc_fail(TC_ERR_ARG, op, site, p ? "pattern is NULL" : "there is no list");
  if (out_axis != 0 && out_axis != 1)
    return tc_fail(TC_ERR_ARG, op, site, "out_axis is %d: a matrix has axes 0 and 1", out_axis);
  int n_before = tc_nn_count_all(p), n = 0;
  bool *turned = calloc((size_t)(3 * n_before + 1), sizeof *turned);
  if (turned == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory");
  tc_nn_adding a = tc_nn_begin_adding(p, site);
  tc_status st = add_layers(p, pattern, out_axis, turned, &n, site);
  if (st == TC_OK) st = tc_nn_drop(op, p, turned, site);
  free(turned);
  return tc_nn_end_adding(a, st);
}
