// Builds programs, and implements the interface that lazy/ sees. See pipeline.h.
#include "lowering/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/autotune/host_rates.h"
#include "lowering/autotune/library_conv.h"
#include "lowering/autotune/tuning_cache.h"
#include "lowering/emit/emitter.h"
#include "lowering/program/facts.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/program/loaded.h"
#include "lowering/program/memory_plan.h"
#include "lowering/program/program.h"
#include "lowering/program/constant_cache.h"
#include "lowering/program/size_piece.h"
#include "lowering/jit/tier_up.h"
#include "lowering/program/steps.h"
#include "lowering/program/verify.h"
#include "lowering/program/stages.h"
#include "lowering/target/cpu_target.h"
#include "lowering/target/isa.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/profile.h"
#include "runtime/profile_file.h"

// Most cached bytes per byte of parameters. Winograd F(4, 3) tiles are four times the weights.
#define MOST_CACHED 5

static tc_status no_room(void) {
  return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
}

// ---- the graph ----

// Each graph pass is defined in the file of its name in graph/.
tc_status tc_pass_partition(tc_graph *g);
tc_status tc_pass_cse(tc_graph *g);
tc_status tc_pass_sink_permute(tc_graph *g);
tc_status tc_pass_slice_update(tc_graph *g);
tc_status tc_pass_expand_conv(tc_graph *g);
tc_status tc_pass_expand_softmax(tc_graph *g);
tc_status tc_pass_expand_to_slice(tc_graph *g);
tc_status tc_pass_split_reduction(tc_graph *g);
tc_status tc_pass_commute_matmul(tc_graph *g);
tc_status tc_pass_fold_transpose(tc_graph *g);
tc_status tc_pass_store_at_producer(tc_graph *g);
tc_status tc_pass_split_k(tc_graph *g);
tc_status tc_pass_split_kv(tc_graph *g);
tc_status tc_pass_mark_prologue(tc_graph *g);
tc_status tc_pass_prepack_weights(tc_graph *g);
tc_status tc_pass_schedule(tc_graph *g);

typedef struct graph_pass {
  const char *name;
  tc_status (*run)(tc_graph *g);
  bool (*when)(const tc_graph *g);  // NULL: the pass always runs
} graph_pass;

static bool is_for_gpu(const tc_graph *g) {
  return tc_target_is_gpu(&g->target);
}

static bool is_for_loaded(const tc_graph *g) {
  return g->plan->n_node > 0 && tc_device_kind_of((tc_device)g->plan->dev[0]) == TC_DEVICE_LOADED;
}

static bool is_for_cpu(const tc_graph *g) {
  return !tc_target_is_gpu(&g->target);
}

// The passes in order. No pass calls another.
static const graph_pass passes[] = {
    {"partition", tc_pass_partition, is_for_loaded},  // what a loaded back end takes, and what it does not
    {"cse", tc_pass_cse, NULL},  // merges equal nodes, and simplifies (graph/simplify.c)
    {"sink_permute", tc_pass_sink_permute, NULL},  // sinks permutations below elementwise nodes
    {"slice_update", tc_pass_slice_update, NULL},  // marks small writes into assigned tensors
    {"expand_conv", tc_pass_expand_conv, NULL},  // before other expansions: it inspects the epilogue
    {"expand_softmax", tc_pass_expand_softmax, NULL},
    {"expand_to_slice", tc_pass_expand_to_slice, NULL},  // roll; on a GPU argkth, too
    {"split_reduction", tc_pass_split_reduction, NULL},  // one run of axes at a time; long ones in parts
    {"commute_matmul", tc_pass_commute_matmul, is_for_cpu},  // transposes a matmul whose result is permuted
    {"fold_transpose", tc_pass_fold_transpose, NULL},  // folds transposes into matmuls and attention
    {"store_at_producer", tc_pass_store_at_producer, NULL},  // stores reshaped outputs where they are computed
    {"split_k", tc_pass_split_k, is_for_gpu},
    {"split_kv", tc_pass_split_kv, is_for_gpu},
    {"mark_prologue", tc_pass_mark_prologue, NULL},  // marks dequantized operands of matmuls
    {"prepack_weights", tc_pass_prepack_weights, NULL},  // packs parameters for matmuls of few rows
    {"schedule", tc_pass_schedule, NULL},
};

const char *tc_graph_pass_name(size_t i) {
  return i < sizeof passes / sizeof passes[0] ? passes[i].name : NULL;
}

