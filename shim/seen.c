// What calls have touched before: pages of operands as bits, and shapes as a set of hashes.
// In: ranges, hashes. Out: how much of each is new.
// Invariants: what does not fit counts as seen. Memory is taken as it is needed: 32 KiB a GiB of
// operands, and 8 MiB of addresses for shapes.
// Threads: any; without locks.
#include "shim/seen.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/find.h"

enum {
  PAGE_BITS = 12,
  CHUNK_BITS = 30,  // of addresses, a chunk
  CHUNK_WORDS = 1 << (CHUNK_BITS - PAGE_BITS - 6),
  N_CHUNKS = 1024,  // 1 TiB of operands
  N_SHAPES = 1 << 20,
};

static struct {
  uint64_t key;  // address >> CHUNK_BITS, plus 1; 0: free
  uint64_t *bits;
} chunks[N_CHUNKS];
static uint64_t *shapes;
static uint32_t n_shapes;

static uint64_t *find_chunk(uint64_t number) {
  for (uint32_t i = 0, at = (uint32_t)(number * 0x9e3779b1u) % N_CHUNKS; i < 16; i++, at = (at + 1) % N_CHUNKS) {
    uint64_t key = __atomic_load_n(&chunks[at].key, __ATOMIC_ACQUIRE);
    if (key == 0 &&
        __atomic_compare_exchange_n(&chunks[at].key, &key, number + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      __atomic_store_n(&chunks[at].bits, (uint64_t *)tc_shim_memory(CHUNK_WORDS * 8), __ATOMIC_RELEASE);
      key = number + 1;
    }
    if (key == number + 1) return __atomic_load_n(&chunks[at].bits, __ATOMIC_ACQUIRE);
  }
  return NULL;
}

// Sets bits of a word; returns how many were not set.
static uint64_t set_bits(uint64_t *word, uint64_t bits) {
  uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
  if ((old & bits) == bits) return 0;
  old = __atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
  return (uint64_t)__builtin_popcountll(bits & ~old);
}

uint64_t tc_shim_seen_bytes(const void *begin, uint64_t bytes) {
  if (bytes == 0 || bytes > 1ull << 44) return 0;
  uint64_t page = (uintptr_t)begin >> PAGE_BITS, end = (((uintptr_t)begin + bytes - 1) >> PAGE_BITS) + 1;
  uint64_t n_pages = end - page, n_new = 0;
  while (page < end) {
    uint64_t *bits = find_chunk(page >> (CHUNK_BITS - PAGE_BITS));
    uint64_t chunk_end = ((page >> (CHUNK_BITS - PAGE_BITS)) + 1) << (CHUNK_BITS - PAGE_BITS);
    if (chunk_end > end) chunk_end = end;
    while (page < chunk_end) {
      uint64_t shift = page % 64, n = chunk_end - page < 64 - shift ? chunk_end - page : 64 - shift;
      uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << shift;
      if (bits) n_new += set_bits(&bits[page / 64 % CHUNK_WORDS], mask);
      page += n;
    }
  }
  return n_new == n_pages ? bytes : n_new << PAGE_BITS < bytes ? n_new << PAGE_BITS : bytes;
}

bool tc_shim_seen_shape(uint64_t hash) {
  uint64_t *set = __atomic_load_n(&shapes, __ATOMIC_ACQUIRE), *none = NULL;
  hash |= 1;
  if (!set) {
    set = tc_shim_memory(N_SHAPES * sizeof *set);
    if (!set) return false;
    if (!__atomic_compare_exchange_n(&shapes, &none, set, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) set = none;
  }
  for (uint64_t at = hash >> 20 & (N_SHAPES - 1);; at = (at + 1) & (N_SHAPES - 1)) {
    uint64_t old = __atomic_load_n(&set[at], __ATOMIC_RELAXED);
    if (old == hash) return false;
    if (old) continue;
    if (__atomic_load_n(&n_shapes, __ATOMIC_RELAXED) > N_SHAPES / 4 * 3) return false;
    if (__atomic_compare_exchange_n(&set[at], &old, hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&n_shapes, 1, __ATOMIC_RELAXED);
      return true;
    }
    if (old == hash) return false;
  }
}

// Pages are given back, which costs less than to copy and clear them.
// Measured: a child of fork, 8 MiB of shapes: 20 ms -> 1 ms.
static void clear(void *p, size_t bytes) {
  if (madvise(p, bytes, MADV_DONTNEED) != 0) memset(p, 0, bytes);
}

void tc_shim_seen_reset(void) {
  for (int i = 0; i < N_CHUNKS; i++)
    if (chunks[i].bits) clear(chunks[i].bits, CHUNK_WORDS * 8);
  if (shapes) clear(shapes, N_SHAPES * sizeof *shapes);
  n_shapes = 0;
}
