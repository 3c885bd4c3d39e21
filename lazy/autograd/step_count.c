// Counts of an optimizer's steps on the device. See step_count.h.
#define TC_NO_SITES
#include "lazy/autograd/step_count.h"

#include "lazy/autograd/params_check.h"
#include "lazy/record/formula.h"
#include "runtime/arena.h"

static void release_count(tc_step_count *s) {
  if (!tc_is_null(s->steps)) tc_release_at(s->steps, 0);
  if (!tc_is_null(s->product)) tc_release_at(s->product, 0);
  s->steps = s->product = (tc_tensor){0, 0};
}

void tc_step_counts_open(tc_step_counts *c) {
  for (int i = 0; i < c->n; i++) {
    tc_step_count *s = &c->at[i];
    s->n_here = s->n_next = 0, s->source = i, s->host = -1;
    s->number = s->next = s->product_before = s->product_now = s->product_next = TC_NODE_ERR;
    if (s->n_members == 0) release_count(s);
  }
}

void tc_step_counts_join(tc_step_counts *c, int now) {
  if (now != TC_ON_HOST) c->at[now].n_here++;
}

// A tensor of rank 0 with this value, on the parameter's device; owned. False after reporting.
static bool make_number(const void *value, tc_type type, tc_tensor param, tc_site site, tc_tensor *out) {
  tc_tensor made = tc_to_at(tc_from_host_at(value, TC_SCALAR, type, site), tc_device_of_at(param, site), site);
  bool ok = tc_is_valid(made);
  if (ok) *out = tc_retain_at(made, site);
  return ok;
}

// A count in a free place, on the parameter's device. host, host_product: of one that goes by the
// host's; else host is -1.
static tc_status make_count(tc_step_counts *c, int source, int64_t host, double host_product, tc_tensor param,
                            tc_site site, int *out) {
  int i = 0;
  while (i < c->n && !tc_is_null(c->at[i].steps)) i++;
  if (i == c->n) {
    if (!TC_GROW(c->at, c->cap, (uint32_t)i + 1))
      return tc_fail(TC_ERR_MEMORY, "optimizer_step", site, "no room to count steps");
    c->n++;
  }
  c->at[i] = (tc_step_count){.source = source == TC_ON_HOST ? i : source, .host = host, .host_product = host_product};
  int64_t value = host < 0 ? 0 : host;
  tc_scope scope = tc_scope_begin_at(site);
  bool ok = make_number(&value, TC_I64, param, site, &c->at[i].steps);
  if (ok && c->has_product) ok = make_number(&host_product, TC_F64, param, site, &c->at[i].product);
  tc_scope_end_at(scope, 0);
  *out = i;
  return ok ? TC_OK : tc_last_status();
}

tc_status tc_step_counts_next(tc_step_counts *c, int now, int64_t host_steps, double host_product, tc_tensor param,
                              tc_site site, int *out) {
  int k = TC_ON_HOST;
  if (now != TC_ON_HOST && c->at[now].n_here == c->at[now].n_members) k = now;
  for (int i = 0; k == TC_ON_HOST && i < c->n; i++) {
    const tc_step_count *s = &c->at[i];
    bool is_new = s->n_next > 0 && s->n_members == 0;
    bool continues = s->host == host_steps && s->host_product == host_product;
    if (is_new && (now == TC_ON_HOST ? continues : s->host < 0 && s->source == now)) k = i;
  }
  if (k == TC_ON_HOST) TC_TRY(make_count(c, now, now == TC_ON_HOST ? host_steps : -1, host_product, param, site, &k));
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
    if (c->has_product && (s->product_before = tc_op_in(t, c->at[s->source].product)) == TC_NODE_ERR) return false;
  }
  return true;
}

tc_status tc_step_counts_assign(tc_step_counts *c, tc_trace *t) {
  for (int i = 0; i < c->n; i++) {
    const tc_step_count *s = &c->at[i];
    if (s->n_next) TC_TRY(tc_rec_assign(t, s->steps, s->next));
    if (s->n_next && c->has_product) TC_TRY(tc_rec_assign(t, s->product, s->product_next));
  }
  return TC_OK;
}

void tc_step_counts_move(tc_step_counts *c, int *now, int next) {
  if (*now != TC_ON_HOST) c->at[*now].n_members--;
  if (next != TC_ON_HOST) c->at[next].n_members++;
  *now = next;
}

void tc_step_counts_fini(tc_step_counts *c) {
  for (int i = 0; i < c->n; i++) release_count(&c->at[i]);
  tc_free(c->at);
  *c = (tc_step_counts){0};
}
