// A program's steps as launches on a GPU: which code, how many blocks, and where each word of their
// table comes from at a run.
//
// All steps of a program are one sequence, in the order of its waves, except those that prepare: of
// these a run does some, so each is a sequence of its own. Bad indices are found by launches of
// their own that write the run's fault word; generated kernels look at it first, so that nothing is
// written after.
// Threads: immutable once finished, but for maps' words as the latest run had them, under a lock;
// many threads may run one.
#ifndef TC_LOWERING_PROGRAM_GPU_LAUNCHES_H
#define TC_LOWERING_PROGRAM_GPU_LAUNCHES_H

#include "lowering/program/program_types.h"

typedef struct tc_gpu_launches tc_gpu_launches;

// pre: the program's steps are in order, with the pending_kernels of their kernels. one_by_one: a
// sequence a step. What is launched is known; to be finished before it runs.
tc_status tc_gpu_launches_create(const tc_program *p, bool one_by_one, tc_gpu_launches **out);
// Kernels that it wants beside those of its steps, which are compiled with them: of rows, borrowed
// from it (NULL: they are counted), and of the GPU's own those that it does not have yet, a bit for
// each.
uint32_t tc_gpu_launches_requests(const tc_gpu_launches *l, tc_kernel_request *request);
uint32_t tc_gpu_launches_own(const tc_gpu_launches *l);
// The steps' kernels are compiled, and those it wished for, in the same order, are `made`:
// references that it takes, whatever the status.
tc_status tc_gpu_launches_finish(tc_gpu_launches *l, const tc_kernel_request *made);
void tc_gpu_launches_destroy(tc_gpu_launches *l);  // NULL is fine
// Bytes of the host's memory that they hold.
size_t tc_gpu_launches_held(const tc_gpu_launches *l);
// Bytes that a run needs in its arena behind the program's blocks.
size_t tc_gpu_launches_bytes(const tc_gpu_launches *l);
// How the latest run's launches were made, of a program that is not one by one.
typedef struct tc_gpu_how {
  bool replayed;  // by one replay of a graph
  const char *note;  // static text: why not, why it waited, or why it copies; NULL: none of these
  size_t copied_bytes;  // of operands and results of libraries, by the graph
} tc_gpu_how;
tc_gpu_how tc_gpu_launches_how(const tc_gpu_launches *l);
// Room for a run's words.
uint32_t tc_gpu_launches_words(const tc_gpu_launches *l);

// The fault word where no index was bad; else check << TC_GPU_FAULT_SHIFT | position of the first
// bad index, check counting the program's CHECK steps.
#define TC_GPU_NO_FAULT UINT64_MAX
#define TC_GPU_FAULT_SHIFT 48

// Enqueues. words: scratch of the call. skip: steps that need not run, of a program one by one;
// NULL: none. Where steps check indices it waits and gives the fault word, else TC_GPU_NO_FAULT.
tc_status tc_gpu_launches_run(tc_gpu_launches *l, const tc_program *p, const tc_storages *at, const uint64_t *num,
                              const uint64_t *skip, uint64_t *words, uint64_t *out_fault);

#endif
