// A simulated MIOpen over libsim-hip: of its immediate mode what describes one convolution, names
// its solutions, compiles one and runs it (conv.h).
//
// Descriptors that are no such, unfinished or do not fit, a solution that the library did not name
// for the problem, or that runs without having been compiled, a workspace of another size, and
// settings by which results would differ (other bits each time, halves in another type, TF32) are
// mistakes of the caller's, told and counted as those in kernels are.
// Solutions differ in their kind, what they ask for and what is wrong with them; some must be
// passed over (solutions[]).
#include "tests/sim/miopen_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/conv.h"

enum {
  USUAL = SIM_NEEDS_INIT | SIM_NEEDS_CONTEXT,
  MOST_DIMS = 2 + SIM_CONV_AXES,
  MATH_TYPE = 3,
  MATH_DEFAULT = 0,
  MATH_PEDANTIC = 1,
  ALIGNMENT = 16
};

typedef struct compiled {
  struct compiled *next;
  uint64_t problem;
} compiled;

struct miopenHandle {
  sim_object object;
  miopenAcceleratorQueue_t stream;
  compiled *compiled;
};

struct miopenTensorDescriptor {
  sim_object object;
  bool set;
  miopenDataType_t type;
  int n, dim[MOST_DIMS];
};

struct miopenConvolutionDescriptor {
  sim_object object;
  int axes, padding[SIM_CONV_AXES], stride[SIM_CONV_AXES], dilation[SIM_CONV_AXES], groups;
  int half_detour, deterministic, math;
};

// A mistake of the caller's, of the function that is named.
#define MISTAKE(status, ...) (sim_fault(__LINE__, __VA_ARGS__), (miopenStatus_t)(status))

#define TRY(call) \
  do { \
    miopenStatus_t tried = (call); \
    if (tried != miopenStatusSuccess) return tried; \
  } while (0)

// The driver's errors, and those that a test asks for: those are numbers of MIOpen's.
static miopenStatus_t status_of(sim_error error) {
  return (miopenStatus_t)error <= miopenStatusUnknownError ? (miopenStatus_t)error : miopenStatusUnknownError;
}

#define ENTER(name, needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter((name), (needs)); \
  if (guard.error != SIM_OK) return status_of(guard.error)

#define ALIVE(object) \
  if (!sim_alive(object, SIM_LIBRARY)) return MISTAKE(miopenStatusBadParm, "%s: no " #object, __func__)

// ---- solutions ----

enum { OF_RESULT = 1, FIRST_ID = 100 };
static const struct solution {
  unsigned algorithm;
  sim_conv_fault fault;
  uint64_t workspace;  // bytes; OF_RESULT: of the size of the result
  bool grouped, depthwise;  // does groups, too; a group for each channel, too
  bool refuses;  // to be compiled
  bool slow;
  bool random;  // is not named where bits must be the same
  bool lies;  // is there if TC_SIM_LIES says so, and gives other bits all the same
  bool coarse;  // rounds halves more than once by the weight
} solutions[] = {
    {miopenConvolutionAlgoWinograd, .fault = SIM_CONV_NARROW},
    {miopenConvolutionAlgoImplicitGEMM, .grouped = true},
    {miopenConvolutionAlgoDirect, .workspace = OF_RESULT, .coarse = true},
    {miopenConvolutionAlgoImplicitGEMM, .fault = SIM_CONV_OTHER_BITS, .random = true},
    {miopenConvolutionAlgoGEMM, .fault = SIM_CONV_OTHER_BITS},
    {miopenConvolutionAlgoFFT, .fault = SIM_CONV_OTHER_BITS},
    {miopenConvolutionAlgoImplicitGEMM, .workspace = (uint64_t)1 << 31},
    {miopenConvolutionAlgoImplicitGEMM, .refuses = true},
    {miopenConvolutionAlgoImplicitGEMM, .fault = SIM_CONV_OTHER_BITS, .lies = true},
    {miopenConvolutionAlgoDirect, .grouped = true, .depthwise = true, .slow = true},
};
enum { N_SOLUTIONS = sizeof solutions / sizeof *solutions };

// ---- what it says of itself ----

// TC_SIM_MIOPEN: the version.
static void version(int v[3]) {
  const char *text = getenv("TC_SIM_MIOPEN");
  v[0] = 3, v[1] = 4, v[2] = 0;
  if (text) sscanf(text, "%d.%d.%d", &v[0], &v[1], &v[2]);
}

static bool knows_math(void) {
  int v[3];
  version(v);
  return v[0] * 10000 + v[1] * 100 + v[2] > 30501;
}

miopenStatus_t miopenGetVersion(size_t *major, size_t *minor, size_t *patch) {
  int v[3];
  version(v);
  *major = (size_t)v[0], *minor = (size_t)v[1], *patch = (size_t)v[2];
  return miopenStatusSuccess;
}

const char *miopenGetErrorString(miopenStatus_t status) {
  switch (status) {
#define X(name) \
  case name: return #name;
    X(miopenStatusSuccess)
    X(miopenStatusInvalidValue)
    X(miopenStatusBadParm)
    X(miopenStatusAllocFailed)
    X(miopenStatusInternalError)
    X(miopenStatusNotImplemented)
#undef X
    default: return "miopenStatusUnknownError";
  }
}

// ---- handles ----

miopenStatus_t miopenCreateWithStream(miopenHandle_t *handle, miopenAcceleratorQueue_t stream) {
  ENTER(__func__, USUAL);
  if (!stream || !sim_library_stream(stream))
    return MISTAKE(miopenStatusBadParm, "%s: no stream of the caller's on this device", __func__);
  *handle = sim_object_new(SIM_LIBRARY, sim_here(), sizeof **handle);
  if (!*handle) return miopenStatusAllocFailed;
  (*handle)->stream = stream;
  return miopenStatusSuccess;
}

miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t stream) {
  ENTER(__func__, USUAL);
  ALIVE(handle);
  if (!stream || !sim_library_stream(stream))
    return MISTAKE(miopenStatusBadParm, "%s: no stream of the caller's on this device", __func__);
  handle->stream = stream;
  return miopenStatusSuccess;
}

