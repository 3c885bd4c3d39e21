// tc-prof steps: the step that a program repeats, as it was each time.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/prof.h"
#include "tools/prof/steps.h"

enum { USUAL_THREADS = 4, USUAL_SYNCS = 12, USUAL_OUTLIERS = 5, LEAST_POINTS = 3 };
static const double OUTLIER = 2;  // times the median

typedef struct thread_row {
  uint32_t thread, n;
} thread_row;

static int by_points(const void *a, const void *b) {
  const thread_row *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? 1 : -1;
  return (x->thread > y->thread) - (x->thread < y->thread);
}

// ---- Over the steps ----

typedef enum measure { STEP_NS, STEP_NODES, STEP_KERNELS } measure;

static double value_of(const tc_step *s, measure what) {
  return what == STEP_NS ? s->ns : what == STEP_NODES ? s->nodes : s->kernels;
}

static bool take_values(const tc_steps *s, measure what, size_t from, size_t n, tc_spread *out) {
  double *value = malloc((n + 1) * sizeof *value);
  if (!value) return false;
  for (size_t i = 0; i < n; i++) value[i] = value_of(&s->step[from + i], what);
  *out = tc_spread_of(value, n);
  free(value);
  return true;
}

// A character each for as many steps as fit: the greatest of those that it stands for.
static const char *show_course(const tc_steps *s, measure what, int columns) {
  double height[400];
  int n = (int)(s->n < (size_t)columns ? s->n : (size_t)columns);
  for (int i = 0; i < n; i++) {
    size_t from = s->n * (size_t)i / (size_t)n, to = s->n * ((size_t)i + 1) / (size_t)n;
    height[i] = 0;
    for (size_t k = from; k < to; k++) height[i] = fmax(height[i], value_of(&s->step[k], what));
  }
  return tc_show_heights(height, n);
}

// ---- Outliers ----

static int by_ns(const void *a, const void *b) {
  const tc_step *x = *(const tc_step *const *)a, *y = *(const tc_step *const *)b;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  return (x->first > y->first) - (x->first < y->first);
}

// The steps that took longer than OUTLIER medians, the longest first; n of them.
static const tc_step **find_outliers(const tc_steps *s, double median, size_t *n) {
  const tc_step **out = malloc((s->n + 1) * sizeof *out);
  *n = 0;
  for (size_t i = 0; out && i < s->n; i++)
    if (s->step[i].ns > OUTLIER * median) out[(*n)++] = &s->step[i];
  if (out) qsort(out, *n, sizeof *out, by_ns);
  return out;
}

// The sync and the part of time that a step has more of than others have in all: the longest.
static const tc_point *find_longest(tc_profile *p, const tc_steps *s, const tc_step *step, tc_part *out_part,
                                    double *out_ns) {
  const tc_point *found = &p->point[step->first];
  *out_ns = -1;
  *out_part = TC_PART_RUN;
  for (uint32_t i = step->first; i <= step->last; i++) {
    double ns[TC_N_PHASES], part[TC_N_PARTS];
    if (p->point[i].thread != s->thread) continue;
    for (int k = 0; k < TC_N_PHASES; k++) ns[k] = (double)p->point[i].ns[k];
    tc_parts_of(ns, part);
    for (int k = 0; k < TC_N_PARTS; k++) {
      if (part[k] <= *out_ns) continue;
      *out_ns = part[k];
      *out_part = (tc_part)k;
      found = &p->point[i];
    }
  }
  return found;
}

static void print_outliers(tc_profile *p, const tc_steps *s, double median, const tc_prof_options *o) {
  size_t n;
  const tc_step **slow = find_outliers(s, median, &n);
  size_t rows = tc_prof_rows(o, USUAL_OUTLIERS, n);
  if (n) printf("  %zu %s took more than %.0f times the median:\n", n, n == 1 ? "step" : "steps", OUTLIER);
  for (size_t i = 0; i < rows; i++) {
    tc_part part;
    double ns;
    char line[400];
    const tc_point *point = find_longest(p, s, slow[i], &part, &ns);
    uint32_t first = p->point[slow[i]->first].sequence, last = p->point[slow[i]->last].sequence;
    int at = snprintf(line, sizeof line, "step %zu (", (size_t)(slow[i] - s->step) + 1);
    at += snprintf(line + at, sizeof line - (size_t)at, first == last ? "sync %u" : "syncs %u-%u", first, last);
    snprintf(line + at, sizeof line - (size_t)at, "): %s; sync %u, %s: %s %s%s", tc_show_ns(slow[i]->ns),
             point->sequence, tc_show_end(tc_profile_text(p, point->site), 40), tc_show_ns(ns), tc_part_names[part],
             slow[i]->n_missed ? ", new graph" : "");
    printf("    ");
    tc_show_words(6, line);
  }
  if (rows < n) printf("    %zu more: --all\n", n - rows);
  free(slow);
}

