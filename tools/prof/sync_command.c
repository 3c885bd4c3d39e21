// tc-prof sync N: one sync in full.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/dot.h"
#include "tools/prof/groups.h"
#include "tools/prof/prof.h"
#include "tools/prof/stack.h"

enum { MOST_FRAMES = 32, BAR = 24 };

static const char *const misses[] = {"", "no graph like it was known", "its plan had left the full cache",
                                     "tc_cache_clear had dropped its plan", "bound to new sizes"};

static const char *miss_of(const tc_prof_sync *s) {
  return misses[s->miss <= TC_PROF_MISS_BOUND ? s->miss : TC_PROF_MISS_NEW];
}

typedef struct view {
  tc_profile *p;
  const tc_point *point;
  const tc_prof_plan *plan;  // NULL: none
  tc_prof_sync sync;
  tc_prof_kernel *kernel;  // of the plan; owned
  uint32_t n_kernels;
  double *kernel_ns;  // of each, where the file has it, else 0; owned
  uint32_t *kernel_threads;
  bool timed;
} view;

// ---- Reading ----

// Times of this sync's kernels, if it has any.
static void take_times(view *v) {
  tc_profile *p = v->p;
  for (size_t i = 0; i < p->n_times; i++) {
    if (p->times[i].sequence != v->point->sequence) continue;
    const tc_prof_kernel_time *row = tc_profile_times(p, &p->times[i]);
    for (uint32_t k = 0; row && k < p->times[i].n; k++) {
      if (row[k].kernel >= v->n_kernels) continue;
      v->kernel_ns[row[k].kernel] += (double)row[k].ns;
      v->kernel_threads[row[k].kernel] = row[k].n_threads;
      v->timed = true;
    }
  }
}

static bool open_view(tc_profile *p, const tc_point *point, view *v) {
  *v = (view){.p = p, .point = point, .plan = tc_profile_plan_record(p, point->plan)};
  if (!tc_profile_sync(p, point, &v->sync)) return false;
  const tc_prof_kernel *kernel = v->plan ? tc_profile_kernels(p, v->plan) : NULL;
  v->n_kernels = kernel ? v->plan->n_kernels : 0;
  v->kernel = malloc((v->n_kernels + 1) * sizeof *v->kernel);
  v->kernel_ns = calloc(v->n_kernels + 1, sizeof *v->kernel_ns);
  v->kernel_threads = calloc(v->n_kernels + 1, sizeof *v->kernel_threads);
  if (!v->kernel || !v->kernel_ns || !v->kernel_threads) return false;
  if (kernel) memcpy(v->kernel, kernel, v->n_kernels * sizeof *kernel);
  take_times(v);
  return true;
}

static void close_view(view *v) {
  free(v->kernel);
  free(v->kernel_ns);
  free(v->kernel_threads);
}

static void phases_of(const tc_prof_sync *s, double out[TC_N_PHASES]) {
  const uint64_t ns[TC_N_PHASES] = {s->outside_ns, s->record_ns,   s->lookup_ns, s->lower_ns,
                                    s->compile_ns, s->allocate_ns, s->launch_ns, s->run_ns,
                                    s->wait_ns,    s->publish_ns,  s->total_ns,  s->awaited_ns};
  for (int i = 0; i < TC_N_PHASES; i++) out[i] = (double)ns[i];
}

// Of what the machine can at most do with a kernel's bytes and operations; 0: not known.
static double roof_share(const view *v, uint32_t k) {
  const tc_prof_process *m = &v->p->process;
  double seconds = v->kernel_ns[k] * 1e-9, flops = 0, bytes = 0;
  if (seconds <= 0) return 0;
  if (m->peak_flops > 0) flops = v->kernel[k].flops / seconds / m->peak_flops;
  if (m->peak_bytes > 0) bytes = (double)v->kernel[k].bytes / seconds / m->peak_bytes;
  return flops > bytes ? flops : bytes;
}

static bool is_roof_known(const view *v) {
  return v->p->process.peak_flops > 0 || v->p->process.peak_bytes > 0;
}

// ---- Text ----

static void print_cache(const view *v) {
  const tc_prof_sync *s = &v->sync;
  printf("  plan %u", s->plan);
  if (v->plan) printf(", graph %016" PRIx64 ", shapes %016" PRIx64, v->plan->hash, v->plan->shape_hash);
  bool is_bound = s->miss == TC_PROF_MISS_BOUND, is_new = !is_bound && !(s->flags & TC_PROF_HIT);
  printf("\n  %s%s%s; kernels: %s%s%s\n",
         is_new     ? "new: "
         : is_bound ? "its plan was in the cache, "
                    : "its plan was in the cache",
         is_new || is_bound ? miss_of(s) : "", s->flags & TC_PROF_FAILED ? "; it failed" : "",
         tc_profile_text(v->p, s->tier), s->flags & TC_PROF_REPLAYED ? ", replayed" : "",
         s->flags & TC_PROF_INTERPRETED ? ", some interpreted" : "");
  if (s->flags & TC_PROF_WRONG) printf("  TC_VERIFY=1 found wrong results\n");
  if (s->note) printf("  %s\n", tc_profile_text(v->p, s->note));
}

