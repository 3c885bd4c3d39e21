// Checks nests. One walk over the instructions; each rule is a line of check_op. See verify.h.
#include "lowering/kir/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "lowering/kir/lookup_tables.h"
#include "runtime/arena.h"

static const char *name_of_type(unsigned type) {
  return tc_type_name((tc_type)type);
}

// Which types an op takes, as sets.
#define SET_OF(type) (1u << (type))

#define SET_BOOL SET_OF(TC_BOOL)
#define SET_INT (SET_OF(TC_U8) | SET_OF(TC_I8) | SET_OF(TC_I16) | SET_OF(TC_I32) | SET_OF(TC_I64))
#define SET_FLOAT (SET_OF(TC_F32) | SET_OF(TC_F64))
#define SET_VALUE (SET_BOOL | SET_INT | SET_FLOAT)                  // what a register computes with
#define SET_STORED (SET_VALUE | SET_OF(TC_F16) | SET_OF(TC_BF16))   // what memory may hold

typedef struct check {
  const tc_nest *nest;
  uint32_t *scope;   // the LOOP or IF an instruction is in, TC_NONE at the top; a LOOP's value is in its own scope, see check_source
  uint8_t *closed;   // of a LOOP or IF: its end was met
  uint32_t open;     // innermost open LOOP or IF
  uint32_t at;
  uint32_t *tile_lanes;  // of each tile of lanes: of the vectors met so far
  char *text;
  size_t bytes;
} check;

__attribute__((format(printf, 2, 3), cold)) static tc_status refuse(const check *c, const char *fmt, ...) {
  if (c->bytes == 0) return TC_ERR_ARG;
  int n = 0;
  if (c->at < c->nest->n_inst) n = snprintf(c->text, c->bytes, "instruction %u (%s): ", c->at, tc_nest_op_name((tc_nest_op)c->nest->inst[c->at].op));
  if (n < 0 || (size_t)n >= c->bytes) return TC_ERR_ARG;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(c->text + n, c->bytes - (size_t)n, fmt, args);
  va_end(args);
  return TC_ERR_ARG;
}

#define TRY(call) \
  do { \
    tc_status st_ = (call); \
    if (st_ != TC_OK) return st_; \
  } while (0)

// Operand k is there, precedes, is visible, is a value, and is of this type and lanes.
static tc_status check_source(const check *c, int k, unsigned type, unsigned lanes) {
  const uint32_t v = c->nest->inst[c->at].src[k];
  if (v == TC_NONE) return refuse(c, "operand %d is missing", k);
  if (v >= c->at) return refuse(c, "operand %d, %%%u, does not precede its use", k, v);
  const tc_ninst *s = &c->nest->inst[v];
  if (!tc_nest_has_value(s)) return refuse(c, "operand %d, %%%u, is a %s, which has no value", k, v, tc_nest_op_name((tc_nest_op)s->op));
  const uint32_t scope = s->op == TC_N_LOOP ? v : c->scope[v];
  if (scope != TC_NONE && c->closed[scope]) return refuse(c, "operand %d, %%%u, is not visible: the loop or if of %%%u has ended", k, v, scope);
  if (s->dtype != type) return refuse(c, "operand %d, %%%u, is %s, not %s", k, v, name_of_type(s->dtype), name_of_type(type));
  if (s->lanes != lanes) return refuse(c, "operand %d, %%%u, has %u lanes, not %u", k, v, s->lanes, lanes);
  return TC_OK;
}

static tc_status check_set(const check *c, unsigned type, unsigned set) {
  return set & SET_OF(type) ? TC_OK : refuse(c, "type %s is not allowed here", name_of_type(type));
}

// n operands of the result's type and lanes, the result's type being in set.
static tc_status check_same(const check *c, int n, unsigned set) {
  const tc_ninst *i = &c->nest->inst[c->at];
  TRY(check_set(c, i->dtype, set));
  for (int k = 0; k < n; k++) TRY(check_source(c, k, i->dtype, i->lanes));
  return TC_OK;
}

