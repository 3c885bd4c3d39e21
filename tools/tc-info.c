// tc-info: what this build of tc is, what it found on this machine, whether a kernel can be compiled on each device, and the environment variables it knows.
#include <stdio.h>

#include "device/device.h"
#include "device/gpu.h"
#include "device/gpu/ranges.h"
#include "lowering/compiler.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/topology.h"

// Of a GPU that is there: its vendor's libraries, or why none is used. No run of one on hardware is known to this version.
static void print_libraries(tc_device d) {
  static const char *const makes[] = {[TC_GPU_PRODUCTS] = "products", [TC_GPU_CONVOLUTIONS] = "convolutions"};
  tc_gpu *g;
  if (tc_gpu_get(d, &g) != TC_OK) return;
  for (int i = 0; i < TC_GPU_N_LIBRARIES; i++) {
    const char *why = tc_gpu_library_absent(g, (tc_gpu_library)i);
    if (why)
      printf("  %-10s generated %s alone: %s\n", "", makes[i], why);
    else
      printf("  %-10s %s beside generated ones: %s, which ran simulated only%s\n", "", makes[i], tc_gpu_library_name(g, (tc_gpu_library)i),
             tc_gpu_library_is_measured(g, (tc_gpu_library)i) ? "; it is asked where it is measured (TC_AUTOTUNE=1)" : "");
  }
  printf("  %-10s %s\n", "", tc_gpu_ranges_sentence(d));
  if (tc_gpu_facts_of(g)->wgmma)
    printf("  %-10s products of f16 and bf16 by %s\n", "",
           tc_options_get()->gpu_wgmma ? "wgmma where operands allow, as TC_GPU_WGMMA asks, which ran simulated only"
                                       : "mma.sync; by wgmma, which ran simulated only, where TC_GPU_WGMMA=1 asks for it");
}

// Compiles and runs one small kernel on the default device, so that a compiler that is there but does not work shows.
static bool print_trial(const char *before) {
  tc_sync_point p;
  float v = 0;
  tc_tensor x = tc_arange(0, 4, 1, TC_F32);
  if (tc_item_f32(tc_sum(tc_mul(x, 2), TC_ALL, false), &v) != TC_OK) return printf("%sa trial failed: %s\n", before, tc_last_error()->message), false;
  if (v != 12) return printf("%sa trial gave %g instead of 12\n", before, (double)v), false;
  if (tc_sync_points(1, &p) == 1)
    printf("%sa trial kernel works (%s): made in %.1f ms, run in %.1f us\n", before, p.tier, (double)p.compile_ns * 1e-6, (double)p.run_ns * 1e-3);
  return true;
}

static void print_gpu(tc_device d) {
  char before[16];
  printf("  %-10s fused kernels on %s\n", tc_device_name(d), tc_gpu_sentence(d));
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

static void print_devices(void) {
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
    for (int i = 0; i < TC_MOST_ORDINALS && !tc_gpu_absent(tc_device_of_row(d, i)); i++) print_gpu(tc_device_of_row(d, i));
  }
}

static void print_topology(void) {
  const tc_topology *t = tc_topology_get();
  printf("machine\n  %d cores, %d hardware threads, %d in the affinity mask, ", t->n_cores, t->n_pus, t->n_affinity);
  if (t->quota > 0)
    printf("a quota of %.2f CPUs\n", t->quota);
  else
    printf("no CPU quota\n");
  printf("  caches: L1 %zu KiB, L2 %zu KiB, L3 %zu KiB\n", t->l1_bytes >> 10, t->l2_bytes >> 10, t->l3_bytes >> 10);
  printf("  threads: %d; %s\n", tc_num_threads(), t->why);
  if (tc_options_get()->num_threads > 0) printf("  (TC_NUM_THREADS is %lld)\n", (long long)tc_options_get()->num_threads);
}

static bool print_cache(void) {
  printf("compiler\n  %s\n", tc_compiler_sentence());
  bool works = print_trial("  ");
  tc_cache_info c = tc_cache_stats();
  printf("caches of this process\n  plans: %zu (%llu hits, %llu misses); kernels: %zu (%llu hits, %llu misses, of which %llu compiled)\n", c.n_plans,
         (unsigned long long)c.plan_hits, (unsigned long long)c.plan_misses, c.n_kernels, (unsigned long long)c.kernel_hits,
         (unsigned long long)c.kernel_misses, (unsigned long long)c.compiles);
  return works;
}

int main(void) {
  printf("tc %s\n", tc_version_text());
  print_devices();
  print_topology();
  bool works = print_cache();
  printf("environment\n");
  tc_options_print(stdout);
  printf("topics of TC_LOG\n");
  tc_log_print_topics(stdout);
  return !works;
}
