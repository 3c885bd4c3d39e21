// Walks /proc/self/cgroup and the directories that it names. See cgroup.h.
#include "runtime/cgroup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024

bool tc_first_line(const char *dir, const char *name, char *out, size_t bytes) {
  char path[PATH_BYTES + 64];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  bool got = fgets(out, (int)bytes, f) != NULL;
  fclose(f);
  return got;
}

// Returns the smallest value of base/path and its ancestors down to base. A path that does not
// exist here, such as the host's seen from a container, ends at base too.
static double least_of_path(const char *base, const char *path, tc_cgroup_says *says, double least) {
  char dir[PATH_BYTES];
  size_t base_length = strlen(base);
  // "/.." is a cgroup outside our namespace: only the mount itself is visible.
  snprintf(dir, sizeof dir, "%s%s", base, strncmp(path, "/..", 3) == 0 ? "" : path);
  for (;;) {
    double said = says(dir);
    if (said >= 0 && (least < 0 || said < least)) least = said;
    char *slash = strrchr(dir, '/');
    if (!slash || (size_t)(slash - dir) < base_length) return least;
    *slash = 0;
  }
}

static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == length && memcmp(at, word, length) == 0) return true;
  return false;
}

// Lines have the form "id:controllers:path". A line without controllers is v2, which a hybrid
// system mounts at unified/.
double tc_cgroup_least(const char *root, const char *controller, tc_cgroup_says *says) {
  char line[PATH_BYTES], base[PATH_BYTES + 512];
  double least = -1;
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *f = fopen(line, "re");
  if (!f) return least;
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    controllers++;
    if (strcmp(path, "/") == 0) path[0] = 0;
    if (*controllers == 0) {
      snprintf(base, sizeof base, "%s/sys/fs/cgroup", root);
      least = least_of_path(base, path, says, least);
      snprintf(base, sizeof base, "%s/sys/fs/cgroup/unified", root);
      least = least_of_path(base, path, says, least);
    } else if (has_word(controllers, controller)) {
      snprintf(base, sizeof base, "%s/sys/fs/cgroup/%s", root, controller);
      if (access(base, F_OK) != 0) snprintf(base, sizeof base, "%s/sys/fs/cgroup/%.256s", root, controllers);
      least = least_of_path(base, path, says, least);
    }
  }
  fclose(f);
  return least;
}
