// Threads sync while another one starts and stops profiles, and forks: each file is whole, and each
// sync is in one file at most.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/profile_format.h"
#include "tests/expect.h"

enum { THREADS = 3, FILES = 12 };
static atomic_bool ends;
static atomic_int n_done;

static void *sync_often(void *arg) {
  const float x[4] = {1, 2, 3, 4};
  int name = *(int *)arg;
  for (int i = 0; !atomic_load(&ends); i++) {
    tc_scope s = tc_scope_begin();
    float v = 0, want = 0;
    EXPECT_OK(tc_region_begin(&(tc_region_options){.name = name == 0 ? "first" : "others"}));
    tc_tensor t = tc_from_host(x, TC_SHAPE(4), TC_F32);
    for (int k = 0; k < 1 + (i + name) % 6; k++) t = tc_neg(t);
    want = (1 + (i + name) % 6) % 2 ? -10 : 10;
    EXPECT_OK(tc_item_f32(tc_sum(t, TC_ALL, false), &v));
    EXPECT(v == want, "%g", v);
    if (i % 50 == 0) tc_cache_clear();
    tc_region_end();
    tc_scope_end(s);
    atomic_fetch_add(&n_done, 1);
  }
  return NULL;
}

// Returns the syncs in it. One is in no file before.
static uint32_t read_file(const char *path, uint32_t *last) {
  FILE *from = fopen(path, "r");
  EXPECT(from, "%s", path);
  static char data[8 << 20];
  size_t n = from ? fread(data, 1, sizeof data, from) : 0;
  uint32_t syncs = 0, said = 0, most = *last;
  size_t at = 16;
  while (at + sizeof(tc_prof_head) <= n) {
    const tc_prof_head *head = (const void *)(data + at);
    EXPECT(head->bytes && head->bytes % 8 == 0 && at + head->bytes <= n, "%s at %zu of %zu: %u", path, at, n,
           head->bytes);
    if (!head->bytes) break;
    if (head->kind == TC_PROF_SYNC) {
      const tc_prof_sync *s = (const void *)head;
      EXPECT(s->sequence && s->plan, "sync %u", s->sequence);
      syncs++, most = most > s->sequence ? most : s->sequence;
    }
    if (head->kind == TC_PROF_END) said = ((const tc_prof_end *)(const void *)head)->n_syncs;
    at += head->bytes;
  }
  EXPECT(at == n && said == syncs, "%s: %u syncs, %u told", path, syncs, said);
  if (from) fclose(from);
  unlink(path);
  *last = most;
  return syncs;
}

static void wait_for(int more) {
  for (int goal = atomic_load(&n_done) + more; atomic_load(&n_done) < goal;) usleep(200);
}

int main(void) {
  pthread_t thread[THREADS];
  int name[THREADS];
  uint32_t n = 0, last = 0;
  for (int i = 0; i < THREADS; i++) {
    name[i] = i;
    EXPECT(pthread_create(&thread[i], NULL, sync_often, &name[i]) == 0, "no thread");
  }
  for (int k = 0; k < FILES; k++) {
    char path[64];
    snprintf(path, sizeof path, "race_profile_%d_%d", (int)getpid(), k);
    EXPECT_OK(tc_profile_start(path));
    wait_for(30);
    pid_t child = k % 4 == 0 ? fork() : -1;
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    wait_for(30);
    EXPECT_OK(tc_profile_stop());
    n += read_file(path, &last);
    wait_for(5);
  }
  atomic_store(&ends, true);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  EXPECT(n >= FILES * 50 && n <= last, "%u syncs, the last is %u", n, last);
  return expect_done("race-profile");
}
