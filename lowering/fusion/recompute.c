// Weighs recomputing a value in its readers against storing it. See fuser.h.
#include "lowering/fusion/fuser.h"

#include "lowering/kir/scalar_ops.h"
#include "runtime/passes.h"

#define MAX_SOURCES 8  // most tensors that a recomputation reads
#define MAX_SIZE 40  // most nodes of a recomputation, counted with repetition
#define MAX_READS 40  // most tensors of other fusions that a kernel reads
// Bytes. Where kernels hand on more, a value is evicted before the next kernel reads it.
#define CACHE 1000000
#define SMALL_PART 8  // a source this many times smaller than the value is stored, not recomputed
#define NEAR_NS 0.02  // to read or write a byte in the caches
#define FAR_NS 0.08  // to read or write a byte in memory
#define OP_NS 0.02  // one addition on one element
#define LOW_MEMORY_NS 0.4  // to read or write a byte of a large value under TC_FUSE_LOW_MEMORY
#define KERNEL_NS 300.0
// Prices are sums in double. Without this a tie falls by their rounding, so by chance from size to
// size, and few sizes have the same program.
#define ROUNDED (1 + 1e-9)

// A fusion that reads a node of another fusion. Reads at its own position count once (direct),
// reads at other positions one by one (moved).
typedef struct reader {
  struct reader *next;
  struct reader *in_bucket;  // chain of the hash table by which it is found
  struct reader **of;  // the list that holds it; NULL: it was removed
  uint32_t fusion, moved;
  bool direct;
} reader;

typedef struct chain {
  uint32_t source[MAX_SOURCES], node[MAX_SIZE];  // source: what is read; node: what is computed, each once
  int n_source, n_node;
  uint32_t size;  // nodes, counted as often as computed without sharing
  double cost;  // arithmetic of one element, without sharing
  bool ok;
} chain;

typedef struct work {
  tc_fusion_plan *gr;
  const tc_graph *g;
  const bool *must;
  bool low_memory, far;  // far: the plan stores more than the caches hold
  reader **readers;  // per node
  reader **makers;  // per node: the fusions that recompute it at their own positions
  uint32_t *n_reads;  // per fusion: nodes of other fusions that it reads
  uint32_t *n_stored;  // per fusion: members that have memory
  reader **bucket;  // hash table of all readers, by their list and fusion
  uint32_t n_reader, n_bucket;
  bool *assigned;  // per node: true for a leaf that this plan assigns
  bool *needed;  // per node: true if a member of its fusion reads it
  // per node without memory: what recomputing values from it would gain, and what storing it costs
  double *gain, *storing;
  uint32_t fusion;  // the fusion being visited
  bool failed;
} work;

static bool has_memory(const work *w, uint32_t n) {
  return w->gr->stored[n] || w->g->node[n].leaf != TC_LEAF_NONE;
}

static double bytes_of(const work *w, uint32_t n, double elements) {
  const tc_gnode *x = &w->g->node[n];
  return TC_MIN((double)x->shape->count, elements) * (double)tc_type_bytes(x->type);
}

// Nanoseconds to read or write `elements` elements of n.
static double traffic(const work *w, uint32_t n, double elements) {
  double whole = bytes_of(w, n, (double)w->g->node[n].shape->count);
  return bytes_of(w, n, elements) * (whole < TC_LARGE_BYTES ? NEAR_NS
                                     : w->low_memory        ? LOW_MEMORY_NS
                                     : w->far               ? FAR_NS
                                                            : NEAR_NS);
}

static reader **bucket_of(const work *w, reader **of, uint32_t fusion) {
  uint64_t h = ((uint64_t)(of - w->readers) << 32 | fusion) * UINT64_C(0x9E3779B97F4A7C15);
  return &w->bucket[(h >> 32) & (w->n_bucket - 1)];
}

static reader *find_reader(const work *w, reader **of, uint32_t fusion) {
  reader *r = *bucket_of(w, of, fusion);
  for (; r && (r->of != of || r->fusion != fusion); r = r->in_bucket) tc_count(TC_PASS_RECOMPUTE, 1);
  return r;
}

// Doubles the buckets. Without memory they stay as they are.
static void add_buckets(work *w) {
  reader **was = w->bucket, **more = tc_arena_alloc(w->gr->arena, 2 * (size_t)w->n_bucket * sizeof(reader *));
  uint32_t n = w->n_bucket;
  if (!more) return;
  w->bucket = more, w->n_bucket = 2 * n;
  for (uint32_t i = 0; i < n; i++)
    for (reader *r = was[i], *next; r; r = next) {
      next = r->in_bucket;
      if (!r->of) continue;  // removed
      reader **to = bucket_of(w, r->of, r->fusion);
      r->in_bucket = *to, *to = r;
    }
}

