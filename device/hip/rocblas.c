// Matrix products by rocBLAS. TC_ROCBLAS_LIBRARY names another file. See rocblas.h.
#include "device/hip/rocblas.h"

#include <stdio.h>
#include <string.h>

#include "device/gpu/library.h"
#include "device/hip/library_paths.h"
#include "runtime/arena.h"
#include "runtime/options.h"

#define NEEDED 1
// The largest workspace is what rocBLAS takes for itself if it is given none. Smaller products get
// room for the f32 results of PARTS parts of k. The shape alone decides, because the library's own
// choice may depend on the workspace.
#define MOST_WORKSPACE ((uint64_t)32 << 20)
#define LEAST_WORKSPACE ((uint64_t)1 << 20)
#define PARTS 64
enum { OWN_CHOICE = 1, BY_NUMBER };  // the first word of an algorithm; the second is the solution's number

static struct {
#define TC_ROCBLAS_ROW(symbol, needed, result, parameters) result(*symbol) parameters;
#include "device/hip/rocblas.def"
#undef TC_ROCBLAS_ROW
} rb;

static const tc_library_row rows[] = {
#define TC_ROCBLAS_ROW(symbol, needed, result, parameters) TC_LIBRARY_ROW(rb, symbol, needed),
#include "device/hip/rocblas.def"
#undef TC_ROCBLAS_ROW
};

static int driver_major;
static char name_text[64] = "rocBLAS";

// ---- the library ----

void tc_rocblas_of(int hip_major) {
  driver_major = hip_major;
}

// The loader has one library of HIP's, so this one must be of the same version.
static void *find_rocblas(char *text, size_t bytes) {
  static const struct {
    int hip, own;
  } versions[] = {{7, 5}, {6, 4}, {5, 3}, {5, 0}};
  const char *path = tc_options_get()->rocblas_library;
  void *handle = NULL;
  if (path) return tc_library_open(path, text, bytes);
  for (size_t i = 0; i < sizeof versions / sizeof *versions && !handle; i++) {
    char name[32];
    snprintf(name, sizeof name, "librocblas.so.%d", versions[i].own);
    if (versions[i].hip == driver_major) handle = tc_hip_library_paths_open(name);
  }
  if (!handle)
    snprintf(text, bytes, "there is none for HIP %d among the loader's libraries or in /opt/rocm", driver_major);
  return handle;
}

static bool open_rocblas(int hip_major, char *why, size_t bytes) {
  static const tc_library library = {
      "rocBLAS cannot be opened", "rocBLAS", "it is older than 2.40, or another library", {TC_LIBRARY_TABLE(rows, rb)}};
  char text[192], version[40] = "";
  (void)hip_major;
  void *handle = find_rocblas(text, sizeof text);
  if (!tc_library_load(&library, handle, NULL, text, why, bytes)) return false;
  tc_rocblas_status status = rb.rocblas_get_version_string(version, sizeof version);
  if (status == TC_rocblas_status_success) snprintf(name_text, sizeof name_text, "rocBLAS %s", version);
  return true;
}

static bool is_ready(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes) {
  static tc_library_once once;
  (void)p;
  if (!tc_library_open_once(&once, open_rocblas, driver_major, why, bytes)) return false;
  if (tc_hip_library_paths_kernels((void *)(uintptr_t)rb.rocblas_create_handle, tc_options_get()->rocblas_kernels,
                                   "rocblas", facts->arch))
    return true;
  snprintf(why, bytes, "rocBLAS has no kernels for %s", facts->arch);
  return false;
}

static const char *name_of(const tc_gpu_port *p) {
  (void)p;
  return name_text;
}

// A call that was slower for want of memory has succeeded all the same.
static int result_of(tc_rocblas_status status) {
  return status == TC_rocblas_status_success || status == TC_rocblas_status_perf_degraded
             ? 0
             : (int)(TC_ROCBLAS_RESULTS + status);
}

