// What programs do with memory, signals, threads and the dynamic linker while results wait, each case in a process of
// its own: memory CASE [PATH]. Linked to a BLAS of 32-bit integers; defer.py reads the profile.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // ppoll
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/shim/defer.h"

static const char *path;  // of the command line
static double *volatile shared;

static void spawn(void *(*run)(void *), void *argument) {
  pthread_t t;
  assert(pthread_create(&t, NULL, run, argument) == 0);
  pthread_join(t, NULL);
}

static void expect_death(void (*run)(void)) {
  pid_t child = fork();
  if (child == 0) {
    run();
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

// ---- Memory ----

// Sizes on both sides of what the shim takes, contents kept.
static void case_border(void) {
  static const size_t sizes[] = {100,     200 << 10, 300 << 10, 200 << 10, 5 << 20,
                                 3 << 20, 9 << 20,   256 << 10, 1,         2 << 20};
  unsigned char *p = NULL;
  size_t old = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    p = realloc(p, sizes[i]);
    assert(p && malloc_usable_size(p) >= sizes[i]);
    for (size_t at = 0; at < old && at < sizes[i]; at++) assert(p[at] == (unsigned char)(at * 7 + 1));
    for (size_t at = 0; at < sizes[i]; at++) p[at] = (unsigned char)(at * 7 + 1);
    old = sizes[i];
  }
  for (; old < 40 << 20; old += 96 << 10) {  // by small steps, as readers of files do
    p = realloc(p, old + (96 << 10));
    assert(p && p[old - 1] == (old == 2 << 20 ? p[old - 1] : 3));
    p[old + (96 << 10) - 1] = 3;
  }
  free(p);
  for (size_t align = 16; align <= 64 << 20; align *= 2)
    for (size_t bytes = 64 << 10; bytes <= 4 << 20; bytes *= 4) {
      char *a = aligned_alloc(align, bytes);
      assert(a && (uintptr_t)a % align == 0);
      a[0] = a[bytes - 1] = 1;
      a = realloc(a, bytes + 4096);
      assert(a[0] == 1 && a[bytes - 1] == 1);
      free(a);
    }
  void *out = &out;
  assert(posix_memalign(&out, 3, 1 << 20) == EINVAL && out == &out);
  errno = 0;
  volatile size_t many = SIZE_MAX / 2;
  assert(reallocarray(NULL, many, 4) == NULL && errno == ENOMEM);
}

static void *free_it(void *p) {
  errno = 77;
  free(p);
  assert(errno == 77);
  return NULL;
}

// By another thread, a result, an operand and an updated operand; and moved while it is an operand.
static void case_frees(void) {
  spawn(free_it, pending(1));
  double *a = take(1), *y = take(2), *z = take(5);
  daxpy_(&size, &(const double){1}, a, &one, y, &one);
  spawn(free_it, a);
  for (int i = 0; i < SIZE; i++) assert(y[i] == 3 + 2 * (i % 7));
  daxpy_(&size, &(const double){1}, y, &one, z, &one);
  y = realloc(y, BYTES + (8 << 20));
  y[0] = -1;
  for (int i = 0; i < SIZE; i++) assert(z[i] == 8 + 3 * (i % 7));
  assert(y[1] == 5);
}

static sigjmp_buf back;
static volatile int n_caught;

static void leave_fault(int number) {
  (void)number;
  n_caught++;
  siglongjmp(back, 1);
}

// What a program protects stays so, also as an operand.
static void case_protected(void) {
  double *a = NULL, *y = NULL;
  assert(posix_memalign((void **)&a, 4096, BYTES) == 0 && posix_memalign((void **)&y, 4096, BYTES) == 0);
  for (int i = 0; i < SIZE; i++) a[i] = 1, y[i] = 2 + i % 7;
  assert(mprotect(a, 4096, PROT_READ) == 0);
  signal(SIGSEGV, leave_fault);
  daxpy_(&size, &(const double){1}, a, &one, y, &one);
  for (int i = 0; i < SIZE; i++) assert(y[i] == 3 + i % 7);
  if (sigsetjmp(back, 1) == 0) a[1] = 5;
  assert(n_caught == 1 && a[1] == 1);
  dscal_(&size, &(const double){2}, y, &one);
  assert(mprotect(y, 4096, PROT_READ) == 0 && y[1] == 2 * (3 + 1));
  if (sigsetjmp(back, 1) == 0) y[1] = 5;
  assert(n_caught == 2);
  assert(mprotect(y, 4096, PROT_READ | PROT_WRITE) == 0);
  y[1] = 5;
  free(y);
  free(a);
}

// By system calls that no function of the C library makes.
static void case_raw(void) {
  char name[] = "/tmp/tc-memory-XXXXXX";
  int file = mkstemp(name);
  unlink(name);
  double *p = pending(1), *q = take(0);
  assert(syscall(SYS_pwrite64, file, p, BYTES, 0L) == (long)BYTES);
  assert(pread(file, q, BYTES, 0) == (ssize_t)BYTES);
  check_doubled(q, 1);
#if defined(__x86_64__)
  double *r = pending(2);
  long done;
  __asm__ volatile("syscall" : "=a"(done) : "0"(SYS_write), "D"(file), "S"(r), "d"(BYTES) : "rcx", "r11", "memory");
  assert(done == (long)BYTES);
  check_doubled(r, 2);
#endif
  double *s = pending(3);
  assert(syscall(SYS_read, -1, s, SIZE_MAX) == -1 && errno == EBADF);
  check_doubled(s, 3);
  (void)pending(4);
  assert(munmap(mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                (size_t)1 << 40) == 0);
}

// ---- Signals ----

// A program that keeps track of its own pages, as collectors of garbage do: its handler lets the access go on.
static char *own;
static volatile int n_own;

static void open_own(int number, siginfo_t *info, void *context) {
  char *at = info->si_addr;
  assert(number == SIGSEGV && context && at >= own && at < own + (1 << 20) && info->si_code == SEGV_ACCERR);
  n_own++;
  mprotect((void *)((uintptr_t)at & ~(uintptr_t)4095), 4096, PROT_READ | PROT_WRITE);
}

static void case_owner(void) {
  own = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = open_own, .sa_flags = SA_SIGINFO}, NULL);
  for (int i = 0; i < 20; i++) {
    double *p = pending(i);
    own[i * 4096 + 7] = (char)i;
    memcpy(own + i * 4096 + 64, (char *)p + 8, 1024);  // two faults in one access
    check_doubled(p, i);
    double *q = pending(i);
    own[i * 4096 + 9]++;
    assert(n_own == i + 1 && own[i * 4096 + 7] == i);
    free(i % 2 ? p : q);
  }
}

