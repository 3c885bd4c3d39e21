// Builds programs, and is the interface that lazy sees. See pipeline.h.
#include "lowering/pipeline.h"

#include <string.h>

#include "lowering/program/rematerialize.h"
#include "lowering/program/anomaly.h"
#include "lowering/autotune/tuning_cache.h"
#include "lowering/emit/emitter.h"
#include "lowering/program/gpu/launches.h"
#include "lowering/program/in_place.h"
#include "lowering/program/memory_plan.h"
#include "lowering/program/program.h"
#include "lowering/program/run.h"
#include "lowering/program/step_order.h"
#include "lowering/program/constant_cache.h"
#include "lowering/jit/tier_up.h"
#include "lowering/program/steps.h"
#include "lowering/autotune/tune_gemm.h"
#include "lowering/program/verify.h"
#include "lowering/program/stages.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/passes.h"
#include "runtime/watch.h"

#define MOST_FORMS 5  // bytes prepared for a byte of parameters: tiles of Winograd's F(4, 3) are four times the weights

// ---- groups, until all can be said ----

static size_t output_bytes(const tc_plan *plan) {
  size_t sum = 0;
  for (uint32_t o = 0; o < plan->n_out; o++) sum += plan->out[o].bytes;
  return sum;
}

static void find_lasting(tc_builder *b) {
  for (uint32_t n = 0; n < b->p->graph.n; n++) b->lasts[n] = b->p->graph.node[n].parameter ? TC_LASTS_LEAF : TC_LASTS_NOT;
}

// Whether more would be kept than forms of parameters: then what the plan calls parameters is its data. *much: false without memory, too.
static bool prepares_much(const tc_builder *b, bool *much) {
  const tc_program *p = b->p, *q = p->prepare;
  bool *read = tc_calloc(b->plan->n_leaf + 1, sizeof *read);
  size_t made = 0, of = 0;
  *much = false;
  if (!read) return false;
  for (uint32_t i = 0; i < p->n_kept; i++) made += p->kept_bytes[i];
  for (uint32_t i = 0; i < q->n_bind; i++)
    if (q->bind[i] < b->plan->n_leaf) read[q->bind[i]] = true;
  for (uint32_t n = 0; n < b->plan->n_node; n++)
    if (b->lasts[n] == TC_LASTS_LEAF && read[b->plan->leaf_of[n]]) of += (size_t)p->graph.node[n].shape->count * tc_type_bytes(p->graph.node[n].type);
  tc_free(read);
  *much = made > MOST_FORMS * of + MOST_FORMS * 64 * (size_t)p->n_kept;
  return true;
}

// A view of node n could not be said: from now on it is stored, and alone if it was stored already.
static void force(tc_builder *b, uint32_t n, bool *met) {
  if (!met[n] && b->forced[n] < TC_FORCE_ALONE) b->forced[n]++;
  met[n] = true;
}

// After a group that cannot be said: the same for those that were not looked at yet, so that groups are made again once for many of them. One by one they
// were made 41 times for a step of training ResNet18, which took 0.4 of a second.
static tc_status force_unsaid(tc_builder *b) {
  tc_error_mark before = tc_error_now();
  bool *met = tc_calloc(b->p->graph.n + 1, sizeof *met);
  if (!met) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  force(b, b->unsaid, met);
  tc_status st = TC_OK;
  for (uint32_t g = 0; g < b->gr.n_group && st != TC_ERR_MEMORY; g++) {
    const tc_group *gp = &b->gr.group[g];
    tc_expansion e;
    if (b->emitted[g] || gp->merged != TC_GROUP_NONE || gp->n_member == 0 || gp->kind == TC_GROUP_EXTERN) continue;
    if (gp->kind == TC_GROUP_GEMM && tc_target_is_gpu(&b->p->graph.target)) continue;  // it may be a library's
    tc_count(TC_PASS_STEPS, gp->n_member);
    tc_arena_reset(&b->expansion);
    st = tc_expand_group(&e, &b->gr, gp, NULL, &b->expansion);
    if (st == TC_OK)
      tc_nest_destroy(&e.nest);
    else if (!e.full && e.unsaid != TC_NONE)
      force(b, e.unsaid, met);
  }
  tc_free(met);
  if (st == TC_ERR_MEMORY) return st;
  (void)tc_error_tell(before);  // what else is wrong with a group shows when it is met
  return TC_OK;
}

