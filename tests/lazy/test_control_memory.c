// What control flow holds: a checkpoint holds less than its region, a scan's gradient no more with
// more ops in its body, and steps in a row take no more memory. Public API only.
#include <criterion/criterion.h>
#include <tc/control.h>
#include <tc/tc.h>

#define OK(call) cr_assert_eq((call), TC_OK, "%s", tc_last_error()->message)

enum { ROWS = 256, SIZE = 256, LAYERS = 6 };

static size_t latest_peak(void) {
  tc_sync_point p;
  cr_assert_eq(tc_sync_points(1, &p), 1);
  return p.peak_bytes;
}

static tc_status block(void *user, const tc_tensor *in, tc_tensor *out) {
  tc_tensor h = tc_matmul(in[0], *(const tc_tensor *)user);
  for (int i = 0; i < 4; i++) h = tc_gelu(tc_matmul(tc_softmax(h, 1), *(const tc_tensor *)user));
  out[0] = tc_add(h, in[0]);
  return TC_OK;
}

static size_t peak_of_layers(bool checkpoint) {
  tc_tensor w = tc_param(tc_full(TC_SHAPE(SIZE, SIZE), 0.01, TC_F32)), x = tc_ones(TC_SHAPE(ROWS, SIZE), TC_F32), g;
  OK(tc_eval(2, (tc_tensor[]){w, x}));
  tc_trim();  // no larger memory is taken again
  tc_scope s = tc_scope_begin();
  tc_tensor h = x;
  for (int i = 0; i < LAYERS; i++)
    if (checkpoint)
      OK(tc_checkpoint(block, &w, &h, 1, &h, 1));
    else
      OK(block(&w, &h, &h));
  OK(tc_grads_of(tc_mean(h, TC_ALL, false), &w, 1, &g, 0));
  OK(tc_eval(1, &g));
  size_t peak = latest_peak();
  tc_scope_end(s);
  tc_release(w);
  return peak;
}

Test(control_memory, a_checkpoint_takes_less_memory_than_its_region) {
  size_t plain = peak_of_layers(false), less = peak_of_layers(true);
  cr_assert_lt(less, plain * 6 / 10, "%zu bytes, the regions %zu", less, plain);
}

static tc_status cell(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_tanh(tc_add(tc_matmul(in[0], *(const tc_tensor *)user), in[1]));
  return TC_OK;
}

Test(control_memory, scans_of_ever_other_lengths_hold_no_more) {
  tc_tensor w = tc_param(tc_full(TC_SHAPE(16, 16), 0.01, TC_F32)), h = tc_zeros(TC_SHAPE(2, 16), TC_F32);
  size_t held[2] = {0};
  for (int i = 0; i < 300; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor xs = tc_ones(TC_SHAPE(1 + i % 150, 2, 16), TC_F32), out, g;
    OK(tc_scan(cell, &w, &h, 1, &xs, 1, &out, 0, NULL));
    OK(tc_grads_of(tc_sum(out, TC_ALL, false), &w, 1, &g, 0));
    OK(tc_eval(1, &g));
    tc_scope_end(s);
    if (i % 150 == 149) held[i / 150] = tc_memory_stats().live_bytes;
  }
  cr_assert_leq(held[1], held[0]);
  tc_release(w);
}