static volatile char *deepest;

__attribute__((noinline)) static int descend(int depth) {
  volatile char page[4096];
  page[0] = (char)depth;
  deepest = page;
  return depth < 0 ? 0 : descend(depth + 1) + page[0];
}

static void overflow(void) {
  (void)descend(1);
}

// The end of the stack: a handler with a stack of its own sees it; without one the process ends by SIGSEGV.
static void case_overflow(void) {
  static char stack[64 << 10];
  shared = pending(1);
  expect_death(overflow);
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  sigaction(SIGSEGV, &(struct sigaction){.sa_handler = leave_fault, .sa_flags = SA_ONSTACK}, NULL);
  for (int i = 0; i < 2; i++) {
    double *p = pending(2);
    if (sigsetjmp(back, 1) == 0) overflow();
    assert(n_caught == i + 1);
    check_doubled(p, 2);
  }
  check_doubled(shared, 1);
  signal(SIGSEGV, SIG_DFL);
  expect_death(overflow);
  sigaction(SIGSEGV, &(struct sigaction){.sa_handler = leave_fault}, NULL);  // not on that stack
  expect_death(overflow);
}

static volatile int n_ticks;

static void on_tick(int number) {
  (void)number;
  double first = shared[0];
  dscal_(&size, &(const double){1.5}, shared, &one);
  assert(shared[0] == 1.5 * first && shared[SIZE - 1] > 0);
  memset(shared, 0, 8);
  shared[0] = 1;
  n_ticks++;
}

// A handler makes results that wait, and touches them, while the thread allocates and frees.
static void case_storm(void) {
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  shared = take(1);
  for (int i = 0; i < SIZE; i++) shared[i] = 1;
  signal(SIGALRM, on_tick);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; n_ticks < 50; i++) {
    char *volatile p = malloc((size_t)(300 + i % 4000) << 10);
    p[5] = 1;
    free(p);
  }
  setitimer(ITIMER_REAL, &never, NULL);
}

// ---- Threads, modules, the beginning ----

static volatile int go;

static void *hold_pending(void *unused) {
  (void)unused;
  shared = pending(1);
  go = 1;
  while (go != 2) continue;
  check_doubled(shared, 1);
  return NULL;
}

