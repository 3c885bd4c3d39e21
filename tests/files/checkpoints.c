// Checkpoints: training resumed from one, in this process or another, has the bits of training that
// was never interrupted; a file that was cut or changed in any byte, or is another program's, is an
// error that changes nothing; a save that fails leaves the former file; what was loaded is the
// program's own, and there once.
//   checkpoints [resume KIND FILE]      the other process: trains on from FILE and prints a hash of its parameters
//   checkpoints [large FILE]            another: loads the large tensors of FILE and prints by how many bytes its memory grew at most
#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>

#include "tests/expect.h"
#include "tests/files/files.h"

enum { ROWS = 16, IN = 8, HIDDEN = 12, N_PARAMS = 3, N_STEPS = 12, HALF = 5 };
static const char *const names[N_PARAMS] = {"up.weight", "up.bias", "down.weight"};
static const char *const kinds[] = {"sgd", "momentum", "adam", "adamw", "rmsprop"};

typedef struct model {
  tc_tensor p[N_PARAMS], x, y;
  tc_optimizer *opt;
} model;

static tc_optimizer *optimizer(const char *kind, const tc_tensor *p) {
  if (strcmp(kind, "sgd") == 0) return tc_sgd(p, N_PARAMS, (tc_sgd_options){.lr = 0.05});
  if (strcmp(kind, "momentum") == 0)
    return tc_sgd(p, N_PARAMS, (tc_sgd_options){.lr = 0.05, .momentum = 0.9, .dampening = 0.1});
  if (strcmp(kind, "adam") == 0) return tc_adam(p, N_PARAMS, (tc_adam_options){.lr = 0.05, TC_ADAM_DEFAULTS});
  if (strcmp(kind, "adamw") == 0)
    return tc_adamw(p, N_PARAMS, (tc_adam_options){.lr = 0.05, TC_ADAM_DEFAULTS, .weight_decay = 0.1});
  return tc_rmsprop(p, N_PARAMS, (tc_rmsprop_options){.lr = 0.05, TC_RMSPROP_DEFAULTS, .momentum = 0.5});
}

static void model_init(model *m, const char *kind, uint64_t seed) {
  tc_seed(1);
  m->x = tc_retain(tc_randn(TC_SHAPE(ROWS, IN), TC_F32));
  m->y = tc_retain(tc_randn(TC_SHAPE(ROWS, 1), TC_F32));
  tc_seed(seed);
  m->p[0] = tc_param(tc_randn(TC_SHAPE(HIDDEN, IN), TC_F32));
  m->p[1] = tc_param(tc_zeros(TC_SHAPE(HIDDEN), TC_F32));
  m->p[2] = tc_param(tc_randn(TC_SHAPE(1, HIDDEN), TC_F32));
  m->opt = optimizer(kind, m->p);
}

static void model_fini(model *m) {
  tc_optimizer_destroy(m->opt);
  for (int i = 0; i < N_PARAMS; i++) tc_release(m->p[i]);
  tc_release(m->x);
  tc_release(m->y);
}

// Steps from..to with dropout and a falling learning rate, both of which a checkpoint must carry.
static void train(model *m, int from, int to) {
  for (int i = from; i < to; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor hidden = tc_dropout(tc_tanh(tc_linear(m->x, m->p[0], m->p[1])), 0.25);
    EXPECT_OK(tc_backward(tc_mse_loss(tc_linear(hidden, m->p[2], (tc_tensor){0, 0}), m->y)));
    EXPECT_OK(tc_optimizer_step(m->opt));
    EXPECT_OK(tc_zero_grad(m->opt));
    EXPECT_OK(tc_set_lr(m->opt, tc_get_lr(m->opt) * 0.9));
    tc_scope_end(scope);
  }
}

typedef struct bits {
  float up[HIDDEN * IN], bias[HIDDEN], down[HIDDEN];
  double lr;
} bits;

static bits bits_of(const model *m) {
  bits b = {.lr = tc_get_lr(m->opt)};
  EXPECT_OK(tc_to_host(m->p[0], b.up, sizeof b.up));
  EXPECT_OK(tc_to_host(m->p[1], b.bias, sizeof b.bias));
  EXPECT_OK(tc_to_host(m->p[2], b.down, sizeof b.down));
  return b;
}

static uint64_t hash_of(const bits *b) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < sizeof *b; i++) h = (h ^ ((const unsigned char *)b)[i]) * 1099511628211u;
  return h;
}

