// A GPU as the layers above see it: memory, code and sequences of launches, the same for CUDA and
// HIP.
//
// Invariants: all that writes a device's memory happens in the order in which it was asked for, in
// one stream of tc's own. Freed memory may be taken and written again at once, and only reading
// waits. Copies from and to the host run beside that stream and keep its order all the same. The
// caller's current device and context are unchanged when a function returns. TC_ERR_DEVICE with one
// sentence means that a device is absent, too old or refuses. After a sticky fault every function
// of the device fails so; other devices and the CPU go on.
// Threads: thread-safe; each device is under one lock of its own.
#pragma once

#include "device/backends.h"
#include "runtime/status.h"

// Matrix instructions that the dialect has words for (docs/gpu-device.md).
typedef enum tc_gpu_matrix { TC_GPU_NO_MATRIX, TC_GPU_MMA_SM80, TC_GPU_MFMA } tc_gpu_matrix;

typedef struct tc_gpu_facts {
  char name[96];  // as the driver names it
  char arch[32];  // the compiler's target: "sm_90a", "gfx90a"
  int warp;  // threads that run together: 32 or 64
  int most_threads;  // threads of a block, at most
  int processors;  // multiprocessors
  int cluster;  // blocks that may share their memory; 0: the device has no clusters
  size_t shared_bytes;  // shared memory of a block, at most, above the usual limit on request
  size_t memory_bytes, l2_bytes;
  tc_gpu_matrix matrix;
  bool wgmma;  // true: the dialect has words for wgmma and TMA
  bool simulated;  // true: the driver says that it is the simulated one
} tc_gpu_facts;

typedef struct tc_gpu tc_gpu;  // lives until tc_shutdown
typedef struct tc_gpu_code tc_gpu_code;  // a loaded kernel, counted
typedef struct tc_gpu_sequence tc_gpu_sequence;

// Returns the device, opened at its first use. pre: d is of kind TC_DEVICE_GPU.
tc_status tc_gpu_get(tc_device d, tc_gpu **out);
const tc_gpu_facts *tc_gpu_facts_of(const tc_gpu *g);
// Returns NULL if the device opens, else one sentence. Records no error.
const char *tc_gpu_absent(tc_device d);
// Compiles the smallest kernel, which nearly every plan needs. Opening alone does not show whether
// the compiler works.
tc_status tc_gpu_try(tc_gpu *g);
// Returns one sentence for tc-info: which device it is, or why it is absent.
const char *tc_gpu_sentence(tc_device d);

// ---- memory ----

// Allocates memory aligned to 256 bytes. TC_ERR_MEMORY, with a list of what holds the memory:
// freeing all caches was not enough.
tc_status tc_gpu_alloc(tc_gpu *g, size_t bytes, void **out);
// Allocates for callers that have caches of their own: only the device's caches are freed, and
// TC_ERR_MEMORY records no error.
tc_status tc_gpu_take(tc_gpu *g, size_t bytes, void **out);
// Fails as tc_gpu_alloc does without memory.
tc_status tc_gpu_fail_memory(tc_gpu *g, size_t bytes);
void tc_gpu_free(tc_gpu *g, void *p);
// Returns when `from` may be written again.
tc_status tc_gpu_write(tc_gpu *g, void *to, const void *from, size_t bytes);
// Waits for all that was asked for before.
tc_status tc_gpu_read(tc_gpu *g, void *to, const void *from, size_t bytes);
// Reads memory last written by run `made` or an earlier one (tc_gpu_runs), and waits for no later
// run. TC_GPU_ALL: does what tc_gpu_read does.
#define TC_GPU_ALL UINT64_MAX
tc_status tc_gpu_read_made(tc_gpu *g, void *to, const void *from, size_t bytes, uint64_t made);
// Begins such a copy and does not wait. The next tc_gpu_wait, or tc_gpu_read_end of `to`, writes
// `to`, which stays valid until then.
tc_status tc_gpu_read_begin(tc_gpu *g, void *to, const void *from, size_t bytes);
// Waits for the copies begun to `to`; NULL: for all of the device. Copies of a lost device are
// given up.
tc_status tc_gpu_read_end(tc_gpu *g, const void *to);
// Waits for the copies begun to `to` on every open device.
tc_status tc_gpu_read_end_all(const void *to);
tc_status tc_gpu_copy(tc_gpu *g, void *to, const void *from, size_t bytes);
// Counts the copies on the device since the latest run as a run, for which readers wait.
tc_status tc_gpu_copies_end(tc_gpu *g);
tc_status tc_gpu_wait(tc_gpu *g);
tc_status tc_gpu_wait_all(void);  // for every device that is open and not lost

