// What functions over the public interface say of the tensors they are given, and give back when
// they fail.
#pragma once

#include "runtime/given.h"
#include "runtime/status.h"

static inline bool tc_is_floating(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}
// TC_OK, or why t is no tensor: poison was reported when it was made.
static inline tc_status tc_operand_check(const char *op, tc_tensor t, tc_site site) {
  return tc_is_valid(t) ? TC_OK : tc_invalid(t, op, site, "%s", tc_handle_fault(t));
}
