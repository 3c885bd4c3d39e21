// Running kernels: a fiber for every thread of a block, one block after the other, or one cluster
// of blocks, every access looked at.
// Callers hold the lock. Between the files run*.c: the block that runs now.
#pragma once

#include "tests/sim/core.h"

// Runs a launch whose limits were checked. The error a device would have from now on, or SIM_OK;
// mistakes that a device would not notice are faults only.
sim_error sim_run(sim_device *d, const sim_launch *l);
// A kernel of a module's code, as the running thread.
void sim_run_code(const struct sim_code *c, const struct sim_function *f, void *params);
// The address of a function that kernels may call, or NULL.
void *sim_word(const char *name);

enum {
  SIM_STACK_BYTES = 256 << 10,
  SIM_MAX_COPIES = 256,
  SIM_MAX_WARP = 64,
  SIM_MAX_FIBERS = SIM_MAX_THREADS * SIM_MAX_CLUSTER
};
// from the memory of one block of a cluster to the next one's
enum { SIM_SHARED_STRIDE = (SIM_MAX_SHARED + 8191) / 4096 * 4096 };

typedef enum sim_meeting {
  SIM_NO_MEETING,
  SIM_SYNC_WARP,
  SIM_DOWN,
  SIM_FROM,
  SIM_LDMATRIX,
  SIM_MMA,
  SIM_MFMA,
  SIM_WGMMA,
  SIM_WGMMA_WAIT
} sim_meeting;
typedef enum sim_thread_state {
  SIM_RUNNING,
  SIM_AT_BARRIER,
  SIM_AT_CLUSTER,
  SIM_AT_MEETING,
  SIM_AT_GATE,
  SIM_DONE
} sim_thread_state;

// An asynchronous copy of a thread's that has not landed.
typedef struct sim_landing {
  uintptr_t to, from;
  int bytes, group;
} sim_landing;

typedef struct sim_thread {
  void *sp;
  uint8_t *stack;
  sim_thread_state state;
  int rank, id, warp, lane, line;  // rank: of its block in the cluster; id and warp are of the block
  struct sim_warp *of_warp;
  // What a meeting of threads of a warp is given and gives:
  sim_meeting meeting;
  uint64_t mask;
  uint32_t value;
  int arg, width;
  const void *row;
  const void *site;
  const struct sim_inst *at;  // of a kernel that the simulator runs itself: the word that it calls
  float d[4];
  uint32_t a[4], b[2], result[4];
  float *sums;  // the accumulator of a product of four warps, and its right factor
  const void *second;
  // Asynchronous copies:
  sim_landing *landing;
  int n_landing, group;
} sim_thread;

typedef struct sim_warp {
  uint16_t clock, full;  // syncs of threads of this warp so far; the last one of all of them
  bool pairs;  // some were of a part: `last` is in use
  uint16_t last[SIM_MAX_WARP][SIM_MAX_WARP];
} sim_warp;

// Who touched four bytes last, and how. See run_check.c.
typedef struct sim_cell {
  uint32_t stamp, writer, reader;
  uint16_t writer_epoch, writer_clock, reader_epoch, reader_clock;
} sim_cell;

// What runs at once: a block, or the blocks of a cluster. block, epoch and shared memory are those
// of the thread that runs.
typedef struct sim_block {
  sim_device *device;
  uintptr_t own_memory;  // where the device's begins
  const sim_launch *launch;
  int n_threads, n_warps, n_blocks, block;  // threads and warps of all blocks that run; blocks of the grid
  int n_ranks, first_block, block_threads;  // blocks that run, the first of them, and the threads of each
  int n_done[SIM_MAX_CLUSTER];  // threads of a block that have ended
  uint32_t stamp, first_stamp;  // of this run, of the launch's first
  uint16_t epoch;  // barriers so far; of clusters see sim_epoch_of
  // of a cluster: counted together; the last one of all; of each block
  uint16_t barriers, cluster_barrier, rank_epoch[SIM_MAX_CLUSTER];
  sim_thread *now;
  sim_error error;  // the launch ends with it
  uint8_t *shared, *shared_state, *all_shared, *all_state;  // all: of the first block
  sim_cell *shared_cell, *all_cell, *cell;
  sim_thread thread[SIM_MAX_FIBERS];
  sim_warp warp[SIM_MAX_FIBERS / 32];
} sim_block;

// In a cluster an epoch names its block, too.
static inline uint16_t sim_epoch_of(uint16_t barriers, int rank) {
  return (uint16_t)(barriers * SIM_MAX_CLUSTER + rank);
}
static inline int sim_epoch_rank(uint16_t epoch) {
  return epoch % SIM_MAX_CLUSTER;
}

extern sim_block sim_run_block;

// From a thread: gives the processor to the others, to come back when its state is RUNNING again;
// or never, when the launch has failed.
void sim_yield(sim_thread_state state);
// From a thread: the launch ends with this error. Does not return.
void sim_kill(sim_error error) __attribute__((noreturn));
// Threads that met: does what they came for. false: the launch has failed.
bool sim_meet(sim_warp *w, sim_thread *const *who, int n);

enum { SIM_READ = 0, SIM_WRITE = 1, SIM_ATOMIC = 2, SIM_READ_ONLY = 4, SIM_ANY_ALIGNMENT = 8, SIM_ISSUE = 16 };
// One access of the thread that runs, by code at `site`. An access that a device would not survive
// ends the launch.
void sim_touch(uintptr_t at, unsigned bytes, unsigned kind, const void *site);
// Is this the block's shared memory?
bool sim_is_shared(uintptr_t at, unsigned bytes);
// From now on this thread runs, or is spoken of.
void sim_turn_to(sim_thread *t);
// A mistake in the kernel that runs: told with its name, block, thread and line.
void sim_kernel_fault(const char *what, const void *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_check_begin(unsigned shared_bytes);
bool sim_check_setup(void);
// Zeros for good, of which a process pays for what it touches; NULL: no memory.
void *sim_pages(size_t bytes);
// A function that the compiler makes a kernel call for its accesses, or NULL.
void *sim_hook(const char *name);

// The same from a thread, with all others of its warp.
void sim_meet_warp(sim_meeting meeting, int width, int line, const void *site);

// Matrices (run_mma.c): d += a b of 16 x n x 16.
typedef struct sim_matrices {
  float a[16][16], b[16][16], d[16][16];
} sim_matrices;
void sim_multiply(sim_matrices *x, int n);
// d += a b for 16 x 8 x 16 of a whole warp, from and to its threads. is_half: f16; else bf16.
void sim_mma(sim_thread *const *who, bool is_half);
// 16 x 16 x 16 of a wave of 64.
void sim_mfma(sim_thread *const *who, bool is_half);

// Gates, boxes and products of four warps (run_box.c).
void sim_gate_init(uint64_t *at, int arrivals);
void sim_gate_await(uint64_t *at, int turn, int line);
bool sim_open_gates(void);  // lets go who waits at gates that open. False: nobody
void sim_map_ready(const void *map);
void sim_fetch_box(void *shared, const void *map, int x, int y, int z, uint64_t *at);
void sim_wgmma(float *d, const void *a, const void *b, int transposed_a, int transposed_b, int is_half, int n,
               int line);
void sim_wgmma_wait(float *d, int most, int n, int line);
bool sim_wgmma_begin(sim_thread *const *who);  // of a warp that has met
bool sim_wgmma_end(sim_thread *const *who);
void sim_boxes_end(void);  // of a thread that ends
