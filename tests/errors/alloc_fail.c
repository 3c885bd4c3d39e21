// Every allocation of the library fails in turn, once and then for good, in the making of a model,
// two steps of its training and what one does with a trained model (printing, files, selection):
// the call says TC_ERR_MEMORY, nothing crashes, a parameter keeps a usable value, and afterwards a
// fresh model trains to the same bits. Run under ASan for leaks.
// The linker leads every call of malloc and its like in the library to this program (meson.build:
// --wrap); those of the compiler plug-in itself are reached by its fail_at, LLVM's and the C
// library's are left alone. A sample of the allocations, compiled a smaller one, a compile taking a
// hundred times as long; with TC_TEST_ALL=1, as ./dev soak has it, interpreted every one.
//   alloc_fail [device = tc:cpu]
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tc/control.h>
#include <tc/dlpack.h>
#include <tc/train.h>
#include <unistd.h>

#include "lowering/codegen/llvm/codegen.h"
#include "runtime/status.h"
#include "tests/expect.h"
#include "tests/failing.h"
#include "tests/mlp.h"

#if defined(TC_HAVE_JANSSON) && defined(TC_HAVE_LIBZIP)
#define HAVE_FILES true
#else
#define HAVE_FILES false
#endif

// ---- What the library calls for malloc ----

// The n-th allocation from now fails, and every later one if sticky; 0 switches off. How many were
// made since the last call.
static long own_fail_at(long n, int sticky) {
  atomic_store(&fail_from, 0);
  long made = atomic_exchange(&n_made, 0);
  atomic_store(&for_good, sticky != 0);
  atomic_store(&fail_from, n);
  return made;
}

// ---- The work ----

static tc_status status_of(tc_tensor x) {
  return tc_is_valid(x) ? TC_OK : tc_poison_status(x);
}

