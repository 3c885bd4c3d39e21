// Eight threads train eight models, and each reads what its neighbour has pending. Losses are those
// of one thread alone, bit for bit.
// A plain program, so that it runs under TSan.
//   threads [steps = 200]
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/expect.h"
#include "tests/mlp.h"

enum { N_THREADS = 8, MAX_STEPS = 5000 };

typedef struct worker {
  pthread_t thread;
  int id, n_steps;
  float *loss;
} worker;

static void *train(void *arg) {
  worker *w = arg;
  mlp m;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  EXPECT_OK(mlp_init(&m, (uint64_t)(w->id + 1) * 100));
  for (int k = 0; k < w->n_steps; k++) EXPECT(mlp_step(&m, &w->loss[k]) == TC_OK, "thread %d, step %d", w->id, k);
  mlp_fini(&m);
  return NULL;
}

static void trains_as_alone(int n_steps) {
  static float together[N_THREADS][MAX_STEPS], alone[MAX_STEPS];
  worker w[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) {
    w[i] = (worker){.id = i, .n_steps = n_steps, .loss = together[i]};
    pthread_create(&w[i].thread, NULL, train, &w[i]);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(w[i].thread, NULL);
  for (int i = 0; i < N_THREADS; i += 3) {
    worker one = {.id = i, .n_steps = n_steps, .loss = alone};
    train(&one);
    EXPECT(memcmp(alone, together[i], (size_t)n_steps * sizeof(float)) == 0, "model %d learns otherwise beside others",
           i);
  }
}

// ---- Handles passed on: each thread makes a pending chain, publishes it, and reads the previous
// thread's ----

static tc_tensor published[N_THREADS];
static pthread_barrier_t barrier;

static void *pass_on(void *arg) {
  int id = *(int *)arg;
  for (int round = 0; round < 100; round++) {
    tc_tensor x = tc_full(TC_SHAPE(100), id + round, TC_F32);
    for (int k = 0; k < 5; k++) x = tc_add(x, 1);
    published[id] = tc_retain(x);  // pending: nobody has evaluated it
    pthread_barrier_wait(&barrier);
    tc_scope s = tc_scope_begin();
    int from = (id + 1) % N_THREADS, far = (id + 3) % N_THREADS;
    float v = 0;
    tc_tensor sum = tc_sum(tc_mul(tc_add(published[from], published[far]), 2), TC_ALL, false);
    EXPECT_OK(tc_item_f32(sum, &v));
    EXPECT(v == 200.0f * (float)(from + far + 2 * (round + 5)), "thread %d, round %d: %g", id, round, (double)v);
    tc_scope_end(s);
    pthread_barrier_wait(&barrier);
    tc_release(published[id]);
  }
  return NULL;
}

static void handles_pass_between_threads(void) {
  pthread_t t[N_THREADS];
  int id[N_THREADS];
  pthread_barrier_init(&barrier, NULL, N_THREADS);
  for (int i = 0; i < N_THREADS; i++) id[i] = i, pthread_create(&t[i], NULL, pass_on, &id[i]);
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
  pthread_barrier_destroy(&barrier);
}

// ---- A thread may read what belongs to one that waits for it, or that has ended ----

static tc_tensor parents, childs;

static void *read_parents(void *arg) {
  float v = 0;
  (void)arg;
  EXPECT_OK(tc_item_f32(tc_add(parents, 1), &v));
  EXPECT(v == 4, "read %g", (double)v);
  childs = tc_retain(tc_mul(tc_scalar(5), 2));
  return NULL;
}

static void a_joining_owner_is_no_deadlock(void) {
  pthread_t t;
  float v = 0;
  tc_scope s = tc_scope_begin();
  parents = tc_add(tc_scalar(1), 2);
  pthread_create(&t, NULL, read_parents, NULL);
  pthread_join(t, NULL);
  EXPECT_OK(tc_item_f32(childs, &v));  // its owner is gone
  EXPECT(v == 10, "read %g", (double)v);
  tc_release(childs);
  tc_scope_end(s);
}

// ---- Ended threads ----

static tc_tensor of_ended[3];  // stored, pending, a parameter
static tc_tensor scoped;

static void *leave_tensors(void *arg) {
  (void)arg;
  of_ended[0] = tc_retain(tc_full(TC_SHAPE(8), 3, TC_F32));
  EXPECT_OK(tc_eval(1, of_ended));
  of_ended[1] = tc_retain(tc_mul(of_ended[0], 2));
  of_ended[2] = tc_param(of_ended[0]);
  scoped = tc_add(of_ended[0], 1);
  return NULL;
}

static void tensors_of_an_ended_thread_keep_their_values(void) {
  pthread_t t;
  size_t live = 0;
  for (int k = 0; k < 50; k++) {
    float v = 0;
    pthread_create(&t, NULL, leave_tensors, NULL);
    pthread_join(t, NULL);
    tc_scope s = tc_scope_begin();
    EXPECT(tc_is_valid(of_ended[1]) && !tc_is_valid(scoped), "what was retained lives on, what was scoped does not");
    EXPECT_OK(tc_item_f32(tc_sum(tc_add(of_ended[0], of_ended[1]), TC_ALL, false), &v));
    EXPECT(v == 72, "%g", (double)v);
    EXPECT(tc_requires_grad(of_ended[2]) && tc_shape(of_ended[2]).dim[0] == 8, "a parameter of an ended thread");
    EXPECT_OK(tc_item_f32(tc_sum(of_ended[2], TC_ALL, false), &v));
    EXPECT(v == 24, "%g", (double)v);
    EXPECT(tc_assign(of_ended[0], tc_zeros(TC_SHAPE(8), TC_F32)) == TC_ERR_STATE, "assigning an ended thread's tensor");
    tc_clear_error();
    EXPECT(tc_backward(tc_sum(tc_square(of_ended[2]), TC_ALL, false)) == TC_ERR_STATE,
           "a gradient for an ended thread's parameter");
    tc_clear_error();
    tc_scope_end(s);
    for (int i = 0; i < 3; i++) tc_release(of_ended[i]);
    EXPECT(!tc_is_valid(of_ended[0]), "released by another thread");
    EXPECT_OK(tc_sync(NULL));
    if (k == 1) live = tc_memory_stats().live_bytes;
  }
  EXPECT(tc_memory_stats().live_bytes == live, "tensors of ended threads are lost: %zu bytes, were %zu",
         tc_memory_stats().live_bytes, live);
}

static void *use_default(void *arg) {
  const char *device = arg;
  EXPECT_OK(tc_set_default_device(device));
  for (int k = 0; k < 100; k++) {
    tc_scope s = tc_scope_begin();
    EXPECT(strcmp(tc_get_default_device(), device) == 0, "default is %s, should be %s", tc_get_default_device(),
           device);
    EXPECT(strcmp(tc_device_of(tc_zeros(TC_SHAPE(2), TC_F32)), device) == 0, "made on another device than %s", device);
    tc_scope_end(s);
  }
  return NULL;
}

static void the_default_device_is_the_threads_own(void) {
  pthread_t t[2];
  pthread_create(&t[0], NULL, use_default, "tc:cpu");
  pthread_create(&t[1], NULL, use_default, "tc:ref");
  pthread_join(t[0], NULL), pthread_join(t[1], NULL);
}

// ---- Of tensors that share memory, or a number ----

static tc_tensor param, detached, turned, tall, made, taken;
static pthread_barrier_t turn;

static void *differentiate_square(void *nothing) {
  float of_square[4] = {0};
  tc_scope s = tc_scope_begin();
  tc_tensor g = {0, 0};
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(param, param), TC_ALL, false), &param, 1, &g, 0));
  EXPECT_OK(tc_to_host(g, of_square, sizeof of_square));
  EXPECT(of_square[0] == 2 && of_square[3] == 8, "the gradient of a square: %g .. %g", (double)of_square[0],
         (double)of_square[3]);
  tc_scope_end(s);
  return nothing;
}

