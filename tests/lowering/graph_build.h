// Graphs made by hand, for tests that lower them: leaves with data, what is made of them, and what
// is wanted. Tests only; allocation failures are not handled.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "lazy/trace/dims.h"
#include "lowering/emit/emitter.h"
#include "lowering/fusion/build.h"
#include "lowering/graph/split_k.h"

// Passes, as lowering/pipeline.c lists them.
tc_status tc_pass_mark_prologue(tc_graph *g);
tc_status tc_pass_split_k(tc_graph *g);
tc_status tc_pass_split_kv(tc_graph *g);

enum { MOST_NODES = 64 };

// A graph made by hand: leaves, what is made of them, and what is wanted.
typedef struct work {
  tc_arena arena;
  tc_graph g;
  uint32_t n_leaf, n_out;
  void *memory[MOST_NODES];
  const tc_gemm_tiling *tiling;  // that products are given, or NULL
  bool refused;  // there was none such
} work;

__attribute__((unused)) static const tc_target ampere = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 163 << 10, .processors = 108, .mma = true};
__attribute__((unused)) static const tc_target cdna = {
    .threads_most = 1024, .warp = 64, .shared_bytes = 64 << 10, .processors = 104, .mfma = true};
__attribute__((unused)) static const tc_target plain = {
    .threads_most = 1024, .warp = 32, .shared_bytes = 48 << 10, .processors = 4, .mma = false};

__attribute__((unused)) static work begin(void) {
  work w = {.n_leaf = 0};
  w.g.arena = NULL;
  w.g.node = calloc(MOST_NODES, sizeof *w.g.node);
  w.g.order = calloc(MOST_NODES, sizeof *w.g.order);
  w.g.cap = MOST_NODES;
  return w;
}

__attribute__((unused)) static uint32_t node(work *w, tc_op op, tc_type type, tc_dims d, int n_in, const uint32_t *in,
                                             int n_attr, const uint64_t *attr) {
  uint32_t n = w->g.n++;
  uint64_t *words = tc_arena_alloc(&w->arena, ((size_t)n_attr + 1) * sizeof *words);
  uint32_t *ins = tc_arena_alloc(&w->arena, ((size_t)n_in + 1) * sizeof *ins);
  if (n_attr) memcpy(words, attr, (size_t)n_attr * sizeof *attr);
  if (n_in) memcpy(ins, in, (size_t)n_in * sizeof *in);
  w->g.node[n] = (tc_gnode){.op = op,
                            .type = type,
                            .dev = tc_device_default(),
                            .shape = tc_dims_at(tc_dims_intern(&d)),
                            .n_in = n_in,
                            .in = ins,
                            .attr = words,
                            .n_attr = n_attr,
                            .leaf = TC_LEAF_NONE,
                            .out = TC_LEAF_NONE,
                            .needed = true};
  for (int k = 0; k < n_in; k++) w->g.node[in[k]].n_readers++;
  w->g.order[w->g.n_order++] = n;
  return n;
}

__attribute__((unused)) static size_t bytes_of(const work *w, uint32_t n) {
  return (size_t)w->g.node[n].shape->count * tc_type_bytes(w->g.node[n].type);
}

__attribute__((unused)) static void fill(void *p, tc_type type, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    int v = (int)(seed >> 16) % 2001 - 1000;
    float f = (float)v / 512;
    uint32_t u;
    _Float16 h = (_Float16)f;
    memcpy(&u, &f, sizeof u);
    uint16_t b = (uint16_t)(u >> 16);
    switch (type) {
      case TC_F32: ((float *)p)[i] = f; break;
      case TC_F64: ((double *)p)[i] = (double)v / 700; break;
      case TC_F16: memcpy((char *)p + 2 * i, &h, 2); break;
      case TC_BF16: memcpy((char *)p + 2 * i, &b, 2); break;
      case TC_BOOL: ((uint8_t *)p)[i] = v > 0; break;
      case TC_I8:
      case TC_U8: ((int8_t *)p)[i] = (int8_t)v; break;
      case TC_I32: ((int32_t *)p)[i] = v; break;
      default: ((int64_t *)p)[i] = v;
    }
  }
}

__attribute__((unused)) static uint32_t leaf(work *w, tc_type type, tc_dims d) {
  uint32_t n = node(w, TC_OP_LEAF, type, d, 0, NULL, 0, NULL);
  w->g.node[n].leaf = w->n_leaf++;
  w->memory[n] = malloc(bytes_of(w, n) + 16);
  fill(w->memory[n], type, w->g.node[n].shape->count, 17 * n + 3);
  return n;
}

__attribute__((unused)) static uint32_t elem(work *w, tc_op op, tc_type type, tc_dims d, uint32_t a, uint32_t b) {
  return node(w, op, type, d, op == TC_OP_CAST || op == TC_OP_RELU || op == TC_OP_NEG ? 1 : 2, (uint32_t[]){a, b}, 0,
              NULL);
}

__attribute__((unused)) static uint32_t expand_to(work *w, uint32_t a, tc_dims d) {
  return node(w, TC_OP_EXPAND, w->g.node[a].type, d, 1, &a, 0, NULL);
}

// Orders what node n is made of, and the node.
__attribute__((unused)) static void order_from(work *w, uint32_t n) {
  for (uint32_t i = 0; i < w->g.n_order; i++)
    if (w->g.order[i] == n) return;
  for (int k = 0; k < w->g.node[n].n_in; k++)
    order_from(w, w->g.node[n].in[k]), w->g.node[w->g.node[n].in[k]].n_readers++;
  w->g.node[n].needed = true;
  w->g.order[w->g.n_order++] = n;
}

