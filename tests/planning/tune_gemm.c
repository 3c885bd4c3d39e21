// Tuning of products: every cut (a third of them, all with TC_TEST_ALL=1, as ./dev soak has it)
// gives the same bits; a choice is kept for other processes; no file, whatever is in it, does more
// than be ignored. The program runs itself, as `tuning once`, for what must be seen from another
// process.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lowering/autotune/tuning_cache.h"
#include "lowering/jit/compiler.h"
#include "lowering/autotune/tune_gemm.h"
#include "runtime/options.h"
#include "tests/expect.h"
#include "tests/files/files.h"

enum { MOST_ELEMENTS = 40000, MOST_CUTS = 24 };

typedef struct problem {
  const char *name;
  int64_t batch, m, k, n;
  bool a_turned, b_turned, follows;  // follows: a sum and a relu come after the product
  tc_type type;
} problem;

static const problem problems[] = {
    {"one row", 1, 1, 300, 200, false, false, false, TC_F32},
    {"few rows, b along k", 1, 3, 97, 50, false, true, false, TC_F32},
    {"few rows, b along k, bf16", 1, 2, 130, 70, false, true, true, TC_BF16},
    {"tall", 1, 300, 40, 24, false, false, true, TC_F32},
    {"wide", 1, 37, 40, 1000, false, true, false, TC_F32},
    {"long k", 1, 20, 3000, 70, false, false, true, TC_F32},
    {"both turned", 1, 47, 500, 90, true, true, true, TC_F32},
    {"left along rows", 1, 160, 70, 130, true, false, false, TC_F32},
    {"batch", 3, 13, 21, 33, false, false, true, TC_F32},
    {"bf16", 1, 40, 200, 130, false, false, true, TC_BF16},
    {"bf16, both turned", 1, 40, 120, 130, true, true, false, TC_BF16},
    {"f16", 1, 30, 64, 64, false, true, false, TC_F16},
    {"f64", 1, 33, 100, 70, false, false, true, TC_F64},
    {"i32", 1, 33, 100, 70, true, false, false, TC_I32},
    {"chains", 1, 20, 4700, 70, false, false, true, TC_F32},
    {"chains, left along rows", 1, 40, 5000, 30, true, true, false, TC_F32},
    {"chains, few rows, b along k", 1, 3, 4613, 50, false, true, false, TC_F32},
    {"chains, bf16", 1, 24, 9400, 40, false, false, true, TC_BF16},
};
enum { N_PROBLEMS = sizeof problems / sizeof problems[0], WINDOWS = N_PROBLEMS, PANELS, N_ALL };

// ---- what the log says ----

static char key[TC_TUNING_KEY], kernels[1024];  // the last product that was looked up; what was made
static int n_warnings;

static void listen(const char *line, void *arg) {
  static const char tune[] = "tc[tune] ", kernel[] = "tc[kernel] ";
  (void)arg;
  n_warnings += strncmp(line, "tc[warn]", 8) == 0;
  const char *name = strncmp(line, kernel, sizeof kernel - 1) == 0 ? strstr(line, " tc_") : NULL;
  if (name++) {
    size_t n = strlen(kernels);
    snprintf(kernels + n, sizeof kernels - n, "%.*s ", (int)strcspn(name, ":"), name);
  }
  const char *threads = strncmp(line, tune, sizeof tune - 1) == 0 ? strstr(line, " threads ") : NULL;
  if (!threads) return;
  const char *from = line + sizeof tune - 1, *to = threads + 9 + strspn(threads + 9, "0123456789");
  snprintf(key, sizeof key, "%.*s", (int)(to - from), from);
}

static void set(const char *variable, const char *value) {
  setenv(variable, value, 1);
  tc_options_reload();
}

// Plans, kernels and choices forgotten.
static void start_again(const char *autotune, const char *dir) {
  setenv("TC_CACHE_DIR", dir, 1);
  set("TC_AUTOTUNE", autotune);
  tc_cache_clear();
}

// ---- products ----

static tc_tensor numbers(tc_dims d, tc_type type) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  tc_tensor t = tc_mul(tc_sin(tc_mul(tc_arange(0, (double)n, 1, TC_F32), 0.7)), type == TC_I32 ? 100 : 1);
  return tc_reshape(tc_cast(t, type), d);
}

