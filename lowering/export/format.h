// The layout of a program's file, .tcx: a head, tables of records of fixed size, then weights.
// docs/export.md shows it.
//
// In: nothing. Out: types of what stands in the file, byte by byte.
// Invariants: numbers are little-endian, as every machine that tc runs on has them. No record has a
// pointer: a name is an offset in `strings`, a list is a range of another table.
// Threads: none. Owner: nobody.
#pragma once

#include <stdint.h>
#include <tc/tc.h>

// "\211tcx\r\n\032\n": a file that went through a text mode, or was cut at an end of line, differs.
#define TC_TCX_MAGIC UINT64_C(0x0a1a0a0d78637489)
// The layout of this file's records.
#define TC_TCX_VERSION 1
// How kernels are called, and what of tc they call: tc_kernel_fn, tc_worker, the rows of libm.def,
// the library functions of elf_loader.c. To be raised where one of them changes.
#define TC_TCX_ABI 1

#define TC_TCX_ALIGN 64  // of tables, and of each weight
#define TC_TCX_PAGE 4096  // of the weights together
#define TC_TCX_MOST_COMBINATIONS 64  // of sizes
#define TC_TCX_NONE UINT32_MAX

typedef struct tc_tcx_range {
  uint32_t first, n;
} tc_tcx_range;

typedef struct tc_tcx_value {
  uint32_t name;
  uint8_t type, rank;
  uint16_t zero;
  uint32_t size[TC_MAX_RANK];  // of inputs: the dynamic extent, a number in `symbols`; TC_TCX_NONE: fixed
  int64_t dim[TC_MAX_RANK];  // in the first combination of sizes
} tc_tcx_value;

typedef struct tc_tcx_weight {
  uint32_t name;
  uint8_t type, rank;
  uint16_t zero;
  int64_t dim[TC_MAX_RANK];
  uint64_t offset, bytes;  // in the weights
  uint64_t sum[2];  // XXH3-128 of these bytes
} tc_tcx_weight;

typedef struct tc_tcx_symbol {
  uint32_t name;
  tc_tcx_range size;  // in `extents`
  uint32_t zero;
} tc_tcx_symbol;

typedef struct tc_tcx_target {
  uint32_t isa;  // a name of isa.def
  uint32_t facts;  // of "native": what the processor must say of itself (host_cpu.h). TC_TCX_NONE: any that has the set
  uint32_t interpreted;  // 1: kernels are kernel IR
  uint32_t zero;
} tc_tcx_target;

// Extents of inputs and outputs, in this order, of one combination of sizes.
typedef struct tc_tcx_combination {
  tc_tcx_range dims;  // in `extents`
} tc_tcx_combination;

enum { TC_TCX_INPUT, TC_TCX_WEIGHT, TC_TCX_STORED, TC_TCX_OPERAND };

// What a leaf of a plan is.
typedef struct tc_tcx_leaf {
  // INPUT, WEIGHT. STORED: a constant, a number in `weights` too, which no program shows. OPERAND:
  // of a body.
  uint32_t kind;
  uint32_t number;
  uint64_t bytes;
} tc_tcx_leaf;

// Where an output of the program is found after a run.
typedef struct tc_tcx_result {
  uint32_t is_leaf;  // 1: it has the bytes of a leaf of the plan; 0: it is one of its outputs
  uint32_t number;
} tc_tcx_result;

// Kinds of steps: those of tc_step_kind that a file has, by numbers of its own.
enum {
  TC_TCX_STEP_KERNEL,
  TC_TCX_STEP_ROW,
  TC_TCX_STEP_ZERO,
  TC_TCX_STEP_CHECK,
  TC_TCX_STEP_CONTROL,
  TC_TCX_N_STEP_KINDS
};

typedef struct tc_tcx_step {
  uint8_t kind, is_matmul, zero[2];
  uint32_t op;  // ROW, ZERO, CHECK: the op's name
  uint32_t kernel;  // KERNEL; CONTROL: in `controls`
  uint32_t first_binding, n_binding, first_num, n_num;  // in the lists of the program
  uint32_t stage;
  uint32_t value, attr;  // ROW, ZERO: in the lists of the program
  uint32_t site, n_attr;  // site: "file:line" of the user's call, for errors
  int64_t extent;
  double work;
  uint64_t writes, bytes, same;
} tc_tcx_step;

typedef struct tc_tcx_num {
  uint64_t value;
  uint32_t is_arg, zero;
} tc_tcx_num;

