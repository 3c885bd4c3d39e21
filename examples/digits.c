// Trains a 64 -> 256 -> 10 network on the UCI digits and tells its accuracy on 360 held-out rows:
// the mean over some seeds. Exits 1 below 97 %.
//   example-digits [--small] [seeds = 5] [file = examples/data/digits.csv]
// --small, for slow devices: 32 units, and of everything else a part; then below 40 %.
// The shape of an efficient loop: batches of one size, so that every step has one plan; a step
// records and never waits; an epoch reads one loss. At the end comes what every sync point cost
// (TC_PROFILE), and how many kernels were compiled after the second epoch: none.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/tc.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 8, PIXELS = 64, CLASSES = 10, ROWS = 1797, HELD_OUT = 360, COPIES = 5, BATCH = 64 };
enum { NO_INDEX = -1 };  // a class that no row has: none is ignored
enum { TRAIN = (ROWS - HELD_OUT) * COPIES, STEPS = TRAIN / BATCH };
static int n_hidden = 256, n_epochs = 12, n_steps = STEPS, n_held = HELD_OUT;  // n_steps: of an epoch

static float train_x[TRAIN][PIXELS], held_x[HELD_OUT][PIXELS];
static int64_t train_y[TRAIN], held_y[HELD_OUT];

static const double learning_rate = 1e-2, label_smoothing = 0.2;

typedef struct net {
  tc_tensor p[4];  // weight [out, in] and bias [out] of both layers
  tc_optimizer *opt;
} net;

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

static double now_s(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

// ---- Data: plain C ----

static void shuffle(int64_t *a, int n, uint64_t seed) {
  for (int i = n - 1; i > 0; i--) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    int j = (int)((seed >> 33) % (uint64_t)(i + 1));
    int64_t t = a[i];
    a[i] = a[j], a[j] = t;
  }
}

// The image moved by (dx, dy), what comes in being empty.
static void shift(const float *from, int dx, int dy, float *to) {
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      int fy = y - dy, fx = x - dx;
      to[y * SIDE + x] = fy >= 0 && fy < SIDE && fx >= 0 && fx < SIDE ? from[fy * SIDE + fx] : 0;
    }
}

static bool read_row(FILE *f, float *pixels, int64_t *label) {
  int v;
  for (int i = 0; i < PIXELS; i++) {
    if (fscanf(f, "%d,", &v) != 1) return false;
    pixels[i] = (float)v / 16;
  }
  if (fscanf(f, "%d", &v) != 1 || v < 0 || v >= CLASSES) return false;
  *label = v;
  return true;
}

// Rows go to the held-out set or, with four copies moved by one pixel, to the training set. The
// split is the same in every run.
static bool read_data(const char *path) {
  static const int dx[COPIES] = {0, 1, -1, 0, 0}, dy[COPIES] = {0, 0, 0, 1, -1};
  int64_t place[ROWS], label;
  float pixels[PIXELS];
  FILE *f = fopen(path, "r");
  if (f == NULL) return false;
  for (int i = 0; i < ROWS; i++) place[i] = i;
  shuffle(place, ROWS, 1);
  bool ok = true;
  for (int i = 0; i < ROWS && (ok = read_row(f, pixels, &label)); i++) {
    int64_t to = place[i];
    if (to < HELD_OUT) memcpy(held_x[to], pixels, sizeof pixels), held_y[to] = label;
    for (int c = 0; to >= HELD_OUT && c < COPIES; c++) {
      int64_t row = (to - HELD_OUT) * COPIES + c;
      shift(pixels, dx[c], dy[c], train_x[row]), train_y[row] = label;
    }
  }
  fclose(f);
  return ok;
}

// ---- Model ----

static tc_tensor forward(const net *m, tc_tensor x) {
  return tc_linear(tc_relu(tc_linear(x, m->p[0], m->p[1])), m->p[2], m->p[3]);
}

// Records one step on these rows and adds its loss to total; waits for nothing. Everything it makes
// dies with the scope.
static void step(const net *m, tc_tensor x, tc_tensor y, const int64_t *rows, tc_tensor total) {
  tc_scope scope = tc_scope_begin();
  tc_tensor at = tc_from_host(rows, TC_SHAPE(BATCH), TC_I64);
  tc_tensor loss = tc_cross_entropy_with(forward(m, tc_index_select(x, 0, at)), tc_index_select(y, 0, at),
                                         label_smoothing, NO_INDEX);
  check(tc_backward(loss));
  check(tc_optimizer_step(m->opt));
  check(tc_zero_grad(m->opt));
  check(tc_assign(total, tc_add(total, loss)));
  tc_scope_end(scope);
}

