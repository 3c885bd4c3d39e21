// Runs of one plan after the other on a GPU, simulated: what the profile says of how they were
// launched and of their memory, and that a hundred thousand replays leave nothing behind, neither
// the library's nor the driver's.
//   gpu_replay [replays = 100000]
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/profile_format.h"
#include "tests/child.h"
#include "tests/sim/built.h"

static tc_sync_point latest(void) {
  tc_sync_point p = {0};
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  return p;
}

// ---- what the profile says ----

typedef struct how {
  const char *name, *setting[4];
  bool indexed;  // the plan checks indices
  bool replayed;  // from its second run on
  const char *first, *later;  // what is said of it, in part; NULL: nothing
} how;

static const how hows[] = {
    {.name = "a plan", .replayed = true, .first = "its first run"},
    {.name = "a plan with indices",
     .indexed = true,
     .replayed = true,
     .first = "its first run",
     .later = "waits for the check of its indices"},
    {.name = "a driver without graphs",
     .setting = {"TC_SIM_DRIVER_VERSION=11080", "TC_SIM_NVRTC=11.8"},
     .first = "its first run",
     .later = "older than CUDA 12.0"},
    {.name = "a graph that cannot be made",
     .setting = {"TC_SIM_FAIL=cuGraphInstantiateWithFlags:1=1"},
     .first = "its first run",
     .later = "refused"},
    {.name = "kernels that are timed",
     .setting = {"TC_PROFILE=gpu_replay.%p.profile", "TC_PROFILE_KERNELS=1"},
     .first = "timed one by one",
     .later = "timed one by one"},
    {.name = "a launch that is refused",
     .setting = {"TC_SIM_FAIL=cuGraphLaunch:1=1"},
     .first = "its first run",
     .later = "refused"},
};

static void expect_note(const how *h, int run, const char *note, const char *want) {
  EXPECT(want ? note && strstr(note, want) : !note, "%s, run %d: %s", h->name, run, note ? note : "no note");
}

// Of a simulated device 5 us a kernel is what its clock says.
static void expect_times(const how *h, const char *path) {
  enum { MOST = 1 << 20 };
  char *data = malloc(MOST);
  FILE *from = fopen(path, "r");
  size_t n = from && data ? fread(data, 1, MOST, from) : 0, timed = 0;
  for (size_t at = 16; at + sizeof(tc_prof_head) <= n;) {
    const tc_prof_head *head = (const void *)(data + at);
    if (head->bytes == 0) break;
    const tc_prof_kernel_time *row = (const void *)(data + at + sizeof(tc_prof_kernel_times));
    for (int i = 0; head->kind == TC_PROF_KERNEL_TIMES && i < head->n; i++, timed++)
      EXPECT(row[i].ns > 4900 && row[i].ns < 5100, "%s: %llu ns", h->name, (unsigned long long)row[i].ns);
    at += head->bytes;
  }
  EXPECT(timed >= 3, "%s: %zu kernels were timed", h->name, timed);
  if (from) fclose(from);
  free(data);
}

static void expect_summary(const how *h) {
  char *text = NULL, counts[64];
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return;
  tc_profile_print(to);
  fclose(to);
  snprintf(counts, sizeof counts, "%d of 3 runs replayed", h->replayed ? 2 : 0);
  EXPECT(strstr(text, counts) && strstr(text, h->later ? h->later : h->first), "%s: %s", h->name, text);
  free(text);
}

