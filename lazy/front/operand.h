// What functions over the public interface say of the tensors they are given, and give back when they fail.
#ifndef TC_LAZY_FRONT_OPERAND_H
#define TC_LAZY_FRONT_OPERAND_H

#include "runtime/status.h"

// TC_OK, or why t is no tensor: poison was told of when it was made.
static inline tc_status tc_operand_check(const char *op, tc_tensor t, tc_site site) {
  if (tc_is_valid(t)) return TC_OK;
  if (t.slot >= TC_POISON) return t.gen ? (tc_status)t.gen : TC_ERR_STATE;
  return tc_fail(TC_ERR_HANDLE, op, site, "%s", tc_handle_fault(t));
}

#endif
