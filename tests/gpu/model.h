// What the model of a GPU's launches (model.c) knows of runs: what was found, buffers in use,
// launches that are awaited, and what was in use when a run was asked for. Included once.
#pragma once

#include "device/gpu/state.h"
#include "tests/child.h"

enum { MOST_LIVE = 512, MOST_BEGUN = 4096, MOST_LISTS = 32, MOST_RUNS = 256 };

// ---- what was found ----

enum { LIST = 1, WORDS = 2, MEMORY = 4, QUEUE = 8, VALUES = 16 };
static unsigned found;  // kinds of mistakes
static bool quiet;  // they are planted

#define MISTAKE(kind, ...) \
  do { \
    if (!quiet && !(found & (kind))) printf(__VA_ARGS__), printf("\n"); \
    found |= (kind); \
  } while (0)

// ---- buffers in use ----

static struct {
  tc_buffer *buf;
  uintptr_t at, end;
} live[MOST_LIVE];
static int n_live;
static uintptr_t lowest = UINTPTR_MAX, highest;  // of all buffers there ever were

static int live_at(uintptr_t p) {
  for (int i = 0; i < n_live; i++)
    if (p >= live[i].at && p < live[i].end) return i;
  return -1;
}

// ---- what must begin ----

typedef struct span {
  uintptr_t at;
  uint64_t bytes;
} span;

typedef struct run {
  bool calls, replayed;  // it has calls of a library; it was asked for as a graph
  uint32_t n_copies;  // for its calls, that began
  int n_held;
  span *held;  // memory in use when it was asked for
} run;
static run runs[MOST_RUNS];
static uint32_t n_runs;

typedef struct awaited {
  const char *kernel;  // NULL: a library's product
  uint32_t blocks, threads, n_words;
  uint64_t *words;
  bool last;  // of its run
  run *of;
} awaited;
static awaited begin[MOST_BEGUN];
static uint32_t n_awaited, n_begun;
static uint32_t n_asked, n_done, most_ahead;  // runs
static uint32_t n_products;  // of a library's that began

static run *run_begin(void) {
  EXPECT(n_runs < MOST_RUNS, "too many runs");
  if (n_runs == MOST_RUNS) exit(1);
  run *r = &runs[n_runs++];
  *r = (run){.n_held = n_live, .held = malloc(((size_t)n_live + 1) * sizeof *r->held)};
  for (int i = 0; i < n_live; i++) r->held[i] = (span){live[i].at, live[i].end - live[i].at};
  return r;
}

static void runs_end(void) {
  for (uint32_t i = 0; i < n_awaited; i++) free(begin[i].words);
  for (uint32_t i = 0; i < n_runs; i++) free(runs[i].held);
}
