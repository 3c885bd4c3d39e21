// The tables that kernels look numbers up in: names for the rows of lookup_tables.def, and what is
// in them.
// Threads: thread-safe, constant. Static memory.
#ifndef TC_LOWERING_KIR_LOOKUP_TABLES_H
#define TC_LOWERING_KIR_LOOKUP_TABLES_H

#define TC_KIR_TABLE_LENGTH 16

// What the imm of a LOOKUP says.
typedef enum tc_kir_table_row {
#define TC_KIR_TABLE(NAME, ...) TC_KIR_TABLE_##NAME,
#include "lowering/kir/lookup_tables.def"
#undef TC_KIR_TABLE
  TC_KIR_TABLE_ROWS
} tc_kir_table_row;

extern const float tc_kir_table[TC_KIR_TABLE_ROWS][TC_KIR_TABLE_LENGTH];

#endif
