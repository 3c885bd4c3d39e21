// A device's state, for the files of this directory alone.
#ifndef TC_DEVICE_GPU_STATE_H
#define TC_DEVICE_GPU_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/gpu/driver.h"
#include "device/gpu/library.h"
#include "device/holders.h"

#define TC_GPU_FILLS 4
#define TC_GPU_PIECES 8
#define TC_GPU_PIECE_BYTES ((size_t)1 << 20)
#define TC_GPU_MOST_PIECES 64

// What the host writes goes through pinned memory, piece after piece in turn, so that the caller's
// own may be written again at once.
typedef struct tc_gpu_staging {
  char *at;
  void *event[TC_GPU_PIECES];  // recorded behind the last copy of a piece
  uint32_t piece;              // being filled
  size_t used;                 // bytes of it
} tc_gpu_staging;

// A piece of device memory that a large upload goes through.
typedef struct tc_gpu_piece {
  void *at, *moved;  // moved: an event, recorded in WORK behind the copy out of it
} tc_gpu_piece;

typedef struct tc_gpu_upload {
  char *pinned;
  void *sent[TC_GPU_PIECES];  // events, recorded in UP behind the last copy of a piece of pinned memory
  uint32_t piece;  // of pinned memory, the next one
  tc_gpu_piece there[TC_GPU_MOST_PIECES];
  uint32_t n_there, next;
  uint64_t run;  // that was asked for last before the last upload
} tc_gpu_upload;

// What runs under way may still use: destroyed when the device has been waited for.
typedef struct tc_gpu_retired tc_gpu_retired;
struct tc_gpu_retired {
  tc_gpu_retired *next;
  tc_gpu_loaded loaded;   // of code, or
  tc_gpu_replay *replay;  // of a sequence, or
  void *made;             // of a call of this library
  tc_gpu_library library;
};

// Runs of sequences on their way.
typedef struct tc_gpu_ahead {
  void **mark;  // a ring of n events, each recorded behind a run
  uint32_t n;
  _Atomic uint64_t n_runs;  // asked for since the device was opened; written under the lock
} tc_gpu_ahead;

// Copies to the host that are waited for later: at most so many bytes of either side. What is
// larger alone is read at once.
#define TC_GPU_MOST_LATER_BYTES ((size_t)64 << 20)
typedef struct tc_gpu_later tc_gpu_later;
struct tc_gpu_later {
  tc_gpu_later *next;
  void *to;
  size_t bytes, room;
  void *pinned, *event;
  void *there;  // on the device; NULL: none was needed yet
};

struct tc_gpu {
  const tc_gpu_driver *driver;
  tc_device device;
  pthread_mutex_t lock;  // of all below, but facts, which stay as they are
  tc_gpu_port port;
  tc_gpu_facts facts;
  atomic_bool open, lost;
  atomic_bool doubtful;   // another device was lost: this one is asked whether it answers
  bool outside;           // it could not be entered again (tc_gpu_make_room): tc_gpu_end does not leave it
  uint64_t opened;        // how often: what an earlier time made is gone
  char why[320];          // lost
  char sentence[320];
  tc_gpu_staging to, from;
  tc_gpu_upload upload;
  void *behind;  // an event, recorded behind all that was asked for
  tc_gpu_ahead ahead;
  pthread_mutex_t reading;  // of `from` and what follows; taken before lock
  tc_gpu_later *later, *later_free;  // under way, the oldest first; their memory, to be used again
  size_t later_bytes;                // of both
  tc_gpu_retired *retired;
  uint32_t n_retired;
  tc_gpu_code *fill[TC_GPU_FILLS];  // kernels that write tables, by size
  tc_gpu_code *copier;  // one that copies operands (graph_copies.h)
  tc_library_once library[TC_GPU_N_LIBRARIES];  // since the device was opened
};

extern tc_gpu tc_gpus[TC_N_DEVICES][TC_MOST_ORDINALS];  // by row and ordinal; all zero: never opened

// Takes the device's lock and enters it. TC_ERR_DEVICE if it is lost. what: what was asked for,
// static text for messages.
tc_status tc_gpu_begin(tc_gpu *g, const char *what);
void tc_gpu_end(tc_gpu *g);
// As tc_gpu_begin, for what gives something back: false, and no error, if the device is out of
// reach.
bool tc_gpu_reach(tc_gpu *g);
// A driver's result as a status, under the lock or not. The device is lost where the result says
// so.
tc_status tc_gpu_check(tc_gpu *g, int result, const char *what);
bool tc_gpu_is_short(const tc_gpu *g, int result);
// TC_ERR_MEMORY, with what holds the device's memory. what: what was asked for. pre: begun.
tc_status tc_gpu_tell_short(tc_gpu *g, const char *what);
// The same as tc_gpu_check where nothing can be returned: a line in the log.
void tc_gpu_note(tc_gpu *g, int result, const char *what);

// ---- where memory is short (reclaim.c) ----

