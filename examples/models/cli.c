// Options, files, and the loops of the model programs. See cli.h.
#include "examples/models/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Noreturn void cli_fail(const char *fmt, ...) {
  va_list args;
  fflush(stdout);
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

void cli_check(tc_status st) {
  const tc_error *e = tc_last_error();
  if (st != TC_OK) cli_fail("%s", e->status != TC_OK ? e->message : tc_status_text(st));
}

void cli_flush(void) {
  if (fflush(stdout) != 0) cli_fail("standard output: %s", strerror(errno));
  if (ferror(stdout)) cli_fail("standard output could not be written");
}

// ---- Options ----

typedef enum kind { TEXT, COUNT, NUMBER, TYPE, AMP } kind;

typedef struct row {
  const char *name, *value, *help;
  kind kind;
  size_t at;  // in cli
  const char *in_training;  // more help, of programs that train; or NULL
  const char *of_bytes;  // more help, of programs whose layers may be of bytes; or NULL
  const char *with;  // the option without which this one says nothing; or NULL
  bool is_read;  // a file that a result must not take the place of
} row;

static const row rows[] = {
    {"weights", "FILE", "safetensors file of a state dict; without it, random initial values", TEXT,
     offsetof(cli, weights), .is_read = true},
    {"input", "FILE", "input, .npy", TEXT, offsetof(cli, input), .is_read = true},
    {"output", "FILE", "where the result goes, .npy", TEXT, offsetof(cli, output)},
    {"mask", "FILE", "1 for words and 0 for padding, of the input's shape, .npy", TEXT, offsetof(cli, mask),
     .is_read = true},
    {"types", "FILE", "token types, of the input's shape, .npy; 0 if left out", TEXT, offsetof(cli, types),
     .is_read = true},
    {"labels", "FILE", "class of each input, .npy, to train", TEXT, offsetof(cli, labels), .with = "train",
     .is_read = true},
    {"train", "N", "train N steps; prints their losses", COUNT, offsetof(cli, train)},
    {"lr", "X", "learning rate", NUMBER, offsetof(cli, lr), .with = "train"},
    {"momentum", "X", "momentum", NUMBER, offsetof(cli, momentum), .with = "train"},
    {"save", "FILE", "where the weights go after training, safetensors", TEXT, offsetof(cli, save)},
    {"generate", "N", "go on for N tokens after the input; prints their ids", COUNT, offsetof(cli, generate)},
    {"top-k", "K", "draw from the K likeliest tokens, others with another --batch; without it, take the likeliest",
     COUNT, offsetof(cli, top_k), .with = "generate"},
    {"vocab", "FILE", "vocab.json: print text instead of ids, ? where it has none", TEXT, offsetof(cli, vocab),
     .with = "generate", .is_read = true},
    {"heads", "N", "attention heads; one for each 64 of the width if left out", COUNT, offsetof(cli, heads)},
    {"batch", "N", "rows of the input at a time, 32 if left out", COUNT, offsetof(cli, batch),
     ", in training all; that takes whole batches, and leaves out rows beyond the last"},
    {"dtype", "TYPE", "f32 (default), bf16, f16 or f64: what is computed in", TYPE, offsetof(cli, dtype),
     .of_bytes = "; int8: linear layers of bytes"},
    {"amp", "[=TYPE]", "autocast to bf16 (default) or f16; weights stay as they are", AMP, offsetof(cli, amp),
     ", f16 with a gradient scaler"},
    {"device", "NAME", "tc:cpu, tc:ref, ...", TEXT, offsetof(cli, device)},
    {"threads", "N", "threads", COUNT, offsetof(cli, threads)},
    {"seed", "N", "of random numbers; 0 if left out", COUNT, offsetof(cli, seed)},
};
#define ROWS_AT_ONCE 32
enum { N_ROWS = sizeof rows / sizeof *rows };

static bool has(const char *which, const char *name) {
  size_t n = strlen(name);
  for (const char *s = which; (s = strstr(s, name)); s += n)
    if ((s == which || s[-1] == ' ') && s[n] == ' ') return true;
  return false;
}

static void help(const char *program, const char *about, const char *which) {
  printf("usage: %s [options]\n%s\n\n", program, about);
  for (int i = 0; i < N_ROWS; i++) {
    char left[40];
    if (!has(which, rows[i].name)) continue;
    snprintf(left, sizeof left, rows[i].kind == AMP ? "--%s%s" : "--%s %s", rows[i].name, rows[i].value);
    printf("  %-16s  %s%s\n", left, rows[i].help,
           rows[i].in_training && has(which, "train") ? rows[i].in_training
           : rows[i].of_bytes && has(which, "int8")   ? rows[i].of_bytes
                                                      : "");
  }
  printf("  %-16s  %s\n", "--help", "this text");
}

