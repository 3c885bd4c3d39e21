// SIGSEGV and SIGSYS are ours; what is not ours reaches the program's handlers, whenever they were
// installed.
// In: calls of sigaction and its kin. Out: the program sees the handlers that it set. Invariants:
// no thread blocks the two, and no handler's mask has them, so that a guarded block can be touched
// anywhere. Threads: any.
#include "shim/memory/signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "shim/memory/raw.h"
#include "shim/memory/thread.h"

#define EXPORT __attribute__((visibility("default")))
#define RESTORER 0x04000000

// The kernel's.
typedef struct kernel_action {
  void *handler;
  uint64_t flags;
  void *restorer;
  uint64_t mask;
} kernel_action;

typedef int (*sigaction_function)(int, const struct sigaction *, struct sigaction *);

void tc_shim_restore(void);

// What the program set: of two the one that is valid, so that a handler never reads a half.
static struct {
  struct sigaction action[2];
  int valid;
} programs[2];
static int installed, lock;

static int index_of(int number) {
  return number == SIGSEGV ? 0 : number == SIGSYS ? 1 : -1;
}

static struct sigaction programs_action(int i) {
  return programs[i].action[__atomic_load_n(&programs[i].valid, __ATOMIC_ACQUIRE)];
}

// The program's handler decides alone whether ours runs on the alternate stack: only one that does
// sees an overflow.
static bool install(int i, tc_shim_handler ours_now, const struct sigaction *program, kernel_action *out_old) {
  bool has_handler = program && program->sa_handler != SIG_DFL && program->sa_handler != SIG_IGN;
  kernel_action action = {.handler = (void *)ours_now, .restorer = (void *)tc_shim_restore};
  action.flags = SA_SIGINFO | SA_NODEFER | SA_RESTART | RESTORER;
  if (!has_handler || (program->sa_flags & SA_ONSTACK)) action.flags |= SA_ONSTACK;
  return tc_shim_raw(SYS_rt_sigaction, i == 0 ? SIGSEGV : SIGSYS, (long)&action, (long)out_old, 8, 0, 0) == 0;
}

static tc_shim_handler ours[2];

bool tc_shim_handlers_install(tc_shim_handler on_fault, tc_shim_handler on_dispatch) {
  ours[0] = on_fault;
  ours[1] = on_dispatch;
  for (int i = 0; i < 2; i++) {
    kernel_action old;
    if (tc_shim_raw(SYS_rt_sigaction, i == 0 ? SIGSEGV : SIGSYS, 0, (long)&old, 8, 0, 0) != 0) return false;
    struct sigaction *a = &programs[i].action[0];
    memset(a, 0, sizeof *a);
    a->sa_handler = (void (*)(int))old.handler;
    a->sa_flags = (int)(old.flags & ~(uint64_t)RESTORER);
    memcpy(&a->sa_mask, &old.mask, sizeof old.mask);
    if (!install(i, ours[i], a, NULL)) return false;
  }
  __atomic_store_n(&installed, 1, __ATOMIC_RELEASE);
  return true;
}

static void strip(sigset_t *set) {
  sigdelset(set, SIGSEGV);
  sigdelset(set, SIGSYS);
}

static void set_default(int number) {
  const kernel_action action = {.handler = (void *)SIG_DFL, .flags = RESTORER, .restorer = (void *)tc_shim_restore};
  tc_shim_raw(SYS_rt_sigaction, number, (long)&action, 0, 8, 0, 0);
}

void tc_shim_signal_chain(int number, siginfo_t *info, void *context) {
  int i = index_of(number);
  struct sigaction a = programs_action(i);
  if (a.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (a.sa_handler == SIG_DFL || a.sa_handler == SIG_IGN) {
    set_default(number);  // the access is tried again, and ends the process as it would have
    if (info->si_code <= 0 || number == SIGSYS)
      tc_shim_raw(SYS_tgkill, tc_shim_raw(SYS_getpid, 0, 0, 0, 0, 0, 0), tc_shim_raw(SYS_gettid, 0, 0, 0, 0, 0, 0),
                  number, 0, 0, 0);
    return;
  }
  if (a.sa_flags & SA_RESETHAND) programs[i].action[programs[i].valid].sa_handler = SIG_DFL;
  strip(&a.sa_mask);
  tc_shim_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&a.sa_mask, 0, 8, 0, 0);
  if (a.sa_flags & SA_SIGINFO)
    a.sa_sigaction(number, info, context);
  else
    a.sa_handler(number);
}

// ---- What programs call ----

static int real_sigaction(int number, const struct sigaction *action, struct sigaction *out_old) {
  static sigaction_function real;
  if (!real) real = (sigaction_function)tc_shim_next_function("sigaction");
  return real(number, action, out_old);
}

static void set_programs_action(int i, const struct sigaction *action) {
  uint64_t mask = tc_raw_block_signals();
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) tc_shim_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
  int other = !programs[i].valid;
  programs[i].action[other] = *action;
  __atomic_store_n(&programs[i].valid, other, __ATOMIC_RELEASE);
  (void)install(i, ours[i], action, NULL);
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  tc_raw_set_signals(mask);
}

EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *out_old) {
  int i = index_of(number);
  if (i >= 0 && __atomic_load_n(&installed, __ATOMIC_ACQUIRE)) {
    struct sigaction old = programs_action(i);
    if (action) set_programs_action(i, action);
    if (out_old) *out_old = old;
    return 0;
  }
  if (!action) return real_sigaction(number, action, out_old);
  struct sigaction copy = *action;
  strip(&copy.sa_mask);
  return real_sigaction(number, &copy, out_old);
}

EXPORT int __sigaction(int number, const struct sigaction *action, struct sigaction *out_old) {
  return sigaction(number, action, out_old);
}

typedef void (*signal_function)(int);

static signal_function set_signal(int number, signal_function handler, int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
  sigemptyset(&action.sa_mask);
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

EXPORT signal_function signal(int number, signal_function handler) {
  static signal_function (*real)(int, signal_function);
  if (index_of(number) >= 0) return set_signal(number, handler, SA_RESTART);
  if (!real) real = (signal_function(*)(int, signal_function))tc_shim_next_function("signal");
  return real(number, handler);
}

EXPORT signal_function bsd_signal(int number, signal_function handler) {
  return signal(number, handler);
}

EXPORT signal_function ssignal(int number, signal_function handler) {
  return signal(number, handler);
}

EXPORT signal_function __sysv_signal(int number, signal_function handler) {
  return set_signal(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}

EXPORT signal_function sysv_signal(int number, signal_function handler) {
  return __sysv_signal(number, handler);
}

typedef int (*mask_function)(int, const sigset_t *, sigset_t *);

static int set_mask(mask_function real, int how, const sigset_t *set, sigset_t *out_old) {
  if (!set || how == SIG_UNBLOCK) return real(how, set, out_old);
  sigset_t copy = *set;
  strip(&copy);
  return real(how, &copy, out_old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *out_old) {
  static mask_function real;
  if (!real) real = (mask_function)tc_shim_next_function("sigprocmask");
  return set_mask(real, how, set, out_old);
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *out_old) {
  static mask_function real;
  if (!real) real = (mask_function)tc_shim_next_function("pthread_sigmask");
  return set_mask(real, how, set, out_old);
}