// From the checkpoint to the end of training, in a model that began differently.
static bits resumed(const char *kind, const char *path) {
  model m;
  int64_t step = -1;
  tc_scope scope = tc_scope_begin();
  model_init(&m, kind, 99);
  train(&m, 0, 2);
  EXPECT_OK(tc_checkpoint_load(path, N_PARAMS, names, m.p, m.opt, &step));
  EXPECT(step == HALF, "step %d", (int)step);
  train(&m, (int)step, N_STEPS);
  bits b = bits_of(&m);
  model_fini(&m);
  tc_scope_end(scope);
  return b;
}

static void save_half(model *m, const char *kind, const char *path) {
  model_init(m, kind, 7);
  train(m, 0, HALF);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m->p, m->opt, HALF));
}

static void resuming_is_going_on(const char *self, const char *kind) {
  const char *path = files_path("half.safetensors");
  model m;
  tc_scope scope = tc_scope_begin();
  save_half(&m, kind, path);
  train(&m, HALF, N_STEPS);
  bits whole = bits_of(&m);
  model_fini(&m);
  tc_scope_end(scope);
  bits again = resumed(kind, path);
  EXPECT(memcmp(&whole, &again, sizeof whole) == 0, "%s: resumed training differs", kind);

  char command[512];
  uint64_t hash = 0;
  snprintf(command, sizeof command, "'%s' resume %s %s", self, kind, path);
  FILE *other = popen(command, "r");
  EXPECT(other && fscanf(other, "%" SCNx64, &hash) == 1, "%s: no answer from the other process", kind);
  EXPECT(other && pclose(other) == 0, "%s: the other process failed", kind);
  EXPECT(hash == hash_of(&whole), "%s: training resumed in another process differs", kind);
}

static void overwrite(const char *path, int byte) {
  file_bytes b = file_read(path);
  memset(b.at, byte, b.n);
  FILE *f = fopen(path, "r+b");
  EXPECT(f && fwrite(b.at, 1, b.n, f) == b.n, "cannot overwrite %s", path);
  if (f) fclose(f);
  free(b.at);
}

// After loading, the file is overwritten in place and then cut: neither is seen, by parameters, by
// the optimizer's state or by the random state.
static void nothing_of_the_file_is_held(const char *kind) {
  const char *path = files_path("held.safetensors");
  model m;
  tc_scope scope = tc_scope_begin();
  save_half(&m, kind, path);
  bits saved = bits_of(&m);
  train(&m, HALF, N_STEPS);
  bits whole = bits_of(&m);
  EXPECT_OK(tc_checkpoint_load(path, N_PARAMS, names, m.p, m.opt, NULL));
  EXPECT(!is_mapped(path), "%s: the file is still mapped", kind);
  overwrite(path, 0);
  bits loaded = bits_of(&m);
  EXPECT(memcmp(&saved, &loaded, sizeof saved) == 0, "%s: overwriting the file changed parameters", kind);
  EXPECT(truncate(path, 0) == 0, "cannot cut %s", path);
  train(&m, HALF, N_STEPS);
  bits again = bits_of(&m);
  EXPECT(memcmp(&whole, &again, sizeof whole) == 0, "%s: training goes on differently", kind);
  model_fini(&m);
  tc_scope_end(scope);
}

enum { N_LARGE = 8, LARGE = 1 << 20 };
static const char *const large_names[N_LARGE] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static size_t most_memory(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return (size_t)use.ru_maxrss << 10;
}

static size_t growth_when_loading(const char *path) {
  tc_tensor p[N_LARGE];
  for (int i = 0; i < N_LARGE; i++) p[i] = tc_param(tc_zeros(TC_SHAPE(LARGE), TC_F32));
  size_t before = most_memory();
  EXPECT_OK(tc_checkpoint_load(path, N_LARGE, large_names, p, NULL, NULL));
  for (int i = 0; i < N_LARGE; i++) tc_release(p[i]);
  return most_memory() - before;
}

