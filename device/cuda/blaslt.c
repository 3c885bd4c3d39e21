// See blaslt.h. Looked for as NVRTC is (nvrtc.c), TC_CUBLASLT_LIBRARY in its place.
#include "device/cuda/blaslt.h"

#include <stdio.h>
#include <string.h>

#include "device/cuda/places.h"
#include "device/gpu/library.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define OLDEST_MAJOR 11
#define NEEDED 1
// What the vendor asks for on sm_90; older devices' algorithms take less of it. A run has what its own algorithm needs.
#define MOST_WORKSPACE ((uint64_t)32 << 20)
#define MOST_FOUND 16

static struct {
#define TC_BLASLT_ROW(symbol, needed, result, parameters) result(*symbol) parameters;
#include "device/cuda/blaslt.def"
#undef TC_BLASLT_ROW
} lt;

static const tc_library_row rows[] = {
#define TC_BLASLT_ROW(symbol, needed, result, parameters) TC_LIBRARY_ROW(lt, symbol, needed),
#include "device/cuda/blaslt.def"
#undef TC_BLASLT_ROW
};

static char name_text[32];
static int version_major;

// What the library is told of one product.
typedef struct made {
  tc_blaslt_product product;
  tc_blaslt_layout right, left, result;
  uint32_t alignment;
  bool bias;
} made;

// ---- the library ----

static bool open_path(const char *path, char *why, size_t bytes) {
  const char *missing;
  char text[192];
  void *handle = tc_library_open(path, text, sizeof text);
  if (!handle) {
    snprintf(why, bytes, "cuBLASLt, NVIDIA's library of products, cannot be opened: %s", text);
    return false;
  }
  if (!tc_library_fill(handle, rows, sizeof rows / sizeof *rows, &lt, &missing)) {
    snprintf(why, bytes, "%s has no %s: cuBLASLt of CUDA 11 or newer is needed", path, missing);
    return false;
  }
  // 130100, or 11401 of the first ones.
  size_t v = lt.cublasLtGetVersion();
  int major = (int)(v >= 100000 ? v / 10000 : v / 1000), minor = (int)(v >= 100000 ? v / 100 % 100 : v / 100 % 10);
  version_major = major;
  snprintf(name_text, sizeof name_text, "cuBLASLt %d.%d.%d", major, minor, (int)(v % 100));
  return true;
}

static bool try_path(const char *path, void *unused) {
  char why[256];
  (void)unused;
  return open_path(path, why, sizeof why);
}

static bool open_library(int driver_major, char *why, size_t bytes) {
  const char *path = tc_options_get()->cublaslt_library;
  char name[32];
  for (int major = driver_major; !path && major >= OLDEST_MAJOR; major--) {
    snprintf(name, sizeof name, "libcublasLt.so.%d", major);
    if (open_path(name, why, bytes) || tc_cuda_places(name, try_path, NULL)) return true;
  }
  if (!path)
    snprintf(why, bytes,
             "cuBLASLt, NVIDIA's library of products, is nowhere: no libcublasLt.so.%d or older among the loader's libraries, in /usr/local/cuda, "
             "CUDA_HOME or Python's packages",
             driver_major);
  if (!path || !open_path(path, why, bytes)) return false;
  if (version_major >= OLDEST_MAJOR && version_major <= driver_major) return true;
  snprintf(why, bytes, "%s is %s, and for the driver of CUDA %d one of CUDA %d to %d is needed", path, name_text, driver_major, OLDEST_MAJOR,
           driver_major);
  return false;
}

bool tc_blaslt_ready(int driver_major, char *why, size_t bytes) {
  static enum { UNTRIED, THERE, ABSENT } state;
  static char said[320];
  if (state == UNTRIED) state = open_library(driver_major, said, sizeof said) ? THERE : ABSENT;
  if (state == ABSENT) snprintf(why, bytes, "%s", said);
  return state == THERE;
}

const char *tc_blaslt_name(void) {
  return name_text;
}

static int result_of(tc_blaslt_status status) {
  return status == TC_CUBLAS_STATUS_SUCCESS ? 0 : (int)(TC_BLASLT_RESULTS + status);
}

