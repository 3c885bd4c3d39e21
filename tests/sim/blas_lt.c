// A simulated cuBLASLt over libsim-cuda, or with SIM_LT_HIP a simulated hipBLASLt over libsim-hip:
// the same functions by other names and numbers.
//
// It has a few algorithms (product.h). One holds for one problem and version, and is refused for
// another. hipBLASLt has no function that checks one, and is told of no alignment: what it names
// must do for operands at multiples of 16 bytes, so that it leaves out none.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/product.h"

#ifdef SIM_LT_HIP
#include "tests/sim/hipblaslt_api.h"
#define LT(name) hipblasLt##name
#define BLAS(name) HIPBLAS_##name
#define NUMBER(name) HIPBLASLT_##name
#define TYPE(name) HIP_##name
#define MOST_STATUS HIPBLAS_STATUS_UNKNOWN
#define VERSION "TC_SIM_HIPBLASLT", 1, 0, 0, 100000
typedef hipblasStatus_t lt_status;
typedef hipblasComputeType_t lt_compute;
typedef hipDataType lt_type;
typedef hipStream_t lt_stream;
#else
#include "tests/sim/cublaslt_api.h"
#define LT(name) cublasLt##name
#define BLAS(name) CUBLAS_##name
#define NUMBER(name) CUBLASLT_##name
#define TYPE(name) CUDA_##name
#define MOST_STATUS CUBLAS_STATUS_NOT_SUPPORTED
#define VERSION "TC_SIM_CUBLASLT", 13, 1, 0, 10000
typedef cublasStatus_t lt_status;
typedef cublasComputeType_t lt_compute;
typedef cudaDataType_t lt_type;
typedef cudaStream_t lt_stream;
#endif
typedef LT(Handle_t) lt_handle;
typedef LT(MatmulDesc_t) lt_product;
typedef LT(MatrixLayout_t) lt_layout;
typedef LT(MatmulPreference_t) lt_preference;
typedef LT(MatmulAlgo_t) lt_algorithm;
typedef LT(MatmulHeuristicResult_t) lt_found;

enum { MAGIC = 0x51b1a5, USUAL = SIM_PRODUCT_USUAL };

struct sim_lt_product {
  sim_object object;
  int transposed[2];  // of a and b
  unsigned epilogue;
  const void *bias;
};

struct sim_lt_layout {
  sim_object object;
  lt_type type;
  uint64_t rows, columns;
  int64_t stride, batch_stride;
  int32_t batch;
};

struct sim_lt_preference {
  sim_object object;
  uint64_t workspace;
  uint32_t schemes, aligned[4];
};

// An algorithm's words for itself; the rest of its bytes are 0.
typedef struct words {
  uint32_t magic, number;
  uint64_t name;
} words;

// ---- results ----

// The driver's errors, and those that a test asks for: those are numbers of the library's.
static lt_status status_of(sim_error error) {
  return (lt_status)error <= MOST_STATUS ? (lt_status)error : BLAS(STATUS_EXECUTION_FAILED);
}

#define LT_ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return status_of(guard.error)

static int version_of(const char *variable, int major, int minor, int patch, int majors) {
  const char *text = getenv(variable);
  if (text) sscanf(text, "%d.%d.%d", &major, &minor, &patch);
  return major * majors + minor * 100 + patch;
}

#ifdef SIM_LT_HIP
lt_status hipblasLtGetVersion(lt_handle handle, int *version) {
  LT_ENTER(USUAL);
  if (!sim_alive(handle, SIM_LIBRARY)) return BLAS(STATUS_NOT_INITIALIZED);
  *version = version_of(VERSION);
  return BLAS(STATUS_SUCCESS);
}
#else
size_t cublasLtGetVersion(void) {
  return (size_t)version_of(VERSION);
}

const char *cublasLtGetStatusName(lt_status status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}
#endif

// ---- handles ----

// An object of the current device, or, of the host alone, of none.
#define NEW(out, of, bytes) \
  do { \
    *(out) = sim_object_new(SIM_LIBRARY, (of), (bytes)); \
    if (!*(out)) return BLAS(STATUS_ALLOC_FAILED); \
  } while (0)

