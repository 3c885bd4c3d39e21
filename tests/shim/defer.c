// Programs that do to deferred results what may break them, each case in a process of its own: defer CASE.
// Linked to a BLAS of 32-bit integers; defer.py reads the profile.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // _Fork
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/shim/defer.h"

// ---- What is computed ----

static void case_chain(void) {
  double *a = take(-3), *b = take(-2), *y = take(1), *z = take(2), *t = malloc(BYTES);
  dgemm_("N", "T", &n, &n, &n, &(const double){1}, a, &n, b, &n, &(const double){0}, t, &n);
  dscal_(&size, &(const double){.5}, t, &one);
  daxpy_(&size, &(const double){1}, t, &one, y, &one);
  daxpy_(&size, &(const double){-.25}, t, &one, z, &one);
  dcopy_(&size, y, &one, t, &one);
  dscal_(&size, &(const double){2}, y, &one);
  for (int i = 0; i < N; i += 37)
    for (int j = 0; j < N; j += 41) {
      double sum = 0;
      for (int l = 0; l < N; l++) sum += a[i + l * N] * b[j + l * N];
      int at = i + j * N;
      assert(t[at] == 1 + at % 7 + sum / 2);
      assert(y[at] == 2 * t[at]);
      assert(z[at] == 2 + at % 7 - sum / 8);
    }
}

static void case_layouts(void) {
  double *a = take(-3), *b = take(-2), *c = take(1);
  for (int way = 0; way < 4; way++) {
    int ta = way & 1, tb = way >> 1;
    for (int i = 0; i < SIZE; i++) c[i] = i % 5;
    cblas_dgemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, N, N, N, 2, a, N, b, N, 3, c, N);
    for (int i = 0; i < N; i += 83)
      for (int j = 0; j < N; j += 71) {
        double sum = 0;
        for (int l = 0; l < N; l++) sum += (ta ? a[l * N + i] : a[i * N + l]) * (tb ? b[j * N + l] : b[l * N + j]);
        assert(c[i * N + j] == 2 * sum + 3 * ((i * N + j) % 5));
      }
  }
  enum { M = 900, K = 300 };  // not square, f32
  float *x = malloc(M * K * sizeof *x), *y = malloc(K * M * sizeof *y), *z = malloc(M * M * sizeof *z);
  for (int i = 0; i < M * K; i++) x[i] = (float)(i % 5), y[i] = (float)(i % 3);
  cblas_sgemm(ROW_MAJOR, PLAIN, PLAIN, M, M, K, 1, x, K, y, M, 0, z, M);
  float sum = 0;
  for (int l = 0; l < K; l++) sum += x[7 * K + l] * y[l * M + 11];
  assert(z[7 * M + 11] == sum);
}

static void case_ger(void) {
  double *a = take(1), x[N], y[N];
  for (int i = 0; i < N; i++) x[i] = i % 11, y[i] = i % 13;
  dger_(&n, &n, &(const double){3}, x, &one, y, &one, a, &n);
  memset(x, 0, sizeof x);  // was read
  for (int i = 0; i < SIZE; i++) assert(a[i] == 1 + i % 7 + 3. * (i % N % 11) * (i / N % 13));
}

static void case_scalars(void) {
  double *r = pending(1), *q = take(2), sum = 0, squares = 0, norm = 0;
  for (int i = 0; i < SIZE; i++) {
    double v = 2. * (1 + i % 7);
    sum += v * (2 + i % 7);
    squares += v * v;
    norm += v;
  }
  assert(ddot_(&size, r, &one, q, &one) == sum);
  assert(ddot_(&size, q, &one, r, &one) == sum);
  assert(dasum_(&size, r, &one) == norm);
  double root = dnrm2_(&size, r, &one);
  assert(root * root > squares * (1 - 1e-12) && root * root < squares * (1 + 1e-12));
  assert(idamax_(&size, r, &one) == 7);
  check_doubled(r, 1);
  double *huge = take(0);
  dscal_(&size, &(const double){1e200}, huge, &one);
  root = dnrm2_(&size, huge, &one);
  assert(root > 1e200 && root < 1e204);
}

