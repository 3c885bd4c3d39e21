// See assert.h.
#include "runtime/assert.h"

#include <stdio.h>
#include <stdlib.h>

void tc_assert_fail(const char *what, const char *file, int line) {
  fprintf(stderr, "tc: internal error: %s is false (%s:%d)\n", what, file, line);
  abort();
}