// In a process of its own, whose memory was never larger. Room for the file and a tensor or two is
// enough; of room for alignment nothing is touched, if malloc does not fill it for a test's sake.
static void loading_takes_room_once(const char *self) {
  const char *path = files_path("large.safetensors");
  char command[512];
  size_t growth = 0, bytes = (size_t)N_LARGE * LARGE * sizeof(float);
  tc_tensor p[N_LARGE];
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < N_LARGE; i++) p[i] = tc_full(TC_SHAPE(LARGE), i, TC_F32);
  EXPECT_OK(tc_checkpoint_save(path, N_LARGE, large_names, p, NULL, 0));
  tc_scope_end(scope);
  snprintf(command, sizeof command, "MALLOC_PERTURB_=0 '%s' large %s", self, path);
  FILE *other = popen(command, "r");
  EXPECT(other && fscanf(other, "%zu", &growth) == 1 && pclose(other) == 0, "the other process failed");
  EXPECT(growth < bytes + bytes / 2, "loading %zu bytes took %zu", bytes, growth);
}

// Loading fails with these words, and nothing of the model changes.
static void expect_refused(const model *m, const char *path, tc_optimizer *opt, tc_status code, const char *words,
                           const char *what, size_t at) {
  bits before = bits_of(m);
  tc_rng_state rng = tc_get_rng_state();
  int64_t step = -7;
  tc_clear_error();
  tc_status st = tc_checkpoint_load(path, N_PARAMS, names, m->p, opt, &step);
  const char *message = tc_last_error()->message;
  EXPECT(st != TC_OK && (code == TC_OK || st == code) && strstr(message, path) && strstr(message, words), "%s %zu: %s",
         what, at, tc_status_text(st));
  tc_clear_error();
  bits after = bits_of(m);
  tc_rng_state now = tc_get_rng_state();
  EXPECT(memcmp(&before, &after, sizeof before) == 0 && memcmp(&rng, &now, sizeof rng) == 0 && step == -7,
         "%s %zu: something changed", what, at);
}

static void damage_is_noticed(void) {
  const char *path = files_path("whole.safetensors");
  model m;
  tc_scope scope = tc_scope_begin();
  model_init(&m, "adam", 7);
  train(&m, 0, 2);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, m.opt, 2));
  train(&m, 2, 3);
  file_bytes b = file_read(path);
  for (size_t n = 0; n < b.n; n += n < 2000 ? 1 : 61)
    expect_refused(&m, file_in_memory(b.at, n), m.opt, TC_ERR_IO, "", "cut to", n);
  for (size_t i = 0; i < b.n; i++) {
    b.at[i] ^= (unsigned char)(1 << i % 8);
    expect_refused(&m, file_in_memory(b.at, b.n), m.opt, TC_ERR_IO, "", "changed byte", i);
    b.at[i] ^= (unsigned char)(1 << i % 8);
  }
  EXPECT_OK(tc_checkpoint_load(file_in_memory(b.at, b.n), N_PARAMS, names, m.p, m.opt, NULL));
  free(b.at);
  model_fini(&m);
  tc_scope_end(scope);
}

