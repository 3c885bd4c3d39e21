// Selects between a generated kernel and a library, once, by timing both on the device. The winner
// and the library's algorithm are cached.
//
// A cached algorithm is requested from the library again. If the library refuses it, or the entry
// is malformed, both are timed again.
// In: a key, and callbacks that make and time the calls. Out: whether the library won, and its
// call.
// Threads: thread-safe.
#pragma once

#include "device/gpu.h"
#include "lowering/autotune/tuning_cache.h"

// Times of the generated kernel and of the library's fastest algorithm, each with all that it needs
// besides.
typedef struct tc_library_gemm_times {
  uint64_t generated_ns, library_ns;
  tc_gpu_algorithm algorithm;
  int n_timed;
} tc_library_gemm_times;

typedef struct tc_library_selection {
  tc_gpu *gpu;
  const tc_gpu_work *work;
  tc_tuning_db db;
  char key[TC_TUNING_KEY];
  // false: no memory, or nothing could be timed
  bool (*measure)(void *arg, tc_library_gemm_times *out);
  void *arg;
} tc_library_selection;

// The tuning database of a library. what: names the work in its first line, beside the device's
// architecture, driver and compiler.
tc_tuning_db tc_library_db(tc_gpu *g, tc_device d, tc_gpu_library library, const char *what);
// Looks the key up, or measures and stores. True: the library won, and *out is a new reference.
bool tc_library_select_run(tc_library_selection *c, tc_gpu_call **out);
// Makes the call of the library's first choice; of a convolution's choices, of the first that it
// accepts. False: it does not answer, or refuses.
bool tc_library_make_first(tc_gpu *g, const tc_gpu_work *work, tc_gpu_call **out);
// Bytes that a replayed graph copies for the library because their addresses differ in each run.
// moves: as tc_gpu_work_bytes counts addresses.
size_t tc_library_copied_bytes(const tc_gpu_work *work, const bool moves[4]);

// How a library is chosen for some work: never, by its first choice, or by timing its algorithms.
typedef enum tc_library_gemm_way {
  TC_LIBRARY_GEMM_NEVER,
  TC_LIBRARY_GEMM_FIRST,
  TC_LIBRARY_GEMM_TIMED
} tc_library_gemm_way;
// Decides by the options, by the expected gain, and by whether the library exists, which is logged
// once. steps: multiply-adds.
// The library is not opened for work without expected gain. The rule never selects a library whose
// algorithms must be timed.
tc_library_gemm_way tc_library_gemm_ask(tc_gpu *g, tc_gpu_library library, double steps, double gain_ns);
// ---- a roofline, where nothing is measured (roofline.c) ----

// The nanoseconds saved. work: operations. bytes: memory traffic that only the library needs.
// That traffic is kernels before or after it, and a replayed graph's copies of operands whose
// address differs in each run.
double tc_library_gemm_gain_ns(const tc_gpu_facts *g, tc_type type, double work, double bytes);
// Whether a library may compute sums of k products. The order in which it adds is unknown.
// Where a generated kernel adds more than one chain (lowering/tiling/summation.h), a library's f32
// sum may be less accurate. Only the option `always` allows that.
// 16-bit types are rounded by more than that.
bool tc_library_gemm_may_sum(tc_type type, int64_t k);

// ---- timing ----

#define TC_LIBRARY_MOST_TIMED 8  // algorithms

// The algorithms that the library recommends, at most TC_LIBRARY_MOST_TIMED. Returns their number.
int tc_library_list(tc_gpu *g, const tc_gpu_work *work, tc_gpu_algorithm *out);
// Times n algorithms, and fills in the fastest. time: the nanoseconds of a call; 0: it failed, or
// does not repeat its results. beside_ns: what the library needs besides. False: none was timed.
bool tc_library_time_all(tc_gpu *g, const tc_gpu_work *work, const tc_gpu_algorithm *a, int n,
                         uint64_t (*time)(void *arg, tc_gpu_call *call), void *arg, uint64_t beside_ns,
                         tc_library_gemm_times *out);

// Fills memory with random floats of magnitude one, since the device's power and clock depend on
// the values. Other types get zeros, which are valid indices and flags.
tc_status tc_library_gemm_fill(tc_gpu *g, tc_type type, void *at, size_t bytes);
// The nanoseconds of one call of run, which enqueues work. 0: it failed.
uint64_t tc_library_gemm_time(tc_gpu *g, tc_status (*run)(void *arg), void *arg);
// Whether repeated runs leave the same bits in the result, or in its first megabytes.
bool tc_library_gemm_repeats(tc_gpu *g, tc_status (*run)(void *arg), void *arg, const void *result, size_t bytes);
// The nanoseconds of a copy of `bytes` bytes: a kernel that reads and writes as much. 0: no memory.
uint64_t tc_library_gemm_time_copy(tc_gpu *g, const void *from, size_t bytes);