// In memory where there is such a place: thousands of files are made, and each save waits for the
// disk.
static const char *directory(void) {
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

// Functions over the public interface that have memory of their own; their values as one number.
static tc_status use(const mlp *m, float *out) {
  char path[80], *text = tc_format(m->params[1]);
  if (!text) return tc_last_error()->status;
  *out = (float)strlen(text);
  free(text);
  snprintf(path, sizeof path, "%s/tc_alloc_fail.%ld.npy", directory(), (long)getpid());
  tc_scope s = tc_scope_begin();
  tc_status st = tc_save_npy(path, m->params[2]);
  tc_tensor back = st == TC_OK ? tc_load_npy(path) : m->x, positive = tc_gt(m->params[2], 0);
  const tc_tensor pair[] = {m->x, m->params[0]};
  const tc_tensor made[] = {back,
                            tc_masked_select(m->params[2], positive),
                            tc_cast(tc_nonzero(positive), TC_F32),
                            tc_cast(tc_unique(m->y), TC_F32),
                            tc_einsum("ij,jk->k", 2, pair),
                            tc_matmul(m->x, tc_neg(m->params[0]))};
  tc_tensor sum = tc_scalar(0);
  for (size_t k = 0; k < sizeof made / sizeof *made && st == TC_OK; k++) {
    st = status_of(made[k]);
    sum = tc_add(sum, tc_sum(made[k], TC_ALL, false));
  }
  float v = 0;
  if (st == TC_OK) st = tc_item_f32(sum, &v);
  *out += v;
  tc_scope_end(s);
  unlink(path);
  return st;
}

// The same for modules and what is lent.
static tc_status use_modules(const mlp *m, tc_nn_params *p, tc_tensor *out) {
  TC_TRY(tc_nn_add_linear(p, "fc", 8, 2, true));
  TC_TRY(status_of(tc_nn_linear(p, "fc", m->x)));
  DLManagedTensorVersioned *lent = tc_to_dlpack(m->params[0]);
  if (!lent) return tc_last_error()->status;
  return status_of(*out = tc_from_dlpack(lent));
}

// And for files of named tensors.
static tc_status use_files(const mlp *m, tc_nn_params *p, const char *path, tc_tensor *out) {
  const char *names[] = {"a", "b"};
  TC_TRY(tc_npz_save(path, 2, names, m->params));
  tc_archive *a = tc_npz_open(path);
  tc_status st = a ? status_of(*out = tc_archive_get(a, "b")) : tc_last_error()->status;
  tc_archive_close(a);
  TC_TRY(st);
  TC_TRY(tc_nn_save(p, path));
  a = tc_safetensors_open(path);
  st = a ? tc_nn_load(p, a, NULL) : tc_last_error()->status;
  tc_archive_close(a);
  TC_TRY(st);
  TC_TRY(tc_checkpoint_save(path, 2, names, m->params, m->opt, 7));
  return tc_checkpoint_load(path, 2, names, m->params, m->opt, NULL);
}

// And for what a training goes on with.
static tc_status use_training(tc_nn_params *p, const char *path) {
  tc_status st = TC_ERR_MEMORY;
  tc_optimizer *opt = tc_nadam(tc_nn_tensors(p), tc_nn_count(p), (tc_nadam_options){0});
  tc_schedule *first = opt ? tc_step_lr(opt, 2, 0.5) : NULL,
              *then = first ? tc_multi_step_lr(opt, (int64_t[]){2, 3}, 2, 0.5) : NULL;
  tc_schedule *whole = then ? tc_sequential_lr(opt, 2, (tc_schedule *[]){first, then}, (int64_t[]){1}) : NULL;
  tc_ema *ema = whole ? tc_ema_create(p, (tc_ema_options){0}) : NULL;
  if (!then) tc_schedule_destroy(first);
  if (ema) {
    tc_training all = {p, 1, &opt, 1, &whole, 1, &ema};
    st = tc_ema_update(ema);
    if (st == TC_OK) st = tc_schedule_step(whole);
    if (st == TC_OK && HAVE_FILES) st = tc_training_save(path, &all, 1);
    if (st == TC_OK && HAVE_FILES) st = tc_training_load(path, &all, NULL);
  } else {
    st = tc_last_error()->status;
  }
  tc_ema_destroy(ema);
  tc_schedule_destroy(whole);
  tc_optimizer_destroy(opt);
  return st;
}

static tc_status use_named(const mlp *m, float *out) {
  char path[80];
  snprintf(path, sizeof path, "%s/tc_alloc_fail.%ld.file", directory(), (long)getpid());
  tc_nn_params *p = tc_nn_params_create();
  if (!p) return tc_last_error()->status;
  tc_scope s = tc_scope_begin();
  tc_tensor lent, read = tc_scalar(0);
  tc_status st = use_modules(m, p, &lent);
  if (st == TC_OK) st = use_training(p, path);
  if (st == TC_OK && HAVE_FILES) st = use_files(m, p, path, &read);
  float v = 0;
  if (st == TC_OK) st = tc_item_f32(tc_add(tc_sum(lent, TC_ALL, false), tc_sum(read, TC_ALL, false)), &v);
  *out += v;
  tc_scope_end(s);
  tc_nn_params_destroy(p);
  unlink(path);
  return st;
}

static tc_status branch(void *user, const tc_tensor *in, tc_tensor *out) {
  out[0] = tc_tanh(tc_add(tc_mul(in[0], *(const tc_tensor *)user), tc_rand_like(in[0])));
  return TC_OK;
}

static tc_status step_of_scan(void *user, const tc_tensor *in, tc_tensor *out) {
  tc_status st = tc_cond(tc_gt(tc_sum(in[0], TC_ALL, false), 0), branch, branch, user, in, 1, out, 1);
  out[1] = tc_mul(out[0], in[1]);
  return st;
}

static tc_status is_low(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_lt(tc_sum(in[0], TC_ALL, false), 30);
  return TC_OK;
}

static tc_status doubles(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_mul(in[0], 2);
  return TC_OK;
}

// Control flow, with gradients.
static tc_status use_control(float *out) {
  tc_scope s = tc_scope_begin();
  tc_tensor h = tc_full(TC_SHAPE(4), 0.5, TC_F32), xs = tc_ones(TC_SHAPE(3, 4), TC_F32), w, y[2], z, g;
  tc_seed(5);
  tc_status st = status_of(w = tc_param(tc_full(TC_SHAPE(4), 0.25, TC_F32)));
  if (st == TC_OK) st = tc_scan(step_of_scan, &w, &h, 1, &xs, 1, y, 1, NULL);
  if (st == TC_OK) st = tc_checkpoint(branch, &w, y, 1, &z, 1);
  if (st == TC_OK) st = tc_grads_of(tc_add(tc_sum(y[1], TC_ALL, false), tc_sum(z, TC_ALL, false)), &w, 1, &g, 0);
  if (st == TC_OK) st = tc_while(is_low, doubles, NULL, &h, 1, &z);
  float v = 0;
  if (st == TC_OK) st = tc_item_f32(tc_add(tc_sum(g, TC_ALL, false), tc_sum(z, TC_ALL, false)), &v);
  *out += v;
  tc_release(w);
  tc_scope_end(s);
  return st;
}

// The losses of two steps of a fresh model, and what was made of it; the first failure.
static tc_status train(float out[3]) {
  mlp m = {0};
  tc_status st = mlp_init(&m, 3);
  for (int k = 0; k < 2 && st == TC_OK; k++) st = mlp_step(&m, &out[k]);
  if (st == TC_OK) st = use(&m, &out[2]);
  if (st == TC_OK) st = use_named(&m, &out[2]);
  if (st == TC_OK) st = use_control(&out[2]);
  mlp_fini(&m);
  return st;
}

// A failure while a step of a living model runs: the model goes on, its parameters finite.
static void expect_model_survives(long n, bool sticky) {
  mlp m = {0};
  float loss;
  EXPECT_OK(mlp_init(&m, 5));
  EXPECT_OK(mlp_step(&m, &loss));
  own_fail_at(n, sticky);
  tc_status st = mlp_step(&m, &loss);
  own_fail_at(0, 0);
  EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "allocation %ld: %s", n, tc_status_text(st));
  tc_clear_error();
  float w[8 * 32];
  EXPECT(tc_to_host(m.params[0], w, sizeof w) == TC_OK, "after allocation %ld a parameter is lost", n);
  bool finite = true;
  for (int i = 0; i < 8 * 32; i++) finite = finite && isfinite(w[i]);
  EXPECT(finite, "after allocation %ld a parameter is damaged", n);
  EXPECT_OK(tc_zero_grad(m.opt));
  EXPECT(mlp_step(&m, &loss) == TC_OK && isfinite(loss), "after allocation %ld the model does not train", n);
  mlp_fini(&m);
}

