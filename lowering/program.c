// Builds and runs programs. See program.h.
#include "lowering/program.h"

#include <string.h>

#include "kernels/ref/ref.h"
#include "lowering/choices.h"
#include "lowering/expand.h"
#include "lowering/gpu/launches.h"
#include "lowering/gpu/vendor.h"
#include "lowering/group.h"
#include "lowering/memory.h"
#include "lowering/nest_math.h"
#include "lowering/prepared.h"
#include "lowering/tune.h"
#include "lowering/verify.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile.h"
#include "runtime/team.h"
#include "runtime/topology.h"

// What a second thread must save in a wave. A wave of two empty tasks takes 0.4 to 0.9 us; the operands must come from the other core's cache besides:
// a step of an MLP, two waves that could save 1.7 and 2 us, takes 12.7 us on two threads and 8.6 on one.
#define SPLIT_NS 3000.0
// A task of a lone product, at least. Its operands are read many times, and by both threads of the step before too; a hot wave costs 0.3 us.
#define BRIEF_TASK_NS 1000.0
#define MOST_FORMS 5  // bytes prepared for a byte of parameters: tiles of Winograd's F(4, 3) are four times the weights

static tc_ref_fn *const rows[TC_N_OP_ROWS] = {
#define TC_OP(NAME, name, kind, arity, results, dtype, shape, vjp, saves, autocast, lower, reference, sample) [TC_OP_##NAME] = tc_ref_##reference,
#include <tc/ops.def>
#undef TC_OP
};

// ---- building ----

typedef struct builder {
  tc_program *p;
  tc_plan *plan;
  tc_grouping gr;
  tc_arena grouping, expansion;  // scratch of one grouping, of one kernel
  uint32_t *place;  // per node
  uint32_t *made_in;  // per node: the wave after which it is there
  uint32_t wave;  // of the step being added
  bool preparing;  // that step makes prepared values
  bool prepare;  // some may
  bool *emitted;  // per group
  uint8_t *lasts;  // per node with memory: LASTS_*
  uint8_t *forced;  // per node: stored, or alone too, because a view of it could not be said
  uint32_t unsaid;  // the node to force next, or TC_NONE
  bool full;  // a group was more than a kernel can name
  tc_gpu_call **alone;  // per node: a library's product, owned, for which it is kept apart from what follows; NULL: it is not
  bool apart;  // another one was found, so that groups are made again
} builder;

// Whether a value is the same from run to run until a parameter is written: a parameter's that the plan does not assign; made of such alone.
enum { LASTS_NOT, LASTS_LEAF, LASTS_MADE };

#define GROW(array, n, cap, need) ((n) + (need) <= (cap) ? true : grow((void **)&(array), &(cap), (n) + (need), sizeof *(array)))

static bool grow(void **array, uint32_t *cap, uint32_t need, size_t bytes) {
  uint32_t to = TC_MAX_OF(*cap * 2, need + 16);
  void *p = tc_realloc(*array, to * bytes);
  if (!p) return false;
  *array = p, *cap = to;
  return true;
}

// Where a stored node lives, giving it a block of the arena if it is neither leaf nor output.
static uint32_t place_of(builder *b, uint32_t n) {
  n = tc_group_root(&b->gr, n);
  if (b->place[n] != TC_PLACE_NONE) return b->place[n];
  const tc_gnode *x = &b->p->graph.node[n];
  if (x->leaf != TC_LEAF_NONE) return b->place[n] = x->leaf;
  if (x->out != TC_LEAF_NONE) return b->place[n] = b->plan->n_leaf + x->out;
  tc_program *p = b->p;
  size_t bytes = ((size_t)x->shape->count * tc_type_bytes(x->type) + 63) & ~(size_t)63;
  if (b->lasts[n] == LASTS_MADE) {
    if (!GROW(p->kept_bytes, p->n_kept, p->cap_kept, 1)) return TC_PLACE_NONE;
    p->kept_bytes[p->n_kept] = bytes;
    return b->place[n] = b->plan->n_leaf + b->plan->n_out + p->n_kept++;
  }
  if (!GROW(p->block, p->n_block, p->cap_block, 1)) return TC_PLACE_NONE;
  p->block[p->n_block] = (block){TC_MAX_OF(bytes, (size_t)64), 0, IN_ARENA, UINT32_MAX, 0};
  return b->place[n] = ARENA_BIT | p->n_block++;
}

static tc_step *add_step(builder *b, tc_program *p, tc_step_kind kind) {
  if (!GROW(p->step, p->n_step, p->cap_step, 1)) return NULL;
  tc_step *s = &p->step[p->n_step++];
  *s = (tc_step){.kind = (uint8_t)kind, .first_bind = p->n_bind, .first_num = p->n_num, .extent = 1, .grain = 1, .wave = b->wave};
  return s;
}

static bool bind(tc_program *p, tc_step *s, uint32_t place) {
  if (place == TC_PLACE_NONE || !GROW(p->bind, p->n_bind, p->cap_bind, 1)) return false;
  p->bind[p->n_bind++] = place;
  s->n_bind++;
  return true;
}

static void fill_view(tc_view *v, const tc_gnode *x) {
  *v = (tc_view){.type = x->type, .rank = x->shape->d.rank};
  int64_t stride = 1;
  for (int i = v->rank; i-- > 0;) {
    v->dim[i] = x->shape->d.dim[i], v->stride[i] = stride;
    stride *= v->dim[i];
  }
}

// A view of x repeated to d's shape.
static void fill_broadcast(tc_view *v, const tc_gnode *x, const tc_dims *d) {
  tc_view dense;
  fill_view(&dense, x);
  *v = (tc_view){.type = x->type, .rank = d->rank};
  for (int i = 0; i < d->rank; i++) {
    int k = i - (d->rank - dense.rank);
    v->dim[i] = d->dim[i];
    v->stride[i] = k < 0 || (dense.dim[k] == 1 && d->dim[i] != 1) ? 0 : dense.stride[k];
  }
}

// Prepared values are there before the first wave; among themselves they have waves of their own.
static uint32_t after(const builder *b, uint32_t n) {
  n = tc_group_root(&b->gr, n);
  return b->lasts[n] == LASTS_MADE && !b->preparing ? 0 : b->made_in[n];
}

// Indices are checked as early as they are known, so that a bad one stops the run before parameters change, and once for an extent. What reads them
// comes in a later wave.
static bool add_check(builder *b, uint32_t n, uint32_t index, int64_t extent) {
  tc_program *p = b->p;
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    if (s->kind != TC_STEP_CHECK || p->num[s->first_num].value != (uint64_t)extent) continue;
    if (tc_group_root(&b->gr, p->graph.node[s->node].in[1]) == tc_group_root(&b->gr, index)) return true;
  }
  b->wave = after(b, index);
  b->made_in[tc_group_root(&b->gr, index)] = b->wave + 1;
  tc_step *s = add_step(b, p, TC_STEP_CHECK);
  if (!s || !bind(p, s, place_of(b, index))) return false;
  s->node = n, s->op = p->graph.node[n].op;
  s->extent = p->graph.node[index].shape->count;
  s->work = (double)s->extent;
  if (!GROW(p->num, p->n_num, p->cap_num, 1)) return false;
  s->n_num = 1;
  p->num[p->n_num++] = (tc_num_source){false, (uint64_t)extent};
  return true;
}

