// Reads /proc/meminfo and the files of cgroups. See mem_available.h.
#include "runtime/mem_available.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cgroup.h"
#include "runtime/status.h"

#define UNLIMITED 9e18  // v1 states no limit as the largest multiple of a page

// Returns the number after `name` in a file of lines "name value"; a negative value means that
// there is none.
static double line_of(const char *path, const char *name, char end) {
  char line[256], format[64];
  double value = -1;
  FILE *f = fopen(path, "re");
  if (!f) return -1;
  snprintf(format, sizeof format, "%s%c %%lf", name, end);
  while (value < 0 && fgets(line, sizeof line, f))
    if (sscanf(line, format, &value) != 1) value = -1;
  fclose(f);
  return value;
}

// Returns what is left of a cgroup's limit. Cached file pages that can be dropped count as used
// there; they are added back.
static double dir_available(const char *dir) {
  char limit[64], used[64], path[1200];
  bool second = tc_first_line(dir, "memory.max", limit, sizeof limit);
  if (!second && !tc_first_line(dir, "memory.limit_in_bytes", limit, sizeof limit)) return -1;
  if (!tc_first_line(dir, second ? "memory.current" : "memory.usage_in_bytes", used, sizeof used)) return -1;
  double most = limit[0] == 'm' ? UNLIMITED : strtod(limit, NULL);
  if (most >= UNLIMITED) return -1;
  snprintf(path, sizeof path, "%s/memory.stat", dir);
  double files = line_of(path, second ? "inactive_file" : "total_inactive_file", ' ');
  return TC_MAX_OF(most - strtod(used, NULL) + TC_MAX_OF(files, 0), 0);
}

size_t tc_mem_available(const char *root) {
  char path[1024];
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  double room = 1024 * line_of(path, "MemAvailable", ':'), left = tc_cgroup_least(root, "memory", dir_available);
  if (room < 0 || (left >= 0 && left < room)) room = left;
  return room < 0 || room >= (double)(SIZE_MAX / 2) ? SIZE_MAX : (size_t)room;
}
