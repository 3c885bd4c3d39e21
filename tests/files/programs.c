// Programs in files: what a file computes has the bits of the function that became it, here and in a
// process that has no code generator; wrong use and other processors are errors that say what is
// wrong; threads run one program, and processes share its weights.
// With arguments it is such a process: run FILE OUTPUT, share FILE, or refused FILE.
#include <pthread.h>
#include <sys/wait.h>
#include <tc/control.h>
#include <tc/nn.h>
#include <tc/program.h>

#include "examples/models/bert.h"
#include "examples/models/resnet.h"
#include "lowering/export/loaded.h"
#include "lowering/jit/kernel.h"
#include "tests/expect.h"
#include "tests/files/files.h"

static const char *this_program;  // its path

// ---- functions ----

typedef struct mlp {
  tc_tensor w1, b1, w2, table;
} mlp;

static mlp make_mlp(void) {
  return (mlp){tc_param(tc_randn(TC_SHAPE(24, 32), TC_F32)), tc_param(tc_randn(TC_SHAPE(32), TC_F32)),
               tc_param(tc_randn(TC_SHAPE(32, 10), TC_F32)), tc_param(tc_randn(TC_SHAPE(50, 24), TC_F32))};
}

static tc_tensor forward(const mlp *m, tc_tensor x) {
  return tc_softmax(tc_matmul(tc_relu(tc_add(tc_matmul(x, m->w1), m->b1)), m->w2), 1);
}

static tc_status classify(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = forward(user, in[0]);
  return TC_OK;
}

// A little of everything: a scan and look-ups (reference kernels, checks), random numbers, an input
// and a weight handed through, one value twice.
static tc_status mixture(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  const mlp *m = user;
  tc_tensor rows = tc_embedding(m->table, in[1]);
  out[0] = tc_add(forward(m, rows), tc_rand(TC_SHAPE(6, 10), TC_F32));
  out[1] = tc_cumsum(tc_mul(in[0], tc_randn(TC_SHAPE(6, 24), TC_F32)), 1);
  out[2] = in[0];
  out[3] = tc_reshape(m->w2, TC_SHAPE(320));
  out[4] = out[1];
  out[5] = tc_cast(tc_cat(2, (tc_tensor[]){in[0], rows}, 0), TC_F16);
  return TC_OK;
}

static tc_status less_than_ten(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_lt(tc_sum(in[0], TC_ALL, false), 10);
  return TC_OK;
}

static tc_status add_noise(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_add(in[0], tc_add(tc_rand(tc_shape(in[0]), TC_F32), 0.5));
  return TC_OK;
}

static tc_status cell(void *user, const tc_tensor *in, tc_tensor *out) {
  const mlp *m = user;
  out[0] = out[1] = tc_tanh(tc_add(tc_matmul(in[0], tc_matmul(m->w2, tc_permute(m->w2, TC_AXES(1, 0)))), in[1]));
  return TC_OK;
}

static tc_status twice(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  return tc_scan(cell, user, in, 1, in + 1, 1, out, 1, NULL);  // a loop in a branch
}

static tc_status never(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = tc_neg(in[0]);
  out[1] = tc_mul(in[1], 2);
  return TC_OK;
}

// Loops, a loop in a branch, draws inside, and gradients through them.
static tc_status loops(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor start = tc_rand(TC_SHAPE(4), TC_F32), h = tc_param(tc_detach(in[1])), both[2], more[2];
  tc_status st = tc_while(less_than_ten, add_noise, user, &start, 1, &out[0]);
  if (st == TC_OK) st = tc_scan(cell, user, &h, 1, in, 1, both, 1, &(tc_scan_options){.reverse = true});
  out[1] = both[1];
  if (st == TC_OK) st = tc_grads_of(tc_sum(both[0], TC_ALL, false), &h, 1, &out[2], 0);
  tc_tensor of[] = {tc_detach(h), in[0]};
  if (st == TC_OK) st = tc_cond(tc_gt(tc_sum(in[0], TC_ALL, false), 0), twice, never, user, of, 2, more, 2);
  out[3] = more[1];
  out[4] = tc_add(out[0], tc_rand(TC_SHAPE(4), TC_F32));
  tc_release(h);
  return st;
}