// One pass over the training rows in a new order; the mean loss.
static float train_epoch(const net *m, tc_tensor x, tc_tensor y, uint64_t seed) {
  static int64_t order[TRAIN];
  float loss;
  for (int i = 0; i < TRAIN; i++) order[i] = i;
  shuffle(order, TRAIN, seed);
  tc_scope scope = tc_scope_begin();
  tc_tensor total = tc_scalar(0);
  for (int k = 0; k < n_steps; k++) step(m, x, y, order + k * BATCH, total);
  check(tc_item_f32(total, &loss));
  tc_scope_end(scope);
  return loss / (float)n_steps;
}

static double accuracy(const net *m, tc_tensor x, tc_tensor y) {
  int64_t n_right;
  tc_scope scope = tc_scope_begin();
  check(tc_item_i64(tc_sum(tc_eq(tc_argmax(forward(m, x), 1, false), y), TC_ALL, false), &n_right));
  tc_scope_end(scope);
  return (double)n_right / n_held;
}

// Uniform within 1 / sqrt(in), as PyTorch's Linear starts.
static tc_tensor uniform(tc_dims shape, int in) {
  return tc_param(tc_mul(tc_sub(tc_rand(shape, TC_F32), 0.5), 2 / sqrt(in)));
}

static net net_create(void) {
  tc_scope scope = tc_scope_begin();
  net m = {.p = {uniform(TC_SHAPE(n_hidden, PIXELS), PIXELS), uniform(TC_SHAPE(n_hidden), PIXELS),
                 uniform(TC_SHAPE(CLASSES, n_hidden), n_hidden), uniform(TC_SHAPE(CLASSES), n_hidden)}};
  m.opt = tc_adam(m.p, 4, (tc_adam_options){.lr = learning_rate, TC_ADAM_DEFAULTS});
  tc_scope_end(scope);
  return m;
}

int main(int argc, char **argv) {
  bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
  if (small) argc--, argv++, n_hidden = 32, n_epochs = 3, n_steps = 6, n_held = 60;
  int n_seeds = argc > 1 ? atoi(argv[1]) : 5;
  const char *path = argc > 2 ? argv[2] : "examples/data/digits.csv";
  setenv("TC_PROFILE", "1", 0);  // before the first call
  if (n_seeds < 1) return fprintf(stderr, "usage: %s [--small] [seeds] [digits.csv]\n", argv[0]), 1;
  if (!read_data(path)) return fprintf(stderr, "%s: not the digits data, or not readable\n", path), 1;
  tc_tensor x = tc_from_host(train_x, TC_SHAPE(TRAIN, PIXELS), TC_F32),
            y = tc_from_host(train_y, TC_SHAPE(TRAIN), TC_I64);
  tc_tensor hx = tc_from_host(held_x, TC_SHAPE(n_held, PIXELS), TC_F32),
            hy = tc_from_host(held_y, TC_SHAPE(n_held), TC_I64);

  bool screen = isatty(STDOUT_FILENO);
  tc_cache_info warm = {0};
  double sum = 0, start = now_s();
  for (int seed = 1; seed <= n_seeds; seed++) {
    tc_seed((uint64_t)seed);
    net m = net_create();
    double right = 0;
    for (int epoch = 1; epoch <= n_epochs; epoch++) {
      // an argument of the plan: never a new one
      check(tc_set_lr(m.opt, learning_rate * (1 + cos(M_PI * (epoch - 1) / n_epochs)) / 2));
      float loss = train_epoch(&m, x, y, (uint64_t)(seed * n_epochs + epoch));
      right = accuracy(&m, hx, hy);
      // On a terminal each epoch takes the line of the one before; elsewhere the last one of a seed
      // is told.
      if (screen || epoch == n_epochs)
        printf("%sseed %d  epoch %2d  loss %.4f  held-out accuracy %.2f %%", screen ? "\r" : "", seed, epoch,
               (double)loss, 100 * right);
      fflush(stdout);
      if (seed == 1 && epoch == 2) warm = tc_cache_stats();
    }
    printf("\n");
    sum += right;
    tc_optimizer_destroy(m.opt);
    for (int i = 0; i < 4; i++) tc_release(m.p[i]);
  }
  tc_cache_info end = tc_cache_stats();
  printf("mean held-out accuracy %.2f %% over %d seeds, %.1f s on %s\n", 100 * sum / n_seeds, n_seeds, now_s() - start,
         tc_get_default_device());
  printf("plans: %zu, hit %llu times; kernels: %zu; compiled after the second epoch: %llu\n", end.n_plans,
         (unsigned long long)end.plan_hits, end.n_kernels, (unsigned long long)(end.compiles - warm.compiles));
  fflush(stdout);  // the library's summary comes last
  return sum / n_seeds >= (small ? 0.4 : 0.97) ? 0 : 1;
}
