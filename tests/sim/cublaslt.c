// A simulated cuBLASLt over the simulated driver: a product is work of its stream, done late and captured as any other, with plain loops.
//
// It has a few algorithms, which differ in nothing but what they ask for: alignment, a workspace. An algorithm holds for one problem and version, and is
// refused for another. All that a product reads and writes must be of allocations when it runs, and no operand may lie in its result; what was never written is
// read as NaN.
// Its results are the sums in double, rounded once.
#include "tests/sim/cublaslt_api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cuda_face.h"

enum { ALGORITHMS = 4, WORKSPACE_ALIGNMENT = 256, MAGIC = 0x51b1a5 };

struct cublasLtContext {
  sim_object object;
};

struct sim_lt_product {
  sim_object object;
  int turned[2];  // of a and b
  unsigned epilogue;
  const void *bias;
};

struct sim_lt_layout {
  sim_object object;
  unsigned type;
  uint64_t rows, columns;
  int64_t stride, batch_stride;
  int32_t batch;
};

struct sim_lt_preference {
  sim_object object;
  uint64_t workspace;
  uint32_t schemes, aligned[4];
};

// ---- results ----

// The driver's errors, and those that a test asks for: those are numbers of cuBLASLt's.
static cublasStatus_t status_of(sim_error error) {
  return (cublasStatus_t)error <= CUBLAS_STATUS_NOT_SUPPORTED ? (cublasStatus_t)error : CUBLAS_STATUS_EXECUTION_FAILED;
}

#define LT_ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return status_of(guard.error)

