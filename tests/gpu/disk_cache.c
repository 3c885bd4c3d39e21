// Kernels of a GPU that one process compiled are found on the disk by the next: nothing in their
// source or key is of a process, such as an address.
#include <dirent.h>
#include <tc/tc.h>

#include "tests/child.h"
#include "tests/sim/built.h"

static int n_files(const char *dir) {
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

// As the process that this one became: an elementwise kernel, a product and a row's fold, whose
// places in memory are another process's.
static int use(bool compiles) {
  tc_scope scope = tc_scope_begin();
  float sum;
  EXPECT_OK(tc_set_default_device("tc:cuda"));
  tc_tensor y =
      tc_softmax(tc_matmul(tc_exp(tc_full(TC_SHAPE(8, 8), 0.5, TC_F32)), tc_full(TC_SHAPE(8, 8), 2, TC_F32)), 1);
  EXPECT_OK(tc_item_f32(tc_sum(y, TC_ALL, false), &sum));
  EXPECT(sum > 7.99f && sum < 8.01f, "%g", (double)sum);
  tc_scope_end(scope);
  tc_cache_info c = tc_cache_stats();
  EXPECT(c.kernel_misses > 2 && c.compiles == (compiles ? c.kernel_misses : 0), "%d of %d kernels compiled",
         (int)c.compiles, (int)c.kernel_misses);
  return atomic_load(&expect_n_failed) != 0;
}

static int run_again(char *program, char *way, const char *allocations) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    setenv("GLIBC_TUNABLES", allocations, 1);  // other addresses, also where they are not drawn
    execl("/proc/self/exe", program, way, (char *)NULL);
    _exit(1);
  }
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char **argv) {
  if (argc > 1) return use(strcmp(argv[1], "compiles") == 0);
  char dir[] = "/tmp/tc-kept-XXXXXX", images[64], command[64];
  if (!built_simulators()) return printf("skipped: the simulated driver was not built\n"), 77;
  EXPECT(mkdtemp(dir) != NULL, "no directory");
  snprintf(images, sizeof images, "%s/gpu", dir);
  setenv("TC_CACHE_DIR", dir, 1);
  unsetenv("TC_CACHE_BYTES");
  EXPECT(run_again(argv[0], "compiles", "glibc.malloc.arena_max=1") == 0, "the first process failed");
  int first = n_files(images);
  EXPECT(first > 2, "%d files", first);
  EXPECT(run_again(argv[0], "finds", "glibc.malloc.mmap_threshold=64") == 0, "the second process failed");
  EXPECT(n_files(images) == first, "%d files, then %d", first, n_files(images));
  snprintf(command, sizeof command, "rm -r %s", dir);
  EXPECT(system(command) == 0, "%s", command);
  return expect_done("gpu-disk_cache");
}
