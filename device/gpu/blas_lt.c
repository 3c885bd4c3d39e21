// Matrix products by cuBLASLt or hipBLASLt. See blas_lt.h.
#include "device/gpu/blas_lt.h"

#include <string.h>

#include "runtime/arena.h"

// The workspace that vendors recommend on their largest devices; algorithms for other devices take
// less of it. A run has what its own algorithm needs.
#define MOST_WORKSPACE ((uint64_t)32 << 20)
#define MOST_FOUND 16
#define USUAL_ALIGNMENT 16

// The library's description of one product.
typedef struct made {
  const tc_lt_library *lt;
  tc_lt_matmul matmul;
  tc_lt_layout right, left, result;
  uint32_t alignment;
  bool bias;
} made;

// The library's algorithms, in room for the widest library's.
typedef struct found {
  uint64_t bytes[MOST_FOUND][sizeof(tc_gpu_algorithm) / 8 + sizeof(tc_lt_answer) / 8];
  int n;
} found;

// ---- the library ----

static int result_of(tc_lt_status status) {
  return status == 0 ? 0 : (int)(TC_LT_RESULTS + status);
}

// Errors of a device that is gone are reported better by the driver's next call.
tc_gpu_verdict tc_lt_judge(const tc_lt_library *lt, int result, const char **name) {
  tc_lt_status status = (tc_lt_status)(result - TC_LT_RESULTS);
  *name = lt->status_name ? lt->status_name(status) : NULL;
  if (!*name) *name = "an error of the library without a name";
  return status == lt->out_of_memory ? TC_GPU_OUT_OF_MEMORY : TC_GPU_REFUSED;
}

int tc_lt_open(const tc_lt_library *lt, tc_gpu_port *p) {
  tc_lt_handle handle = NULL;
  int result = result_of(lt->f.Create(&handle));
  p->library[TC_GPU_MATMULS] = result == 0 ? handle : NULL;
  return result;
}

void tc_lt_close(const tc_lt_library *lt, tc_gpu_port *p) {
  if (p->library[TC_GPU_MATMULS]) (void)lt->f.Destroy(p->library[TC_GPU_MATMULS]);
  p->library[TC_GPU_MATMULS] = NULL;
}

// ---- a product ----

// Describes a matrix whose rows, of so many elements, are the library's columns.
static tc_lt_status layout_of(const tc_lt_library *lt, const tc_gpu_matmul_facts *f, int64_t n_rows, int64_t elements,
                              int64_t row, int64_t batch, tc_lt_layout *out) {
  int32_t n = (int32_t)f->batch;
  tc_lt_type type = f->type == TC_F16 ? lt->f16 : f->type == TC_BF16 ? lt->bf16 : lt->f32;
  tc_lt_status status = lt->f.MatrixLayoutCreate(out, type, (uint64_t)elements, (uint64_t)n_rows, row);
  if (status == 0 && n > 1) status = lt->f.MatrixLayoutSetAttribute(*out, lt->batch_count, &n, sizeof n);
  if (status == 0 && n > 1) status = lt->f.MatrixLayoutSetAttribute(*out, lt->batch_stride, &batch, sizeof batch);
  return status;
}

static tc_lt_status layouts_of(const tc_gpu_matmul_facts *f, made *x) {
  const tc_gpu_operand *a = &f->left, *b = &f->right;
  tc_lt_status status =
      layout_of(x->lt, f, b->transposed ? f->n : f->k, b->transposed ? f->k : f->n, b->row, b->batch, &x->right);
  if (status == 0)
    status = layout_of(x->lt, f, a->transposed ? f->k : f->m, a->transposed ? f->m : f->k, a->row, a->batch, &x->left);
  return status ? status : layout_of(x->lt, f, f->m, f->n, f->n, f->m * f->n, &x->result);
}

static tc_lt_status set_number(made *x, tc_lt_matmul_attribute attribute, int32_t value) {
  return x->lt->f.MatmulDescSetAttribute(x->matmul, attribute, &value, sizeof value);
}

static tc_lt_status point_at_bias(made *x, const void *bias) {
  return x->lt->f.MatmulDescSetAttribute(x->matmul, x->lt->bias_pointer, &bias, sizeof bias);
}

int tc_lt_make(const tc_lt_library *lt, const tc_gpu_work *w, void **out) {
  const tc_gpu_matmul_facts *f = &w->matmul;
  *out = NULL;
  made *x = tc_calloc(1, sizeof *x);
  if (!x) return result_of(lt->out_of_memory);
  x->lt = lt, x->alignment = f->alignment, x->bias = f->epilogue == TC_GPU_BIAS;
  tc_lt_status status = lt->f.MatmulDescCreate(&x->matmul, lt->compute_f32, lt->f32);
  if (status == 0) status = set_number(x, lt->operation_a, f->right.transposed ? lt->transpose : lt->no_transpose);
  if (status == 0) status = set_number(x, lt->operation_b, f->left.transposed ? lt->transpose : lt->no_transpose);
  if (status == 0 && x->bias) status = set_number(x, lt->epilogue, lt->bias);
  // A bias address that is never read, but aligned as the real one is: which algorithms there are
  // depends on that.
  if (status == 0 && x->bias) status = point_at_bias(x, (const void *)(uintptr_t)x->alignment);
  if (status == 0) status = layouts_of(f, x);
  if (status != 0) return tc_lt_drop(x), result_of(status);
  *out = x;
  return 0;
}

