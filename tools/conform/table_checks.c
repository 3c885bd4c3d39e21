// Checks of the object's table by itself, without devices of tc. See conform.h.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/conform/conform.h"

typedef struct opened {
  const tc_backend *t;
  void *device;
} opened;

static void check_queries(const tc_backend *(*query)(uint32_t)) {
  const tc_backend *t = query(TC_BACKEND_VERSION);
  conform_check(t == query(TC_BACKEND_VERSION), "tc_backend_query gives two tables for one version");
  const tc_backend *none = query(0), *later = query(UINT32_MAX);
  conform_check(!none || none->version != 0, "tc_backend_query(0) gives a table of version 0, which there is not");
  conform_check(!later || later->version != UINT32_MAX, "tc_backend_query gives a table of a version that is unknown");
  conform_check(!t->free == !t->alloc, "alloc and free go together");
  conform_check(!t->release || t->prepare, "there is a release without prepare");
}

static tc_backend_tensor tensor(tc_type type, int rank, int64_t a, int64_t b) {
  return (tc_backend_tensor){.type = type, .rank = rank, .dim = {a, b}, .stride = {rank > 1 ? b : 1, 1}};
}

// An op that no table has, and an op as it might be in a later version.
static void check_support(const opened *x) {
  const tc_backend_tensor in[2] = {tensor(TC_F32, 2, 3, 4), tensor(TC_F32, 2, 3, 4)};
  tc_backend_op op = {.struct_size = sizeof op, .name = "no_such_op", .n_in = 2, .in = in, .out = in[0]};
  conform_check(!x->t->supports(x->device, &op), "supports takes an op \"no_such_op\", which there is not");
  op.name = "";
  conform_check(!x->t->supports(x->device, &op), "supports takes an op without a name");
  op.name = "add";
  bool first = x->t->supports(x->device, &op);
  for (int i = 0; i < 10; i++)
    conform_check(x->t->supports(x->device, &op) == first, "supports has two answers for one op");
  conform_check(op.n_in == 2 && op.out.rank == 2 && op.in == in, "supports changed the op that it was asked about");
}

static void check_kernels(const opened *x) {
  const tc_backend_tensor in[2] = {tensor(TC_F32, 2, 3, 4), tensor(TC_F32, 2, 3, 4)};
  const tc_backend_op op = {.struct_size = sizeof op, .name = "add", .n_in = 2, .in = in, .out = in[0]};
  if (!x->t->prepare || !x->t->supports(x->device, &op)) return;
  void *kernel[16];
  for (int i = 0; i < 16; i++)
    conform_check(x->t->prepare(x->device, &op, &kernel[i]) == TC_BACKEND_OK, "prepare of add failed at number %d", i);
  for (int i = 0; i < 16 && x->t->release; i++) x->t->release(x->device, kernel[i]);
}

// Memory of many sizes at once holds what was written there.
static void check_memory(const opened *x) {
  static const size_t sizes[] = {1, 2, 3, 63, 64, 65, 4095, 4096, 1000003};
  enum { N = sizeof sizes / sizeof *sizes };
  void *at[N] = {NULL};
  char *host = malloc(1000003), *back = malloc(1000003);
  if (!x->t->alloc) return free(host), free(back);
  for (int i = 0; i < N; i++) {
    tc_backend_result r = x->t->alloc(x->device, sizes[i], &at[i]);
    if (!conform_check(r == TC_BACKEND_OK && at[i], "alloc of %zu bytes returned %d", sizes[i], (int)r)) at[i] = NULL;
    if (at[i] && (x->t->flags & TC_BACKEND_HOST_MEMORY))
      conform_check((uintptr_t)at[i] % 64 == 0, "memory of %zu bytes is not aligned to 64 bytes", sizes[i]);
    memset(host, i + 1, sizes[i]);
    if (at[i] && x->t->write)
      conform_check(x->t->write(x->device, at[i], host, sizes[i]) == TC_BACKEND_OK, "write of %zu bytes", sizes[i]);
    else if (at[i])
      memcpy(at[i], host, sizes[i]);
    memset(host, 0, sizes[i]);  // it is the caller's again
  }
  for (int i = 0; i < N; i++) {
    if (!at[i]) continue;
    if (x->t->read)
      conform_check(x->t->read(x->device, back, at[i], sizes[i]) == TC_BACKEND_OK, "read of %zu bytes", sizes[i]);
    else
      memcpy(back, at[i], sizes[i]);
    bool same = true;
    for (size_t k = 0; k < sizes[i]; k++) same &= back[k] == (char)(i + 1);
    conform_check(same, "what was read of %zu bytes is not what was written", sizes[i]);
  }
  for (int i = 0; i < N; i++)
    if (at[i]) x->t->free(x->device, at[i], sizes[i]);
  free(host);
  free(back);
}

void conform_table(const char *path) {
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const tc_backend *(*query)(uint32_t) = NULL;
  conform_begin("table");
  if (object) *(void **)&query = dlsym(object, "tc_backend_query");
  if (conform_check(query != NULL, "%s does not open by itself: name it with a directory", path)) {
    opened x = {.t = query(TC_BACKEND_VERSION)};
    check_queries(query);
    bool open = !x.t->open || x.t->open(0, &x.device) == TC_BACKEND_OK;
    if (conform_check(open, "device 0 does not open")) {
      check_support(&x);
      check_kernels(&x);
      check_memory(&x);
      conform_check(!x.t->wait || x.t->wait(x.device) == TC_BACKEND_OK, "wait failed");
      const char *text = x.t->last_error ? x.t->last_error(x.device) : NULL;
      conform_check(!text || strnlen(text, 4096) < 4096, "the text of last_error has no end");
      if (x.t->close) x.t->close(x.device);
    }
  }
  conform_end();
}
