// What TC_PERF writes: addresses lie in executable memory and have one name, code and lines are
// those that run, forked children have files of their own, and files that cannot be written change
// nothing but a line in the log. And gdb's list: what is loaded, nothing else. Skipped where
// kernels are not compiled.
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lowering/codegen/line_table.h"
#include "runtime/options.h"
#include "tests/expect.h"

enum { MOST = 256 };

// A function that a file names.
typedef struct named {
  uintptr_t at;
  size_t bytes;
  char name[64];
} named;

typedef struct names {
  named of[MOST];
  int n;
} names;

static char said[1 << 16];
static float numbers[2000];
static char above[64];  // the directory of this test's files

static void listen(const char *line, void *arg) {
  (void)arg;
  strncat(said, line, sizeof said - strlen(said) - 2);
  strcat(said, "\n");
}

// Kernels of different ops: tanh(x * 2) summed, and x + 1.
static float work(int64_t n) {
  tc_scope s = tc_scope_begin();
  float v = -1, w = -1;
  tc_tensor x = tc_from_host(numbers, tc_dims_of(1, (const int64_t[]){n}), TC_F32);
  EXPECT_OK(tc_item_f32(tc_sum(tc_tanh(tc_mul(x, 2)), TC_ALL, false), &v));
  EXPECT_OK(tc_item_f32(tc_max(tc_add(x, 1), TC_ALL, false), &w));
  tc_scope_end(s);
  return v + w;
}

// In a process of its own, with TC_PERF as given: check(arg), whose failures are the test's.
static void in_child(const char *perf, void (*check)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int before = expect_n_failed;
    setenv("TC_PERF", perf, 1);
    tc_options_reload();
    tc_cache_clear();
    check();
    fflush(stdout);
    _exit(expect_n_failed != before);
  }
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "a child ends with %d", status);
}

// Whether [at, at + bytes) lies in one mapping that may be executed, and whose file has this name.
static bool is_executable(uintptr_t at, size_t bytes, const char *file) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  bool found = false;
  while (maps && !found && fgets(line, sizeof line, maps)) {
    uintptr_t from, to;
    char rights[8];
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s", &from, &to, rights) != 3 || rights[2] != 'x') continue;
    found = file ? strstr(line, file) != NULL : at >= from && at < to && bytes <= to - at;
  }
  if (maps) fclose(maps);
  return found;
}

static bool is_name(const char *name) {
  regex_t r;
  if (regcomp(&r, "^tc_[a-z0-9]+(_[a-z0-9_]+)_[0-9a-f]{4}$", REG_EXTENDED | REG_NOSUB) != 0) return false;
  bool is = regexec(&r, name, 0, NULL, 0) == 0;
  regfree(&r);
  return is;
}

static bool has_prefix(const names *all, const char *prefix) {
  for (int i = 0; i < all->n; i++)
    if (strncmp(all->of[i].name, prefix, strlen(prefix)) == 0) return true;
  return false;
}

static void *read_whole(const char *path, size_t *bytes) {
  FILE *in = fopen(path, "rb");
  char *data = calloc(1, 1 << 22);
  *bytes = in && data ? fread(data, 1, (1 << 22) - 1, in) : 0;
  if (in) fclose(in);
  return data;
}

// ---- the map ----

static void map_path(char path[64], pid_t pid) {
  snprintf(path, 64, "/tmp/perf-%d.map", (int)pid);
}

static void read_map(pid_t pid, names *out) {
  char path[64], *line, *rest = NULL;
  size_t bytes;
  map_path(path, pid);
  char *text = read_whole(path, &bytes);
  out->n = 0;
  for (line = strtok_r(text, "\n", &rest); line && out->n < MOST; line = strtok_r(NULL, "\n", &rest)) {
    named *f = &out->of[out->n];
    if (sscanf(line, "%" SCNxPTR " %zx %63s", &f->at, &f->bytes, f->name) == 3)
      out->n++;
    else
      EXPECT(false, "a line of the map is \"%s\"", line);
  }
  free(text);
}

static void expect_apart(const names *all) {
  for (int i = 0; i < all->n; i++)
    for (int k = 0; k < i; k++)
      EXPECT(all->of[i].at >= all->of[k].at + all->of[k].bytes || all->of[k].at >= all->of[i].at + all->of[i].bytes,
             "%s and %s have the same address", all->of[i].name, all->of[k].name);
}

