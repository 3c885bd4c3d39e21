// A main thread that ends by pthread_exit: the process ends with its last thread, which none of
// libtc's may be.
// In: pthread_exit of main. Out: nothing waits, libtc has no threads, and those that call BLAS make
// products alone. Threads: main.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <tc/tc.h>
#include <unistd.h>

#include "shim/defer.h"
#include "shim/direct.h"

__attribute__((visibility("default"))) void pthread_exit(void *result) {
  void (*real)(void *) __attribute__((noreturn)) = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_exit");
  void *library = syscall(SYS_gettid) == getpid() ? tc_shim_library_of_ours() : NULL;
  tc_status (*set_threads)(int) = library ? (tc_status(*)(int))dlsym(library, "tc_set_num_threads") : NULL;
  if (set_threads) {
    tc_shim_defer_end();
    (void)set_threads(1);
  }
  real(result);
}