static void print_plan(const view *v) {
  const tc_prof_plan *plan = v->plan;
  char line[600];
  if (!plan) return;
  snprintf(
      line, sizeof line,
      "%u nodes -> %u left -> %u kernels, %u launches; %u inputs, %u outputs, %u in place; %u nodes computed again; %s",
      plan->n_nodes, plan->n_left, plan->n_kernels, v->sync.n_launches, plan->n_inputs, plan->n_outputs,
      plan->n_in_place, plan->n_again, tc_profile_text(v->p, plan->device));
  printf("  ");
  tc_show_words(2, line);
  snprintf(line, sizeof line, "moves %s of %s at least, %s operations; in use %s as planned, %s as measured",
           tc_show_bytes((double)plan->bytes), tc_show_bytes((double)plan->least_bytes), tc_show_number(plan->flops),
           tc_show_bytes((double)v->sync.planned_bytes), tc_show_bytes((double)v->sync.peak_bytes));
  printf("  ");
  tc_show_words(2, line);
  if (plan->n_held)
    printf("  %u assigns copied %s: something else holds what they write over\n", plan->n_held,
           tc_show_bytes((double)plan->held_bytes));
  if (v->sync.to_device_bytes || v->sync.from_device_bytes)
    printf("  over the bus: %s to the device, %s from it\n", tc_show_bytes((double)v->sync.to_device_bytes),
           tc_show_bytes((double)v->sync.from_device_bytes));
}

static void print_parts(const view *v) {
  double ns[TC_N_PHASES], part[TC_N_PARTS];
  phases_of(&v->sync, ns);
  ns[TC_PHASE_AWAITED] = 0;  // what follows is the sync's own
  tc_parts_of(ns, part);
  tc_show_heading("time");
  for (int i = 0; i < TC_N_PARTS; i++) {
    if (part[i] <= 0) continue;
    printf("  %-12s %9s  %s\n", tc_part_names[i], tc_show_ns(part[i]),
           i < TC_PART_LOOKUP ? "before the sync" : tc_show_bar(part[i], ns[TC_PHASE_TOTAL], BAR));
  }
  printf("  %-12s %9s\n", "the sync", tc_show_ns(ns[TC_PHASE_TOTAL]));
  if (v->sync.awaited_ns)
    printf("  outside, %s was spent waiting for a device\n", tc_show_ns((double)v->sync.awaited_ns));
}

static void print_kernels(const view *v) {
  char head[100] = "kernels";
  if (!v->n_kernels) return;
  if (v->timed && is_roof_known(v))
    snprintf(head, sizeof head, "kernels, of %s FLOP/s and %s/s at most", tc_show_number(v->p->process.peak_flops),
             tc_show_bytes(v->p->process.peak_bytes));
  tc_show_heading(head);
  printf("  stage nodes     bytes      time    GB/s GFLOP/s  roof  op\n");
  for (uint32_t i = 0; i < v->n_kernels; i++) {
    const tc_prof_kernel *k = &v->kernel[i];
    double ns = v->kernel_ns[i];
    const char *at = tc_profile_text(v->p, k->site);
    if (ns > 0)
      printf("  %5u %5u %9s %9s %7.2f %7.2f %5s  %s @ %s\n", k->stage, k->n_nodes, tc_show_bytes((double)k->bytes),
             tc_show_ns(ns), (double)k->bytes / ns, k->flops / ns,
             is_roof_known(v) ? tc_show_share(roof_share(v, i), 1) : "-", tc_profile_text(v->p, k->op),
             tc_show_end(at, 20));
    else
      printf("  %5u %5u %9s %9s %7s %7s %5s  %s @ %s\n", k->stage, k->n_nodes, tc_show_bytes((double)k->bytes), "-",
             "-", "-", "-", tc_profile_text(v->p, k->op), tc_show_end(at, 20));
    printf("        %s %s\n", tc_profile_text(v->p, k->kind), tc_profile_text(v->p, k->name));
  }
  if (v->timed && !is_roof_known(v)) printf("  the file does not say what the machine can do at most: no roof\n");
  if (!v->timed) printf("  times of kernels are in the file where TC_PROFILE_KERNELS=1 was set\n");
}

static void print_indented(const char *heading, const char *text) {
  if (!*text) return;
  tc_show_heading(heading);
  while (*text) {
    int n = (int)strcspn(text, "\n");
    printf("  %.*s\n", n, text);
    text += n;
    text += *text == '\n';
  }
}