static void *differentiate_product(void *nothing) {
  float of_product[4] = {0};
  tc_scope s = tc_scope_begin();
  tc_tensor g = {0, 0};
  for (int i = 0; i < 2; i++) {
    tc_tensor y = i ? tc_mul(detached, param) : tc_mul(param, detached);
    EXPECT_OK(tc_grads_of(tc_sum(y, TC_ALL, false), &param, 1, &g, 0));
    EXPECT_OK(tc_to_host(g, of_product, sizeof of_product));
    EXPECT(of_product[0] == 1 && of_product[3] == 4, "beside its detached value: %g .. %g", (double)of_product[0],
           (double)of_product[3]);
  }
  tc_tensor twice = tc_mul(param, 2);
  EXPECT_OK(tc_eval(1, &twice));
  made = twice;
  pthread_barrier_wait(&turn), pthread_barrier_wait(&turn);  // the other thread takes its value
  EXPECT_OK(tc_grads_of(tc_sum(tc_mul(twice, taken), TC_ALL, false), &param, 1, &g, 0));
  EXPECT_OK(tc_to_host(g, of_product, sizeof of_product));
  EXPECT(of_product[0] == 4 && of_product[3] == 16, "beside its value without history: %g .. %g", (double)of_product[0],
         (double)of_product[3]);
  tc_dims d = tc_shape(tc_add(tall, turned));
  EXPECT(d.rank == 2 && d.dim[0] == 4 && d.dim[1] == 4, "4x1 and 1x4 of the same memory");
  tc_scope_end(s);
  return nothing;
}

// pre: nothing was recorded before, so that the operand's leaf has the number in the other trace
// that the parameter has in this one.
static void what_shares_memory_is_told_apart(void) {
  pthread_t t;
  tc_scope s = tc_scope_begin();
  param = tc_param(tc_from_host((const float[]){1, 2, 3, 4}, TC_SHAPE(4), TC_F32));
  pthread_create(&t, NULL, differentiate_square, NULL), pthread_join(t, NULL);
  EXPECT_OK(tc_sync(NULL));
  detached = tc_detach(param), tall = tc_reshape(detached, TC_SHAPE(4, 1)),
  turned = tc_reshape(detached, TC_SHAPE(1, 4));
  EXPECT_OK(tc_eval(3, (tc_tensor[]){detached, tall, turned}));
  pthread_barrier_init(&turn, NULL, 2);
  pthread_create(&t, NULL, differentiate_product, NULL);
  pthread_barrier_wait(&turn);
  taken = tc_detach(made);
  EXPECT_OK(tc_eval(1, &taken));
  pthread_barrier_wait(&turn);
  pthread_join(t, NULL);
  pthread_barrier_destroy(&turn);
  tc_release(param);
  tc_scope_end(s);
}

int main(int n_words, char **words) {
  int n_steps = n_words > 1 ? atoi(words[1]) : 200;
  EXPECT_OK(tc_set_default_device("tc:cpu"));
  what_shares_memory_is_told_apart();
  trains_as_alone(n_steps < MAX_STEPS ? n_steps : MAX_STEPS);
  handles_pass_between_threads();
  a_joining_owner_is_no_deadlock();
  tensors_of_an_ended_thread_keep_their_values();
  the_default_device_is_the_threads_own();
  return expect_done("process-threads");
}
