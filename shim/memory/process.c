// The page that a fork empties. Threads: any; two that begin at once do the same.
#include "shim/memory/process.h"

#include "shim/memory/raw.h"

enum { WIPE_ON_FORK = 18 };

tc_shim_process_state tc_shim_process;

bool tc_shim_process_begin(void) {
  if (__atomic_load_n(&tc_shim_process.is_ready, __ATOMIC_ACQUIRE)) return true;
  if (tc_shim_raw(SYS_madvise, (long)&tc_shim_process, sizeof tc_shim_process, WIPE_ON_FORK, 0, 0, 0) != 0)
    return false;
  __atomic_store_n(&tc_shim_process.is_ready, true, __ATOMIC_RELEASE);
  return true;
}
