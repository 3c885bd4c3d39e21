// One instruction after the other, for all threads at a time. See threads.h.
#include "tests/threads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/kir/libm.h"

enum { MOST_COPIES = 65536, MOST_BOXES = 64, MOST_PRODUCTS = 2, BOX = TC_KIR_TMA_BOX };

typedef union cell {
  int64_t i;
  float f;
  double d;
} cell;

typedef struct copy {
  uint32_t tile;
  int64_t at;
  unsigned char byte[16];
  int group;
} copy;

// A box that was fetched for a chunk and has not arrived.
typedef struct box {
  const tc_tensor_map *map;
  int64_t x, y, z, at, chunk;
} box;

typedef struct machine {
  const tc_kir *kir;
  void *const *buf;
  const int64_t *n;
  const uint64_t *num;
  int64_t begin, end;
  cell **value;  // per instruction: its lanes
  char *tile[16];
  unsigned char *there[16];  // per element of a tile: written
  copy *copies;
  int n_copies, group;
  box boxes[MOST_BOXES];
  int n_boxes, n_products;
  uint32_t product[MOST_PRODUCTS];  // WGMMAs that are under way, and where their factors begin, a thread each
  int64_t *from[MOST_PRODUCTS];
  uint32_t at;
  char *text;
  bool failed;
} machine;

static const uint8_t bytes_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) bytes,
#include <tc/dtypes.def>
#undef TC_TYPE
};

static void fail(machine *m, const char *what, int64_t v) {
  if (!m->failed)
    snprintf(m->text, 200, "instruction %u (%s): %s %lld", m->at, tc_kir_op_name((tc_kir_op)m->kir->inst[m->at].op),
             what, (long long)v);
  m->failed = true;
}

// ---- elements ----

static float of_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  return memcpy(&f, &u, sizeof f), f;
}

static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if (f != f) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

// Halves are kept as floats, which they are exactly.
static cell read_as(tc_type t, const void *p) {
  cell c = {0};
  uint16_t h;
  _Float16 half;
  switch (t) {
    case TC_F32: memcpy(&c.f, p, 4); break;
    case TC_F64: memcpy(&c.d, p, 8); break;
    case TC_F16: memcpy(&half, p, 2), c.f = (float)half; break;
    case TC_BF16: memcpy(&h, p, 2), c.f = of_bf16(h); break;
    case TC_I8: c.i = *(const int8_t *)p; break;
    case TC_I16: c.i = *(const int16_t *)p; break;
    case TC_I32: c.i = *(const int32_t *)p; break;
    case TC_I64: memcpy(&c.i, p, 8); break;
    default: c.i = *(const uint8_t *)p;
  }
  return c;
}

static void write_as(tc_type t, void *p, cell c) {
  uint16_t h = to_bf16(c.f);
  _Float16 half = (_Float16)c.f;
  switch (t) {
    case TC_F32: memcpy(p, &c.f, 4); break;
    case TC_F64: memcpy(p, &c.d, 8); break;
    case TC_F16: memcpy(p, &half, 2); break;
    case TC_BF16: memcpy(p, &h, 2); break;
    default: memcpy(p, &c.i, bytes_of[t]);
  }
}

static bool is_float(tc_type t) {
  return t == TC_F32 || t == TC_F16 || t == TC_BF16;
}

static int64_t wrapped(tc_type t, int64_t v) {
  switch (t) {
    case TC_I8: return (int8_t)v;
    case TC_U8: return (uint8_t)v;
    case TC_I16: return (int16_t)v;
    case TC_I32: return (int32_t)v;
    case TC_BOOL: return v != 0;
    default: return v;
  }
}

// ---- memory ----

static char *place(machine *m, int64_t buffer, int64_t at, int n, tc_type *type) {
  const tc_kir *kir = m->kir;
  int64_t tile = buffer - kir->n_buf, size = tile < 0 ? m->n[buffer] : kir->tile[tile].n;
  *type = (tc_type)(tile < 0 ? kir->buf_type[buffer] : kir->tile[tile].dtype);
  if (at < 0 || at + n > size) return fail(m, "outside, at", at), NULL;
  return (tile < 0 ? (char *)m->buf[buffer] : m->tile[tile]) + at * bytes_of[*type];
}

