// Prints fusion plans. See fusion.h.
#include "lowering/fusion/fusion.h"

#include "lowering/fusion/access.h"
#include "lowering/fusion/dependence.h"
#include "runtime/arena.h"
#include "runtime/log.h"

static const char *const kinds[] = {[TC_FUSION_ELEMENTWISE] = "ELEMENTWISE", [TC_FUSION_ROW] = "ROW",
                                    [TC_FUSION_COLUMN] = "COLUMN",           [TC_FUSION_MATMUL] = "MATMUL",
                                    [TC_FUSION_ATTENTION] = "ATTENTION",     [TC_FUSION_EXTERN] = "EXTERN"};
static const char *const levels[] = {
    [TC_LEVEL_NONE] = "", [TC_LEVEL_FULL] = "", [TC_LEVEL_REDUCED] = " reduced", [TC_LEVEL_COLUMN] = " column"};

// Searches through a finished plan. Made once for a plan, since it takes memory for each fusion.
typedef struct searches {
  tc_fusion_plan own;
  tc_depend d;
  bool room;
} searches;

typedef struct printer {
  const tc_fusion_plan *gr;
  searches *between;
  FILE *out;
  uint32_t fusion;  // whose sources are told of
  uint32_t *told;  // per node: a mark of the last fusion and pass that printed it
  // two passes over the sources: false: those in memory before the plan; true: those that other
  // fusions compute
  bool made;
} printer;

static searches *make_searches(const tc_fusion_plan *gr) {
  searches *s = tc_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->own = *gr;
  s->room = tc_depend_init(&s->d, &s->own, gr->n_fusion);
  return s;
}

// Whether another fusion that `to` reads depends on `from`.
static bool stands_between(const tc_fusion_plan *gr, searches *s, uint32_t to, uint32_t from) {
  bool found_one = false;
  for (const tc_fusion_link *l = gr->fusion[to].before; l && s->room && !found_one; l = l->next) {
    uint32_t h = tc_fusion_alive(gr, l->fusion);
    found_one = h != to && h != from && tc_depend_ask(&s->d, h, from) == TC_DEPENDS;
  }
  return found_one;
}

// The rule that keeps node n of fusion `to`, which reads source, out of fusion `from`, which
// computes it. Judged from the finished plan.
static const char *why_apart(const tc_fusion_plan *gr, searches *between, const tc_fusion *to, const tc_fusion *from,
                             uint32_t n, uint32_t source) {
  const tc_gnode *x = &gr->graph->node[n];
  bool folds = tc_op_kind_of(x->op) == TC_KIND_FOLD;
  int64_t count = folds ? gr->graph->node[x->in[0]].shape->count : x->shape->count;
  const tc_extents e = tc_view_extents(from->a, from->f, from->k);
  if (to->kind == TC_FUSION_EXTERN || from->kind == TC_FUSION_EXTERN) return "a step of its own, no generated kernel";
  if (tc_op_kind_of(x->op) == TC_KIND_CONTRACT || tc_op_kind_of(x->op) == TC_KIND_ATTENTION)
    return "operands of a matmul have memory";
  if (from->no_fusion || to->no_fusion) return "that kernel takes no more, or this one is alone";
  if (folds && gr->level[source] == TC_LEVEL_REDUCED) return "a reduction of what a reduction leaves";
  bool reduced = gr->level[source] == TC_LEVEL_REDUCED && !folds && count == from->a * from->k;
  if (!reduced && count != tc_fusion_positions(from)) return "another number of elements";
  if (!tc_view_links(gr, from, &e, n, reduced ? TC_LEVEL_REDUCED : TC_LEVEL_FULL, source, (tc_level)gr->level[source]))
    return "read at other positions";
  if (stands_between(gr, between, (uint32_t)(to - gr->fusion), (uint32_t)(from - gr->fusion)))
    return "another kernel, which reads that one, stands between";
  bool same = to->kind == from->kind && tc_fusion_same_domain(to, from);
  return same ? "too much for one kernel" : "its kernel goes over other positions";
}

static bool tell_operands(printer *p, uint32_t reader, uint32_t n);