static tc_tensor operand(int64_t batch, int64_t rows, int64_t cols, bool turned, tc_type type) {
  tc_tensor t = numbers(turned ? TC_SHAPE(batch, cols, rows) : TC_SHAPE(batch, rows, cols), type);
  EXPECT_OK(tc_eval(1, &t));
  return turned ? tc_transpose(t, 1, 2) : t;
}

// Of the present problem, made once, since what makes them is compiled too: the third is added, if
// what follows is a sum.
static tc_tensor left, right, added;

static void problem_begin(int which) {
  const problem *p = &problems[TC_MIN(which, N_PROBLEMS - 1)];
  tc_tensor w = numbers(which == WINDOWS ? TC_SHAPE(16, 8, 5, 5) : TC_SHAPE(256, 128), TC_F32);
  EXPECT_OK(tc_eval(1, &w));
  if (which < N_PROBLEMS) {
    left = operand(p->batch, p->m, p->k, p->a_turned, p->type),
    right = operand(p->batch, p->k, p->n, p->b_turned, p->type);
  } else {
    left = numbers(which == WINDOWS ? TC_SHAPE(2, 8, 11, 11) : TC_SHAPE(24, 256), TC_F32), right = tc_param(w);
  }
  added = numbers(TC_SHAPE(p->n), p->type);
  tc_tensor all[] = {left, right, added};
  EXPECT_OK(tc_eval(3, all));
}

static void problem_end(int which) {
  if (which >= N_PROBLEMS) tc_release(right);
}

static tc_tensor result(int which) {
  if (which == WINDOWS) return tc_conv2d(left, right, (tc_tensor){0, 0}, (tc_conv_options){.padding = TC_SHAPE(2)});
  tc_tensor c = tc_matmul(left, right);
  return which < N_PROBLEMS && problems[which].follows ? tc_relu(tc_add(c, added)) : c;
}

static const char *name_of(int which) {
  return which < N_PROBLEMS ? problems[which].name : which == WINDOWS ? "windows" : "panels";
}

// The bits of a run; how many bytes.
static size_t run(int which, unsigned char *out) {
  tc_scope s = tc_scope_begin();
  tc_no_grad_begin();
  tc_tensor y = result(which);
  tc_no_grad_end();
  tc_dims d = tc_shape(y);
  size_t bytes = tc_type_bytes(tc_dtype(y));
  for (int i = 0; i < d.rank; i++) bytes *= (size_t)d.dim[i];
  EXPECT(bytes <= MOST_ELEMENTS * sizeof(double), "%s: %zu bytes", name_of(which), bytes);
  EXPECT_OK(tc_to_host(y, out, bytes));
  tc_scope_end(s);
  return bytes;
}

// ---- every cut has the same bits ----

static tc_type type_named(const char *name) {
  for (int t = 0; t < TC_N_TYPES; t++)
    if (strcmp(tc_type_name((tc_type)t), name) == 0) return (tc_type)t;
  return TC_F32;
}

// The facts that a key says.
static bool facts_of(const char *text, tc_matmul_facts *f) {
  char acc[8], left[8], right[8], again[TC_TUNING_KEY];
  long long v[11];
  int scattered, threads;
  *f = (tc_matmul_facts){.acc = TC_F32};
  if (sscanf(text, "%7s %lldx%lldx%lldx%lld left %7s %lld %lld %d %lld right %7s %lld %lld %lld threads %d", acc, &v[0],
             &v[1], &v[2], &v[3], left, &v[4], &v[5], &scattered, &v[6], right, &v[7], &v[8], &v[9], &threads) != 15)
    return false;
  f->of = (tc_extent3){v[0], v[1], v[2], v[3]}, f->acc = type_named(acc);
  f->left =
      (tc_operand){.type = type_named(left), .row = v[4], .col = v[5], .scattered = scattered != 0, .segment = v[6]};
  f->right = (tc_operand){.type = type_named(right), .row = v[7], .col = v[8], .panel = v[9]};
  tc_tune_key(f, again, sizeof again);
  return strcmp(again, text) == 0;
}

