// Checks kernels in one walk over the instructions. ops.def says which rule and which types an op
// has. See verify.h.
#include "lowering/kir/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "lowering/kir/lookup_tables.h"
#include "runtime/arena.h"
#include "runtime/status.h"

static const char *name_of_type(unsigned type) {
  return tc_type_name((tc_type)type);
}

// The words of ops.def's types.
#define SET_OF(type) (1u << (type))
#define TYPES_BOOL SET_OF(TC_BOOL)
#define TYPES_I32 SET_OF(TC_I32)
#define TYPES_I64 SET_OF(TC_I64)
#define TYPES_F32 SET_OF(TC_F32)
#define TYPES_F64 SET_OF(TC_F64)
#define TYPES_INT (SET_OF(TC_U8) | SET_OF(TC_I8) | SET_OF(TC_I16) | TYPES_I32 | TYPES_I64)
#define TYPES_BITS (TYPES_INT | TYPES_BOOL)
#define TYPES_FLOAT (TYPES_F32 | TYPES_F64)
#define TYPES_NUMBER (TYPES_INT | TYPES_FLOAT)
#define TYPES_COMPUTED (TYPES_NUMBER | TYPES_BOOL)  // what a register computes with
#define TYPES_HALVES (SET_OF(TC_F16) | SET_OF(TC_BF16))
#define TYPES_ANY (TYPES_COMPUTED | TYPES_HALVES)  // what memory may hold

typedef struct check {
  const tc_kir *kir;
  // The LOOP or IF an instruction is in, TC_NONE at the top; a LOOP's value is in its own scope,
  // see check_source.
  uint32_t *scope;
  uint8_t *closed;  // true: the end of this LOOP or IF was met
  uint32_t open;     // innermost open LOOP or IF
  uint32_t at;
  const tc_kir_inst *inst;  // the instruction at `at`
  uint32_t *tile_lanes;  // lanes of the vectors met so far, for each tile of lanes
  tc_kir_tmm tmm[TC_KIR_TMMS];  // shapes of the tile registers met so far
  char *text;
  size_t bytes;
} check;

__attribute__((format(printf, 2, 3), cold)) static tc_status refuse(const check *c, const char *fmt, ...) {
  if (c->bytes == 0) return TC_ERR_ARG;
  int n = 0;
  if (c->at < c->kir->n_inst)
    n = snprintf(c->text, c->bytes, "instruction %u (%s): ", c->at, tc_kir_op_name((tc_kir_op)c->kir->inst[c->at].op));
  if (n < 0 || (size_t)n >= c->bytes) return TC_ERR_ARG;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(c->text + n, c->bytes - (size_t)n, fmt, args);
  va_end(args);
  return TC_ERR_ARG;
}

// Checks that operand k exists, precedes, is visible, is a value, and has this type and lanes.
static tc_status check_source(const check *c, int k, unsigned type, unsigned lanes) {
  const uint32_t v = c->inst->src[k];
  if (v == TC_NONE) return refuse(c, "operand %d is missing", k);
  if (v >= c->at) return refuse(c, "operand %d, %%%u, does not precede its use", k, v);
  const tc_kir_inst *s = &c->kir->inst[v];
  if (!tc_kir_has_value(s))
    return refuse(c, "operand %d, %%%u, is a %s, which has no value", k, v, tc_kir_op_name((tc_kir_op)s->op));
  const uint32_t scope = s->op == TC_IR_LOOP ? v : c->scope[v];
  if (scope != TC_NONE && c->closed[scope])
    return refuse(c, "operand %d, %%%u, is not visible: the loop or if of %%%u has ended", k, v, scope);
  if (s->dtype != type)
    return refuse(c, "operand %d, %%%u, is %s, not %s", k, v, name_of_type(s->dtype), name_of_type(type));
  if (s->lanes != lanes) return refuse(c, "operand %d, %%%u, has %u lanes, not %u", k, v, s->lanes, lanes);
  return TC_OK;
}

static tc_status check_type(const check *c, unsigned type, unsigned set) {
  return set & SET_OF(type) ? TC_OK : refuse(c, "type %s is not allowed here", name_of_type(type));
}

