// Declarations, statements and functions of a kernel's text. See code.h.
#include "tests/sim/code.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/code_parse.h"

enum { MAX_FRAME_BYTES = 128 << 10, MAX_CALLED_BYTES = 16 << 10 };

// ---- the parser's own ----

void sim_refuse(parser *p) {
  longjmp(p->refused, 1);
}

void *sim_take(parser *p, size_t bytes) {
  void **block = calloc(1, sizeof(void *) * 2 + bytes);
  if (!block) sim_refuse(p);
  block[0] = p->blocks;
  p->blocks = block;
  return block + 2;
}

void *sim_grow(parser *p, void *array, int n, int *cap, size_t each) {
  if (n < *cap) return array;
  int more = *cap ? 2 * *cap : 64;
  void *larger = sim_take(p, (size_t)more * each);
  if (n) memcpy(larger, array, (size_t)n * each);
  *cap = more;
  return larger;
}

bool sim_accept(parser *p, uint32_t sign) {
  if (!is_sign(p, sign)) return false;
  p->now++;
  return true;
}

void sim_expect(parser *p, uint32_t sign) {
  if (!sim_accept(p, sign)) sim_refuse(p);
}

// ---- names ----

const name *sim_find(const parser *p, const token *t) {
  for (int i = p->chain[t->hash % NAME_CHAINS]; i >= 0; i = p->name[i].older) {
    if (p->name[i].name.hash == t->hash && same_text(&p->name[i].name, t->at, t->length)) return &p->name[i];
  }
  return NULL;
}

const prototype *sim_find_function(const parser *p, const token *t, int *index) {
  for (int i = 0; i < p->code->n_functions; i++) {
    if (p->code->function[i].threads || !same_text(&p->prototype[i].name, t->at, t->length)) continue;
    *index = i;
    return &p->prototype[i];
  }
  return NULL;
}

static name *add_name(parser *p, token t) {
  const name *old = sim_find(p, &t);
  if (t.kind != NAME || (old && old->depth == p->depth)) sim_refuse(p);
  SIM_GROW(p, p->name, p->n_names, p->cap_names);
  int *chain = &p->chain[t.hash % NAME_CHAINS];
  p->name[p->n_names] = (name){.name = t, .depth = p->depth, .older = *chain};
  *chain = p->n_names;
  return &p->name[p->n_names++];
}

// Forgets names until there are n.
static void forget_names(parser *p, int n) {
  while (p->n_names > n) {
    const name *last = &p->name[--p->n_names];
    p->chain[last->name.hash % NAME_CHAINS] = last->older;
  }
}

static name *add_text_name(parser *p, const char *text) {
  return add_name(p, sim_name_token(text, (unsigned)strlen(text)));
}

static void add_type(parser *p, const char *text, const type *t) {
  name *n = add_text_name(p, text);
  n->is_type = true;
  n->type = t;
}

static const type *wide_type(parser *p, int n) {
  static const char *const member[] = {"x", "y", "z", "w"};
  field *f = sim_take(p, sizeof *f * (size_t)n);
  for (int i = 0; i < n; i++) f[i] = (field){sim_name_token(member[i], 1), sim_basic(SIM_U32), (size_t)i * 4};
  type *t = sim_take(p, sizeof *t);
  *t = (type){.kind = STRUCT, .n = n, .bytes = (size_t)n * 4, .align = (size_t)n * 4, .field = f};
  return t;
}

