// Convolutions of tensors by a GPU vendor's library, simulated (cuDNN, or what TC_TEST_LIBRARY
// names): the same values as the reference's, forward and gradients, whatever their shape;
// replayed; who makes them by rule and by measurement, which other processes find again; what is
// absent, refused or fails. The program runs itself for what another process must see.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "lowering/autotune/library_conv.h"
#include "runtime/autotune_log.h"
#include "tests/gpu/library.h"

// A library, by TC_TEST_LIBRARY: its name, and the device that is simulated for it.
static const struct face {
  const char *name, *device, *gfx, *driver;
  const char *variable, *library, *version[3];  // versions: others of the simulator's
  const char *first;  // which of its algorithms is first
  const char *run[3];  // the calls that make one
  int n;  // algorithms that are timed of a convolution in f32
  bool by_rule;
  const char *making[8], *found, *running, *refused, *shortage;  // calls that fail
} faces[] = {
#define MIOPEN \
  "libsim-hip.so", "TC_MIOPEN_LIBRARY", "libsim-miopen.so", \
      {"TC_SIM_MIOPEN=3.6.0", "TC_SIM_MIOPEN=3.6.1 TC_SIM_LIES=1", "TC_SIM_MIOPEN=3.6.2"}, "TC_SIM_SOLUTION", \
      {"miopenConvolutionForwardImmediate", "miopenConvolutionBackwardDataImmediate", \
       "miopenConvolutionBackwardWeightsImmediate"}, \
      2, false, \
      {"miopenCreateTensorDescriptor:2=4", \
       "miopenSetNdTensorDescriptorWithLayout:1=3", \
       "miopenSetConvolutionAttribute:1=3", \
       "miopenConvolutionForwardGetSolution:*=7", \
       "miopenConvolutionForwardGetSolution:*=6", \
       "miopenConvolutionForwardCompileSolution:*=5", \
       "miopenConvolutionForwardGetSolutionWorkspaceSize:*=3"}, \
      "miopenConvolutionForwardGetSolution:*=7", "miopenConvolutionForwardImmediate:*=5", "miopenStatusInternalError", \
      "hipMallocFromPoolAsync:1=2,hipMallocFromPoolAsync:1=2,hipMallocFromPoolAsync:1=2,hipMallocFromPoolAsync:1=2"
    {"cudnn",
     "tc:cuda",
     "",
     "libsim-cuda.so",
     "TC_CUDNN_LIBRARY",
     "libsim-cudnn.so",
     {"TC_SIM_CUDNN=9.11.0", "TC_SIM_CUDNN=9.12.0", "TC_SIM_CUDNN=9.13.0"},
     "TC_SIM_ENGINE",
     {"cudnnBackendExecute"},
     3,
     true,
     {"cudnnBackendCreateDescriptor:1=4003", "cudnnBackendFinalize:4=3000", "cudnnBackendFinalize:7=4000",
      "cudnnBackendFinalize:7=3000", "cudnnBackendGetAttribute:*=4000"},
     "cudnnBackendFinalize:*=4000",
     "cudnnBackendExecute:*=5000",
     "CUDNN_STATUS_EXECUTION_FAILED",
     "cuMemAllocFromPoolAsync:1=2,cuMemAllocFromPoolAsync:1=2,cuMemAllocFromPoolAsync:1=2,cuMemAllocFromPoolAsync:1=2"},
    {"miopen64", "tc:hip", "gfx90a", MIOPEN},
    {"miopen32", "tc:hip", "gfx1100", MIOPEN},
};
static const struct face *on = faces;

static uint64_t made(void) {
  uint64_t n = 0;
  for (int i = 0; i < 3 && on->run[i]; i++) n += calls(on->run[i]);
  return n;
}

// ---- convolutions: of small whole numbers, whose sums are exact ----

typedef struct row {
  const char *name;
  tc_type type;
  tc_dims image, weight;  // channels before the spatial axes
  tc_conv_options o;
  int by_library[2];  // forward; forward and both gradients
  bool transposed;
} row;

#define DIMS(...) \
  { \
    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { \
      __VA_ARGS__ \
    } \
  }  // an initializer
