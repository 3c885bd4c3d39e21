// Reasons of new plans. See plan_miss.h.
#include "lazy/sync/plan_miss.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/sync/plan_cache.h"
#include "lazy/trace/trace_text.h"
#include "runtime/fork.h"
#include "runtime/log.h"

#define N_PLACES 256
#define WARM 3  // syncs of a place that may all need new plans

static struct {
  pthread_mutex_t lock;
  struct place {
    tc_site site;
    const char *cause;
    uint32_t n;  // syncs. UINT32_MAX: its line was logged
  } place[N_PLACES];
  uint32_t n_places;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 2)

// Whether the line of this place is due. Places beyond the table have none.
static bool is_due(const tc_sync_point *rec, bool missed) {
  bool due = false;
  pthread_mutex_lock(&self.lock);
  uint32_t i = 0;
  while (i < self.n_places && (self.place[i].site != rec->site || self.place[i].cause != rec->cause)) i++;
  if (i == self.n_places && i < N_PLACES) self.place[self.n_places++] = (struct place){rec->site, rec->cause, 0};
  if (i < N_PLACES && self.place[i].n != UINT32_MAX) {
    struct place *p = &self.place[i];
    due = missed && p->n >= WARM;
    p->n = due ? UINT32_MAX : TC_MIN(p->n + 1, UINT32_MAX - 1);
  }
  pthread_mutex_unlock(&self.lock);
  return due;
}

// The first record in which two plans differ.
static uint32_t first_difference(const tc_plan *a, const tc_plan *b) {
  uint32_t most = TC_MIN(a->n_node, b->n_node), n = 0;
  for (; n < most; n++) {
    const tc_rec *x = tc_plan_rec(a, n), *y = tc_plan_rec(b, n);
    if (x->n_extra != y->n_extra || memcmp(x, y, sizeof *x + x->n_extra * sizeof(uint64_t)) != 0) break;
    if (a->flag[n] != b->flag[n] || a->dev[n] != b->dev[n]) break;
  }
  return n;
}

// Records that are of the same op and type at the same place.
static uint32_t count_alike(const tc_plan *a, const tc_plan *b) {
  uint32_t most = TC_MIN(a->n_node, b->n_node), alike = 0;
  for (uint32_t n = 0; n < most; n++) {
    const tc_rec *x = tc_plan_rec(a, n), *y = tc_plan_rec(b, n);
    alike += tc_rec_op(x) == tc_rec_op(y) && x->dtype == y->dtype;
  }
  return alike;
}

// Compares with the most similar of the thread's latest plans.
static void print_difference(FILE *out, const tc_trace *t, const tc_plan *made) {
  const tc_plan *near = NULL;
  uint32_t most = 0;
  for (int i = 0; i < TC_LATEST_PLANS; i++) {
    const tc_plan *p = t->latest[i];
    uint32_t n = p && p != made ? count_alike(made, p) : 0;
    if (p && p != made && (!near || n > most)) near = p, most = n;
  }
  if (!near) return;
  uint32_t same = first_difference(made, near);
  if (same == made->n_node && same == near->n_node) {
    fprintf(out, "; one of the latest has the same graph, made for other threads or options of a region");
    return;
  }
  if (same == made->n_node || same == near->n_node) {
    fprintf(out, "; it has %u nodes, the most similar of the latest ones %u, and these are equal up to there",
            made->n_node, near->n_node);
    return;
  }
  char place[160];
  tc_site_text(same < t->n_node ? t->call[same].site : 0, place, sizeof place);
  fprintf(out, "; from the most similar of the latest ones it differs first at %s\n  now ",
          place[0] ? place : "a node");
  tc_text_write_plan_node(out, made, same);
  fprintf(out, "  was ");
  tc_text_write_plan_node(out, near, same);
}

void tc_plan_miss_note(const tc_trace *t, const tc_plan *made, const tc_sync_point *rec) {
  static const char *const reasons[] = {
      [TC_PROF_MISS_NONE] = "",
      [TC_PROF_MISS_NEW] = "no such graph was seen",
      [TC_PROF_MISS_EVICTED] = "it had left the cache, which TC_PLAN_CACHE and TC_PLAN_CACHE_BYTES bound",
      [TC_PROF_MISS_CLEARED] = "tc_cache_clear had emptied the cache"};
  tc_log_message m;
  char place[160];
  if (!is_due(rec, made != NULL)) return;
  tc_prof_miss by = tc_plan_miss(made);
  tc_site_text(rec->site, place, sizeof place);
  if (tc_log_begin(&m)) {
    fprintf(m.to, "%s at %s needs a new plan after %d syncs: %s", rec->cause, place[0] ? place : "an unknown place",
            WARM, reasons[by]);
    if (by == TC_PROF_MISS_NEW) print_difference(m.to, t, made);
  }
  tc_log_end(&m, TC_LOG_SYNC);
}
