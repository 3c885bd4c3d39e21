// What the library says of itself is true: log topics, sync points, TC_VERIFY with and without a
// planted bug.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lazy/text/text.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "tests/expect.h"

static char said[1 << 20];  // everything logged since it was emptied
static size_t n_said;
static bool has_plugin;  // of this build

static void listen(const char *line, void *arg) {
  (void)arg;
  n_said += (size_t)snprintf(said + n_said, sizeof said - n_said, "%s\n", line);
  if (n_said > sizeof said / 2) n_said = 0;
}

static void set(const char *variable, const char *value) {
  value ? setenv(variable, value, 1) : unsetenv(variable);
  tc_options_reload();
  tc_cache_clear();
  n_said = 0, said[0] = 0;
}

static float work(float by) {
  tc_scope s = tc_scope_begin();
  float v = -1;
  tc_tensor x = tc_from_host((const float[]){1, 2, 3, 4, 5, 6, 7}, TC_SHAPE(7), TC_F32);
  EXPECT_OK(tc_item_f32(tc_sum(tc_mul(tc_slice(x, 0, 0, 7, 2), by), TC_ALL, false), &v));
  tc_scope_end(s);
  return v;
}

#define EXPECT_SAID(text) EXPECT(strstr(said, text), "the log lacks \"%s\":\n%s", text, said)

static int count_said(const char *text) {
  int n = 0;
  for (const char *at = said; (at = strstr(at, text)); at++) n++;
  return n;
}

// In a process of its own that has not looked for a compiler yet: what is said of the compiler.
static void in_child(void (*check)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int before = expect_n_failed;
    check();
    fflush(stdout);
    _exit(expect_n_failed != before);
  }
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "a child ends with %d", status);
}

#define NO_COMPILER "tc[warn] no compiler, kernels are interpreted: "

static void missing_compiler_is_told_once(void) {
  unsetenv("TC_COMPILER");
  set("TC_LLVM_PATH", "libm.so.6");  // opens, but is no compiler
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(count_said(NO_COMPILER) == 1, "the log says:\n%s", said);
  tc_cache_clear();
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(count_said("\n") == 1, "the log says:\n%s", said);
}

static void interpreter_that_was_asked_for_is_not_told(void) {
  setenv("TC_LLVM_PATH", "libm.so.6", 1);
  set("TC_COMPILER", "interp");
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(n_said == 0, "the log says:\n%s", said);
}

static void wrong_path_is_told_and_the_default_used(void) {
  tc_sync_point p;
  unsetenv("TC_COMPILER");
  set("TC_LLVM_PATH", "/nonexistent/libtc-llvm.so");
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(count_said("tc[warn] TC_LLVM_PATH cannot be opened and is ignored: /nonexistent/libtc-llvm.so: ") == 1,
         "the log says:\n%s", said);
  bool found = tc_sync_points(1, &p) == 1 && !strcmp(p.tier, "llvm");
  EXPECT(found || !has_plugin, "the plug-in beside the program is not found:\n%s", said);
  EXPECT(count_said(NO_COMPILER) == !found && count_said("\n") == 1 + !found, "the log says:\n%s", said);
}

// The loader would map it, and reading behind its end is SIGBUS.
static void plugin_that_is_cut_off_is_told_and_the_default_used(void) {
  char path[64], words[160];
  const char *plugin = getenv("TC_LLVM_PATH");
  FILE *from = plugin ? fopen(plugin, "rb") : NULL;
  if (!from) return;
  snprintf(path, sizeof path, "/tmp/tc-cut-%d.so", (int)getpid());
  FILE *to = fopen(path, "wb");
  char bytes[4096];
  for (int i = 0; to && i < 20 && fread(bytes, 1, sizeof bytes, from) == sizeof bytes; i++)
    fwrite(bytes, 1, sizeof bytes, to);
  EXPECT(to && fclose(to) == 0, "%s", path);
  (void)fclose(from);
  unsetenv("TC_COMPILER");
  setenv("TC_CACHE_BYTES", "0", 1);
  set("TC_LLVM_PATH", path);
  EXPECT(work(2) == 32, "a wrong sum");
  snprintf(words, sizeof words,
           "tc[warn] TC_LLVM_PATH cannot be opened and is ignored: compile: %s is cut off: ", path);
  EXPECT(count_said(words) == 1, "the log says:\n%s", said);
  (void)unlink(path);
}

