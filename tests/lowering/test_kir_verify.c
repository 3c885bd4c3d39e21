// The verifier accepts what the header allows and refuses each kind of malformed kernel; the
// printer and the names; what cannot be emitted.
#include <criterion/criterion.h>

#include "lowering/kir/builder.h"
#include "lowering/kir/print.h"
#include "lowering/kir/verify.h"
#include "tests/lowering/kir_build.h"

// One loop over a buffer with a masked tail, a tile, a variable and an if; every other test breaks
// one thing in it.
enum {
  BEGIN,
  FINISH,
  ZERO,
  VAR,
  LOOP,
  LOAD,
  LANES,
  BASE,
  INDEX,
  LIMIT,
  MASK,
  TAIL,
  SUM,
  SET,
  ANY,
  IF,
  PUT,
  ENDIF,
  ENDLOOP,
  LAST,
  OUT
};

static tc_kir sample(void) {
  tc_kir n = {.n_num = 1, .scratch_bytes = 256};
  put_buffer(&n, TC_F32);
  put_buffer(&n, TC_F32);
  put_tile(&n, TC_F32, 48, 64);
  OP0(&n, BEGIN, TC_I64, 1, 0);
  OP0(&n, FINISH, TC_I64, 1, 0);
  OP0(&n, CONST, TC_F32, 8, 0);
  OP1(&n, VAR, TC_F32, 8, 0, ZERO);
  OP2(&n, LOOP, TC_I64, 1, 8, BEGIN, FINISH);
  OP1(&n, LOAD, TC_F32, 8, 0, LOOP);
  OP0(&n, LANES, TC_I64, 8, 0);
  OP1(&n, SPLAT, TC_I64, 8, 0, LOOP);
  OP2(&n, ADD, TC_I64, 8, 0, LANES, BASE);
  OP1(&n, SPLAT, TC_I64, 8, 0, FINISH);
  OP2(&n, LT, TC_BOOL, 8, 0, INDEX, LIMIT);
  OP2(&n, LOAD, TC_F32, 8, 1, LOOP, MASK);
  OP2(&n, ADD, TC_F32, 8, 0, VAR, TAIL);
  OP2(&n, SET, TC_F32, 8, 0, VAR, SUM);
  OP1(&n, REDUCE, TC_BOOL, 1, TC_IR_OR, MASK);
  OP1(&n, IF, TC_BOOL, 1, 0, ANY);
  OP3(&n, STORE, TC_F32, 8, 2, LOOP, SUM, MASK);
  OP0(&n, ENDIF, TC_BOOL, 1, 0);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  OP1(&n, REDUCE, TC_F32, 1, TC_IR_ADD, VAR);
  OP2(&n, STORE, TC_F32, 1, 0, BEGIN, LAST);
  return n;
}

static void expect(tc_kir *n, const char *what) {
  char text[200];
  const tc_status st = tc_kir_verify(n, text, sizeof text);
  if (what == NULL)
    cr_expect_eq(st, TC_OK, "%s", text);
  else
    cr_expect(st == TC_ERR_ARG && strstr(text, what) != NULL, "expected '%s', got %d '%s'", what, (int)st, text);
  cr_expect_eq(tc_kir_verify(n, NULL, 0), st);
  char small[8];
  cr_expect_eq(tc_kir_verify(n, small, sizeof small), st);
  tc_kir_destroy(n);
}
#define BREAK(change, what) \
  do { \
    tc_kir n = sample(); \
    change; \
    expect(&n, what); \
  } while (0)

Test(kir, the_sample_and_the_empty_kernel_verify) {
  BREAK((void)0, NULL);
  tc_kir empty = {.n_inst = 0};
  expect(&empty, NULL);
  tc_kir_destroy(NULL);
}

Test(kir, order_and_visibility) {
  BREAK(n.inst[SUM].src[0] = SUM, "precede");
  BREAK(n.inst[SUM].src[0] = LAST, "precede");
  BREAK(n.inst[SUM].src[1] = TC_NONE, "missing");
  BREAK(n.inst[LAST].src[0] = SUM, "not visible");
  BREAK(n.inst[OUT].src[0] = LOOP, "not visible");
  BREAK(n.inst[LAST].src[0] = SET, "no value");
  BREAK(n.inst[LAST].src[0] = 77, "precede");
  BREAK(n.inst[ZERO].src[3] = 0, "too many");
  BREAK(n.inst[SUM].src[2] = ZERO, "too many");
}

