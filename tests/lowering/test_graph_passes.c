// Each pass of the graph by text: tests/lowering/graph/PASS.cases holds traces and the graph that
// each is after that pass (lowering/pipeline.c has the order). Every pass has three cases at least,
// and one of them is a graph that it leaves alone.
//   test-lowering-graph_passes             compares; what differs is shown line by line
//   test-lowering-graph_passes --update    writes what the passes make into the files; look at the difference before it is committed
//
// A case, of which lines that begin with # are remarks:
//   case: what it shows
//   target: gpu                 or no such line: a CPU; passes do not ask the device, so none is needed
//   trace ... end               as lazy/text/text.h has it; leaves without data are zeros
//   ---
//   changed                     or unchanged, by the pass
//   %0 = leaf f32[4] leaf 0     the graph after it, as tc_graph_print writes it
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/text/text.h"
#include "lazy/trace/trace.h"
#include "lowering/pipeline.h"
#include "runtime/options.h"
#include "tests/lowering/case_text.h"

#define FOLDER "tests/lowering/graph/"
enum { LEAST_CASES = 3 };

static const tc_target gpu = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 163 << 10, .processors = 108, .mma = true};

// ---- files ----

static char *read_file(const char *path) {
  FILE *in = fopen(path, "r");
  cr_assert(in != NULL, "%s cannot be opened: every pass has cases", path);
  char *text = NULL;
  size_t n = 0;
  if (getdelim(&text, &n, 0, in) < 0) text = calloc(1, 1);
  fclose(in);
  return text;
}

// The line that begins with `word`, from `text` up to `end`; NULL: there is none.
static const char *find_line(const char *text, const char *end, const char *word) {
  for (const char *at = text; at && at < end; at = strchr(at, '\n'), at += at != NULL)
    if (strncmp(at, word, strlen(word)) == 0) return at;
  return NULL;
}

// ---- graphs ----

// The graph of the plan after the passes up to `last`; NULL: after none.
static char *graph_after(const tc_plan *plan, const char *last, bool for_gpu) {
  tc_arena arena = {0};
  tc_graph g;
  char *text = NULL;
  size_t bytes;
  cr_assert_eq(tc_graph_import(&g, plan, &arena), TC_OK, "%s", tc_last_error()->message);
  if (for_gpu) g.target = gpu;
  if (last) cr_assert_eq(tc_graph_run_passes(&g, last), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_graph_verify(&g, last ? last : "import"), TC_OK, "%s", tc_last_error()->message);
  FILE *out = open_memstream(&text, &bytes);
  tc_graph_print(&g, out);
  fclose(out);
  tc_graph_fini(&g);
  tc_arena_fini(&arena);
  return text;
}

// Runs the trace for its plan, which is the thread's latest one then.
static tc_plan *plan_of(tc_text *x, tc_tensor *out) {
  for (uint32_t n = 0; n < x->n; n++)
    if (x->node[n].op == TC_OP_LEAF && !x->node[n].data)
      x->node[n].data =
          tc_arena_alloc(&x->arena, (size_t)tc_dims_count(&x->node[n].dims) * tc_type_bytes(x->node[n].type) + 1);
  cr_assert_eq(tc_text_run(x, out), TC_OK, "%s: %s", x->title, tc_last_error()->message);
  tc_plan *plan = tc_trace_mine->latest[(tc_trace_mine->next_latest - 1) % TC_LATEST_PLANS];
  cr_assert(plan && plan->n_node == x->n, "%s has no plan of its own", x->title);
  return plan;
}

// "changed" or "unchanged", and the graph after the pass.
static char *made_by(const char *pass, const char *before, const char *trace, bool for_gpu) {
  tc_text x;
  char *text = NULL;
  cr_assert_eq(tc_text_read(&x, &trace), TC_OK, "%s", tc_last_error()->message);
  cr_assert_not_null(x.title, "a case has no trace");
  tc_tensor *out = calloc(x.n + 1, sizeof *out);
  const tc_plan *plan = plan_of(&x, out);
  char *was = graph_after(plan, before, for_gpu), *is = graph_after(plan, pass, for_gpu);
  cr_assert(asprintf(&text, "%s\n%s", strcmp(was, is) ? "changed" : "unchanged", is) > 0);
  for (uint32_t n = 0; n < x.n; n++) tc_release(out[n]);
  free(was), free(is), free(out);
  tc_text_fini(&x);
  return text;
}

// ---- a pass ----

typedef struct tally {
  int n, n_unchanged, n_differing;
} tally;

// One case, from `text` to `end`, of which the pass's text goes to `out`.
static void check_case(const char *pass, const char *before, const char *text, const char *end, FILE *out, tally *of) {
  const char *trace = find_line(text, end, "trace "), *rule = find_line(text, end, "---\n"),
             *want_at = rule ? rule + 4 : end;
  cr_assert(trace && rule, "%s: a case has a trace and a line of ---: %.*s", pass, (int)strcspn(text, "\n"), text);
  const char *target = find_line(text, trace, "target: gpu");
  char *want = strndup(want_at, (size_t)(end - want_at)), *got = made_by(pass, before, trace, target != NULL);
  for (size_t n = strlen(want); n > 1 && want[n - 1] == '\n' && want[n - 2] == '\n'; n--) want[n - 1] = 0;
  of->n++, of->n_unchanged += strncmp(got, "unchanged", 9) == 0;
  if (strcmp(want, got) != 0 && ++of->n_differing) {
    fprintf(stderr, "%s%s.cases, %.*s\n", FOLDER, pass, (int)strcspn(text, "\n"), text);
    print_difference(want, got);
  }
  fprintf(out, "%.*s%s%s", (int)(want_at - text), text, got, *end ? "\n" : "");
  free(want), free(got);
}