static cell load(machine *m, int64_t buffer, int64_t at) {
  tc_type type;
  const char *p = place(m, buffer, at, 1, &type);
  if (p && buffer >= m->kir->n_buf && m->there[buffer - m->kir->n_buf][at] != 1)
    fail(m, "reads what is not there, at", at);
  return p ? read_as(type, p) : (cell){0};
}

static void store(machine *m, int64_t buffer, int64_t at, cell c) {
  tc_type type;
  char *p = place(m, buffer, at, 1, &type);
  if (!p) return;
  write_as(type, p, c);
  if (buffer >= m->kir->n_buf) m->there[buffer - m->kir->n_buf][at] = 1;
}

// Where lane `lane` of an access is: by an address of its own, of its thread, or of the first lane.
static int64_t address(machine *m, const tc_kir_inst *i, int lane, bool *on, int mask) {
  const tc_kir_inst *a = &m->kir->inst[i->src[0]];
  int each = i->lanes / a->lanes;
  int thread = a->lanes == 1 ? 0 : lane / each, off = lane - thread * each;
  int64_t at = m->value[i->src[0]][thread].i;
  *on = true;
  if (i->src[mask] != TC_NONE)
    *on = m->value[i->src[mask]][m->kir->inst[i->src[mask]].lanes == i->lanes ? lane : thread].i;
  int aligned = i->imm >= m->kir->n_buf && each > 8 / bytes_of[i->dtype] ? 8 / bytes_of[i->dtype] : each;
  if (*on && a->lanes > 1 && each > 1 && at % aligned) fail(m, "not aligned, at", at);
  return at + off;
}

static void access_memory(machine *m, const tc_kir_inst *i, cell *v) {
  bool stores = i->op == TC_IR_STORE || i->op == TC_IR_SCATTER, on;
  for (int l = 0; l < i->lanes && !m->failed; l++) {
    int64_t at = address(m, i, l, &on, stores ? 2 : 1);
    if (stores && on) store(m, i->imm, at, m->value[i->src[1]][l]);
    if (!stores) v[l] = on ? load(m, i->imm, at) : (cell){0};
  }
}

static void begin_copies(machine *m, const tc_kir_inst *i) {
  int n = 16 / bytes_of[i->dtype];
  tc_type type;
  for (int t = 0; t < i->lanes && !m->failed; t++) {
    bool on = i->src[2] == TC_NONE || m->value[i->src[2]][t].i;
    int64_t from = m->value[i->src[0]][t].i, to = m->value[i->src[1]][t].i;
    copy *c = &m->copies[m->n_copies++];
    if (m->n_copies == MOST_COPIES) fail(m, "too many copies", 0);
    *c = (copy){.tile = i->flags, .at = to, .group = m->group};
    if ((on && from % n) || to % n) fail(m, "not aligned, at", on ? from : to);
    const char *p = on ? place(m, i->imm, from, n, &type) : NULL;
    if (p) memcpy(c->byte, p, 16);
    for (int k = 0; k < n && to >= 0 && to + n <= m->kir->tile[i->flags].n; k++)
      if (m->there[i->flags][to + k] == 2) fail(m, "copies to where a copy is under way, at", to + k);
    if (place(m, m->kir->n_buf + i->flags, to, n, &type)) memset(m->there[i->flags] + to, 2, (size_t)n);
  }
}

static void wait_for_copies(machine *m, int64_t most) {
  int kept = 0;
  for (int k = 0; k < m->n_copies; k++) {
    copy *c = &m->copies[k];
    int n = 16 / bytes_of[m->kir->tile[c->tile].dtype];
    if (c->group >= m->group - most) {
      m->copies[kept++] = *c;
      continue;
    }
    memcpy(m->tile[c->tile] + c->at * bytes_of[m->kir->tile[c->tile].dtype], c->byte, 16);
    memset(m->there[c->tile] + c->at, 1, (size_t)n);
  }
  m->n_copies = kept;
}

// ---- matrices ----

