// Facts of a program for a profile. See facts.h.
#include "lowering/program/facts.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/program/program.h"
#include "runtime/arena.h"

static uint64_t node_bytes(const tc_graph *g, uint32_t n) {
  return (uint64_t)g->node[n].shape->count * tc_type_bytes(g->node[n].type);
}

// ---- operations ----

static double product_flops(const tc_graph *g, const tc_gnode *x) {
  const tc_shape_info *out = x->shape, *a = g->node[x->in[0]].shape, *b = g->node[x->in[1]].shape;
  const double count = (double)out->count;
  switch (x->op) {
    case TC_OP_MATMUL: return 2 * count * (double)a->d.dim[a->d.rank - 1];
    // weights of one output channel
    case TC_OP_CONV:
    case TC_OP_CONV_CALL:
    case TC_OP_CONV_DIRECT: return 2 * count * (double)(b->count / TC_MAX_OF(b->d.dim[0], INT64_C(1)));
    case TC_OP_WINOGRAD: {
      double tile = (double)(x->attr[0] + 2) * (double)(x->attr[0] + 2), o = (double)out->d.dim[out->d.rank > 1];
      return o > 0 ? 2 * count * 9 * (double)b->count / tile / o : 0;
    }
    case TC_OP_WINOGRAD_WGRAD: return 2 * (double)b->count * (double)out->d.dim[out->d.rank - 1];
    default: return count;
  }
}

static double attention_flops(const tc_graph *g, const tc_gnode *x) {
  const tc_dims *q = &g->node[x->in[0]].shape->d, *k = &g->node[x->in[1]].shape->d;
  int64_t ev = x->op == TC_OP_ATTENTION_LSE ? 0 : g->node[x->in[2]].shape->d.dim[3];
  double scores = (double)(q->dim[0] * q->dim[1] * q->dim[2]) * (double)k->dim[2] * (x->attr[0] ? 0.5 : 1);
  double e = (double)q->dim[3], v = (double)ev;
  switch (x->op) {
    case TC_OP_ATTENTION: return 2 * scores * (e + v);
    case TC_OP_ATTENTION_DQ:
    case TC_OP_ATTENTION_DK: return 2 * scores * (2 * e + v);
    case TC_OP_ATTENTION_DV: return 2 * scores * (e + v);
    default: return 0;  // made with ATTENTION
  }
}

double tc_facts_flops(const tc_graph *g, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  switch (tc_op_kind_of(x->op)) {
    case TC_KIND_CONTRACT: return x->n_in > 1 ? product_flops(g, x) : (double)x->shape->count;
    case TC_KIND_ATTENTION: return attention_flops(g, x);
    case TC_KIND_FOLD:
    case TC_KIND_SCAN: return (double)g->node[x->in[0]].shape->count;
    case TC_KIND_ELEM: return x->op == TC_OP_CAST ? 0 : (double)x->shape->count;
    default: return 0;
  }
}

// ---- where nodes come from ----

// Per node of the graph: the plan's node that it is, or that is made of it. TC_LEAF_NONE: none.
static uint32_t *find_origins(const tc_graph *g, uint32_t n_plan) {
  uint32_t *of = tc_malloc((g->n + 1) * sizeof *of);
  if (!of) return NULL;
  for (uint32_t n = 0; n < g->n; n++) of[n] = n < n_plan ? n : TC_LEAF_NONE;
  for (uint32_t i = g->n_order; i-- > 0;) {
    const tc_gnode *x = &g->node[g->order[i]];
    for (int k = 0; k < x->n_in; k++)
      if (of[x->in[k]] == TC_LEAF_NONE) of[x->in[k]] = of[g->order[i]];
  }
  return of;
}

// ---- kernels ----

static uint64_t row_bytes(const tc_graph *g, const tc_step *s) {
  const tc_gnode *x = &g->node[s->node];
  if (s->kind == TC_STEP_CHECK) return node_bytes(g, x->in[1]);
  uint64_t bytes = node_bytes(g, s->node);
  for (int k = 0; k < x->n_in && s->kind != TC_STEP_ZERO; k++) bytes += node_bytes(g, x->in[k]);
  return bytes;
}