// The model's cut, its neighbours and those of three of them.
static int cuts_of(const tc_matmul_facts *f, tc_gemm_tiling *cut) {
  tc_tiling_params b;
  int n = 1;
  EXPECT(tc_tiling_choose(&b, f, NULL), "the model has no cut");
  cut[0] = tc_tiling_of(&b);
  for (int from = 0; from < 4 && from < n; from++) {
    tc_gemm_tiling near[TC_MOST_NEIGHBOURS];
    int n_near = tc_tiling_neighbours(f, &cut[from * 3 < n ? from * 3 : 0], near);
    for (int i = 0; i < n_near && n < MOST_CUTS; i++) {
      int j = 0;
      while (j < n && memcmp(&near[i], &cut[j], sizeof near[i]) != 0) j++;
      if (j == n) cut[n++] = near[i];
    }
  }
  return n;
}

static int n_by_panel;  // cuts of that kind that were tried

static void every_cut(int which, const char *dir) {
  static unsigned char want[MOST_ELEMENTS * sizeof(double)], got[sizeof want];
  char model[sizeof kernels], chosen[TC_TUNING_KEY];
  tc_matmul_facts f;
  tc_gemm_tiling cut[MOST_CUTS];
  key[0] = kernels[0] = 0;
  start_again("1", dir);
  size_t bytes = run(which, want);
  snprintf(model, sizeof model, "%s", kernels);
  snprintf(chosen, sizeof chosen, "%s", key);
  EXPECT(facts_of(chosen, &f), "%s: no key in the log: %s", name_of(which), chosen);
  int n = cuts_of(&f, cut), n_tried = 0, n_other = 0;
  EXPECT(n > 2, "%s: only %d cuts", name_of(which), n);
  for (int i = 0; i < n; i++) {
    if (i % 3 != 0 && !cut[i].of[TC_TILING_BY_PANEL] && !getenv("TC_TEST_ALL")) continue;
    n_tried++, n_by_panel += cut[i].of[TC_TILING_BY_PANEL] != 0;
    tc_cache_clear();
    kernels[0] = 0;
    for (int threads = 0; threads < 2; threads++) {
      EXPECT_OK(tc_set_num_threads(threads));  // all of them, and one
      tc_tune_key(&f, chosen, sizeof chosen);
      tc_tuning_cache_put(chosen, &cut[i], 0);
      memset(got, 0xA5, bytes);
      EXPECT(
          run(which, got) == bytes && memcmp(got, want, bytes) == 0,
          "%s, cut %d of %d: lanes %lld rows %lld turn %lld pack %lld %lld widen %lld once %lld by panel %lld chunk %lld unit %lld x %lld",
          name_of(which), i, n, (long long)cut[i].of[0], (long long)cut[i].of[1], (long long)cut[i].of[2],
          (long long)cut[i].of[3], (long long)cut[i].of[4], (long long)cut[i].of[5], (long long)cut[i].of[6],
          (long long)cut[i].of[7], (long long)cut[i].of[8], (long long)cut[i].of[9], (long long)cut[i].of[10]);
    }
    EXPECT_OK(tc_set_num_threads(0));
    n_other += strcmp(kernels, model) != 0;
  }
  EXPECT(n_other >= n_tried - 2, "%s: of %d cuts only %d are other kernels than the model's", name_of(which), n_tried,
         n_other);
}

// ---- files ----

static char file[512], good[8192];  // where choices lie; a file with one, of the problem "batch"
static size_t good_bytes;
enum { BATCH = 8 };

static void write_file(const char *text, size_t bytes) {
  FILE *f = fopen(file, "w");
  EXPECT(f && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0, "%s", file);
}

static void find_file(const char *dir) {
  char command[256];
  snprintf(command, sizeof command, "ls %s/products-*.txt", dir);
  FILE *list = popen(command, "r");
  EXPECT(list && fgets(file, sizeof file, list), "no file in %s", dir);
  file[strcspn(file, "\n")] = 0;
  if (list) pclose(list);
  FILE *f = fopen(file, "r");
  good_bytes = f ? fread(good, 1, sizeof good - 1, f) : 0;
  EXPECT(good_bytes > 0, "%s is empty", file);
  if (f) fclose(f);
}

static unsigned char want[MOST_ELEMENTS * sizeof(double)];
static size_t bytes;  // of want
static char chosen[TC_TUNING_KEY];
static tc_gemm_tiling cut;  // the model's of that key

