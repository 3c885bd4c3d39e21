// Runs a launch: its blocks one after the other in an order of the seed's, a fiber for every thread of a block.
// A thread runs until it comes to a barrier or meets others of its warp; those meet when all whom the mask names have come with the same words. When
// nobody can go on, either all are at the barrier, or it is divergent: a device would hang or go on wrongly, here the launch fails.
#include "tests/sim/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

sim_block sim_run_block;
#define B (&sim_run_block)

// ---- switching ----
// sim_switch stores where the caller is in *save and goes on at `to`; registers that calls preserve are on the stack.

#if defined(__x86_64__)
void sim_switch(void **save, void *to);
__asm__(
    ".text\n.globl sim_switch\n.hidden sim_switch\n.type sim_switch, @function\nsim_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size sim_switch, . - sim_switch\n");
enum { FRAME_WORDS = 8, RETURN_WORD = 6 };  // six registers, where to return, and what keeps the stack aligned
#elif defined(__aarch64__)
void sim_switch(void **save, void *to);
__asm__(
    ".text\n.globl sim_switch\n.hidden sim_switch\n.type sim_switch, @function\nsim_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\n"
    "stp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\n"
    "ldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n"
    ".size sim_switch, . - sim_switch\n");
enum { FRAME_WORDS = 20, RETURN_WORD = 11 };
#else
#error "the simulated driver switches fibers on x86-64 and AArch64 only"
#endif

static void *scheduler;

void sim_yield(sim_thread_state state) {
  sim_thread *t = B->now;
  t->state = state;
  sim_switch(&t->sp, scheduler);
}

void sim_kill(sim_error error) {
  B->error = error;
  for (;;) sim_yield(SIM_DONE);
}

static void fiber_main(void) {
  B->launch->kernel->entry(B->launch->params);
  for (;;) sim_yield(SIM_DONE);
}

// Stacks begin at different lines of a page, or all threads' frames would fall on the same lines of the cache.
static void fiber_init(sim_thread *t) {
  void **sp = (void **)(t->stack + SIM_STACK_BYTES - (size_t)(t->id % 61) * 64 - 64);
  sp -= FRAME_WORDS;
  memset(sp, 0, FRAME_WORDS * sizeof *sp);
  void (*begin)(void) = fiber_main;
  memcpy(&sp[RETURN_WORD], &begin, sizeof begin);
  t->sp = sp;
  t->state = SIM_RUNNING;
  t->meeting = SIM_NO_MEETING;
  t->n_landing = t->group = 0;
}

static bool stacks_init(void) {
  static bool done;
  if (done) return true;
  size_t each = SIM_STACK_BYTES + 4096, bytes = each * SIM_MAX_THREADS;  // a page between two that cannot be touched
  uint8_t *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  sim_landing *landing = malloc(SIM_MAX_THREADS * SIM_MAX_COPIES * sizeof *landing);
  if (p == MAP_FAILED || !landing) return false;
  for (int i = 0; i < SIM_MAX_THREADS; i++) {
    sim_thread *t = &B->thread[i];
    t->id = i;
    t->stack = p + (size_t)i * each + 4096;
    t->landing = landing + (size_t)i * SIM_MAX_COPIES;
    if (mprotect(t->stack, SIM_STACK_BYTES, PROT_READ | PROT_WRITE) != 0) return false;
  }
  return done = true;
}

// ---- faults ----

void sim_kernel_fault(const char *what, const void *site, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const sim_kernel *k = B->launch->kernel;
  uint64_t key = sim_hash(k->name, strlen(k->name), sim_hash(what, strlen(what), (uint64_t)(uintptr_t)site));
  static uint64_t known[64];
  static unsigned n_known;
  const char *place = "";
  bool again = false;
  for (unsigned i = 0; i < 64; i++) again |= known[i] == key;
  if (!again && site) place = sim_place(k->module, site);
  known[n_known++ % 64] = key;
  sim_fault(key, "kernel %s, block %d, thread %d: %s: %s%s%s%s", k->name, B->block, B->now ? B->now->id : -1, what, text, *place ? " [" : "", place,
            *place ? "]" : "");
}

// ---- meetings ----

static bool same_words(const sim_thread *a, const sim_thread *b) {
  return a->state == SIM_AT_MEETING && a->meeting == b->meeting && a->mask == b->mask && a->line == b->line && a->width == b->width;
}

// The first thread of a warp whose meeting is complete, with all of it in who; 0: none is.
static int find_meeting(int warp, sim_thread **who) {
  int width = sim_option.warp, base = warp * width;
  for (int i = 0; i < width && base + i < B->n_threads; i++) {
    sim_thread *t = &B->thread[base + i];
    if (t->state != SIM_AT_MEETING) continue;
    int n = 0;
    bool all = true;
    for (int k = 0; k < width && all; k++) {
      if (!(t->mask >> k & 1)) continue;
      all = base + k < B->n_threads && same_words(&B->thread[base + k], t);
      who[n++] = &B->thread[base + k];
    }
    if (all) return n;
  }
  return 0;
}

static void run_thread(sim_thread *t) {
  B->now = t;
  sim_switch(&scheduler, t->sp);
}

