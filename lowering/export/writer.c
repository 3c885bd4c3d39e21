// Tables that grow, and the file they become. See writer.h.
#include "lowering/export/writer.h"

#include <string.h>

#include "lazy/front/file.h"
#include "lowering/kir/kir.h"
#include "lowering/kir/libm.h"
#include "runtime/arena.h"
#include "runtime/hash.h"
#include "runtime/status.h"

// Where one of these changes, TC_TCX_VERSION or TC_TCX_ABI rises, and with it the number here.
_Static_assert(TC_TCX_VERSION == 1 && sizeof(tc_tcx_head) == 496 && sizeof(tc_tcx_value) == 104 &&
                   sizeof(tc_tcx_weight) == 104 && sizeof(tc_tcx_plan) == 168 && sizeof(tc_tcx_step) == 88 &&
                   sizeof(tc_tcx_allocation) == 32 && sizeof(tc_tcx_kernel) == 40 && sizeof(tc_tcx_row_value) == 72,
               "a file's records have another layout");
_Static_assert(TC_TCX_ABI == 1 && TC_KIR_MATH_ROWS == 27, "kernels call other functions");

// ---- tables ----

static const size_t record_bytes[TC_TCX_N_TABLES] = {
#define TC_TCX_ROW(name, type) [TC_TCX_TABLE_##name] = sizeof(type),
    TC_TCX_TABLES(TC_TCX_ROW)
#undef TC_TCX_ROW
};

void tc_tcx_writer_fini(tc_tcx_writer *w) {
  for (int i = 0; i < TC_TCX_N_TABLES; i++) tc_free(w->table[i].at);
  tc_free(w->data);
  *w = (tc_tcx_writer){.no_memory = false};
}

uint32_t tc_tcx_add(tc_tcx_writer *w, int table, const void *record, size_t bytes, uint32_t n) {
  tc_tcx_list *l = &w->table[table];
  size_t all = bytes * n;
  if (all > UINT32_MAX - l->n - 64 || !TC_GROW(l->at, l->cap, l->n + (uint32_t)all + 1))
    return w->no_memory = true, TC_TCX_NONE;
  if (all) memcpy(l->at + l->n, record, all);
  uint32_t first = (uint32_t)(l->n / record_bytes[table]);
  l->n += (uint32_t)all;
  return first;
}

uint32_t tc_tcx_add_text(tc_tcx_writer *w, const char *text) {
  const tc_tcx_list *l = &w->table[TC_TCX_TABLE_strings];
  if (!text) return TC_TCX_NONE;
  for (uint32_t at = 0; at < l->n; at += (uint32_t)strlen(l->at + at) + 1)
    if (strcmp(l->at + at, text) == 0) return at;
  return tc_tcx_add(w, TC_TCX_TABLE_strings, text, 1, (uint32_t)strlen(text) + 1);
}

static const tc_tcx_kernel *kernel_at(const tc_tcx_writer *w, uint32_t i) {
  return (const tc_tcx_kernel *)(const void *)w->table[TC_TCX_TABLE_kernels].at + i;
}

uint32_t tc_tcx_add_kernel(tc_tcx_writer *w, const char *name, tc_tcx_kernel kernel, const void *code, size_t bytes) {
  const tc_tcx_list *all = &w->table[TC_TCX_TABLE_code];
  uint32_t n = (uint32_t)(w->table[TC_TCX_TABLE_kernels].n / sizeof kernel);
  kernel.name = tc_tcx_add_text(w, name), kernel.bytes = bytes;
  for (uint32_t i = 0; i < n; i++) {
    const tc_tcx_kernel *k = kernel_at(w, i);
    if (k->name == kernel.name && k->interpreted == kernel.interpreted && k->bytes == bytes &&
        k->n_num == kernel.n_num && k->n_buf == kernel.n_buf && memcmp(all->at + k->offset, code, bytes) == 0)
      return i;
  }
  static const char zeros[TC_TCX_ALIGN];
  uint32_t pad = (uint32_t)(-(size_t)all->n % TC_TCX_ALIGN);
  if (pad) (void)tc_tcx_add(w, TC_TCX_TABLE_code, zeros, 1, pad);
  kernel.offset = tc_tcx_add(w, TC_TCX_TABLE_code, code, 1, (uint32_t)bytes);
  return TC_TCX_ADD(w, kernels, &kernel, 1);
}