// The axis's extent that a gather's or scatter's index must stay in; 0: the node reads no index.
static int64_t index_extent(const tc_graph *g, const tc_gnode *x) {
  return tc_op_kind_of(x->op) == TC_KIND_INDEX ? g->node[x->in[0]].shape->d.dim[x->attr[0]] : 0;
}

// Reference kernels that can make a result in shares (kernels/ref/share.h). On tc:ref rows run whole: it is what others are compared with.
static bool is_shared(const tc_gnode *x) {
  if (!tc_device_generates(x->dev) || x->shape->count == 0) return false;
  return tc_op_kind_of(x->op) == TC_KIND_SCAN || tc_op_kind_of(x->op) == TC_KIND_INDEX || x->op == TC_OP_CAT || x->op == TC_OP_WRITE_SLICE;
}

static bool add_row(builder *b, uint32_t n) {
  tc_program *p = b->p;
  const tc_gnode *x = &p->graph.node[n];
  b->wave = 0;
  for (int i = 0; i < x->n_in; i++) b->wave = TC_MAX_OF(b->wave, after(b, x->in[i]));
  tc_step *s = add_step(b, p, tc_graph_is_zeros(x) ? TC_STEP_ZERO : TC_STEP_ROW);
  if (!s) return false;
  s->op = x->op, s->node = n;
  s->same = x->op == TC_OP_WRITE_SLICE;  // what it keeps of the old value may be there already
  if (is_shared(x)) s->extent = tc_team_threads();  // a share each: a kernel may read all of its operands for every share
  s->work = 4.0 * (double)x->shape->count + 100;
  bool filled = x->n_in > 0 && tc_group_is_filled(&p->graph, n, 0) && !b->gr.stored[x->in[0]];
  for (int i = 0; i < x->n_in; i++) {
    if (!bind(p, s, place_of(b, filled && i == 0 ? n : x->in[i]))) return false;  // a filled operand is said by the result's own place
    s = &p->step[p->n_step - 1];
    s->work += 2.0 * (double)p->graph.node[x->in[i]].shape->count;
  }
  if (s->kind == TC_STEP_ZERO) s->work = 0.2 * (double)x->shape->count;  // reads nothing
  s->n_num = (uint32_t)x->n_arg + filled;
  if (!GROW(p->num, p->n_num, p->cap_num, s->n_num)) return false;
  for (int i = 0; i < x->n_arg; i++) p->num[p->n_num++] = (tc_num_source){true, x->arg + (uint32_t)i};
  if (filled) p->num[p->n_num++] = (tc_num_source){true, p->graph.node[x->in[0]].arg};
  if (!bind(p, s, place_of(b, n))) return false;
  b->made_in[n] = b->wave + 1;
  return true;
}

static bool add_checks(builder *b, uint32_t n) {
  const tc_gnode *x = &b->p->graph.node[n];
  int64_t extent = index_extent(&b->p->graph, x);
  return tc_op_kind_of(x->op) != TC_KIND_INDEX || add_check(b, n, x->in[1], extent);
}

static void drop_draft(tc_step *s) {
  if (s->draft) tc_nest_destroy(&s->draft->nest);
  tc_free(s->draft);
  s->draft = NULL;
}

// Whether the kernel makes, of what lasts alone, nothing but temporaries of the plan. Indexing is left out: its checks are steps of every run. So are
// products: where data is a parameter too, whole layers would be kept.
static bool prepares(const builder *b, const tc_group *group, const tc_expansion *e) {
  bool all = b->prepare && e->n_read > 0;
  for (uint32_t i = 0; i < e->n_read && all; i++) all = b->lasts[tc_group_root(&b->gr, e->read[i])] != LASTS_NOT;
  for (uint32_t i = 0; i < e->n_written && all; i++) {
    const tc_gnode *x = &b->p->graph.node[tc_group_root(&b->gr, e->written[i])];
    all = x->leaf == TC_LEAF_NONE && x->out == TC_LEAF_NONE;
  }
  for (uint32_t i = 0; i < group->n_member && all; i++) {
    tc_op op = b->p->graph.node[group->member[i]].op;
    tc_op_kind kind = tc_op_kind_of(op);
    all = kind != TC_KIND_RNG && kind != TC_KIND_INDEX && kind != TC_KIND_ATTENTION && (kind != TC_KIND_CONTRACT || op == TC_OP_WINOGRAD_WEIGHT);
  }
  return all;
}

// What the expansion says of a step that has room for it. Takes the nest.
static bool fill_step(builder *b, tc_program *p, tc_step *s, const tc_expansion *e) {
  tc_nest_destroy(&s->draft->nest);
  s->draft->nest = e->nest;
  memcpy(s->draft->stem, e->stem, sizeof s->draft->stem);
  s->extent = e->extent, s->work = e->work, s->writes = e->writes, s->same = e->same, s->bytes = e->bytes;
  s->asks_next = e->asks_next;
  for (uint32_t i = 0; i < e->n_buf; i++)
    if ((p->bind[s->first_bind + i] = place_of(b, e->buf[i])) == TC_PLACE_NONE) return false;
  for (uint32_t i = 0; i < e->n_num; i++) p->num[s->first_num + i] = (tc_num_source){e->num[i].is_arg, e->num[i].value};
  return true;
}

static bool add_kernel(builder *b, const tc_group *group, tc_status *st) {
  tc_expansion e;
  tc_arena_reset(&b->expansion);
  *st = tc_expand_group(&e, &b->gr, group, NULL, &b->expansion);
  b->unsaid = *st == TC_OK ? TC_NONE : e.unsaid, b->full = *st != TC_OK && e.full;
  if (*st != TC_OK) return false;
  b->preparing = prepares(b, group, &e);
  tc_program *p = b->preparing ? b->p->prepare : b->p;
  b->wave = 0;
  for (uint32_t i = 0; i < e.n_read; i++) b->wave = TC_MAX_OF(b->wave, after(b, e.read[i]));
  for (uint32_t i = 0; i < e.n_written && b->preparing; i++) b->lasts[tc_group_root(&b->gr, e.written[i])] = LASTS_MADE;
  if (!b->preparing) b->plan->bytes_moved += e.bytes;
  b->preparing = false;
  tc_step *s = add_step(b, p, TC_STEP_KERNEL);
  tc_draft *draft = s ? tc_malloc(sizeof *draft) : NULL;
  if (!draft) return tc_nest_destroy(&e.nest), false;
  *draft = (tc_draft){.group = group, .is_product = e.is_product, .product = e.product};
  s->draft = draft;
  s->is_product = e.is_product;
  if (!GROW(p->bind, p->n_bind, p->cap_bind, e.n_buf) || !GROW(p->num, p->n_num, p->cap_num, e.n_num)) return tc_nest_destroy(&e.nest), false;
  s->n_bind = e.n_buf, p->n_bind += e.n_buf;
  s->n_num = e.n_num, p->n_num += e.n_num;
  if (!fill_step(b, p, s, &e)) return false;
  for (uint32_t i = 0; i < e.n_written; i++) b->made_in[tc_group_root(&b->gr, e.written[i])] = b->wave + 1;
  return true;
}

