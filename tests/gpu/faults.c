// Every function of the simulated drivers of CUDA and HIP fails in turn, once, with each kind of
// result, anywhere between opening a device and leaving it: what was asked for is then right or a
// status with a sentence, nothing hangs or crashes, the simulator finds no mistake in what follows,
// and the CPU goes on. So where an allocation of the library's own fails.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "device/gpu.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "tests/expect.h"
#include "tests/sim/built.h"

enum { N = 300, RUNS = 4, ALLOCATIONS = 60 };
#ifdef __SANITIZE_ADDRESS__
enum { APART = 3 };  // each process is looked through for leaks: one result for a function, by turns
#else
enum { APART = 1 };
#endif

static const char source[] =
    "#include \"tc_words.h\"\n"
    "TC_KERNEL(step, 64) {\n"
    "  u64 *x = (u64 *)tc_table[0];\n"
    "  i32 i = TC_BLOCK * 64 + TC_THREAD;\n"
    "  if (i < 300) x[i] = x[i] * tc_table[1] + (u64)i;\n"
    "}\n";

static tc_device device;
static const char *driver_name;

static void ignore_time(const char *name, uint64_t ns) {
  (void)name, (void)ns;
}

static tc_status run_all(tc_gpu_sequence *s, void *x) {
  for (uint64_t run = 0; run < RUNS; run++) {
    uint64_t words[2] = {(uint64_t)(uintptr_t)x, run + 2};
    TC_TRY(run + 1 < RUNS ? tc_gpu_sequence_run(s, words) : tc_gpu_sequence_time(s, words, ignore_time));
  }
  return TC_OK;
}

// All that a device is used for; the first status that is not TC_OK.
static tc_status use(tc_gpu *g, uint64_t *got) {
  static const uint64_t from[N];
  static uint64_t later[N];
  void *x = NULL, *y = NULL;
  tc_gpu_code *code = NULL;
  tc_gpu_sequence *s = NULL;
  tc_status st;
  if ((st = tc_gpu_alloc(g, sizeof from, &x)) != TC_OK) goto done;
  if ((st = tc_gpu_alloc(g, sizeof from, &y)) != TC_OK) goto done;
  if ((st = tc_gpu_write(g, x, from, sizeof from)) != TC_OK) goto done;
  if ((st = tc_gpu_compile(g, "step", source, &code)) != TC_OK) goto done;
  if ((st = tc_gpu_sequence_create(g, &(tc_gpu_launch){code, (N + 63) / 64, 64, 49 << 10, 0}, 1, 2, &s)) != TC_OK)
    goto done;
  if ((st = run_all(s, x)) != TC_OK) goto done;
  if ((st = tc_gpu_write(g, y, from, sizeof from / 2)) != TC_OK) goto done;
  if ((st = tc_gpu_write(g, (char *)y + sizeof from / 2, from, sizeof from / 2)) != TC_OK) goto done;
  if ((st = tc_gpu_copy(g, y, x, sizeof from)) != TC_OK) goto done;
  if ((st = tc_gpu_read_begin(g, later, y, sizeof from)) != TC_OK) goto done;
  if ((st = tc_gpu_wait(g)) != TC_OK) goto done;
  st = tc_gpu_read(g, got, y, sizeof from);
  if (st == TC_OK && memcmp(got, later, sizeof later) != 0)
    st = TC_FAIL(TC_ERR_STATE, "the copy that was waited for later has other numbers");
done:
  tc_gpu_sequence_destroy(s);
  tc_gpu_code_release(code);
  tc_gpu_free(g, y);
  tc_gpu_free(g, x);
  return st;
}

static void check(const uint64_t *got, const char *fault) {
  int n_bad = 0;
  for (uint64_t i = 0; i < N; i++) {
    uint64_t want = 0;
    for (uint64_t run = 0; run < RUNS; run++) want = want * (run + 2) + i;
    n_bad += got[i] != want;
  }
  EXPECT(n_bad == 0, "%s: %d of %d results are wrong", fault, n_bad, N);
}

static void use_cpu(const char *fault) {
  float sum = 0;
  tc_clear_error();
  EXPECT(tc_item_f32(tc_sum(tc_ones(TC_SHAPE(5), TC_F32), TC_ALL, false), &sum) == TC_OK && sum == 5,
         "%s: the CPU gives %g", fault, (double)sum);
}

// What failed, and how: the status of the whole.
static tc_status scenario(const char *fault) {
  static uint64_t got[N];
  tc_gpu *g;
  tc_status st = tc_gpu_get(device, &g);
  if (st == TC_OK) st = use(g, got);
  if (st == TC_OK) check(got, fault);
  EXPECT(st == TC_OK || (tc_last_error()->status == st && strlen(tc_last_error()->message) > 20), "%s: %s", fault,
         tc_status_text(st));
  return st;
}

static void *library(const char *name) {
  void *handle = dlopen(built(name), RTLD_NOW | RTLD_LOCAL);
  if (!handle) printf("%s\n", dlerror()), exit(1);
  return handle;
}

