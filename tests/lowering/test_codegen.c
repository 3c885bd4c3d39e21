// Generated code gives the bits of the interpreter: every op on every type, widths from scalar to
// 64 lanes, for this machine, for AVX2 and for bare x86-64 (where conversions, masks and gathers
// take their portable forms). The interpreter has its own tests against plain C.
// Linked with the plug-in itself, libtc-llvm.so.
#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/kir/verify.h"
#include "lowering/target/host_cpu.h"
#include "lowering/target/isa.h"
#include "lowering/codegen/llvm/codegen.h"
#include "lowering/kir/libm.h"
#include "runtime/team.h"
#include "tests/lowering/kir_build.h"
#include "tests/near.h"
#include "tests/kir_cases.h"

enum { N = KIR_LENGTH };

// ---- targets ----

typedef struct target {
  char cpu[64], features[4096];
  int bits;
} target;

enum { HOST, AVX2, BARE, N_TARGETS };

static bool get_target(int which, target *t) {
  *t = (target){.bits = 128};
  tc_llvm_plugin_get()->host(t->cpu, sizeof t->cpu, t->features, sizeof t->features);
  if (which == HOST) {
    t->bits = strstr(t->features, "+avx512f") != NULL ? 512 : 256;
    return true;
  }
#if defined(__x86_64__)
  bool has_avx2 = strstr(t->features, "+avx2") != NULL;
  const tc_isa *isa = tc_isa_named(which == AVX2 ? "avx2" : "baseline");
  strcpy(t->cpu, isa->cpu);
  strcpy(t->features, isa->features);
  t->bits = isa->vector_bytes * 8;
  return which == BARE || has_avx2;
#else
  return false;
#endif
}

// Which instruction set a process plans for, it decides without opening LLVM.
Test(codegen, the_processor_is_what_LLVM_takes_it_for) {
  char features[TC_HOST_FEATURES_BYTES], facts[2][TC_HOST_FACTS_BYTES];
  target t;
  get_target(HOST, &t);
  tc_host_features(features);
  if (strstr(features, ",+quickdots")) strcat(t.features, ",+quickdots");  // which LLVM does not tell
  cr_expect_eq(tc_isa_of_host(features, NULL), tc_isa_of_host(t.features, NULL), "%s; LLVM: %s", features, t.features);
#if defined(__x86_64__)
  static const char *const names[] = {"+avx2",     "+fma",      "+avx512f",   "+avx512vl",
                                      "+avx512dq", "+avx512bw", "+avx512bf16"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    cr_expect_eq(strstr(features, names[i]) != NULL, strstr(t.features, names[i]) != NULL, "%s: %s; LLVM: %s", names[i],
                 features, t.features);
  cr_expect(tc_isa_of_host(features, NULL) != &tc_isa_interpreted);
#endif
  tc_host_facts(facts[0]), tc_host_facts(facts[1]);
  cr_expect_str_eq(facts[0], facts[1]);
  cr_expect(strlen(facts[0]) > 20 && strlen(facts[0]) < TC_HOST_FACTS_BYTES - 1, "%s", facts[0]);
}

// ---- running a kernel both ways ----

static tc_kernel_fn *compile(const tc_kir *n, const target *t, tc_elf_code **code) {
  char text[400];
  void *object = NULL, *fn = NULL;
  size_t bytes = 0;
  tc_status st = tc_llvm_plugin_get()->compile(n, "tc_test", t->cpu, t->features, t->bits, TC_NO_DEBUG_LINES, &object,
                                               &bytes, text, sizeof text);
  cr_assert_eq(st, TC_OK, "%s", text);
  st = tc_elf_load(object, bytes, "tc_test", code, &fn);
  cr_assert_eq(st, TC_OK, "%s", st == TC_OK ? "" : tc_last_error()->message);
  free(object);
  tc_kernel_fn *kernel;
  memcpy(&kernel, &fn, sizeof kernel);
  return kernel;
}

static void run_interp(const tc_kir *n, void *const *buf, const uint64_t *num, int64_t end) {
  tc_interp *p;
  cr_assert_eq(tc_interp_create(n, &p), TC_OK);
  size_t bytes = (tc_interp_scratch(p) + 63) / 64 * 64;
  tc_worker worker = {.scratch = aligned_alloc(64, bytes + 64), .math = tc_kir_math_table()};
  tc_interp_run(p, buf, num, 0, end, &worker);
  free(worker.scratch);
  tc_interp_destroy(p);
}

static void run_compiled(const tc_kir *n, const target *t, void *const *buf, const uint64_t *num, int64_t end) {
  tc_elf_code *code = NULL;
  tc_kernel_fn *kernel = compile(n, t, &code);
  tc_worker worker = {.scratch = aligned_alloc(64, (size_t)(n->scratch_bytes + 127) / 64 * 64),
                      .math = tc_kir_math_table()};
  kernel(NULL, buf, num, 0, end, &worker);
  free(worker.scratch);
  tc_elf_unload(code);
}

static uint64_t bits_at(tc_type t, const char *p, int i) {
  uint64_t v = 0;
  memcpy(&v, p + (size_t)i * kir_type_bytes[t], kir_type_bytes[t]);
  return v;
}

static void check(kir_case *f, const target *t, int lanes) {
  char text[200], *got[KIR_BUFFERS], *want[KIR_BUFFERS];
  cr_assert_eq(tc_kir_verify(&f->n, text, sizeof text), TC_OK, "%s", text);
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    size_t bytes = (N + 1) * kir_type_bytes[f->n.buf_type[k]];
    got[k] = (char *)calloc(1, bytes + 64) + kir_type_bytes[f->n.buf_type[k]];  // aligned to elements only
    want[k] = (char *)calloc(1, bytes + 64) + kir_type_bytes[f->n.buf_type[k]];
    if (k >= f->n_in) continue;
    memcpy(got[k], f->in[k], N * kir_type_bytes[f->n.buf_type[k]]);
    memcpy(want[k], f->in[k], N * kir_type_bytes[f->n.buf_type[k]]);
  }
  run_interp(&f->n, (void **)want, f->num, N);
  run_compiled(&f->n, t, (void **)got, f->num, N);
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    tc_type type = f->n.buf_type[k];
    int i = near_find(type, got[k], want[k], N, (near_tol){.bits = true});
    cr_expect_eq(i, -1,
                 "%s, %d lanes, %s: buffer %u (%s %s) element %d is %llx, interpreter has %llx; inputs %llx %llx",
                 t->cpu, lanes, tc_llvm_plugin_get()->version, k, kir_type_name[type], f->what[k] ? f->what[k] : "", i,
                 (unsigned long long)bits_at(type, got[k], i < 0 ? 0 : i),
                 (unsigned long long)bits_at(type, want[k], i < 0 ? 0 : i),
                 (unsigned long long)bits_at(f->n.buf_type[0], want[0], i < 0 ? 0 : i),
                 f->n_in > 1 ? (unsigned long long)bits_at(f->n.buf_type[1], want[1], i < 0 ? 0 : i) : 0);
    free(got[k] - kir_type_bytes[type]);
    free(want[k] - kir_type_bytes[type]);
  }
}