static tc_status init_builder(tc_builder *b) {
  tc_arena *arena = &b->p->arena;
  uint32_t n = b->p->graph.n;
  b->mode = TC_GROUP_ANY, b->least = SIZE_MAX;
  b->forced = tc_arena_alloc(arena, n + 1);
  b->emitted = tc_arena_alloc(arena, n + 1);
  b->place = tc_arena_alloc(arena, (n + 1) * sizeof *b->place);
  b->made_in = tc_arena_alloc(arena, (n + 1) * sizeof *b->made_in);
  b->lasts = tc_arena_alloc(arena, n + 1);
  b->alone = tc_arena_alloc(arena, (n + 1) * sizeof *b->alone);
  b->checks = tc_arena_alloc(arena, (n + 1) * sizeof *b->checks);
  b->next_check = tc_arena_alloc(arena, (n + 1) * sizeof *b->next_check);
  b->way = tc_arena_alloc(arena, (n + 1) * sizeof *b->way);
  b->p->prepare = tc_calloc(1, sizeof *b->p->prepare);
  bool room = b->forced && b->emitted && b->place && b->made_in && b->lasts && b->alone && b->checks && b->next_check && b->way && b->p->prepare;
  return room && tc_memory_op_by_op(b->plan, &b->op_by_op) ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a program");
}

static tc_status make_groups(tc_builder *b) {
  uint32_t n = b->p->graph.n;
  tc_steps_clear(b->p);
  memset(b->place, 0xFF, n * sizeof *b->place);
  memset(b->made_in, 0, n * sizeof *b->made_in);
  memset(b->emitted, 0, n);
  memset(b->checks, 0, n * sizeof *b->checks);
  find_lasting(b);
  b->plan->bytes_moved = 0, b->unsaid = TC_NONE, b->full = b->apart = false;
  tc_arena_reset(&b->grouping);
  return tc_group_build(&b->gr, &b->p->graph, &b->grouping, b->forced, b->mode);
}

// Whether there is a temporary of the kind that thrift is about.
static bool holds_large(const tc_program *p) {
  for (uint32_t i = 0; i < p->n_block; i++)
    if (p->block[i].bytes >= TC_LARGE_BYTES) return true;
  return false;
}

