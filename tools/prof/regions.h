// Sums of syncs by the regions that the program named (tc_region_begin).
// In: a profile that was read. Out: rows, the longest first; a region's own syncs, without those of
// regions within. Threads: one. Owner: the caller frees the rows.
#pragma once

#include "tools/prof/profile.h"

typedef struct tc_region_row {
  uint32_t region;  // text; 0: syncs outside all regions
  uint32_t n_syncs;
  double ns, record_ns, nodes;  // ns: of the syncs
} tc_region_row;

// NULL: there was no memory. n is 0 where no region was named.
tc_region_row *tc_regions_make(const tc_profile *p, size_t *n);
