// Advice about graphs, and kernels in them. See advice.h; docs/profiler.md explains each rule.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/advice.h"
#include "tools/prof/show.h"

enum {
  NEW_PERCENT = 20,  // of a place's syncs: where new graphs, or sizes, are no storm, they count if ..
  NEW_COST_PERCENT = 5,  // .. making and binding them takes so much of the run
  RECOMPUTE_PERCENT = 20,  // of the nodes recorded
  HELD_BYTES = 65536,  // a sync; less is not felt
  REFERENCE_PERCENT = 15,  // of the bytes that the kernels of a place move
  CUT_BYTES = 1 << 20,  // a run; less stays in a core's cache
  CUT_PERCENT = 25,  // of the bytes that the kernels of a graph move
  CUT_FLOPS = 4,  // a byte; a kernel that computes more is not bound by memory
};

// ---- Graphs that are new ----

enum { MOST_COMPARED = 2000 };  // nodes of a graph that are looked at for what grows

static bool is_same_span(tc_span a, tc_span b) {
  return a.n == b.n && memcmp(a.at, b.at, (size_t)a.n) == 0;
}

static int count_like(const tc_graph_text *t, const tc_node_text *x) {
  int n = 0;
  for (size_t i = 0; i < t->n && i < MOST_COMPARED; i++)
    n += is_same_span(t->node[i].op, x->op) && is_same_span(t->node[i].site, x->site);
  return n;
}

// The node, no constant, whose like, by op and place, became most from one graph to the other; *out_n: so many.
static const tc_node_text *find_grown(const tc_graph_text *old, const tc_graph_text *now, int *out_n) {
  const tc_node_text *most = NULL;
  *out_n = 0;
  for (size_t i = 0; i < now->n && i < MOST_COMPARED; i++) {
    bool is_constant = now->node[i].op.n == 4 && memcmp(now->node[i].op.at, "full", 4) == 0;
    int n = is_constant ? 0 : count_like(now, &now->node[i]) - count_like(old, &now->node[i]);
    if (n > *out_n) *out_n = n, most = &now->node[i];
  }
  return most;
}

// In words, what the largest graph of a place has more of than the first one.
static void write_grown(const tc_advice_input *in, const tc_group *g, char *out, size_t bytes) {
  const tc_plan *least = NULL, *most = NULL;
  out[0] = 0;
  for (size_t i = 0; i < in->p->n_points; i++) {
    const tc_plan *plan = tc_profile_plan(in->p, in->p->point[i].plan);
    if (in->g->of_point[i] != (uint32_t)(g - in->g->group) || !plan) continue;
    if (!least) least = plan;
    if (!most || plan->n_nodes > most->n_nodes) most = plan;
  }
  const tc_prof_plan *first = least ? tc_profile_plan_record(in->p, least->id) : NULL,
                     *largest = most ? tc_profile_plan_record(in->p, most->id) : NULL;
  tc_graph_text old = {0}, now = {0};
  int n = 0;
  if (first && largest && largest != first && tc_graph_text_parse(tc_profile_text(in->p, first->graph), &old) &&
      tc_graph_text_parse(tc_profile_text(in->p, largest->graph), &now)) {
    const tc_node_text *x = find_grown(&old, &now, &n);
    if (x && x->site.n)
      snprintf(out, bytes, "; most of it is %.*s, recorded at %.*s: %d more in the largest",
               x->op.n < 40 ? x->op.n : 40, x->op.at, x->site.n < 80 ? x->site.n : 80, x->site.at, n);
  }
  tc_graph_text_free(&old);
  tc_graph_text_free(&now);
  if (first) tc_profile_forget(in->p, first->graph);
  if (largest) tc_profile_forget(in->p, largest->graph);
}

bool tc_advise_growing(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    if (g->verdict != TC_VERDICT_GROWING) continue;
    tc_advice *a = tc_advice_add(out, "growing", g->phase[TC_PHASE_TOTAL] * (1 - g->first_nodes / g->last_nodes), g);
    char grown[160];
    if (!a) return false;
    write_grown(in, g, grown, sizeof grown);
    snprintf(a->evidence, sizeof a->evidence,
             "%s has a graph that grows: %.0f nodes in the first quarter of %u syncs, %.0f in the last%s",
             tc_advice_place(in, g->site), g->first_nodes, g->n_syncs, g->last_nodes, grown);
    snprintf(a->fix, sizeof a->fix,
             "Record as many ops in each step; where they are the history of a value that is carried over, evaluate it "
             "at the end of the step and detach it (tc_detach).");
  }
  return true;
}

