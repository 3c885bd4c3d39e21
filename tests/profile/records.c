// Programs whose profile records.py reads. Each sync is announced as "expect LINE CAUSE NODES" with
// the nodes counted here, by hand.
//   profile_records kinds|bytes|again|restart|forever|exec|steps|heavy|far
// kinds: twelve kinds of sync in three threads, then a fork, whose child has two more.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tc/io.h>
#include <tc/tc.h>
#include <unistd.h>

static void check(tc_status st, int line) {
  if (st == TC_OK) return;
  printf("failed at %d: %s\n", line, tc_last_error()->message);
  exit(1);
}
#define CHECK(call) check(call, __LINE__)

static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;
static void expect(const char *region, int line, const char *cause, int nodes) {
  pthread_mutex_lock(&out);
  printf("expect %s %d %s %d\n", region, line, cause, nodes);
  pthread_mutex_unlock(&out);
}

// One more node for each of n.
#define CHAIN_LINE (chain_line + 2)
static const int chain_line = __LINE__;
static tc_tensor chain(tc_tensor x, int n) {
  for (int i = 0; i < n; i++) x = i % 2 ? tc_neg(x) : tc_exp(x);
  return x;
}

static const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static tc_tensor leaf(void) {
  return tc_from_host(data, TC_SHAPE(8), TC_F32);
}

// ---- kinds ----

static void read_values(const char *region) {
  float v, all[8];
  tc_scope s = tc_scope_begin();
  (void)tc_region_begin(&(tc_region_options){.name = region});
  CHECK(tc_item_f32(tc_sum(chain(leaf(), 3), TC_ALL, false), &v)), expect(region, __LINE__, "item", 5);
  CHECK(tc_to_host(chain(leaf(), 7), all, sizeof all)), expect(region, __LINE__, "to_host", 8);
  (void)tc_region_begin(&(tc_region_options){.name = "inner"});
  tc_tensor x = chain(leaf(), 12);
  const void *at = tc_map(x);
  expect(region, __LINE__ - 1, "map", 13);
  CHECK(at ? tc_unmap(x) : TC_ERR_STATE);
  tc_region_end();
  x = chain(leaf(), 20);
  CHECK(tc_eval(1, &x)), expect(region, __LINE__, "eval", 21);
  (void)tc_keep(chain(leaf(), 40));
  CHECK(tc_sync(NULL)), expect(region, __LINE__, "sync", 41);
  tc_region_end();
  tc_scope_end(s);
}

static void write_values(const char *region) {
  char path[64];
  tc_scope s = tc_scope_begin();
  (void)tc_region_begin(&(tc_region_options){.name = region});
  tc_tensor x = chain(leaf(), 2);
  char *text = tc_format(x);
  expect(region, __LINE__ - 1, "print", 3);
  free(text);
  snprintf(path, sizeof path, "profile_%d.npy", (int)getpid());
  CHECK(tc_save_npy(path, chain(leaf(), 4))), expect(region, __LINE__, "save", 5);
  unlink(path);
  CHECK(tc_print(chain(leaf(), 6))), expect(region, __LINE__, "print", 7);
  tc_tensor sums = tc_cumsum(leaf(), 0);
  CHECK(tc_eval(1, &sums)), expect(region, __LINE__, "eval", 2);
  static const int64_t far[2] = {1, 9};
  tc_tensor bad = tc_index_select(leaf(), 0, tc_from_host(far, TC_SHAPE(2), TC_I64));
  if (tc_eval(1, &bad) == TC_OK) exit(1);
  expect(region, __LINE__ - 1, "eval", 3);
  tc_clear_error();
  tc_region_end();
  tc_scope_end(s);
}

// TC_MAX_NODES=64: a scope that ends with more is cut, and a trace of 256 nodes.
static void reach_bounds(const char *region) {
  (void)tc_region_begin(&(tc_region_options){.name = region});
  tc_tensor kept = {0};
  for (int i = 0; i < 2; i++) {
    tc_scope s = tc_scope_begin();
    kept = tc_keep(chain(leaf(), 149));
    tc_scope_end(s), expect(region, __LINE__, "landmark", 150);
    tc_release(kept);
  }
  tc_scope s = tc_scope_begin();
  tc_tensor x = chain(leaf(), 300);
  expect(region, CHAIN_LINE, "bound", 256);
  CHECK(tc_eval(1, &x)), expect(region, __LINE__, "eval", 46);  // a leaf with what was cut off, and 45 more
  tc_scope_end(s);
  tc_region_end();
}

