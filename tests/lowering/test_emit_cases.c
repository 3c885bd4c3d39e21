// Each emitter by text: tests/lowering/emit/EMITTER.cases holds traces and the kernel IR that their
// fusions become. Every emitter has three cases at least, and one file or another shows each way
// out of what an emitter refuses: a node that is stored first, or another emitter.
//   test-lowering-emit_cases             compares; what differs is shown line by line
//   test-lowering-emit_cases --update    writes what the emitters make into the files; look at the difference before it is committed
//
// A case, of which lines that begin with # are remarks:
//   case: what it shows
//   target: gpu, gpu-plain      or no such line: a CPU; gpu-plain has no matrix instructions. Emitters do not ask the device, so none is needed
//   lines: 40                   of each kernel that are shown (60); what is left out is told by its hash
//   trace ... end               as lazy/text/text.h has it; leaves without data are zeros
//   ---
//   refused: %7 exp is stored first         by an emitter, after which the graph is fused anew
//   row reduction of max, sub: 6 units      a fusion: its kind and members, and of how many units its kernel is
//   b0: f32 ...                             the kernel IR, as tc_kir_print writes it
// The cases of tmm.cases are for an x86-64 with tile registers, others for an AArch64.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/text/text.h"
#include "lazy/trace/trace.h"
#include "lowering/fusion/build.h"
#include "lowering/kir/print.h"
#include "lowering/emit/emitter.h"
#include "lowering/pipeline.h"
#include "runtime/hash.h"
#include "runtime/options.h"
#include "tests/lowering/case_text.h"

#define FOLDER "tests/lowering/emit/"
enum { LEAST_CASES = 3, LINES = 60, MOST_FILES = 32 };

static const tc_target gpu = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 163 << 10, .processors = 108, .mma = true};
static const tc_target gpu_plain = {.threads_most = 1024, .warp = 32, .shared_bytes = 48 << 10, .processors = 4};

static const char *const kind_names[] = {[TC_FUSION_ELEMENTWISE] = "elementwise", [TC_FUSION_ROW] = "row reduction",
                                         [TC_FUSION_COLUMN] = "column reduction", [TC_FUSION_MATMUL] = "matmul",
                                         [TC_FUSION_ATTENTION] = "attention",     [TC_FUSION_EXTERN] = "no kernel"};

// ---- files ----

static char *read_file(const char *path) {
  FILE *in = fopen(path, "r");
  cr_assert(in != NULL, "%s cannot be opened", path);
  char *text = NULL;
  size_t n = 0;
  if (getdelim(&text, &n, 0, in) < 0) text = calloc(1, 1);
  fclose(in);
  return text;
}

// What stands behind `word` where a line begins with it, from `text` up to `end`; NULL: none does.
static const char *find_line(const char *text, const char *end, const char *word) {
  for (const char *at = text; at && at < end; at = strchr(at, '\n'), at += at != NULL)
    if (strncmp(at, word, strlen(word)) == 0) return at + strlen(word);
  return NULL;
}

// ---- kernels ----

// The kernel IR, of which so many lines are shown.
static void print_kernel(const tc_kir *kir, int lines, FILE *out) {
  char *text = NULL;
  size_t bytes;
  FILE *to = open_memstream(&text, &bytes);
  tc_kir_print(kir, to);
  fclose(to);
  const char *rest = text;
  for (int i = 0; i < lines && *rest; i++) rest = strchr(rest, '\n') + 1;
  fprintf(out, "%.*s", (int)(rest - text), text);
  if (*rest)
    fprintf(out, "... of %u instructions, %016llx\n", kir->n_inst,
            (unsigned long long)tc_hash_bytes(rest, strlen(rest)).lo);
  free(text);
}

// One fusion's kernel; false: a node is to be stored first, and is in `must_materialize` now.
static bool print_fusion(const tc_fusion_plan *gr, const tc_fusion *fusion, tc_arena *arena, uint8_t *must_materialize,
                         int lines, FILE *out, FILE *refused) {
  tc_emit_result e;
  fprintf(out, "%s of ", kind_names[fusion->kind]);
  for (uint32_t i = 0; i < fusion->n_member; i++)
    fprintf(out, "%s%s", i ? ", " : "", tc_op_names[gr->graph->node[fusion->member[i]].op]);
  if (fusion->kind == TC_FUSION_EXTERN) return fprintf(out, "\n"), true;
  tc_status st = tc_emit_fusion(&e, gr, fusion, NULL, arena);
  if (st != TC_OK) {
    cr_assert(e.not_affine != TC_NONE && must_materialize[e.not_affine] == 0, "an emitter fails: %s",
              tc_last_error() ? tc_last_error()->message : "");
    fprintf(refused, "refused: %%%u %s is stored first\n", e.not_affine, tc_op_names[gr->graph->node[e.not_affine].op]);
    return must_materialize[e.not_affine] = 1, false;
  }
  fprintf(out, ": %lld units\n", (long long)e.extent);
  print_kernel(&e.kir, lines, out);
  tc_kir_destroy(&e.kir);
  return true;
}

