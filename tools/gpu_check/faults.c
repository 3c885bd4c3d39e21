// Part b: what goes wrong on purpose, each in a process of its own, since a device may be lost by
// it; and compute-sanitizer over a sample of kernels. `gpu-check --fault WHAT --device NAME` is
// such a process: it prints what is not as it should be, and its exit status is 0 if nothing.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/gpu_check/check.h"

extern char **environ;

// ---- In the process of its own ----

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vprintf(fmt, args);
  va_end(args);
  printf("\n");
  fflush(stdout);
  return 1;
}

// The sum of 0 to n - 1 as the device has it.
static tc_status sum_of_range(const char *device, int n, float *out) {
  tc_clear_error();
  tc_status st = tc_set_default_device(device);
  tc_scope scope = tc_scope_begin();
  if (st == TC_OK) st = tc_item_f32(tc_sum(tc_arange(0, n, 1, TC_F32), TC_ALL, false), out);
  tc_scope_end(scope);
  return st;
}

static int works(const char *device, const char *when) {
  float v = 0;
  tc_status st = sum_of_range(device, 100, &v);
  if (st != TC_OK) return complain("%s %s: %s", device, when, tc_last_error()->message);
  return v == 4950 ? 0 : complain("%s %s: a sum is %g, not 4950", device, when, (double)v);
}

// An index out of range is an error that names its op; the device goes on.
static int fault_index(void) {
  float y[3];
  tc_tensor x = tc_arange(0, 10, 1, TC_F32), at = tc_from_host((const int64_t[]){1, 99, 2}, TC_SHAPE(3), TC_I64);
  tc_status st = tc_to_host(tc_index_select(x, 0, at), y, sizeof y);
  if (st != TC_ERR_INDEX) return complain("an index of 99 in 10 is: %s", tc_status_text(st));
  if (!strstr(tc_last_error()->message, "99"))
    return complain("the message does not name the index: %s", tc_last_error()->message);
  return works(check.device, "after an index out of range");
}

static int fault_memory(void) {
  tc_tensor x = tc_add(tc_zeros(TC_SHAPE((int64_t)1 << 44), TC_F32), 1);
  tc_status st = tc_eval(1, &x);
  if (st != TC_ERR_MEMORY) return complain("64 TiB are: %s: %s", tc_status_text(st), tc_last_error()->message);
  return works(check.device, "after it was out of memory");
}

// A kernel of our own that writes where nothing is. Then the device is lost, what it held says so,
// and the processor goes on.
static int fault_address(void) {
  static const char text[] =
      "#include \"tc_words.h\"\n"
      "TC_KERNEL(wild, 32) { *(u32 *)tc_table[0] = (u32)TC_THREAD; }\n";
  const tc_gpu_launch launch = {.blocks = 1, .threads = 32};
  tc_gpu_launch ours = launch;
  tc_gpu_sequence *s = NULL;
  float y;
  tc_tensor x = tc_full(TC_SHAPE(10), 3, TC_F32);
  if (tc_eval(1, &x) != TC_OK || tc_gpu_compile(check.gpu, "wild", text, &ours.code) != TC_OK ||
      tc_gpu_sequence_create(check.gpu, &ours, 1, 1, &s) != TC_OK)
    return complain("%s", tc_last_error()->message);
  tc_status st = tc_gpu_sequence_run(s, (const uint64_t[]){0x10});
  if (st == TC_OK) st = tc_gpu_wait(check.gpu);
  tc_gpu_sequence_destroy(s);
  tc_gpu_code_release(ours.code);
  if (st != TC_ERR_DEVICE) return complain("a store to address 16 is: %s", tc_status_text(st));
  tc_clear_error();
  st = tc_item_f32(tc_slice(x, 0, 0, 1, 1), &y);
  if (st != TC_ERR_DEVICE) return complain("a tensor on the lost device is: %s", tc_status_text(st));
  st = sum_of_range(check.device, 100, &y);
  if (st != TC_ERR_DEVICE) return complain("new work on the lost device is: %s", tc_status_text(st));
  int status = works("tc:cpu", "after a device was lost");
  // the simulated driver saw the store, and would end the process with a status of its own
  if (!check.timed) _exit(status);
  return status;
}

// A driver does not go through a fork: in the child the device refuses, and the processor works.
static int fault_fork(void) {
  int status = 0;
  float y = 0;
  if (works(check.device, "before a fork") != 0) return 1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    tc_status st = sum_of_range(check.device, 100, &y);
    if (check.gpu && st != TC_ERR_DEVICE) _exit(complain("the device after a fork is: %s", tc_status_text(st)));
    _exit(works("tc:cpu", "after a fork"));
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return complain("the forked child died");
  return WEXITSTATUS(status) != 0 ? 1 : works(check.device, "after another process was forked");
}

enum { THREADS = 4, THREAD_RUNS = 50 };

static void *thread_main(void *arg) {
  int *bad = arg;
  for (int i = 0; i < THREAD_RUNS && !*bad; i++) {
    float got;
    int n = 100 + i % 3;
    if (sum_of_range(check.device, n, &got) != TC_OK || got != (float)(n * (n - 1) / 2)) *bad = 1;
  }
  return NULL;
}

