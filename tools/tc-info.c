// tc-info: what this build of tc is, what it found on this machine and whether a kernel can be
// compiled on each device: a line each.
//   tc-info [--all | --help]      --all: also each GPU's libraries and a trial on it, caches, the environment variables, the topics of TC_LOG
#include <stdio.h>
#include <string.h>
#include <tc/backend.h>

#include "device/device.h"
#include "device/gpu.h"
#include "device/gpu/ranges.h"
#include "device/loaded_backend.h"
#include "lowering/jit/compiler.h"
#include "lowering/target/cpu_target.h"
#include "lowering/target/host_tiles.h"
#include "runtime/disk.h"
#include "runtime/files.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/topology.h"

static const char help[] =
    "usage: tc-info [--all]\n"
    "says what this build of tc is, and what it found: devices, machine, compiler, cache\n"
    "  --all    also each GPU's libraries and a trial on it, caches, the environment variables and the topics of TC_LOG\n"
    "exit status: 0, or 1 where a trial kernel does not work on the processor\n";

typedef enum detail { IN_SHORT, IN_FULL } detail;

// Of a GPU that is there: its vendor's libraries, or why none is used. No run of one of AMD's on
// hardware is known to this version.
static void print_libraries(tc_device d) {
  static const char *const makes[] = {[TC_GPU_MATMULS] = "products", [TC_GPU_CONVOLUTIONS] = "convolutions"};
  tc_gpu *g;
  if (tc_gpu_get(d, &g) != TC_OK) return;
  for (int i = 0; i < TC_GPU_N_LIBRARIES; i++) {
    const char *why = tc_gpu_library_absent(g, (tc_gpu_library)i);
    if (why)
      printf("  %-10s generated %s alone: %s\n", "", makes[i], why);
    else
      printf(
          "  %-10s %s beside generated ones: %s%s%s\n", "", makes[i], tc_gpu_library_name(g, (tc_gpu_library)i),
          strncmp(tc_device_name(d), "tc:hip", 6) == 0 ? ", which ran simulated only" : "",
          tc_gpu_library_is_measured(g, (tc_gpu_library)i) ? "; it is asked where it is measured (TC_AUTOTUNE=1)" : "");
  }
  printf("  %-10s %s\n", "", tc_gpu_ranges_sentence(d));
  if (tc_gpu_facts_of(g)->wgmma)
    printf("  %-10s products of f16 and bf16 by %s\n", "",
           tc_options_get()->gpu_wgmma ? "wgmma where operands allow, as TC_GPU_WGMMA asks"
                                       : "mma.sync; by wgmma where TC_GPU_WGMMA=1 asks for it");
}

// Compiles and runs one small kernel on the default device, so that a compiler that is there but
// does not work shows.
static bool print_trial(const char *before) {
  tc_sync_point p;
  float v = 0;
  tc_tensor x = tc_arange(0, 4, 1, TC_F32);
  if (tc_item_f32(tc_sum(tc_mul(x, 2), TC_ALL, false), &v) != TC_OK)
    return printf("%sa trial failed: %s\n", before, tc_last_error()->message), false;
  if (v != 12) return printf("%sa trial gave %g instead of 12\n", before, (double)v), false;
  if (tc_sync_points(1, &p) == 1)
    printf("%sa trial kernel works (%s): made in %.1f ms, run in %.1f us\n", before, p.tier,
           (double)p.compile_ns * 1e-6, (double)p.run_ns * 1e-3);
  return true;
}

static void print_gpu(tc_device d, detail how) {
  char before[16];
  printf("  %-10s fused kernels on %s\n", tc_device_name(d), tc_gpu_sentence(d));
  if (how == IN_SHORT) return;
  print_libraries(d);
  snprintf(before, sizeof before, "  %-10s ", "");
  if (tc_push_device(tc_device_name(d)) != TC_OK) {
    printf("%s%s\n", before, tc_last_error()->message);
  } else {
    (void)print_trial(before);
    (void)tc_pop_device();
  }
  tc_clear_error();
}

