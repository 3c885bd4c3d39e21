// Matrices and vectors of a call, as far as checks see them.
// Threads: thread-safe, pure. Owner: none.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <tc/tc.h>

// Lines of unit stride, ld elements apart. A vector is one line, or as many as it has elements.
typedef struct tc_blas_operand {
  char name[2];
  const void *at;
  int64_t length, lines, ld;
} tc_blas_operand;

// Refuses a small leading dimension, and NULL where the operand is used.
tc_status tc_blas_check_operand(const char *op, const tc_blas_operand *x, bool is_used);
// The end of an operand's bytes. False: beyond the address space. pre: it has elements.
bool tc_blas_find_end(const tc_blas_operand *x, int64_t bytes, uintptr_t *out);
// Whether x_bytes at x and y_bytes at y, which repeat every `period` bytes, each have a place of
// their own in a period.
bool tc_blas_are_interleaved(const void *x, int64_t x_bytes, const void *y, int64_t y_bytes, int64_t period);
// Whether lines of two operands do: they are blocks of one matrix without a common row.
bool tc_blas_lines_differ(const tc_blas_operand *x, const tc_blas_operand *y, int64_t x_bytes, int64_t y_bytes);
// Refuses operands of which ranges of bytes overlap, unless they are blocks of one matrix without a
// common row (in row-major order column). pre: both have elements.
tc_status tc_blas_check_apart(const char *op, const tc_blas_operand *out, const tc_blas_operand *in, int64_t bytes);
// A vector of n elements, `inc` apart. A negative one walks from its end: `at` is the lowest.
tc_blas_operand tc_blas_operand_of_vector(char name, const void *at, int64_t n, int64_t inc);
