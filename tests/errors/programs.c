// Wrong use of programs in files: each is an error that says what is wrong, where, and what to do.
// After each the thread goes on, and tensors have the values that they had.
#include <stdlib.h>
#include <sys/stat.h>
#include <tc/nn.h>
#include <tc/program.h>

#include "runtime/arena.h"
#include "tests/expect.h"
#include "tests/files/files.h"

static tc_tensor weight;

static tc_status twice(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_mul(tc_add(in[0], in[1]), user ? *(tc_tensor *)user : weight);
  return TC_OK;
}

// ---- functions that are no programs ----

static tc_status asks(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  float v;
  (void)user;
  out[0] = tc_add(in[0], in[1]);
  return tc_item_f32(tc_sum(in[0], TC_ALL, false), &v);
}

static tc_status assigns(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_add(in[0], in[1]);
  return tc_assign(weight, tc_sum(out[0], TC_AXES(0), false));
}

// The new value is an output, too, or the tensor an input.
static tc_status assigns_output(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  const int64_t begin = 0, end = 1;
  out[0] = weight;
  switch (*(int *)user) {
    case 0: return tc_assign(weight, tc_add(weight, 1.0));
    case 1: return tc_assign_slice(weight, &begin, &end, NULL, tc_full(TC_SHAPE(1), 9, TC_F32));
    default: out[0] = tc_neg(in[0]); return tc_assign(in[0], tc_mul(in[0], 2.0));
  }
}

static tc_status assigns_own(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_from_host((float[]){1, 2, 3}, TC_SHAPE(3), TC_F32);
  return tc_assign(out[0], tc_add(out[0], tc_sum(in[0], TC_AXES(0), false)));
}

static tc_status begins_strict(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_status st = tc_region_begin(&(tc_region_options){.options = "strict=1"});
  out[0] = tc_exp(in[0]);
  tc_region_end();
  return st;
}

static tc_status keeps(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_add(in[0], in[1]);
  *(tc_tensor *)user = tc_retain(tc_exp(out[0]));
  return TC_OK;
}

static tc_status backwards(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_mul(in[0], weight), TC_ALL, false);
  return tc_backward(out[0]);
}

static tc_status ends_scope(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_scope s = tc_scope_begin();
  out[0] = tc_add(in[0], in[1]);
  tc_scope_end(s);
  return TC_OK;
}

static tc_status gives_none(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)in, (void)out, (void)n_in, (void)n_out;
  return TC_OK;
}

static tc_status wrong_op(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_matmul(in[0], in[1]);
  return TC_OK;
}

static tc_status elsewhere(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)in, (void)n_in, (void)n_out;
  out[0] = tc_ones(TC_SHAPE(3), TC_F32);
  return TC_OK;
}

static tc_status refuses(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)in, (void)out, (void)n_in, (void)n_out;
  return TC_ERR_ARG;
}

static tc_status other_type(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  out[0] = tc_shape(in[0]).dim[0] == 2 ? tc_add(in[0], in[1]) : tc_cast(in[0], TC_F64);
  return TC_OK;
}

