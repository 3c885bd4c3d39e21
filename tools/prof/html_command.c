// tc-prof html: the profile as one page, page.html with the data in it.
// In: a profile that was read. Out: HTML on standard output.
// Invariants: nothing of a profile is markup: json.c escapes '<', and the page sets text alone.
// Threads: one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/advice.h"
#include "tools/prof/misses.h"
#include "tools/prof/pack.h"
#include "tools/prof/page_tracks.h"
#include "tools/prof/prof.h"

extern const char tc_page_html[];  // made of page.html

enum {
  MOST_POINTS = 20000,  // of more syncs some are drawn; sums have all
  MOST_PLANS = 200,  // with graphs and kernels; those that took most time
  MOST_MISSES = 500,
  MOST_TEXT = 100000,  // bytes of a graph's text
};
static const char data_mark[] = "@data@";

typedef struct page {
  tc_profile *p;
  tc_groups groups;
  uint32_t *plan;  // ids of the plans in the page
  size_t n_plans;
  tc_pack texts;  // of those plans
  uint32_t *name, *name_at;  // ids of texts that plans name by a number; of each id that number plus 1
  size_t n_names;
} page;

static void write_site(page *w, const tc_group *g) {
  double part[TC_N_PARTS], size[TC_N_SIZES];
  tc_parts_of(g->phase, part);
  for (int i = 0; i < TC_N_SIZES; i++) size[i] = (double)g->size[i];
  tc_json_object(NULL);
  tc_json_text("site", tc_profile_text(w->p, g->site));
  tc_json_text("cause", tc_profile_text(w->p, g->cause));
  tc_json_text("verdict", tc_verdict_names[g->verdict]);
  tc_json_count("syncs", g->n_syncs);
  tc_json_count("hits", g->n_hits);
  tc_json_count("bound", g->n_missed[TC_PROF_MISS_BOUND]);
  tc_json_count("failed", g->n_failed);
  tc_json_count("graphs", g->n_plans);
  tc_json_numbers("nodes", (double[]){g->nodes.least, g->nodes.median, g->nodes.p99, g->nodes.most}, 4);
  tc_json_numbers("ns", (double[]){g->ns.least, g->ns.median, g->ns.p99, g->ns.most}, 4);
  tc_json_numbers("sizes", size, TC_N_SIZES);
  tc_json_number("total_ns", g->phase[TC_PHASE_TOTAL]);
  tc_json_number("nodes_sum", g->sum_nodes);
  tc_json_number("kernels_sum", g->sum_kernels);
  tc_json_number("bytes", g->bytes);
  tc_json_number("least_bytes", g->least_bytes);
  tc_json_numbers("parts", part, TC_N_PARTS);
  tc_json_end();
}

// Column names stand in page.html, at `const S`.
static void write_point(page *w, size_t i) {
  const tc_point *x = &w->p->point[i];
  const tc_plan *plan = tc_profile_plan(w->p, x->plan);
  double row[10 + TC_N_PARTS], phase[TC_N_PHASES];
  for (int k = 0; k < TC_N_PHASES; k++) phase[k] = (double)x->ns[k];
  phase[TC_PHASE_AWAITED] = 0;  // these are the sync's own
  row[0] = x->sequence;
  row[1] = x->thread;
  row[2] = ((double)x->begin_ns - (double)w->groups.begin_ns) * 1e-3;
  row[3] = (double)x->ns[TC_PHASE_TOTAL] * 1e-3;
  row[4] = w->groups.of_point[i];
  row[5] = x->plan;
  row[6] = x->flags;
  row[7] = x->miss;
  row[8] = plan ? plan->n_nodes : 0;
  row[9] = (double)x->peak_bytes;
  tc_parts_of(phase, row + 10);
  tc_json_numbers(NULL, row, 10 + TC_N_PARTS);
}

// A text as its place and length in what is packed, or as it is.
static void write_text(page *w, const char *key, uint32_t id) {
  const char *text = tc_profile_text(w->p, id);
  size_t n = strnlen(text, MOST_TEXT), from = w->texts.n;
  char *head = text[n] ? strndup(text, n) : NULL;
  if (tc_pack_add(&w->texts, text, n))
    tc_json_numbers(key, (double[]){(double)from, (double)n}, 2);
  else
    tc_json_text(key, head ? head : text[n] ? "" : text);
  free(head);
  tc_profile_forget(w->p, id);
}

