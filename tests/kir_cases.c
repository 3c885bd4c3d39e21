// The kernels, and their inputs. See kir_cases.h.
#include "tests/kir_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/kir/libm.h"
#include "lowering/kir/lookup_tables.h"
#include "runtime/arena.h"
#include "tests/lowering/kir_build.h"

enum { N = KIR_LENGTH };

const char *const kir_type_name[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) #name,
#include <tc/dtypes.def>
#undef TC_TYPE
};
const size_t kir_type_bytes[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) bytes,
#include <tc/dtypes.def>
#undef TC_TYPE
};

static uint64_t random_bits(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static double edge_float(unsigned i) {
  static const double edge[] = {0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                -0.5,
                                1.5,
                                2.5,
                                NAN,
                                INFINITY,
                                -INFINITY,
                                1e-45,
                                -1e-40,
                                3.4028235e38,
                                1e300,
                                65504,
                                65520,
                                65519.99999,
                                6e-8,
                                127.9,
                                128,
                                -128.5,
                                -129,
                                255.5,
                                256,
                                32767.5,
                                2147483647.0,
                                2147483648.0,
                                -2147483649.0,
                                9.3e18,
                                -9.3e18,
                                1.00048828125,
                                1.0004882812500002,
                                5.960464477539063e-08,
                                2.98e-8,
                                2.9802322387695312e-08,
                                3e-8,
                                1.00390625,
                                3.3895e38};
  return edge[i % (sizeof edge / sizeof edge[0])];
}

// Edge values, small numbers and random bits.
static char *make_input(tc_type t, uint64_t seed) {
  static const int64_t edge[] = {0,
                                 1,
                                 -1,
                                 2,
                                 3,
                                 7,
                                 8,
                                 15,
                                 16,
                                 31,
                                 32,
                                 63,
                                 64,
                                 -2,
                                 INT8_MIN,
                                 INT8_MAX,
                                 INT16_MIN,
                                 INT16_MAX,
                                 INT32_MIN,
                                 INT32_MAX,
                                 INT64_MIN,
                                 INT64_MAX,
                                 65519,
                                 65520,
                                 0x1000001,
                                 INT64_C(0x7f80000000000001),
                                 INT64_C(-0x1008000000000001)};
  char *p = calloc(N + 1, kir_type_bytes[t]);
  for (int i = 0; i < N; i++) {
    uint64_t r = random_bits(&seed), kind = r % 3, v = random_bits(&seed);
    if (kind == 0) v = (uint64_t)edge[v % (sizeof edge / sizeof edge[0])];
    if (kind == 1) v = (uint64_t)((int64_t)(v % 20) - 10);
    double d = kind == 0   ? edge_float((unsigned)(r >> 20))
               : kind == 1 ? (double)(int64_t)v / 4
                           : ldexp(1 + (double)(v >> 12) * 0x1p-52, (int)(r >> 40 & 63) - 32);
    float s = (float)d;
    if (t == TC_BOOL) v &= 1;
    if (t == TC_F32) memcpy(&v, &s, 4);
    if (t == TC_F64) memcpy(&v, &d, 8);
    memcpy(p + (size_t)i * kir_type_bytes[t], &v, kir_type_bytes[t]);
  }
  return p;
}

static uint32_t add_input(kir_case *f, tc_type t, uint64_t seed) {
  f->in[f->n.n_buf] = make_input(t, seed);
  f->n_in++;
  return put_buffer(&f->n, t);
}

static void store(kir_case *f, tc_type t, int lanes, uint32_t i, uint32_t v, const char *what) {
  uint32_t k = put_buffer(&f->n, t);
  f->what[k] = what;
  OP2(&f->n, STORE, t, lanes, k, i, v);
}

// ---- arithmetic ----

// A number of [1, 2) of either sign by a power of two that makes it anything from 0 by way of
// denormals to a large one.
static void put_ldexp(kir_case *f, int lanes, uint32_t i, const uint32_t v[3]) {
  tc_kir *n = &f->n;
#define BITS(x) OP1(n, BITCAST, TC_I32, lanes, 0, x)
#define WHOLE(x) OP0(n, CONST, TC_I32, lanes, x)
  uint32_t digits = OP2(n, AND, TC_I32, lanes, 0, BITS(v[0]), WHOLE(INT32_MIN | 0x7FFFFF));
  uint32_t x = OP1(n, BITCAST, TC_F32, lanes, 0, OP2(n, OR, TC_I32, lanes, 0, digits, WHOLE(0x3F800000)));
  uint32_t power = OP2(n, SUB, TC_I32, lanes, 0, OP2(n, AND, TC_I32, lanes, 0, BITS(v[1]), WHOLE(255)), WHOLE(180));
  store(f, TC_F32, lanes, i, OP2(n, LDEXP, TC_F32, lanes, 0, x, OP1(n, CAST, TC_F32, lanes, 0, power)), "LDEXP");
#undef BITS
#undef WHOLE
}

// Sums of words, of factors whose products are so small that they are denormals as often as not, or
// of any.
static void put_dot(kir_case *f, int lanes, uint32_t i, const uint32_t v[3], bool small) {
  tc_kir *n = &f->n;
#define SMALL(x, keep, with) \
  OP2(n, OR, TC_I32, lanes, 0, OP2(n, AND, TC_I32, lanes, 0, x, OP0(n, CONST, TC_I32, lanes, keep)), \
      OP0(n, CONST, TC_I32, lanes, with))
  uint32_t a = small ? SMALL(v[0], (int32_t)0x807F81FF, 0x1F801F80) : v[0],
           b = small ? SMALL(v[1], (int32_t)0x81FF807F, 0x1F801F80) : v[1];
  uint32_t sum = OP1(n, BITCAST, TC_F32, lanes, 0, small ? SMALL(v[2], (int32_t)0x80FFFFFF, 0) : v[2]);
  store(f, TC_F32, lanes, i, OP3(n, DOT, TC_F32, lanes, 0, a, b, sum), "DOT");
#undef SMALL
}

// Sums of bytes, of every pair of signs: of two in a row that share an operand.
static void put_dot4(kir_case *f, int lanes, uint32_t i, const uint32_t v[3]) {
  tc_kir *n = &f->n;
  for (int is_signed = 0; is_signed < 4; is_signed++) {
    uint32_t first = OP3(n, DOT4, TC_I32, lanes, is_signed, v[0], v[1], v[2]);
    store(f, TC_I32, lanes, i, OP3(n, DOT4, TC_I32, lanes, is_signed, v[2], v[1], first), "DOT4");
  }
}

static void put_lookups(kir_case *f, int lanes, uint32_t i, uint32_t at) {
  for (int row = 0; row < TC_KIR_TABLE_ROWS; row++)
    store(f, TC_F32, lanes, i, OP1(&f->n, LOOKUP, TC_F32, lanes, row, at), "LOOKUP");
}

static void put_all_ops(kir_case *f, tc_type t, int lanes, uint32_t i, const uint32_t v[3], uint32_t cond) {
  tc_kir *n = &f->n;
  bool is_float = t == TC_F32 || t == TC_F64;
#define UN(OP) store(f, t, lanes, i, OP1(n, OP, t, lanes, 0, v[0]), #OP)
#define BIN(OP) store(f, t, lanes, i, OP2(n, OP, t, lanes, 0, v[0], v[1]), #OP)
#define CMP(OP) store(f, TC_BOOL, lanes, i, OP2(n, OP, TC_BOOL, lanes, 0, v[0], v[1]), #OP)
  if (t != TC_BOOL) {
    BIN(ADD);
    BIN(SUB);
    BIN(MUL);
    BIN(DIV);
    BIN(MIN);
    BIN(MAX);
    UN(NEG);
    UN(ABS);
  }
  if (is_float) {
    UN(SQRT);
    UN(FLOOR);
    UN(CEIL);
    UN(TRUNC);
    UN(RINT);
    store(f, t, lanes, i, OP3(n, FMA, t, lanes, 0, v[0], v[1], v[2]), "FMA");
    // Must not become an fma.
    store(f, t, lanes, i, OP2(n, ADD, t, lanes, 0, OP2(n, MUL, t, lanes, 0, v[0], v[1]), v[2]), "MUL then ADD");
    if (t == TC_F32) put_ldexp(f, lanes, i, v);
    tc_type as = t == TC_F32 ? TC_I32 : TC_I64;
    store(f, as, lanes, i, OP1(n, BITCAST, as, lanes, 0, v[0]), "BITCAST");
  } else {
    BIN(AND);
    BIN(OR);
    BIN(XOR);
    UN(NOT);
    if (t != TC_BOOL) {
      BIN(REM);
      BIN(SHL);
      BIN(SHR);
      BIN(USHR);
      static const int64_t divisor[] = {1, 7, -1, 0, 64};
      for (size_t k = 0; k < sizeof divisor / sizeof divisor[0]; k++) {
        uint32_t c = OP0(n, CONST, t, lanes, divisor[k]);
        store(f, t, lanes, i, OP2(n, DIV, t, lanes, 0, v[0], c), "DIV by constant");
        store(f, t, lanes, i, OP2(n, REM, t, lanes, 0, v[0], c), "REM by constant");
      }
    }
    if (t == TC_I32) {
      BIN(MULHU);
      for (int small = 0; small < 2 && n->threads == 0; small++) put_dot(f, lanes, i, v, small);
      if (n->threads == 0) put_dot4(f, lanes, i, v), put_lookups(f, lanes, i, v[0]);
    }
  }
  CMP(EQ);
  CMP(NE);
  CMP(LT);
  CMP(LE);
  CMP(GT);
  CMP(GE);
  if (t != TC_BOOL) store(f, t, lanes, i, OP3(n, SELECT, t, lanes, 0, cond, v[0], v[1]), "SELECT");
#undef UN
#undef BIN
#undef CMP
}

// ---- arithmetic, every operation ----

void kir_case_ops(kir_case *f, tc_type t, int lanes, int threads) {
  *f = (kir_case){.n.threads = (uint16_t)threads, .n.groups = threads > 0};
  for (uint64_t k = 0; k < 3; k++) add_input(f, t, 7 * k + 1);
  add_input(f, TC_BOOL, 99);
  uint32_t v[3], b = OP0(&f->n, BEGIN, TC_I64, 1, 0), e = OP0(&f->n, FINISH, TC_I64, 1, 0),
                 i = OP2(&f->n, LOOP, TC_I64, 1, lanes, b, e);
  for (int k = 0; k < 3; k++) v[k] = OP1(&f->n, LOAD, t, lanes, k, i);
  uint32_t cond = OP1(&f->n, LOAD, TC_BOOL, lanes, 3, i);
  put_all_ops(f, t, lanes, i, v, cond);
  OP0(&f->n, ENDLOOP, TC_BOOL, 1, 0);
}

// ---- casts ----

void kir_case_casts(kir_case *f, tc_type from, int lanes, int threads) {
  *f = (kir_case){.n.threads = (uint16_t)threads, .n.groups = threads > 0};
  add_input(f, from, 5);
  uint32_t b = OP0(&f->n, BEGIN, TC_I64, 1, 0), e = OP0(&f->n, FINISH, TC_I64, 1, 0),
           i = OP2(&f->n, LOOP, TC_I64, 1, lanes, b, e);
  uint32_t v = OP1(&f->n, LOAD, from, lanes, 0, i);
  for (tc_type to = 0; to < TC_N_TYPES; to++)
    if (to != from) store(f, to, lanes, i, OP1(&f->n, CAST, to, lanes, 0, v), kir_type_name[from]);
  if (from == TC_F32 && threads == 0)
    store(f, TC_BF16, lanes, i, OP1(&f->n, CAST, TC_BF16, lanes, 1, v), "settled CAST");
  if (from == TC_BF16 && lanes > 1 && lanes / 2 >= threads)
    store(f, TC_I32, lanes / 2, i, OP1(&f->n, BITCAST, TC_I32, lanes / 2, 0, v), "BITCAST of pairs");
  if ((from == TC_I8 || from == TC_U8) && lanes > 2 && lanes / 4 >= threads)
    store(f, TC_I32, lanes / 4, i, OP1(&f->n, BITCAST, TC_I32, lanes / 4, 0, v), "BITCAST of fours");
  OP0(&f->n, ENDLOOP, TC_BOOL, 1, 0);
}

// ---- memory ----

// Masks are 0 or 1 at random; an index under a mask of 0 points far outside, so touching it
// crashes. With threads no index comes twice.
void kir_case_memory(kir_case *f, tc_type t, int lanes, int threads) {
  *f = (kir_case){.n.threads = (uint16_t)threads, .n.groups = threads > 0};
  uint64_t seed = 3;
  add_input(f, t, 11);
  add_input(f, TC_BOOL, 12);
  add_input(f, TC_I64, 13);
  add_input(f, TC_I64, 14);
  for (int i = 0; i < N; i++) {
    int64_t at = threads > 0 ? (i * 77 + 5) % N : (int64_t)(random_bits(&seed) % N), far = INT64_C(1) << 40;
    char *mask = f->in[1] + i;
    memcpy(f->in[2] + 8 * i, &at, 8);
    memcpy(f->in[3] + 8 * i, *mask ? &at : &far, 8);
  }
  tc_kir *n = &f->n;
  uint32_t b = OP0(n, BEGIN, TC_I64, 1, 0), e = OP0(n, FINISH, TC_I64, 1, 0), i = OP2(n, LOOP, TC_I64, 1, lanes, b, e);
  uint32_t mask = OP1(n, LOAD, TC_BOOL, lanes, 1, i), at = OP1(n, LOAD, TC_I64, lanes, 2, i),
           far = OP1(n, LOAD, TC_I64, lanes, 3, i);
  uint32_t v = OP1(n, LOAD, t, lanes, 0, i);
  OP1(n, PREFETCH, t, 1, 0, i);
  store(f, t, lanes, i, OP2(n, LOAD, t, lanes, 0, i, mask), "masked load");
  if (lanes > 1) {
    store(f, t, lanes, i, OP1(n, GATHER, t, lanes, 0, at), "gather");
    store(f, t, lanes, i, OP2(n, GATHER, t, lanes, 0, far, mask), "masked gather");
    uint32_t k = put_buffer(n, t);
    f->what[k] = "scatter";
    OP2(n, SCATTER, t, lanes, k, at, v);
    k = put_buffer(n, t);
    f->what[k] = "masked scatter";
    OP3(n, SCATTER, t, lanes, k, far, v, mask);
  }
  uint32_t k = put_buffer(n, t);
  f->what[k] = "masked store";
  OP3(n, STORE, t, lanes, k, i, v, mask);
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
}

// ---- leaves, reductions, zips, calls ----

void kir_case_rest(kir_case *f, tc_type t, int lanes, int threads) {
  *f = (kir_case){.n.threads = (uint16_t)threads, .n.groups = threads > 0};
  static const tc_kir_op reduce[] = {TC_IR_ADD, TC_IR_MUL, TC_IR_MIN, TC_IR_MAX, TC_IR_AND, TC_IR_OR};
  bool is_float = t == TC_F32 || t == TC_F64;
  double d = -2.75;
  f->num[1] = 0xfedcba9876543210, f->num[2] = 3;
  memcpy(&f->num[0], &d, 8);
  f->n.n_num = 3;
  add_input(f, t, 21);
  add_input(f, t, 22);
  tc_kir *n = &f->n;
  uint32_t b = OP0(n, BEGIN, TC_I64, 1, 0), e = OP0(n, FINISH, TC_I64, 1, 0), i = OP2(n, LOOP, TC_I64, 1, lanes, b, e);
  uint32_t v = OP1(n, LOAD, t, lanes, 0, i), w = OP1(n, LOAD, t, lanes, 1, i);
  store(f, t, lanes, i, OP0(n, NUM, t, lanes, is_float ? 0 : 1), "NUM");
  if (t != TC_BOOL && !is_float) store(f, t, lanes, i, OP0(n, LANES, t, lanes, 0), "LANES");
  if (lanes > 1) store(f, t, lanes, i, OP1(n, SPLAT, t, lanes, 0, OP1(n, LOAD, t, 1, 0, i)), "SPLAT");
  if (lanes > 1 && lanes / 2 >= threads) {
    uint32_t a = OP1(n, LOAD, t, lanes / 2, 0, i), c = OP1(n, LOAD, t, lanes / 2, 1, i);
    store(f, t, lanes, i, OP2(n, INTERLEAVE, t, lanes, 0, a, c), "INTERLEAVE");
  }
  for (int k = t == TC_BOOL ? 4 : 0; k < (is_float ? 4 : 6); k++)
    store(f, t, 1, i, OP1(n, REDUCE, t, 1, reduce[k], v), "REDUCE");
  for (int64_t half = 0; half < 2 && lanes > 1 && threads == 0; half++)
    store(f, t, lanes, i, OP2(n, UNPACK, t, lanes, half, v, w), "UNPACK");
  if (t == TC_F64) {
    store(f, t, lanes, i, OP1(n, CALL, t, lanes, TC_KIR_MATH_EXP, v), "exp");
    store(f, t, lanes, i, OP2(n, CALL, t, lanes, TC_KIR_MATH_ATAN2, v, w), "atan2");
  }
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
}

// ---- control flow ----

// Sums rows of 16 in a variable, keeps a running maximum in another that only some iterations set,
// and counts in a third across both loops.
void kir_case_flow(kir_case *f) {
  *f = (kir_case){.n_in = 0};
  f->in[0] = make_input(TC_F32, 31);
  for (int i = 0; i < N; i++) {
    float x = (float)(i * 37 % 101) - 50;
    memcpy(f->in[0] + 4 * i, &x, 4);
  }
  f->n_in = 1;
  tc_kir *n = &f->n;
  put_buffer(n, TC_F32);
  put_tile(n, TC_F32, 16, 64);
  n->scratch_bytes = 128;
  for (int k = 0; k < 4; k++) put_buffer(n, k == 2 ? TC_I64 : TC_F32);
  uint32_t zero = put_i64(n, 0), sixteen = put_i64(n, 16), one = put_i64(n, 1);
  uint32_t count = OP1(n, VAR, TC_I64, 1, 0, zero),
           top = OP1(n, VAR, TC_F32, 1, 0, OP0(n, CONST, TC_F32, 1, (int64_t)0xff800000));
  uint32_t i = OP2(n, LOOP, TC_I64, 1, 1, zero, sixteen);
  uint32_t sum = OP1(n, VAR, TC_F32, 4, 0, OP0(n, CONST, TC_F32, 4, 0)), row = OP2(n, MUL, TC_I64, 1, 0, i, sixteen);
  uint32_t j = OP2(n, LOOP, TC_I64, 1, 4, zero, sixteen);
  uint32_t x = OP1(n, LOAD, TC_F32, 4, 0, OP2(n, ADD, TC_I64, 1, 0, row, j));
  OP2(n, SET, TC_F32, 4, 0, sum, OP2(n, ADD, TC_F32, 4, 0, sum, x));
  uint32_t most = OP1(n, REDUCE, TC_F32, 1, TC_IR_MAX, x);
  OP1(n, IF, TC_BOOL, 1, 0, OP2(n, GT, TC_BOOL, 1, 0, most, top));
  OP2(n, SET, TC_F32, 1, 0, top, most);
  OP2(n, SET, TC_I64, 1, 0, count, OP2(n, ADD, TC_I64, 1, 0, count, one));
  OP0(n, ENDIF, TC_BOOL, 1, 0);
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
  uint32_t total = OP1(n, REDUCE, TC_F32, 1, TC_IR_ADD, sum);
  OP2(n, STORE, TC_F32, 1, 1, i, total);
  OP2(n, STORE, TC_F32, 1, 5, i, total);  // the tile
  OP2(n, STORE, TC_F32, 1, 2, i, top);
  // runs never
  OP0(n, LOOP, TC_I64, 1, 1), n->inst[n->n_inst - 1].src[0] = sixteen, n->inst[n->n_inst - 1].src[1] = zero;
  OP2(n, SET, TC_I64, 1, 0, count, zero);
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
  OP2(n, STORE, TC_I64, 1, 3, i, count);
  OP0(n, ENDLOOP, TC_BOOL, 1, 0);
  OP2(n, STORE, TC_F32, 16, 4, zero, OP1(n, LOAD, TC_F32, 16, 5, zero));
  for (uint32_t k = 0; k < n->n_inst; k++)  // the tile is number n_buf
    if ((n->inst[k].op == TC_IR_STORE || n->inst[k].op == TC_IR_LOAD) && n->inst[k].imm == 5) n->inst[k].imm = n->n_buf;
}

void kir_case_release(kir_case *f) {
  for (uint32_t k = 0; k < f->n_in; k++) free(f->in[k]);
  tc_kir_destroy(&f->n);
}
