// Planning and compiling that take long say so while they last, once a sync point, and nothing is
// said of what is quick.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/watch.h"
#include "tests/expect.h"

static char said[1 << 16];
static atomic_int n_said;
static atomic_bool lasts, told_while_it_lasted;

static void listen(const char *line, void *arg) {
  (void)arg;
  if (!strstr(line, " takes long: ")) return;
  snprintf(said, sizeof said, "%s", line);
  if (atomic_load(&lasts)) atomic_store(&told_while_it_lasted, true);
  atomic_fetch_add(&n_said, 1);
}

// The thread that looks may sleep for as long as the former limit.
static void watch_for(uint64_t ns) {
  tc_watch_stop();
  atomic_store(&tc_watch_limit_ns, ns);
  atomic_store(&n_said, 0);
  atomic_store(&told_while_it_lasted, false);
}

static void wait_ms(int ms) {
  usleep((useconds_t)ms * 1000);
}

// What a plan's making is to the watch, with the time that is wanted.
static void lasting(int ms, bool compiles) {
  tc_watch w;
  tc_watch_begin(&w, 12345);
  if (compiles) tc_watch_doing("compiling", 67, "kernels");
  atomic_store(&lasts, true);
  wait_ms(ms);
  atomic_store(&lasts, false);
  tc_watch_end(&w);
}

static void what_is_long_is_told_once_while_it_lasts(void) {
  for (int compiles = 0; compiles < 2; compiles++) {
    watch_for(UINT64_C(30000000));
    lasting(400, compiles);
    EXPECT(atomic_load(&n_said) == 1 && atomic_load(&told_while_it_lasted), "%d lines", atomic_load(&n_said));
    EXPECT(strstr(said, compiles ? "compiling 67 kernels takes long: 0." : "planning 12345 nodes takes long: 0."),
           "the log says %s", said);
  }
  lasting(400, false);  // another one is told again, by the same thread or a new one
  EXPECT(atomic_load(&n_said) == 2, "%d lines", atomic_load(&n_said));
  tc_watch_stop();
  lasting(400, false);
  EXPECT(atomic_load(&n_said) == 3, "%d lines", atomic_load(&n_said));
}

static void quick_ones_are_silent(void) {
  watch_for(UINT64_C(10000000000));
  for (int i = 0; i < 50; i++) lasting(1, i % 2);
  EXPECT(atomic_load(&n_said) == 0, "the log says %s", said);
}

// A plan that takes longer than a limit of nothing: which call it is for, and where.
static void a_plan_names_its_call(void) {
  tc_scope s = tc_scope_begin();
  watch_for(0);
  for (int i = 0; i < 50 && atomic_load(&n_said) == 0; i++) {
    tc_tensor y = tc_ones(TC_SHAPE(3), TC_F32);
    for (int k = 0; k < 3000 + i; k++) y = tc_sin(y);
    EXPECT_OK(tc_eval(1, &y));
  }
  EXPECT(atomic_load(&n_said) > 0, "nothing is said");
  EXPECT(strstr(said, "for eval at ") && strstr(said, "long_planning.c:"), "the log says %s", said);
  tc_scope_end(s);
}

int main(void) {
  tc_set_log(listen, NULL);
  EXPECT(TC_WATCH_LIMIT_NS == 2000000000, "not 2 s");
  tc_tensor first = tc_ones(TC_SHAPE(1), TC_F32);
  EXPECT_OK(tc_eval(1, &first));
  what_is_long_is_told_once_while_it_lasts();
  quick_ones_are_silent();
  a_plan_names_its_call();
  watch_for(TC_WATCH_LIMIT_NS);
  tc_shutdown();
  return expect_done("planning-long_planning");
}