static void *in_thread(void *arg) {
  const char *name = arg;
  if (strcmp(name, "reads") == 0) read_values(name);
  if (strcmp(name, "writes") == 0) write_values(name);
  if (strcmp(name, "bounds") == 0) reach_bounds(name);
  return NULL;
}

static tc_tensor theirs;
static void *make_theirs(void *arg) {
  theirs = tc_retain(chain(leaf(), 5));
  return arg;
}

static void run_kinds(void) {
  static char *const names[] = {"reads", "writes", "bounds"};
  pthread_t thread[3];
  float all[8];
  for (int i = 0; i < 3; i++)
    if (pthread_create(&thread[i], NULL, in_thread, names[i]) != 0) exit(1);
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  if (pthread_create(&thread[0], NULL, make_theirs, NULL) != 0) exit(1);
  pthread_join(thread[0], NULL);
  (void)tc_region_begin(&(tc_region_options){.name = "main"});
  tc_tensor y = chain(theirs, 1);
  expect("main", CHAIN_LINE, "cross-thread", 6);
  CHECK(tc_to_host(y, all, sizeof all)), expect("main", __LINE__, "to_host", 2);
  tc_region_end();
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    (void)tc_region_begin(&(tc_region_options){.name = "child"});
    float v;
    CHECK(tc_item_f32(tc_sum(chain(leaf(), 3), TC_ALL, false), &v)), expect("child", __LINE__, "item", 5);
    CHECK(tc_item_f32(tc_sum(chain(leaf(), 6), TC_ALL, false), &v)), expect("child", __LINE__, "item", 8);
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (status != 0) exit(1);
  (void)tc_region_begin(&(tc_region_options){.name = "after"});
  CHECK(tc_to_host(chain(leaf(), 9), all, sizeof all)), expect("after", __LINE__, "to_host", 10);
  tc_region_end();
}

// ---- bytes: announced as "bytes LINE BYTES FLOPS" ----

static void run_bytes(void) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_keep(tc_rand(TC_SHAPE(64, 128), TC_F32)), w = tc_keep(tc_rand(TC_SHAPE(128, 32), TC_F32));
  CHECK(tc_sync(NULL));
  const int big = 64 * 128 * 4, side = 128 * 32 * 4, result = 64 * 32 * 4;
  tc_tensor y = tc_exp(tc_neg(x));
  CHECK(tc_eval(1, &y)), printf("bytes %d %d %d\n", __LINE__, 2 * big, 2 * 64 * 128);
  y = tc_matmul(x, w);
  CHECK(tc_eval(1, &y)), printf("bytes %d %d %d\n", __LINE__, big + side + result, 2 * 64 * 128 * 32);
  // the operand of a product has memory: written, and read again
  y = tc_matmul(tc_exp(x), w);
  CHECK(tc_eval(1, &y)), printf("bytes %d %d %d\n", __LINE__, 3 * big + side + result, 2 * 64 * 128 * 32 + 64 * 128);
  y = tc_sum(tc_square(x), TC_AXES(1), false);
  CHECK(tc_eval(1, &y)), printf("bytes %d %d %d\n", __LINE__, big + 64 * 4, 2 * 64 * 128);
  y = tc_cumsum(x, 1);
  CHECK(tc_eval(1, &y)), printf("bytes %d %d %d\n", __LINE__, 2 * big, 64 * 128);
  tc_scope_end(s);
}

// ---- copies and values made again ----