Test(kir, structure) {
  BREAK(n.inst[ENDLOOP].op = TC_IR_ENDIF, "does not end");
  BREAK(n.inst[ENDIF].op = TC_IR_ENDLOOP, "does not end");
  BREAK(n.n_inst = ENDLOOP, "is not ended");
  BREAK(n.inst[LOOP].imm = 0, "step");
  BREAK(n.inst[LOOP].imm = -1, "step");
  BREAK(n.inst[LOOP].lanes = 2, "i64 scalar");
  BREAK(n.inst[BEGIN].dtype = TC_I32, "i64 scalar");
  BREAK(n.inst[LOOP].src[1] = ZERO, "not i64");
  BREAK(n.inst[IF].src[0] = MASK, "lanes");
  BREAK(n.inst[IF].src[0] = BEGIN, "not bool");
}

Test(kir, types_and_lanes) {
  BREAK(n.inst[SUM].lanes = 4, "lanes");
  BREAK(n.inst[SUM].lanes = 3, "3 lanes");
  BREAK(n.inst[SUM].lanes = 0, "0 lanes");
  BREAK(n.inst[SUM].lanes = 512, "512 lanes");
  BREAK(n.inst[SUM].dtype = TC_F64, "is f32, not f64");
  BREAK(n.inst[SUM].dtype = TC_F16, "not allowed");
  BREAK(n.inst[SUM].dtype = 99, "no such type");
  BREAK(n.inst[SUM].op = TC_N_KIR_OPS, "no such op");
  BREAK(n.inst[SUM].op = TC_IR_REM, "not allowed");
  BREAK(n.inst[SUM].op = TC_IR_AND, "not allowed");
  BREAK(n.inst[INDEX].op = TC_IR_MULHU, "not allowed");
  BREAK((n.inst[SUM].op = TC_IR_UNPACK, n.inst[SUM].imm = 2), "half 2 of two");
  BREAK(n.inst[MASK].dtype = TC_I64, "not allowed");
  BREAK(n.inst[MASK].src[1] = ZERO, "not i64");
  BREAK(n.inst[LANES].dtype = TC_F32, "not allowed");
  BREAK(n.inst[ZERO].dtype = TC_BF16, "not allowed");
  BREAK(n.inst[BASE].src[0] = LANES, "lanes");
  BREAK(n.inst[ANY].imm = TC_IR_ADD, "not allowed");
  BREAK(n.inst[ANY].imm = TC_IR_SUB, "cannot reduce");
  BREAK(n.inst[LAST].imm = TC_IR_OR, "not allowed");
  BREAK(n.inst[LAST].lanes = 2, "not 1");
  BREAK(n.inst[SUM].op = TC_IR_INTERLEAVE, "has 8 lanes, not 4");
  BREAK((n.inst[SUM].op = TC_IR_INTERLEAVE, n.inst[SUM].lanes = 1), "1 lane");
  BREAK((n.inst[SUM].op = TC_IR_INTERLEAVE, n.inst[SUM].dtype = TC_F16), "is f32, not f16");
  BREAK((OP1(&n, CAST, TC_BF16, 8, 0, VAR), OP2(&n, INTERLEAVE, TC_BF16, 16, 0, OUT + 1, OUT + 1)), NULL);
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP1(&n, LOOKUP, TC_F32, 8, 0, OUT + 1)), NULL);
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP1(&n, LOOKUP, TC_I32, 8, 0, OUT + 1)), "not allowed");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP1(&n, LOOKUP, TC_F32, 8, -1, OUT + 1)), "table -1 of");
  BREAK(OP1(&n, LOOKUP, TC_F32, 8, 0, VAR), "is f32, not i32");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT, TC_F32, 8, 0, OUT + 1, OUT + 1, VAR)), NULL);
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT, TC_F32, 8, 0, OUT + 1, VAR, VAR)), "is f32, not i32");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT, TC_F32, 8, 0, OUT + 1, OUT + 1, OUT + 1)),
        "is i32, not f32");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT, TC_I32, 8, 0, OUT + 1, OUT + 1, OUT + 1)), "not allowed");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP2(&n, DOT, TC_F32, 8, 0, OUT + 1, OUT + 1)), "missing");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT4, TC_I32, 8, 3, OUT + 1, OUT + 1, OUT + 1)), NULL);
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT4, TC_I32, 8, 3, OUT + 1, OUT + 1, VAR)), "is f32, not i32");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT4, TC_I32, 8, 4, OUT + 1, OUT + 1, OUT + 1)),
        "4 are no signs");
  BREAK((OP1(&n, BITCAST, TC_I32, 8, 0, VAR), OP3(&n, DOT4, TC_F32, 8, 0, OUT + 1, OUT + 1, VAR)), "not allowed");
  BREAK((n.inst[BEGIN] = (tc_kir_inst){TC_IR_CONST, TC_BOOL, 1, 0, {TC_NONE, TC_NONE, TC_NONE, TC_NONE}, 2}),
        "neither 0 nor 1");
  BREAK((n.inst[BEGIN].op = TC_IR_NUM, n.inst[BEGIN].imm = 1), "number 1 of 1");
  BREAK(OP2(&n, FMA, TC_F32, 1, 0, LAST, LAST), "missing");
  BREAK(OP3(&n, FMA, TC_I64, 1, 0, BEGIN, BEGIN, BEGIN), "not allowed");
  BREAK(OP3(&n, SELECT, TC_F32, 8, 0, ZERO, ZERO, ZERO), "not bool");
  BREAK(OP1(&n, SQRT, TC_I64, 1, 0, BEGIN), "not allowed");
  BREAK(OP1(&n, CAST, TC_BF16, 8, 1, VAR), NULL);
  BREAK(OP1(&n, CAST, TC_BF16, 8, 2, VAR), "no way 2 of rounding");
  BREAK(OP1(&n, CAST, TC_F16, 8, 1, VAR), "no way 1 of rounding");
  BREAK((OP1(&n, CAST, TC_I32, 8, 0, VAR), OP1(&n, CAST, TC_BF16, 8, 1, OUT + 1)), "no way 1 of rounding");
  BREAK(OP1(&n, BITCAST, TC_I64, 1, 0, LAST), "no bitcast");
  BREAK(OP1(&n, BITCAST, TC_I32, 1, 0, LAST), NULL);
  BREAK((OP1(&n, CAST, TC_BF16, 8, 0, VAR), OP1(&n, BITCAST, TC_I32, 4, 0, OUT + 1)), NULL);
  BREAK((OP1(&n, CAST, TC_BF16, 8, 0, VAR), OP1(&n, BITCAST, TC_I32, 8, 0, OUT + 1)), "8 lanes, not 16");
  BREAK((OP1(&n, CAST, TC_F16, 8, 0, VAR), OP1(&n, BITCAST, TC_I32, 4, 0, OUT + 1)), "lanes");
  BREAK((OP1(&n, CAST, TC_I8, 8, 0, VAR), OP1(&n, BITCAST, TC_I32, 2, 0, OUT + 1)), NULL);
  BREAK((OP1(&n, CAST, TC_U8, 8, 0, VAR), OP1(&n, BITCAST, TC_I32, 4, 0, OUT + 1)), "8 lanes, not 16");
  BREAK(OP1(&n, CAST, TC_BF16, 1, 0, LAST), NULL);
  BREAK(OP1(&n, CAST, TC_BF16, 8, 0, LAST), "lanes");
  BREAK(OP1(&n, CALL, TC_F64, 1, 99, LAST), "too many");
  BREAK(OP0(&n, CALL, TC_F64, 1, 99), "no function");
  BREAK(OP1(&n, CALL, TC_F32, 1, 0, LAST), "not allowed");
  BREAK((OP1(&n, CAST, TC_F16, 8, 0, VAR), OP2(&n, ADD, TC_F16, 8, 0, OUT + 1, OUT + 1)), "not allowed");
  BREAK((OP1(&n, CAST, TC_F16, 8, 0, VAR), OP2(&n, LT, TC_BOOL, 8, 0, OUT + 1, OUT + 1)), "not allowed");
}