tc_status tc_graph_run_passes(tc_graph *g, const char *last) {
  char *text = NULL;  // the graph as it was logged last
  tc_status st = TC_OK;
  bool log = tc_log_on(TC_LOG_PASS) && !g->any_size, done = false;  // samples of sizes never run
  if (log) tc_graph_log_pass(g, "import", &text);
  for (const graph_pass *p = passes; st == TC_OK && !done && p < passes + sizeof passes / sizeof passes[0]; p++) {
    if (!p->when || p->when(g)) st = p->run(g);
    if (st == TC_OK && log) tc_graph_log_pass(g, p->name, &text);
#ifndef NDEBUG
    if (st == TC_OK) st = tc_graph_verify(g, p->name);
#endif
    done = last && strcmp(p->name, last) == 0;
  }
  free(text);
  return st;
}

tc_status tc_graph_build(tc_graph *g, const tc_plan *plan, tc_arena *arena) {
  TC_TRY(tc_graph_import(g, plan, arena));
  g->choose_conv = tc_library_conv_choose;
  TC_TRY(tc_graph_run_passes(g, NULL));
  if (tc_log_on(TC_LOG_PLAN)) tc_graph_log(g);
  return TC_OK;
}

// ---- fusion, until every fusion has a step ----

// Whether the constant cache would hold more than packed parameters: the plan's "parameters" are
// then its data. False without memory; else *much is the answer.
static bool caches_much(const tc_builder *b, bool *much) {
  const tc_program *p = b->p, *q = p->prepare;
  bool *read = tc_calloc(b->plan->n_leaf + 1, sizeof *read);
  size_t made = 0, of = 0;
  *much = false;
  if (!read) return false;
  for (uint32_t i = 0; i < p->n_cached; i++) made += p->cached_bytes[i];
  for (uint32_t i = 0; i < q->n_binding; i++)
    if (q->binding[i] < b->plan->n_leaf) read[q->binding[i]] = true;
  for (uint32_t n = 0; n < b->plan->n_node; n++)
    if (b->is_constant[n] == TC_CONST_PARAM && read[b->plan->leaf_of[n]])
      of += (size_t)p->graph.node[n].shape->count * tc_type_bytes(p->graph.node[n].type);
  tc_free(read);
  *much = made > MOST_CACHED * of + MOST_CACHED * 64 * (size_t)p->n_cached;
  return true;
}

// Makes node n stored, since a view of it is not affine; if it already was, puts it in a kernel of
// its own.
static void force(tc_builder *b, uint32_t n, bool *met) {
  if (!met[n] && b->must_materialize[n] < TC_NO_FUSION) b->must_materialize[n]++;
  met[n] = true;
}

// Looks for all fusions with non-affine views, not only the first, so that fusion runs again once
// for many of them.
// Measured: one ResNet18 training step: one by one, fusion ran 41 times and took 0.4 s.
static tc_status materialize_not_affine(tc_builder *b) {
  tc_error_mark before = tc_error_now();
  bool *met = tc_calloc(b->p->graph.n + 1, sizeof *met);
  if (!met) return no_room();
  force(b, b->not_affine, met);
  tc_status st = TC_OK;
  for (uint32_t g = 0; g < b->gr.n_fusion && st != TC_ERR_MEMORY; g++) {
    const tc_fusion *gp = &b->gr.fusion[g];
    tc_emit_result e;
    if (b->emitted[g] || gp->merged != TC_FUSION_NONE || gp->n_member == 0 || gp->kind == TC_FUSION_EXTERN) continue;
    if (gp->kind == TC_FUSION_MATMUL && tc_target_is_gpu(&b->p->graph.target)) continue;  // a library may compute it
    tc_count(TC_PASS_STEPS, gp->n_member);
    tc_arena_reset(&b->expansion);
    st = tc_emit_fusion(&e, &b->gr, gp, NULL, &b->expansion);
    if (st == TC_OK)
      tc_kir_destroy(&e.kir);
    else if (!e.full && e.not_affine != TC_NONE)
      force(b, e.not_affine, met);
  }
  tc_free(met);
  if (st == TC_ERR_MEMORY) return st;
  (void)tc_error_tell(before);  // other errors of a fusion are reported when its step is built
  return TC_OK;
}

static tc_status init_builder(tc_builder *b) {
  uint32_t n = b->p->graph.n + 1;
  b->mode = TC_FUSE_ANY, b->least = SIZE_MAX;
  b->must_materialize = tc_arena_alloc(&b->p->arena, n);
  b->alone = tc_arena_alloc(&b->p->arena, n * sizeof *b->alone);
  b->p->prepare = tc_calloc(1, sizeof *b->p->prepare);
  bool room = b->must_materialize && b->alone && b->p->prepare;
  return room && tc_memory_op_by_op(b->plan, &b->op_by_op) ? TC_OK : no_room();
}

