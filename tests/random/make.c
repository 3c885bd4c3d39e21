// Making random programs from seeds. See random_graph.h.
#include "tests/random/parts.h"

uint32_t rg_roll(rg_dice *d, uint32_t n) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = d->state ^ d->state >> 29;
  return (uint32_t)((x * 0x9e3779b97f4a7c15u) >> 33) % n;
}

static tc_dims random_dims(rg_dice *d) {
  static const int64_t extents[] = {1, 2, 3, 3, 4, 4, 5, 8, 16, 17, 33};
  tc_dims s = tc_dims_of(0, NULL);
  s.rank = (int[]){0, 1, 1, 2, 2, 2, 2, 3}[rg_roll(d, 8)];
  for (int k = 0; k < s.rank; k++) s.dim[k] = extents[rg_roll(d, s.rank == 3 ? 6 : s.rank == 2 ? 9 : 11)];
  if (rg_roll(d, 40) == 0 && s.rank) s.dim[0] = 0;
  return s;
}

static rg_instr random_instr(rg_dice *d, const rg_program *p, const rg_plan *pl) {
  static const tc_type types[] = {TC_F32, TC_F32, TC_F32, TC_F32,  TC_F32, TC_F64,
                                  TC_I32, TC_I64, TC_F16, TC_BF16, TC_U8,  TC_BOOL};
  rg_instr s = {RG_NOP, TC_F32, 0, 0, 0, (int)rg_roll(d, 1 << 20), (int)rg_roll(d, 1 << 20), tc_dims_of(0, NULL)};
  static const rg_op common[] = {RG_UNARY, RG_UNARY,  RG_UNARY,  RG_BINARY, RG_BINARY, RG_BINARY,    RG_BINARY,
                                 RG_NUM,   RG_MATMUL, RG_MATMUL, RG_FOLD,   RG_FOLD,   RG_TRANSPOSE, RG_SLICE};
  s.op =
      rg_roll(d, 3) ? common[rg_roll(d, sizeof common / sizeof *common)] : (rg_op)(1 + (int)rg_roll(d, RG_UNFOLD - 1));
  if (s.op == RG_FLIP && s.q % 4) s.op = RG_UNFOLD;
  if (s.op == RG_CUMSUM && s.q / 4 % 3) s.op = s.q / 4 % 3 == 1 ? RG_SORT : RG_MAX_POOL;
  s.type = p->smooth ? TC_F64 : types[rg_roll(d, 12)];
  if (s.op == RG_PARAM && s.type != TC_F64) s.type = TC_F32;
  s.dims = random_dims(d);
  // Half of the leaves look like one that is there, so that operands fit.
  if ((s.op == RG_LEAF || s.op == RG_PARAM) && p->n && rg_roll(d, 2)) {
    const rg_fact *f = &pl->f[rg_roll(d, (uint32_t)p->n)];
    if (f->value) s.dims = f->dims, s.type = s.op == RG_LEAF || near_is_float(f->type) ? f->type : s.type;
    if (f->value && f->dims.rank == 2 && rg_roll(d, 2)) s.dims.dim[0] = f->dims.dim[1];
  }
  if (p->n) {
    uint32_t n = (uint32_t)p->n, recent = n < 6 ? n : 6;
    s.a = (int)(rg_roll(d, 2) ? n - 1 - rg_roll(d, recent) : rg_roll(d, n));
    s.b = (int)rg_roll(d, n), s.c = (int)rg_roll(d, n);
  }
  return s;
}