Test(kir, memory_and_variables) {
  BREAK(n.inst[LOAD].imm = 3, "buffer 3");
  BREAK(n.inst[LOAD].imm = -1, "buffer -1");
  BREAK(n.inst[LOAD].dtype = TC_I32, "holds f32");
  BREAK(n.inst[LOAD].src[0] = LANES, "precede");
  BREAK(n.inst[TAIL].src[0] = LANES, "lanes");
  BREAK(n.inst[TAIL].src[1] = ZERO, "not bool");
  BREAK(n.inst[TAIL].op = TC_IR_GATHER, "lanes");
  BREAK(n.inst[PUT].src[2] = ANY, "lanes");
  BREAK(n.inst[PUT].src[1] = LANES, "not f32");
  BREAK(n.inst[PUT].op = TC_IR_SCATTER, "lanes");
  BREAK(n.inst[SET].src[0] = ZERO, "not a variable");
  BREAK(n.inst[SET].src[1] = MASK, "not f32");
  BREAK(n.tile[0].offset = 32, "multiple of 64");
  BREAK(n.tile[0].offset = -64, "multiple of 64");
  BREAK(n.tile[0].n = 49, "exceed");
  BREAK(n.tile[0].n = INT64_MAX, "exceed");
  BREAK(n.tile[0].offset = 320, "exceed");
  BREAK(n.tile[0].dtype = 77, "no such type");
  BREAK(n.buf_type[1] = 77, "no such type");
  BREAK(n.scratch_bytes = -1, "scratch");
  BREAK(OP1(&n, PREFETCH, TC_BOOL, 1, 2, BEGIN), NULL);
  BREAK(OP1(&n, PREFETCH, TC_BOOL, 1, 9, BEGIN), "buffer 9");
}

