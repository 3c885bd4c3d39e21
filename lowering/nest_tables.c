// The rows of nest_tables.def. See nest_tables.h.
#include "lowering/nest_tables.h"

const float tc_nest_table[TC_NEST_TABLE_ROWS][TC_NEST_TABLE_LENGTH] = {
#define TC_NEST_TABLE(NAME, ...) {__VA_ARGS__},
#include "lowering/nest_tables.def"
#undef TC_NEST_TABLE
};
