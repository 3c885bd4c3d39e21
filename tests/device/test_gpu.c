// A GPU as the layers above see it (device/gpu.h), on the simulated driver.
#include <pthread.h>
#include <sys/wait.h>

#include "device/device.h"
#include "tests/device/simulated.h"

// to[i] = from[i] * scale + i for i < n: words are to, from, n and scale, whole numbers.
static const char scale_source[] =
    "#include \"tc_words.h\"\n"
    "TC_KERNEL(scale, 64) {\n"
    "  u64 *to = (u64 *)tc_table[0];\n"
    "  const u64 *from = (const u64 *)tc_table[1];\n"
    "  i64 n = (i64)tc_table[2], i = (i64)TC_BLOCK * 64 + TC_THREAD;\n"
    "  if (i < n) to[i] = from[i] * tc_table[3] + (u64)i;\n"
    "}\n";

static tc_gpu_code *scale_code(tc_gpu *g) {
  tc_gpu_code *c;
  OK(tc_gpu_compile(g, "scale", scale_source, &c));
  return c;
}

static uint64_t word(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

// The end of every test: the simulator found no mistake in what was asked of it.
static void finish(void) {
  tc_gpu_shutdown();
  cr_expect_eq(CALL(int (*)(void), "sim_faults")(), 0, "%s", CALL(const char *(*)(void), "sim_fault_text")());
}

enum { STEPS = 12, N = 1000 };

typedef struct chain {
  tc_gpu *g;
  tc_gpu_sequence *s;
  void *a, *b;
} chain;

// Two launches: b = a * w + i, then a = b * v + i.
static chain chain_make(tc_gpu *g) {
  chain x = {.g = g};
  static uint64_t zeros[N];
  tc_gpu_code *c = scale_code(g);
  tc_gpu_launch launch[2] = {{c, (N + 63) / 64, 64, 0, 0}, {c, (N + 63) / 64, 64, 0, 4}};
  OK(tc_gpu_alloc(g, sizeof zeros, &x.a));
  OK(tc_gpu_alloc(g, sizeof zeros, &x.b));
  OK(tc_gpu_write(g, x.a, zeros, sizeof zeros));
  OK(tc_gpu_sequence_create(g, launch, 2, 8, &x.s));
  tc_gpu_code_release(c);
  return x;
}

static tc_status chain_run(chain *x, uint64_t w, uint64_t v) {
  uint64_t words[8] = {word(x->b), word(x->a), N, w, word(x->a), word(x->b), N, v};
  tc_status st = tc_gpu_sequence_run(x->s, words);
  memset(words, 0xee, sizeof words);  // it may be written again
  return st;
}

static void chain_end(chain *x) {
  tc_gpu_sequence_destroy(x->s);
  tc_gpu_free(x->g, x->a);
  tc_gpu_free(x->g, x->b);
}

// ---- opening ----

Test(gpu, facts_are_the_drivers_and_say_that_it_is_simulated) {
  simulate(NULL);
  const tc_gpu_facts *f = tc_gpu_facts_of(open_gpu(0));
  cr_expect(f->simulated && f->name[0] && f->arch[0]);
  cr_expect_eq(f->warp, 32);
  cr_expect(f->most_threads >= 1024 && f->processors > 0 && f->shared_bytes >= 48 << 10 && f->memory_bytes > 0);
  cr_expect(strstr(tc_gpu_sentence(TC_DEVICE_CUDA), "simulated"), "%s", tc_gpu_sentence(TC_DEVICE_CUDA));
  cr_expect_null(tc_gpu_absent(TC_DEVICE_CUDA));
  finish();
}

Test(gpu, names_of_devices_open_them_and_tc_never_means_a_simulated_one) {
  tc_device d;
  simulate((const char *[]){"TC_SIM_DEVICES=2", NULL});
  OK(tc_device_parse("tc:cuda:1", "test", 0, &d));
  cr_expect(d == tc_device_of_row(TC_DEVICE_CUDA, 1) && tc_device_kind_of(d) == TC_DEVICE_GPU);
  cr_expect_str_eq(tc_device_name(d), "tc:cuda:1");
  OK(tc_device_parse("tc:cuda:0", "test", 0, &d));
  cr_expect_str_eq(tc_device_name(d), "tc:cuda");
  OK(tc_device_parse("tc", "test", 0, &d));
  cr_expect_eq(d, TC_DEVICE_CPU);
  FAILS(tc_device_parse("tc:cuda:5", "test", 0, &d), TC_ERR_DEVICE,
        "\"tc:cuda:5\": CUDA has 2 devices, and none of number 5");
  FAILS(tc_device_parse("tc:cuda:99", "test", 0, &d), TC_ERR_DEVICE, "numbered from 0 to 15");
  FAILS(tc_device_parse("tc:cuda:x", "test", 0, &d), TC_ERR_DEVICE, "is not one of");
  finish();
}

Test(gpu, the_callers_current_context_is_untouched) {
  simulate((const char *[]){"TC_SIM_DEVICES=2", NULL});
  int (*current)(void **) = CALL(int (*)(void **), "cuCtxGetCurrent"),
                      (*retain)(void **, int) = CALL(int (*)(void **, int), "cuDevicePrimaryCtxRetain");
  int (*set)(void *) = CALL(int (*)(void *), "cuCtxSetCurrent");
  void *mine, *now, *p;
  tc_gpu *g = open_gpu(0);
  OK(tc_gpu_alloc(g, 100, &p));
  cr_assert(current(&now) == 0 && now == NULL);
  cr_assert(retain(&mine, 1) == 0 && set(mine) == 0);
  uint64_t v = 7;
  OK(tc_gpu_write(g, p, &v, sizeof v));
  OK(tc_gpu_read(g, &v, p, sizeof v));
  tc_gpu_free(g, p);
  cr_expect(current(&now) == 0 && now == mine);
  finish();
}

Test(gpu, after_shutdown_it_opens_again_and_nothing_was_left) {
  simulate(NULL);
  void *p;
  tc_gpu *g = open_gpu(0);
  tc_gpu_code *c = scale_code(g);
  OK(tc_gpu_alloc(g, 1 << 20, &p));
  tc_gpu_free(g, p);
  tc_gpu_code_release(c);
  tc_gpu_shutdown();
  cr_expect_eq(CALL(size_t (*)(int), "sim_live_bytes")(0), 0);
  FAILS(tc_gpu_alloc(g, 8, &p), TC_ERR_DEVICE, "was shut down");
  g = open_gpu(0);
  OK(tc_gpu_alloc(g, 1 << 20, &p));
  tc_gpu_free(g, p);
  tc_gpu_shutdown();
  tc_gpu_shutdown();  // twice is no harm
  finish();
}

// ---- memory ----

Test(gpu, what_is_written_is_read_of_any_size_and_the_source_may_change_at_once) {
  simulate(NULL);
  static const size_t sizes[] = {1, 255, 4096, (1 << 20) + 3, 9 << 20};
  tc_gpu *g = open_gpu(0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *from = malloc(n), *to = calloc(1, n);
    void *p, *q;
    for (size_t k = 0; k < n; k++) from[k] = (unsigned char)(k * 31 + k / 251);
    OK(tc_gpu_alloc(g, n, &p));
    OK(tc_gpu_alloc(g, n, &q));
    cr_expect_eq((uintptr_t)p % 256, 0);
    OK(tc_gpu_write(g, p, from, n));
    memset(from, 0, n);
    OK(tc_gpu_copy(g, q, p, n));
    OK(tc_gpu_write(g, p, from, n));
    tc_gpu_free(g, p);
    OK(tc_gpu_read(g, to, q, n));
    tc_gpu_free(g, q);
    size_t bad = 0;
    for (size_t k = 0; k < n; k++) bad += to[k] != (unsigned char)(k * 31 + k / 251);
    cr_expect_eq(bad, 0, "%zu of %zu bytes", bad, n);
    free(from), free(to);
  }
  finish();
}

Test(gpu, many_small_writes_are_not_mixed_up) {
  simulate(NULL);
  enum { N = 20000 };
  static uint64_t got[N];
  tc_gpu *g = open_gpu(0);
  void *p;
  OK(tc_gpu_alloc(g, sizeof got, &p));
  for (uint64_t i = 0; i < N; i++) OK(tc_gpu_write(g, (uint64_t *)p + i, &i, sizeof i));
  OK(tc_gpu_read(g, got, p, sizeof got));
  uint64_t bad = 0;
  for (uint64_t i = 0; i < N; i++) bad += got[i] != i;
  cr_expect_eq(bad, 0);
  tc_gpu_free(g, p);
  finish();
}

Test(gpu, memory_that_is_not_there_is_an_error_that_says_how_much_is) {
  simulate((const char *[]){"TC_SIM_MEMORY_MIB=64", NULL});
  tc_gpu *g = open_gpu(0);
  void *p, *q;
  size_t most = tc_gpu_facts_of(g)->memory_bytes;
  FAILS(tc_gpu_alloc(g, 2 * most, &p), TC_ERR_MEMORY, "are free");
  cr_expect_null(p);
  FAILS(tc_gpu_alloc(g, SIZE_MAX, &p), TC_ERR_MEMORY, "are wanted");
  // What was given back is taken again, though the pool keeps it in pieces.
  OK(tc_gpu_alloc(g, most / 2, &p));
  tc_gpu_free(g, p);
  OK(tc_gpu_alloc(g, most / 4, &p));
  OK(tc_gpu_alloc(g, most / 2, &q));
  tc_gpu_free(g, p);
  tc_gpu_free(g, q);
  finish();
}

// ---- code ----

Test(gpu, code_is_compiled_once_and_then_comes_from_the_disk) {
  char dir[] = "/tmp/tc-gpu-XXXXXX", command[64];
  tc_gpu_code *c;
  simulate(NULL);
  cr_assert(mkdtemp(dir));
  setenv("TC_CACHE_DIR", dir, 1);
  setenv("TC_CACHE_BYTES", "100000000", 1);
  tc_options_reload();
  tc_gpu *g = open_gpu(0);
  tc_gpu_code_release(scale_code(g));
  setenv("TC_SIM_NVRTC", "no-builtins", 1);  // from now on nothing compiles
  tc_gpu_code_release(scale_code(g));
  FAILS(tc_gpu_compile(g, "other", "#include \"tc_words.h\"\nTC_KERNEL(other, 32) { *(u64 *)tc_table[0] = 1; }\n", &c),
        TC_ERR_COMPILE, "libnvrtc-builtins");
  FAILS(tc_gpu_try(g), TC_ERR_COMPILE, "libnvrtc-builtins");
  unsetenv("TC_SIM_NVRTC");
  OK(tc_gpu_try(g));
  snprintf(command, sizeof command, "rm -r %s", dir);
  cr_expect_eq(system(command), 0);
  finish();
}

// The newest that the compiler knows, as PTX, which the driver turns into code; not if the driver
// is older than it.
Test(gpu, a_device_that_the_compiler_does_not_know_runs_ptx) {
  static uint64_t got[N];
  simulate((const char *[]){"TC_SIM_ARCH=200", NULL});
  tc_gpu *g = open_gpu(0);
  cr_expect(strncmp(tc_gpu_facts_of(g)->arch, "compute_", 8) == 0, "%s", tc_gpu_facts_of(g)->arch);
  chain x = chain_make(g);
  OK(chain_run(&x, 1, 1));
  OK(tc_gpu_read(g, got, x.a, sizeof got));
  for (uint64_t i = 0; i < N; i++) cr_assert_eq(got[i], 2 * i);
  chain_end(&x);
  finish();
}

Test(gpu, ptx_that_is_newer_than_the_driver_is_an_error_that_says_so) {
  tc_gpu_code *c;
  simulate((const char *[]){"TC_SIM_FAIL=cuModuleLoadData:1=222", NULL});
  FAILS(tc_gpu_compile(open_gpu(0), "scale", scale_source, &c), TC_ERR_DEVICE,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)");
  finish();
}

Test(gpu, a_compiler_that_is_newer_than_the_driver_is_refused) {
  tc_gpu *g;
  simulate((const char *[]){"TC_SIM_DRIVER_VERSION=12040", NULL});
  FAILS(tc_gpu_get(TC_DEVICE_CUDA, &g), TC_ERR_DEVICE,
        "is of CUDA 13, and the driver of CUDA 12 knows none of its code");
  finish();
}

Test(gpu, a_compiler_without_its_builtins_is_an_error_that_names_them) {
  tc_gpu_code *c;
  simulate((const char *[]){"TC_SIM_NVRTC=no-builtins", NULL});
  FAILS(tc_gpu_compile(open_gpu(0), "scale", scale_source, &c), TC_ERR_COMPILE, "libnvrtc-builtins");
  finish();
}

Test(gpu, a_source_that_does_not_compile_is_an_error_with_the_compilers_words) {
  simulate(NULL);
  tc_gpu_code *c;
  tc_gpu *g = open_gpu(0);
  FAILS(tc_gpu_compile(g, "broken", "#include \"tc_words.h\"\nTC_KERNEL(broken, 32) { nowhere = 1; }\n", &c),
        TC_ERR_COMPILE, "nowhere");
  cr_expect_null(c);
  tc_gpu_code_release(scale_code(g));
  finish();
}

// ---- sequences ----

Test(gpu, runs_that_are_asked_for_ahead_each_see_their_own_words) {
  simulate(NULL);
  chain x = chain_make(open_gpu(0));
  static uint64_t got[N], want[N];
  for (uint64_t step = 0; step < STEPS; step++) {
    OK(chain_run(&x, step + 1, 2 * step + 1));
    for (uint64_t i = 0; i < N; i++) want[i] = (want[i] * (step + 1) + i) * (2 * step + 1) + i;
    cr_expect_eq(tc_gpu_sequence_plain(x.s) == NULL, step > 0, "step %d: %s", (int)step, tc_gpu_sequence_plain(x.s));
  }
  OK(tc_gpu_read(x.g, got, x.a, sizeof got));
  cr_expect_arr_eq(got, want, sizeof got);
  chain_end(&x);
  finish();
}

// Of a table of 9,001 words.
static void write_large_table(void) {
  enum { WORDS = 9001 };
  static uint64_t words[WORDS], got[64];
  static const char source[] =
      "#include \"tc_words.h\"\n"
      "TC_KERNEL(ends, 32) {\n"
      "  u64 *to = (u64 *)tc_table[0];\n"
      "  if (TC_THREAD == 0) for (i32 i = 0; i < 9; i++) to[i] = tc_table[1000 * (i + 1)];\n"
      "}\n";
  tc_gpu_code *c;
  tc_gpu_sequence *s;
  void *to;
  tc_gpu *g = open_gpu(0);
  OK(tc_gpu_compile(g, "ends", source, &c));
  OK(tc_gpu_alloc(g, sizeof got, &to));
  OK(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 32, 0, 0}, 1, WORDS, &s));
  for (uint64_t run = 0; run < 3; run++) {
    for (uint64_t i = 0; i < WORDS; i++) words[i] = i * 3 + run;
    words[0] = word(to);
    OK(tc_gpu_sequence_run(s, words));
    OK(tc_gpu_read(g, got, to, sizeof *got * 9));
    for (uint64_t i = 0; i < 9; i++) cr_expect_eq(got[i], 3000 * (i + 1) + run);
  }
  tc_gpu_sequence_destroy(s);
  tc_gpu_code_release(c);
  tc_gpu_free(g, to);
  finish();
}

