// An optimizer's step in a body that is traced for its graph. See optim_capture.h.
#include "lazy/autograd/optim_capture.h"

#include <string.h>

#include "runtime/arena.h"

// The numbers are recorded once more: only a step whose numbers come out the same can be taken
// again.
void tc_optimizer_capture(tc_trace *t, const tc_step_ops *ops, void *owner, void *note, uint32_t first_arg) {
  uint32_t n_arg = t->n_arg - first_arg, *arg = tc_malloc((n_arg + 1) * sizeof *arg);
  tc_step step = {.ops_of = ops, .owner = owner, .note = note, .n_arg = n_arg, .arg = arg};
  for (uint32_t i = 0; i < n_arg && arg; i++) arg[i] = first_arg + i;
  if (note && arg) {
    tc_trace_mark mark = tc_trace_mark_now(t);
    bool same = ops->record_numbers(t, owner, note) && t->n_arg - mark.n_arg == n_arg &&
                memcmp(t->arg + first_arg, t->arg + mark.n_arg, n_arg * sizeof t->arg[0]) == 0;
    step.ops = tc_trace_ops(t, mark.n_node);
    tc_trace_cut(t, &mark);
    if (!same) tc_capture_break(t, "an optimizer's step whose numbers are not its alone", t->op, t->op_site);
  }
  tc_capture_step(t, step);
}
