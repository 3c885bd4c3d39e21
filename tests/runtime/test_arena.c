// Arenas: alignment, zeroing, reuse; and allocations that fail on request.
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "runtime/arena.h"

static int all_zero(const char *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (p[i]) return 0;
  return 1;
}

Test(arena, memory_is_aligned_zeroed_and_distinct) {
  tc_arena a = {0};
  char *before = NULL;
  for (size_t bytes = 0; bytes < 300; bytes++) {
    char *p = tc_arena_alloc(&a, bytes);
    cr_assert_eq((uintptr_t)p % 16, 0);
    cr_assert_neq(p, before);
    cr_assert(all_zero(p, bytes));
    memset(p, 0xff, bytes);
    before = p;
  }
  tc_arena_fini(&a);
  cr_assert_null(a.chunk);
}

Test(arena, reset_keeps_the_largest_chunk_and_hands_out_zeroes) {
  tc_arena a = {0};
  memset(tc_arena_alloc(&a, 100000), 0xff, 100000);
  tc_arena_alloc(&a, 5000000);
  tc_arena_alloc(&a, 4000000);
  tc_arena_reset(&a);
  tc_alloc_fail_at(0, 0);
  char *p = tc_arena_alloc(&a, 4900000);
  cr_assert(all_zero(p, 4900000));
  cr_assert_eq(tc_alloc_fail_at(0, 0), 0);
  tc_arena_fini(&a);
  tc_arena_reset(&a);  // of an empty arena
}

Test(arena, failure_gives_NULL_and_leaves_the_arena_usable) {
  tc_arena a = {0};
  tc_alloc_fail_at(1, 0);
  cr_assert_null(tc_arena_alloc(&a, 8));
  cr_assert_not_null(tc_arena_alloc(&a, 8));
  cr_assert_null(tc_arena_alloc(&a, SIZE_MAX - 3));
  tc_arena_fini(&a);
}

Test(arena, nth_allocation_fails_once_or_for_good) {
  tc_alloc_fail_at(2, 0);
  void *p = tc_malloc(1), *q = tc_calloc(1, 1), *r = tc_realloc(NULL, 1);
  cr_assert(p && !q && r);
  cr_assert_eq(tc_alloc_fail_at(2, 1), 3);
  cr_assert_not_null(p = tc_realloc(p, 10));
  cr_assert_null(tc_malloc(1));
  cr_assert_null(tc_malloc(1));
  cr_assert_eq(tc_alloc_fail_at(0, 0), 3);
  tc_free(p), tc_free(r), tc_free(NULL);
}