static void add_types_of_dialect(parser *p) {
  static const char *const names[] = {"void", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"};
  for (int i = SIM_VOID; i <= SIM_F64; i++) add_type(p, names[i], sim_basic(i));
  add_type(p, "tc_u32x4", wide_type(p, 4));
  add_type(p, "tc_u32x2", wide_type(p, 2));
}

// ---- types as they are written ----

bool sim_at_type(const parser *p) {
  if (IS(p->now, "const")) return true;
  const name *n = p->now->kind == NAME ? sim_find(p, p->now) : NULL;
  return n && n->is_type;
}

static bool accept_const(parser *p) {
  if (!IS(p->now, "const")) return false;
  p->now++;
  return true;
}

static const type *base_type(parser *p) {
  bool is_const = accept_const(p);
  const name *n = p->now->kind == NAME ? sim_find(p, p->now) : NULL;
  if (!n || !n->is_type) sim_refuse(p);
  p->now++;
  is_const |= accept_const(p);
  return is_const ? sim_const(p, n->type) : n->type;
}

static const type *pointers(parser *p, const type *t) {
  while (sim_accept(p, S1('*'))) {
    t = sim_pointer(p, t);
    if (accept_const(p)) t = sim_const(p, t);
  }
  return t;
}

const type *sim_type_name(parser *p) {
  return pointers(p, base_type(p));
}

// [n] behind a name.
static const type *dimensions(parser *p, const type *t) {
  if (!sim_accept(p, S1('['))) return t;
  int64_t n = sim_known_integer(p);
  sim_expect(p, S1(']'));
  if (n < 1 || n > 65536 || t->kind == SIM_VOID) sim_refuse(p);
  return sim_array(p, dimensions(p, t), (int)n);
}

// typedef struct NAME { T a, b; T *c; T d[n]; } NAME; or typedef T NAME;
static const type *struct_type(parser *p) {
  type *t = sim_take(p, sizeof *t);
  field *f = sim_take(p, sizeof *f * 32);
  *t = (type){.kind = STRUCT, .align = 1, .field = f};
  sim_expect(p, S1('{'));
  while (!sim_accept(p, S1('}'))) {
    const type *base = base_type(p);
    do {
      const type *of = pointers(p, base);
      token is = *p->now++;
      of = dimensions(p, of);
      if (is.kind != NAME || t->n == 32 || of->kind == SIM_VOID || of->kind == STRUCT) sim_refuse(p);
      t->bytes = (t->bytes + of->align - 1) / of->align * of->align;
      f[t->n++] = (field){is, of, t->bytes};
      t->bytes += of->bytes;
      if (of->align > t->align) t->align = of->align;
    } while (sim_accept(p, S1(',')));
    sim_expect(p, S1(';'));
  }
  t->bytes = (t->bytes + t->align - 1) / t->align * t->align;
  if (t->n < 2) sim_refuse(p);  // one member: it would be taken for one that is read at once
  return t;
}

static void type_definition(parser *p) {
  const type *t;
  p->now++;
  if (IS(p->now, "struct")) {
    p->now++;
    if (p->now->kind == NAME) p->now++;
    t = struct_type(p);
  } else {
    t = sim_type_name(p);
  }
  name *n = add_name(p, *p->now++);
  n->is_type = true;
  n->type = t;
  sim_expect(p, S1(';'));
}

// ---- declarations ----

// The bytes of an array in the frame.
static int array_place(parser *p, const type *t) {
  int at = (p->array_bytes + 15) / 16 * 16;
  p->array_bytes = at + (int)t->bytes;
  if (p->array_bytes > MAX_FRAME_BYTES) sim_refuse(p);
  return at;
}

// {a, b, ..}: what is not there is 0.
static void initialize_list(parser *p, operand to) {
  bool is_array = to.type->kind == ARRAY;
  int n = to.type->n;
  sim_expect(p, S1('{'));
  for (int i = 0; i < n; i++) {
    const type *of = is_array ? to.type->to : to.type->field[i].type;
    operand part = {
        .place = is_array ? LOCAL : VARIABLE, .type = of, .at = to.at + (is_array ? i * (int)of->bytes : i)};
    if (!is_number(of) && of->kind != POINTER) sim_refuse(p);
    int start = p->top;
    bool given = !is_sign(p, S1('}'));
    sim_assign(p, part, given ? sim_as(p, sim_value(p, sim_assignment(p)), of) : sim_number(SIM_I32, 0));
    p->top = start;
    if (given && !is_sign(p, S1('}'))) sim_expect(p, S1(','));
  }
  sim_expect(p, S1('}'));
}

// Uninitialized variables are whatever the frame holds, as on a device. A name is known only behind
// its own initial value, which then cannot use it.
static void declare_one(parser *p, const type *base) {
  const type *t = pointers(p, base);
  token is = *p->now++;
  t = dimensions(p, t);
  operand v = {.place = VARIABLE, .type = t};
  if (t->kind == SIM_VOID || (t->kind == STRUCT && t->n > MAX_FIELDS)) sim_refuse(p);
  if (t->kind == ARRAY) {
    v.place = LOCAL;
    v.at = array_place(p, t);
    if (sim_accept(p, S1('='))) initialize_list(p, v);
  } else {
    int start = p->top;
    v.at = sim_slots(p, slots_of(t));
    if (sim_accept(p, S1('='))) {
      if (t->kind == STRUCT && is_sign(p, S1('{'))) {
        initialize_list(p, v);
      } else {
        p->top = start;  // a value that is made for it is made in its place
        operand x = sim_as(p, sim_value(p, sim_assignment(p)), t);
        if (t->is_const && (x.lasting || x.place == NUMBER)) {  // no other variable is needed
          p->top = start;
          x.type = t;
          add_name(p, is)->is = x;
          return;
        }
        p->top = v.at;
        sim_move(p, sim_slots(p, slots_of(t)), x);
      }
      p->top = start + slots_of(t);
    } else if (t->is_const) {
      sim_refuse(p);
    }
  }
  v.lasting = t->is_const && t->kind != ARRAY && t->kind != STRUCT;
  p->variables = p->top;
  add_name(p, is)->is = v;
}

static void declaration(parser *p) {
  const type *base = base_type(p);
  do declare_one(p, base);
  while (sim_accept(p, S1(',')));
  sim_expect(p, S1(';'));
}

// ---- statements: each says whether what follows it is never reached, because it returns ----

static bool statement(parser *p);

static void leave_names(parser *p, int n, int top) {
  forget_names(p, n);
  p->top = p->variables = top;
}

static bool block(parser *p) {
  int n = p->n_names, top = p->top;
  bool ends = false;
  p->depth++;
  while (!sim_accept(p, S1('}'))) {
    if (p->now->kind == END) sim_refuse(p);
    ends = statement(p);
  }
  p->depth--;
  leave_names(p, n, top);
  return ends;
}

// A jump to be set where the expression is 0. -1: there is none to test.
static int jump_if_not(parser *p) {
  int start = p->top;
  operand v = sim_value(p, sim_expression(p));
  if (is_real(v.type)) v = sim_binary(p, S2('!', '='), v, sim_number(SIM_I32, 0), start);
  if (!is_integer(v.type) && v.type->kind != POINTER) sim_refuse(p);
  int at = sim_emit(p, SIM_DO_JUMP_IF_NOT, 0, 0, sim_slot(p, v), 0);
  p->top = start;
  return at;
}

static void land(parser *p, int jump) {
  p->code->step[jump].b = sim_land(p);
}

static void land_chain(parser *p, int chain, int at) {
  while (chain >= 0) {
    int next = p->code->step[chain].b;
    p->code->step[chain].b = at;
    chain = next;
  }
}

static bool if_statement(parser *p) {
  sim_expect(p, S1('('));
  int over = jump_if_not(p);
  sim_expect(p, S1(')'));
  bool ends = statement(p);
  if (!IS(p->now, "else")) {
    land(p, over);
    return false;
  }
  p->now++;
  int end = sim_emit(p, SIM_DO_JUMP, 0, 0, 0, 0);
  land(p, over);
  ends &= statement(p);
  land(p, end);
  return ends;
}

// The body of a loop; then where `continue` goes is known, and after `tail` where `break` does.
static loop begin_loop(parser *p) {
  return (loop){.outer = p->loop, .breaks = -1, .continues = -1};
}

static void skip_to_closing(parser *p) {
  for (int depth = 0; depth > 0 || !is_sign(p, S1(')')); p->now++) {
    if (p->now->kind == END) sim_refuse(p);
    depth += is_sign(p, S1('(')) - is_sign(p, S1(')'));
  }
}

static void for_loop(parser *p) {
  int n = p->n_names, top = p->top, out = -1;
  p->depth++;
  sim_expect(p, S1('('));
  if (sim_at_type(p)) {
    declaration(p);
  } else if (!sim_accept(p, S1(';'))) {
    sim_expression(p);
    p->top = top;
    sim_expect(p, S1(';'));
  }
  int again = sim_land(p);
  if (!is_sign(p, S1(';'))) out = jump_if_not(p);
  sim_expect(p, S1(';'));
  token *step = p->now;
  skip_to_closing(p);
  sim_expect(p, S1(')'));
  loop l = begin_loop(p);
  p->loop = &l;
  statement(p);
  p->loop = l.outer;
  land_chain(p, l.continues, sim_land(p));
  token *behind = p->now;
  int start = p->top;
  p->now = step;
  if (!is_sign(p, S1(')'))) sim_expression(p);
  sim_expect(p, S1(')'));
  p->top = start;
  sim_emit(p, SIM_DO_JUMP, 0, 0, 0, again);
  p->now = behind;
  if (out >= 0) land(p, out);
  land_chain(p, l.breaks, sim_land(p));
  p->depth--;
  leave_names(p, n, top);
}

static void while_loop(parser *p) {
  int again = sim_land(p);
  sim_expect(p, S1('('));
  int out = jump_if_not(p);
  sim_expect(p, S1(')'));
  loop l = begin_loop(p);
  p->loop = &l;
  statement(p);
  p->loop = l.outer;
  land_chain(p, l.continues, again);
  sim_emit(p, SIM_DO_JUMP, 0, 0, 0, again);
  land(p, out);
  land_chain(p, l.breaks, sim_land(p));
}

static void leave_loop(parser *p, bool is_break) {
  if (!p->loop) sim_refuse(p);
  int *chain = is_break ? &p->loop->breaks : &p->loop->continues;
  *chain = sim_emit(p, SIM_DO_JUMP, 0, 0, 0, *chain);
  sim_expect(p, S1(';'));
}

static void return_statement(parser *p) {
  int start = p->top;
  if (sim_accept(p, S1(';'))) {
    if (p->result->kind != SIM_VOID) sim_refuse(p);
    sim_emit(p, SIM_DO_RETURN, 0, 0, 0, 0);
    return;
  }
  if (p->result->kind == SIM_VOID) sim_refuse(p);
  operand v = sim_as(p, sim_value(p, sim_expression(p)), p->result);
  sim_emit(p, SIM_DO_RETURN, slots_of(p->result), 0, sim_slot(p, v), 0);
  p->top = start;
  sim_expect(p, S1(';'));
}

static bool keyword(parser *p, const char *word) {
  if (p->now->kind != NAME || !same_text(p->now, word, (unsigned)strlen(word))) return false;
  p->now++;
  return true;
}

// TC_SHARED(bytes): declares tc_shared.
static void shared_statement(parser *p) {
  int64_t bytes;
  sim_expect(p, S1('('));
  bytes = sim_known_integer(p);
  sim_expect(p, S1(')'));
  sim_expect(p, S1(';'));
  operand v = {.place = VARIABLE, .type = sim_pointer(p, sim_basic(SIM_U8)), .at = sim_slots(p, 1)};
  sim_move(p, v.at, sim_number(SIM_I32, (uint64_t)bytes));
  sim_emit(p, SIM_DO_WORD, 0, v.at, v.at, sim_word_find("TC_SHARED", 9));
  add_text_name(p, "tc_shared")->is = v;
}

static bool statement(parser *p) {
  if (sim_accept(p, S1('{'))) return block(p);
  if (sim_accept(p, S1(';'))) return false;
  if (keyword(p, "if")) return if_statement(p);
  if (keyword(p, "return")) return return_statement(p), true;
  if (keyword(p, "for")) {
    for_loop(p);
  } else if (keyword(p, "while")) {
    while_loop(p);
  } else if (keyword(p, "break")) {
    leave_loop(p, true);
  } else if (keyword(p, "continue")) {
    leave_loop(p, false);
  } else if (keyword(p, "TC_SHARED")) {
    shared_statement(p);
  } else if (sim_at_type(p)) {
    declaration(p);
  } else {
    int start = p->top;
    sim_expression(p);
    p->top = start;
    sim_expect(p, S1(';'));
  }
  return false;
}

// ---- functions ----

static sim_function *new_function(parser *p, token is, const type *result) {
  sim_code *c = p->code;
  int index;
  if (is.kind != NAME || sim_find(p, &is) || sim_find_function(p, &is, &index) || c->n_functions == 1000) sim_refuse(p);
  sim_function *more = realloc(c->function, sizeof *more * ((size_t)c->n_functions + 1));
  if (!more) sim_refuse(p);
  c->function = more;
  SIM_GROW(p, p->prototype, c->n_functions, p->cap_functions);
  p->prototype[c->n_functions] = (prototype){.name = is, .result = result};
  sim_function *f = &c->function[c->n_functions++];
  *f = (sim_function){.name = strndup(is.at, is.length), .first = c->n_steps};
  if (!f->name) sim_refuse(p);
  p->top = p->variables = p->most = p->array_bytes = p->n_constants = 0;
  p->result = result;
  return f;
}

static void add_argument(parser *p, sim_function *f, token is, const type *t) {
  add_name(p, is)->is = (operand){.place = VARIABLE, .type = t, .at = sim_slots(p, slots_of(t))};
  f->n_args = p->variables = p->top;
}

// Behind its head: the body.
static void body(parser *p, sim_function *f) {
  sim_expect(p, S1('{'));
  bool ends = block(p);
  if (!ends && p->result->kind != SIM_VOID) sim_refuse(p);
  sim_emit(p, SIM_DO_RETURN, 0, 0, 0, 0);
  f->n_slots = p->most;
  f->array_bytes = p->array_bytes;
  f->n_constants = p->n_constants;
  f->constant = malloc(sizeof(uint64_t) * (size_t)(p->n_constants + 1));
  if (!f->constant) sim_refuse(p);
  for (int i = 0; i < p->n_constants; i++) f->constant[p->n_constants - 1 - i] = p->constant[i];
  if ((p->n_constants + p->most) * 8 + p->array_bytes > (f->threads ? MAX_FRAME_BYTES : MAX_CALLED_BYTES))
    sim_refuse(p);
}

static void helper(parser *p) {
  const type *result = sim_type_name(p);
  sim_function *f = new_function(p, *p->now++, result);
  int n = p->n_names, index = p->code->n_functions - 1;
  p->depth++;
  sim_expect(p, S1('('));
  if (IS(p->now, "void") && p->now[1].sign == S1(')')) p->now++;
  while (!is_sign(p, S1(')'))) {
    prototype *of = &p->prototype[index];
    if (of->n_args) sim_expect(p, S1(','));
    const type *t = sim_type_name(p);
    if (of->n_args == 16 || t->kind == SIM_VOID || t->kind == ARRAY || (t->kind == STRUCT && t->n > MAX_FIELDS))
      sim_refuse(p);
    of->arg[of->n_args++] = t;
    add_argument(p, f, *p->now++, t);
  }
  sim_expect(p, S1(')'));
  // the body's names may not be the arguments' either in C++, but hiding them is seen by the
  // compilers of GPUs
  p->depth++;
  body(p, f);
  p->depth -= 2;
  forget_names(p, n);
}

static void kernel(parser *p, bool of_value) {
  int n = p->n_names;
  sim_expect(p, S1('('));
  sim_function *f = new_function(p, *p->now++, sim_basic(SIM_VOID));
  sim_expect(p, S1(','));
  f->threads = (int)sim_known_integer(p);
  if (f->threads < 1) sim_refuse(p);
  const type *of = sim_basic(SIM_U64);
  if (of_value) {
    sim_expect(p, S1(','));
    of = base_type(p);
  }
  sim_expect(p, S1(')'));
  f->by_value = of_value;
  f->param_bytes = of_value ? (int)of->bytes : 8;
  p->depth++;
  const char *at = of_value ? "tc_value" : "tc_table";
  add_argument(p, f, sim_name_token(at, 8), sim_pointer(p, sim_const(p, of)));
  body(p, f);
  p->depth--;
  forget_names(p, n);
}

static void read_all(parser *p, const char *source) {
  for (int i = 0; i < NAME_CHAINS; i++) p->chain[i] = -1;
  sim_tokens(p, source);
  add_types_of_dialect(p);
  while (p->now->kind != END) {
    if (keyword(p, "TC_DEVICE")) {
      helper(p);
    } else if (keyword(p, "TC_KERNEL")) {
      kernel(p, false);
    } else if (keyword(p, "TC_KERNEL_OF")) {
      kernel(p, true);
    } else if (IS(p->now, "typedef")) {
      type_definition(p);
    } else {
      sim_refuse(p);
    }
  }
}

sim_code *sim_code_new(const char *source, int arch, int warp) {
  parser *p = calloc(1, sizeof *p);
  sim_code *c = NULL;
  if (!p) return NULL;
  p->arch = arch, p->warp = warp;
  if ((p->code = calloc(1, sizeof *p->code)) && setjmp(p->refused) == 0) {
    read_all(p, source);
    if (p->code->n_functions) c = p->code;
  }
  if (!c) sim_code_free(p->code);
  for (void **block = p->blocks; block;) {
    void **next = block[0];
    free(block);
    block = next;
  }
  free(p);
  return c;
}

void sim_code_free(sim_code *c) {
  if (!c) return;
  for (int i = 0; i < c->n_functions; i++) {
    free(c->function[i].name);
    free(c->function[i].constant);
  }
  free(c->function);
  free(c->step);
  free(c->line);
  free(c);
}