static void check_map(void) {
  names all;
  char path[64];
  work(1000);
  read_map(getpid(), &all);
  EXPECT(all.n >= 2 && all.n < 20, "%d functions", all.n);
  for (int i = 0; i < all.n; i++) {
    EXPECT(is_name(all.of[i].name), "\"%s\"", all.of[i].name);
    EXPECT(all.of[i].bytes > 0 && is_executable(all.of[i].at, all.of[i].bytes, NULL), "%s is not in code",
           all.of[i].name);
  }
  EXPECT(has_prefix(&all, "tc_f32_mul_tanh_sum_"), "no kernel of mul, tanh and sum");
  EXPECT(has_prefix(&all, "tc_f32_add_max_"), "no kernel of add and max");
  // Kernels that are dropped, and made anew: no address gets a second name.
  for (int64_t n = 1001; n < 1020; n++) {
    tc_cache_clear();
    work(n);
  }
  read_map(getpid(), &all);
  EXPECT(all.n >= 40, "%d functions", all.n);
  expect_apart(&all);
  map_path(path, getpid());
  unlink(path);
}

// A file that an earlier process of this number left is emptied.
static void check_stale_map(void) {
  char path[64];
  names all;
  map_path(path, getpid());
  FILE *old = fopen(path, "w");
  EXPECT(old && fputs("1000 10 tc_old_code_0000\n", old) > 0 && fclose(old) == 0, "%s", path);
  struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
  EXPECT(utimensat(AT_FDCWD, path, times, 0) == 0, "%s", path);
  work(1000);
  read_map(getpid(), &all);
  EXPECT(all.n >= 2 && !has_prefix(&all, "tc_old"), "%d functions", all.n);
  unlink(path);
}

// A child begins with what it inherited, and its parent's file stays as it is.
static void check_forked_map(void) {
  names before, after, own;
  char path[64];
  int status = -1;
  work(1000);
  read_map(getpid(), &before);
  pid_t child = fork();
  if (child == 0) {
    tc_scope s = tc_scope_begin();
    float v;
    EXPECT_OK(tc_item_f32(tc_sum(tc_exp(tc_from_host(numbers, TC_SHAPE(777), TC_F32)), TC_ALL, false), &v));
    tc_scope_end(s);
    read_map(getpid(), &own);
    EXPECT(has_prefix(&own, "tc_f32_mul_tanh_sum_") && has_prefix(&own, "tc_f32_exp_sum_"), "%d functions", own.n);
    expect_apart(&own);
    map_path(path, getpid());
    unlink(path);
    fflush(stdout);
    _exit(expect_n_failed != 0);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0, "the forked child ends with %d", status);
  read_map(getpid(), &after);
  EXPECT(after.n == before.n, "%d and %d functions", before.n, after.n);
  map_path(path, getpid());
  unlink(path);
}

// ---- jitdump ----

// A dump that is being read: records are not aligned.
typedef struct dump {
  const uint8_t *at, *end;
} dump;

static uint64_t take(dump *d, size_t bytes) {
  uint64_t value = 0;
  EXPECT((size_t)(d->end - d->at) >= bytes, "the dump is cut off");
  if ((size_t)(d->end - d->at) < bytes) return 0;
  memcpy(&value, d->at, bytes);
  d->at += bytes;
  return value;
}

static const char *take_text(dump *d) {
  const char *text = (const char *)d->at;
  size_t bytes = strnlen(text, (size_t)(d->end - d->at)) + 1;
  EXPECT(bytes <= (size_t)(d->end - d->at), "a text without end");
  d->at += bytes;
  return text;
}

// Line `number` of a file; false: it has none.
static bool read_line(const char *path, uint64_t number, char *out, size_t bytes) {
  FILE *in = fopen(path, "r");
  bool found = in != NULL;
  for (uint64_t k = 0; found && k < number; k++) found = fgets(out, (int)bytes, in) != NULL;
  if (in) fclose(in);
  return found && number > 0;
}

// The lines of a function; counts loads and stores among them.
typedef struct lines_seen {
  uint64_t code, n, loads, stores;
  uint64_t first, last;
} lines_seen;

