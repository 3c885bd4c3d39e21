// The words of the dialect that are functions (words.h): what threads ask of each other,
// asynchronous copies, conversions; and the table by which a kernel's object finds them.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/math.h"
#include "tests/sim/run.h"

#define B (&sim_run_block)
#define SITE (B->now->at ? (const void *)B->now->at : __builtin_return_address(0))

// ---- where a thread is ----

static int thread_word(void) {
  return B->now->id;
}

static int block_word(void) {
  return B->block;
}

static int rank_word(void) {
  return B->now->rank;
}

static int blocks_word(void) {
  return B->n_blocks;
}

static uint8_t *shared_word(int bytes) {
  if ((unsigned)bytes > B->launch->shared) {
    sim_kernel_fault("launch", SITE, "with %u bytes of shared memory, but it uses %d", B->launch->shared, bytes);
    sim_kill(SIM_ILLEGAL_ADDRESS);
  }
  return B->shared;
}

// ---- meetings ----

static void sync_word(int line) {
  B->now->line = line;
  B->now->site = SITE;
  sim_yield(SIM_AT_BARRIER);
}

static void sync_cluster_word(int line) {
  B->now->line = line;
  B->now->site = SITE;
  sim_yield(SIM_AT_CLUSTER);
}

// The same place in the memory of another block of the cluster.
static void *of_block_word(const void *shared, int rank) {
  if (!sim_is_shared((uintptr_t)shared, 1) || rank < 0 || rank >= B->n_ranks) {
    sim_kernel_fault("out of bounds", SITE, "%p in the memory of block %d of a cluster of %d", shared, rank,
                     B->n_ranks);
    sim_kill(SIM_ILLEGAL_ADDRESS);
  }
  return B->all_shared + (size_t)rank * SIM_SHARED_STRIDE + ((const uint8_t *)shared - B->shared);
}

// Waits for the others that the mask names.
static sim_thread *meet(sim_meeting meeting, uint64_t mask, int width, int line, const void *site) {
  sim_thread *t = B->now;
  uint64_t all = sim_option.warp == 64 ? ~0ull : (1ull << sim_option.warp) - 1;
  t->meeting = meeting;
  t->mask = mask & all;
  t->width = width;
  t->line = line;
  t->site = site;
  if (!(t->mask >> t->lane & 1)) {
    sim_kernel_fault("wrong mask", site, "lane %d is not in its own mask 0x%llx", t->lane, (unsigned long long)mask);
    sim_kill(SIM_LAUNCH_FAILED);
  }
  sim_yield(SIM_AT_MEETING);
  return t;
}

void sim_meet_warp(sim_meeting meeting, int width, int line, const void *site) {
  meet(meeting, ~0ull, width, line, site);
}

static void sync_warp_word(uint64_t mask, int line) {
  meet(SIM_SYNC_WARP, mask, 0, line, SITE);
}

static uint32_t down_word(uint64_t mask, uint32_t v, int delta, int width, int line) {
  B->now->value = v;
  B->now->arg = delta;
  return meet(SIM_DOWN, mask, width, line, SITE)->result[0];
}

static uint32_t from_word(uint64_t mask, uint32_t v, int lane, int width, int line) {
  B->now->value = v;
  B->now->arg = lane;
  return meet(SIM_FROM, mask, width, line, SITE)->result[0];
}

