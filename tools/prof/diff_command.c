// tc-prof diff: what changed from one profile to another, by place.
// In: two profiles. Out: rows of what got worse, then of what got better; exit status 3 if anything
// got worse, for CI. Invariants: two profiles of one program on a quiet machine do not differ.
// Threads: one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/groups.h"
#include "tools/prof/prof.h"

enum {
  LEAST_SYNCS = 8,  // fewer cached syncs of a place say nothing of its time
  SLOWER_PERCENT = 10,  // a median cached sync from it on is slower, if its best is, too
  LATER_PERCENT = 25,  // a median time before a sync from it on is longer: it depends on more than the program
  WORTH_PERCENT = 1,  // .. and if all its syncs differ by so much of the first run's time in tc
  STATUS_WORSE = 3,
};

typedef struct side {
  tc_profile *p;
  tc_groups g;
} side;

typedef struct change {
  const tc_group *old, *now;  // NULL: the place is in one run alone
  char words[400];
  double weight_ns;  // of all its syncs; above 0: worse
} change;

static const char *site_of(const side *s, const tc_group *g) {
  return tc_profile_text(s->p, g->site);
}

static bool is_same_place(const side *a, const tc_group *x, const side *b, const tc_group *y, bool any_line) {
  const char *s = site_of(a, x), *t = site_of(b, y);
  if (strcmp(tc_profile_text(a->p, x->cause), tc_profile_text(b->p, y->cause)) != 0) return false;
  if (!any_line) return strcmp(s, t) == 0;
  const char *c = strrchr(s, ':'), *d = strrchr(t, ':');
  return c && d && c - s == d - t && strncmp(s, t, (size_t)(c - s)) == 0 && x->n_syncs == y->n_syncs;
}

// The place of each group of b in a: by its line, then by its file, for lines that moved. -1: none.
static void match(const side *a, const side *b, int *of, bool *taken) {
  for (size_t j = 0; j < b->g.n; j++) of[j] = -1;
  for (int any_line = 0; any_line < 2; any_line++)
    for (size_t j = 0; j < b->g.n; j++)
      for (size_t i = 0; i < a->g.n && of[j] < 0; i++)
        if (!taken[i] && is_same_place(a, &a->g.group[i], b, &b->g.group[j], any_line)) of[j] = (int)i, taken[i] = true;
}

static double whole_ns(const tc_groups *g) {
  return g->all.phase[TC_PHASE_TOTAL];
}

// Adds words, with a separator.
static void say(change *c, const char *words) {
  size_t n = strlen(c->words);
  snprintf(c->words + n, sizeof c->words - n, "%s%s", n ? "; " : "", words);
}

static double each(double sum, const tc_group *g) {
  return g->n_planned ? sum / g->n_planned : 0;
}

// What differs in structure counts whatever it weighs: it does not come from noise.
static void compare_structure(const tc_group *x, const tc_group *y, change *c, double *worse) {
  char words[160];
  const struct {
    const char *name;
    double old, now;
  } fact[] = {{"syncs", x->n_syncs, y->n_syncs},
              {"nodes, median", x->nodes.median, y->nodes.median},
              {"kernels", each(x->sum_kernels, x), each(y->sum_kernels, y)},
              {"graphs", x->n_graphs, y->n_graphs},
              {"values computed again", each(x->sum_again, x), each(y->sum_again, y)}};
  for (size_t i = 0; i < sizeof fact / sizeof *fact; i++) {
    if (fact[i].old == fact[i].now) continue;
    snprintf(words, sizeof words, "%s %s -> %s", fact[i].name, tc_show_number(fact[i].old),
             tc_show_number(fact[i].now));
    say(c, words);
    *worse += fact[i].now > fact[i].old ? 1 : -1;
  }
  if (each(y->bytes, y) != each(x->bytes, x)) {
    snprintf(words, sizeof words, "bytes moved a sync %s -> %s", tc_show_bytes(each(x->bytes, x)),
             tc_show_bytes(each(y->bytes, y)));
    say(c, words);
    *worse += each(y->bytes, y) > each(x->bytes, x) ? 1 : -1;
  }
}

// A median from percent on, by worth_ns in all. Returns what all cached syncs of y take more.
static double compare_medians(const char *name, int percent, tc_spread old, tc_spread now, uint32_t n, double worth_ns,
                              change *c, double *worse) {
  char words[160];
  double slower = 1 + percent / 100.0, all = (now.median - old.median) * n;
  bool is_slower = now.median > slower * old.median && now.least > old.least;
  bool is_faster = old.median > slower * now.median && old.least > now.least;
  if ((!is_slower && !is_faster) || (all < 0 ? -all : all) <= worth_ns) return all;
  int at = snprintf(words, sizeof words, "%s %s -> %s", name, tc_show_ns(old.median), tc_show_ns(now.median));
  if (old.median > 0)
    snprintf(words + at, sizeof words - (size_t)at, " (%+.0f %%)", 100 * (now.median / old.median - 1));
  say(c, words);
  *worse += 100 * all / (worth_ns + 1);  // the time that changed more decides
  return all;
}

// Times of cached syncs, since one that lowers or compiles varies with the machine. What comes before
// them counts in runs of one thread: others wait there for each other. Returns what all of y take more.
static double compare_times(const side *a, const tc_group *x, const side *b, const tc_group *y, change *c,
                            double *worse) {
  if (x->n_cached < LEAST_SYNCS || y->n_cached < LEAST_SYNCS) return 0;
  const double *all = a->g.all.phase;
  double worth = WORTH_PERCENT / 100.0, run_ns = all[TC_PHASE_TOTAL] + all[TC_PHASE_OUTSIDE] + all[TC_PHASE_RECORD];
  double more = compare_medians("a sync", SLOWER_PERCENT, x->cached_ns, y->cached_ns, y->n_cached,
                                worth * whole_ns(&a->g), c, worse);
  if (a->p->n_threads > 1 || b->p->n_threads > 1) return more;
  return more + compare_medians("outside and recording before a sync", LATER_PERCENT, x->before_ns, y->before_ns,
                                y->n_cached, worth * run_ns, c, worse);
}

