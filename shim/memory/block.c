// A mapping a block, aligned to 2 MiB, and a table of two levels from an address to its block.
// In: sizes. Out: zeroed memory, or NULL where the system would refuse the C library, too.
// Invariants: no two blocks share 2 MiB, so that an entry of the table has one block; records are
// never unmapped. At any point of a change the other blocks are found, and no record is both spare
// and used. So a child that is forked there lacks at most what was being taken or given.
// Threads: take and give have a lock of their own; find has none, and runs in handlers.
#include "shim/memory/block.h"

#include "shim/memory/process.h"
#include "shim/memory/raw.h"
#include "shim/memory/thread.h"

// A mapping each, of 65,530 that Linux gives a process by default. What else needs some goes on.
enum { MOST_BLOCKS = 30000 };

// Of addresses of 47 bits, 21 are inside an entry.
enum { SHIFT = 21, LEAF_BITS = 13, LEAVES = 1 << LEAF_BITS };

typedef tc_shim_block *leaf[LEAVES];

static leaf *root[LEAVES];
static tc_shim_block *spare;  // free records
static int n_blocks;  // atomic; written under the lock
static uint64_t mask;  // of signals of the thread that has the lock, before

// A short lock: threads give way to each other. No handler comes meanwhile, since one that touches
// a guarded block makes libtc allocate.
static void blocks_lock(void) {
  uint64_t before = tc_raw_block_signals();
  while (__atomic_exchange_n(&tc_shim_process.block_lock, 1, __ATOMIC_ACQUIRE))
    tc_shim_raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
  mask = before;
}

static void blocks_unlock(void) {
  uint64_t before = mask;
  __atomic_store_n(&tc_shim_process.block_lock, 0, __ATOMIC_RELEASE);
  tc_raw_set_signals(before);
}

tc_shim_block *tc_shim_block_find(const void *address) {
  uintptr_t at = (uintptr_t)address >> SHIFT;
  leaf *l = at < (uintptr_t)1 << 2 * LEAF_BITS ? __atomic_load_n(&root[at >> LEAF_BITS], __ATOMIC_ACQUIRE) : NULL;
  tc_shim_block *b = l ? __atomic_load_n(&(*l)[at & (LEAVES - 1)], __ATOMIC_ACQUIRE) : NULL;
  return b && (uintptr_t)address - (uintptr_t)b->base < b->bytes ? b : NULL;
}

tc_shim_block *tc_shim_block_next(uintptr_t *at, uintptr_t end) {
  while (*at < end && *at >> SHIFT < (uintptr_t)1 << 2 * LEAF_BITS) {
    bool has_leaf = __atomic_load_n(&root[*at >> (SHIFT + LEAF_BITS)], __ATOMIC_ACQUIRE) != NULL;
    tc_shim_block *b = has_leaf ? tc_shim_block_find((const void *)*at) : NULL;
    int bits = has_leaf ? SHIFT : SHIFT + LEAF_BITS;
    *at = b ? (uintptr_t)b->base + b->bytes : ((*at >> bits) + 1) << bits;
    if (b) return b;
  }
  return NULL;
}

static void *map_memory(size_t bytes) {
  long p = tc_raw_mmap(NULL, bytes, PROT_READ | PROT_WRITE, 0);
  return p < 0 && p > -4096 ? NULL : (void *)p;
}

