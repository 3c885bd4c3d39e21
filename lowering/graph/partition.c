// Divides the graph of a loaded back end: nodes that it takes stay on its device, the others become
// the CPU's.
//
//   %1 = relu f32[4] %0 tc:toy            %1 = relu f32[4] %0 tc:toy         tc:toy takes relu,
//   %2 = erf f32[4] %1 tc:toy       ->    %2 = erf f32[4] %1 tc:cpu out 0    but no erf
//   %3 = reshape f32[2,2] %2 tc:toy out 0
//
// A view is where its operand is made. An output that is a view of a node on the device is stored
// by that node.
// In: operands come before what reads them. Invariants: the device was asked about each node that
// stays there; add_row (program/steps.c) asks again, since later passes add nodes. Source: graph
// partitioning of ONNX Runtime's execution providers. Threads: thread-compatible.
#include <stdlib.h>
#include <string.h>

#include "lowering/graph/graph.h"
#include "runtime/log.h"
#include "runtime/passes.h"

// How x lies for an op whose elements have shape d.
static void fill_tensor(tc_backend_tensor *v, const tc_gnode *x, const tc_dims *d) {
  *v = (tc_backend_tensor){.type = x->type, .rank = d->rank};
  tc_dims_broadcast(&x->shape->d, d, v->dim, v->stride);
}

void tc_graph_describe_op(const tc_graph *g, uint32_t n, tc_backend_op *out, tc_backend_tensor *in) {
  const tc_gnode *x = &g->node[n];
  bool elementwise = tc_op_kind_of(x->op) == TC_KIND_ELEM;
  *out = (tc_backend_op){.struct_size = sizeof *out,
                         .name = tc_op_names[x->op],
                         .n_in = x->n_in,
                         .n_attr = x->n_attr,
                         .n_arg = x->n_arg,
                         .in = in,
                         .attr = x->attr};
  fill_tensor(&out->out, x, &x->shape->d);
  for (int k = 0; k < x->n_in; k++) {
    const tc_gnode *y = &g->node[x->in[k]];
    fill_tensor(&in[k], y, elementwise ? &x->shape->d : &y->shape->d);
  }
}

bool tc_graph_takes(const tc_graph *g, tc_loaded *device, uint32_t n) {
  const tc_gnode *x = &g->node[n];
  tc_backend_op op;
  tc_backend_tensor in[TC_BACKEND_MOST_IN];
  if (x->op == TC_OP_LEAF || x->n_in > TC_BACKEND_MOST_IN) return false;
  // a copy within the device; the bodies of control flow are plans of the device
  if (tc_op_is_alias(x->op) || x->op == TC_OP_CONTROL || x->op == TC_OP_TUPLE_ELEMENT) return true;
  tc_graph_describe_op(g, n, &op, in);
  return tc_loaded_supports(device, &op);
}

// The node that makes the value of n, which may be a view of it.
static uint32_t maker_of(const tc_graph *g, uint32_t n) {
  for (; g->node[n].leaf == TC_LEAF_NONE && tc_op_is_alias(g->node[n].op); n = g->node[n].in[0])
    tc_count(TC_PASS_GRAPH, 1);
  return n;
}

// TC_LOG=backend: how many ops are taken, and which are not.
static void log_division(const tc_graph *g, tc_device d) {
  uint32_t n_taken = 0, n_all = 0, *n_left = calloc(TC_N_OP_ROWS, sizeof *n_left);
  char left[900] = "";
  for (uint32_t n = 0; n_left && n < g->n; n++) {
    const tc_gnode *x = &g->node[n];
    if (x->leaf != TC_LEAF_NONE || tc_op_is_alias(x->op)) continue;
    n_all++, n_taken += x->dev == d, n_left[x->op] += x->dev != d;
  }
  for (int op = 0; n_left && op < TC_N_OP_ROWS; op++)
    if (n_left[op]) tc_text_append(left, sizeof left, "%s %s %u", *left ? "," : "", tc_op_names[op], n_left[op]);
  tc_log_line(TC_LOG_BACKEND, "plan %016llx: %s takes %u of %u ops%s%s", (unsigned long long)g->plan->hash.lo,
              tc_device_name(d), n_taken, n_all, *left ? ", the CPU runs" : "", left);
  free(n_left);
}

tc_status tc_pass_partition(tc_graph *g) {
  tc_device d = (tc_device)g->plan->dev[0];
  tc_loaded *device;
  TC_TRY(tc_loaded_get(d, &device));
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n];
    bool alias = tc_op_is_alias(x->op) && x->leaf == TC_LEAF_NONE;
    const tc_gnode *y = alias ? &g->node[maker_of(g, n)] : x;
    bool stays = !alias                    ? x->leaf == TC_LEAF_NONE && tc_graph_takes(g, device, n)
                 : y->leaf == TC_LEAF_NONE ? y->dev == d
                                           : x->out != TC_LEAF_NONE;
    x->dev = stays ? d : TC_DEVICE_CPU;
  }
  for (uint32_t n = 0; n < g->n; n++) {
    tc_gnode *x = &g->node[n], *y = &g->node[maker_of(g, n)];
    if (x == y || x->out == TC_LEAF_NONE || y->dev != d || y->out != TC_LEAF_NONE || y->leaf != TC_LEAF_NONE) continue;
    y->out = x->out, x->out = TC_LEAF_NONE;
  }
  if (tc_log_on(TC_LOG_BACKEND)) log_division(g, d);
  return TC_OK;
}
