// The table of code generators: each row is found by its name, takes the kernels that it should,
// and its code does what the kernel says; null's does nothing. Every row that takes a CPU's kernels
// has the interpreter's bits, of every instruction, type and width: a new row is held to that.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/codegen.h"
#include "lowering/codegen/elf_loader.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/kir/math.h"
#include "runtime/team.h"
#include "tests/kir_cases.h"
#include "tests/lowering/kir_build.h"
#include "tests/near.h"

static const tc_codegen *const rows[] = {
#define TC_CODEGEN(name) &tc_codegen_##name,
#include "lowering/codegen/backends.def"
#undef TC_CODEGEN
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

// y[i] = x[i] + x[i], i of [begin, end).
static tc_kir twice(void) {
  tc_kir n = {.n_num = 0};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  uint32_t begin = OP0(&n, BEGIN, TC_I64, 1, 0), end = OP0(&n, FINISH, TC_I64, 1, 0),
           i = OP2(&n, LOOP, TC_I64, 1, 1, begin, end);
  uint32_t x = OP1(&n, LOAD, TC_F32, 1, 0, i);
  OP2(&n, STORE, TC_F32, 1, 1, i, OP2(&n, ADD, TC_F32, 1, 0, x, x));
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  return n;
}

// What y[1] is after the row's code did units 0 to 3; -2: the row cannot compile here.
static float run_by(const tc_codegen *row) {
  float x[4] = {1, 2, 3, 4}, y[4] = {-1, -1, -1, -1};
  void *buf[2] = {x, y}, *bytes = NULL;
  size_t n_bytes = 0;
  tc_kir n = twice();
  tc_codegen_opened opened = {.build = ""};
  tc_codegen_code code;
  if (row->open && !row->open(&opened)) return tc_kir_destroy(&n), -2;
  cr_assert(row->supports(&n));
  if (row->compile)
    cr_assert_eq(row->compile(&n, "twice", &bytes, &n_bytes, NULL), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(row->load(&n, "twice", bytes, n_bytes, NULL, &code), TC_OK, "%s", tc_last_error()->message);
  tc_worker worker = {.scratch = aligned_alloc(64, 1 << 16)};
  code.fn(code.ctx, buf, NULL, 0, 4, &worker);
  free(worker.scratch), free(bytes);
  if (code.interp) tc_interp_destroy(code.interp);
  if (code.elf) tc_elf_unload(code.elf);
  tc_kir_destroy(&n);
  return y[1];
}

Test(backends, rows_have_names) {
  for (int k = 0; k < N_ROWS; k++) cr_expect_eq(tc_codegen_named(rows[k]->name), rows[k], "%s", rows[k]->name);
  cr_expect_null(tc_codegen_named("other"));
}

Test(backends, rows_take_kernels_of_their_kind) {
  tc_kir cpu = {.threads = 0}, gpu = {.threads = 32, .groups = 1};
  for (int k = 0; k < N_ROWS; k++) cr_expect(rows[k]->supports(&cpu) != rows[k]->supports(&gpu), "%s", rows[k]->name);
  cr_expect(tc_codegen_llvm.supports(&cpu) && tc_codegen_interp.supports(&cpu) && tc_codegen_null.supports(&cpu));
  cr_expect(tc_codegen_gpu_source.supports(&gpu) && !tc_codegen_gpu_source.supports(&cpu));
}

Test(backends, code_does_what_the_kernel_says_but_for_null) {
  const float by_llvm = run_by(&tc_codegen_llvm);
  cr_expect(by_llvm == 4 || by_llvm == -2, "%g", (double)by_llvm);
  cr_expect_eq(run_by(&tc_codegen_interp), 4);
  cr_expect_eq(run_by(&tc_codegen_null), -1);
}

// ---- every instruction ----

// Runs the case's kernel by a row, into buf. False: the row makes no code of this kernel, which is
// then interpreted.
static bool run_case(const tc_codegen *row, const kir_case *f, void *const *buf) {
  void *bytes = NULL;
  size_t n_bytes = 0;
  tc_codegen_code code;
  tc_status st = row->compile ? row->compile(&f->n, "tc_case", &bytes, &n_bytes, NULL) : TC_OK;
  if (st == TC_ERR_COMPILE) return false;
  cr_assert_eq(st, TC_OK, "%s: %s", row->name, tc_last_error()->message);
  st = row->load(&f->n, "tc_case", bytes, n_bytes, NULL, &code);
  cr_assert_eq(st, TC_OK, "%s: %s", row->name, st == TC_OK ? "" : tc_last_error()->message);
  size_t scratch = (size_t)f->n.scratch_bytes;
  if (code.interp) scratch = TC_MAX_OF(scratch, tc_interp_scratch(code.interp));
  tc_worker worker = {.scratch = aligned_alloc(64, (scratch + 127) / 64 * 64), .math = tc_kir_math_table()};
  code.fn(code.ctx, buf, f->num, 0, KIR_LENGTH, &worker);
  free(worker.scratch), free(bytes);
  if (code.interp) tc_interp_destroy(code.interp);
  if (code.elf) tc_elf_unload(code.elf);
  return true;
}

static void fill_buffers(const kir_case *f, void **buf) {
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    size_t bytes = KIR_LENGTH * kir_type_bytes[f->n.buf_type[k]];
    buf[k] = calloc(1, bytes);
    if (k < f->n_in) memcpy(buf[k], f->in[k], bytes);
  }
}

// Whether the row made code of the case; its results are the interpreter's.
static bool check_case(const tc_codegen *row, kir_case *f) {
  void *got[KIR_BUFFERS], *want[KIR_BUFFERS];
  fill_buffers(f, got), fill_buffers(f, want);
  bool made = run_case(row, f, got);
  cr_assert(run_case(&tc_codegen_interp, f, want));
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    tc_type type = f->n.buf_type[k];
    int i = made ? near_find(type, got[k], want[k], KIR_LENGTH, (near_tol){.bits = true}) : -1;
    cr_expect_eq(i, -1, "%s: buffer %u (%s %s): element %d is not the interpreter's", row->name, k, kir_type_name[type],
                 f->what[k] ? f->what[k] : "", i);
    free(got[k]), free(want[k]);
  }
  kir_case_release(f);
  return made;
}

