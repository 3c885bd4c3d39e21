// Expressions.
#include <stdlib.h>
#include <string.h>

#include "tests/sim/code_parse.h"

#define WORD_ARGS 8

const sim_word_row sim_word_rows[] = {
#define SIM_WORD(dialect, function, given) {#dialect, #function, given},
#include "tests/sim/words.def"
#undef SIM_WORD
};

int sim_word_find(const char *text, unsigned length) {
  for (size_t i = 0; i < sizeof sim_word_rows / sizeof *sim_word_rows; i++) {
    if (strlen(sim_word_rows[i].name) == length && memcmp(sim_word_rows[i].name, text, length) == 0) return (int)i;
  }
  return -1;
}

static const type *letter_type(parser *p, char letter) {
  switch (letter) {
    case 'v': return sim_basic(SIM_VOID);
    case 'i': return sim_basic(SIM_I32);
    case 'h': return sim_basic(SIM_U16);
    case 'u': return sim_basic(SIM_U32);
    case 'l': return sim_basic(SIM_U64);
    case 'f': return sim_basic(SIM_F32);
    case 'd': return sim_basic(SIM_F64);
    case 'p': return sim_pointer(p, sim_const(p, sim_basic(SIM_VOID)));
    case 'P': return sim_pointer(p, sim_basic(SIM_VOID));
    case 'F': return sim_pointer(p, sim_basic(SIM_F32));
    case 'U': return sim_pointer(p, sim_basic(SIM_U32));
    case 'L': return sim_pointer(p, sim_basic(SIM_U64));
    default: return sim_pointer(p, sim_const(p, sim_basic(SIM_U32)));
  }
}

static operand fresh(parser *p, const type *t) {
  return (operand){.place = VALUE, .type = t, .at = sim_slots(p, slots_of(t))};
}

// ---- calls ----

// The next argument, converted, in slots from `to` on.
static void argument(parser *p, const type *t, int to) {
  int start = p->top;
  sim_put(p, to, sim_as(p, sim_value(p, sim_assignment(p)), t));
  p->top = start;
}

static operand call_word(parser *p, int index) {
  const char *letter = sim_word_rows[index].types + 1;
  const type *t = letter_type(p, letter[-1]);
  int start = p->top, line = p->now->line, args = sim_slots(p, WORD_ARGS), n = 0;
  sim_expect(p, S1('('));
  for (; *letter; letter++, n++) {
    if (*letter == '#' || (*letter >= '0' && *letter <= '9')) {
      sim_move(p, args + n, sim_number(SIM_I32, (uint64_t)(*letter == '#' ? line : *letter - '0')));
    } else {
      if (n) sim_expect(p, S1(','));
      argument(p, letter_type(p, *letter), args + n);
    }
  }
  sim_expect(p, S1(')'));
  p->top = start;
  operand result = fresh(p, t);
  sim_emit(p, SIM_DO_WORD, 0, result.at, args, index);
  return result;
}

static operand call_function(parser *p, const prototype *f, int index) {
  int start = p->top, n = 0;
  for (int i = 0; i < f->n_args; i++) n += slots_of(f->arg[i]);
  int result_slots = slots_of(f->result), args = sim_slots(p, n > result_slots ? n : result_slots), at = args;
  sim_expect(p, S1('('));
  for (int i = 0; i < f->n_args; i++) {
    if (i) sim_expect(p, S1(','));
    argument(p, f->arg[i], at);
    at += slots_of(f->arg[i]);
  }
  sim_expect(p, S1(')'));
  p->top = start;
  operand result = fresh(p, f->result);
  sim_emit(p, SIM_DO_CALL, 0, result.at, args, index);
  return result;
}

// (p), and for the second form (p, v): of the words that are accesses.
static operand access_word(parser *p, const char *wide, bool store) {
  token of = sim_name_token(wide, 8);
  const name *t = sim_find(p, &of);
  int start = p->top;
  sim_expect(p, S1('('));
  operand at = sim_value(p, sim_assignment(p));
  if (at.type->kind != POINTER || (store && at.type->to->is_const)) sim_refuse(p);
  if (store) {
    sim_expect(p, S1(','));
    operand v = sim_as(p, sim_value(p, sim_assignment(p)), t->type);
    sim_assign(p, (operand){.place = MEMORY, .type = t->type, .at = at.at}, v);
  }
  sim_expect(p, S1(')'));
  p->top = start;
  operand v = fresh(p, store ? sim_basic(SIM_VOID) : t->type);
  if (!store) sim_emit(p, SIM_DO_LOAD_ONLY, t->type->n, v.at, at.at, 0);
  return v;
}

