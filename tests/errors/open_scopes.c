// A forgotten tc_scope_end is told at the next sync point, with the lines where scopes were begun;
// temporaries that pile up because there is no scope are told once in the log, and those of
// programs with scopes, or of programs that keep a few values a step, never.
#include <string.h>

#include "tests/child.h"
#include "tests/expect.h"

static int n_warnings;
static char warning[512];

static void sink(const char *line, void *arg) {
  (void)arg;
  if (!strstr(line, "temporaries")) return;
  n_warnings++;
  snprintf(warning, sizeof warning, "%s", line);
}

static tc_status step(tc_tensor x, int line_of_two) {
  float v;
  tc_tensor mean = tc_mean(tc_square(tc_add(x, 1)), TC_ALL, false);
  return line_of_two ? tc_item_f32(mean, &v) : tc_item_f32(tc_neg(mean), &v);
}

// The first begin without an end is in the loop, or the loop is inside a scope that is ended later.
static void a_forgotten_end_is_told(bool inside) {
  char first[64], loop[64];
  tc_tensor x = tc_retain(tc_ones(TC_SHAPE(8), TC_F32));
  tc_scope outer = {0, 0}, s = {0, 0};
  if (inside) outer = tc_scope_begin();
  snprintf(first, sizeof first, "since %s:%d", __FILE__, __LINE__ - 1);
  int n_ok = 0;
  while (n_ok < 400) {
    s = tc_scope_begin();
    if (step(x, 0) != TC_OK) break;
    if (n_ok++ == 0 && !inside) outer = s;
  }
  snprintf(loop, sizeof loop, "since %s:%d", __FILE__, __LINE__ - 4);
  const char *message = tc_last_error()->message;
  EXPECT(s.depth == 0 && n_ok == 256 - inside && tc_last_error()->status == TC_ERR_STATE, "%d steps were ok", n_ok);
  EXPECT(strstr(message, inside ? first : loop) && strstr(message, loop), "should name %s and %s", first, loop);
  // Told at every sync point that follows a begin, until scopes end; the message is of the begin.
  (void)tc_scope_begin();
  EXPECT(tc_sync(NULL) == TC_ERR_STATE, "a second one is silent");
  EXPECT_OK(tc_sync(NULL));
  tc_clear_error();
  tc_scope_end(outer);
  tc_clear_error();
  s = tc_scope_begin();
  EXPECT_OK(step(x, 0));
  tc_scope_end(s);
  EXPECT(tc_last_error()->status == TC_OK, "scopes do not begin again");
  tc_release(x);
}

enum loop { NO_SCOPE, A_SCOPE_AROUND, TWO_LINES, BY_TURNS, SCOPES, FEW_KEPT, RELEASED, GROWING };

// How many warnings a loop of so many steps gives, in a process of its own.
static int warnings_of(enum loop kind) {
  tc_set_log(sink, NULL);
  tc_tensor x = tc_retain(tc_ones(TC_SHAPE(8), TC_F32));
  tc_scope around = {0, 0}, s = {0, 0};
  if (kind == A_SCOPE_AROUND || kind == FEW_KEPT || kind == RELEASED) around = tc_scope_begin();
  for (int i = 0; i < 600; i++) {
    if (kind >= SCOPES) s = tc_scope_begin();
    for (int k = 0; kind == GROWING && k < i; k++) (void)tc_add(x, k);
    EXPECT_OK(step(x, (kind == TWO_LINES && i % 2) || (kind == BY_TURNS && i / 100 % 2)));
    if (kind == FEW_KEPT) tc_keep(tc_add(x, i));
    for (int k = 0; kind == RELEASED && k < 8; k++) tc_release(tc_keep(tc_add(x, k)));
    tc_scope_end(s);
  }
  tc_scope_end(around);
  tc_release(x);
  bool names = strstr(warning, __FILE__ ":") && (kind != A_SCOPE_AROUND || strstr(warning, "in the scope begun at"));
  return n_warnings && !names ? 99 : n_warnings;
}

static int in_process(const void *arg) {
  int n = warnings_of(*(const enum loop *)arg);
  return child_failed() ? 98 : n;
}

int main(void) {
  static const int want[] = {[NO_SCOPE] = 1, [A_SCOPE_AROUND] = 1, [TWO_LINES] = 1, [BY_TURNS] = 1,
                             [SCOPES] = 0,   [FEW_KEPT] = 0,       [RELEASED] = 0,  [GROWING] = 0};
  for (enum loop kind = NO_SCOPE; kind <= GROWING; kind++) {
    int n = child_status(in_process, &kind);
    EXPECT(n == want[kind], "loop %d: %d warnings, should be %d", (int)kind, n, want[kind]);
  }
  a_forgotten_end_is_told(false);
  a_forgotten_end_is_told(true);
  return expect_done("errors-open_scopes");
}