// ---- A thread ----

static void print_expected(tc_profile *p, const tc_groups *g, const tc_steps *s, const tc_prof_options *o) {
  size_t rows = tc_prof_rows(o, USUAL_SYNCS, s->n_group);
  for (size_t i = 0; i < rows; i++) {
    const tc_group *group = &g->group[s->group[i]];
    size_t same = 1;
    while (i + same < s->n_group && s->group[i + same] == s->group[i]) same++;
    printf("  %3zu  %s %s", i + 1, tc_show_end(tc_profile_text(p, group->site), 40), tc_profile_text(p, group->cause));
    if (same > 1) printf(", %zu times", same);
    printf(": nodes %.0f, %s\n", group->nodes.median, tc_show_ns(group->ns.median));
    i += same - 1;
  }
  if (rows < s->n_group) printf("  and %zu more: --all\n", s->n_group - rows);
}

static void print_others(tc_profile *p, const tc_groups *g, const tc_steps *s) {
  char line[1024];
  int at = snprintf(line, sizeof line, "%s before the first step, %u between steps, %u after the last",
                    tc_show_count(s->n_before, "sync"), s->n_between, s->n_after);
  bool any = false;
  for (size_t i = 0; i < g->n && at < (int)sizeof line - 200; i++) {
    if (!s->extra[i]) continue;
    at += snprintf(line + at, sizeof line - (size_t)at, "%s %u of %s %s",
                   any ? "," : "; beyond the expected ones:", s->extra[i],
                   tc_show_end(tc_profile_text(p, g->group[i].site), 60),
                   tc_show_begin(tc_profile_text(p, g->group[i].cause), 20));
    any = true;
  }
  printf("  ");
  tc_show_words(2, line);
}

static void print_growth(const tc_steps *s, measure what, const char *name) {
  tc_spread all, first, last;
  size_t quarter = s->n / 4;
  if (!take_values(s, what, 0, s->n, &all)) return;
  printf("  %-8s", name);
  if (what == STEP_NS) {
    printf("median %s, p99 %s, max %s\n", tc_show_ns(all.median), tc_show_ns(all.p99), tc_show_ns(all.most));
  } else {
    printf("median %s, max %s", tc_show_number(all.median), tc_show_number(all.most));
    if (s->n >= TC_TREND_SYNCS && take_values(s, what, 0, quarter, &first) &&
        take_values(s, what, s->n - quarter, quarter, &last)) {
      bool grows = last.median * 100 >= first.median * (double)TC_GROWING_PERCENT && last.median > first.median;
      printf("; first quarter %s, last quarter %s%s", tc_show_number(first.median), tc_show_number(last.median),
             grows ? tc_show_colour(TC_RED, ": grows") : "");
    }
    putchar('\n');
  }
  printf("          |%s|\n", show_course(s, what, tc_terminal_get()->columns - 14));
}

static void print_thread(tc_profile *p, const tc_groups *g, const tc_steps *s, const tc_prof_options *o) {
  tc_spread ns;
  printf("\nthread %u, %s: ", p->thread[s->thread], tc_show_count(s->n_points, "sync"));
  if (!s->group) {
    printf("no step that repeats\n");
    return;
  }
  printf("a step of %s, seen %zu times\n", tc_show_count((double)s->n_group, "sync"), s->n);
  print_expected(p, g, s, o);
  printf("  %u as expected, %u with more syncs, %u with fewer\n", s->n_regular, s->n_with_extra, s->n_with_missing);
  print_others(p, g, s);
  print_growth(s, STEP_NS, "time");
  print_growth(s, STEP_NODES, "nodes");
  if (take_values(s, STEP_NS, 0, s->n, &ns)) print_outliers(p, s, ns.median, o);
}