// Type and lanes of operand k; `other` where it does not precede, which check_source reports.
static unsigned operand_type(const check *c, int k, unsigned other) {
  const uint32_t v = c->inst->src[k];
  return v < c->at ? c->kir->inst[v].dtype : other;
}

static unsigned operand_lanes(const check *c, int k, unsigned other) {
  const uint32_t v = c->inst->src[k];
  return v < c->at ? c->kir->inst[v].lanes : other;
}

// Checks the mask operand, if there is one.
static tc_status check_mask(const check *c, unsigned lanes) {
  return tc_kir_mask_of(c->inst) == TC_NONE ? TC_OK : check_source(c, tc_kir_op_of(c->inst)->mask, TC_BOOL, lanes);
}

static tc_status check_buffer(const check *c, bool typed) {
  const tc_kir *n = c->kir;
  const tc_kir_inst *i = c->inst;
  if (i->imm < 0 || i->imm >= (int64_t)n->n_buf + n->n_tile)
    return refuse(c, "buffer %" PRId64 " of %u and %u tiles", i->imm, n->n_buf, n->n_tile);
  const int64_t at = i->imm - n->n_buf;
  const unsigned type = at < 0 ? n->buf_type[i->imm] : n->tile[at].dtype;
  if (typed && type != i->dtype)
    return refuse(c, "buffer %" PRId64 " holds %s, not %s", i->imm, name_of_type(type), name_of_type(i->dtype));
  if (at < 0 || !n->tile[at].of_lanes || !typed) return TC_OK;
  if (!tc_kir_is(i, TC_KIR_LOADS | TC_KIR_STORES) || tc_kir_is(i, TC_KIR_INDEXED) || i->lanes < n->threads)
    return refuse(c, "tile %" PRId64 " is of whole vectors", at);
  if (tc_kir_mask_of(i) != TC_NONE) return refuse(c, "tile %" PRId64 " is of whole vectors, without masks", at);
  const uint32_t of = c->tile_lanes[at];
  if (of != 0 && of != i->lanes)
    return refuse(c, "tile %" PRId64 " is of vectors of %u lanes, not %u", at, of, i->lanes);
  if (n->tile[at].n % i->lanes != 0)
    return refuse(c, "tile %" PRId64 " of %" PRId64 " elements is not of whole vectors", at, n->tile[at].n);
  c->tile_lanes[at] = i->lanes;
  return TC_OK;
}

// The lanes of the address operand of a GATHER or SCATTER: as many as the value, or one a thread.
static unsigned index_lanes(const check *c) {
  const unsigned threads = c->kir->threads;
  return threads > 0 && operand_lanes(c, 0, 0) == threads ? threads : c->inst->lanes;
}

static tc_status check_shared_tile(const check *c, uint64_t tile) {
  const tc_kir *n = c->kir;
  if (tile >= n->n_tile) return refuse(c, "tile %" PRIu64 " of %u", tile, n->n_tile);
  if (n->tile[tile].of_lanes) return refuse(c, "tile %" PRIu64 " is of whole vectors", tile);
  if (n->tile[tile].dtype != c->inst->dtype)
    return refuse(c, "tile %" PRIu64 " holds %s, not %s", tile, name_of_type(n->tile[tile].dtype),
                  name_of_type(c->inst->dtype));
  return TC_OK;
}

// Checks that operand k is a variable that WGMMA accumulates into.
static tc_status check_sums(const check *c, int k) {
  const unsigned threads = c->kir->threads;
  const uint32_t v = c->inst->src[k];
  if (threads % 128 != 0) return refuse(c, "%u threads are not whole groups of 128", threads);
  if (v >= c->at || c->kir->inst[v].op != TC_IR_VAR) return refuse(c, "operand %d is not a variable", k);
  const unsigned lanes = c->kir->inst[v].lanes;
  if (lanes != 32 * threads && lanes != 64 * threads && lanes != 128 * threads)
    return refuse(c, "%u lanes of %u threads are no sums", lanes, threads);
  return check_source(c, k, TC_F32, lanes);
}

