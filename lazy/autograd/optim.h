// What a gradient scaler asks of an optimizer beside tc.h.
//
// In: an optimizer. Out: its parameters by device, and a step that may be skipped on the device.
// Threads: thread-compatible. Owner: nobody.
#pragma once

#include "lazy/trace/node.h"

// The devices of its parameters, by first appearance; which of them the i-th parameter is on.
int tc_optimizer_n_parts(const tc_optimizer *opt);
int tc_optimizer_part(const tc_optimizer *opt, int i);
// tc_optimizer_step that leaves parameters, state and counts of steps as they are where skip is
// true, a bool of rank 0 on each device.
tc_status tc_optimizer_step_unless(tc_optimizer *opt, const tc_tensor *skip, tc_site site);