static void add_reader(work *w, reader **first, uint32_t fusion, uint32_t moved, bool direct) {
  reader *r = find_reader(w, first, fusion);
  if (!r) {
    if (!(r = tc_arena_alloc(w->gr->arena, sizeof *r))) {
      w->failed = true;
      return;
    }
    if (++w->n_reader > w->n_bucket) add_buckets(w);
    reader **bucket = bucket_of(w, first, fusion);
    *r = (reader){.next = *first, .in_bucket = *bucket, .of = first, .fusion = fusion};
    *first = *bucket = r;
  }
  r->moved += moved, r->direct |= direct;
}

static bool reads_node(const work *w, uint32_t fusion, uint32_t n) {
  return find_reader(w, &w->readers[n], fusion) != NULL;
}

static void add_read(work *w, uint32_t n, uint32_t fusion, uint32_t moved, bool direct) {
  if (!reads_node(w, fusion, n)) w->n_reads[fusion]++;
  add_reader(w, &w->readers[n], fusion, moved, direct);
}

static void note_reader(void *arg, uint32_t source, bool moved) {
  work *w = arg;
  if (w->gr->of[source] != w->fusion) add_read(w, source, w->fusion, moved, !moved);
}

static bool widens(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  return x->op == TC_OP_CAST && x->type == TC_F32 && tc_type_is_half(w->g->node[x->in[0]].type);
}

// Whether n widens a value in memory, read directly or through views.
static bool loads(const work *w, uint32_t n) {
  if (!widens(w, n)) return false;
  uint32_t m = tc_fusion_root(w->gr, w->g->node[n].in[0]);
  while (!has_memory(w, m) && tc_op_kind_of(w->g->node[m].op) == TC_KIND_MOVE && w->g->node[m].n_in == 1)
    m = tc_fusion_root(w->gr, w->g->node[m].in[0]);
  return has_memory(w, m);
}

// Cost of one element. A value that is constant along the last axis is widened once a row.
static double cost_of(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  bool each_row = x->shape->d.rank == 0 || x->shape->d.dim[x->shape->d.rank - 1] == 1;
  return widens(w, n) && each_row ? 0 : tc_build_cost(x->op, x->type);
}

static void add_source(chain *c, uint32_t n) {
  for (int i = 0; i < c->n_source; i++)
    if (c->source[i] == n) return;
  if (c->n_source == MAX_SOURCES)
    c->ok = false;
  else
    c->source[c->n_source++] = n;
}

// Collects what a recomputation of n reads and computes. It follows elementwise values and views
// down to nodes that have memory, or would need it. count: elements of the value.
static void walk_chain(const work *w, uint32_t n, int64_t count, chain *c) {
  const tc_gnode *x = &w->g->node[n];
  c->cost += cost_of(w, n);
  tc_count(TC_PASS_RECOMPUTE, 1 + (uint64_t)x->n_in);
  if (++c->size > MAX_SIZE) c->ok = false;
  if (!c->ok) return;
  int i = 0;
  while (i < c->n_node && c->node[i] != n) i++;
  if (i == c->n_node) c->node[c->n_node++] = n;
  for (int k = 0; k < x->n_in && c->ok; k++) {
    uint32_t s = tc_fusion_root(w->gr, x->in[k]);
    const tc_gnode *y = &w->g->node[s];
    bool computed = w->gr->of[s] != TC_FUSION_NONE, small = y->shape->count < count / SMALL_PART;
    if (small && loads(w, s)) computed = false;
    if (has_memory(w, s) || (computed && (small || tc_op_kind_of(y->op) != TC_KIND_ELEM)))
      add_source(c, s);
    else
      walk_chain(w, s, count, c);
  }
}

typedef struct price {
  double saved, spent;  // nanoseconds
  uint32_t stored;  // the source that would have to be stored first; TC_FUSION_NONE: none
  double storing;  // cost of storing it, contained in spent
  bool ok;
} price;

// Arithmetic cost of one element in the reading fusion. At its own positions the fusion shares
// nodes that it computes anyway.
static double cost_in(const work *w, const chain *c, const reader *r) {
  double cost = 0;
  for (int i = 0; i < c->n_node && !r->moved; i++)
    if (!find_reader(w, &w->makers[c->node[i]], r->fusion)) cost += cost_of(w, c->node[i]);
  return r->moved ? c->cost : cost;
}

