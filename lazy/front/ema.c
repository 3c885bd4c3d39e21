// Averages of a model's parameters: a second list of the same names.
//
// In: a model after its optimizer's step. Out: assigned averages.
// Invariants: the averages' names, shapes and types are the model's, in its order; nothing of them
// has a history.
// Source: torch.optim.swa_utils: AveragedModel, get_ema_multi_avg_fn and get_swa_multi_avg_fn.
// Threads: thread-compatible. Owner: an average owns its list; it borrows the model.
#define TC_NO_SITES
#include "lazy/front/ema.h"

#include <stdlib.h>

#include "lazy/front/operand.h"
#include "lazy/trace/capture_break.h"

struct tc_ema {
  const tc_nn_params *model;  // borrowed
  tc_nn_params *averages;     // all buffers
  tc_ema_options options;
  int64_t n_averaged;
};

void tc_ema_destroy(tc_ema *ema) {
  if (!ema) return;
  tc_nn_params_destroy(ema->averages);
  free(ema);
}

static tc_status copy_model(tc_nn_params *to, const tc_nn_params *model, tc_site site) {
  tc_status st = TC_OK;
  for (int i = 0; i < tc_nn_count_all(model) && st == TC_OK; i++) {
    tc_scope scope = tc_scope_begin_at(site);
    tc_tensor t = tc_nn_add_buffer_at(to, tc_nn_names(model)[i], tc_nn_tensors(model)[i], site);
    st = tc_is_valid(t) ? TC_OK : tc_poison_told(t);
    tc_scope_end_at(scope, 0);
  }
  return st;
}

tc_ema *tc_ema_create_at(const tc_nn_params *model, tc_ema_options o, tc_site site) {
  TC_CALLED_AS("ema_create");
  const char *op = "ema_create";
  o.decay = tc_option(o.decay, 0.999);
  if (!model) return tc_fail(TC_ERR_ARG, op, site, "there is no model"), NULL;
  if (!(o.decay >= 0 && o.decay <= 1))
    return tc_fail(TC_ERR_ARG, op, site, "decay is %g, give a number within [0, 1]", o.decay), NULL;
  tc_ema *ema = calloc(1, sizeof *ema);
  if (!ema) return tc_fail(TC_ERR_MEMORY, op, site, "no memory"), NULL;
  *ema = (tc_ema){.model = model, .options = o, .averages = tc_nn_params_create_at(site)};
  if (ema->averages && copy_model(ema->averages, model, site) == TC_OK) {
    tc_nn_set_training(ema->averages, false);
    return ema;
  }
  tc_ema_destroy(ema);
  return NULL;
}

// from + weight * (to - from), from the nearer end: torch.lerp. In f32 at least, rounded once.
static tc_tensor lerp(tc_tensor from, tc_tensor to, double weight, tc_site site) {
  tc_type type = tc_dtype_at(from, site);
  if (type == TC_F16 || type == TC_BF16) from = tc_cast_at(from, TC_F32, site), to = tc_cast_at(to, TC_F32, site);
  tc_tensor way = tc_sub_at(to, from, site);
  tc_tensor mixed = weight < 0.5 ? tc_add_at(from, tc_mul_num_at(way, tc_num_float(weight), site), site)
                                 : tc_sub_at(to, tc_mul_num_at(way, tc_num_float(1 - weight), site), site);
  return tc_cast_at(mixed, type, site);
}

static tc_status update_entry(const tc_ema *ema, int i, tc_site site) {
  tc_tensor average = tc_nn_tensors(ema->averages)[i], value = tc_detach_at(tc_nn_tensors(ema->model)[i], site);
  tc_type type = tc_dtype_at(average, site);
  bool is_averaged =
      ema->n_averaged > 0 && (ema->options.buffers || i < tc_nn_count(ema->model)) && tc_is_floating(type);
  double weight = ema->options.equal ? 1 / ((double)ema->n_averaged + 1) : 1 - ema->options.decay;
  return tc_assign_at(average, is_averaged ? lerp(average, value, weight, site) : value, site);
}

static tc_status check_model(const char *op, const tc_ema *ema, tc_site site) {
  if (!ema) return tc_fail(TC_ERR_ARG, op, site, "there is no average");
  int n = tc_nn_count_all(ema->model), have = tc_nn_count_all(ema->averages);
  if (n != have)
    return tc_fail(
        TC_ERR_STATE, op, site,
        "the model has %d parameters and buffers, it had %d when the average was made; make it after the last "
        "module",
        n, have);
  for (int i = 0; i < n; i++) {
    tc_type type = tc_dtype_at(tc_nn_tensors(ema->model)[i], site),
            had = tc_dtype_at(tc_nn_tensors(ema->averages)[i], site);
    if (type != had)
      return tc_fail(TC_ERR_STATE, op, site, "'%.100s' is %s, its average %s; make the average after the cast",
                     tc_nn_names(ema->model)[i], tc_type_name(type), tc_type_name(had));
  }
  return TC_OK;
}

tc_status tc_ema_update_at(tc_ema *ema, tc_site site) {
  TC_CALLED_AS("ema_update");
  TC_TRY(check_model("ema_update", ema, site));
  tc_capture_break_mine("an average that counts its updates", "ema_update", site);
  tc_status st = TC_OK;
  tc_scope scope = tc_scope_begin_at(site);
  tc_no_grad_begin();
  for (int i = 0; i < tc_nn_count_all(ema->model) && st == TC_OK; i++) st = update_entry(ema, i, site);
  tc_no_grad_end();
  tc_scope_end_at(scope, 0);
  if (st == TC_OK) ema->n_averaged++;
  return st;
}

tc_nn_params *tc_ema_model(const tc_ema *ema) {
  return ema ? ema->averages : NULL;
}

int64_t tc_ema_n_averaged(const tc_ema *ema) {
  tc_capture_break_mine("an average's count that it reads", "ema_n_averaged", 0);
  return ema ? ema->n_averaged : 0;
}

void tc_ema_set_n_averaged(tc_ema *ema, int64_t n) {
  ema->n_averaged = n;
}