static tc_status check_lanes(const check *c, unsigned lanes) {
  const unsigned op = c->inst->op, each = op == TC_IR_VAR || op == TC_IR_SPLAT ? 128 : 32;
  const unsigned threads = c->kir->threads, most = threads > 0 ? each * threads : TC_KIR_LANES;
  if (lanes == 0 || lanes > most || (lanes & (lanes - 1)) != 0) return refuse(c, "%u lanes", lanes);
  if (lanes > 1 && lanes < threads) return refuse(c, "%u lanes for %u threads", lanes, threads);
  return TC_OK;
}

// Checks a matrix multiply of `warp` threads. left: elements of the left operand a thread.
static tc_status check_product(const check *c, unsigned warp, unsigned left) {
  const unsigned threads = c->kir->threads, type = operand_type(c, 0, TC_BF16);
  TC_TRY(check_type(c, type, TYPES_HALVES));
  if (threads % warp != 0) return refuse(c, "%u threads are not whole warps", threads);
  if (c->inst->lanes != 4 * threads) return refuse(c, "%u lanes are not 4 a thread", c->inst->lanes);
  TC_TRY(check_source(c, 0, type, left * threads));
  TC_TRY(check_source(c, 1, type, 4 * threads));
  return check_source(c, 2, TC_F32, c->inst->lanes);
}

// ---- the rules of ops.def: what is checked besides operands' number, result and types ----

static tc_status rule_nothing(check *c) {
  (void)c;
  return TC_OK;
}

// Checks that every operand has the result's type and lanes.
static tc_status rule_same(check *c) {
  const int n = tc_kir_n_operands(c->inst);
  for (int k = 0; k < n; k++) TC_TRY(check_source(c, k, c->inst->dtype, c->inst->lanes));
  return TC_OK;
}

static tc_status rule_const(check *c) {
  if (c->inst->dtype == TC_BOOL && c->inst->imm != 0 && c->inst->imm != 1)
    return refuse(c, "bool %" PRId64 " is neither 0 nor 1", c->inst->imm);
  return TC_OK;
}

static tc_status rule_num(check *c) {
  const int64_t number = c->inst->imm;
  return number >= 0 && number < c->kir->n_num ? TC_OK : refuse(c, "number %" PRId64 " of %u", number, c->kir->n_num);
}

static tc_status rule_loop(check *c) {
  const int64_t step = c->inst->imm;
  if (step <= 0) return refuse(c, "step %" PRId64 " is not positive", step);
  TC_TRY(check_source(c, 0, TC_I64, 1));
  TC_TRY(check_source(c, 1, TC_I64, 1));
  c->open = c->at;
  return TC_OK;
}

static tc_status rule_if(check *c) {
  TC_TRY(check_source(c, 0, TC_BOOL, 1));
  c->open = c->at;
  return TC_OK;
}

static tc_status rule_end(check *c) {
  const tc_kir_inst *inst = c->kir->inst;
  const bool loop = inst[c->at].op == TC_IR_ENDLOOP;
  if (c->open == TC_NONE || inst[c->open].op != (loop ? TC_IR_LOOP : TC_IR_IF))
    return refuse(c, "does not end what is open");
  c->closed[c->open] = 1;
  c->open = c->scope[c->open];
  return TC_OK;
}

static tc_status rule_set(check *c) {
  const uint32_t v = c->inst->src[0];
  if (v >= c->at || c->kir->inst[v].op != TC_IR_VAR) return refuse(c, "operand 0 is not a variable");
  const tc_kir_inst *var = &c->kir->inst[v];
  TC_TRY(check_source(c, 0, var->dtype, var->lanes));
  return check_source(c, 1, var->dtype, var->lanes);
}

static tc_status rule_splat(check *c) {
  return check_source(c, 0, c->inst->dtype, 1);
}

