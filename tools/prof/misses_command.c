// tc-prof misses: what made each graph new, the places where it happens again and again first.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/misses.h"
#include "tools/prof/prof.h"

enum {
  USUAL_PLACES = 12,
  USUAL_CAUSES = 3,  // of a place
  USUAL_MISSES = 256,  // of a place, that are looked at for its causes; --all: every one
  MOST_FOLDED = 1000,  // causes that a miss is compared with
};

static const char *const reasons[] = {"", "new", "evicted", "cleared"};

typedef struct place {
  uint32_t group, n, n_first;
  uint32_t *row;  // of tc_misses, n of them
  double ns;
  bool storm;
} place;

// ---- Places ----

static int by_storm(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->storm != y->storm) return x->storm ? -1 : 1;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  return (x->group > y->group) - (x->group < y->group);
}

// Syncs and misses of a thread at one place.
typedef struct share {
  uint32_t n_syncs, n_misses;
} share;

static bool is_storm(uint32_t n_misses, uint32_t n_syncs) {
  return n_misses >= TC_STORM_MISSES && (uint64_t)n_misses * 100 >= (uint64_t)n_syncs * TC_STORM_PERCENT;
}

// A storm is one thread's, since threads may share a place. point: those of the place, n of them.
// by_thread: zeros, before and after.
static bool judge_storm(const tc_profile *p, const uint32_t *point, uint32_t n, share *by_thread) {
  bool storm = false;
  for (uint32_t i = 0; i < n; i++) {
    share *s = &by_thread[p->point[point[i]].thread];
    s->n_syncs++;
    s->n_misses += tc_is_miss(&p->point[point[i]]);
  }
  for (uint32_t i = 0; i < n; i++) {
    share *s = &by_thread[p->point[point[i]].thread];
    storm = storm || is_storm(s->n_misses, s->n_syncs);
    *s = (share){0};
  }
  return storm;
}

static bool judge_storms(const tc_profile *p, const tc_groups *g, place *all) {
  share *by_thread = calloc(p->n_threads + 1, sizeof *by_thread);
  uint32_t *point = malloc((p->n_points + 1) * sizeof *point), *end = calloc(g->n + 1, sizeof *end);
  bool ok = by_thread && point && end;
  for (size_t i = 1; ok && i < g->n; i++) end[i] = end[i - 1] + g->group[i - 1].n_syncs;
  for (size_t i = 0; ok && i < p->n_points; i++) point[end[g->of_point[i]]++] = (uint32_t)i;
  for (size_t i = 0; ok && i < g->n; i++)
    all[i].storm = judge_storm(p, point + end[i] - g->group[i].n_syncs, g->group[i].n_syncs, by_thread);
  free(by_thread);
  free(point);
  free(end);
  return ok;
}

// A row for each group; those without a miss last. rows: where the numbers of misses lie.
static bool make_places(tc_profile *p, const tc_groups *g, const tc_misses *m, place **out, uint32_t **rows) {
  place *all = calloc(g->n + 1, sizeof *all);
  *rows = malloc((m->n + 1) * sizeof **rows);
  *out = all;
  if (!all || !*rows) return false;
  for (size_t i = 0; i < m->n; i++) all[m->row[i].group].n++;
  uint32_t *next = *rows;
  for (uint32_t i = 0; i < g->n; i++) {
    all[i].group = i;
    all[i].row = next;
    next += all[i].n;
    all[i].n = 0;
  }
  for (size_t i = 0; i < m->n; i++) {
    place *here = &all[m->row[i].group];
    here->row[here->n++] = (uint32_t)i;
    here->n_first += m->row[i].is_first;
    here->ns += tc_miss_cost(&p->point[m->row[i].point]);
  }
  if (!judge_storms(p, g, all)) return false;
  qsort(all, g->n, sizeof *all, by_storm);
  return true;
}

// ---- Text ----

static void print_leaf(const tc_difference *d) {
  char line[600];
  const tc_node_text *leaf = d->leaf;
  int at = 0;
  if (!d->only_extents) return;
  if (d->n_leaves)
    at = snprintf(line, sizeof line, "would have hit if dim %d of %%%u %.*s %.*s", d->leaf_dim, leaf->number,
                  leaf->op.n < 40 ? leaf->op.n : 40, leaf->op.at, leaf->type.n < 80 ? leaf->type.n : 80, leaf->type.at);
  else
    at = snprintf(line, sizeof line, "would have hit if more than one dim were dynamic, as of %%%u %.*s", leaf->number,
                  leaf->type.n < 80 ? leaf->type.n : 80, leaf->type.at);
  if (leaf->site.n)
    at += snprintf(line + at, sizeof line - (size_t)at, " (%.*s)", leaf->site.n < 200 ? leaf->site.n : 200,
                   leaf->site.at);
  if (d->n_leaves > 1) at += snprintf(line + at, sizeof line - (size_t)at, " and of %d more", d->n_leaves - 1);
  if (d->n_leaves) snprintf(line + at, sizeof line - (size_t)at, " were dynamic");
  printf("    ");
  tc_show_words(4, line);
}