static bool exchange(sim_thread *const *who, int n) {
  sim_thread *at[SIM_MAX_WARP] = {NULL};
  for (int i = 0; i < n; i++) at[who[i]->lane] = who[i];
  for (int i = 0; i < n; i++) {
    sim_thread *t = who[i];
    if (t->width < 1 || t->width > sim_option.warp || (t->width & (t->width - 1)) ||
        (t->meeting == SIM_DOWN && t->arg < 0)) {
      B->now = t;
      sim_kernel_fault("wrong width", t->site, "a segment of %d threads, %d down", t->width, t->arg);
      B->error = SIM_LAUNCH_FAILED;
      return false;
    }
    int segment = t->lane & ~(t->width - 1), from;
    if (t->meeting == SIM_DOWN) {
      from = t->lane + t->arg < segment + t->width ? t->lane + t->arg : t->lane;
    } else {
      from = segment + (t->arg & (t->width - 1));
    }
    const sim_thread *source = at[from];
    t->result[0] = source ? source->value : 0xffffffff;
    if (source) continue;
    B->now = t;
    sim_kernel_fault("wrong mask", t->site, "lane %d reads lane %d, which mask 0x%llx leaves out", t->lane, from,
                     (unsigned long long)t->mask);
  }
  return true;
}

// Memory accesses of these threads have an order now.
static void order_warp(sim_warp *w, sim_thread *const *who, int n) {
  w->clock++;
  int threads = B->block_threads - who[0]->warp * sim_option.warp;
  if (n == (threads < sim_option.warp ? threads : sim_option.warp)) {
    w->full = w->clock;
    return;
  }
  w->pairs = true;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) w->last[who[i]->lane][who[k]->lane] = w->clock;
  }
}

// Thread t gets of matrix m the elements (t / 4, 2 (t % 4)) and the next of its row, or transposed
// of its column.
static void load_matrices(sim_thread *const *who) {
  bool transposed = who[0]->width & 16;
  int n = who[0]->width & 15;
  for (int t = 0; t < 32; t++) {
    for (int m = 0; m < n; m++) {
      uint16_t pair[2];
      for (int k = 0; k < 2; k++) {
        int row = transposed ? 2 * (t % 4) + k : t / 4, column = transposed ? t / 4 : 2 * (t % 4) + k;
        memcpy(&pair[k], (const uint8_t *)who[m * 8 + row]->row + column * 2, 2);
      }
      who[t]->result[m] = pair[0] | (uint32_t)pair[1] << 16;
    }
  }
}

bool sim_meet(sim_warp *w, sim_thread *const *who, int n) {
  switch (who[0]->meeting) {
    case SIM_SYNC_WARP: order_warp(w, who, n); return true;
    case SIM_DOWN:
    case SIM_FROM: return exchange(who, n);
    case SIM_LDMATRIX: load_matrices(who); return true;
    case SIM_MMA: sim_mma(who, who[0]->width); return true;
    case SIM_MFMA: sim_mfma(who, who[0]->width); return true;
    case SIM_WGMMA: return sim_wgmma_begin(who);
    case SIM_WGMMA_WAIT: return sim_wgmma_end(who);
    case SIM_NO_MEETING: break;
  }
  return true;
}

static void ldmatrix_word(uint32_t *r, const void *row, int n, int transposed, int line) {
  sim_thread *t = B->now;
  t->row = row;
  if (t->lane < 8 * n) {
    if (!sim_is_shared((uintptr_t)row, 16)) {
      sim_kernel_fault("out of bounds", SITE, "ldmatrix of a row at %p, which is not in the block's memory", row);
      sim_kill(SIM_ILLEGAL_ADDRESS);
    }
    sim_touch((uintptr_t)row, 16, SIM_READ, SITE);
  }
  meet(SIM_LDMATRIX, ~0ull, n | transposed << 4, line, SITE);
  for (int i = 0; i < n; i++) sim_touch((uintptr_t)&r[i], 4, SIM_WRITE, SITE);
  memcpy(r, t->result, (size_t)n * 4);
}

static void mma(float *d, const uint32_t *a, const uint32_t *b, int line, sim_meeting meeting, bool is_half,
                const void *site) {
  sim_thread *t = B->now;
  memcpy(t->d, d, sizeof t->d);
  memcpy(t->a, a, meeting == SIM_MMA ? sizeof t->a : sizeof t->b);
  memcpy(t->b, b, sizeof t->b);
  meet(meeting, ~0ull, is_half, line, site);
  memcpy(d, t->d, sizeof t->d);
}

