// Loading back ends: what is said of wrong ones, names, TC_BACKEND_PATH, several at once.
//   loading FAR.so SLOW.so WRONG.so
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tc/backend.h>
#include <unistd.h>

#include "tests/expect.h"

static const char *far, *slow, *wrong;

static const struct {
  const char *way, *says;
} ways[] = {
    {"NULL", "tc_backend_query(1) returned NULL: it has nothing for this version of tc"},
    {"version", "its table is of version 7; this tc takes version 1"},
    {"size 0", "its table is of version 0; this tc takes version 1"},
    {"size", "struct_size is 64; a table of version 1 has"},
    {"no name", "its name is NULL; 1 to 23 of the characters a to z, 0 to 9 and _ were expected"},
    {"name", "its name is \"tc:wrong\"; 1 to 23"},
    {"long name", "its name is \"a_name_of_more_than_23_characters\"; 1 to 23"},
    {"cpu", "the name \"cpu\" is taken, by tc itself"},
    {"far", "the name \"far\" is taken, by "},
    {"supports", "the field supports is NULL"},
    {"run", "the field run is NULL"},
    {"alloc", "the field alloc is NULL; only with TC_BACKEND_HOST_MEMORY"},
    {"free", "the field free is NULL"},
    {"write", "the field write is NULL"},
    {"read", "the field read is NULL"},
};

static void wrong_tables_are_refused(void) {
  const char *device = "x";
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    setenv("WRONG", ways[i].way, 1);
    EXPECT_FAILS(tc_backend_load(wrong, &device), TC_ERR_DEVICE, ways[i].says);
    EXPECT(device == NULL, "%s: the name was left as it was", ways[i].way);
    EXPECT_FAILS(tc_backend_load(wrong, NULL), TC_ERR_DEVICE, wrong);
  }
}

static void wrong_files_are_refused(const char *own) {
  EXPECT_FAILS(tc_backend_load(NULL, NULL), TC_ERR_ARG, "the path is NULL");
  EXPECT_FAILS(tc_backend_load("", NULL), TC_ERR_ARG, "the path is empty");
  EXPECT_FAILS(tc_backend_load("/no/such/file.so", NULL), TC_ERR_IO, "there is no file /no/such/file.so");
  EXPECT_FAILS(tc_backend_load("/", NULL), TC_ERR_IO, "/ is a directory");
  EXPECT_FAILS(tc_backend_load("meson.build", NULL), TC_ERR_IO, "meson.build");
  EXPECT_FAILS(tc_backend_load(own, NULL), TC_ERR_IO, own);  // a program is no shared object
}

// The loader would map pages behind the end of such a file, and die of the first that it reads.
static void files_that_are_cut_off_are_refused(void) {
  char path[64];
  struct stat s;
  snprintf(path, sizeof path, "/tmp/tc-cut-%d.so", (int)getpid());
  int in = open(far, O_RDONLY), out = open(path, O_RDWR | O_CREAT | O_TRUNC, 0700);
  EXPECT(in >= 0 && out >= 0 && fstat(in, &s) == 0, "%s", path);
  EXPECT(sendfile(out, in, NULL, (size_t)s.st_size) == s.st_size, "%s", path);
  for (off_t bytes = s.st_size - 1; bytes > 0; bytes = bytes * 3 / 4) {
    EXPECT(ftruncate(out, bytes) == 0, "%s", path);
    tc_clear_error();
    // section headers at the end, which no loader reads, may be missing
    if (tc_backend_load(path, NULL) == TC_ERR_DEVICE) continue;  // its name is taken
    EXPECT(tc_last_error()->status == TC_ERR_IO && strstr(tc_last_error()->message, path), "%lld bytes",
           (long long)bytes);
    if (bytes < 4096) EXPECT(strstr(tc_last_error()->message, "is cut off"), "%lld bytes", (long long)bytes);
  }
  tc_clear_error();
  close(in), close(out), unlink(path);
}

static void devices_that_do_not_open_say_why(void) {
  const char *device;
  setenv("WRONG", "none", 1);
  EXPECT_OK(tc_backend_load(wrong, &device));
  EXPECT_FAILS(tc_set_default_device(device), TC_ERR_DEVICE, "has 0 devices, and none of number 0");
  EXPECT_FAILS(tc_set_default_device("tc:far:2"), TC_ERR_DEVICE, "has 2 devices, and none of number 2");
  EXPECT_FAILS(tc_set_default_device("tc:far:16"), TC_ERR_DEVICE, "devices are numbered from 0 to 15");
  EXPECT_FAILS(tc_set_default_device("tc:far:x"), TC_ERR_DEVICE, "is not one of tc, tc:cpu");
  EXPECT_FAILS(tc_set_default_device("tc:near"), TC_ERR_DEVICE, "tc:far");
  EXPECT_OK(tc_set_default_device("tc:far:1"));
  EXPECT(strcmp(tc_get_default_device(), "tc:far:1") == 0, "%s", tc_get_default_device());
  EXPECT_OK(tc_set_default_device("tc:cpu"));
}