void tc_lt_drop(void *given) {
  made *x = given;
  if (x->matmul) (void)x->lt->f.MatmulDescDestroy(x->matmul);
  tc_lt_layout layout[] = {x->right, x->left, x->result};
  for (int i = 0; i < 3; i++)
    if (layout[i]) (void)x->lt->f.MatrixLayoutDestroy(layout[i]);
  tc_free(x);
}

// ---- its algorithms ----

static tc_lt_status set_preferences(const made *x, tc_lt_preference preference) {
  const tc_lt_library *lt = x->lt;
  uint64_t most = MOST_WORKSPACE;
  tc_lt_status status = lt->f.MatmulPreferenceSetAttribute(preference, lt->workspace, &most, sizeof most);
  if (status == 0 && lt->schemes)
    status = lt->f.MatmulPreferenceSetAttribute(preference, lt->schemes, &lt->scheme, sizeof lt->scheme);
  for (int i = 0; i < 4 && status == 0 && lt->aligned[i]; i++)
    status = lt->f.MatmulPreferenceSetAttribute(preference, lt->aligned[i], &x->alignment, sizeof x->alignment);
  return status;
}

// Each result has the library's own size.
static const char *algorithm_at(const tc_lt_library *lt, const found *a, int i) {
  return (const char *)a->bytes + (size_t)i * (lt->algorithm_bytes + sizeof(tc_lt_answer));
}

static tc_lt_answer answer_at(const tc_lt_library *lt, const found *a, int i) {
  tc_lt_answer answer;
  memcpy(&answer, algorithm_at(lt, a, i) + lt->algorithm_bytes, sizeof answer);
  return answer;
}

static tc_lt_status find_algorithms(tc_gpu_port *p, const made *x, int most, found *out) {
  const tc_lt_library *lt = x->lt;
  tc_lt_preference preference = NULL;
  *out = (found){.n = 0};
  if (!lt->aligned[0] && x->alignment < USUAL_ALIGNMENT) return 0;
  tc_lt_status status = lt->f.MatmulPreferenceCreate(&preference);
  if (status == 0) status = set_preferences(x, preference);
  if (status == 0)
    status = lt->f.MatmulAlgoGetHeuristic(p->library[TC_GPU_MATMULS], x->matmul, x->right, x->left, x->result,
                                          x->result, preference, most, (tc_lt_found *)(void *)out->bytes, &out->n);
  if (preference) (void)lt->f.MatmulPreferenceDestroy(preference);
  if (status != 0) out->n = 0;
  return status == lt->not_supported ? 0 : status;
}

// A library without a check is always asked for all it may answer, so that the answers are the
// same.
int tc_lt_find(tc_gpu_port *p, void *given, tc_gpu_algorithm *out, int most, int *n) {
  const made *x = given;
  found a;
  tc_lt_status status = find_algorithms(p, x, x->lt->f.MatmulAlgoCheck ? TC_MIN(most, MOST_FOUND) : MOST_FOUND, &a);
  *n = 0;
  for (int i = 0; i < a.n && *n < most; i++) {
    tc_lt_answer answer = answer_at(x->lt, &a, i);
    if (answer.state != 0 || answer.workspaceSize > MOST_WORKSPACE) continue;
    tc_gpu_algorithm *to = &out[(*n)++];
    *to = (tc_gpu_algorithm){.workspace_bytes = answer.workspaceSize};
    memcpy(to->data, algorithm_at(x->lt, &a, i), x->lt->algorithm_bytes);
  }
  return result_of(status);
}

// Checks that the algorithm is one of those that the library recommends.
static tc_lt_status find_algorithm(tc_gpu_port *p, const made *x, tc_gpu_algorithm *a) {
  found all;
  tc_lt_status status = find_algorithms(p, x, MOST_FOUND, &all);
  for (int i = 0; i < all.n; i++) {
    tc_lt_answer answer = answer_at(x->lt, &all, i);
    if (answer.state != 0 || memcmp(algorithm_at(x->lt, &all, i), a->data, x->lt->algorithm_bytes) != 0) continue;
    a->workspace_bytes = answer.workspaceSize;
    return 0;
  }
  return status ? status : x->lt->not_supported;
}

int tc_lt_check(tc_gpu_port *p, void *given, tc_gpu_algorithm *a) {
  const made *x = given;
  const tc_lt_library *lt = x->lt;
  found checked = {.n = 0};
  if (!lt->f.MatmulAlgoCheck) return result_of(find_algorithm(p, x, a));
  tc_lt_status status =
      lt->f.MatmulAlgoCheck(p->library[TC_GPU_MATMULS], x->matmul, x->right, x->left, x->result, x->result,
                            (const tc_lt_algorithm *)(void *)a->data, (tc_lt_found *)(void *)checked.bytes);
  size_t bytes = answer_at(lt, &checked, 0).workspaceSize;
  if (status == 0 && bytes > MOST_WORKSPACE) status = lt->not_supported;
  a->workspace_bytes = bytes;
  return result_of(status);
}

int tc_lt_run(tc_gpu_port *p, const tc_gpu_request *request) {
  made *x = request->made;
  static const float one = 1, zero = 0;
  tc_lt_status status = x->bias ? point_at_bias(x, request->bias) : 0;
  if (status == 0)
    status = x->lt->f.Matmul(p->library[TC_GPU_MATMULS], x->matmul, &one, request->right, x->right, request->left,
                             x->left, &zero, request->result, x->result, request->result, x->result,
                             (const tc_lt_algorithm *)(const void *)request->algorithm->data, request->workspace,
                             request->algorithm->workspace_bytes, p->stream[p->library_line[TC_GPU_MATMULS]]);
  return result_of(status);
}
