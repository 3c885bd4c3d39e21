// Runs records one by one. See records.h.
#include "lowering/program/records.h"

#include "lazy/sync/plan_build.h"
#include "lowering/program/program.h"
#include "runtime/arena.h"

bool tc_records_init(tc_records *r, const tc_plan *plan, void *const *leaf, const uint64_t *arg) {
  size_t n = (size_t)plan->n_node + 1;
  *r = (tc_records){.plan = plan,
                    .leaf = leaf,
                    .arg = arg,
                    .value = tc_calloc(n, sizeof *r->value),
                    .seen = tc_calloc(n, sizeof *r->seen),
                    .n_readers = tc_calloc(n, sizeof *r->n_readers)};
  tc_device d = plan->n_node ? (tc_device)plan->dev[0] : TC_DEVICE_CPU;
  if (!r->value || !r->seen || !r->n_readers) return false;
  if (tc_device_kind_of(d) == TC_DEVICE_GPU && tc_gpu_get(d, &r->gpu) != TC_OK) return false;
  if (tc_device_kind_of(d) == TC_DEVICE_LOADED && tc_loaded_get(d, &r->loaded) != TC_OK) return false;
  for (uint32_t i = plan->n_node; i-- > 0;) {
    const tc_rec *x = tc_plan_rec(plan, i);
    if (plan->out_of[i] != TC_LEAF_NONE) r->n_readers[i]++;
    for (int k = 0; r->n_readers[i] && k < tc_rec_arity(x); k++) r->n_readers[tc_rec_in(x)[k]]++;
  }
  return true;
}

static void drop_value(tc_records *r, uint32_t node) {
  if (r->value) tc_buffer_release(r->value[node]), r->value[node] = NULL;
  if (r->seen) tc_buffer_release(r->seen[node]), r->seen[node] = NULL;
}

void tc_records_fini(tc_records *r) {
  for (uint32_t n = 0; r->plan && n < r->plan->n_node; n++) drop_value(r, n);
  tc_free(r->value);
  tc_free(r->seen);
  tc_free(r->n_readers);
}

void *tc_records_at(const tc_records *r, uint32_t node) {
  uint32_t leaf = r->plan->leaf_of[node];
  return leaf != TC_LEAF_NONE ? r->leaf[leaf] : r->value[node] ? r->value[node]->ptr : NULL;
}

const void *tc_records_copy(const tc_records *r, const void *at, size_t bytes, tc_buffer **out) {
  *out = NULL;
  if (!r->gpu && !r->loaded) return at;
  if (tc_buffer_create(bytes, out) != TC_OK) return NULL;
  void *to = (*out)->ptr;
  if ((r->gpu ? tc_gpu_read(r->gpu, to, at, bytes) : tc_loaded_read(r->loaded, to, at, bytes)) == TC_OK) return to;
  tc_buffer_release(*out);
  *out = NULL;
  return NULL;
}

void *tc_records_look(tc_records *r, uint32_t node) {
  void *at = tc_records_at(r, node);
  if (!r->gpu && !r->loaded) return at;
  if (!r->seen[node] && !tc_records_copy(r, at, tc_record_bytes(r->plan, node), &r->seen[node])) return NULL;
  return r->seen[node]->ptr;
}

bool tc_records_run(const tc_records *r, uint32_t node, tc_device device, void *const *operand, tc_buffer **out) {
  const tc_plan *p = r->plan;
  tc_plan *q = NULL;
  *out = NULL;
  bool ok = tc_plan_of_record(p, node, device, &q) == TC_OK &&
            tc_buffer_create_on(device, tc_record_bytes(p, node), out) == TC_OK &&
            tc_program_launch(q, operand, &(*out)->ptr, r->arg + p->arg_at[node], NULL, NULL, NULL) == TC_OK;
  tc_plan_release(q);
  return ok;
}

void tc_records_pass(tc_records *r, uint32_t node) {
  const tc_rec *x = tc_plan_rec(r->plan, node);
  for (int i = 0; i < tc_rec_arity(x); i++)
    if (--r->n_readers[tc_rec_in(x)[i]] == 0) drop_value(r, tc_rec_in(x)[i]);
}
