// Names what breaks a trace. See bisect.h.
#include "tools/minify/bisect.h"

#include <stdlib.h>
#include <string.h>

#include "lowering/pipeline.h"
#include "tools/minify/reference.h"

// ---- passes ----

typedef struct stage {
  const tc_judge *j;
  const tc_text *x;
  const char *last;  // the last pass; NULL: imported alone
  FILE *text;  // the graph's, in a file that parent and child share
} stage;

static void fail(tc_outcome *o, tc_failure failure, tc_status st) {
  o->failure = failure, o->status = st;
  snprintf(o->text, sizeof o->text, "%s", tc_last_error()->message);
}

// The arguments of a run, in the plan's order.
static uint64_t *take_arguments(const tc_text *x, const tc_plan *p, tc_arena *arena) {
  uint64_t *arg = tc_arena_alloc(arena, (p->n_arg + 1) * sizeof *arg);
  for (uint32_t n = 0; n < x->n && arg; n++)
    if (x->node[n].n_arg) memcpy(arg + p->arg_at[n], x->node[n].arg, (size_t)x->node[n].n_arg * sizeof *arg);
  return arg;
}

// Compares the graph's outputs with the trace's values, both by reference kernels.
static tc_status compare_graph(const stage *s, const tc_plan *p, const tc_graph *g, tc_arena *arena, tc_outcome *o) {
  void **want = tc_arena_alloc(arena, (s->x->n + 1) * sizeof *want), **got = NULL,
       **leaf = tc_arena_alloc(arena, (p->n_leaf + 1) * sizeof *leaf);
  uint64_t *arg = take_arguments(s->x, p, arena);
  tc_allowance allow;
  if (!want || !leaf || !arg) return TC_FAIL(TC_ERR_MEMORY, "no room for a graph's values");
  TC_TRY(tc_reference_trace(s->x, arena, want));
  TC_TRY(tc_reference_allow(s->x, want, s->j->tolerance, arena, &allow));
  for (uint32_t n = 0; n < s->x->n; n++)
    if (p->leaf_of[n] != TC_LEAF_NONE) leaf[p->leaf_of[n]] = want[n];
  TC_TRY(tc_reference_graph(g, arg, leaf, arena, &got));
  for (uint32_t n = 0; n < g->n; n++) {
    const tc_gnode *x = &g->node[n];
    if (x->out == TC_LEAF_NONE) continue;
    uint32_t of = p->out[x->out].node;
    tc_difference d = tc_reference_compare(x->type, x->shape->count, got[n], want[of], allow.of[of]);
    if (d.at < 0) continue;
    o->failure = TC_FAILS_WRONG, o->node = of, o->element = d.at, o->got = d.got, o->want = d.want;
    o->allowed = d.allowed;
    return TC_OK;
  }
  o->failure = TC_FAILS_NOT;
  return TC_OK;
}

static void judge_stage(void *arg, tc_outcome *o) {
  const stage *s = arg;
  tc_arena arena = {0};
  tc_plan *plan = NULL;
  tc_graph g;
  tc_status st = tc_text_plan(s->x, &plan);
  if (st != TC_OK) return fail(o, TC_FAILS_UNFIT, st);
  st = tc_graph_import(&g, plan, &arena);
  if (st == TC_OK && s->last) st = tc_graph_run_passes(&g, s->last);
  if (st == TC_OK) st = tc_graph_verify(&g, s->last ? s->last : "import");
  if (st != TC_OK) return fail(o, TC_FAILS_ERROR, st);
  if (s->text) tc_graph_print(&g, s->text), fflush(s->text);
  st = compare_graph(s, plan, &g, &arena, o);
  if (st != TC_OK) fail(o, TC_FAILS_UNKNOWN, st);
}

static char *text_of(FILE *f) {
  long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
  char *text = calloc((size_t)n + 1, 1);
  if (text && n) rewind(f), text[fread(text, 1, (size_t)n, f)] = 0;
  return text;
}

// The lines of a graph; of a long one those that the other graph lacks.
static void print_graph(FILE *out, const char *when, const char *pass, const char *text, const char *other) {
  int n_lines = 0;
  for (const char *c = text; *c; c++) n_lines += *c == '\n';
  fprintf(out, "%s %s%s\n", when, pass, n_lines > 40 ? ", where they differ" : "");
  for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
    size_t n = (size_t)(end - line) + 1;
    bool there = false;
    for (const char *at = other; n_lines > 40 && at && *at && !there; at = strchr(at, '\n'), at += at != NULL)
      there = strncmp(at, line, n) == 0;
    if (!there) fprintf(out, "  %.*s", (int)n, line);
  }
}

// How the passes end: a name, and NULL where the graph is right after all of them.
typedef struct verdict {
  const char *pass;
  char unknown[480];  // why the graph could not be judged from some pass on; "": it could
  tc_outcome how;
} verdict;

static void find_pass(const tc_judge *j, const tc_text *x, FILE *out, verdict *v) {
  char *before = NULL, *after = NULL;
  const char *name = "import";
  for (size_t i = 0; name && !v->pass; i++) {
    stage s = {j, x, i ? name : NULL, tmpfile()};
    tc_outcome o = tc_in_child(j, judge_stage, &s);
    free(before), before = after, after = text_of(s.text);
    if (s.text) fclose(s.text);
    if (o.failure == TC_FAILS_UNKNOWN) {
      snprintf(v->unknown, sizeof v->unknown, "after %.60s: %s", name, o.text);
      break;
    }
    if (o.failure != TC_FAILS_NOT) v->pass = name, v->how = o;
    if (!v->pass) name = tc_graph_pass_name(i);
  }
  if (v->pass) {
    fprintf(out, "pass %s: ", v->pass);
    tc_outcome_print(out, x, &v->how);
    fputc('\n', out);
    if (before) print_graph(out, "before", v->pass, before, after);
    if (after && *after) print_graph(out, "after", v->pass, after, before);
  }
  free(before), free(after);
}

