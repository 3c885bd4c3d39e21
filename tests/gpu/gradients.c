// Gradients that go from one memory to another: between the processor and simulated GPUs of both
// vendors, and between two of them, beside the same program on tc:cpu and beside central
// differences. Chains that cross several times, values used on both sides, gradients of gradients,
// history that is kept, freed or not there, training with its sync points, several threads,
// failures in the middle of a backward, and memory that returns.
// Each allocation fails in turn: the linker leads the library's calls of malloc and its like to
// this program (meson.build: --wrap).
// tc:cpu and tc:ref share a memory: between them a gradient goes by a record, and the same holds.
//   gpu_gradients [random programs = 12]
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "tests/child.h"
#include "tests/failing.h"
#include "tests/sim/built.h"

enum { N = 12, MOST = 64 };

// Where a program's two halves are.
static const struct places {
  const char *name[2];
} routes[] = {{{"tc:cpu", "tc:cuda"}}, {{"tc:cuda", "tc:cpu"}}, {{"tc:cuda", "tc:cuda:1"}}, {{"tc:cpu", "tc:hip"}},
              {{"tc:hip", "tc:cuda"}}, {{"tc:cpu", "tc:ref"}},  {{"tc:ref", "tc:cuda"}}};
static const struct places alone = {{"tc:cpu", "tc:cpu"}};

static bool is_far(const struct places *at) {
  const char *a = at->name[0], *b = at->name[1];
  bool host[2] = {strcmp(a, "tc:cpu") == 0 || strcmp(a, "tc:ref") == 0,
                  strcmp(b, "tc:cpu") == 0 || strcmp(b, "tc:ref") == 0};
  return strcmp(a, b) != 0 && !(host[0] && host[1]);
}

static tc_tensor data(const double *x, tc_dims shape, const char *device) {
  tc_tensor t = {0, 0};
  EXPECT_OK(tc_push_device(device));
  t = tc_from_host(x, shape, TC_F64);
  EXPECT_OK(tc_pop_device());
  return t;
}

static void fill(double *x, int n, uint32_t seed) {
  for (int i = 0; i < n; i++) seed = seed * 1664525 + 1013904223, x[i] = ((double)(seed >> 16) / 32768 - 1) * 0.9;
}

static int read_out(tc_tensor t, double *out) {
  int n = (int)tc_numel(t);
  EXPECT(n <= MOST, "%d", n);
  EXPECT_OK(tc_to_host(tc_cast(t, TC_F64), out, (size_t)n * sizeof *out));
  return n;
}

static double item(tc_tensor t) {
  double v = NAN;
  EXPECT_OK(tc_item_f64(t, &v));
  return v;
}

static tc_tensor total(tc_tensor t) {
  return tc_sum(t, TC_ALL, false);
}

static bool same(const double *a, const double *b, int n, double within) {
  for (int i = 0; i < n; i++)
    if (!(fabs(a[i] - b[i]) <= within * (1 + fabs(b[i])))) return false;
  return true;
}

// ---- programs: of parameters p on the first device and q on the second, a scalar ----

typedef tc_tensor program(tc_tensor p, tc_tensor q, const struct places *at);

static tc_tensor once(tc_tensor p, tc_tensor q, const struct places *at) {
  return total(tc_square(tc_matmul(tc_tanh(tc_to(tc_mul(p, 3), at->name[1])), q)));
}

// The parameter itself is carried, twice, and used where it is, too.
static tc_tensor on_both_sides(tc_tensor p, tc_tensor q, const struct places *at) {
  tc_tensor there = tc_to(p, at->name[1]),
            back = tc_to(total(tc_mul(tc_exp(there), tc_add(q, tc_to(p, at->name[1])))), at->name[0]);
  return tc_mul(total(tc_sin(p)), tc_add(back, total(tc_square(tc_add(p, tc_to(tc_mul(there, 0.5), at->name[0]))))));
}

static tc_tensor several_times(tc_tensor p, tc_tensor q, const struct places *at) {
  tc_tensor h = p;
  for (int k = 0; k < 3; k++) {
    h = tc_sigmoid(tc_matmul(tc_to(h, at->name[1]), q));
    h = tc_add(tc_to(h, at->name[0]), tc_mul(p, (float)(k + 1)));
  }
  return tc_mean(tc_square(h), TC_ALL, false);
}

// Read on the way, so that both sides have runs behind them; and values that are only recipes.
static tc_tensor read_on_the_way(tc_tensor p, tc_tensor q, const struct places *at) {
  tc_tensor a = tc_mul(p, 2), b = tc_sin(a), there = tc_to(b, at->name[1]), c = tc_mul(there, q), d = tc_add(c, there);
  EXPECT(isfinite(item(total(d))) && isfinite(item(total(a))), "they can be read");
  tc_tensor e = tc_to(tc_mul(c, d), at->name[0]);
  EXPECT(isfinite(item(total(e))), "it can be read");
  return total(tc_mul(tc_mul(e, a), b));
}

// What rules and compositions make of no value lies beside the operands, whatever the default
// device is.
static tc_tensor constants(tc_tensor p, tc_tensor q, const struct places *at) {
  tc_tensor there = tc_slice(tc_to(p, at->name[1]), 0, 0, 3, 1), w = tc_slice(q, 1, 1, 4, 1);
  tc_tensor rows = tc_cumsum(tc_prod(tc_matmul(there, w), TC_AXES(1), true), 0);
  tc_tensor more = tc_to(tc_mul(tc_log_softmax(rows, 0), tc_add(tc_zeros_like(rows), 2)), at->name[0]);
  return tc_add(total(tc_mul(more, tc_ones_like(more))), total(tc_roll(tc_slice(p, 0, 1, 4, 2), 1, 0)));
}