static void topics(void) {
  set("TC_LOG", NULL);
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(n_said == 0, "with no topic on the log says:\n%s", said);
  set("TC_LOG", "sync");
  work(2), work(3);
  EXPECT_SAID("tc[sync] item at ");
  EXPECT_SAID("log.c:");
  EXPECT_SAID(", hit, 0 compiled");
  EXPECT_SAID(", new, ");
  set("TC_LOG", "trace");
  work(2.5);
  EXPECT_SAID("tc[trace] trace item at ");
  EXPECT_SAID("arg 2.5");
  EXPECT_SAID("data %0 3f800000 40000000");
  set("TC_LOG", "plan");
  work(2);
  EXPECT_SAID(": recorded\n%0 = leaf f32[7] tc:cpu");
  EXPECT_SAID("\nsimplified\n");
  EXPECT_SAID("1 steps, 1 stages");
  set("TC_LOG", "kernel,kir");
  work(2);
  tc_sync_point p;
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  EXPECT_SAID(strcmp(p.tier, "llvm") ? "tc[kernel] interpreted tc_" : "tc[kernel] compiled tc_");
  EXPECT_SAID("tc[kir] tc_");
  EXPECT_SAID("store");
  set("TC_LOG", "asm");
  work(2);
  if (!strcmp(p.tier, "llvm")) EXPECT_SAID("ret");
  set("TC_LOG", "cache");
  work(2), work(3);
  EXPECT_SAID("tc[cache] kernel tc_");
  EXPECT_SAID(": miss");
  EXPECT_SAID(": hit");
  setenv("TC_PLAN_CACHE", "1", 1);
  set("TC_KERNEL_CACHE", "1");
  work(2);
  tc_scope s = tc_scope_begin();
  EXPECT_OK(tc_sync(NULL));
  tc_tensor other = tc_exp(tc_ones(TC_SHAPE(3), TC_F32));
  EXPECT_OK(tc_eval(1, &other));
  tc_scope_end(s);
  EXPECT_SAID(": evicted\ntc[cache] plan ");
  unsetenv("TC_PLAN_CACHE");
  set("TC_KERNEL_CACHE", NULL);
  set("TC_LOG", "memory");
  tc_trim();
  EXPECT_SAID("tc[memory] trim: ");
  work(2), work(2);
  EXPECT_SAID("tc[memory] create ");
  EXPECT_SAID("tc[memory] reuse ");
  EXPECT_OK(tc_set_memory_cap(1));
  EXPECT_SAID("tc[memory] cap 1 bytes");
  s = tc_scope_begin();
  EXPECT(!tc_is_valid(tc_from_host((const float[]){1}, TC_SHAPE(1), TC_F32)), "a tensor beyond the cap");
  tc_scope_end(s);
  EXPECT_SAID("tc[memory] refuse ");
  EXPECT_OK(tc_set_memory_cap(0));
  tc_clear_error();
  set("TC_LOG", "moon");
  work(2);
  EXPECT_SAID("names no topic \"moon\"");
  set("TC_LOG", NULL);
}