// What a library makes of the node, whose operands have memory.
static bool add_conv(builder *b, uint32_t n) {
  tc_program *p = b->p;
  const tc_gnode *x = &p->graph.node[n];
  b->wave = TC_MAX_OF(after(b, x->in[0]), after(b, x->in[1]));
  tc_step *s = add_step(b, p, TC_STEP_CALL);
  if (!s) return false;
  s->call = p->graph.call[x->attr[0]], s->op = x->op, s->node = n;
  tc_gpu_call_retain(s->call);
  s->bytes = (uint64_t)x->shape->count * tc_type_bytes(x->type);
  for (int i = 0; i < 2; i++) {
    s->bytes += (uint64_t)p->graph.node[x->in[i]].shape->count * tc_type_bytes(x->type);
    if (!bind(p, s, place_of(b, x->in[i]))) return false;
  }
  s->work = (double)s->bytes;
  b->plan->bytes_moved += s->bytes;
  if (!bind(p, s, place_of(b, n))) return false;
  b->made_in[n] = b->wave + 1;
  return true;
}

// What a library makes of the group. Takes the product.
static bool add_product(builder *b, const tc_vendor_product *v, tc_gpu_call *product) {
  tc_program *p = b->p;
  const tc_vendor_operand *in[] = {&v->left, &v->right, &v->bias};
  int n_in = v->after == TC_AFTER_BIAS ? 3 : 2;
  const tc_gpu_product_facts *f = &v->facts;
  b->wave = 0;
  for (int i = 0; i < n_in; i++) b->wave = TC_MAX_OF(b->wave, after(b, in[i]->node));
  tc_step *s = add_step(b, p, TC_STEP_CALL);
  if (!s) return tc_gpu_call_release(product), false;
  s->call = product, s->op = TC_OP_MATMUL, s->node = v->result;
  s->work = 2.0 * (double)(f->batch * f->m * f->n) * (double)f->k / 1e4 + 1000;  // as of generated ones
  for (int i = 0; i < n_in; i++) {
    const tc_gnode *x = &p->graph.node[in[i]->node];
    s->offset[i] = (uint64_t)in[i]->first * tc_type_bytes(x->type), s->bytes += (uint64_t)x->shape->count * tc_type_bytes(x->type);
    if (!bind(p, s, place_of(b, in[i]->node))) return false;
  }
  const tc_gnode *y = &p->graph.node[v->result];
  s->bytes += (uint64_t)y->shape->count * tc_type_bytes(y->type);
  b->plan->bytes_moved += s->bytes;
  if (!bind(p, s, place_of(b, v->result))) return false;
  b->made_in[tc_group_root(&b->gr, v->result)] = b->wave + 1;
  return true;
}

// A product that a library makes with what follows it, if that is nothing or its own; one that it makes better alone is told apart, so that groups are made again.
// *taken: there is nothing left to do, or there was a failure.
static bool try_library(builder *b, const tc_group *gp, bool *taken) {
  tc_vendor_product v;
  tc_gpu_call *product;
  *taken = false;
  if (!tc_target_is_gpu(&b->p->graph.target) || gp->kind != TC_GROUP_GEMM || !tc_vendor_find(&b->gr, gp, &v)) return true;
  if (v.after == TC_AFTER_NOTHING && b->alone[v.node]) {
    tc_gpu_call_retain(b->alone[v.node]);
    return *taken = true, add_product(b, &v, b->alone[v.node]);
  }
  if (b->alone[v.node] || !tc_vendor_choose(&v, &b->gr, gp, &b->expansion, &product)) return true;
  if (v.after != TC_AFTER_MORE) return *taken = true, add_product(b, &v, product);
  b->alone[v.node] = product, b->forced[v.node] = TC_FORCE_ALONE;
  *taken = b->apart = true;
  return false;
}

// A product in the cut that tuning found. Without memory it stays as the model has it.
static void tune(builder *b, tc_program *p, tc_step *s) {
  tc_cut cut;
  tc_expansion e;
  tc_arena_reset(&b->expansion);
  if (!tc_tune(&s->draft->product, &b->gr, s->draft->group, &b->expansion, &cut)) return;
  bool clean = tc_last_error()->status == TC_OK;
  tc_status st = tc_expand_group(&e, &b->gr, s->draft->group, &cut, &b->expansion);
  if (st == TC_OK && e.n_buf == s->n_bind && e.n_num == s->n_num)
    (void)fill_step(b, p, s, &e);  // its places are there already
  else if (st == TC_OK)
    tc_nest_destroy(&e.nest);
  if (clean) tc_clear_error();
}

// Kernels are compiled once the steps are settled, those of a program beside each other.
static tc_status compile(builder *b, tc_program *p) {
  uint32_t n = 0, compiled = 0;
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_step *s = &p->step[i];
    if (s->draft && s->draft->is_product && tc_options_get()->autotune) tune(b, p, s);
    n += s->draft != NULL;
  }
  if (n == 0) return TC_OK;
  tc_arena_reset(&b->expansion);
  tc_kernel_wish *wish = tc_arena_alloc(&b->expansion, n * sizeof *wish), *next = wish;
  if (!wish) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].draft) *next++ = (tc_kernel_wish){.nest = &p->step[i].draft->nest, .stem = p->step[i].draft->stem};
  TC_TRY(tc_kernel_get_all(wish, n, b->p->graph.target.gpu, &compiled));
  b->plan->n_compiled += compiled;
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (!p->step[i].draft) continue;
    p->step[i].kernel = wish++->kernel;
    drop_draft(&p->step[i]);
  }
  return TC_OK;
}

static int64_t tasks_of(const tc_step *s) {
  return TC_MAX_OF(s->n_lead + tc_ceil_div(s->extent - s->n_lead * s->lead, s->grain), 1);
}

// The unit at which a task of the step begins, and that before it ends.
static int64_t task_begin(const tc_step *s, int64_t index) {
  return TC_MIN(TC_MIN(index, s->n_lead) * s->lead + TC_MAX_OF(index - s->n_lead, 0) * s->grain, s->extent);
}

// Where a unit asks for what the next one reads, a thread should do that one too: each begins with three quarters of its share in one piece, and what is
// left is divided for whoever is done first. On two cores of Sapphire Rapids softmax of 64x32000, whose tasks were single rows, takes 0.90 times as long,
// of 4096x1024 0.94 times.
static void lead_on(tc_step *s) {
  int64_t threads = tc_team_threads(), lead = s->extent * 3 / 4 / threads;
  if (!s->asks_next || threads < 2 || lead <= s->grain) return;
  s->lead = lead, s->n_lead = threads;
  s->grain = TC_MAX_OF(s->grain, tc_ceil_div(s->extent - threads * lead, 4 * threads));
}

// Divides the wave's steps into tasks; returns how many. One: the whole wave, on the thread that launched.
static int64_t divide_wave(tc_program *p, uint32_t wave) {
  double work = 0, longest = 0;
  int64_t n = 0;
  for (uint32_t i = p->wave_first[wave]; i < p->wave_first[wave + 1]; i++) {
    tc_step *s = &p->step[i];
    s->grain = tc_step_grain(s->work, s->extent);
    lead_on(s);
    n += tasks_of(s);
    work += s->work, longest = TC_MAX_OF(longest, s->n_lead ? s->work * (double)s->lead / (double)s->extent : s->work / (double)tasks_of(s));
  }
  double together = TC_MAX_OF(longest, work / TC_MAX_OF(tc_team_threads(), 2));
  return work - together < SPLIT_NS ? 1 : n;
}