static double notes(const void *arg) {
  const how *h = arg;
  bool timed = h->setting[1] && strcmp(h->setting[1], "TC_PROFILE_KERNELS=1") == 0;
  setenv("TC_PROFILE", "1", 1);
  for (int i = 0; h->setting[i]; i++) putenv((char *)h->setting[i]);
  tc_options_reload();
  const float x[] = {1, 2, 3, 4};
  const int64_t at[] = {3, 0};
  EXPECT_OK(tc_set_default_device("tc:cuda"));
  for (int run = 0; run < 3; run++) {
    tc_scope s = tc_scope_begin();
    float got[2] = {0};
    tc_tensor t = tc_mul(tc_from_host(x, TC_SHAPE(4), TC_F32), 2 + run);
    t = h->indexed ? tc_index_select(t, 0, tc_from_host(at, TC_SHAPE(2), TC_I64)) : tc_slice(t, 0, 0, 2, 1);
    EXPECT_OK(tc_to_host(t, got, sizeof got));
    EXPECT(got[0] == (float)(2 + run) * (h->indexed ? 4 : 1), "%s: %g", h->name, got[0]);
    tc_sync_point p = latest();
    EXPECT(p.replayed == (run > 0 && h->replayed), "%s, run %d: %d", h->name, run, p.replayed);
    expect_note(h, run, p.gpu_note, run == 0 ? h->first : h->later);
    tc_scope_end(s);
  }
  if (timed) {
    char path[64];
    snprintf(path, sizeof path, "gpu_replay.%d.profile", (int)getpid());
    EXPECT_OK(tc_profile_stop());
    expect_times(h, path);
    unlink(path);
  } else {
    expect_summary(h);
  }
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  float v;
  EXPECT_OK(tc_item_f32(tc_sum(tc_ones(TC_SHAPE(3), TC_F32), TC_ALL, false), &v));
  EXPECT(!latest().replayed && !latest().gpu_note, "of tc:cpu nothing is said");
  tc_shutdown();
  fflush(stdout);
  return 0;
}

// ---- memory ----

// One plan with a value in its arena, its result and its operand powers of two, so that nothing is
// rounded up; what is in use besides counts, too.
static double memory(const void *device) {
  enum { N = 256, BYTES = N * N * 4 };
  static float data[N * N], got[N * N];
  EXPECT_OK(tc_set_default_device(device));
  tc_tensor x = tc_from_host(data, TC_SHAPE(N, N), TC_F32), other = tc_from_host(data, TC_SHAPE(N, N), TC_F32);
  EXPECT_OK(tc_sync(NULL));
  size_t before = tc_memory_stats().gpu_live_bytes;
  EXPECT(before == 2 * BYTES, "%zu bytes in use", before);
  tc_tensor y = tc_add(tc_matmul(tc_matmul(x, other), x), 1);
  EXPECT_OK(tc_eval(1, &y));
  tc_sync_point p = latest();
  EXPECT(p.planned_bytes == before + 2 * BYTES, "%llu bytes are planned, %zu are in use before",
         (unsigned long long)p.planned_bytes, before);
  EXPECT(p.peak_bytes == p.planned_bytes, "%llu bytes are planned, %llu are measured",
         (unsigned long long)p.planned_bytes, (unsigned long long)p.peak_bytes);
  EXPECT(tc_memory_stats().gpu_peak_bytes == p.peak_bytes, "%zu bytes are the maximum",
         tc_memory_stats().gpu_peak_bytes);
  EXPECT_OK(tc_to_host(tc_slice(y, 0, 0, 1, 1), got, N * sizeof *got));
  EXPECT(latest().planned_bytes < p.planned_bytes, "of a later run without an arena %llu",
         (unsigned long long)latest().planned_bytes);
  tc_shutdown();
  fflush(stdout);
  return 0;
}

// ---- what replays leave behind ----

typedef struct held {
  long kib;
  tc_memory memory;
  size_t device_bytes;
  int objects;
} held;

static held hold(void *sim) {
  long pages = 0, skip;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
  if (f) fclose(f);
  size_t (*live_bytes)(int) = (__typeof__(live_bytes))dlsym(sim, "sim_live_bytes");
  int (*live_objects)(void) = (__typeof__(live_objects))dlsym(sim, "sim_live_objects");
  return (held){pages * (sysconf(_SC_PAGESIZE) / 1024), tc_memory_stats(), live_bytes(0), live_objects()};
}