// A run with that file gives the bits, and as many warnings.
static void runs_with(const char *what, const char *dir, int warnings) {
  static unsigned char got[MOST_ELEMENTS * sizeof(double)];
  n_warnings = 0;
  start_again("1", dir);
  tc_clear_error();
  EXPECT(run(BATCH, got) == bytes && memcmp(got, want, bytes) == 0, "%s: other bits", what);
  EXPECT(n_warnings == warnings, "%s: %d warnings", what, n_warnings);
  EXPECT(tc_last_error()->status == TC_OK, "%s", what);
}

// Makes the bits that all runs must give, and a good file.
static void make_good_file(const char *dir) {
  tc_matmul_facts f;
  tc_tiling_params b;
  start_again("0", dir);
  bytes = run(BATCH, want);
  start_again("1", dir);
  (void)run(BATCH, want);
  EXPECT(facts_of(key, &f) && tc_tiling_choose(&b, &f, NULL), "no key: %s", key);
  cut = tc_tiling_of(&b);
  snprintf(chosen, sizeof chosen, "%s", key);
  tc_cache_clear();
  tc_tuning_cache_put(chosen, &cut, 0);
  find_file(dir);
  runs_with("a good file", dir, 0);
  EXPECT(tc_cache_stats().n_choices >= 1, "nothing was read from %s", file);
}

// The good file's first line and one more.
static void write_line(const char *numbers) {
  char text[sizeof good + 512];
  int n = snprintf(text, sizeof text, "%.*s%s = %s\n", (int)strcspn(good, "\n") + 1, good, chosen, numbers);
  write_file(text, (size_t)n);
}

static void bad_lines(const char *dir) {
  static const char *const absurd[] = {
      "0 0 0 0 0 0 0 0 0 0 0",
      "64 6 0 1 0 0 0 0 21 1 9223372036854775807",
      "9223372036854775807 6 0 1 0 0 0 0 21 1 1",
      "4611686018427387904 4611686018427387904 1 1 1 1 1 1 4611686018427387904 4611686018427387904 4611686018427387904",
      "3 6 0 1 0 0 0 0 21 1 1",
      "16 4096 0 1 0 0 0 0 21 1 1",
      "16 30 0 1 0 0 0 0 21 1 1000000",
      "64 30 0 1 0 0 0 0 21 1 1",
      "16 6 2 1 0 0 0 0 21 1 1",
      "16 6 1 1 1 1 1 0 21 1 1",
      "16 6 0 1 1 0 0 0 21 1 1",
      "16 6 0 1 0 0 1 0 21 1 1",
      "16 6 0 1 0 0 0 0 22 1 1",
      "16 6 0 1 0 0 0 1 21 1 1",
  };
  for (size_t i = 0; i < good_bytes; i += 7) {  // torn
    write_file(good, i);
    runs_with("a torn file", dir, 0);
    EXPECT(tc_cache_stats().n_choices <= 1, "choices of a torn file");
  }
  for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
    write_line(absurd[i]);
    runs_with(absurd[i], dir, 1);
  }
  static const char *const no_lines[] = {"64 6 0 1 0 0 0 0 21 1",
                                         "64 6 0 1 0 0 0 0 21 1 1 1",
                                         "-1 6 0 1 0 0 0 0 21 1 1",
                                         "99999999999999999999 6 0 1 0 0 0 0 21 1 1",
                                         "64 6 0 1 0 0 0 0 21 1 1x",
                                         "",
                                         "nan"};
  for (size_t i = 0; i < sizeof no_lines / sizeof no_lines[0]; i++) {
    write_line(no_lines[i]);
    runs_with(no_lines[i], dir, 1);
    EXPECT(tc_cache_stats().n_choices == 0, "%s was read", no_lines[i]);
  }
}

static void no_files_of_ours(const char *dir) {
  size_t head = strcspn(good, "\n") + 1;
  // Another machine's: the first line differs.
  good[head - 2]++;
  write_file(good, good_bytes);
  runs_with("another machine's file", dir, 0);
  EXPECT(tc_cache_stats().n_choices == 0, "another machine's choices were read");
  good[head - 2]--;
  // Bytes of any kind, and no file at all.
  static char noise[100000];
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(i * 2654435761u >> 13);
  write_file(noise, sizeof noise);
  runs_with("noise", dir, 0);
  memcpy(noise, good, head);
  write_file(noise, sizeof noise);
  runs_with("noise after the first line", dir, 1);
  EXPECT(truncate(file, 1 << 30) == 0, "truncate");
  runs_with("a file of a gigabyte", dir, 0);
  unlink(file);
  EXPECT(mkfifo(file, 0600) == 0, "mkfifo");
  runs_with("a pipe", dir, 0);
  unlink(file);
  EXPECT(mkdir(file, 0700) == 0, "mkdir");
  runs_with("a directory", dir, 0);
  tc_tuning_cache_put(chosen, &cut, 0);
  EXPECT(n_warnings == 1, "a directory in the file's place: %d warnings", n_warnings);
  rmdir(file);
}