static const char *fix_of(const tc_difference *d) {
  if (d->only_extents || d->kind == TC_DIFFERENT_EXTENT)
    return "Pad it to a few sizes and mask what is not there yet, so that graphs repeat.";
  if (d->kind == TC_DIFFERENT_WORD)
    return "Pass what changes as a tensor or as an op's number: those are arguments, and attributes are "
           "part of the graph.";
  return "Record the same ops in each step, and choose between values with tc_where.";
}

static tc_advice *say_changing(const tc_advice_input *in, tc_advice_list *out, const tc_group *g,
                               const tc_miss_row *row, double cost) {
  char words[200], bound[80] = ", of which making";
  tc_miss_view v;
  if (!tc_miss_open(in->p, row, &v)) return NULL;
  tc_advice *a = tc_advice_add(out, "changing", cost, g);
  if (a) {
    const tc_difference *d = &v.difference;
    const tc_node_text *node = d->only_extents && d->leaf ? d->leaf : d->now ? d->now : d->old;
    uint32_t n_bound = g->n_missed[TC_PROF_MISS_BOUND];
    if (n_bound)
      snprintf(bound, sizeof bound, ", and new sizes bound to a plan in %u, of which making and binding", n_bound);
    tc_miss_words(d, words, sizeof words);
    snprintf(a->evidence, sizeof a->evidence,
             "%s has a new graph in %u of %u syncs%s took %s; that of sync %u differs from the one "
             "before it in "
             "%s%s%.*s",
             tc_advice_place(in, g->site), g->n_missed[TC_PROF_MISS_NEW], g->n_syncs, bound, tc_show_ns(cost),
             in->p->point[row->point].sequence, words, node && node->site.n ? ", recorded at " : "",
             node ? node->site.n < 80 ? node->site.n : 80 : 0, node ? node->site.at : "");
    snprintf(a->fix, sizeof a->fix, "%s", fix_of(d));
  }
  tc_miss_close(in->p, row, &v);
  return a;
}

// Of a group's misses and bound plans: what they cost, how many have a graph to be compared with, and the middle one
// of those, which is less likely an exception than the first or the last.
typedef struct miss_sum {
  double cost;
  uint32_t n, at;
  const tc_miss_row *middle;
} miss_sum;

static miss_sum *sum_misses(const tc_advice_input *in) {
  miss_sum *sum = calloc(in->g->n + 1, sizeof *sum);
  for (size_t i = 0; sum && i < in->misses->n; i++) {
    const tc_miss_row *row = &in->misses->row[i];
    if (!row->is_first) sum[row->group].cost += tc_miss_cost(&in->p->point[row->point]);
    sum[row->group].n += row->near != 0;
  }
  for (size_t i = 0; sum && i < in->misses->n; i++) {
    const tc_miss_row *row = &in->misses->row[i];
    miss_sum *s = &sum[row->group];
    if (row->near && s->at++ == s->n / 2) s->middle = row;
  }
  return sum;
}

bool tc_advise_changing(const tc_advice_input *in, tc_advice_list *out) {
  miss_sum *sum = sum_misses(in);
  for (size_t i = 0; sum && i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const miss_sum *s = &sum[i];
    uint64_t n_new = g->n_missed[TC_PROF_MISS_NEW], n = n_new + g->n_missed[TC_PROF_MISS_BOUND];
    bool is_storm = n_new >= TC_STORM_MISSES && n_new * 100 >= (uint64_t)g->n_syncs * TC_STORM_PERCENT;
    bool is_expensive = n * 100 >= (uint64_t)g->n_syncs * NEW_PERCENT && s->cost * 100 >= in->run_ns * NEW_COST_PERCENT;
    if (n < TC_STORM_MISSES || !(is_storm || is_expensive) || !s->middle || tc_advice_has(out, g, "growing")) continue;
    (void)say_changing(in, out, g, s->middle, s->cost);  // without its graphs' texts there is nothing to say
  }
  bool ok = sum != NULL;
  free(sum);
  return ok;
}

