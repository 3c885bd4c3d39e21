// Programs for many sizes: one program whose numbers are expressions of the sizes that vary.
// Internal to program/.
//
// In: a graph that can be had at any sizes. Out: a program for all sizes of a box, and copies of it
// bound to some of them.
//
//   f32[s, 64], s from 2 to 4099: units = ceil(64 s / 64), bytes of o0 = 256 s
//   -> bound to s = 100: 100 units, 25600 bytes
//
// How: the graph is lowered at samples, primes in the box and at its corners, without compiling.
// Their programs must be alike: the same steps, storages and instructions. Numbers that differ are
// fitted to expressions (lazy/sync/size_expr.h); in kernels they become arguments.
// Why that holds for all sizes between: at primes no extent divides another by chance. So lowering
// takes the general way, with tails that may be empty. What it decides by comparing a size is the
// same between two samples that decide alike, since numbers grow with sizes. docs/dynamic-sizes.md
// has the argument in full.
// Invariants: a bound program shares kernels and cached constants; it owns its numbers and offsets.
// Threads: thread-safe once made.
#pragma once

#include "lowering/program/program_types.h"

// What builds the programs of samples, and compiles one of them (pipeline.c).
typedef struct tc_size_builder {
  // The plan's program with pending kernels and its graph. like: its program at other sizes; NULL:
  // not known yet.
  tc_status (*sample)(tc_plan *plan, const tc_program *like, tc_program **out);
  // Compiles the pending kernels and frees the graph.
  tc_status (*complete)(tc_program *p, tc_plan *plan);
} tc_size_builder;

typedef struct tc_size_piece tc_size_piece;

// See tc_lowering_ops.lower_any_size, bind and drop_any_size. bind leaves facts that follow from
// the program to its caller.
tc_size_piece *tc_size_piece_create(const tc_size_source *from, const tc_size_builder *by, tc_size_box *box,
                                    const char **why);
tc_status tc_size_piece_bind(const tc_size_piece *piece, const int64_t *size, tc_plan *plan);
void tc_size_piece_destroy(tc_size_piece *piece);
size_t tc_size_piece_bytes(const tc_size_piece *piece);