// Every group has its steps. *done: they are the plan's; else groups are made again, where fusion holds more memory than op by op, or
// than the budget, thriftily if that helps.
static tc_status settle(tc_builder *b, bool *done) {
  tc_program *p = b->p;
  bool much = false;
  if (b->prepare && !prepares_much(b, &much)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  if (much) return b->prepare = false, TC_OK;
  size_t budget = tc_plan_budget(b->plan);
  if (!tc_memory_order(p, b->plan, budget)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  size_t bytes = p->arena_bytes + output_bytes(b->plan);
  bool holds_more = p->arena_bytes >= LARGE_ARENA && bytes > b->op_by_op + b->op_by_op / 16;
  holds_more = (holds_more || (budget && p->arena_bytes > budget)) && holds_large(p);
  *done = b->mode == TC_GROUP_TIGHT || (b->mode == TC_GROUP_ANY ? !holds_more || b->least != SIZE_MAX : bytes < b->least);
  b->mode = b->mode == TC_GROUP_ANY ? TC_GROUP_THRIFTY : TC_GROUP_ANY;  // back if thrift gains nothing
  b->least = bytes;
  return TC_OK;
}

// A group has no step, for st. Groups are made again: where a view cannot be said with what it shows stored, where a group is too much for one kernel with
// small ones.
static tc_status give_way(tc_builder *b, tc_status st) {
  if (b->apart) return TC_OK;
  if (st == TC_OK) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  if (b->full) {
    if (b->mode == TC_GROUP_TIGHT) return TC_FAIL(st, "a kernel reads and writes too many tensors");
    return b->mode = TC_GROUP_TIGHT, TC_OK;
  }
  if (b->unsaid == TC_NONE) return st;
  if (b->forced[b->unsaid] == TC_FORCE_ALONE) return TC_FAIL(st, "a view of node %u cannot be said though it is stored", b->unsaid);
  return force_unsaid(b);
}

// ---- kernels ----

// A product in the cut that tuning found. Without memory it stays as the model has it.
static void tune(tc_builder *b, tc_program *p, tc_step *s) {
  tc_cut cut;
  tc_expansion e;
  tc_arena_reset(&b->expansion);
  if (!tc_tune(&s->draft->product, &b->gr, s->draft->group, &b->expansion, &cut)) return;
  tc_error_mark before = tc_error_now();
  tc_status st = tc_expand_group(&e, &b->gr, s->draft->group, &cut, &b->expansion);
  if (st == TC_OK && e.n_buf == s->n_bind && e.n_num == s->n_num)
    (void)tc_steps_fill(b, p, s, &e);  // its places are there already
  else if (st == TC_OK)
    tc_nest_destroy(&e.nest);
  (void)tc_error_tell(before);
}

// Whether the places and scalars of the step are those of the expansion.
static bool has_operands(const tc_builder *b, const tc_program *p, const tc_step *s, const tc_expansion *e) {
  bool same = e->n_buf == s->n_bind && e->n_num == s->n_num;
  for (uint32_t i = 0; i < e->n_buf && same; i++) same = p->bind[s->first_bind + i] == b->place[tc_group_root(&b->gr, e->buf[i])];
  for (uint32_t i = 0; i < e->n_num && same; i++) {
    const tc_num_source *x = &p->num[s->first_num + i];
    same = x->is_arg == e->num[i].is_arg && x->value == e->num[i].value;
  }
  return same;
}

// What else a product's rows must have in common for one nest to do for any number of them.
static uint64_t place_of_rows(uint64_t place, const tc_product_facts *f) {
  const uint64_t of[] = {place, (uint64_t)f->of.n, (uint64_t)f->of.k, f->acc, f->left.type, f->right.type};
  return tc_hash_bytes(of, sizeof of).lo;
}

// A product whose number of rows was seen to vary gets a nest that takes it as an argument. Without memory it gets none.
static void generalize(tc_builder *b, tc_program *p, tc_step *s, uint64_t place) {
  tc_expansion e;
  tc_draft *d = s->draft;
  int64_t general = tc_options_get()->general_kernels;
  if (!general || tc_target_is_gpu(&b->p->graph.target)) return;
  if (!tc_family_varies(place_of_rows(place, &d->product), d->product.of.m) && general < 2) return;
  tc_arena_reset(&b->expansion);
  if (tc_expand_any_rows(&e, &b->gr, d->group, d->units, &b->expansion) != TC_OK) return;
  d->general = (tc_general){.nest = e.nest, .value = tc_malloc(TC_MAX_MORE * sizeof *d->general.value), .n_value = e.n_more};
  if (d->general.value) memcpy(d->general.value, e.more, sizeof e.more);
  if (!d->general.value || e.extent != s->extent || !has_operands(b, p, s, &e)) tc_family_drop(&d->general);
}

// What graphs have in common that are recorded alike at different sizes; 0 without memory.
static uint64_t hash_of_graph(const tc_graph *g, tc_arena *arena) {
  size_t n = 0;
  for (uint32_t i = 0; i < g->n; i++) n += 1 + (size_t)g->node[i].n_in;
  uint64_t *word = tc_arena_alloc(arena, n * sizeof *word), *w = word;
  if (!word) return 0;
  for (uint32_t i = 0; i < g->n; i++) {
    const tc_gnode *x = &g->node[i];
    *w++ = (uint64_t)x->op << 32 | (uint64_t)x->type << 24 | (uint64_t)x->shape->d.rank << 16 | (uint64_t)x->n_in;
    for (int k = 0; k < x->n_in; k++) *w++ = x->in[k];
  }
  return tc_hash_bytes(word, n * sizeof *word).lo;
}

// The nests that the steps' kernels are made from: of products, in the cut that tuning found, and beside one that does for any number of rows.
static void choose_nests(tc_builder *b, tc_program *p, uint64_t graph) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (!s->draft || !s->draft->is_product) continue;
    if (tc_options_get()->autotune) tune(b, p, s);
    if (graph) generalize(b, p, s, graph + s->draft->product_node);
  }
}

static uint32_t count_drafts(const tc_program *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n += p->step[i].draft != NULL;
  return n;
}

// One that is of the same place of a like graph as another is of its family: the place is the first node that it stores.
static tc_kernel_wish *wish_for_steps(const tc_program *p, uint64_t graph, tc_kernel_wish *next) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    if (!s->draft) continue;
    uint64_t place = graph ? graph + s->node : 0;
    *next++ = (tc_kernel_wish){.nest = &s->draft->nest, .stem = s->draft->stem, .place = place, .work = s->work, .general = &s->draft->general};
  }
  return next;
}

