// A GPU as the layers above see it: memory, code and sequences of launches, the same for CUDA and
// HIP.
//
// All that writes a device's memory happens in the order in which it was asked for, in one stream
// of tc's own: memory that is given back may be taken and written again at once, and only reading
// waits. Copies from and to the host run beside it, and are in order with it all the same. The
// caller's current device and context are as they were when a function returns.
// Errors: a device that is absent, too old or refuses is TC_ERR_DEVICE with one sentence. After a
// sticky fault or a lost device every function of it is TC_ERR_DEVICE, with what happened; other
// devices and the CPU go on.
// Threads: thread-safe; a device is under one lock of its own.
#ifndef TC_DEVICE_GPU_H
#define TC_DEVICE_GPU_H

#include "device/backends.h"
#include "runtime/status.h"

// Matrix instructions that words exist for (device/gpu/README.md).
typedef enum tc_gpu_matrix { TC_GPU_NO_MATRIX, TC_GPU_MMA_SM80, TC_GPU_MFMA } tc_gpu_matrix;

typedef struct tc_gpu_facts {
  char name[96];  // as the driver says it
  char arch[32];  // what kernels are compiled for: "sm_90a", "gfx90a"
  int warp;  // threads that run together: 32 or 64
  int most_threads;  // of a block
  int processors;  // that run blocks
  int cluster;  // blocks that may share their memory; 0: each has its own alone
  size_t shared_bytes;  // a block may have, above the usual limit by asking
  size_t memory_bytes, l2_bytes;
  tc_gpu_matrix matrix;
  bool wgmma;  // words exist for products of four warps of boxes that are fetched by maps
  bool simulated;  // the driver says that it is the simulated one
} tc_gpu_facts;

typedef struct tc_gpu tc_gpu;  // lives until tc_shutdown
typedef struct tc_gpu_code tc_gpu_code;  // a loaded kernel, counted
typedef struct tc_gpu_sequence tc_gpu_sequence;

// Opens the device at its first use. d must be of kind TC_DEVICE_GPU.
tc_status tc_gpu_get(tc_device d, tc_gpu **out);
const tc_gpu_facts *tc_gpu_facts_of(const tc_gpu *g);
// NULL if the device is there and opens; else why not, in one sentence. No error is recorded.
const char *tc_gpu_absent(tc_device d);
// Makes the smallest kernel there is, which nearly every plan needs: opening does not show whether
// the compiler works.
tc_status tc_gpu_try(tc_gpu *g);
// One sentence for tc-info: what is there, or why nothing is.
const char *tc_gpu_sentence(tc_device d);

// ---- memory ----

// Aligned to 256 bytes. TC_ERR_MEMORY, with what holds the device's memory, where there is not
// enough when all caches were given back.
tc_status tc_gpu_alloc(tc_gpu *g, size_t bytes, void **out);
// The same for those who have caches of it themselves: only the device's own are given back, and no
// error is recorded where memory is short.
tc_status tc_gpu_take(tc_gpu *g, size_t bytes, void **out);
tc_status tc_gpu_short(tc_gpu *g, size_t bytes);  // which is then that error
void tc_gpu_free(tc_gpu *g, void *p);
// Returns when `from` may be written again.
tc_status tc_gpu_write(tc_gpu *g, void *to, const void *from, size_t bytes);
// Waits for what was asked for before.
tc_status tc_gpu_read(tc_gpu *g, void *to, const void *from, size_t bytes);
// The same of memory that was last written by this run, or an earlier one (tc_gpu_runs), and waits
// for no later one. TC_GPU_ALL: as tc_gpu_read.
#define TC_GPU_ALL UINT64_MAX
tc_status tc_gpu_read_made(tc_gpu *g, void *to, const void *from, size_t bytes, uint64_t made);
// As tc_gpu_read, but does not wait: `to` is written by the next tc_gpu_wait, or tc_gpu_read_end of
// it, and stays the caller's to keep until then.
tc_status tc_gpu_read_begin(tc_gpu *g, void *to, const void *from, size_t bytes);
// Waits for the copies that were begun to this place, or for all of the device (NULL). Where the
// device is lost they are given up.
tc_status tc_gpu_read_end(tc_gpu *g, const void *to);
// The same on every device that is open.
tc_status tc_gpu_read_end_all(const void *to);
tc_status tc_gpu_copy(tc_gpu *g, void *to, const void *from, size_t bytes);
tc_status tc_gpu_wait(tc_gpu *g);
tc_status tc_gpu_wait_all(void);  // for every device that is open, and not lost