static void test_functions(const char *path) {
  tc_tensor a = tc_ones(TC_SHAPE(2, 3), TC_F32), kept = {0, 0};
  const tc_export_input in[] = {{"a", a}, {"b", a}};
  EXPECT_FAILS(tc_export(asks, NULL, 2, in, NULL, path), TC_ERR_STATE,
               "fn needs a value while it is recorded: item at ");
  EXPECT_FAILS(tc_export(assigns, NULL, 2, in, NULL, path), TC_ERR_STATE, "fn leaves a value behind (assign at ");
  for (int k = 0; k < 3; k++)
    EXPECT_FAILS(tc_export(assigns_output, &k, 2, in, NULL, path), TC_ERR_STATE,
                 k == 1 ? "fn leaves a value behind (assign_slice at " : "fn leaves a value behind (assign at ");
  EXPECT_FAILS(tc_export(begins_strict, NULL, 2, in, NULL, path), TC_ERR_STATE,
               "records are pending that other options were set for");
  EXPECT_OK(tc_export(assigns_own, NULL, 1, in, NULL, path));
  EXPECT(unlink(path) == 0, "%s", path);
  EXPECT_FAILS(tc_export(keeps, &kept, 2, in, NULL, path), TC_ERR_STATE, "fn leaves a value behind (exp at ");
  tc_release(kept);
  EXPECT_FAILS(tc_export(backwards, NULL, 2, in, NULL, path), TC_ERR_STATE, "a gradient of tc_backward (tc_grads_of");
  EXPECT_FAILS(tc_export(ends_scope, NULL, 2, in, NULL, path), TC_ERR_HANDLE,
               "output 0, 'output': its scope ended inside fn");
  EXPECT_FAILS(tc_export(gives_none, NULL, 2, in, NULL, path), TC_ERR_ARG, "fn gave no output 0, 'output'");
  EXPECT_FAILS(tc_export(wrong_op, NULL, 2, in, NULL, path), TC_ERR_SHAPE, "matmul: ");
  EXPECT_OK(tc_set_default_device("tc:ref"));
  EXPECT_FAILS(tc_export(elsewhere, NULL, 0, NULL, NULL, path), TC_ERR_DEVICE, "fn uses a tensor on tc:ref");
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT(tc_export(refuses, NULL, 2, in, NULL, path) == TC_ERR_ARG, "fn's own status");
  const int64_t sizes[] = {2, 4};
  const tc_export_size size = {"rows", 2, sizes};
  const tc_export_input dynamic[] = {{"a", a, {"rows"}}, {"b", a, {"rows"}}};
  EXPECT_FAILS(tc_export(other_type, NULL, 2, dynamic, &(tc_export_options){.n_sizes = 1, .sizes = &size}, path),
               TC_ERR_ARG, "has another type or rank at other sizes");
  EXPECT(access(path, F_OK) != 0, "nothing is written");
  // Nothing was assigned, and the thread goes on.
  float v[3];
  EXPECT_OK(tc_to_host(weight, v, sizeof v));
  EXPECT(v[0] == 2 && v[2] == 2, "weight is %g", (double)v[0]);
}

// ---- declarations ----

static void test_declared(const char *path) {
  tc_tensor a = tc_ones(TC_SHAPE(2, 3), TC_F32);
  const tc_export_input in[] = {{"a", a}, {"b", a}};
  const int64_t sizes[] = {2, 2}, many[70] = {0};
  EXPECT_FAILS(tc_export(NULL, NULL, 2, in, NULL, path), TC_ERR_ARG, "is NULL");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, NULL, NULL), TC_ERR_ARG, "is NULL");
  EXPECT_FAILS(tc_export(twice, NULL, 2, (tc_export_input[]){{"a", a}, {"a", a}}, NULL, path), TC_ERR_ARG,
               "two inputs are called 'a'");
  EXPECT_FAILS(tc_export(twice, NULL, 2, (tc_export_input[]){{"a", a}, {"", a}}, NULL, path), TC_ERR_ARG,
               "an input has no name");
  EXPECT_FAILS(tc_export(twice, NULL, 2, (tc_export_input[]){{"a", a}, {"b", {0, 0}}}, NULL, path), TC_ERR_HANDLE,
               "the example of input 'b' is no live tensor");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, &(tc_export_options){.targets = "avx3"}, path), TC_ERR_ARG,
               "there is no target 'avx3'; the nearest is 'avx2'");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, &(tc_export_options){.targets = "native,native"}, path), TC_ERR_ARG,
               "target 'native' is named twice");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, &(tc_export_options){.targets = " "}, path), TC_ERR_ARG, "has none");
  EXPECT_FAILS(tc_export(twice, NULL, 2, (tc_export_input[]){{"a", a, {"rows"}}, {"b", a}}, NULL, path), TC_ERR_ARG,
               "input 'a': the options have no sizes of 'rows'");
  tc_export_size size = {"rows", 2, sizes};
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, &(tc_export_options){.n_sizes = 1, .sizes = &size}, path), TC_ERR_ARG,
               "'rows' has the size 2 twice");
  size = (tc_export_size){"rows", 70, many};
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, &(tc_export_options){.n_sizes = 1, .sizes = &size}, path), TC_ERR_ARG,
               "'rows' has the size 0 twice");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in,
                         &(tc_export_options){.n_outputs = 2, .output_names = (const char *[]){"y", "y"}}, path),
               TC_ERR_ARG, "two outputs are called 'y'");
  EXPECT_FAILS(tc_export(twice, NULL, 2, in, NULL, "/nonexistent/model.tcx"), TC_ERR_IO,
               "/nonexistent/model.tcx: No such");
}

// ---- runs ----

