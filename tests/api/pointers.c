// What a pointer points to is held against the tensor's type, however the pointer is written; raw
// bytes are not looked at, nor are plain calls.
#include <stdlib.h>

#include "tests/expect.h"

#pragma GCC diagnostic ignored "-Wvla"
#define REFUSED(call, of, is) EXPECT_FAILS(call, TC_ERR_DTYPE, "the pointer is to " of ", the tensor is " is)
#define TAKEN(...) EXPECT(tc_is_valid(__VA_ARGS__), "refused")

typedef struct pair {
  float a, b;
} pair;

static float *next(float *p, int *n_calls) {
  ++*n_calls;
  return p;
}

static void values_in(void) {
  float f[4] = {1, 2, 3, 4}, grid[2][2] = {{1, 2}, {3, 4}};
  double d[4] = {0};
  const double *fixed = d;
  int64_t l[2] = {5, 6};
  long long ll[2] = {0};
  uint8_t bytes[16] = {0};
  bool b[2] = {0};
  uint16_t halves[2] = {0x3C00, 0};
  int n_calls = 0;
  TAKEN(tc_from_host(f, TC_SHAPE(4), TC_F32));
  TAKEN(tc_from_host(grid, TC_SHAPE(2, 2), TC_F32));
  TAKEN(tc_from_host(fixed, TC_SHAPE(4), TC_F64));
  TAKEN(tc_from_host(&f[1], TC_SCALAR, TC_F32));
  TAKEN(tc_from_host((float[]){1, 2, 3}, TC_SHAPE(3), TC_F32));
  TAKEN(tc_from_host((const int64_t[2][2]){{1, 2}, {3, 4}}, TC_SHAPE(2, 2), TC_I64));
  TAKEN(tc_from_host(&(pair){1, 2}, TC_SHAPE(2), TC_F32));
  TAKEN(tc_from_host(ll, TC_SHAPE(2), TC_I64));
  TAKEN(tc_from_host(bytes, TC_SHAPE(4), TC_U8));
  TAKEN(tc_from_host(bytes, TC_SHAPE(4), TC_F32));
  TAKEN(tc_from_host(b, TC_SHAPE(2), TC_BOOL));
  TAKEN(tc_from_host(halves, TC_SHAPE(2), TC_F16));
  TAKEN(tc_from_host(halves, TC_SHAPE(2), TC_BF16));
  TAKEN(tc_from_host(NULL, TC_SHAPE(0), TC_F32));
  TAKEN(tc_from_host((void *)bytes, TC_SHAPE(2), TC_F64));
  TAKEN(tc_from_host((char *)bytes, TC_SHAPE(4), TC_F32));
  TAKEN(tc_from_host((const void *)(double[]){1, 2}, TC_SHAPE(4), TC_F32));
  TAKEN((tc_from_host)(d, TC_SHAPE(4), TC_F32));
  TAKEN(tc_from_host(next(f, &n_calls), TC_SHAPE(4), TC_F32));
  EXPECT(n_calls == 1, "the pointer was made %d times", n_calls);
  REFUSED(tc_from_host(d, TC_SHAPE(4), TC_F32), "double", "f32");
  REFUSED(tc_from_host(fixed, TC_SHAPE(4), TC_F32), "double", "f32");
  REFUSED(tc_from_host(grid, TC_SHAPE(2), TC_F64), "float", "f64");
  REFUSED(tc_from_host((int[]){1, 2, 3}, TC_SHAPE(3), TC_F32), "int", "f32");
  REFUSED(tc_from_host((int[1]){1}, TC_SHAPE(1), TC_I64), "int", "i64");
  REFUSED(tc_from_host((const double[2][2]){{1, 2}, {3, 4}}, TC_SHAPE(2, 2), TC_F32), "double", "f32");
  REFUSED(tc_from_host(&(double){1}, TC_SCALAR, TC_F32), "double", "f32");
  REFUSED(tc_from_host((signed char[]){1, 2}, TC_SHAPE(2), TC_F32), "signed char", "f32");
  REFUSED(tc_from_host(b, TC_SHAPE(2), TC_U8), "bool", "u8");
  REFUSED(tc_from_host(l, TC_SHAPE(2), TC_I32), "long", "i32");
  REFUSED(tc_from_host((unsigned[]){1, 2}, TC_SHAPE(2), TC_F32), "unsigned int", "f32");
  REFUSED(tc_from_host(f, TC_SHAPE(4), TC_F16), "float", "f16");
  REFUSED(tc_from_host_strided(d, TC_SHAPE(2), (int64_t[]){2}, TC_F32), "double", "f32");
  REFUSED(tc_from_host_strided(d, TC_SHAPE(2, 1), (int64_t[]){2, 1}, TC_F32), "double", "f32");
  REFUSED(tc_from_host_strided((short[]){1, 2}, TC_SHAPE(2), NULL, TC_I32), "short", "i32");
  REFUSED(tc_borrow(d, TC_SHAPE(4), TC_F32, TC_READ_ONLY, NULL, NULL), "double", "f32");
  TAKEN(tc_from_host_strided(f, TC_SHAPE(2, 2), (int64_t[]){2, 1}, TC_F32));
  TAKEN(tc_borrow(f, TC_SHAPE(4), TC_F32, TC_WRITABLE, NULL, NULL));
}