// What recomputing v saves and costs, in every kernel that reads it and in the one that stores it.
static price price_of(const work *w, uint32_t v, const chain *c) {
  const tc_gnode *x = &w->g->node[v];
  uint32_t donor = w->gr->of[v];
  price p = {.saved = 1.5 * traffic(w, v, (double)x->shape->count), .stored = TC_FUSION_NONE, .ok = c->ok};
  bool vanishes = w->n_stored[donor] == 1;
  for (int i = 0; i < c->n_source; i++) vanishes &= w->gr->of[c->source[i]] != donor;
  if (vanishes) p.saved += KERNEL_NS + (double)x->shape->count * c->cost * OP_NS;
  for (int i = 0; i < c->n_source; i++) {
    uint32_t s = c->source[i];
    if (!has_memory(w, s)) p.stored = s, p.storing += 1.5 * traffic(w, s, (double)w->g->node[s].shape->count);
    if (vanishes && reads_node(w, donor, s))
      p.saved += traffic(w, s, (double)tc_fusion_positions(&w->gr->fusion[donor]));
  }
  p.spent = p.storing;
  for (const reader *r = w->readers[v]; r && p.ok; r = r->next) {
    tc_count(TC_PASS_RECOMPUTE, 1 + (uint64_t)c->n_source + (uint64_t)c->n_node);
    double elements = (double)tc_fusion_positions(&w->gr->fusion[r->fusion]) * (r->moved + r->direct);
    p.saved += traffic(w, v, elements);
    p.spent += elements * cost_in(w, c, r) * OP_NS;
    uint32_t n_reads = w->n_reads[r->fusion] - 1, n_large = 0;
    for (int i = 0; i < c->n_source; i++) {
      uint32_t s = c->source[i];
      // a source of the same fusion may not be available at that position
      if (w->gr->of[s] == r->fusion && w->g->node[s].leaf == TC_LEAF_NONE) p.ok = false;
      if (reads_node(w, r->fusion, s)) continue;
      n_large +=
          w->g->node[s].leaf == TC_LEAF_NONE && bytes_of(w, s, (double)w->g->node[s].shape->count) >= TC_LARGE_BYTES;
      if (w->assigned[s] || ++n_reads > MAX_READS || (w->low_memory && n_large > 1)) p.ok = false;
      p.spent += traffic(w, s, elements);
      if (s == p.stored) p.storing += traffic(w, s, elements);
    }
  }
  return p;
}

static void recompute_value(work *w, uint32_t v, const chain *c) {
  w->gr->stored[v] = false;
  w->n_stored[w->gr->of[v]]--;
  for (int i = 0; i < c->n_source; i++) {
    uint32_t s = c->source[i];
    if (!has_memory(w, s)) w->gr->stored[s] = true, w->n_stored[w->gr->of[s]]++;
    for (const reader *r = w->readers[v]; r; r = r->next) add_read(w, s, r->fusion, r->moved, r->direct);
  }
  for (const reader *r = w->readers[v]; r; r = r->next) {
    w->n_reads[r->fusion]--;
    for (int i = 0; i < c->n_node && r->direct; i++) add_reader(w, &w->makers[c->node[i]], r->fusion, 0, true);
  }
  for (reader *r = w->readers[v]; r; r = r->next) r->of = NULL;  // removes it
  w->readers[v] = NULL;
}

static bool may_recompute(const work *w, uint32_t n) {
  const tc_fusion_plan *gr = w->gr;
  if (gr->of[n] == TC_FUSION_NONE || !gr->stored[n] || w->must[n] || gr->alias[n] != n) return false;
  return gr->fusion[gr->of[n]].kind != TC_FUSION_EXTERN && tc_op_kind_of(w->g->node[n].op) == TC_KIND_ELEM;
}

// The recomputation of n as a cast of a narrower value of another fusion. ok is false if n is none.
static chain narrow_source(const work *w, uint32_t n) {
  const tc_gnode *x = &w->g->node[n];
  uint32_t s = x->op == TC_OP_CAST ? tc_fusion_root(w->gr, x->in[0]) : n;
  bool narrower = tc_type_bytes(w->g->node[s].type) < tc_type_bytes(x->type) && w->gr->of[s] != TC_FUSION_NONE;
  return (chain){
      .source = {s}, .node = {n}, .n_source = 1, .n_node = 1, .size = 1, .cost = cost_of(w, n), .ok = narrower};
}

// The cheaper of two recomputations of n: the whole chain, or the cast alone.
static price judge(const work *w, uint32_t n, chain *c) {
  chain near = narrow_source(w, n);
  *c = (chain){.ok = true};
  walk_chain(w, n, w->g->node[n].shape->count, c);
  price whole = price_of(w, n, c), part = price_of(w, n, &near);
  if (!part.ok || (whole.ok && whole.saved - whole.spent >= part.saved - part.spent)) return whole;
  *c = near;
  return part;
}

