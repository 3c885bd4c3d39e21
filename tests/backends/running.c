// Work on loaded back ends: whose memory the host cannot use, and which run later. What fallbacks
// cost, what failures leave, threads, forks, tc_shutdown.
//   running FAR.so SLOW.so
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tc/backend.h>
#include <unistd.h>

#include "tests/backends/control.h"
#include "tests/expect.h"

static far_control *control;

static uint64_t metric(const char *name) {
  uint64_t n = 0;
  EXPECT_OK(tc_metrics_get(name, &n));
  return n;
}

static tc_sync_point last_sync(void) {
  tc_sync_point p = {0};
  EXPECT(tc_sync_points(1, &p) == 1, "no sync point");
  return p;
}

// ---- what runs where ----

static void ops_run_on_the_device(void) {
  float got[4];
  static const float data[] = {-1, 2, -3, 4};
  int n_runs = control->n_calls[FAR_RUN], n_reads = control->n_calls[FAR_READ];
  tc_scope scope = tc_scope_begin();
  tc_tensor y = tc_add(tc_relu(tc_from_host(data, TC_SHAPE(4), TC_F32)), 0.5);
  EXPECT_OK(tc_eval(1, &y));
  EXPECT(control->n_calls[FAR_READ] == n_reads, "eval read from the device");
  tc_sync_point p = last_sync();
  EXPECT(strcmp(p.tier, "backend") == 0 && p.n_fallbacks == 0 && p.fallback_bytes == 0 && p.n_kernels >= 2,
         "%s, %u fallbacks, %u kernels", p.tier, p.n_fallbacks, p.n_kernels);
  EXPECT(control->n_calls[FAR_RUN] - n_runs >= 2, "%d runs", control->n_calls[FAR_RUN] - n_runs);
  EXPECT_OK(tc_to_host(y, got, sizeof got));
  EXPECT(got[0] == 0.5f && got[3] == 4.5f, "%g %g", (double)got[0], (double)got[3]);
  tc_scope_end(scope);
}

// relu, erf and cos, of which the CPU runs erf: its operand and result are copied once each.
static void what_is_not_taken_is_copied_once(void) {
  enum { N = 1024 };  // values between steps are counted in units of 64 bytes
  static float data[N], got[N];
  for (int i = 0; i < N; i++) data[i] = (float)(i - 500) / 200;
  uint64_t fallbacks = metric("fallbacks"), bytes = metric("fallback_bytes");
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_from_host(data, TC_SHAPE(N), TC_F32), e = tc_erf(tc_relu(x));
  tc_tensor y = tc_cos(e);
  EXPECT_OK(tc_eval(1, &y));
  tc_sync_point p = last_sync();
  EXPECT(p.n_fallbacks == 1 && p.fallback_bytes == 2 * sizeof data, "%u fallbacks, %llu bytes", p.n_fallbacks,
         (unsigned long long)p.fallback_bytes);
  EXPECT(metric("fallbacks") == fallbacks + 1 && metric("fallback_bytes") == bytes + 2 * sizeof data, "metrics");
  EXPECT_OK(tc_to_host(y, got, sizeof got));
  for (int i = 0; i < N; i++) {
    double want = cos(erf(data[i] > 0 ? (double)data[i] : 0));
    EXPECT(fabs((double)got[i] - want) < 1e-6, "%d: %g, not %g", i, (double)got[i], want);
  }
  tc_scope_end(scope);
}

// Neighbours that the CPU runs are one kernel there, and pass values without the device.
static void what_is_not_taken_is_fused(void) {
  float got;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_full(TC_SHAPE(1), 0.25, TC_F32), y = tc_erf(tc_tan(tc_atan(tc_erf(tc_mul(x, 2)))));
  EXPECT_OK(tc_item_f32(y, &got));
  tc_sync_point p = last_sync();
  EXPECT(p.n_fallbacks == 1 && p.fallback_bytes == 4 + 64, "%u fallbacks, %llu bytes", p.n_fallbacks,
         (unsigned long long)p.fallback_bytes);
  EXPECT(fabs((double)got - erf(erf(0.5))) < 1e-6, "%g", (double)got);
  tc_scope_end(scope);
}