static tc_status make_fusions(tc_builder *b) {
  const tc_graph *g = &b->p->graph;
  tc_steps_clear(b->p);
  tc_arena_reset(&b->fusion_plan);
  uint32_t **const of_nodes[] = {&b->storage, &b->made_in, &b->checks, &b->next_check};
  for (size_t i = 0; i < sizeof of_nodes / sizeof of_nodes[0]; i++)
    if (!(*of_nodes[i] = tc_arena_alloc(&b->fusion_plan, (g->n + 1) * sizeof **of_nodes[i]))) return no_room();
  b->emitted = tc_arena_alloc(&b->fusion_plan, g->n + 1);
  b->is_constant = tc_arena_alloc(&b->fusion_plan, g->n + 1);
  b->way = tc_arena_alloc(&b->fusion_plan, (g->n + 1) * sizeof *b->way);
  if (!b->emitted || !b->is_constant || !b->way) return no_room();
  memset(b->storage, 0xFF, g->n * sizeof *b->storage);
  for (uint32_t n = 0; n < g->n; n++) b->is_constant[n] = g->node[n].parameter ? TC_CONST_PARAM : TC_CONST_NO;
  b->plan->bytes_moved = 0, b->not_affine = TC_NONE, b->full = b->apart = false;
  return tc_fusion_build(&b->gr, g, &b->fusion_plan, b->must_materialize, b->mode);
}

// Whether the program has a temporary that TC_FUSE_LOW_MEMORY counts as large.
static bool holds_large(const tc_program *p) {
  for (uint32_t i = 0; i < p->n_allocation; i++)
    if (p->allocation[i].bytes >= TC_LARGE_BYTES) return true;
  return false;
}

// Decides about a plan whose fusions all have steps. *done: the plan is final. Else fusion runs
// again without the constant cache, if that would hold too much. It runs in low-memory mode if the
// plan needs more memory than op-by-op execution or than the budget. If that mode gains nothing, it
// runs in the first mode again.
static tc_status settle(tc_builder *b, bool *done) {
  tc_program *p = b->p;
  bool much = false;
  if (b->prepare && !caches_much(b, &much)) return no_room();
  if (much) return b->prepare = false, TC_OK;
  size_t budget = tc_plan_budget(b->plan);
  if (!tc_memory_order(p, b->plan, budget)) return no_room();
  size_t bytes = p->arena_bytes;
  for (uint32_t o = 0; o < b->plan->n_out; o++) bytes += b->plan->out[o].bytes;
  size_t most = b->op_by_op + b->op_by_op / 16 + p->graph.panel_bytes;
  bool holds_more = p->arena_bytes >= LARGE_ARENA && bytes > most;
  holds_more = (holds_more || (budget && p->arena_bytes > budget)) && holds_large(p);
  *done = b->mode == TC_FUSE_SMALL || (b->mode == TC_FUSE_ANY ? !holds_more || b->least != SIZE_MAX : bytes < b->least);
  b->mode = b->mode == TC_FUSE_ANY ? TC_FUSE_LOW_MEMORY : TC_FUSE_ANY;  // back if low-memory mode gains nothing
  b->least = bytes;
  return TC_OK;
}

// Reacts to a fusion that has no step, for st. TC_OK: fusion runs again. A non-affine view gets its
// operand stored; a fusion that is too large for one kernel switches to small ones.
static tc_status relax_fusion(tc_builder *b, tc_status st) {
  if (b->apart) return TC_OK;
  if (st == TC_OK) return no_room();
  if (b->full) {
    if (b->mode == TC_FUSE_SMALL) return TC_FAIL(st, "a kernel reads and writes too many tensors");
    return b->mode = TC_FUSE_SMALL, TC_OK;
  }
  if (b->not_affine == TC_NONE) return st;
  if (b->must_materialize[b->not_affine] == TC_NO_FUSION)
    return TC_FAIL(st, "a view of stored node %u is not affine", b->not_affine);
  return materialize_not_affine(b);
}

// ---- programs ----

