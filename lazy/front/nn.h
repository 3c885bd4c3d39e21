// A model's parameter under the name it has in a module.
#pragma once

#include <tc/nn.h>

#include "runtime/status.h"

// Adds path.leaf. A poisoned init gives its own status.
tc_status tc_nn_add_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                         tc_site site);
tc_status tc_nn_add_buffer_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                                tc_site site);
// Takes back, and releases, what was added after the first n.
void tc_nn_cut(tc_nn_params *p, int n);
// path.leaf, or poison after reporting; {0, 0} where there is none and it is optional.
tc_tensor tc_nn_get_leaf(const char *op, const tc_nn_params *p, const char *path, const char *leaf, bool optional,
                         tc_site site);