// A lone product that is too short to wake a worker for is divided for those that are awake.
static void divide_brief(tc_program *p) {
  tc_step *s = p->step;
  if (p->n_step != 1 || !s->is_product || p->wave_tasks[0] > 1) return;
  int64_t tasks = TC_MIN(TC_MIN((int64_t)(s->work / BRIEF_TASK_NS), s->extent), tc_team_threads());
  if (tasks < 2) return;
  s->grain = tc_ceil_div(s->extent, tasks);
  p->wave_tasks[0] = tasks_of(s);
  p->brief = true;
}

// Steps in an order that respects waves; tasks per wave.
static bool schedule(tc_program *p) {
  uint32_t n_wave = 0;
  for (uint32_t i = 0; i < p->n_step; i++) n_wave = TC_MAX_OF(n_wave, p->step[i].wave + 1);
  p->n_wave = n_wave;
  p->wave_first = tc_calloc(n_wave + 2, sizeof *p->wave_first);
  p->wave_tasks = tc_calloc(n_wave + 1, sizeof *p->wave_tasks);
  tc_step *sorted = tc_malloc((p->n_step + 1) * sizeof *sorted);
  if (!p->wave_first || !p->wave_tasks || !sorted) return tc_free(sorted), false;
  // A counting sort: wave_first[w + 1] is where wave w goes on, and in the end where it ends.
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].wave + 2 <= n_wave) p->wave_first[p->step[i].wave + 2]++;
  for (uint32_t w = 2; w <= n_wave; w++) p->wave_first[w] += p->wave_first[w - 1];
  for (int checks = 1; checks >= 0; checks--)
    for (uint32_t i = 0; i < p->n_step; i++)
      if ((p->step[i].kind == TC_STEP_CHECK) == checks) sorted[p->wave_first[p->step[i].wave + 1]++] = p->step[i];
  tc_free(p->step);
  p->step = sorted;
  for (uint32_t w = 0; w < n_wave; w++) p->wave_tasks[w] = divide_wave(p, w);
  divide_brief(p);
  for (uint32_t i = 0; i < p->n_step; i++)
    if (p->step[i].kernel) p->scratch_bytes = TC_MAX_OF(p->scratch_bytes, p->step[i].kernel->scratch_bytes);
  return true;
}

// Steps of one wave with the same code are one kernel over several sets of tensors: the updates of a network's parameters.
static uint32_t count_kernels(const tc_program *p, const uint64_t *skip) {
  uint32_t n = 0;
  for (uint32_t w = 0; w < p->n_wave; w++)
    for (uint32_t i = p->wave_first[w]; i < p->wave_first[w + 1]; i++) {
      bool first = p->step[i].kernel && !(skip && skip[i]);
      n += p->step[i].call != NULL;
      for (uint32_t j = p->wave_first[w]; j < i && first; j++) first = p->step[j].kernel != p->step[i].kernel || (skip && skip[j]);
      n += first;
    }
  return n;
}

// Work of a row that writes a part of a tensor, if the rest is there already.
static double part_work(const tc_program *p, const tc_step *s) {
  return 6.0 * (double)p->graph.node[p->graph.node[s->node].in[1]].shape->count + 100;
}

// The leaf that output o is assigned to, if it dies here and nothing later needs it; else TC_LEAF_NONE.
static uint32_t assigned_leaf(const tc_plan *plan, uint32_t o, bool hazard) {
  const tc_rec *r = tc_plan_rec(plan, plan->out[o].node);
  if (tc_rec_op(r) != TC_OP_ASSIGN) return TC_LEAF_NONE;
  uint32_t leaf = plan->leaf_of[r->in[1]];
  bool dies = leaf != TC_LEAF_NONE && (plan->flag[r->in[1]] & TC_NODE_SOLE) && (!plan->hold_leaf[leaf] || hazard);
  return dies ? leaf : TC_LEAF_NONE;
}

static tc_step *writer_of(const tc_program *p, uint32_t place) {
  for (uint32_t i = 0; i < p->n_step; i++)
    for (uint32_t j = 0; j < p->step[i].n_bind; j++)
      if (p->bind[p->step[i].first_bind + j] == place && tc_step_writes(&p->step[i], j)) return &p->step[i];
  return NULL;
}

static bool reads(const tc_program *p, const tc_step *s, uint32_t place) {
  for (uint32_t j = 0; j < s->n_bind; j++)
    if (p->bind[s->first_bind + j] == place && !tc_step_writes(s, j)) return true;
  return false;
}

// Whether no step reads what this one writes.
static bool is_last(const tc_program *p, const tc_step *writer) {
  for (uint32_t j = 0; j < writer->n_bind; j++) {
    if (!tc_step_writes(writer, j)) continue;
    for (uint32_t i = 0; i < p->n_step; i++)
      if (&p->step[i] != writer && reads(p, &p->step[i], p->bind[writer->first_bind + j])) return false;
  }
  return true;
}

// Moves what assigns a large leaf behind its readers: a layer's weight is read, for the gradient of what the layer read, in the wave of its own gradient.
static void delay_writers(const tc_program *p, const tc_plan *plan) {
  for (uint32_t o = 0; o < plan->n_out; o++) {
    uint32_t leaf = plan->out[o].bytes >= TC_LARGE_BYTES ? assigned_leaf(plan, o, false) : TC_LEAF_NONE, wave = 0;
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(p, plan->n_leaf + o) : NULL;
    if (!writer || !is_last(p, writer)) continue;
    for (uint32_t i = 0; i < p->n_step; i++)
      if (&p->step[i] != writer && reads(p, &p->step[i], leaf)) wave = TC_MAX_OF(wave, p->step[i].wave + 1);
    writer->wave = TC_MAX_OF(writer->wave, wave);
  }
}

// An output may be written over a leaf that dies here: the leaf is the trace's alone, nothing later needs it, every reader runs before the writer, or is
// the writer itself reading the same element (which expand has marked).
static void choose_homes(builder *b) {
  tc_program *p = b->p;
  tc_plan *plan = b->plan;
  bool hazard = tc_planted("hazard");
  for (uint32_t o = 0; o < plan->n_out; o++) {
    uint32_t leaf = assigned_leaf(plan, o, hazard), wave = 0;
    tc_step *writer = leaf != TC_LEAF_NONE ? writer_of(p, plan->n_leaf + o) : NULL;
    // Other rows may fail half way; a library does not look whether a run has failed.
    if (!writer || writer->kind == TC_STEP_CALL || (writer->kind == TC_STEP_ROW && writer->op != TC_OP_WRITE_SLICE)) continue;
    wave = writer->wave;
    bool safe = true;
    for (uint32_t i = 0; i < p->n_step && safe; i++)
      for (uint32_t j = 0; j < p->step[i].n_bind && safe; j++) {
        const tc_step *s = &p->step[i];
        uint32_t at = p->bind[s->first_bind + j];
        // A run that fails leaves old values: nothing is written in place before the last check.
        if (s->kind == TC_STEP_CHECK && s->wave >= wave) safe = false;
        if (at == leaf && !hazard) safe = safe && (s == writer ? (s->same >> j & 1) != 0 : s->wave < wave);
      }
    for (uint32_t k = 0; k < o && safe; k++) safe = plan->out[k].home != leaf;
    if (!safe) continue;
    plan->out[o].home = leaf;
    if (writer->kind == TC_STEP_ROW) writer->extent = 1, writer->work = part_work(p, writer);
  }
}