static tc_status rule_access(check *c) {
  const bool indexed = tc_kir_is(c->inst, TC_KIR_INDEXED);
  const unsigned at_lanes = indexed ? index_lanes(c) : 1;
  TC_TRY(check_buffer(c, true));
  TC_TRY(check_source(c, 0, TC_I64, at_lanes));
  if (tc_kir_is(c->inst, TC_KIR_STORES)) TC_TRY(check_source(c, 1, c->inst->dtype, c->inst->lanes));
  return check_mask(c, indexed ? at_lanes : c->inst->lanes);
}

static tc_status rule_prefetch(check *c) {
  TC_TRY(check_buffer(c, false));
  return check_source(c, 0, TC_I64, 1);
}

static tc_status rule_dot(check *c) {
  for (int k = 0; k < 2; k++) TC_TRY(check_source(c, k, TC_I32, c->inst->lanes));
  return check_source(c, 2, TC_F32, c->inst->lanes);
}

static tc_status rule_dot4(check *c) {
  if (c->inst->imm & ~(int64_t)3) return refuse(c, "%lld are no signs of two operands", (long long)c->inst->imm);
  for (int k = 0; k < 3; k++) TC_TRY(check_source(c, k, TC_I32, c->inst->lanes));
  return TC_OK;
}

static tc_status rule_compare(check *c) {
  const unsigned type = operand_type(c, 0, TC_BOOL);
  TC_TRY(check_source(c, 0, type, c->inst->lanes));
  TC_TRY(check_type(c, type, TYPES_COMPUTED));
  return check_source(c, 1, type, c->inst->lanes);
}

static tc_status rule_select(check *c) {
  TC_TRY(check_source(c, 0, TC_BOOL, c->inst->lanes));
  TC_TRY(check_source(c, 1, c->inst->dtype, c->inst->lanes));
  return check_source(c, 2, c->inst->dtype, c->inst->lanes);
}

static tc_status rule_cast(check *c) {
  const unsigned from = operand_type(c, 0, c->inst->dtype);
  const bool settles = c->inst->imm == 1 && from == TC_F32 && c->inst->dtype == TC_BF16 && c->kir->threads == 0;
  TC_TRY(check_source(c, 0, from, c->inst->lanes));
  return c->inst->imm == 0 || settles ? TC_OK : refuse(c, "no way %" PRId64 " of rounding", c->inst->imm);
}

static tc_status rule_bitcast(check *c) {
  const unsigned from = operand_type(c, 0, c->inst->dtype), to = c->inst->dtype, threads = c->kir->threads;
  const unsigned parts = to != TC_I32 ? 1 : from == TC_BF16 ? 2 : from == TC_I8 || from == TC_U8 ? 4 : 1;
  TC_TRY(check_source(c, 0, from, parts * c->inst->lanes));
  if (parts > 1 && threads > 0 && c->inst->lanes % threads != 0)
    return refuse(c, "%u lanes do not stay with their threads", c->inst->lanes);
  const bool fits = parts > 1 || (from == TC_F32 && to == TC_I32) || (from == TC_I32 && to == TC_F32) ||
                    (from == TC_F64 && to == TC_I64) || (from == TC_I64 && to == TC_F64);
  return fits ? TC_OK : refuse(c, "no bitcast from %s to %s", name_of_type(from), name_of_type(to));
}

static tc_status rule_lookup(check *c) {
  if (c->inst->imm < 0 || c->inst->imm >= TC_KIR_TABLE_ROWS)
    return refuse(c, "table %" PRId64 " of %d", c->inst->imm, TC_KIR_TABLE_ROWS);
  return check_source(c, 0, TC_I32, c->inst->lanes);
}

static tc_status rule_call(check *c) {
  return tc_kir_n_operands(c->inst) > 0 ? rule_same(c) : refuse(c, "no function %" PRId64, c->inst->imm);
}

static tc_status rule_unpack(check *c) {
  if (c->inst->lanes < 2) return refuse(c, "one lane has no halves");
  if (c->inst->imm != 0 && c->inst->imm != 1) return refuse(c, "half %" PRId64 " of two", c->inst->imm);
  return rule_same(c);
}