// d loss / d x, by ops alone.
static tc_status slope(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  tc_tensor x = tc_param(tc_detach(in[0]));
  tc_tensor loss = tc_sum(tc_mul(forward(user, x), tc_arange(0, 10, 1, TC_F32)), TC_ALL, false);
  tc_status st = tc_grads_of(loss, &x, 1, out, 0);
  tc_release(x);
  return st;
}

static tc_status image(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = resnet_forward(user, in[0]);
  return TC_OK;
}

static tc_status text(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = bert_forward(user, in[0], in[1], in[2], 4);
  return TC_OK;
}

static tc_status half(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)in, (void)n_in, (void)n_out;
  out[0] = tc_rand(TC_SHAPE(2), TC_F32);
  return TC_OK;
}

// ---- comparing ----

static bool same_bits(tc_tensor a, tc_tensor b) {
  tc_dims x = tc_shape(a), y = tc_shape(b);
  size_t bytes = (size_t)tc_numel(a) * tc_type_bytes(tc_dtype(a));
  if (x.rank != y.rank || memcmp(x.dim, y.dim, sizeof x.dim) != 0 || tc_dtype(a) != tc_dtype(b)) return false;
  const void *p = tc_map(a), *q = tc_map(b);
  bool same = p && q && memcmp(p, q, bytes) == 0;
  if (p) EXPECT_OK(tc_unmap(a));
  if (q) EXPECT_OK(tc_unmap(b));
  return same;
}

// Calls fn, and the program, from one random state.
static void expect_same(const char *what, tc_compile_fn fn, void *user, const tc_program_file *p, int n_in,
                        const tc_tensor *in, int n_out) {
  tc_tensor want[8], got[8];
  tc_program_input input[8];
  int n;
  const tc_program_value *v = tc_program_inputs(p, &n);
  EXPECT(n == n_in, "%s: %d inputs", what, n);
  for (int i = 0; i < n_in; i++) input[n_in - 1 - i] = (tc_program_input){v[i].name, in[i]};  // in another order
  for (int round = 0; round < 2; round++) {
    tc_seed(7 + (uint64_t)round);
    EXPECT_OK(fn(user, in, n_in, want, n_out));
    EXPECT_OK(tc_sync(NULL));
    tc_seed(7 + (uint64_t)round);
    EXPECT_OK(tc_program_run(p, n_in, input, got));
    for (int i = 0; i < n_out; i++) EXPECT(same_bits(want[i], got[i]), "%s: output %d, round %d", what, i, round);
  }
}

// ---- another process ----

// Inputs are a formula of their place, so that two processes have the same.
static void *fill(const tc_program_value *v, size_t *bytes) {
  size_t n = 1;
  for (int k = 0; k < v->shape.rank; k++) n *= (size_t)v->shape.dim[k];
  *bytes = n * tc_type_bytes(v->type);
  void *data = calloc(n + 1, 8);
  for (size_t i = 0; i < n; i++) {
    if (v->type == TC_I64) ((int64_t *)data)[i] = (int64_t)(i * 7 % 50);
    if (v->type == TC_F32) ((float *)data)[i] = (float)(i * 37 % 101) / 50.f - 1;
  }
  return data;
}

// Runs the program on memory of its own; outputs are joined. NULL on failure.
static char *run_arrays(const tc_program_file *p, size_t *bytes) {
  int n_in, n_out;
  const tc_program_value *in = tc_program_inputs(p, &n_in), *out = tc_program_outputs(p, &n_out);
  tc_program_array a[8], b[8];
  size_t size[8];
  *bytes = 0;
  for (int i = 0; i < n_in; i++) a[i] = (tc_program_array){in[i].name, fill(&in[i], size), in[i].type, in[i].shape};
  for (int i = 0; i < n_out; i++)
    b[i] = (tc_program_array){out[i].name, fill(&out[i], &size[i]), out[i].type, out[i].shape}, *bytes += size[i];
  tc_seed(11);
  tc_status st = tc_program_run_arrays(p, n_in, a, n_out, b);
  char *all = malloc(*bytes + 1), *at = all;
  for (int i = 0; i < n_in; i++) free(a[i].data);
  for (int i = 0; i < n_out; i++) memcpy(at, b[i].data, size[i]), at += size[i], free(b[i].data);
  return st == TC_OK ? all : (free(all), NULL);
}

