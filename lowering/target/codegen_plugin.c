// Finds and opens the code generator's plug-in. See codegen_plugin.h. Searched in order:
// TC_LLVM_PATH, the library's own directory, the installation directory, the system's search path.
#include "lowering/target/codegen_plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/log.h"
#include "runtime/object_file.h"
#include "runtime/options.h"
#include "runtime/status.h"

#define PATH_BYTES 4096
#define MOST_HEADERS 64
#define MOST_NOTES 1024  // bytes of a note segment that are read

static struct {
  const tc_isa *foreign;  // the instruction set whose plug-in was searched; NULL: this machine's
  pthread_once_t opened;
  const tc_llvm_plugin *plugin;  // NULL: there is none, or it was not opened yet
  char build[TC_BUILD_BYTES], why[TC_WHY_BYTES];  // its build id, and the reason if there is none
} self = {.opened = PTHREAD_ONCE_INIT};

// ---- the build id of a file ----

// The build id in a segment of notes; false: it has none.
static bool id_of_notes(const char *notes, size_t bytes, char build[TC_BUILD_BYTES]) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
    Elf64_Nhdr h;
    memcpy(&h, notes + at, sizeof h);
    at += sizeof h;
    size_t name = ((size_t)h.n_namesz + 3) / 4 * 4, id = ((size_t)h.n_descsz + 3) / 4 * 4;
    if (name > bytes - at || id > bytes - at - name) return false;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0 && h.n_descsz > 0 &&
        2 * h.n_descsz < TC_BUILD_BYTES) {
      for (size_t i = 0; i < h.n_descsz; i++) snprintf(build + 2 * i, 3, "%02x", (unsigned char)notes[at + name + i]);
      return true;
    }
    at += name + id;
  }
  return false;
}

static void id_of_file(int fd, char build[TC_BUILD_BYTES]) {
  Elf64_Ehdr head;
  *build = 0;
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return;
  for (int i = 0; i < TC_MIN(head.e_phnum, MOST_HEADERS); i++) {
    Elf64_Phdr h;
    char notes[MOST_NOTES];
    if (pread(fd, &h, sizeof h, (off_t)(head.e_phoff + (uint64_t)i * sizeof h)) != (ssize_t)sizeof h) return;
    if (h.p_type != PT_NOTE) continue;
    ssize_t n = pread(fd, notes, TC_MIN(h.p_filesz, sizeof notes), (off_t)h.p_offset);
    if (n > 0 && id_of_notes(notes, (size_t)n, build)) return;
  }
}

// The build id of a file, "" if it has none. False: there is no such file.
static bool id_of_path(const char *path, char build[TC_BUILD_BYTES]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  *build = 0;
  if (fd < 0) return false;
  id_of_file(fd, build);
  close(fd);
  return true;
}

// ---- the search path ----

enum { GIVEN, BESIDE, INSTALLED, BY_NAME, N_PLACES };

static void in_directory_of(const char *path, const char *name, char out[PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  snprintf(out, PATH_BYTES, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
}

// The name to open for one entry of the search path; false: this entry does not apply.
static bool name_at(int place, const tc_isa *foreign, char out[PATH_BYTES]) {
  static const char here;
  const char *given = tc_options_get()->llvm_path;
  char name[64];
  Dl_info info;
  snprintf(name, sizeof name, foreign ? "libtc-llvm-%s.so" : "libtc-llvm.so", foreign ? foreign->name : "");
  switch (place) {
    case GIVEN:
      if (given && foreign)
        in_directory_of(given, name, out);
      else if (given)
        snprintf(out, PATH_BYTES, "%s", given);
      return given != NULL;
    case BESIDE:
      if (!dladdr(&here, &info) || !info.dli_fname) return false;
      in_directory_of(info.dli_fname, name, out);
      return true;
    case INSTALLED:
#ifdef TC_LLVM_PLUGIN_DIR
      snprintf(out, PATH_BYTES, "%s/%s", TC_LLVM_PLUGIN_DIR, name);
      return *TC_LLVM_PLUGIN_DIR != 0;
#else
      return false;
#endif
    default: snprintf(out, PATH_BYTES, "%s", name); return true;
  }
}

void tc_plugin_find(const tc_isa *foreign, char build[TC_BUILD_BYTES]) {
  char path[PATH_BYTES];
  *build = 0;
  self.foreign = foreign;
  for (int place = GIVEN; place < N_PLACES; place++) {
    if (!name_at(place, foreign, path)) continue;
    // A name without a directory is left to the system's search.
    if (!strchr(path, '/') || id_of_path(path, build)) return;
  }
}

// ---- opening ----

// Opens a file; NULL: `why` has the reason. A name without a directory is left to the system's
// search.
static void *open_whole(const char *path, char why[TC_WHY_BYTES]) {
  tc_error_mark before = tc_error_now();
  if (strchr(path, '/') && access(path, R_OK) == 0 && tc_object_file_check(path, "compile", 0) != TC_OK) {
    snprintf(why, TC_WHY_BYTES, "%.*s", TC_WHY_BYTES - 1, tc_last_error()->message);
    (void)tc_error_tell(before);  // another place may have it
    return NULL;
  }
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) snprintf(why, TC_WHY_BYTES, "%.*s", TC_WHY_BYTES - 1, dlerror());
  return lib;
}

static void *open_first(const tc_isa *foreign, char why[TC_WHY_BYTES]) {
  char path[PATH_BYTES];
  void *lib = NULL;
  for (int place = GIVEN; place < N_PLACES && !lib; place++) {
    if (!name_at(place, foreign, path)) continue;
    lib = open_whole(path, why);
    if (!lib && place == GIVEN && !foreign)
      tc_log_line(TC_LOG_WARN, "TC_LLVM_PATH cannot be opened and is ignored: %s", why);
  }
  return lib;
}

static void open_once(void) {
  const tc_llvm_plugin *(*get)(void) = NULL;
  Dl_info info;
  void *lib = open_first(self.foreign, self.why);
  if (!lib) return;
  *(void **)&get = dlsym(lib, "tc_llvm_plugin_get");
  const tc_llvm_plugin *p = get ? get() : NULL;
  if (!p || p->abi != TC_LLVM_ABI) {
    snprintf(self.why, sizeof self.why,
             p ? "the compiler plug-in is of another version" : "the plug-in lacks its symbol");
    return;
  }
  if (dladdr((const void *)p, &info) && info.dli_fname) (void)id_of_path(info.dli_fname, self.build);
  self.plugin = p;
}

const tc_llvm_plugin *tc_plugin_open(char build[TC_BUILD_BYTES], char why[TC_WHY_BYTES]) {
  pthread_once(&self.opened, open_once);
  memcpy(build, self.build, sizeof self.build);
  memcpy(why, self.why, sizeof self.why);
  return self.plugin;
}