// Places temporaries, and rematerializes some if they exceed the budget.
static bool keep_to_budget(tc_program *p, const tc_plan *plan) {
  if (!tc_memory_plan_place(p, plan)) return false;
  size_t budget = tc_plan_budget(plan), before = p->arena_bytes;
  if (budget == 0 || before <= budget) return true;
  uint32_t n = p->n_step;
  if (!tc_rematerialize_fit(p, plan, budget)) return false;
  if (tc_log_on(TC_LOG_MEMORY) && !p->graph.any_size)
    tc_log_line(TC_LOG_MEMORY, "plan %016llx: arena of %zu bytes, budget %zu: %zu in %u steps, before %u%s",
                (unsigned long long)plan->hash.lo, before, budget, p->arena_bytes, p->n_step, n,
                p->arena_bytes > budget ? "; nearer it does not come" : "");
  return true;
}

// The program without its kernels' code. *graph: a hash that names kernels by their place in it.
static tc_status build_steps(tc_builder *b, uint64_t *graph) {
  tc_program *p = b->p;
  TC_TRY(init_builder(b));
  for (bool done = false; !done;) {
    tc_status st = TC_OK;
    TC_TRY(make_fusions(b));
    if (tc_steps_build(b, &st))
      TC_TRY(settle(b, &done));
    else
      TC_TRY(relax_fusion(b, st));
  }
  tc_arena_reset(&b->expansion);
  *graph = tc_graph_hash(&p->graph, &b->expansion);
  tc_program_choose_kernels(b, p, *graph);
  tc_program_choose_kernels(b, p->prepare, *graph);
  if (!tc_in_place_delay_writers(p, b->plan) || !tc_in_place_choose(p, b->plan) || !keep_to_budget(p, b->plan) ||
      !tc_stages_schedule(p) || !tc_stages_schedule(p->prepare))
    return no_room();
  if (tc_target_is_gpu(&p->graph.target)) {
    p->prepare->graph.target = p->graph.target;
    TC_TRY(tc_gpu_launches_create(p, false, &p->gpu));
    TC_TRY(tc_gpu_launches_create(p->prepare, true, &p->prepare->gpu));
  }
  return TC_OK;
}

static tc_status build_program(tc_builder *b) {
  uint64_t graph;
  TC_TRY(build_steps(b, &graph));
  uint64_t start = tc_ticks();
  tc_status st = tc_program_compile(b, graph);
  b->plan->compile_ticks = tc_ticks_between(start, tc_ticks());
  return st;
}

// The graph of the builder's program, for many sizes if that is what it builds.
static tc_status build_graph(tc_builder *b, const tc_plan *plan) {
  tc_graph *g = &b->p->graph;
  if (!b->any_size) return tc_graph_build(g, plan, &b->p->arena);
  TC_TRY(tc_graph_import(g, plan, &b->p->arena));
  g->any_size = true;
  TC_TRY(tc_graph_verify(g, "import"));
  return tc_graph_run_passes(g, NULL);
}

// What building alone needs.
static void fini_builder(tc_builder *b) {
  for (uint32_t n = 0; b->alone && n < b->p->graph.n; n++) tc_gpu_call_release(b->alone[n]);
  tc_arena_fini(&b->fusion_plan);
  tc_arena_fini(&b->expansion);
}

static void keep_facts(const tc_builder *b) {
  uint64_t start = tc_ticks();
  atomic_store_explicit(&b->p->facts, tc_facts_make(b, b->p), memory_order_release);
  b->plan->describe_ticks = tc_ticks_between(start, tc_ticks());
}

// Lowers a copy of the plan once more: of its first program the graph was freed.
static tc_plan_facts *describe_anew(const tc_plan *plan) {
  tc_plan copy;
  tc_plan_facts *facts = NULL;
  uint64_t graph;
  memcpy(&copy, plan, sizeof copy);
  tc_error_mark before = tc_error_now();
  const tc_options *mine = tc_options_mine;
  tc_options_mine = plan->options;
  tc_program *p = tc_calloc(1, sizeof *p);
  copy.out = tc_malloc((plan->n_out + 1) * sizeof *copy.out);
  if (p && copy.out) {
    memcpy(copy.out, plan->out, plan->n_out * sizeof *copy.out);
    for (uint32_t o = 0; o < copy.n_out; o++) copy.out[o].donor = TC_LEAF_NONE;
    tc_builder b = {
        .p = p, .plan = &copy, .prepare = tc_plan_prepares(plan), .any_size = ((tc_program *)plan->program)->is_bound};
    tc_status st = build_graph(&b, &copy);
    if (st == TC_OK) st = build_steps(&b, &graph);
    if (st == TC_OK) facts = tc_facts_make(&b, plan->program);
    if (st != TC_OK) (void)tc_error_tell(before);
    fini_builder(&b);
  }
  tc_free(copy.out);
  if (p) tc_program_destroy(p);
  tc_options_mine = mine;
  return facts;
}

