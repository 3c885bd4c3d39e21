// Types, operands, and the steps that are made of them.
#include <stdlib.h>
#include <string.h>

#include "tests/sim/code_parse.h"

// ---- types ----

#define BASIC(kind, bytes, constant) {kind, constant, NULL, 0, bytes, bytes, NULL}
#define BASICS(constant) \
  { \
      BASIC(SIM_VOID, 0, constant), BASIC(SIM_I8, 1, constant),  BASIC(SIM_U8, 1, constant), \
      BASIC(SIM_I16, 2, constant),  BASIC(SIM_U16, 2, constant), BASIC(SIM_I32, 4, constant), \
      BASIC(SIM_U32, 4, constant),  BASIC(SIM_I64, 8, constant), BASIC(SIM_U64, 8, constant), \
      BASIC(SIM_F32, 4, constant),  BASIC(SIM_F64, 8, constant)}
static const type basic[] = BASICS(false), const_basic[] = BASICS(true);

const type *sim_basic(int kind) {
  return &basic[kind];
}

const type *sim_const(parser *p, const type *t) {
  if (t->is_const) return t;
  if (t->kind <= SIM_F64) return &const_basic[t->kind];
  type *c = sim_take(p, sizeof *c);
  *c = *t;
  c->is_const = true;
  return c;
}

const type *sim_pointer(parser *p, const type *to) {
  type *t = sim_take(p, sizeof *t);
  *t = (type){.kind = POINTER, .to = to, .bytes = 8, .align = 8};
  return t;
}

const type *sim_array(parser *p, const type *of, int n) {
  type *t = sim_take(p, sizeof *t);
  *t = (type){.kind = ARRAY, .to = of, .n = n, .bytes = of->bytes * (size_t)n, .align = of->align};
  return t;
}

bool sim_same(const type *a, const type *b) {
  if (a->kind != b->kind) return false;
  if (a->kind == STRUCT) return a->field == b->field;
  if (a->kind != POINTER && a->kind != ARRAY) return true;
  return a->n == b->n && a->to->is_const == b->to->is_const && sim_same(a->to, b->to);
}

// ---- steps ----

int sim_next_step(const parser *p) {
  return (int)p->code->n_steps;
}

int sim_land(parser *p) {
  p->landed = p->code->n_steps;
  return sim_next_step(p);
}

int sim_emit(parser *p, sim_step_kind kind, int n, int d, int a, int b) {
  sim_code *c = p->code;
  if (c->n_steps == p->cap_steps) {
    p->cap_steps = p->cap_steps ? 2 * p->cap_steps : 256;
    sim_inst *step = realloc(c->step, p->cap_steps * sizeof *step);
    if (step) c->step = step;
    int32_t *line = step ? realloc(c->line, p->cap_steps * sizeof *line) : NULL;
    if (line) c->line = line;
    if (!line) sim_refuse(p);
  }
  c->line[c->n_steps] = p->now[-1].line;
  c->step[c->n_steps] = (sim_inst){(uint16_t)kind, (uint16_t)n, d, a, b};
  return (int)c->n_steps++;
}

int sim_slots(parser *p, int n) {
  int first = p->top;
  p->top += n;
  if (p->top > p->most) p->most = p->top;
  return first;
}

int sim_constant(parser *p, uint64_t bits) {
  for (int i = 0; i < p->n_constants; i++) {
    if (p->constant[i] == bits) return -1 - i;
  }
  SIM_GROW(p, p->constant, p->n_constants, p->cap_constants);
  p->constant[p->n_constants++] = bits;
  return -p->n_constants;
}

operand sim_number(int kind, uint64_t bits) {
  return (operand){.place = NUMBER, .type = sim_basic(kind), .bits = bits};
}

int sim_slot(parser *p, operand value) {
  return value.place == NUMBER ? sim_constant(p, value.bits) : value.at;
}

void sim_move(parser *p, int to, operand value) {
  int from = sim_slot(p, value);
  for (int i = 0; from != to && i < slots_of(value.type); i++) sim_emit(p, SIM_DO_MOVE, 0, to + i, from + i, 0);
}

