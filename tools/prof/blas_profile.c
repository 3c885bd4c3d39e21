// See blas_profile.h. docs/shim.md says what the columns are.
#include "tools/prof/blas_profile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { USUAL_ROWS = 20, SITE_COLUMNS = 37 };

// The numbers of a line, by their keys.
typedef enum number {
  PID,
  OFFSET,
  CALLS,
  DIRECT,
  SIZE,
  SECONDS,
  GFLOPS,
  OF_PEAK,
  FLOPS,
  SHAPES,
  STRIDED,
  BYTES,
  NEW_BYTES,
  MOVED_BYTES,
  DEVICE_S,
  STAYING_S,
  WALL_S,
  BLAS_S,
  PEAK_GFLOPS,
  BUS_GB_S,
  DEVICE_GFLOPS,
  N_NUMBERS,
} number;
static const char *const keys[N_NUMBERS] = {
    "pid",    "offset", "calls",       "direct",   "size",         "seconds",     "gflops",   "of_peak",
    "flops",  "shapes", "strided",     "bytes",    "new_bytes",    "moved_bytes", "device_s", "device_staying_s",
    "wall_s", "blas_s", "peak_gflops", "bus_gb_s", "device_gflops"};

typedef struct blas_row {
  bool is_process;
  double value[N_NUMBERS];
  char program[160], module[80], symbol[80], name[40];
} blas_row;

typedef struct blas_rows {
  blas_row *row;
  size_t n, n_wrong;
} blas_rows;

// ---- Lines ----

// The value of a key, or NULL.
static const char *find_value(const char *line, const char *key) {
  char quoted[40];
  int n = snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(line, quoted);
  if (!at) return NULL;
  at += n;
  return at + strspn(at, " ");
}

static void take_text(const char *line, const char *key, char *out, size_t bytes) {
  const char *at = find_value(line, key);
  size_t n = 0;
  if (at && *at == '"')
    for (at++; *at && *at != '"' && n < bytes - 1; at++) {
      if (*at == '\\' && at[1]) at++;
      out[n++] = (unsigned char)*at >= ' ' && (unsigned char)*at < 127 ? *at : '?';
    }
  out[n] = 0;
}

static bool parse_line(const char *line, blas_row *out) {
  char kind[16];
  *out = (blas_row){0};
  take_text(line, "kind", kind, sizeof kind);
  out->is_process = strcmp(kind, "process") == 0;
  if (!out->is_process && strcmp(kind, "site") != 0) return false;
  for (int i = 0; i < N_NUMBERS; i++) {
    const char *at = find_value(line, keys[i]);
    out->value[i] = at ? strtod(at, NULL) : 0;
  }
  take_text(line, "program", out->program, sizeof out->program);
  take_text(line, "module", out->module, sizeof out->module);
  take_text(line, "symbol", out->symbol, sizeof out->symbol);
  take_text(line, "name", out->name, sizeof out->name);
  return true;
}

static bool read_rows(FILE *in, blas_rows *out) {
  char *line = NULL;
  size_t room = 0, most = 0;
  *out = (blas_rows){0};
  while (getline(&line, &room, in) > 0) {
    if (out->n == most) {
      most = most ? 2 * most : 64;
      blas_row *more = realloc(out->row, most * sizeof *more);
      if (!more) return free(line), false;
      out->row = more;
    }
    if (parse_line(line, &out->row[out->n]))
      out->n++;
    else
      out->n_wrong++;
  }
  free(line);
  return true;
}

// ---- The table ----

static int by_time(const void *a, const void *b) {
  const blas_row *x = a, *y = b;
  if (x->is_process != y->is_process) return x->is_process ? -1 : 1;
  if (x->value[SECONDS] != y->value[SECONDS]) return x->value[SECONDS] < y->value[SECONDS] ? 1 : -1;
  return strcmp(x->name, y->name);
}

static const char *show_reuse(const blas_row *r) {
  static char reuse[16];
  if (!(r->value[NEW_BYTES] > 0)) return "all";
  double times = r->value[BYTES] / r->value[NEW_BYTES];
  if (times >= 999.5) return tc_show_number(times);
  snprintf(reuse, sizeof reuse, "%.3g", times);
  return reuse;
}

// A range of sizes in 10 columns: of large ones, which are lengths of level 1, the exponents.
static void show_sizes(char *out, size_t bytes, double size) {
  if (size < 16384)
    snprintf(out, bytes, "%.0f-%.0f", size, 2 * size - 1);
  else
    snprintf(out, bytes, "2^%.0f-2^%.0f", logb(size), logb(size) + 1);
}

// Where the calls are, and which of them libtc did.
static void print_site(const blas_row *r) {
  char where[170], mark[40] = "";
  const double *v = r->value;
  int module = (int)strcspn(r->module, ".");
  if (r->symbol[0])
    snprintf(where, sizeof where, "%.*s %s", module, r->module, r->symbol);
  else
    snprintf(where, sizeof where, "%.*s+0x%llx", module, r->module, (unsigned long long)v[OFFSET]);
  if (v[DIRECT] > 0 && v[DIRECT] == v[CALLS])
    snprintf(mark, sizeof mark, " by libtc");
  else if (v[DIRECT] > 0)
    snprintf(mark, sizeof mark, " %s by libtc", tc_show_number(v[DIRECT]));
  int room = SITE_COLUMNS - (int)strlen(mark);
  printf("  %-*.*s%s", v[SIZE] > 0 ? room : 0, room, where, mark);
}

