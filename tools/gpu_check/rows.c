// Rows: running them, and the file they are in. A line is an object of one level whose strings hold
// no quotes, so it is read by looking for its keys.
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/gpu_check/check.h"

enum { LINE_BYTES = 2048 };
static bool left;  // a row had no time

// ---- Lines ----

// The value of a key, without quotes.
static bool field(const char *line, const char *key, char *out, size_t bytes) {
  char pattern[64];
  snprintf(pattern, sizeof pattern, "\"%s\": ", key);
  const char *at = strstr(line, pattern);
  if (!at) return false;
  at += strlen(pattern);
  bool quoted = *at == '"';
  size_t n = quoted ? strcspn(++at, "\"") : strcspn(at, ",}");
  snprintf(out, bytes, "%.*s", (int)n, at);
  return true;
}

static bool field_is(const char *line, const char *key, const char *want) {
  char text[300];
  return field(line, key, text, sizeof text) && strcmp(text, want) == 0;
}

static double number(const char *line, const char *key) {
  char text[64];
  return field(line, key, text, sizeof text) && strcmp(text, "null") != 0 ? strtod(text, NULL) : (double)NAN;
}

static void date_now(char *out, size_t bytes) {
  time_t t = time(NULL);
  struct tm tm;
  strftime(out, bytes, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
}

// Of this part, device, driver and size.
static bool is_ours(const char *line) {
  const char part[2] = {check.part, 0};
  return field_is(line, "part", part) && field_is(line, "device", check.hardware) &&
         field_is(line, "driver", check.driver) && field_is(line, "small", check.small ? "true" : "false");
}

// The last line of that name into out; false if there is none.
static bool find(const char *name, char *out) {
  char line[LINE_BYTES];
  bool found = false;
  FILE *f = fopen(check.json, "r");
  while (f && fgets(line, sizeof line, f))
    if (is_ours(line) && field_is(line, "name", name)) strcpy(out, line), found = true;
  if (f) fclose(f);
  return found;
}

static void put_text(FILE *out, const char *key, const char *text) {
  fprintf(out, ", \"%s\": \"", key);
  for (; *text; text++) fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? '\'' : *text, out);
  fputc('"', out);
}

static void put_number(FILE *out, const char *key, double v) {
  if (isfinite(v))
    fprintf(out, ", \"%s\": %.6g", key, v);
  else
    fprintf(out, ", \"%s\": null", key);
}

static void put_row(const char *name, const check_row *row) {
  char date[32];
  FILE *f = fopen(check.json, "a");
  if (!f) {
    fprintf(stderr, "gpu-check: %s: %s\n", check.json, strerror(errno));
    exit(2);
  }
  bool of_roof = row->roof > 0 && isfinite(row->value);
  date_now(date, sizeof date);
  fprintf(f, "{\"part\": \"%c\"", check.part);
  put_text(f, "name", name);
  put_number(f, "value", row->value);
  put_text(f, "unit", row->unit ? row->unit : "");
  put_number(f, "roof", of_roof ? row->roof : (double)NAN);
  put_number(f, "of_roof", of_roof ? row->value / row->roof : (double)NAN);
  put_text(f, "device", check.hardware);
  put_text(f, "driver", check.driver);
  put_text(f, "date", date);
  fprintf(f, ", \"small\": %s, \"wrong\": %s", check.small ? "true" : "false", row->wrong ? "true" : "false");
  put_text(f, "note", row->note);
  fprintf(f, "}\n");
  fclose(f);
}

// ---- Running ----

// Whether a line of that name counts: it was right, or was tried in this call.
static bool is_there(const char *name) {
  char line[LINE_BYTES], date[32] = "";
  if (!find(name, line)) return false;
  return field_is(line, "wrong", "false") || (field(line, "date", date, sizeof date) && strcmp(date, check.began) >= 0);
}

static bool is_lost(void) {
  return check.gpu && tc_gpu_wait(check.gpu) != TC_OK;
}