// Threads that run the same plans at once.
static int fault_threads(void) {
  pthread_t id[THREADS];
  int bad[THREADS] = {0}, n_bad = 0, n = 0;
  while (n < THREADS && pthread_create(&id[n], NULL, thread_main, &bad[n]) == 0) n++;
  for (int i = 0; i < n; i++) pthread_join(id[i], NULL), n_bad += bad[i];
  return n == THREADS && n_bad == 0
             ? 0
             : complain("%d of %d threads in one plan had wrong sums", n_bad + THREADS - n, THREADS);
}

// A kernel of each kind, for compute-sanitizer.
static int fault_sample(void) {
  tc_tensor a = check_random(TC_SHAPE(67, 130), TC_F32, 1), b = check_random(TC_SHAPE(130, 129), TC_F32, 2);
  tc_tensor h = check_random(TC_SHAPE(64, 128), TC_BF16, 3), q = check_random(TC_SHAPE(1, 2, 96, 64), TC_BF16, 4);
  tc_tensor at = tc_randint(0, 67, TC_SHAPE(50), TC_I64);
  tc_tensor y[] = {tc_relu(tc_add(tc_mul(a, a), a)),
                   tc_softmax(tc_matmul(a, b), 1),
                   tc_sum(a, TC_AXES(0), false),
                   tc_matmul(h, tc_transpose(h, 0, 1)),
                   tc_layer_norm(a, (tc_tensor){0, 0}, (tc_tensor){0, 0}, 1e-5),
                   tc_scaled_dot_product_attention(q, q, q, (tc_tensor){0, 0}, (tc_attention_options){.causal = true}),
                   tc_index_add(tc_zeros(TC_SHAPE(67, 130), TC_F32), 0, at, tc_index_select(a, 0, at)),
                   tc_cumsum(a, 1),
                   tc_sort(a, 1, false),
                   tc_dropout(a, 0.5),
                   tc_transpose(tc_cat(2, (const tc_tensor[]){a, a}, 1), 0, 1)};
  if (tc_eval((int)(sizeof y / sizeof *y), y) != TC_OK || !check_drain())
    return complain("%s", tc_last_error()->message);
  return works(check.device, "after a kernel of each kind");
}

static const struct fault {
  const char *what, *name;
  int (*run)(void);
  bool gpu_only;
} faults[] = {
    {"index", "an index out of range", fault_index, false},
    {"memory", "out of memory", fault_memory, false},
    {"fork", "fork after the device was used", fault_fork, false},
    {"threads", "threads in one plan", fault_threads, false},
    {"address", "a lost device", fault_address, true},
    {"sample", "a kernel of each kind", fault_sample, false},
};

int check_fault_main(const char *what) {
  if (tc_set_default_device(check.device) != TC_OK) return complain("%s", tc_last_error()->message);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    if (strcmp(faults[i].what, what) == 0) {
      int status = faults[i].run();
      tc_shutdown();
      return status;
    }
  return complain("no fault '%s'", what);
}

// ---- In the process that runs rows ----

// Runs the words; the exit status (-1: it died), and the last line that it printed.
static int run_words(const char *const *words, char *line, size_t bytes) {
  int fds[2], status = -1;
  char text[400];
  pid_t pid;
  line[0] = 0;
  if (pipe(fds) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
  posix_spawn_file_actions_addclose(&actions, fds[0]);
  posix_spawn_file_actions_addclose(&actions, fds[1]);
  int failed = posix_spawnp(&pid, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  FILE *from = fdopen(fds[0], "r");
  while (!failed && from && fgets(text, sizeof text, from))
    if (text[0] != '\n') snprintf(line, bytes, "%.*s", (int)strcspn(text, "\n"), text);
  if (from) fclose(from);
  if (failed) return snprintf(line, bytes, "%s: %s", words[0], strerror(failed)), -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run_fault(check_row *row, const void *arg) {
  const struct fault *f = arg;
  char line[300];
  const char *const words[] = {check.program, "--fault", f->what, "--device", check.device, NULL};
  if (f->gpu_only && !check.gpu) {
    check_skip(row, "of GPUs only");
    return;
  }
  int status = run_words(words, line, sizeof line);
  if (status != 0) check_wrong(row, "exit status %d: %s", status, line);
}

static void run_sanitizer(check_row *row, const void *arg) {
  const char *tool = arg;
  char line[300];
  const char *const words[] = {"compute-sanitizer", "--tool", tool,       "--error-exitcode", "9", check.program,
                               "--fault",           "sample", "--device", check.device,       NULL};
  const char *const asked[] = {"compute-sanitizer", "--version", NULL};
  if (!check.gpu || !check.timed) {
    check_skip(row, "of real GPUs only");
    return;
  }
  if (run_words(asked, line, sizeof line) != 0) {
    check_skip(row, "compute-sanitizer is not on the path");
    return;
  }
  int status = run_words(words, line, sizeof line);
  if (status != 0)
    check_wrong(row, "exit status %d: %s", status, line);
  else
    snprintf(row->note, sizeof row->note, "%s", line);
}

void check_faults(void) {
  static const char *const tools[] = {"memcheck", "racecheck", "initcheck", "synccheck"};
  char name[64];
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) check_do(faults[i].name, run_fault, &faults[i]);
  for (int i = 0; i < 4; i++) {
    snprintf(name, sizeof name, "compute-sanitizer %s", tools[i]);
    check_do(name, run_sanitizer, tools[i]);
  }
}