static void run_again(void) {
  float v, all[8];
  tc_scope s = tc_scope_begin();
  tc_tensor w = tc_param(leaf()), y;
  CHECK(tc_sync(NULL));
  // what its old value is held by may not be written over
  tc_tensor old = tc_detach(w);
  CHECK(tc_eval(1, &old));
  CHECK(tc_assign(w, tc_add(w, 1)));
  (void)tc_region_begin(&(tc_region_options){.name = "held"});
  CHECK(tc_sync(NULL));
  tc_region_end();
  CHECK(tc_to_host(old, all, sizeof all));
  // 1000 elements that are cheap to make are not stored for the next sync
  y = tc_exp(tc_ones(TC_SHAPE(1000), TC_F32));
  CHECK(tc_item_f32(tc_sum(y, TC_ALL, false), &v));
  (void)tc_region_begin(&(tc_region_options){.name = "again"});
  CHECK(tc_item_f32(tc_sum(tc_neg(y), TC_ALL, false), &v));
  tc_region_end();
  tc_scope_end(s);
}

// ---- others ----

static void sync_once(int n) {
  float all[8];
  tc_scope s = tc_scope_begin();
  CHECK(tc_to_host(chain(leaf(), n), all, sizeof all));
  tc_scope_end(s);
}

// A file for each ten syncs, the first behind a sync that no profile had; between two of them one sync that no file
// has.
static void run_restart(void) {
  sync_once(5);
  for (int k = 0; k < 20; k++) {
    char path[64];
    snprintf(path, sizeof path, "part_%d", k);
    CHECK(tc_profile_start(path));
    if (tc_profile_start("part_second") != TC_ERR_STATE) exit(1);
    for (int i = 0; i < 10; i++) sync_once(1 + i % 3);
    CHECK(tc_profile_stop());
    if (tc_profile_stop() != TC_ERR_STATE) exit(1);
    sync_once(5);
  }
  tc_clear_error();
  for (int i = 0; i < 70; i++) (void)tc_region_begin(&(tc_region_options){.name = "x"});
  if (tc_last_error()->status != TC_ERR_STATE) exit(1);
  tc_clear_error();
  for (int i = 0; i < 70; i++) tc_region_end();
  if (tc_last_error()->status != TC_OK) exit(1);
  tc_region_end();
  if (tc_last_error()->status != TC_ERR_STATE) exit(1);
}

// Two nodes a sync, of which each takes long.
static void run_heavy(int n) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_keep(tc_rand(TC_SHAPE(1024, 1024), TC_F32)), w = tc_keep(tc_rand(TC_SHAPE(1024, 1024), TC_F32));
  CHECK(tc_sync(NULL));
  for (int i = 0; i < n; i++) {
    tc_scope step = tc_scope_begin();
    tc_tensor y = tc_matmul(x, w);
    CHECK(tc_eval(1, &y));
    tc_scope_end(step);
  }
  tc_scope_end(s);
}

// The place of this sync is longer than most texts.
static void run_far(void) {
#define FOLDER "a_folder_of_forty_one_letters_and_a_slash/"
  static const char place[] = "/" FOLDER FOLDER FOLDER FOLDER "far.c:7";
  float v;
  CHECK(tc_item_f32_at(tc_sum(leaf(), TC_ALL, false), &v, (tc_site)(uintptr_t)place));
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "kinds") == 0) run_kinds();
  if (strcmp(what, "bytes") == 0) run_bytes();
  if (strcmp(what, "again") == 0) run_again();
  if (strcmp(what, "heavy") == 0) run_heavy(8);
  if (strcmp(what, "far") == 0) run_far();
  if (strcmp(what, "restart") == 0) run_restart();
  if (strcmp(what, "forever") == 0)
    for (int i = 0;; i++) {
      sync_once(1 + i % 5);
      if (i % 1000 == 0) printf("%d\n", i), fflush(stdout);
    }
  if (strcmp(what, "steps") == 0)
    for (int i = 0; i < atoi(argv[2]); i++) sync_once(1 + i % 3);
  if (strcmp(what, "chain") == 0) {  // programs in one process, each executed by the one before
    for (int i = 0; i < atoi(argv[2]); i++) sync_once(1 + i % 3);
    char rest[16];
    snprintf(rest, sizeof rest, "%d", atoi(argv[2]) - 1);
    if (atoi(argv[2]) > 1) execl(argv[0], argv[0], "chain", rest, (char *)NULL);
  }
  if (strcmp(what, "exec") == 0) {  // a child that inherits TC_PROFILE while this process lives
    sync_once(2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) execl(argv[0], argv[0], "steps", "3", (char *)NULL), _exit(1);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
    sync_once(2);
  }
  printf("done\n");
  return 0;
}
