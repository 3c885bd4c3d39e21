// Products of bf16 pairs and of bytes have the bits of hardware: DOT and tile registers, interpreted
// and compiled, against tests/golden/bf16_products.bin, and tile registers against a model on random
// tiles. Made on an Intel processor with AMX, that file holds 65 tile products and 22 of VDPBF16PS.
//
// The file: "AMXGOLD1", then records to the end, little-endian. A record: bytes op, rows, columns,
// words; then, of four bytes an element, c (rows x columns) before, a (rows x words), b (words x
// columns), c after. op 0 is TDPBF16PS; 1 to 4 are TDPBSSD, TDPBSUD, TDPBUSD and TDPBUUD; 5 is
// VDPBF16PS, `words` of them one after the other, with an element of a over all lanes.
// Compiled tile products run where tests/amx/emulator.c is preloaded; else they are skipped.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/codegen/llvm/codegen.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/verify.h"
#include "lowering/target/host_tiles.h"
#include "lowering/target/isa.h"
#include "runtime/team.h"
#include "tests/amx/model.h"
#include "tests/lowering/kir_build.h"

enum { TMM_WORDS = 256, MOST_BYTES = 1 << 18, OP_DOT = 5 };

typedef struct record {
  int op, rows, columns, words;
  uint32_t c[TMM_WORDS], a[TMM_WORDS], b[TMM_WORDS], want[TMM_WORDS];  // rows of 16
} record;

static uint8_t file[MOST_BYTES];
static size_t file_bytes;

static const uint8_t *take(const uint8_t *p, uint32_t *to, int rows, int columns) {
  memset(to, 0, TMM_WORDS * sizeof *to);
  for (int m = 0; m < rows; m++, p += 4 * columns) memcpy(to + (ptrdiff_t)16 * m, p, (size_t)columns * 4);
  return p;
}

// The record behind *at, which moves on; false: there is none.
static bool next_record(size_t *at, record *r) {
  if (file_bytes == 0) {
    FILE *f = fopen("tests/golden/bf16_products.bin", "rb");
    cr_assert(f != NULL, "no golden values");
    file_bytes = fread(file, 1, sizeof file, f);
    fclose(f);
    cr_assert(file_bytes > 8 && file_bytes < sizeof file && memcmp(file, "AMXGOLD1", 8) == 0);
  }
  if (*at == 0) *at = 8;
  if (*at >= file_bytes) return false;
  const uint8_t *p = file + *at;
  r->op = p[0], r->rows = p[1], r->columns = p[2], r->words = p[3];
  p = take(p + 4, r->c, r->rows, r->columns);
  p = take(p, r->a, r->rows, r->words);
  p = take(p, r->b, r->words, r->columns);
  p = take(p, r->want, r->rows, r->columns);
  *at = (size_t)(p - file);
  return true;
}

static void run_model(const record *r, uint32_t *c) {
  memcpy(c, r->c, sizeof r->c);
  if (r->op == 0) model_dot(c, r->a, r->b, r->rows, r->columns, r->words);
  if (r->op > 0 && r->op < OP_DOT) model_dot_bytes(c, r->a, r->b, r->rows, r->columns, r->words, r->op <= 2, r->op % 2);
  for (int m = 0; m < r->rows && r->op == OP_DOT; m++)
    for (int k = 0; k < r->words; k++)
      for (int j = 0; j < r->columns; j++)
        c[16 * m + j] = model_vdpbf16ps(c[16 * m + j], r->a[16 * m + k], r->b[16 * k + j]);
}

static void expect_same(const record *r, const uint32_t *got, const uint32_t *want, const char *who) {
  for (int m = 0; m < r->rows; m++)
    for (int j = 0; j < r->columns; j++)
      cr_assert_eq(got[16 * m + j], want[16 * m + j], "op %d, %dx%dx%d, [%d, %d]: %s %08x, not %08x", r->op, r->rows,
                   r->columns, r->words, m, j, who, got[16 * m + j], want[16 * m + j]);
}

