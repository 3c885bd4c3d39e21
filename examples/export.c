// A compiled program in a file: exports a small classifier for one point or four, then loads it, as
// a process without a compiler would, and runs it.
//   example-export [model.tcx]
#include <stdio.h>
#include <tc/program.h>

typedef struct model {
  tc_tensor w1, w2;  // [2, 16], [16, 3]
} model;

// Records ops from in[] to out[]; nothing runs.
static tc_status classify(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  const model *m = user;
  out[0] = tc_softmax(tc_matmul(tc_tanh(tc_matmul(in[0], m->w1)), m->w2), 1);
  return TC_OK;
}

static tc_status export_to(const char *path) {
  model m = {tc_sin(tc_reshape(tc_arange(0, 32, 1, TC_F32), TC_SHAPE(2, 16))),
             tc_cos(tc_reshape(tc_arange(0, 48, 1, TC_F32), TC_SHAPE(16, 3)))};
  tc_export_input points = {"points", tc_zeros(TC_SHAPE(1, 2), TC_F32), {"batch"}};  // its type and extents count
  tc_export_size batch = {"batch", 2, (int64_t[]){1, 4}};
  return tc_export(classify, &m, 1, &points, &(tc_export_options){.n_sizes = 1, .sizes = &batch}, path);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "model.tcx";
  tc_scope scope = tc_scope_begin();
  tc_status st = export_to(path);
  tc_scope_end(scope);
  tc_program_file *p = st == TC_OK ? tc_program_load(path) : NULL;  // from here on no compiler is needed
  if (!p) return fprintf(stderr, "%s\n", tc_last_error()->message), 1;

  // Memory of the caller, without tensors.
  float point[1][2] = {{0.5f, -1}}, chance[1][3];
  st = tc_program_run_arrays(p, 1, (tc_program_array[]){{"points", point, TC_F32, TC_SHAPE(1, 2)}}, 1,
                             (tc_program_array[]){{"output", chance, TC_F32, TC_SHAPE(1, 3)}});
  if (st == TC_OK)
    printf("one point: %.3f %.3f %.3f\n", (double)chance[0][0], (double)chance[0][1], (double)chance[0][2]);

  // Tensors, which go on as others do.
  tc_tensor four = tc_reshape(tc_arange(0, 8, 1, TC_F32), TC_SHAPE(4, 2)), y;
  if (st == TC_OK) st = tc_program_run(p, 1, (tc_program_input[]){{"points", four}}, &y);
  if (st == TC_OK) st = tc_print(tc_argmax(y, 1, false));

  // Sizes that the file was not made for are an error that says which it has.
  tc_tensor three = tc_zeros(TC_SHAPE(3, 2), TC_F32);
  if (st == TC_OK && tc_program_run(p, 1, (tc_program_input[]){{"points", three}}, &y) == TC_ERR_SHAPE)
    printf("%s\n", tc_last_error()->message);
  else
    fprintf(stderr, "%s\n", tc_last_error()->message);
  tc_program_close(p);
  return st != TC_OK;
}
