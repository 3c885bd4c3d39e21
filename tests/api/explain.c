// What a program asks of its own sync points: tc_explain, tc_expect_syncs, tc_metrics_get; and
// TC_SYNC=error, in a process of its own.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/expect.h"

typedef struct job {
  int n_reads;
  tc_status status;
} job;

// Reads n_reads sums, and leaves an addition pending.
static tc_status work(void *user) {
  const job *j = user;
  tc_tensor a = tc_full(TC_SHAPE(8, 8), 2, TC_F32);
  for (int i = 0; i < j->n_reads; i++) {
    float x = 0;
    EXPECT_OK(tc_item(tc_sum(tc_mul(a, a), TC_ALL, false), &x));
    EXPECT(x == 256, "%g", (double)x);
  }
  (void)tc_add(a, a);
  return j->status;
}

// A read, an explanation within of one read and a rest, and a rest of its own.
static tc_status nested(void *user) {
  float x;
  EXPECT_OK(tc_item(tc_neg(tc_ones(TC_SHAPE(1), TC_F32)), &x));
  EXPECT_OK(tc_explain(work, &(job){1, TC_OK}, user));
  (void)tc_neg(tc_ones(TC_SHAPE(2), TC_F32));
  return TC_OK;
}

static void check_explain(void) {
  static tc_explanation e, inner;
  tc_scope s = tc_scope_begin();
  (void)tc_neg(tc_ones(TC_SHAPE(4), TC_F32));  // pending: not work's
  EXPECT_OK(tc_explain(work, &(job){3, TC_OK}, &e));
  EXPECT(e.n_syncs == 4 && e.n_kept == 4, "%llu", (unsigned long long)e.n_syncs);
  EXPECT(e.n_graphs >= 2 && e.n_graphs <= e.n_syncs && e.n_new <= e.n_syncs, "%llu", (unsigned long long)e.n_graphs);
  EXPECT(e.n_kernels >= 4 && e.bytes > 0 && e.ns > 0, "%llu", (unsigned long long)e.n_kernels);
  uint64_t n_nodes = 0;
  for (int i = 0; i < e.n_kept; i++) {
    char place[160];
    tc_site_text(e.sync[i].site, place, sizeof place);
    EXPECT(strstr(place, "explain.c:") != NULL, "%s", place);
    EXPECT(strcmp(e.sync[i].cause, i < 3 ? "item" : "sync") == 0, "%s", e.sync[i].cause);
    n_nodes += e.sync[i].n_nodes;
  }
  EXPECT(n_nodes == e.n_nodes, "%llu", (unsigned long long)e.n_nodes);
  EXPECT_OK(tc_explain(work, &(job){100, TC_OK}, &e));
  EXPECT(e.n_syncs == 101 && e.n_kept == TC_EXPLAIN_SYNCS, "%llu", (unsigned long long)e.n_syncs);
  EXPECT_OK(tc_explain(work, &(job){0, TC_OK}, &inner));
  EXPECT(inner.n_syncs == 1 && e.n_syncs == 101, "%llu", (unsigned long long)inner.n_syncs);
  EXPECT(tc_explain(work, &(job){1, TC_ERR_IO}, &e) == TC_ERR_IO && e.n_syncs == 2, "%llu",
         (unsigned long long)e.n_syncs);
  EXPECT_OK(tc_explain(nested, &inner, &e));
  EXPECT(inner.n_syncs == 2 && e.n_syncs == 4 && e.n_kept == 4, "%llu", (unsigned long long)e.n_syncs);
  EXPECT(e.n_nodes > inner.n_nodes && e.ns > inner.ns && inner.ns > 0, "%llu", (unsigned long long)e.ns);
  EXPECT_FAILS(tc_explain(NULL, NULL, &e), TC_ERR_ARG, "fn is NULL");
  EXPECT_FAILS(tc_explain(work, NULL, NULL), TC_ERR_ARG, "out is NULL");
  tc_scope_end(s);
}

