// What tests of functions that are traced expect of a call: that it succeeds, or its error, its words
// and that it names this file.
#pragma once

#include <criterion/criterion.h>
#include <string.h>
#include <tc/tc.h>

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)
#define EXPECT_FAILS(call, code, words) \
  do { \
    cr_expect_eq((call), code); \
    cr_expect(strstr(tc_last_error()->message, words), "'%s' should say '%s'", tc_last_error()->message, words); \
    cr_expect(strstr(tc_last_error()->message, __FILE__), "%s names no place", tc_last_error()->message); \
    tc_clear_error(); \
  } while (0)
