// The rows of lookup_tables.def. See lookup_tables.h.
#include "lowering/kir/lookup_tables.h"

const float tc_nest_table[TC_NEST_TABLE_ROWS][TC_NEST_TABLE_LENGTH] = {
#define TC_NEST_TABLE(NAME, ...) {__VA_ARGS__},
#include "lowering/kir/lookup_tables.def"
#undef TC_NEST_TABLE
};