// Emits a group after those it depends on.
static bool emit_group(builder *b, uint32_t group, tc_status *st) {
  const tc_group *gp = &b->gr.group[group];
  if (b->emitted[group] || gp->n_member == 0) return true;
  b->emitted[group] = true;
  for (uint32_t h = 0; h < b->gr.n_group; h++)
    if ((gp->before[h / 64] >> (h % 64) & 1) && b->gr.group[h].merged == TC_GROUP_NONE && !emit_group(b, h, st)) return false;
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (!add_checks(b, gp->member[i])) return false;
  if (gp->kind == TC_GROUP_EXTERN && b->p->graph.node[gp->member[0]].op == TC_OP_CONV_CALL) return add_conv(b, gp->member[0]);
  if (gp->kind == TC_GROUP_EXTERN) return add_row(b, gp->member[0]);
  bool taken, done = try_library(b, gp, &taken);
  return taken ? done : add_kernel(b, gp, st);
}

static bool build_steps(builder *b, tc_status *st) {
  for (uint32_t g = 0; g < b->gr.n_group; g++)
    if (b->gr.group[g].merged == TC_GROUP_NONE && !emit_group(b, g, st)) return false;
  return true;
}

// What steps own.
static void drop_made(tc_program *p) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    tc_kernel_release(p->step[i].kernel);
    tc_gpu_call_release(p->step[i].call);
    drop_draft(&p->step[i]);
  }
}

void tc_program_destroy(void *program) {
  tc_program *p = program;
  if (p->prepare) tc_program_destroy(p->prepare);
  tc_gpu_launches_destroy(p->gpu);
  drop_made(p);
  tc_graph_fini(&p->graph);
  void *const owned[] = {p->step, p->bind, p->num, p->block, p->wave_first, p->wave_tasks, p->kept_bytes};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_arena_fini(&p->arena);
  tc_free(p);
}

// Forgets the steps, to build them again.
static void clear_steps(tc_program *p) {
  drop_made(p);
  p->n_step = p->n_bind = p->n_num = p->n_block = p->n_kept = 0;
  if (p->prepare) clear_steps(p->prepare);
}

static size_t output_bytes(const tc_plan *plan) {
  size_t sum = 0;
  for (uint32_t o = 0; o < plan->n_out; o++) sum += plan->out[o].bytes;
  return sum;
}

static void find_lasting(builder *b) {
  for (uint32_t n = 0; n < b->p->graph.n; n++) b->lasts[n] = b->p->graph.node[n].parameter ? LASTS_LEAF : LASTS_NOT;
}

// Whether more would be kept than forms of parameters: then what the plan calls parameters is its data.
static bool prepares_much(const builder *b) {
  const tc_program *p = b->p, *q = p->prepare;
  size_t made = 0, of = 0;
  for (uint32_t i = 0; i < p->n_kept; i++) made += p->kept_bytes[i];
  for (uint32_t n = 0; n < b->plan->n_node; n++) {
    bool read = false;
    for (uint32_t i = 0; i < q->n_bind && b->lasts[n] == LASTS_LEAF && !read; i++) read = q->bind[i] == b->plan->leaf_of[n];
    if (read) of += (size_t)p->graph.node[n].shape->count * tc_type_bytes(p->graph.node[n].type);
  }
  return made > MOST_FORMS * of + MOST_FORMS * 64 * (size_t)p->n_kept;
}

// A view of node n could not be said: from now on it is stored, and alone if it was stored already.
static void force(builder *b, uint32_t n, bool *met) {
  if (!met[n] && b->forced[n] < TC_FORCE_ALONE) b->forced[n]++;
  met[n] = true;
}

// After a group that cannot be said: the same for those that were not looked at yet, so that groups are made again once for many of them. One by one they
// were made 41 times for a step of training ResNet18, which took 0.4 of a second.
static tc_status force_unsaid(builder *b) {
  bool *met = tc_calloc(b->p->graph.n + 1, sizeof *met), clean = tc_last_error()->status == TC_OK;
  if (!met) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  force(b, b->unsaid, met);
  tc_status st = TC_OK;
  for (uint32_t g = 0; g < b->gr.n_group && st != TC_ERR_MEMORY; g++) {
    const tc_group *gp = &b->gr.group[g];
    tc_expansion e;
    if (b->emitted[g] || gp->merged != TC_GROUP_NONE || gp->n_member == 0 || gp->kind == TC_GROUP_EXTERN) continue;
    if (gp->kind == TC_GROUP_GEMM && tc_target_is_gpu(&b->p->graph.target)) continue;  // it may be a library's
    tc_arena_reset(&b->expansion);
    st = tc_expand_group(&e, &b->gr, gp, NULL, &b->expansion);
    if (st == TC_OK)
      tc_nest_destroy(&e.nest);
    else if (!e.full && e.unsaid != TC_NONE)
      force(b, e.unsaid, met);
  }
  tc_free(met);
  if (st == TC_ERR_MEMORY) return st;
  if (clean) tc_clear_error();  // what else is wrong with a group shows when it is met
  return TC_OK;
}

