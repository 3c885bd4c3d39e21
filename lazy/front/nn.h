// A model's parameter under the name it has in a module.
#pragma once

#include <tc/nn.h>

#include "runtime/status.h"

// Adds path.leaf. A poisoned init gives its own status.
tc_status tc_nn_add_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                         tc_site site);
tc_status tc_nn_add_buffer_leaf(const char *op, tc_nn_params *p, const char *path, const char *leaf, tc_tensor init,
                                tc_site site);
// An optimizer's parameter that is not in the list is an error: it would not be saved.
tc_status tc_nn_check_optimizers(const char *op, const tc_nn_params *p, int n_opts, tc_optimizer *const *opts,
                                 tc_site site);
// Marks path.weight as an embedding's, which is never made bytes.
tc_status tc_nn_mark_table(const char *op, tc_nn_params *p, const char *path, tc_site site);
bool tc_nn_is_table(const tc_nn_params *p, const char *name);
// Takes back, and releases, what was added after the first n.
void tc_nn_cut(tc_nn_params *p, int n);
// Takes out, and releases, those of tc_nn_tensors whose flag is true. Nothing has changed on
// failure.
tc_status tc_nn_drop(const char *op, tc_nn_params *p, const bool *dropped, tc_site site);
// What adds parameters adds all of a module's or none. It ends a scope of its own, so nobody
// else holds the initial values. They are not computed if other values take their place first.
typedef struct tc_nn_adding {
  tc_nn_params *p;
  int n_before;
  tc_scope scope;
} tc_nn_adding;

static inline tc_nn_adding tc_nn_begin_adding(tc_nn_params *p, tc_site site) {
  return (tc_nn_adding){p, tc_nn_count_all(p), tc_scope_begin_at(site)};
}
static inline tc_status tc_nn_end_adding(tc_nn_adding a, tc_status st) {
  if (st != TC_OK && a.p) tc_nn_cut(a.p, a.n_before);
  tc_scope_end_at(a.scope, 0);
  return st;
}
// path.leaf, or poison after reporting; {0, 0} where there is none and it is optional.
tc_tensor tc_nn_get_leaf(const char *op, const tc_nn_params *p, const char *path, const char *leaf, bool optional,
                         tc_site site);
