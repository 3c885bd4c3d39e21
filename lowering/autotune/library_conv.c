// Chooses between a library and generated kernels for a convolution, by rule or by cached
// measurement. See library_conv.h.
#include "lowering/autotune/library_conv.h"

#include <inttypes.h>
#include <string.h>

#include "lowering/graph/graph.h"
#include "runtime/log.h"

#define MOST_VIEWS 8  // depth of nested views that is searched

// ---- the convolution ----

// Whether every reader of node n is elementwise, so that a generated kernel would never store n.
// *any: set if there is such a reader.
static bool is_elementwise_after(const tc_graph *g, uint32_t n, int views, bool *any) {
  if (g->node[n].out != TC_LEAF_NONE || views > MOST_VIEWS) return false;
  for (uint32_t m = 0; m < g->n; m++) {
    const tc_gnode *x = &g->node[m];
    bool reads = false;
    for (int i = 0; i < x->n_in; i++) reads |= x->in[i] == n;
    if (!reads) continue;
    tc_op_kind kind = tc_op_kind_of(x->op);
    if (kind == TC_KIND_ELEM)
      *any = true;
    else if (kind != TC_KIND_MOVE || !is_elementwise_after(g, m, views + 1, any))
      return false;
  }
  return true;
}

// Whether an operand lies in the caller's memory and is no parameter. One that is permuted before
// the library reads it lies in the run's arena.
static bool is_given(const tc_graph *g, uint32_t n) {
  while (g->node[n].leaf == TC_LEAF_NONE && tc_op_is_alias(g->node[n].op)) n = g->node[n].in[0];
  return g->node[n].leaf != TC_LEAF_NONE ? !g->node[n].stable_address : g->node[n].out != TC_LEAF_NONE;
}

// Whether the library's result is an output of the program, without a copy.
static bool is_kept(const tc_graph *g, uint32_t n) {
  bool kept = g->node[n].out != TC_LEAF_NONE;
  for (uint32_t m = n + 1; m < g->n && !kept; m++) {
    uint32_t from = m;
    while (from > n && (g->node[from].op == TC_OP_RESHAPE || g->node[from].op == TC_OP_DETACH))
      from = g->node[from].in[0];
    kept = from == n && g->node[m].out != TC_LEAF_NONE;
  }
  return kept;
}

// Finds the operands that may have another address in each run. Weights and their gradients are
// permuted, so they lie in the arena.
static void find_copied(tc_library_conv *v) {
  const tc_gnode *x = &v->graph->node[v->node];
  bool by_weight = x->op == TC_OP_CONV_WEIGHT;
  v->moves[0] = is_given(v->graph, x->in[0]), v->moves[1] = by_weight && is_given(v->graph, x->in[1]),
  v->moves[2] = !by_weight && is_kept(v->graph, v->node);
}

static double count_of(int64_t outer, int64_t inner, const int64_t *extent, int axes) {
  double n = (double)outer * (double)inner;
  for (int i = 0; i < axes; i++) n *= (double)extent[i];
  return n;
}

static double weights_of(const tc_gpu_conv_facts *f) {
  return count_of(f->out, f->in / f->groups, f->taps, f->axes);
}

// The most products summed into one element of the result.
static int64_t terms_of(const tc_gpu_conv_facts *f) {
  int64_t taps = 1, pixels = f->batch;
  for (int i = 0; i < f->axes; i++) taps *= f->taps[i], pixels *= f->result[i];
  if (f->direction == TC_GPU_BY_WEIGHT) return pixels;
  return taps * ((f->direction == TC_GPU_FORWARD ? f->in : f->out) / f->groups);
}

static double steps_of(const tc_gpu_conv_facts *f) {
  return count_of(f->batch, f->out, f->result, f->axes) * weights_of(f) / (double)f->out;
}