ParameterizedTestParameters(backends, every_instruction_has_the_interpreters_bits) {
  static int which[N_ROWS];
  for (int k = 0; k < N_ROWS; k++) which[k] = k;
  return cr_make_param_array(int, which, N_ROWS);
}

ParameterizedTest(int *which, backends, every_instruction_has_the_interpreters_bits, .timeout = 300) {
  const tc_codegen *row = rows[*which];
  const tc_kir cpu = {.threads = 0};
  tc_codegen_opened opened = {.build = ""};
  if (!row->supports(&cpu) || row == &tc_codegen_null || (row->open && !row->open(&opened))) return;
  static const int lanes[] = {1, 8, 64};
  kir_case f;
  int n_made = 0;
  for (tc_type t = 0; t < TC_N_TYPES; t++)
    for (int l = 0; l < 3; l++) {
      bool is_computed = t != TC_F16 && t != TC_BF16;
      if (is_computed) kir_case_ops(&f, t, lanes[l], 0), n_made += check_case(row, &f);
      if (is_computed) kir_case_rest(&f, t, lanes[l], 0), n_made += check_case(row, &f);
      kir_case_casts(&f, t, lanes[l], 0), n_made += check_case(row, &f);
      kir_case_memory(&f, t, lanes[l], 0), n_made += check_case(row, &f);
    }
  kir_case_flow(&f), n_made += check_case(row, &f);
  cr_expect(n_made > 0, "%s makes code of no case", row->name);
}
