// A simulated cuDNN over libsim-cuda: of its graph API what describes one convolution, names its
// engines and runs one (conv.h).
//
// Every attribute is a row of a table: its kind of descriptor, its type, how many elements. What is
// in no row, of another type or number, set after the end, read or used before it is a mistake of
// the caller's, told and counted as those in kernels are. A descriptor has copies of what it was
// made of, so that those may go before it.
// Engines differ in what they ask for and in what is said of them; some must be passed over
// (engines[]).
// Its results are of the device of the handle; what is finalized is of the host.
#include "tests/sim/cudnn_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/conv.h"
#include "tests/sim/cuda_face.h"

enum { MOST_ELEMENTS = 8, MOST_ATTRIBUTES = 10, MOST_DIMS = 5, MOST_KNOBS = 2, ALIGNMENT = 16 };

struct cudnnContext {
  sim_object object;
  cudaStream_t stream;
  bool streamed;  // it was told
};

// ---- engines ----

typedef struct engine {
  unsigned note[2];  // numerical; the number behind the last one is NO_NOTE
  sim_conv_fault fault;
  int n_knobs;
  bool grouped;  // does groups, too
  bool refuses;  // to be a plan
  uint64_t workspace;  // bytes; 1: of the size of the result
} engine;

enum { NO_NOTE = 99, UNHEARD_OF = 77, OF_RESULT = 1 };
static const engine engines[] = {
    {.note = {NO_NOTE}, .n_knobs = 2, .grouped = true},
    {.note = {CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, NO_NOTE}, .n_knobs = 1, .workspace = OF_RESULT},
    {.note = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, NO_NOTE}, .fault = SIM_CONV_OTHER_BITS},
    {.note = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, NO_NOTE}, .fault = SIM_CONV_NARROW},
    {.note = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}, .fault = SIM_CONV_NARROW},
    {.note = {NO_NOTE}, .workspace = (uint64_t)1 << 31},
    {.note = {NO_NOTE}, .refuses = true},
    {.note = {UNHEARD_OF, NO_NOTE}, .fault = SIM_CONV_OTHER_BITS},
};
enum { N_ENGINES = sizeof engines / sizeof *engines };

// What heuristics name, best first: an engine with values for its knobs.
static const struct {
  int engine;
  int64_t knob[MOST_KNOBS];
} configurations[] = {{0, {5, 1}}, {0, {2, 0}}, {1, {3, 0}}, {2, {0, 0}}, {3, {0, 0}},
                      {4, {0, 0}}, {5, {0, 0}}, {6, {0, 0}}, {7, {0, 0}}};
enum { N_CONFIGURATIONS = sizeof configurations / sizeof *configurations, MOST_KNOB_VALUE = 7 };

static const unsigned knob_type[MOST_KNOBS] = {2, 14};

static int n_notes(const engine *e) {
  int n = 0;
  while (n < 2 && e->note[n] != NO_NOTE) n++;
  return n;
}

// ---- attributes ----

