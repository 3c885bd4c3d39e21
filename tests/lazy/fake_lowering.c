#include "tests/lazy/fake_lowering.h"

#include <stdlib.h>
#include <string.h>

fake_state fake = {.value = 7};

static tc_status lower(tc_plan *plan) {
  if (fake.lower_fails != TC_OK && !(fake.lowers_rows && plan->by_rows))
    return TC_FAIL(fake.lower_fails, "told not to lower");
  char *text = fake.ops, *end = fake.ops + sizeof fake.ops;
  *text = 0;
  for (uint32_t n = 0; n < plan->n_node && text < end; n++)
    text += snprintf(text, (size_t)(end - text), "%s%s", n ? " " : "", tc_op_names[tc_rec_op(tc_plan_rec(plan, n))]);
  for (uint32_t i = 0; i < plan->n_out && fake.in_place; i++) {
    const tc_rec *r = tc_plan_rec(plan, plan->out[i].node);
    if (tc_rec_op(r) == TC_OP_ASSIGN) plan->out[i].donor = plan->leaf_of[r->in[1]];
  }
  plan->program = malloc(1);
  plan->tier = "fake";
  fake.n_lowered++;
  return TC_OK;
}

static tc_status launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg,
                        const tc_call *call, const tc_leaf *held, tc_work_done *prepared) {
  (void)call, (void)held, (void)prepared;
  fake_launch *l = &fake.last;
  *l = (fake_launch){.n_leaf = plan->n_leaf, .n_out = plan->n_out, .n_arg = plan->n_arg};
  for (uint32_t i = 0; i < TC_MIN(l->n_leaf, FAKE_MOST); i++)
    l->leaf[i] = leaf[i], memcpy(&l->first[i], leaf[i], sizeof l->first[i]);
  for (uint32_t i = 0; i < TC_MIN(l->n_out, FAKE_MOST); i++) l->out[i] = out[i];
  for (uint32_t i = 0; i < TC_MIN(l->n_arg, FAKE_MOST); i++) l->arg[i] = arg[i];
  fake.n_launched++;
  if (fake.launch_fails != TC_OK) return TC_FAIL(fake.launch_fails, "told not to launch");
  for (uint32_t i = 0; i < plan->n_out; i++) {
    memset(out[i], 0, plan->out[i].bytes);
    bool is_f32 = tc_plan_rec(plan, plan->out[i].node)->dtype == TC_F32;
    for (size_t k = 0; is_f32 && k < plan->out[i].bytes / sizeof fake.value; k++) ((float *)out[i])[k] = fake.value;
  }
  return TC_OK;
}

static void destroy(void *program) {
  free(program);
  fake.n_destroyed++;
}

static size_t bytes(const void *program) {
  (void)program;
  return fake.program_bytes;
}

static struct tc_verified *verify_begin(const tc_plan *plan, void *const *leaf, const uint64_t *arg, FILE *to) {
  (void)plan, (void)leaf, (void)arg, (void)to;
  return NULL;
}

static uint32_t verify_end(const tc_plan *plan, void *const *leaf, void *const *out, struct tc_verified *expected,
                           bool ran, FILE *to) {
  (void)plan, (void)leaf, (void)out, (void)expected, (void)ran, (void)to;
  return 0;
}

static bool find_anomaly(const tc_plan *plan, void *const *leaf, const uint64_t *arg, tc_anomaly *out) {
  (void)plan, (void)leaf, (void)arg, (void)out;
  return false;
}

static const tc_plan_facts *describe(const tc_plan *plan) {
  (void)plan;
  return NULL;
}

static const char *isa(void) {
  return "fake";
}

static void host_peak_rates(double *flops, double *per_second) {
  *flops = *per_second = 0;
}

static void clear(void) {
  fake.n_cleared++;
}

static void stats(tc_cache_info *info) {
  (void)info;
}

const tc_lowering_ops tc_lowering = {
    .lower = lower,
    .launch = launch,
    .destroy = destroy,
    .bytes = bytes,
    .verify_begin = verify_begin,
    .verify_end = verify_end,
    .find_anomaly = find_anomaly,
    .describe = describe,
    .isa = isa,
    .host_peak_rates = host_peak_rates,
    .clear = clear,
    .stats = stats,
};
