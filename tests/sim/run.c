// Runs a launch: its blocks, or clusters of blocks, one after the other in an order of the seed's,
// a fiber for every thread.
// A thread runs until it comes to a barrier or meets others of its warp; those meet when all whom
// the mask names have come with the same words. When nobody can go on, either all are at the
// barrier, or it is divergent: a device would hang or go on wrongly, here the launch fails.
#include "tests/sim/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

sim_block sim_run_block;
#define B (&sim_run_block)

// ---- switching ---- sim_switch stores where the caller is in *save and goes on at `to`; registers
// that calls preserve are on the stack.

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

void sim_turn_to(sim_thread *t) {
  B->now = t;
  if (B->n_ranks == 1 || !t) return;
  B->block = B->first_block + t->rank;
  B->epoch = B->rank_epoch[t->rank];
  B->shared = B->all_shared + (size_t)t->rank * SIM_SHARED_STRIDE;
  B->shared_state = B->all_state + (size_t)t->rank * SIM_SHARED_STRIDE;
  B->shared_cell = B->all_cell + (size_t)t->rank * (SIM_SHARED_STRIDE / 4);
}

static void fiber_main(void) {
  const sim_kernel *k = B->launch->kernel;
  if (k->function) {
    sim_run_code(k->module->steps, k->function, B->launch->params);
  } else {
    k->entry(B->launch->params);
  }
  sim_boxes_end();
  B->n_done[B->now->rank]++;
  for (;;) sim_yield(SIM_DONE);
}

// Stacks begin at different lines of a page, or all threads' frames would fall on the same lines of
// the cache.
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
  t->at = NULL;
}

// Stacks for so many threads; a page between two cannot be touched.
static bool stacks_init(int n_threads) {
  static uint8_t *stacks;
  static sim_landing *landing;
  static int n;
  size_t each = SIM_STACK_BYTES + 4096, bytes = each * SIM_MAX_FIBERS;
  if (!stacks) {
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    landing = sim_pages((size_t)SIM_MAX_FIBERS * SIM_MAX_COPIES * sizeof *landing);
    if (p == MAP_FAILED || !landing) return false;
    stacks = p;
  }
  for (; n < n_threads; n++) {
    sim_thread *t = &B->thread[n];
    t->stack = stacks + (size_t)n * each + 4096;
    t->landing = landing + (size_t)n * SIM_MAX_COPIES;
    if (mprotect(t->stack, SIM_STACK_BYTES, PROT_READ | PROT_WRITE) != 0) return false;
  }
  return true;
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
  sim_fault(key, "kernel %s, block %d, thread %d: %s: %s%s%s%s", k->name, B->block, B->now ? B->now->id : -1, what,
            text, *place ? " [" : "", place, *place ? "]" : "");
}

// ---- meetings ----

static bool same_words(const sim_thread *a, const sim_thread *b) {
  return a->state == SIM_AT_MEETING && a->meeting == b->meeting && a->mask == b->mask && a->line == b->line &&
         a->width == b->width;
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
  sim_turn_to(t);
  sim_switch(&scheduler, t->sp);
}

// Runs a warp until each of its threads is done, at the barrier, or waits for others that cannot
// come.
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
  static const char *const name[] = {"nothing", "TC_SYNC_WARP", "TC_DOWN_U32", "TC_FROM_U32",     "ldmatrix",
                                     "mma",     "mfma",         "wgmma",       "a wait for wgmma"};
  return name[m];
}

// Nobody can go on, and not all are at the barrier.
static void tell_divergence(void) {
  int done = 0, barrier = 0, cluster = 0;
  sim_thread *stuck = NULL, *waiting = NULL, *gate = NULL;
  for (int i = 0; i < B->n_threads; i++) {
    sim_thread *t = &B->thread[i];
    done += t->state == SIM_DONE;
    barrier += t->state == SIM_AT_BARRIER;
    cluster += t->state == SIM_AT_CLUSTER;
    if ((t->state == SIM_AT_BARRIER || t->state == SIM_AT_CLUSTER) && !waiting) waiting = t;
    if (t->state == SIM_AT_MEETING && !stuck) stuck = t;
    if (t->state == SIM_AT_GATE && !gate) gate = t;
  }
  sim_turn_to(stuck ? stuck : gate ? gate : waiting);
  if (stuck) {
    sim_kernel_fault("divergent warp", stuck->site,
                     "%s with mask 0x%llx in line %d waits for threads that are elsewhere",
                     meeting_name(stuck->meeting), (unsigned long long)stuck->mask, stuck->line);
  } else if (gate) {
    sim_kernel_fault("closed gate", gate->site, "in line %d a thread waits for what never arrives", gate->line);
  } else if (cluster > 0) {
    sim_kernel_fault("divergent cluster", waiting->site,
                     "%d of %d threads are at the cluster's barrier, %d at a block's, %d have ended", cluster,
                     B->n_threads, barrier, done);
  } else {
    sim_kernel_fault("divergent barrier", waiting ? waiting->site : NULL,
                     "%d of %d threads are at the barrier of line %d, %d have ended", barrier, B->n_threads,
                     waiting ? waiting->line : 0, done);
  }
  B->error = SIM_LAUNCH_FAILED;
}