static void describe_kernel(const tc_builder *b, const tc_step *s, const tc_step *named, const uint32_t *origin,
                            tc_kernel_facts *k) {
  static const char *const kinds[] = {
      [TC_STEP_KERNEL] = "generated", [TC_STEP_CALL] = "library", [TC_STEP_ROW] = "reference",
      [TC_STEP_LOADED] = "back end",  [TC_STEP_ZERO] = "zero",    [TC_STEP_CONTROL] = "control",
      [TC_STEP_CHECK] = "check"};
  const tc_graph *g = &b->p->graph;
  uint32_t fusion = s->kind == TC_STEP_CHECK ? TC_FUSION_NONE : b->gr.of[s->node];
  const char *name = named && named->kernel ? named->kernel->name : tc_op_names[g->node[s->node].op];
  snprintf(k->name, sizeof k->name, "%s", name);
  k->kind = kinds[s->kind], k->stage = s->stage, k->n_nodes = 1, k->node = origin[s->node];
  k->op = tc_op_names[g->node[s->node].op];
  k->bytes = s->bytes ? s->bytes : row_bytes(g, s);
  if (s->kind == TC_STEP_CHECK || s->kind == TC_STEP_ZERO) return;
  if (fusion == TC_FUSION_NONE) return k->flops = tc_facts_flops(g, s->node), (void)0;
  const tc_fusion *gp = &b->gr.fusion[tc_fusion_alive(&b->gr, fusion)];
  k->n_nodes = gp->n_member;
  for (uint32_t i = 0; i < gp->n_member; i++) k->flops += tc_facts_flops(g, gp->member[i]);
}

static bool list_kernels(const tc_builder *b, const tc_program *named, const uint32_t *origin, tc_plan_facts *f) {
  const tc_program *p = b->p;
  f->kernel = tc_calloc(p->n_step + 1, sizeof *f->kernel);
  if (!f->kernel) return false;
  bool same = named->n_step == p->n_step;
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_kernel_facts *k = &f->kernel[f->n_kernel++];
    describe_kernel(b, &p->step[i], same ? &named->step[i] : NULL, origin, k);
    f->bytes += k->bytes, f->flops += k->flops;
  }
  return true;
}

// ---- boundaries ----

typedef struct boundaries {
  const tc_builder *b;
  tc_plan_facts *f;
  uint32_t *step_of;  // per fusion: its first step. TC_FUSION_NONE: it makes a cached constant
  uint8_t *written;  // per node: 1: its write was counted
  uint32_t cap;
  bool room;
} boundaries;

// The write counts with the first kernel that reads it.
static void add_boundary(void *arg, uint32_t from, uint32_t to, uint32_t node, const char *why) {
  boundaries *x = arg;
  tc_plan_facts *f = x->f;
  uint32_t made = x->step_of[tc_fusion_alive(&x->b->gr, from)], read = x->step_of[to];
  if (made == TC_FUSION_NONE || read == TC_FUSION_NONE || made == read || !x->room) return;
  if (!TC_GROW(f->boundary, x->cap, f->n_boundary + 1)) return x->room = false, (void)0;
  uint64_t bytes = node_bytes(&x->b->p->graph, node);
  f->boundary[f->n_boundary++] = (tc_boundary_facts){made, read, node, why, x->written[node] ? bytes : 2 * bytes};
  x->written[node] = 1;
}

static bool list_boundaries(const tc_builder *b, tc_plan_facts *f) {
  const tc_program *p = b->p;
  boundaries x = {.b = b,
                  .f = f,
                  .step_of = tc_malloc((b->gr.n_fusion + 1) * sizeof *x.step_of),
                  .written = tc_calloc(p->graph.n + 1, 1),
                  .room = true};
  bool room = x.step_of && x.written;
  for (uint32_t g = 0; g < b->gr.n_fusion && room; g++) x.step_of[g] = TC_FUSION_NONE;
  for (uint32_t i = p->n_step; i-- > 0 && room;) {
    const tc_step *s = &p->step[i];
    uint32_t g = s->kind == TC_STEP_CHECK ? TC_FUSION_NONE : b->gr.of[s->node];
    if (g != TC_FUSION_NONE) x.step_of[tc_fusion_alive(&b->gr, g)] = i;
  }
  room = room && tc_fusion_each_border(&b->gr, add_boundary, &x) && x.room;
  tc_free(x.step_of);
  tc_free(x.written);
  return room;
}

// ---- memory ----

static void add_block(tc_plan_facts *f, const tc_graph *g, const uint32_t *origin, uint32_t n, tc_block_facts block) {
  block.node = origin[n], block.op = tc_op_names[g->node[n].op];
  f->block[f->n_block++] = block;
}