static bool interprets(const tc_program_file *p) {
  bool any = false;
  for (uint32_t i = 0; i < p->x->n_kernels; i++) any |= p->kernel[i] && p->kernel[i]->interp;
  return any;
}

// The child's part: exit status 0 if the program ran, and nothing but its code did.
static int child_run(const char *path, const char *output) {
  size_t bytes;
  tc_program_file *p = tc_program_load(path);
  char *all = p ? run_arrays(p, &bytes) : NULL;
  if (!all) return fprintf(stderr, "child: %s\n", tc_last_error()->message), 1;
  if (interprets(p)) return fprintf(stderr, "child: kernels are interpreted\n"), 1;
  if (is_mapped("libtc-llvm") || is_mapped("libLLVM")) return fprintf(stderr, "child: there is a compiler\n"), 1;
  FILE *f = fopen(output, "wb");
  bool written = f && fwrite(all, 1, bytes, f) == bytes;
  if (f) fclose(f);
  free(all);
  tc_program_close(p);
  return !written;
}

// isa: the most that it may use. NULL: what this process may.
static int in_child(const char *isa, char *const argv[]) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    setenv("TC_LLVM_PATH", "/nonexistent", 1), setenv("TC_CACHE_BYTES", "0", 1);
    unsetenv("TC_INTERPRET_FIRST"), unsetenv("TC_COMPILER");
    if (isa) setenv("TC_ISA", isa, 1);
    execv(this_program, argv);
    _exit(127);
  }
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A process without a compiler gives the bits of this one.
static void expect_child_same(const char *what, const char *path, const tc_program_file *p) {
  char output[160];
  snprintf(output, sizeof output, "%s", files_path("child.out"));
  int status = in_child(NULL, (char *[]){(char *)this_program, "run", (char *)path, output, NULL});
  EXPECT(status == 0, "%s: the child's status is %d", what, status);
  size_t bytes = 0;
  char *want = run_arrays(p, &bytes);
  file_bytes got = file_read(output);
  EXPECT(want && got.n == bytes && memcmp(got.at, want, bytes) == 0, "%s: the child's bits differ", what);
  free(want), free(got.at);
}

// ---- what runs ----

static void test_mlp(void) {
  mlp m = make_mlp();
  tc_tensor x = tc_randn(TC_SHAPE(6, 24), TC_F32);
  const char *path = files_path("mlp.tcx");
  EXPECT_OK(tc_export(classify, &m, 1, (tc_export_input[]){{"x", x}}, NULL, path));
  tc_program_file *p = tc_program_load(path);
  EXPECT(p != NULL, "load");
  if (!p) return;
  expect_same("mlp", classify, &m, p, 1, &x, 1);
  expect_child_same("mlp", path, p);
  // Every process finds a target; one that may use less than the file's least is told so.
  EXPECT(in_child("baseline", (char *[]){(char *)this_program, "run", (char *)path, "/dev/null", NULL}) == 0,
         "baseline");
  if (strstr(tc_program_target(p), "avx")) {
    const tc_export_options avx2 = {.targets = "avx2"};
    EXPECT_OK(tc_export(classify, &m, 1, (tc_export_input[]){{"x", x}}, &avx2, files_path("avx2.tcx")));
    char *argv[] = {(char *)this_program, "refused", (char *)files_path("avx2.tcx"), NULL};
    EXPECT(in_child("baseline", argv) == 0, "TC_ISA=baseline refuses avx2");
  }
  EXPECT_OK(tc_program_verify(p));
  int n;
  const tc_program_value *v = tc_program_inputs(p, &n);
  EXPECT(n == 1 && strcmp(v->name, "x") == 0 && v->type == TC_F32 && v->shape.dim[1] == 24 && !v->dims[0], "input");
  v = tc_program_outputs(p, &n);
  EXPECT(n == 1 && strcmp(v->name, "output") == 0 && v->shape.dim[0] == 6 && v->shape.dim[1] == 10, "output");
  v = tc_program_weights(p, &n);
  EXPECT(n == 3, "%d weights", n);
  tc_program_close(p);
  for (int k = 0; k < 4; k++) tc_release((tc_tensor[]){m.w1, m.b1, m.w2, m.table}[k]);
}

