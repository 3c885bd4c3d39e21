// Prints fusion plans. See fusion.h.
#include "lowering/fusion/fusion.h"

#include <string.h>

#include "lowering/fusion/fuser.h"
#include "runtime/arena.h"
#include "runtime/log.h"

#define MOST_SIBLINGS 4  // of the kernels that read what a kernel reads, the latest so many are told of

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
  uint32_t *read;  // per fusion: one more than the last fusion whose members read it; 0: none
  // per node: one more than each of the last kernels that read it, the latest first; 0: no more
  uint32_t (*readers)[MOST_SIBLINGS];
  struct sibling {
    uint32_t fusion, node;  // node: what both read
  } sibling[MOST_SIBLINGS];  // kernels before this one that read the same
  int n_sibling;
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

// Whether the two kernels have one kind and domain: what keeps them apart is then their size.
static const char *why_not_merged(const tc_fusion *x, const tc_fusion *y) {
  bool same = x->kind == y->kind && tc_fusion_same_domain(x, y);
  return same ? "too much for one kernel" : "its kernel goes over other positions";
}

// The rule that keeps node n of fusion `to`, which reads source, out of fusion `from`, which
// computes it. Judged from the finished plan.
static const char *why_apart(const tc_fusion_plan *gr, searches *between, uint32_t to, uint32_t from, uint32_t n,
                             uint32_t source) {
  const char *why = tc_fuser_why_apart(gr, &gr->fusion[to], &gr->fusion[from], n, source);
  if (why) return why;
  if (stands_between(gr, between, to, from)) return "another kernel, which reads that one, stands between";
  return why_not_merged(&gr->fusion[to], &gr->fusion[from]);
}

// The rule that keeps apart two fusions that read the same data, `later` behind `first`.
static const char *why_siblings_apart(const tc_fusion_plan *gr, searches *between, uint32_t first, uint32_t later) {
  const char *why = tc_fuser_why_siblings_apart(gr, &gr->fusion[first], &gr->fusion[later]);
  if (why) return why;
  bool depends = between->room && tc_depend_ask(&between->d, later, first) != TC_DEPENDS_NOT;
  return depends ? "one depends on the other" : "too much for one kernel";
}

// ---- siblings ----

// Notes the kernels printed before that read node n, which kernel p->fusion reads, too.
// Only data that a kernel goes over counts, and what a matmul multiplies: not a bias or a scalar.
static void note_siblings(printer *p, uint32_t reader, uint32_t n) {
  const tc_graph *g = p->gr->graph;
  tc_op_kind kind = tc_op_kind_of(g->node[reader].op);
  bool multiplies = kind == TC_KIND_CONTRACT || kind == TC_KIND_ATTENTION;
  if (g->node[n].shape->count != tc_fusion_positions(&p->gr->fusion[p->fusion]) && !multiplies) return;
  uint32_t *latest = p->readers[n];
  for (int i = 0; i < MOST_SIBLINGS && latest[i]; i++) {
    bool known = latest[i] - 1 == p->fusion;
    for (int k = 0; k < p->n_sibling; k++) known |= p->sibling[k].fusion == latest[i] - 1;
    if (!known && p->n_sibling < MOST_SIBLINGS) p->sibling[p->n_sibling++] = (struct sibling){latest[i] - 1, n};
  }
  if (latest[0] == p->fusion + 1) return;
  memmove(latest + 1, latest, (MOST_SIBLINGS - 1) * sizeof *latest);
  latest[0] = p->fusion + 1;
}

// Why a kernel is apart whose result this one reads was told already.
static void tell_siblings(const printer *p) {
  for (int i = 0; i < p->n_sibling; i++) {
    uint32_t first = p->sibling[i].fusion;
    if (p->read[first] == p->fusion + 1) continue;
    fprintf(p->out, "\n  not joined with k%u, which reads %%%u, too: %s", first, p->sibling[i].node,
            why_siblings_apart(p->gr, p->between, first, p->fusion));
  }
}

