// Tensor memory: reference-counted buffers from size-class pools.
//
// Invariants: a buffer's content never changes while more than one reference holds it. Runs on the
// CPU finish before the sync that started them returns, so references alone say when memory is
// quiet. The object and its memory are pooled together: in steady state nothing is allocated. A
// stamp names a content. No two contents of the process share one, and a buffer gets another stamp
// whenever it is written again. Values derived from a content (lowering/program/constant_cache.h)
// are kept under its stamp. A buffer in a GPU's memory belongs to that device. A device does what
// it is asked for in order, so memory without references is reused at once. ptr is the device's
// address, which only kernels and tc_buffer_read, _write and _copy follow.
// Threads: thread-safe; reference counts are atomic, pools are under one lock.
#pragma once

#include <stdatomic.h>

#include "device/device.h"
#include "device/holders.h"
#include "device/strided.h"
#include "runtime/status.h"

typedef enum tc_origin {
  TC_ORIGIN_OWNED,
  TC_ORIGIN_BORROWED,  // the caller's memory, read only
  TC_ORIGIN_USER,  // the caller's memory; assignments must land there
} tc_origin;

typedef struct tc_buffer tc_buffer;
struct tc_buffer {
  _Atomic uint32_t refs;  // held by slots, traces, runs and maps
  uint8_t origin;
  uint8_t memory;  // the GPU whose memory it is in; 0: the host
  uint16_t size_class;
  size_t bytes;  // usable
  void *ptr;
  void (*drop)(void *arg);  // called when the last reference to borrowed memory goes; NULL: nothing is called
  void *drop_arg;
  _Atomic uint64_t stamp;  // of the content; 0: others may write there unseen
  uint32_t n_lent;  // to how many others it is lent, who may write; under the lock of the pools
  bool stamped;  // true: it had a stamp before the first of them; under the same lock
  // Of a GPU's buffer: the run that wrote it last, as tc_gpu_runs counts. TC_GPU_ALL: it is
  // unknown.
  _Atomic uint64_t made;
  _Atomic bool watched;  // true: the keeper is notified when this stamp ends
  // Where the elements lie in strided memory of the caller, of which ptr is the lowest address and
  // bytes the whole span; retained. NULL: dense
  tc_strided *strided;
  // Neighbours among the live buffers over callers' memory (external.h); of one that is not there:
  // NULL, and listed false. Under the lock of the list
  tc_buffer *newer, *older;
  bool listed;
  // True: another live buffer shares bytes with this one, and one of the two is writable. Set under
  // the same lock, never cleared
  _Atomic bool aliased;
  _Atomic bool foreign;  // true: a thread other than the borrower's has had the memory to read
  _Atomic uint64_t handle;  // of memory of callers: the tensor it was borrowed as, gen << 32 | slot. 0: none
  tc_buffer *next;  // in a pool
  _Atomic uint32_t stored_by;  // with a profile: the sync whose value nobody has read yet. 0: none
  bool is_live;  // with a profile: it is in the list of live_buffers.h, under its lock
  tc_buffer *live_newer, *live_older;
  tc_call maker;  // the call that made it; under the same lock
};

// Makes a buffer of at least `bytes` with undefined content and one reference. TC_ERR_MEMORY: the
// cap of the host's memory forbids it, or the system has none.
tc_status tc_buffer_create(size_t bytes, tc_buffer **out);
// Makes such a buffer in the memory where tensors of the device live.
tc_status tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
// These copy between the caller's memory and a buffer's first bytes, and between buffers, in
// whichever memory each is. Reading waits for the device. A strided buffer is gathered from and
// scattered to whole, and its gaps are left alone; the other side is dense.
tc_status tc_buffer_read(const tc_buffer *b, void *to, size_t bytes);
// Reads, but waits only if it must (tc_gpu_read_begin).
tc_status tc_buffer_read_begin(const tc_buffer *b, void *to, size_t bytes);
tc_status tc_buffer_write(tc_buffer *b, const void *from, size_t bytes);
tc_status tc_buffer_clear(tc_buffer *b, size_t bytes);  // to zeros
tc_status tc_buffer_copy(tc_buffer *to, const tc_buffer *from, size_t bytes);
// Copies all that a leaf of b reads, as it lies: of strided memory the elements in their places,
// with zeros in the gaps. `to` is dense, of b->bytes.
tc_status tc_buffer_copy_span(tc_buffer *to, const tc_buffer *b);
// Reads the same into the caller's memory; bytes is at most the span's.
tc_status tc_buffer_read_span(const tc_buffer *b, void *to, size_t bytes);
// Returns how many bytes to ask for when `bytes` are needed for a short time: the size of a pooled
// buffer that holds them. If none does and `bytes` is large, large pooled buffers are freed first.
// So memory that programs held one after the other is not held at once.
size_t tc_buffer_fit(size_t bytes);
// Returns what a buffer of `bytes` takes.
size_t tc_buffer_rounded(size_t bytes);
// Returns what the cap leaves once everything unused that is kept is given back. SIZE_MAX: there is
// no cap, as in a GPU's memory.
size_t tc_buffer_room(tc_device d);
// Wraps the caller's memory; on failure drop is not called.
tc_status tc_buffer_wrap(void *ptr, size_t bytes, tc_origin origin, void (*drop)(void *), void *arg, tc_buffer **out);
// Wraps the caller's strided memory, whose description is copied.
tc_status tc_buffer_wrap_strided(void *ptr, tc_origin origin, const tc_strided *strided, void (*drop)(void *),
                                 void *arg, tc_buffer **out);