static tc_tensor casts(tc_tensor p, tc_tensor q, const struct places *at) {
  tc_tensor half = tc_to(tc_cast(p, TC_F32), at->name[1]);
  return tc_to(total(tc_mul(tc_cast(tc_mul(half, half), TC_F64), q)), at->name[0]);
}

static const struct {
  const char *name;
  program *f;
  double within;  // of tc:cpu
  double step;  // of central differences; 0: too coarse a type
} programs[] = {{"once", once, 1e-12, 1e-5},
                {"on both sides", on_both_sides, 1e-12, 1e-5},
                {"several times", several_times, 1e-12, 1e-5},
                {"read on the way", read_on_the_way, 1e-12, 1e-5},
                {"constants", constants, 1e-11, 1e-5},
                {"casts", casts, 1e-6, 0}};
enum { N_PROGRAMS = sizeof programs / sizeof *programs, N_ROUTES = sizeof routes / sizeof *routes };

// Value and gradients of p (4 x 4) and q (4 x 4), by backward or by grads_of.
static double run(program *f, const struct places *at, bool grads_of, const double *x, double grad[2][16]) {
  tc_scope s = tc_scope_begin();
  double v;
  tc_tensor both[2] = {tc_param(data(x, TC_SHAPE(4, 4), at->name[0])),
                       tc_param(data(x + 16, TC_SHAPE(4, 4), at->name[1]))},
            g[2];
  tc_tensor y = f(both[0], both[1], at);
  if (grads_of) {
    EXPECT_OK(tc_grads_of(y, both, 2, g, 0));
  } else {
    EXPECT_OK(tc_backward(y));
    for (int i = 0; i < 2; i++) g[i] = tc_grad(both[i]);
  }
  for (int i = 0; i < 2; i++) {
    EXPECT(strcmp(tc_device_of(g[i]), at->name[i]) == 0, "%s", tc_device_of(g[i]));
    read_out(g[i], grad[i]);
  }
  v = item(y);
  tc_release(both[0]), tc_release(both[1]);
  tc_scope_end(s);
  return v;
}

static double value(program *f, const double *x) {
  tc_scope s = tc_scope_begin();
  double v = item(f(data(x, TC_SHAPE(4, 4), "tc:cpu"), data(x + 16, TC_SHAPE(4, 4), "tc:cpu"), &alone));
  tc_scope_end(s);
  return v;
}

static void test_programs(void) {
  double x[32], want[2][16], got[2][16];
  fill(x, 32, 7);
  for (int k = 0; k < N_PROGRAMS; k++) {
    double v = run(programs[k].f, &alone, false, x, want);
    for (int i = 0; i < 32 && programs[k].step > 0; i++) {
      double h = programs[k].step, old = x[i], up, down;
      x[i] = old + h, up = value(programs[k].f, x), x[i] = old - h, down = value(programs[k].f, x), x[i] = old;
      EXPECT(same(&want[i / 16][i % 16], &(double){(up - down) / (2 * h)}, 1, 1e-6), "%s, %d: %g and %g",
             programs[k].name, i, want[i / 16][i % 16], (up - down) / (2 * h));
    }
    for (int r = 0; r < N_ROUTES; r++)
      for (int by = 0; by < 2; by++) {
        double there = run(programs[k].f, &routes[r], by == 1, x, got);
        EXPECT(same(&there, &v, 1, programs[k].within), "%s on %s and %s: %.17g of %.17g", programs[k].name,
               routes[r].name[0], routes[r].name[1], there, v);
        for (int i = 0; i < 2; i++)
          EXPECT(same(got[i], want[i], 16, programs[k].within), "%s on %s and %s, gradient %d: %.17g.. of %.17g..",
                 programs[k].name, routes[r].name[0], routes[r].name[1], i, got[i][0], want[i][0]);
      }
  }
}

// ---- random programs: values go anywhere, are read, forgotten and used again ----

enum { OPS = 24, PARAMS = 4 };
static const char *const anywhere[] = {"tc:cpu", "tc:ref", "tc:cuda", "tc:cuda:1", "tc:hip"};

static uint32_t draw(uint32_t *state, uint32_t below) {
  *state = *state * 1664525 + 1013904223;
  return (*state >> 16) % below;
}

static tc_tensor combine(tc_tensor a, tc_tensor b, uint32_t how) {
  switch (how) {
    case 0: return tc_mul(a, b);
    case 1: return tc_add(tc_sin(a), b);
    case 2: return tc_matmul(a, tc_mul(b, 0.3));
    case 3: return tc_sub(tc_mul(a, 0.5), tc_tanh(b));
    case 4: return tc_mul(tc_softmax(a, 1), tc_transpose(b, 0, 1));
    case 5: return tc_add(tc_sum(a, TC_AXES(0), true), tc_cumsum(b, 1));
    default: return tc_where(tc_gt(a, b), a, tc_square(b));
  }
}