static tc_status check_mask(const check *c, int k, unsigned lanes) {
  return c->nest->inst[c->at].src[k] == TC_NONE ? TC_OK : check_source(c, k, TC_BOOL, lanes);
}

static tc_status check_buffer(const check *c, bool typed) {
  const tc_nest *n = c->nest;
  const tc_ninst *i = &n->inst[c->at];
  if (i->imm < 0 || i->imm >= (int64_t)n->n_buf + n->n_tile) return refuse(c, "buffer %" PRId64 " of %u and %u tiles", i->imm, n->n_buf, n->n_tile);
  const unsigned type = i->imm < n->n_buf ? n->buf_type[i->imm] : n->tile[i->imm - n->n_buf].dtype;
  if (typed && type != i->dtype) return refuse(c, "buffer %" PRId64 " holds %s, not %s", i->imm, name_of_type(type), name_of_type(i->dtype));
  if (i->imm < n->n_buf || !n->tile[i->imm - n->n_buf].of_lanes || !typed) return TC_OK;
  if ((i->op != TC_N_LOAD && i->op != TC_N_STORE) || i->lanes < n->threads)
    return refuse(c, "tile %" PRId64 " is of whole vectors", i->imm - n->n_buf);
  if (i->src[i->op == TC_N_LOAD ? 1 : 2] != TC_NONE) return refuse(c, "tile %" PRId64 " is of whole vectors, without masks", i->imm - n->n_buf);
  const uint32_t of = c->tile_lanes[i->imm - n->n_buf];
  if (of != 0 && of != i->lanes) return refuse(c, "tile %" PRId64 " is of vectors of %u lanes, not %u", i->imm - n->n_buf, of, i->lanes);
  if (n->tile[i->imm - n->n_buf].n % i->lanes != 0)
    return refuse(c, "tile %" PRId64 " of %" PRId64 " elements is not of whole vectors", i->imm - n->n_buf, n->tile[i->imm - n->n_buf].n);
  c->tile_lanes[i->imm - n->n_buf] = i->lanes;
  return TC_OK;
}

// Of the operand that addresses a GATHER or SCATTER: its own, or one a thread.
static unsigned index_lanes(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned threads = c->nest->threads;
  return threads > 0 && i->src[0] < c->at && c->nest->inst[i->src[0]].lanes == threads ? threads : i->lanes;
}

static tc_status check_access(const check *c, bool stores, bool indexed) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned at_lanes = indexed ? index_lanes(c) : 1;
  TRY(check_buffer(c, true));
  TRY(check_source(c, 0, TC_I64, at_lanes));
  if (stores) TRY(check_source(c, 1, i->dtype, i->lanes));
  return check_mask(c, stores ? 2 : 1, indexed ? at_lanes : i->lanes);
}

static tc_status check_cast(const check *c, bool bits) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const uint32_t v = i->src[0];
  if (v == TC_NONE || v >= c->at) return check_source(c, 0, i->dtype, i->lanes);
  const unsigned from = c->nest->inst[v].dtype;
  const bool narrow = from == TC_BF16 || from == TC_I8 || from == TC_U8, several = bits && narrow && i->dtype == TC_I32;
  TRY(check_source(c, 0, from, several ? (from == TC_BF16 ? 2u : 4u) * i->lanes : i->lanes));
  if (several && c->nest->threads > 0 && i->lanes % c->nest->threads != 0) return refuse(c, "%u lanes do not stay with their threads", i->lanes);
  if (several) return TC_OK;
  if (!bits && i->imm != 0 && (i->imm != 1 || from != TC_F32 || i->dtype != TC_BF16 || c->nest->threads > 0))
    return refuse(c, "no way %" PRId64 " of rounding", i->imm);
  if (!bits) return check_set(c, i->dtype, SET_STORED);
  const bool fits = (from == TC_F32 && i->dtype == TC_I32) || (from == TC_I32 && i->dtype == TC_F32) || (from == TC_F64 && i->dtype == TC_I64) ||
                    (from == TC_I64 && i->dtype == TC_F64);
  return fits ? TC_OK : refuse(c, "no bitcast from %s to %s", name_of_type(from), name_of_type(i->dtype));
}