// Words that are a step, or none: one to three numbers of a type. The third lies where the result
// goes.
static bool step_word(parser *p, const token *t, operand *out) {
  static const struct {
    const char *name;
    sim_step_kind step;
    sim_type arg, result;
    int n;
  } row[] = {
      {"tc_bits_f32", SIM_DO_MOVE, SIM_F32, SIM_U32, 1},       {"tc_f32_bits", SIM_DO_MOVE, SIM_U32, SIM_F32, 1},
      {"tc_bits_f64", SIM_DO_MOVE, SIM_F64, SIM_U64, 1},       {"tc_f64_bits", SIM_DO_MOVE, SIM_U64, SIM_F64, 1},
      {"tc_div_f32", SIM_DO_DIV_F32, SIM_F32, SIM_F32, 2},     {"tc_div_f64", SIM_DO_DIV_F64, SIM_F64, SIM_F64, 2},
      {"tc_fma_f32", SIM_DO_FMA_F32, SIM_F32, SIM_F32, 3},     {"tc_fma_f64", SIM_DO_FMA_F64, SIM_F64, SIM_F64, 3},
      {"tc_mulhi_u32", SIM_DO_MULHI_U32, SIM_U32, SIM_U32, 2},
  };
  size_t i = 0;
  while (i < sizeof row / sizeof *row && !same_text(t, row[i].name, (unsigned)strlen(row[i].name))) i++;
  if (i == sizeof row / sizeof *row) return false;
  operand arg[3], result = fresh(p, sim_basic(row[i].result));
  int start = p->top;
  sim_expect(p, S1('('));
  for (int k = 0; k < row[i].n; k++) {
    if (k) sim_expect(p, S1(','));
    arg[k] = sim_as(p, sim_value(p, sim_assignment(p)), sim_basic(row[i].arg));
  }
  sim_expect(p, S1(')'));
  if (row[i].n == 3) sim_move(p, result.at, arg[2]);
  sim_emit(p, row[i].step, 0, result.at, sim_slot(p, arg[0]), row[i].n > 1 ? sim_slot(p, arg[1]) : 0);
  p->top = start;
  *out = result;
  return true;
}

static operand global_word(parser *p) {
  sim_expect(p, S1('('));
  operand v = sim_value(p, sim_assignment(p));
  sim_expect(p, S1(')'));
  if (v.type->kind != SIM_U64) sim_refuse(p);
  return sim_convert(p, v, sim_pointer(p, sim_basic(SIM_VOID)));
}

static operand place_word(parser *p, sim_step_kind step) {
  operand v = fresh(p, sim_basic(SIM_I32));
  sim_emit(p, step, 0, v.at, 0, 0);
  return v;
}

static operand named(parser *p) {
  token t = *p->now++;
  const name *n = sim_find(p, &t);
  if (n && !n->is_type) return n->is;  // a constant may be a number
  if (n) sim_refuse(p);
  if (IS(&t, "TC_THREAD")) return place_word(p, SIM_DO_THREAD);
  if (IS(&t, "TC_BLOCK")) return place_word(p, SIM_DO_BLOCK);
  if (IS(&t, "TC_BLOCKS")) return place_word(p, SIM_DO_BLOCKS);
  if (!is_sign(p, S1('('))) sim_refuse(p);
  int index;
  operand v;
  const prototype *f = sim_find_function(p, &t, &index);
  if (f) return call_function(p, f, index);
  if (step_word(p, &t, &v)) return v;
  if (IS(&t, "tc_global")) return global_word(p);
  if (IS(&t, "tc_load_nc_16")) return access_word(p, "tc_u32x4", false);
  if (IS(&t, "tc_load_nc_8")) return access_word(p, "tc_u32x2", false);
  if (IS(&t, "tc_store_16")) return access_word(p, "tc_u32x4", true);
  if (IS(&t, "tc_store_8")) return access_word(p, "tc_u32x2", true);
  bool of_warps = t.length > 6 && (memcmp(t.at, "tc_mma", 6) == 0 || memcmp(t.at, "tc_ldm", 6) == 0);
  if (of_warps && p->arch < 80) sim_refuse(p);
  bool of_groups = t.length > 7 && (memcmp(t.at, "tc_wgmm", 7) == 0 || memcmp(t.at, "tc_gate", 7) == 0 ||
                                    memcmp(t.at, "tc_fetc", 7) == 0 || memcmp(t.at, "tc_map_", 7) == 0);
  if (of_groups && p->arch != 90) sim_refuse(p);
  index = IS(&t, "TC_SHARED") ? -1 : sim_word_find(t.at, t.length);
  if (index < 0) sim_refuse(p);
  return call_word(p, index);
}

