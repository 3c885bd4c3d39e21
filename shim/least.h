// From which size on libtc makes a product.
#pragma once

#include "shim/options.h"
#include "shim/shim.h"

// The volume below which a routine's calls are not libtc's. entry: of level 3.
double tc_shim_least_volume(const tc_shim_options *options, const tc_shim_entry *entry);

// The size, as the report has it: what a first use measured is not asked.
double tc_shim_least_size(const tc_shim_options *options, const tc_shim_entry *entry);

// At a call of gemm that is not below it, where TC_CACHE_DIR is set and TC_SHIM_MIN is not. Times
// libtc against the real routine, once for a library and a processor, and keeps the result.
void tc_shim_least_measure(const tc_shim_options *options, const tc_shim_entry *entry, void *real);