// ---- every instruction ----

static const int widths[] = {1, 2, 4, 8, 16, 32, 64};
#define N_WIDTHS (int)(sizeof widths / sizeof widths[0])

static void check_case(void (*make)(kir_case *f, tc_type t, int lanes, int threads), tc_type t, int lanes,
                       const target *on) {
  kir_case f;
  make(&f, t, lanes, 0);
  check(&f, on, lanes);
  kir_case_release(&f);
}

static void check_ops_on(int which) {
  static const tc_type types[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_F32, TC_F64};
  target t;
  if (!get_target(which, &t)) cr_skip_test("not this machine");
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
    for (int w = 0; w < N_WIDTHS; w += which == HOST ? 1 : 3) check_case(kir_case_ops, types[k], widths[w], &t);
}

Test(codegen, ops_match_the_interpreter_on_this_machine, .timeout = 120) {
  check_ops_on(HOST);
}
Test(codegen, ops_match_the_interpreter_on_avx2, .timeout = 120) {
  check_ops_on(AVX2);
}
Test(codegen, ops_match_the_interpreter_on_bare_x86_64, .timeout = 120) {
  check_ops_on(BARE);
}

// ---- casts ----

static void check_casts_on(int which) {
  target t;
  if (!get_target(which, &t)) cr_skip_test("not this machine");
  for (tc_type from = 0; from < TC_N_TYPES; from++)
    for (int w = 0; w < N_WIDTHS; w += which == HOST ? 1 : 3) check_case(kir_case_casts, from, widths[w], &t);
}

Test(codegen, casts_match_the_interpreter_on_this_machine, .timeout = 120) {
  check_casts_on(HOST);
}
Test(codegen, casts_match_the_interpreter_on_avx2, .timeout = 120) {
  check_casts_on(AVX2);
}
Test(codegen, casts_match_the_interpreter_on_bare_x86_64, .timeout = 120) {
  check_casts_on(BARE);
}