// ---- unary ----

static operand primary(parser *p) {
  token *t = p->now;
  if (t->kind == INTEGER || t->kind == REAL) return p->now++, sim_number((int)t->type, t->bits);
  if (t->kind == NAME) return named(p);
  sim_expect(p, S1('('));
  operand x = sim_expression(p);
  sim_expect(p, S1(')'));
  return x;
}

static operand pointed(parser *p, operand v) {
  if (v.type->kind != POINTER) sim_refuse(p);
  return (operand){.place = MEMORY, .type = v.type->to, .at = sim_slot(p, v)};
}

static operand element(parser *p, operand x, int start) {
  operand index = sim_value(p, sim_expression(p));
  sim_expect(p, S1(']'));
  if (x.type->kind == ARRAY && x.place == LOCAL && index.place == NUMBER && index.bits < (uint64_t)x.type->n) {
    const type *of = x.type->is_const ? sim_const(p, x.type->to) : x.type->to;
    return (operand){.place = LOCAL, .type = of, .at = x.at + (int)(index.bits * of->bytes)};
  }
  operand at = sim_value(p, x);
  if (at.type->kind != POINTER) sim_refuse(p);
  return pointed(p, sim_binary(p, S1('+'), at, index, start));
}

static operand member(parser *p, operand x) {
  token *t = p->now++;
  if (t->kind != NAME || x.type->kind != STRUCT) sim_refuse(p);
  for (int i = 0; i < x.type->n; i++) {
    const field *f = &x.type->field[i];
    if (!same_text(&f->name, t->at, t->length)) continue;
    operand m = {.place = x.place, .type = x.type->is_const ? sim_const(p, f->type) : f->type, .at = x.at + i};
    if (x.place == MEMORY) {
      m.at = x.at;
      if (f->offset) sim_emit(p, SIM_DO_ADD_64, 0, m.at = sim_slots(p, 1), x.at, sim_constant(p, f->offset));
    } else if (x.place == LOCAL) {
      m.at = x.at + (int)f->offset;
    }
    return m;
  }
  sim_refuse(p);
}

static void check_assignable(parser *p, operand x) {
  if (x.type->is_const || x.place == NUMBER || x.place == VALUE || x.type->kind == ARRAY) sim_refuse(p);
}

// ++ and --; behind: the value is the one before.
static operand step_by_one(parser *p, operand x, uint32_t sign, bool behind) {
  check_assignable(p, x);
  operand v = sim_value(p, x), was = v;
  if (behind) {
    was = fresh(p, v.type);
    sim_move(p, was.at, v);
  }
  int start = p->top;
  v = sim_binary(p, sign, v, sim_number(SIM_I32, 1), start);
  if (v.type->kind != POINTER) v = sim_convert(p, v, x.type);
  sim_assign(p, x, v);
  if (behind) p->top = start;
  return behind ? was : (operand){.place = VALUE, .type = v.type, .at = x.place == VARIABLE ? x.at : v.at};
}

static operand postfix(parser *p) {
  int start = p->top;
  operand x = primary(p);
  for (;;) {
    if (sim_accept(p, S1('['))) {
      x = element(p, x, start);
    } else if (sim_accept(p, S1('.'))) {
      x = member(p, x);
    } else if (sim_accept(p, S2('-', '>'))) {
      x = member(p, pointed(p, sim_value(p, x)));
    } else if (sim_accept(p, S2('+', '+'))) {
      x = step_by_one(p, x, S1('+'), true);
    } else if (sim_accept(p, S2('-', '-'))) {
      x = step_by_one(p, x, S1('-'), true);
    } else {
      return x;
    }
  }
}

static operand unary(parser *p);

static operand cast(parser *p) {
  const type *t = sim_type_name(p);
  sim_expect(p, S1(')'));
  operand v = unary(p);
  if (t->kind == SIM_VOID) return (operand){.place = VALUE, .type = t, .at = 0};
  v = sim_value(p, v);
  if (is_real(v.type) && t->kind == POINTER) sim_refuse(p);
  if (v.type->kind == POINTER && t->kind != POINTER && t->bytes != 8) sim_refuse(p);
  operand done = sim_convert(p, v, t);
  if (done.place == VARIABLE) done.place = VALUE;
  return done;
}

