// A biased lock keeps threads apart whoever takes it, whenever the bias comes and goes, and in the
// child of a fork; its owner gives way.
#include "runtime/biased_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 300, OWN = 2000, OTHERS = 3, EACH = 20, WORK = 20000 };

static struct {
  tc_biased_lock lock;
  long count;       // under the lock, and not atomic
  int inside;       // threads inside; more than one is an error
  int n_overlaps;
  atomic_int go;
} self;

static void visit(void) {
  self.n_overlaps += ++self.inside != 1;
  self.count++;
  self.inside--;
}

static void *other_main(void *arg) {
  (void)arg;
  while (!atomic_load(&self.go)) {
  }
  for (int i = 0; i < EACH; i++) {
    tc_biased_lock_other(&self.lock);
    visit();
    tc_biased_unlock_other(&self.lock);
  }
  return NULL;
}

// The owner works while others come; then it gets its bias back.
static int round_run(int round) {
  pthread_t others[OTHERS];
  atomic_store(&self.go, 0);
  for (int i = 0; i < OTHERS; i++)
    if (pthread_create(&others[i], NULL, other_main, NULL) != 0) return 1;
  for (int i = 0; i < OWN; i++) {
    if (i == round % OWN) atomic_store(&self.go, 1);
    tc_biased_lock_own(&self.lock);
    visit();
    tc_biased_unlock_own(&self.lock);
    if (i % 500 == 499) tc_biased_lock_begin(&self.lock);
  }
  for (int i = 0; i < OTHERS; i++) pthread_join(others[i], NULL);
  return 0;
}

// The child's only thread can take the lock, whatever the others were doing.
static int fork_run(void) {
  pthread_t others[OTHERS];
  atomic_store(&self.go, 1);
  tc_biased_lock_begin(&self.lock);
  for (int i = 0; i < OTHERS; i++)
    if (pthread_create(&others[i], NULL, other_main, NULL) != 0) return 1;
  tc_biased_lock_fork(&self.lock);
  pid_t child = fork();
  tc_biased_unlock_fork(&self.lock, child == 0);
  if (child == 0) {
    alarm(10);
    for (int i = 0; i < OWN; i++) {
      tc_biased_lock_own(&self.lock);
      visit();
      tc_biased_unlock_own(&self.lock);
    }
    _exit(self.n_overlaps != 0);
  }
  for (int i = 0; i < OTHERS; i++) pthread_join(others[i], NULL);
  int status = 1;
  return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

static void *seldom_main(void *arg) {
  for (int i = 0; i < EACH; i++) {
    tc_biased_lock_other(&self.lock);
    visit();
    tc_biased_unlock_other(&self.lock);
    usleep(200);
  }
  atomic_store((atomic_bool *)arg, true);
  return NULL;
}

// An owner that takes the lock all the time lets the other in: it takes it a few times more while
// that waits, not thousands.
static int owner_gives_way(void) {
  pthread_t other;
  atomic_bool done = false;
  int n_before_other = 0;
  if (pthread_create(&other, NULL, seldom_main, &done) != 0) return 1;
  while (!atomic_load(&done)) {
    n_before_other += atomic_load(&self.lock.n_waiting) != 0;
    tc_biased_lock_own(&self.lock);
    visit();
    for (volatile int i = 0; i < WORK; i++) continue;
    tc_biased_unlock_own(&self.lock);
  }
  pthread_join(other, NULL);
  if (n_before_other > EACH * 20)
    printf("the owner took the lock %d times while the other waited %d times\n", n_before_other, EACH);
  return n_before_other > EACH * 20;
}

int main(void) {
  int n_bad = 0;
  tc_biased_lock_init(&self.lock);
  tc_biased_lock_begin(&self.lock);
  for (int i = 0; i < ROUNDS; i++) n_bad += round_run(i * 7);
  long want = (long)ROUNDS * (OWN + OTHERS * EACH);
  if (self.count != want || self.n_overlaps)
    printf("%ld visits, %d of them not alone; %ld were made\n", self.count, self.n_overlaps, want), n_bad++;
  n_bad += owner_gives_way();
  for (int i = 0; i < 50; i++) n_bad += fork_run();
  if (n_bad) printf("%d rounds failed\n", n_bad);
  tc_biased_lock_fini(&self.lock);
  return n_bad != 0;
}