static tc_status check_compare(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  TRY(check_set(c, i->dtype, SET_BOOL));
  const unsigned type = i->src[0] < c->at ? c->nest->inst[i->src[0]].dtype : TC_BOOL;
  TRY(check_source(c, 0, type, i->lanes));
  TRY(check_set(c, type, SET_VALUE));
  return check_source(c, 1, type, i->lanes);
}

static tc_status check_hreduce(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (i->lanes != 1) return refuse(c, "result has %u lanes, not 1", i->lanes);
  switch (i->imm) {
    case TC_N_ADD:
    case TC_N_MUL:
    case TC_N_MIN:
    case TC_N_MAX: TRY(check_set(c, i->dtype, SET_INT | SET_FLOAT)); break;
    case TC_N_AND:
    case TC_N_OR: TRY(check_set(c, i->dtype, SET_INT | SET_BOOL)); break;
    default: return refuse(c, "cannot reduce by op %" PRId64, i->imm);
  }
  return check_source(c, 0, i->dtype, i->src[0] < c->at ? c->nest->inst[i->src[0]].lanes : 1);
}

static tc_status check_interleave(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  TRY(check_set(c, i->dtype, SET_STORED));
  if (i->lanes == 1) return refuse(c, "result has 1 lane");
  if (c->nest->threads > 0 && i->lanes / 2 % c->nest->threads != 0) return refuse(c, "%u lanes do not stay with their threads", i->lanes);
  TRY(check_source(c, 0, i->dtype, i->lanes / 2u));
  return check_source(c, 1, i->dtype, i->lanes / 2u);
}

static tc_status check_dot(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (c->nest->threads > 0) return refuse(c, "a nest with threads has no such op");
  TRY(check_set(c, i->dtype, SET_OF(TC_F32)));
  for (int k = 0; k < 2; k++) TRY(check_source(c, k, TC_I32, i->lanes));
  return check_source(c, 2, TC_F32, i->lanes);
}

static tc_status check_lookup(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (c->nest->threads > 0) return refuse(c, "a nest with threads has no such op");
  if (i->imm < 0 || i->imm >= TC_NEST_TABLE_ROWS) return refuse(c, "table %" PRId64 " of %d", i->imm, TC_NEST_TABLE_ROWS);
  TRY(check_set(c, i->dtype, SET_OF(TC_F32)));
  return check_source(c, 0, TC_I32, i->lanes);
}

static tc_status check_index(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (i->lanes != 1 || i->dtype != TC_I64) return refuse(c, "value is an i64 scalar");
  return TC_OK;
}

static tc_status check_set_var(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const uint32_t v = i->src[0];
  if (v >= c->at || c->nest->inst[v].op != TC_N_VAR) return refuse(c, "operand 0 is not a variable");
  const tc_ninst *var = &c->nest->inst[v];
  TRY(check_source(c, 0, var->dtype, var->lanes));
  return check_source(c, 1, var->dtype, var->lanes);
}

// ---- of nests with threads ----

static tc_status check_shared_tile(const check *c, uint64_t tile) {
  const tc_nest *n = c->nest;
  const tc_ninst *i = &n->inst[c->at];
  if (tile >= n->n_tile) return refuse(c, "tile %" PRIu64 " of %u", tile, n->n_tile);
  if (n->tile[tile].of_lanes) return refuse(c, "tile %" PRIu64 " is of whole vectors", tile);
  if (n->tile[tile].dtype != i->dtype)
    return refuse(c, "tile %" PRIu64 " holds %s, not %s", tile, name_of_type(n->tile[tile].dtype), name_of_type(i->dtype));
  return TC_OK;
}