static void mma_bf16_word(float *d, const uint32_t *a, const uint32_t *b, int line) {
  mma(d, a, b, line, SIM_MMA, false, SITE);
}

static void mma_f16_word(float *d, const uint32_t *a, const uint32_t *b, int line) {
  mma(d, a, b, line, SIM_MMA, true, SITE);
}

static void mfma_bf16_word(float *d, const uint32_t *a, const uint32_t *b, int line) {
  mma(d, a, b, line, SIM_MFMA, false, SITE);
}

static void mfma_f16_word(float *d, const uint32_t *a, const uint32_t *b, int line) {
  mma(d, a, b, line, SIM_MFMA, true, SITE);
}

// ---- memory ----

static void min_word(uint64_t *p, uint64_t v) {
  sim_touch((uintptr_t)p, 8, SIM_ATOMIC, SITE);
  if (v < *p) *p = v;
}

static uint64_t min_now_word(const uint64_t *p) {
  sim_touch((uintptr_t)p, 8, SIM_ATOMIC, SITE);
  return *p;
}

static void read_only_word(const void *p, int bytes) {
  sim_touch((uintptr_t)p, (unsigned)bytes, SIM_READ | SIM_READ_ONLY, SITE);
}

// The bytes are under way until the thread waits for them; what is there meanwhile is nothing.
static void copy_async_word(void *shared, const void *global, int bytes) {
  sim_thread *t = B->now;
  uintptr_t to = (uintptr_t)shared, from = (uintptr_t)global;
  if (to % 16 || (from % 16 && bytes > 0)) {
    sim_kernel_fault("misaligned", SITE, "an asynchronous copy from %p to %p", global, shared);
    sim_kill(SIM_MISALIGNED);
  }
  if (!sim_is_shared(to, 16) || (bytes > 0 && !sim_memory_device(from)) || bytes < 0 || bytes > 16) {
    sim_kernel_fault("out of bounds", SITE,
                     "an asynchronous copy of %d bytes from %p to %p: not from global to the block's memory", bytes,
                     global, shared);
    sim_kill(SIM_ILLEGAL_ADDRESS);
  }
  if (t->n_landing == SIM_MAX_COPIES) {
    sim_kernel_fault("copies", SITE, "more than %d asynchronous copies of one thread are under way", SIM_MAX_COPIES);
    sim_kill(SIM_LAUNCH_FAILED);
  }
  if (bytes > 0) sim_touch(from, (unsigned)bytes, SIM_READ | SIM_ANY_ALIGNMENT, SITE);
  sim_touch(to, 16, SIM_WRITE | SIM_ISSUE, SITE);
  memset(B->shared_state + (to - (uintptr_t)B->shared), SIM_COPYING, 16);
  memset(shared, 0xff, 16);
  t->landing[t->n_landing++] = (sim_landing){to, from, bytes, t->group};
}

static void commit_word(void) {
  B->now->group++;
}

static void wait_word(int n) {
  sim_thread *t = B->now;
  int kept = 0;
  for (int i = 0; i < t->n_landing; i++) {
    sim_landing *c = &t->landing[i];
    if (c->group >= t->group - n) {  // the last n groups, and what no group has yet
      t->landing[kept++] = *c;
      continue;
    }
    sim_touch(c->to, 16, SIM_WRITE | SIM_ISSUE, SITE);
    memcpy((void *)c->to, (const void *)c->from, (size_t)c->bytes);
    memset((uint8_t *)c->to + c->bytes, 0, (size_t)(16 - c->bytes));
  }
  t->n_landing = kept;
}

// ---- numbers ----

