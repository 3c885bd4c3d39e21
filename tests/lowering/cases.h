// Cases as text: a trace in, what a topic of the log says of its plans out. A file PASS.cases holds
// those of one pass, with an empty line between; three at least, one of them refused:
//
//   case: what it shows
//   set: TC_MEMORY_BUDGET=4096      any number of these
//   trace ...                       as lazy/text/text.h has it; any number of traces
//   end
//   ---
//   the text
//
//   build/lowering-fusion-cases [--update] [FILE..]
//
// compares, or writes what comes out into the files; without FILE all of the directory.
//
// Each case is a process of its own, planned for one instruction set and four threads whatever the
// machine is.
#pragma once

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ref/ref.h"
#include "lazy/text/text.h"
#include "runtime/hash.h"
#include "runtime/team.h"

// Writes a message of the topic, without what differs from build to build; nothing of another
// message.
typedef void cases_write(const char *message, FILE *out);

typedef struct cases {
  const char *topic, *directory;
  cases_write *write;
} cases;

enum { LEAST_CASES = 3 };

static const cases *case_kind;

static char *case_read(const char *path) {
  FILE *f = fopen(path, "r");
  char *text = NULL;
  size_t n = 0;
  if (!f) return NULL;
  if (getdelim(&text, &n, 0, f) < 0) text = NULL;
  fclose(f);
  return text;
}

static void case_note(const char *line, void *arg) {
  char head[32];
  int n = snprintf(head, sizeof head, "tc[%s] ", case_kind->topic);
  if (strncmp(line, head, (size_t)n) == 0)
    case_kind->write(line + n, arg);
  else if (strncmp(line, "tc[warn] ", 9) == 0)
    fprintf(arg, "%s\n", line);
}

// Multiples of 1/64 in [-2, 2); whole numbers of 0 to 3.
static void case_fill(tc_text *x, uint32_t n) {
  tc_text_node *k = &x->node[n];
  int64_t count = tc_dims_count(&k->dims);
  void *data = tc_arena_alloc(&x->arena, (size_t)count * tc_type_bytes(k->type) + 1);
  for (int64_t i = 0; i < count; i++) {
    uint64_t key[2] = {n, (uint64_t)i}, bits = tc_hash_bytes(key, sizeof key).lo;
    tc_set_f64(k->type, data, i, tc_type_is_float(k->type) ? (double)(bits & 255) / 64 - 2 : (double)(bits & 3));
  }
  k->data = data;
}

static int case_run_traces(const char *text) {
  for (;;) {
    tc_text x;
    if (tc_text_read(&x, &text) != TC_OK) return printf("%s\n", tc_last_error()->message), 1;
    if (!x.title) return tc_text_fini(&x), 0;
    tc_tensor *out = calloc(x.n + 1, sizeof *out);
    for (uint32_t n = 0; n < x.n; n++)
      if (x.node[n].op == TC_OP_LEAF && !x.node[n].data) case_fill(&x, n);
    if (tc_text_run(&x, out) != TC_OK) return printf("%s\n", tc_last_error()->message), 1;
    for (uint32_t n = 0; n < x.n; n++) tc_release(out[n]);
    free(out);
    tc_text_fini(&x);
  }
}

// Unsets the caller's options, but for where files are and planted bugs.
static void case_unset_options(void) {
  static const char *const kept[] = {"TC_LLVM_PATH=", "TC_BACKEND_PATH=", "TC_TEST_PLANT="};
  for (char **e = environ; *e;) {
    char name[64];
    bool stays = strncmp(*e, "TC_", 3) != 0 || sscanf(*e, "%63[A-Z0-9_]", name) != 1;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) stays |= strncmp(*e, kept[i], strlen(kept[i])) == 0;
    if (stays || unsetenv(name) != 0) e++;
  }
}

