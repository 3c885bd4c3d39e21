// Bump allocation in chunks, and the allocator under everything. See arena.h.
//
// Chunks form a list, newest first; only the newest is allocated from. Their sizes double, so a
// long phase makes few chunks. Memory is zeroed when it is handed out, because a kept chunk is
// dirty.
#include "runtime/arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

#define ALIGN ((size_t)16)
#define FIRST_CHUNK_BYTES ((size_t)4096)
#define MOST_GROWTH_BYTES ((size_t)1 << 20)

struct tc_arena_chunk {
  _Alignas(16) tc_arena_chunk *next;  // the next older chunk, owned; NULL: none
  size_t bytes;  // including this header
};

static atomic_long n_made, fail_at;
static atomic_bool fail_sticky;

static bool alloc_must_fail(void) {
  long made = atomic_fetch_add_explicit(&n_made, 1, memory_order_relaxed) + 1;
  long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
  if (at == 0) return false;
  return made == at || (made > at && atomic_load_explicit(&fail_sticky, memory_order_relaxed));
}

static bool add_chunk(tc_arena *arena, size_t bytes) {
  size_t chunk_bytes = arena->chunk ? arena->chunk->bytes : FIRST_CHUNK_BYTES / 2;
  chunk_bytes = chunk_bytes < MOST_GROWTH_BYTES ? chunk_bytes * 2 : MOST_GROWTH_BYTES;
  if (chunk_bytes < bytes + sizeof(tc_arena_chunk)) chunk_bytes = bytes + sizeof(tc_arena_chunk);
  tc_arena_chunk *chunk = tc_malloc(chunk_bytes);
  if (!chunk) return false;
  chunk->next = arena->chunk;
  chunk->bytes = chunk_bytes;
  arena->chunk = chunk;
  arena->at = (char *)(chunk + 1);
  arena->end = (char *)chunk + chunk_bytes;
  return true;
}

void *tc_arena_alloc(tc_arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = bytes ? (bytes + ALIGN - 1) & ~(ALIGN - 1) : ALIGN;
  // Sizes are compared, because an empty arena has at == end == NULL.
  if (bytes > (size_t)((uintptr_t)arena->end - (uintptr_t)arena->at) && !add_chunk(arena, bytes)) return NULL;
  void *out = arena->at;
  arena->at += bytes;
  return memset(out, 0, bytes);
}

void tc_arena_reset(tc_arena *arena) {
  tc_arena_chunk *kept = arena->chunk;
  for (tc_arena_chunk *c = arena->chunk; c; c = c->next)
    if (c->bytes > kept->bytes) kept = c;
  for (tc_arena_chunk *c = arena->chunk, *next; c; c = next) {
    next = c->next;
    if (c != kept) tc_free(c);
  }
  if (!kept) return;
  kept->next = NULL;
  arena->chunk = kept;
  arena->at = (char *)(kept + 1);
  arena->end = (char *)kept + kept->bytes;
}

void tc_arena_fini(tc_arena *arena) {
  for (tc_arena_chunk *c = arena->chunk, *next; c; c = next) {
    next = c->next;
    tc_free(c);
  }
  *arena = (tc_arena){0};
}

bool tc_arena_grow(tc_arena *arena, void **list, uint32_t *cap, uint32_t n, size_t bytes) {
  uint32_t to = TC_MAX_OF(2 * *cap, 4);
  void *more = tc_arena_alloc(arena, to * bytes);
  if (!more) return false;
  if (n) memcpy(more, *list, n * bytes);
  *list = more, *cap = to;
  return true;
}

void *tc_malloc(size_t bytes) {
  return alloc_must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *tc_calloc(size_t n, size_t bytes) {
  return alloc_must_fail() ? NULL : calloc(n ? n : 1, bytes ? bytes : 1);
}

void *tc_realloc(void *ptr, size_t bytes) {
  return alloc_must_fail() ? NULL : realloc(ptr, bytes ? bytes : 1);
}

void tc_free(void *ptr) {
  free(ptr);
}

bool tc_list_grow(void **list, uint32_t *cap, uint32_t need, size_t bytes) {
  uint32_t to = TC_MAX_OF(*cap * 2, need + 64);
  void *more = tc_realloc(*list, to * bytes);
  if (more) *list = more, *cap = to;
  return more != NULL;
}

long tc_alloc_fail_at(long n, int sticky) {
  atomic_store(&fail_at, 0);
  long made = atomic_exchange(&n_made, 0);
  atomic_store(&fail_sticky, sticky != 0);
  atomic_store(&fail_at, n);
  return made;
}
