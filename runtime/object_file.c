// Whether a shared object is whole. See object_file.h.
#include "runtime/object_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Where the last of its segments ends; 0: it is no ELF file of this word size. UINT64_MAX: not even
// its headers are there.
static uint64_t end_of_segments(int fd) {
  ElfW(Ehdr) head;
  ElfW(Phdr) segment;
  uint64_t end = 0;
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head) return UINT64_MAX;
  bool ours = memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof segment &&
              head.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32);
  for (unsigned i = 0; ours && i < head.e_phnum; i++) {
    uint64_t at;
    if (__builtin_add_overflow(head.e_phoff, (uint64_t)i * sizeof segment, &at) || at > INT64_MAX ||
        pread(fd, &segment, sizeof segment, (off_t)at) != (ssize_t)sizeof segment ||
        __builtin_add_overflow(segment.p_offset, segment.p_filesz, &at))
      return UINT64_MAX;
    if (segment.p_type != PT_NULL && at > end) end = at;
  }
  return end;
}

tc_status tc_object_file_check(const char *path, const char *op, tc_site site) {
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &s) != 0) {
    int why = errno;
    if (fd >= 0) (void)close(fd);
    return tc_fail(TC_ERR_IO, op, site, "%.200s cannot be read: %s", path, strerror(why));
  }
  uint64_t end = end_of_segments(fd);
  (void)close(fd);
  if (end <= (uint64_t)s.st_size) return TC_OK;
  if (end == UINT64_MAX)
    return tc_fail(TC_ERR_IO, op, site, "%.200s is cut off: its headers do not fit in its %lld bytes", path,
                   (long long)s.st_size);
  return tc_fail(TC_ERR_IO, op, site, "%.200s is cut off: it has %lld bytes, and its segments %llu; build it again",
                 path, (long long)s.st_size, (unsigned long long)end);
}
