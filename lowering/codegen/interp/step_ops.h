// The interpreter's step functions for one instruction set. steps.c includes this file once per
// set, so it has no include guard.
// ISA is the suffix of the functions' names; the set is enabled around the include.
//
// There is one function per (op, type), for vectors and for scalars. A vector function works on
// whole 64-byte slots.
// So its inner loop has a constant trip count and becomes one or a few vector instructions. Lanes
// beyond the value's own are computed on any bits and never read.
// Nothing here traps, whatever the bits. Each function does one rounding operation, so there is
// nothing to contract.
// Expressions see x, y, z (operands), T (element type), W (unsigned, at least 32 bits), UT
// (unsigned, same width), BITS, SG (signed).

#define FN(op, ty, k) FN_(ISA, op, ty, k)
#define FN_(isa, op, ty, k) FN__(isa, op, ty, k)
#define FN__(isa, op, ty, k) step_##isa##_##op##_##ty##_##k

// Does the statements for each j below GRAIN, piece after piece of a vector. STEP moves on to the
// next piece.
#define EACH_PIECE(GRAIN, STEP, ...) \
  for (uint32_t left = s->lanes;; left -= GRAIN, STEP) { \
    IVDEP for (int j = 0; j < GRAIN; j++) { \
      __VA_ARGS__ \
    } \
    if (left <= GRAIN) break; \
  }

