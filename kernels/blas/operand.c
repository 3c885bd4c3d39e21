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

static bool rows_differ(const tc_blas_operand *x, const tc_blas_operand *y, int64_t bytes) {
  if (x->ld != y->ld || x->ld == 0 || x->ld > INT64_MAX / bytes) return false;
  int64_t ld = x->ld * bytes, distance = (int64_t)((uintptr_t)y->at - (uintptr_t)x->at) % ld;
  if (distance < 0) distance += ld;
  return distance >= x->length * bytes && distance + y->length * bytes <= ld;
}

tc_status tc_blas_check_apart(const char *op, const tc_blas_operand *out, const tc_blas_operand *in, int64_t bytes) {
  uintptr_t out_end, in_end;
  if (!tc_blas_find_end(out, bytes, &out_end) || !tc_blas_find_end(in, bytes, &in_end))
    return FAIL("the operands exceed the address space");
  bool overlaps = (uintptr_t)out->at < in_end && (uintptr_t)in->at < out_end;
  return overlaps && !rows_differ(out, in, bytes) ? FAIL("%s overlaps %s", out->name, in->name) : TC_OK;
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
