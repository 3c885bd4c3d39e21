// Builds steps from fusions: a pending kernel, a library call or a reference kernel for each, in
// dependence order. See steps.h.
#include "lowering/program/steps.h"

#include <string.h>

#include "lowering/autotune/library_gemm.h"
#include "runtime/arena.h"
#include "runtime/passes.h"
#include "runtime/team.h"

// The storage of a stored node. A node that is neither leaf, output nor constant gets a new
// allocation.
static uint32_t storage_of(tc_builder *b, uint32_t n) {
  n = tc_fusion_root(&b->gr, n);
  if (b->storage[n] != TC_STORAGE_NONE) return b->storage[n];
  const tc_gnode *x = &b->p->graph.node[n];
  if (x->leaf != TC_LEAF_NONE) return b->storage[n] = x->leaf;
  if (x->out != TC_LEAF_NONE) return b->storage[n] = b->plan->n_leaf + x->out;
  tc_program *p = b->p;
  size_t bytes = ((size_t)x->shape->count * tc_type_bytes(x->type) + 63) & ~(size_t)63;
  if (b->is_constant[n] == TC_CONST_DERIVED) {
    if (!TC_GROW(p->cached_bytes, p->cap_cached, p->n_cached + 1)) return TC_STORAGE_NONE;
    p->cached_bytes[p->n_cached] = bytes;
    return b->storage[n] = b->plan->n_leaf + b->plan->n_out + p->n_cached++;
  }
  if (!TC_GROW(p->allocation, p->cap_allocation, p->n_allocation + 1)) return TC_STORAGE_NONE;
  p->allocation[p->n_allocation] = (tc_allocation){TC_MAX_OF(bytes, (size_t)64), 0, IN_ARENA, UINT32_MAX, 0, false};
  return b->storage[n] = ARENA_BIT | p->n_allocation++;
}

static tc_step *add_step(tc_builder *b, tc_program *p, tc_step_kind kind) {
  if (!TC_GROW(p->step, p->cap_step, p->n_step + 1)) return NULL;
  tc_step *s = &p->step[p->n_step++];
  *s = (tc_step){.kind = (uint8_t)kind,
                 .first_binding = p->n_binding,
                 .first_num = p->n_num,
                 .extent = 1,
                 .grain = 1,
                 .stage = b->stage};
  return s;
}

static bool bind_storage(tc_program *p, tc_step *s, uint32_t storage) {
  if (storage == TC_STORAGE_NONE || !TC_GROW(p->binding, p->cap_binding, p->n_binding + 1)) return false;
  p->binding[p->n_binding++] = storage;
  s->n_binding++;
  return true;
}

// The first stage that may read n. Cached constants exist before stage 0; among themselves they
// have stages of their own.
static uint32_t stage_after(const tc_builder *b, uint32_t n) {
  n = tc_fusion_root(&b->gr, n);
  return b->is_constant[n] == TC_CONST_DERIVED && !b->preparing ? 0 : b->made_in[n];
}

// Adds a check of n's indices, once per extent, as early as the indices are known. So a bad one
// stops the run before parameters change. Readers of the indices come in a later stage.
static bool add_check(tc_builder *b, uint32_t n) {
  tc_program *p = b->p;
  const tc_gnode *x = &p->graph.node[n];
  if (tc_op_kind_of(x->op) != TC_KIND_INDEX) return true;
  uint32_t index = x->in[1], root = tc_fusion_root(&b->gr, index);
  uint64_t extent = (uint64_t)p->graph.node[x->in[0]].shape->d.dim[x->attr[0]];
  for (uint32_t m = b->checks[root]; m; m = b->next_check[m - 1]) {
    const tc_gnode *y = &p->graph.node[m - 1];
    tc_count(TC_PASS_STEPS, 1);
    if ((uint64_t)p->graph.node[y->in[0]].shape->d.dim[y->attr[0]] == extent) return true;
  }
  b->next_check[n] = b->checks[root], b->checks[root] = n + 1;
  b->stage = stage_after(b, index);
  b->made_in[root] = b->stage + 1;
  tc_step *s = add_step(b, p, TC_STEP_CHECK);
  if (!s || !bind_storage(p, s, storage_of(b, index))) return false;
  s->node = n, s->op = x->op;
  s->extent = p->graph.node[index].shape->count;
  s->work = (double)s->extent;
  if (!TC_GROW(p->num, p->cap_num, p->n_num + 1)) return false;
  s->n_num = 1;
  p->num[p->n_num++] = (tc_num_source){false, extent};
  return true;
}