static void views_and_copies_stay_there(void) {
  double got[12], twice[12];
  int n_reads = control->n_calls[FAR_READ], n_writes;
  tc_scope scope = tc_scope_begin();
  tc_tensor a = tc_arange(0, 12, 1, TC_F64);
  tc_tensor b = tc_reshape(a, TC_SHAPE(3, 4)), c = tc_reshape(tc_mul(b, 2), TC_SHAPE(2, 6));
  tc_tensor kept = tc_detach(c), all[] = {a, b, c, kept};
  EXPECT_OK(tc_eval(4, all));
  n_writes = control->n_calls[FAR_WRITE];
  tc_tensor views[] = {tc_reshape(c, TC_SHAPE(12)), tc_detach(kept)};
  EXPECT_OK(tc_eval(2, views));
  EXPECT(control->n_calls[FAR_READ] == n_reads && control->n_calls[FAR_WRITE] == n_writes,
         "a view was copied by the host");
  EXPECT_OK(tc_to_host(views[0], got, sizeof got));
  EXPECT_OK(tc_to_host(views[1], twice, sizeof twice));
  for (int i = 0; i < 12; i++) EXPECT(got[i] == 2 * i && twice[i] == 2 * i, "%d: %g %g", i, got[i], twice[i]);
  tc_scope_end(scope);
}

static void indices_are_checked(void) {
  static const int64_t good[] = {2, 0}, bad[] = {1, 3};
  float got[2];
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_mul(tc_arange(0, 3, 1, TC_F32), 10);
  EXPECT_OK(tc_to_host(tc_gather(x, 0, tc_from_host(good, TC_SHAPE(2), TC_I64)), got, sizeof got));
  EXPECT(got[0] == 20 && got[1] == 0, "%g %g", (double)got[0], (double)got[1]);
  tc_tensor y = tc_gather(x, 0, tc_from_host(bad, TC_SHAPE(2), TC_I64));
  EXPECT_FAILS(tc_to_host(y, got, sizeof got), TC_ERR_INDEX, "gather: index 3 at position 1 is out of range");
  tc_scope_end(scope);
}

static void borrowed_memory_is_written_back(void) {
  float data[3] = {1, 2, 3};
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_borrow(data, TC_SHAPE(3), TC_F32, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_assign(x, tc_mul(x, 4)));
  EXPECT_OK(tc_eval(1, &x));
  EXPECT(data[0] == 4 && data[2] == 12, "%g %g", (double)data[0], (double)data[2]);
  tc_scope_end(scope);
}

// ---- training ----

enum { STEPS = 30 };

typedef tc_optimizer *make_optimizer(tc_tensor *w, int n);

static tc_optimizer *with_sgd(tc_tensor *w, int n) {
  return tc_sgd(w, n, (tc_sgd_options){.lr = 0.05, .momentum = 0.9});
}
static tc_optimizer *with_adam(tc_tensor *w, int n) {
  return tc_adam(w, n, (tc_adam_options){.lr = 0.01});
}

// A network whose loss has ops that the back end does not take: gelu and log_softmax.
static void train(const char *device, make_optimizer *make, float *loss) {
  static const int64_t label[] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
  EXPECT_OK(tc_set_default_device(device));
  tc_seed(3);
  tc_scope outer = tc_scope_begin();
  tc_tensor x = tc_randn(TC_SHAPE(16, 6), TC_F32), y = tc_from_host(label, TC_SHAPE(16), TC_I64);
  tc_tensor w[] = {tc_param(tc_mul(tc_randn(TC_SHAPE(6, 20), TC_F32), 0.4)), tc_param(tc_zeros(TC_SHAPE(20), TC_F32)),
                   tc_param(tc_mul(tc_randn(TC_SHAPE(20, 3), TC_F32), 0.4)), tc_param(tc_zeros(TC_SHAPE(3), TC_F32))};
  tc_optimizer *opt = make(w, 4);
  for (int i = 0; i < STEPS; i++) {
    tc_scope scope = tc_scope_begin(), inner = tc_scope_begin();
    tc_tensor h = tc_gelu(tc_add(tc_matmul(x, w[0]), w[1]));
    tc_tensor l = tc_cross_entropy(tc_add(tc_matmul(h, w[2]), w[3]), y);
    EXPECT_OK(tc_backward(l));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
    tc_keep(l);
    tc_scope_end(inner);
    EXPECT_OK(tc_item_f32(l, &loss[i]));
    tc_scope_end(scope);
  }
  tc_optimizer_destroy(opt);
  for (int i = 0; i < 4; i++) tc_release(w[i]);
  tc_scope_end(outer);
}

static void training_is_that_of_the_reference(const char *device) {
  make_optimizer *const all[] = {with_sgd, with_adam};
  for (int k = 0; k < 2; k++) {
    float want[STEPS] = {0}, got[STEPS] = {0};
    train("tc:ref", all[k], want);
    train(device, all[k], got);
    EXPECT(want[STEPS - 1] < want[0] * 0.7f, "%g", (double)want[STEPS - 1]);
    for (int i = 0; i < STEPS; i++)
      EXPECT(fabsf(got[i] - want[i]) < 2e-5f * (1 + want[i]), "%s, optimizer %d, step %d: %.7g, not %.7g", device, k, i,
             (double)got[i], (double)want[i]);
  }
  EXPECT(metric("fallbacks") > 0, "gelu was taken");
}

