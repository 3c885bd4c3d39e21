// Copies for libraries' calls, in the model of a GPU's launches (model.c): what the simulator says
// of each, against the run that it is for. Included once.
//
// A call in a graph is told addresses once. What is elsewhere in each run has a place of the
// graph's: kernels copy operands to it before the call, and a result from it behind. So, by the
// model: what is copied in is the run's own operand, all of it, from where the run has it, and
// nothing but such copies begins between that and the call; the call is given the place of what was
// copied, and the run's address of what was not; a result that is made at a place is copied to
// where the run has it, all of it, before anything else begins. Places lie apart, and in no memory
// that was in use when the run was asked for. A run that is launched one by one has no copies. From
// where is what the kernel is given; as that is not yet what it does, bytes are compared when the
// next work begins.
// Independent: what the kernel is given is declared once more, and how much an operand has is taken
// from what the library is told.
#pragma once

#include "tests/gpu/model.h"
#include "tests/sim/product.h"

enum { LEFT, RIGHT, RESULT, BIAS, WORKSPACE, FAULT, CALL_WORDS };

// What the kernel that copies is given.
typedef struct copy {
  const uint64_t *words;  // of the call, in its run's table
  uint64_t which;
  uintptr_t place;
  uint64_t bytes, leaves;
} copy;

static span copied_to[WORKSPACE];  // to which was copied for the call that is awaited; no bytes: nothing was
static const awaited *unfinished;  // a call whose result is at its place alone, so far
static span result_place;
static const awaited *finished;  // one whose result was copied last

static bool overlaps(span a, span b) {
  return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

static void look_at_place(const run *r, span s) {
  for (int i = 0; i < r->n_held; i++)
    if (overlaps(s, r->held[i])) MISTAKE(MEMORY, "a place for a library's operand is memory in use");
  for (int k = 0; k < WORKSPACE; k++)
    if (overlaps(s, copied_to[k])) MISTAKE(MEMORY, "two operands of a library have one place");
}

static bool are_bytes_of(const awaited *a, uint32_t which, span s) {
  return memcmp((const void *)s.at, (const void *)(uintptr_t)a->words[which], s.bytes) == 0;
}

// What begins now, a kernel or a library's product (NULL): whether the copies before it have been
// made.
static void look_at_copies(const char *kernel, bool copies) {
  bool copied = false;
  for (int k = 0; k < WORKSPACE; k++) copied |= copied_to[k].bytes > 0;
  if (finished && n_begun < n_awaited && begin[n_begun].of == finished->of &&
      !are_bytes_of(finished, RESULT, result_place))
    MISTAKE(VALUES, "a library's result is not what was copied");
  finished = NULL;
  if (copies) return;
  if (unfinished)
    MISTAKE(LIST, "%s begins, and a library's result was not copied", kernel ? kernel : "a library's product");
  if (kernel && copied) MISTAKE(LIST, "%s begins, not the library's product for which was copied", kernel);
  if (kernel) memset(copied_to, 0, sizeof copied_to);
  unfinished = NULL;
}

static void run_end(const awaited *a) {
  n_done += a->last;
}

static void see_copy_in(const awaited *a, const copy *c) {
  span s = {c->place, c->bytes};
  if (copied_to[c->which].bytes) MISTAKE(LIST, "operand %u is copied twice", (unsigned)c->which);
  if (unfinished) MISTAKE(LIST, "operand %u is copied, and the result before was not", (unsigned)c->which);
  look_at_place(a->of, s);
  copied_to[c->which] = s;
}

static void see_copy_out(const awaited *a, const copy *c) {
  if (c->place != result_place.at) MISTAKE(WORDS, "a result is copied from another place than that of its call");
  if (c->bytes != result_place.bytes)
    MISTAKE(LIST, "%u bytes of a result are copied, not %u", (unsigned)c->bytes, (unsigned)result_place.bytes);
  unfinished = NULL, finished = a;
  run_end(a);
}

static void see_copy(const copy *c) {
  const awaited *a = c->leaves ? unfinished : n_begun < n_awaited ? &begin[n_begun] : NULL;
  if (!a || a->kernel || a->n_words < CALL_WORDS || c->which >= WORKSPACE || (c->which == RESULT) != (c->leaves != 0)) {
    MISTAKE(LIST, "a copy of address %u is for no call", (unsigned)c->which);
    return;
  }
  a->of->n_copies++;
  if (memcmp(c->words, a->words, a->n_words * sizeof *a->words) != 0)
    MISTAKE(WORDS, "a copy is not told of the addresses of its run");
  if (overlaps((span){(uintptr_t)c->words, a->n_words * sizeof *a->words}, (span){c->place, c->bytes}))
    MISTAKE(MEMORY, "a place is in a table");
  if (c->leaves)
    see_copy_out(a, c);
  else
    see_copy_in(a, c);
}

// ---- the calls ----

static uint64_t bytes_of(const sim_matrix *m, const sim_product *p) {
  int64_t last =
      (p->batch - 1) * m->batch + ((int64_t)m->rows - 1) * m->by_row + ((int64_t)m->columns - 1) * m->by_column;
  return ((uint64_t)last + 1) * sim_element_bytes(p->type);
}

static void see_operand(const awaited *a, uint32_t which, span given) {
  span s = copied_to[which];
  if (s.bytes == 0 && given.at != a->words[which])
    MISTAKE(WORDS, "operand %u of a library's product is not that of its run", which);
  else if (s.bytes && (s.at != given.at || s.bytes != given.bytes))
    MISTAKE(LIST, "operand %u of a library's product is not what was copied for it", which);
  else if (s.bytes && !are_bytes_of(a, which, s))
    MISTAKE(VALUES, "operand %u of a library's product has other bytes than in its run", which);
}

// Libraries take matrices column by column, so they are given the product of what is transposed:
// its second operand first.
static void see_product(const awaited *a, const sim_product *p) {
  n_products++;
  if (a->kernel || a->n_words < CALL_WORDS) {
    MISTAKE(LIST, "a library's product begins, not %s", a->kernel ? a->kernel : "one with words");
    return;
  }
  see_operand(a, LEFT, (span){p->b.at, bytes_of(&p->b, p)});
  see_operand(a, RIGHT, (span){p->a.at, bytes_of(&p->a, p)});
  see_operand(a, BIAS, (span){p->bias, p->d.rows * sim_element_bytes(p->type)});
  if (p->workspace && p->workspace_bytes && p->workspace != a->words[WORKSPACE])
    look_at_place(a->of, (span){p->workspace, p->workspace_bytes});
  if (p->d.at != a->words[RESULT]) {
    unfinished = a, result_place = (span){p->d.at, bytes_of(&p->d, p)};
    look_at_place(a->of, result_place);
  }
  memset(copied_to, 0, sizeof copied_to);
}

// ---- all runs ----

// How many runs with calls were graphs that copy, and that do not.
static void count_replays(uint32_t *out_copying, uint32_t *out_others) {
  *out_copying = *out_others = 0;
  for (uint32_t i = 0; i < n_runs; i++) {
    if (runs[i].n_copies && !runs[i].replayed) MISTAKE(LIST, "a run that is no graph copies");
    *out_copying += runs[i].n_copies > 0;
    *out_others += runs[i].calls && runs[i].replayed && runs[i].n_copies == 0;
  }
}