static tc_status check_pick(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned threads = c->nest->threads, lanes = i->src[0] < c->at ? c->nest->inst[i->src[0]].lanes : threads;
  TRY(check_set(c, i->dtype, SET_STORED));
  if (i->lanes != threads) return refuse(c, "result has %u lanes, not %u", i->lanes, threads);
  if (lanes < threads || i->imm < 0 || i->imm >= lanes / threads) return refuse(c, "element %" PRId64 " of %u a thread", i->imm, lanes / threads);
  return check_source(c, 0, i->dtype, lanes);
}

static tc_status check_copy(const check *c) {
  const unsigned threads = c->nest->threads;
  TRY(check_buffer(c, true));
  if (c->nest->inst[c->at].imm >= c->nest->n_buf) return refuse(c, "copies from a tile");
  TRY(check_shared_tile(c, c->nest->inst[c->at].flags));
  TRY(check_source(c, 0, TC_I64, threads));
  TRY(check_source(c, 1, TC_I64, threads));
  return check_mask(c, 2, threads);
}

static tc_status check_ldmatrix(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned threads = c->nest->threads;
  TRY(check_set(c, i->dtype, SET_OF(TC_F16) | SET_OF(TC_BF16)));
  if (threads % 32 != 0) return refuse(c, "%u threads are not whole warps", threads);
  if (i->lanes != 8 * threads && i->lanes != 4 * threads) return refuse(c, "%u lanes are neither 8 nor 4 a thread", i->lanes);
  TRY(check_shared_tile(c, i->imm < 0 ? UINT64_MAX : (uint64_t)i->imm));
  return check_source(c, 0, TC_I64, threads);
}

// Of the matrix product of `warp` threads, with so many elements of the left operand a thread.
static tc_status check_mma(const check *c, unsigned warp, unsigned left) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned threads = c->nest->threads, type = i->src[0] < c->at ? c->nest->inst[i->src[0]].dtype : TC_BF16;
  TRY(check_set(c, i->dtype, SET_OF(TC_F32)));
  TRY(check_set(c, type, SET_OF(TC_F16) | SET_OF(TC_BF16)));
  if (threads % warp != 0) return refuse(c, "%u threads are not whole warps", threads);
  if (i->lanes != 4 * threads) return refuse(c, "%u lanes are not 4 a thread", i->lanes);
  TRY(check_source(c, 0, type, left * threads));
  TRY(check_source(c, 1, type, 4 * threads));
  return check_source(c, 2, TC_F32, i->lanes);
}

static tc_status check_trade(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const bool one_bit = i->imm > 0 && (i->imm & (i->imm - 1)) == 0;
  if (!one_bit || i->imm > 32 || i->imm >= c->nest->threads) return refuse(c, "by %" PRId64 " of %u threads", i->imm, c->nest->threads);
  if (i->lanes < c->nest->threads) return refuse(c, "%u lanes for %u threads", i->lanes, c->nest->threads);
  return check_same(c, 1, SET_VALUE);
}

static tc_status check_fetch(const check *c) {
  const tc_nest *n = c->nest;
  const tc_ninst *i = &n->inst[c->at];
  if (i->imm < 0 || i->imm >= n->n_map) return refuse(c, "map %" PRId64 " of %u", i->imm, n->n_map);
  const int64_t boxes = n->tile[n->map[i->imm].tile].n / (TC_NEST_BOX * TC_NEST_BOX) / n->stages;
  if (i->flags >= boxes) return refuse(c, "box %u of %" PRId64, i->flags, boxes);
  for (int k = 0; k < 4; k++) TRY(check_source(c, k, TC_I64, 1));
  return TC_OK;
}

