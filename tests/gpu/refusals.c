// Every function of a GPU's driver that a program's work comes to, simulated, refuses once, is
// short of memory, or loses the device, and the program's calls are the public ones: training, rows
// by index, copies that are waited for later, mapping. Then the work is right or an error with a
// sentence that names the device; the same work again is right, unless the device is lost or never
// opened; the CPU's is; and neither the library nor the driver holds anything in the end.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/options.h"
#include "tests/child.h"
#include "tests/sim/built.h"

enum { STEPS = 3, ROWS = 6, COPIED = 4 };

static const struct vendor {
  const char *device, *library;
  const char *function[128];
} vendors[] = {{"tc:cuda",
                "libsim-cuda.so",
                {
#define TC_CUDA_ROW(symbol, needed, parameters) #symbol,
#include "device/cuda/driver.def"
#undef TC_CUDA_ROW
                }},
               {"tc:hip",
                "libsim-hip.so",
                {
#define TC_HIP_ROW(symbol, result, needed, parameters) #symbol,
#include "device/hip/driver.def"
#undef TC_HIP_ROW
                }}};
enum { MOST = sizeof vendors[0].function / sizeof vendors[0].function[0] };
// How a function fails: the first time, or when more has happened.
static const char *const ways[] = {"1=2", "1=700!", "4=1"};
#if defined __SANITIZE_ADDRESS__
enum { APART = 3 };  // each process is looked through for leaks: one way for a function, by turns
#else
enum { APART = 1 };
#endif

typedef struct fault {
  const struct vendor *vendor;
  const char *function, *way;  // NULL: none
} fault;

// How often work without a fault comes to each of a vendor's functions; written by a child.
static uint64_t *calls;

// ---- the work ----

typedef struct results {
  float loss[STEPS], row[ROWS], later[COPIED], seen[COPIED];
} results;

static tc_status train(tc_tensor w, tc_optimizer *opt, float *out_loss) {
  static const float v[] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int k = 0; k < STEPS; k++) {
    tc_tensor y = tc_matmul(tc_from_host(v, TC_SHAPE(2, 4), TC_F32), w),
              loss = tc_mean(tc_square(tc_sub(tc_tanh(y), 0.5f)), TC_ALL, false);
    tc_status st = tc_backward(loss);
    if (st == TC_OK) st = tc_optimizer_step(opt);
    if (st == TC_OK) st = tc_zero_grad(opt);
    if (st == TC_OK) st = tc_item_f32(loss, &out_loss[k]);
    if (st != TC_OK) return st;
  }
  return TC_OK;
}

static tc_status look(tc_tensor t, results *out) {
  tc_status st = tc_to_host_async(t, out->later, sizeof out->later);
  const float *seen = st == TC_OK ? tc_map(t) : NULL;
  if (seen) memcpy(out->seen, seen, sizeof out->seen);
  if (seen && st == TC_OK) st = tc_unmap(t);
  if (st == TC_OK && !seen) st = tc_last_error()->status;
  tc_status came = tc_to_host_wait(out->later);  // whatever was: the memory is the caller's again
  return st == TC_OK ? came : st;
}

// The first status that is not TC_OK.
static tc_status work(const char *device, results *out) {
  static const int64_t at[] = {1, 5, 1};
  tc_status st = tc_set_default_device(device);
  if (st != TC_OK) return st;
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(tc_full(TC_SHAPE(4, 3), 0.25f, TC_F32)), y = {0};
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  st = opt ? train(w, opt, out->loss) : tc_last_error()->status;
  if (st == TC_OK) {
    y = tc_index_add(tc_arange(0, ROWS, 1, TC_F32), 0, tc_from_host(at, TC_SHAPE(3), TC_I64),
                     tc_ones(TC_SHAPE(3), TC_F32));
    st = tc_to_host(tc_sort(y, 0, true), out->row, sizeof out->row);
  }
  if (st == TC_OK) st = look(tc_reshape(tc_slice(w, 1, 0, 1, 1), TC_SHAPE(COPIED)), out);
  if (st == TC_OK) st = tc_sync(NULL);
  tc_optimizer_destroy(opt);
  tc_release(w);
  tc_scope_end(s);
  return st;
}

static void compare(const results *got, const results *want, const char *name) {
  const float *a = (const float *)got, *b = (const float *)want;
  for (size_t i = 0; i < sizeof *got / sizeof *a; i++)
    EXPECT(a[i] - b[i] < 1e-4f && b[i] - a[i] < 1e-4f, "%s: number %zu is %g, not %g", name, i, a[i], b[i]);
}

// ---- one fault ----

static void *handle;
#define CALL(type, name) ((type)dlsym(handle, name))

