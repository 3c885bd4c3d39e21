// Kernels of every kind through the vendors' compilers: NVRTC for sm_80, sm_90, sm_90a, sm_100 and
// sm_120, or, with TC_TEST_COMPILER=clang, clang for gfx906, gfx908, gfx90a, gfx942, gfx1030 and
// gfx1100. Each works in registers alone, but those that tests/compiled.c excuses, fits the device,
// and has the instructions that it is meant to have. Compiled only: no GPU is used.
//
// The kernels are those that the library makes for the simulated device, which is told not to run
// them (TC_SIM_IDLE) and to keep their texts (TC_SIM_KEEP). Of each kind (kinds.h) one architecture
// has one piece of work, by turns; with TC_TEST_ALL=1, as ./dev soak has it, all.
//
//   gpu-compiled DIR      every text in a directory that TC_SIM_KEEP named, for every architecture that takes it, by as many processes as there are cores
//   gpu-compiled --open   whether the compiler is there
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "device/cuda/nvrtc.h"
#include "runtime/arena.h"
#include "runtime/options.h"
#include "tests/compiled.h"
#include "tests/child.h"
#include "tests/files/files.h"
#include "tests/gpu/kinds.h"
#include "tests/sim/built.h"

// ---- what was found, by all processes ----

typedef struct totals {
  atomic_int texts, kernels[N_CODE_ARCHS], excused[N_CODE_ARCHS], registers[N_CODE_ARCHS], wrong;
} totals;

static totals *sum;

static void add_most(atomic_int *most, int value) {
  int now = atomic_load(most);
  while (now < value && !atomic_compare_exchange_weak(most, &now, value)) {
  }
}

static void compile(int arch, const char *what, const char *source, const char *words, unsigned *found) {
  compiled c;
  bool good = compile_text(&code_archs[arch], source, words, found, &c);
  atomic_fetch_add(&sum->kernels[arch], 1);
  if (c.excuse)
    atomic_fetch_add(&sum->excused[arch], 1),
        printf("%s for %s: %d bytes of stack: %s\n", c.kernel, code_archs[arch].name, c.stack, c.excuse);
  add_most(&sum->registers[arch], c.registers);
  if (!good) atomic_fetch_add(&sum->wrong, 1), printf("%s: %s\n", what, c.why), fflush(stdout);
}

static void report(int from, int to) {
  for (int i = from; i < to; i++)
    printf("compiled for %s by %s: %d kernels, %d of them with a stack, which they may have; %d registers at most\n",
           code_archs[i].name, compiled_by(code_archs[i].amd), sum->kernels[i], sum->excused[i], sum->registers[i]);
}

// To be freed; NULL: it cannot be read.
static char *text_of(const char *path) {
  file_bytes b = file_read(path);
  EXPECT(b.at != NULL, "%s cannot be read", path);
  if (b.at) b.at[b.n] = 0;
  return (char *)b.at;
}

// Each text of a directory that is wanted: its number in the order of names, its path, and what it
// was made for.
typedef void each_text(void *arg, int number, const char *path, const char *made_for);

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int texts_in(const char *dir, each_text *each, void *arg) {
  struct dirent **entry;
  int n = scandir(dir, &entry, NULL, by_name), texts = 0;
  for (int i = 0; i < n; i++) {
    char path[1024];
    const char *made_for = strchr(entry[i]->d_name, '.');
    if (entry[i]->d_name[0] != '.' && made_for && !strchr(made_for + 1, '.')) {
      snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
      each(arg, texts++, path, made_for + 1);
    }
    free(entry[i]);
  }
  if (n >= 0) free(entry);
  return texts;
}

// The real one; a process has one NVRTC, real or simulated.
static void open_compiler(bool amd) {
  char why[320];
  EXPECT(compiled_open(amd, why, sizeof why), "%s", why);
}

static int is_there(const void *arg) {
  const bool *amd = arg;
  char why[320];
  if (compiled_open(*amd, why, sizeof why)) return 0;
  printf("skipped: %s: nothing was compiled for %s\n", why, *amd ? "AMD's GPUs" : "NVIDIA's GPUs");
  return 77;
}

// ---- what a compiler may not do ----