// ---- kernels ----

static bool tell_operands(printer *p, uint32_t reader, uint32_t n);

// Tells of node n, which `reader` reads: a member of the kernel, or a value that is recomputed
// in it. False: n is a constant, computed where it is read.
static bool tell_source(printer *p, uint32_t reader, uint32_t n) {
  const tc_fusion_plan *gr = p->gr;
  const tc_gnode *x = &gr->graph->node[n];
  uint32_t from = gr->of[n], mark = 2 * p->fusion + 1 + p->made;
  if (from == p->fusion || p->told[n] == mark) return true;
  if (!gr->stored[n] && x->leaf == TC_LEAF_NONE) {
    bool recomputed = tc_op_kind_of(x->op) == TC_KIND_ELEM && !x->prologue;
    if (!tell_operands(p, recomputed ? n : reader, n)) return false;
    if (!recomputed) return true;
    if (p->made) fprintf(p->out, "\n  %%%u is recomputed, which is cheaper than to store it", n);
    if (p->made && from != TC_FUSION_NONE) fprintf(p->out, " in k%u", from);
  } else if (from == TC_FUSION_NONE) {
    if (!p->made) fprintf(p->out, " %%%u", n);
  } else if (p->made && gr->of[reader] == p->fusion) {
    p->read[from] = p->fusion + 1;
    fprintf(p->out, "\n  %%%u is made by k%u: %s", n, from, why_apart(gr, p->between, p->fusion, from, reader, n));
  } else if (p->made) {
    fprintf(p->out, "\n  %%%u is made by k%u: read by %%%u, which is recomputed", n, from, reader);
  }
  if (p->made == (from != TC_FUSION_NONE)) note_siblings(p, reader, n);
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
  p->fusion = g, p->n_sibling = 0;
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
  tell_siblings(p);
  fprintf(p->out, "\n  stores");
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (p->gr->stored[gp->member[i]]) fprintf(p->out, " %%%u", gp->member[i]);
  fprintf(p->out, "\n");
}

static bool is_alive(const tc_fusion *gp) {
  return gp->merged == TC_FUSION_NONE && gp->n_member;
}

void tc_fusion_print(const tc_fusion_plan *gr, FILE *out) {
  printer p = {.gr = gr,
               .between = make_searches(gr),
               .out = out,
               .told = tc_calloc(gr->graph->n + 1, sizeof *p.told),
               .read = tc_calloc(gr->n_fusion + 1, sizeof *p.read),
               .readers = tc_calloc(gr->graph->n + 1, sizeof *p.readers)};
  fprintf(out, "kernels of %016llx\n", (unsigned long long)gr->graph->plan->hash.lo);
  for (uint32_t g = 0; g < gr->n_fusion && p.told && p.between && p.read && p.readers; g++)
    if (is_alive(&gr->fusion[g])) print_fusion(&p, g);
  tc_free(p.readers);
  tc_free(p.read);
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

// Visits what `reader` reads by way of node n. recomputed: by way of a value that is recomputed.
static void cross_operands(border *b, uint32_t reader, uint32_t n, bool recomputed) {
  const tc_fusion_plan *gr = b->gr;
  const tc_gnode *x = &gr->graph->node[n];
  for (int k = 0; k < x->n_in; k++) {
    uint32_t source = tc_fusion_root(gr, x->in[k]), from = gr->of[source];
    const tc_gnode *y = &gr->graph->node[source];
    if (from == b->to || b->met[source] == b->to + 1) continue;
    b->met[source] = b->to + 1;
    if (!gr->stored[source] && y->leaf == TC_LEAF_NONE) {
      cross_operands(b, reader, source, recomputed || tc_op_kind_of(y->op) == TC_KIND_ELEM);
    } else if (from != TC_FUSION_NONE) {
      const char *why =
          recomputed ? "read by a value that is recomputed" : why_apart(gr, b->between, b->to, from, reader, source);
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