static void read_lines(dump d, lines_seen *out) {
  *out = (lines_seen){.code = take(&d, 8), .n = take(&d, 8)};
  for (uint64_t k = 0; k < out->n; k++) {
    char text[400] = "";
    uint64_t at = take(&d, 8), line = take(&d, 4);
    (void)take(&d, 4);
    const char *path = take_text(&d);
    EXPECT(read_line(path, line, text, sizeof text), "%s has no line %" PRIu64, path, line);
    EXPECT(at >= out->code && at >= out->last, "lines do not rise");
    out->loads += strstr(text, " load ") != NULL;
    out->stores += strstr(text, " store ") != NULL;
    out->last = at;
  }
  EXPECT(d.at == d.end, "%td bytes behind the lines", d.end - d.at);
}

static void read_load(dump d, const lines_seen *lines, uint64_t index, named *out) {
  EXPECT(take(&d, 4) == (uint64_t)getpid(), "another process");
  EXPECT(take(&d, 4) != 0, "no thread");
  uint64_t vma = take(&d, 8), code = take(&d, 8), bytes = take(&d, 8);
  EXPECT(take(&d, 8) == index, "not function %" PRIu64, index);
  snprintf(out->name, sizeof out->name, "%s", take_text(&d));
  out->at = code, out->bytes = bytes;
  EXPECT(vma == code && is_name(out->name), "\"%s\"", out->name);
  EXPECT(is_executable(code, bytes, NULL), "%s is not in code", out->name);
  EXPECT((uint64_t)(d.end - d.at) == bytes, "%td bytes of code", d.end - d.at);
  if ((uint64_t)(d.end - d.at) == bytes && is_executable(code, bytes, NULL))
    EXPECT(memcmp(d.at, (const void *)(uintptr_t)code, bytes) == 0, "%s is other code", out->name);
  EXPECT(lines->code == code && lines->last < code + bytes && lines->n >= 5, "%s has %" PRIu64 " lines", out->name,
         lines->n);
  EXPECT(lines->loads > 0 || lines->stores > 0, "%s neither loads nor stores", out->name);
}

// Reads a dump; pid: whose it should be. Checks all that can be checked while its code is loaded.
static void read_dump(const char *path, names *out) {
  size_t bytes;
  void *data = read_whole(path, &bytes);
  dump d = {data, (uint8_t *)data + bytes};
  lines_seen lines = {0};
  uint64_t before = 0;
  EXPECT(take(&d, 4) == 0x4A695444 && take(&d, 4) == 1, "%s is no dump", path);
  EXPECT(take(&d, 4) == 40, "its head");
  uint64_t machine = take(&d, 4), pad = take(&d, 4), pid = take(&d, 4);
  EXPECT(machine == EM_X86_64 || machine == EM_AARCH64, "machine %" PRIu64, machine);
  EXPECT(pad == 0 && pid == (uint64_t)getpid(), "process %" PRIu64, pid);
  before = take(&d, 8);
  EXPECT(take(&d, 8) == 0, "flags");
  for (out->n = 0; d.at < d.end && out->n < MOST;) {
    uint64_t kind = take(&d, 4), size = take(&d, 4), now = take(&d, 8);
    EXPECT(now >= before && size >= 16 && size - 16 <= (uint64_t)(d.end - d.at), "record %" PRIu64, kind);
    if (size < 16 || size - 16 > (uint64_t)(d.end - d.at)) break;
    dump record = {d.at, d.at + size - 16};
    d.at = record.end, before = now;
    if (kind == 2) read_lines(record, &lines);
    if (kind == 0) read_load(record, &lines, (uint64_t)out->n, &out->of[out->n]), out->n++;
    EXPECT(kind == 0 || kind == 2, "record %" PRIu64, kind);
  }
  free(data);
}

static void dump_path(char path[256], pid_t pid) {
  snprintf(path, 256, "%s/tc-perf-%d/jit-%d.dump", above, (int)pid, (int)pid);
}

static void check_dump(void) {
  names all;
  char path[256], marker[64];
  work(1000);
  dump_path(path, getpid());
  read_dump(path, &all);
  EXPECT(all.n >= 2 && has_prefix(&all, "tc_f32_mul_tanh_sum_"), "%d functions", all.n);
  snprintf(marker, sizeof marker, "jit-%d.dump", (int)getpid());
  EXPECT(is_executable(0, 0, marker), "the dump is not mapped");
}

