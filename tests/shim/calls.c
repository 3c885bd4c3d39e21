// Calls as programs make them and as testers do not, each case in a process of its own: calls CASE.
// Linked to a BLAS of 32-bit integers; calls.py reads the profile.
#include <assert.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COLUMNS = 102, ROWS = 101, PLAIN = 111, TRANSPOSED = 112, N = 24 };

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void cblas_srotm(int, float *, int, float *, int, const float *);
void cblas_drotm(int, double *, int, double *, int, const double *);
void cblas_srotmg(float *, float *, float *, float, float *);
void cblas_drotmg(double *, double *, double *, double, double *);
void cblas_csrot(int, void *, int, void *, int, float, float);
void cblas_zdrot(int, void *, int, void *, int, double, double);
void cblas_crotg(void *, void *, float *, void *);
void cblas_zrotg(void *, void *, double *, void *);
void cblas_cscal(int, const void *, void *, int);
float cblas_sdsdot(int, float, const float *, int, const float *, int);
double cblas_dsdot(int, const float *, int, const float *, int);
void crotg_(void *, void *, float *, void *);
void zrotg_(void *, void *, double *, void *);
void csrot_(const int *, void *, const int *, void *, const int *, const float *, const float *);
void zdrot_(const int *, void *, const int *, void *, const int *, const double *, const double *);

static double a[N * N], b[N * N], c[N * N];

static void fill(void) {
  for (int i = 0; i < N * N; i++) {
    a[i] = i % 7 - 3;
    b[i] = i % 5 - 2;
    c[i] = 1;
  }
}

// Element (i, j) of a times b, all in columns.
static double expected(int i, int j) {
  double sum = 0;
  for (int l = 0; l < N; l++) sum += a[i + l * N] * b[l + j * N];
  return sum;
}

static void check_product(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) assert(c[i + j * N] == expected(i, j));
}

static void multiply(void) {
  const int n = N;
  const double one = 1, zero = 0;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

static double dot(int n) {
  const int one = 1;
  return ddot_(&n, a, &one, b, &one);
}

// ---- Names that no tester calls ----

static void case_untested(void) {
  float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8}, h[5] = {-1, 1, 2, 3, 4}, d1 = 2, d2 = 3, x1 = 4, param[5];
  double dx[4] = {1, 2, 3, 4}, dy[4] = {5, 6, 7, 8}, dh[5] = {-1, 1, 2, 3, 4}, e1 = 2, e2 = 3, z1 = 4, dparam[5];
  float ca[2] = {3, 0}, cb[2] = {4, 0}, cs[2], r;
  double za[2] = {3, 0}, zb[2] = {4, 0}, zs[2], dr;
  const int one = 1, two = 2;
  cblas_srotm(4, x, 1, y, 1, h);  // x = 1 x + 3 y, y = 2 x + 4 y
  assert(x[0] == 16 && y[0] == 22 && x[3] == 28 && y[3] == 40);
  cblas_drotm(4, dx, 1, dy, 1, dh);
  assert(dx[0] == 16 && dy[0] == 22 && dx[3] == 28 && dy[3] == 40);
  cblas_srotmg(&d1, &d2, &x1, 0, param);  // the last by value, beside addresses
  assert(param[0] == -2);
  cblas_drotmg(&e1, &e2, &z1, 0, dparam);
  assert(dparam[0] == -2);
  float v[4] = {1, 2, 3, 4}, w[4] = {5, 6, 7, 8};
  cblas_csrot(2, v, 1, w, 1, 0, 1);  // v = w, w = -v
  assert(v[0] == 5 && v[3] == 8 && w[0] == -1 && w[3] == -4);
  csrot_(&two, v, &one, w, &one, &(const float){0}, &(const float){1});
  assert(v[0] == -1 && w[0] == -5);
  double dv[4] = {1, 2, 3, 4}, dw[4] = {5, 6, 7, 8};
  cblas_zdrot(2, dv, 1, dw, 1, 0, 1);
  assert(dv[0] == 5 && dw[3] == -4);
  zdrot_(&two, dv, &one, dw, &one, &(const double){0}, &(const double){1});
  assert(dv[0] == -1 && dw[0] == -5);
  cblas_crotg(ca, cb, &r, cs);
  assert(r > 0.599f && r < 0.601f);
  cblas_zrotg(za, zb, &dr, zs);
  assert(dr > 0.599 && dr < 0.601);
  ca[0] = 3, za[0] = 3;
  crotg_(ca, cb, &r, cs);
  zrotg_(za, zb, &dr, zs);
  assert(r > 0.599f && dr > 0.599);
  cblas_cscal(2, (float[]){0, 1}, v, 1);
  float f[3] = {1, 2, 3}, g[3] = {4, 5, 6};
  assert(cblas_sdsdot(3, 0.5f, f, 1, g, 1) == 32.5f && cblas_dsdot(3, f, 1, g, 1) == 32);
}

// ---- Integers ----

