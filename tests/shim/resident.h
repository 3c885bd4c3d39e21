// The memory that a test of the shim has.
#pragma once

#include <assert.h>
#include <stdio.h>

static long resident_kb(void) {
  long all = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  assert(f && fscanf(f, "%ld %ld", &all, &resident) == 2);
  fclose(f);
  return 4 * resident;
}