// Operand k is a variable of what WGMMA adds.
static tc_status check_sums(const check *c, int k) {
  const tc_ninst *i = &c->nest->inst[c->at];
  const unsigned threads = c->nest->threads;
  const uint32_t v = i->src[k];
  if (threads % 128 != 0) return refuse(c, "%u threads are not whole groups of 128", threads);
  if (v >= c->at || c->nest->inst[v].op != TC_N_VAR) return refuse(c, "operand %d is not a variable", k);
  const unsigned lanes = c->nest->inst[v].lanes;
  if (lanes != 32 * threads && lanes != 64 * threads && lanes != 128 * threads)
    return refuse(c, "%u lanes of %u threads are no sums", lanes, threads);
  return check_source(c, k, TC_F32, lanes);
}

static tc_status check_wgmma(const check *c) {
  const tc_nest *n = c->nest;
  const tc_ninst *i = &n->inst[c->at];
  const int64_t a = i->imm & 255, b = i->imm >> 8;
  if (i->imm < 0 || a >= n->n_map || b >= n->n_map) return refuse(c, "maps %" PRId64 " and %" PRId64 " of %u", a, b, n->n_map);
  if (n->tile[n->map[a].tile].dtype != n->tile[n->map[b].tile].dtype) return refuse(c, "factors are of two types");
  for (int k = 0; k < 2; k++) TRY(check_source(c, k, TC_I64, n->threads));
  return check_sums(c, 2);
}

static tc_status check_threads_op(const check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (c->nest->threads == 0) return refuse(c, "a nest without threads has no such op");
  if (c->nest->cluster) return refuse(c, "a group of %u blocks has no such op", c->nest->cluster);
  switch (i->op) {
    case TC_N_PICK: return check_pick(c);
    case TC_N_TRADE: return check_trade(c);
    case TC_N_EXP2: return check_same(c, 1, SET_OF(TC_F32));
    case TC_N_COPY: return check_copy(c);
    case TC_N_WAIT: return i->imm >= 0 && i->imm <= 7 ? TC_OK : refuse(c, "%" PRId64 " groups of copies", i->imm);
    case TC_N_LDMATRIX: return check_ldmatrix(c);
    case TC_N_MMA: return check_mma(c, 32, 8);
    case TC_N_MFMA: return check_mma(c, 64, 4);
    case TC_N_FETCH: return check_fetch(c);
    case TC_N_ARRIVED: return c->nest->stages ? check_source(c, 0, TC_I64, 1) : refuse(c, "without stages");
    case TC_N_WGMMA: return check_wgmma(c);
    case TC_N_SETTLED: return i->imm >= 0 && i->imm <= 1 ? check_sums(c, 0) : refuse(c, "%" PRId64 " products", i->imm);
    default: return TC_OK;
  }
}

static tc_status check_lanes(const check *c, unsigned lanes) {
  const unsigned op = c->nest->inst[c->at].op, each = op == TC_N_VAR || op == TC_N_SPLAT ? 128 : 32;
  const unsigned threads = c->nest->threads, most = threads > 0 ? each * threads : TC_NEST_LANES;
  if (lanes == 0 || lanes > most || (lanes & (lanes - 1)) != 0) return refuse(c, "%u lanes", lanes);
  if (lanes > 1 && lanes < threads) return refuse(c, "%u lanes for %u threads", lanes, threads);
  return TC_OK;
}

