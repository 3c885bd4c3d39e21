// Fusion plans of traces: which nodes each kernel has, and why not more (TC_LOG=fusion).
#include "tests/lowering/cases.h"

static void write_kernels(const char *message, FILE *out) {
  const char *end = strchr(message, '\n');  // the first line names the plan by its hash
  if (end) fprintf(out, "%s\n", end + 1);
}

int main(int argc, char **argv) {
  return cases_main(argc, argv, &(cases){"fusion", "tests/lowering/fusion", write_kernels});
}
