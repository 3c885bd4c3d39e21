// TC_SHIM_MIN's default: 48, 24 for gemm and 64 for strmm. Where there is a directory to keep it
// in, gemm's is measured at its first call, by type.
// In: a real gemm, libtc. Out: a size, also in a file of TC_CACHE_DIR. Its name is of the library
// that defines the routine and of the processor.
// Measured: Zen 5, 1 thread, dgemm, of OpenBLAS as SkylakeX: 0.6x at 12, 0.8x at 16, 1.05x at 24.
// Of OpenBLAS as Haswell, and of BLIS, libtc is faster from 8 on. strmm from the right 0.85x at 56,
// 1x at 64; the others from 48 on 0.9x and more.
// Threads: any; one measures, and the others have the default meanwhile.
#include "shim/least.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/write_whole.h"
#include "shim/direct.h"
#include "shim/find.h"
#include "shim/profile.h"

enum { LEAST_GEMM = 24, LEAST_STRMM = 64, ROUNDS = 7, ORDER_COLUMNS = 102, PLAIN = 111 };

static const int sizes[] = {8, 12, 16, 24, 32, 48};
enum { N_SIZES = sizeof sizes / sizeof *sizes, MOST = 48, LD = MOST + 3 };

// Of s and d.
static struct {
  int state;  // 0: unknown, 1: one thread measures, 2: known
  double volume;
} gemm[2];

static double cube(double x) {
  return x * x * x;
}

static double least_of(const tc_shim_routine *r) {
  if (r->action == TC_SHIM_GEMM) return LEAST_GEMM;
  return r->action == TC_SHIM_TRMM && r->type == 's' ? LEAST_STRMM : TC_SHIM_LEAST;
}

double tc_shim_least_volume(const tc_shim_options *o, const tc_shim_entry *entry) {
  const tc_shim_routine *r = &tc_shim_routines[entry->routine];
  if (o->least_volume >= 0) return o->least_volume;
  if (r->action != TC_SHIM_GEMM) return cube(least_of(r));
  if (!o->cache) return cube(LEAST_GEMM);
  int type = r->type == 'd', state = __atomic_load_n(&gemm[type].state, __ATOMIC_ACQUIRE);
  return state == 2 ? gemm[type].volume : cube(state == 0 ? sizes[0] : LEAST_GEMM);
}

double tc_shim_least_size(const tc_shim_options *o, const tc_shim_entry *entry) {
  if (o->least_volume >= 0) return o->least;
  return least_of(&tc_shim_routines[entry->routine]);
}

// ---- Timing ----

// Integers of 64 bits are read as such, or as the 32 that they fit in, which come first in memory.
typedef void fortran_gemm(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const void *,
                          const void *, const int64_t *, const void *, const int64_t *, const void *, void *,
                          const int64_t *, size_t, size_t);
typedef void cblas_gemm_d(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, const void *, int64_t,
                          const void *, int64_t, double, void *, int64_t);
typedef void cblas_gemm_s(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, const void *, int64_t,
                          const void *, int64_t, float, void *, int64_t);

typedef struct contest {
  const tc_shim_entry *entry;
  void *real;
  void *a, *b, *c;
} contest;

static void call_real(const contest *t, int64_t n) {
  static const double one = 1;
  static const float one_s = 1;
  const int64_t ld = LD;
  bool is_double = tc_shim_routines[t->entry->routine].type == 'd';
  const void *scalar = is_double ? (const void *)&one : (const void *)&one_s;
  if (!t->entry->is_cblas)
    ((fortran_gemm *)t->real)("N", "N", &n, &n, &n, scalar, t->a, &ld, t->b, &ld, scalar, t->c, &ld, 1, 1);
  else if (is_double)
    ((cblas_gemm_d *)t->real)(ORDER_COLUMNS, PLAIN, PLAIN, n, n, n, 1, t->a, ld, t->b, ld, 1, t->c, ld);
  else
    ((cblas_gemm_s *)t->real)(ORDER_COLUMNS, PLAIN, PLAIN, n, n, n, 1, t->a, ld, t->b, ld, 1, t->c, ld);
}

static bool call_libtc(const contest *t, int64_t n) {
  const tc_shim_call call = {.routine = &tc_shim_routines[t->entry->routine],
                             .m = n,
                             .n = n,
                             .k = n,
                             .operand = {t->a, t->b, t->c},
                             .step = {LD, LD, LD}};
  return tc_shim_direct(&call, 1, 1);
}

