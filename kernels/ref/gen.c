// Values from arguments and position: full, iota and the random draws. kernels/philox.h defines how
// a draw maps to Philox blocks.
// Threads: thread-safe, pure.
// Owner: nothing.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "kernels/ref/convert.h"
#include "runtime/arena.h"
#include "runtime/status.h"

static int64_t count(const tc_view *v) {
  int64_t n = 1;
  for (int d = 0; d < v->rank; d++) n *= v->dim[d];
  return n;
}

static double f64_of_arg(uint64_t arg) {
  double v;
  memcpy(&v, &arg, sizeof v);
  return v;
}

tc_status tc_ref_full(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out);
  if (n == 0) return TC_OK;
  // Converted once, then copied with a step of 0.
  uint64_t elem = 0;
  if (tc_ref_is_float(out->type))
    tc_set_f64(out->type, &elem, 0, f64_of_arg(call->arg[0]));
  else
    tc_set_i64(out->type, &elem, 0, (int64_t)call->arg[0]);
  tc_copy_span(tc_ref_type_bytes(out->type), out->ptr, 0, 1, &elem, 0, 0, n);
  return TC_OK;
}

tc_status tc_ref_iota(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out);
  if (tc_ref_is_float(out->type)) {
    double start = f64_of_arg(call->arg[0]), step = f64_of_arg(call->arg[1]);
    for (int64_t i = 0; i < n; i++) tc_set_f64(out->type, out->ptr, i, start + step * (double)i);
  } else {
    for (int64_t i = 0; i < n; i++)
      tc_set_i64(out->type, out->ptr, i, (int64_t)(call->arg[0] + call->arg[1] * (uint64_t)i));
  }
  return TC_OK;
}

// Computes the words of one block of the draw with arg[seed, counter].
static void draw_block(const uint64_t *arg, int64_t block, uint32_t words[4]) {
  uint64_t seed = arg[0], draw = arg[1];
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32), (uint32_t)draw, (uint32_t)(draw >> 32)};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  tc_philox4x32(counter, key, words);
}

// Returns 64 random bits for element i of a draw whose elements take two words.
static uint64_t draw_u64(const uint64_t *arg, int64_t i) {
  uint32_t words[4];
  draw_block(arg, i / 2, words);
  int first = 2 * (int)(i % 2);
  return (uint64_t)words[first + 1] << 32 | words[first];
}

tc_status tc_ref_rand(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out);
  if (out->type == TC_F64) {
    for (int64_t i = 0; i < n; i++) ((double *)out->ptr)[i] = (double)(draw_u64(call->arg, i) >> 11) * 0x1p-53;
    return TC_OK;
  }
  uint32_t words[4];
  double most = out->type == TC_F16 ? TC_MOST_F16 : out->type == TC_BF16 ? TC_MOST_BF16 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) draw_block(call->arg, i / 4, words);
    tc_set_f64(out->type, out->ptr, i, fmin((double)(words[i % 4] >> 8) * 0x1p-24, most));
  }
  return TC_OK;
}

tc_status tc_ref_randn(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out);
  uint32_t words[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) draw_block(call->arg, i / 4, words);
    uint32_t w0 = words[i % 4 & ~1], w1 = words[i % 4 | 1];
    double u1 = ((double)(w0 >> 8) + 1) * 0x1p-24, angle = 2 * M_PI * ((double)(w1 >> 8) * 0x1p-24);
    double radius = sqrt(-2 * log(u1));
    tc_set_f64(out->type, out->ptr, i, radius * (i % 2 == 0 ? cos(angle) : sin(angle)));
  }
  return TC_OK;
}

// low and high are int64, whatever the type of the result.
tc_status tc_ref_randint(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out), low = (int64_t)call->arg[2], high = (int64_t)call->arg[3];
  uint64_t span = (uint64_t)high - (uint64_t)low;
  if (high <= low || span > UINT64_C(1) << 32) {
    return tc_fail(TC_ERR_ARG, "randint", 0, "range [%lld, %lld) is empty or wider than 2^32", (long long)low,
                   (long long)high);
  }
  uint32_t words[4];
  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) draw_block(call->arg, i / 4, words);
    tc_set_i64(out->type, out->ptr, i, low + (int64_t)(words[i % 4] * span >> 32));
  }
  return TC_OK;
}

typedef struct ticket {
  uint64_t key;
  int64_t index;
} ticket;

static int compare_tickets(const void *a, const void *b) {
  const ticket *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

// Sorts 0..n-1 by 64 random bits each. The index breaks ties, so the order does not depend on the
// sort.
tc_status tc_ref_randperm(const tc_ref_call *call) {
  const tc_view *out = &call->out;
  int64_t n = count(out);
  if (n == 0) return TC_OK;
  ticket *tickets = tc_malloc((size_t)n * sizeof *tickets);
  if (!tickets) return tc_fail(TC_ERR_MEMORY, "randperm", 0, "no memory to sort %lld elements", (long long)n);
  for (int64_t i = 0; i < n; i++) tickets[i] = (ticket){draw_u64(call->arg, i), i};
  qsort(tickets, (size_t)n, sizeof *tickets, compare_tickets);
  for (int64_t i = 0; i < n; i++) tc_set_i64(out->type, out->ptr, i, tickets[i].index);
  tc_free(tickets);
  return TC_OK;
}