// ---- code ----

// Compiles source in the dialect of docs/gpu-device.md, with one TC_KERNEL of this name, or takes
// it from the disk cache, and loads it. One reference. TC_ERR_COMPILE with the compiler's log: it
// does not compile.
tc_status tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out);
bool tc_gpu_code_is_from_disk(const tc_gpu_code *c);  // true: it was not compiled
void tc_gpu_code_retain(tc_gpu_code *c);
void tc_gpu_code_release(tc_gpu_code *c);  // c may be NULL

// ---- tensor maps ----

// Matrices of 2-byte elements from which kernels load boxes of 64 rows by 64 elements by TMA.
// Elements outside are zeros. pre: facts.wgmma.
typedef struct tc_gpu_tensor_map {
  int64_t extent[3];  // elements of a row, rows, matrices; up to 2^31
  int64_t stride[2];  // elements from one row, one matrix to the next: multiples of 8, below 2^39
} tc_gpu_tensor_map;

// Encodes the map for kernels. `at` is a multiple of 16 bytes. The words go into a sequence's
// table, at a multiple of 16 words.
#define TC_GPU_TENSOR_MAP_WORDS 16
tc_status tc_gpu_tensor_map_make(tc_gpu *g, const tc_gpu_tensor_map *m, const void *at,
                                 uint64_t words[TC_GPU_TENSOR_MAP_WORDS]);

// ---- a vendor's library: matrix products, convolutions ----

typedef enum tc_gpu_library { TC_GPU_MATMULS, TC_GPU_CONVOLUTIONS } tc_gpu_library;
#define TC_GPU_N_LIBRARIES 2

// BIAS: adds a row of n to each row of the result, in f32.
typedef enum tc_gpu_epilogue { TC_GPU_NO_EPILOGUE, TC_GPU_BIAS } tc_gpu_epilogue;

// An operand in memory: row i begins at i * row, and the elements of a row lie side by side. The
// product reads it straight or transposed (`transposed`).
typedef struct tc_gpu_operand {
  bool transposed;
  int64_t row, batch;  // elements from one row, one matrix to the next; batch 0: one matrix for all
} tc_gpu_operand;

// result[b] = left[b] right[b], of m x k and k x n, summed in f32 and rounded once. The result is
// dense.
typedef struct tc_gpu_matmul_facts {
  tc_type type;  // F32, F16 or BF16, of all operands
  int64_t batch, m, n, k;  // none is 0
  tc_gpu_operand left, right;
  tc_gpu_epilogue epilogue;
  uint32_t alignment;  // bytes, a power of two: all addresses are multiples of it
} tc_gpu_matmul_facts;

#define TC_GPU_CONV_AXES 3  // spatial axes, at most
typedef enum tc_gpu_direction { TC_GPU_FORWARD, TC_GPU_BY_IMAGE, TC_GPU_BY_WEIGHT } tc_gpu_direction;

// A convolution, or its gradient with respect to the image or the weight, summed in f32 without
// TF32 and rounded once. Arrays are dense: image [batch, image.., in], weight [out, taps.., in /
// groups], result [batch, result.., out]. A call's operands are image and weight; result's gradient
// and weight; or image and result's gradient.
typedef struct tc_gpu_conv_facts {
  tc_type type;  // F32, F16 or BF16, of all operands
  tc_gpu_direction direction;
  int axes;
  int64_t batch, in, out, groups;
  int64_t image[TC_GPU_CONV_AXES], taps[TC_GPU_CONV_AXES], result[TC_GPU_CONV_AXES];
  // low and high are the padding.
  int64_t stride[TC_GPU_CONV_AXES], dilation[TC_GPU_CONV_AXES], low[TC_GPU_CONV_AXES], high[TC_GPU_CONV_AXES];
} tc_gpu_conv_facts;

// The library's own encoding of how it computes something. It gives the same bits on the same
// device and version of the library.
typedef struct tc_gpu_algorithm {
  uint64_t data[8];
  uint64_t workspace_bytes;
} tc_gpu_algorithm;

// What a library computes.
typedef struct tc_gpu_work {
  tc_gpu_library library;
  union {
    tc_gpu_matmul_facts matmul;
    tc_gpu_conv_facts conv;
  };
} tc_gpu_work;

typedef struct tc_gpu_call tc_gpu_call;  // work by one algorithm; counted