Test(kir, memory_may_run_out) {
  tc_kir n = sample();
  char text[64];
  for (int k = 1; k <= 2; k++) {
    (void)tc_alloc_fail_at(k, 0);
    cr_expect_eq(tc_kir_verify(&n, text, sizeof text), TC_ERR_MEMORY);
  }
  (void)tc_alloc_fail_at(0, 0);
  tc_kir_destroy(&n);
}

Test(kir, prints_one_instruction_a_line_indented_by_loop) {
  tc_kir n = sample();
  char *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  tc_kir_print(&n, f);
  fclose(f);
  cr_expect(strstr(text, "b1: f32\nt0: f32 x 48 at 64\n%0 = i64 begin\n") != NULL, "%s", text);
  cr_expect(strstr(text, "%4 = i64 loop %0 %1 step 8\n  %5 = f32x8 load b0 %4\n") != NULL, "%s", text);
  cr_expect(strstr(text, "\n  %11 = f32x8 load b1 %4 mask %10\n  %12 = f32x8 add %3 %11\n  set %3 %12\n") != NULL, "%s",
            text);
  cr_expect(strstr(text, "\n    f32x8 store t0 %4 %12 mask %10\n  endif\nendloop\n") != NULL, "%s", text);
  free(text);
  tc_kir_destroy(&n);
  cr_expect_str_eq(tc_kir_op_name(TC_IR_REDUCE), "reduce");
  cr_expect_str_eq(tc_kir_op_name(TC_N_KIR_OPS), "?");
}

// ---- with threads ----

// Vectors of 32 threads with 8 lanes each through a tile of lanes and one of the block, wide
// accesses, matrices; every line below breaks one thing.
enum {
  W_BEGIN,
  W_X,
  W_KEEP,
  W_KEPT,
  W_ONE,
  W_ROW,
  W_WIDE,
  W_MASK,
  W_PUT,
  W_COPY,
  W_COMMIT,
  W_WAIT,
  W_A,
  W_B,
  W_ZERO,
  W_MMA
};

static tc_kir wide(void) {
  tc_kir n = {.threads = 32, .groups = 1, .scratch_bytes = 512};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_BF16);
  put_tile(&n, TC_F32, 512, 0), put_tile(&n, TC_BF16, 256, 0);
  n.tile[0].of_lanes = 1;
  OP0(&n, BEGIN, TC_I64, 1, 0);
  OP1(&n, LOAD, TC_F32, 256, 0, W_BEGIN);
  OP2(&n, STORE, TC_F32, 256, 2, W_BEGIN, W_X);
  OP1(&n, LOAD, TC_F32, 256, 2, W_BEGIN);
  OP1(&n, EXTRACT, TC_F32, 32, 7, W_KEPT);
  OP0(&n, LANES, TC_I64, 32, 0);
  OP1(&n, GATHER, TC_F32, 128, 0, W_ROW);
  OP2(&n, LT, TC_BOOL, 32, 0, W_ROW, W_ROW);
  OP3(&n, SCATTER, TC_F32, 128, 0, W_ROW, W_WIDE, W_MASK);
  n.inst[OP3(&n, COPY, TC_BF16, 32, 1, W_ROW, W_ROW, W_MASK)].flags = 1;
  OP0(&n, COMMIT, TC_BOOL, 1, 0);
  OP0(&n, WAIT, TC_BOOL, 1, 0);
  OP1(&n, LDMATRIX, TC_BF16, 256, 1, W_ROW);
  OP1(&n, LDMATRIX, TC_BF16, 128, 1, W_ROW);
  OP0(&n, CONST, TC_F32, 128, 0);
  OP3(&n, MMA, TC_F32, 128, 0, W_A, W_B, W_ZERO);
  return n;
}
// A product of matrices by two waves of 64 threads.
static tc_kir wave(void) {
  tc_kir n = {.threads = 128, .groups = 1};
  put_buffer(&n, TC_F16);
  OP0(&n, LANES, TC_I64, 128, 0);
  OP1(&n, GATHER, TC_F16, 512, 0, 0);
  OP0(&n, CONST, TC_F32, 512, 0);
  OP3(&n, MFMA, TC_F32, 512, 0, 1, 1, 2);
  return n;
}