static void set(cli *c, const row *r, const char *text, const char *which) {
  void *to = (char *)c + r->at;
  char *end;
  errno = 0;
  switch (r->kind) {
    case TEXT: *(const char **)to = text; return;
    case COUNT: {
      long long n = strtoll(text, &end, 10);
      bool from_zero = strcmp(r->name, "seed") == 0;
      if (errno || end == text || *end || n < !from_zero || n > INT_MAX)
        cli_fail("--%s %s: not a whole number from %d to %d", r->name, text, !from_zero, INT_MAX);
      *(int64_t *)to = n;
      return;
    }
    case NUMBER:
      *(double *)to = strtod(text, &end);
      if (end == text || *end || !(*(double *)to >= 0 && *(double *)to <= DBL_MAX))
        cli_fail("--%s %s: not a number from 0 on that a double can be", r->name, text);
      return;
    case TYPE:
      c->int8 = strcmp(text, "int8") == 0;
      if (c->int8) text = tc_type_name(TC_F32);
      for (int i = 0; i < 4; i++)
        if (strcmp(text, tc_type_name((tc_type[]){TC_F32, TC_BF16, TC_F16, TC_F64}[i])) == 0) {
          *(tc_type *)to = (tc_type[]){TC_F32, TC_BF16, TC_F16, TC_F64}[i];
          return;
        }
      cli_fail("--dtype %s: one of f32, bf16, f16, f64%s", text, has(which, "int8") ? ", int8" : "");
    case AMP:
      if (text && strcmp(text, "bf16") != 0 && strcmp(text, "f16") != 0) cli_fail("--amp=%s: bf16 or f16", text);
      *(tc_type *)to = text && strcmp(text, "f16") == 0 ? TC_F16 : TC_BF16;
      return;
  }
}

// Before any work: a file is written beside where its links lead and renamed, so that directory
// must take one; what is no file, as a pipe, is written in place. Whether a name can be had that is
// not there yet, making it tells.
static void expect_writable(const char *option, const char *path) {
  char place[PATH_MAX];
  struct stat there;
  if (path == NULL) return;
  if (*path == 0 || path[strlen(path) - 1] == '/') cli_fail("--%s %s: not the name of a file", option, path);
  if (stat(path, &there) != 0) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) cli_fail("--%s %s: %s", option, path, strerror(errno));
    close(fd);
    if (realpath(path, place)) unlink(place);
    return;
  }
  if (S_ISDIR(there.st_mode)) cli_fail("--%s %s: %s", option, path, strerror(EISDIR));
  bool can = !S_ISREG(there.st_mode) && access(path, W_OK) == 0;
  if (S_ISREG(there.st_mode) && realpath(path, place)) {
    strrchr(place, '/')[1] = 0;
    can = access(place, W_OK | X_OK) == 0;
  }
  if (!can) cli_fail("--%s %s: %s", option, path, strerror(errno));
}

// Whether a file written to the one is written to the other: links are followed. Where the file is
// not there yet, realpath fails but leaves where it would be.
static bool is_one_place(const char *path, const char *other) {
  char place[2][PATH_MAX] = {"", ""};
  bool known[2] = {realpath(path, place[0]) || errno == ENOENT, realpath(other, place[1]) || errno == ENOENT};
  return known[0] && known[1] && strcmp(place[0], place[1]) == 0;
}

// No option is passed over in silence.
static void expect_company(const bool *given) {
  for (int i = 0; i < N_ROWS; i++) {
    bool alone = given[i] && rows[i].with;
    for (int k = 0; k < N_ROWS && alone; k++) alone = !given[k] || strcmp(rows[k].name, rows[i].with) != 0;
    if (alone) cli_fail("--%s says nothing without --%s", rows[i].name, rows[i].with);
  }
}

