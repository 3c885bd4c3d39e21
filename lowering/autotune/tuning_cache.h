// Caches measured choices under text keys: in memory, and in a file for later processes.
//
// A database is one file in TC_CACHE_DIR, products-<hash>.txt for the CPU's matmuls. There is one
// for each machine, compiler and library version, which its first line names.
// Each further line is one choice. A file with another first line, a malformed line, and a file
// that cannot be read or written are skipped and logged.
// A choice is made once in a process. Choices that other processes wrote meanwhile under other keys
// are taken over.
// Threads: thread-safe.
#pragma once

#include <tc/tc.h>

#include "lowering/tiling/gemm.h"

#define TC_TUNING_KEY 256  // most bytes of a key with the final zero: words, digits and spaces
#define TC_TUNING_VALUE 256

typedef struct tc_tuning_db {
  const char *stem;  // prefix of the file's name
  char head[1024];  // what all its choices depend on beside their keys: one line
  bool (*valid)(const char *value);  // whether a value read from the file is well-formed
} tc_tuning_db;

// Looks a choice up. The first call reads the file.
bool tc_tuning_db_find(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE]);
// Stores the value, in the file too, over a value that was read from it. If another thread stored
// one first, value becomes that.
void tc_tuning_db_put(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE], int n_timed);

// The CPU's matmul tilings. A value that is found may be any numbers: tc_tiling_choose checks that
// they are a tiling.
bool tc_tuning_cache_find(const char *key, tc_gemm_tiling *tiling);
void tc_tuning_cache_put(const char *key, tc_gemm_tiling *tiling, int n_timed);
// Drops all choices; they are read again on demand.
void tc_tuning_cache_clear(void);
// Adds its counters.
void tc_tuning_cache_stats(tc_cache_info *info);
