// Sums of syncs by call site and cause, with the spread of graph sizes and a verdict.
// In: a profile that was read. Out: rows, the dearest first, and a row of all.
// Invariants: each sync is in one row. Threads: one. Owner: tc_groups_free.
#pragma once

#include "tools/prof/profile.h"

// Times that do not overlap: a phase that lies in another is taken out of it.
typedef enum tc_part {
  TC_PART_OUTSIDE,
  TC_PART_RECORD,
  TC_PART_LOOKUP,
  TC_PART_LOWER,
  TC_PART_COMPILE,
  TC_PART_ALLOCATE,
  TC_PART_LAUNCH,
  TC_PART_RUN,
  TC_PART_WAIT,
  TC_PART_PUBLISH,
  TC_PART_UNACCOUNTED,
  TC_N_PARTS,
} tc_part;
extern const char *const tc_part_names[TC_N_PARTS];
// Of the phases of one sync, or of their sums. What was awaited is of wait; without it in ns, of outside.
void tc_parts_of(const double ns[TC_N_PHASES], double out[TC_N_PARTS]);

typedef enum tc_verdict {
  TC_VERDICT_GOOD,
  TC_VERDICT_ONCE,  // one sync: nothing can be said
  TC_VERDICT_TINY,
  TC_VERDICT_HUGE,
  TC_VERDICT_GROWING,
  TC_VERDICT_NEVER_REPEATS,
  TC_VERDICT_CHANGING,
  TC_VERDICT_FAILS,
} tc_verdict;
extern const char *const tc_verdict_names[];

// Thresholds of verdicts; docs/profiler.md says why.
enum {
  TC_TINY_NODES = 8,  // a median below it, in a sync shorter than the next: its own cost is most of it
  TC_TINY_NS = 100000,
  TC_HUGE_NODES = 4096,  // a median from it on: lowering takes seconds
  TC_TREND_SYNCS = 8,  // fewer syncs of a place show no trend
  TC_GROWING_PERCENT = 125,  // median nodes of the last quarter against the first's
  TC_GROWING_GRAPHS = 8,  // .. of more graphs than so many,
  TC_GROWING_HITS_PERCENT = 90,  // .. or with fewer hits in the last quarter
  TC_REPEATS_PERCENT = 10,  // found in the cache less often: a graph does not repeat
  TC_CHANGING_PERCENT = 50,  // of syncs with a new graph or sizes, and of time that goes into these: it changes
};

enum { TC_N_SIZES = 24 };  // graphs of 2^i to 2^(i+1) - 1 nodes, i from 0; the last is open

typedef struct tc_spread {
  double least, median, p99, most;
} tc_spread;

typedef struct tc_group {
  uint32_t site, cause;  // texts
  uint32_t n_syncs, n_planned, n_hits, n_failed,
      n_wrong;  // hits: with those bound; planned: with a plan, and not failed
  uint32_t n_missed[8];  // by tc_prof_miss
  uint32_t n_plans;  // graphs that were used here first; threads that race make plans of one graph
  uint32_t n_graphs;  // .. and all that were used here
  uint32_t first, last;  // sequences
  uint64_t size[TC_N_SIZES];  // syncs with a plan by nodes recorded
  tc_spread nodes, ns;  // ns: of total
  uint32_t n_cached;  // syncs that hit, bound nothing and did not fail
  tc_spread cached_ns, before_ns;  // of those; before: outside and recording
  double last_hits;  // share of the last quarter that hit
  double first_nodes, last_nodes;  // medians of the first and the last quarter; 0: too few syncs
  double sum_nodes, sum_left, sum_kernels, sum_launches, sum_again;
  double bytes, least_bytes, flops, held_bytes, bus_bytes, copied_bytes, cached_bytes;
  double most_planned_bytes, most_peak_bytes;
  double phase[TC_N_PHASES];
  double n_unused;  // values stored that nothing read
  tc_verdict verdict;
} tc_group;

typedef struct tc_groups {
  tc_group *group;  // by time, the longest first
  size_t n;
  uint32_t *of_point;  // the group of each point
  tc_group all;
  uint64_t begin_ns, end_ns;  // of the first sync's recording, and of the last sync
} tc_groups;

// False: there was no memory; out is empty.
bool tc_groups_make(tc_profile *p, tc_groups *out);
void tc_groups_free(tc_groups *g);

// Sorts values and takes their spread.
tc_spread tc_spread_of(double *value, size_t n);
