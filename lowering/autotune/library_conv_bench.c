// Times a convolution on the device: generated, and by each of a library's algorithms. Each is a
// plan of the convolution alone with all that it needs, run repeatedly on random numbers.
//
// An elementwise consumer of the library's result is priced as a copy of the result, which reads
// and writes as much. Operands that may have another address in each run are priced as copies.
// If memory does not suffice for all of it, nothing is timed.
#include <string.h>

#include "lazy/lowering.h"
#include "lazy/sync/plan_build.h"
#include "lowering/autotune/library_conv.h"
#include "runtime/log.h"

#define MOST_BYTES ((size_t)1 << 32)  // of one operand

// Forces the choice in the plan that this thread makes within a call of measure.
static _Thread_local struct {
  bool is_set;
  tc_gpu_call *call;  // NULL: it is generated
} forced;

bool tc_library_conv_forced(tc_gpu_call **out) {
  *out = forced.is_set ? forced.call : NULL;
  if (*out) tc_gpu_call_retain(*out);
  return forced.is_set;
}

typedef struct candidate {
  const tc_library_conv *v;
  tc_gpu *g;
  tc_plan *plan;
  void *leaf[2], *out;
} candidate;

static tc_status run_candidate(void *arg) {
  candidate *t = arg;
  return tc_plan_launch_alone(t->plan, t->leaf, &t->out);
}

// Times the plan by this call, or generated (NULL). 0: it failed, or the call does not repeat its
// results.
static uint64_t time_by(void *arg, tc_gpu_call *call) {
  candidate *t = arg;
  const tc_graph *g = t->v->graph;
  forced.is_set = true, forced.call = call;
  tc_status st = tc_plan_of_record(g->plan, t->v->node, g->node[t->v->node].dev, &t->plan);
  forced.is_set = false;
  if (st != TC_OK) return 0;
  const tc_gnode *x = &g->node[t->v->node];
  bool repeats = !call || tc_library_gemm_repeats(t->g, run_candidate, t, t->out,
                                                  (size_t)x->shape->count * tc_type_bytes(x->type));
  uint64_t ns = repeats ? tc_library_gemm_time(t->g, run_candidate, t) : 0;
  tc_plan_release(t->plan);
  return ns;
}

static bool take_memory(candidate *t, const tc_gnode *x, void **out) {
  size_t bytes = (size_t)x->shape->count * tc_type_bytes(x->type);
  return bytes <= MOST_BYTES && tc_gpu_alloc(t->g, bytes, out) == TC_OK &&
         tc_library_gemm_fill(t->g, x->type, *out, bytes) == TC_OK;
}

// Adds the time of what the library needs besides its call. That is a kernel that reads the result
// and writes what follows, and copies of operands at new addresses. False: no memory.
static bool time_beside(candidate *t, size_t result_bytes, uint64_t *ns) {
  const void *at[] = {t->leaf[0], t->leaf[1], t->out};
  uint64_t took = 1;
  if (t->v->followed) *ns = took = tc_library_gemm_time_copy(t->g, t->out, result_bytes);
  for (uint32_t i = 0; i < 3 && took; i++)
    if (t->v->moves[i]) *ns += took = tc_library_gemm_time_copy(t->g, at[i], tc_gpu_work_bytes(&t->v->work, i));
  return took > 0;
}

static bool measure_both(candidate *t, tc_library_gemm_times *out) {
  const tc_graph *g = t->v->graph;
  const tc_gnode *x = &g->node[t->v->node];
  tc_gpu_algorithm a[TC_LIBRARY_MOST_TIMED];
  uint64_t beside = 0;
  *out = (tc_library_gemm_times){.n_timed = 0};
  int n = tc_library_list(t->g, &t->v->work, a);
  if (n == 0) return false;
  if (!take_memory(t, &g->node[x->in[0]], &t->leaf[0]) || !take_memory(t, &g->node[x->in[1]], &t->leaf[1]) ||
      !take_memory(t, x, &t->out))
    return false;
  if ((out->generated_ns = time_by(t, NULL)) == 0) return false;
  return time_beside(t, (size_t)x->shape->count * tc_type_bytes(x->type), &beside) &&
         tc_library_time_all(t->g, &t->v->work, a, n, time_by, t, beside, out);
}

bool tc_library_conv_measure(void *conv, tc_library_gemm_times *out) {
  const tc_library_conv *v = conv;
  tc_error_mark before = tc_error_now();
  candidate t = {.v = v, .g = v->graph->target.gpu};
  bool measured = measure_both(&t, out);
  if (!measured)
    tc_log_line(TC_LOG_TUNE, "a convolution of %lld channels is generated, for it could not be timed: %s",
                (long long)v->work.conv.in, tc_last_error()->message);
  tc_gpu_free(t.g, t.leaf[0]), tc_gpu_free(t.g, t.leaf[1]), tc_gpu_free(t.g, t.out);
  (void)tc_error_tell(before);
  return measured;
}