// Nothing is left: of a lost device nothing can be given back, nor what the driver refused to take.
static void hold_nothing(const fault *f, bool lost) {
  static const char *const taking[] = {"Free", "Destroy", "Unload", "Release"};
  bool refused = lost;
  for (size_t i = 0; f->way && i < sizeof taking / sizeof *taking; i++)
    refused |= strstr(f->function, taking[i]) != NULL;
  tc_memory m = tc_memory_stats();
  EXPECT(m.gpu_live_bytes == 0 && m.gpu_pooled_bytes == 0, "%zu and %zu bytes", m.gpu_live_bytes, m.gpu_pooled_bytes);
  if (refused) {
    CALL(void (*)(void), "sim_forget")();
    return;
  }
  EXPECT(CALL(size_t (*)(int), "sim_live_bytes")(0) == 0 && CALL(int (*)(void), "sim_live_objects")() <= 1,
         "the driver holds %zu bytes, %d objects", CALL(size_t (*)(int), "sim_live_bytes")(0),
         CALL(int (*)(void), "sim_live_objects")());
  EXPECT(CALL(int (*)(void), "sim_faults")() == 0, "%s", CALL(const char *(*)(void), "sim_fault_text")());
}

static int with_fault(const void *arg) {
  const fault *f = arg;
  results got = {{0}}, again = {{0}}, want = {{0}};
  char name[96] = "no fault";
  alarm(60);
  if (f->way) snprintf(name, sizeof name, "%s:%s", f->function, f->way);
  if (f->way) setenv("TC_SIM_FAIL", name, 1);
  handle = dlopen(built(f->vendor->library), RTLD_NOW);
  tc_status st = work(f->vendor->device, &got);
  const tc_error *e = tc_last_error();
  bool lost = strstr(e->message, "is lost") != NULL, unopened = st != TC_OK && strcmp(e->op, "set_default_device") == 0;
  EXPECT(st == TC_OK || (e->status == st && strstr(e->message, f->vendor->device)), "%s: %s", name, tc_status_text(st));
  EXPECT(!lost || (f->way && strchr(f->way, '!')), "%s", name);
  tc_clear_error();
  tc_status second = work(f->vendor->device, &again);
  lost |= second != TC_OK && strstr(tc_last_error()->message, "is lost");
  // of few calls, the one that fails may be among these
  EXPECT(second == TC_OK || lost || unopened || st == TC_OK, "%s, again", name);
  tc_clear_error();
  EXPECT(work("tc:cpu", &want) == TC_OK && tc_last_error()->status == TC_OK, "%s: the CPU", name);
  if (st == TC_OK) compare(&got, &want, name);
  if (second == TC_OK) compare(&again, &want, name);
  tc_shutdown();
  hold_nothing(f, lost);
  if (child_failed()) return 1;
  for (int i = 0; !f->way && f->vendor->function[i]; i++)
    calls[i] = CALL(uint64_t (*)(const char *), "sim_calls")(f->vendor->function[i]);
  return st == TC_OK && second == TC_OK ? 0 : 2;
}

static void quiet(const char *line, void *arg) {
  (void)line, (void)arg;
}

int main(void) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  calls = mmap(NULL, MOST * sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (calls == MAP_FAILED) return 1;
  char cache[] = "/tmp/tc-refusals-XXXXXX", command[64];
  if (!mkdtemp(cache)) return 1;
  setenv("TC_CACHE_DIR", cache, 1);  // so that the simulated compiler is asked once
  unsetenv("TC_CACHE_BYTES");
  setenv("TC_COMPILER", "interp", 1);
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  tc_options_reload();
  tc_set_log(quiet, NULL);
  for (size_t v = 0; v < sizeof vendors / sizeof *vendors; v++) {
    int n_seen = 0, n_cases = 0;
    EXPECT(child_status(with_fault, &(fault){&vendors[v], NULL, NULL}) == 0, "%s without a fault", vendors[v].device);
    for (int i = 0; vendors[v].function[i]; i++) {
      for (size_t w = (size_t)i % APART; calls[i] && w < sizeof ways / sizeof *ways; w += APART) {
        int rc = child_status(with_fault, &(fault){&vendors[v], vendors[v].function[i], ways[w]});
        EXPECT(rc == 0 || rc == 2, "%s:%s ends with %d", vendors[v].function[i], ways[w], rc);
        n_seen += rc == 2, n_cases++;
      }
    }
    EXPECT(n_cases * APART > 60 && n_seen > n_cases / 4, "%s: %d of %d faults were seen", vendors[v].device, n_seen,
           n_cases);
  }
  snprintf(command, sizeof command, "rm -r %s", cache);
  EXPECT(system(command) == 0, "%s", cache);
  return expect_done("gpu-refusals");
}