// Errors of a device that is gone are reported better by the driver's next call.
tc_gpu_verdict tc_rocblas_judge(int result, const char **name) {
  tc_rocblas_status status = (tc_rocblas_status)(result - TC_ROCBLAS_RESULTS);
  *name = rb.rocblas_status_to_string(status);
  return status == TC_rocblas_status_memory_error ? TC_GPU_OUT_OF_MEMORY : TC_GPU_REFUSED;
}

void tc_rocblas_close(tc_gpu_port *p) {
  if (p->library[TC_GPU_MATMULS]) (void)rb.rocblas_destroy_handle(p->library[TC_GPU_MATMULS]);
  p->library[TC_GPU_MATMULS] = NULL;
}

static int open_handle(tc_gpu_port *p) {
  tc_rocblas_handle handle = NULL;
  tc_rocblas_status status = rb.rocblas_create_handle(&handle);
  if (status != TC_rocblas_status_success) return result_of(status);
  p->library[TC_GPU_MATMULS] = handle;
  status = rb.rocblas_set_stream(handle, p->stream[TC_GPU_WORK]);
  if (status == TC_rocblas_status_success) status = rb.rocblas_set_atomics_mode(handle, TC_rocblas_atomics_not_allowed);
  if (status != TC_rocblas_status_success) tc_rocblas_close(p);
  return result_of(status);
}

static int set_stream(tc_gpu_port *p, void *stream) {
  return result_of(rb.rocblas_set_stream(p->library[TC_GPU_MATMULS], stream));
}

// ---- a product ----

static int make_work(tc_gpu_port *p, const tc_gpu_work *w, void **out) {
  tc_gpu_matmul_facts *f = tc_malloc(sizeof *f);
  (void)p;
  *out = f;
  if (!f) return result_of(TC_rocblas_status_memory_error);
  *f = w->matmul;
  return 0;
}

static void drop_work(void *made) {
  tc_free(made);
}

// The library's numbers have 32 bits.
static bool product_fits(const tc_gpu_matmul_facts *f) {
  const int64_t number[] = {f->m, f->n, f->k, f->left.row, f->right.row, f->batch};
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    if (number[i] > INT32_MAX) return false;
  return f->epilogue == TC_GPU_NO_EPILOGUE;
}

static uint64_t workspace_of(const tc_gpu_matmul_facts *f) {
  double bytes = 4.0 * PARTS * (double)f->batch * (double)f->m * (double)f->n;
  return bytes < (double)(MOST_WORKSPACE - LEAST_WORKSPACE) ? LEAST_WORKSPACE + (uint64_t)bytes : MOST_WORKSPACE;
}

// The arguments that describe a product, in the order of both functions.
#define OPERATION(o) ((o).transposed ? TC_rocblas_operation_transpose : TC_rocblas_operation_none)
#define SHAPE(f) OPERATION((f)->right), OPERATION((f)->left), (int32_t)(f)->n, (int32_t)(f)->m, (int32_t)(f)->k
#define OPERAND(o, at, type) (at), (type), (int32_t)(o).row, (o).batch
#define RESULT(f, at, type) (at), (type), (int32_t)(f)->n, (f)->m *(f)->n

static tc_rocblas_type type_of(tc_type type) {
  return type == TC_F16    ? TC_rocblas_datatype_f16_r
         : type == TC_BF16 ? TC_rocblas_datatype_bf16_r
                           : TC_rocblas_datatype_f32_r;
}

static const float one = 1, zero = 0;

// Lists the numbers of its solutions: all, or as many as there is room for. *n is the list's
// length.
static tc_rocblas_status list_solutions(tc_gpu_port *p, const tc_gpu_matmul_facts *f, int32_t *out, int32_t *n) {
  tc_rocblas_type type = type_of(f->type);
  void *place = (void *)(uintptr_t)256;  // never read, but checked
  return rb.rocblas_gemm_strided_batched_ex_get_solutions(
      p->library[TC_GPU_MATMULS], SHAPE(f), &one, OPERAND(f->right, place, type), OPERAND(f->left, place, type), &zero,
      RESULT(f, place, type), RESULT(f, place, type), (int32_t)f->batch, TC_rocblas_datatype_f32_r,
      TC_rocblas_gemm_algo_solution_index, TC_rocblas_gemm_flags_none, out, n);
}

