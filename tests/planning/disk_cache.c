// Kernels of the processor on disk, from process to process: a second one compiles nothing, opens
// no compiler and has the same bits; what is damaged, of another compiler, instruction set or
// kernel is compiled again; no directory can do harm; a process without a compiler interprets,
// whatever is on disk. Each process is this program again: kernels_kept use WAY. In sanitized
// builds, too: no loader of a sanitizer's own opens what the program does not.
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tc/tc.h>
#include <unistd.h>

#include "lowering/target/cpu_target.h"
#include "tests/expect.h"
#include "tests/files/files.h"

enum { N_VALUES = 5, N_THREADS = 4 };

// What a process tells of itself.
typedef struct told {
  float value[N_VALUES];
  unsigned long long compiles, misses;
  int n_warnings, opened;  // the compiler
  char tier[16];
} told;

// ---- the process ----

static atomic_int n_warnings;

// On a machine with other work, a compile may take long; that is told, and is no mistake.
static void count_line(const char *line, void *arg) {
  (void)arg;
  if (strncmp(line, "tc[warn]", 8) == 0 && !strstr(line, " takes long: ")) atomic_fetch_add(&n_warnings, 1);
}

// Plans of several kernels each.
static void use(float value[N_VALUES]) {
  tc_scope s = tc_scope_begin();
  tc_tensor x = tc_reshape(tc_sin(tc_arange(0, 33 * 40, 1, TC_F32)), TC_SHAPE(33, 40)),
            w = tc_reshape(tc_cos(tc_arange(0, 40 * 9, 1, TC_F32)), TC_SHAPE(40, 9));
  tc_tensor y = tc_softmax(tc_matmul(x, w), 1);
  const tc_tensor all[N_VALUES] = {tc_sum(tc_exp(x), TC_ALL, false), tc_max(tc_softmax(x, 1), TC_ALL, false),
                                   tc_sum(tc_mul(y, y), TC_ALL, false), tc_sum(tc_cumsum(tc_relu(w), 0), TC_ALL, false),
                                   tc_sum(tc_tanh(tc_sum(x, TC_AXES(0), false)), TC_ALL, false)};
  for (int i = 0; i < N_VALUES; i++) EXPECT_OK(tc_item_f32(all[i], &value[i]));
  tc_scope_end(s);
}

static void *use_again(void *arg) {
  float want[N_VALUES], got[N_VALUES];
  memcpy(want, arg, sizeof want);
  for (int k = 0; k < 5; k++) {
    tc_cache_clear();
    use(got);
    EXPECT(memcmp(got, want, sizeof got) == 0, "a thread has other bits");
  }
  return NULL;
}

static void use_in_threads(float value[N_VALUES]) {
  pthread_t t[N_THREADS];
  for (int i = 0; i < N_THREADS; i++) EXPECT(pthread_create(&t[i], NULL, use_again, value) == 0, "no thread");
  for (int i = 0; i < N_THREADS; i++) pthread_join(t[i], NULL);
}

static void use_in_fork(float value[N_VALUES]) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    use_again(value);
    _exit(atomic_load(&expect_n_failed) != 0);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0, "the child of a fork: %x", (unsigned)status);
}

static int be_used(const char *way) {
  told t = {0};
  tc_sync_point point = {0};
  tc_set_log(count_line, NULL);
  if (strcmp(way, "full") == 0) EXPECT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){2000, 2000}) == 0, "no limit");
  use(t.value);
  (void)tc_sync_points(1, &point);
  if (strcmp(way, "threads") == 0) use_in_threads(t.value);
  if (strcmp(way, "fork") == 0) use_in_fork(t.value);
  tc_cache_info c = tc_cache_stats();
  for (int i = 0; i < N_VALUES; i++) printf("%a ", (double)t.value[i]);
  printf("%llu %llu %d %d %s\n", (unsigned long long)c.compiles, (unsigned long long)c.kernel_misses,
         atomic_load(&n_warnings), is_mapped("libtc-"), point.tier);
  return atomic_load(&expect_n_failed) != 0;
}

// ---- those that start it ----

static char self[512];

