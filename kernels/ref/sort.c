// Order along an axis: positions of all elements, or of the first k, in ascending or descending
// order of their values.
//
// A value becomes an unsigned key of the same order, so that one stable sort serves every type. NaN
// is the largest, zeros of both signs are equal, and descending keys are inverted. An entry is one
// half of the key above a position: 64-bit keys are sorted by their low half, then by their high
// one. Long lanes use radix sort by bytes, least significant first, passing over bytes that are all
// equal. Short lanes are merged. The first k are found by counting bytes, most significant first.
// Each step leaves fewer candidates, and only they are sorted.
// Invariants: equal elements keep their order. A lane has at most 2^32 elements
// (lazy/record/record_fold.c).
// Threads: thread-safe, pure.
// Owner: nothing but its scratch.
#include <math.h>
#include <string.h>

#include "kernels/ref/convert.h"
#include "kernels/ref/lane.h"
#include "kernels/ref/share.h"
#include "runtime/arena.h"

enum { RADIX_LEAST = 256, RUN = 8, BYTE = 256 };

// ---- Keys ----

static uint64_t key_of_f64(double v) {
  uint64_t bits;
  v += 0.0;  // -0 becomes 0
  memcpy(&bits, &v, sizeof bits);
  return v != v ? UINT64_MAX : bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}

static uint64_t key_of_f32(float v) {
  uint32_t bits;
  v += 0.0f;
  memcpy(&bits, &v, sizeof bits);
  return v != v ? UINT32_MAX : bits ^ ((uint32_t)((int32_t)bits >> 31) | UINT32_C(1) << 31);
}

static int key_bits(tc_type type) {
  return type == TC_F64 || type == TC_I64 ? 64 : 32;
}

// Loads a lane's keys, in the order that is asked for.
static void load_keys(tc_type type, const void *p, int64_t at, int64_t step, int64_t n, bool descending,
                      uint64_t *key) {
  uint64_t flip = !descending ? 0 : key_bits(type) == 64 ? UINT64_MAX : UINT32_MAX;
  if (type == TC_F32) {
    const float *x = (const float *)p + at;
    for (int64_t i = 0; i < n; i++) key[i] = key_of_f32(x[i * step]) ^ flip;
    return;
  }
  for (int64_t i = 0; i < n; i += TC_SPAN) {
    int64_t m = TC_MIN(TC_SPAN, n - i);
    double x[TC_SPAN];
    int64_t w[TC_SPAN];
    if (tc_ref_is_float(type)) {
      tc_load_f64(type, p, at + i * step, step, m, x);
      for (int64_t k = 0; k < m; k++) key[i + k] = (type == TC_F64 ? key_of_f64(x[k]) : key_of_f32((float)x[k])) ^ flip;
    } else {
      tc_load_i64(type, p, at + i * step, step, m, w);
      for (int64_t k = 0; k < m; k++)
        key[i + k] = (type == TC_I64 ? (uint64_t)w[k] ^ UINT64_C(1) << 63 : (uint32_t)w[k] ^ UINT32_C(1) << 31) ^ flip;
    }
  }
}

// ---- A stable sort of entries by their upper halves ----

static void sort_short(uint64_t *a, uint64_t *b, int64_t n) {
  for (int64_t run = 0; run < n; run += RUN)
    for (int64_t i = run + 1; i < TC_MIN(run + RUN, n); i++) {
      uint64_t x = a[i];
      int64_t k = i;
      for (; k > run && a[k - 1] >> 32 > x >> 32; k--) a[k] = a[k - 1];
      a[k] = x;
    }
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      int64_t mid = TC_MIN(lo + width, n), hi = TC_MIN(lo + 2 * width, n), i = lo, j = mid;
      for (int64_t k = lo; k < hi; k++) {
        bool left = i < mid && (j == hi || a[i] >> 32 <= a[j] >> 32);
        b[k] = left ? a[i] : a[j];
        i += left, j += !left;
      }
    }
    memcpy(a, b, (size_t)n * sizeof *a);
  }
}