static void ldmatrix(machine *m, const tc_kir_inst *i, cell *v) {
  int each = i->lanes / m->kir->threads;
  for (int t = 0; t < m->kir->threads; t++)
    for (int e = 0; e < each; e++) {
      int lane = t % 32, row = i->flags & 1 ? lane % 4 * 2 + e % 2 : lane / 4,
          column = i->flags & 1 ? lane / 4 : lane % 4 * 2 + e % 2;
      int64_t at = m->value[i->src[0]][t - lane + e / 2 * 8 + row].i;
      if (at % 8) fail(m, "not aligned, at", at);
      v[t * each + e] = load(m, m->kir->n_buf + i->imm, at + column);
    }
}

// In order of k, rounded once a step.
static void mma(machine *m, const tc_kir_inst *i, cell *v) {
  const cell *a = m->value[i->src[0]], *b = m->value[i->src[1]], *c = m->value[i->src[2]];
  for (int t = 0; t < m->kir->threads; t++)
    for (int e = 0; e < 4; e++) {
      int w = t - t % 32, row = t % 32 / 4 + e / 2 * 8, column = t % 4 * 2 + e % 2;
      float sum = c[t * 4 + e].f;
      for (int k = 0; k < 16; k++) {
        float x = a[(w + row % 8 * 4 + k % 8 / 2) * 8 + k / 8 * 4 + row / 8 * 2 + k % 2].f;
        float y = b[(w + column * 4 + k % 8 / 2) * 4 + k / 8 * 2 + k % 2].f;
        sum = fmaf(x, y, sum);
      }
      v[t * 4 + e].f = sum;
    }
}

static void mfma(machine *m, const tc_kir_inst *i, cell *v) {
  const cell *a = m->value[i->src[0]], *b = m->value[i->src[1]], *c = m->value[i->src[2]];
  for (int t = 0; t < m->kir->threads; t++)
    for (int e = 0; e < 4; e++) {
      int w = t - t % 64, row = t % 64 / 16 * 4 + e, column = t % 16;
      float sum = c[t * 4 + e].f;
      for (int k = 0; k < 16; k++)
        sum = fmaf(a[(w + k / 4 * 16 + row) * 4 + k % 4].f, b[(w + k / 4 * 16 + column) * 4 + k % 4].f, sum);
      v[t * 4 + e].f = sum;
    }
}

// ---- boxes, and products of them ----

static bool is_read(const machine *m, uint32_t tile, int64_t at) {
  for (int p = 0; p < m->n_products; p++) {
    const tc_kir_inst *i = &m->kir->inst[m->product[p]];
    for (int k = 0; k < 2; k++) {
      const tc_tensor_map *map = &m->kir->map[k ? i->imm >> 8 : i->imm & 255];
      int n = k ? 2 * m->kir->inst[i->src[2]].lanes / m->kir->threads : BOX;
      for (int t = 0; t < m->kir->threads; t++) {
        int64_t first = m->from[p][2 * t + k];
        if (map->tile == tile && at + BOX * BOX > first && at < first + n * BOX) return true;
      }
    }
  }
  return false;
}

static void fetch(machine *m, const tc_kir_inst *i) {
  const tc_tensor_map *map = &m->kir->map[i->imm];
  int64_t stage = m->kir->tile[map->tile].n / m->kir->stages, v[4];
  for (int k = 0; k < 4; k++) v[k] = m->value[i->src[k]][0].i;
  box b = {map, v[0], v[1], v[2], v[3] % m->kir->stages * stage + (int64_t)i->flags * BOX * BOX, v[3]};
  if (m->n_boxes == MOST_BOXES) return fail(m, "too many boxes", m->n_boxes);
  if (is_read(m, map->tile, b.at)) fail(m, "a box is fetched to where a product reads, at", b.at);
  for (int k = 0; k < m->n_boxes; k++)
    if (m->boxes[k].map->tile == map->tile && m->boxes[k].at == b.at)
      fail(m, "a box is fetched to where another one is under way, at", b.at);
  memset(m->there[map->tile] + b.at, 2, BOX * BOX);
  m->boxes[m->n_boxes++] = b;
}