// ---- code ----

// Source in the dialect of device/gpu/README.md, with one TC_KERNEL of this name. Compiled, or
// taken from the disk cache, and loaded. One reference. A source that does not compile is
// TC_ERR_COMPILE, with the compiler's log in the message.
tc_status tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out);
bool tc_gpu_code_is_from_disk(const tc_gpu_code *c);  // and was not compiled
void tc_gpu_code_retain(tc_gpu_code *c);
void tc_gpu_code_release(tc_gpu_code *c);  // NULL is fine

// ---- maps ----

// Matrices of elements of two bytes in memory, of which kernels fetch boxes of 64 rows by 64
// elements; outside are zeros. Where facts say `wgmma`.
typedef struct tc_gpu_map {
  int64_t extent[3];  // elements of a row, rows, matrices; up to 2^31
  int64_t stride[2];  // elements from one row, one matrix to the next: multiples of 8, below 2^39
} tc_gpu_map;

// The map as kernels are given it, of memory at a multiple of 16 bytes: words of a sequence's
// table, from a multiple of 16 of them on.
#define TC_GPU_MAP_WORDS 16
tc_status tc_gpu_map_make(tc_gpu *g, const tc_gpu_map *m, const void *at, uint64_t words[TC_GPU_MAP_WORDS]);

// ---- what a vendor's library does: matrix products, convolutions ----

typedef enum tc_gpu_library { TC_GPU_PRODUCTS, TC_GPU_CONVOLUTIONS } tc_gpu_library;
#define TC_GPU_N_LIBRARIES 2

// BIAS: a row of n is added to each of the result's, in f32
typedef enum tc_gpu_epilogue { TC_GPU_NO_EPILOGUE, TC_GPU_BIAS } tc_gpu_epilogue;

// An operand in memory: row i begins at i * row, elements of a row lie side by side; the product
// reads it so, or turned.
typedef struct tc_gpu_operand {
  bool turned;
  int64_t row, batch;  // elements from one row to the next, from one matrix to the next; batch 0: one for all
} tc_gpu_operand;

// result[b] = left[b] right[b], of m x k and k x n, summed in f32 and rounded once. The result is
// dense.
typedef struct tc_gpu_product_facts {
  tc_type type;  // F32, F16 or BF16, of all operands
  int64_t batch, m, n, k;  // none 0
  tc_gpu_operand left, right;
  tc_gpu_epilogue epilogue;
  uint32_t alignment;  // in bytes, that all addresses have; a power of two
} tc_gpu_product_facts;

#define TC_GPU_CONV_AXES 3  // spatial ones, at most
typedef enum tc_gpu_direction { TC_GPU_FORWARD, TC_GPU_BY_IMAGE, TC_GPU_BY_WEIGHT } tc_gpu_direction;

// A convolution, or its gradient by the image or the weight: image [batch, image.., in], weight
// [out, taps.., in / groups], result [batch, result.., out], dense, summed in f32 without TF32 and
// rounded once. Operands of a call are image and weight; result's gradient and weight; image and
// result's gradient.
typedef struct tc_gpu_conv_facts {
  tc_type type;  // F32, F16 or BF16, of all operands
  tc_gpu_direction direction;
  int axes;
  int64_t batch, in, out, groups;
  int64_t image[TC_GPU_CONV_AXES], taps[TC_GPU_CONV_AXES], result[TC_GPU_CONV_AXES];
  // low, high: padding
  int64_t stride[TC_GPU_CONV_AXES], dilation[TC_GPU_CONV_AXES], low[TC_GPU_CONV_AXES], high[TC_GPU_CONV_AXES];
} tc_gpu_conv_facts;

// The library's own words for how it computes something: the same bits for the same device and
// version of the library.
typedef struct tc_gpu_algorithm {
  uint64_t data[8];
  uint64_t workspace_bytes;
} tc_gpu_algorithm;

// What a library is asked for.
typedef struct tc_gpu_work {
  tc_gpu_library library;
  union {
    tc_gpu_product_facts product;
    tc_gpu_conv_facts conv;
  };
} tc_gpu_work;

typedef struct tc_gpu_call tc_gpu_call;  // work by one algorithm; counted

