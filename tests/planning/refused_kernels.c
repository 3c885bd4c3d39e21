// Kernels that the code generator refuses are interpreted: values are right, each kernel is told of
// once, and no error is left. The plug-in is tests/preload/refusing_plugin.c.
#include <stdlib.h>
#include <string.h>

#include "runtime/options.h"
#include "tests/expect.h"

static char said[1 << 16];
static size_t n_said;

static void listen(const char *line, void *arg) {
  (void)arg;
  n_said += (size_t)snprintf(said + n_said, sizeof said - n_said, "%s\n", line);
  if (n_said > sizeof said / 2) n_said = 0;
}

static int count_said(const char *text) {
  int n = 0;
  for (const char *at = said; (at = strstr(at, text)); at++) n++;
  return n;
}

// Stores two values of different shapes, so one program makes two kernels.
static void run(void) {
  float a[3], b[5];
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_add(tc_arange(0, 3, 1, TC_F32), 1), y = tc_mul(tc_arange(0, 5, 1, TC_F32), 2);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, y}));
  EXPECT_OK(tc_to_host(x, a, sizeof a));
  EXPECT_OK(tc_to_host(y, b, sizeof b));
  for (int i = 0; i < 3; i++) EXPECT(a[i] == (float)(i + 1), "x[%d] is %g", i, (double)a[i]);
  for (int i = 0; i < 5; i++) EXPECT(b[i] == (float)(2 * i), "y[%d] is %g", i, (double)b[i]);
  tc_scope_end(s);
}

int main(void) {
  const char *plugin = getenv("REFUSING_PLUGIN");
  if (!plugin) return 77;
  setenv("TC_LLVM_PATH", plugin, 1);
  setenv("TC_INTERPRET_FIRST", "0", 1);
  setenv("TC_CACHE_BYTES", "0", 1);
  unsetenv("TC_COMPILER");
  tc_set_log(listen, NULL);
  run();
  tc_sync_point p[4];
  int n = tc_sync_points(4, p);
  for (int i = 0; i < n; i++) EXPECT(p[i].n_kernels == 0 || strcmp(p[i].tier, "interp") == 0, "a run is %s", p[i].tier);
  EXPECT(count_said(" is interpreted: ") == 2 && count_said("this generator refuses it") == 2, "the log says:\n%s",
         said);
  EXPECT(tc_last_error()->status == TC_OK, "an error is left: %s", tc_last_error()->message);
  run();
  EXPECT(count_said("\n") == 2, "the log says:\n%s", said);
  tc_set_log(NULL, NULL);
  return expect_done("planning-refused_kernels");
}