static void land(machine *m, const box *b) {
  const tc_tensor_map *map = b->map;
  uint16_t *to = (uint16_t *)m->tile[map->tile] + b->at, *from = m->buf[map->buffer];
  for (int64_t r = 0; r < BOX; r++)
    for (int64_t c = 0; c < BOX; c++) {
      bool in = b->x + c < map->extent[0] && b->y + r < map->extent[1] && b->z < map->extent[2];
      int64_t at = map->first + (b->x + c) + (b->y + r) * map->stride[0] + b->z * map->stride[1];
      if (in && at >= m->n[map->buffer]) fail(m, "a box is outside, at", at);
      to[r * BOX + c] = in && !m->failed ? from[at] : 0;
    }
  memset(m->there[map->tile] + b->at, 1, BOX * BOX);
}

static void arrive(machine *m, int64_t chunk) {
  int kept = 0, n = 0;
  int64_t wanted = 0;
  for (int k = 0; k < m->kir->n_map; k++) wanted += m->kir->tile[m->kir->map[k].tile].n / (BOX * BOX) / m->kir->stages;
  for (int k = 0; k < m->n_boxes; k++) {
    if (m->boxes[k].chunk == chunk)
      land(m, &m->boxes[k]), n++;
    else
      m->boxes[kept++] = m->boxes[k];
  }
  m->n_boxes = kept;
  if (n != wanted) fail(m, "boxes that never arrive, of chunk", chunk);
}

static void begin_product(machine *m, const tc_kir_inst *i) {
  if (m->n_products == MOST_PRODUCTS) return fail(m, "products under way, more than", MOST_PRODUCTS);
  int64_t *from = malloc(2 * (size_t)m->kir->threads * sizeof *from);
  for (int t = 0; t < m->kir->threads; t++)
    for (int k = 0; k < 2; k++) from[2 * t + k] = m->value[i->src[k]][t].i;
  m->from[m->n_products] = from, m->product[m->n_products++] = m->at;
}

// Step k of a line of boxes from `first` on.
static float factor(machine *m, const tc_tensor_map *map, int64_t first, bool turned, int line, int k) {
  int row = turned ? k : line % BOX, column = turned ? line % BOX : k;
  return load(m, m->kir->n_buf + map->tile, first + line / BOX * BOX * BOX + row * BOX + column).f;
}

// In order of k, rounded once a step: element 4 j + e of a thread is of row 16 (its warp of four) +
// its lane / 4 + 8 (e / 2), column 8 j + 2 (lane % 4) + e % 2.
static void make_product(machine *m) {
  const tc_kir_inst *i = &m->kir->inst[m->product[0]];
  int each = m->kir->inst[i->src[2]].lanes / m->kir->threads;
  cell *sums = m->value[i->src[2]];
  for (int t = 0; t < m->kir->threads && !m->failed; t++)
    for (int e = 0; e < each; e++) {
      int row = t / 32 % 4 * 16 + t % 32 / 4 + e % 4 / 2 * 8, column = e / 4 * 8 + t % 4 * 2 + e % 2;
      float sum = sums[t * each + e].f;
      for (int k = 0; k < BOX; k++) {
        float a = factor(m, &m->kir->map[i->imm & 255], m->from[0][2 * t], i->flags & 1, row, k);
        sum = fmaf(a, factor(m, &m->kir->map[i->imm >> 8], m->from[0][2 * t + 1], i->flags & 2, column, k), sum);
      }
      sums[t * each + e].f = sum;
    }
  free(m->from[0]);
  m->n_products--;
  for (int k = 0; k < m->n_products; k++) m->product[k] = m->product[k + 1], m->from[k] = m->from[k + 1];
}

static void check_settled(machine *m, const tc_kir_inst *i) {
  for (int p = 0; p < m->n_products; p++)
    if (m->kir->inst[m->product[p]].src[2] == i->src[0]) fail(m, "reads what is being added to", i->src[0]);
}

// ---- arithmetic ----