// Whether a step does no more than compute what its slot d gets, of other slots.
static bool only_computes(const sim_inst *s) {
  switch ((sim_step_kind)s->kind) {
    case SIM_DO_FMA_F32:
    case SIM_DO_FMA_F64:
    case SIM_DO_STORE:
    case SIM_DO_STORE_WIDE:
    case SIM_DO_LOAD_WIDE:
    case SIM_DO_LOAD_ONLY:
    case SIM_DO_LOCAL_STORE:
    case SIM_DO_JUMP:
    case SIM_DO_JUMP_IF:
    case SIM_DO_JUMP_IF_NOT:
    case SIM_DO_RETURN:
    case SIM_DO_CALL:
    case SIM_DO_WORD: return false;
    default: return true;
  }
}

// What the last step made for this alone it makes in its place.
void sim_put(parser *p, int to, operand value) {
  uint32_t n = p->code->n_steps;
  sim_inst *last = n ? &p->code->step[n - 1] : NULL;
  if (value.place == VALUE && value.at >= p->variables && slots_of(value.type) == 1 && last && p->landed != n &&
      last->d == value.at && only_computes(last)) {
    last->d = to;
  } else {
    sim_move(p, to, value);
  }
}

// ---- memory ----

// How a value of a number's or a pointer's type lies in memory.
static int stored_as(const parser *p, const type *t) {
  (void)p;
  return t->kind == POINTER ? SIM_U64 : t->kind;
}

// Are a struct's members so many u32 that a device reads and writes at once?
static bool is_wide(const type *t) {
  return t->kind == STRUCT && t->align == t->bytes;
}

static int field_address(parser *p, operand memory, size_t offset) {
  if (offset == 0) return memory.at;
  int d = sim_slots(p, 1);
  sim_emit(p, SIM_DO_ADD_64, 0, d, memory.at, sim_constant(p, offset));
  return d;
}

static void check_fields(parser *p, const type *t) {
  if (t->n > MAX_FIELDS) sim_refuse(p);
  for (int i = 0; i < t->n; i++) {
    if (t->field[i].type->kind == STRUCT || t->field[i].type->kind == ARRAY) sim_refuse(p);
  }
}

static operand load_struct(parser *p, operand memory) {
  const type *t = memory.type;
  check_fields(p, t);
  int d = sim_slots(p, t->n);
  if (is_wide(t)) {
    sim_emit(p, SIM_DO_LOAD_WIDE, t->n, d, memory.at, 0);
  } else {
    for (int i = 0; i < t->n; i++) {
      int at = field_address(p, memory, t->field[i].offset);
      sim_emit(p, SIM_DO_LOAD, stored_as(p, t->field[i].type), d + i, at, 0);
    }
  }
  return (operand){.place = VALUE, .type = t, .at = d};
}

operand sim_value(parser *p, operand x) {
  if (x.type->kind == ARRAY) {
    int d = x.at;
    if (x.place == LOCAL) sim_emit(p, SIM_DO_ADDRESS, 0, d = sim_slots(p, 1), 0, x.at);
    const type *to = x.type->is_const ? sim_const(p, x.type->to) : x.type->to;
    return (operand){.place = VALUE, .type = sim_pointer(p, to), .at = d};
  }
  if (x.place != MEMORY && x.place != LOCAL) return x;
  if (x.type->kind == STRUCT) return load_struct(p, x);
  if (x.type->kind == SIM_VOID) sim_refuse(p);
  int d = sim_slots(p, 1);
  sim_emit(p, x.place == LOCAL ? SIM_DO_LOCAL_LOAD : SIM_DO_LOAD, stored_as(p, x.type), d, x.at, 0);
  return (operand){.place = VALUE, .type = x.type, .at = d};
}

void sim_assign(parser *p, operand to, operand value) {
  const type *t = to.type;
  if (to.place == VARIABLE) {
    sim_put(p, to.at, value);
  } else if (to.place == LOCAL && t->kind != STRUCT) {
    sim_emit(p, SIM_DO_LOCAL_STORE, stored_as(p, t), 0, to.at, sim_slot(p, value));
  } else if (to.place != MEMORY) {
    sim_refuse(p);
  } else if (is_wide(t)) {
    sim_emit(p, SIM_DO_STORE_WIDE, t->n, 0, to.at, sim_slot(p, value));
  } else if (t->kind == STRUCT) {
    check_fields(p, t);
    for (int i = 0; i < t->n; i++) {
      int at = field_address(p, to, t->field[i].offset);
      sim_emit(p, SIM_DO_STORE, stored_as(p, t->field[i].type), 0, at, value.at + i);
    }
  } else {
    sim_emit(p, SIM_DO_STORE, stored_as(p, t), 0, to.at, sim_slot(p, value));
  }
}

