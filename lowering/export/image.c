// Maps a program's file, and looks at its head and at where its tables lie. See image.h.
#include "lowering/export/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lowering/export/check.h"
#include "lowering/kir/kir.h"
#include "runtime/arena.h"
#include "runtime/hash.h"
#include "runtime/status.h"

// ---- the head ----

static tc_status damaged(const char *what) {
  return TC_FAIL(TC_ERR_IO, "the file is damaged: %s", what);
}

static tc_status check_version(const tc_tcx_head *h) {
  if (h->version == TC_TCX_VERSION && h->abi == TC_TCX_ABI && h->kir_version == TC_KIR_VERSION) return TC_OK;
  char by[sizeof h->made_by] = "";
  for (size_t i = 0; i + 1 < sizeof by && h->made_by[i] >= ' ' && h->made_by[i] <= '~'; i++) by[i] = h->made_by[i];
  return TC_FAIL(TC_ERR_DEVICE,
                 "the file is of format %u, kernel interface %u, kernel IR %u, made by '%s'; this library, tc %s, has "
                 "%d, %d and %d: export it again",
                 h->version, h->abi, h->kir_version, by, tc_version_text(), TC_TCX_VERSION, TC_TCX_ABI, TC_KIR_VERSION);
}

static tc_status check_head(const tc_tcx_image *x) {
  const tc_tcx_head *h = x->head;
  if (x->bytes < sizeof h->magic || h->magic != TC_TCX_MAGIC) return TC_FAIL(TC_ERR_IO, "this is no file of tc_export");
  if (x->bytes < sizeof *h) return damaged("it ends within its head");
  TC_TRY(check_version(h));
  if (h->file_bytes != x->bytes)
    return TC_FAIL(TC_ERR_IO, "the file has %zu bytes and says that it has %llu: it was cut off or appended to",
                   x->bytes, (unsigned long long)h->file_bytes);
  if (h->weights_at > x->bytes || h->weights_at < sizeof *h || h->weights_at % TC_TCX_PAGE != 0 ||
      h->weights_bytes != x->bytes - h->weights_at)
    return damaged("its weights lie outside it");
  return TC_OK;
}

// The tables' checksum, in which its own place counts as zeros.
static tc_status check_sum(const tc_tcx_image *x) {
  tc_tcx_head copy = *x->head;
  size_t rest = x->head->weights_at - sizeof copy;
  memset(copy.sum, 0, sizeof copy.sum);
  char *all = tc_malloc(x->head->weights_at);
  if (!all) return TC_FAIL(TC_ERR_MEMORY, "no room for a checksum");
  memcpy(all, &copy, sizeof copy);
  memcpy(all + sizeof copy, x->data + sizeof copy, rest);
  tc_hash sum = tc_hash_bytes(all, x->head->weights_at);
  tc_free(all);
  if (sum.lo == x->head->sum[0] && sum.hi == x->head->sum[1]) return TC_OK;
  return damaged("its checksum is another");
}

static bool find_table(const tc_tcx_image *x, int table, size_t record, const void **at, uint32_t *n) {
  const tc_tcx_span *s = &x->head->table[table];
  uint64_t most = x->head->weights_at;
  if (s->offset % TC_TCX_ALIGN != 0 || s->offset > most || s->n > UINT32_MAX - 1 || s->n > (most - s->offset) / record)
    return false;
  *at = x->data + s->offset;
  *n = (uint32_t)s->n;
  return true;
}

static tc_status find_tables(tc_tcx_image *x) {
  const void *at;
#define TC_TCX_ROW(row, type) \
  if (!find_table(x, TC_TCX_TABLE_##row, sizeof(type), &at, &x->n_##row)) \
    return damaged("table " #row " is outside it"); \
  x->row = at;
  TC_TCX_TABLES(TC_TCX_ROW)
#undef TC_TCX_ROW
  x->weight_data = x->data + x->head->weights_at;
  return TC_OK;
}

// ---- images ----

tc_tcx_image *tc_tcx_retain(tc_tcx_image *x) {
  atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
  return x;
}

void tc_tcx_release(tc_tcx_image *x) {
  if (!x || atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1) return;
  if (x->mapped) munmap((void *)(uintptr_t)x->data, x->bytes);
  tc_free(x);
}

static tc_status open_bytes(const void *data, size_t bytes, bool mapped, tc_tcx_image **out) {
  tc_tcx_image *x = *out = tc_calloc(1, sizeof *x);
  if (!x) return TC_FAIL(TC_ERR_MEMORY, "no room for a program");
  atomic_store_explicit(&x->refs, 1, memory_order_relaxed);
  x->data = data, x->bytes = bytes, x->mapped = mapped, x->head = data;
  tc_status st = check_head(x);
  if (st == TC_OK) st = check_sum(x);
  if (st == TC_OK) st = find_tables(x);
  if (st == TC_OK) st = tc_tcx_check(x);
  if (st != TC_OK) x->mapped = false, tc_tcx_release(x), *out = NULL;
  return st;
}

tc_status tc_tcx_open_memory(const void *data, size_t bytes, tc_tcx_image **out) {
  *out = NULL;
  if (!data) return TC_FAIL(TC_ERR_ARG, "data is NULL");
  if ((uintptr_t)data % TC_TCX_ALIGN != 0)
    return TC_FAIL(TC_ERR_ARG, "data is at no multiple of %d bytes", TC_TCX_ALIGN);
  return open_bytes(data, bytes, false, out);
}

// Code in the file runs as this process: everybody who may write it may do all that the process
// may.
static tc_status check_file(int fd, const char *path, size_t *bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return TC_FAIL(TC_ERR_IO, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return TC_FAIL(TC_ERR_IO, "%s is no regular file", path);
  if (info.st_mode & S_IWOTH)
    return TC_FAIL(TC_ERR_IO, "%s may be written by every user, and has code that would run as this one: chmod o-w it",
                   path);
  *bytes = (size_t)info.st_size;
  return info.st_size > 0 ? TC_OK : TC_FAIL(TC_ERR_IO, "%s is empty", path);
}

tc_status tc_tcx_open(const char *path, tc_tcx_image **out) {
  size_t bytes = 0;
  *out = NULL;
  if (!path) return TC_FAIL(TC_ERR_ARG, "path is NULL");
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return TC_FAIL(TC_ERR_IO, "%s: %s", path, strerror(errno));
  tc_status st = check_file(fd, path, &bytes);
  void *map = st == TC_OK ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  if (st == TC_OK && map == MAP_FAILED) st = TC_FAIL(TC_ERR_IO, "%s cannot be mapped: %s", path, strerror(errno));
  close(fd);
  if (st != TC_OK) return st;
  if ((st = open_bytes(map, bytes, true, out)) != TC_OK) munmap(map, bytes);
  return st;
}