bool tc_step_splits(tc_op op, int64_t count) {
  return count > 0 && (tc_op_kind_of(op) == TC_KIND_SCAN || tc_op_kind_of(op) == TC_KIND_INDEX || op == TC_OP_CAT ||
                       op == TC_OP_WRITE_SLICE);
}

// On tc:ref rows run whole: others are compared with it.
static bool is_shared(const tc_gnode *x) {
  return tc_device_generates(x->dev) && tc_step_splits(x->op, x->shape->count);
}

// A device without generated code runs control flow, too. Results are copied by rows, but on a
// device with memory of its own. A node that a pass added to those of a loaded back end may be one
// that it does not take.
static tc_step_kind kind_of_row(const tc_builder *b, uint32_t n) {
  const tc_graph *g = &b->p->graph;
  const tc_gnode *x = &g->node[n];
  bool loaded = tc_device_kind_of(x->dev) == TC_DEVICE_LOADED;
  tc_loaded *device;
  if (tc_graph_is_zeros(x)) return TC_STEP_ZERO;
  if (x->op == TC_OP_CONTROL) return TC_STEP_CONTROL;
  if (x->op == TC_OP_TUPLE_ELEMENT) return loaded || tc_target_is_gpu(&g->target) ? TC_STEP_CONTROL : TC_STEP_ROW;
  bool taken = loaded && tc_loaded_get(x->dev, &device) == TC_OK && tc_graph_takes(g, device, n);
  return taken ? TC_STEP_LOADED : TC_STEP_ROW;
}

static bool add_row(tc_builder *b, uint32_t n) {
  tc_program *p = b->p;
  const tc_gnode *x = &p->graph.node[n];
  b->stage = 0;
  for (int i = 0; i < x->n_in; i++) b->stage = TC_MAX_OF(b->stage, stage_after(b, x->in[i]));
  tc_step *s = add_step(b, p, kind_of_row(b, n));
  if (!s) return false;
  s->op = x->op, s->node = n;
  s->same = tc_graph_slice_update_of(x->op) >= 0;  // the old value may be in place already
  // one share a thread, since a kernel may read all of its operands for every share
  if (is_shared(x)) s->extent = tc_team_threads();
  s->work = 4.0 * (double)x->shape->count + 100;
  bool filled = x->n_in > 0 && tc_fusion_is_filled(&p->graph, n, 0) && !b->gr.stored[x->in[0]];
  for (int i = 0; i < x->n_in; i++) {
    // a filled operand is named by the result's own storage
    if (!bind_storage(p, s, storage_of(b, filled && i == 0 ? n : x->in[i]))) return false;
    s = &p->step[p->n_step - 1];
    s->work += 2.0 * (double)p->graph.node[x->in[i]].shape->count;
  }
  if (s->kind == TC_STEP_CONTROL) s->work = 1, p->n_control++;  // the team does not run it
  if (s->kind == TC_STEP_ZERO) s->work = 0.2 * (double)x->shape->count;  // reads nothing
  s->n_num = (uint32_t)x->n_arg + filled;
  if (!TC_GROW(p->num, p->cap_num, p->n_num + s->n_num)) return false;
  for (int i = 0; i < x->n_arg; i++) p->num[p->n_num++] = (tc_num_source){true, x->arg + (uint32_t)i};
  if (filled) p->num[p->n_num++] = (tc_num_source){true, p->graph.node[x->in[0]].arg};
  if (!bind_storage(p, s, storage_of(b, n))) return false;
  b->made_in[n] = b->stage + 1;
  return true;
}

// Whether the kernel's results can be cached: it reads constants alone, and writes only temporaries
// of the plan. Indexing is excluded, since its checks are steps of every run. Matmuls are excluded:
// where data is a parameter too, whole layers would be cached.
static bool is_cached(const tc_builder *b, const tc_fusion *fusion, const tc_emit_result *e) {
  bool all = b->prepare && e->n_read > 0;
  for (uint32_t i = 0; i < e->n_read && all; i++)
    all = b->is_constant[tc_fusion_root(&b->gr, e->read[i])] != TC_CONST_NO;
  for (uint32_t i = 0; i < e->n_written && all; i++) {
    const tc_gnode *x = &b->p->graph.node[tc_fusion_root(&b->gr, e->written[i])];
    all = x->leaf == TC_LEAF_NONE && x->out == TC_LEAF_NONE;
  }
  for (uint32_t i = 0; i < fusion->n_member && all; i++) {
    tc_op op = b->p->graph.node[fusion->member[i]].op;
    tc_op_kind kind = tc_op_kind_of(op);
    all = kind != TC_KIND_RNG && kind != TC_KIND_INDEX && kind != TC_KIND_ATTENTION &&
          (kind != TC_KIND_CONTRACT || op == TC_OP_WINOGRAD_WEIGHT);
  }
  return all;
}