static tc_status rule_interleave(check *c) {
  if (c->inst->lanes == 1) return refuse(c, "result has 1 lane");
  if (c->kir->threads > 0 && c->inst->lanes / 2 % c->kir->threads != 0)
    return refuse(c, "%u lanes do not stay with their threads", c->inst->lanes);
  TC_TRY(check_source(c, 0, c->inst->dtype, c->inst->lanes / 2u));
  return check_source(c, 1, c->inst->dtype, c->inst->lanes / 2u);
}

static tc_status rule_reduce(check *c) {
  switch (c->inst->imm) {
    case TC_IR_ADD:
    case TC_IR_MUL:
    case TC_IR_MIN:
    case TC_IR_MAX: TC_TRY(check_type(c, c->inst->dtype, TYPES_NUMBER)); break;
    case TC_IR_AND:
    case TC_IR_OR: TC_TRY(check_type(c, c->inst->dtype, TYPES_BITS)); break;
    default: return refuse(c, "cannot reduce by op %" PRId64, c->inst->imm);
  }
  return check_source(c, 0, c->inst->dtype, operand_lanes(c, 0, 1));
}

// ---- the rules of tile registers ----

static tc_status rule_tmm(check *c) {
  tc_kir_tmm of[3];
  const int n = tc_kir_tmms_of(c->inst, of);
  for (int k = 0; k < n; k++) {
    if (of[k].at >= TC_KIR_TMMS) return refuse(c, "tile register %u of %d", of[k].at, TC_KIR_TMMS);
    if (of[k].rows == 0 || of[k].rows > TC_KIR_TMM_MOST || of[k].words == 0 || of[k].words > TC_KIR_TMM_MOST)
      return refuse(c, "tmm%u of %u rows of %u words", of[k].at, of[k].rows, of[k].words);
    tc_kir_tmm *met = &c->tmm[of[k].at];
    if (met->rows != 0 && (met->rows != of[k].rows || met->words != of[k].words))
      return refuse(c, "tmm%u is %u rows of %u words, not %u of %u", of[k].at, met->rows, met->words, of[k].rows,
                    of[k].words);
    *met = of[k];
  }
  return TC_OK;
}

static tc_status rule_tmm_access(check *c) {
  if (c->inst->lanes != 1) return refuse(c, "%u lanes, not 1", c->inst->lanes);
  TC_TRY(check_buffer(c, true));
  for (int k = 0; k < 2; k++) TC_TRY(check_source(c, k, TC_I64, 1));
  const tc_kir_tmm *of = &c->tmm[c->inst->flags >> 16 & (TC_KIR_TMMS - 1)];
  TC_TRY(rule_tmm(c));
  return 4 * of->words % tc_kir_type_bytes(c->inst->dtype) == 0
             ? TC_OK
             : refuse(c, "rows of %u words are not of whole %s", of->words, name_of_type(c->inst->dtype));
}

static tc_status rule_tmm_dot(check *c) {
  tc_kir_tmm of[3];
  (void)tc_kir_tmms_of(c->inst, of);
  if (of[0].at == of[1].at || of[0].at == of[2].at || of[1].at == of[2].at)
    return refuse(c, "tmm%u, tmm%u and tmm%u are not three", of[0].at, of[1].at, of[2].at);
  return rule_tmm(c);
}

// ---- the rules of kernels with threads ----

static tc_status rule_extract(check *c) {
  const unsigned threads = c->kir->threads, lanes = operand_lanes(c, 0, threads);
  if (c->inst->lanes != threads) return refuse(c, "result has %u lanes, not %u", c->inst->lanes, threads);
  if (lanes < threads || c->inst->imm < 0 || c->inst->imm >= lanes / threads)
    return refuse(c, "element %" PRId64 " of %u a thread", c->inst->imm, lanes / threads);
  return check_source(c, 0, c->inst->dtype, lanes);
}

