// Initial values of parameters. Source: torch.nn.init.
#define TC_NO_SITES
#include <math.h>
#include <tc/nn.h>

#include "runtime/status.h"

tc_tensor tc_nn_uniform_at(tc_dims shape, double low, double high, tc_site site) {
  TC_CALLED_AS("nn_uniform");
  if (!(low <= high) || !isfinite((float)(high - low)) || !isfinite((float)low))
    return tc_poison(tc_fail(TC_ERR_ARG, "nn_uniform", site, "there are no numbers from %g to %g", low, high));
  return tc_add_num_at(tc_mul_num_at(tc_rand_at(shape, TC_F32, site), tc_num_float(high - low), site),
                       tc_num_float(low), site);
}

tc_tensor tc_nn_normal_at(tc_dims shape, double mean, double std, tc_site site) {
  TC_CALLED_AS("nn_normal");
  if (!(std >= 0) || !isfinite((float)std))
    return tc_poison(tc_fail(TC_ERR_ARG, "nn_normal", site, "a standard deviation is not %g", std));
  if (!isfinite((float)mean)) return tc_poison(tc_fail(TC_ERR_ARG, "nn_normal", site, "a mean is not %g", mean));
  return tc_add_num_at(tc_mul_num_at(tc_randn_at(shape, TC_F32, site), tc_num_float(std), site), tc_num_float(mean),
                       site);
}

typedef struct fans {
  double in, out;
  tc_status status;
} fans;

// Inputs and outputs of an element, counted over what follows the first two axes.
static fans fans_of(const tc_dims *shape, tc_site site) {
  char text[96];
  if (shape->rank < 2 || shape->rank > TC_MAX_RANK)
    return (fans){0, 0,
                  tc_fail(TC_ERR_SHAPE, tc_outer_op, site, "%s has no fans: rank 2 or more is asked for",
                          tc_dims_text(shape, text, sizeof text))};
  double field = 1;
  for (int i = 2; i < shape->rank; i++) field *= (double)shape->dim[i];
  return (fans){(double)shape->dim[1] * field, (double)shape->dim[0] * field, TC_OK};
}

// The square root of x / n; of nothing without fans, where there is nothing to fill either.
static double root_of(double x, double n) {
  return n <= 0 ? 0 : sqrt(x / n);
}

tc_tensor tc_nn_xavier_uniform_at(tc_dims shape, double gain, tc_site site) {
  TC_CALLED_AS("nn_xavier_uniform");
  fans f = fans_of(&shape, site);
  double bound = gain * root_of(6, f.in + f.out);
  return f.status == TC_OK ? tc_nn_uniform_at(shape, -bound, bound, site) : tc_poison(f.status);
}

tc_tensor tc_nn_xavier_normal_at(tc_dims shape, double gain, tc_site site) {
  TC_CALLED_AS("nn_xavier_normal");
  fans f = fans_of(&shape, site);
  return f.status == TC_OK ? tc_nn_normal_at(shape, 0, gain * root_of(2, f.in + f.out), site) : tc_poison(f.status);
}

tc_tensor tc_nn_kaiming_uniform_at(tc_dims shape, double a, tc_site site) {
  TC_CALLED_AS("nn_kaiming_uniform");
  fans f = fans_of(&shape, site);
  double bound = root_of(6, (1 + a * a) * f.in);
  return f.status == TC_OK ? tc_nn_uniform_at(shape, -bound, bound, site) : tc_poison(f.status);
}