static void test_runs(const tc_program_file *p) {
  tc_tensor a = tc_ones(TC_SHAPE(2, 3), TC_F32), out;
  tc_tensor i = tc_ones(TC_SHAPE(2, 3), TC_I64), s = tc_ones(TC_SHAPE(3, 2), TC_F32);
#define RUN(...) \
  tc_program_run(p, sizeof((tc_program_input[]){__VA_ARGS__}) / sizeof(tc_program_input), \
                 (tc_program_input[]){__VA_ARGS__}, &out)
  EXPECT_FAILS(RUN({"left", a}, {"rigth", a}), TC_ERR_ARG, "the program has no input 'rigth'; the nearest is 'right'");
  EXPECT_FAILS(RUN({"left", a}), TC_ERR_ARG, "input 'right' is missing");
  EXPECT_FAILS(RUN({"left", a}, {"left", a}), TC_ERR_ARG, "input 'left' is given twice");
  EXPECT_FAILS(RUN({"left", a}, {NULL, a}), TC_ERR_ARG, "an input has no name");
  EXPECT_FAILS(RUN({"left", a}, {"right", i}), TC_ERR_DTYPE, "input 'right' is i64; the program takes f32");
  EXPECT_FAILS(RUN({"left", a}, {"right", s}), TC_ERR_SHAPE, "input 'right' is [3, 2]; the program takes [2, 3]");
  EXPECT_FAILS(RUN({"left", a}, {"right", {0, 0}}), TC_ERR_HANDLE, "null tensor");
  EXPECT(tc_dtype(out) == TC_N_TYPES, "outputs are poison");
  EXPECT_FAILS(tc_program_run(NULL, 0, NULL, &out), TC_ERR_ARG, "the program is NULL");
  EXPECT_FAILS(tc_program_run(p, 2, NULL, &out), TC_ERR_ARG, "the list of inputs is NULL");
  float x[13] = {0}, y[6], z[6];
  const tc_dims d = TC_SHAPE(2, 3);
  const tc_program_array in[] = {{"left", x, TC_F32, d}, {"right", x, TC_F32, d}};
#define ARRAYS(...) tc_program_run_arrays(p, 2, in, 1, (tc_program_array[]){__VA_ARGS__})
  EXPECT_FAILS(ARRAYS({"otput", y, TC_F32, d}), TC_ERR_ARG,
               "the program has no output 'otput'; the nearest is 'output'");
  EXPECT_FAILS(ARRAYS({"output", y, TC_F64, d}), TC_ERR_DTYPE, "output 'output' is f64; the program has f32");
  EXPECT_FAILS(ARRAYS({"output", y, TC_F32, TC_SHAPE(6)}), TC_ERR_SHAPE,
               "output 'output' is [6]; the program gives [2, 3]");
  EXPECT_FAILS(ARRAYS({"output", x + 5, TC_F32, d}), TC_ERR_ARG, "output 'output' overlaps input 'left'");
  EXPECT_FAILS(ARRAYS({"output", (char *)y + 1, TC_F32, d}), TC_ERR_ARG, "is not aligned for its type");
  EXPECT_FAILS(ARRAYS({"output", NULL, TC_F32, d}), TC_ERR_ARG, "the data of output 'output' is NULL");
  EXPECT_FAILS(tc_program_run_arrays(p, 2, in, 2,
                                     ((tc_program_array[]){{"output", y, TC_F32, d}, {"output", y + 2, TC_F32, d}})),
               TC_ERR_ARG, "outputs 'output' and 'output' overlap");
  // What is right after all of this runs, an output twice, and with none asked for.
  for (int k = 0; k < 6; k++) x[k] = (float)k;
  EXPECT_OK(
      tc_program_run_arrays(p, 2, in, 2, ((tc_program_array[]){{"output", y, TC_F32, d}, {"output", z, TC_F32, d}})));
  EXPECT(y[5] == 20 && memcmp(y, z, sizeof y) == 0, "y[5] is %g", (double)y[5]);
  EXPECT_OK(tc_program_run_arrays(p, 2, in, 0, NULL));
}

// ---- files ----

