// A device's state, for the files of this directory alone.
//
// Comments use: locked: this thread holds the device's lock. entered: the device is this thread's
// current one. begun: both, between tc_gpu_begin and tc_gpu_end.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "device/gpu/driver.h"
#include "device/gpu/library.h"
#include "device/holders.h"

#define TC_GPU_FILLS 4
#define TC_GPU_PIECES 8
#define TC_GPU_PIECE_BYTES ((size_t)1 << 20)
#define TC_GPU_MOST_PIECES 64

// Pinned memory that the host's writes go through, piece after piece in a ring, so that the
// caller's memory may be written again at once.
typedef struct tc_gpu_staging {
  char *at;
  void *event[TC_GPU_PIECES];  // recorded behind the last copy of a piece
  uint32_t piece;  // being filled
  size_t used;  // bytes of that piece
} tc_gpu_staging;

// A piece of device memory that a large upload goes through.
typedef struct tc_gpu_piece {
  void *at, *moved;  // moved: an event, recorded in WORK behind the copy out of it
} tc_gpu_piece;

typedef struct tc_gpu_upload {
  char *pinned;
  void *sent[TC_GPU_PIECES];  // events, recorded in UP behind the last copy of a piece of pinned memory
  uint32_t piece;  // the next piece of pinned memory
  tc_gpu_piece there[TC_GPU_MOST_PIECES];
  uint32_t n_there, next;
  uint64_t run;  // the latest run before the last upload
} tc_gpu_upload;

// An object that runs under way may still use. It is destroyed after waiting for the device. One of
// its fields is set.
typedef struct tc_gpu_retired tc_gpu_retired;
struct tc_gpu_retired {
  tc_gpu_retired *next;
  tc_gpu_loaded loaded;  // code
  tc_gpu_replay *replay;  // a sequence's graph
  void *made;  // a call of this library
  tc_gpu_library library;
};

// Runs of sequences in flight.
typedef struct tc_gpu_in_flight {
  void **mark;  // a ring of n events, each recorded behind a run; NULL: not made yet
  uint32_t n;
  _Atomic uint64_t n_runs;  // asked for since the device was opened; written under the lock
} tc_gpu_in_flight;

// The limit of copies to the host in flight, on either side. A larger copy is read at once.
#define TC_GPU_MOST_READ_BYTES ((size_t)64 << 20)
typedef struct tc_gpu_async_read tc_gpu_async_read;
struct tc_gpu_async_read {
  tc_gpu_async_read *next;
  void *to;
  size_t bytes, room;
  void *pinned, *event;
  void *there;  // device memory; NULL: none was needed yet
};

struct tc_gpu {
  const tc_gpu_driver *driver;
  tc_device device;
  pthread_mutex_t lock;  // guards all below but facts, which do not change
  tc_gpu_port port;
  tc_gpu_facts facts;
  atomic_bool open, lost;
  atomic_bool doubtful;  // true: another device was lost, so this one is asked whether it answers
  bool outside;  // true: it could not be entered again (tc_gpu_reclaim_for), so tc_gpu_end does not leave it
  uint64_t opened;  // number of openings; an object made before the latest one no longer exists
  char why[320];  // why it is lost
  char sentence[320];
  tc_gpu_staging to, from;
  tc_gpu_upload upload;
  void *behind;  // an event, recorded behind all that was asked for; NULL: not made yet
  tc_gpu_in_flight in_flight;
  pthread_mutex_t reading;  // guards `from` and the fields below; taken before lock
  tc_gpu_async_read *reads, *free_reads;  // in flight, the oldest first; and free ones, to be reused
  size_t read_bytes;  // of both lists
  tc_gpu_retired *retired;
  uint32_t n_retired;
  tc_gpu_code *fill[TC_GPU_FILLS];  // kernels that write tables, by size; NULL: not made yet
  tc_gpu_code *copier;  // the kernel that copies operands (graph_copies.h); NULL: not made yet
  tc_library_once library[TC_GPU_N_LIBRARIES];  // since the device was opened
};

extern tc_gpu tc_gpus[TC_N_DEVICES][TC_MOST_ORDINALS];  // by row and ordinal; all zero: never opened

// Takes the device's lock and enters it. TC_ERR_DEVICE: it is lost. what: static text that says
// what was asked for.
tc_status tc_gpu_begin(tc_gpu *g, const char *what);
void tc_gpu_end(tc_gpu *g);
// Takes the device's lock and enters it for functions that free something. False, without an error:
// the device is out of reach.
bool tc_gpu_reach(tc_gpu *g);
// Makes a status of a driver's result; the lock is not needed. A result that says so marks the
// device lost.
tc_status tc_gpu_check(tc_gpu *g, int result, const char *what);
// Waits for an event, or NULL: for all that was launched before. A profile counts the time.
tc_status tc_gpu_await(tc_gpu *g, void *event, const char *what);
bool tc_gpu_is_out_of_memory(const tc_gpu *g, int result);
// Returns TC_ERR_MEMORY, with a list of what holds the device's memory. what: what was asked for.
// pre: begun.
tc_status tc_gpu_fail_out_of_memory(tc_gpu *g, const char *what);
// Logs a result that cannot be returned.
void tc_gpu_note(tc_gpu *g, int result, const char *what);

// ---- where memory is short (reclaim.c) ----