// pre: locked. Enters a block, or NULL, for all its addresses; false: no memory for the table.
static bool enter_block(const tc_shim_block *b, tc_shim_block *entry) {
  uintptr_t first = (uintptr_t)b->base >> SHIFT, last = ((uintptr_t)b->base + b->bytes - 1) >> SHIFT;
  for (uintptr_t at = first; at <= last; at++) {
    leaf **l = &root[at >> LEAF_BITS];
    if (!*l) {
      leaf *fresh = map_memory(sizeof *fresh);
      if (!fresh) return false;
      __atomic_store_n(l, fresh, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&(**l)[at & (LEAVES - 1)], entry, __ATOMIC_RELEASE);
  }
  return true;
}

// pre: locked.
static tc_shim_block *take_record(void) {
  enum { BYTES = 64 << 10 };
  if (!spare) {
    tc_shim_block *fresh = map_memory(BYTES);
    for (size_t i = 0; fresh && i < BYTES / sizeof *fresh; i++) {
      fresh[i].next = spare;
      spare = &fresh[i];
    }
  }
  tc_shim_block *b = spare;
  if (b) spare = b->next;
  return b;
}

// pre: locked.
static void give_record(tc_shim_block *b) {
  b->next = spare;
  spare = b;
  __atomic_sub_fetch(&n_blocks, 1, __ATOMIC_RELAXED);
}

void *tc_shim_range_take(size_t bytes) {
  long p = tc_raw_mmap(NULL, bytes + TC_HUGE_BYTES, PROT_NONE, 0);
  if (p < 0 && p > -4096) return NULL;
  char *begin = (char *)p, *at = (char *)(((uintptr_t)p + TC_HUGE_BYTES - 1) & ~(uintptr_t)(TC_HUGE_BYTES - 1));
  if (at > begin) tc_raw_munmap(begin, (size_t)(at - begin));
  if (begin + TC_HUGE_BYTES > at) tc_raw_munmap(at + bytes, (size_t)(begin + TC_HUGE_BYTES - at));
  return at;
}

// Whole huge pages where they are at most an eighth more.
static size_t mapped_bytes(size_t asked) {
  size_t small = (asked + 4095) & ~(size_t)4095, huge = (asked + TC_HUGE_BYTES - 1) & ~(size_t)(TC_HUGE_BYTES - 1);
  return huge - asked <= asked / 8 ? huge : small;
}

void *tc_shim_block_take(size_t asked) {
  size_t bytes = mapped_bytes(asked);
  if (asked > PTRDIFF_MAX || !asked || !tc_shim_process_begin() ||
      __atomic_load_n(&n_blocks, __ATOMIC_RELAXED) >= MOST_BLOCKS)
    return NULL;
  char *base = tc_shim_range_take(bytes);
  if (!base) return NULL;
  if (tc_raw_mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) goto fail;
  if (bytes >= TC_HUGE_BYTES) tc_shim_raw(SYS_madvise, (long)base, (long)bytes, MADV_HUGEPAGE, 0, 0, 0);
  blocks_lock();
  tc_shim_block *b = n_blocks < MOST_BLOCKS ? take_record() : NULL;
  if (b) {
    __atomic_add_fetch(&n_blocks, 1, __ATOMIC_RELAXED);
    *b = (tc_shim_block){.base = base, .asked = asked, .bytes = bytes, .is_library = tc_shim_is_inside()};
    if (!enter_block(b, b)) {
      (void)enter_block(b, NULL);
      give_record(b);
      b = NULL;
    }
  }
  blocks_unlock();
  if (b) return base;
fail:
  tc_raw_munmap(base, bytes);
  return NULL;
}

void *tc_shim_block_resize(tc_shim_block *b, size_t asked) {
  size_t bytes = mapped_bytes(asked);
  if (asked > PTRDIFF_MAX) return NULL;
  if (bytes == b->bytes) {
    b->asked = asked;
    return b->base;
  }
  tc_shim_block moved = {.base = tc_shim_range_take(bytes), .bytes = bytes}, old = *b;
  if (!moved.base) return NULL;
  blocks_lock();
  bool done = enter_block(&moved, b);
  done = done && tc_shim_raw(SYS_mremap, (long)old.base, (long)old.bytes, (long)bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                             (long)moved.base, 0) == (long)moved.base;
  (void)enter_block(done ? &old : &moved, NULL);
  if (done) {
    b->base = moved.base;
    b->bytes = bytes;
    b->asked = asked;
  }
  blocks_unlock();
  if (!done)
    tc_raw_munmap(moved.base, bytes);
  else if (bytes >= TC_HUGE_BYTES)
    tc_shim_raw(SYS_madvise, (long)moved.base, (long)bytes, MADV_HUGEPAGE, 0, 0, 0);
  return done ? moved.base : NULL;
}

void tc_shim_block_give(tc_shim_block *b) {
  char *base = b->base;
  size_t bytes = b->bytes;
  blocks_lock();
  (void)enter_block(b, NULL);  // its table is there
  give_record(b);
  blocks_unlock();
  tc_raw_munmap(base, bytes);
}
