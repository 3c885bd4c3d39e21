// tc_einsum: values of random products against a sum over all labels, in whatever order they are
// contracted; that the order holds little memory and takes few multiply-adds; sums of one operand
// are tc_sum's, and bools are treated as by tc_matmul.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/expect.h"

static uint64_t state = 1;

static int draw(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

enum { MOST = 8, LABELS = 7 };

typedef struct product {
  int n, n_out;
  int rank[MOST];
  int label[MOST][4], out[LABELS];
  int64_t extent[LABELS];
  double *data[MOST];
  char spec[128];
} product;

static int64_t count_of(const product *p, int k) {
  int64_t n = 1;
  for (int i = 0; i < p->rank[k]; i++) n *= p->extent[p->label[k][i]];
  return n;
}

// Small whole numbers, so that every order gives the same f64.
static void make(product *p) {
  bool seen[LABELS] = {false};
  char *at = p->spec;
  p->n = 1 + draw(MOST), p->n_out = 0;
  for (int l = 0; l < LABELS; l++) p->extent[l] = draw(12) ? 1 + draw(3) : 0;
  for (int k = 0; k < p->n; k++) {
    p->rank[k] = draw(4);
    for (int i = 0; i < p->rank[k]; i++)
      seen[p->label[k][i] = draw(LABELS)] = true, *at++ = (char)('i' + p->label[k][i]);
    *at++ = ',';
    p->data[k] = malloc(((size_t)count_of(p, k) + 1) * sizeof(double));
    for (int64_t i = 0; i < count_of(p, k); i++) p->data[k][i] = draw(4) - 1;
  }
  at[-1] = '-', *at++ = '>';
  for (int l = LABELS; l-- > 0;)
    if (seen[l] && p->n_out < 4 && draw(2)) p->out[p->n_out++] = l, *at++ = (char)('i' + l);
  *at = 0;
}

// Adds each product of all labels' numbers to where it belongs; value is the product so far of
// those operands that are known.
static void add_up(const product *p, int l, int64_t *at, double *out) {
  if (l < LABELS) {
    bool used = false;
    for (int k = 0; k < p->n; k++)
      for (int i = 0; i < p->rank[k]; i++) used |= p->label[k][i] == l;
    for (at[l] = 0; at[l] < (used ? p->extent[l] : 1); at[l]++) add_up(p, l + 1, at, out);
    return;
  }
  double value = 1;
  for (int k = 0; k < p->n; k++) {
    int64_t i = 0;
    for (int a = 0; a < p->rank[k]; a++) i = i * p->extent[p->label[k][a]] + at[p->label[k][a]];
    value *= p->data[k][i];
  }
  int64_t o = 0;
  for (int a = 0; a < p->n_out; a++) o = o * p->extent[p->out[a]] + at[p->out[a]];
  out[o] += value;
}

static void values_are_right(void) {
  static const tc_type types[] = {TC_F64, TC_I64, TC_I16};
  for (int c = 0; c < 400; c++) {
    product p;
    make(&p);
    tc_scope s = tc_scope_begin();
    int64_t at[LABELS] = {0}, n_out = 1;
    double want[81] = {0}, got[81] = {0};
    tc_tensor x[MOST];
    for (int k = 0; k < p.n; k++) {
      tc_dims d = TC_SCALAR;
      for (int i = 0; i < p.rank[k]; i++) d.dim[d.rank++] = p.extent[p.label[k][i]];
      x[k] = tc_cast(tc_from_host(p.data[k], d, TC_F64), types[c % 3]);
    }
    for (int i = 0; i < p.n_out; i++) n_out *= p.extent[p.out[i]];
    add_up(&p, 0, at, want);
    tc_tensor y = tc_einsum(p.spec, p.n, x);
    bool summed = false;
    for (const char *at = p.spec; *at != '-'; at++) summed |= *at != ',' && !strchr(strchr(p.spec, '>'), *at);
    EXPECT(tc_dtype(y) == (p.n == 1 && summed && types[c % 3] == TC_I16 ? TC_I64 : types[c % 3]), "%s", p.spec);
    EXPECT_OK(tc_to_host(tc_cast(y, TC_F64), got, (size_t)n_out * sizeof got[0]));
    for (int64_t i = 0; i < n_out; i++)
      EXPECT(got[i] == want[i], "%s, %d operands, element %lld: %g, not %g", p.spec, p.n, (long long)i, got[i],
             want[i]);
    tc_scope_end(s);
    for (int k = 0; k < p.n; k++) free(p.data[k]);
  }
}

// The first element of an einsum of ones, with 64 MiB for all but the operands.
static void check_little(const char *spec, int n, const tc_dims *shapes, double want) {
  tc_scope s = tc_scope_begin();
  tc_tensor x[MOST];
  float first = NAN;
  for (int k = 0; k < n; k++) x[k] = tc_ones(shapes[k], TC_F32);
  EXPECT_OK(tc_eval(n, x));
  tc_trim();
  size_t before = tc_memory_stats().live_bytes;
  EXPECT_OK(tc_set_memory_cap(before + ((size_t)64 << 20)));
  tc_tensor y = tc_flatten(tc_einsum(spec, n, x), 0, -1);
  EXPECT_OK(tc_item_f32(tc_select(y, 0, 0), &first));
  EXPECT(fabs((double)first - want) <= 1e-5 * want, "%s: %g, not %g", spec, (double)first, want);
  EXPECT_OK(tc_set_memory_cap(0));
  tc_scope_end(s);
}

// Each of these from left to right would hold gigabytes.
static void orders_hold_little(void) {
  const tc_dims m400 = TC_SHAPE(400, 400), tall = TC_SHAPE(100000, 2), wide = TC_SHAPE(2, 100000);
  check_little("ij,kl,jk->il", 3, (tc_dims[]){m400, m400, m400}, 160000);
  check_little("ab,cd,ef,bc,de->af", 5,
               (tc_dims[]){TC_SHAPE(60, 60), TC_SHAPE(60, 60), TC_SHAPE(60, 60), TC_SHAPE(60, 60), TC_SHAPE(60, 60)},
               60.0 * 60 * 60 * 60);
  check_little("ij,jk,kl->il", 3, (tc_dims[]){tall, wide, tall}, 200000);
  check_little("ij,kl,mn,op,jk,lm,no->ip", 7,
               (tc_dims[]){TC_SHAPE(30, 30), TC_SHAPE(30, 30), TC_SHAPE(30, 30), TC_SHAPE(30, 30), TC_SHAPE(30, 30),
                           TC_SHAPE(30, 30), TC_SHAPE(30, 30)},
               pow(30, 6));
  check_little("i,j,i,j->", 4, (tc_dims[]){TC_SHAPE(100000), TC_SHAPE(100000), TC_SHAPE(100000), TC_SHAPE(100000)},
               1e10);
}

// Of bytes every spec gives i32, and no part of it wraps before.
static void bytes_are_i32(void) {
  static const struct {
    const char *spec;
    int rank[3], want;
  } cases[] = {{"i,j->ij", {1, 1}, 10000},          {"ij,jk->ik", {2, 2}, 30000}, {"ij,ij->ij", {2, 2}, 10000},
               {"bi,bi->b", {2, 2}, 30000},         {"i,i->i", {1, 1}, 10000},    {"ij,j,j->i", {2, 1, 1}, 3000000},
               {"j,j,ij->i", {1, 1, 2}, 3000000},   {"ij,k->i", {2, 1}, 90000},   {"i,->i", {1, 0}, 10000},
               {"ij,jk,kl->il", {2, 2, 2}, 9000000}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
    for (int mix = 0; mix < 8; mix++) {
      tc_tensor xs[3];
      int32_t v[9];
      int n = cases[c].rank[2] ? 3 : 2;
      for (int k = 0; k < n; k++) {
        int64_t three[] = {3, 3};
        xs[k] = tc_full(tc_dims_of(cases[c].rank[k], three), 100, mix >> k & 1 ? TC_U8 : TC_I8);
      }
      tc_tensor y = tc_einsum(cases[c].spec, n, xs);
      EXPECT(tc_dtype(y) == TC_I32, "%s is %s", cases[c].spec, tc_type_name(tc_dtype(y)));
      EXPECT_OK(tc_to_host(tc_expand(tc_reshape(tc_max(y, TC_ALL, false), TC_SHAPE(1)), TC_SHAPE(9)), v, sizeof v));
      EXPECT(v[0] == cases[c].want, "%s: %d, not %d", cases[c].spec, v[0], cases[c].want);
    }
  tc_tensor b = tc_full(TC_SHAPE(2), 100, TC_I8);
  EXPECT(tc_dtype(tc_einsum("i,i->i", 2, (tc_tensor[]){b, tc_ones(TC_SHAPE(2), TC_I16)})) == TC_I16 &&
             tc_dtype(tc_einsum("i,i->i", 2, (tc_tensor[]){b, tc_ones(TC_SHAPE(2), TC_BOOL)})) == TC_I32 &&
             tc_dtype(tc_einsum("i->i", 1, &b)) == TC_I8,
         "of a byte and another");
}

static void types_are_tc_sums(void) {
  int64_t sum = 0;
  bool any[2] = {false, false};
  tc_tensor u = tc_full(TC_SHAPE(200, 200), 1, TC_U8), two = tc_full(TC_SHAPE(200, 200), 2, TC_U8);
  EXPECT_OK(tc_item_i64(tc_einsum("ij->", 1, &u), &sum));
  EXPECT(sum == 40000 && tc_dtype(tc_einsum("ij->j", 1, &u)) == TC_I64 && tc_dtype(tc_einsum("ij->ji", 1, &u)) == TC_U8,
         "%lld", (long long)sum);
  EXPECT_OK(tc_item_i64(tc_einsum("ii->", 1, &u), &sum));
  EXPECT(sum == 200, "%lld", (long long)sum);
  tc_tensor b = tc_eq(tc_arange(0, 6, 1, TC_I64), 1), b23 = tc_reshape(b, TC_SHAPE(2, 3)),
            f3 = tc_ones(TC_SHAPE(3), TC_F32);
  EXPECT_OK(tc_to_host(tc_einsum("ij->i", 1, &b23), any, 2));
  EXPECT(any[0] && !any[1] && tc_dtype(tc_einsum("ij->", 1, &b23)) == TC_BOOL, "any");
  // Two bools: as tc_matmul, and as tc_mul where nothing is added up.
  tc_tensor bools[2] = {b23, tc_transpose(b23, 0, 1)};
  EXPECT_FAILS(tc_matmul(bools[0], bools[1]), TC_ERR_DTYPE, "bool has no matmul; cast it first");
  EXPECT_FAILS(tc_einsum("ij,jk->ik", 2, bools), TC_ERR_DTYPE,
               "bool has no sums of products, as it has no matmul; cast it first");
  EXPECT_FAILS(tc_einsum("ij,jk", 2, bools), TC_ERR_DTYPE, "bool has no sums");
  EXPECT(
      tc_dtype(tc_einsum("ij,ji->ij", 2, bools)) == TC_BOOL && tc_dtype(tc_einsum("ij,kl->ijkl", 2, bools)) == TC_BOOL,
      "without sums");
  // A sum before the product is of the product's type: 2 * 200 in f32, not in u8 or bool.
  float v[200] = {0};
  tc_tensor pair[2] = {two, tc_ones(TC_SHAPE(200), TC_F32)};
  EXPECT_OK(tc_to_host(tc_einsum("ij,j->j", 2, pair), v, sizeof v));
  EXPECT(v[0] == 400, "%g", (double)v[0]);
  tc_tensor mixed[2] = {tc_ones(TC_SHAPE(5, 3), TC_BOOL), f3};
  EXPECT_OK(tc_to_host(tc_einsum("ij,j->j", 2, mixed), v, 3 * sizeof v[0]));
  EXPECT(v[0] == 5, "%g", (double)v[0]);
  // Of two bytes as tc_matmul, in i32.
  static int32_t w[200 * 200], m[200 * 200];
  tc_tensor us[2] = {two, u};
  EXPECT_OK(tc_to_host(tc_einsum("ij,jk->ik", 2, us), w, sizeof w));
  EXPECT_OK(tc_to_host(tc_matmul(two, u), m, sizeof m));
  EXPECT(w[0] == 400 && m[0] == 400, "%d %d", w[0], m[0]);
  bytes_are_i32();
  // Scalars decide only where their kind is higher.
  tc_tensor scaled[3] = {tc_full(TC_SCALAR, 2, TC_F64), f3, tc_full(TC_SCALAR, 3, TC_I64)};
  EXPECT(tc_dtype(tc_einsum(",i,->i", 3, scaled)) == TC_F32 &&
             tc_dtype(tc_einsum(",->", 2, (tc_tensor[]){scaled[0], scaled[2]})) == TC_F64,
         "scalars");
  EXPECT(tc_dtype(tc_einsum("i,->i", 2, (tc_tensor[]){tc_ones(TC_SHAPE(2), TC_I32), scaled[0]})) == TC_F64, "scalars");
  EXPECT(tc_promote_types(TC_U8, TC_I8) == TC_I16 && tc_promote_types(TC_F16, TC_BF16) == TC_F32 &&
             tc_promote_types(TC_I64, TC_F16) == TC_F16 && tc_promote_types(TC_BOOL, TC_N_TYPES) == TC_N_TYPES,
         "promotion");
}

static void wrong_specs_are_told(void) {
  tc_tensor x = tc_ones(TC_SHAPE(4, 3), TC_F32), xs[] = {x, x}, wide[MOST];
  EXPECT_FAILS(tc_einsum("ij,jk", 2, xs), TC_ERR_SHAPE, "label j is 3 and, in operand 1, which is [4, 3], 4");
  EXPECT_FAILS(tc_einsum("ij,j", 2, xs), TC_ERR_SHAPE, "operand 1 is [4, 3], of rank 2, and has 1 labels");
  EXPECT_FAILS(tc_einsum("i1", 1, &x), TC_ERR_ARG, "'1' is no letter");
  EXPECT_FAILS(tc_einsum("ij->i->j", 1, &x), TC_ERR_ARG, "a second \"->\"");
  EXPECT_FAILS(tc_einsum("ij->ik", 1, &x), TC_ERR_ARG, "the output has label k, which no operand has");
  EXPECT_FAILS(tc_einsum("ij->ii", 1, &x), TC_ERR_ARG, "the output has label i, twice");
  EXPECT_FAILS(tc_einsum("ij,j", 1, &x), TC_ERR_ARG, "does not name 1 operands");
  const tc_dims four = TC_SHAPE(1, 1, 1, 1), eight = TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 1);
  // each shares two labels with each other: whichever two are first, their product has twelve axes
  tc_tensor joined[5];
  for (int k = 0; k < MOST; k++) wide[k] = tc_ones(four, TC_F32);
  for (int k = 0; k < 5; k++) joined[k] = tc_ones(eight, TC_F32);
  EXPECT_FAILS(tc_einsum("abcd,efgh,ijkl->abcdefghi", 3, wide), TC_ERR_ARG, "the output has too many axes");
  EXPECT_FAILS(tc_einsum("abcdefgh,abijklmn,cdijopqr,efklopst,ghmnqrst", 5, joined), TC_ERR_ARG, "more than 8 axes");
  // From left to right the first product would have 12 axes.
  float v = 0;
  EXPECT_OK(tc_item_f32(tc_reshape(tc_einsum("abcd,efgh,ijkl,abcd,efgh,ijkl->", 6, wide), TC_SCALAR), &v));
  EXPECT(v == 1, "%g", (double)v);
  // Extents whose product no integer holds.
  tc_tensor a = tc_expand(tc_ones(TC_SHAPE(1, 1), TC_F32), TC_SHAPE(INT64_C(1) << 30, INT64_C(1) << 29)),
            b = tc_ones(TC_SHAPE(1, 1), TC_F32);
  EXPECT_FAILS(tc_einsum("ij,kl->ijkl", 2, (tc_tensor[]){a, a}), TC_ERR_SHAPE, "more elements than fit");
  EXPECT_FAILS(tc_einsum("ij,jk,kl->il", 3, (tc_tensor[]){a, b, tc_transpose(a, 0, 1)}), TC_ERR_SHAPE, "");
}

int main(void) {
  values_are_right();
  orders_hold_little();
  types_are_tc_sums();
  wrong_specs_are_told();
  return expect_done("api-einsum");
}
