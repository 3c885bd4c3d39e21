// Levenshtein's distance with swaps (optimal string alignment), row by row. See edits.h.
#include "runtime/edits.h"

#include "runtime/status.h"

size_t tc_edits(const char *a, size_t n_a, const char *b, size_t n_b) {
  size_t rows[3][TC_EDITS_BYTES + 1], *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= n_b; j++) row[j] = j;
  for (size_t i = 1; i <= n_a; i++) {
    size_t *spare = before;
    before = last, last = row, row = spare;
    row[0] = i;
    for (size_t j = 1; j <= n_b; j++) {
      row[j] = TC_MIN(last[j - 1] + (a[i - 1] != b[j - 1]), TC_MIN(row[j - 1], last[j]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = TC_MIN(row[j], before[j - 2] + 1);
    }
  }
  return row[n_b];
}
