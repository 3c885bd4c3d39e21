// Looks at every access of a kernel: is the memory there, aligned, written, and does no other
// thread write it without an order between the two. The calls come from run_code.c, or from the
// compiler (-fsanitize=thread), which knows these names.
//
// Order. For every four bytes a cell keeps who wrote and who read them last: threads `lo` to `hi`
// of one warp, or of several. Two accesses have an order if a barrier of the block lies between
// them (another epoch), or if they are of one warp and a TC_SYNC_WARP of both threads lies between
// them (its clock). Blocks have none, but those of a cluster by its barrier. Where threads touched
// different bytes of four (`mixed`), what cannot be told is not: a mistake may be missed, none is
// invented.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/sim/run.h"

#define B (&sim_run_block)

// A side of a cell, writer or reader:
enum {
  LO = 0,  // 6 bits: lanes
  HI = 6,  // 6 bits
  WARP = 12,  // 5 bits
  SEVERAL = 17,  // of several warps
  MIXED = 18,
  ATOMIC = 19,
  ONLY = 20,  // read by a read-only load
  MASK = 21,  // 4 bits: which bytes
  OLD = 25,  // 4 bits: which bytes blocks that ran before in this launch touched
  OLD_ATOMIC = 29,
  OLD_ONLY = 30,
};
enum { SHARED = 1 << 16 };  // with the kind of an access: of shared memory
#define FIELD(side, at, bits) ((side) >> (at) & ((1u << (bits)) - 1))