static const tc_kernel_wish *take_kernels(tc_program *p, const tc_kernel_wish *made) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (!s->draft) continue;
    s->kernel = made++->kernel;
    tc_steps_drop_draft(s);
    p->scratch_bytes = TC_MAX_OF(p->scratch_bytes, s->kernel->scratch_bytes);
  }
  return made;
}

// All kernels of a program are compiled beside each other, whatever they are for: its steps, its rows on a GPU, what it prepares.
static tc_status compile(tc_builder *b, uint64_t graph) {
  tc_program *p = b->p, *q = p->prepare;
  uint32_t own = p->gpu ? tc_gpu_launches_own(p->gpu) | tc_gpu_launches_own(q->gpu) : 0, n_rows = p->gpu ? tc_gpu_launches_wish(p->gpu, NULL) : 0;
  uint32_t n = count_drafts(p) + count_drafts(q) + n_rows, compiled = 0;
  tc_arena_reset(&b->expansion);
  tc_kernel_wish *wish = tc_arena_alloc(&b->expansion, (n + 32) * sizeof *wish);
  if (!wish) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  tc_kernel_wish *next = wish_for_steps(q, graph, wish_for_steps(p, graph, wish));
  if (n_rows) (void)tc_gpu_launches_wish(p->gpu, next);
  for (uint32_t i = 0; i < 32; i++)
    if (own >> i & 1) wish[n++] = (tc_kernel_wish){.own = i};
  tc_watch_doing("compiling", n, "kernels");
  if (n > 0) TC_TRY(tc_kernel_get_all(wish, n, p->graph.target.gpu, &compiled));
  b->plan->n_compiled += compiled;
  const tc_kernel_wish *made = take_kernels(q, take_kernels(p, wish));
  if (!p->gpu) return TC_OK;
  TC_TRY(tc_gpu_launches_finish(p->gpu, made));
  return tc_gpu_launches_finish(q->gpu, NULL);  // which has no rows
}

// ---- programs ----

static tc_status make_launches(tc_program *p) {
  if (!tc_target_is_gpu(&p->graph.target)) return TC_OK;
  p->prepare->graph.target = p->graph.target;
  TC_TRY(tc_gpu_launches_create(p, false, &p->gpu));
  return tc_gpu_launches_create(p->prepare, true, &p->prepare->gpu);
}

// Where temporaries are more than the budget, some are made again.
static bool keep_to_budget(tc_program *p, const tc_plan *plan) {
  size_t budget = tc_plan_budget(plan), before = 0;
  if (!tc_memory_place(p, plan)) return false;
  before = p->arena_bytes;
  if (budget == 0 || before <= budget) return true;
  uint32_t n = p->n_step;
  if (!tc_again_fit(p, plan, budget)) return false;
  if (tc_log_on(TC_LOG_MEMORY))
    tc_log_line(TC_LOG_MEMORY, "plan %016llx: arena of %zu bytes, budget %zu: %zu in %u steps, before %u%s", (unsigned long long)plan->hash.lo,
                before, budget, p->arena_bytes, p->n_step, n, p->arena_bytes > budget ? "; nearer it does not come" : "");
  return true;
}