static void check_forked_dump(void) {
  names own;
  char path[256];
  int status = -1;
  work(1000);
  pid_t child = fork();
  if (child == 0) {
    tc_scope s = tc_scope_begin();
    float v;
    EXPECT_OK(tc_item_f32(tc_sum(tc_exp(tc_from_host(numbers, TC_SHAPE(777), TC_F32)), TC_ALL, false), &v));
    tc_scope_end(s);
    dump_path(path, getpid());
    read_dump(path, &own);
    EXPECT(has_prefix(&own, "tc_f32_mul_tanh_sum_") && has_prefix(&own, "tc_f32_exp_sum_"), "%d functions", own.n);
    fflush(stdout);
    _exit(expect_n_failed != 0);
  }
  EXPECT(waitpid(child, &status, 0) == child && status == 0, "the forked child ends with %d", status);
}

// ---- GDB's list ----

// As gdb's manual has them.
typedef struct gdb_entry {
  struct gdb_entry *next, *prev;
  const char *object;
  uint64_t bytes;
} gdb_entry;
extern struct gdb_descriptor {
  uint32_t version, action;
  gdb_entry *relevant, *first;
} __jit_debug_descriptor;

// The kernel that an object in memory defines, found by the addresses of its sections.
static void read_object(const gdb_entry *e, named *out) {
  Elf64_Ehdr head;
  Elf64_Shdr s, text, strings;
  Elf64_Sym sym;
  *out = (named){.at = 0};
  memcpy(&head, e->object, sizeof head);
  for (unsigned i = 0; i < head.e_shnum; i++) {
    memcpy(&s, e->object + head.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_SYMTAB) continue;
    memcpy(&strings, e->object + head.e_shoff + s.sh_link * sizeof s, sizeof s);
    for (uint64_t at = 0; at < s.sh_size; at += sizeof sym) {
      memcpy(&sym, e->object + s.sh_offset + at, sizeof sym);
      if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC) continue;
      memcpy(&text, e->object + head.e_shoff + sym.st_shndx * sizeof s, sizeof s);
      out->at = text.sh_addr + sym.st_value, out->bytes = sym.st_size;
      snprintf(out->name, sizeof out->name, "%s", e->object + strings.sh_offset + sym.st_name);
    }
  }
}

static void check_gdb(void) {
  names all = {.n = 0};
  work(1000);
  EXPECT(__jit_debug_descriptor.version == 1 && __jit_debug_descriptor.action == 0, "gdb's list");
  const gdb_entry *before = NULL;
  for (const gdb_entry *e = __jit_debug_descriptor.first; e && all.n < MOST; before = e, e = e->next) {
    named *f = &all.of[all.n++];
    EXPECT(e->prev == before, "an entry's neighbours");
    read_object(e, f);
    EXPECT(is_name(f->name) && f->bytes > 0 && is_executable(f->at, f->bytes, NULL), "\"%s\" is not in code", f->name);
  }
  EXPECT(all.n >= 2 && has_prefix(&all, "tc_f32_mul_tanh_sum_"), "%d functions", all.n);
  expect_apart(&all);
  tc_cache_clear();
  EXPECT(__jit_debug_descriptor.first == NULL, "a kernel that was dropped is in gdb's list");
}

// ---- what cannot be written ----

static int count_said(const char *text) {
  int n = 0;
  for (const char *at = said; (at = strstr(at, text)); at++) n++;
  return n;
}

static void check_absent_directory(void) {
  setenv("TC_PERF_DIR", "/nowhere/at/all", 1);
  tc_options_reload();
  float v = work(1000);
  EXPECT(v == work(1000) && v > 700, "%g", (double)v);
  work(2000);
  EXPECT(count_said("TC_PERF: /nowhere/at/all: No such file or directory") == 1, "the log says \"%s\"", said);
}

