// tc-prof report: the whole program, its sync points by place, and what to change.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/advice.h"
#include "tools/prof/groups.h"
#include "tools/prof/prof.h"
#include "tools/prof/regions.h"

enum { USUAL_PLACES = 12, USUAL_REGIONS = 8, BAR = 40 };

static const tc_colour verdict_colour[] = {
    [TC_VERDICT_GOOD] = TC_GREEN,   [TC_VERDICT_ONCE] = TC_DIM,    [TC_VERDICT_TINY] = TC_YELLOW,
    [TC_VERDICT_HUGE] = TC_RED,     [TC_VERDICT_GROWING] = TC_RED, [TC_VERDICT_NEVER_REPEATS] = TC_RED,
    [TC_VERDICT_CHANGING] = TC_RED, [TC_VERDICT_FAILS] = TC_RED,
};

// ---- Parts of time ----

// Those of at least 1 %, the longest first: "58 % run, 20 % look up".
static void write_parts(char *out, size_t bytes, const double ns[TC_N_PHASES], tc_part first) {
  double part[TC_N_PARTS], whole = 0;
  size_t at = 0;
  tc_parts_of(ns, part);
  for (int i = (int)first; i < TC_N_PARTS; i++) whole += part[i];
  out[0] = 0;
  for (int n = 0; n < TC_N_PARTS; n++) {
    int most = (int)first;
    for (int i = (int)first; i < TC_N_PARTS; i++)
      if (part[i] > part[most]) most = i;
    if (part[most] < whole / 100 || part[most] <= 0 || at + 64 > bytes) break;
    at += (size_t)snprintf(out + at, bytes - at, "%s%s %s", at ? ", " : "", tc_show_share(part[most], whole),
                           tc_part_names[most]);
    part[most] = 0;
  }
}

// ---- The histogram ----

static void print_sizes(const tc_group *all) {
  uint64_t most = 0;
  int low = TC_N_SIZES, high = -1;
  for (int i = 0; i < TC_N_SIZES; i++) {
    if (all->size[i] > most) most = all->size[i];
    if (all->size[i] && low > i) low = i;
    if (all->size[i]) high = i;
  }
  if (high < 0) return;
  tc_show_heading("graph sizes: nodes recorded, and how many syncs");
  for (int i = low; i <= high; i++) {
    char range[40];
    if (i == 0)
      snprintf(range, sizeof range, "1");
    else if (i == TC_N_SIZES - 1)
      snprintf(range, sizeof range, "%llu-", 1ull << i);
    else
      snprintf(range, sizeof range, "%llu-%llu", 1ull << i, (2ull << i) - 1);
    printf("%15s%s%s%s%s\n", range, all->size[i] ? " " : "", tc_show_bar((double)all->size[i], (double)most, BAR),
           all->size[i] ? " " : "", all->size[i] ? tc_show_number((double)all->size[i]) : "");
  }
  printf("  min %.0f, median %.0f, p99 %.0f, max %.0f\n", all->nodes.least, all->nodes.median, all->nodes.p99,
         all->nodes.most);
}

// ---- Places ----

static const char *show_sizes(const tc_group *g) {
  double height[TC_N_SIZES];
  int low = 0, high = TC_N_SIZES - 1;
  while (low < TC_N_SIZES - 1 && !g->size[low]) low++;
  while (high > low && !g->size[high]) high--;
  for (int i = low; i <= high; i++) height[i - low] = (double)g->size[i];
  return tc_show_heights(height, high - low + 1);
}

static const char *times_of(double bytes, double least) {
  static char out[32];
  out[0] = 0;
  if (least > 0) snprintf(out, sizeof out, " (%.2fx)", bytes / least);
  return out;
}

// What stands behind the share of hits.
static const char *bound_of(const tc_group *g) {
  static char out[64];
  uint32_t n = g->n_missed[TC_PROF_MISS_BOUND];
  out[0] = 0;
  if (n) snprintf(out, sizeof out, ", of those %s bound to new sizes", tc_show_share(n, g->n_hits));
  return out;
}

