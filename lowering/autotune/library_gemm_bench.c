// Times a matmul's generated kernel and a library's algorithms on the device, on the plan's shapes.
// Each is a replayed sequence of one launch.
//
// An epilogue kernel behind the library's matmul is priced as a copy of the result, which reads and
// writes as much. Operands that may have another address in each run are priced as copies.
// If memory does not suffice for all of it, nothing is timed.
#include <string.h>

#include "lowering/autotune/library_gemm.h"
#include "lowering/jit/gpu_launch.h"
#include "lowering/jit/kernel_cache.h"
#include "runtime/log.h"

#define MOST_BYTES ((size_t)1 << 32)  // of one operand

typedef struct candidate {
  tc_gpu *g;
  const tc_fusion_plan *gr;
  const tc_library_gemm *v;
  uint32_t node[TC_MAX_BUFS + 4], n;
  void *at[TC_MAX_BUFS + 4];
} candidate;

// ---- operands ----

// The memory that stands for the node, allocated at its first use. NULL: no memory.
static char *operand(candidate *t, uint32_t node) {
  const tc_gnode *x = &t->gr->graph->node[node];
  size_t bytes = (size_t)x->shape->count * tc_type_bytes(x->type);
  uint32_t i = 0;
  while (i < t->n && t->node[i] != node) i++;
  if (i < t->n) return t->at[i];
  if (bytes > MOST_BYTES || tc_gpu_alloc(t->g, bytes, &t->at[i]) != TC_OK) return NULL;
  t->node[t->n++] = node;
  return tc_library_gemm_fill(t->g, x->type, t->at[i], bytes) == TC_OK ? t->at[i] : NULL;
}

static uint64_t word(const void *p) {
  return (uint64_t)(uintptr_t)p;
}

// ---- timing ----

typedef struct sequence_run {
  tc_gpu_sequence *s;
  const uint64_t *words;
} sequence_run;

static tc_status run_sequence(void *arg) {
  const sequence_run *r = arg;
  return tc_gpu_sequence_run(r->s, r->words);
}

// Times one launch. result: `bytes` bytes that every run must repeat; NULL: not checked.
static uint64_t time_launch(tc_gpu *g, const tc_gpu_launch *launch, const uint64_t *words, uint32_t n_words,
                            const void *result, size_t bytes) {
  tc_gpu_sequence *s;
  if (tc_gpu_sequence_create(g, launch, 1, n_words, &s) != TC_OK) return 0;
  sequence_run r = {s, words};
  uint64_t ns = result && !tc_library_gemm_repeats(g, run_sequence, &r, result, bytes)
                    ? 0
                    : tc_library_gemm_time(g, run_sequence, &r);
  tc_gpu_sequence_destroy(s);
  return ns;
}

static uint64_t time_generated(candidate *t, const tc_emit_result *e) {
  tc_kernel *kernel = NULL;
  uint32_t compiled = 0, n = 0;
  uint64_t words[TC_MAX_BUFS + TC_MAX_NUMS + TC_GPU_WORDS + TC_GPU_TENSOR_MAP_ALIGNED +
                 TC_KIR_MAPS * TC_GPU_TENSOR_MAP_WORDS] = {0},
                               ns = 0;
  tc_gpu_launch launch = {.first_word = 0};
  if (tc_kernel_get(&e->kir, e->stem, t->g, &kernel, &compiled) != TC_OK) return 0;
  bool there = true;
  for (uint32_t i = 0; i < e->n_buf && there; i++) {
    void *at = operand(t, e->buf[i]);
    words[n++] = word(at), there = at != NULL;
  }
  for (uint32_t i = 0; i < e->n_num; i++) words[n++] = e->num[i].is_arg ? 0 : e->num[i].value;
  words[n] = (uint64_t)e->extent;
  words[n + 1] = (uint64_t)tc_gpu_launch_kernel(kernel, e->extent, &launch);
  words[n + 2] = 0;
  const tc_gpu_shape *shape = &kernel->gpu_shape;
  n = shape->n_map ? tc_gpu_tensor_map_word(e->n_buf, e->n_num) : n + 3;
  for (uint32_t i = 0; i < shape->n_map && there; i++, n += TC_GPU_TENSOR_MAP_WORDS)
    there = tc_gpu_launch_tensor_map(t->g, &shape->map[i], words, words + n) == TC_OK;
  if (there) ns = time_launch(t->g, &launch, words, n, NULL, 0);
  tc_kernel_release(kernel);
  return ns;
}

