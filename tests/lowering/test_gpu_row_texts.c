// The text of row kernels through the real NVRTC, and through clang for AMD, where these are
// installed: what the simulated compiler takes is CUDA and HIP C++ too. Compiled only. Those of one
// type, every second one for one architecture of NVIDIA's, every twelfth one for one of AMD's; with
// TC_TEST_ALL=1 all for all.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/nvrtc.h"
#include "lowering/program/gpu/rows.h"
#include "runtime/arena.h"
#include "runtime/status.h"
#include "tests/lowering/amd_code.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above
#define DIMS(...) tc_dims_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define N(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct texts {
  tc_arena arena;
  const tc_gpu_row_launch *kernel[512];  // each name once
  int n;
} texts;

static void add(texts *t, const tc_gpu_row *row) {
  cr_assert(row->n_launch > 0);
  for (uint32_t i = 0; i < row->n_launch; i++) {
    int k = 0;
    while (k < t->n && strcmp(t->kernel[k]->name, row->launch[i].name) != 0) k++;
    if (k < t->n) {
      cr_expect_str_eq(t->kernel[k]->source, row->launch[i].source, "two kernels go by the name of %s",
                       row->launch[i].name);
      continue;
    }
    cr_assert(t->n < N(t->kernel));
    t->kernel[t->n++] = &row->launch[i];
  }
}

static void make(texts *t, tc_op op, int n_in, const tc_gpu_tensor *in, tc_gpu_tensor out, const uint64_t *attr) {
  tc_gpu_row row;
  const tc_gpu_row_call call = {.op = op, .n_in = n_in, .in = in, .out = out, .attr = attr};
  cr_assert_eq(tc_gpu_row_make(&call, &t->arena, &row), TC_OK, "%s", tc_last_error()->message);
  add(t, &row);
}

static void make_scans(texts *t, tc_type type) {
  static const tc_op ops[] = {TC_OP_CUMMAX, TC_OP_CUMMIN, TC_OP_CUMSUM, TC_OP_CUMPROD, TC_OP_LOGCUMSUMEXP};
  const tc_dims shapes[] = {DIMS(9), DIMS(100), DIMS(5000), DIMS(200, 3)};
  int n = tc_type_is_float(type) ? 5 : type == TC_I64 ? 4 : 2;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < N(shapes); k++)
      make(t, ops[i], 1, &(tc_gpu_tensor){type, shapes[k]}, (tc_gpu_tensor){type, shapes[k]}, (const uint64_t[]){0});
}

static void make_of_type(texts *t, tc_type type) {
  const tc_gpu_tensor x = {type, DIMS(9)}, many = {type, DIMS(5000)}, windows = {type, DIMS(8, 2)},
                      index = {TC_I64, DIMS(9)};
  const tc_gpu_tensor put[] = {x, index, x}, few[] = {many, index, x}, part[] = {x, x};
  const uint64_t attr[] = {0, 2, 1, 1};
  make_scans(t, type);
  make(t, TC_OP_ARGSORT, 1, &x, index, attr);
  make(t, TC_OP_ARGSORT, 1, &many, (tc_gpu_tensor){TC_I64, many.d}, attr);
  make(t, TC_OP_SEARCHSORTED, 2, part, index, attr);
  make(t, TC_OP_UNWINDOW, 1, &windows, x, attr);
  make(t, TC_OP_SCATTER, 3, put, x, attr);
  make(t, TC_OP_SCATTER, 3, few, many, attr);
  make(t, TC_OP_SCATTER_ADD, 3, put, x, attr);
  make(t, TC_OP_INDEX_ADD, 3, put, x, attr);
  make(t, TC_OP_CAT, 2, part, (tc_gpu_tensor){type, DIMS(18)}, attr);
  make(t, TC_OP_WRITE_SLICE, 2, part, x, attr);
}

// Kernels that know no type; those of keys of 64 bits, which tensors of 4 G elements have.
static void make_others(texts *t) {
  const tc_gpu_tensor huge = {TC_F32, DIMS(INT64_C(1) << 33)}, index = {TC_I64, DIMS(5000)},
                      values = {TC_F32, DIMS(5000)};
  const tc_gpu_tensor put[] = {huge, index, values}, nothing = {TC_U8, DIMS(0)};
  tc_gpu_row row;
  make(t, TC_OP_RANDPERM, 0, NULL, (tc_gpu_tensor){TC_I64, DIMS(9)}, NULL);
  make(t, TC_OP_RANDPERM, 0, NULL, (tc_gpu_tensor){TC_I64, DIMS(5000)}, NULL);
  make(t, TC_OP_SCATTER, 3, put, huge, (const uint64_t[]){0});
  make(t, TC_OP_SCATTER_ADD, 3, put, huge, (const uint64_t[]){0});
  make(t, TC_OP_INDEX_ADD, 3, put, huge, (const uint64_t[]){0});
  make(t, TC_OP_PAD, 1, &nothing, (tc_gpu_tensor){TC_U8, DIMS(100)}, (const uint64_t[]){0, 100});
  cr_assert_eq(tc_gpu_row_check(100, 9, 0, &t->arena, &row), TC_OK);
  add(t, &row);
}

static void make_all(texts *t, bool all) {
  for (tc_type type = 0; type < TC_N_TYPES; type++)
    if (all || type == TC_F16) make_of_type(t, type);
  make_others(t);
}

Test(gpu_row_texts, nvrtc_takes_every_kernel) {
  static const char *const arch[] = {"sm_90a", "sm_80", "sm_90", "sm_100", "sm_120"};
  static texts t;
  bool all = getenv("TC_TEST_ALL") != NULL;
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  char why[320];
  make_all(&t, all);
  if (!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why)) cr_skip_test("%s", why);
  for (int i = 0; i < (all ? N(arch) : 1); i++)
    for (int k = 0; k < t.n; k += all ? 1 : 2) {
      tc_gpu_image image;
      cr_expect_eq(tc_nvrtc_compile(arch[i], t.kernel[k]->name, t.kernel[k]->source, &image), TC_OK, "%s",
                   tc_last_error()->message);
      tc_free(image.data);
    }
  tc_arena_fini(&t.arena);
}

Test(gpu_row_texts, clang_takes_kernels_for_amd) {
  static texts t;
  bool all = getenv("TC_TEST_ALL") != NULL;
  find_clang();
  make_all(&t, all);
  for (int k = 0; k < t.n; k++)
    for (int i = 0; i < N_AMD; i++) {
      if (!all && (k % 12 || i != k / 12 % N_AMD)) continue;
      free(lean_assembly(amd_archs[i].name, t.kernel[k]->name, t.kernel[k]->source));
    }
  tc_arena_fini(&t.arena);
}
