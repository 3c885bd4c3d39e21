// A training step as a compiled function: it runs in C once for each size of batch, and its graph is
// taken from then on. The learning rate changes without another graph, and so does a number that the
// step is given; a smaller batch needs one more, and the guards say why.
//   TC_LOG=guards example-compile     when it is traced, and which guard had failed
#include <stdio.h>
#include <stdlib.h>
#include <tc/compile.h>

enum { N_IN = 3, N_ROWS = 8, N_STEPS = 200 };

typedef struct line {
  tc_tensor w, b;
  tc_optimizer *opt;
} line;

static void check(tc_status st) {
  if (st == TC_OK) return;
  fprintf(stderr, "%s\n", tc_last_error()->message);
  exit(1);
}

// in: x [n, 3], y [n], and a number that scales the loss. out: the loss.
static tc_status step(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  line *m = user;
  (void)n_in, (void)n_out;
  printf("the step runs in C, for %d rows\n", (int)tc_shape(in[0]).dim[0]);
  tc_tensor guess = tc_add(tc_matmul(in[0], m->w), m->b);
  out[0] = tc_mul(tc_mse_loss(guess, in[1]), in[2]);
  tc_status st = tc_backward(out[0]);
  if (st == TC_OK) st = tc_optimizer_step(m->opt);
  return st == TC_OK ? tc_zero_grad(m->opt) : st;
}

// Rows of x, and y = x[0] + 2 x[1] + 3 x[2] + 0.5.
static void make_batch(int first, int n_rows, tc_tensor *in) {
  float x[N_ROWS][N_IN], y[N_ROWS];
  for (int i = 0; i < n_rows; i++) {
    y[i] = 0.5f;
    for (int k = 0; k < N_IN; k++) {
      x[i][k] = (float)(((first + i) * 7 + k * (first + 3)) % 11) / 5 - 1;
      y[i] += (float)(k + 1) * x[i][k];
    }
  }
  in[0] = tc_from_host(x, TC_SHAPE(n_rows, N_IN), TC_F32), in[1] = tc_from_host(y, TC_SHAPE(n_rows), TC_F32);
}

int main(void) {
  line m = {tc_param(tc_zeros(TC_SHAPE(N_IN), TC_F32)), tc_param(tc_zeros(TC_SHAPE(1), TC_F32)), NULL};
  m.opt = tc_sgd((tc_tensor[]){m.w, m.b}, 2, (tc_sgd_options){.lr = 0.05, .momentum = 0.9});
  tc_compiled *c = tc_compile(step, &m, &(tc_compile_options){.name = "step", .fullgraph = true});
  if (!m.opt || !c) check(tc_last_error()->status);
  for (int i = 0; i <= N_STEPS; i++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor in[2], loss;
    float value;
    if (i == N_STEPS / 2) check(tc_set_lr(m.opt, 0.01));
    make_batch(i, i == N_STEPS ? 5 : N_ROWS, in);  // the last batch is smaller
    check(tc_compiled_call_with(c, in, 2, (double[]){i % 2 ? 0.5 : 1}, 1, &loss, 1));
    check(tc_item_f32(loss, &value));
    if (i % 50 == 0) printf("step %3d  loss %.6f\n", i, (double)value);
    tc_scope_end(scope);
  }
  char guards[1024];
  tc_compiled_info info = tc_compiled_stats(c);
  printf("%d graphs, %d calls, of which %d took a graph\n", info.n_graphs, (int)info.n_calls, (int)info.n_taken);
  (void)tc_compiled_guards(c, 1, guards, sizeof guards);
  printf("guards of the second:\n%s", guards);
  check(tc_print(m.w));
  tc_compiled_destroy(c);
  tc_optimizer_destroy(m.opt);
  tc_release(m.w), tc_release(m.b);
  return 0;
}