// Runs a warp until each of its threads is done, at the barrier, or waits for others that cannot come.
static void run_warp(int warp) {
  int first = warp * sim_option.warp, end = first + sim_option.warp;
  if (end > B->n_threads) end = B->n_threads;
  sim_thread *who[SIM_MAX_WARP];
  for (;;) {
    for (int i = first; i < end && !B->error; i++) {
      if (B->thread[i].state == SIM_RUNNING) run_thread(&B->thread[i]);
    }
    bool met = false;
    for (int n; !B->error && (n = find_meeting(warp, who)) > 0;) {
      if (!sim_meet(&B->warp[warp], who, n)) return;
      for (int i = 0; i < n; i++) who[i]->state = SIM_RUNNING;
      met = true;
    }
    if (!met || B->error) return;
  }
}

static const char *meeting_name(sim_meeting m) {
  static const char *const name[] = {"nothing", "TC_SYNC_WARP", "TC_DOWN_U32", "TC_FROM_U32", "ldmatrix", "mma"};
  return name[m];
}

// Nobody can go on, and not all are at the barrier.
static void tell_divergence(void) {
  int done = 0, barrier = 0;
  const sim_thread *stuck = NULL, *waiting = NULL;
  for (int i = 0; i < B->n_threads; i++) {
    const sim_thread *t = &B->thread[i];
    done += t->state == SIM_DONE;
    barrier += t->state == SIM_AT_BARRIER;
    if (t->state == SIM_AT_BARRIER && !waiting) waiting = t;
    if (t->state == SIM_AT_MEETING && !stuck) stuck = t;
  }
  B->now = (sim_thread *)(stuck ? stuck : waiting);
  if (stuck) {
    sim_kernel_fault("divergent warp", stuck->site, "%s with mask 0x%llx in line %d waits for threads that are elsewhere",
                     meeting_name(stuck->meeting), (unsigned long long)stuck->mask, stuck->line);
  } else {
    sim_kernel_fault("divergent barrier", waiting ? waiting->site : NULL, "%d of %d threads are at the barrier of line %d, %d have ended", barrier,
                     B->n_threads, waiting ? waiting->line : 0, done);
  }
  B->error = SIM_LAUNCH_FAILED;
}

// All are at the barrier; of different lines, it is one only by luck.
static void open_barrier(void) {
  int line = B->thread[0].line;
  for (int i = 0; i < B->n_threads; i++) {
    sim_thread *t = &B->thread[i];
    if (t->line != line) {
      B->now = t;
      sim_kernel_fault("divergent barrier", t->site, "at the barrier of line %d while thread 0 is at that of line %d", t->line, line);
    }
    t->state = SIM_RUNNING;
  }
  B->epoch++;
}

static void run_block(int block) {
  B->block = block;
  B->stamp++;
  B->epoch = 1;
  for (int i = 0; i < B->n_threads; i++) {
    sim_thread *t = &B->thread[i];
    fiber_init(t);
    t->warp = i / sim_option.warp;
    t->lane = i % sim_option.warp;
  }
  sim_check_begin_block(B->launch->shared);
  for (;;) {
    int first = (int)sim_random((uint32_t)B->n_warps), done = 0, barrier = 0;
    for (int w = 0; w < B->n_warps && !B->error; w++) run_warp((first + w) % B->n_warps);
    for (int i = 0; i < B->n_threads; i++) {
      done += B->thread[i].state == SIM_DONE;
      barrier += B->thread[i].state == SIM_AT_BARRIER;
    }
    if (B->error || done == B->n_threads) return;
    if (barrier == B->n_threads) {
      open_barrier();
    } else {
      tell_divergence();
    }
  }
}

static int gcd(int a, int b) {
  while (b) {
    int r = a % b;
    a = b;
    b = r;
  }
  return a;
}

sim_error sim_run(sim_device *d, const sim_launch *l) {
  if (!stacks_init() || !sim_check_setup()) return SIM_MEMORY;
  if (!sim_alive(l->kernel, SIM_KERNEL)) {
    sim_fault(21, "a launch runs after its module was unloaded");
    return SIM_ILLEGAL_ADDRESS;
  }
  if (B->stamp > UINT32_MAX / 2) B->stamp = 0;
  B->device = d;
  B->launch = l;
  B->n_threads = (int)(l->block[0] * l->block[1] * l->block[2]);
  B->n_warps = (B->n_threads + sim_option.warp - 1) / sim_option.warp;
  B->n_blocks = (int)(l->grid[0] * l->grid[1] * l->grid[2]);
  B->first_stamp = B->stamp + 1;
  B->error = SIM_OK;
  B->now = NULL;
  if (B->n_threads != l->kernel->threads) {
    sim_kernel_fault("launch", NULL, "with %d threads a block, but it is written for %d", B->n_threads, l->kernel->threads);
  }
  int step = (int)sim_random((uint32_t)B->n_blocks) + 1, at = (int)sim_random((uint32_t)B->n_blocks);
  while (gcd(step, B->n_blocks) != 1) step++;
  for (int i = 0; i < B->n_blocks && !B->error; i++) {
    run_block(at);
    at = (int)(((int64_t)at + step) % B->n_blocks);
  }
  B->now = NULL;
  return B->error;
}