// Groups and expands; where fusion would hold more memory than op by op, thriftily if that helps; where a view cannot be said, stores what it shows and starts again; where a group is too much for one kernel, with small groups.
static tc_status build(builder *b) {
  tc_program *p = b->p;
  uint32_t n = p->graph.n;
  b->forced = tc_arena_alloc(&p->arena, n + 1);
  b->emitted = tc_arena_alloc(&p->arena, n + 1);
  b->place = tc_arena_alloc(&p->arena, (n + 1) * sizeof *b->place);
  b->made_in = tc_arena_alloc(&p->arena, (n + 1) * sizeof *b->made_in);
  b->lasts = tc_arena_alloc(&p->arena, n + 1);
  p->prepare = tc_calloc(1, sizeof *p->prepare);
  b->alone = tc_arena_alloc(&p->arena, (n + 1) * sizeof *b->alone);
  if (!b->forced || !b->emitted || !b->place || !b->made_in || !b->lasts || !b->alone || !p->prepare)
    return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  size_t op_by_op, least = SIZE_MAX;
  if (!tc_memory_op_by_op(b->plan, &op_by_op)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  for (tc_group_mode mode = TC_GROUP_ANY;;) {
    tc_status st = TC_OK;
    memset(b->place, 0xFF, n * sizeof *b->place);
    memset(b->made_in, 0, n * sizeof *b->made_in);
    memset(b->emitted, 0, n);
    find_lasting(b);
    b->plan->bytes_moved = 0, b->unsaid = TC_NONE, b->full = b->apart = false;
    tc_arena_reset(&b->grouping);
    TC_TRY(tc_group_build(&b->gr, &p->graph, &b->grouping, b->forced, mode));
    if (build_steps(b, &st)) {
      if (b->prepare && prepares_much(b)) {
        b->prepare = false;
        clear_steps(p);
        continue;
      }
      if (!tc_memory_order(p, b->plan)) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
      size_t bytes = p->arena_bytes + output_bytes(b->plan);
      bool holds_more = p->arena_bytes >= LARGE_ARENA && bytes > op_by_op + op_by_op / 16;
      if (mode == TC_GROUP_TIGHT || (mode == TC_GROUP_ANY ? !holds_more || least != SIZE_MAX : bytes < least)) break;
      mode = mode == TC_GROUP_ANY ? TC_GROUP_THRIFTY : TC_GROUP_ANY;  // back if thrift gains nothing
      least = bytes;
      clear_steps(p);
      continue;
    }
    if (b->apart) {
      clear_steps(p);
      continue;
    }
    if (st == TC_OK) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
    if (b->full && mode == TC_GROUP_TIGHT) return TC_FAIL(st, "a kernel reads and writes too many tensors");
    if (b->unsaid == TC_NONE && !b->full) return st;
    if (!b->full && b->forced[b->unsaid] == TC_FORCE_ALONE) return TC_FAIL(st, "a view of node %u cannot be said though it is stored", b->unsaid);
    if (b->full)
      mode = TC_GROUP_TIGHT;
    else
      TC_TRY(force_unsaid(b));
    clear_steps(p);
  }
  TC_TRY(compile(b, p));
  TC_TRY(compile(b, p->prepare));
  delay_writers(p, b->plan);
  choose_homes(b);
  return schedule(p) && schedule(p->prepare) ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a program");
}

static void print_place(const tc_plan *plan, uint32_t at, FILE *out) {
  uint32_t n_leaf = plan->n_leaf, n_out = plan->n_out;
  if (at & ARENA_BIT)
    fprintf(out, "a%u", at & ~ARENA_BIT);
  else if (at < n_leaf)
    fprintf(out, "l%u", at);
  else
    fprintf(out, at < n_leaf + n_out ? "o%u" : "p%u", at < n_leaf + n_out ? at - n_leaf : at - n_leaf - n_out);
}

// One step a line: wave, what runs, and where it reads and writes (l leaf, o output, p prepared, a arena block).
static void print_steps(const tc_program *p, const tc_plan *plan, const char *what, FILE *out) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    fprintf(out, "  %s %u %s", what, s->wave,
            s->kind == TC_STEP_KERNEL  ? s->kernel->name
            : s->kind == TC_STEP_CHECK ? "check"
            : s->kind == TC_STEP_ZERO  ? "zero"
            : s->kind == TC_STEP_CALL  ? (s->op == TC_OP_MATMUL ? "library's matmul" : "library's convolution")
                                       : tc_op_names[s->op]);
    for (uint32_t j = 0; j < s->n_bind; j++) {
      uint32_t at = p->bind[s->first_bind + j];
      fprintf(out, tc_step_writes(s, j) ? " >" : " ");
      print_place(plan, at, out);
    }
    fprintf(out, "\n");
  }
}

static void print(const tc_program *p, const tc_plan *plan, FILE *out) {
  fprintf(out, "%016llx: %u nodes, %u steps, %u waves, arena %zu\n", (unsigned long long)plan->hash.lo, plan->n_node, p->n_step, p->n_wave,
          p->arena_bytes);
  print_steps(p->prepare, plan, "prepare", out);
  print_steps(p, plan, "wave", out);
  for (uint32_t o = 0; o < plan->n_out; o++)
    if (plan->out[o].home != TC_LEAF_NONE) fprintf(out, "  o%u is written over l%u\n", o, plan->out[o].home);
  for (uint32_t i = 0; i < p->n_block; i++) {
    const block *k = &p->block[i];
    fprintf(out, "  a%u is %zu bytes at %zu of ", i, k->bytes, k->offset);
    fprintf(out, k->in == IN_ARENA ? "the arena" : "o%u", k->in);
    fprintf(out, ", waves %u to %u\n", k->first, k->last);
  }
}

static void log_program(const tc_program *p, const tc_plan *plan) {
  tc_log_message m;
  if (tc_log_begin(&m)) print(p, plan, m.to);
  tc_log_end(&m, TC_LOG_PLAN);
}

static const char *tier_of(const tc_program *p) {
  const char *tier = "none";
  if (p->gpu) return "gpu";
  for (uint32_t i = 0; i < p->n_step; i++) {
    if (p->step[i].kind == TC_STEP_KERNEL) return p->step[i].kernel->interp ? "interp" : "llvm";
    if (p->step[i].kind == TC_STEP_ROW) tier = "ref";
  }
  return tier;
}

tc_status tc_program_create(tc_plan *plan, tc_program **out) {
  *out = NULL;
  tc_program *p = tc_calloc(1, sizeof *p);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  builder b = {.p = p, .plan = plan, .prepare = tc_options_get()->prepare != 0};
  tc_status st = tc_graph_build(&p->graph, plan, &p->arena);
  if (st == TC_OK) st = build(&b);
  for (uint32_t n = 0; b.alone && n < p->graph.n; n++) tc_gpu_call_release(b.alone[n]);
  tc_arena_fini(&b.grouping);
  tc_arena_fini(&b.expansion);
  if (st != TC_OK) return tc_program_destroy(p), st;
  if (!tc_memory_place(p, plan)) return tc_program_destroy(p), TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  if (tc_target_is_gpu(&p->graph.target)) {
    p->prepare->graph.target = p->graph.target;
    st = tc_gpu_launches_create(p, false, &p->gpu);
    if (st == TC_OK) st = tc_gpu_launches_create(p->prepare, true, &p->prepare->gpu);
    if (st != TC_OK) return tc_program_destroy(p), st;
    plan->n_compiled += tc_gpu_launches_compiled(p->gpu);
  }
  plan->n_kernels = count_kernels(p, NULL);
  plan->n_left = p->graph.n_order;
  plan->tier = tier_of(p);
  if (tc_log_on(TC_LOG_PLAN)) log_program(p, plan);
  *out = p;
  return TC_OK;
}

// ---- running ----

// What stopped a run: a step that failed. Told by the thread that launched, since a worker's errors are nobody's. No worker begins a task after it; a
// wave's barrier orders it before the next wave.
typedef struct fault {
  _Atomic bool taken;
  const tc_step *step;
  tc_status status;
  int64_t position;  // of a bad index that a GPU found, else -1
} fault;

typedef struct run {
  _Alignas(128) const tc_program *p;
  tc_places at;
  const uint64_t *num;  // all steps' scalars
  const uint64_t *skip;  // steps that need not run; NULL: none
  fault *fault;
  uint64_t *words;  // of a GPU's launches
  bool timed;  // TC_PROFILE=2
} run;

static void *pointer_of(const run *r, uint32_t place) {
  return tc_place_pointer(r->p, &r->at, place);
}

static tc_status stop(const run *r, const tc_step *s, tc_status st) {
  fault *f = r->fault;
  if (!atomic_exchange_explicit(&f->taken, true, memory_order_relaxed)) f->step = s, f->status = st;
  return st;
}

// The first bad index in the share, or -1.
static int64_t find_bad_index(const run *r, const tc_step *s, int64_t begin, int64_t end) {
  const int64_t *index = pointer_of(r, r->p->bind[s->first_bind]);
  int64_t extent = (int64_t)r->num[s->first_num];
  for (int64_t i = begin; i < end; i++)
    if (index[i] < -extent || index[i] >= extent) return i;
  return -1;
}