static void test_mixture(void) {
  mlp m = make_mlp();
  tc_tensor in[] = {tc_randn(TC_SHAPE(6, 24), TC_F32), tc_cast(tc_arange(0, 6, 1, TC_F32), TC_I64)}, out[6];
  const tc_export_input input[] = {{"x", in[0]}, {"rows", in[1]}};
  for (int stored = 0; stored < 2; stored++) {
    tc_export_options o = {.n_outputs = 6,
                           .store_constants = stored,
                           .targets = stored ? "native" : NULL,
                           .n_weights = 1,
                           .weight_names = (const char *[]){"table"},
                           .weights = &m.table};
    const char *path = files_path("mixture.tcx");
    tc_rng_state before = tc_get_rng_state(), after;
    EXPECT_OK(tc_export(mixture, &m, 2, input, &o, path));
    after = tc_get_rng_state();
    EXPECT(memcmp(&before, &after, sizeof before) == 0, "an export draws no numbers");
    tc_program_file *p = tc_program_load(path);
    EXPECT(p != NULL, "load");
    if (!p) continue;
    expect_same("mixture", mixture, &m, p, 2, in, 6);
    if (!stored) expect_child_same("mixture", path, p);
    int n, n_table = 0;
    const tc_program_value *v = tc_program_weights(p, &n);
    for (int i = 0; i < n; i++) n_table += strcmp(v[i].name, "table") == 0;
    EXPECT(n_table == 1, "the weight has its name");
    // An index out of range is the embedding's error.
    int64_t rows[6] = {0, 1, 2, 50, 4, 5};
    tc_program_input wrong[] = {{"x", in[0]}, {"rows", tc_from_host(rows, TC_SHAPE(6), TC_I64)}};
    EXPECT_FAILS(tc_program_run(p, 2, wrong, out), TC_ERR_INDEX,
                 "index 50 at position 3 is out of range for extent 50");
    EXPECT(!tc_is_valid(out[0]), "poison");
    // Tensors outlive the program: a weight's, and one that a run made.
    EXPECT_OK(tc_program_run(p, 2, (tc_program_input[]){{"x", in[0]}, {"rows", in[1]}}, out));
    tc_program_close(p);
    EXPECT(same_bits(out[3], tc_reshape(m.w2, TC_SHAPE(320))), "a weight outlives the program");
  }
  for (int k = 0; k < 4; k++) tc_release((tc_tensor[]){m.w1, m.b1, m.w2, m.table}[k]);
}

static void test_gradient(void) {
  mlp m = make_mlp();
  tc_tensor x = tc_randn(TC_SHAPE(6, 24), TC_F32);
  EXPECT_OK(tc_export(slope, &m, 1, (tc_export_input[]){{"x", x}}, &(tc_export_options){.targets = "native"},
                      files_path("slope.tcx")));
  tc_program_file *p = tc_program_load(files_path("slope.tcx"));
  EXPECT(p != NULL, "load");
  if (p) expect_same("gradient", slope, &m, p, 1, &x, 1);
  tc_program_close(p);
}

// Changes a file as somebody would who may write it: its checksum is right.
static void seal(file_bytes f) {
  tc_tcx_head *head = (tc_tcx_head *)(void *)f.at;
  memset(head->sum, 0, sizeof head->sum);
  tc_hash sum = tc_hash_bytes(f.at, head->weights_at);
  head->sum[0] = sum.lo, head->sum[1] = sum.hi;
}

