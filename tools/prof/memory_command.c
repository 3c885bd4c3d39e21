// tc-prof memory: the peak, what lived then, and the plan that needs most.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/prof.h"

enum { USUAL_ROWS = 16 };

static const char *const kinds[] = {"temporary", "output", "input"};

// The sync that planned most, or measured most; NULL: none did any.
static const tc_point *find_largest(const tc_profile *p, bool measured) {
  const tc_point *found = NULL;
  float most = 0;
  for (size_t i = 0; i < p->n_points; i++) {
    float bytes = measured ? p->point[i].peak_bytes : p->point[i].planned_bytes;
    if (bytes <= most) continue;
    most = bytes;
    found = &p->point[i];
  }
  return found;
}

// The stage of a plan whose blocks are largest together, and their bytes.
static uint32_t find_stage(const tc_prof_block *block, uint32_t n, double *out_bytes) {
  uint32_t found = 0;
  *out_bytes = 0;
  // A sum grows only where a block begins.
  for (uint32_t i = 0; i < n && i < 4096; i++) {
    double bytes = 0;
    uint32_t stage = block[i].first_stage;
    for (uint32_t k = 0; k < n; k++)
      if (block[k].first_stage <= stage && stage <= block[k].last_stage) bytes += (double)block[k].bytes;
    if (bytes <= *out_bytes) continue;
    *out_bytes = bytes;
    found = stage;
  }
  return found;
}

static int by_bytes(const void *a, const void *b) {
  const tc_prof_block *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->is != y->is) return x->is < y->is ? -1 : 1;
  return (x->first_stage > y->first_stage) - (x->first_stage < y->first_stage);
}

// Blocks that lie in memory in a plan's largest stage, the largest first. The caller frees them.
static tc_prof_block *find_blocks(tc_profile *p, const tc_prof_plan *plan, uint32_t *n, uint32_t *stage,
                                  double *bytes) {
  const tc_prof_block *all = tc_profile_blocks(p, plan);
  *n = 0;
  tc_prof_block *out = all ? malloc(plan->n_blocks * sizeof *out) : NULL;
  if (!out) return NULL;
  *stage = find_stage(all, plan->n_blocks, bytes);
  for (uint32_t i = 0; i < plan->n_blocks; i++)
    if (all[i].first_stage <= *stage && *stage <= all[i].last_stage) out[(*n)++] = all[i];
  qsort(out, *n, sizeof *out, by_bytes);
  return out;
}

static const char *place_of(tc_profile *p, uint32_t site) {
  const char *text = tc_profile_text(p, site);
  return tc_show_end(*text ? text : "?", tc_terminal_get()->columns - 54);
}

// Tensors of the same place and op together.
typedef struct memory_row {
  uint32_t site, op, is, n;  // is: as in tc_prof_block
  double bytes;
} memory_row;

static int by_place(const void *a, const void *b) {
  const memory_row *x = a, *y = b;
  return memcmp(&x->site, &y->site, 3 * sizeof x->site);
}

static int by_sum(const void *a, const void *b) {
  const memory_row *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return by_place(a, b);
}

// How many rows are left.
static uint32_t merge_rows(memory_row *row, uint32_t n) {
  uint32_t last = 0;
  if (n == 0) return 0;
  qsort(row, n, sizeof *row, by_place);
  for (uint32_t i = 1; i < n; i++) {
    if (by_place(&row[last], &row[i]) == 0) {
      row[last].n += row[i].n;
      row[last].bytes += row[i].bytes;
    } else {
      row[++last] = row[i];
    }
  }
  qsort(row, last + 1, sizeof *row, by_sum);
  return last + 1;
}

static void print_rows(tc_profile *p, memory_row *row, uint32_t n_tensors, double all, const tc_prof_options *o) {
  uint32_t n = merge_rows(row, n_tensors);
  size_t rows = tc_prof_rows(o, USUAL_ROWS, n);
  double rest = all;
  for (size_t i = 0; i < rows; i++) {
    char times[16] = "";
    if (row[i].n > 1) snprintf(times, sizeof times, "%.5s x", tc_show_number(row[i].n));
    rest -= row[i].bytes;
    printf("  %9s %6s %7s  %-9s %-15s %s\n", tc_show_bytes(row[i].bytes), tc_show_share(row[i].bytes, all), times,
           row[i].is < 3 ? kinds[row[i].is] : "", tc_show_begin(tc_profile_text(p, row[i].op), 15),
           place_of(p, row[i].site));
  }
  if (rows < n) printf("  %zu more rows: --all\n", n - rows);
  if (rest > 0) printf("  %9s %6s          all else\n", tc_show_bytes(rest), tc_show_share(rest, all));
}

static bool print_live(tc_profile *p, const tc_prof_options *o) {
  if (p->n_memory == 0) return printf("the file has no record of tensors alive\n"), true;
  const tc_record_at *at = &p->memory[p->n_memory - 1];
  uint64_t bytes = p->memory_bytes[p->n_memory - 1], ns = p->memory_ns[p->n_memory - 1];
  const tc_prof_live *live = tc_profile_live(p, at);
  uint32_t n = live ? at->n : 0;
  memory_row *row = malloc((n + 1) * sizeof *row);
  if (!row) return false;
  for (uint32_t i = 0; i < n; i++)
    row[i] = (memory_row){tc_profile_same(p, live[i].site), tc_profile_same(p, live[i].op), UINT32_MAX, 1,
                          (double)live[i].bytes};
  printf("peak: %s, at sync %u, %s after the start\n", tc_show_colour(TC_BOLD, tc_show_bytes((double)bytes)),
         at->sequence, tc_show_ns(ns > p->process.start_ns ? (double)(ns - p->process.start_ns) : 0));
  if (n) printf("what lived then:\n");
  print_rows(p, row, n, (double)bytes, o);
  free(row);
  return true;
}