Test(bf16_products, the_model_has_the_bits_of_hardware) {
  static record r;
  uint32_t got[TMM_WORDS];
  int n[2] = {0, 0};
  for (size_t at = 0; next_record(&at, &r); n[r.op == OP_DOT]++) {
    run_model(&r, got);
    expect_same(&r, got, r.want, "the model gives");
  }
  cr_expect(n[0] == 65 && n[1] == 22, "%d and %d records", n[0], n[1]);
}

// ---- kernels ----

// Buffers: 0 a, 1 b, 2 c. A row of c, whose number is the unit: c += the row of a times b.
static tc_kir dot_kernel(int lanes, int words) {
  tc_kir n = {0};
  for (int k = 0; k < 2; k++) put_buffer(&n, TC_I32);
  put_buffer(&n, TC_F32);
  uint32_t from = OP0(&n, BEGIN, TC_I64, 1, 0), to = OP0(&n, FINISH, TC_I64, 1, 0), width = put_i64(&n, 16);
  uint32_t row = OP2(&n, LOOP, TC_I64, 1, 1, from, to), at = OP2(&n, MUL, TC_I64, 1, 0, row, width);
  for (int j = 0; j < 16; j += lanes) {
    uint32_t column = OP2(&n, ADD, TC_I64, 1, 0, at, put_i64(&n, j));
    uint32_t sum = OP1(&n, LOAD, TC_F32, lanes, 2, column);
    for (int k = 0; k < words; k++) {
      uint32_t x = OP1(&n, LOAD, TC_I32, 1, 0, OP2(&n, ADD, TC_I64, 1, 0, at, put_i64(&n, k)));
      uint32_t y = OP1(&n, LOAD, TC_I32, lanes, 1, put_i64(&n, 16 * k + j));
      if (lanes > 1) x = OP1(&n, SPLAT, TC_I32, lanes, 0, x);
      sum = OP3(&n, DOT, TC_F32, lanes, 0, x, y, sum);
    }
    OP2(&n, STORE, TC_F32, lanes, 2, column, sum);
  }
  OP0(&n, ENDLOOP, TC_I64, 1, 0);
  return n;
}

static void put_tmm(tc_kir *n, tc_kir_op op, tc_type type, int64_t imm, uint32_t s0, uint32_t s1, uint32_t flags) {
  n->inst[put(n, op, type, 1, imm, s0, s1, TC_NONE)].flags = flags;
}

// c += a b by tile registers 1, 7 and 4.
static tc_kir tmm_kernel(const record *r) {
  const unsigned rows = (unsigned)r->rows, columns = (unsigned)r->columns, words = (unsigned)r->words;
  tc_kir n = {0};
  for (int k = 0; k < 3; k++) put_buffer(&n, TC_I32);
  uint32_t zero = put_i64(&n, 0), width = put_i64(&n, 16);
  put_tmm(&n, TC_IR_TMM_ZERO, TC_I64, 0, TC_NONE, TC_NONE, tc_kir_tmm_flags(rows, columns, 1));
  put_tmm(&n, TC_IR_TMM_LOAD, TC_I32, 2, zero, width, tc_kir_tmm_flags(rows, columns, 1));
  put_tmm(&n, TC_IR_TMM_LOAD, TC_I32, 0, zero, width, tc_kir_tmm_flags(rows, words, 7));
  put_tmm(&n, TC_IR_TMM_LOAD, TC_I32, 1, zero, width, tc_kir_tmm_flags(words, columns, 4));
  put_tmm(&n, (tc_kir_op)(TC_IR_TMM_DOT + r->op), TC_I64, tc_kir_tmm_imm(1, 7, 4), TC_NONE, TC_NONE,
          tc_kir_tmm_flags(rows, columns, words));
  put_tmm(&n, TC_IR_TMM_STORE, TC_I32, 2, zero, width, tc_kir_tmm_flags(rows, columns, 1));
  return n;
}

