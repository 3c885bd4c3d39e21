// Runs the steps of a kernel (code.h) as one thread of a block, on its fiber's stack.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/code.h"
#include "tests/sim/run.h"

#define B (&sim_run_block)

static inline float f32_in(uint64_t slot) {
  uint32_t bits = (uint32_t)slot;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

static inline double f64_in(uint64_t slot) {
  double v;
  memcpy(&v, &slot, 8);
  return v;
}

static inline uint64_t of_f32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

static inline uint64_t of_f64(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

// ---- memory ----

static const uint8_t type_bytes[] = {[SIM_I8] = 1,  [SIM_U8] = 1,  [SIM_I16] = 2, [SIM_U16] = 2, [SIM_I32] = 4,
                                     [SIM_U32] = 4, [SIM_I64] = 8, [SIM_U64] = 8, [SIM_F32] = 4, [SIM_F64] = 8};

static inline uint64_t load(const void *at, int type) {
  uint32_t narrow = 0;
  uint64_t v;
  switch (type) {
    case SIM_I8: return memcpy(&narrow, at, 1), (uint64_t)(int8_t)narrow;
    case SIM_U8: return memcpy(&narrow, at, 1), narrow;
    case SIM_I16: return memcpy(&narrow, at, 2), (uint64_t)(int16_t)narrow;
    case SIM_U16: return memcpy(&narrow, at, 2), narrow;
    case SIM_I32: return memcpy(&narrow, at, 4), (uint64_t)(int32_t)narrow;
    case SIM_U32:
    case SIM_F32: return memcpy(&narrow, at, 4), narrow;
    default: return memcpy(&v, at, 8), v;
  }
}

static inline void store(void *at, int type, uint64_t v) {
  switch (type_bytes[type]) {
    case 1: memcpy(at, &v, 1); break;
    case 2: memcpy(at, &v, 2); break;
    case 4: memcpy(at, &v, 4); break;
    default: memcpy(at, &v, 8); break;
  }
}

static void load_wide(uint64_t *to, uint64_t at, int n) {
  uint32_t v[4];
  for (int i = 0; i < n; i++) memcpy(&v[i], (const char *)(uintptr_t)at + 4 * i, 4);
  for (int i = 0; i < n; i++) to[i] = v[i];
}

static void store_wide(uint64_t at, const uint64_t *from, int n) {
  for (int i = 0; i < n; i++) memcpy((char *)(uintptr_t)at + 4 * i, &(uint32_t){(uint32_t)from[i]}, 4);
}

// ---- words ----

// clang-format off
// By what they take and give, without the numbers that are given unwritten: those are arguments like others.
#define SIGNATURES(X) \
  X(V, "v") \
  X(V_I, "vi") \
  X(P_I, "Pi") \
  X(V_LI, "vli") X(U_LUIII, "uluiii") X(V_PL, "vpl") X(L_P, "lp") X(V_P, "vp") X(V_PI, "vpi") X(V_PII, "vpii") X(V_PIII, "vpiii") \
      X(V_PPIIIP, "vppiiip") X(V_PPPIIIII, "vpppiiiii") X(V_PPI, "vppi") X(V_PPIII, "vppiii") X(V_PPPI, "vpppi") X(F_F, "ff") X(D_D, "dd") \
      X(D_DD, "ddd") X(F_U, "fu") X(H_F, "hf") X(H_D, "hd")
typedef enum signature {
#define X(name, types) name,
  SIGNATURES(X)
#undef X
      UNKNOWN
} signature;

// clang-format on
typedef struct word {
  signature signature;
  void *at;
} word;

static signature signature_of(const char *types) {
  static const char *const known[] = {
#define X(name, types) types,
      SIGNATURES(X)
#undef X
  };
  char plain[16] = "";
  for (int i = 0; types[i] && i < 15; i++) {
    char t = types[i];
    plain[i] = t == '#' || (t >= '0' && t <= '9') ? 'i' : i > 0 && strchr("PFUaL", t) ? 'p' : t;
  }
  for (int i = 0; i < UNKNOWN; i++) {
    if (strcmp(known[i], plain) == 0) return (signature)i;
  }
  return UNKNOWN;
}

static const word *word_at(int index) {
  static word *words;
  static int n_words;
  for (; index >= n_words; n_words++) {
    word *more = realloc(words, sizeof *more * (size_t)(n_words + 1));
    if (!more) sim_kill(SIM_MEMORY);
    words = more;
    words[n_words] = (word){signature_of(sim_word_rows[n_words].types), sim_word(sim_word_rows[n_words].word)};
  }
  return &words[index];
}

static void call_word(int index, uint64_t *d, const uint64_t *a) {
  const word *w = word_at(index);
#define POINTER(i) ((void *)(uintptr_t)a[i])
#define INT(i) ((int)a[i])
#define CALL(result, ...) ((result(*)(__VA_ARGS__))w->at)
  switch (w->signature) {
    case V: CALL(void, void)(); break;
    case V_I: CALL(void, int)(INT(0)); break;
    case P_I: *d = (uintptr_t)CALL(void *, int)(INT(0)); break;
    case V_LI: CALL(void, uint64_t, int)(a[0], INT(1)); break;
    case U_LUIII:
      *d = CALL(uint32_t, uint64_t, uint32_t, int, int, int)(a[0], (uint32_t)a[1], INT(2), INT(3), INT(4));
      break;
    case V_PL: CALL(void, void *, uint64_t)(POINTER(0), a[1]); break;
    case L_P: *d = CALL(uint64_t, void *)(POINTER(0)); break;
    case V_P: CALL(void, void *)(POINTER(0)); break;
    case V_PI: CALL(void, void *, int)(POINTER(0), INT(1)); break;
    case V_PII: CALL(void, void *, int, int)(POINTER(0), INT(1), INT(2)); break;
    case V_PIII: CALL(void, void *, int, int, int)(POINTER(0), INT(1), INT(2), INT(3)); break;
    case V_PPIIIP:
      CALL(void, void *, void *, int, int, int, void *)(POINTER(0), POINTER(1), INT(2), INT(3), INT(4), POINTER(5));
      break;
    case V_PPPIIIII:
      CALL(void, void *, void *, void *, int, int, int, int, int)(POINTER(0), POINTER(1), POINTER(2), INT(3), INT(4),
                                                                  INT(5), INT(6), INT(7));
      break;
    case V_PPI: CALL(void, void *, void *, int)(POINTER(0), POINTER(1), INT(2)); break;
    case V_PPIII: CALL(void, void *, void *, int, int, int)(POINTER(0), POINTER(1), INT(2), INT(3), INT(4)); break;
    case V_PPPI: CALL(void, void *, void *, void *, int)(POINTER(0), POINTER(1), POINTER(2), INT(3)); break;
    case F_F: *d = of_f32(CALL(float, float)(f32_in(a[0]))); break;
    case D_D: *d = of_f64(CALL(double, double)(f64_in(a[0]))); break;
    case D_DD: *d = of_f64(CALL(double, double, double)(f64_in(a[0]), f64_in(a[1]))); break;
    case F_U: *d = of_f32(CALL(float, uint32_t)((uint32_t)a[0])); break;
    case H_F: *d = CALL(uint16_t, float)(f32_in(a[0])); break;
    case H_D: *d = CALL(uint16_t, double)(f64_in(a[0])); break;
    case UNKNOWN:
      sim_fault(22, "%s of words.def takes and gives what no signature says", sim_word_rows[index].name);
      sim_kill(SIM_UNKNOWN);
  }
#undef POINTER
#undef INT
#undef CALL
}

// ---- numbers ----

static void check_division(const sim_inst *s, bool by_zero, bool beyond) {
  if (!by_zero && !beyond) return;
  sim_kernel_fault("division", s, "%s", by_zero ? "by zero" : "of the least number by -1");
  sim_kill(SIM_LAUNCH_FAILED);
}

static int64_t divided(const sim_inst *s, int64_t a, int64_t b, int64_t least, bool rest) {
  check_division(s, b == 0, b == -1 && a == least);
  return rest ? a % b : a / b;
}

static uint64_t divided_u(const sim_inst *s, uint64_t a, uint64_t b, bool rest) {
  check_division(s, b == 0, false);
  return rest ? a % b : a / b;
}

// ---- steps ----

static void run(const sim_code *c, const sim_function *f, const uint64_t *args, uint64_t *out) {
  size_t slots = ((size_t)(f->n_constants + f->n_slots) + 1) / 2 * 2;
  uint64_t *frame = __builtin_alloca_with_align(slots * 8 + (size_t)f->array_bytes, 128), *R = frame + f->n_constants;
  uint8_t *bytes = (uint8_t *)(frame + slots);
  memcpy(frame, f->constant, (size_t)f->n_constants * 8);
  memcpy(R, args, (size_t)f->n_args * 8);
  const sim_inst *s = c->step + f->first;
  uint64_t *d;
  // A jump behind every step, from a table: a processor foresees those better than one that all
  // steps share, and a third of the time goes.
  static const void *const label[] = {
#define X(name) &&do_##name,
      SIM_STEPS(X)
#undef X
  };
  // clang-format off
  // Where a step has no such operand its number is 0 or none of a slot's, and it is not looked at.
#define A R[s->a]
#define C R[s->b]
#define FA f32_in(A)
#define FC f32_in(C)
#define DA f64_in(A)
#define DC f64_in(C)
#define AT(slot) ((void *)(uintptr_t)(slot))
#define I32(v) ((uint64_t)(int32_t)(v))
#define GO() \
  d = &R[s->d]; \
  goto *label[s->kind]
#define STEP(name, ...) \
  do_##name : __VA_ARGS__; \
  s++; \
  GO();
  GO();
  STEP(MOVE, *d = A)
  STEP(SEXT8, *d = (uint64_t)(int8_t)A)
  STEP(SEXT16, *d = (uint64_t)(int16_t)A)
  STEP(SEXT32, *d = I32(A))
  STEP(ZEXT8, *d = (uint8_t)A)
  STEP(ZEXT16, *d = (uint16_t)A)
  STEP(ZEXT32, *d = (uint32_t)A)
  STEP(F32_I, *d = of_f32((float)(int64_t)A))
  STEP(F32_U64, *d = of_f32((float)A))
  STEP(F64_I, *d = of_f64((double)(int64_t)A))
  STEP(F64_U64, *d = of_f64((double)A))
  STEP(F64_F32, *d = of_f64((double)FA))
  STEP(F32_F64, *d = of_f32((float)DA))
  STEP(I32_F32, *d = I32(FA))
  STEP(U32_F32, *d = (uint32_t)FA)
  STEP(I64_F32, *d = (uint64_t)(int64_t)FA)
  STEP(U64_F32, *d = (uint64_t)FA)
  STEP(I32_F64, *d = I32(DA))
  STEP(U32_F64, *d = (uint32_t)DA)
  STEP(I64_F64, *d = (uint64_t)(int64_t)DA)
  STEP(U64_F64, *d = (uint64_t)DA)
  STEP(ADD_I32, *d = I32(A + C))
  STEP(ADD_U32, *d = (uint32_t)(A + C))
  STEP(ADD_64, *d = A + C)
  STEP(ADD_F32, *d = of_f32(FA + FC))
  STEP(ADD_F64, *d = of_f64(DA + DC))
  STEP(SUB_I32, *d = I32(A - C))
  STEP(SUB_U32, *d = (uint32_t)(A - C))
  STEP(SUB_64, *d = A - C)
  STEP(SUB_F32, *d = of_f32(FA - FC))
  STEP(SUB_F64, *d = of_f64(DA - DC))
  STEP(MUL_I32, *d = I32(A * C))
  STEP(MUL_U32, *d = (uint32_t)(A * C))
  STEP(MUL_64, *d = A * C)
  STEP(MUL_F32, *d = of_f32(FA * FC))
  STEP(MUL_F64, *d = of_f64(DA * DC))
  STEP(DIV_I32, *d = (uint64_t)divided(s, (int64_t)A, (int64_t)C, INT32_MIN, false))
  STEP(DIV_I64, *d = (uint64_t)divided(s, (int64_t)A, (int64_t)C, INT64_MIN, false))
  STEP(REM_I32, *d = (uint64_t)divided(s, (int64_t)A, (int64_t)C, INT32_MIN, true))
  STEP(REM_I64, *d = (uint64_t)divided(s, (int64_t)A, (int64_t)C, INT64_MIN, true))
  STEP(DIV_U32, *d = divided_u(s, A, C, false))
  STEP(DIV_U64, *d = divided_u(s, A, C, false))
  STEP(REM_U32, *d = divided_u(s, A, C, true))
  STEP(REM_U64, *d = divided_u(s, A, C, true))
  STEP(DIV_F32, *d = of_f32(FA / FC))
  STEP(DIV_F64, *d = of_f64(DA / DC))
  STEP(AND, *d = A & C)
  STEP(OR, *d = A | C)
  STEP(XOR, *d = A ^ C)
  STEP(NEG_F32, *d = A ^ UINT64_C(1) << 31)
  STEP(NEG_F64, *d = A ^ UINT64_C(1) << 63)
  STEP(FMA_F32, *d = of_f32(fmaf(FA, FC, f32_in(*d))))
  STEP(FMA_F64, *d = of_f64(fma(DA, DC, f64_in(*d))))
  STEP(MULHI_U32, *d = A * C >> 32)
  STEP(SHL_I32, *d = I32(A << (C & 31)))
  STEP(SHL_U32, *d = (uint32_t)(A << (C & 31)))
  STEP(SHL_64, *d = A << (C & 63))
  STEP(SHR_I32, *d = (uint64_t)((int64_t)A >> (C & 31)))
  STEP(SHR_U32, *d = A >> (C & 31))
  STEP(SHR_I64, *d = (uint64_t)((int64_t)A >> (C & 63)))
  STEP(SHR_U64, *d = A >> (C & 63))
  STEP(EQ, *d = A == C)
  STEP(NE, *d = A != C)
  STEP(LT_I, *d = (int64_t)A < (int64_t)C)
  STEP(LE_I, *d = (int64_t)A <= (int64_t)C)
  STEP(LT_U, *d = A < C)
  STEP(LE_U, *d = A <= C)
  STEP(EQ_F32, *d = FA == FC)
  STEP(NE_F32, *d = FA != FC)
  STEP(LT_F32, *d = FA < FC)
  STEP(LE_F32, *d = FA <= FC)
  STEP(EQ_F64, *d = DA == DC)
  STEP(NE_F64, *d = DA != DC)
  STEP(LT_F64, *d = DA < DC)
  STEP(LE_F64, *d = DA <= DC)
  STEP(INDEX, *d = A + C * s->n)
  STEP(ADDRESS, *d = (uintptr_t)(bytes + s->b))
  STEP(LOAD, sim_touch(A, type_bytes[s->n], SIM_READ, s); *d = load(AT(A), s->n))
  STEP(STORE, sim_touch(A, type_bytes[s->n], SIM_WRITE, s); store(AT(A), s->n, C))
  STEP(LOAD_WIDE, sim_touch(A, 4u * s->n, SIM_READ, s); load_wide(d, A, s->n))
  STEP(LOAD_ONLY, sim_touch(A, 4u * s->n, SIM_READ | SIM_READ_ONLY, s); load_wide(d, A, s->n))
  STEP(STORE_WIDE, sim_touch(A, 4u * s->n, SIM_WRITE, s); store_wide(A, &C, s->n))
  STEP(LOCAL_LOAD, *d = load(bytes + s->a, s->n))
  STEP(LOCAL_STORE, store(bytes + s->a, s->n, C))
  STEP(JUMP, s = c->step + s->b - 1)
  STEP(JUMP_IF_NOT, if (!A) s = c->step + s->b - 1)
  STEP(JUMP_IF, if (A) s = c->step + s->b - 1)
  STEP(CALL, run(c, &c->function[s->b], &A, d))
  STEP(WORD, B->now->at = s; call_word(s->b, d, &A))
  STEP(THREAD, *d = (uint64_t)B->now->id)
  STEP(BLOCK, *d = (uint64_t)B->block)
  STEP(BLOCKS, *d = (uint64_t)B->n_blocks)
// clang-format on
do_RETURN:
  for (int i = 0; i < s->n; i++) out[i] = (&A)[i];
}

void sim_run_code(const sim_code *c, const sim_function *f, void *params) {
  // The table's address is the parameter; a value is where it lies.
  uint64_t at = (uintptr_t)params, nothing;
  if (!f->by_value) memcpy(&at, params, 8);
  run(c, f, &at, &nothing);
}
