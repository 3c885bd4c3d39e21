// See period.h. The sequence is cut before each place of one symbol, the anchor. The piece that is
// seen most often is a candidate for the step. Anchors are tried, the most frequent first.
#include "tools/prof/period.h"

#include <stdlib.h>
#include <string.h>

enum {
  MOST_ANCHORS = 32,
  LEAST_STEPS = 3,
  LONGEST = 4096,  // symbols of a step
};
// Shares of pieces that are the most frequent one, from which on it is a step. A piece of one
// symbol may be an iteration of a loop within the step.
static const double CLEAN = 0.8, CLEAN_SINGLE = 0.95;
static const double CLEANER = 0.05;  // another anchor of the same loop must cut better by so much
static const double LEAST_COVERED = 0.5;  // of the symbols, where no anchor cuts cleanly
static const double MAIN_LOOP = 0.5;  // of the greatest weight: loops that are lighter are not the program's

typedef struct candidate {
  uint32_t anchor;
  size_t begin, n, pieces, same;  // the most frequent piece; pieces in all; as many are the same
  double covered, weight;  // symbols in pieces that hold it, a share; weight of the same ones
} candidate;

typedef struct piece {
  uint64_t hash;
  size_t begin, n, count;
  double weight;
} piece;

// A hash table of pieces by their hashes; a slot of no count is free.
typedef struct pieces {
  piece *slot;
  size_t mask, n;
} pieces;

static bool grow_pieces(pieces *t) {
  pieces more = {.mask = t->slot ? 2 * t->mask + 1 : 63, .n = t->n};
  more.slot = calloc(more.mask + 1, sizeof *more.slot);
  if (!more.slot) return false;
  for (size_t i = 0; t->slot && i <= t->mask; i++) {
    if (!t->slot[i].count) continue;
    size_t at = t->slot[i].hash & more.mask;
    while (more.slot[at].count) at = (at + 1) & more.mask;
    more.slot[at] = t->slot[i];
  }
  free(t->slot);
  *t = more;
  return true;
}

static bool add_piece(pieces *t, const piece *new) {
  if ((!t->slot || 2 * t->n > t->mask) && !grow_pieces(t)) return false;
  size_t at = new->hash & t->mask;
  while (t->slot[at].count && (t->slot[at].hash != new->hash || t->slot[at].n != new->n)) at = (at + 1) & t->mask;
  if (!t->slot[at].count) {
    t->slot[at] = *new;
    t->slot[at].count = 0;
    t->slot[at].weight = 0;
    t->n++;
  }
  t->slot[at].count++;
  t->slot[at].weight += new->weight;
  return true;
}

// Whether a piece holds all symbols of another one in their order.
static bool holds(const uint32_t *symbol, size_t n, const uint32_t *other, size_t n_other) {
  size_t k = 0;
  for (size_t i = 0; i < n && k < n_other; i++) k += symbol[i] == other[k];
  return k == n_other;
}

static size_t next_anchor(const uint32_t *symbol, size_t n, size_t from, uint32_t anchor) {
  while (from < n && symbol[from] != anchor) from++;
  return from;
}

// The share of all symbols that the pieces which hold the candidate have of it.
static double cover(const uint32_t *symbol, size_t n, const candidate *c) {
  size_t covered = 0;
  for (size_t at = next_anchor(symbol, n, 0, c->anchor), next; at < n; at = next) {
    next = next_anchor(symbol, n, at + 1, c->anchor);
    if (holds(symbol + at, next - at, symbol + c->begin, c->n)) covered += c->n;
  }
  return (double)covered / (double)n;
}

// Cuts before each anchor. The last piece is left out, since the program's end may cut it short.
static bool cut(const uint32_t *symbol, const double *weight, size_t n, candidate *c) {
  pieces t = {0};
  bool ok = true;
  for (size_t at = next_anchor(symbol, n, 0, c->anchor), next; ok && at < n; at = next) {
    piece p = {.hash = 14695981039346656037u, .begin = at};
    next = next_anchor(symbol, n, at + 1, c->anchor);
    if (next == n && c->pieces > 0) break;
    for (size_t i = at; i < next; i++) {
      p.hash = (p.hash ^ symbol[i]) * 1099511628211u;
      p.weight += weight[i];
    }
    p.hash ^= p.hash >> 29;
    p.n = next - at;
    ok = add_piece(&t, &p);
    c->pieces++;
  }
  for (size_t i = 0; t.slot && i <= t.mask; i++) {
    if (t.slot[i].count <= c->same || t.slot[i].n > LONGEST) continue;
    c->begin = t.slot[i].begin;
    c->n = t.slot[i].n;
    c->same = t.slot[i].count;
    c->weight = t.slot[i].weight;
  }
  free(t.slot);
  return ok;
}