// Times one algorithm. 0: it failed, or does not repeat its results.
static uint64_t time_call(void *arg, tc_gpu_call *p) {
  candidate *t = arg;
  const tc_library_gemm *v = t->v;
  size_t bytes = tc_type_bytes(v->work.matmul.type);
  void *workspace = NULL;
  uint64_t ns = 0;
  size_t room = tc_gpu_call_workspace(p);
  bool biased = v->after == TC_AFTER_BIAS;
  char *left = operand(t, v->left.node), *right = operand(t, v->right.node), *result = operand(t, v->result),
       *bias = biased ? operand(t, v->bias.node) : NULL;
  if (left && right && result && (bias || !biased) && (room == 0 || tc_gpu_alloc(t->g, room, &workspace) == TC_OK)) {
    const uint64_t words[] = {word(left) + (uint64_t)v->left.first * bytes,
                              word(right) + (uint64_t)v->right.first * bytes,
                              word(result),
                              biased ? word(bias) + (uint64_t)v->bias.first * bytes : 0,
                              word(workspace),
                              0};
    tc_gpu_launch launch = {.call = p};
    const tc_gnode *x = &t->gr->graph->node[v->result];
    ns = time_launch(t->g, &launch, words, TC_GPU_CALL_WORDS, result, (size_t)x->shape->count * bytes);
  }
  tc_gpu_free(t->g, workspace);
  return ns;
}

// Adds the time of a copy of `bytes` bytes of the node's memory. False: no memory.
static bool add_copy(candidate *t, uint32_t node, size_t bytes, uint64_t *ns) {
  char *from = operand(t, node);
  uint64_t took = from ? tc_library_gemm_time_copy(t->g, from, bytes) : 0;
  *ns += took;
  return took > 0;
}

// Adds the time of what the library needs besides its call: an epilogue kernel, and in a replayed
// graph copies of operands at new addresses.
static bool time_beside(candidate *t, uint64_t *ns) {
  const tc_library_gemm *v = t->v;
  const uint32_t node[] = {v->left.node, v->right.node, v->result, v->bias.node};
  bool timed = v->after != TC_AFTER_MORE || add_copy(t, v->result, tc_gpu_work_bytes(&v->work, 2), ns);
  for (uint32_t i = 0; i < 4 && timed; i++)
    if (v->moves[i]) timed = add_copy(t, node[i], tc_gpu_work_bytes(&v->work, i), ns);
  return timed;
}

static bool measure_both(candidate *t, const tc_emit_result *e, tc_library_gemm_times *out) {
  tc_gpu_algorithm a[TC_LIBRARY_MOST_TIMED];
  uint64_t beside = 0;
  *out = (tc_library_gemm_times){.generated_ns = time_generated(t, e)};
  int n = out->generated_ns ? tc_library_list(t->g, &t->v->work, a) : 0;
  return n > 0 && time_beside(t, &beside) && tc_library_time_all(t->g, &t->v->work, a, n, time_call, t, beside, out);
}

bool tc_library_gemm_measure(void *rivals, tc_library_gemm_times *out) {
  const tc_library_gemm_rivals *r = rivals;
  const tc_gpu_matmul_facts *f = &r->v->work.matmul;
  tc_error_mark before = tc_error_now();
  candidate *t = tc_calloc(1, sizeof *t);
  if (!t) return false;
  t->g = r->gr->graph->target.gpu, t->gr = r->gr, t->v = r->v;
  bool measured = measure_both(t, r->e, out);
  if (!measured)
    tc_log_line(TC_LOG_TUNE, "a matmul of %lld x %lld x %lld is generated, for it could not be timed: %s",
                (long long)f->m, (long long)f->n, (long long)f->k, tc_last_error()->message);
  for (uint32_t i = 0; i < t->n; i++) tc_gpu_free(t->g, t->at[i]);
  tc_free(t);
  (void)tc_error_tell(before);
  return measured;
}