static void print_boundaries(const view *v) {
  const tc_prof_boundary *row = v->plan ? tc_profile_boundaries(v->p, v->plan) : NULL;
  if (!row) return;
  tc_show_heading("what kernels hand to each other");
  for (uint32_t i = 0; i < v->plan->n_boundaries; i++) {
    char line[600];
    snprintf(line, sizeof line, "%s, %%%u from kernel %u to %u: %.300s", tc_show_bytes((double)row[i].bytes),
             row[i].node, row[i].from, row[i].to, tc_profile_text(v->p, row[i].reason));
    printf("  ");
    tc_show_words(4, line);
  }
}

static void print_stack(const view *v) {
  uint32_t n;
  const uint64_t *address = tc_profile_stack(v->p, v->sync.stack, &n);
  if (!address) return;
  uint32_t first = 0;
  while (first + 1 < n && tc_stack_is_own(v->p, address[first])) first++;
  tc_show_heading("called from");
  for (uint32_t i = first; i < n && i - first < MOST_FRAMES; i++) {
    char frame[1200];
    tc_stack_frame(v->p, address[i], frame, sizeof frame);
    printf("  %s\n", tc_show_begin(frame, tc_terminal_get()->columns - 2));
  }
}

static void print_sync(const view *v) {
  const tc_point *point = v->point;
  uint64_t start = v->p->process.start_ns;
  char head[20], tail[200];
  int columns = tc_terminal_get()->columns;
  tc_prof_print_head(v->p);
  int used = snprintf(head, sizeof head, "sync %u: ", point->sequence);
  used += snprintf(tail, sizeof tail, " %s, thread %u, %s after the start",
                   tc_show_begin(tc_profile_text(v->p, point->cause), 16), v->p->thread[point->thread],
                   tc_show_ns(point->begin_ns > start ? (double)(point->begin_ns - start) : 0));
  int left = columns - used > 8 ? columns - used : 8;  // of the place
  printf("%s%s%s\n", head, tc_show_colour(TC_BOLD, tc_show_end(tc_profile_text(v->p, point->site), left)), tail);
  if (point->region) printf("  in region %s\n", tc_show_end(tc_profile_text(v->p, point->region), columns - 12));
  print_cache(v);
  print_plan(v);
  print_stack(v);
  print_parts(v);
  print_kernels(v);
  print_boundaries(v);
  if (!v->plan) return;
  print_indented("the graph as recorded", tc_profile_text(v->p, v->plan->graph));
  print_indented("after simplification", tc_profile_text(v->p, v->plan->simplified));
  print_indented("kernels and their nodes", tc_profile_text(v->p, v->plan->fusion));
  print_indented("the program", tc_profile_text(v->p, v->plan->program));
}

// ---- JSON ----

static void json_kernels(const view *v) {
  tc_json_array("kernels");
  for (uint32_t i = 0; i < v->n_kernels; i++) {
    const tc_prof_kernel *k = &v->kernel[i];
    tc_json_object(NULL);
    tc_json_text("name", tc_profile_text(v->p, k->name));
    tc_json_text("kind", tc_profile_text(v->p, k->kind));
    tc_json_text("op", tc_profile_text(v->p, k->op));
    tc_json_text("site", tc_profile_text(v->p, k->site));
    tc_json_count("stage", k->stage);
    tc_json_count("nodes", k->n_nodes);
    tc_json_count("bytes", k->bytes);
    tc_json_number("flops", k->flops);
    if (v->kernel_ns[i] > 0) {
      tc_json_number("ns", v->kernel_ns[i]);
      tc_json_count("threads", v->kernel_threads[i]);
      tc_json_number("gb_per_s", (double)k->bytes / v->kernel_ns[i]);
      tc_json_number("gflop_per_s", k->flops / v->kernel_ns[i]);
      tc_json_number("of_roof", roof_share(v, i));
    }
    tc_json_end();
  }
  tc_json_end();
}