// As if the file of one target came from another processor.
static void make_foreign(const char *path) {
  file_bytes f = file_read(path);
  const tc_tcx_head *head = (const tc_tcx_head *)(void *)f.at;
  tc_tcx_target *t = (tc_tcx_target *)(void *)(f.at + head->table[TC_TCX_TABLE_targets].offset);
  t[0].facts = t[0].isa;
  seal(f);
  FILE *to = fopen(path, "wb");
  EXPECT(to && fwrite(f.at, 1, f.n, to) == f.n && fclose(to) == 0, "%s", path);
  free(f.at);
}

static void test_control_flow(void) {
  mlp m = make_mlp();
  tc_tensor in[] = {tc_randn(TC_SHAPE(7, 2, 32), TC_F32), tc_randn(TC_SHAPE(2, 32), TC_F32)};
  const tc_export_input input[] = {{"xs", in[0]}, {"h", in[1]}};
  const char *path = files_path("loops.tcx");
  EXPECT_OK(tc_export(loops, &m, 2, input, &(tc_export_options){.n_outputs = 5, .keep_ir = true}, path));
  tc_program_file *p = tc_program_load(path);
  EXPECT(p != NULL, "load");
  if (!p) return;
  expect_same("loops", loops, &m, p, 2, in, 5);
  tc_tensor other[] = {tc_neg(tc_abs(in[0])), in[1]};  // the other branch
  expect_same("loops", loops, &m, p, 2, other, 5);
  expect_child_same("loops", path, p);
  tc_program_close(p);
}

// Every target in the file that this processor has, and kernel IR, give this processor's bits or
// those of the set.
static void test_targets(void) {
  mlp m = make_mlp();
  tc_tensor x = tc_randn(TC_SHAPE(6, 24), TC_F32);
  const tc_export_input input[] = {{"x", x}};
  const char *path = files_path("targets.tcx");
  EXPECT_OK(tc_export(classify, &m, 1, input, &(tc_export_options){.targets = "native", .keep_ir = true}, path));
  tc_program_file *p = tc_program_load(path);
  EXPECT(p && strncmp(tc_program_target(p), "native ", 7) == 0, "%s", tc_program_target(p));
  tc_program_close(p);
  make_foreign(path);
  p = tc_program_load(path);
  EXPECT(p && strncmp(tc_program_target(p), "interpreted ", 12) == 0, "%s", tc_program_target(p));
  if (p) expect_same("interpreted", classify, &m, p, 1, &x, 1);
  if (p) EXPECT(interprets(p), "kernel IR is interpreted");
  tc_program_close(p);
  // Without it the file is refused, with the reason.
  EXPECT_OK(tc_export(classify, &m, 1, input, &(tc_export_options){.targets = "native"}, path));
  make_foreign(path);
  EXPECT_FAILS(tc_program_load(path), TC_ERR_DEVICE, "is code for exactly the processor that exported it");
}

static void test_sizes(void) {
  mlp m = make_mlp();
  const int64_t batches[] = {1, 6, 17};
  const tc_export_size size = {"batch", 3, batches};
  tc_tensor out;
  EXPECT_OK(tc_export(classify, &m, 1, (tc_export_input[]){{"x", tc_zeros(TC_SHAPE(6, 24), TC_F32), {"batch"}}},
                      &(tc_export_options){.n_sizes = 1, .sizes = &size, .targets = "native"},
                      files_path("sizes.tcx")));
  tc_program_file *p = tc_program_load(files_path("sizes.tcx"));
  EXPECT(p != NULL, "load");
  if (!p) return;
  for (int i = 0; i < 3; i++) {
    tc_tensor x = tc_randn(TC_SHAPE(batches[i], 24), TC_F32);
    expect_same("sizes", classify, &m, p, 1, &x, 1);
  }
  int n;
  const int64_t *sizes = tc_program_sizes(p, "batch", &n);
  EXPECT(n == 3 && sizes[2] == 17, "%d sizes", n);
  EXPECT(strcmp(tc_program_inputs(p, &n)->dims[0], "batch") == 0, "the extent has a name");
  EXPECT_FAILS(tc_program_run(p, 1, (tc_program_input[]){{"x", tc_zeros(TC_SHAPE(5, 24), TC_F32)}}, &out), TC_ERR_SHAPE,
               "input 'x': batch is 5; the file was made for 1, 6, 17");
  EXPECT_FAILS(tc_program_run(p, 1, (tc_program_input[]){{"x", tc_zeros(TC_SHAPE(6, 23), TC_F32)}}, &out), TC_ERR_SHAPE,
               "input 'x' is [6, 23]; the program takes [batch, 24]");
  tc_program_close(p);
}

