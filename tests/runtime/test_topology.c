// Topology: synthetic machines, missing levels; cgroup v1 and v2 quotas, and memory that is to be
// had, in a made-up root.
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/mem_available.h"
#include "runtime/topology.h"

#define EIGHT_CORES "pack:1 numa:1 l3:1(size=32MB) l2:8(size=1MB) l1d:1(size=48KB) core:1 pu:2"

static char root[64];

static void root_make(void) {
  strcpy(root, "/tmp/tc_topologyXXXXXX");
  cr_assert_not_null(mkdtemp(root));
}

static void root_remove(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  cr_assert_eq(system(command), 0);
}

static void file_write(const char *dir, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "mkdir -p '%s/%s'", root, dir);
  cr_assert_eq(system(path), 0);
  snprintf(path, sizeof path, "%s/%s/%s", root, dir, name);
  FILE *f = fopen(path, "w");
  cr_assert_not_null(f);
  fputs(text, f);
  fclose(f);
}

TestSuite(quota, .init = root_make, .fini = root_remove);

Test(topology, real_machine_is_sane) {
  const tc_topology *t = tc_topology_get();
  cr_assert(t->n_cores >= 1 && t->n_pus >= 1 && t->n_affinity >= 1);
  cr_assert(t->n_threads >= 1 && t->n_threads <= t->n_affinity && t->n_threads <= t->n_cores);
  cr_assert(t->l1_bytes > 0 && t->l2_bytes > 0);
  cr_assert(strlen(t->why) > 0);
  for (int core = 0; core < t->n_cores; core++) cr_assert_eq(t->core_of_pu[t->pu_of_core[core]], core);
  cr_assert_eq(tc_topology_get(), t);
}

Test(topology, synthetic_machine_is_read) {
#ifndef TC_HAVE_HWLOC
  cr_skip_test("no hwloc");
#else
  tc_topology t;
  tc_topology_read(&t, "", EIGHT_CORES);
  cr_assert_eq(t.n_cores, 8);
  cr_assert_eq(t.n_pus, 16);
  cr_assert_eq(t.n_affinity, 16);
  cr_assert_eq(t.n_threads, 8);
  cr_assert_eq(t.pu_of_core[3], 6);
  for (int pu = 0; pu < 16; pu++) cr_assert_eq(t.core_of_pu[pu], pu / 2);
  cr_assert_eq(t.core_of_pu[16], -1);
  cr_assert(t.l1_bytes >= 46000 && t.l2_bytes >= 990000 && t.l3_bytes >= 31000000);
  cr_assert(t.owns_machine);
  cr_assert_float_eq(t.quota, 0, 0);
#endif
}

Test(topology, missing_levels_are_guessed) {
#ifndef TC_HAVE_HWLOC
  cr_skip_test("no hwloc");
#else
  tc_topology t;
  tc_topology_read(&t, "", "numa:2 core:8 pu:2");
  cr_assert_eq(t.n_threads, 16);
  cr_assert(t.l1_bytes > 0 && t.l2_bytes > 0);
  cr_assert_eq(t.l3_bytes, 0);
  tc_topology_read(&t, "", "pack:64 core:8 pu:1");
  cr_assert_eq(t.n_cores, 256);
#endif
}

static void quota_is(double expected) {
  tc_topology t;
  tc_topology_read(&t, root, NULL);
  cr_assert_float_eq(t.quota, expected, 1e-9, "%g, not %g", t.quota, expected);
  if (expected > 0) cr_assert_not(t.owns_machine);
  if (expected > 0 && expected <= 1) cr_assert_eq(t.n_threads, 1);
}

Test(quota, v2_takes_the_least_of_the_path) {
  file_write("proc/self", "cgroup", "0::/a/b\n");
  file_write("sys/fs/cgroup", "cgroup.controllers", "cpu\n");
  file_write("sys/fs/cgroup/a", "cpu.max", "50000 100000\n");
  file_write("sys/fs/cgroup/a/b", "cpu.max", "max 100000\n");
  quota_is(0.5);
}