static tc_status check_op(check *c) {
  const tc_nest *n = c->nest;
  const tc_ninst *i = &n->inst[c->at];
  switch ((tc_nest_op)i->op) {
    case TC_N_BEGIN:
    case TC_N_FINISH: return check_index(c);
    case TC_N_CONST:
      if (i->dtype == TC_BOOL && i->imm != 0 && i->imm != 1) return refuse(c, "bool %" PRId64 " is neither 0 nor 1", i->imm);
      return check_set(c, i->dtype, SET_VALUE);
    case TC_N_NUM:
      if (i->imm < 0 || i->imm >= n->n_num) return refuse(c, "number %" PRId64 " of %u", i->imm, n->n_num);
      return check_set(c, i->dtype, SET_VALUE);
    case TC_N_LOOP:
      TRY(check_index(c));
      if (i->imm <= 0) return refuse(c, "step %" PRId64 " is not positive", i->imm);
      TRY(check_source(c, 0, TC_I64, 1));
      TRY(check_source(c, 1, TC_I64, 1));
      c->open = c->at;
      return TC_OK;
    case TC_N_IF:
      TRY(check_source(c, 0, TC_BOOL, 1));
      c->open = c->at;
      return TC_OK;
    case TC_N_ENDLOOP:
    case TC_N_ENDIF:
      if (c->open == TC_NONE || n->inst[c->open].op != (i->op == TC_N_ENDLOOP ? TC_N_LOOP : TC_N_IF)) return refuse(c, "does not end what is open");
      c->closed[c->open] = 1;
      c->open = c->scope[c->open];
      return TC_OK;
    case TC_N_VAR: return check_same(c, 1, SET_VALUE);
    case TC_N_SET: return check_set_var(c);
    case TC_N_SPLAT: TRY(check_set(c, i->dtype, SET_VALUE)); return check_source(c, 0, i->dtype, 1);
    case TC_N_LANES: return check_set(c, i->dtype, SET_INT);
    case TC_N_LOAD: return check_access(c, false, false);
    case TC_N_GATHER: return check_access(c, false, true);
    case TC_N_STORE: return check_access(c, true, false);
    case TC_N_SCATTER: return check_access(c, true, true);
    case TC_N_PREFETCH: TRY(check_buffer(c, false)); return check_source(c, 0, TC_I64, 1);
    case TC_N_ADD:
    case TC_N_SUB:
    case TC_N_MUL:
    case TC_N_DIV:
    case TC_N_MIN:
    case TC_N_MAX: return check_same(c, 2, SET_INT | SET_FLOAT);
    case TC_N_REM:
    case TC_N_SHL:
    case TC_N_SHR:
    case TC_N_USHR: return check_same(c, 2, SET_INT);
    case TC_N_FMA: return check_same(c, 3, SET_FLOAT);
    case TC_N_DOT: return check_dot(c);
    case TC_N_LDEXP: return check_same(c, 2, SET_OF(TC_F32));
    case TC_N_LOOKUP: return check_lookup(c);
    case TC_N_NEG:
    case TC_N_ABS: return check_same(c, 1, SET_INT | SET_FLOAT);
    case TC_N_SQRT:
    case TC_N_FLOOR:
    case TC_N_CEIL:
    case TC_N_TRUNC:
    case TC_N_RINT: return check_same(c, 1, SET_FLOAT);
    case TC_N_AND:
    case TC_N_OR:
    case TC_N_XOR: return check_same(c, 2, SET_INT | SET_BOOL);
    case TC_N_NOT: return check_same(c, 1, SET_INT | SET_BOOL);
    case TC_N_MULHU: return check_same(c, 2, SET_OF(TC_I32));
    case TC_N_EQ:
    case TC_N_NE:
    case TC_N_LT:
    case TC_N_LE:
    case TC_N_GT:
    case TC_N_GE: return check_compare(c);
    case TC_N_SELECT:
      TRY(check_set(c, i->dtype, SET_VALUE));
      TRY(check_source(c, 0, TC_BOOL, i->lanes));
      TRY(check_source(c, 1, i->dtype, i->lanes));
      return check_source(c, 2, i->dtype, i->lanes);
    case TC_N_CAST: return check_cast(c, false);
    case TC_N_BITCAST: return check_cast(c, true);
    case TC_N_CALL:
      if (tc_kir_n_operands(i) == 0) return refuse(c, "no function %" PRId64, i->imm);
      return check_same(c, tc_kir_n_operands(i), SET_OF(TC_F64));
    case TC_N_ZIP:
      if (n->threads > 0) return refuse(c, "moves lanes between threads");
      if (i->lanes < 2) return refuse(c, "one lane has no halves");
      if (i->imm != 0 && i->imm != 1) return refuse(c, "half %" PRId64 " of two", i->imm);
      return check_same(c, 2, SET_VALUE);
    case TC_N_INTERLEAVE: return check_interleave(c);
    case TC_N_HREDUCE: return check_hreduce(c);
    case TC_N_PICK:
    case TC_N_COPY:
    case TC_N_COMMIT:
    case TC_N_WAIT:
    case TC_N_LDMATRIX:
    case TC_N_MMA:
    case TC_N_EXP2:
    case TC_N_MFMA:
    case TC_N_TRADE:
    case TC_N_FETCH:
    case TC_N_ARRIVED:
    case TC_N_WGMMA:
    case TC_N_SETTLED: return check_threads_op(c);
    case TC_N_OPS: break;
  }
  return refuse(c, "no such op");
}

