// Cores, caches and quota of this machine. See topology.h.
//
// This is the only file that includes hwloc; without it, sched_getaffinity, sysconf and /sys say
// nearly as much. hwloc sees the cpuset of a cgroup, but neither taskset nor a CPU quota. So the
// mask is intersected here, and the quota is read from the cgroup files. Virtual machines and
// synthetic descriptions may lack levels: a core is then a PU, and an unknown L1 or L2 is a
// cautious guess.
// Threads: the first tc_topology_get reads under a lock; later calls cost one load.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // sched_getaffinity
#endif
#include "runtime/topology.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cgroup.h"
#include "runtime/fork.h"
#include "runtime/options.h"
#include "runtime/status.h"

#ifdef TC_HAVE_HWLOC
#include <hwloc.h>
#endif

#define GUESS_L1_BYTES ((size_t)32 << 10)
#define GUESS_L2_BYTES ((size_t)512 << 10)

static tc_topology topology;
static atomic_bool ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
TC_FORK_SAFE(&lock, 8)

// Returns the CPUs that one cgroup directory allows; a negative value means that it sets no quota.
static double dir_quota(const char *dir) {
  char text[64], period_text[64];
  double quota = 0, period = 0;
  if (tc_first_line(dir, "cpu.max", text, sizeof text))
    return sscanf(text, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0 ? quota / period : -1;
  if (!tc_first_line(dir, "cpu.cfs_quota_us", text, sizeof text)) return -1;
  if (!tc_first_line(dir, "cpu.cfs_period_us", period_text, sizeof period_text)) return -1;
  quota = strtod(text, NULL);
  period = strtod(period_text, NULL);
  return quota > 0 && period > 0 ? quota / period : -1;
}

static size_t sysconf_bytes(int name) {
  long bytes = sysconf(name);
  return bytes > 0 ? (size_t)bytes : 0;
}

static int online_pus(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

// Adds a PU to a core; the core's first PU is added first.
static void core_has(tc_topology *t, int core, int pu) {
  if (core < 0 || core >= TC_TOPOLOGY_CORES) return;
  if (t->pu_of_core[core] < 0) t->pu_of_core[core] = pu;
  if (pu < TC_TOPOLOGY_PUS) t->core_of_pu[pu] = (int16_t)core;
}

#ifdef TC_HAVE_HWLOC

static void caches_of(tc_topology *t, hwloc_obj_t obj) {
  for (; obj; obj = obj->parent) {
    if (!hwloc_obj_type_is_dcache(obj->type)) continue;
    size_t bytes = (size_t)obj->attr->cache.size;
    if (obj->attr->cache.depth == 1) t->l1_bytes = bytes;
    if (obj->attr->cache.depth == 2) t->l2_bytes = bytes;
    if (obj->attr->cache.depth == 3) t->l3_bytes = bytes;
  }
}

// Reads the cores with a PU in mask, each by its first such PU. Caches are those of the first core.
static void cores_read(tc_topology *t, hwloc_topology_t hw, hwloc_const_bitmap_t mask) {
  hwloc_bitmap_t both = hwloc_bitmap_alloc();
  hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = NULL; both && (core = hwloc_get_next_obj_by_type(hw, type, core)) != NULL;) {
    hwloc_bitmap_and(both, core->cpuset, mask);
    if (hwloc_bitmap_iszero(both)) continue;
    if (t->n_cores == 0) caches_of(t, core);
    for (int pu = -1; (pu = hwloc_bitmap_next(both, pu)) >= 0;) core_has(t, t->n_cores, pu);
    t->n_cores++;
  }
  hwloc_bitmap_free(both);
}

// Restricts hwloc's search to what is asked about. Measured: hwloc 2.9, 2 cores: 1.7 -> 1.3 ms.
static void narrow_search(hwloc_topology_t hw) {
  // Some discovery would move the calling thread from PU to PU.
  unsigned long flags = HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#if HWLOC_API_VERSION >= 0x00020800
  flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  hwloc_topology_set_flags(hw, flags);
  hwloc_topology_set_all_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(hw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_cache_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_ALL);
}

// A description of another system (synthetic, or set in the environment) is taken whole: our mask
// says nothing about it.
static bool cores_and_caches(tc_topology *t, const char *synthetic) {
  hwloc_topology_t hw;
  if (hwloc_topology_init(&hw) != 0) return false;
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  narrow_search(hw);
  bool done = mask && (!synthetic || hwloc_topology_set_synthetic(hw, synthetic) == 0) && hwloc_topology_load(hw) == 0;
  if (done) {
    bool here = hwloc_topology_is_thissystem(hw);
    t->n_pus = hwloc_get_nbobjs_by_type(hw, HWLOC_OBJ_PU);
    if (!here || hwloc_get_cpubind(hw, mask, HWLOC_CPUBIND_THREAD) != 0)
      hwloc_bitmap_copy(mask, hwloc_topology_get_topology_cpuset(hw));
    hwloc_bitmap_and(mask, mask, hwloc_topology_get_topology_cpuset(hw));
    t->n_affinity = hwloc_bitmap_weight(mask);
    // A cpuset may hide PUs from hwloc that other processes use.
    t->owns_machine = t->n_affinity == t->n_pus && (!here || t->n_pus >= online_pus());
    cores_read(t, hw, mask);
  }
  hwloc_bitmap_free(mask);
  hwloc_topology_destroy(hw);
  return done && t->n_cores > 0;
}

#else

static bool cores_and_caches(tc_topology *t, const char *synthetic) {
  (void)t, (void)synthetic;
  return false;
}

#endif

// Returns the first PU of pu's core that is in the mask; pu itself where /sys does not say. /sys
// lists PUs as "0,64" or "0-1".
static int core_first_pu(int pu, const cpu_set_t *mask) {
  char dir[96], list[256];
  snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%d/topology", pu);
  if (!tc_first_line(dir, "thread_siblings_list", list, sizeof list)) return pu;
  for (char *at = list; *at >= '0' && *at <= '9';) {
    long low = strtol(at, &at, 10), high = low;
    if (*at == '-') high = strtol(at + 1, &at, 10);
    for (long i = low; i <= high && i < pu; i++)
      if (CPU_ISSET((size_t)i, mask)) return (int)i;
    at += *at == ',';
  }
  return pu;
}

_Static_assert(TC_TOPOLOGY_PUS >= CPU_SETSIZE, "a PU of a mask is in core_of_pu");

static void cores_and_caches_from_sys(tc_topology *t) {
  cpu_set_t mask;
  t->n_pus = t->n_affinity = online_pus();
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    t->n_affinity = CPU_COUNT(&mask);
    for (int pu = 0; pu < CPU_SETSIZE; pu++) {
      if (!CPU_ISSET((size_t)pu, &mask)) continue;
      int first = core_first_pu(pu, &mask);
      core_has(t, first == pu ? t->n_cores++ : t->core_of_pu[first], pu);
    }
  } else {  // more PUs than a cpu_set_t holds
    t->n_cores = t->n_pus;
    for (int i = 0; i < t->n_cores; i++) core_has(t, i, i);
  }
  t->owns_machine = t->n_affinity == t->n_pus;
  t->l1_bytes = sysconf_bytes(_SC_LEVEL1_DCACHE_SIZE);
  t->l2_bytes = sysconf_bytes(_SC_LEVEL2_CACHE_SIZE);
  t->l3_bytes = sysconf_bytes(_SC_LEVEL3_CACHE_SIZE);
}