#define TYPES_OF(TY) \
  typedef T_##TY T __attribute__((unused)); \
  typedef W_##TY W __attribute__((unused)); \
  typedef UT_##TY UT __attribute__((unused)); \
  enum { BITS = 8 * (int)sizeof(T), SG = SG_##TY };

// d[i] = EXPR over slots of DT from slots of T; the first operand is of type XT.
#define MAP_TO(OP, TY, DT, XT, EXPR) \
  static const step *FN(OP, TY, v)(const step *s, char *frame) { \
    TYPES_OF(TY) \
    typedef XT AX ANYWHERE; \
    typedef T AT ANYWHERE; \
    typedef DT AD ANYWHERE; \
    enum { WIDE = sizeof(T) > sizeof(DT) ? sizeof(T) : sizeof(DT), GRAIN = 64 / WIDE }; \
    AD *d = vector_at(frame, s->dst); \
    const AX *a = vector_at(frame, s->src[0]); \
    const AT *b = vector_at(frame, s->src[1]), *c = vector_at(frame, s->src[2]); \
    EACH_PIECE(GRAIN, (d += GRAIN, a += GRAIN, b += GRAIN, c += GRAIN), { \
      const XT x = a[j]; \
      const T y = b[j], z = c[j]; \
      (void)x, (void)y, (void)z, (void)BITS, (void)SG; \
      d[j] = (DT)(EXPR); \
    }) \
    return s + 1; \
  } \
  static const step *FN(OP, TY, s)(const step *s, char *frame) { \
    TYPES_OF(TY) \
    const XT x = *(const XT *)slot_at(frame, s->src[0]); \
    const T y = *(const T *)slot_at(frame, s->src[1]), z = *(const T *)slot_at(frame, s->src[2]); \
    (void)x, (void)y, (void)z, (void)BITS, (void)SG; \
    *(DT *)slot_at(frame, s->dst) = (DT)(EXPR); \
    return s + 1; \
  }
#define MAP(OP, TY, EXPR) MAP_TO(OP, TY, T_##TY, T_##TY, EXPR)
#define MAP_TEST(OP, TY, EXPR) MAP_TO(OP, TY, uint8_t, T_##TY, EXPR)
#define MAP_PICK(OP, TY, EXPR) MAP_TO(OP, TY, T_##TY, uint8_t, EXPR)

STEP_MAPS(MAP)
STEP_TESTS(MAP_TEST)
STEP_PICKS(MAP_PICK)

// DOT. Results that a multiply-add may not have right are computed once more, lane by lane.
#define DOT_STEP(x, y, sum) __builtin_fmaf(tc_settled(x), tc_settled(y), sum)
static const step *FN(DOT, I32, v)(const step *s, char *frame) {
  A_I32 *d = vector_at(frame, s->dst);
  const A_I32 *a = vector_at(frame, s->src[0]), *b = vector_at(frame, s->src[1]), *c = vector_at(frame, s->src[2]);
  for (uint32_t left = s->lanes;; left -= 16, d += 16, a += 16, b += 16, c += 16) {
    uint32_t rare = 0;
    int32_t sum[16];
    IVDEP for (int j = 0; j < 16; j++) {
      const uint32_t x = (uint32_t)a[j], y = (uint32_t)b[j];
      const uint32_t high = tc_bits_of(DOT_STEP(x & 0xffff0000, y & 0xffff0000, tc_settled((uint32_t)c[j])));
      const uint32_t both = tc_bits_of(DOT_STEP(x << 16, y << 16, tc_settled(high)));
      rare |= tc_is_rare_sum(high) | tc_is_rare_sum(both);
      sum[j] = (int32_t)tc_bits_of(tc_settled(both));
    }
    for (int j = 0; j < 16 && rare; j++) sum[j] = (int32_t)tc_exact_dot((uint32_t)a[j], (uint32_t)b[j], (uint32_t)c[j]);
    memcpy(d, sum, sizeof sum);
    if (left <= 16) return s + 1;
  }
}
static const step *FN(DOT, I32, s)(const step *s, char *frame) {
  const uint32_t x = *(const uint32_t *)slot_at(frame, s->src[0]), y = *(const uint32_t *)slot_at(frame, s->src[1]);
  const uint32_t sum = *(const uint32_t *)slot_at(frame, s->src[2]);
  *(uint32_t *)slot_at(frame, s->dst) = tc_exact_dot(x, y, sum);
  return s + 1;
}

// A row of TMM_DOT: sums of c, whose row of a has `n` words. Rows of b are 16 words apart.
static void FN(TMM_ROW, I32, v)(uint32_t *c, const uint32_t *a, const uint32_t *b, uint32_t n) {
  float even[16] = {0}, odd[16] = {0};
  uint32_t rare = 0;
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t x = a[k], *y = b + 16 * (size_t)k;
    IVDEP for (int j = 0; j < 16; j++) {
      const uint32_t low = tc_bits_of(DOT_STEP(x << 16, y[j] << 16, even[j]));
      const uint32_t high = tc_bits_of(DOT_STEP(x & 0xffff0000, y[j] & 0xffff0000, odd[j]));
      rare |= tc_is_rare_sum(low) | tc_is_rare_sum(high);
      even[j] = tc_settled(low), odd[j] = tc_settled(high);
    }
  }
  uint32_t sum[16];
  IVDEP for (int j = 0; j < 16; j++) {
    const uint32_t both = tc_bits_of(even[j] + odd[j]);
    sum[j] = tc_bits_of(tc_settled(c[j]) + tc_settled(both));
    rare |= (uint32_t)tc_bits_are_nan(sum[j]);
    sum[j] = tc_bits_of(tc_settled(sum[j]));
  }
  for (int j = 0; j < 16 && rare; j++) {
    uint32_t chain[2] = {0, 0};
    for (uint32_t k = 0; k < n; k++) {
      chain[0] = tc_exact_fma(a[k] << 16, b[16 * (size_t)k + j] << 16, chain[0]);
      chain[1] = tc_exact_fma(a[k] & 0xffff0000, b[16 * (size_t)k + j] & 0xffff0000, chain[1]);
    }
    sum[j] = tc_exact_add(c[j], tc_exact_add(chain[0], chain[1]));
  }
  memcpy(c, sum, sizeof sum);
}
static const step *FN(TMM_DOT, I32, v)(const step *s, char *frame) {
  uint32_t *c = tmm_at(frame, s, s->imm & 255);
  const uint32_t *a = tmm_at(frame, s, s->imm >> 8 & 255), *b = tmm_at(frame, s, (unsigned)(s->imm >> 16));
  for (uint32_t m = 0; m < (s->pieces & 255); m++)
    FN(TMM_ROW, I32, v)(c + 16 * (size_t)m, a + 16 * (size_t)m, b, s->pieces >> 16);
  return s + 1;
}

