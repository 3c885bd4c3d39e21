// What a checkpoint sets of an average, besides its values.
#pragma once

#include <tc/train.h>

#include "runtime/status.h"

void tc_ema_set_n_averaged(tc_ema *ema, int64_t n);