// The place of a text in the page's names.
static double name_of(page *w, uint32_t id) {
  if (id >= w->p->n_texts) id = 0;
  if (!w->name_at[id]) w->name[w->n_names++] = id, w->name_at[id] = (uint32_t)w->n_names;
  return w->name_at[id] - 1;
}

// Columns of a kernel stand in page.html, at `const K`, those of a boundary at `const B`.
static void write_kernels(page *w, const tc_prof_plan *plan) {
  const tc_prof_kernel *k = tc_profile_kernels(w->p, plan);
  tc_json_array("kernels");
  for (uint32_t i = 0; k && i < plan->n_kernels; i++)
    tc_json_numbers(NULL,
                    (double[]){name_of(w, k[i].name), name_of(w, k[i].kind), name_of(w, k[i].site), k[i].stage,
                               k[i].n_nodes, (double)k[i].bytes, k[i].flops},
                    7);
  tc_json_end();
  const tc_prof_boundary *b = tc_profile_boundaries(w->p, plan);
  tc_json_array("boundaries");
  for (uint32_t i = 0; b && i < plan->n_boundaries; i++)
    tc_json_numbers(NULL, (double[]){b[i].from, b[i].to, b[i].node, (double)b[i].bytes, name_of(w, b[i].reason)}, 5);
  tc_json_end();
}

static void write_plan(page *w, uint32_t id) {
  const tc_prof_plan *plan = tc_profile_plan_record(w->p, id);
  if (!plan) return;
  tc_json_object(NULL);
  tc_json_count("id", id);
  tc_json_hash("hash", plan->hash);
  tc_json_numbers("counts",
                  (double[]){plan->n_nodes, plan->n_left, plan->n_kernels, plan->n_inputs, plan->n_outputs,
                             plan->n_in_place, plan->n_again},
                  7);
  tc_json_numbers("bytes", (double[]){(double)plan->bytes, (double)plan->least_bytes, (double)plan->arena_bytes}, 3);
  tc_json_number("flops", plan->flops);
  write_kernels(w, plan);
  write_text(w, "graph", plan->graph);
  write_text(w, "simplified", plan->simplified);
  write_text(w, "fusion", plan->fusion);
  tc_json_end();
}

// Columns of a slice: begin and length in us, name. Tracks: their slices' first thread, 0 for kernels.
static bool write_tracks(page *w) {
  tc_tracks t;
  char name[40];
  if (!tc_tracks_make(w->p, &t)) return false;
  tc_json_count("slices_left_out", t.n_left_out);
  tc_json_array("tracks");
  for (size_t i = 0; i < t.n;) {
    uint32_t track = t.slice[i].track;
    snprintf(name, sizeof name, track == TC_TRACK_KERNELS ? "kernels" : "compiles of thread %u", track);
    tc_json_object(NULL);
    tc_json_text("name", name);
    tc_json_array("slices");
    for (; i < t.n && t.slice[i].track == track; i++)
      tc_json_numbers(NULL,
                      (double[]){((double)t.slice[i].begin_ns - (double)w->groups.begin_ns) * 1e-3,
                                 (double)t.slice[i].ns * 1e-3, name_of(w, t.slice[i].name)},
                      3);
    tc_json_end();
    tc_json_end();
  }
  tc_json_end();
  tc_tracks_free(&t);
  return true;
}

// What plans name by a number, and their texts. False: no memory.
static bool write_texts(page *w) {
  char *string = tc_pack_string(&w->texts);
  tc_json_array("names");
  for (size_t i = 0; i < w->n_names; i++) tc_json_text(NULL, tc_profile_text(w->p, w->name[i]));
  tc_json_end();
  tc_json_count("texts_bytes", w->texts.n);
  tc_json_text("texts", string ? string : "");
  free(string);
  return string != NULL;
}