// One element times a vector, plus a vector.
#define SCALED(NAME, TY, FMA, FROM) \
  static const step *FN(NAME, TY, v)(const step *s, char *frame) { \
    enum { GRAIN = 64 / (int)sizeof(T_##TY) }; \
    T_##TY x; \
    memcpy(&x, FROM, sizeof x); \
    A_##TY *d = vector_at(frame, s->dst); \
    const A_##TY *b = vector_at(frame, s->src[1]), *c = vector_at(frame, s->src[2]); \
    EACH_PIECE(GRAIN, (d += GRAIN, b += GRAIN, c += GRAIN), d[j] = FMA(x, b[j], c[j]);) \
    return s + 1; \
  }
SCALED(SCALED, F32, __builtin_fmaf, slot_at(frame, s->src[0]))
SCALED(SCALED, F64, __builtin_fma, slot_at(frame, s->src[0]))
SCALED(SCALED_FROM, F32, __builtin_fmaf, buffer_at(frame, s))
SCALED(SCALED_FROM, F64, __builtin_fma, buffer_at(frame, s))

// Two ops of F32 of which the second alone reads what the first computes, which stays in registers.
#define PAIR_AT(SECOND, FIRST, AT, EXPR) \
  static const step *FN(PAIR_##SECOND, FIRST, AT)(const step *s, char *frame) { \
    A_F32 *d = vector_at(frame, s->dst); \
    const A_F32 *a = vector_at(frame, s->src[0]), *b = vector_at(frame, s->src[1]), *c = vector_at(frame, s->src[2]); \
    EACH_PIECE(16, (d += 16, a += 16, b += 16, c += 16), { \
      const float first = f32_##FIRST(a[j], b[j]), other = c[j]; \
      d[j] = f32_##SECOND EXPR; \
    }) \
    return s + 1; \
  }
#define PAIR(SECOND, FIRST) PAIR_AT(SECOND, FIRST, 0, (first, other)) PAIR_AT(SECOND, FIRST, 1, (other, first))
STEP_PAIRS(PAIR)

static const step *FN(FMA_FMA, F32, v)(const step *s, char *frame) {
  A_F32 *d = vector_at(frame, s->dst);
  const A_F32 *a = vector_at(frame, s->src[0]), *b = vector_at(frame, s->src[1]), *c = vector_at(frame, s->src[2]);
  const A_F32 *e = vector_at(frame, s->src[3]), *f = vector_at(frame, s->src[4]);
  EACH_PIECE(16, (d += 16, a += 16, b += 16, c += 16, e += 16, f += 16),
             d[j] = __builtin_fmaf(__builtin_fmaf(a[j], b[j], c[j]), e[j], f[j]);)
  return s + 1;
}

// SELECT by a comparison of F32 that nothing else reads.
#define PICK(TEST, SIGN) \
  static const step *FN(PICK, TEST, v)(const step *s, char *frame) { \
    A_I32 *d = vector_at(frame, s->dst); \
    const A_F32 *a = vector_at(frame, s->src[0]), *b = vector_at(frame, s->src[1]); \
    const A_I32 *c = vector_at(frame, s->src[2]), *e = vector_at(frame, s->src[3]); \
    EACH_PIECE(16, (d += 16, a += 16, b += 16, c += 16, e += 16), { \
      const int32_t yes = c[j], no = e[j]; \
      d[j] = a[j] SIGN b[j] ? yes : no; \
    }) \
    return s + 1; \
  }
STEP_TESTS_OF_PICKS(PICK)

// Conversions: an element is taken as an integer (i), float (f) or double (d), then put into the
// result's type.
#define CAST_TO(D, S, K) CAST_BY(CAST_##D, D, S, PUT_##D##_##K)
#define CAST_BY(NAME, D, S, PUT) \
  static const step *FN(NAME, S, v)(const step *s, char *frame) { \
    enum { WIDE = sizeof(T_##S) > sizeof(T_##D) ? sizeof(T_##S) : sizeof(T_##D), GRAIN = 64 / WIDE }; \
    A_##D *d = vector_at(frame, s->dst); \
    const A_##S *a = vector_at(frame, s->src[0]); \
    EACH_PIECE(GRAIN, (d += GRAIN, a += GRAIN), d[j] = PUT(TAKE_##S(a[j]));) \
    return s + 1; \
  }
// clang-format off
#define CASTS_FROM(D) \
  CAST_TO(D, BOOL, i) CAST_TO(D, U8, i) CAST_TO(D, I8, i) CAST_TO(D, I16, i) CAST_TO(D, I32, i) CAST_TO(D, I64, i) \
  CAST_TO(D, F16, f) CAST_TO(D, BF16, f) CAST_TO(D, F32, f) CAST_TO(D, F64, d)
// clang-format on
// clang-format off
CASTS_FROM(BOOL) CASTS_FROM(U8) CASTS_FROM(I8) CASTS_FROM(I16) CASTS_FROM(I32) CASTS_FROM(I64)
CASTS_FROM(F16) CASTS_FROM(BF16) CASTS_FROM(F32) CASTS_FROM(F64)
CAST_BY(SETTLE_BF16, BF16, F32, PUT_SETTLE)
// clang-format on

#ifdef ISA_F16C
        static const step *FN(UNPACK, F16, v)(const step *s, char *frame) {
  float *d = slot_at(frame, s->dst);
  const __m128i *a = slot_at(frame, s->src[0]);
  for (uint32_t i = 0; i < s->lanes; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(a + i / 8)));
  return s + 1;
}
static const step *FN(PACK, F16, v)(const step *s, char *frame) {
  __m128i *d = slot_at(frame, s->dst);
  const float *a = slot_at(frame, s->src[0]);
  for (uint32_t i = 0; i < s->lanes; i += 8)
    _mm_storeu_si128(d + i / 8, _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
  return s + 1;
}
#endif

// Halves of the vector, combined until one lane is left. x is the lower lane.
#define HALVE(OP, TY, EXPR) \
  static const step *FN(H##OP, TY, v)(const step *s, char *frame) { \
    TYPES_OF(TY) \
    T t[TC_KIR_LANES]; \
    memcpy(t, slot_at(frame, s->src[0]), s->lanes * sizeof(T)); \
    for (uint32_t h = s->lanes / 2; h > 0; h /= 2) \
      for (uint32_t j = 0; j < h; j++) { \
        const T x = t[j], y = t[j + h]; \
        (void)BITS, (void)SG; \
        t[j] = (T)(EXPR); \
      } \
    *(T *)slot_at(frame, s->dst) = t[0]; \
    return s + 1; \
  }
STEP_HALVES(HALVE)

// Lanes from elements AT of memory, and to them, where the mask, if there is one, is on.
// e: the indices of INDEXED ops.
#define READ_LANES(NAME, TY, MEMORY, AT, MASKED) \
  static const step *FN(NAME, TY, v)(const step *s, char *frame) { \
    T_##TY *d = slot_at(frame, s->dst); \
    const char *p = MEMORY; \
    const int64_t *e = slot_at(frame, s->src[0]); \
    const uint8_t *m = slot_at(frame, s->src[1]); \
    const bool masked = MASKED; \
    (void)e; \
    for (uint32_t i = 0; i < s->lanes; i++) { \
      T_##TY x = 0; \
      if (!masked || m[i]) memcpy(&x, p + (AT) * (int64_t)sizeof x, sizeof x); \
      d[i] = x; \
    } \
    return s + 1; \
  }
#define WRITE_LANES(NAME, TY, MEMORY, AT, MASKED) \
  static const step *FN(NAME, TY, v)(const step *s, char *frame) { \
    const T_##TY *a = slot_at(frame, s->src[1]); \
    char *p = MEMORY; \
    const int64_t *e = slot_at(frame, s->src[0]); \
    const uint8_t *m = slot_at(frame, s->src[2]); \
    const bool masked = MASKED; \
    (void)e; \
    for (uint32_t i = 0; i < s->lanes; i++) \
      if (!masked || m[i]) memcpy(p + (AT) * (int64_t)sizeof *a, a + i, sizeof *a); \
    return s + 1; \
  }
// Moves by element size.
#define MOVES(TY) \
  static const step *FN(SPLAT, TY, v)(const step *s, char *frame) { \
    T_##TY *d = slot_at(frame, s->dst); \
    const T_##TY x = *(const T_##TY *)slot_at(frame, s->src[0]); \
    for (uint32_t i = 0; i < s->lanes; i++) d[i] = x; \
    return s + 1; \
  } \
  static const step *FN(UNPACK, TY, v)(const step *s, char *frame) { \
    T_##TY t[TC_KIR_LANES], *d = slot_at(frame, s->dst); \
    const uint32_t half = s->lanes / 2; \
    const T_##TY *a = slot_at(frame, s->src[0]), *b = slot_at(frame, s->src[1]); \
    if (s->imm) a += half, b += half; \
    for (uint32_t i = 0; i < half; i++) t[2 * i] = a[i], t[2 * i + 1] = b[i]; \
    memcpy(d, t, s->lanes * sizeof *d); \
    return s + 1; \
  } \
  static const step *FN(INTERLEAVE, TY, v)(const step *s, char *frame) { \
    T_##TY *d = slot_at(frame, s->dst); \
    const T_##TY *a = slot_at(frame, s->src[0]), *b = slot_at(frame, s->src[1]); \
    for (uint32_t i = 0; i < s->lanes / 2; i++) d[2 * i] = a[i], d[2 * i + 1] = b[i]; \
    return s + 1; \
  } \
  READ_LANES(LOADM, TY, buffer_at(frame, s), i, true) \
  READ_LANES(GATHER, TY, head_of(frame)->buf[s->imm], e[i], s->masked) \
  WRITE_LANES(STOREM, TY, buffer_at(frame, s), i, true) \
  WRITE_LANES(SCATTER, TY, head_of(frame)->buf[s->imm], e[i], s->masked)
// clang-format off
MOVES(U8) MOVES(I16) MOVES(I32) MOVES(I64)
// clang-format on

// Copies of a constant size, and of whole 64-byte pieces: a slot from memory, memory from a slot, a
// slot from a slot.
#define COPY_PIECES(NAME, N, PIECES, TO, FROM) \
  static const step *FN(NAME, N, v)(const step *s, char *frame) { \
    char *to = TO; \
    const char *from = FROM; \
    for (uint32_t i = 0; i < (PIECES); i++) memcpy(to + i * N, from + i * N, N); \
    return s + 1; \
  }
#define COPIES(N, PIECES) \
  COPY_PIECES(LOAD, N, PIECES, slot_at(frame, s->dst), buffer_at(frame, s)) \
  COPY_PIECES(STORE, N, PIECES, buffer_at(frame, s), slot_at(frame, s->src[1])) \
  COPY_PIECES(COPY, N, PIECES, slot_at(frame, s->dst), slot_at(frame, s->src[0]))
// clang-format off
COPIES(1, 1) COPIES(2, 1) COPIES(4, 1) COPIES(8, 1) COPIES(16, 1) COPIES(32, 1) COPIES(64, s->pieces)
// clang-format on

#ifdef STREAM
        static const step *FN(STORE_STREAMING, 64, v)(const step *s, char *frame) {
  const char *a = slot_at(frame, s->src[1]);
  char *p = buffer_at(frame, s);
  for (uint32_t i = 0; i < s->pieces; i++) STREAM(p + i * 64, a + i * 64);
  return s + 1;
}
#endif

#ifdef LOOK_UP
static const step *FN(LOOK_UP, F32, v)(const step *s, char *frame) {
  char *d = vector_at(frame, s->dst);
  const char *a = vector_at(frame, s->src[0]);
  for (uint32_t i = 0; i < s->lanes; i += 16) LOOK_UP(d + i * 4, tc_kir_table[s->imm], a + i * 4);
  return s + 1;
}
#endif

#define ENTRY(OP, TY, EXPR) .map[TC_IR_##OP][TC_##TY] = {FN(OP, TY, v), FN(OP, TY, s)},
#define ENTRY_HALVE(OP, TY, EXPR) .halve[TC_IR_##OP][TC_##TY] = FN(H##OP, TY, v),
#define ENTRY_CAST(D, S) .cast[TC_##D][TC_##S] = FN(CAST_##D, S, v),
// clang-format off
#define ENTRY_CASTS(D) \
  ENTRY_CAST(D, BOOL) ENTRY_CAST(D, U8) ENTRY_CAST(D, I8) ENTRY_CAST(D, I16) ENTRY_CAST(D, I32) ENTRY_CAST(D, I64) ENTRY_CAST(D, F16) \
  ENTRY_CAST(D, BF16) ENTRY_CAST(D, F32) ENTRY_CAST(D, F64)
// clang-format on
#define ENTRY_PAIR(SECOND, FIRST) \
  .pair[PAIR_##SECOND][PAIR_##FIRST] = {FN(PAIR_##SECOND, FIRST, 0), FN(PAIR_##SECOND, FIRST, 1)},
#define ENTRY_PICK(TEST, SIGN) .pick[TC_IR_##TEST] = FN(PICK, TEST, v),
#define ENTRY_MOVES(LOG, TY) \
  .splat[LOG] = FN(SPLAT, TY, v), .load_masked[LOG] = FN(LOADM, TY, v), .store_masked[LOG] = FN(STOREM, TY, v), \
  .gather[LOG] = FN(GATHER, TY, v), .scatter[LOG] = FN(SCATTER, TY, v), .unpack[LOG] = FN(UNPACK, TY, v), \
  .interleave[LOG] = FN(INTERLEAVE, TY, v),
#define ENTRY_COPIES(LOG, N) .load[LOG] = FN(LOAD, N, v), .store[LOG] = FN(STORE, N, v), .copy[LOG] = FN(COPY, N, v),

#define STEPS_NAME(isa) STEPS_NAME_(isa)
#define STEPS_NAME_(isa) steps_##isa
// clang-format off
static const step_set STEPS_NAME(ISA) = {
    STEP_MAPS(ENTRY) ENTRY(DOT, I32, 0) STEP_TESTS(ENTRY) STEP_PICKS(ENTRY) STEP_HALVES(ENTRY_HALVE)
    ENTRY_CASTS(BOOL) ENTRY_CASTS(U8) ENTRY_CASTS(I8) ENTRY_CASTS(I16) ENTRY_CASTS(I32) ENTRY_CASTS(I64)
    ENTRY_CASTS(F16) ENTRY_CASTS(BF16) ENTRY_CASTS(F32) ENTRY_CASTS(F64)
    ENTRY_MOVES(0, U8) ENTRY_MOVES(1, I16) ENTRY_MOVES(2, I32) ENTRY_MOVES(3, I64)
    ENTRY_COPIES(0, 1) ENTRY_COPIES(1, 2) ENTRY_COPIES(2, 4) ENTRY_COPIES(3, 8) ENTRY_COPIES(4, 16) ENTRY_COPIES(5, 32) ENTRY_COPIES(6, 64)
    STEP_PAIRS(ENTRY_PAIR) STEP_TESTS_OF_PICKS(ENTRY_PICK)
    .fma_fma = FN(FMA_FMA, F32, v), .cast_settled = FN(SETTLE_BF16, F32, v), .tmm_dot = FN(TMM_DOT, I32, v),
    .scaled[TC_F32] = FN(SCALED, F32, v), .scaled[TC_F64] = FN(SCALED, F64, v),
    .scaled_from[TC_F32] = FN(SCALED_FROM, F32, v), .scaled_from[TC_F64] = FN(SCALED_FROM, F64, v),
#ifdef STREAM
    .store_streaming = FN(STORE_STREAMING, 64, v),
#endif
#ifdef LOOK_UP
    .look_up = FN(LOOK_UP, F32, v),
#endif
#ifdef ISA_F16C
    .pack_f16 = FN(PACK, F16, v), .unpack_f16 = FN(UNPACK, F16, v),
#endif
};
// clang-format on
#undef DOT_STEP