// A fork and an exec beside a thread whose results wait.
static void case_beside(void) {
  pthread_t t;
  pthread_create(&t, NULL, hold_pending, NULL);
  while (go != 1) continue;
  pid_t child = fork();
  if (child == 0) {
    check_doubled(shared, 1);
    execl("/bin/true", "true", (char *)NULL);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  assert(status == 0 && system("exit 3") == 3 << 8);
  go = 2;
  pthread_join(t, NULL);
}

// The first run comes in the midst of loading a library and one that it needs.
static void case_module(void) {
  double *p = pending(1);
  void *handle = dlopen(path, RTLD_NOW);
  assert(handle);
  void (*scale)(double *, int) = (void (*)(double *, int))(uintptr_t)dlsym(handle, "module_scale");
  double *q = take(3);
  scale(q, size);
  dlclose(handle);
  check_doubled(p, 1);
  check_doubled(q, 3);
}

static int n_tasks(void) {
  struct stat tasks;
  return stat("/proc/self/task", &tasks) == 0 ? (int)tasks.st_nlink - 2 : 0;
}

static int n_at_exit;

// Of all destructors this one comes last, long after those of BLAS and libtc.
static void check_end(void) {
  assert(n_tasks() == n_at_exit);
}

static void *work_on(void *unused) {
  (void)unused;
  for (double *p = take(1);; free(p), p = take(1)) {
    dscal_(&size, &(const double){2}, p, &one);
    check_doubled(p, 1);
    go = 1;
  }
  return NULL;
}

// The process ends while threads work: nothing that they use ends before them, libtc's own threads among it.
static void case_leave(void) {
  double *a = take(-3), *b = take(-2), *c = malloc(BYTES);
  pthread_t t;
  dgemm_("N", "T", &n, &n, &n, &(const double){1}, a, &n, b, &n, &(const double){0}, c, &n);
  assert(c[0] != 99);
  void *handle = dlopen(path, RTLD_NOW);
  assert(handle);
  *(void (**)(void))dlsym(handle, "module_at_end") = check_end;
  for (int i = 0; i < 2; i++) pthread_create(&t, NULL, work_on, NULL);
  while (!go) continue;
  n_at_exit = n_tasks();
  exit(0);
}

static double *early;

__attribute__((constructor)) static void begin_early(void) {
  early = pending(1);
}

static void case_early(void) {
  check_doubled(early, 1);
}

// ---- Other masks and stacks ----

static void touch_in_handler(int number) {
  (void)number;
  check_doubled(shared, 1);
  double *p = take(1);
  dscal_(&size, &(const double){3}, p, &one);
  assert(p[3] == 12);
  free(p);
  n_ticks++;
}

// Waits for a signal under another mask, one that blocks SIGSEGV among them, while a result waits.
static void case_waits(void) {
  sigset_t alarm_only, others, none;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  sigfillset(&others);
  sigdelset(&others, SIGALRM);
  sigemptyset(&none);
  sigprocmask(SIG_BLOCK, &alarm_only, NULL);
  signal(SIGALRM, touch_in_handler);
  const struct timespec most = {9, 0};
  struct epoll_event event;
  int polled = epoll_create1(0), number;
  for (int way = 0; way < 10; way++) {
    const sigset_t *mask = way & 1 ? &others : &none;
    shared = pending(1);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 5000}}, NULL);
    switch (way / 2) {
      case 0: assert(sigsuspend(mask) == -1 && errno == EINTR); break;
      case 1: assert(pselect(0, NULL, NULL, NULL, &most, mask) == -1 && errno == EINTR); break;
      case 2: assert(ppoll(NULL, 0, &most, mask) == -1 && errno == EINTR); break;
      case 3: assert(epoll_pwait(polled, &event, 1, 9000, mask) == -1 && errno == EINTR); break;
      case 4: assert(sigwait(&alarm_only, &number) == 0 && number == SIGALRM); break;
    }
    check_doubled(shared, 1);
    free(shared);
  }
  assert(n_ticks == 8);
}

static ucontext_t program, fiber;
static double *in_fiber;

static void run_fiber(void) {
  in_fiber = pending(2);
  swapcontext(&fiber, &program);
  check_doubled(in_fiber, 2);
  check_doubled(shared, 1);
  in_fiber = pending(3);
}