// The kernels of the plan's graph, as the pipeline comes to them.
static char *kernels_of(const tc_plan *plan, const tc_target *target, int lines) {
  tc_arena arena = {0};
  tc_graph g;
  tc_fusion_plan gr;
  char *text = NULL, *refusals = NULL, *all = NULL;
  size_t bytes, refusal_bytes;
  cr_assert_eq(tc_graph_build(&g, plan, &arena), TC_OK, "%s", tc_last_error()->message);
  if (target) g.target = *target;
  uint8_t *must_materialize = calloc(g.n + 1, 1);
  FILE *refused = open_memstream(&refusals, &refusal_bytes);
  for (bool done = false; !done;) {
    free(text);
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(tc_fusion_build(&gr, &g, &arena, must_materialize, TC_FUSE_ANY), TC_OK, "%s",
                 tc_last_error()->message);
    done = true;
    for (uint32_t i = 0; done && i < gr.n_fusion; i++)
      if (gr.fusion[i].merged == TC_FUSION_NONE && gr.fusion[i].n_member)
        done = print_fusion(&gr, &gr.fusion[i], &arena, must_materialize, lines, out, refused);
    fclose(out);
  }
  fclose(refused);
  cr_assert(asprintf(&all, "%s%s", refusals, text) >= 0);
  free(text), free(refusals), free(must_materialize);
  tc_graph_fini(&g);
  tc_arena_fini(&arena);
  return all;
}

// Runs the trace for its plan, which is the thread's latest one then.
static tc_plan *plan_of(tc_text *x, tc_tensor *out) {
  for (uint32_t n = 0; n < x->n; n++)
    if (x->node[n].op == TC_OP_LEAF && !x->node[n].data)
      x->node[n].data =
          tc_arena_alloc(&x->arena, (size_t)tc_dims_count(&x->node[n].dims) * tc_type_bytes(x->node[n].type) + 1);
  cr_assert_eq(tc_text_run(x, out), TC_OK, "%s: %s", x->title, tc_last_error()->message);
  return tc_trace_mine->latest[(tc_trace_mine->next_latest - 1) % TC_LATEST_PLANS];
}

static char *made_of(const char *trace, const tc_target *target, int lines) {
  tc_text x;
  cr_assert_eq(tc_text_read(&x, &trace), TC_OK, "%s", tc_last_error()->message);
  cr_assert_not_null(x.title, "a case has no trace");
  tc_tensor *out = calloc(x.n + 1, sizeof *out);
  char *text = kernels_of(plan_of(&x, out), target, lines);
  for (uint32_t n = 0; n < x.n; n++) tc_release(out[n]);
  free(out);
  tc_text_fini(&x);
  return text;
}

// ---- cases ----

typedef struct tally {
  int n, n_differing;
} tally;

// One case, from `text` to `end`, whose new text goes to `out`.
static void check_case(const char *path, const char *text, const char *end, FILE *out, tally *of) {
  const char *trace = find_line(text, end, "trace "), *rule = find_line(text, end, "---\n");
  cr_assert(trace && rule, "%s: a case has a trace and a line of ---: %.*s", path, (int)strcspn(text, "\n"), text);
  trace -= strlen("trace ");
  const char *name = find_line(text, trace, "target: "), *lines = find_line(text, trace, "lines: ");
  const tc_target *target = !name ? NULL : strncmp(name, "gpu-plain\n", 10) == 0 ? &gpu_plain : &gpu;
  char *want = strndup(rule, (size_t)(end - rule)), *got = made_of(trace, target, lines ? atoi(lines) : LINES);
  for (size_t n = strlen(want); n > 1 && want[n - 1] == '\n' && want[n - 2] == '\n'; n--) want[n - 1] = 0;
  of->n++;
  if (strcmp(want, got) != 0 && ++of->n_differing) {
    fprintf(stderr, "%s, %.*s\n", path, (int)strcspn(text, "\n"), text);
    print_difference(want, got);
  }
  fprintf(out, "%.*s%s%s", (int)(rule - text), text, got, *end ? "\n" : "");
  free(want), free(got);
}

static void check_file(const char *path) {
  if (strstr(path, "tmm.cases")) setenv("TC_ISA", "amx", 1), setenv("TC_COMPILER", "interp", 1), tc_options_reload();
  char *new_text = NULL, *text = read_file(path), *end = text + strlen(text);
  size_t bytes;
  tally of = {0};
  FILE *out = open_memstream(&new_text, &bytes);
  const char *at = find_line(text, end, "case: ");
  cr_assert(at, "%s has no case", path);
  at -= strlen("case: ");
  fprintf(out, "%.*s", (int)(at - text), text);
  for (const char *next; at; at = next) {
    const char *more = strstr(at, "\ncase: ");
    next = more ? more + 1 : NULL;
    check_case(path, at, next ? next : end, out, &of);
  }
  fclose(out);
  bool update = getenv("TC_TEST_UPDATE") != NULL;
  if (update && of.n_differing) write_file(path, new_text);
  cr_expect(update || of.n_differing == 0, "%s: %d of %d cases differ; --update writes them anew", path, of.n_differing,
            of.n);
  cr_expect(of.n >= LEAST_CASES, "%s has %d cases: an emitter has %d at least", path, of.n, LEAST_CASES);
  free(text), free(new_text);
}

// Kernels depend on the instruction set: one that every machine can plan for. Without a compiler
// for its own, a machine would plan for the interpreter.
static void start(void) {
  setenv("TC_ISA", "aarch64", 1);
#ifndef __aarch64__
  setenv("TC_COMPILER", "interp", 1);
#endif
  setenv("TC_NUM_THREADS", "2", 1);
  tc_options_reload();
}

TestSuite(emit_cases, .init = start);

ParameterizedTestParameters(emit_cases, fusions_become_what_their_cases_say) {
  static size_t which[MOST_FILES];
  glob_t found;
  size_t n = glob(FOLDER "*.cases", 0, NULL, &found) == 0 ? TC_MIN(found.gl_pathc, MOST_FILES) : 0;
  for (size_t i = 0; i < n; i++) which[i] = i;
  globfree(&found);
  return cr_make_param_array(size_t, which, n);
}

ParameterizedTest(size_t *which, emit_cases, fusions_become_what_their_cases_say) {
  glob_t found;
  cr_assert_eq(glob(FOLDER "*.cases", 0, NULL, &found), 0);
  check_file(found.gl_pathv[*which]);
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
