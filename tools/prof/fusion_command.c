// tc-prof fusion: what one kernel stores and another loads, and why the two are not one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/prof.h"

enum { USUAL_ROWS = 20, BOUNDARIES = 1 << 20 };  // so many boundaries are looked at in all

// Of all plans, those with the same two ends and the same reason together.
typedef struct edge {
  uint32_t from_op, to_op, from_site, to_site, reason;  // texts, which are equal where the numbers are
  uint32_t plan, node, from_name, to_name, sequence;  // of the dearest plan; sequence: of the first sync that ran it
  uint32_t n_rows, n_runs;  // boundaries of plans; runs of them all
  double bytes, dearest_bytes;  // of all runs; of the dearest plan's
} edge;

typedef struct edges {
  edge *edge;
  size_t n;
  double bytes;
  size_t n_left_out;
} edges;

typedef struct usage {
  uint32_t n_runs, first;
} usage;

static int by_bytes(const void *a, const void *b) {
  const edge *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->plan != y->plan) return x->plan < y->plan ? -1 : 1;
  return (x->node > y->node) - (x->node < y->node);
}

static int compare_ends(const edge *x, const edge *y) {
  return memcmp(&x->from_op, &y->from_op, 5 * sizeof x->from_op);
}

static int by_ends(const void *a, const void *b) {
  int order = compare_ends(a, b);
  return order ? order : by_bytes(a, b);
}

// One row for those with the same ends; the dearest comes first of them.
static void merge(edges *e) {
  size_t n = 0;
  if (e->n == 0) return;
  qsort(e->edge, e->n, sizeof *e->edge, by_ends);
  for (size_t i = 1; i < e->n; i++) {
    edge *to = &e->edge[n], *from = &e->edge[i];
    if (compare_ends(to, from) != 0) {
      e->edge[++n] = *from;
      continue;
    }
    to->n_runs += from->n_runs;
    to->n_rows++;
    to->bytes += from->bytes;
  }
  e->n = n + 1;
  qsort(e->edge, e->n, sizeof *e->edge, by_bytes);
}

// The texts of a kernel, where the plan has one of this number.
static void take_end(tc_profile *p, const tc_prof_plan *plan, const tc_prof_kernel *kernel, uint32_t number,
                     uint32_t *op, uint32_t *site, uint32_t *name) {
  if (!kernel || number >= plan->n_kernels) return;
  *op = tc_profile_same(p, kernel[number].op);
  *site = tc_profile_same(p, kernel[number].site);
  *name = kernel[number].name;
}

static bool take_plan(tc_profile *p, const tc_prof_plan *plan, const usage *use, edges *out) {
  uint32_t n = plan->n_boundaries;
  const tc_prof_boundary *row = tc_profile_boundaries(p, plan);
  if (!row) return true;
  if (out->n + n > BOUNDARIES) return out->n_left_out += n, true;
  edge *more = realloc(out->edge, (out->n + n) * sizeof *more);
  tc_prof_boundary *own = malloc(n * sizeof *own);
  if (more) out->edge = more;
  if (!more || !own) return free(own), false;
  memcpy(own, row, n * sizeof *own);  // the kernels' rows take the place of these
  const tc_prof_kernel *kernel = tc_profile_kernels(p, plan);
  for (uint32_t i = 0; i < n; i++) {
    double bytes = (double)own[i].bytes * use->n_runs;
    edge *e = &more[out->n++];
    *e = (edge){.plan = plan->id,
                .node = own[i].node,
                .reason = tc_profile_same(p, own[i].reason),
                .sequence = use->first,
                .n_rows = 1,
                .n_runs = use->n_runs,
                .bytes = bytes,
                .dearest_bytes = bytes};
    take_end(p, plan, kernel, own[i].from, &e->from_op, &e->from_site, &e->from_name);
    take_end(p, plan, kernel, own[i].to, &e->to_op, &e->to_site, &e->to_name);
    out->bytes += bytes;
  }
  free(own);
  return true;
}

