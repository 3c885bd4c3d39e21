// Runs kernels for AArch64 and compares what they leave in memory with what the interpreter left
// there, bit for bit; NaNs are all alike.
//   runner CASES OBJECTS    prints what differs, then "aarch64: N kernels, N differ"; exit 0, or 1 if any does or the file is malformed
// Built for AArch64 with the library's own loader, so that runs under emulation load objects as an
// AArch64 machine would.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/codegen/elf_loader.h"
#include "lowering/kir/kir.h"
#include "runtime/team.h"
#include "tests/aarch64/case.h"
#include "tests/aarch64/stand_in.h"

enum { MAX_TOLD = 20, MAX_PARTS = 256 };
#define MAX_BYTES (UINT64_C(1) << 28)

typedef struct launch {
  case_head head;
  uint64_t num[MAX_PARTS], bytes[MAX_PARTS];
  case_buf buf[MAX_PARTS];
  uint64_t object_bytes;
  char *object, *now[MAX_PARTS], *want[MAX_PARTS];
} launch;

static _Noreturn void give_up(void) {
  printf("aarch64: the file of cases is cut off or malformed\n");
  exit(1);
}

static void *take(FILE *in, void *to, uint64_t bytes) {
  if (to == NULL && bytes <= MAX_BYTES) to = aligned_alloc(64, bytes / 64 * 64 + 64);
  if (to == NULL || (bytes > 0 && fread(to, bytes, 1, in) != 1)) give_up();
  return to;
}

static bool read_launch(FILE *in, FILE *objects, launch *l) {
  if (fread(&l->head, sizeof l->head, 1, in) != 1) return false;
  const case_head *h = &l->head;
  if (h->n_num > MAX_PARTS || h->n_region > MAX_PARTS || h->n_buf > MAX_PARTS) give_up();
  (void)take(in, l->num, h->n_num * sizeof l->num[0]);
  (void)take(in, l->bytes, h->n_region * sizeof l->bytes[0]);
  (void)take(in, l->buf, h->n_buf * sizeof l->buf[0]);
  (void)take(objects, &l->object_bytes, sizeof l->object_bytes);
  l->object = take(objects, NULL, l->object_bytes);
  for (uint64_t r = 0; r < h->n_region; r++) l->now[r] = take(in, NULL, l->bytes[r]);
  for (uint64_t r = 0; r < h->n_region; r++) l->want[r] = take(in, NULL, l->bytes[r]);
  return true;
}

static void free_launch(launch *l) {
  free(l->object);
  for (uint64_t r = 0; r < l->head.n_region; r++) free(l->now[r]), free(l->want[r]);
}

static bool run(const launch *l) {
  tc_elf_code *code;
  void *at, *buf[MAX_PARTS];
  if (tc_elf_load(l->object, l->object_bytes, l->head.name, &code, &at) != TC_OK) {
    printf("%s: %s\n", l->head.name, tc_last_error()->message);
    return false;
  }
  for (uint64_t k = 0; k < l->head.n_buf; k++) buf[k] = l->now[l->buf[k].region] + l->buf[k].offset;
  tc_worker worker = {
      .scratch = aligned_alloc(64, l->head.scratch_bytes / 64 * 64 + 64), .math = stand_in_table, .n = 1};
  memset(worker.scratch, 0x5a, l->head.scratch_bytes / 64 * 64 + 64);
  tc_kernel_fn *kernel;
  *(void **)&kernel = at;
  kernel(NULL, buf, l->num, l->head.begin, l->head.end, &worker);
  free(worker.scratch);
  tc_elf_unload(code);
  return true;
}

static const uint64_t bytes_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) bytes,
#include <tc/dtypes.def>
#undef TC_TYPE
};

static bool is_nan(uint32_t type, const char *p) {
  uint16_t h;
  float f;
  double d;
  memcpy(&h, p, 2);
  if (type == TC_F16) return (h & 0x7fff) > 0x7c00;
  if (type == TC_BF16) return (h & 0x7fff) > 0x7f80;
  if (type == TC_F32) return memcpy(&f, p, 4), isnan(f);
  return type == TC_F64 && (memcpy(&d, p, 8), isnan(d));
}

// The last byte of an element of a buffer that the kernel writes, if byte `at` of the region is in
// one that is NaN both ways; else `at` - 1.
static int64_t skip_nan(const launch *l, uint64_t region, int64_t at) {
  for (uint64_t k = 0; k < l->head.n_buf; k++) {
    const case_buf *b = &l->buf[k];
    int64_t size = (int64_t)bytes_of[b->type], from = at - (at - (int64_t)b->offset) % size;
    if (b->region != region || !b->written || (int64_t)b->offset > at || from + size > (int64_t)l->bytes[region])
      continue;
    if (is_nan(b->type, l->now[region] + from) && is_nan(b->type, l->want[region] + from)) return from + size - 1;
  }
  return at - 1;
}

static uint64_t bits_at(const char *p, uint64_t bytes) {
  uint64_t v = 0;
  memcpy(&v, p, bytes);
  return v;
}

// Says which buffer's element differs first.
static void tell(const launch *l, uint64_t region, int64_t at) {
  printf("%s: byte %lld of region %llu", l->head.name, (long long)at, (unsigned long long)region);
  for (uint64_t k = 0; k < l->head.n_buf; k++) {
    const case_buf *b = &l->buf[k];
    uint64_t size = bytes_of[b->type], i = ((uint64_t)at - b->offset) / size, from = b->offset + i * size;
    if (b->region != region || !b->written || b->offset > (uint64_t)at || from + size > l->bytes[region]) continue;
    printf("; as element %llu of buffer %llu (type %u) it is %llx, interpreted %llx", (unsigned long long)i,
           (unsigned long long)k, b->type, (unsigned long long)bits_at(l->now[region] + from, size),
           (unsigned long long)bits_at(l->want[region] + from, size));
  }
  printf("\n");
}

static bool agrees(const launch *l, bool quiet) {
  for (uint64_t r = 0; r < l->head.n_region; r++) {
    if (memcmp(l->now[r], l->want[r], l->bytes[r]) == 0) continue;
    for (int64_t i = 0; i < (int64_t)l->bytes[r]; i++) {
      if (l->now[r][i] == l->want[r][i]) continue;
      int64_t last = skip_nan(l, r, i);
      if (last < i) {
        if (!quiet) tell(l, r, i);
        return false;
      }
      i = last;
    }
  }
  return true;
}

int main(int n_words, char **words) {
  static launch l;
  long n = 0, n_bad = 0;
  FILE *in = n_words == 3 ? fopen(words[1], "rb") : NULL, *objects = n_words == 3 ? fopen(words[2], "rb") : NULL;
  if (in == NULL || objects == NULL) return fprintf(stderr, "usage: runner CASES OBJECTS\n"), 1;
  for (; read_launch(in, objects, &l); n++) {
    if (!run(&l) || !agrees(&l, n_bad >= MAX_TOLD)) n_bad++;
    free_launch(&l);
  }
  fclose(in), fclose(objects);
  printf("aarch64: %ld kernels, %ld differ\n", n, n_bad);
  return n == 0 || n_bad > 0;
}