// Per output: the first stage in which its memory holds something: it, or temporaries before it.
static uint32_t *find_first_stages(const tc_program *p, const tc_plan *plan) {
  uint32_t *first = tc_malloc((plan->n_out + 1) * sizeof *first);
  for (uint32_t o = 0; o < plan->n_out && first; o++) first[o] = p->n_stage ? p->n_stage - 1 : 0;
  for (uint32_t i = 0; i < p->n_step && first; i++) {
    const tc_step *s = &p->step[i];
    for (uint32_t j = 0; j < s->n_binding; j++) {
      uint32_t at = p->binding[s->first_binding + j];
      if (at >= plan->n_leaf && at < plan->n_leaf + plan->n_out)
        first[at - plan->n_leaf] = TC_MIN(first[at - plan->n_leaf], s->stage);
    }
  }
  for (uint32_t i = 0; i < p->n_allocation && first; i++) {
    const tc_allocation *k = &p->allocation[i];
    if (k->in != IN_ARENA) first[k->in] = TC_MIN(first[k->in], k->first);
  }
  return first;
}

static void list_outputs(const tc_builder *b, const uint32_t *first, const uint32_t *origin, tc_plan_facts *f) {
  uint32_t end = b->p->n_stage ? b->p->n_stage - 1 : 0;
  for (uint32_t o = 0; o < b->plan->n_out; o++) {
    const tc_out *out = &b->plan->out[o];
    f->output_bytes += out->bytes;
    if (out->donor == TC_LEAF_NONE)
      add_block(f, &b->p->graph, origin, out->node,
                (tc_block_facts){.bytes = out->bytes, .first_stage = first[o], .last_stage = end, .is = 1});
  }
}

static bool list_blocks(const tc_builder *b, const uint32_t *origin, tc_plan_facts *f) {
  const tc_program *p = b->p;
  const tc_graph *g = &p->graph;
  uint32_t end = p->n_stage ? p->n_stage - 1 : 0;
  f->block = tc_calloc(p->n_allocation + b->plan->n_out + b->plan->n_leaf + 1, sizeof *f->block);
  if (!f->block) return false;
  for (uint32_t n = 0; n < g->n; n++) {
    uint32_t at = b->storage[n];
    if (at == TC_STORAGE_NONE || !(at & ARENA_BIT) || tc_fusion_root(&b->gr, n) != n) continue;
    const tc_allocation *k = &p->allocation[at & ~ARENA_BIT];
    if (k->in != IN_ARENA || f->n_block == p->n_allocation || k->first > k->last) continue;
    add_block(f, g, origin, n, (tc_block_facts){.bytes = k->bytes, .first_stage = k->first, .last_stage = k->last});
  }
  uint32_t *first = find_first_stages(p, b->plan);
  if (!first) return false;
  list_outputs(b, first, origin, f);
  tc_free(first);
  for (uint32_t i = 0; i < g->n_order; i++) {
    const tc_gnode *x = &g->node[g->order[i]];
    if (x->leaf == TC_LEAF_NONE) continue;
    f->n_inputs++, f->input_bytes += node_bytes(g, g->order[i]);
    add_block(f, g, origin, g->order[i],
              (tc_block_facts){.bytes = node_bytes(g, g->order[i]), .last_stage = end, .is = 2});
  }
  return true;
}

// ---- texts ----

static void print_graph(const tc_builder *b, const tc_program *named, FILE *out) {
  (void)named;
  tc_graph_print(&b->p->graph, out);
}

static void print_fusion_plan(const tc_builder *b, const tc_program *named, FILE *out) {
  (void)named;
  tc_fusion_print(&b->gr, out);
}

static void print_steps(const tc_builder *b, const tc_program *named, FILE *out) {
  tc_program_print(named, b->plan, out);
}

typedef void print_function(const tc_builder *b, const tc_program *named, FILE *out);

static char *text_of(const tc_builder *b, const tc_program *named, print_function *print) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return NULL;
  print(b, named, to);
  if (fclose(to) == 0) return text;
  return free(text), NULL;
}

tc_plan_facts *tc_facts_make(const tc_builder *b, const tc_program *named) {
  const tc_program *p = b->p;
  tc_plan_facts *f = tc_calloc(1, sizeof *f);
  uint32_t *origin = find_origins(&p->graph, b->plan->n_node);
  bool room = f && origin && list_kernels(b, named, origin, f) && list_boundaries(b, f) && list_blocks(b, origin, f);
  tc_free(origin);
  if (!room) return tc_facts_destroy(f), NULL;
  f->arena_bytes = p->arena_bytes;
  f->least_bytes = TC_MIN(f->bytes, f->input_bytes + f->output_bytes);
  f->simplified = text_of(b, named, print_graph);
  f->fusion = text_of(b, named, print_fusion_plan);
  f->program = text_of(b, named, print_steps);
  return f;
}

void tc_facts_destroy(tc_plan_facts *f) {
  if (!f) return;
  tc_free(f->kernel);
  tc_free(f->boundary);
  tc_free(f->block);
  free(f->simplified);
  free(f->fusion);
  free(f->program);
  tc_free(f);
}
