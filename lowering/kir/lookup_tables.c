// The rows of lookup_tables.def. See lookup_tables.h.
#include "lowering/kir/lookup_tables.h"

const float tc_kir_table[TC_KIR_TABLE_ROWS][TC_KIR_TABLE_LENGTH] = {
#define TC_KIR_TABLE(NAME, ...) {__VA_ARGS__},
#include "lowering/kir/lookup_tables.def"
#undef TC_KIR_TABLE
};
