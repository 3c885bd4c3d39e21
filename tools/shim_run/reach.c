// Whether the shim, preloaded, can reach the BLAS calls of a program: reads its ELF file and those
// it is linked to.
// In: a program's name, the shim. Out: false and a sentence where it surely cannot. Invariants:
// nothing of the program runs; what is linked to it is told by the dynamic linker, as ldd asks it.
#include "tools/shim_run/reach.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// A file in memory; text is NULL if it cannot be read.
typedef struct image {
  const char *text;
  size_t bytes;
} image;

static image open_image(const char *path) {
  image m = {0};
  struct stat st;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file >= 0 && fstat(file, &st) == 0 && st.st_size > 0) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (p != MAP_FAILED) m = (image){p, (size_t)st.st_size};
  }
  if (file >= 0) close(file);
  return m;
}

static void close_image(image m) {
  if (m.text) munmap((void *)m.text, m.bytes);
}

// A part of a file; NULL where the file ends before it does.
static const void *part(image m, uint64_t at, uint64_t bytes) {
  return at <= m.bytes && bytes <= m.bytes - at ? m.text + at : NULL;
}

static const ElfW(Ehdr) * elf_header(image m) {
  const ElfW(Ehdr) *h = part(m, 0, sizeof *h);
  return h && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 ? h : NULL;
}

static bool is_ours(const ElfW(Ehdr) * h) {
#if defined(__x86_64__)
  return h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_machine == EM_X86_64;
#else
  return h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_machine == EM_AARCH64;
#endif
}

static bool has_interpreter(image m, const ElfW(Ehdr) * h) {
  const ElfW(Phdr) *p = part(m, h->e_phoff, (uint64_t)h->e_phnum * sizeof *p);
  for (int i = 0; p && i < h->e_phnum; i++)
    if (p[i].p_type == PT_INTERP) return true;
  return false;
}

// ---- Names ----

typedef struct names {
  char **list;
  size_t n, cap;
} names;

static void add_name(names *s, const char *name) {
  if (s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 256;
    char **list = realloc(s->list, cap * sizeof *list);
    if (!list) return;
    s->list = list;
    s->cap = cap;
  }
  if ((s->list[s->n] = strdup(name)) != NULL) s->n++;
}

static void free_names(names *s) {
  for (size_t i = 0; i < s->n; i++) free(s->list[i]);
  free(s->list);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_name(const names *s, const char *name) {
  return s->n && bsearch(&name, s->list, s->n, sizeof *s->list, compare_names);
}

// The dynamic symbols that a file defines, or those it wants of others.
static void read_symbols(const char *path, bool defined, names *out) {
  image m = open_image(path);
  const ElfW(Ehdr) *h = elf_header(m);
  const ElfW(Shdr) *sections = h && is_ours(h) ? part(m, h->e_shoff, (uint64_t)h->e_shnum * sizeof *sections) : NULL;
  for (int i = 0; sections && i < h->e_shnum; i++) {
    const ElfW(Shdr) *s = &sections[i];
    if (s->sh_type != SHT_DYNSYM || s->sh_link >= h->e_shnum) continue;
    const ElfW(Shdr) *strings = &sections[s->sh_link];
    const ElfW(Sym) *symbol = part(m, s->sh_offset, s->sh_size);
    const char *text = part(m, strings->sh_offset, strings->sh_size);
    for (uint64_t k = 0; symbol && text && k < s->sh_size / sizeof *symbol; k++)
      if (symbol[k].st_name < strings->sh_size && (symbol[k].st_shndx != SHN_UNDEF) == defined)
        add_name(out, text + symbol[k].st_name);
  }
  close_image(m);
  if (out->n) qsort(out->list, out->n, sizeof *out->list, compare_names);
}

// ---- The program ----

static bool find_program(const char *name, char *out, size_t bytes) {
  const char *path = getenv("PATH");
  if (strchr(name, '/')) return (size_t)snprintf(out, bytes, "%s", name) < bytes && access(out, X_OK) == 0;
  for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
    int n = (int)strcspn(at, ":");
    if ((size_t)snprintf(out, bytes, "%.*s/%s", n ? n : 1, n ? at : ".", name) < bytes && access(out, X_OK) == 0)
      return true;
    at += n + (at[n] == ':');
  }
  return false;
}

