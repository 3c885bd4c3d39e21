// Keys that differ in sizes alone: which of their numbers vary, and how they follow from a few
// sizes.
//
//   f32[8,64] -> reshape [512]
//   f32[9,64] -> reshape [576]     ->   s = 8 and 9; f32[s,64] -> reshape [64 s]
//
// In: closed keys of one pattern. Out: a map from sizes to keys, and from keys to sizes.
// Invariants: a key is of a map only if every word of it is what the map makes of its sizes. So a
// wrong guess finds nothing, and never another key's plan.
// Threads: a map is immutable once made. Owner: whoever made it.
#pragma once

#include "lazy/sync/size_expr.h"
#include "lazy/trace/plan.h"

#define TC_MOST_KEYS 4  // of a map

typedef struct tc_size_map tc_size_map;

// The hash of a key without extents that are more than 1, and the amounts of paddings. 0: the
// records hold an op, or a device, whose plans are not bound to sizes.
uint64_t tc_size_pattern(const uint64_t *word, uint32_t n_rec_words, uint32_t n_word, const uint32_t *at,
                         uint32_t n_node);
// The map that these keys, base's among them, have in common. NULL: none is found, or there is no
// memory. base is borrowed and must outlive it.
tc_size_map *tc_size_map_create(const tc_plan *base, const uint64_t *const *key, uint32_t n_key);
void tc_size_map_destroy(tc_size_map *m);
uint32_t tc_size_map_count(const tc_size_map *m);
// The sizes of a key with the base's pattern and length. False: it is no key of this map.
bool tc_size_map_find(const tc_size_map *m, const uint64_t *word, int64_t *size);
// A copy of the base with the words and output bytes of these sizes, for tc_size_source.plan_at.
bool tc_size_map_plan_at(const tc_size_map *m, const int64_t *size, tc_plan *out);
