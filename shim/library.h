// libtc's tensors for the levels that defer: its functions by name, looked up once.
#pragma once

#include <stdbool.h>
#include <tc/tc.h>

// clang-format off
#define TC_SHIM_FUNCTIONS(X) \
  X(borrow) \
  X(reshape) \
  X(transpose) \
  X(matmul) \
  X(mul_num) X(add) X(mul) X(abs) X(sum) X(retain) X(release) X(scope_begin) X(scope_end) X(eval) X(item_f64) \
      X(to_host) X(map) X(unmap) X(assign) X(is_assignable) X(to) X(last_error) X(clear_error)

// clang-format on

typedef struct tc_shim_functions {
#define X(name) __typeof__(&tc_##name) name;
  TC_SHIM_FUNCTIONS(X)
#undef X
} tc_shim_functions;

// NULL, with a line on stderr, where libtc or one of them is not there.
const tc_shim_functions *tc_shim_library(void);
