// Graphs of launches, one after the other, which are launched as one. See driver.h.
// Threads: under the device's lock.
#include "device/gpu/driver.h"
#include "runtime/arena.h"

struct tc_gpu_replay {
  void *exec;
  void *graph;  // its nodes stand for those of exec
  void *node[];
};

void tc_gpu_replay_destroy(tc_gpu_port *p, tc_gpu_replay *r, bool lost) {
  if (r->exec && !lost) (void)p->driver->entry->exec_destroy(r->exec);
  if (r->graph && !lost) (void)p->driver->entry->graph_destroy(r->graph);
  tc_free(r);
}

// Captures n nodes as they are launched. Another thread may be waiting for WORK, which a capturing
// stream does not allow. So libraries are moved to a stream that nobody waits for, before the
// capture begins, which must not contain that.
static int capture_nodes(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, void **graph) {
  const tc_gpu_entry_points *e = p->driver->entry;
  void *stream = p->stream[TC_GPU_CAPTURE];
  int result = 0;
  for (uint32_t i = 0; i < n && result == 0; i++) result = tc_gpu_port_set_line(p, TC_GPU_CAPTURE, &node[i]);
  if (result == 0) result = e->capture_begin(stream, TC_GPU_CAPTURE_RELAXED);
  if (result != 0) return result;
  for (uint32_t i = 0; i < n && result == 0; i++) result = tc_gpu_port_launch(p, TC_GPU_CAPTURE, &node[i]);
  int ended = e->capture_end(stream, graph);
  return result ? result : ended;
}

// Puts what a library does into the graph as one node.
static int add_request(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node) {
  const tc_gpu_entry_points *e = p->driver->entry;
  void *captured = NULL;
  int result = capture_nodes(p, node, 1, &captured);
  if (result == 0) result = e->graph_add_child(&r->node[i], r->graph, i ? &r->node[i - 1] : NULL, i ? 1 : 0, captured);
  if (captured) (void)e->graph_destroy(captured);  // the node has a copy
  return result;
}

static int add_kernel(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node) {
  void *parameters[] = {node->parameter};
  tc_gpu_node_params params;
  p->driver->node_params(node, parameters, &params);
  return p->driver->entry->graph_add_kernel(&r->node[i], r->graph, i ? &r->node[i - 1] : NULL, i ? 1 : 0, &params);
}

static int build_nodes(tc_gpu_port *p, tc_gpu_replay *r, const tc_gpu_node *node, uint32_t n) {
  int result = p->driver->entry->graph_create(&r->graph, 0);
  for (uint32_t i = 0; i < n && result == 0; i++)
    result = (node[i].request ? add_request : add_kernel)(p, r, i, &node[i]);
  return result;
}

// A graph whose nodes cannot be changed is captured whole; nobody can name its nodes afterwards.
int tc_gpu_replay_create(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, tc_gpu_replay **out) {
  const tc_gpu_entry_points *e = p->driver->entry;
  tc_gpu_replay *r = tc_calloc(1, sizeof *r + n * sizeof *r->node);
  *out = NULL;
  if (!r) return TC_GPU_ERROR_OUT_OF_MEMORY;
  int result = e->replay_is_fixed ? capture_nodes(p, node, n, &r->graph) : build_nodes(p, r, node, n);
  if (result == 0) result = e->graph_instantiate(&r->exec, r->graph, 0);
  if (result != 0) return tc_gpu_replay_destroy(p, r, false), result;
  *out = r;
  return 0;
}

int tc_gpu_replay_set(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node) {
  void *parameters[] = {node->parameter};
  tc_gpu_node_params params;
  p->driver->node_params(node, parameters, &params);
  return p->driver->entry->exec_set_kernel(r->exec, r->node[i], &params);
}

int tc_gpu_replay_launch(tc_gpu_port *p, tc_gpu_replay *r) {
  return p->driver->entry->exec_launch(r->exec, p->stream[TC_GPU_WORK]);
}