// The program that runs a script, by its first line; env's is the first word that is no option.
// False: no script.
static bool find_interpreter(const char *path, char *out, size_t bytes) {
  char line[256] = "", *save = NULL;
  FILE *f = fopen(path, "re");
  bool is_script = f && fgets(line, sizeof line, f) && line[0] == '#' && line[1] == '!';
  if (f) fclose(f);
  if (!is_script) return false;
  char *word = strtok_r(line + 2, " \t\n", &save);
  const char *slash = word ? strrchr(word, '/') : NULL;
  if (slash && strcmp(slash, "/env") == 0) do
      word = strtok_r(NULL, " \t\n", &save);
    while (word && (*word == '-' || strchr(word, '=')));
  return word && find_program(word, out, bytes);
}

// Files that the dynamic linker would load with a program.
static void read_closure(const char *path, names *out) {
  int ends[2];
  if (pipe(ends) != 0) return;
  pid_t child = fork();
  if (child == 0) {
    char *const argv[] = {(char *)path, NULL};
    setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv(path, argv);
    _exit(127);
  }
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  char line[PATH_MAX + 256];
  while (f && fgets(line, sizeof line, f)) {
    char *begin = strchr(line, '/'), *end = begin ? strstr(begin, " (") : NULL;
    char *arrow = strstr(line, "=> ");
    if (arrow) begin = arrow + 3;
    if (!end || *begin != '/') continue;
    *end = 0;
    add_name(out, begin);
  }
  if (f)
    fclose(f);
  else
    close(ends[0]);
  if (child > 0) waitpid(child, NULL, 0);
}

// What a program imports that may bring BLAS later: modules, or other programs.
static bool may_bring_more(const names *wanted, bool is_program) {
  static const char *const modules[] = {"dlopen", "dlmopen"};
  static const char *const programs[] = {"execv",  "execve",  "execvp",      "execvpe",      "execl",  "execlp",
                                         "execle", "fexecve", "posix_spawn", "posix_spawnp", "system", "popen"};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (has_name(wanted, modules[i])) return true;
  for (size_t i = 0; is_program && i < sizeof programs / sizeof *programs; i++)
    if (has_name(wanted, programs[i])) return true;
  return false;
}

static bool is_system_library(const char *path) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "libtc-shim", 10) == 0;
}

// What the shim exports beside BLAS.
static bool is_of_libc(const char *name) {
  return strcmp(name, "dlclose") == 0 || strcmp(name, "pthread_exit") == 0;
}

// Whether the program, or a library that it is linked to, wants a name of the shim's or may load
// one that does.
static bool wants_blas(const char *path, const char *shim) {
  names blas = {0}, files = {0};
  bool found = false;
  read_symbols(shim, true, &blas);
  add_name(&files, path);
  read_closure(path, &files);
  for (size_t i = 0; i < files.n && !found; i++) {
    names wanted = {0};
    if (i > 0 && is_system_library(files.list[i])) continue;
    read_symbols(files.list[i], false, &wanted);
    found = may_bring_more(&wanted, i == 0);
    for (size_t k = 0; k < wanted.n && !found; k++)
      found = !is_of_libc(wanted.list[k]) && has_name(&blas, wanted.list[k]);
    free_names(&wanted);
  }
  free_names(&blas);
  free_names(&files);
  return found;
}

bool tc_shim_reaches(const char *program, const char *shim, char *why, size_t bytes) {
  char path[PATH_MAX], interpreter[PATH_MAX];
  struct stat st;
  if (!find_program(program, path, sizeof path)) return true;  // whoever runs it says so
  if (find_interpreter(path, interpreter, sizeof interpreter)) memcpy(path, interpreter, sizeof path);
  image m = open_image(path);
  const ElfW(Ehdr) *h = elf_header(m);
  const char *what = NULL;
  if (!h)
    what = NULL;
  else if (!is_ours(h))
    what = "is built for another processor than the shim";
  else if (!has_interpreter(m, h))
    what = "is linked statically, so nothing can be preloaded into it";
  else if (stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) && geteuid() != st.st_uid)
    what = "runs with another user's rights, so the system preloads nothing into it";
  else if (!wants_blas(path, shim))
    what = "asks no library for BLAS: it calls none, or has its own linked statically, which the shim cannot reach";
  close_image(m);
  if (what) snprintf(why, bytes, "%s %s", path, what);
  return !what;
}
