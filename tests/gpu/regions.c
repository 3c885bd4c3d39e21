// Regions on a simulated GPU: modes with and without graphs, whose plans are apart; pinned plans
// that are replayed still; and backends that need the host's memory, which are refused.
#include "tests/expect.h"
#include "tests/sim/built.h"

#define REGION(...) EXPECT_OK(tc_region_begin(&(tc_region_options){__VA_ARGS__}))

static tc_sync_point step(int n, int k) {
  tc_scope s = tc_scope_begin();
  tc_sync_point p = {0};
  float sum = 0;
  EXPECT_OK(tc_item(tc_sum(tc_mul(tc_full(TC_SHAPE(n), 3, TC_F32), 2 + k), TC_ALL, false), &sum));
  EXPECT(sum == (float)(3 * n * (2 + k)), "%g", (double)sum);
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  tc_scope_end(s);
  return p;
}

static void check_modes(void) {
  for (int run = 0; run < 4; run++) {
    REGION(.mode = "reduce-overhead");
    EXPECT(step(64, run).replayed == (run > 0), "run %d", run);
    tc_region_end();
    REGION(.mode = "max-autotune-no-cudagraphs");
    tc_sync_point p = step(64, run);
    EXPECT(!p.replayed && p.gpu_note && strstr(p.gpu_note, run ? "TC_GPU_REPLAY=0" : "first run"), "run %d: %s", run,
           p.gpu_note ? p.gpu_note : "no note");
    EXPECT(p.hit == (run > 0), "run %d", run);
    tc_region_end();
  }
  EXPECT_OK(tc_set_options(&(tc_region_options){.options = "plan_cache=4"}));
  for (int i = 0; i < 20; i++) (void)step(100 + i, 0);
  REGION(.mode = "reduce-overhead");
  EXPECT(step(64, 9).replayed, "a pinned plan has its graph still");
  tc_region_end();
  EXPECT(!step(100, 0).hit, "another one left the cache");
}

static tc_status run_nothing(const void *const *in, void *const *out, const uint64_t *scalar, void *state) {
  (void)in, (void)out, (void)scalar, (void)state;
  return TC_OK;
}

static tc_status take(const tc_graph_view *g, tc_graph_runner *out, void *user) {
  (void)user;
  EXPECT(strcmp(g->device, "tc:cuda") == 0, "%s", g->device);
  out->run = run_nothing;
  return TC_OK;
}

static void check_backends(void) {
  float x;
  REGION(.backend_fn = take);
  EXPECT_FAILS(tc_item(tc_neg(tc_ones(TC_SHAPE(1), TC_F32)), &x), TC_ERR_DEVICE, "takes memory of the host");
  REGION(.options = "suppress_errors=1");
  EXPECT_OK(tc_item(tc_neg(tc_ones(TC_SHAPE(1), TC_F32)), &x));
  EXPECT(x == -1, "%g", (double)x);
  tc_region_end();
  tc_region_end();
  REGION(.backend = "ref");
  EXPECT_FAILS(tc_item(tc_neg(tc_ones(TC_SHAPE(1), TC_F32)), &x), TC_ERR_DEVICE, "runs in the host's memory");
  tc_region_end();
  REGION(.disable = true);
  EXPECT_OK(tc_item(tc_neg(tc_ones(TC_SHAPE(1), TC_F32)), &x));
  EXPECT(x == -1, "%g", (double)x);
  tc_region_end();
}

int main(void) {
  if (!built_simulators()) return puts("no simulated GPU"), 77;
  EXPECT_OK(tc_set_default_device("tc:cuda"));
  check_modes();
  check_backends();
  tc_shutdown();
  return expect_done("gpu-regions");
}