// Stores a source that several values can be recomputed from, where that does not pay for any of
// them alone.
static void store_common_sources(work *w) {
  chain c;
  for (uint32_t i = 0; i < w->g->n_order; i++) {
    uint32_t n = w->g->order[i];
    if (!may_recompute(w, n)) continue;
    price p = judge(w, n, &c);
    if (!p.ok || p.stored == TC_FUSION_NONE || p.spent <= p.saved) continue;
    w->gain[p.stored] += TC_MAX_OF(p.saved - (p.spent - p.storing), 0);
    w->storing[p.stored] = TC_MAX_OF(w->storing[p.stored], p.storing);
  }
  for (uint32_t n = 0; n < w->g->n; n++)
    if (w->gain[n] > w->storing[n] && !has_memory(w, n)) w->gr->stored[n] = true, w->n_stored[w->gr->of[n]]++;
}

static void note_needed(void *arg, uint32_t source, bool moved) {
  (void)moved;
  work *w = arg;
  w->needed[source] |= w->gr->of[source] == w->fusion;
}

// Removes members that have no memory and that no member reads.
static void prune(work *w) {
  tc_fusion *gp = &w->gr->fusion[w->fusion];
  uint32_t kept = 0;
  for (uint32_t i = gp->n_member; i-- > 0;) {
    uint32_t n = gp->member[i];
    if (w->gr->stored[n] || w->needed[n])
      tc_fusion_each_source(w->gr, n, note_needed, w);
    else
      w->gr->of[n] = TC_FUSION_NONE;
  }
  for (uint32_t i = 0; i < gp->n_member; i++)
    if (w->gr->of[gp->member[i]] == w->fusion) gp->member[kept++] = gp->member[i];
  gp->n_member = kept;
}

tc_status tc_recompute(tc_fusion_plan *gr, const bool *must, bool low_memory) {
  const tc_graph *g = gr->graph;
  work w = {.gr = gr, .g = g, .must = must, .low_memory = low_memory};
  w.readers = tc_arena_alloc(gr->arena, (g->n + 1) * 2 * sizeof w.readers[0]);
  w.n_bucket = 64;
  while (w.n_bucket < g->n_order) w.n_bucket *= 2;
  w.bucket = tc_arena_alloc(gr->arena, w.n_bucket * sizeof *w.bucket);
  w.n_reads = tc_arena_alloc(gr->arena, (gr->n_fusion + 1) * sizeof w.n_reads[0]);
  w.n_stored = tc_arena_alloc(gr->arena, (gr->n_fusion + 1) * sizeof w.n_stored[0]);
  w.assigned = tc_arena_alloc(gr->arena, g->n + 1);
  w.gain = tc_arena_alloc(gr->arena, (g->n + 1) * 2 * sizeof w.gain[0]);
  w.needed = tc_arena_alloc(gr->arena, g->n + 1);
  if (!w.readers || !w.bucket || !w.n_reads || !w.n_stored || !w.assigned || !w.gain || !w.needed)
    return TC_FAIL(TC_ERR_MEMORY, "no room to fuse %u nodes", g->n);
  w.makers = w.readers + g->n;
  w.storing = w.gain + g->n;
  bool any = false;
  double stored = 0;
  for (w.fusion = 0; w.fusion < gr->n_fusion; w.fusion++)
    for (uint32_t i = 0; i < gr->fusion[w.fusion].n_member; i++) {
      uint32_t n = gr->fusion[w.fusion].member[i];
      tc_fusion_each_source(gr, n, note_reader, &w);
      w.n_stored[w.fusion] += gr->stored[n];
      if (gr->stored[n]) stored += (double)g->node[n].shape->count * (double)tc_type_bytes(g->node[n].type);
      if (g->node[n].op == TC_OP_ASSIGN) w.assigned[g->node[n].old] = true;
    }
  w.far = stored > CACHE;
  store_common_sources(&w);
  for (uint32_t i = 0; i < g->n_order && !w.failed; i++) {
    uint32_t n = g->order[i];
    if (!may_recompute(&w, n)) continue;
    chain c;
    price p = judge(&w, n, &c);
    if (p.ok && p.spent <= p.saved * ROUNDED) recompute_value(&w, n, &c), any = true;
  }
  for (w.fusion = 0; w.fusion < gr->n_fusion && any; w.fusion++) prune(&w);
  return w.failed ? TC_FAIL(TC_ERR_MEMORY, "no room to fuse %u nodes", g->n) : TC_OK;
}