static bool print_plan(tc_profile *p, const tc_point *point, const tc_prof_options *o) {
  const tc_prof_plan *plan = tc_profile_plan_record(p, point->plan);
  uint32_t n, stage;
  double bytes;
  if (!plan) return true;
  tc_prof_block *block = find_blocks(p, plan, &n, &stage, &bytes);
  memory_row *row = malloc((n + 1) * sizeof *row);
  char line[400];
  snprintf(line, sizeof line, "the plan that needs most: plan %u of sync %u, %s %s", plan->id, point->sequence,
           tc_show_end(tc_profile_text(p, point->site), 32), tc_show_begin(tc_profile_text(p, point->cause), 12));
  putchar('\n');
  tc_show_words(0, line);
  printf("  inputs %s, outputs %s, temporaries %s\n", tc_show_bytes((double)plan->input_bytes),
         tc_show_bytes((double)plan->output_bytes), tc_show_bytes((double)plan->arena_bytes));
  for (uint32_t i = 0; row && block && i < n; i++)
    row[i] = (memory_row){tc_profile_same(p, block[i].site), tc_profile_same(p, block[i].op), block[i].is, 1,
                          (double)block[i].bytes};
  if (n && row) {
    printf("in its stage %u lie %s:\n", stage, tc_show_bytes(bytes));
    print_rows(p, row, n, bytes, o);
  }
  free(block);
  free(row);
  return row != NULL;
}

static bool print_memory(tc_profile *p, const tc_prof_options *o) {
  const tc_point *planned = find_largest(p, false), *measured = find_largest(p, true);
  tc_prof_print_head(p);
  if (!print_live(p, o)) return false;
  if (measured)
    printf("largest sync as measured: %s, sync %u, %s\n", tc_show_bytes((double)measured->peak_bytes),
           measured->sequence, place_of(p, measured->site));
  if (planned)
    printf("largest sync as planned:  %s, sync %u, %s\n", tc_show_bytes((double)planned->planned_bytes),
           planned->sequence, place_of(p, planned->site));
  return !planned || print_plan(p, planned, o);
}

// ---- JSON ----

static void json_row(tc_profile *p, uint32_t site, uint32_t op, uint64_t bytes) {
  tc_json_object(NULL);
  tc_json_text("site", tc_profile_text(p, site));
  tc_json_text("op", tc_profile_text(p, op));
  tc_json_count("bytes", bytes);
}

static void json_peaks(tc_profile *p) {
  tc_json_array("peaks");
  for (size_t i = 0; i < p->n_memory; i++) {
    const tc_prof_live *live = tc_profile_live(p, &p->memory[i]);
    tc_json_object(NULL);
    tc_json_count("sync", p->memory[i].sequence);
    tc_json_count("at_ns", p->memory_ns[i]);
    tc_json_count("bytes", p->memory_bytes[i]);
    tc_json_array("live");
    for (uint32_t k = 0; live && k < p->memory[i].n; k++) {
      json_row(p, live[k].site, live[k].op, live[k].bytes);
      tc_json_end();
    }
    tc_json_end();
    tc_json_end();
  }
  tc_json_end();
}

static void json_largest(tc_profile *p, const char *key, const tc_point *point, double bytes) {
  const tc_prof_plan *plan = tc_profile_plan_record(p, point->plan);
  uint32_t n = 0, stage = 0;
  double in_stage = 0;
  tc_prof_block *block = plan ? find_blocks(p, plan, &n, &stage, &in_stage) : NULL;
  tc_json_object(key);
  tc_json_count("sync", point->sequence);
  tc_json_count("plan", point->plan);
  tc_json_text("site", tc_profile_text(p, point->site));
  tc_json_number("bytes", bytes);
  tc_json_count("stage", stage);
  tc_json_number("stage_bytes", in_stage);
  tc_json_array("blocks");
  for (uint32_t i = 0; i < n; i++) {
    json_row(p, block[i].site, block[i].op, block[i].bytes);
    tc_json_text("is", block[i].is < 3 ? kinds[block[i].is] : "");
    tc_json_count("first_stage", block[i].first_stage);
    tc_json_count("last_stage", block[i].last_stage);
    tc_json_end();
  }
  tc_json_end();
  tc_json_end();
  free(block);
}

int tc_command_memory(tc_profile *p, const tc_prof_options *o) {
  const tc_point *planned = find_largest(p, false), *measured = find_largest(p, true);
  if (!o->json) {
    if (print_memory(p, o)) return 0;
    return fprintf(stderr, "tc-prof: no memory\n"), 1;
  }
  tc_json_object(NULL);
  tc_prof_json_head(p, "memory");
  json_peaks(p);
  if (planned) json_largest(p, "planned", planned, (double)planned->planned_bytes);
  if (measured) json_largest(p, "measured", measured, (double)measured->peak_bytes);
  tc_json_end();
  return 0;
}