#define EACH {1, 3}
static const row rows[] = {
    {"3 x 3, padded", TC_F32, DIMS(2, 3, 7, 6), DIMS(4, 3, 3, 3), {.padding = DIMS(1, 1)}, EACH, false},
    {"3 x 3, f16", TC_F16, DIMS(2, 3, 7, 6), DIMS(4, 3, 3, 3), {.padding = DIMS(1, 1)}, EACH, false},
    {"3 x 3, bf16", TC_BF16, DIMS(2, 3, 7, 6), DIMS(4, 3, 3, 3), {.padding = DIMS(1, 1)}, EACH, false},
    {"steps", TC_F32, DIMS(2, 3, 9, 8), DIMS(4, 3, 3, 3), {.stride = DIMS(2, 2), .padding = DIMS(1, 1)}, EACH, false},
    {"steps over windows", TC_BF16, DIMS(1, 2, 9, 9), DIMS(4, 2, 2, 2), {.stride = DIMS(3, 3)}, EACH, false},
    {"apart", TC_F32, DIMS(1, 2, 9, 9), DIMS(4, 2, 3, 3), {.dilation = DIMS(2, 2), .padding = DIMS(2, 1)}, EACH, false},
    {"1 x 1", TC_F32, DIMS(2, 5, 4, 4), DIMS(6, 5, 1, 1), {.groups = 1}, EACH, false},
    {"1 x 1, steps", TC_F16, DIMS(2, 5, 5, 5), DIMS(6, 5, 1, 1), {.stride = DIMS(2, 2)}, EACH, false},
    {"groups", TC_F32, DIMS(2, 4, 6, 6), DIMS(6, 2, 3, 3), {.groups = 2}, EACH, false},
    {"a group for each channel",
     TC_F32,
     DIMS(2, 4, 6, 6),
     DIMS(4, 1, 3, 3),
     {.groups = 4, .padding = DIMS(1, 1)},
     EACH,
     false},
    {"one axis", TC_F32, DIMS(2, 3, 12), DIMS(4, 3, 5), {.stride = DIMS(2), .padding = DIMS(2)}, EACH, false},
    {"three axes", TC_F32, DIMS(1, 2, 4, 5, 3), DIMS(3, 2, 2, 3, 1), {.padding = DIMS(1, 1, 0)}, EACH, false},
    {"transposed",
     TC_F32,
     DIMS(2, 3, 4, 4),
     DIMS(3, 4, 3, 3),
     {.stride = DIMS(2, 2), .padding = DIMS(1, 1)},
     EACH,
     true},
    {"transposed, longer",
     TC_F32,
     DIMS(2, 3, 4, 4),
     DIMS(3, 4, 3, 3),
     {.stride = DIMS(2, 2), .output_padding = DIMS(1, 1)},
     EACH,
     true},
    {"f64", TC_F64, DIMS(1, 2, 5, 5), DIMS(3, 2, 3, 3), {.groups = 1}, {0, 0}, false},
};
enum { N_ROWS = sizeof rows / sizeof rows[0], MOST = 4096 };