// ---- conversions ----

static bool is_signed(int kind) {
  return kind == SIM_I8 || kind == SIM_I16 || kind == SIM_I32 || kind == SIM_I64;
}

// From an i64 of any value, or bits of a u64; MOVE: every value of `from` is one of `to`, or both
// are of 64 bits.
static sim_step_kind integer_conversion(int from, int to) {
  static const sim_step_kind cut[] = {[SIM_I8] = SIM_DO_SEXT8,   [SIM_U8] = SIM_DO_ZEXT8,   [SIM_I16] = SIM_DO_SEXT16,
                                      [SIM_U16] = SIM_DO_ZEXT16, [SIM_I32] = SIM_DO_SEXT32, [SIM_U32] = SIM_DO_ZEXT32};
  size_t have = sim_basic(from)->bytes, want = sim_basic(to)->bytes;
  if (want == 8 || from == to || (have < want && (is_signed(to) || !is_signed(from)))) return SIM_DO_MOVE;
  return cut[to];
}

// In one step. Of reals to integers of fewer than 32 bits there are two, to i32 and on.
sim_step_kind sim_conversion(int from, int to) {
  static const sim_step_kind of_f32[] = {
      [SIM_I32] = SIM_DO_I32_F32, [SIM_U32] = SIM_DO_U32_F32, [SIM_I64] = SIM_DO_I64_F32, [SIM_U64] = SIM_DO_U64_F32};
  static const sim_step_kind of_f64[] = {
      [SIM_I32] = SIM_DO_I32_F64, [SIM_U32] = SIM_DO_U32_F64, [SIM_I64] = SIM_DO_I64_F64, [SIM_U64] = SIM_DO_U64_F64};
  if (from == to) return SIM_DO_MOVE;
  if (to == SIM_F32) return from == SIM_F64 ? SIM_DO_F32_F64 : from == SIM_U64 ? SIM_DO_F32_U64 : SIM_DO_F32_I;
  if (to == SIM_F64) return from == SIM_F32 ? SIM_DO_F64_F32 : from == SIM_U64 ? SIM_DO_F64_U64 : SIM_DO_F64_I;
  if (from == SIM_F32) return of_f32[to];
  if (from == SIM_F64) return of_f64[to];
  return integer_conversion(from, to);
}

static uint64_t cut_number(uint64_t bits, int to) {
  switch (to) {
    case SIM_I8: return (uint64_t)(int8_t)bits;
    case SIM_U8: return (uint8_t)bits;
    case SIM_I16: return (uint64_t)(int16_t)bits;
    case SIM_U16: return (uint16_t)bits;
    case SIM_I32: return (uint64_t)(int32_t)bits;
    case SIM_U32: return (uint32_t)bits;
    default: return bits;
  }
}

operand sim_convert(parser *p, operand v, const type *to) {
  int from_kind = v.type->kind == POINTER ? SIM_U64 : v.type->kind, to_kind = to->kind == POINTER ? SIM_U64 : to->kind;
  if ((v.type->kind == POINTER && is_real(to)) || (to->kind == POINTER && is_real(v.type)) || from_kind > SIM_F64 ||
      to_kind > SIM_F64)
    sim_refuse(p);
  if (v.place == NUMBER && from_kind < SIM_F32 && to_kind < SIM_F32)
    return (operand){.place = NUMBER, .type = to, .bits = cut_number(v.bits, to_kind)};
  if ((from_kind == SIM_F32 || from_kind == SIM_F64) && to_kind < SIM_I32)
    v = sim_convert(p, v, sim_basic(SIM_I32)), from_kind = SIM_I32;
  sim_step_kind step = sim_conversion(from_kind, to_kind);
  if (step == SIM_DO_MOVE && v.place == NUMBER) return (operand){.place = NUMBER, .type = to, .bits = v.bits};
  if (step == SIM_DO_MOVE) return (operand){.place = VALUE, .type = to, .at = v.at, .lasting = v.lasting};
  int from = sim_slot(p, v), d = sim_slots(p, 1);
  sim_emit(p, step, 0, d, from, 0);
  return (operand){.place = VALUE, .type = to, .at = d};
}

