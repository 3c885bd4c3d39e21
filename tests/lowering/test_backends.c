// The table of code generators: each row is found by its name, takes the kernels that it should,
// and its code does what the kernel says; null's does nothing.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "lowering/codegen/codegen.h"
#include "lowering/codegen/elf_loader.h"
#include "lowering/codegen/interp/interp.h"
#include "runtime/team.h"
#include "tests/lowering/kir_build.h"

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
  cr_expect_eq(tc_codegen_named("llvm"), &tc_codegen_llvm);
  cr_expect_eq(tc_codegen_named("interp"), &tc_codegen_interp);
  cr_expect_eq(tc_codegen_named("gpu_source"), &tc_codegen_gpu_source);
  cr_expect_null(tc_codegen_named("other"));
}

Test(backends, rows_take_kernels_of_their_kind) {
  tc_kir cpu = {.threads = 0}, gpu = {.threads = 32, .groups = 1};
  const tc_codegen *of_cpu[] = {&tc_codegen_llvm, &tc_codegen_interp, &tc_codegen_null};
  for (int k = 0; k < 3; k++) cr_expect(of_cpu[k]->supports(&cpu) && !of_cpu[k]->supports(&gpu), "%s", of_cpu[k]->name);
  cr_expect(tc_codegen_gpu_source.supports(&gpu) && !tc_codegen_gpu_source.supports(&cpu));
}

Test(backends, code_does_what_the_kernel_says_but_for_null) {
  const float by_llvm = run_by(&tc_codegen_llvm);
  cr_expect(by_llvm == 4 || by_llvm == -2, "%g", (double)by_llvm);
  cr_expect_eq(run_by(&tc_codegen_interp), 4);
  cr_expect_eq(run_by(&tc_codegen_null), -1);
}
