// Checks of memory that the caller gives: what its pointer is to, and whether it holds a tensor.
//
// In: a pointer, its type, a shape. Out: the first thing that is wrong, reported.
// Threads: as the open op. Owner: nobody.
#pragma once

#include "lazy/record/record.h"

// Whether a pointer of that type may be to elements of the other.
bool tc_host_data_fits(tc_ctype c, tc_type type);
// Poison, after reporting that it may not.
tc_tensor tc_host_data_refuse(const char *op, tc_ctype c, tc_type type, tc_site site);
// Whether data may be the elements of a tensor, n of them; false after reporting.
bool tc_host_data_check(tc_trace *t, const void *data, const tc_dims *shape, tc_type type, int64_t *n);
