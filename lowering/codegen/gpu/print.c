// The kernel as a whole: its head, which finds the group's units, the walk over the instructions,
// and the shape of a launch.
//
// Idea: the kernel says every operation, address and order, so each instruction is a line or a few
// of C; loops and ifs are C's. What the kernel leaves to the printer are barriers (barrier.c), the
// width of accesses (memory.c) and the movement of lanes between threads (reduce.c).
// Invariants: the text is the common subset of C and C++ that device/gpu/README.md describes; two
// equal kernels give the same text.
#include "lowering/codegen/gpu/print.h"

#include "lowering/codegen/gpu/text.h"
#include "lowering/kir/verify.h"
#include "runtime/arena.h"
#include "runtime/status.h"

// Loops of at most so many iterations are unrolled if they read or write a tile of lanes, which
// then stays in registers.
#define MOST_TURNS 16
// Loops whose iterations have more instructions are not unrolled by the compiler.
#define LONG_TURN 256

// ---- loops and what moves nothing ----

static bool touches_own(const tc_kir *n, const tc_kir_inst *i) {
  return (i->op == TC_IR_LOAD || i->op == TC_IR_STORE) && tc_gpu_is_of_lanes(n, i->imm);
}

static bool is_unrolled(const tc_gpu_text *t, uint32_t at) {
  const tc_kir *n = t->kir;
  const tc_kir_inst *i = &n->inst[at], *first = &n->inst[i->src[0]], *end = &n->inst[i->src[1]];
  if (first->op != TC_IR_CONST || end->op != TC_IR_CONST || end->imm - first->imm > MOST_TURNS * i->imm) return false;
  for (uint32_t k = at; k < t->end_of[at]; k++)
    if (touches_own(n, &n->inst[k])) return true;
  return false;
}

// A loop stays a loop if it has a barrier or long iterations. Compilers that unroll it whole move
// the loads of all iterations before the first, for which there are no registers.
// Measured: gfx1100, clang 19, 7x7 wgrad, 4 iterations of 640 instructions: stack 836 bytes -> 0.
static bool is_rolled(const tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *inst = t->kir->inst;
  if (inst[inst[at].src[0]].op != TC_IR_CONST || inst[inst[at].src[1]].op != TC_IR_CONST) return false;
  if (t->end_of[at] - at > LONG_TURN) return true;
  for (uint32_t k = at + 1; k <= t->end_of[at]; k++)
    if (t->barrier[k]) return true;
  return false;
}

static void print_loop(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const tc_gpu_name first = tc_gpu_element(t, i->src[0], 0);
  tc_gpu_name end = tc_gpu_element(t, i->src[1], 0);
  if (t->kir->inst[i->src[1]].op == TC_IR_VAR) {  // the bound is what it was when the loop began
    tc_gpu_line(t, "const i64 end%u = %s;\n", at, end.text);
    end = tc_gpu_named("end%u", at);
  }
  if (is_unrolled(t, at))
    tc_gpu_line(t, "TC_UNROLL\n");
  else if (is_rolled(t, at))
    tc_gpu_line(t, "TC_ROLLED\n");
  tc_gpu_line(t, "for (%s v%u = %s; v%u < %s; v%u += %lld) {\n", tc_gpu_is_narrow(t, at) ? "i32" : "i64", at,
              first.text, at, end.text, at, (long long)i->imm);
  t->depth++;
}

static void print_lanes(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned n = tc_gpu_width(t->kir, i->lanes);
  const char *as = tc_kir_type_bytes(i->dtype) < 4 ? tc_gpu_type(i->dtype) : "";
  for (unsigned k = 0; k < n; k++) {
    tc_gpu_define(t, at, k);
    if (*as != 0) tc_gpu_put(&t->body, "(%s)(", as);
    if (i->lanes == 1)
      tc_gpu_put(&t->body, "0");
    else if (n == 1)
      tc_gpu_put(&t->body, "lane");
    else
      tc_gpu_put(&t->body, "%u * lane + %u", n, k);
    if (*as != 0) tc_gpu_put(&t->body, ")");
  }
  tc_gpu_put(&t->body, ";\n");
}

