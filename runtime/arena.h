// Scratch memory that dies with its phase: bump allocation in chunks that are freed together.
// Threads: thread-compatible.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tc_arena_chunk tc_arena_chunk;
typedef struct tc_arena {
  tc_arena_chunk *chunk;
  char *at, *end;
} tc_arena;  // an empty arena is all zero

// Returns zeroed memory aligned to 16 bytes; NULL when the system has none.
void *tc_arena_alloc(tc_arena *arena, size_t bytes);
// Frees all allocations at once and keeps the largest chunk for reuse.
void tc_arena_reset(tc_arena *arena);
void tc_arena_fini(tc_arena *arena);
// Moves a list of n elements, of so many bytes each, to memory for at least twice as many. False
// without memory: the list is as it was.
bool tc_arena_grow(tc_arena *arena, void **list, uint32_t *cap, uint32_t n, size_t bytes);
// Room for one more element. False without memory.
#define TC_ARENA_GROW(arena, list, cap, n) \
  ((n) < (cap) || tc_arena_grow((arena), (void **)&(list), &(cap), (n), sizeof *(list)))

// Every heap allocation of the library goes through these functions, so tests can make each fail in
// turn. They return NULL on failure. Their symbols have other names, because gperftools'
// libtcmalloc.a also defines tc_malloc.
void *tc_malloc(size_t bytes) __asm__("tc_heap_malloc");
void *tc_calloc(size_t n, size_t bytes) __asm__("tc_heap_calloc");
void *tc_realloc(void *ptr, size_t bytes) __asm__("tc_heap_realloc");
void tc_free(void *ptr) __asm__("tc_heap_free");
// Room for `need` elements of so many bytes in a list of *cap, which becomes at least twice as
// long. False without memory: the list is as it was.
bool tc_list_grow(void **list, uint32_t *cap, uint32_t need, size_t bytes);
#define TC_GROW(list, cap, need) ((need) <= (cap) || tc_list_grow((void **)&(list), &(cap), (need), sizeof *(list)))
// For tests: the n-th allocation from now fails, and every later one if sticky is not 0; n = 0
// switches failing off. Returns how many allocations were made since the last call.
long tc_alloc_fail_at(long n, int sticky);
