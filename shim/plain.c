// Records by plain loops, in double. Threads: pure.
#include "shim/plain.h"

#include <stdlib.h>

static double get(char type, const void *p, int64_t at) {
  return type == 's' ? (double)((const float *)p)[at] : ((const double *)p)[at];
}

static double product(const tc_shim_value_record *r, const void *a, const void *b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < r->k; l++)
    sum += get(r->type, a, r->left_transposed ? l * r->m + i : i * r->k + l) *
           get(r->type, b, r->right_transposed ? j * r->k + l : l * r->n + j);
  return sum;
}

static double element(const tc_shim_value_record *r, const void *const *in, int64_t at) {
  double old = in[0] ? get(r->type, in[0], at) : 0;
  switch (r->op) {
    case TC_SHIM_VALUE_GEMM:
      return r->alpha * product(r, in[1], in[2], at / r->n, at % r->n) + (in[0] ? r->beta * old : 0);
    case TC_SHIM_VALUE_AXPY: return old + r->alpha * get(r->type, in[1], at);
    case TC_SHIM_VALUE_SCAL: return r->alpha * old;
    case TC_SHIM_VALUE_GER: return old + r->alpha * get(r->type, in[1], at / r->n) * get(r->type, in[2], at % r->n);
    case TC_SHIM_VALUE_LEAF: break;
  }
  return old;
}

void *tc_shim_plain(const tc_shim_value_record *r, const void *const *in) {
  int64_t n = r->op == TC_SHIM_VALUE_GEMM || r->op == TC_SHIM_VALUE_GER ? r->m * r->n : r->n;
  void *out = malloc((size_t)n * (r->type == 's' ? sizeof(float) : sizeof(double)));
  for (int64_t i = 0; out && i < n; i++)
    if (r->type == 's')
      ((float *)out)[i] = (float)element(r, in, i);
    else
      ((double *)out)[i] = element(r, in, i);
  return out;
}