operand sim_as(parser *p, operand v, const type *to) {
  const type *from = v.type;
  if (is_number(from) && is_number(to)) return sim_convert(p, v, to);
  if (from->kind == STRUCT && sim_same(from, to)) return v;
  if (to->kind != POINTER) sim_refuse(p);
  if (v.place == NUMBER && is_integer(from) && v.bits == 0) return sim_convert(p, v, to);
  if (from->kind != POINTER || (from->to->is_const && !to->to->is_const)) sim_refuse(p);
  if (to->to->kind != SIM_VOID && !sim_same(from->to, to->to)) sim_refuse(p);
  return sim_convert(p, v, to);
}

// ---- arithmetic ----

// The type in which both are computed.
static const type *common(parser *p, const type *a, const type *b) {
  if (!is_number(a) || !is_number(b)) sim_refuse(p);
  int x = a->kind < SIM_I32 ? SIM_I32 : a->kind, y = b->kind < SIM_I32 ? SIM_I32 : b->kind;
  return sim_basic(x > y ? x : y);
}

typedef struct steps {
  uint32_t sign;
  sim_step_kind i32, u32, i64, u64, f32, f64;
} steps;
#define NONE SIM_DO_MOVE
static const steps arithmetic[] = {
    {S1('+'), SIM_DO_ADD_I32, SIM_DO_ADD_U32, SIM_DO_ADD_64, SIM_DO_ADD_64, SIM_DO_ADD_F32, SIM_DO_ADD_F64},
    {S1('-'), SIM_DO_SUB_I32, SIM_DO_SUB_U32, SIM_DO_SUB_64, SIM_DO_SUB_64, SIM_DO_SUB_F32, SIM_DO_SUB_F64},
    {S1('*'), SIM_DO_MUL_I32, SIM_DO_MUL_U32, SIM_DO_MUL_64, SIM_DO_MUL_64, SIM_DO_MUL_F32, SIM_DO_MUL_F64},
    {S1('/'), SIM_DO_DIV_I32, SIM_DO_DIV_U32, SIM_DO_DIV_I64, SIM_DO_DIV_U64, SIM_DO_DIV_F32, SIM_DO_DIV_F64},
    {S1('%'), SIM_DO_REM_I32, SIM_DO_REM_U32, SIM_DO_REM_I64, SIM_DO_REM_U64, NONE, NONE},
    {S1('&'), SIM_DO_AND, SIM_DO_AND, SIM_DO_AND, SIM_DO_AND, NONE, NONE},
    {S1('|'), SIM_DO_OR, SIM_DO_OR, SIM_DO_OR, SIM_DO_OR, NONE, NONE},
    {S1('^'), SIM_DO_XOR, SIM_DO_XOR, SIM_DO_XOR, SIM_DO_XOR, NONE, NONE},
    {S2('<', '<'), SIM_DO_SHL_I32, SIM_DO_SHL_U32, SIM_DO_SHL_64, SIM_DO_SHL_64, NONE, NONE},
    {S2('>', '>'), SIM_DO_SHR_I32, SIM_DO_SHR_U32, SIM_DO_SHR_I64, SIM_DO_SHR_U64, NONE, NONE},
    {S2('=', '='), SIM_DO_EQ, SIM_DO_EQ, SIM_DO_EQ, SIM_DO_EQ, SIM_DO_EQ_F32, SIM_DO_EQ_F64},
    {S2('!', '='), SIM_DO_NE, SIM_DO_NE, SIM_DO_NE, SIM_DO_NE, SIM_DO_NE_F32, SIM_DO_NE_F64},
    {S1('<'), SIM_DO_LT_I, SIM_DO_LT_I, SIM_DO_LT_I, SIM_DO_LT_U, SIM_DO_LT_F32, SIM_DO_LT_F64},
    {S2('<', '='), SIM_DO_LE_I, SIM_DO_LE_I, SIM_DO_LE_I, SIM_DO_LE_U, SIM_DO_LE_F32, SIM_DO_LE_F64},
};