static double time_of(const tc_group *g) {
  return g->phase[TC_PHASE_TOTAL] + g->phase[TC_PHASE_RECORD];
}

static void print_fact(const char *name, const char *text) {
  printf("  %-7s ", name);
  tc_show_words(10, text);
}

static void print_place(tc_profile *p, const tc_group *g, const tc_group *all) {
  char line[1024];
  int columns = tc_terminal_get()->columns;
  double n = g->n_planned ? g->n_planned : 1;
  const char *name = tc_show_end(tc_profile_text(p, g->site), columns - 50), *cause = tc_profile_text(p, g->cause);
  printf("%s %s: %s, %s of tc's time: %s\n", tc_show_colour(TC_BOLD, name), tc_show_begin(cause, 12),
         tc_show_count(g->n_syncs, "sync"), tc_show_share(time_of(g), time_of(all)),
         tc_show_colour(verdict_colour[g->verdict], tc_verdict_names[g->verdict]));
  if (g->n_planned) {
    snprintf(line, sizeof line, "|%s| min %.0f, median %.0f, p99 %.0f, max %.0f -> %s left -> %s kernels",
             show_sizes(g), g->nodes.least, g->nodes.median, g->nodes.p99, g->nodes.most,
             tc_show_number(g->sum_left / n), tc_show_number(g->sum_kernels / n));
    print_fact("nodes", line);
    snprintf(line, sizeof line, "%s (p99 %s), moves %s of %s at least%s; %s in the cache%s", tc_show_ns(g->ns.median),
             tc_show_ns(g->ns.p99), tc_show_bytes(g->bytes / n), tc_show_bytes(g->least_bytes / n),
             times_of(g->bytes, g->least_bytes), tc_show_share(g->n_hits, g->n_syncs), bound_of(g));
    print_fact("a sync", line);
  }
  write_parts(line, sizeof line, g->phase, TC_PART_RECORD);
  print_fact("time", line);
  if (g->n_failed) printf("  %u failed\n", g->n_failed);
  if (g->n_wrong) printf("  %u with results that TC_VERIFY=1 found wrong\n", g->n_wrong);
}

// ---- The whole ----

// Profiles of children lie beside their parent's, as FILE.pid, and those of programs that it executed.
static void each_child(tc_profile *p, void (*use)(const char *path, bool first)) {
  const char *slash = strrchr(p->path, '/'), *name = slash ? slash + 1 : p->path;
  size_t length = strlen(name);
  char folder[4096], path[8192];
  struct dirent **entry;
  bool first = true;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - p->path) + 1 : 2, slash ? p->path : "./");
  int n = scandir(folder, &entry, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *child = entry[i]->d_name;
    if (strncmp(child, name, length) == 0 && child[length] == '.' && child[length + 1] &&
        strspn(child + length + 1, "0123456789") == strlen(child + length + 1)) {
      snprintf(path, sizeof path, "%s%s", slash ? folder : "", child);
      use(path, first);
      first = false;
    }
    free(entry[i]);
  }
  if (n >= 0) free(entry);
}

static void print_child(const char *path, bool first) {
  if (first) printf("profiles of its children, and of programs that it executed:\n");
  printf("  %s\n", path);
}

static void json_child(const char *path, bool first) {
  (void)first;
  tc_json_text(NULL, path);
}

static void print_summary(tc_profile *p, const tc_groups *g) {
  const tc_group *all = &g->all;
  char parts[400], line[1024];
  double n = all->n_planned ? all->n_planned : 1;
  snprintf(line, sizeof line,
           "%s from %s and %s in %s; %s, %s found in the cache%s. A sync: %s nodes, %s kernels, "
           "%s moved of %s at least%s.",
           tc_show_count(all->n_syncs, "sync"), tc_show_count((double)g->n, "place"),
           tc_show_count((double)p->n_threads, "thread"), tc_show_ns((double)(g->end_ns - g->begin_ns)),
           tc_show_count(all->n_plans, "graph"), tc_show_share(all->n_hits, all->n_syncs), bound_of(all),
           tc_show_number(all->sum_nodes / n), tc_show_number(all->sum_kernels / n), tc_show_bytes(all->bytes / n),
           tc_show_bytes(all->least_bytes / n), times_of(all->bytes, all->least_bytes));
  tc_show_words(0, line);
  write_parts(parts, sizeof parts, all->phase, TC_PART_OUTSIDE);
  snprintf(line, sizeof line, "Of the threads' time: %s.", parts);
  tc_show_words(0, line);
}