Test(quota, v2_in_a_container_reads_the_mount) {
  file_write("proc/self", "cgroup", "0::/not/visible/here\n");
  file_write("sys/fs/cgroup", "cpu.max", "150000 100000\n");
  quota_is(1.5);
}

Test(quota, v2_outside_the_namespace_reads_the_mount) {
  file_write("proc/self", "cgroup", "0::/../x\n");
  file_write("sys/fs/cgroup", "cpu.max", "100000 100000\n");
  file_write("sys/fs/x", "cpu.max", "10000 100000\n");
  quota_is(1);
}

Test(quota, v1_reads_cfs_files) {
  file_write("proc/self", "cgroup", "5:cpuset:/\n3:cpu,cpuacct:/d\n");
  file_write("sys/fs/cgroup/cpu,cpuacct/d", "cpu.cfs_quota_us", "25000\n");
  file_write("sys/fs/cgroup/cpu,cpuacct/d", "cpu.cfs_period_us", "100000\n");
  file_write("sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "-1\n");
  quota_is(0.25);
}

Test(quota, none_is_zero) {
  quota_is(0);
  file_write("proc/self", "cgroup", "garbage\n1:cpu:/\n0::/\n");
  file_write("sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "-1\n");
  file_write("sys/fs/cgroup", "cpu.max", "max 100000\n");
  quota_is(0);
}

Test(quota, rounds_up_to_whole_threads) {
#ifndef TC_HAVE_HWLOC
  cr_skip_test("no hwloc");
#else
  tc_topology t;
  file_write("proc/self", "cgroup", "0::/\n");
  file_write("sys/fs/cgroup", "cpu.max", "250000 100000\n");
  tc_topology_read(&t, root, EIGHT_CORES);
  cr_assert_eq(t.n_threads, 3);
  cr_assert_not_null(strstr(t.why, "quota"));
#endif
}

static void room_is(size_t expected) {
  cr_assert_eq(tc_mem_available(root), expected, "%zu, not %zu", tc_mem_available(root), expected);
}

Test(quota, memory_is_what_the_system_has) {
  room_is(SIZE_MAX);
  file_write("proc", "meminfo", "MemTotal:       24687400 kB\nMemFree:        2000 kB\nMemAvailable:   4000 kB\n");
  room_is(4000 * 1024);
  cr_assert(tc_mem_available("") > 1 << 20);
}

Test(quota, memory_is_what_cgroups_leave) {
  file_write("proc", "meminfo", "MemAvailable:   4000 kB\n");
  file_write("proc/self", "cgroup", "0::/a/b\n");
  file_write("sys/fs/cgroup/a", "memory.max", "3000000\n");
  file_write("sys/fs/cgroup/a", "memory.current", "2500000\n");
  file_write("sys/fs/cgroup/a/b", "memory.max", "max\n");
  file_write("sys/fs/cgroup/a/b", "memory.current", "2500000\n");
  room_is(500000);
  file_write("sys/fs/cgroup/a", "memory.stat", "anon 2000000\nfile 300000\ninactive_file 200000\nactive_file 100000\n");
  room_is(700000);
  file_write("sys/fs/cgroup/a", "memory.current", "3500000\n");
  room_is(0);
}

Test(quota, memory_is_what_v1_leaves) {
  file_write("proc", "meminfo", "MemAvailable:   4000 kB\n");
  file_write("proc/self", "cgroup", "4:memory:/c\n0::/\n");
  file_write("sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  file_write("sys/fs/cgroup/memory", "memory.usage_in_bytes", "90000000\n");
  room_is(4000 * 1024);
  file_write("sys/fs/cgroup/memory/c", "memory.limit_in_bytes", "2000000\n");
  file_write("sys/fs/cgroup/memory/c", "memory.usage_in_bytes", "1500000\n");
  file_write("sys/fs/cgroup/memory/c", "memory.stat", "cache 9\ninactive_file 5\ntotal_inactive_file 100000\n");
  room_is(600000);
}