// What stands in the upper half of a register or a word of the stack is nobody's business.
static void case_upper(void) {
  typedef void words(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, const void *, uint64_t,
                     const void *, uint64_t, double, void *, uint64_t);
  const uint64_t rubbish = 0xdeadbeef00000000u;
  words *gemm = (words *)(void *)cblas_dgemm;
  fill();
  gemm(rubbish | COLUMNS, rubbish | PLAIN, rubbish | PLAIN, rubbish | N, rubbish | N, rubbish | N, 1, a, rubbish | N, b,
       rubbish | N, 0, c, rubbish | N);
  check_product();
  memset(c, 0, sizeof c);
  gemm(rubbish | ROWS, rubbish | TRANSPOSED, rubbish | TRANSPOSED, rubbish | N, rubbish | N, rubbish | N, 1, a,
       rubbish | N, b, rubbish | N, 0, c, rubbish | N);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) assert(c[i * N + j] == expected(i, j));
}

// ---- Where calls come from ----

static double at_start;

__attribute__((constructor)) static void call_early(void) {
  a[0] = 2, b[0] = 3;
  at_start = dot(1);
}

static void case_constructor(void) {
  assert(at_start == 6);
}

static void case_fork(void) {
  fill();
  for (int i = 0; i < 10; i++) multiply();
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; i++) multiply();
    check_product();
    exit(0);
  }
  int status;
  assert(waitpid(child, &status, 0) == child && status == 0);
  multiply();
  check_product();
}

static void *dot_often(void *n) {
  for (int i = 0; i < *(int *)n; i++) assert(dot(1) == 6);
  return NULL;
}

static void case_threads(void) {
  pthread_t thread[8];
  int many = 20000, few = 10;
  a[0] = 2, b[0] = 3;
  for (int i = 0; i < 8; i++) assert(pthread_create(&thread[i], NULL, dot_often, &many) == 0);
  for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 500; i++) {
    assert(pthread_create(&thread[0], NULL, dot_often, &few) == 0);
    pthread_join(thread[0], NULL);
  }
}

static volatile int n_handled;
static double in_handler[N * N];

static void handle(int signal) {
  const int n = N;
  const double one = 1, zero = 0;
  (void)signal;
  dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, in_handler, &n);
  n_handled++;
}

static void case_handler(void) {
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  fill();
  multiply();
  signal(SIGALRM, handle);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 3000000 && n_handled < 200; i++) multiply();
  setitimer(ITIMER_REAL, &never, NULL);
  check_product();
  assert(n_handled > 0 && memcmp(in_handler, c, sizeof c) == 0);
}

static jmp_buf out;

// In the place of BLAS's: as R and others leave a wrong call. Calls after it are counted as before.
void xerbla_(const char *name, const int *info) {
  (void)name, (void)info;
  longjmp(out, 1);
}

static void case_longjmp(void) {
  const int n = N, wrong = 1;
  const double one = 1, zero = 0;
  fill();
  if (setjmp(out) == 0) {
    dgemm_("N", "N", &n, &n, &n, &one, a, &wrong, b, &n, &zero, c, &n);
    assert(!"xerbla was not called");
  }
  for (int i = 0; i < 100; i++) multiply();
  check_product();
}

static sigjmp_buf again;

static void jump(int signal) {
  (void)signal;
  siglongjmp(again, 1);
}

// As deep in the stack as nothing before, over what the calls that were left have there.
static void multiply_deep(int depth) {
  volatile char row[1000];
  for (size_t i = 0; i < sizeof row; i++) row[i] = 0;
  if (depth)
    multiply_deep(depth - 1);
  else
    multiply();
  row[0] = 1;
}

// A handler leaves products, whose thread then goes on.
static void case_jump(void) {
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  volatile int n_jumps = 0;
  fill();
  multiply();
  signal(SIGALRM, jump);
  if (sigsetjmp(again, 1)) n_jumps = n_jumps + 1;
  setitimer(ITIMER_REAL, n_jumps < 20 ? &often : &never, NULL);
  while (n_jumps < 20) multiply();
  for (int i = 0; i < 1000; i++) multiply_deep(i % 10);
  check_product();
}

static void *multiply_once(void *unused) {
  (void)unused;
  multiply();
  return NULL;
}

// A fork while another thread opens libtc, which takes a while (standin.c).
static void case_opening(void) {
  pthread_t thread;
  fill();
  assert(pthread_create(&thread, NULL, multiply_once, NULL) == 0);
  usleep(100000);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 10; i++) multiply();
    check_product();
    exit(0);
  }
  int status;
  assert(waitpid(child, &status, 0) == child && status == 0);
  pthread_join(thread, NULL);
}

static void case_product(void) {
  fill();
  for (int i = 0; i < 5; i++) multiply();
  check_product();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {
      {"untested", case_untested}, {"upper", case_upper},     {"constructor", case_constructor},
      {"fork", case_fork},         {"threads", case_threads}, {"handler", case_handler},
      {"longjmp", case_longjmp},   {"product", case_product}, {"jump", case_jump},
      {"opening", case_opening},
  };
  assert(argc == 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(argv[1], cases[i].name) == 0) return cases[i].run(), 0;
  return 2;
}
