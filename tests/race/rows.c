// Race check of rows that the team makes in shares, and of kernels that draw, a plain program for
// -fsanitize=thread: scans, scatters, indices and dropout on several threads, with the bits of one
// thread.
#include <string.h>

#include "tests/expect.h"

enum { ROWS = 600, COLUMNS = 70, N_IDS = 5000, N_ROUNDS = 4 };

static float result[2][ROWS * COLUMNS];

// A table's gradient from looking up, dropping out and scanning; everything runs in shares.
static void step(float *out) {
  tc_seed(9);
  tc_scope scope = tc_scope_begin();
  tc_tensor table = tc_param(tc_rand(TC_SHAPE(ROWS, COLUMNS), TC_F32)),
            ids = tc_randint(-ROWS, ROWS, TC_SHAPE(N_IDS), TC_I64);
  tc_tensor looked_up = tc_dropout(tc_embedding(table, ids), 0.2), scanned = tc_cumsum(tc_cumsum(looked_up, 0), 1);
  tc_tensor put = tc_scatter_add(tc_zeros(TC_SHAPE(ROWS), TC_F32), 0, ids, tc_select(scanned, 1, 3));
  EXPECT_OK(tc_backward(tc_add(tc_mean(scanned, TC_ALL, false), tc_mean(put, TC_ALL, false))));
  EXPECT_OK(tc_to_host(tc_grad(table), out, sizeof result[0]));
  tc_release(table);
  tc_scope_end(scope);
}

int main(void) {
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT_OK(tc_set_num_threads(1));
  step(result[0]);
  tc_cache_clear();  // a plan's shares are those of the threads there were
  EXPECT_OK(tc_set_num_threads(4));
  for (int i = 0; i < N_ROUNDS; i++) {
    step(result[1]);
    EXPECT(memcmp(result[0], result[1], sizeof result[0]) == 0, "round %d has other bits than one thread", i);
  }
  tc_shutdown();
  return expect_done("rows");
}