static void print_regions(tc_profile *p, const tc_groups *g, const tc_prof_options *o) {
  size_t n;
  tc_region_row *row = tc_regions_make(p, &n);
  size_t rows = tc_prof_rows(o, USUAL_REGIONS, n);
  if (n) tc_show_heading("regions, without those within");
  for (size_t i = 0; i < rows; i++) {
    const char *name = row[i].region ? tc_profile_text(p, row[i].region) : "outside regions";
    printf("  %6s of tc's time, %s, %s nodes each: %s\n", tc_show_share(row[i].ns + row[i].record_ns, time_of(&g->all)),
           tc_show_count(row[i].n_syncs, "sync"), tc_show_number(row[i].nodes / row[i].n_syncs),
           tc_show_end(name, tc_terminal_get()->columns - 54));
  }
  if (rows < n) printf("%zu more: --all\n", n - rows);
  free(row);
}

static void print_advice(const tc_advice_list *advice, const tc_prof_options *o) {
  size_t rows = tc_prof_rows(o, TC_ADVICE_SHOWN, advice->n);
  if (rows) tc_show_heading("most worth changing");
  for (size_t i = 0; i < rows; i++) {
    const tc_advice *a = &advice->row[i];
    char line[1000];
    snprintf(line, sizeof line, "%s. To save some %s: %s", a->evidence, tc_show_ns(a->gain_ns), a->fix);
    printf("%zu. ", i + 1);
    tc_show_words(3, line);
  }
}

static void print_report(tc_profile *p, const tc_groups *g, const tc_advice_list *advice, const tc_prof_options *o) {
  size_t rows = tc_prof_rows(o, USUAL_PLACES, g->n);
  tc_prof_print_head(p);
  if (p->process.parent_file) printf("forked from the process of %s\n", tc_profile_text(p, p->process.parent_file));
  if (g->all.n_syncs == 0) {
    printf("no sync point: nothing was evaluated\n");
    each_child(p, print_child);
    return;
  }
  print_summary(p, g);
  each_child(p, print_child);
  print_sizes(&g->all);
  tc_show_heading("places and causes, by time");
  for (size_t i = 0; i < rows; i++) print_place(p, &g->group[i], &g->all);
  if (rows < g->n) printf("%zu more: --all\n", g->n - rows);
  print_regions(p, g, o);
  print_advice(advice, o);
}

// ---- JSON ----

static void json_spread(const char *key, const tc_spread *s) {
  tc_json_object(key);
  tc_json_number("min", s->least);
  tc_json_number("median", s->median);
  tc_json_number("p99", s->p99);
  tc_json_number("max", s->most);
  tc_json_end();
}

static void json_misses(const tc_group *g) {
  tc_json_object("misses");
  tc_json_count("new", g->n_missed[TC_PROF_MISS_NEW]);
  tc_json_count("evicted", g->n_missed[TC_PROF_MISS_EVICTED]);
  tc_json_count("cleared", g->n_missed[TC_PROF_MISS_CLEARED]);
  tc_json_count("bound", g->n_missed[TC_PROF_MISS_BOUND]);
  tc_json_end();
}

