// One record per sync point, kept by the runtime: a ring of the latest, and sums per call site. TC_PROFILE=1 prints a table at exit.
// Threads: thread-safe.
#ifndef TC_RUNTIME_PROFILE_H
#define TC_RUNTIME_PROFILE_H

#include "runtime/status.h"

typedef struct tc_profile_record {
  const char *cause;       // static
  tc_site site;
  uint64_t hash;           // of the plan's key
  uint32_t n_nodes, n_kernels, n_compiled;
  bool hit;
  tc_status status;
  uint64_t bytes;          // moved by kernels, as planned
  uint64_t start_ns, plan_ns, run_ns, total_ns;  // plan: look up or lower and compile; total - plan - run: the rest
} tc_profile_record;

void tc_profile_add(const tc_profile_record *record);
// Prints sums per site with a histogram of graph sizes.
void tc_profile_print(FILE *out);
// Sync points since start.
uint64_t tc_profile_count(void);

#endif
