// Graphs as text. See graph.h.
#include "lazy/text/text.h"
#include "lowering/graph/graph.h"
#include "runtime/log.h"

static void print_scheduled(const tc_graph *g, FILE *out) {
  for (uint32_t i = 0; i < g->n_order; i++) {
    const tc_gnode *x = &g->node[g->order[i]];
    tc_text_node line = {.op = x->op, .type = x->type, .dev = x->dev, .dims = x->shape->d, .n_in = x->n_in, .n_attr = x->n_attr, .n_arg = x->n_arg};
    line.in = x->in, line.attr = x->attr, line.flag = g->order[i] < g->plan->n_node ? g->plan->flag[g->order[i]] : 0;
    tc_text_write_node(out, g->order[i], &line);
  }
}

void tc_graph_log(const tc_graph *g) {
  tc_log_message m;
  if (tc_log_begin(&m)) {
    fprintf(m.to, "%016llx: recorded\n", (unsigned long long)g->plan->hash.lo);
    tc_text_write_plan(m.to, g->plan);
    fprintf(m.to, "simplified\n");
    print_scheduled(g, m.to);
  }
  tc_log_end(&m, TC_LOG_PLAN);
}
