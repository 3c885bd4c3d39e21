// What programs of deferred results share: BLAS's declarations, and matrices that wait.
#pragma once

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 520, SIZE = N * N, ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
static const size_t BYTES = SIZE * sizeof(double);

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void daxpy_(const int *, const double *, const double *, const int *, double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
void dcopy_(const int *, const double *, const int *, double *, const int *);
void dger_(const int *, const int *, const double *, const double *, const int *, const double *, const int *, double *,
           const int *);
void dsymm_(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
            const double *, const int *, double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);
double dnrm2_(const int *, const double *, const int *);
double dasum_(const int *, const double *, const int *);
int idamax_(const int *, const double *, const int *);

__attribute__((unused)) static const int size = SIZE, one = 1, n = N;

// Opaque, so that the compiler neither drops nor merges what the cases do.
static double *take(double first) {
  double *p = malloc(BYTES);
  assert(p);
  for (int i = 0; i < SIZE; i++) p[i] = first + i % 7;
  __asm__ volatile("" : "+r"(p)::"memory");
  return p;
}

// 2 x: a result that waits.
__attribute__((unused)) static double *pending(double first) {
  double *p = take(first);
  dscal_(&size, &(const double){2}, p, &one);
  return p;
}

__attribute__((unused)) static void check_doubled(const double *p, double first) {
  for (int i = 0; i < SIZE; i++) assert(p[i] == 2 * (first + i % 7));
}

typedef struct test_case {
  const char *name;
  void (*run)(void);
} test_case;

#define CASE(name) {#name, case_##name}

// Runs the case that the command line names; without one, lists them.
__attribute__((unused)) static int run_case(const test_case *cases, size_t n_cases, int argc, char **argv) {
  for (size_t i = 0; i < n_cases; i++)
    if (argc >= 2 && strcmp(argv[1], cases[i].name) == 0) {
      cases[i].run();
      return 0;
    }
  for (size_t i = 0; i < n_cases; i++) puts(cases[i].name);
  return argc >= 2;
}
