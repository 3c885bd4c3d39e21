// Race checks of handles between threads, a plain program for -fsanitize=thread: pending tensors of
// one thread used, read, looked at and released by others, while their owner goes on. Exit code 0:
// every value was right.
#include <pthread.h>
#include <stdatomic.h>

#include "tests/expect.h"

enum { N_THREADS = 4, N_ROUNDS = 60, N_HANDLES = 8 };

typedef struct desk {
  tc_tensor handle[N_HANDLES];  // pending values made by the thread of this number
} desk;

static desk desks[N_THREADS];
static pthread_barrier_t barrier;

static tc_tensor chain(int start) {
  tc_tensor x = tc_full(TC_SHAPE(64), start, TC_F32);
  for (int k = 0; k < 4; k++) x = tc_add(x, 1);
  return x;
}

// Everything a thread may do with another's tensor, and what it may not.
static void use(tc_tensor h, float want, bool own) {
  float v = 0, all[64];
  tc_scope s = tc_scope_begin();
  EXPECT(tc_is_valid(h) && tc_numel(h) == 64 && tc_dtype(h) == TC_F32 && tc_shape(h).rank == 1,
         "what is known of another's tensor");
  EXPECT(!tc_requires_grad(h) && tc_grad(h).gen == 0, "another's tensor wants no gradient");
  EXPECT_OK(tc_item_f32(tc_mean(tc_mul(h, 2), TC_ALL, false), &v));
  EXPECT(v == 2 * want, "an op on another's tensor: %g, should be %g", (double)v, (double)(2 * want));
  EXPECT_OK(tc_sync_of(h));  // whose owner may be inside an op that reads a third thread's
  EXPECT_OK(tc_to_host(h, all, sizeof all));
  EXPECT(all[63] == want, "another's tensor read: %g, should be %g", (double)all[63], (double)want);
  EXPECT(own || tc_assign(h, tc_zeros(TC_SHAPE(64), TC_F32)) == TC_ERR_STATE, "assigning another's tensor");
  tc_clear_error();
  const float *mapped = tc_map(h);
  EXPECT(mapped && mapped[0] == want, "another's tensor mapped");
  EXPECT_OK(tc_unmap(h));
  tc_scope_end(s);
}

// Odd rounds: the owner goes on with its own tensors meanwhile; the last user releases them.
static void *work(void *arg) {
  int id = *(int *)arg;
  for (int round = 0; round < N_ROUNDS; round++) {
    tc_scope s = tc_scope_begin();
    for (int i = 0; i < N_HANDLES; i++) desks[id].handle[i] = tc_retain(chain(id + round + i));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < N_HANDLES; i++) {
      int from = (id + i) % N_THREADS;  // each desk is used by every thread, its owner too, at the same time
      use(desks[from].handle[i], (float)(from + round + i + 4), from == id);
      if (round & 1) EXPECT_OK(tc_sync(NULL));
      float v;
      EXPECT_OK(tc_item_f32(tc_sum(chain(i), TC_ALL, false), &v));
      EXPECT(v == 64.0f * (float)(i + 4), "the owner's own work: %g", (double)v);
    }
    pthread_barrier_wait(&barrier);
    int next = (id + 1) % N_THREADS;
    for (int i = 0; i < N_HANDLES; i++) tc_release(desks[next].handle[i]);  // by another thread than the owner's
    tc_scope_end(s);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < N_HANDLES; i++)
      EXPECT(!tc_is_valid(desks[id].handle[i]), "released by another thread, and still valid");
    EXPECT(tc_last_error()->status == TC_OK, "thread %d, round %d", id, round);
  }
  return NULL;
}

// ---- One thread assigns to its caller's memory while another reads the tensor ----

enum { N_WRITABLE = 1 << 16, N_ASSIGNS = 1000 };
static tc_tensor writable;
static atomic_bool assigned;