static int64_t shifted(tc_kir_op op, tc_type t, int64_t a, int64_t n) {
  int bits = 8 * bytes_of[t];
  uint64_t u = (uint64_t)a & (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
  if (n < 0 || n >= bits) return op == TC_IR_SHR && a < 0 ? -1 : 0;
  return op == TC_IR_SHL ? (int64_t)(u << n) : op == TC_IR_USHR ? (int64_t)(u >> n) : a >> n;
}

static int64_t integers(machine *m, tc_kir_op op, tc_type t, int64_t a, int64_t b) {
  switch (op) {
    case TC_IR_ADD: return wrapped(t, (int64_t)((uint64_t)a + (uint64_t)b));
    case TC_IR_SUB: return wrapped(t, (int64_t)((uint64_t)a - (uint64_t)b));
    case TC_IR_MUL: return wrapped(t, (int64_t)((uint64_t)a * (uint64_t)b));
    case TC_IR_DIV: return b == 0 ? 0 : wrapped(t, a / b);
    case TC_IR_REM: return b == 0 ? 0 : a % b;
    case TC_IR_MIN: return a < b ? a : b;
    case TC_IR_MAX: return a > b ? a : b;
    case TC_IR_AND: return a & b;
    case TC_IR_OR: return a | b;
    case TC_IR_XOR: return a ^ b;
    case TC_IR_SHL:
    case TC_IR_SHR:
    case TC_IR_USHR: return wrapped(t, shifted(op, t, a, b));
    default: return fail(m, "not known here", op), 0;
  }
}

#define FLOATS(name, type, sqrt_, floor_) \
  static type name(machine *m, tc_kir_op op, type a, type b) { \
    switch (op) { \
      case TC_IR_ADD: return a + b; \
      case TC_IR_SUB: return a - b; \
      case TC_IR_MUL: return a * b; \
      case TC_IR_DIV: return a / b; \
      case TC_IR_MIN: return a < b || a != a ? a : b; \
      case TC_IR_MAX: return a > b || a != a ? a : b; \
      case TC_IR_NEG: return -a; \
      case TC_IR_ABS: return a < 0 ? -a : a; \
      case TC_IR_SQRT: return sqrt_(a); \
      case TC_IR_FLOOR: return floor_(a); \
      default: return fail(m, "not known here", op), (type)0; \
    } \
  }
FLOATS(floats, float, sqrtf, floorf)
FLOATS(doubles, double, sqrt, floor)

static bool compare(tc_kir_op op, double a, double b) {
  switch (op) {
    case TC_IR_EQ: return a == b;
    case TC_IR_NE: return a != b;
    case TC_IR_LT: return a < b;
    case TC_IR_LE: return a <= b;
    case TC_IR_GT: return a > b;
    default: return a >= b;
  }
}

static double number(tc_type t, cell c) {
  return is_float(t) ? (double)c.f : t == TC_F64 ? c.d : (double)c.i;
}

static cell cast(tc_type from, tc_type to, cell c) {
  cell r = {0};
  _Float16 half;
  double v = number(from, c);
  switch (to) {
    case TC_F32: r.f = from == TC_I64 ? (float)c.i : (float)v; break;
    case TC_F64: r.d = v; break;
    case TC_F16: half = (_Float16)(from == TC_F64 ? c.d : v), r.f = (float)half; break;
    case TC_BF16: r.f = of_bf16(to_bf16((float)v)); break;
    case TC_BOOL: r.i = v != 0; break;
    default: r.i = is_float(from) || from == TC_F64 ? wrapped(to, v != v ? 0 : (int64_t)v) : wrapped(to, c.i);
  }
  return r;
}

// Between types of one width.
static cell bits(tc_type to, tc_type from, cell c) {
  cell r = {0};
  int32_t i;
  if (from == TC_F32) return memcpy(&i, &c.f, sizeof i), r.i = i, r;
  if (to != TC_F32) return c;
  return i = (int32_t)c.i, memcpy(&r.f, &i, sizeof i), r;
}

static double call(const tc_kir_inst *i, double a, double b) {
  const void *const *table = tc_kir_math_table();
  if (tc_kir_math_operands(i->imm) == 1) return ((double (*)(double))(uintptr_t)table[i->imm])(a);
  return ((double (*)(double, double))(uintptr_t)table[i->imm])(a, b);
}

static cell lane_of(machine *m, const tc_kir_inst *i, int l) {
  const cell *s[3];
  cell r = {0};
  tc_type t = (tc_type)i->dtype, from = i->src[0] == TC_NONE ? t : (tc_type)m->kir->inst[i->src[0]].dtype;
  for (int k = 0; k < 3; k++) s[k] = i->src[k] == TC_NONE ? NULL : m->value[i->src[k]];
  switch ((tc_kir_op)i->op) {
    case TC_IR_BEGIN: r.i = m->begin; break;
    case TC_IR_FINISH: r.i = m->end; break;
    case TC_IR_CONST: r = t == TC_F64 || t == TC_F32 ? read_as(t, &i->imm) : (cell){.i = i->imm}; break;
    case TC_IR_NUM:
      memcpy(&r.d, &m->num[i->imm], 8);
      if (t == TC_F32) r.f = (float)r.d;
      break;
    case TC_IR_LANES: r.i = l; break;
    case TC_IR_SPLAT: r = s[0][0]; break;
    case TC_IR_VAR: r = s[0][l]; break;
    case TC_IR_EXTRACT: r = s[0][(int64_t)l * (m->kir->inst[i->src[0]].lanes / m->kir->threads) + i->imm]; break;
    case TC_IR_INTERLEAVE: r = s[l % 2][l / 2]; break;
    case TC_IR_SHFL_XOR: r = s[0][l ^ (i->imm * (i->lanes / m->kir->threads))]; break;
    case TC_IR_SELECT: r = s[0][l].i ? s[1][l] : s[2][l]; break;
    case TC_IR_CAST: r = cast(from, t, s[0][l]); break;
    case TC_IR_BITCAST: r = bits(t, from, s[0][l]); break;
    case TC_IR_CALL: r.d = call(i, s[0][l].d, s[1] ? s[1][l].d : 0); break;
    case TC_IR_FMA:
      if (t == TC_F32)
        r.f = fmaf(s[0][l].f, s[1][l].f, s[2][l].f);
      else
        r.d = fma(s[0][l].d, s[1][l].d, s[2][l].d);
      break;
    case TC_IR_EXP2: r.f = exp2f(s[0][l].f), r.f = r.f < 0x1p-126f ? 0 : r.f; break;
    case TC_IR_LDEXP:
      r.f = s[0][l].f != s[0][l].f || s[1][l].f != s[1][l].f ? NAN : ldexpf(s[0][l].f, (int)s[1][l].f);
      break;
    case TC_IR_NOT: r.i = t == TC_BOOL ? !s[0][l].i : wrapped(t, ~s[0][l].i); break;
    case TC_IR_EQ:
    case TC_IR_NE:
    case TC_IR_LT:
    case TC_IR_LE:
    case TC_IR_GT:
    case TC_IR_GE: r.i = compare((tc_kir_op)i->op, number(from, s[0][l]), number(from, s[1][l])); break;
    default:
      if (t == TC_F32)
        r.f = floats(m, (tc_kir_op)i->op, s[0][l].f, s[1] ? s[1][l].f : 0);
      else if (t == TC_F64)
        r.d = doubles(m, (tc_kir_op)i->op, s[0][l].d, s[1] ? s[1][l].d : 0);
      else
        r.i = integers(m, (tc_kir_op)i->op, t, s[0][l].i, s[1] ? s[1][l].i : 0);
  }
  return r;
}

static void reduce_lanes(machine *m, const tc_kir_inst *i, cell *v) {
  int n = m->kir->inst[i->src[0]].lanes;
  cell *s = malloc((size_t)n * sizeof *s);
  memcpy(s, m->value[i->src[0]], (size_t)n * sizeof *s);
  for (n /= 2; n > 0; n /= 2)
    for (int l = 0; l < n; l++) {
      if (i->dtype == TC_F32)
        s[l].f = floats(m, (tc_kir_op)i->imm, s[l].f, s[l + n].f);
      else if (i->dtype == TC_F64)
        s[l].d = doubles(m, (tc_kir_op)i->imm, s[l].d, s[l + n].d);
      else
        s[l].i = integers(m, (tc_kir_op)i->imm, (tc_type)i->dtype, s[l].i, s[l + n].i);
    }
  v[0] = s[0];
  free(s);
}

// ---- control ----

static uint32_t end_of(const tc_kir *n, uint32_t at) {
  int depth = 0;
  for (;; at++) {
    if (n->inst[at].op == TC_IR_LOOP || n->inst[at].op == TC_IR_IF) depth++;
    if (n->inst[at].op == TC_IR_ENDLOOP || n->inst[at].op == TC_IR_ENDIF)
      if (--depth == 0) return at;
  }
}

static void run(machine *m, uint32_t from, uint32_t to);

static void run_one(machine *m, uint32_t *at) {
  const tc_kir_inst *i = &m->kir->inst[*at];
  cell *v = m->value[*at];
  m->at = *at;
  switch ((tc_kir_op)i->op) {
    case TC_IR_LOOP: {
      uint32_t end = end_of(m->kir, *at);
      int64_t last = m->value[i->src[1]][0].i;
      for (int64_t k = m->value[i->src[0]][0].i; k < last && !m->failed; k += i->imm) v[0].i = k, run(m, *at + 1, end);
      *at = end;
      return;
    }
    case TC_IR_IF: {
      uint32_t end = end_of(m->kir, *at);
      if (m->value[i->src[0]][0].i) run(m, *at + 1, end);
      *at = end;
      return;
    }
    case TC_IR_SET: memcpy(m->value[i->src[0]], m->value[i->src[1]], m->kir->inst[i->src[0]].lanes * sizeof *v); return;
    case TC_IR_LOAD:
    case TC_IR_GATHER:
    case TC_IR_STORE:
    case TC_IR_SCATTER: access_memory(m, i, v); return;
    case TC_IR_PREFETCH: return;
    case TC_IR_REDUCE: reduce_lanes(m, i, v); return;
    case TC_IR_COPY: begin_copies(m, i); return;
    case TC_IR_COMMIT: m->group++; return;
    case TC_IR_WAIT: wait_for_copies(m, i->imm); return;
    case TC_IR_LDMATRIX: ldmatrix(m, i, v); return;
    case TC_IR_MMA: mma(m, i, v); return;
    case TC_IR_MFMA: mfma(m, i, v); return;
    case TC_IR_TMA_LOAD: fetch(m, i); return;
    case TC_IR_TMA_WAIT: arrive(m, m->value[i->src[0]][0].i); return;
    case TC_IR_WGMMA: begin_product(m, i); return;
    case TC_IR_WGMMA_WAIT:
      while (m->n_products > i->imm && !m->failed) make_product(m);
      return;
    default:
      if (i->op == TC_IR_EXTRACT) check_settled(m, i);
      for (int l = 0; l < i->lanes && !m->failed; l++) v[l] = lane_of(m, i, l);
  }
}

static void run(machine *m, uint32_t from, uint32_t to) {
  for (uint32_t at = from; at < to && !m->failed; at++) run_one(m, &at);
}

const char *threads_run(const tc_kir *kir, void *const *buf, const int64_t *n, const uint64_t *num, int64_t begin,
                        int64_t end, char text[200]) {
  machine m = {.kir = kir, .buf = buf, .n = n, .num = num, .begin = begin, .end = end, .text = text};
  size_t cells = 0;
  for (uint32_t i = 0; i < kir->n_inst; i++) cells += kir->inst[i].lanes;
  cell *all = calloc(cells, sizeof *all);
  m.value = malloc(kir->n_inst * sizeof *m.value);
  m.copies = malloc(MOST_COPIES * sizeof *m.copies);
  for (uint32_t i = 0, at = 0; i < kir->n_inst; at += kir->inst[i++].lanes) m.value[i] = all + at;
  for (uint32_t t = 0; t < kir->n_tile; t++) {
    m.tile[t] = malloc((size_t)kir->tile[t].n * bytes_of[kir->tile[t].dtype]);
    m.there[t] = calloc((size_t)kir->tile[t].n, 1);
  }
  run(&m, 0, kir->n_inst);
  if (m.n_boxes + m.n_products > 0) fail(&m, "boxes or products are under way at the end:", m.n_boxes + m.n_products);
  while (m.n_products > 0) free(m.from[--m.n_products]);
  for (uint32_t t = 0; t < kir->n_tile; t++) free(m.tile[t]), free(m.there[t]);
  free(m.value), free(all), free(m.copies);
  return m.failed ? text : NULL;
}
