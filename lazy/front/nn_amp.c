// A gradient scaler's state among a model's buffers, so that the model's checkpoints hold it.
// Threads: thread-compatible. Owner: the list of parameters.
#define TC_NO_SITES
#include <tc/amp.h>

#include "runtime/status.h"

tc_status tc_nn_add_grad_scaler_at(tc_nn_params *p, const char *path, tc_grad_scaler *s, tc_site site) {
  TC_CALLED_AS("nn_add_grad_scaler");
  tc_tensor state[2];
  const char *name;
  char full[TC_NN_PATH_BYTES];
  if (!s || !p || !path)
    return tc_fail(TC_ERR_ARG, "nn_add_grad_scaler", site, "no %s", !p ? "model" : !path ? "path" : "gradient scaler");
  for (int i = 0; (name = tc_grad_scaler_state_name(s, i)); i++)
    if (tc_nn_has(p, tc_nn_path(full, sizeof full, "%s.%s", path, name)))
      return tc_fail(TC_ERR_ARG, "nn_add_grad_scaler", site, "'%.100s' is taken", full);
  for (int i = 0; (name = tc_grad_scaler_state_name(s, i)); i++) {
    tc_nn_path(full, sizeof full, "%s.%s", path, name);
    state[i] = tc_nn_add_buffer_at(p, full, tc_grad_scaler_state_at(s, i, site), site);
    if (!tc_is_valid(state[i])) return tc_last_error()->status;
  }
  return tc_grad_scaler_use_state_at(s, state[0], state[1], site);
}