// Misses of a place that have one cause: the same difference at the same line, whatever the values.
typedef struct cause {
  uint64_t key;
  const tc_miss_row *first;
  uint32_t n, last;  // last: sequence of the latest one
} cause;

static uint64_t mix(uint64_t key, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) key = (key ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return key;
}

static uint64_t key_of(tc_profile *p, const tc_miss_row *row) {
  tc_miss_view v;
  uint32_t reason = p->point[row->point].miss;
  int what[] = {(int)reason, row->near != 0, row->is_first, row->is_known, 0, 0, 0};
  uint64_t key = 0xcbf29ce484222325u;
  if (reason == TC_PROF_MISS_EVICTED || reason == TC_PROF_MISS_CLEARED || !row->near || !tc_miss_open(p, row, &v))
    return mix(key, what, sizeof what);
  const tc_difference *d = &v.difference;
  const tc_node_text *node = d->now ? d->now : d->old;
  bool ends = d->kind == TC_LONGER || d->kind == TC_SHORTER;  // where it ends is a value, too
  what[1] = (int)d->kind + 2, what[3] = node ? 0 : row->is_known, what[4] = d->only_extents ? d->n_leaves + 1 : 0;
  what[5] = d->kind == TC_DIFFERENT_EXTENT ? d->dim : d->leaf_dim, what[6] = node && !ends ? (int)node->number : 0;
  key = mix(key, what, sizeof what);
  if (node) key = mix(mix(key, node->op.at, (size_t)node->op.n), node->site.at, (size_t)node->site.n);
  tc_miss_close(p, row, &v);
  return key;
}

// Adds a miss to the causes of its place, whose array has room for it.
static void add_cause(tc_profile *p, const tc_miss_row *row, cause *all, size_t *n) {
  uint64_t key = key_of(p, row);
  size_t at = 0;
  while (at < *n && at < MOST_FOLDED && all[at].key != key) at++;
  if (at == MOST_FOLDED) at = *n;
  if (at == *n) all[(*n)++] = (cause){.key = key, .first = row};
  all[at].n++;
  all[at].last = p->point[row->point].sequence;
}

static void print_line(const char *head, const char *rest) {
  char line[900];
  snprintf(line, sizeof line, "%s: %s", head, rest);
  printf("  ");
  tc_show_words(4, line);
}

static void print_cause(tc_profile *p, const cause *c) {
  const tc_miss_row *row = c->first;
  const tc_point *point = &p->point[row->point];
  tc_miss_view v;
  char words[400], line[700], head[80];
  int at = snprintf(head, sizeof head, "sync %u", point->sequence);
  if (c->n > 1) snprintf(head + at, sizeof head - (size_t)at, ", and %u like it to sync %u", c->n - 1, c->last);
  if (point->miss == TC_PROF_MISS_EVICTED) return print_line(head, "its plan was known, and left the full cache");
  if (point->miss == TC_PROF_MISS_CLEARED) return print_line(head, "its plan was known, and tc_cache_clear dropped it");
  if (!row->near)
    return print_line(head, row->is_first ? "the first graph of this place" : "no known graph is like it");
  if (!tc_miss_open(p, row, &v)) {
    snprintf(line, sizeof line, "nearest is plan %u; the file has not both texts", row->near);
    return print_line(head, line);
  }
  const tc_node_text *node = v.difference.now ? v.difference.now : v.difference.old;
  if (!node && row->is_known)
    snprintf(words, sizeof words, "another thread was making the same graph");
  else
    tc_miss_words(&v.difference, words, sizeof words);
  snprintf(line, sizeof line, "%s%s%.*s", words, node && node->site.n ? " @ " : "",
           node && node->site.n < 200 ? node->site.n : 0, node && node->site.at ? node->site.at : "");
  print_line(head, line);
  print_leaf(&v.difference);
  tc_miss_close(p, row, &v);
}

// False: no memory.
static bool print_place(tc_profile *p, const tc_groups *g, const tc_misses *m, const place *here,
                        const tc_prof_options *o) {
  const tc_group *group = &g->group[here->group];
  printf("\n%s %s: %s%u of %s, %s\n",
         tc_show_colour(TC_BOLD, tc_show_end(tc_profile_text(p, group->site), tc_terminal_get()->columns - 40)),
         tc_profile_text(p, group->cause), here->storm ? tc_show_colour(TC_RED, "storm: ") : "", here->n,
         tc_show_count(group->n_syncs, "sync"), tc_show_ns(here->ns));
  // The first graph of a place says least.
  size_t looked = o->all || here->n < USUAL_MISSES ? here->n : USUAL_MISSES, n = 0, told = 0;
  size_t from = o->all || here->n <= here->n_first ? 0 : here->n_first;
  if (from + looked > here->n) looked = here->n - from;
  cause *all = malloc((looked + 1) * sizeof *all);
  if (!all) return false;
  for (size_t i = from; i < from + looked; i++) add_cause(p, &m->row[here->row[i]], all, &n);
  size_t rows = tc_prof_rows(o, USUAL_CAUSES, n);
  for (size_t i = 0; i < rows; told += all[i++].n) print_cause(p, &all[i]);
  if (told < here->n) printf("  %zu more: --all\n", here->n - told);
  free(all);
  return true;
}