// The file system is full in the middle of a record: whole records remain.
static void check_full_disk(void) {
  char path[256];
  struct rlimit limit = {60000, 60000};
  dump_path(path, getpid());
  signal(SIGXFSZ, SIG_IGN);
  EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0, "no limit");
  for (int64_t n = 1000; n < 1010; n++) {
    tc_cache_clear();
    work(n);
  }
  EXPECT(count_said("TC_PERF: ") == 1 && count_said("perf gets no more names") == 1, "the log says \"%s\"", said);
  size_t bytes;
  free(read_whole(path, &bytes));
  EXPECT(bytes > 40 && bytes < 60000, "%zu bytes", bytes);
  // The code is gone, so only the frame of the records is looked at.
  dump d = {read_whole(path, &bytes), NULL};
  const uint8_t *begin = d.at;
  d.end = d.at + bytes;
  d.at += 40;
  while (d.at < d.end) {
    (void)take(&d, 4);
    uint64_t size = take(&d, 4);
    EXPECT(size >= 16 && size - 8 <= (uint64_t)(d.end - d.at), "a record is cut off");
    if (size < 16 || size - 8 > (uint64_t)(d.end - d.at)) break;
    d.at += size - 8;
  }
  free((void *)(uintptr_t)begin);
}

static void check_nothing(void) {
  char path[256];
  work(1000);
  dump_path(path, getpid());
  EXPECT(access(path, F_OK) != 0, "%s was made", path);
  map_path(path, getpid());
  EXPECT(access(path, F_OK) != 0, "%s was made", path);
}

// Names are made of the work alone, so two processes have the same.
static void same_names(void) {
  char log[2][4096] = {"", ""};
  for (int k = 0; k < 2; k++) {
    said[0] = 0;
    tc_cache_clear();
    work(1000);
    const char *at = strstr(said, "tc_f32_mul_tanh_sum_");
    EXPECT(at != NULL, "the log says \"%s\"", said);
    if (at) snprintf(log[k], sizeof log[k], "%.24s", at);
  }
  EXPECT(strcmp(log[0], log[1]) == 0 && strlen(log[0]) == 24, "\"%s\" and \"%s\"", log[0], log[1]);
}

static void line_tables_are_not_trusted(void) {
  // version 4: advance 3 bytes and 2 lines, twice; the end.
  uint8_t table[] = {0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0,
                     1, 0, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0,    3,  6,  1, 2, 3, 3, 2, 1, 2, 1, 0, 1, 1};
  tc_line_row row[4];
  table[0] = sizeof table - 4;
  table[6] = 30 - 10;
  size_t n = tc_line_table_read(table, sizeof table, row, 4);
  EXPECT(n == 2 && row[0].offset == 0 && row[0].line == 7 && row[1].offset == 3 && row[1].line == 9, "%zu rows", n);
  uint64_t state = 1;
  for (int round = 0; round < 20000; round++) {
    size_t bytes = round % (sizeof table + 1);
    uint8_t *broken = malloc(bytes + 1);  // a block of its own, so that a sanitizer sees each read beyond
    memcpy(broken + 1, table, bytes);
    for (int k = 0; k < 1 + round % 4 && bytes > 0; k++) {
      state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      broken[1 + (state >> 33) % bytes] = (uint8_t)(state >> 25);
    }
    (void)tc_line_table_read(broken + 1, bytes, row, 4);
    free(broken);
  }
  EXPECT(tc_line_table_read(NULL, 0, NULL, 0) == 0, "rows of nothing");
}

int main(void) {
  char command[128];
  snprintf(above, sizeof above, "/tmp/tc-perf-files-XXXXXX");
  if (!mkdtemp(above)) return 1;
  setenv("TC_INTERPRET_FIRST", "0", 1);
  setenv("TC_CACHE_BYTES", "0", 1);
  setenv("TC_LOG", "kernel", 1);
  setenv("TC_PERF_DIR", above, 1);
  unsetenv("TC_PERF");
  tc_set_log(listen, NULL);
  tc_options_reload();
  for (int i = 0; i < 2000; i++) numbers[i] = 0.5;
  line_tables_are_not_trusted();
  work(1000);
  if (!strstr(said, "compiled tc_")) {
    printf("kernels are not compiled here\n");
    return 77;
  }
  same_names();
  in_child("", check_nothing);
  in_child("", check_gdb);
  in_child("map", check_map);
  in_child("map", check_stale_map);
  in_child("map", check_forked_map);
  in_child("jitdump", check_dump);
  in_child("jitdump", check_forked_dump);
  in_child("jitdump", check_absent_directory);
  in_child("jitdump", check_full_disk);
  snprintf(command, sizeof command, "rm -r %s", above);
  EXPECT(system(command) == 0, "%s", command);
  return expect_done("perf_files");
}
