// Merges fusions that read the same and not one another, so that it is read once. Inside fusion;
// not for others.
#ifndef TC_LOWERING_FUSION_MERGE_H
#define TC_LOWERING_FUSION_MERGE_H

#include "lowering/fusion/fuser.h"

// Groups over the same domain that read the same data, and not one another's results, become one.
void tc_fuser_merge_siblings(tc_fuser *w);
// A norm's gradient also sums the columns of the rows it goes over: made in the same kernel, the
// rows are read once. Each column is still one chain of sums a part, in the order of rows. Parts
// are few, so that they must be enough for the threads.
void tc_fuser_merge_columns(tc_fuser *w);

#endif