// Waits for the device and frees what it keeps unused. pre: begun.
tc_status tc_gpu_trim(tc_gpu *g);
// First makes layers above give back what they can make again; then trims. It releases the lock
// meanwhile, so other threads may have had the device. pre: begun. Afterwards it is begun again;
// after an error nothing more may be asked of the device.
tc_status tc_gpu_reclaim_for(tc_gpu *g);
// Makes layers above give back what they can make again. Called without locks of the device.
void tc_gpu_evict(tc_gpu *g);
// These make an event (timer: one that keeps the time), and pinned memory of the host. If memory is
// short they trim and try again. pre: begun.
tc_status tc_gpu_event(tc_gpu *g, bool timer, void **out);
tc_status tc_gpu_pinned(tc_gpu *g, size_t bytes, void **out);
void tc_gpu_event_destroy(tc_gpu *g, void *event);  // event may be NULL. pre: begun
void tc_gpu_pinned_free(tc_gpu *g, void *at);  // at may be NULL. pre: begun

// The error of a child that would use its parent's devices.
#define TC_GPU_FORKED \
  "the process was forked after a GPU was opened, and a child cannot use it: fork first, or start another program in the child"
// Notes that a driver's devices are about to be used. pre: opening is locked.
void tc_gpu_touch(void);
// Returns whether the process was forked since a driver was opened; then nothing of it may be
// touched.
bool tc_gpu_forked(void);
tc_status tc_gpu_refuse_lost(const tc_gpu *g);  // TC_ERR_DEVICE, with what happened
tc_status tc_gpu_refuse_forked(void);  // TC_ERR_DEVICE, with a sentence that says so
// Destroys what r holds once runs under way are over, and frees r, which tc_malloc made. pre:
// begun.
void tc_gpu_retire(tc_gpu *g, tc_gpu_retired *r);
// Waits for all that was asked for before, without the lock, so that other threads may ask for
// more. Then destroys what was retired.
tc_status tc_gpu_wait_for_runs(tc_gpu *g);
void tc_gpu_retired_fini(tc_gpu *g);  // destroys all at once. pre: begun, and the device was waited for
// Frees the staging memory. pre: begun.
void tc_gpu_staging_fini(tc_gpu *g);

// Copies to the device beside its kernels. *out_done false: there is no memory to go through, and
// nothing was done. pre: begun; bytes > 0.
tc_status tc_gpu_upload_run(tc_gpu *g, char *to, const char *from, size_t bytes, bool *out_done);
void tc_gpu_upload_trim(tc_gpu *g);  // frees its device memory. pre: begun, and nothing runs
void tc_gpu_upload_fini(tc_gpu *g);  // frees the rest, too. pre: as before
// Returns whether a copy is large enough to go beside kernels.
bool tc_gpu_is_beside(size_t bytes);

// Begins a copy to the host. pre: not forked; 0 < bytes <= TC_GPU_MOST_READ_BYTES / 2.
tc_status tc_gpu_async_read_begin(tc_gpu *g, void *to, const void *from, size_t bytes);
// Drops copies that nobody waited for. reached false: the driver's objects are not touched.
void tc_gpu_async_read_fini(tc_gpu *g, bool reached);
// Frees their device memory, which no copy reads any more. pre: begun, and nothing runs.
void tc_gpu_async_read_trim(tc_gpu *g);
// Before a run of a sequence: waits until fewer than the limit are in flight. pre: begun.
tc_status tc_gpu_in_flight_wait(tc_gpu *g);
tc_status tc_gpu_in_flight_mark(tc_gpu *g);  // behind the run, once it was launched. pre: begun
// Returns the event behind a run, counted from 1; NULL: the run is over. pre: locked.
void *tc_gpu_in_flight_of(const tc_gpu *g, uint64_t run);
void tc_gpu_in_flight_fini(tc_gpu *g, bool reached);

// Compiles a kernel of the device's own, which *slot keeps until the device is closed.
tc_status tc_gpu_code_keep(tc_gpu *g, const char *name, const char *source, tc_gpu_code **slot);

// ---- the kernels that write tables (fill.c) ----

#define TC_GPU_FILL_HEAD 2  // words of the parameter before the table's
extern const uint32_t tc_gpu_fill_words[TC_GPU_FILLS];  // the most that each kernel writes
uint32_t tc_gpu_fill_most(const tc_gpu *g);  // of the largest kernel that the driver takes
uint32_t tc_gpu_fill_size(uint32_t n_words);  // the smallest kernel that writes n_words

struct tc_gpu_call {
  _Atomic uint32_t refs;
  tc_gpu *g;
  uint64_t opened;  // the device's count when it was made
  tc_gpu_work work;
  tc_gpu_algorithm algorithm;
  void *made;
  tc_gpu_retired *retired;  // allocated ahead, so that release cannot fail
  char name[96];  // "library_bf16_64x128x32", with "_by3" for a batch; "library_f16_conv_8x56x56x64_128x3x3"
};

struct tc_gpu_code {
  _Atomic uint32_t refs;
  tc_gpu *g;
  uint64_t opened;  // the device's count when it was loaded
  bool from_disk;  // true: it was not compiled
  tc_gpu_loaded loaded;
  tc_holder holder;  // of the image's size
  uint32_t shared_bytes;  // allowed so far; under the device's lock
  tc_gpu_retired *retired;  // allocated ahead, so that release cannot fail
  char name[];
};
