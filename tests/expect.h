// Checks of the plain test programs: a failed one prints where and why, and is counted;
// `expect_done` gives the exit status.
// Threads: counting is atomic.
#pragma once

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <tc/tc.h>

static atomic_int expect_n_failed, expect_n_checked;

#define EXPECT(condition, ...) \
  do { \
    atomic_fetch_add(&expect_n_checked, 1); \
    if (!(condition)) { \
      atomic_fetch_add(&expect_n_failed, 1); \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      printf(__VA_ARGS__); \
      printf(" [last error: %s]\n", tc_last_error()->message); \
    } \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == TC_OK, "failed")
// The call fails with this status, these words and the place of the test.
#define EXPECT_FAILS(call, code, words) \
  do { \
    tc_clear_error(); \
    __typeof__(call) ignored = (call); \
    (void)ignored; \
    const tc_error *e = tc_last_error(); \
    EXPECT(e->status == (code) && strstr(e->message, words) && strstr(e->message, __FILE__ ":"), "should say \"%s\"", \
           words); \
    tc_clear_error(); \
  } while (0)

// The elements of t as floats, at most so many; returns how many.
static inline int64_t expect_floats(tc_tensor t, float *out, int64_t most) {
  tc_dims d = tc_shape(t);
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  EXPECT(n <= most, "%lld", (long long)n);
  EXPECT_OK(tc_to_host(tc_cast(t, TC_F32), out, (size_t)n * sizeof *out));
  return n;
}

static inline int expect_done(const char *name) {
  int failed = atomic_load(&expect_n_failed), checked = atomic_load(&expect_n_checked);
  failed ? printf("%s: %d of %d checks failed\n", name, failed, checked) : printf("%s: %d checks ok\n", name, checked);
  return failed != 0;
}
