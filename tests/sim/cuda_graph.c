// CUDA's face of the simulated driver: graphs.
#include "tests/sim/cuda_face.h"

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (flags) return SIM_INVALID;
  *graph = (CUgraph)sim_graph_new(sim_here());
  return *graph ? SIM_OK : SIM_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph) {
  SIM_ENTER(SIM_NEEDS_INIT);
  if (!sim_alive(graph, SIM_GRAPH)) return SIM_INVALID;
  sim_graph_end((sim_graph *)graph);
  return SIM_OK;
}

static sim_error add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after, sim_op *op) {
  if (!sim_alive(graph, SIM_GRAPH) || (n_after && !after)) {
    sim_op_fini(op);
    return SIM_INVALID;
  }
  sim_node *n;
  SIM_TRY(sim_graph_add((sim_graph *)graph, (sim_node *const *)after, n_after, op, &n));
  *node = (CUgraphNode)n;
  return SIM_OK;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                 const CUDA_KERNEL_NODE_PARAMS *parameters) {
  SIM_ENTER(SIM_USUAL);
  sim_op op;
  SIM_TRY(sim_cu_launch(parameters, &op));
  return add(node, graph, after, n_after, &op);
}

// One row of bytes; more dimensions are not simulated.
CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                              const CUDA_MEMCPY3D *c, CUcontext context) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(context, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  if (c->Height != 1 || c->Depth != 1 || c->srcArray || c->dstArray || c->srcY || c->srcZ || c->dstY || c->dstZ)
    return SIM_NOT_SUPPORTED;
  uintptr_t from =
      (c->srcMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->srcHost : (uintptr_t)c->srcDevice) + c->srcXInBytes;
  uintptr_t to =
      (c->dstMemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)c->dstHost : (uintptr_t)c->dstDevice) + c->dstXInBytes;
  return add(node, graph, after, n_after,
             &(sim_op){.kind = SIM_OP_COPY, .to = to, .from = from, .bytes = c->WidthInBytes});
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                              const CUDA_MEMSET_NODE_PARAMS *f, CUcontext context) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(context, SIM_CONTEXT)) return SIM_INVALID_CONTEXT;
  if (f->height != 1) return SIM_NOT_SUPPORTED;
  if (f->elementSize != 1 && f->elementSize != 2 && f->elementSize != 4) return SIM_INVALID;
  if (!sim_reachable(sim_here(), f->dst, f->width * f->elementSize)) return SIM_INVALID;
  return add(node, graph, after, n_after,
             &(sim_op){.kind = SIM_OP_SET,
                       .to = f->dst,
                       .value = f->value,
                       .width = (int)f->elementSize,
                       .bytes = f->width * f->elementSize});
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                  CUgraph child) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(child, SIM_GRAPH) || child == graph) return SIM_INVALID;
  sim_plan *p = sim_plan_new((sim_graph *)child);
  if (!p) return SIM_MEMORY;
  return add(node, graph, after, n_after, &(sim_op){.kind = SIM_OP_CHILD, .child = p});
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after) {
  SIM_ENTER(SIM_USUAL);
  return add(node, graph, after, n_after, &(sim_op){.kind = SIM_OP_EMPTY});
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                   CUevent event) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_cu_event(event)) return SIM_INVALID_HANDLE;
  return add(node, graph, after, n_after, &(sim_op){.kind = SIM_OP_RECORD, .event = sim_cu_event(event)});
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n_after,
                                 CUevent event) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_cu_event(event)) return SIM_INVALID_HANDLE;
  return add(node, graph, after, n_after, &(sim_op){.kind = SIM_OP_WAIT, .event = sim_cu_event(event)});
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(graph, SIM_GRAPH) || flags > 1) return SIM_INVALID;  // 1: memory of its nodes, which have none
  sim_exec *e;
  SIM_TRY(sim_exec_new(sim_here(), (sim_graph *)graph, &e));
  *exec = (CUgraphExec)e;
  return SIM_OK;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *parameters) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(exec, SIM_EXEC) || !sim_alive(node, SIM_NODE)) return SIM_INVALID;
  sim_op op;
  SIM_TRY(sim_cu_launch(parameters, &op));
  return sim_exec_set((sim_exec *)exec, (sim_node *)node, &op);
}

// Both have the same nodes in the same order, of the same kinds and dependencies.
static bool same_shape(const sim_plan *a, const sim_plan *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++) {
    const sim_plan_node *x = &a->node[i], *y = &b->node[i];
    if (x->op.kind != y->op.kind || x->n_deps != y->n_deps) return false;
    for (int k = 0; k < x->n_deps; k++) {
      if (x->deps[k] != y->deps[k]) return false;
    }
  }
  return true;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *result) {
  SIM_ENTER(SIM_USUAL);
  if (!sim_alive(exec, SIM_EXEC) || !sim_alive(graph, SIM_GRAPH)) return SIM_INVALID;
  sim_exec *e = (sim_exec *)exec;
  sim_plan *p = sim_plan_new((sim_graph *)graph);
  if (!p) return SIM_MEMORY;
  bool same = same_shape(e->plan, p);
  *result = (CUgraphExecUpdateResultInfo){.result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                         : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED};
  sim_plan_drop(same ? e->plan : p);
  if (same) e->plan = p;
  return same ? SIM_OK : SIM_GRAPH_UPDATE;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  return sim_alive(exec, SIM_EXEC) && !s->capture ? SIM_OK : SIM_INVALID;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  return sim_alive(exec, SIM_EXEC) ? sim_enqueue_exec(s, (sim_exec *)exec) : SIM_INVALID;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  SIM_ENTER(SIM_USUAL | SIM_AFTER_FAULT);
  if (!sim_alive(exec, SIM_EXEC)) return SIM_INVALID;
  sim_exec_end((sim_exec *)exec);
  return SIM_OK;
}