typedef enum presence { OPTIONAL, REQUIRED, READ_ONLY } presence;
static const struct attribute {
  unsigned kind, name, type;
  int least, most;
  presence presence;
} attributes[] = {
#define ROW(kind, name, type, least, most, presence) \
  {CUDNN_BACKEND_##kind##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, least, most, presence},
#define OPERATION(kind, word, image, weight, result) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_CONV_DESC, BACKEND_DESCRIPTOR, 1, 1, REQUIRED) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_##image, BACKEND_DESCRIPTOR, 1, 1, REQUIRED) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_##weight, BACKEND_DESCRIPTOR, 1, 1, REQUIRED) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_##result, BACKEND_DESCRIPTOR, 1, 1, REQUIRED) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_ALPHA, FLOAT, 1, 1, REQUIRED) \
  ROW(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##word##_BETA, FLOAT, 1, 1, REQUIRED)
    ROW(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1, REQUIRED) ROW(TENSOR, TENSOR_DIMENSIONS, INT64, 4, MOST_DIMS,
                                                                 REQUIRED)
        ROW(TENSOR, TENSOR_STRIDES, INT64, 4, MOST_DIMS, REQUIRED) ROW(
            TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1, REQUIRED) ROW(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1, REQUIRED)
            ROW(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1, REQUIRED) ROW(
                CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1,
                REQUIRED) ROW(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1,
                              REQUIRED) ROW(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, 3, REQUIRED)
                ROW(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, 3, REQUIRED) ROW(
                    CONVOLUTION, CONVOLUTION_PRE_PADDINGS,
                    INT64, 2, 3, REQUIRED) ROW(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, 3, REQUIRED)
                    OPERATION(FORWARD, FORWARD, X, W, Y) OPERATION(BACKWARD_DATA, BWD_DATA, DX, W, DY) OPERATION(
                        BACKWARD_FILTER, BWD_FILTER, X,
                        DW, DY) ROW(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, 1, REQUIRED)
                        ROW(OPERATIONGRAPH, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1,
                            1, REQUIRED) ROW(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1,
                                             REQUIRED) ROW(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1, REQUIRED)
                            ROW(ENGINEHEUR, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 0, 0,
                                READ_ONLY) ROW(ENGINE, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, 1, REQUIRED)
                                ROW(ENGINE, ENGINE_GLOBAL_INDEX, INT64, 1, 1, REQUIRED) ROW(
                                    ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, 0, 0, READ_ONLY)
                                    ROW(ENGINE, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, 0, 0, READ_ONLY) ROW(
                                        KNOB_CHOICE, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, 1,
                                        REQUIRED) ROW(KNOB_CHOICE, KNOB_CHOICE_KNOB_VALUE, INT64, 1, 1, REQUIRED)
                                        ROW(ENGINECFG, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, 1, REQUIRED) ROW(
                                            ENGINECFG, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 1, MOST_KNOBS,
                                            OPTIONAL) ROW(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, 1, REQUIRED)
                                            ROW(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, 1,
                                                REQUIRED) ROW(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 0,
                                                              0, READ_ONLY)
                                                ROW(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 3, 3, REQUIRED) ROW(
                                                    VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, 3, REQUIRED)
                                                    ROW(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1, REQUIRED)
#undef ROW
#undef OPERATION
};
enum { N_ATTRIBUTES = sizeof attributes / sizeof *attributes };

// A mistake of the caller's, of the function that is named.
#define MISTAKE(status, ...) (sim_fault(__LINE__, __VA_ARGS__), (cudnnStatus_t)(status))

// An attribute that was set: so many elements, each in eight bytes.
typedef struct value {
  const struct attribute *of;
  int n;
  uint64_t element[MOST_ELEMENTS];
} value;

// What a finalized operation says; then a graph, an engine and so on of it.
typedef struct problem {
  sim_conv conv;
  int64_t name[3];  // of image, weight and result
  sim_object *handle;
} problem;

typedef struct descriptor {
  sim_object object;
  unsigned kind;
  bool final;
  value value[MOST_ATTRIBUTES];
  int n_values;
  problem of;
  int engine, n_knobs;
  int64_t knob[MOST_KNOBS];
} descriptor;

// ---- results ----

// The driver's errors, and those that a test asks for: those are numbers of cuDNN's.
static cudnnStatus_t status_of(sim_error error) {
  return error == SIM_OK || (unsigned)error >= CUDNN_STATUS_NOT_INITIALIZED ? (cudnnStatus_t)error
                                                                            : CUDNN_STATUS_EXECUTION_FAILED;
}

#define DNN_ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return status_of(guard.error)

#define TRY(call) \
  do { \
    cudnnStatus_t tried = (call); \
    if (tried != CUDNN_STATUS_SUCCESS) return tried; \
  } while (0)

// TC_SIM_CUDNN: version, and behind a comma the CUDA that it is for.
static void versions(int *version, int *cuda) {
  const char *text = getenv("TC_SIM_CUDNN");
  int major = 9, minor = 10, patch = 2;
  *cuda = 13;
  if (text) sscanf(text, "%d.%d.%d,%d", &major, &minor, &patch, cuda);
  *version = major * (major < 9 ? 1000 : 10000) + minor * 100 + patch;
}

size_t cudnnGetVersion(void) {
  int version, cuda;
  versions(&version, &cuda);
  return (size_t)version;
}

size_t cudnnGetCudartVersion(void) {
  int version, cuda;
  versions(&version, &cuda);
  return (size_t)cuda * 1000;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define X(name, number) \
  case number: return #name;
    X(CUDNN_STATUS_SUCCESS, CUDNN_STATUS_SUCCESS)
    X(CUDNN_STATUS_NOT_INITIALIZED, CUDNN_STATUS_NOT_INITIALIZED)
    X(CUDNN_STATUS_BAD_PARAM, CUDNN_STATUS_BAD_PARAM)
    X(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER)
    X(CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED)
    X(CUDNN_STATUS_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR)
    X(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
    X(CUDNN_STATUS_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED)
#undef X
    default: return "CUDNN_STATUS_UNKNOWN";
  }
}

// ---- handles ----

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  DNN_ENTER(SIM_USUAL);
  *handle = sim_object_new(SIM_LIBRARY, sim_here(), sizeof **handle);
  return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  DNN_ENTER(SIM_USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(handle, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "cudnnDestroy: no handle");
  sim_object_end(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  DNN_ENTER(SIM_USUAL);
  if (!sim_alive(handle, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream: no handle");
  if (!sim_library_stream(stream)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream: no stream of this device");
  handle->stream = stream, handle->streamed = true;
  return CUDNN_STATUS_SUCCESS;
}

// ---- descriptors ----

static bool is_known(unsigned kind) {
  for (int i = 0; i < N_ATTRIBUTES; i++)
    if (attributes[i].kind == kind) return true;
  return false;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *out) {
  DNN_ENTER(0);
  if (!is_known(kind)) return MISTAKE(CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendCreateDescriptor: no kind %u", kind);
  descriptor *d = sim_object_new(SIM_LIBRARY, NULL, sizeof *d);
  if (!d) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  d->kind = kind;
  *out = d;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  DNN_ENTER(SIM_AFTER_FAULT);
  if (!sim_alive(d, SIM_LIBRARY))
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "cudnnBackendDestroyDescriptor: no descriptor");
  sim_object_end(d);
  return CUDNN_STATUS_SUCCESS;
}

// The attribute of this descriptor, with the type that is said of it; NULL: a mistake was told.
static const struct attribute *attribute_of(const char *function, const descriptor *d, unsigned name, unsigned type) {
  const struct attribute *found = NULL;
  for (int i = 0; i < N_ATTRIBUTES && !found; i++)
    if (attributes[i].kind == d->kind && attributes[i].name == name) found = &attributes[i];
  if (!found)
    sim_fault(__LINE__ + name, "%s: descriptors of kind %u have no attribute %u", function, d->kind, name);
  else if (found->type != type)
    sim_fault(__LINE__ + name, "%s: attribute %u is of type %u, not %u", function, name, found->type, type);
  return found && found->type == type ? found : NULL;
}

static size_t element_bytes(unsigned type) {
  return type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR ||
                 type == CUDNN_TYPE_BACKEND_DESCRIPTOR
             ? 8
             : 4;
}

static const value *value_of(const descriptor *d, unsigned name) {
  for (int i = 0; i < d->n_values; i++)
    if (d->value[i].of->name == name) return &d->value[i];
  return NULL;
}

static int64_t number_of(const descriptor *d, unsigned name) {
  return (int64_t)value_of(d, name)->element[0];
}

static const descriptor *descriptor_of(const descriptor *d, unsigned name) {
  return (const descriptor *)(uintptr_t)value_of(d, name)->element[0];
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t given, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *elements) {
  DNN_ENTER(0);
  descriptor *d = given;
  if (!sim_alive(d, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  const struct attribute *a = attribute_of(__func__, d, name, type);
  if (!a) return CUDNN_STATUS_BAD_PARAM;
  if (d->final) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: attribute %u of what is finalized", __func__, name);
  if (a->presence == READ_ONLY)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: attribute %u can be read alone", __func__, name);
  if (n < a->least || n > a->most || !elements)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: %d elements for attribute %u", __func__, (int)n, name);
  value *v = (value *)value_of(d, name);
  if (!v) v = &d->value[d->n_values++];
  *v = (value){.of = a, .n = (int)n};
  for (int i = 0; i < n; i++)
    memcpy(&v->element[i], (const char *)elements + (size_t)i * element_bytes(type), element_bytes(type));
  for (int i = 0; i < n && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; i++) {
    const descriptor *in = (const descriptor *)(uintptr_t)v->element[i];
    if (!sim_alive(in, SIM_LIBRARY) || !in->final)
      return MISTAKE(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "%s: what attribute %u is set to is not finalized", __func__,
                     name);
  }
  return CUDNN_STATUS_SUCCESS;
}

// ---- what is finalized ----

static cudnnStatus_t end_tensor(const descriptor *d) {
  const value *dim = value_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS), *stride = value_of(d, CUDNN_ATTR_TENSOR_STRIDES);
  int64_t type = number_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE), alignment = number_of(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16)
    return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  if (dim->n != stride->n)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a tensor of %d extents and %d strides", dim->n, stride->n);
  for (int i = 0; i < dim->n; i++)
    if ((int64_t)dim->element[i] < 1 || (int64_t)stride->element[i] < 1)
      return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a tensor with an extent or a stride below 1");
  if (alignment < (type == CUDNN_DATA_FLOAT ? 4 : 2) || (alignment & (alignment - 1)))
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a tensor aligned to %d bytes", (int)alignment);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t end_convolution(const descriptor *d) {
  static const unsigned lists[] = {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                                   CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS};
  int64_t axes = number_of(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  for (int i = 0; i < 4; i++)
    if (value_of(d, lists[i])->n != axes)
      return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a convolution of %d axes with %d values", (int)axes,
                     value_of(d, lists[i])->n);
  if (number_of(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  return number_of(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION ? CUDNN_STATUS_SUCCESS
                                                                                   : CUDNN_STATUS_NOT_SUPPORTED;
}

// Extents of the axes behind outer and inner ones, as of three axes. False where memory is not
// dense with what is inner last.
static bool axes_of(const descriptor *tensor, int64_t *outer, int64_t *inner, int64_t *axes) {
  const value *dim = value_of(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS),
              *stride = value_of(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  int n = dim->n - 2;
  int64_t step = (int64_t)dim->element[1];
  bool dense = stride->element[1] == 1;
  *outer = (int64_t)dim->element[0], *inner = step;
  for (int i = 0; i < SIM_CONV_AXES; i++) axes[i] = 1;
  for (int i = n; i-- > 0;) {
    axes[SIM_CONV_AXES - n + i] = (int64_t)dim->element[2 + i];
    dense &= (int64_t)stride->element[2 + i] == step;
    step *= (int64_t)dim->element[2 + i];
  }
  return dense && (int64_t)stride->element[0] == step;
}

static void values_of(const descriptor *convolution, unsigned name, int64_t absent, int64_t *out) {
  const value *v = value_of(convolution, name);
  for (int i = 0; i < SIM_CONV_AXES; i++) out[i] = absent;
  for (int i = 0; i < v->n; i++) out[SIM_CONV_AXES - v->n + i] = (int64_t)v->element[i];
}

// Names of an operation's attributes follow each other: alpha, beta, the convolution, and three
// tensors in an order of the operation's.
static cudnnStatus_t end_operation(descriptor *d) {
  static const unsigned first[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA};
  static const unsigned tensors[][3] = {
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY}};
  sim_conv c = {.direction = d->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? SIM_CONV_FORWARD
                             : d->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                                 ? SIM_CONV_BY_IMAGE
                                 : SIM_CONV_BY_WEIGHT};
  const descriptor *t[3], *convolution = descriptor_of(d, first[c.direction] + 2);
  float alpha, beta;
  int64_t high[SIM_CONV_AXES], weight_in, result_batch, result_out;
  memcpy(&alpha, &value_of(d, first[c.direction])->element[0], 4);
  memcpy(&beta, &value_of(d, first[c.direction] + 1)->element[0], 4);
  if (alpha != 1 || beta != 0) return CUDNN_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < 3; i++) {
    t[i] = descriptor_of(d, tensors[c.direction][i]);
    d->of.name[i] = number_of(t[i], CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (number_of(t[i], CUDNN_ATTR_TENSOR_DATA_TYPE) != number_of(t[0], CUDNN_ATTR_TENSOR_DATA_TYPE))
      return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    for (int k = 0; k < i; k++)
      if (d->of.name[k] == d->of.name[i]) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "two tensors of one name");
  }
  int64_t type = number_of(t[0], CUDNN_ATTR_TENSOR_DATA_TYPE);
  c.type = type == CUDNN_DATA_FLOAT ? SIM_F32 : type == CUDNN_DATA_HALF ? SIM_F16 : SIM_BF16;
  bool dense = axes_of(t[0], &c.batch, &c.in, c.image) & axes_of(t[1], &c.out, &weight_in, c.taps) &
               axes_of(t[2], &result_batch, &result_out, c.result);
  values_of(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, c.dilation);
  values_of(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, c.stride);
  values_of(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, c.low);
  values_of(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, high);
  bool fits =
      result_batch == c.batch && result_out == c.out && c.in % weight_in == 0 && c.out % (c.in / weight_in) == 0;
  for (int i = 0; i < SIM_CONV_AXES && fits; i++)
    fits = c.result[i] == (c.image[i] + c.low[i] + high[i] - c.dilation[i] * (c.taps[i] - 1) - 1) / c.stride[i] + 1;
  if (!fits) return MISTAKE(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a convolution of tensors whose extents do not fit");
  if (!dense) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  c.groups = c.in / weight_in;
  d->of.conv = c;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t end_graph(descriptor *d) {
  sim_object *handle = (sim_object *)(uintptr_t)number_of(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  if (!sim_alive(handle, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a graph without a handle");
  d->of = descriptor_of(d, CUDNN_ATTR_OPERATIONGRAPH_OPS)->of;
  d->of.handle = handle;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t end_engine(descriptor *d) {
  int64_t index = number_of(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  d->of = descriptor_of(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->of;
  if (index < 0 || index >= N_ENGINES) return CUDNN_STATUS_NOT_SUPPORTED;
  d->engine = (int)index;
  return d->of.conv.groups == 1 || engines[index].grouped ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

static cudnnStatus_t end_config(descriptor *d) {
  const descriptor *e = descriptor_of(d, CUDNN_ATTR_ENGINECFG_ENGINE);
  const value *knobs = value_of(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  d->of = e->of, d->engine = e->engine, d->n_knobs = engines[e->engine].n_knobs;
  for (int i = 0; knobs && i < knobs->n; i++) {
    const descriptor *k = (const descriptor *)(uintptr_t)knobs->element[i];
    int64_t type = number_of(k, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE), v = number_of(k, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    int which = 0;
    while (which < d->n_knobs && knob_type[which] != type) which++;
    if (which == d->n_knobs || v < 0 || v > MOST_KNOB_VALUE) return CUDNN_STATUS_BAD_PARAM;
    d->knob[which] = v;
  }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t end_plan(descriptor *d) {
  const descriptor *config = descriptor_of(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const engine *e = &engines[config->engine];
  sim_conv *c = &d->of.conv;
  d->of = config->of, d->engine = config->engine;
  if ((sim_object *)(uintptr_t)number_of(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != d->of.handle)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "a plan of another handle than its graph");
  if (e->refuses) return CUDNN_STATUS_NOT_SUPPORTED;
  c->fault = c->type == SIM_F32 || e->fault == SIM_CONV_OTHER_BITS ? e->fault : SIM_CONV_RIGHT;
  int64_t results = c->batch * c->out * c->result[0] * c->result[1] * c->result[2];
  c->workspace_bytes = e->workspace == OF_RESULT ? (uint64_t)results * 4 + 100 : e->workspace;
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish(descriptor *d) {
  switch (d->kind) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return end_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return end_convolution(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return end_operation(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return end_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      d->of = descriptor_of(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->of;
      return number_of(d, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A ? CUDNN_STATUS_SUCCESS
                                                                           : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return end_engine(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return end_config(d);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return end_plan(d);
    default: return CUDNN_STATUS_SUCCESS;
  }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given) {
  DNN_ENTER(0);
  descriptor *d = given;
  if (!sim_alive(d, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (d->final) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: for the second time", __func__);
  for (int i = 0; i < N_ATTRIBUTES; i++) {
    const struct attribute *a = &attributes[i];
    if (a->kind == d->kind && a->presence == REQUIRED && !value_of(d, a->name))
      return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: attribute %u was not set", __func__, a->name);
  }
  cudnnStatus_t status = finish(d);
  d->final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

// ---- what can be read ----

// The caller's descriptor becomes one of what is read.
static cudnnStatus_t become(descriptor *out, unsigned kind, const descriptor *from) {
  if (!sim_alive(out, SIM_LIBRARY) || out->kind != kind || out->final || out->n_values)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "cudnnBackendGetAttribute: into what is no fresh descriptor of kind %u",
                   kind);
  out->of = from->of, out->engine = from->engine, out->final = true;
  return CUDNN_STATUS_SUCCESS;
}

static void add_number(descriptor *d, unsigned name, int64_t number) {
  value *v = &d->value[d->n_values++];
  *v = (value){.n = 1, .element = {(uint64_t)number}};
  for (int i = 0; i < N_ATTRIBUTES; i++)
    if (attributes[i].kind == d->kind && attributes[i].name == name) v->of = &attributes[i];
}

// Configurations that do this convolution, from the one that TC_SIM_ENGINE names on.
static cudnnStatus_t get_results(const descriptor *d, int64_t most, int64_t *n, void *const *out) {
  const char *first = getenv("TC_SIM_ENGINE");
  for (int at = 0; at < N_CONFIGURATIONS; at++) {
    int i = (at + (first ? atoi(first) : 0)) % N_CONFIGURATIONS, e = configurations[i].engine;
    if (d->of.conv.groups > 1 && !engines[e].grouped) continue;
    if (*n < most) {
      descriptor *config = out[*n];
      TRY(become(config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, d));
      config->engine = e, config->n_knobs = engines[e].n_knobs;
      memcpy(config->knob, configurations[i].knob, sizeof config->knob);
    }
    ++*n;
  }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_knobs(const descriptor *d, int64_t most, int64_t *n, void *const *out) {
  for (*n = 0; *n < d->n_knobs; ++*n) {
    if (*n >= most) continue;
    TRY(become(out[*n], CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, d));
    add_number(out[*n], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, knob_type[*n]);
    add_number(out[*n], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, d->knob[*n]);
  }
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_engine(const descriptor *d, int64_t most, int64_t *n, void *const *out) {
  *n = 1;
  if (most < 1) return CUDNN_STATUS_SUCCESS;
  TRY(become(out[0], CUDNN_BACKEND_ENGINE_DESCRIPTOR, d));
  add_number(out[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX, d->engine);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const given, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *elements) {
  DNN_ENTER(0);
  const descriptor *d = given;
  if (!sim_alive(d, SIM_LIBRARY)) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: no descriptor", __func__);
  if (!attribute_of(__func__, d, name, type)) return CUDNN_STATUS_BAD_PARAM;
  if (!d->final)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "%s: attribute %u of what is not finalized", __func__, name);
  if (most > 0 && !elements)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "%s: no room for attribute %u", __func__, name);
  *n = 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return get_results(d, most, n, elements);
    case CUDNN_ATTR_ENGINECFG_ENGINE: return get_engine(d, most, n, elements);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: return get_knobs(d, most, n, elements);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE: return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *n = n_notes(&engines[d->engine]);
      for (int i = 0; i < *n && i < most; i++) memcpy((char *)elements + 4 * i, &engines[d->engine].note[i], 4);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *n = 1;
      if (most > 0) memcpy(elements, &d->of.conv.workspace_bytes, 8);
      return CUDNN_STATUS_SUCCESS;
    default: break;
  }
  const value *v = value_of(d, name);
  *n = v ? v->n : 0;
  for (int i = 0; i < *n && i < most; i++)
    memcpy((char *)elements + (size_t)i * element_bytes(type), &v->element[i], element_bytes(type));
  return CUDNN_STATUS_SUCCESS;
}

// ---- doing it ----

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t given_plan,
                                  cudnnBackendDescriptor_t given_pack) {
  DNN_ENTER(SIM_USUAL);
  const descriptor *plan = given_plan, *pack = given_pack;
  if (!sim_alive(handle, SIM_LIBRARY) || handle->object.device != sim_here())
    return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: no handle of this device", __func__);
  if (!sim_alive(plan, SIM_LIBRARY) || plan->kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || !plan->final)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "%s: no plan that is finalized", __func__);
  if (!sim_alive(pack, SIM_LIBRARY) || pack->kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !pack->final)
    return MISTAKE(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "%s: no pack of addresses that is finalized", __func__);
  sim_stream *s = sim_library_stream(handle->stream);
  if (!handle->streamed || !s) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: in no stream of this device", __func__);
  sim_conv c = plan->of.conv;
  c.function = __func__;
  uintptr_t at[3] = {0};
  const value *names = value_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
              *pointers = value_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++)
      if ((int64_t)names->element[k] == plan->of.name[i]) at[i] = (uintptr_t)pointers->element[k];
  if (!at[0] || !at[1] || !at[2]) return MISTAKE(CUDNN_STATUS_BAD_PARAM, "%s: a tensor has no address", __func__);
  if ((at[0] | at[1] | at[2]) % ALIGNMENT) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  c.image_at = at[0], c.weight_at = at[1], c.result_at = at[2];
  c.workspace = c.workspace_bytes ? (uintptr_t)number_of(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE) : 0;
  if (c.workspace % SIM_WORKSPACE_ALIGNMENT || (c.workspace_bytes && !c.workspace))
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  return status_of(sim_conv_enqueue(s, &c));
}
