// The simulated compilers' one compiler. What the simulator runs itself (code.h) is only looked at.
// Else it is the host's: -fsanitize=thread makes it call the simulator before every access; only an
// object file is made, which object.c loads, for linking would take half as long again.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/code.h"
#include "tests/sim/image.h"

extern char **environ;

enum { MAX_ARGS = 32, PATH_BYTES = 512, VERSION = 2 };

static const char *const common_args[] = {
    "-x",
    "c",
    "-std=gnu11",
    "-O1",
    "-g1",
    "-fPIC",
    "-fsanitize=thread",
#ifndef __clang__
    "--param=tsan-instrument-func-entry-exit=0",
#endif
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
#ifndef __clang__
    "-fno-tree-sra",  // a vector is read and written whole, as a device does
#endif
    // What C++ and the other compilers of kernels would not take is an error here, too.
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
    "-Werror=c++-compat",
    "-Werror=return-type",
    "-Wno-psabi",
    "-c",
};

static const char *compiler(void) {
  const char *cc = getenv("TC_SIM_CC");
  return cc && *cc ? cc : "cc";
}

static const char *words_path(void) {
  const char *path = getenv("TC_SIM_WORDS");
  return path && *path ? path : SIM_WORDS;
}

// ---- files ----

static char *read_file(const char *path, size_t *out_bytes) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = NULL;
  fseek(f, 0, SEEK_END);
  long bytes = ftell(f);
  rewind(f);
  if (bytes >= 0 && (text = malloc((size_t)bytes + 1))) {
    *out_bytes = fread(text, 1, (size_t)bytes, f);
    text[*out_bytes] = 0;
  }
  fclose(f);
  return text;
}

static bool write_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(bytes, 1, n, f) == n;
  return (fclose(f) == 0) && good;
}

