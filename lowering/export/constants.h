// Constants that kernels make of weights alone, such as packed ones, computed while exporting.
//
// In: a lowered program, whose steps have kernel IR. Out: the constants as weights of the file.
// Invariants: kernels are interpreted, so a target that this processor lacks has the same bits.
// Threads: of the exporting thread; the team runs. Owner: the caller frees the list.
#pragma once

#include "lowering/export/record.h"
#include "lowering/export/writer.h"
#include "lowering/program/program_types.h"

// Memory of constants, in a list.
typedef struct tc_stored_constants {
  struct tc_stored_constants *next;
  tc_buffer *buf;
} tc_stored_constants;

// Computes the program's constants, and adds them to the file; out: their numbers among its
// weights. Their memory is prepended to *kept, which must live until the file is written.
tc_status tc_stored_constants_make(const tc_recorded *r, const tc_program *p, tc_tcx_writer *w, uint32_t *out,
                                   tc_stored_constants **kept);
void tc_stored_constants_free(tc_stored_constants *kept);