// ---- memory ----

static void check_memory_on(int which) {
  target t;
  if (!get_target(which, &t)) cr_skip_test("not this machine");
  for (tc_type type = 0; type < TC_N_TYPES; type++)
    for (int w = 0; w < N_WIDTHS; w += which == HOST ? 1 : 3) check_case(kir_case_memory, type, widths[w], &t);
}

Test(codegen, memory_matches_the_interpreter_on_this_machine, .timeout = 120) {
  check_memory_on(HOST);
}
Test(codegen, memory_matches_the_interpreter_on_avx2, .timeout = 120) {
  check_memory_on(AVX2);
}
Test(codegen, memory_matches_the_interpreter_on_bare_x86_64, .timeout = 120) {
  check_memory_on(BARE);
}

// ---- leaves, reductions, zips, calls ----

static void check_rest_on(int which) {
  static const tc_type types[] = {TC_BOOL, TC_U8, TC_I8, TC_I16, TC_I32, TC_I64, TC_F32, TC_F64};
  target t;
  if (!get_target(which, &t)) cr_skip_test("not this machine");
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
    for (int w = 0; w < N_WIDTHS; w += which == HOST ? 1 : 3) check_case(kir_case_rest, types[k], widths[w], &t);
}

Test(codegen, reductions_calls_and_leaves_match_on_this_machine, .timeout = 120) {
  check_rest_on(HOST);
}
Test(codegen, reductions_calls_and_leaves_match_on_avx2, .timeout = 120) {
  check_rest_on(AVX2);
}
Test(codegen, reductions_calls_and_leaves_match_on_bare_x86_64, .timeout = 120) {
  check_rest_on(BARE);
}

// ---- debug lines ----