// The same program for the same seed, whose values are all on tc:cpu, or wherever the seed says.
// Gradients of the parameters, and of their squares' sum if the seed says so.
static void run_random(uint32_t seed, bool far, double grad[PARAMS][16]) {
  tc_scope s = tc_scope_begin();
  uint32_t state = seed;
  double x[16];
  tc_tensor p[PARAMS], v[PARAMS + OPS], g[PARAMS];
  int n = 0;
  for (; n < PARAMS; n++) {
    fill(x, 16, draw(&state, 1 << 16));
    uint32_t where = draw(&state, 5);
    v[n] = p[n] = tc_param(data(x, TC_SHAPE(4, 4), far ? anywhere[where] : "tc:cpu"));
  }
  for (; n < PARAMS + OPS; n++) {
    uint32_t i = draw(&state, (uint32_t)n), k = draw(&state, (uint32_t)n), how = draw(&state, 7),
             where = draw(&state, 5), then = draw(&state, 12);
    const char *device = far ? anywhere[where] : "tc:cpu";
    v[n] = combine(tc_to(v[i], device), tc_to(v[k], device), how);
    EXPECT(tc_is_valid(v[n]), "program %u: %s", seed, tc_last_error()->message);
    if (then == 0) EXPECT(isfinite(item(total(v[n]))), "program %u", seed);
    if (then == 1) EXPECT_OK(tc_eval(1, &v[n]));
    if (then == 2) EXPECT_OK(tc_assign(v[n], tc_mul(v[n], 2)));
    if (then == 3) v[n] = tc_detach(v[n]);
  }
  tc_tensor y = tc_scalar(0);
  for (int i = n - 4; i < n; i++) y = tc_add(y, total(tc_to(tc_tanh(v[i]), "tc:cpu")));
  uint32_t way = draw(&state, 4);
  if (way == 0) {
    EXPECT_OK(tc_backward_with(y, (tc_tensor){0, 0}, TC_RETAIN));
    EXPECT_OK(tc_backward(y));
    for (int i = 0; i < PARAMS; i++) g[i] = tc_grad(p[i]);
  } else {
    EXPECT_OK(tc_grads_of(y, p, PARAMS, g, way == 1 ? 0 : TC_CREATE_GRAPH));
  }
  if (way > 1) {
    tc_tensor squares = tc_scalar(0);
    for (int i = 0; i < PARAMS; i++) squares = tc_add(squares, total(tc_square(tc_to(g[i], "tc:cpu"))));
    EXPECT_OK(tc_grads_of(squares, p, PARAMS, g, 0));
  }
  for (int i = 0; i < PARAMS; i++) {
    for (int k = 0; k < 16; k++) grad[i][k] = 0;
    if (tc_is_valid(g[i])) read_out(g[i], grad[i]);
    tc_release(p[i]);
  }
  tc_scope_end(s);
}

static void test_random_programs(uint32_t n) {
  static double want[PARAMS][16], got[PARAMS][16];
  for (uint32_t seed = 1; seed <= n; seed++) {
    run_random(seed, false, want);
    run_random(seed, true, got);
    for (int i = 0; i < PARAMS; i++) {
      double most = 1;
      for (int k = 0; k < 16; k++) most = fmax(most, fabs(want[i][k]));
      for (int k = 0; k < 16; k++)
        EXPECT(fabs(got[i][k] - want[i][k]) <= 1e-9 * most, "program %u, gradient %d at %d: %.17g of %.17g", seed, i, k,
               got[i][k], want[i][k]);
    }
  }
}

// ---- what is asked for ----

static void test_grads_of(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST];
  fill(x, N, 3);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), unused = tc_param(data(x, TC_SHAPE(2), at->name[1]));
  tc_tensor before = tc_mul(p, 2), there = tc_to(before, at->name[1]), after = tc_square(there),
            y = total(tc_mul(after, 3)), out[6];
  EXPECT(tc_requires_grad(there) && tc_requires_grad(y), "they want gradients");
  EXPECT_OK(tc_grads_of(y, (tc_tensor[]){p, before, there, after, unused, there}, 6, out, TC_RETAIN));
  const double slope[6] = {24, 12, 12, 3, 0, 12};
  for (int i = 0; i < 6; i++) {
    EXPECT(strcmp(tc_device_of(out[i]), at->name[i > 1]) == 0, "%d: %s", i, tc_device_of(out[i]));
    int n = read_out(out[i], g);
    EXPECT(n == (i == 4 ? 2 : N), "%d", n);
    double want[N];
    for (int k = 0; k < n; k++) want[k] = i == 3 ? 3 : slope[i] * x[k];
    EXPECT(same(g, want, n, 1e-14), "%d: %g, %g", i, g[0], want[0]);
  }
  EXPECT(!tc_is_valid(tc_grad(p)), "none is accumulated");
  EXPECT_FAILS(tc_grads_of(y, (tc_tensor[]){tc_detach(there)}, 1, out, 0), TC_ERR_GRAD,
               "tensor 0 does not want a gradient");
  EXPECT_FAILS(tc_grads_of(y, (tc_tensor[]){p, {0, 0}}, 2, out, 0), TC_ERR_HANDLE, "null tensor");
  EXPECT(!tc_is_valid(out[0]), "poison");
  tc_release(p), tc_release(unused);
  tc_scope_end(s);
}