static void another_programs_file_is_refused(void) {
  const char *path = files_path("other.safetensors");
  model m;
  tc_scope scope = tc_scope_begin();
  model_init(&m, "adam", 7);
  tc_optimizer *sgd = optimizer("momentum", m.p);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, sgd, 0));
  expect_refused(&m, path, m.opt, TC_ERR_ARG, "has no 'optimizer.exp_avg.0' (f32 [12, 8]); the nearest is", "of SGD",
                 0);
  expect_refused(&m, path, NULL, TC_ERR_ARG, "holds 'optimizer.", "with an optimizer", 0);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, NULL, 0));
  expect_refused(&m, path, m.opt, TC_ERR_ARG, "was saved without an optimizer", "without an optimizer", 0);
  EXPECT_OK(tc_checkpoint_load(path, N_PARAMS, names, m.p, NULL, NULL));
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS - 1, names, m.p, NULL, 0));
  expect_refused(&m, path, NULL, TC_ERR_ARG, "has no 'down.weight' (f32 [1, 12])", "a parameter less", 0);
  tc_tensor wide[] = {m.p[0], m.p[1], tc_zeros(TC_SHAPE(2, HIDDEN), TC_F32)},
            half[] = {m.p[0], m.p[1], tc_cast(m.p[2], TC_F16)};
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, wide, NULL, 0));
  expect_refused(&m, path, NULL, TC_ERR_SHAPE, "'down.weight' should be f32 [1, 12], in", "another shape", 0);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, half, NULL, 0));
  expect_refused(&m, path, NULL, TC_ERR_DTYPE, "it is f16 [1, 12]", "another type", 0);
  EXPECT_OK(tc_safetensors_save(path, N_PARAMS, names, m.p));
  expect_refused(&m, path, NULL, TC_ERR_IO, "no checkpoint", "plain safetensors", 0);
  tc_optimizer_destroy(sgd);
  tc_optimizer *adamw = tc_adamw(m.p, N_PARAMS, (tc_adam_options){.lr = 0.1, TC_ADAM_DEFAULTS}),
               *plain = tc_sgd(m.p, N_PARAMS, (tc_sgd_options){.lr = 0.1});
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, adamw, 0));
  expect_refused(&m, path, m.opt, TC_ERR_ARG, "was saved with adamw, this program has adam", "of AdamW", 0);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, plain, 0));
  expect_refused(&m, path, NULL, TC_ERR_ARG, "was saved with sgd, this program has no optimizer", "of plain SGD", 0);
  EXPECT_OK(tc_checkpoint_load(path, N_PARAMS, names, m.p, plain, NULL));
  // Equal shapes in another order: nothing else tells.
  tc_tensor pair[] = {tc_param(tc_ones(TC_SHAPE(3), TC_F32)), tc_param(tc_zeros(TC_SHAPE(3), TC_F32))};
  tc_optimizer *ab = tc_sgd(pair, 2, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  tc_optimizer *ba = tc_sgd((tc_tensor[]){pair[1], pair[0]}, 2, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  EXPECT_OK(tc_checkpoint_save(path, 2, names, pair, ab, 0));
  EXPECT_FAILS(tc_checkpoint_load(path, 2, names, pair, ba, NULL), TC_ERR_ARG,
               "over other parameters, or in another order");
  EXPECT_OK(tc_checkpoint_load(path, 2, names, pair, ab, NULL));
  EXPECT(
      !strcmp(tc_optimizer_kind(ab), "sgd") && !strcmp(tc_optimizer_kind(adamw), "adamw") && !*tc_optimizer_kind(NULL),
      "kinds");
  EXPECT(tc_optimizer_param(adamw, 2).slot == m.p[2].slot && !tc_optimizer_param(adamw, 3).gen &&
             !tc_optimizer_param(NULL, 0).gen,
         "parameters");
  tc_optimizer_destroy(ab);
  tc_optimizer_destroy(ba);
  for (int i = 0; i < 2; i++) tc_release(pair[i]);
  tc_optimizer_destroy(adamw);
  tc_optimizer_destroy(plain);
  model_fini(&m);
  tc_scope_end(scope);
}

static void *make_tensor(void *out) {
  *(tc_tensor *)out = tc_retain(tc_ones(TC_SHAPE(1, HIDDEN), TC_F32));
  return NULL;
}

// A tensor that may not be assigned here is found before the first is, and what failed before has
// no part in it.
static void nothing_is_set_by_half(void) {
  const char *path = files_path("half.safetensors");
  tc_tensor elsewhere;
  pthread_t thread;
  model m;
  tc_scope scope = tc_scope_begin();
  model_init(&m, "adam", 7);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, NULL, 3));
  float was = 0, is = 0;
  EXPECT_OK(tc_assign(m.p[0], tc_full_like(m.p[0], 7)));
  EXPECT(pthread_create(&thread, NULL, make_tensor, &elsewhere) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  EXPECT(tc_is_assignable(m.p[0]) && !tc_is_assignable(elsewhere) && !tc_is_assignable((tc_tensor){0, 0}),
         "whose they are");
  tc_tensor into[] = {m.p[0], m.p[1], elsewhere};
  EXPECT(tc_checkpoint_load(path, N_PARAMS, names, into, NULL, NULL) == TC_ERR_STATE,
         "another thread's tensor was taken");
  tc_clear_error();
  tc_archive *a = tc_safetensors_open(path);
  EXPECT(tc_archive_load(a, NULL, N_PARAMS, names, into) == TC_ERR_STATE, "another thread's tensor was loaded");
  tc_clear_error();
  tc_archive_close(a);
  EXPECT_OK(tc_item_f32(tc_mean(m.p[0], TC_ALL, false), &was));
  EXPECT(was == 7, "a failed load set a parameter to %g", (double)was);
  (void)tc_reshape(tc_ones(TC_SHAPE(3), TC_F32), TC_SHAPE(4));
  EXPECT(tc_checkpoint_load(files_path("nowhere.safetensors"), N_PARAMS, names, m.p, NULL, NULL) == TC_ERR_IO,
         "the status is an older error's");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_mean(m.p[0], TC_ALL, false), &is));
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, m.opt, 3));
  EXPECT_OK(tc_assign(m.p[0], tc_full_like(m.p[0], 8)));
  EXPECT(tc_assign(m.p[0], tc_ones(TC_SHAPE(3, 3, 3), TC_F32)) != TC_OK, "an assign of another shape");
  EXPECT(tc_checkpoint_load(path, N_PARAMS, names, m.p, m.opt, NULL) == TC_ERR_SHAPE,
         "what failed before was not told");
  tc_clear_error();
  EXPECT_OK(tc_item_f32(tc_mean(m.p[0], TC_ALL, false), &is));
  EXPECT(is == 8, "a load that told of an older failure set a parameter to %g", (double)is);
  tc_release(elsewhere);
  model_fini(&m);
  tc_scope_end(scope);
}

