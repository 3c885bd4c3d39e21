// tc-prof compile: what it took to make each kernel, by stage.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/prof/prof.h"

enum { USUAL_ROWS = 20 };

typedef struct stages {
  double emit, optimize, generate, load, all, waited;
} stages;

static double whole_of(const tc_prof_compile *c) {
  return (double)c->emit_ns + (double)c->optimize_ns + (double)c->generate_ns + (double)c->load_ns;
}

static int by_time(const void *a, const void *b) {
  const tc_prof_compile *x = a, *y = b;
  double of_x = whole_of(x), of_y = whole_of(y);
  if (of_x != of_y) return of_x < of_y ? 1 : -1;
  return x->begin_ns != y->begin_ns ? (x->begin_ns > y->begin_ns ? 1 : -1) : memcmp(x, y, sizeof *x);
}

static tc_prof_compile *sort(const tc_profile *p) {
  tc_prof_compile *out = malloc((p->n_compiles + 1) * sizeof *out);
  for (size_t i = 0; out && i < p->n_compiles; i++) out[i] = tc_profile_compile(p, i);
  if (out) qsort(out, p->n_compiles, sizeof *out, by_time);
  return out;
}

static stages sum_stages(const tc_prof_compile *compile, size_t n) {
  stages s = {0};
  for (size_t i = 0; i < n; i++) {
    const tc_prof_compile *c = &compile[i];
    s.emit += (double)c->emit_ns;
    s.optimize += (double)c->optimize_ns;
    s.generate += (double)c->generate_ns;
    s.load += (double)c->load_ns;
    s.all += whole_of(c);
    if (c->sequence) s.waited += whole_of(c);
  }
  return s;
}

static void print_compiles(tc_profile *p, const tc_prof_compile *c, const tc_prof_options *o) {
  stages s = sum_stages(c, p->n_compiles);
  size_t made = p->n_compiles;
  while (made && whole_of(&c[made - 1]) <= 0) made--;
  size_t rows = tc_prof_rows(o, USUAL_ROWS, o->all ? p->n_compiles : made);
  char line[300];
  double lower = 0;
  for (size_t i = 0; i < p->n_points; i++) lower += (double)p->point[i].ns[TC_PHASE_LOWER];
  tc_prof_print_head(p);
  snprintf(
      line, sizeof line,
      "%zu kernels were asked for, and made in %s: %s emit, %s generate, %s load. Syncs waited for %s of it; graphs were lowered in %s.",
      p->n_compiles, tc_show_ns(s.all), tc_show_share(s.emit, s.all), tc_show_share(s.optimize + s.generate, s.all),
      tc_show_share(s.load, s.all), tc_show_share(s.waited, s.all), tc_show_ns(lower));
  tc_show_words(0, line);
  if (rows) printf("\n%8s%8s%9s%8s %-8s%5s kernel\n", "all", "emit", "generate", "load", "from", "sync");
  for (size_t i = 0; i < rows; i++) {
    char sync[16] = "-";
    if (c[i].sequence) snprintf(sync, sizeof sync, "%u", c[i].sequence);
    printf("%8s%8s%9s%8s %-8s%5s %s\n", tc_show_ns(whole_of(&c[i])), tc_show_ns((double)c[i].emit_ns),
           tc_show_ns((double)c[i].optimize_ns + (double)c[i].generate_ns), tc_show_ns((double)c[i].load_ns),
           tc_show_begin(tc_profile_text(p, c[i].tier), 8), sync,
           tc_show_begin(tc_profile_text(p, c[i].name), tc_terminal_get()->columns - 49));
  }
  if (rows < made) printf("%zu more: --all\n", made - rows);
  if (made < p->n_compiles && !o->all)
    printf("%zu took no time, since they were in memory: --all\n", p->n_compiles - made);
}

static void json_compiles(tc_profile *p, const tc_prof_compile *c) {
  stages s = sum_stages(c, p->n_compiles);
  tc_json_object(NULL);
  tc_prof_json_head(p, "compile");
  tc_json_object("ns");
  tc_json_number("emit", s.emit);
  tc_json_number("optimize", s.optimize);
  tc_json_number("generate", s.generate);
  tc_json_number("load", s.load);
  tc_json_number("waited", s.waited);
  tc_json_end();
  tc_json_array("kernels");
  for (size_t i = 0; i < p->n_compiles; i++) {
    tc_json_object(NULL);
    tc_json_text("name", tc_profile_text(p, c[i].name));
    tc_json_text("tier", tc_profile_text(p, c[i].tier));
    tc_json_count("thread", c[i].thread);
    tc_json_count("sync", c[i].sequence);
    tc_json_count("begin_ns", c[i].begin_ns);
    tc_json_count("emit_ns", c[i].emit_ns);
    tc_json_count("optimize_ns", c[i].optimize_ns);
    tc_json_count("generate_ns", c[i].generate_ns);
    tc_json_count("load_ns", c[i].load_ns);
    tc_json_count("code_bytes", c[i].code_bytes);
    tc_json_end();
  }
  tc_json_end();
  tc_json_end();
}

int tc_command_compile(tc_profile *p, const tc_prof_options *o) {
  tc_prof_compile *c = sort(p);
  if (!c) return fprintf(stderr, "tc-prof: no memory\n"), 1;
  if (o->json)
    json_compiles(p, c);
  else
    print_compiles(p, c, o);
  free(c);
  return 0;
}