static void print_num(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned word = t->kir->n_buf + (unsigned)i->imm;
  tc_gpu_define(t, at, 0);
  if (tc_kir_is_real(i->dtype))
    tc_gpu_put(&t->body, "(%s)tc_f64_bits(tc_table[%u]);\n", tc_gpu_type(i->dtype), word);
  else if (i->dtype == TC_BOOL)
    tc_gpu_put(&t->body, "tc_table[%u] != 0;\n", word);
  else
    tc_gpu_put(&t->body, "(%s)tc_table[%u];\n", tc_gpu_type(i->dtype), word);
}

static void print_copied(tc_gpu_text *t, uint32_t at, uint32_t from) {
  const unsigned n = tc_gpu_is_one(t, at) ? 1 : tc_gpu_width(t->kir, t->kir->inst[at].lanes);
  for (unsigned k = 0; k < n; k++) {
    tc_gpu_define(t, at, k);
    tc_gpu_put(&t->body, "%s", tc_gpu_element(t, from, k).text);
  }
  tc_gpu_put(&t->body, ";\n");
}

static void print_sums(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned n = tc_gpu_width(t->kir, i->lanes);
  tc_gpu_line(t, "%s v%u[%u] = {", tc_gpu_type(i->dtype), at, n);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%s%s", k > 0 ? ", " : "", tc_gpu_element(t, i->src[0], k).text);
  tc_gpu_put(&t->body, "};\n");
}

static void print_set(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const unsigned n = tc_gpu_is_one(t, i->src[0]) ? 1 : tc_gpu_width(t->kir, i->lanes);
  tc_gpu_indent(t);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%s%s = %s", k > 0 ? ", " : "", tc_gpu_element(t, i->src[0], k).text,
               tc_gpu_element(t, i->src[1], k).text);
  tc_gpu_put(&t->body, ";\n");
}

static void print_interleave(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const bool packed = tc_gpu_is_packed(t, at);
  const unsigned n = tc_gpu_width(t->kir, i->lanes);
  for (unsigned k = 0; k < n; k += packed ? 2 : 1) {
    tc_gpu_define(t, at, packed ? k / 2 : k);
    tc_gpu_put(&t->body, "%s", tc_gpu_element(t, i->src[k % 2], k / 2).text);
    if (packed) tc_gpu_put(&t->body, " | (u32)%s << 16", tc_gpu_element(t, i->src[1], k / 2).text);
  }
  tc_gpu_put(&t->body, ";\n");
}

static void print_extract(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  tc_gpu_define(t, at, 0);
  tc_gpu_put(&t->body, "%s;\n", tc_gpu_element(t, i->src[0], (unsigned)i->imm).text);
}

static void print_wait(tc_gpu_text *t, int64_t most) {
  tc_gpu_line(t, "tc_copy_wait(%d);\n", (int)most);
  tc_gpu_sync(t);
}

