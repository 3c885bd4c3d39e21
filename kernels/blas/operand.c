// See operand.h.
#include "kernels/blas/operand.h"

#include "runtime/status.h"

#define FAIL(...) tc_fail(TC_ERR_ARG, op, 0, __VA_ARGS__)

tc_status tc_blas_check_operand(const char *op, const tc_blas_operand *x, bool is_used) {
  if (x->ld < x->length || x->ld < 1)
    return FAIL("ld%s is %lld; at least %lld expected", x->name, (long long)x->ld,
                (long long)TC_MAX_OF(x->length, INT64_C(1)));
  return is_used && !x->at ? FAIL("%s is NULL", x->name) : TC_OK;
}

bool tc_blas_find_end(const tc_blas_operand *x, int64_t bytes, uintptr_t *out) {
  int64_t span;
  return !__builtin_mul_overflow(x->lines - 1, x->ld, &span) && !__builtin_add_overflow(span, x->length, &span) &&
         !__builtin_mul_overflow(span, bytes, &span) && !__builtin_add_overflow((uintptr_t)x->at, span, out);
}

bool tc_blas_are_interleaved(const void *x, int64_t x_bytes, const void *y, int64_t y_bytes, int64_t period) {
  if (period == 0) return false;
  if (period < 0) period = -period;
  int64_t distance = (int64_t)((uintptr_t)y - (uintptr_t)x) % period;
  if (distance < 0) distance += period;
  return distance >= x_bytes && y_bytes <= period - distance;
}

bool tc_blas_lines_differ(const tc_blas_operand *x, const tc_blas_operand *y, int64_t x_bytes, int64_t y_bytes) {
  int64_t period, other;
  return !__builtin_mul_overflow(x->ld, x_bytes, &period) && !__builtin_mul_overflow(y->ld, y_bytes, &other) &&
         period == other && tc_blas_are_interleaved(x->at, x->length * x_bytes, y->at, y->length * y_bytes, period);
}

tc_status tc_blas_check_apart(const char *op, const tc_blas_operand *out, const tc_blas_operand *in, int64_t bytes) {
  uintptr_t out_end, in_end;
  if (!tc_blas_find_end(out, bytes, &out_end) || !tc_blas_find_end(in, bytes, &in_end))
    return FAIL("the operands exceed the address space");
  bool overlaps = (uintptr_t)out->at < in_end && (uintptr_t)in->at < out_end;
  return overlaps && !tc_blas_lines_differ(out, in, bytes, bytes) ? FAIL("%s overlaps %s", out->name, in->name) : TC_OK;
}

tc_blas_operand tc_blas_operand_of_vector(char name, const void *at, int64_t n, int64_t inc) {
  tc_blas_operand x = {.name = {name}, .at = at, .length = 1, .lines = n};
  x.ld = inc < 0 ? (inc == INT64_MIN ? INT64_MAX : -inc) : inc;
  if (inc == 1 || inc == -1) {
    x.length = n;
    x.lines = 1;
    x.ld = n;
  }
  return x;
}
