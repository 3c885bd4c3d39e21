// Counts of an optimizer's steps on the device. See step_count.h.
#define TC_NO_SITES
#include "lazy/autograd/step_count.h"

#include "lazy/autograd/params_check.h"
#include "lazy/record/formula.h"
#include "runtime/arena.h"

void tc_step_counts_open(tc_step_counts *c) {
  for (int i = 0; i < c->n; i++) {
    tc_step_count *s = &c->at[i];
    s->n_here = s->n_next = 0, s->source = i, s->host = -1;
    s->number = s->next = TC_NODE_ERR;
    if (s->n_members || tc_is_none(s->steps)) continue;
    tc_release_at(s->steps, 0);
    s->steps = (tc_tensor){0, 0};
  }
}

void tc_step_counts_join(tc_step_counts *c, int now) {
  if (now != TC_ON_HOST) c->at[now].n_here++;
}

// A count in a free place, on the parameter's device; value: of a new one that goes by the host's.
static tc_status make_count(tc_step_counts *c, int source, int64_t host, tc_tensor param, tc_site site, int *out) {
  int i = 0;
  while (i < c->n && !tc_is_none(c->at[i].steps)) i++;
  if (i == c->n) {
    int cap = c->cap ? 2 * c->cap : 4;
    tc_step_count *at = c->n < c->cap ? c->at : tc_realloc(c->at, (size_t)cap * sizeof *at);
    if (!at) return tc_fail(TC_ERR_MEMORY, "optimizer_step", site, "no room to count steps");
    if (at != c->at) c->at = at, c->cap = cap;
    c->n++;
  }
  c->at[i] = (tc_step_count){.source = source == TC_ON_HOST ? i : source, .host = host};
  int64_t value = host < 0 ? 0 : host;
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor steps = tc_to_at(tc_from_host_at(&value, TC_SCALAR, TC_I64, site), tc_device_of_at(param, site), site);
  bool ok = tc_is_valid(steps);
  if (ok) c->at[i].steps = steps, (void)tc_retain_at(steps, site);
  tc_scope_end_at(scope, 0);
  *out = i;
  return ok ? TC_OK : tc_last_status();
}

tc_status tc_step_counts_next(tc_step_counts *c, int now, int64_t host_steps, tc_tensor param, tc_site site, int *out) {
  int k = TC_ON_HOST;
  if (now != TC_ON_HOST && c->at[now].n_here == c->at[now].n_members) k = now;
  for (int i = 0; k == TC_ON_HOST && i < c->n; i++) {
    const tc_step_count *s = &c->at[i];
    bool is_new = s->n_next > 0 && s->n_members == 0;
    if (is_new && (now == TC_ON_HOST ? s->host == host_steps : s->host < 0 && s->source == now)) k = i;
  }
  if (k == TC_ON_HOST) TC_TRY(make_count(c, now, now == TC_ON_HOST ? host_steps : -1, param, site, &k));
  c->at[k].n_next++;
  *out = k;
  return TC_OK;
}

bool tc_step_counts_record(tc_step_counts *c, tc_trace *t, tc_node skip) {
  for (int i = 0; i < c->n; i++) {
    tc_step_count *s = &c->at[i];
    if (s->n_next == 0) continue;
    tc_node before = tc_op_in(t, c->at[s->source].steps);
    s->number = f_int(t, TC_OP_ADD, before, 1);
    s->next = skip == TC_NODE_ERR ? s->number : tc_rec_where(t, skip, before, s->number);
    if (s->next == TC_NODE_ERR) return false;
  }
  return true;
}

tc_status tc_step_counts_assign(tc_step_counts *c, tc_trace *t) {
  for (int i = 0; i < c->n; i++)
    if (c->at[i].n_next) TC_TRY(tc_rec_assign(t, c->at[i].steps, c->at[i].next));
  return TC_OK;
}

void tc_step_counts_move(tc_step_counts *c, int *now, int next) {
  if (*now != TC_ON_HOST) c->at[*now].n_members--;
  if (next != TC_ON_HOST) c->at[next].n_members++;
  *now = next;
}

void tc_step_counts_fini(tc_step_counts *c) {
  for (int i = 0; i < c->n; i++)
    if (!tc_is_none(c->at[i].steps)) tc_release_at(c->at[i].steps, 0);
  tc_free(c->at);
  *c = (tc_step_counts){0};
}