static inline tc_buffer *tc_buffer_retain(tc_buffer *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return b;
}
void tc_buffer_release(tc_buffer *b);  // b may be NULL
// 0 also where another buffer may write the same memory.
static inline uint64_t tc_buffer_stamp(const tc_buffer *b) {
  return atomic_load_explicit(&b->aliased, memory_order_acquire) ? 0 : atomic_load(&b->stamp);
}
// Another content is about to be written. pre: the caller holds the only reference but its own.
void tc_buffer_restamp(tc_buffer *b);
// A run that writes b was launched on its device. Reading b waits for no later run.
void tc_buffer_set_made(tc_buffer *b);
// Others may write b from now on.
void tc_buffer_unstamp(tc_buffer *b);
// Others may write b until tc_buffer_lend_end, which gives it another stamp.
void tc_buffer_lend(tc_buffer *b);
void tc_buffer_lend_end(tc_buffer *b);
bool tc_buffer_is_lent(const tc_buffer *b);
// Moves b's content to the memory of spare, which has room for it and one reference. spare gets the
// memory that b wrapped, and its callback.
void tc_buffer_move(tc_buffer *b, tc_buffer *spare);
// Moves as tc_buffer_move does, without the content: nobody will read it.
void tc_buffer_swap(tc_buffer *b, tc_buffer *spare);
// Nobody writes the memory that b wraps any more, so it gets a stamp.
void tc_buffer_settle(tc_buffer *b);
static inline uint32_t tc_buffer_refs(const tc_buffer *b) {
  return atomic_load_explicit(&b->refs, memory_order_acquire);
}

// Says what a buffer holds, for the list that is printed when a GPU's memory is short (holders.h),
// and for a profile. Else it counts as a tensor made by the running call.
void tc_buffer_tell(tc_buffer *b, tc_holding holding, tc_call made);
// ---- for a profile ----

// Bytes that this thread moved to and from GPUs since the last call.
void tc_buffer_bus_take(uint64_t *to_device, uint64_t *from_device);
static inline void tc_buffer_set_read(tc_buffer *b) {
  atomic_store_explicit(&b->stored_by, 0, memory_order_relaxed);
}
static inline void tc_buffer_set_stored(tc_buffer *b, uint32_t sequence) {
  atomic_store_explicit(&b->stored_by, sequence, memory_order_relaxed);
}

// This GPU's memory is low: frees what is pooled there, and all that can be recreated. Called
// without locks of the device.
void tc_buffer_reclaim(tc_device d);
// Bytes in use in a memory while this thread runs something: before it takes any, and at most when
// it took some.
typedef struct tc_peak {
  size_t before_bytes, most_bytes;
} tc_peak;
void tc_buffer_peak_begin(tc_device d);
tc_peak tc_buffer_peak_end(void);
// Returns the ticks that this thread spent since tc_buffer_peak_begin on memory that no pool had.
uint64_t tc_buffer_new_ticks(void);

// Frees the GPUs' pools and leaves the devices, unless some of their memory is in use.
void tc_buffer_leave_gpus(void);

// The keeper of values derived from contents. Layers point one way, so it registers itself. Called
// without locks of the device.
typedef struct tc_keeper {
  void (*changed)(uint64_t stamp);  // a watched content is gone, and what was derived from it is of no use
  void (*reclaim)(void);  // memory is low: gives back all that can be recreated
  size_t (*bytes)(void);  // kept now; counted among the live bytes
  size_t (*idle_bytes)(void);  // of these, bytes in the host's memory that no run uses: reclaiming frees them at once
} tc_keeper;
void tc_buffer_set_keeper(const tc_keeper *keeper);
// Plans hold `bytes` more, or less if negative; tc_memory_stats reports the sum.
void tc_memory_of_plans(ptrdiff_t bytes);
// pre: the caller holds a reference. The content is watched if a stamp read afterwards is still the
// same.
static inline void tc_buffer_watch(tc_buffer *b) {
  atomic_store(&b->watched, true);
}