// Threads first to end - 1 are all at the barrier; of different lines, it is one only by luck.
static void open_barrier(int first, int end) {
  int line = B->thread[first].line;
  for (int i = first; i < end; i++) {
    sim_thread *t = &B->thread[i];
    if (t->line != line) {
      sim_turn_to(t);
      sim_kernel_fault("divergent barrier", t->site, "at the barrier of line %d while thread 0 is at that of line %d",
                       t->line, line);
    }
    t->state = SIM_RUNNING;
  }
  B->barriers++;
}

static int count(sim_thread_state state, int first, int end) {
  int n = 0;
  for (int i = first; i < end; i++) n += B->thread[i].state == state;
  return n;
}

// Those that all have come to. False: none is such.
static bool open_barriers(void) {
  bool any = false;
  for (int rank = 0; rank < B->n_ranks; rank++) {
    int first = rank * B->block_threads, end = first + B->block_threads;
    if (count(SIM_AT_BARRIER, first, end) < B->block_threads) continue;
    open_barrier(first, end);
    B->rank_epoch[rank] = sim_epoch_of(B->barriers, rank);
    any = true;
  }
  if (count(SIM_AT_CLUSTER, 0, B->n_threads) == B->n_threads) {
    open_barrier(0, B->n_threads);
    B->cluster_barrier = B->barriers;
    for (int rank = 0; rank < B->n_ranks; rank++) B->rank_epoch[rank] = sim_epoch_of(B->barriers, rank);
    any = true;
  }
  B->epoch = B->barriers;  // of a block alone
  return any;
}

// Blocks from this one on, as many as run together.
static void run_blocks(int block) {
  B->block = B->first_block = block;
  B->stamp++;
  B->epoch = B->barriers = B->cluster_barrier = 1;
  for (int i = 0; i < B->n_threads; i++) {
    sim_thread *t = &B->thread[i];
    t->rank = i / B->block_threads, t->id = i % B->block_threads;
    fiber_init(t);
    t->warp = t->id / sim_option.warp;
    t->lane = t->id % sim_option.warp;
    t->of_warp = &B->warp[i / sim_option.warp];
  }
  for (int rank = 0; rank < B->n_ranks; rank++)
    B->n_done[rank] = 0, B->rank_epoch[rank] = sim_epoch_of(B->barriers, rank);
  sim_check_begin(B->launch->shared);
  for (;;) {
    int first = (int)sim_random((uint32_t)B->n_warps);
    for (int w = 0; w < B->n_warps && !B->error; w++) run_warp((first + w) % B->n_warps);
    if (B->error || count(SIM_DONE, 0, B->n_threads) == B->n_threads) return;
    bool opened = open_barriers();
    if (!sim_open_gates() && !opened) tell_divergence();
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
  if (!sim_check_setup()) return SIM_MEMORY;
  if (!sim_alive(l->kernel, SIM_KERNEL)) {
    sim_fault(21, "a launch runs after its module was unloaded");
    return SIM_ILLEGAL_ADDRESS;
  }
  if (B->stamp > UINT32_MAX / 2) B->stamp = 0;
  B->device = d;
  B->own_memory = (uintptr_t)sim_memory + (size_t)d->index * sim_option.memory_bytes;
  B->launch = l;
  B->n_ranks = l->kernel->cluster;
  B->block_threads = (int)(l->block[0] * l->block[1] * l->block[2]);
  B->n_threads = B->block_threads * B->n_ranks;
  if (!stacks_init(B->n_threads)) return SIM_MEMORY;
  B->n_warps = (B->n_threads + sim_option.warp - 1) / sim_option.warp;
  B->n_blocks = (int)(l->grid[0] * l->grid[1] * l->grid[2]);
  B->first_stamp = B->stamp + 1;
  B->error = SIM_OK;
  B->now = NULL;
  B->shared = B->all_shared, B->shared_state = B->all_state, B->shared_cell = B->all_cell;
  if (B->block_threads != l->kernel->threads) {
    sim_kernel_fault("launch", NULL, "with %d threads a block, but it is written for %d", B->block_threads,
                     l->kernel->threads);
  }
  if (B->n_ranks > 1 && B->block_threads % sim_option.warp) {
    sim_kernel_fault("launch", NULL, "blocks of a cluster have %d threads, which are not whole warps",
                     B->block_threads);
    return SIM_LAUNCH_FAILED;
  }
  int n_runs = B->n_blocks / B->n_ranks, step = (int)sim_random((uint32_t)n_runs) + 1,
      at = (int)sim_random((uint32_t)n_runs);
  while (gcd(step, n_runs) != 1) step++;
  for (int i = 0; i < n_runs && !B->error; i++) {
    run_blocks(at * B->n_ranks);
    at = (int)(((int64_t)at + step) % n_runs);
  }
  B->now = NULL;
  return B->error;
}
