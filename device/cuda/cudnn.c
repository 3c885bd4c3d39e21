// Convolutions by cuDNN. It is found as NVRTC is (nvrtc.c), with TC_CUDNN_LIBRARY in place of its
// variable. See cudnn.h.
#include "device/cuda/cudnn.h"

#include <stdio.h>
#include <string.h>

#include "device/cuda/library_paths.h"
#include "device/gpu/conv.h"
#include "device/gpu/library.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define NEEDED 1
#define MAJOR 9
// Configurations that are looked at. Of about 40 for f32, those without TF32 come last (9.19).
#define MOST_FOUND 64
#define MOST_NOTES 16
#define ALIGNMENT 16  // in bytes, of all operands; tensors begin at multiples of 64

// An algorithm's data: the engine and its number of knobs, then each knob's kind with its value.
enum { SLOTS = sizeof(((tc_gpu_algorithm *)0)->data) / (sizeof(uint32_t)), MOST_KNOBS = SLOTS - 1, SLOT_SHIFT = 24 };
#define SLOT_MOST ((1u << SLOT_SHIFT) - 1)

static struct {
#define TC_CUDNN_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/cuda/cudnn.def"
#undef TC_CUDNN_ROW
} dnn;

static const tc_library_row rows[] = {
#define TC_CUDNN_ROW(symbol, result, parameters) TC_LIBRARY_ROW(dnn, symbol, NEEDED),
#include "device/cuda/cudnn.def"
#undef TC_CUDNN_ROW
};

static char name_text[32];

// The library's description of a convolution.
typedef struct made {
  tc_gpu_conv_facts f;
  tc_cudnn_descriptor image, weight, result, convolution, operation, graph;
  tc_cudnn_descriptor plan;  // of the algorithm that was checked; NULL: none was
} made;

enum { IMAGE = 1, WEIGHT, RESULT };  // names of its tensors

// ---- the library ----

static bool load_cudnn(int driver_major, const char *path, char *why, size_t bytes) {
  static const tc_library library = {"cuDNN, NVIDIA's library of convolutions, cannot be opened",
                                     NULL,
                                     "cuDNN " TC_STR(MAJOR) " is needed",
                                     {TC_LIBRARY_TABLE(rows, dnn)}};
  if (!tc_library_load_path(&library, path, why, bytes)) return false;
  int v = (int)dnn.cudnnGetVersion(), cuda = (int)dnn.cudnnGetCudartVersion() / 1000;  // 92801; older versions say 8907
  snprintf(name_text, sizeof name_text, "cuDNN %d.%d.%d", v < 90000 ? v / 1000 : v / 10000,
           v < 90000 ? v / 100 % 10 : v / 100 % 100, v % 100);
  if (v / 10000 == MAJOR && cuda <= driver_major) return true;
  snprintf(why, bytes,
           "%s is %s for CUDA %d, and for the driver of CUDA %d cuDNN %d for that or an older one is needed", path,
           name_text, cuda, driver_major, MAJOR);
  return false;
}

static bool open_cudnn(int driver_major, char *why, size_t bytes) {
  const char *path = tc_options_get()->cudnn_library;
  char text[256];
  if (path) return load_cudnn(driver_major, path, why, bytes);
  if (tc_cuda_library_find(load_cudnn, driver_major, "libcudnn.so.9", text, sizeof text)) return true;
  // The last library found behind the loader's gives the reason.
  snprintf(
      why, bytes, "%s",
      *text
          ? text
          : "cuDNN, NVIDIA's library of convolutions, is nowhere: no libcudnn.so.9 that can be used among the loader's libraries, in "
            "/usr/local/cuda, CUDA_HOME or Python's packages");
  return false;
}

bool tc_cudnn_ready(int driver_major, char *why, size_t bytes) {
  static tc_library_once once;
  return tc_library_open_once(&once, open_cudnn, driver_major, why, bytes);
}