bool tc_steps_fill(tc_builder *b, tc_program *p, tc_step *s, const tc_emit_result *e) {
  tc_kir_destroy(&s->pending->kir);
  s->pending->kir = e->kir;
  memcpy(s->pending->stem, e->stem, sizeof s->pending->stem);
  s->extent = e->extent, s->work = e->work, s->writes = e->writes, s->same = e->same, s->bytes = e->bytes;
  s->pending->units = e->units;
  for (uint32_t i = 0; i < e->n_buf; i++)
    if ((p->binding[s->first_binding + i] = storage_of(b, e->buf[i])) == TC_STORAGE_NONE) return false;
  for (uint32_t i = 0; i < e->n_num; i++) p->num[s->first_num + i] = (tc_num_source){e->num[i].is_arg, e->num[i].value};
  return true;
}

static bool add_kernel(tc_builder *b, const tc_fusion *fusion, tc_status *st) {
  tc_emit_result e;
  tc_arena_reset(&b->expansion);
  *st = tc_emit_fusion(&e, &b->gr, fusion, NULL, &b->expansion);
  b->not_affine = *st == TC_OK ? TC_NONE : e.not_affine, b->full = *st != TC_OK && e.full;
  if (*st != TC_OK) return false;
  b->preparing = is_cached(b, fusion, &e);
  tc_program *p = b->preparing ? b->p->prepare : b->p;
  b->stage = 0;
  for (uint32_t i = 0; i < e.n_read; i++) b->stage = TC_MAX_OF(b->stage, stage_after(b, e.read[i]));
  for (uint32_t i = 0; i < e.n_written && b->preparing; i++)
    b->is_constant[tc_fusion_root(&b->gr, e.written[i])] = TC_CONST_DERIVED;
  if (!b->preparing) b->plan->bytes_moved += e.bytes;
  b->preparing = false;
  tc_step *s = add_step(b, p, TC_STEP_KERNEL);
  tc_pending_kernel *pending = s ? tc_malloc(sizeof *pending) : NULL;
  if (!pending) return tc_kir_destroy(&e.kir), false;
  *pending = (tc_pending_kernel){
      .fusion = fusion, .is_matmul = e.is_matmul, .matmul = e.matmul, .matmul_node = e.matmul_node, .units = e.units};
  s->pending = pending, s->node = e.n_written ? e.written[0] : 0;
  s->is_matmul = e.is_matmul;
  if (!TC_GROW(p->binding, p->cap_binding, p->n_binding + e.n_buf) || !TC_GROW(p->num, p->cap_num, p->n_num + e.n_num))
    return tc_kir_destroy(&e.kir), false;
  s->n_binding = e.n_buf, p->n_binding += e.n_buf;
  s->n_num = e.n_num, p->n_num += e.n_num;
  if (!tc_steps_fill(b, p, s, &e)) return false;
  for (uint32_t i = 0; i < e.n_written; i++) b->made_in[tc_fusion_root(&b->gr, e.written[i])] = b->stage + 1;
  return true;
}

// Adds a library's call. Takes the reference to it. work: 0: as many nanoseconds as it moves bytes.
static bool add_call(tc_builder *b, tc_gpu_call *call, tc_op op, int n_in, const tc_library_gemm_operand *const *in,
                     uint32_t result, double work) {
  tc_program *p = b->p;
  b->stage = 0;
  for (int i = 0; i < n_in; i++) b->stage = TC_MAX_OF(b->stage, stage_after(b, in[i]->node));
  tc_step *s = add_step(b, p, TC_STEP_CALL);
  if (!s) return tc_gpu_call_release(call), false;
  s->call = call, s->op = op, s->node = result;
  for (int i = 0; i < n_in; i++) {
    const tc_gnode *x = &p->graph.node[in[i]->node];
    s->offset[i] = (uint64_t)in[i]->first * tc_type_bytes(x->type);
    s->bytes += (uint64_t)x->shape->count * tc_type_bytes(x->type);
    if (!bind_storage(p, s, storage_of(b, in[i]->node))) return false;
  }
  const tc_gnode *y = &p->graph.node[result];
  s->bytes += (uint64_t)y->shape->count * tc_type_bytes(y->type);
  s->work = work > 0 ? work : (double)s->bytes;
  b->plan->bytes_moved += s->bytes;
  b->made_in[tc_fusion_root(&b->gr, result)] = b->stage + 1;
  return bind_storage(p, s, storage_of(b, result));
}