static void sync_points(void) {
  tc_sync_point p[3];
  tc_cache_clear();
  tc_cache_info before = tc_cache_stats();
  work(2), work(3), work(4);
  tc_cache_info after = tc_cache_stats();
  EXPECT(tc_sync_points(3, p) == 3, "fewer than three sync points");
  EXPECT(p[0].n_compiled == after.compiles - before.compiles && p[0].n_compiled > 0 && p[0].compile_ns > 0,
         "%u compiled", p[0].n_compiled);
  for (int i = 0; i < 3; i++) {
    char site[200];
    uint64_t parts = p[i].lookup_ns + p[i].compile_ns + p[i].allocate_ns + p[i].run_ns + p[i].publish_ns;
    tc_site_text(p[i].site, site, sizeof site);
    EXPECT(strstr(site, "log.c:") && !strcmp(p[i].cause, "item"), "%s at %s", p[i].cause, site);
    EXPECT(p[i].hit == (i > 0) && p[i].hash == p[0].hash && p[i].status == TC_OK && p[i].n_wrong == 0, "sync %d", i);
    EXPECT(p[i].n_nodes == 5 && p[i].n_left > 0 && p[i].n_kernels > 0 && p[i].bytes > 0,
           "%u nodes, %u left, %u kernels, %llu bytes", p[i].n_nodes, p[i].n_left, p[i].n_kernels,
           (unsigned long long)p[i].bytes);
    EXPECT(parts <= p[i].total_ns && p[i].run_ns > 0 && p[i].before_ns > 0, "phases do not add up");
    EXPECT(i == 0 || (p[i].n_compiled == 0 && p[i].compile_ns == 0), "compiled again");
  }
  EXPECT(tc_sync_points(0, p) == 0 && tc_sync_points(-1, p) == 0, "points that were not asked for");
  EXPECT_OK(tc_set_default_device("tc:ref"));
  EXPECT(work(2) == 32, "a wrong sum on tc:ref");
  EXPECT(tc_sync_points(1, p) == 1 && !strcmp(p[0].tier, "ref") && p[0].n_kernels == 0, "tier %s", p[0].tier);
  EXPECT_OK(tc_set_default_device("tc:null"));
  EXPECT(work(2) == 0, "a sum on tc:null");
  EXPECT(tc_sync_points(1, p) == 1 && !strcmp(p[0].tier, "none") && p[0].n_kernels == 0, "tier %s", p[0].tier);
  EXPECT_OK(tc_set_default_device("tc:cpu"));
}

// The last sync point is this landmark's.
static void expect_landmark(const char *what, int line) {
  tc_sync_point p;
  char site[200], want[200];
  snprintf(want, sizeof want, "%s:%d", __FILE__, line);
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  tc_site_text(p.site, site, sizeof site);
  EXPECT(!strcmp(p.cause, "landmark") && !strcmp(site, want), "%s is seen as %s at %s", what, p.cause, site);
}

// More records than a trace has before it is cut.
static tc_tensor much_work(tc_tensor x) {
  for (int i = 0; i < 80; i++) x = tc_add(tc_mul(x, 0.5), 1);
  return x;
}

static void landmarks_are_seen_where_the_user_wrote_them(void) {
  tc_tensor w = tc_param(tc_ones(TC_SHAPE(4), TC_F32));
  for (int k = 0; k < 3; k++) {
    tc_scope s = tc_scope_begin();
    much_work(tc_ones(TC_SHAPE(4), TC_F32));
    tc_scope_end(s);
    expect_landmark("the end of a scope", __LINE__ - 1);
  }
  // Another site is preferred from the first cut on, in each thread; a new one begins when the
  // trace is much longer.
  tc_optimizer *opt[] = {tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.9}),
                         tc_adam(&w, 1, (tc_adam_options){.lr = 0.1, TC_ADAM_DEFAULTS}),
                         tc_rmsprop(&w, 1, (tc_rmsprop_options){.lr = 0.1, TC_RMSPROP_DEFAULTS})};
  for (int k = 0; k < 3; k++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_sync(NULL));  // a scope that was open before the trace began is not waited for
    for (int i = 0; i < 4; i++) much_work(tc_ones(TC_SHAPE(4), TC_F32));
    EXPECT_OK(tc_backward(tc_sum(much_work(w), TC_ALL, false)));
    EXPECT_OK(tc_optimizer_step(opt[k]));
    expect_landmark("a step of an optimizer", __LINE__ - 1);
    EXPECT_OK(tc_zero_grad(opt[k]));
    tc_scope_end(s);
    tc_optimizer_destroy(opt[k]);
  }
  tc_release(w);
}

