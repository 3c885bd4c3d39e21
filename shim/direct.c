// Products by libtc: the one file that calls its interface (tc/blas.h) and opens it.
// In: a checked call. Out: C in place, or false and nothing written.
// Invariants: libtc is opened at the first call, from beside the shim, else by its soname. Where it
// is not there, one line says so and every call is forwarded.
// Threads: any.
#include "shim/direct.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tc/blas.h>
#include <unistd.h>

#include "shim/options.h"

typedef tc_status (*gemm_function)(const tc_gemm_call *);
typedef tc_status (*blas3_function)(const tc_blas3_call *);

static const char *const names[TC_SHIM_ACTIONS] = {
    [TC_SHIM_GEMM] = "tc_gemm",   [TC_SHIM_SYMM] = "tc_symm", [TC_SHIM_SYRK] = "tc_syrk",
    [TC_SHIM_SYR2K] = "tc_syr2k", [TC_SHIM_TRMM] = "tc_trmm", [TC_SHIM_TRSM] = "tc_trsm",
};
static void *functions[TC_SHIM_ACTIONS];
static int opened;  // 0: not yet, 1: being opened, 2: functions are set

static bool is_shared;

bool tc_shim_library_is_shared(void) {
  return is_shared;
}

// From beside the shim, else by its soname. flags: RTLD_NOLOAD, or 0.
static void *open_at(int flags) {
  static const char soname[] = "libtc.so.0";
  char path[4096];
  Dl_info self;
  void *handle = NULL;
  flags |= RTLD_NOW | RTLD_LOCAL;
  const char *slash = dladdr((const void *)names, &self) ? strrchr(self.dli_fname, '/') : NULL;
  if (slash && (size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname, soname) <
                   sizeof path)
    handle = dlopen(path, flags);
  return handle ? handle : dlopen(soname, flags);
}

static void *library;

// As a guest, but where the program has libtc for itself: its settings hold.
static void open_library(void) {
  is_shared = open_at(RTLD_NOLOAD) != NULL;
  library = open_at(0);
  tc_status (*embed)(void);
  *(void **)&embed = library && !is_shared ? dlsym(library, "tc_embed") : NULL;
  if (embed) (void)embed();
}

void *tc_shim_open_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  return library;
}

void *tc_shim_library_of_ours(void) {
  void *is = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
  return is_shared ? NULL : is;
}

static void set_functions(void) {
  void *handle = tc_shim_open_library();
  const char *why = handle ? NULL : dlerror();
  if (!handle)
    tc_shim_say("libtc cannot be opened, so BLAS stays with its library%s%s", why ? ": " : "", why ? why : "");
  for (int i = 0; i < TC_SHIM_ACTIONS && handle; i++)
    if (names[i]) functions[i] = dlsym(handle, names[i]);
  if (handle && !functions[TC_SHIM_GEMM])
    tc_shim_say("libtc has no direct products, so BLAS stays with its library: %s", dlerror());
}

// A child of fork lacks the thread that opens libtc, so that fork waits for it, a second at most.
static void wait_until_opened(void) {
  for (int i = 0; i < 1000 && __atomic_load_n(&opened, __ATOMIC_ACQUIRE) == 1; i++) usleep(1000);
}

static void watch_forks(void) {
  (void)pthread_atfork(wait_until_opened, NULL, NULL);
}

// While one thread opens it, calls of others are forwarded. No handler may leave the opening.
static void *find_function(tc_shim_action action) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  int no = 0;
  if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE) == 2) return functions[action];
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_once(&once, watch_forks);
  if (__atomic_compare_exchange_n(&opened, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    set_functions();
    __atomic_store_n(&opened, 2, __ATOMIC_RELEASE);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return __atomic_load_n(&opened, __ATOMIC_ACQUIRE) == 2 ? functions[action] : NULL;
}

static bool do_gemm(gemm_function gemm, const tc_shim_call *c, double alpha, double beta) {
  tc_gemm_call call = {
      .type = c->routine->type == 's' ? TC_F32 : TC_F64,
      .order = c->row_major ? TC_ROW_MAJOR : TC_COL_MAJOR,
      .transa = c->transa,
      .transb = c->transb,
      .m = c->m,
      .n = c->n,
      .k = c->k,
      .alpha = alpha,
      .a = c->operand[0],
      .lda = c->step[0],
      .b = c->operand[1],
      .ldb = c->step[1],
      .beta = beta,
      .c = (void *)c->operand[2],
      .ldc = c->step[2],
  };
  return gemm(&call) == TC_OK;
}

static bool do_blas3(blas3_function function, const tc_shim_call *c, double alpha, double beta) {
  bool has_k = c->routine->action == TC_SHIM_SYRK || c->routine->action == TC_SHIM_SYR2K;
  int last = c->routine->n_operands - 1;  // what is written
  tc_blas3_call call = {
      .type = c->routine->type == 's' ? TC_F32 : TC_F64,
      .order = c->row_major ? TC_ROW_MAJOR : TC_COL_MAJOR,
      .side = c->right,
      .uplo = c->upper,
      .trans = c->transa,
      .diag = c->unit,
      .m = c->m,
      .n = c->n,
      .k = has_k ? c->k : 0,
      .alpha = alpha,
      .a = c->operand[0],
      .lda = c->step[0],
      .beta = beta,
      .c = (void *)c->operand[last],
      .ldc = c->step[last],
  };
  if (last == 2) {
    call.b = c->operand[1];
    call.ldb = c->step[1];
  }
  return function(&call) == TC_OK;
}

static bool direct(const tc_shim_call *c, double alpha, double beta) {
  void *function = find_function(c->routine->action);
  if (!function) return false;
  if (c->routine->action == TC_SHIM_GEMM) return do_gemm((gemm_function)function, c, alpha, beta);
  return do_blas3((blas3_function)function, c, alpha, beta);
}

// BLAS is no cancellation point, and a thread that is cancelled in libtc would keep its locks. Nor
// does it set errno.
bool tc_shim_direct(const tc_shim_call *c, double alpha, double beta) {
  int cancels, kept = errno;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  bool done = direct(c, alpha, beta);
  pthread_setcancelstate(cancels, NULL);
  errno = kept;
  return done;
}
