// tc-prof memory: the peak, what lived then, and the plan that needs most.
#include <stdio.h>
#include <stdlib.h>

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
  return tc_show_end(*text ? text : "?", tc_terminal_get()->columns - 46);
}

static void print_live(tc_profile *p, const tc_prof_options *o) {
  if (p->n_memory == 0) {
    printf("the file has no record of tensors alive\n");
    return;
  }
  const tc_record_at *at = &p->memory[p->n_memory - 1];
  uint64_t bytes = p->memory_bytes[p->n_memory - 1], ns = p->memory_ns[p->n_memory - 1];
  const tc_prof_live *live = tc_profile_live(p, at);
  uint32_t n = live ? at->n : 0;
  size_t rows = tc_prof_rows(o, USUAL_ROWS, n);
  printf("peak: %s, at sync %u, %s after the start\n", tc_show_colour(TC_BOLD, tc_show_bytes((double)bytes)),
         at->sequence, tc_show_ns(ns > p->process.start_ns ? (double)(ns - p->process.start_ns) : 0));
  double told = 0;
  if (n) printf("tensors alive then, the largest first:\n");
  for (size_t i = 0; i < rows; i++) {
    told += (double)live[i].bytes;
    printf("  %10s %5s  %-18s %s\n", tc_show_bytes((double)live[i].bytes),
           tc_show_share((double)live[i].bytes, (double)bytes), tc_show_begin(tc_profile_text(p, live[i].op), 18),
           place_of(p, live[i].site));
  }
  if (rows < n) printf("  %zu more rows: --all\n", n - rows);
  if (n)
    printf("  %10s %5s  all else\n", tc_show_bytes((double)bytes > told ? (double)bytes - told : 0),
           tc_show_share((double)bytes > told ? (double)bytes - told : 0, (double)bytes));
}

static void print_plan(tc_profile *p, const tc_point *point, const tc_prof_options *o) {
  const tc_prof_plan *plan = tc_profile_plan(p, point->plan);
  uint32_t n, stage;
  double bytes;
  if (!plan) return;
  tc_prof_block *block = find_blocks(p, plan, &n, &stage, &bytes);
  printf("\nthe plan that needs most: plan %u of sync %u, %s %s\n", plan->id, point->sequence,
         tc_show_end(tc_profile_text(p, point->site), 40), tc_profile_text(p, point->cause));
  printf("  inputs %s, outputs %s, temporaries %s\n", tc_show_bytes((double)plan->input_bytes),
         tc_show_bytes((double)plan->output_bytes), tc_show_bytes((double)plan->arena_bytes));
  if (block) {
    size_t rows = tc_prof_rows(o, USUAL_ROWS, n);
    printf("  in stage %u lie %s:\n", stage, tc_show_bytes(bytes));
    for (size_t i = 0; i < rows; i++)
      printf("  %10s  %-9s %-14s %s\n", tc_show_bytes((double)block[i].bytes),
             block[i].is < 3 ? kinds[block[i].is] : "?", tc_show_begin(tc_profile_text(p, block[i].op), 14),
             place_of(p, block[i].site));
    if (rows < n) printf("  %zu more rows: --all\n", n - rows);
  }
  free(block);
}

static void print_memory(tc_profile *p, const tc_prof_options *o) {
  const tc_point *planned = find_largest(p, false), *measured = find_largest(p, true);
  tc_prof_print_head(p);
  print_live(p, o);
  if (measured)
    printf("largest sync as measured: %s, sync %u, %s\n", tc_show_bytes((double)measured->peak_bytes),
           measured->sequence, tc_show_end(tc_profile_text(p, measured->site), 40));
  if (planned)
    printf("largest sync as planned:  %s, sync %u, %s\n", tc_show_bytes((double)planned->planned_bytes),
           planned->sequence, tc_show_end(tc_profile_text(p, planned->site), 40));
  if (planned) print_plan(p, planned, o);
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
  const tc_prof_plan *plan = tc_profile_plan(p, point->plan);
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
  if (!o->json) return print_memory(p, o), 0;
  tc_json_object(NULL);
  tc_prof_json_head(p, "memory");
  json_peaks(p);
  if (planned) json_largest(p, "planned", planned, (double)planned->planned_bytes);
  if (measured) json_largest(p, "measured", measured, (double)measured->peak_bytes);
  tc_json_end();
  return 0;
}