// A step inside a scope of its own goes as one with what follows up to its end; where steps follow
// in one scope, the scope is no step's.
static void a_step_is_cut_at_the_end_of_its_scope(void) {
  tc_tensor w = tc_param(tc_ones(TC_SHAPE(4), TC_F32));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.1});
  EXPECT_OK(tc_sync(NULL));
  for (int steps = 1; steps <= 2; steps++) {
    tc_scope s = tc_scope_begin();
    for (int k = 0; k < steps; k++) {
      for (int i = 0; i < 4; i++) much_work(tc_ones(TC_SHAPE(4), TC_F32));
      EXPECT_OK(tc_backward(tc_sum(much_work(w), TC_ALL, false)));
      EXPECT_OK(tc_optimizer_step(opt));
      if (k == 1) expect_landmark("the second step in one scope", __LINE__ - 1);
      EXPECT_OK(tc_zero_grad(opt));
    }
    tc_scope_end(s);
    if (steps == 1) expect_landmark("the end of a step's scope", __LINE__ - 1);
  }
  tc_optimizer_destroy(opt);
  tc_release(w);
}

// Gradients of attention to one key are zero, but for rounding.
static void with_one_key(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x[3], g[3];
  for (int i = 0; i < 3; i++) {
    x[i] = tc_randn(TC_SHAPE(1, 2, i == 0 ? 3 : 1, 16), TC_F32);
    EXPECT_OK(tc_eval(1, &x[i]));
    EXPECT_OK(tc_set_requires_grad(x[i], true));
  }
  tc_tensor y = tc_scaled_dot_product_attention(x[0], x[1], x[2], (tc_tensor){0, 0}, (tc_attention_options){0});
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(y, tc_detach(x[0])), TC_ALL, false), x, 3, g, 0));
  EXPECT_OK(tc_eval(3, g));
  tc_scope_end(s);
}

// Powers below 2^-126 are zeros where they are looked up.
static void softmax_of_a_wide_row(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_from_host((float[]){0, -95, -1, -100, -2, -88, -87, -4}, TC_SHAPE(8), TC_F32), y = tc_softmax(x, 0);
  EXPECT_OK(tc_eval(1, &y));
  tc_scope_end(s);
}

static void verified(void) {
  tc_sync_point p;
  set("TC_VERIFY", "1");
  EXPECT(work(2) == 32, "a wrong sum");
  EXPECT(tc_sync_points(1, &p) == 1 && p.n_wrong == 0 && n_said == 0, "without a bug TC_VERIFY says:\n%s", said);
  with_one_key();
  EXPECT(tc_sync_points(1, &p) == 1 && p.n_wrong == 0 && n_said == 0,
         "what rounding leaves where all cancels is called wrong:\n%s", said);
  softmax_of_a_wide_row();
  EXPECT(tc_sync_points(1, &p) == 1 && p.n_wrong == 0 && n_said == 0, "powers that are zeros are called wrong:\n%s",
         said);
  setenv("TC_TEST_PLANT", "stride", 1);
  set("TC_VERIFY", "1");
  EXPECT(work(2) != 32, "the planted bug does nothing");
  EXPECT(tc_sync_points(1, &p) == 1 && p.n_wrong == 1, "%u wrong results", p.n_wrong);
  // The record that is wrong is named, not those after it: 1 3 5 7 are wanted.
  EXPECT_SAID("tc[warn] TC_VERIFY: results differ\n%1 = slice f32[4]: ");
  EXPECT_SAID(" elements differ; element ");
  EXPECT_SAID(", by the reference ");
  // The trace is there to be run again: right without the bug, wrong with it.
  const char *at = strstr(said, "trace item at ");
  EXPECT(at && strstr(at, "log.c:"), "no trace with its site:\n%s", said);
  tc_text x;
  tc_tensor out[8];
  float v = 0;
  EXPECT_OK(at ? tc_text_read(&x, &at) : TC_ERR_ARG);
  unsetenv("TC_TEST_PLANT");
  set("TC_VERIFY", "1");
  EXPECT_OK(tc_text_run(&x, out));
  EXPECT_OK(tc_item_f32(out[4], &v));
  EXPECT(v == 32, "the replay gives %g", (double)v);
  for (uint32_t n = 0; n < x.n; n++) tc_release(out[n]);
  tc_text_fini(&x);
  set("TC_VERIFY", NULL);
}

