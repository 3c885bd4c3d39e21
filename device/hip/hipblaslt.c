// Finding hipBLASLt, and its numbers. TC_HIPBLASLT_LIBRARY names another file. See hipblaslt.h.
#include "device/hip/hipblaslt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "device/gpu/library.h"
#include "device/hip/library_paths.h"
#include "runtime/options.h"

#define NEEDED true
#define ABSENT false
#define OLDEST_HIP 6
#define OLDEST 600  // hipBLASLt 0.6: since then its types are those of other libraries
#define TOO_OLD 0x1000  // as a status

static struct {
  tc_lt_status (*hipblasLtGetVersion)(tc_lt_handle handle, int *version);
} more;

static const tc_library_row more_rows[] = {TC_LIBRARY_ROW(more, hipblasLtGetVersion, true)};

static const tc_library_row rows[] = {
#define TC_LT_ROW(name, cuda, hip, parameters) {"hipblasLt" #name, offsetof(tc_lt_library, f.name), hip},
#include "device/gpu/blas_lt.def"
#undef TC_LT_ROW
};

static const char *status_name(tc_lt_status status) {
#define NAME(name) \
  case TC_HIPBLAS_STATUS_##name: return "HIPBLAS_STATUS_" #name
  switch (status) {
    NAME(NOT_INITIALIZED);
    NAME(ALLOC_FAILED);
    NAME(INVALID_VALUE);
    NAME(MAPPING_ERROR);
    NAME(EXECUTION_FAILED);
    NAME(INTERNAL_ERROR);
    NAME(NOT_SUPPORTED);
    NAME(ARCH_MISMATCH);
    NAME(HANDLE_IS_NULLPTR);
    NAME(INVALID_ENUM);
    case TOO_OLD: return "it is older than 0.6";
    default: return "HIPBLAS_STATUS_UNKNOWN";
  }
#undef NAME
}

static tc_lt_library lt = {
    .name = "hipBLASLt",
    .status_name = status_name,
    .algorithm_bytes = 24,
    .out_of_memory = TC_HIPBLAS_STATUS_ALLOC_FAILED,
    .not_supported = TC_HIPBLAS_STATUS_NOT_SUPPORTED,
    .compute_f32 = TC_HIPBLAS_COMPUTE_32F,
    .f32 = TC_HIP_R_32F,
    .f16 = TC_HIP_R_16F,
    .bf16 = TC_HIP_R_16BF,
    .no_transpose = TC_HIPBLAS_OP_N,
    .transpose = TC_HIPBLAS_OP_T,
    .bias = TC_HIPBLASLT_EPILOGUE_BIAS,
    .operation_a = TC_HIPBLASLT_MATMUL_DESC_TRANSA,
    .operation_b = TC_HIPBLASLT_MATMUL_DESC_TRANSB,
    .epilogue = TC_HIPBLASLT_MATMUL_DESC_EPILOGUE,
    .bias_pointer = TC_HIPBLASLT_MATMUL_DESC_BIAS_POINTER,
    .batch_count = TC_HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
    .batch_stride = TC_HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
    .workspace = TC_HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
};

static int driver_major;
static _Atomic(const char *) own_name = "hipBLASLt";  // with its version once a device has been opened

void tc_hipblaslt_of(int hip_major) {
  driver_major = hip_major;
}

// The loader has one library of HIP's, so this one must be of the same version.
static bool open_hipblaslt(int hip_major, char *why, size_t bytes) {
  static const tc_library library = {"hipBLASLt cannot be opened",
                                     NULL,
                                     "hipBLASLt 0.6 or newer is needed",
                                     {TC_LIBRARY_TABLE(rows, lt), TC_LIBRARY_TABLE(more_rows, more)}};
  const char *path = tc_options_get()->hipblaslt_library;
  char name[32];
  snprintf(name, sizeof name, "libhipblaslt.so.%d", hip_major - OLDEST_HIP);
  if (path) return tc_library_load_path(&library, path, why, bytes);
  if (hip_major < OLDEST_HIP) {
    snprintf(why, bytes, "hipBLASLt of HIP %d.0 or newer is needed, and the driver is of HIP %d", OLDEST_HIP,
             hip_major);
    return false;
  }
  void *handle = tc_hip_library_paths_open(name);
  if (handle) return tc_library_load(&library, handle, name, NULL, why, bytes);
  snprintf(why, bytes, "hipBLASLt is nowhere: no %s among the loader's libraries or in /opt/rocm", name);
  return false;
}

static bool is_ready(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  static tc_library_once once;
  const tc_options *o = tc_options_get();
  (void)p;
  if (o->deterministic || (!o->autotune && strcmp(o->gpu_libraries, "always") != 0)) {
    snprintf(
        why, bytes,
        "hipBLASLt may add in any order, so it is used only where it is measured (TC_AUTOTUNE=1 without TC_DETERMINISTIC)");
    return false;
  }
  if (!tc_library_open_once(&once, open_hipblaslt, driver_major, why, bytes)) return false;
  if (tc_hip_library_paths_kernels((void *)(uintptr_t)lt.f.Create, o->hipblaslt_kernels, "hipblaslt", facts->arch))
    return true;
  snprintf(why, bytes, "hipBLASLt has no kernels for %s", facts->arch);
  return false;
}

static const char *name_of(const tc_gpu_port *p) {
  (void)p;
  return atomic_load(&own_name);
}

static void set_name(int version) {
  static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;
  static char text[32];
  pthread_mutex_lock(&naming);
  if (!text[0])
    snprintf(text, sizeof text, "hipBLASLt %d.%d.%d", version / 100000, version / 100 % 1000, version % 100);
  atomic_store(&own_name, text);
  pthread_mutex_unlock(&naming);
}

void tc_hipblaslt_close(tc_gpu_port *p) {
  tc_lt_close(&lt, p);
}

static int open_handle(tc_gpu_port *p) {
  size_t room = 0;
  int version = 0, result = tc_gpu_port_free_bytes(p, &room);
  if (result == 0 && room < TC_HIPBLASLT_LEAST_ROOM) result = TC_LT_RESULTS + TC_HIPBLAS_STATUS_ALLOC_FAILED;
  if (result == 0) result = tc_lt_open(&lt, p);
  if (result != 0) return result;
  tc_lt_status status = more.hipblasLtGetVersion(p->library[TC_GPU_MATMULS], &version);
  if (status == 0) set_name(version);
  if (status == 0 && version < OLDEST) status = TOO_OLD;
  if (status != 0) tc_hipblaslt_close(p);
  return status == 0 ? 0 : (int)(TC_LT_RESULTS + status);
}

static int make_work(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  (void)p;
  return tc_lt_make(&lt, w, out);
}

tc_gpu_verdict tc_hipblaslt_judge(int result, const char **name) {
  return tc_lt_judge(&lt, result, name);
}

const tc_gpu_library_driver tc_hipblaslt = {
    .ready = is_ready,
    .name = name_of,
    .open = open_handle,
    .make = make_work,
    .drop = tc_lt_drop,
    .find = tc_lt_find,
    .check = tc_lt_check,
    .run = tc_lt_run,
};
