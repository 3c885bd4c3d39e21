// Products by libtc, which is opened at the first one.
#pragma once

#include "shim/shim.h"

// Does a checked call of a real routine; false if libtc is not there or refuses, and nothing was
// written.
bool tc_shim_direct(const tc_shim_call *call, double alpha, double beta);
