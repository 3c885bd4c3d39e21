// What functions over the public interface say of the tensors they are given, and give back when
// they fail.
#pragma once

#include <string.h>

#include "runtime/status.h"

// A number among options: 0 is left out, TC_ZERO is 0. By its bits, since processors may be set to
// take subnormals for 0.
static inline double tc_number_option(double given, double otherwise) {
  uint64_t bits;
  memcpy(&bits, &given, sizeof bits);
  return bits << 1 == 0 ? otherwise : bits == 1 ? 0 : given;
}
// An integer among options: 0 is left out, TC_ZERO_INT is 0.
static inline int64_t tc_count_option(int64_t given, int64_t otherwise) {
  return given == 0 ? otherwise : given == TC_ZERO_INT ? 0 : given;
}
// No tensor.
static inline bool tc_is_null(tc_tensor t) {
  return t.slot == 0 && t.gen == 0;
}

static inline bool tc_is_floating(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}
// TC_OK, or why t is no tensor: poison was reported when it was made.
static inline tc_status tc_operand_check(const char *op, tc_tensor t, tc_site site) {
  return tc_is_valid(t) ? TC_OK : tc_invalid(t, op, site, "%s", tc_handle_fault(t));
}
