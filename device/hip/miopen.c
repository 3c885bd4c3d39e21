// Convolutions by MIOpen. TC_MIOPEN_LIBRARY names another file. See miopen.h.
#include "device/hip/miopen.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/gpu/conv.h"
#include "device/gpu/library.h"
#include "device/hip/hipblaslt.h"
#include "device/hip/library_paths.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define NEEDED 1
#define NAME "libMIOpen.so.1"  // of every version
#define OLDEST_HIP 6  // the first with graphs of calls, and with MIOpen 3
#define OLDEST_MAJOR 3
#define MATH_SINCE 30502  // 3.5.2
#define MOST_FOUND 64
#define MOST_SLOWER 10.0f  // times the first solution: slower ones, by the library's own account, are not worth timing

static struct {
#define TC_MIOPEN_ROW(symbol, result, parameters) result(*symbol) parameters;
#include "device/hip/miopen.def"
#undef TC_MIOPEN_ROW
} mi;

static const tc_library_row rows[] = {
#define TC_MIOPEN_ROW(symbol, result, parameters) TC_LIBRARY_ROW(mi, symbol, NEEDED),
#include "device/hip/miopen.def"
#undef TC_MIOPEN_ROW
};

// The function of a direction.
#define OF(f, name) \
  ((f)->direction == TC_GPU_FORWARD    ? mi.miopenConvolutionForward##name \
   : (f)->direction == TC_GPU_BY_IMAGE ? mi.miopenConvolutionBackwardData##name \
                                       : mi.miopenConvolutionBackwardWeights##name)

static int driver_major;
static void *driver;
static int version;  // 30400
static char name_text[32];

// The library's description of a convolution.
typedef struct made {
  tc_gpu_conv_facts f;
  bool fits;  // false: it cannot be described, and the fields below are absent
  // In the order of its functions: the two that are read, the one that is written.
  tc_miopen_tensor first, second, result;
  tc_miopen_convolution convolution;
} made;

// ---- the library ----

void tc_miopen_of(int hip_major, void *hip) {
  driver_major = hip_major, driver = hip;
}

static bool load_miopen(const char *path, char *why, size_t bytes) {
  static const tc_library library = {"MIOpen, AMD's library of convolutions, cannot be opened",
                                     NULL,
                                     "MIOpen " TC_STR(OLDEST_MAJOR) ".0 or newer is needed",
                                     {TC_LIBRARY_TABLE(rows, mi)}};
  char text[192];
  size_t v[3] = {0};
  void *handle = path ? tc_library_open(path, text, sizeof text) : tc_hip_library_paths_open(NAME);
  if (!handle && !path) {
    snprintf(why, bytes,
             "MIOpen, AMD's library of convolutions, is nowhere: no " NAME
             " among the loader's libraries or in /opt/rocm");
    return false;
  }
  if (!tc_library_load(&library, handle, path ? path : NAME, text, why, bytes)) return false;
  (void)mi.miopenGetVersion(&v[0], &v[1], &v[2]);
  version = (int)(v[0] * 10000 + v[1] * 100 + v[2]);
  snprintf(name_text, sizeof name_text, "MIOpen %d.%d.%d", (int)v[0], (int)v[1], (int)v[2]);
  if (v[0] < OLDEST_MAJOR) {
    snprintf(why, bytes, "%s is %s, and %d.0 or newer is needed", path ? path : NAME, name_text, OLDEST_MAJOR);
    return false;
  }
  // Its name is the same for every version of HIP, and it loads the HIP that it was linked to.
  if (tc_library_shares(handle, driver, "hipStreamSynchronize")) return true;
  snprintf(why, bytes, "%s is %s for another HIP than the driver's, which is of HIP %d", path ? path : NAME, name_text,
           driver_major);
  return false;
}

// Checks that MIOpen can write to its folder. Version 2.11 ended the process where it could not;
// nothing is known of later ones.
static bool has_place(char *why, size_t bytes) {
  const tc_options *o = tc_options_get();
  const char *place = o->miopen_files ? o->miopen_files : o->home;
  if (place && access(place, W_OK) == 0) return true;
  snprintf(why, bytes, "MIOpen keeps databases below %s, which cannot be written, and has ended processes for that",
           place ? place : "HOME");
  return false;
}

static bool open_miopen(int hip_major, char *why, size_t bytes) {
  const char *path = tc_options_get()->miopen_library;
  if (path || hip_major >= OLDEST_HIP) return has_place(why, bytes) && load_miopen(path, why, bytes);
  snprintf(why, bytes, "MIOpen of HIP %d.0 or newer is needed, and the driver is of HIP %d", OLDEST_HIP, hip_major);
  return false;
}

// The vendor's own library would not know a simulated device's memory.
static bool is_ready(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  static tc_library_once once;
  (void)p;
  if (facts->simulated && !tc_options_get()->miopen_library) {
    snprintf(why, bytes, "a simulated device has no library of convolutions but one that TC_MIOPEN_LIBRARY names");
    return false;
  }
  return tc_library_open_once(&once, open_miopen, driver_major, why, bytes);
}

static const char *name_of(const tc_gpu_port *p) {
  (void)p;
  return name_text;
}

static int result_of(tc_miopen_status status) {
  return status == TC_miopenStatusSuccess ? 0 : (int)(TC_MIOPEN_RESULTS + status);
}

// Errors of a device that is gone are reported better by the driver's next call.
tc_gpu_verdict tc_miopen_judge(int result, const char **name) {
  tc_miopen_status status = (tc_miopen_status)(result - TC_MIOPEN_RESULTS);
  *name = mi.miopenGetErrorString ? mi.miopenGetErrorString(status) : NULL;
  if (!*name) *name = "an error of MIOpen without a name";
  return status == TC_miopenStatusAllocFailed ? TC_GPU_OUT_OF_MEMORY : TC_GPU_REFUSED;
}

// MIOpen makes a handle of hipBLASLt with its own.
static int open_handle(tc_gpu_port *p) {
  tc_miopen_handle handle = NULL;
  size_t room = 0;
  int result = tc_gpu_port_free_bytes(p, &room);
  if (result == 0 && room < TC_HIPBLASLT_LEAST_ROOM) result = result_of(TC_miopenStatusAllocFailed);
  if (result == 0) result = result_of(mi.miopenCreateWithStream(&handle, p->stream[TC_GPU_WORK]));
  p->library[TC_GPU_CONVOLUTIONS] = result == 0 ? handle : NULL;
  return result;
}

void tc_miopen_close(tc_gpu_port *p) {
  if (p->library[TC_GPU_CONVOLUTIONS]) (void)mi.miopenDestroy(p->library[TC_GPU_CONVOLUTIONS]);
  p->library[TC_GPU_CONVOLUTIONS] = NULL;
}

static int set_stream(tc_gpu_port *p, void *stream) {
  return result_of(mi.miopenSetStream(p->library[TC_GPU_CONVOLUTIONS], stream));
}

// ---- a convolution ----

// Copies to int; false: a number is too large.
static bool narrow_extents(const int64_t *from, int n, int *out) {
  bool fits = true;
  for (int i = 0; i < n; i++) fits &= from[i] <= INT32_MAX, out[i] = (int)from[i];
  return fits;
}

// Returns whether padding both sides of each axis by `low` gives the same windows.
static bool is_padded_evenly(const tc_gpu_conv_facts *f) {
  bool even = true;
  for (int i = 0; i < f->axes; i++) {
    int64_t room = f->image[i] + 2 * f->low[i] - f->dilation[i] * (f->taps[i] - 1) - 1;
    even &= room >= 0 && room / f->stride[i] + 1 == f->result[i];
  }
  return even;
}

// Describes a dense tensor [outer, spatial axes, inner]. The library orders axes as outer, inner,
// spatial axes. NULL: it does not fit, or a call failed.
static tc_miopen_tensor describe_tensor(tc_miopen_status *st, made *x, int64_t outer, const int64_t *axes,
                                        int64_t inner) {
  int64_t dim[TC_GPU_CONV_DIMS] = {outer, inner};
  int lens[TC_GPU_CONV_DIMS], n = 2 + tc_gpu_conv_axes(&x->f, axes, 1, dim + 2);
  tc_miopen_type type = x->f.type == TC_F16 ? TC_miopenHalf : x->f.type == TC_BF16 ? TC_miopenBFloat16 : TC_miopenFloat;
  tc_miopen_tensor out = NULL;
  x->fits &= narrow_extents(dim, n, lens);
  if (*st == 0 && x->fits) *st = mi.miopenCreateTensorDescriptor(&out);
  if (*st == 0 && x->fits)
    *st = mi.miopenSetNdTensorDescriptorWithLayout(
        out, type, n == TC_GPU_CONV_DIMS ? TC_miopenTensorNDHWC : TC_miopenTensorNHWC, lens, n);
  return out;
}

// Sets how it computes. Versions before MATH_SINCE do without TF32.
static tc_miopen_status set_attributes(tc_miopen_convolution c) {
  tc_miopen_status st = mi.miopenSetConvolutionAttribute(c, TC_MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1);
  if (st == 0) st = mi.miopenSetConvolutionAttribute(c, TC_MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL, 0);
  if (st == 0 && version >= MATH_SINCE)
    st = mi.miopenSetConvolutionAttribute(c, TC_MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, TC_miopenMathPedantic);
  return st;
}

static tc_miopen_convolution describe_convolution(tc_miopen_status *st, made *x) {
  const tc_gpu_conv_facts *f = &x->f;
  const int64_t *const from[] = {f->low, f->stride, f->dilation};
  int64_t value[TC_GPU_CONV_DIMS];
  int said[3][TC_GPU_CONV_DIMS], n = 0;
  tc_miopen_convolution out = NULL;
  for (int i = 0; i < 3; i++) {
    n = tc_gpu_conv_axes(f, from[i], i > 0, value);
    x->fits &= narrow_extents(value, n, said[i]);
  }
  if (*st != 0 || !x->fits) return NULL;
  *st = mi.miopenCreateConvolutionDescriptor(&out);
  if (*st == 0) *st = mi.miopenInitConvolutionNdDescriptor(out, n, said[0], said[1], said[2], TC_miopenConvolution);
  if (*st == 0) *st = mi.miopenSetConvolutionGroupCount(out, (int)f->groups);  // of channels, which fit
  if (*st == 0) *st = set_attributes(out);
  return out;
}

static void drop_work(void *given) {
  made *x = given;
  tc_miopen_tensor list[] = {x->first, x->second, x->result};
  for (int i = 0; i < 3; i++)
    if (list[i]) (void)mi.miopenDestroyTensorDescriptor(list[i]);
  if (x->convolution) (void)mi.miopenDestroyConvolutionDescriptor(x->convolution);
  tc_free(x);
}

static int make_work(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  const tc_gpu_conv_facts *f = &w->conv;
  tc_miopen_status st = TC_miopenStatusSuccess;
  (void)p;
  *out = NULL;
  made *x = tc_calloc(1, sizeof *x);
  if (!x) return result_of(TC_miopenStatusAllocFailed);
  x->f = *f, x->fits = is_padded_evenly(f);
  tc_miopen_tensor image = describe_tensor(&st, x, f->batch, f->image, f->in),
                   weight = describe_tensor(&st, x, f->out, f->taps, f->in / f->groups),
                   result = describe_tensor(&st, x, f->batch, f->result, f->out);
  x->first = f->direction == TC_GPU_FORWARD ? weight : result;
  x->second = f->direction == TC_GPU_BY_IMAGE ? weight : image;
  x->result = f->direction == TC_GPU_FORWARD ? result : f->direction == TC_GPU_BY_IMAGE ? image : weight;
  x->convolution = describe_convolution(&st, x);
  if (st != 0) return drop_work(x), result_of(st);
  *out = x;
  return 0;
}

// ---- its solutions ----

// Returns whether the solution's kind is known and accepted.
static bool takes_solution(const tc_gpu_conv_facts *f, const tc_miopen_solution *s) {
  if (s->algorithm == TC_miopenConvolutionAlgoImplicitGEMM) return true;
  return s->algorithm == TC_miopenConvolutionAlgoDirect && (f->type == TC_F32 || f->direction != TC_GPU_BY_WEIGHT);
}

// Lists solutions; an empty list is no error, whichever way the library says so.
static tc_miopen_status list_solutions(tc_gpu_port *p, const made *x, tc_miopen_solution *out, size_t *n) {
  *n = 0;
  if (!x->fits) return TC_miopenStatusSuccess;
  tc_miopen_status st = OF(&x->f, GetSolution)(p->library[TC_GPU_CONVOLUTIONS], x->first, x->second, x->convolution,
                                               x->result, MOST_FOUND, n, out);
  if (st != TC_miopenStatusSuccess) *n = 0;
  return st == TC_miopenStatusNotImplemented ? TC_miopenStatusSuccess : st;
}

static int find_solutions(tc_gpu_port *p, void *given, tc_gpu_algorithm *out, int most, int *n) {
  const made *x = given;
  tc_miopen_solution s[MOST_FOUND];
  size_t n_found;
  tc_miopen_status st = list_solutions(p, x, s, &n_found);
  *n = 0;
  for (size_t i = 0; i < n_found && *n < most; i++) {
    bool slow = s[0].time > 0 && s[i].time > MOST_SLOWER * s[0].time;
    if (takes_solution(&x->f, &s[i]) && !slow)
      out[(*n)++] = (tc_gpu_algorithm){{s[i].solution_id}, s[i].workspace_size};
  }
  return result_of(st);
}

// Accepts a solution that the library names for the problem, and compiles it, so that running it
// does not.
static int check_solution(tc_gpu_port *p, void *given, tc_gpu_algorithm *a) {
  const made *x = given;
  tc_gpu_algorithm same = {{a->data[0]}, a->workspace_bytes};
  tc_miopen_handle handle = p->library[TC_GPU_CONVOLUTIONS];
  tc_miopen_solution s[MOST_FOUND];
  size_t n, workspace = 0;
  tc_miopen_status st = list_solutions(p, x, s, &n);
  bool there = false;
  for (size_t i = 0; i < n; i++) there |= s[i].solution_id == a->data[0] && takes_solution(&x->f, &s[i]);
  if (st == 0 && (!there || memcmp(same.data, a->data, sizeof same.data) != 0)) st = TC_miopenStatusBadParm;
  if (st == 0)
    st = OF(&x->f, GetSolutionWorkspaceSize)(handle, x->first, x->second, x->convolution, x->result, a->data[0],
                                             &workspace);
  if (st == 0 && workspace > TC_GPU_CONV_WORKSPACE) st = TC_miopenStatusNotImplemented;
  if (st == 0) st = OF(&x->f, CompileSolution)(handle, x->first, x->second, x->convolution, x->result, a->data[0]);
  a->workspace_bytes = workspace;
  return result_of(st);
}

static int run_work(tc_gpu_port *p, const tc_gpu_request *r) {
  const made *x = r->made;
  bool by_image = x->f.direction == TC_GPU_BY_IMAGE;  // true: the second operand of a call comes first here
  const void *first = by_image ? r->left : r->right, *second = by_image ? r->right : r->left;
  size_t bytes = r->algorithm->workspace_bytes;
  return result_of(OF(&x->f, Immediate)(p->library[TC_GPU_CONVOLUTIONS], x->first, first, x->second, second,
                                        x->convolution, x->result, r->result, bytes ? r->workspace : NULL, bytes,
                                        r->algorithm->data[0]));
}

const tc_gpu_library_driver tc_miopen = {
    .measured_alone = true,
    .ready = is_ready,
    .name = name_of,
    .open = open_handle,
    .make = make_work,
    .drop = drop_work,
    .find = find_solutions,
    .check = check_solution,
    .set_stream = set_stream,
    .run = run_work,
};