void *sim_pages(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

bool sim_check_setup(void) {
  if (B->cell) return true;
  size_t shared_bytes = (size_t)SIM_SHARED_STRIDE * SIM_MAX_CLUSTER;
  sim_cell *cells = sim_pages(sim_memory_size / 4 * sizeof *cells);
  B->all_shared = sim_pages(shared_bytes), B->all_state = sim_pages(shared_bytes);
  B->all_cell = sim_pages(shared_bytes / 4 * sizeof *B->all_cell);
  if (!cells || !B->all_shared || !B->all_state || !B->all_cell) return false;
  B->cell = cells;
  return true;
}

// The cells need no clearing: the stamp tells that they are of another block.
void sim_check_begin(unsigned shared_bytes) {
  for (int rank = 0; rank < B->n_ranks; rank++)
    memset(B->all_state + (size_t)rank * SIM_SHARED_STRIDE, SIM_UNWRITTEN, shared_bytes);
  for (int w = 0; w < B->n_warps; w++) {
    sim_warp *p = &B->warp[w];
    p->clock = p->full = 0;
    if (p->pairs) memset(p->last, 0, sizeof p->last);
    p->pairs = false;
  }
}

bool sim_is_shared(uintptr_t at, unsigned bytes) {
  size_t o = at - (uintptr_t)B->shared;
  return o < B->launch->shared && o + bytes <= B->launch->shared;
}

// ---- order ----

// Was all that this side says done before what the running thread does now?
static bool ordered(uint32_t side, uint16_t epoch, uint16_t clock) {
  const sim_thread *t = B->now;
  if (B->n_ranks > 1 && sim_epoch_rank(epoch) != t->rank) return epoch / SIM_MAX_CLUSTER < B->cluster_barrier;
  if (epoch != B->epoch) return true;
  bool mixed = side >> MIXED & 1;
  if (side >> SEVERAL & 1) return mixed;
  uint32_t lo = FIELD(side, LO, 6), hi = FIELD(side, HI, 6), lane = (uint32_t)t->lane;
  if (FIELD(side, WARP, 5) != (uint32_t)t->warp) return false;
  if (lo == lane && hi == lane) return true;
  if (mixed && lane >= lo && lane <= hi) return true;
  const sim_warp *w = t->of_warp;
  if (w->full > clock) return true;
  for (uint32_t l = lo; l <= hi; l++) {
    if (l != lane && !(w->pairs && w->last[lane][l] > clock)) return false;
  }
  return true;
}

static uint32_t my_side(uint32_t mask, unsigned kind) {
  const sim_thread *t = B->now;
  return (uint32_t)t->lane << LO | (uint32_t)t->lane << HI | (uint32_t)t->warp << WARP | mask << MASK |
         (kind & SIM_ATOMIC ? 1u << ATOMIC : 0) | (kind & SIM_READ_ONLY ? 1u << ONLY : 0);
}

// The side with this access joined to it.
static uint32_t joined(uint32_t side, bool newer, uint32_t mask, unsigned kind) {
  uint32_t mine = my_side(mask, kind), old = side >> OLD << OLD, had = FIELD(side, MASK, 4);
  if (!had || newer) return old | mine;
  uint32_t lo = FIELD(side, LO, 6), hi = FIELD(side, HI, 6), lane = (uint32_t)B->now->lane;
  bool alone = lo == lane && hi == lane,
       same_warp = FIELD(side, WARP, 5) == (uint32_t)B->now->warp && !(side >> SEVERAL & 1);
  uint32_t keep = side & (1u << SEVERAL | 1u << MIXED | 1u << ONLY), atomic = side & mine & 1u << ATOMIC;
  if (!same_warp) keep |= 1u << SEVERAL;
  if (had != mask && !(same_warp && alone)) keep |= 1u << MIXED;
  if (same_warp && lane < lo) lo = lane;
  if (same_warp && lane > hi) hi = lane;
  return old | keep | atomic | (mine & 1u << ONLY) | lo << LO | hi << HI | FIELD(side, WARP, 5) << WARP |
         (had | mask) << MASK;
}

// What a block did that ran before in this launch.
static uint32_t aged(uint32_t side) {
  uint32_t had = FIELD(side, MASK, 4), old = FIELD(side, OLD, 4);
  uint32_t atomic = side >> ATOMIC & 1, old_atomic = side >> OLD_ATOMIC & 1;
  bool all_atomic = (!had || atomic) && (!old || old_atomic);
  bool only = (side >> ONLY & 1) || (side >> OLD_ONLY & 1);
  return (had | old) << OLD | (uint32_t)all_atomic << OLD_ATOMIC | (uint32_t)only << OLD_ONLY;
}

// A cell that nobody of this launch wrote and threads of this warp read since the last barrier and
// sync: one reader more, as check_known_cell has it. False: it is another case.
static inline bool joins_readers(sim_cell *c, uint32_t mine) {
  enum { SAME = 31u << WARP | 1u << SEVERAL | 1u << MIXED | 1u << ATOMIC | 1u << ONLY | 15u << MASK };
  const sim_warp *w = B->now->of_warp;
  uint32_t lane = FIELD(mine, LO, 6), lo = FIELD(c->reader, LO, 6), hi = FIELD(c->reader, HI, 6);
  if (c->reader_epoch != B->epoch || B->n_ranks > 1 || ((c->reader ^ mine) & SAME) || (lo == lane && hi == lane) ||
      w->pairs || w->full > c->reader_clock)
    return false;
  if (lane < lo) lo = lane;
  if (lane > hi) hi = lane;
  c->reader = (c->reader & ~(63u << LO | 63u << HI)) | lo << LO | hi << HI;
  c->reader_clock = w->clock;
  return true;
}

// A cell that this block, or another of the launch, touched before.
static __attribute__((noinline)) const char *check_known_cell(sim_cell *c, uint32_t mask, unsigned kind) {
  if (c->stamp != B->stamp) {
    c->writer = aged(c->writer);
    c->reader = aged(c->reader);
    c->stamp = B->stamp;
  }
  bool write = kind & (SIM_WRITE | SIM_ATOMIC), atomic = kind & SIM_ATOMIC;
  const char *what = NULL;
  uint32_t writers = FIELD(c->writer, MASK, 4), readers = FIELD(c->reader, MASK, 4), written = writers & mask,
           read = readers & mask;
  if ((FIELD(c->writer, OLD, 4) & mask) && !(atomic && (c->writer >> OLD_ATOMIC & 1))) what = "race between blocks";
  if (write && (FIELD(c->reader, OLD, 4) & mask)) what = "race between blocks";
  bool unordered_write =
      written && !(atomic && (c->writer >> ATOMIC & 1)) && !ordered(c->writer, c->writer_epoch, c->writer_clock);
  bool unordered_read = write && read && !ordered(c->reader, c->reader_epoch, c->reader_clock);
  if (unordered_write || unordered_read) what = "race between threads";
  if ((kind & SIM_READ_ONLY) && written) what = "read-only load of what this kernel writes";
  if (write &&
      ((read && (c->reader >> ONLY & 1)) || ((FIELD(c->reader, OLD, 4) & mask) && (c->reader >> OLD_ONLY & 1)))) {
    what = "read-only load of what this kernel writes";
  }
  uint16_t clock = B->now->of_warp->clock;
  if (write) {
    bool newer = c->writer_epoch != B->epoch || (written == writers && !atomic && !unordered_write);
    c->writer = joined(c->writer, newer, mask, kind);
    c->writer_epoch = B->epoch;
    c->writer_clock = clock;
  } else {
    // Reads that come before this one in order need not be kept: what comes after this one comes
    // after them.
    bool after =
        !(c->reader >> MIXED & 1) && !(readers & ~mask) && ordered(c->reader, c->reader_epoch, c->reader_clock);
    c->reader = joined(c->reader, c->reader_epoch != B->epoch || (after && !(c->reader >> ONLY & 1)), mask, kind);
    c->reader_epoch = B->epoch;
    c->reader_clock = clock;
  }
  return what;
}

// What is wrong, or NULL. Most cells are met for the first time, or only read.
static inline const char *check_cell(sim_cell *c, uint32_t mask, unsigned kind) {
  bool write = kind & (SIM_WRITE | SIM_ATOMIC);
  uint32_t mine = my_side(mask, kind);
  uint16_t clock = B->now->of_warp->clock;
  if (c->stamp != B->stamp && (c->stamp < B->first_stamp || (kind & SHARED))) {  // each block has its own shared memory
    *c = (sim_cell){B->stamp, write ? mine : 0, write ? 0 : mine, B->epoch, clock, B->epoch, clock};
    return NULL;
  }
  if (c->stamp == B->stamp && B->n_ranks == 1 && (c->writer == mine || c->writer == 0) &&
      (c->reader == mine || c->reader == 0)) {  // this thread's alone
    if (write) {
      c->writer = mine, c->writer_epoch = B->epoch, c->writer_clock = clock;
    } else {
      c->reader = mine, c->reader_epoch = B->epoch, c->reader_clock = clock;
    }
    // A read-only load differs in `mine` from what others of this thread leave, so the two never
    // meet here.
    return NULL;
  }
  if (!write && c->writer == 0) {  // nobody of this launch wrote it
    if (c->stamp != B->stamp) {
      *c = (sim_cell){B->stamp, 0, aged(c->reader) | mine, 0, 0, B->epoch, clock};
      return NULL;
    }
    if (c->reader_epoch == B->epoch && (c->reader >> SEVERAL & 1) && !(kind & SIM_READ_ONLY) &&
        !(mask & ~FIELD(c->reader, MASK, 4)))
      return NULL;
    if (joins_readers(c, mine)) return NULL;
  }
  return check_known_cell(c, mask, kind);
}

// ---- accesses ----

static const char *verb(unsigned kind) {
  return kind & SIM_ATOMIC ? "updates" : kind & SIM_WRITE ? "writes" : "reads";
}

static void check_state(uint8_t *state, uintptr_t at, unsigned bytes, unsigned kind, const void *site,
                        const char *where) {
  for (unsigned i = 0; i < bytes; i++) {
    if (state[i] == SIM_NOTHING || state[i] == SIM_GONE) {
      sim_kernel_fault(state[i] == SIM_GONE ? "use after free" : "out of bounds", site, "%s %u bytes of %s at %p",
                       verb(kind), bytes, where, (void *)at);
      sim_kill(SIM_ILLEGAL_ADDRESS);
    }
    if (state[i] == SIM_COPYING && !(kind & SIM_ISSUE)) {
      sim_kernel_fault("unfinished copy", site, "%s %u bytes of %s that an asynchronous copy has not written yet",
                       verb(kind), bytes, where);
    } else if (state[i] == SIM_UNWRITTEN && !(kind & SIM_WRITE)) {
      sim_kernel_fault("unwritten", site, "%s %u bytes of %s at %p that nobody wrote", verb(kind), bytes, where,
                       (void *)at);
    }
    if (kind & SIM_WRITE || state[i] != SIM_WRITTEN) state[i] = SIM_WRITTEN;  // told once
  }
}

static inline bool all_written(const uint8_t *state, unsigned bytes) {
  static const uint8_t want[16] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  switch (bytes) {  // sizes that the compiler knows are compared without a call
    case 1: return *state == SIM_WRITTEN;
    case 2: return memcmp(state, want, 2) == 0;
    case 4: return memcmp(state, want, 4) == 0;
    case 8: return memcmp(state, want, 8) == 0;
    case 16: return memcmp(state, want, 16) == 0;
    default: break;
  }
  for (unsigned i = 0; i < bytes; i++) {
    if (state[i] != SIM_WRITTEN) return false;
  }
  return true;
}

// Memory of another block of the cluster, which is there as long as the block.
static __attribute__((noinline)) bool is_of_cluster(uintptr_t at, unsigned bytes, const void *site,
                                                    size_t *out_offset) {
  size_t o = at - (uintptr_t)B->all_shared, rank = o / SIM_SHARED_STRIDE, inside = o % SIM_SHARED_STRIDE;
  if (rank >= (size_t)B->n_ranks || inside + bytes > B->launch->shared) return false;
  *out_offset = o;
  if (B->n_done[rank] < B->block_threads) return true;
  sim_kernel_fault("use after the end", site, "%u bytes of the memory of block %d, which has ended", bytes,
                   B->first_block + (int)rank);
  sim_kill(SIM_ILLEGAL_ADDRESS);
}

// Memory that is not a device's: the thread's own, its parameters, constants beside the code.
static bool is_own(uintptr_t at, unsigned bytes, unsigned kind) {
  const sim_launch *l = B->launch;
  const sim_module *m = l->kernel->module;
  if (kind & SIM_WRITE) return false;
  return at - (uintptr_t)l->params + bytes <= (size_t)l->kernel->param_bytes ||
         at - (uintptr_t)m->code + bytes <= m->code_bytes;
}

// Bytes that are no memory of the device: the thread's own, or the launch ends.
static __attribute__((noinline)) void refuse(uintptr_t at, unsigned bytes, unsigned kind, const void *site) {
  if (is_own(at, bytes, kind)) return;
  size_t o = at - (uintptr_t)B->shared;
  const sim_device *owner = sim_memory_device(at);
  if (o < SIM_MAX_SHARED) {
    sim_kernel_fault("out of bounds", site, "%s %u bytes of shared memory at offset %zu of %u", verb(kind), bytes, o,
                     B->launch->shared);
  } else if (owner) {
    sim_kernel_fault("out of bounds", site, "%s %u bytes of device %d's memory at %p", verb(kind), bytes, owner->index,
                     (void *)at);
  } else {
    sim_kernel_fault("out of bounds", site, "%s %u bytes at %p, which is no memory of the device", verb(kind), bytes,
                     (void *)at);
  }
  sim_kill(SIM_ILLEGAL_ADDRESS);
}

static bool reachable(uintptr_t at) {
  const sim_device *owner = sim_memory_device(at);
  return owner == B->device || B->device->peer[owner->index];
}

static __attribute__((noinline)) void tell(const char *what, uintptr_t at, unsigned bytes, unsigned kind,
                                           const void *site) {
  sim_kernel_fault(what, site, "%s %u bytes of %s memory at %p", verb(kind), bytes, kind & SHARED ? "shared" : "global",
                   (void *)at);
}

static inline __attribute__((always_inline)) void touch(uintptr_t at, unsigned bytes, unsigned kind, const void *site) {
  if (at - (uintptr_t)B->now->stack < SIM_STACK_BYTES) return;
  uint8_t *state;
  sim_cell *cell;
  size_t o = at - (uintptr_t)B->shared;
  if (o < B->launch->shared && o + bytes <= B->launch->shared) {
    state = B->shared_state + o, cell = B->shared_cell + o / 4;
    kind |= SHARED;
  } else if ((o = at - (uintptr_t)sim_memory) < sim_memory_size && o + bytes <= sim_memory_size &&
             (at - B->own_memory < sim_option.memory_bytes || reachable(at))) {
    state = sim_state + o, cell = B->cell + o / 4;
  } else if (B->n_ranks > 1 && is_of_cluster(at, bytes, site, &o)) {
    state = B->all_state + o, cell = B->all_cell + o / 4;
    kind |= SHARED;
  } else {
    refuse(at, bytes, kind, site);
    return;
  }
  if (at % bytes && !(kind & SIM_ANY_ALIGNMENT)) {
    tell("misaligned", at, bytes, kind, site);
    sim_kill(SIM_MISALIGNED);
  }
  if (!all_written(state, bytes))
    check_state(state, at, bytes, kind, site, kind & SHARED ? "shared memory" : "global memory");
  size_t first = o % 4;
  for (unsigned done = 0; done < bytes; cell++) {
    unsigned n = (unsigned)(4 - first) < bytes - done ? (unsigned)(4 - first) : bytes - done;
    const char *what = check_cell(cell, ((1u << n) - 1) << first, kind);
    if (what) tell(what, at, bytes, kind, site);
    done += n;
    first = 0;
  }
}

void sim_touch(uintptr_t at, unsigned bytes, unsigned kind, const void *site) {
  touch(at, bytes, kind, site);
}

// ---- what the compiler calls ----

#define SITE __builtin_return_address(0)
#define HOOK(n) \
  static void read##n(void *p) { \
    touch((uintptr_t)p, n, SIM_READ, SITE); \
  } \
  static void write##n(void *p) { \
    touch((uintptr_t)p, n, SIM_WRITE, SITE); \
  } \
  static void unaligned_read##n(void *p) { \
    touch((uintptr_t)p, n, SIM_READ | SIM_ANY_ALIGNMENT, SITE); \
  } \
  static void unaligned_write##n(void *p) { \
    touch((uintptr_t)p, n, SIM_WRITE | SIM_ANY_ALIGNMENT, SITE); \
  }
HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)

static void *checked_memcpy(void *to, const void *from, size_t bytes) {
  if (bytes) sim_touch((uintptr_t)from, (unsigned)bytes, SIM_READ | SIM_ANY_ALIGNMENT, SITE);
  if (bytes) sim_touch((uintptr_t)to, (unsigned)bytes, SIM_WRITE | SIM_ANY_ALIGNMENT, SITE);
  return memmove(to, from, bytes);
}

static void *checked_memset(void *to, int value, size_t bytes) {
  if (bytes) sim_touch((uintptr_t)to, (unsigned)bytes, SIM_WRITE | SIM_ANY_ALIGNMENT, SITE);
  return memset(to, value, bytes);
}

static void nothing(void) {}

void *sim_hook(const char *name) {
  static const struct hook {
    const char *name;
    void *at;
  } table[] = {
#define ROWS(n) \
  {"__tsan_read" #n, (void *)read##n}, {"__tsan_write" #n, (void *)write##n}, \
      {"__tsan_unaligned_read" #n, (void *)unaligned_read##n}, { \
    "__tsan_unaligned_write" #n, (void *)unaligned_write##n \
  }
      ROWS(1),
      ROWS(2),
      ROWS(4),
      ROWS(8),
      ROWS(16),
      {"__tsan_init", (void *)nothing},
      {"__tsan_func_entry", (void *)nothing},
      {"__tsan_func_exit", (void *)nothing},
      {"memcpy", (void *)checked_memcpy},
      {"memmove", (void *)checked_memcpy},
      {"memset", (void *)checked_memset},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, name) == 0) return table[i].at;
  }
  return NULL;
}