Test(gpu, a_table_larger_than_a_kernels_parameters_is_written_in_parts) {
  simulate(NULL);
  write_large_table();
}

Test(gpu, drivers_before_12_1_take_smaller_parameters) {
  simulate((const char *[]){"TC_SIM_DRIVER_VERSION=12000", "TC_SIM_NVRTC=12.0", NULL});
  write_large_table();
}

Test(gpu, drivers_before_12_0_launch_kernel_by_kernel) {
  simulate((const char *[]){"TC_SIM_DRIVER_VERSION=11080", "TC_SIM_NVRTC=11.8", NULL});
  static uint64_t got[N];
  chain x = chain_make(open_gpu(0));
  for (int i = 0; i < 3; i++) OK(chain_run(&x, 1, 1));
  cr_expect_str_eq(tc_gpu_sequence_plain(x.s), "the driver is older than CUDA 12.0");
  OK(tc_gpu_read(x.g, got, x.a, sizeof got));
  for (uint64_t i = 0; i < N; i++) cr_assert_eq(got[i], 3 * 2 * i);
  chain_end(&x);
  finish();
}

Test(gpu, what_a_device_cannot_launch_is_refused_with_a_sentence) {
  simulate(NULL);
  tc_gpu *g = open_gpu(0);
  tc_gpu_code *c = scale_code(g);
  tc_gpu_sequence *s;
  uint32_t shared = (uint32_t)tc_gpu_facts_of(g)->shared_bytes + 1;
  FAILS(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 64, shared, 0}, 1, 4, &s), TC_ERR_ARG, "of shared memory");
  cr_expect_null(s);
  FAILS(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 0, 64, 0, 0}, 1, 4, &s), TC_ERR_ARG, "a grid of 0 blocks");
  FAILS(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 4096, 0, 0}, 1, 4, &s), TC_ERR_ARG, "blocks of 4096 threads");
  FAILS(tc_gpu_sequence_create(g, &(tc_gpu_launch){c, 1, 64, 0, 5}, 1, 4, &s), TC_ERR_ARG, "its words begin at 5 of 4");
  OK(tc_gpu_sequence_create(g, NULL, 0, 0, &s));
  OK(tc_gpu_sequence_run(s, NULL));
  tc_gpu_sequence_destroy(s);
  tc_gpu_sequence_destroy(NULL);
  tc_gpu_code_release(c);
  finish();
}

