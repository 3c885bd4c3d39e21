// What a thread has open around a function of the program's. What the function leaves open is
// ended and an error, as is ending what its caller began.
//
// In: what was open before the function. Out: a status.
// Threads: the calling thread, which has no op open. Owner: nobody.
#pragma once

#include <tc/tc.h>

typedef struct tc_open_ends {
  uint32_t regions, devices, scopes;
  int record_onlys;
} tc_open_ends;

tc_open_ends tc_open_ends_now(void);
// Whether a scope around the function is open still: the function may have ended one of its
// caller's, and this one with it.
bool tc_own_scope_is_open(tc_scope scope);
// After the function: ends regions, devices and tc_record_only_begin that it left open.
// TC_ERR_STATE if it left any, or ended one of its caller's. what: "the body of scan"; op: the
// caller.
tc_status tc_open_ends_check(const tc_open_ends *before, const char *op, const char *what, tc_site site);
