// Between the files code*.c: the tokens of a text, types, operands, and the code that is being
// made. What is not understood ends all at once (sim_refuse).
#pragma once

#include <setjmp.h>
#include <stddef.h>

#include "tests/sim/code.h"

// ---- tokens ----

typedef enum token_kind { END, NAME, INTEGER, REAL, SIGN } token_kind;
typedef struct token {
  token_kind kind;
  const char *at;
  unsigned length;
  int line;
  uint32_t hash;  // of a name
  uint32_t sign;  // its characters, the first in the low byte
  uint64_t bits;  // of a number
  sim_type type;  // of a number
} token;
#define S1(a) ((uint32_t)(a))
#define S2(a, b) ((uint32_t)(a) | (uint32_t)(b) << 8)
#define S3(a, b, c) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16)

// ---- types ----

enum { POINTER = SIM_F64 + 1, ARRAY, STRUCT, MAX_FIELDS = 4 };
typedef struct type {
  int kind;  // a sim_type, POINTER, ARRAY or STRUCT
  bool is_const;
  const struct type *to;  // of pointers and arrays
  int n;  // elements or fields
  size_t bytes, align;
  const struct field *field;
} type;
typedef struct field {
  token name;
  const type *type;
  size_t offset;
} field;

// ---- operands ----

typedef enum place {
  NUMBER,  // known: `bits`, as in a slot
  VALUE,  // in slots from `at` on
  VARIABLE,  // the same, and may be assigned to
  MEMORY,  // the slot `at` has its address
  LOCAL,  // in the frame, from byte `at` on
} place;
typedef struct operand {
  place place;
  const type *type;
  int at;
  uint64_t bits;
  bool lasting;  // the slot of a variable that is const
} operand;

enum { NAME_CHAINS = 512 };
typedef struct name {
  token name;
  int depth, older;  // older: of its chain, by hash; -1: none
  bool is_type;
  const type *type;  // if it is one
  operand is;
} name;

typedef struct macro {
  token name;
  int first, n;  // of the tokens of macros
  bool busy;
} macro;

typedef struct prototype {
  token name;
  const type *result, *arg[16];
  int n_args;
} prototype;

typedef struct parser {
  jmp_buf refused;
  int arch, warp;
  token *token, *macro_token;
  int n_tokens, cap_tokens, n_macro_tokens, cap_macro_tokens;
  macro macro[64];
  int n_macros;
  token *now;
  void *blocks;  // of memory that goes when all is done
  name *name;
  int n_names, cap_names, depth, chain[NAME_CHAINS];
  prototype *prototype;  // of each of code->function
  int cap_functions;
  sim_code *code;
  uint32_t cap_steps;
  // The function:
  const type *result;
  int top, most, array_bytes;  // slots in use, the most of them
  int variables;  // slots of variables: values have those behind
  uint32_t landed;  // the step that a jump came to last
  uint64_t *constant;
  int n_constants, cap_constants;
  struct loop *loop;
} parser;

typedef struct loop {
  struct loop *outer;
  int breaks, continues;  // chains of jumps to be set, by their field b; -1: the end
} loop;

void sim_refuse(parser *p) __attribute__((noreturn));
void *sim_take(parser *p, size_t bytes);  // zeroed, until the end
// Makes room for one more element of an array.
#define SIM_GROW(p, array, n, cap) ((array) = sim_grow((p), (array), (n), &(cap), sizeof *(array)))
void *sim_grow(parser *p, void *array, int n, int *cap, size_t each);
void sim_tokens(parser *p, const char *source);
token sim_name_token(const char *text, unsigned length);
static inline bool same_text(const token *t, const char *text, unsigned length) {
  return t->length == length && __builtin_memcmp(t->at, text, length) == 0;
}
#define IS(t, text) ((t)->kind == NAME && same_text((t), (text), sizeof(text) - 1))
static inline bool is_sign(const parser *p, uint32_t sign) {
  return p->now->kind == SIGN && p->now->sign == sign;
}
bool sim_accept(parser *p, uint32_t sign);
void sim_expect(parser *p, uint32_t sign);

// Types (code_emit.c).
const type *sim_basic(int kind);
const type *sim_const(parser *p, const type *t);
const type *sim_pointer(parser *p, const type *to);
const type *sim_array(parser *p, const type *of, int n);
bool sim_same(const type *a, const type *b);  // but for const on top
static inline bool is_real(const type *t) {
  return t->kind == SIM_F32 || t->kind == SIM_F64;
}
static inline bool is_number(const type *t) {
  return t->kind >= SIM_I8 && t->kind <= SIM_F64;
}
static inline bool is_integer(const type *t) {
  return is_number(t) && !is_real(t);
}
// How many slots a value of it has.
static inline int slots_of(const type *t) {
  return t->kind == STRUCT ? t->n : 1;
}

// Steps and operands (code_emit.c).
int sim_emit(parser *p, sim_step_kind kind, int n, int d, int a, int b);  // its number
int sim_next_step(const parser *p);
int sim_land(parser *p);  // the same: a jump comes to it
int sim_slots(parser *p, int n);  // the first of n new ones
int sim_constant(parser *p, uint64_t bits);
operand sim_number(int kind, uint64_t bits);
operand sim_value(parser *p, operand x);  // NUMBER, VALUE or VARIABLE; arrays become pointers
int sim_slot(parser *p, operand value);
operand sim_convert(parser *p, operand value, const type *to);  // a value to another number's type, or as a cast does
sim_step_kind sim_conversion(int from, int to);
operand sim_as(parser *p, operand value, const type *to);  // as an assignment converts; refuses what C++ does
void sim_assign(parser *p, operand to, operand value);  // value is of its type
operand sim_binary(parser *p, uint32_t sign, operand a, operand b, int start);  // the result in slot `start`
void sim_move(parser *p, int to, operand value);
void sim_put(parser *p, int to, operand value);  // the same, of a value that is not looked at again

// Declarations and statements (code.c), expressions (code_expr.c).
const name *sim_find(const parser *p, const token *t);
const prototype *sim_find_function(const parser *p, const token *t, int *index);
bool sim_at_type(const parser *p);
const type *sim_type_name(parser *p);  // as in a cast
operand sim_expression(parser *p);  // with commas
operand sim_assignment(parser *p);
int64_t sim_known_integer(parser *p);
