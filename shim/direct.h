// Products by libtc, which is opened at the first one.
#pragma once

#include "shim/shim.h"

// Does a checked call of a real routine; false if libtc is not there or refuses, and nothing was
// written.
bool tc_shim_direct(const tc_shim_call *call, double alpha, double beta);

// libtc, opened from beside the shim, else by its soname; NULL, with dlerror's text.
void *tc_shim_open_library(void);
// It, if it was opened and is the shim's alone; else NULL.
void *tc_shim_library_of_ours(void);
// pre: it was opened. Whether the program had it before the shim, for use of its own.
bool tc_shim_library_is_shared(void);