// A wide load stays behind the branch that asks whether its address is aligned, though nothing in
// the loop changes that: the mark is in that branch.
static void check_guard(const code_arch *a) {
  static const char source[] =
      "#include \"tc_words.h\"\n"
      "TC_KERNEL(guarded, 32) {\n"
      "  const f32 *const from = (const f32 *)tc_global(tc_table[0]);\n"
      "  f32 *const to = (f32 *)tc_global(tc_table[1]);\n"
      "  const i64 at = (i64)tc_table[2] * 3, n = (i64)tc_table[3];\n"
      "  for (i64 i = 0; i < n; i++) {\n"
      "    f32 first = 0.0f, last = 0.0f;\n"
      "    if (TC_THREAD < 8 && (at & 3) == 0) {\n"
      "      asm volatile(\"// is aligned\");\n"
      "      const tc_u32x4 w = tc_load_nc_16(from + at);\n"
      "      first = tc_f32_bits(w.x), last = tc_f32_bits(w.w);\n"
      "    } else {\n"
      "      first = from[at], last = from[at + 3];\n"
      "    }\n"
      "    to[i] = first + last;\n"
      "  }\n"
      "}\n";
  tc_gpu_image image = {NULL, 0};
  char target[32];
  snprintf(target, sizeof target, "compute_%s", a->name + 3);
  EXPECT_OK(tc_nvrtc_compile(target, "guarded", source, &image));
  if (!image.data) return;
  const char *load = strstr(image.data, "ld.global.nc.v4"), *mark = strstr(image.data, "is aligned");
  EXPECT(load && mark && mark < load, "for %s a wide load is before the branch that guards it", a->name);
  tc_free(image.data);
}

// ---- the sample ----

typedef struct turn {
  int arch;
  const char *root;
} turn;

// Each kind is one architecture's, by turns; of its samples the first or the second, by turns, too.
static bool taken(int sample, int arch) {
  const bool amd = code_archs[arch].amd;
  int first = sample, end = sample, number = amd ? arch - N_NVIDIA : arch, n = amd ? N_CODE_ARCHS - N_NVIDIA : N_NVIDIA,
      kind = 0;
  while (first > 0 && strcmp(gpu_kinds[first - 1].kind, gpu_kinds[sample].kind) == 0) first--;
  while (end < n_gpu_kinds && strcmp(gpu_kinds[end].kind, gpu_kinds[sample].kind) == 0) end++;
  for (int i = 1; i <= first; i++) kind += strcmp(gpu_kinds[i].kind, gpu_kinds[i - 1].kind) != 0;
  return getenv("TC_TEST_ALL") || ((number + kind) % n == 0 && sample - first == (end - first > 1 ? kind % 2 : 0));
}

static void directory_of(char *out, size_t bytes, const turn *t, int sample) {
  snprintf(out, bytes, "%s/%s-%d", t->root, code_archs[t->arch].name, sample);
}

// In a process of its own: has the library make the kernels.
static int make_texts(const void *arg) {
  const turn *t = arg;
  const code_arch *a = &code_archs[t->arch];
  setenv("TC_CACHE_BYTES", "0", 1);
  setenv("TC_GPU_LIBRARIES", "never", 1);
  setenv("TC_SIM_IDLE", "1", 1);
  setenv(a->amd ? "TC_SIM_GFX" : "TC_SIM_ARCH", a->simulated, 1);
  if (!built_simulators()) return 77;
  tc_options_reload();
  EXPECT_OK(tc_set_default_device(a->amd ? "tc:hip" : "tc:cuda"));
  for (int i = 0; i < n_gpu_kinds; i++) {
    char dir[256];
    if (!taken(i, t->arch)) continue;
    directory_of(dir, sizeof dir, t, i);
    EXPECT(mkdir(dir, 0700) == 0, "%s", dir);
    tc_scope s = tc_scope_begin();
    tc_clear_error();
    gpu_kind_make(&gpu_kinds[i], dir);
    EXPECT(tc_last_error()->status == TC_OK, "%s, %s", gpu_kinds[i].kind, gpu_kinds[i].name);
    tc_scope_end(s);
  }
  tc_shutdown();
  return child_failed();
}

typedef struct found_words {
  const turn *t;
  const gpu_kind *kind;
  const char *words;
  unsigned found;
} found_words;

static void compile_sample(void *arg, int number, const char *path, const char *made_for) {
  found_words *x = arg;
  char *source = text_of(path), what[160];
  snprintf(what, sizeof what, "%s, %s, text %d for %s", x->kind->kind, x->kind->name, number, made_for);
  if (source) compile(x->t->arch, what, source, x->words, &x->found);
  free(source);
}