static void json_plan(const view *v) {
  const tc_prof_plan *plan = v->plan;
  tc_json_object("plan");
  tc_json_count("id", plan->id);
  tc_json_hash("graph_hash", plan->hash);
  tc_json_hash("shape_hash", plan->shape_hash);
  tc_json_text("device", tc_profile_text(v->p, plan->device));
  const struct {
    const char *key;
    uint64_t n;
  } count[] = {{"nodes", plan->n_nodes},
               {"left", plan->n_left},
               {"inputs", plan->n_inputs},
               {"outputs", plan->n_outputs},
               {"in_place", plan->n_in_place},
               {"again", plan->n_again},
               {"held", plan->n_held},
               {"held_bytes", plan->held_bytes},
               {"bytes", plan->bytes},
               {"least_bytes", plan->least_bytes},
               {"arena_bytes", plan->arena_bytes},
               {"output_bytes", plan->output_bytes},
               {"input_bytes", plan->input_bytes}};
  for (size_t i = 0; i < sizeof count / sizeof *count; i++) tc_json_count(count[i].key, count[i].n);
  tc_json_number("flops", plan->flops);
  tc_json_text("graph", tc_profile_text(v->p, plan->graph));
  tc_json_text("simplified", tc_profile_text(v->p, plan->simplified));
  tc_json_text("fusion", tc_profile_text(v->p, plan->fusion));
  tc_json_text("program", tc_profile_text(v->p, plan->program));
  json_kernels(v);
  const tc_prof_boundary *row = tc_profile_boundaries(v->p, plan);
  tc_json_array("boundaries");
  for (uint32_t i = 0; row && i < plan->n_boundaries; i++) {
    tc_json_object(NULL);
    tc_json_count("from", row[i].from);
    tc_json_count("to", row[i].to);
    tc_json_count("node", row[i].node);
    tc_json_count("bytes", row[i].bytes);
    tc_json_text("reason", tc_profile_text(v->p, row[i].reason));
    tc_json_end();
  }
  tc_json_end();
  tc_json_end();
}

static void json_stack(const view *v) {
  uint32_t n;
  const uint64_t *address = tc_profile_stack(v->p, v->sync.stack, &n);
  tc_json_array("stack");
  for (uint32_t i = 0; address && i < n && i < MOST_FRAMES; i++) {
    char frame[1200];
    tc_stack_frame(v->p, address[i], frame, sizeof frame);
    tc_json_text(NULL, frame);
  }
  tc_json_end();
}

static void json_sync(const view *v) {
  const tc_prof_sync *s = &v->sync;
  double ns[TC_N_PHASES];
  tc_json_object(NULL);
  tc_prof_json_head(v->p, "sync");
  tc_json_count("sequence", s->sequence);
  tc_json_count("thread", s->thread);
  tc_json_count("begin_ns", s->begin_ns);
  tc_json_text("site", tc_profile_text(v->p, s->site));
  tc_json_text("cause", tc_profile_text(v->p, s->cause));
  tc_json_text("region", tc_profile_text(v->p, s->region));
  tc_json_text("tier", tc_profile_text(v->p, s->tier));
  tc_json_text("note_of_device", tc_profile_text(v->p, s->note));
  tc_json_text("miss", miss_of(s));
  tc_json_bool("hit", (s->flags & TC_PROF_HIT) != 0 || s->miss == TC_PROF_MISS_BOUND);
  tc_json_bool("replayed", (s->flags & TC_PROF_REPLAYED) != 0);
  tc_json_bool("interpreted", (s->flags & TC_PROF_INTERPRETED) != 0);
  tc_json_bool("failed", (s->flags & TC_PROF_FAILED) != 0);
  tc_json_bool("wrong", (s->flags & TC_PROF_WRONG) != 0);
  tc_json_count("launches", s->n_launches);
  tc_json_count("compiled", s->n_compiled);
  phases_of(s, ns);
  tc_json_object("ns");
  for (int i = 0; i < TC_N_PHASES; i++) tc_json_number(tc_phase_names[i], ns[i]);
  tc_json_end();
  tc_json_count("planned_bytes", s->planned_bytes);
  tc_json_count("peak_bytes", s->peak_bytes);
  tc_json_count("to_device_bytes", s->to_device_bytes);
  tc_json_count("from_device_bytes", s->from_device_bytes);
  tc_json_count("copied_bytes", s->copied_bytes);
  tc_json_count("cached_bytes", s->cached_bytes);
  json_stack(v);
  if (v->plan) json_plan(v);
  tc_json_end();
}

int tc_command_sync(tc_profile *p, const tc_prof_options *o) {
  char *end;
  unsigned long n = strtoul(o->word[0], &end, 10);
  const tc_point *point = *end || n > UINT32_MAX ? NULL : tc_profile_point(p, (uint32_t)n);
  view v;
  if (!point) {
    fprintf(stderr, "tc-prof: there is no sync %s in %s", o->word[0], p->path);
    if (p->n_points)
      fprintf(stderr, ", whose last is %u", p->point[p->order ? p->order[p->n_points - 1] : p->n_points - 1].sequence);
    fputc('\n', stderr);
    return 1;
  }
  bool ok = open_view(p, point, &v);
  if (!ok)
    fprintf(stderr, "tc-prof: no memory, or %s has changed\n", p->path);
  else if (o->dot && v.plan)
    ok = tc_dot_print(p, v.plan);
  else if (o->json)
    json_sync(&v);
  else
    print_sync(&v);
  close_view(&v);
  return !ok;
}
