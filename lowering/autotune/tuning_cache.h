// Choices that measurement made, by the text of what they were made for: in memory, and in a file
// for the processes to come.
//
// A book of choices is a file in TC_CACHE_DIR, products-<hash>.txt for the processor's, one for
// each machine, compiler and version of the library, which its first line names; then a line a
// choice. A file with another first line, a line that is not one, and a file that cannot be read or
// written are passed over, with a line in the log. A choice is made once in a process; what another
// process wrote meanwhile about other products is taken over. Threads: thread-safe.
#ifndef TC_LOWERING_AUTOTUNE_TUNING_CACHE_H
#define TC_LOWERING_AUTOTUNE_TUNING_CACHE_H

#include <tc/tc.h>

#include "lowering/tiling/gemm.h"

#define TC_TUNING_KEY 256  // bytes of a key at most, with the final zero: words, digits and spaces
#define TC_TUNING_VALUE 256

typedef struct tc_tuning_db {
  const char *stem;  // of the file's name
  char head[1024];  // what its choices hold for beside their keys: one line
  bool (*valid)(const char *value);  // of a line in the file
} tc_tuning_db;

// Whether there is one; the first call reads the file.
bool tc_tuning_db_find(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE]);
// Keeps the value, in the file too, in the place of what was read from it. If another thread kept
// one meanwhile, it becomes that.
void tc_tuning_db_put(const tc_tuning_db *db, const char *key, char value[TC_TUNING_VALUE], int n_timed);

// The processor's cuts of products. What is found may be any numbers: tc_tiling_choose says whether
// they are a cut.
bool tc_tuning_cache_find(const char *key, tc_gemm_tiling *tiling);
void tc_tuning_cache_put(const char *key, tc_gemm_tiling *tiling, int n_timed);
// Forgets all, to be read again.
void tc_tuning_cache_clear(void);
// Adds its counters.
void tc_tuning_cache_stats(tc_cache_info *info);

#endif
