// A contest between what is generated and a vendor's library: held once, by timing both on the
// device, and kept as who won, with the library's algorithm itself.
//
// A choice that is found again is asked of the library anew, and where that refuses, or it is no
// choice, the contest is held again. Threads: thread-safe.
#ifndef TC_LOWERING_AUTOTUNE_LIBRARY_SELECT_H
#define TC_LOWERING_AUTOTUNE_LIBRARY_SELECT_H

#include "device/gpu.h"
#include "lowering/autotune/tuning_cache.h"

// Times of what is generated and of the library's fastest algorithm, with what either needs beside
// it.
typedef struct tc_library_gemm_times {
  uint64_t generated_ns, library_ns;
  tc_gpu_algorithm algorithm;
  int n_timed;
} tc_library_gemm_times;

typedef struct tc_library_selection {
  tc_tuning_db db;
  char key[TC_TUNING_KEY];
  bool (*make)(void *arg, const tc_gpu_algorithm *a, tc_gpu_call **out);  // false: the library does not
  bool (*measure)(void *arg, tc_library_gemm_times *out);  // false: there was no memory, or nothing that could be timed
  void *arg;
} tc_library_selection;

// A book of these. what: what its file is called, and what it is about. The device's sentence has
// its architecture, driver and compiler.
tc_tuning_db tc_library_db(tc_gpu *g, tc_device d, tc_gpu_library library, const char *what);
// Whether the library won; then *out is a new reference.
bool tc_library_select_run(tc_library_selection *c, tc_gpu_call **out);

// Whether a library is asked for work of so many multiply-adds, by which a rule expects so much
// gain: never, for its first choice, or for those that are timed.
typedef enum tc_library_gemm_way {
  TC_LIBRARY_GEMM_NEVER,
  TC_LIBRARY_GEMM_FIRST,
  TC_LIBRARY_GEMM_TIMED
} tc_library_gemm_way;
// By the options, the rule, and whether there is such a library, which is told once. What the
// library could not gain by, it is not opened for; one that is to be measured no rule takes.
tc_library_gemm_way tc_library_gemm_ask(tc_gpu *g, tc_gpu_library library, double steps, double gain_ns);
// Whether a library may make sums of so many products. In which order it adds cannot be told: where
// a generated kernel would add more than one chain (lowering/tiling/summation.h), a library's f32
// may lose digits that it keeps, and only the option `always` wants it. Halves are rounded by more
// than that.
bool tc_library_gemm_may_sum(tc_type type, int64_t k);

// ---- timing ----

// Random numbers of floats, of a magnitude of one: what a device draws, and with it its clock,
// depends on them; zeros of other types, which are indices and flags, too.
tc_status tc_library_gemm_fill(tc_gpu *g, tc_type type, void *at, size_t bytes);
// Of one run of what is enqueued by run; 0: it failed.
uint64_t tc_library_gemm_time(tc_gpu *g, tc_status (*run)(void *arg), void *arg);
// Whether runs of it leave the same bits in the result, or in its first megabytes.
bool tc_library_gemm_repeats(tc_gpu *g, tc_status (*run)(void *arg), void *arg, const void *result, size_t bytes);
// Of a kernel that would read so many bytes and write as many: a copy. 0: without memory.
uint64_t tc_library_gemm_time_copy(tc_gpu *g, const void *from, size_t bytes);

#endif