// An iteration that is repeated: updates of what was computed before.
static void case_cg(void) {
  double *x = take(0), *p = take(1), *q = take(2), *r = take(3), rho = 0;
  double sx[7], sp[7], sq[7], sr[7];
  for (int i = 0; i < 7; i++) sx[i] = i, sp[i] = 1 + i, sq[i] = 2 + i, sr[i] = 3 + i;
  for (int step = 0; step < 9; step++) {
    daxpy_(&size, &(const double){.25}, p, &one, x, &one);
    daxpy_(&size, &(const double){-.25}, q, &one, r, &one);
    rho = ddot_(&size, r, &one, r, &one);
    dscal_(&size, &(const double){.5}, p, &one);
    daxpy_(&size, &(const double){1}, r, &one, p, &one);
    double want = 0;
    for (int i = 0; i < 7; i++) {
      sx[i] += .25 * sp[i];
      sr[i] -= .25 * sq[i];
      sp[i] = .5 * sp[i] + sr[i];
      want += sr[i] * sr[i] * (SIZE / 7 + (i < SIZE % 7));
    }
    assert(rho > want * (1 - 1e-12) && rho < want * (1 + 1e-12));
    if (step % 5 == 4) assert(p[SIZE - 1] == sp[(SIZE - 1) % 7]);
    if (step == 7) q[0] = sq[0];  // an operand is written
  }
  for (int i = 0; i < SIZE; i++)
    assert(x[i] == sx[i % 7] && p[i] == sp[i % 7] && r[i] == sr[i % 7] && q[i] == sq[i % 7]);
}

// Each value is an operand twice. Computed again for each use, it would take forever.
static void case_twice(void) {
  double *x = take(0), *y = take(1), sx[7], sy[7];
  for (int i = 0; i < 7; i++) sx[i] = i, sy[i] = 1 + i;
  for (int step = 0; step < 24; step++) {
    daxpy_(&size, &(const double){1}, x, &one, y, &one);
    daxpy_(&size, &(const double){1}, y, &one, x, &one);
    for (int i = 0; i < 7; i++) sy[i] += sx[i], sx[i] += sy[i];
  }
  for (int i = 0; i < SIZE; i++) assert(x[i] == sx[i % 7] && y[i] == sy[i % 7]);
}

// One operand of many calls, which nobody writes.
static void case_resident(void) {
  double *x = take(1), *y[5];
  for (int i = 0; i < 5; i++) {
    y[i] = take(i);
    daxpy_(&size, &(const double){2}, x, &one, y[i], &one);
  }
  for (int i = 0; i < 5; i++) assert(x[9] == 3 && y[i][9] == 2 * 3 + i + 2);
  daxpy_(&size, &(const double){2}, y[1], &one, y[2], &one);  // read by the program, not written
  x[0] = 100;
  daxpy_(&size, &(const double){1}, x, &one, y[0], &one);
  assert(y[2][9] == 10 + 18 && y[0][0] == 2 + 100 && y[0][9] == 8 + 3);
  enum { K = 32 };
  static double a[N * K], b[K * N];  // small: copied
  for (int i = 0; i < N * K; i++) a[i] = i % 3, b[i] = i % 5;
  dgemm_("N", "N", &n, &n, &(const int){K}, &(const double){1}, a, &n, b, &(const int){K}, &(const double){1}, y[1],
         &n);
  b[0] = 1e9;
  double sum = 1 + 2 + 2 * 3;
  for (int l = 0; l < K; l++) sum += (2 + l * N) % 3 * (l % 5);
  assert(y[1][2] == sum);
}

// What is not dense, whole or apart goes to the library, and sees what waits.
static void case_unsure(void) {
  double *p = pending(1), *q = take(2), *t = take(3);
  daxpy_(&(const int){SIZE / 2}, &(const double){1}, p, &(const int){2}, q, &(const int){2});
  assert(q[2] == 2 + 2 + 2 * (1 + 2) && q[3] == 2 + 3);
  dscal_(&(const int){SIZE - 1}, &(const double){3}, p + 1, &one);
  assert(p[0] == 2 && p[1] == 12);
  daxpy_(&size, &(const double){1}, t, &one, t, &one);  // the same operand twice
  check_doubled(t, 3);
  double *b = pending(1);
  for (int i = 0; i < N; i++) t[i * N + i] = 1;
  dtrsm_("L", "U", "N", "U", &n, &n, &(const double){1}, t, &n, b, &n);
  assert(b[N - 1] == 2. * (1 + (N - 1) % 7));
  dscal_(&size, &(const double){0}, t, &one);
  assert(t[5] == 0);
}