static void print_inst(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  if (t->barrier[at]) tc_gpu_sync(t);
  switch ((tc_kir_op)i->op) {
    case TC_IR_BEGIN:
    case TC_IR_FINISH:
      tc_gpu_define(t, at, 0);
      tc_gpu_put(&t->body, "%s;\n", i->op == TC_IR_BEGIN ? "begin" : "finish");
      break;
    case TC_IR_CONST:
    case TC_IR_PREFETCH: break;
    case TC_IR_NUM: print_num(t, at); break;
    case TC_IR_LANES: print_lanes(t, at); break;
    case TC_IR_LOOP: print_loop(t, at); break;
    case TC_IR_IF:
      tc_gpu_line(t, "if (%s) {\n", tc_gpu_element(t, i->src[0], 0).text);
      t->depth++;
      break;
    case TC_IR_ENDLOOP:
    case TC_IR_ENDIF:
      t->depth--;
      tc_gpu_line(t, "}\n");
      break;
    case TC_IR_VAR:
      if (t->sums[at])
        print_sums(t, at);
      else
        print_copied(t, at, i->src[0]);
      break;
    case TC_IR_SPLAT:
      if (t->kir->inst[i->src[0]].op == TC_IR_VAR) print_copied(t, at, i->src[0]);
      break;
    case TC_IR_SET: print_set(t, at); break;
    case TC_IR_INTERLEAVE: print_interleave(t, at); break;
    case TC_IR_EXTRACT: print_extract(t, at); break;
    case TC_IR_LOAD:
    case TC_IR_GATHER:
    case TC_IR_STORE:
    case TC_IR_SCATTER: tc_gpu_memory(t, at); break;
    case TC_IR_REDUCE: tc_gpu_reduce(t, at); break;
    case TC_IR_SHFL_XOR: tc_gpu_shfl_xor(t, at); break;
    case TC_IR_COPY: tc_gpu_tile_copy(t, at); break;
    case TC_IR_COMMIT: tc_gpu_line(t, "tc_copy_commit();\n"); break;
    case TC_IR_WAIT: print_wait(t, i->imm); break;
    case TC_IR_LDMATRIX:
    case TC_IR_MMA:
    case TC_IR_MFMA: tc_gpu_matrices(t, at); break;
    case TC_IR_TMA_LOAD:
    case TC_IR_TMA_WAIT:
    case TC_IR_WGMMA:
    case TC_IR_WGMMA_WAIT: tc_gpu_print_tma(t, at); break;
    default: tc_gpu_arith(t, at); break;
  }
}

// ---- memory of the block ----

static size_t up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

// Tiles lie where the kernel says. Behind them lie the two spaces that warps are combined in. They
// alternate, so one barrier does for a reduction. In a cluster the block's result lies behind the
// parts of its warps.
static void lay_out(tc_gpu_text *t) {
  const tc_kir *n = t->kir;
  size_t top = 0, space[2] = {0, 0};
  unsigned turn = 0;
  for (uint32_t k = 0; k < n->n_tile; k++) {
    const tc_kir_tile *tile = &n->tile[k];
    const size_t end = (size_t)tile->offset + (size_t)tile->n * tc_kir_type_bytes(tile->dtype);
    if (!tile->of_lanes && end > top) top = end;
  }
  for (uint32_t k = 0; k < n->n_inst && !t->warp_only; k++) {
    const tc_kir_inst *i = &n->inst[k];
    if (i->op != TC_IR_REDUCE || n->inst[i->src[0]].lanes == 1) continue;
    const size_t element = i->dtype == TC_BOOL ? 4 : tc_kir_type_bytes(i->dtype), lanes = n->inst[i->src[0]].lanes;
    const size_t bytes =
        (lanes / t->blocks + (t->blocks > 1 ? TC_GPU_NEIGHBOURS * tc_gpu_width(n, (unsigned)lanes) : 0)) * element;
    t->space[k] = turn++ & 1;
    if (bytes > space[t->space[k]]) space[t->space[k]] = bytes;
  }
  for (int k = 0; k < 2; k++) {
    t->space_at[k] = up(top, 16);
    if (space[k] > 0) top = t->space_at[k] + space[k];
  }
  t->gates_at = up(top, 16);
  if (n->stages > 0) top = t->gates_at + n->stages * sizeof(uint64_t);
  t->shared_bytes = (uint32_t)up(top, 16);
}

// ---- the kernel ----

