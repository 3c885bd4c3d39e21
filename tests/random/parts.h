// What the parts of random programs share: the functions that an instruction's p chooses, facts
// inferred of each value, and runs. See random_graph.h.
// Threads: thread-compatible.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/near.h"
#include "tests/random/random_graph.h"

// ---- functions.c ----

typedef struct rg_unary_fn {
  const char *text;  // %s is the operand
  tc_tensor (*fn)(tc_tensor x);
  double slope, bound;  // of the error; of the result (0: that of the operand)
  bool exact, kink, floats_only, flat, grows;
} rg_unary_fn;

// The functions that p chooses, taken modulo how many there are.
const rg_unary_fn *rg_unary(int p);
enum { RG_ADD, RG_SUB, RG_MUL, RG_MAXIMUM, RG_MINIMUM, RG_DIV, RG_N_BINARY };
extern const char *const rg_binary_texts[RG_N_BINARY];
tc_tensor rg_binary(int k, tc_tensor a, tc_tensor b);
enum { RG_LT, RG_LE, RG_EQ, RG_N_COMPARE };
extern const char *const rg_compare_texts[RG_N_COMPARE];
tc_tensor rg_compare(int k, tc_tensor a, tc_tensor b);
enum { RG_SUM, RG_MEAN, RG_MAX, RG_MIN, RG_ANY, RG_N_FOLD };
extern const char *const rg_fold_texts[RG_N_FOLD];
tc_tensor rg_fold(int k, tc_tensor x, int axis, bool keep);

// Ways to multiply, by q: as it is; as bytes, i8 or u8 by either; by a linear layer of bytes. Bytes
// are made of exact f32, so that every backend gives the same bits.
enum { RG_AS_NUMBERS, RG_LINEAR_OF_BYTES, RG_BYTES_FIRST, RG_N_MULTIPLY = 8 };
bool rg_multiplies_bytes(int k);
tc_tensor rg_matmul(int k, tc_tensor a, tc_tensor b);
void rg_print_matmul(FILE *out, int k, const char *a, const char *b);

// Slices: start, stop and step of axis k, all within the extent.
void rg_slice_of(int64_t extent, int p, int q, int64_t *start, int64_t *stop, int64_t *step);
int64_t rg_window_of(int64_t extent, int p);
// Pooling of the last axis; `out` counts windows.
tc_pool_options rg_pool_of(int64_t extent, int p, int q, int64_t *size, int64_t *out);

// ---- infer.c: what is known of each value before running ----

typedef struct rg_fact {
  // has a result; its handle is alive; the same bits on every backend; depends on a parameter
  bool value, alive, exact, grad;
  int handle;                      // the instruction whose handle it is (assigning gives no new one)
  tc_type type;
  tc_dims dims;
  double big, err;                 // |value| <= big; backends differ by at most err
} rg_fact;

typedef struct rg_plan {
  rg_fact f[RG_MAX_INSTRS];
  bool kink;       // a gradient jumps at a rounded value: backends may differ
  bool half;       // a gradient passes through a half type
  bool backward;
} rg_plan;

// Whether instruction i is one the API accepts and every right backend answers alike; its fact into
// pl.
bool rg_infer(const rg_program *p, rg_plan *pl, int i);
// Facts of the whole program; false if some instruction is refused or scopes do not nest.
bool rg_plan_program(const rg_program *p, rg_plan *pl);

// ---- make.c ----

typedef struct rg_dice {
  uint64_t state;
} rg_dice;

uint32_t rg_roll(rg_dice *d, uint32_t n);

// ---- run.c ----

typedef enum rg_mode { RG_FUSED, RG_OP_BY_OP, RG_REFERENCE } rg_mode;

typedef struct rg_seen {
  int instr;
  char kind;  // v value at the end, r read on the way, g gradient
  tc_type type;
  tc_dims dims;
  void *data;
} rg_seen;

typedef struct rg_run {
  rg_seen seen[3 * RG_MAX_INSTRS];
  int n;
  tc_status status;
  char message[300];
  double loss;
  bool no_backward;  // stop at the loss
  const double *nudge;  // added to parameter elements, in order, times `by`; or NULL
  double by;
  int64_t n_nudged;
} rg_run;

// Leaves hold small multiples of a quarter (exact in every type), or in smooth programs anything in
// [-2, 2].
double rg_leaf_value(const rg_program *p, const rg_instr *s, int64_t i);
void rg_run_program(const rg_program *p, const rg_plan *pl, rg_mode m, rg_run *r);
// Two calls of the program as a compiled function: the first traces, the second takes its graph.
// Where tensors are assigned there is no second, since they would be others then.
void rg_run_compiled(const rg_program *p, const rg_plan *pl, rg_run *first, rg_run *second, bool *twice);
void rg_run_fini(rg_run *r);