// A driver without a function for graphs, or that refuses one.
static void runs_plainly(const char *fault) {
  static uint64_t got[N], want[N];
  simulate((const char *[]){fault, NULL});
  chain x = chain_make(open_gpu(0));
  for (uint64_t step = 0; step < STEPS; step++) {
    OK(chain_run(&x, step + 1, 3));
    for (uint64_t i = 0; i < N; i++) want[i] = (want[i] * (step + 1) + i) * 3 + i;
  }
  cr_expect(tc_gpu_sequence_plain(x.s) && strstr(tc_gpu_sequence_plain(x.s), "refused"), "%s",
            tc_gpu_sequence_plain(x.s));
  OK(tc_gpu_read(x.g, got, x.a, sizeof got));
  cr_expect_arr_eq(got, want, sizeof got);
  chain_end(&x);
  finish();
}

Test(gpu, a_graph_that_cannot_be_made_is_launched_kernel_by_kernel) {
  runs_plainly("TC_SIM_FAIL=cuGraphInstantiateWithFlags:1=801");
}

Test(gpu, a_graph_that_cannot_be_patched_is_launched_kernel_by_kernel) {
  runs_plainly("TC_SIM_FAIL=cuGraphExecKernelNodeSetParams_v2:3=801");
}

Test(gpu, a_graph_that_cannot_be_launched_is_launched_kernel_by_kernel) {
  runs_plainly("TC_SIM_FAIL=cuGraphLaunch:4=801");
}

