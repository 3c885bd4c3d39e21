// Graphs of the simulated driver, events, and capture.
#include "tests/sim/core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// ---- graphs ----

sim_graph *sim_graph_new(sim_device *d) {
  return sim_object_new(SIM_GRAPH, d, sizeof(sim_graph));
}

static void end_node(sim_node *n) {
  sim_op_fini(&n->op);
  free(n->deps);
  n->deps = NULL;
  n->n_deps = 0;
  sim_object_end(n);
}

void sim_graph_end(sim_graph *g) {
  for (int i = 0; i < g->n; i++) end_node(g->node[i]);
  free(g->node);
  g->node = NULL;
  g->n = g->cap = 0;
  sim_object_end(g);
}

sim_error sim_graph_add(sim_graph *g, sim_node *const *deps, size_t n_deps, sim_op *op, sim_node **out) {
  sim_node *n = NULL;
  int *index = NULL;
  sim_error e = SIM_INVALID;
  *out = NULL;
  for (size_t i = 0; i < n_deps; i++) {
    if (!sim_alive(deps[i], SIM_NODE) || deps[i]->graph != g) goto done;
  }
  e = SIM_MEMORY;
  if (g->n == g->cap) {
    int cap = g->cap ? 2 * g->cap : 8;
    sim_node **more = realloc(g->node, (size_t)cap * sizeof(sim_node *));
    if (!more) goto done;
    g->node = more;
    g->cap = cap;
  }
  index = malloc((n_deps + 1) * sizeof *index);
  n = index ? sim_object_new(SIM_NODE, g->object.device, sizeof *n) : NULL;
  if (!n) goto done;
  for (size_t i = 0; i < n_deps; i++) index[i] = deps[i]->index;
  n->graph = g;
  n->op = *op;
  n->index = g->n;
  n->n_deps = (int)n_deps;
  n->deps = index;
  g->node[g->n++] = n;
  *op = (sim_op){0};
  index = NULL;
  *out = n;
  e = SIM_OK;
done:
  if (e != SIM_OK) sim_op_fini(op);
  free(index);
  return e;
}

// ---- plans: graphs with their child graphs taken in ----

void sim_plan_drop(sim_plan *p) {
  if (!p || --p->refs > 0) return;
  for (int i = 0; i < p->n; i++) {
    sim_op_fini(&p->node[i].op);
    free(p->node[i].deps);
  }
  free(p->node);
  free(p);
}

// A node of the plan at `at`: op copied, after these.
static bool put_node(sim_plan *p, int at, const sim_op *op, const int *deps, int n_deps) {
  sim_plan_node *n = &p->node[at];
  if (sim_op_copy(op, &n->op) != SIM_OK) return false;
  n->deps = malloc((size_t)(n_deps + 1) * sizeof *n->deps);
  if (!n->deps) return false;
  memcpy(n->deps, deps, (size_t)n_deps * sizeof *deps);
  n->n_deps = n_deps;
  return true;
}

// A child's nodes from `base` on, the first of them after the node `gate`.
static bool put_child(sim_plan *p, int base, int gate, const sim_plan *child) {
  for (int i = 0; i < child->n; i++) {
    const sim_plan_node *n = &child->node[i];
    int *deps = malloc((size_t)(n->n_deps + 1) * sizeof *deps), n_deps = 0;
    if (!deps) return false;
    for (int k = 0; k < n->n_deps; k++) deps[n_deps++] = base + n->deps[k];
    if (n_deps == 0) deps[n_deps++] = gate;
    bool good = put_node(p, base + i, &n->op, deps, n_deps);
    free(deps);
    if (!good) return false;
  }
  return true;
}