// A gradient of one's own, which must lie beside the tensor; of the carried value itself nothing is
// recorded at all.
static void test_backward_with(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST], want[N];
  fill(x, N, 5);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), y = tc_to(tc_mul(p, p), at->name[1]),
            mine = data(x, TC_SHAPE(N), at->name[1]);
  EXPECT_FAILS(tc_backward_with(y, data(x, TC_SHAPE(N), at->name[0]), TC_RETAIN), TC_ERR_DEVICE, at->name[0]);
  EXPECT_OK(tc_backward_with(y, mine, TC_RETAIN));
  for (int k = 0; k < N; k++) want[k] = 2 * x[k] * x[k];
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-14), "%g", g[0]);
  EXPECT_OK(tc_backward_with(tc_add(y, 1), tc_mul(mine, 2), 0));
  for (int k = 0; k < N; k++) want[k] *= 3;
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-14), "added up: %g", g[0]);
  read_out(mine, g);
  EXPECT(same(g, x, N, 0), "what was given is as it was");
  // a parameter's gradient is a value of its own, though it is what was given: the caller's memory,
  // another parameter
  tc_tensor q = tc_param(tc_zeros_like(y)), lent, other = tc_param(mine);
  double memory[N];
  memcpy(memory, x, sizeof x);
  EXPECT_OK(tc_push_device(at->name[1]));
  lent = tc_borrow(memory, TC_SHAPE(N), TC_F64, TC_WRITABLE, NULL, NULL);
  EXPECT_OK(tc_pop_device());
  EXPECT_OK(tc_backward_with(tc_add(tc_to(p, at->name[1]), q), lent, 0));
  EXPECT_OK(tc_eval(1, (tc_tensor[]){tc_grad(q)}));
  memory[0] = 100;
  read_out(tc_grad(q), g);
  EXPECT(same(g, x, N, 0), "the caller's memory: %g", g[0]);
  EXPECT_OK(tc_zero_grad_of(1, &q));
  EXPECT_OK(tc_backward_with(tc_add(tc_to(p, at->name[1]), q), other, 0));
  EXPECT_OK(tc_assign(other, tc_zeros_like(other)));
  EXPECT(!tc_requires_grad(tc_grad(q)), "a gradient is no parameter");
  read_out(tc_grad(q), g);
  EXPECT(same(g, x, N, 0), "of a parameter: %g", g[0]);
  tc_release(q), tc_release(other);
  tc_release(p);
  tc_scope_end(s);
}

// Gradients of gradients, whose own way leads over both memories: of sum(3 (2p)^3), 72 p^2, then
// 144 p, then 144.
static void test_create_graph(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST], want[N];
  fill(x, N, 9);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), there = tc_to(tc_mul(p, 2), at->name[1]);
  tc_tensor y = total(tc_mul(tc_mul(tc_square(there), there), 3)), first, second, third;
  EXPECT_OK(tc_grads_of(y, &p, 1, &first, TC_CREATE_GRAPH));
  EXPECT(tc_requires_grad(first), "it is differentiable");
  EXPECT_OK(tc_grads_of(total(first), &p, 1, &second, TC_CREATE_GRAPH));
  EXPECT_OK(tc_grads_of(total(tc_to(second, at->name[1])), &p, 1, &third, TC_RETAIN));
  for (int order = 1; order <= 3; order++) {
    for (int k = 0; k < N; k++) want[k] = order == 1 ? 72 * x[k] * x[k] : order == 2 ? 144 * x[k] : 144;
    read_out(order == 1 ? first : order == 2 ? second : third, g);
    EXPECT(same(g, want, N, 1e-13), "order %d: %g of %g", order, g[0], want[0]);
  }
  EXPECT_OK(tc_backward_with(y, (tc_tensor){0, 0}, TC_CREATE_GRAPH));  // a penalty on the gradient, as it accumulated
  EXPECT_OK(tc_backward(total(tc_square(tc_grad(p)))));
  for (int k = 0; k < N; k++) want[k] = 72 * x[k] * x[k] + 2 * 72 * x[k] * x[k] * 144 * x[k];
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-12), "%g of %g", g[0], want[0]);
  tc_release(p);
  tc_scope_end(s);
}

static void test_history(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST], want[N];
  fill(x, N, 11);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), h = tc_sin(p), there = tc_to(h, at->name[1]),
            y = total(tc_square(there));
  tc_tensor other = total(tc_exp(there));
  EXPECT_OK(tc_backward_with(y, (tc_tensor){0, 0}, TC_RETAIN));
  EXPECT_OK(tc_backward(y));
  for (int k = 0; k < N; k++) want[k] = 2 * 2 * sin(x[k]) * cos(x[k]);
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-12), "twice: %g of %g", g[0], want[0]);
  EXPECT(tc_backward(y) == TC_ERR_GRAD, "a second one without TC_RETAIN: %s", tc_last_error()->message);
  EXPECT_FAILS(tc_backward(other), TC_ERR_GRAD, "was freed by the backward at");
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-12), "a failed one adds nothing: %g of %g", g[0], want[0]);
  EXPECT_FAILS(tc_backward(total(tc_to(h, at->name[1]))), TC_ERR_GRAD, "was freed by the backward at");
  // what has no history
  EXPECT(!tc_requires_grad(tc_to(tc_detach(h), at->name[1])) && !tc_requires_grad(tc_detach(there)), "detached");
  tc_no_grad_begin();
  tc_tensor plain = tc_to(p, at->name[1]);
  tc_no_grad_end();
  EXPECT(!tc_requires_grad(plain), "made without gradients");
  EXPECT_FAILS(tc_backward(total(plain)), TC_ERR_GRAD, "nothing it was made from wants a gradient");
  // gradients stop where the tensor was detached, and go on beside it
  tc_tensor q = tc_param(data(x, TC_SHAPE(N), at->name[0])), cut = tc_to(tc_detach(tc_mul(q, 2)), at->name[1]);
  EXPECT_OK(tc_backward(total(tc_mul(cut, tc_to(q, at->name[1])))));
  for (int k = 0; k < N; k++) want[k] = 2 * x[k];
  read_out(tc_grad(q), g);
  EXPECT(same(g, want, N, 1e-14), "%g of %g", g[0], want[0]);
  tc_release(p), tc_release(q);
  tc_scope_end(s);
}

