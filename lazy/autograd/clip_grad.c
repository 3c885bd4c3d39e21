// Gradients of many parameters at once: cleared, and clipped by their norm.
#define TC_NO_SITES
#include "lazy/autograd/params_check.h"
#include "lazy/record/formula.h"
#include "runtime/arena.h"

tc_status tc_zero_grad_of_at(int n, const tc_tensor *params, tc_site site) {
  TC_TRY(tc_params_check("zero_grad", params, n, site));
  tc_trace *t = tc_op_begin("zero_grad", site);
  for (int i = 0; i < n; i++) tc_rec_clear_grad(t, params[i]);
  return tc_op_done(t);
}

// The sum of squares of all gradients in f32, or f64 where there is an f64 gradient; TC_NODE_ERR
// (silent) if there are none.
static tc_node grads_square(tc_trace *t, const tc_tensor *params, int n) {
  tc_node total = TC_NODE_ERR;
  for (int i = 0; i < n; i++) {
    tc_node g = tc_rec_grad(t, params[i]);
    if (g == TC_NODE_ERR) continue;
    g = tc_rec_cast(t, g, tc_node_type(t, g) == TC_F64 ? TC_F64 : TC_F32);
    uint32_t every_axis = (1u << tc_node_dims(t, g)->rank) - 1;
    tc_node square = tc_rec_fold(t, TC_OP_SUM, tc_rec_unary(t, TC_OP_SQUARE, g), every_axis, false);
    total = total == TC_NODE_ERR ? square : f_add(t, total, square);
  }
  return total;
}

static tc_node scale_of(tc_trace *t, tc_node norm, double max_norm) {
  tc_node scale = f_div(t, tc_rec_const(t, norm, max_norm), f_num(t, TC_OP_ADD, norm, 1e-6));
  return f_num(t, TC_OP_MINIMUM, scale, 1);
}

static bool scale_grads(tc_trace *t, const tc_tensor *params, int n, tc_node scale) {
  bool ok = true;
  for (int i = 0; i < n; i++) {
    tc_node g = tc_rec_grad(t, params[i]);
    if (g == TC_NODE_ERR) continue;
    tc_node clipped = tc_rec_cast(t, f_mul(t, g, scale), tc_node_type(t, g));
    ok = clipped != TC_NODE_ERR && tc_rec_set_grad(t, params[i], clipped) == TC_OK && ok;
  }
  return ok;
}

static tc_tensor clip_here(const tc_tensor *params, int n, double max_norm, tc_site site) {
  tc_trace *t = tc_op_begin("clip_grad_norm", site);
  bool tape = tc_rec_tape(t, false);
  tc_node norm = tc_rec_unary(t, TC_OP_SQRT, grads_square(t, params, n));
  if (norm == TC_NODE_ERR) norm = tc_rec_full(t, &(tc_dims){0}, TC_F32, 0);  // no gradients: nothing below finds one
  if (!scale_grads(t, params, n, scale_of(t, norm, max_norm))) norm = TC_NODE_ERR;
  tc_rec_tape(t, tape);
  return tc_op_end(t, norm);
}

// Fills part with the parameters that have gradients and are on the i-th one's device; returns how
// many. 0: the i-th has no gradient, or an earlier one is on the same device.
static int part_of(const tc_tensor *params, int n, int i, tc_tensor *part, tc_site site) {
  const char *device = tc_device_of_at(params[i], site);
  int k = 0;
  for (int j = 0; j < n; j++) {
    if (tc_is_null(tc_grad(params[j])) || tc_device_of_at(params[j], site) != device) continue;
    if (j < i) return 0;
    part[k++] = params[j];
  }
  return tc_is_null(tc_grad(params[i])) ? 0 : k;
}

// Of parameters on several devices: sums of squares go to the device of the first gradient, and the
// scale goes to all. part: room for n.
static tc_tensor clip_everywhere(const tc_tensor *params, int n, double max_norm, tc_tensor *part, tc_site site) {
  tc_tensor norm = {0, 0};
  const char *first = NULL;
  for (int i = 0, k; i < n; i++) {
    if ((k = part_of(params, n, i, part, site)) == 0) continue;
    if (!first) first = tc_device_of_at(params[i], site);
    tc_trace *t = tc_op_begin("clip_grad_norm", site);
    tc_tensor square = tc_to_at(tc_op_end(t, grads_square(t, part, k)), first, site);
    norm = tc_is_null(norm) ? square : tc_add_at(norm, square, site);
  }
  if (!first) return clip_here(params, n, max_norm, site);
  norm = tc_sqrt_at(norm, site);
  tc_trace *t = tc_op_begin("clip_grad_norm", site);
  tc_tensor scale = tc_op_end(t, scale_of(t, tc_op_in(t, norm), max_norm));
  for (int i = 0, k; i < n; i++) {
    if ((k = part_of(params, n, i, part, site)) == 0) continue;
    tc_tensor there = tc_to_at(scale, tc_device_of_at(params[i], site), site);
    t = tc_op_begin("clip_grad_norm", site);
    tc_node factor = tc_op_in(t, there);
    bool ok = factor != TC_NODE_ERR && scale_grads(t, part, k, factor);
    if (tc_op_done(t) != TC_OK || !ok) return tc_poison(tc_last_status());
  }
  return norm;
}

tc_tensor tc_clip_grad_norm_at(const tc_tensor *params, int n, double max_norm, tc_site site) {
  TC_CALLED_AS("clip_grad_norm");
  tc_status st = tc_params_check("clip_grad_norm", params, n, site);
  if (st == TC_OK && !(max_norm >= 0)) st = tc_fail(TC_ERR_ARG, "clip_grad_norm", site, "max_norm is %g", max_norm);
  if (st != TC_OK) return tc_poison(st);
  bool apart = false;
  for (int i = 1; i < n; i++) apart = apart || tc_device_of_at(params[i], site) != tc_device_of_at(params[0], site);
  if (!apart) return clip_here(params, n, max_norm, site);
  tc_tensor *part = tc_malloc((size_t)n * sizeof *part);
  if (!part) return tc_poison(tc_fail(TC_ERR_MEMORY, "clip_grad_norm", site, "%d parameters", n));
  tc_scope scope = tc_scope_begin_at(site);
  tc_no_grad_begin();
  tc_tensor norm = tc_keep_at(clip_everywhere(params, n, max_norm, part, site), site);
  tc_no_grad_end();
  tc_scope_end_at(scope, 0);
  tc_free(part);
  return norm;
}
