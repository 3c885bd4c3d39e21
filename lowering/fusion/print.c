// Prints fusion plans. See print.h.
#include "lowering/fusion/print.h"

#include "lowering/fusion/access.h"
#include "lowering/fusion/dependence.h"
#include "runtime/arena.h"
#include "runtime/log.h"

static const char *const kinds[] = {[TC_FUSION_ELEMENTWISE] = "FLAT",    [TC_FUSION_ROW] = "ROW",
                                    [TC_FUSION_COLUMN] = "COL",          [TC_FUSION_MATMUL] = "GEMM",
                                    [TC_FUSION_ATTENTION] = "ATTENTION", [TC_FUSION_EXTERN] = "EXTERN"};
static const char *const levels[] = {
    [TC_LEVEL_NONE] = "", [TC_LEVEL_FULL] = "", [TC_LEVEL_REDUCED] = " reduced", [TC_LEVEL_COLUMN] = " column"};

typedef struct printer {
  const tc_fusion_plan *gr;
  FILE *out;
  uint32_t fusion, member;  // the fusion and member whose sources are visited
  uint32_t *told;  // per node: a mark of the last fusion and pass that printed it
  // two passes over the sources: false: those in memory before the plan; true: those that other
  // fusions compute
  bool made;
} printer;

// Whether another fusion that `to` reads depends on `from`.
static bool stands_between(const tc_fusion_plan *gr, uint32_t to, uint32_t from) {
  tc_depend d;
  tc_fusion_plan own = *gr;
  bool found_one = false, room = tc_depend_init(&d, &own, gr->n_fusion);
  for (const tc_fusion_link *l = gr->fusion[to].before; l && room && !found_one; l = l->next) {
    uint32_t h = tc_fusion_alive(gr, l->fusion);
    found_one = h != to && h != from && tc_depend_ask(&d, h, from) == TC_DEPENDS;
  }
  return found_one;
}

// The rule that keeps node n of fusion `to`, which reads source, out of fusion `from`, which
// computes it. Judged from the finished plan.
static const char *why_apart(const tc_fusion_plan *gr, const tc_fusion *to, const tc_fusion *from, uint32_t n,
                             uint32_t source) {
  const tc_gnode *x = &gr->graph->node[n];
  bool folds = tc_op_kind_of(x->op) == TC_KIND_FOLD;
  int64_t count = folds ? gr->graph->node[x->in[0]].shape->count : x->shape->count;
  const tc_extents e = tc_view_extents(from->a, from->f, from->k);
  if (to->kind == TC_FUSION_EXTERN || from->kind == TC_FUSION_EXTERN) return "a step of its own, no generated kernel";
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION)
    return "operands of a product have memory";
  if (from->no_fusion || to->no_fusion) return "that kernel takes no more, or this one is alone";
  if (folds && gr->level[source] == TC_LEVEL_REDUCED) return "a fold of what a fold leaves";
  bool reduced = gr->level[source] == TC_LEVEL_REDUCED && !folds && count == from->a * from->k;
  if (!reduced && count != from->a * from->f * from->k) return "another number of elements";
  if (!tc_view_links(gr, from, &e, n, reduced ? TC_LEVEL_REDUCED : TC_LEVEL_FULL, source, (tc_level)gr->level[source]))
    return "read at other positions";
  if (stands_between(gr, (uint32_t)(to - gr->fusion), (uint32_t)(from - gr->fusion)))
    return "another kernel, which reads that one, stands between";
  bool same = to->kind == from->kind && to->a == from->a && to->f == from->f && to->k == from->k;
  return same ? "too much for one kernel" : "its kernel goes over other positions";
}

static void tell_source(void *arg, uint32_t source, bool moved) {
  printer *p = arg;
  const tc_fusion_plan *gr = p->gr;
  uint32_t from = gr->of[source], mark = 2 * p->fusion + 1 + p->made;
  bool made = from != TC_FUSION_NONE, again = made && !gr->stored[source];
  (void)moved;
  if (from == p->fusion || p->told[source] == mark) return;
  p->told[source] = mark;
  if (again) {
    if (p->made) fprintf(p->out, "\n  %%%u is made again, which is cheaper than to store it in k%u", source, from);
    tc_fusion_each_source(gr, source, tell_source, p);
  } else if (made && p->made) {
    fprintf(p->out, "\n  %%%u is made by k%u: %s", source, from,
            why_apart(gr, &gr->fusion[p->fusion], &gr->fusion[from], p->member, source));
  } else if (!made && !p->made) {
    fprintf(p->out, " %%%u", source);
  }
}

static void print_fusion(printer *p, uint32_t g) {
  const tc_fusion *gp = &p->gr->fusion[g];
  const tc_graph *graph = p->gr->graph;
  p->fusion = g;
  fprintf(p->out, "k%u %s [%lld, %lld, %lld]:", g, kinds[gp->kind], (long long)gp->a, (long long)gp->f,
          (long long)gp->k);
  for (uint32_t i = 0; i < gp->n_member; i++)
    fprintf(p->out, "%s %%%u %s%s", i ? "," : "", gp->member[i], tc_op_names[graph->node[gp->member[i]].op],
            levels[p->gr->level[gp->member[i]]]);
  fprintf(p->out, "\n  reads");
  for (int made = 0; made < 2; made++)
    for (uint32_t i = 0; i < gp->n_member; i++) {
      p->made = made, p->member = gp->member[i];
      tc_fusion_each_source(p->gr, gp->member[i], tell_source, p);
    }
  fprintf(p->out, "\n  stores");
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (p->gr->stored[gp->member[i]]) fprintf(p->out, " %%%u", gp->member[i]);
  fprintf(p->out, "\n");
}

void tc_fusion_log(const tc_fusion_plan *gr) {
  tc_log_message m;
  printer p = {.gr = gr, .out = tc_log_begin(&m), .told = tc_calloc(gr->graph->n + 1, sizeof *p.told)};
  if (p.out && p.told) {
    fprintf(p.out, "kernels of %016llx\n", (unsigned long long)gr->graph->plan->hash.lo);
    for (uint32_t g = 0; g < gr->n_fusion; g++)
      if (gr->fusion[g].merged == TC_FUSION_NONE && gr->fusion[g].n_member) print_fusion(&p, g);
  }
  tc_free(p.told);
  tc_log_end(&m, TC_LOG_FUSION);
}