// The bytes of section .text, which begins with the function; relocations are not applied.
static const uint8_t *find_text(const uint8_t *object, size_t *bytes) {
  Elf64_Ehdr head;
  Elf64_Shdr names, s;
  memcpy(&head, object, sizeof head);
  memcpy(&names, object + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
  for (int i = 0; i < head.e_shnum; i++) {
    memcpy(&s, object + head.e_shoff + (size_t)i * sizeof s, sizeof s);
    if (strcmp((const char *)object + names.sh_offset + s.sh_name, ".text") != 0) continue;
    *bytes = s.sh_size;
    return object + s.sh_offset;
  }
  return NULL;
}

static void check_lines(void (*make)(kir_case *f, tc_type t, int lanes, int threads), int lanes) {
  char text[400];
  void *object[2];
  size_t bytes[2], text_bytes[2];
  target t;
  kir_case f;
  get_target(HOST, &t);
  make(&f, TC_F32, lanes, 0);
  for (int k = 0; k < 2; k++)
    cr_assert_eq(
        tc_llvm_plugin_get()->compile(&f.n, "k", t.cpu, t.features, t.bits, k ? TC_DEBUG_LINES : TC_NO_DEBUG_LINES,
                                      &object[k], &bytes[k], text, sizeof text),
        TC_OK, "%s", text);
  const uint8_t *plain = find_text(object[0], &text_bytes[0]), *lined = find_text(object[1], &text_bytes[1]);
  cr_assert(plain != NULL && lined != NULL && bytes[1] > bytes[0]);
  cr_expect(text_bytes[0] == text_bytes[1] && memcmp(plain, lined, text_bytes[0]) == 0, "%d lanes: other code", lanes);
  free(object[0]);
  free(object[1]);
  kir_case_release(&f);
}

Test(codegen, debug_lines_leave_the_code_as_it_is, .timeout = 120) {
  for (int w = 0; w < N_WIDTHS; w += 2) {
    check_lines(kir_case_ops, widths[w]);
    check_lines(kir_case_casts, widths[w]);
    check_lines(kir_case_memory, widths[w]);
    check_lines(kir_case_rest, widths[w]);
  }
}

// ---- control flow ----

Test(codegen, variables_flow_through_loops_and_ifs) {
  target t;
  kir_case f;
  get_target(HOST, &t);
  kir_case_flow(&f);
  check(&f, &t, 4);
  kir_case_release(&f);
}

Test(codegen, streaming_stores_write_aligned_vectors) {
  target t;
  get_target(HOST, &t);
  float *in = aligned_alloc(64, N * 4), *out = aligned_alloc(64, N * 4);
  for (int i = 0; i < N; i++) in[i] = (float)i, out[i] = 0;
  tc_kir n = {.n_inst = 0};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  uint32_t b = OP0(&n, BEGIN, TC_I64, 1, 0), e = OP0(&n, FINISH, TC_I64, 1, 0), i = OP2(&n, LOOP, TC_I64, 1, 64, b, e);
  uint32_t v = OP1(&n, LOAD, TC_F32, 64, 0, i);
  n.inst[OP2(&n, STORE, TC_F32, 64, 1, i, v)].flags = 1;
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  run_compiled(&n, &t, (void *[]){in, out}, NULL, N);
  cr_assert_eq(memcmp(in, out, N * 4), 0);
#if defined(__x86_64__)
  char *text = NULL, why[200];
  cr_assert_eq(tc_llvm_plugin_get()->assembly(&n, "k", t.cpu, t.features, t.bits, &text, why, sizeof why), TC_OK, "%s",
               why);
  cr_assert_not_null(strstr(text, "movnt"));
  free(text);
#endif
  tc_kir_destroy(&n);
  free(in), free(out);
}

// Spread over four lanes, the number of a scalar's one lane is 0 in each.
Test(codegen, a_scalar_has_lane_0_in_every_lane) {
  target t;
  get_target(HOST, &t);
  tc_kir n = {.n_inst = 0};
  int64_t x[4] = {10, 11, 12, 13}, got[4] = {0}, want[4] = {0};
  put_buffer(&n, TC_I64), put_buffer(&n, TC_I64);
  uint32_t zero = put_i64(&n, 0), one = put_i64(&n, 1);
  OP2(&n, LOOP, TC_I64, 1, 1, zero, one);
  uint32_t at = OP1(&n, SPLAT, TC_I64, 4, 0, OP0(&n, LANES, TC_I64, 1, 0));
  OP3(&n, STORE, TC_I64, 4, 1, zero, OP2(&n, GATHER, TC_I64, 4, 0, at, TC_NONE), TC_NONE);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  run_interp(&n, (void *[]){x, want}, NULL, 1);
  run_compiled(&n, &t, (void *[]){x, got}, NULL, 1);
  for (int i = 0; i < 4; i++)
    cr_expect(got[i] == 10 && want[i] == 10, "lane %d: %lld, interpreted %lld", i, (long long)got[i],
              (long long)want[i]);
  tc_kir_destroy(&n);
}

Test(codegen, a_kernel_that_cannot_be_printed_fails_with_a_reason) {
  target t;
  get_target(HOST, &t);
  tc_kir n = {.n_inst = 0};
  void *object = NULL;
  size_t bytes;
  char text[200];
  uint32_t a = OP0(&n, CONST, TC_F32, 1, 0);
  uint32_t rem = OP2(&n, REM, TC_F32, 1, 0, a, a);
  OP1(&n, VAR, TC_F32, 1, 0, rem);
  cr_assert_eq(tc_llvm_plugin_get()->compile(&n, "k", t.cpu, t.features, t.bits, TC_NO_DEBUG_LINES, &object, &bytes,
                                             text, sizeof text),
               TC_ERR_COMPILE);
  cr_assert_null(object);
  cr_assert_not_null(strstr(text, "rem"), "%s", text);
  n.n_inst = 1;
  OP2(&n, ADD, TC_F32, 1, 0, a, 7);
  cr_assert_eq(tc_llvm_plugin_get()->compile(&n, "k", t.cpu, t.features, t.bits, TC_NO_DEBUG_LINES, &object, &bytes,
                                             text, sizeof text),
               TC_ERR_COMPILE);
  n.n_inst = 1;
  OP1(&n, ADD, TC_I64, 1, 0, a);
  cr_assert_eq(tc_llvm_plugin_get()->compile(&n, "k", t.cpu, t.features, t.bits, TC_NO_DEBUG_LINES, &object, &bytes,
                                             text, sizeof text),
               TC_ERR_COMPILE);
  n.n_inst = 1;
  OP1(&n, PREFETCH, TC_F32, 1, 1 << 30, a);
  cr_assert_eq(tc_llvm_plugin_get()->compile(&n, "k", t.cpu, t.features, t.bits, TC_NO_DEBUG_LINES, &object, &bytes,
                                             text, sizeof text),
               TC_ERR_COMPILE);
  cr_assert_not_null(strstr(text, "no buffer"), "%s", text);
  tc_kir_destroy(&n);
}
