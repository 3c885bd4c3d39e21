// Plans as data: memory for one, its references, and which leaf a value shares memory with. See
// plan.h.
#include "lazy/trace/plan.h"

#include <string.h>

#include "lazy/lowering.h"
#include "runtime/arena.h"

static void destroy_plan(tc_plan *p) {
  tc_memory_of_plans(-(ptrdiff_t)p->entry.bytes);
  if (p->program) tc_lowering.destroy(p->program);
  if (p->runner.release) p->runner.release(p->runner.state);
  void *const owned[] = {p->word, p->at, p->leaf_of, p->dev, p->out};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(p);
}

void tc_plan_release(tc_plan *p) {
  if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) destroy_plan(p);
}

void tc_plan_find_same_bytes(tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *r = tc_plan_rec(p, n);
    p->same_bytes[n] = tc_op_is_alias(tc_rec_op(r)) ? p->same_bytes[tc_rec_in(r)[0]] : n;
  }
}

uint32_t tc_plan_alias_leaf(const tc_plan *p, uint32_t n) {
  uint32_t a = p->same_bytes[n];
  if ((p->flag[n] & TC_NODE_TAPE) && !(p->flag[n] & TC_NODE_REQUIRES_GRAD)) return TC_LEAF_NONE;
  if (!tc_plan_is_leaf(p, a) || p->dev[a] != p->dev[n] || (p->flag[a] & TC_NODE_USER)) return TC_LEAF_NONE;
  return (p->flag[a] & TC_NODE_SOLE) && p->over_leaf[p->leaf_of[a]] ? TC_LEAF_NONE : p->leaf_of[a];
}

// The bytes per node, leaf and output, one list behind the other.
static void place_bytes(tc_plan *p) {
  p->hold_leaf = p->dev + p->n_node;
  p->over_leaf = p->hold_leaf + p->n_leaf;
  p->hold_out = p->over_leaf + p->n_leaf;
}

tc_plan *tc_plan_allocate(uint32_t n_node, uint32_t n_leaf, uint32_t n_arg, uint32_t n_rec_words, uint32_t n_word) {
  tc_plan *p = tc_calloc(1, sizeof *p);
  if (!p) return NULL;
  atomic_store_explicit(&p->refs, 1, memory_order_relaxed);
  p->n_node = n_node, p->n_leaf = n_leaf, p->n_arg = n_arg;
  p->n_rec_words = n_rec_words, p->n_word = n_word;
  p->word = tc_malloc((size_t)n_word * sizeof p->word[0]);
  p->at = tc_malloc((size_t)(p->n_node + 1) * 2 * sizeof p->at[0]);
  p->leaf_of = tc_malloc((size_t)(p->n_node + 1) * 3 * sizeof p->leaf_of[0]);
  p->dev = tc_calloc(((size_t)p->n_node + p->n_leaf) * 2 + 1, 1);
  p->out = tc_malloc((size_t)(p->n_node + 1) * sizeof p->out[0]);
  if (!p->word || !p->at || !p->leaf_of || !p->dev || !p->out) return destroy_plan(p), NULL;
  p->arg_at = p->at + p->n_node + 1;
  p->out_of = p->leaf_of + p->n_node + 1, p->same_bytes = p->out_of + p->n_node + 1;
  place_bytes(p);
  p->flag = (const uint8_t *)(p->word + n_rec_words);
  return p;
}

void tc_plan_shrink(tc_plan *p) {
  tc_out *out = tc_realloc(p->out, ((size_t)p->n_out + 1) * sizeof *out);
  if (out) p->out = out;
  uint8_t *dev = tc_realloc(p->dev, (size_t)p->n_node + 2 * (size_t)p->n_leaf + p->n_out + 1);
  if (!dev) return;
  p->dev = dev;
  place_bytes(p);
}

static void *copy_of(const void *list, size_t bytes) {
  void *copy = tc_malloc(bytes + 1);
  if (copy && bytes) memcpy(copy, list, bytes);
  return copy;
}

tc_plan *tc_plan_copy(const tc_plan *from, const uint64_t *word) {
  tc_plan *p = tc_malloc(sizeof *p);
  if (!p) return NULL;
  memcpy(p, from, sizeof *p);
  p->entry = (tc_lru_entry){.next = NULL};
  atomic_store_explicit(&p->refs, 1, memory_order_relaxed);
  atomic_store_explicit(&p->profiled, 0, memory_order_relaxed);
  atomic_store_explicit(&p->gone, false, memory_order_relaxed);
  p->program = NULL, p->runner = (tc_graph_runner){.run = NULL}, p->n_compiled = 0;
  p->compile_ticks = p->describe_ticks = 0;
  size_t n = (size_t)p->n_node + 1;
  p->word = copy_of(word, p->n_word * sizeof p->word[0]);
  p->at = copy_of(from->at, 2 * n * sizeof p->at[0]);
  p->leaf_of = copy_of(from->leaf_of, 3 * n * sizeof p->leaf_of[0]);
  p->dev = copy_of(from->dev, (size_t)p->n_node + 2 * (size_t)p->n_leaf + p->n_out);
  p->out = copy_of(from->out, p->n_out * sizeof p->out[0]);
  if (!p->word || !p->at || !p->leaf_of || !p->dev || !p->out) return destroy_plan(p), NULL;
  p->arg_at = p->at + n;
  p->out_of = p->leaf_of + n, p->same_bytes = p->out_of + n;
  place_bytes(p);
  p->flag = (const uint8_t *)(p->word + p->n_rec_words);
  for (uint32_t o = 0; o < p->n_out; o++) {
    const tc_rec *r = tc_plan_rec(p, p->out[o].node);
    p->out[o].donor = TC_LEAF_NONE;
    p->out[o].bytes = (size_t)tc_dims_at(r->shape)->count * tc_type_bytes((tc_type)r->dtype);
  }
  return p;
}