// ---- Touches ----

static void case_touch(void) {
  char some[64];
  double *p = pending(1), *q = take(5), *s = take(4);
  memcpy(some, (char *)p + 4000, sizeof some);
  assert(memcmp(some, (char *)p + 4000, sizeof some) == 0);
  check_doubled(p, 1);
  daxpy_(&size, &(const double){1}, q, &one, s, &one);
  q[3] = 99;  // an operand of what waits
  for (int i = 0; i < SIZE; i++) assert(s[i] == 9 + 2 * (i % 7));
  assert(q[3] == 99);
}

static void case_free(void) {
  double *a = take(1), *t = pending(2), *y = take(3);
  daxpy_(&size, &(const double){1}, t, &one, y, &one);
  free(t);
  daxpy_(&size, &(const double){1}, a, &one, y, &one);
  free(a);  // an operand of what waits
  for (int i = 0; i < SIZE; i++) assert(y[i] == 8 + 4 * (i % 7));
  free(pending(1));
}

static void case_realloc(void) {
  double *p = realloc(pending(1), 2 * BYTES);
  check_doubled(p, 1);
  p = realloc(p, BYTES);
  dscal_(&size, &(const double){.5}, p, &one);
  p = realloc(p, 1000);
  for (int i = 0; i < 125; i++) assert(p[i] == 1 + i % 7);
  free(p);
  assert(realloc(pending(1), 0) == NULL);
}

static void case_memory(void) {
  for (size_t bytes = 100 << 10; bytes < 20 << 20; bytes = bytes * 3 / 2) {
    char *p = malloc(bytes), *z = calloc(bytes / 8, 8), *a = NULL;
    assert(posix_memalign((void **)&a, 4096, bytes) == 0 && (uintptr_t)a % 4096 == 0);
    for (size_t i = 0; i < bytes / 8 * 8; i += 999) assert(z[i] == 0);
    memset(p, 1, bytes);
    memset(a, 2, bytes);
    p = realloc(p, bytes + 100000);
    assert(p[bytes - 1] == 1);
    free(z);
    free(a);
    p = realloc(p, bytes / 2);
    assert(p[bytes / 2 - 1] == 1);
    free(p);
  }
  errno = 0;
  volatile size_t many = SIZE_MAX / 4;
  assert(calloc(many, 8) == NULL && errno == ENOMEM);
  errno = 0;
  assert(malloc(PTRDIFF_MAX - (size_t)n) == NULL && errno == ENOMEM);
  many = (size_t)1 << 45;  // more than the machine has: as the system grants it
  void *granted = mmap(NULL, many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (granted != MAP_FAILED) munmap(granted, many);
  errno = 0;
  void *p = malloc(many);
  assert((p != NULL) == (granted != MAP_FAILED) && (p || errno == ENOMEM));
  free(p);
}

// ---- System calls ----

static void case_write(void) {
  char name[] = "/tmp/tc-defer-XXXXXX";
  int file = mkstemp(name);
  unlink(name);
  double *p = pending(1), *back = take(0);
  assert(write(file, p, BYTES) == (ssize_t)BYTES);
  assert(pread(file, back, BYTES, 0) == (ssize_t)BYTES);
  check_doubled(back, 1);
  double *q = pending(3);
  struct iovec parts[2] = {{q, BYTES / 2}, {q + SIZE / 2, BYTES / 2}};
  lseek(file, 0, SEEK_SET);
  assert(writev(file, parts, 2) == (ssize_t)BYTES);
  double *r = pending(4);  // read over
  parts[0].iov_base = r, parts[1].iov_base = r + SIZE / 2;
  lseek(file, 0, SEEK_SET);
  assert(readv(file, parts, 2) == (ssize_t)BYTES);
  check_doubled(r, 3);
  double *s = pending(1), *t = take(1);
  daxpy_(&size, &(const double){1}, s, &one, t, &one);
  assert(pread(file, s, BYTES, 0) == (ssize_t)BYTES);  // over an operand
  check_doubled(s, 3);
  for (int i = 0; i < SIZE; i++) assert(t[i] == 3 * (1 + i % 7));
}

static void case_stdio(void) {
  FILE *f = tmpfile();
  double *p = pending(1);
  assert(fwrite(p, sizeof *p, SIZE, f) == SIZE);
  rewind(f);
  double *q = pending(2);
  assert(fread(q, sizeof *q, SIZE, f) == SIZE);
  check_doubled(q, 1);
  fclose(f);
}

// ---- Threads ----

static double *volatile shared;

static void *touch_shared(void *unused) {
  (void)unused;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  check_doubled(shared, 1);
  return NULL;
}

static void *write_shared(void *unused) {
  int ends[2];
  (void)unused;
  char byte[8];
  assert(pipe(ends) == 0);
  assert(write(ends[1], shared + 5, 8) == 8 && read(ends[0], byte, 8) == 8 && memcmp(byte, shared + 5, 8) == 0);
  return NULL;
}

static void *work_alone(void *first) {
  for (int i = 0; i < 3; i++) {
    double *p = pending((double)(intptr_t)first + i), *q = take(1);
    daxpy_(&size, &(const double){-1}, p, &one, q, &one);
    assert(q[3] == 4 - 2 * ((double)(intptr_t)first + i + 3));
    check_doubled(p, (double)(intptr_t)first + i);
    free(p);
    free(q);
  }
  return NULL;
}

// The threads wait, without a system call, until something is pending.
static volatile int go;
static void *(*volatile waiting_for)(void *);

static void *wait_and_do(void *argument) {
  while (!go) continue;
  return waiting_for(argument);
}

static void case_threads(void) {
  pthread_t t[3];
  void *(*const doing[])(void *) = {touch_shared, write_shared};
  for (int k = 0; k < 2; k++) {
    go = 0;
    waiting_for = doing[k];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, wait_and_do, NULL);
    shared = pending(1);
    go = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    check_doubled(shared, 1);
  }
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, work_alone, (void *)(intptr_t)(10 * i));
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}