// Ticks of the real routine over libtc's; 0: libtc refuses.
static double compare(const contest *t, int n) {
  uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
  int calls = 2000 / (n * n) + 1;
  for (int round = 0; round < ROUNDS; round++)
    for (int who = 0; who < 2; who++) {
      uint64_t start = tc_shim_ticks();
      for (int i = 0; i < calls; i++) {
        if (!who)
          call_real(t, n);
        else if (!call_libtc(t, n))
          return 0;
      }
      uint64_t ticks = tc_shim_ticks() - start;
      if (ticks < least[who]) least[who] = ticks;
    }
  return least[1] ? (double)least[0] / (double)least[1] : 0;
}

// The size from which libtc is not slower; 48 where there is none, or no memory.
static int measure(contest *t) {
  const size_t bytes = (size_t)LD * LD * sizeof(double);
  char *memory = tc_shim_memory(3 * bytes);
  int least = TC_SHIM_LEAST;
  if (!memory) return least;
  bool is_double = tc_shim_routines[t->entry->routine].type == 'd';
  for (int i = 0; i < 3 * LD * LD; i++) {
    if (is_double)
      ((double *)memory)[i] = 1. / (1 + i % 7);
    else
      ((float *)memory)[i] = 1.f / (float)(1 + i % 7);
  }
  t->a = memory;
  t->b = memory + bytes;
  t->c = memory + 2 * bytes;
  for (int i = N_SIZES - 1; i >= 0 && compare(t, sizes[i]) >= .98; i--) least = sizes[i];
  munmap(memory, 3 * bytes);
  return least;
}

// ---- Keeping ----

static uint64_t hash_text(uint64_t hash, const char *text) {
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
  return hash;
}

// What the processor is, as the first lines of /proc/cpuinfo say, but for its clock.
static uint64_t hash_processor(uint64_t hash) {
  FILE *f = fopen("/proc/cpuinfo", "re");
  char line[512];
  for (int i = 0; f && i < 7 && fgets(line, sizeof line, f); i++)
    if (!strstr(line, "MHz")) hash = hash_text(hash, line);
  if (f) fclose(f);
  return hash;
}

static void name_file(const tc_shim_options *o, const contest *t, char *out, size_t bytes) {
  char library[4096] = "", text[128];
  uintptr_t base, end;
  struct stat info = {0};
  tc_shim_module_of((uintptr_t)t->real, library, sizeof library, &base, &end);
  (void)stat(library, &info);
  snprintf(text, sizeof text, "%lld %lld %c", (long long)info.st_mtime, (long long)info.st_size,
           tc_shim_routines[t->entry->routine].type);
  uint64_t hash = hash_text(hash_text(hash_processor(0xcbf29ce484222325), library), text);
  snprintf(out, bytes, "%s/shim-gemm-%016llx", o->cache, (unsigned long long)hash_text(hash, o->core ? o->core : ""));
}

// 0: there is none, or something else has its name.
static int read_kept(const char *path) {
  char text[16] = "", *end;
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool is_file = file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  ssize_t n = is_file ? read(file, text, sizeof text - 1) : -1;
  if (file >= 0) close(file);
  long least = n > 0 ? strtol(text, &end, 10) : 0;
  return least >= sizes[0] && least <= TC_SHIM_LEAST && strcmp(end, "\n") == 0 ? (int)least : 0;
}

// A size that cannot be kept is measured again.
static void keep(const tc_shim_options *o, const char *path, int least) {
  char text[16], beside[4096 + 32];
  int n = snprintf(text, sizeof text, "%d\n", least);
  snprintf(beside, sizeof beside, "%s.%d.tmp", path, (int)getpid());
  if (mkdir(o->cache, 0700) != 0 && errno != EEXIST) return;
  int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  bool done = tc_write_whole(file, text, (size_t)n);
  close(file);
  if (!done || rename(beside, path) != 0) unlink(beside);
}

void tc_shim_least_measure(const tc_shim_options *o, const tc_shim_entry *entry, void *real) {
  const tc_shim_routine *r = &tc_shim_routines[entry->routine];
  int type = r->type == 'd', unknown = 0, kept_errno = errno;
  if (o->least_volume >= 0 || !o->cache || __atomic_load_n(&gemm[type].state, __ATOMIC_RELAXED) != 0 ||
      !__atomic_compare_exchange_n(&gemm[type].state, &unknown, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  contest t = {.entry = entry, .real = real};
  char path[4096];
  name_file(o, &t, path, sizeof path);
  int least = read_kept(path);
  if (!least) {
    least = measure(&t);
    keep(o, path, least);
  }
  gemm[type].volume = cube(least);
  __atomic_store_n(&gemm[type].state, 2, __ATOMIC_RELEASE);
  errno = kept_errno;
}