// ---- JSON ----

static void json_spread(const char *key, const tc_steps *s, measure what) {
  tc_spread v;
  if (!take_values(s, what, 0, s->n, &v)) return;
  tc_json_object(key);
  tc_json_number("min", v.least);
  tc_json_number("median", v.median);
  tc_json_number("p99", v.p99);
  tc_json_number("max", v.most);
  tc_json_end();
}

static void json_step(tc_profile *p, const tc_step *s) {
  tc_json_object(NULL);
  tc_json_count("first_sync", p->point[s->first].sequence);
  tc_json_count("last_sync", p->point[s->last].sequence);
  tc_json_count("extra", s->n_extra);
  tc_json_count("missing", s->n_missing);
  tc_json_count("missed", s->n_missed);
  tc_json_number("ns", s->ns);
  tc_json_number("nodes", s->nodes);
  tc_json_number("kernels", s->kernels);
  tc_json_number("compile_ns", s->compile_ns);
  tc_json_end();
}

static void json_thread(tc_profile *p, const tc_groups *g, const tc_steps *s) {
  tc_json_object(NULL);
  tc_json_count("thread", p->thread[s->thread]);
  tc_json_count("syncs", s->n_points);
  tc_json_array("expected");
  for (size_t i = 0; i < s->n_group; i++) {
    tc_json_object(NULL);
    tc_json_text("site", tc_profile_text(p, g->group[s->group[i]].site));
    tc_json_text("cause", tc_profile_text(p, g->group[s->group[i]].cause));
    tc_json_end();
  }
  tc_json_end();
  tc_json_count("regular", s->n_regular);
  tc_json_count("with_extra", s->n_with_extra);
  tc_json_count("with_missing", s->n_with_missing);
  tc_json_count("before", s->n_before);
  tc_json_count("between", s->n_between);
  tc_json_count("after", s->n_after);
  json_spread("ns", s, STEP_NS);
  json_spread("nodes", s, STEP_NODES);
  tc_json_array("steps");
  for (size_t i = 0; i < s->n; i++) json_step(p, &s->step[i]);
  tc_json_end();
  tc_json_end();
}

// ---- The command ----

// Threads by their syncs, the busiest first.
static thread_row *sort_threads(tc_profile *p) {
  thread_row *row = calloc(p->n_threads + 1, sizeof *row);
  for (uint32_t i = 0; row && i < p->n_threads; i++) row[i].thread = i;
  for (size_t i = 0; row && i < p->n_points; i++) row[p->point[i].thread].n++;
  if (row) qsort(row, p->n_threads, sizeof *row, by_points);
  return row;
}

static bool each_thread(tc_profile *p, const tc_groups *g, const tc_prof_options *o) {
  thread_row *row = sort_threads(p);
  size_t n = o->json ? p->n_threads : tc_prof_rows(o, USUAL_THREADS, p->n_threads);
  bool ok = row != NULL;
  for (size_t i = 0; ok && i < n; i++) {
    tc_steps s;
    if (!(ok = tc_steps_find(p, g, row[i].thread, &s))) break;
    if (o->json)
      json_thread(p, g, &s);
    else
      print_thread(p, g, &s, o);
    tc_steps_free(&s);
  }
  if (!o->json && n < p->n_threads) printf("\n%zu more threads: --all\n", p->n_threads - n);
  free(row);
  return ok;
}

int tc_command_steps(tc_profile *p, const tc_prof_options *o) {
  tc_groups g;
  if (!tc_groups_make(p, &g)) return fprintf(stderr, "tc-prof: no memory\n"), 1;
  if (o->json) {
    tc_json_object(NULL);
    tc_prof_json_head(p, "steps");
    tc_json_array("threads");
  } else {
    tc_prof_print_head(p);
    if (p->n_points == 0) printf("no sync point: nothing was evaluated\n");
  }
  bool ok = each_thread(p, &g, o);
  if (o->json) {
    tc_json_end();
    tc_json_end();
  }
  tc_groups_free(&g);
  if (!ok) fprintf(stderr, "tc-prof: no memory\n");
  return !ok;
}
