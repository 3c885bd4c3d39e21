// Programs of traces: steps in their stages, what each reads and writes, what is written in place,
// and where temporaries lie (TC_LOG=plan).
#include <ctype.h>

#include "tests/lowering/cases.h"

// The hash of a kernel's name, which is of its code, is left out: the four digits behind its last
// underscore.
static void write_line(const char *line, size_t n, FILE *out) {
  for (size_t i = 0; i < n; i++) {
    size_t digits = 0;
    while (line[i] == '_' && i + 1 + digits < n && isxdigit((unsigned char)line[i + 1 + digits])) digits++;
    bool is_hash = digits == 4 && (i + 5 == n || line[i + 5] == ' ');
    if (is_hash)
      i += digits;
    else
      fputc(line[i], out);
  }
  fputc('\n', out);
}

static void write_program(const char *message, FILE *out) {
  const char *line = strchr(message, ':'), *end = line ? strchr(line, '\n') : NULL;
  if (!end || !memmem(line, (size_t)(end - line), " steps, ", 8)) return;
  for (line += 2; line; line = end ? end + 1 : NULL) {
    end = strchr(line, '\n');
    size_t n = end ? (size_t)(end - line) : strlen(line);
    if (n) write_line(line, n, out);
  }
}

int main(int argc, char **argv) {
  return cases_main(argc, argv, &(cases){"plan", "tests/lowering/program", write_program});
}