static tc_status rule_copy(check *c) {
  const unsigned threads = c->kir->threads;
  TC_TRY(check_buffer(c, true));
  if (c->inst->imm >= c->kir->n_buf) return refuse(c, "copies from a tile");
  TC_TRY(check_shared_tile(c, c->inst->flags));
  TC_TRY(check_source(c, 0, TC_I64, threads));
  TC_TRY(check_source(c, 1, TC_I64, threads));
  return check_mask(c, threads);
}

static tc_status rule_wait(check *c) {
  const int64_t groups = c->inst->imm;
  return groups >= 0 && groups <= 7 ? TC_OK : refuse(c, "%" PRId64 " groups of copies", groups);
}

static tc_status rule_ldmatrix(check *c) {
  const unsigned threads = c->kir->threads;
  if (threads % 32 != 0) return refuse(c, "%u threads are not whole warps", threads);
  if (c->inst->lanes != 8 * threads && c->inst->lanes != 4 * threads)
    return refuse(c, "%u lanes are neither 8 nor 4 a thread", c->inst->lanes);
  TC_TRY(check_shared_tile(c, c->inst->imm < 0 ? UINT64_MAX : (uint64_t)c->inst->imm));
  return check_source(c, 0, TC_I64, threads);
}

static tc_status rule_mma(check *c) {
  return check_product(c, 32, 8);
}

static tc_status rule_mfma(check *c) {
  return check_product(c, 64, 4);
}

static tc_status rule_shfl_xor(check *c) {
  const bool one_bit = c->inst->imm > 0 && (c->inst->imm & (c->inst->imm - 1)) == 0;
  if (!one_bit || c->inst->imm > 32 || c->inst->imm >= c->kir->threads)
    return refuse(c, "by %" PRId64 " of %u threads", c->inst->imm, c->kir->threads);
  if (c->inst->lanes < c->kir->threads) return refuse(c, "%u lanes for %u threads", c->inst->lanes, c->kir->threads);
  return rule_same(c);
}

static tc_status rule_tma_load(check *c) {
  const tc_kir *n = c->kir;
  if (c->inst->imm < 0 || c->inst->imm >= n->n_map) return refuse(c, "map %" PRId64 " of %u", c->inst->imm, n->n_map);
  const int64_t boxes = n->tile[n->map[c->inst->imm].tile].n / (TC_KIR_TMA_BOX * TC_KIR_TMA_BOX) / n->stages;
  if (c->inst->flags >= boxes) return refuse(c, "box %u of %" PRId64, c->inst->flags, boxes);
  for (int k = 0; k < 4; k++) TC_TRY(check_source(c, k, TC_I64, 1));
  return TC_OK;
}

static tc_status rule_tma_wait(check *c) {
  return c->kir->stages ? check_source(c, 0, TC_I64, 1) : refuse(c, "without stages");
}

static tc_status rule_wgmma(check *c) {
  const tc_kir *n = c->kir;
  const int64_t a = c->inst->imm & 255, b = c->inst->imm >> 8;
  if (c->inst->imm < 0 || a >= n->n_map || b >= n->n_map)
    return refuse(c, "maps %" PRId64 " and %" PRId64 " of %u", a, b, n->n_map);
  if (n->tile[n->map[a].tile].dtype != n->tile[n->map[b].tile].dtype) return refuse(c, "factors are of two types");
  for (int k = 0; k < 2; k++) TC_TRY(check_source(c, k, TC_I64, n->threads));
  return check_sums(c, 2);
}

static tc_status rule_wgmma_wait(check *c) {
  const int64_t matmuls = c->inst->imm;
  return matmuls >= 0 && matmuls <= 1 ? check_sums(c, 0) : refuse(c, "%" PRId64 " products", matmuls);
}

// ---- the walk ----

typedef struct op_rule {
  tc_status (*check)(check *c);
  uint32_t types;
} op_rule;

