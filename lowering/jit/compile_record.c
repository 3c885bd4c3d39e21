// Records of kernels for a profile. See compile_record.h.
#include "lowering/jit/compile_record.h"

#include <string.h>

#include "runtime/profile_file.h"

static _Thread_local uint64_t stage_ns[TC_N_STAGES];

void tc_compile_stage_add(tc_compile_stage stage, uint64_t ns) {
  stage_ns[stage] += ns;
}

void tc_compile_record(const char *name, const char *tier, uint32_t sequence, uint64_t start_ns, size_t code_bytes) {
  tc_prof_compile r = {.thread = tc_profile_thread(), .sequence = sequence, .begin_ns = start_ns};
  r.emit_ns = stage_ns[TC_STAGE_EMIT], r.generate_ns = stage_ns[TC_STAGE_GENERATE];
  r.load_ns = stage_ns[TC_STAGE_LOAD], r.code_bytes = code_bytes;
  memset(stage_ns, 0, sizeof stage_ns);
  if (!tc_profile_begin()) return;
  r.name = tc_profile_text(name, strlen(name)), r.tier = tc_profile_word(tier);
  (void)tc_profile_write(TC_PROF_COMPILE, 0, 1, &(tc_profile_part){&r, sizeof r});
  tc_profile_end();
}
