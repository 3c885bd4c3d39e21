// Part a: the example programs as they are, linked into this one, on the device and on tc:cpu, each
// time in a process of its own that begins in main: what they print and write agrees within
// examples.def's tolerances, and their sync points are as many, at the same places, of graphs of
// the same sizes. `gpu-check --example NAME WORDS..` is such a process.
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tc/io.h>
#include <unistd.h>

#include "tools/gpu_check/check.h"

typedef struct example {
  const char *name, *words, *from, *to;
  double tolerance;
  bool model;
  int (*run)(int argc, char **argv);
} example;

// Their mains, renamed by meson.build.
#define TC_EXAMPLE(name, words, from, to, tolerance) int example_##name(int argc, char **argv);
#define TC_MODEL_EXAMPLE(name, words, tolerance) TC_EXAMPLE(name, , , , )
#include "tools/gpu_check/examples.def"
#undef TC_EXAMPLE
#undef TC_MODEL_EXAMPLE

static const example examples[] = {
#define TC_EXAMPLE(name, words, from, to, tolerance) {#name, words, from, to, tolerance, false, example_##name},
#define TC_MODEL_EXAMPLE(name, words, tolerance) {#name, words, "", "", tolerance, true, example_##name},
#include "tools/gpu_check/examples.def"
#undef TC_EXAMPLE
#undef TC_MODEL_EXAMPLE
};

int check_example_main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    if (strcmp(examples[i].name, argv[0]) == 0) return examples[i].run(argc, argv);
  return fprintf(stderr, "no example '%s'\n", argv[0]), 2;
}

// ---- What a run shows ----

enum { MOST_NUMBERS = 1 << 14, MOST_POINTS = 512 };

typedef struct sync_point {
  char what[200];  // cause, place and status
  unsigned nodes, left;  // of its graph, as recorded and as simplified
} sync_point;

typedef struct outcome {
  double number[MOST_NUMBERS];
  int n, n_points, n_on_gpu;
  sync_point point[MOST_POINTS];
} outcome;

// The numbers of text up to end.
static void add_numbers(outcome *o, const char *text, const char *end) {
  while (text < end) {
    bool begins = isdigit((unsigned char)text[*text == '-']);
    char *behind = (char *)(uintptr_t)text + 1;
    double v = begins ? strtod(text, &behind) : 0;
    if (begins && o->n < MOST_NUMBERS) o->number[o->n++] = v;
    text = behind;
  }
}

// Of what the program printed the numbers that its row of examples.def names. A line may end to be
// written over.
static void read_printed(outcome *o, const example *e, FILE *f) {
  char line[4096];
  while (fgets(line, sizeof line, f))
    for (char *rest = line, *part; (part = strtok_r(rest, "\r\n", &rest));) {
      const char *from = strstr(part, e->from), *to = from && *e->to ? strstr(from, e->to) : NULL;
      if (from) add_numbers(o, from + strlen(e->from), to ? to : from + strlen(from));
    }
}

static void read_log(outcome *o, FILE *f) {
  static const char begins[] = "tc[sync] ", of_graph[] = ", graph ";
  char line[4096], tier[16];
  while (fgets(line, sizeof line, f)) {
    const char *graph = strstr(line, of_graph);
    sync_point *p = &o->point[o->n_points];
    if (strncmp(line, begins, strlen(begins)) != 0 || !graph || o->n_points == MOST_POINTS) continue;
    if (sscanf(graph + strlen(of_graph), "%*x of %u nodes, %u left, %*u kernels (%15[^)])", &p->nodes, &p->left,
               tier) != 3)
      continue;
    snprintf(p->what, sizeof p->what, "%.*s", (int)(graph - line) - (int)strlen(begins), line + strlen(begins));
    o->n_points++, o->n_on_gpu += strcmp(tier, "gpu") == 0;
  }
}

// The last line of a file that is not empty.
static void last_line(const char *path, char *out, size_t bytes) {
  char line[4096];
  FILE *f = fopen(path, "r");
  snprintf(out, bytes, "it printed nothing");
  while (f && fgets(line, sizeof line, f))
    if (line[0] != '\n') snprintf(out, bytes, "%.*s", (int)strcspn(line, "\n"), line);
  if (f) fclose(f);
}

// ---- Running one ----

typedef struct place {
  char root[4200], folder[64];  // where the files are that examples read; where files are written
} place;

static const char *path_in(const place *at, const char *file) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", at->folder, file);
  return path;
}

// The words that a command says: names of files are paths.
static void say_words(const place *at, const example *e, char *out, size_t bytes) {
  char words[256], *rest = words;
  size_t n = 0;
  out[0] = 0;
  if (e->model)
    n = (size_t)snprintf(out, bytes, " --weights tests/golden/model_%s.safetensors --input %s/golden.input.npy",
                         e->name, at->folder);
  snprintf(words, sizeof words, "%s", e->words);
  for (const char *word; (word = strtok_r(rest, " ", &rest));) {
    bool golden = strncmp(word, "golden.", 7) == 0, file = golden || strcmp(word, "OUT") == 0;
    n += (size_t)snprintf(out + n, bytes - n, " %s%s%s%s", file ? at->folder : "", file ? "/" : "", word,
                          golden ? ".npy" : "");
  }
}