// What is assigned between forward and backward changes no gradient of what was computed before.
static void test_assign(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST], want[N];
  fill(x, N, 13);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), h = tc_square(p), there = tc_to(h, at->name[1]),
            y = total(tc_mul(there, there));
  EXPECT_OK(tc_assign(p, tc_full_like(p, 5)));
  EXPECT_OK(tc_assign(h, tc_zeros_like(h)));
  EXPECT_OK(tc_assign(there, tc_zeros_like(there)));
  EXPECT_OK(tc_eval(1, &there));
  EXPECT(!tc_requires_grad(there), "a new value, without history");
  EXPECT_OK(tc_backward(y));
  for (int k = 0; k < N; k++) want[k] = 4 * x[k] * x[k] * x[k];
  read_out(tc_grad(p), g);
  EXPECT(same(g, want, N, 1e-13), "%g of %g", g[0], want[0]);
  read_out(p, g);
  EXPECT(g[0] == 5, "%g", g[0]);
  // a carried value assigned to another tensor
  tc_tensor state = tc_to(tc_zeros_like(p), at->name[1]);
  EXPECT_OK(tc_zero_grad_of(1, &p));
  EXPECT_OK(tc_assign(state, tc_to(tc_mul(p, 3), at->name[1])));
  EXPECT_OK(tc_backward(total(tc_square(state))));
  read_out(tc_grad(p), g);
  EXPECT(fabs(g[1] - 2 * 15 * 3) < 1e-12, "%g", g[1]);
  tc_release(p);
  tc_scope_end(s);
}

static void test_empty(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double none[1] = {0}, g[MOST];
  tc_tensor p = tc_param(data(none, TC_SHAPE(3, 0), at->name[0])), q = tc_param(data(none, TC_SCALAR, at->name[0]));
  tc_tensor there = tc_to(tc_mul(p, 2), at->name[1]);
  EXPECT_OK(tc_backward(tc_add(total(tc_exp(there)), tc_to(tc_exp(q), at->name[1]))));
  EXPECT(read_out(tc_grad(p), g) == 0 && tc_shape(tc_grad(p)).dim[0] == 3, "an empty gradient");
  read_out(tc_grad(q), g);
  EXPECT(g[0] == 1, "of a scalar: %g", g[0]);
  tc_release(p), tc_release(q);
  tc_scope_end(s);
}

static void test_errors(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[N], g[MOST];
  fill(x, N, 17);
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), at->name[0])), there = tc_to(tc_mul(p, 2), at->name[1]);
  EXPECT_FAILS(tc_backward(there), TC_ERR_GRAD, "is no scalar");
  EXPECT_FAILS(tc_to(p, "tc:moon"), TC_ERR_DEVICE, "tc:moon");
  EXPECT_FAILS(tc_to(p, "tc:cuda:9"), TC_ERR_DEVICE, "tc:cuda:9");
  EXPECT_FAILS(tc_add(p, there), TC_ERR_DEVICE, "operands are on");
  EXPECT_FAILS(tc_to((tc_tensor){0, 0}, at->name[1]), TC_ERR_HANDLE, "null tensor");
  tc_tensor bad = tc_to(tc_matmul(p, tc_add(p, there)), at->name[1]);
  EXPECT(!tc_is_valid(bad) && tc_backward(bad) == TC_ERR_DEVICE, "poison passes");
  tc_clear_error();
  EXPECT_OK(tc_backward(total(there)));
  read_out(tc_grad(p), g);
  EXPECT(g[0] == 2, "it goes on: %g", g[0]);
  tc_release(p);
  tc_scope_end(s);
}

// Composed ops and their gradients make their masks, positions and tables beside their operands,
// wherever the default is.
static tc_tensor compose(tc_tensor x, tc_tensor w, const char *device) {
  const int64_t classes[] = {3, 0, 2, 1};
  tc_tensor labels = tc_to(tc_from_host(classes, TC_SHAPE(4), TC_I64), device),
            image = tc_reshape(x, TC_SHAPE(1, 1, 4, 4));
  tc_tensor all[] = {
      tc_cross_entropy(x, labels),
      total(tc_mul(tc_tril(x, 0), tc_cast(tc_one_hot(labels, 4), TC_F64))),
      total(tc_square(tc_index_select(x, 0, labels))),
      total(tc_exp(tc_gather(x, 1, tc_argsort(x, 1, true)))),
      total(tc_square(tc_max_pool2d(image, TC_SHAPE(2), (tc_pool_options){.stride = TC_SHAPE(1)}))),
      total(tc_square(tc_interpolate(image, TC_SHAPE(7, 5), (tc_interpolate_options){.mode = TC_LINEAR}))),
      total(tc_square(tc_scaled_dot_product_attention(tc_reshape(x, TC_SHAPE(1, 1, 4, 4)),
                                                      tc_reshape(w, TC_SHAPE(1, 1, 4, 4)), image, (tc_tensor){0, 0},
                                                      (tc_attention_options){.causal = true}))),
      total(tc_cummax(tc_prod(tc_mul(x, w), TC_AXES(0), true), 1)),
      total(tc_sin(tc_pad(x, TC_SHAPE(1, 0), TC_SHAPE(0, 2), 0.5))),
      total(tc_mul(tc_dropout(tc_mul(x, 0), 0.5), w)),
      tc_sub(total(tc_rand_like(x)), total(tc_rand_like(x)))};
  tc_tensor y = tc_zeros_like(all[0]);
  for (size_t i = 0; i < sizeof all / sizeof *all - 1; i++) {
    EXPECT(tc_is_valid(all[i]) && strcmp(tc_device_of(all[i]), device) == 0, "%zu: %s", i, tc_last_error()->message);
    y = tc_add(y, tc_mul(all[i], (float)(i + 1)));
  }
  return y;
}