static const tc_plan_facts *describe(const tc_plan *plan) {
  tc_program *p = plan->program;
  tc_plan_facts *f = p ? atomic_load_explicit(&p->facts, memory_order_acquire) : NULL, *none = NULL;
  if (f || !p || !(f = describe_anew(plan))) return f;
  if (atomic_compare_exchange_strong(&p->facts, &none, f)) return f;
  tc_facts_destroy(f);  // another thread was sooner
  return none;
}

static const char *isa_name(void) {
  return tc_compiler_isa()->name;
}

static const char *tier_of(const tc_program *p) {
  const char *tier = "none";
  if (p->gpu) return "gpu";
  if (p->loaded) return "backend";
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (p->step[i].kind == TC_STEP_KERNEL)
      return tc_kernel_tier(p->step[i].kernel) == TC_INTERPRETED ? "interp" : "llvm";
    if (p->step[i].kind == TC_STEP_ROW) tier = "ref";
  }
  return tier;
}

// ---- a program that is whole ----

// Shrinks a list to its length.
static void shrink(void *list, uint32_t *cap, uint32_t n, size_t bytes) {
  void *p = *cap > n ? tc_realloc(*(void **)list, n * bytes) : NULL;
  if (p) *(void **)list = p, *cap = n;
}

static bool is_row(const tc_step *s) {
  return s->kind == TC_STEP_ROW || s->kind == TC_STEP_ZERO || s->kind == TC_STEP_CONTROL;
}

// Copies what runs, and files, read of the nodes of ROW, ZERO and CONTROL steps, since the graph is
// freed.
static bool keep_rows(tc_program *p) {
  uint32_t n_value = 0, n_attr = 0;
  for (uint32_t i = 0; i < p->n_step && !p->gpu; i++) {
    tc_step *s = &p->step[i];
    if (!is_row(s)) continue;
    s->row.value = n_value, n_value += s->n_binding;
    s->row.attr = n_attr, n_attr += (uint32_t)p->graph.node[s->node].n_attr;
  }
  if (n_value == 0) return true;
  p->row_value = tc_malloc(n_value * sizeof *p->row_value);
  p->row_attr = tc_malloc(n_attr * sizeof *p->row_attr);
  if (!p->row_value || !p->row_attr) return false;
  p->n_row_value = n_value, p->n_row_attr = n_attr;
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    if (!is_row(s)) continue;
    const tc_gnode *x = &p->graph.node[s->node];
    tc_row_value *v = p->row_value + s->row.value;
    *v++ = (tc_row_value){x->shape, x->type};
    for (int k = 0; k < x->n_in; k++)
      *v++ = (tc_row_value){p->graph.node[x->in[k]].shape, p->graph.node[x->in[k]].type};
    if (x->n_attr) memcpy(p->row_attr + s->row.attr, x->attr, (size_t)x->n_attr * sizeof *x->attr);
  }
  return true;
}

// Frees what only building needed. A program may live long, and its graph is many times as large as
// the rest.
static tc_status finish(tc_program *p) {
  if (!keep_rows(p)) return no_room();
  if (is_for_loaded(&p->graph)) TC_TRY(tc_loaded_steps_create(p, p->graph.plan, &p->loaded));
  for (tc_program *q = p; q; q = q->prepare) {
    shrink(&q->step, &q->cap_step, q->n_step, sizeof *q->step);
    shrink(&q->binding, &q->cap_binding, q->n_binding, sizeof *q->binding);
    shrink(&q->num, &q->cap_num, q->n_num, sizeof *q->num);
    shrink(&q->allocation, &q->cap_allocation, q->n_allocation, sizeof *q->allocation);
    shrink(&q->cached_bytes, &q->cap_cached, q->n_cached, sizeof *q->cached_bytes);
  }
  tc_graph_fini(&p->graph);
  p->graph = (tc_graph){.plan = p->graph.plan, .target = p->graph.target, .packs_few = p->graph.packs_few};
  tc_arena_fini(&p->arena);
  return TC_OK;
}

// Memory of a run, without cached constants.
static size_t taken_bytes(const tc_program *p, const tc_plan *plan) {
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : 0);
  for (uint32_t o = 0; o < plan->n_out; o++) bytes += plan->out[o].donor == TC_LEAF_NONE ? plan->out[o].bytes : 0;
  return bytes;
}

