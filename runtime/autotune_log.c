// A table by name with a fixed number of rows. See autotune_log.h.
#include "runtime/autotune_log.h"

#include <pthread.h>
#include <string.h>

#include "runtime/fork.h"

#define MOST 256
#define NAME 160

static struct {
  pthread_mutex_t lock;
  struct {
    char what[NAME];
    const char *winner, *other;
    uint64_t winner_ns, other_ns;
  } at[MOST];  // entries beyond these appear in the log alone
  int n;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 8)

void tc_autotune_log_add(const char *what, const char *winner, uint64_t winner_ns, const char *other,
                         uint64_t other_ns) {
  pthread_mutex_lock(&self.lock);
  int i = 0;
  while (i < self.n && strncmp(self.at[i].what, what, NAME - 1) != 0) i++;
  if (i < MOST) {
    snprintf(self.at[i].what, NAME, "%s", what);
    self.at[i].winner = winner, self.at[i].winner_ns = winner_ns;
    self.at[i].other = other, self.at[i].other_ns = other_ns;
    if (i == self.n) self.n++;
  }
  pthread_mutex_unlock(&self.lock);
}

int tc_autotune_log_count(void) {
  pthread_mutex_lock(&self.lock);
  int n = self.n;
  pthread_mutex_unlock(&self.lock);
  return n;
}

void tc_autotune_log_print(FILE *out) {
  pthread_mutex_lock(&self.lock);
  if (self.n) fprintf(out, "%-10s %10s %10s %8s  %s\n", "won by", "us", "other us", "ratio", "product");
  for (int i = 0; i < self.n; i++)
    fprintf(out, "%-10s %10.1f %10.1f %8.2f  %s; other: %s\n", self.at[i].winner, (double)self.at[i].winner_ns * 1e-3,
            (double)self.at[i].other_ns * 1e-3,
            (double)self.at[i].other_ns / (double)(self.at[i].winner_ns ? self.at[i].winner_ns : 1), self.at[i].what,
            self.at[i].other);
  pthread_mutex_unlock(&self.lock);
}