#define BREAK_STAGE(change, what) \
  do { \
    tc_kir n = wave(); \
    change; \
    expect(&n, what); \
  } while (0)
#define BREAK_WIDE(change, what) \
  do { \
    tc_kir n = wide(); \
    change; \
    expect(&n, what); \
  } while (0)

Test(kir, threads) {
  BREAK_WIDE((void)0, NULL);
  BREAK_WIDE(n.threads = 48, "groups of 48");
  BREAK_WIDE(n.threads = 2048, "groups of 2048");
  BREAK_WIDE(n.groups = 0, "0 groups");
  BREAK_WIDE(n.groups = 64, "64 groups");
  BREAK_WIDE(n.groups = 2, "of 2 groups");
  BREAK_WIDE(n.n_buf = 65, "more than 64");
  BREAK_WIDE((n.threads = n.groups = 0), "without threads");
  BREAK_WIDE(n.inst[W_X].lanes = 16, "16 lanes for 32");
  BREAK_WIDE(n.inst[W_X].lanes = 2048, "2048 lanes");
  BREAK_WIDE(n.inst[W_KEPT].lanes = 128, "of 256 lanes, not 128");
  BREAK_WIDE(n.inst[W_KEEP].op = TC_IR_SCATTER, "whole vectors");
  BREAK_WIDE(n.inst[W_KEEP].src[2] = W_MASK, "without masks");
  BREAK_WIDE(n.tile[0].n = 300, "not of whole vectors");
  BREAK_WIDE(n.inst[W_ONE].imm = 8, "element 8 of 8");
  BREAK_WIDE(n.inst[W_ONE].lanes = 64, "64 lanes, not 32");
  BREAK_WIDE(n.inst[W_ROW].lanes = 64, "lanes, not");
  BREAK_WIDE(n.inst[W_MASK].lanes = 128, "lanes, not 128");
  BREAK_WIDE(n.inst[W_COPY].imm = 3, "copies from a tile");
  BREAK_WIDE(n.inst[W_COPY].flags = 2, "tile 2 of 2");
  BREAK_WIDE(n.inst[W_COPY].flags = 0, "whole vectors");
  BREAK_WIDE(n.inst[W_WAIT].imm = 8, "8 groups of copies");
  BREAK_WIDE(n.inst[W_A].lanes = 64, "neither 8 nor 4");
  BREAK_WIDE(n.inst[W_A].imm = 0, "whole vectors");
  BREAK_WIDE(n.inst[W_A].imm = -1, "of 2");
  BREAK_WIDE(n.inst[W_A].dtype = TC_F16, "holds bf16");
  BREAK_WIDE(n.inst[W_MMA].lanes = 256, "not 4 a thread");
  BREAK_WIDE(n.inst[W_MMA].src[1] = W_A, "256 lanes, not 128");
  BREAK_WIDE(OP3(&n, MFMA, TC_F32, 128, 0, W_B, W_B, W_ZERO), "not whole warps");
  BREAK_WIDE(OP1(&n, SHFL_XOR, TC_F32, 128, 16, W_ZERO), NULL);
  BREAK_WIDE(OP1(&n, EXP2, TC_F32, 128, 0, W_ZERO), NULL);
  BREAK_WIDE(OP1(&n, EXP2, TC_F32, 64, 0, W_ZERO), "128 lanes, not 64");
  BREAK_WIDE(OP1(&n, SHFL_XOR, TC_F32, 32, 3, W_ONE), "by 3 of 32");
  BREAK_WIDE(OP1(&n, SHFL_XOR, TC_F32, 32, 32, W_ONE), "by 32 of 32");
  BREAK_WIDE(OP1(&n, SHFL_XOR, TC_F32, 64, 1, W_ONE), "32 lanes, not 64");
  BREAK_WIDE(OP2(&n, UNPACK, TC_F32, 128, 0, W_ZERO, W_ZERO), "with threads has no such op");
  BREAK_WIDE(OP2(&n, INTERLEAVE, TC_F32, 32, 0, W_ONE, W_ONE), "do not stay");
  BREAK_WIDE((OP1(&n, CAST, TC_BF16, 32, 0, W_ONE), OP1(&n, BITCAST, TC_I32, 16, 0, W_MMA + 1)), "16 lanes for 32");
  BREAK_STAGE((void)0, NULL);
  BREAK_STAGE(n.inst[3].lanes = 256, "not 4 a thread");
  BREAK_STAGE(OP1(&n, SHFL_XOR, TC_F32, 512, 32, 3), NULL);
  BREAK_STAGE(OP1(&n, SHFL_XOR, TC_F32, 512, 64, 3), "by 64 of 128");
  BREAK_STAGE((OP1(&n, EXTRACT, TC_F16, 128, 3, 1), OP2(&n, INTERLEAVE, TC_F16, 256, 0, 4, 4)), NULL);
  BREAK_STAGE(n.inst[3].src[0] = 2, "type f32 is not allowed");
  BREAK_STAGE(n.inst[3].src[1] = TC_NONE, "operand 1");
  BREAK(n.inst[SUM].op = TC_IR_COMMIT, "too many");
  BREAK(OP0(&n, COMMIT, TC_BOOL, 1, 0), "without threads");
  BREAK(n.tile[0].of_lanes = 1, "without threads");
}