// NULL if the device has a library of this kind, which opens at the first call; else why not, in
// one sentence. No error is recorded.
const char *tc_gpu_library_absent(tc_gpu *g, tc_gpu_library library);
// Its name and version: "cuBLASLt 13.1.0".
const char *tc_gpu_library_name(const tc_gpu *g, tc_gpu_library library);
// Whether it is for those alone who look at what it does, or want it whatever it does: no rule
// takes it. Does not open it.
bool tc_gpu_library_is_measured(const tc_gpu *g, tc_gpu_library library);
// What the library thinks best, best first. None is no error.
tc_status tc_gpu_call_find(tc_gpu *g, const tc_gpu_work *w, tc_gpu_algorithm *out, int most, int *n);
// TC_ERR_DEVICE if the library does not compute it so. One reference.
tc_status tc_gpu_call_create(tc_gpu *g, const tc_gpu_work *w, const tc_gpu_algorithm *a, tc_gpu_call **out);
void tc_gpu_call_retain(tc_gpu_call *c);
void tc_gpu_call_release(tc_gpu_call *c);  // NULL is fine; runs under way are not disturbed
size_t tc_gpu_call_workspace(const tc_gpu_call *c);
// Bytes that a call of the work reads or writes at one of its addresses: 0 and 1, its operands; 2,
// its result; 3, its bias, if it has one.
size_t tc_gpu_work_bytes(const tc_gpu_work *w, uint32_t address);

// ---- sequences of launches ----

// A launch's kernel reads words of the sequence's table, from the first on: pointers to buffers,
// scalars, extents. A library's call has six words: its first and second operand, result, bias (or
// 0) and workspace, of which it is told when it is launched, and the run's fault word (or 0), at
// which copies look. So a graph replays it for these addresses alone: a sequence keeps graphs for a
// few sets of them, each made when a set comes for the second time, and, where more come, one that
// copies the operands whose addresses change (device/gpu/graph_copies.h).
#define TC_GPU_CALL_WORDS 6
typedef struct tc_gpu_launch {
  tc_gpu_code *code;
  uint32_t blocks, threads;  // blocks: whole clusters, where the kernel has them
  uint32_t shared_bytes;  // of a block
  uint32_t first_word;
  tc_gpu_call *call;  // NULL: a kernel. Else of the others first_word alone counts
} tc_gpu_launch;

// Kernels of the device's own: a few that write tables, by how many words they write, and one that
// copies operands of libraries' calls; each made when a sequence needs it first, or ahead of that.
// Those that a table of so many words, with calls or without, needs and the device does not have
// yet, a bit for each number.
uint32_t tc_gpu_own_missing(tc_gpu *g, uint32_t n_words, bool calls);
tc_status tc_gpu_own_make(tc_gpu *g, uint32_t number);

// The launches are copied, their code and calls retained. words: of the table.
tc_status tc_gpu_sequence_create(tc_gpu *g, const tc_gpu_launch *launch, uint32_t n, uint32_t n_words, tc_gpu_sequence **out);
// Launches all, one after the other, with these words for a table; words may be written again when
// it returns. From the second run on as one launch of a replayed graph where the driver can. Many
// threads may run one sequence.
tc_status tc_gpu_sequence_run(tc_gpu_sequence *s, const uint64_t *words);
// How many runs of sequences the device was asked for: a thread's latest is one of them.
uint64_t tc_gpu_runs(const tc_gpu *g);
// The same, launch by launch and waiting for the end: tell(name, ns) is called with what each took
// by the device's clock. Of a simulated device the clock is too.
typedef void tc_gpu_tell(const char *name, uint64_t ns);
tc_status tc_gpu_sequence_time(tc_gpu_sequence *s, const uint64_t *words, tc_gpu_tell *tell);
void tc_gpu_sequence_destroy(tc_gpu_sequence *s);  // NULL is fine; runs under way are not disturbed
// Why the last run was not a replay, static text; NULL: it was.
const char *tc_gpu_sequence_plain(const tc_gpu_sequence *s);
// Bytes of libraries' operands and results that the last run, a replay, copied, for they are at
// ever other addresses.
size_t tc_gpu_sequence_copied(const tc_gpu_sequence *s);
// Bytes of the host's memory that it holds, without what a driver does for its graphs.
size_t tc_gpu_sequence_held(const tc_gpu_sequence *s);

// Who keeps memory of devices that can be made again is asked to give it back where memory is
// short. Called without locks of the device.
void tc_gpu_set_evict(void (*evict)(tc_device d));

// Leaves every device: waits, unloads, gives memory back. Called by tc_shutdown, after buffers and
// kernels are gone.
void tc_gpu_shutdown(void);

#endif
