// The tokens of a text, after its directives: macros without parameters, conditions, and the
// include of the words.
#include <stdlib.h>
#include <string.h>

#include "tests/sim/code_parse.h"

typedef struct lexer {
  const char *at;
  int line;
} lexer;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

token sim_name_token(const char *text, unsigned length) {
  token t = {.kind = NAME, .at = text, .length = length, .hash = length};
  for (unsigned i = 0; i < length; i++) t.hash = (t.hash ^ (uint8_t)text[i]) * 0x9e3779b1u;
  t.hash ^= t.hash >> 16;
  return t;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The type of an integer's text, as C has it.
static sim_type integer_type(uint64_t v, bool is_unsigned, bool is_long, bool is_decimal) {
  if (!is_long && !is_unsigned && v <= INT32_MAX) return SIM_I32;
  if (!is_long && (is_unsigned || !is_decimal) && v <= UINT32_MAX) return SIM_U32;
  return !is_unsigned && v <= INT64_MAX ? SIM_I64 : SIM_U64;
}

static token number(parser *p, lexer *l) {
  token t = {.at = l->at, .line = l->line, .kind = INTEGER};
  const char *at = l->at;
  bool hex = at[0] == '0' && (at[1] | 32) == 'x';
  for (const char *c = at;
       is_letter(*c) || is_digit(*c) || *c == '.' || ((*c == '+' || *c == '-') && (c[-1] | 32) == (hex ? 'p' : 'e'));
       c++) {
    if (*c == '.' || (c[0] | 32) == (hex ? 'p' : 'e')) t.kind = REAL;
  }
  char *end;
  if (t.kind == REAL) {
    double v = strtod(at, &end);
    t.type = SIM_F64;
    memcpy(&t.bits, &v, 8);
    if ((*end | 32) == 'f') {
      float f = strtof(at, &end);
      uint32_t bits;
      memcpy(&bits, &f, 4);
      t.bits = bits;
      t.type = SIM_F32;
      end++;
    }
  } else {
    if (at[0] == '0' && is_digit(at[1])) sim_refuse(p);  // octal
    t.bits = strtoull(at, &end, hex ? 16 : 10);
    bool is_unsigned = false, is_long = false;
    for (; (*end | 32) == 'u' || (*end | 32) == 'l'; end++) *((*end | 32) == 'u' ? &is_unsigned : &is_long) = true;
    t.type = integer_type(t.bits, is_unsigned, is_long, !hex);
  }
  if (is_letter(*end) || is_digit(*end) || *end == '.') sim_refuse(p);
  t.length = (unsigned)(end - at);
  l->at = end;
  return t;
}

static token sign(parser *p, lexer *l) {
  static const char *const longer[] = {"<<=", ">>=", "...", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<",
                                       ">>",  "<=",  ">=",  "==", "!=", "&&", "||", "++", "--", "->", "##", NULL};
  token t = {.kind = SIGN, .at = l->at, .line = l->line, .length = 1};
  for (int i = 0; longer[i] && t.length == 1 && strchr("=<>&|+-#.", l->at[1]); i++) {
    size_t n = strlen(longer[i]);
    if (strncmp(l->at, longer[i], n) == 0) t.length = (unsigned)n;
  }
  if (!strchr("+-*/%&|^~!<>=?:;,.(){}[]#\"", *l->at)) sim_refuse(p);
  for (unsigned i = 0; i < t.length; i++) t.sign |= (uint32_t)(uint8_t)l->at[i] << 8 * i;
  l->at += t.length;
  return t;
}

// Up to the end of the line, whose character stays. Comments are as a blank.
static token next_in_line(parser *p, lexer *l) {
  for (;;) {
    while (*l->at == ' ' || *l->at == '\t' || *l->at == '\r') l->at++;
    if (l->at[0] == '\\') sim_refuse(p);  // a line that goes on in the next
    if (l->at[0] == '/' && l->at[1] == '*') {
      const char *end = strstr(l->at + 2, "*/");
      if (!end) sim_refuse(p);
      for (; l->at < end + 2; l->at++) l->line += *l->at == '\n';
    } else if (l->at[0] == '/' && l->at[1] == '/') {
      l->at += strcspn(l->at, "\n");
    } else {
      break;
    }
  }
  if (*l->at == 0 || *l->at == '\n') return (token){.kind = END, .at = l->at, .line = l->line};
  if (is_digit(*l->at) || (*l->at == '.' && is_digit(l->at[1]))) return number(p, l);
  if (!is_letter(*l->at)) return sign(p, l);
  const char *first = l->at;
  while (is_letter(*l->at) || is_digit(*l->at)) l->at++;
  token t = sim_name_token(first, (unsigned)(l->at - first));
  t.line = l->line;
  return t;
}

static macro *find_macro(parser *p, const token *t) {
  for (int i = 0; i < p->n_macros; i++) {
    if (same_text(&p->macro[i].name, t->at, t->length)) return &p->macro[i];
  }
  return NULL;
}

static void put(parser *p, token t) {
  SIM_GROW(p, p->token, p->n_tokens, p->cap_tokens);
  p->token[p->n_tokens++] = t;
}

// A token of the text, or what the macro of its name stands for, numbered by the line where it is
// used.
static void put_expanded(parser *p, token t) {
  macro *m = t.kind == NAME ? find_macro(p, &t) : NULL;
  if (!m || m->busy) {
    put(p, t);
    return;
  }
  m->busy = true;
  for (int i = 0; i < m->n; i++) {
    token part = p->macro_token[m->first + i];
    part.line = t.line;
    put_expanded(p, part);
  }
  m->busy = false;
}

static void define(parser *p, lexer *l) {
  token t = next_in_line(p, l);
  if (t.kind != NAME || *l->at == '(' || p->n_macros == 64 || find_macro(p, &t)) sim_refuse(p);
  macro m = {.name = t, .first = p->n_macro_tokens};
  while ((t = next_in_line(p, l)).kind != END) {
    SIM_GROW(p, p->macro_token, p->n_macro_tokens, p->cap_macro_tokens);
    p->macro_token[p->n_macro_tokens++] = t;
  }
  m.n = p->n_macro_tokens - m.first;
  p->macro[p->n_macros++] = m;
}

// ---- conditions: a list of terms joined by || and &&, each [!] defined NAME, or one or two
// numbers compared ----

static int64_t condition_number(parser *p) {
  bool is_not = sim_accept(p, S1('!'));
  int64_t v;
  if (p->now->kind == INTEGER) {
    v = (int64_t)p->now++->bits;
  } else if (IS(p->now, "defined")) {
    p->now++;
    bool in = sim_accept(p, S1('('));
    if (p->now->kind != NAME) sim_refuse(p);
    v = find_macro(p, p->now++) != NULL;
    if (in) sim_expect(p, S1(')'));
  } else if (p->now->kind == NAME) {
    v = 0;
    p->now++;
  } else {
    sim_refuse(p);
  }
  return is_not ? !v : v;
}

static bool condition_term(parser *p) {
  int64_t a = condition_number(p);
  if (sim_accept(p, S2('=', '='))) return a == condition_number(p);
  if (sim_accept(p, S2('!', '='))) return a != condition_number(p);
  if (sim_accept(p, S2('>', '='))) return a >= condition_number(p);
  if (sim_accept(p, S2('<', '='))) return a <= condition_number(p);
  if (sim_accept(p, S1('>'))) return a > condition_number(p);
  if (sim_accept(p, S1('<'))) return a < condition_number(p);
  return a != 0;
}

static bool condition_and(parser *p) {
  bool v = condition_term(p);
  while (sim_accept(p, S2('&', '&'))) v = condition_term(p) && v;
  return v;
}

// What follows #if or #elif.
static bool condition(parser *p, lexer *l) {
  int first = p->n_tokens;
  bool after_defined = false;
  for (token t; (t = next_in_line(p, l)).kind != END;) {
    if (after_defined) {
      put(p, t);
    } else {
      put_expanded(p, t);
    }
    after_defined = IS(&t, "defined") || (after_defined && t.kind == SIGN);
  }
  put(p, (token){.kind = END});
  p->now = p->token + first;
  bool v = condition_and(p);
  while (sim_accept(p, S2('|', '|'))) v = condition_and(p) || v;
  if (p->now->kind != END) sim_refuse(p);
  p->n_tokens = first;
  return v;
}

enum { MAX_NESTED = 16 };
typedef struct nested {
  bool on, was_on, outer;
} nested;

static bool directive(parser *p, lexer *l, bool on, nested *in, int *depth) {
  token t = next_in_line(p, l);
  bool is_if = IS(&t, "if"), is_ifdef = IS(&t, "ifdef"), is_ifndef = IS(&t, "ifndef");
  nested *n = &in[*depth - 1];
  if (is_if || is_ifdef || is_ifndef) {
    if (*depth == MAX_NESTED) sim_refuse(p);
    bool v = false;
    if (on && is_if) {
      v = condition(p, l);
    } else if (on) {
      t = next_in_line(p, l);
      v = (find_macro(p, &t) != NULL) == is_ifdef;
    }
    in[(*depth)++] = (nested){.on = on && v, .was_on = v, .outer = on};
    return on && v;
  }
  if (IS(&t, "elif") || IS(&t, "else")) {
    if (*depth == 0) sim_refuse(p);
    n->on = n->outer && !n->was_on && (IS(&t, "else") || condition(p, l));
    n->was_on |= n->on;
    return n->on;
  }
  if (IS(&t, "endif")) {
    if (*depth == 0) sim_refuse(p);
    return in[--*depth].outer;
  }
  if (!on) return on;
  if (IS(&t, "define")) {
    define(p, l);
  } else if (!IS(&t, "include") || strncmp(l->at, " \"tc_words.h\"\n", 14) != 0) {
    sim_refuse(p);
  }
  return on;
}

static void predefine(parser *p, const char *text, int n, int64_t value) {
  macro *m = &p->macro[p->n_macros++];
  *m = (macro){.name = sim_name_token(text, (unsigned)strlen(text)), .first = p->n_macro_tokens, .n = n};
  if (n == 0) return;
  SIM_GROW(p, p->macro_token, p->n_macro_tokens, p->cap_macro_tokens);
  p->macro_token[p->n_macro_tokens++] = (token){.kind = INTEGER, .bits = (uint64_t)value, .type = SIM_I32};
}

void sim_tokens(parser *p, const char *source) {
  lexer l = {.at = source, .line = 1};
  nested in[MAX_NESTED];
  int depth = 0;
  bool on = true, fresh = true;  // fresh: nothing of the line was read
  predefine(p, "TC_WARP", 1, p->warp);
  predefine(p, "TC_HAS_MMA", 1, p->arch >= 80);
  predefine(p, "TC_UNROLL", 0, 0);
  predefine(p, "TC_ROLLED", 0, 0);
  for (;;) {
    if (!on && l.at[strspn(l.at, " \t")] != '#') {
      l.at += strcspn(l.at, "\n");
    } else {
      token t = next_in_line(p, &l);
      if (t.kind == SIGN && t.sign == S1('#') && fresh) {
        on = directive(p, &l, on, in, &depth);
        l.at += strcspn(l.at, "\n");
      } else if (t.kind != END) {
        put_expanded(p, t);
        fresh = false;
        continue;
      }
    }
    if (*l.at == 0) break;
    l.at++, l.line++;
    fresh = true;
  }
  if (depth) sim_refuse(p);
  put(p, (token){.kind = END, .line = l.line});
  p->now = p->token;
}
