// See json.h.
#include "tools/prof/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { DEPTH = 16 };

static struct {
  int depth;
  bool any[DEPTH];
  char close[DEPTH];
} state;

static void write_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      printf("\\%c", *text);
    else if (*text == '\n')
      fputs("\\n", stdout);
    else if ((unsigned char)*text < ' ' || *text == '<')  // '<': so that no text ends a page's script
      printf("\\u%04x", (unsigned)*text);
    else
      putchar(*text);
  }
  putchar('"');
}

static void begin_value(const char *key) {
  if (state.any[state.depth]) putchar(',');
  if (state.depth) printf("\n%*s", 2 * state.depth, "");
  state.any[state.depth] = true;
  if (!key) return;
  write_text(key);
  fputs(": ", stdout);
}

static void begin_group(const char *key, char open, char close) {
  begin_value(key);
  putchar(open);
  if (state.depth + 1 >= DEPTH) return;
  state.depth++;
  state.any[state.depth] = false;
  state.close[state.depth] = close;
}

void tc_json_object(const char *key) {
  begin_group(key, '{', '}');
}

void tc_json_array(const char *key) {
  begin_group(key, '[', ']');
}

void tc_json_end(void) {
  bool any = state.any[state.depth];
  char close = state.close[state.depth];
  if (state.depth > 0) state.depth--;
  if (any) printf("\n%*s", 2 * state.depth, "");
  putchar(close);
  if (state.depth > 0) return;
  putchar('\n');
  state.any[0] = false;
}

void tc_json_text(const char *key, const char *text) {
  begin_value(key);
  write_text(text);
}

void tc_json_number(const char *key, double x) {
  begin_value(key);
  if (isfinite(x))
    printf("%.9g", x);
  else
    fputs("null", stdout);
}

void tc_json_us(const char *key, double ns) {
  begin_value(key);
  printf("%.3f", isfinite(ns) ? ns * 1e-3 : 0);
}

void tc_json_numbers(const char *key, const double *x, int n) {
  begin_value(key);
  for (int i = 0; i < n; i++) printf("%c%.9g", i ? ',' : '[', isfinite(x[i]) ? x[i] : 0);
  fputs(n ? "]" : "[]", stdout);
}

void tc_json_count(const char *key, uint64_t n) {
  begin_value(key);
  printf("%" PRIu64, n);
}

void tc_json_bool(const char *key, bool is) {
  begin_value(key);
  fputs(is ? "true" : "false", stdout);
}

void tc_json_hash(const char *key, uint64_t hash) {
  begin_value(key);
  printf("\"%016" PRIx64 "\"", hash);
}