static void sort_long(uint64_t *a, uint64_t *b, int64_t n) {
  int64_t count[4][BYTE] = {{0}};
  uint64_t *from = a, *to = b;
  for (int64_t i = 0; i < n; i++)
    for (int d = 0; d < 4; d++) count[d][a[i] >> (32 + 8 * d) & 255]++;
  for (int d = 0; d < 4; d++) {
    int64_t sum = 0, *at = count[d];
    if (at[from[0] >> (32 + 8 * d) & 255] == n) continue;
    for (int v = 0; v < BYTE; v++) {
      int64_t here = at[v];
      at[v] = sum, sum += here;
    }
    for (int64_t i = 0; i < n; i++) to[at[from[i] >> (32 + 8 * d) & 255]++] = from[i];
    uint64_t *was = from;
    from = to, to = was;
  }
  if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

// a holds n positions, those of equal keys in ascending order. Puts them in the order of their
// keys. b is scratch.
static void sort_positions(const uint64_t *key, int bits, int64_t n, uint64_t *a, uint64_t *b) {
  for (int low = 0; low < bits; low += 32) {
    for (int64_t i = 0; i < n; i++) {
      uint64_t at = a[i] & UINT32_MAX;
      a[i] = (key[at] >> low & UINT32_MAX) << 32 | at;
    }
    (n < RADIX_LEAST ? sort_short : sort_long)(a, b, n);
  }
  for (int64_t i = 0; i < n; i++) a[i] &= UINT32_MAX;
}

// ---- The first k ----

// Returns the bucket that holds the need-th counted element; *need becomes its number there.
static unsigned bucket_of(const int64_t *count, int64_t *need) {
  unsigned v = 0;
  for (; count[v] < *need; v++) *need -= count[v];
  return v;
}

// Writes the positions of the k smallest of n keys into a, those of equal keys in ascending order.
// The largest of them comes last. b is scratch. pre: 0 < k <= n.
static void select_positions(const uint64_t *key, int bits, int64_t n, int64_t k, uint64_t *a, uint64_t *b) {
  int64_t taken = 0, left = n, need = k;
  for (int shift = bits - 8; shift >= 0; shift -= 8) {
    int64_t count[BYTE] = {0}, kept = 0;
    bool first = shift == bits - 8;  // every position is a candidate, and none is written yet
    for (int64_t i = 0; i < left; i++) count[key[first ? i : (int64_t)b[i]] >> shift & 255]++;
    unsigned edge = bucket_of(count, &need);
    for (int64_t i = 0; i < left; i++) {
      uint64_t at = first ? (uint64_t)i : b[i];
      unsigned v = key[at] >> shift & 255;
      if (v > edge) continue;
      if (v < edge)
        a[taken++] = at;
      else
        b[kept++] = at;
    }
    left = kept;
  }
  memcpy(a + taken, b, (size_t)need * sizeof *a);  // all that are left are equal
}

// ---- The kernels ----

// kth: only the last of the first kth is written; 0: all that the result has room for.
static tc_status order_axis(const tc_ref_call *call, const char *name, int64_t kth) {
  tc_view in = call->in[0], out = call->out;
  uint64_t axis = call->attr[0];
  tc_share share;
  tc_lanes l;
  if (!tc_share_find(call, (int)axis, false, &share)) return TC_OK;
  if (share.axis >= 0)
    in = tc_share_slice(&in, share.axis, share.lo, share.hi),
    out = tc_share_slice(&out, share.axis, share.lo, share.hi);
  tc_lanes_begin(&l, &in, &out, axis, 1);
  int64_t n = l.n, k = kth ? kth : out.rank ? out.dim[axis] : 1;
  if (n == 0 || k == 0) return TC_OK;
  int bits = key_bits(in.type);
  uint64_t *key = tc_malloc((size_t)n * 3 * sizeof *key), *a = key + n, *b = a + n;
  if (!key) return tc_fail(TC_ERR_MEMORY, name, 0, "no memory to sort %lld elements", (long long)n);
  while (tc_walk_next(&l.walk)) {
    load_keys(in.type, in.ptr, l.walk.offset[0], l.in_step, n, call->attr[1] != 0, key);
    if (kth) {
      select_positions(key, bits, n, k, a, b);
      ((int64_t *)out.ptr)[l.walk.offset[1]] = (int64_t)a[k - 1];
      continue;
    }
    if (k < n)
      select_positions(key, bits, n, k, a, b);
    else
      for (int64_t i = 0; i < n; i++) a[i] = (uint64_t)i;
    sort_positions(key, bits, k, a, b);
    for (int64_t i = 0; i < k; i++) ((int64_t *)out.ptr)[l.walk.offset[1] + i * l.out_step] = (int64_t)a[i];
  }
  tc_free(key);
  return TC_OK;
}

tc_status tc_ref_argsort(const tc_ref_call *call) {
  return order_axis(call, "argsort", 0);
}

tc_status tc_ref_argtopk(const tc_ref_call *call) {
  return order_axis(call, "argtopk", 0);
}

tc_status tc_ref_argkth(const tc_ref_call *call) {
  return order_axis(call, "kthvalue", (int64_t)call->arg[call->attr[0]] + 1);
}