static void unwritable(const char *dir) {
  // Nowhere to write to: told once, and the choice holds for the process.
  static const char *const nowhere[] = {"/dev/null/tc", "/proc/tc", "/dev/full"};
  for (int i = 0; i < 3; i++) {
    runs_with(nowhere[i], nowhere[i], 0);
    tc_tuning_cache_put(chosen, &cut, 0);
    tc_tuning_cache_put("another", &cut, 0);
    EXPECT(n_warnings == 1 && tc_cache_stats().n_choices == 2, "%s: %d warnings, %zu choices", nowhere[i], n_warnings,
           tc_cache_stats().n_choices);
  }
  // A file may have no more bytes: an error, not a signal, and nothing is left behind.
  struct rlimit was, none = {0, 0};
  start_again("1", dir);
  n_warnings = 0;
  EXPECT(getrlimit(RLIMIT_FSIZE, &was) == 0, "getrlimit");
  none.rlim_max = was.rlim_max;
  EXPECT(setrlimit(RLIMIT_FSIZE, &none) == 0, "setrlimit");
  tc_tuning_cache_put(chosen, &cut, 0);
  EXPECT(setrlimit(RLIMIT_FSIZE, &was) == 0, "setrlimit");
  EXPECT(n_warnings == 1 && access(file, F_OK) != 0, "a full disk: %d warnings", n_warnings);
  tc_tuning_cache_put("another", &cut, 0);
  EXPECT(access(file, R_OK) == 0, "the file is not written when there is room again");
}

static void written_together(const char *dir) {
  // What another process wrote meanwhile is kept.
  write_file(good, good_bytes);
  tc_tuning_cache_put("a third", &cut, 0);
  tc_cache_clear();
  EXPECT(tc_tuning_cache_find(chosen, &cut) && tc_tuning_cache_find("another", &cut) &&
             tc_tuning_cache_find("a third", &cut),
         "a choice was lost");
  char command[256];
  snprintf(command, sizeof command, "! ls %s | grep tmp", dir);
  EXPECT(system(command) == 0, "a temporary file is left");
}

static void files(const char *dir) {
  make_good_file(dir);
  bad_lines(dir);
  no_files_of_ours(dir);
  unwritable(dir);
  written_together(dir);
}

// ---- processes ----

// Multiplies once and says how much was timed.
static int once(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor c = tc_matmul(operand(1, 128, 96, false, TC_F32), operand(1, 96, 112, false, TC_F32));
  double sum = 0;
  tc_status st = tc_item_f64(tc_sum(c, TC_ALL, false), &sum);
  tc_scope_end(s);
  tc_cache_info info = tc_cache_stats();
  printf("%d %.17g %llu %llu %zu\n", st, sum, (unsigned long long)info.n_tuned, (unsigned long long)info.cuts_timed,
         info.n_choices);
  return 0;
}

typedef struct told {
  int status;
  double sum;
  unsigned long long n_tuned, cuts_timed;
  size_t n_choices;
} told;

static told in_process(const char *self, const char *setting, const char *dir) {
  char command[512];
  told t = {.status = -1};
  snprintf(command, sizeof command, "env %s TC_CACHE_DIR=%s %s once", setting, dir, self);
  FILE *f = popen(command, "r");
  EXPECT(f && fscanf(f, "%d %lg %llu %llu %zu", &t.status, &t.sum, &t.n_tuned, &t.cuts_timed, &t.n_choices) == 5, "%s",
         command);
  if (f) EXPECT(pclose(f) == 0, "%s", command);
  return t;
}

