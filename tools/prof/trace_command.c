// tc-prof trace: the profile as a trace of events in JSON, for Perfetto and chrome://tracing.
// In: a profile. Out: per thread a track with recording, syncs and their phases, a track of
// compiles, a track of kernels where their times are known, memory as a counter, and an arrow from
// recording to running. Invariants: slices of one track nest. Threads: one.
// Source: the Trace Event Format, X, M, C, s and f events.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/groups.h"
#include "tools/prof/prof.h"

// Beside the threads, whose numbers are the system's and below these. Compiles: a track a thread.
enum { KERNEL_TRACK = 1 << 28, COMPILE_TRACK = 1 << 29 };

typedef struct tracer {
  tc_profile *p;
  double zero_ns;
} tracer;

static void begin_event(const tracer *t, const char *name, const char *type, uint32_t track, double begin_ns) {
  tc_json_object(NULL);
  tc_json_text("name", name);
  tc_json_text("ph", type);
  tc_json_count("pid", t->p->process.pid);
  tc_json_count("tid", track);
  if (*type != 'M') tc_json_us("ts", begin_ns - t->zero_ns);
}

static void write_slice(const tracer *t, const char *name, uint32_t track, double begin_ns, double ns) {
  begin_event(t, name, "X", track, begin_ns);
  tc_json_us("dur", ns);
  tc_json_end();
}

static void name_track(const tracer *t, uint32_t track, const char *name) {
  begin_event(t, "thread_name", "M", track, 0);
  tc_json_object("args");
  tc_json_text("name", name);
  tc_json_end();
  tc_json_end();
}

static void write_flow(const tracer *t, const tc_point *x, const char *type, double at_ns) {
  begin_event(t, "recorded to run", type, t->p->thread[x->thread], at_ns);
  tc_json_text("cat", "flow");
  tc_json_count("id", x->sequence);
  if (*type == 'f') tc_json_text("bp", "e");
  tc_json_end();
}

// The phases one behind the other: the file has their lengths alone, and they run in this order.
static void write_sync(const tracer *t, const tc_point *x) {
  char name[300];
  double phase[TC_N_PHASES], part[TC_N_PARTS], at = (double)x->begin_ns;
  uint32_t track = t->p->thread[x->thread];
  const tc_plan *plan = tc_profile_plan(t->p, x->plan);
  for (int i = 0; i < TC_N_PHASES; i++) phase[i] = (double)x->ns[i];
  phase[TC_PHASE_AWAITED] = 0;  // before the sync, and it is not known when
  tc_parts_of(phase, part);
  if (part[TC_PART_RECORD] > 0) {
    write_slice(t, "record", track, at - part[TC_PART_RECORD], part[TC_PART_RECORD]);
    write_flow(t, x, "s", at - part[TC_PART_RECORD] / 2);
  }
  snprintf(name, sizeof name, "%s at %s", tc_profile_text(t->p, x->cause), tc_profile_text(t->p, x->site));
  begin_event(t, name, "X", track, at);
  tc_json_us("dur", phase[TC_PHASE_TOTAL]);
  tc_json_object("args");
  tc_json_count("sync", x->sequence);
  tc_json_count("plan", x->plan);
  tc_json_count("nodes", plan ? plan->n_nodes : 0);
  tc_json_count("kernels", plan ? plan->n_kernels : 0);
  tc_json_bool("hit", x->flags & TC_PROF_HIT);
  tc_json_text("region", tc_profile_text(t->p, x->region));
  tc_json_end();
  tc_json_end();
  for (int i = TC_PART_LOOKUP; i < TC_PART_UNACCOUNTED; i++) {
    if (part[i] <= 0) continue;
    write_slice(t, tc_part_names[i], track, at, part[i]);
    if (i == TC_PART_RUN && part[TC_PART_RECORD] > 0) write_flow(t, x, "f", at + part[i] / 2);
    at += part[i];
  }
  begin_event(t, "memory", "C", track, (double)x->begin_ns);
  tc_json_object("args");
  tc_json_number("bytes", (double)x->peak_bytes);
  tc_json_end();
  tc_json_end();
}

static void write_compiles(const tracer *t) {
  for (size_t i = 0; i < t->p->n_compiles; i++) {
    const tc_prof_compile record = tc_profile_compile(t->p, i), *c = &record;
    const struct {
      const char *name;
      uint64_t ns;
    } stage[] = {
        {"emit", c->emit_ns}, {"optimize", c->optimize_ns}, {"generate", c->generate_ns}, {"load", c->load_ns}};
    double at = (double)c->begin_ns, all = 0;
    for (size_t k = 0; k < sizeof stage / sizeof *stage; k++) all += (double)stage[k].ns;
    uint32_t track = COMPILE_TRACK + (c->thread & (COMPILE_TRACK - 1));
    write_slice(t, tc_profile_text(t->p, c->name), track, at, all);
    for (size_t k = 0; k < sizeof stage / sizeof *stage; at += (double)stage[k++].ns)
      if (stage[k].ns) write_slice(t, stage[k].name, track, at, (double)stage[k].ns);
  }
}

static void write_kernels(const tracer *t) {
  for (size_t i = 0; i < t->p->n_times; i++) {
    const tc_record_at *at = &t->p->times[i];
    const tc_point *x = tc_profile_point(t->p, at->sequence);
    const tc_prof_plan *plan = x ? tc_profile_plan_record(t->p, x->plan) : NULL;
    const tc_prof_kernel_time *time = tc_profile_times(t->p, at);
    if (!plan || !time || at->n == 0) continue;
    tc_prof_kernel_time *mine = malloc(at->n * sizeof *mine);  // rows last until the next are asked for
    if (!mine) return;
    memcpy(mine, time, at->n * sizeof *mine);
    const tc_prof_kernel *kernel = tc_profile_kernels(t->p, plan);
    for (uint32_t k = 0; kernel && k < at->n; k++)
      if (mine[k].kernel < plan->n_kernels)
        write_slice(t, tc_profile_text(t->p, kernel[mine[k].kernel].name), KERNEL_TRACK, (double)mine[k].begin_ns,
                    (double)mine[k].ns);
    free(mine);
  }
}

int tc_command_trace(tc_profile *p, const tc_prof_options *o) {
  (void)o;
  tracer t = {p, (double)p->process.start_ns};
  char name[60];
  tc_json_object(NULL);
  tc_json_text("displayTimeUnit", "ns");
  tc_json_array("traceEvents");
  for (size_t i = 0; i < p->n_threads; i++) {
    snprintf(name, sizeof name, "thread %u", p->thread[i]);
    name_track(&t, p->thread[i], name);
  }
  for (size_t i = 0; i < p->n_compiles; i++) {
    uint32_t thread = tc_profile_compile(p, i).thread;
    snprintf(name, sizeof name, "compiles of thread %u", thread);
    name_track(&t, COMPILE_TRACK + (thread & (COMPILE_TRACK - 1)), name);
  }
  if (p->n_times) name_track(&t, KERNEL_TRACK, "kernels");
  for (size_t i = 0; i < p->n_points; i++) write_sync(&t, &p->point[i]);
  write_compiles(&t);
  write_kernels(&t);
  tc_json_end();
  tc_json_end();
  return 0;
}
