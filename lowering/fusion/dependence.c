// Searches the dependence graph of fusions. See dependence.h.
#include "lowering/fusion/dependence.h"

#include "runtime/passes.h"

#define MOST_LOOKS 512  // links that one query visits from each side

bool tc_depend_init(tc_depend *d, tc_fusion_plan *gr, uint32_t most) {
  *d = (tc_depend){.gr = gr, .most = most};
  for (int i = 0; i < 2; i++) {
    d->search[i].queue = tc_arena_alloc(gr->arena, (most + 1) * sizeof *d->search[i].queue);
    d->search[i].seen = tc_arena_alloc(gr->arena, (most + 1) * sizeof *d->search[i].seen);
    if (!d->search[i].queue || !d->search[i].seen) return false;
  }
  return true;
}

static void links_join(tc_fusion_link **first, tc_fusion_link **last, tc_fusion_link *other,
                       tc_fusion_link *other_last) {
  if (!other) return;
  *(*first ? &(*last)->next : first) = other;
  *last = other_last;
}

static bool link_add(tc_depend *d, tc_fusion_link **first, tc_fusion_link **last, uint32_t fusion) {
  if (*last && (*last)->fusion == fusion) return true;
  tc_fusion_link *l = tc_arena_alloc(d->gr->arena, sizeof *l);
  if (!l) return false;
  l->fusion = fusion;
  links_join(first, last, l, l);
  return true;
}

// Follows one link of a search; false if none is left. *met: the link leads to a fusion that the
// other search has seen.
static bool follow_link(const tc_depend *d, tc_depend_search *s, const tc_depend_search *other, bool forward,
                        uint32_t low, uint32_t high, bool *met) {
  const tc_fusion_plan *gr = d->gr;
  while (!s->link && s->at < s->n) {
    const tc_fusion *gp = &gr->fusion[s->queue[s->at++]];
    s->link = forward ? gp->after : gp->before;
  }
  if (!s->link) return false;
  uint32_t g = tc_fusion_alive(gr, s->link->fusion);
  s->link = s->link->next;
  if (other->seen[g] == d->n_searches) return *met = true;
  uint32_t depth = gr->fusion[g].depth;
  if (s->seen[g] == d->n_searches || depth <= low || depth >= high) return true;
  s->seen[g] = d->n_searches;
  s->queue[s->n++] = g;
  return true;
}

tc_depends tc_depend_ask(tc_depend *d, uint32_t a, uint32_t b) {
  uint32_t low = d->gr->fusion[b].depth, high = d->gr->fusion[a].depth;
  tc_depend_search *up = &d->search[0], *down = &d->search[1];
  bool met = false;
  if (high <= low) return TC_DEPENDS_NOT;
  d->n_searches++;
  up->queue[0] = b, up->seen[b] = d->n_searches, up->n = 1, up->at = 0, up->link = NULL;
  down->queue[0] = a, down->seen[a] = d->n_searches, down->n = 1, down->at = 0, down->link = NULL;
  for (int i = 0; i < MOST_LOOKS; i++) {
    tc_count(TC_PASS_FUSION, 1);
    if (!follow_link(d, down, up, false, low, high, &met) || met) return met ? TC_DEPENDS : TC_DEPENDS_NOT;
    if (!follow_link(d, up, down, true, low, high, &met) || met) return met ? TC_DEPENDS : TC_DEPENDS_NOT;
  }
  return TC_DEPENDS_PERHAPS;
}

typedef enum effort { NOT_MUCH, ALL_OF_IT } effort;

// Raises the depth of a fusion, and of those that read it as needed. NOT_MUCH: gives up after
// TC_MOST_RAISED fusions, restores all depths and returns false.
static bool raise_depth(tc_depend *d, uint32_t g, uint32_t depth, effort how) {
  tc_fusion_plan *gr = d->gr;
  tc_depend_search *s = &d->search[0];  // its queue is used as a ring
  uint32_t size = d->most + 1, at = 0, n = 0, n_raised = 0;
  if (gr->fusion[g].depth >= depth) return true;
  d->n_searches++;
  d->raised[n_raised++] = (struct tc_raised){g, gr->fusion[g].depth};
  gr->fusion[g].depth = depth;
  s->queue[n++] = g, s->seen[g] = d->n_searches;
  while (n) {
    uint32_t from = s->queue[at], least = gr->fusion[from].depth + 1;
    at = (at + 1) % size, n--, s->seen[from] = 0;
    for (const tc_fusion_link *l = gr->fusion[from].after; l; l = l->next) {
      uint32_t h = tc_fusion_alive(gr, l->fusion);
      tc_count(TC_PASS_FUSION, 1);
      if (h == from || gr->fusion[h].depth >= least) continue;
      if (how == NOT_MUCH && n_raised == TC_MOST_RAISED) {
        while (n_raised-- > 0) gr->fusion[d->raised[n_raised].fusion].depth = d->raised[n_raised].depth;
        return false;
      }
      if (how == NOT_MUCH) d->raised[n_raised++] = (struct tc_raised){h, gr->fusion[h].depth};
      gr->fusion[h].depth = least;
      if (s->seen[h] != d->n_searches) s->queue[(at + n++) % size] = h, s->seen[h] = d->n_searches;
    }
  }
  return true;
}

bool tc_depend_add(tc_depend *d, uint32_t a, uint32_t b) {
  tc_fusion *reader = &d->gr->fusion[a], *made = &d->gr->fusion[b];
  if (a == b) return true;
  if (!link_add(d, &reader->before, &reader->last_before, b) || !link_add(d, &made->after, &made->last_after, a))
    return false;
  return raise_depth(d, a, made->depth + 1, ALL_OF_IT);
}

bool tc_depend_wait(tc_depend *d, uint32_t g, uint32_t depth) {
  return raise_depth(d, g, depth, NOT_MUCH);
}

bool tc_depend_meet(tc_depend *d, uint32_t g, uint32_t h) {
  const tc_fusion *a = &d->gr->fusion[g], *b = &d->gr->fusion[h];
  return raise_depth(d, g, b->depth, NOT_MUCH) && raise_depth(d, h, a->depth, NOT_MUCH);
}

bool tc_depend_may_join(tc_depend *d, uint32_t g, uint32_t h) {
  return tc_depend_ask(d, g, h) == TC_DEPENDS_NOT && tc_depend_ask(d, h, g) == TC_DEPENDS_NOT &&
         tc_depend_meet(d, g, h);
}

void tc_depend_join(tc_depend *d, uint32_t g, uint32_t h) {
  tc_fusion *a = &d->gr->fusion[g], *b = &d->gr->fusion[h];
  links_join(&a->before, &a->last_before, b->before, b->last_before);
  links_join(&a->after, &a->last_after, b->after, b->last_after);
}