const char *tc_cudnn_name(void) {
  return name_text;
}

static int result_of(tc_cudnn_status status) {
  return status == TC_CUDNN_STATUS_SUCCESS ? 0 : (int)(TC_CUDNN_RESULTS + status);
}

// Errors of a device that is gone are reported better by the driver's next call.
tc_gpu_verdict tc_cudnn_judge(int result, const char **name) {
  tc_cudnn_status status = (tc_cudnn_status)(result - TC_CUDNN_RESULTS);
  *name = dnn.cudnnGetErrorString ? dnn.cudnnGetErrorString(status) : NULL;
  if (!*name) *name = "an error of cuDNN without a name";
  bool memory = status == TC_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                status == TC_CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  return memory ? TC_GPU_OUT_OF_MEMORY : TC_GPU_REFUSED;
}

int tc_cudnn_open(tc_gpu_port *p) {
  tc_cudnn_handle handle = NULL;
  tc_cudnn_status status = dnn.cudnnCreate(&handle);
  if (status == 0) status = dnn.cudnnSetStream(handle, p->stream[TC_GPU_WORK]);
  if (status != 0 && handle) (void)dnn.cudnnDestroy(handle);
  p->library[TC_GPU_CONVOLUTIONS] = status == 0 ? handle : NULL;
  return result_of(status);
}

int tc_cudnn_set_stream(tc_gpu_port *p, void *stream) {
  return result_of(dnn.cudnnSetStream(p->library[TC_GPU_CONVOLUTIONS], stream));
}

void tc_cudnn_close(tc_gpu_port *p) {
  if (p->library[TC_GPU_CONVOLUTIONS]) (void)dnn.cudnnDestroy(p->library[TC_GPU_CONVOLUTIONS]);
  p->library[TC_GPU_CONVOLUTIONS] = NULL;
}

// ---- descriptors: the first failure stays in *st, and later calls do nothing ----

static tc_cudnn_descriptor create_descriptor(tc_cudnn_status *st, tc_cudnn_kind kind) {
  tc_cudnn_descriptor d = NULL;
  if (*st == 0) *st = dnn.cudnnBackendCreateDescriptor(kind, &d);
  return d;
}

static void destroy_descriptor(tc_cudnn_descriptor d) {
  if (d) (void)dnn.cudnnBackendDestroyDescriptor(d);
}

static void set_attribute(tc_cudnn_status *st, tc_cudnn_descriptor d, tc_cudnn_attribute attribute, tc_cudnn_type type,
                          int64_t n, const void *elements) {
  if (*st == 0) *st = dnn.cudnnBackendSetAttribute(d, attribute, type, n, elements);
}

static void set_number(tc_cudnn_status *st, tc_cudnn_descriptor d, tc_cudnn_attribute attribute, int64_t value) {
  set_attribute(st, d, attribute, TC_CUDNN_TYPE_INT64, 1, &value);
}

// Sets an attribute that is an enumeration.
static void set_word(tc_cudnn_status *st, tc_cudnn_descriptor d, tc_cudnn_attribute attribute, tc_cudnn_type type,
                     unsigned value) {
  set_attribute(st, d, attribute, type, 1, &value);
}