static void print_row(const blas_row *r, double wall) {
  char sizes[40] = "";
  const double *v = r->value;
  bool is_read = v[SIZE] > 0;
  if (is_read) show_sizes(sizes, sizeof sizes, v[SIZE]);
  const char *name = strlen(r->name) > 17 && strncmp(r->name, "scipy_", 6) == 0 ? r->name + 6 : r->name;
  printf("%-17.17s %-10.10s %5s", name, sizes, tc_show_number(v[CALLS]));
  if (is_read)
    printf(" %7s %5s %6s %5s %6s %5s %5s\n", tc_show_ns(v[SECONDS] * 1e9), tc_show_share(v[SECONDS], wall),
           tc_show_number(v[GFLOPS]), tc_show_share(v[OF_PEAK], 1), tc_show_number(v[SHAPES]),
           tc_show_share(v[STRIDED], v[CALLS]), show_reuse(r));
  else
    printf("   arguments not read\n");
  print_site(r);
  if (is_read) printf(" device %s, if operands stay %s", tc_show_ns(v[DEVICE_S] * 1e9), tc_show_ns(v[STAYING_S] * 1e9));
  putchar('\n');
}

static void print_process(const blas_rows *all, const blas_row *process, const tc_prof_options *o) {
  const double *v = process->value;
  size_t n = 0, shown = 0;
  const char *slash = strrchr(process->program, '/');
  for (size_t i = 0; i < all->n; i++) n += !all->row[i].is_process && all->row[i].value[PID] == v[PID];
  size_t rows = tc_prof_rows(o, USUAL_ROWS, n);
  printf("%s (%.0f): %.0f calls of BLAS took %s, %s of %s; libtc did %.0f\n",
         tc_show_colour(TC_BOLD, slash ? slash + 1 : process->program), v[PID], v[CALLS], tc_show_ns(v[BLAS_S] * 1e9),
         tc_show_share(v[BLAS_S], v[WALL_S]), tc_show_ns(v[WALL_S] * 1e9), v[DIRECT]);
  printf(
      "peak %.0f GFLOP/s in f64; a device of %g TFLOP/s and %g GB/s for rows that gain:\n%s with copies for each call, %s if operands stay\n",
      v[PEAK_GFLOPS], v[DEVICE_GFLOPS] * 1e-3, v[BUS_GB_S], tc_show_ns(v[DEVICE_S] * 1e9),
      tc_show_ns(v[STAYING_S] * 1e9));
  printf("routine           sizes      calls    time share GFLOPS  peak shapes  gaps reuse\n");
  for (size_t i = 0; i < all->n && shown < rows; i++) {
    if (all->row[i].is_process || all->row[i].value[PID] != v[PID]) continue;
    print_row(&all->row[i], v[WALL_S]);
    shown++;
  }
  if (rows < n) printf("%zu more: --all\n", n - rows);
}

static void json_row(const blas_row *r) {
  tc_json_object(NULL);
  tc_json_text("kind", r->is_process ? "process" : "site");
  if (r->is_process) {
    tc_json_text("program", r->program);
  } else {
    tc_json_text("module", r->module);
    tc_json_text("symbol", r->symbol);
    tc_json_text("name", r->name);
  }
  for (int i = 0; i < N_NUMBERS; i++) tc_json_number(keys[i], r->value[i]);
  tc_json_end();
}

bool tc_blas_profile_is(const char *path) {
  char begin[10] = {0};
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;  // to open a pipe may wait for ever
  FILE *in = fopen(path, "re");
  bool is = in && fread(begin, 1, sizeof begin - 1, in) && strncmp(begin, "{\"kind\":", 8) == 0;
  if (in) fclose(in);
  return is;
}

int tc_blas_profile_print(const char *path, const tc_prof_options *o) {
  blas_rows all = {0};
  FILE *in = fopen(path, "re");
  if (!in) return fprintf(stderr, "tc-prof: %s cannot be read: %s\n", path, strerror(errno)), 1;
  bool ok = read_rows(in, &all);
  fclose(in);
  if (!ok) fprintf(stderr, "tc-prof: no memory for what %s holds\n", path);
  if (ok && all.n) qsort(all.row, all.n, sizeof *all.row, by_time);
  if (ok && o->json) {
    tc_json_object(NULL);
    tc_json_text("command", "blas");
    tc_json_text("file", path);
    tc_json_array("rows");
    for (size_t i = 0; i < all.n; i++) json_row(&all.row[i]);
    tc_json_end();
    tc_json_end();
  }
  for (size_t i = 0; ok && !o->json && i < all.n && all.row[i].is_process; i++) {
    if (i) putchar('\n');
    print_process(&all, &all.row[i], o);
  }
  if (ok && all.n_wrong) {
    fflush(stdout);
    fprintf(stderr, "tc-prof: %zu lines of %s are no records\n", all.n_wrong, path);
  }
  free(all.row);
  return !ok || all.n_wrong != 0;
}