miopenStatus_t miopenDestroy(miopenHandle_t handle) {
  ENTER(__func__, USUAL | SIM_AFTER_FAULT);
  ALIVE(handle);
  for (compiled *c = handle->compiled, *next; c; c = next) next = c->next, free(c);
  sim_object_end(handle);
  return miopenStatusSuccess;
}

// ---- descriptors ----

miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t *tensor) {
  ENTER(__func__, 0);
  *tensor = sim_object_new(SIM_LIBRARY, NULL, sizeof **tensor);
  return *tensor ? miopenStatusSuccess : miopenStatusAllocFailed;
}

miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensor) {
  ENTER(__func__, SIM_AFTER_FAULT);
  ALIVE(tensor);
  sim_object_end(tensor);
  return miopenStatusSuccess;
}

// The real one has other layouts, which nobody asks this one for.
miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t tensor, miopenDataType_t type,
                                                     miopenTensorLayout_t layout, const int *extents, int n) {
  ENTER(__func__, 0);
  ALIVE(tensor);
  if (layout != (n == 5 ? miopenTensorNDHWC : miopenTensorNHWC) || n < 4 || n > MOST_DIMS)
    return MISTAKE(miopenStatusBadParm, "%s: %d extents in layout %u", __func__, n, layout);
  if (type != miopenFloat && type != miopenHalf && type != miopenBFloat16)
    return MISTAKE(miopenStatusBadParm, "%s: type %u", __func__, type);
  for (int i = 0; i < n; i++)
    if (extents[i] < 1) return MISTAKE(miopenStatusBadParm, "%s: an extent of %d", __func__, extents[i]);
  tensor->set = true, tensor->type = type, tensor->n = n;
  memcpy(tensor->dim, extents, (size_t)n * sizeof *extents);
  return miopenStatusSuccess;
}

miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t *convolution) {
  ENTER(__func__, 0);
  *convolution = sim_object_new(SIM_LIBRARY, NULL, sizeof **convolution);
  return *convolution ? miopenStatusSuccess : miopenStatusAllocFailed;
}

miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t convolution) {
  ENTER(__func__, SIM_AFTER_FAULT);
  ALIVE(convolution);
  sim_object_end(convolution);
  return miopenStatusSuccess;
}