lt_status LT(Create)(lt_handle *handle) {
  LT_ENTER(USUAL);
  NEW(handle, sim_here(), sizeof(sim_object));
  return BLAS(STATUS_SUCCESS);
}

static lt_status end(void *object) {
  if (!sim_alive(object, SIM_LIBRARY)) return BLAS(STATUS_INVALID_VALUE);
  sim_object_end(object);
  return BLAS(STATUS_SUCCESS);
}

lt_status LT(Destroy)(lt_handle handle) {
  LT_ENTER(USUAL | SIM_AFTER_FAULT);
  return end(handle);
}

lt_status LT(MatmulDescCreate)(lt_product *product, lt_compute compute, lt_type scale) {
  LT_ENTER(0);
  if (compute != BLAS(COMPUTE_32F) || scale != TYPE(R_32F)) return BLAS(STATUS_NOT_SUPPORTED);
  NEW(product, NULL, sizeof **product);
  (*product)->epilogue = NUMBER(EPILOGUE_DEFAULT);
  return BLAS(STATUS_SUCCESS);
}

lt_status LT(MatmulDescDestroy)(lt_product product) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(product);
}

lt_status LT(MatmulDescSetAttribute)(lt_product x, LT(MatmulDescAttributes_t) attribute, const void *value,
                                     size_t bytes) {
  LT_ENTER(0);
  int32_t v;
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (attribute == NUMBER(MATMUL_DESC_BIAS_POINTER) ? 8 : 4))
    return BLAS(STATUS_INVALID_VALUE);
  memcpy(&v, value, 4);
  switch (attribute) {
    case NUMBER(MATMUL_DESC_TRANSA):
    case NUMBER(MATMUL_DESC_TRANSB):
      if (v != BLAS(OP_N) && v != BLAS(OP_T)) return BLAS(STATUS_INVALID_VALUE);
      x->transposed[attribute == NUMBER(MATMUL_DESC_TRANSB)] = v == BLAS(OP_T);
      return BLAS(STATUS_SUCCESS);
    case NUMBER(MATMUL_DESC_EPILOGUE):
      if (v != NUMBER(EPILOGUE_DEFAULT) && v != NUMBER(EPILOGUE_BIAS)) return BLAS(STATUS_NOT_SUPPORTED);
      x->epilogue = (unsigned)v;
      return BLAS(STATUS_SUCCESS);
    case NUMBER(MATMUL_DESC_BIAS_POINTER): memcpy(&x->bias, value, 8); return BLAS(STATUS_SUCCESS);
    default: return BLAS(STATUS_NOT_SUPPORTED);
  }
}

lt_status LT(MatrixLayoutCreate)(lt_layout *layout, lt_type type, uint64_t rows, uint64_t columns, int64_t stride) {
  LT_ENTER(0);
  if (type != TYPE(R_32F) && type != TYPE(R_16F) && type != TYPE(R_16BF)) return BLAS(STATUS_NOT_SUPPORTED);
  if (rows == 0 || columns == 0 || stride < (int64_t)rows) return BLAS(STATUS_INVALID_VALUE);
  NEW(layout, NULL, sizeof **layout);
  lt_layout x = *layout;
  x->type = type, x->rows = rows, x->columns = columns, x->stride = stride, x->batch = 1;
  return BLAS(STATUS_SUCCESS);
}

lt_status LT(MatrixLayoutDestroy)(lt_layout layout) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(layout);
}

lt_status LT(MatrixLayoutSetAttribute)(lt_layout x, LT(MatrixLayoutAttribute_t) attribute, const void *value,
                                       size_t bytes) {
  LT_ENTER(0);
  bool count = attribute == NUMBER(MATRIX_LAYOUT_BATCH_COUNT);
  if (!count && attribute != NUMBER(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)) return BLAS(STATUS_NOT_SUPPORTED);
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (count ? 4 : 8)) return BLAS(STATUS_INVALID_VALUE);
  memcpy(count ? (void *)&x->batch : &x->batch_stride, value, bytes);
  return x->batch > 0 ? BLAS(STATUS_SUCCESS) : BLAS(STATUS_INVALID_VALUE);
}