static void processes(const char *self, const char *dir) {
  told model = in_process(self, "TC_AUTOTUNE=0", dir);
  EXPECT(model.n_tuned == 0 && model.n_choices == 0 && access(dir, F_OK) != 0, "without TC_AUTOTUNE there is a choice");
  told first = in_process(self, "TC_AUTOTUNE=1", dir), second = in_process(self, "TC_AUTOTUNE=1", dir);
  EXPECT(first.n_tuned == 1 && first.cuts_timed > 2 && first.n_choices == 1, "%llu products timed in %llu cuts",
         first.n_tuned, first.cuts_timed);
  EXPECT(second.n_tuned == 0 && second.cuts_timed == 0 && second.n_choices == 1, "timed again");
  told one = in_process(self, "TC_AUTOTUNE=1 TC_NUM_THREADS=1", dir),
       narrow = in_process(self, "TC_AUTOTUNE=1 TC_ISA=baseline", dir);
  EXPECT(one.n_tuned == 1 || tc_num_threads() == 1, "another number of threads has the choice of this one");
  EXPECT((narrow.n_tuned == 1 && narrow.n_choices == 1) || tc_compiler_vector_bytes() == 16,
         "another instruction set has the choice of this one");
  EXPECT(model.sum == first.sum && first.sum == second.sum && second.sum == one.sum, "other bits");
  told unset = in_process(self, "TC_AUTOTUNE=1 HOME=/nonexistent/home XDG_CACHE_HOME=relative 2>/dev/null", "");
  char home[192];
  snprintf(home, sizeof home, "TC_AUTOTUNE=1 XDG_CACHE_HOME= HOME=%s", dir);
  told kept = in_process(self, home, "");
  snprintf(home, sizeof home, "%s/.cache/tc", dir);
  EXPECT(kept.n_tuned == 1 && access(home, F_OK) == 0, "no ~/.cache/tc");
  EXPECT(unset.status == TC_OK && unset.n_tuned == 1, "without a directory");
}

// What the model has for every processor: up to 1024 steps of k are one chunk, a left operand is
// read where it lies, and rows are not cut where each unit of them would read all panels anew.
static void the_model_reads_operands_once(void) {
  tc_tiling_params b;
  tc_matmul_facts f = {.of = {1, 1024, 1024, 1024},
                       .acc = TC_F32,
                       .left = {TC_F32, 1024, 1, .segment = 1024},
                       .right = {TC_F32, 1024, 1, .segment = 1024}};
  EXPECT(tc_tiling_choose(&b, &f, NULL) && b.chunk == 1024 && !b.pack_a, "chunks of %d", (int)b.chunk);
  int lanes = (int)tc_tiling_panel(4096, TC_F32);
  f = (tc_matmul_facts){.of = {1, 16, 4096, 4096},
                        .acc = TC_F32,
                        .left = {TC_F32, 4096, 1, .segment = 4096},
                        .right = {TC_F32, lanes, 4096, .segment = 4096, .panel = lanes}};
  EXPECT(tc_tiling_choose(&b, &f, NULL) && b.tiles > 1 && b.unit_tiles == b.tiles, "units of %d tiles of %d",
         (int)b.unit_tiles, (int)b.tiles);
}

int main(int argc, char **argv) {
  if (argc > 1) return once();
  the_model_reads_operands_once();
  setenv("TC_LOG", "tune,kernel", 1);
  tc_set_log(listen, NULL);
  char dir[4][128];
  for (int i = 0; i < 4; i++)
    snprintf(dir[i], sizeof dir[i], "%s", files_path((const char *[]){"cuts", "files", "processes", "deep/er"}[i]));
  for (int i = 0; i < N_ALL; i++) {
    tc_scope s = tc_scope_begin();
    problem_begin(i);
    every_cut(i, dir[0]);
    problem_end(i);
    tc_scope_end(s);
  }
  // of wider vectors a panel is more than half of the cache
  EXPECT(n_by_panel > 0 || tc_compiler_vector_bytes() > 32, "no cut goes panel by panel");
  tc_scope s = tc_scope_begin();
  problem_begin(BATCH);
  files(dir[1]);
  tc_scope_end(s);
  start_again("0", dir[3]);
  unsetenv("TC_LOG");
  if (strncmp(tc_compiler_sentence(), "LLVM", 4) == 0)
    processes(argv[0], dir[2]);
  else
    printf("nothing is compiled, so nothing is timed\n");
  (void)files_fini();
  return expect_done("planning-tune_gemm");
}