// All that was said before is forgotten.
miopenStatus_t miopenInitConvolutionNdDescriptor(miopenConvolutionDescriptor_t convolution, int axes,
                                                 const int *padding, const int *stride, const int *dilation,
                                                 miopenConvolutionMode_t mode) {
  ENTER(__func__, 0);
  ALIVE(convolution);
  if (axes < 2 || axes > SIM_CONV_AXES || mode != miopenConvolution)
    return MISTAKE(miopenStatusBadParm, "%s: %d axes in mode %u", __func__, axes, mode);
  for (int i = 0; i < axes; i++)
    if (padding[i] < 0 || stride[i] < 1 || dilation[i] < 1)
      return MISTAKE(miopenStatusBadParm, "%s: padding %d, step %d, taps %d apart", __func__, padding[i], stride[i],
                     dilation[i]);
  convolution->axes = axes, convolution->groups = 1;
  convolution->half_detour = -1, convolution->deterministic = 0, convolution->math = MATH_DEFAULT;
  memcpy(convolution->padding, padding, (size_t)axes * sizeof *padding);
  memcpy(convolution->stride, stride, (size_t)axes * sizeof *stride);
  memcpy(convolution->dilation, dilation, (size_t)axes * sizeof *dilation);
  return miopenStatusSuccess;
}

miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t convolution, int groups) {
  ENTER(__func__, 0);
  ALIVE(convolution);
  if (groups < 1) return MISTAKE(miopenStatusBadParm, "%s: %d groups", __func__, groups);
  convolution->groups = groups;
  return miopenStatusSuccess;
}

miopenStatus_t miopenSetConvolutionAttribute(miopenConvolutionDescriptor_t convolution,
                                             const miopenConvolutionAttrib_t attribute, int value) {
  ENTER(__func__, 0);
  ALIVE(convolution);
  if (attribute == MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL && value >= -1 && value <= 1)
    convolution->half_detour = value;
  else if (attribute == MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC && (value == 0 || value == 1))
    convolution->deterministic = value;
  else if (attribute == MATH_TYPE && knows_math() && (value == MATH_DEFAULT || value == MATH_PEDANTIC))
    convolution->math = value;
  else
    return MISTAKE(miopenStatusBadParm, "%s: attribute %u is not %d", __func__, attribute, value);
  return miopenStatusSuccess;
}

// ---- problems ----

// Extents of the axes behind outer and inner ones, as of three axes.
static void extents(const struct miopenTensorDescriptor *t, int64_t *outer, int64_t *inner, int64_t *axes) {
  int n = t->n - 2;
  *outer = t->dim[0], *inner = t->dim[1];
  for (int i = 0; i < SIM_CONV_AXES; i++) axes[i] = i < SIM_CONV_AXES - n ? 1 : t->dim[2 + i - (SIM_CONV_AXES - n)];
}

static void values(const int *from, int n, int64_t absent, int64_t *out) {
  for (int i = 0; i < SIM_CONV_AXES; i++) out[i] = i < SIM_CONV_AXES - n ? absent : from[i - (SIM_CONV_AXES - n)];
}

static bool fits(const sim_conv *c, int64_t weight_in, int64_t result_batch, int64_t result_out) {
  bool fit =
      result_batch == c->batch && result_out == c->out && c->in == weight_in * c->groups && c->out % c->groups == 0;
  for (int i = 0; i < SIM_CONV_AXES && fit; i++)
    fit = c->result[i] == (c->image[i] + 2 * c->low[i] - c->dilation[i] * (c->taps[i] - 1) - 1) / c->stride[i] + 1;
  return fit;
}

// What is asked of which; addresses are left out.
static miopenStatus_t problem_of(const char *function, sim_conv_direction direction, SIM_MIOPEN_PROBLEM,
                                 sim_conv *out) {
  const struct miopenTensorDescriptor *t[] = {first, second, made};
  bool there = sim_alive(handle, SIM_LIBRARY) && sim_alive(convolution, SIM_LIBRARY) && convolution->axes;
  for (int i = 0; i < 3 && there; i++) there = sim_alive(t[i], SIM_LIBRARY) && t[i]->set;
  if (!there) return MISTAKE(miopenStatusBadParm, "%s: a descriptor is none, or nothing was said of it", function);
  if (handle->object.device != sim_here())
    return MISTAKE(miopenStatusBadParm, "%s: a handle of another device", function);
  for (int i = 0; i < 3; i++)
    if (t[i]->type != made->type || t[i]->n != 2 + convolution->axes)
      return MISTAKE(miopenStatusBadParm, "%s: tensors of other types or numbers of axes", function);
  const struct miopenTensorDescriptor *image = direction == SIM_CONV_BY_IMAGE ? made : second,
                                      *weight = direction == SIM_CONV_FORWARD    ? first
                                                : direction == SIM_CONV_BY_IMAGE ? second
                                                                                 : made,
                                      *result = direction == SIM_CONV_FORWARD ? made : first;
  *out = (sim_conv){.direction = direction, .groups = convolution->groups};
  out->type = made->type == miopenFloat ? SIM_F32 : made->type == miopenHalf ? SIM_F16 : SIM_BF16;
  int64_t weight_in, result_batch, result_out;
  extents(image, &out->batch, &out->in, out->image);
  extents(weight, &out->out, &weight_in, out->taps);
  extents(result, &result_batch, &result_out, out->result);
  values(convolution->padding, convolution->axes, 0, out->low);
  values(convolution->stride, convolution->axes, 1, out->stride);
  values(convolution->dilation, convolution->axes, 1, out->dilation);
  if (fits(out, weight_in, result_batch, result_out)) return miopenStatusSuccess;
  return MISTAKE(miopenStatusBadParm, "%s: a convolution of tensors whose extents do not fit", function);
}