// Of a child node come an empty one before its nodes, they, and an empty one after them all, by
// which the graph knows it.
sim_plan *sim_plan_new(const sim_graph *g) {
  int n = 0, next = 0, *at = malloc((size_t)(g->n + 1) * sizeof *at), *deps = NULL;
  for (int i = 0; i < g->n; i++) n += g->node[i]->op.kind == SIM_OP_CHILD ? g->node[i]->op.child->n + 2 : 1;
  sim_plan *p = calloc(1, sizeof *p);
  bool good = p && at;
  if (p) *p = (sim_plan){.refs = 1, .n = n, .node = calloc((size_t)n + 1, sizeof *p->node)};
  good = good && p->node && (deps = malloc((size_t)(n + 1) * sizeof *deps));
  for (int i = 0; good && i < g->n; i++) {
    const sim_node *from = g->node[i];
    for (int k = 0; k < from->n_deps; k++) deps[k] = at[from->deps[k]];
    if (from->op.kind != SIM_OP_CHILD) {
      at[i] = next;
      good = put_node(p, next++, &from->op, deps, from->n_deps);
      continue;
    }
    const sim_plan *child = from->op.child;
    good = put_node(p, next, &(sim_op){0}, deps, from->n_deps) && put_child(p, next + 1, next, child);
    for (int k = 0; k <= child->n; k++) deps[k] = next + k;
    at[i] = next + child->n + 1;
    good = good && put_node(p, at[i], &(sim_op){0}, deps, child->n + 1);
    next = at[i] + 1;
  }
  free(at);
  free(deps);
  if (good) return p;
  sim_plan_drop(p);
  return NULL;
}

sim_error sim_exec_new(sim_device *d, sim_graph *g, sim_exec **out) {
  *out = NULL;
  sim_plan *p = sim_plan_new(g);
  sim_exec *e = p ? sim_object_new(SIM_EXEC, d, sizeof *e) : NULL;
  if (!e) {
    sim_plan_drop(p);
    return SIM_MEMORY;
  }
  e->graph = g;
  e->plan = p;
  *out = e;
  return SIM_OK;
}

// What is queued of it is run all the same.
void sim_exec_end(sim_exec *e) {
  sim_plan_drop(e->plan);
  e->plan = NULL;
  sim_object_end(e);
}

// The plan of e, for a change: a copy where launches of the old one are queued.
static sim_error own_plan(sim_exec *e, sim_plan **out) {
  *out = e->plan;
  if (e->plan->refs == 1) return SIM_OK;
  sim_plan *p = calloc(1, sizeof *p);
  if (!p) return SIM_MEMORY;
  *p = (sim_plan){.refs = 1, .n = e->plan->n, .node = calloc((size_t)e->plan->n + 1, sizeof *p->node)};
  bool good = p->node != NULL;
  for (int i = 0; good && i < p->n; i++)
    good = put_node(p, i, &e->plan->node[i].op, e->plan->node[i].deps, e->plan->node[i].n_deps);
  if (!good) {
    sim_plan_drop(p);
    return SIM_MEMORY;
  }
  sim_plan_drop(e->plan);
  *out = e->plan = p;
  return SIM_OK;
}

// Where a node of the graph itself, not of a child's, is in its plan.
static int place_in_plan(const sim_graph *g, const sim_node *node) {
  int at = 0;
  for (int i = 0; i < node->index; i++) at += g->node[i]->op.kind == SIM_OP_CHILD ? g->node[i]->op.child->n + 2 : 1;
  return at;
}

sim_error sim_exec_set(sim_exec *e, const sim_node *node, sim_op *op) {
  int at = node->graph == e->graph ? place_in_plan(e->graph, node) : -1;
  sim_plan *p = NULL;
  sim_error error = SIM_INVALID;
  if (at >= 0 && at < e->plan->n && e->plan->node[at].op.kind == SIM_OP_KERNEL &&
      op->launch.kernel->object.device == e->object.device)
    error = own_plan(e, &p);
  if (error != SIM_OK) {
    sim_op_fini(op);
    return error;
  }
  sim_op_fini(&p->node[at].op);
  p->node[at].op = *op;
  return SIM_OK;
}

// ---- events, and capture ----

sim_error sim_event_renew(sim_event *e) {
  sim_mark *m = sim_mark_new();
  if (!m) return SIM_MEMORY;
  sim_mark_drop(e->mark);
  e->mark = m;
  return SIM_OK;
}

void sim_event_end(sim_event *e) {
  sim_mark_drop(e->mark);
  e->mark = NULL;
  sim_object_end(e);
}

