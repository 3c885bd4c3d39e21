// What optimizers and gradient clipping ask of lists of parameters.
//
// In: handles. Out: whether they may be used.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include "lazy/trace/node.h"
#include "runtime/given.h"

// The status of the latest error, which there is.
static inline tc_status tc_last_status(void) {
  tc_status st = tc_last_error()->status;
  return st != TC_OK ? st : TC_ERR_STATE;
}
// Whether n parameters are there and alive; name is the caller's.
tc_status tc_params_check(const char *name, const tc_tensor *params, int n, tc_site site);
// Whether no parameter is among n checked ones twice.
tc_status tc_params_check_distinct(const char *name, const tc_tensor *params, int n, tc_site site);
