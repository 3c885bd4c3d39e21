// The same graph over sequences of 300 lengths: the first length is lowered, the second one makes a
// program for many lengths, and later ones are bound to it.
#include <stdio.h>
#include <tc/tc.h>

static int fail(void) {
  fprintf(stderr, "%s\n", tc_last_error()->message);
  return 1;
}

// Per place of the sequence: the softmax of tanh(w x + b), weighted by w.
static tc_tensor score(tc_tensor x, tc_tensor w, tc_tensor b) {
  tc_tensor h = tc_tanh(tc_add(tc_mul(x, w), b));  // [n, 8]
  return tc_sum(tc_mul(tc_softmax(h, 1), w), TC_SHAPE(1), false);
}

int main(void) {
  static float out[400];
  tc_tensor w = tc_linspace(-2, 2, 8, TC_F32), b = tc_linspace(0, 1, 8, TC_F32);
  if (tc_eval(2, (tc_tensor[]){w, b}) != TC_OK) return fail();
  tc_cache_info before = tc_cache_stats();
  for (int64_t n = 100; n < 400; n++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor x = tc_reshape(tc_linspace(0, 1, n, TC_F32), TC_SHAPE(n, 1));
    tc_status st = tc_to_host(score(x, w, b), out, (size_t)n * sizeof *out);
    tc_scope_end(scope);
    if (st != TC_OK) return fail();
    if (n % 100 == 0) printf("%d places: %.5f first, %.5f last\n", (int)n, (double)out[0], (double)out[n - 1]);
  }
  tc_cache_info after = tc_cache_stats();
  printf("plans lowered: %d, bound: %d\n", (int)(after.plan_misses - before.plan_misses),
         (int)(after.plan_bound - before.plan_bound));
  return 0;
}