// What the library reports of a device that has gone, the driver's next call says better.
tc_gpu_verdict tc_blaslt_judge(int result, const char **name) {
  tc_blaslt_status status = (tc_blaslt_status)(result - TC_BLASLT_RESULTS);
  *name = lt.cublasLtGetStatusName ? lt.cublasLtGetStatusName(status) : NULL;
  if (!*name) *name = "an error of cuBLASLt without a name";
  return status == TC_CUBLAS_STATUS_ALLOC_FAILED ? TC_GPU_SHORT : TC_GPU_REFUSED;
}

int tc_blaslt_open(tc_gpu_port *p) {
  tc_blaslt_handle handle = NULL;
  int result = result_of(lt.cublasLtCreate(&handle));
  p->library[TC_GPU_PRODUCTS] = result == 0 ? handle : NULL;
  return result;
}

void tc_blaslt_close(tc_gpu_port *p) {
  if (p->library[TC_GPU_PRODUCTS]) (void)lt.cublasLtDestroy(p->library[TC_GPU_PRODUCTS]);
  p->library[TC_GPU_PRODUCTS] = NULL;
}

// ---- a product ----

static unsigned type_of(tc_type type) {
  return type == TC_F16 ? TC_CUDA_R_16F : type == TC_BF16 ? TC_CUDA_R_16BF : TC_CUDA_R_32F;
}