// The same for the compiler's allocations.
static void fail_each_of_plugin(void) {
  const char *path = getenv("TC_LLVM_PATH");
  void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
  const tc_llvm_plugin *(*get)(void) = NULL;
  if (lib) *(void **)&get = dlsym(lib, "tc_llvm_plugin_get");
  if (!get) return;  // a build without it
  float want[3], got[3];
  int n_failed_calls = 0;
  for (int sticky = 0; sticky < 2; sticky++) {
    tc_cache_clear();
    (void)get()->fail_at(0, 0);
    EXPECT_OK(train(want));
    long total = get()->fail_at(0, 0);
    EXPECT(total > 20, "%ld allocations of the compiler", total);
    for (long n = 1; n <= total; n += 37) {
      tc_cache_clear();
      tc_clear_error();
      (void)get()->fail_at(n, sticky);
      tc_status st = train(got);
      (void)get()->fail_at(0, 0);
      // What one thread could not compile beside others is tried once more.
      bool right = st == TC_OK && !sticky && memcmp(got, want, sizeof got) == 0;
      EXPECT(st == TC_ERR_MEMORY || right, "the compiler's allocation %ld of %ld: %s", n, total, tc_status_text(st));
      n_failed_calls += st != TC_OK;
      tc_clear_error();
      EXPECT(train(got) == TC_OK && memcmp(got, want, sizeof got) == 0,
             "after the compiler's allocation %ld of %ld it trains otherwise", n, total);
    }
  }
  EXPECT(n_failed_calls > 0, "no allocation of the compiler failed");
  dlclose(lib);
}

static void count_released(void *n_released) {
  ++*(int *)n_released;
}

// Memory that could not be borrowed is not released: it is still the caller's. The process is
// fresh, so recording allocates.
static void borrow_or_leave(void) {
  float data[4] = {0};
  int n_released = 0, n_failed = 0;
  tc_tensor t = {0, 0};
  tc_scope scope = {0, 0};
  for (long n = 1; n < 100 && !tc_is_valid(t); n++) {
    scope = tc_scope_begin();
    own_fail_at(n, 0);
    t = tc_borrow(data, TC_SHAPE(4), TC_F32, TC_READ_ONLY, count_released, &n_released);
    own_fail_at(0, 0);
    if (tc_is_valid(t)) break;
    tc_scope_end(scope);
    n_failed++;
  }
  tc_clear_error();
  EXPECT(n_failed > 3 && n_released == 0, "%d borrows failed, %d released", n_failed, n_released);
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_released == 1, "%d released", n_released);
}