static void gradients_cross_devices(void) {
  float got;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  tc_scope scope = tc_scope_begin();
  tc_tensor p = tc_param(tc_full(TC_SHAPE(3), 2, TC_F32));
  tc_tensor there = tc_mul(tc_to(p, "tc:far"), 5), back = tc_square(tc_to(there, "tc:cpu"));
  EXPECT_OK(tc_backward(tc_sum(back, TC_ALL, false)));
  EXPECT_OK(tc_item_f32(tc_sum(tc_grad(p), TC_ALL, false), &got));
  EXPECT(got == 3 * 2 * 10 * 5, "%g", (double)got);
  tc_release(p);
  tc_scope_end(scope);
  EXPECT_OK(tc_set_default_device("tc:far"));
}

// ---- failures ----

// The next work whose function f fails leaves the assigned tensor its old value, and work goes on.
static void failure_is_told(far_function f, tc_backend_result result, tc_status code, const char *says) {
  float v = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_full(TC_SHAPE(7), 5, TC_F32), first = tc_full(TC_SHAPE(1), 1, TC_F32);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){x, first}));
  tc_cache_clear();
  tc_trim();
  control->fails_in[f] = 1, control->result = result;
  EXPECT_OK(tc_assign(x, tc_add(tc_erf(tc_mul(x, 2)), 1)));
  tc_clear_error();
  tc_status st = tc_eval(1, &x);
  EXPECT(st == code && strstr(tc_last_error()->message, says), "%s was expected", says);
  EXPECT(strstr(tc_last_error()->message, "running.c:"), "no place");
  tc_clear_error();
  control->fails_in[f] = 0;
  EXPECT_OK(tc_item_f32(tc_sum(x, TC_ALL, false), &v));
  EXPECT(v == 35, "after %s the assigned tensor is %g", says, (double)v);
  EXPECT_OK(tc_item_f32(tc_add(first, 41), &v));
  EXPECT(v == 42, "%g", (double)v);
  tc_scope_end(scope);
}

static void failures_are_told(void) {
  failure_is_told(FAR_RUN, TC_BACKEND_FAILED, TC_ERR_RUN, "mul: tc:far: run of /");
  failure_is_told(FAR_RUN, TC_BACKEND_FAILED, TC_ERR_RUN, "failed: far_run");
  failure_is_told(FAR_RUN, 77, TC_ERR_RUN, "failed, by returning 77: far_run");
  failure_is_told(FAR_RUN, TC_BACKEND_NO_MEMORY, TC_ERR_MEMORY, "run of /");
  failure_is_told(FAR_READ, TC_BACKEND_FAILED, TC_ERR_RUN, "tc:far: read of /");
  failure_is_told(FAR_WRITE, TC_BACKEND_FAILED, TC_ERR_RUN, "tc:far: write of /");
  failure_is_told(FAR_PREPARE, TC_BACKEND_FAILED, TC_ERR_RUN, "tc:far: prepare of /");
  failure_is_told(FAR_ALLOC, TC_BACKEND_FAILED, TC_ERR_RUN, "tc:far: alloc of /");
}

// Memory that is short is freed from the pools; where that is not enough it is an error.
static void pooled_memory_is_given_back(void) {
  float v;
  tc_scope scope = tc_scope_begin();
  tc_tensor small = tc_full(TC_SHAPE(100), 1, TC_F32);
  EXPECT_OK(tc_eval(1, &small));
  for (int i = 1; i < 6; i++) {  // leaves buffers of several sizes in the pools
    tc_scope inner = tc_scope_begin();
    tc_tensor x = tc_full(TC_SHAPE(1000 << i), 1, TC_F32);
    EXPECT_OK(tc_eval(1, &x));
    tc_scope_end(inner);
  }
  control->most_live = control->n_live;
  EXPECT_OK(tc_item_f32(tc_sum(tc_full(TC_SHAPE(300000), 1, TC_F32), TC_ALL, false), &v));
  EXPECT(v == 300000, "%g", (double)v);
  tc_trim();
  control->most_live = control->n_live;
  tc_tensor more = tc_full(TC_SHAPE(100000), 1, TC_F32);
  EXPECT_FAILS(tc_eval(1, &more), TC_ERR_MEMORY, "tc:far: no memory for");
  control->most_live = 0;
  EXPECT_OK(tc_item_f32(tc_sum(small, TC_ALL, false), &v));
  EXPECT(v == 100, "%g", (double)v);
  tc_scope_end(scope);
}

// ---- threads, forks, shutdown ----