static operand address_of(parser *p) {
  operand x = unary(p);
  if (x.place == MEMORY) return (operand){.place = VALUE, .type = sim_pointer(p, x.type), .at = x.at};
  if (x.place != LOCAL || x.type->kind == ARRAY) sim_refuse(p);
  operand v = fresh(p, sim_pointer(p, x.type));
  sim_emit(p, SIM_DO_ADDRESS, 0, v.at, 0, x.at);
  return v;
}

static operand negative(parser *p, operand v, int start) {
  if (is_integer(v.type)) return sim_binary(p, S1('-'), sim_number(SIM_I32, 0), v, start);
  if (!is_real(v.type)) sim_refuse(p);
  if (v.place == NUMBER) {
    v.bits ^= v.type->kind == SIM_F32 ? 1ull << 31 : 1ull << 63;
    return v;
  }
  p->top = start;
  operand d = fresh(p, v.type);
  sim_emit(p, v.type->kind == SIM_F32 ? SIM_DO_NEG_F32 : SIM_DO_NEG_F64, 0, d.at, sim_slot(p, v), 0);
  return d;
}

static operand unary(parser *p) {
  int start = p->top;
  if (is_sign(p, S1('('))) {
    p->now++;
    if (sim_at_type(p)) return cast(p);
    p->now--;
  }
  if (IS(p->now, "sizeof")) {
    p->now++;
    sim_expect(p, S1('('));
    if (!sim_at_type(p)) sim_refuse(p);
    const type *t = sim_type_name(p);
    sim_expect(p, S1(')'));
    return sim_number(SIM_U64, t->bytes);
  }
  if (sim_accept(p, S1('*'))) return pointed(p, sim_value(p, unary(p)));
  if (sim_accept(p, S1('&'))) return address_of(p);
  if (sim_accept(p, S2('+', '+'))) return step_by_one(p, unary(p), S1('+'), false);
  if (sim_accept(p, S2('-', '-'))) return step_by_one(p, unary(p), S1('-'), false);
  if (sim_accept(p, S1('-'))) return negative(p, sim_value(p, unary(p)), start);
  if (sim_accept(p, S1('~'))) return sim_binary(p, S1('^'), sim_value(p, unary(p)), sim_number(SIM_I32, ~0ull), start);
  if (sim_accept(p, S1('!'))) return sim_binary(p, S2('=', '='), sim_value(p, unary(p)), sim_number(SIM_I32, 0), start);
  return postfix(p);
}

// ---- binary ----

static int strength(uint32_t sign) {
  static const uint32_t level[][4] = {{S2('|', '|')},
                                      {S2('&', '&')},
                                      {S1('|')},
                                      {S1('^')},
                                      {S1('&')},
                                      {S2('=', '='), S2('!', '=')},
                                      {S1('<'), S1('>'), S2('<', '='), S2('>', '=')},
                                      {S2('<', '<'), S2('>', '>')},
                                      {S1('+'), S1('-')},
                                      {S1('*'), S1('/'), S1('%')}};
  for (int i = 0; i < 10; i++) {
    for (int k = 0; k < 4; k++) {
      if (level[i][k] == sign) return i + 1;
    }
  }
  return 0;
}

// What a condition looks at: a slot that is 0 or not.
static int truth(parser *p, operand v, int start) {
  if (is_integer(v.type) || v.type->kind == POINTER) return sim_slot(p, v);
  return sim_slot(p, sim_binary(p, S2('!', '='), v, sim_number(SIM_I32, 0), start));
}

static operand binary(parser *p, int least);

// a && b, a || b: b is looked at only where it counts.
static operand lazily(parser *p, uint32_t sign, operand a, int level, int start) {
  bool both = sign == S2('&', '&');
  int test = truth(p, sim_value(p, a), start);
  int around = sim_emit(p, both ? SIM_DO_JUMP_IF_NOT : SIM_DO_JUMP_IF, 0, 0, test, 0);
  p->top = start;
  operand d = fresh(p, sim_basic(SIM_I32));
  int inner = p->top;
  test = truth(p, sim_value(p, binary(p, level + 1)), inner);
  sim_emit(p, SIM_DO_NE, 0, d.at, test, sim_constant(p, 0));
  int end = sim_emit(p, SIM_DO_JUMP, 0, 0, 0, 0);
  p->code->step[around].b = sim_land(p);
  sim_emit(p, SIM_DO_MOVE, 0, d.at, sim_constant(p, !both), 0);
  p->code->step[end].b = sim_land(p);
  p->top = inner;
  return d;
}