// The library's price: the weight is permuted; where a kernel follows, the result is written and
// read once more; operands at new addresses are copied.
static double gain_ns(const tc_library_conv *v, const tc_gpu_facts *g) {
  const tc_gpu_conv_facts *f = &v->work.conv;
  double made = f->direction == TC_GPU_FORWARD    ? count_of(f->batch, f->out, f->result, f->axes)
                : f->direction == TC_GPU_BY_IMAGE ? count_of(f->batch, f->in, f->image, f->axes)
                                                  : weights_of(f);
  double elements = 2 * weights_of(f) + (v->followed ? 2 * made : 0);
  double copied = 2 * (double)tc_library_copied_bytes(&v->work, v->moves);
  return tc_library_gemm_gain_ns(g, f->type, 2 * steps_of(f), elements * (double)tc_type_bytes(f->type) + copied);
}

// ---- choices ----

static void add_list(char *key, size_t *n, const char *name, const int64_t *value, int axes) {
  for (int i = 0; i < axes && *n < TC_TUNING_KEY; i++)
    *n += (size_t)snprintf(key + *n, TC_TUNING_KEY - *n, "%s%" PRId64, i ? "x" : name, value[i]);
}

static void write_key(const tc_library_conv *v, char key[TC_TUNING_KEY]) {
  static const char *const directions[] = {"conv", "conv by image", "conv by weight"};
  const tc_gpu_conv_facts *f = &v->work.conv;
  const int64_t channels[] = {f->in, f->out};
  size_t copied = tc_library_copied_bytes(&v->work, v->moves);
  size_t n =
      (size_t)snprintf(key, TC_TUNING_KEY, "%s %s %" PRId64, tc_type_name(f->type), directions[f->direction], f->batch);
  add_list(key, &n, "x", f->image, f->axes);
  if (copied && n < TC_TUNING_KEY) n += (size_t)snprintf(key + n, TC_TUNING_KEY - n, " copying %zu", copied);
  add_list(key, &n, " channels ", channels, 2);
  add_list(key, &n, " taps ", f->taps, f->axes);
  add_list(key, &n, " steps ", f->stride, f->axes);
  add_list(key, &n, " apart ", f->dilation, f->axes);
  add_list(key, &n, " padded ", f->low, f->axes);
  add_list(key, &n, " and ", f->high, f->axes);
  if (n < TC_TUNING_KEY)
    snprintf(key + n, TC_TUNING_KEY - n, " groups %" PRId64 "%s", f->groups, v->followed ? " followed" : "");
}

static bool select_measured(tc_library_conv *v, tc_gpu *g, tc_gpu_call **out) {
  tc_library_selection c = {.gpu = g, .work = &v->work, .measure = tc_library_conv_measure, .arg = v};
  c.db = tc_library_db(g, v->graph->node[v->node].dev, TC_GPU_CONVOLUTIONS, "convolutions");
  write_key(v, c.key);
  return tc_library_select_run(&c, out);
}

tc_gpu_call *tc_library_conv_choose(const tc_graph *g, uint32_t n) {
  tc_library_conv v = {.graph = g, .node = n, .work.library = TC_GPU_CONVOLUTIONS};
  tc_gpu *gpu = g->target.gpu;
  const tc_gpu_conv_facts *f = &v.work.conv;
  tc_gpu_call *call = NULL;
  bool any = false;
  if (!tc_target_is_gpu(&g->target)) return NULL;
  if (tc_library_conv_forced(&call)) return call;
  if (n >= g->plan->n_node || !tc_conv_facts(g, n, &v.work.conv) || !tc_library_gemm_may_sum(f->type, terms_of(f)))
    return NULL;
  v.followed = is_elementwise_after(g, n, 0, &any) && any;
  find_copied(&v);
  tc_library_gemm_way way =
      tc_library_gemm_ask(gpu, TC_GPU_CONVOLUTIONS, steps_of(f), gain_ns(&v, tc_gpu_facts_of(gpu)));
  if (way == TC_LIBRARY_GEMM_NEVER) return NULL;
  bool chosen =
      way == TC_LIBRARY_GEMM_FIRST ? tc_library_make_first(gpu, &v.work, &call) : select_measured(&v, gpu, &call);
  return chosen ? call : NULL;
}