#define PROBLEM(function, direction, out) problem_of(function, direction, handle, first, second, convolution, made, out)

static bool names(const struct solution *s, const sim_conv *c, const struct miopenConvolutionDescriptor *convolution) {
  const char *lies = getenv("TC_SIM_LIES");
  if (s->lies && !(lies && *lies == '1')) return false;
  if (s->random && convolution->deterministic) return false;
  if (c->groups == c->in && c->groups > 1) return s->depthwise;
  return c->groups == 1 || s->grouped;
}

// Which of them it is; -1, a mistake: the library did not name it for this.
static int solution_of(const char *function, const sim_conv *c, const struct miopenConvolutionDescriptor *convolution,
                       uint64_t id) {
  if (id >= FIRST_ID && id < FIRST_ID + N_SOLUTIONS && names(&solutions[id - FIRST_ID], c, convolution))
    return (int)(id - FIRST_ID);
  sim_fault(__LINE__, "%s: solution %llu is none of this convolution", function, (unsigned long long)id);
  return -1;
}

static uint64_t workspace_of(int solution, const sim_conv *c) {
  uint64_t results = (uint64_t)(c->batch * c->out * c->result[0] * c->result[1] * c->result[2]);
  return solutions[solution].workspace == OF_RESULT ? results * 4 + 100 : solutions[solution].workspace;
}

static uint64_t name_of(const sim_conv *c, int solution) {
  const int64_t list[] = {c->type, c->direction, c->batch, c->in, c->out, c->groups, solution};
  uint64_t hash = sim_hash(list, sizeof list, 0);
  const int64_t *axes[] = {c->image, c->taps, c->result, c->stride, c->dilation, c->low};
  for (int i = 0; i < 6; i++) hash = sim_hash(axes[i], SIM_CONV_AXES * sizeof *axes[i], hash);
  return hash;
}

// ---- the functions of each direction ----

// From the one that TC_SIM_SOLUTION names on.
static miopenStatus_t get_solutions(const sim_conv *c, const struct miopenConvolutionDescriptor *convolution,
                                    size_t most, size_t *n, miopenConvSolution_t *out) {
  const char *text = getenv("TC_SIM_SOLUTION");
  *n = 0;
  for (int at = 0; at < N_SOLUTIONS && *n < most; at++) {
    int i = (at + (text ? atoi(text) : 0)) % N_SOLUTIONS;
    const struct solution *s = &solutions[i];
    if (!names(s, c, convolution)) continue;
    out[(*n)++] = (miopenConvSolution_t){s->slow ? 900 : (float)(at + 1), workspace_of(i, c), (uint64_t)(FIRST_ID + i),
                                         s->algorithm};
  }
  return miopenStatusSuccess;
}

static miopenStatus_t compile(miopenHandle_t handle, const sim_conv *c, int solution) {
  compiled *made = malloc(sizeof *made);
  if (solutions[solution].refuses || !made) return free(made), miopenStatusInternalError;
  *made = (compiled){handle->compiled, name_of(c, solution)};
  handle->compiled = made;
  return miopenStatusSuccess;
}

static bool was_compiled(const struct miopenHandle *handle, const sim_conv *c, int solution) {
  uint64_t name = name_of(c, solution);
  for (const compiled *i = handle->compiled; i; i = i->next)
    if (i->problem == name) return true;
  return false;
}

// Whether what was said of how to compute leaves nothing open.
static bool is_said(const char *function, const sim_conv *c, const struct miopenConvolutionDescriptor *convolution) {
  const char *open = NULL;
  if (!convolution->deterministic) open = "it may give other bits each time";
  if (c->type == SIM_F16 && convolution->half_detour != 0) open = "it may compute f16 in another type";
  if (c->type == SIM_F32 && knows_math() && convolution->math != MATH_PEDANTIC) open = "it may use TF32";
  if (open) sim_fault(__LINE__, "%s: %s", function, open);
  return !open;
}