static void check_sample(const turn *t, int sample) {
  const code_arch *a = &code_archs[t->arch];
  found_words x = {t, &gpu_kinds[sample], a->amd ? gpu_kinds[sample].amd : gpu_kinds[sample].nvidia, 0};
  char dir[256], word[128];
  if (a->mfma && x.kind->mfma) x.words = x.kind->mfma;
  directory_of(dir, sizeof dir, t, sample);
  int n = texts_in(dir, compile_sample, &x);
  EXPECT(n > 0, "%s, %s: no kernel for %s", x.kind->kind, x.kind->name, a->name);
  EXPECT(!compiled_lacks(x.words, x.found, word, sizeof word), "%s, %s: no %s in the code for %s", x.kind->kind,
         x.kind->name, word, a->name);
  atomic_fetch_add(&sum->texts, n);
}

static int check_kinds(int from, int to) {
  char root[] = "/tmp/tc-compiled-XXXXXX", command[64];
  EXPECT(mkdtemp(root) != NULL, "%s", root);
  for (int arch = from; arch < to; arch++) {
    int status = child_status(make_texts, &(turn){arch, root});
    if (status == 77) return printf("skipped: the simulated driver is not built\n"), 77;
    EXPECT(status == 0, "the kernels for %s were not made: %d", code_archs[arch].name, status);
  }
  open_compiler(code_archs[from].amd);
  for (int arch = from; arch < to; arch++)
    if (!code_archs[arch].amd) check_guard(&code_archs[arch]);
  for (int arch = from; arch < to; arch++)
    for (int i = 0; i < n_gpu_kinds; i++)
      if (taken(i, arch)) check_sample(&(turn){arch, root}, i);
  snprintf(command, sizeof command, "rm -r %s", root);
  EXPECT(system(command) == 0, "%s", command);
  return 0;
}

// ---- all that was kept ----

typedef struct share {
  const char *dir;
  int from, to, number, of, seen;
} share;

// Texts of a name come one behind the other, and NVIDIA's are the same for all devices; AMD's are
// made for waves of 64 or 32.
static bool was_seen(const char *path, const char *made_for) {
  static char last[3][64];
  const char *name = strrchr(path, '/') + 1;
  int class = strncmp(made_for, "gfx", 3) != 0 ? 0 : strncmp(made_for, "gfx9", 4) == 0 ? 1 : 2;
  size_t n = strcspn(name, ".");
  if (strncmp(last[class], name, n) == 0 && !last[class][n]) return true;
  snprintf(last[class], sizeof last[class], "%.*s", (int)n, name);
  return false;
}

static void compile_kept(void *arg, int number, const char *path, const char *made_for) {
  share *s = arg;
  (void)number;
  if (was_seen(path, made_for) || s->seen++ % s->of != s->number) return;
  char *source = text_of(path);
  bool any = false;
  for (int arch = s->from; source && arch < s->to; arch++) {
    if (!compiled_takes(&code_archs[arch], made_for, source)) continue;
    compile(arch, path, source, NULL, NULL);
    any = true;
  }
  if (any) atomic_fetch_add(&sum->texts, 1);
  free(source);
}

static int compile_share(const void *arg) {
  share s = *(const share *)arg;
  texts_in(s.dir, compile_kept, &s);
  return child_failed();
}

static int check_kept(const char *dir, int from, int to) {
  const int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
  open_compiler(code_archs[from].amd);
  fflush(NULL);
  for (int i = 0; i < n; i++) {
    const share s = {dir, from, to, i, n, 0};
    if (fork() == 0) _exit(compile_share(&s));
  }
  for (int i = 0, status; i < n; i++) {
    EXPECT(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process of them failed");
  }
  EXPECT(access(dir, R_OK) == 0, "%s cannot be read", dir);
  if (sum->texts > 0 || child_failed()) return 0;
  printf("skipped: %s has no text for %s\n", dir, code_archs[from].amd ? "AMD's GPUs" : "NVIDIA's GPUs");
  return 77;
}

int main(int argc, char **argv) {
  const char *compiler = getenv("TC_TEST_COMPILER");
  const bool amd = compiler && strcmp(compiler, "clang") == 0;
  const int from = amd ? N_NVIDIA : 0, to = amd ? N_CODE_ARCHS : N_NVIDIA;
  int status = child_status(is_there, &amd);
  if (status != 0 || (argc > 1 && strcmp(argv[1], "--open") == 0)) return status;
  sum = mmap(NULL, sizeof *sum, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (sum == MAP_FAILED) return 1;
  status = argc > 1 ? check_kept(argv[1], from, to) : check_kinds(from, to);
  if (status != 0) return status;
  printf("%d texts of kernels\n", sum->texts);
  report(from, to);
  EXPECT(sum->wrong == 0, "%d kernels are wrong", sum->wrong);
  return expect_done("gpu-compiled");
}