// Of several bad indices the first, whichever thread met it. Names the user's call where it is known, not the row.
static void report(const tc_plan *plan, const run *r, const tc_call *call) {
  const fault *f = r->fault;
  const tc_step *s = f->step;
  bool known = call && s->node < plan->n_node && call[s->node].op;
  tc_call by = known ? call[s->node] : (tc_call){tc_op_names[s->op], 0};
  if (s->kind == TC_STEP_CHECK) {
    const int64_t *index = pointer_of(r, r->p->bind[s->first_bind]);
    int64_t at = r->p->gpu ? f->position : find_bad_index(r, s, 0, s->extent), bad = 0;
    if (!r->p->gpu)
      bad = index[at];
    else if (tc_gpu_read(r->p->graph.target.gpu, &bad, index + at, sizeof bad) != TC_OK)
      return;  // the device is lost, and has said so
    tc_fail(f->status, by.op, by.site, "index %lld at position %lld is out of range for extent %lld", (long long)tc_index_said(bad), (long long)at,
            (long long)r->num[s->first_num]);
  } else {
    tc_fail(f->status, by.op, by.site, "%s while it ran", tc_status_text(f->status));
  }
}

static tc_status run_row(const run *r, const tc_step *s, int64_t begin, int64_t end) {
  const tc_gnode *x = &r->p->graph.node[s->node];
  tc_view in[TC_REF_MAX_IN];
  bool elementwise = tc_op_kind_of(x->op) == TC_KIND_ELEM;
  for (int i = 0; i < x->n_in; i++) {
    if (elementwise)
      fill_broadcast(&in[i], &r->p->graph.node[x->in[i]], &x->shape->d);
    else
      fill_view(&in[i], &r->p->graph.node[x->in[i]]);
    in[i].ptr = pointer_of(r, r->p->bind[s->first_bind + (uint32_t)i]);
  }
  tc_ref_call call = {.n_in = x->n_in, .in = in, .attr = x->attr, .arg = r->num + s->first_num, .begin = begin, .end = end, .extent = s->extent};
  fill_view(&call.out, x);
  call.out.ptr = pointer_of(r, r->p->bind[s->first_bind + (uint32_t)x->n_in]);
  uint64_t value = 0;
  if (x->n_in > 0 && r->p->bind[s->first_bind] == r->p->bind[s->first_bind + (uint32_t)x->n_in]) {  // filled: one element, repeated
    tc_ref_call one = {.out = {.ptr = &value, .type = in[0].type}, .arg = r->num + s->first_num + x->n_arg};
    TC_TRY(tc_ref_full(&one));
    in[0].ptr = &value;
    memset(in[0].stride, 0, sizeof in[0].stride);
  }
  return rows[x->op](&call);
}

static void run_quietly(const run *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (s->kind == TC_STEP_KERNEL) {
    void *buf[TC_MAX_BUFS];
    for (uint32_t i = 0; i < s->n_bind; i++) buf[i] = pointer_of(r, r->p->bind[s->first_bind + i]);
    tc_kernel_fn *fn = atomic_load_explicit(&s->kernel->fn, memory_order_acquire);
    fn(s->kernel->ctx, buf, r->num + s->first_num, begin, end, w);
    return;
  }
  if (s->kind == TC_STEP_ZERO) {
    const tc_gnode *x = &r->p->graph.node[s->node];
    memset(pointer_of(r, r->p->bind[s->first_bind]), 0, (size_t)x->shape->count * tc_type_bytes(x->type));
    return;
  }
  tc_status st = s->kind != TC_STEP_CHECK ? run_row(r, s, begin, end) : find_bad_index(r, s, begin, end) < 0 ? TC_OK : TC_ERR_INDEX;
  if (st != TC_OK && w->status == TC_OK) w->status = stop(r, s, st);
}

static void run_step(const run *r, const tc_step *s, int64_t begin, int64_t end, tc_worker *w) {
  if (r->skip && r->skip[s - r->p->step]) return;
  if (TC_LIKELY(!r->timed)) {
    run_quietly(r, s, begin, end, w);
    return;
  }
  uint64_t start = tc_now_ns();
  run_quietly(r, s, begin, end, w);
  tc_profile_kernel(s->kernel ? s->kernel->name : s->kind == TC_STEP_CHECK ? "check" : tc_op_names[s->op], tc_now_ns() - start);
}

static void task(void *arg, int wave, int64_t index, tc_worker *w) {
  const run *r = arg;
  const tc_program *p = r->p;
  const tc_step *s = p->step + p->wave_first[wave], *end = p->step + p->wave_first[wave + 1];
  w->math = tc_nest_math_table();
  if (p->wave_tasks[wave] == 1) {
    for (; s < end && !atomic_load_explicit(&r->fault->taken, memory_order_relaxed); s++) run_step(r, s, 0, s->extent, w);
    return;
  }
  if (atomic_load_explicit(&r->fault->taken, memory_order_relaxed)) return;
  while (index >= tasks_of(s)) index -= tasks_of(s++);
  run_step(r, s, task_begin(s, index), task_begin(s, index + 1), w);
}

static tc_status run_on_gpu(run *r) {
  const tc_program *p = r->p;
  uint64_t found, which;
  TC_TRY(tc_gpu_launches_run(p->gpu, p, &r->at, r->num, r->skip, r->words, &found));
  if (found == TC_GPU_NO_FAULT) return TC_OK;
  which = found >> TC_GPU_FAULT_SHIFT;
  r->fault->position = (int64_t)(found & ((UINT64_C(1) << TC_GPU_FAULT_SHIFT) - 1));
  const tc_step *s = p->step;
  while (s->kind != TC_STEP_CHECK || which-- > 0) s++;
  return stop(r, s, TC_ERR_INDEX);
}

static tc_status run_steps(run *r) {
  const tc_program *p = r->p;
  if (p->gpu) return run_on_gpu(r);
  tc_job job = {.task = task, .arg = r, .n_waves = (int)p->n_wave, .n_tasks = p->wave_tasks, .scratch_bytes = p->scratch_bytes, .brief = p->brief};
  return p->n_step ? (tc_status)tc_team_run(&job) : TC_OK;
}

static void fill_nums(const tc_program *p, const uint64_t *arg, uint64_t *num) {
  for (uint32_t i = 0; i < p->n_num; i++) num[i] = p->num[i].is_arg ? arg[p->num[i].value] : p->num[i].value;
}

// ---- prepared values ----

// What a step of preparing reads and gives.
typedef struct preparing {
  tc_prepared_key key;
  uint64_t stamp[TC_MAX_BUFS];
  tc_buffer *in[TC_MAX_BUFS], *out[TC_MAX_BUFS];
  uint32_t n_in, n_out, kept[TC_MAX_BUFS];  // kept: which prepared value a result is
  bool lasting;  // all it reads has a stamp
} preparing;