// On the processor, too, a run says what it was planned to hold with all else, and what it held:
// rows in a size class, lists of the run's.
static void memory_is_planned_and_measured(void) {
  enum { N = 256, BYTES = N * N * 4, LISTS = 64 << 10 };
  tc_scope s = tc_scope_begin();
  tc_sync_point p = {0};
  tc_tensor x = tc_full(TC_SHAPE(N, N), 0.5, TC_F32), y;
  EXPECT_OK(tc_eval(1, &x));
  size_t before = tc_memory_stats().live_bytes;
  y = tc_add(tc_matmul(tc_exp(tc_matmul(x, x)), x), 1);
  EXPECT_OK(tc_eval(1, &y));
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  size_t planned = p.planned_bytes - before, most = p.peak_bytes - before;
  EXPECT(planned >= 2 * BYTES && planned < 3 * BYTES, "%zu bytes are planned besides %zu", planned, before);
  EXPECT(most >= planned && most <= planned + planned / 8 + LISTS,
         "%zu bytes are planned, %zu are measured besides %zu", planned, most, before);
  tc_scope_end(s);
}

// In-place updates are compared too: the reference sees the old values.
static void verified_in_place(void) {
  set("TC_VERIFY", "1");
  tc_tensor w = tc_param(tc_ones(TC_SHAPE(40), TC_F32));
  tc_optimizer *opt = tc_sgd(&w, 1, (tc_sgd_options){.lr = 0.125, .momentum = 0.5});
  for (int step = 0; step < 3; step++) {
    tc_scope s = tc_scope_begin();
    float v;
    tc_tensor loss = tc_sum(tc_square(w), TC_ALL, false);
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    EXPECT_OK(tc_item_f32(loss, &v));
    tc_scope_end(s);
  }
  EXPECT(n_said == 0, "TC_VERIFY says:\n%s", said);
  tc_optimizer_destroy(opt);
  tc_release(w);
  set("TC_VERIFY", NULL);
}

// Other sizes of a graph are lowered as samples of a program for many sizes: these never run.
static void samples_of_sizes_are_not_told(void) {
  setenv("TC_DYNAMIC", "1", 1);
  set("TC_LOG", "fusion,pass");
  for (int n = 3; n < 6; n++) {
    tc_scope s = tc_scope_begin();
    float v;
    EXPECT_OK(tc_item_f32(tc_sum(tc_exp(tc_full(TC_SHAPE(100 + n, 64), TC_F32, 1)), TC_ALL, false), &v));
    tc_scope_end(s);
  }
  int n_fusion = count_said("tc[fusion] kernels of "), n_import = count_said(": after import");
  EXPECT(n_fusion >= 1 && n_fusion <= 3 && n_import >= 1 && n_import <= 3, "three sizes: the log says:\n%s", said);
  unsetenv("TC_DYNAMIC");
  set("TC_LOG", NULL);
}

int main(void) {
  tc_set_log(listen, NULL);
  has_plugin = getenv("TC_LLVM_PATH") != NULL;
  unsetenv("TC_LOG");
  // Whoever runs it: kernels are compiled at once, none comes from the disk.
  setenv("TC_INTERPRET_FIRST", "0", 1), setenv("TC_CACHE_BYTES", "0", 1);
  in_child(missing_compiler_is_told_once);
  in_child(interpreter_that_was_asked_for_is_not_told);
  in_child(wrong_path_is_told_and_the_default_used);
  in_child(plugin_that_is_cut_off_is_told_and_the_default_used);
  work(2);  // a build without a compiler says so here, and never again
  topics();
  sync_points();
  landmarks_are_seen_where_the_user_wrote_them();
  a_step_is_cut_at_the_end_of_its_scope();
  memory_is_planned_and_measured();
  verified();
  verified_in_place();
  samples_of_sizes_are_not_told();
  tc_set_log(NULL, NULL);
  return expect_done("planning-log");
}