static operand binary(parser *p, int least) {
  int start = p->top;
  operand a = unary(p);
  for (;;) {
    uint32_t sign = p->now->kind == SIGN ? p->now->sign : 0;
    int level = strength(sign);
    if (level == 0 || level < least) return a;
    p->now++;
    if (level <= 2) {
      a = lazily(p, sign, a, level, start);
      continue;
    }
    a = sim_value(p, a);
    operand b = sim_value(p, binary(p, level + 1));
    a = sim_binary(p, sign, a, b, start);
  }
}

// The type of c ? a : b.
static const type *chosen_type(parser *p, operand a, operand b) {
  if (a.type->kind == POINTER) return sim_as(p, b, a.type).type;
  if (a.type->kind == STRUCT && sim_same(a.type, b.type)) return a.type;
  if (!is_number(a.type) || !is_number(b.type)) sim_refuse(p);
  int x = a.type->kind < SIM_I32 ? SIM_I32 : a.type->kind, y = b.type->kind < SIM_I32 ? SIM_I32 : b.type->kind;
  return sim_basic(x > y ? x : y);
}

// The first value's conversion to the type of both is known only behind the second: it gets its
// step then.
static operand conditional(parser *p) {
  int start = p->top;
  operand x = binary(p, 1);
  if (!sim_accept(p, S1('?'))) return x;
  int test = truth(p, sim_value(p, x), start), to_second = sim_emit(p, SIM_DO_JUMP_IF_NOT, 0, 0, test, 0);
  p->top = start;
  int d = sim_slots(p, MAX_FIELDS), inner = p->top;
  operand a = sim_value(p, sim_expression(p));
  int from = sim_slot(p, a), first = sim_next_step(p);
  for (int i = 0; i < slots_of(a.type); i++) sim_emit(p, SIM_DO_MOVE, 0, d + i, from + i, 0);
  int end = sim_emit(p, SIM_DO_JUMP, 0, 0, 0, 0);
  sim_expect(p, S1(':'));
  p->code->step[to_second].b = sim_land(p);
  p->top = inner;
  operand b = sim_value(p, conditional(p));
  const type *t = chosen_type(p, a, b);
  if (is_number(t)) {
    p->code->step[first].kind = (uint16_t)sim_conversion(a.type->kind, t->kind);
    b = sim_convert(p, b, t);
  }
  sim_put(p, d, b);
  p->code->step[end].b = sim_land(p);
  p->top = d + slots_of(t);
  return (operand){.place = VALUE, .type = t, .at = d};
}

// ---- assignment ----

static uint32_t operator_of(uint32_t sign) {
  static const uint32_t with[][2] = {{S2('+', '='), S1('+')},           {S2('-', '='), S1('-')},
                                     {S2('*', '='), S1('*')},           {S2('/', '='), S1('/')},
                                     {S2('%', '='), S1('%')},           {S2('&', '='), S1('&')},
                                     {S2('|', '='), S1('|')},           {S2('^', '='), S1('^')},
                                     {S3('<', '<', '='), S2('<', '<')}, {S3('>', '>', '='), S2('>', '>')}};
  for (int i = 0; i < 10; i++) {
    if (with[i][0] == sign) return with[i][1];
  }
  return 0;
}

operand sim_assignment(parser *p) {
  operand x = conditional(p);
  uint32_t sign = p->now->kind == SIGN ? p->now->sign : 0, with = operator_of(sign);
  if (sign != S1('=') && !with) return x;
  check_assignable(p, x);
  p->now++;
  operand v;
  if (with) {
    operand old = sim_value(p, x);
    int start = p->top;
    operand b = sim_value(p, sim_assignment(p));
    v = sim_binary(p, with, old, b, start);
  } else {
    v = sim_value(p, sim_assignment(p));
  }
  v = sim_as(p, v, x.type);
  sim_assign(p, x, v);
  if (x.place == VARIABLE) return (operand){.place = VALUE, .type = x.type, .at = x.at};
  return v;
}

operand sim_expression(parser *p) {
  for (;;) {
    int start = p->top;
    operand x = sim_assignment(p);
    if (!sim_accept(p, S1(','))) return x;
    p->top = start;
  }
}

int64_t sim_known_integer(parser *p) {
  operand v = conditional(p);
  if (v.place != NUMBER || !is_integer(v.type)) sim_refuse(p);
  return (int64_t)v.bits;
}
