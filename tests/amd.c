// Source and words go to files of a directory of their own, the assembly comes through a pipe. See
// amd.h.
#include "tests/amd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool put_file(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  bool good = fputs(text, f) >= 0;
  return fclose(f) == 0 && good;
}

static char *output_of(const char *command, bool *out_ok) {
  char *text = NULL, piece[4096];
  size_t bytes, n;
  FILE *from = popen(command, "r"), *to = from ? open_memstream(&text, &bytes) : NULL;
  while (to && (n = fread(piece, 1, sizeof piece, from)) > 0) fwrite(piece, 1, n, to);
  if (to) fclose(to);
  *out_ok = from && pclose(from) == 0;
  return text;
}

char *amd_assembly(const char *compiler, const char *arch, const char *words, const char *source, bool *out_ok) {
  char dir[] = "/tmp/tc-amd-XXXXXX", words_path[64], source_path[64], command[512], *text = NULL;
  *out_ok = false;
  if (!mkdtemp(dir)) return NULL;
  snprintf(words_path, sizeof words_path, "%s/tc_words.h", dir);
  snprintf(source_path, sizeof source_path, "%s/kernel.hip", dir);
  snprintf(
      command, sizeof command,
      "%.100s -x hip --offload-arch=%.32s --cuda-device-only -nogpulib -nogpuinc --no-gpu-bundle-output -S -O3 -ffp-contract=off -o - %s 2>&1",
      compiler, arch, source_path);
  if (put_file(words_path, words) && put_file(source_path, source)) text = output_of(command, out_ok);
  unlink(words_path);
  unlink(source_path);
  rmdir(dir);
  return text;
}

bool amd_is_lean(const char *assembly, char *why, size_t bytes) {
  // Of kernels with many operands, or a condition a lane, clang puts some scalar registers aside,
  // in lanes of a vector register: no memory is touched.
  static const struct {
    const char *name;
    long most;
  } facts[] = {{".private_segment_fixed_size:", 0}, {".vgpr_spill_count:", 0}, {".sgpr_spill_count:", 32}};
  static const char *const none[] = {"\tscratch_", "\tbuffer_load", "\tbuffer_store", "\tflat_"};
  if (strstr(assembly, ".uses_dynamic_stack: true")) return true;
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    const char *at = strstr(assembly, facts[i].name);
    if (at && strtol(at + strlen(facts[i].name), NULL, 10) <= facts[i].most) continue;
    snprintf(why, bytes, "%.*s", at ? (int)strcspn(at, "\n") : 40, at ? at : "it does not say what it uses");
    return false;
  }
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    const char *at = strstr(assembly, none[i]);
    if (!at) continue;
    snprintf(why, bytes, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return false;
  }
  return true;
}
