// What the host pays: recording without running, and steps so small that recording, lookup and
// launch are all there is.
#include "bench/bench.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tc/compile.h>
#include <unistd.h>

typedef struct pair {
  tc_tensor a, b;
} pair;

// ---- Heap allocations: the program's malloc stands before the C library's, for libtc.so too ----

static atomic_uint_fast64_t n_mallocs;

uint64_t bench_n_mallocs(void) {
  return atomic_load_explicit(&n_mallocs, memory_order_relaxed);
}

static void count_malloc(void) {
  atomic_fetch_add_explicit(&n_mallocs, 1, memory_order_relaxed);
}

#if defined(__GLIBC__)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) {
  return count_malloc(), __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
  return count_malloc(), __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
  return count_malloc(), __libc_realloc(p, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
  return count_malloc(), __libc_memalign(align, bytes);
}
#endif

// ---- record: ns an op ----

static double record_adds(void *arg, int n) {
  pair *p = arg;
  double seconds = 0;
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    double start = bench_now();
    tc_tensor t = p->a;
    for (int k = 0; k < 100; k++) t = tc_add(t, p->b);
    seconds += bench_now() - start;
    bool valid = tc_is_valid(t);
    tc_scope_end(scope);
    // Nobody holds the result, so nothing is computed; the sync only clears what was recorded.
    if (!valid || tc_sync(NULL) != TC_OK) return -1;
  }
  return seconds;
}

// Recording in the steady state allocates nothing.
static bool record_allocates_nothing(void *arg) {
  for (int warm = 0; warm < 3; warm++)
    if (record_adds(arg, 1) < 0) return false;
  uint64_t before = bench_n_mallocs();
  double seconds = record_adds(arg, 10);
  uint64_t n = bench_n_mallocs() - before;
  if (n > 0) fprintf(stderr, "  %llu heap allocations in 1000 ops\n", (unsigned long long)n);
  return seconds >= 0 && n == 0;
}

void bench_record(void) {
  pair p = {bench_tensor(TC_SHAPE(16), 1), bench_tensor(TC_SHAPE(16), 2)};
  bench_measure(&(bench_row){.bench = "record",
                             .name = "chain100",
                             .unit = "ns",
                             .n_items = 100,
                             .run = record_adds,
                             .arg = &p,
                             .check = record_allocates_nothing});
}

// ---- step: us a step of 100 ops, from the first record to the value ----

static tc_tensor mixed_ops(const pair *p) {
  tc_tensor t = p->a;
  for (int k = 0; k < 10; k++) {
    t = tc_add(t, p->b);
    t = tc_mul(t, p->a);
    t = tc_relu(t);
    t = tc_sub(t, p->b);
    t = tc_abs(t);
    t = tc_maximum(t, p->a);
    t = tc_mul(t, 0.5);
    t = tc_neg(t);
    t = tc_add(t, 1.0);
    t = tc_minimum(t, p->b);
  }
  return t;
}

static double step_once(void *arg, int n) {
  float out[100];
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_status st = tc_to_host(mixed_ops(arg), out, sizeof(out));
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static bool step_right(void *arg) {
  pair *p = arg;
  float a = bench_element(p->a, 7), b = bench_element(p->b, 7), t = a;
  for (int k = 0; k < 10; k++) {
    t = fmaxf((t + b) * a, 0);
    t = fmaxf(fabsf(t - b), a);
    t = fminf(1 - t * 0.5f, b);
  }
  tc_scope scope = tc_scope_begin();
  float got = bench_element(mixed_ops(p), 7);
  tc_scope_end(scope);
  return bench_near(got, t, 1e-6);
}

void bench_step(void) {
  pair p = {bench_tensor(TC_SHAPE(10, 10), 1), bench_tensor(TC_SHAPE(10, 10), 2)};
  bench_measure(
      &(bench_row){.bench = "step", .name = "step100", .unit = "us", .run = step_once, .arg = &p, .check = step_right});
}

// ---- compiled: us a call of a compiled function of the same 100 ops, to the value ----

static tc_status compiled_ops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  const pair p = {in[0], in[1]};
  (void)user, (void)n_in, (void)n_out;
  out[0] = mixed_ops(&p);
  return TC_OK;
}

typedef struct compiled_step {
  pair p;
  tc_compiled *c;
} compiled_step;