// Adds a library's convolution, whose operands have memory.
static bool add_conv(tc_builder *b, uint32_t n) {
  const tc_gnode *x = &b->p->graph.node[n];
  const tc_library_gemm_operand in[] = {{x->in[0], 0}, {x->in[1], 0}}, *const both[] = {&in[0], &in[1]};
  tc_gpu_call *call = b->p->graph.call[x->attr[0]];
  tc_gpu_call_retain(call);
  return add_call(b, call, x->op, 2, both, n, 0);
}

// Adds a library's matmul for the fusion. Takes the reference to the call.
static bool add_matmul(tc_builder *b, const tc_library_gemm *v, tc_gpu_call *matmul) {
  const tc_library_gemm_operand *const in[] = {&v->left, &v->right, &v->bias};
  const tc_gpu_matmul_facts *f = &v->work.matmul;
  double work =
      2.0 * (double)(f->batch * f->m * f->n) * (double)f->k / 1e4 + 1000;  // as estimated for generated kernels
  return add_call(b, matmul, TC_OP_MATMUL, v->after == TC_AFTER_BIAS ? 3 : 2, in, v->result, work);
}

// Adds a library's matmul for the fusion if the library computes all of its epilogue. If the
// library is faster at the bare matmul, that is put in a kernel of its own, and fusion runs again.
// *taken: the fusion is done, or it failed; else a kernel is to be generated.
static bool try_library(tc_builder *b, const tc_fusion *gp, bool *taken) {
  tc_library_gemm v;
  tc_gpu_call *matmul;
  *taken = false;
  if (!tc_target_is_gpu(&b->p->graph.target) || gp->kind != TC_FUSION_MATMUL || !tc_library_gemm_find(&b->gr, gp, &v))
    return true;
  if (v.after == TC_AFTER_NOTHING && b->alone[v.node]) {
    tc_gpu_call_retain(b->alone[v.node]);
    return *taken = true, add_matmul(b, &v, b->alone[v.node]);
  }
  if (b->alone[v.node] || !tc_library_gemm_choose(&v, &b->gr, gp, &b->expansion, &matmul)) return true;
  if (v.after != TC_AFTER_MORE) return *taken = true, add_matmul(b, &v, matmul);
  b->alone[v.node] = matmul, b->must_materialize[v.node] = TC_NO_FUSION;
  *taken = b->apart = true;
  return false;
}

static bool emit_fusion(tc_builder *b, const tc_fusion *gp, tc_status *st) {
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (!add_check(b, gp->member[i])) return false;
  if (gp->kind == TC_FUSION_EXTERN && b->p->graph.node[gp->member[0]].op == TC_OP_CONV_CALL)
    return add_conv(b, gp->member[0]);
  if (gp->kind == TC_FUSION_EXTERN) return add_row(b, gp->member[0]);
  bool taken, done = try_library(b, gp, &taken);
  return taken ? done : add_kernel(b, gp, st);
}

enum { NOT_MET, ON_THE_WAY, EMITTED };

// Emits a fusion after those it depends on. The stack is explicit, since its depth is that of the
// graph.
static bool emit_with_needed(tc_builder *b, uint32_t fusion, uint32_t *stack, tc_status *st) {
  uint32_t depth = 0;
  stack[depth++] = fusion;
  while (depth) {
    uint32_t g = stack[depth - 1];
    const tc_fusion *gp = &b->gr.fusion[g];
    tc_count(TC_PASS_STEPS, 1);
    if (b->emitted[g] == NOT_MET) b->emitted[g] = ON_THE_WAY, b->way[g] = gp->before;
    while (b->way[g] && b->emitted[tc_fusion_alive(&b->gr, b->way[g]->fusion)] != NOT_MET)
      b->way[g] = b->way[g]->next, tc_count(TC_PASS_STEPS, 1);
    if (b->way[g]) {
      stack[depth++] = tc_fusion_alive(&b->gr, b->way[g]->fusion);
      continue;
    }
    depth--;
    b->emitted[g] = EMITTED;
    if (gp->n_member > 0 && !emit_fusion(b, gp, st)) return false;
  }
  return true;
}

bool tc_steps_build(tc_builder *b, tc_status *st) {
  uint32_t *stack = tc_arena_alloc(&b->fusion_plan, (b->gr.n_fusion + 1) * sizeof *stack);
  if (!stack) return false;
  for (uint32_t g = 0; g < b->gr.n_fusion; g++)
    if (b->gr.fusion[g].merged == TC_FUSION_NONE && b->emitted[g] == NOT_MET && !emit_with_needed(b, g, stack, st))
      return false;
  return true;
}
