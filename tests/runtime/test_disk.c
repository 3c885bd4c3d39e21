// Compiled code on disk: what was kept is found again, and no file or directory can do harm.
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tc/tc.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/options.h"
#include "runtime/disk.h"

static tc_disk some = TC_DISK("some"), other = TC_DISK("other");
static char dir[64];
static int n_warnings;
static char warning[512];  // the last

static void count_line(const char *line, void *arg) {
  (void)arg;
  if (strncmp(line, "tc[warn]", 8) != 0) return;
  n_warnings++;
  snprintf(warning, sizeof warning, "%s", line);
}

// bytes: the cap, as text.
static void begin(const char *bytes) {
  snprintf(dir, sizeof dir, "/tmp/tc-disk-XXXXXX");
  cr_assert(mkdtemp(dir));
  setenv("TC_CACHE_DIR", dir, 1);
  setenv("TC_CACHE_BYTES", bytes, 1);
  tc_options_reload();
  tc_set_log(count_line, NULL);
}

static void finish(void) {
  char command[192];
  snprintf(command, sizeof command, "chmod -R u+w %s; rm -r %s", dir, dir);
  cr_expect_eq(system(command), 0);
}

static void keep(const char *key, const char *data, size_t bytes) {
  tc_disk_keep(&some, key, strlen(key), data, bytes);
}

static bool holds(const char *key, const char *data, size_t bytes) {
  size_t n;
  char *found = tc_disk_find(&some, key, strlen(key), &n);
  bool same = found && n == bytes && memcmp(found, data, bytes) == 0 && found[n] == 0;
  tc_free(found);
  return same;
}

// The path of the n-th file; how many there are.
static int files(int n, char *path, size_t bytes) {
  char where[80];
  int count = 0;
  snprintf(where, sizeof where, "%s/some", dir);
  DIR *d = opendir(where);
  for (struct dirent *f; d && (f = readdir(d)) != NULL;)
    if (f->d_name[0] != '.' && count++ == n) snprintf(path, bytes, "%s/%.80s", where, f->d_name);
  if (d) closedir(d);
  return count;
}

Test(disk, what_was_kept_is_found_and_nothing_else) {
  struct stat info;
  char path[256];
  begin("1000000");
  cr_expect(!holds("a key", "code", 4));
  keep("a key", "code", 4);
  keep("another", "more code", 9);
  cr_expect(holds("a key", "code", 4));
  cr_expect(holds("another", "more code", 9));
  cr_expect(!holds("a third", "code", 4));
  cr_expect_eq(files(0, path, sizeof path), 2);
  cr_expect(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
  snprintf(path, sizeof path, "%s/some", dir);
  cr_expect(stat(path, &info) == 0 && (info.st_mode & 0777) == 0700);
  cr_expect_eq(n_warnings, 0);
  size_t n;
  cr_expect(!tc_disk_find(&other, "a key", 5, &n), "another name finds it");
  finish();
}

Test(disk, a_file_with_any_byte_changed_or_cut_off_is_as_none) {
  char path[256], whole[512];
  begin("1000000");
  keep("a key", "some code of a kernel", 21);
  cr_assert_eq(files(0, path, sizeof path), 1);
  int fd = open(path, O_RDWR);
  ssize_t n = read(fd, whole, sizeof whole);
  cr_assert(n > 40 && n < (ssize_t)sizeof whole);
  for (ssize_t i = 0; i < n; i++) {
    char changed = (char)(whole[i] ^ 16);
    cr_assert_eq(pwrite(fd, &changed, 1, i), 1);
    cr_expect(!holds("a key", "some code of a kernel", 21), "byte %zd", i);
    cr_assert_eq(pwrite(fd, &whole[i], 1, i), 1);
  }
  cr_expect_eq(n_warnings, (int)n);
  cr_expect(holds("a key", "some code of a kernel", 21));
  for (ssize_t i = n - 1; i >= 0; i--) {
    cr_assert_eq(ftruncate(fd, i), 0);
    cr_expect(!holds("a key", "some code of a kernel", 21), "cut at %zd", i);
  }
  close(fd);
  keep("a key", "some code of a kernel", 21);
  cr_expect(holds("a key", "some code of a kernel", 21), "it is not put right");
  finish();
}

Test(disk, a_file_that_others_may_write_is_not_trusted) {
  char path[256];
  begin("1000000");
  keep("a key", "code", 4);
  cr_assert_eq(files(0, path, sizeof path), 1);
  cr_assert_eq(chmod(path, 0622), 0);
  cr_expect(!holds("a key", "code", 4));
  finish();
}

Test(disk, a_directory_that_cannot_be_written_is_one_line_in_the_log) {
  char path[256];
  begin("1000000");
  snprintf(path, sizeof path, "%s/some", dir);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);  // a file where the directory should be: for root, too
  cr_assert(fd >= 0);
  close(fd);
  keep("a key", "code", 4);
  keep("another", "code", 4);
  cr_expect_eq(n_warnings, 1);
  cr_expect(!holds("a key", "code", 4));
  finish();
}

Test(disk, directories_that_cannot_be_made_say_why) {
  char path[96];
  begin("1000000");
  snprintf(path, sizeof path, "%s/above/cache", dir);
  setenv("TC_CACHE_DIR", path, 1);
  tc_options_reload();
  cr_assert_eq(chmod(dir, 0555), 0);
  uid_t self = geteuid();
  if (self == 0) cr_assert_eq(seteuid(65534), 0);  // root may make them anywhere
  keep("a key", "code", 4);
  if (self == 0) cr_assert_eq(seteuid(0), 0);
  cr_expect_eq(n_warnings, 1);
  cr_expect(strstr(warning, "Permission denied"), "%s", warning);
  finish();
}

Test(disk, no_more_is_kept_than_the_cap_says_and_the_latest_stay) {
  static char data[1000];
  char key[16], path[256];
  begin("20000");
  for (int i = 0; i < 100; i++) {
    snprintf(key, sizeof key, "key %d", i);
    keep(key, data, sizeof data);
    usleep(1000);  // files are told apart by their times
  }
  int n = files(0, path, sizeof path);
  cr_expect(n >= 10 && n <= 20, "%d files", n);
  cr_expect(holds("key 99", data, sizeof data));
  cr_expect(!holds("key 0", data, sizeof data));
  finish();
}

Test(disk, a_cap_of_nothing_keeps_nothing) {
  char path[256];
  begin("0");
  keep("a key", "code", 4);
  cr_expect(!holds("a key", "code", 4));
  cr_expect_eq(files(0, path, sizeof path), 0);
  finish();
}