lt_status LT(MatmulPreferenceCreate)(lt_preference *preference) {
  LT_ENTER(0);
  NEW(preference, NULL, sizeof **preference);
  (*preference)->schemes = UINT32_MAX;
  for (int i = 0; i < 4; i++) (*preference)->aligned[i] = 256;
  return BLAS(STATUS_SUCCESS);
}

lt_status LT(MatmulPreferenceDestroy)(lt_preference preference) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(preference);
}

lt_status LT(MatmulPreferenceSetAttribute)(lt_preference x, LT(MatmulPreferenceAttributes_t) attribute,
                                           const void *value, size_t bytes) {
  LT_ENTER(0);
  bool room = attribute == NUMBER(MATMUL_PREF_MAX_WORKSPACE_BYTES);
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (room ? 8 : 4)) return BLAS(STATUS_INVALID_VALUE);
  if (room) return memcpy(&x->workspace, value, 8), BLAS(STATUS_SUCCESS);
#ifndef SIM_LT_HIP
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return memcpy(&x->schemes, value, 4), CUBLAS_STATUS_SUCCESS;
  if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
      attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
    return memcpy(&x->aligned[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, 4), CUBLAS_STATUS_SUCCESS;
#endif
  return BLAS(STATUS_NOT_SUPPORTED);
}

// ---- problems ----

static sim_matrix matrix_of(const struct sim_lt_layout *l, int transposed) {
  return sim_product_matrix(l->rows, l->columns, l->stride, l->batch_stride, transposed);
}

static bool problem_of(const struct sim_lt_product *x, const struct sim_lt_layout *a, const struct sim_lt_layout *b,
                       const struct sim_lt_layout *c, const struct sim_lt_layout *d, sim_product *p) {
  if (!sim_alive(x, SIM_LIBRARY) || !sim_alive(a, SIM_LIBRARY) || !sim_alive(b, SIM_LIBRARY) || c != d ||
      !sim_alive(d, SIM_LIBRARY))
    return false;
  *p = (sim_product){.type = a->type == TYPE(R_32F)   ? SIM_F32
                             : a->type == TYPE(R_16F) ? SIM_F16
                                                      : SIM_BF16,
                     .batch = d->batch};
  p->a = matrix_of(a, x->transposed[0]), p->b = matrix_of(b, x->transposed[1]), p->d = matrix_of(d, 0);
  return b->type == a->type && d->type == a->type && a->batch == d->batch && b->batch == d->batch &&
         sim_product_fits(p);
}

static uint64_t name_of(const sim_product *p, unsigned epilogue) {
  return sim_product_name(p, (uint64_t)version_of(VERSION) * 16 + epilogue);
}

static void describe(int algorithm, const sim_product *p, unsigned epilogue, lt_found *out) {
  words w = {MAGIC, (uint32_t)algorithm, name_of(p, epilogue)};
  *out = (lt_found){.workspaceSize = sim_product_workspace(algorithm, p), .wavesCount = 1};
  memcpy(out->algo.data, &w, sizeof w);
}

