// Checks of the library's own invariants.
#pragma once

// Holds for the library's own invariants only, never for a caller's mistake. Release builds leave
// it out.
#ifdef NDEBUG
#define TC_ASSERT(x) ((void)0)
#else
#define TC_ASSERT(x) ((x) ? (void)0 : tc_assert_fail(#x, __FILE__, __LINE__))
#endif
_Noreturn void tc_assert_fail(const char *what, const char *file, int line);
