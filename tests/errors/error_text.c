// The text of an error belongs to the status that was returned: to the latest call that failed, to
// what a poisoned handle was poisoned with, to what a sync point tells of late; in programs that
// clear errors and in those that do not.
#include <pthread.h>
#include <stdlib.h>
#include <tc/nn.h>

#include "tests/expect.h"

#pragma GCC diagnostic ignored "-Wunused-result"  // it is what follows that is looked at

static bool clears;

static void told(tc_status st, tc_status want, const char *words, int line) {
  const tc_error *e = tc_last_error();
  EXPECT(st == want && e->status == want && strstr(e->message, words), "line %d: %s and \"%s\", should say \"%s\"",
         line, tc_status_text(st), e->message, words);
  if (clears) tc_clear_error();
}
#define TOLD(call, want, words) told((call), want, words, __LINE__)

static tc_tensor wrong_product(void) {
  tc_tensor x = tc_ones(TC_SHAPE(4, 3), TC_F32);
  return tc_matmul(x, x);
}

static tc_tensor wrong_reshape(void) {
  return tc_reshape(tc_ones(TC_SHAPE(6), TC_F32), TC_SHAPE(5));
}

// One request after the other, each wrong in its own way; two of one status, too.
static void each_request_has_its_own(void) {
  float v;
  TOLD(tc_print(wrong_product()), TC_ERR_SHAPE, "matmul");
  TOLD(tc_print(tc_load_npy("nosuch.npy")), TC_ERR_IO, "nosuch.npy");
  TOLD(tc_item_f32(wrong_reshape(), &v), TC_ERR_SHAPE, "reshape");
  TOLD(tc_item_f32(tc_ones(TC_SHAPE(4, 3), TC_F32), &v), TC_ERR_SHAPE, "item");
  TOLD(tc_item_f32((tc_tensor){0, 0}, &v), TC_ERR_HANDLE, "null tensor");
  TOLD(tc_eval(-1, NULL), TC_ERR_ARG, "eval");
  TOLD(tc_set_default_device("tc:nosuch"), TC_ERR_DEVICE, "tc:nosuch");
  TOLD(tc_to_host(tc_ones(TC_SHAPE(2), TC_F32), &v, 4), TC_ERR_ARG, "8 bytes");
  TOLD(tc_sync("tc:nowhere"), TC_ERR_DEVICE, "tc:nowhere");
  TOLD(tc_save_npy("/nosuch/x.npy", tc_ones(TC_SHAPE(2), TC_F32)), TC_ERR_IO, "/nosuch");
  EXPECT(tc_map(wrong_product()) == NULL, "mapped");
  TOLD(TC_ERR_SHAPE, TC_ERR_SHAPE, "matmul");
  EXPECT(tc_format((tc_tensor){0, 0}) == NULL, "formatted");
  TOLD(TC_ERR_HANDLE, TC_ERR_HANDLE, "null");
  tc_tensor whole = tc_ones(TC_SHAPE(2), TC_I64);
  EXPECT(tc_sgd(&whole, 1, (tc_sgd_options){.lr = 1}) == NULL, "made");
  TOLD(TC_ERR_DTYPE, TC_ERR_DTYPE, "sgd: parameter 0 is i64");
  EXPECT(tc_adam(&whole, 1, (tc_adam_options){.beta1 = 2}) == NULL, "made");
  TOLD(TC_ERR_ARG, TC_ERR_ARG, "adam: beta1 is 2");
  EXPECT(tc_npz_open("nosuch.npz") == NULL, "opened");
  EXPECT(strstr(tc_last_error()->message, "npz_open"), "%s", tc_last_error()->message);
  tc_nn_params *p = tc_nn_params_create();
  (void)tc_nn_add(p, "a", tc_ones(TC_SHAPE(2), TC_F32));
  TOLD(tc_item_f32(tc_nn_get(p, "b"), &v), TC_ERR_ARG, "'b'");
  TOLD(tc_item_f32(tc_nn_get(p, "cc"), &v), TC_ERR_ARG, "'cc'");
  tc_nn_params_destroy(p);
}

// What is NULL because making it failed: the text is that of the call that was given NULL, and says
// why.
static void null_says_why(void) {
  tc_archive *a = tc_safetensors_open("nosuch.safetensors");
  TOLD(tc_archive_load(a, NULL, 0, NULL, NULL), TC_ERR_ARG,
       clears ? "there is no archive" : "there is no archive: safetensors_open");
  if (clears) return;
  tc_optimizer *opt = tc_sgd(NULL, 0, (tc_sgd_options){0});
  TOLD(tc_zero_grad(opt), TC_ERR_ARG, "no optimizer: sgd: 0 parameters");
  (void)tc_sync("tc:nowhere");
  TOLD(tc_zero_grad(opt), TC_ERR_ARG, "zero_grad: no optimizer (at");
}

