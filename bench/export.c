// Programs in files: loading ResNet18's, and a process that has nothing else, to its first result.
// The file is made once, for the row's own processes.
#include <stdlib.h>
#include <string.h>
#include <tc/program.h>
#include <unistd.h>

#include "bench/bench.h"
#include "examples/models/resnet.h"

#define PATH "TC_BENCH_PROGRAM"

static tc_status forward(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = resnet_forward(user, in[0]);
  return TC_OK;
}

static bool make_file(const char *path) {
  const resnet_config c = RESNET18;
  tc_scope scope = tc_scope_begin();
  tc_seed(1);
  tc_nn_params *params = tc_nn_params_create();
  bool made = params && resnet_add(params, &c) == TC_OK;
  tc_nn_set_training(params, false);
  tc_export_input image = {"image", bench_tensor(TC_SHAPE(1, 3, 224, 224), 1), {NULL}};
  made = made && tc_export(forward, params, 1, &image, NULL, path) == TC_OK;
  tc_nn_params_destroy(params);
  tc_scope_end(scope);
  return made;
}

static double load_file(void *arg, int n) {
  double start = bench_now();
  for (int i = 0; i < n; i++) {
    tc_program_file *p = tc_program_load(arg);
    if (!p) return -1;
    tc_program_close(p);
  }
  return bench_now() - start;
}

bool bench_first_program(void) {
  float *image = bench_floats(3L * 224 * 224, 1), scores[1000];
  tc_program_file *p = tc_program_load(getenv(PATH));
  const tc_program_array in = {"image", image, TC_F32, TC_SHAPE(1, 3, 224, 224)};
  const tc_program_array out = {"output", scores, TC_F32, TC_SHAPE(1, 1000)};
  bool ok = p && tc_program_run_arrays(p, 1, &in, 1, &out) == TC_OK;
  tc_program_close(p);
  free(image);
  return ok;
}

void bench_export(void) {
  char path[] = "/tmp/tc-bench-XXXXXX";
  int fd = bench_wants("resnet18_load") || bench_wants("resnet18_start") ? mkstemp(path) : -1;
  if (fd < 0) return;
  close(fd);
  if (make_file(path)) {
    bench_measure(&(bench_row){
        .bench = "export", .name = "resnet18_load", .unit = "ms", .n_items = 1, .run = load_file, .arg = path});
    setenv(PATH, path, 1);
    bench_measure_start("export", "resnet18_start", "program");
  } else {
    fprintf(stderr, "export: %s\n", tc_last_error()->message);
  }
  unlink(path);
}
