// Chooses and compiles the kernels of a program's steps. See steps.h.
#include "lowering/program/steps.h"
#include "lowering/program/program.h"

#include <string.h>

#include "lowering/autotune/tune_gemm.h"
#include "lowering/program/control.h"
#include "lowering/program/gpu/launches.h"
#include "runtime/hash.h"
#include "runtime/options.h"
#include "runtime/watch.h"

// Units of a matmul in a program for many sizes; of few columns they are narrower, for two threads.
// Measured: Zen 5, 2 threads, 256 columns -> these: 53x256x64 11.8 -> 8.4 us, 53x128x256 17.1 ->
// 10.4, 53x768x768 185 -> 140.
#define ANY_SIZE_ROWS 64
#define ANY_SIZE_COLUMNS 128
#define ANY_SIZE_FEW_COLUMNS 256  // a matmul of that many has units of half of ANY_SIZE_COLUMNS

// Gives a matmul the tiling that autotuning found. Without memory it keeps the model's tiling.
static void tune_step(tc_builder *b, tc_program *p, tc_step *s) {
  tc_gemm_tiling tiling;
  tc_emit_result e;
  tc_arena_reset(&b->expansion);
  if (!tc_tune(&s->pending->matmul, &b->gr, s->pending->fusion, &b->expansion, &tiling)) return;
  tc_error_mark before = tc_error_now();
  tc_status st = tc_emit_fusion(&e, &b->gr, s->pending->fusion, &tiling, &b->expansion);
  if (st == TC_OK && e.n_buf == s->n_binding && e.n_num == s->n_num)
    (void)tc_steps_fill(b, p, s, &e);  // its bindings exist already
  else if (st == TC_OK)
    tc_kir_destroy(&e.kir);
  (void)tc_error_tell(before);
}

// Whether the step's bindings and scalars are those of the emit result.
static bool has_operands(const tc_builder *b, const tc_program *p, const tc_step *s, const tc_emit_result *e) {
  bool same = e->n_buf == s->n_binding && e->n_num == s->n_num;
  for (uint32_t i = 0; i < e->n_buf && same; i++)
    same = p->binding[s->first_binding + i] == b->storage[tc_fusion_root(&b->gr, e->buf[i])];
  for (uint32_t i = 0; i < e->n_num && same; i++) {
    const tc_num_source *x = &p->num[s->first_num + i];
    same = x->is_arg == e->num[i].is_arg && x->value == e->num[i].value;
  }
  return same;
}

// Hash of what matmuls must share for one kernel to serve any number of their rows.
static uint64_t site_of_rows(uint64_t storage, const tc_matmul_facts *f) {
  const uint64_t of[] = {storage, (uint64_t)f->of.n, (uint64_t)f->of.k, f->acc, f->left.type, f->right.type};
  return tc_hash_bytes(of, sizeof of).lo;
}

// Adds a kernel that takes the number of rows as an argument, if that number was seen to vary.
// Without memory there is none.
static void widen_step(tc_builder *b, tc_program *p, tc_step *s, uint64_t storage) {
  tc_emit_result e;
  tc_pending_kernel *d = s->pending;
  int64_t generic = tc_options_get()->generic_kernels;
  if (!generic || tc_target_is_gpu(&b->p->graph.target)) return;
  if (!tc_shape_generic_varies(site_of_rows(storage, &d->matmul), d->matmul.of.m) && generic < 2) return;
  tc_arena_reset(&b->expansion);
  if (tc_emit_any_rows(&e, &b->gr, d->fusion, d->units, &b->expansion) != TC_OK) return;
  d->generic = (tc_generic_kernel){
      .kir = e.kir, .value = tc_malloc(TC_MAX_EXTRA_ARGS * sizeof *d->generic.value), .n_value = e.n_extra_args};
  if (d->generic.value) memcpy(d->generic.value, e.extra, sizeof e.extra);
  if (!d->generic.value || e.extent != s->extent || !has_operands(b, p, s, &e)) tc_shape_generic_drop(&d->generic);
}

// Units of a matmul that follow from its extents alone: 64 rows by `width` columns.
static tc_units units_of_extents(const tc_extent3 *of, int64_t width, bool any_columns) {
  return (tc_units){.any_columns = any_columns,
                    .whole_tiles = true,
                    .columns = tc_ceil_div(of->n, width),
                    .blocks = tc_ceil_div(of->m, ANY_SIZE_ROWS),
                    .width = width,
                    .unit_tiles = ANY_SIZE_ROWS,
                    .tiles = of->m,
                    .rows = 1,
                    .tall = of->m};
}

// Whether the matmul's number of columns is another at other sizes.
static bool varies_in_columns(const tc_builder *b, const tc_pending_kernel *d) {
  for (uint32_t i = 0; b->like && i < b->like->n_step; i++) {
    const tc_pending_kernel *x = b->like->step[i].pending;
    if (x && x->is_matmul && x->matmul_node == d->matmul_node) return x->matmul.of.n != d->matmul.of.n;
  }
  return false;
}

