// 128-bit content hashes: names of keys in memory and on disk. A hit is confirmed by comparing
// bytes.
// Source: XXH3-128, whose values are stable across versions and machines. Threads: thread-safe,
// pure.
#ifndef TC_RUNTIME_HASH_H
#define TC_RUNTIME_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t lo, hi;
} tc_hash;

// With TC_TEST_HASH_COLLIDE defined every hash is the same, so that tests prove that a hit is
// confirmed.
tc_hash tc_hash_bytes(const void *data, size_t bytes);

#endif