typedef struct plan_time {
  uint32_t id;
  double ns;
} plan_time;

static int by_time(const void *a, const void *b) {
  const plan_time *x = a, *y = b;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  return x->id < y->id ? -1 : x->id > y->id;
}

// Chooses the plans of the page.
static bool choose_plans(page *w) {
  size_t n = w->p->n_plans;
  plan_time *t = calloc(n + 1, sizeof *t);
  w->plan = calloc(MOST_PLANS, sizeof *w->plan);
  w->name = calloc(w->p->n_texts + 1, sizeof *w->name);
  w->name_at = calloc(w->p->n_texts + 1, sizeof *w->name_at);
  if (!t || !w->plan || !w->name || !w->name_at) return free(t), false;
  for (size_t i = 0; i < n; i++) t[i].id = (uint32_t)i;
  for (size_t i = 0; i < w->p->n_points; i++)
    if (w->p->point[i].plan < n) t[w->p->point[i].plan].ns += (double)w->p->point[i].ns[TC_PHASE_TOTAL];
  qsort(t, n, sizeof *t, by_time);
  for (size_t i = 0; i < n && w->n_plans < MOST_PLANS; i++)
    if (tc_profile_plan(w->p, t[i].id)) w->plan[w->n_plans++] = t[i].id;
  free(t);
  return true;
}

static void write_misses(page *w) {
  tc_misses m;
  tc_json_array("misses");
  if (tc_misses_find(w->p, &w->groups, false, &m)) {
    for (size_t i = 0; i < m.n && i < MOST_MISSES; i++) {
      const tc_miss_row *row = &m.row[i];
      const tc_point *x = &w->p->point[row->point];
      char words[300] = "";
      tc_miss_view v;
      if (!row->is_first && tc_miss_open(w->p, row, &v)) {
        tc_miss_words(&v.difference, words, sizeof words);
        tc_miss_close(w->p, row, &v);
      }
      tc_json_object(NULL);
      tc_json_numbers("facts", (double[]){x->sequence, row->group, x->plan, row->near, tc_miss_cost(x)}, 5);
      tc_json_text("why", row->is_first ? "the first graph of its place" : words);
      tc_json_end();
    }
    tc_misses_free(&m);
  }
  tc_json_end();
}

static void write_memory(page *w) {
  tc_json_array("memory");
  for (size_t i = 0; i < w->p->n_memory; i++) {
    const tc_record_at *at = &w->p->memory[i];
    tc_json_object(NULL);
    tc_json_numbers("facts",
                    (double[]){at->sequence, ((double)w->p->memory_ns[i] - (double)w->groups.begin_ns) * 1e-3,
                               (double)w->p->memory_bytes[i]},
                    3);
    tc_json_array("live");
    const tc_prof_live *l = i + 1 == w->p->n_memory ? tc_profile_live(w->p, at) : NULL;
    for (uint32_t k = 0; l && k < at->n; k++) {
      tc_json_object(NULL);
      tc_json_text("site", tc_profile_text(w->p, l[k].site));
      tc_json_text("op", tc_profile_text(w->p, l[k].op));
      tc_json_number("bytes", (double)l[k].bytes);
      tc_json_end();
    }
    tc_json_end();
    tc_json_end();
  }
  tc_json_end();
}

static void write_advice(page *w) {
  tc_advice_list a;
  tc_json_array("advice");
  if (tc_prof_advise(w->p, &w->groups, &a)) {
    for (size_t i = 0; i < a.n; i++) {
      tc_json_object(NULL);
      tc_json_text("rule", a.row[i].rule);
      tc_json_text("site", tc_profile_text(w->p, a.row[i].site));
      tc_json_text("evidence", a.row[i].evidence);
      tc_json_text("fix", a.row[i].fix);
      tc_json_number("gain_ns", a.row[i].gain_ns);
      tc_json_end();
    }
    tc_advice_free(&a);
  }
  tc_json_end();
}

// Which syncs of a long run are drawn: marked ones, and one of each block of the others.
typedef struct sample {
  size_t longest;
  size_t every;  // syncs of a block
  bool has_faults;  // misses and failed syncs are marked; false: they are too many
} sample;