// What one allocation less leaves of an assign to strided memory: all of it or nothing, and the gaps
// as they were. Memory is given up, or is still borrowed.
static void assign_strided_or_leave(long n, int *n_failed) {
  float m[8] = {1, 2, 9, 9, 3, 4, 9, 9};
  tc_cache_clear();
  tc_trim();
  int n_released = 0;
  tc_scope s = tc_scope_begin();
  own_fail_at(n, 0);
  tc_tensor x =
      tc_borrow_strided(m, TC_SHAPE(2, 2), (int64_t[]){4, 1}, TC_F32, TC_WRITABLE, count_released, &n_released);
  bool borrowed = tc_is_valid(x);
  tc_tensor y = tc_mul(x, 3);
  tc_status assigned = tc_assign(x, tc_add(tc_mul(x, 2), 1)), ran = tc_sync(NULL), again = tc_assign(x, y),
            forgotten = tc_forget(x);
  own_fail_at(0, 0);
  tc_clear_error();
  *n_failed += !borrowed || assigned || ran || again || forgotten;
  bool landed = m[0] == 3 && m[1] == 5 && m[4] == 7 && m[5] == 9,
       left = m[0] == 1 && m[1] == 2 && m[4] == 3 && m[5] == 4;
  EXPECT((landed || left) && m[2] == 9 && m[3] == 9 && m[6] == 9 && m[7] == 9, "after %ld: %g %g %g %g", n,
         (double)m[0], (double)m[1], (double)m[4], (double)m[5]);
  EXPECT(landed || assigned || ran || !borrowed, "after %ld nothing landed", n);
  EXPECT(n_released == (borrowed && forgotten == TC_OK), "after %ld: %d released", n, n_released);
  float got = 0;
  if (borrowed && forgotten == TC_OK && tc_is_valid(y)) {
    memset(m, 0xFF, sizeof m);
    EXPECT(tc_item(tc_sum(y, TC_ALL, false), &got) != TC_OK || got == 30, "after %ld: %g", n, (double)got);
  }
  tc_clear_error();
  tc_scope_end(s);
  (void)!tc_sync(NULL);
  tc_clear_error();
}

static int fail_each(const char *device, const char *compiler, long stride) {
  float want[3], got[3];
  setenv("TC_COMPILER", compiler, 1);
  borrow_or_leave();
  int n_failed_assigns = 0;
  for (long n = 1; n < 200; n++) assign_strided_or_leave(n, &n_failed_assigns);
  EXPECT(n_failed_assigns > 10 && n_failed_assigns < 190, "%d of 199 failed", n_failed_assigns);
  EXPECT_OK(tc_set_default_device(device));
  long n_failed_calls = 0;
  for (int sticky = 0; sticky < 2; sticky++) {
    // Cold: caches are empty, so planning and compiling allocate too.
    tc_shutdown();
    EXPECT_OK(tc_set_default_device(device));
    own_fail_at(0, 0);
    EXPECT_OK(train(want));
    long total = own_fail_at(0, 0);
    EXPECT(total > 0, "no allocation is counted");
    for (long n = 1; n <= total; n += stride) {
      tc_cache_clear();
      tc_trim();
      tc_clear_error();
      own_fail_at(n, sticky);
      tc_status st = train(got);
      own_fail_at(0, 0);
      // A failed cache entry or profile record may be done without: TC_OK with the right losses is
      // as good.
      EXPECT(st == TC_ERR_MEMORY || (st == TC_OK && memcmp(got, want, sizeof got) == 0), "allocation %ld of %ld: %s", n,
             total, tc_status_text(st));
      n_failed_calls += st != TC_OK;
      tc_clear_error();
      EXPECT(train(got) == TC_OK && memcmp(got, want, sizeof got) == 0,
             "after allocation %ld of %ld: %g %g %g, should be %g %g %g", n, total, (double)got[0], (double)got[1],
             (double)got[2], (double)want[0], (double)want[1], (double)want[2]);
    }
    for (long n = 1; n <= 60; n += stride) expect_model_survives(n, sticky);
  }
  EXPECT(n_failed_calls > 0, "no allocation failed");
  if (!strcmp(compiler, "llvm")) fail_each_of_plugin();
  tc_shutdown();
  return expect_done(compiler);
}

// A process each: the compiler is chosen once. They end by exit, so that leaks are looked for.
int main(int n_words, char **words) {
  const char *device = n_words > 1 ? words[1] : "tc:cpu";
  bool all = getenv("TC_TEST_ALL") != NULL;
#ifdef __SANITIZE_ADDRESS__
  enum { FEW = 53, FEW_COMPILED = 701 };
#else
  enum { FEW = 23, FEW_COMPILED = 307 };
#endif
  int n_failed = 0;
  for (int compiled = 0; compiled < 2; compiled++) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
      exit(compiled ? fail_each(device, "llvm", all ? 41 : FEW_COMPILED) : fail_each(device, "interp", all ? 1 : FEW));
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child, "no child");
    n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  EXPECT(n_failed == 0, "%d of 2 compilers failed", n_failed);
  return expect_done("errors-alloc_fail");
}