size_t cublasLtGetVersion(void) {
  const char *text = getenv("TC_SIM_CUBLASLT");
  int major = 13, minor = 1, patch = 0;
  if (text) sscanf(text, "%d.%d.%d", &major, &minor, &patch);
  return (size_t)(major * 10000 + minor * 100 + patch);
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
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

// ---- handles ----

// An object of the current device, or, of the host alone, of none.
#define NEW(out, of) \
  do { \
    *(out) = sim_object_new(SIM_LIBRARY, (of), sizeof **(out)); \
    if (!*(out)) return CUBLAS_STATUS_ALLOC_FAILED; \
  } while (0)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  LT_ENTER(SIM_USUAL);
  NEW(handle, sim_here());
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t end(void *object) {
  if (!sim_alive(object, SIM_LIBRARY)) return CUBLAS_STATUS_INVALID_VALUE;
  sim_object_end(object);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  LT_ENTER(SIM_USUAL | SIM_AFTER_FAULT);
  return end(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, cublasComputeType_t compute, cudaDataType_t scale) {
  LT_ENTER(0);
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  NEW(product, NULL);
  (*product)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(product);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t x, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes) {
  LT_ENTER(0);
  int32_t v;
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&v, value, 4);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
      if (v != CUBLAS_OP_N && v != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
      x->turned[attribute == CUBLASLT_MATMUL_DESC_TRANSB] = v == CUBLAS_OP_T;
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      if (v != CUBLASLT_EPILOGUE_DEFAULT && v != CUBLASLT_EPILOGUE_BIAS) return CUBLAS_STATUS_NOT_SUPPORTED;
      x->epilogue = (unsigned)v;
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: memcpy(&x->bias, value, 8); return CUBLAS_STATUS_SUCCESS;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows, uint64_t columns, int64_t stride) {
  LT_ENTER(0);
  if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (rows == 0 || columns == 0 || stride < (int64_t)rows) return CUBLAS_STATUS_INVALID_VALUE;
  NEW(layout, NULL);
  cublasLtMatrixLayout_t x = *layout;
  x->type = type, x->rows = rows, x->columns = columns, x->stride = stride, x->batch = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t x, cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  LT_ENTER(0);
  bool count = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
  if (!count && attribute != CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (count ? 4 : 8)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(count ? (void *)&x->batch : &x->batch_stride, value, bytes);
  return x->batch > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  LT_ENTER(0);
  NEW(preference, NULL);
  (*preference)->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  for (int i = 0; i < 4; i++) (*preference)->aligned[i] = 256;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  LT_ENTER(SIM_AFTER_FAULT);
  return end(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t x, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  LT_ENTER(0);
  bool room = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  if (!sim_alive(x, SIM_LIBRARY) || bytes != (room ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  if (room) {
    memcpy(&x->workspace, value, 8);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    memcpy(&x->schemes, value, 4);
  } else if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) {
    memcpy(&x->aligned[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, 4);
  } else {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// ---- problems ----

typedef struct matrix {
  uintptr_t at;
  uint64_t rows, columns;  // as the product reads it, turned or not
  int64_t by_row, by_column, batch;  // elements
} matrix;

typedef struct problem {
  unsigned type;
  int32_t batch;
  matrix a, b, d;
  uintptr_t bias, workspace;
  uint64_t alignment, workspace_bytes;  // of the algorithm
} problem;

static uint64_t bytes_of(unsigned type) {
  return type == CUDA_R_32F ? 4 : 2;
}

static matrix matrix_of(const struct sim_lt_layout *l, int turned) {
  matrix m = {.rows = l->rows, .columns = l->columns, .by_row = 1, .by_column = l->stride, .batch = l->batch_stride};
  if (turned) m = (matrix){.rows = l->columns, .columns = l->rows, .by_row = l->stride, .by_column = 1, .batch = l->batch_stride};
  return m;
}

static bool problem_of(const struct sim_lt_product *x, const struct sim_lt_layout *a, const struct sim_lt_layout *b, const struct sim_lt_layout *c,
                       const struct sim_lt_layout *d, problem *p) {
  if (!sim_alive(x, SIM_LIBRARY) || !sim_alive(a, SIM_LIBRARY) || !sim_alive(b, SIM_LIBRARY) || c != d || !sim_alive(d, SIM_LIBRARY)) return false;
  *p = (problem){.type = a->type, .batch = d->batch, .a = matrix_of(a, x->turned[0]), .b = matrix_of(b, x->turned[1]), .d = matrix_of(d, 0)};
  if (b->type != a->type || d->type != a->type || a->batch != d->batch || b->batch != d->batch) return false;
  return p->a.rows == p->d.rows && p->b.columns == p->d.columns && p->a.columns == p->b.rows;
}

static uint64_t alignment_of(int algorithm, unsigned type) {
  return algorithm == ALGORITHMS - 1 ? bytes_of(type) : 16;
}

static uint64_t workspace_of(int algorithm, const problem *p) {
  return algorithm == 1 ? p->d.rows * p->d.columns * 8 + 100 : algorithm == 2 ? 1 << 20 : 0;
}

// All that it holds for.
static uint64_t name_of(const problem *p, unsigned epilogue) {
  problem key = *p;
  key.a.at = key.b.at = key.d.at = key.bias = key.workspace = 0;
  key.alignment = key.workspace_bytes = 0;
  return sim_hash(&key, sizeof key, cublasLtGetVersion() * 16 + epilogue);
}

static void describe(int algorithm, const problem *p, unsigned epilogue, cublasLtMatmulHeuristicResult_t *out) {
  *out = (cublasLtMatmulHeuristicResult_t){.workspaceSize = workspace_of(algorithm, p), .wavesCount = 1};
  out->algo.data[0] = MAGIC, out->algo.data[1] = (uint64_t)algorithm, out->algo.data[2] = name_of(p, epilogue);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t x, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *n) {
  LT_ENTER(SIM_USUAL);
  problem p;
  *n = 0;
  if (!sim_alive(handle, SIM_LIBRARY) || !sim_alive(preference, SIM_LIBRARY) || most < 1 || !problem_of(x, a, b, c, d, &p))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (x->epilogue == CUBLASLT_EPILOGUE_BIAS && !x->bias) return CUBLAS_STATUS_NOT_SUPPORTED;
  const char *first = getenv("TC_SIM_ALGORITHM");
  for (int at = 0; at < ALGORITHMS && *n < most; at++) {
    int i = (at + (first ? atoi(first) : 0)) % ALGORITHMS;
    bool fits = workspace_of(i, &p) <= preference->workspace && (i != 1 || (preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (int k = 0; k < 4; k++) fits &= alignment_of(i, p.type) <= preference->aligned[k];
    if (fits) describe(i, &p, x->epilogue, &found[(*n)++]);
  }
  return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t check(const cublasLtMatmulAlgo_t *algorithm, const problem *p, unsigned epilogue) {
  if (!algorithm || algorithm->data[0] != MAGIC || algorithm->data[1] >= ALGORITHMS) return CUBLAS_STATUS_INVALID_VALUE;
  return algorithm->data[2] == name_of(p, epilogue) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t x, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *found) {
  LT_ENTER(SIM_USUAL);
  problem p;
  if (!sim_alive(handle, SIM_LIBRARY) || !problem_of(x, a, b, c, d, &p)) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = check(algorithm, &p, x->epilogue);
  if (status == CUBLAS_STATUS_SUCCESS) describe((int)algorithm->data[1], &p, x->epilogue, found);
  return status;
}

// ---- doing it ----

// What nobody wrote is NaN: a device says nothing of it, for a run that has failed reads it, too.
static double value(unsigned type, const void *at) {
  float v;
  uint16_t half;
  if (sim_state[(uintptr_t)at - (uintptr_t)sim_memory] != SIM_WRITTEN) return NAN;
  if (type == CUDA_R_32F) return memcpy(&v, at, 4), (double)v;
  memcpy(&half, at, 2);
  return (double)(type == CUDA_R_16F ? sim_half_value(half) : sim_bfloat_value(half));
}

static void store(unsigned type, void *at, double sum) {
  float v = (float)sum;
  uint16_t half = type == CUDA_R_16F ? sim_half_of(sum) : sim_bfloat_of(sum);
  memcpy(at, type == CUDA_R_32F ? (const void *)&v : &half, bytes_of(type));
}

// The bytes are of an allocation.
static sim_error look(uintptr_t at, uint64_t bytes, const char *what) {
  const uint8_t *state = sim_memory_device(at) ? sim_state + (at - (uintptr_t)sim_memory) : NULL;
  for (uint64_t i = 0; i < bytes; i++) {
    if (state && (state[i] == SIM_WRITTEN || state[i] == SIM_UNWRITTEN)) continue;
    sim_fault(sim_hash(what, strlen(what), 21), "cublasLtMatmul: %s is %s", what,
              state && state[i] == SIM_GONE ? "freed memory" : "not of an allocation");
    return SIM_ILLEGAL_ADDRESS;
  }
  return SIM_OK;
}

static uintptr_t element(const problem *p, const matrix *m, int32_t batch, uint64_t row, uint64_t column) {
  return m->at + (uintptr_t)(batch * m->batch + (int64_t)row * m->by_row + (int64_t)column * m->by_column) * bytes_of(p->type);
}

static sim_error look_at(const problem *p, const matrix *m, const char *what) {
  bool rows = m->by_row == 1;  // run of elements side by side
  uint64_t runs = rows ? m->columns : m->rows, run = (rows ? m->rows : m->columns) * bytes_of(p->type);
  for (int32_t i = 0; i < (m->batch ? p->batch : 1); i++) {
    for (uint64_t k = 0; k < runs; k++) SIM_TRY(look(element(p, m, i, rows ? 0 : k, rows ? k : 0), run, what));
  }
  return SIM_OK;
}

static uintptr_t end_of(const problem *p, const matrix *m) {
  return element(p, m, p->batch - 1, m->rows - 1, m->columns - 1) + bytes_of(p->type);
}

static void no_overlap(uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end, const char *what) {
  if (a < b_end && b < a_end) sim_fault(sim_hash(what, strlen(what), 22), "cublasLtMatmul: %s overlap", what);
}

static sim_error look_at_all(const problem *p) {
  uintptr_t end_a = end_of(p, &p->a), end_b = end_of(p, &p->b), end_d = end_of(p, &p->d), end_work = p->workspace + p->workspace_bytes;
  uint64_t bias_bytes = p->bias ? p->d.rows * bytes_of(p->type) : 0;
  SIM_TRY(look_at(p, &p->a, "its first operand"));
  SIM_TRY(look_at(p, &p->b, "its second operand"));
  SIM_TRY(look_at(p, &p->d, "its result"));
  SIM_TRY(look(p->bias, bias_bytes, "its bias"));
  SIM_TRY(look(p->workspace, p->workspace_bytes, "its workspace"));
  no_overlap(p->a.at, end_a, p->d.at, end_d, "its first operand and its result");
  no_overlap(p->b.at, end_b, p->d.at, end_d, "its second operand and its result");
  no_overlap(p->bias, p->bias + bias_bytes, p->d.at, end_d, "its bias and its result");
  no_overlap(p->workspace, end_work, p->a.at, end_a, "its workspace and its first operand");
  no_overlap(p->workspace, end_work, p->b.at, end_b, "its workspace and its second operand");
  no_overlap(p->workspace, end_work, p->d.at, end_d, "its workspace and its result");
  return SIM_OK;
}

static sim_error multiply(sim_device *device, const void *data) {
  const problem *p = data;
  uint64_t size = bytes_of(p->type);
  (void)device;
  SIM_TRY(look_at_all(p));
  for (int32_t i = 0; i < p->batch; i++) {
    for (uint64_t c = 0; c < p->d.columns; c++) {
      for (uint64_t r = 0; r < p->d.rows; r++) {
        double sum = 0;
        for (uint64_t k = 0; k < p->a.columns; k++)
          sum += value(p->type, (const void *)element(p, &p->a, i, r, k)) * value(p->type, (const void *)element(p, &p->b, i, k, c));
        if (p->bias) sum += value(p->type, (const void *)(p->bias + r * size));
        uintptr_t at = element(p, &p->d, i, r, c);
        store(p->type, (void *)at, sum);
        memset(sim_state + (at - (uintptr_t)sim_memory), SIM_WRITTEN, size);
      }
    }
  }
  // What was there is lost, and what is there now is nobody's.
  if (p->workspace_bytes) {
    memset((void *)p->workspace, 0xa5, p->workspace_bytes);
    memset(sim_state + (p->workspace - (uintptr_t)sim_memory), SIM_UNWRITTEN, p->workspace_bytes);
  }
  return SIM_OK;
}

static bool is_aligned(const problem *p) {
  return (p->a.at | p->b.at | p->d.at | p->bias) % p->alignment == 0 && (p->workspace_bytes == 0 || p->workspace % WORKSPACE_ALIGNMENT == 0);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t x, const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c, cublasLtMatrixLayout_t c_layout,
                              void *d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  LT_ENTER(SIM_USUAL);
  problem p;
  float scale[2];
  sim_stream *s = sim_cu_stream((CUstream)stream);
  if (!sim_alive(handle, SIM_LIBRARY) || ((sim_object *)(void *)handle)->device != sim_here() || !s) return CUBLAS_STATUS_INVALID_VALUE;
  if (!a || !b || !d || c != d || !problem_of(x, a_layout, b_layout, c_layout, d_layout, &p)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&scale[0], alpha, 4);
  memcpy(&scale[1], beta, 4);
  if (scale[0] != 1 || scale[1] != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasStatus_t status = check(algorithm, &p, x->epilogue);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  p.a.at = (uintptr_t)a, p.b.at = (uintptr_t)b, p.d.at = (uintptr_t)d;
  p.bias = x->epilogue == CUBLASLT_EPILOGUE_BIAS ? (uintptr_t)x->bias : 0;
  p.alignment = alignment_of((int)algorithm->data[1], p.type), p.workspace_bytes = workspace_of((int)algorithm->data[1], &p);
  p.workspace = p.workspace_bytes ? (uintptr_t)workspace : 0;
  if (p.workspace_bytes > workspace_bytes || !is_aligned(&p)) return CUBLAS_STATUS_INVALID_VALUE;
  problem *own = malloc(sizeof *own);
  if (!own) return CUBLAS_STATUS_ALLOC_FAILED;
  *own = p;
  return status_of(sim_enqueue(s, &(sim_op){.kind = SIM_OP_CALL, .call = multiply, .staged = own, .bytes = sizeof *own}));
}
