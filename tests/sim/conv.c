// See conv.h.
#include "tests/sim/conv.h"

#include <stdlib.h>
#include <string.h>

static int64_t extent(const int64_t *d) {
  return d[0] * d[1] * d[2];
}

// Which of them, counted with the last axis innermost.
static void place(const int64_t *d, int64_t i, int64_t *at) {
  at[2] = i % d[2], at[1] = i / d[2] % d[1], at[0] = i / d[2] / d[1];
}

static int64_t index_of(const int64_t *d, const int64_t *at) {
  return (at[0] * d[1] + at[1]) * d[2] + at[2];
}

// The place of the image that tap t of window w reads; -1: outside.
static int64_t seen(const sim_conv *c, const int64_t *w, const int64_t *t) {
  int64_t at[SIM_CONV_AXES];
  for (int i = 0; i < SIM_CONV_AXES; i++) {
    at[i] = w[i] * c->stride[i] + t[i] * c->dilation[i] - c->low[i];
    if (at[i] < 0 || at[i] >= c->image[i]) return -1;
  }
  return index_of(c->image, at);
}

// An element, as narrow as the engine makes it.
static double read_at(const sim_conv *c, uintptr_t base, int64_t i) {
  double v = sim_element_read(c->type, base + (uintptr_t)i * sim_element_bytes(c->type));
  float f = (float)v;
  uint32_t bits;
  if (c->fault != SIM_CONV_NARROW) return v;
  memcpy(&bits, &f, 4);
  bits &= 0xffffe000;
  memcpy(&f, &bits, 4);
  return (double)f;
}

static void write_at(const sim_conv *c, uintptr_t base, int64_t i, double v) {
  static unsigned n;
  if (c->fault == SIM_CONV_OTHER_BITS) v *= 1 + 1e-3 * (double)(n++ % 7);
  sim_element_write(c->type, base + (uintptr_t)i * sim_element_bytes(c->type), v);
}

// image, weight and what comes of them, element by element: `add` is called with the three places
// of every product.
typedef struct sums {
  const sim_conv *c;
  double *sum;  // of the result that is wanted
} sums;

static void add(const sums *s, int64_t image, int64_t weight, int64_t result) {
  const sim_conv *c = s->c;
  switch (c->direction) {
    case SIM_CONV_FORWARD: s->sum[result] += read_at(c, c->image_at, image) * read_at(c, c->weight_at, weight); break;
    case SIM_CONV_BY_IMAGE: s->sum[image] += read_at(c, c->result_at, result) * read_at(c, c->weight_at, weight); break;
    case SIM_CONV_BY_WEIGHT: s->sum[weight] += read_at(c, c->image_at, image) * read_at(c, c->result_at, result); break;
  }
}

static void add_window(const sums *s, int64_t batch, int64_t window) {
  const sim_conv *c = s->c;
  int64_t in = c->in / c->groups, out = c->out / c->groups, taps = extent(c->taps), w[SIM_CONV_AXES], t[SIM_CONV_AXES];
  place(c->result, window, w);
  for (int64_t tap = 0; tap < taps; tap++) {
    place(c->taps, tap, t);
    int64_t at = seen(c, w, t);
    if (at < 0) continue;
    for (int64_t o = 0; o < c->out; o++) {
      for (int64_t i = 0; i < in; i++)
        add(s, (batch * extent(c->image) + at) * c->in + o / out * in + i, (o * taps + tap) * in + i,
            (batch * extent(c->result) + window) * c->out + o);
    }
  }
}

static sim_error look_at_all(const sim_conv *c, uint64_t image, uint64_t weight, uint64_t result) {
  const struct {
    uintptr_t at, end;
    const char *what;
  } t[] = {{c->image_at, c->image_at + image, "its image"},
           {c->weight_at, c->weight_at + weight, "its weight"},
           {c->result_at, c->result_at + result, "its result"},
           {c->workspace, c->workspace + c->workspace_bytes, "its workspace"}};
  for (int i = 0; i < 4; i++) SIM_TRY(sim_look(c->function, t[i].at, t[i].end - t[i].at, t[i].what));
  for (int i = 0; i < 3; i++) {
    int made = c->direction == SIM_CONV_FORWARD ? 2 : c->direction == SIM_CONV_BY_IMAGE ? 0 : 1;
    if (i != made)
      sim_look_apart(c->function, t[i].at, t[i].end, t[made].at, t[made].end, "an operand and what is made");
    sim_look_apart(c->function, t[i].at, t[i].end, t[3].at, t[3].end, "a tensor and the workspace");
  }
  return SIM_OK;
}

static sim_error convolve(sim_device *device, const void *data) {
  const sim_conv *c = data;
  int64_t n_image = c->batch * extent(c->image) * c->in, n_weight = c->out * extent(c->taps) * (c->in / c->groups),
          n_result = c->batch * extent(c->result) * c->out;
  uint64_t size = sim_element_bytes(c->type);
  (void)device;
  SIM_TRY(look_at_all(c, (uint64_t)n_image * size, (uint64_t)n_weight * size, (uint64_t)n_result * size));
  int64_t n = c->direction == SIM_CONV_FORWARD ? n_result : c->direction == SIM_CONV_BY_IMAGE ? n_image : n_weight;
  uintptr_t to = c->direction == SIM_CONV_FORWARD    ? c->result_at
                 : c->direction == SIM_CONV_BY_IMAGE ? c->image_at
                                                     : c->weight_at;
  sums s = {c, calloc((size_t)n, sizeof *s.sum)};
  if (!s.sum) return SIM_MEMORY;
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t w = 0; w < extent(c->result); w++) add_window(&s, b, w);
  for (int64_t i = 0; i < n; i++) write_at(c, to, i, s.sum[i]);
  free(s.sum);
  sim_workspace_spoil(c->workspace, c->workspace_bytes);
  return SIM_OK;
}

sim_error sim_conv_enqueue(sim_stream *s, const sim_conv *c) {
  sim_conv *own = malloc(sizeof *own);
  if (!own) return SIM_MEMORY;
  *own = *c;
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_CALL, .call = convolve, .staged = own, .bytes = sizeof *own});
}