// Returns NULL if the device has a library of this kind, which the first call opens; else one
// sentence. Records no error.
const char *tc_gpu_library_absent(tc_gpu *g, tc_gpu_library library);
// Returns its name and version: "cuBLASLt 13.1.0".
const char *tc_gpu_library_name(const tc_gpu *g, tc_gpu_library library);
// Returns whether the library is used only after measuring it, or if the user asks for it: no rule
// selects it. Does not open it.
bool tc_gpu_library_is_measured(const tc_gpu *g, tc_gpu_library library);
// Writes the algorithms that the library recommends, best first; *n may be 0.
tc_status tc_gpu_call_find(tc_gpu *g, const tc_gpu_work *w, tc_gpu_algorithm *out, int most, int *n);
// Makes a call with one reference. TC_ERR_DEVICE: the library does not compute it so.
tc_status tc_gpu_call_create(tc_gpu *g, const tc_gpu_work *w, const tc_gpu_algorithm *a, tc_gpu_call **out);
void tc_gpu_call_retain(tc_gpu_call *c);
void tc_gpu_call_release(tc_gpu_call *c);  // c may be NULL; runs under way are not disturbed
size_t tc_gpu_call_workspace(const tc_gpu_call *c);
// Returns the bytes that a call reads or writes at an address. Addresses 0 and 1 are its operands,
// 2 is its result, 3 its bias, if any.
size_t tc_gpu_work_bytes(const tc_gpu_work *w, uint32_t address);

// ---- sequences of launches ----

// A launch: a kernel, or a library's call. A kernel reads words of the sequence's table from
// first_word on: pointers to buffers, scalars, extents.
// A call has six words: first and second operand, result, bias (or 0), workspace, and the run's
// fault word (or 0), at which copies look. The library is told these addresses when it is launched,
// so a graph replays the call for these addresses alone. A sequence keeps graphs for a few sets of
// addresses, each made when its set comes for the second time. If more sets come, one graph copies
// the operands whose addresses change (device/gpu/graph_copies.h).
#define TC_GPU_CALL_WORDS 6
typedef struct tc_gpu_launch {
  tc_gpu_code *code;
  uint32_t blocks, threads;  // blocks: a multiple of the cluster, if the kernel has clusters
  uint32_t shared_bytes;  // of a block
  uint32_t first_word;
  tc_gpu_call *call;  // NULL: a kernel; else only first_word of the others counts
} tc_gpu_launch;

// The device's own kernels: some that write tables, by how many words they write, and one that
// copies operands of libraries' calls. Each is made when a sequence first needs it, or before.
// Returns a bit for each number of a kernel that a table of n_words (with calls or without) needs
// and the device lacks.
uint32_t tc_gpu_own_missing(tc_gpu *g, uint32_t n_words, bool calls);
tc_status tc_gpu_own_make(tc_gpu *g, uint32_t number);

// Copies the launches and retains their code and calls. n_words is the table's size.
tc_status tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words,
                                 tc_gpu_sequence **out);
// Runs all launches in order with these words as the table; words may be written again when it
// returns. From the second run on this is one launch of a graph, if the driver can. Many threads
// may run one sequence.
tc_status tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words);
// Returns how many runs of sequences the device was asked for; a thread's latest is one of them.
uint64_t tc_gpu_runs(const tc_gpu *g);
// Runs launch by launch and waits for the end. tell(name, ns) is called with each launch's time by
// the device's clock, which a simulated device simulates, too.
typedef void tc_gpu_tell(const char *name, uint64_t ns);
tc_status tc_gpu_sequence_time(tc_gpu_sequence *s, const uint64_t *words, tc_gpu_tell *tell);
void tc_gpu_sequence_destroy(tc_gpu_sequence *s);  // s may be NULL; runs under way are not disturbed
// Returns why the last run was not a replay, static text; NULL: it was one.
const char *tc_gpu_sequence_plain(const tc_gpu_sequence *s);
// Returns the bytes of libraries' operands and results that the last run, a replay, copied because
// their addresses change.
size_t tc_gpu_sequence_copied(const tc_gpu_sequence *s);
// Returns the host's memory that it holds, without the driver's for its graphs.
size_t tc_gpu_sequence_held(const tc_gpu_sequence *s);

// Registers the owner of memory on devices that can be recreated: evict gives it back when memory
// is short. Called without locks of the device.
void tc_gpu_set_evict(void (*evict)(tc_device d));

// Leaves every device: waits, unloads, frees memory. tc_shutdown calls it after buffers and kernels
// are gone.
void tc_gpu_shutdown(void);
