// Kernels with mistakes that are planted: each is tried without and with its mistake, in a process
// of its own, since after a fault that stays nothing more can be asked of the device.
#pragma once

#include "tests/child.h"

typedef struct attempt {
  int which;  // of a list's
  bool bad;  // with its mistake
} attempt;

// try: of an attempt, the status of its process; 77: there is no simulated driver. names: the
// list's first name, the next one `apart` bytes on. Returns 77, or 0.
static inline int attempts(int (*try)(const void *arg), int n, const char *const *names, size_t apart) {
  for (int i = 0; i < n; i++) {
    for (int bad = 0; bad < 2; bad++) {
      int status = child_status(try, &(attempt){i, bad});
      if (status == 77) return printf("skipped: the simulated driver is not built\n"), 77;
      EXPECT(status == 0, "%s: status %d",
             *(const char *const *)(const void *)((const char *)names + (size_t)i * apart), status);
    }
  }
  return 0;
}
