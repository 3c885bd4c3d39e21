// The gradients of parameters. What sums them is grad.c.
#pragma once

#include "lazy/trace/trace.h"

// A slot's stored value becomes the parameter's gradient, in place of the one it had.
tc_status tc_trace_set_grad(tc_trace *t, tc_tensor param, const tc_slot *grad);
