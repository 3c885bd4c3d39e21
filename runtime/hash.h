// 128-bit content hashes, which name keys in memory and on disk.
// Invariants: a hit is confirmed by comparing bytes.
// Threads: thread-safe, pure.
// Source: XXH3-128, whose values are stable across versions and machines.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t lo, hi;
} tc_hash;

// If TC_TEST_HASH_COLLIDE is defined, every hash is the same: tests then prove that hits are
// confirmed.
tc_hash tc_hash_bytes(const void *data, size_t bytes);