static tc_status check_inst(check *c) {
  const tc_ninst *i = &c->nest->inst[c->at];
  if (i->op >= TC_N_OPS) return refuse(c, "no such op");
  const bool typed = tc_nest_has_value(i) || i->op == TC_N_STORE || i->op == TC_N_SCATTER || i->op == TC_N_COPY;
  if (typed && i->dtype >= TC_N_TYPES) return refuse(c, "no such type: %u", i->dtype);
  if (typed) TRY(check_lanes(c, i->lanes));
  for (int k = tc_kir_n_operands(i); k < 4; k++)
    if (i->src[k] != TC_NONE) return refuse(c, "operand %d, %%%u, is too many", k, i->src[k]);
  c->scope[c->at] = c->open;
  return check_op(c);
}

// Where the maps are of, and room for what is fetched.
static tc_status check_maps(const check *c) {
  const tc_nest *n = c->nest;
  if (n->n_map > TC_NEST_MAPS || (n->n_map > 0) != (n->stages > 0)) return refuse(c, "%u maps, %u stages", n->n_map, n->stages);
  for (uint32_t k = 0; k < n->n_map; k++) {
    const tc_nmap *m = &n->map[k];
    if (m->buffer >= n->n_buf || m->tile >= n->n_tile) return refuse(c, "map %u: buffer %u, tile %u", k, m->buffer, m->tile);
    const tc_ntile *t = &n->tile[m->tile];
    const unsigned type = n->buf_type[m->buffer];
    if ((type != TC_F16 && type != TC_BF16) || t->dtype != type)
      return refuse(c, "map %u: boxes of %s to a tile of %s", k, name_of_type(type), name_of_type(t->dtype));
    if (t->of_lanes || t->offset % 1024 != 0 || t->n == 0 || t->n % (TC_NEST_BOX * TC_NEST_BOX * n->stages) != 0)
      return refuse(c, "map %u: tile %u is not of whole boxes in %u stages", k, m->tile, n->stages);
    if (m->first < 0 || m->first % 8 != 0 || m->stride[0] % 8 != 0 || m->stride[1] % 8 != 0) return refuse(c, "map %u: is not aligned", k);
    for (int d = 0; d < 3; d++)
      if (m->extent[d] < 1 || m->extent[d] > INT64_C(1) << 31) return refuse(c, "map %u: extent %" PRId64, k, m->extent[d]);
    for (int d = 0; d < 2; d++)
      if (m->stride[d] < 8 || m->stride[d] >= INT64_C(1) << 39) return refuse(c, "map %u: stride %" PRId64, k, m->stride[d]);
  }
  return TC_OK;
}