static void print_devices(detail how) {
  static const char *const kinds[] = {[TC_DEVICE_KERNELS] = "fused kernels",
                                      [TC_DEVICE_ROWS] = "reference kernels, op by op",
                                      [TC_DEVICE_ZEROS] = "computes nothing, every result is zeros"};
  printf("devices (default %s)\n", tc_get_default_device());
  for (int row = 0; row < TC_N_DEVICES; row++) {
    tc_device d = (tc_device)row;
    if (tc_device_kind_of(d) != TC_DEVICE_GPU) {
      printf("  %-10s %s\n", tc_device_name(d), kinds[tc_device_kind_of(d)]);
      continue;
    }
    // Why there is none, or as many as there are.
    if (tc_gpu_absent(d)) printf("  %-10s absent: %s\n", tc_device_name(d), tc_gpu_sentence(d));
    for (int i = 0; i < TC_MOST_ORDINALS && !tc_gpu_absent(tc_device_of_row(d, i)); i++)
      print_gpu(tc_device_of_row(d, i), how);
  }
  const char *name;
  for (int i = 0; (name = tc_backend_device(i)); i++) {
    tc_device d = (tc_device)(TC_N_DEVICES + i);
    const char *absent = tc_loaded_absent(d);
    printf("  %-10s %s%s\n", name, absent ? "absent: " : "back end: ", absent ? absent : tc_loaded_sentence(d));
  }
}

static void print_topology(detail how) {
  const tc_topology *t = tc_topology_get();
  printf("machine\n  %d cores, %d hardware threads, %d in the affinity mask, ", t->n_cores, t->n_pus, t->n_affinity);
  if (t->quota > 0)
    printf("a quota of %.2f CPUs\n", t->quota);
  else
    printf("no CPU quota\n");
  if (how == IN_FULL)
    printf("  caches: L1 %zu KiB, L2 %zu KiB, L3 %zu KiB\n", t->l1_bytes >> 10, t->l2_bytes >> 10, t->l3_bytes >> 10);
  printf("  threads: %d; %s\n", tc_num_threads(), t->why);
  if (tc_options_get()->num_threads > 0)
    printf("  (TC_NUM_THREADS is %lld)\n", (long long)tc_options_get()->num_threads);
}

static void print_cache(detail how) {
  char dir[TC_DIR_BYTES];
  bool kept = tc_disk_is_on() && tc_files_dir(dir);
  printf("compiled kernels are kept in %s\n",
         kept ? dir : "memory alone: TC_CACHE_BYTES is 0, or there is no directory for them");
  if (how == IN_SHORT) return;
  tc_cache_info c = tc_cache_stats();
  printf(
      "  of this process: plans: %zu (%llu hits, %llu misses); kernels: %zu (%llu hits, %llu misses, of which %llu compiled)\n",
      c.n_plans, (unsigned long long)c.plan_hits, (unsigned long long)c.plan_misses, c.n_kernels,
      (unsigned long long)c.kernel_hits, (unsigned long long)c.kernel_misses, (unsigned long long)c.compiles);
}

int main(int argc, char **argv) {
  detail how = argc > 1 && strcmp(argv[1], "--all") == 0 ? IN_FULL : IN_SHORT;
  if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) return fputs(help, stdout), 0;
  if (argc > 2 || (argc == 2 && how == IN_SHORT))
    return fprintf(stderr, "tc-info: there is no '%s'\n%s", argv[argc > 2 && how == IN_FULL ? 2 : 1], help), 2;
  printf("tc %s\n", tc_version_text());
  print_devices(how);
  print_topology(how);
  printf("compiler\n  %s\n", tc_compiler_sentence());
  printf("  %s\n", tc_host_tiles_sentence(tc_compiler_isa()->tiles));
  bool works = print_trial("  ");
  print_cache(how);
  if (how == IN_SHORT) {
    printf("tc-info --all: also GPUs' libraries, caches, environment variables, topics of TC_LOG\n");
    return !works;
  }
  printf("environment\n");
  tc_options_print(stdout);
  printf("topics of TC_LOG\n");
  tc_log_print_topics(stdout);
  return !works;
}