static void run_interpreted(const tc_kir *n, void *const *buf, int64_t end) {
  tc_interp *p;
  char why[200];
  cr_assert_eq(tc_kir_verify(n, why, sizeof why), TC_OK, "%s", why);
  cr_assert_eq(tc_interp_create(n, &p), TC_OK);
  tc_worker worker = {.scratch = aligned_alloc(64, (tc_interp_scratch(p) + 127) / 64 * 64),
                      .math = tc_kir_math_table()};
  tc_interp_run(p, buf, NULL, 0, end, &worker);
  free(worker.scratch);
  tc_interp_destroy(p);
}

static void run_compiled(const tc_kir *n, const tc_isa *isa, void *const *buf, int64_t end) {
  char text[400];
  void *object = NULL, *fn = NULL;
  size_t bytes = 0;
  tc_elf_code *code = NULL;
  tc_kernel_fn *kernel;
  tc_status st = tc_llvm_plugin_get()->compile(n, "tc_test", isa->cpu, isa->features, 8 * isa->vector_bytes,
                                               TC_NO_DEBUG_LINES, &object, &bytes, text, sizeof text);
  cr_assert_eq(st, TC_OK, "%s", text);
  cr_assert_eq(tc_elf_load(object, bytes, "tc_test", &code, &fn), TC_OK);
  free(object);
  memcpy(&kernel, &fn, sizeof kernel);
  tc_worker worker = {.scratch = NULL, .math = tc_kir_math_table()};
  kernel(NULL, buf, NULL, 0, end, &worker);
  tc_elf_unload(code);
}

// ---- DOT ----

static void check_dot(const tc_isa *isa, int lanes) {
  static record r;
  uint32_t got[TMM_WORDS];
  for (size_t at = 0; next_record(&at, &r);) {
    // Scalars in steps are much code: those of the special values and of the edges do.
    if (r.op != OP_DOT || (isa != NULL && lanes == 1 && r.words > 2)) continue;
    tc_kir n = dot_kernel(lanes, r.words);
    memcpy(got, r.c, sizeof got);
    if (isa == NULL)
      run_interpreted(&n, (void *[]){r.a, r.b, got}, r.rows);
    else
      run_compiled(&n, isa, (void *[]){r.a, r.b, got}, r.rows);
    expect_same(&r, got, r.want, isa == NULL ? "interpreted" : isa->name);
    tc_kir_destroy(&n);
  }
}

Test(bf16_products, interpreted_dots_have_the_bits_of_hardware) {
  for (int lanes = 1; lanes <= 16; lanes *= 16) check_dot(NULL, lanes);
}

#if defined(__x86_64__)
Test(bf16_products, dots_in_steps_have_the_bits_of_hardware) {
  for (int lanes = 1; lanes <= 16; lanes *= 16) check_dot(tc_isa_named("baseline"), lanes);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) check_dot(tc_isa_named("avx2"), 16);
}

Test(bf16_products, dots_by_the_instruction_have_the_bits_of_hardware) {
  if (!__builtin_cpu_supports("avx512bf16")) cr_skip_test("no AVX512_BF16");
  check_dot(tc_isa_named("avx512bf16"), 16);
}
#endif

// ---- tile registers ----

static void run_tmm(const record *r, uint32_t *c, bool compiled) {
  tc_kir n = tmm_kernel(r);
  void *buf[] = {(void *)(uintptr_t)r->a, (void *)(uintptr_t)r->b, c};
  memcpy(c, r->c, sizeof r->c);
  if (compiled)
    run_compiled(&n, tc_isa_named("amx"), buf, 1);
  else
    run_interpreted(&n, buf, 1);
  tc_kir_destroy(&n);
}

static void check_tmm(bool compiled) {
  static record r;
  uint32_t got[TMM_WORDS];
  for (size_t at = 0; next_record(&at, &r);) {
    if (r.op == OP_DOT) continue;
    run_tmm(&r, got, compiled);
    expect_same(&r, got, r.want, compiled ? "compiled" : "interpreted");
  }
}

static uint32_t random_word(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)(state >> 16);
}