static void put_memory(const tc_gpu_text *t, tc_gpu_out *out) {
  const tc_kir *n = t->kir;
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const char *type = tc_gpu_memory_type(n->buf_type[k]), *as = t->stored[k] ? "" : "const ";
    tc_gpu_put(out, "  %s%s *const b%u = (%s%s *)tc_global(tc_table[%u]);\n", as, type, k, as, type, k);
  }
  for (uint32_t k = 0; k < n->n_tile; k++) {
    const tc_kir_tile *tile = &n->tile[k];
    const char *type = tc_gpu_memory_type(tile->dtype);
    const int64_t mine = tile->n / n->threads;
    uint32_t lanes = 0;
    for (uint32_t j = 0; j < n->n_inst && lanes == 0; j++)
      if (touches_own(n, &n->inst[j]) && n->inst[j].imm == (int64_t)n->n_buf + k) lanes = n->inst[j].lanes;
    if (!tile->of_lanes)
      tc_gpu_put(out, "  %s *const tile%u = (%s *)(tc_shared + %lld);\n", type, k, type, (long long)tile->offset);
    else if (lanes > 0 && tc_kir_is_half(tile->dtype) && lanes > n->threads)
      tc_gpu_put(out, "  u32 own%u[%lld];\n", k, (long long)mine / 2);
    else if (lanes > 0)
      tc_gpu_put(out, "  %s own%u[%lld];\n", type, k, (long long)mine);
  }
}

static void put_head(const tc_gpu_text *t, const char *name, tc_gpu_out *out) {
  const tc_kir *n = t->kir;
  const unsigned word = n->n_buf + n->n_num;
  if (t->blocks > 1)
    tc_gpu_put(out, "TC_KERNEL_CLUSTER(%s, %u, %u) {\n", name, n->threads / t->blocks, t->blocks);
  else
    tc_gpu_put(out, "TC_KERNEL(%s, %u) {\n", name, n->threads * n->groups);
  if (t->shared_bytes > 0) tc_gpu_put(out, "  TC_SHARED(%u);\n", t->shared_bytes);
  tc_gpu_put(out, "  const u64 *const fault = (const u64 *)tc_global(tc_table[%u]);\n", word + TC_GPU_WORD_FAULT);
  tc_gpu_put(out, "  if (fault != 0 && *fault != ~(u64)0) return;\n");
  if (n->groups > 1)
    tc_gpu_put(out, "  const i32 lane = TC_THREAD %% %u;\n", n->threads);
  else if (t->blocks > 1)
    tc_gpu_put(out, "  const i32 lane = TC_THREAD / %u * %u + TC_RANK * %u + TC_THREAD %% %u;\n", TC_GPU_NEIGHBOURS,
               TC_GPU_NEIGHBOURS * t->blocks, TC_GPU_NEIGHBOURS, TC_GPU_NEIGHBOURS);
  else
    tc_gpu_put(out, "  const i32 lane = TC_THREAD;\n");
  if (t->peers && t->warp_only)
    tc_gpu_put(out, "  const u64 peers = 0x%llxull << TC_THREAD %% TC_WARP / %u * %u;\n",
               n->threads == 64 ? ~0ull : (1ull << n->threads) - 1, n->threads, n->threads);
  else if (t->peers)
    tc_gpu_put(out, "  const u64 peers = ((u64)2 << (TC_WARP - 1)) - 1;\n");
  tc_gpu_put(out, "  const i64 extent = (i64)tc_table[%u], chunk = (i64)tc_table[%u];\n", word + TC_GPU_WORD_EXTENT,
             word + TC_GPU_WORD_CHUNK);
  if (n->groups > 1)
    tc_gpu_put(out, "  const i64 begin = ((i64)TC_BLOCK * %u + TC_THREAD / %u) * chunk;\n", n->groups, n->threads);
  else if (t->blocks > 1)
    tc_gpu_put(out, "  const i64 begin = (i64)(TC_BLOCK / %u) * chunk;\n", t->blocks);
  else
    tc_gpu_put(out, "  const i64 begin = (i64)TC_BLOCK * chunk;\n");
  tc_gpu_put(out, "  if (begin >= extent) return;\n");
  tc_gpu_put(out, "  const i64 finish = extent - begin < chunk ? extent : begin + chunk;\n");
  put_memory(t, out);
  if (n->n_map > 0) tc_gpu_put_gates(t, out);
}