static tc_status check_memory(const check *c) {
  const tc_nest *n = c->nest;
  if (n->scratch_bytes < 0) return refuse(c, "scratch of %" PRId64 " bytes", n->scratch_bytes);
  for (uint32_t b = 0; b < n->n_buf; b++)
    if (n->buf_type[b] >= TC_N_TYPES) return refuse(c, "buffer %u: no such type: %u", b, n->buf_type[b]);
  for (uint32_t t = 0; t < n->n_tile; t++) {
    const tc_ntile *tile = &n->tile[t];
    if (tile->dtype >= TC_N_TYPES) return refuse(c, "tile %u: no such type: %u", t, tile->dtype);
    if (tile->of_lanes && n->threads == 0) return refuse(c, "tile %u: a nest without threads has no lanes that a tile is of", t);
    if (tile->of_lanes && (tile->n < 0 || tile->n > INT32_MAX)) return refuse(c, "tile %u: %" PRId64 " elements", t, tile->n);
    if (tile->of_lanes) continue;
    if (n->groups > 1) return refuse(c, "tile %u: a block of %u groups has no memory of one", t, n->groups);
    if (n->cluster) return refuse(c, "tile %u: a group of %u blocks has no memory of all", t, n->cluster);
    if (tile->offset < 0 || tile->offset % 64 != 0) return refuse(c, "tile %u: offset %" PRId64 " is not a multiple of 64", t, tile->offset);
    if (tile->n < 0 || tile->offset > n->scratch_bytes || tile->n > (n->scratch_bytes - tile->offset) / (int64_t)tc_type_bytes((tc_type)tile->dtype))
      return refuse(c, "tile %u: %" PRId64 " elements at %" PRId64 " exceed the scratch of %" PRId64 " bytes", t, tile->n, tile->offset,
                    n->scratch_bytes);
  }
  return TC_OK;
}

static tc_status check_groups(const check *c) {
  const tc_nest *n = c->nest;
  const unsigned blocks = n->cluster ? n->cluster : 1;
  if (n->threads == 0) return TC_OK;
  if (n->n_buf > 64) return refuse(c, "%u buffers are more than 64", n->n_buf);
  if (blocks > 8 || (blocks & (blocks - 1)) != 0 || (n->cluster && (n->threads < 64 * blocks || n->groups != 1)))
    return refuse(c, "groups of %u threads, %u in a block, spread over %u blocks", n->threads, n->groups, blocks);
  if (n->threads > 1024 * blocks || (n->threads & (n->threads - 1)) != 0) return refuse(c, "groups of %u threads", n->threads);
  if (n->groups == 0 || n->groups > 1024 * blocks / n->threads || (n->groups > 1 && n->threads > 64))
    return refuse(c, "%u groups of %u threads in a block", n->groups, n->threads);
  return TC_OK;
}

tc_status tc_nest_verify(const tc_nest *nest, char *text, size_t bytes) {
  if (bytes > 0) text[0] = 0;
  check c = {.nest = nest, .open = TC_NONE, .at = TC_NONE, .text = text, .bytes = bytes};
  TRY(check_groups(&c));
  TRY(check_memory(&c));
  TRY(check_maps(&c));
  if (nest->n_inst == TC_NONE) return refuse(&c, "too many instructions");
  c.scope = tc_malloc(((size_t)nest->n_inst + 1) * sizeof *c.scope);
  c.closed = tc_calloc((size_t)nest->n_inst + 1, 1);
  c.tile_lanes = tc_calloc((size_t)nest->n_tile + 1, sizeof *c.tile_lanes);
  tc_status st = c.scope != NULL && c.closed != NULL && c.tile_lanes != NULL ? TC_OK : TC_ERR_MEMORY;
  if (st != TC_OK && bytes > 0) (void)snprintf(text, bytes, "out of memory");
  for (c.at = 0; st == TC_OK && c.at < nest->n_inst; c.at++) st = check_inst(&c);
  if (st == TC_OK && c.open != TC_NONE) {
    c.at = c.open;
    st = refuse(&c, "is not ended");
  }
  tc_free(c.scope);
  tc_free(c.closed);
  tc_free(c.tile_lanes);
  return st;
}
