// fork for Criterion programs under the address sanitizer: it waits until every other thread of the
// process sleeps.
//
// Criterion forks a process for each test while a thread of its own listens to the others. The
// sanitizer's allocator is not prepared for fork (GCC 12): where that thread was just allocating,
// the child waits for its lock for ever.
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WAITS 2000  // of a millisecond

static bool sleeps(const char *thread) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  const char *name_end = strrchr(text, ')');
  return !name_end || strncmp(name_end, ") S", 3) == 0;
}

static bool others_sleep(void) {
  DIR *threads = opendir("/proc/self/task");
  bool all = true;
  for (struct dirent *d; threads && (d = readdir(threads));)
    if (d->d_name[0] != '.' && atoi(d->d_name) != gettid()) all = all && sleeps(d->d_name);
  if (threads) closedir(threads);
  return all;
}

pid_t fork(void) {
  pid_t (*real)(void);
  *(void **)&real = dlsym(RTLD_NEXT, "fork");
  for (int i = 0; i < MOST_WAITS && !others_sleep(); i++) usleep(1000);
  return real();
}