// Returns all of them, to be freed.
static tc_rocblas_status list_all(tc_gpu_port *p, const tc_gpu_matmul_facts *f, int32_t **out, int32_t *n) {
  *out = NULL, *n = 0;
  if (!rb.rocblas_gemm_strided_batched_ex_get_solutions) return TC_rocblas_status_success;
  tc_rocblas_status status = list_solutions(p, f, NULL, n);
  if (status != TC_rocblas_status_success || *n <= 0) return status;
  int32_t *all = tc_calloc((size_t)*n, sizeof *all);
  if (!all) return TC_rocblas_status_memory_error;
  status = list_solutions(p, f, all, n);
  if (status != TC_rocblas_status_success) return tc_free(all), status;
  *out = all;
  return status;
}

// Writes the library's own choice, then some of its solutions, which are in no order.
static int find_algorithms(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n) {
  const tc_gpu_matmul_facts *f = made;
  int32_t *all, n_all;
  *n = 0;
  if (!product_fits(f)) return 0;
  tc_rocblas_status status = list_all(p, f, &all, &n_all);
  if (status != TC_rocblas_status_success) return result_of(status);
  out[(*n)++] = (tc_gpu_algorithm){{OWN_CHOICE}, workspace_of(f)};
  for (int i = 0; i < n_all && *n < most; i++)
    out[(*n)++] = (tc_gpu_algorithm){{BY_NUMBER, (uint64_t)all[i]}, workspace_of(f)};
  tc_free(all);
  return 0;
}

static int check_algorithm(tc_gpu_port *p, void *made, tc_gpu_algorithm *a) {
  const tc_gpu_matmul_facts *f = made;
  tc_gpu_algorithm same = {{a->data[0], a->data[1]}, a->workspace_bytes};
  int32_t *all, n_all;
  if (!product_fits(f)) return result_of(TC_rocblas_status_not_implemented);
  a->workspace_bytes = workspace_of(f);
  if (memcmp(same.data, a->data, sizeof same.data) != 0) return result_of(TC_rocblas_status_invalid_value);
  if (a->data[0] == OWN_CHOICE && a->data[1] == 0) return 0;
  tc_rocblas_status status = list_all(p, f, &all, &n_all);
  bool there = false;
  for (int i = 0; i < n_all && all; i++) there |= (uint64_t)all[i] == a->data[1];
  tc_free(all);
  if (status == TC_rocblas_status_success && (a->data[0] != BY_NUMBER || !there))
    status = TC_rocblas_status_invalid_value;
  return result_of(status);
}

static int run_work(tc_gpu_port *p, const tc_gpu_request *r) {
  const tc_gpu_matmul_facts *f = r->made;
  tc_rocblas_handle handle = p->library[TC_GPU_MATMULS];
  tc_rocblas_type type = type_of(f->type);
  bool by_number = r->algorithm->data[0] == BY_NUMBER;
  tc_rocblas_status status = rb.rocblas_set_workspace(handle, r->workspace, r->algorithm->workspace_bytes);
  if (status == TC_rocblas_status_success)
    status = rb.rocblas_gemm_strided_batched_ex(
        handle, SHAPE(f), &one, OPERAND(f->right, r->right, type), OPERAND(f->left, r->left, type), &zero,
        RESULT(f, r->result, type), RESULT(f, r->result, type), (int32_t)f->batch, TC_rocblas_datatype_f32_r,
        by_number ? TC_rocblas_gemm_algo_solution_index : TC_rocblas_gemm_algo_standard, (int32_t)r->algorithm->data[1],
        TC_rocblas_gemm_flags_none);
  return result_of(status);
}

const tc_gpu_library_driver tc_rocblas = {
    .ready = is_ready,
    .name = name_of,
    .open = open_handle,
    .make = make_work,
    .drop = drop_work,
    .find = find_algorithms,
    .check = check_algorithm,
    .set_stream = set_stream,
    .run = run_work,
};