// Two poisoned handles that wait, read in either order, over and over, and as operands of ops.
static void poison_keeps_its_own(void) {
  float v;
  tc_tensor product = wrong_product(), reshaped = wrong_reshape(), missing = tc_load_npy("nosuch.npy");
  for (int again = 0; again < 2; again++) {
    TOLD(tc_item_f32(tc_sum(tc_relu(reshaped), TC_ALL, false), &v), TC_ERR_SHAPE, "reshape");
    TOLD(tc_item_f32(product, &v), TC_ERR_SHAPE, "matmul");
    TOLD(tc_item_f32(tc_add(missing, product), &v), TC_ERR_IO, "nosuch.npy");
    TOLD(tc_item_f32(tc_add(product, missing), &v), TC_ERR_SHAPE, "matmul");
    TOLD(tc_eval(2, (tc_tensor[]){missing, product}), TC_ERR_IO, "nosuch.npy");
    TOLD(tc_save_npy("/tmp/never.npy", reshaped), TC_ERR_SHAPE, "reshape");
    TOLD(tc_backward(missing), TC_ERR_IO, "nosuch.npy");
    TOLD(tc_sync(NULL), clears ? TC_OK : TC_ERR_IO, clears ? "" : "nosuch.npy");
  }
}

// A deferred error says what failed, whatever else has failed since.
static void deferred_error_has_its_own_text(void) {
  float v;
  tc_tensor a = tc_ones(TC_SHAPE(2), TC_F32), one = tc_ones(TC_SCALAR, TC_F32);
  (void)tc_assign(a, tc_ones(TC_SHAPE(3), TC_F32));
  (void)wrong_product();
  TOLD(tc_item_f32(one, &v), TC_ERR_SHAPE, "assign");
  EXPECT_OK(tc_item_f32(one, &v));
  (void)tc_optimizer_step(NULL);
  EXPECT(!tc_is_valid(tc_load_npy("nosuch.npy")), "loaded");
  TOLD(tc_sync(NULL), TC_ERR_ARG, "no optimizer");
  EXPECT_OK(tc_sync(NULL));
}

// An error that a call has dealt with itself leaves the program's: an optimizer of no memory, made
// again.
static void success_leaves_it(void) {
  if (clears) return;
  float v;
  EXPECT(tc_item_f32(wrong_product(), &v) == TC_ERR_SHAPE, "read");
  for (int i = 0; i < 4; i++)
    EXPECT_OK(tc_item_f32(tc_sum(tc_exp(tc_ones(TC_SHAPE(3 + i), TC_F32)), TC_ALL, false), &v));
  TOLD(TC_ERR_SHAPE, TC_ERR_SHAPE, "matmul");
}

static void *poison_it(void *out) {
  *(tc_tensor *)out = wrong_product();
  return NULL;
}

// Poison of another thread, which has ended.
static void poison_of_another_thread(void) {
  float v;
  tc_tensor theirs;
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, poison_it, &theirs) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  TOLD(tc_item_f32(theirs, &v), TC_ERR_SHAPE, "matmul");
}

// Beyond what is kept the text is the status's: never another error's.
static void an_old_one_is_not_mistaken(void) {
  float v;
  tc_tensor product = wrong_product(), fresh;
  for (int i = 0; i < 1000; i++) (void)wrong_reshape();
  fresh = tc_load_npy("nosuch.npy");
  TOLD(tc_item_f32(product, &v), TC_ERR_SHAPE, tc_status_text(TC_ERR_SHAPE));
  TOLD(tc_item_f32(fresh, &v), TC_ERR_IO, "nosuch.npy");
  TOLD(tc_item_f32((tc_tensor){0xFFFFFFFFu, 7}, &v), TC_ERR_HANDLE, "no tensor");
}

int main(void) {
  for (int k = 0; k < 2; k++) {
    clears = k == 1;
    tc_scope scope = tc_scope_begin();
    each_request_has_its_own();
    null_says_why();
    poison_keeps_its_own();
    deferred_error_has_its_own_text();
    success_leaves_it();
    poison_of_another_thread();
    an_old_one_is_not_mistaken();
    tc_scope_end(scope);
  }
  return expect_done("errors-error_text");
}