// To 1 sign bit, exponents from `least`, `digits` bits of fraction; nearest, ties to even.
static uint16_t narrow(double x, int least, int digits, uint16_t inf) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x)) return (uint16_t)(sign | inf | 1 << (digits - 1));
  x = fabs(x);
  if (x == 0 || isinf(x)) return (uint16_t)(sign | (x == 0 ? 0 : inf));
  int e = ilogb(x) < least ? least : ilogb(x);
  if (e > 200) return (uint16_t)(sign | inf);
  double fraction = rint(scalbn(x, digits - e));
  uint32_t bits = ((uint32_t)(e - least) << digits) + (uint32_t)fraction;
  return (uint16_t)(sign | (bits < inf ? bits : inf));
}

float sim_half_value(uint16_t h) {
  int e = h >> 10 & 31, fraction = h & 1023;
  float v = e == 31  ? (fraction ? NAN : INFINITY)
            : e == 0 ? scalbnf((float)fraction, -24)
                     : scalbnf((float)(fraction + 1024), e - 25);
  return h & 0x8000 ? -v : v;
}

float sim_bfloat_value(uint16_t h) {
  uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

// As the device's instruction, without subnormal results.
static float exp2_f32(float v) {
  float x = exp2f(v);
  return x < 0x1p-126f ? 0 : x;
}

static float f16_f32(uint32_t v) {
  return sim_half_value((uint16_t)v);
}

static float bf16_f32(uint32_t v) {
  return sim_bfloat_value((uint16_t)v);
}

uint16_t sim_half_of(double v) {
  return narrow(v, -14, 10, 0x7c00);
}

static uint16_t f32_f16(float v) {
  return sim_half_of((double)v);
}

uint16_t sim_bfloat_of(double v) {
  return narrow(v, -126, 7, 0x7f80);
}

static uint16_t f32_bf16(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  if (v != v) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// ---- the table ----

void *sim_word(const char *name) {
  static const struct word {
    const char *name;
    void *at;
  } table[] = {
#define F(name) {#name, (void *)name}
#define W(name, function) {#name, (void *)function}
#define TC_KIR_MATH(NAME, function, operands) {"tc_math_" #NAME, (void *)function},
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
      W(sim_thread, thread_word),
      W(sim_block, block_word),
      W(sim_blocks, blocks_word),
      W(sim_shared, shared_word),
      W(sim_rank, rank_word),
      W(sim_sync_cluster, sync_cluster_word),
      W(sim_of_block, of_block_word),
      W(sim_sync, sync_word),
      W(sim_sync_warp, sync_warp_word),
      W(sim_down, down_word),
      W(sim_from, from_word),
      W(sim_min_at, min_word),
      W(sim_min_now, min_now_word),
      W(sim_read_only, read_only_word),
      W(tc_copy_async_16, copy_async_word),
      W(tc_copy_commit, commit_word),
      W(tc_copy_wait, wait_word),
      W(sim_ldmatrix, ldmatrix_word),
      W(sim_mma_bf16, mma_bf16_word),
      W(sim_mma_f16, mma_f16_word),
      W(sim_mfma_bf16, mfma_bf16_word),
      W(sim_mfma_f16, mfma_f16_word),
      F(sim_gate_init),
      F(sim_gate_await),
      F(sim_map_ready),
      F(sim_fetch_box),
      F(sim_wgmma),
      F(sim_wgmma_wait),
      W(tc_f16_f32, f16_f32),
      W(tc_f32_f16, f32_f16),
      W(tc_f64_f16, sim_half_of),
      W(tc_bf16_f32, bf16_f32),
      W(tc_f32_bf16, f32_bf16),
      W(tc_f64_bf16, sim_bfloat_of),
      W(tc_exp2_f32, exp2_f32),
      F(fmaf),
      F(fma),
      F(sqrtf),
      F(sqrt),
      F(floorf),
      F(floor),
      F(ceilf),
      F(ceil),
      F(truncf),
      F(trunc),
      F(rintf),
      F(rint),
      F(fabsf),
      F(fabs),
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcasecmp(table[i].name, name) == 0) return table[i].at;  // the rows of libm.def are written in capitals
  }
  return sim_hook(name);
}