static bool spreads(int from, int lanes) {
  tc_kir n = {.n_num = 0};
  tc_kir_builder e = {.kir = &n};
  tc_val v = tc_build_splat(&e, tc_build_raw(&e, TC_IR_LANES, TC_I64, from, TC_NONE, TC_NONE, TC_NONE, 0), lanes);
  bool spread = !e.failed;
  cr_expect_eq(e.uneven, e.failed);
  cr_expect_eq(tc_build_lanes(&e, v), spread ? lanes : 1);
  tc_kir_destroy(&n);
  return spread;
}

Test(kir, a_vector_is_spread_over_its_lanes_times_a_power_of_two_and_nothing_else) {
  cr_expect(spreads(1, 12));
  cr_expect(spreads(8, 8));
  cr_expect(spreads(8, 32));
  cr_expect_not(spreads(8, 4));
  cr_expect_not(spreads(8, 1));
  cr_expect_not(spreads(8, 24));
}

// Which traits an op has follows from what else its row says, but for a few that are named here.
Test(kir, an_op_is_pure_or_a_leaf_unless_it_does_more_than_give_a_value) {
  for (int op = 0; op < TC_N_KIR_OPS; op++) {
    const tc_kir_op_row *row = &tc_kir_ops[op];
    const unsigned does = TC_KIR_LOADS | TC_KIR_STORES | TC_KIR_OPENS | TC_KIR_CLOSES | TC_KIR_GPU;
    // a variable's value changes
    bool gives = row->result >= TC_KIR_RESULT_VALUE && !(row->traits & does) && op != TC_IR_VAR;
    cr_expect_eq((row->traits & TC_KIR_PURE) != 0, gives && row->operands > 0, "%s: PURE", row->name);
    cr_expect_eq((row->traits & TC_KIR_LEAF) != 0, gives && row->operands == 0, "%s: LEAF", row->name);
    // what is of vectors, a table, the bits of a value or a function is not one instruction of a scalar
    bool is_more = row->result == TC_KIR_RESULT_SCALAR || op == TC_IR_BITCAST || op == TC_IR_LOOKUP ||
                   op == TC_IR_CALL || op == TC_IR_UNPACK || op == TC_IR_INTERLEAVE;
    cr_expect_eq((row->traits & TC_KIR_HOIST) != 0, (row->traits & TC_KIR_PURE) && !is_more, "%s: HOIST", row->name);
  }
}