// Tells of node n, which `reader` reads: a member of the kernel, or a value that is recomputed
// in it. False: n is a constant, computed where it is read.
static bool tell_source(printer *p, uint32_t reader, uint32_t n) {
  const tc_fusion_plan *gr = p->gr;
  const tc_gnode *x = &gr->graph->node[n];
  uint32_t from = gr->of[n], mark = 2 * p->fusion + 1 + p->made;
  if (from == p->fusion || p->told[n] == mark) return true;
  if (!gr->stored[n] && x->leaf == TC_LEAF_NONE) {
    bool again = tc_op_kind_of(x->op) == TC_KIND_ELEM && !x->prologue;
    if (!tell_operands(p, again ? n : reader, n)) return false;
    if (!again) return true;
    if (p->made) fprintf(p->out, "\n  %%%u is recomputed, which is cheaper than to store it", n);
    if (p->made && from != TC_FUSION_NONE) fprintf(p->out, " in k%u", from);
  } else if (from == TC_FUSION_NONE) {
    if (!p->made) fprintf(p->out, " %%%u", n);
  } else if (p->made && gr->of[reader] == p->fusion) {
    fprintf(p->out, "\n  %%%u is made by k%u: %s", n, from,
            why_apart(gr, p->between, &gr->fusion[p->fusion], &gr->fusion[from], reader, n));
  } else if (p->made) {
    fprintf(p->out, "\n  %%%u is made by k%u: read by %%%u, which is recomputed", n, from, reader);
  }
  p->told[n] = mark;
  return true;
}

static bool tell_operands(printer *p, uint32_t reader, uint32_t n) {
  const tc_gnode *x = &p->gr->graph->node[n];
  bool reads = false;
  for (int k = 0; k < x->n_in; k++) reads |= tell_source(p, reader, tc_fusion_root(p->gr, x->in[k]));
  return reads;
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
      p->made = made;
      (void)tell_operands(p, gp->member[i], gp->member[i]);
    }
  fprintf(p->out, "\n  stores");
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (p->gr->stored[gp->member[i]]) fprintf(p->out, " %%%u", gp->member[i]);
  fprintf(p->out, "\n");
}

static bool is_alive(const tc_fusion *gp) {
  return gp->merged == TC_FUSION_NONE && gp->n_member;
}

void tc_fusion_print(const tc_fusion_plan *gr, FILE *out) {
  printer p = {.gr = gr, .between = make_searches(gr), .out = out, .told = tc_calloc(gr->graph->n + 1, sizeof *p.told)};
  fprintf(out, "kernels of %016llx\n", (unsigned long long)gr->graph->plan->hash.lo);
  for (uint32_t g = 0; g < gr->n_fusion && p.told && p.between; g++)
    if (is_alive(&gr->fusion[g])) print_fusion(&p, g);
  tc_free(p.told);
  tc_free(p.between);
}

void tc_fusion_log(const tc_fusion_plan *gr) {
  tc_log_message m;
  if (tc_log_begin(&m)) tc_fusion_print(gr, m.to);
  tc_log_end(&m, TC_LOG_FUSION);
}

// ---- boundaries ----

typedef struct border {
  const tc_fusion_plan *gr;
  searches *between;
  tc_fusion_border_visit *visit;
  void *arg;
  uint32_t to;  // the fusion whose sources are visited
  uint32_t *met;  // per node: 1 + the last fusion whose source it was
} border;

// Visits what `reader` reads by way of node n. again: by way of a value that is made again.
static void cross_operands(border *b, uint32_t reader, uint32_t n, bool again) {
  const tc_fusion_plan *gr = b->gr;
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++) {
    uint32_t source = tc_fusion_root(gr, x->in[k]), from = gr->of[source];
    const tc_gnode *y = &gr->graph->node[source];
    if (from == b->to || b->met[source] == b->to + 1) continue;
    b->met[source] = b->to + 1;
    if (!gr->stored[source] && y->leaf == TC_LEAF_NONE) {
      cross_operands(b, reader, source, again || tc_op_kind_of(y->op) == TC_KIND_ELEM);
    } else if (from != TC_FUSION_NONE) {
      const char *why = again ? "read by a value that is made again"
                              : why_apart(gr, b->between, &gr->fusion[b->to], &gr->fusion[from], reader, source);
      b->visit(b->arg, from, b->to, source, why);
    }
  }
}

bool tc_fusion_each_border(const tc_fusion_plan *gr, tc_fusion_border_visit *visit, void *arg) {
  border b = {.gr = gr,
              .between = make_searches(gr),
              .visit = visit,
              .arg = arg,
              .met = tc_calloc(gr->graph->n + 1, sizeof *b.met)};
  bool room = b.met && b.between;
  for (uint32_t g = 0; g < gr->n_fusion && room; g++) {
    b.to = g;
    for (uint32_t i = 0; i < gr->fusion[g].n_member && is_alive(&gr->fusion[g]); i++)
      cross_operands(&b, gr->fusion[g].member[i], gr->fusion[g].member[i], false);
  }
  tc_free(b.met);
  tc_free(b.between);
  return room;
}