void check_do(const char *name, check_fn *fn, const void *arg) {
  if ((check.only && !strstr(name, check.only)) || is_there(name)) return;
  if (check_now() > check.until) {
    left = true;
    return;
  }
  printf("begin %s\n", name);  // to the process that waits for this one
  fflush(stdout);
  check_row row = {.value = NAN, .unit = ""};
  tc_clear_error();
  if (tc_set_default_device(check.device) == TC_OK) {
    tc_scope scope = tc_scope_begin();
    fn(&row, arg);
    tc_scope_end(scope);
  } else {
    (void)check_ok(&row, tc_last_error()->status);
  }
  bool lost = is_lost();
  if (lost && !row.wrong) check_wrong(&row, "the device is lost: %s", tc_last_error()->message);
  if (row.skipped && !row.wrong) {
    fprintf(stderr, "%s: skipped: %s\n", name, row.note);
    return;
  }
  put_row(name, &row);
  if (row.wrong) fprintf(stderr, "%s: WRONG: %s\n", name, row.note);
  if (lost) exit(CHECK_LOST);
}

int check_rows_status(void) {
  return left ? CHECK_LEFT : CHECK_DONE;
}

void check_write_dead(const char *name, const char *why) {
  check_row row = {.value = NAN, .unit = "", .wrong = true};
  snprintf(row.note, sizeof row.note, "%s", why);
  put_row(name, &row);
  fprintf(stderr, "%s: WRONG: %s\n", name, why);
}

bool check_wrong(check_row *row, const char *fmt, ...) {
  va_list args;
  if (row->wrong) return false;  // the first reason stays
  va_start(args, fmt);
  vsnprintf(row->note, sizeof row->note, fmt, args);
  va_end(args);
  row->wrong = true;
  return false;
}

void check_skip(check_row *row, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vsnprintf(row->note, sizeof row->note, fmt, args);
  va_end(args);
  row->skipped = true;
}

bool check_ok(check_row *row, tc_status st) {
  return st == TC_OK || check_wrong(row, "%s: %s", tc_status_text(st), tc_last_error()->message);
}

void check_rate(check_row *row, double work, const char *unit, double seconds, double roof) {
  if (seconds < 0) check_wrong(row, "%s", tc_last_error()->message);
  if (seconds <= 0 || !check.timed) return;
  row->value = work / seconds, row->unit = unit, row->roof = roof;
}

void check_time(check_row *row, const char *unit, double seconds) {
  if (seconds < 0) check_wrong(row, "%s", tc_last_error()->message);
  if (seconds < 0 || !check.timed) return;
  row->value = seconds * (strcmp(unit, "us") == 0 ? 1e6 : strcmp(unit, "ms") == 0 ? 1e3 : 1), row->unit = unit;
}

double check_value_of(const char *name) {
  char line[LINE_BYTES];
  double v = find(name, line) ? number(line, "value") : 0;
  return isfinite(v) ? v : 0;
}

// ---- The table ----

// Whether a later line of the file has the name of this one.
static bool is_repeated(FILE *f, const char *line) {
  char name[200], later[LINE_BYTES];
  long at = ftell(f);
  bool repeated = false;
  (void)field(line, "name", name, sizeof name);
  while (!repeated && fgets(later, sizeof later, f)) repeated = is_ours(later) && field_is(later, "name", name);
  fseek(f, at, SEEK_SET);
  return repeated;
}

static void print_line(const char *line) {
  char name[200] = "", unit[32] = "", note[420] = "", value[48] = "", share[32] = "";
  double v = number(line, "value"), of_roof = number(line, "of_roof");
  (void)field(line, "name", name, sizeof name);
  (void)field(line, "unit", unit, sizeof unit);
  (void)field(line, "note", note, sizeof note);
  if (isfinite(v)) snprintf(value, sizeof value, "%.4g %s", v, unit);
  if (isfinite(of_roof)) snprintf(share, sizeof share, "%.1f %%", 100 * of_roof);
  printf("%-52s %16s %8s  %s%s%s%s\n", name, value, share, field_is(line, "wrong", "true") ? "WRONG" : "right",
         check.timed ? "" : ", simulated", note[0] ? ": " : "", note);
}

bool check_table(void) {
  char line[LINE_BYTES];
  int n = 0, n_wrong = 0;
  FILE *f = fopen(check.json, "r");
  printf("part %c of gpu-check%s\n  %s\n  %s\n", check.part, check.small ? ", small" : "", check.hardware,
         check.driver);
  while (f && fgets(line, sizeof line, f)) {
    if (!is_ours(line) || is_repeated(f, line)) continue;
    print_line(line);
    n++, n_wrong += field_is(line, "wrong", "true");
  }
  if (f) fclose(f);
  printf("%d rows, %d wrong%s\n", n, n_wrong, check.timed ? "" : "; the device is simulated: no time was taken");
  return n > 0 && n_wrong == 0;
}