static bool cache_dir(char *out) {
  const char *set = getenv("TC_SIM_CACHE"), *tmp = getenv("TMPDIR");
  if (set && *set) {
    snprintf(out, PATH_BYTES, "%s", set);
  } else {
    snprintf(out, PATH_BYTES, "%s/tc-sim-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)getuid());
  }
  struct stat s;
  if (mkdir(out, 0700) != 0 && errno != EEXIST) return false;
  return stat(out, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == getuid();  // nobody else's code is run
}

// ---- compiling ----

// The source as the compiler gets it: the words' header by its path, lines numbered as in the
// original.
static char *prepared(const char *name, const char *source) {
  static const char include[] = "#include \"tc_words.h\"";
  const char *at = strstr(source, include);
  size_t bytes = strlen(source) + strlen(name) + PATH_BYTES + 64;
  char *text = malloc(bytes);
  if (!text) return NULL;
  if (at && (at == source || at[-1] == '\n')) {
    snprintf(text, bytes, "# 1 \"%s\"\n%.*s#include \"%s\"%s", name, (int)(at - source), source, words_path(),
             at + sizeof include - 1);
  } else {
    snprintf(text, bytes, "# 1 \"%s\"\n%s", name, source);
  }
  return text;
}

static bool has_mfma(const char *arch) {
  return strcspn(arch, ":") == 6 &&
         (strncmp(arch, "gfx908", 6) == 0 || strncmp(arch, "gfx90a", 6) == 0 || strncmp(arch, "gfx942", 6) == 0);
}

static bool run_compiler(const char *source_path, const char *object_path, const char *log_path, const char *arch,
                         int warp, bool contract) {
  const char *args[MAX_ARGS];
  char arch_arg[32], warp_arg[32];
  int n = 0;
  snprintf(arch_arg, sizeof arch_arg, "-DSIM_ARCH=%d", sim_arch_number(arch));
  snprintf(warp_arg, sizeof warp_arg, "-DSIM_WARP=%d", warp);
  args[n++] = compiler();
  for (size_t i = 0; i < sizeof common_args / sizeof *common_args; i++) args[n++] = common_args[i];
  // Contraction is a device's default; where it is not transposed off, it is shown here.
  args[n++] = contract ? "-ffp-contract=fast" : "-ffp-contract=off";
#ifdef __x86_64__
  if (contract) args[n++] = "-mfma";
#endif
  args[n++] = arch_arg;
  args[n++] = warp_arg;
  args[n++] = has_mfma(arch) ? "-DSIM_MFMA=1" : "-DSIM_MFMA=0";
  args[n++] = "-o";
  args[n++] = object_path;
  args[n++] = source_path;
  args[n] = NULL;
  posix_spawn_file_actions_t files;
  pid_t pid;
  int status = -1;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  if (posix_spawnp(&pid, args[0], &files, NULL, (char *const *)args, environ) == 0) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  posix_spawn_file_actions_destroy(&files);
  return status == 0;
}

static uint64_t key_of(const char *text, const char *arch, int warp, bool contract) {
  size_t n = 0;
  char *words = read_file(words_path(), &n), rest[128];
  snprintf(rest, sizeof rest, "%d %s %d %d %s %s", VERSION, arch, warp, contract, compiler(), __VERSION__);
  uint64_t key = sim_hash(text, strlen(text), sim_hash(rest, strlen(rest), sim_hash(words ? words : "", n, 0)));
  for (size_t i = 0; i < sizeof common_args / sizeof *common_args; i++)
    key = sim_hash(common_args[i], strlen(common_args[i]), key);
  free(words);
  return key;
}

// object NULL: none.
static sim_image *pack(const void *object, size_t bytes, const char *source, const char *arch) {
  size_t source_bytes = strlen(source);
  sim_image *image = malloc(sizeof *image + bytes + source_bytes);
  if (!image) return NULL;
  *image = (sim_image){.magic = SIM_IMAGE_MAGIC, .object_bytes = bytes, .source_bytes = source_bytes};
  snprintf(image->arch, sizeof image->arch, "%s", arch);
  if (object) memcpy(image + 1, object, bytes);
  memcpy((char *)(image + 1) + bytes, source, source_bytes);
  image->hash = sim_hash(image + 1, bytes + source_bytes, 0);
  return image;
}

static sim_image *cached(const char *path) {
  size_t n = 0;
  sim_image *image = (sim_image *)read_file(path, &n);
  if (image && n >= sizeof *image && memcmp(image->magic, SIM_IMAGE_MAGIC, 8) == 0 && sim_image_bytes(image) == n &&
      sim_hash(image + 1, n - sizeof *image, 0) == image->hash) {
    return image;
  }
  free(image);
  return NULL;
}

// Object file and log under names of this call, then what was made, under its own name at once.
static sim_image *make(const char *dir, const char *path, const char *text, const char *source, const char *arch,
                       int warp, bool contract, char **log) {
  static int calls;
  char base[PATH_BYTES + 64], source_path[PATH_BYTES + 80], object_path[PATH_BYTES + 80], log_path[PATH_BYTES + 80];
  snprintf(base, sizeof base, "%s/%d-%d", dir, (int)getpid(), __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED));
  snprintf(source_path, sizeof source_path, "%s.c", base);
  snprintf(object_path, sizeof object_path, "%s.o", base);
  snprintf(log_path, sizeof log_path, "%s.log", base);
  sim_image *image = NULL;
  size_t n;
  if (write_file(source_path, text, strlen(text)) &&
      run_compiler(source_path, object_path, log_path, arch, warp, contract)) {
    size_t bytes = 0;
    char *object = read_file(object_path, &bytes);
    if (object) image = pack(object, bytes, source, arch);
    free(object);
    if (image && write_file(base, image, sim_image_bytes(image))) rename(base, path);
  }
  *log = read_file(log_path, &n);
  unlink(source_path);
  unlink(object_path);
  unlink(log_path);
  return image;
}

static sim_image *compile(const char *name, const char *source, const char *arch, int warp, bool contract,
                          char **out_log) {
  char dir[PATH_BYTES], path[PATH_BYTES + 32];
  char *text = prepared(name, source);
  if (!text || !cache_dir(dir)) {
    free(text);
    *out_log = strdup("the simulated compiler has no directory for its files");
    return NULL;
  }
  snprintf(path, sizeof path, "%s/%016llx", dir, (unsigned long long)key_of(text, arch, warp, contract));
  sim_image *image = cached(path);
  if (!image) image = make(dir, path, text, source, arch, warp, contract, out_log);
  free(text);
  return image;
}

// Does the simulator run it itself? Not with contraction, nor where a compiler was named.
static bool is_understood(const char *source, const char *arch, int warp, bool contract) {
  const char *cc = getenv("TC_SIM_CC");
  sim_code *c = contract || (cc && *cc) ? NULL : sim_code_new(source, sim_arch_number(arch), warp);
  sim_code_free(c);
  return c != NULL;
}

sim_image *sim_compile(const char *name, const char *source, const char *arch, int warp, bool contract,
                       char **out_log) {
  *out_log = NULL;
  sim_image *image = is_understood(source, arch, warp, contract) ? pack(NULL, 0, source, arch)
                                                                 : compile(name, source, arch, warp, contract, out_log);
  if (!*out_log) *out_log = strdup(image ? "" : "the simulated compiler could not be run");
  return image;
}