// Writes the tensors of a model's archive that its words name.
static bool write_golden(check_row *row, const place *at, const example *e) {
  char path[4400], file[64], words[256] = "golden.input ", *rest = words;
  snprintf(path, sizeof path, "%s/tests/golden/model_%s.safetensors", at->root, e->name);
  snprintf(words + strlen(words), sizeof words - strlen(words), "%s", e->words);
  tc_archive *a = tc_safetensors_open(path);
  if (!a) return check_wrong(row, "%s", tc_last_error()->message);
  for (const char *word; (word = strtok_r(rest, " ", &rest)) && !row->wrong;) {
    if (strncmp(word, "golden.", 7) != 0) continue;
    snprintf(file, sizeof file, "%s.npy", word);
    check_ok(row, tc_save_npy(path_in(at, file), tc_archive_get(a, word)));
  }
  tc_archive_close(a);
  return !row->wrong;
}

// The numbers of the file that the program wrote.
static void read_written(check_row *row, outcome *o, const place *at) {
  tc_tensor t = tc_load_npy(path_in(at, "OUT"));
  int64_t n = tc_is_valid(t) ? tc_numel(t) : -1;
  if (n < 0 || n > MOST_NUMBERS - o->n || !check_fetch(t, 0, n, o->number + o->n))
    check_wrong(row, "what it wrote, %" PRId64 " numbers: %s", n, tc_last_error()->message);
  else
    o->n += (int)n;
}

static void run_on(check_row *row, const place *at, const example *e, const char *device, outcome *o) {
  char words[1024], command[12000], said[200];
  *o = (outcome){0};
  say_words(at, e, words, sizeof words);
  int n = snprintf(command, sizeof command, "cd '%s' && TC_DEVICE=%s TC_LOG=sync '%s' --example %s%s >%s/out 2>%s/log",
                   at->root, device, check.program, e->name, words, at->folder, at->folder);
  int status = n < (int)sizeof command ? system(command) : -1;
  if (status != 0) {
    last_line(path_in(at, "log"), said, sizeof said);
    check_wrong(row, "on %s its exit status is %d: %s", device, WIFEXITED(status) ? WEXITSTATUS(status) : -1, said);
    return;
  }
  FILE *out = fopen(path_in(at, "out"), "r"), *log = fopen(path_in(at, "log"), "r");
  if (out) read_printed(o, e, out), fclose(out);
  if (log) read_log(o, log), fclose(log);
  if (strstr(e->words, "OUT")) read_written(row, o, at);
}

// ---- Comparing two ----

static void compare_numbers(check_row *row, const example *e, const outcome *got, const outcome *want) {
  double largest = 1;
  if (got->n != want->n || got->n == 0) check_wrong(row, "%d numbers, on tc:cpu %d", got->n, want->n);
  for (int i = 0; i < want->n && e->model; i++) largest = fmax(largest, fabs(want->number[i]));
  for (int i = 0; i < want->n && !row->wrong; i++)
    if (!(fabs(got->number[i] - want->number[i]) <= e->tolerance * fmax(largest, e->model ? 1 : fabs(want->number[i]))))
      check_wrong(row, "number %d of %d is %.9g, on tc:cpu %.9g", i + 1, want->n, got->number[i], want->number[i]);
}

// What loads a file of weights leaves fewer nodes on tc:cpu, where they stay in the mapped file:
// one sync point of a model's program.
static void compare_points(check_row *row, const example *e, const outcome *got, const outcome *want) {
  int loads = 0;
  if (got->n_points != want->n_points || got->n_points == 0)
    check_wrong(row, "%d sync points, on tc:cpu %d", got->n_points, want->n_points);
  for (int i = 0; i < want->n_points && !row->wrong; i++) {
    const sync_point *a = &got->point[i], *b = &want->point[i];
    if (strcmp(a->what, b->what) != 0) check_wrong(row, "sync point %d is %s, on tc:cpu %s", i + 1, a->what, b->what);
    loads += a->left != b->left;
    if (a->nodes != b->nodes || loads > e->model)
      check_wrong(row, "the graph of %s has %u nodes and %u are left, on tc:cpu %u and %u", a->what, a->nodes, a->left,
                  b->nodes, b->left);
  }
  if (check.gpu && got->n_on_gpu == 0) check_wrong(row, "no kernel ran on the device");
}

static void run_example(check_row *row, const void *arg) {
  static outcome got, want;
  const example *e = arg;
  place at = {.folder = "/tmp/tc-examples-XXXXXX"};
  char command[100];
#ifndef TC_HAVE_JANSSON
  if (e->model) {
    check_skip(row, "built without libjansson, which reads its weights");
    return;
  }
#endif
  if (!check_folder("examples/data/digits.csv", at.root, sizeof at.root)) {
    check_skip(row, "the examples' files are not beside this program");
    return;
  }
  if (!mkdtemp(at.folder)) {
    check_wrong(row, "no folder %s", at.folder);
    return;
  }
  if (check_ok(row, tc_set_default_device("tc:cpu")) && (!e->model || write_golden(row, &at, e))) {
    run_on(row, &at, e, check.device, &got);
    if (!row->wrong) run_on(row, &at, e, "tc:cpu", &want);
    compare_numbers(row, e, &got, &want);
    compare_points(row, e, &got, &want);
    row->value = got.n, row->unit = "numbers";
    if (!row->wrong) snprintf(row->note, sizeof row->note, "%d sync points", got.n_points);
  }
  snprintf(command, sizeof command, "rm -rf %s", at.folder);
  if (system(command) != 0) fprintf(stderr, "gpu-check: %s is left\n", at.folder);
}

// A simulated device has a row of each program.
void check_examples(void) {
  char name[128];
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const example *e = &examples[i];
    if (!check.timed && i > 0 && strcmp(e->name, e[-1].name) == 0) continue;
    snprintf(name, sizeof name, "example %s%s%s", e->name, *e->words ? " " : "", e->words);
    check_do(name, run_example, e);
  }
}
