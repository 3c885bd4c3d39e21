// See regions.h.
#include "tools/prof/regions.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b) {
  const tc_region_row *x = a, *y = b;
  if (x->ns + x->record_ns != y->ns + y->record_ns) return x->ns + x->record_ns < y->ns + y->record_ns ? 1 : -1;
  return (x->region > y->region) - (x->region < y->region);
}

tc_region_row *tc_regions_make(const tc_profile *p, size_t *n) {
  tc_region_row *row = calloc(p->n_texts + 1, sizeof *row);  // by text at first
  bool any = false;
  *n = 0;
  if (!row) return NULL;
  for (size_t i = 0; i < p->n_points; i++) {
    const tc_point *point = &p->point[i];
    const tc_plan *plan = tc_profile_plan(p, point->plan);
    tc_region_row *r = &row[point->region];
    any = any || point->region;
    r->region = point->region;
    r->n_syncs++;
    r->ns += (double)point->ns[TC_PHASE_TOTAL];
    r->record_ns += (double)point->ns[TC_PHASE_RECORD];
    r->nodes += plan ? plan->n_nodes : 0;
  }
  for (size_t i = 0; any && i <= p->n_texts; i++)
    if (row[i].n_syncs) row[(*n)++] = row[i];
  if (*n) qsort(row, *n, sizeof *row, by_time);
  return row;
}