static void test_elsewhere(void) {
  static const char *const devices[] = {"tc:cpu", "tc:ref", "tc:cuda", "tc:hip"};
  double x[32], want[3][16], got[3][16];
  fill(x, 32, 51);
  for (int d = 0; d < 4; d++) {
    tc_scope s = tc_scope_begin();
    tc_tensor p[2] = {tc_param(data(x, TC_SHAPE(4, 4), devices[d])),
                      tc_param(data(x + 16, TC_SHAPE(4, 4), devices[d]))},
              g[2];
    tc_tensor y = compose(p[0], p[1], devices[d]);
    EXPECT_OK(tc_grads_of(y, p, 2, g, 0));
    for (int i = 0; i < 2; i++) read_out(g[i], got[i]);
    read_out(y, got[2]);
    if (d == 0) memcpy(want, got, sizeof got);
    EXPECT(same(got[2], want[2], 1, 1e-9), "%s: %.17g of %.17g", devices[d], got[2][0], want[2][0]);
    for (int i = 0; i < 2; i++)
      EXPECT(same(got[i], want[i], 16, 1e-9), "%s: %.17g.. of %.17g..", devices[d], got[i][0], want[i][0]);
    tc_release(p[0]), tc_release(p[1]);
    tc_scope_end(s);
  }
}

// ---- training ----

enum { STEPS = 10, STEADY = 3, MOST_POINTS = 128 };
typedef struct trained {
  double loss[STEPS];
  uint64_t compiles, misses;  // from the third step on
  size_t live[STEPS];
} trained;

// Two layers, one on each device; the loss is on the second. With Adam one optimizer has the
// parameters of both, else each has its own.
static void train(const struct places *at, bool adam, trained *out) {
  tc_scope s = tc_scope_begin();
  double x[32], w[2][16];
  fill(x, 32, 21), fill(w[0], 16, 22), fill(w[1], 16, 23);
  tc_tensor p[2] = {tc_param(data(w[0], TC_SHAPE(4, 4), at->name[0])),
                    tc_param(data(w[1], TC_SHAPE(4, 4), at->name[1]))};
  tc_optimizer *opt[2];
  int n_opt = adam ? 1 : 2;
  for (int i = 0; i < n_opt; i++)
    opt[i] = adam ? tc_adam(p, 2, (tc_adam_options){.lr = 0.02, TC_ADAM_DEFAULTS})
                  : tc_sgd(&p[i], 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.9});
  tc_tensor in = data(x, TC_SHAPE(4, 4), at->name[0]), want = data(x + 16, TC_SHAPE(4, 4), at->name[1]);
  for (int step = 0; step < STEPS; step++) {
    if (step == STEADY) out->compiles = tc_cache_stats().compiles, out->misses = tc_cache_stats().plan_misses;
    tc_scope inner = tc_scope_begin();
    tc_tensor h = tc_tanh(tc_matmul(in, p[0]));
    tc_tensor loss = tc_mean(tc_square(tc_sub(tc_matmul(tc_to(h, at->name[1]), p[1]), want)), TC_ALL, false);
    EXPECT_OK(tc_backward(loss));
    for (int i = 0; i < n_opt; i++) EXPECT_OK(tc_optimizer_step(opt[i]));
    for (int i = 0; i < n_opt; i++) EXPECT_OK(tc_zero_grad(opt[i]));
    out->loss[step] = item(loss);
    tc_scope_end(inner);
    out->live[step] = tc_memory_stats().live_bytes + tc_memory_stats().gpu_live_bytes;
  }
  out->compiles = tc_cache_stats().compiles - out->compiles, out->misses = tc_cache_stats().plan_misses - out->misses;
  for (int i = 0; i < n_opt; i++) tc_optimizer_destroy(opt[i]);
  tc_release(p[0]), tc_release(p[1]);
  tc_scope_end(s);
}

// Each step begins with the sync point of its tc_to. From the third on a step has so many, one of
// them in the middle of the backward, and what it has not been is held.
static void check_steps(const char *name, const trained *t, int most) {
  static tc_sync_point point[MOST_POINTS];
  int n = tc_sync_points(MOST_POINTS, point), from = 0, n_to = 0, length = 0;
  char causes[256] = "";
  for (int i = n; i-- > 0 && n_to < STEPS - STEADY;)
    if (strcmp(point[i].cause, "to") == 0) from = i, n_to++;
  EXPECT(n_to == STEPS - STEADY, "%s: %d", name, n_to);
  for (int i = from; i < n; i++) {
    bool to = strcmp(point[i].cause, "to") == 0;
    if (i > from && to) {
      EXPECT(length <= most && strstr(causes, "backward") && strstr(causes, "backward") == strrchr(causes, 'b'),
             "%s: %d:%s", name, length, causes);
      length = 0, causes[0] = 0;
    }
    EXPECT(point[i].status == TC_OK && point[i].hit, "%s: %s", name, point[i].cause);
    length++, snprintf(causes + strlen(causes), sizeof causes - strlen(causes), " %s", point[i].cause);
  }
  EXPECT(t->compiles == 0 && t->misses == 0, "%s: %llu compiles, %llu new plans", name, (unsigned long long)t->compiles,
         (unsigned long long)t->misses);
  for (int i = STEADY + 1; i < STEPS; i++)
    EXPECT(t->live[i] == t->live[STEADY], "%s: %zu bytes, then %zu", name, t->live[STEADY], t->live[i]);
}