// Steps of a plan that reads a new operand and a new scalar and updates a state, whose results are
// kept for a while.
static double replay(const void *arg) {
  long n = *(const long *)arg;
  enum { KEPT = 5 };
  tc_tensor kept[KEPT] = {{0}};
  held before = {0};
  float x[32], sum = 0, want = 0;
  void *sim = dlopen(built("libsim-cuda.so"), RTLD_NOW);
  EXPECT(sim, "%s", dlerror());
  if (!sim) return 1;
  EXPECT_OK(tc_set_default_device("tc:cuda"));
  tc_tensor state = tc_retain(tc_zeros(TC_SHAPE(32), TC_F32));
  for (long k = 0; k < n; k++) {
    tc_scope s = tc_scope_begin();
    for (int i = 0; i < 32; i++) x[i] = (float)((k + i) % 8);
    tc_tensor y = tc_mul(tc_from_host(x, TC_SHAPE(32), TC_F32), (float)(k % 3));
    if (tc_assign(state, tc_add(tc_mul(state, 0.5f), tc_sum(y, TC_ALL, true))) != TC_OK || tc_eval(1, &y) != TC_OK) {
      EXPECT(false, "step %ld", k);
      break;
    }
    want = want * 0.5f + (float)(k % 3) * 4 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);
    tc_release(kept[k % KEPT]);
    kept[k % KEPT] = tc_retain(y);
    tc_scope_end(s);
    EXPECT(k < 2 || latest().replayed, "step %ld: %s", k, latest().gpu_note);
    if (k == n / 10) before = hold(sim);
  }
  held after = hold(sim);
  EXPECT_OK(tc_item_f32(tc_slice(state, 0, 31, 32, 1), &sum));
  EXPECT(sum == want, "the state is %g, not %g", sum, want);
  EXPECT(after.memory.gpu_live_bytes == before.memory.gpu_live_bytes &&
             after.memory.gpu_pooled_bytes == before.memory.gpu_pooled_bytes,
         "bytes in use and pooled: %zu, %zu, were %zu, %zu", after.memory.gpu_live_bytes, after.memory.gpu_pooled_bytes,
         before.memory.gpu_live_bytes, before.memory.gpu_pooled_bytes);
  EXPECT(after.memory.live_bytes == before.memory.live_bytes && after.memory.n_allocs == before.memory.n_allocs,
         "of the host: %zu bytes, were %zu", after.memory.live_bytes, before.memory.live_bytes);
  EXPECT(after.device_bytes == before.device_bytes && after.objects == before.objects,
         "the driver has %zu bytes and %d objects, had %zu and %d", after.device_bytes, after.objects,
         before.device_bytes, before.objects);
  EXPECT(after.kib <= before.kib + 1024, "%ld KiB are resident, were %ld", after.kib, before.kib);
  for (int i = 0; i < KEPT; i++) tc_release(kept[i]);
  tc_release(state);
  tc_shutdown();
  held end = hold(sim);
  EXPECT(
      end.memory.gpu_live_bytes == 0 && end.memory.gpu_pooled_bytes == 0 && end.device_bytes == 0 && end.objects <= 1,
      "at the end: %zu bytes in use, %zu pooled, the driver's %zu and %d objects", end.memory.gpu_live_bytes,
      end.memory.gpu_pooled_bytes, end.device_bytes, end.objects);
  fflush(stdout);
  return 0;
}

int main(int n_words, char **words) {
  long n = n_words > 1 ? strtol(words[1], NULL, 10) : 100000;
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_COMPILER", "interp", 1);
  tc_options_reload();
  for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) EXPECT(in_child(notes, &hows[i]) == 0, "%s", hows[i].name);
  EXPECT(in_child(memory, "tc:cuda") == 0, "memory of tc:cuda");
  EXPECT(in_child(memory, "tc:hip") == 0, "memory of tc:hip");
  EXPECT(in_child(replay, &n) == 0, "replays");
  return expect_done("gpu-replay");
}
