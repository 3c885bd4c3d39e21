// See lru.h.
#include "runtime/lru.h"

void tc_lru_add(tc_lru *l, tc_lru_entry *e, uint64_t hash) {
  tc_lru_entry **bucket = &l->bucket[hash % TC_LRU_BUCKETS];
  e->next = *bucket, *bucket = e;
  l->n++, l->bytes += e->bytes;
}

static void take_entry(tc_lru *l, tc_lru_entry **at, tc_lru_entry **list) {
  tc_lru_entry *e = *at;
  *at = e->next;
  l->n--, l->bytes -= e->bytes;
  e->next = *list, *list = e;
}

static uint64_t last_use(const tc_lru_entry *e) {
  return atomic_load_explicit(&e->used, memory_order_relaxed);
}

tc_lru_entry *tc_lru_evict(tc_lru *l, size_t most, size_t most_bytes) {
  tc_lru_entry *gone = NULL;
  while (l->n > most || (l->n > 1 && l->bytes > most_bytes)) {
    tc_lru_entry **oldest = NULL;
    for (int b = 0; b < TC_LRU_BUCKETS; b++)
      for (tc_lru_entry **e = &l->bucket[b]; *e; e = &(*e)->next)
        if (!atomic_load_explicit(&(*e)->pinned, memory_order_relaxed) && (!oldest || last_use(*e) < last_use(*oldest)))
          oldest = e;
    if (!oldest) break;
    take_entry(l, oldest, &gone);
  }
  return gone;
}

tc_lru_entry *tc_lru_take_all(tc_lru *l) {
  tc_lru_entry *all = NULL;
  for (int b = 0; b < TC_LRU_BUCKETS; b++)
    while (l->bucket[b]) take_entry(l, &l->bucket[b], &all);
  return all;
}