// ---- Values made twice, and copied ----

// Syncs of the group whose plan computes values again, ..
static bool has_again(const tc_plan *plan, const tc_plan *last) {
  (void)last;
  return plan->n_again > 0;
}

// .. copies since something is held, ..
static bool has_held(const tc_plan *plan, const tc_plan *last) {
  (void)last;
  return plan->held_bytes > 0;
}

// .. or has the structure of the latest one.
static bool is_alike(const tc_plan *plan, const tc_plan *last) {
  return plan->hash == last->hash;
}

static uint32_t count_syncs(const tc_advice_input *in, const tc_group *g,
                            bool (*counts)(const tc_plan *plan, const tc_plan *last)) {
  const tc_point *latest = tc_profile_point(in->p, g->last);
  const tc_plan *last = latest ? tc_profile_plan(in->p, latest->plan) : NULL;
  uint32_t n = 0;
  for (size_t i = 0; last && i < in->p->n_points; i++) {
    const tc_plan *plan = tc_profile_plan(in->p, in->p->point[i].plan);
    n += in->g->of_point[i] == (uint32_t)(g - in->g->group) && plan && counts(plan, last);
  }
  return n;
}

static bool has_word(const tc_node_text *x, const char *word) {
  return memmem(x->words.at, (size_t)x->words.n, word, strlen(word)) != NULL;
}

static bool is_op(const tc_node_text *x, const char *op) {
  return (size_t)x->op.n == strlen(op) && memcmp(x->op.at, op, (size_t)x->op.n) == 0;
}

static size_t find_node(const tc_graph_text *t, uint32_t number) {
  size_t i = 0;
  while (i < t->n && t->node[i].number != number) i++;
  return i;
}

// Nodes that are computed again: those so marked, which are the roots of recipes, and what they are
// made of. *out_root: the last root. -1: no memory.
static int count_recomputed(const tc_graph_text *t, const tc_node_text **out_root) {
  uint8_t *is_again = calloc(t->n + 1, 1);
  int n = 0;
  for (size_t i = t->n; is_again && i-- > 0;) {
    const tc_node_text *x = &t->node[i];
    bool is_root = has_word(x, "again");
    if (is_root && n == 0) *out_root = x;
    if ((!is_root && !is_again[i]) || is_op(x, "leaf") || is_op(x, "full")) continue;
    n++;
    uint32_t number;
    for (int at = 0; tc_operand_next(x, &at, &number);) is_again[find_node(t, number)] = 1;
  }
  if (!is_again) n = -1;
  free(is_again);
  return n;
}

static bool say_recompute(const tc_advice_input *in, tc_advice_list *out, const tc_group *g, const tc_graph_text *t) {
  const tc_node_text *root = NULL;
  int n = count_recomputed(t, &root);
  if (n < 0) return false;
  if (n * 100.0 < (double)t->n * RECOMPUTE_PERCENT || !root) return true;
  tc_advice *a = tc_advice_add(out, "recompute", g->phase[TC_PHASE_RUN] * n / (double)t->n, g);
  if (!a) return false;
  snprintf(a->evidence, sizeof a->evidence,
           "%s computes %d of its %zu nodes again in each of %u syncs, up to %.*s at %.*s: an earlier sync had "
           "that value and did not store it",
           tc_advice_place(in, g->site), n, t->n, count_syncs(in, g, has_again), root->op.n < 30 ? root->op.n : 30,
           root->op.at, root->site.n < 80 ? root->site.n : 80, root->site.n ? root->site.at : "");
  snprintf(
      a->fix, sizeof a->fix,
      "Ask for all results in the first sync, by one tc_eval of several tensors, or for the value that they share.");
  return true;
}

bool tc_advise_recompute(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const tc_prof_plan *plan = tc_advice_plan(in, g);
    tc_graph_text text;
    if (g->n_syncs < TC_TREND_SYNCS || !plan || !plan->n_again || tc_advice_has(out, g, NULL)) continue;
    if (!tc_graph_text_parse(tc_profile_text(in->p, plan->graph), &text)) return false;
    bool ok = say_recompute(in, out, g, &text);
    tc_graph_text_free(&text);
    tc_profile_forget(in->p, plan->graph);
    if (!ok) return false;
  }
  return true;
}

