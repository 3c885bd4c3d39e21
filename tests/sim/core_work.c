// Streams and what is queued in them. A device does nothing by itself: a piece of work runs when
// somebody waits, when the seed says so at a call, or when somebody asks whether something is done.
// Which of the ready ones runs is the seed's to say.
#include "tests/sim/core.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/run.h"

enum { MAX_READY = 256 };

// ---- what is owned ----

sim_mark *sim_mark_new(void) {
  sim_mark *m = calloc(1, sizeof *m);
  if (m) m->refs = 1;
  return m;
}

void sim_mark_drop(sim_mark *m) {
  if (m && --m->refs == 0) free(m);
}

static bool shape_allowed(const sim_kernel *k, const unsigned grid[3], const unsigned block[3], unsigned shared) {
  for (int i = 0; i < 3; i++) {
    if (grid[i] == 0 || grid[i] > (i ? 65535u : INT32_MAX) || block[i] == 0 || block[i] > (i == 2 ? 64u : 1024u))
      return false;
  }
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2], blocks = (uint64_t)grid[0] * grid[1] * grid[2];
  return threads <= SIM_MAX_THREADS && blocks <= INT32_MAX && shared <= (unsigned)k->shared_limit;
}

sim_error sim_launch_new(sim_kernel *k, const unsigned grid[3], const unsigned block[3], unsigned shared,
                         void **parameters, int most_param_bytes, sim_op *out) {
  if (!sim_alive(k, SIM_KERNEL) || k->object.device != sim_here()) return SIM_INVALID_HANDLE;
  if (!shape_allowed(k, grid, block, shared) || k->param_bytes > most_param_bytes || !parameters || !parameters[0])
    return SIM_INVALID;
  if (block[0] * block[1] * block[2] > (unsigned)k->threads) return SIM_TOO_MANY_RESOURCES;
  if (k->cluster > SIM_MAX_CLUSTER || grid[0] % (unsigned)k->cluster != 0) return SIM_INVALID_CLUSTER;
  *out = (sim_op){.kind = SIM_OP_KERNEL,
                  .launch = {.kernel = k, .shared = shared, .params = malloc((size_t)k->param_bytes + 1)}};
  if (!out->launch.params) return SIM_MEMORY;
  memcpy(out->launch.grid, grid, sizeof out->launch.grid);
  memcpy(out->launch.block, block, sizeof out->launch.block);
  memcpy(out->launch.params, parameters[0], (size_t)k->param_bytes);
  return SIM_OK;
}

void sim_op_fini(sim_op *op) {
  free(op->launch.params);
  free(op->staged);
  sim_mark_drop(op->mark);
  sim_plan_drop(op->child);
  *op = (sim_op){0};
}

sim_error sim_op_copy(const sim_op *op, sim_op *out) {
  *out = *op;
  out->launch.params = out->staged = NULL;
  if (op->mark) op->mark->refs++;
  if (op->child) op->child->refs++;
  if (op->kind == SIM_OP_CALL) {
    out->staged = malloc(op->bytes + 1);
    if (out->staged) memcpy(out->staged, op->staged, op->bytes);
    return out->staged ? SIM_OK : SIM_MEMORY;
  }
  if (op->kind != SIM_OP_KERNEL) return SIM_OK;
  size_t bytes = (size_t)op->launch.kernel->param_bytes;
  out->launch.params = malloc(bytes + 1);
  if (!out->launch.params) {
    sim_op_fini(out);
    return SIM_MEMORY;
  }
  memcpy(out->launch.params, op->launch.params, bytes);
  return SIM_OK;
}

static void work_free(sim_work *w) {
  sim_op_fini(&w->op);
  for (int i = 0; w->plan && i < w->plan->n; i++) sim_mark_drop(w->mark[i]);
  free(w->mark);
  sim_plan_drop(w->plan);
  free(w->done);
  free(w);
}

// ---- streams ----

sim_stream *sim_stream_new(sim_device *d, bool blocking) {
  sim_stream *s = sim_object_new(SIM_STREAM, d, sizeof *s);
  if (!s) return NULL;
  s->last = &s->first;
  s->blocking = blocking;
  s->sibling = d->streams;
  d->streams = s;
  return s;
}

// Its work is done first: nothing of it is lost.
void sim_stream_end(sim_stream *s) {
  sim_wait_stream(s);
  for (sim_stream **at = &s->object.device->streams; *at; at = &(*at)->sibling) {
    if (*at != s) continue;
    *at = s->sibling;
    break;
  }
  free(s->tip);
  s->tip = NULL;
  sim_object_end(s);
}

