// Emits elementwise kernels over one range: blocks of lanes, then a masked tail. The number of
// elements is an argument, so that one kernel serves every size.
//
// Example, n elements, 64 lanes:
//   loop k over whole blocks: load 64 elements, op, store
//   loop k over the tail: the same, masked
#include <limits.h>

#include "lowering/emit/emitters.h"
#include "lowering/emit/shorthand.h"
#include "lowering/target/cpu_target.h"
#include "lowering/target/host_cpu.h"

#define MAX_EVICTED 16  // operands counted at most
#define GPU_FLAT_LANES 1024
// Lanes in the interpreter. Its steps are serially dependent; longer blocks hide that latency.
// Measured: Zen 4, ten ops in the second-level cache: 64 lanes 40 us, 128 lanes 35, 256 lanes 30;
// compiled 13.
#define INTERPRETED_LANES TC_KIR_LANES
#define LINE_BYTES 64

typedef struct evicted_sources {
  const tc_emit_ctx *s;
  uint32_t node[MAX_EVICTED], n;
} evicted_sources;

static void note_evicted(void *arg, uint32_t source, bool moved) {
  evicted_sources *f = arg;
  if (moved || tc_emit_in_fusion(f->s, source) || !tc_emit_is_strided(&f->s->g->node[source]) || f->n == MAX_EVICTED)
    return;
  for (uint32_t i = 0; i < f->n; i++)
    if (f->node[i] == source) return;
  f->node[f->n++] = source;
}

// Finds the operands that are too large for a core's cache.
static evicted_sources find_evicted(const tc_emit_ctx *s) {
  evicted_sources f = {.s = s};
  for (uint32_t i = 0; i < s->gp->n_member; i++) tc_fusion_each_source(s->gr, s->gp->member[i], note_evicted, &f);
  return f;
}

// Returns whether the kernel is bound by arithmetic, not by reading those operands.
static bool is_arithmetic(const tc_emit_ctx *s, const evicted_sources *f) {
  double cost = 0;
  for (uint32_t i = 0; i < s->gp->n_member; i++) {
    const tc_gnode *x = &s->g->node[s->gp->member[i]];
    cost += tc_build_cost(x->op, tc_emit_compute_type(x->type));
  }
  return cost >= EXPENSIVE_COST * (double)f->n;
}

// Returns the lanes of a memory-bound kernel with several operands: one cache line of each, where a
// processor reads rows best side by side (host_cpu.h). Arithmetic-bound kernels keep the longer
// block.
// Measured: Zen 4, 1 thread, relu(a * b + c), share of the bandwidth of a + b: 64 lanes 80 to 86 %,
// 16 lanes 93 to 105 %. More: docs/measurements.md.
static int lanes_of_lines(const tc_emit_ctx *s, const evicted_sources *f, int lanes) {
  if (!tc_host_reads_rows() || !tc_compiler_compiles() || f->n < 2 || is_arithmetic(s, f)) return lanes;
  int line = 0;
  for (uint32_t i = 0; i < f->n; i++)
    line = TC_MAX_OF(line, LINE_BYTES / (int)tc_type_bytes(s->g->node[f->node[i]].type));
  for (uint32_t i = 0, n; tc_emit_next_member(s, &i, &n);) {
    if (tc_emit_must_store(s, n)) line = TC_MAX_OF(line, LINE_BYTES / (int)tc_type_bytes(s->g->node[n].type));
  }
  return TC_MIN(lanes, line);
}

void tc_emitter_elementwise(tc_emit_ctx *s) {
  int64_t n = s->gp->k;
  evicted_sources far = find_evicted(s);
  bool gpu = tc_target_is_gpu(s->target), interpreted = !gpu && tc_compiler_interprets();
  // with many sizes, most of them have whole blocks
  int block = tc_emit_power_for(s->g->any_size ? LANES : n, gpu           ? GPU_FLAT_LANES
                                                            : interpreted ? INTERPRETED_LANES
                                                                          : LANES);
  s->lanes = gpu || interpreted ? block : lanes_of_lines(s, &far, TC_MIN(block, tc_emit_lanes_of_work(s)));
  tc_emit_set_threads(s, s->lanes);
  s->vector = TC_RANGE_K;
  tc_val count = tc_emit_plan_number(s, (uint64_t)n);
  tc_val size = i64(s, block);
  tc_val begin = nullary(s, TC_IR_BEGIN);
  tc_val finish = nullary(s, TC_IR_FINISH);
  tc_val whole = bin(s, TC_IR_DIV, count, size);
  tc_val stop = mul(s, least(s, finish, whole), size);
  tc_val start = mul(s, begin, size);
  tc_emit_preload(s);
  s->bound[TC_RANGE_K] = true;
  s->at[TC_RANGE_K] = loop(s, start, stop, s->lanes);
  s->hints.stream = true, s->hints.n_prefetch = INT_MAX;
  // Only arithmetic-bound kernels prefetch: their arithmetic keeps the processor from running ahead
  // to the next loads.
  // Measured: Sapphire Rapids, 2 cores, share of the bandwidth of a + b: gelu 59 -> 83 %, but Adam
  // 84 -> 71 %. More: docs/measurements.md.
  if (!gpu && far.n > 0 && is_arithmetic(s, &far)) s->hints.prefetch_distance = PREFETCH_DISTANCE;
  tc_emit_stores(s);
  s->hints.stream = false, s->hints.prefetch_distance = 0;
  end(s);
  // The last, partial block belongs to the call whose range reaches the end.
  tc_val tail = select_val(s, bin(s, TC_IR_GT, finish, whole), mul(s, whole, size), count);
  s->at[TC_RANGE_K] = loop(s, tail, count, s->lanes);
  tc_emit_set_mask(s, s->at[TC_RANGE_K], count);
  tc_emit_stores(s);
  end(s);
  s->x->extent = tc_ceil_div(n, block);
}

void tc_emitter_elementwise_rows(tc_emit_ctx *s) {
  int64_t inner = s->split, k0 = s->gp->k / s->split;
  s->lanes = TC_MIN(tc_emit_power_for(inner, LANES), tc_emit_lanes_of_work(s));
  s->vector = TC_RANGE_K;
  int64_t blocks = tc_ceil_div(inner, s->lanes);
  tc_emit_preload(s);
  tc_emit_begin_rows(s, inner, blocks, k0);
  s->hints.stream = inner % s->lanes == 0;  // then lines are whole
  tc_emit_stores(s);
  s->hints.stream = false;
  end(s);
  s->x->extent = s->gp->a * k0 * blocks;
}
