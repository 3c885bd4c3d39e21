// See page_tracks.h.
#include "tools/prof/page_tracks.h"

#include <stdlib.h>

enum { MOST_SLICES = 4000 };  // of a page; the longest

static bool add_slice(tc_tracks *t, uint32_t track, uint64_t begin_ns, uint64_t ns, uint32_t name) {
  if (t->n >= t->room) {
    size_t room = t->room ? 2 * t->room : 256;
    tc_slice *more = realloc(t->slice, room * sizeof *more);
    if (!more) return false;
    t->slice = more;
    t->room = room;
  }
  t->slice[t->n++] = (tc_slice){track, name, begin_ns, ns};
  return true;
}

static bool add_compiles(tc_profile *p, tc_tracks *t) {
  for (size_t i = 0; i < p->n_compiles; i++) {
    const tc_prof_compile c = tc_profile_compile(p, i);
    uint64_t ns = c.emit_ns + c.optimize_ns + c.generate_ns + c.load_ns;
    if (ns && !add_slice(t, c.thread, c.begin_ns, ns, c.name)) return false;
  }
  return true;
}

// The kernel's number stands in a slice's name until the plan's rows are read.
static bool add_kernels(tc_profile *p, tc_tracks *t) {
  for (size_t i = 0; i < p->n_times; i++) {
    const tc_record_at *at = &p->times[i];
    const tc_point *point = tc_profile_point(p, at->sequence);
    const tc_prof_plan *plan = point ? tc_profile_plan_record(p, point->plan) : NULL;
    const tc_prof_kernel_time *time = plan ? tc_profile_times(p, at) : NULL;
    size_t first = t->n;
    for (uint32_t k = 0; time && k < at->n; k++)
      if (time[k].kernel < plan->n_kernels && time[k].ns &&
          !add_slice(t, TC_TRACK_KERNELS, time[k].begin_ns, time[k].ns, time[k].kernel))
        return false;
    const tc_prof_kernel *kernel = t->n > first ? tc_profile_kernels(p, plan) : NULL;
    for (size_t k = first; k < t->n; k++) t->slice[k].name = kernel ? kernel[t->slice[k].name].name : 0;
  }
  return true;
}

static int by_length(const void *a, const void *b) {
  const tc_slice *x = a, *y = b;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static int by_track(const void *a, const void *b) {
  const tc_slice *x = a, *y = b;
  if (x->track != y->track) return x->track < y->track ? -1 : 1;
  return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

bool tc_tracks_make(tc_profile *p, tc_tracks *out) {
  *out = (tc_tracks){0};
  if (!add_kernels(p, out) || !add_compiles(p, out)) return tc_tracks_free(out), false;
  if (out->n) qsort(out->slice, out->n, sizeof *out->slice, by_length);
  if (out->n > MOST_SLICES) out->n_left_out = out->n - MOST_SLICES, out->n = MOST_SLICES;
  if (out->n) qsort(out->slice, out->n, sizeof *out->slice, by_track);
  return true;
}

void tc_tracks_free(tc_tracks *t) {
  free(t->slice);
  *t = (tc_tracks){0};
}
