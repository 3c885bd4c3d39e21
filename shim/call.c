// The life of a call: who is asked, whether libtc takes it, what is counted.
// In: an entry and the words of its frame (stubs.S). Out: where the call goes. Invariants: a call
// inside a real routine, or in a signal handler inside the shim, goes straight through. Threads:
// any; its state is the thread's own.
#include "shim/call.h"

#include <signal.h>

#include "shim/defer.h"
#include "shim/direct.h"
#include "shim/find.h"
#include "shim/least.h"
#include "shim/options.h"
#include "shim/profile.h"
#include "shim/read.h"

// How far below an outer call's frame an inner one may be: CBLAS wrappers need hundreds of bytes,
// with copies of vectors some thousand. What is further down, or above, is another call: xerbla may
// have left the outer one by longjmp.
enum { INNER_BYTES = 1 << 16 };

// A call in progress: its stub's frame, NULL: none, and the return address that lies there.
typedef struct frame {
  const int64_t *base;
  int64_t caller;
} frame;

static __thread struct {
  frame outer;  // whose real routine runs and is timed
  frame busy;  // that is inside the shim or libtc
} thread;

// Whether siglongjmp left a call: nothing that it called lies above its frame, and its frame keeps
// its return address. A handler's alternate stack may lie anywhere.
static bool is_left(const frame *f, const int64_t *base) {
  stack_t stack;
  bool is_aside = sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) &&
                  (uintptr_t)f->base - (uintptr_t)stack.ss_sp >= stack.ss_size;
  return (base >= f->base && !is_aside) || f->base[1] != f->caller;
}

static bool is_inner(const int64_t *base) {
  if (thread.busy.base && !is_left(&thread.busy, base)) return true;
  const int64_t *outer = thread.outer.base;
  return outer && base < outer && (const char *)outer - (const char *)base < INNER_BYTES &&
         outer[1] == thread.outer.caller;
}

static frame frame_of(const int64_t *base) {
  return (frame){base, base[1]};
}

static void set_busy(frame f) {
  thread.busy = f;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Whether calls of an entry are looked at one by one.
static bool is_watched(const tc_shim_options *o, uint32_t entry) {
  if (o->level == TC_SHIM_OFF || !o->is_read) return false;
  if (o->level >= TC_SHIM_WRITEBACK) return true;
  return o->counts || tc_shim_routines[tc_shim_entries[entry].routine].action != TC_SHIM_FORWARD;
}

void *tc_shim_first(uint32_t entry, uintptr_t caller) {
  const tc_shim_options *o = tc_shim_read_options();
  const tc_shim_callee *callee = tc_shim_callee_of(entry, caller);
  void *go = (void *)tc_shim_route;
  if (is_watched(o, entry))
    go = (void *)tc_shim_enter;
  else if (callee->bytes == UINTPTR_MAX)
    go = callee->real;
  if (o->is_read) __atomic_store_n(&tc_shim_slots[entry].go, go, __ATOMIC_RELEASE);
  return go == (void *)tc_shim_enter ? go : callee->real;
}

// Whether libtc did the call. Small ones, and those whose result netlib has without a product, are
// not offered.
static bool try_direct(const tc_shim_options *o, uint32_t entry, const int64_t *base, const tc_shim_call *c) {
  if (o->level >= TC_SHIM_WRITEBACK && tc_shim_defer(o, entry, (int64_t *)base, c)) return true;
  if (o->level < TC_SHIM_EAGER || c->routine->action == TC_SHIM_FORWARD) return false;
  if (!(c->volume >= 1) || c->volume < tc_shim_least_volume(o, &tc_shim_entries[entry])) return false;
  double alpha = tc_shim_read_scalar(&tc_shim_entries[entry], base, TC_AT_ALPHA), beta = 0;
  if (c->routine->action != TC_SHIM_TRMM && c->routine->action != TC_SHIM_TRSM)
    beta = tc_shim_read_scalar(&tc_shim_entries[entry], base, TC_AT_BETA);
  return alpha != 0 && tc_shim_direct(c, alpha, beta);
}

tc_shim_next tc_shim_before(uint32_t entry, const int64_t *base, tc_shim_call *c) {
  const tc_shim_options *o = tc_shim_read_options();
  const tc_shim_entry *e = &tc_shim_entries[entry];
  const tc_shim_routine *r = &tc_shim_routines[e->routine];
  const tc_shim_callee *callee = tc_shim_callee_of(entry, (uintptr_t)base[1]);
  tc_shim_next next = {callee->real, -1};
  if (callee->left_alone || is_inner(base)) return next;
  bool defers = o->level >= TC_SHIM_WRITEBACK;
  if (!o->counts && !defers && tc_shim_is_smaller(e, callee->bits, base, tc_shim_least_volume(o, e))) return next;
  set_busy(frame_of(base));
  if (o->level >= TC_SHIM_EAGER && r->action == TC_SHIM_GEMM &&
      !tc_shim_is_smaller(e, callee->bits, base, tc_shim_least_volume(o, e)))
    tc_shim_least_measure(o, e, callee->real);
  if (r->is_complex_value && !e->is_cblas) {  // whose arguments are not known
    if (defers) tc_shim_defer_end();
    if (o->counts) tc_shim_profile_count((uintptr_t)base[1], entry);
  } else if (!tc_shim_read_call(e, callee->bits, base, c)) {
    if (defers) tc_shim_defer_end();
    if (o->counts) tc_shim_profile_count((uintptr_t)base[1], entry);
  } else if (o->counts && (c->record = tc_shim_profile_open((uintptr_t)base[1], entry, c)) != NULL) {
    c->start = tc_shim_ticks();
    if (try_direct(o, entry, base, c)) {
      tc_shim_profile_close(c, true);
      next.go = NULL;
    } else {
      next.words = e->is_cblas ? r->cblas.n_stack : r->fortran.n_stack;
      thread.outer = frame_of(base);
    }
  } else if (try_direct(o, entry, base, c)) {
    next.go = NULL;
  }
  set_busy((frame){0});
  return next;
}

void tc_shim_after(const int64_t *base, tc_shim_call *c) {
  set_busy(frame_of(base));
  thread.outer = (frame){0};
  tc_shim_profile_close(c, false);
  set_busy((frame){0});
}
