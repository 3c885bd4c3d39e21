// Reads a call's arguments by its routine's layout.
#pragma once

#include "shim/shim.h"

// False if netlib would call xerbla, or the order is none of CBLAS's. Reads no scalar.
bool tc_shim_read_call(const tc_shim_entry *entry, uint8_t bits, const int64_t *base, tc_shim_call *out);

// Whether the volume of a call of level 3 is surely less than that, judged by its sizes alone.
bool tc_shim_is_smaller(const tc_shim_entry *entry, uint8_t bits, const int64_t *base, double volume);

// A scalar of a real routine: TC_AT_ALPHA or TC_AT_BETA.
double tc_shim_read_scalar(const tc_shim_entry *entry, const int64_t *base, int field);