static int by_count(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->pieces != y->pieces) return x->pieces < y->pieces ? 1 : -1;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

// The most frequent symbols, those that come first before others. Symbols are below n_symbols.
static size_t find_anchors(const uint32_t *symbol, size_t n, candidate *out, candidate *room, size_t n_symbols) {
  size_t n_out = 0;
  memset(room, 0, n_symbols * sizeof *room);
  for (size_t i = 0; i < n; i++) {
    candidate *c = &room[symbol[i]];
    if (c->pieces++ == 0) *c = (candidate){.anchor = symbol[i], .begin = i, .pieces = 1};
  }
  qsort(room, n_symbols, sizeof *room, by_count);
  while (n_out < MOST_ANCHORS && n_out < n_symbols && room[n_out].pieces >= LEAST_STEPS) {
    out[n_out] = (candidate){.anchor = room[n_out].anchor};
    n_out++;
  }
  return n_out;
}

static double clean_share(const candidate *c) {
  return (double)c->same / (double)c->pieces;
}

static bool is_clean(const candidate *c) {
  return c->same >= LEAST_STEPS - 1 && clean_share(c) >= (c->n == 1 ? CLEAN_SINGLE : CLEAN);
}

// Of the anchors of the same loop, the one that cuts it most cleanly: it is seen nowhere else.
static const candidate *choose_anchor(const candidate *c, size_t n_candidates, const candidate *first) {
  const candidate *best = first;
  for (size_t i = 0; i < n_candidates; i++)
    if (c[i].n == first->n && c[i].weight >= MAIN_LOOP * first->weight &&
        clean_share(&c[i]) > clean_share(best) + CLEANER)
      best = &c[i];
  return best;
}

static const candidate *choose(const uint32_t *symbol, size_t n, candidate *c, size_t n_candidates) {
  double most = 0;
  const candidate *best = NULL;
  for (size_t i = 0; i < n_candidates; i++)
    if (is_clean(&c[i]) && c[i].weight > most) most = c[i].weight;
  for (size_t i = 0; i < n_candidates; i++)
    if (is_clean(&c[i]) && c[i].weight >= MAIN_LOOP * most) return choose_anchor(c, n_candidates, &c[i]);
  for (size_t i = 0; i < n_candidates; i++) {
    c[i].covered = c[i].same >= LEAST_STEPS - 1 ? cover(symbol, n, &c[i]) : 0;
    if (c[i].covered >= LEAST_COVERED && (!best || c[i].covered > best->covered)) best = &c[i];
  }
  return best;
}

// The step begins where the first one did, which may be before its anchor.
static size_t rotation(const uint32_t *symbol, const candidate *c) {
  size_t first = 0, back = 0;
  while (symbol[first] != c->anchor) first++;
  while (back < first && back + 1 < c->n && symbol[first - 1 - back] == symbol[c->begin + c->n - 1 - back]) back++;
  return back;
}

bool tc_period_find(const uint32_t *symbol, const double *weight, size_t n, tc_period *out) {
  candidate anchor[MOST_ANCHORS], *room;
  uint32_t n_symbols = 0;
  bool ok = true;
  *out = (tc_period){0};
  for (size_t i = 0; i < n; i++) n_symbols = symbol[i] >= n_symbols ? symbol[i] + 1 : n_symbols;
  if (n == 0) return true;
  room = malloc(n_symbols * sizeof *room);
  if (!room) return false;
  size_t n_anchors = find_anchors(symbol, n, anchor, room, n_symbols);
  free(room);
  for (size_t i = 0; ok && i < n_anchors; i++) ok = cut(symbol, weight, n, &anchor[i]);
  const candidate *c = ok ? choose(symbol, n, anchor, n_anchors) : NULL;
  if (!c) return ok;
  size_t back = rotation(symbol, c);
  out->symbol = malloc(c->n * sizeof *out->symbol);
  if (!out->symbol) return false;
  out->n = c->n;
  for (size_t i = 0; i < c->n; i++) out->symbol[i] = symbol[c->begin + (i + c->n - back) % c->n];
  return true;
}