// pre: addresses are there.
static miopenStatus_t run(const char *function, miopenHandle_t handle, sim_conv *c,
                          const struct miopenConvolutionDescriptor *convolution, int solution, void *workspace,
                          size_t bytes) {
  const struct solution *s = &solutions[solution];
  if (!was_compiled(handle, c, solution))
    return MISTAKE(miopenStatusUnknownError, "%s: solution %d was not compiled", function, FIRST_ID + solution);
  if (!is_said(function, c, convolution)) return miopenStatusInvalidValue;
  if (bytes != workspace_of(solution, c) || !workspace != !bytes)
    return MISTAKE(miopenStatusBadParm, "%s: a workspace of %llu bytes for %llu", function, (unsigned long long)bytes,
                   (unsigned long long)workspace_of(solution, c));
  if ((c->image_at | c->weight_at | c->result_at) % ALIGNMENT || (uintptr_t)workspace % SIM_WORKSPACE_ALIGNMENT)
    return miopenStatusBadParm;
  c->function = function, c->workspace = (uintptr_t)workspace, c->workspace_bytes = bytes, c->fault = s->fault;
  if (s->coarse && c->type != SIM_F32 && c->direction == SIM_CONV_BY_WEIGHT) c->fault = SIM_CONV_OTHER_BITS;
  return status_of(sim_conv_enqueue(sim_library_stream(handle->stream), c));
}

static void place(sim_conv *c, const void *first, const void *second, const void *made) {
  uintptr_t a = (uintptr_t)first, b = (uintptr_t)second, m = (uintptr_t)made;
  c->image_at = c->direction == SIM_CONV_BY_IMAGE ? m : b;
  c->weight_at = c->direction == SIM_CONV_FORWARD ? a : c->direction == SIM_CONV_BY_IMAGE ? b : m;
  c->result_at = c->direction == SIM_CONV_FORWARD ? m : a;
}

#define X(word, direction) \
  miopenStatus_t miopenConvolution##word##GetSolution(SIM_MIOPEN_PROBLEM, const size_t most, size_t *n, \
                                                      miopenConvSolution_t *out) { \
    ENTER(__func__, USUAL); \
    sim_conv c; \
    TRY(PROBLEM(__func__, direction, &c)); \
    return get_solutions(&c, convolution, most, n, out); \
  } \
  miopenStatus_t miopenConvolution##word##GetSolutionWorkspaceSize(SIM_MIOPEN_PROBLEM, const uint64_t solution, \
                                                                   size_t *bytes) { \
    ENTER(__func__, USUAL); \
    sim_conv c; \
    TRY(PROBLEM(__func__, direction, &c)); \
    int i = solution_of(__func__, &c, convolution, solution); \
    if (i >= 0) *bytes = workspace_of(i, &c); \
    return i >= 0 ? miopenStatusSuccess : miopenStatusBadParm; \
  } \
  miopenStatus_t miopenConvolution##word##CompileSolution(SIM_MIOPEN_PROBLEM, const uint64_t solution) { \
    ENTER(__func__, USUAL | SIM_NOT_IN_CAPTURE); \
    sim_conv c; \
    TRY(PROBLEM(__func__, direction, &c)); \
    int i = solution_of(__func__, &c, convolution, solution); \
    return i >= 0 ? compile(handle, &c, i) : miopenStatusBadParm; \
  } \
  miopenStatus_t miopenConvolution##word##Immediate( \
      miopenHandle_t handle, const miopenTensorDescriptor_t first, const void *first_at, \
      const miopenTensorDescriptor_t second, const void *second_at, const miopenConvolutionDescriptor_t convolution, \
      const miopenTensorDescriptor_t made, void *made_at, void *workspace, size_t bytes, const uint64_t solution) { \
    ENTER(__func__, USUAL); \
    sim_conv c; \
    TRY(PROBLEM(__func__, direction, &c)); \
    int i = solution_of(__func__, &c, convolution, solution); \
    if (i < 0) return miopenStatusBadParm; \
    if (!first_at || !second_at || !made_at) \
      return MISTAKE(miopenStatusBadParm, "%s: a tensor has no address", __func__); \
    place(&c, first_at, second_at, made_at); \
    return run(__func__, handle, &c, convolution, i, workspace, bytes); \
  }
SIM_MIOPEN_DIRECTIONS(X)
#undef X