// Adds a kernel for any number of rows, whose numbers are simple functions of the matmul's extents.
static void add_any_size(tc_builder *b, tc_program *p, tc_step *s) {
  tc_emit_result e;
  tc_pending_kernel *d = s->pending;
  const tc_extent3 *of = &d->matmul.of;
  bool any_columns = varies_in_columns(b, d);
  int64_t width = any_columns || of->n > ANY_SIZE_FEW_COLUMNS ? ANY_SIZE_COLUMNS : ANY_SIZE_COLUMNS / 2;
  bool wide = of->n > width || any_columns;
  if (of->m < 1) return;
  tc_arena_reset(&b->expansion);
  tc_status st = !wide
                     ? TC_ERR_STATE
                     : tc_emit_any_rows(&e, &b->gr, d->fusion, units_of_extents(of, width, any_columns), &b->expansion);
  if (st != TC_OK)
    st = tc_emit_any_rows(&e, &b->gr, d->fusion, units_of_extents(of, of->n, any_columns), &b->expansion);
  if (st != TC_OK) return;
  d->generic = (tc_generic_kernel){
      .kir = e.kir, .value = tc_malloc(TC_MAX_EXTRA_ARGS * sizeof *d->generic.value), .n_value = e.n_extra_args};
  d->generic_extent = e.extent;
  if (d->generic.value) memcpy(d->generic.value, e.extra, sizeof e.extra);
  if (!d->generic.value || !has_operands(b, p, s, &e)) tc_shape_generic_drop(&d->generic);
}

uint64_t tc_graph_hash(const tc_graph *g, tc_arena *arena) {
  size_t n = 0;
  for (uint32_t i = 0; i < g->n; i++) n += 1 + (size_t)g->node[i].n_in;
  uint64_t *word = tc_arena_alloc(arena, n * sizeof *word), *w = word;
  if (!word) return 0;
  for (uint32_t i = 0; i < g->n; i++) {
    const tc_gnode *x = &g->node[i];
    *w++ = (uint64_t)x->op << 32 | (uint64_t)x->type << 24 | (uint64_t)x->shape->d.rank << 16 | (uint64_t)x->n_in;
    for (int k = 0; k < x->n_in; k++) *w++ = x->in[k];
  }
  return tc_hash_bytes(word, n * sizeof *word).lo;
}

void tc_program_choose_kernels(tc_builder *b, tc_program *p, uint64_t graph) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (!s->pending || !s->pending->is_matmul) continue;
    if (b->any_size) {
      add_any_size(b, p, s);
      continue;
    }
    if (tc_options_get()->autotune) tune_step(b, p, s);
    if (graph) widen_step(b, p, s, graph + s->pending->matmul_node);
  }
}

// Kernels that first store the same node of graphs that differ only in sizes share a shape-generic
// kernel. The graph's hash and that node are the `site`.
static tc_kernel_request *request_step_kernels(const tc_program *p, uint64_t graph, tc_kernel_request *next) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    if (!s->pending) continue;
    uint64_t storage = graph ? graph + s->node : 0;
    *next++ = (tc_kernel_request){.kir = &s->pending->kir,
                                  .stem = s->pending->stem,
                                  .site = storage,
                                  .work = s->work,
                                  .generic = &s->pending->generic};
  }
  return next;
}

static const tc_kernel_request *take_kernels(tc_program *p, const tc_kernel_request *made) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (!s->pending) continue;
    s->kernel = made++->kernel;
    tc_steps_drop_pending(s);
    p->scratch_bytes = TC_MAX_OF(p->scratch_bytes, s->kernel->scratch_bytes);
  }
  return made;
}

// Lowers the bodies of control flow.
static tc_status create_controls(tc_program *p) {
  for (uint32_t i = 0; i < p->n_step && p->n_control; i++)
    if (p->step[i].kind == TC_STEP_CONTROL) TC_TRY(tc_control_create(&p->graph, p->step[i].node, &p->step[i].control));
  return TC_OK;
}

tc_status tc_program_compile(tc_builder *b, uint64_t graph) {
  tc_program *p = b->p, *q = p->prepare;
  TC_TRY(create_controls(p));
  uint32_t own = p->gpu ? tc_gpu_launches_own(p->gpu) | tc_gpu_launches_own(q->gpu) : 0,
           n_rows = p->gpu ? tc_gpu_launches_requests(p->gpu, NULL) : 0;
  uint32_t most = p->n_step + q->n_step + n_rows + 32, compiled = 0;
  tc_arena_reset(&b->expansion);
  tc_kernel_request *request = tc_arena_alloc(&b->expansion, most * sizeof *request);
  if (!request) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  tc_kernel_request *next = request_step_kernels(q, graph, request_step_kernels(p, graph, request));
  if (n_rows) (void)tc_gpu_launches_requests(p->gpu, next);
  uint32_t n = (uint32_t)(next - request) + n_rows;
  for (uint32_t i = 0; i < 32; i++)
    if (own >> i & 1) request[n++] = (tc_kernel_request){.own = i};
  tc_watch_doing("compiling", n, "kernels");
  if (n > 0) TC_TRY(tc_kernel_get_all(request, n, p->graph.target.gpu, &compiled));
  b->plan->n_compiled += compiled;
  const tc_kernel_request *made = take_kernels(q, take_kernels(p, request));
  if (!p->gpu) return TC_OK;
  TC_TRY(tc_gpu_launches_finish(p->gpu, made));
  return tc_gpu_launches_finish(q->gpu, NULL);  // cached constants have no row kernels
}
