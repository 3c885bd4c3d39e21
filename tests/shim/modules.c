// Libraries that define BLAS's names, looked up and loaded at run time: modules CASE [PATHS]. This program is linked to
// no BLAS.
#include <assert.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/shim/resident.h"

enum { COLUMNS = 102, PLAIN = 111 };

// Of 64 bits: sizes beyond 2^31 where nothing is to be done, and leading dimensions of one column. The provider's
// functions say what they were given.
static void case_huge(const char *const *paths) {
  (void)paths;
  typedef void fortran(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const double *,
                       const double *, const int64_t *, const double *, const int64_t *, const double *, double *,
                       const int64_t *);
  typedef void cblas(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t, const double *, int64_t,
                     double, double *, int64_t);
  static const char *const fortrans[] = {"dgemm_64_", "scipy_dgemm_64_", "dgemm_"};
  static const char *const cs[] = {"cblas_dgemm64_", "cblas_dgemm_64", "scipy_cblas_dgemm64_", "cblas_dgemm"};
  const int64_t large = (int64_t)1 << 33, one = 1, zero_size = 0;
  const double alpha = 1, beta = 0;
  int64_t *n_calls = dlsym(RTLD_DEFAULT, "provider_calls"), *last_m = dlsym(RTLD_DEFAULT, "provider_m");
  for (int i = 0; i < 3; i++) {
    fortran *gemm = (fortran *)dlsym(RTLD_DEFAULT, fortrans[i]);
    double x = 3, y = 5, z = 0;
    int64_t before = *n_calls;
    gemm("N", "N", &large, &zero_size, &large, &alpha, &x, &large, &y, &large, &beta, &z, &large);
    assert(*n_calls == before + 1 && *last_m == large && z == 0);
    gemm("N", "N", &one, &one, &one, &alpha, &x, &large, &y, &large, &beta, &z, &large);
    assert(z == 15);
  }
  for (int i = 0; i < 4; i++) {
    cblas *gemm = (cblas *)dlsym(RTLD_DEFAULT, cs[i]);
    double x = 3, y = 5, z = 0;
    int64_t before = *n_calls;
    gemm(COLUMNS, PLAIN, PLAIN, large, 0, large, 1, &x, large, &y, large, 0, &z, large);
    assert(*n_calls == before + 1 && *last_m == large && z == 0);
    gemm(COLUMNS, PLAIN, PLAIN, 1, 1, 1, 1, &x, large, &y, large, 0, &z, large);
    assert(z == 15);
  }
}

// Two modules by turns, each with a BLAS of its own in its closure, the second one's of 64 bits, and how often at the
// same address.
static void case_dlclose(const char *const *paths) {
  void *places[2] = {NULL, NULL};
  int n_same = 0;
  for (int round = 0; round < 40; round++) {
    void *module = dlopen(paths[round % 2], RTLD_NOW | RTLD_LOCAL);
    if (!module) fprintf(stderr, "%s\n", dlerror());
    assert(module);
    double (*call)(void) = (double (*)(void))dlsym(module, "module_call");
    assert(call() == (round % 2 ? 64 : 32));
    places[round % 2] = (void *)call;
    n_same += places[0] == places[1];
    dlclose(module);
  }
  printf("%d\n", n_same);
}

// A module stays and calls, another comes and goes: what is known of callers takes no more memory for it.
static void case_stays(const char *const *paths) {
  double (*call)(void) = (double (*)(void))dlsym(dlopen(paths[0], RTLD_NOW | RTLD_LOCAL), "module_call");
  long first = 0;
  for (int round = 0; round < 1500; round++) {
    void *other = dlopen(paths[1], RTLD_NOW | RTLD_LOCAL);
    assert(other && call() == 32);
    dlclose(other);
    if (round == 300) first = resident_kb();
  }
  assert(resident_kb() < first + 1024);
}

// ---- Somebody else's functions of BLAS's names ----

static void case_collision(const char *const *paths) {
  (void)paths;
  int (*print)(char *, size_t, const char *, ...) =
      (int (*)(char *, size_t, const char *, ...))dlsym(RTLD_DEFAULT, "dgemv");
  char text[100];
  for (int i = 0; i < 3; i++) {
    assert(print(text, sizeof text, "%d %g %g %s %d %d %d %g", 1, 2.5, 3.5, "four", 5, 6, 7, 8.5) > 0);
    assert(strcmp(text, "1 2.5 3.5 four 5 6 7 8.5") == 0);
  }
}

// A module wants a name that nobody defines.
static void case_undefined(const char *const *paths) {
  void *module = dlopen(paths[0], RTLD_LAZY | RTLD_LOCAL);
  assert(module);
  ((double (*)(void))dlsym(module, "module_call"))();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(const char *const *paths);
  } cases[] = {
      {"huge", case_huge},           {"dlclose", case_dlclose},     {"stays", case_stays},
      {"collision", case_collision}, {"undefined", case_undefined},
  };
  assert(argc >= 2);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(argv[1], cases[i].name) == 0) return cases[i].run((const char *const *)argv + 2), 0;
  return 2;
}
