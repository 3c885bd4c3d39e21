// Choosing between hipBLASLt and rocBLAS, and calling the chosen one. See gemm.h.
#include "device/hip/gemm.h"

#include <stdio.h>

#include "device/hip/hipblaslt.h"
#include "device/hip/rocblas.h"
#include "runtime/arena.h"
#include "runtime/options.h"

// What the chosen library made.
typedef struct made {
  const tc_gpu_library_driver *by;
  void *made;
} made;

static const tc_gpu_library_driver *chosen[TC_MOST_ORDINALS];  // by devices, under each one's lock; NULL: none is ready

void tc_hip_gemm_of(int hip_major) {
  tc_hipblaslt_of(hip_major);
  tc_rocblas_of(hip_major);
}

// The vendor's own libraries would not know a simulated device's memory.
static bool choose_library(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  const tc_options *o = tc_options_get();
  bool simulated = facts->simulated, first = !simulated || o->hipblaslt_library,
       second = !simulated || o->rocblas_library;
  char why_first[320] = "", why_second[320] = "";
  const tc_gpu_library_driver *by = NULL;
  if (first && tc_hipblaslt.ready(p, facts, why_first, sizeof why_first)) by = &tc_hipblaslt;
  if (!by && second && tc_rocblas.ready(p, facts, why_second, sizeof why_second)) by = &tc_rocblas;
  chosen[p->ordinal] = by;
  if (by) return true;
  if (!first && !second)
    snprintf(
        why, bytes,
        "a simulated device has no library of products but one that TC_HIPBLASLT_LIBRARY or TC_ROCBLAS_LIBRARY names");
  else
    snprintf(why, bytes, "%.150s%s%.150s", why_first, first && second ? "; " : "", why_second);
  return false;
}

static const char *name_of(const tc_gpu_port *p) {
  return chosen[p->ordinal]->name(p);
}

static int open_handle(tc_gpu_port *p) {
  return chosen[p->ordinal]->open(p);
}

void tc_hip_gemm_close(tc_gpu_port *p) {
  if (chosen[p->ordinal] == &tc_hipblaslt) tc_hipblaslt_close(p);
  if (chosen[p->ordinal] == &tc_rocblas) tc_rocblas_close(p);
}

tc_gpu_verdict tc_hip_gemm_judge(int result, const char **name) {
  return result >= TC_ROCBLAS_RESULTS ? tc_rocblas_judge(result, name) : tc_hipblaslt_judge(result, name);
}

static void drop_work(void *given) {
  made *x = given;
  if (x->made) x->by->drop(x->made);
  tc_free(x);
}

static int make_work(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  *out = NULL;
  made *x = tc_calloc(1, sizeof *x);
  if (!x) return TC_LT_RESULTS + TC_HIPBLAS_STATUS_ALLOC_FAILED;
  x->by = chosen[p->ordinal];
  int result = x->by->make(p, w, &x->made);
  if (result != 0) return drop_work(x), result;
  *out = x;
  return 0;
}

static int find_algorithms(tc_gpu_port *p, void *given, tc_gpu_algorithm *out, int most, int *n) {
  made *x = given;
  return x->by->find(p, x->made, out, most, n);
}

static int check_algorithm(tc_gpu_port *p, void *given, tc_gpu_algorithm *a) {
  made *x = given;
  return x->by->check(p, x->made, a);
}

static int set_stream(tc_gpu_port *p, void *stream) {
  const tc_gpu_library_driver *by = chosen[p->ordinal];
  return by->set_stream ? by->set_stream(p, stream) : 0;
}

static int run_work(tc_gpu_port *p, const tc_gpu_request *request) {
  const made *x = request->made;
  tc_gpu_request own = *request;
  own.made = x->made;
  return x->by->run(p, &own);
}

const tc_gpu_library_driver tc_hip_gemm = {
    .ready = choose_library,
    .name = name_of,
    .open = open_handle,
    .make = make_work,
    .drop = drop_work,
    .find = find_algorithms,
    .check = check_algorithm,
    .set_stream = set_stream,
    .run = run_work,
};