static sim_step_kind step_for(parser *p, uint32_t sign, int kind) {
  for (size_t i = 0; i < sizeof arithmetic / sizeof *arithmetic; i++) {
    const steps *s = &arithmetic[i];
    if (s->sign != sign) continue;
    sim_step_kind step = kind == SIM_I32   ? s->i32
                         : kind == SIM_U32 ? s->u32
                         : kind == SIM_I64 ? s->i64
                         : kind == SIM_U64 ? s->u64
                         : kind == SIM_F32 ? s->f32
                                           : s->f64;
    if (step != NONE) return step;
  }
  sim_refuse(p);
}

static bool is_comparison(uint32_t sign) {
  return sign == S2('=', '=') || sign == S2('!', '=') || sign == S1('<') || sign == S2('<', '=');
}

// What sizes of arrays are computed of: +, -, * and / of numbers that fit into 31 bits.
static bool folded(uint32_t sign, operand a, operand b, const type *t, operand *out) {
  int64_t x = (int64_t)a.bits, y = (int64_t)b.bits, v;
  if (a.place != NUMBER || b.place != NUMBER || t->kind != SIM_I32) return false;
  if (sign == S1('+')) {
    v = x + y;
  } else if (sign == S1('-')) {
    v = x - y;
  } else if (sign == S1('*')) {
    v = x * y;
  } else if (sign == S1('/') && y > 0) {
    v = x / y;
  } else {
    return false;
  }
  if (v != (int32_t)v) return false;
  *out = sim_number(SIM_I32, (uint64_t)v);
  return true;
}

static operand pointer_plus(parser *p, operand a, operand index, bool minus, int start) {
  if (a.type->to->bytes == 0 || a.type->to->bytes > UINT16_MAX || !is_integer(index.type)) sim_refuse(p);
  int i = sim_slot(p, index);
  if (minus) {
    int negative = sim_slots(p, 1);
    sim_emit(p, SIM_DO_SUB_64, 0, negative, sim_constant(p, 0), i);
    i = negative;
  }
  p->top = start;
  int d = sim_slots(p, 1);
  sim_emit(p, SIM_DO_INDEX, (int)a.type->to->bytes, d, sim_slot(p, a), i);
  return (operand){.place = VALUE, .type = a.type, .at = d};
}

static operand compare_pointers(parser *p, uint32_t sign, operand a, operand b, int start) {
  if (a.type->kind != POINTER) a = sim_as(p, a, b.type);
  if (b.type->kind != POINTER) b = sim_as(p, b, a.type);
  if (a.type->to->kind != SIM_VOID && b.type->to->kind != SIM_VOID && !sim_same(a.type->to, b.type->to)) sim_refuse(p);
  sim_step_kind step = step_for(p, sign, SIM_U64);
  int x = sim_slot(p, a), y = sim_slot(p, b);
  p->top = start;
  int d = sim_slots(p, 1);
  sim_emit(p, step, 0, d, x, y);
  return (operand){.place = VALUE, .type = sim_basic(SIM_I32), .at = d};
}

operand sim_binary(parser *p, uint32_t sign, operand a, operand b, int start) {
  if (sign == S1('>') || sign == S2('>', '=')) {
    operand was = a;
    a = b, b = was;
    sign = sign == S1('>') ? S1('<') : S2('<', '=');
  }
  bool shift = sign == S2('<', '<') || sign == S2('>', '>');
  if (is_comparison(sign) && (a.type->kind == POINTER || b.type->kind == POINTER))
    return compare_pointers(p, sign, a, b, start);
  if (sign == S1('+') && b.type->kind == POINTER) return pointer_plus(p, b, a, false, start);
  if ((sign == S1('+') || sign == S1('-')) && a.type->kind == POINTER)
    return pointer_plus(p, a, b, sign == S1('-'), start);
  const type *t = common(p, a.type, shift ? a.type : b.type);
  operand known;
  a = sim_convert(p, a, t);
  b = sim_convert(p, b, shift ? common(p, b.type, b.type) : t);
  if (folded(sign, a, b, t, &known)) return known;
  sim_step_kind step = step_for(p, sign, t->kind);
  int x = sim_slot(p, a), y = sim_slot(p, b);
  p->top = start;
  int d = sim_slots(p, 1);
  sim_emit(p, step, 0, d, x, y);
  return (operand){.place = VALUE, .type = is_comparison(sign) ? sim_basic(SIM_I32) : t, .at = d};
}