static tc_status build(tc_builder *b) {
  tc_program *p = b->p;
  TC_TRY(init_builder(b));
  for (bool done = false; !done;) {
    tc_status st = TC_OK;
    TC_TRY(make_groups(b));
    if (tc_steps_build(b, &st))
      TC_TRY(settle(b, &done));
    else
      TC_TRY(give_way(b, st));
  }
  tc_arena_reset(&b->expansion);
  uint64_t graph = hash_of_graph(&p->graph, &b->expansion);
  choose_nests(b, p, graph);
  choose_nests(b, p->prepare, graph);
  if (!tc_homes_delay_writers(p, b->plan) || !tc_homes_choose(p, b->plan)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  if (!keep_to_budget(p, b->plan)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  if (!tc_waves_schedule(p) || !tc_waves_schedule(p->prepare)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  TC_TRY(make_launches(p));
  return compile(b, graph);
}

static const char *tier_of(const tc_program *p) {
  const char *tier = "none";
  if (p->gpu) return "gpu";
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (p->step[i].kind == TC_STEP_KERNEL) return tc_kernel_tier(p->step[i].kernel) == TC_INTERPRETED ? "interp" : "llvm";
    if (p->step[i].kind == TC_STEP_ROW) tier = "ref";
  }
  return tier;
}

// ---- a program that is whole ----

// A list that was made with room to grow, at its length.
static void shrink(void *list, uint32_t *cap, uint32_t n, size_t bytes) {
  void *p = *cap > n ? tc_realloc(*(void **)list, n * bytes) : NULL;
  if (p) *(void **)list = p, *cap = n;
}

static bool is_row(const tc_step *s) {
  return s->kind == TC_STEP_ROW || s->kind == TC_STEP_ZERO;
}

// What runs will read of the nodes of rows, which go.
static bool keep_rows(tc_program *p) {
  uint32_t n_value = 0, n_attr = 0;
  for (uint32_t i = 0; i < p->n_step && !p->gpu; i++) {
    tc_step *s = &p->step[i];
    if (!is_row(s)) continue;
    s->row.value = n_value, n_value += s->n_bind;
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
    for (int k = 0; k < x->n_in; k++) *v++ = (tc_row_value){p->graph.node[x->in[k]].shape, p->graph.node[x->in[k]].type};
    if (x->n_attr) memcpy(p->row_attr + s->row.attr, x->attr, (size_t)x->n_attr * sizeof *x->attr);
  }
  return true;
}

// Gives back what only making the program needed: it may stay for long, and its graph is many times as large as the rest.
static tc_status finish(tc_program *p) {
  if (!keep_rows(p)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  for (tc_program *q = p; q; q = q->prepare) {
    shrink(&q->step, &q->cap_step, q->n_step, sizeof *q->step);
    shrink(&q->bind, &q->cap_bind, q->n_bind, sizeof *q->bind);
    shrink(&q->num, &q->cap_num, q->n_num, sizeof *q->num);
    shrink(&q->block, &q->cap_block, q->n_block, sizeof *q->block);
    shrink(&q->kept_bytes, &q->cap_kept, q->n_kept, sizeof *q->kept_bytes);
  }
  tc_graph_fini(&p->graph);
  p->graph = (tc_graph){.plan = p->graph.plan, .target = p->graph.target, .packs_few = p->graph.packs_few};
  tc_arena_fini(&p->arena);
  return TC_OK;
}

// What a run takes, but for what it prepares.
static size_t taken_bytes(const tc_program *p, const tc_plan *plan) {
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : 0);
  for (uint32_t o = 0; o < plan->n_out; o++) bytes += plan->out[o].home == TC_LEAF_NONE ? plan->out[o].bytes : 0;
  return bytes;
}

tc_status tc_program_create(tc_plan *plan, tc_program **out) {
  *out = NULL;
  tc_program *p = tc_calloc(1, sizeof *p);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  tc_builder b = {.p = p, .plan = plan, .prepare = tc_plan_prepares(plan)};
  tc_status st = tc_graph_build(&p->graph, plan, &p->arena);
  if (st == TC_OK) st = build(&b);
  for (uint32_t n = 0; b.alone && n < p->graph.n; n++) tc_gpu_call_release(b.alone[n]);
  tc_arena_fini(&b.grouping);
  tc_arena_fini(&b.expansion);
  if (st != TC_OK) return tc_program_destroy(p), st;
  plan->n_kernels = tc_waves_count_kernels(p, NULL);
  plan->n_left = p->graph.n_order;
  plan->taken_bytes = taken_bytes(p, plan);
  plan->tier = tier_of(p);
  atomic_store_explicit(&p->interprets, !p->gpu, memory_order_relaxed);
  atomic_store_explicit(&p->n_used, UINT32_MAX, memory_order_relaxed);
  if (tc_log_on(TC_LOG_PLAN)) tc_program_log(p, plan);
  if ((st = finish(p)) != TC_OK) return tc_program_destroy(p), st;
  *out = p;
  return TC_OK;
}

// ---- the interface lazy sees ----

static tc_status lower(tc_plan *plan) {
  tc_program *p;
  TC_TRY(tc_program_create(plan, &p));
  plan->program = p;
  return TC_OK;
}

static void clear(void) {
  tc_promote_stop();
  tc_prepared_clear();
  tc_kernel_cache_clear();
  tc_choices_clear();
}

static void stats(tc_cache_info *info) {
  tc_kernel_stats(info);
  tc_choices_stats(info);
}

const tc_lowering_ops tc_lowering = {
    .lower = lower,
    .launch = tc_program_launch,
    .destroy = tc_program_destroy,
    .bytes = tc_program_bytes,
    .verify_begin = tc_verify_begin,
    .verify_end = tc_verify_end,
    .find_anomaly = tc_anomaly_find,
    .clear = clear,
    .stats = stats,
};