// Waits for the device, and gives back what it keeps and nobody uses. pre: begun.
tc_status tc_gpu_trim(tc_gpu *g);
// The same, and before it what layers above keep and can make again, which takes the device's lock:
// others may have had it meanwhile. pre: begun, and is so afterwards, but that after an error
// nothing more may be asked of the device.
tc_status tc_gpu_make_room(tc_gpu *g);
// What layers above keep and can make again goes back to the device. Called without locks of the
// device.
void tc_gpu_evict(tc_gpu *g);
// An event, or one that keeps the time; pinned memory of the host. They trim, and try again. pre:
// begun.
tc_status tc_gpu_event(tc_gpu *g, bool timer, void **out);
tc_status tc_gpu_pinned(tc_gpu *g, size_t bytes, void **out);

// What a child is told that would use its parent's devices.
#define TC_GPU_FORKED "the process was forked after a GPU was opened, and a child cannot use it: fork first, or start another program in the child"
// A driver's devices are about to be used. pre: opening is locked.
void tc_gpu_touch(void);
// Whether the process was forked since a driver was opened: then nothing of it may be touched.
bool tc_gpu_forked(void);
tc_status tc_gpu_refuse_lost(const tc_gpu *g);  // TC_ERR_DEVICE, with what happened
tc_status tc_gpu_refuse_forked(void);  // TC_ERR_DEVICE, with a sentence that says so
// Destroys it when runs under way are over. pre: locked and entered. Takes over what r holds; r is
// of tc_malloc.
void tc_gpu_retire(tc_gpu *g, tc_gpu_retired *r);
// Waits for all that was asked for before, without the lock, so that other threads may ask for
// more; then destroys what was retired.
tc_status tc_gpu_wait_for_runs(tc_gpu *g);
void tc_gpu_retired_fini(tc_gpu *g);  // pre: locked and entered, and the device was waited for
// Gives staging memory back. pre: locked and entered.
void tc_gpu_staging_fini(tc_gpu *g);

// A copy to the device beside its kernels. *out_done: false where there is no memory to go through,
// and nothing was done. pre: locked and entered; bytes > 0.
tc_status tc_gpu_upload_run(tc_gpu *g, char *to, const char *from, size_t bytes, bool *out_done);
void tc_gpu_upload_trim(tc_gpu *g);  // gives the device's memory back. pre: locked and entered, and nothing runs
void tc_gpu_upload_fini(tc_gpu *g);  // likewise
// Whether a copy of so many bytes is worth its way beside kernels.
bool tc_gpu_is_beside(size_t bytes);

// Begins a copy to the host. pre: not forked; 0 < bytes <= TC_GPU_MOST_LATER_BYTES / 2.
tc_status tc_gpu_later_begin(tc_gpu *g, void *to, const void *from, size_t bytes);
// Forgets copies that nobody waited for. reached: as in destroying anything, whether the device can
// be asked.
void tc_gpu_later_fini(tc_gpu *g, bool reached);
// Gives the device's memory back, which none of them reads any more. pre: locked and entered, and
// nothing runs.
void tc_gpu_later_trim(tc_gpu *g);
// Before a run of a sequence: waits while so many as may be are on their way. pre: locked and
// entered.
tc_status tc_gpu_ahead_wait(tc_gpu *g);
tc_status tc_gpu_ahead_mark(tc_gpu *g);  // behind it, once it was asked for. pre: as before
// The event behind a run, counted from 1; NULL: it is over. pre: locked.
void *tc_gpu_ahead_of(const tc_gpu *g, uint64_t run);
void tc_gpu_ahead_fini(tc_gpu *g, bool reached);

// ---- the kernels that write tables (fill.c) ----

#define TC_GPU_FILL_HEAD 2  // words of their parameter before those that they write
extern const uint32_t tc_gpu_fill_words[TC_GPU_FILLS];  // that each writes at most
uint32_t tc_gpu_fill_most(const tc_gpu *g);  // of the largest kernel that the driver takes
uint32_t tc_gpu_fill_size(uint32_t n_words);  // the least that writes so many

struct tc_gpu_call {
  _Atomic uint32_t refs;
  tc_gpu *g;
  uint64_t opened;  // the device's when it was made
  tc_gpu_work work;
  tc_gpu_algorithm algorithm;
  void *made;
  tc_gpu_retired *retired;  // taken ahead, so that release cannot fail
  char name[96];  // "library_bf16_64x128x32", and "_by3" of a batch; "library_f16_conv_8x56x56x64_128x3x3"
};

struct tc_gpu_code {
  _Atomic uint32_t refs;
  tc_gpu *g;
  uint64_t opened;  // the device's when it was loaded
  bool from_disk;  // and not compiled
  tc_gpu_loaded loaded;
  tc_holder holder;  // of the image's size
  uint32_t shared_bytes;  // allowed; under the device's lock
  tc_gpu_retired *retired;  // taken ahead, so that release cannot fail
  char name[];
};

#endif