// In a process of its own. input: the file up to the line of dashes.
static int case_run(char *input, FILE *out) {
  case_unset_options();
  setenv("TC_LOG", case_kind->topic, 1), setenv("TC_ISA", "avx2", 1), setenv("TC_CACHE_BYTES", "0", 1);
  char *line = input, *at;
  while (strncmp(line, "trace ", 6) != 0) {
    char *end = strchr(line, '\n');
    if (!end) return fprintf(stderr, "no trace\n"), 1;
    *end = 0;
    if (strncmp(line, "set: ", 5) == 0 && (at = strchr(line, '=')) != NULL) *at = 0, setenv(line + 5, at + 1, 1);
    line = end + 1;
  }
  tc_set_log(case_note, out);
  tc_team_set_threads(4);
  return case_run_traces(line);
}

// What the case's traces make, run in a process of its own. status: how that ended.
static char *case_come_out(char *input, int *status) {
  int ends[2];
  if (pipe(ends) != 0) return *status = 1, strdup("");
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    FILE *out = fdopen(ends[1], "w");
    close(ends[0]);
    int rc = case_run(input, out);
    tc_set_log(NULL, NULL);
    fclose(out);
    exit(rc);
  }
  close(ends[1]);
  FILE *in = fdopen(ends[0], "r");
  char *got = NULL;
  size_t n = 0;
  if (getdelim(&got, &n, 0, in) < 0) got = strdup("");
  fclose(in);
  waitpid(child, status, 0);
  return got;
}

// One case, which ends where the text does; as it should be, it is written to `now`. False: it fails.
static bool case_check(const char *path, char *text, bool update, FILE *now) {
  char *dashes = strstr(text, "\n---\n");
  const char *want = dashes ? dashes + 5 : "";
  int status = 1;
  if (dashes) dashes[1] = 0;
  char *got = case_come_out(text, &status);
  bool same = strcmp(got, want) == 0 && dashes, good = status == 0 && (same || update);
  if (!good)
    fprintf(stderr, "%s: %.*s: %s\n--- expected\n%s--- came out\n%s", path, (int)strcspn(text, "\n"), text,
            status ? "the process failed" : "another text", want, got);
  if (!same && good) fprintf(stderr, "%s: %.*s: updated\n", path, (int)strcspn(text, "\n"), text);
  fprintf(now, "%s---\n%s", text, good ? got : want);
  free(got);
  return good;
}

// The cases of a file. Returns how many fail.
static int case_check_file(const char *path, bool update, int *n) {
  char *text = case_read(path), *new_text = NULL, *next;
  size_t bytes;
  int n_failed = 0, before = *n, n_refused = 0;
  if (!text) return fprintf(stderr, "%s: cannot be read\n", path), ++*n;
  char *was = strdup(text);
  FILE *now = open_memstream(&new_text, &bytes);
  for (char *at = text; at; at = next) {
    next = strstr(at, "\n\ncase: ");
    if (next) next[1] = 0, next += 2;
    n_refused += strncmp(at, "case: refused", 13) == 0;
    ++*n, n_failed += !case_check(path, at, update, now);
    if (next) fprintf(now, "\n");
  }
  fclose(now);
  FILE *f = update && strcmp(was, new_text) != 0 ? fopen(path, "w") : NULL;
  if (f && (fprintf(f, "%s", new_text) < 0 || fclose(f) != 0)) n_failed++;
  if (*n - before < LEAST_CASES || !n_refused)
    n_failed++, fprintf(stderr, "%s: %d cases, %d refused: a pass has %d at least, one of them refused\n", path,
                        *n - before, n_refused, LEAST_CASES);
  free(text), free(was), free(new_text);
  return n_failed;
}

static int cases_main(int argc, char **argv, const cases *kind) {
  bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
  int n = 0, n_failed = 0, first = update ? 2 : 1;
  char pattern[256];
  glob_t all = {0};
  case_kind = kind;
  snprintf(pattern, sizeof pattern, "%s/*.cases", kind->directory);
  if (argc == first && glob(pattern, 0, NULL, &all) != 0) return fprintf(stderr, "%s: no cases\n", pattern), 1;
  for (size_t i = 0; i < all.gl_pathc; i++) n_failed += case_check_file(all.gl_pathv[i], update, &n);
  for (int i = first; i < argc; i++) n_failed += case_check_file(argv[i], update, &n);
  globfree(&all);
  printf("%s: %d of %d cases %s\n", kind->directory, n_failed ? n_failed : n, n, n_failed ? "failed" : "ok");
  return n_failed != 0;
}