// ResNet18, reduced: the model's own plan and the file have the same bits, in a child, too.
static void test_resnet(void) {
  tc_archive *a = tc_safetensors_open("tests/golden/model_resnet18.safetensors");
  resnet_config c;
  if (!a && tc_last_error()->status == TC_ERR_STATE) return;  // built without libjansson
  EXPECT(a && resnet_config_of(a, &c), "the golden model");
  if (!a) return;
  tc_scope scope = tc_scope_begin();
  tc_nn_params *params = tc_nn_params_create();
  EXPECT_OK(resnet_add(params, &c));
  EXPECT_OK(tc_nn_load(params, a, NULL));
  tc_nn_set_training(params, false);
  tc_tensor x = tc_randn(TC_SHAPE(2, c.channels, 32, 32), TC_F32);
  const char *path = files_path("resnet.tcx");
  for (int stored = 0; stored < 2; stored++) {
    EXPECT_OK(tc_export(image, params, 1, (tc_export_input[]){{"image", x}},
                        &(tc_export_options){.targets = "native", .store_constants = stored}, path));
    tc_program_file *p = tc_program_load(path);
    EXPECT(p != NULL, "load");
    if (!p) continue;
    expect_same("resnet18", image, params, p, 1, &x, 1);
    expect_child_same("resnet18", path, p);
    tc_program_close(p);
  }
  tc_nn_params_destroy(params);
  tc_archive_close(a);
  tc_scope_end(scope);
}

// BERT: attention with a mask, embeddings, layer norm.
static void test_bert(void) {
  tc_archive *a = tc_safetensors_open("tests/golden/model_bert.safetensors");
  bert_config c;
  if (!a && tc_last_error()->status == TC_ERR_STATE) return;  // built without libjansson
  EXPECT(a && bert_config_of(a, "bert.", &c), "the golden model");
  if (!a) return;
  tc_scope scope = tc_scope_begin();
  tc_nn_params *params = tc_nn_params_create();
  EXPECT_OK(bert_add(params, &c));
  EXPECT_OK(bert_load(params, a, "bert."));
  tc_nn_set_training(params, false);
  tc_tensor in[] = {tc_archive_get(a, "golden.input"), tc_archive_get(a, "golden.types"),
                    tc_archive_get(a, "golden.mask")};
  const tc_export_input input[] = {{"ids", in[0]}, {"types", in[1]}, {"mask", in[2]}};
  const char *path = files_path("bert.tcx");
  EXPECT_OK(tc_export(text, params, 3, input, &(tc_export_options){.targets = "native"}, path));
  tc_program_file *p = tc_program_load(path);
  EXPECT(p != NULL, "load");
  if (p) expect_same("bert", text, params, p, 3, in, 1);
  tc_program_close(p);
  tc_nn_params_destroy(params);
  tc_archive_close(a);
  tc_scope_end(scope);
}

// ---- threads and processes ----

static struct {
  const tc_program_file *p;
  char *want;
  size_t bytes;
} shared;

static void run_often(int thread) {
  (void)thread;
  for (int k = 0; k < 50; k++) {
    size_t bytes;
    char *got = run_arrays(shared.p, &bytes);
    EXPECT(got && memcmp(got, shared.want, bytes) == 0, "run %d", k);
    free(got);
  }
}

static void *thread_main(void *arg) {
  run_often((int)(intptr_t)arg);
  return NULL;
}