// Arrays of any rank, and arrays whose extents are known only at run time.
static void arrays(int n) {
  double img[2][1][2] = {{{1, 2}}, {{3, 4}}}, deep[1][2][1][1][1][1][1][1] = {{{{{{{{1}}}}}}}};
  const float ranks3[2][1][2] = {{{1, 2}}, {{3, 4}}}, (*row3)[1][2] = ranks3;
  float deepest[1][2][1][1][1][1][1][1], lengths[n][n], cubes[n][1][n], (*rows)[n] = lengths;
  char raw[2][2][4] = {{{0}}};
  pair pairs[1][1][2] = {{{{1, 2}, {3, 4}}}};
  TAKEN(tc_from_host(ranks3, TC_SHAPE(2, 1, 2), TC_F32));
  TAKEN(tc_from_host(row3, TC_SHAPE(2, 1, 2), TC_F32));
  TAKEN(tc_from_host(&ranks3, TC_SHAPE(2, 1, 2), TC_F32));
  TAKEN(tc_from_host((float[1][2][2]){{{1, 2}, {3, 4}}}, TC_SHAPE(1, 2, 2), TC_F32));
  TAKEN(tc_from_host(raw, TC_SHAPE(4), TC_F32));
  TAKEN(tc_from_host(pairs, TC_SHAPE(4), TC_F32));
  REFUSED(tc_from_host(img, TC_SHAPE(2, 1, 2), TC_F32), "double", "f32");
  REFUSED(tc_from_host(&img, TC_SHAPE(2, 1, 2), TC_F32), "double", "f32");
  REFUSED(tc_from_host(img[0], TC_SHAPE(2), TC_F32), "double", "f32");
  REFUSED(tc_from_host(&deep, TC_SHAPE(2), TC_F32), "double", "f32");
  REFUSED(tc_from_host(row3, TC_SHAPE(2, 1, 2), TC_F64), "float", "f64");
  REFUSED(tc_from_host((const int[1][2][2]){{{1, 2}, {3, 4}}}, TC_SHAPE(1, 2, 2), TC_F32), "int", "f32");
  REFUSED(tc_from_host_strided(img, TC_SHAPE(2), (int64_t[]){2}, TC_F32), "double", "f32");
  REFUSED(tc_borrow(img, TC_SHAPE(4), TC_F32, TC_READ_ONLY, NULL, NULL), "double", "f32");
  tc_tensor x = tc_arange(1, 5, 1, TC_F32), two = tc_slice(x, 0, 0, 2, 1);
  REFUSED(tc_to_host(x, img, 4 * sizeof(float)), "double", "f32");
  REFUSED(tc_to_host_async(x, img, 4 * sizeof(float)), "double", "f32");
  REFUSED(tc_to_host(tc_cast(x, TC_F64), cubes, sizeof cubes), "float", "f64");
  REFUSED(tc_to_host(tc_cast(x, TC_I32), rows, sizeof lengths), "float", "i32");
  EXPECT_OK(tc_to_host(two, deepest, sizeof deepest));
  EXPECT_OK(tc_to_host(x, rows, sizeof lengths));
  EXPECT_OK(tc_to_host(x, cubes, sizeof cubes));
  EXPECT(deepest[0][1][0][0][0][0][0][0] == 2 && lengths[1][1] == 4 && cubes[1][0][0] == 3, "%g",
         (double)lengths[1][1]);
}

static void values_out(void) {
  float f[4] = {0}, grid[2][2];
  double d[4] = {0}, sum = 0;
  int64_t l = 0;
  int32_t i = 0;
  bool b = false;
  tc_tensor x = tc_arange(1, 5, 1, TC_F32);
  EXPECT_OK(tc_to_host(x, f, sizeof f));
  EXPECT_OK(tc_to_host(x, grid, sizeof grid));
  EXPECT_OK(tc_to_host(x, (void *)d, sizeof f));
  EXPECT_OK(tc_to_host(tc_add(x, tc_from_host((float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32)), f, sizeof f));
  EXPECT(f[3] == 8 && grid[1][1] == 4, "%g %g", (double)f[3], (double)grid[1][1]);
  REFUSED(tc_to_host(x, d, 4 * sizeof(float)), "double", "f32");
  REFUSED(tc_to_host(x, d, sizeof d), "double", "f32");
  REFUSED(tc_to_host(tc_cast(x, TC_I32), f, sizeof f), "float", "i32");
  REFUSED(tc_to_host_async(x, d, 4 * sizeof(float)), "double", "f32");
  EXPECT_OK(tc_to_host_async(x, f, sizeof f));
  EXPECT_OK(tc_to_host_wait(f));
  x = tc_sum(x, TC_ALL, false);
  EXPECT(tc_item(x, f) == TC_OK && tc_item(x, &sum) == TC_OK && tc_item(x, &l) == TC_OK && tc_item(x, &i) == TC_OK &&
             tc_item(x, &b) == TC_OK,
         "not read");
  EXPECT(f[0] == 10 && sum == 10 && l == 10 && i == 10 && b, "%g %g %d %d %d", (double)f[0], sum, (int)l, i, b);
}

int main(void) {
  tc_scope scope = tc_scope_begin();
  values_in();
  arrays(2);
  values_out();
  tc_scope_end(scope);
  return expect_done("api-pointers");
}