static bool find_edges(tc_profile *p, edges *out) {
  usage *use = calloc(p->n_plans + 1, sizeof *use);
  bool ok = use != NULL;
  *out = (edges){0};
  for (size_t i = 0; ok && i < p->n_points; i++) {
    if (!tc_profile_plan(p, p->point[i].plan)) continue;
    usage *u = &use[p->point[i].plan];
    if (u->n_runs++ == 0) u->first = p->point[i].sequence;
  }
  for (uint32_t i = 0; ok && i < p->n_plans; i++)
    if (use[i].n_runs) {
      const tc_prof_plan *plan = tc_profile_plan_record(p, i);
      ok = plan && take_plan(p, plan, &use[i], out);
      tc_profile_forget_plan(p, i);
    }
  if (ok) merge(out);
  free(use);
  return ok;
}

static const char *name_of(tc_profile *p, uint32_t text) {
  const char *name = tc_profile_text(p, text);
  return *name ? name : "?";
}

static void print_edges(tc_profile *p, const edges *e, const tc_prof_options *o) {
  size_t rows = tc_prof_rows(o, USUAL_ROWS, e->n);
  double moved = 0;
  tc_prof_print_head(p);
  for (size_t i = 0; i < p->n_points; i++) {
    const tc_plan *plan = tc_profile_plan(p, p->point[i].plan);
    moved += plan ? (double)plan->bytes : 0;
  }
  printf("what kernels hand to each other: %s, %s of what they move\n", tc_show_bytes(e->bytes),
         tc_show_share(e->bytes, moved));
  for (size_t i = 0; i < rows; i++) {
    const edge *x = &e->edge[i];
    char line[600];
    printf("\n%s at %u %s, %u runs, as in sync %u\n", tc_show_colour(TC_BOLD, tc_show_bytes(x->bytes)), x->n_rows,
           x->n_rows == 1 ? "boundary" : "boundaries", x->n_runs, x->sequence);
    snprintf(line, sizeof line, "%s @ %.150s -> %%%u -> %s @ %.150s", name_of(p, x->from_op), name_of(p, x->from_site),
             x->node, name_of(p, x->to_op), name_of(p, x->to_site));
    printf("  ");
    tc_show_words(2, line);
    printf("  ");
    tc_show_words(2, name_of(p, x->reason));
  }
  if (rows < e->n) printf("\n%zu more: --all\n", e->n - rows);
  if (e->n_left_out) printf("\n%zu more were not looked at\n", e->n_left_out);
}

static void json_edges(tc_profile *p, const edges *e) {
  tc_json_object(NULL);
  tc_prof_json_head(p, "fusion");
  tc_json_number("bytes", e->bytes);
  tc_json_count("left_out", e->n_left_out);
  tc_json_array("boundaries");
  for (size_t i = 0; i < e->n; i++) {
    const edge *x = &e->edge[i];
    tc_json_object(NULL);
    tc_json_count("plan", x->plan);
    tc_json_count("first_sync", x->sequence);
    tc_json_count("rows", x->n_rows);
    tc_json_count("runs", x->n_runs);
    tc_json_number("bytes", x->bytes);
    tc_json_count("node", x->node);
    tc_json_text("reason", tc_profile_text(p, x->reason));
    tc_json_text("from_kernel", tc_profile_text(p, x->from_name));
    tc_json_text("from_op", tc_profile_text(p, x->from_op));
    tc_json_text("from_site", tc_profile_text(p, x->from_site));
    tc_json_text("to_kernel", tc_profile_text(p, x->to_name));
    tc_json_text("to_op", tc_profile_text(p, x->to_op));
    tc_json_text("to_site", tc_profile_text(p, x->to_site));
    tc_json_end();
  }
  tc_json_end();
  tc_json_end();
}

int tc_command_fusion(tc_profile *p, const tc_prof_options *o) {
  edges e;
  bool ok = find_edges(p, &e);
  if (!ok)
    fprintf(stderr, "tc-prof: no memory\n");
  else if (o->json)
    json_edges(p, &e);
  else
    print_edges(p, &e, o);
  free(e.edge);
  return !ok;
}