static void loading_again_is_fine(void) {
  const char *first, *second;
  EXPECT_OK(tc_backend_load(far, &first));
  EXPECT_OK(tc_backend_load(far, &second));
  EXPECT(first == second && strcmp(first, "tc:far") == 0, "%s and %s", first, second);
  EXPECT_OK(tc_backend_load(slow, &second));
  EXPECT(strcmp(second, "tc:slow") == 0, "%s", second);
}

// Tensors of two back ends and of the CPU.
static void two_at_once(void) {
  float got[3];
  static const float data[] = {1, -2, 3};
  tc_scope scope = tc_scope_begin();
  EXPECT_OK(tc_set_default_device("tc:far"));
  tc_tensor a = tc_relu(tc_from_host(data, TC_SHAPE(3), TC_F32));
  EXPECT_OK(tc_set_default_device("tc:slow"));
  tc_tensor b = tc_mul(tc_from_host(data, TC_SHAPE(3), TC_F32), 10);
  EXPECT_FAILS(tc_add(a, b), TC_ERR_DEVICE, "tc:far");
  EXPECT_OK(tc_to_host(tc_add(tc_to(a, "tc:slow"), b), got, sizeof got));
  EXPECT(got[0] == 11 && got[1] == -20 && got[2] == 33, "%g %g %g", (double)got[0], (double)got[1], (double)got[2]);
  EXPECT_OK(tc_to_host(tc_add(tc_to(a, "tc:cpu"), tc_to(b, "tc:cpu")), got, sizeof got));
  EXPECT(got[0] == 11 && got[1] == -20 && got[2] == 33, "%g %g %g", (double)got[0], (double)got[1], (double)got[2]);
  EXPECT_OK(tc_to_host(tc_add(tc_to(tc_to(b, "tc:far:1"), "tc:far"), a), got, sizeof got));
  EXPECT(got[0] == 11 && got[2] == 33, "%g %g", (double)got[0], (double)got[2]);
  tc_scope_end(scope);
  EXPECT_OK(tc_set_default_device("tc:cpu"));
}

// What a child of its own variables finds; its exit status says where it failed.
static int with_path(const char *path, int (*child)(void)) {
  int status = 0;
  fflush(stdout);
  setenv("TC_BACKEND_PATH", path, 1);
  pid_t pid = fork();
  if (pid == 0) _exit(child());
  waitpid(pid, &status, 0);
  unsetenv("TC_BACKEND_PATH");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int finds_both(void) {
  if (tc_set_default_device("tc:slow") != TC_OK) return 1;
  if (!tc_backend_device(0) || !tc_backend_device(1) || tc_backend_device(2) || tc_backend_device(-1)) return 2;
  return tc_set_default_device("tc:far") != TC_OK ? 3 : 0;
}

static int is_told_why(void) {
  if (tc_set_default_device("tc:wrong") == TC_OK) return 1;
  if (!strstr(tc_last_error()->message, "the field run is NULL")) return 2;
  if (!strstr(tc_last_error()->message, "/no/such/place")) return 3;
  return tc_set_default_device("tc:far") != TC_OK ? 4 : 0;
}

// pre: the library has read no options yet.
static void paths_are_searched(void) {
  char path[3000], directory[] = "/tmp/tc-backends-XXXXXX", link[64];
  snprintf(path, sizeof path, "%s::%s", far, slow);
  EXPECT(with_path(path, finds_both) == 0, "files");
  setenv("WRONG", "run", 1);
  EXPECT(mkdtemp(directory) != NULL, "no directory");
  snprintf(link, sizeof link, "%s/far.so", directory);
  EXPECT(symlink(far, link) == 0, "no link");
  snprintf(path, sizeof path, "/no/such/place:%s:%s", wrong, directory);
  EXPECT(with_path(path, is_told_why) == 0, "a directory, and what is no back end");
  (void)unlink(link);
  (void)rmdir(directory);
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  far = realpath(argv[1], NULL), slow = realpath(argv[2], NULL), wrong = realpath(argv[3], NULL);
  if (!far || !slow || !wrong) return 2;
  paths_are_searched();
  loading_again_is_fine();
  wrong_tables_are_refused();
  wrong_files_are_refused(argv[0]);
  files_that_are_cut_off_are_refused();
  two_at_once();
  devices_that_do_not_open_say_why();
  tc_shutdown();
  return expect_done("loading");
}
