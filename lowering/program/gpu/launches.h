// A program's steps as GPU launches: code, grid, and the source of each word of their tables.
// All steps of a program form one sequence, in the order of its stages. Steps of control flow cut
// it, since the host runs them. Steps that compute cached
// constants are a sequence each, since a run needs only some of them. Index checks are launches of
// their own that write the run's fault word. Generated kernels test it first, so nothing is written
// after a bad index.
// Threads: immutable once finished, but for the latest words of tensor maps, under a lock; many
// threads may run one.
#pragma once

#include "lowering/program/program_types.h"

typedef struct tc_gpu_launches tc_gpu_launches;

// pre: the program's steps are in order, and have their pending kernels. one_by_one: true: a
// sequence per step. The result must be finished before it runs.
tc_status tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out);
// The extra kernels to compile with those of the steps. tc_gpu_launches_requests: row kernels,
// borrowed from l; NULL returns only their number. tc_gpu_launches_own: built-in GPU kernels not
// compiled yet, as a bit mask.
uint32_t tc_gpu_launches_requests(const tc_gpu_launches *l, tc_kernel_request *request);
uint32_t tc_gpu_launches_own(const tc_gpu_launches *l);
// Finishes the launches once the steps' kernels are compiled. made: the requested kernels in the
// same order, whose references it takes, whatever the status.
tc_status tc_gpu_launches_finish(tc_gpu_launches *l, const tc_kernel_request *made);
void tc_gpu_launches_destroy(tc_gpu_launches *l);  // NULL is fine
// Host memory that they hold.
size_t tc_gpu_launches_held(const tc_gpu_launches *l);
// Bytes that a run needs in its arena behind the program's allocations.
size_t tc_gpu_launches_bytes(const tc_gpu_launches *l);
// How the latest run was launched, of a program that is one sequence.
typedef struct tc_gpu_how {
  bool replayed;  // true: by one replay of a graph
  const char *note;  // static text: why not, why it waited, or why it copies; NULL: none of these
  size_t copied_bytes;  // operands and results of library calls that the graph copies
} tc_gpu_how;
tc_gpu_how tc_gpu_launches_how(const tc_gpu_launches *l);
// Number of words that a run needs.
uint32_t tc_gpu_launches_words(const tc_gpu_launches *l);

// The fault word where no index was bad; else check << TC_GPU_FAULT_SHIFT | position of the first
// bad index, check counting the program's CHECK steps.
#define TC_GPU_NO_FAULT UINT64_MAX
#define TC_GPU_FAULT_SHIFT 48

// Runs a step of control flow between the sequences before and behind it.
typedef struct tc_gpu_between {
  tc_status (*run)(void *arg, const tc_step *s);
  void *arg;
} tc_gpu_between;

// Enqueues a run. words: scratch for the call. skip: per step, nonzero if it need not run, in
// one_by_one mode; NULL: all run. If steps check indices, it waits and returns the fault word, else
// TC_GPU_NO_FAULT.
// This thread's next runs are timed into times, per step of the program. NULL: they are not.
void tc_gpu_launches_time(const tc_program *p, tc_step_time *times);
tc_status tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at, const uint64_t *num,
                              const uint64_t *skip, uint64_t *words, const tc_gpu_between *between,
                              uint64_t *out_fault);
