// NVTX, or, with SIM_ROCTX, ROCTX: the ranges of one thread are kept as text, "(outer(inner))", for
// a test to look at. One that ends more ranges than it began gives "!". Threads: thread-compatible.
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef SIM_ROCTX
#define PUSH roctxRangePushA
#define POP roctxRangePop
#else
#define PUSH nvtxRangePushA
#define POP nvtxRangePop
#endif

EXPORT int PUSH(const char *text);
EXPORT int POP(void);
EXPORT const char *sim_ranges(void);
EXPORT void sim_ranges_forget(void);

static char kept[1 << 16];
static int depth;

static void keep(const char *what, const char *text) {
  size_t n = strlen(kept);
  snprintf(kept + n, sizeof kept - n, "%s%s", what, text);
}

int PUSH(const char *text) {
  keep("(", text);
  return depth++;
}

int POP(void) {
  keep(depth > 0 ? ")" : "!", "");
  return depth > 0 ? --depth : -1;
}

const char *sim_ranges(void) {
  return kept;
}

void sim_ranges_forget(void) {
  kept[0] = 0;
}