// Floats of a kind: any bits, near one, small, about as small as the smallest products, special.
static uint32_t random_float(int kind) {
  static const uint32_t special[] = {0,          0x80000000, 0x3f800000, 0x7f800000, 0xff800000, 0x7fc10000,
                                     0xff810000, 0x00800000, 0x00010000, 0x80010000, 0x7f7f0000, 0x5f000000};
  const uint32_t bits = random_word();
  switch (kind) {
    case 0: return bits;
    case 1: return (bits & 0x80ffffff) | 0x3f000000;
    case 2: return (bits & 0x83ffffff) | 0x20000000;
    case 3: return (bits & 0x80ffffff) | 0x1f800000;
    default: return special[bits % (sizeof special / sizeof *special)];
  }
}

static void fill_random(record *r, int round) {
  const int kind = round % 6;
  r->op = round % 3 ? 0 : 1 + (int)(random_word() % 4);
  r->rows = round % 2 ? 16 : 1 + (int)(random_word() % 16), r->columns = round % 2 ? 16 : 1 + (int)(random_word() % 16);
  r->words = round % 4 ? 16 : 1 + (int)(random_word() % 16);
  for (int i = 0; i < TMM_WORDS; i++) {
    r->c[i] = random_float(kind < 5 ? kind : (int)(random_word() % 5));
    if (kind == 3) r->c[i] &= 0x80ffffff;
    r->a[i] = random_float(kind) >> 16 | (random_float(kind) & 0xffff0000);
    r->b[i] = random_float(kind) >> 16 | (random_float(kind) & 0xffff0000);
  }
}

static void check_random(bool compiled, int rounds) {
  static record r;
  uint32_t got[TMM_WORDS], want[TMM_WORDS];
  for (int round = 0; round < rounds; round++) {
    fill_random(&r, round);
    run_model(&r, want);
    run_tmm(&r, got, compiled);
    expect_same(&r, got, want, compiled ? "compiled" : "interpreted");
  }
}

Test(bf16_products, interpreted_tiles_have_the_bits_of_hardware) {
  check_tmm(false);
}

Test(bf16_products, interpreted_tiles_have_the_bits_of_the_model) {
  check_random(false, 2000);
}

static bool has_tiles(void) {
  return tc_host_tiles() && tc_llvm_plugin_get() != NULL;
}

Test(bf16_products, compiled_tiles_have_the_bits_of_hardware) {
  if (!has_tiles()) cr_skip_test("no AMX, and no emulator of it");
  check_tmm(true);
}

Test(bf16_products, compiled_tiles_have_the_bits_of_the_model) {
  if (!has_tiles()) cr_skip_test("no AMX, and no emulator of it");
  check_random(true, 60);
}

#if defined(__x86_64__)
// A caller's configuration and contents, before and after a kernel of other shapes.
Test(bf16_products, a_callers_tiles_are_as_they_were) {
  if (!has_tiles()) cr_skip_test("no AMX, and no emulator of it");
  static record r;
  static uint8_t config[2][64] __attribute__((aligned(64)));
  static uint32_t in[TMM_WORDS], out[TMM_WORDS], got[TMM_WORDS];
  const int64_t row = 64;
  config[0][0] = 1, config[0][16 + 6] = 20, config[0][48 + 3] = 9;  // tmm3: 9 rows of 5 words
  for (int i = 0; i < TMM_WORDS; i++) in[i] = random_word(), out[i] = 0;
  fill_random(&r, 1);
  __asm__ volatile("ldtilecfg %0" ::"m"(config[0]));
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm3" ::"r"(in), "r"(row) : "memory");
  run_tmm(&r, got, true);
  __asm__ volatile("sttilecfg %0" : "=m"(config[1]));
  __asm__ volatile("tilestored %%tmm3, (%0,%1,1)\n\ttilerelease" ::"r"(out), "r"(row) : "memory");
  cr_expect(memcmp(config[0], config[1], 64) == 0);
  for (int m = 0; m < 9; m++)
    for (int j = 0; j < 5; j++) cr_assert_eq(out[16 * m + j], in[16 * m + j], "row %d, word %d", m, j);
  run_tmm(&r, got, true);
  __asm__ volatile("sttilecfg %0" : "=m"(config[1]));
  for (int i = 0; i < 64; i++) cr_assert_eq(config[1][i], 0, "a kernel leaves its configuration");
}
#endif
