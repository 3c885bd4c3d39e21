// See pack.h. Source: the scheme of LZ77, with the last distance kept as in LZX.
#include "tools/prof/pack.h"

#include <stdlib.h>
#include <string.h>

enum {
  LONGEST = 63 + TC_PACK_LEAST,
  SEED = 8,  // bytes that a copy from elsewhere has at least: its six characters must be fewer
  SKIPPED = 4,  // bytes that may differ in a copy
  SLOTS = 1 << 16,
  MOST_COPY_CHARACTERS = 6,
};
#define FARTHEST ((size_t)1 << 24)

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool tc_pack_add(tc_pack *p, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)text[i] >= 0x80) return false;
  if (p->n + n > p->room) {
    size_t room = 2 * (p->n + n);
    char *more = realloc(p->text, room);
    if (!more) return false;
    p->text = more;
    p->room = room;
  }
  if (n) memcpy(p->text + p->n, text, n);
  p->n += n;
  return true;
}

void tc_pack_free(tc_pack *p) {
  free(p->text);
  *p = (tc_pack){0};
}

// How many bytes at `at` are those from `back` bytes before.
static size_t match(const tc_pack *p, size_t at, size_t back) {
  size_t n = 0, most = p->n - at < LONGEST ? p->n - at : LONGEST;
  if (back == 0 || back > at) return 0;
  while (n < most && p->text[at + n] == p->text[at + n - back]) n++;
  return n;
}

// The longest copy from so far back that begins here or a few bytes behind, as where a number differs.
static size_t match_soon(const tc_pack *p, size_t at, size_t back) {
  size_t most = 0;
  for (size_t i = 0; i <= SKIPPED && at + i < p->n; i++) {
    size_t n = match(p, at + i, back);
    if (n > most) most = n;
  }
  return most;
}

static uint32_t slot_of(const char *at) {
  uint64_t seed;
  memcpy(&seed, at, SEED);
  return (uint32_t)(seed * 0x9e3779b97f4a7c15u >> 48);
}

// Remembers the places of the n bytes at `at`.
static void remember(const tc_pack *p, uint32_t *slot, size_t at, size_t n) {
  for (size_t i = at; i < at + n && i + SEED <= p->n; i++) slot[slot_of(p->text + i)] = (uint32_t)i + 1;
}

static char *write_copy(char *out, size_t back, bool as_before, size_t n) {
  *out++ = as_before ? '`' : '~';
  for (int shift = 18; !as_before && shift >= 0; shift -= 6) *out++ = digits[back >> shift & 63];
  *out++ = digits[n - TC_PACK_LEAST];
  return out;
}

char *tc_pack_string(const tc_pack *p) {
  uint32_t *slot = calloc(SLOTS, sizeof *slot);
  char *string = slot ? malloc(2 * p->n + MOST_COPY_CHARACTERS + 1) : NULL, *out = string;
  size_t before = 0;  // how far back the last copy was from
  for (size_t at = 0, n; string && at < p->n; at += n) {
    uint32_t seen = at + SEED <= p->n ? slot[slot_of(p->text + at)] : 0;
    size_t back = seen ? at - (seen - 1) : 0, as_before = match(p, at, before);
    size_t other = back < FARTHEST ? match(p, at, back) : 0;
    n = 1;
    if (other >= SEED && other > match_soon(p, at, before) + SEED - TC_PACK_LEAST)
      n = other, before = back, out = write_copy(out, back, false, n);
    else if (as_before >= TC_PACK_LEAST)
      n = as_before, out = write_copy(out, before, true, n);
    else if (p->text[at] == '~' || p->text[at] == '`')
      *out++ = '~', *out++ = p->text[at];
    else
      *out++ = p->text[at];
    remember(p, slot, at, n);
  }
  if (string) *out = 0;
  free(slot);
  return string;
}