// ---- Signals ----

static sigjmp_buf back;
static volatile int n_caught, code;

static void on_fault(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  n_caught++;
  code = info->si_code;
  siglongjmp(back, 1);
}

static void on_plain_fault(int number) {
  (void)number;
  n_caught++;
  siglongjmp(back, 1);
}

static void fault(void) {
  int *volatile nowhere = (int *)16;
  if (sigsetjmp(back, 1) == 0) *nowhere = 1;
}

static void own_faults(void) {
  check_doubled(pending(1), 1);
  assert(n_caught == 0);
  fault();
  assert(n_caught == 1 && code == SEGV_MAPERR);
  double *p = pending(2);
  fault();
  assert(n_caught == 2);
  check_doubled(p, 2);
  double *own = NULL;
  assert(posix_memalign((void **)&own, 4096, BYTES) == 0);
  mprotect(own, BYTES, PROT_READ);
  if (sigsetjmp(back, 1) == 0) own[5] = 1;
  assert(n_caught == 3 && code == SEGV_ACCERR);
}

static void case_before(void) {
  sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, NULL);
  own_faults();
}

static void case_after(void) {
  struct sigaction old;
  double *p = pending(1);
  sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, &old);
  assert(old.sa_handler == SIG_DFL);
  check_doubled(p, 1);
  own_faults();
  assert(signal(SIGSEGV, on_plain_fault) == (void (*)(int))on_fault);
  fault();
  assert(n_caught == 4);
  assert(signal(SIGSEGV, SIG_DFL) == on_plain_fault);
}

// The alternate stack is small; what a touch starts needs more.
static void case_stack(void) {
  static char small[16 << 10];
  sigaltstack(&(stack_t){.ss_sp = small, .ss_size = sizeof small}, NULL);
  sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, NULL);
  own_faults();
}

static void case_dies(void) {
  double *p = pending(1);
  pid_t child = fork();
  if (child == 0) {
    check_doubled(p, 1);
    p = pending(3);
    *(int *volatile)16 = 1;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  check_doubled(p, 1);
  if ((child = fork()) == 0) {
    p = pending(3);
    kill(getpid(), SIGSEGV);
    _exit(0);
  }
  waitpid(child, &status, 0);
  assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void on_user(int number) {
  (void)number;
  check_doubled(shared, 1);
  double *p = pending(3);
  check_doubled(p, 3);
  n_caught++;
}

static void case_handler(void) {
  sigset_t all;
  sigfillset(&all);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_user, .sa_mask = all}, NULL);
  shared = pending(1);
  raise(SIGUSR1);
  assert(n_caught == 1);
  double *p = pending(4);
  shared = pending(1);
  raise(SIGUSR1);
  check_doubled(p, 4);
}

