// Lowers a recorded function for one target, and adds the plan and its kernels to a file's tables.
//
// In: a recorded function. Out: records of a plan in the writer.
// Invariants: what is written depends on the plan and the target, not on the instruction sets that
// this processor has. The team's number of threads is a part of the plan.
// Threads: of the exporting thread; the team compiles. Owner: the caller owns all.
#pragma once

#include "lowering/export/constants.h"
#include "lowering/export/record.h"
#include "lowering/export/targets.h"
#include "lowering/export/writer.h"

typedef struct tc_lowering_for {
  tc_export_target target;
  bool interpreted;  // kernels are kept as kernel IR
  bool store_constants;
  const uint32_t *weight;  // per leaf of the plan that is no input: its number in the file
} tc_lowering_for;

// n_results: outputs of the function. kept: as tc_stored_constants_make says.
tc_status tc_export_lower(const tc_recorded *r, const tc_lowering_for *how, int n_results, tc_tcx_writer *w,
                          tc_tcx_plan *out, tc_stored_constants **kept);
