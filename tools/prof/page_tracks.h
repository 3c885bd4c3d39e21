// What runs beside the syncs in the page's time: kernels, where they were timed, and compiles.
// In: a profile. Out: slices by track and begin, the longest of them if there are many.
// Threads: one. Owner: tc_tracks_free.
#pragma once

#include "tools/prof/profile.h"

enum { TC_TRACK_KERNELS = 0 };  // else the number of the thread that compiled

typedef struct tc_slice {
  uint32_t track, name;  // name: text
  uint64_t begin_ns, ns;
} tc_slice;

typedef struct tc_tracks {
  tc_slice *slice;
  size_t n, room, n_left_out;
} tc_tracks;

// False: there was no memory; out is empty.
bool tc_tracks_make(tc_profile *p, tc_tracks *out);
void tc_tracks_free(tc_tracks *t);
