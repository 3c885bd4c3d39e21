// Traces from files. See trace_file.h.
#include "tools/minify/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"
#include "runtime/hash.h"

char *tc_trace_file_read(const char *path) {
  FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  size_t n = 0, cap = 1 << 16;
  char *text = in ? malloc(cap) : NULL;
  while (text) {
    n += fread(text + n, 1, cap - n - 1, in);
    if (n < cap - 1) break;
    char *more = realloc(text, cap *= 2);
    if (!more) free(text);
    text = more;
  }
  if (text && ferror(in)) free(text), text = NULL;
  if (text) text[n] = 0;
  if (in && in != stdin) fclose(in);
  return text;
}

bool tc_trace_file_fill(tc_text *x, uint32_t n, uint64_t seed) {
  tc_text_node *k = &x->node[n];
  int64_t count = tc_dims_count(&k->dims);
  void *data = tc_arena_alloc(&x->arena, (size_t)count * tc_type_bytes(k->type) + 1);
  if (!data) return false;
  for (int64_t i = 0; i < count; i++) {
    uint64_t key[3] = {seed, n, (uint64_t)i};
    uint64_t bits = tc_hash_bytes(key, sizeof key).lo;
    tc_set_f64(k->type, data, i, tc_type_is_float(k->type) ? (double)(bits & 255) / 64 - 2 : (double)(bits & 3));
  }
  k->data = data;
  return true;
}