static FILE *start(const char *program, const char *settings, const char *dir, const char *way) {
  char command[1600];
  snprintf(command, sizeof command, "env -u TC_CACHE_BYTES TC_CACHE_DIR='%s' %s '%s' use %s", dir, settings, program,
           way);
  return popen(command, "r");
}

static told finish(FILE *f) {
  told t = {.compiles = 99};
  float *v = t.value;
  EXPECT(f && fscanf(f, "%a %a %a %a %a %llu %llu %d %d %15s", &v[0], &v[1], &v[2], &v[3], &v[4], &t.compiles,
                     &t.misses, &t.n_warnings, &t.opened, t.tier) == 10,
         "a process told nothing");
  if (f) EXPECT(pclose(f) == 0, "a process failed");
  return t;
}

static told run(const char *settings, const char *dir) {
  return finish(start(self, settings, dir, "once"));
}

static bool same(const told *a, const told *b) {
  return memcmp(a->value, b->value, sizeof a->value) == 0;
}

static bool near(const told *a, const told *b) {
  for (int i = 0; i < N_VALUES; i++)
    if (!(fabsf(a->value[i] - b->value[i]) <= 1e-4f * fabsf(b->value[i]))) return false;
  return true;
}

// All kernels compiled, or none; never other bits than those of `first`, if there is one.
static void expect_told(const told *t, const told *first, bool compiled, int warnings, const char *what) {
  EXPECT(t->misses > 4 && t->compiles == (compiled ? t->misses : 0), "%s: %llu of %llu kernels compiled", what,
         t->compiles, t->misses);
  EXPECT(t->opened == compiled && strcmp(t->tier, "llvm") == 0, "%s: tier %s, the compiler is %sopen", what, t->tier,
         t->opened ? "" : "not ");
  EXPECT(t->n_warnings == warnings, "%s: %d warnings", what, t->n_warnings);
  EXPECT(!first || same(t, first), "%s: other bits", what);
}