static void tell_plan(tc_program *p, tc_plan *plan) {
  plan->taken_bytes = taken_bytes(p, plan);
  plan->tier = tier_of(p);
  atomic_store_explicit(&p->interprets, !p->gpu, memory_order_relaxed);
  atomic_store_explicit(&p->n_used, UINT32_MAX, memory_order_relaxed);
  if (tc_log_on(TC_LOG_PLAN)) tc_program_log(p, plan);
  plan->program = p;
}

static tc_status lower(tc_plan *plan) {
  tc_program *p = tc_calloc(1, sizeof *p);
  if (!p) return no_room();
  tc_builder b = {.p = p, .plan = plan, .prepare = tc_plan_prepares(plan)};
  tc_status st = tc_graph_build(&p->graph, plan, &p->arena);
  if (st == TC_OK) st = build_program(&b);
  if (st == TC_OK && tc_profile_is_on()) keep_facts(&b);
  fini_builder(&b);
  if (st != TC_OK) return tc_program_destroy(p), st;
  plan->n_kernels = tc_stages_count_kernels(p, NULL);
  plan->n_left = p->graph.n_order;
  if ((st = finish(p)) != TC_OK) return tc_program_destroy(p), st;
  tell_plan(p, plan);
  return TC_OK;
}

// ---- programs for many sizes ----

static tc_status build_sample(tc_plan *plan, const tc_program *like, tc_program **out) {
  tc_program *p = tc_calloc(1, sizeof *p);
  uint64_t graph;
  *out = NULL;
  if (!p) return no_room();
  tc_builder b = {.p = p, .plan = plan, .prepare = tc_plan_prepares(plan), .like = like, .any_size = true};
  tc_status st = build_graph(&b, plan);
  if (st == TC_OK) st = build_steps(&b, &graph);
  fini_builder(&b);
  if (st != TC_OK) return tc_program_destroy(p), st;
  return *out = p, TC_OK;
}

static tc_status complete_program(tc_program *p, tc_plan *plan) {
  tc_builder b = {.p = p, .plan = plan};
  tc_status st = tc_program_compile(&b, 0);
  tc_arena_fini(&b.expansion);
  return st == TC_OK ? finish(p) : st;
}

static void *lower_any_size(const tc_size_source *from, tc_size_box *box, const char **why) {
  static const tc_size_builder by = {build_sample, complete_program};
  return tc_size_piece_create(from, &by, box, why);
}

static tc_status bind(const void *general, const int64_t *size, tc_plan *plan) {
  TC_TRY(tc_size_piece_bind(general, size, plan));
  tell_plan(plan->program, plan);
  return TC_OK;
}

static void drop_any_size(void *general) {
  tc_size_piece_destroy(general);
}

static size_t any_size_bytes(const void *general) {
  return tc_size_piece_bytes(general);
}

tc_status tc_pipeline_lower_steps(tc_plan *plan, tc_program **out) {
  uint64_t graph;
  *out = NULL;
  tc_program *p = tc_calloc(1, sizeof *p);
  if (!p) return no_room();
  tc_builder b = {.p = p, .plan = plan, .prepare = tc_plan_prepares(plan)};
  tc_status st = tc_graph_build(&p->graph, plan, &p->arena);
  if (st == TC_OK) st = build_steps(&b, &graph);
  fini_builder(&b);
  if (st == TC_OK) st = finish(p);
  if (st != TC_OK) return tc_program_destroy(p), st;
  *out = p;
  return TC_OK;
}

// ---- the interface lazy sees ----

static void clear_caches(void) {
  tc_tier_up_stop();
  tc_constant_cache_clear();
  tc_kernel_cache_clear();
  tc_tuning_cache_clear();
}

static void stats(tc_cache_info *info) {
  tc_kernel_stats(info);
  tc_tuning_cache_stats(info);
}

const tc_lowering_ops tc_lowering = {
    .lower = lower,
    .lower_any_size = lower_any_size,
    .bind = bind,
    .drop_any_size = drop_any_size,
    .any_size_bytes = any_size_bytes,
    .launch = tc_program_launch,
    .destroy = tc_program_destroy,
    .bytes = tc_program_bytes,
    .verify_begin = tc_verify_begin,
    .verify_end = tc_verify_end,
    .find_anomaly = tc_anomaly_find,
    .describe = describe,
    .isa = isa_name,
    .host_peak_rates = tc_host_peak_rates,
    .clear = clear_caches,
    .stats = stats,
};