static bool earlier_than(const sim_stream *s, uint64_t number) {
  return s->first && s->first->number < number;
}

// May the first work of s go on?
static bool ready(const sim_device *d, const sim_stream *s) {
  const sim_work *w = s->first;
  if (!w || s->busy) return false;
  if (w->op.kind == SIM_OP_WAIT && !w->op.mark->done) return false;
  if (w->exec && w->n_left == w->plan->n) {  // not begun: launches of one executable follow each other
    for (const sim_stream *o = d->streams; o; o = o->sibling) {
      if (o != s && o->first && o->first->exec == w->exec && o->first->number < w->number) return false;
    }
  }
  if (s == d->legacy) {
    for (const sim_stream *o = d->streams; o; o = o->sibling) {
      if (o != s && o->blocking && earlier_than(o, w->number)) return false;
    }
  } else if (s->blocking && earlier_than(d->legacy, w->number)) {
    return false;
  }
  return true;
}

// ---- doing it ----

static void finish_mark(const sim_stream *s, sim_mark *m) {
  m->done = true;
  m->ms = s->clock_ms;
}

// What it would take, in milliseconds: a guess, by which one sees what goes on beside what.
static double took(const sim_op *op) {
  switch (op->kind) {
    case SIM_OP_KERNEL:
    case SIM_OP_CALL: return 0.005;
    case SIM_OP_COPY:
      return 0.002 + (double)op->bytes / (sim_memory_device(op->from) && sim_memory_device(op->to) ? 1500e6 : 25e6);
    case SIM_OP_SET: return 0.002;
    default: return 0;
  }
}

static void spend(sim_device *d, sim_stream *s, const sim_op *op) {
  double ms = took(op);
  *(op->kind == SIM_OP_COPY ? &d->copies_ms : &d->others_ms) += ms;
  if (s && op->kind == SIM_OP_WAIT && op->mark && op->mark->ms > s->clock_ms) s->clock_ms = op->mark->ms;
  if (s) s->clock_ms += ms;
}

sim_times sim_time(int d) {
  sim_lock();
  const sim_device *x = &sim_devices[d];
  sim_times t = {x->host_ms, x->host_ms, x->copies_ms, x->others_ms};
  for (const sim_stream *s = x->streams; s; s = s->sibling) {
    if (s->clock_ms > t.end_ms) t.end_ms = s->clock_ms;
  }
  sim_unlock();
  return t;
}

typedef struct host_call {
  void (*host)(void *);
  void *data;
} host_call;

static void *host_thread(void *arg) {
  const host_call *c = arg;
  c->host(c->data);
  return NULL;
}

// On a thread of its own, as a driver does, without the lock.
static void call_host(const sim_op *op) {
  host_call c = {op->host, op->data};
  pthread_t t;
  sim_unlock();
  if (pthread_create(&t, NULL, host_thread, &c) == 0) pthread_join(t, NULL);
  sim_lock();
}

static void (*watcher)(void *arg, const sim_begun *launch);
static void *watcher_arg;

void sim_watch(void (*see)(void *arg, const sim_begun *launch), void *arg) {
  sim_lock();
  watcher = see, watcher_arg = arg;
  sim_unlock();
}

static sim_error run_kernel(sim_device *d, const sim_launch *l) {
  if (watcher && sim_alive(l->kernel, SIM_KERNEL)) {
    const sim_begun begun = {l->kernel->name, l->grid[0] * l->grid[1] * l->grid[2],
                             l->block[0] * l->block[1] * l->block[2], l->shared, l->params};
    watcher(watcher_arg, &begun);
  }
  return sim_run(d, l);
}

static sim_error run_call(sim_device *d, const sim_op *op) {
  if (watcher) watcher(watcher_arg, &(sim_begun){.parameter = op->staged});
  return op->call(d, op->staged);
}