// A product of two operands made of one narrow leaf: seldom drawn by chance, and what kernels make
// where they load it. Nothing where it does not fit.
static void add_product_of_one(rg_program *p, rg_plan *pl, rg_dice *d) {
  static const tc_type narrow[] = {TC_F16, TC_BF16, TC_I8}, wide[] = {TC_F32, TC_F32, TC_F32, TC_F64};
  static const rg_op ops[] = {RG_NUM, RG_NUM, RG_UNARY, RG_BINARY, RG_SOFTMAX};
  static const int64_t extents[] = {2, 4, 5, 8, 16, 17};
  int leaf = p->n, cast = leaf + 1, n_ops = 1 + (int)rg_roll(d, 2), at = leaf;
  tc_dims dims = tc_dims_of(2, (const int64_t[]){extents[rg_roll(d, 6)], extents[rg_roll(d, 6)]});
  p->instr[at++] = (rg_instr){RG_LEAF, narrow[rg_roll(d, 3)], 0, 0, 0, (int)rg_roll(d, 1 << 20), 0, dims};
  p->instr[at++] = (rg_instr){RG_CAST, wide[rg_roll(d, 4)], leaf, 0, 0, 0, 0, tc_dims_of(0, NULL)};
  for (int k = 0; k < n_ops; k++, at++)
    p->instr[at] =
        (rg_instr){ops[rg_roll(d, 5)], TC_F32, at - 1, cast, 0, (int)rg_roll(d, 1 << 20), (int)rg_roll(d, 1 << 20),
                   tc_dims_of(0, NULL)};
  int made = at - 1, turned = rg_roll(d, 2) ? made : cast;
  p->instr[at++] = (rg_instr){RG_TRANSPOSE, TC_F32, turned, 0, 0, 0, 1, tc_dims_of(0, NULL)};
  p->instr[at] = (rg_instr){RG_MATMUL, TC_F32, turned == made ? cast : made, at - 1, 0, 0, 0, tc_dims_of(0, NULL)};
  bool first = rg_roll(d, 2);
  if (first) p->instr[at].a = at - 1, p->instr[at].b = turned == made ? cast : made;
  bool fits = true;
  for (int i = leaf; i <= at && fits; i++) fits = rg_infer(p, pl, i);
  if (fits) p->n = at + 1;
}

void rg_make(rg_program *p, uint64_t seed) {
  rg_dice d = {seed * 0x9e3779b97f4a7c15u + 12345}, shared = {seed * 0x9e3779b97f4a7c15u + 54321};
  rg_plan pl;
  memset(p, 0, sizeof *p);
  rg_roll(&d, 2);
  p->smooth = rg_roll(&d, 4) == 0;
  bool shares = seed % 4 == 0 && !p->smooth;
  int want = 6 + (int)rg_roll(&d, RG_MAX_INSTRS - 16), depth = 0;
  p->instr[p->n++] =
      (rg_instr){RG_PARAM, p->smooth ? TC_F64 : TC_F32, 0, 0, 0, (int)rg_roll(&d, 1000), 0, random_dims(&d)};
  for (int tries = 0; p->n < want && tries < 4000; tries++) {
    if (!rg_plan_program(p, &pl) && !depth) break;
    if (shares && p->n + 6 < want && rg_roll(&shared, 5) == 0) add_product_of_one(p, &pl, &shared);
    rg_instr s = random_instr(&d, p, &pl);
    // An open scope is not yet a valid program: close it with what was made last when the budget
    // runs out.
    if (s.op == RG_SCOPE_BEGIN && (depth || p->n + 8 > want)) continue;
    if (s.op == RG_SCOPE_END && !depth) continue;
    if (s.op == RG_BACKWARD && depth) continue;
    // Operands of several seldom fit by chance: draw them again a few times.
    bool fits = false, several = s.op == RG_WHERE || s.op == RG_MATMUL || s.op == RG_ASSIGN_SLICE ||
                                 s.op == RG_COMPARE || s.op == RG_CAT;
    for (int draw = 0; draw < (several ? 60 : 1) && !fits; draw++) {
      p->instr[p->n] = s;
      fits = rg_infer(p, &pl, p->n);
      if (p->n)
        s.a = (int)rg_roll(&d, (uint32_t)p->n), s.b = (int)rg_roll(&d, (uint32_t)p->n),
        s.c = (int)rg_roll(&d, (uint32_t)p->n);
    }
    if (!fits) continue;
    depth += s.op == RG_SCOPE_BEGIN, depth -= s.op == RG_SCOPE_END;
    p->n++;
    tries = 0;
  }
  for (int k = p->n - 1; depth && k >= 0; k--) {
    rg_plan_program(p, &pl);
    p->instr[p->n] = (rg_instr){RG_SCOPE_END, TC_F32, k, 0, 0, 0, 0, tc_dims_of(0, NULL)};
    if (rg_infer(p, &pl, p->n) && p->n < RG_MAX_INSTRS - 1) p->n++, depth--;
  }
  rg_plan_program(p, &pl);
  for (int k = p->n - 1; k > 0 && !pl.backward && p->n < RG_MAX_INSTRS; k--) {
    p->instr[p->n] = (rg_instr){RG_BACKWARD, TC_F32, k, 0, 0, 0, 0, tc_dims_of(0, NULL)};
    if (rg_infer(p, &pl, p->n)) p->n++;
  }
}