// Results wait over a change of stacks and masks.
static void case_contexts(void) {
  static char stack[64 << 10];
  for (int blocks = 0; blocks < 2; blocks++) {
    assert(getcontext(&fiber) == 0);
    if (blocks) sigfillset(&fiber.uc_sigmask);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = sizeof stack;
    fiber.uc_link = &program;
    makecontext(&fiber, run_fiber, 0);
    shared = pending(1);
    swapcontext(&program, &fiber);
    assert(in_fiber[1] == 2 * (2 + 1));
    dscal_(&size, &(const double){1}, in_fiber, &one);
    swapcontext(&program, &fiber);
    check_doubled(in_fiber, 3);
  }
}

// More blocks than a process may have mappings: threads and modules still find some.
static void case_many(void) {
  enum { MANY = 70000 };
  static char *p[MANY];
  mallopt(M_PERTURB, 0);  // nothing is written
  for (int i = 0; i < MANY; i++) assert((p[i] = malloc(300000)) != NULL);
  spawn(free_it, malloc(1));
  assert(dlopen(path, RTLD_NOW | RTLD_LOCAL));
  for (int i = 0; i < MANY; i++) free(p[i]);
  double *last = pending(1);
  check_doubled(last, 1);
}

// ---- BLAS's rules ----

static void multiply(const char *t, double alpha, const double *a, const double *b, double beta, double *c) {
  dgemm_(t, "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n);
}

// What is not to be read is not; what is goes on.
static void case_nan(void) {
  double *a = take(1), *b = take(2), *c = take(0), *y = take(3);
  for (int i = 0; i < SIZE; i++) c[i] = NAN;
  multiply("N", 1, a, b, 0, c);
  for (int i = 0; i < SIZE; i++) assert(!isnan(c[i]));
  a[N] = NAN;  // row 0, column 1
  multiply("N", 0, a, b, 2, y);
  for (int i = 0; i < SIZE; i++) assert(y[i] == 2 * (3 + i % 7));
  multiply("T", 1, a, b, 1, y);
  for (int j = 0; j < N; j++) assert(isnan(y[1 + j * N]) && !isnan(y[2 + j * N]));
  double *z = take(1);
  daxpy_(&size, &(const double){0}, y, &one, z, &one);
  for (int i = 0; i < SIZE; i++) assert(z[i] == 1 + i % 7);
  daxpy_(&size, &(const double){1}, a, &one, z, &one);
  assert(isnan(z[N]) && z[N + 1] == 2 + 2. * ((N + 1) % 7));
  for (int i = 0; i < SIZE; i++) c[i] = INFINITY;
  dscal_(&size, &(const double){-.5}, c, &one);
  assert(c[0] == -INFINITY && c[SIZE - 1] == -INFINITY);
}

// c over an operand: what the library itself makes of it.
static void case_overlap(void) {
  typedef __typeof__(dgemm_) gemm;
  void *library = dlopen("libblas.so.3", RTLD_NOW | RTLD_NOLOAD);
  gemm *real = library ? (gemm *)(uintptr_t)dlsym(library, "dgemm_") : NULL;
  assert(real);
  const double alpha = 1, beta = 1;
  const int k = 64;
  for (int shift = -200; shift <= 200; shift += 100) {
    double *p = take(1), *q = take(1), *b = take(0);
    double *cp = p + SIZE / 2 + shift, *cq = q + SIZE / 2 + shift;
    dgemm_("N", "N", &k, &k, &k, &alpha, p + SIZE / 2, &k, b, &k, &beta, cp, &k);
    real("N", "N", &k, &k, &k, &alpha, q + SIZE / 2, &k, b, &k, &beta, cq, &k);
    assert(memcmp(p, q, BYTES) == 0);
    free(p), free(q), free(b);
  }
  double *p = take(1), *q = take(1);
  dgemm_("N", "N", &n, &n, &n, &alpha, p, &n, p, &n, &beta, p, &n);
  real("N", "N", &n, &n, &n, &alpha, q, &n, q, &n, &beta, q, &n);
  assert(memcmp(p, q, BYTES) == 0);
}

// What nobody wrote is no operand: the stack holds signalling NaNs, and they trap.
__attribute__((noinline)) static void soil_stack(void) {
  volatile uint64_t words[20000];
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) words[i] = 0x7ff4000000000000;
}

static void case_unwritten(void) {
  double *a = take(1), *b = take(2), *c = take(0);
  for (int m = 1; m < 130; m++)
    for (int way = 0; way < 4; way++) {
      soil_stack();
      feenableexcept(FE_INVALID);
      dsymm_(way & 1 ? "L" : "R", way & 2 ? "L" : "U", &m, &m, &(const double){1}, a, &n, b, &n, &(const double){0}, c,
             &n);
      dgemm_("N", way & 1 ? "T" : "N", &m, &m, &m, &(const double){1}, a, &n, b, &n, &(const double){0}, c, &n);
      fedisableexcept(FE_INVALID);
    }
}

