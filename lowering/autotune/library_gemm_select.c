// Chooses between a library and a generated kernel for a matmul, by rule or by cached measurement.
// See library_gemm.h.
#include <inttypes.h>
#include <string.h>

#include "lowering/autotune/library_gemm.h"
#include "runtime/log.h"

// ---- the rule ----

// The library's price includes an epilogue kernel, which reads and writes the result once more, and
// the copies of a replayed graph.
static double gain_ns(const tc_library_gemm *v, const tc_gpu_facts *g) {
  const tc_gpu_matmul_facts *f = &v->work.matmul;
  double result = (double)f->batch * (double)f->m * (double)f->n,
         bytes = v->after == TC_AFTER_MORE ? result * (double)tc_type_bytes(f->type) : 0;
  return tc_library_gemm_gain_ns(g, f->type, 2 * result * (double)f->k,
                                 2 * (bytes + (double)tc_library_copied_bytes(&v->work, v->moves)));
}

// ---- choices ----

static void write_key(const tc_library_gemm *v, const tc_emit_result *e, char key[TC_TUNING_KEY]) {
  const tc_gpu_matmul_facts *f = &v->work.matmul;
  char copied[40] = "";
  size_t bytes = tc_library_copied_bytes(&v->work, v->moves);
  if (bytes) snprintf(copied, sizeof copied, " copying %zu", bytes);
  snprintf(key, TC_TUNING_KEY,
           "%s %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "%s left %s %" PRId64 " %" PRId64 " right %s %" PRId64
           " %" PRId64 " aligned %u as %s%s",
           tc_type_name(f->type), f->batch, f->m, f->n, f->k, copied, f->left.transposed ? "transposed" : "straight",
           f->left.row, f->left.batch, f->right.transposed ? "transposed" : "straight", f->right.row, f->right.batch,
           f->alignment, e->stem, e->kir.n_map ? " by wgmma" : "");
}

static bool measured(const tc_library_gemm *v, const tc_fusion_plan *gr, const tc_fusion *gp, tc_arena *scratch,
                     tc_gpu_call **out) {
  tc_gpu *g = gr->graph->target.gpu;
  tc_emit_result e;
  tc_arena_reset(scratch);
  // the kernel IR is only timed here; an error is reported when the kernel is emitted for the plan
  if (tc_emit_fusion(&e, gr, gp, NULL, scratch) != TC_OK) return false;
  tc_library_gemm_rivals in = {v, gr, &e};
  tc_library_selection c = {.gpu = g, .work = &v->work, .measure = tc_library_gemm_measure, .arg = &in};
  c.db = tc_library_db(g, gr->graph->node[v->node].dev, TC_GPU_MATMULS, "products");
  write_key(v, &e, c.key);
  bool library = tc_library_select_run(&c, out);
  tc_kir_destroy(&e.kir);
  return library;
}

// Whether the library can add the bias. If not, it computes the matmul alone, and a kernel adds the
// bias.
static bool adds_bias(const tc_library_gemm *v, tc_gpu *g) {
  tc_gpu_algorithm a;
  int n = 0;
  tc_error_mark before = tc_error_now();
  tc_status st = tc_gpu_call_find(g, &v->work, &a, 1, &n);
  (void)tc_error_tell(before);
  return st != TC_OK || n > 0;
}

static tc_library_gemm_way ask_library(const tc_library_gemm *v, tc_gpu *g) {
  const tc_gpu_matmul_facts *f = &v->work.matmul;
  if (!tc_library_gemm_may_sum(f->type, f->k)) return TC_LIBRARY_GEMM_NEVER;
  return tc_library_gemm_ask(g, TC_GPU_MATMULS, (double)(f->batch * f->m * f->n) * (double)f->k,
                             gain_ns(v, tc_gpu_facts_of(g)));
}

bool tc_library_gemm_choose(tc_library_gemm *v, const tc_fusion_plan *gr, const tc_fusion *gp, tc_arena *scratch,
                            tc_gpu_call **out) {
  tc_gpu *g = gr->graph->target.gpu;
  tc_library_gemm_way way = ask_library(v, g);
  *out = NULL;
  if (way != TC_LIBRARY_GEMM_NEVER && v->after == TC_AFTER_BIAS && !adds_bias(v, g)) {
    v->after = TC_AFTER_MORE, v->result = v->node, v->work.matmul.epilogue = TC_GPU_NO_EPILOGUE;
    v->moves[2] = v->moves[3] = false;  // the result and the bias belong to the epilogue kernel
    way = ask_library(v, g);
  }
  if (way == TC_LIBRARY_GEMM_NEVER) return false;
  return way == TC_LIBRARY_GEMM_TIMED ? measured(v, gr, gp, scratch, out) : tc_library_make_first(g, &v->work, out);
}
