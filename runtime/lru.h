// Entries of a cache by a hash, of which those that were not used for longest go first. What is
// kept begins with its entry.
// Threads: thread-compatible, but for `used`: the lock, the clock and what makes a key equal are
// the owner's. Owns no entry.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TC_LRU_BUCKETS 2048

typedef struct tc_lru_entry {
  struct tc_lru_entry *next;  // in its bucket, or in a list of those that were taken out
  _Atomic uint64_t used;      // the owner's clock at the last use
  size_t bytes;
  _Atomic bool pinned;  // true: it is not evicted
} tc_lru_entry;

typedef struct tc_lru {
  tc_lru_entry *bucket[TC_LRU_BUCKETS];
  size_t n, bytes;
} tc_lru;

// The first of those with the hash, among others: NULL, there is none.
static inline tc_lru_entry *tc_lru_first(const tc_lru *l, uint64_t hash) {
  return l->bucket[hash % TC_LRU_BUCKETS];
}
void tc_lru_add(tc_lru *l, tc_lru_entry *e, uint64_t hash);
// Takes out entries that are not pinned until there are at most so many, of at most so many bytes
// but for the last one. A list of them, the latest taken first.
tc_lru_entry *tc_lru_evict(tc_lru *l, size_t most, size_t most_bytes);
tc_lru_entry *tc_lru_take_all(tc_lru *l);