// ---- Threads that end ----

static void *work_briefly(void *unused) {
  (void)unused;
  double *p = pending(1);
  assert(p[5] == 2 * (1 + 5));
  dscal_(&size, &(const double){.5}, p, &one);
  return p;
}

// Four at a time end with results that wait, while others touch theirs.
static void case_brief(void) {
  for (int round = 0; round < 60; round++) {
    pthread_t t[4];
    void *p;
    for (int i = 0; i < 4; i++) assert(pthread_create(&t[i], NULL, work_briefly, NULL) == 0);
    for (int i = 0; i < 4; i++) {
      assert(pthread_join(t[i], &p) == 0 && ((double *)p)[7] == 1);
      free(p);
    }
  }
}

// kind 1: results are touched; 2: products, too.
static void work_once(int kind) {
  double *a = take(1), *c = take(0);
  for (int i = 0; i < 3; i++) {
    if (kind == 2)
      dgemm_("N", "N", &(const int){90}, &(const int){90}, &(const int){90}, &(const double){1}, a, &n, a, &n,
             &(const double){0}, c, &n);
    daxpy_(&size, &(const double){2. + i}, a, &one, c, &one);
    dscal_(&size, &(const double){2. + i}, c, &one);
    if (kind && c[3] < 0) abort();
  }
  free(a);
  free(c);
}

static void *work_until_cancelled(void *kind) {
  while (!go) continue;
  for (;;) {
    work_once((int)(intptr_t)kind);
    pthread_testcancel();
  }
  return NULL;
}

// Threads are cancelled before they begin, or anywhere later; the others go on.
static void case_cancelled(void) {
  for (int kind = 0; kind < 3; kind++) {
    work_once(kind);
    for (int round = 0; round < 20; round++) {
      pthread_t t[2];
      go = round % 2;
      for (int i = 0; i < 2; i++)
        assert(pthread_create(&t[i], NULL, work_until_cancelled, (void *)(intptr_t)kind) == 0);
      usleep(round % 2 ? 1000 + round * 977 % 5000 : 0);
      for (int i = 0; i < 2; i++) pthread_cancel(t[i]);
      go = 1;
      for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
      double *p = pending(round);
      check_doubled(p, round);
      free(p);
    }
  }
}

// ---- What a call reads by itself ----

static char *reserve;

static void fill_page(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  char *at = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
  if (at < reserve || at >= reserve + (1 << 20)) _exit(9);
  if (mprotect(at, 4096, PROT_READ | PROT_WRITE) != 0) _exit(8);
  for (int i = 0; i < 512; i++) ((double *)at)[i] = 3;
}

// Small operands and scalars lie in pages that a handler fills, or that wait; errno stays.
static void case_operands(void) {
  struct sigaction action = {.sa_sigaction = fill_page, .sa_flags = SA_SIGINFO};
  assert(sigaction(SIGSEGV, &action, NULL) == 0);
  reserve = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  double *far = (double *)reserve, *a = take(1), *p = pending(1);
  errno = 5;
  dger_(&n, &n, far + 9000, far, &one, far + 4096, &one, a, &n);
  assert(a[0] == 1 + 27 && a[SIZE - 1] == 1 + (SIZE - 1) % 7 + 27);
  dscal_(&size, far + 20000, a, &one);
  dscal_(&size, p + 1, a, &one);  // by 4
  assert(a[0] == 28 * 3 * 4);
  const int few = 90;
  dgemm_("N", "N", &few, &few, &few, &(const double){1}, p, &n, p, &n, &(const double){0}, a, &n);
  assert(errno == 5);
}

static const test_case cases[] = {
    CASE(border),   CASE(frees),     CASE(protected), CASE(raw),       CASE(owner),    CASE(overflow), CASE(storm),
    CASE(beside),   CASE(module),    CASE(early),     CASE(nan),       CASE(overlap),  CASE(leave),    CASE(waits),
    CASE(contexts), CASE(unwritten), CASE(brief),     CASE(cancelled), CASE(operands), CASE(many),
};

int main(int argc, char **argv) {
  path = argc > 2 ? argv[2] : NULL;
  alarm(60);  // nothing hangs
  return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