// The site of an assign whose target is a leaf that is not sole, in the text of a graph. 0 bytes: none.
static tc_span find_held(const tc_graph_text *t) {
  for (size_t i = 0; i < t->n; i++) {
    const tc_node_text *x = &t->node[i];
    uint32_t target = 0;
    int at = 0;
    bool both = tc_operand_next(x, &at, &target) && tc_operand_next(x, &at, &target);
    if (!both || !is_op(x, "assign")) continue;
    size_t k = find_node(t, target);
    if (k < t->n && is_op(&t->node[k], "leaf") && !has_word(&t->node[k], "sole")) return x->site;
  }
  return (tc_span){NULL, 0};
}

// The number of a text that a kernel of the plan has as its site. 0: none has it.
static uint32_t find_site(const tc_advice_input *in, const tc_prof_plan *plan, tc_span site) {
  const tc_prof_kernel *kernel = tc_profile_kernels(in->p, plan);
  for (uint32_t i = 0; kernel && i < plan->n_kernels; i++) {
    const char *text = tc_profile_text(in->p, kernel[i].site);
    if (site.n && strlen(text) == (size_t)site.n && memcmp(text, site.at, (size_t)site.n) == 0) return kernel[i].site;
  }
  return 0;
}

bool tc_advise_held(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const tc_prof_plan *plan = tc_advice_plan(in, g);
    if (g->n_syncs < TC_TREND_SYNCS || !plan || !plan->n_held || g->held_bytes < (double)HELD_BYTES * g->n_planned)
      continue;
    tc_graph_text text;
    tc_advice *a = tc_advice_add(out, "held", tc_advice_bytes_ns(in, g, 2 * g->held_bytes), g);
    if (!a || !tc_graph_text_parse(tc_profile_text(in->p, plan->graph), &text)) return false;
    tc_span site = find_held(&text);
    uint32_t id = find_site(in, plan, site);
    if (id) a->site = id;
    uint32_t n_held = count_syncs(in, g, has_held);
    snprintf(a->evidence, sizeof a->evidence,
             "%.*s%s writes to new memory, %s in each of %u syncs, since something still holds the old value at %s",
             site.n < 80 ? site.n : 80, site.n ? site.at : "", site.n ? "" : tc_advice_place(in, g->site),
             tc_show_bytes(g->held_bytes / n_held), n_held, tc_advice_place(in, g->site));
    snprintf(
        a->fix, sizeof a->fix,
        "End the step's scope before that sync, and release handles to the old value: then it is written in place.");
    tc_graph_text_free(&text);
    tc_profile_forget(in->p, plan->graph);
  }
  return true;
}

// ---- Kernels ----

// What else does the work of an op that has no generated kernel.
static const struct {
  const char *op, *fix;
} instead[] = {
    {"argsort", "Use tc_max, tc_min, tc_topk or tc_kthvalue where few of the values are wanted; or sort once."},
    {"argtopk", "Use tc_max or tc_argmax where one value is wanted; or choose less often."},
};

static const char *instead_of(const char *op) {
  for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
    if (strcmp(op, instead[i].op) == 0) return instead[i].fix;
  return NULL;
}

// Of a place's latest plan, each kernel once as often as the place syncs.
bool tc_advise_reference(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const tc_prof_plan *plan = tc_advice_plan(in, g);
    const tc_prof_kernel *kernel = plan ? tc_profile_kernels(in->p, plan) : NULL, *most = NULL;
    double bytes = 0, all = 0;
    for (uint32_t k = 0; kernel && k < plan->n_kernels; k++) {
      bool is_reference = strcmp(tc_profile_text(in->p, kernel[k].kind), "reference") == 0 &&
                          instead_of(tc_profile_text(in->p, kernel[k].op));
      all += (double)kernel[k].bytes;
      if (is_reference && (!most || kernel[k].bytes > most->bytes)) most = &kernel[k];
      bytes += is_reference ? (double)kernel[k].bytes : 0;
    }
    if (!most || all <= 0 || g->n_syncs < TC_TREND_SYNCS || bytes * 100 < all * REFERENCE_PERCENT) continue;
    tc_advice *a = tc_advice_add(out, "reference", g->phase[TC_PHASE_RUN] * bytes / all, g);
    if (!a) return false;
    const char *op = tc_profile_text(in->p, most->op);
    a->site = most->site ? most->site : g->site;
    snprintf(a->evidence, sizeof a->evidence,
             "%s runs %.40s as a reference kernel in each of %u syncs: no code is generated for it, and nothing fuses "
             "with it; it moves %s of a sync's bytes",
             tc_advice_place(in, a->site), op, count_syncs(in, g, is_alike), tc_show_share(bytes, all));
    snprintf(a->fix, sizeof a->fix, "%s", instead_of(op));
  }
  return true;
}