static bool print_misses(tc_profile *p, const tc_groups *g, const tc_misses *m, const place *all,
                         const tc_prof_options *o) {
  size_t n = 0;
  char line[300];
  while (n < g->n && all[n].n) n++;
  size_t rows = tc_prof_rows(o, USUAL_PLACES, n);
  tc_prof_print_head(p);
  snprintf(
      line, sizeof line,
      "%zu of %s had no plan in the cache: %u new graphs, %u evicted, %u cleared. To lower and to compile took %s.",
      m->n, tc_show_count(g->all.n_syncs, "sync"), g->all.n_missed[TC_PROF_MISS_NEW],
      g->all.n_missed[TC_PROF_MISS_EVICTED], g->all.n_missed[TC_PROF_MISS_CLEARED], tc_show_ns(m->cost_ns));
  tc_show_words(0, line);
  if (g->all.n_missed[TC_PROF_MISS_BOUND])
    printf("%s had new sizes, bound to a plan for many sizes, which took %s.\n",
           tc_show_count(g->all.n_missed[TC_PROF_MISS_BOUND], "sync"), tc_show_ns(m->bound_ns));
  for (size_t i = 0; i < rows; i++)
    if (!print_place(p, g, m, &all[i], o)) return false;
  if (rows < n) printf("\n%zu more places: --all\n", n - rows);
  return true;
}

// ---- JSON ----

static void json_span(const char *key, tc_span s) {
  char text[400];
  snprintf(text, sizeof text, "%.*s", s.at ? s.n : 0, s.at ? s.at : "");
  tc_json_text(key, text);
}

static void json_difference(tc_profile *p, const tc_miss_row *row) {
  tc_miss_view v;
  if (!row->near || !tc_miss_open(p, row, &v)) return;
  const tc_difference *d = &v.difference;
  const tc_node_text *node = d->now ? d->now : d->old;
  tc_json_text("differs", tc_difference_names[d->kind]);
  if (node) {
    tc_json_count("node", node->number);
    json_span("op", node->op);
    json_span("line", node->site);
    json_span("old", d->old_word);
    json_span("new", d->new_word);
  }
  if (d->kind == TC_DIFFERENT_EXTENT) {
    tc_json_count("dim", (uint64_t)d->dim);
    tc_json_count("old_extent", (uint64_t)d->old->dim[d->dim]);
    tc_json_count("new_extent", (uint64_t)d->now->dim[d->dim]);
  }
  tc_json_bool("only_extents", d->only_extents);
  if (d->only_extents && d->n_leaves) tc_json_count("dynamic_dim", (uint64_t)d->leaf_dim);
  tc_miss_close(p, row, &v);
}

static void json_misses(tc_profile *p, const tc_groups *g, const tc_misses *m, const place *all) {
  tc_json_object(NULL);
  tc_prof_json_head(p, "misses");
  tc_json_number("cost_ns", m->cost_ns);
  tc_json_array("places");
  for (size_t i = 0; i < g->n && all[i].n; i++) {
    const tc_group *group = &g->group[all[i].group];
    tc_json_object(NULL);
    tc_json_text("site", tc_profile_text(p, group->site));
    tc_json_text("cause", tc_profile_text(p, group->cause));
    tc_json_bool("storm", all[i].storm);
    tc_json_count("syncs", group->n_syncs);
    tc_json_number("cost_ns", all[i].ns);
    tc_json_array("misses");
    for (uint32_t k = 0; k < all[i].n; k++) {
      const tc_miss_row *row = &m->row[all[i].row[k]];
      const tc_point *point = &p->point[row->point];
      tc_json_object(NULL);
      tc_json_count("sync", point->sequence);
      tc_json_count("plan", point->plan);
      tc_json_count("near", row->near);
      tc_json_text("reason", reasons[point->miss <= TC_PROF_MISS_CLEARED ? point->miss : TC_PROF_MISS_NEW]);
      tc_json_bool("first", row->is_first);
      tc_json_number("cost_ns", tc_miss_cost(point));
      json_difference(p, row);
      tc_json_end();
    }
    tc_json_end();
    tc_json_end();
  }
  tc_json_end();
  tc_json_end();
}

int tc_command_misses(tc_profile *p, const tc_prof_options *o) {
  tc_groups g = {0};
  tc_misses m = {0};
  place *all = NULL;
  uint32_t *rows = NULL;
  bool ok = tc_groups_make(p, &g) && tc_misses_find(p, &g, false, &m) && make_places(p, &g, &m, &all, &rows);
  if (ok && o->json)
    json_misses(p, &g, &m, all);
  else
    ok = ok && print_misses(p, &g, &m, all, o);
  if (!ok) fprintf(stderr, "tc-prof: no memory\n");
  free(all);
  free(rows);
  tc_misses_free(&m);
  tc_groups_free(&g);
  return !ok;
}