static const op_rule op_rules[TC_N_KIR_OPS] = {
#define TC_KIR_OP(NAME, name, operands, mask, result, types, rule, imm, traits) \
  [TC_IR_##NAME] = {rule_##rule, TYPES_##types},
#include "lowering/kir/ops.def"
#undef TC_KIR_OP
};

// Checks that the op is allowed in this kind of kernel.
static tc_status check_kind(const check *c) {
  const unsigned threads = c->kir->threads;
  if (tc_kir_is(c->inst, TC_KIR_HOST) && threads > 0) return refuse(c, "a kernel with threads has no such op");
  if (tc_kir_is(c->inst, TC_KIR_GPU) && threads == 0) return refuse(c, "a kernel without threads has no such op");
  if (tc_kir_is(c->inst, TC_KIR_GPU) && c->kir->cluster)
    return refuse(c, "a group of %u blocks has no such op", c->kir->cluster);
  return TC_OK;
}

static tc_status check_inst(check *c) {
  c->inst = &c->kir->inst[c->at];
  if (c->inst->op >= TC_N_KIR_OPS) return refuse(c, "no such op");
  const unsigned result = tc_kir_op_of(c->inst)->result;
  if (result != TC_KIR_RESULT_NONE && c->inst->dtype >= TC_N_TYPES)
    return refuse(c, "no such type: %u", c->inst->dtype);
  if (result != TC_KIR_RESULT_NONE) TC_TRY(check_lanes(c, c->inst->lanes));
  for (int k = tc_kir_n_operands(c->inst); k < 4; k++)
    if (c->inst->src[k] != TC_NONE) return refuse(c, "operand %d, %%%u, is too many", k, c->inst->src[k]);
  c->scope[c->at] = c->open;
  TC_TRY(check_kind(c));
  if (result == TC_KIR_RESULT_INDEX && (c->inst->lanes != 1 || c->inst->dtype != TC_I64))
    return refuse(c, "value is an i64 scalar");
  if (result == TC_KIR_RESULT_SCALAR && c->inst->lanes != 1)
    return refuse(c, "result has %u lanes, not 1", c->inst->lanes);
  if (result != TC_KIR_RESULT_NONE) TC_TRY(check_type(c, c->inst->dtype, op_rules[c->inst->op].types));
  return op_rules[c->inst->op].check(c);
}

// Checks the tensor maps' buffers and tiles, and that the tiles hold all stages.
static tc_status check_maps(const check *c) {
  const tc_kir *n = c->kir;
  if (n->n_map > TC_KIR_MAPS || (n->n_map > 0) != (n->stages > 0))
    return refuse(c, "%u maps, %u stages", n->n_map, n->stages);
  for (uint32_t k = 0; k < n->n_map; k++) {
    const tc_tensor_map *m = &n->map[k];
    if (m->buffer >= n->n_buf || m->tile >= n->n_tile)
      return refuse(c, "map %u: buffer %u, tile %u", k, m->buffer, m->tile);
    const tc_kir_tile *t = &n->tile[m->tile];
    const unsigned type = n->buf_type[m->buffer];
    if ((type != TC_F16 && type != TC_BF16) || t->dtype != type)
      return refuse(c, "map %u: boxes of %s to a tile of %s", k, name_of_type(type), name_of_type(t->dtype));
    if (t->of_lanes || t->offset % 1024 != 0 || t->n == 0 || t->n % (TC_KIR_TMA_BOX * TC_KIR_TMA_BOX * n->stages) != 0)
      return refuse(c, "map %u: tile %u is not of whole boxes in %u stages", k, m->tile, n->stages);
    if (m->first < 0 || m->first % 8 != 0 || m->stride[0] % 8 != 0 || m->stride[1] % 8 != 0)
      return refuse(c, "map %u: is not aligned", k);
    for (int d = 0; d < 3; d++)
      if (m->extent[d] < 1 || m->extent[d] > INT64_C(1) << 31)
        return refuse(c, "map %u: extent %" PRId64, k, m->extent[d]);
    for (int d = 0; d < 2; d++)
      if (m->stride[d] < 8 || m->stride[d] >= INT64_C(1) << 39)
        return refuse(c, "map %u: stride %" PRId64, k, m->stride[d]);
  }
  return TC_OK;
}

static tc_status check_memory(const check *c) {
  const tc_kir *n = c->kir;
  if (n->scratch_bytes < 0) return refuse(c, "scratch of %" PRId64 " bytes", n->scratch_bytes);
  for (uint32_t b = 0; b < n->n_buf; b++)
    if (n->buf_type[b] >= TC_N_TYPES) return refuse(c, "buffer %u: no such type: %u", b, n->buf_type[b]);
  for (uint32_t t = 0; t < n->n_tile; t++) {
    const tc_kir_tile *tile = &n->tile[t];
    if (tile->dtype >= TC_N_TYPES) return refuse(c, "tile %u: no such type: %u", t, tile->dtype);
    if (tile->of_lanes && n->threads == 0)
      return refuse(c, "tile %u: a kernel without threads has no lanes that a tile is of", t);
    if (tile->of_lanes && (tile->n < 0 || tile->n > INT32_MAX))
      return refuse(c, "tile %u: %" PRId64 " elements", t, tile->n);
    if (tile->of_lanes) continue;
    if (n->groups > 1) return refuse(c, "tile %u: a block of %u groups has no memory of one", t, n->groups);
    if (n->cluster) return refuse(c, "tile %u: a group of %u blocks has no memory of all", t, n->cluster);
    if (tile->offset < 0 || tile->offset % 64 != 0)
      return refuse(c, "tile %u: offset %" PRId64 " is not a multiple of 64", t, tile->offset);
    if (tile->n < 0 || tile->offset > n->scratch_bytes ||
        tile->n > (n->scratch_bytes - tile->offset) / (int64_t)tc_type_bytes((tc_type)tile->dtype))
      return refuse(c, "tile %u: %" PRId64 " elements at %" PRId64 " exceed the scratch of %" PRId64 " bytes", t,
                    tile->n, tile->offset, n->scratch_bytes);
  }
  return TC_OK;
}

static tc_status check_groups(const check *c) {
  const tc_kir *n = c->kir;
  const unsigned blocks = n->cluster ? n->cluster : 1;
  if (n->threads == 0) return TC_OK;
  if (n->n_buf > 64) return refuse(c, "%u buffers are more than 64", n->n_buf);
  if (blocks > 8 || (blocks & (blocks - 1)) != 0 || (n->cluster && (n->threads < 64 * blocks || n->groups != 1)))
    return refuse(c, "groups of %u threads, %u in a block, spread over %u blocks", n->threads, n->groups, blocks);
  if (n->threads > 1024 * blocks || (n->threads & (n->threads - 1)) != 0)
    return refuse(c, "groups of %u threads", n->threads);
  if (n->groups == 0 || n->groups > 1024 * blocks / n->threads || (n->groups > 1 && n->threads > 64))
    return refuse(c, "%u groups of %u threads in a block", n->groups, n->threads);
  return TC_OK;
}

tc_status tc_kir_verify(const tc_kir *kir, char *text, size_t bytes) {
  if (bytes > 0) text[0] = 0;
  check c = {.kir = kir, .open = TC_NONE, .at = TC_NONE, .text = text, .bytes = bytes};
  TC_TRY(check_groups(&c));
  TC_TRY(check_memory(&c));
  TC_TRY(check_maps(&c));
  if (kir->n_inst == TC_NONE) return refuse(&c, "too many instructions");
  c.scope = tc_malloc(((size_t)kir->n_inst + 1) * sizeof *c.scope);
  c.closed = tc_calloc((size_t)kir->n_inst + 1, 1);
  c.tile_lanes = tc_calloc((size_t)kir->n_tile + 1, sizeof *c.tile_lanes);
  tc_status st = c.scope != NULL && c.closed != NULL && c.tile_lanes != NULL ? TC_OK : TC_ERR_MEMORY;
  if (st != TC_OK && bytes > 0) (void)snprintf(text, bytes, "out of memory");
  for (c.at = 0; st == TC_OK && c.at < kir->n_inst; c.at++) st = check_inst(&c);
  if (st == TC_OK && c.open != TC_NONE) {
    c.at = c.open;
    st = refuse(&c, "is not ended");
  }
  tc_free(c.scope);
  tc_free(c.closed);
  tc_free(c.tile_lanes);
  return st;
}
