// Checkpoints of a whole training: model, optimizers, schedules and averages in one file.
//
// In: tc_training. Out: names and tensors for checkpoint.c, which writes and checks the file.
// Invariants: a file of other schedules or averages has names that are not asked for, or lacks
// some; it is refused before anything changes.
// Threads: thread-compatible. Owner: nobody.
#define TC_NO_SITES
#include <inttypes.h>
#include <stdlib.h>

#include "lazy/front/ema.h"
#include "lazy/front/nn.h"
#include "lazy/front/operand.h"

// Names and tensors of a file, in order: the model's, then the averages', then the schedules'.
typedef struct content {
  int n, n_model;
  const char **name;
  tc_tensor *tensor;
  char **made;  // by number of name; NULL: the model's own
} content;

static void content_fini(content *c) {
  for (int i = 0; c->made && i < c->n; i++) free(c->made[i]);
  free(c->made);
  free(c->name);
  free(c->tensor);
}

static tc_status check_training(const char *op, const tc_training *t, tc_site site) {
  if (!t || !t->model) return tc_fail(TC_ERR_ARG, op, site, t ? "there is no model" : "there is no training");
  if (t->n_schedules < 0 || (t->n_schedules > 0 && !t->schedules))
    return tc_fail(TC_ERR_ARG, op, site, "%d schedules at a null pointer", t->n_schedules);
  if (t->n_emas < 0 || (t->n_emas > 0 && !t->emas))
    return tc_fail(TC_ERR_ARG, op, site, "%d averages at a null pointer", t->n_emas);
  for (int k = 0; k < t->n_schedules; k++)
    if (!t->schedules[k]) return tc_fail(TC_ERR_ARG, op, site, "schedule %d is NULL", k);
  for (int k = 0; k < t->n_emas; k++)
    if (!t->emas[k]) return tc_fail(TC_ERR_ARG, op, site, "average %d is NULL", k);
  return tc_nn_check_optimizers(op, t->model, t->n_opts, t->opts, site);
}

// what, what1, what2, ..: the first has no number.
static bool add_named(content *c, const char *what, int k, const char *of, tc_tensor t) {
  char number[16] = "";
  if (k) snprintf(number, sizeof number, "%d", k);
  if (asprintf(&c->made[c->n], "%s%s.%s", what, number, of) < 0) return c->made[c->n] = NULL, false;
  c->name[c->n] = c->made[c->n], c->tensor[c->n++] = t;
  return true;
}

static bool add_ema(content *c, const tc_ema *ema, int k, tc_site site) {
  const tc_nn_params *p = tc_ema_model(ema);
  bool ok = true;
  for (int i = 0; i < tc_nn_count_all(p) && ok; i++) {
    char *name = NULL;
    ok = asprintf(&name, "module.%s", tc_nn_names(p)[i]) >= 0 && add_named(c, "ema", k, name, tc_nn_tensors(p)[i]);
    free(name);
  }
  return ok && add_named(c, "ema", k, "n_averaged", tc_full_int_at(TC_SCALAR, tc_ema_n_averaged(ema), TC_I64, site));
}

static tc_status content_init(content *c, const char *op, const tc_training *t, tc_site site) {
  *c = (content){.n_model = tc_nn_count_all(t->model)};
  size_t n = (size_t)c->n_model + (size_t)t->n_schedules + 1;
  for (int k = 0; k < t->n_emas; k++) n += (size_t)tc_nn_count_all(tc_ema_model(t->emas[k])) + 1;
  c->name = calloc(n, sizeof *c->name);
  c->tensor = calloc(n, sizeof *c->tensor);
  c->made = calloc(n, sizeof *c->made);
  bool ok = c->name && c->tensor && c->made;
  for (; ok && c->n < c->n_model; c->n++)
    c->name[c->n] = tc_nn_names(t->model)[c->n], c->tensor[c->n] = tc_nn_tensors(t->model)[c->n];
  for (int k = 0; k < t->n_emas && ok; k++) ok = add_ema(c, t->emas[k], k, site);
  for (int k = 0; k < t->n_schedules && ok; k++)
    ok = add_named(c, "schedule", k, tc_schedule_name(t->schedules[k]), tc_schedule_state_at(t->schedules[k], site));
  return ok ? TC_OK : tc_fail(TC_ERR_MEMORY, op, site, "no memory for %zu tensors", n);
}

tc_status tc_training_save_at(const char *path, const tc_training *t, int64_t step, tc_site site) {
  TC_CALLED_AS("training_save");
  TC_TRY(check_training("training_save", t, site));
  content c;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, "training_save", t, site);
  if (st == TC_OK) st = tc_checkpoint_save_with_at(path, c.n, c.name, c.tensor, t->n_opts, t->opts, step, site);
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}

// The tensors after the model's, which were loaded into, are read back into what they are of.
static tc_status apply_loaded(const content *c, const tc_training *t, tc_site site) {
  const tc_tensor *at = c->tensor + c->n_model;
  for (int k = 0; k < t->n_emas; k++) {
    int64_t n = 0;
    at += tc_nn_count_all(tc_ema_model(t->emas[k]));
    TC_TRY(tc_item_at(*at++, TC_I64, &n, site));
    if (n < 0) return tc_fail(TC_ERR_ARG, "training_load", site, "n_averaged is %" PRId64, n);
    tc_ema_set_n_averaged(t->emas[k], n);
  }
  for (int k = 0; k < t->n_schedules; k++) TC_TRY(tc_schedule_set_state_at(t->schedules[k], *at++, site));
  return TC_OK;
}

tc_status tc_training_load_at(const char *path, const tc_training *t, int64_t *out_step, tc_site site) {
  TC_CALLED_AS("training_load");
  TC_TRY(check_training("training_load", t, site));
  content c;
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = content_init(&c, "training_load", t, site);
  if (st == TC_OK) st = tc_checkpoint_load_with_at(path, c.n, c.name, c.tensor, t->n_opts, t->opts, out_step, site);
  if (st == TC_OK) st = apply_loaded(&c, t, site);
  content_fini(&c);
  tc_scope_end_at(scope, 0);
  return st;
}