// A matrix whose rows, of so many elements, are the library's columns.
static tc_blaslt_status layout_of(const tc_gpu_product_facts *f, int64_t n_rows, int64_t elements, int64_t row, int64_t batch,
                                  tc_blaslt_layout *out) {
  int32_t n = (int32_t)f->batch;
  tc_blaslt_status status = lt.cublasLtMatrixLayoutCreate(out, type_of(f->type), (uint64_t)elements, (uint64_t)n_rows, row);
  if (status == 0 && n > 1) status = lt.cublasLtMatrixLayoutSetAttribute(*out, TC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
  if (status == 0 && n > 1) status = lt.cublasLtMatrixLayoutSetAttribute(*out, TC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch, sizeof batch);
  return status;
}

static tc_blaslt_status layouts_of(const tc_gpu_product_facts *f, made *x) {
  const tc_gpu_operand *a = &f->left, *b = &f->right;
  tc_blaslt_status status = layout_of(f, b->turned ? f->n : f->k, b->turned ? f->k : f->n, b->row, b->batch, &x->right);
  if (status == 0) status = layout_of(f, a->turned ? f->k : f->m, a->turned ? f->m : f->k, a->row, a->batch, &x->left);
  return status ? status : layout_of(f, f->m, f->n, f->n, f->m * f->n, &x->result);
}

static tc_blaslt_status say(made *x, tc_blaslt_product_attribute attribute, int32_t value) {
  return lt.cublasLtMatmulDescSetAttribute(x->product, attribute, &value, sizeof value);
}

static tc_blaslt_status point_at_bias(made *x, const void *bias) {
  return lt.cublasLtMatmulDescSetAttribute(x->product, TC_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

int tc_blaslt_make(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  const tc_gpu_product_facts *f = &w->product;
  (void)p;
  *out = NULL;
  made *x = tc_calloc(1, sizeof *x);
  if (!x) return result_of(TC_CUBLAS_STATUS_ALLOC_FAILED);
  x->alignment = f->alignment, x->bias = f->epilogue == TC_GPU_BIAS;
  tc_blaslt_status status = lt.cublasLtMatmulDescCreate(&x->product, TC_CUBLAS_COMPUTE_32F, TC_CUDA_R_32F);
  if (status == 0) status = say(x, TC_CUBLASLT_MATMUL_DESC_TRANSA, f->right.turned ? TC_CUBLAS_OP_T : TC_CUBLAS_OP_N);
  if (status == 0) status = say(x, TC_CUBLASLT_MATMUL_DESC_TRANSB, f->left.turned ? TC_CUBLAS_OP_T : TC_CUBLAS_OP_N);
  if (status == 0 && x->bias) status = say(x, TC_CUBLASLT_MATMUL_DESC_EPILOGUE, TC_CUBLASLT_EPILOGUE_BIAS);
  // A place that is never read, but as well aligned: which algorithms there are depends on that.
  if (status == 0 && x->bias) status = point_at_bias(x, (const void *)(uintptr_t)x->alignment);
  if (status == 0) status = layouts_of(f, x);
  if (status != 0) return tc_blaslt_drop(x), result_of(status);
  *out = x;
  return 0;
}

void tc_blaslt_drop(void *given) {
  made *x = given;
  if (x->product) (void)lt.cublasLtMatmulDescDestroy(x->product);
  tc_blaslt_layout layout[] = {x->right, x->left, x->result};
  for (int i = 0; i < 3; i++)
    if (layout[i]) (void)lt.cublasLtMatrixLayoutDestroy(layout[i]);
  tc_free(x);
}

// ---- its algorithms ----

// Parts of a sum may be added in f32 in the workspace, in their order, and in no other way.
static tc_blaslt_status prefer(const made *x, tc_blaslt_preference preference) {
  static const tc_blaslt_preference_attribute aligned[] = {
      TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  uint64_t most = MOST_WORKSPACE;
  uint32_t schemes = TC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  tc_blaslt_status status = lt.cublasLtMatmulPreferenceSetAttribute(preference, TC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  if (status == 0)
    status = lt.cublasLtMatmulPreferenceSetAttribute(preference, TC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
  for (int i = 0; i < 4 && status == 0; i++)
    status = lt.cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &x->alignment, sizeof x->alignment);
  return status;
}

static void take(tc_gpu_algorithm *out, const tc_blaslt_algorithm *from, size_t workspace_bytes) {
  memcpy(out->data, from->data, sizeof out->data);
  out->workspace_bytes = workspace_bytes;
}

int tc_blaslt_find(tc_gpu_port *p, void *given, tc_gpu_algorithm *out, int most, int *n) {
  made *x = given;
  tc_blaslt_preference preference = NULL;
  tc_blaslt_found found[MOST_FOUND] = {{.state = 0}};
  int n_found = 0;
  *n = 0;
  tc_blaslt_status status = lt.cublasLtMatmulPreferenceCreate(&preference);
  if (status == 0) status = prefer(x, preference);
  if (status == 0)
    status = lt.cublasLtMatmulAlgoGetHeuristic(p->library[TC_GPU_PRODUCTS], x->product, x->right, x->left, x->result, x->result, preference,
                                               TC_MIN(most, MOST_FOUND), found, &n_found);
  for (int i = 0; i < n_found && status == 0; i++)
    if (found[i].state == TC_CUBLAS_STATUS_SUCCESS) take(&out[(*n)++], &found[i].algo, found[i].workspaceSize);
  if (preference) (void)lt.cublasLtMatmulPreferenceDestroy(preference);
  return status == TC_CUBLAS_STATUS_NOT_SUPPORTED ? 0 : result_of(status);
}

int tc_blaslt_check(tc_gpu_port *p, void *given, tc_gpu_algorithm *a) {
  made *x = given;
  tc_blaslt_algorithm algorithm;
  tc_blaslt_found found = {.state = 0};
  memcpy(algorithm.data, a->data, sizeof algorithm.data);
  tc_blaslt_status status =
      lt.cublasLtMatmulAlgoCheck(p->library[TC_GPU_PRODUCTS], x->product, x->right, x->left, x->result, x->result, &algorithm, &found);
  if (status == 0 && found.workspaceSize > MOST_WORKSPACE) status = TC_CUBLAS_STATUS_NOT_SUPPORTED;
  a->workspace_bytes = found.workspaceSize;
  return result_of(status);
}

int tc_blaslt_run(tc_gpu_port *p, const tc_gpu_request *request) {
  made *x = request->made;
  static const float one = 1, zero = 0;
  tc_blaslt_algorithm algorithm;
  memcpy(algorithm.data, request->algorithm->data, sizeof algorithm.data);
  tc_blaslt_status status = x->bias ? point_at_bias(x, request->bias) : TC_CUBLAS_STATUS_SUCCESS;
  if (status == 0)
    status =
        lt.cublasLtMatmul(p->library[TC_GPU_PRODUCTS], x->product, &one, request->right, x->right, request->left, x->left, &zero, request->result,
                          x->result, request->result, x->result, &algorithm, request->workspace, request->algorithm->workspace_bytes, p->stream);
  return result_of(status);
}