Test(gpu, replays_leak_nothing_and_a_sequence_may_go_while_it_runs) {
  simulate(NULL);
  tc_gpu *g = open_gpu(0);
  size_t (*live_bytes)(int) = CALL(size_t (*)(int), "sim_live_bytes");
  int (*live_objects)(void) = CALL(int (*)(void), "sim_live_objects"), objects = 0;
  size_t bytes = 0;
  for (int round = 0; round < 4; round++) {
    chain x = chain_make(g);
    for (uint64_t step = 0; step < 200; step++) OK(chain_run(&x, step, 1));
    chain_end(&x);
    OK(tc_gpu_wait(g));
    if (round == 0) bytes = live_bytes(0), objects = live_objects();
  }
  cr_expect_eq(live_bytes(0), bytes);
  cr_expect_eq(live_objects(), objects);
  finish();
}

typedef struct turn {
  chain *x;
  tc_status st;
} turn;

static void *run_many(void *arg) {
  turn *t = arg;
  for (int i = 0; i < 60 && t->st == TC_OK; i++) t->st = chain_run(t->x, 1, 1);
  return NULL;
}

Test(gpu, threads_may_run_one_sequence) {
  static uint64_t got[N];
  simulate(NULL);
  chain x = chain_make(open_gpu(0));
  turn t[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    t[i] = (turn){&x, TC_OK};
    pthread_create(&thread[i], NULL, run_many, &t[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(thread[i], NULL);
    cr_expect_eq(t[i].st, TC_OK);
  }
  OK(tc_gpu_read(x.g, got, x.a, sizeof got));
  for (uint64_t i = 0; i < N; i++) cr_assert_eq(got[i], 240 * 2 * i);
  chain_end(&x);
  finish();
}

static void *run_alone(void *arg) {
  static uint64_t got[2][N];
  int ordinal = *(int *)arg;
  chain x = chain_make(open_gpu(ordinal));
  for (uint64_t i = 0; i < 40; i++) OK(chain_run(&x, 1, 1));
  OK(tc_gpu_read(x.g, got[ordinal], x.a, sizeof *got));
  for (uint64_t i = 0; i < N; i++) cr_assert_eq(got[ordinal][i], 40 * 2 * i);
  chain_end(&x);
  return NULL;
}

Test(gpu, threads_may_run_two_devices) {
  int ordinal[2] = {0, 1};
  pthread_t thread[2];
  simulate((const char *[]){"TC_SIM_DEVICES=2", NULL});
  for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, run_alone, &ordinal[i]);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  finish();
}

// ---- faults ----

Test(gpu, a_sticky_fault_loses_the_device_and_no_other) {
  simulate((const char *[]){"TC_SIM_DEVICES=2", "TC_SIM_FAIL=cuLaunchKernel:2=700!", NULL});
  tc_gpu *g = open_gpu(0), *other = open_gpu(1), *again;
  chain x = chain_make(g);
  void *p;
  uint64_t v = 5;
  FAILS(chain_run(&x, 1, 1), TC_ERR_DEVICE, "ILLEGAL_ADDRESS");
  FAILS(tc_gpu_alloc(g, 8, &p), TC_ERR_DEVICE, "tc:cuda is lost: ");
  FAILS(tc_gpu_wait(g), TC_ERR_DEVICE, "ILLEGAL_ADDRESS");
  FAILS(tc_gpu_read(g, &v, x.a, 8), TC_ERR_DEVICE, "is lost");
  FAILS(tc_gpu_get(TC_DEVICE_CUDA, &again), TC_ERR_DEVICE, "is lost");
  cr_expect(strstr(tc_gpu_absent(TC_DEVICE_CUDA), "ILLEGAL_ADDRESS"));
  cr_expect(strstr(tc_gpu_sentence(TC_DEVICE_CUDA), "ILLEGAL_ADDRESS"));
  chain_end(&x);
  OK(tc_gpu_alloc(other, 8, &p));
  OK(tc_gpu_write(other, p, &v, sizeof v));
  v = 0;
  OK(tc_gpu_read(other, &v, p, sizeof v));
  cr_expect_eq(v, 5);
  tc_gpu_free(other, p);
  float sum;
  OK(tc_item_f32(tc_sum(tc_ones(TC_SHAPE(3), TC_F32), TC_ALL, false), &sum));
  cr_expect_eq(sum, 3);
  tc_shutdown();
  FAILS(tc_gpu_get(TC_DEVICE_CUDA, &again), TC_ERR_DEVICE, "ILLEGAL_ADDRESS");  // lost for good
  finish();
}

Test(gpu, any_call_that_fails_once_is_an_error_and_the_device_goes_on) {
  static const char *const call[] = {"cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                     "cuEventRecord",           "cuEventSynchronize",   "cuLaunchKernel",
                                     "cuModuleLoadData",        "cuModuleGetFunction",  "cuStreamSynchronize",
                                     "cuCtxPushCurrent_v2"};
  simulate(NULL);
  tc_gpu *g = open_gpu(0);
  bool (*fail)(const char *) = CALL(bool (*)(const char *), "sim_fail");
  chain warm = chain_make(g);
  for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
    char spec[64];
    uint64_t v = i;
    void *p = NULL;
    tc_gpu_code *c = NULL;
    snprintf(spec, sizeof spec, "%s:1=1", call[i]);
    cr_assert(fail(spec));
    tc_clear_error();
    tc_status st = tc_gpu_alloc(g, 8, &p);
    if (st == TC_OK) st = tc_gpu_write(g, p, &v, sizeof v);
    if (st == TC_OK) st = tc_gpu_read(g, &v, p, sizeof v);
    if (st == TC_OK) st = tc_gpu_compile(g, "scale", scale_source, &c);
    if (st == TC_OK && strcmp(call[i], "cuLaunchKernel") == 0) {
      chain x = chain_make(g);
      st = chain_run(&x, 1, 1);
      chain_end(&x);
    }
    if (st == TC_OK) st = tc_gpu_wait(g);
    cr_expect_eq(st, TC_ERR_DEVICE, "%s: %s", call[i], tc_status_text(st));
    cr_expect(strstr(tc_last_error()->message, "INVALID_VALUE"), "%s: %s", call[i], tc_last_error()->message);
    tc_gpu_code_release(c);
    tc_gpu_free(g, p);
    OK(tc_gpu_wait(g));
  }
  chain_end(&warm);
  finish();
}

Test(gpu, a_child_of_fork_is_told_and_its_cpu_works) {
  simulate(NULL);
  tc_gpu *g = open_gpu(0);
  void *p;
  OK(tc_gpu_alloc(g, 8, &p));
  pid_t child = fork();
  if (child == 0) {
    tc_gpu *again;
    float sum;
    bool good = tc_gpu_get(TC_DEVICE_CUDA, &again) == TC_ERR_DEVICE && strstr(tc_last_error()->message, "forked");
    good = good && tc_gpu_alloc(g, 8, &p) == TC_ERR_DEVICE && tc_gpu_read(g, &sum, p, 4) == TC_ERR_DEVICE;
    tc_gpu_free(g, p);
    tc_clear_error();
    good = good && tc_item_f32(tc_sum(tc_ones(TC_SHAPE(3), TC_F32), TC_ALL, false), &sum) == TC_OK && sum == 3;
    tc_shutdown();
    _exit(good ? 0 : 1);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(tc_gpu_write(g, p, &(uint64_t){0}, 8));
  tc_gpu_free(g, p);
  finish();
}
