// Reads vocab.json: characters to bytes, and as much JSON as it is. See vocab.h.
#include "examples/models/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN_BYTES = 1024, MAX_ID = 1 << 24 };

// ---- Characters of a token to bytes ----

static bool is_itself(uint32_t c) {
  return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

// The byte that a character stands for; -1 if it is none of those.
static int byte_of(uint32_t c) {
  if (c < 256) return is_itself(c) ? (int)c : -1;
  uint32_t k = c - 256;
  for (uint32_t byte = 0; byte < 256; byte++)
    if (!is_itself(byte) && k-- == 0) return (int)byte;
  return -1;
}

// ---- JSON ----

typedef struct reader {
  const char *s;
  const char *why;  // it stopped at s; NULL: no such JSON
} reader;

static void skip_space(reader *r) {
  r->s += strspn(r->s, " \t\r\n");
}

static bool take(reader *r, char c) {
  skip_space(r);
  return *r->s == c ? r->s++, true : false;
}

// One character of a string, an escape or UTF-8 of up to two bytes; UINT32_MAX for what no token
// has.
static uint32_t character(reader *r) {
  unsigned char c = (unsigned char)*r->s++;
  unsigned u;
  int n = 0;
  if (c >= 0x20 && c < 0x80 && c != '\\') return c;
  if ((c & 0xE0) == 0xC0 && (*r->s & 0xC0) == 0x80) return (uint32_t)(c & 0x1F) << 6 | (uint32_t)(*r->s++ & 0x3F);
  if (c != '\\') return UINT32_MAX;
  if (*r->s == '"' || *r->s == '\\' || *r->s == '/') return (uint32_t)*r->s++;
  if (sscanf(r->s, "u%4x%n", &u, &n) != 1 || n != 5) return UINT32_MAX;
  r->s += 5;
  return u;
}

// A token's bytes; false if it is none. Tokens such as <|endoftext|> are their own text.
static bool token(reader *r, char out[MAX_TOKEN_BYTES], size_t *n_bytes) {
  size_t n = 0;
  if (!take(r, '"')) return false;
  while (*r->s && *r->s != '"') {
    const char *at = r->s;
    int byte = byte_of(character(r));
    if (byte < 0 || n == MAX_TOKEN_BYTES)
      return r->s = at, r->why = n < MAX_TOKEN_BYTES ? "no byte has such a character" : "too long a token", false;
    out[n++] = (char)byte;
  }
  *n_bytes = n;
  return take(r, '"');
}

static bool entry(reader *r, vocab *v) {
  char text[MAX_TOKEN_BYTES], *end;
  size_t n_bytes;
  if (!token(r, text, &n_bytes) || !take(r, ':')) return false;
  skip_space(r);
  long id = strtol(r->s, &end, 10);
  if (end == r->s || id < 0 || id >= MAX_ID) return r->why = "no number of a token", false;
  r->s = end;
  if (id >= v->n) {
    vocab_token *grown = realloc(v->token, ((size_t)id + 1) * 2 * sizeof *grown);
    if (grown == NULL) return r->why = "no memory", false;
    memset(grown + v->n, 0, ((size_t)id * 2 + 2 - (size_t)v->n) * sizeof *grown);
    v->token = grown, v->n = 2 * id + 2;
  }
  free(v->token[id].text);
  v->token[id] = (vocab_token){malloc(n_bytes + 1), n_bytes};
  if (v->token[id].text == NULL) return r->why = "no memory", false;
  memcpy(v->token[id].text, text, n_bytes);
  return true;
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "r");
  char *s = NULL;
  size_t n = 0, cap = 0;
  while (f && !feof(f) && !ferror(f)) {
    if (n + 1 >= cap) {
      char *grown = realloc(s, cap = cap * 2 + 65536);
      if (grown == NULL) break;
      s = grown;
    }
    n += fread(s + n, 1, cap - n - 1, f);
  }
  bool whole = f && feof(f) && !ferror(f);
  if (f) fclose(f);
  if (!whole) return free(s), NULL;
  s[n] = 0;
  return s;
}

bool vocab_read(vocab *out, const char *path) {
  char *s = read_file(path);
  reader r = {.s = s};
  *out = (vocab){0};
  if (s == NULL) return fprintf(stderr, "%s: not readable\n", path), false;
  bool ok = take(&r, '{');
  while (ok && (ok = entry(&r, out)) && take(&r, ',')) continue;
  ok = ok && take(&r, '}');
  if (!ok) fprintf(stderr, "%s: byte %td: %s\n", path, r.s - s, r.why ? r.why : "not JSON from tokens to numbers");
  free(s);
  if (!ok) vocab_fini(out);
  return ok;
}

void vocab_fini(vocab *v) {
  for (int64_t i = 0; i < v->n; i++) free(v->token[i].text);
  free(v->token);
  *v = (vocab){0};
}
