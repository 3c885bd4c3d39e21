// Where a long trace is cut: at places at which the program repeats. See sync.h.
#include "lazy/sync/sync.h"
#include "lazy/trace/capture.h"
#include "runtime/options.h"
#include "runtime/passes.h"

#define CUT_NODES 128
#define CUT_BYTES (UINT64_C(1) << 20)

static bool is_live_history(const tc_trace *t, uint32_t n) {
  return (t->flag[n] & (TC_NODE_LIVE | TC_NODE_TAPE | TC_NODE_REQUIRES_GRAD)) == (TC_NODE_LIVE | TC_NODE_TAPE);
}

// Whether anything on the tape is alive. What was found last mostly still is, else something
// recorded lately.
static bool has_live_history(tc_trace *t) {
  if (t->live_tape < t->n_node && is_live_history(t, t->live_tape)) return true;
  for (uint32_t n = t->n_node; n-- > 0;) {
    tc_count(TC_PASS_OUTPUTS, 1);
    if (is_live_history(t, n)) return t->live_tape = n, true;
  }
  return false;
}

// Cuts a long trace where the program repeats: at a landmark with nothing on the tape alive. The
// site of the first cut is preferred from then on, so that each iteration meets the last one's
// plan.
// A scope that assigned much ends with a cut even of a short trace. Two steps in one trace would
// hold old and new parameters at once.
// A scope that was opened in this trace ends soon, as a step's does, or a loss is read in it. By
// then gradients are cleared and less is alive. So one optimizer's step in it is passed by; a
// second one means that the scope is around the loop.
// The rest of a step that a bound has cut ends with the optimizer's step, however short it is. Else
// it would join the next step, and move that step's cut.
void tc_trace_landmark(tc_trace *t, tc_site site, bool is_scope) {
  if (TC_UNLIKELY(t->capture != NULL)) t->capture->has_landmark |= !is_scope;
  if (TC_UNLIKELY(t->record_only || t->capture || t->outline)) return;
  bool rest = t->cut_at_bound && !is_scope;
  if (TC_LIKELY(t->n_node < CUT_NODES && !(is_scope && t->assigned_bytes >= CUT_BYTES) && !rest)) return;
  const tc_options *o = tc_options_get();
  if (TC_UNLIKELY(o->fullgraph)) return;
  bool late = (int64_t)t->n_node >= o->max_nodes;
  bool young = !is_scope && t->n_mark > t->n_old_mark,
       elsewhere = is_scope ? t->cut_site && t->cut_site != site : young;
  if (young && !t->passed && !rest) {
    t->passed = true;
    return;
  }
  if (elsewhere && t->n_node < 4 * CUT_NODES && !late && !rest) return;
  if (has_live_history(t)) return;
  if (!rest) t->cut_site = site;
  (void)tc_trace_sync(t, TC_CAUSE_LANDMARK, site, 0, NULL);
}

void tc_rec_landmark(tc_trace *t) {
  tc_trace_landmark(t, t->op_site, false);
}