// A result takes no input's place; trained weights may take that of those they began as, which is
// what going on with a training does.
static void expect_not_read(const cli *c, const bool *given, const char *option, const char *path) {
  struct stat to, from;
  if (path == NULL || stat(path, &to) != 0 || !S_ISREG(to.st_mode)) return;
  for (int i = 0; i < N_ROWS; i++) {
    if (!given[i] || rows[i].kind != TEXT || !rows[i].is_read ||
        (strcmp(option, "save") == 0 && strcmp(rows[i].name, "weights") == 0))
      continue;
    const char *read = *(const char *const *)((const char *)c + rows[i].at);
    if (stat(read, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
      cli_fail("--%s %s: the file of --%s, which would be lost", option, path, rows[i].name);
  }
}

cli cli_parse(int argc, char **argv, const char *about, const char *which) {
  struct option option[N_ROWS + 2] = {0};
  int number[N_ROWS], n = 0, got;
  bool given[N_ROWS] = {false};
  cli c = {.dtype = TC_F32, .amp = TC_N_TYPES, .lr = -1, .momentum = -1};
  for (int i = 0; i < N_ROWS; i++)
    if (has(which, rows[i].name))
      number[n] = i,
      option[n++] = (struct option){rows[i].name, rows[i].kind == AMP ? optional_argument : required_argument, NULL, 0};
  option[n] = (struct option){"help", no_argument, NULL, 0};
  for (int at = 0; (got = getopt_long(argc, argv, "", option, &at)) != -1;) {
    if (got != 0) cli_fail("%s --help tells what there is", argv[0]);  // getopt_long has said what is wrong
    if (at == n) help(argv[0], about, which), cli_flush(), exit(0);
    set(&c, &rows[number[at]], optarg, which);
    given[number[at]] = true;
  }
  if (optind < argc) cli_fail("'%s' is no option; %s --help tells what there is", argv[optind], argv[0]);
  if (c.int8 && !has(which, "int8")) cli_fail("--dtype int8: this model has no such layers");
  if (c.int8 && (c.train || c.save)) cli_fail("--dtype int8: bytes are not trained, and are not saved here");
  expect_company(given);
  expect_writable("output", c.output), expect_writable("save", c.save);
  if (c.output && c.save && is_one_place(c.output, c.save)) cli_fail("--output and --save are one file, %s", c.save);
  expect_not_read(&c, given, "output", c.output), expect_not_read(&c, given, "save", c.save);
  if (c.device) cli_check(tc_set_default_device(c.device));
  if (c.threads) cli_check(tc_set_num_threads((int)c.threads));
  tc_seed((uint64_t)c.seed);
  return c;
}

// ---- Files ----

static bool is_floating(tc_type type) {
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64;
}

tc_tensor cli_load(const char *option, const char *path, int rank, bool floating, tc_type type) {
  tc_tensor t = tc_load_npy(path);
  if (!tc_is_valid(t)) cli_check(tc_last_error()->status);
  tc_dims d = tc_shape(t);
  if (d.rank != rank) cli_fail("--%s %s has rank %d, rank %d is asked for", option, path, d.rank, rank);
  if (is_floating(tc_dtype(t)) != floating)
    cli_fail("--%s %s is %s, %s numbers are asked for", option, path, tc_type_name(tc_dtype(t)),
             floating ? "floating" : "whole");
  if (tc_numel(t) == 0) cli_fail("--%s %s is empty", option, path);
  return tc_cast(t, type);
}

tc_tensor cli_load_ids(const char *option, const char *path) {
  tc_tensor t = cli_load(option, path, 2, false, TC_I64);
  int64_t least;
  cli_check(tc_item_i64(tc_min(t, TC_ALL, false), &least));
  if (least < 0) cli_fail("--%s %s has %lld; numbers of rows begin at 0", option, path, (long long)least);
  return t;
}

void cli_save(const char *path, tc_tensor t) {
  bool narrow = tc_dtype(t) == TC_F16 || tc_dtype(t) == TC_BF16;
  cli_check(tc_save_npy(path, narrow ? tc_cast(t, TC_F32) : t));
}

tc_archive *cli_weights(const cli *c) {
  if (c->weights == NULL) return fprintf(stderr, "no --weights: random initial values\n"), NULL;
  tc_archive *a = tc_safetensors_open(c->weights);
  if (a == NULL) cli_check(tc_last_error()->status);
  return a;
}

void cli_remark_layers(const cli *c, int64_t n_layers) {
  fprintf(stderr, "%s: %lld layers\n", c->weights, (long long)n_layers);
}

void cli_remark_unused(const cli *c, const tc_archive *a, const tc_nn_params *p, const char *prefix) {
  size_t n_prefix = strlen(prefix);
  const char *first = NULL;
  int n = 0;
  for (int i = 0; i < tc_archive_count(a); i++) {
    const char *name = tc_archive_name(a, i), *own = strncmp(name, prefix, n_prefix) == 0 ? name + n_prefix : "";
    bool used = false;
    for (int k = 0; k < tc_nn_count_all(p) && !used; k++) used = strcmp(tc_nn_names(p)[k], own) == 0;
    if (!used && n++ == 0) first = name;
  }
  if (n)
    fprintf(stderr, "%s: %d of %d tensors are not the model's, '%s' the first\n", c->weights, n, tc_archive_count(a),
            first);
}

int cli_heads(const cli *c, int64_t dim) {
  int64_t heads = c->heads ? c->heads : dim / 64;
  if (!c->heads && dim % 64)
    cli_fail("a width of %lld does not tell how many heads there are: give --heads", (long long)dim);
  if (heads == 0 || dim % heads)
    cli_fail("%lld cannot be cut into %lld heads: give --heads", (long long)dim, (long long)heads);
  if (!c->heads)
    fprintf(stderr, "%lld heads, one for each 64 of the width; --heads tells of others\n", (long long)heads);
  return (int)heads;
}

// ---- Work ----

static double now_s(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

void cli_progress(const char *what, int64_t done, int64_t n) {
  static double start, told;
  static bool shown;
  double now = now_s();
  if (!isatty(STDERR_FILENO)) return;
  if (start == 0) start = told = now;
  if (now - start > 1 && (now - told > 0.1 || (done == n && shown))) {
    fprintf(stderr, "\r%s: %lld of %lld%s", what, (long long)done, (long long)n, done < n ? "" : "\n");
    told = now, shown = true;
  }
}

void cli_amp_begin(const cli *c) {
  if (c->amp != TC_N_TYPES) cli_check(tc_autocast_begin(c->amp));
}

void cli_amp_end(const cli *c) {
  if (c->amp != TC_N_TYPES) cli_check(tc_autocast_end());
}

tc_tensor cli_in_batches(const cli *c, int64_t n_rows, cli_rows_fn fn, void *arg) {
  int64_t most = c->batch ? c->batch : ROWS_AT_ONCE, each = most < n_rows ? most : n_rows,
          n = (n_rows + each - 1) / each;
  tc_tensor *part = calloc((size_t)n, sizeof *part);
  if (part == NULL) cli_fail("no memory for %lld batches", (long long)n);
  tc_no_grad_begin();
  cli_progress("rows", 0, n_rows);
  for (int64_t i = 0; i < n; i++) {
    tc_scope scope = tc_scope_begin();
    int64_t first = i * each;
    cli_amp_begin(c);
    part[i] = tc_keep(fn(arg, first, first + each < n_rows ? each : n_rows - first));
    cli_amp_end(c);
    tc_scope_end(scope);  // nothing else is asked of the run
    cli_check(tc_eval(1, &part[i]));
    cli_progress("rows", first + each < n_rows ? first + each : n_rows, n_rows);
  }
  tc_tensor all = n == 1 ? part[0] : tc_cat((int)n, part, 0);
  tc_no_grad_end();
  free(part);
  return all;
}

void cli_train(const cli *c, int64_t n_rows, tc_optimizer *opt, cli_rows_fn loss_of, void *arg) {
  int64_t each = c->batch ? c->batch : n_rows, n = n_rows / each;
  if (opt == NULL) cli_check(tc_last_error()->status);
  if (n == 0) cli_fail("--batch %lld: there are %lld rows", (long long)each, (long long)n_rows);
  cli_progress("steps", 0, c->train);
  tc_grad_scaler *scaler = tc_grad_scaler_create((tc_grad_scaler_options){.disabled = c->amp != TC_F16});
  if (scaler == NULL) cli_check(tc_last_error()->status);
  for (int64_t step = 0; step < c->train; step++) {
    float value;
    tc_scope outer = tc_scope_begin(), scope = tc_scope_begin();
    cli_amp_begin(c);
    tc_tensor loss = loss_of(arg, step % n * each, each);
    cli_amp_end(c);
    cli_check(tc_backward(tc_grad_scaler_scale(scaler, loss)));
    cli_check(tc_grad_scaler_step(scaler, opt));
    cli_check(tc_grad_scaler_update(scaler));
    cli_check(tc_zero_grad(opt));
    tc_keep(loss);
    tc_scope_end(scope);  // nothing old is held: parameters change in place
    cli_check(tc_item_f32(loss, &value));
    tc_scope_end(outer);
    printf("%.9g\n", isnan(value) ? NAN : (double)value);
    cli_flush();
    cli_progress("steps", step + 1, c->train);
  }
  tc_grad_scaler_destroy(scaler);
}