static change compare(const side *a, const tc_group *x, const side *b, const tc_group *y) {
  change c = {.old = x, .now = y};
  char words[160];
  double worse = 0;
  if (!x || !y) {
    const tc_group *g = x ? x : y;
    snprintf(words, sizeof words, "%u syncs that the %s run has not, %s in all", g->n_syncs, x ? "second" : "first",
             tc_show_ns(g->phase[TC_PHASE_TOTAL]));
    say(&c, words);
    c.weight_ns = (x ? -1 : 1) * g->phase[TC_PHASE_TOTAL];
    return c;
  }
  compare_structure(x, y, &c, &worse);
  double all = compare_times(a, x, b, y, &c, &worse);
  c.weight_ns = c.words[0] == 0 ? 0 : worse > 0 ? (all > 1 ? all : 1) : (all < -1 ? all : -1);
  return c;
}

static int by_weight(const void *a, const void *b) {
  const change *x = a, *y = b;
  return x->weight_ns < y->weight_ns ? 1 : x->weight_ns > y->weight_ns ? -1 : 0;
}

static void print_change(const side *a, const side *b, const change *c) {
  const side *s = c->now ? b : a;
  const tc_group *g = c->now ? c->now : c->old;
  printf("%s %s %s\n    ", tc_show_colour(c->weight_ns > 0 ? TC_RED : TC_GREEN, c->weight_ns > 0 ? "worse " : "better"),
         tc_show_end(site_of(s, g), tc_terminal_get()->columns - 24), tc_profile_text(s->p, g->cause));
  tc_show_words(4, c->words);
}

static void json_change(const side *a, const side *b, const change *c) {
  const side *s = c->now ? b : a;
  const tc_group *g = c->now ? c->now : c->old;
  tc_json_object(NULL);
  tc_json_text("site", site_of(s, g));
  tc_json_text("cause", tc_profile_text(s->p, g->cause));
  tc_json_bool("worse", c->weight_ns > 0);
  tc_json_number("weight_ns", c->weight_ns);
  tc_json_text("what", c->words);
  tc_json_count("syncs_before", c->old ? c->old->n_syncs : 0);
  tc_json_count("syncs_after", c->now ? c->now->n_syncs : 0);
  tc_json_number("median_ns_before", c->old ? c->old->ns.median : 0);
  tc_json_number("median_ns_after", c->now ? c->now->ns.median : 0);
  tc_json_end();
}

static void show(const side *a, const side *b, const change *c, size_t n, size_t n_worse, bool json) {
  if (json) {
    tc_json_object(NULL);
    tc_prof_json_head(b->p, "diff");
    tc_json_text("against", a->p->path);
    tc_json_count("worse", n_worse);
    tc_json_array("changes");
    for (size_t i = 0; i < n; i++)
      if (c[i].weight_ns != 0) json_change(a, b, &c[i]);
    tc_json_end();
    tc_json_end();
    return;
  }
  printf("%s -> %s: %s -> %s in %zu -> %zu syncs\n", a->p->path, b->p->path, tc_show_ns(whole_ns(&a->g)),
         tc_show_ns(whole_ns(&b->g)), a->p->n_points, b->p->n_points);
  size_t n_shown = 0;
  for (size_t i = 0; i < n; i++)
    if (c[i].weight_ns != 0) print_change(a, b, &c[i]), n_shown++;
  if (n_shown == 0) printf("no place differs by more than %d %%, in syncs, graphs or kernels\n", SLOWER_PERCENT);
}

// The rows of both sides. False: there was no memory.
static bool diff(const side *a, const side *b, bool json, size_t *n_worse) {
  size_t n = 0;
  int *of = calloc(b->g.n + 1, sizeof *of);
  bool *taken = calloc(a->g.n + 1, sizeof *taken);
  change *c = calloc(a->g.n + b->g.n + 1, sizeof *c);
  bool ok = of && taken && c;
  if (ok) {
    match(a, b, of, taken);
    for (size_t j = 0; j < b->g.n; j++) c[n++] = compare(a, of[j] < 0 ? NULL : &a->g.group[of[j]], b, &b->g.group[j]);
    for (size_t i = 0; i < a->g.n; i++)
      if (!taken[i]) c[n++] = compare(a, &a->g.group[i], b, NULL);
    qsort(c, n, sizeof *c, by_weight);
    for (size_t i = 0; i < n; i++) *n_worse += c[i].weight_ns > 0;
    show(a, b, c, n, *n_worse, json);
  }
  free(of);
  free(taken);
  free(c);
  return ok;
}

int tc_command_diff(tc_profile *p, const tc_prof_options *o) {
  tc_profile first;
  size_t n_worse = 0;
  side a = {.p = &first}, b = {.p = p};
  bool ok = tc_profile_open(&first, o->word[0]) && tc_profile_read(&first);
  if (ok) {
    ok = tc_groups_make(&first, &a.g);
    if (ok && tc_groups_make(p, &b.g)) {
      ok = diff(&a, &b, o->json, &n_worse);
      tc_groups_free(&b.g);
    } else {
      ok = false;
    }
    if (!ok) fprintf(stderr, "tc-prof: no memory\n");
    tc_groups_free(&a.g);
  }
  tc_profile_close(&first);
  return !ok ? 1 : n_worse ? STATUS_WORSE : 0;
}