static double compiled_once(void *arg, int n) {
  const compiled_step *s = arg;
  float out[100];
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_tensor y;
    tc_scope scope = tc_scope_begin();
    tc_status st = tc_compiled_call(s->c, &s->p.a, 2, &y, 1);
    if (st == TC_OK) st = tc_to_host(y, out, sizeof(out));
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

// Each value is the recorded one, and known calls allocate nothing.
static bool compiled_right(void *arg) {
  compiled_step *s = arg;
  float want[100], got[100];
  tc_scope scope = tc_scope_begin();
  tc_tensor y;
  tc_status st = tc_to_host(mixed_ops(&s->p), want, sizeof want);
  if (st == TC_OK) st = tc_compiled_call(s->c, &s->p.a, 2, &y, 1);
  if (st == TC_OK) st = tc_to_host(y, got, sizeof got);
  tc_scope_end(scope);
  if (st != TC_OK || memcmp(got, want, sizeof got) != 0 || compiled_once(arg, 3) < 0) return false;
  uint64_t before = bench_n_mallocs();
  double seconds = compiled_once(arg, 100);
  uint64_t n = bench_n_mallocs() - before;
  if (n > 0) fprintf(stderr, "  %llu heap allocations in 100 calls\n", (unsigned long long)n);
  return seconds >= 0 && n == 0;
}

void bench_compiled(void) {
  compiled_step s = {.p = {bench_tensor(TC_SHAPE(10, 10), 1), bench_tensor(TC_SHAPE(10, 10), 2)},
                     .c = tc_compile(compiled_ops, NULL, NULL)};
  bench_measure(&(bench_row){
      .bench = "compiled", .name = "chain100", .unit = "us", .run = compiled_once, .arg = &s, .check = compiled_right});
  tc_compiled_destroy(s.c);
}

// ---- linrelu: relu of a linear layer of 100 x 10, the value in hand ----

typedef struct linrelu {
  int64_t batch;
  tc_tensor x, weight, bias;
  float out[1024 * 10];
} linrelu;

static tc_status linrelu_once(linrelu *l) {
  tc_scope scope = tc_scope_begin();
  tc_status st =
      tc_to_host(tc_relu(tc_linear(l->x, l->weight, l->bias)), l->out, (size_t)l->batch * 10 * sizeof(float));
  tc_scope_end(scope);
  return st;
}

static double run_linrelu(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++)
    if (linrelu_once(arg) != TC_OK) return -1;
  return bench_now() - start;
}

static bool linrelu_right(void *arg) {
  linrelu *l = arg;
  int64_t row = l->batch - 1, column = 7;
  float want = bench_element(l->bias, column);
  for (int64_t k = 0; k < 100; k++)
    want += bench_element(l->x, row * 100 + k) * bench_element(l->weight, column * 100 + k);
  return linrelu_once(l) == TC_OK && bench_near((double)l->out[row * 10 + column], fmax((double)want, 0), 1e-4);
}

void bench_linrelu(void) {
  static linrelu l;
  const struct {
    const char *name;
    int64_t batch;
  } cases[] = {{"batch1", 1}, {"batch64", 64}, {"batch1024", 1024}};
  for (int i = 0; i < 3; i++) {
    tc_scope scope = tc_scope_begin();
    l.batch = cases[i].batch;
    l.x = bench_tensor(TC_SHAPE(l.batch, 100), 1), l.weight = bench_tensor(TC_SHAPE(10, 100), 2),
    l.bias = bench_tensor(TC_SHAPE(10), 3);
    bench_measure(&(bench_row){.bench = "linrelu",
                               .name = cases[i].name,
                               .unit = "us",
                               .run = run_linrelu,
                               .arg = &l,
                               .check = linrelu_right});
    tc_scope_end(scope);
  }
}

// ---- steady: what a step asks the heap and the kernel for, once it is known ----

enum { STEADY_STEPS = 1000 };

// Of this process's heap and of the library's own calls to the system allocator, over so many
// steps.
static double count_allocations(void *arg, int n) {
  (void)n;
  if (step_once(arg, 10) < 0) return -1;
  uint64_t heap = bench_n_mallocs(), system = tc_memory_stats().n_allocs;
  if (step_once(arg, STEADY_STEPS) < 0) return -1;
  return (double)(bench_n_mallocs() - heap + tc_memory_stats().n_allocs - system);
}

// The steps of a process that is traced, between two calls of getppid.
static _Noreturn void traced_steps(void) {
  pair p = {bench_tensor(TC_SHAPE(10, 10), 1), bench_tensor(TC_SHAPE(10, 10), 2)};
  bool ok = step_once(&p, 100) >= 0 && ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
  raise(SIGSTOP);
  (void)syscall(SYS_getppid);
  ok = ok && step_once(&p, STEADY_STEPS) >= 0;
  (void)syscall(SYS_getppid);
  _exit(ok ? 0 : 1);
}