static void check_expect(void) {
  tc_scope s = tc_scope_begin();
  float x;
  EXPECT_OK(tc_expect_syncs(-1));
  EXPECT_OK(tc_expect_syncs(0));
  tc_tensor a = tc_neg(tc_ones(TC_SHAPE(1), TC_F32));
  EXPECT_OK(tc_item(a, &x));
  EXPECT_OK(tc_item(a, &x));  // it is there already
  EXPECT_OK(tc_expect_syncs(1));
  EXPECT_FAILS(tc_expect_syncs(1), TC_ERR_STATE, "1 sync points were expected, there were 0: none");
  EXPECT_OK(tc_item(tc_neg(a), &x));
  EXPECT_FAILS(tc_expect_syncs(0), TC_ERR_STATE, "there were 1: item at ");
  for (int i = 0; i < 20; i++) EXPECT_OK(tc_item(tc_neg(a), &x));
  EXPECT_FAILS(tc_expect_syncs(2), TC_ERR_STATE, "there were 20: .., item at ");
  EXPECT_OK(tc_expect_syncs(0));
  tc_scope_end(s);
}

static uint64_t metric(const char *name) {
  uint64_t value = 0;
  EXPECT_OK(tc_metrics_get(name, &value));
  return value;
}

static void check_metrics(void) {
  tc_scope s = tc_scope_begin();
  uint64_t syncs = metric("syncs"), nodes = metric("nodes"), ns = metric("sync_ns"), hits = metric("plan_hits");
  float x;
  for (int i = 0; i < 2; i++) EXPECT_OK(tc_item(tc_sum(tc_full(TC_SHAPE(3, 5), 1, TC_F32), TC_ALL, false), &x));
  EXPECT(metric("syncs") == syncs + 2, "%llu", (unsigned long long)metric("syncs"));
  EXPECT(metric("nodes") == nodes + 4, "%llu", (unsigned long long)metric("nodes"));
  EXPECT(metric("plan_hits") >= hits + 1, "%llu", (unsigned long long)metric("plan_hits"));
  EXPECT(metric("sync_ns") > ns, "%llu", (unsigned long long)metric("sync_ns"));
  int n = 0;
  const char *meaning = NULL;
  for (const char *name; (name = tc_metrics_name(n, &meaning)) != NULL; n++) {
    (void)metric(name);
    EXPECT(meaning && *meaning, "%s", name);
  }
  EXPECT(n >= 10 && !tc_metrics_name(-1, NULL), "%d", n);
  uint64_t value = 7;
  EXPECT_FAILS(tc_metrics_get("synks", &value), TC_ERR_ARG, "no metric 'synks'");
  EXPECT(value == 7, "%llu", (unsigned long long)value);
  EXPECT_FAILS(tc_metrics_get("syncs", NULL), TC_ERR_ARG, "out is NULL");
  EXPECT_FAILS(tc_metrics_get(NULL, &value), TC_ERR_ARG, "name is NULL");
  tc_scope_end(s);
}

// In a child that has TC_SYNC=error.
static int refuse(void) {
  tc_scope s = tc_scope_begin();
  float x = 0;
  tc_tensor a = tc_full(TC_SHAPE(1), 3, TC_F32), b = tc_mul(a, a);
  EXPECT_FAILS(tc_item(b, &x), TC_ERR_STATE, "TC_SYNC=error: the value is pending, a mul at ");
  EXPECT_FAILS(tc_to_host(b, &x, sizeof x), TC_ERR_STATE, "call tc_eval or tc_sync before it is read");
  EXPECT_OK(tc_eval(1, &b));  // nothing was lost
  EXPECT_OK(tc_item(b, &x));
  EXPECT(x == 9, "%g", (double)x);
  b = tc_add(b, b);
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_item(b, &x));
  EXPECT(x == 18, "%g", (double)x);
  tc_scope_end(s);
  return expect_done("api-explain, TC_SYNC=error");
}

int main(int argc, char **argv) {
  if (argc > 1) return refuse();
  check_explain();
  check_expect();
  check_metrics();
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_SYNC", "error", 1);
    execl("/proc/self/exe", argv[0], "refuse", NULL);
    _exit(9);
  }
  int status = -1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d",
         status);
  return expect_done("api-explain");
}