static void check_pass(const char *pass, const char *before) {
  char path[200], *new_text = NULL;
  size_t bytes;
  tally of = {0};
  snprintf(path, sizeof path, FOLDER "%s.cases", pass);
  char *text = read_file(path), *end = text + strlen(text);
  FILE *out = open_memstream(&new_text, &bytes);
  const char *at = find_line(text, end, "case: ");
  if (at) fprintf(out, "%.*s", (int)(at - text), text);
  for (const char *next; at; at = next) {
    const char *more = strstr(at, "\ncase: ");
    next = more ? more + 1 : NULL;
    check_case(pass, before, at, next ? next : end, out, &of);
  }
  fclose(out);
  bool update = getenv("TC_TEST_UPDATE") != NULL;
  if (update && of.n_differing) write_file(path, new_text);
  cr_expect(update || of.n_differing == 0, "%s: %d of %d cases differ; --update writes them anew", path, of.n_differing,
            of.n);
  cr_expect(of.n >= LEAST_CASES && of.n_unchanged > 0,
            "%s has %d cases, %d of them unchanged: a pass has %d at least, one of them unchanged", path, of.n,
            of.n_unchanged, LEAST_CASES);
  free(text), free(new_text);
}

// Sizes of tiles depend on the instruction set: one that every machine can plan for.
static void start(void) {
  setenv("TC_ISA", "aarch64", 1);
  setenv("TC_COMPILER", "interp", 1);
  tc_options_reload();
}

TestSuite(graph_passes, .init = start);

ParameterizedTestParameters(graph_passes, makes_what_its_cases_say) {
  static size_t which[64];
  size_t n = 0;
  for (; tc_graph_pass_name(n); n++) which[n] = n;
  return cr_make_param_array(size_t, which, n);
}

ParameterizedTest(size_t *which, graph_passes, makes_what_its_cases_say) {
  check_pass(tc_graph_pass_name(*which), *which ? tc_graph_pass_name(*which - 1) : NULL);
}

// ---- what holds between passes ----

static void swap_operand(tc_graph *g) {
  g->node[2].in[1] = g->n;
}
static void narrow_type(tc_graph *g) {
  g->node[2].type = TC_F16;
}
static void change_shape(tc_graph *g) {
  g->node[3].shape = g->node[0].shape;
}
static void close_circle(tc_graph *g) {
  g->node[2].in[0] = 3;
}
static void store_twice(tc_graph *g) {
  g->node[2].out = g->node[3].out;
}
static void lose_output(tc_graph *g) {
  g->node[3].out = TC_LEAF_NONE, g->node[2].out = TC_LEAF_NONE;
}
static void drop_operand(tc_graph *g) {
  g->node[2].n_in = 1;
}
static void schedule_backwards(tc_graph *g) {
  cr_assert_eq(tc_graph_run_passes(g, "schedule"), TC_OK);
  uint32_t first = g->order[0];
  g->order[0] = g->order[g->n_order - 1], g->order[g->n_order - 1] = first;
}

Test(graph_passes, verification_finds_each_fault) {
  static const char trace[] =
      "trace t\n%0 = leaf f32[2,3] tc:cpu live\n%1 = leaf f32[3] tc:cpu live\n%2 = add f32[2,3] tc:cpu in %0 %1\n"
      "%3 = sum f32[2] tc:cpu in %2 attr 2 live asked\nend\n";
  static const struct {
    void (*spoil)(tc_graph *g);
    const char *says;
  } faults[] = {
      {swap_operand, "an operand is no node"},
      {narrow_type, "the type does not follow"},
      {change_shape, "the shape does not follow"},
      {close_circle, "in a circle"},
      {store_twice, "is stored twice"},
      {lose_output, "nothing stores output 0"},
      {drop_operand, "operands are not as many as"},
      {schedule_backwards, "comes before its operand"},
  };
  tc_text x;
  tc_tensor out[4];
  const char *at = trace;
  cr_assert_eq(tc_text_read(&x, &at), TC_OK);
  const tc_plan *plan = plan_of(&x, out);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    tc_arena arena = {0};
    tc_graph g;
    cr_assert_eq(tc_graph_import(&g, plan, &arena), TC_OK);
    cr_expect_eq(tc_graph_verify(&g, "import"), TC_OK);
    faults[i].spoil(&g);
    cr_expect_eq(tc_graph_verify(&g, "a fault"), TC_ERR_STATE, "%s is not found", faults[i].says);
    cr_expect(strstr(tc_last_error()->message, faults[i].says), "%s: %s", faults[i].says, tc_last_error()->message);
    tc_graph_fini(&g);
    tc_arena_fini(&arena);
  }
  for (uint32_t n = 0; n < x.n; n++) tc_release(out[n]);
  tc_text_fini(&x);
}

Test(graph_passes, every_file_of_cases_has_its_pass) {
  glob_t found;
  cr_assert_eq(glob(FOLDER "*.cases", 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; i++) {
    bool known = false;
    char *name = basename(found.gl_pathv[i]);
    for (size_t k = 0; tc_graph_pass_name(k); k++)
      known |= strncmp(name, tc_graph_pass_name(k), strcspn(name, ".")) == 0;
    cr_expect(known, "no pass is called as %s", found.gl_pathv[i]);
  }
  globfree(&found);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--update") != 0) continue;
    setenv("TC_TEST_UPDATE", "1", 1);
    memmove(argv + i, argv + i + 1, (size_t)(argc-- - i) * sizeof *argv);
    break;
  }
  struct criterion_test_set *tests = criterion_initialize();
  int failed = criterion_handle_args(argc, argv, true) ? !criterion_run_all_tests(tests) : 0;
  criterion_finalize(tests);
  return failed;
}
