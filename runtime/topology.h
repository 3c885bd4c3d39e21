// What the machine offers: cores, caches, and how many threads a run may use and why.
// Out: n_threads = min(affinity mask, cgroup v1/v2 CPU quota rounded up, physical cores). The
// user's setting may lower it.
// Threads: thread-safe after the first call. The caller's own mask is never changed.
// Source: hwloc; without hwloc, sysconf and /sys.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_TOPOLOGY_CORES 256
#define TC_TOPOLOGY_PUS 1024

typedef struct tc_topology {
  int n_cores, n_pus;  // physical cores and hardware threads that the process may see
  int n_affinity;  // PUs in the affinity mask
  double quota;  // CPUs that the cgroup allows; 0: no quota
  int n_threads;  // the minimum of the above, before the user's setting
  size_t l1_bytes, l2_bytes, l3_bytes;
  bool owns_machine;  // true: the mask covers every PU, so threads may be pinned
  int pu_of_core[TC_TOPOLOGY_CORES];  // OS index of the first PU of core i
  int16_t core_of_pu[TC_TOPOLOGY_PUS];  // by OS index; -1: of none of these cores
  char why[160];  // one sentence for tc-info: what decided n_threads
} tc_topology;

const tc_topology *tc_topology_get(void);
// Returns the core of a PU, whichever of the core's it is; -1: it is unknown.
int tc_core_of_pu(int pu);
// For tests: reads quotas below root instead of /sys/fs/cgroup and /proc/self/cgroup ("": none),
// and a synthetic hwloc description (NULL: the real machine).
void tc_topology_read(tc_topology *out, const char *cgroup_root, const char *synthetic);
