// The device's own kernels, and those that write a sequence's table.
//
// A kernel's parameter says where and how many words it writes, followed by the words. Kernels
// exist for several sizes. Parameters of all drivers hold 4,096 bytes. Newer drivers take 32,764,
// of which the compiler accepts 32,000.
// Threads: thread-safe.

#include "device/gpu/graph_copies.h"

const uint32_t tc_gpu_fill_words[TC_GPU_FILLS] = {62, 510, 1534, 3998};

static tc_status fill_make(tc_gpu *g, uint32_t size) {
  char name[32], source[640];
  snprintf(name, sizeof name, "tc_fill_%u", tc_gpu_fill_words[size]);
  snprintf(source, sizeof source,
           "#include \"tc_words.h\"\n"
           "typedef struct { u64 *to; u64 n; u64 word[%u]; } tc_fill;\n"
           "TC_KERNEL_OF(%s, 128, tc_fill) {\n"
           "  for (i32 i = TC_THREAD; i < (i32)tc_value->n; i += 128) tc_value->to[i] = tc_value->word[i];\n"
           "}\n",
           tc_gpu_fill_words[size], name);
  return tc_gpu_code_keep(g, name, source, &g->fill[size]);
}

uint32_t tc_gpu_fill_most(const tc_gpu *g) {
  uint32_t largest = TC_GPU_FILLS;
  while (largest > 1 &&
         (tc_gpu_fill_words[largest - 1] + TC_GPU_FILL_HEAD) * sizeof(uint64_t) > g->driver->entry->most_value_bytes)
    largest--;
  return tc_gpu_fill_words[largest - 1];
}

uint32_t tc_gpu_fill_size(uint32_t n_words) {
  uint32_t size = 0;
  while (tc_gpu_fill_words[size] < n_words) size++;
  return size;
}

// ---- all own kernels ----

#define COPIER TC_GPU_FILLS  // its number

tc_status tc_gpu_own_make(tc_gpu *g, uint32_t number) {
  return number == COPIER ? tc_gpu_copier_make(g) : fill_make(g, number);
}

tc_status tc_gpu_try(tc_gpu *g) {
  return tc_gpu_own_missing(g, 1, false) ? fill_make(g, tc_gpu_fill_size(1)) : TC_OK;
}

uint32_t tc_gpu_own_missing(tc_gpu *g, uint32_t n_words, bool calls) {
  uint32_t most = tc_gpu_fill_most(g), rest = n_words % most, missing = calls ? 1u << COPIER : 0;
  if (n_words >= most) missing |= 1u << tc_gpu_fill_size(most);
  if (rest) missing |= 1u << tc_gpu_fill_size(rest);
  pthread_mutex_lock(&g->lock);
  for (uint32_t i = 0; i < TC_GPU_FILLS; i++)
    if (g->fill[i]) missing &= ~(1u << i);
  if (g->copier) missing &= ~(1u << COPIER);
  pthread_mutex_unlock(&g->lock);
  return missing;
}
