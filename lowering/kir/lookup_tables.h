// The tables of LOOKUP: names for the rows of lookup_tables.def, and their contents.
// Threads: thread-safe, constant. Static memory.
#pragma once

#define TC_KIR_TABLE_LENGTH 16

// The imm of a LOOKUP.
typedef enum tc_kir_table_row {
#define TC_KIR_TABLE(NAME, ...) TC_KIR_TABLE_##NAME,
#include "lowering/kir/lookup_tables.def"
#undef TC_KIR_TABLE
  TC_KIR_TABLE_ROWS
} tc_kir_table_row;

extern const float tc_kir_table[TC_KIR_TABLE_ROWS][TC_KIR_TABLE_LENGTH];