static int in_child(const char *fault, long nth_allocation, tc_status *st) {
  int status = 0, end[2];
  fflush(stdout);
  *st = TC_N_STATUSES;
  if (pipe(end) != 0) return -1;
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    atomic_store(&expect_n_failed, 0);
    if (fault) setenv("TC_SIM_FAIL", fault, 1);
    const char *name = fault ? fault : "no fault";
    if (nth_allocation > 0) tc_alloc_fail_at(nth_allocation, 0);
    tc_status result = scenario(name);
    EXPECT(nth_allocation == 0 || result == TC_OK || result == TC_ERR_MEMORY, "allocation %ld: %s", nth_allocation,
           tc_last_error()->message);
    tc_alloc_fail_at(0, 0);
    use_cpu(name);
    tc_shutdown();
    void *driver = library(driver_name);
    int (*faults)(void) = (int (*)(void))dlsym(driver, "sim_faults");
    const char *(*text)(void) = (const char *(*)(void))dlsym(driver, "sim_fault_text");
    // Memory whose giving back was refused stays in the pool.
    bool kept = fault && strstr(fault, "FreeAsync") && faults() == 1 && strstr(text(), "a pool is destroyed while");
    EXPECT(faults() == 0 || kept, "%s: the simulator found: %s", name, text());
    if (kept) ((void (*)(void))dlsym(driver, "sim_forget"))();
    if (write(end[1], &result, sizeof result) != sizeof result) exit(1);
    exit(atomic_load(&expect_n_failed) != 0);  // a sanitizer then looks for leaks
  }
  close(end[1]);
  if (read(end[0], st, sizeof *st) != sizeof *st) *st = TC_N_STATUSES;
  close(end[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *const of_cuda[] = {
#define TC_CUDA_ROW(symbol, needed, parameters) #symbol,
#include "device/cuda/driver.def"
#undef TC_CUDA_ROW
};
static const char *const of_hip[] = {
#define TC_HIP_ROW(symbol, result, needed, parameters) #symbol,
#include "device/hip/driver.def"
#undef TC_HIP_ROW
};

static void quiet(const char *line, void *arg) {
  (void)line, (void)arg;
}

// All functions of one driver, each with results that say: refused, short of memory, a sticky
// fault, of which a device is lost.
static void fail_each(const char *const *functions, size_t n_functions) {
  static const char *const results[] = {"1", "2", "700!"};
  int n_failed = 0, n_cases = 0;
  tc_status st;
  EXPECT(in_child(NULL, 0, &st) == 0 && st == TC_OK, "without a fault: %s", tc_status_text(st));
  for (size_t f = 0; f < n_functions; f++) {
    for (size_t r = f % APART; r < sizeof results / sizeof *results; r += APART) {
      for (int nth = 1; nth <= 2; nth++) {
        char fault[96];
        snprintf(fault, sizeof fault, "%s:%d=%s", functions[f], nth, results[r]);
        int rc = in_child(fault, 0, &st);
        EXPECT(rc == 0, "%s: the process ends with %d, the status is %d", fault, rc, (int)st);
        n_failed += st != TC_OK, n_cases++;
      }
    }
  }
  EXPECT(n_failed > n_cases / 4, "only %d of %d faults were seen", n_failed, n_cases);
}

static void fail_allocations(void) {
  int n_short = 0;
  tc_status st;
  for (long nth = 1; nth <= ALLOCATIONS; nth++) {
    EXPECT(in_child(NULL, nth, &st) == 0, "allocation %ld: the status is %d", nth, (int)st);
    n_short += st == TC_ERR_MEMORY;
  }
  EXPECT(n_short >= 8 && n_short < ALLOCATIONS, "%d of %d allocations that failed were seen", n_short, ALLOCATIONS);
}

int main(void) {
  if (!built_simulators()) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  setenv("TC_COMPILER", "interp", 1);
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  setenv("TC_GPU_AHEAD", "2", 1);  // so that a run waits for earlier ones
  char beside[16];
  snprintf(beside, sizeof beside, "%zu", N * sizeof(uint64_t));  // whole copies run beside kernels, halves do not
  setenv("TC_GPU_BESIDE", beside, 1);
  char cache[] = "/tmp/tc-faults-XXXXXX", command[64];
  if (!mkdtemp(cache)) return 1;
  setenv("TC_CACHE_DIR", cache, 1);  // so that the simulated compiler is asked once
  unsetenv("TC_CACHE_BYTES");
  tc_options_reload();
  tc_set_log(quiet, NULL);
  device = TC_DEVICE_CUDA, driver_name = "libsim-cuda.so";
  fail_each(of_cuda, sizeof of_cuda / sizeof *of_cuda);
  fail_allocations();
  device = TC_DEVICE_HIP, driver_name = "libsim-hip.so";
  fail_each(of_hip, sizeof of_hip / sizeof *of_hip);
  snprintf(command, sizeof command, "rm -r %s", cache);
  EXPECT(system(command) == 0, "%s", cache);
  return expect_done("gpu-faults");
}