// As a graph's rows of attention are split.
__attribute__((unused)) static bool split_attention(work *w) {
  w->g.arena = &w->arena;
  if (tc_pass_split_kv(&w->g) != TC_OK) return false;
  w->g.n_order = 0;
  for (uint32_t n = 0; n < w->g.n; n++) w->g.node[n].n_readers = 0;
  for (uint32_t n = 0; n < w->g.n; n++)
    if (w->g.node[n].out != TC_LEAF_NONE) order_from(w, n);
  return true;
}

// The last two axes swapped.
__attribute__((unused)) static uint32_t transposed(work *w, uint32_t a) {
  tc_dims d = w->g.node[a].shape->d;
  uint64_t order = 0;
  for (int i = 0; i < d.rank; i++) order |= (uint64_t)(i < d.rank - 2 ? i : 2 * d.rank - 3 - i) << (8 * i);
  int64_t t = d.dim[d.rank - 1];
  d.dim[d.rank - 1] = d.dim[d.rank - 2], d.dim[d.rank - 2] = t;
  return node(w, TC_OP_PERMUTE, w->g.node[a].type, d, 1, &a, 1, &order);
}

__attribute__((unused)) static void want(work *w, uint32_t n) {
  w->g.node[n].out = w->n_out++;
}

__attribute__((unused)) static void release(work *w) {
  for (uint32_t n = 0; n < w->g.n; n++) free(w->memory[n]);
  free(w->g.node), free(w->g.order);
  tc_arena_fini(&w->arena);
}

// A product, and whether a bias and a residual follow.
typedef struct problem {
  const char *name;
  tc_type type;
  int64_t batch, m, n, k;
  bool a_transposed, b_transposed, follows;
} problem;

__attribute__((unused)) static void build_product(work *w, const problem *p) {
  tc_dims da = TC_SHAPE(p->m, p->k), db = TC_SHAPE(p->k, p->n), d = TC_SHAPE(p->m, p->n);
  if (p->batch > 1)
    da = TC_SHAPE(p->batch, p->m, p->k), db = TC_SHAPE(p->batch, p->k, p->n), d = TC_SHAPE(p->batch, p->m, p->n);
  tc_dims ta = da, tb = db;
  int last = da.rank - 1;
  ta.dim[last] = p->m, ta.dim[last - 1] = p->k, tb.dim[last] = p->k, tb.dim[last - 1] = p->n;
  uint32_t a = p->a_transposed ? transposed(w, leaf(w, p->type, ta)) : leaf(w, p->type, da);
  uint32_t b = p->b_transposed ? transposed(w, leaf(w, p->type, tb)) : leaf(w, p->type, db);
  uint32_t y = node(w, TC_OP_MATMUL, p->type, d, 2, (uint32_t[]){a, b}, 0, NULL);
  if (!p->follows) {
    want(w, y);
    return;
  }
  uint32_t bias = expand_to(w, leaf(w, p->type, TC_SHAPE(p->n)), d), residual = leaf(w, p->type, d);
  uint32_t sum = elem(w, TC_OP_ADD, p->type, d, y, bias);
  uint32_t other = elem(w, TC_OP_MUL, p->type, d, sum, residual);
  want(w, sum), want(w, other);
}

__attribute__((unused)) static uint32_t padded_windows(work *w, uint32_t image, int64_t batch, int64_t side,
                                                       int64_t channels, int64_t taps, int64_t stride) {
  tc_type type = w->g.node[image].type;
  int64_t out = (side + 2 - taps) / stride + 1;
  uint32_t a = node(w, TC_OP_PAD, type, TC_SHAPE(batch, side + 2, side + 2, channels), 1, &image, 8,
                    (uint64_t[]){0, 1, 1, 0, 0, 1, 1, 0});
  a = node(w, TC_OP_WINDOW, type, TC_SHAPE(batch, out, side + 2, channels, taps), 1, &a, 4,
           (uint64_t[]){1, (uint64_t)taps, (uint64_t)stride, 1});
  a = node(w, TC_OP_WINDOW, type, TC_SHAPE(batch, out, out, channels, taps, taps), 1, &a, 4,
           (uint64_t[]){2, (uint64_t)taps, (uint64_t)stride, 1});
  uint64_t order = 0 | 1 << 8 | 2 << 16 | 4 << 24 | UINT64_C(5) << 32 | UINT64_C(3) << 40;
  a = node(w, TC_OP_PERMUTE, type, TC_SHAPE(batch, out, out, taps, taps, channels), 1, &a, 1, &order);
  return node(w, TC_OP_RESHAPE, type, TC_SHAPE(batch * out * out, taps * taps * channels), 1, &a, 0, NULL);
}

// A convolution of two images, channels last, as a product of its windows; stored: what the windows
// see lies in memory.
__attribute__((unused)) static void build_convolution(work *w, tc_type type, int64_t side, int64_t channels,
                                                      int64_t stride, bool stored) {
  uint32_t a = padded_windows(w, leaf(w, type, TC_SHAPE(2, side, side, channels)), 2, side, channels, 3, stride);
  w->g.node[a].stored = stored;
  int64_t rows = w->g.node[a].shape->d.dim[0];
  uint32_t b = leaf(w, type, TC_SHAPE(9 * channels, 40));
  want(w, node(w, TC_OP_MATMUL, type, TC_SHAPE(rows, 40), 2, (uint32_t[]){a, b}, 0, NULL));
}
