// Finds a convolution in its matmul: the steps of expand_conv.c, backwards. See
// graph.h.
#include "lowering/graph/graph.h"

#include "lowering/tiling/summation.h"

#define MOST_CHANNELS 4
#define MOST_STEP 4  // along a row
#define MOST_TAPS 64  // of a row of a window, all channels: the innermost loop's body
#define LEAST_PIXELS 16  // of a row

typedef struct convolution {
  uint32_t image, weight;  // nodes [n, h, w, c] and [o, c, kh, kw]
  int64_t size[2], stride[2], dilation[2], low[2];
  int64_t p, q;
} convolution;

static bool is_op(const tc_graph *g, uint32_t n, tc_op op) {
  return g->node[n].op == op && g->node[n].leaf == TC_LEAF_NONE;
}

static bool has_shape(const tc_graph *g, uint32_t n, tc_dims d) {
  return tc_dims_equal(&g->node[n].shape->d, &d);
}

// The steps of `expand_conv.c columns` and `by_matmul`, from the matmul backwards.
static bool find_windows(const tc_graph *g, uint32_t n, convolution *c) {
  if (!is_op(g, n, TC_OP_RESHAPE) || g->node[n].shape->d.rank != 2) return false;
  n = g->node[n].in[0];
  if (!is_op(g, n, TC_OP_PERMUTE) || g->node[n].shape->d.rank != 6 || g->node[n].attr[0] != 0x030504020100)
    return false;
  n = g->node[n].in[0];
  for (int axis = 1; axis >= 0; axis--, n = g->node[n].in[0]) {
    const tc_gnode *x = &g->node[n];
    if (!is_op(g, n, TC_OP_WINDOW) || x->attr[0] != (uint64_t)axis + 1) return false;
    c->size[axis] = (int64_t)x->attr[1], c->stride[axis] = (int64_t)x->attr[2], c->dilation[axis] = (int64_t)x->attr[3];
    *(axis ? &c->q : &c->p) = x->shape->d.dim[axis + 1];
  }
  c->low[0] = c->low[1] = 0;
  if (is_op(g, n, TC_OP_PAD) && g->node[n].n_arg == 0) {  // a user's has an argument
    const uint64_t *attr = g->node[n].attr;
    c->low[0] = (int64_t)attr[1], c->low[1] = (int64_t)attr[2];
    n = g->node[n].in[0];
  }
  c->image = n;
  return g->node[n].shape->d.rank == 4;
}

static bool find_weight(const tc_graph *g, uint32_t n, convolution *c) {
  int64_t o = g->node[n].shape->d.dim[1], channels = g->node[c->image].shape->d.dim[3];
  if (!is_op(g, n, TC_OP_RESHAPE)) return false;
  n = g->node[n].in[0];
  if (!is_op(g, n, TC_OP_PERMUTE) || g->node[n].shape->d.rank != 4 || g->node[n].attr[0] != 0x01020300) return false;
  n = g->node[n].in[0];
  if (!is_op(g, n, TC_OP_RESHAPE) || !has_shape(g, n, TC_SHAPE(1, o, channels, c->size[0] * c->size[1]))) return false;
  c->weight = g->node[n].in[0];
  return has_shape(g, c->weight, TC_SHAPE(o, channels, c->size[0], c->size[1]));
}

static bool find_convolution(const tc_graph *g, uint32_t n, convolution *c) {
  const tc_gnode *x = &g->node[n];
  return is_op(g, n, TC_OP_MATMUL) && find_windows(g, x->in[0], c) && find_weight(g, x->in[1], c);
}

bool tc_direct_fits(const tc_graph *g, uint32_t n, int64_t images) {
  convolution c;
  tc_type type = g->node[n].type;
  if ((type != TC_F32 && type != TC_F64) || !find_convolution(g, n, &c)) return false;
  const tc_dims *d = &g->node[c.image].shape->d;
  int64_t channels = d->dim[3];
  return d->dim[0] == images && channels <= MOST_CHANNELS && channels * c.size[1] <= MOST_TAPS &&
         channels * c.size[0] * c.size[1] <= TC_CHAIN_WHOLE && c.stride[1] <= MOST_STEP && c.q >= LEAST_PIXELS;
}

uint32_t tc_direct_add(tc_graph *g, uint32_t n) {
  convolution c;
  const tc_gnode like = g->node[n];
  uint64_t attr[6];
  if (!find_convolution(g, n, &c)) return TC_GNODE_NONE;
  for (int i = 0; i < 2; i++)
    attr[i] = (uint64_t)c.stride[i] | (uint64_t)c.dilation[i] << 32, attr[2 + i] = (uint64_t)c.low[i];
  attr[4] = (uint64_t)c.p, attr[5] = (uint64_t)c.q;
  tc_dims d = TC_SHAPE(g->node[c.image].shape->d.dim[0], g->node[c.weight].shape->d.dim[0], c.p * c.q);
  return tc_graph_add_with(g, &like, TC_OP_CONV_DIRECT, &d, 2, (uint32_t[]){c.image, c.weight}, 6, attr);
}