static void json_group(const tc_group *g) {
  double part[TC_N_PARTS];
  tc_json_count("syncs", g->n_syncs);
  tc_json_count("planned", g->n_planned);
  tc_json_count("hits", g->n_hits);
  tc_json_count("failed", g->n_failed);
  tc_json_count("wrong", g->n_wrong);
  tc_json_count("graphs", g->n_plans);
  json_misses(g);
  tc_json_count("first_sync", g->first);
  tc_json_count("last_sync", g->last);
  json_spread("nodes", &g->nodes);
  tc_json_array("sizes");  // by powers of two
  for (int i = 0; i < TC_N_SIZES; i++) tc_json_count(NULL, g->size[i]);
  tc_json_end();
  tc_json_number("nodes_sum", g->sum_nodes);
  tc_json_number("left_sum", g->sum_left);
  tc_json_number("kernels_sum", g->sum_kernels);
  tc_json_number("launches_sum", g->sum_launches);
  tc_json_number("again_sum", g->sum_again);
  tc_json_number("unused_values", g->n_unused);
  tc_json_number("bytes", g->bytes);
  tc_json_number("least_bytes", g->least_bytes);
  tc_json_number("held_bytes", g->held_bytes);
  tc_json_number("bus_bytes", g->bus_bytes);
  tc_json_number("copied_bytes", g->copied_bytes);
  tc_json_number("cached_bytes", g->cached_bytes);
  tc_json_number("planned_bytes_max", g->most_planned_bytes);
  tc_json_number("peak_bytes_max", g->most_peak_bytes);
  tc_json_number("flops", g->flops);
  json_spread("total_ns", &g->ns);
  tc_parts_of(g->phase, part);
  tc_json_object("ns");
  for (int i = 0; i < TC_N_PARTS; i++) tc_json_number(i == TC_PART_LOOKUP ? "lookup" : tc_part_names[i], part[i]);
  tc_json_number("total", g->phase[TC_PHASE_TOTAL]);
  tc_json_end();
}

static void json_regions(tc_profile *p) {
  size_t n;
  tc_region_row *row = tc_regions_make(p, &n);
  tc_json_array("regions");
  for (size_t i = 0; i < n; i++) {
    tc_json_object(NULL);
    tc_json_text("region", tc_profile_text(p, row[i].region));
    tc_json_count("syncs", row[i].n_syncs);
    tc_json_number("ns", row[i].ns);
    tc_json_number("record_ns", row[i].record_ns);
    tc_json_number("nodes_sum", row[i].nodes);
    tc_json_end();
  }
  tc_json_end();
  free(row);
}

static void json_advice(tc_profile *p, const tc_advice_list *advice) {
  tc_json_array("advice");
  for (size_t i = 0; i < advice->n; i++) {
    const tc_advice *a = &advice->row[i];
    tc_json_object(NULL);
    tc_json_text("rule", a->rule);
    tc_json_text("site", tc_profile_text(p, a->site));
    tc_json_text("cause", tc_profile_text(p, a->cause));
    tc_json_text("evidence", a->evidence);
    tc_json_text("fix", a->fix);
    tc_json_number("gain_ns", a->gain_ns);
    tc_json_end();
  }
  tc_json_end();
}

static void json_report(tc_profile *p, const tc_groups *g, const tc_advice_list *advice) {
  tc_json_object(NULL);
  tc_prof_json_head(p, "report");
  tc_json_count("threads_seen", p->n_threads);
  tc_json_number("wall_ns", (double)(g->end_ns - g->begin_ns));
  tc_json_array("children");
  each_child(p, json_child);
  tc_json_end();
  tc_json_object("all");
  json_group(&g->all);
  tc_json_end();
  tc_json_array("sites");
  for (size_t i = 0; i < g->n; i++) {
    tc_json_object(NULL);
    tc_json_text("site", tc_profile_text(p, g->group[i].site));
    tc_json_text("cause", tc_profile_text(p, g->group[i].cause));
    tc_json_text("verdict", tc_verdict_names[g->group[i].verdict]);
    json_group(&g->group[i]);
    tc_json_end();
  }
  tc_json_end();
  json_regions(p);
  json_advice(p, advice);
  tc_json_end();
}

int tc_command_report(tc_profile *p, const tc_prof_options *o) {
  tc_groups g = {0};
  tc_advice_list advice = {0};
  bool ok = tc_groups_make(p, &g) && tc_prof_advise(p, &g, &advice);
  if (!ok)
    fprintf(stderr, "tc-prof: no memory\n");
  else if (o->json)
    json_report(p, &g, &advice);
  else
    print_report(p, &g, &advice, o);
  tc_advice_free(&advice);
  tc_groups_free(&g);
  return !ok;
}