// ---- behind the passes ----

enum { INTERPRETED, COMPILED, OF_ONE_SIZE, NOTHING_KEPT, ONE_THREAD, NO_WINOGRAD, NO_WIDE, N_WAYS };
static const tc_way ways[N_WAYS] = {
    [INTERPRETED] = {"interpreted", {"TC_COMPILER", "interp"}},
    [COMPILED] = {"compiled before the first run", {"TC_COMPILER", "llvm", "TC_INTERPRET_FIRST", "0"}},
    [OF_ONE_SIZE] = {"no shape-generic kernels", {"TC_GENERIC_KERNELS", "0"}},
    [NOTHING_KEPT] = {"no constant cache", {"TC_PREPARE", "0"}},
    [ONE_THREAD] = {"one thread", {"TC_NUM_THREADS", "1"}},
    [NO_WINOGRAD] = {"no Winograd", {"TC_WINOGRAD", "0"}},
    [NO_WIDE] = {"no wide vectors", {"TC_ISA", "baseline"}},
};

// The judge with what another way sets, too.
static tc_judge add_way(const tc_judge *j, const tc_way *more, tc_way *room) {
  tc_judge now = *j;
  size_t n = 0, k = 0;
  *room = *j->way;
  while (room->set[n]) n++;
  for (; more->set[k] && n + k < sizeof room->set / sizeof *room->set - 1; k++) room->set[n + k] = more->set[k];
  now.way = room;
  return now;
}

static void say_way(FILE *out, const tc_text *x, const char *text, const tc_outcome *o) {
  fprintf(out, "  %-30s ", text);
  if (o->failure == TC_FAILS_NOT)
    fputs("right", out);
  else
    tc_outcome_print(out, x, o);
  fputc('\n', out);
}

// The part that the ways leave, in a sentence.
static const char *blame(const tc_outcome *alone, const bool *right) {
  if (right[INTERPRETED] && !right[COMPILED]) return "the code generator (lowering/codegen): interpreted it is right";
  if (right[COMPILED] && !right[INTERPRETED]) return "the interpreter (lowering/codegen/interp): compiled it is right";
  if (right[OF_ONE_SIZE]) return "shape-generic kernels (lowering/jit/shape_generic.c)";
  if (right[NOTHING_KEPT]) return "the constant cache (lowering/program/constant_cache.c)";
  if (right[NO_WINOGRAD]) return "Winograd's algorithm (lowering/emit/conv)";
  if (alone->failure == TC_FAILS_NOT)
    return right[ONE_THREAD] ? "the run of stages by several threads (lowering/program)"
                             : "fusion, emitters of fused kernels, or memory (lowering/fusion, emit, program): "
                               "alone each record is right";
  if (right[NO_WIDE]) return "the emitters of wide vectors (lowering/emit), or their code";
  return "the emitter of that record (lowering/emit): it is wrong alone, too";
}

// Where a node without reference kernel hides the pass: without the algorithms that make such
// nodes, and of the record that fails alone.
static void find_hidden_pass(const tc_judge *j, const tc_text *x, const tc_outcome *alone, FILE *out, verdict *v) {
  tc_way room;
  tc_judge now = add_way(j, &ways[NO_WINOGRAD], &room);
  tc_arena arena = {0};
  tc_text one = {.n = 0};
  if (tc_attempt(&now, x).failure != TC_FAILS_NOT) v->unknown[0] = 0, find_pass(&now, x, out, v);
  if (v->pass || !*v->unknown || alone->failure == TC_FAILS_NOT || alone->failure == TC_FAILS_UNKNOWN) return;
  void **value = tc_arena_alloc(&arena, (x->n + 1) * sizeof *value);
  if (value && tc_reference_trace(x, &arena, value) == TC_OK && tc_attempt_cut(x, alone->node, value, &one)) {
    fprintf(out, "of %%%u alone:\n", alone->node);
    v->unknown[0] = 0;
    find_pass(j, &one, out, v);
  }
  tc_text_fini(&one);
  tc_arena_fini(&arena);
}

void tc_bisect(tc_judge *j, const tc_text *x, const tc_outcome *whole, FILE *out) {
  verdict v = {.pass = NULL};
  bool right[N_WAYS];
  find_pass(j, x, out, &v);
  if (v.pass) return;
  tc_outcome alone = tc_attempt_each(j, x);
  if (*v.unknown) {
    fprintf(out, "passes are right as far as reference kernels tell; %s\n", v.unknown);
    find_hidden_pass(j, x, &alone, out, &v);
    if (v.pass) return;
  }
  if (!*v.unknown) fprintf(out, "the graph is right after every pass\n");
  say_way(out, x, "as it is", whole);
  say_way(out, x, "each record alone", &alone);
  for (int i = 0; i < N_WAYS; i++) {
    tc_way room;
    tc_judge now = add_way(j, &ways[i], &room);
    tc_outcome o = tc_attempt(&now, x);
    right[i] = o.failure == TC_FAILS_NOT;
    say_way(out, x, ways[i].text, &o);
  }
  fprintf(out, "so it is in %s%s\n", *v.unknown ? "a pass that could not be judged, or in " : "", blame(&alone, right));
}
