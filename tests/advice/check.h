// What the programs of this folder share: they end where a call fails, and `mended` chooses the
// twin. The line that an advice is to name is marked with "FAULT".
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <tc/tc.h>

static inline void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

static inline tc_tensor made(tc_tensor t) {
  check(tc_eval(1, &t));
  return t;
}
