// Finding cuBLASLt: as NVRTC is found (nvrtc.c), with TC_CUBLASLT_LIBRARY in place of its variable.
// See blaslt.h.
#include "device/cuda/blaslt.h"

#include <stdio.h>

#include "device/cuda/library_paths.h"
#include "device/gpu/library.h"
#include "runtime/options.h"

#define OLDEST_MAJOR 11
#define NEEDED true
#define ABSENT false

static struct {
  size_t (*cublasLtGetVersion)(void);
  const char *(*cublasLtGetStatusName)(tc_lt_status status);  // since CUDA 11.4; without it messages say a number
} more;

static const tc_library_row more_rows[] = {
    TC_LIBRARY_ROW(more, cublasLtGetVersion, true),
    TC_LIBRARY_ROW(more, cublasLtGetStatusName, false),
};

static const tc_library_row rows[] = {
#define TC_LT_ROW(name, cuda, hip, parameters) {"cublasLt" #name, offsetof(tc_lt_library, f.name), cuda},
#include "device/gpu/blas_lt.def"
#undef TC_LT_ROW
};

static tc_lt_library lt = {
    .name = "cuBLASLt",
    .algorithm_bytes = 64,
    .out_of_memory = TC_CUBLAS_STATUS_ALLOC_FAILED,
    .not_supported = TC_CUBLAS_STATUS_NOT_SUPPORTED,
    .compute_f32 = TC_CUBLAS_COMPUTE_32F,
    .f32 = TC_CUDA_R_32F,
    .f16 = TC_CUDA_R_16F,
    .bf16 = TC_CUDA_R_16BF,
    .no_transpose = TC_CUBLAS_OP_N,
    .transpose = TC_CUBLAS_OP_T,
    .bias = TC_CUBLASLT_EPILOGUE_BIAS,
    .operation_a = TC_CUBLASLT_MATMUL_DESC_TRANSA,
    .operation_b = TC_CUBLASLT_MATMUL_DESC_TRANSB,
    .epilogue = TC_CUBLASLT_MATMUL_DESC_EPILOGUE,
    .bias_pointer = TC_CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    .batch_count = TC_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
    .batch_stride = TC_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    .workspace = TC_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    .schemes = TC_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    .aligned = {TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, TC_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
    .scheme = TC_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
};

static char name_text[32];
static int version_major;

static bool load_cublaslt(int driver_major, const char *path, char *why, size_t bytes) {
  static const tc_library library = {"cuBLASLt, NVIDIA's library of products, cannot be opened",
                                     NULL,
                                     "cuBLASLt of CUDA 11 or newer is needed",
                                     {TC_LIBRARY_TABLE(more_rows, more), TC_LIBRARY_TABLE(rows, lt)}};
  (void)driver_major;
  if (!tc_library_load_path(&library, path, why, bytes)) return false;
  // 130100; the first versions say 11401.
  lt.status_name = more.cublasLtGetStatusName;
  size_t v = more.cublasLtGetVersion();
  int major = (int)(v >= 100000 ? v / 10000 : v / 1000), minor = (int)(v >= 100000 ? v / 100 % 100 : v / 100 % 10);
  version_major = major;
  snprintf(name_text, sizeof name_text, "cuBLASLt %d.%d.%d", major, minor, (int)(v % 100));
  return true;
}

static bool open_cublaslt(int driver_major, char *why, size_t bytes) {
  const char *path = tc_options_get()->cublaslt_library;
  char name[32];
  for (int major = driver_major; !path && major >= OLDEST_MAJOR; major--) {
    snprintf(name, sizeof name, "libcublasLt.so.%d", major);
    if (tc_cuda_library_find(load_cublaslt, driver_major, name, why, bytes)) return true;
  }
  if (!path)
    snprintf(
        why, bytes,
        "cuBLASLt, NVIDIA's library of products, is nowhere: no libcublasLt.so.%d or older among the loader's libraries, in /usr/local/cuda, "
        "CUDA_HOME or Python's packages",
        driver_major);
  if (!path || !load_cublaslt(driver_major, path, why, bytes)) return false;
  if (version_major >= OLDEST_MAJOR && version_major <= driver_major) return true;
  snprintf(why, bytes, "%s is %s, and for the driver of CUDA %d one of CUDA %d to %d is needed", path, name_text,
           driver_major, OLDEST_MAJOR, driver_major);
  return false;
}

const tc_lt_library *tc_blaslt_ready(int driver_major, char *why, size_t bytes) {
  static tc_library_once once;
  return tc_library_open_once(&once, open_cublaslt, driver_major, why, bytes) ? &lt : NULL;
}

const char *tc_blaslt_name(void) {
  return name_text;
}
