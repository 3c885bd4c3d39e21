// Every hash is equal here: plans and kernels must be told apart by their bytes.
#define TC_TEST_HASH_COLLIDE
#include "runtime/hash.c"
#include "tests/expect.h"

static float value_of(tc_tensor x) {
  float v = -1;
  EXPECT_OK(tc_item_f32(x, &v));
  return v;
}

static tc_tensor vector(float first) {
  float v[3] = {first, first + 1, first + 2};
  return tc_from_host(v, tc_dims_of(1, (const int64_t[]){3}), TC_F32);
}

int main(void) {
  EXPECT(tc_hash_bytes("a", 1).lo == tc_hash_bytes("bc", 2).lo, "the hashes differ");
  for (int round = 0; round < 3; round++) {  // made, found, found
    tc_scope s = tc_scope_begin();
    tc_tensor a = vector(1), b = vector(4), c = vector(7);
    EXPECT(value_of(tc_sum(tc_add(tc_mul(a, b), c), TC_ALL, false)) == 56, "(a * b) + c");
    EXPECT(value_of(tc_sum(tc_add(tc_mul(a, c), b), TC_ALL, false)) == 65, "(a * c) + b");
    EXPECT(value_of(tc_sum(tc_mul(tc_add(a, b), c), TC_ALL, false)) == 172, "(a + b) * c");
    EXPECT(value_of(tc_max(tc_add(tc_mul(a, b), c), TC_ALL, false)) == 27, "max");
    EXPECT(value_of(tc_add(tc_sum(a, TC_ALL, false), 2)) == 8, "a number");
    EXPECT(value_of(tc_add(tc_sum(a, TC_ALL, false), 3)) == 9, "another number");
    EXPECT(value_of(tc_dot(a, b)) == 32, "dot");
    tc_scope_end(s);
  }
  tc_cache_info info = tc_cache_stats();
  EXPECT(info.n_plans >= 6 && info.plan_hits >= 12, "%zu plans, %llu hits", info.n_plans,
         (unsigned long long)info.plan_hits);
  return expect_done("planning-hash_collisions");
}