static void set_descriptor(tc_cudnn_status *st, tc_cudnn_descriptor d, tc_cudnn_attribute attribute,
                           tc_cudnn_descriptor value) {
  set_attribute(st, d, attribute, TC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize_descriptor(tc_cudnn_status *st, tc_cudnn_descriptor d) {
  if (*st == 0) *st = dnn.cudnnBackendFinalize(d);
}

static int64_t get_attribute(tc_cudnn_status *st, tc_cudnn_descriptor d, tc_cudnn_attribute attribute,
                             tc_cudnn_type type, int64_t most, void *elements) {
  int64_t n = 0;
  if (*st == 0) *st = dnn.cudnnBackendGetAttribute(d, attribute, type, most, &n, elements);
  return *st == 0 ? TC_MIN(n, most) : 0;
}

// ---- a convolution ----

// Describes a dense tensor [outer, spatial axes, inner]. The library orders axes as outer, inner,
// spatial axes.
static tc_cudnn_descriptor describe_tensor(tc_cudnn_status *st, const tc_gpu_conv_facts *f, int64_t name, int64_t outer,
                                           const int64_t *axes, int64_t inner) {
  int64_t dim[TC_GPU_CONV_DIMS] = {outer, inner}, stride[TC_GPU_CONV_DIMS] = {0, 1}, step = inner;
  int n = 2 + tc_gpu_conv_axes(f, axes, 1, dim + 2);
  for (int i = n; i-- > 2;) stride[i] = step, step *= dim[i];
  stride[0] = step;
  tc_cudnn_descriptor d = create_descriptor(st, TC_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set_word(st, d, TC_CUDNN_ATTR_TENSOR_DATA_TYPE, TC_CUDNN_TYPE_DATA_TYPE,
           f->type == TC_F16    ? TC_CUDNN_DATA_HALF
           : f->type == TC_BF16 ? TC_CUDNN_DATA_BFLOAT16
                                : TC_CUDNN_DATA_FLOAT);
  set_attribute(st, d, TC_CUDNN_ATTR_TENSOR_DIMENSIONS, TC_CUDNN_TYPE_INT64, n, dim);
  set_attribute(st, d, TC_CUDNN_ATTR_TENSOR_STRIDES, TC_CUDNN_TYPE_INT64, n, stride);
  set_number(st, d, TC_CUDNN_ATTR_TENSOR_UNIQUE_ID, name);
  set_number(st, d, TC_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
  finalize_descriptor(st, d);
  return d;
}

static tc_cudnn_descriptor describe_convolution(tc_cudnn_status *st, const tc_gpu_conv_facts *f) {
  const struct {
    tc_cudnn_attribute attribute;
    const int64_t *from;
    int64_t absent;
  } list[] = {{TC_CUDNN_ATTR_CONVOLUTION_DILATIONS, f->dilation, 1},
              {TC_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, f->stride, 1},
              {TC_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, f->low, 0},
              {TC_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, f->high, 0}};
  int64_t value[TC_GPU_CONV_DIMS];
  tc_cudnn_descriptor d = create_descriptor(st, TC_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  set_number(st, d, TC_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, TC_MAX_OF(f->axes, 2));
  set_word(st, d, TC_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, TC_CUDNN_TYPE_DATA_TYPE, TC_CUDNN_DATA_FLOAT);
  set_word(st, d, TC_CUDNN_ATTR_CONVOLUTION_CONV_MODE, TC_CUDNN_TYPE_CONVOLUTION_MODE, TC_CUDNN_CROSS_CORRELATION);
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    int n = tc_gpu_conv_axes(f, list[i].from, list[i].absent, value);
    set_attribute(st, d, list[i].attribute, TC_CUDNN_TYPE_INT64, n, value);
  }
  finalize_descriptor(st, d);
  return d;
}

// Attributes of the operations, by direction.
static const struct {
  tc_cudnn_kind kind;
  tc_cudnn_attribute alpha, beta, convolution, image, weight, result;
} operations[] = {
#define ATTRIBUTES(word, image, weight, result) \
  TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_ALPHA, TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_BETA, \
      TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_CONV_DESC, TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_##image, \
      TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_##weight, TC_CUDNN_ATTR_OPERATION_CONVOLUTION_##word##_##result
    [TC_GPU_FORWARD] = {TC_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, ATTRIBUTES(FORWARD, X, W, Y)},
    [TC_GPU_BY_IMAGE] = {TC_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                         ATTRIBUTES(BWD_DATA, DX, W, DY)},
    [TC_GPU_BY_WEIGHT] = {TC_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          ATTRIBUTES(BWD_FILTER, X, DW, DY)},
#undef ATTRIBUTES
};

static tc_cudnn_descriptor describe_operation(tc_cudnn_status *st, const made *x) {
  static const float one = 1, zero = 0;
  const __typeof__(operations[0]) *o = &operations[x->f.direction];
  tc_cudnn_descriptor d = create_descriptor(st, o->kind);
  set_descriptor(st, d, o->convolution, x->convolution);
  set_descriptor(st, d, o->image, x->image);
  set_descriptor(st, d, o->weight, x->weight);
  set_descriptor(st, d, o->result, x->result);
  set_attribute(st, d, o->alpha, TC_CUDNN_TYPE_FLOAT, 1, &one);
  set_attribute(st, d, o->beta, TC_CUDNN_TYPE_FLOAT, 1, &zero);
  finalize_descriptor(st, d);
  return d;
}

int tc_cudnn_make(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  tc_cudnn_status st = TC_CUDNN_STATUS_SUCCESS;
  const tc_gpu_conv_facts *f = &w->conv;
  tc_cudnn_handle handle = p->library[TC_GPU_CONVOLUTIONS];
  *out = NULL;
  made *x = tc_calloc(1, sizeof *x);
  if (!x) return result_of(TC_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  x->f = *f;
  x->image = describe_tensor(&st, f, IMAGE, f->batch, f->image, f->in);
  x->weight = describe_tensor(&st, f, WEIGHT, f->out, f->taps, f->in / f->groups);
  x->result = describe_tensor(&st, f, RESULT, f->batch, f->result, f->out);
  x->convolution = describe_convolution(&st, f);
  x->operation = describe_operation(&st, x);
  x->graph = create_descriptor(&st, TC_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  // A description alone needs no handle.
  if (handle) set_attribute(&st, x->graph, TC_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, TC_CUDNN_TYPE_HANDLE, 1, &handle);
  set_descriptor(&st, x->graph, TC_CUDNN_ATTR_OPERATIONGRAPH_OPS, x->operation);
  finalize_descriptor(&st, x->graph);
  if (st != 0) return tc_cudnn_drop(x), result_of(st);
  *out = x;
  return 0;
}

// Descriptors are destroyed before those that they were made of.
void tc_cudnn_drop(void *given) {
  made *x = given;
  tc_cudnn_descriptor list[] = {x->plan, x->graph, x->operation, x->convolution, x->result, x->weight, x->image};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) destroy_descriptor(list[i]);
  tc_free(x);
}

// ---- its algorithms ----

static bool is_among(unsigned note, const unsigned *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i] == note) return true;
  return false;
}

// Returns whether every note of the engine is known and accepted. Matrix units would make TF32 of
// f32.
static bool accepts_engine(tc_cudnn_status *st, const made *x, tc_cudnn_descriptor engine) {
  static const unsigned numeric[] = {TC_CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, TC_CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
                        behaved[] = {TC_CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION,
                                     TC_CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API,
                                     TC_CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY};
  unsigned note[MOST_NOTES];
  bool fine = true;
  int64_t n =
      get_attribute(st, engine, TC_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, TC_CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, note);
  for (int64_t i = 0; i < n; i++) fine &= is_among(note[i], numeric, x->f.type == TC_F32 ? 1 : 2);
  n = get_attribute(st, engine, TC_CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, TC_CUDNN_TYPE_BEHAVIOR_NOTE, MOST_NOTES, note);
  for (int64_t i = 0; i < n; i++) fine &= is_among(note[i], behaved, 3);
  return fine && *st == 0;
}

// Reads the configuration's knobs into slots and returns their number. -1: an algorithm has no room
// for them, or for one of their values.
static int take_knobs(tc_cudnn_status *st, tc_cudnn_descriptor config, uint32_t *slot) {
  tc_cudnn_descriptor knob[MOST_KNOBS + 1] = {NULL};
  for (int i = 0; i <= MOST_KNOBS; i++) knob[i] = create_descriptor(st, TC_CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  int n = (int)get_attribute(st, config, TC_CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, TC_CUDNN_TYPE_BACKEND_DESCRIPTOR,
                             MOST_KNOBS + 1, knob);
  bool fits = n <= MOST_KNOBS;
  for (int i = 0; i < n && fits; i++) {
    unsigned kind = 0;
    int64_t value = 0;
    (void)get_attribute(st, knob[i], TC_CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, TC_CUDNN_TYPE_KNOB_TYPE, 1, &kind);
    (void)get_attribute(st, knob[i], TC_CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, TC_CUDNN_TYPE_INT64, 1, &value);
    fits = kind < 256 && value >= 0 && value <= SLOT_MOST;
    slot[i] = kind << SLOT_SHIFT | (uint32_t)value;
  }
  for (int i = 0; i <= MOST_KNOBS; i++) destroy_descriptor(knob[i]);
  return fits ? n : -1;
}

// Makes an algorithm of the configuration; false: it is not accepted.
static bool take_config(tc_cudnn_status *st, const made *x, tc_cudnn_descriptor config, tc_gpu_algorithm *out) {
  uint32_t slot[SLOTS] = {0};
  int64_t number = 0;
  tc_cudnn_descriptor engine = create_descriptor(st, TC_CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  (void)get_attribute(st, config, TC_CUDNN_ATTR_ENGINECFG_ENGINE, TC_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
  (void)get_attribute(st, engine, TC_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, TC_CUDNN_TYPE_INT64, 1, &number);
  bool taken = *st == 0 && accepts_engine(st, x, engine) && number >= 0 && number <= SLOT_MOST;
  int n = taken ? take_knobs(st, config, slot + 1) : -1;
  destroy_descriptor(engine);
  if (*st != 0 || n < 0) return false;
  slot[0] = (uint32_t)n << SLOT_SHIFT | (uint32_t)number;
  *out = (tc_gpu_algorithm){.workspace_bytes = 0};  // the plan says it
  memcpy(out->data, slot, sizeof out->data);
  return true;
}

// Returns whether a status is of the class "not supported", which has a thousand numbers: then
// there are no algorithms.
static bool is_unsupported(tc_cudnn_status st) {
  return st / 1000 == TC_CUDNN_STATUS_NOT_SUPPORTED / 1000;
}

int tc_cudnn_find(tc_gpu_port *p, void *given, tc_gpu_algorithm *out, int most, int *n) {
  made *x = given;
  tc_cudnn_descriptor config[MOST_FOUND] = {NULL};
  tc_cudnn_status st = TC_CUDNN_STATUS_SUCCESS;
  (void)p;
  *n = 0;
  tc_cudnn_descriptor heuristic = create_descriptor(&st, TC_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor(&st, heuristic, TC_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, x->graph);
  set_word(&st, heuristic, TC_CUDNN_ATTR_ENGINEHEUR_MODE, TC_CUDNN_TYPE_HEUR_MODE, TC_CUDNN_HEUR_MODE_A);
  finalize_descriptor(&st, heuristic);
  for (int i = 0; i < MOST_FOUND; i++) config[i] = create_descriptor(&st, TC_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  int64_t found = get_attribute(&st, heuristic, TC_CUDNN_ATTR_ENGINEHEUR_RESULTS, TC_CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                MOST_FOUND, config);
  for (int64_t i = 0; i < found && *n < most && st == 0; i++) *n += take_config(&st, x, config[i], &out[*n]);
  for (int i = 0; i < MOST_FOUND; i++) destroy_descriptor(config[i]);
  destroy_descriptor(heuristic);
  return is_unsupported(st) ? 0 : result_of(st);
}

// Makes a configuration of the engine and its knobs. The caller destroys *config, whatever the
// status, after knob[..].
static void make_config(tc_cudnn_status *st, const made *x, const uint32_t *slot, tc_cudnn_descriptor engine,
                        tc_cudnn_descriptor *knob, tc_cudnn_descriptor *config) {
  int n = (int)(slot[0] >> SLOT_SHIFT);
  set_descriptor(st, engine, TC_CUDNN_ATTR_ENGINE_OPERATION_GRAPH, x->graph);
  set_number(st, engine, TC_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, slot[0] & SLOT_MOST);
  finalize_descriptor(st, engine);
  if (*st == 0 && (n > MOST_KNOBS || !accepts_engine(st, x, engine)) && *st == 0) *st = TC_CUDNN_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < n && *st == 0; i++) {
    knob[i] = create_descriptor(st, TC_CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    set_word(st, knob[i], TC_CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, TC_CUDNN_TYPE_KNOB_TYPE, slot[1 + i] >> SLOT_SHIFT);
    set_number(st, knob[i], TC_CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, slot[1 + i] & SLOT_MOST);
    finalize_descriptor(st, knob[i]);
  }
  *config = create_descriptor(st, TC_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  set_descriptor(st, *config, TC_CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (n > 0)
    set_attribute(st, *config, TC_CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, TC_CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knob);
  finalize_descriptor(st, *config);
}

int tc_cudnn_check(tc_gpu_port *p, void *given, tc_gpu_algorithm *a) {
  made *x = given;
  uint32_t slot[SLOTS];
  tc_cudnn_handle handle = p->library[TC_GPU_CONVOLUTIONS];
  tc_cudnn_status st = TC_CUDNN_STATUS_SUCCESS;
  tc_cudnn_descriptor knob[MOST_KNOBS] = {NULL}, config = NULL,
                      engine = create_descriptor(&st, TC_CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t workspace = 0;
  memcpy(slot, a->data, sizeof slot);
  make_config(&st, x, slot, engine, knob, &config);
  x->plan = create_descriptor(&st, TC_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_attribute(&st, x->plan, TC_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, TC_CUDNN_TYPE_HANDLE, 1, &handle);
  set_descriptor(&st, x->plan, TC_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  finalize_descriptor(&st, x->plan);
  (void)get_attribute(&st, x->plan, TC_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, TC_CUDNN_TYPE_INT64, 1, &workspace);
  if (st == 0 && (workspace < 0 || workspace > (int64_t)TC_GPU_CONV_WORKSPACE)) st = TC_CUDNN_STATUS_NOT_SUPPORTED;
  destroy_descriptor(config);
  for (int i = 0; i < MOST_KNOBS; i++) destroy_descriptor(knob[i]);
  destroy_descriptor(engine);
  a->workspace_bytes = (uint64_t)TC_MAX_OF(workspace, 0);
  return result_of(st);
}

int tc_cudnn_run(tc_gpu_port *p, const tc_gpu_request *r) {
  made *x = r->made;
  static const int64_t name[][3] = {[TC_GPU_FORWARD] = {IMAGE, WEIGHT, RESULT},
                                    [TC_GPU_BY_IMAGE] = {RESULT, WEIGHT, IMAGE},
                                    [TC_GPU_BY_WEIGHT] = {IMAGE, RESULT, WEIGHT}};
  const void *at[] = {r->left, r->right, r->result};
  tc_cudnn_status st = TC_CUDNN_STATUS_SUCCESS;
  tc_cudnn_descriptor pack = create_descriptor(&st, TC_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_attribute(&st, pack, TC_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, TC_CUDNN_TYPE_INT64, 3, name[x->f.direction]);
  set_attribute(&st, pack, TC_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, TC_CUDNN_TYPE_VOID_PTR, 3, at);
  set_attribute(&st, pack, TC_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, TC_CUDNN_TYPE_VOID_PTR, 1, &r->workspace);
  finalize_descriptor(&st, pack);
  if (st == 0) st = dnn.cudnnBackendExecute(p->library[TC_GPU_CONVOLUTIONS], x->plan, pack);
  destroy_descriptor(pack);
  return result_of(st);
}