static void describe(const tc_program *q, const tc_plan *plan, const tc_step *s, const uint64_t *num, const tc_leaf *held, tc_buffer *const *kept,
                     preparing *x) {
  uint32_t first_kept = plan->n_leaf + plan->n_out;
  x->n_in = x->n_out = 0, x->lasting = held != NULL;
  for (uint32_t j = 0; j < s->n_bind; j++) {
    uint32_t place = q->bind[s->first_bind + j];
    if (s->writes >> j & 1) {
      x->kept[x->n_out++] = place - first_kept;
      continue;
    }
    tc_buffer *b = place >= first_kept ? kept[place - first_kept] : held ? held[place].buf : NULL;
    x->stamp[x->n_in] = b ? tc_buffer_stamp(b) : 0;
    x->lasting &= x->stamp[x->n_in] != 0;
    x->in[x->n_in++] = b;
  }
  x->key = (tc_prepared_key){s->kernel, s->extent, num + s->first_num, s->n_num, x->stamp, x->n_in};
}

// Memory for what a step makes in this run.
static tc_status take_results(const tc_program *p, const tc_plan *plan, preparing *x) {
  for (uint32_t i = 0; i < x->n_out; i++) {
    tc_status st = tc_buffer_create_on((tc_device)plan->dev[0], p->kept_bytes[x->kept[i]], &x->out[i]);
    if (st != TC_OK) {
      while (i-- > 0) tc_buffer_release(x->out[i]);
      return st;
    }
    if (!x->lasting) tc_buffer_unstamp(x->out[i]);
  }
  return TC_OK;
}

// Finds prepared values, or makes and keeps them. kept: their buffers, retained where not NULL on return, whatever the status.
static tc_status prepare(const run *whole, const tc_plan *plan, const uint64_t *arg, const tc_leaf *held, uint64_t *list, tc_buffer **kept,
                         tc_work_done *done) {
  const tc_program *q = whole->p->prepare;
  uint64_t *skip = list, *num = list + q->n_step;
  uint32_t n_made = 0;
  preparing x;
  fill_nums(q, arg, num);
  for (uint32_t i = 0; i < q->n_step; i++) {
    describe(q, plan, &q->step[i], num, held, kept, &x);
    skip[i] = x.lasting && tc_prepared_find(&x.key, x.n_out, x.out);
    if (!skip[i]) TC_TRY(take_results(whole->p, plan, &x));
    n_made += !skip[i];
    for (uint32_t k = 0; k < x.n_out; k++) {
      kept[x.kept[k]] = x.out[k];
      whole->at.place[plan->n_leaf + plan->n_out + x.kept[k]] = x.out[k]->ptr;
    }
  }
  if (n_made == 0) return TC_OK;
  run r = *whole;
  r.p = q, r.num = num, r.skip = skip;
  TC_TRY(run_steps(&r));
  done->n_kernels += count_kernels(q, skip);
  for (uint32_t i = 0; i < q->n_step; i++) {
    if (skip[i]) continue;
    done->bytes += q->step[i].bytes;
    describe(q, plan, &q->step[i], num, held, kept, &x);
    for (uint32_t k = 0; k < x.n_out; k++) x.out[k] = kept[x.kept[k]];
    if (x.lasting) tc_prepared_keep(&x.key, x.n_out, x.out, x.in);
  }
  return TC_OK;
}

// Side by side what another thread reads of a launch: its lines come at once (runtime/team.h).
typedef struct launch {
  run r;
  fault stopped_by;
  uint64_t fixed[512];
} launch;

// A run's arena, and its lists of so many bytes: in one on the CPU, on a GPU in memory of the host.
static tc_status take_memory(const tc_plan *plan, size_t lists, tc_buffer **arena, tc_buffer **beside) {
  const tc_program *p = plan->program;
  size_t bytes = p->arena_bytes + (p->gpu ? tc_gpu_launches_bytes(p->gpu) : lists);
  if (!p->gpu) return bytes ? tc_buffer_create(tc_buffer_fit(bytes), arena) : TC_OK;
  TC_TRY(bytes ? tc_buffer_create_on((tc_device)plan->dev[0], bytes, arena) : TC_OK);
  tc_status st = lists ? tc_buffer_create(lists, beside) : TC_OK;
  if (st != TC_OK) tc_buffer_release(*arena);
  return st;
}

tc_status tc_program_launch(const tc_plan *plan, void *const *leaf, void *const *out, const uint64_t *arg, const tc_call *call, const tc_leaf *held,
                            tc_work_done *prepared) {
  const tc_program *p = plan->program, *q = p->prepare;
  launch l;
  uint64_t *num = l.fixed;
  uint32_t n_place = plan->n_leaf + plan->n_out + p->n_kept, n_lists = p->n_num + n_place + p->n_kept + q->n_step + q->n_num;
  uint32_t n_words = p->gpu ? TC_MAX_OF(tc_gpu_launches_words(p->gpu), tc_gpu_launches_words(q->gpu)) : 0;
  size_t lists = (n_lists + n_words) * sizeof *num;
  tc_buffer *arena = NULL, *beside = NULL;
  tc_work_done ignored = {0};
  if (lists <= sizeof l.fixed) lists = 0;
  TC_TRY(take_memory(plan, lists, &arena, &beside));
  if (lists) num = p->gpu ? beside->ptr : (uint64_t *)(void *)((char *)arena->ptr + p->arena_bytes);  // whole blocks of 64 bytes lie before it
  void **place = (void **)(num + p->n_num);
  tc_buffer **kept = (tc_buffer **)(place + n_place);
  fill_nums(p, arg, num);
  for (uint32_t i = 0; i < plan->n_leaf; i++) place[i] = leaf[i];
  for (uint32_t i = 0; i < plan->n_out; i++) place[plan->n_leaf + i] = out[i];
  for (uint32_t i = 0; i < p->n_kept; i++) kept[i] = NULL;
  l.stopped_by = (fault){.step = NULL};
  l.r = (run){.p = p,
              .at = {place, (char *const *)(void *)(place + plan->n_leaf), arena ? arena->ptr : NULL},
              .num = num,
              .fault = &l.stopped_by,
              .words = num + n_lists,
              .timed = tc_options_get()->profile > 1};
  tc_status st = q->n_step ? prepare(&l.r, plan, arg, held, (uint64_t *)(kept + p->n_kept), kept, prepared ? prepared : &ignored) : TC_OK;
  if (st == TC_OK) st = run_steps(&l.r);
  if (st == TC_OK && p->gpu && prepared) prepared->replayed = tc_gpu_launches_replayed(p->gpu, &prepared->gpu_note);
  if (l.stopped_by.step) report(plan, &l.r, call);
  for (uint32_t i = 0; i < p->n_kept; i++) tc_buffer_release(kept[i]);
  tc_buffer_release(arena);
  tc_buffer_release(beside);
  return st;
}

// ---- the interface lazy sees ----

static tc_status lower(tc_plan *plan) {
  tc_program *p;
  TC_TRY(tc_program_create(plan, &p));
  plan->program = p;
  return TC_OK;
}

static void clear(void) {
  tc_prepared_clear();
  tc_kernel_cache_clear();
  tc_choices_clear();
}

static void stats(tc_cache_info *info) {
  tc_kernel_stats(info);
  tc_choices_stats(info);
}

const tc_lowering_ops tc_lowering = {
    .lower = lower,
    .launch = tc_program_launch,
    .destroy = tc_program_destroy,
    .verify_begin = tc_verify_begin,
    .verify_end = tc_verify_end,
    .clear = clear,
    .stats = stats,
};