lt_status LT(MatmulAlgoGetHeuristic)(lt_handle handle, lt_product x, lt_layout a, lt_layout b, lt_layout c, lt_layout d,
                                     lt_preference preference, int most, lt_found found[], int *n) {
  LT_ENTER(USUAL);
  sim_product p;
  *n = 0;
  if (!sim_alive(handle, SIM_LIBRARY) || !sim_alive(preference, SIM_LIBRARY) || most < 1 ||
      !problem_of(x, a, b, c, d, &p))
    return BLAS(STATUS_INVALID_VALUE);
  if (x->epilogue == NUMBER(EPILOGUE_BIAS) && !x->bias) return BLAS(STATUS_NOT_SUPPORTED);
  for (int at = 0; at < SIM_PRODUCT_ALGORITHMS && *n < most; at++) {
    int i = (at + sim_product_first()) % SIM_PRODUCT_ALGORITHMS;
    bool fits = sim_product_workspace(i, &p) <= preference->workspace;
#ifndef SIM_LT_HIP
    fits &= i != 1 || (preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
#endif
    for (int k = 0; k < 4; k++) fits &= sim_product_alignment(i, &p) <= preference->aligned[k];
    if (fits) describe(i, &p, x->epilogue, &found[(*n)++]);
  }
  return *n ? BLAS(STATUS_SUCCESS) : BLAS(STATUS_NOT_SUPPORTED);
}

// Its number in *out.
static lt_status check(const lt_algorithm *algorithm, const sim_product *p, unsigned epilogue, int *out) {
  words w = {.magic = 0};
  if (algorithm) memcpy(&w, algorithm->data, sizeof w);
  if (w.magic != MAGIC || w.number >= SIM_PRODUCT_ALGORITHMS) return BLAS(STATUS_INVALID_VALUE);
  *out = (int)w.number;
  return w.name == name_of(p, epilogue) ? BLAS(STATUS_SUCCESS) : BLAS(STATUS_NOT_SUPPORTED);
}

#ifndef SIM_LT_HIP
lt_status cublasLtMatmulAlgoCheck(lt_handle handle, lt_product x, lt_layout a, lt_layout b, lt_layout c, lt_layout d,
                                  const lt_algorithm *algorithm, lt_found *found) {
  LT_ENTER(USUAL);
  sim_product p;
  int number;
  if (!sim_alive(handle, SIM_LIBRARY) || !problem_of(x, a, b, c, d, &p)) return BLAS(STATUS_INVALID_VALUE);
  lt_status status = check(algorithm, &p, x->epilogue, &number);
  if (status == BLAS(STATUS_SUCCESS)) describe(number, &p, x->epilogue, found);
  return status;
}
#endif

// ---- doing it ----

lt_status LT(Matmul)(lt_handle handle, lt_product x, const void *alpha, const void *a, lt_layout a_layout,
                     const void *b, lt_layout b_layout, const void *beta, const void *c, lt_layout c_layout, void *d,
                     lt_layout d_layout, const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                     lt_stream stream) {
  LT_ENTER(USUAL);
  sim_product p;
  float scale[2];
  int number;
  sim_stream *s = sim_library_stream(stream);
  if (!sim_alive(handle, SIM_LIBRARY) || ((sim_object *)(void *)handle)->device != sim_here() || !s)
    return BLAS(STATUS_INVALID_VALUE);
  if (!a || !b || !d || c != d || !problem_of(x, a_layout, b_layout, c_layout, d_layout, &p))
    return BLAS(STATUS_INVALID_VALUE);
  memcpy(&scale[0], alpha, 4);
  memcpy(&scale[1], beta, 4);
  if (scale[0] != 1 || scale[1] != 0) return BLAS(STATUS_NOT_SUPPORTED);
  lt_status status = check(algorithm, &p, x->epilogue, &number);
  if (status != BLAS(STATUS_SUCCESS)) return status;
  p.function = __func__;
  p.a.at = (uintptr_t)a, p.b.at = (uintptr_t)b, p.d.at = (uintptr_t)d;
  p.bias = x->epilogue == NUMBER(EPILOGUE_BIAS) ? (uintptr_t)x->bias : 0;
  p.alignment = sim_product_alignment(number, &p), p.workspace_bytes = sim_product_workspace(number, &p);
  p.workspace = p.workspace_bytes ? (uintptr_t)workspace : 0;
#ifdef SIM_LT_HIP
  p.atomics = number == 0 && getenv("TC_SIM_ATOMICS") != NULL;  // NVIDIA's is told which sums it may make
#endif
  if (p.workspace_bytes > workspace_bytes || !sim_product_aligned(&p)) return BLAS(STATUS_INVALID_VALUE);
  return status_of(sim_product_enqueue(s, &p));
}
