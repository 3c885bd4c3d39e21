// The types that the shim's files share: entries and what is known of them, a call and its
// arguments, who is called.
// Threads: tables do not change; slots are atomic; a call and its thread belong to one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- What generate.py makes ----

// The places of a call's arguments. Operands stand in the order of the arguments; steps are leading
// dimensions or incs.
enum {
  TC_AT_ORDER,
  TC_AT_SIDE,
  TC_AT_UPLO,
  TC_AT_TRANSA,
  TC_AT_TRANSB,
  TC_AT_DIAG,
  TC_AT_M,
  TC_AT_N,
  TC_AT_K,
  TC_AT_KL,
  TC_AT_KU,
  TC_AT_ALPHA,
  TC_AT_BETA,
  TC_AT_OPERAND0,
  TC_AT_OPERAND1,
  TC_AT_OPERAND2,
  TC_AT_STEP0,
  TC_AT_STEP1,
  TC_AT_STEP2,
  TC_AT_COUNT
};

typedef struct tc_shim_layout {
  int8_t at[TC_AT_COUNT];  // words from the frame's base (stubs.S)
  uint32_t has;  // a bit a field
  uint32_t by_value;  // of the scalars
  uint8_t n_stack;  // words of arguments on the stack, hidden lengths among them
} tc_shim_layout;

typedef enum tc_shim_shape { TC_SHAPE_NONE, TC_SHAPE_MAT, TC_SHAPE_BAND, TC_SHAPE_VEC, TC_SHAPE_PACKED } tc_shim_shape;

// What libtc does of a routine's real types.
typedef enum tc_shim_action {
  TC_SHIM_FORWARD,
  TC_SHIM_GEMM,
  TC_SHIM_SYMM,
  TC_SHIM_SYRK,
  TC_SHIM_SYR2K,
  TC_SHIM_TRMM,
  TC_SHIM_TRSM,
  TC_SHIM_ACTIONS
} tc_shim_action;

typedef struct tc_shim_routine {
  char name[8];
  char type;  // s d c z
  uint8_t row;  // of routines.def
  uint8_t level;
  uint8_t action;
  bool is_complex_value;  // in Fortran; its CBLAS form is void
  uint8_t n_operands;
  struct {
    uint8_t shape;
    bool is_written;
  } operand[3];
  tc_shim_layout fortran, cblas;
} tc_shim_routine;

typedef struct tc_shim_entry {
  uint32_t name;  // in tc_shim_names
  uint16_t routine;
  uint8_t bits;  // of integers; 0: as the provider has them
  bool is_cblas;
} tc_shim_entry;

extern const tc_shim_routine tc_shim_routines[];
extern const tc_shim_entry tc_shim_entries[];
extern const uint32_t tc_shim_n_entries;
extern const char tc_shim_names[];

// ---- Who is called ----

// The real routine of an entry for the callers in a range of addresses: those of a module, or all.
// Does not change.
// stubs.S knows the first four fields.
typedef struct tc_shim_callee {
  uintptr_t from;
  uintptr_t bytes;
  void *real;
  struct tc_shim_callee *next;  // of the slot; atomic
  struct tc_shim_callee *older;  // of all that there are
  uint32_t entry;
  bool is_listed;  // in its slot; atomic
  uint8_t bits;  // of its integers; 0: not known, so that its calls are left alone
  bool left_alone;
} tc_shim_callee;

typedef struct tc_shim_slot {
  void *go;  // where a call goes; NULL until the first
  tc_shim_callee *callees;
} tc_shim_slot;

extern tc_shim_slot tc_shim_slots[];

// ---- A call ----

struct tc_shim_record;

// A call's arguments as they were read, and what is measured of it. It lies in the stub's frame.
typedef struct tc_shim_call {
  int64_t m, n, k, kl, ku;
  int64_t rows[3], columns[3], step[3];  // of the operands, as Fortran sees them; 0 where there is none
  const void *operand[3];
  double volume, flops;
  const tc_shim_routine *routine;
  struct tc_shim_record *record;
  uint64_t start;
  bool row_major, right, upper, transa, transb, unit;
} tc_shim_call;

// stubs.S has so much room for it.
#define TC_SHIM_CALL_BYTES 256
_Static_assert(sizeof(tc_shim_call) <= TC_SHIM_CALL_BYTES, "stubs.S has room for a call");

// Sets what a row's operands measure and the work of a call, from its sizes and flags.
void tc_shim_measure(uint32_t row, tc_shim_call *call);

// What stubs.S does next: nothing if go is NULL, a jump if words is negative, else a call with so
// many words of stack.
typedef struct tc_shim_next {
  void *go;
  int64_t words;
} tc_shim_next;

// ---- Functions of stubs.S, which are jumped to ----

void tc_shim_enter(void);  // asks tc_shim_before
void tc_shim_route(void);  // to the real routine of the caller's module

static inline const char *tc_shim_entry_name(uint32_t entry) {
  return tc_shim_names + tc_shim_entries[entry].name;
}