// The norm over both devices, and gradients scaled by it.
static void test_clipping(const struct places *at) {
  tc_scope s = tc_scope_begin();
  double x[2 * N], g[MOST], square = 0;
  fill(x, 2 * N, 61);
  tc_tensor p[4] = {tc_param(data(x, TC_SHAPE(N), at->name[0])), tc_param(data(x, TC_SHAPE(3), at->name[1])),
                    tc_param(data(x + N, TC_SHAPE(N), at->name[1])), tc_param(data(x, TC_SHAPE(3), at->name[0]))};
  EXPECT(item(tc_clip_grad_norm(p, 4, 1)) == 0, "no gradients");
  EXPECT_OK(tc_backward(total(tc_mul(tc_to(tc_square(p[0]), at->name[1]), tc_square(p[2])))));
  for (int k = 0; k < N; k++) square += 4 * pow(x[k] * x[N + k], 2) * (x[k] * x[k] + x[N + k] * x[N + k]);
  double norm = item(tc_clip_grad_norm(p, 4, 0.125));
  EXPECT(same(&norm, &(double){sqrt(square)}, 1, 1e-13), "%.17g of %.17g", norm, sqrt(square));
  for (int i = 0; i < 2; i++) {
    double want[N];
    for (int k = 0; k < N; k++) want[k] = 2 * x[k] * x[N + k] * x[i ? k : N + k] * 0.125 / (norm + 1e-6);
    EXPECT(strcmp(tc_device_of(tc_grad(p[2 * i])), at->name[i]) == 0, "%s", tc_device_of(tc_grad(p[2 * i])));
    read_out(tc_grad(p[2 * i]), g);
    EXPECT(same(g, want, N, 1e-13), "%d: %.17g of %.17g", i, g[0], want[0]);
  }
  EXPECT(!tc_is_valid(tc_grad(p[1])), "nothing is made where there was none");
  EXPECT_FAILS(tc_clip_grad_norm(p, 4, -1), TC_ERR_ARG, "max_norm is -1");
  for (int i = 0; i < 4; i++) tc_release(p[i]);
  tc_scope_end(s);
}

static void test_training(void) {
  for (int adam = 0; adam < 2; adam++) {
    trained want, got;
    train(&alone, adam, &want);
    EXPECT(want.loss[STEPS - 1] < want.loss[0] && want.compiles == 0, "%g to %g", want.loss[0], want.loss[STEPS - 1]);
    for (int r = 0; r < N_ROUTES; r++) {
      char name[64];
      snprintf(name, sizeof name, "%s and %s", routes[r].name[0], routes[r].name[1]);
      train(&routes[r], adam, &got);
      EXPECT(same(got.loss, want.loss, STEPS, 1e-10), "%s: %.17g of %.17g", name, got.loss[STEPS - 1],
             want.loss[STEPS - 1]);
      if (is_far(&routes[r])) check_steps(name, &got, 4);
    }
  }
}

// ---- threads ----

static void *train_one(void *out) {
  train(&routes[0], false, out);
  return NULL;
}

static tc_tensor shared;
static double read_by_other[2];

// Another thread's parameter is a value here: gradients with respect to it may be asked for, but
// not added to it.
static void *use_other(void *unused) {
  tc_scope s = tc_scope_begin();
  tc_tensor there = tc_to(shared, "tc:cuda"), y = total(tc_square(there)), g;
  EXPECT_OK(tc_grads_of(y, &shared, 1, &g, TC_RETAIN));
  read_by_other[0] = item(total(g));
  EXPECT_FAILS(tc_backward(y), TC_ERR_STATE, "belongs to another thread");
  read_by_other[1] = item(y);
  tc_scope_end(s);
  return unused;
}

static void test_threads(void) {
  enum { THREADS = 3 };
  static trained want, got[THREADS];
  pthread_t thread[THREADS];
  train(&routes[0], false, &want);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&thread[i], NULL, train_one, &got[i]) == 0, "no thread");
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(thread[i], NULL) == 0, "no end");
  for (int i = 0; i < THREADS; i++)
    EXPECT(memcmp(got[i].loss, want.loss, sizeof want.loss) == 0, "thread %d: %g of %g", i, got[i].loss[9],
           want.loss[9]);
  const double x[] = {1, 2, 3};
  shared = tc_param(data(x, TC_SHAPE(3), "tc:cpu"));
  EXPECT(pthread_create(&thread[0], NULL, use_other, NULL) == 0 && pthread_join(thread[0], NULL) == 0, "no thread");
  EXPECT(read_by_other[0] == 12 && read_by_other[1] == 14, "%g %g", read_by_other[0], read_by_other[1]);
  tc_release(shared);
}

// ---- failures ----

// The device is lost in the middle of a backward: no gradient was added, and the processor goes on.
static double lost_on_the_way(const void *path) {
  double x[N], g[MOST];
  fill(x, N, 31);
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), "tc:cpu")), y = total(tc_square(tc_to(tc_mul(p, 2), "tc:cuda")));
  bool (*fail)(const char *) = (__typeof__(fail))dlsym(dlopen(path, RTLD_NOW), "sim_fail");
  EXPECT(fail && fail("kernel:1=719!"), "no way to fail");
  tc_status st = tc_backward(y);
  EXPECT(st == TC_ERR_DEVICE && strstr(tc_last_error()->message, "backward") &&
             strstr(tc_last_error()->message, "is lost"),
         "%s", tc_last_error()->message);
  EXPECT(!tc_is_valid(tc_grad(p)), "no gradient");
  tc_clear_error();
  EXPECT_OK(tc_backward(total(tc_mul(p, 3))));
  read_out(tc_grad(p), g);
  EXPECT(g[0] == 3, "%g", g[0]);
  tc_release(p);
  fflush(stdout);
  return 0;
}

