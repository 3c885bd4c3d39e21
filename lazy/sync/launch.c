// The launch of a plan. See launch.h.
#include "lazy/sync/launch.h"

#include <stdio.h>

#include "lazy/sync/graph_backend.h"
#include "lazy/trace/trace_text.h"
#include "runtime/log.h"
#include "runtime/options.h"

// The pending trace, once its key is closed, as text.
static void write_trace(FILE *out, const tc_trace *t, const char *cause, tc_site site) {
  char place[160], title[200];
  tc_site_text(site, place, sizeof place);
  snprintf(title, sizeof title, "%s at %s", cause, place[0] ? place : "an unknown place");
  size_t most_bytes = (size_t)tc_options_get()->trace_bytes;
  tc_text_write_trace(out, t, (const uint8_t *)(t->word + t->n_word), most_bytes, title);
}

void tc_trace_log(const tc_trace *t, const tc_sync_point *rec) {
  tc_log_message m;
  if (tc_log_begin(&m)) write_trace(m.to, t, rec->cause, rec->site);
  tc_log_end(&m, TC_LOG_TRACE);
}

tc_status tc_leaves_stage(tc_trace *t, const tc_plan *p) {
  for (uint32_t i = 0; i < p->n_leaf; i++) {
    tc_device d = (tc_device)p->dev[t->leaf[i].node];
    tc_buffer *there, *here = t->leaf[i].buf;
    if (here->memory == tc_device_memory(d)) continue;
    TC_TRY(tc_buffer_create_on(d, here->bytes, &there));
    tc_status st = tc_buffer_copy_span(there, here);
    if (st != TC_OK) return tc_buffer_release(there), st;
    t->leaf[i].buf = there;
    tc_buffer_release(here);
  }
  return TC_OK;
}

static tc_status launch(const tc_trace *t, const tc_plan *p, void *const *leaf, void *const *out,
                        tc_work_done *prepared) {
  if (TC_UNLIKELY(p->runner.run != NULL)) return tc_backend_run(p, leaf, out, t->arg);
  return tc_lowering.launch(p, leaf, out, t->arg, t->call, t->leaf, prepared);
}

// TC_VERIFY=1: the run between two looks at it. The trace is written before, while leaves that are
// written in place still hold their old content.
static tc_status launch_verified(tc_trace *t, const tc_plan *p, void *const *leaf, void *const *out,
                                 tc_work_done *prepared, tc_sync_point *rec) {
  tc_log_message before, m;
  FILE *text = tc_log_begin(&before), *to = tc_log_begin(&m);
  if (text) write_trace(text, t, rec->cause, rec->site), fflush(text);
  if (to) fprintf(to, "TC_VERIFY: results differ\n");
  struct tc_verified *expected = text && to ? tc_lowering.verify_begin(p, leaf, t->arg, to) : NULL;
  tc_status st = launch(t, p, leaf, out, prepared);
  if (expected) rec->n_wrong = tc_lowering.verify_end(p, leaf, out, expected, st == TC_OK, to);
  if (rec->n_wrong) {
    if (before.text) fputs(before.text, to);
    tc_log_end(&m, TC_LOG_WARN);
  } else {
    tc_log_drop(&m);
  }
  tc_log_drop(&before);
  return st;
}

// TC_ANOMALY=1: nothing has run yet, so assigned tensors keep their old values.
static tc_status refuse_anomaly(const tc_trace *t, const tc_plan *p, void *const *leaf) {
  tc_anomaly found;
  if (!tc_lowering.find_anomaly(p, leaf, t->arg, &found)) return TC_OK;
  tc_call by = t->call[found.node], of = found.node < t->n_of ? t->of[found.node] : (tc_call){NULL, 0};
  char here[160], there[160];
  tc_site_text(by.site, here, sizeof here);
  tc_site_text(of.site, there, sizeof there);
  const char *part = of.op ? ", a part of the gradient of " : "", *at = of.op ? " at " : "", *op = of.op ? of.op : "";
  tc_log_line(TC_LOG_WARN, "TC_ANOMALY: %s at %s: %s%s%s%s%s", by.op, here, found.text, part, op, at,
              of.op ? there : "");
  return tc_fail(TC_ERR_ANOMALY, by.op, by.site, "%s%s%s%s%s", found.text, part, op, at, of.op ? there : "");
}

tc_status tc_plan_launch(tc_trace *t, const tc_plan *p, tc_work_done *prepared, tc_sync_point *rec) {
  void **ptr = (void **)(t->out + p->n_out);
  for (uint32_t i = 0; i < p->n_leaf; i++) ptr[i] = t->leaf[i].buf->ptr;
  for (uint32_t i = 0; i < p->n_out; i++) ptr[p->n_leaf + i] = t->out[i]->ptr;
  if (TC_UNLIKELY(tc_options_get()->anomaly)) TC_TRY(refuse_anomaly(t, p, ptr));
  tc_status st = TC_UNLIKELY(tc_options_get()->verify) ? launch_verified(t, p, ptr, ptr + p->n_leaf, prepared, rec)
                                                       : launch(t, p, ptr, ptr + p->n_leaf, prepared);
  for (uint32_t i = 0; i < p->n_out && st == TC_OK; i++) tc_buffer_set_made(t->out[i]);
  return st;
}