static void *work(void *device) {
  EXPECT_OK(tc_set_default_device(device));
  for (int i = 0; i < 40; i++) {
    float v;
    tc_scope scope = tc_scope_begin();
    tc_tensor x = tc_full(TC_SHAPE(64), i, TC_F32);
    EXPECT_OK(tc_item_f32(tc_sum(tc_add(tc_mul(tc_relu(x), 3), 1), TC_ALL, false), &v));
    EXPECT(v == 64 * (3.0f * (float)i + 1), "%s, %d: %g", (const char *)device, i, (double)v);
    tc_scope_end(scope);
  }
  return NULL;
}

static void threads_share_devices(void) {
  static char *const device[] = {"tc:far", "tc:far", "tc:far:1", "tc:slow", "tc:slow"};
  pthread_t thread[5];
  for (int i = 0; i < 5; i++) EXPECT(pthread_create(&thread[i], NULL, work, device[i]) == 0, "no thread");
  for (int i = 0; i < 5; i++) pthread_join(thread[i], NULL);
}

static void slow_work_is_waited_for(void) {
  EXPECT_OK(tc_set_default_device("tc:slow"));
  enum { N = 500 };
  static float data[N], got[N];
  for (int i = 0; i < N; i++) data[i] = (float)i;
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_from_host(data, TC_SHAPE(N), TC_F32);
  for (int i = 0; i < 5; i++) x = tc_sqrt(tc_add(tc_mul(x, 2), 3));  // by turns there and on the CPU
  EXPECT_OK(tc_to_host(x, got, sizeof got));
  for (int i = 0; i < N; i++) {
    float want = data[i];
    for (int k = 0; k < 5; k++) want = sqrtf(want * 2 + 3);
    EXPECT(fabsf(got[i] - want) < 1e-5f * want, "%d: %g, not %g", i, (double)got[i], (double)want);
  }
  // of each turn the root, and the scalars 2 and 3
  EXPECT(last_sync().n_fallbacks == 15 && last_sync().fallback_bytes == 0, "%u fallbacks, %llu bytes",
         last_sync().n_fallbacks, (unsigned long long)last_sync().fallback_bytes);
  EXPECT_OK(tc_sync("tc:slow"));
  EXPECT_OK(tc_sync(NULL));
  tc_scope_end(scope);
  EXPECT_OK(tc_set_default_device("tc:far"));
}

// The back end lacks TC_BACKEND_FORK_SAFE: a child is told, and may use the CPU.
static int in_child(tc_tensor pending) {
  float v;
  if (tc_item_f32(pending, &v) == TC_OK) return 1;
  if (!strstr(tc_last_error()->message, "opened before fork()")) return 2;
  if (tc_set_default_device("tc:far") == TC_OK) return 3;
  if (tc_set_default_device("tc:cpu") != TC_OK) return 4;
  if (tc_item_f32(tc_add(tc_full(TC_SHAPE(1), 1, TC_F32), 1), &v) != TC_OK || v != 2) return 5;
  tc_shutdown();
  return 0;
}

static void forks_are_refused(void) {
  float v;
  int status = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor pending = tc_add(tc_full(TC_SHAPE(1), 1, TC_F32), 5);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(in_child(pending));
  EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %x", status);
  EXPECT_OK(tc_item_f32(pending, &v));
  EXPECT(v == 6, "%g", (double)v);
  tc_scope_end(scope);
}

static void shutdown_gives_all_back(void) {
  for (int i = 0; i < 3; i++) {
    tc_shutdown();
    EXPECT(control->n_live == 0 && control->n_kernels == 0 && control->n_devices == 0,
           "%ld buffers, %ld kernels, %ld devices are left", control->n_live, control->n_kernels, control->n_devices);
    EXPECT_OK(tc_set_default_device("tc:far"));
    ops_run_on_the_device();
  }
  control->fails_in[FAR_OPEN] = 1, control->result = TC_BACKEND_FAILED;
  tc_shutdown();
  EXPECT_FAILS(tc_set_default_device("tc:far"), TC_ERR_DEVICE, "open of /");
  EXPECT_OK(tc_set_default_device("tc:far"));
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  EXPECT_OK(tc_backend_load(argv[1], NULL));
  EXPECT_OK(tc_backend_load(argv[2], NULL));
  control = dlsym(dlopen(argv[1], RTLD_NOW), "far_control_now");
  EXPECT_OK(tc_set_default_device("tc:far"));
  ops_run_on_the_device();
  what_is_not_taken_is_copied_once();
  what_is_not_taken_is_fused();
  views_and_copies_stay_there();
  indices_are_checked();
  borrowed_memory_is_written_back();
  training_is_that_of_the_reference("tc:far");
  training_is_that_of_the_reference("tc:slow");
  gradients_cross_devices();
  failures_are_told();
  pooled_memory_is_given_back();
  slow_work_is_waited_for();
  threads_share_devices();
  forks_are_refused();
  shutdown_gives_all_back();
  return expect_done("running");
}