// No room on the device for a gradient that comes there.
static double no_room(const void *path) {
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  double x[N] = {1};
  tc_tensor p = tc_param(data(x, TC_SHAPE(N), "tc:cuda")), y = total(tc_square(tc_to(tc_mul(p, 2), "tc:cpu")));
  EXPECT_OK(tc_eval(1, &y));
  tc_trim();
  bool (*fail)(const char *) = (__typeof__(fail))dlsym(dlopen(path, RTLD_NOW), "sim_fail");
  EXPECT(fail && fail("cuMemAllocFromPoolAsync:*=2"), "no way to fail");
  tc_status st = tc_backward_with(y, (tc_tensor){0, 0}, TC_RETAIN);
  EXPECT(st == TC_ERR_MEMORY && strstr(tc_last_error()->message, "backward"), "%s", tc_last_error()->message);
  EXPECT(fail("") && !tc_is_valid(tc_grad(p)), "no gradient");
  tc_clear_error();
  EXPECT_OK(tc_backward(y));  // history was retained: it goes
  EXPECT(item(total(tc_grad(p))) == 8, "%g", item(total(tc_grad(p))));
  tc_release(p);
  tc_shutdown();
  fflush(stdout);
  return 0;
}

// ---- allocations ----

// A chain that crosses several times, and its second gradient; the first failure.
static tc_status attempt(const double *x, double out[32]) {
  tc_scope s = tc_scope_begin();
  tc_tensor both[2] = {{0, 0}, {0, 0}}, first, second[2];
  tc_status st = TC_OK;
  for (int i = 0; i < 2 && st == TC_OK; i++) {
    if ((st = tc_push_device(routes[0].name[i])) != TC_OK) break;
    both[i] = tc_param(tc_from_host(x + 16 * i, TC_SHAPE(4, 4), TC_F64));
    if (!tc_is_valid(both[i])) st = tc_last_error()->status;
    (void)tc_pop_device();
  }
  if (st == TC_OK) st = tc_grads_of(several_times(both[0], both[1], &routes[0]), both, 1, &first, TC_CREATE_GRAPH);
  if (st == TC_OK) st = tc_grads_of(total(tc_square(first)), both, 2, second, 0);
  for (int i = 0; i < 2 && st == TC_OK; i++) st = tc_to_host(second[i], out + 16 * i, 16 * sizeof *out);
  for (int i = 0; i < 2; i++)
    if (tc_is_valid(both[i])) tc_release(both[i]);
  tc_scope_end(s);
  return st;
}

static void test_allocations(void) {
  double x[32], want[32], got[32];
  fill(x, 32, 41);
  EXPECT_OK(attempt(x, want));
  for (int way = 0; way < 4; way++) {
    bool cold = way & 1, good = way & 2;  // what fails once may be tried again
    long total = 1, stride = cold ? 43 : 2, n_failed = 0;
    for (long n = 0; n <= total; n += n ? stride : 1) {  // the first run counts
      if (cold) tc_cache_clear();
      tc_trim();
      tc_clear_error();
      atomic_store(&n_made, 0), atomic_store(&for_good, good), atomic_store(&fail_from, n);
      tc_status st = attempt(x, got);
      atomic_store(&fail_from, 0);
      if (n == 0) total = atomic_load(&n_made);
      n_failed += st == TC_ERR_MEMORY;
      EXPECT(st == TC_ERR_MEMORY || (st == TC_OK && memcmp(got, want, sizeof got) == 0), "allocation %ld of %ld: %s", n,
             total, tc_status_text(st));
    }
    tc_clear_error();
    EXPECT(total > 20 && (n_failed > 5 || !good), "%ld of %ld failed", n_failed, total);
    EXPECT(attempt(x, got) == TC_OK && memcmp(got, want, sizeof got) == 0, "it goes on");
  }
}

int main(int n_words, char **words) {
  if (!built_simulators()) return puts("skipped: the simulated driver was not built"), 77;
  setenv("TC_SIM_DEVICES", "2", 1);
  setenv("TC_SIM_LEAKS", "1", 1);
  EXPECT(in_child(lost_on_the_way, built("libsim-cuda.so")) == 0, "a lost device");
  EXPECT(in_child(no_room, built("libsim-cuda.so")) == 0, "no memory");
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  test_programs();
  test_random_programs(n_words > 1 ? (uint32_t)atoi(words[1]) : 12);
  for (int r = 0; r < N_ROUTES; r++) {
    test_grads_of(&routes[r]);
    test_create_graph(&routes[r]);
    test_backward_with(&routes[r]);
    test_history(&routes[r]);
    test_assign(&routes[r]);
    test_empty(&routes[r]);
    test_errors(&routes[r]);
    test_clipping(&routes[r]);
  }
  test_elsewhere();
  test_training();
  test_threads();
  test_allocations();
  EXPECT_OK(tc_sync(NULL));
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(tc_memory_stats().live_bytes == 0 && tc_memory_stats().gpu_pooled_bytes == 0, "%zu bytes are held, %zu pooled",
         tc_memory_stats().live_bytes, tc_memory_stats().gpu_pooled_bytes);
  return expect_done("gpu-gradients");
}