void sim_perform(sim_device *d, sim_stream *s, const sim_op *op) {
  sim_error e = SIM_OK;
  bool sticky = false;
  spend(d, s, op);
  switch (op->kind) {
    case SIM_OP_KERNEL:
      e = sim_injected("kernel", &sticky);
      if (e == SIM_OK && !sim_option.idle) e = run_kernel(d, &op->launch);
      break;
    case SIM_OP_COPY: e = sim_copy_bytes(op->to, op->from, op->bytes); break;
    case SIM_OP_SET: e = sim_set_bytes(op->to, op->value, op->width, op->bytes); break;
    case SIM_OP_CALL:
      e = sim_injected("library", &sticky);
      if (e == SIM_OK && !sim_option.idle) e = run_call(d, op);
      break;
    case SIM_OP_ALLOC: memset(sim_state + (op->to - (uintptr_t)sim_memory), SIM_UNWRITTEN, op->bytes); break;
    case SIM_OP_FREE:
      memset(sim_state + (op->to - (uintptr_t)sim_memory), SIM_GONE, op->bytes);
      sim_segments_freed(op);
      break;
    case SIM_OP_RECORD: finish_mark(s, op->mark); break;
    case SIM_OP_HOST: call_host(op); break;
    case SIM_OP_EMPTY:
    case SIM_OP_WAIT:
    case SIM_OP_CHILD: break;
  }
  if (e != SIM_OK && !d->sticky) d->sticky = e;
}

// One node of a graph that runs. False: each that is left waits for an event.
static bool step_graph(sim_device *d, sim_stream *s, sim_work *w) {
  const sim_plan *p = w->plan;
  int able[MAX_READY], n = 0;
  for (int i = 0; i < p->n && n < MAX_READY; i++) {
    bool can = !w->done[i];
    for (int k = 0; can && k < p->node[i].n_deps; k++) can = w->done[p->node[i].deps[k]];
    bool waits = p->node[i].op.kind == SIM_OP_WAIT && w->mark[i] && !w->mark[i]->done;
    if (can && !waits) able[n++] = i;
  }
  if (n == 0) return false;
  int i = able[sim_random((uint32_t)n)];
  const sim_op *op = &p->node[i].op;
  if (op->kind == SIM_OP_RECORD) {
    finish_mark(s, w->mark[i]);
  } else {
    sim_perform(d, s, op);
  }
  w->done[i] = true;
  w->n_left--;
  return true;
}

static void step_stream(sim_device *d, sim_stream *s) {
  sim_work *w = s->first;
  s->busy = true;
  if (w->asked_ms > s->clock_ms) s->clock_ms = w->asked_ms;
  if (w->plan && w->n_left) {
    if (d->sticky) w->n_left = 0;
    bool more = w->n_left && (!step_graph(d, s, w) || w->n_left);
    s->busy = false;
    if (more) return;
  } else if (!w->plan && (!d->sticky || w->op.kind == SIM_OP_RECORD || w->op.kind == SIM_OP_FREE)) {
    // A device with a fault does nothing any more, but nobody waits for it for ever.
    sim_perform(d, s, &w->op);
  }
  s->busy = false;
  for (int i = 0; w->plan && i < w->plan->n; i++) {
    // of a device that does nothing any more
    if (w->plan->node[i].op.kind == SIM_OP_RECORD) finish_mark(s, w->mark[i]);
  }
  s->first = w->next;
  if (!s->first) s->last = &s->first;
  work_free(w);
}

// with_host: functions of the program, too.
static bool step(sim_device *d, bool with_host) {
  sim_stream *able[MAX_READY];
  int n = 0, n_quick = 0;
  bool busy = false;
  for (sim_stream *s = d->streams; s && n < MAX_READY; s = s->sibling) {
    busy |= s->busy;
    if (!ready(d, s) || (s->first->op.kind == SIM_OP_HOST && !with_host)) continue;
    able[n++] = s;
    if (s->first->op.kind == SIM_OP_COPY || !sim_option.slow_copies) continue;
    sim_stream *swap = able[n_quick];
    able[n_quick++] = s;
    able[n - 1] = swap;
  }
  if (n == 0 && busy && with_host) {  // another thread is in a function of the program
    sim_unlock();
    usleep(50);
    sim_lock();
    return true;
  }
  if (n == 0) return false;
  if (n_quick > 0) n = n_quick;  // copies are slow: what is none goes first
  step_stream(d, able[sim_random((uint32_t)n)]);
  return true;
}

// Others' devices, too: an event of theirs may be what is waited for.
bool sim_step(sim_device *d) {
  bool went = step(d, true);
  for (int i = 0; !went && i < sim_option.n_devices; i++) went = &sim_devices[i] != d && step(&sim_devices[i], true);
  return went;
}

// ---- asking for it ----

static sim_error append(sim_stream *s, sim_work *w) {
  sim_device *d = s->object.device;
  w->number = sim_next_number();
  w->asked_ms = d->host_ms;
  *s->last = w;
  s->last = &w->next;
  while (sim_random(100) < (uint32_t)sim_option.eager && step(d, false)) {
  }
  return SIM_OK;
}

