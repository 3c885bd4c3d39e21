// Why syncs had no plan in the cache: each against the nearest graph that was known.
// In: a profile and its groups. Out: a row a miss, in the order of the file.
// Threads: one. Owner: tc_misses_free.
#pragma once

#include "tools/prof/graph_text.h"
#include "tools/prof/groups.h"

typedef struct tc_miss_row {
  uint32_t point, group;
  uint32_t near;  // plan that it is nearest to; 0: none is like it
  bool is_known;  // near is a plan of the same graph
  bool is_first;  // the first graph of its place
} tc_miss_row;

typedef struct tc_misses {
  tc_miss_row *row;
  size_t n;
  double cost_ns;  // to lower and compile, of all rows
  double bound_ns;  // .. and to bind, of all bound plans
} tc_misses;

enum {
  TC_STORM_MISSES = 8,  // so many misses of one place in a thread ..
  TC_STORM_PERCENT = 50,  // .. and so many of its syncs there are a storm
};

// Whether the sync's plan had to be lowered; one bound to new sizes was in the cache.
bool tc_is_miss(const tc_point *point);
// with_bound: syncs whose plan was bound have a row, too. False: there was no memory; out is empty.
bool tc_misses_find(tc_profile *p, const tc_groups *g, bool with_bound, tc_misses *out);
void tc_misses_free(tc_misses *m);
double tc_miss_cost(const tc_point *point);

// A miss beside its nearest graph; the texts are read again each time.
typedef struct tc_miss_view {
  tc_graph_text old, now;
  tc_difference difference;
} tc_miss_view;
// False: there is no nearest graph, no text or no memory; close is due only after true.
bool tc_miss_open(tc_profile *p, const tc_miss_row *row, tc_miss_view *out);
void tc_miss_close(tc_profile *p, const tc_miss_row *row, tc_miss_view *v);
// The difference in words: "dim 0 of %0 leaf: 32 -> 33".
void tc_miss_words(const tc_difference *d, char *out, size_t bytes);
