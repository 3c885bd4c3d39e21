// Race check of lent and borrowed memory, a plain program for -fsanitize=thread: tensors of one
// mapped file, and values lent by DLPack, are read and given back by eight threads while their
// owner closes the archive, goes on and drops its own.
#include <pthread.h>
#include <tc/dlpack.h>

#include "tests/expect.h"
#include "tests/files/files.h"

enum { N_THREADS = 8, N_ROUNDS = 20, N = 256 };

typedef struct worker {
  pthread_t thread;
  tc_tensor mapped;  // retained for the thread, which releases it
  DLManagedTensorVersioned *lent[2];
} worker;

static void *use(void *arg) {
  worker *w = arg;
  float sum = 0;
  tc_scope scope = tc_scope_begin();
  tc_tensor borrowed = tc_from_dlpack(w->lent[0]);  // dropped at the scope's end
  EXPECT_OK(tc_item_f32(tc_sum(tc_add(w->mapped, borrowed), TC_ALL, false), &sum));
  EXPECT(sum == N * (N - 1) / 2 + N, "%g", (double)sum);
  EXPECT(((float *)w->lent[1]->dl_tensor.data)[N - 1] == 1, "what was lent changed");
  w->lent[1]->deleter(w->lent[1]);
  tc_release(w->mapped);
  tc_scope_end(scope);
  return NULL;
}

static void round_of(const char *path) {
  worker workers[N_THREADS] = {0};
  tc_scope scope = tc_scope_begin();
  tc_archive *a = tc_safetensors_open(path);
  tc_tensor ones = tc_ones(TC_SHAPE(N), TC_F32);
  for (int i = 0; i < N_THREADS; i++) {
    workers[i].mapped = tc_retain(tc_archive_get(a, "x"));
    for (int k = 0; k < 2; k++) workers[i].lent[k] = tc_to_dlpack(ones);
    EXPECT(tc_is_valid(workers[i].mapped) && workers[i].lent[0] && workers[i].lent[1], "nothing to lend");
  }
  for (int i = 0; i < N_THREADS; i++) pthread_create(&workers[i].thread, NULL, use, &workers[i]);
  tc_archive_close(a);
  EXPECT_OK(tc_assign(ones, tc_zeros(TC_SHAPE(N), TC_F32)));  // to new memory: the old is lent
  EXPECT_OK(tc_sync(NULL));
  tc_scope_end(scope);
  for (int i = 0; i < N_THREADS; i++) pthread_join(workers[i].thread, NULL);
}

int main(void) {
  if (!has_library(tc_safetensors_open_at)) return 77;
  const char *path = files_path("x.safetensors");
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_arange(0, N, 1, TC_F32);
  EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"x"}, &x));
  tc_scope_end(scope);
  for (int i = 0; i < N_ROUNDS; i++) round_of(path);
  EXPECT(files_fini() == 1, "files are left");
  tc_shutdown();
  return expect_done("lending");
}