static tc_status prepare(tc_gpu_text *t, tc_arena *arena) {
  const size_t n = (size_t)t->kir->n_inst + 1;
  t->end_of = tc_arena_alloc(arena, n * sizeof *t->end_of);
  t->multiple = tc_arena_alloc(arena, n * sizeof *t->multiple);
  t->range = tc_arena_alloc(arena, n * sizeof *t->range);
  t->plain = tc_arena_alloc(arena, n);
  t->barrier = tc_arena_alloc(arena, n);
  t->space = tc_arena_alloc(arena, n);
  t->sums = tc_arena_alloc(arena, n);
  t->stored = tc_arena_alloc(arena, (size_t)t->kir->n_buf + 1);
  uint32_t *open = tc_arena_alloc(arena, n * sizeof *open), n_open = 0;
  if (!t->end_of || !t->multiple || !t->range || !t->plain || !t->barrier || !t->space || !t->sums || !t->stored ||
      !open)
    return TC_ERR_MEMORY;
  for (uint32_t k = 0; k < t->kir->n_inst; k++) {
    const unsigned op = t->kir->inst[k].op;
    if (op == TC_IR_WGMMA) t->sums[t->kir->inst[k].src[2]] = 1;
    if (tc_kir_is(&t->kir->inst[k], TC_KIR_OPENS)) open[n_open++] = k;
    if (tc_kir_is(&t->kir->inst[k], TC_KIR_CLOSES)) t->end_of[open[--n_open]] = k;
  }
  t->warp_only = t->kir->groups > 1 || t->kir->threads <= 32;
  t->blocks = t->kir->cluster > 1 ? t->kir->cluster : 1;
  t->depth = 1;
  tc_gpu_find_facts(t);
  lay_out(t);
  return tc_gpu_find_barriers(t);
}

tc_status tc_gpu_print(const tc_kir *kir, const char *name, char **out_source, tc_gpu_shape *shape) {
  char why[256];
  tc_arena arena = {0};
  tc_gpu_text t = {.kir = kir};
  tc_gpu_out out = {0};
  *out_source = NULL;
  tc_status st = tc_kir_verify(kir, why, sizeof why);
  if (st != TC_OK) return TC_FAIL(st, "kernel %s: %s", name, why);
  if (kir->threads == 0) return TC_FAIL(TC_ERR_ARG, "kernel %s: a kernel without threads is not a GPU's", name);
  if ((st = prepare(&t, &arena)) == TC_OK) {
    for (uint32_t k = 0; k < kir->n_inst; k++) print_inst(&t, k);
    if (t.blocks > 1) tc_gpu_sync(&t);  // no block's memory goes while another one reads it
    tc_gpu_put(&out, "#include \"tc_words.h\"\n\n");
    if (t.helpers.n > 0) tc_gpu_put(&out, "%s\n", t.helpers.at);
    put_head(&t, name, &out);
    tc_gpu_put(&out, "%s}\n", t.body.n > 0 ? t.body.at : "");
    if (out.failed || t.body.failed || t.helpers.failed) st = TC_ERR_MEMORY;
  }
  tc_arena_fini(&arena);
  tc_free(t.helpers.at);
  tc_free(t.body.at);
  if (st != TC_OK) {
    tc_free(out.at);
    return TC_FAIL(st, "no room for the text of kernel %s", name);
  }
  *shape = (tc_gpu_shape){
      .threads = (uint32_t)kir->threads * kir->groups / t.blocks, .groups = kir->groups, .cluster = t.blocks};
  shape->shared_bytes = t.shared_bytes;
  shape->n_map = kir->n_map;
  for (uint32_t k = 0; k < kir->n_map; k++) shape->map[k] = kir->map[k];
  *out_source = out.at;
  return TC_OK;
}