// The disk is full, as far as this process can tell; the signal that says so otherwise would end
// it.
static void a_failed_save_leaves_the_former(void) {
  const char *path = files_path("kept.safetensors");
  struct rlimit was, small = {1024, 1024};
  model m;
  tc_scope scope = tc_scope_begin();
  model_init(&m, "adam", 7);
  EXPECT_OK(tc_checkpoint_save(path, N_PARAMS, names, m.p, m.opt, 3));
  EXPECT_OK(tc_sync(NULL));
  getrlimit(RLIMIT_FSIZE, &was);
  small.rlim_max = was.rlim_max;
  setrlimit(RLIMIT_FSIZE, &small);
  tc_status st = tc_checkpoint_save(path, N_PARAMS, names, m.p, m.opt, 4);
  setrlimit(RLIMIT_FSIZE, &was);
  EXPECT(st == TC_ERR_IO && strstr(tc_last_error()->message, "File too large"), "%s", tc_status_text(st));
  tc_clear_error();
  int64_t step = 0;
  EXPECT_OK(tc_checkpoint_load(path, N_PARAMS, names, m.p, m.opt, &step));
  EXPECT(step == 3, "step %d", (int)step);
  model_fini(&m);
  tc_scope_end(scope);
}

static void the_random_state_is_the_threads_own(void) {
  float a[4], b[4];
  tc_seed(5);
  EXPECT_OK(tc_to_host(tc_rand(TC_SHAPE(4), TC_F32), a, sizeof a));
  tc_rng_state state = tc_get_rng_state();
  EXPECT(state.seed == 5 && state.counter == 1 && state.stream == 0, "%d %d %d", (int)state.seed, (int)state.counter,
         (int)state.stream);
  EXPECT_OK(tc_to_host(tc_rand(TC_SHAPE(4), TC_F32), a, sizeof a));
  EXPECT_OK(tc_set_rng_state(state));
  EXPECT_OK(tc_to_host(tc_rand(TC_SHAPE(4), TC_F32), b, sizeof b));
  EXPECT(memcmp(a, b, sizeof a) == 0, "the same state gave other numbers");
  EXPECT(tc_set_rng_state((tc_rng_state){0, (uint64_t)1 << 40, 0}) == TC_ERR_ARG, "a counter beyond the generator's");
  EXPECT(tc_set_rng_state((tc_rng_state){0, 0, 1 << 24}) == TC_ERR_ARG, "a stream beyond the generator's");
  tc_clear_error();
}

int main(int argc, char **argv) {
  if (argc == 4) {
    bits b = resumed(argv[2], argv[3]);
    printf("%" PRIx64 "\n", hash_of(&b));
    return atomic_load(&expect_n_failed) != 0;
  }
  if (argc == 3) {
    printf("%zu\n", growth_when_loading(argv[2]));
    return atomic_load(&expect_n_failed) != 0;
  }
  the_random_state_is_the_threads_own();
  if (!has_library(tc_safetensors_open_at)) return expect_done("files-checkpoints") ? 1 : 77;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    resuming_is_going_on(argv[0], kinds[i]), nothing_of_the_file_is_held(kinds[i]);
  loading_takes_room_once(argv[0]);
  damage_is_noticed();
  another_programs_file_is_refused();
  nothing_is_set_by_half();
  a_failed_save_leaves_the_former();
  EXPECT(files_fini() == 6, "temporaries are left");
  tc_shutdown();
  return expect_done("files-checkpoints");
}
