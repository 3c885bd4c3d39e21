// Tensor memory: counted buffers from size-class pools. A buffer's content never changes while more
// than one reference holds it.
//
// Runs on the CPU finish before the sync that started them returns, so references alone say when
// memory is quiet. The object and its memory are pooled together: in steady state nothing is
// allocated. Threads: thread-safe; reference counts are atomic, pools are under one lock.
//
// A stamp names a content: no two contents of the process have the same, and a buffer gets another
// whenever it is written after it was made. What is prepared from a content
// (lowering/program/constant_cache.h) is kept under its stamp.
//
// A buffer in a GPU's memory is made for that device. What is asked of a device happens in order,
// so that memory whose last reference went may be taken again at once; ptr is the device's address,
// which only kernels and tc_buffer_read, _write and _copy follow.
#ifndef TC_DEVICE_BUFFER_H
#define TC_DEVICE_BUFFER_H

#include <stdatomic.h>

#include "device/device.h"
#include "device/holders.h"
#include "runtime/status.h"

typedef enum tc_origin {
  TC_ORIGIN_OWNED,
  TC_ORIGIN_BORROWED,  // the caller's, read only
  TC_ORIGIN_USER,  // the caller's, assigns must land there
} tc_origin;

typedef struct tc_buffer tc_buffer;
struct tc_buffer {
  _Atomic uint32_t refs;  // slots, traces, runs, maps
  uint8_t origin;
  uint8_t memory;  // whose: a GPU, or 0, which is the host
  uint16_t size_class;
  size_t bytes;  // usable
  void *ptr;
  void (*drop)(void *arg);  // borrowed memory: called when the last reference goes
  void *drop_arg;
  _Atomic uint64_t stamp;  // of the content; 0: others may write there unseen
  uint32_t n_lent;  // to so many who may; under the lock of the pools, as what follows
  bool stamped;  // before the first of them
  // of a GPU's: the run that wrote it last, as tc_gpu_runs counts, or TC_GPU_ALL, which is not
  // known
  _Atomic uint64_t made;
  _Atomic bool watched;  // the keeper is told when this stamp is no more
  tc_buffer *next;  // in a pool
};

// A buffer of at least bytes, content undefined, one reference. TC_ERR_MEMORY beyond the cap (of
// the host's memory) or when the system has none.
tc_status tc_buffer_create(size_t bytes, tc_buffer **out);
// The same where tensors of the device live.
tc_status tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
// Between the caller's memory and a buffer's first bytes, and between buffers, in whichever memory
// each is. Reading waits for the device.
tc_status tc_buffer_read(const tc_buffer *b, void *to, size_t bytes);
// The same, but does not wait where it need not (tc_gpu_read_begin).
tc_status tc_buffer_read_begin(const tc_buffer *b, void *to, size_t bytes);
tc_status tc_buffer_write(tc_buffer *b, const void *from, size_t bytes);
tc_status tc_buffer_clear(tc_buffer *b, size_t bytes);  // to zeros
tc_status tc_buffer_copy(tc_buffer *to, const tc_buffer *from, size_t bytes);
// How many bytes to ask for where so many are needed for a short time: those of a pooled buffer
// that holds them. Where none does and they are many, large buffers are taken out of the pools
// first, so that what programs held one after the other is not held at once.
size_t tc_buffer_fit(size_t bytes);
// What a buffer of so many takes.
size_t tc_buffer_rounded(size_t bytes);
// What the cap leaves once all is given back that is kept and that no run uses; SIZE_MAX where
// there is no cap, as in a GPU's memory.
size_t tc_buffer_room(tc_device d);
// Wraps the caller's memory; on failure drop is not called.
tc_status tc_buffer_wrap(void *ptr, size_t bytes, tc_origin origin, void (*drop)(void *), void *arg, tc_buffer **out);
static inline tc_buffer *tc_buffer_retain(tc_buffer *b) {
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
  return b;
}
void tc_buffer_release(tc_buffer *b);  // NULL is fine
static inline uint64_t tc_buffer_stamp(const tc_buffer *b) {
  return atomic_load(&b->stamp);
}
// Another content is about to be written; the caller holds the only reference but its own.
void tc_buffer_restamp(tc_buffer *b);
// The device was asked for a run that writes it: who reads it waits for no later one.
void tc_buffer_set_made(tc_buffer *b);
// Others may write there from now on.
void tc_buffer_unstamp(tc_buffer *b);
// The same until it is given back, from when on there is another content.
void tc_buffer_lend(tc_buffer *b);
void tc_buffer_lend_end(tc_buffer *b);
// b's holders keep its content, in the memory of spare, which has room for it and one reference;
// spare gets the memory that b wrapped, and its callback.
void tc_buffer_move(tc_buffer *b, tc_buffer *spare);
// Nobody writes the memory that it wraps.
void tc_buffer_settle(tc_buffer *b);
static inline uint32_t tc_buffer_refs(const tc_buffer *b) {
  return atomic_load_explicit(&b->refs, memory_order_acquire);
}

// What a buffer of a GPU's memory is told to be where that is short (holders.h): else it is a
// tensor, made by the call that is running. Of others nothing.
void tc_buffer_tell(tc_buffer *b, tc_holding holding, tc_call made);
// Memory of this GPU is short: gives back what is pooled there, and all that can be made again.
// Called without locks of the device.
void tc_buffer_reclaim(tc_device d);
// What is in use in a memory while this thread runs something: before it takes any there, and the
// most when it took some.
typedef struct tc_peak {
  size_t before_bytes, most_bytes;
} tc_peak;
void tc_buffer_peak_begin(tc_device d);
tc_peak tc_buffer_peak_end(void);
// What this thread has taken since then, in ticks, to get memory that no pool had.
uint64_t tc_buffer_new_ticks(void);

// Gives the GPUs' pools back and leaves the devices, if no memory there is in use.
void tc_buffer_leave_gpus(void);

// Who keeps what was prepared from contents. Called without locks of the device; layers point one
// way, so it makes itself known.
typedef struct tc_keeper {
  void (*changed)(uint64_t stamp);  // a watched content is gone, and what was prepared from it of no use
  void (*reclaim)(void);  // memory is short: gives back all that can be made again
  size_t (*bytes)(void);  // kept now, counted among the live
  size_t (*idle_bytes)(void);  // of these what no run uses, in memory of the host: reclaiming gives it back at once
} tc_keeper;
void tc_buffer_set_keeper(const tc_keeper *keeper);
// So many bytes more, or less, are held by plans, which tc_memory_stats tells.
void tc_memory_of_plans(ptrdiff_t bytes);
// pre: the caller holds a reference. A stamp read afterwards that is still the same is watched.
static inline void tc_buffer_watch(tc_buffer *b) {
  atomic_store(&b->watched, true);
}

#endif
