// Random programs over one region of the caller's memory: dense and strided borrows of it that overlap or
// are the same, assigned, read, released, given up and run, against plain loops.
// What a value was computed from is assigned at once: each sees all assigns before it.
#include <stdlib.h>

#include "tests/expect.h"

enum { REGION = 64, MOST = 6, ELEMENTS = 6 };

// A borrow: two axes of the region.
typedef struct piece {
  int64_t rows, columns, stride[2], first;
  int flags;
  tc_tensor t;  // {0, 0}: none
} piece;

static double region[REGION], model[REGION];
static uint64_t seed;

static int below(int n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)n);
}

static int64_t place(const piece *p, int64_t i) {
  return p->first + i / p->columns * p->stride[0] + i % p->columns * p->stride[1];
}

// Always of 6 elements, so that any may become any.
static void borrow(piece *p) {
  static const int64_t rows[] = {1, 2, 3, 6};
  p->rows = rows[below(4)], p->columns = ELEMENTS / p->rows;
  int64_t inner = 1 + below(2), outer = inner * p->columns + below(3);
  p->stride[0] = below(2) ? outer : -outer, p->stride[1] = below(4) ? inner : -inner;
  int64_t low = 0, high = 0, reach[2] = {(p->rows - 1) * p->stride[0], (p->columns - 1) * p->stride[1]};
  for (int a = 0; a < 2; a++) *(reach[a] < 0 ? &low : &high) += reach[a];
  p->first = below((int)(REGION - high + low) < 8 ? 1 : 8) - low;
  p->flags = below(4) ? TC_WRITABLE : TC_READ_ONLY;
  p->t = tc_borrow_strided(&region[p->first], TC_SHAPE(p->rows, p->columns), p->stride, TC_F64, p->flags, NULL, NULL);
  EXPECT(tc_is_valid(p->t), "%d by %d, strides %d and %d", (int)p->rows, (int)p->columns, (int)p->stride[0],
         (int)p->stride[1]);
}

static void expect_value(const piece *p, uint64_t program) {
  double all[ELEMENTS];
  EXPECT_OK(tc_to_host(p->t, all, sizeof all));
  for (int i = 0; i < ELEMENTS; i++)
    EXPECT(all[i] == model[place(p, i)], "program %d: element %d is %g, should be %g", (int)program, i, all[i],
           model[place(p, i)]);
}

// to = (a + b) / 2
static void assign(const piece *to, const piece *a, const piece *b) {
  double v[ELEMENTS];
  tc_dims shape = TC_SHAPE(to->rows, to->columns);
  for (int i = 0; i < ELEMENTS; i++) v[i] = (model[place(a, i)] + model[place(b, i)]) * 0.5;
  for (int i = 0; i < ELEMENTS; i++) model[place(to, i)] = v[i];
  EXPECT_OK(tc_assign(to->t, tc_mul(tc_add(tc_reshape(a->t, shape), tc_reshape(b->t, shape)), 0.5)));
}

// A stored value, which no later assign changes.
typedef struct stored {
  tc_tensor t;  // {0, 0}: none
  double want[ELEMENTS];
} stored;

static void store(stored *v, const piece *a) {
  for (int i = 0; i < ELEMENTS; i++) v->want[i] = 1 - model[place(a, i)];
  v->t = tc_keep(tc_rsub(a->t, 1));
  EXPECT_OK(tc_eval(1, &v->t));
}

static void expect_stored(const stored *v, uint64_t program) {
  double all[ELEMENTS];
  if (!v->t.gen) return;
  EXPECT_OK(tc_to_host(v->t, all, sizeof all));
  EXPECT(memcmp(all, v->want, sizeof all) == 0, "program %d: what was stored", (int)program);
}

static bool is_same(const piece *a, const piece *b) {
  return a->t.gen && a->t.slot == b->t.slot && a->t.gen == b->t.gen;
}

// What is pending is settled first: whether an assign that is given up had run is nobody's business.
static void give_up(piece *all, piece *p) {
  piece was = *p;
  EXPECT_OK(tc_sync(NULL));
  EXPECT_OK(tc_forget(p->t));
  for (int i = 0; i < MOST; i++)
    if (is_same(&all[i], &was)) all[i].t = (tc_tensor){0, 0};
}

static void run_program(uint64_t program) {
  piece all[MOST] = {{0}};
  stored kept[2] = {{{0, 0}, {0}}};
  seed = program * 0x9E3779B97F4A7C15u + 1;
  for (int i = 0; i < REGION; i++) model[i] = region[i] = below(1000);
  tc_scope s = tc_scope_begin();
  for (int step = 0; step < 40; step++) {
    piece *p = &all[below(MOST)], *a = &all[below(MOST)], *b = &all[below(MOST)];
    if (!p->t.gen) {
      borrow(p);
      continue;
    }
    tc_scope inner = tc_scope_begin();
    switch (below(9)) {
      case 0: expect_value(p, program); break;
      case 1: EXPECT_OK(tc_sync(NULL)); break;
      case 2: give_up(all, p); break;
      case 3: p->t.gen = (tc_release(p->t), 0); break;
      case 4: store(&kept[below(2)], p); break;
      default:
        if (p->flags == TC_WRITABLE && a->t.gen && b->t.gen) assign(p, a, b);
    }
    tc_scope_end(inner);
  }
  for (int i = 0; i < MOST; i++)
    if (all[i].t.gen) expect_value(&all[i], program);
  for (int i = 0; i < 2; i++) expect_stored(&kept[i], program);
  EXPECT_OK(tc_sync(NULL));
  for (int i = 0; i < REGION; i++)
    EXPECT(region[i] == model[i], "program %d: the region's %d is %g, should be %g", (int)program, i, region[i],
           model[i]);
  tc_scope_end(s);
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
  for (uint64_t i = 0; i < n; i++) run_program(i);
  return expect_done("api-borrow_random");
}