// Calls with each file of the directory's "cpu"; how many there are. do_it may be NULL.
static int each_file(const char *dir, void (*do_it)(const char *path, void *arg), void *arg) {
  char where[256], path[600];
  int n = 0;
  snprintf(where, sizeof where, "%s/cpu", dir);
  DIR *d = opendir(where);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", where, e->d_name);
    if (do_it) do_it(path, arg);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void damage(const char *path, void *arg) {
  FILE *f = fopen(path, "r+b");
  int c;
  (void)arg;
  EXPECT(f && fseek(f, -100, SEEK_END) == 0 && (c = fgetc(f)) != EOF && fseek(f, -1, SEEK_CUR) == 0 &&
             fputc(c ^ 1, f) != EOF,
         "%s", path);
  if (f) fclose(f);
}

static void cut_off(const char *path, void *arg) {
  (void)arg;
  EXPECT(truncate(path, 150) == 0, "%s", path);
}

static char two[2][600];

static void take_two(const char *path, void *n) {
  if (*(int *)n < 2) snprintf(two[(*(int *)n)++], sizeof two[0], "%s", path);
}

static void add_bytes(const char *path, void *arg) {
  struct stat info;
  if (stat(path, &info) == 0) *(long long *)arg += info.st_size;
}

static void is_temporary(const char *path, void *arg) {
  *(int *)arg += strstr(path, ".tmp") != NULL;
}

static void second_process_compiles_nothing(const char *dir, told *first) {
  *first = run("", dir);
  expect_told(first, NULL, true, 0, "the first process");
  EXPECT(each_file(dir, NULL, NULL) == (int)first->misses, "%d files", each_file(dir, NULL, NULL));
  told second = run("", dir), one = run("TC_NUM_THREADS=1", dir);
  expect_told(&second, first, false, 0, "the second process");
  expect_told(&one, first, false, 0, "one thread");
  told threads = finish(start(self, "", dir, "threads")), forked = finish(start(self, "", dir, "fork"));
  EXPECT(threads.compiles == 0 && !threads.opened && same(&threads, first), "threads");
  expect_told(&forked, first, false, 0, "one that forks");
}

static void damaged_files_are_made_again(const char *dir, const told *first) {
  int n = (int)first->misses;
  each_file(dir, damage, NULL);
  told t = run("", dir), again = run("", dir);
  expect_told(&t, first, true, n, "damaged files");
  expect_told(&again, first, false, 0, "after damaged files");
  each_file(dir, cut_off, NULL);
  t = run("", dir), again = run("", dir);
  expect_told(&t, first, true, n, "files cut off");
  expect_told(&again, first, false, 0, "after files cut off");
  // Two whole files with each other's names.
  n = 0;
  each_file(dir, take_two, &n);
  EXPECT(n == 2 && renameat2(AT_FDCWD, two[0], AT_FDCWD, two[1], RENAME_EXCHANGE) == 0, "%s", two[0]);
  t = run("", dir), again = run("", dir);
  EXPECT(t.compiles == 2 && t.n_warnings == 0 && same(&t, first), "%llu of two foreign files compiled, %d warnings",
         t.compiles, t.n_warnings);
  expect_told(&again, first, false, 0, "after foreign files");
}

static void other_machines_have_kernels_of_their_own(const char *dir, const told *first) {
  bool narrow = tc_compiler_vector_bytes() == 16;
  told t = run("TC_ISA=baseline", dir), again = run("TC_ISA=baseline", dir), own = run("", dir);
  expect_told(&t, NULL, !narrow, 0, "another instruction set");
  EXPECT(near(&t, first), "another instruction set: other values");
  expect_told(&again, &t, false, 0, "another instruction set again");
  expect_told(&own, first, false, 0, "the first instruction set");
  told interp = run("TC_COMPILER=interp", dir);
  EXPECT(
      strcmp(interp.tier, "interp") == 0 && interp.compiles == interp.misses && !interp.opened && same(&interp, first),
      "the interpreter");
  told logged = run("TC_LOG=asm 2>/dev/null", dir);
  EXPECT(logged.compiles == 0 && logged.opened && same(&logged, first), "a process that prints assembly");
}

static void directories_do_no_harm(const char *dir, const told *first) {
  char path[160];
  long long bytes = 0;
  int n_temporary = 0;
  snprintf(path, sizeof path, "%s/file", dir);
  EXPECT(mkdir(dir, 0700) == 0 && mkdir(path, 0700) == 0, "%s", path);
  snprintf(path, sizeof path, "%s/file/cpu", dir);
  FILE *f = fopen(path, "w");  // where the directory should be: for root, too
  if (f) fclose(f);
  snprintf(path, sizeof path, "%s/file", dir);
  told t = run("", path), again = run("", path);
  expect_told(&t, first, true, 1, "a directory that cannot be written");
  expect_told(&again, first, true, 1, "a directory that cannot be written");
  snprintf(path, sizeof path, "%s/full", dir);
  t = finish(start(self, "", path, "full"));
  expect_told(&t, first, true, 1, "no room for files");
  EXPECT(each_file(path, is_temporary, &n_temporary) == 0 && n_temporary == 0, "files are left behind");
  snprintf(path, sizeof path, "%s/none", dir);
  t = run("TC_CACHE_BYTES=0", path), again = run("TC_CACHE_BYTES=0", path);
  expect_told(&t, first, true, 0, "a cap of nothing");
  expect_told(&again, first, true, 0, "a cap of nothing again");
  EXPECT(access(path, F_OK) != 0, "a directory was made");
  snprintf(path, sizeof path, "%s/small", dir);
  t = run("TC_CACHE_BYTES=40000", path);
  expect_told(&t, first, true, 0, "a small cap");
  int n = each_file(path, add_bytes, &bytes);
  EXPECT(n > 0 && n < (int)first->misses && bytes <= 40000, "%d files of %lld bytes", n, bytes);
  again = run("TC_CACHE_BYTES=40000", path);
  EXPECT(again.compiles > 0 && again.compiles < again.misses && same(&again, first), "%llu of %llu compiled",
         again.compiles, again.misses);
}

static void processes_at_once(const char *dir, const told *first) {
  FILE *f[4];
  for (int i = 0; i < 4; i++) f[i] = start(self, "", dir, "once");
  for (int i = 0; i < 4; i++) {
    told t = finish(f[i]);
    EXPECT(t.n_warnings == 0 && same(&t, first), "one of four processes: %d warnings", t.n_warnings);
  }
  told after = run("", dir);
  expect_told(&after, first, false, 0, "after four processes");
  EXPECT(each_file(dir, NULL, NULL) == (int)first->misses, "%d files", each_file(dir, NULL, NULL));
}

static bool copy(const char *from, const char *to) {
  char command[1200];
  snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
  return system(command) == 0;
}

// Changes a byte of the build id, which stands near the beginning.
static bool change_build(const char *path) {
  static const char head[] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
  char bytes[4096];
  FILE *f = fopen(path, "r+b");
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  char *at = memmem(bytes, n, head, sizeof head);
  bool done = at && fseek(f, at - bytes + (long)sizeof head, SEEK_SET) == 0 && fputc(at[sizeof head] ^ 1, f) != EOF;
  if (f) fclose(f);
  return done;
}

// So that it is another machine's, which the system does not open.
static bool change_machine(const char *path) {
  FILE *f = fopen(path, "r+b");
  bool done = f && fseek(f, offsetof(Elf64_Ehdr, e_machine), SEEK_SET) == 0 && fputc(EM_SPARCV9, f) != EOF;
  if (f) fclose(f);
  return done;
}

// This program in a directory without a plug-in, so that one is found where TC_LLVM_PATH says or
// not at all.
static void without_the_compiler_it_interprets(const char *dir, const char *plugin, const told *first) {
  char there[200], program[256], other[256], settings[320];
  snprintf(there, sizeof there, "%s/apart", files_dir);
  snprintf(program, sizeof program, "%s/program", there);
  snprintf(other, sizeof other, "%s/libtc-other.so", there);
  EXPECT(mkdir(there, 0700) == 0 && copy(self, program) && copy(plugin, other) && change_build(other), "%s", there);
  told t = finish(start(program, "TC_LLVM_PATH=", dir, "once"));
  bool elsewhere = t.opened || strcmp(t.tier, "llvm") == 0;  // installed on this machine
  EXPECT(elsewhere || (strcmp(t.tier, "interp") == 0 && t.compiles == t.misses && t.n_warnings == 1),
         "tier %s, %d warnings", t.tier, t.n_warnings);
  EXPECT(same(&t, first), "interpreted, it has other bits");
  snprintf(settings, sizeof settings, "TC_LLVM_PATH='%s'", other);
  t = finish(start(program, settings, dir, "once"));
  told again = finish(start(program, settings, dir, "once"));
  expect_told(&t, first, true, 0, "another build of the compiler");
  expect_told(&again, first, false, 0, "another build of the compiler again");
  // It is found, and what it compiled, but it does not open.
  EXPECT(change_machine(other), "%s", other);
  t = finish(start(program, settings, dir, "once"));
  expect_told(&t, first, false, 0, "a broken compiler that is not needed");
  snprintf(there, sizeof there, "%s/broken", files_dir);
  t = finish(start(program, settings, there, "once"));
  EXPECT(elsewhere || (strcmp(t.tier, "interp") == 0 && t.n_warnings == 2), "a broken compiler: tier %s, %d warnings",
         t.tier, t.n_warnings);
  EXPECT(same(&t, first) && each_file(there, NULL, NULL) == 0, "a broken compiler: %d files",
         each_file(there, NULL, NULL));
}

int main(int argc, char **argv) {
  if (argc > 2) return be_used(argv[2]);
  const char *plugin = getenv("TC_LLVM_PATH");
  if (!plugin || access(plugin, R_OK) != 0) return printf("skipped: no compiler was built\n"), 77;
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
  told first;
  char dir[3][128];
  for (int i = 0; i < 3; i++)
    snprintf(dir[i], sizeof dir[i], "%s", files_path((const char *[]){"kept", "harm", "at-once"}[i]));
  second_process_compiles_nothing(dir[0], &first);
  damaged_files_are_made_again(dir[0], &first);
  other_machines_have_kernels_of_their_own(dir[0], &first);
  without_the_compiler_it_interprets(dir[0], plugin, &first);
  directories_do_no_harm(dir[1], &first);
  processes_at_once(dir[2], &first);
  (void)files_fini();
  return expect_done("planning-disk_cache");
}