sim_error sim_record(sim_stream *s, sim_event *e) {
  if (s->capture) {
    e->graph = s->capture;
    e->node = s->n_tip ? s->tip[0] : NULL;
    return s->capture_broken ? SIM_CAPTURE_INVALIDATED : SIM_OK;
  }
  e->graph = NULL;
  SIM_TRY(sim_event_renew(e));
  e->mark->refs++;
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_RECORD, .mark = e->mark});
}

// One more node that the next captured one comes after.
static sim_error add_tip(sim_stream *s, sim_node *n) {
  if (!n) return SIM_OK;
  sim_node **more = realloc(s->tip, (size_t)(s->n_tip + 1) * sizeof(sim_node *));
  if (!more) return SIM_MEMORY;
  s->tip = more;
  s->tip[s->n_tip++] = n;
  return SIM_OK;
}

sim_error sim_wait_event(sim_stream *s, sim_event *e) {
  if (e->graph) {  // recorded in a capture, which s now joins
    if (!sim_alive(e->graph, SIM_GRAPH) || (s->capture && s->capture != e->graph)) return SIM_CAPTURE_UNSUPPORTED;
    s->capture = e->graph;
    return add_tip(s, e->node);
  }
  if (s->capture) {
    s->capture_broken = true;
    return SIM_CAPTURE_UNSUPPORTED;
  }
  if (!e->mark) return SIM_OK;
  e->mark->refs++;
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_WAIT, .mark = e->mark});
}

sim_error sim_capture_begin(sim_stream *s, bool relaxed, sim_graph *into, sim_node *const *deps, size_t n_deps) {
  if (s->capture || s->object.device->legacy == s) return SIM_CAPTURE_UNSUPPORTED;
  s->capture = into ? into : sim_graph_new(s->object.device);
  if (!s->capture) return SIM_MEMORY;
  s->capture_adopted = into != NULL;
  s->capture_origin = true;
  s->capture_relaxed = relaxed;
  s->capture_broken = false;
  s->capture_thread = (uintptr_t)pthread_self();
  s->n_tip = 0;
  for (size_t i = 0; i < n_deps; i++) {
    if (!sim_alive(deps[i], SIM_NODE) || deps[i]->graph != into) return SIM_INVALID;
    SIM_TRY(add_tip(s, deps[i]));
  }
  return SIM_OK;
}

sim_error sim_not_captured(sim_stream *s) {
  if (!s->capture) return SIM_OK;
  s->capture_broken = true;
  return SIM_CAPTURE_UNSUPPORTED;
}

// Is each node of the graph one that a stream's next would come after, or has a successor? s is
// where the capture began.
static bool joined(const sim_stream *s) {
  for (const sim_stream *o = s->object.device->streams; o; o = o->sibling) {
    if (o == s || o->capture != s->capture) continue;
    for (int i = 0; i < o->n_tip; i++) {
      bool followed = false;
      for (int k = 0; k < s->n_tip; k++) followed |= s->tip[k] == o->tip[i];
      for (int k = 0; k < s->capture->n; k++) {
        for (int j = 0; j < s->capture->node[k]->n_deps; j++)
          followed |= s->capture->node[k]->deps[j] == o->tip[i]->index;
      }
      if (!followed) return false;
    }
  }
  return true;
}

sim_error sim_capture_end(sim_stream *s, sim_graph **out) {
  *out = NULL;
  if (!s->capture) return SIM_ILLEGAL_STATE;
  if (!s->capture_origin) return SIM_CAPTURE_UNMATCHED;
  sim_graph *g = s->capture;
  sim_error e = s->capture_broken ? SIM_CAPTURE_INVALIDATED : joined(s) ? SIM_OK : SIM_CAPTURE_UNJOINED;
  for (sim_stream *o = s->object.device->streams; o; o = o->sibling) {
    if (o->capture != g) continue;
    o->capture = NULL;
    o->n_tip = 0;
    o->capture_broken = o->capture_origin = false;
  }
  if (e == SIM_OK) {
    *out = g;
  } else if (!s->capture_adopted) {
    sim_graph_end(g);
  }
  return e;
}