typedef struct tc_tcx_allocation {
  uint64_t bytes, offset;
  uint32_t in, first, last, zero;  // in: TC_TCX_NONE: the arena
} tc_tcx_allocation;

typedef struct tc_tcx_row_value {
  uint8_t type, rank, zero[6];
  int64_t dim[TC_MAX_RANK];
} tc_tcx_row_value;

typedef struct tc_tcx_kernel {
  uint32_t name, n_num, n_buf;
  uint32_t interpreted;  // 1: the bytes are kernel IR (kir/serialize.h); 0: an object file
  uint64_t offset, bytes, scratch_bytes;  // in `code`
} tc_tcx_kernel;

// Steps with their lists; a plan's own, and those that make its constants.
typedef struct tc_tcx_steps {
  tc_tcx_range step, binding, num, allocation, row_value, row_attr;
  uint64_t arena_bytes;
} tc_tcx_steps;

// A random counter, the seed before it: the thread's, and so many more.
typedef struct tc_tcx_draw {
  uint32_t arg, zero;
  uint64_t more;
} tc_tcx_draw;

// Plan c * n_targets + t is that of combination c for target t.
typedef struct tc_tcx_plan {
  tc_tcx_range leaf, result;
  tc_tcx_range out;  // in `byte_counts`, per output of the plan
  tc_tcx_range constant;  // in `byte_counts`, per constant that is made at the first run
  tc_tcx_range arg;  // in `words`
  tc_tcx_range draw;  // random counters among the args
  uint64_t n_draw;  // by how many a run advances its thread's counter
  tc_tcx_steps run, prepare;
} tc_tcx_plan;

// A body of control flow. Its plan's leaves are its operands, in their order; of its args n counts.
typedef struct tc_tcx_body {
  tc_tcx_plan plan;
  tc_tcx_range counter;  // in `places`: which args are random counters
  uint64_t n_draw;  // counters that a run of it takes
} tc_tcx_body;

// Control flow (lazy/trace/body.h). Bodies have smaller numbers than the body that it is in.
typedef struct tc_tcx_control {
  uint32_t kind, reverse, keeps, n_carry, n_scanned, n_stacked;
  int64_t n_step;
  uint32_t n_body, body[2], zero;
  tc_tcx_range result;  // in `control_results`
} tc_tcx_control;

typedef struct tc_tcx_control_result {
  uint64_t offset, bytes, step_bytes;
} tc_tcx_control_result;

// The tables, in the order of the file: a name, and the type of a record.
#define TC_TCX_TABLES(ROW) \
  ROW(strings, char) \
  ROW(inputs, tc_tcx_value) \
  ROW(outputs, tc_tcx_value) \
  ROW(weights, tc_tcx_weight) \
  ROW(symbols, tc_tcx_symbol) \
  ROW(targets, tc_tcx_target) \
  ROW(combinations, tc_tcx_combination) \
  ROW(plans, tc_tcx_plan) \
  ROW(leaves, tc_tcx_leaf) \
  ROW(results, tc_tcx_result) \
  ROW(steps, tc_tcx_step) \
  ROW(bindings, uint32_t) \
  ROW(nums, tc_tcx_num) \
  ROW(allocations, tc_tcx_allocation) \
  ROW(row_values, tc_tcx_row_value) \
  ROW(kernels, tc_tcx_kernel) \
  ROW(extents, int64_t) \
  ROW(byte_counts, uint64_t) \
  ROW(words, uint64_t) \
  ROW(draws, tc_tcx_draw) \
  ROW(bodies, tc_tcx_body) \
  ROW(controls, tc_tcx_control) \
  ROW(control_results, tc_tcx_control_result) \
  ROW(places, uint32_t) \
  ROW(code, uint8_t)

enum {
#define TC_TCX_ROW(name, type) TC_TCX_TABLE_##name,
  TC_TCX_TABLES(TC_TCX_ROW)
#undef TC_TCX_ROW
      TC_TCX_N_TABLES
};

typedef struct tc_tcx_span {
  uint64_t offset, n;  // n: records
} tc_tcx_span;

typedef struct tc_tcx_head {
  uint64_t magic;
  uint32_t version, abi;
  uint32_t kir_version, n_shown_weights;  // n_shown_weights: of `weights`, those that are no STORED constants
  uint64_t file_bytes;
  uint64_t weights_at, weights_bytes;
  uint64_t sum[2];  // XXH3-128 of all up to the weights, with zeros here
  char made_by[32];  // the library's version
  tc_tcx_span table[TC_TCX_N_TABLES];
} tc_tcx_head;

// The operations on an open file are in image.h, those on one that is written in writer.h.