// What a program can do about the reason of a boundary; NULL: nothing, or it is not its fault.
static const struct {
  const char *reason, *fix;
} cuts[] = {
    {"another kernel, which reads that one, stands between",
     "The second kernel needs a number made of all that the first one stores: take it over fewer axes, or from "
     "the step "
     "before."},
    {"its kernel goes over other positions",
     "The two go over different axes: let both reduce over the same ones, best the last."},
    {"read at other positions", "The second reads it permuted or shifted: keep one layout from step to step."},
};

static const char *mend_of(const char *reason) {
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    if (strcmp(reason, cuts[i].reason) == 0) return cuts[i].fix;
  return NULL;
}

static bool is_bound_by_memory(const tc_advice_input *in, const tc_prof_kernel *k) {
  return strcmp(tc_profile_text(in->p, k->kind), "generated") == 0 && k->flops < CUT_FLOPS * (double)k->bytes;
}

// The boundary of a plan that costs most and can be mended. False: there is none.
static bool find_cut(const tc_advice_input *in, const tc_prof_plan *plan, tc_prof_boundary *out,
                     tc_prof_kernel ends[2]) {
  const tc_prof_boundary *boundary = tc_profile_boundaries(in->p, plan);
  tc_prof_boundary *row = malloc((plan->n_boundaries + 1) * sizeof *row);
  bool found = false;
  if (row && boundary) memcpy(row, boundary, plan->n_boundaries * sizeof *row);
  const tc_prof_kernel *kernel = row && boundary ? tc_profile_kernels(in->p, plan) : NULL;
  for (uint32_t i = 0; kernel && i < plan->n_boundaries; i++) {
    const tc_prof_boundary *b = &row[i];
    if (b->from >= plan->n_kernels || b->to >= plan->n_kernels || (found && b->bytes <= out->bytes)) continue;
    if (!mend_of(tc_profile_text(in->p, b->reason)) || !is_bound_by_memory(in, &kernel[b->from]) ||
        !is_bound_by_memory(in, &kernel[b->to]))
      continue;
    *out = *b, ends[0] = kernel[b->from], ends[1] = kernel[b->to];
    found = true;
  }
  free(row);
  return found;
}

bool tc_advise_cut(const tc_advice_input *in, tc_advice_list *out) {
  for (size_t i = 0; i < in->g->n; i++) {
    const tc_group *g = &in->g->group[i];
    const tc_prof_plan *plan = tc_advice_plan(in, g);
    tc_prof_boundary b = {.bytes = 0};
    tc_prof_kernel ends[2] = {{.name = 0}};
    if (g->n_syncs < TC_TREND_SYNCS || !plan || !plan->n_boundaries || !find_cut(in, plan, &b, ends)) continue;
    if (b.bytes < CUT_BYTES || !plan->bytes || (double)b.bytes * 100 < (double)plan->bytes * CUT_PERCENT) continue;
    tc_advice *a = tc_advice_add(out, "cut", g->phase[TC_PHASE_RUN] * (double)b.bytes / (double)plan->bytes, g);
    if (!a) return false;
    if (ends[1].site) a->site = ends[1].site;
    snprintf(
        a->evidence, sizeof a->evidence,
        "%s (%.30s) is a kernel apart from %s (%.30s), though memory bounds both: %s are stored and read again in each "
        "of %u syncs; %.60s",
        tc_advice_place(in, a->site), tc_profile_text(in->p, ends[1].op), tc_advice_place(in, ends[0].site),
        tc_profile_text(in->p, ends[0].op), tc_show_bytes((double)b.bytes), count_syncs(in, g, is_alike),
        tc_profile_text(in->p, b.reason));
    snprintf(a->fix, sizeof a->fix, "%s", mend_of(tc_profile_text(in->p, b.reason)));
  }
  return true;
}