// ---- Ends ----

static void case_fork(void) {
  check_doubled(pending(4), 4);  // libtc ran before
  double *p = pending(1), *q = take(2);
  for (int i = 0; i < 2; i++) {
    pid_t child = fork();
    if (child == 0) {
      check_doubled(p, 1);
      double *r = pending(5);
      daxpy_(&size, &(const double){1}, r, &one, q, &one);
      assert(q[1] == 3 + 12);
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert(status == 0 && q[1] == 3);
  }
  check_doubled(p, 1);
}

// By functions that no handler of pthread_atfork sees, in a thread that has deferred nothing.
static void *fork_raw(void *unused) {
  (void)unused;
  for (int way = 0; way < 3; way++) {
    pid_t child = way == 0   ? _Fork()
                  : way == 1 ? (pid_t)syscall(SYS_fork)
                             : (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) _exit(shared[9] == 2 * (1 + 9 % 7) ? 0 : 1);
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
  }
  errno = 0;
  assert(syscall(SYS_close, -1L) == -1 && errno == EBADF && syscall(SYS_getpid) == getpid());
  return NULL;
}

static void case_forks(void) {
  pthread_t t;
  go = 0;
  waiting_for = fork_raw;
  pthread_create(&t, NULL, wait_and_do, NULL);
  shared = pending(1);
  go = 1;
  pthread_join(t, NULL);
  check_doubled(shared, 1);
  int ends[2];
  assert(pipe(ends) == 0);
  if (fork() == 0) {
    shared = pending(1);
    assert(daemon(1, 1) == 0);
    _exit(shared[9] == 2 * (1 + 9 % 7) && write(ends[1], "1", 1) == 1 ? 0 : 1);
  }
  close(ends[1]);
  char byte = 0;
  assert(read(ends[0], &byte, 1) == 1 && byte == '1');
}

// A program's own handlers of fork allocate, and wait for a thread that is in BLAS.
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) {
  pthread_mutex_lock(&gate);
  free(take(1));
}

static void after_fork(void) {
  free(take(1));
  pthread_mutex_unlock(&gate);
}

static void *work_in_gate(void *unused) {
  (void)unused;
  while (!go) {
    pthread_mutex_lock(&gate);
    double *p = pending(3);
    check_doubled(p, 3);
    free(p);
    pthread_mutex_unlock(&gate);
    usleep(100);
  }
  return NULL;
}

static void case_atfork(void) {
  pthread_t t;
  alarm(60);
  pthread_atfork(before_fork, after_fork, after_fork);
  double *p = pending(1);
  go = 0;
  pthread_create(&t, NULL, work_in_gate, NULL);
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    if (child == 0) {
      check_doubled(p, 1);
      double *q = pending(5);
      check_doubled(q, 5);
      _exit(0);
    }
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    free(p);
    p = pending(1);
  }
  go = 1;
  pthread_join(t, NULL);
  check_doubled(p, 1);
}

static void check_shared(void) {
  check_doubled(shared, 1);
  double *p = pending(2);
  check_doubled(p, 2);
}

static void case_exit(void) {
  atexit(check_shared);
  shared = pending(1);
}

static void case_exec(void) {
  (void)pending(1);
  execl("/bin/true", "true", (char *)NULL);
  assert(0);
}

static const test_case cases[] = {
    CASE(chain),   CASE(layouts), CASE(ger),   CASE(scalars), CASE(cg),     CASE(twice),   CASE(resident),
    CASE(unsure),  CASE(touch),   CASE(free),  CASE(realloc), CASE(memory), CASE(write),   CASE(stdio),
    CASE(threads), CASE(before),  CASE(after), CASE(stack),   CASE(dies),   CASE(handler), CASE(fork),
    CASE(exit),    CASE(exec),    CASE(forks), CASE(atfork),
};

int main(int argc, char **argv) {
  return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