static void threads_decide(tc_topology *t) {
  const char *by = "physical cores";
  t->n_threads = t->n_cores;
  if (t->n_affinity < t->n_threads) t->n_threads = t->n_affinity, by = "the affinity mask";
  if (t->quota > 0 && ceil(t->quota) < t->n_threads) t->n_threads = (int)ceil(t->quota), by = "the cgroup CPU quota";
  if (t->n_threads < 1) t->n_threads = 1;
  char quota[32] = "none";
  if (t->quota > 0) snprintf(quota, sizeof quota, "%.2f", t->quota);
  snprintf(t->why, sizeof t->why, "%d thread%s, by %s (cores %d, affinity mask %d of %d PUs, quota %s)", t->n_threads,
           t->n_threads == 1 ? "" : "s", by, t->n_cores, t->n_affinity, t->n_pus, quota);
}

static void forget(tc_topology *t) {
  *t = (tc_topology){0};
  memset(t->pu_of_core, 0xFF, sizeof t->pu_of_core), memset(t->core_of_pu, 0xFF, sizeof t->core_of_pu);
}

// cgroup_root stands for /: root/proc/self/cgroup and root/sys/fs/cgroup are read. NULL: the real
// ones.
void tc_topology_read(tc_topology *out, const char *cgroup_root, const char *synthetic) {
  forget(out);
  bool silent = tc_options_get()->embed && !synthetic;  // hwloc writes to stderr where it misses /sys
  if (silent || !cores_and_caches(out, synthetic)) {
    forget(out);
    cores_and_caches_from_sys(out);
  }
  if (out->l1_bytes == 0) out->l1_bytes = GUESS_L1_BYTES;
  if (out->l2_bytes == 0) out->l2_bytes = GUESS_L2_BYTES;
  if (!cgroup_root || *cgroup_root)
    out->quota = TC_MAX_OF(tc_cgroup_least(cgroup_root ? cgroup_root : "", "cpu", dir_quota), 0);
  // Containers with a quota share the machine: if all pinned threads to the same first cores, they
  // would starve each other.
  if (out->quota > 0) out->owns_machine = false;
  if (out->n_cores > TC_TOPOLOGY_CORES) out->n_cores = TC_TOPOLOGY_CORES;
  threads_decide(out);
}

const tc_topology *tc_topology_get(void) {
  if (!atomic_load_explicit(&ready, memory_order_acquire)) {
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&ready, memory_order_relaxed)) {
      tc_topology_read(&topology, NULL, NULL);
      // Release: a thread that sees ready sees the fields.
      atomic_store_explicit(&ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
  }
  return &topology;
}

int tc_core_of_pu(int pu) {
  return pu >= 0 && pu < TC_TOPOLOGY_PUS ? tc_topology_get()->core_of_pu[pu] : -1;
}