static void write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  EXPECT(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

static void test_files(const char *path) {
  char other[160];
  snprintf(other, sizeof other, "%s", files_path("other.tcx"));
  file_bytes f = file_read(path);
  EXPECT_FAILS(tc_program_load(NULL), TC_ERR_ARG, "path is NULL");
  EXPECT_FAILS(tc_program_load("/nonexistent/m.tcx"), TC_ERR_IO, "/nonexistent/m.tcx: No such file");
  EXPECT_FAILS(tc_program_load("/tmp"), TC_ERR_IO, "is no regular file");
  write_file(other, "", 0);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "is empty");
  write_file(other, "PK\3\4 something else", 20);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "this is no file of tc_export");
  write_file(other, f.at, 100);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "it ends within its head");
  write_file(other, f.at, f.n - 1);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "it was cut off or appended to");
  f.at[8]++;  // the version
  write_file(other, f.at, f.n);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_DEVICE, "the file is of format 2");
  f.at[8]--, f.at[1000]++;
  write_file(other, f.at, f.n);
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "the file is damaged: its checksum is another");
  f.at[1000]--, f.at[f.n - 1]++;  // a weight: seen where it is asked for
  write_file(other, f.at, f.n);
  tc_program_file *p = tc_program_load(other);
  EXPECT(p != NULL, "load");
  if (p) EXPECT_FAILS(tc_program_verify(p), TC_ERR_IO, "weight 0, 'scale', has another checksum");
  tc_program_close(p);
  f.at[f.n - 1]--;
  write_file(other, f.at, f.n);
  EXPECT(chmod(other, 0666) == 0, "chmod");
  EXPECT_FAILS(tc_program_load(other), TC_ERR_IO, "may be written by every user");
  EXPECT_FAILS(tc_program_load_memory(NULL, 10), TC_ERR_ARG, "data is NULL");
  void *copy = aligned_alloc(64, f.n / 64 * 64 + 128);
  EXPECT_FAILS(tc_program_load_memory((char *)copy + 8, f.n), TC_ERR_ARG, "data is at no multiple of 64 bytes");
  memcpy(copy, f.at, f.n);
  p = tc_program_load_memory(copy, f.n);
  EXPECT(p != NULL, "from memory");
  if (p) test_runs(p);
  tc_program_close(p);
  free(copy), free(f.at);
  // Without a compiler there is no export, but everything else.
  tc_program_close(NULL);
  int n;
  EXPECT(tc_program_inputs(NULL, &n) == NULL && n == 0, "no program has no inputs");
}

// Each allocation fails in turn: an error, and all is well again.
static void test_memory(void) {
  tc_tensor a = tc_ones(TC_SHAPE(2, 3), TC_F32), y;
  const tc_export_input input[] = {{"left", a}, {"right", a}};
  const tc_program_input in[] = {{"left", a}, {"right", a}};
  const tc_export_options o = {.targets = "native", .store_constants = true};
  const char *path = files_path("memory.tcx");
  EXPECT_OK(tc_export(twice, NULL, 2, input, &o, path));
  EXPECT_OK(tc_sync(NULL));
  int n_failed = 0;
  for (long n = 1, done = 0; !done && n < 100000; n += 1 + n / 16) {
    tc_clear_error();
    (void)tc_alloc_fail_at(n, 0);
    tc_status st = tc_export(twice, NULL, 2, input, &o, path);
    done = tc_alloc_fail_at(0, 0) < n;
    EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "allocation %ld of an export", n);
    n_failed += st != TC_OK;
  }
  for (long n = 1, done = 0; !done && n < 100000; n++) {
    tc_clear_error();
    (void)tc_alloc_fail_at(n, 0);
    tc_program_file *p = tc_program_load(path);
    tc_status st = p ? tc_program_run(p, 2, in, &y) : tc_last_error()->status;
    done = tc_alloc_fail_at(0, 0) < n;
    EXPECT(st == TC_OK || st == TC_ERR_MEMORY, "allocation %ld of a load and a run", n);
    n_failed += st != TC_OK;
    if (p) EXPECT_OK(tc_program_run(p, 2, in, &y));
    tc_program_close(p);
  }
  EXPECT(n_failed > 20, "%d failures", n_failed);
}

int main(void) {
  const char *path = files_path("model.tcx"), *none = files_path("none.tcx");
  weight = tc_param(tc_full(TC_SHAPE(3), 2, TC_F32));
  tc_tensor a = tc_ones(TC_SHAPE(2, 3), TC_F32);
  const tc_export_options o = {
      .n_weights = 1, .weight_names = (const char *[]){"scale"}, .weights = &weight, .targets = "native"};
  tc_status st = tc_export(twice, NULL, 2, (tc_export_input[]){{"left", a}, {"right", a}}, &o, path);
  if (st == TC_ERR_STATE && strstr(tc_last_error()->message, "nothing to compile with"))
    return printf("%s\n", tc_last_error()->message), 77;
  EXPECT_OK(st);
  test_functions(none);
  test_declared(none);
  tc_program_file *p = tc_program_load(path);
  EXPECT(p != NULL, "load");
  if (p) test_runs(p);
  tc_program_close(p);
  test_files(path);
  test_memory();
  tc_release(weight);
  files_fini();
  return expect_done("programs");
}