// A copy from memory that can be paged is taken in when asked for; from pinned memory it is read
// when it runs.
static sim_error stage(sim_op *op) {
  if (op->kind != SIM_OP_COPY || sim_memory_device(op->from) || sim_pinned(op->from, op->bytes)) return SIM_OK;
  op->staged = malloc(op->bytes + 1);
  if (!op->staged) return SIM_MEMORY;
  memcpy(op->staged, (const void *)op->from, op->bytes);
  op->from = (uintptr_t)op->staged;
  return SIM_OK;
}

static sim_error capture(sim_stream *s, sim_op *op) {
  sim_node *node = NULL;
  if (sim_option.slow_capture_us) {
    sim_unlock();
    usleep(sim_option.slow_capture_us);
    sim_lock();
  }
  if (s->capture_broken) {
    sim_op_fini(op);
    return SIM_CAPTURE_INVALIDATED;
  }
  if (op->kind == SIM_OP_ALLOC || op->kind == SIM_OP_FREE) {
    s->capture_broken = true;
    sim_op_fini(op);
    return SIM_CAPTURE_UNSUPPORTED;
  }
  sim_error e = sim_graph_add(s->capture, s->tip, (size_t)s->n_tip, op, &node);
  if (e != SIM_OK) return e;
  if (!s->tip) s->tip = malloc(sizeof *s->tip);
  if (!s->tip) return SIM_MEMORY;
  s->tip[0] = node;
  s->n_tip = 1;
  return SIM_OK;
}

sim_error sim_enqueue(sim_stream *s, sim_op *op) {
  if (s->capture) return capture(s, op);
  sim_error e = stage(op);
  sim_work *w = e == SIM_OK ? calloc(1, sizeof *w) : NULL;
  if (!w) {
    sim_op_fini(op);
    return SIM_MEMORY;
  }
  w->op = *op;
  *op = (sim_op){0};
  return append(s, w);
}

sim_error sim_enqueue_exec(sim_stream *s, sim_exec *e) {
  if (s->capture) {
    e->plan->refs++;
    return capture(s, &(sim_op){.kind = SIM_OP_CHILD, .child = e->plan});
  }
  sim_work *w = calloc(1, sizeof *w);
  bool *done = calloc((size_t)e->plan->n + 1, sizeof *done);
  sim_mark **mark = calloc((size_t)e->plan->n + 1, sizeof *mark);
  if (!w || !done || !mark) {
    free(w);
    free(done);
    free(mark);
    return SIM_MEMORY;
  }
  e->plan->refs++;
  *w = (sim_work){.plan = e->plan, .done = done, .mark = mark, .n_left = e->plan->n, .exec = e};
  for (int i = 0; i < e->plan->n; i++) {
    const sim_op *op = &e->plan->node[i].op;
    if (op->kind == SIM_OP_RECORD) sim_event_renew(op->event);
    if (op->kind == SIM_OP_RECORD || op->kind == SIM_OP_WAIT) mark[i] = op->event->mark;
    if (mark[i]) mark[i]->refs++;
  }
  return append(s, w);
}

// ---- waiting ----

static sim_error stuck(sim_device *d) {
  sim_fault(11, "device %d: what is waited for will never be done", d->index);
  if (!d->sticky) d->sticky = SIM_UNKNOWN;
  return d->sticky;
}

sim_error sim_wait_stream(sim_stream *s) {
  sim_device *d = s->object.device;
  while (s->first) {
    if (!sim_step(d)) return stuck(d);
  }
  if (s->clock_ms > d->host_ms) d->host_ms = s->clock_ms;
  return d->sticky;
}

static sim_error wait_mark(sim_device *d, const sim_mark *m) {
  while (!m->done) {
    if (!sim_step(d)) return stuck(d);
  }
  if (m->ms > d->host_ms) d->host_ms = m->ms;
  return d->sticky;
}

sim_error sim_wait_recorded(const sim_event *e) {
  sim_mark *m = e->mark;
  if (!m) return SIM_OK;
  m->refs++;  // the event may be recorded anew while the lock is given up
  sim_error error = wait_mark(e->object.device, m);
  sim_mark_drop(m);
  return error;
}

sim_error sim_wait_device(sim_device *d) {
  for (sim_stream *s = d->streams; s; s = s->sibling) {
    while (s->first) {
      if (!sim_step(d)) return stuck(d);
    }
  }
  return d->sticky;
}