// System calls of the main thread, which makes these steps alone: stops come in pairs, before a
// call and after it.
static double count_syscalls(void *arg, int n) {
  int status = 0;
  double n_stops = 0;
  (void)arg, (void)n;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) traced_steps();
  if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid) return -1;
  while (WIFSTOPPED(status)) {
    if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid) return -1;
    if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) n_stops++;
  }
  // Twice the first getppid and the last, and the beginning of the exit.
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? (n_stops - 5) / 2 : -1;
}

static double kept_figure(void *arg, int n) {
  (void)n;
  return *(double *)arg;
}

void bench_steady(void) {
  // First, since it forks: a process that has used the library has threads.
  static double syscalls;
  syscalls = count_syscalls(NULL, 1);
  bench_measure(&(bench_row){
      .bench = "steady", .name = "syscalls", .unit = "calls", .n_samples = 1, .run = kept_figure, .arg = &syscalls});
  pair p = {bench_tensor(TC_SHAPE(10, 10), 1), bench_tensor(TC_SHAPE(10, 10), 2)};
  bench_measure(&(bench_row){
      .bench = "steady", .name = "allocations", .unit = "calls", .n_samples = 1, .run = count_allocations, .arg = &p});
}

// ---- interp: kernels without LLVM, beside the same compiled by it in another process ----

typedef struct chain {
  const char *name;
  int64_t n;
  tc_tensor a, b, c;
} chain;

static tc_tensor ten_ops(const chain *x) {
  tc_tensor t = tc_mul(tc_add(tc_mul(x->a, x->b), x->c), x->a);
  t = tc_sub(tc_maximum(tc_add(t, x->b), x->c), x->a);
  return tc_relu(tc_add(tc_mul(tc_minimum(t, x->b), x->c), x->b));
}

static double run_chain(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor y = ten_ops(arg);
    tc_status st = tc_eval(1, &y);
    tc_scope_end(scope);
    if (st != TC_OK) return -1;
  }
  return bench_now() - start;
}

static bool chain_right(void *arg) {
  const chain *x = arg;
  float a = bench_element(x->a, 5), b = bench_element(x->b, 5), c = bench_element(x->c, 5);
  float t = fmaxf((a * b + c) * a + b, c) - a, want = fmaxf(fminf(t, b) * c + b, 0);
  tc_scope scope = tc_scope_begin();
  float got = bench_element(ten_ops(x), 5);
  tc_scope_end(scope);
  return bench_near((double)got, (double)want, 1e-5);
}

static bool make_chain(chain *x, const char *name) {
  *x = (chain){.name = name, .n = strcmp(name, "chain_l2") == 0 ? 1 << 16 : 16 << 20};
  x->a = bench_tensor(TC_SHAPE(x->n), 1), x->b = bench_tensor(TC_SHAPE(x->n), 2),
  x->c = bench_tensor(TC_SHAPE(x->n), 3);
  return tc_is_valid(x->a) && tc_is_valid(x->b) && tc_is_valid(x->c);
}

int bench_serve(const char *name, int threads) {
  char line[64];
  chain x;
  if (tc_set_num_threads(threads) != TC_OK || !make_chain(&x, name)) return 1;
  double start = bench_now(), each = 1;
  for (int i = 0; i < 3 || bench_now() - start < 0.2; i++)
    if ((each = run_chain(&x, 1)) < 0) return 1;
  int n = (int)fmax(0.01 / each, 1);
  printf("ready\n"), fflush(stdout);
  while (fgets(line, sizeof(line), stdin)) printf("seconds %.9g\n", run_chain(&x, n) / n), fflush(stdout);
  return 0;
}

static double run_other(void *arg, int n) {
  double seconds = bench_process_slice(arg);
  return seconds < 0 ? -1 : seconds * n;
}

void bench_interp(void) {
  static bench_process llvm;
  static chain x;
  static const char *const names[] = {"chain16m", "chain_l2"};
  char command[300], path[200];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length < 0 || setenv("TC_COMPILER", "interp", 1) != 0) return;
  path[length] = '\0';
  snprintf(command, sizeof(command), "env -u TC_COMPILER '%s' --serve", path);
  for (int i = 0; i < 2; i++) {
    if (!bench_wants(names[i])) continue;
    bench_row row = {.bench = "interp",
                     .name = names[i],
                     .unit = i ? "us" : "ms",
                     .run = run_chain,
                     .arg = &x,
                     .check = chain_right,
                     .threads = i ? 1 : 0};
    int threads[2];
    bool started =
        bench_process_start(&llvm, command, &row, i ? 1 : threads[bench_threads(threads) - 1]) == BENCH_READY;
    row.peers[row.n_peers++] = (bench_peer){"llvm", started ? run_other : NULL, &llvm};
    tc_scope scope = tc_scope_begin();
    if (make_chain(&x, names[i])) bench_measure(&row);
    tc_scope_end(scope);
    (void)bench_process_stop(&llvm);
  }
}
