// Mistakes that the simulated driver found, and errors that it was told to make.
// A mistake goes to stderr and to the file of TC_SIM_REPORT; one that nobody took back with
// sim_forget ends the process with status 86, so that a test which does not look fails, too.
// Criterion does not look at that status: for its tests TC_SIM_ABORT=1 makes the first mistake the
// end.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/core.h"

enum { TEXT_BYTES = 1024, KEPT_BYTES = 8192, MAX_SEEN = 256, MAX_RULES = 16, MAX_NAMES = 256, STATUS = 86 };

static int n_faults;
static char kept[KEPT_BYTES];  // a line for each
static uint64_t seen[MAX_SEEN];
static int n_seen;

void sim_fault(uint64_t key, const char *format, ...) {
  __atomic_add_fetch(&n_faults, 1, __ATOMIC_RELAXED);
  for (int i = 0; key && i < n_seen; i++) {
    if (seen[i] == key) return;
  }
  if (key && n_seen < MAX_SEEN) seen[n_seen++] = key;
  char text[TEXT_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  size_t n = strlen(kept);
  snprintf(kept + n, sizeof kept - n, "%s\n", text);
  fprintf(stderr, "simulated GPU: %s\n", text);
  const char *path = getenv("TC_SIM_REPORT");
  FILE *f = path && *path ? fopen(path, "a") : NULL;
  if (f) {
    fprintf(f, "%s\n", text);
    fclose(f);
  }
  const char *end = getenv("TC_SIM_ABORT");
  if (end && strcmp(end, "1") == 0) abort();
}

int sim_faults(void) {
  return __atomic_load_n(&n_faults, __ATOMIC_RELAXED);
}

const char *sim_fault_text(void) {
  return kept;
}

void sim_forget(void) {
  n_seen = 0;
  kept[0] = 0;
  __atomic_store_n(&n_faults, 0, __ATOMIC_RELAXED);
}

// Runs after the destructors that look for leaks, whose priority is lower.
__attribute__((destructor(101))) static void fail_process(void) {
  if (!sim_faults()) return;
  fprintf(stderr, "simulated GPU: %d mistakes\n", sim_faults());
  fflush(NULL);
  _exit(STATUS);
}

// ---- errors to make ----

enum { EVERY = 0, SPENT = -1 };
static struct rule {
  char name[64];
  long at;  // from now on, 1 is the next; EVERY; SPENT
  int code;
  bool sticky;
} rules[MAX_RULES];
static int n_rules;

static struct count {
  const char *name;  // of literals
  uint64_t n;
} counts[MAX_NAMES];
static int n_counts;

// cuMemAlloc stands for cuMemAlloc_v2, too; * for every call that asks for something of a device.
static bool names(const char *rule, const char *name) {
  if (strcmp(rule, "*") == 0) return true;
  size_t n = strlen(rule);
  return strncmp(rule, name, n) == 0 &&
         (name[n] == 0 || (name[n] == '_' && name[n + 1] == 'v' && strlen(name + n) == 3));
}

static bool parse(const char *text, size_t n, struct rule *out) {
  char copy[128], sign = 0, at[16];
  if (n >= sizeof copy) return false;
  memcpy(copy, text, n);
  copy[n] = 0;
  int got = sscanf(copy, "%63[^:]:%15[^=]=%d%c", out->name, at, &out->code, &sign);
  out->sticky = sign == '!';
  out->at = at[0] == '*' ? EVERY : atol(at);
  return got >= 3 && (got == 3 || sign == '!') && (at[0] == '*' || out->at > 0);
}

bool sim_fail(const char *spec) {
  n_rules = 0;
  while (spec && *spec) {
    size_t n = strcspn(spec, ",");
    if (n_rules == MAX_RULES || !parse(spec, n, &rules[n_rules])) return false;
    n_rules++;
    spec += n + (spec[n] == ',');
  }
  return true;
}

sim_error sim_injected(const char *name, bool *sticky) {
  int i = 0;
  while (i < n_counts && strcmp(counts[i].name, name) != 0) i++;
  if (i == n_counts && n_counts < MAX_NAMES) counts[n_counts++] = (struct count){name, 0};
  if (i < n_counts) counts[i].n++;
  for (struct rule *r = rules; r < rules + n_rules; r++) {
    if (r->at == SPENT || !names(r->name, name)) continue;
    if (r->at != EVERY) {
      if (--r->at > 0) continue;
      r->at = SPENT;
    }
    *sticky = r->sticky;
    return (sim_error)r->code;
  }
  return SIM_OK;
}

uint64_t sim_calls(const char *name) {
  uint64_t n = 0;
  sim_lock();
  for (int i = 0; i < n_counts; i++) n += names(name, counts[i].name) ? counts[i].n : 0;
  sim_unlock();
  return n;
}
