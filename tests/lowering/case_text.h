// What the tests of case files share: writing a file, and the lines in which two texts differ.
// Included by one test program each, behind <criterion/criterion.h>.
// Invariants: a text has at most CASE_LINES lines; what is behind is not compared line by line.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

enum { CASE_LINES = 500 };

static void write_file(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  cr_assert(out && fputs(text, out) >= 0 && fclose(out) == 0, "%s cannot be written", path);
}

// ---- what differs ----

static int split_lines(char *text, char **line) {
  int n = 0;
  for (char *save, *l = strtok_r(text, "\n", &save); l && n < CASE_LINES; l = strtok_r(NULL, "\n", &save))
    line[n++] = l;
  return n;
}

// Lines that are expected with -, those that are there with +, common ones as they are: by the
// longest common sequence.
static void print_difference(const char *want_text, const char *got_text) {
  static int common[CASE_LINES + 1][CASE_LINES + 1];
  char *want[CASE_LINES], *got[CASE_LINES], *a = strdup(want_text), *b = strdup(got_text);
  int n = split_lines(a, want), m = split_lines(b, got), i = 0, k = 0;
  memset(common, 0, sizeof common);
  for (int x = n - 1; x >= 0; x--)
    for (int y = m - 1; y >= 0; y--)
      common[x][y] =
          strcmp(want[x], got[y]) == 0 ? common[x + 1][y + 1] + 1 : TC_MAX_OF(common[x + 1][y], common[x][y + 1]);
  while (i < n || k < m) {
    if (i < n && k < m && strcmp(want[i], got[k]) == 0)
      fprintf(stderr, "    %s\n", want[i++]), k++;
    else if (k == m || (i < n && common[i + 1][k] >= common[i][k + 1]))
      fprintf(stderr, "  - %s\n", want[i++]);
    else
      fprintf(stderr, "  + %s\n", got[k++]);
  }
  free(a), free(b);
}