uint32_t tc_tcx_add_weight(tc_tcx_writer *w, tc_tcx_weight weight, const void *data) {
  if (!TC_GROW(w->data, w->cap_data, w->n_data + 1)) return w->no_memory = true, TC_TCX_NONE;
  w->weights_bytes = (w->weights_bytes + TC_TCX_ALIGN - 1) / TC_TCX_ALIGN * TC_TCX_ALIGN;
  weight.offset = w->weights_bytes;
  tc_hash sum = tc_hash_bytes(data, weight.bytes);
  weight.sum[0] = sum.lo, weight.sum[1] = sum.hi;
  w->weights_bytes += weight.bytes;
  w->data[w->n_data++] = data;
  return TC_TCX_ADD(w, weights, &weight, 1);
}

// ---- the file ----

static uint64_t aligned(uint64_t at, uint64_t to) {
  return (at + to - 1) / to * to;
}

static void fill_head(const tc_tcx_writer *w, tc_tcx_head *h) {
  *h = (tc_tcx_head){.magic = TC_TCX_MAGIC,
                     .version = TC_TCX_VERSION,
                     .abi = TC_TCX_ABI,
                     .kir_version = TC_KIR_VERSION,
                     .n_shown_weights = w->n_shown,
                     .weights_bytes = w->weights_bytes};
  snprintf(h->made_by, sizeof h->made_by, "tc %s", tc_version_text());
  uint64_t at = aligned(sizeof *h, TC_TCX_ALIGN);
  for (int i = 0; i < TC_TCX_N_TABLES; i++) {
    h->table[i] = (tc_tcx_span){at, w->table[i].n / record_bytes[i]};
    at = aligned(at + w->table[i].n, TC_TCX_ALIGN);
  }
  h->weights_at = aligned(at, TC_TCX_PAGE);
  h->file_bytes = h->weights_at + w->weights_bytes;
}

static void write_weights(const tc_tcx_writer *w, tc_new_file *f) {
  static const char zeros[TC_TCX_ALIGN];
  const tc_tcx_weight *weight = (const tc_tcx_weight *)(const void *)w->table[TC_TCX_TABLE_weights].at;
  uint64_t at = 0;
  for (uint32_t i = 0; i < w->n_data; i++) {
    tc_new_file_write(f, zeros, weight[i].offset - at);
    tc_new_file_write(f, w->data[i], weight[i].bytes);
    at = weight[i].offset + weight[i].bytes;
  }
}

tc_status tc_tcx_write(tc_tcx_writer *w, const char *op, const char *path, tc_site site) {
  tc_tcx_head head;
  fill_head(w, &head);
  char *tables = w->no_memory ? NULL : tc_calloc(1, head.weights_at);
  if (!tables) return tc_fail(TC_ERR_MEMORY, op, site, "no room for the tables of %s", path);
  memcpy(tables, &head, sizeof head);
  for (int i = 0; i < TC_TCX_N_TABLES; i++)
    if (w->table[i].n) memcpy(tables + head.table[i].offset, w->table[i].at, w->table[i].n);
  tc_hash sum = tc_hash_bytes(tables, head.weights_at);
  head.sum[0] = sum.lo, head.sum[1] = sum.hi;
  memcpy(tables, &head, sizeof head);
  tc_new_file f;
  tc_new_file_begin(&f, op, path, site);
  tc_new_file_write(&f, tables, head.weights_at);
  write_weights(w, &f);
  tc_free(tables);
  return tc_new_file_end(&f, TC_OK);
}