static tc_tensor numbers(tc_dims d, tc_type type) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; i++) n *= d.dim[i];
  float *v = malloc((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = (float)((int)(i * 2654435761u >> 7 & 3) - 1);
  tc_tensor t = tc_cast(tc_from_host(v, d, TC_F32), type);
  EXPECT_OK(tc_eval(1, &t));
  free(v);
  return t;
}

static tc_tensor convolve(const row *r, tc_tensor x, tc_tensor w, tc_tensor bias) {
  int axes = r->image.rank - 2;
  if (r->transposed) return axes == 1 ? tc_conv_transpose1d(x, w, bias, r->o) : tc_conv_transpose2d(x, w, bias, r->o);
  return axes == 1   ? tc_conv1d(x, w, bias, r->o)
         : axes == 2 ? tc_conv2d(x, w, bias, r->o)
                     : tc_conv3d(x, w, bias, r->o);
}

// The convolution with a bias and a relu behind it, and with gradients those of its squares' sum:
// three lists behind each other.
static int64_t values(const row *r, bool gradients, float *out) {
  tc_tensor x = numbers(r->image, r->type), w = numbers(r->weight, r->type), none = {0, 0}, grads[2];
  if (gradients) EXPECT_OK(tc_set_requires_grad(x, true));
  if (gradients) EXPECT_OK(tc_set_requires_grad(w, true));
  tc_tensor y = convolve(r, x, w, none);
  if (!gradients) return expect_floats(tc_relu(tc_add(y, 1)), out, MOST);
  EXPECT_OK(tc_grads_of(tc_sum(tc_cast(tc_mul(y, y), TC_F32), TC_ALL, false), (tc_tensor[]){x, w}, 2, grads, 0));
  tc_tensor all[] = {tc_cast(y, TC_F32), tc_cast(grads[0], TC_F32), tc_cast(grads[1], TC_F32)};
  EXPECT_OK(tc_eval(3, all));
  int64_t n = 0;
  for (int i = 0; i < 3; i++) n += expect_floats(all[i], out + n, MOST - n);
  return n;
}

// By the reference and on the device: how many differ.
static int compare(const row *r, bool gradients) {
  static float want[MOST], got[MOST];
  tc_scope s = tc_scope_begin();
  int wrong = 0;
  EXPECT_OK(tc_push_device("tc:ref"));
  int64_t n = values(r, gradients, want);
  EXPECT_OK(tc_pop_device());
  (void)values(r, gradients, got);
  float tolerance = r->type == TC_F32 || r->type == TC_F64 ? 1e-5f : r->type == TC_F16 ? 2e-3f : 1.6e-2f;
  for (int64_t i = 0; i < n; i++) wrong += !(fabsf(got[i] - want[i]) <= tolerance * fmaxf(fabsf(want[i]), 1));
  tc_scope_end(s);
  return wrong;
}

static void test_values(const char *engine, int n_rows, int times) {
  setenv(on->first, engine, 1);
  set("TC_GPU_LIBRARIES", "always");
  for (int i = 0; i < 2 * n_rows; i++) {
    const row *r = &rows[i / 2];
    for (int time = 0; time < times; time++) {
      uint64_t before = made();
      int wrong = compare(r, i & 1), n = (int)(made() - before);
      EXPECT(wrong == 0, "%s, gradients %d, engine %s, time %d: %d values", r->name, i & 1, engine, time, wrong);
      if (time == 0) EXPECT(n == r->by_library[i & 1], "%s, gradients %d: %d by the library", r->name, i & 1, n);
    }
  }
}

// Steps of one plan, whose operands stay: the library is asked as long as addresses are new, then
// the graph is launched.
static void test_replay(void) {
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_retain(numbers(rows[0].image, TC_F32)), w = tc_retain(numbers(rows[0].weight, TC_F32));
  uint64_t asked = made(), last = 0;
  float first = 0;
  for (int i = 0; i < 10; i++) {
    tc_scope step = tc_scope_begin();
    float v = 0;
    tc_sync_point point;
    EXPECT_OK(tc_item_f32(tc_sum(tc_gelu(convolve(&rows[0], x, w, (tc_tensor){0, 0})), TC_ALL, false), &v));
    if (i == 0) first = v;
    EXPECT(v == first, "step %d: %g, %g", i, v, first);
    EXPECT(tc_sync_points(1, &point) == 1 && (i < 4 || point.replayed), "step %d: %s", i,
           point.gpu_note ? point.gpu_note : "");
    if (i == 5) last = made();
    tc_scope_end(step);
  }
  EXPECT(last > asked && made() == last, "asked %d times, then %d", (int)(last - asked), (int)(made() - last));
  tc_release(x), tc_release(w);
  tc_scope_end(s);
}

// Images and results that are elsewhere in each step: what moves channels last and back reads and
// writes them, so that the graph copies nothing.
static void test_ever_new_addresses(void) {
  set("TC_GPU_LIBRARIES", "always");
  tc_scope s = tc_scope_begin();
  tc_tensor w = numbers(rows[0].weight, TC_F32), kept[20];
  float first[MOST], got[MOST];
  int64_t n = 0;
  for (int i = 0; i < 10; i++) {
    tc_sync_point point = {0};
    kept[i] = numbers(rows[0].image, TC_F32);
    kept[10 + i] = convolve(&rows[0], kept[i], w, (tc_tensor){0, 0});
    EXPECT_OK(tc_eval(1, &kept[10 + i]));
    EXPECT(tc_sync_points(1, &point) == 1 && (i < 1 || point.replayed) && point.copied_bytes == 0, "step %d: %s", i,
           point.gpu_note ? point.gpu_note : "");
  }
  for (int i = 0; i < 10; i++) {
    n = expect_floats(kept[10 + i], i ? got : first, MOST);
    EXPECT(i == 0 || memcmp(got, first, (size_t)n * sizeof *got) == 0, "step %d", i);
  }
  tc_scope_end(s);
}

// A parameter's weight is moved to channels last by the first run alone, and again once it was
// assigned.
static void test_parameter(void) {
  const row *r = &rows[0];
  uint64_t n_kernels[4];
  set("TC_GPU_LIBRARIES", "always");
  tc_scope all = tc_scope_begin();
  tc_tensor w = tc_param(numbers(r->weight, r->type)), x = numbers(r->image, r->type);
  EXPECT_OK(tc_eval(2, (tc_tensor[]){w, x}));
  for (int i = 0; i < 4; i++) {
    tc_sync_point point;
    tc_scope scope = tc_scope_begin();
    tc_no_grad_begin();
    if (i == 3) {
      EXPECT_OK(tc_assign(w, tc_add(w, 1)));
      EXPECT_OK(tc_eval(1, &w));
    }
    tc_tensor y = convolve(r, x, w, (tc_tensor){0, 0});
    EXPECT_OK(tc_eval(1, &y));
    tc_no_grad_end();
    n_kernels[i] = tc_sync_points(1, &point) == 1 ? point.n_kernels : 0;
    tc_scope_end(scope);
  }
  EXPECT(n_kernels[0] == n_kernels[1] + 1 && n_kernels[2] == n_kernels[1] && n_kernels[3] == n_kernels[0],
         "kernels: %d %d %d %d", (int)n_kernels[0], (int)n_kernels[1], (int)n_kernels[2], (int)n_kernels[3]);
  tc_release(w);
  tc_scope_end(all);
}

// ---- what fails ----

static void test_failures(void) {
  set("TC_GPU_LIBRARIES", "always");
  for (int i = 0; i < 8 && on->making[i]; i++) {  // then it is generated
    tc_cache_clear();
    fail(on->making[i]);
    uint64_t before = made();
    EXPECT(compare(&rows[0], false) == 0 && made() == before, "%s", on->making[i]);
    EXPECT(tc_last_error()->status == TC_OK, "%s", on->making[i]);
  }
  fail(NULL);
  tc_cache_clear();
  // The seventh algorithm refuses to be made or wants 2 GiB; the ones behind it are asked, or the
  // first again.
  uint64_t before = made();
  setenv(on->first, "6", 1);
  EXPECT(compare(&rows[0], false) == 0 && made() == before + 1, "the next ones are asked");
  unsetenv(on->first);
  tc_cache_clear();
  fail(on->running);
  tc_scope s = tc_scope_begin();
  tc_tensor t = convolve(&rows[0], numbers(rows[0].image, TC_F32), numbers(rows[0].weight, TC_F32), (tc_tensor){0, 0});
  EXPECT(tc_eval(1, &t) == TC_ERR_DEVICE &&
             strstr(tc_last_error()->message, "asking a library for library_f32_conv_2x7x6x3_4x3x3: ") &&
             strstr(tc_last_error()->message, on->refused),
         "told");
  tc_clear_error();
  tc_scope_end(s);
  fail(NULL);
  EXPECT(compare(&rows[0], false) == 0, "works again");
  set("TC_GPU_LIBRARIES", "never");
  before = made();
  EXPECT(compare(&rows[0], true) == 0 && made() == before, "never");
  set("TC_GPU_LIBRARIES", "always");
  set("TC_VERIFY", "1");
  EXPECT(compare(&rows[0], true) == 0 && made() == before, "what is verified is generated");
  set("TC_VERIFY", "0");
}

// ---- the rule ----

// Whether the library makes a 3 x 3 convolution of 8 square images, with a relu behind it or not;
// moves: of the program's image, for the program.
static bool by_rule_of(tc_type type, tc_op op, int64_t size, int64_t channels, bool followed, bool moves) {
  const uint64_t one = UINT64_C(1) << 32 | 1, padding = one, attr[] = {one, one, padding, padding, 1};
  const tc_dims image = TC_SHAPE(8, size, size, channels), weight = TC_SHAPE(channels, channels, 3, 3);
  const tc_dims *shape[3] = {&image, op == TC_OP_CONV_WEIGHT ? &image : &weight,
                             op == TC_OP_CONV_WEIGHT ? &weight : &image};
  tc_gnode node[4] = {{.op = TC_OP_LEAF}};
  tc_plan plan = {.n_node = 4};
  tc_graph g = {.plan = &plan, .node = node, .n = 4};
  uint32_t in[] = {0, 1}, after = 2;
  for (int i = 0; i < 4; i++) {
    node[i] = (tc_gnode){.op = TC_OP_LEAF,
                         .type = type,
                         .dev = tc_device_default(),
                         .shape = tc_dims_at(tc_dims_intern(shape[i < 3 ? i : 2])),
                         .leaf = TC_LEAF_NONE,
                         .out = TC_LEAF_NONE};
    if (i == 2) node[i].op = op, node[i].in = in, node[i].n_in = 2, node[i].attr = attr, node[i].n_attr = 5;
  }
  if (followed) node[3].op = TC_OP_RELU, node[3].in = &after, node[3].n_in = 1;
  if (moves) node[0].leaf = 0, node[2].out = 0;
  EXPECT_OK(tc_target_of(tc_device_default(), &g.target));
  tc_gpu_call *call = tc_library_conv_choose(&g, 2);
  tc_gpu_call_release(call);
  return call != NULL;
}

static bool by_rule(tc_type type, tc_op op, int64_t size, int64_t channels, bool followed) {
  return by_rule_of(type, op, size, channels, followed, false);
}

static void test_rule(void) {
  set("TC_GPU_LIBRARIES", "always");
  set("TC_DETERMINISTIC", "1");
  EXPECT(by_rule(TC_F32, TC_OP_CONV, 8, 8, false) == on->by_rule, "what is trusted by measurement alone is not used");
  set("TC_DETERMINISTIC", "0");
  EXPECT(by_rule(TC_F32, TC_OP_CONV, 8, 8, false), "always");
  set("TC_GPU_LIBRARIES", "rule");
  if (!on->by_rule) {
    EXPECT(!by_rule(TC_BF16, TC_OP_CONV, 64, 512, false) && !by_rule(TC_F32, TC_OP_CONV, 64, 256, false),
           "no rule takes it");
    return;
  }
  const tc_op convolutions[] = {TC_OP_CONV, TC_OP_CONV_INPUT, TC_OP_CONV_WEIGHT};
  for (int i = 0; i < 3; i++) {
    tc_op op = convolutions[i];
    EXPECT(!by_rule(TC_BF16, op, 16, 64, false) && by_rule(TC_BF16, op, 64, 512, false), "large ones of halves");
    bool long_sums = op == TC_OP_CONV_WEIGHT;  // over all pixels, in an order that cannot be told
    EXPECT(!by_rule(TC_F32, op, 8, 64, false) && by_rule(TC_F32, op, 64, 256, false) == !long_sums,
           "large ones of f32");
    set("TC_GPU_LIBRARIES", "always");
    EXPECT(by_rule(TC_F32, op, 64, 256, false), "always, whatever its sums are");
    set("TC_GPU_LIBRARIES", "rule");
  }
  int64_t least = 16, least_before_more = 16, least_copied = 16;
  while (least < 2048 && !by_rule(TC_BF16, TC_OP_CONV, 56, least, false)) least += 8;
  while (least_before_more < 2048 && !by_rule(TC_BF16, TC_OP_CONV, 56, least_before_more, true)) least_before_more += 8;
  EXPECT(least_before_more > least, "what follows in another kernel has a price: %lld, %lld", (long long)least,
         (long long)least_before_more);
  while (least_copied < 2048 && !by_rule_of(TC_BF16, TC_OP_CONV, 56, least_copied, false, true)) least_copied += 8;
  EXPECT(least_copied > least_before_more && least_copied < 2048, "so have copies of image and result: %lld",
         (long long)least_copied);
  EXPECT(!by_rule(TC_F64, TC_OP_CONV, 64, 512, false), "f64");
  set("TC_GPU_LIBRARIES", "never");
  EXPECT(!by_rule(TC_BF16, TC_OP_CONV, 64, 512, false), "never");
}

// ---- measurement ----

// In a process of its own, whose place for choices is given: who made a convolution of 1 M
// multiply-adds, and whether that was measured.
static int run_child(const char *expected) {
  static float got[4 * 16 * 16 * 16], want[4 * 16 * 16 * 16];
  static const row r = {"measured", TC_F32, DIMS(4, 8, 16, 16), DIMS(16, 8, 3, 3), {.padding = DIMS(1, 1)},
                        EACH,       false};
  for (int device = 0; device < 2; device++) {
    tc_scope s = tc_scope_begin();
    if (device == 0) EXPECT_OK(tc_push_device("tc:ref"));
    tc_tensor y = tc_relu(convolve(&r, numbers(r.image, TC_F32), numbers(r.weight, TC_F32), (tc_tensor){0, 0}));
    // what is timed first: asked for, and each time that caches were given back
    if (device && getenv("SHORT")) fail(on->shortage);
    EXPECT_OK(tc_to_host(y, device ? got : want, sizeof got));
    if (device == 0) EXPECT_OK(tc_pop_device());
    tc_scope_end(s);
  }
  EXPECT(memcmp(got, want, sizeof got) == 0, "values");
  char said[64], *text = NULL;
  size_t bytes;
  snprintf(said, sizeof said, "%s, %d timed", made() > 0 ? "library" : "generated", (int)tc_cache_stats().cuts_timed);
  EXPECT(strcmp(said, expected) == 0, "%s instead of %s", said, expected);
  FILE *to = open_memstream(&text, &bytes);
  tc_autotune_log_print(to);
  fclose(to);
  bool by_rule = strstr(expected, "generated") != NULL;
  EXPECT(by_rule || (strstr(text, "won by") && strstr(text, "f32 conv 4x16x16 channels 8x16 taps 3x3")),
         "the profile says: %s", text);
  free(text);
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(((int (*)(void))simulated("sim_live_objects"))() == 0, "objects of the driver are left");
  return expect_done("gpu-convs, another process");
}

static void test_measurement(void) {
  // Of the algorithms that are taken one refuses and one wants 2 GiB.
  char timed[32], missing[96], found[96], shortage[64];
  snprintf(timed, sizeof timed, "library, %d timed", on->n);
  snprintf(missing, sizeof missing, "%s=/nowhere.so", on->variable);
  snprintf(found, sizeof found, "TC_SIM_FAIL='%s'", on->found);
  snprintf(shortage, sizeof shortage, "SHORT=1 %s", on->version[2]);
  child("", timed);
  child("", "library, 0 timed");  // by the file
  EXPECT(edit_choice("convolutions", "2s/= [a-z]+ ([0-9]+) ([0-9]+).*/= generated 1 2 3/"), "the file is there");
  child("", timed);  // no choice
  EXPECT(edit_choice("convolutions", "2s/= (library [0-9]+ [0-9]+ [0-9]+) [0-9a-f]{16}/= \\1 00000000000000ff/"),
         "the file is there");
  child("", timed);  // no engine of the library's
  EXPECT(edit_choice("convolutions", "2s/= .*/= generated 1 2/"), "the file is there");
  child("", "generated, 0 timed");  // as it says
  child(on->version[0], timed);  // another version, another file
  child(on->version[1], timed);  // of MIOpen's one does not repeat its results, whatever it says
  child(found, "generated, 0 timed");
  child(shortage, "generated, 0 timed");  // of memory
  child("TC_DETERMINISTIC=1", "generated, 0 timed");
  child("TC_AUTOTUNE=0", "generated, 0 timed");
  child(missing, "generated, 0 timed");
  (void)files_fini();
}

// The library that the environment names, simulated.
static bool simulate_library(void) {
  const char *name = getenv("TC_TEST_LIBRARY");
  for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
    if (name && strcmp(faces[i].name, name) == 0) on = &faces[i], simulated_driver = on->driver;
  if (!built_simulators()) return false;
  setenv("TC_SIM_GFX", on->gfx, 1);
  setenv(on->variable, built(on->library), 0);
  setenv("MIOPEN_USER_DB_PATH", "/tmp", 0);  // it asks for a place to write
  return true;
}

int main(int argc, char **argv) {
  if (!simulate_library()) return puts("skipped: the simulated driver was not built"), 77;
  EXPECT_OK(tc_set_default_device(on->device));
  if (argc > 1) return run_child(argv[1]);
  test_values("0", N_ROWS, 1);
  test_values("0", 4, 3);  // launched, then replayed
  test_values("2", 4, 1);  // with a workspace
  test_replay();
  test_ever_new_addresses();
  test_parameter();
  test_failures();
  test_rule();
  test_measurement();
  EXPECT(tc_memory_stats().gpu_live_bytes == 0, "%zu bytes are held", tc_memory_stats().gpu_live_bytes);
  tc_shutdown();
  EXPECT(((int (*)(void))simulated("sim_live_objects"))() == 0, "objects of the driver are left");
  return expect_done("gpu-convs");
}
