// Mapped files of code, by which a stack's addresses are resolved when a profile is read.
// In: addresses. Out: modules that were not told of yet.
// Threads: under the profile's lock.
#pragma once

#include <stdint.h>

typedef struct tc_profile_module {
  uint64_t begin, end, bias;
  char path[512], build_id[64];  // build_id in hex. "": none
} tc_profile_module;

// Calls tell with the modules of the addresses that no earlier call told of.
void tc_profile_modules_each_new(void *const *address, int n, void (*tell)(const tc_profile_module *m));
// A new file knows none.
void tc_profile_modules_forget(void);