static void test_threads(void) {
  mlp m = make_mlp();
  EXPECT_OK(tc_export(classify, &m, 1, (tc_export_input[]){{"x", tc_zeros(TC_SHAPE(64, 24), TC_F32)}},
                      &(tc_export_options){.targets = "native"}, files_path("threads.tcx")));
  tc_program_file *p = tc_program_load(files_path("threads.tcx"));
  pthread_t thread[4];
  shared.p = p, shared.want = run_arrays(p, &shared.bytes);
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, thread_main, (void *)(intptr_t)i);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  free(shared.want);
  tc_program_close(p);
}

// Kilobytes of the file's pages that this process shares with others, and has alone.
static void mapped_kb(const char *path, long *shared_kb, long *private_kb) {
  char line[512];
  bool here = false;
  FILE *f = fopen("/proc/self/smaps", "r");
  *shared_kb = *private_kb = 0;
  while (f && fgets(line, sizeof line, f)) {
    long kb;
    unsigned long begin, end;
    if (sscanf(line, "%lx-%lx", &begin, &end) == 2) here = strstr(line, path) != NULL;
    if (here && (sscanf(line, "Shared_Clean: %ld", &kb) == 1 || sscanf(line, "Shared_Dirty: %ld", &kb) == 1))
      *shared_kb += kb;
    if (here && (sscanf(line, "Private_Clean: %ld", &kb) == 1 || sscanf(line, "Private_Dirty: %ld", &kb) == 1))
      *private_kb += kb;
  }
  if (f) fclose(f);
}

static int child_share(const char *path) {
  size_t bytes;
  tc_program_file *p = tc_program_load(path);
  char *all = p ? run_arrays(p, &bytes) : NULL;
  if (!all) return fprintf(stderr, "child: %s\n", tc_last_error()->message), 1;
  long shared_kb, private_kb;
  mapped_kb(path, &shared_kb, &private_kb);
  free(all);
  tc_program_close(p);
  if (shared_kb < 2000) return fprintf(stderr, "child: %ld kB shared, %ld kB private\n", shared_kb, private_kb), 1;
  return private_kb > 200;
}

static tc_status wide(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)n_in, (void)n_out;
  out[0] = tc_sum(tc_mul(in[0], *(tc_tensor *)user), TC_AXES(1), false);
  return TC_OK;
}

static void test_sharing(void) {
  tc_tensor w = tc_param(tc_randn(TC_SHAPE(1000, 1000), TC_F32));
  const char *path = files_path("share.tcx");
  EXPECT_OK(tc_export(wide, &w, 1, (tc_export_input[]){{"x", tc_zeros(TC_SHAPE(1000), TC_F32)}},
                      &(tc_export_options){.targets = "native"}, path));
  tc_program_file *p = tc_program_load(path);
  size_t bytes;
  free(p ? run_arrays(p, &bytes) : NULL);
  int status = in_child(NULL, (char *[]){(char *)this_program, "share", (char *)path, NULL});
  EXPECT(status == 0, "another process shares the weights: %d", status);
  tc_program_close(p);
  tc_release(w);
}

static bool has_compiler(void) {
  tc_status st = tc_export(half, NULL, 0, NULL, NULL, files_path("none.tcx"));
  return st != TC_ERR_STATE || !strstr(tc_last_error()->message, "nothing to compile with");
}

int main(int argc, char **argv) {
  this_program = argv[0];
  if (argc == 4 && strcmp(argv[1], "run") == 0) return child_run(argv[2], argv[3]);
  if (argc == 3 && strcmp(argv[1], "share") == 0) return child_share(argv[2]);
  if (argc == 3 && strcmp(argv[1], "refused") == 0)
    return tc_program_load(argv[2]) || !strstr(tc_last_error()->message, "avx2 exceeds TC_ISA=baseline");
  tc_seed(1);
  if (!has_compiler()) return printf("%s\n", tc_last_error()->message), 77;
  test_mlp();
  test_mixture();
  test_gradient();
  test_control_flow();
  test_targets();
  test_sizes();
  test_resnet();
  test_bert();
  test_threads();
  test_sharing();
  files_fini();
  return expect_done("programs");
}
