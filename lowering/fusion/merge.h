// Merges fusions that read the same data and do not depend on each other, so that it is read once.
// Internal to fusion/.
#pragma once

#include "lowering/fusion/fuser.h"

// Merges fusions of one kind and domain that read the same data and not each other's results.
void tc_fuser_merge_siblings(tc_fuser *w);
// Merges column sums into the ROW fusion over the same rows, as in the gradient of a norm: the rows
// are then read once. Each column stays one chain of additions per part, in the order of rows.
// Parts are the units of work, so a merge needs enough of them for all threads.
void tc_fuser_merge_columns(tc_fuser *w);