static bool is_marked(const tc_profile *p, const sample *s, size_t i) {
  bool fault = tc_is_miss(&p->point[i]) || (p->point[i].flags & TC_PROF_FAILED);
  return i == s->longest || (s->has_faults && fault);
}

// The same bits for the same number. Source: the finalizer of MurmurHash3.
static uint64_t mix_bits(uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdU;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53U;
  return x ^ x >> 33;
}

static sample choose_sample(const tc_profile *p) {
  sample s = {.every = 1, .has_faults = true};
  size_t n_marked = 0;
  if (p->n_points <= MOST_POINTS) return s;
  for (size_t i = 1; i < p->n_points; i++)
    if (p->point[i].ns[TC_PHASE_TOTAL] > p->point[s.longest].ns[TC_PHASE_TOTAL]) s.longest = i;
  for (size_t i = 0; i < p->n_points; i++) n_marked += is_marked(p, &s, i);
  s.has_faults = n_marked <= MOST_POINTS / 2;
  if (!s.has_faults) n_marked = 1;
  size_t room = MOST_POINTS - n_marked;
  s.every = (p->n_points - n_marked + room - 1) / room;
  return s;
}

// Which sync of a block is drawn follows from a hash: a fixed one would show one place of a loop alone.
static void write_points(page *w, const sample *s) {
  size_t at = 0;  // among the syncs of blocks
  tc_json_array("syncs");
  for (size_t i = 0; i < w->p->n_points; i++) {
    bool marked = is_marked(w->p, s, i);
    if (marked || at % s->every == mix_bits(at / s->every) % s->every) write_point(w, i);
    at += !marked;
  }
  tc_json_end();
}

static bool write_data(page *w) {
  sample s = choose_sample(w->p);
  tc_json_object(NULL);
  tc_prof_json_head(w->p, "html");
  tc_json_count("n_syncs", w->p->n_points);
  tc_json_count("every", s.every);
  tc_json_bool("has_faults", s.has_faults);
  tc_json_number("wall_ns", (double)(w->groups.end_ns - w->groups.begin_ns));
  tc_json_array("parts");
  for (int i = 0; i < TC_N_PARTS; i++) tc_json_text(NULL, tc_part_names[i]);
  tc_json_end();
  tc_json_array("sites");
  for (size_t i = 0; i < w->groups.n; i++) write_site(w, &w->groups.group[i]);
  tc_json_end();
  tc_json_object("all");
  tc_json_array("rows");
  write_site(w, &w->groups.all);
  tc_json_end();
  tc_json_end();
  tc_json_array("threads");
  for (size_t i = 0; i < w->p->n_threads; i++) tc_json_count(NULL, w->p->thread[i]);
  tc_json_end();
  write_points(w, &s);
  tc_json_array("plans");
  for (size_t i = 0; i < w->n_plans; i++) write_plan(w, w->plan[i]);
  tc_json_end();
  write_advice(w);
  write_misses(w);
  write_memory(w);
  bool ok = write_tracks(w) && write_texts(w);
  tc_json_end();
  return ok;
}

int tc_command_html(tc_profile *p, const tc_prof_options *o) {
  page w = {.p = p};
  const char *at = strstr(tc_page_html, data_mark);
  if (!at || !tc_groups_make(p, &w.groups)) return fprintf(stderr, "tc-prof: no memory\n"), 1;
  bool ok = choose_plans(&w);
  if (ok) {
    fwrite(tc_page_html, 1, (size_t)(at - tc_page_html), stdout);
    ok = write_data(&w);
    fputs(at + sizeof data_mark - 1, stdout);
    bool written = fflush(stdout) == 0 && !ferror(stdout);  // else main says why
    if (o->output && ok && written) fprintf(stderr, "%s: open it in a browser\n", o->output);
  }
  if (!ok) fprintf(stderr, "tc-prof: no memory\n");
  free(w.plan);
  free(w.name);
  free(w.name_at);
  tc_pack_free(&w.texts);
  tc_groups_free(&w.groups);
  return ok && !ferror(stdout) ? 0 : 1;
}
