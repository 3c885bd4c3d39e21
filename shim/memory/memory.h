// Memory that the shim gave, and what becomes of a touch: the interface of libtc-shim-memory.so.
// libtc-shim.so knows these names weakly; where that library is not preloaded they are NULL.
// Whoever records work over blocks guards them: READ while their contents are an operand, HIDDEN
// while they wait for a result. A touch that a guard forbids calls the keeper, under the lock,
// before it goes on.
// Threads: everything but tc_shim_block_find and the counts wants the lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_SHIM_SHARED __attribute__((visibility("default"), weak))

typedef enum tc_shim_guard { TC_GUARD_NONE, TC_GUARD_READ, TC_GUARD_HIDDEN } tc_shim_guard;

// A block of malloc's from TC_BLOCK_BYTES: pages of its own, aligned to 2 MiB, which no other block
// shares.
// Its record lies elsewhere and is never unmapped, so that a handler may look at it at any time.
typedef struct tc_shim_block {
  char *base;
  size_t asked, bytes;  // what the program wanted; what is mapped
  uint8_t guard;  // atomic; written under the lock
  bool is_library;  // taken by libtc, inside a call of the shim's
  bool is_foreign;  // the program has protected, mapped or unmapped pages of it: never guarded
  void *value;  // the keeper's; NULL: nothing is known of the contents
  struct tc_shim_block *next;  // of free records
} tc_shim_block;

enum { TC_BLOCK_BYTES = 256 << 10, TC_HUGE_BYTES = 2 << 20 };

// Who guards blocks. All but may_run are called under the lock, on a stack with room. Signals are
// blocked, and the thread is not cancelled.
typedef struct tc_shim_keeper {
  void (*touch)(tc_shim_block *block, bool is_write);  // afterwards the block has no guard, or READ if it was read
  void (*settle)(void);  // afterwards no block has a guard
  void (*drop)(tc_shim_block *block);  // the block is about to be freed
  bool (*may_run)(void);  // false: this thread is in a call of libtc's; without the lock
} tc_shim_keeper;

// Handlers are installed and the keeper is called from now on. False, with a reason, where the
// system lacks what is needed.
TC_SHIM_SHARED bool tc_shim_memory_start(const tc_shim_keeper *keeper, const char **out_why);

// The block that holds an address; NULL: none. No lock, no system call.
TC_SHIM_SHARED tc_shim_block *tc_shim_block_find(const void *address);

// Blocks signals and takes the lock. False where nothing can be guarded: this thread has the lock,
// or blocks SIGSEGV or SIGSYS, or the process forks.
TC_SHIM_SHARED bool tc_shim_memory_lock(void);
TC_SHIM_SHARED void tc_shim_memory_unlock(void);

// Blocks with a guard; may be read without the lock as a hint.
TC_SHIM_SHARED int tc_shim_memory_guarded(void);
// Touches that the keeper was called for, by faults and by system calls.
TC_SHIM_SHARED uint64_t tc_shim_memory_touches(void);

// Whether the program limits its memory (ulimit -v or -d), so that a result which waits might find
// none.
TC_SHIM_SHARED bool tc_shim_memory_is_limited(void);

// Whether this process is the child of the one that began to guard.
TC_SHIM_SHARED bool tc_shim_memory_is_forked(void);

// Sets a guard. From then on system calls of this thread are looked at, too.
TC_SHIM_SHARED bool tc_shim_block_guard(tc_shim_block *block, tc_shim_guard guard);

// Moves a hidden block's contents elsewhere, where they can be read; NULL: not possible. The block
// stays hidden.
TC_SHIM_SHARED void *tc_shim_block_detach(tc_shim_block *block);
// Gives such memory up. A hidden block gets the pages back, not what they hold; NULL: nobody does.
TC_SHIM_SHARED void tc_shim_pages_release(void *pages, size_t bytes, tc_shim_block *block);

// Replaces a hidden block's contents at once and takes its guard. from: asked bytes. swaps: from is
// the start of a block of libtc's that nobody reads again; its pages are exchanged for the block's.
TC_SHIM_SHARED bool tc_shim_block_land(tc_shim_block *block, void *from, bool swaps);