static void *read_writable(void *nothing) {
  static float all[N_WRITABLE];
  float latest = 0;
  while (!atomic_load(&assigned)) {
    float low = 0, high = 0;
    tc_scope s = tc_scope_begin();
    tc_tensor x = tc_add(writable, 0), both[2] = {tc_min(x, TC_ALL, false), tc_max(x, TC_ALL, false)};
    EXPECT_OK(tc_eval(2, both));
    EXPECT_OK(tc_item_f32(both[0], &low));
    EXPECT_OK(tc_item_f32(both[1], &high));
    EXPECT(low == high && low >= latest, "a tensor is read between two values: %g to %g, %g before", (double)low,
           (double)high, (double)latest);
    latest = high;
    EXPECT_OK(tc_sync_of(writable));
    EXPECT_OK(tc_to_host(writable, all, sizeof all));
    const float *view = tc_map(writable);
    EXPECT(view && all[0] == all[N_WRITABLE - 1] && all[0] >= latest, "read: %g to %g", (double)all[0],
           (double)all[N_WRITABLE - 1]);
    EXPECT(view && view[0] == view[N_WRITABLE - 1], "mapped: %g to %g", (double)view[0], (double)view[N_WRITABLE - 1]);
    EXPECT_OK(tc_unmap(writable));
    tc_scope_end(s);
  }
  return nothing;
}

static void what_is_assigned_meanwhile_is_read_whole(void) {
  static float memory[N_WRITABLE];
  pthread_t t;
  writable = tc_retain(tc_borrow(memory, TC_SHAPE(N_WRITABLE), TC_F32, TC_WRITABLE, NULL, NULL));
  pthread_create(&t, NULL, read_writable, NULL);
  for (int i = 0; i < N_ASSIGNS; i++) {
    tc_scope s = tc_scope_begin();
    EXPECT_OK(tc_assign(writable, tc_add(writable, 1)));
    EXPECT_OK(tc_sync(NULL));
    tc_scope_end(s);
  }
  atomic_store(&assigned, true);
  pthread_join(t, NULL);
  EXPECT(memory[0] == N_ASSIGNS && memory[N_WRITABLE - 1] == N_ASSIGNS, "%g and %g were assigned", (double)memory[0],
         (double)memory[N_WRITABLE - 1]);
  tc_release(writable);
}

// ---- One thread releases and makes tensors while another asks about stale handles ----

static _Atomic uint64_t shown;
static atomic_bool over;

static void *ask(void *arg) {
  (void)arg;
  while (!atomic_load(&over)) {
    uint64_t word = atomic_load(&shown);
    tc_tensor h = {(uint32_t)word, (uint32_t)(word >> 32)};
    float v = 0;
    tc_scope s = tc_scope_begin();
    if (tc_item_f32(tc_sum(tc_add(h, 1), TC_ALL, false), &v) == TC_OK)  // else released meanwhile
      EXPECT(v == 128, "a stale handle became another tensor: %g", (double)v);
    else
      EXPECT(tc_last_error()->status == TC_ERR_HANDLE, "a stale handle");
    tc_clear_error();
    tc_scope_end(s);
  }
  return NULL;
}

static void stale_handles_are_errors_at_any_time(void) {
  pthread_t t[2];
  for (int k = 0; k < 400; k++) {
    tc_scope s = tc_scope_begin();
    tc_tensor h = tc_ones(TC_SHAPE(64), TC_F32);
    for (int i = 0; i < 3; i++) (void)tc_full(TC_SHAPE(64), 7, TC_F32);  // what a reused slot would show
    atomic_store(&shown, (uint64_t)h.gen << 32 | h.slot);
    for (int i = 0; k == 0 && i < 2; i++) pthread_create(&t[i], NULL, ask, NULL);
    if (k % 3 == 0) EXPECT_OK(tc_sync(NULL));
    tc_scope_end(s);
  }
  atomic_store(&over, true);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

int main(void) {
  pthread_t t[N_THREADS];
  int id[N_THREADS];
  EXPECT_OK(tc_set_num_threads(2));
  pthread_barrier_init(&barrier, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++) id[i] = i, pthread_create(&t[i], NULL, work, &id[i]);
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
  pthread_barrier_destroy(&barrier);
  what_is_assigned_meanwhile_is_read_whole();
  stale_handles_are_errors_at_any_time();
  tc_shutdown();
  return expect_done("sharing");
}
