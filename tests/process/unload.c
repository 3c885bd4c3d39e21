// libtc.so opened, used from two threads and closed again and again in one process; and, under
// valgrind, no byte lost by that nor by a program that trains and exits. Skipped where there is no
// libtc.so beside the program.
//   unload             all of it          unload --close | --exit     what valgrind runs
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"
#include "tests/mlp.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true  // those look themselves, and do not run under valgrind
#else
#define SANITIZED false
#endif

// This program has the library inside too; these are the functions of the one that is opened.
typedef struct api {
  void *lib;
  tc_tensor (*full)(tc_dims shape, double value, tc_type type);
  tc_tensor (*add)(tc_tensor a, tc_tensor b);
  tc_tensor (*sum)(tc_tensor x, tc_dims axes, bool keepdim);
  tc_status (*item)(tc_tensor t, float *out);
  tc_status (*set_num_threads)(int n);
  tc_status (*region_begin)(const tc_region_options *options, tc_site site);
  void (*region_end)(tc_site site);
} api;

static bool open_api(api *a, const char *path) {
  if (!(a->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL))) return false;
  *(void **)&a->full = dlsym(a->lib, "tc_full"), *(void **)&a->add = dlsym(a->lib, "tc_add"),
         *(void **)&a->sum = dlsym(a->lib, "tc_sum");
  *(void **)&a->item = dlsym(a->lib, "tc_item_f32"),
         *(void **)&a->set_num_threads = dlsym(a->lib, "tc_set_num_threads");
  *(void **)&a->region_begin = dlsym(a->lib, "tc_region_begin_at");
  *(void **)&a->region_end = dlsym(a->lib, "tc_region_end_at");
  return a->full && a->add && a->sum && a->item && a->set_num_threads && a->region_begin && a->region_end;
}

static void *compute(void *arg) {
  const api *a = arg;
  float v = 0;
  EXPECT_OK(a->region_begin(&(tc_region_options){.name = "sum", .options = "strict=1"}, 0));
  tc_tensor x = a->full(tc_dims_of(1, (const int64_t[]){5000}), 1, TC_F32);
  EXPECT_OK(a->item(a->sum(a->add(x, x), TC_ALL, false), &v));
  EXPECT(v == 10000, "a sum is %g", (double)v);
  a->region_end(0);
  return NULL;
}

static void open_and_close(const char *path, int times) {
  for (int k = 0; k < times; k++) {
    api a;
    pthread_t t;
    if (!open_api(&a, path)) {
      EXPECT(false, "%s", dlerror());
      return;
    }
    EXPECT_OK(a.set_num_threads(2));
    compute(&a);
    pthread_create(&t, NULL, compute, &a);
    pthread_join(t, NULL);
    EXPECT(dlclose(a.lib) == 0, "%s", dlerror());
    EXPECT(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), "the library stays after dlclose %d", k);
  }
}

// Leaves everything to the exit: pending tensors, parameters, scopes, an optimizer, a mapping, an
// ended thread's tensor.
static tc_tensor left;
static void *leave_one(void *arg) {
  left = tc_retain(tc_add(tc_ones(TC_SHAPE(100), TC_F32), 1));
  return arg;
}

static void train_and_exit(void) {
  mlp m;
  float loss;
  pthread_t t;
  EXPECT_OK(tc_set_num_threads(2));
  EXPECT_OK(mlp_init(&m, 1));
  for (int k = 0; k < 3; k++) EXPECT_OK(mlp_step(&m, &loss));
  pthread_create(&t, NULL, leave_one, NULL);
  pthread_join(t, NULL);
  EXPECT_OK(tc_item_f32(tc_sum(left, TC_ALL, false), &loss));
  EXPECT(loss == 200, "an ended thread's tensor: %g", (double)loss);
  EXPECT(tc_map(left) != NULL, "mapped");
  (void)tc_scope_begin();
  (void)tc_add(tc_ones(TC_SHAPE(10), TC_F32), left);
  tc_optimizer_destroy(m.opt);  // memory of the caller's, as tc_format's
}

static bool has_valgrind(void) {
  return system("valgrind --version >/dev/null 2>&1") == 0;
}

// Lanes past the end of a vector are computed from nothing and never stored: only the interpreter's
// steps may look at uninitialised values (lanes.supp).
static void clean_under_valgrind(const char *self, const char *what) {
  char command[4400];
  snprintf(
      command, sizeof command,
      "TC_COMPILER=interp valgrind -q --suppressions=tests/process/lanes.supp --leak-check=full --show-leak-kinds=definite,indirect,possible "
      "--errors-for-leak-kinds=definite,indirect,possible --error-exitcode=9 '%s' %s",
      self, what);
  fflush(stdout);
  int status = system(command);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "valgrind %s: status %x", what, (unsigned)status);
}

int main(int n_words, char **words) {
  char self[4096] = "", path[4096 + 16];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  char *slash = n > 0 ? strrchr(self, '/') : NULL;
  snprintf(path, sizeof path, "%.*s/libtc.so", slash ? (int)(slash - self) : 0, self);
  if (access(path, R_OK) != 0) return puts("unload: skipped: no libtc.so"), 77;
  if (access("tests/process/lanes.supp", R_OK) != 0) return puts("unload: run it from the root of the sources"), 1;
  if (n_words > 1 && !strcmp(words[1], "--exit")) {
    train_and_exit();
  } else if (n_words > 1) {
    open_and_close(path, 3);
  } else {
    open_and_close(path, 20);
    if (!SANITIZED && !has_valgrind()) return puts("unload: skipped: no valgrind"), 77;
    if (!SANITIZED) clean_under_valgrind(self, "--close");
    if (!SANITIZED) clean_under_valgrind(self, "--exit");
  }
  return expect_done("process-unload");
}
