// See passes.h.
#include "runtime/passes.h"

const char *const tc_pass_names[TC_N_PASSES] = {
#define TC_PASS(NAME, name) #name,
#include "runtime/passes.def"
#undef TC_PASS
};
_Thread_local uint64_t tc_pass_steps[TC_N_PASSES];
